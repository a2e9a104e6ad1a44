/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stream of a traced thread: block ids and escapes, in order.
 *
 * The last block of what was read is always held back: only what follows says
 * whether it ran to its end. A stream waits where it is ahead of its process's
 * log, at a SYNC that is not next, and at the birth of a thread that has not
 * begun; other streams then go first.
 */
#include <stdlib.h>
#include <string.h>

#include "common/predict_exec.h"
#include "common/x86_insn.h"
#include "capture/soft/emulate.h"

/* ---- blocks ---- */

static void run(struct emu *e, struct emu_thread *t, const uint32_t *ids,
		size_t n)
{
	if (!n)
		return;
	emu_note(e, soft_run(t->st, t->proc->table, ids, n));
	for (size_t i = 0; e->truth && i < n; i++)
		t->n_flow += t->proc->table[ids[i]].n_insns;
	t->prev = &t->proc->table[ids[n - 1]];
	t->prev_rep = t->proc->info[ids[n - 1]].rep;
}

/* The block held back ran to its end. */
static void finish_last(struct emu *e, struct emu_thread *t)
{
	if (t->have_last)
		run(e, t, t->buf, 1);
	t->have_last = false;
}

/* Of the block held back only what lies before ip ran. */
static void cut_last(struct emu *e, struct emu_thread *t, uint64_t ip)
{
	uint32_t n = emu_proc_index(t->proc, t->buf[0], ip), cut;

	if (n == t->proc->table[t->buf[0]].n_insns) {
		finish_last(e, t);
		return;
	}
	t->have_last = false;
	t->prev_rep = false;
	if (n && emu_proc_cut(e, t->proc, t->buf[0], n, &cut) == 0)
		run(e, t, &cut, 1);
}

/* An iteration of a REP instruction that was counted when it was entered. */
static bool repeats(const struct emu_thread *t, uint32_t id)
{
	const struct soft_block *b = &t->proc->table[id];

	return !t->have_last && t->prev_rep && t->prev && b->n_insns == 1 &&
	       b->start == t->prev->end - t->prev->last_size;
}

/* First of ids[0..n) that is no block known so far; n when all are. */
static size_t find_other(const uint32_t *ids, size_t n, uint32_t known)
{
	size_t i = 0;

	/* the top bit shows what is too large, or an escape; vectorized */
	for (; i + 64 <= n; i += 64) {
		uint32_t acc = known ? 0 : SHM_ESC;

		for (size_t k = 0; k < 64; k++)
			acc |= ids[i + k] | (known - 1 - ids[i + k]);
		if (acc & SHM_ESC)
			break;
	}
	while (i < n && ids[i] < known)
		i++;
	return i;
}

/* ids[0..n) are blocks; ids[-1] is buf[0] when have_last, ids being buf + 1. */
static void take_blocks(struct emu *e, struct emu_thread *t, uint32_t *ids,
			size_t n)
{
	if (t->where != EMU_USER) {
		emu_fail(e, AUX_E_FORMAT, "thread %u ran blocks outside of user "
			 "mode", t->tid);
		return;
	}
	if (repeats(t, ids[0])) {
		ids++;
		n--;
	}
	if (!n)
		return;
	if (t->have_last && ids == t->buf + 1) {
		ids--;
		n++;
	} else {
		finish_last(e, t);
	}
	run(e, t, ids, n - 1);
	t->buf[0] = ids[n - 1];
	t->have_last = true;
}

/* ---- escapes ---- */

static bool ends_in_kernel(const struct soft_block *b)
{
	return b && (b->cls == X86_SYSCALL || b->cls == X86_FAR);
}

static void leave(struct emu *e, struct emu_thread *t, uint64_t ip)
{
	bool by_insn = ends_in_kernel(t->prev) && t->prev->end == ip;

	emu_note(e, soft_leave(t->st, by_insn ? SOFT_LEAVE_SYSCALL :
					    SOFT_LEAVE_ASYNC, ip));
	t->where = EMU_OUTSIDE;
}

