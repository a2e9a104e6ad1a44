/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of options, and what each sets; see options.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/cmd/cmd.h"
#include "decode/cmd/options.h"

/*
 * Values of options: numbers and times. A value is right as a whole or refused;
 * nothing is rounded, wrapped or taken in part.
 */

int cmd_parse_number(const char *name, const char *s, uint64_t max, uint64_t *v)
{
	char *end;

	errno = 0;
	*v = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || *v > max)
		return cmd_usage("%s wants a number up to %llu, not \"%s\"",
				 name, (unsigned long long)max, s);
	return CMD_OK;
}

/* The unit whose name is s[0..len); 0: none. No name is seconds. */
static uint64_t find_unit(const char *s, size_t len)
{
	/* table */
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ns", 1 },
		      { "us", 1000 },
		      { "ms", 1000000 },
		      { "s", 1000000000 },
		      { "", 1000000000 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].name) == len &&
		    !memcmp(s, units[i].name, len))
			return units[i].ns;
	return 0;
}

/* One time, up to a comma or the end; where it ends, or NULL: it is none. */
static const char *parse_time(const char *s, uint64_t *ns)
{
	const char *p = s + strspn(s, "0123456789.");
	size_t len = strcspn(p, ",");
	uint64_t unit = find_unit(p, len), whole = 0, frac = 0, scale;
	const char *start = s;

	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *s - '0', &whole))
			return NULL;
	if (*s == '.') {
		scale = unit;
		for (s++; *s >= '0' && *s <= '9'; s++) {
			if (scale % 10 && *s != '0')
				return NULL; /* finer than a nanosecond */
			scale /= 10;
			frac += (uint64_t)(*s - '0') * scale;
		}
	}
	if (!unit || s != p || s == start ||
	    (s == start + 1 && *start == '.') ||
	    __builtin_mul_overflow(whole, unit, ns) ||
	    __builtin_add_overflow(*ns, frac, ns))
		return NULL;
	return p + len;
}

int cmd_parse_times(const char *s, uint64_t *from, uint64_t *to)
{
	const char *p = s;

	if (*p != ',')
		p = parse_time(p, from);
	if (p && *p == ',' && p[1])
		p = parse_time(p + 1, to);
	else if (p)
		p = *p == ',' ? p + 1 : NULL;
	if (!p || *p || !strcmp(s, ","))
		return cmd_usage("--time wants A,B in seconds (12.345678901) "
				 "or with ns, us, ms behind, not \"%s\"",
				 s);
	if (*from > *to)
		return cmd_usage("--time %s ends before it begins", s);
	return CMD_OK;
}

int cmd_parse_duration(const char *name, const char *s, uint64_t *ns)
{
	const char *end = parse_time(s, ns);

	if (!end || *end || !*ns)
		return cmd_usage("%s wants a time as 10ms, or in seconds, not "
				 "\"%s\"", name, s);
	return CMD_OK;
}

/* "N" or "N-M" */
static int cmd_parse_span(const char *name, const char *s, uint64_t *from,
			  uint64_t *to)
{
	size_t n = strcspn(s, "-");
	char first[24];

	if (n >= sizeof(first))
		return cmd_usage("%s wants N or N-M, not \"%s\"", name, s);
	memcpy(first, s, n);
	first[n] = '\0';
	if (cmd_parse_number(name, first, UINT64_MAX - 1, from) != CMD_OK)
		return CMD_USAGE;
	*to = *from;
	if (s[n] && cmd_parse_number(name, s + n + 1, UINT64_MAX - 1, to) !=
			    CMD_OK)
		return CMD_USAGE;
	if (*to < *from)
		return cmd_usage("%s %s ends before it begins", name, s);
	return CMD_OK;
}

int cmd_parse_size(const char *name, const char *s, uint64_t *v)
{
	static const char units[] = "KMG";
	char digits[24];
	size_t n = strspn(s, "0123456789");
	const char *unit = s[n] ? strchr(units, s[n]) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;

	if (!n || n >= sizeof(digits) || (s[n] && (!unit || s[n + 1])))
		return cmd_usage("%s wants a size as 64M, not \"%s\"", name, s);
	memcpy(digits, s, n);
	digits[n] = '\0';
	if (cmd_parse_number(name, digits, UINT64_MAX >> 16 >> shift, v) !=
	    CMD_OK)
		return CMD_USAGE;
	if (!*v)
		return cmd_usage("%s wants at least 1 byte", name);
	*v <<= shift;
	return CMD_OK;
}

