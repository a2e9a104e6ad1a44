/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options that several commands have, in groups; see cmd.h.
 *
 * A group is as small as commands differ: insn takes --symbol and profile does
 * not, so --symbol is a group of its own. The names are perf's where perf has
 * the option (--tid, --cpu, --time, --symfs, --vmlinux, --kallsyms), and mean
 * the same.
 *
 * A value that is bad is refused with the word as it was typed. A value that is
 * left out of a pair (--time ,B) leaves the default that main() has set.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/cmd/cmd.h"

#define FILTERS  "what is shown"
#define DECODING "decoding"

int cmd_parse_times(const char *s, uint64_t *from, uint64_t *to,
		    struct aux_diag *diag)
{
	const char *p = s;

	if (*p != ',')
		p = option_read_time(p, from);
	if (p && *p == ',' && p[1])
		p = option_read_time(p + 1, to);
	else if (p)
		p = *p == ',' ? p + 1 : NULL;
	if (!p || *p || !strcmp(s, ","))
		return option_refuse(diag, "--time wants A,B in seconds "
				     "(12.345678901) or with a unit (ns, us, ms), "
				     "not \"%s\"%s", s,
				     strchr(s, '-') ? ": A, is from A on, and ,B up to B" :
						      "");
	if (*from > *to)
		return option_refuse(diag, "--time %s ends before it begins",
				     s);
	return 0;
}

/* "-" is standard output, as for perf, also where a format is never printed to a
 * terminal. */
static int parse_output(const struct option_row *row, void *config,
			const char *arg, struct aux_diag *diag)
{
	struct cmd_options *o = config;

	(void)row;
	(void)diag;
	o->output.path = strcmp(arg, "-") ? arg : "/dev/stdout";
	return 0;
}

/* --time. perf script takes the same A,B, in seconds alone. */
static int parse_time(const struct option_row *row, void *config,
		      const char *arg, struct aux_diag *diag)
{
	struct cmd_options *o = config;

	(void)row;
	o->filter.in_shares = false;
	if (strchr(arg, '%'))
		return cmd_parse_share(arg, &o->filter, diag);
	return cmd_parse_times(arg, &o->filter.time_from, &o->filter.time_to,
			       diag);
}

/* A number into an int64_t, of which -1 means that the option was not given. */
static int parse_id(const struct option_row *row, void *config, const char *arg,
		    struct aux_diag *diag)
{
	int64_t *to = (int64_t *)(void *)((char *)config + row->offset);
	uint64_t v;

	if (!option_read_number(arg, row->max, &v))
		return option_refuse(diag, "--%s wants a number up to %llu, not \"%s\"%s",
				     row->name, (unsigned long long)row->max, arg,
				     strcmp(row->name, "cpu") ? "" :
				     ": --cpu-model F/M/S says which CPU it was");
	*to = (int64_t)v;
	return 0;
}

/* "N" or "N-M" */
static int parse_chunk(const struct option_row *row, void *config,
		       const char *arg, struct aux_diag *diag)
{
	struct cmd_filter *f = &((struct cmd_options *)config)->filter;
	const uint64_t max = UINT64_MAX - 1;
	size_t n = strcspn(arg, "-");
	const char *bad = NULL;
	char first[24];

	(void)row;
	if (n >= sizeof(first))
		return option_refuse(diag, "--chunk wants N or N-M, not \"%s\"",
				     arg);
	memcpy(first, arg, n);
	first[n] = '\0';
	f->chunks = true;
	if (!option_read_number(first, max, &f->chunk_from))
		bad = first;
	f->chunk_to = f->chunk_from;
	if (!bad && arg[n] &&
	    !option_read_number(arg + n + 1, max, &f->chunk_to))
		bad = arg + n + 1;
	if (bad)
		return option_refuse(diag, "--chunk wants a number up to %llu, "
				     "not \"%s\"", (unsigned long long)max,
				     bad);
	if (f->chunk_to < f->chunk_from)
		return option_refuse(diag, "--chunk %s ends before it begins",
				     arg);
	return 0;
}

/* Appends; the array is in the struct, since a command line has no other
 * memory. */
static int add_image(const struct option_row *row, void *config,
		     const char *arg, struct aux_diag *diag)
{
	struct cmd_import *im = &((struct cmd_options *)config)->import;

	(void)row;
	if (im->options.n_images == CMD_IMAGES)
		return option_refuse(diag, "more than %d of --image",
				     CMD_IMAGES);
	im->images[im->options.n_images++] = arg;
	im->options.images = im->images;
	return 0;
}

/* Appends, as --image. */
static int add_elf(const struct option_row *row, void *config, const char *arg,
		   struct aux_diag *diag)
{
	struct cmd_import *im = &((struct cmd_options *)config)->import;

