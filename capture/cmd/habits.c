/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What users of perf, simpleperf, uftrace and magic-trace type, and what of auxcap
 * does that: words that auxcap does not take itself (t_habits runs the commands
 * that stand here), and options of perf record that change nothing here.
 */
#include <stdio.h>
#include <unistd.h>

#include "capture/cmd/cmd.h"

/* table */
const struct habit cmd_habits[] = {
	/* words that may be meant as commands */
	{ "report", "`auxdecode summary FILE` shows a recording, `auxdecode report "
		    "-o OUT FILE` makes a page for a browser" },
	{ "script annotate", "`auxdecode insn FILE` prints instructions, `auxdecode "
			     "calls FILE` calls and returns" },
	{ "stat", "`auxdecode count FILE` counts what a recording ran" },
	{ "top", "`auxdecode hot FILE` ranks the functions of a recording" },
	{ "decode dump replay", "`auxdecode FILE` shows a recording, `auxdecode --help` "
				"lists how" },
	{ "run trace", "the program stands alone: `auxcap -- PROGRAM`" },
	{ "attach", "`auxcap -p PID` records what runs already" },
	/* options of perf record */
	{ "-b --branch-any -j --branch-filter",
	  "a trace has every branch: `auxdecode branch FILE` prints them, `auxdecode "
	  "profile --to perf -o OUT FILE` makes samples with branch stacks" },
	{ "-k --clockid", "leave it out: records have the clock of perf, to which "
			  "the trace's own is converted, and names of JIT code are found "
			  "without it" },
	{ "-V", "`auxcap --version`" },
	{ "-i --no-inherit", "threads and children are always recorded with their "
			     "parent: `auxdecode count --pid PID FILE` and its like "
			     "leave out the others" },
	{ "-u --uid", "-p takes a list: `auxcap -p $(pgrep -d, -u USER)`" },
	{ "-I --intr-regs --user-regs",
	  "a trace of branches has no registers: `perf record -I` samples them, and "
	  "`auxdecode crash FILE` says which a core file proves" },
	{ "-r --realtime", "`chrt -f PRIO auxcap` gives it that priority" },
	{ "--timestamp-filename", "--switch-output names its files by time" },
	{ "--switch-output-event", "--when WHAT takes a snapshot (-S) at a tracepoint, "
				   "function, line or signal" },
	{ "--off-cpu", "SWITCH records always say it: `auxdecode find --sort offcpu FILE`" },
	{ "--group", "events in braces are a group: -e '{A,B}'" },
	{ "--exclude-perf", "auxcap is recorded with -a and -C alone: `auxdecode hot "
			    "--comm COMM FILE` leaves it out" },
	{ "--vmlinux", "`auxdecode --vmlinux FILE` names the kernel's ELF file" },
	{ "--debuginfod", "`auxdecode --debuginfod FILE` asks a server for files" },
	{ "--aio --affinity --mmap-flush",
	  "--threads N is how many threads read the rings, -m DATA,AUX how large these "
	  "are" },
	{ "--namespaces --all-cgroups --no-samples --running-time --clang-path "
	  "--clang-opt --no-bpf-event --setup-filter",
	  "auxdecode needs none of it; `perf record` has it" },
	{ "-n --dry-run", "`auxcap doctor` says what would work" },
	{ "--proc-map-timeout --synth", "--no-synth leaves out what existed before" },
	/* of simpleperf, magic-trace, uftrace */
	{ "--duration", "a program that waits ends it: `auxcap -p PID -- sleep 5`" },
	{ "--app", "`auxcap -p PID` records a process" },
	{ "-f", "-F N is samples a second; -- stands before PROGRAM" },
	{ "-trigger --trigger -multi-snapshot",
	  "`auxcap -S -- PROGRAM` keeps the newest trace, and each SIGUSR2 saves it" },
	{ "-full-execution", "`auxcap -- PROGRAM` records all of it" },
	{ "-working-directory", "`auxcap -o FILE -- PROGRAM`" },
	{ NULL, NULL },
};

/*
 * ---- options of perf record that are taken ----
 *
 * People give them by habit. Those that ask for what is done anyway are taken
 * always; those that add to a sample, where nothing is sampled. On a terminal one
 * line says so: help is that of one option.
 */

/* No value is stored, so offset tells: 1 asks for something of samples. */
#define SAMPLE_NEEDLESS .parse = take, .offset = 1

static option_parse take;