#define CODE (FLOW | BUNDLE | VERIFY)	/* need code */

/* table */
const struct option_row cmd_option_rows[CMD_N_OPTIONS] = {
	{ "fields", 'F', "LIST", INSN | BRANCH | CALLS | FIND,
	  "columns, comma separated; +LIST adds to the standard ones" },
	{ "tid", OPT_TID, "TID", FLOW | RAW | CUT,
	  "this thread only; of diff A:B, one of each recording" },
	{ "cpu", OPT_CPU, "CPU", FLOW | RAW | CUT, "this CPU only" },
	{ "stream", OPT_STREAM, "N", RAW | VERIFY, "this AUX stream only" },
	{ "snapshot", OPT_SNAPSHOT, "N", FLOW | RAW | VERIFY,
	  "this snapshot only; info lists them" },
	{ "packets", OPT_PACKETS, NULL, DUMP,
	  "the packets of AUX data below their records" },
	{ "time", OPT_TIME, "A,B", FLOW | CUT,
	  "from A to B: seconds as shown, or 123ns, us, ms; either may be missing" },
	{ "last", OPT_LAST, "TIME", FLOW,
	  "the end of the recording: 10ms, 500us, 0.5: seconds, as of --time" },
	{ "chunk", OPT_CHUNK, "N[-M]", FLOW,
	  "of each stream this part alone, from 0; see --chunk-size" },
	{ "symbol", OPT_SYMBOL, "NAME", FLOW & ~(DIFF | SUMMARY | PROFILE),
	  "instructions of this function (branch: to or from it)" },
	{ "max-depth", OPT_MAX_DEPTH, "N", CALLS,
	  "no calls deeper than N; what they took counts" },
	{ "inline", OPT_INLINE, NULL, CALLS,
	  "behind a call the inlined functions that made it" },
	{ "source", OPT_SOURCE, NULL, INSN | CALLS,
	  "source lines (needs debug information)" },
	{ "stubs", OPT_STUBS, NULL, CALLS,
	  "PLT entries and thunks as calls of their own" },
	{ "not-taken", OPT_NOT_TAKEN, NULL, BRANCH,
	  "conditional branches that were not taken, too" },
	{ "by", OPT_BY, "WHAT", LATENCY | FIND | EXPORT | FLAME |
					 HOT,
	  "time (the default of latency and find), insns (flame, hot), "
	  "cycles; flame, hot, export: branches" },
	{ "per", OPT_PER, "WHAT", FLAME,
	  "thread (the default), process, or all together" },
	{ "min", OPT_MIN, "PERCENT", FLAME,
	  "leave out stacks that took less of it all" },
	{ "svg", OPT_SVG, NULL, FLAME, "a picture, for a browser" },
	{ "blocks", OPT_BLOCKS, NULL, HOT, "basic blocks, not functions" },
	{ "edges", OPT_EDGES, NULL, HOT, "branches taken, not functions" },
	{ "longer", OPT_LONGER, "TIME", FIND,
	  "calls that took at least so long: 1ms, 0.5 (s); --by insns: a number" },
	{ "shorter", OPT_SHORTER, "TIME", FIND, "calls that took less" },
	{ "from", OPT_FROM, "NAME", FIND,
	  "calls with this function anywhere above them" },
	{ "caller", OPT_CALLER, "NAME", FIND,
	  "calls that this function made itself" },
	{ "whole", OPT_WHOLE, NULL, FIND,
	  "calls without a gap inside, and nothing guessed" },
	{ "count", OPT_COUNT, NULL, FIND, "only how many there are" },
	{ "syntax", OPT_SYNTAX, "NAME", INSN, "intel (the default) or att" },
	{ "limit", 'n', "N", FLOW | RAW | DUMP,
	  "stop after N lines (count: instructions)" },
	{ "sha256", OPT_SHA256, NULL, COUNT,
	  "SHA-256 of the addresses, each as 8 bytes, little endian" },
	{ "to", OPT_TO, "FORMAT", PROFILE,
	  "profile: list (the default), autofdo, gcov, bolt, perf" },
	{ "module", OPT_MODULE, "NAME", PROFILE,
	  "of this file: path or name (default: the program)" },
	{ "period", OPT_PERIOD, "N", PROFILE,
	  "--to perf: a sample each N instructions, or 100us (the default)" },
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
	{ "pt", OPT_PT, "FILE", (CODE & ~(DIFF | SUMMARY)) | RAW | INFO | DUMP,
	  "Intel PT packets alone, or FILE:BEGIN-END of them; no other FILE" },
	{ "image", OPT_IMAGE, "FILE", (CODE & ~(DIFF | SUMMARY)) | RAW | INFO | DUMP,
	  "code for --pt: FILE:OFFSET-END@ADDR, or an ELF-FILE[@ADDR]" },
	{ "cpu-model", OPT_CPU_MODEL, "F/M/S", (CODE & ~(DIFF | SUMMARY)) | RAW | INFO | DUMP,
	  "family, model, stepping of the CPU that made --pt" },
	{ "jobs", 'j', "N", FLOW,
	  "threads (default: one for each CPU); output does not change" },
	{ "chunk-size", OPT_CHUNK_SIZE, "BYTES", FLOW | VERIFY,
	  "trace decoded in one go (default 256 KB); the flow does not change" },
	{ "max-memory", OPT_MAX_MEMORY, "SIZE", FLOW,
	  "for what threads have decoded ahead (default 128M)" },
	{ "output", 'o', "FILE", ALL, "write to FILE, not to standard output" },
	{ "max-size", OPT_MAX_SIZE, "SIZE", REPORT,
	  "of the page (default 20M): short calls are merged until it fits" },
	{ "progress", OPT_PROGRESS, NULL, CODE | CUT | MERGE,
	  "show progress (default: on a terminal)" },
	{ "no-progress", OPT_NO_PROGRESS, NULL, CODE | CUT | MERGE,
	  "show no progress" },
	{ "to", OPT_TO, "FORMAT", COVERAGE,
	  "summary (the default), lcov, drcov, sancov, afl" },
	{ "module", OPT_MODULE, "NAME", COVERAGE,
	  "of this file alone: path or name" },
	{ "to", OPT_TO, "FORMAT", EXPORT,
	  "perfetto, chrome, fxt, speedscope, pprof, callgrind, sqlite, jsonl" },
	{ "schema", OPT_SCHEMA, "FILE", EXPORT,
	  "what payloads (ptwrite, STM, ITM) mean: fields, counters, spans" },
	{ "reference", OPT_REFERENCE, "NAME", VERIFY,
	  "the decoder to compare with (default: libipt, opencsd)" },
	{ "all", OPT_ALL, NULL, VERIFY,
	  "go on behind a difference, with the next chunk" },
	{ "dry-run", OPT_DRY_RUN, NULL, REPAIR,
	  "only say what would be done" },
	{ "only", OPT_ONLY, "PART", DIFF,
	  "flow (where they part) or functions (what ran more)" },
	{ "color", OPT_COLOR, "WHEN", ALL,
	  "auto (the default: on a terminal), always or never" },
	{ "no-pager", OPT_NO_PAGER, NULL, ALL,
	  "do not show it through $AUXDECODE_PAGER, $PAGER or less" },
	{ "help", 'h', NULL, ALL, "show this" },
	{ "completion", OPT_COMPLETION, "SHELL", ALL,
	  "print what completes words in bash, zsh or fish" },
	{ "version", OPT_VERSION, NULL, ALL, "show the version" },
};

