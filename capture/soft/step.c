/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_step: the ptrace back end. The program runs on this CPU, one instruction
 * at a time, with all its threads and children.
 *
 * The kernel's order of stops is kept: whatever a thread did before an event
 * (fork, exec, exit) is reported before the event. Specification: ptrace(2).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/soft/step.h"

#define OPTIONS (PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE |             \
		 PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |            \
		 PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT)
#define TICK_NS 100000000u

/* In the child: waits until it is traced, then becomes the program. */
static void become(char *const *argv, const int go[2], int failed)
{
	char c;
	int err;

	close(go[1]);
	while (read(go[0], &c, 1) < 0 && errno == EINTR)
		;
	close(go[0]);
	execvp(argv[0], argv);
	err = errno;
	if (write(failed, &err, sizeof(err)) < 0)
		err = 0;
	_exit(127);
}

static int launch(struct step *st, int *failed)
{
	int go[2], fail[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) || pipe2(fail, O_CLOEXEC))
		return diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"cannot make a pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"cannot fork: %s", strerror(errno));
	if (!pid)
		become(st->p->argv, go, fail[1]);
	close(go[0]);
	close(fail[1]);
	*failed = fail[0];
	st->main_pid = pid;
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)OPTIONS)) {
		int err = errno;

		kill(pid, SIGKILL);
		close(go[1]);
		return diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"cannot trace the program: %s (is ptrace "
				"allowed? see "
				"/proc/sys/kernel/yama/ptrace_scope)",
				strerror(err));
	}
	close(go[1]);
	return 0;
}

static pid_t tgid_of(pid_t tid)
{
	char path[64], line[256];
	int tgid = tid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	f = fopen(path, "re");
	if (!f)
		return tid;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Tgid: %d", &tgid) == 1)
			break;
	fclose(f);
	return tgid;
}

static struct step_process *get_process(struct step *st, pid_t pid,
					const struct step_process *parent)
{
	struct step_process *proc;

	for (proc = st->procs; proc; proc = proc->next)
		if (proc->pid == pid)
			return proc;
	proc = step_process_new(st, pid, parent);
	if (!proc)
		return NULL;
	proc->next = st->procs;
	st->procs = proc;
	return proc;
}

static void report_exec_comm(struct step *st, struct step_thread *t)
{
	char path[64], comm[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", t->tid);
	f = fopen(path, "re");
	if (f && fgets(comm, sizeof(comm), f))
		comm[strcspn(comm, "\n")] = '\0';
	if (f)
		fclose(f);
	if (soft_comm(t->soft, comm, true) < 0)
		st->error = -AUX_E_IO;
}

static uint64_t ip_of(pid_t tid)
{
	return (uint64_t)ptrace(PTRACE_PEEKUSER, tid,
				offsetof(struct user_regs_struct, rip), NULL);
}

static int resume_fresh(struct step_thread *t)
{
	t->ip = ip_of(t->tid);
	t->insn.size = 0;
	t->in_syscall = t->injected = t->restart = false;
	return step_resume(t, 0);
}

/* A thread whose creator was seen, and which has stopped for the first time. */
static int begin(struct step_thread *t)
{
	if (t->tid == t->proc->pid && step_vdso_save(t))
		return t->proc->step->error;
	return resume_fresh(t);
}

static int on_new_thread(struct step *st, struct step_thread *parent, pid_t tid)
{
	struct step_thread *t = step_thread_find(st, tid);
	bool waiting = t;
	struct step_process *proc;

	step_enter_syscall(parent);
	proc = get_process(st, tgid_of(tid), parent->proc);
	if (!proc)
		return -AUX_E_NOMEM;
	if (!t)
		t = step_thread_new(st, proc, tid);
	if (!t)
		return -AUX_E_NOMEM;
	if (waiting) {
		t->proc = proc;
		proc->n_threads++;
	}
	t->soft = soft_thread_add(st->s, (uint32_t)proc->pid, (uint32_t)tid,
				  parent->soft);
	if (!t->soft)
		return -AUX_E_NOMEM;
	return waiting ? begin(t) : 0;
}

/* A stop of a thread that its creator did not announce yet. */
static int on_unknown(struct step *st, pid_t tid)
{
	return step_thread_new(st, NULL, tid) ? 0 : -AUX_E_NOMEM;
}

/* What ran since the last stop of a thread that ends now. */
static void last_words(struct step_thread *t)
{
	uint64_t ip = ip_of(t->tid);

	if (t->insn.cls == X86_SYSCALL && t->insn.size &&
	    (t->in_syscall || ip != t->insn.ip))
		step_enter_syscall(t);
	else
		step_last_insn(t, ip);
	step_leave(t, SOFT_LEAVE_ASYNC, t->ip);
	step_flush(t);
}

static void forget(struct step_thread *t)
{
	if (t->soft) {
		step_leave(t, SOFT_LEAVE_ASYNC, t->ip);
		step_flush(t);
		soft_thread_exit(t->soft);
	}
	t->soft = NULL;
}

/* exec: by the main thread, or by another one that takes over its tid. */
static struct step_thread *exec_thread(struct step *st, pid_t tid, pid_t old)
{
	struct step_thread *t = step_thread_find(st, old), *gone;

	if (!t || old == tid)
		return t;
	gone = step_thread_find(st, tid);
	if (gone) {
		forget(gone);
		step_thread_drop(gone);
	}
	step_enter_syscall(t);
	step_flush(t);
	t->tid = tid;
	gone = t;
	t->soft = soft_thread_add(st->s, (uint32_t)t->proc->pid, (uint32_t)tid,
				  t->soft);
	return gone;
}

/* 0x23 is the kernel's __USER32_CS. */
static bool is_32bit(pid_t tid)
{
	return ptrace(PTRACE_PEEKUSER, tid,
		      offsetof(struct user_regs_struct, cs), NULL) == 0x23;
}

/* A 32-bit program: it runs on, unseen. The first one does not run at all. */
static int let_go(struct step *st, struct step_thread *t)
{
	static const char why[] = "a 32-bit program";
	char path[64], exe[PATH_MAX];
	ssize_t n;

	if (!soft_stats(st->s)->n_insns)
		return diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"%s: cannot be traced: %s", st->p->argv[0],
				why);
	snprintf(path, sizeof(path), "/proc/%d/exe", t->tid);
	n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	soft_not_traced(st->s, (uint32_t)t->proc->pid, exe, why);
	ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
	forget(t);
	step_thread_drop(t);
	return st->error;
}

