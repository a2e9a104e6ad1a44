/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_firefox: a processed profile of the Firefox Profiler: for each thread
 * samples of stacks, markers, and tables of functions and files.
 *
 * The trace is exact, so a sample is no sample: it is an interval in which the
 * stack did not change, with its true length as weight. An interval begins and
 * ends where a call begins or ends, where a gap does, and where the thread goes
 * off the CPU or comes back; the sums of weights are those of `hot`. Intervals
 * of no weight are left out. What is nobody's self time has a frame of its own
 * on top of the stack: "[off CPU]", "[not traced]", "[gap: cause]".
 *
 * Times are integers of nanoseconds in this file and milliseconds in the
 * format: they are written as 12e-6, with all their digits, and as the
 * difference to the time before. Columns of samples and markers wait in a spool
 * (spool.c); tables of functions and stacks stay in memory.
 *
 * firefox_file.c writes the file, and cites the specification.
 */
#include <stdlib.h>

#include "common/array.h"
#include "decode/callstack/calltree.h"
#include "decode/export/firefox.h"

/* Deeper stacks, and more different ones, end in a frame "[folded]"; as deep as
 * those of `flame`. */
#define MAX_DEPTH 1023
#define MAX_STACKS (4u << 20)

/* ---- numbers and strings ---- */

void firefox_put_u64(struct outbuf *out, uint64_t v)
{
	char buf[20];

	outbuf_put(out, buf, (size_t)(fmt_dec(buf, v) - buf));
}

/* Nanoseconds as milliseconds, all digits. */
char *firefox_fmt_ms(char *p, uint64_t ns)
{
	p = fmt_dec(p, ns);
	memcpy(p, "e-6", 3);
	return ns ? p + 3 : p;
}

/* "0x..." as a string: JSON has no such numbers, and doubles no 64 bits. */
static void put_hex(struct outbuf *out, uint64_t v)
{
	char buf[24] = "\"0x", *p = fmt_hex(buf + 3, v);

	*p++ = '"';
	outbuf_put(out, buf, (size_t)(p - buf));
}

/* Time 0 is the first that is shown: what is before it, if anything, is cut
 * off. */
uint64_t firefox_after_base(struct firefox *f, uint64_t ns)
{
	if (!f->has_base) {
		f->base = f->x->timed ? f->x->first_ns : 0;
		f->has_base = true;
	}
	return ns > f->base ? ns - f->base : 0;
}

/* The index in stringArray. */
uint32_t firefox_string(struct firefox *f, const struct export_name *name)
{
	uint32_t *at = name ? export_ids_at(&f->strings, name->id) : NULL;

	if (!at || (!*at && array_append(&f->names, &f->n_names, &f->max_names,
					 &name, sizeof(name)))) {
		f->nomem = true;
		return 0;
	}
	if (!*at)
		*at = (uint32_t)f->n_names;
	return *at - 1;
}

/* ---- stacks ---- */

enum firefox_category firefox_category_of(const struct call_func *c)
{
	if (c->start >> 63)
		return CAT_KERNEL;
	return c->dso && !strcmp(c->dso, "[jit]") ? CAT_JIT : CAT_USER;
}

/* The row of funcs: by the function's number, or by its name where there is
 * none. */
static uint32_t use_func(struct firefox *f, const struct export_name *name,
			 const struct call_func *call)
{
	uint32_t *at = call ? export_ids_at(&f->func_of, call->id)
			    : export_ids_at(&f->name_of, name->id);
	const struct firefox_func func = { name, call };

	if (!at || (!*at && array_append(&f->funcs, &f->n_funcs, &f->max_funcs,
					 &func, sizeof(func)))) {
		f->nomem = true;
		return 0;
	}
	if (!*at)
		*at = (uint32_t)f->n_funcs;
	return *at - 1;
}

static uint32_t use_frame(struct firefox *f, uint32_t func, bool guessed,
			  enum firefox_category category)
{
	const struct firefox_frame frame = { func, (uint8_t)category, guessed };
	int64_t at = export_map_find(&f->frame_map, func, guessed, 0);

