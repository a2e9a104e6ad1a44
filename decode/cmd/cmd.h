/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands of auxdecode: what the program and its commands share.
 *
 * A command is a row of the table in commands.c. Its options are rows, too: its
 * own stand with it (or with its sink), those that several commands have are
 * groups of options.c. The command line is parsed into one struct cmd_options,
 * whose own is the struct of the command's (or its sink's) own options.
 */
#ifndef DECODE_CMD_CMD_H
#define DECODE_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <aux/error.h>

#include "common/options.h"
#include "common/outbuf.h"
#include "common/outfile.h"
#include "decode/lib/code/code.h"
#include "decode/lib/import/import.h"
#include "decode/lib/session/sink.h"

/* Exit status of the program: part of the interface, see auxdecode.1. */
enum cmd_status {
	CMD_OK = 0,	/* complete */
	CMD_FAILED = 1,
	CMD_USAGE = 2,
	CMD_GAPS = 3,	/* finished, but with gaps or loss */
};

struct command;

/* ---- options that several commands have ---- */

#define CMD_SYMBOLS 64

/* What part of the recording is wanted. */
struct cmd_filter {
	int64_t tid, cpu;		/* -1: all */
	int64_t stream;			/* -1: all */
	uint64_t snapshot;		/* from 1; 0: all */
	uint64_t time_from, time_to;	/* ns; to: UINT64_MAX */
	bool in_shares;			/* --time 10%-20%, which is to be turned into
					 * these: */
	double share_from, share_to;	/* 0 to 1 */
	uint64_t last_ns;		/* 0: all */
	bool chunks;			/* --chunk was given */
	uint64_t chunk_from, chunk_to;	/* both included */
	/* --symbol, or the operand FUNCTION; none: all functions */
	const char *symbols[CMD_SYMBOLS];
	size_t n_symbols;
	const char *modules[CMD_SYMBOLS];	/* --module; none: all files */
	size_t n_modules;
	uint32_t pids[CMD_SYMBOLS];	/* --pid; none: all processes */
	size_t n_pids;
	const char *comms[CMD_SYMBOLS];	/* --comm; none: threads of any name */
	size_t n_comms;
	bool mangled;			/* --no-demangle */
	bool full_names;		/* --full-names */
};

/* How it is decoded; 0 and NULL: the session's defaults. */
struct cmd_decoding {
	const char *decoder, *plugin;
	uint64_t n_workers, chunk_min, max_memory;
};

#define CMD_IMAGES 256

/* --pt and what goes with it: a recording made of other files. */
struct cmd_import {
	struct import_options options;
	const char *images[CMD_IMAGES], *elfs[CMD_IMAGES]; /* of options */
};

struct cmd_output {
	const char *path;	/* -o, NULL: standard output */
	enum cmd_color { CMD_COLOR_AUTO, CMD_COLOR_ALWAYS, CMD_COLOR_NEVER } color;
	bool colour;		/* what that comes to here */
	bool no_pager;
	bool verbose;		/* -v */
	unsigned width;		/* of the terminal, where names are to fit into it;
				 * 0: they are shown in full */
	bool json;		/* --json */
	int progress;		/* 1 on, 0 off, -1: when stderr is a terminal */
};

#define CMD_INPUTS 256
/* What is read where no FILE is named; auxcap and perf write it. */
#define CMD_DEFAULT_FILE "perf.data"

struct cmd_options {
	const struct command *command;
	const char *path;		/* FILE; "-": standard input */
	const char *const *paths;	/* all of them */
	size_t n_paths;
	const char *inputs[CMD_INPUTS];	/* -i; paths may be these */
	size_t n_inputs;
	bool quick;			/* summary: a few seconds are enough */
	struct cmd_filter filter;
	struct codeview_config code;
	struct cmd_decoding decoding;
	struct cmd_import import;
	struct cmd_output output;
	const char *completion;		/* --completion SHELL */
	bool help, version;
	const struct option_given *given;	/* the options as typed */
	size_t n_given;
	const void *own;	/* as command, or its sink, declares it */
};

