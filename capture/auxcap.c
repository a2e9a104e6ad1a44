/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcap: records AUX trace into perf.data files. This file knows the command
 * line; the commands are in cmd_*.c.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/version.h"

#include "capture/cmd/cmd.h"

enum { OPT_PER_THREAD = 256, OPT_TRUTH, OPT_INJECT, OPT_EXIT_STATUS,
       OPT_VERSION, OPT_FILTER, OPT_OVERWRITE, OPT_AUX_SAMPLE, OPT_THREADS,
       OPT_MAX_SIZE, OPT_SWITCH, OPT_SWITCH_KEEP, OPT_CONTROL, OPT_KCORE,
       OPT_NO_CODE, OPT_NO_SYNTH, OPT_ZSTD_AUX, OPT_DRY_RUN, OPT_COMPLETION };

/* table */
static const struct option options[] = {
	{ "event", required_argument, NULL, 'e' },
	{ "filter", required_argument, NULL, OPT_FILTER },
	{ "output", required_argument, NULL, 'o' },
	{ "pid", required_argument, NULL, 'p' },
	{ "tid", required_argument, NULL, 't' },
	{ "all-cpus", no_argument, NULL, 'a' },
	{ "cpu", required_argument, NULL, 'C' },
	{ "cgroup", required_argument, NULL, 'G' },
	{ "per-thread", no_argument, NULL, OPT_PER_THREAD },
	{ "mmap-pages", required_argument, NULL, 'm' },
	{ "snapshot", optional_argument, NULL, 'S' },
	{ "overwrite", optional_argument, NULL, OPT_OVERWRITE },
	{ "aux-sample", optional_argument, NULL, OPT_AUX_SAMPLE },
	{ "delay", required_argument, NULL, 'D' },
	{ "freq", required_argument, NULL, 'F' },
	{ "count", required_argument, NULL, 'c' },
	{ "call-graph", no_argument, NULL, 'g' },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "max-size", required_argument, NULL, OPT_MAX_SIZE },
	{ "switch-output", optional_argument, NULL, OPT_SWITCH },
	{ "switch-max-files", required_argument, NULL, OPT_SWITCH_KEEP },
	{ "control", required_argument, NULL, OPT_CONTROL },
	{ "kcore", no_argument, NULL, OPT_KCORE },
	{ "no-code", no_argument, NULL, OPT_NO_CODE },
	{ "no-synth", no_argument, NULL, OPT_NO_SYNTH },
	{ "compression-level", optional_argument, NULL, 'z' },
	{ "compress-aux", no_argument, NULL, OPT_ZSTD_AUX },
	{ "truth", required_argument, NULL, OPT_TRUTH },
	{ "inject-overflow", required_argument, NULL, OPT_INJECT },
	{ "exit-status", no_argument, NULL, OPT_EXIT_STATUS },
	{ "dry-run", no_argument, NULL, 'n' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ "completion", required_argument, NULL, OPT_COMPLETION },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};
static const char short_options[] = "+:e:o:p:t:aC:G:m:S::D:F:c:gz::nqh";