	if (at < 0 || ((size_t)at == f->n_frames &&
		       array_append(&f->frames, &f->n_frames, &f->max_frames,
				    &frame, sizeof(frame)))) {
		f->nomem = true;
		return 0;
	}
	return (uint32_t)at;
}

/* The stack with one more frame. */
static uint32_t add_frame(struct firefox *f, uint32_t below, uint32_t frame)
{
	int64_t at = export_map_find(&f->stack_map, below, frame, 0);

	if (at < 0) {
		f->nomem = true;
		return below;
	}
	return (uint32_t)at + 1;
}

/* With a frame on top that is no function. */
static uint32_t cover_stack(struct firefox *f, uint32_t stack,
			    const struct export_name *name,
			    enum firefox_category category)
{
	return add_frame(f, stack, use_frame(f, use_func(f, name, NULL), false,
					     category));
}

static void push_frame(struct firefox *f, const struct export_track *t,
		       const struct export_slice *s)
{
	const struct call_func *call = s->frame->func;
	struct firefox_track *tr = t->user;

	if (tr->n_folded) {
		tr->n_folded++;
	} else if (t->depth > MAX_DEPTH || f->stack_map.n >= MAX_STACKS) {
		tr->n_folded = 1;
		tr->stack = cover_stack(f, tr->stack, f->folded, CAT_OTHER);
	} else {
		tr->stack = add_frame(f, tr->stack,
				      use_frame(f, use_func(f, s->name, call),
						s->guessed, firefox_category_of(call)));
	}
}

static void pop_frame(struct firefox *f, struct firefox_track *tr)
{
	if (tr->n_folded && --tr->n_folded)
		return;
	if (tr->stack)
		tr->stack = (uint32_t)f->stack_map.keys[tr->stack - 1][0];
}

/* ---- samples ---- */

/* The first element of a column has no comma before it; those of times are
 * written last, when it is known from where they count. CPU time is that since
 * the sample before. */
static int write_pending(struct firefox *f, struct firefox_thread *th)
{
	struct firefox_sample *s = &th->pending;
	char buf[64], *at;
	int err = 0;

	if (!th->has_pending)
		return 0;
	th->has_pending = false;
	at = buf;
	if (th->n_samples)
		*at++ = ',';
	if (s->stack) {
		at = fmt_dec(at, s->stack - 1);
	} else {
		memcpy(at, "null", 4);
		at += 4;
	}
	err = export_spool_put(f->spool, th->stack, buf, (size_t)(at - buf));
	at = buf;
	if (th->n_samples)
		*at++ = ',';
	at = f->by_insns ? fmt_dec(at, s->weight) : firefox_fmt_ms(at, s->weight);
	if (!err)
		err = export_spool_put(f->spool, th->weight, buf,
				       (size_t)(at - buf));
	if (!th->n_samples++) {
		th->first = th->previous = s->at;
		th->was_on = s->is_on;
		return err;
	}
	buf[0] = ',';
	at = fmt_dec(buf + 1, th->was_on ? s->at - th->previous : 0);
	if (!err)
		err = export_spool_put(f->spool, th->cpu, buf,
				       (size_t)(at - buf));
	at = firefox_fmt_ms(buf + 1, s->at - th->previous);
	th->previous = s->at;
	th->was_on = s->is_on;
	return err ? err : export_spool_put(f->spool, th->delta, buf,
					    (size_t)(at - buf));
}

/* Does this stack run on a CPU? */
static bool is_on(const struct firefox *f, uint32_t stack)
{
	uint64_t frame = stack ? f->stack_map.keys[stack - 1][1] : 0;

	return stack && frame < f->n_frames &&
	       f->frames[frame].category != CAT_OFF_CPU;
}

/* An interval; it is joined to the one before if the stack is the same and
 * nothing lies between. */
static int emit(struct firefox *f, struct firefox_thread *th, uint32_t stack,
		uint64_t at, uint64_t weight)
{
	struct firefox_sample *s = &th->pending;
	int err;

	if (th->has_pending && s->stack == stack &&
	    (f->by_insns || s->at + s->weight == at)) {
		s->weight += weight;
		return 0;
	}
	if (!weight && !f->by_insns)
		return 0;
	if (th->has_pending && at < s->at)
		at = s->at;
	err = write_pending(f, th);
	*s = (struct firefox_sample){ stack, at, weight, is_on(f, stack) };
	th->has_pending = true;
	return err;
}