static int parse_syntax(const char *arg, struct cmd_options *o)
{
	o->syntax = arg;
	if (strcmp(arg, "intel") && strcmp(arg, "att"))
		return cmd_usage("--syntax is intel or att, not \"%s\"", arg);
	return CMD_OK;
}

/* "TID" of both, or "A:B" */
static int set_tid_pair(struct cmd_options *o, const char *arg)
{
	const char *colon = strchr(arg, ':');
	char first[24];
	uint64_t a, b;

	snprintf(first, sizeof(first), "%.*s",
		 colon ? (int)(colon - arg) : 23, arg);
	if (cmd_parse_number("--tid", first, INT32_MAX, &a) != CMD_OK ||
	    cmd_parse_number("--tid", colon ? colon + 1 : arg, INT32_MAX, &b) !=
		    CMD_OK)
		return CMD_USAGE;
	o->tid = (int64_t)a;
	o->tid_b = (int64_t)b;
	return CMD_OK;
}

static int parse_color(const char *arg, struct cmd_options *o)
{
	o->color = !strcmp(arg, "always") ? 1 : !strcmp(arg, "never") ? -1 : 0;
	if (!o->color && strcmp(arg, "auto"))
		return cmd_usage("--color is auto, always or never, not \"%s\"",
				 arg);
	return CMD_OK;
}