static const char usage_text[] =
"usage: auxcap [record] [OPTIONS] [--] [PROGRAM [ARGUMENTS]]\n"
"       auxcap list [WHAT] | doctor | repair [-n] [-o OUT] FILE\n"
"Records what a program, a process or a machine executes, as a perf.data file.\n"
"\n"
"What to record\n"
"  -e, --event EVENT        intel_pt//, cs_etm/@SINK/, any PMU with an AUX area,\n"
"                           soft_pt//u, soft_etm//u (Intel PT, CoreSight made by\n"
"                           software), cycles, sched:sched_switch ...; may be\n"
"                           given often. Default: the best trace there is here\n"
"      --filter FILTER      of the event before it: addresses of a trace\n"
"                           ('filter main @ ./prog'), or fields of a tracepoint\n"
"  -F, --freq N             samples a second of the other events\n"
"  -c, --count N            or one each N\n"
"  -g, --call-graph         with call chains\n"
"      --aux-sample[=SIZE]  the trace's last SIZE bytes with each sample of its\n"
"                           group\n"
"Of whom\n"
"  -p, --pid LIST  -t, --tid LIST  -a, --all-cpus  -C, --cpu LIST\n"
"  -G, --cgroup NAME        a container; with -a or -C\n"
"      --per-thread         a stream for each thread instead of each CPU\n"
"When\n"
"  -S, --snapshot[=e]       keep the newest trace only; SIGUSR2 (or the control\n"
"                           FIFO, or with e the end) saves it\n"
"      --overwrite[=e]      the same for samples\n"
"  -D, --delay MS           enable after MS milliseconds; -1: by --control\n"
"      --control fifo:COMMANDS[,ACKS]\n"
"                           enable, disable, snapshot [LABEL], switch, ping,\n"
"                           evlist, stop\n"
"Where to\n"
"  -o, --output FILE        the recording (default perf.data; an existing one\n"
"                             becomes FILE.old); - is standard output\n"
"  -m, --mmap-pages DATA[,AUX]\n"
"                           ring sizes: pages, or with B, K, M, G\n"
"      --threads N          reader threads\n"
"      --max-size SIZE      end when the file is so large\n"
"      --switch-output[=SIZE|TIME|signal]\n"
"                           a new file at each SIZE (K, M, G), TIME (s, m, h),\n"
"                           or SIGUSR2\n"
"      --switch-max-files N keep the N newest\n"
"  -z, --compression-level[=N]\n"
"                           compress records (zstd)\n"
"      --compress-aux       and the trace; auxdecode alone reads that\n"
"      --kcore              save the kernel's code and names, too\n"
"      --no-code            do not save code that programs make\n"
"      --no-synth           do not describe what existed before\n"
"Software sources\n"
"      --truth FILE         also write the addresses as observed\n"
"      --inject-overflow N  lose trace every N PSB periods, for tests\n"
"And\n"
"      --exit-status        exit with the program's status when all is recorded\n"
"  -n, --dry-run            of repair: only say what would be done\n"
"  -q, --quiet              only errors and losses on standard error\n"
"  -h, --help               this text\n"
"      --completion SHELL   print what completes words in bash, zsh or fish\n"
"      --version            the version\n"
"\n"
"Exit status: 0 complete, 1 failed, 2 usage, 3 something is lost.\n"
"Examples:  auxcap ls -la /        auxcap -e intel_pt//u -p 1234 -S\n"
"           auxcap list intel_pt   auxcap doctor\n";

static int usage_error(const char *fmt, const char *arg)
{
	fputs("auxcap: error: ", stderr);
	fprintf(stderr, fmt, arg);
	fputs("; see auxcap --help\n", stderr);
	return CMD_USAGE;
}

static bool add_event(struct cmd_options *o, const char *text)
{
	if (o->n_words == CMD_EVENTS_MAX)
		return false;
	o->words[o->n_words++].text = text;
	return true;
}

/* Options of a kernel recording. False: the value is bad. */
static bool take_kernel(struct cmd_options *o, int opt, const char *value)
{
	struct kernel_options *k = &o->kernel;

	switch (opt) {
	case 'p':
		k->target.pids = value;
		return true;
	case 't':
		k->target.tids = value;
		return true;
	case 'a':
		return k->target.all_cpus = true;
	case 'C':
		k->target.cpus = value;
		return true;
	case 'G':
		k->target.cgroup = value;
		return true;
	case 'm':
		return cmd_parse_mmap(k, value);
	case 'S':
		k->snapshot = true;
		k->snapshot_at_exit |= value != NULL;
		return !value || !strcmp(value, "e");
	case 'D':
		return cmd_parse_delay(&k->delay_ms, value);
	case 'F':
		return cmd_parse_u64(value, &k->freq) && k->freq;
	case 'c':
		return cmd_parse_u64(value, &k->period) && k->period;
	case 'g':
		return k->callgraph = true;
	case OPT_OVERWRITE:
		k->overwrite = true;
		k->snapshot_at_exit |= value != NULL;
		return !value || !strcmp(value, "e");
	case OPT_KCORE:
		return k->kcore = true;
	case OPT_NO_CODE:
		return k->no_code = true;
	case OPT_NO_SYNTH:
		return k->no_synth = true;
	case OPT_CONTROL:
		k->control = value;
		return true;
	case OPT_THREADS:
		return cmd_parse_u32(value, &k->n_threads) && k->n_threads;
	case OPT_MAX_SIZE:
		return cmd_parse_size(value, &k->max_size) && k->max_size;
	case OPT_SWITCH:
		return cmd_parse_switch(k, value);
	case OPT_SWITCH_KEEP:
		return cmd_parse_u32(value, &o->switch_keep);
	default:
		return false;
	}
}

