/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names and numbers of functions, lanes, gaps, and of the recording, as one
 * JSON object; and the places that calls come from.
 *
 * Arrays of functions are by call_func.id, one array for each property: shorter
 * than objects, and the page indexes them by the number that nodes have. Times
 * of functions are ticks of the file, sums are nanoseconds (or what the trace
 * has).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/reader.h>

#include "decode/sink/columns.h"
#include "decode/lib/session/session.h"
#include "decode/report/impl.h"

/* Files and libraries, each about once: few, and mostly the same as just
 * before. */
struct strings {
	const char **v;
	uint32_t n, max;
	bool nomem;	/* some are missing */
};

/* From 1; 0 for none. Looks back at most 512: a name that comes again later
 * than that is there twice, which costs bytes and nothing else. */
static uint32_t string_id(struct strings *s, const char *text)
{
	const char **grown;

	if (!text)
		return 0;
	for (uint32_t i = s->n; i-- > 0 && i + 512 > s->n;)
		if (s->v[i] == text || !strcmp(s->v[i], text))
			return i + 1;
	if (s->n == s->max) {
		uint32_t max = s->max ? 2 * s->max : 64;

		grown = reallocarray(s->v, max, sizeof(*grown));
		if (!grown) {
			s->nomem = true;
			return 0;
		}
		s->v = grown;
		s->max = max;
	}
	s->v[s->n] = text;
	return ++s->n;
}

static void put_strings(struct outbuf *o, const char *name,
			const struct strings *s)
{
	if (s->nomem)
		outbuf_fail(o, ENOMEM);
	outbuf_printf(o, "\"%s\":[", name);
	for (uint32_t i = 0; i < s->n; i++) {
		outbuf_str(o, i ? "," : "");
		outbuf_json(o, s->v[i]);
	}
	outbuf_str(o, "],\n");
}

/* A comma before all but the first. */
static void put_number(struct outbuf *o, uint32_t i, uint64_t v)
{
	char *p = outbuf_room(o, 24);

	if (!p)
		return;
	if (i)
		*p++ = ',';
	o->p = fmt_dec(p, v);
}

/* What put_functions collects; arrays are by function. */
struct functions {
	struct report_writer *w;
	struct outbuf *out;
	struct calltree_func *sums;
	uint32_t n;
	struct strings dso, src;
	uint32_t *dsos, *srcs, *lines;
};

/* One property of all functions. */
static void put_array(struct functions *f, const char *name,
		      uint64_t (*get)(const struct functions *f, uint32_t i))
{
	outbuf_printf(f->out, "\"%s\":[", name);
	for (uint32_t i = 0; i < f->n; i++)
		put_number(f->out, i, get(f, i));
	outbuf_str(f->out, "],\n");
}

static uint64_t dso_of(const struct functions *f, uint32_t i)
{
	return f->dsos[i];
}

static uint64_t src_of(const struct functions *f, uint32_t i)
{
	return f->srcs[i];
}

static uint64_t line_of(const struct functions *f, uint32_t i)
{
	return f->lines[i];
}

static uint64_t calls_of(const struct functions *f, uint32_t i)
{
	return f->sums[i].calls;
}

#define GETTER(field)							\
	static uint64_t own_##field(const struct functions *f, uint32_t i) \
	{								\
		return f->sums[i].own.field;				\
	}								\
	static uint64_t total_##field(const struct functions *f, uint32_t i) \
	{								\
		return f->sums[i].total.field;				\
	}
GETTER(ns)
GETTER(insns)
GETTER(branches)
GETTER(cycles)

/* Where the function is defined. */
static void find_line(struct functions *f, uint32_t i)
{
	const struct sink_host *host = f->w->r->env.host;
	const struct call_func *func = calls_func(f->w->r->calls, i);
	struct source_line line = { 0 };

	f->dsos[i] = string_id(&f->dso, func->dso);
	if (!host->line || !func->name || !func->space ||
	    host->line(host->priv, func->space, func->start, &line) < 0)
		return;
	f->srcs[i] = string_id(&f->src, line.file);
	f->lines[i] = line.line;
}

