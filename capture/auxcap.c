/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcap: records AUX trace into perf.data files. This file has the command
 * line: its options as tables, and the dispatch to the commands in cmd/.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mapped.h"
#include "common/version.h"

#include "capture/cmd/cmd.h"
#include "capture/event/target.h"

#define OPTIONS struct cmd_options
#define END { .name = NULL }

#define MAX_TABLES 12	/* of one command */

static int add_event(const struct option_row *row, void *config,
		     const char *arg, struct aux_diag *diag)
{
	struct cmd_options *o = config;

	(void)row;
	if (o->n_words == CMD_EVENTS_MAX)
		return option_refuse(diag, "more than %d events at \"%s\"",
				     CMD_EVENTS_MAX, arg);
	o->words[o->n_words++].text = arg;
	return 0;
}

static int add_filter(const struct option_row *row, void *config,
		      const char *arg, struct aux_diag *diag)
{
	struct cmd_options *o = config;

	(void)row;
	if (!o->n_words || o->words[o->n_words - 1].filter)
		return option_refuse(diag, "--filter stands after its event "
				     "(-e), once: \"%s\"", arg);
	o->words[o->n_words - 1].filter = arg;
	return 0;
}

/* Nothing, or "e": save at the end, too. */
static int set_at_exit(const struct option_row *row, void *config,
		       const char *arg, struct aux_diag *diag)
{
	struct cmd_options *o = config;
	struct option_label label;

	option_flag(row, config, NULL, diag);
	o->kernel.snapshot_at_exit |= arg != NULL;
	if (!arg || !strcmp(arg, "e"))
		return 0;
	return option_refuse(diag, "%s wants nothing or e, not \"%s\"; the size "
			     "is that of the AUX ring: -m ,SIZE",
			     option_label(row, &label), arg);
}

/* Nothing, or "fp", which is what the kernel does. Only the long form takes a value;
 * the other words of perf mean something where no trace has the calls. */
static int set_callgraph(const struct option_row *row, void *config,
			 const char *arg, struct aux_diag *diag)
{
	struct cmd_options *o = config;

	option_flag(row, config, NULL, diag);
	if (!arg || !strcmp(arg, "fp"))
		return 0;
	o->callgraph = arg;
	if (!strcmp(arg, "lbr") || !strncmp(arg, "dwarf", 5))
		return 0;
	return option_refuse(diag, "--%s wants nothing or fp, not \"%.40s\"",
			     row->name, arg);
}

/* ---- the tables, by title in --help ---- */

