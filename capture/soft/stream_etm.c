/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks become CoreSight packets. The hot part of the recorder, for aarch64
 * programs.
 *
 * Each turn of the loop encodes the transition from the previous block into
 * this one: an atom for every P0 element (branches and ISB), an address after
 * it where the target is not in the code. What is due by time or size
 * (timestamp, cycle count, A-sync) is sent right after a P0 element, because a
 * decoder can place it in the flow only there.
 *
 * Specification: Arm IHI 0064, "P0 elements" and "Return stack".
 */
#include "common/a64_insn.h"

#include "capture/soft/impl.h"

/* Blocks at an address alone (soft_at_ip) have the class that is 0 for all, and
 * soft_leave() knows what enters the kernel. */
_Static_assert((int)A64_OTHER == (int)X86_OTHER &&
	       (int)A64_SYSCALL == (int)X86_SYSCALL &&
	       (int)A64_FAR == (int)X86_FAR, "classes");

/* The classes whose target is not in the code. */
#define BIT(cls) (1u << (cls))
#define BY_ADDR (BIT(A64_RET) | BIT(A64_IND_JUMP) | BIT(A64_IND_CALL) | \
		 BIT(A64_FAR))

/* Which options the fast loop handles; a constant where it is expanded. */
enum mode {
	PLAIN,
	RETSTACK,	/* returns whose address a decoder knows send none */
	BROADCAST,	/* every taken branch sends its address */
};

/*
 * True if the address of a branch by register must follow its atom. With the
 * return stack it is implied when it matches the last call; branch broadcast
 * overrules that (IHI 0064, TRCCONFIGR.BB).
 */
static bool needs_address(struct etm_encoder *e, const struct soft_block *b,
			  uint64_t ip)
{
	if (b->cls == A64_IND_CALL)
		etm_encode_call(e, b->end);
	return b->cls == A64_IND_CALL || !e->config.retstack ||
	       e->config.broadcast || !etm_encode_ret_pop(e, ip);
}

/* A block whose end is no branch by register; false: b cannot lead to ip. */
static bool send_direct(struct etm_encoder *e, const struct soft_block *b,
			uint64_t ip)
{
	bool jumps = b->cls == A64_COND || b->cls == A64_JUMP ||
		     b->cls == A64_CALL;
	bool taken = jumps && ip == b->target;

	if (!taken && (b->cls == A64_JUMP || b->cls == A64_CALL ||
		       ip != b->end))
		return false;
	if (b->cls == A64_CALL)
		etm_encode_call(e, b->end);
	if (jumps || b->cls == A64_ISB)
		etm_encode_atom(e, taken || !jumps);
	if (taken && e->config.broadcast)
		etm_encode_address(e, ip);
	return jumps || b->cls == A64_ISB || b->cls == A64_OTHER;
}

/*
 * The complete way from t->last to ip. A timestamp of a branch by register goes
 * between its atom and its address, as real trace units place it. Where b ends
 * without a P0 element nothing may be inserted.
 */
static void leave_block(struct soft_thread *t, uint64_t ip)
{
	struct etm_encoder *e = &t->st->etm;
	const struct soft_block *b = &t->last;

	if (BY_ADDR >> b->cls & 1) {
		etm_encode_atom(e, true);
		if (needs_address(e, b, ip)) {
			etm_encode_stamp(e);
			etm_encode_address(e, ip);
		}
	} else if (!send_direct(e, b, ip)) {
		t->s->stats.n_unexplained++;
		etm_encode_overflow(e, ip, true);
	}
	if (b->cls == A64_OTHER)
		return;
	if (e->tsc >= e->event_tsc)
		etm_encode_event(e);
	if (e->pos >= e->limit)
		etm_encode_checkpoint(e, ip);
}

/* Encodes the transition from t->last to ip, unless trace is being lost. */
static void transition(struct soft_thread *t, uint64_t ip)
{
	struct etm_encoder *e = &t->st->etm;

	if (e->lost)
		etm_encode_lost(e, ip);
	else
		leave_block(t, ip);
}

/*
 * The next code may have a record newer than this CPU's clock: the last block
 * is interrupted at its start and resumed after the process's floor. Then the
 * timestamp that follows its P0 element precedes the new code, as after a
 * system call that mapped it.
 */
static void resync_after_floor(struct soft_thread *t)
{
	struct etm_encoder *e = &t->st->etm;

	t->resync = false;
	if (e->tsc > t->proc->floor)
		return;
	etm_encode_disable(e, ETM_EXC_IRQ, t->last.start, false);
	e->tsc = t->proc->floor + 1;
	etm_encode_enable(e, t->last.start, t->tid);
}

static void run_block_etm(struct soft_thread *t, const struct soft_block *b,
			  uint32_t n_insns)
{
	struct etm_encoder *e = &t->st->etm;

	if (t->resync)
		resync_after_floor(t);
	transition(t, b->start);
	e->tsc += n_insns;
	t->last = *b;
}

/* The waiting atoms and an address. True, so that callers can return it. */
static inline __attribute__((always_inline)) bool
send_address(struct etm_encoder *e, struct encode_hot *h, uint64_t ip)
{
	e->pos = etm_put_addr(etm_put_atoms(e->pos, h->bits, h->n_bits),
			      e->hist, ip);
	h->bits = 0;
	h->n_bits = 0;
	return true;
}

/*
 * Encodes the transition from prev to ip if it is a frequent one; false:
 * nothing was done, it is for leave_block(). There is room for one atom and one
 * address.
 */
