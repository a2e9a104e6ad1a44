/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_callgrind: what each function took itself, and what each call in it
 * took, as callgrind_annotate and KCachegrind read it. Positions are addresses
 * and lines: of a function's own part where it begins, of a call where it was
 * made.
 *
 * A call that runs inside of the same call (recursion) is counted, but what it
 * took is in the outer one already.
 *
 * Specification: valgrind, "Callgrind Format Specification", version 1.
 */
#include <stdlib.h>

#include "common/clean.h"
#include "decode/export/export.h"
#include "decode/lib/elf/elf.h"

/* Calls from one place to one function, on one track. */
struct edge {
	struct call_count took;
	uint64_t calls;
	uint32_t active;	/* how many of it run now */
};

/* A call as it is written: edges of all tracks taken together. */
struct call {
	uint32_t caller, callee;
	uint64_t from;
	uint64_t calls;
	struct call_count took;
};

struct callgrind {
	struct export *x;
	struct export_map map;	/* (track, caller), callee, from -> edge */
	struct edge *edges;
	uint32_t max_edges;
	struct call_count *self;	/* by function */
	size_t n_self;
	struct export_ids files, objects, funcs; /* written with their names */
	uint32_t n_files, n_objects;
	bool cycles, timed;
	bool nomem;		/* a line is missing, or a name */
};

