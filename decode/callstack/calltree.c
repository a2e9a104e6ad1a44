/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calltree: see calltree.h. Invariants: what a thread has counted up to `last`
 * is in the own counts of exactly one node each, and a parent has a smaller
 * index than its children (so sums are one pass from the end).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/callstack/calltree.h"

#define MAX_NODES (2u << 20)
#define MAX_DEPTH 1024
#define MIN_SLOTS 1024

int calltree_init(struct calltree *t, const struct calltree_config *config)
{
	*t = (struct calltree){ .config = *config };
	if (!t->config.max_nodes || t->config.max_nodes > MAX_NODES)
		t->config.max_nodes = MAX_NODES;
	if (!t->config.max_depth)
		t->config.max_depth = MAX_DEPTH;
	t->max = 256;
	t->n_slots = MIN_SLOTS;
	t->nodes = calloc(t->max, sizeof(*t->nodes));
	t->slots = calloc(t->n_slots, sizeof(*t->slots));
	if (!t->nodes || !t->slots) {
		calltree_fini(t);
		return -AUX_E_NOMEM;
	}
	t->nodes[0] = (struct calltree_node){ .func = CALLTREE_ROOT };
	t->n = 1;
	return 0;
}

void calltree_empty(struct calltree *t)
{
	t->nodes[0] = (struct calltree_node){ .func = CALLTREE_ROOT };
	t->n = 1;
	memset(t->slots, 0, t->n_slots * sizeof(*t->slots));
	if (t->folded)
		memset(t->folded, 0, t->n_folded * sizeof(*t->folded));
	t->n_folded_calls = 0;
}

void calltree_fini(struct calltree *t)
{
	free(t->nodes);
	free(t->slots);
	free(t->folded);
	*t = (struct calltree){ .n = 0 };
}

static inline uint64_t hash_of(uint32_t parent, uint32_t func)
{
	uint64_t h = ((uint64_t)parent << 32 | func) *
		     UINT64_C(0x9e3779b97f4a7c15);

	return h ^ h >> 32;
}

/* A slot has the upper half of the hash, so that nodes of other keys, each in a
 * cache line of its own, need not be looked at. */
static inline uint64_t make_slot(uint64_t hash, uint32_t i)
{
	return (hash >> 32) << 32 | i;
}

