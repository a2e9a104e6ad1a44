/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: adds up branches and runs of instructions. This is the sink's hot path.
 *
 * A range of the list goes from the target of a taken branch to the next taken branch, so
 * it may span several RANGE events and several paths. A unit is a step or path as seen
 * by the list:
 * - its inside, from its first taken branch to its last, is the same whenever it runs:
 *   it is looked up once (learn), and then only counted; fold adds it to the list;
 * - its head, up to the first taken branch, continues the run that was open before it;
 * - its tail, after the last taken branch, is the run and branch left open after it.
 * A seam is where one unit leads into another: a branch and the run up to the end of
 * the head. Seams are cached, so that the list is searched only for new pairs.
 *
 * user[2] of a step or kept path: the unit's index + 1, and above it the epoch, which
 * fold increments when it drops all units. Numbers of older epochs are ignored, so steps
 * need not be visited to be reset. The others are those of calls, which another sink may
 * have beside this (branches.c).
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/trace/gap.h"
#include "decode/profile/impl.h"
#include "decode/lib/sideband/sideband.h"

#define N_SEAMS ((size_t)1 << 17)	/* a power of two */
/* With more, units are folded and start anew, which bounds the memory. */
#define MAX_UNITS ((size_t)1 << 20)
#define MAX_PARTS ((size_t)1 << 24)

struct profile_unit {
	uint64_t count;		/* runs since the last fold */
	size_t parts;		/* its first entry in c->parts */
	uint32_t n_branches, n_ranges;
	uint32_t n_insns;
	/* the head: a run that may have started before the unit */
	uint64_t first, head_last;
	uint32_t head_n;	/* instructions; 0: no branch is taken in it */
	struct profile_open tail;	/* what is open after the unit */
};

/*
 * A branch that leads into a unit, and the range from its target to the end of
 * the unit's head: their indexes in the list. A direct-mapped cache.
 */
struct profile_seam {
	uint64_t from;
	uint32_t module;
	uint32_t unit;		/* index + 1; 0: free */
	int32_t branch, range;	/* range -1: the run goes on past the unit */
	uint8_t kind;
	bool outside;
};

/* Where entries go: counted at once, or kept with a unit that is being
 * learnt. */
struct target {
	struct profile_unit *unit;	/* NULL: counted */
	bool head;		/* still before its first taken branch */
};

/* table */
static const uint8_t kind_of_end[] = {
	[AUX_END_COND_TAKEN] = BRANCHLIST_COND,
	[AUX_END_COND] = BRANCHLIST_COND,
	[AUX_END_JUMP] = BRANCHLIST_JUMP,
	[AUX_END_CALL] = BRANCHLIST_CALL,
	[AUX_END_RET] = BRANCHLIST_RET,
	[AUX_END_IND_JUMP] = BRANCHLIST_IND_JUMP,
	[AUX_END_IND_CALL] = BRANCHLIST_IND_CALL,
	[AUX_END_SYSCALL] = BRANCHLIST_SYSCALL,
	[AUX_END_FAR] = BRANCHLIST_FAR,
};

int profile_collect_init(struct profile_collect *c, struct branchlist *list,
			 const struct sink_host *host)
{
	*c = (struct profile_collect){ .host = host, .list = list, .epoch = 1 };
	c->pages = calloc(PROFILE_PAGES, sizeof(*c->pages));
	c->seams = calloc(N_SEAMS, sizeof(*c->seams));
	return c->pages && c->seams ? 0 : -AUX_E_NOMEM;
}

void profile_collect_fini(struct profile_collect *c)
{
	free(c->streams);
	free(c->units);
	free(c->parts);
	free(c->pages);
	free(c->seams);
}

/* ---- Entries ---- */

static void keep_part(struct profile_collect *c, int entry)
{
	if (array_grow(&c->parts, c->n_parts, &c->max_parts,
		       sizeof(*c->parts)) < 0) {
		c->error = -AUX_E_NOMEM;
		return;
	}
	c->parts[c->n_parts++] = entry;
}

