/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tables: rows of what happened; see tables.h. A row is put when it is complete. The
 * number of a call counts all calls in the order they began; numbers of other rows count
 * from 1 in the order they are put.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/reader.h>

#include "common/array.h"
#include "decode/export/tables.h"
#include "decode/lib/elf/elf.h"
#include "decode/lib/session/session.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/profile/branchlist.h"
#include "decode/profile/profile.h"
#include "decode/sink/columns.h"

#define N COLUMN_NUMBER
#define S COLUMN_SOME_NUMBER
#define T COLUMN_TEXT

/* Times are nanoseconds of the recording's clock. */
/* table */
const struct table export_tables[TABLE_N] = {
	[TABLE_RECORDINGS] = { "recordings", true, 13, {
		{ "id", N }, { "schema", N }, { "file", T }, { "clock", T }, { "unit", T },
		{ "start", N }, { "end", N }, { "insns", N }, { "host", T }, { "os", T },
		{ "arch", T }, { "cpu", T }, { "command", T } } },
	[TABLE_THREADS] = { "threads", true, 10, {
		{ "id", N }, { "pid", S }, { "tid", S }, { "stack", N }, { "stream", N },
		{ "comm", T }, { "name", T }, { "start", S }, { "end", S },
		{ "insns", N } } },
	[TABLE_FUNCTIONS] = { "functions", true, 7, {
		{ "id", N }, { "name", T }, { "raw", T }, { "dso", T }, { "addr", N },
		{ "size", N }, { "build_id", T } } },
	[TABLE_CALLS] = { "calls", true, 25, {
		{ "id", N }, { "parent", S }, { "thread", N }, { "function", N },
		{ "start", N }, { "end", N }, { "self_ns", N }, { "insns", N },
		{ "self_insns", N }, { "branches", N }, { "cycles", S }, { "site", S },
		{ "depth", N }, { "inner", N }, { "kind", T }, { "how", T },
		{ "guessed", N }, { "lost", N }, { "off_cpu_ns", S },
		{ "untraced_ns", N }, { "lost_ns", N }, { "blocked_ns", S },
		{ "preempted_ns", S }, { "kernel_ns", N }, { "filtered_ns", N } } },
	[TABLE_GAPS] = { "gaps", true, 7, {
		{ "id", N }, { "thread", N }, { "start", N }, { "end", N },
		{ "cause", T }, { "text", T }, { "stream_offset", N } } },
	[TABLE_UNTRACED] = { "untraced", true, 5, {
		{ "id", N }, { "thread", N }, { "start", N }, { "end", N },
		{ "why", T } } },
	[TABLE_OFF_CPU] = { "off_cpu", true, 5, {
		{ "id", N }, { "thread", N }, { "start", N }, { "end", N },
		{ "why", T } } },
	[TABLE_ON_CPU] = { "on_cpu", true, 5, {
		{ "id", N }, { "thread", N }, { "cpu", N }, { "start", N },
		{ "end", N } } },
	[TABLE_EVENTS] = { "events", true, 7, {
		{ "id", N }, { "thread", N }, { "ts", N }, { "source", T },
		{ "name", T }, { "value", N }, { "ip", S } } },
	[TABLE_COUNTERS] = { "counters", true, 5, {
		{ "id", N }, { "thread", N }, { "ts", N }, { "name", T },
		{ "value", N } } },
	[TABLE_SPANS] = { "spans", true, 6, {
		{ "id", N }, { "thread", N }, { "name", T }, { "start", N },
		{ "end", N }, { "lost", N } } },
	[TABLE_FIELDS] = { "fields", false, 4, {
		{ "event", S }, { "span", S }, { "name", T }, { "value", N } } },
	[TABLE_BRANCHES] = { "branches", true, 9, {
		{ "id", N }, { "from_dso", T }, { "from_build_id", T },
		{ "from_offset", N }, { "to_dso", T }, { "to_build_id", T },
		{ "to_offset", S }, { "kind", T }, { "count", N } } },
};

/* export_track.user. cover_ns, away_ns: when the gap or the time without trace,
 * and the time off the CPU, began. */
