/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_stream_run: blocks become packets. The hot part of the recorder.
 *
 * Each turn of the loop explains the way from the previous block into this one
 * (TNT bit, TIP, or nothing) and then counts this block's time. Most ways are
 * direct, so one test covers them; the branch that remains is the indirect one.
 */
#include "soft_stream.h"

#define BIT(cls) (1u << (cls))
#define TO_TARGET (BIT(X86_COND) | BIT(X86_JUMP) | BIT(X86_CALL))
#define TO_END (BIT(X86_COND) | BIT(X86_OTHER) | BIT(X86_PTWRITE))
#define BY_TIP (BIT(X86_RET) | BIT(X86_IND_JUMP) | BIT(X86_IND_CALL) | \
		BIT(X86_FAR))
#define TO_KERNEL (BIT(X86_SYSCALL) | BIT(X86_FAR))

static bool is_direct(const struct soft_block *b, uint64_t ip)
{
	return ((ip == b->target) & TO_TARGET >> b->cls) |
	       ((ip == b->end) & TO_END >> b->cls);
}

/* A loop that closes without a packet has one of these. */
static bool is_backward(const struct soft_block *b, uint64_t ip)
{
	return ip <= b->start && BIT(b->cls) & (BIT(X86_JUMP) | BIT(X86_CALL));
}

/* Nothing but a known address: after enter, after a cut. */
static struct soft_block at_ip(uint64_t ip)
{
	return (struct soft_block){ .start = ip, .end = ip, .cls = X86_OTHER };
}

static void count_unexplained(struct soft_thread *t, uint64_t ip)
{
	t->s->stats.n_unexplained++;
	pt_encode_overflow(&t->st->e, ip, true);
}

static void push_call(struct pt_encoder *e, const struct soft_block *b)
{
	/* a call to the next instruction only reads the IP */
	if (e->config.retcomp &&
	    (b->cls == X86_IND_CALL ||
	     (b->cls == X86_CALL && b->target != b->end)))
		pt_encode_call(e, b->end);
}

/* Something was sent, or waits, since the last backward branch: a new start. */
static inline bool is_new_loop(struct soft_thread *t,
			       const struct pt_encoder *e, uint32_t n_tnt,
			       uint64_t ip)
{
	uint64_t mark = pt_encode_mark(e, n_tnt);

	if (mark == t->loop_mark)
		return false;
	t->loop_mark = mark;
	t->loop_ip = ip;
	t->loop_n = 1;
	return true;
}

/*
 * Direct branches alone came back to where they were: an endless loop, left by
 * a signal at most. It sends no packet that could tell how often it ran. Where
 * it is entered is not known, so the place to compare with moves on (Brent).
 */
static bool is_endless(struct soft_thread *t, uint64_t ip)
{
	const struct pt_encoder *e = &t->st->e;

	if (is_new_loop(t, e, e->n_tnt, ip))
		return false;
	if (ip == t->loop_ip)
		return true;
	if (!(t->loop_n & (t->loop_n + 1)))
		t->loop_ip = ip;
	t->loop_n++;
	return false;
}

static void leave_direct(struct soft_thread *t, uint64_t ip)
{
	struct pt_encoder *e = &t->st->e;
	const struct soft_block *b = &t->last;

	if (b->cls == X86_COND) {
		pt_encode_tnt(e, ip == b->target);
	} else if (is_backward(b, ip) && is_endless(t, ip)) {
		t->s->stats.n_endless++;
		pt_encode_lose(e);
		return;
	}
	push_call(e, b);
}

static void leave_block(struct soft_thread *t, uint64_t ip)
{
	struct pt_encoder *e = &t->st->e;
	const struct soft_block *b = &t->last;

	if (is_direct(b, ip)) {
		leave_direct(t, ip);
	} else if (BY_TIP >> b->cls & 1) {
		if (b->cls == X86_RET && e->config.retcomp &&
		    pt_encode_ret_pop(e, ip)) {
			pt_encode_tnt(e, true);
			return;
		}
		pt_encode_tip(e, ip, b->cls != X86_RET);
		push_call(e, b);
	} else {
		count_unexplained(t, ip);
	}
}