static void esc_back(struct emu *e, struct emu_thread *t, uint64_t ip,
		     uint64_t ns)
{
	if (t->where == EMU_LEFT) {
		if (ip == t->left_ip && !ends_in_kernel(t->prev)) {
			t->where = EMU_USER;
			return;
		}
		leave(e, t, t->left_ip);
	}
	if (t->where == EMU_OUTSIDE) {
		emu_note(e, soft_enter(t->st, ip, ns));
		t->prev = NULL;
		t->prev_rep = false;
	}
	t->where = EMU_USER;
	t->left_ip = ip;
	t->proc->native_why = 0;
}

static void esc_left(struct emu *e, struct emu_thread *t, uint64_t ip, bool cut)
{
	const struct soft_block *b;

	if (t->where != EMU_USER)
		return;
	if (t->have_last) {
		b = &t->proc->table[t->buf[0]];
		if (cut || (t->proc->info[t->buf[0]].rep &&
			    ip == b->end - b->last_size))
			cut_last(e, t, ip);
		else
			finish_last(e, t);
	}
	t->where = EMU_LEFT;
	t->left_ip = ip;
}

static void esc_syscall(struct emu *e, struct emu_thread *t)
{
	finish_last(e, t);
	if (t->where == EMU_LEFT)
		leave(e, t, t->left_ip);
	else if (t->where == EMU_USER)
		leave(e, t, t->prev ? t->prev->end : t->left_ip);
}

/* Takes what is there now, not what comes meanwhile. */
static void catch_up(struct emu *e, struct emu_thread *t)
{
	uint64_t head = emu_ring_head(e, &t->shm->ring);

	while (!t->ended && atomic_load(&t->shm->ring.tail) < head &&
	       emu_thread_drain(e, t))
		;
}

/* All that the other threads did before this change of code goes first. */
static enum emu_step esc_sync(struct emu *e, struct emu_thread *t, uint64_t seq)
{
	struct emu_proc *p = t->proc;

	emu_proc_read_log(e, p);
	if (!p->barrier || p->barrier_seq != seq)
		return EMU_STEP_WAIT;
	for (struct emu_thread *o = e->threads; o && p->n_threads > 1;
	     o = o->next)
		if (o != t && o->proc == p && !o->busy && !o->ended)
			catch_up(e, o);
	if (!p->barrier || p->barrier_seq != seq)
		return EMU_STEP_WAIT;
	finish_last(e, t);
	emu_proc_apply(e, p, t->st);
	emu_proc_read_log(e, p);
	return EMU_STEP_ON;
}

static void esc_comm(struct emu *e, struct emu_thread *t, uint64_t a, uint64_t b)
{
	char comm[17] = { 0 };

	memcpy(comm, &a, 8);
	memcpy(comm + 8, &b, 8);
	emu_note(e, soft_comm(t->st, comm, false));
}

static enum emu_step escape(struct emu *e, struct emu_thread *t, const uint32_t *w)
{
	uint64_t a = w[1] | (uint64_t)w[2] << 32, b = w[3] | (uint64_t)w[4] << 32;
	uint32_t kind = w[0] & ~SHM_ESC;

