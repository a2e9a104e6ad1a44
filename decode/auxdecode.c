/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxdecode: options and dispatch. One table says which options there are and
 * which commands take them; --help is made from it, and lint holds the man page
 * against --help.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <internal/diag.h>

#include "cmd.h"

#ifndef AUXKIT_VERSION
#define AUXKIT_VERSION "0.1"
#endif

#define INSN   0x01
#define BRANCH 0x02
#define COUNT  0x04
#define RAW    0x08
#define INFO   0x10
#define DUMP   0x20
#define FLOW   (INSN | BRANCH | COUNT)
#define ALL    0x3f

struct command {
	const char *name, *help;
	unsigned bit;
	int (*run)(const struct cmd_options *o);
};

/* table */
static const struct command commands[] = {
	{ "insn", "one line per instruction (the default)", INSN, cmd_flow },
	{ "branch", "one line per branch taken: from, to, kind", BRANCH,
	  cmd_flow },
	{ "count", "instructions per thread and stream, with a hash", COUNT,
	  cmd_flow },
	{ "raw", "trace packets with their offsets", RAW, cmd_raw },
	{ "info", "what is in the file: events, streams, losses", INFO,
	  cmd_info },
	{ "dump", "all records, and the packets of AUX data", DUMP, cmd_dump },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

enum option_id {
	OPT_TID = 256,
	OPT_CPU,
	OPT_TIME,
	OPT_SYMBOL,
	OPT_STREAM,
	OPT_SNAPSHOT,
	OPT_PACKETS,
	OPT_SYNTAX,
	OPT_SYMFS,
	OPT_VDSO,
	OPT_DECODER,
	OPT_PLUGIN,
	OPT_CHUNK_SIZE,
	OPT_SHA256,
	OPT_PROGRESS,
	OPT_NO_PROGRESS,
	OPT_VERSION,
};

struct option_row {
	const char *name;
	int id; /* a letter, or enum option_id */
	const char *arg; /* NULL: takes none */
	unsigned commands;
	const char *help;
};

/* table */
static const struct option_row options[] = {
	{ "fields", 'F', "LIST", INSN | BRANCH,
	  "columns, comma separated; +LIST adds to the standard ones" },
	{ "tid", OPT_TID, "TID", FLOW | RAW, "this thread only" },
	{ "cpu", OPT_CPU, "CPU", FLOW | RAW, "this CPU only" },
	{ "stream", OPT_STREAM, "N", RAW, "this AUX stream only" },
	{ "snapshot", OPT_SNAPSHOT, "N", FLOW | RAW,
	  "this snapshot only; info lists them" },
	{ "packets", OPT_PACKETS, NULL, DUMP,
	  "the packets of AUX data below their records" },
	{ "time", OPT_TIME, "A,B", FLOW,
	  "from A to B: seconds as shown, or 123ns; either may be missing" },
	{ "symbol", OPT_SYMBOL, "NAME", FLOW,
	  "instructions of this function (branch: to or from it)" },
	{ "syntax", OPT_SYNTAX, "NAME", INSN, "intel (the default) or att" },
	{ "limit", 'n', "N", FLOW | RAW | DUMP,
	  "stop after N lines (count: instructions)" },
	{ "sha256", OPT_SHA256, NULL, COUNT,
	  "SHA-256 of the addresses, each as 8 bytes, little endian" },
	{ "symfs", OPT_SYMFS, "DIR", FLOW,
	  "look for the recorded files under DIR" },
	{ "vdso", OPT_VDSO, "FILE", FLOW, "the vDSO of the recorded machine" },
	{ "decoder", OPT_DECODER, "NAME", FLOW, "use this decoder" },
	{ "plugin", OPT_PLUGIN, "FILE", FLOW, "load a decoder from a file" },
	{ "jobs", 'j', "N", FLOW, "worker threads; output does not change" },
	{ "chunk-size", OPT_CHUNK_SIZE, "BYTES", FLOW,
	  "trace decoded in one go (default 8 MB); the flow does not change" },
	{ "output", 'o', "FILE", ALL, "write to FILE, not to standard output" },
	{ "progress", OPT_PROGRESS, NULL, FLOW,
	  "show progress (default: on a terminal)" },
	{ "no-progress", OPT_NO_PROGRESS, NULL, FLOW, "show no progress" },
	{ "help", 'h', NULL, ALL, "show this" },
	{ "version", OPT_VERSION, NULL, ALL, "show the version" },
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static void help_options(unsigned mask)
{
	char left[40];

	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option_row *o = &options[i];

		if (!(o->commands & mask))
			continue;
		snprintf(left, sizeof(left), "%c%c%s --%s%s%s",
			 o->id < 256 ? '-' : ' ', o->id < 256 ? o->id : ' ',
			 o->id < 256 ? "," : " ", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		printf("  %-24s %s\n", left, o->help);
	}
}

static const char fields_help[] =
	"\ncolumns of insn:   cpu pid tid time comm offset ip sym dso bytes insn\n"
	"columns of branch: cpu pid tid time comm offset kind from fromsym\n"
	"                   fromdso to tosym todso\n";
static const char status_help[] =
	"\nexit status: 0 complete, 1 failed, 2 usage, "
	"3 finished with gaps or loss\n";

static int help_all(void)
{
	printf("usage: auxdecode [COMMAND] [OPTIONS] FILE\n"
	       "Rebuilds every instruction from a perf.data with AUX trace.\n"
	       "\ncommands:\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].help);
	printf("\noptions (`auxdecode COMMAND --help` shows those it takes):\n");
	help_options(ALL);
	fputs(fields_help, stdout);
	fputs(status_help, stdout);
	return CMD_OK;
}

static int help_command(const struct command *c)
{
	printf("usage: auxdecode %s [OPTIONS] FILE\n%s\n\noptions:\n", c->name,
	       c->help);
	help_options(c->bit);
	if (c->bit & (INSN | BRANCH))
		fputs(fields_help, stdout);
	fputs(status_help, stdout);
	return CMD_OK;
}

/* Edit distance, for "did you mean"; long words are far from everything. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[33], diag, up;
	size_t la = strlen(a), lb = strlen(b);

	if (la > 32 || lb > 32)
		return 99;
	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		diag = row[0];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = diag + (a[i - 1] != b[j - 1]);

			up = row[j];
			if (up + 1 < best)
				best = up + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diag = up;
			row[j] = best;
		}
	}
	return row[lb];
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

	for (size_t i = 0; i < N_OPTIONS; i++) {
		unsigned d = distance(word, options[i].name);

		if (options[i].commands & mask && d < min) {
			min = d;
			best = options[i].name;
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
	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (strcmp(options[i].name, name))
			continue;
		if (options[i].commands & c->bit)
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

static int parse_syntax(const char *arg, struct cmd_options *o)
{
	o->syntax = arg;
	if (strcmp(arg, "intel") && strcmp(arg, "att"))
		return cmd_usage("--syntax is intel or att, not \"%s\"", arg);
	return CMD_OK;
}

static int set_number(int id, struct cmd_options *o, const char *arg)
{
	uint64_t v;
	int status;

	switch (id) {
	case OPT_TID:
		status = cmd_parse_number("--tid", arg, INT32_MAX, &v);
		o->tid = (int64_t)v;
		return status;
	case OPT_CPU:
		status = cmd_parse_number("--cpu", arg, INT32_MAX, &v);
		o->cpu = (int64_t)v;
		return status;
	case OPT_CHUNK_SIZE:
		status = cmd_parse_number("--chunk-size", arg, 1 << 30,
					  &o->chunk_min);
		if (status == CMD_OK && !o->chunk_min)
			return cmd_usage("--chunk-size wants at least 1 byte");
		return status;
	case OPT_STREAM:
		status = cmd_parse_number("--stream", arg, UINT32_MAX, &v);
		o->stream = (int64_t)v;
		return status;
	case OPT_SNAPSHOT:
		status = cmd_parse_number("--snapshot", arg, UINT64_MAX,
					  &o->snapshot);
		if (status == CMD_OK && !o->snapshot)
			return cmd_usage("--snapshot counts from 1");
		return status;
	case 'n':
		status = cmd_parse_number("-n", arg, UINT64_MAX, &o->limit);
		if (status == CMD_OK && !o->limit)
			return cmd_usage("-n 0 would show nothing");
		return status;
	case 'j':
		status = cmd_parse_number("-j", arg, 4096, &v);
		if (status == CMD_OK && !v)
			return cmd_usage("-j wants at least one worker");
		o->n_workers = (unsigned)v;
		return status;
	}
	return CMD_OK;
}

static int set_option(int id, struct cmd_options *o, const char *arg)
{
	switch (id) {
	case 'F':
		o->fields = arg;
		break;
	case 'o':
		o->out_path = arg;
		break;
	case OPT_TIME:
		return cmd_parse_times(arg, &o->time_from, &o->time_to);
	case OPT_SYNTAX:
		return parse_syntax(arg, o);
	case OPT_SYMBOL:
		o->symbol = arg;
		break;
	case OPT_SYMFS:
		o->symfs = arg;
		break;
	case OPT_VDSO:
		o->vdso = arg;
		break;
	case OPT_DECODER:
		o->decoder = arg;
		break;
	case OPT_PLUGIN:
		o->plugin = arg;
		break;
	case OPT_PACKETS:
		o->packets = true;
		break;
	case OPT_SHA256:
		o->sha256 = true;
		break;
	case OPT_PROGRESS:
	case OPT_NO_PROGRESS:
		o->progress = id == OPT_PROGRESS;
		break;
	default:
		return set_number(id, o, arg);
	}
	return CMD_OK;
}

struct parser {
	struct option longs[N_OPTIONS + 1];
	char shorts[3 * N_OPTIONS + 2];
};

static void make_parser(struct parser *p, unsigned mask)
{
	size_t n = 0, s = 0;

	memset(p, 0, sizeof(*p));
	p->shorts[s++] = ':';
	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (!(options[i].commands & mask))
			continue;
		p->longs[n++] = (struct option){
			.name = options[i].name,
			.has_arg = options[i].arg ? required_argument
						  : no_argument,
			.val = options[i].id,
		};
		if (options[i].id >= 256)
			continue;
		p->shorts[s++] = (char)options[i].id;
		if (options[i].arg)
			p->shorts[s++] = ':';
	}
}

/* The one FILE. */
static int take_file(int argc, char **argv, const struct command *c, bool named,
		     struct cmd_options *o)
{
	const char *near;

	if (optind >= argc)
		return cmd_usage("no FILE given; see `auxdecode --help`");
	o->path = argv[optind];
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
		return cmd_usage("no command \"%s\"; there are insn, branch, "
				 "count, raw, info, dump, before all options",
				 o->path);
	return cmd_usage("%s takes one FILE, not also \"%s\"", c->name,
			 argv[optind + 1]);
}

int main(int argc, char **argv)
{
	const struct command *c = argc > 1 ? find_command(argv[1]) : NULL;
	struct cmd_options o = { .tid = -1,
				 .cpu = -1,
				 .stream = -1,
				 .time_to = UINT64_MAX,
				 .n_workers = 1,
				 .progress = -1 };
	bool named = c;
	struct parser parser;
	int id, status;

	signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write */
	if (!named)
		c = &commands[0];
	argc -= named;
	argv += named;
	make_parser(&parser, c->bit);
	opterr = 0;
	while ((id = getopt_long(argc, argv, parser.shorts, parser.longs,
				 NULL)) != -1) {
		if (id == '?' || id == ':')
			return bad_option(argv, c, id);
		if (id == 'h')
			return named ? help_command(c) : help_all();
		if (id == OPT_VERSION) {
			printf("auxdecode %s\n", AUXKIT_VERSION);
			return CMD_OK;
		}
		status = set_option(id, &o, optarg);
		if (status)
			return status;
	}
	o.command = c->name;
	status = take_file(argc, argv, c, named, &o);
	return status ? status : c->run(&o);
}
