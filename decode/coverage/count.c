/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: counts units (see impl.h). This is the sink's hot path.
 *
 * A unit is made when a step, a path or a lone range is first met, by the
 * thread that meets it (units.c). Its number is published in user[0] of the step
 * or path with release order, so other threads never see a number before its
 * unit.
 *
 * Ordinary branches need no counting of their own: where a unit's last branch
 * goes follows from the code. Only dynamic ones (returns, indirect branches,
 * conditional ones that a path does not decide) are counted as jumps, by unit
 * and target.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "common/array.h"
#include "decode/coverage/impl.h"
#include "decode/lib/sideband/sideband.h"

#define FIRST_SLOTS 1024

/* True if the target of such an end does not follow from the code. */
static bool is_dynamic(unsigned what)
{
	return what == AUX_END_RET || what == AUX_END_IND_JUMP ||
	       what == AUX_END_IND_CALL || what == AUX_END_COND;
}

static struct cover_range range_of(const struct aux_flow *ev)
{
	return (struct cover_range){
		.first = ev->range.first, .last = ev->range.last, .n = ev->n,
		.flags = ev->flags & (AUX_FLOW_MODE_MASK | AUX_FLOW_SIZE_MASK),
		.what = ev->what,
	};
}

/* ---- Steps and paths ---- */

static uint64_t load(const uint64_t *user)
{
	return __atomic_load_n(user, __ATOMIC_ACQUIRE);
}

/* Room for n elements where a unit is put together; NULL: out of memory. */
static void *need_room(struct cover_counter *c, size_t n, size_t size)
{
	void *room = n * size <= c->n_room ? c->room :
					     realloc(c->room, n * size);

	if (!room)
		return NULL;
	c->room = room;
	c->n_room = n * size > c->n_room ? n * size : c->n_room;
	return room;
}

/* The word (see COVER_ID) of a step, which gets a unit unless another thread was
 * faster; 0: out of memory. */
static uint64_t learn_step(struct cover_counter *c, const struct space *space,
			   struct aux_step *step)
{
	struct cover_unit unit = { .space = space, .n = step->n_ranges };
	uint64_t word = load(&step->user[c->word]);
	uint32_t id;

	if (word)
		return word;
	unit.ranges = need_room(c, step->n_ranges, sizeof(*unit.ranges));
	if (!unit.ranges)
		return 0;
	for (uint32_t i = 0; i < step->n_ranges; i++)
		unit.ranges[i] = range_of(&step->ranges[i]);
	id = cover_unit_need(c->units, &unit);
	if (!id)
		return 0;
	word = (uint64_t)id << 1 |
	       is_dynamic(step->ranges[step->n_ranges - 1].what);
	__atomic_store_n(&step->user[c->word], word, __ATOMIC_RELEASE);
	return word;
}

static uint64_t first_of(const struct aux_path *path)
{
	return path->steps[0]->ranges[0].range.first;
}

/* The same for a path and its steps. user[1] is set before user[0] is
 * released. */
static uint64_t learn_path(struct cover_counter *c, const struct space *space,
			   struct aux_path *path)
{
	struct cover_unit unit = { .space = space, .n = path->n_steps,
				   .is_path = true };
	uint64_t word = load(&path->user[c->word]);
	uint32_t id;

	if (word)
		return word;
	for (uint32_t i = 0; i < path->n_steps; i++)
		if (!learn_step(c, space, path->steps[i]))
			return 0;
	unit.steps = need_room(c, path->n_steps, sizeof(*unit.steps));
	if (!unit.steps)
		return 0;
	for (uint32_t i = 0; i < path->n_steps; i++) {
		word = load(&path->steps[i]->user[c->word]);
		unit.steps[i] = COVER_ID(word);
	}
	id = cover_unit_need(c->units, &unit);
	if (!id)
		return 0;
	word = (uint64_t)id << 1 | (word & COVER_DYNAMIC);
	if (!c->word)
		__atomic_store_n(&path->user[1], first_of(path), __ATOMIC_RELAXED);
	__atomic_store_n(&path->user[c->word], word, __ATOMIC_RELEASE);
	return word;
}

