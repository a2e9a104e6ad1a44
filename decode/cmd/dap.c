/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_dap: a recording in an editor's debugger (decode/dap), which starts this program
 * and speaks with it on standard input and output.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"
#include "decode/cmd/impl.h"
#include "decode/dap/dap.h"

int cmd_dap(const struct cmd_options *o)
{
	const struct session_config session = cmd_flow_config(o);
	const struct dap_config config = { .session = &session, .in = STDIN_FILENO,
					   .out = STDOUT_FILENO,
					   .gap_text = advice_gap };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int err;

	if (o->output.path)
		return cmd_usage("dap writes no FILE; leave out -o %s", o->output.path);
	if (!strcmp(o->path, "-"))
		return cmd_usage("standard input is the editor's: name a FILE, or let the "
				 "editor name it");
	if (isatty(STDIN_FILENO))
		return cmd_usage("dap is for an editor to start; on a terminal there is "
				 "`auxdecode gdb FILE`");
	signal(SIGPIPE, SIG_IGN);
	err = dap_serve(&config, &diag);
	return err ? cmd_failed(NULL, err, &diag) : CMD_OK;
}