/* table */
static const struct option_row what_rows[] = {
	{ .name = "event", .letter = 'e', .arg = "EVENT", .parse = add_event,
	  .values = "intel_pt//u intel_pt// cs_etm// soft_pt//u soft_etm//u "
		    "cycles",
	  .help = "intel_pt//, cs_etm/@SINK/, any PMU with an AUX area,\n"
		  "soft_pt//u, soft_etm//u (Intel PT, CoreSight made by\n"
		  "software), cycles, sched:sched_switch ...; may be\n"
		  "repeated. Default: the best trace that works here,\n"
		  "soft_pt/cyc/u where no PMU has one" },
	{ .name = "filter", .arg = "FILTER", .parse = add_filter,
	  .help = "of the event before it: addresses of a trace\n"
		  "('filter main @ ./prog'), or fields of a tracepoint" },
	{ .name = "freq", .letter = 'F', .arg = "N", .parse = option_number,
	  .zero = "wants at least 1",
	  .help = "samples a second of the other events",
	  OPTION_AT(OPTIONS, kernel.freq, uint64_t) },
	{ .name = "count", .letter = 'c', .arg = "N", .parse = option_number,
	  .zero = "wants at least 1",
	  .help = "or one sample every N events",
	  OPTION_AT(OPTIONS, kernel.period, uint64_t) },
	{ .name = "call-graph", .letter = 'g', .arg = "fp", .optional = true,
	  .apart = "fp dwarf lbr", .values = "fp", .parse = set_callgraph,
	  .help = "with call chains, by frame pointers",
	  OPTION_AT(OPTIONS, kernel.callgraph, bool) },
	{ .name = "aux-sample", .arg = "SIZE", .optional = true,
	  .parse = cmd_parse_aux_sample, .marked = true,
	  .help = "the trace's last SIZE bytes with each sample of its\n"
		  "group" },
	END,
}, whom_rows[] = {
	{ .name = "pid", .letter = 'p', .arg = "LIST",
	  .help = "running processes, with all their threads",
	  OPTION_TEXT(OPTIONS, kernel.target.pids) },
	{ .name = "tid", .letter = 't', .arg = "LIST",
	  .help = "running threads",
	  OPTION_TEXT(OPTIONS, kernel.target.tids) },
	{ .name = "all-cpus", .letter = 'a', .marked = true,
	  .help = "the whole machine",
	  OPTION_FLAG(OPTIONS, kernel.target.all_cpus) },
	{ .name = "cpu", .letter = 'C', .arg = "LIST", .marked = true,
	  .help = "what runs on these CPUs: 0-3,6",
	  OPTION_TEXT(OPTIONS, kernel.target.cpus) },
	{ .name = "cgroup", .letter = 'G', .arg = "NAME", .marked = true,
	  .help = "a container; with -a or -C",
	  OPTION_TEXT(OPTIONS, kernel.target.cgroup) },
	{ .name = "all-user", .help = "user code alone, as the modifier u of all events",
	  OPTION_FLAG(OPTIONS, all_user) },
	{ .name = "all-kernel", .help = "the kernel alone, as the modifier k",
	  OPTION_FLAG(OPTIONS, all_kernel) },
	{ .name = "per-thread",
	  .help = "a stream for each thread instead of each CPU",
	  OPTION_FLAG(OPTIONS, kernel.target.per_thread) },
	END,
}, when_rows[] = {
	{ .name = "snapshot", .letter = 'S', .arg = "e", .optional = true,
	  .values = "e", .parse = set_at_exit,
	  .help = "keep only the newest trace; SIGUSR2 (or the control\n"
		  "FIFO, or --when, or with e the end) saves it",
	  OPTION_AT(OPTIONS, kernel.snapshot, bool) },
	{ .name = "when", .arg = "WHAT", .parse = cmd_parse_when,
	  .values = "crash exit signal=SEGV signal=ABRT signal=oom",
	  .help = "wait for a moment: FUNCTION, 'FUNCTION > 200us',\n"
		  "FILE:LINE, signal=SEGV, crash, exit, usdt:NAME:NAME; of\n"
		  "the kernel SUBSYSTEM:NAME (a tracepoint), kprobe:NAME; may\n"
		  "be repeated. With -S it saves the trace, else it is noted\n"
		  "in the file" },
	{ .name = "window", .arg = "FUNCTION", .parse = cmd_parse_window, .marked = true,
	  .help = "record only between the begin of a call and its return;\n"
		  "may be repeated" },
	{ .name = "when-count", .arg = "N", .zero = "waits for nothing",
	  .help = "take only the first N of them",
	  OPTION_NUMBER(OPTIONS, when.count) },
	{ .name = "cooldown", .arg = "TIME",
	  .help = "take none so soon after another one: 10ms",
	  OPTION_DURATION(OPTIONS, when.cooldown_ns) },
	{ .name = "when-delay", .arg = "TIME",
	  .help = "save the trace so much later, with what came then",
	  OPTION_DURATION(OPTIONS, when.delay_ns) },
	{ .name = "overwrite", .arg = "e", .optional = true, .values = "e",
	  .parse = set_at_exit, .marked = true, .help = "the same for samples",
	  OPTION_AT(OPTIONS, kernel.overwrite, bool) },
	{ .name = "delay", .letter = 'D', .arg = "MS",
	  .parse = cmd_parse_delay,
	  .help = "start after MS milliseconds; -1: when --control says so" },
	END,
}, control_rows[] = {
	{ .name = "control", .arg = "fifo:COMMANDS[,ACKS]", .marked = true,
	  .help = "enable, disable, snapshot [LABEL], switch, ping,\n"
		  "evlist, stop",
	  OPTION_TEXT(OPTIONS, kernel.control) },
	END,
}, output_rows[] = {
	{ .name = "output", .letter = 'o', .arg = "FILE",
	  .help = "the recording (default perf.data; an existing one\n"
		  "becomes FILE.old); - is standard output",
	  OPTION_TEXT(OPTIONS, path) },
	END,
}, where_rows[] = {
	{ .name = "mmap-pages", .letter = 'm', .arg = "DATA[,AUX]",
	  .parse = cmd_parse_mmap,
	  .help = "ring sizes: pages, or with B, K, M, G" },
	{ .name = "threads", .arg = "N", .parse = cmd_parse_threads,
	  .help = "reader threads" },
	{ .name = "max-size", .arg = "SIZE", .parse = cmd_parse_max_size,
	  .help = "stop when the file has reached this size" },
	{ .name = "switch-output", .arg = "SIZE|TIME|signal",
	  .optional = true, .parse = cmd_parse_switch, .marked = true,
	  .help = "a new file at each SIZE (K, M, G), TIME (s, m, h),\n"
		  "or SIGUSR2" },
	{ .name = "switch-max-files", .arg = "N", .parse = cmd_parse_keep,
	  .marked = true, .help = "keep the N newest" },
	{ .name = "compression-level", .letter = 'z', .arg = "N",
	  .optional = true, .parse = cmd_parse_level,
	  .help = "compress records (zstd)" },
	{ .name = "compress-aux",
	  .help = "and the trace; only auxdecode reads that",
	  OPTION_FLAG(OPTIONS, writer.zstd_aux) },
	{ .name = "kcore", .marked = true,
	  .help = "also save the kernel's code and symbols",
	  OPTION_FLAG(OPTIONS, kernel.kcore) },
	{ .name = "no-code", .marked = true,
	  .help = "do not save code that programs generate",
	  OPTION_FLAG(OPTIONS, kernel.no_code) },
	{ .name = "no-synth", .marked = true,
	  .help = "do not record what existed before the start",
	  OPTION_FLAG(OPTIONS, kernel.no_synth) },
	END,
}, soft_rows[] = {
	{ .name = "truth", .arg = "FILE",
	  .help = "also write the addresses as observed",
	  OPTION_TEXT(OPTIONS, truth) },
	{ .name = "inject-overflow", .arg = "N", .parse = cmd_parse_inject,
	  .help = "lose trace every N PSB periods, for tests" },
	END,
}, status_rows[] = {
	{ .name = "exit-status",
	  .help = "exit with the program's status if nothing was lost",
	  OPTION_FLAG(OPTIONS, exit_status) },
	END,
}, repair_rows[] = {
	{ .name = "dry-run", .letter = 'n',
	  .help = "of repair: only say what would be done",
	  OPTION_FLAG(OPTIONS, dry_run) },
	END,
}, verbose_rows[] = {
	{ .name = "verbose", .letter = 'v',
	  .help = "say also what a software source's recording cost",
	  OPTION_FLAG(OPTIONS, verbose) },
	END,
}, quiet_rows[] = {
	{ .name = "quiet", .letter = 'q',
	  .help = "only errors and losses on standard error",
	  OPTION_FLAG(OPTIONS, quiet) },
	END,
}, help_rows[] = {
	{ .name = "help", .letter = 'h', .parse = cmd_stop_with_flag,
	  .help = "this text", OPTION_AT(OPTIONS, help, bool) },
	{ .name = "completion", .arg = "SHELL", .values = "bash zsh fish",
	  .parse = cmd_stop_with_text,
	  .help = "print completions for bash, zsh or fish",
	  OPTION_AT(OPTIONS, completion, const char *) },
	{ .name = "version", .parse = cmd_stop_with_flag,
	  .help = "the version", OPTION_AT(OPTIONS, version, bool) },
	END,
};