/* What an interval between two changes of the stack has. */
struct interval {
	uint32_t stack, off_cpu, lost;	/* its stacks */
	uint32_t untraced[UNTRACED_N];
	uint64_t at, lost_ns, insns;	/* still to be shown */
	uint64_t untraced_ns[UNTRACED_N];
};

/* On the CPU up to ns: what is lost and not traced comes first, since it began
 * where the interval did. */
static int emit_on(struct firefox *f, struct firefox_thread *th, struct interval *v,
		   uint64_t ns)
{
	uint64_t lost = ns - v->at, none;
	int err = 0;

	lost = v->lost_ns < lost ? v->lost_ns : lost;
	if (lost)
		err = emit(f, th, v->lost, v->at, f->by_insns ? 0 : lost);
	v->at += lost;
	v->lost_ns -= lost;
	for (unsigned i = 0; i < UNTRACED_N && !err; i++) {
		none = ns - v->at;
		none = v->untraced_ns[i] < none ? v->untraced_ns[i] : none;
		if (none)
			err = emit(f, th, v->untraced[i], v->at,
				   f->by_insns ? 0 : none);
		v->at += none;
		v->untraced_ns[i] -= none;
	}
	if (v->at < ns && !err) {
		err = emit(f, th, v->stack, v->at,
			   f->by_insns ? v->insns : ns - v->at);
		v->insns = 0;
	}
	v->at = ns;
	return err;
}

/* All that the thread counted since the last change of its stack. */
static int emit_interval(struct firefox *f, struct firefox_thread *th, uint32_t tid,
			 const struct call_count *more, uint64_t to)
{
	struct firefox_track *tr = th->active;
	struct interval v = { .stack = tr->stack, .at = to - more->ns,
			      .lost_ns = more->lost_ns,
			      .untraced_ns = { call_other_ns(more), more->kernel_ns,
					       more->filtered_ns },
			      .insns = more->insns };
	const struct sink_host *h = f->x->env.host;
	uint64_t off = more->off_ns;
	struct off_span s;
	int err = 0;

	if (v.lost_ns)
		v.lost = cover_stack(f, v.stack, tr->gap ? tr->gap : f->gap,
				     CAT_LOST);
	for (unsigned i = 0; i < UNTRACED_N; i++)
		if (v.untraced_ns[i])
			v.untraced[i] = cover_stack(f, v.stack, f->untraced[i],
						    i == UNTRACED_KERNEL ?
							    CAT_KERNEL :
							    CAT_UNTRACED);
	if (off)
		v.off_cpu = cover_stack(f, v.stack, f->off_cpu, CAT_OFF_CPU);
	while (off && !err && h->off_cpu &&
	       h->off_cpu(h->priv, tid, v.at, to, &s)) {
		if (s.to - s.from > off)
			s.to = s.from + off;
		err = emit_on(f, th, &v, s.from);
		if (!err)
			err = emit(f, th, v.off_cpu, s.from,
				   f->by_insns ? 0 : s.to - s.from);
		v.at = s.to;
		off -= s.to - s.from;
	}
	if (!err)
		err = emit_on(f, th, &v, to);
	if (v.insns && f->by_insns && !err)
		err = emit(f, th, v.stack, to, v.insns);
	return err;
}

/*
 * Times are known from here on: of what ran before no time is, so nothing of
 * its weight; by instructions it lies before, one nanosecond each.
 */
static void begin_times(struct firefox *f, struct firefox_thread *th, uint64_t ns)
{
	uint64_t span = th->previous - th->first;

	if (!f->by_insns) {
		th->n_samples = 0;
		th->has_pending = false;
		export_spool_clear(th->stack);
		export_spool_clear(th->delta);
		export_spool_clear(th->weight);
		export_spool_clear(th->cpu);
		return;
	}
	th->first = ns > span ? ns - span : 0;
	th->previous = ns;
	th->pending.at = ns;
	if (th->n_samples && (!f->has_base || th->first < f->base))
		f->base = th->first;
	f->has_base = true;
}

