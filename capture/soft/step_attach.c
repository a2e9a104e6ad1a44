/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stepping through processes that run already, and letting them go.
 *
 * To attach: every thread is seized and interrupted. None runs on before all
 * have stopped, or sleep in the kernel where they cannot stop: so what the
 * recording says first (names, mappings) holds for the first instruction of
 * each. Who sleeps joins when it comes back.
 *
 * To let go: only a thread in a stop can be detached, and a trap of the last
 * step that is still queued would kill the program: it is taken first. The
 * kernel clears the trap flag at a detach, but not when the tracer dies: then
 * each stepped thread gets a SIGTRAP that nobody takes. So auxcap's own death
 * must reach us as a signal (capture/cmd/record.c).
 *
 * Specification: ptrace(2); __ptrace_unlink(), exit_ptrace() and get_signal()
 * of Linux 6.1.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/event/target.h"
#include "capture/soft/step.h"
#include "common/clock.h"
#include "common/diag.h"

#define GATHER_NS 1000000000u	/* for all to stop */
#define AGAIN_NS 100000000u	/* between two interrupts of who is left */
#define LET_GO_NS 2000000000u	/* for all to stop, after a second signal */
#define KTHREADD 2		/* the kernel's threads are its children */
#define END_NS 3000000000u	/* for the program beside them to end */

static int refuse(struct aux_diag *diag, pid_t tid, int err)
{
	char state = 0;
	long tracer = step_status(tid, "TracerPid", &state);
	long parent = step_status(tid, "PPid", &state);

	if (tracer > 0)
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"thread %d is traced already, by process %ld "
				"(a debugger, strace?): end that first", tid,
				tracer);
	if (step_status(tid, "VmSize", &state) < 0)
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				parent == 0 || parent == KTHREADD ?
				"thread %d has no user code: it belongs to the "
				"kernel" :
				"thread %d is ending: it has no memory any more",
				tid);
	return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
			"cannot trace thread %d: %s (it must be yours, or be "
			"root: sudo; and /proc/sys/kernel/yama/ptrace_scope "
			"must be 0)", tid, strerror(err));
}

static int refuse_32bit(struct aux_diag *diag, pid_t pid)
{
	return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
			"process %d cannot be traced: a 32-bit program", pid);
}

/* A thread that ended since it was listed is no error, nor one that came to us
 * with its creator. */
static int seize(struct step *st, pid_t tid)
{
	const long options = STEP_OPTIONS;
	struct step_thread *t;
	char state = 0;
	int err;

	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)options)) {
		err = errno;
		if (err == ESRCH)
			return 0;
		if (step_status(tid, "TracerPid", &state) != getpid())
			return !state || state == 'Z' || state == 'X' ? 0 :
				       refuse(st->diag, tid, err);
	}
	t = step_thread_new(st, NULL, tid);
	if (!t)
		return -AUX_E_NOMEM;
	t->fresh = true;
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	return 0;
}

static int seize_all(struct step *st)
{
	struct target *tg = st->p->target;
	int ret = 1;
	size_t i;

	while (ret > 0) {
		for (i = 0; i < tg->n_tids; i++) {
			if (step_thread_find(st, tg->tids[i]))
				continue;
			ret = seize(st, tg->tids[i]);
			if (ret)
				return ret;
		}
		ret = target_rescan(tg, st->diag);
	}
	return ret;
}

static int seize_below(void *priv, pid_t tid)
{
	struct step *st = priv;
	int ret = step_thread_find(st, tid) ? 0 : seize(st, tid);

	if (ret != -AUX_E_TARGET)
		return ret;
	soft_not_traced(st->s, (uint32_t)step_tgid_of(tid), "", "it may not be traced");
	return 0;
}

static size_t count_threads(const struct step *st)
{
	const struct step_thread *t;
	size_t n = 0;

	for (t = st->threads; t; t = t->next)
		n++;
	return n;
}

/* What begins meanwhile comes with its creator, or is there at the next look. */
static int seize_tree(struct step *st)
{
	size_t n = 0;
	int ret = 0;

	do
		n = count_threads(st);
	while (!(ret = soft_below(seize_below, st)) && count_threads(st) > n);
	return ret;
}

/* ---- the first stop of each ---- */

/* The thread that execs takes its leader's tid; the leader vanishes. */
static void follow_exec(struct step *st, struct step_thread *t)
{
	unsigned long old = 0;
	struct step_thread *o;

	if (ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &old) ||
	    (pid_t)old == t->tid)
		return;
	o = step_thread_find(st, (pid_t)old);
	if (o)
		step_thread_drop(st, o);
}

/* A child that comes with its creator: it stops by itself. */
static int expect_child(struct step *st, const struct step_thread *t)
{
	unsigned long tid = 0;
	struct step_thread *n;

	if (ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &tid) ||
	    step_thread_find(st, (pid_t)tid))
		return 0;
	n = step_thread_new(st, NULL, (pid_t)tid);
	if (!n)
		return -AUX_E_NOMEM;
	n->fresh = true;
	return 0;
}

