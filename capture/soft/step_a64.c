/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Single steps on AArch64.
 *
 * A step is an exception return with PSTATE.SS, and each exception clears the exclusive
 * monitor: a store-exclusive that is stepped to always fails, and the loop around it never
 * ends. So a thread runs at once from a load-exclusive to what comes after its
 * store-exclusive: hardware breakpoints, which no other thread meets and no memory shows,
 * stand at each way out, and the way that it took says which instructions ran.
 *
 * Specification: Arm ARM (DDI 0487), "Software Step exceptions" and "Load-Exclusive and
 * Store-Exclusive instruction usage restrictions"; ptrace(2); Linux 6.1,
 * arch/arm64/kernel/signal.c and arch/arm64/kernel/ptrace.c.
 */
#include <elf.h>
#include <errno.h>
#include <asm/ptrace.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "common/a64_insn.h"

#include "capture/soft/step.h"

/* x0, when a system call may be restarted. */
enum { ERESTARTSYS = 512, ERESTARTNOINTR, ERESTARTNOHAND,
       ERESTART_RESTARTBLOCK = 516 };

#define SI_HANDLER SIGTRAP	/* ptrace_notify() at a handler's first insn */
#define BREAK_EL0 0x1e5u	/* DBGBCR: enabled, at EL0, all 4 bytes */
#define BREAKS_MAX 4
#define EXCLUSIVE_MAX 32	/* instructions of a sequence */

bool step_regs_read(pid_t tid, struct user_regs_struct *r)
{
	struct iovec iov = { r, sizeof(*r) };

	return !ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) &&
	       iov.iov_len == sizeof(*r);
}

uint64_t step_ip_read(pid_t tid)
{
	struct user_regs_struct r;

	errno = 0;
	return step_regs_read(tid, &r) ? r.pc : 0;
}

uint64_t step_sp_read(pid_t tid)
{
	struct user_regs_struct r;

	return step_regs_read(tid, &r) ? r.sp : 0;
}

uint64_t step_return_read(struct step_thread *t)
{
	struct user_regs_struct r;

	return step_regs_read(t->tid, &r) ? r.regs[30] : 0;
}

/* The registers of AArch32 are fewer. */
bool step_is_32bit(pid_t tid)
{
	struct user_regs_struct r;
	struct iovec iov = { &r, sizeof(r) };

	return !ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) &&
	       iov.iov_len != sizeof(r);
}

uint64_t step_call_number(const struct step_thread *t)
{
	return t->regs.regs[8];
}

uint64_t step_call_arg(const struct step_thread *t, unsigned i)
{
	return t->regs.regs[i];
}

/*
 * The kernel moves the PC back to a call that may run again before it shows another stop:
 * at one by a step it has done so; at one by PTRACE_SYSCALL it is still to, and x0 has
 * its ERESTART code. Either way the call is the next instruction.
 */
int64_t step_call_result(struct step_thread *t)
{
	struct user_regs_struct now = t->regs;
	int64_t x0;

	step_regs_read(t->tid, &now);
	x0 = (int64_t)now.regs[0];
	t->restart = false;
	if (now.pc != t->insn.ip && ((x0 <= -ERESTARTSYS && x0 >= -ERESTARTNOHAND) ||
				     x0 == -ERESTART_RESTARTBLOCK))
		t->ip = t->insn.ip;
	return x0;
}

/* Its stop showed the PC moved back. */
bool step_call_broken(struct step_thread *t)
{
	(void)t;
	return false;
}

/* user_single_step_report() says SI_USER, of nobody. */
static bool is_after_call(const siginfo_t *si)
{
	return si->si_code == SI_USER && !si->si_pid;
}

enum step_trap step_trap_kind(const siginfo_t *si)
{
	switch (si->si_code) {
	case SI_HANDLER:
		return STEP_TRAP_HANDLER;
	case TRAP_TRACE:
		return STEP_TRAP_STEP;
	case TRAP_HWBKPT:
		return STEP_TRAP_NONE;	/* step_insn_ran() told what ran */
	default:
		return is_after_call(si) ? STEP_TRAP_CALL : STEP_TRAP_OTHER;
	}
}

bool step_trap_is(const siginfo_t *si, bool int3)
{
	return si->si_signo == SIGTRAP &&
	       (si->si_code > 0 ? (si->si_code == TRAP_BRKPT) == int3 :
				  !int3 && is_after_call(si));
}

/* After a system call a step may end before it has begun. */
bool step_has_moved(const struct step_thread *t, uint64_t ip)
{
	const struct step_insn *insn = &t->insn;

	return insn->size &&
	       (ip != insn->ip || ((insn->cls == A64_COND || insn->cls == A64_JUMP ||
				    insn->cls == A64_CALL) && insn->target == ip));
}

/* It is stepped as any other instruction. */
bool step_is_restart(const struct step_thread *t, uint64_t ip)
{
	(void)t, (void)ip;
	return false;
}