/* table */
static const struct option_row needless[] = {
	{ .name = "timestamp", .letter = 'T', .parse = take,
	  .help = "every record has its time" },
	{ .name = "period", .letter = 'P', .parse = take,
	  .help = "samples have their period" },
	{ .name = "sample-cpu", .parse = take, .help = "every record has its CPU" },
	{ .name = "sample-identifier", .parse = take,
	  .help = "every record has the id of its event" },
	{ .name = "raw-samples", .letter = 'R', .parse = take,
	  .help = "tracepoints have their fields" },
	{ .name = "no-buildid-cache", .letter = 'N', .parse = take,
	  .help = "no cache is filled" },
	{ .name = "no-buildid", .letter = 'B', .parse = take,
	  .help = "build ids come with the mappings, and cost nothing" },
	{ .name = "buildid-all", .parse = take, .help = "all build ids are recorded" },
	{ .name = "buildid-mmap", .parse = take,
	  .help = "build ids come with the mappings" },
	{ .name = "strict-freq", .parse = take,
	  .help = "a frequency that is not possible is always refused" },
	{ .name = "switch-events", SAMPLE_NEEDLESS,
	  .help = "a trace always has context switches" },
	{ .name = "timestamp-boundary", .parse = take,
	  .help = "auxdecode info finds the first and the last time" },
	{ .name = "no-buffering", .parse = take,
	  .help = "what was recorded is in the file soon after" },
	{ .name = "tail-synthesize", .parse = take,
	  .help = "what existed is recorded at the start, and every change" },
	{ .name = "num-thread-synthesize", .arg = "N", .parse = take,
	  .help = "one thread is quick enough for /proc" },
	{ .name = "stat", .letter = 's', SAMPLE_NEEDLESS,
	  .help = "`auxdecode count` counts what each thread ran" },
	{ .name = "data", .letter = 'd', SAMPLE_NEEDLESS,
	  .help = "a trace of branches has no addresses of data" },
	{ .name = "phys-data", SAMPLE_NEEDLESS,
	  .help = "a trace of branches has no addresses of data" },
	{ .name = "data-page-size", SAMPLE_NEEDLESS,
	  .help = "a trace of branches has no addresses of data" },
	{ .name = "code-page-size", SAMPLE_NEEDLESS,
	  .help = "a trace has no sizes of pages" },
	{ .name = "weight", .letter = 'W', SAMPLE_NEEDLESS,
	  .help = "a trace has no weights: `auxdecode hot --by cycles`" },
	{ .name = "transaction", SAMPLE_NEEDLESS,
	  .help = "a trace has its transactions" },
	{ .name = "user-callchains", SAMPLE_NEEDLESS,
	  .help = "auxdecode knows calls exactly from the trace" },
	{ .name = "kernel-callchains", SAMPLE_NEEDLESS,
	  .help = "auxdecode knows calls exactly from the trace" },
	{ .name = NULL },
};

const struct option_row *const cmd_needless = needless;

static int take(const struct option_row *row, void *config, const char *arg,
		struct aux_diag *diag)
{
	struct cmd_options *o = config;

	(void)arg, (void)diag;
	o->needless |= UINT64_C(1) << (row - needless);
	return 0;
}

static const struct option_row *first_of_samples(const struct cmd_options *o)
{
	for (size_t i = 0; needless[i].name; i++)
		if (o->needless >> i & 1 && needless[i].offset)
			return &needless[i];
	return NULL;
}

int cmd_needless_check(const struct cmd_options *o)
{
	const struct option_row *row = first_of_samples(o);
	struct option_label label;

	if (!row)
		return CMD_OK;
	option_label(row, &label);
	return cmd_usage("record takes %s with traces alone, where it means nothing: "
			 "samples have time, CPU, thread, address, period, call chain and "
			 "a tracepoint's fields; `perf record %s` samples more",
			 label.text, label.text);
}

void cmd_needless_say(const struct cmd_options *o, const char *more, const char *why)
{
	const struct option_row *row = NULL;
	struct option_label label;
	char all[512];
	size_t n = 0, used;

	used = (size_t)snprintf(all, sizeof(all), "%s", more);
	for (size_t i = 0; needless[i].name && used < sizeof(all); i++) {
		if (!(o->needless >> i & 1))
			continue;
		row = &needless[i];
		n++;
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
					 used ? " " : "", option_label(row, &label));
	}
	if (!used || o->quiet || !isatty(STDERR_FILENO))
		return;
	if (n == 1 && !*more)
		why = row->help;
	cmd_say("%s: no need of it here: %s", all,
		why ? why : "what was recorded has all that they ask for; auxcap(1)");
}
