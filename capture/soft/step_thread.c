/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_step_thread: one stop of one thread: what ran since the last one?
 *
 * The truth is the instruction pointer as ptrace shows it. A stop comes after
 * the instruction (trap), before it (fault, signal), at a handler's first
 * instruction, or at the end of a system call; the kernel tells these apart in
 * si_code, which is asked for only where the new IP alone leaves a doubt.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/diag.h"

#include "capture/soft/step.h"

/* What the kernel puts into rax when a system call may be restarted. */
enum { ERESTARTSYS = 512, ERESTARTNOINTR, ERESTARTNOHAND,
       ERESTART_RESTARTBLOCK = 516 };

#define SI_HANDLER SIGTRAP	/* ptrace_notify() at a handler's first insn */
#define SI_INT3 0x80		/* SI_KERNEL */

uint64_t step_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct step_thread *step_thread_new(struct step *st, struct step_process *proc,
				    pid_t tid)
{
	struct step_thread *t = malloc(sizeof(*t));

	if (!t)
		return NULL;
	memset(t, 0, offsetof(struct step_thread, ids));
	t->tid = tid;
	t->proc = proc;
	if (proc)
		proc->n_threads++;
	t->left_ns = step_now_ns();
	t->next = st->threads;
	st->threads = t;
	return t;
}

struct step_thread *step_thread_find(struct step *st, pid_t tid)
{
	struct step_thread **p, *t;

	for (p = &st->threads; (t = *p); p = &t->next) {
		if (t->tid != tid)
			continue;
		/* the next stop is most likely its, too */
		*p = t->next;
		t->next = st->threads;
		st->threads = t;
		return t;
	}
	return NULL;
}

static void drop_process(struct step *st, struct step_process *proc)
{
	struct step_process **p = &st->procs;

	if (!proc || --proc->n_threads)
		return;
	while (*p && *p != proc)
		p = &(*p)->next;
	if (*p)
		*p = proc->next;
	step_process_free(proc);
}

void step_thread_drop(struct step_thread *t)
{
	struct step *st = t->proc->step;
	struct step_thread **p = &st->threads;

	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	drop_process(st, t->proc);
	free(t);
}

/* Keeps the first error; it ends the recording. */
static int note(struct step_thread *t, int err)
{
	struct step *st = t->proc->step;

	if (err < 0 && !st->error)
		st->error = err;
	return st->error;
}

static int flush_truth(struct step_thread *t)
{
	int err = 0;

	if (t->n_truth)
		err = soft_truth(t->proc->step->s, (uint32_t)t->tid, t->truth,
				 t->n_truth);
	t->n_truth = 0;
	return err;
}

int step_flush(struct step_thread *t)
{
	int err = 0;

	if (t->n_ids)
		err = soft_run(t->soft, t->proc->blocks, t->ids, t->n_ids);
	t->n_ids = 0;
	return note(t, err ? err : flush_truth(t));
}

int step_flush_process(struct step_process *proc)
{
	struct step_thread *t;

	for (t = proc->step->threads; t; t = t->next)
		if (t->proc == proc && step_flush(t))
			return proc->step->error;
	return 0;
}

/* The block that is being formed is not ended by a branch. */
static void cut_block(struct step_thread *t, uint64_t ip)
{
	struct soft_block b = { .start = t->block_start, .end = ip,
				.n_insns = t->block_n, .cls = X86_OTHER };

	if (!t->block_n)
		return;
	note(t, soft_cut(t->soft, &b, t->block_n, ip));
	t->block_n = 0;
}

void step_leave(struct step_thread *t, enum soft_leave_kind kind, uint64_t ip)
{
	if (!t->user)
		return;
	step_flush(t);
	cut_block(t, ip);
	note(t, soft_leave(t->soft, kind, ip));
	t->user = false;
	t->left_ns = step_now_ns();
}

static void enter(struct step_thread *t, uint64_t ip)
{
	note(t, soft_enter(t->soft, ip, step_now_ns() - t->left_ns));
	t->user = true;
	t->block_start = ip;
	t->block_n = 0;
}