struct track_state {
	uint64_t first_ns, cover_ns, away_ns;
	bool seen;
};

/* A span that is open. */
struct span_start {
	uint64_t serial, ns;
};

struct tables_state {
	uint64_t ids[TABLE_N];		/* the last that was given */
	struct export_map inner;	/* (track, function) -> frames of it */
	uint32_t *active;
	uint32_t max_active;
	struct span_start *spans;
	size_t n_spans, max_spans;
	/* the names of export_kind_name and export_end_name */
	const struct export_name *kinds[16], *ends[16];
	struct profile_branches *branches;
};

/* ---- a row: columns in order ---- */

static struct table_row start_row(struct tables *t, enum table_id which)
{
	struct table_row r;

	r.table = which;
	r.n = 0;
	r.nulls = 0;
	if (export_tables[which].has_id && which != TABLE_CALLS)
		r.values[r.n++].v = ++t->state->ids[which];
	return r;
}

static inline void put_u64(struct table_row *r, uint64_t v)
{
	r->values[r->n++].v = v;
}

static inline void put_some(struct table_row *r, uint64_t v, bool known)
{
	r->nulls |= (uint32_t)!known << r->n;
	r->values[r->n++].v = known ? v : 0;
}

/* -1 is NULL. */
static void put_id(struct table_row *r, uint32_t v)
{
	put_some(r, v, (int32_t)v >= 0);
}

static inline void put_name(struct table_row *r, const struct export_name *n)
{
	r->nulls |= (uint32_t)!n << r->n;
	r->values[r->n++].text = n;
}

/* Anything; what is no UTF-8 is replaced. NULL too where memory is out: then the
 * output has failed. */
static void put_text(struct tables *t, struct table_row *r, const char *s)
{
	put_name(r, s ? export_intern(t->x, s) : NULL);
}

static int end_row(struct tables *t, const struct table_row *r)
{
	return t->put(t, r);
}

/* ---- slices ---- */

/* The thread's row is put at the end. */
int tables_track(void *format, struct export_track *t)
{
	(void)format;
	t->user = calloc(1, sizeof(struct track_state));
	return t->user ? 0 : -AUX_E_NOMEM;
}

/* How many frames of the function run on the track. NULL: out of memory. */
static uint32_t *active_of(struct tables_state *q, const struct export_track *t,
			   uint32_t func)
{
	int64_t at = export_map_find(&q->inner, t->id, func, 0);
	uint32_t *v;

	if (at < 0)
		return NULL;
	if (q->inner.max != q->max_active) {
		v = reallocarray(q->active, q->inner.max, sizeof(*v));
		if (!v)
			return NULL;
		memset(v + q->max_active, 0,
		       (q->inner.max - q->max_active) * sizeof(*v));
		q->active = v;
		q->max_active = q->inner.max;
	}
	return &q->active[at];
}

/* frame.user is when it began, as it is shown. */
int tables_begin(void *format, struct export_track *t, const struct export_slice *s)
{
	struct tables *q = format;
	struct track_state *st = t->user;
	struct call_frame *f;
	uint32_t *active;

	if (!st->seen)
		st->first_ns = s->ns;
	st->seen = true;
	if (s->kind != EXPORT_FRAME) {
		*(s->kind == EXPORT_AWAY ? &st->away_ns : &st->cover_ns) = s->ns;
		return 0;
	}
	f = &s->thread->frames[s->thread->depth - 1];
	active = active_of(q->state, t, f->func->id);
	if (!active)
		return -AUX_E_NOMEM;
	++*active;
	/* when it began, as it is shown */
	f->user = (void *)(uintptr_t)s->ns;
	return 0;
}

static int end_away(struct tables *q, struct export_track *t,
		    const struct export_slice *s)
{
	struct track_state *st = t->user;
	struct table_row r = start_row(q, TABLE_OFF_CPU);

	put_u64(&r, t->id);
	put_u64(&r, st->away_ns);
	put_u64(&r, s->ns);
	put_text(q, &r, s->why);
	return end_row(q, &r);
}

