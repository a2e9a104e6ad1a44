/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of this directory share, by the file that has it. What
 * auxdecode.c needs of them stands in cmd.h.
 */
#ifndef DECODE_CMD_IMPL_H
#define DECODE_CMD_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include <aux/decode.h>
#include <aux/flow.h>
#include <aux/reader.h>

#include "common/outbuf.h"
#include "decode/cmd/cmd.h"
#include "decode/lib/session/session.h"
#include "decode/lib/session/sink.h"

struct codeview;
struct names;
struct space;

/*
 * ---- follow.c: commands to go on with ----
 *
 * words: "find FUNCTION --longer TIME FILE", after "auxdecode"; see follow.c.
 */
void follow_put(struct outbuf *out, const char *words);
/* What FUNCTION and TIME are, where the user did not say; "": they stay. */
void follow_about(const char *function, const char *time);
/* Of something inside of the user's result: words say which, so --symbol and
 * --module do not stay. As sink_host.follow. */
void follow_put_inside(struct outbuf *out, const char *words);
/* A text, and the commands between backquotes in it in full. path: the file that
 * it is about, NULL: the user's first. */
void follow_expand(struct outbuf *out, const char *text, const char *path);

/*
 * ---- advice.c ----
 *
 * What the user can do about a cause, in terms of auxdecode's options. The
 * library reports causes as codes and never names an option, since a program
 * that embeds it has none; every sentence with a fix is in that file.
 */

/* What goes directly before and after a text with this enum aux_why; never
 * NULL. */
const char *advice_before(int why);
const char *advice_after(int why);

/* The meaning of a gap's cause, and the fix where there is one. */
const char *advice_gap(unsigned cause);

/* Commands to go on with after one; NULL after the last. words has FILE in it,
 * which stands for the path. */
struct advice_next {
	const char *of;		/* the command */
	const char *words, *what;
};
const struct advice_next *advice_next(const char *command, size_t i);

/* Why there is no code at ip, and how to supply it. buf is always
 * terminated. */
/* Says to the others what kind of recording this is. */
void advice_of(const struct aux_reader *r);
/* How functions of a script get names, to be appended where one was not found;
 * NULL: there is none. */
const char *advice_script(void);
/* "[libfoo.so+0x1234]": the name of a function that has no symbol. */
bool advice_is_place(const char *name);
void advice_code(struct codeview *cv, const struct space *space, uint64_t ip,
		 char *buf, size_t len);

/* ---- rewrite.c: what the commands that write recordings share ---- */

#define CMD_PROGRESS_NS UINT64_C(250000000)	/* between two lines of progress */

/* One line of progress on standard error, when it is to be shown. */
struct cmd_progress {
	const char *what;	/* "decoding" */
	bool on;
	bool shown;
	uint64_t shown_ns;
};

void cmd_progress_init(struct cmd_progress *p, const struct cmd_options *o,
		       const char *what);
void cmd_progress_show(struct cmd_progress *p, uint64_t done, uint64_t total);
/* Takes the line away. */
void cmd_progress_end(struct cmd_progress *p);

/* The session that o asks for, without its filters. */
struct session_config cmd_session_config(const struct cmd_options *o);
/* --max-memory, or its default. */
uint64_t cmd_memory(const struct cmd_options *o);
/* -o is there and is not FILE; CMD_OK, or CMD_USAGE with a message. */
int cmd_needs_output(const struct cmd_options *o);
/* An error of a function that fills diag, or does not; path NULL: the text
 * names its file. Returns the status. */
