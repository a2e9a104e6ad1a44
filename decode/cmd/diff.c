/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_diff: where the flows of two recordings part, thread by thread, and what
 * each function ran more or less. Status 0: equal; 3: they differ, or flow is
 * missing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clean.h"
#include "decode/callstack/names.h"
#include "common/markup.h"
#include "decode/cmd/impl.h"
#include "common/term.h"
#include "decode/compare/diff.h"
#include "decode/lib/elf/insn.h"
#include "decode/sink/sink.h"

struct diff_config {
	enum part { PART_FLOW, PART_FUNCTIONS, PART_ALL } only;
	int64_t tid[2];		/* of A and B; -1: all */
	uint64_t limit;		/* -n, 0: the default */
};

/* "TID" of both, or "A:B" */
static int parse_tids(const struct option_row *row, void *options,
		      const char *arg, struct aux_diag *diag)
{
	struct diff_config *config = options;
	const char *colon = strchr(arg, ':');
	const char *second = colon ? colon + 1 : arg;
	const char *bad = NULL;
	char first[24];
	uint64_t a, b;

	snprintf(first, sizeof(first), "%.*s",
		 colon ? (int)(colon - arg) : 23, arg);
	if (!option_read_number(first, row->max, &a))
		bad = first;
	else if (!option_read_number(second, row->max, &b))
		bad = second;
	if (bad)
		return option_refuse(diag, "--tid wants a number up to %llu, "
				     "not \"%s\"",
				     (unsigned long long)row->max, bad);
	config->tid[0] = (int64_t)a;
	config->tid[1] = (int64_t)b;
	return 0;
}

/* -1: no thread was named; 0 is a tid (the idle task). */
static void set_defaults(void *options)
{
	struct diff_config *config = options;

	config->only = PART_ALL;
	config->tid[0] = config->tid[1] = -1;
}

/* table */
static const struct option_row option_rows[] = {
	{ .name = "only", .arg = "PART", .values = "flow functions",
	  .help = "flow (where they diverge) or functions (what ran more)",
	  OPTION_CHOICE(struct diff_config, only) },
	{ .name = "tid", .arg = "TID", .parse = parse_tids, .max = INT32_MAX,
	  .help = "this thread only, or A:B: one of each recording" },
	SINK_LIMIT(struct diff_config, "stop after N lines"),
	{ .name = NULL },
};

const struct cmd_own cmd_diff_own = {
	.options = option_rows,
	.config_size = sizeof(struct diff_config),
	.defaults = set_defaults,
};

struct diff_run {
	const struct cmd_options *o;
	const struct diff_config *config;
	struct aux_decode *d[2];
	struct diff_code code[2];
	struct diff_sum sum[2];
	struct diff_funcs funcs;
	struct diff_print print;
	struct cmd_progress progress;
	unsigned n_ticks;
	bool lossy;
	/* --json */
	struct outbuf *pairs;	/* elements of an array; NULL: text alone */
	uint64_t n_pairs;
};

/* diff uses the public interface, which has its own words for what is not
 * given: 0 where cmd_filter has -1 or UINT64_MAX, with a flag beside it. */
struct aux_decode_options cmd_api_options(const struct cmd_options *o)
{
	return (struct aux_decode_options){
		.size = sizeof(struct aux_decode_options),
		.flags = (o->filter.cpu >= 0 ? AUX_DECODE_ONE_CPU : 0) |
			 (o->filter.chunks ? AUX_DECODE_CHUNKS : 0) |
			 (o->code.debuginfod ? AUX_DECODE_DEBUGINFOD : 0) |
			 (o->import.options.anywhere ? AUX_DECODE_ANY_PATH : 0),
		.cpu = o->filter.cpu >= 0 ? (uint32_t)o->filter.cpu : 0,
		.time_from = o->filter.time_from,
		.time_to = o->filter.time_to == UINT64_MAX ? 0 : o->filter.time_to,
		.last_ns = o->filter.last_ns, .chunk_from = o->filter.chunk_from,
		.chunk_to = o->filter.chunk_to, .snapshot = o->filter.snapshot,
		.n_workers = (unsigned)o->decoding.n_workers,
		.chunk_min = (uint32_t)o->decoding.chunk_min,
		.max_memory = o->decoding.max_memory, .decoder = o->decoding.decoder,
		.plugin = o->decoding.plugin, .symfs = o->code.symfs,
		.vdso = o->code.vdso, .vmlinux = o->code.vmlinux,
		.kcore = o->code.kcore, .kallsyms = o->code.kallsyms,
		.buildid_dir = o->code.buildid_dir, .pt = o->import.options.pt,
		.images = o->import.options.images,
		.n_images = o->import.options.n_images,
		.elfs = o->import.options.elfs, .n_elfs = o->import.options.n_elfs,
		.cpu_model = o->import.options.cpu_model,
	};
}