/* Anything may be a name: outbuf_json escapes it. */
static void put_names(struct functions *f)
{
	const struct calls *calls = f->w->r->calls;
	char buf[4096];

	outbuf_str(f->out, "\"name\":[");
	for (uint32_t i = 0; i < f->n; i++) {
		call_func_name(calls_func(calls, i), buf, sizeof(buf));
		outbuf_str(f->out, i ? ",\n" : "");
		outbuf_json(f->out, buf);
	}
	outbuf_str(f->out, "],\n\"addr\":[");
	for (uint32_t i = 0; i < f->n; i++)
		outbuf_printf(f->out, "%s\"%llx\"", i ? "," : "",
			      (unsigned long long)calls_func(calls, i)->start);
	outbuf_str(f->out, "],\n");
}

static const double quantiles[] = { 0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99,
				    0.999, 1 };
#define N_QUANTILES (sizeof(quantiles) / sizeof(quantiles[0]))

/* Quantiles of the duration of calls; none for functions without a whole
 * call. */
static void put_times(struct functions *f)
{
	const struct report *r = f->w->r;
	struct outbuf *o = f->out;

	outbuf_str(o, "\"quantiles\":[");
	for (unsigned k = 0; k < N_QUANTILES; k++)
		outbuf_printf(o, "%s%g", k ? "," : "", quantiles[k]);
	outbuf_str(o, "],\n\"times\":[");
	for (uint32_t i = 0; i < f->n; i++) {
		const struct calltimes *t = i < r->n_funcs ?
						    &r->funcs[i].times : NULL;

		outbuf_str(o, i ? ",[" : "[");
		for (unsigned k = 0; t && t->n && k < N_QUANTILES; k++)
			put_number(o, k, (k ? calltimes_at(t, quantiles[k]) :
				   t->min) >> f->w->shift);
		outbuf_str(o, "]");
	}
	outbuf_str(o, "],\n");
}

/* The slowest first; of equal ones the first. */
static int compare_slow(const void *a, const void *b)
{
	const struct slow *x = a, *y = b;

	return x->value != y->value ? (x->value < y->value ? 1 : -1) :
				      (x->order > y->order) -
					      (x->order < y->order);
}

/* Of each function: lane, node, ticks; those whose node is there. */
static void put_slow(struct functions *f)
{
	const struct report *r = f->w->r;
	struct slow v[REPORT_SLOWEST];

	outbuf_str(f->out, "\"slow\":[");
	for (uint32_t i = 0; i < f->n; i++) {
		uint32_t n = i < r->n_funcs ? r->funcs[i].slow.n : 0, shown = 0;

		if (n)
			memcpy(v, r->funcs[i].slow.v, n * sizeof(*v));
		qsort(v, n, sizeof(*v), compare_slow);
		outbuf_str(f->out, i ? ",[" : "[");
		for (uint32_t k = 0; k < n; k++) {
			const struct report_pin *pin =
				&r->pins[r->funcs[i].pins[v[k].slot]];

			if (pin->node == REPORT_NONE)
				continue;
			put_number(f->out, shown++, pin->lane);
			put_number(f->out, 1, pin->node);
			put_number(f->out, 1, v[k].value >> f->w->shift);
		}
		outbuf_str(f->out, "]");
	}
	outbuf_str(f->out, "],\n");
}

