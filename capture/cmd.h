/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands of auxcap. auxcap.c parses the command line into one struct
 * cmd_options (it is the only file that knows option names); a command returns
 * the exit status.
 */
#ifndef AUXCAP_CMD_H
#define AUXCAP_CMD_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/error.h>

/* Exit status of the program: part of the interface, see auxcap.1. */
enum cmd_status {
	CMD_OK = 0,	/* complete */
	CMD_FAILED = 1,
	CMD_USAGE = 2,
	CMD_LOSS = 3,	/* finished, but something is lost */
};

struct cmd_options {
	const char *event;	/* -e */
	const char *path;	/* -o */
	const char *truth;	/* --truth, NULL: none */
	uint32_t inject_overflow;
	bool per_thread;
	bool exit_status;	/* the program's status becomes ours */
	bool quiet;
	int argc;		/* of auxcap, for the recording */
	char *const *argv;
	char *const *program;	/* NULL ended, at least one word */
};

int cmd_record(const struct cmd_options *o);

/* "auxcap: error: text", one line written at once. Returns CMD_USAGE for
 * AUX_E_INVAL, else CMD_FAILED. */
int cmd_error(const struct aux_diag *diag);

#endif
