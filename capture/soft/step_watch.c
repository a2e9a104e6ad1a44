/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that stand still because of us. A traced thread runs, waits in a system call,
 * or is in a stop that waitpid() has yet to tell of; one that is in a stop which was told
 * of, and that nobody ended, would stand there for good. Then all are let go of, and run
 * on unrecorded, which is said; except that a stop in the midst of our own steps is taken
 * for one that came again.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "capture/event/target.h"
#include "capture/soft/step.h"
#include "common/clock.h"

#define LOOK_NS 500000000u
#define STALL_NS 2000000000u

char step_state(pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	return target_task_state(AT_FDCWD, path, NULL);
}

/* In a stop, of which waitpid() has nothing to tell any more. */
static bool stands(pid_t tid)
{
	siginfo_t si = { 0 };

	if (step_state(tid) != 't')
		return false;
	return !waitid(P_PID, (id_t)tid, &si, WNOHANG | WNOWAIT | WSTOPPED | WEXITED | __WALL) &&
	       !si.si_pid && step_state(tid) == 't';
}

bool step_stalled(pid_t tid, uint64_t *since)
{
	uint64_t now = clock_ns();

	if (!stands(tid))
		*since = 0;
	else if (!*since)
		*since = now;
	return *since && now - *since >= STALL_NS;
}

/* Nothing said who started it: it has run nothing yet. */
static void release_unknown(struct step *st, struct step_thread *t)
{
	soft_not_traced(st->s, (uint32_t)t->tid, "", "what started it is gone");
	ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
	step_thread_drop(st, t);
}

void step_watch(struct step *st)
{
	uint64_t now = clock_ns();
	struct step_thread *t, *next;

	if (now - st->looked_ns < LOOK_NS)
		return;
	st->looked_ns = now;
	for (t = st->threads; t; t = next) {
		next = t->next;
		if (t->listens || t->exiting || !step_stalled(t->tid, &t->stalled_ns))
			continue;
		if (!t->proc)
			release_unknown(st, t);
		else if (!st->gave_up)
			st->gave_up = t->tid;
	}
}

/* A thread that stands still is in a stop, and will not tell of another one. */
void step_release_stalled(struct step *st)
{
	struct step_thread *t, *next;

	for (t = st->threads; t; t = next) {
		next = t->next;
		if (!t->proc || t->exiting || t->listens || !stands(t->tid))
			continue;
		step_stop(st, t->tid, PTRACE_EVENT_STOP << 16 | SIGTRAP << 8 | 0x7f);
		next = st->threads;	/* its process may be gone, too */
	}
}

/* The program runs on without us: its end is still the recording's. */
void step_await_program(struct step *st)
{
	int status;
	pid_t tid;

	while ((tid = waitpid(st->main_pid, &status, __WALL)) >= 0 || errno == EINTR) {
		if (tid == st->main_pid && !WIFSTOPPED(status)) {
			st->status = status;
			return;
		}
		if (st->p->stop && *st->p->stop)
			kill(st->main_pid, SIGKILL);
	}
}