	(void)row;
	if (im->options.n_elfs == CMD_IMAGES)
		return option_refuse(diag, "more than %d of --elf", CMD_IMAGES);
	im->elfs[im->options.n_elfs++] = arg;
	im->options.elfs = im->elfs;
	return 0;
}

/* Appends, as --image. */
static int add_input(const struct option_row *row, void *config,
		     const char *arg, struct aux_diag *diag)
{
	struct cmd_options *o = config;

	(void)row;
	if (o->n_inputs == CMD_INPUTS)
		return option_refuse(diag, "more than %d of --input", CMD_INPUTS);
	o->inputs[o->n_inputs++] = arg;
	return 0;
}

/* Appends, as --image. */
static int add_symbol(const struct option_row *row, void *config,
		      const char *arg, struct aux_diag *diag)
{
	struct cmd_filter *f = &((struct cmd_options *)config)->filter;

	(void)row;
	if (f->n_symbols == CMD_SYMBOLS)
		return option_refuse(diag, "more than %d of --symbol",
				     CMD_SYMBOLS);
	f->symbols[f->n_symbols++] = arg;
	return 0;
}

static int add_module(const struct option_row *row, void *config,
		      const char *arg, struct aux_diag *diag)
{
	struct cmd_filter *f = &((struct cmd_options *)config)->filter;

	(void)row;
	if (f->n_modules == CMD_SYMBOLS)
		return option_refuse(diag, "more than %d of --module",
				     CMD_SYMBOLS);
	f->modules[f->n_modules++] = arg;
	return 0;
}

static int add_comm(const struct option_row *row, void *config,
		    const char *arg, struct aux_diag *diag)
{
	struct cmd_filter *f = &((struct cmd_options *)config)->filter;

	(void)row;
	if (f->n_comms == CMD_SYMBOLS)
		return option_refuse(diag, "more than %d of --comm", CMD_SYMBOLS);
	f->comms[f->n_comms++] = arg;
	return 0;
}

/* "4711" or "4711,4712", as perf has it. */
static int add_pids(const struct option_row *row, void *config,
		    const char *arg, struct aux_diag *diag)
{
	struct cmd_filter *f = &((struct cmd_options *)config)->filter;
	char one[24];
	uint64_t v;
	size_t n;

	(void)row;
	for (const char *p = arg;; p += n + 1) {
		n = strcspn(p, ",");
		snprintf(one, sizeof(one), "%.*s", (int)(n < 20 ? n : 20), p);
		if (!option_read_number(one, INT32_MAX, &v))
			return option_refuse(diag, "--pid wants numbers up to "
					     "%d, not \"%s\"", INT32_MAX, arg);
		if (f->n_pids == CMD_SYMBOLS)
			return option_refuse(diag, "more than %d of --pid",
					     CMD_SYMBOLS);
		f->pids[f->n_pids++] = (uint32_t)v;
		if (!p[n])
			return 0;
	}
}

/* Both spellings set one value; the last on the line wins. */
static int set_progress(const struct option_row *row, void *config,
			const char *arg, struct aux_diag *diag)
{
	struct cmd_options *o = config;

	(void)arg, (void)diag;
	o->output.progress = strncmp(row->name, "no-", 3) != 0;
	return 0;
}

/* What is printed instead of a result: nothing after it on the line matters. */
static int stop_with_flag(const struct option_row *row, void *config,
			  const char *arg, struct aux_diag *diag)
{
	option_flag(row, config, arg, diag);
	return OPTION_STOP;
}

static int stop_with_text(const struct option_row *row, void *config,
			  const char *arg, struct aux_diag *diag)
{
	option_text(row, config, arg, diag);
	return OPTION_STOP;
}

#define OPTIONS struct cmd_options
#define END { .name = NULL }