/* The slow and complete way from t->last to ip. */
static void pass(struct soft_thread *t, uint64_t ip)
{
	struct pt_encoder *e = &t->st->e;

	if (!e->config.branch)
		return;
	if (e->lost) {
		pt_encode_lost(e, ip);
	} else {
		leave_block(t, ip);
		if (e->pos >= e->limit)
			pt_encode_checkpoint(e, ip);
	}
}

/* Code that may be newer than the clock: go on behind the process's floor. */
static void pass_floor(struct soft_thread *t, uint64_t ip)
{
	struct pt_encoder *e = &t->st->e;

	t->resync = false;
	if (e->tsc > t->proc->floor)
		return;
	pt_encode_disable_async(e, ip);
	e->tsc = t->proc->floor + 1;
	pt_encode_enable(e, ip);
}

static void run_block(struct soft_thread *t, const struct soft_block *b,
		      uint32_t n_insns)
{
	struct pt_encoder *e = &t->st->e;

	pass(t, b->start);
	if (t->resync)
		pass_floor(t, b->start);
	if (e->tsc + n_insns >= e->event_tsc)
		pt_encode_time(e, e->tsc + n_insns);
	e->tsc += n_insns;
	t->last = *b;
}

/* The encoder's hot fields, held in registers. */
struct hot {
	uint64_t tnt;
	uint32_t n_tnt;
	uint64_t tsc;
};

static inline void load_hot(struct hot *h, const struct pt_encoder *e)
{
	h->tnt = e->tnt;
	h->n_tnt = e->n_tnt;
	h->tsc = e->tsc;
}

static inline void store_hot(const struct hot *h, struct pt_encoder *e)
{
	e->tnt = h->tnt;
	e->n_tnt = h->n_tnt;
	e->tsc = h->tsc;
}

/*
 * The way from prev to ip, when it is an everyday one; false: see to it slowly.
 * Branches on the class predict well: this code's history is the program's.
 */
static inline __attribute__((always_inline)) bool
pass_fast(struct soft_thread *t, struct pt_encoder *e, struct hot *h,
	  const struct soft_block *prev, uint64_t ip, const bool plain)
{
	uint32_t cls = prev->cls;

	if (cls == X86_COND) {
		bool taken = ip == prev->target;

		h->tnt = h->tnt << 1 | taken;
		return (taken | (ip == prev->end)) & (++h->n_tnt < PT_TNT_MAX);
	}
	if (BY_TIP >> cls & 1) {
		if (!plain || e->pos >= e->limit)
			return false;
		store_hot(h, e);
		if (h->n_tnt > 6)
			pt_encode_flush_tnt(e);
		pt_encode_tip_short(e, ip);
		h->n_tnt = 0;
		h->tnt = 0;
		return true;
	}
	if (cls == X86_JUMP || (plain && cls == X86_CALL))
		return ip == prev->target &&
		       (ip > prev->start || is_new_loop(t, e, h->n_tnt, ip));
	return ip == prev->end && TO_END >> cls & 1;
}

/* Undoes what pass_fast did for a condition, and does it all again. */
static __attribute__((noinline)) void
pass_slowly(struct soft_thread *t, const struct soft_block *prev, uint64_t ip)
{
	struct pt_encoder *e = &t->st->e;

	if (prev->cls == X86_COND) {
		e->tnt >>= 1;
		e->n_tnt--;
	}
	t->last = *prev;
	leave_block(t, ip);
	if (e->pos >= e->limit)
		pt_encode_checkpoint(e, ip);
}

/*
 * Blocks until the end or until the encoder lost sync; returns how many ran.
 * plain, a constant where this is expanded: TIPs need nothing but themselves.
 */
static inline __attribute__((always_inline)) size_t
run_fast(struct soft_thread *t, const struct soft_block *table,
	 const uint32_t *ids, size_t n, const bool plain)
{
	struct pt_encoder *e = &t->st->e;
	const struct soft_block *prev = &t->last, *b = prev;
	uint64_t event_tsc = e->event_tsc, tsc;
	struct hot h;
	size_t i;

	load_hot(&h, e);
	for (i = 0; i < n; prev = b, i++) {
		b = &table[ids[i]];
		if (__builtin_expect(!pass_fast(t, e, &h, prev, b->start,
						plain), 0)) {
			store_hot(&h, e);
			pass_slowly(t, prev, b->start);
			load_hot(&h, e);
			event_tsc = e->event_tsc;
			if (e->lost) {
				t->last = *b;
				e->tsc += b->n_insns;
				return i + 1;
			}
		}
		tsc = h.tsc + b->n_insns;
		if (__builtin_expect(tsc >= event_tsc, 0)) {
			store_hot(&h, e);
			pt_encode_time(e, tsc);
			load_hot(&h, e);
			event_tsc = e->event_tsc;
		}
		h.tsc = tsc;
	}
	store_hot(&h, e);
	t->last = *b;
	return n;
}

