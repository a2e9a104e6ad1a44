/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulate back end: runs a program under qemu-user with our helper object
 * in it, and turns what the helpers write into shared memory into a recording.
 *
 * One thread reads all rings in turn. Streams wait for one another only where
 * order matters (a new thread, a changed mapping); memory is bounded by the
 * rings, whose producers wait when they are full.
 *
 * From a thread's ring to soft: emu_thread_drain() copies a chunk,
 * consume_words() splits it into block ids and escapes, and ids go to
 * soft_run() unchanged, since they index the process's table. The last block is
 * always held back (buf[0], have_last): only what follows says whether it ran
 * to its end.
 *
 * The traced program can write to the shared memory (capture/qemu/shm.h);
 * damage ends the recording with an error, never in a bad memory access.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/soft/emulate.h"
#include "common/clock.h"
#include "common/diag.h"
#include "common/predict_exec.h"
#include "common/x86_insn.h"

#define IDLE_NS 1000000		/* sleep between looks when nothing comes */
#define NAP_NS 20000		/* a ring holds many times as much */
#define EARLY_BYTES (16u << 10)	/* less is not worth a look yet */
#define KILL_AFTER_NS 3000000000u
#define GIVE_UP_NS 2000000000u	/* what lives on after SIGKILL for so long */

/* ---- errors ---- */

int emu_fail(struct emu *e, int code, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!e->err)
		e->err = diag_set(e->diag, code, AUX_NO_OFFSET, "%s", text);
	return -code;
}

static int note(struct emu *e, int err)
{
	if (err < 0 && !e->err)
		e->err = err;
	return err;
}

/* ---- rings ---- */

/*
 * The position up to which r is filled, at most a ring past its tail. Read as a
 * sequence lock (seq), because lap and cur change together when the ring wraps;
 * a producer that was killed in between leaves seq odd for good, and its last
 * entries are then given up. What pairs with what is drawn in shm.h.
 */
uint64_t emu_ring_head(struct emu *e, struct shm_ring *r)
{
	uint64_t tail = atomic_load(&r->tail), lap, off;

	for (int i = 0; i < 1000; i++) {
		uint32_t seq = atomic_load(&r->seq);

		lap = atomic_load(&r->lap);
		off = __atomic_load_n(&r->cur, __ATOMIC_ACQUIRE) -
		      __atomic_load_n(&r->base, __ATOMIC_ACQUIRE);
		if ((seq & 1) || seq != atomic_load(&r->seq))
			continue;
		if (off <= SHM_RING_BYTES && off % 4 == 0 &&
		    lap + off - tail <= SHM_RING_BYTES)
			return lap + off;
		if (atomic_load(&e->header->gone))
			return tail;
		emu_fail(e, AUX_E_FORMAT, "shared memory was overwritten by the "
			 "traced program");
		return tail;
	}
	return tail;	/* its producer died while turning over */
}

void emu_ring_copy(const char *data, uint64_t pos, void *out, size_t len)
{
	size_t off = pos % SHM_RING_BYTES, first = SHM_RING_BYTES - off;

	if (first > len)
		first = len;
	memcpy(out, data + off, first);
	memcpy((char *)out + first, data, len - first);
}