static void add_branch_entry(struct profile_collect *c, struct target *t,
			      int i)
{
	if (i < 0) {
		c->error = i;
	} else if (!t->unit) {
		branchlist_branches(c->list)[i].count++;
	} else {
		keep_part(c, i);
		t->unit->n_branches++;
	}
}

/* In parts a branch is its index, a range -1 - its index. */
static void add_range_entry(struct profile_collect *c, struct target *t, int i)
{
	if (i < 0) {
		c->error = i;
	} else if (!t->unit) {
		branchlist_ranges(c->list)[i].count++;
	} else {
		keep_part(c, -1 - i);
		t->unit->n_ranges++;
	}
}

/* ---- Events, one by one ---- */

/* The run that is open, from and to a part of the stream. */
static void keep_piece(struct profile_collect *c, struct profile_stream *s,
		       uint64_t tail)
{
	struct profile_open *o = &s->open;
	struct branchlist_piece p = {
		.stream = s->stream, .tail = tail, .n_insns = o->n,
		.head = o->headed ? s->part.from_at : BRANCHLIST_NO_CUT,
		.outside = !o->headed && o->outside,
	};
	struct branchlist_place at = { 0 };
	int err = profile_place(c, o->n ? o->space : s->space, o->first, &at);

	p.module = at.module;
	p.first = p.last = at.offset;
	if (o->n)
		p.last += o->last - o->first;
	if (!err)
		err = branchlist_piece(c->list, &p);
	if (err)
		c->error = err;
	o->headed = false;
}

static struct profile_stream *stream_of(const struct profile_open *o)
{
	return (struct profile_stream *)((uintptr_t)o -
					 offsetof(struct profile_stream, open));
}

/* Ends the open run. While a unit is learnt the first one is its head. headed
 * is that of a stream alone. */
static void close_run(struct profile_collect *c, struct profile_open *o,
		      struct target *t)
{
	if (t->head) {
		t->unit->head_last = o->last;
		t->unit->head_n = o->n;
		t->head = false;
	} else if (o->headed) {
		keep_piece(c, stream_of(o), BRANCHLIST_NO_CUT);
	} else if (o->n && !c->no_ranges) {
		add_range_entry(c, t, profile_range_entry(c, o));
	}
	o->n = 0;
}

/*
 * Resolves the open branch: it leads to *to (NULL: not known where). One that
 * may be not taken and leads to the next instruction was not: the run goes on.
 */
static void resolve(struct profile_collect *c, const struct flow_ctx *ctx,
		    struct profile_open *o, struct target *t, const uint64_t *to)
{
	if (o->kind && o->maybe && to && *to == o->next) {
		o->kind = 0; /* it was not taken */
		return;
	}
	if (!o->kind)
		return;
	if (o->maybe)
		close_run(c, o, t);
	add_branch_entry(c, t, profile_branch_entry(c, ctx, o, to));
	o->kind = 0;
}

/*
 * Flow goes on at ip. Afterwards a run is open that starts there, or started
 * before. If flow does not follow from what was before, the new run counts as
 * entered from outside.
 */
static void continue_at(struct profile_collect *c, const struct flow_ctx *ctx,
			struct profile_open *o, struct target *t, uint64_t ip)
{
	if (!o->kind && !o->n)
		o->outside = true;
	resolve(c, ctx, o, t, &ip);
	if (o->n && o->next && o->next != ip) {
		close_run(c, o, t);
		o->outside = true;
	}
	if (!o->n) {
		o->first = ip;
		o->space = ctx->space;
	}
}

/*
 * Adds a RANGE to the open run. The run ends if its last branch was taken; a
 * conditional branch without an outcome (AUX_END_COND) is decided by where flow
 * goes on.
 */
