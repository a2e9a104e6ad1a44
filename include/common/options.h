/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * options: command lines from tables, and what completes them in a shell.
 *
 * An option is one row, in the table of what it belongs to: a command, a sink,
 * or a group that several commands share. The row says how it is spelled, what
 * --help says of it, which words complete its argument, and where its value is
 * stored: in the config struct of its group, at the member that OPTION_FLAG and
 * its like name. A command line is parsed over several groups at once; the
 * first that has the name wins. Usage errors, --help and the completion of
 * shells are made from the same rows, and lint compares the man pages with
 * --help.
 *
 * Rows are constant and hold no values: a table may be parsed into several
 * structs, in several threads. Values point into argv, nothing is copied.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct option_row;

/*
 * Stores the value of one occurrence in config. arg is NULL where row->arg is,
 * and where an optional argument was left out. Returns 0, OPTION_STOP to end
 * parsing there (--help), or -AUX_E_INVAL with the whole message in diag.
 */
typedef int option_parse(const struct option_row *row, void *config,
			 const char *arg, struct aux_diag *diag);

#define OPTION_STOP 1

struct habit;

struct option_row {
	const char *name;	/* without "--"; NULL ends a table */
	const char *also;	/* what another tool calls it; NULL: the same */
	char letter;		/* 0: none */
	bool optional;		/* --name[=ARG], -x[ARG] */
	const char *arg;	/* what --help calls the argument; NULL: takes none */
	const char *values;	/* words to complete, separated by blanks;
				 * OPTION_CHOICE accepts these alone */
	const char *help;	/* one line; '\n' goes on in the next */
	option_parse *parse;
	size_t offset;		/* of the value in config */
	/* An optional argument may also be the next word, where it is one of these (or
	 * one of these and a comma), as perf has it; NULL: only after = */
	const char *apart;
	/* of OPTION_NUMBER and OPTION_SIZE */
	uint64_t max;		/* 0: no limit but the type's */
	bool marked;		/* see option_line.marked */
	const char *zero;	/* why 0 is refused, after the name; NULL: it is not */
	/* of OPTION_CHOICE: words that others know, and what does that; NULL: none */
	const struct habit *others;
};

struct option_group {
	const struct option_row *rows;
	void *config;
};

/* offsetof, and an error of the compiler where the member has not that type. */
#define OPTION_AT(type, member, kind)                 \
	.offset = offsetof(type, member) +            \
		  0 * sizeof((kind *)0 == &((type *)0)->member)

/* bool, set to true */
#define OPTION_FLAG(type, member) \
	.parse = option_flag, OPTION_AT(type, member, bool)
/* const char *, as given; of several the last */
#define OPTION_TEXT(type, member) \
	.parse = option_text, OPTION_AT(type, member, const char *)
/* uint64_t, decimal */
#define OPTION_NUMBER(type, member) \
	.parse = option_number, OPTION_AT(type, member, uint64_t)
/* uint64_t, bytes: a number that K, M or G may follow (powers of 1024), not
 * 0 */
#define OPTION_SIZE(type, member) \
	.parse = option_size, OPTION_AT(type, member, uint64_t)
/* uint64_t, nanoseconds: "10ms", "0.5" (seconds), not 0 */
#define OPTION_DURATION(type, member) \
	.parse = option_duration, OPTION_AT(type, member, uint64_t)
/* unsigned or an enum: which word of row->values, from 0 */
#define OPTION_CHOICE(type, member) \
	.parse = option_choice, OPTION_AT(type, member, unsigned)

option_parse option_flag, option_text, option_number, option_size,
	option_duration, option_choice;

/*
 * The values alone. A value is right as a whole or refused: nothing is rounded,
 * wrapped or read in part.
 */
bool option_read_number(const char *s, uint64_t max, uint64_t *v);
/* One time up to a comma or the end, as "12.5", "10ms", "123ns"; returns where
 * it ends, NULL where s is no time. */
const char *option_read_time(const char *s, uint64_t *ns);

/* -AUX_E_INVAL with a message. */
__attribute__((format(printf, 2, 3)))
int option_refuse(struct aux_diag *diag, const char *fmt, ...);

/* "-n" where it has a letter, else "--limit"; buf is what it returns. */
struct option_label {
	char text[48];
};
const char *option_label(const struct option_row *row, struct option_label *buf);

/* A row by name; NULL: none of these has it. */
const struct option_row *option_find(const struct option_row *rows,
				     const char *name);

/*
 * Words that users of other tools type, and what does that here: shown where
 * such a word is refused.
 */
struct habit {
	const char *words;	/* "--itrace -k script", separated by blanks:
				 * options as typed, commands, NULL ends a table */
	const char *answer;	/* one sentence, without a period */
};

/* NULL: the table (which may be NULL) does not know the word. */
const char *habit_find(const struct habit *table, const char *word);

/* An option as it was typed. */
struct option_given {
	const struct option_row *row;
	const char *arg;	/* NULL: none */
};

/* A command line of one command. */
struct option_line {
	const char *command;	/* "calls": who refuses an option of another */
	const char *help;	/* "auxdecode calls --help", for messages */
	const struct option_group *groups;
	size_t n_groups;
	bool stops;		/* at the first operand: a program follows */
	/* True for an option of another command of the program; NULL: none
	 * is. */
	bool (*is_known)(const char *name);
	const struct habit *habits;	/* of other tools, or NULL */
	const struct option_row *marked;	/* out: the last that was given of
						 * rows with that mark, or NULL */
	struct option_given *given;	/* out: all of them, in order; NULL: not
					 * wanted */
	size_t n_given, max_given;	/* out; in: how many there is room for */
};

/*
 * Parses argv[1..argc). Operands are moved after the options, as getopt_long(3)
 * does; *first becomes the index of the first of them. Returns 0, OPTION_STOP,
 * or -AUX_E_INVAL with a message in diag. Not for two threads at once (getopt).
 */
int options_parse(struct option_line *line, int argc, char **argv,
		  int *first, struct aux_diag *diag);

/* "-n, --limit N", "    --switch-output[=SIZE]": the left column of --help. */
void option_left(const struct option_row *row, char *buf, size_t size);

#define TEXT_DISTANCE_MAX 64	/* letters; longer words are far from all */

/* How many letters two words differ by, for "did you mean": to put in, leave
 * out or change (Levenshtein's distance). */
unsigned text_distance(const char *a, size_t la, const char *b, size_t lb);

/*
 * completion: scripts that complete words of a command line in bash, zsh and
 * fish, made from the tables that the program itself parses by.
 *
 * The first word says which options there are, and which words an option's
 * argument may be: option_row.values, or files where the argument is called
 * FILE, DIR or PATH.
 * Specifications: bash(1), "Programmable Completion";
 * zshcompsys(1), "_arguments"; fish, "Writing your own completions".
 */

struct completion_command {
	const char *name, *help;	/* help may be "" */
	const struct option_row *const *tables;	/* what it takes; NULL-ended */
};

struct completion {
	const char *program;
	const struct completion_command *commands;
	size_t n_commands;
	size_t standard;	/* index of the command that is meant without one */
	bool programs;		/* operands are programs, too, not files alone */
};

/* The script, to be freed; *text NULL: out of memory. -AUX_E_INVAL: no such
 * shell, -AUX_E_NOMEM. */
int completion_make(const struct completion *c, const char *shell, char **text);

#endif