static int on_exec(struct step *st, pid_t tid)
{
	unsigned long old = (unsigned long)tid;
	struct step_thread *t;

	ptrace(PTRACE_GETEVENTMSG, tid, NULL, &old);
	t = exec_thread(st, tid, (pid_t)old);
	if (!t || !t->soft)
		return -AUX_E_NOMEM;
	if (st->started)
		step_enter_syscall(t);
	st->started = true;
	step_flush_process(t->proc);
	if (is_32bit(tid))
		return let_go(st, t);
	step_code_reset(t->proc);
	report_exec_comm(st, t);
	if (step_maps_update(t, true))
		return st->error;
	return resume_fresh(t);
}

static int on_event(struct step *st, struct step_thread *t, int event)
{
	unsigned long msg = 0;
	int err = 0;

	switch (event) {
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		if (!ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &msg))
			err = on_new_thread(st, t, (pid_t)msg);
		break;
	case PTRACE_EVENT_EXIT:
		t->running = false;
		last_words(t);
		t->in_syscall = true;
		ptrace(PTRACE_CONT, t->tid, NULL, NULL);
		return st->error;
	default:
		break;
	}
	return err ? err : step_resume(t, 0);
}

/* PTRACE_EVENT_STOP: the first stop of a new thread, or a group stop. */
static int on_stop_event(struct step *st, struct step_thread *t, int sig)
{
	if (sig != SIGTRAP) {
		ptrace(PTRACE_LISTEN, t->tid, NULL, NULL);
		return 0;
	}
	if (!t->ip && !t->insn.size)
		return begin(t);
	ptrace(PTRACE_SINGLESTEP, t->tid, NULL, NULL);
	return st->error;
}

static int on_stop(struct step *st, pid_t tid, int status)
{
	int event = status >> 16, sig = WSTOPSIG(status);
	struct step_thread *t;

	if (event == PTRACE_EVENT_EXEC)
		return on_exec(st, tid);
	t = step_thread_find(st, tid);
	if (!t)
		return on_unknown(st, tid);
	if (!t->proc)
		return 0;
	if (!st->started) {
		/* our own child on its way to exec */
		ptrace(PTRACE_CONT, tid, NULL,
		       event ? NULL : (void *)(intptr_t)sig);
		return 0;
	}
	if (event == PTRACE_EVENT_STOP)
		return on_stop_event(st, t, sig);
	return event ? on_event(st, t, event) : step_stopped(t, sig);
}