/* Called for each batch of flow; the clock is looked at for one in 256. */
static void tick(void *priv, const struct aux_decode *d)
{
	struct diff_run *r = priv;
	struct aux_decode_stats st = { .size = sizeof(st) };

	if (r->n_ticks++ % 256)
		return;
	aux_decode_get_stats(d, &st);
	cmd_progress_show(&r->progress, st.aux_decoded, st.aux_wanted);
}

/* The first pass over one recording: counts and hashes of its threads and
 * functions, so that the second pass decodes only pairs of threads that differ.
 * Returns a status; a recording without instructions is an error. */
static int read_side(struct diff_run *r, unsigned side)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct aux_decode_stats st = { .size = sizeof(st) };
	struct aux_decode_options options = cmd_api_options(r->o);
	const char *path = r->o->paths[side];
	int rc = aux_decode_open(&r->d[side], path, &options, &diag);

	if (rc == 0)
		rc = diff_code_init(&r->code[side], r->d[side], &r->funcs);
	r->sum[side] = (struct diff_sum){ .code = &r->code[side], .side = side,
					  .tick = tick, .tick_priv = r };
	cmd_progress_init(&r->progress, r->o, side ? "decoding B" :
						     "decoding A");
	if (rc == 0)
		rc = diff_sum_run(&r->sum[side], &diag);
	if (rc == 0 && side)
		rc = diff_funcs_settle(&r->funcs);
	cmd_progress_end(&r->progress);
	if (rc < 0)
		return cmd_failed(path, rc, &diag);
	aux_decode_get_stats(r->d[side], &st);
	r->lossy |= st.lossy;
	if (st.lossy)
		cmd_warn(path, "flow is missing (%llu gaps); `auxdecode count` "
			 "says why", (unsigned long long)st.n_gaps);
	if (st.n_insns)
		return CMD_OK;
	snprintf(diag.text, sizeof(diag.text), "no instructions to compare "
		 "(%llu bytes of trace in %llu streams); `auxdecode count -v` says "
		 "what each stage dropped", (unsigned long long)st.aux_bytes,
		 (unsigned long long)st.n_streams);
	diag.code = AUX_E_NOENT;
	return cmd_error(path, &diag);
}

/* One side of a pair, or a thread that only one of them has. */
static void put_side(struct outbuf *out, const char *side,
		     const struct diff_thread *t)
{
	outbuf_printf(out, ",\"%s\":", side);
	if (!t) {
		outbuf_str(out, "null");
		return;
	}
	outbuf_printf(out, "{\"tid\":%d", (int32_t)t->tid);
	outbuf_json_text(out, "comm", t->comm);
	outbuf_json_number(out, "instructions", t->hash.n);
	outbuf_printf(out, ",\"hash\":\"%016llx\"",
		      (unsigned long long)t->hash.value);
	outbuf_json_number(out, "gaps", t->n_gaps);
	outbuf_str(out, "}");
}

static void put_pair(struct diff_run *r, const struct diff_thread *a,
		     uint64_t n_found)
{
	if (!r->pairs)
		return;
	outbuf_printf(r->pairs, "%s{\"differences\":%llu",
		      r->n_pairs++ ? ",\n" : "\n",
		      (unsigned long long)n_found);
	put_side(r->pairs, "a", a);
	put_side(r->pairs, "b", a->match);
	outbuf_str(r->pairs, "}");
}

