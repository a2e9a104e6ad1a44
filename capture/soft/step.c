/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ptrace back end. The program runs on this CPU, one instruction at a time,
 * with all its threads and children: for programs that qemu cannot run, and as
 * an observer independent of it. Slow: each instruction costs two context
 * switches.
 *
 * The kernel's order of stops is kept: whatever a thread did before an event
 * (fork, exec, exit) is reported before the event. Except that a new thread's
 * first stop and its creator's event come in any order (ptrace(2)): one that is
 * not known yet waits in its stop until the event says whose it is.
 *
 * PTRACE_SEIZE instead of PTRACE_TRACEME: group stops then differ from
 * signals, and PTRACE_LISTEN keeps a stopped thread stopped.
 *
 * What depends on the processor is in step_machine.h.
 *
 * Specification: ptrace(2).
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/soft/step.h"
#include "common/clock.h"
#include "common/diag.h"

/*
 * ---- one stop of one thread: what ran since the last one? ----
 *
 * The truth is the instruction pointer as ptrace shows it. A stop comes after
 * the instruction (trap), before it (fault, signal), at a handler's first
 * instruction, or at the end of a system call; the kernel distinguishes these
 * in si_code. Reading that costs a system call per instruction, so
 * is_plain_step() first looks whether the new IP can have only one explanation.
 */

/* proc NULL: not known yet. The arrays at the end of the struct stay
 * uninitialized. */
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
	t->left_ns = clock_ns();
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
		/* to the front: the next stop is most likely its, too */
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

void step_thread_drop(struct step *st, struct step_thread *t)
{
	struct step_thread **p = &st->threads;

	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	if (t->writing) {
		st->n_writing--;
		step_memory_written(st);
	}
	step_native_drop(t);
	drop_process(st, t->proc);
	free(t->calls);
	free(t);
}

int step_note(struct step_thread *t, int err)
{
	struct step *st = t->proc->step;

	if (err < 0 && !st->error)
		st->error = err;
	return st->error;
}

/* In any order with soft_run(): truth and trace are separate files. */
int step_flush_truth(struct step_thread *t)
{
	int err = 0;

	if (t->n_truth)
		err = soft_truth(t->proc->step->s, (uint32_t)t->tid, t->truth,
				 t->n_truth);
	t->n_truth = 0;
	return err;
}

int step_flush_thread(struct step_thread *t)
{
	int err = 0;

	if (t->native.inside)
		step_native_drain(t);
	if (t->n_ids)
		err = soft_run(t->soft, t->proc->blocks, t->ids, t->n_ids);
	t->n_ids = 0;
	return step_note(t, err ? err : step_flush_truth(t));
}

int step_flush_process(struct step_process *proc)
{
	struct step_thread *t;

	for (t = proc->step->threads; t; t = t->next)
		if (t->proc == proc && step_flush_thread(t))
			return proc->step->error;
	return 0;
}

/* The thread stops at ip: reports the block being formed, which no branch
 * ended. */
static void cut_block(struct step_thread *t, uint64_t ip)
{
	struct soft_block b = { .start = t->block_start, .end = ip,
				.n_insns = t->block_n, .cls = X86_OTHER };

	if (!t->block_n)
		return;
	step_note(t, soft_cut(t->soft, &b, t->block_n, ip));
	t->block_n = 0;
}

void step_leave(struct step_thread *t, enum soft_leave_kind kind,
		       uint64_t ip)
{
	if (!t->user)
		return;
	step_flush_thread(t);
	cut_block(t, ip);
	step_note(t, soft_leave(t->soft, kind, ip));
	t->user = false;
	t->left_ns = clock_ns();
}

void step_enter(struct step_thread *t, uint64_t ip)
{
	uint64_t now = t->native.back_ns ? t->native.back_ns : clock_ns();

	t->native.back_ns = 0;
	step_note(t, soft_enter(t->soft, ip, now - t->left_ns));
	t->user = true;
	t->block_start = ip;
	t->block_n = 0;
}

static void report_ptwrite(struct step_thread *t, uint64_t ip)
{
	step_flush_thread(t);
	if (t->ptw.size)
		step_note(t, soft_ptwrite(t->soft, ip, t->ptw.value, t->ptw.size));
}

/* insn is the last of the block being formed, and next runs after it. */
static void end_block(struct step_thread *t, const struct step_insn *insn,
		      uint64_t next)
{
	int64_t id = step_block_id(t->proc, t->block_start, t->block_n, insn);

	if (id < 0) {
		step_note(t, -AUX_E_NOMEM);
		return;
	}
	t->ids[t->n_ids++] = (uint32_t)id;
	t->block_start = next;
	t->block_n = 0;
	if (insn->cls == X86_PTWRITE)
		report_ptwrite(t, insn->ip);
	else if (t->n_ids == STEP_BATCH)
		step_flush_thread(t);
}

