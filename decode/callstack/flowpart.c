/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flowpart: a call tree made by several workers, each of a part of the flow.
 *
 * A worker does not know the stack with which its part begins. So it makes stretches
 * (stretch.h): what ran in one frame, and in all that it called, is added up in a small
 * tree. What is between stretches, a return out of such a frame or a longjmp, is left as it
 * is. The session's thread then has the whole stack, and gives it one item after the other:
 * of a stretch, the sums; of all else, the events.
 *
 *	events | stretch | events | stretch ...		items, in the order of the flow
 *	       \_____ words of pack, of all events _____/
 *
 * The events of stretches are kept, too. Where the session's thread finds that the stack
 * is not what a stretch needs (it waits to be seen which of several stacks runs; trace is
 * off; a stub runs), it takes them, and nothing is guessed.
 *
 * Code that returns in ways of its own (a virtual machine's), or that calls the kernel all
 * the time, makes stretches of a few events, which cost more than they save. Events are left
 * as they are for a while then; the result is the same.
 *
 * Most of what a worker learns is of code, and hangs on the steps and paths of its
 * decoder: a maker has it, and a part looks for the maker to which its first path belongs.
 * A maker is used by one worker at a time.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/callstack/flowpart.h"

/* Nodes of a part; then it makes no more stretches, and ends the one it is at. The tree folds
 * at twice that (calltree.c), where nodes have no function and cannot be joined. */
#define MAX_NODES (1u << 20)
#define BATCH 256		/* events that are given, or taken, at a time */

/* Stretches are looked at in groups. After a group with few events the next events are left
 * to the session's thread, twice as many after each such group in a row. More than the most
 * leaves too much to that one thread where short and long stretches take turns (node). */
#define GROUP 256		/* stretches */
#define FEW_EVENTS 16		/* of each stretch, on average */
#define FIRST_LEFT (1u << 12)	/* events */
#define MOST_LEFT (1u << 16)

/* What learns of code. */
struct maker {
	struct maker *next;
	uint64_t epochs;	/* the upper half of the epochs of its segments */
	struct sink_host host;
	struct calls *calls;
	struct flow_part *part;	/* for which it works */
	struct thread *thread;
	struct calltree_thread ct;
	struct flow_ctx ctx;
	uint32_t stint;
	bool ready;		/* something ran, and nothing else came since */
	bool goes_on;		/* the thread and the stint are those of the last item */
	uint32_t n_in_group;	/* stretches that were begun */
	uint64_t n_group_events; /* in those */
	uint64_t to_leave;	/* events */
	uint64_t next_leave;	/* after the next group with few */
	uint64_t jumped[64];	/* addresses of the stretch, a cache without chains */
	bool runs;		/* a stretch is being made: */
	struct item item;
	struct stretch stretch;
};

/* ---- makers ---- */

static int on_enter(void *priv, struct call_thread *th);
static int on_leave(void *priv, struct call_thread *th, enum call_end end, unsigned flags);
static int on_tick(void *priv, struct call_thread *th);

static const struct calls_ops ops = {
	.enter = on_enter,
	.leave = on_leave,
	.tick = on_tick,
};

static void on_left(void *priv, struct func *func, uint64_t from);
static void on_jumped(void *priv, struct func *func, uint64_t to);

struct part_pool *part_pool_new(void)
{
	struct part_pool *pool = calloc(1, sizeof(*pool));

	if (pool)
		pthread_mutex_init(&pool->lock, NULL);
	return pool;
}

static void free_part(struct flow_part *p);

static void free_maker(struct maker *m)
{
	if (m)
		calls_free(m->calls);
	free(m);
}

void part_pool_free(struct part_pool *pool)
{
	struct flow_part *p, *next_part;
	struct maker *m, *next;

	if (!pool)
		return;
	for (m = pool->idle; m; m = next) {
		next = m->next;
		free_maker(m);
	}
	for (p = pool->parts; p; p = next_part) {
		next_part = p->next;
		free_part(p);
	}
	free(pool->funcs.ids);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* Names are for the session's thread, and so is who was off the CPU. */
static struct maker *new_maker(const struct flowtree *t)
{
	struct maker *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->host = *t->calls->host;
	m->host.names = NULL;
	m->host.off_cpu = NULL;
	m->host.comm = NULL;
	if (calls_new(&m->calls, &m->host, t->flags | CALLS_RAW_NAMES, &ops, m)) {
		free_maker(m);
		return NULL;
	}
	calls_func_share_ids(m->calls->funcs, &t->pool->n_ids);
	m->calls->base = 1;
	m->calls->stretch.left = on_left;
	m->calls->stretch.jumped = on_jumped;
	m->epochs = m->calls->code.epoch >> CODE_EPOCH_BITS;
	m->next_leave = FIRST_LEFT;
	return m;
}

/* To which maker the first path of the flow belongs; 0: to none, or there is none. */
static uint64_t owner_of(const struct aux_flow *ev, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ev[i].kind == AUX_FLOW_PATH && ev[i].path.path->kept)
			return ev[i].path.path->user[0] >> CODE_EPOCH_BITS;
	return 0;
}

/* Parts come in any order of time. */
static void forget_times(struct maker *m)
{
	for (struct thread *t = m->calls->threads; t; t = t->next) {
		t->pub.now.ns = 0;
		t->ctx.time_ns = 0;
	}
}

/* Takes the maker that is best, or any, or a new one. */
static int take_maker(struct flow_part *p, const struct aux_flow *ev, size_t n)
{
	struct part_pool *pool = p->tree->pool;
	uint64_t owner = owner_of(ev, n);
	struct maker **at, *m;

	pthread_mutex_lock(&pool->lock);
	for (at = &pool->idle; *at && (*at)->epochs != owner; at = &(*at)->next)
		;
	if (!*at)
		at = &pool->idle;
	m = *at;
	if (m)
		*at = m->next;
	pthread_mutex_unlock(&pool->lock);
	if (!m)
		m = new_maker(p->tree);
	if (!m)
		return -AUX_E_NOMEM;
	forget_times(m);
	m->part = p;
	m->calls->stretch.mark = p->serial;
	m->thread = NULL;
	m->ready = m->runs = false;
	p->maker = m;
	return 0;
}

/* ---- a stretch, in a worker ---- */

/* Appends to met or left. */
static void note(struct flow_part *p, struct met **v, size_t *n, size_t *cap,
		 const struct call_func *func, uint64_t to)
{
	struct maker *m = p->maker;

	if (array_grow(v, *n, cap, sizeof(**v)) < 0) {
		p->error = -AUX_E_NOMEM;
		return;
	}
	(*v)[(*n)++] = (struct met){ func_of(func), m->calls->space, to };
}

/* The first of the part out of that function. */
static void on_left(void *priv, struct func *func, uint64_t from)
{
	struct maker *m = priv;
	struct flow_part *p = m->part;

	note(p, &p->left, &p->n_left, &p->cap_left, &func->pub, from);
}

/* The same address comes often. */
static void on_jumped(void *priv, struct func *func, uint64_t to)
{
	struct maker *m = priv;
	struct flow_part *p = m->part;
	uint64_t *slot = &m->jumped[(to ^ to >> 6) % (sizeof(m->jumped) / sizeof(*m->jumped))];

	if (*slot == to)
		return;
	*slot = to;
	note(p, &p->jumps, &p->n_jumps, &p->cap_jumps, &func->pub, to);
}

static int on_enter(void *priv, struct call_thread *th)
{
	struct maker *m = priv;
	struct flow_part *p = m->part;
	const struct call_frame *f = &th->frames[th->depth - 1];
	struct func *func = func_of(f->func);
	void *mark = (void *)(uintptr_t)p->serial;

	if (func->pub.user != mark) {
		func->pub.user = mark;
		note(p, &p->met, &p->n_met, &p->cap_met, f->func, f->to);
	}
	if (th->depth > m->stretch.depth)
		m->stretch.depth = th->depth;
	return calltree_enter(&p->sums, &m->ct, th);
}

static int on_leave(void *priv, struct call_thread *th, enum call_end end, unsigned flags)
{
	struct maker *m = priv;

	(void)flags;
	return calltree_leave(&m->part->sums, &m->ct, th, end);
}

/* Up to the first tick of a stretch the cycles are shared with what ran before it. */
static int on_tick(void *priv, struct call_thread *th)
{
	struct maker *m = priv;
	struct flow_part *p = m->part;
	struct calltree_slices *s = &m->ct.slices;
	int err;

	if (!p->tree->ticks)
		return 0;
	if (m->stretch.ticked)
		return calltree_tick(&p->sums, &m->ct, th);
	err = calltree_add_up(&p->sums, &m->ct, th);
	if (err || array_grow(&p->slices, p->n_slices + s->n, &p->cap_slices,
			      sizeof(*p->slices)) < 0)
		return -AUX_E_NOMEM;
	m->stretch.ticked = true;
	m->stretch.n_head = s->n;
	m->stretch.head_cycles = s->cycles;
	memcpy(p->slices + p->n_slices, s->v, s->n * sizeof(*s->v));
	p->n_slices += s->n;
	s->n = 0;
	s->cycles = s->insns = 0;
	return 0;
}

/* The frame in which a stretch begins, whatever it is. */
static int push_base(struct maker *m, uint32_t root)
{
	static struct func unknown;
	struct thread *t = m->thread;

	t->pub.depth = 0;
	return calls_stack_add(t, &(struct call_frame){ .func = &unknown.pub, .at = t->pub.now,
							.user = (void *)(uintptr_t)root });
}

/* A stretch begins. The first after a group decides what that means for the next events. */
static void count_stretch(struct maker *m)
{
	if (m->n_in_group++ < GROUP)
		return;
	if (m->n_group_events >= GROUP * FEW_EVENTS || m->part->tree->keeps_short) {
		m->next_leave = FIRST_LEFT;
	} else {
		m->to_leave = m->next_leave;
		m->next_leave = m->to_leave < MOST_LEFT ? 2 * m->to_leave : m->to_leave;
	}
	m->n_in_group = 0;
	m->n_group_events = 0;
}

static int begin_stretch(struct flow_part *p, uint32_t stint)
{
	struct maker *m = p->maker;
	struct thread *t = m->thread;
	uint32_t root = calltree_add_root(&p->sums);

	count_stretch(m);
	m->ready = false;
	if (!root)
		return -AUX_E_NOMEM;
	t->pub.now = (struct call_count){ .ns = t->pub.now.ns };
	t->stub.kind = 0;
	m->ct = (struct calltree_thread){ .root = root, .current = root, .seen = true,
					  .begun = true, .last = t->pub.now };
	m->ct.slices.on = p->tree->ticks;
	m->item = (struct item){ .ctx = t->ctx, .stint = stint, .from = p->pack.n,
				 .last = p->pack.last };
	m->stretch = (struct stretch){ .from = t->pend, .from_ns = t->pub.now.ns,
				       .root = root,
				       .slice = (uint32_t)p->n_slices,
				       .jump = (uint32_t)p->n_jumps };
	memset(m->jumped, 0, sizeof(m->jumped));
	m->runs = true;
	return push_base(m, root);
}

static int add_item(struct flow_part *p, const struct item *item)
{
	if (array_grow(&p->items, p->n_items, &p->cap_items, sizeof(*p->items)) < 0)
		return -AUX_E_NOMEM;
	p->items[p->n_items] = *item;
	p->items[p->n_items].to = p->pack.n;
	p->items[p->n_items++].n_met = (uint32_t)p->n_met;
	return 0;
}

/* What of a stretch is kept in lists of the part. */
static int keep_lists(struct flow_part *p, struct stretch *s)
{
	struct maker *m = p->maker;
	const struct call_thread *th = &m->thread->pub;
	const struct calltree_slices *tail = &m->ct.slices;

	s->frame = (uint32_t)p->n_frames;
	s->n_frames = th->depth - 1;
	s->n_tail = tail->n;
	s->tail_cycles = tail->cycles;
	if (array_grow(&p->frames, p->n_frames + s->n_frames, &p->cap_frames,
		       sizeof(*p->frames)) < 0 ||
	    array_grow(&p->slices, p->n_slices + tail->n, &p->cap_slices,
		       sizeof(*p->slices)) < 0 ||
	    array_grow(&p->stretches, p->n_stretches, &p->cap_stretches,
		       sizeof(*p->stretches)) < 0)
		return -AUX_E_NOMEM;
	memcpy(p->frames + p->n_frames, th->frames + 1, s->n_frames * sizeof(*p->frames));
	p->n_frames += s->n_frames;
	memcpy(p->slices + p->n_slices, tail->v, tail->n * sizeof(*p->slices));
	p->n_slices += tail->n;
	return 0;
}

/* Ends the stretch, if there is one, where the thread is. */
static int end_stretch(struct flow_part *p)
{
	struct maker *m = p->maker;
	struct stretch *s = &m->stretch;
	struct thread *t = m->thread;

	if (!m->runs)
		return 0;
	m->runs = false;
	if (p->pack.n == m->item.from)
		return 0;	/* it stopped where it began */
	if (calltree_add_up(&p->sums, &m->ct, &t->pub) || keep_lists(p, s))
		return -AUX_E_NOMEM;
	s->to = t->pend;
	s->now = t->pub.now;
	s->children = t->pub.frames[0].children;
	s->end = t->ctx;
	s->end_node = p->sums.n;
	s->n_jumps = (uint32_t)p->n_jumps - s->jump;
	s->stub_kind = t->stub.kind;
	s->stub_from = t->stub.from;
	s->stub_back = t->stub.back;
	m->item.stretch = (uint32_t)p->n_stretches;
	p->stretches[p->n_stretches++] = *s;
	return add_item(p, &m->item);
}

/* ---- events ---- */

/* Events that are left as they are, behind others of their thread and stint. */
static int keep_events(struct flow_part *p, uint32_t stint, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n)
{
	struct item *last = p->n_items ? &p->items[p->n_items - 1] : NULL;
	struct item item = { .ctx = *ctx, .stint = stint, .stretch = UINT32_MAX,
			     .from = p->pack.n, .last = p->pack.last };

	if (!n)
		return 0;
	if (pack_events(&p->pack, ev, n))
		return -AUX_E_NOMEM;
	if (!last || last->stretch != UINT32_MAX || p->n_items == p->n_joined ||
	    !p->maker->goes_on) {
		p->maker->goes_on = true;
		return add_item(p, &item);
	}
	last->to = p->pack.n;
	return 0;
}

/* The end of the ranges of an event, of code; false: it has none. */
static bool find_end(struct calls *c, const struct aux_flow *ev, struct pend *end)
{
	struct path_ranges ranges = { .path = ev };
	struct aux_flow range;
	bool found = ev->kind == AUX_FLOW_RANGE;

	if (found) {
		*end = calls_code_end(&c->code, c->space, ev);
		return true;
	}
	while (path_next_range(&ranges, &range))
		found = true;
	if (found)
		*end = calls_code_end(&c->code, c->space, &range);
	return found;
}

/* Code that is left as it is. The next stretch may begin after it, unless a stub runs: how
 * that was entered is not known. */
static void pass_code(struct maker *m, const struct aux_flow *ev)
{
	struct calls *c = m->calls;
	const struct func *func;
	struct pend end;

	m->ready = false;
	if (!find_end(c, ev, &end))
		return;
	set_pend(m->thread, end);
	func = calls_func_at(c->funcs, c->space, end.from);
	m->ready = func && !(func->roles & FUNC_STUB) &&
		   m->part->sums.n < MAX_NODES;
}

/* Whether an event means nothing to a tree: all but code, and what interrupts it. */
static bool is_quiet(const struct aux_flow *ev)
{
	switch (ev->kind) {
	case AUX_FLOW_RANGE:
	case AUX_FLOW_PATH:
	case AUX_FLOW_ASYNC:
	case AUX_FLOW_TRACE_ON:
	case AUX_FLOW_TRACE_OFF:
	case AUX_FLOW_GAP:
		return false;
	}
	return true;
}

/* Events up to where a stretch may begin. */
static int pass_events(struct flow_part *p, uint32_t stint, const struct aux_flow **ev,
		       size_t *n)
{
	struct maker *m = p->maker;
	struct flow_ctx ctx = m->thread->ctx;
	size_t i;
	int rc;

	for (i = 0; i < *n; i++) {
		const struct aux_flow *e = *ev + i;

		if (e->kind == AUX_FLOW_TIME)
			calls_pass_time(m->calls, m->thread, e);
		else if (is_quiet(e))
			continue;
		else if (e->kind != AUX_FLOW_PATH && e->kind != AUX_FLOW_RANGE)
			m->ready = false;
		else if (m->ready)
			break;
		else
			pass_code(m, e);
	}
	rc = keep_events(p, stint, &ctx, *ev, i);
	*ev += i;
	*n -= i;
	return rc ? rc : *n ? begin_stretch(p, stint) : 0;
}

/* The first ranges of an event of code are the stretch's, the others are left as they
 * are. */
static int split_event(struct flow_part *p, uint32_t stint, const struct aux_flow *ev,
		       const struct stretch_stop *stop)
{
	struct path_ranges ranges = { .path = ev };
	struct maker *m = p->maker;
	struct flow_ctx ctx = m->thread->ctx;
	struct aux_flow range;
	int rc = 0;

	for (uint32_t i = 0; i < stop->n_ranges && !rc && path_next_range(&ranges, &range); i++)
		rc = pack_events(&p->pack, &range, 1);
	set_pend(m->thread, stop->pend);
	if (!rc)
		rc = end_stretch(p);
	if (!rc && !stop->n_ranges)
		rc = keep_events(p, stint, &ctx, ev, 1);
	while (!rc && stop->n_ranges && path_next_range(&ranges, &range))
		rc = keep_events(p, stint, &ctx, &range, 1);
	pass_code(m, ev);
	return rc;
}

/* Events of a stretch, up to where it stops. */
static int run_events(struct flow_part *p, uint32_t stint, const struct aux_flow **ev,
		      size_t *n)
{
	struct maker *m = p->maker;
	struct stretch_stop stop;
	int rc;
	size_t most = *n < BATCH ? *n : BATCH;
	size_t done = calls_run_stretch(m->calls, m->thread, *ev, most, &rc, &stop);
	int err = done ? pack_events(&p->pack, *ev, done) : 0;

	m->n_group_events += done;
	*ev += done;
	*n -= done;
	if (rc < 0 || err)
		return rc < 0 ? rc : err;
	if (rc == CALLS_STOP) {
		err = split_event(p, stint, (*ev)++, &stop);
		(*n)--;
	} else if (p->sums.n >= MAX_NODES) {
		err = end_stretch(p);
		m->ready = false;
	} else if (done == most) {
		return 0;
	} else if (is_quiet(*ev)) {
		err = pack_events(&p->pack, (*ev)++, 1);
		(*n)--;
	} else {
		err = end_stretch(p);
		m->ready = false;
	}
	return err;
}

/* Events of which no stretch is made. */
static int leave_events(struct flow_part *p, uint32_t stint, const struct flow_ctx *ctx,
			const struct aux_flow *ev, size_t n)
{
	struct maker *m = p->maker;

	m->to_leave -= n < m->to_leave ? n : m->to_leave;
	m->ready = false;
	return keep_events(p, stint, ctx, ev, n);
}

static bool is_same(const struct flow_ctx *a, const struct flow_ctx *b)
{
	return a->space == b->space && a->stream == b->stream && a->pid == b->pid &&
	       a->tid == b->tid && a->cpu == b->cpu;
}

int flowpart_flow(void *part, uint32_t stint, const struct flow_ctx *ctx,
		  const struct aux_flow *ev, size_t n)
{
	struct flow_part *p = part;
	struct maker *m;
	int rc = p->maker ? 0 : take_maker(p, ev, n);

	m = p->maker;
	if (!rc && (!m->thread || !is_same(&m->ctx, ctx) || m->stint != stint)) {
		rc = end_stretch(p);
		m->ready = m->goes_on = false;
	}
	if (rc)
		return rc;
	m->stint = stint;
	m->ctx = *ctx;
	if (m->to_leave && !m->runs)
		return leave_events(p, stint, ctx, ev, n);
	m->thread = calls_find_thread(m->calls, ctx);
	if (!m->thread)
		return -AUX_E_NOMEM;
	while (n && !rc)
		rc = m->runs ? run_events(p, stint, &ev, &n) :
			       pass_events(p, stint, &ev, &n);
	return rc ? rc : p->error ? p->error : m->calls->failed;
}

int flowpart_end(void *part)
{
	struct flow_part *p = part;
	struct maker *m = p->maker;
	struct part_pool *pool = p->tree->pool;
	int rc;

	if (!m)
		return 0;
	rc = end_stretch(p);
	p->maker = NULL;
	pthread_mutex_lock(&pool->lock);
	m->next = pool->idle;
	pool->idle = m;
	pthread_mutex_unlock(&pool->lock);
	return rc;
}

/* ---- parts ---- */

void flowpart_empty(struct flow_part *p)
{
	static _Atomic uint32_t n_serials;

	calltree_empty(&p->sums);
	p->n_items = p->n_joined = p->n_stretches = p->n_frames = p->n_slices = 0;
	p->n_met = p->n_mapped = p->n_left = p->n_jumps = 0;
	p->pack.n = 0;
	p->pack.last = (struct pack_last){ 0 };
	p->error = 0;
	p->loaded = false;
	if (p->funcs.ids)
		memset(p->funcs.ids, 0, p->funcs.n * sizeof(*p->funcs.ids));
	do
		p->serial = atomic_fetch_add(&n_serials, 1);
	while (!p->serial);
}

static struct flow_part *new_part(void)
{
	struct calltree_config config = { .per = CALLTREE_PER_ALL, .no_inner = true };
	struct flow_part *p = calloc(1, sizeof(*p));

	if (p && !calltree_init(&p->sums, &config))
		return p;
	free(p);
	return NULL;
}

static void free_part(struct flow_part *p)
{
	calltree_fini(&p->sums);
	free(p->pack.words);
	free(p->items);
	free(p->stretches);
	free(p->frames);
	free(p->slices);
	free(p->met);
	free(p->left);
	free(p->jumps);
	free(p->nodes);
	free(p->stand_ins);
	free(p->funcs.ids);
	free(p);
}

/* Memory that was used before is the cheapest there is. */
int flowpart_new(void **part, const struct flowtree *t)
{
	struct part_pool *pool = t->pool;
	struct flow_part *p;

	pthread_mutex_lock(&pool->lock);
	p = pool->parts;
	if (p)
		pool->parts = p->next;
	pthread_mutex_unlock(&pool->lock);
	if (!p)
		p = new_part();
	*part = p;
	if (!p)
		return -AUX_E_NOMEM;
	p->tree = t;
	flowpart_empty(p);
	return 0;
}

void flowpart_free(void *part)
{
	struct flow_part *p = part;
	struct part_pool *pool;

	if (!p)
		return;
	pool = p->tree->pool;
	if (p->maker)
		flowpart_end(p);
	pthread_mutex_lock(&pool->lock);
	p->next = pool->parts;
	pool->parts = p;
	pthread_mutex_unlock(&pool->lock);
}

size_t flowpart_bytes(const void *part)
{
	const struct flow_part *p = part;

	return p->pack.n * sizeof(*p->pack.words) + p->n_items * sizeof(*p->items) +
	       p->n_stretches * sizeof(*p->stretches) +
	       p->sums.max * sizeof(*p->sums.nodes);
}

/* ---- joining, in the session's thread ---- */

/* The function that a worker met, among the tree's own. */
static struct func *find_func(struct calls *c, const struct met *met)
{
	const struct call_func *f = &met->func->pub;
	bool begin;

	return calls_func_to(c->funcs, met->space, met->to, !f->name && f->start, &begin);
}

static int grow_map(struct func_map *map, uint32_t id)
{
	size_t n = map->n ? 2 * map->n : 256;
	uint32_t *ids;

	while (n <= id)
		n *= 2;
	ids = reallocarray(map->ids, n, sizeof(*ids));
	if (!ids)
		return -AUX_E_NOMEM;
	memset(ids + map->n, 0, (n - map->n) * sizeof(*ids));
	map->ids = ids;
	map->n = n;
	return 0;
}

/* Makers have ids of their own, a part that was loaded those of its functions alone. */
static struct func_map *map_of(struct flow_part *p)
{
	return p->loaded ? &p->funcs : &p->tree->pool->funcs;
}

/* Both tables tell functions apart by the same: what is found once stays. */
static int map_funcs(struct flowtree *t, struct flow_part *p, uint32_t n_met)
{
	struct func_map *map = map_of(p);

	for (; p->n_mapped < n_met; p->n_mapped++) {
		const struct met *met = &p->met[p->n_mapped];
		uint32_t id = met->func->pub.id;
		const struct func *func;

		if (id >= map->n && grow_map(map, id))
			return -AUX_E_NOMEM;
		if (map->ids[id])
			continue;
		func = find_func(t->calls, met);
		if (!func)
			return -AUX_E_NOMEM;
		map->ids[id] = func->pub.id + 1;
	}
	return 0;
}

/* Whether a function that was seen to switch stacks since is among those that the part
 * takes for one that returns. */
static bool has_switch(struct calls *c, struct flow_part *p)
{
	const struct func *func;

	if (!c->n_switches)
		return false;
	for (size_t i = 0; i < p->n_left; i++) {
		func = calls_func_at(c->funcs, p->left[i].space, p->left[i].to);
		if (!func || func->roles & FUNC_SWITCH)
			return true;
	}
	return false;
}

/* Whether a jump of the stretch leads to where something that was not known goes on. */
static bool goes_back(struct calls *c, struct flow_part *p, const struct stretch *s,
		      const struct thread *th)
{
	const struct met *jump = p->jumps + s->jump;

	for (uint32_t i = 0; i < s->n_jumps; i++)
		if (!calls_resolve_is_new(c, th, find_func(c, &jump[i]), jump[i].to))
			return true;
	return false;
}

/* Whether the thread is where the stretch begins, and in no state in which its events
 * would mean something else. Time that it had in another stream already, where times are
 * wrong, does not pass again. */
static bool fits(struct flowtree *t, struct flow_part *p, const struct stretch *s,
		 const struct thread *th)
{
	const struct flowtree_thread *ft = th->pub.user;
	const struct pend *at = &th->pend;

	return ft && ft->ct.begun && !ft->ct.away && th->pub.depth && !th->wait &&
	       !th->off && !th->lost && !th->aside && !th->unseen && !th->stub.kind &&
	       at->what == s->from.what && at->from == s->from.from && at->next == s->from.next &&
	       th->pub.now.ns <= s->from_ns &&
	       th->pub.depth + s->depth < CALLS_MAX_DEPTH && !has_switch(t->calls, p) &&
	       !goes_back(t->calls, p, s, th);
}

/* Counts of a stretch that begins at base. */
static struct call_count count_from(struct call_count base, struct call_count more)
{
	struct call_count now = call_plus(base, more);

	now.ns = more.ns;
	return now;
}

/* The thread is where the stretch ends. */
static int move_on(struct calls *c, struct flow_part *p, const struct stretch *s,
		   struct thread *th)
{
	const uint32_t *ids = map_of(p)->ids;
	struct call_count base = th->pub.now;
	struct call_frame *top = stack_top(th);
	int rc = 0;

	top->children = call_plus(top->children, s->children);
	for (uint32_t i = 0; i < s->n_frames && !rc; i++) {
		struct call_frame f = p->frames[s->frame + i];
		uint32_t node = (uint32_t)(uintptr_t)f.user;

		f.func = &calls_func_get(c->funcs, ids[f.func->id] - 1)->pub;
		f.at = count_from(base, f.at);
		f.serial = ++c->n_frames;
		f.user = (void *)(uintptr_t)p->nodes[node - s->root];
		rc = calls_stack_add(th, &f);
	}
	th->pub.now = count_from(base, s->now);
	c->n_insns += s->now.insns;
	th->ctx.time_ns = s->end.time_ns;
	th->ctx.tsc = s->end.tsc;
	set_pend(th, s->to);
	th->stub.kind = s->stub_kind;
	th->stub.from = s->stub_from;
	th->stub.back = s->stub_back;
	return rc;
}

/* 1: its events are to be taken. */
static int join_stretch(struct flowtree *t, struct flow_part *p, const struct item *item)
{
	const struct stretch *s = &p->stretches[item->stretch];
	struct thread *th = calls_find_thread(t->calls, &item->ctx);
	size_t n = s->end_node - s->root;
	struct flowtree_thread *ft;
	struct calltree_graft graft;
	int rc;

	if (!th)
		return -AUX_E_NOMEM;
	if (!fits(t, p, s, th))
		return 1;
	ft = th->pub.user;
	if (map_funcs(t, p, item->n_met) ||
	    array_grow(&p->nodes, n, &p->max_nodes, sizeof(*p->nodes)) < 0)
		return -AUX_E_NOMEM;
	graft = (struct calltree_graft){
		.from = &p->sums, .root = s->root, .end = s->end_node,
		.funcs = map_of(p)->ids, .nodes = p->nodes, .ticked = s->ticked,
		.head = { p->slices + s->slice, s->n_head, s->head_cycles },
		.tail = { p->slices + s->slice + s->n_head, s->n_tail, s->tail_cycles },
	};
	rc = calltree_add_graft(&t->tree, &ft->ct, &th->pub, &graft);
	if (!rc)
		rc = move_on(t->calls, p, s, th);
	calltree_resume(&ft->ct, &th->pub);
	return rc;
}

/* Gives the events of an item to the tree. */
static int join_events(struct flowtree *t, struct flow_part *p, const struct item *item)
{
	struct unpack u = { .at = p->pack.words + item->from,
			    .end = p->pack.words + item->to, .last = item->last };
	struct flow_ctx ctx = item->ctx;
	struct aux_flow ev[BATCH];
	uint64_t n_insns;
	size_t n, n_plain;
	int rc = 0;

	while (!rc && (n = unpack_events(&u, ev, BATCH, &n_plain, &n_insns))) {
		rc = flowtree_flow(t, &ctx, ev, n);
		for (size_t i = n; i; i--) {
			if (ev[i - 1].kind != AUX_FLOW_TIME)
				continue;
			ctx.time_ns = ev[i - 1].time.ns;
			ctx.tsc = ev[i - 1].flags & AUX_FLOW_HAS_TSC ? ev[i - 1].time.tsc : 0;
			break;
		}
	}
	return rc;
}

int flowpart_join(struct flowtree *t, void *part, uint32_t stint)
{
	struct flow_part *p = part;
	int rc = 0;

	t->calls->code.shares_words = true;
	for (; p->n_joined < p->n_items && !rc; p->n_joined++) {
		const struct item *item = &p->items[p->n_joined];

		if (item->stint > stint)
			return 0;
		rc = item->stretch == UINT32_MAX ? 1 : join_stretch(t, p, item);
		if (rc > 0 && p->loaded && item->stretch != UINT32_MAX)
			return -AUX_E_UNSUPPORTED;	/* its events were not kept */
		if (rc > 0)
			rc = join_events(t, p, item);
	}
	if (!rc)
		flowpart_empty(p);
	return rc;
}