/* freed changes first: a producer about to sleep on its old value does not. */
static void wake_producer(struct shm_ring *r)
{
	if (!atomic_load(&r->waiting))
		return;
	atomic_fetch_add(&r->freed, 1);
	syscall(SYS_futex, &r->freed, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/*
 * A producer whose ring was full is woken when half of it is free, or when
 * nothing else can be done: not for each piece.
 */
void emu_ring_advance(struct emu *e, struct shm_ring *r, uint64_t tail)
{
	atomic_store(&r->tail, tail);
	if (atomic_load(&r->waiting) &&
	    emu_ring_head(e, r) - tail <= SHM_RING_BYTES / 2)
		wake_producer(r);
}

/*
 * The truth of a traced thread: the address of each instruction, logged by a
 * callback of its own, apart from the blocks. Some addresses are held back
 * until it is certain that they ran.
 */

/* The first n addresses held back are certain: to the file. */
static void put_truth(struct emu *e, struct emu_thread *t, size_t n)
{
	if (!n)
		return;
	note(e, soft_truth(e->soft, t->tid, t->held, n));
	t->n_held -= n;
	memmove(t->held, t->held + n, t->n_held * sizeof(*t->held));
}

/* An UNDO removes the address before it, which has not been passed on yet: the
 * last EMU_HELD addresses always stay in held. */
static void consume_truth(struct emu *e, struct emu_thread *t, const uint64_t *w,
		       size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (w[i] == SHM_TRUTH_UNDO) {
			t->n_held -= t->n_held > 0;
			t->n_truth--;
			continue;
		}
		if (t->n_held == 4 * EMU_HELD)
			put_truth(e, t, 3 * EMU_HELD);
		t->held[t->n_held++] = w[i];
		t->n_truth++;
	}
}

/* Drops the addresses of a block that is not reported, as its end is unknown:
 * those by which the truth is ahead of the flow, if they begin with that
 * block. */
static void drop_truth(struct emu_thread *t, const struct soft_block *b)
{
	uint64_t k = t->n_truth - t->n_flow;

	if (k && k <= b->n_insns && k <= t->n_held &&
	    t->held[t->n_held - k] == b->start)
		t->n_held -= k;
}

/* Consumes the addresses as observed (--truth), to compare with the flow. */
static bool drain_truth(struct emu *e, struct emu_thread *t)
{
	uint64_t tail = atomic_load(&t->shm->truth.tail), words[2048];
	uint64_t head = emu_ring_head(e, &t->shm->truth);
	size_t n = (head - tail) / 8;

	if (!n || e->err)
		return false;
	if (n > sizeof(words) / 8)
		n = sizeof(words) / 8;
	if (!t->held)
		t->held = malloc(4 * EMU_HELD * sizeof(*t->held));
	if (!t->held) {
		emu_fail(e, AUX_E_NOMEM, "out of memory for truth");
		return false;
	}
	emu_ring_copy(shm_truth_data(t->shm), tail, words, n * 8);
	consume_truth(e, t, words, n);
	emu_ring_advance(e, &t->shm->truth, tail + n * 8);
	return true;
}

/*
 * The stream of a traced thread: block ids and escapes, in order.
 *
 * The last block of what was read is always held back: only what follows says
 * whether it ran to its end. A stream waits where it is ahead of its process's
 * log, at a SYNC that is not next, and at the birth of a thread that has not
 * begun; other streams then go first.
 */

/* ---- blocks ---- */

/* ids ran to their ends. n_flow counts like n_truth, to compare both at a
 * kill. */
static void run(struct emu *e, struct emu_thread *t, const uint32_t *ids,
		size_t n)
{
	if (!n)
		return;
	note(e, soft_run(t->st, t->proc->table, ids, n));
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

/* Only the part of the held-back block that precedes ip ran. */
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

/* id is one more iteration of a REP instruction that was reported when it
 * began: processors trace such an instruction once. */
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
static void consume_blocks(struct emu *e, struct emu_thread *t, uint32_t *ids,
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

static bool ends_in_kernel(const struct soft_block *b)
{
	return b && (b->cls == X86_SYSCALL || b->cls == X86_FAR);
}

/* Reports that the thread left user code at ip: by a system call if its last
 * instruction is one and ends there, else by an interruption. */
static void leave(struct emu *e, struct emu_thread *t, uint64_t ip)
{
	bool by_insn = ends_in_kernel(t->prev) && t->prev->end == ip;

	note(e, soft_leave(t->st, by_insn ? SOFT_LEAVE_SYSCALL :
					    SOFT_LEAVE_ASYNC, ip));
	t->where = EMU_OUTSIDE;
}

/*
 * The stream is over. If its last escape does not say where the thread stopped,
 * it was killed inside its last block: how much of that ran is unknown, so none
 * is reported.
 */
static void end_flow(struct emu *e, struct emu_thread *t)
{
	uint64_t ip = t->left_ip;

	if (t->where == EMU_USER) {
		soft_killed(e->soft);
		if (t->have_last) {
			ip = t->proc->table[t->buf[0]].start;
			drop_truth(t, &t->proc->table[t->buf[0]]);
		} else if (t->prev) {
			ip = t->prev->end;
		}
		t->have_last = false;
	}
	if (t->where != EMU_OUTSIDE)
		leave(e, t, ip);
}

/*
 * ---- threads, processes and images that begin ----
 *
 * Each is named in the stream that caused it, and its own stream is not read
 * before, so that a parent's FORK record precedes all of its child's.
 */

struct emu_thread *emu_thread_new(struct emu *e, uint32_t slot)
{
	struct emu_thread *t = calloc(1, sizeof(*t)), **at = &e->threads;

	if (!t) {
		emu_fail(e, AUX_E_NOMEM, "out of memory for a thread");
		return NULL;
	}
	t->slot = slot;
	t->shm = shm_thread(e->shm, slot);
	t->tid = t->shm->tid;
	while (*at)	/* in order of birth */
		at = &(*at)->next;
	*at = t;
	return t;
}

void emu_thread_free(struct emu *e, struct emu_thread *t)
{
	struct emu_thread **at = &e->threads;

	while (*at && *at != t)
		at = &(*at)->next;
	if (*at)
		*at = t->next;
	if (t->proc)
		t->proc->n_threads--;
	if (!e->err) {	/* else its producer may run on */
		memset(t->shm, 0, sizeof(*t->shm));
		atomic_store(&e->header->thread_taken[t->slot], 0);
	}
	free(t->held);
	free(t);
}

/* The thread of that slot runs, or *failed: it never will. */
static bool slot_started(struct emu *e, uint64_t slot, bool *failed)
{
	uint32_t state;

	if (slot >= SHM_N_THREADS) {
		*failed = true;
		return true;
	}
	state = atomic_load(&shm_thread(e->shm, (uint32_t)slot)->state);
	*failed = state == SHM_FAILED || !slot;
	return *failed || state == SHM_LIVE;
}

static void free_slot(struct emu *e, uint64_t slot)
{
	if (slot && slot < SHM_N_THREADS)
		atomic_store(&e->header->thread_taken[slot], 0);
}

/*
 * Waits until the thread of a slot has begun (*born). Else, with EMU_STEP_ON,
 * there is none: its creation failed, or t's process died before.
 */
static enum emu_step await_birth(struct emu *e, const struct emu_thread *t,
				 uint64_t slot, bool *born)
{
	bool failed;

	*born = false;
	if (!slot_started(e, slot, &failed))
		return t->proc->dead ? EMU_STEP_ON : EMU_STEP_WAIT;
	if (failed)
		free_slot(e, slot);
	*born = !failed;
	return EMU_STEP_ON;
}

static enum emu_step esc_thread(struct emu *e, struct emu_thread *t,
				    uint64_t slot)
{
	struct emu_thread *n;
	bool born;
	enum emu_step step = await_birth(e, t, slot, &born);

	if (!born)
		return step;
	n = emu_thread_new(e, (uint32_t)slot);
	if (!n)
		return EMU_STEP_END;
	n->proc = t->proc;
	n->proc->n_threads++;
	n->st = soft_thread_add(e->soft, n->proc->pid, n->tid, t->st);
	if (!n->st)
		emu_fail(e, AUX_E_NOMEM, "out of memory for a thread");
	return EMU_STEP_ON;
}

static struct emu_thread *new_process(struct emu *e, uint32_t slot)
{
	struct emu_thread *n = emu_thread_new(e, slot);
	uint32_t proc;

	if (!n)
		return NULL;
	proc = n->shm->proc;
	if (!proc || proc >= SHM_N_PROCS) {
		emu_fail(e, AUX_E_FORMAT, "thread %u: damaged shared memory",
			 n->tid);
		return NULL;
	}
	n->proc = emu_proc_new(e, proc);
	if (n->proc)
		n->proc->n_threads++;
	return n->proc ? n : NULL;
}

/* The child's table starts with the parent's first n_blocks, so these must have
 * been read from the parent's log. */
static enum emu_step esc_fork(struct emu *e, struct emu_thread *t,
				  uint64_t slot, uint64_t n_blocks)
{
	struct emu_thread *n;
	bool born;
	enum emu_step step = await_birth(e, t, slot, &born);

	if (!born)
		return step;
	if (n_blocks > t->proc->n_blocks)
		return EMU_STEP_WAIT;
	n = new_process(e, (uint32_t)slot);
	if (!n || emu_proc_inherit(e, n->proc, t->proc, (uint32_t)n_blocks) < 0)
		return EMU_STEP_END;
	n->st = soft_thread_add(e->soft, n->proc->pid, n->tid, t->st);
	if (!n->st)
		emu_fail(e, AUX_E_NOMEM, "out of memory for a process");
	return EMU_STEP_ON;
}

static void copy_comm(const struct emu_thread *t, char comm[17])
{
	memcpy(comm, t->shm->comm, 16);
	comm[16] = 0;
}

static bool is_sibling(const struct emu_thread *o, const struct emu_thread *t)
{
	return o != t && t->proc && o->proc == t->proc && !o->ended;
}

/* A sibling is at a barrier and drains t from there (esc_sync): it cannot be
 * ended now, as it has words left. */
static bool has_busy_sibling(const struct emu *e, const struct emu_thread *t)
{
	const struct emu_thread *o = e->threads;

	while (o && !(is_sibling(o, t) && o->busy))
		o = o->next;
	return o;
}

/* To their ends, in turn, as some wait for others. dead: no thread of the old
 * image that has not begun will do so. */
static void drain_siblings(struct emu *e, struct emu_thread *t)
{
	bool any = true;

	t->proc->dead = true;
	while (any) {
		any = false;
		for (struct emu_thread *o = e->threads; o; o = o->next)
			any |= is_sibling(o, t) && emu_thread_drain(e, o);
	}
}

/* exec ended the other threads of the image. Returns the thread that continues:
 * exec gives the caller the leader's tid. */
static struct soft_thread *end_siblings(struct emu *e, struct emu_thread *t)
{
	struct soft_thread *st = t->st;

	drain_siblings(e, t);
	for (struct emu_thread *o = e->threads; o; o = o->next) {
		if (!is_sibling(o, t))
			continue;
		if (o->tid != t->proc->pid) {
			emu_thread_end(e, o);
			continue;
		}
		/* the leader's id goes on, with us in it */
		end_flow(e, o);
		st = o->st;
		o->st = NULL;
		emu_thread_end(e, o);
	}
	return st;
}

static enum emu_step esc_exec(struct emu *e, struct emu_thread *t,
				  uint64_t slot)
{
	struct emu_thread *n;
	char comm[17];

	if (!slot || slot >= SHM_N_THREADS ||
	    atomic_load(&shm_thread(e->shm, (uint32_t)slot)->state) != SHM_LIVE ||
	    has_busy_sibling(e, t))
		return EMU_STEP_WAIT;
	n = new_process(e, (uint32_t)slot);
	if (!n)
		return EMU_STEP_END;
	n->st = t->st ? end_siblings(e, t) :
			soft_thread_add(e->soft, n->proc->pid, n->tid, NULL);
	if (t->st == n->st)
		t->st = NULL;
	emu_thread_end(e, t);
	e->started = true;
	copy_comm(n, comm);
	if (!n->st)
		emu_fail(e, AUX_E_NOMEM, "out of memory for a process");
	else
		note(e, soft_comm(n->st, comm, true));
	return EMU_STEP_END;
}

/* ---- escapes ---- */

/*
 * User code resumes at ip. If it resumes where it stopped, and no instruction
 * entered the kernel, the program saw nothing: qemu only left its generated
 * code. Else the stop becomes an asynchronous event of the trace.
 */
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
		note(e, soft_enter(t->st, ip, ns));
		t->prev = NULL;
		t->prev_rep = false;
	}
	t->where = EMU_USER;
	t->left_ip = ip;
	t->proc->native_why = 0;
}

/* It stopped at ip; a REP instruction there has not completed. Whether the
 * trace shows the stop is decided when it resumes. */
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

/* Drains what is in t's ring now; not what arrives in the meantime, or this
 * might not end. */
static void catch_up(struct emu *e, struct emu_thread *t)
{
	uint64_t head = emu_ring_head(e, &t->shm->ring);

	while (!t->ended && atomic_load(&t->shm->ring.tail) < head &&
	       emu_thread_drain(e, t))
		;
}

/*
 * A change of code takes effect. What the other threads of the process have run
 * before it is reported first; draining them may in turn move the log, hence
 * the second test.
 */
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

static void esc_comm(struct emu *e, struct emu_thread *t, uint64_t a,
		     uint64_t b)
{
	char comm[17] = { 0 };

	memcpy(comm, &a, 8);
	memcpy(comm + 8, &b, 8);
	note(e, soft_comm(t->st, comm, false));
}

/* Handles one escape, of which all words are in w. */
static enum emu_step escape(struct emu *e, struct emu_thread *t,
			    const uint32_t *w)
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
		return esc_thread(e, t, a);
	case SHM_ESC_FORK:
		return esc_fork(e, t, a, b);
	case SHM_ESC_COMM:
		esc_comm(e, t, a, b);
		return EMU_STEP_ON;
	case SHM_ESC_EXIT:
		emu_thread_end(e, t);
		return EMU_STEP_END;
	case SHM_ESC_EXEC:
		return esc_exec(e, t, a);
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

/* Handles the words buf[1..n]; returns how many, less than n if the stream must
 * wait for another one, or an escape is incomplete. */
static size_t consume_words(struct emu *e, struct emu_thread *t, size_t n)
{
	size_t i = 1;
	uint32_t known;

	while (i <= n && !e->err && !t->ended) {
		uint32_t *w = t->buf + i;
		size_t k;

		known = t->proc ? t->proc->n_blocks : 0;
		k = find_other(w, n + 1 - i, known);
		if (k) {
			consume_blocks(e, t, w, k);
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
	taken = consume_words(e, t, n);
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
		any |= drain_truth(e, t);
	any |= drain_ring(e, t);
	t->busy = false;
	return any;
}

/* The rest of the truth first: end_flow() compares it with the flow. */
void emu_thread_end(struct emu *e, struct emu_thread *t)
{
	if (t->ended)
		return;
	while (e->truth && drain_truth(e, t))
		;
	if (t->st)
		end_flow(e, t);
	put_truth(e, t, t->n_held);
	if (t->st)
		soft_thread_exit(t->st);
	t->st = NULL;
	t->ended = true;
}

/*
 * ---- start ----
 *
 * Finds qemu, our helper object and the program, makes the shared memory, and
 * runs qemu with the object on the program.
 */

/*
 * A memfd: it has no name that another user could open. The lock says that we
 * live; it is the process's own, and no close of another descriptor of the
 * memfd may remove it, so there is none here. Slots 0 are the launcher's.
 */
static int create_shm(struct emu *e)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
			      .l_len = 1 };
	struct shm_header *h;

	e->fd = memfd_create("auxkit", MFD_CLOEXEC);
	if (e->fd < 0 || ftruncate(e->fd, (off_t)SHM_BYTES) ||
	    fcntl(e->fd, F_SETLK, &lock))
		return emu_fail(e, AUX_E_IO, "shared memory: %s",
				strerror(errno));
	e->shm = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_NORESERVE, e->fd, 0);
	if (e->shm == MAP_FAILED) {
		e->shm = NULL;
		return emu_fail(e, AUX_E_IO, "shared memory: %s",
				strerror(errno));
	}
	h = e->header = e->shm;
	h->magic = SHM_MAGIC;
	h->version = SHM_VERSION;
	h->truth = e->truth;
	h->machine = (uint32_t)e->machine;
	h->thread_taken[0] = h->proc_taken[0] = 1;
	return 0;
}