static void time_threads(struct firefox *f)
{
	for (struct export_track *t = f->x->tracks; t; t = t->next)
		if (t->thread == t && t->user)
			begin_times(f, ((struct firefox_track *)t->user)->thread,
				    f->x->first_ns);
	f->untimed = false;
}

/* Without times: as many nanoseconds as instructions, which is the weight. */
static int emit_untimed(struct firefox *f, struct firefox_thread *th,
			const struct call_count *more)
{
	bool by_insns = f->by_insns;
	int err;

	f->untimed = f->by_insns = true;
	err = emit(f, th, th->active->stack, th->last.insns, more->insns);
	f->by_insns = by_insns;
	return err;
}

/* Before the stack changes: now is what the thread has counted, for the stack
 * that was active until now. */
static int flush_counts(struct firefox *f, struct firefox_track *tr,
			uint32_t tid, const struct call_count *now)
{
	struct firefox_thread *th = tr->thread;
	struct call_count more = call_minus(*now, th->last);
	int err = 0;

	if (!th->active)
		th->active = tr;
	if (f->x->timed && f->untimed)
		time_threads(f);
	if (now->ns < th->last.ns || !th->last.ns) {
		more.ns = 0;
		call_all_self(&more);
	}
	if (th->seen && (more.ns | more.insns))
		err = f->x->timed ? emit_interval(f, th, tid, &more, now->ns)
				  : emit_untimed(f, th, &more);
	th->last = *now;
	th->seen = true;
	th->active = tr;
	if (!tr->gap_ns)
		tr->gap = NULL;
	return err ? err : f->nomem ? -AUX_E_NOMEM : 0;
}

/* c: NULL where nothing is known to have been counted; the next change has it
 * then. */
static int flush_thread(struct firefox *f, struct firefox_track *tr,
			const struct call_thread *c)
{
	return c ? flush_counts(f, tr, c->tid, &c->now) : 0;
}

/* ---- markers ---- */

/* The columns of a thread without markers are not made. */
static int put_column(struct firefox *f, struct firefox_thread *th, enum firefox_column c,
		      const char *text, size_t n)
{
	int err = 0;

	if (!th->marks[c])
		th->marks[c] = export_spool_piece(f->spool);
	if (!th->marks[c])
		return -AUX_E_NOMEM;
	if (th->n_marks)
		err = export_spool_put(f->spool, th->marks[c], ",", 1);
	return err ? err : export_spool_put(f->spool, th->marks[c], text, n);
}

/* Begins the data of a marker; its fields follow, and end_mark. */
struct outbuf *firefox_begin_mark(struct firefox *f, const char *type)
{
	f->text->p = f->text->buf;
	outbuf_str(f->text, "{\"type\":\"");
	outbuf_str(f->text, type);
	outbuf_put(f->text, "\"", 1);
	return f->text;
}

/* from and to are the same of an instant. */
int firefox_end_mark(struct firefox *f, struct firefox_thread *th,
		    const struct export_name *name, enum firefox_category category,
		    uint64_t from, uint64_t to)
{
	bool instant = from == to;
	char buf[32];
	int err;

	outbuf_put(f->text, "}", 1);
	if (outbuf_failed(f->text))
		return -AUX_E_NOMEM;
	err = put_column(f, th, MARK_NAME, buf,
			 (size_t)(fmt_dec(buf, firefox_string(f, name)) - buf));
	if (!err)
		err = put_column(f, th, MARK_START, buf,
				 (size_t)(firefox_fmt_ms(buf, firefox_after_base(f, from)) -
					  buf));
	if (!err)
		err = instant ? put_column(f, th, MARK_END, "null", 4)
			      : put_column(f, th, MARK_END, buf,
					   (size_t)(firefox_fmt_ms(buf,
							   firefox_after_base(f, to)) -
						    buf));
	if (!err)
		err = put_column(f, th, MARK_PHASE, instant ? "0" : "1", 1);
	if (!err)
		err = put_column(f, th, MARK_CATEGORY, buf,
				 (size_t)(fmt_dec(buf, category) - buf));
	if (!err)
		err = put_column(f, th, MARK_DATA, f->text->buf,
				 (size_t)(f->text->p - f->text->buf));
	th->n_marks++;
	return err ? err : f->nomem ? -AUX_E_NOMEM : 0;
}