/* ---- Counting ---- */

int cover_counter_init(struct cover_counter *c, struct cover_units *units)
{
	c->units = units;
	c->n_slots = FIRST_SLOTS;
	c->open = true;
	c->tid = c->stream = UINT32_MAX;
	c->jumps = calloc(c->n_slots, sizeof(*c->jumps));
	return c->jumps ? 0 : -AUX_E_NOMEM;
}

void cover_counter_fini(struct cover_counter *c)
{
	cover_cycles_free(c->cycles);
	free(c->counts);
	free(c->touched);
	free(c->jumps);
	free(c->room);
}

/* All counts are 0 again. */
static void cover_counter_clear(struct cover_counter *c)
{
	for (size_t i = 0; i < c->n_touched; i++)
		c->counts[c->touched[i]] = 0;
	c->n_touched = 0;
	if (c->n_jumps)
		memset(c->jumps, 0, c->n_slots * sizeof(*c->jumps));
	c->n_jumps = 0;
	c->prev = 0;
	c->paused = 0;
	c->head = 0;
	c->head_on = false;
	c->open = true;
	c->report = (struct sink_report){ 0 };
}

/*
 * Makes room for a unit's count and remembers that it is not 0, so that
 * clearing and packing cost as much as was used, not as there are units.
 */
static int touch(struct cover_counter *c, uint32_t id)
{
	uint64_t *counts;
	size_t cap = c->cap ? c->cap : 1024;

	while (cap <= id)
		cap *= 2;
	if (cap != c->cap) {
		counts = reallocarray(c->counts, cap, sizeof(*counts));
		if (!counts)
			return -AUX_E_NOMEM;
		memset(counts + c->cap, 0, (cap - c->cap) * sizeof(*counts));
		c->counts = counts;
		c->cap = (uint32_t)cap;
	}
	if (array_grow(&c->touched, c->n_touched, &c->max_touched,
		       sizeof(*c->touched)) < 0)
		return -AUX_E_NOMEM;
	c->touched[c->n_touched++] = id;
	return 0;
}

int cover_counter_add(struct cover_counter *c, uint32_t id, uint64_t n)
{
	if ((id >= c->cap || !c->counts[id]) && touch(c, id) < 0)
		return -AUX_E_NOMEM;
	c->counts[id] += n;
	return 0;
}

/* Equal ids of spaces are equal spaces: of hundreds of processes that run one
 * program, all jump alike. */
static struct cover_jump *find_jump(const struct cover_counter *c,
				    const struct cover_jump *like)
{
	uint64_t space = cover_space_id(like->space);
	uint64_t h = (like->to + like->id + (space << 24 ^ space >> 8)) *
		     UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(h >> 32) & (c->n_slots - 1);

	while (c->jumps[i].id &&
	       (c->jumps[i].id != like->id || c->jumps[i].to != like->to ||
		(c->jumps[i].space != like->space &&
		 cover_space_id(c->jumps[i].space) != space)))
		i = (i + 1) & (c->n_slots - 1);
	return &c->jumps[i];
}

static int grow_jumps(struct cover_counter *c)
{
	struct cover_jump *old = c->jumps;
	size_t n = c->n_slots;

	c->jumps = calloc(2 * n, sizeof(*old));
	if (!c->jumps) {
		c->jumps = old;
		return -AUX_E_NOMEM;
	}
	c->n_slots = 2 * n;
	for (size_t i = 0; i < n; i++) {
		if (old[i].id)
			*find_jump(c, &old[i]) = old[i];
	}
	free(old);
	return 0;
}

