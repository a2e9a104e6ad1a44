/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks become Intel PT packets. The hot part of the recorder.
 *
 * Each turn of the loop encodes the transition from the previous block into
 * this one (TNT bit, TIP, or nothing) and then adds this block's time. Most
 * transitions are direct, so one test covers them; the branch that remains is
 * the indirect one.
 *
 * Which packet a transition needs: Intel SDM volume 3, chapter "Intel Processor
 * Trace", "Change of Flow Instruction (COFI) Tracing". There is a second, fast
 * way for what is frequent (run_fast); it hands everything else to the first,
 * which is complete, so both must agree on the packets.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#include "capture/soft/impl.h"

/* Sets of classes: can lead to target, can fall through to end, need a TIP. */
#define BIT(cls) (1u << (cls))
#define TO_TARGET (BIT(X86_COND) | BIT(X86_JUMP) | BIT(X86_CALL))
#define TO_END (BIT(X86_COND) | BIT(X86_OTHER) | BIT(X86_PTWRITE))
#define BY_TIP (BIT(X86_RET) | BIT(X86_IND_JUMP) | BIT(X86_IND_CALL) | \
		BIT(X86_FAR))

/* b leads to ip without a TIP. Without branches: cls is as good as random
 * here. */
static bool is_direct(const struct soft_block *b, uint64_t ip)
{
	return ((ip == b->target) & TO_TARGET >> b->cls) |
	       ((ip == b->end) & TO_END >> b->cls);
}

/* Every loop that closes without a packet contains one of these. */
static bool is_backward(const struct soft_block *b, uint64_t ip)
{
	return ip <= b->start && BIT(b->cls) & (BIT(X86_JUMP) | BIT(X86_CALL));
}

/* A back end's mistake must not become a wrong trace: readers see an OVF. */
static void count_unexplained(struct soft_thread *t, uint64_t ip)
{
	t->s->stats.n_unexplained++;
	pt_encode_overflow(&t->st->e, ip, true);
}