/* Looks name up as a shell does; 0 with out filled. */
static int find_program(const char *name, char *out, size_t size)
{
	const char *path = getenv("PATH");
	size_t n;

	if (strchr(name, '/'))
		return (size_t)snprintf(out, size, "%s", name) < size &&
		       !access(out, F_OK) ? 0 : -1;
	for (path = path ? path : "/usr/bin:/bin";; path += n + 1) {
		n = strcspn(path, ":");
		if ((size_t)snprintf(out, size, "%.*s%s%s", (int)n, path,
				     n ? "/" : "", name) < size &&
		    !access(out, X_OK))
			return 0;
		if (!path[n])
			return -1;
	}
}

/* A descriptor number that programs rarely use, and shells do not pass on. */
static int high_fd(int fd)
{
	struct rlimit lim;
	int at = 200;

	if (!getrlimit(RLIMIT_NOFILE, &lim) && lim.rlim_cur != RLIM_INFINITY &&
	    lim.rlim_cur < 65536 && (lim.rlim_cur > 300 || lim.rlim_cur <= 210))
		at = (int)lim.rlim_cur - (lim.rlim_cur > 40 ? 20 : 4);
	return fd < 0 || at < 3 ? -1 : fcntl(fd, F_DUPFD, at);
}

/*
 * The link /proc/thread-self, not what it leads to: its text names whoever
 * reads it, in the pid namespace of this /proc, and nothing can be opened
 * through it. -1: this /proc is of another pid namespace than auxcap.
 */