/* Roots are not in the table: one parent may have several. */
static int grow_slots(struct calltree *t)
{
	uint32_t n = t->n_slots * 2, at;
	uint64_t *slots = calloc(n, sizeof(*slots)), h;

	if (!slots)
		return -AUX_E_NOMEM;
	for (uint32_t i = 1; i < t->n; i++) {
		const struct calltree_node *node = &t->nodes[i];

		if (node->func == CALLTREE_ROOT)
			continue;
		h = hash_of(node->parent, node->func);
		at = (uint32_t)h & (n - 1);
		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = make_slot(h, i);
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n;
	return 0;
}

/* Whether a function is among a node's ancestors, or is the node. */
static bool has_above(const struct calltree *t, uint32_t node, uint32_t func)
{
	for (; node; node = t->nodes[node].parent)
		if (t->nodes[node].func == func)
			return true;
	return false;
}

/* 0: out of memory. */
static uint32_t add_node(struct calltree *t, uint32_t parent, uint32_t func)
{
	struct calltree_node *nodes = t->nodes;

	if (t->n == t->max) {
		nodes = reallocarray(nodes, t->max * 2, sizeof(*nodes));
		if (!nodes)
			return 0;
		t->nodes = nodes;
		t->max *= 2;
	}
	nodes[t->n] = (struct calltree_node){
		.parent = parent,
		.func = func,
		.next = nodes[parent].child,
		.depth = nodes[parent].depth + 1,
		.is_kernel = nodes[parent].is_kernel,
		.is_inner = !t->config.no_inner && has_above(t, parent, func),
	};
	nodes[parent].child = t->n;
	return t->n++;
}

/* The child to use instead of func where there is no room: at max_depth, or
 * with max_nodes. */
static uint32_t fold(const struct calltree *t, uint32_t parent, uint32_t func)
{
	if (t->nodes[parent].depth < t->config.max_depth &&
	    t->n < t->config.max_nodes)
		return func;
	return func < CALLTREE_FOLDED ? CALLTREE_FOLDED : func;
}

/*
 * The child of a node by function, made if it is new. The child of a folded
 * node is the node itself. Each node has at most four children that are no
 * functions, so folding bounds those, too. 0: out of memory.
 */
static uint32_t find_any_child(struct calltree *t, uint32_t parent,
			       uint32_t func)
{
	uint32_t at, i, wanted = func;
	uint64_t h, slot;

	if (t->nodes[parent].func == CALLTREE_FOLDED && func <= CALLTREE_FOLDED)
		return parent;
again:
	h = hash_of(parent, func);
	at = (uint32_t)h & (t->n_slots - 1);
	while ((slot = t->slots[at])) {
		i = (uint32_t)slot;
		if (slot == make_slot(h, i) && t->nodes[i].parent == parent &&
		    t->nodes[i].func == func)
			return i;
		at = (at + 1) & (t->n_slots - 1);
	}
	func = fold(t, parent, func);
	if (func != wanted) {
		wanted = func;
		goto again;
	}
	if (t->n >= t->n_slots / 2) {
		if (grow_slots(t))
			return 0;
		goto again;
	}
	i = add_node(t, parent, func);
	t->slots[at] = i ? make_slot(h, i) : 0;
	return i;
}

/* The same, with a cache of the last answer: loops call the same function
 * again. */
static inline uint32_t find_child(struct calltree *t, uint32_t parent,
				  uint32_t func)
{
	struct calltree_node *node = &t->nodes[parent];
	uint32_t i;

	if (node->recent && node->recent_func == func)
		return node->recent;
	i = find_any_child(t, parent, func);
	node = &t->nodes[parent];
	node->recent = i;
	node->recent_func = func;
	return i;
}

static int grow_folded(struct calltree *t, uint32_t func)
{
	uint32_t n = t->n_folded ? t->n_folded : 64;
	struct calltree_func *v;

	while (n <= func)
		n *= 2;
	v = reallocarray(t->folded, n, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	memset(v + t->n_folded, 0, (n - t->n_folded) * sizeof(*v));
	t->folded = v;
	t->n_folded = n;
	return 0;
}

/* A function's share in what is folded. NULL: out of memory. */
static struct calltree_func *folded_of(struct calltree *t, uint32_t func)
{
	if (func >= t->n_folded && grow_folded(t, func))
		return NULL;
	return &t->folded[func];
}

static int charge_folded(struct calltree *t, uint32_t func,
			 struct call_count more)
{
	struct calltree_func *f = folded_of(t, func);

	if (!f)
		return -AUX_E_NOMEM;
	f->own = call_plus(f->own, more);
	return 0;
}

/* Gives more to the child of the current node that is no function. */
static int charge_other(struct calltree *t, struct calltree_thread *ct,
			uint32_t func, struct call_count more)
{
	uint32_t node;

	if (!more.ns && !more.cycles)
		return 0;
	node = find_child(t, ct->current, func);
	if (!node)
		return -AUX_E_NOMEM;
	t->nodes[node].own = call_plus(t->nodes[node].own, more);
	t->nodes[node].calls++;
	return 0;
}

/* What is nobody's self time, and cycles that passed while nothing was traced,
 * go to nodes of their own; *more keeps the rest. */
static int charge_others(struct calltree *t, struct calltree_thread *ct,
			 struct call_count *more)
{
	struct call_count off = { .ns = more->off_ns, .off_ns = more->off_ns,
				  .blocked_ns = more->blocked_ns,
				  .preempted_ns = more->preempted_ns };
	struct call_count none[UNTRACED_N] = {
		{ .ns = call_other_ns(more), .untraced_ns = call_other_ns(more) },
		{ .ns = more->kernel_ns, .untraced_ns = more->kernel_ns,
		  .kernel_ns = more->kernel_ns },
		{ .ns = more->filtered_ns, .untraced_ns = more->filtered_ns,
		  .filtered_ns = more->filtered_ns },
	};
	struct call_count lost = { .ns = more->lost_ns,
				   .lost_ns = more->lost_ns };
	int err;

	if (!ct->away && !(off.ns | more->untraced_ns | lost.ns))
		return 0;
	for (unsigned i = 0; i < UNTRACED_N; i++)
		if (ct->away && ct->away == calltree_untraced(i))
			none[i].cycles = more->cycles;
	if (ct->away == CALLTREE_GAP)
		lost.cycles = more->cycles;
	if (ct->away)
		more->cycles = 0;
	more->ns = call_self_ns(more);
	call_all_self(more);
	err = charge_other(t, ct, CALLTREE_OFF_CPU, off);
	for (unsigned i = 0; i < UNTRACED_N && !err; i++)
		err = charge_other(t, ct, calltree_untraced(i), none[i]);
	return err ? err : charge_other(t, ct, CALLTREE_GAP, lost);
}

/* The root of a thread or process, by id and name: an exec begins another root.
 * 0: out of memory. */
static uint32_t find_root(struct calltree *t, const struct call_thread *th)
{
	bool by_pid = t->config.per == CALLTREE_PER_PROCESS;
	uint32_t id = by_pid ? th->pid : th->tid, i;
	uint32_t stream = id == UINT32_MAX ? th->stream : 0;
	const struct sink_host *host = t->config.host;
	const char *comm = NULL;

	if (host && host->comm && th->tid != UINT32_MAX)
		comm = host->comm(host->priv, id, th->ctx ? th->ctx->time_ns
							  : UINT64_MAX);
	for (i = t->nodes[0].child; i; i = t->nodes[i].next) {
		const struct calltree_node *n = &t->nodes[i];

		if (n->func == CALLTREE_ROOT && n->id == id &&
		    n->stream == stream &&
		    (n->comm == comm ||
		     (n->comm && comm && !strcmp(n->comm, comm))))
			return i;
	}
	i = add_node(t, 0, CALLTREE_ROOT);
	if (!i)
		return 0;
	t->nodes[i].id = id;
	t->nodes[i].stream = stream;
	t->nodes[i].comm = comm;
	return i;
}

/* The first event of a thread: what it counted before is not the tree's. */
static int begin(struct calltree *t, struct calltree_thread *ct,
		 const struct call_thread *th)
{
	if (!ct->seen) {
		struct call_count last = ct->last;

		ct->last = th->now;
		ct->last.insns = last.insns;
		ct->last.branches = last.branches;
		ct->last.cycles = last.cycles;
		ct->seen = true;
	}
	ct->begun = true;
	if (ct->root || t->config.per == CALLTREE_PER_ALL)
		return 0;
	ct->root = find_root(t, th);
	if (!ct->current)
		ct->current = ct->root;
	ct->begun = ct->root;
	return ct->root ? 0 : -AUX_E_NOMEM;
}

/* Adds to a node; in a folded node also to the function's own account. */
static int charge(struct calltree *t, uint32_t node, uint32_t func,
		  struct call_count more)
{
	t->nodes[node].own = call_plus(t->nodes[node].own, more);
	return t->nodes[node].func == CALLTREE_FOLDED ?
		       charge_folded(t, func, more) : 0;
}

/* Cycles are known only at the end of an interval (a TIME), when several
 * functions have run: their instructions are noted until the tick. */
static void add_slice(struct calltree_thread *ct, uint64_t insns, uint64_t cycles)
{
	struct calltree_slices *s = &ct->slices;
	struct calltree_slice *v = s->n ? &s->v[s->n - 1] : NULL;

	s->cycles += cycles;
	if (!insns)
		return;
	if ((!v || v->node != ct->current || v->func != ct->func) &&
	    s->n < CALLTREE_SLICES) {
		v = &s->v[s->n++];
		*v = (struct calltree_slice){ ct->current, ct->func, 0 };
	}
	v->insns += insns;
	s->insns += insns;
}

/* The same of cycles alone, which is what most ticks bring. */
static inline int charge_cycles(struct calltree *t, uint32_t node, uint32_t func,
				uint64_t cycles)
{
	if (t->nodes[node].func == CALLTREE_FOLDED)
		return charge(t, node, func, (struct call_count){ .cycles = cycles });
	t->nodes[node].own.cycles += cycles;
	return 0;
}

/* n * part / all, for part <= all (else n: nothing is divided by 0): one function has run in
 * most intervals, and the product of two small numbers needs no long division. */
static inline uint64_t share(uint64_t n, uint64_t part, uint64_t all)
{
	if (part >= all)
		return n;
	if ((n | part) >> 32)
		return (uint64_t)((unsigned __int128)n * part / all);
	return n * part / all;
}

/*
 * Distributes the cycles of an interval by instructions; rounding errors go to
 * later slices, so nothing is lost. keep: cycles for which nothing ran wait for
 * the next interval.
 */
static int settle(struct calltree *t, struct calltree_thread *ct, bool keep)
{
	struct calltree_slices *s = &ct->slices;
	uint64_t left = s->cycles, insns = s->insns, n;
	int err = 0;

	if (!s->n && keep)
		return 0;
	if (!s->n && left)
		err = charge_cycles(t, ct->current, ct->func, left);
	for (uint32_t i = 0; i < s->n && !err && left; i++) {
		n = share(left, s->v[i].insns, insns);
		insns -= s->v[i].insns;
		left -= n;
		err = charge_cycles(t, s->v[i].node, s->v[i].func, n);
	}
	s->cycles = s->insns = 0;
	s->n = 0;
	return err;
}

/*
 * The commonest case of add_up, which copies none of the other counters: the thread ran
 * all the time since the last event, in a node that is not folded. False: it is not so.
 */
static inline bool add_self(struct calltree *t, struct calltree_thread *ct,
			    const struct call_count *now)
{
	struct call_count *own = &t->nodes[ct->current].own, *last = &ct->last;

	if (!ct->begun || ct->away || !last->ns ||
	    now->ns < last->ns || now->off_ns != last->off_ns ||
	    now->untraced_ns != last->untraced_ns ||
	    now->lost_ns != last->lost_ns ||
	    t->nodes[ct->current].func == CALLTREE_FOLDED)
		return false;
	own->ns += now->ns - last->ns;
	own->insns += now->insns - last->insns;
	own->branches += now->branches - last->branches;
	if (ct->slices.on)
		add_slice(ct, now->insns - last->insns,
			  now->cycles - last->cycles);
	else
		own->cycles += now->cycles - last->cycles;
	last->ns = now->ns;
	last->insns = now->insns;
	last->branches = now->branches;
	last->cycles = now->cycles;
	return true;
}

/* Charges what was counted since the last event to the node on top. */
static int add_up(struct calltree *t, struct calltree_thread *ct,
		  struct call_thread *th)
{
	struct call_count more;
	int err;

	if (add_self(t, ct, &th->now))
		return 0;
	err = begin(t, ct, th);
	if (err)
		return err;
	more = call_minus(th->now, ct->last);
	if (th->now.ns < ct->last.ns || !ct->last.ns) {
		/* time was not known, or went back */
		more.ns = 0;
		call_all_self(&more);
	}
	ct->last = th->now;
	err = charge_others(t, ct, &more);
	if (!err && !ct->away && ct->slices.on) {
		add_slice(ct, more.insns, more.cycles);
		more.cycles = 0;
	}
	return err ? err : charge(t, ct->current, ct->func, more);
}

int calltree_tick(struct calltree *t, struct calltree_thread *ct,
		  struct call_thread *th)
{
	int err = add_up(t, ct, th);

	ct->slices.on = true;
	return err ? err : settle(t, ct, true);
}

int calltree_flush(struct calltree *t, struct calltree_thread *ct,
		   struct call_thread *th)
{
	int err = add_up(t, ct, th);

	return err ? err : settle(t, ct, false);
}

/* The current node is that of the frame at depth. */
static void go_to(struct calltree_thread *ct, const struct call_thread *th,
		  uint32_t depth)
{
	ct->current = depth ? calltree_node_of(&th->frames[depth - 1])
			    : ct->root;
	ct->func = depth ? th->frames[depth - 1].func->id : 0;
}

static bool in_kernel(const struct call_frame *f)
{
	return f->kind == CALL_SYSCALL || f->kind == CALL_INTERRUPT ||
	       f->to >> 63;
}

static int count_folded(struct calltree *t, uint32_t func)
{
	struct calltree_func *f = folded_of(t, func);

	if (!f)
		return -AUX_E_NOMEM;
	f->calls++;
	t->n_folded_calls++;
	return 0;
}

int calltree_enter(struct calltree *t, struct calltree_thread *ct,
		   struct call_thread *th)
{
	struct call_frame *f = &th->frames[th->depth - 1];
	struct calltree_node *node;
	uint32_t i;
	int err = add_up(t, ct, th);

	if (err)
		return err;
	if (ct->away == CALLTREE_GAP)
		ct->away = 0;
	i = find_child(t,
		       th->depth > 1 ? calltree_node_of(f - 1) : ct->root,
		       f->func->id);
	if (!i)
		return -AUX_E_NOMEM;
	node = &t->nodes[i];
	if (!node->calls++) {
		node->kind = f->kind;
		node->is_kernel = in_kernel(f);
	}
	f->user = (void *)(((uintptr_t)f->user & ~(uintptr_t)UINT32_MAX) | i);
	ct->current = i;
	ct->func = f->func->id;
	return node->func == CALLTREE_FOLDED ? count_folded(t, ct->func) : 0;
}

int calltree_leave(struct calltree *t, struct calltree_thread *ct,
		   struct call_thread *th, enum call_end end)
{
	int err = add_up(t, ct, th);

	/* LOST frames end after the gap, before what runs then begins */
	if (ct->away == CALLTREE_GAP && end != CALL_END_LOST)
		ct->away = 0;
	go_to(ct, th, th->depth - 1);
	if (end == CALL_END_EXEC && th->depth == 1) {
		ct->root = 0; /* its name changes */
		ct->current = 0;
		ct->begun = false;
	}
	return err;
}

int calltree_turn(struct calltree *t, struct calltree_thread *ct,
		  struct call_thread *th)
{
	int err = add_up(t, ct, th);

	go_to(ct, th, th->depth);
	return err;
}

int calltree_gap(struct calltree *t, struct calltree_thread *ct,
		 struct call_thread *th)
{
	int err = calltree_flush(t, ct, th);

	ct->away = CALLTREE_GAP;
	return err;
}

int calltree_off(struct calltree *t, struct calltree_thread *ct,
		 struct call_thread *th, bool on)
{
	int err = calltree_flush(t, ct, th);

	ct->away = on ? 0 : calltree_untraced(th->why_off);
	return err;
}

int calltree_back(struct calltree *t, struct calltree_thread *ct,
		  struct call_thread *th)
{
	int err = add_up(t, ct, th);

	if (ct->away == CALLTREE_GAP)
		ct->away = 0;
	return err;
}

/* ---- parts that were added up elsewhere ---- */

uint32_t calltree_add_root(struct calltree *t)
{
	return add_node(t, 0, CALLTREE_ROOT);
}

int calltree_add_up(struct calltree *t, struct calltree_thread *ct,
		    struct call_thread *th)
{
	return add_up(t, ct, th);
}

void calltree_resume(struct calltree_thread *ct, const struct call_thread *th)
{
	ct->last = th->now;
	go_to(ct, th, th->depth);
}

/* A node of the part, below what its parent became. */
static int graft_node(struct calltree *t, const struct calltree_graft *g, uint32_t i)
{
	const struct calltree_node *from = &g->from->nodes[i];
	uint32_t func = g->funcs[from->func] - 1;
	uint32_t at = find_child(t, g->nodes[from->parent - g->root], func);
	struct calltree_node *node = &t->nodes[at];
	struct calltree_func *f;

	if (!at)
		return -AUX_E_NOMEM;
	g->nodes[i - g->root] = at;
	if (!node->calls) {
		node->kind = from->kind;
		node->is_kernel = from->is_kernel;
	}
	node->calls += from->calls;
	node->own = call_plus(node->own, from->own);
	if (node->func != CALLTREE_FOLDED)
		return 0;
	f = folded_of(t, func);
	if (!f)
		return -AUX_E_NOMEM;
	f->own = call_plus(f->own, from->own);
	f->calls += from->calls;
	t->n_folded_calls += from->calls;
	return 0;
}

/* What ran, as if it ran now: see add_slice. */
static void graft_slices(struct calltree_thread *ct, const struct calltree_graft *g,
			 const struct calltree_slice *v, uint32_t n, uint64_t cycles)
{
	uint32_t current = ct->current, func = ct->func;

	for (uint32_t i = 0; i < n; i++) {
		ct->current = g->nodes[v[i].node - g->root];
		ct->func = v[i].node == g->root ? func :
						  g->funcs[g->from->nodes[v[i].node].func] - 1;
		add_slice(ct, v[i].insns, 0);
	}
	ct->slices.cycles += cycles;
	ct->current = current;
	ct->func = func;
}

static int graft_ticks(struct calltree *t, struct calltree_thread *ct,
		       const struct calltree_graft *g)
{
	int err = 0;

	/* before the first tick of all there are no cycles to share */
	if (ct->slices.on && g->ticked) {
		graft_slices(ct, g, g->head.v, g->head.n, g->head.cycles);
		err = settle(t, ct, true);
	}
	ct->slices.on |= g->ticked;
	if (ct->slices.on)
		graft_slices(ct, g, g->tail.v, g->tail.n, g->tail.cycles);
	return err;
}

int calltree_add_graft(struct calltree *t, struct calltree_thread *ct,
		       struct call_thread *th, const struct calltree_graft *g)
{
	int err = add_up(t, ct, th);

	g->nodes[0] = ct->current;
	if (!err)
		err = charge(t, ct->current, ct->func, g->from->nodes[g->root].own);
	for (uint32_t i = g->root + 1; i < g->end && !err; i++)
		err = graft_node(t, g, i);
	return err ? err : graft_ticks(t, ct, g);
}

/* ---- totals, order and names of a complete tree ---- */

/* Children have larger indexes, so one pass from the end suffices. */
void calltree_sum(struct calltree *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		t->nodes[i].total = t->nodes[i].own;
	for (uint32_t i = t->n - 1; i; i--) {
		struct calltree_node *parent = &t->nodes[t->nodes[i].parent];

		parent->total = call_plus(parent->total, t->nodes[i].total);
	}
}

/* A node, to be put in order among all. */
struct place {
	uint32_t parent, node;
	uint64_t key;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* Links the children anew, in the order of the keys. */
static void link_places(struct calltree *t, struct place *v, uint32_t n)
{
	struct calltree_node *nodes = t->nodes;

	qsort(v, n, sizeof(*v), compare_places);
	for (uint32_t i = 0; i < n; i++) {
		bool first = !i || v[i - 1].parent != v[i].parent;
		bool last = i + 1 == n || v[i + 1].parent != v[i].parent;

		if (first)
			nodes[v[i].parent].child = v[i].node;
		nodes[v[i].node].next = last ? 0 : v[i + 1].node;
	}
}

int calltree_sort(struct calltree *t, enum calltree_by by)
{
	struct place *v = reallocarray(NULL, t->n, sizeof(*v));

	if (!v)
		return -AUX_E_NOMEM;
	for (uint32_t i = 1; i < t->n; i++) {
		const struct calltree_node *node = &t->nodes[i];

		v[i - 1] = (struct place){
			.parent = node->parent,
			.node = i,
			.key = UINT64_MAX - calltree_get(&node->total, by),
		};
	}
	link_places(t, v, t->n - 1);
	free(v);
	return 0;
}

/* ---- order by name: names are ranked first, then nodes are sorted by rank ---- */

struct named {
	char *name;
	uint32_t rank;
};

static int compare_names(const void *a, const void *b)
{
	const struct named *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* Equal names have equal ranks. */
static int rank_names(struct named *v, size_t n)
{
	struct named **order = reallocarray(NULL, n + 1, sizeof(*order));
	size_t m = 0;

	if (!order)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n; i++)
		if (v[i].name)
			order[m++] = &v[i];
	qsort(order, m, sizeof(*order), compare_names);
	for (size_t i = 1; i < m; i++)
		order[i]->rank = order[i - 1]->rank +
				 !!strcmp(order[i]->name, order[i - 1]->name);
	free(order);
	return 0;
}

/* Functions come first, then the kinds that are none, then each root:
 * threads have names of their own. */
static size_t slot_of(const struct calltree *t, size_t n_funcs, uint32_t i)
{
	const struct calltree_node *node = &t->nodes[i];

	if (node->func == CALLTREE_ROOT)
		return n_funcs + CALLTREE_N_OTHERS + i;
	return node->func < CALLTREE_FOLDED ? node->func :
					      n_funcs + (CALLTREE_GAP - node->func);
}

static int name_all(const struct calltree *t, const struct calls *c,
		    struct named *v, size_t n_funcs)
{
	char buf[CALLTREE_NAME];

	for (uint32_t i = 1; i < t->n; i++) {
		struct named *name = &v[slot_of(t, n_funcs, i)];

		if (name->name)
			continue;
		name->name = strdup(calltree_name(t, c, i, buf));
		if (!name->name)
			return -AUX_E_NOMEM;
	}
	return 0;
}

int calltree_sort_names(struct calltree *t, const struct calls *c)
{
	size_t n_funcs = calls_n_funcs(c), n = n_funcs + CALLTREE_N_OTHERS + t->n;
	struct named *names = calloc(n, sizeof(*names));
	struct place *v = reallocarray(NULL, t->n, sizeof(*v));
	int err = names && v ? 0 : -AUX_E_NOMEM;

	if (!err)
		err = name_all(t, c, names, n_funcs);
	if (!err)
		err = rank_names(names, n);
	for (uint32_t i = 1; i < t->n && !err; i++)
		v[i - 1] = (struct place){
			.parent = t->nodes[i].parent,
			.node = i,
			.key = names[slot_of(t, n_funcs, i)].rank,
		};
	if (!err)
		link_places(t, v, t->n - 1);
	for (size_t i = 0; names && i < n; i++)
		free(names[i].name);
	free(names);
	free(v);
	return err;
}

/* ---- by function ---- */

static void add_folded(const struct calltree *t, struct calltree_func *v,
		       size_t n)
{
	for (size_t i = 0; i < n && i < t->n_folded; i++) {
		const struct calltree_func *f = &t->folded[i];

		/* with nodes of its own, what is folded lies below one of
		 * them */
		if (!v[i].calls)
			v[i].total = f->own;
		v[i].calls += f->calls;
		v[i].own = call_plus(v[i].own, f->own);
	}
}

/* total counts a recursive function once: only nodes without an ancestor of the
 * same function add. */
static void add_nodes(const struct calltree *t, struct calltree_func *v,
		      size_t n, const bool *in)
{
	for (uint32_t i = 1; i < t->n; i++) {
		const struct calltree_node *node = &t->nodes[i];
		struct calltree_func *f = v + node->func;

		if (node->func >= n || (in && !in[i]))
			continue;
		f->calls += node->calls;
		f->own = call_plus(f->own, node->own);
		if (!node->is_inner)
			f->total = call_plus(f->total, node->total);
	}
}

struct calltree_func *calltree_funcs(const struct calltree *t, size_t n)
{
	struct calltree_func *v = calloc(n + 1, sizeof(*v));

	if (!v)
		return NULL;
	add_nodes(t, v, n, NULL);
	add_folded(t, v, n);
	return v;
}

struct calltree_func *calltree_funcs_below(const struct calltree *t, size_t n,
					   bool (*want)(const void *priv,
							const struct calltree_node *root),
					   const void *priv)
{
	struct calltree_func *v = calloc(n + 1, sizeof(*v));
	bool *in = calloc(t->n, sizeof(*in));

	if (!v || !in) {
		free(v);
		free(in);
		return NULL;
	}
	for (uint32_t i = 1; i < t->n; i++)
		in[i] = t->nodes[i].parent ? in[t->nodes[i].parent] :
					     want(priv, &t->nodes[i]);
	add_nodes(t, v, n, in);
	free(in);
	return v;
}

static const char *name_root(const struct calltree_node *n, char *buf)
{
	const char *comm = n->comm ? n->comm : "[unknown]";

	if (n->id == UINT32_MAX)
		snprintf(buf, CALLTREE_NAME, "%s/stream %u", comm, n->stream);
	else
		snprintf(buf, CALLTREE_NAME, "%s/%u", comm, n->id);
	return buf;
}

const char *calltree_other(uint32_t func)
{
	static const char *const names[CALLTREE_N_OTHERS] = {
		"[gap]", "[not traced]", "[off CPU]", "[in the kernel]",
		"[filtered]", "[folded]" };

	return names[CALLTREE_GAP - func];
}

const char *calltree_name(const struct calltree *t, const struct calls *c,
			  uint32_t node, char buf[CALLTREE_NAME])
{
	const struct calltree_node *n = &t->nodes[node];
	const struct call_func *f;

	if (n->func == CALLTREE_ROOT)
		return node ? name_root(n, buf) : "all";
	if (n->func >= CALLTREE_FOLDED)
		return calltree_other(n->func);
	f = calls_func(c, n->func);
	if (f && f->name)
		return f->name;
	buf[0] = 0;
	if (f)
		call_func_name(f, buf, CALLTREE_NAME);
	return buf;
}