/* Adds a jump, as often as it says. */
static int cover_counter_jump(struct cover_counter *c,
			      const struct cover_jump *add)
{
	struct cover_jump *j = find_jump(c, add);

	if (j->id) {
		j->n += add->n;
		return 0;
	}
	if (2 * c->n_jumps >= c->n_slots) {
		if (grow_jumps(c) < 0)
			return -AUX_E_NOMEM;
		j = find_jump(c, add);
	}
	*j = *add;
	c->n_jumps++;
	return 0;
}

static int jump_from(struct cover_counter *c, uint32_t id,
		     const struct space *space, uint64_t to)
{
	return cover_counter_jump(c, &(struct cover_jump){
		.to = to, .n = 1, .space = space, .id = id });
}

/* The branch before led to where the flow broke off, which does not go on
 * there. */
static int end_pause(struct cover_counter *c)
{
	int err = 0;

	if (c->prev && c->paused)
		err = jump_from(c, c->prev, c->paused_space, c->paused);
	c->prev = 0;
	c->paused = 0;
	return err;
}

/*
 * Counts one run of a unit of so many instructions that starts at address first, which
 * is also the target of the dynamic branch before it.
 */
static inline int hit(struct cover_counter *c, uint64_t word, uint64_t n_insns,
		      const struct space *space, uint64_t first)
{
	uint32_t id = COVER_ID(word);

	if (c->cycles && cover_cycles_ran(c->cycles, id, n_insns) < 0)
		return -AUX_E_NOMEM;
	if (c->open) {
		c->head = first;
		c->head_space = space;
		c->open = false;
	}
	if (c->prev && (c->paused ? end_pause(c) :
				    jump_from(c, c->prev, space, first)) < 0)
		return -AUX_E_NOMEM;
	c->prev = word & COVER_DYNAMIC ? id : 0;
	if (id < c->cap && c->counts[id]) {
		c->counts[id]++;
		return 0;
	}
	return cover_counter_add(c, id, 1);
}

static int hit_step(struct cover_counter *c, const struct space *space,
		    struct aux_step *step)
{
	uint64_t word = load(&step->user[c->word]);

	if (!word)
		word = learn_step(c, space, step);
	return word ? hit(c, word, step->n_insns, space,
			  step->ranges[0].range.first) : -AUX_E_NOMEM;
}

/*
 * A path that is not kept cannot hold a number, so its steps are counted.
 */
static int hit_path(struct cover_counter *c, const struct space *space,
		    struct aux_path *path)
{
	uint64_t word;
	int err = 0;

	c->report.n_insns += path->n_insns;
	if (!path->kept) {
		for (uint32_t i = 0; i < path->n_steps && !err; i++)
			err = hit_step(c, space, path->steps[i]);
		return err;
	}
	word = load(&path->user[c->word]);
	if (!word)
		word = learn_path(c, space, path);
	return word ? hit(c, word, path->n_insns, space,
			  c->word ? first_of(path) : path->user[1]) : -AUX_E_NOMEM;
}

static int hit_range(struct cover_counter *c, const struct space *space,
		     const struct aux_flow *ev)
{
	struct cover_range r = range_of(ev);
	uint64_t id = cover_space_id(space);
	uint64_t k = r.first ^ r.last << 5 ^ r.what;
	struct cover_hot *h = &c->hot[(k ^ k >> 12) & (COVER_HOT - 1)];
	uint32_t unit;

	c->report.n_insns += ev->n;
	if (!h->word || h->first != r.first || h->last != r.last ||
	    h->space != id || h->n != r.n || h->mode != r.flags ||
	    h->what != r.what) {
		unit = cover_unit_need(c->units, &(struct cover_unit){
			.space = space, .n = 1, .ranges = &r });
		if (!unit)
			return -AUX_E_NOMEM;
		*h = (struct cover_hot){
			.first = r.first, .last = r.last, .space = id,
			.n = r.n, .mode = r.flags, .what = r.what,
			.word = (uint64_t)unit << 1 | is_dynamic(r.what),
		};
	}
	return hit(c, h->word, ev->n, space, r.first);
}

/* Tracing goes on at ip. The file that is there may have been mapped in the
 * pause. */
