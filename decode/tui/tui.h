/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tui: one recording on a terminal, to look around in: functions, the call tree,
 * threads over time, one function's instructions, gaps. It appears at once and
 * fills while the recording is decoded.
 */
#ifndef DECODE_TUI_TUI_H
#define DECODE_TUI_TUI_H

#include <aux/error.h>

#include "decode/lib/session/session.h"

struct names;

struct tui_config {
	const struct session_config *session;
	struct names *names[2];	/* how names are shown, for two threads */
	bool colour;
	bool full_names;	/* else short ones, see names_short() */
	/* The meaning of a gap's cause, and what to do; as in sink_host */
	const char *(*gap_text)(unsigned cause);
	/* Why there is no code at ip; as advice_code. NULL: nothing to say */
	void (*code_text)(struct codeview *cv, const struct space *space,
			  uint64_t ip, char *buf, size_t len);
};

/*
 * Until the user leaves; *sig is the signal that ended it, or 0: the terminal is
 * as it was then. 0, or an error with diag: of the recording, of the terminal,
 * or -AUX_E_UNSUPPORTED where the build has no ncurses.
 */
int tui_run(const struct tui_config *config, int *sig, struct aux_diag *diag);

#endif