bool step_mask_trap(pid_t tid, bool block)
{
	uint64_t mask, bit = UINT64_C(1) << (SIGTRAP - 1);
	bool was;

	if (ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(mask), &mask))
		return false;
	was = mask & bit;
	mask = block ? mask | bit : mask & ~bit;
	if (was != block)
		ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(mask), &mask);
	return was;
}

/* It goes on, but not in the recording, which says so. */
static void name_not_traced(struct step_thread *t, const char *why)
{
	char path[64], exe[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", t->tid);
	n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	soft_not_traced(t->proc->step->s, (uint32_t)t->proc->pid, exe, why);
}

/*
 * A process has one tracer. One that is about to ask to be traced by its parent, as what
 * a debugger starts does, is the parent's; unless that is us.
 */
static bool asks_for_tracer(const struct step_thread *t)
{
	return step_call_number(t) == SYS_ptrace &&
	       step_call_arg(t, 0) == PTRACE_TRACEME &&
	       t->proc->pid != t->proc->step->main_pid &&
	       !t->proc->step->p->target && t->proc->n_threads == 1;
}

/*
 * A step that ends while the program has SIGTRAP blocked makes the kernel
 * unblock it and reset the program's handler (force_sig). So a call that may
 * block it does not end in a step (sets_mask), and then SIGTRAP is unblocked
 * here. The program sees what it has set, and has it again when it is let go.
 */
static void masked(struct step_thread *t)
{
	uint64_t how = step_call_arg(t, 0), set = step_call_arg(t, 1);
	uint64_t old = step_call_arg(t, 2);
	uint64_t mask = 0, bit = UINT64_C(1) << (SIGTRAP - 1);
	bool was = t->trap_blocked;

	if (step_memory_read(t->proc, set, &mask, sizeof(mask)) !=
	    sizeof(mask))
		mask = 0;
	if (step_mask_trap(t->tid, false))
		t->trap_blocked = true;
	else if (set && (how == SIG_SETMASK || (how == SIG_UNBLOCK && mask & bit)))
		t->trap_blocked = false;
	if (!was || !old ||
	    step_memory_read(t->proc, old, &mask, sizeof(mask)) != sizeof(mask))
		return;
	ptrace(PTRACE_POKEDATA, t->tid, (void *)old, (void *)(mask | bit));
}

/* The system calls that set the mask of signals, for good or while they last. */
static bool sets_mask(uint64_t call)
{
	return call == SYS_rt_sigprocmask || call == SYS_rt_sigsuspend ||
	       call == SYS_ppoll || call == SYS_pselect6 ||
	       call == SYS_epoll_pwait || call == SYS_epoll_pwait2;
}

/* insn ran, and next comes after it. */
static void executed(struct step_thread *t, const struct step_insn *insn,
		     uint64_t next)
{
	t->proc->step->counts[STEP_N_STEPS]++;
	if (!t->user)
		step_enter(t, insn->ip);
	if (t->proc->step->p->truth) {
		t->truth[t->n_truth++] = insn->ip;
		if (t->n_truth == STEP_TRUTH)
			step_note(t, step_flush_truth(t));
	}
	step_insn_after(t, insn);
	t->popped = insn->popf;
	if (++t->block_n == STEP_BLOCK_MAX || insn->cls != X86_OTHER ||
	    next != insn->ip + insn->size || t->proc->native)
		end_block(t, insn, next);
	t->restart = false;
	t->injected = false;
	if (step_marked(t->proc, insn->ip))
		step_trigger_ran(t, insn->ip);
}

/* What it ran at once, instead of one instruction. */
static void take_run(struct step_thread *t)
{
	struct step_insn insn;
	uint64_t next;

	while (step_insn_ran(t, &insn, &next))
		executed(t, &insn, next);
}

void step_enter_syscall(struct step_thread *t)
{
	if (t->in_syscall || !t->insn.size)
		return;
	executed(t, &t->insn, t->insn.ip + t->insn.size);
	step_leave(t, SOFT_LEAVE_SYSCALL, t->insn.ip);
	t->in_syscall = true;
}

/*
 * May the system call in t->regs have changed executable mappings? Reading
 * /proc/PID/maps is slow in programs with many mappings, so most calls are excluded by
 * their arguments; when in doubt, true.
 */
static bool changes_code(const struct step_thread *t)
{
	uint64_t at = step_call_arg(t, 0), prot = step_call_arg(t, 2);
	bool hits = step_maps_overlap(t->proc, at, at + step_call_arg(t, 1));

	switch (step_call_number(t)) {
	case SYS_mmap:
		return prot & PROT_EXEC || (step_call_arg(t, 3) & MAP_FIXED && hits);
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		return prot & PROT_EXEC || hits;
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

void step_report_comm(struct step_thread *t)
{
	char path[64], comm[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", t->tid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(comm, sizeof(comm), f)) {
		comm[strcspn(comm, "\n")] = '\0';
		step_note(t, soft_comm(t->soft, comm, false));
	}
	fclose(f);
}

static void set_writing(struct step_thread *t, bool writing)
{
	t->proc->step->n_writing += writing - t->writing;
	t->writing = writing;
}

/* The system call came back. */
static void finish_syscall(struct step_thread *t)
{
	int64_t result = step_call_result(t);
	uint64_t number = step_call_number(t);

	t->in_syscall = false;
	if (t->writing)
		step_memory_written(t->proc->step);
	set_writing(t, false);
	step_native_called(t, result);
	if (changes_code(t))
		step_note(t, step_maps_update(t, false));
	else if (number == SYS_prctl && step_call_arg(t, 0) == PR_SET_NAME)
		step_report_comm(t);
	else if (number == SYS_rt_sigprocmask)
		masked(t);
}

/*
 * A call of the vsyscall page faults, the kernel does its work, and the step
 * ends after the first instruction at the return address, which is the next
 * that runs.
 */
static void enter_vsyscall(struct step_thread *t)
{
	uint64_t sp, caller;

	step_leave(t, SOFT_LEAVE_ASYNC, t->ip);
	sp = step_sp_read(t->tid);
	if (step_memory_read(t->proc, sp, &caller, sizeof(caller)) !=
	    sizeof(caller))
		return;
	t->vsyscall = true;
	t->ip = caller;
}

/*
 * After a step over POPF the kernel takes the trap flag of all further steps for
 * the program's own: it would show up in the program's flags and signal frames
 * and stay there. PTRACE_CONT makes it forget; the interrupt, which is sent
 * first, stops the thread before it runs anything. Also before a signal that
 * comes when the step over POPF was to begin.
 */
static bool forget_trap_flag(struct step_thread *t, int sig)
{
	bool before = sig && t->insn.popf && t->insn.ip == t->ip;

	if (!t->popped && !before)
		return false;
	t->popped = false;
	if (before)
		step_clear_trap_flag(t);
	t->paused = t->running = true;
	t->insn.size = 0;	/* what ran is reported */
	ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	ptrace(PTRACE_CONT, t->tid, NULL, (void *)(intptr_t)sig);
	return true;
}

/*
 * One more step, with a signal or 0. The next instruction is fetched and its
 * PTWRITE operand read now: after the step its bytes and registers may have
 * changed.
 */
int step_resume(struct step_thread *t, int sig)
{
	enum __ptrace_request how = PTRACE_SINGLESTEP;
	char name[PATH_MAX];

	if (t->proc->step->detaching)
		return step_let_go(t, sig);
	if (forget_trap_flag(t, sig))
		return t->proc->step->error;
	if (!t->in_syscall && step_marked(t->proc, t->ip))
		step_trigger_before(t);
	else if (!sig && step_native_enter(t))
		return t->proc->step->error;
	if (x86_is_vsyscall(t->ip))
		enter_vsyscall(t);
	if (!t->in_syscall && (!t->insn.size || t->insn.ip != t->ip ||
			       t->insn.check)) {
		step_note(t, step_insn_get(t, t->ip, &t->insn));
		if (t->insn.cls == X86_SYSCALL) {
			step_regs_read(t->tid, &t->regs);
			set_writing(t, step_writes_memory(t));
		}
	}
	if (!t->in_syscall && step_insn_before(t, sig))
		return t->proc->step->error;
	if (t->insn.cls == X86_SYSCALL && t->insn.size && !t->in_syscall &&
	    t->insn.ip == t->ip && !sig) {
		if (asks_for_tracer(t)) {
			name_not_traced(t, "it is traced by the program that "
					   "started it");
			return step_let_go(t, 0);
		}
		if (step_gains_rights(t, name, sizeof(name))) {
			soft_not_traced(t->proc->step->s, (uint32_t)t->proc->pid,
					name, "set-user-ID or with capabilities, "
					"which it would not get");
			return step_let_go(t, 0);
		}
		if (sets_mask(step_call_number(t)))
			how = PTRACE_SYSCALL;
	}
	t->injected = t->injected || sig;
	t->running = true;
	if (ptrace(how, t->tid, NULL, (void *)(intptr_t)sig) &&
	    errno != ESRCH)
		return step_note(t, diag_set(t->proc->step->diag, AUX_E_TARGET,
					AUX_NO_OFFSET,
					"cannot step thread %d: %s", t->tid,
					strerror(errno)));
	return t->proc->step->error;
}

/*
 * True if ip can only mean that insn ran. Not if a signal was injected, or a
 * system call may be restarted: then the IP may come from a handler or be moved
 * back. An unchanged IP may be a REP iteration, a fault or a jump to itself.
 */
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

/* Killed in mid-step at ip: did the instruction run? */
static void finish_step(struct step_thread *t, uint64_t ip)
{
	if (!is_plain_step(t, ip))
		return;
	executed(t, &t->insn, ip);
	t->ip = ip;
}

/*
 * The kernel says where a fault was, or who sent the signal; of a general protection
 * fault not where (SI_KERNEL). Where an instruction is the cause, its address is that of
 * its copy in the code cache if it ran there: the program gets to know its own.
 */
static void report_signal(struct step_thread *t, int sig, uint64_t ip)
{
	struct soft_signal s = { .signo = sig, .ip = ip };
	bool fault = sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE ||
		     sig == SIGTRAP;
	siginfo_t si;

	if (!t->soft || ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &si))
		return;
	s.code = si.si_code;
	s.has_addr = fault && si.si_code > 0 && si.si_code != SI_KERNEL;
	if (s.has_addr && (sig == SIGILL || sig == SIGFPE) &&
	    (uint64_t)(uintptr_t)si.si_addr != ip) {
		si.si_addr = (void *)(uintptr_t)ip;
		ptrace(PTRACE_SETSIGINFO, t->tid, NULL, &si);
	}
	if (s.has_addr)
		s.addr = (uint64_t)(uintptr_t)si.si_addr;
	if (si.si_code <= 0)
		s.sender = (uint32_t)si.si_pid;
	step_note(t, soft_signal(t->soft, &s));
	step_trigger_signal(t, sig);
}

/*
 * Signal-delivery stop: sig is about to be delivered at ip. An instruction that
 * ran moved the IP; one that faulted did not.
 */
static int deliver(struct step_thread *t, int sig, uint64_t ip)
{
	if (t->insn.cls == X86_SYSCALL && t->insn.size &&
	    (t->in_syscall || ip != t->insn.ip)) {
		if (!t->in_syscall)
			step_enter_syscall(t);
		finish_syscall(t);
	} else if (ip != t->insn.ip && t->insn.size && !x86_is_vsyscall(ip)) {
		executed(t, &t->insn, ip);
	}
	step_leave(t, SOFT_LEAVE_ASYNC, ip);
	if (sig)
		report_signal(t, sig, ip);
	t->ip = ip;
	return step_resume(t, sig);
}

/* The same system call once more: the kernel moved the IP back and ran it again. */
static void restarted(struct step_thread *t, uint64_t ip)
{
	struct step_insn insn;

	if (step_insn_get(t, ip - STEP_CALL_BYTES, &insn) || insn.cls != X86_SYSCALL)
		return;
	t->insn = insn;
	step_enter_syscall(t);
}

/* A step over a system call ended, at ip. ran: that is certain. */
static void syscall_stop(struct step_thread *t, uint64_t ip, bool ran)
{
	if (t->restart && !t->in_syscall && step_is_restart(t, ip)) {
		restarted(t, t->ip);
		finish_syscall(t);
	} else if (t->insn.cls == X86_SYSCALL && t->insn.size &&
		   (t->in_syscall || ip != t->insn.ip || ran)) {
		step_enter_syscall(t);
		finish_syscall(t);
	}
}

/* A SIGTRAP stop that the IP alone does not explain. */
static int trap(struct step_thread *t, int sig, uint64_t ip)
{
	siginfo_t si;

	if (ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &si))
		return step_resume(t, 0);
	if (si.si_code == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
		t->running = true;	/* killed since: that stop says what ran */
		return 0;
	}
	switch (step_trap_kind(&si)) {
	case STEP_TRAP_HANDLER:
		step_leave(t, SOFT_LEAVE_ASYNC, ip);
		step_mask_trap(t->tid, false);	/* until it returns */
		t->injected = false;
		t->restart = false;
		break;
	case STEP_TRAP_NONE:
		break;
	case STEP_TRAP_CALL:
		syscall_stop(t, ip, STEP_CALL_BACK);
		break;
	case STEP_TRAP_STEP:
		if (!step_has_moved(t, ip))
			break;
		if (t->insn.cls == X86_SYSCALL)
			syscall_stop(t, ip, false);
		else
			executed(t, &t->insn, ip);
		break;
	case STEP_TRAP_BREAK:
		/* a trap: the IP is past INT3, which went into the kernel */
		if (t->insn.size && ip == t->insn.ip + t->insn.size)
			step_enter_syscall(t);
		t->in_syscall = false;
		step_leave(t, SOFT_LEAVE_ASYNC, ip);
		report_signal(t, sig, ip);
		t->ip = ip;
		return step_resume(t, sig);
	default:
		return deliver(t, sig, ip);
	}
	t->ip = ip;
	return step_resume(t, 0);
}

/* A stop by sig (no event): finds out what ran, and resumes. */
static int stopped(struct step_thread *t, int sig)
{
	uint64_t ip = step_ip_read(t->tid);
	bool vsyscall = t->vsyscall;

	t->running = t->vsyscall = false;
	if (errno == ESRCH)
		return 0;
	if (vsyscall && sig == SIGTRAP && ip == t->ip)
		return step_resume(t, 0);	/* back from it, and nothing ran yet */
	if (sig != SIGTRAP)
		return deliver(t, sig, ip);
	if (!is_plain_step(t, ip))
		return trap(t, sig, ip);
	executed(t, &t->insn, ip);
	t->ip = ip;
	return step_resume(t, 0);
}

/* EXITKILL: the program dies with auxcap instead of running on unobserved. */
#define OPTIONS (PTRACE_O_EXITKILL | STEP_OPTIONS)
#define TICK_NS 100000000u
#define KILL_WAIT_NS 5000000000u	/* for what got SIGKILL to end, */
#define GIVE_UP_NS 2000000000u		/* and if the user is impatient */

/*
 * In the child: waits until it is traced, then executes the program. An errno
 * in the pipe failed, which exec closes, says why exec failed.
 */
static void exec_program(char *const *argv, const int go[2], int failed)
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

/* execvp() would give a program of another machine to sh, as a script. */
static int refuse_foreign(struct step *st)
{
	const char *name = st->p->argv[0];
	int fd = strchr(name, '/') ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	Elf64_Half machine = SOFT_HOST;
	unsigned char head[20];

	if (fd < 0)
		return 0;
	if (read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
	    !memcmp(head, ELFMAG, SELFMAG))
		machine = (Elf64_Half)(head[18] | head[19] << 8);
	close(fd);
	if (machine == SOFT_HOST || machine == STEP_32BIT)
		return 0;
	return diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
			"%s: cannot be traced: not an " STEP_NAME " ELF program%s", name,
			machine == EM_AARCH64 ? ": -e soft_etm//u traces those of AArch64" :
			machine == EM_X86_64 ? ": -e soft_pt//u traces those of x86-64" :
			"");
}