static void handle_range(struct profile_collect *c, const struct flow_ctx *ctx,
			 struct profile_open *o, struct target *t,
			 const struct aux_flow *ev)
{
	unsigned size = ev->flags & AUX_FLOW_SIZE_MASK;
	struct branchlist_place at = { 0 };
	int err;

	continue_at(c, ctx, o, t, ev->range.first);
	if (o->n > UINT32_MAX - ev->n)
		close_run(c, o, t);
	o->last = ev->range.last;
	o->n += ev->n;
	o->next = size ? o->last + size : 0;
	if (ev->what >= sizeof(kind_of_end) || !kind_of_end[ev->what])
		return;
	o->kind = kind_of_end[ev->what];
	o->maybe = ev->what == AUX_END_COND;
	err = profile_place(c, ctx->space, o->last, &at);
	if (err)
		c->error = err;
	o->from = at.offset;
	o->from_module = at.module;
	if (!o->maybe)
		close_run(c, o, t);
}

/* ---- Units ---- */

/* Adds the counts of all units to the list, and drops units and seams. */
static void fold(struct profile_collect *c)
{
	struct branchlist_branch *b = branchlist_branches(c->list);
	struct branchlist_range *r = branchlist_ranges(c->list);

	for (size_t i = 0; i < c->n_units; i++) {
		const struct profile_unit *u = &c->units[i];
		const int32_t *part = c->parts + u->parts;

		for (uint32_t k = 0; k < u->n_branches + u->n_ranges; k++) {
			if (part[k] >= 0)
				b[part[k]].count += u->count;
			else
				r[-1 - part[k]].count += u->count;
		}
	}
	c->n_units = 0;
	c->n_parts = 0;
	c->epoch++;
	memset(c->seams, 0, N_SEAMS * sizeof(*c->seams));
}

/*
 * May fold and may move units: pointers to other units are invalid afterwards.
 * NULL: out of memory, and c->error is set.
 */
static struct profile_unit *new_unit(struct profile_collect *c)
{
	struct profile_unit *u;

	if (c->n_units == MAX_UNITS || c->n_parts > MAX_PARTS)
		fold(c);
	if (array_grow(&c->units, c->n_units, &c->max_units,
		       sizeof(*c->units)) < 0) {
		c->error = -AUX_E_NOMEM;
		return NULL;
	}
	u = &c->units[c->n_units++];
	*u = (struct profile_unit){ .parts = c->n_parts };
	return u;
}

/* Makes a unit of some steps and stores its number in *user. NULL: c->error is
 * set. */
static struct profile_unit *learn(struct profile_collect *c,
				  const struct flow_ctx *ctx,
				  struct aux_step *const *steps,
				  uint32_t n_steps, uint64_t *user)
{
	struct profile_unit *u = new_unit(c);
	struct target t = { .unit = u, .head = true };
	struct profile_open *o;

	if (!u)
		return NULL;
	o = &u->tail;
	u->first = steps[0]->ranges[0].range.first;
	for (uint32_t i = 0; i < n_steps; i++)
		for (uint32_t k = 0; k < steps[i]->n_ranges; k++) {
			handle_range(c, ctx, o, &t, &steps[i]->ranges[k]);
			u->n_insns += steps[i]->ranges[k].n;
		}
	*user = (uint64_t)c->epoch << 32 | c->n_units;
	return c->error ? NULL : u;
}

/* NULL: none was made in this epoch. */
static struct profile_unit *find_unit(struct profile_collect *c, uint64_t user)
{
	size_t i = (uint32_t)user;

	if (user >> 32 != c->epoch || !i || i > c->n_units)
		return NULL;
	return &c->units[i - 1];
}

static struct profile_seam *find_seam(struct profile_collect *c,
				      const struct profile_open *o,
				      const struct profile_unit *u)
{
	uint64_t h = o->from ^ (uint64_t)(u - c->units) << 24;

	h *= UINT64_C(0x9e3779b97f4a7c15);
	return &c->seams[h >> 40 & (N_SEAMS - 1)];
}

static bool is_seam(const struct profile_seam *s,
		    const struct profile_collect *c,
		    const struct profile_open *o, const struct profile_unit *u)
{
	return s->from == o->from && s->unit == (size_t)(u - c->units) + 1 &&
	       s->module == o->from_module && s->kind == o->kind;
}

