/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands of auxdecode. decode/auxdecode.c parses the command line into one struct
 * cmd_options (it is the only file that knows option names); a command gets it
 * whole, looks at what it takes, and returns the exit status.
 */
#ifndef DECODE_CMD_CMD_H
#define DECODE_CMD_CMD_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/error.h>

#include "decode/lib/code/code.h"
#include "decode/lib/import/import.h"
#include "common/outbuf.h"

/* Exit status of the program: part of the interface, see auxdecode.1. */
enum cmd_status {
	CMD_OK = 0,	/* complete */
	CMD_FAILED = 1,
	CMD_USAGE = 2,
	CMD_GAPS = 3,	/* finished, but with gaps or loss */
};

#define CMD_IMAGES 256

struct cmd_options {
	const char *command;	/* insn, branch, count, raw, info, dump */
	const char *path;	/* FILE; "-": standard input */
	const char *const *paths;	/* merge: all of them */
	size_t n_paths;
	const char *out_path;	/* -o, NULL: standard output */
	uint64_t limit;		/* -n, 0: none */
	int64_t tid, cpu;	/* --tid, --cpu; -1: all */
	int64_t tid_b;		/* --tid A:B, of diff: of the second FILE */
	const char *only;	/* --only, of diff; NULL: all */
	int color;		/* --color: 0 auto, 1 always, -1 never */
	bool colour;		/* what that comes to */
	bool no_pager;		/* --no-pager */
	bool quick;		/* summary: of what can be read in short */
	int64_t stream;		/* --stream, -1: all */
	struct container_options container;	/* --pt and what goes with it */
	const char *images[CMD_IMAGES];		/* of container */
	bool packets;		/* --packets: dump shows AUX payload too */
	bool dry_run;		/* --dry-run, of repair */
	/* flow commands only */
	const char *fields;	/* -F */
	const char *symbol, *decoder, *plugin;
	const char *to, *schema;	/* --to, --schema, of export */
	const char *module, *period; /* --module, --period, of profile */
	const char *reference;	/* --reference, of verify */
	bool all;		/* --all, of verify */
	struct codeview_config code;	/* --symfs and where else code is */
	const char *syntax;	/* intel or att */
	uint64_t max_depth;	/* --max-depth, 0 none; and what calls shows */
	bool inlines, source, stubs, not_taken;
	const char *by;		/* --by, NULL: not given */
	const char *from, *caller, *longer, *shorter; /* of find; NULL: none */
	bool whole, just_count;	/* --whole, --count, of find */
	const char *per, *min_percent;	/* --per, --min, of flame; NULL: none */
	bool svg;		/* --svg, of flame */
	bool blocks, edges;	/* --blocks, --edges, of hot */
	uint64_t time_from, time_to;	/* ns; to: UINT64_MAX */
	uint64_t last_ns;	/* --last, 0: all */
	bool chunks;		/* --chunk */
	uint64_t chunk_from, chunk_to;
	unsigned n_workers;
	uint64_t chunk_min;
	uint64_t max_memory;	/* --max-memory, 0: the default */
	uint64_t max_size;	/* --max-size, of report; 0: the default */
	uint64_t snapshot;	/* --snapshot, 0: all */
	bool sha256;
	int progress;		/* 1 on, 0 off, -1: when stderr is a terminal */
};

/* Each returns an enum cmd_status. */
int cmd_flow(const struct cmd_options *o);	/* insn, branch, count */
int cmd_profile(const struct cmd_options *o);	/* how often what ran */
int cmd_raw(const struct cmd_options *o);	/* packets with offsets */
int cmd_info(const struct cmd_options *o);	/* what is in this file */
int cmd_dump(const struct cmd_options *o);	/* records and packets */
int cmd_bundle(const struct cmd_options *o);	/* with all code it needs */
int cmd_cut(const struct cmd_options *o);	/* a smaller recording */
int cmd_merge(const struct cmd_options *o);	/* several as one */
int cmd_repair(const struct cmd_options *o);	/* of a killed writer */
int cmd_verify(const struct cmd_options *o);	/* by two decoders */
int cmd_diff(const struct cmd_options *o);	/* of two recordings */
int cmd_start(const struct cmd_options *o);	/* the first screen */

struct command {
	const char *name, *help;
	unsigned bit;		/* of options.h */
	int (*run)(const struct cmd_options *o);
};

/* decode/auxdecode.c: by index (NULL behind the last), or by name (NULL: none). */
const struct command *cmd_get(size_t i);
const struct command *cmd_find(const char *name);

/* help.c: NULL: of all commands. Prints, returns CMD_OK. */
int cmd_help(const struct command *c);
/* What completes words in "bash", "zsh" or "fish"; prints. */
int cmd_completion(const char *shell);

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

/* Values of options; on a bad one they say what name wants and return CMD_USAGE. */
int cmd_parse_number(const char *name, const char *s, uint64_t max,
		     uint64_t *v);
/* Bytes: a number, with K, M, G behind it for 1024 and so on; not 0. */
int cmd_parse_size(const char *name, const char *s, uint64_t *v);
/* A time that is not 0, as 10ms; without a unit seconds. */
int cmd_parse_duration(const char *name, const char *s, uint64_t *ns);
/* "A,B" as --time has it; what is left out stays as it is. */
int cmd_parse_times(const char *s, uint64_t *from, uint64_t *to);

/*
 * The output of a command: -o FILE or standard output. cmd_out_close writes
 * what is left and returns status, or CMD_FAILED with a message when writing
 * failed. A reader that went away (EPIPE) is no failure and says nothing.
 */
int cmd_out_open(struct outbuf **out, const struct cmd_options *o);
int cmd_out_close(struct outbuf *out, const struct cmd_options *o, int status);

#endif