	if (w[5] != SHM_ESC_END || (!t->st && kind != SHM_ESC_EXEC)) {
		emu_fail(e, AUX_E_FORMAT, "thread %u: damaged stream in shared "
			 "memory", t->tid);
		return EMU_STEP_END;
	}
	switch (kind) {
	case SHM_ESC_BACK:
		esc_back(e, t, a, b);
		return EMU_STEP_ON;
	case SHM_ESC_LEFT:
	case SHM_ESC_LEFT_CUT:
		esc_left(e, t, a, kind == SHM_ESC_LEFT_CUT);
		return EMU_STEP_ON;
	case SHM_ESC_SYSCALL:
		esc_syscall(e, t);
		t->proc->native_why = 0;
		return EMU_STEP_ON;
	case SHM_ESC_SYNC:
		return esc_sync(e, t, a);
	case SHM_ESC_THREAD:
		return emu_esc_thread(e, t, a);
	case SHM_ESC_FORK:
		return emu_esc_fork(e, t, a, b);
	case SHM_ESC_COMM:
		esc_comm(e, t, a, b);
		return EMU_STEP_ON;
	case SHM_ESC_EXIT:
		emu_thread_end(e, t);
		return EMU_STEP_END;
	case SHM_ESC_EXEC:
		return emu_esc_exec(e, t, a);
	case SHM_ESC_NATIVE:
		t->proc->native_why = (uint32_t)a + 1;
		memcpy(t->proc->native, t->shm->next, SHM_NAME_MAX - 1);
		return EMU_STEP_ON;
	default:
		emu_fail(e, AUX_E_FORMAT, "thread %u: unknown escape %u", t->tid,
			 kind);
		return EMU_STEP_END;
	}
}

/* ---- streams ---- */

/* Takes words buf[1..n]; returns how many were taken. */
static size_t take_words(struct emu *e, struct emu_thread *t, size_t n)
{
	size_t i = 1;
	uint32_t known;

	while (i <= n && !e->err && !t->ended) {
		uint32_t *w = t->buf + i;
		size_t k;

		known = t->proc ? t->proc->n_blocks : 0;
		k = find_other(w, n + 1 - i, known);
		if (k) {
			take_blocks(e, t, w, k);
			i += k;
			continue;
		}
		if (!(*w & SHM_ESC)) {	/* not defined yet */
			if (!emu_proc_read_log(e, t->proc))
				break;
			continue;
		}
		if (n + 1 - i < SHM_ESC_WORDS ||
		    escape(e, t, w) == EMU_STEP_WAIT)
			break;
		i += SHM_ESC_WORDS;
	}
	return i - 1;
}

static bool drain_ring(struct emu *e, struct emu_thread *t)
{
	const char *data = shm_ring_data(t->shm);
	uint64_t tail = atomic_load(&t->shm->ring.tail);
	uint64_t head = emu_ring_head(e, &t->shm->ring);
	size_t n = (head - tail) / 4, taken;

	if (!n || e->err)
		return false;
	if (n > EMU_CHUNK)
		n = EMU_CHUNK;
	/* definitions precede their use, so read them after the head */
	if (t->proc)
		emu_proc_read_log(e, t->proc);
	emu_ring_copy(data, tail, t->buf + 1, n * 4);
	taken = take_words(e, t, n);
	if (taken)
		emu_ring_advance(e, &t->shm->ring, tail + taken * 4);
	return taken;
}

bool emu_thread_drain(struct emu *e, struct emu_thread *t)
{
	bool any = false;

	if (t->ended || t->busy)
		return false;
	t->busy = true;
	if (e->truth)
		any |= emu_truth_drain(e, t);
	any |= drain_ring(e, t);
	t->busy = false;
	return any;
}

/*
 * Without a word on where it stopped a thread was killed inside its last block:
 * how far that ran nobody knows, so none of it is shown.
 */
void emu_end_flow(struct emu *e, struct emu_thread *t)
{
	uint64_t ip = t->left_ip;

	if (t->where == EMU_USER) {
		soft_killed(e->soft);
		if (t->have_last) {
			ip = t->proc->table[t->buf[0]].start;
			emu_truth_drop(t, &t->proc->table[t->buf[0]]);
		} else if (t->prev) {
			ip = t->prev->end;
		}
		t->have_last = false;
	}
	if (t->where != EMU_OUTSIDE)
		leave(e, t, ip);
}

void emu_thread_end(struct emu *e, struct emu_thread *t)
{
	if (t->ended)
		return;
	while (e->truth && emu_truth_drain(e, t))
		;
	if (t->st)
		emu_end_flow(e, t);
	emu_truth_put(e, t, t->n_held);
	if (t->st)
		soft_thread_exit(t->st);
	t->st = NULL;
	t->ended = true;
}