static bool take_aux_sample(struct kernel_options *k, const char *value)
{
	uint64_t v = 4096;

	if (value && !cmd_parse_size(value, &v) && !cmd_parse_u64(value, &v))
		return false;
	/* the kernel's limit: a sample's size has 16 bits */
	k->aux_sample_size = (uint32_t)v;
	return v >= 8 && v <= 65528 && v % 8 == 0;
}

/* The rest. False: the value is bad. */
static bool take_common(struct cmd_options *o, int opt, const char *value)
{
	switch (opt) {
	case 'e':
		return add_event(o, value);
	case OPT_FILTER:
		if (!o->n_words || o->words[o->n_words - 1].filter)
			return false;
		o->words[o->n_words - 1].filter = value;
		return true;
	case 'o':
		o->path = value;
		return true;
	case 'q':
		return o->quiet = true;
	case 'n':
		return o->dry_run = true;
	case 'z':
		return cmd_parse_level(o, value);
	case OPT_ZSTD_AUX:
		return o->writer.zstd_aux = true;
	case OPT_PER_THREAD:
		return o->kernel.target.per_thread = true;
	case OPT_TRUTH:
		o->truth = value;
		return true;
	case OPT_EXIT_STATUS:
		return o->exit_status = true;
	case OPT_INJECT:
		return cmd_parse_u32(value, &o->inject_overflow);
	case OPT_AUX_SAMPLE:
		return take_aux_sample(&o->kernel, value);
	default:
		return false;
	}
}

static bool is_kernel_option(int opt)
{
	return (opt < 128 && strchr("ptaCGmSDFcg", opt)) ||
	       opt == OPT_AUX_SAMPLE || opt == OPT_OVERWRITE ||
	       (opt >= OPT_THREADS && opt <= OPT_NO_SYNTH);
}

static bool takes(const struct cmd_word *c, int opt);

static int bad_value(int opt, const char *word, const char *value)
{
	static const struct {
		int opt;
		const char *text;
	} takes[] = {
		{ 'e', "more than 64 events at '%s'" },
		{ 'm', "-m takes DATA[,AUX] in pages or bytes (512K,8M), not "
		       "'%s'" },
		{ 'S', "-S takes nothing or e, not '%s'" },
		{ OPT_OVERWRITE, "--overwrite takes nothing or e, not '%s'" },
		{ 'D', "-D takes milliseconds or -1, not '%s'" },
		{ 'F', "-F takes a number, not '%s'" },
		{ 'c', "-c takes a number, not '%s'" },
		{ 'z', "-z takes a level from 1 to 22, not '%s'" },
		{ OPT_FILTER, "--filter stands behind its event (-e), once: "
			      "'%s'" },
		{ OPT_THREADS, "--threads takes a number, not '%s'" },
		{ OPT_MAX_SIZE, "--max-size takes a size as 512M, not '%s'" },
		{ OPT_SWITCH, "--switch-output takes a size (1G), a time (30s) "
			      "or signal, not '%s'" },
		{ OPT_SWITCH_KEEP, "--switch-max-files takes a number, not "
				   "'%s'" },
		{ OPT_INJECT, "--inject-overflow takes a number, not '%s'" },
		{ OPT_AUX_SAMPLE, "--aux-sample takes a multiple of 8 bytes up "
				  "to 65528, not '%s'" },
	};
	size_t i;

	for (i = 0; i < sizeof(takes) / sizeof(*takes); i++)
		if (takes[i].opt == opt)
			return usage_error(takes[i].text, value ? value : "");
	return usage_error("unknown option '%s'", word);
}

/* "-p", "--overwrite". */
static const char *option_name(int opt)
{
	static char name[40];
	size_t i;

	if (opt < 128) {
		snprintf(name, sizeof(name), "-%c", opt);
		return name;
	}
	for (i = 0; options[i].name && options[i].val != opt;)
		i++;
	snprintf(name, sizeof(name), "--%s", options[i].name);
	return name;
}

