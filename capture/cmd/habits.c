/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What users of perf, simpleperf, uftrace and magic-trace type, and what of auxcap
 * does that. Only words that auxcap does not take itself; t_habits runs the
 * commands that stand here.
 */
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
	{ "dwarf lbr", "--call-graph takes its word after =, and fp alone: auxdecode "
		       "knows calls exactly from the trace" },
	/* options of perf record */
	{ "-b --branch-any -j --branch-filter",
	  "a trace has every branch: `auxdecode branch FILE` prints them, `auxdecode "
	  "profile --to perf -o OUT FILE` makes samples with branch stacks" },
	{ "-k --clockid", "records have the clock of perf, which the trace's own is "
			  "converted to; names of JIT code need no other one" },
	{ "-V", "`auxcap --version`" },
	{ "-i --no-inherit", "threads and children are always recorded with their "
			     "parent; -t TID is one thread" },
	{ "-u --uid", "-p takes a list: `auxcap -p $(pgrep -d, -u USER)`" },
	{ "--all-user --user-callchains", "the modifier u is user code alone: "
					  "-e intel_pt//u" },
	{ "--all-kernel --kernel-callchains", "the modifier k is the kernel alone: "
					      "-e intel_pt//k" },
	{ "-s --stat -d --data -T --timestamp -P --period --sample-cpu -R "
	  "--raw-samples -W --weight",
	  "samples always have what their event can give" },
	{ "-N --no-buildid-cache -B --no-buildid --buildid-all",
	  "build ids are always recorded and no cache is filled: `auxdecode bundle "
	  "-o OUT FILE` adds the code" },
	{ "--timestamp-filename", "--switch-output names its files by time" },
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