int tables_ran(void *format, struct export_track *t, uint32_t cpu, uint64_t from,
	       uint64_t to)
{
	struct tables *q = format;
	struct table_row r = start_row(q, TABLE_ON_CPU);

	put_u64(&r, t->id);
	put_u64(&r, cpu);
	put_u64(&r, from);
	put_u64(&r, to);
	return end_row(q, &r);
}

/* A gap, or time without trace. */
static int end_cover(struct tables *q, struct export_track *t,
		     const struct export_slice *s)
{
	struct track_state *st = t->user;
	struct table_row r = start_row(q, s->kind == EXPORT_GAP ? TABLE_GAPS
								: TABLE_UNTRACED);

	put_u64(&r, t->id);
	put_u64(&r, st->cover_ns);
	put_u64(&r, s->ns);
	if (s->kind == EXPORT_GAP) {
		put_text(q, &r, gap_name(s->gap->what));
		put_text(q, &r, export_gap_text(q->x, s->gap->what));
		put_u64(&r, s->gap->offset);
	} else {
		put_text(q, &r, s->why);
	}
	return end_row(q, &r);
}

/* One of few words, looked up once. */
static const struct export_name *word(struct tables *q, const struct export_name **at,
				      const char *text)
{
	if (!*at)
		*at = export_intern(q->x, text);
	return *at;
}

/* inner: another frame of the function is still below, so total_ns must not count this
 * one. NULL in away's columns: time off the CPU is not known. */
static int put_call(struct tables *q, const struct export_track *t,
		    const struct export_slice *s, bool inner)
{
	const struct call_frame *f = s->frame;
	bool away = q->x->env.host->off_cpu;
	struct table_row r = start_row(q, TABLE_CALLS);

	put_u64(&r, f->serial);
	put_some(&r, t->depth ? f[-1].serial : 0, t->depth);
	put_u64(&r, t->id);
	put_u64(&r, f->func->id);
	put_u64(&r, (uintptr_t)f->user);
	put_u64(&r, s->ns);
	put_u64(&r, call_self_ns(&s->self));
	put_u64(&r, s->total.insns);
	put_u64(&r, s->self.insns);
	put_u64(&r, s->total.branches);
	put_some(&r, s->total.cycles, s->total.cycles);
	put_some(&r, f->from, f->from);
	put_u64(&r, t->depth);
	put_u64(&r, inner);
	put_name(&r, word(q, &q->state->kinds[f->kind & 15], export_kind_name(f)));
	put_name(&r, word(q, &q->state->ends[s->how & 15], export_end_name(s->how)));
	put_u64(&r, s->guessed || f->flags & CALL_GUESSED);
	put_u64(&r, export_is_cut(s->how));
	put_some(&r, s->self.off_ns, away);
	put_u64(&r, s->self.untraced_ns);
	put_u64(&r, s->self.lost_ns);
	put_some(&r, s->self.blocked_ns, away);
	put_some(&r, s->self.preempted_ns, away);
	put_u64(&r, s->self.kernel_ns);
	put_u64(&r, s->self.filtered_ns);
	return end_row(q, &r);
}

int tables_end(void *format, struct export_track *t, const struct export_slice *s)
{
	struct tables *q = format;
	uint32_t *active;

	if (s->kind == EXPORT_AWAY)
		return end_away(q, t, s);
	if (s->kind != EXPORT_FRAME)
		return end_cover(q, t, s);
	active = active_of(q->state, t, s->frame->func->id);
	if (!active)
		return -AUX_E_NOMEM;
	return put_call(q, t, s, --*active > 0);
}

/* ---- payloads and events ---- */

/* Of an event or of a span: the other is 0, and NULL in the row. */
static int put_fields(struct tables *q, uint64_t event, uint64_t span,
		      const struct export_field *f, uint32_t n)
{
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		struct table_row r = start_row(q, TABLE_FIELDS);

		put_some(&r, event, event);
		put_some(&r, span, span);
		put_text(q, &r, f[i].name);
		put_u64(&r, f[i].value);
		err = end_row(q, &r);
	}
	return err;
}

