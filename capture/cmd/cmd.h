/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands of auxcap. capture/auxcap.c parses the command line into one struct
 * cmd_options, by tables; a command returns the exit status.
 */
#ifndef CAPTURE_CMD_CMD_H
#define CAPTURE_CMD_CMD_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/error.h>

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
	struct writer_options writer;
	unsigned switch_keep;
	const char *path;	/* -o */
	const char *truth;	/* --truth, NULL: none */
	uint32_t inject_overflow;
	bool exit_status;	/* the program's status becomes ours */
	bool quiet;
	bool dry_run;		/* repair */
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

int cmd_record(struct cmd_options *o);
/* Prints what completes words in a shell; CMD_USAGE: none that it knows. */
int cmd_completion(const char *shell, const struct completion_command *commands,
		   size_t n);
int cmd_list(const char *what);		/* NULL: everything, in short */
int cmd_doctor(void);
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
option_parse cmd_parse_mmap, cmd_parse_switch, cmd_parse_delay, cmd_parse_level,
	cmd_parse_threads, cmd_parse_max_size, cmd_parse_keep, cmd_parse_inject,
	cmd_parse_aux_sample, cmd_stop_with_flag, cmd_stop_with_text;

/*
 * record.c: the directory of CMD_HELPER, which follows a program in an emulator: ours
 * in a build tree, ../libexec/auxkit after make install. False: it is in neither, and
 * dir is ours.
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

#endif