/* Mappings and code are read in /proc, which an empty chroot lacks. */
static int refuse_blind(struct step *st)
{
	if (!access("/proc/self/maps", R_OK))
		return 0;
	return diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
			"/proc is not mounted, and a program's code is read through it: "
			"mount -t proc proc /proc");
}

/* Forks the program and seizes it. *failed: see exec_program(). */
static int launch(struct step *st, int *failed)
{
	int go[2], fail[2], err = refuse_foreign(st);
	pid_t pid;

	if (!err)
		err = refuse_blind(st);
	if (err)
		return err;
	if (pipe2(go, O_CLOEXEC) || pipe2(fail, O_CLOEXEC))
		return diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"cannot make a pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"cannot fork: %s", strerror(errno));
	if (!pid)
		exec_program(st->p->argv, go, fail[1]);
	close(go[0]);
	close(fail[1]);
	*failed = fail[0];
	st->main_pid = pid;
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)OPTIONS)) {
		err = errno;
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

long step_status(pid_t tid, const char *key, char *state)
{
	char path[64], line[256];
	size_t n = strlen(key);
	long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (state && !strncmp(line, "State:\t", 7))
			*state = line[7];
		if (!strncmp(line, key, n) && line[n] == ':')
			value = strtol(line + n + 1, NULL, 10);
	}
	if (f)
		fclose(f);
	return value;
}