static inline __attribute__((always_inline)) bool
transition_fast(struct etm_encoder *e, struct encode_hot *h,
	  const struct soft_block *prev, uint64_t ip, const enum mode mode)
{
	uint32_t cls = prev->cls;
	bool taken = true;

	if (cls == A64_OTHER)
		return ip == prev->end;
	if (BY_ADDR >> cls & 1) {
		h->bits |= UINT64_C(1) << h->n_bits++;
		if (mode == RETSTACK && !needs_address(e, prev, ip))
			return true;
		return send_address(e, h, ip);
	}
	if (cls == A64_COND) {
		taken = ip == prev->target;
		if (!taken && ip != prev->end)
			return false;
	} else if (cls == A64_JUMP || cls == A64_CALL) {
		if (ip != prev->target)
			return false;
		if (mode == RETSTACK && cls == A64_CALL)
			etm_encode_call(e, prev->end);
	} else {
		return false;
	}
	h->bits |= (uint64_t)taken << h->n_bits++;
	return mode == BROADCAST && taken ? send_address(e, h, ip) : true;
}

/*
 * Encodes blocks until the end, until the encoder is in an overflow, or until
 * it handed bytes to a shared sink that may be full; returns how many. h holds
 * the encoder's hot fields in registers, as in stream_pt.c; what is due is
 * looked for before the transition, since it is sent after a P0 element by
 * leave_block().
 */
static inline __attribute__((always_inline)) size_t
run_fast(struct soft_thread *t, const struct soft_block *table,
	 const uint32_t *ids, size_t n, const enum mode mode)
{
	struct etm_encoder *e = &t->st->etm;
	const struct soft_block *prev = &t->last, *b = prev;
	uint64_t event_tsc = e->event_tsc;
	struct encode_hot h;
	size_t i;

	h = e->hot;
	for (i = 0; i < n; prev = b, i++) {
		b = &table[ids[i]];
		if (__builtin_expect(h.tsc < event_tsc &&
				     h.n_bits < ETM_ATOMS_MAX - 1 &&
				     e->pos < e->limit, 1) &&
		    transition_fast(e, &h, prev, b->start, mode)) {
			h.tsc += b->n_insns;
			continue;
		}
		e->hot = h;
		t->last = *prev;
		leave_block(t, b->start);
		e->tsc += b->n_insns;
		h = e->hot;
		event_tsc = e->event_tsc;
		if (e->lost || e->handed) {
			e->handed = false;
			t->last = *b;
			return i + 1;
		}
	}
	e->hot = h;
	t->last = *b;
	return n;
}

/* One block at a time while something special is due, else all. */
static size_t run_etm(struct soft_thread *t, const struct soft_block *table,
		      const uint32_t *ids, size_t n)
{
	const struct etm_encode_config *c = &t->st->etm.config;

	if (t->resync || t->st->etm.lost) {
		run_block_etm(t, &table[ids[0]], table[ids[0]].n_insns);
		return 1;
	}
	if (c->broadcast)
		return run_fast(t, table, ids, n, BROADCAST);
	if (c->retstack)
		return run_fast(t, table, ids, n, RETSTACK);
	return run_fast(t, table, ids, n, PLAIN);
}

/*
 * While the trace unit is stopped an AUX record may end. Doing so here, from
 * half a buffer on, avoids most interrupts by a full buffer (make_room() in
 * etm_encode.c).
 */
static void flush_if_half_full(struct etm_encoder *e)
{
	if (e->config.pieces || e->pos - e->buf > SOFT_BUF_SIZE / 2)
		etm_encode_flush(e);
}

/*
 * If a branch by register led to the faulting ip, the exception packet says so
 * and one address stands for both (IHI 0064, exception instruction trace
 * packet, E1:E0 of 0b10). Not with a return stack: OpenCSD up to 1.5.5 then
 * pops an entry.
 */
static void interrupt_etm(struct soft_thread *t, uint64_t ip)
{
	struct etm_encoder *e = &t->st->etm;
	bool target = !e->lost && !e->config.retstack &&
		      BY_ADDR >> t->last.cls & 1;

	if (target)
		etm_encode_atom(e, true);
	else
		transition(t, ip);
	etm_encode_disable(e, ETM_EXC_DATA_FAULT, ip, target);
	flush_if_half_full(e);
}

static void call_etm(struct soft_thread *t)
{
	etm_encode_disable(&t->st->etm, ETM_EXC_CALL, t->last.end, false);
	flush_if_half_full(&t->st->etm);
}

static void unexplained_etm(struct soft_thread *t, uint64_t ip)
{
	etm_encode_overflow(&t->st->etm, ip, false);
	flush_if_half_full(&t->st->etm);
}

static void enable_etm(struct soft_thread *t)
{
	etm_encode_enable(&t->st->etm, t->last.start, t->tid);
}

static void preempt_etm(struct soft_thread *t, uint64_t ip)
{
	etm_encode_disable(&t->st->etm, ETM_EXC_IRQ, ip, false);
	flush_if_half_full(&t->st->etm);
}

const struct soft_trace_ops soft_trace_etm = {
	.info = soft_etm_info,
	.open = soft_etm_open,
	.flush = soft_etm_flush,
	.flush_shared = soft_etm_flush_shared,
	.enable = enable_etm,
	.preempt = preempt_etm,
	.run = run_etm,
	.run_block = run_block_etm,
	.interrupt = interrupt_etm,
	.call = call_etm,
	.unexplained = unexplained_etm,
};