/* Options that belong together, parsed into struct cmd_options itself. */
struct cmd_group {
	const char *title;	/* over them in --help */
	const struct option_row *rows;
	bool stays;	/* they say which flow is meant and how it is had: a
			 * command to go on with needs them, too. Not -j: the same
			 * bytes are printed whatever it is */
};

/* options.c */
extern const struct cmd_group cmd_group_tid, cmd_group_who, cmd_group_cpu, cmd_group_time,
	cmd_group_part, cmd_group_stream, cmd_group_snapshot, cmd_group_symbol,
	cmd_group_names, cmd_group_code, cmd_group_import, cmd_group_chunk_size, cmd_group_jobs,
	cmd_group_memory,
	cmd_group_progress, cmd_group_json, cmd_group_input, cmd_group_output;

/* --time in percent: 0, or -AUX_E_INVAL with diag. */
int cmd_parse_share(const char *s, struct cmd_filter *f, struct aux_diag *diag);
/* Sets the times that shares are, of the file that o names. CMD_OK, or a status that has
 * been explained. */
int cmd_time_of_share(struct cmd_options *o);
/* "A,B" as --time has it; what is left out stays as it is. 0, or
 * -AUX_E_INVAL. */
int cmd_parse_times(const char *s, uint64_t *from, uint64_t *to,
		    struct aux_diag *diag);

/* ---- commands ---- */

/* Own options, as struct sink_ops has them: config_size bytes, zeros, then what
 * defaults sets (NULL: zeros are the defaults). */
struct cmd_own {
	const struct option_row *options;
	size_t config_size;
	void (*defaults)(void *config);
};

/* Groups that one command has at most, its own options included. */
#define CMD_GROUPS_MAX 24

struct command {
	const char *name, *help;
	const struct sink_ops *sink;	/* it decodes into this one; NULL: none */
	const struct cmd_own *own;	/* of a command without a sink; a command
					 * with one has the sink's; NULL: none */
	const struct cmd_group *const *groups;	/* NULL-ended */
	const char *operands;	/* "FILE FILE" */
	bool many;		/* takes several FILEs, and checks how many */
	bool none;		/* its options name what it reads */
	bool edits;		/* may write to FILE itself: it must be named */
	bool named;		/* a function (--symbol) may stand before FILE */
	bool paged;		/* people read its output, a screen at a time */
	bool streamed;		/* prints as it decodes: progress would be amid
				 * the lines */
	bool compares;		/* status 0 is "equal" */
	struct cmd_example {
		const char *words;	/* after "auxdecode " */
		const char *what;
	} examples[3];
	int (*run)(const struct cmd_options *o);	/* an enum cmd_status */
};

/* heap.c: before anything of size is allocated. */
void cmd_prepare_heap(void);

/* commands.c: by index (NULL after the last), or by name (NULL: none). The
 * first one is meant where no command is named. */
const struct command *cmd_get(size_t i);
const struct command *cmd_find(const char *name);
/* Its own rows, or its sink's; NULL: none. */
const struct option_row *cmd_rows(const struct command *c);

/* habits.c: what users of other tools type, and what does it here. */
extern const struct habit cmd_habits[];

int cmd_flow(const struct cmd_options *o);	/* all sinks but profile */
int cmd_profile(const struct cmd_options *o);
int cmd_raw(const struct cmd_options *o);
int cmd_info(const struct cmd_options *o);
int cmd_dump(const struct cmd_options *o);
int cmd_buildids(const struct cmd_options *o);
int cmd_bundle(const struct cmd_options *o);
int cmd_cut(const struct cmd_options *o);
int cmd_merge(const struct cmd_options *o);
int cmd_repair(const struct cmd_options *o);
int cmd_verify(const struct cmd_options *o);
int cmd_diff(const struct cmd_options *o);
int cmd_summary(const struct cmd_options *o);
int cmd_tui(const struct cmd_options *o);
int cmd_crash(const struct cmd_options *o);
int cmd_gdb(const struct cmd_options *o);
int cmd_dap(const struct cmd_options *o);
int cmd_gdbserver(const struct cmd_options *o);
int cmd_index(const struct cmd_options *o);
int cmd_store(const struct cmd_options *o);
int cmd_plan(const struct cmd_options *o);
int cmd_map(const struct cmd_options *o);
int cmd_reduce(const struct cmd_options *o);
int cmd_fleet(const struct cmd_options *o);
int cmd_compare(const struct cmd_options *o);

