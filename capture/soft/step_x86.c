/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Single steps on x86-64.
 *
 * Specification: ptrace(2); what si_code means at a SIGTRAP stop: Linux,
 * arch/x86/kernel/traps.c and kernel/signal.c.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>

#include "capture/soft/step.h"

/* What the kernel puts into rax when a system call may be restarted. */
enum { ERESTARTSYS = 512, ERESTARTNOINTR, ERESTARTNOHAND,
       ERESTART_RESTARTBLOCK = 516 };

/* si_code of a SIGTRAP stop, besides TRAP_TRACE (a step) and TRAP_BRKPT (a step
 * over a system call: user_single_step_report()). */
#define SI_HANDLER SIGTRAP	/* ptrace_notify() at a handler's first insn */
#define SI_INT3 0x80		/* SI_KERNEL: the program ran INT3 */

bool step_regs_read(pid_t tid, struct user_regs_struct *r)
{
	return !ptrace(PTRACE_GETREGS, tid, NULL, r);
}

uint64_t step_ip_read(pid_t tid)
{
	errno = 0;
	return (uint64_t)ptrace(PTRACE_PEEKUSER, tid,
				offsetof(struct user_regs_struct, rip), NULL);
}

uint64_t step_sp_read(pid_t tid)
{
	return (uint64_t)ptrace(PTRACE_PEEKUSER, tid,
				offsetof(struct user_regs_struct, rsp), NULL);
}

uint64_t step_return_read(struct step_thread *t)
{
	uint64_t ret;

	if (step_memory_read(t->proc, step_sp_read(t->tid), &ret, sizeof(ret)) !=
	    sizeof(ret))
		return 0;
	return ret;
}

/* 0x23 is the kernel's __USER32_CS: the code segment says which ABI runs. */
bool step_is_32bit(pid_t tid)
{
	return ptrace(PTRACE_PEEKUSER, tid,
		      offsetof(struct user_regs_struct, cs), NULL) == 0x23;
}

uint64_t step_call_number(const struct step_thread *t)
{
	return t->regs.rax;
}

uint64_t step_call_arg(const struct step_thread *t, unsigned i)
{
	const struct user_regs_struct *r = &t->regs;
	const uint64_t v[] = { r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9 };

	return v[i];
}

static bool may_restart(const struct user_regs_struct *regs)
{
	int64_t rax = (int64_t)regs->rax;

	return (rax <= -ERESTARTSYS && rax >= -ERESTARTNOHAND) ||
	       rax == -ERESTART_RESTARTBLOCK;
}

/*
 * restart: rax holds one of the kernel's internal ERESTART codes, which user code never
 * sees: after this stop the kernel moves the IP back and may run the call again.
 */
int64_t step_call_result(struct step_thread *t)
{
	struct user_regs_struct before = t->regs;
	int64_t result;

	step_regs_read(t->tid, &t->regs);
	result = (int64_t)t->regs.rax;
	t->restart = may_restart(&t->regs);
	/* arguments as they were; the number's register took the result */
	before.orig_rax = before.rax;
	t->regs = before;
	return result;
}

bool step_call_broken(struct step_thread *t)
{
	step_regs_read(t->tid, &t->regs);
	return (int64_t)t->regs.orig_rax >= 0 && may_restart(&t->regs);
}

enum step_trap step_trap_kind(const siginfo_t *si)
{
	switch (si->si_code) {
	case SI_HANDLER:
		return STEP_TRAP_HANDLER;
	case TRAP_BRKPT:
		return STEP_TRAP_CALL;
	case TRAP_TRACE:
	case TRAP_HWBKPT:
		return STEP_TRAP_STEP;
	case SI_INT3:
		return STEP_TRAP_BREAK;
	default:
		return STEP_TRAP_OTHER;
	}
}

bool step_trap_is(const siginfo_t *si, bool int3)
{
	return si->si_signo == SIGTRAP && si->si_code > 0 &&
	       (si->si_code == SI_INT3) == int3;
}