/* Before a PTWRITE runs: its operand may be gone afterwards. */
static void read_ptwrite(struct step_thread *t)
{
	struct user_regs_struct regs;
	uint8_t bytes[15];

	t->ptw.size = 0;
	if (ptrace(PTRACE_GETREGS, t->tid, NULL, &regs) ||
	    step_memory_read(t->proc, t->ip, bytes, t->insn.size) !=
		    t->insn.size ||
	    !step_ptwrite_operand(bytes, t->insn.size, t->ip, &regs, &t->ptw))
		return;
	if (!t->ptw.is_memory)
		return;
	regs.rax = 0;
	if (step_memory_read(t->proc, t->ptw.value, &regs.rax,
			     (size_t)t->ptw.size) != (size_t)t->ptw.size)
		t->ptw.size = 0;
	t->ptw.value = regs.rax;
}

static void report_ptwrite(struct step_thread *t, uint64_t ip)
{
	step_flush(t);
	if (t->ptw.size)
		note(t, soft_ptwrite(t->soft, ip, t->ptw.value, t->ptw.size));
}

static void end_block(struct step_thread *t, const struct step_insn *insn,
		      uint64_t next)
{
	int64_t id = step_block_id(t->proc, t->block_start, t->block_n, insn);

	if (id < 0) {
		note(t, -AUX_E_NOMEM);
		return;
	}
	t->ids[t->n_ids++] = (uint32_t)id;
	t->block_start = next;
	t->block_n = 0;
	if (insn->cls == X86_PTWRITE)
		report_ptwrite(t, insn->ip);
	else if (t->n_ids == STEP_BATCH)
		step_flush(t);
}

/* insn ran, and next comes after it. */
static void executed(struct step_thread *t, const struct step_insn *insn,
		     uint64_t next)
{
	if (!t->user)
		enter(t, insn->ip);
	if (t->proc->step->p->truth) {
		t->truth[t->n_truth++] = insn->ip;
		if (t->n_truth == STEP_TRUTH)
			note(t, flush_truth(t));
	}
	if (++t->block_n == STEP_BLOCK_MAX || insn->cls != X86_OTHER ||
	    next != insn->ip + insn->size)
		end_block(t, insn, next);
	t->restart = false;
	t->injected = false;
}

void step_enter_syscall(struct step_thread *t)
{
	if (t->in_syscall)
		return;
	executed(t, &t->insn, t->insn.ip + t->insn.size);
	step_leave(t, SOFT_LEAVE_SYSCALL, t->insn.ip);
	t->in_syscall = true;
}

static void read_regs(struct step_thread *t)
{
	ptrace(PTRACE_GETREGS, t->tid, NULL, &t->regs);
}

static bool changes_code(const struct step_thread *t)
{
	const struct user_regs_struct *r = &t->regs;
	bool hits = step_maps_overlap(t->proc, r->rdi, r->rdi + r->rsi);

	switch (r->orig_rax) {
	case SYS_mmap:
		return r->rdx & PROT_EXEC || (r->r10 & MAP_FIXED && hits);
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		return r->rdx & PROT_EXEC || hits;
	case SYS_munmap:
	case SYS_mremap:
		return hits;
	case SYS_remap_file_pages:
	case SYS_shmat:
	case SYS_shmdt:
		return true;
	default:
		return false;
	}
}

static void report_comm(struct step_thread *t)
{
	char path[64], comm[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", t->tid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(comm, sizeof(comm), f)) {
		comm[strcspn(comm, "\n")] = '\0';
		note(t, soft_comm(t->soft, comm, false));
	}
	fclose(f);
}

/* The system call came back: regs are those behind it. */
static void finish_syscall(struct step_thread *t)
{
	struct user_regs_struct before = t->regs;
	int64_t rax;

	t->in_syscall = false;
	read_regs(t);
	rax = (int64_t)t->regs.rax;
	t->restart = (rax <= -ERESTARTSYS && rax >= -ERESTARTNOHAND) ||
		     rax == -ERESTART_RESTARTBLOCK;
	/* arguments as they were; the number's register took the result */
	before.orig_rax = before.rax;
	t->regs = before;
	if (changes_code(t))
		note(t, step_maps_update(t, false));
	else if (before.orig_rax == SYS_prctl && before.rdi == PR_SET_NAME)
		report_comm(t);
}

int step_resume(struct step_thread *t, int sig)
{
	if (!t->in_syscall && (!t->insn.size || t->insn.ip != t->ip ||
			       t->insn.check)) {
		note(t, step_insn_get(t, t->ip, &t->insn));
		if (t->insn.cls == X86_SYSCALL)
			read_regs(t);
	}
	if (t->insn.cls == X86_PTWRITE && !t->in_syscall)
		read_ptwrite(t);
	t->injected = t->injected || sig;
	t->running = true;
	if (ptrace(PTRACE_SINGLESTEP, t->tid, NULL, (void *)(intptr_t)sig) &&
	    errno != ESRCH)
		return note(t, diag_set(t->proc->step->diag, AUX_E_TARGET,
					AUX_NO_OFFSET,
					"cannot step thread %d: %s", t->tid,
					strerror(errno)));
	return t->proc->step->error;
}