/* table */
static const struct option_row tid_rows[] = {
	{ .name = "tid", .arg = "TID", .help = "this thread only",
	  .parse = parse_id, .max = INT32_MAX,
	  OPTION_AT(OPTIONS, filter.tid, int64_t) },
	END,
}, who_rows[] = {
	{ .name = "pid", .arg = "PID",
	  .help = "these processes only: 4711 or 4711,4712",
	  .parse = add_pids },
	{ .name = "comm", .arg = "NAME",
	  .help = "threads while they have this name; several: any of them",
	  .parse = add_comm },
	END,
}, cpu_rows[] = {
	{ .name = "cpu", .letter = 'C', .arg = "CPU", .help = "this CPU only",
	  .parse = parse_id, .max = INT32_MAX,
	  OPTION_AT(OPTIONS, filter.cpu, int64_t) },
	END,
}, time_rows[] = {
	{ .name = "time", .arg = "A,B",
	  .help = "from A to B: seconds as shown, or 123ns, us, ms; either may "
		  "be\nmissing; 10%-20% of the recording",
	  .parse = parse_time },
	END,
}, part_rows[] = {
	{ .name = "last", .arg = "TIME",
	  .help = "the end of the recording: 10ms, 500us, 0.5 (seconds)",
	  OPTION_DURATION(OPTIONS, filter.last_ns) },
	{ .name = "chunk", .arg = "N[-M]",
	  .help = "only chunks N to M of each stream, from 0; see --chunk-size",
	  .parse = parse_chunk },
	END,
}, stream_rows[] = {
	{ .name = "stream", .arg = "N", .help = "this AUX stream only",
	  .parse = parse_id, .max = UINT32_MAX,
	  OPTION_AT(OPTIONS, filter.stream, int64_t) },
	END,
}, snapshot_rows[] = {
	{ .name = "snapshot", .arg = "N",
	  .help = "this snapshot only; info lists them",
	  .zero = "counts from 1", OPTION_NUMBER(OPTIONS, filter.snapshot) },
	END,
}, symbol_rows[] = {
	{ .name = "symbol", .also = "symbols", .letter = 'S', .arg = "NAME",
	  .help = "this function only: a name, foo*, /regex/; several: any of them",
	  .parse = add_symbol },
	{ .name = "module", .also = "dso", .arg = "FILE",
	  .help = "functions of this file only: a path, its last part, lib*; "
		  "several: any",
	  .parse = add_module },
	END,
}, names_rows[] = {
	{ .name = "no-demangle",
	  .help = "names as the file has them (default: as in the source)",
	  OPTION_FLAG(OPTIONS, filter.mangled) },
	{ .name = "full-names",
	  .help = "all of long names (default: short on a terminal)",
	  OPTION_FLAG(OPTIONS, filter.full_names) },
	END,
};

/* A directory of cmd/store.c, or what serves one. */
static int take_store(const struct option_row *row, void *config, const char *arg,
		      struct aux_diag *diag)
{
	struct cmd_options *o = config;

	(void)row;
	if (!strstr(arg, "://")) {
		o->code.buildid_dir = arg;
		return 0;
	}
	o->code.debuginfod = true;
	return setenv("DEBUGINFOD_URLS", arg, 1) ? option_refuse(diag, "--store: %m") : 0;
}