static int set_number(int id, struct cmd_options *o, const char *arg)
{
	uint64_t v;
	int status;

	switch (id) {
	case OPT_TID:
		if (o->command && !strcmp(o->command, "diff"))
			return set_tid_pair(o, arg);
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
	case OPT_MAX_SIZE:
		return cmd_parse_size("--max-size", arg, &o->max_size);
	case OPT_MAX_MEMORY:
		return cmd_parse_size("--max-memory", arg, &o->max_memory);
	case OPT_MAX_DEPTH:
		status = cmd_parse_number("--max-depth", arg, INT32_MAX,
					  &o->max_depth);
		if (status == CMD_OK && !o->max_depth)
			return cmd_usage("--max-depth 0 would show nothing");
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

/* What calls and its like show; false: not one of these. */
static bool set_shown(int id, struct cmd_options *o)
{
	switch (id) {
	case OPT_INLINE:
		o->inlines = true;
		break;
	case OPT_SOURCE:
		o->source = true;
		break;
	case OPT_STUBS:
		o->stubs = true;
		break;
	case OPT_NOT_TAKEN:
		o->not_taken = true;
		break;
	default:
		return false;
	}
	return true;
}

/* What takes its value as it is; NULL: none of these. */
static const char **text_of(int id, struct cmd_options *o)
{
	switch (id) {
	case 'F':
		return &o->fields;
	case 'o':
		return &o->out_path;
	case OPT_SYMBOL:
		return &o->symbol;
	case OPT_DECODER:
		return &o->decoder;
	case OPT_PLUGIN:
		return &o->plugin;
	case OPT_MODULE:
		return &o->module;
	case OPT_PERIOD:
		return &o->period;
	case OPT_REFERENCE:
		return &o->reference;
	case OPT_TO:
		return &o->to;
	case OPT_SCHEMA:
		return &o->schema;
	case OPT_BY:
		return &o->by;
	case OPT_PER:
		return &o->per;
	case OPT_MIN:
		return &o->min_percent;
	case OPT_FROM:
		return &o->from;
	case OPT_CALLER:
		return &o->caller;
	case OPT_LONGER:
		return &o->longer;
	case OPT_SHORTER:
		return &o->shorter;
	case OPT_ONLY:
		return &o->only;
	}
	return NULL;
}

/* What is on or off. */
static bool *flag_of(int id, struct cmd_options *o)
{
	switch (id) {
	case OPT_PACKETS:
		return &o->packets;
	case OPT_SHA256:
		return &o->sha256;
	case OPT_DRY_RUN:
		return &o->dry_run;
	case OPT_ALL:
		return &o->all;
	case OPT_WHOLE:
		return &o->whole;
	case OPT_COUNT:
		return &o->just_count;
	case OPT_SVG:
		return &o->svg;
	case OPT_BLOCKS:
		return &o->blocks;
	case OPT_EDGES:
		return &o->edges;
	case OPT_NO_PAGER:
		return &o->no_pager;
	}
	return NULL;
}

int cmd_option_set(int id, struct cmd_options *o, const char *arg)
{
	const char **text = text_of(id, o);
	bool *flag = flag_of(id, o);

	if (text)
		*text = arg;
	if (flag)
		*flag = true;
	if (text || flag || set_code(id, o, arg) || set_shown(id, o))
		return CMD_OK;
	switch (id) {
	case OPT_PT:
	case OPT_IMAGE:
	case OPT_CPU_MODEL:
		return set_container(id, o, arg);
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
	case OPT_COLOR:
		return parse_color(arg, o);
	case OPT_PROGRESS:
	case OPT_NO_PROGRESS:
		o->progress = id == OPT_PROGRESS;
		return CMD_OK;
	default:
		return set_number(id, o, arg);
	}
}