static uint64_t read_ip(const struct step_thread *t)
{
	errno = 0;
	return (uint64_t)ptrace(PTRACE_PEEKUSER, t->tid,
				offsetof(struct user_regs_struct, rip), NULL);
}

/* Does the new IP follow from insn beyond doubt? */
static bool is_plain_step(const struct step_thread *t, uint64_t ip)
{
	const struct step_insn *insn = &t->insn;

	if (t->in_syscall || t->injected || t->restart || !insn->size ||
	    ip == insn->ip)
		return false;
	switch (insn->cls) {
	case X86_OTHER:
	case X86_PTWRITE:
		return ip == insn->ip + insn->size;
	case X86_COND:
		return ip == insn->ip + insn->size || ip == insn->target;
	case X86_JUMP:
	case X86_CALL:
		return ip == insn->target;
	case X86_SYSCALL:
		return false;
	default:
		return true;
	}
}

void step_last_insn(struct step_thread *t, uint64_t ip)
{
	if (!is_plain_step(t, ip))
		return;
	executed(t, &t->insn, ip);
	t->ip = ip;
}

/* A signal is about to be delivered at ip. */
static int deliver(struct step_thread *t, int sig, uint64_t ip)
{
	if (t->insn.cls == X86_SYSCALL && t->insn.size &&
	    (t->in_syscall || ip != t->insn.ip)) {
		if (!t->in_syscall)
			step_enter_syscall(t);
		finish_syscall(t);
	} else if (ip != t->insn.ip && t->insn.size) {
		executed(t, &t->insn, ip);
	}
	step_leave(t, SOFT_LEAVE_ASYNC, ip);
	t->ip = ip;
	return step_resume(t, sig);
}

/* The same system call once more: the kernel moved the IP back. */
static void restarted(struct step_thread *t, uint64_t ip)
{
	struct step_insn insn;

	if (step_insn_get(t, ip - 2, &insn) || insn.cls != X86_SYSCALL)
		return;
	t->insn = insn;
	step_enter_syscall(t);
}

static void syscall_stop(struct step_thread *t, uint64_t ip)
{
	if (t->restart && !t->in_syscall && ip == t->ip) {
		restarted(t, ip);
		finish_syscall(t);
	} else if (t->insn.cls == X86_SYSCALL && t->insn.size &&
		   (t->in_syscall || ip != t->insn.ip)) {
		step_enter_syscall(t);
		finish_syscall(t);
	}
}

static int trap(struct step_thread *t, int sig, uint64_t ip)
{
	siginfo_t si;

	if (ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &si))
		return step_resume(t, 0);
	switch (si.si_code) {
	case SI_HANDLER:
		step_leave(t, SOFT_LEAVE_ASYNC, ip);
		t->injected = false;
		t->restart = false;
		break;
	case TRAP_BRKPT:
		syscall_stop(t, ip);
		break;
	case TRAP_TRACE:
	case TRAP_HWBKPT:
		if (t->insn.rep && ip == t->insn.ip)
			break;
		if (t->insn.cls == X86_SYSCALL)
			syscall_stop(t, ip);
		else
			executed(t, &t->insn, ip);
		break;
	case SI_INT3:
		if (t->insn.size && ip == t->insn.ip + t->insn.size)
			step_enter_syscall(t);
		t->in_syscall = false;
		step_leave(t, SOFT_LEAVE_ASYNC, ip);
		t->ip = ip;
		return step_resume(t, sig);
	default:
		return deliver(t, sig, ip);
	}
	t->ip = ip;
	return step_resume(t, 0);
}

int step_stopped(struct step_thread *t, int sig)
{
	uint64_t ip = read_ip(t);

	t->running = false;
	if (errno == ESRCH)
		return 0;
	if (sig != SIGTRAP)
		return deliver(t, sig, ip);
	if (!is_plain_step(t, ip))
		return trap(t, sig, ip);
	executed(t, &t->insn, ip);
	t->ip = ip;
	return step_resume(t, 0);
}