static void push_call(struct pt_encoder *e, const struct soft_block *b)
{
	/* a call to the next instruction only reads the IP: the SDM excludes it
	 * from return compression */
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
 * True if direct branches alone came back to where they were: an endless loop,
 * left by a signal at most. It sends no packet from which a decoder could tell
 * how often it ran, so its trace is declared lost. Where the loop is entered is
 * not known, so the place to compare with moves to the current one at each
 * power of two (Brent's cycle detection).
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

/* TNT for a condition; else no packet, but loops without packets must end. */
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

/* The complete way from t->last to ip. Returns: TNT if compressed; never
 * deferred. */
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

/* The complete way: encodes the transition from t->last to ip. */
static void transition(struct soft_thread *t, uint64_t ip)
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

/*
 * ip may be code whose record is newer than this CPU's clock. Readers apply
 * records by time, so trace of that code must be later: tracing is interrupted
 * and enabled again after the process's floor, since TSC within a run cannot
 * jump.
 */
static void resync_after_floor(struct soft_thread *t, uint64_t ip)
{
	struct pt_encoder *e = &t->st->e;

	t->resync = false;
	if (e->tsc > t->proc->floor)
		return;
	pt_encode_disable_async(e, ip);
	e->tsc = t->proc->floor + 1;
	pt_encode_enable(e, ip);
}

/* ---- address filters: block by block ---- */

static bool is_inside(const struct soft_thread *t, uint64_t ip)
{
	const struct soft_process *p = t->proc;

	if (!t->s->config.n_filters)
		return true;
	for (size_t i = 0; i < p->n_ranges; i++)
		if (ip >= p->ranges[i].start && ip < p->ranges[i].end)
			return true;
	return false;
}

/* The first address after at and before end where a range begins or ends; else end. */
static uint64_t next_edge(const struct soft_process *p, uint64_t at, uint64_t end)
{
	for (size_t i = 0; i < p->n_ranges; i++) {
		const struct soft_range *r = &p->ranges[i];

		if (r->start > at && r->start < end)
			end = r->start;
		if (r->end > at && r->end < end)
			end = r->end;
	}
	return end;
}

/* From t->last to ip: as without a filter where both are inside of it. */
static void pass_filter(struct soft_thread *t, uint64_t ip)
{
	struct pt_encoder *e = &t->st->e;
	bool inside = is_inside(t, ip);

	if (!e->filtered && inside) {
		transition(t, ip);
	} else if (!e->filtered) {
		pt_encode_filter_out(e, ip);
	} else if (inside) {
		pt_encode_filter_in(e, ip);
		t->loop_mark = pt_encode_mark(e, e->n_tnt);
		t->loop_ip = ip;
		t->loop_n = 1;
	}
	if (e->filtered && e->pos >= e->limit)
		pt_encode_checkpoint(e, ip);
}

/* A range may begin or end inside of the block, which runs on. */
static void pass_edges(struct soft_thread *t, const struct soft_block *b)
{
	uint64_t at = b->start;

	for (;;) {
		at = next_edge(t->proc, at, b->end);
		if (at == b->end)
			return;
		t->last = soft_at_ip(at);
		pass_filter(t, at);
		t->last = *b;
		t->last.start = at;
	}
}

static void run_block_pt(struct soft_thread *t, const struct soft_block *b,
			 uint32_t n_insns)
{
	struct pt_encoder *e = &t->st->e;

	pass_filter(t, b->start);
	if (t->resync)
		resync_after_floor(t, b->start);
	t->last = *b;
	if (t->s->config.n_filters)
		pass_edges(t, b);
	if (e->tsc + n_insns >= e->event_tsc)
		pt_encode_time(e, e->tsc + n_insns);
	e->tsc += n_insns;
}

/* What a TIP depends on. */
enum tips {
	TIPS_SLOW,	/* return compression, deferred TIPs, or a full IP */
	TIPS_TIMED,	/* CYC before it, else nothing */
	TIPS_PLAIN,
};

static enum tips tips_of(const struct pt_encoder *e)
{
	const struct pt_encode_config *c = &e->config;

	return c->retcomp || c->defer_tip || e->full_ip ? TIPS_SLOW :
	       c->cyc ? TIPS_TIMED : TIPS_PLAIN;
}

/* The indirect branch that came last leads to ip. False: it is for
 * transition_slow(). */
static inline __attribute__((always_inline)) bool
end_by_tip(struct pt_encoder *e, struct encode_hot *h, uint64_t ip, const enum tips tips)
{
	if (__builtin_expect(e->pos >= e->limit, 0))
		return false;
	if (tips == TIPS_TIMED) {
		e->hot = *h;
		pt_encode_tip_slow(e, ip, false);
		*h = e->hot;
		return true;
	}
	pt_encode_tip_bits(e, h, ip);
	h->bits = 0;
	h->n_bits = 0;
	return true;
}

/*
 * Encodes the transition from prev to ip if it is a frequent one; false: it is
 * for transition_slow(). A condition has then been counted already, which that
 * undoes. The switch on the class is predicted well: its history is the
 * program's own.
 */
static inline __attribute__((always_inline)) bool
transition_fast(struct soft_thread *t, struct pt_encoder *e, struct encode_hot *h,
	  const struct soft_block *prev, uint64_t ip, const enum tips tips)
{
	uint32_t cls = prev->cls;

	if (cls == X86_COND) {
		bool taken = ip == prev->target;

		h->bits = h->bits << 1 | taken;
		return (taken | (ip == prev->end)) & (++h->n_bits < PT_TNT_MAX);
	}
	if (BY_TIP >> cls & 1)
		return tips != TIPS_SLOW && end_by_tip(e, h, ip, tips);
	if (cls == X86_JUMP || (tips != TIPS_SLOW && cls == X86_CALL))
		return ip == prev->target &&
		       (ip > prev->start || is_new_loop(t, e, h->n_bits, ip));
	return ip == prev->end && TO_END >> cls & 1;
}

/* Undoes what transition_fast did for a condition, and encodes it
 * completely. */
static __attribute__((noinline)) void
transition_slow(struct soft_thread *t, const struct soft_block *prev, uint64_t ip)
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
 * Encodes blocks until the end, or until the encoder is in an overflow; returns
 * how many. tips is a constant where this is expanded. h holds the encoder's hot
 * fields in registers, so it is stored before and loaded after each call that may
 * use them.
 */
static inline __attribute__((always_inline)) size_t
run_fast(struct soft_thread *t, const struct soft_block *table,
	 const uint32_t *ids, size_t n, const enum tips tips)
{
	struct pt_encoder *e = &t->st->e;
	const struct soft_block *prev = &t->last, *b = prev;
	uint64_t event_tsc = e->event_tsc, tsc;
	struct encode_hot h;
	size_t i;

	h = e->hot;
	for (i = 0; i < n; prev = b, i++) {
		b = &table[ids[i]];
		if (__builtin_expect(!transition_fast(t, e, &h, prev, b->start,
						tips), 0)) {
			e->hot = h;
			transition_slow(t, prev, b->start);
			h = e->hot;
			event_tsc = e->event_tsc;
			if (e->lost) {
				t->last = *b;
				e->tsc += b->n_insns;
				return i + 1;
			}
		}
		tsc = h.tsc + b->n_insns;
		if (__builtin_expect(tsc >= event_tsc, 0)) {
			e->hot = h;
			pt_encode_time(e, tsc);
			h = e->hot;
			event_tsc = e->event_tsc;
		}
		h.tsc = tsc;
	}
	e->hot = h;
	t->last = *b;
	return n;
}

/* One block at a time while something special is due, else all. */
static size_t run_pt(struct soft_thread *t, const struct soft_block *table,
		     const uint32_t *ids, size_t n)
{
	const struct pt_encode_config *c = &t->st->e.config;

	if (t->resync || t->st->e.lost || !c->branch || t->s->config.n_filters) {
		run_block_pt(t, &table[ids[0]], table[ids[0]].n_insns);
		return 1;
	}
	switch (tips_of(&t->st->e)) {
	case TIPS_SLOW:
		return run_fast(t, table, ids, n, TIPS_SLOW);
	case TIPS_TIMED:
		return run_fast(t, table, ids, n, TIPS_TIMED);
	default:
		return run_fast(t, table, ids, n, TIPS_PLAIN);
	}
}

/*
 * ---- paths: what a unit of the code cache ran, in one go ----
 *
 * Invariant of run_paths(): open says that the transition out of prev is still to be
 * encoded; else that everything up to the next path's start is.
 */

#define TAIL_PIECE 32	/* bytes that are copied at once, and a tail's are a multiple of */
#define TAIL_MAX 256	/* bytes; with it a group of packets is below PT_GROUP_MAX */

/* Where b of the blocks before end leads. */
static uint64_t leads_to(const struct soft_block *b, const struct soft_block *end,
			 uint64_t next)
{
	return b + 1 < end ? b[1].start : next;
}

/* The tail of a path whose indirect branch b is not its end; NULL: it is too long, or
 * there is no memory. */
static struct soft_tail *make_tail(const struct soft_block *b,
				   const struct soft_block *end, uint64_t next)
{
	const struct pt_encode_config config = { .branch = true };
	uint8_t buf[4 * PT_GROUP_MAX];
	uint64_t first = b[1].start;
	struct soft_tail *tail;
	struct pt_encoder e;
	size_t n;

	pt_encode_init(&e, &config, buf, sizeof(buf), NULL, NULL);
	e.full_ip = false;
	e.last_ip = first;
	for (b++; b < end && e.pos - buf <= TAIL_MAX; b++) {
		uint64_t to = leads_to(b, end, next);

		if (b->cls == X86_COND)
			pt_encode_tnt(&e, to == b->target);
		else if (b + 1 < end && BY_TIP >> b->cls & 1)
			pt_encode_tip(&e, to, false);
	}
	n = (size_t)(e.pos - buf);
	if (n > TAIL_MAX)
		return NULL;
	tail = calloc(1, sizeof(*tail) + (n + TAIL_PIECE - 1) / TAIL_PIECE * TAIL_PIECE);
	if (!tail)
		return NULL;
	*tail = (struct soft_tail){ .first = first, .last = e.last_ip, .bits = e.tnt,
				    .n_bits = e.n_tnt, .n = (uint32_t)n };
	memcpy(tail->bytes, buf, n);
	return tail;
}

/* A path with a TNT bit or TIP is no part of a loop without packets. */
struct soft_path soft_path_of(const struct soft_block *table, uint32_t first,
			      uint16_t n, uint64_t next)
{
	struct soft_path p = { .start = table[first].start, .next = next,
			       .first = first, .n_blocks = n };
	const struct soft_block *b = table + first, *end = b + n;
	bool backward = false, tail = false;

	for (; b < end; b++) {
		p.n_insns = (uint16_t)(p.n_insns + b->n_insns);
		backward |= is_backward(b, leads_to(b, end, next));
		if (tail)
			continue;
		if (b->cls == X86_COND && ++p.n_bits < PT_TNT_MAX)
			p.bits = p.bits << 1 | (leads_to(b, end, next) == b->target);
		tail = b + 1 < end && BY_TIP >> b->cls & 1;
		if (tail)
			p.tail = make_tail(b, end, next);
	}
	b = end - 1;
	p.by_blocks = p.n_bits >= PT_TNT_MAX || (tail && !p.tail) ||
		      (backward && !p.n_bits && !tail);
	p.enters_kernel = b->cls == X86_SYSCALL;
	p.by_tip = BY_TIP >> b->cls & 1;
	return p;
}

/* The path, block by block from the first'th on, whatever the options are. */
static void run_each(struct soft_thread *t, const struct soft_block *table,
		     const struct soft_path *p, uint32_t first)
{
	for (uint32_t i = first; i < p->n_blocks; i++)
		run_block_pt(t, &table[p->first + i],
			     table[p->first + i].n_insns);
}

/* The same where something is due on the way. */
static __attribute__((noinline)) void
run_by_blocks(struct soft_thread *t, const struct soft_block *table,
	      const struct soft_path *p)
{
	uint32_t ids[UINT8_MAX], i, n = p->n_blocks;

	if (n > UINT8_MAX || t->st->e.lost) {
		run_each(t, table, p, 0);
		return;
	}
	for (i = 0; i < n; i++)
		ids[i] = p->first + i;
	i = (uint32_t)(t->st->e.config.cyc ?
		       run_fast(t, table, ids, n, TIPS_TIMED) :
		       run_fast(t, table, ids, n, TIPS_PLAIN));
	run_each(t, table, p, i);
}

/* More bits than a packet takes with those that wait; and perhaps PSB+ is due. */
static __attribute__((noinline)) void pack_bits(struct soft_thread *t,
						const struct soft_path *p)
{
	struct pt_encoder *e = &t->st->e;
	uint32_t room = PT_TNT_MAX - e->n_tnt, more = p->n_bits - room;

	e->tnt = e->tnt << room | p->bits >> more;
	e->n_tnt = PT_TNT_MAX;
	pt_encode_flush_tnt(e);
	e->tnt = p->bits & ((UINT64_C(1) << more) - 1);
	e->n_tnt = more;
	if (e->pos >= e->limit && !p->by_tip && !p->enters_kernel && !p->tail)
		pt_encode_checkpoint(e, p->next);
}

/* From the first indirect branch inside of a path to where bits wait again. */
static inline void put_tail(struct pt_encoder *e, struct encode_hot *h,
			    const struct soft_tail *tail)
{
	uint32_t i;

	pt_encode_tip_bits(e, h, tail->first);
	for (i = 0; i < tail->n; i += TAIL_PIECE)
		memcpy(e->pos + i, tail->bytes + i, TAIL_PIECE);
	e->pos += tail->n;
	e->last_ip = tail->last;
	h->bits = tail->bits;
	h->n_bits = tail->n_bits;
}

static bool is_plain(const struct soft_thread *t)
{
	const struct pt_encoder *e = &t->st->e;

	return !t->resync && !e->lost && e->config.branch &&
	       !t->s->config.n_filters && tips_of(e) != TIPS_SLOW;
}

/* With the time packets of a path e->limit may be reached. */
static bool is_near(const struct pt_encoder *e)
{
	return e->limit - e->pos < PT_GROUP_MAX;
}

/* With CYC each packet has the time where it is, so a path that has any runs by
 * blocks. */
static inline __attribute__((always_inline)) bool
goes_by_blocks(const struct pt_encoder *e, const struct soft_path *p, uint32_t n_bits,
	       bool due, const enum tips tips)
{
	if (p->by_blocks || e->lost)
		return true;
	if (tips == TIPS_TIMED)
		return due || p->tail || n_bits + p->n_bits >= PT_TNT_MAX;
	return p->tail && (e->pos >= e->limit || (due && is_near(e)));
}

/* Time packets come before the path that they are due in, and not where it runs by blocks,
 * which have their own: time would go back at a PSB between these. tips is a constant.
 * Returns how many were encoded: fewer where an overflow begins. */
static inline __attribute__((always_inline)) size_t
run_plain(struct soft_thread *t, const struct soft_block *table, const struct soft_path *paths,
	  const uint32_t *ids, size_t n, const enum tips tips)
{
	struct pt_encoder *e = &t->st->e;
	const struct soft_block *prev = &t->last;
	const struct soft_path *p = NULL;
	uint64_t event_tsc = e->event_tsc, next = 0, i;
	struct encode_hot h = e->hot;
	bool open = true, by_tip = false, due;

	for (i = 0; i < n && !e->lost; i++) {
		p = &paths[ids[i]];
		if (__builtin_expect(!open && p->start != next, 0)) {
			t->last = soft_at_ip(next);
			prev = &t->last;
			open = true;	/* a mistake: unexplained */
		}
		if (open && __builtin_expect(!(by_tip ?
				end_by_tip(e, &h, p->start, tips) :
				transition_fast(t, e, &h, prev, p->start, tips)), 0)) {
			e->hot = h;
			transition_slow(t, prev, p->start);
			h = e->hot;
			event_tsc = e->event_tsc;
		}
		due = h.tsc + p->n_insns >= event_tsc;
		if (__builtin_expect(goes_by_blocks(e, p, h.n_bits, due, tips), 0)) {
			e->hot = h;
			t->last = soft_at_ip(p->start);
			run_by_blocks(t, table, p);
			h = e->hot;
			event_tsc = e->event_tsc;
			prev = &t->last;
			open = true;
			by_tip = false;
			continue;
		}
		if (__builtin_expect(due, 0)) {
			e->hot = h;
			pt_encode_time(e, h.tsc + p->n_insns);
			h = e->hot;
			event_tsc = e->event_tsc;
		}
		h.tsc += p->n_insns;
		if (__builtin_expect(h.n_bits + p->n_bits >= PT_TNT_MAX, 0)) {
			e->hot = h;
			pack_bits(t, p);
			h = e->hot;
			event_tsc = e->event_tsc;
		} else {
			h.bits = h.bits << p->n_bits | p->bits;
			h.n_bits += p->n_bits;
		}
		if (p->tail)
			put_tail(e, &h, p->tail);
		by_tip = p->by_tip;
		open = by_tip || p->enters_kernel;
		next = p->next;
		prev = &table[p->first + p->n_blocks - 1u];
	}
	e->hot = h;
	t->last = open ? *prev : soft_at_ip(next);
	return i;
}

static size_t run_paths_pt(struct soft_thread *t,
			   const struct soft_block *table,
			   const struct soft_path *paths, const uint32_t *ids,
			   size_t n)
{
	if (is_plain(t) && t->st->e.config.cyc)
		return run_plain(t, table, paths, ids, n, TIPS_TIMED);
	if (is_plain(t))
		return run_plain(t, table, paths, ids, n, TIPS_PLAIN);
	run_each(t, table, &paths[ids[0]], 0);
	return 1;
}

/* The transition to ip happened, then an event stopped the thread there. */
static void interrupt_pt(struct soft_thread *t, uint64_t ip)
{
	/* what begins inside of a filter has not run */
	if (!t->st->e.filtered)
		pass_filter(t, ip);
	pt_encode_disable_async(&t->st->e, ip);
}

static void call_pt(struct soft_thread *t)
{
	pt_encode_disable(&t->st->e);
}

static void unexplained_pt(struct soft_thread *t, uint64_t ip)
{
	pt_encode_overflow(&t->st->e, ip, false);
}

static void enable_pt(struct soft_thread *t)
{
	struct pt_encoder *e = &t->st->e;

	e->filtered = !is_inside(t, t->last.start);
	pt_encode_enable(e, t->last.start);
	t->loop_mark = pt_encode_mark(e, e->n_tnt);
	t->loop_ip = t->last.start;
	t->loop_n = 1;
}

static void preempt_pt(struct soft_thread *t, uint64_t ip)
{
	pt_encode_disable_async(&t->st->e, ip);
}

static int write_aux(void *ctx, const uint8_t *bytes, size_t n)
{
	return soft_stream_aux(ctx, bytes, n, 0);
}

/* A seed per stream: overflows that tests ask for differ between CPUs. */
static void open_pt(struct soft_stream *st)
{
	pt_encode_init(&st->e, &st->s->pt, st->buf, SOFT_BUF_SIZE, write_aux,
		       st);
	st->e.lost_seed = st->idx + 1;
	st->e.tsc = st->s->config.start_ns;
	st->e.cyc_tsc = st->e.tsc;
}

static void flush_pt(struct soft_stream *st)
{
	pt_encode_flush(&st->e);
	st->s->stats.n_injected += st->e.n_injected;
	st->e.n_injected = 0;
}

/*
 * The capabilities as perf writes them for a machine like this (Linux,
 * tools/perf/arch/x86/util/intel-pt.c): bits of config, and the ratio TSC to
 * CTC of CPUID 0x15.
 */
static int info_pt(struct soft *s)
{
	uint64_t priv[AUX_PT_N_PRIV] = {
		[AUX_PT_PMU_TYPE] = s->config.pmu_type,
		[AUX_PT_TIME_SHIFT] = SOFT_TIME_SHIFT,
		[AUX_PT_TIME_MULT] = 1 << SOFT_TIME_SHIFT,
		[AUX_PT_CAP_USER_TIME_ZERO] = 1,
		[AUX_PT_TSC_BIT] = 1 << 10,
		[AUX_PT_NORETCOMP_BIT] = 1 << 11,
		[AUX_PT_HAVE_SCHED_SWITCH] = s->config.per_thread ? 0 : 2,
		[AUX_PT_PER_CPU_MMAPS] = !s->config.per_thread,
		[AUX_PT_MTC_BIT] = 1 << 9,
		[AUX_PT_MTC_FREQ_BITS] = 0xf << 14,
		[AUX_PT_TSC_CTC_N] = PT_TSC_CTC_N,
		[AUX_PT_TSC_CTC_D] = PT_TSC_CTC_D,
		[AUX_PT_SNAPSHOT_MODE] = s->config.ring_bytes != 0,
		[AUX_PT_CYC_BIT] = 1 << 1,
		[AUX_PT_MAX_NONTURBO_RATIO] = PT_BUS_RATIO,
	};

	return synth_auxtrace_info(s->w, AUX_TRACE_INTEL_PT, priv,
				   AUX_PT_N_PRIV);
}

const struct soft_trace_ops soft_trace_pt = {
	.info = info_pt,
	.open = open_pt,
	.flush = flush_pt,
	.enable = enable_pt,
	.preempt = preempt_pt,
	.run = run_pt,
	.run_block = run_block_pt,
	.run_paths = run_paths_pt,
	.interrupt = interrupt_pt,
	.call = call_pt,
	.unexplained = unexplained_pt,
};
