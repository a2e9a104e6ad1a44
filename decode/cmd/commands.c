/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of commands, sinks included: a new sink is its files and a row
 * here. --help lists commands in this order, the ones that are wanted most
 * first.
 *
 * A row says all that main() has to know: which options the command takes, how
 * many FILEs, whether people read its output in a pager, and whether it prints
 * while it decodes. Completion, --help and the usage messages are made from the
 * same rows, and lint compares the man page with them.
 */
#include <string.h>

#include "decode/cmd/cmd.h"
#include "decode/coverage/coverage.h"
#include "decode/export/export.h"
#include "decode/profile/profile.h"
#include "decode/report/report.h"
#include "decode/sink/sink.h"

/* What decodes the flow takes all of these. */
#define FLOW_CODE &cmd_group_code, &cmd_group_import
#define FLOW_WORK &cmd_group_jobs, &cmd_group_memory, &cmd_group_chunk_size, \
		  &cmd_group_progress, &cmd_group_input, \
		  &cmd_group_output
#define FLOW_PART &cmd_group_time, &cmd_group_part, &cmd_group_snapshot

/* table */
static const struct cmd_group *const flow_groups[] = {
	&cmd_group_tid, &cmd_group_who, &cmd_group_cpu, FLOW_PART, &cmd_group_symbol,
	&cmd_group_names, FLOW_CODE, FLOW_WORK, NULL,
}, *const sum_groups[] = {	/* what sums up has --json */
	&cmd_group_tid, &cmd_group_who, &cmd_group_cpu, FLOW_PART, &cmd_group_symbol,
	&cmd_group_names, FLOW_CODE, &cmd_group_json, FLOW_WORK, NULL,
}, *const profile_groups[] = {	/* is of whole files: no --symbol */
	&cmd_group_tid, &cmd_group_who, &cmd_group_cpu, FLOW_PART, FLOW_CODE,
	FLOW_WORK, NULL,
}, *const summary_groups[] = {
	&cmd_group_tid, &cmd_group_cpu, FLOW_PART, &cmd_group_names,
	FLOW_CODE, &cmd_group_json, FLOW_WORK, NULL,
}, *const tui_groups[] = {
	&cmd_group_tid, &cmd_group_who, &cmd_group_cpu, FLOW_PART, &cmd_group_names,
	FLOW_CODE, &cmd_group_jobs, &cmd_group_memory, &cmd_group_chunk_size,
	&cmd_group_input, &cmd_group_output, NULL,
}, *const gdbserver_groups[] = {
	FLOW_CODE, &cmd_group_jobs, &cmd_group_memory, &cmd_group_chunk_size,
	&cmd_group_input, &cmd_group_output, NULL,
}, *const crash_groups[] = {
	&cmd_group_names, FLOW_CODE, &cmd_group_json, &cmd_group_jobs, &cmd_group_memory,
	&cmd_group_chunk_size, &cmd_group_input, &cmd_group_output, NULL,
}, *const diff_groups[] = {	/* has a --tid of its own */
	&cmd_group_cpu, FLOW_PART, &cmd_group_names, FLOW_CODE,
	&cmd_group_json, FLOW_WORK, NULL,
}, *const raw_groups[] = {
	&cmd_group_tid, &cmd_group_cpu, &cmd_group_stream, &cmd_group_snapshot,
	&cmd_group_import, &cmd_group_memory, &cmd_group_input,
	&cmd_group_output, NULL,
}, *const file_groups[] = {
	&cmd_group_import, &cmd_group_memory, &cmd_group_input,
	&cmd_group_output, NULL,
}, *const info_groups[] = {
	&cmd_group_import, &cmd_group_json, &cmd_group_memory, &cmd_group_input,
	&cmd_group_output, NULL,
}, *const bundle_groups[] = {
	FLOW_CODE, &cmd_group_memory, &cmd_group_progress, &cmd_group_input,
	&cmd_group_output, NULL,
}, *const cut_groups[] = {
	&cmd_group_tid, &cmd_group_cpu, &cmd_group_time, &cmd_group_memory, &cmd_group_progress,
	&cmd_group_input, &cmd_group_output, NULL,
}, *const merge_groups[] = {
	&cmd_group_memory, &cmd_group_progress, &cmd_group_input, &cmd_group_output, NULL,
}, *const plan_groups[] = {
	&cmd_group_import, &cmd_group_json, &cmd_group_memory, &cmd_group_input,
	&cmd_group_output, NULL,
}, *const index_groups[] = {
	&cmd_group_memory, &cmd_group_input, &cmd_group_output, NULL,
}, *const store_groups[] = {
	FLOW_CODE, &cmd_group_memory, &cmd_group_input, &cmd_group_output, NULL,
}, *const map_groups[] = {
	&cmd_group_names, &cmd_group_code, &cmd_group_jobs, &cmd_group_memory,
	&cmd_group_progress, &cmd_group_input, &cmd_group_output, NULL,
}, *const reduce_groups[] = {	/* joins recordings, as map decodes them */
	&cmd_group_names, &cmd_group_code, &cmd_group_jobs, &cmd_group_memory,
	&cmd_group_input, &cmd_group_output, NULL,
}, *const compare_groups[] = {
	&cmd_group_json, &cmd_group_output, NULL,
}, *const repair_groups[] = {
	&cmd_group_input, &cmd_group_output, NULL,
}, *const verify_groups[] = {
	&cmd_group_stream, &cmd_group_snapshot, FLOW_CODE, &cmd_group_json,
	&cmd_group_memory, &cmd_group_chunk_size, &cmd_group_progress, &cmd_group_input,
	&cmd_group_output, NULL,
};