static int go_on(struct cover_counter *c, const struct aux_flow *ev)
{
	c->head_on |= c->open;
	if (c->prev && c->paused && ev->flags & AUX_FLOW_HAS_IP &&
	    ev->trace.ip == c->paused) {
		c->paused = 0;
		return 0;
	}
	return end_pause(c);
}

/*
 * The flow breaks off. Where that says which instruction did not run, the branch
 * before led there.
 */
static int break_off(struct cover_counter *c, const struct space *space,
		     const struct aux_flow *ev)
{
	uint64_t at = 0;

	if (ev->kind == AUX_FLOW_ASYNC)
		at = ev->async.from;
	else if (ev->kind == AUX_FLOW_TRACE_OFF && ev->flags & AUX_FLOW_HAS_IP)
		at = ev->trace.ip;
	if (c->open) {
		c->head = at;
		c->head_space = space;
		c->open = false;
	}
	/* the TRACE_OFF after an ASYNC has no ip, or the same */
	if (c->paused && ev->kind == AUX_FLOW_TRACE_OFF &&
	    (!at || at == c->paused))
		return 0;
	if (at && c->prev && !c->paused) {
		c->paused = at;
		c->paused_space = space;
		return 0;
	}
	return end_pause(c);
}

/* What an event is to the count of cycles, but for what ran. */
static int count_cycles(struct cover_cycles *c, const struct aux_flow *ev)
{
	if (ev->kind == AUX_FLOW_TIME)
		return ev->n ? cover_cycles_pass(c, ev->n) : 0;
	if (ev->kind == AUX_FLOW_TRACE_OFF || ev->kind == AUX_FLOW_GAP ||
	    ev->kind == AUX_FLOW_TRACE_ON)
		cover_cycles_pause(c, ev->kind != AUX_FLOW_TRACE_ON);
	return 0;
}

/*
 * Adds a batch of events of one thread and stream. A change of either breaks
 * the flow, so the open jump is dropped; coverage.c and cover_partial_join
 * continue it for a stream.
 */
int cover_counter_flow(struct cover_counter *c, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n)
{
	int err = 0;

	c->space = ctx->space;
	if (c->tid != ctx->tid || c->stream != ctx->stream) {
		err = end_pause(c);
		c->open &= c->tid == UINT32_MAX && c->stream == UINT32_MAX;
		c->tid = ctx->tid;
		c->stream = ctx->stream;
	}
	if (!err && c->cycles)
		err = cover_cycles_at(c->cycles, ctx->stream, ctx->tid);
	for (size_t i = 0; i < n && !err; i++) {
		if (c->cycles)
			err = count_cycles(c->cycles, &ev[i]);
		if (err)
			break;
		if (ev[i].kind == AUX_FLOW_PATH) {
			err = hit_path(c, ctx->space, ev[i].path.path);
		} else if (ev[i].kind == AUX_FLOW_RANGE) {
			err = hit_range(c, ctx->space, &ev[i]);
		} else if (ev[i].kind == AUX_FLOW_TRACE_ON) {
			err = go_on(c, &ev[i]);
		} else if (ev[i].kind == AUX_FLOW_ASYNC ||
			   ev[i].kind == AUX_FLOW_TRACE_OFF ||
			   ev[i].kind == AUX_FLOW_GAP) {
			/* all other events, such as the POWER of a PSB+, only
			 * happen between two instructions */
			err = break_off(c, ctx->space, &ev[i]);
		}
	}
	return err;
}

/*
 * Partial results: a worker counts a chunk. What a stint had is packed at its
 * end into one list, which the session's thread adds to its own: sums do not
 * depend on the order. What does is one thing: where the jump at the end of one
 * stint went is seen in the next one of the stream, so streams are kept apart
 * (struct cover_pending) and may be joined in any order.
 */

struct share {
	uint64_t n;
	uint32_t id;
};