/* Sums and lines of all functions; -AUX_E_NOMEM. */
static int put_functions(struct report_writer *w)
{
	struct functions f = { .w = w, .out = w->json };
	uint32_t n = (uint32_t)calls_n_funcs(w->r->calls);

	f.n = n;
	f.sums = calltree_funcs(&w->r->tree, n);
	f.dsos = calloc(n + 1, sizeof(*f.dsos));
	f.srcs = calloc(n + 1, sizeof(*f.srcs));
	f.lines = calloc(n + 1, sizeof(*f.lines));
	if (f.sums && f.dsos && f.srcs && f.lines) {
		for (uint32_t i = 0; i < n; i++)
			find_line(&f, i);
		put_names(&f);
		put_strings(f.out, "dsos", &f.dso);
		put_strings(f.out, "srcs", &f.src);
		put_array(&f, "dso", dso_of);
		put_array(&f, "src", src_of);
		put_array(&f, "line", line_of);
		put_array(&f, "calls", calls_of);
		put_array(&f, "ownNs", own_ns);
		put_array(&f, "ownInsns", own_insns);
		put_array(&f, "ownBranches", own_branches);
		put_array(&f, "ownCycles", own_cycles);
		put_array(&f, "totalNs", total_ns);
		put_array(&f, "totalInsns", total_insns);
		put_array(&f, "totalBranches", total_branches);
		put_array(&f, "totalCycles", total_cycles);
		put_times(&f);
		put_slow(&f);
	}
	n = f.sums && f.dsos && f.srcs && f.lines;
	free(f.sums);
	free(f.dsos);
	free(f.srcs);
	free(f.lines);
	free(f.dso.v);
	free(f.src.v);
	return n ? 0 : -AUX_E_NOMEM;
}

/* [from, to, missing, n, is_gap, cause, function, stream, offset]. */
static void put_span(const struct report_writer *w, const struct report_span *s)
{
	struct outbuf *o = w->json;
	uint64_t first = w->r->first;
	uint64_t from = s->from > first ? s->from - first : 0;
	uint64_t to = s->to > first ? s->to - first : 0;

	outbuf_str(o, "[");
	put_number(o, 0, from >> w->shift);
	put_number(o, 1, to >> w->shift);
	put_number(o, 1, s->missing >> w->shift);
	put_number(o, 1, s->n);
	outbuf_printf(o, ",%d,%u,%d,%u,\"%llx\"]", s->is_gap, s->cause,
		      s->func == REPORT_NONE ? -1 : (int)s->func, s->stream,
		      (unsigned long long)s->offset);
}

/* Numbers in a row: from where the last one ended, how long, of that missing, cause. */
static void put_intervals(const struct report_writer *w, const char *key,
			  const struct report_spans *v)
{
	struct outbuf *o = w->json;
	uint64_t first = w->r->first, last = 0;

	outbuf_printf(o, ",\"%s\":[", key);
	for (uint32_t i = 0; i < v->n; i++) {
		const struct report_span *s = &v->v[i];
		uint64_t from = s->from > first ? (s->from - first) >> w->shift : 0;
		uint64_t to = s->to > first ? (s->to - first) >> w->shift : 0;

		from = from > last ? from : last;
		to = to > from ? to : from;
		put_number(o, i, from - last);
		put_number(o, 1, to - from);
		put_number(o, 1, s->missing >> w->shift);
		put_number(o, 1, s->cause);
		last = to;
	}
	outbuf_str(o, "]");
}

static void put_lane(const struct report_writer *w, const struct report_lane *l)
{
	struct outbuf *o = w->json;

	outbuf_printf(o, "{\"pid\":%d,\"tid\":%d,\"stream\":%u,\"comm\":",
		      (int32_t)l->pid, (int32_t)l->tid, l->stream);
	outbuf_json(o, l->comm ? l->comm : "");
	outbuf_printf(o, ",\"calls\":%llu,\"insns\":%llu,\"ns\":%llu,"
		      "\"cycles\":%llu,\"nodes\":%u,\"spans\":[",
		      (unsigned long long)l->n_calls,
		      (unsigned long long)l->count.insns,
		      (unsigned long long)l->count.ns,
		      (unsigned long long)l->ran_cycles, l->n);
	for (uint32_t i = 0; i < l->spans.n; i++) {
		outbuf_str(o, i ? "," : "");
		put_span(w, &l->spans.v[i]);
	}
	outbuf_str(o, "]");
	put_intervals(w, "away", &l->away);
	put_intervals(w, "runs", &l->runs);
	outbuf_str(o, "}");
}