/* table: as --help prints them */
static const struct {
	const char *title;	/* NULL: under the one before */
	const struct option_row *rows;
} sections[] = {
	{ "What to record", what_rows },  { "Whom to record", whom_rows },
	{ "When", when_rows },		  { NULL, control_rows },
	{ "Where to", output_rows },	  { NULL, where_rows },
	{ "Software sources", soft_rows },
	{ "General", status_rows },	  { NULL, repair_rows },
	{ NULL, verbose_rows },		  { NULL, quiet_rows },
	{ NULL, help_rows },
};

/* table: words that are commands when they come first; the first is meant where
 * there is none. */
static const struct command {
	const char *name, *help;
	const struct option_row *tables[MAX_TABLES + 1];	/* NULL-ended */
} commands[] = {
	{ "record", "record a program, a process or the machine",
	  { what_rows, whom_rows, when_rows, control_rows, output_rows, where_rows,
	    soft_rows, status_rows, verbose_rows, quiet_rows, help_rows, NULL } },
	{ "list", "events that can be recorded here", { help_rows, NULL } },
	{ "doctor", "what works on this machine, and what would fix the rest",
	  { help_rows, NULL } },
	{ "repair", "complete a recording whose writer was killed",
	  { repair_rows, output_rows, quiet_rows, help_rows, NULL } },
	{ "crash-handler", "for core_pattern: a snapshot, and the core beside it",
	  { control_rows, output_rows, help_rows, NULL } },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))