/* What one stint adds. */
struct packed {
	uint32_t stint;
	struct share *shares;
	struct cover_jump *jumps;
	size_t n_shares, n_jumps;
	uint64_t head;		/* as in struct cover_counter */
	uint64_t paused;
	const struct space *head_space, *paused_space, *space;
	uint32_t head_tid, tid, stream, prev;
	bool head_on;
	bool empty;		/* nothing came */
	uint32_t pid;		/* the lowest */
	struct sink_report report;
};

/* Filled by the worker that has the chunk, then read by the session's
 * thread. */
struct cover_partial {
	struct cover_partial *next;	/* idle */
	struct coverage *sink;
	struct cover_counter counter;	/* what came of: */
	uint32_t stint;
	bool flowed;			/* it is not packed yet */
	struct packed *stints;
	size_t n_stints, cap_stints;
	size_t joined;			/* the session's */
	uint32_t head_tid, pid;
};

struct cover_pending *cover_pending_of(struct coverage *c, uint32_t stream)
{
	struct cover_pending *p;

	for (size_t i = 0; i < c->n_pending; i++) {
		if (c->pending[i].stream == stream)
			return &c->pending[i];
	}
	p = reallocarray(c->pending, c->n_pending + 1, sizeof(*p));
	if (!p)
		return NULL;
	c->pending = p;
	p[c->n_pending] = (struct cover_pending){ .stream = stream };
	return &p[c->n_pending++];
}

int cover_end_pause(struct coverage *c, struct cover_pending *p)
{
	int err = 0;

	if (p->id && p->paused) {
		err = jump_from(&c->counter, p->id, p->paused_space, p->paused);
		p->id = 0;
	}
	p->paused = 0;
	return err;
}

int cover_join_parts(struct coverage *c)
{
	const struct sink_host *host = c->env.host;
	struct cover_pending *p;
	struct sink_part part;
	int err = 0;

	for (size_t i = 0; i < c->n_pending && !err; i++) {
		p = &c->pending[i];
		if (p->id && sink_part_of(host, p->stream, &part) && part.goes_on)
			err = jump_from(&c->counter, p->id, p->space, part.to_ip);
	}
	return err;
}

static void free_packed(struct packed *s)
{
	free(s->shares);
	free(s->jumps);
	s->shares = NULL;
	s->jumps = NULL;
}

void cover_partials_free(struct coverage *c)
{
	struct cover_partial *p, *next;

	for (p = c->idle; p; p = next) {
		next = p->next;
		cover_counter_fini(&p->counter);
		free(p->stints);
		free(p);
	}
}

int cover_partial_new(void **partial, const void *sink)
{
	/* the list of those that are idle is all of it that changes */
	struct coverage *c = (void *)(uintptr_t)sink;
	struct cover_partial *p;

	*partial = NULL;
	pthread_mutex_lock(&c->lock);
	p = c->idle;
	if (p)
		c->idle = p->next;
	pthread_mutex_unlock(&c->lock);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -AUX_E_NOMEM;
		p->sink = c;
		if (cover_counter_init(&p->counter, &c->units) < 0) {
			free(p);
			return -AUX_E_NOMEM;
		}
	}
	p->pid = UINT32_MAX;
	*partial = p;
	return 0;
}

void cover_partial_free(void *partial)
{
	struct cover_partial *p = partial;

	if (!p)
		return;
	for (size_t i = 0; i < p->n_stints; i++)
		free_packed(&p->stints[i]);
	p->n_stints = p->joined = 0;
	p->stint = 0;
	p->flowed = false;
	cover_counter_clear(&p->counter);
	p->counter.tid = p->counter.stream = UINT32_MAX;
	pthread_mutex_lock(&p->sink->lock);
	p->next = p->sink->idle;
	p->sink->idle = p;
	pthread_mutex_unlock(&p->sink->lock);
}