/* A REP instruction stops after each turn. */
bool step_has_moved(const struct step_thread *t, uint64_t ip)
{
	return !t->insn.rep || ip != t->insn.ip;
}

/* The kernel moved the IP back and ran the call again within one step. */
bool step_is_restart(const struct step_thread *t, uint64_t ip)
{
	return ip == t->ip;
}

/* PUSHF (9c), POPF (9d) or IRET (cf) in any form: with 66 or REX before it. */
static bool is_flags(const uint8_t *bytes, int size, uint8_t opcode)
{
	return size > 0 && bytes[size - 1] == opcode &&
	       (size == 1 || (size == 2 && (bytes[0] == 0x66 ||
					    (bytes[0] & 0xf0) == 0x40)));
}

int step_insn_decode(const uint8_t *bytes, size_t n, struct step_insn *insn)
{
	struct x86_insn x;
	int size = x86_insn_decode(bytes, n, &x);

	if (size <= 0)
		return 0;
	insn->size = (uint8_t)size;
	insn->cls = x.cls;
	insn->rep = x.rep_string;
	insn->target = insn->ip + (uint64_t)size + (uint64_t)x.disp;
	insn->pushf = is_flags(bytes, size, 0x9c);
	insn->popf = is_flags(bytes, size, 0x9d) ||
		     is_flags(bytes, size, 0xcf);
	return size;
}

/* Before a PTWRITE runs: its operand may be gone afterwards. */
static void read_ptwrite(struct step_thread *t)
{
	struct user_regs_struct regs;
	uint8_t bytes[15];

	t->ptw.size = 0;
	if (!step_regs_read(t->tid, &regs) ||
	    step_memory_read(t->proc, t->ip, bytes, t->insn.size) !=
		    t->insn.size ||
	    !step_ptwrite_operand(bytes, t->insn.size, t->ip, &regs, &t->ptw))
		return;
	if (!t->ptw.is_memory)
		return;
	regs.rax = 0;	/* as a buffer: a 4-byte operand is zero-extended */
	if (step_memory_read(t->proc, t->ptw.value, &regs.rax,
			     (size_t)t->ptw.size) != (size_t)t->ptw.size)
		t->ptw.size = 0;
	t->ptw.value = regs.rax;
}

bool step_insn_before(struct step_thread *t, int sig)
{
	(void)sig;
	if (t->insn.cls == X86_PTWRITE)
		read_ptwrite(t);
	return false;
}

/*
 * The flags that a PUSHF stored have our trap flag in them, which the program
 * must neither see nor load again after it is let go. ptrace shows the flag in
 * the register only if the program itself has set it.
 */
void step_insn_after(struct step_thread *t, const struct step_insn *insn)
{
	struct user_regs_struct regs;
	long word;

	if (!insn->pushf || !step_regs_read(t->tid, &regs) ||
	    regs.eflags & STEP_TRAP_FLAG)
		return;
	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, t->tid, (void *)regs.rsp, NULL);
	if (!errno)
		ptrace(PTRACE_POKEDATA, t->tid, (void *)regs.rsp,
		       (void *)(word & ~(long)STEP_TRAP_FLAG));
}

/* No step runs more than one instruction here. */
bool step_insn_ran(struct step_thread *t, struct step_insn *insn, uint64_t *next)
{
	(void)t, (void)insn, (void)next;
	return false;
}

/*
 * The kernel takes a trap flag for the program's own if the step was to begin
 * at POPF, and leaves it there.
 */
void step_clear_trap_flag(const struct step_thread *t)
{
	struct user_regs_struct regs;

	if (!t->insn.popf || t->insn.ip != t->ip || !step_regs_read(t->tid, &regs))
		return;
	regs.eflags &= ~STEP_TRAP_FLAG;
	ptrace(PTRACE_SETREGS, t->tid, NULL, &regs);
}

uint64_t step_ticks(void)
{
	return __builtin_ia32_rdtsc();
}