/* A clone event does not say whether the new task shares the process. */
pid_t step_tgid_of(pid_t tid)
{
	long tgid = step_status(tid, "Tgid", NULL);

	return tgid > 0 ? (pid_t)tgid : tid;
}

struct step_process *step_process_get(struct step *st, pid_t pid,
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

/* Nothing is known of what it ran before. */
static void set_fresh(struct step_thread *t)
{
	t->ip = step_ip_read(t->tid);
	t->insn.size = 0;
	t->in_syscall = t->injected = t->restart = false;
}

static int resume_fresh(struct step_thread *t)
{
	set_fresh(t);
	t->native.step_ip = t->ip;	/* the kernel is still to set registers */
	return step_resume(t, 0);
}

/* The first stop of a thread that was attached to: a system call in which it
 * was interrupted may run again. */
static void arrive(struct step_thread *t)
{
	t->fresh = false;
	set_fresh(t);
	t->restart = step_call_broken(t);
	t->trap_blocked = step_mask_trap(t->tid, false);
}

/* A thread whose creator was seen, and which has stopped for the first time. */
static int begin(struct step_thread *t)
{
	if (t->tid == t->proc->pid && step_vdso_save(t))
		return t->proc->step->error;
	return resume_fresh(t);
}

/* fork, vfork or clone in parent; tid may have stopped already (on_unknown). */
static int on_new_thread(struct step *st, struct step_thread *parent, pid_t tid)
{
	struct step_thread *t = step_thread_find(st, tid);
	bool waiting = t;
	struct step_process *proc;

	if (t && t->soft)	/* attached to with its creator */
		return 0;
	step_enter_syscall(parent);
	proc = step_process_get(st, step_tgid_of(tid), parent->proc);
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
	t->trap_blocked = parent->trap_blocked;
	t->soft = soft_thread_add(st->s, (uint32_t)proc->pid, (uint32_t)tid,
				  parent->soft);
	if (!t->soft || step_trigger_fork(t, parent))
		return -AUX_E_NOMEM;
	return waiting ? begin(t) : 0;
}

/* A stop of a thread whose creation event is still to come: it waits in it. */
static int on_unknown(struct step *st, pid_t tid)
{
	return step_thread_new(st, NULL, tid) ? 0 : -AUX_E_NOMEM;
}

/* PTRACE_EVENT_EXIT: what ran since the last stop of a thread that ends now. */
static void report_last_step(struct step_thread *t)
{
	uint64_t ip = step_ip_read(t->tid);

	if (t->insn.cls == X86_SYSCALL && t->insn.size &&
	    (t->in_syscall || ip != t->insn.ip))
		step_enter_syscall(t);
	else
		finish_step(t, ip);
	step_leave(t, SOFT_LEAVE_ASYNC, t->ip);
	step_flush_thread(t);
}

void step_finish(struct step_thread *t)
{
	if (t->native.inside)
		step_native_gone(t);
	step_leave(t, SOFT_LEAVE_ASYNC, t->ip);
	step_flush_thread(t);
}

/* Ends the thread's recording; idempotent. */
static void retire(struct step_thread *t)
{
	if (t->soft) {
		step_finish(t);
		soft_thread_exit(t->soft);
	}
	t->soft = NULL;
}

/*
 * The thread that execs, of the former tid old. When it is not the main one,
 * the kernel ends the others and gives it the main thread's tid; the main
 * thread's own end is never reported (ptrace(2), "execve(2) under ptrace").
 */
static struct step_thread *exec_thread(struct step *st, pid_t tid, pid_t old)
{
	struct step_thread *t = step_thread_find(st, old), *gone;

	if (!t || old == tid)
		return t;
	gone = step_thread_find(st, tid);
	if (gone) {
		retire(gone);
		step_thread_drop(st, gone);
	}
	step_enter_syscall(t);
	step_flush_thread(t);
	t->tid = tid;
	gone = t;
	t->soft = soft_thread_add(st->s, (uint32_t)t->proc->pid, (uint32_t)tid,
				  t->soft);
	return gone;
}

/* A 32-bit program cannot be traced: it is detached and reported, or refused if
 * it is the first. */
static int release_32bit(struct step *st, struct step_thread *t)
{
	static const char why[] = "a 32-bit program";

	if (!soft_stats(st->s)->n_insns && !st->p->target)
		return diag_set(st->diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"%s: cannot be traced: %s", st->p->argv[0],
				why);
	name_not_traced(t, why);
	ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
	retire(t);
	step_thread_drop(st, t);
	return st->error;
}

/* The old image's threads, code and mappings are gone; pid and fds stay. */
static int on_exec(struct step *st, pid_t tid)
{
	unsigned long old = (unsigned long)tid;
	struct step_thread *t;
	int err;

	ptrace(PTRACE_GETEVENTMSG, tid, NULL, &old);
	t = exec_thread(st, tid, (pid_t)old);
	if (!t || !t->soft)
		return -AUX_E_NOMEM;
	step_native_drop(t);
	step_native_close(t->proc);
	t->proc->ran_before = false;
	if (st->started)
		step_enter_syscall(t);
	st->started = true;
	step_flush_process(t->proc);
	if (step_is_32bit(tid))
		return release_32bit(st, t);
	step_code_reset(t->proc);
	step_trigger_reset(t->proc);
	t->n_calls = 0;
	report_exec_comm(st, t);
	err = step_maps_update(t, true);
	return err ? err : resume_fresh(t);
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
		/* no instruction runs any more: no need to step */
		t->running = false;
		report_last_step(t);
		t->in_syscall = t->exiting = true;
		ptrace(PTRACE_CONT, t->tid, NULL, NULL);
		return st->error;
	default:
		break;
	}
	return err ? err : step_resume(t, 0);
}

