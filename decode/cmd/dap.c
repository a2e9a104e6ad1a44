/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_dap: a recording in an editor's debugger (decode/dap), which starts this program
 * and speaks with it on standard input and output, or finds it at a port.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"
#include "decode/cmd/impl.h"
#include "decode/dap/dap.h"

struct dap_options {
	const char *port;	/* NULL: standard input and output */
};

/* table */
static const struct option_row dap_rows[] = {
	{ .name = "port", .arg = "N",
	  .help = "a TCP port of this machine in place of standard input and output\n"
		  "(0: any that is free)",
	  OPTION_TEXT(struct dap_options, port) },
	{ .name = NULL },
};

const struct cmd_own cmd_dap_own = {
	.options = dap_rows,
	.config_size = sizeof(struct dap_options),
};

/* Where the editor is. False: a message was printed. */
static bool meet_editor(uint64_t port, struct dap_config *config)
{
	unsigned got;
	int fd = cmd_listen(port, &got);

	if (fd < 0)
		return false;
	cmd_line("auxdecode: waiting for an editor: port %u of this machine", got);
	config->in = config->out = cmd_accept(fd);
	return config->in >= 0;
}

int cmd_dap(const struct cmd_options *o)
{
	const struct dap_options *own = o->own;
	const struct session_config session = cmd_flow_config(o);
	struct dap_config config = { .session = &session, .in = STDIN_FILENO,
					   .out = STDOUT_FILENO,
					   .gap_text = advice_gap };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	uint64_t port = 0;
	int err;

	if (own->port && !option_read_number(own->port, 65535, &port))
		return cmd_usage("--port %s: not a port, 0 to 65535", own->port);
	if (o->output.path)
		return cmd_usage("dap writes no FILE; leave out -o %s", o->output.path);
	if (!own->port && !strcmp(o->path, "-"))
		return cmd_usage("standard input is the editor's: name a FILE, or let the "
				 "editor name it");
	if (!own->port && isatty(STDIN_FILENO))
		return cmd_usage("dap is for an editor to start; on a terminal there is "
				 "`auxdecode gdb FILE`");
	signal(SIGPIPE, SIG_IGN);
	if (own->port && !meet_editor(port, &config))
		return CMD_FAILED;
	err = dap_serve(&config, &diag);
	if (own->port)
		close(config.in);
	return err ? cmd_failed(NULL, err, &diag) : CMD_OK;
}
