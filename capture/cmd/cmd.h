/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands of auxcap. capture/auxcap.c parses the command line into one struct
 * cmd_options, by tables; a command returns the exit status.
 */
#ifndef CAPTURE_CMD_CMD_H
#define CAPTURE_CMD_CMD_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <aux/error.h>

#include "capture/event/explain.h"
#include "capture/record/record.h"
#include "common/options.h"

/* Exit status of the program: part of the interface, see auxcap.1. */
enum cmd_status {
	CMD_OK = 0,	/* complete */
	CMD_FAILED = 1,
	CMD_USAGE = 2,
	CMD_LOSS = 3,	/* finished, but something is lost */
};

#define CMD_EVENTS_MAX 64

struct cmd_options {
	struct evlist_word words[CMD_EVENTS_MAX];	/* -e, --filter */
	size_t n_words;
	struct kernel_options kernel;	/* words and target.argv not yet set */
	struct triggers when;	/* --when and what goes with it; as events of the kernel:
				 * with their filters */
	struct triggers windows;	/* --window */
	char when_event[TRIGGERS_MAX][128], when_filter[TRIGGERS_MAX][256];
	struct writer_options writer;
	unsigned switch_keep;
	const char *path;	/* -o */
	const char *truth;	/* --truth, NULL: none */
	uint32_t inject_overflow;
	bool exit_status;	/* the program's status becomes ours */
	bool quiet, verbose;
	bool dry_run;		/* repair */
	uint64_t needless;	/* options of perf record that change nothing: bit N is
				 * cmd_needless[N] */
	const char *callgraph;	/* --call-graph WORD; NULL: none, or fp */
	bool all_user, all_kernel;
	bool help, version;
	const char *completion;	/* --completion SHELL */
	const char *kernel_option;	/* an option that software sources do
					 * not have, "-S"; or NULL */
	struct option_label kernel_label;	/* where that stands */
	int argc;		/* of auxcap, for the recording */
	char *const *argv;
	char *const *words_left;	/* the program, or what a command takes;
					 * NULL ended */
};

/* habits.c: what users of other tools type, and what does it here. */
extern const struct habit cmd_habits[];

/* Options of perf record that are taken and change nothing; not in --help. */
extern const struct option_row *const cmd_needless;
/* Of those that were given: an error for one that would add to samples, with a source that
 * takes samples; and one line on a terminal, with more ("-g -F", or "") of the kind, and why
 * (NULL: for several reasons). */
int cmd_needless_check(const struct cmd_options *o);
void cmd_needless_say(const struct cmd_options *o, const char *more, const char *why);

int cmd_record(struct cmd_options *o);
int cmd_list(const char *what);		/* NULL: everything, in short */
int cmd_doctor(void);
int cmd_crash_handler(const struct cmd_options *o);
int cmd_repair(const char *path, const char *output, bool dry_run, bool quiet);

/* "auxcap: error: text", one line written at once. Returns CMD_USAGE for
 * AUX_E_INVAL, else CMD_FAILED. */
int cmd_error(const struct aux_diag *diag);
/* "auxcap: text". */
__attribute__((format(printf, 1, 2)))
void cmd_say(const char *fmt, ...);

/* A mistake on the command line; returns CMD_USAGE. */
__attribute__((format(printf, 1, 2)))
int cmd_usage(const char *fmt, ...);

/* parse.c: values of options, into a struct cmd_options. */
option_parse cmd_parse_when, cmd_parse_window,
	cmd_parse_mmap, cmd_parse_switch, cmd_parse_delay, cmd_parse_level,
	cmd_parse_threads, cmd_parse_max_size, cmd_parse_keep, cmd_parse_inject,
	cmd_parse_aux_sample, cmd_stop_with_flag, cmd_stop_with_text;

/*
 * record.c: the directory of CMD_HELPER, which follows a program in an
 * emulator: ours in a build tree, ../libexec/auxkit after make install. False:
 * it is in neither, and dir is ours.
 */
#define CMD_HELPER "auxkit-qemu.so"
#define CMD_HELPER_DIR_MAX 4128
bool cmd_helper_dir(char dir[CMD_HELPER_DIR_MAX]);

/* record.c: what a person reads of a recording. */
struct cmd_progress {
	uint64_t started_ns;
	bool shown;
};
void cmd_progress_show(void *priv, uint64_t n_insns, uint64_t aux_bytes);

/*
 * doctor: which parts of auxcap work on this machine, and what would make the
 * others work.
 *
 * Every check reads below the roots of an environment, so that a test can put
 * another machine in place of this one. Checks collect lines; cmd_doctor()
 * prints them.
 */

enum doctor_state { DOCTOR_OK, DOCTOR_LIMITED, DOCTOR_NO };

struct doctor_line {
	enum doctor_state state;
	char topic[32];
	char text[512];
	char fix[400];		/* "" nothing to mend */
};

struct doctor_env {
	const char *proc, *sys;		/* mount points */
	const char *modules;		/* the kernel's own are in modules/RELEASE */
	const char *path;		/* to find programs; NULL: none */
	const char *cwd;
	const char *helper;		/* auxkit-qemu.so, NULL: not there */
	const char *debuginfod;		/* DEBUGINFOD_URLS or NULL */
	const char *release, *machine;	/* as uname(2) */
	/* An fd, or -errno. */
	int (*open)(const struct perf_event_attr *attr, pid_t pid, int cpu);
	int (*close)(int fd);
};

struct doctor {
	const struct doctor_env *env;
	struct explain_system sys;
	struct doctor_line *lines;
	size_t n;
	bool nomem;
	char cpuinfo[8192];	/* of the first CPU */
	bool x86, arm64, intel, amd, virtual;
	bool may_open;		/* perf_event_open works at all */
	unsigned n_sources;	/* that work */
	char works[256], missing[256];	/* the summary's two halves */
};

/* All checks. -AUX_E_NOMEM, else 0. */
int doctor_run(struct doctor *d, const struct doctor_env *env);
void doctor_fini(struct doctor *d);
/* The last line: what works now, and why the rest does not. */
void doctor_summary(const struct doctor *d, char *buf, size_t len);

#endif