/* The begin or the end of a system call that sets_mask(). */
static int call_stop(struct step *st, struct step_thread *t)
{
	if (t->in_syscall) {
		t->running = false;
		t->ip = step_ip_read(t->tid);
		finish_syscall(t);
		return step_resume(t, 0);
	}
	step_enter_syscall(t);
	if (st->detaching)
		return step_resume(t, 0);
	ptrace(PTRACE_SYSCALL, t->tid, NULL, NULL);
	return st->error;
}

/*
 * Stopped to be let go. The trap of a step that has just ended comes next, if
 * there is one, and explains what ran; without one only a system call may have
 * begun.
 */
static int interrupted(struct step_thread *t)
{
	t->running = t->paused = false;
	if (t->fresh)
		arrive(t);
	else if (!step_trap_queued(t->tid))
		return deliver(t, 0, step_ip_read(t->tid));
	return step_resume(t, 0);
}

/* PTRACE_EVENT_STOP: the first stop of a new thread, or a group stop. */
static int on_stop_event(struct step *st, struct step_thread *t, int sig)
{
	if (st->detaching)
		return interrupted(t);
	if (sig != SIGTRAP) {
		ptrace(PTRACE_LISTEN, t->tid, NULL, NULL);
		t->listens = true;
		return 0;
	}
	if (t->fresh) {
		arrive(t);
		return step_resume(t, 0);
	}
	if (t->paused) {	/* here, or at the first instruction of a handler */
		t->paused = false;
		t->ip = step_ip_read(t->tid);
		step_mask_trap(t->tid, false);
		return step_resume(t, 0);
	}
	if (!t->ip && !t->insn.size)
		return begin(t);
	ptrace(PTRACE_SINGLESTEP, t->tid, NULL, NULL);
	return st->error;
}