/* Options that one command without a sink has alone, for the table: each stands
 * in the command's file, with the struct that its values are parsed into. */
extern const struct cmd_own cmd_compare_own, cmd_crash_own, cmd_diff_own, cmd_dump_own,
	cmd_fleet_own,
	cmd_dap_own, cmd_gdb_own, cmd_gdbserver_own, cmd_map_own, cmd_merge_own, cmd_plan_own,
	cmd_raw_own, cmd_reduce_own, cmd_repair_own, cmd_summary_own, cmd_verify_own;

/* help.c: NULL: of all commands. Prints, returns CMD_OK. */
int cmd_help(const struct command *c);
/* help.c: what completes words in "bash", "zsh" or "fish"; prints. */
int cmd_completion(const char *shell);

/* follow.c: o is what the user typed, once it is understood. It must live as
 * long as messages are printed. */
void follow_init(const struct cmd_options *o);

/* ---- pager.c: pager and colour ---- */

/*
 * What a person reads on a terminal goes through a pager, and gets colour on
 * the way. Both are child processes that read from a pipe which takes the place
 * of standard output (and of standard error, where that is the same terminal).
 * So no command has code for them, and what goes into a file or a pipe is not
 * touched.
 */
struct pager {
	pid_t pids[2];	/* the pager, the process that colours; 0: none */
	bool both;	/* standard error goes there, too */
};

/* --color, and for "auto": a terminal that is not dumb, and no NO_COLOR
 * (no-color.org). out_path: -o, NULL: standard output. */
bool pager_wants_colour(enum cmd_color color, const char *out_path);
/*
 * A pager when standard output is a terminal and page says so:
 * $AUXDECODE_PAGER, $PAGER, less; none when that is empty or "cat". Colour
 * whether or not there is one. What cannot be started is left out: the output
 * is then plain. *p must live until pager_wait, since a signal handler reads
 * it.
 */
void pager_start(struct pager *p, bool page, bool colour);
/* After the last write: closes the pipe and waits until all was read. */
void pager_wait(struct pager *p);

/* ---- messages ---- */

/* One line on standard error, written at once, cleaned (common/clean.h). fmt
 * has no line feed. */
void cmd_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * One line on standard error, written at once: "auxdecode: error: FILE@0x1f20:
 * text". path NULL, or diag->offset AUX_NO_OFFSET, leave that part out.
 * Returns CMD_FAILED (CMD_USAGE for AUX_E_INVAL), for the caller to return.
 */
int cmd_error(const char *path, const struct aux_diag *diag);
/* The same for a mistake on the command line; returns CMD_USAGE. */
int cmd_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "auxdecode: warning: FILE: text" */
void cmd_warn(const char *path, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- output ---- */

/* The output of a command: -o FILE or standard output. */
struct cmd_out {
	struct outbuf *buf;
	struct outfile file;	/* of -o; not open: standard output */
	bool keep;		/* CMD_FAILED is a result, too: FILE is written */
};

/* -o names no FILE that is read; CMD_OK, or CMD_USAGE with a message. */
int cmd_out_check(const struct cmd_options *o);
/*
 * The FILE of -o is made aside and gets its name in cmd_out_close, if status is
 * CMD_OK or CMD_GAPS: what fails leaves the FILE as it was. cmd_out_close
 * writes what is left and returns status, or CMD_FAILED with a message when
 * writing failed. A reader that went away (EPIPE) is no failure and says
 * nothing. It accepts what was not opened ({ 0 }).
 */
int cmd_out_open(struct cmd_out *out, const struct cmd_options *o);
int cmd_out_close(struct cmd_out *out, const struct cmd_options *o, int status);

#endif