/* The row's number is needed for its fields. */
int tables_instant(void *format, struct export_track *t, const struct export_instant *i)
{
	struct tables *q = format;
	struct table_row r = start_row(q, TABLE_EVENTS);
	int err;

	put_u64(&r, t->id);
	put_u64(&r, i->ns);
	put_text(q, &r, i->category);
	put_name(&r, i->name);
	put_u64(&r, i->value);
	put_some(&r, i->ip, i->has_ip);
	err = end_row(q, &r);
	return err ? err : put_fields(q, r.values[0].v, 0, i->fields, i->n_fields);
}

int tables_counter(void *format, struct export_track *t, const struct export_counter *c)
{
	struct tables *q = format;
	struct table_row r = start_row(q, TABLE_COUNTERS);

	put_u64(&r, t->id);
	put_u64(&r, c->ns);
	put_name(&r, c->name);
	put_u64(&r, (uint64_t)c->value);
	return end_row(q, &r);
}

/* The row of a span is complete when it ends, which all do; its number is its own. */
int tables_span(void *format, struct export_track *t, const struct export_span *s)
{
	struct tables *q = format;
	struct tables_state *st = q->state;
	struct table_row r;
	size_t i = st->n_spans;

	if (s->begin) {
		if (array_grow(&st->spans, st->n_spans, &st->max_spans,
			       sizeof(*st->spans)))
			return -AUX_E_NOMEM;
		st->spans[st->n_spans++] = (struct span_start){ s->serial, s->ns };
		return put_fields(q, 0, s->serial, s->fields, s->n_fields);
	}
	while (i-- > 0 && st->spans[i].serial != s->serial)
		;
	if (i == SIZE_MAX)
		return -AUX_E_INVAL;
	r = start_row(q, TABLE_SPANS);
	r.values[0].v = s->serial;
	put_u64(&r, t->id);
	put_name(&r, s->name);
	put_u64(&r, st->spans[i].ns);
	put_u64(&r, s->ns);
	put_u64(&r, s->lost);
	memmove(&st->spans[i], &st->spans[i + 1],
		(--st->n_spans - i) * sizeof(*st->spans));
	return end_row(q, &r);
}

int tables_flow(void *format, const struct flow_ctx *ctx, const struct aux_flow *ev,
		size_t n)
{
	struct tables *q = format;

	return profile_branches_flow(q->state->branches, ctx, ev, n);
}

/* ---- the end ---- */

/* At the end: names and times are final. */
static int put_thread(struct tables *q, const struct export_track *t)
{
	const struct track_state *st = t->user;
	struct table_row r = start_row(q, TABLE_THREADS);
	char name[128];

	export_track_name(t, name, sizeof(name));
	r.values[0].v = t->id;
	put_id(&r, t->pid);
	put_id(&r, t->tid);
	put_u64(&r, t->stack);
	put_u64(&r, t->stream);
	put_name(&r, t->comm);
	put_text(q, &r, name);
	put_some(&r, st->first_ns, st->seen);
	put_some(&r, t->last_ns, st->seen);
	put_u64(&r, t->top.insns);
	return end_row(q, &r);
}

/* In hex; "": not known. As recorded, else that of the file that the code was read
 * from. */