/* What waitpid() says of a stopped thread. */
int step_stop(struct step *st, pid_t tid, int status)
{
	int event = status >> 16, sig = WSTOPSIG(status);
	struct step_thread *t;

	if (event == PTRACE_EVENT_EXEC)
		return on_exec(st, tid);
	t = step_thread_find(st, tid);
	if (!t)
		return on_unknown(st, tid);
	t->listens = false;
	if (!t->proc)
		return 0;
	if (!st->started) {
		/* our own child on its way to exec */
		ptrace(PTRACE_CONT, tid, NULL,
		       event ? NULL : (void *)(intptr_t)sig);
		return 0;
	}
	take_run(t);
	if (t->native.inside && step_native_stop(t, &status))
		return st->error;
	event = status >> 16;
	sig = WSTOPSIG(status);
	if (event == PTRACE_EVENT_EXEC)
		return on_exec(st, tid);
	if (event == PTRACE_EVENT_STOP)
		return on_stop_event(st, t, sig);
	if (t->fresh)
		arrive(t);
	if (sig == (SIGTRAP | 0x80))
		return call_stop(st, t);
	return event ? on_event(st, t, event) : stopped(t, sig);
}

/* The thread is gone. Running: SIGKILL took it in mid-step, without an exit
 * event. */
static void on_end(struct step *st, pid_t tid, int status)
{
	struct step_thread *t = step_thread_find(st, tid);

	if (tid == st->main_pid)
		st->status = status;
	if (!t)
		return;
	if (!t->proc) {
		step_thread_drop(st, t);
		return;
	}
	if ((t->running || (t->native.inside && t->user)) && t->soft)
		soft_killed(st->s);
	retire(t);
	step_thread_drop(st, t);
}

