/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcap: records AUX trace of programs into perf.data files. This file knows
 * the command line; the commands are in cmd_*.c.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/version.h>

#include "cmd.h"

enum { OPT_PER_THREAD = 256, OPT_TRUTH, OPT_INJECT, OPT_EXIT_STATUS,
       OPT_VERSION };

/* table */
static const struct option options[] = {
	{ "event", required_argument, NULL, 'e' },
	{ "output", required_argument, NULL, 'o' },
	{ "per-thread", no_argument, NULL, OPT_PER_THREAD },
	{ "truth", required_argument, NULL, OPT_TRUTH },
	{ "inject-overflow", required_argument, NULL, OPT_INJECT },
	{ "exit-status", no_argument, NULL, OPT_EXIT_STATUS },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char usage_text[] =
"usage: auxcap [record] [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
"Runs a program and records every instruction it executes, as a perf.data file.\n"
"\n"
"  -e, --event EVENT        what to record with (default soft_pt//u):\n"
"                             soft_pt/TERMS/u  Intel PT made by software; TERMS:\n"
"                             emulate (default), step, tsc, mtc, mtc_period=N,\n"
"                             cyc, cyc_thresh=N, psb_period=N, noretcomp, ptw,\n"
"                             fup_on_ptw, branch, pt, defer_tip\n"
"  -o, --output FILE        the recording (default perf.data; an existing one\n"
"                             becomes FILE.old)\n"
"      --per-thread         a stream for each thread instead of each CPU\n"
"      --truth FILE         also write the addresses as observed\n"
"      --inject-overflow N  lose trace every N PSB periods, for tests\n"
"      --exit-status        exit with the program's status when all is recorded\n"
"  -q, --quiet              only errors and losses on standard error\n"
"  -h, --help               this text\n"
"      --version            the version\n"
"\n"
"Exit status: 0 complete, 1 failed, 2 usage, 3 something is lost.\n"
"Examples:  auxcap ls -la /        auxcap -e soft_pt/step/u -o ls.data -- ls\n";

static int usage_error(const char *fmt, const char *arg)
{
	fputs("auxcap: error: ", stderr);
	fprintf(stderr, fmt, arg);
	fputs("; see auxcap --help\n", stderr);
	return CMD_USAGE;
}

static bool parse_u32(const char *s, uint32_t *v)
{
	char *end;
	unsigned long n = strtoul(s, &end, 10);

	if (*s < '0' || *s > '9' || *end || n > UINT32_MAX)
		return false;
	*v = (uint32_t)n;
	return true;
}

static int print(const char *text)
{
	return fputs(text, stdout) < 0 || fflush(stdout) ? CMD_FAILED : CMD_OK;
}

/* Takes one option, given as word. Returns -1 to go on, else the status. */
static int take(struct cmd_options *o, int opt, const char *word)
{
	switch (opt) {
	case 'e':
		o->event = optarg;
		return -1;
	case 'o':
		o->path = optarg;
		return -1;
	case 'q':
		o->quiet = true;
		return -1;
	case OPT_PER_THREAD:
		o->per_thread = true;
		return -1;
	case OPT_TRUTH:
		o->truth = optarg;
		return -1;
	case OPT_EXIT_STATUS:
		o->exit_status = true;
		return -1;
	case OPT_INJECT:
		if (parse_u32(optarg, &o->inject_overflow))
			return -1;
		return usage_error("--inject-overflow takes a number, not "
				   "'%s'", optarg);
	case 'h':
		return print(usage_text);
	case OPT_VERSION:
		return print("auxcap " AUXKIT_VERSION "\n");
	case ':':
		return usage_error("%s needs a value", word);
	default:
		return usage_error("unknown option '%s'", word);
	}
}

int main(int argc, char **argv)
{
	struct cmd_options o = {
		.event = "soft_pt//u", .path = "perf.data",
		.argc = argc, .argv = argv,
	};
	int opt, status;

	if (argc > 1 && !strcmp(argv[1], "record"))
		optind = 2;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+:e:o:qh", options, NULL)) != -1) {
		status = take(&o, opt, argv[optind - 1]);
		if (status >= 0)
			return status;
	}
	if (optind == argc)
		return usage_error("%s", "no program to record");
	o.program = argv + optind;
	return cmd_record(&o);
}