static void find_build_id(const struct tables *q, const struct call_func *f, char text[41])
{
	const struct sink_host *host = q->x->env.host;
	const struct mapping *m = f->space ? space_find(f->space, f->start) : NULL;
	const uint8_t *id = m ? m->build_id : NULL;
	size_t n = m ? m->build_id_size : 0;
	struct elfimage *im;
	uint64_t offset;

	if (!n && m && *m->path == '/' && host->image &&
	    !host->image(host->priv, f->space, f->start, &im, &offset))
		n = elfimage_build_id(im, &id);
	text[0] = 0;
	for (size_t i = 0; i < n && i < 20; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}

/* Names as shown and as the file has them. */
static int put_func(struct tables *q, struct call_func *f)
{
	struct table_row r = start_row(q, TABLE_FUNCTIONS);
	char id[41];

	find_build_id(q, f, id);
	r.values[0].v = f->id;
	put_name(&r, export_func_name(q->x, f));
	put_text(q, &r, f->raw);
	put_text(q, &r, f->dso);
	put_u64(&r, f->start);
	put_u64(&r, f->size);
	put_text(q, &r, *id ? id : NULL);
	return end_row(q, &r);
}

static void put_place(struct tables *q, struct table_row *r, const struct branchlist *l,
		      uint32_t module, uint64_t offset)
{
	const struct branchlist_module *m =
		module == BRANCHLIST_NOWHERE ? NULL : &l->modules[module];

	put_text(q, r, m ? m->path : NULL);
	put_text(q, r, m && *m->id ? m->id : NULL);
	put_some(r, offset, m);
}

/* How often each branch went where: the list of profile. */
static int put_branches(struct tables *q)
{
	int err;
	const struct branchlist *l = profile_branches_finish(q->state->branches, &err);

	for (size_t i = 0; l && i < l->branches.n && !err; i++) {
		const struct branchlist_branch *b = &branchlist_branches(l)[i];
		struct table_row r;

		if (!b->count)
			continue;
		r = start_row(q, TABLE_BRANCHES);
		put_place(q, &r, l, b->from_module, b->from);
		put_place(q, &r, l, b->to_module, b->to);
		put_text(q, &r, branchlist_kind_name(b->kind));
		put_u64(&r, b->count);
		err = end_row(q, &r);
	}
	return err;
}

/* What the whole is about: file, clock, unit, first and last time, machine. */
static int put_recording(struct tables *q)
{
	static const struct aux_file_info none;
	const struct export *x = q->x;
	const struct aux_file_info *info =
		x->session ? aux_reader_info(session_reader(x->session)) : &none;
	struct table_row r = start_row(q, TABLE_RECORDINGS);

	r.values[0].v = (uint64_t)q->recording;
	put_u64(&r, TABLES_SCHEMA);
	put_text(q, &r, x->env.path ? x->env.path : "");
	put_text(q, &r, export_clock(x));
	put_text(q, &r, x->timed ? "ns" : "instructions");
	put_u64(&r, x->first_ns);
	put_u64(&r, x->last_ns);
	put_u64(&r, x->env.report->n_insns);
	put_text(q, &r, info->hostname);
	put_text(q, &r, info->os_release);
	put_text(q, &r, info->arch);
	put_text(q, &r, info->cpu_desc);
	put_text(q, &r, info->cmdline);
	return end_row(q, &r);
}

int tables_finish(struct tables *q)
{
	int err = put_recording(q);

	for (struct export_track *t = q->x->tracks; t && !err; t = t->next)
		err = put_thread(q, t);
	for (uint32_t i = 0; i < calls_n_funcs(q->x->calls) && !err; i++)
		err = put_func(q, calls_func(q->x->calls, i));
	return err ? err : put_branches(q);
}

/* ---- begin and end of it all ---- */

/* The recording's number, of 60 bits: the first 15 digits of the id in names of units. */
static int64_t number_of(const struct sink_host *host)
{
	return host->identity ? (int64_t)(host->identity(host->priv) >> 4) : 0;
}

int tables_init(struct tables *t, struct export *x,
		int (*put)(struct tables *t, const struct table_row *r))
{
	t->x = x;
	t->put = put;
	t->recording = number_of(x->env.host);
	t->state = calloc(1, sizeof(*t->state));
	if (!t->state)
		return -AUX_E_NOMEM;
	t->state->branches = profile_branches_new(x->env.host, false);
	return t->state->branches ? 0 : -AUX_E_NOMEM;
}

void tables_fini(struct tables *t)
{
	struct tables_state *q = t->state;

	for (struct export_track *k = t->x->tracks; k; k = k->next)
		free(k->user);
	if (!q)
		return;
	profile_branches_free(q->branches);
	export_map_fini(&q->inner);
	free(q->active);
	free(q->spans);
	free(q);
}