static int mark_gap(struct firefox *f, struct firefox_track *tr,
		    const struct export_slice *s)
{
	struct outbuf *out = firefox_begin_mark(f, "Gap");
	uint64_t from = tr->gap_ns - 1;

	outbuf_str(out, ",\"cause\":");
	export_json_string(out, gap_name(s->gap->what));
	outbuf_str(out, ",\"text\":");
	export_json_string(out, export_gap_text(f->x, s->gap->what));
	outbuf_str(out, ",\"offset\":");
	put_hex(out, s->gap->offset);
	if (s->gap->flags & AUX_FLOW_HAS_IP) {
		outbuf_str(out, ",\"ip\":");
		put_hex(out, s->gap->gap.ip);
	}
	tr->gap_ns = 0;
	if (s->gap->what < GAP_N_CAUSES)
		f->n_gaps[s->gap->what]++;
	return firefox_end_mark(f, tr->thread, s->name, CAT_LOST, from, s->ns);
}

/* Of the functions that --symbol means: without it each call would be a
 * marker, and the stacks have all of them. */
static int mark_call(struct firefox *f, struct firefox_track *tr,
		     const struct export_slice *s)
{
	struct outbuf *out = firefox_begin_mark(f, "Call");
	uint64_t from = f->x->timed ? s->ns - s->total.ns
				    : s->ns - s->total.insns;

	outbuf_str(out, ",\"insns\":");
	firefox_put_u64(out, s->total.insns);
	outbuf_str(out, ",\"selfInsns\":");
	firefox_put_u64(out, s->self.insns);
	outbuf_str(out, ",\"self\":");
	firefox_put_u64(out, call_self_ns(&s->self));
	outbuf_str(out, ",\"offCpu\":");
	firefox_put_u64(out, s->self.off_ns);
	outbuf_str(out, ",\"totalOffCpu\":");
	firefox_put_u64(out, s->total.off_ns);
	outbuf_str(out, ",\"end\":\"");
	outbuf_str(out, export_end_name(s->how));
	outbuf_str(out, s->guessed || s->frame->flags & CALL_GUESSED
				? "\",\"guessed\":\"yes\"" : "\"");
	return firefox_end_mark(f, tr->thread, s->name, firefox_category_of(s->frame->func),
			from, s->ns);
}

/* "id=3 kind=-1", as one field: what names a schema has is not known when
 * meta.markerSchema is written. */
static void put_fields(struct outbuf *out, const struct export_field *v,
		       uint32_t n)
{
	char buf[24];

	if (!n)
		return;
	outbuf_str(out, ",\"fields\":\"");
	for (uint32_t i = 0; i < n; i++) {
		outbuf_str(out, i ? " " : "");
		export_json_text(out, v[i].name, strlen(v[i].name));
		outbuf_put(out, "=", 1);
		outbuf_put(out, buf, (size_t)((v[i].is_signed
			? fmt_sdec(buf, (int64_t)v[i].value)
			: fmt_dec(buf, v[i].value)) - buf));
	}
	outbuf_put(out, "\"", 1);
}

/* ---- what the export reports ---- */

static int track_firefox(void *format, struct export_track *t)
{
	struct firefox *f = format;
	struct firefox_track *tr = calloc(1, sizeof(*tr));
	struct firefox_thread *th;

	t->user = tr;
	if (!tr)
		return -AUX_E_NOMEM;
	if (t->thread != t) {
		tr->thread = ((struct firefox_track *)t->thread->user)->thread;
		return 0;
	}
	th = tr->thread = calloc(1, sizeof(*th));
	if (!th)
		return -AUX_E_NOMEM;
	th->stack = export_spool_piece(f->spool);
	th->delta = export_spool_piece(f->spool);
	th->weight = export_spool_piece(f->spool);
	th->cpu = export_spool_piece(f->spool);
	return th->stack && th->delta && th->weight && th->cpu ? 0
							       : -AUX_E_NOMEM;
}