static uint32_t word_of(const uint8_t *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/*
 * LDXR, LDAXR, LDXP, LDAXP and their forms for bytes and halves; STXR and so on. Between
 * them in the encoding, with bit 31 clear and bit 21 set, is CASP.
 */
static bool is_exclusive(uint32_t word, bool load)
{
	return (word & 0x3fc00000) == (load ? 0x08400000 : 0x08000000) &&
	       (word >> 31 || !(word >> 21 & 1));
}

int step_insn_decode(const uint8_t *bytes, size_t n, struct step_insn *insn)
{
	struct a64_insn a;

	if (n < STEP_INSN_MAX || insn->ip % STEP_INSN_MAX)
		return 0;
	insn->size = STEP_INSN_MAX;
	insn->cls = (uint8_t)a64_insn_decode(word_of(bytes), &a);
	insn->target = insn->ip + (uint64_t)(int64_t)a.disp;
	insn->load_exclusive = is_exclusive(word_of(bytes), true);
	insn->store_exclusive = is_exclusive(word_of(bytes), false);
	return insn->size;
}

/* n breakpoints; 0: none any more. */
static bool set_breaks(pid_t tid, const uint64_t *at, size_t n)
{
	struct user_hwdebug_state s = { 0 };
	struct iovec iov = { &s, offsetof(struct user_hwdebug_state, dbg_regs) +
				 BREAKS_MAX * sizeof(s.dbg_regs[0]) };
	size_t have;

	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_ARM_HW_BREAK, &iov))
		return false;
	have = s.dbg_info & 0xff;
	if (have > BREAKS_MAX)
		have = BREAKS_MAX;
	if (n > have)
		return false;
	memset(s.dbg_regs, 0, sizeof(s.dbg_regs));
	for (size_t i = 0; i < n; i++) {
		s.dbg_regs[i].addr = at[i];
		s.dbg_regs[i].ctrl = BREAK_EL0;
	}
	iov.iov_len = offsetof(struct user_hwdebug_state, dbg_regs) +
		      have * sizeof(s.dbg_regs[0]);
	return !ptrace(PTRACE_SETREGSET, tid, (void *)NT_ARM_HW_BREAK, &iov);
}

/*
 * The ways out of the sequence that begins with t->insn: n addresses, the first of which
 * follows the store-exclusive. Conditional branches may lead out of it, each to a place of
 * its own. 0: it is none, and is stepped: also one that branches back into itself, as how
 * often that was done would not be known.
 */
static size_t find_ways_out(struct step_thread *t, uint64_t *out)
{
	uint64_t start = t->insn.ip, ip = start;
	struct step_insn insn = t->insn;
	size_t n = 1, i;

	do {
		ip += STEP_INSN_MAX;
		if (ip - start >= EXCLUSIVE_MAX * STEP_INSN_MAX ||
		    step_insn_get(t, ip, &insn) || !insn.size || insn.load_exclusive)
			return 0;
		if (insn.cls == A64_COND && n < BREAKS_MAX)
			out[n++] = insn.target;
		else if (insn.cls != A64_OTHER)
			return 0;
	} while (!insn.store_exclusive);
	out[0] = ip + STEP_INSN_MAX;
	for (i = 1; i < n; i++) {
		if (out[i] >= start && out[i] <= out[0])
			return 0;
		for (size_t k = 1; k < i; k++)
			if (out[i] == out[k])
				return 0;
	}
	return n;
}

bool step_insn_before(struct step_thread *t, int sig)
{
	uint64_t out[BREAKS_MAX];
	size_t n;

	if (sig || !t->insn.load_exclusive || t->insn.ip != t->ip)
		return false;
	n = find_ways_out(t, out);
	if (!n || !set_breaks(t->tid, out, n))
		return false;
	t->over_end = out[0];
	t->running = true;
	ptrace(PTRACE_CONT, t->tid, NULL, NULL);
	return true;
}

/*
 * Where it is says what ran, as nothing in the sequence leads back. A stop before its end
 * is for a signal or event, and the rest is stepped: the store fails and the loop turns
 * once more, as after any interrupt.
 */
bool step_insn_ran(struct step_thread *t, struct step_insn *insn, uint64_t *next)
{
	uint64_t ip;

	if (!t->over_end)
		return false;
	ip = step_ip_read(t->tid);
	if (t->insn.ip == ip || t->insn.ip == t->over_end || !t->insn.size) {
		set_breaks(t->tid, NULL, 0);
		t->over_end = 0;
		t->ip = t->insn.ip;
		return false;
	}
	*insn = t->insn;
	*next = insn->ip + STEP_INSN_MAX;
	if (insn->cls == A64_COND && insn->target == ip)
		*next = ip;
	step_note(t, step_insn_get(t, *next, &t->insn));
	return true;
}

/* No register or instruction shows a program that it is stepped. */
void step_insn_after(struct step_thread *t, const struct step_insn *insn)
{
	(void)t, (void)insn;
}

void step_clear_trap_flag(const struct step_thread *t)
{
	(void)t;
}

uint64_t step_ticks(void)
{
	uint64_t v;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
}