#define N_SECTIONS (sizeof(sections) / sizeof(sections[0]))

/* ---- --help, --completion ---- */

#define HELP_COLUMN 27	/* where texts begin */

/* A row whose left column is too wide for one line has its text below. */
static void print_row(const struct option_row *row)
{
	const char *help = row->help;
	char left[48];
	int indent;
	size_t n;

	option_left(row, left, sizeof(left));
	indent = HELP_COLUMN - printf("  %s", left);
	if (indent < 1) {
		putchar('\n');
		indent = HELP_COLUMN;
	}
	for (; *help; help += n + (help[n] == '\n')) {
		n = strcspn(help, "\n");
		printf("%*s%.*s\n", indent, "", (int)n, help);
		indent = HELP_COLUMN;
	}
}

static int print_help(void)
{
	fputs("usage: auxcap [record] [OPTIONS] [--] [PROGRAM [ARGUMENTS]]\n"
	      "       auxcap list [WHAT] | doctor | repair [-n] [-o OUT] FILE\n"
	      "       auxcap crash-handler --control FIFOS [-o DIR] PID TID SIGNAL\n"
	      "Records what a program, a process or a machine executes, as a "
	      "perf.data file.\n\n", stdout);
	for (size_t i = 0; i < N_SECTIONS; i++) {
		if (sections[i].title)
			puts(sections[i].title);
		for (const struct option_row *row = sections[i].rows; row->name;
		     row++)
			print_row(row);
	}
	fputs("Options of perf record that change nothing here (-s -d -T -R -W -N "
	      "-B ...) are\ntaken, too; auxcap(1) lists them.\n\n"
	      "Exit status: 0 complete, 1 failed, 2 usage, 3 something is "
	      "lost.\n"
	      "Examples:  auxcap ls -la /        auxcap -e intel_pt//u -p 1234 "
	      "-S\n"
	      "           auxcap list intel_pt   auxcap doctor\n", stdout);
	return fflush(stdout) ? CMD_FAILED : CMD_OK;
}

static int print_completion(const char *shell)
{
	struct completion_command words[N_COMMANDS];
	const struct completion c = { .program = "auxcap", .commands = words,
				      .n_commands = N_COMMANDS,
				      .programs = true };
	char *text;
	int rc;

	for (size_t i = 0; i < N_COMMANDS; i++)
		words[i] = (struct completion_command){ commands[i].name,
							commands[i].help,
							commands[i].tables };
	rc = completion_make(&c, shell, &text);
	if (rc == -AUX_E_INVAL)
		return cmd_usage("--completion is bash, zsh or fish, not \"%s\"",
				 shell);
	if (rc < 0)
		return CMD_FAILED;
	rc = fputs(text, stdout) < 0 || fflush(stdout) ? CMD_FAILED : CMD_OK;
	free(text);
	return rc;
}

/* ---- the command line ---- */

static const struct command *find_command(const char *word)
{
	for (size_t i = 0; word && i < N_COMMANDS; i++)
		if (!strcmp(word, commands[i].name))
			return &commands[i];
	return NULL;
}

/* True for an option of any command: "list takes no -e" says more than "no
 * option". */
static bool is_known(const char *name)
{
	for (size_t i = 0; i < N_SECTIONS; i++)
		if (option_find(sections[i].rows, name))
			return true;
	return false;
}

static int parse_options(const struct command *c, struct cmd_options *o,
			 int argc, char **argv)
{
	struct option_group groups[MAX_TABLES + 1];
	struct option_line line = {
		.command = c->name,
		.help = "auxcap --help",
		.groups = groups,
		/* of record alone what follows the first word is another's */
		.stops = c == &commands[0],
		.is_known = is_known,
		.habits = cmd_habits,
	};
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int first;

	for (size_t i = 0; c->tables[i]; i++)
		groups[line.n_groups++] =
			(struct option_group){ c->tables[i], o };
	if (c == &commands[0])
		groups[line.n_groups++] = (struct option_group){ cmd_needless, o };
	if (options_parse(&line, argc, argv, &first, &diag) < 0)
		return cmd_error(&diag);
	o->words_left = argv + first;
	if (line.marked)
		o->kernel_option = option_label(line.marked, &o->kernel_label);
	return CMD_OK;
}

