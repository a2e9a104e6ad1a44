/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxdecode: options and dispatch. The table in cmd/options.c says which options
 * there are and which commands take them; --help (cmd/help.c) is made from it, and
 * lint holds the man page against --help.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/distance.h"

#include "decode/cmd/options.h"
#include "decode/cmd/pager.h"

#ifndef AUXKIT_VERSION
#define AUXKIT_VERSION "0.1"
#endif

/* table */
static const struct command commands[] = {
	{ "insn", "one line per instruction (the default)", INSN, cmd_flow },
	{ "branch", "one line per branch taken: from, to, kind", BRANCH,
	  cmd_flow },
	{ "count", "instructions per thread and stream, with a hash", COUNT,
	  cmd_flow },
	{ "calls", "calls and returns as a tree: time, duration, instructions",
	  CALLS, cmd_flow },
	{ "flame", "a flame graph: folded stacks, or --svg", FLAME, cmd_flow },
	{ "hot", "functions, blocks or edges, by what ran in them", HOT,
	  cmd_flow },
	{ "latency", "how long calls of a function took: histogram, slowest",
	  LATENCY, cmd_flow },
	{ "find", "calls of a function: longer than, called from, ...", FIND,
	  cmd_flow },
	{ "report", "one HTML file: timeline, flame graph, functions, gaps",
	  REPORT, cmd_flow },
	{ "export", "for other tools: --to perfetto, chrome, sqlite, ...", EXPORT,
	  cmd_flow },
	{ "profile", "how often what ran: for compilers, BOLT, perf", PROFILE,
	  cmd_profile },
	{ "coverage", "lines, functions, blocks that ran, and how often",
	  COVERAGE, cmd_flow },
	{ "summary", "the first screen: what ran, and what is missing", SUMMARY,
	  cmd_start },
	{ "diff", "two recordings: where they part, what ran more", DIFF,
	  cmd_diff },
	{ "raw", "trace packets with their offsets", RAW, cmd_raw },
	{ "info", "what is in the file: events, streams, losses", INFO,
	  cmd_info },
	{ "dump", "all records, and the packets of AUX data", DUMP, cmd_dump },
	{ "bundle", "one file that decodes anywhere: with the code it needs",
	  BUNDLE, cmd_bundle },
	{ "cut", "a smaller file: what a time, a CPU, a thread needs", CUT,
	  cmd_cut },
	{ "merge", "several recordings as one; or coverage, profiles", MERGE,
	  cmd_merge },
	{ "repair", "completes a file whose writer was killed", REPAIR,
	  cmd_repair },
	{ "verify", "two decoders side by side, and where they differ", VERIFY,
	  cmd_verify },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

const struct command *cmd_get(size_t i)
{
	return i < N_COMMANDS ? &commands[i] : NULL;
}

const struct command *cmd_find(const char *name)
{
	return find_command(name);
}

static unsigned distance(const char *a, const char *b)
{
	return text_distance(a, strlen(a), b, strlen(b));
}

static const char *nearest_command(const char *word)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (distance(word, commands[i].name) <= 2)
			return commands[i].name;
	return NULL;
}

static const char *nearest_option(const char *word, unsigned mask)
{
	const char *best = NULL;
	unsigned min = 3;

	for (size_t i = 0; cmd_option_rows[i].name; i++) {
		unsigned d = distance(word, cmd_option_rows[i].name);

		if (cmd_option_rows[i].commands & mask && d < min) {
			min = d;
			best = cmd_option_rows[i].name;
		}
	}
	return best;
}

/* getopt_long refused argv[optind - 1]. */
static int bad_option(char **argv, const struct command *c, int what)
{
	const char *word = argv[optind - 1], *near;
	char name[64];

	if (what == ':')
		return cmd_usage(
			"%s wants an argument; see `auxdecode %s --help`", word,
			c->name);
	if (strncmp(word, "--", 2))
		return cmd_usage("%s takes no option -%c; see `auxdecode %s "
				 "--help`",
				 c->name, optopt, c->name);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="),
		 word + 2);
	for (size_t i = 0; cmd_option_rows[i].name; i++) {
		if (strcmp(cmd_option_rows[i].name, name))
			continue;
		if (cmd_option_rows[i].commands & c->bit)
			return cmd_usage("--%s takes no argument", name);
		return cmd_usage("%s takes no --%s; see `auxdecode %s --help`",
				 c->name, name, c->name);
	}
	near = nearest_option(name, c->bit);
	if (near)
		return cmd_usage("no option --%s; did you mean --%s?", name,
				 near);
	return cmd_usage("no option --%s; see `auxdecode %s --help`", name,
			 c->name);
}

struct parser {
	struct option longs[CMD_N_OPTIONS + 1];
	char shorts[3 * CMD_N_OPTIONS + 2];
};