/* As waitpid() says. */
static void report_end(struct step *st, pid_t tid, int status)
{
	struct step_thread *t = step_thread_find(st, tid);

	if (t && t->proc && t->soft) {
		step_trigger_exit(t, status);
		step_note(t, soft_ended(st->s, (uint32_t)t->proc->pid, (uint32_t)tid,
					status));
	}
	on_end(st, tid, status);
}

/*
 * Reports what has been batched, and lets soft write. Called between stops; the
 * block a thread is in stays with it.
 */
static void tick(struct step *st)
{
	uint64_t now = clock_ns();
	struct step_thread *t;

	step_trigger_due(st, false);
	if (now - st->ticked_ns < TICK_NS)
		return;
	st->ticked_ns = now;
	step_watch(st);
	for (t = st->threads; t; t = t->next)
		if (t->proc && t->soft)
			step_flush_thread(t);
	if (soft_tick(st->s) && !st->error)
		st->error = -AUX_E_IO;
	if (!st->p->progress || now - st->shown_ns < SOFT_PROGRESS_MS * 1000000ul)
		return;
	st->shown_ns = now;
	st->p->progress(st->p->progress_priv, soft_stats(st->s));
}

/*
 * The user wants an end, or an error: the loop then sees every process end.
 * Again and again, as new ones may come, and those whose creator ended before
 * it was said whose they are. What lives on for too long (it may sleep in the
 * kernel for good) is not waited for: false.
 */
static bool kill_all(struct step *st)
{
	uint64_t now = clock_ns(), since;
	struct step_process *proc;
	struct step_thread *t;

	if (!st->killed_ns)
		st->killed_ns = now;
	else if (now - st->kill_ns < TICK_NS)
		return true;
	st->kill_ns = now;
	for (proc = st->procs; proc; proc = proc->next)
		kill(proc->pid, SIGKILL);
	for (t = st->threads; t; t = t->next)
		if (!t->proc)
			kill(t->tid, SIGKILL);
	since = now - st->killed_ns;
	return since < (st->p->stop && *st->p->stop > 1 ? GIVE_UP_NS :
							  KILL_WAIT_NS);
}

static bool goes_on(struct step *st)
{
	if (st->p->target)
		return step_goes_on(st);
	if (st->gave_up && !(st->p->stop && *st->p->stop) && !st->error)
		return step_detach(st);
	return !(st->p->stop && *st->p->stop) && !st->error ? true :
							      kill_all(st);
}

static int loop(struct step *st)
{
	unsigned count = 0;
	int status, err;
	pid_t tid;

	while (goes_on(st)) {
		step_unlock(st);
		tid = waitpid(-1, &status, __WALL);
		step_lock(st);
		if (tid < 0 && errno == EINTR) {
			tick(st);
			continue;
		}
		if (tid < 0)
			break;
		err = 0;
		if (step_beside(st, tid, status))
			continue;
		if (WIFSTOPPED(status))
			err = step_stop(st, tid, status);
		else
			report_end(st, tid, status);
		if (st->ended)
			report_end(st, st->ended, st->end_status);
		st->ended = 0;
		if (err && !st->error)
			st->error = err;
		if (!(++count & 63))
			tick(st);
	}
	return st->error;
}