/* What the counter has, packed. */
static int pack(const struct cover_counter *c, struct packed *s)
{
	if (c->n_touched) {
		s->shares = reallocarray(NULL, c->n_touched,
					 sizeof(*s->shares));
		if (!s->shares)
			return -AUX_E_NOMEM;
	}
	for (size_t i = 0; i < c->n_touched; i++)
		s->shares[s->n_shares++] = (struct share){
			c->counts[c->touched[i]], c->touched[i],
		};
	if (c->n_jumps) {
		s->jumps = reallocarray(NULL, c->n_jumps, sizeof(*s->jumps));
		if (!s->jumps)
			return -AUX_E_NOMEM;
	}
	for (size_t i = 0; c->n_jumps && i < c->n_slots; i++) {
		if (c->jumps[i].id)
			s->jumps[s->n_jumps++] = c->jumps[i];
	}
	return 0;
}

/* Ends the stint that came last. */
static int pack_stint(struct cover_partial *p)
{
	struct cover_counter *c = &p->counter;
	struct packed *s;

	if (!p->flowed)
		return 0;
	if (array_grow(&p->stints, p->n_stints, &p->cap_stints,
		       sizeof(*p->stints)))
		return -AUX_E_NOMEM;
	s = &p->stints[p->n_stints++];
	*s = (struct packed){ .stint = p->stint, .head = c->head,
			      .head_space = c->head_space, .space = c->space,
			      .head_tid = p->head_tid, .tid = c->tid,
			      .stream = c->stream, .prev = c->prev,
			      .paused = c->paused, .head_on = c->head_on,
			      .paused_space = c->paused_space,
			      .empty = c->open && !c->head_on,
			      .pid = p->pid,
			      .report = c->report };
	p->pid = UINT32_MAX;
	p->flowed = false;
	if (pack(c, s) < 0)
		return -AUX_E_NOMEM;
	cover_counter_clear(c);
	return 0;
}

int cover_partial_flow(void *partial, uint32_t stint,
		       const struct flow_ctx *ctx, const struct aux_flow *ev,
		       size_t n)
{
	struct cover_partial *p = partial;

	if (p->stint != stint && pack_stint(p) < 0)
		return -AUX_E_NOMEM;
	p->stint = stint;
	p->flowed = true;
	if (p->counter.open)
		p->head_tid = ctx->tid;
	cover_take_pid(&p->pid, ctx->pid);
	return cover_counter_flow(&p->counter, ctx, ev, n);
}

/* The jump that was open, and the one that is now. */
static int join_jump(struct coverage *c, const struct packed *s)
{
	struct cover_pending *p;

	if (s->empty)
		return 0;
	p = cover_pending_of(c, s->stream);
	if (!p)
		return -AUX_E_NOMEM;
	if (p->paused && s->head_on && s->head == p->paused &&
	    p->tid == s->head_tid)
		p->paused_space = s->head_space;
	if (cover_end_pause(c, p) < 0)
		return -AUX_E_NOMEM;
	if (p->id && s->head && !s->head_on && p->tid == s->head_tid &&
	    jump_from(&c->counter, p->id, s->head_space, s->head) < 0)
		return -AUX_E_NOMEM;
	p->id = s->prev;
	p->paused = s->paused;
	p->paused_space = s->paused_space;
	p->tid = s->tid;
	p->space = s->space;
	return 0;
}

int cover_partial_join(void *sink, void *partial, uint32_t stint)
{
	struct coverage *c = sink;
	struct cover_partial *p = partial;
	int err = pack_stint(p);

	for (; !err && p->joined < p->n_stints &&
	       p->stints[p->joined].stint <= stint; p->joined++) {
		struct packed *s = &p->stints[p->joined];

		err = join_jump(c, s);
		for (size_t i = 0; i < s->n_shares && !err; i++)
			err = cover_counter_add(&c->counter, s->shares[i].id,
						s->shares[i].n);
		for (size_t i = 0; i < s->n_jumps && !err; i++)
			err = cover_counter_jump(&c->counter, &s->jumps[i]);
		c->env.report->n_insns += s->report.n_insns;
		cover_take_pid(&c->pid, s->pid);
		free_packed(s);
	}
	return err;
}