/* A command for the page to show: what stands before and after the mark, in the
 * place of which the page puts what was chosen. */
static void put_command(struct report_writer *w, const char *name,
			const char *words, const char *mark)
{
	struct outbuf *o = w->json, *text = outbuf_new(-1);
	char *at, *next;

	if (!text) {
		outbuf_fail(o, ENOMEM);
		return;
	}
	sink_follow(w->r->env.host, text, words);
	outbuf_put(text, "", 1);
	if (outbuf_failed(text)) {
		outbuf_fail(o, text->error);
		outbuf_free(text);
		return;
	}
	/* the last: a path that holds the mark comes before it, among the options */
	at = strstr(text->buf, mark);
	while (at && (next = strstr(at + 1, mark)))
		at = next;
	*at = '\0';
	outbuf_json(o, name);
	outbuf_str(o, ":[");
	outbuf_json(o, text->buf);
	outbuf_str(o, ",");
	outbuf_json(o, at + strlen(mark));
	outbuf_str(o, "]");
	outbuf_free(text);
}

static void put_commands(struct report_writer *w)
{
	outbuf_str(w->json, "\"commands\":{");
	put_command(w, "calls", "calls --tid --time \1 FILE", " --tid --time \1");
	outbuf_str(w->json, ",");
	put_command(w, "insn", "insn --tid --time \1 FILE", " --tid --time \1");
	outbuf_str(w->json, ",");
	put_command(w, "latency", "latency \1 FILE", " \1");
	outbuf_str(w->json, ",");
	put_command(w, "annotate", "annotate \1 FILE", " \1");
	outbuf_str(w->json, "},\n");
}

/* Names and texts of all causes of gaps, by their number. */
static void put_causes(struct outbuf *o, const struct sink_host *host)
{
	outbuf_str(o, "\"causes\":[");
	for (unsigned i = 0; i < GAP_N_CAUSES; i++) {
		outbuf_str(o, i ? ",\n[" : "[");
		outbuf_json(o, gap_name(i));
		outbuf_str(o, ",");
		outbuf_json(o, sink_gap_text(host, i));
		outbuf_str(o, "]");
	}
	outbuf_str(o, "],\n");
}

/* A time of the recorder in the file's ticks; -1: unknown, or of no use because
 * the page has no times. */
static long long loss_time(const struct report_writer *w, uint64_t ns)
{
	int64_t ticks = (int64_t)(ns * REPORT_TICKS - w->r->first);

	return ns && w->r->timed ? ticks / (1 << w->shift) : -1;
}

/* What the recorder says it lost (its ledger): these are no gaps of the
 * flow. */
static void put_losses(struct report_writer *w)
{
	const struct losses *l = w->r->session ?
					 session_losses(w->r->session) : NULL;
	struct outbuf *o = w->json;
	const char *sep = "";

	outbuf_str(o, "\"losses\":[");
	for (uint32_t i = 0; l && i < l->n; i++) {
		const struct aux_ledger_entry *e = &l->e[i];
		const struct loss_text *t = losses_text(e->cause);

		if (!t || !t->verdict || !(e->bytes | e->n))
			continue;
		outbuf_printf(o, "%s{\"unit\":", sep);
		outbuf_json(o, e->bytes == 1 ? t->one : t->many);
		outbuf_str(o, ",\"text\":");
		outbuf_json(o, t->info);
		outbuf_printf(o, ",\"bytes\":%llu,\"n\":%llu,\"stream\":%d,"
			      "\"from\":%lld,\"to\":%lld}",
			      (unsigned long long)e->bytes,
			      (unsigned long long)e->n, (int32_t)e->idx,
			      loss_time(w, e->first_ns),
			      loss_time(w, e->last_ns));
		sep = ",";
	}
	outbuf_str(o, "],\n");
}