/* Room for function id. */
static int grow_self(struct callgrind *c, uint32_t id)
{
	size_t n = c->n_self ? c->n_self : 256;
	struct call_count *v;

	while (n <= id)
		n *= 2;
	if (n == c->n_self)
		return 0;
	v = reallocarray(c->self, n, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	memset(v + c->n_self, 0, (n - c->n_self) * sizeof(*v));
	c->self = v;
	c->n_self = n;
	return 0;
}

/* As many edges as the map has room for keys: the key's number is the
 * edge's. */
static int grow_edges(struct callgrind *c)
{
	struct edge *v;

	if (c->map.max == c->max_edges)
		return 0;
	v = reallocarray(c->edges, c->map.max, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	memset(v + c->max_edges, 0, (c->map.max - c->max_edges) * sizeof(*v));
	c->edges = v;
	c->max_edges = c->map.max;
	return 0;
}

/* frame.user is the edge + 1. Frames that nothing shown is below have no
 * edge. */
static int begin_callgrind(void *format, struct export_track *t,
			   const struct export_slice *s)
{
	struct callgrind *c = format;
	struct call_frame *f;
	uint32_t caller;
	uint64_t from;
	int64_t at;

	if (s->kind != EXPORT_FRAME)
		return 0;
	f = &s->thread->frames[s->thread->depth - 1];
	f->user = NULL;
	if (t->depth < 2 || s->thread->depth < 2)
		return grow_self(c, f->func->id);
	caller = f[-1].func->id;
	/* a tail call was made by who is gone: it stands where its caller is */
	from = f->kind == CALL_TAIL || !f->from ? f[-1].func->start : f->from;
	at = export_map_find(&c->map, (uint64_t)t->thread->id << 32 | caller,
			     f->func->id, from);
	if (at < 0 || grow_edges(c))
		return -AUX_E_NOMEM;
	c->edges[at].calls++;
	c->edges[at].active++;
	f->user = (void *)(uintptr_t)(at + 1);
	return grow_self(c, f->func->id);
}

/* Only the outermost of equal calls adds what it took. */
static int end_callgrind(void *format, struct export_track *t,
			 const struct export_slice *s)
{
	struct callgrind *c = format;
	struct call_count *self;
	struct edge *e;

	(void)t;
	if (s->kind != EXPORT_FRAME)
		return 0;
	self = &c->self[s->frame->func->id];
	*self = call_plus(*self, s->self);
	if (!s->frame->user)
		return 0;
	e = &c->edges[(uintptr_t)s->frame->user - 1];
	if (--e->active == 0)
		e->took = call_plus(e->took, s->total);
	return 0;
}

/* ---- the file ---- */

/* before is written as it is. */
static void put_u64(struct callgrind *c, const char *before, uint64_t v)
{
	char buf[20];

	outbuf_str(c->x->out, before);
	outbuf_put(c->x->out, buf, (size_t)(fmt_dec(buf, v) - buf));
}

static void put_hex(struct callgrind *c, const char *before, uint64_t v)
{
	char buf[20];

	outbuf_str(c->x->out, before);
	outbuf_str(c->x->out, "0x");
	outbuf_put(c->x->out, buf, (size_t)(fmt_hex(buf, v) - buf));
}

/* In the order of the "events:" line. */
static void put_costs(struct callgrind *c, const struct call_count *n)
{
	put_u64(c, " ", n->insns);
	put_u64(c, " ", n->branches);
	if (c->timed)
		put_u64(c, " ", call_self_ns(n));
	if (c->cycles)
		put_u64(c, " ", n->cycles);
	outbuf_put(c->x->out, "\n", 1);
}

/* "fn=(12) name", the next time "fn=(12)": the name compression of the
 * format. */
static void put_position(struct callgrind *c, const char *spec,
			 struct export_ids *ids, uint32_t id, uint32_t number,
			 const char *name)
{
	uint32_t *done = export_ids_at(ids, id);

	c->nomem |= !done;
	put_u64(c, spec, done && *done ? *done : number);
	outbuf_put(c->x->out, ")", 1);
	if (done && !*done) {
		*done = number;
		outbuf_put(c->x->out, " ", 1);
		outbuf_clean(c->x->out, name);
	}
	outbuf_put(c->x->out, "\n", 1);
}

/* The same for files and objects, numbered in the order met, from 1. */
static void put_named(struct callgrind *c, const char *spec,
		      struct export_ids *ids, uint32_t *n, const char *text)
{
	const struct export_name *name = export_intern(c->x, text);
	uint32_t *done = name ? export_ids_at(ids, name->id) : NULL;

	c->nomem |= !done;
	if (done)
		put_position(c, spec, ids, name->id, *done ? *done : ++*n,
			     name->text);
}

/* Line 0, file NULL: not known. */
static struct source_line line_of(struct callgrind *c,
				  const struct call_func *f, uint64_t ip)
{
	const struct sink_host *host = c->x->env.host;
	struct source_line line = { 0 };

	if (!host->line || !ip || host->line(host->priv, f->space, ip, &line))
		line = (struct source_line){ 0 };
	return line;
}

/* Of a caller: "ob", "fl", "fn"; of a callee: "cob", "cfi", "cfn". */
static void put_func(struct callgrind *c, struct call_func *f, bool callee,
		     const struct source_line *line)
{
	const struct export_name *name = export_func_name(c->x, f);

	c->nomem |= !name;
	put_named(c, callee ? "cob=(" : "ob=(", &c->objects, &c->n_objects,
		  f->dso ? f->dso : "???");
	put_named(c, callee ? "cfi=(" : "fl=(", &c->files, &c->n_files,
		  line->file ? line->file : "???");
	put_position(c, callee ? "cfn=(" : "fn=(", &c->funcs, f->id, f->id + 1,
		     name ? name->text : "???");
}

/* "calls=" and, in the next line, what they took together. */
static void put_call(struct callgrind *c, const struct call *call)
{
	struct call_func *from = calls_func(c->x->calls, call->caller);
	struct call_func *to = calls_func(c->x->calls, call->callee);
	struct source_line line = line_of(c, to, to->start);
	struct source_line site = line_of(c, from, call->from);

	put_func(c, to, true, &line);
	put_u64(c, "calls=", call->calls);
	put_hex(c, " ", to->start);
	put_u64(c, " ", line.line);
	put_hex(c, "\n", call->from);
	put_u64(c, " ", site.line);
	put_costs(c, &call->took);
}

/* By caller, callee and place. */
static int compare_calls(const void *a, const void *b)
{
	const struct call *x = a, *y = b;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	if (x->callee != y->callee)
		return x->callee < y->callee ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* Sorted, those of all threads as one; n is how many. NULL: out of memory. The
 * caller frees them. */
static struct call *sum_calls(const struct callgrind *c, size_t *n)
{
	struct call *v = calloc((size_t)c->map.n + 1, sizeof(*v));
	size_t m = 0;

	if (!v)
		return NULL;
	for (uint32_t i = 0; i < c->map.n; i++)
		v[i] = (struct call){ .caller = (uint32_t)c->map.keys[i][0],
				      .callee = (uint32_t)c->map.keys[i][1],
				      .from = c->map.keys[i][2],
				      .calls = c->edges[i].calls,
				      .took = c->edges[i].took };
	qsort(v, c->map.n, sizeof(*v), compare_calls);
	for (uint32_t i = 0; i < c->map.n; i++) {
		if (m && !compare_calls(&v[m - 1], &v[i])) {
			v[m - 1].calls += v[i].calls;
			v[m - 1].took = call_plus(v[m - 1].took, v[i].took);
		} else {
			v[m++] = v[i];
		}
	}
	*n = m;
	return v;
}

/* "summary" is what all functions took themselves. */
static void put_header(struct callgrind *c)
{
	struct outbuf *out = c->x->out;
	struct call_count sum = { 0 };

	for (size_t i = 0; i < c->n_self; i++)
		sum = call_plus(sum, c->self[i]);
	c->timed = c->x->timed;
	c->cycles = sum.cycles;
	outbuf_str(out, "# callgrind format\nversion: 1\ncreator: auxdecode\n"
			"cmd: ");
	if (c->x->env.path)
		outbuf_clean(out, c->x->env.path);
	outbuf_str(out, "\npositions: instr line\n"
			"event: Ir : Instructions\n"
			"event: Bt : Branches taken\n");
	if (c->timed)
		outbuf_str(out, "event: ns : Nanoseconds\n");
	if (c->cycles)
		outbuf_str(out, "event: Cy : Cycles\n");
	outbuf_str(out, "events: Ir Bt");
	outbuf_str(out, c->timed ? " ns" : "");
	outbuf_str(out, c->cycles ? " Cy" : "");
	outbuf_str(out, "\nsummary:");
	put_costs(c, &sum);
}

/* Functions in the order in which they were met; calls is sorted by caller, so
 * one walk serves both. */
static int finish_callgrind(void *format, struct aux_diag *diag)
{
	struct callgrind *c = format;
	size_t n, at = 0;
	struct call *calls = sum_calls(c, &n);

	(void)diag;
	if (!calls)
		return -AUX_E_NOMEM;
	put_header(c);
	for (uint32_t i = 0; i < calls_n_funcs(c->x->calls); i++) {
		struct call_func *f = calls_func(c->x->calls, i);
		struct call_count self = i < c->n_self
						 ? c->self[i]
						 : (struct call_count){ 0 };
		struct source_line line;

		if (!(self.insns | self.ns | self.branches | self.cycles) &&
		    !(at < n && calls[at].caller == i))
			continue;
		line = line_of(c, f, f->start);
		outbuf_put(c->x->out, "\n", 1);
		put_func(c, f, false, &line);
		put_hex(c, "", f->start);
		put_u64(c, " ", line.line);
		put_costs(c, &self);
		for (; at < n && calls[at].caller == i; at++)
			put_call(c, &calls[at]);
	}
	free(calls);
	return c->nomem ? -AUX_E_NOMEM : 0;
}

static int open_callgrind(void **format, struct export *x,
			  struct aux_diag *diag)
{
	struct callgrind *c = calloc(1, sizeof(*c));

	(void)diag;
	*format = c;
	if (!c)
		return -AUX_E_NOMEM;
	c->x = x;
	return 0;
}

static void close_callgrind(void *format)
{
	struct callgrind *c = format;

	export_map_fini(&c->map);
	free(c->edges);
	free(c->self);
	export_ids_fini(&c->files);
	export_ids_fini(&c->objects);
	export_ids_fini(&c->funcs);
	free(c);
}

const struct export_ops export_callgrind = {
	.name = "callgrind",
	.help = "costs of functions and calls, for callgrind_annotate",
	.open = open_callgrind,
	.begin = begin_callgrind,
	.end = end_callgrind,
	.finish = finish_callgrind,
	.close = close_callgrind,
};
