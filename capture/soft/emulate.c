/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulate back end: runs a program under qemu-user with our helper object
 * in it, and turns what the helpers write into shared memory into a recording.
 *
 * One thread reads all rings in turn. Streams wait for one another only where
 * order matters (see emulate_thread.c); memory is bounded by the rings,
 * whose producers wait when they are full.
 */
#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/predict_exec.h"
#include "capture/soft/emulate.h"

#define IDLE_NS 1000000		/* sleep between looks when nothing comes */
#define NAP_NS 20000		/* a ring holds many times as much */
#define EARLY_BYTES (16u << 10)	/* less is not worth a look yet */
#define KILL_AFTER_NS 3000000000u

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

int emu_note(struct emu *e, int err)
{
	if (err < 0 && !e->err)
		e->err = err;
	return err;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- rings ---- */

/*
 * producer			consumer
 *   store entry		  load cur
 *   store cur			  load entries
 *   (x86: in that order)	  store tail: they may be overwritten
 */
uint64_t emu_ring_head(struct emu *e, struct shm_ring *r)
{
	uint64_t tail = atomic_load(&r->tail), lap, off;

	for (int i = 0; i < 1000; i++) {
		uint32_t seq = atomic_load(&r->seq);

		lap = atomic_load(&r->lap);
		off = __atomic_load_n(&r->cur, __ATOMIC_ACQUIRE) -
		      __atomic_load_n(&r->base, __ATOMIC_RELAXED);
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

/* ---- the wheel ---- */

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
static void nap_when_early(struct emu *e)
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
			"qemu-user has it)", emu_qemu_name(e), status);
}

static void sleep_a_while(struct emu *e, uint32_t seen)
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

struct wheel {
	uint64_t shown, stopped;
	bool exited;	/* the first process */
	int status;
};

static void look_at_time(struct emu *e, const struct soft_program *p,
			 struct wheel *w)
{
	uint64_t now = now_ns();

	if (p->progress && now - w->shown > SOFT_PROGRESS_MS * 1000000ul) {
		p->progress(p->progress_priv, soft_stats(e->soft));
		w->shown = now;
	}
	if (p->stop && *p->stop && !w->stopped) {
		w->stopped = now;
		kill_all(e, SIGTERM);
	} else if (w->stopped && now - w->stopped > KILL_AFTER_NS) {
		kill_all(e, SIGKILL);
	}
}

static bool finished(struct emu *e, struct wheel *w, bool idle)
{
	if (!w->exited)
		w->exited = waitpid((pid_t)e->child, &w->status, WNOHANG) ==
			    (pid_t)e->child;
	else if (idle && !e->started)
		failed_start(e, w->status);
	if (atomic_load(&e->header->gone))
		emu_fail(e, AUX_E_IO, "the traced program stopped telling what "
			 "it runs: it took auxcap for dead");
	return e->err || (w->exited && e->started && !e->threads);
}

static void turn(struct emu *e, const struct soft_program *p, struct wheel *w)
{
	uint32_t rounds = 0;
	bool idle = false;

	while (!finished(e, w, idle)) {
		uint32_t seen = atomic_load(&e->header->wake);

		if (!idle)
			nap_when_early(e);
		idle = !drain_all(e);
		emu_note(e, soft_tick(e->soft));
		if (idle)
			sleep_a_while(e, seen);
		if (idle || rounds++ % 64 == 0) {
			reap(e, idle);
			look_at_time(e, p, w);
		}
	}
	failed_inside(e);
}

static void close_all(struct emu *e, struct wheel *w)
{
	/* on failure nobody reads any more: let the program run on */
	if (e->header)
		atomic_store(&e->header->gone, 1);
	if (e->err && e->child)
		kill_all(e, SIGTERM);
	for (struct emu_thread *t = e->threads; t; t = t->next)
		emu_thread_end(e, t);
	while (e->threads)
		emu_thread_free(e, e->threads);
	while (e->procs)
		emu_proc_free(e, e->procs);
	if (e->child && !w->exited)
		waitpid((pid_t)e->child, &w->status, 0);
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
	struct wheel w = { .shown = now_ns() };

	if (emu_create_shm(&e) == 0 && emu_start_program(&e, p) == 0)
		turn(&e, p, &w);
	close_all(&e, &w);
	*status = w.status;
	return e.err;
}