/* Fills the seam of the open branch and the unit. False: c->error is set. */
static bool learn_seam(struct profile_collect *c, const struct flow_ctx *ctx,
		       struct profile_open *o, struct profile_unit *u,
		       struct profile_seam *s)
{
	*s = (struct profile_seam){ .from = o->from, .module = o->from_module,
				    .kind = o->kind, .range = -1 };
	s->branch = profile_branch_entry(c, ctx, o, &u->first);
	s->outside = o->outside;
	o->first = u->first;
	o->space = ctx->space;
	if (u->head_n && s->branch >= 0 && !c->no_ranges) {
		o->last = u->head_last;
		o->n = u->head_n;
		s->range = profile_range_entry(c, o);
		o->n = 0;
	}
	if (s->branch < 0 || s->range < -1) {
		c->error = s->branch < 0 ? s->branch : s->range;
		return false;
	}
	s->unit = (uint32_t)(u - c->units) + 1;
	return true;
}

/* Counts the open branch as leading into the unit. False: there is none that is
 * known to be taken; then join_run is due. */
static inline bool join_branch(struct profile_collect *c,
			       const struct flow_ctx *ctx,
			       struct profile_open *o, struct profile_unit *u)
{
	struct profile_seam *s;

	if (!o->kind || o->maybe)
		return false;
	s = find_seam(c, o, u);
	if (!is_seam(s, c, o, u) && !learn_seam(c, ctx, o, u, s))
		return true;
	branchlist_branches(c->list)[s->branch].count++;
	if (s->range >= 0)
		branchlist_ranges(c->list)[s->range].count++;
	o->kind = 0;
	o->outside = s->outside;
	o->first = u->first;
	o->space = ctx->space;
	return true;
}

/* Flow comes to the unit without a taken branch: a run goes on, or starts. */
static void join_run(struct profile_collect *c, const struct flow_ctx *ctx,
		     struct profile_open *o, struct profile_unit *u)
{
	struct target t = { 0 };

	if (o->n > UINT32_MAX - u->n_insns)
		close_run(c, o, &t);
	continue_at(c, ctx, o, &t, u->first);
	if (!u->head_n)
		return;
	o->last = u->head_last;
	o->n += u->head_n;
	close_run(c, o, &t);
}

static inline void run_unit(struct profile_collect *c,
			    const struct flow_ctx *ctx, struct profile_open *o,
			    struct profile_unit *u)
{
	u->count++;
	if (!join_branch(c, ctx, o, u))
		join_run(c, ctx, o, u);
	if (u->head_n) {
		*o = u->tail;
		return;
	}
	/* no branch was taken in it: the run goes on */
	o->n += u->n_insns;
	o->last = u->tail.last;
	o->next = u->tail.next;
	o->kind = u->tail.kind;
	o->maybe = u->tail.maybe;
	o->from = u->tail.from;
	o->from_module = u->tail.from_module;
}

static void run_path(struct profile_collect *c, const struct flow_ctx *ctx,
		     struct profile_open *o, struct aux_path *path)
{
	struct profile_unit *u;

	if (path->kept) {
		u = find_unit(c, path->user[2]);
		if (!u)
			u = learn(c, ctx, path->steps, path->n_steps,
				  &path->user[2]);
		if (u)
			run_unit(c, ctx, o, u);
		return;
	}
	for (uint32_t i = 0; i < path->n_steps; i++) {
		struct aux_step *step = path->steps[i];

		u = find_unit(c, step->user[2]);
		if (!u)
			u = learn(c, ctx, &step, 1, &step->user[2]);
		if (u)
			run_unit(c, ctx, o, u);
	}
}

/* ---- Events ---- */

/*
 * An interrupt, exception or signal: what was open ends at the interrupted
 * address, and a branch leads from there to the handler (to 0: not known).
 */
static void on_async(struct profile_collect *c, const struct flow_ctx *ctx,
		     struct profile_open *o, const struct aux_flow *ev)
{
	struct target t = { 0 };
	struct branchlist_place at;
	int err = profile_place(c, ctx->space, ev->async.from, &at);