#define FLOW(SINK) .sink = &sink_##SINK, .groups = flow_groups, .run = cmd_flow
#define FLOW_SUM(SINK) \
	.sink = &sink_##SINK, .groups = sum_groups, .run = cmd_flow

/* table */
static const struct command commands[] = {
	{ .name = "insn", .help = "one line per instruction (the default)",
	  FLOW(insn), .paged = true, .streamed = true,
	  .examples = { { "insn -F tid,ip,sym perf.data",
			  "three columns, for programs to read" },
			{ "insn --last 1ms --tid 4711 perf.data",
			  "how it came to its end" } } },
	{ .name = "branch", .help = "one line per branch taken: from, to, kind",
	  FLOW(branch), .paged = true, .streamed = true,
	  .examples = { { "branch --symbol main perf.data",
			  "only branches from and to main" } } },
	{ .name = "count",
	  .help = "instructions per thread and stream, with a hash",
	  FLOW_SUM(count), .paged = true,
	  .examples = { { "count perf.data",
			  "did two runs do the same? compare the hashes" } } },
	{ .name = "calls",
	  .help = "calls and returns as a tree: time, duration, instructions",
	  FLOW(calls), .paged = true, .streamed = true,
	  .examples = { { "calls --tid 4711 perf.data",
			  "what one thread called" } } },
	{ .name = "flame", .help = "a flame graph: folded stacks, or --svg",
	  FLOW(flame),
	  .examples = { { "flame --svg -o flame.svg perf.data",
			  "a picture for a browser" },
			{ "flame perf.data",
			  "folded stacks, for other tools" } } },
	{ .name = "hot", .help = "functions, blocks or edges, by what ran in them",
	  FLOW_SUM(hot), .paged = true,
	  .examples = { { "hot -n 20 perf.data",
			  "the 20 functions that ran most" },
			{ "hot --edges perf.data",
			  "the branches taken most" } } },
	{ .name = "latency",
	  .help = "how long calls of a function took: histogram, slowest",
	  FLOW_SUM(latency), .paged = true, .named = true,
	  .operands = "FUNCTION FILE",
	  .examples = { { "latency handle_request perf.data",
			  "how long its calls took" } } },
	{ .name = "find",
	  .help = "calls of a function: longer than, called from, ...",
	  FLOW_SUM(find_calls), .paged = true, .streamed = true, .named = true,
	  .operands = "FUNCTION FILE",
	  .examples = { { "find handle_request --longer 1ms perf.data",
			  "the slow ones" } } },
	{ .name = "report",
	  .help = "one HTML file: timeline, flame graph, functions, gaps",
	  FLOW(report),
	  .examples = { { "report -o report.html perf.data",
			  "one file for a browser" } } },
	{ .name = "export",
	  .help = "for other tools: --to perfetto, chrome, sqlite, ...",
	  FLOW(export),
	  .examples = { { "export --to perfetto -o trace.pftrace perf.data",
			  "for ui.perfetto.dev" },
			{ "export --to sqlite -o trace.db perf.data",
			  "to ask questions in SQL" },
			{ "export --to parquet -o tables perf.data",
			  "the same for DuckDB and other engines" } } },
	{ .name = "profile",
	  .help = "how often what ran: for compilers, BOLT, perf",
	  .sink = &sink_profile, .groups = profile_groups, .run = cmd_profile,
	  .examples = { { "profile --to autofdo -o app.afdo perf.data",
			  "for a compiler" } } },
	{ .name = "coverage",
	  .help = "lines, functions, blocks that ran, and how often",
	  FLOW_SUM(coverage),
	  .examples = { { "coverage --module app perf.data",
			  "lines of one program that ran" },
			{ "coverage --to lcov -o app.info perf.data",
			  "for genhtml" } } },
	{ .name = "annotate",
	  .help = "a function's source and instructions, each with its count",
	  FLOW(annotate), .paged = true, .named = true,
	  .operands = "FUNCTION FILE",
	  .examples = { { "annotate parse_header perf.data",
			  "which way its branches went, and how often" },
			{ "annotate --to html -o a.html -n 20 perf.data",
			  "the 20 functions that ran most, for a browser" } } },
	{ .name = "summary",
	  .help = "the first screen: what ran, and what is missing",
	  .own = &cmd_summary_own,
	  .groups = summary_groups, .paged = true, .run = cmd_summary,
	  .examples = { { "summary perf.data",
			  "what `auxdecode perf.data` shows on a terminal" } } },
	{ .name = "tui", .help = "look around in it, on the terminal",
	  .groups = tui_groups, .run = cmd_tui,
	  .examples = { { "tui perf.data",
			  "functions, call tree, threads, gaps; ? is help" } } },
	{ .name = "crash",
	  .help = "how it came to its end: signal, stack, last calls, values",
	  .own = &cmd_crash_own, .groups = crash_groups, .paged = true,
	  .run = cmd_crash,
	  .examples = { { "crash perf.data", "of a program that a signal ended" },
			{ "crash --core core perf.data",
			  "with registers, and the values that follow from them" } } },
	{ .name = "gdb",
	  .help = "gdb on the recording: step backwards through it",
	  .own = &cmd_gdb_own, .groups = gdbserver_groups, .run = cmd_gdb,
	  .examples = { { "gdb perf.data",
			  "from its end: reverse-step, reverse-continue, bt" } } },
	{ .name = "gdbserver",
	  .help = "the same for a debugger that is started elsewhere",
	  .own = &cmd_gdbserver_own, .groups = gdbserver_groups,
	  .run = cmd_gdbserver,
	  .examples = { { "gdbserver perf.data",
			  "then `target remote :PORT` in gdb, as it says" },
			{ "gdbserver --port - perf.data",
			  "for gdb's `target remote | auxdecode ..`" } } },
	{ .name = "dap",
	  .help = "the same for an editor, by the Debug Adapter Protocol",
	  .own = &cmd_dap_own, .groups = gdbserver_groups, .run = cmd_dap,
	  .examples = { { "dap perf.data",
			  "as an editor starts it; tools/vscode is one for VS Code" },
			{ "dap --port 0 perf.data",
			  "for one that connects to a port, as it says" } } },
	{ .name = "diff",
	  .help = "two recordings: where they diverge, what ran more",
	  .own = &cmd_diff_own,
	  .groups = diff_groups, .many = true,
	  .operands = "FILE FILE", .paged = true, .compares = true,
	  .run = cmd_diff,
	  .examples = { { "diff good.data bad.data",
			  "where they diverge, and what ran more" },
			{ "diff --only functions -n 50 a.data b.data",
			  "only what ran more" } } },
	{ .name = "raw", .help = "trace packets with their offsets",
	  .own = &cmd_raw_own, .groups = raw_groups,
	  .paged = true, .run = cmd_raw,
	  .examples = { { "raw --stream 0 -n 100 perf.data",
			  "the first 100 packets of a stream" } } },
	{ .name = "info", .help = "what is in the file: events, streams, containers, losses",
	  .groups = info_groups, .paged = true, .run = cmd_info,
	  .examples = { { "info perf.data", "streams, snapshots, losses" } } },
	{ .name = "dump", .help = "all records, and the packets of AUX data",
	  .own = &cmd_dump_own, .groups = file_groups,
	  .paged = true, .run = cmd_dump,
	  .examples = { { "dump --packets perf.data",
			  "everything that is in the file" } } },
	{ .name = "buildid-list", .help = "the build id of each file that is mapped, as perf prints them",
	  .groups = info_groups, .paged = true, .run = cmd_buildids,
	  .examples = { { "buildid-list perf.data",
			  "a line for each: id and path" } } },
	{ .name = "bundle",
	  .help = "one file that decodes anywhere: with the code it needs",
	  .groups = bundle_groups, .run = cmd_bundle,
	  .examples = { { "bundle -o bundle.data perf.data",
			  "to send it to somebody" } } },
	{ .name = "cut", .help = "a smaller file: what a time, a CPU, a thread needs",
	  .groups = cut_groups, .run = cmd_cut,
	  .examples = { { "cut --time 12.5,12.6 -o part.data perf.data",
			  "100 ms of it" } } },
	{ .name = "merge",
	  .help = "several recordings as one; or coverage, profiles",
	  .own = &cmd_merge_own, .groups = merge_groups, .many = true, .operands = "FILE FILE...",
	  .run = cmd_merge,
	  .examples = { { "merge -o all.data first.data second.data",
			  "two as one" } } },
	{ .name = "plan", .help = "units of work of many recordings, or of a large one",
	  .own = &cmd_plan_own, .groups = plan_groups, .many = true, .operands = "FILE...",
	  .run = cmd_plan,
	  .examples = { { "plan --do count recordings/", "a line for each unit" } } },
	{ .name = "index", .help = "lets many processes open a large recording at once",
	  .groups = index_groups, .many = true, .operands = "FILE...", .run = cmd_index,
	  .examples = { { "index perf.data", "writes perf.data.auxidx, which map reads" } } },
	{ .name = "map", .help = "a part of a result: of one unit, or of recordings",
	  .own = &cmd_map_own, .groups = map_groups, .many = true, .operands = "FILE...",
	  .run = cmd_map,
	  .examples = { { "map --do flame -o a.part a.data", "what reduce joins" } } },
	{ .name = "reduce", .help = "parts as one result, in any order",
	  .own = &cmd_reduce_own, .groups = reduce_groups, .many = true,
	  .operands = "FILE...", .run = cmd_reduce,
	  .examples = { { "reduce -o all.folded a.part b.part",
			  "as if one process had decoded all" } } },
	{ .name = "fleet", .help = "plan, map and reduce: here, by make, by Slurm",
	  .own = &cmd_fleet_own, .groups = map_groups, .many = true,
	  .operands = "run|status FILE...", .run = cmd_fleet,
	  .examples = { { "fleet run --do hot -o result/ recordings/",
			  "on all CPUs of this machine" },
			{ "fleet run --on slurm --do flame -o result/ recordings/",
			  "an array of jobs, and one that joins them" } } },
	{ .name = "store", .help = "the code of many recordings, by build id",
	  .groups = store_groups, .many = true, .operands = "add FILE...", .run = cmd_store,
	  .examples = { { "store add -o store/ recordings/",
			  "then --store store/ decodes them on any machine" } } },
	{ .name = "compare", .help = "what tells two groups of recordings apart",
	  .own = &cmd_compare_own, .groups = compare_groups, .none = true, .operands = "",
	  .run = cmd_compare,
	  .examples = { { "compare --group fast='out/parts/a*' --group slow='out/parts/b*'",
			  "functions that are slower, not by chance" } } },
	{ .name = "repair", .help = "completes a file whose writer was killed",
	  .own = &cmd_repair_own,
	  .groups = repair_groups, .edits = true, .run = cmd_repair,
	  .examples = { { "repair -o mended.data perf.data",
			  "leaves the damaged one as it is" } } },
	{ .name = "verify", .help = "two decoders side by side, and where they differ",
	  .own = &cmd_verify_own,
	  .groups = verify_groups, .run = cmd_verify,
	  .examples = { { "verify perf.data", "do two decoders agree?" } } },
};

/* The index has no meaning but the order of --help; 0 is the default
 * command. */
const struct command *cmd_get(size_t i)
{
	return i < sizeof(commands) / sizeof(commands[0]) ? &commands[i] : NULL;
}

/* Whole names only: an abbreviation could come to mean another command
 * later. */
const struct command *cmd_find(const char *name)
{
	const struct command *c;

	for (size_t i = 0; (c = cmd_get(i)); i++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

const struct option_row *cmd_rows(const struct command *c)
{
	if (c->sink)
		return c->sink->options;
	return c->own ? c->own->options : NULL;
}
