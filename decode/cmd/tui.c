/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_tui: the recording on a terminal, to look around in. Everything that it
 * needs of the program around it is here; the rest is decode/tui.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/diag.h"
#include "decode/callstack/names.h"
#include "decode/cmd/impl.h"
#include "decode/tui/tui.h"

/* Keys come from a terminal, and text goes to one. */
static int check_terminal(const struct cmd_options *o)
{
	const char *which = !isatty(STDOUT_FILENO) ? "output" :
			    !isatty(STDIN_FILENO) ? "input" : NULL;

	if (o->output.path)
		return cmd_usage("tui writes no FILE; `auxdecode hot -o %s` and the "
				 "other commands do", o->output.path);
	if (which)
		return cmd_usage("tui is for a terminal, and standard %s is none; "
				 "for files and pipes there are `auxdecode hot FILE` "
				 "(functions), `calls`, `flame`, `annotate`, `count`",
				 which);
	return CMD_OK;
}

/* The shell that waits sees the signal as that of any other program. */
static void die_of(int sig)
{
	signal(sig, SIG_DFL);
	raise(sig);
}

static int run(const struct cmd_options *o, struct names *const names[2])
{
	const struct session_config session = cmd_flow_config(o);
	const struct tui_config config = {
		.session = &session, .names = { names[0], names[1] },
		.colour = o->output.colour,
		.full_names = o->filter.full_names || o->filter.mangled,
		.gap_text = advice_gap, .code_text = advice_code,
	};
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int sig, err = tui_run(&config, &sig, &diag);

	if (sig)
		die_of(sig);
	if (err == -AUX_E_UNSUPPORTED && diag.code == AUX_E_UNSUPPORTED) {
		cmd_line("auxdecode: error: %s; `auxdecode hot` and the others work "
			 "without it", diag.text);
		return CMD_FAILED;
	}
	return err ? cmd_failed(o->path, err, &diag) : CMD_OK;
}

int cmd_tui(const struct cmd_options *o)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct names *names[2] = { NULL, NULL };
	int status = check_terminal(o), err = 0;

	if (status)
		return status;
	for (unsigned i = 0; i < 2 && !err; i++)
		err = cmd_names(&names[i], o, &diag);
	status = err ? cmd_failed(NULL, err, &diag) : run(o, names);
	names_free(names[0]);
	names_free(names[1]);
	return status;
}