static void put_alone(struct diff_run *r, const struct diff_sum *s)
{
	for (size_t i = 0; r->pairs && i < s->n; i++) {
		const struct diff_thread *t = s->threads[i];

		if (t->match || !t->hash.n)
			continue;
		outbuf_str(r->pairs, r->n_pairs++ ? ",\n{\"differences\":null"
						  : "\n{\"differences\":null");
		put_side(r->pairs, "a", s->side ? NULL : t);
		put_side(r->pairs, "b", s->side ? t : NULL);
		outbuf_str(r->pairs, "}");
	}
}

/* Functions that ran more, or less; all of them. */
static int put_funcs(struct diff_run *r, struct outbuf *out)
{
	struct diff_func **v = diff_funcs_sort(&r->funcs);
	bool first = true;

	if (!v)
		return -AUX_E_NOMEM;
	outbuf_str(out, ",\n\"functions\":[");
	for (size_t i = 0; i < r->funcs.n; i++) {
		if (v[i]->insns[0] == v[i]->insns[1] &&
		    v[i]->calls[0] == v[i]->calls[1])
			continue;
		outbuf_str(out, first ? "\n{\"function\":"
				      : ",\n{\"function\":");
		first = false;
		outbuf_json(out, v[i]->name ? names_shown(r->print.names,
							  v[i]->name)
					    : "[no symbol]");
		outbuf_json_text(out, "dso", v[i]->dso);
		outbuf_json_number(out, "instructions_a", v[i]->insns[0]);
		outbuf_json_number(out, "instructions_b", v[i]->insns[1]);
		outbuf_json_number(out, "calls_a", v[i]->calls[0]);
		outbuf_json_number(out, "calls_b", v[i]->calls[1]);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
	free(v);
	return 0;
}

/* Prints one pair of threads. Equal hashes over as many instructions mean an
 * equal flow, so only a pair that differs is decoded again. 0, or an error with
 * diag. */
static int compare_pair(struct diff_run *r, struct diff_thread *a,
			struct aux_diag *diag)
{
	struct diff_flow f = { .found = diff_print_found, .priv = &r->print };
	int rc;

	r->print.pair[0] = a;
	r->print.pair[1] = a->match;
	diff_print_pair(&r->print);
	if (a->hash.n == a->match->hash.n &&
	    a->hash.value == a->match->hash.value) {
		put_pair(r, a, 0);
		return 0;
	}
	diff_side_init(&f.side[0], &r->code[0], a->tid);
	diff_side_init(&f.side[1], &r->code[1], a->match->tid);
	rc = diff_flow_run(&f, diag);
	diff_side_fini(&f.side[0]);
	diff_side_fini(&f.side[1]);
	if (rc == 0)
		outbuf_printf(r->print.out, "%llu difference%s\n",
			      (unsigned long long)f.n_found,
			      f.n_found == 1 ? "" : "s");
	put_pair(r, a, f.n_found);
	return rc;
}

static int compare_flows(struct diff_run *r, struct aux_diag *diag)
{
	int rc = 0;

	for (size_t i = 0; i < r->sum[0].n && rc == 0; i++)
		if (r->sum[0].threads[i]->match)
			rc = compare_pair(r, r->sum[0].threads[i], diag);
	if (rc == 0 && r->config->tid[0] < 0) {
		diff_print_alone(&r->print, &r->sum[0]);
		diff_print_alone(&r->print, &r->sum[1]);
		put_alone(r, &r->sum[0]);
		put_alone(r, &r->sum[1]);
	}
	return rc;
}

/* --only; without it both parts are printed. */
static bool wants(const struct diff_run *r, enum part part)
{
	return r->config->only == PART_ALL || r->config->only == part;
}

/* The whole output. Flow that is missing is status 3, too: equal would be a
 * claim about what was not seen. */
static int compare(struct diff_run *r, struct outbuf *out)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int rc = diff_match(&r->sum[0], &r->sum[1], r->config->tid[0], r->config->tid[1],
			    &diag);

	r->print.out = out;
	r->print.limit = r->config->limit;
	r->print.equal = true;
	r->print.gap_text = advice_gap;
	r->print.colour = colour_get(r->o->output.colour && !r->pairs);
	outbuf_str(out, r->print.colour->head);
	outbuf_clean_printf(out, "A: %s\n", r->o->paths[0]);
	outbuf_clean_printf(out, "B: %s", r->o->paths[1]);
	outbuf_printf(out, "%s\n", r->print.colour->end);
	if (rc == 0)
		rc = disasm_new(&r->print.disasm, DISASM_INTEL, &diag);
	if (rc == 0 && wants(r, PART_FLOW))
		rc = compare_flows(r, &diag);
	if (rc == 0 && wants(r, PART_FUNCTIONS))
		rc = diff_print_funcs(&r->print, &r->funcs);
	if (rc == 0 && r->print.equal)
		outbuf_printf(out, "%sequal%s\n", r->print.colour->good,
			      r->print.colour->end);
	disasm_free(r->print.disasm);
	outbuf_flush(out);
	if (rc < 0)
		return cmd_failed(NULL, rc, &diag);
	return r->print.equal && !r->lossy ? CMD_OK : CMD_GAPS;
}

