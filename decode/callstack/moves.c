/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls_code: what it means to go from one instruction to another, as far as
 * the code alone says, found once and kept.
 *
 * Single steps are cached by both addresses in a table without chains. Whatever
 * lies inside a step or path of the decoder is a segment, which hangs on it by its
 * user words (impl.h). Segments live in one arena; when it is full, a new epoch drops
 * all of them at once, which is cheaper than to find out which are still in use.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "decode/callstack/impl.h"
#include "decode/lib/sideband/sideband.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define ARENA_SIZE ((size_t)1 << 20) /* ASan's shadow of more is most of a run */
#else
#define ARENA_SIZE ((size_t)64 << 20)	/* at most what SEG_PLACE_BITS tell apart */
#endif

/* Steps and paths may come to another struct code: each has epochs of its own. */
static uint64_t new_epochs(void)
{
	static _Atomic uint64_t n_codes;

	return (atomic_fetch_add(&n_codes, 1) + 1) << CODE_EPOCH_BITS;
}

int calls_code_init(struct code *c, const struct sink_host *host,
		    struct funcs *funcs)
{
	struct walk_config wc = { .host = host };

	*c = (struct code){ .host = host, .funcs = funcs, .epoch = new_epochs() };
	c->edges = calloc(EDGE_SLOTS, sizeof(*c->edges));
	c->arena = malloc(ARENA_SIZE);
	if (!c->edges || !c->arena)
		return -AUX_E_NOMEM;
	return walk_new(&c->walk, &wc);
}

void calls_code_fini(struct code *c)
{
	walk_free(c->walk);
	free(c->edges);
	free(c->arena);
	free(c->moves);
}

/* The size of the last instruction comes with the event, or from the code. */
struct pend calls_code_end(struct code *c, const struct space *space,
			   const struct aux_flow *ev)
{
	struct pend p = { .from = ev->range.last,
			  .next = ev->range.last +
				  (ev->flags & AUX_FLOW_SIZE_MASK),
			  .flags = ev->flags,
			  .what = ev->what };
	struct walk_range r;

	if (p.next == p.from && !walk_once(c->walk, space, ev, &r))
		p.next += r.last_size;
	return p;
}

bool calls_code_taken(const struct pend *p, uint64_t to)
{
	if (p->what == AUX_END_COND)
		return to != p->next;
	return p->what != AUX_END_FALL && p->what != AUX_END_COND_NOT_TAKEN &&
	       p->what <= AUX_END_FAR;
}

/* Whether the code before a ret wrote its target to the stack (push; xchg or
 * mov to (%rsp)): then the ret is a jump. */
static bool is_pushed(struct code *c, const struct space *space, uint64_t ret)
{
	uint8_t b[4];

	if (walk_bytes(c->walk, space, ret - 4, b, 4) != 4)
		return false;
	return (b[3] >= 0x50 && b[3] <= 0x57) ||	/* push reg */
	       (b[0] == 0x48 && b[1] == 0x87 && b[3] == 0x24) || /* xchg */
	       b[1] == 0xff || b[2] == 0xff;		/* push mem */
}

/* The same by what cannot be the end of another instruction: mov reg, (%rsp). */
static bool is_written(struct code *c, const struct space *space, uint64_t ret)
{
	uint8_t b[4];

	return walk_bytes(c->walk, space, ret - 4, b, 4) == 4 && (b[0] & 0xfb) == 0x48 &&
	       b[1] == 0x89 && (b[2] & 0xc7) == 0x04 && b[3] == 0x24;
}

bool calls_code_leaves(const struct move *m)
{
	const char *a = m->in->pub.dso, *b = m->func->pub.dso;

	if (m->in->pub.name && m->func->pub.name)
		return false;
	return a && b ? strcmp(a, b) : a != b;
}

/* A jump inside a function means nothing; to the first address of another it is
 * a tail call, into the middle of another something that the stack decides. */