/*
 * The clock interrupts this, too: a first thread that another one killed in mid-run
 * is then found to be gone, while that one waits for its own last stop to be seen; the
 * end of a process's first thread is reported after that of the last one.
 */
bool step_wait(const struct step_thread *t, int *status)
{
	struct step *st = t->proc->step;
	uint64_t since = 0;
	pid_t got;

	do {
		got = waitpid(t->tid, status, __WALL);
		if (got >= 0 || errno != EINTR)
			break;
		if (step_state(t->tid) == 'Z') {
			*status = 0;
			return false;
		}
		if (step_stalled(t->tid, &since)) {
			*status = PTRACE_EVENT_STOP << 16 | SIGTRAP << 8 | 0x7f;
			return true;
		}
	} while (true);
	if (got == t->tid && !WIFSTOPPED(*status)) {
		st->ended = got;
		st->end_status = *status;
	}
	return got == t->tid && WIFSTOPPED(*status);
}

static void on_alarm(int sig)
{
	(void)sig;	/* waitpid() comes back, that is all */
}

/* An interval timer interrupts waitpid(), so that data is written and the
 * user's stop is seen while all threads sleep. */
static void start_clock(void)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct timeval tv = { .tv_usec = TICK_NS / 1000 };
	struct itimerval it = { tv, tv };

	if (!sigaction(SIGALRM, &sa, NULL))
		setitimer(ITIMER_REAL, &it, NULL);
}

void step_alarm(uint64_t ns)
{
	struct itimerval it = { .it_interval = { .tv_usec = TICK_NS / 1000 } };

	it.it_value.tv_sec = (time_t)(ns / 1000000000);
	it.it_value.tv_usec = (suseconds_t)(ns % 1000000000 / 1000) + 1;
	setitimer(ITIMER_REAL, &it, NULL);
}

static void stop_clock(void)
{
	struct itimerval it = { 0 };

	setitimer(ITIMER_REAL, &it, NULL);	/* on_alarm stays: no alarm kills */
}

/* The first thread exists before its exec, in which it becomes the program. */
static int prepare(struct step *st)
{
	struct step_process *proc = step_process_get(st, st->main_pid, NULL);
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

	/* what was attached to may have ended, which ends the loop before it is told */
	while (st->threads) {
		pid_t tid = st->threads->tid;
		int status;

		if (step_has_ended(st->threads, &status))
			report_end(st, tid, status);
		else
			on_end(st, tid, st->status);
	}
	while ((b = st->build_ids)) {
		st->build_ids = b->next;
		free(b);
	}
}

/* Starts the program, or attaches to what runs. */
static int begin_all(struct step *st, int *failed)
{
	int err;

	st->main_pid = st->p->joined;
	if (st->p->target || st->main_pid)
		return step_attach(st);
	err = launch(st, failed);
	return err ? err : prepare(st);
}

/* After an error while attaching, too, there may be threads to be let go. */
static int run(struct step *st, int *failed)
{
	int err;

	start_clock();
	err = begin_all(st, failed);
	if (err && !st->error)
		st->error = err;
	if (!err && st->native)
		step_reader_start(st);
	if (!err || st->p->target || st->p->joined) {
		step_lock(st);
		err = loop(st);
		step_unlock(st);
	}
	step_reader_stop(st);
	stop_clock();
	if (st->p->target)
		st->status = step_end_beside(st);
	else if (st->gave_up)
		step_await_program(st);
	step_trigger_due(st, true);
	fini(st);
	if (st->native)
		step_native_notes(st);
	step_trigger_notes(st);
	return err;
}

static int run_program(struct soft *s, const struct soft_program *p, bool native,
		       int *status, struct aux_diag *diag)
{
	struct step st = { .s = s, .p = p, .diag = diag, .native = native,
			   .page_size = (uint64_t)sysconf(_SC_PAGESIZE) };
	int failed = -1, why = 0, err;

	st.began_tsc = step_ticks();
	st.began_ns = st.ticked_ns = st.shown_ns = clock_ns();
	err = run(&st, &failed);
	*status = st.status;
	if (!err && failed >= 0 && read(failed, &why, sizeof(why)) > 0)
		err = diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
			       "cannot run %s: %s", p->argv[0], strerror(why));
	if (failed >= 0)
		close(failed);
	return err;
}

int soft_step_run(struct soft *s, const struct soft_program *p, int *status,
		  struct aux_diag *diag)
{
	return run_program(s, p, false, status, diag);
}

int soft_native_run(struct soft *s, const struct soft_program *p, int *status,
		    struct aux_diag *diag)
{
	return run_program(s, p, true, status, diag);
}
