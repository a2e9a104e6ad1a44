/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What users of perf, uftrace, magic-trace, ptxed and trc_pkt_lister type, and
 * which command of auxdecode does that. Only words that auxdecode does not
 * take itself; t_habits runs every command that stands here.
 */
#include "decode/cmd/cmd.h"

/* table */
const struct habit cmd_habits[] = {
	/* commands of perf */
	{ "script", "`auxdecode insn FILE` prints instructions, `auxdecode calls FILE` "
		    "calls and returns, `auxdecode dump FILE` the records" },
	{ "lock contention", "`auxdecode find pthread_mutex_lock --sort dur FILE` lists the "
			     "calls that waited longest" },
	{ "kvm bench config daemon", "`auxcap` records and `auxdecode` reads AUX trace; `perf` "
				     "itself does the rest, with the same files" },
	{ "ftrace", "`auxcap -e intel_pt//k` traces the kernel, `auxdecode calls FILE` prints "
		    "its calls" },
	{ "probe", "no probe is needed: `auxdecode find FUNCTION FILE` has every call" },
	{ "iostat", "`auxdecode find read FILE` has the calls, with their times" },
	{ "top", "`auxdecode hot FILE` ranks functions by what ran in them" },
	{ "stat", "`auxdecode count FILE` counts instructions, `auxdecode hot FILE` "
		  "by function" },
	{ "evlist header", "`auxdecode info FILE` shows the events and what the "
			   "header says" },
	{ "archive buildid-cache", "`auxdecode bundle -o OUT FILE` makes one file "
				   "that decodes anywhere" },
	{ "inject", "`auxdecode profile --to perf -o OUT FILE` makes samples with "
		    "branch stacks; names of JIT code are found without it" },
	{ "data convert", "`auxdecode export --to jsonl FILE`, or --to chrome, "
			  "perfetto, sqlite, parquet" },
	{ "sched timechart trace", "`auxdecode report -o OUT FILE` draws threads "
				   "over time, `auxdecode export --to perfetto "
				   "-o OUT FILE` is for ui.perfetto.dev" },
	{ "mem c2c kmem", "a trace of branches has no addresses of data; `auxcap -e "
			  "mem:0x404040/8:rw -- PROGRAM` samples accesses to one place" },
	{ "record", "`auxcap` records: `auxcap -e intel_pt//u -- PROGRAM`" },
	/* of uftrace, magic-trace and others */
	{ "replay", "`auxdecode calls FILE` prints calls and returns as a tree" },
	{ "graph", "`auxdecode flame --svg -o OUT FILE` draws the calls, `auxdecode "
		   "calls FILE` prints them" },
	{ "flamegraph flame-graph", "`auxdecode flame --svg -o OUT FILE` draws one" },
	{ "stats", "`auxdecode hot FILE` ranks functions, `auxdecode latency "
		   "FILE` times their calls" },
	{ "decode", "`auxdecode insn FILE` prints instructions, `auxdecode report "
		    "-o OUT FILE` is one page for a browser" },
	{ "list ls", "`auxdecode info FILE` lists what is in a file, `auxdecode "
		     "--help` the commands" },
	/* options of perf script and perf report */
	{ "--itrace", "without one the whole flow is decoded: `auxdecode insn FILE` "
		      "prints it (i), `auxdecode branch FILE` branches (b), "
		      "`auxdecode calls FILE` calls and returns (c, r), "
		      "`auxdecode profile --to perf -o OUT FILE` samples of it" },
	{ "--insn-trace", "`auxdecode insn FILE` prints instructions" },
	{ "--call-trace --call-ret-trace",
	  "`auxdecode calls FILE` prints calls and returns as a tree" },
	{ "--graph-function", "`auxdecode find NAME FILE` lists the calls of a "
			      "function, `auxdecode calls --symbol NAME FILE` shows "
			      "them as a tree" },
	{ "--xed", "`auxdecode insn FILE` disassembles by itself" },
	{ "--stdio", "`auxdecode hot FILE` ranks functions as text, `auxdecode "
		     "annotate FUNCTION FILE` prints text as it is; report is a page "
		     "for a browser" },
	{ "--sort -s", "`auxdecode hot --by time FILE` orders functions by time, "
		       "cycles, branches or insns" },
	{ "--percent-limit --max-stack", "`auxdecode hot -n 20 FILE` is the first 20 rows" },
	{ "--no-children --children -g --call-graph",
	  "`auxdecode hot FILE` has self and total, `auxdecode flame FILE` stacks" },
	{ "--header --header-only -I --show-info", "`auxdecode info FILE` shows the header" },
	{ "-D --dump-raw-trace --show-mmap-events --show-task-events "
	  "--show-switch-events --show-lost-events",
	  "`auxdecode dump FILE` prints every record, `auxdecode dump --packets "
	  "FILE` the trace packets, too" },
	{ "-k", "`--vmlinux FILE` names the kernel's ELF file" },
	{ "--symbol-filter", "`--symbol NAME` is one function; it may be given again" },
	{ "-q --quiet", "a result goes to standard output, what is wrong with it to "
			"standard error: 2>/dev/null" },
	{ "--dsos --dso-filter", "`--module FILE` is the functions of one file" },
	{ "--kind --branch-filter", "`auxdecode branch -F +kind FILE` has the kind in each line" },
	{ "--ns", "times are printed to the nanosecond where the trace has them" },
	{ "--reltime --deltatime", "times are those of the recording; `auxdecode "
				   "export --to chrome FILE` counts from its begin" },
	{ "--to-json --json", "`auxdecode summary --json FILE`, and so count, hot, find, "
			      "latency and others; `auxdecode export --to jsonl FILE` has "
			      "an object for each event" },
	{ "--csv -x --field-separator", "`auxdecode export --to jsonl FILE` or --to "
					"sqlite is for programs; -F chooses columns" },
	{ "--dlfilter --script -script", "`auxdecode export --to jsonl FILE` or --to "
					 "sqlite is for programs of your own" },
	/* of ptxed and trc_pkt_lister */
	{ "--raw", "`--image FILE:OFFSET-END@ADDR` is code for --pt, `--elf "
		   "FILE[@ADDR]` an ELF file" },
	{ "-ss_dir", "FILE is the snapshot's directory: `auxdecode insn DIR`" },
	{ "-decode", "`auxdecode insn FILE` decodes, `auxdecode raw FILE` lists "
		     "packets" },
	{ NULL, NULL },
};
