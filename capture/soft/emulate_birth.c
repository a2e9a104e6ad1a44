/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads, processes and images that begin: each is named in the stream that
 * caused it, so its own stream is not read before its time.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/soft/emulate.h"

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

enum emu_step emu_esc_thread(struct emu *e, struct emu_thread *t, uint64_t slot)
{
	struct emu_thread *n;
	bool failed;

	if (!slot_started(e, slot, &failed))
		return t->proc->dead ? EMU_STEP_ON : EMU_STEP_WAIT;
	if (failed) {
		free_slot(e, slot);
		return EMU_STEP_ON;
	}
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

enum emu_step emu_esc_fork(struct emu *e, struct emu_thread *t, uint64_t slot,
			  uint64_t n_blocks)
{
	struct emu_thread *n;
	bool failed;

	if (!slot_started(e, slot, &failed))
		return t->proc->dead ? EMU_STEP_ON : EMU_STEP_WAIT;
	if (failed) {
		free_slot(e, slot);
		return EMU_STEP_ON;
	}
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

static void take_comm(const struct emu_thread *t, char comm[17])
{
	memcpy(comm, t->shm->comm, 16);
	comm[16] = 0;
}

static bool is_sibling(const struct emu_thread *o, const struct emu_thread *t)
{
	return o != t && t->proc && o->proc == t->proc && !o->ended;
}

/* One of them is where it lets t catch up: what it ran on is not read yet. */
static bool has_busy_sibling(const struct emu *e, const struct emu_thread *t)
{
	const struct emu_thread *o = e->threads;

	while (o && !(is_sibling(o, t) && o->busy))
		o = o->next;
	return o;
}

/* To the end: some wait for others. Nobody comes to the old image any more. */
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

/* The other threads of an image that was replaced are no more. */
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
		emu_end_flow(e, o);
		st = o->st;
		o->st = NULL;
		emu_thread_end(e, o);
	}
	return st;
}

enum emu_step emu_esc_exec(struct emu *e, struct emu_thread *t, uint64_t slot)
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
	take_comm(n, comm);
	if (!n->st)
		emu_fail(e, AUX_E_NOMEM, "out of memory for a process");
	else
		emu_note(e, soft_comm(n->st, comm, true));
	return EMU_STEP_END;
}