/* The text of compare becomes a member, beside the same in numbers. */
static int compare_json(struct diff_run *r, struct outbuf *out)
{
	struct outbuf *text = outbuf_new(-1);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int status, rc = 0;

	r->pairs = outbuf_new(-1);
	if (!text || !r->pairs) {
		outbuf_free(text);
		return cmd_failed(NULL, -AUX_E_NOMEM, &diag);
	}
	status = compare(r, text);
	json_begin(out, r->o, NULL);
	outbuf_json_bool(out, "equal", r->print.equal);
	outbuf_json_bool(out, "lossy", r->lossy);
	if (wants(r, PART_FLOW)) {
		outbuf_str(out, ",\n\"threads\":[");
		outbuf_put(out, r->pairs->buf,
			   (size_t)(r->pairs->p - r->pairs->buf));
		outbuf_str(out, "]");
	}
	if (wants(r, PART_FUNCTIONS))
		rc = put_funcs(r, out);
	json_lines(out, "text", text);
	json_end(out, r->o, status);
	if (rc || outbuf_failed(text) || outbuf_failed(r->pairs))
		outbuf_fail(out, ENOMEM);
	outbuf_free(text);
	outbuf_free(r->pairs);
	return status;
}

/* Two passes over each file: a pipe can be read only once. */
static int check(const struct cmd_options *o)
{
	if (o->n_paths != 2)
		return cmd_usage("diff wants two FILEs: auxdecode diff A B");
	if (!strcmp(o->paths[0], "-") || !strcmp(o->paths[1], "-"))
		return cmd_usage("diff reads both twice: not standard input");
	return cmd_out_check(o);
}

int cmd_diff(const struct cmd_options *o)
{
	struct diff_run r = { .o = o, .config = o->own };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct cmd_out out = { 0 };
	int status = check(o);

	if (status)
		return status;
	if (diff_funcs_init(&r.funcs) < 0)
		return cmd_failed(NULL, -AUX_E_NOMEM, &diag);
	if (cmd_names(&r.print.names, o, &diag))
		status = cmd_failed(NULL, -AUX_E_NOMEM, &diag);
	for (unsigned i = 0; i < 2 && status == CMD_OK; i++)
		status = read_side(&r, i);
	if (status == CMD_OK)
		status = cmd_out_open(&out, o);
	if (status == CMD_OK)
		status = cmd_out_close(&out, o, o->output.json ?
				       compare_json(&r, out.buf) :
				       compare(&r, out.buf));
	for (unsigned i = 0; i < 2; i++) {
		diff_sum_fini(&r.sum[i]);
		diff_code_fini(&r.code[i]);
		aux_decode_close(r.d[i]);
	}
	diff_funcs_fini(&r.funcs);
	names_free(r.print.names);
	return status;
}