/* word: what getopt did not understand. */
static int bad_option(const char *word)
{
	if (optopt >= 256)
		return usage_error("%s takes no value", option_name(optopt));
	return usage_error("unknown option '%s'",
			   optopt ? option_name(optopt) : word);
}

static int print(const char *text)
{
	return fputs(text, stdout) < 0 || fflush(stdout) ? CMD_FAILED : CMD_OK;
}

static int print_completion(const char *shell);

/* Takes one option, given as word. Returns -1 to go on, else the status. */
static int take(struct cmd_options *o, int opt, const char *word)
{
	bool fine;

	if (opt == 'h')
		return print(usage_text);
	if (opt == OPT_VERSION)
		return print("auxcap " AUXKIT_VERSION "\n");
	if (opt == OPT_COMPLETION)
		return print_completion(optarg);
	if (opt == ':')
		return usage_error("%s needs a value", word);
	if (opt == '?')
		return bad_option(word);
	if (is_kernel_option(opt)) {
		o->kernel_option = option_name(opt);
		fine = opt == OPT_AUX_SAMPLE ? take_common(o, opt, optarg) :
					       take_kernel(o, opt, optarg);
	} else {
		fine = take_common(o, opt, optarg);
	}
	return fine ? -1 : bad_value(opt, word, optarg);
}

/* table: words that are commands, when they come first; the first one is meant
 * without a word. */
static const struct cmd_word commands[] = {
	{ "record", NULL },
	{ "list", "h" },
	{ "doctor", "h" },
	{ "repair", "hnoq" },
};

static int print_completion(const char *shell)
{
	int status = cmd_completion(shell, options, commands,
				    sizeof(commands) / sizeof(*commands),
				    usage_text);

	return status != CMD_USAGE ? status :
	       usage_error("--completion is bash, zsh or fish, not '%s'", shell);
}

static const struct cmd_word *take_command_word(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(argv[1], commands[i].name)) {
			optind = 2;
			return &commands[i];
		}
	return &commands[0];
}

static bool takes(const struct cmd_word *c, int opt)
{
	if (opt == OPT_VERSION || opt == OPT_COMPLETION || opt == '?' ||
	    opt == ':')
		return true;
	return c->takes ? opt < 128 && strchr(c->takes, opt) : opt != 'n';
}

/* An option without a meaning there, which would be passed over in silence. */
static int misplaced(const struct cmd_word *c, int opt)
{
	char text[64];

	snprintf(text, sizeof(text), "auxcap %s takes no %%s", c->name);
	return opt == 'n' ? usage_error("%s is for repair", "-n") :
			    usage_error(text, option_name(opt));
}

static int run(struct cmd_options *o, const char *command)
{
	char *const *left = o->words_left;
	const struct target_spec *t = &o->kernel.target;

	if (!strcmp(command, "list"))
		return left[0] && left[1] ?
			       usage_error("list takes one word, not '%s' too",
					   left[1]) : cmd_list(left[0]);
	if (!strcmp(command, "doctor"))
		return left[0] ? usage_error("doctor takes no '%s'", left[0]) :
				 cmd_doctor();
	if (!strcmp(command, "repair"))
		return !left[0] || left[1] ?
			       usage_error("%s", "repair takes one file") :
			       cmd_repair(left[0], o->path, o->dry_run, o->quiet);
	if (!left[0] && !t->pids && !t->tids && !t->cpus && !t->all_cpus &&
	    !t->cgroup)
		return usage_error("%s", "no program to record");
	if (!o->path)
		o->path = "perf.data";
	return cmd_record(o);
}

int main(int argc, char **argv)
{
	static struct cmd_options o;
	const struct cmd_word *c = take_command_word(argc, argv);
	/* only of record what follows the first word is another's */
	const char *shorts = short_options + (c->takes != NULL);
	int opt, status;

	o.argc = argc;
	o.argv = argv;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, shorts, options, NULL)) != -1) {
		status = takes(c, opt) ? take(&o, opt, argv[optind - 1]) :
					 misplaced(c, opt);
		if (status >= 0)
			return status;
	}
	o.words_left = argv + optind;
	return run(&o, c->name);
}