/* table */
static const struct option_row code_rows[] = {
	{ .name = "symfs", .arg = "DIR",
	  .help = "look for the recorded files under DIR",
	  OPTION_TEXT(OPTIONS, code.symfs) },
	{ .name = "vdso", .arg = "FILE",
	  .help = "the vDSO of the recorded machine",
	  OPTION_TEXT(OPTIONS, code.vdso) },
	{ .name = "buildid-dir", .arg = "DIR",
	  .help = "perf's build-id cache (default ~/.debug)",
	  OPTION_TEXT(OPTIONS, code.buildid_dir) },
	{ .name = "store", .arg = "DIR", .parse = take_store,
	  .help = "files by build id: what store add wrote, or the URL of a debuginfod" },
	{ .name = "debuginfod",
	  .help = "ask the servers of $DEBUGINFOD_URLS for files",
	  OPTION_FLAG(OPTIONS, code.debuginfod) },
	{ .name = "vmlinux", .arg = "FILE",
	  .help = "the recorded kernel's ELF file",
	  OPTION_TEXT(OPTIONS, code.vmlinux) },
	{ .name = "kcore", .arg = "FILE",
	  .help = "the kernel's memory: a kcore, or a directory with kcore and "
		  "kallsyms",
	  OPTION_TEXT(OPTIONS, code.kcore) },
	{ .name = "kallsyms", .arg = "FILE",
	  .help = "the kernel's symbols: a copy of /proc/kallsyms",
	  OPTION_TEXT(OPTIONS, code.kallsyms) },
	{ .name = "decoder", .arg = "NAME", .values = "pt etm libipt opencsd",
	  .help = "use this decoder: pt, etm, libipt or opencsd",
	  OPTION_TEXT(OPTIONS, decoding.decoder) },
	{ .name = "plugin", .arg = "FILE", .help = "load a decoder from FILE",
	  OPTION_TEXT(OPTIONS, decoding.plugin) },
	END,
}, import_rows[] = {
	{ .name = "pt", .arg = "FILE",
	  .help = "Intel PT packets alone, or FILE:BEGIN-END of them; no other "
		  "FILE",
	  OPTION_TEXT(OPTIONS, import.options.pt) },
	{ .name = "image", .arg = "FILE",
	  .help = "code for --pt: FILE:OFFSET-END@ADDR, or an ELF-FILE[@ADDR]",
	  .parse = add_image },
	{ .name = "elf", .arg = "FILE[@ADDR]",
	  .help = "a program that ran, for snapshots (OpenCSD, DS-5) and --pt;\n"
		  "@ADDR: where its first segment was",
	  .parse = add_elf },
	{ .name = "cpu-model", .arg = "F/M/S",
	  .help = "family, model, stepping of the CPU that was traced",
	  OPTION_TEXT(OPTIONS, import.options.cpu_model) },
	{ .name = "any-path",
	  .help = "a snapshot or bundle may name files outside of its directory",
	  OPTION_FLAG(OPTIONS, import.options.anywhere) },
	END,
}, chunk_size_rows[] = {
	{ .name = "chunk-size", .arg = "SIZE",
	  .help = "trace decoded in one go (default 256K); the flow does not "
		  "change",
	  .max = 1 << 30, .zero = "wants at least 1 byte",
	  OPTION_SIZE(OPTIONS, decoding.chunk_min) },
	END,
}, jobs_rows[] = {
	{ .name = "jobs", .letter = 'j', .arg = "N",
	  .help = "threads (default: one for each CPU); output does not change",
	  .max = 4096, .zero = "wants at least one worker",
	  OPTION_NUMBER(OPTIONS, decoding.n_workers) },
	END,
}, memory_rows[] = {
	{ .name = "max-memory", .arg = "SIZE",
	  .help = "for what is kept of the recording, and decoded ahead (default 512M)",
	  OPTION_SIZE(OPTIONS, decoding.max_memory) },
	END,
}, progress_rows[] = {
	{ .name = "progress", .help = "show progress (default: on a terminal)",
	  .parse = set_progress },
	{ .name = "no-progress", .help = "show no progress",
	  .parse = set_progress },
	END,
}, json_rows[] = {
	{ .name = "json",
	  .help = "as JSON: all numbers, losses, status, what to do next",
	  OPTION_FLAG(OPTIONS, output.json) },
	END,
}, input_rows[] = {
	{ .name = "input", .letter = 'i', .arg = "FILE",
	  .help = "read FILE, as the word FILE (default perf.data)",
	  .parse = add_input },
	END,
}, output_rows[] = {
	{ .name = "output", .letter = 'o', .arg = "FILE",
	  .help = "write to FILE, not to standard output (-)",
	  .parse = parse_output },
	{ .name = "color", .arg = "WHEN", .values = "auto always never",
	  .help = "auto (the default: on a terminal), always or never",
	  OPTION_CHOICE(OPTIONS, output.color) },
	{ .name = "no-pager",
	  .help = "do not show it through $AUXDECODE_PAGER, $PAGER or less",
	  OPTION_FLAG(OPTIONS, output.no_pager) },
	{ .name = "verbose", .letter = 'v',
	  .help = "where there is nothing to show: what each stage had",
	  OPTION_FLAG(OPTIONS, output.verbose) },
	{ .name = "help", .letter = 'h', .help = "show this",
	  .parse = stop_with_flag, OPTION_AT(OPTIONS, help, bool) },
	{ .name = "completion", .arg = "SHELL", .values = "bash zsh fish",
	  .help = "print what completes words in bash, zsh or fish",
	  .parse = stop_with_text, OPTION_AT(OPTIONS, completion, const char *) },
	{ .name = "version", .help = "show the version",
	  .parse = stop_with_flag, OPTION_AT(OPTIONS, version, bool) },
	END,
};

const struct cmd_group cmd_group_tid = { FILTERS, tid_rows, true },
	cmd_group_who = { FILTERS, who_rows, true },
	cmd_group_cpu = { FILTERS, cpu_rows, true },
	cmd_group_time = { FILTERS, time_rows, true },
	cmd_group_part = { FILTERS, part_rows, true },
	cmd_group_stream = { FILTERS, stream_rows, true },
	cmd_group_snapshot = { FILTERS, snapshot_rows, true },
	cmd_group_symbol = { FILTERS, symbol_rows, true },
	cmd_group_names = { FILTERS, names_rows, true },
	cmd_group_code = { "code, and its decoder", code_rows, true },
	cmd_group_import = { "trace without a recording", import_rows, true },
	cmd_group_chunk_size = { DECODING, chunk_size_rows, false },
	cmd_group_jobs = { DECODING, jobs_rows, false },
	cmd_group_memory = { DECODING, memory_rows, true },
	cmd_group_progress = { "output", progress_rows, false },
	cmd_group_json = { "output", json_rows, false },
	cmd_group_input = { "output", input_rows, false },
	cmd_group_output = { "output", output_rows, false };