static void classify_jump(struct move *m)
{
	bool in_stub = m->flags & MOVE_IN_STUB, begin = m->flags & MOVE_TO_BEGIN;

	if (m->in == m->func && m->func->pub.name) {
		if (begin && m->what == AUX_END_IND_JUMP)
			m->kind = MOVE_TAIL;	/* to itself */
		return;
	}
	if ((m->in->roles | m->func->roles) & FUNC_PART && !begin &&
	    m->what != AUX_END_IND_JUMP && !calls_code_leaves(m))
		return;				/* to and fro in one function */
	if (in_stub && m->flags & MOVE_TO_STUB && m->in != m->func) {
		m->kind = MOVE_TAIL;	/* .plt.sec to .plt: one name, two places */
		return;
	}
	if (in_stub && m->what == AUX_END_IND_JUMP && !begin) {
		if (m->in->pub.dso != m->func->pub.dso || !m->func->pub.name)
			m->kind = MOVE_TAIL;
		return;
	}
	if (begin && !func_is_same(m->in, m->func))
		m->kind = MOVE_TAIL;
	else if (m->in != m->func &&
		 (m->what == AUX_END_IND_JUMP || calls_code_leaves(m)))
		m->kind = MOVE_INTO;
}

/* Fills kind, flags and functions of a move. A call to the next instruction is
 * no call: position-independent code reads its own address so. */
static int classify(struct code *c, const struct space *space, struct move *m)
{
	bool call = m->what == AUX_END_CALL || m->what == AUX_END_IND_CALL;
	bool begin;

	m->in = calls_func_at(c->funcs, space, m->from);
	m->func = calls_func_to(c->funcs, space, m->to, call, &begin);
	if (!m->in || !m->func)
		return -AUX_E_NOMEM;
	if (m->in->roles & FUNC_STUB)
		m->flags |= MOVE_IN_STUB;
	if (m->func->roles & FUNC_STUB)
		m->flags |= MOVE_TO_STUB;
	if (begin && !(m->func->roles & FUNC_PART))
		m->flags |= MOVE_TO_BEGIN;
	if (m->what > AUX_END_COND || m->what == AUX_END_SYSCALL ||
	    m->what == AUX_END_FAR || is_kernel(m->from) != is_kernel(m->to)) {
		m->kind = MOVE_CROSS;
	} else if (call) {
		if (m->to != m->next &&
		    !(m->flags & MOVE_IN_STUB && m->in == m->func))
			m->kind = MOVE_CALL;
	} else if (m->what == AUX_END_RET) {
		m->kind = MOVE_RET;
		if (!(m->flags & MOVE_TO_BEGIN))
			m->flags |= is_written(c, space, m->from) ? MOVE_WRITTEN : 0;
		else if (is_pushed(c, space, m->from) || is_written(c, space, m->from))
			m->flags |= MOVE_PUSHED;
	} else {
		classify_jump(m);
	}
	return 0;
}

/* From the cache, else classified. NULL: out of memory. */
static const struct move *find_move(struct code *c, const struct space *space,
				    const struct pend *p, uint64_t to)
{
	uint32_t id = space ? (uint32_t)space->id : 0;
	uint64_t h = (p->from ^ (to << 17 | to >> 47) ^ (uint64_t)id << 40 ^
		      p->what) * UINT64_C(0x9e3779b97f4a7c15);
	struct move *m = &c->edges[h >> 50];

	if (m->from == p->from && m->to == to && m->space == id &&
	    m->what == p->what && m->in)
		return m;
	*m = (struct move){ .from = p->from, .to = to, .next = p->next,
			    .space = id, .what = p->what };
	if (!classify(c, space, m))
		return m;
	m->in = NULL;
	return NULL;
}

static const struct move no_move;

const struct move *calls_code_move(struct code *c, const struct space *space,
				   const struct pend *p, uint64_t to)
{
	if (to == p->next &&
	    (p->what <= AUX_END_JUMP || p->what == AUX_END_COND))
		return &no_move;
	return find_move(c, space, p, to);
}