static size_t run_some(struct soft_thread *t, const struct soft_block *table,
		       const uint32_t *ids, size_t n)
{
	const struct pt_encode_config *c = &t->st->e.config;

	if (t->resync || t->st->e.lost || !c->branch) {
		run_block(t, &table[ids[0]], table[ids[0]].n_insns);
		return 1;
	}
	if (c->retcomp || c->cyc || c->defer_tip || t->st->e.full_ip)
		return run_fast(t, table, ids, n, false);
	return run_fast(t, table, ids, n, true);
}

/* Back on a stream before anything is said of t. */
static int ensure_on(struct soft_thread *t, uint64_t ip)
{
	if (!t->user) {
		/* a back end's mistake: it never entered */
		t->s->stats.n_unexplained++;
		soft_enter(t, ip, 0);
	}
	return t->on ? t->s->error : soft_resume(t);
}

int soft_run(struct soft_thread *t, const struct soft_block *table,
	     const uint32_t *ids, size_t n)
{
	uint64_t tsc;
	size_t i = 0;

	if (!n)
		return 0;
	if (ensure_on(t, table[ids[0]].start))
		return t->s->error;
	t->st->used = ++t->s->order;
	t->pinned = false;
	while (i < n) {
		tsc = t->st->e.tsc;
		if (t->resync && tsc <= t->proc->floor)
			tsc = t->proc->floor + 1;
		i += run_some(t, table, ids + i, n - i);
		t->s->stats.n_insns += t->st->e.tsc - tsc;
	}
	return soft_note(t->s, t->st->e.error);
}

int soft_cut(struct soft_thread *t, const struct soft_block *b,
	     uint32_t n_insns, uint64_t ip)
{
	if (ensure_on(t, b->start))
		return t->s->error;
	run_block(t, b, n_insns);
	t->s->stats.n_insns += n_insns;
	t->last = at_ip(ip);
	t->pinned = false;
	return soft_note(t->s, t->st->e.error);
}

int soft_leave(struct soft_thread *t, enum soft_leave_kind kind, uint64_t ip)
{
	struct pt_encoder *e;

	if (ensure_on(t, ip))
		return t->s->error;
	e = &t->st->e;
	if (kind == SOFT_LEAVE_ASYNC) {
		pass(t, ip);
		pt_encode_disable_async(e, ip);
	} else if (TO_KERNEL >> t->last.cls & 1) {
		pt_encode_disable(e);
	} else {
		t->s->stats.n_unexplained++;
		pt_encode_overflow(e, ip, false);
	}
	t->clock = e->tsc;
	t->on = t->user = t->resync = t->pinned = false;
	return soft_note(t->s, e->error);
}

int soft_enter(struct soft_thread *t, uint64_t ip, uint64_t kernel_ns)
{
	if (t->user && t->on) {
		t->s->stats.n_unexplained++;
		pt_encode_overflow(&t->st->e, ip, false);
		t->clock = t->st->e.tsc;
		t->on = false;
	}
	t->clock += kernel_ns;
	t->last = at_ip(ip);
	t->user = true;
	t->pinned = false;
	return t->s->error;
}

int soft_ptwrite(struct soft_thread *t, uint64_t ip, uint64_t value, int size)
{
	const struct soft_config *c = &t->s->config;

	if (!c->ptw)
		return 0;
	if (ensure_on(t, ip))
		return t->s->error;
	if (t->st->e.pos >= t->st->e.limit && !t->st->e.lost &&
	    (!t->pinned || !t->st->e.config.branch))
		pt_encode_checkpoint(&t->st->e, t->last.start);
	pt_encode_ptwrite(&t->st->e, ip, value, size, c->fup_on_ptw);
	t->pinned = true;
	return t->s->error;
}