static void on_end(struct step *st, pid_t tid, int status)
{
	struct step_thread *t = step_thread_find(st, tid);

	if (tid == st->main_pid)
		st->status = status;
	if (!t)
		return;
	if (!t->proc) {
		st->threads = t->next;
		free(t);
		return;
	}
	if (t->running && t->soft)
		soft_killed(st->s);
	forget(t);
	step_thread_drop(t);
}

/*
 * Tells soft what waits, and lets it write. Between two stops at most: a thread
 * in the middle of one is told of at the next.
 */
static void tick(struct step *st)
{
	uint64_t now = step_now_ns();
	struct step_thread *t;

	if (now - st->ticked_ns < TICK_NS)
		return;
	st->ticked_ns = now;
	for (t = st->threads; t; t = t->next)
		if (t->proc && t->soft)
			step_flush(t);
	if (soft_tick(st->s) && !st->error)
		st->error = -AUX_E_IO;
	if (!st->p->progress || now - st->shown_ns < SOFT_PROGRESS_MS * 1000000ul)
		return;
	st->shown_ns = now;
	st->p->progress(st->p->progress_priv, soft_stats(st->s));
}

/* The user wants an end: the program's ends as everything else is observed. */
static void kill_all(struct step *st)
{
	struct step_process *proc;

	if (st->killed)
		return;
	st->killed = true;
	for (proc = st->procs; proc; proc = proc->next)
		kill(proc->pid, SIGKILL);
}

static int loop(struct step *st)
{
	unsigned count = 0;
	int status, err;
	pid_t tid;

	for (;;) {
		if ((st->p->stop && *st->p->stop) || st->error)
			kill_all(st);
		tid = waitpid(-1, &status, __WALL);
		if (tid < 0 && errno == EINTR) {
			tick(st);
			continue;
		}
		if (tid < 0)
			break;
		err = 0;
		if (WIFSTOPPED(status))
			err = on_stop(st, tid, status);
		else
			on_end(st, tid, status);
		if (err && !st->error)
			st->error = err;
		if (!(++count & 63))
			tick(st);
	}
	return st->error;
}

static void on_alarm(int sig)
{
	(void)sig;	/* waitpid() comes back, that is all */
}

/* Also while all threads sleep there are ticks, and the user's stop is seen. */
static void start_clock(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct timeval tv = { .tv_usec = TICK_NS / 1000 };
	struct itimerval it = { tv, tv };

	if (!sigaction(SIGALRM, &sa, NULL))
		setitimer(ITIMER_REAL, &it, NULL);
}

static void stop_clock(void)
{
	struct itimerval it = { 0 };

	setitimer(ITIMER_REAL, &it, NULL);
	signal(SIGALRM, SIG_DFL);
}

static int prepare(struct step *st)
{
	struct step_process *proc = get_process(st, st->main_pid, NULL);
	struct step_thread *t;

	t = proc ? step_thread_new(st, proc, st->main_pid) : NULL;
	if (!t)
		return -AUX_E_NOMEM;
	t->soft = soft_thread_add(st->s, (uint32_t)st->main_pid,
				  (uint32_t)st->main_pid, NULL);
	return t->soft ? 0 : -AUX_E_NOMEM;
}

static void fini(struct step *st)
{
	struct step_build_id *b;

	while (st->threads)
		on_end(st, st->threads->tid, st->status);
	while ((b = st->build_ids)) {
		st->build_ids = b->next;
		free(b);
	}
}

int soft_step_run(struct soft *s, const struct soft_program *p, int *status,
		  struct aux_diag *diag)
{
	struct step st = { .s = s, .p = p, .diag = diag };
	int failed = -1, why = 0, err;

	st.ticked_ns = st.shown_ns = step_now_ns();
	err = launch(&st, &failed);
	if (!err)
		err = prepare(&st);
	if (!err) {
		start_clock();
		err = loop(&st);
		stop_clock();
	}
	fini(&st);
	*status = st.status;
	if (!err && failed >= 0 && read(failed, &why, sizeof(why)) > 0)
		err = diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
			       "cannot run %s: %s", p->argv[0], strerror(why));
	if (failed >= 0)
		close(failed);
	return err;
}
