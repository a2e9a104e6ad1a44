/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_help: --help, from the tables of commands and options, with an example or two
 * for each command.
 */
#include <stdio.h>
#include <string.h>

#include "decode/cmd/options.h"

struct example {
	unsigned commands;
	const char *words;	/* behind "auxdecode " */
	const char *what;
};

/* table */
static const struct example examples[] = {
	{ INSN, "insn -F tid,ip,sym perf.data", "three columns, for programs to read" },
	{ INSN, "insn --last 1ms --tid 4711 perf.data", "how it came to its end" },
	{ BRANCH, "branch --symbol main perf.data", "from and to main alone" },
	{ COUNT, "count perf.data", "did two runs do the same? compare the hashes" },
	{ CALLS, "calls --tid 4711 perf.data", "what one thread called" },
	{ FLAME, "flame --svg -o flame.svg perf.data", "a picture for a browser" },
	{ FLAME, "flame perf.data", "folded stacks, for other tools" },
	{ HOT, "hot -n 20 perf.data", "the 20 functions that ran most" },
	{ HOT, "hot --edges perf.data", "the branches taken most" },
	{ LATENCY, "latency handle_request perf.data", "how long its calls took" },
	{ FIND, "find handle_request --longer 1ms perf.data", "the slow ones" },
	{ REPORT, "report -o report.html perf.data", "one file for a browser" },
	{ EXPORT, "export --to perfetto -o trace.pftrace perf.data", "for ui.perfetto.dev" },
	{ EXPORT, "export --to sqlite -o trace.db perf.data", "to ask questions in SQL" },
	{ PROFILE, "profile --to autofdo -o app.afdo perf.data", "for a compiler" },
	{ COVERAGE, "coverage --module app perf.data", "lines of one program that ran" },
	{ COVERAGE, "coverage --to lcov -o app.info perf.data", "for genhtml" },
	{ SUMMARY, "summary perf.data", "what `auxdecode perf.data` shows on a terminal" },
	{ DIFF, "diff good.data bad.data", "where they part, and what ran more" },
	{ DIFF, "diff --only functions -n 50 a.data b.data", "what ran more, alone" },
	{ RAW, "raw --stream 0 -n 100 perf.data", "the first 100 packets of a stream" },
	{ INFO, "info perf.data", "streams, snapshots, losses" },
	{ DUMP, "dump --packets perf.data", "everything that is in the file" },
	{ BUNDLE, "bundle -o bundle.data perf.data", "to send it to somebody" },
	{ CUT, "cut --time 12.5,12.6 -o part.data perf.data", "100 ms of it" },
	{ MERGE, "merge -o all.data first.data second.data", "two as one" },
	{ REPAIR, "repair -o mended.data perf.data", "leaves the damaged one as it is" },
	{ VERIFY, "verify perf.data", "do two decoders agree?" },
};

static void help_options(unsigned mask)
{
	char left[40];

	for (size_t i = 0; cmd_option_rows[i].name; i++) {
		const struct option_row *o = &cmd_option_rows[i];

		if (!(o->commands & mask))
			continue;
		snprintf(left, sizeof(left), "%c%c%s --%s%s%s",
			 o->id < 256 ? '-' : ' ', o->id < 256 ? o->id : ' ',
			 o->id < 256 ? "," : " ", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		printf("  %-24s %s\n", left, o->help);
	}
}

static void help_examples(unsigned mask)
{
	bool any = false;

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		if (!(examples[i].commands & mask))
			continue;
		if (!any)
			printf("\nexamples:\n");
		any = true;
		printf("  auxdecode %s\n      %s\n", examples[i].words,
		       examples[i].what);
	}
}

static const char fields_help[] =
	"\ncolumns of insn:   cpu pid tid time comm offset ip sym dso bytes insn\n"
	"columns of branch: cpu pid tid time comm offset kind from fromsym\n"
	"                   fromdso to tosym todso\n";

static void help_status(unsigned bit)
{
	printf("\nexit status: 0 %s, 1 failed, 2 usage, %s\n",
	       bit == DIFF ? "equal" : "complete",
	       bit == DIFF ? "3 they differ, or flow is missing" :
			     "3 finished with gaps or loss");
}

static int help_all(void)
{
	const struct command *c;

	printf("usage: auxdecode [COMMAND] [OPTIONS] FILE\n"
	       "Rebuilds every instruction from a recording with AUX trace: "
	       "a perf.data\nfile or directory, an OpenCSD or DS-5 snapshot, "
	       "an LLDB trace bundle.\n"
	       "`auxdecode FILE` is insn; on a terminal it is summary.\n"
	       "\ncommands (`auxdecode COMMAND --help` has examples):\n");
	for (size_t i = 0; (c = cmd_get(i)); i++)
		printf("  %-8s %s\n", c->name, c->help);
	printf("\noptions (`auxdecode COMMAND --help` shows those it takes):\n");
	help_options(ALL);
	fputs(fields_help, stdout);
	help_status(ALL);
	return CMD_OK;
}

/* What stands behind the options. */
static const char *operands_of(const struct command *c)
{
	if (c->bit & MERGE)
		return "FILE FILE...";
	if (c->bit & DIFF)
		return "FILE FILE";
	if (c->bit & (LATENCY | FIND))
		return "FUNCTION FILE";
	return "FILE";
}

int cmd_help(const struct command *c)
{
	if (!c)
		return help_all();
	printf("usage: auxdecode %s [OPTIONS] %s\n%s\n\noptions:\n", c->name,
	       operands_of(c), c->help);
	help_options(c->bit);
	if (c->bit & (INSN | BRANCH))
		fputs(fields_help, stdout);
	help_examples(c->bit);
	help_status(c->bit);
	return CMD_OK;
}