void calls_code_learn(struct seg *s, uint64_t space, const struct move *m,
		      uint64_t to)
{
	if (m->kind == MOVE_RET && !(m->flags & MOVE_IN_STUB)) {
		s->ret = m->in;
		s->ret_space = space;
	} else if (m->kind == MOVE_NONE) {
		s->to = to;
		s->space = space;
		s->taken = calls_code_taken(&s->last, to);
	}
}

/* ---- segments ---- */

/* Appends a move to the segment being made, with the counts since the one
 * before it. */
static int append_move(struct code *c, struct seg *s, const struct move *m)
{
	uint32_t n = s->n_moves;
	size_t max = c->max_moves ? 2 * c->max_moves : 64;
	struct seg_move *moves = c->moves;

	if (n == c->max_moves) {
		moves = reallocarray(moves, max, sizeof(*moves));
		if (!moves)
			return -AUX_E_NOMEM;
		c->moves = moves;
		c->max_moves = max;
	}
	c->moves[n] = (struct seg_move){ *m, s->n_insns, s->n_branches };
	s->n_moves++;
	s->n_insns = s->n_branches = 0;
	return 0;
}

/* Appends a range to the segment being made. */
static int add_range(struct code *c, const struct space *space, struct seg *s,
		     const struct aux_flow *ev)
{
	const struct move *m;

	if (s->n_insns || s->n_moves) {
		m = calls_code_move(c, space, &s->last, ev->range.first);
		if (!m)
			return -AUX_E_NOMEM;
		s->n_branches += calls_code_taken(&s->last, ev->range.first);
		if (m->kind != MOVE_NONE && append_move(c, s, m))
			return -AUX_E_NOMEM;
	} else {
		s->first = ev->range.first;
	}
	s->n_insns += ev->n;
	s->last = calls_code_end(c, space, ev);
	return 0;
}

/* Copies the segment into the arena and links it to its step or path. */
static struct seg *store(struct code *c, const struct seg *made, uint64_t *user)
{
	size_t size = sizeof(*made) + made->n_moves * sizeof(made->moves[0]);
	struct seg *s;

	size = (size + SEG_ALIGN - 1) & ~(size_t)(SEG_ALIGN - 1);
	if (size > ARENA_SIZE)
		return NULL;
	if (ARENA_SIZE - c->used < size) {
		c->used = 0;
		c->epoch++;
		if (!(c->epoch & ((1u << CODE_EPOCH_BITS) - 1)))
			c->epoch = new_epochs();
	}
	s = (struct seg *)(c->arena + c->used);
	if (c->shares_words) {
		user[2] = c->epoch << SEG_PLACE_BITS | c->used / SEG_ALIGN;
	} else {
		user[0] = c->epoch;
		user[1] = (uint64_t)(uintptr_t)s;
	}
	c->used += size;
	*s = *made;
	for (uint32_t i = 0; i < made->n_moves; i++)
		s->moves[i] = c->moves[i];
	return s;
}

static int add_step(struct code *c, const struct space *space, struct seg *s,
		    const struct aux_step *step)
{
	for (uint32_t i = 0; i < step->n_ranges; i++)
		if (add_range(c, space, s, &step->ranges[i]))
			return -AUX_E_NOMEM;
	return 0;
}

struct seg *calls_code_step(struct code *c, const struct space *space,
			    struct aux_step *step)
{
	struct seg *s = calls_code_known(c, step->user);
	struct seg made = { .n_moves = 0 };

	if (s)
		return s;
	if (add_step(c, space, &made, step))
		return NULL;
	return store(c, &made, step->user);
}

struct seg *calls_code_path(struct code *c, const struct space *space,
			    struct aux_path *path)
{
	struct seg *s = calls_code_known(c, path->user);
	struct seg made = { .n_moves = 0 };

	if (s)
		return s;
	for (uint32_t i = 0; i < path->n_steps; i++)
		if (add_step(c, space, &made, path->steps[i]))
			return NULL;
	return store(c, &made, path->user);
}