static void make_parser(struct parser *p, unsigned mask)
{
	size_t n = 0, s = 0;

	memset(p, 0, sizeof(*p));
	p->shorts[s++] = ':';
	for (size_t i = 0; cmd_option_rows[i].name; i++) {
		if (!(cmd_option_rows[i].commands & mask))
			continue;
		p->longs[n++] = (struct option){
			.name = cmd_option_rows[i].name,
			.has_arg = cmd_option_rows[i].arg ? required_argument
						  : no_argument,
			.val = cmd_option_rows[i].id,
		};
		if (cmd_option_rows[i].id >= 256)
			continue;
		p->shorts[s++] = (char)cmd_option_rows[i].id;
		if (cmd_option_rows[i].arg)
			p->shorts[s++] = ':';
	}
}

/* The one FILE. */
static int take_file(int argc, char **argv, const struct command *c, bool named,
		     struct cmd_options *o)
{
	const char *near;

	/* the function, before FILE */
	if (c->bit & (LATENCY | FIND) && !o->symbol &&
	    argc - optind == (o->container.pt ? 1 : 2))
		o->symbol = argv[optind++];
	if (o->container.pt) {
		o->path = o->container.pt;
		return optind == argc ? CMD_OK :
			cmd_usage("--pt names the FILE; %s is one too many",
				  argv[optind]);
	}
	if (o->container.n_images || o->container.cpu_model)
		return cmd_usage("--image and --cpu-model go with --pt");
	if (optind >= argc)
		return cmd_usage("no FILE given; see `auxdecode --help`");
	o->path = argv[optind];
	o->paths = (const char *const *)argv + optind;
	o->n_paths = (size_t)(argc - optind);
	if (c->bit & (MERGE | DIFF))
		return CMD_OK;
	if (!named && argc - optind > 1 && find_command(o->path))
		return cmd_usage(
			"the command comes first: auxdecode %s [OPTIONS] "
			"FILE",
			o->path);
	near = named ? NULL : nearest_command(o->path);
	if (argc - optind == 1 && (!near || access(o->path, F_OK) == 0))
		return CMD_OK;
	if (near)
		return cmd_usage("no command \"%s\"; did you mean %s?", o->path,
				 near);
	if (!named && argc - optind > 1)
		return cmd_usage("no command \"%s\"; `auxdecode --help` lists "
				 "them; a command comes before all options",
				 o->path);
	return cmd_usage("%s takes one FILE, not also \"%s\"", c->name,
			 argv[optind + 1]);
}

/* Commands whose output is read by people, a screen at a time. */
#define PAGED (INSN | BRANCH | COUNT | CALLS | HOT | LATENCY | FIND | RAW | \
	       INFO | DUMP | DIFF | SUMMARY)

/* Of these, those that print as they decode: progress would be amid the lines. */
#define STREAMED (INSN | BRANCH | CALLS | FIND)

static int run_command(const struct command *c, struct cmd_options *o)
{
	struct pager pager = { 0 };
	int status;

	o->colour = pager_wants_colour(o->color, o->out_path);
	if (c->bit & STREAMED && !o->out_path && o->progress < 0 &&
	    isatty(STDOUT_FILENO))
		o->progress = 0;
	if (c->bit & PAGED && !o->out_path)
		pager_start(&pager, !o->no_pager, o->colour);
	status = c->run(o);
	pager_wait(&pager);
	return status;
}

int main(int argc, char **argv)
{
	const struct command *c = argc > 1 ? find_command(argv[1]) : NULL;
	struct cmd_options o = { .tid = -1,
				 .cpu = -1,
				 .stream = -1,
				 .time_to = UINT64_MAX,
				 .progress = -1 };
	bool named = c;
	struct parser parser;
	int id, status;

	signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write */
	/* a file alone, for a person: what there is to see */
	o.quick = !named && argc == 2 && argv[1][0] != '-' &&
		  isatty(STDOUT_FILENO);
	if (!named)
		c = o.quick ? cmd_find("summary") : &commands[0];
	argc -= named;
	argv += named;
	make_parser(&parser, c->bit);
	o.command = c->name;
	opterr = 0;
	while ((id = getopt_long(argc, argv, parser.shorts, parser.longs,
				 NULL)) != -1) {
		if (id == '?' || id == ':')
			return bad_option(argv, c, id);
		if (id == 'h')
			return cmd_help(named ? c : NULL);
		if (id == OPT_COMPLETION)
			return cmd_completion(optarg);
		if (id == OPT_VERSION) {
			printf("auxdecode %s\n", AUXKIT_VERSION);
			return CMD_OK;
		}
		status = cmd_option_set(id, &o, optarg);
		if (status)
			return status;
	}
	status = take_file(argc, argv, c, named, &o);
	return status ? status : run_command(c, &o);
}