static int first_stop(struct step *st, pid_t tid, int status)
{
	struct step_thread *t = step_thread_find(st, tid);
	int event = status >> 16;

	if (!WIFSTOPPED(status)) {
		if (t)
			step_thread_drop(st, t);
		return 0;
	}
	if (!t && !(t = step_thread_new(st, NULL, tid)))
		return -AUX_E_NOMEM;
	t->fresh = true;
	t->first = status;
	if (event == PTRACE_EVENT_EXEC)
		follow_exec(st, t);
	if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
	    event == PTRACE_EVENT_CLONE)
		return expect_child(st, t);
	return 0;
}

static bool all_stopped(const struct step *st)
{
	const struct step_thread *t = st->threads;

	while (t && t->first)
		t = t->next;
	return !t;
}

bool step_beside(struct step *st, pid_t tid, int status)
{
	struct target *tg = st->p->target;

	if (!tg || !tg->child || tid != tg->child)
		return false;
	tg->child_reaped = true;
	tg->child_status = status;
	return true;
}

/* Waits until all have stopped; those that sleep in the kernel may take long,
 * and run no code there. */
static int gather(struct step *st)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	uint64_t since = clock_ns();
	int status, err = 0;
	pid_t tid;

	while (!err && !all_stopped(st) && clock_ns() - since < GATHER_NS) {
		tid = waitpid(-1, &status, __WALL | WNOHANG);
		if (tid > 0 && !step_beside(st, tid, status))
			err = first_stop(st, tid, status);
		else if (tid <= 0)
			nanosleep(&ms, NULL);
	}
	return err;
}

/* ---- what exists ---- */

static struct soft_thread *any_of(const struct step *st,
				  const struct step_process *proc)
{
	const struct step_thread *t = st->threads;

	while (t && (t->proc != proc || !t->soft))
		t = t->next;
	return t ? t->soft : NULL;
}

/* Name and, with a process's first thread, its mappings. */
static int describe(struct step *st, struct step_thread *t, pid_t pid)
{
	struct soft_thread *first;
	int err;

	t->proc = step_process_get(st, pid, NULL);
	if (!t->proc)
		return -AUX_E_NOMEM;
	t->proc->n_threads++;
	t->proc->ran_before = true;
	first = any_of(st, t->proc);
	t->soft = soft_thread_add(st->s, (uint32_t)pid, (uint32_t)t->tid, first);
	if (!t->soft)
		return -AUX_E_NOMEM;
	step_report_comm(t);
	err = first ? 0 : step_maps_update(t, true);
	return err ? err : st->error;
}

/* Leaders first: readers meet no thread before its process. */
static int describe_all(struct step *st)
{
	struct step_thread *t;
	int err = 0, pass;
	pid_t pid;

	for (pass = 0; pass < 2; pass++)
		for (t = st->threads; t && !err; t = t->next) {
			pid = step_tgid_of(t->tid);
			if (!t->soft && (pass || pid == t->tid))
				err = describe(st, t, pid);
		}
	return err;
}

static int name_tids(struct step *st)
{
	const struct step_thread *t;
	size_t n = count_threads(st);
	uint32_t *tids;
	int err;

	tids = calloc(n ? n : 1, sizeof(*tids));
	if (!tids)
		return -AUX_E_NOMEM;
	for (n = 0, t = st->threads; t; t = t->next)
		tids[n++] = (uint32_t)t->tid;
	err = soft_attach(st->s, tids, n);
	free(tids);
	return err;
}

/* All that have stopped run on, by steps, each as its stop demands. */
static int start_all(struct step *st)
{
	struct step_thread *t, *next;
	int err = 0, first;

	for (t = st->threads; t && !err; t = next) {
		next = t->next;
		first = t->first;
		t->first = 0;
		if (first && step_is_32bit(t->tid))
			err = refuse_32bit(st->diag, t->proc->pid);
		else if (first)
			err = step_stop(st, t->tid, first);
	}
	return err;
}

int soft_step_check(const struct target *tg, struct aux_diag *diag)
{
	unsigned char elf[5];
	char state = 0;
	size_t i;
	int fd;

	for (i = 0; i < tg->n_watches; i++) {
		const struct target_watch *w = &tg->watches[i];

		fd = openat(w->proc_fd, "mem", O_RDONLY | O_CLOEXEC);
		if (fd < 0 || step_status(w->id, "TracerPid", &state) > 0 ||
		    step_status(w->id, "VmSize", &state) < 0) {
			int err = errno;

			if (fd >= 0)
				close(fd);
			return refuse(diag, w->id, err);
		}
		close(fd);
		fd = openat(w->proc_fd, "exe", O_RDONLY | O_CLOEXEC);
		elf[4] = 0;
		if (fd >= 0 && read(fd, elf, sizeof(elf)) != sizeof(elf))
			elf[4] = 0;
		if (fd >= 0)
			close(fd);
		if (elf[4] == ELFCLASS32)
			return refuse_32bit(diag, w->id);
	}
	return 0;
}