static int open_who(void)
{
	int fd = open("/proc/thread-self", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char text[64] = "";
	unsigned pid = 0;

	if (fd >= 0 && readlinkat(fd, "", text, sizeof(text) - 1) > 0 &&
	    sscanf(text, "%u/", &pid) == 1 && pid == (unsigned)getpid())
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

struct command {
	char qemu[PATH_MAX], program[PATH_MAX], helper[PATH_MAX];
	struct soft_exec_on on;
	struct soft_exec x;
};

static const char *qemu_name(const struct emu *e)
{
	return e->machine == EM_AARCH64 ? "qemu-aarch64" : "qemu-x86_64";
}

/*
 * Where the loader and the libraries of another machine's programs are: as
 * qemu's user says, or where cross compilers of Debian keep them when this
 * machine has none at their own place.
 */
static void find_sysroot(const struct emu *e)
{
	bool arm = e->machine == EM_AARCH64;
	const char *set = getenv("QEMU_LD_PREFIX");

	if (e->machine == SOFT_HOST)
		return;
	e->header->always = set != NULL;
	if (!set && access(arm ? "/lib/ld-linux-aarch64.so.1" :
			   "/lib64/ld-linux-x86-64.so.2", F_OK))
		set = arm ? "/usr/aarch64-linux-gnu" : "/usr/x86_64-linux-gnu";
	if (set && strlen(set) < SHM_PATH_MAX && !access(set, F_OK))
		memcpy(e->header->sysroot, set, strlen(set) + 1);
}

/* Whether soft_pt without emulation is another way. */
static bool can_step(const struct emu *e)
{
	return e->machine == EM_X86_64 && SOFT_HOST == EM_X86_64;
}

/* A back end that runs what the emulator cannot. */
static const char *other_way(const struct emu *e, uint32_t why)
{
	if (!can_step(e))
		return "";
	if (why == SOFT_WHY_SETUID)
		return "; -e soft_pt/native/u runs it, without these unless you "
		       "are root";
	return why == SOFT_WHY_HELPER || why == SOFT_WHY_DELETED ?
		       "; -e soft_pt/native/u runs it" : "";
}

/* What fails here is mostly the installation: the messages say what is
 * missing. */
static int find_parts(struct emu *e, const struct soft_program *p,
		      struct command *c)
{
	int ret;

	if (find_program(qemu_name(e), c->qemu, sizeof(c->qemu)) < 0)
		return emu_fail(e, AUX_E_TARGET, "%s is not installed: install "
				"it (Debian: apt install qemu-user)%s",
				qemu_name(e), can_step(e) ?
				", or use -e soft_pt/native/u, which needs none" : "");
	find_sysroot(e);
	c->on = (struct soft_exec_on){ e->machine, e->header->sysroot,
				       e->header->always };
	snprintf(c->helper, sizeof(c->helper), "%s/auxkit-qemu.so", p->self_dir);
	if (access(c->helper, R_OK))
		return emu_fail(e, AUX_E_TARGET, "%s: %s", c->helper,
				strerror(errno));
	if (find_program(p->argv[0], c->program, sizeof(c->program)) < 0)
		return emu_fail(e, AUX_E_TARGET, "%s: no such program",
				p->argv[0]);
	ret = soft_exec_resolve(&c->x, &c->on, c->program, p->argv, NULL);
	if (ret == SOFT_EXEC_NATIVE)
		return emu_fail(e, AUX_E_TARGET, "%s: cannot be traced: %s%s",
				p->argv[0], soft_why_text(c->x.why, e->machine),
				other_way(e, c->x.why));
	if (ret < 0)
		return emu_fail(e, AUX_E_TARGET, "%s: cannot be executed%s",
				p->argv[0], e->machine != SOFT_HOST ?
				" (if its loader is missing, QEMU_LD_PREFIX "
				"says below which directory it is)" : "");
	return 0;
}

/* In the child. The descriptors of the copies are inherited, as F_DUPFD clears
 * CLOEXEC. */
static void exec_qemu(const struct emu *e, const struct command *c)
{
	char plugin[PATH_MAX + 128];
	char **argv, **envp;
	int fd = high_fd(e->fd), who = high_fd(open_who());

	snprintf(plugin, sizeof(plugin), "%s,fd=%d,who=%d,slot=0,argc=%zu",
		 c->helper, fd, who, c->x.argc);
	if (fd >= 0 && !soft_exec_command(&c->x, &c->on, c->qemu, plugin,
					  environ, &argv, &envp))
		execve(c->qemu, argv, envp);
	_exit(127);
}

/* The first qemu is the child; what it runs follows through shared memory. */
static int start_program(struct emu *e, const struct soft_program *p)
{
	struct command *c = calloc(1, sizeof(*c));
	const char *slash;
	pid_t pid;
	int err;

	if (!c)
		return emu_fail(e, AUX_E_NOMEM, "out of memory");
	err = find_parts(e, p, c);
	if (err < 0)
		goto out;
	slash = strrchr(c->program, '/');
	memcpy(shm_thread(e->shm, 0)->comm, slash ? slash + 1 : c->program,
	       strnlen(slash ? slash + 1 : c->program, 15));
	if (!emu_thread_new(e, 0)) {
		err = e->err;
		goto out;
	}
	pid = fork();
	if (!pid)
		exec_qemu(e, c);
	if (pid < 0)
		err = emu_fail(e, AUX_E_TARGET, "fork: %s", strerror(errno));
	else
		e->child = (uint32_t)pid;
out:
	soft_exec_fini(&c->x);
	free(c);
	return err;
}

/* ---- the loop over all rings ---- */

static bool drain_all(struct emu *e)
{
	bool any = false;

	for (struct emu_thread *t = e->threads; t; t = t->next)
		any |= emu_thread_drain(e, t);
	return any;
}

static uint64_t backlog(struct emu *e, struct shm_ring *r)
{
	return emu_ring_head(e, r) - atomic_load(&r->tail);
}

/*
 * Lets something gather: looking at a ring all the time takes the producer's
 * cache line away from it, and to wake us would cost it a system call.
 */
static void nap_if_little(struct emu *e)
{
	struct timespec ts = { .tv_nsec = NAP_NS };
	uint64_t n = 0;

	for (struct emu_thread *t = e->threads; t && n < EARLY_BYTES; t = t->next)
		n += backlog(e, &t->shm->ring) +
		     (e->truth ? backlog(e, &t->shm->truth) : 0);
	if (n < EARLY_BYTES)
		nanosleep(&ts, NULL);
}

static bool is_dead(struct emu_proc *p)
{
	struct pollfd pfd = { .fd = p->pidfd, .events = POLLIN };

	if (!p->dead)
		p->dead = p->pidfd < 0 || poll(&pfd, 1, 0) > 0;
	return p->dead;
}

/* Its rings are empty: ends its threads, and reports an exec that was not
 * traced. */
static void end_process(struct emu *e, struct emu_proc *p)
{
	if (p->native_why)
		soft_not_traced(e->soft, p->pid, p->native,
				soft_why_text(p->native_why - 1, e->machine));
	for (struct emu_thread *t = e->threads; t; t = t->next)
		if (t->proc == p)
			emu_thread_end(e, t);
}

static void free_ended(struct emu *e)
{
	struct emu_thread *t, *tn;
	struct emu_proc *p, *pn;

	for (t = e->threads; t; t = tn) {
		tn = t->next;
		if (t->ended)
			emu_thread_free(e, t);
	}
	for (p = e->procs; p; p = pn) {
		pn = p->next;
		if (!p->n_threads && is_dead(p))
			emu_proc_free(e, p);
	}
}

/*
 * Ends the processes that were seen dead before a look at all rings found
 * nothing: no more can come from them.
 */
static void reap(struct emu *e, bool idle)
{
	for (struct emu_proc *p = e->procs; p; p = p->next) {
		bool was_dead = p->dead;

		if (is_dead(p) && was_dead && idle)
			end_process(e, p);
	}
	free_ended(e);
}

/* A helper object ended its process, and said why. */
static bool failed_inside(struct emu *e)
{
	char text[sizeof(e->header->error)];

	if (!atomic_load(&e->header->failed))
		return false;
	memcpy(text, e->header->error, sizeof(text));
	text[sizeof(text) - 1] = 0;
	emu_fail(e, AUX_E_TARGET, "%s", text);
	return true;
}

/* The first qemu ended before the program began. */
static int failed_start(struct emu *e, int status)
{
	if (failed_inside(e))
		return e->err;
	return emu_fail(e, AUX_E_TARGET, "%s could not run the program (status "
			"%#x); its plugin interface is needed (Debian 12's "
			"qemu-user has it)%s", qemu_name(e), status,
			can_step(e) ?
			", or -e soft_pt/native/u, which needs no qemu" : "");
}

/*
 * Sleeps until a producer wakes us, at most a millisecond, as producers do so
 * only each 64 KiB. seen was read before the rings were found empty, so no
 * wake-up is lost.
 */
static void sleep_idle(struct emu *e, uint32_t seen)
{
	struct timespec ts = { .tv_nsec = IDLE_NS };

	for (struct emu_thread *t = e->threads; t; t = t->next) {
		wake_producer(&t->shm->ring);
		wake_producer(&t->shm->truth);
	}
	for (struct emu_proc *p = e->procs; p; p = p->next)
		wake_producer(&p->shm->log);
	atomic_store(&e->header->sleeping, 1);
	syscall(SYS_futex, &e->header->wake, FUTEX_WAIT, seen, &ts, NULL, 0);
	atomic_store(&e->header->sleeping, 0);
}

static void kill_all(const struct emu *e, int sig)
{
	if (!e->procs && e->child)
		kill((pid_t)e->child, sig);
	for (const struct emu_proc *p = e->procs; p; p = p->next)
		if (!p->dead && p->pidfd >= 0)
			syscall(SYS_pidfd_send_signal, p->pidfd, sig, NULL, 0);
}

/* What the loop knows besides the streams; on its thread's stack. */
struct loop {
	uint64_t shown;
	uint64_t stopped, killed;	/* since when; 0: not */
	bool exited;	/* the first process */
	int status;
};

/*
 * The program shall end: SIGTERM first, SIGKILL if that does not help or the
 * user is impatient. What has SIGKILL and lives on (it may sleep in the kernel
 * for good) is not waited for. False: so it is.
 */
static bool end_all(struct emu *e, struct loop *w, int asked)
{
	uint64_t now = clock_ns();

	if (!w->stopped) {
		w->stopped = now;
		kill_all(e, SIGTERM);
	} else if (asked > 1 || now - w->stopped > KILL_AFTER_NS) {
		w->killed = w->killed ? w->killed : now;
		kill_all(e, SIGKILL);
	}
	return !w->killed || now - w->killed < GIVE_UP_NS;
}

/* Progress, and the user's wish to end. False: enough. */
static bool check_time(struct emu *e, const struct soft_program *p,
			 struct loop *w)
{
	uint64_t now = clock_ns();

	if (p->progress && now - w->shown > SOFT_PROGRESS_MS * 1000000ul) {
		p->progress(p->progress_priv, soft_stats(e->soft));
		w->shown = now;
	}
	return !p->stop || !*p->stop || end_all(e, w, *p->stop);
}

/* The program has ended and everything is read, or an error ends the
 * recording. */
static bool finished(struct emu *e, struct loop *w, bool idle)
{
	if (!w->exited)
		w->exited = waitpid((pid_t)e->child, &w->status, WNOHANG) ==
			    (pid_t)e->child;
	else if (idle && !e->started)
		failed_start(e, w->status);
	if (atomic_load(&e->header->gone))
		emu_fail(e, AUX_E_IO, "the traced program stopped reporting "
			 "what it runs, as it found auxcap dead: did it write "
			 "to the memory or close the descriptor that it shares "
			 "with auxcap?%s", can_step(e) ?
			 " -e soft_pt/step/u shares none" : "");
	return e->err || (w->exited && e->started && !e->threads);
}

static void drain_until_end(struct emu *e, const struct soft_program *p, struct loop *w)
{
	uint32_t rounds = 0;
	bool idle = false;

	while (!finished(e, w, idle)) {
		uint32_t seen = atomic_load(&e->header->wake);

		if (!idle)
			nap_if_little(e);
		idle = !drain_all(e);
		note(e, soft_tick(e->soft));
		if (idle)
			sleep_idle(e, seen);
		if (idle || rounds++ % 64 == 0) {
			reap(e, idle);
			if (!check_time(e, p, w))
				break;
		}
	}
	failed_inside(e);
}

/* What still lives is not traced from here on; the file says so. */
static void report_left(struct emu *e)
{
	for (struct emu_proc *p = e->procs; p; p = p->next)
		if (!is_dead(p))
			soft_not_traced(e->soft, p->pid, "",
					"it did not end on SIGKILL");
}

/* The status of the first process. After an error it is told to end. */
static void await_child(struct emu *e, const struct soft_program *p,
			struct loop *w)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	while (e->child && !w->exited) {
		w->exited = waitpid((pid_t)e->child, &w->status, WNOHANG) ==
			    (pid_t)e->child;
		if (w->exited || !end_all(e, w, p->stop ? *p->stop : 0))
			return;
		nanosleep(&ms, NULL);
	}
}

static void close_all(struct emu *e, const struct soft_program *p,
		      struct loop *w)
{
	/* after a failure producers must not wait for room that will not
	 * come */
	if (e->header)
		atomic_store(&e->header->gone, 1);
	if (w->killed)
		report_left(e);
	await_child(e, p, w);
	/* qemu ends as the program did; of its other processes nobody says how */
	if (w->exited && e->started)
		note(e, soft_ended(e->soft, (uint32_t)e->child, (uint32_t)e->child,
				   w->status));
	for (struct emu_thread *t = e->threads; t; t = t->next)
		emu_thread_end(e, t);
	while (e->threads)
		emu_thread_free(e, e->threads);
	while (e->procs)
		emu_proc_free(e, e->procs);
	if (e->shm)
		munmap(e->shm, SHM_BYTES);
	if (e->fd >= 0)
		close(e->fd);
}

int soft_emulate_run(struct soft *s, const struct soft_program *p, int *status,
		     struct aux_diag *diag)
{
	struct emu e = {
		.soft = s, .diag = diag, .fd = -1, .truth = p->truth,
		.machine = p->machine ? p->machine : EM_X86_64,
	};
	struct loop w = { .shown = clock_ns() };

	if (create_shm(&e) == 0 && start_program(&e, p) == 0)
		drain_until_end(&e, p, &w);
	close_all(&e, p, &w);
	*status = w.status;
	return e.err;
}