int cmd_failed(const char *path, int err, struct aux_diag *diag);
/* One line on standard error: "auxdecode: OUT: text". */
void cmd_say(const char *path, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- files.c: names of files where there may be many ---- */

struct cmd_files {
	char **v;
	size_t n, cap;
};

/* Adds words, and for a word @LIST the lines of LIST. CMD_OK, or a status after a
 * message. */
int cmd_files_take(struct cmd_files *files, const char *const *words, size_t n);
/* 0, or -AUX_E_NOMEM. */
int cmd_files_add(struct cmd_files *files, const char *name);
void cmd_files_fini(struct cmd_files *files);

/* ---- raw.c ---- */

struct packets;

/* The status after all packets were printed: CMD_GAPS, with a warning, where
 * something was no packet or missing. Flushes the output first. */
int cmd_packets_status(const struct cmd_options *o, const struct packets *p,
		       unsigned gaps);

/* ---- flow.c ---- */

/* The session with everything that o selects: filters and threads, too. Strings
 * belong to o. */
struct session_config cmd_flow_config(const struct cmd_options *o);
/* What the session's sinks ask, with advice and names. */
struct sink_host cmd_host(struct session *s, struct names *names);
/* What the user should know about where the code came from (a file that does not match
 * its build-id, kernel code without a copy, ...), as warnings. */
void cmd_notes(const char *path, const struct session *s);
/* --symbol and --no-demangle of o, whose strings they are. As names_new. */
int cmd_names(struct names **names, const struct cmd_options *o,
	      struct aux_diag *diag);

/* ---- diff.c ---- */

/* The options of o for <aux/decode.h>, which diff and summary decode with.
 * --tid is not among them: diff has one for each recording. Strings belong to
 * o. */
struct aux_decode_options cmd_api_options(const struct cmd_options *o);

/* ---- json.c: what is around the numbers of a command with --json ---- */

struct session_stats;
struct verdict;

/* Begins the object. What follows are members with a comma before them. r NULL:
 * no clock is said. */
void json_begin(struct outbuf *out, const struct cmd_options *o,
		const struct aux_reader *r);
void json_verdict(struct outbuf *out, const struct verdict *v,
		  const struct session *s, const struct session_stats *stats);
/* An element of the verdict's "gaps". */
void json_gap(struct outbuf *out, bool *first, unsigned cause, uint64_t n);
/* A member: the lines of a text, as it would be printed without --json. */
void json_lines(struct outbuf *out, const char *key, const struct outbuf *text);
/* The status, the commands to go on with, the end. */
void json_end(struct outbuf *out, const struct cmd_options *o, int status);

/* ---- info_json.c: the numbers of info ---- */

struct info_json {
	struct aux_reader *r;
	const struct chunks *chunks;
	const struct losses *losses;
	const struct aux_ledger_entry *sum;	/* by cause */
	uint32_t pmu_type;
	uint64_t n_records, n_other;
	const uint64_t *n_by_type, *n_by_flag;
	uint32_t n_types;
	uint64_t n_timed, time_min, time_max, lost_records, lost_samples,
		n_throttled, n_unknown_sources;
	unsigned n_bad;
	bool bad_ledger, bad_sources, damaged, lossy;
};

void info_json_put(struct outbuf *out, const struct info_json *in);

/* ---- verdict.c: what was lost or missing, printed once at the end ---- */

#define VERDICT_MISSING 8 /* different texts kept */

struct verdict {
	const char *path;
	const struct names *names;
	struct sink_report report;
	uint64_t n_gaps[GAP_N_CAUSES];
	char *missing[VERDICT_MISSING]; /* why there was no code */
	uint64_t n_missing[VERDICT_MISSING];
	unsigned n_texts;
};

/* A GAP came by. */
void verdict_gap(struct verdict *v, const struct sink_host *host,
		 const struct flow_ctx *ctx, const struct aux_flow *ev);

/* Prints to standard error; returns CMD_OK, CMD_GAPS, or CMD_FAILED for an
 * empty result. */
int verdict_print(const struct verdict *v, const struct cmd_options *o,
		  const struct session *s, const struct session_stats *stats);
void verdict_free(struct verdict *v);

/* True, and printed to standard error: the file is damaged, or its writer did
 * not finish it. What comes before was read. */
bool verdict_cut(const char *path, const struct session *s);

/* ---- record_text.c: records, feature bits and AUX flags as text for people ---- */

/* "MMAP2"; "TYPE_99" (in buf) for a type that is not known. */
struct name_buf {
	char text[24];
};
const char *record_name(uint32_t type, struct name_buf *buf);

/* "hostname"; "feature 200" */
const char *feature_name(unsigned bit, struct name_buf *buf);

/* PERF_AUX_FLAG_*: "truncated,partial", "none" */
void aux_flags_text(struct outbuf *o, uint64_t flags);

/*
 * One line without its end: offset, size, name, fields, and " | " with the
 * trailer. What has no parser is shown as its first bytes.
 */
void record_text(struct outbuf *o, const struct aux_reader *r,
		 const struct aux_event *ev);

/* gdb.c: a socket that listens to this machine alone, at a port (0: any that is free), and
 * the one client that it is for, after which nobody else comes. -1 with a message. */
int cmd_listen(uint64_t port, unsigned *got);
int cmd_accept(int fd);

#endif