int step_attach(struct step *st)
{
	int err = st->p->target ? seize_all(st) : seize_tree(st);

	st->started = true;
	if (!err)
		err = gather(st);
	if (!err)
		err = name_tids(st);
	if (!err)
		err = describe_all(st);
	if (!err && st->p->target)
		err = target_start(st->p->target, st->diag);
	return err ? err : start_all(st);
}

/*
 * ---- the end ----
 */

static bool is_queued(pid_t tid, bool int3)
{
	struct __ptrace_peeksiginfo_args at = { .nr = 1 };
	siginfo_t si;

	for (; ptrace(PTRACE_PEEKSIGINFO, tid, &at, &si) == 1; at.off++)
		if (step_trap_is(&si, int3))
			return true;
	return false;
}

bool step_trap_queued(pid_t tid)
{
	return is_queued(tid, false);
}

bool step_int3_queued(pid_t tid)
{
	return is_queued(tid, true);
}

int step_let_go(struct step_thread *t, int sig)
{
	struct step *st = t->proc->step;

	if (step_trap_queued(t->tid)) {
		t->running = true;
		t->injected |= sig != 0;
		/* not by a step, whose flag could stay: see below */
		ptrace(PTRACE_CONT, t->tid, NULL, (void *)(intptr_t)sig);
		return st->error;
	}
	step_finish(t);
	if (st->gave_up && t->soft)
		step_note(t, soft_abandon(t->soft, t->ip));
	t->soft = NULL;		/* it lives on: no record of its end */
	if (t->proc->n_threads == 1)
		step_native_remove(t, sig);
	step_clear_trap_flag(t);
	if (t->trap_blocked)
		step_mask_trap(t->tid, true);
	ptrace(PTRACE_DETACH, t->tid, NULL, (void *)(intptr_t)sig);
	step_thread_drop(st, t);
	return st->error;
}

/* Those whose creator ended before it was said whose they are: they have run
 * nothing yet. */
static void let_go_unknown(struct step *st)
{
	struct step_thread *t, *next;

	for (t = st->threads; t; t = next) {
		next = t->next;
		if (t->proc || ptrace(PTRACE_DETACH, t->tid, NULL, NULL))
			continue;
		step_thread_drop(st, t);
	}
}

/* The leader of a process stays a zombie as long as other threads live, which
 * we let go: it is not waited for. */
static struct step_thread *left(const struct step *st)
{
	struct step_thread *t = st->threads;

	while (t && t->exiting)
		t = t->next;
	return t;
}

bool step_detach(struct step *st)
{
	uint64_t now = clock_ns();
	struct step_thread *t;

	if (!st->killed_ns)
		st->killed_ns = now;
	if (st->kill_ns && now - st->kill_ns < AGAIN_NS)
		return left(st);
	st->detaching = true;
	st->kill_ns = now;
	if (st->gave_up)
		step_release_stalled(st);
	for (t = st->threads; t; t = t->next)
		ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	if (now - st->killed_ns > GATHER_NS)
		let_go_unknown(st);
	t = left(st);
	if (!t || !st->p->stop || *st->p->stop < 2 ||
	    now - st->killed_ns < LET_GO_NS)
		return t;
	if (!st->error)
		st->error = diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
				     "thread %d sleeps in the kernel and could "
				     "not be let go of: it may get a SIGTRAP "
				     "when it wakes up", t->tid);
	return false;
}

bool step_goes_on(struct step *st)
{
	const struct target *tg = st->p->target;

	if (st->error || (st->p->stop && *st->p->stop) ||
	    (tg->child && tg->child_reaped) || st->gave_up)
		return step_detach(st);
	return left(st);
}

#define END_MS 200	/* from the stop at its exit until a thread has ended */

bool step_has_ended(const struct step_thread *t, int *status)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	for (unsigned i = 0; i < END_MS; i++) {
		pid_t got = waitpid(t->tid, status, __WALL | WNOHANG);

		if (got == t->tid && !WIFSTOPPED(*status))
			return true;
		if (got || !t->exiting)	/* a stop, or nobody's */
			return false;
		nanosleep(&ms, NULL);
	}
	return false;
}

/* The program beside them has nothing to wait for any more. */
int step_end_beside(struct step *st)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	struct target *tg = st->p->target;
	uint64_t since = clock_ns();
	int status = 0;

	target_kill(tg, SIGTERM);
	while (!target_child_ended(tg, &status)) {
		if (clock_ns() - since > END_NS)
			target_kill(tg, SIGKILL);
		nanosleep(&ms, NULL);
	}
	return status;
}