static int begin_firefox(void *format, struct export_track *t,
			 const struct export_slice *s)
{
	struct firefox *f = format;
	struct firefox_track *tr = t->user;
	int err;

	if (s->kind == EXPORT_AWAY)	/* it is in the intervals */
		return 0;
	err = flush_thread(f, tr, s->thread);
	if (err)
		return err;
	if (s->kind == EXPORT_FRAME) {
		push_frame(f, t, s);
	} else if (s->kind == EXPORT_GAP) {
		tr->gap = s->name;
		tr->gap_ns = s->ns + 1;	/* 0 is a time, too */
	}
	return f->nomem ? -AUX_E_NOMEM : 0;
}

static int end_firefox(void *format, struct export_track *t,
		       const struct export_slice *s)
{
	struct firefox *f = format;
	struct firefox_track *tr = t->user;
	int err;

	if (s->kind != EXPORT_FRAME)
		return s->kind == EXPORT_GAP ? mark_gap(f, tr, s) : 0;
	err = flush_thread(f, tr, s->thread);
	pop_frame(f, tr);
	if (!err && f->x->env.symbol && s->frame->func->wanted)
		err = mark_call(f, tr, s);
	return err;
}

/* The interval before is that of the stack that was left. */
static int turn_firefox(void *format, struct export_track *t,
			const struct export_track *from, uint64_t ns)
{
	struct firefox_track *left = from->user, *tr = t->user;
	int err = flush_counts(format, left, from->tid, &from->left);

	(void)ns;
	left->thread->active = tr;
	return err;
}

static int instant_firefox(void *format, struct export_track *t,
			   const struct export_instant *i)
{
	struct firefox *f = format;
	struct outbuf *out = firefox_begin_mark(f, "Event");

	outbuf_str(out, ",\"source\":\"");
	outbuf_str(out, i->category);
	outbuf_str(out, "\",\"value\":");
	put_hex(out, i->value);
	if (i->has_ip) {
		outbuf_str(out, ",\"ip\":");
		put_hex(out, i->ip);
	}
	put_fields(out, i->fields, i->n_fields);
	return firefox_end_mark(f, ((struct firefox_track *)t->user)->thread, i->name,
			CAT_VALUES, i->ns, i->ns);
}

/* A marker at each end: spans of one process may overlap, and end on another
 * thread than they began on. */
static int span_firefox(void *format, struct export_track *t,
			const struct export_span *s)
{
	struct firefox *f = format;
	struct outbuf *out = firefox_begin_mark(f, "Span");

	outbuf_str(out, s->begin ? ",\"edge\":\"begin\",\"id\":"
				 : ",\"edge\":\"end\",\"id\":");
	firefox_put_u64(out, s->serial);
	if (s->lost)
		outbuf_str(out, ",\"lost\":\"yes\"");
	put_fields(out, s->fields, s->begin ? s->n_fields : 0);
	return firefox_end_mark(f, ((struct firefox_track *)t->user)->thread, s->name,
			CAT_VALUES, s->ns, s->ns);
}

/* The counter of a name in a process, made at first need. */
static struct firefox_counter *use_counter(struct firefox *f, struct export_track *t,
				   const struct export_name *name)
{
	int64_t at = export_map_find(&f->counter_map, name->id, t->pid, 0);
	struct firefox_counter c = { .name = name, .track = t->thread };

	if (at < 0)
		return NULL;
	if ((size_t)at == f->n_counters) {
		c.delta = export_spool_piece(f->spool);
		c.count = export_spool_piece(f->spool);
		if (!c.delta || !c.count ||
		    array_append(&f->counters, &f->n_counters, &f->max_counters,
				 &c, sizeof(c)))
			return NULL;
	}
	return &f->counters[at];
}