static int run(struct cmd_options *o, const char *command)
{
	char *const *left = o->words_left;
	const struct target_spec *t = &o->kernel.target;

	if (!strcmp(command, "list"))
		return left[0] && left[1] ?
			       cmd_usage("list takes one word, not \"%s\" too",
					 left[1]) : cmd_list(left[0]);
	if (!strcmp(command, "doctor"))
		return left[0] ? cmd_usage("doctor takes no \"%s\"", left[0]) :
				 cmd_doctor();
	if (!strcmp(command, "repair"))
		return !left[0] || left[1] ?
			       cmd_usage("repair takes one FILE") :
			       cmd_repair(left[0], o->path, o->dry_run, o->quiet);
	if (!strcmp(command, "crash-handler"))
		return cmd_crash_handler(o);
	if (!left[0] && !t->pids && !t->tids && !t->cpus && !t->all_cpus &&
	    !t->cgroup)
		return cmd_usage("no program to record");
	if (!o->path)
		o->path = "perf.data";
	return cmd_record(o);
}

/*
 * A word that other tools have as a command, where ours would stand. There may be a
 * program of that name, as stat(1): it is run, but not without a word.
 * CMD_OK: go on.
 */
static int check_habit(const char *word, bool quiet)
{
	const char *habit = habit_find(cmd_habits, word);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };

	if (!habit)
		return CMD_OK;
	if (target_check_program(word, &diag) < 0)
		return cmd_usage("no command \"%s\": %s", word, habit);
	if (!quiet)
		cmd_say("\"%s\" is no command of auxcap: the program of that "
			"name is recorded; %s", word, habit);
	return CMD_OK;
}

/* `auxcap help`, `auxcap version`; -1: neither. */
static int run_word(int argc, char **argv)
{
	if (argc != 2)
		return -1;
	if (!strcmp(argv[1], "help"))
		return print_help();
	if (!strcmp(argv[1], "version"))
		return puts("auxcap " AUXKIT_VERSION) < 0 ? CMD_FAILED : CMD_OK;
	return -1;
}

/*
 * Somebody cuts a file that is being read. What was read of it is of no use, and
 * outputs are complete or not there (common/outfile.h), so the process ends. Another
 * SIGBUS is a fault of this program.
 */
static void on_bus(int sig, siginfo_t *info, void *context)
{
	char line[MAPPED_LINE];
	size_t n = mapped_cut(info->si_addr, "auxcap: error: ", line, sizeof(line));

	(void)context;
	if (!n) {
		signal(sig, SIG_DFL);
		return; /* to the same instruction */
	}
	if (write(STDERR_FILENO, line, n) < 0)
		_exit(CMD_FAILED);
	_exit(CMD_FAILED);
}

int main(int argc, char **argv)
{
	static struct cmd_options o;
	const struct command *c = find_command(argc > 1 ? argv[1] : NULL);
	struct sigaction bus = { .sa_sigaction = on_bus,
				 .sa_flags = SA_SIGINFO };
	bool named = c;
	int status;

	sigaction(SIGBUS, &bus, NULL);
	status = run_word(argc, argv);
	if (status >= 0)
		return status;
	if (!named)
		c = &commands[0];
	o.argc = argc;
	o.argv = argv;
	status = parse_options(c, &o, argc - named, argv + named);
	if (status != CMD_OK)
		return status;
	if (o.help)
		return print_help();
	if (o.completion)
		return print_completion(o.completion);
	if (o.version)
		return puts("auxcap " AUXKIT_VERSION) < 0 ? CMD_FAILED : CMD_OK;
	/* after "--" a word is a program */
	if (c == &commands[0] && o.words_left[0] &&
	    strcmp(o.words_left[-1], "--")) {
		status = check_habit(o.words_left[0], o.quiet);
		if (status != CMD_OK)
			return status;
	}
	return run(&o, c->name);
}