	resolve(c, ctx, o, &t, &ev->async.from);
	close_run(c, o, &t);
	if (err) {
		c->error = err;
		return;
	}
	o->from = at.offset;
	o->from_module = at.module;
	o->maybe = false;
	o->kind = ev->what == AUX_ASYNC_INTERRUPT ? BRANCHLIST_INTERRUPT :
		  ev->what == AUX_ASYNC_EXCEPTION ? BRANCHLIST_EXCEPTION :
						    BRANCHLIST_ASYNC;
	resolve(c, ctx, o, &t, ev->async.to ? &ev->async.to : NULL);
	o->outside = true;
}

static void on_event(struct profile_collect *c, const struct flow_ctx *ctx,
		     struct profile_open *o, const struct aux_flow *ev)
{
	struct target t = { 0 };
	const uint64_t *to = NULL;

	switch (ev->kind) {
	case AUX_FLOW_PATH:
		run_path(c, ctx, o, ev->path.path);
		c->n_insns += ev->n;
		break;
	case AUX_FLOW_RANGE:
		handle_range(c, ctx, o, &t, ev);
		c->n_insns += ev->n;
		break;
	case AUX_FLOW_ASYNC:
		on_async(c, ctx, o, ev);
		break;
	case AUX_FLOW_TRACE_OFF:
		if (ev->flags & AUX_FLOW_HAS_IP)
			to = &ev->trace.ip;
		/* fall through */
	case AUX_FLOW_TRACE_ON:
	case AUX_FLOW_GAP:
		resolve(c, ctx, o, &t, to);
		close_run(c, o, &t);
		c->list->n_gaps += ev->kind == AUX_FLOW_GAP &&
				   ev->what != GAP_SNAPSHOT;
	}
}

/* A linear search: there are as many streams as CPUs or threads with a
 * buffer. */
static struct profile_stream *find_stream(struct profile_collect *c,
					  uint32_t stream)
{
	struct profile_stream *s;

	for (size_t i = 0; i < c->n_streams; i++)
		if (c->streams[i].stream == stream)
			return &c->streams[i];
	s = reallocarray(c->streams, c->n_streams + 1, sizeof(*s));
	if (!s)
		return NULL;
	c->streams = s;
	s += c->n_streams++;
	*s = (struct profile_stream){ .stream = stream };
	if (sink_part_of(c->host, stream, &s->part))
		s->open.headed = s->part.comes_from;
	return s;
}

int profile_collect_flow(struct profile_collect *c, const struct flow_ctx *ctx,
			 const struct aux_flow *ev, size_t n)
{
	struct profile_stream *s = find_stream(c, ctx->stream);

	if (!s)
		return -AUX_E_NOMEM;
	s->space = ctx->space;
	for (size_t i = 0; i < n && !c->error; i++)
		if (ev[i].kind != AUX_FLOW_TIME)	/* most of all, with cycles */
			on_event(c, ctx, &s->open, &ev[i]);
	return c->error;
}

/* Streams of which a part had no flow: what comes from before goes on after. */
static int find_parts(struct profile_collect *c)
{
	struct sink_part part;

	for (size_t i = 0; c->host->part && c->host->part(c->host->priv, i, &part);
	     i++)
		if ((part.comes_from || part.goes_on) &&
		    !find_stream(c, part.stream))
			return -AUX_E_NOMEM;
	return 0;
}

/* Where the next part of the stream goes on the open branch leads to, and the
 * open run is a piece of one. */
static void end_stream(struct profile_collect *c, struct profile_stream *s)
{
	struct flow_ctx ctx = { .space = s->space };
	struct target t = { 0 };

	if (s->part.goes_on) {
		continue_at(c, &ctx, &s->open, &t, s->part.to_ip);
		keep_piece(c, s, s->part.to_at);
		return;
	}
	resolve(c, &ctx, &s->open, &t, NULL);
	close_run(c, &s->open, &t);
}

int profile_collect_finish(struct profile_collect *c)
{
	int err = find_parts(c);

	if (err)
		return err;
	for (size_t i = 0; i < c->n_streams && !c->error; i++)
		end_stream(c, &c->streams[i]);
	if (!c->error)
		fold(c);
	return c->error;
}