/* The format counts up what it gets: so it gets differences. */
static int counter_firefox(void *format, struct export_track *t,
			   const struct export_counter *v)
{
	struct firefox *f = format;
	struct firefox_counter *c = use_counter(f, t, v->name);
	uint64_t ns = v->ns;
	char buf[32] = ",";
	int err;

	if (!c)
		return -AUX_E_NOMEM;
	if (!c->n++) {
		c->first = c->previous = firefox_after_base(f, ns) + f->base;
		c->first_value = c->value = v->value;
		return 0;
	}
	ns = ns > c->previous ? ns : c->previous;
	err = export_spool_put(f->spool, c->delta, buf,
			       (size_t)(firefox_fmt_ms(buf + 1, ns - c->previous) -
					buf));
	c->previous = ns;
	if (!err)
		err = export_spool_put(f->spool, c->count, buf,
				       (size_t)(fmt_sdec(buf + 1,
					(int64_t)((uint64_t)v->value -
						  (uint64_t)c->value)) - buf));
	c->value = v->value;
	return err;
}

/* The last interval of a thread ends where nothing runs. */
static int end_threads(struct firefox *f)
{
	int err = 0;

	for (struct export_track *t = f->x->tracks; t && !err; t = t->next) {
		struct firefox_thread *th = ((struct firefox_track *)t->user)->thread;
		struct firefox_sample *s = &th->pending;

		if (t->thread != t || !th->has_pending)
			continue;
		err = write_pending(f, th);
		*s = (struct firefox_sample){
			.at = !f->x->timed ? th->last.insns :
			      th->last.ns > s->at ? th->last.ns : s->at,
		};
		th->has_pending = true;
		if (!err)
			err = write_pending(f, th);
	}
	return err;
}

static int finish_firefox(void *format, struct aux_diag *diag)
{
	struct firefox *f = format;
	int err;

	if (!f->x->timed)
		f->by_insns = true;
	firefox_after_base(f, 0);
	err = end_threads(f);
	if (!err)
		err = firefox_write(f);
	if (err == -AUX_E_IO && !diag->code) {
		diag->code = AUX_E_IO;
		strncpy(diag->text, "the temporary file cannot be read",
			sizeof(diag->text) - 1);
	}
	return err;
}

static int open_firefox(void **format, struct export *x, struct aux_diag *diag)
{
	struct firefox *f = calloc(1, sizeof(*f));

	(void)diag;
	*format = f;
	if (!f)
		return -AUX_E_NOMEM;
	f->x = x;
	f->by_insns = x->config.by == 1;
	f->spool = export_spool_new();
	f->text = outbuf_new(-1);
	f->off_cpu = export_intern(x, "[off CPU]");
	for (unsigned i = 0; i < UNTRACED_N; i++)
		f->untraced[i] = export_intern(x, calltree_other(calltree_untraced(i)));
	f->gap = export_intern(x, "[gap]");
	f->folded = export_intern(x, "[folded]");
	return f->spool && f->text && f->off_cpu && f->untraced[0] &&
	       f->untraced[1] && f->untraced[2] && f->gap && f->folded ? 0 : -AUX_E_NOMEM;
}

static void close_firefox(void *format)
{
	struct firefox *f = format;

	for (struct export_track *t = f->x->tracks; t; t = t->next) {
		if (t->thread == t && t->user)
			free(((struct firefox_track *)t->user)->thread);
		free(t->user);
	}
	export_spool_free(f->spool);
	outbuf_free(f->text);
	export_map_fini(&f->frame_map);
	export_map_fini(&f->stack_map);
	export_map_fini(&f->lib_map);
	export_map_fini(&f->counter_map);
	export_ids_fini(&f->strings);
	export_ids_fini(&f->func_of);
	export_ids_fini(&f->name_of);
	free(f->frames);
	free(f->funcs);
	free(f->libs);
	free(f->natives);
	free(f->counters);
	free(f->names);
	free(f);
}

const struct export_ops export_firefox = {
	.name = "firefox",
	.help = "a profile of the Firefox Profiler: exact stacks, gaps",
	.open = open_firefox,
	.track = track_firefox,
	.begin = begin_firefox,
	.end = end_firefox,
	.turn = turn_firefox,
	.instant = instant_firefox,
	.counter = counter_firefox,
	.span = span_firefox,
	.finish = finish_firefox,
	.close = close_firefox,
};
