/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of options, and what each sets; see cmd_options.h. */
#include <string.h>

#include "cmd_options.h"

#define CODE (FLOW | BUNDLE | VERIFY)	/* need code */

/* table */
const struct option_row cmd_option_rows[CMD_N_OPTIONS] = {
	{ "fields", 'F', "LIST", INSN | BRANCH,
	  "columns, comma separated; +LIST adds to the standard ones" },
	{ "tid", OPT_TID, "TID", FLOW | RAW | CUT, "this thread only" },
	{ "cpu", OPT_CPU, "CPU", FLOW | RAW | CUT, "this CPU only" },
	{ "stream", OPT_STREAM, "N", RAW | VERIFY, "this AUX stream only" },
	{ "snapshot", OPT_SNAPSHOT, "N", FLOW | RAW | VERIFY,
	  "this snapshot only; info lists them" },
	{ "packets", OPT_PACKETS, NULL, DUMP,
	  "the packets of AUX data below their records" },
	{ "time", OPT_TIME, "A,B", FLOW | CUT,
	  "from A to B: seconds as shown, or 123ns; either may be missing" },
	{ "last", OPT_LAST, "TIME", FLOW,
	  "the end of the recording: 10ms, 500us, 2s; a bare number is ns" },
	{ "chunk", OPT_CHUNK, "N[-M]", FLOW,
	  "of each stream this part alone, from 0; see --chunk-size" },
	{ "symbol", OPT_SYMBOL, "NAME", FLOW,
	  "instructions of this function (branch: to or from it)" },
	{ "syntax", OPT_SYNTAX, "NAME", INSN, "intel (the default) or att" },
	{ "limit", 'n', "N", FLOW | RAW | DUMP,
	  "stop after N lines (count: instructions)" },
	{ "sha256", OPT_SHA256, NULL, COUNT,
	  "SHA-256 of the addresses, each as 8 bytes, little endian" },
	{ "symfs", OPT_SYMFS, "DIR", CODE,
	  "look for the recorded files under DIR" },
	{ "vdso", OPT_VDSO, "FILE", CODE, "the vDSO of the recorded machine" },
	{ "buildid-dir", OPT_BUILDID_DIR, "DIR", CODE,
	  "perf's build-id cache (default ~/.debug)" },
	{ "debuginfod", OPT_DEBUGINFOD, NULL, CODE,
	  "ask the servers of $DEBUGINFOD_URLS for files" },
	{ "vmlinux", OPT_VMLINUX, "FILE", CODE,
	  "the recorded kernel" },
	{ "kcore", OPT_KCORE, "FILE", CODE,
	  "its memory: a kcore, or a directory with kcore and kallsyms" },
	{ "kallsyms", OPT_KALLSYMS, "FILE", CODE,
	  "its names, as /proc/kallsyms had them" },
	{ "decoder", OPT_DECODER, "NAME", CODE, "use this decoder" },
	{ "plugin", OPT_PLUGIN, "FILE", CODE, "load a decoder from a file" },
	{ "pt", OPT_PT, "FILE", CODE | RAW | INFO | DUMP,
	  "Intel PT packets alone, or FILE:BEGIN-END of them; no other FILE" },
	{ "image", OPT_IMAGE, "FILE", CODE | RAW | INFO | DUMP,
	  "code for --pt: FILE:OFFSET-END@ADDR, or an ELF-FILE[@ADDR]" },
	{ "cpu-model", OPT_CPU_MODEL, "F/M/S", CODE | RAW | INFO | DUMP,
	  "family, model, stepping of the CPU that made --pt" },
	{ "jobs", 'j', "N", FLOW,
	  "threads (default: one for each CPU); output does not change" },
	{ "chunk-size", OPT_CHUNK_SIZE, "BYTES", FLOW | VERIFY,
	  "trace decoded in one go (default 256 KB); the flow does not change" },
	{ "max-memory", OPT_MAX_MEMORY, "SIZE", FLOW,
	  "for what threads have decoded ahead (default 128M)" },
	{ "output", 'o', "FILE", ALL, "write to FILE, not to standard output" },
	{ "progress", OPT_PROGRESS, NULL, CODE | CUT | MERGE,
	  "show progress (default: on a terminal)" },
	{ "no-progress", OPT_NO_PROGRESS, NULL, CODE | CUT | MERGE,
	  "show no progress" },
	{ "reference", OPT_REFERENCE, "NAME", VERIFY,
	  "the decoder to compare with (default: libipt, opencsd)" },
	{ "all", OPT_ALL, NULL, VERIFY,
	  "go on behind a difference, with the next chunk" },
	{ "dry-run", OPT_DRY_RUN, NULL, REPAIR,
	  "only say what would be done" },
	{ "help", 'h', NULL, ALL, "show this" },
	{ "version", OPT_VERSION, NULL, ALL, "show the version" },
};

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
	case OPT_MAX_MEMORY:
		return cmd_parse_size("--max-memory", arg, &o->max_memory);
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

static int add_image(struct cmd_options *o, const char *arg)
{
	if (o->container.n_images == CMD_IMAGES)
		return cmd_usage("more than %d of --image", CMD_IMAGES);
	o->images[o->container.n_images++] = arg;
	o->container.images = o->images;
	return CMD_OK;
}

/* Where the code is; false: not one of these. */
static bool set_code(int id, struct cmd_options *o, const char *arg)
{
	switch (id) {
	case OPT_SYMFS:
		o->code.symfs = arg;
		break;
	case OPT_VDSO:
		o->code.vdso = arg;
		break;
	case OPT_BUILDID_DIR:
		o->code.buildid_dir = arg;
		break;
	case OPT_DEBUGINFOD:
		o->code.debuginfod = true;
		break;
	case OPT_VMLINUX:
		o->code.vmlinux = arg;
		break;
	case OPT_KCORE:
		o->code.kcore = arg;
		break;
	case OPT_KALLSYMS:
		o->code.kallsyms = arg;
		break;
	default:
		return false;
	}
	return true;
}

static int set_container(int id, struct cmd_options *o, const char *arg)
{
	switch (id) {
	case OPT_PT:
		o->container.pt = arg;
		break;
	case OPT_IMAGE:
		return add_image(o, arg);
	case OPT_CPU_MODEL:
		o->container.cpu_model = arg;
		break;
	}
	return CMD_OK;
}

int cmd_option_set(int id, struct cmd_options *o, const char *arg)
{
	if (set_code(id, o, arg))
		return CMD_OK;
	switch (id) {
	case OPT_PT:
	case OPT_IMAGE:
	case OPT_CPU_MODEL:
		return set_container(id, o, arg);
	case 'F':
		o->fields = arg;
		break;
	case 'o':
		o->out_path = arg;
		break;
	case OPT_TIME:
		return cmd_parse_times(arg, &o->time_from, &o->time_to);
	case OPT_LAST:
		return cmd_parse_duration("--last", arg, &o->last_ns);
	case OPT_CHUNK:
		o->chunks = true;
		return cmd_parse_span("--chunk", arg, &o->chunk_from,
				      &o->chunk_to);
	case OPT_SYNTAX:
		return parse_syntax(arg, o);
	case OPT_SYMBOL:
		o->symbol = arg;
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
	case OPT_DRY_RUN:
		o->dry_run = true;
		break;
	case OPT_REFERENCE:
		o->reference = arg;
		break;
	case OPT_ALL:
		o->all = true;
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

