/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dap: a recording in an editor's debugger, by the Debug Adapter Protocol: VS Code and
 * others step through it, backwards and forwards, by source line and instruction.
 *
 * What trace has is exact: which instruction runs, in which thread, who called it, what
 * ran before and after. Variables and registers are in no trace, and none are shown.
 *
 * Specification: Debug Adapter Protocol 1.68.
 */
#ifndef DECODE_DAP_DAP_H
#define DECODE_DAP_DAP_H

#include "decode/lib/replay/replay.h"

struct dap_config {
	const struct session_config *session;	/* path is that of the recording
						 * where the client names none */
	int in, out;		/* descriptors; not closed */
	const char *(*gap_text)(unsigned cause);	/* NULL: gap_text() */
};

/* Serves one client until it disconnects, or goes away. 0, or -AUX_E_*. */
int dap_serve(const struct dap_config *config, struct aux_diag *diag);

#endif