static void put_recording(struct report_writer *w)
{
	const struct report *r = w->r;
	const struct call_count *all = &r->tree.nodes[0].total;
	struct outbuf *o = w->json;

	put_commands(w);
	if (r->env.symbol) {
		outbuf_str(o, "\"search\":");
		outbuf_json(o, r->env.symbol);
		outbuf_str(o, ",\n");
	}
	outbuf_printf(o, "\"version\":1,\"timed\":%s,\"ticks\":%u,"
		      "\"resolution\":%llu,\"base\":\"%llu\",\"span\":%llu,\n",
		      r->timed ? "true" : "false", REPORT_TICKS >> w->shift,
		      (unsigned long long)r->env.resolution,
		      (unsigned long long)(r->first / REPORT_TICKS),
		      (unsigned long long)((r->last - r->first) >> w->shift));
	outbuf_printf(o, "\"total\":{\"calls\":%llu,\"merged\":%llu,"
		      "\"ns\":%llu,\"insns\":%llu,\"branches\":%llu,"
		      "\"cycles\":%llu},\n",
		      (unsigned long long)r->n_calls,
		      (unsigned long long)w->n_merged,
		      (unsigned long long)all->ns,
		      (unsigned long long)all->insns,
		      (unsigned long long)all->branches,
		      (unsigned long long)all->cycles);
}

/* Is called twice: the second time slow calls know their nodes. */
int report_put_json(struct report_writer *w)
{
	struct outbuf *o = w->json, *text = outbuf_new(-1);
	const struct report *r = w->r;
	int err;

	if (!text)
		return -AUX_E_NOMEM;
	w->json = text;
	outbuf_str(text, "{");
	put_recording(w);
	put_causes(text, r->env.host);
	put_losses(w);
	err = put_functions(w);
	outbuf_str(text, "\"roots\":[");
	outbuf_put(text, w->roots->buf, (size_t)(w->roots->p - w->roots->buf));
	outbuf_str(text, "],\n\"lanes\":[");
	for (uint32_t i = 0; i < r->n_lanes; i++) {
		outbuf_str(text, i ? ",\n" : "");
		put_lane(w, r->lanes[i]);
	}
	outbuf_str(text, "]}\n");
	w->json = o;
	if (!err && text->error)
		err = -AUX_E_NOMEM;
	if (!err)
		err = report_pack(o, "json", text->buf,
				  (size_t)(text->p - text->buf));
	outbuf_free(text);
	return err;
}

/* {"srcs":[..],"addr":["7f..",..],"src":[..],"line":[..]} */
int report_put_sites(struct report_writer *w)
{
	const struct sink_host *host = w->r->env.host;
	struct outbuf *text = outbuf_new(-1), *lines = outbuf_new(-1);
	struct strings src = { 0 };
	int err = text && lines ? 0 : -AUX_E_NOMEM;

	for (uint32_t i = 0; i < w->sites.n && !err; i++) {
		const struct report_site *s = &w->sites.v[i];
		const struct space *space =
			calls_func(w->r->calls, s->func)->space;
		struct source_line line = { 0 };

		if (host->line && space)
			host->line(host->priv, space, s->addr, &line);
		outbuf_printf(text, "%s\"%llx\"", i ? "," : "{\"addr\":[",
			      (unsigned long long)s->addr);
		outbuf_printf(lines, "%s%u,%u", i ? "," : "",
			      string_id(&src, line.file), line.line);
	}
	if (!err) {
		outbuf_str(text, w->sites.n ? "],\n" : "{\"addr\":[],\n");
		put_strings(text, "srcs", &src);
		outbuf_str(text, "\"line\":[");
		outbuf_put(text, lines->buf, (size_t)(lines->p - lines->buf));
		outbuf_str(text, "]}\n");
		err = text->error || lines->error ? -AUX_E_NOMEM :
			report_pack(w->places, "sites", text->buf,
				    (size_t)(text->p - text->buf));
	}
	free(src.v);
	outbuf_free(text);
	outbuf_free(lines);
	return err;
}
