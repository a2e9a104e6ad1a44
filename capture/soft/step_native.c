/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that run from a code cache, and what they ran there.
 *
 * A process's cache is a memfd that it and this process have mapped: the one
 * executes it, the other writes it. Two areas for copies, near the program and
 * near its libraries, so that most relative operands reach; and data, the table
 * of indirect targets and each thread's slots and ring.
 *
 * Invariant: a thread that is stopped is either inside, with registers that only
 * this file knows how to read, or has the registers and the address that it
 * would have had without the cache. Only in the latter state does it enter the
 * kernel for a signal's handler, or for a system call that is not plain; so the
 * program never sees an address of the cache. Where a stop falls between two
 * instructions of the program, single steps lead on to the next of them.
 *
 * Specification: ptrace(2); Linux, arch/x86/entry/entry_64.S (what SYSCALL
 * leaves in RCX) and kernel/signal.c (calls that are restarted).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/soft/step_native.h"
#include "common/array.h"
#include "common/clock.h"

#define SETTLE_STEPS 1000	/* far more than between two instructions */
#define CALL_RSEQ 334
#define ALIGN_FLAG 0x40000u	/* of EFLAGS: copied code is read where it is */
#ifndef TRAP_PERF
#define TRAP_PERF 6
#endif
#define RECORD_AT 20	/* bytes from where an exit begins to its record, */
#define RECORD_BYTES 20	/* and from there until it counts */

static struct native_slots *slots_of(const struct step_thread *t)
{
	return step_native_slots(t, t->native.half);
}

static uint64_t slots_at(const struct step_thread *t)
{
	const struct step_native *nc = t->proc->native;

	return nc->data_at + (uint64_t)((uint8_t *)slots_of(t) - nc->mem);
}

static void set_cur(struct step_thread *t, int64_t cur)
{
	__atomic_store_n(&slots_of(t)->cur, cur, __ATOMIC_RELEASE);
}

static void count(const struct step_thread *t, enum step_count what)
{
	t->proc->step->counts[what]++;
}

/* ---- in and out ---- */

static bool claim_slot(struct step_thread *t)
{
	struct step_native *nc = t->proc->native;
	struct native_slots *s;
	uint32_t i;

	for (i = 0; i < NATIVE_N_SLOTS && nc->taken[i]; i++)
		;
	if (i == NATIVE_N_SLOTS)
		return false;
	nc->taken[i] = true;
	nc->n_taken++;
	t->native.slot = i + 1;
	s = slots_of(t);
	memset(s, 0, sizeof(*s));
	s->calls = nc->data_at + NATIVE_CALLS_AT;
	s->miss = nc->areas[0].miss;
	for (i = 0; i < NATIVE_N_TABLES; i++)
		s->tables[i] = nc->data_at +
			       i % NATIVE_REAL_TABLES * NATIVE_TABLE_BYTES;
	*step_native_slots(t, 1) = *s;
	set_cur(t, -NATIVE_RING);
	step_native_begin_ring(t);
	return true;
}

void step_native_drop(struct step_thread *t)
{
	if (t->native.slot && t->proc && t->proc->native) {
		t->proc->native->taken[t->native.slot - 1] = false;
		t->proc->native->n_taken--;
	}
	t->native = (struct step_native_thread){ 0 };
}

static int run_on(struct step_thread *t, const struct user_regs_struct *r)
{
	ptrace(PTRACE_SETREGS, t->tid, NULL, r);
	t->running = true;
	if (t->proc->step->detaching)
		ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	ptrace(PTRACE_CONT, t->tid, NULL, NULL);
	return t->proc->step->error;
}

/* The thread is as it would be without the cache, at ip. */
static void come_out(struct step_thread *t, struct user_regs_struct *r,
		     uint64_t ip)
{
	r->rip = ip;
	r->gs_base = t->native.gs;
	ptrace(PTRACE_SETREGS, t->tid, NULL, r);
	t->native.inside = t->native.tip = false;
	t->native.call = NULL;
	t->ip = ip;
	t->insn.size = 0;
	if (!t->block_n)
		t->block_start = ip;
}

bool step_native_enter(struct step_thread *t)
{
	struct step_native_thread *n = &t->native;
	struct user_regs_struct r;
	uint32_t id;

	if (!t->proc->step->native || t->in_syscall || t->restart ||
	    t->injected || t->block_n || t->ip == n->step_ip ||
	    t->proc->native_off || x86_is_vsyscall(t->ip))
		return false;
	if (!t->proc->native && !step_native_open(t))
		return false;
	if (!n->slot && !claim_slot(t))
		return false;
	id = step_native_reach(t, t->ip);
	if (!id || ptrace(PTRACE_GETREGS, t->tid, NULL, &r) ||
	    r.eflags & (STEP_TRAP_FLAG | ALIGN_FLAG) || r.rip != t->ip)
		return false;
	step_flush_thread(t);
	n->inside = true;
	n->target = t->ip;
	n->tip = false;
	n->last = UINT32_MAX;
	n->gs = r.gs_base;
	n->step_ip = 0;
	if (!t->user)
		n->back_ns = clock_ns();
	r.rip = t->proc->native->units[id].code;
	r.gs_base = slots_at(t);
	run_on(t, &r);
	return true;
}

/* ---- stops inside ---- */

/* The program's registers that a copy of this instruction may have in slots. */
static void restore(const struct step_thread *t, const struct native_insn *in,
		    struct user_regs_struct *r)
{
	const struct native_slots *s = slots_of(t);

	if (in->cls == X86_RET || in->cls == X86_IND_CALL ||
	    in->cls == X86_IND_JUMP) {
		r->rax = s->rax;
		r->rcx = s->rcx;
		r->rdx = s->rdx;
	}
	if (in->far == 6)
		r->rsi = s->far;
	else if (in->far == 7)
		r->rdi = s->far;
	else if (in->far == 3)
		r->rbx = s->far;
}

static void restore_all(const struct step_thread *t, struct user_regs_struct *r)
{
	const struct native_slots *s = slots_of(t);

	r->rax = s->rax;
	r->rcx = s->rcx;
	r->rdx = s->rdx;
}

/* The ring is full: the thread goes on with its other one, which has been read. */
static void turn_ring(struct step_thread *t, struct user_regs_struct *r,
		      uint64_t record)
{
	struct step_native_thread *n = &t->native;
	const struct native_slots *from = slots_of(t);

	step_native_read_full(t, SIZE_MAX);
	n->half ^= 1;
	memcpy(slots_of(t), from, offsetof(struct native_slots, tables));
	set_cur(t, -NATIVE_RING);
	r->gs_base = slots_at(t);
	r->rcx = (uint64_t)-NATIVE_RING;
	r->rip = record;
	if (n->done)
		step_reader_wake(t->proc->step);
	else
		step_native_begin_ring(t);	/* the full one was read already */
}

/* After a system call that ran in the cache, at its next instruction: as if it
 * had been stepped over and its end is to be reported. */
static void after_syscall(struct step_thread *t, struct user_regs_struct *r,
			  const struct native_unit *u, const struct native_exit *e)
{
	const struct native_insn *in =
		t->proc->native->insns + u->first_insn + e->n_insns - 1;

	r->rcx = e->target;
	come_out(t, r, e->target);
	t->insn = (struct step_insn){ .ip = in->ip, .size = in->size,
				      .cls = in->cls };
	t->in_syscall = true;
	t->regs = *r;
	if ((int64_t)r->orig_rax >= 0)
		t->regs.rax = r->orig_rax;
	else
		t->regs.rax = SYS_getpid;
}

/* The flags that a comparison has in RAX: OF in AL, the others in AH. */
static uint64_t compared_flags(const struct user_regs_struct *r)
{
	uint64_t mask = 0x8d5;	/* OF, SF, ZF, AF, PF, CF */

	return (r->eflags & ~mask) | (r->rax >> 8 & 0xd5) | (r->rax & 1) << 11;
}

/* Code that was to be compared cannot be read: it faults when it is to run. */
static bool fault_comparing(struct step_thread *t, struct user_regs_struct *r,
			    const struct native_unit *u)
{
	const struct native_exit *e = t->proc->native->exits + u->first_exit;
	unsigned i;

	for (i = 0; i < u->n_exits; i++, e++) {
		if (r->rip < e->compare || r->rip >= e->compared)
			continue;
		r->eflags = compared_flags(r);
		r->rax = slots_of(t)->rax;
		r->rcx = slots_of(t)->rcx;
		step_native_report_prefix(t, u, e->n_insns);
		come_out(t, r, e->target);
		return true;
	}
	return false;
}

/*
 * If the thread is where the program has an address, it comes out there. fault:
 * the instruction has not run, whatever its copy has done. Else false; or, when
 * the ring was full, r has changed.
 */
static bool try_out(struct step_thread *t, struct user_regs_struct *r, bool fault)
{
	struct step_native *nc = t->proc->native;
	const struct native_unit *u = step_native_at(nc, r->rip);
	const struct native_insn *in;
	const struct native_exit *e;
	unsigned i;

	if (step_native_is_miss(nc, r->rip)) {
		restore_all(t, r);
		come_out(t, r, slots_of(t)->target);
		return true;
	}
	if (!u)
		return false;
	in = nc->insns + u->first_insn;
	e = nc->exits + u->first_exit;
	for (i = 0; i < u->n_exits; i++, e++) {
		if (r->rip == e->miss) {
			come_out(t, r, e->target);
			return true;
		} else if (r->rip == e->after) {
			after_syscall(t, r, u, e);
			return true;
		} else if (r->rip == e->call) {	/* see take_back() */
			r->rcx = slots_of(t)->rcx;
			come_out(t, r, in[e->n_insns - 1].ip);
			return true;
		} else if (r->rip == e->full) {
			turn_ring(t, r, e->record);
			return false;
		} else if (r->rip == e->trap) {
			i = e->n_insns - (e->kind == NATIVE_SYSCALL);
			if (e->kind == NATIVE_SYSCALL)
				r->rcx = slots_of(t)->rcx;
			step_native_report_prefix(t, u, i);
			come_out(t, r, e->kind == NATIVE_SYSCALL ? in[i].ip :
								   e->target);
			return true;
		}
	}
	if (fault && fault_comparing(t, r, u))
		return true;
	for (i = 0; i < u->n_insns; i++) {
		if (r->rip != in[i].at &&
		    !(fault && r->rip > in[i].at && r->rip < in[i].end))
			continue;
		if (r->rip != in[i].at)
			restore(t, &in[i], r);
		step_native_report_prefix(t, u, i);
		come_out(t, r, in[i].ip);
		return true;
	}
	return false;
}

/* The instruction that it is at is the cause: it has not run. Not so if another process or
 * thread sent the signal, a perf event or memory that failed elsewhere. */
static bool is_fault(int sig, const siginfo_t *si)
{
	if (si->si_code <= 0)
		return false;
	switch (sig) {
	case SIGSEGV:
	case SIGFPE:
	case SIGILL:
	case SIGSYS:
		return true;
	case SIGBUS:
		return si->si_code != BUS_MCEERR_AO;
	case SIGTRAP:
		return si->si_code != TRAP_PERF;
	default:
		return false;
	}
}

/* All signals that are not of an instruction's own making. */
static uint64_t others(uint64_t mask)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
				   SIGSYS };
	uint64_t all = ~UINT64_C(0);
	size_t i;

	for (i = 0; i < sizeof(own) / sizeof(*own); i++)
		all &= ~(UINT64_C(1) << (own[i] - 1));
	return mask | all;
}

/* How many instructions of u are over at pc, at least; fewer than there are. */
static unsigned done_at(const struct step_native *nc, const struct native_unit *u,
			uint64_t pc)
{
	const struct native_insn *in = nc->insns + u->first_insn;
	const struct native_exit *e = nc->exits + u->first_exit;
	unsigned i, k = 0;

	for (i = 0; i < u->n_exits; i++, e++)
		if (e->kind == NATIVE_SYSCALL) {
			if (pc > e->call && pc < in[e->n_insns - 1].end)
				return 0;
		} else if (e->record && pc + RECORD_AT >= e->record && pc <= e->full)
			return pc - e->record < RECORD_BYTES || pc <= e->record ?
				       e->n_insns - 1u : 0;
	for (i = 0; i < u->n_insns && in[i].at <= pc; i++)
		k = i;
	return k;
}

/* Where the unit begins that it is in, or goes to. */
static uint64_t unit_start(const struct step_thread *t)
{
	return t->native.tip ? slots_of(t)->target : t->native.target;
}

/* The last stop of a thread that ends: it cannot be brought to the next
 * instruction. What has not left its record has not run. */
static void last_stop(struct step_thread *t, const struct user_regs_struct *r)
{
	struct step_native *nc = t->proc->native;
	const struct native_unit *u = step_native_at(nc, r->rip);
	uint64_t ip = unit_start(t);
	unsigned k = u && u->start == ip ? done_at(nc, u, r->rip) : 0;

	if (k) {
		step_native_report_prefix(t, u, k);
		ip = nc->insns[u->first_insn + k].ip;
	}
	t->native.inside = t->native.tip = false;
	t->ip = ip;
	t->insn.size = 0;
}

/* What it ran after its last record is not known. */
void step_native_gone(struct step_thread *t)
{
	step_native_drain(t);
	t->ip = unit_start(t);
	t->native.inside = t->native.tip = false;
	t->insn.size = 0;
}

/*
 * A thread that has left the record of a system call, and stops before it makes the call,
 * has not made it: it might wait there, and for one that is stopped itself. So the record is
 * taken back; unless it was read, then the call will be in the trace twice, as when the
 * kernel restarts one.
 */
static void take_back(struct step_thread *t, struct user_regs_struct *r)
{
	struct step_native *nc = t->proc->native;
	const struct step_native_thread *n = &t->native;
	const struct native_unit *u = step_native_at(nc, r->rip);
	const struct native_exit *e = u ? nc->exits + u->first_exit : NULL;
	const struct native_exit *end = u ? e + u->n_exits : NULL;
	struct native_slots *s = slots_of(t);

	while (e < end && e->call != r->rip)
		e++;
	if (e == end || (n->reading == n->half && n->done == s->cur))
		return;
	set_cur(t, s->cur - 4);
	r->rcx = s->rcx;
	r->rip = nc->insns[u->first_insn + e->n_insns - 1u].at;
}

/* Reads what t stopped for. False: it was killed since. The kernel then has no answer,
 * or that of PTRACE_EVENT_EXIT, which is the next stop. */
static bool read_cause(const struct step_thread *t, siginfo_t *si)
{
	return !ptrace(PTRACE_GETSIGINFO, t->tid, NULL, si) &&
	       si->si_code != (SIGTRAP | PTRACE_EVENT_EXIT << 8);
}

/* A signal that is still to be delivered; 0: none is. */
struct pending {
	int sig, status;
	bool stops;		/* with all of its process */
	siginfo_t si;
};

/* One step of a thread inside, which it begins with a signal or 0. 0: it is done; else the
 * signal that came in its place, or -1: now->status says how it ends. */
static int step_inside(struct step_thread *t, struct user_regs_struct *r, int with,
		       struct pending *now)
{
	ptrace(PTRACE_SETREGS, t->tid, NULL, r);
	do {
		if (ptrace(PTRACE_SINGLESTEP, t->tid, NULL, (void *)(intptr_t)with)) {
			t->running = errno == ESRCH;
			return -1;
		}
		with = 0;
		if (!step_wait(t, &now->status))
			return -1;
		now->stops |= now->status >> 16 == PTRACE_EVENT_STOP &&
			      WSTOPSIG(now->status) != SIGTRAP;
	} while (now->status >> 16 == PTRACE_EVENT_STOP);
	if ((!(now->status >> 16) && !read_cause(t, &now->si)) ||
	    ptrace(PTRACE_GETREGS, t->tid, NULL, r)) {
		t->running = true;	/* killed since */
		return -1;
	}
	take_back(t, r);
	step_native_drain(t);
	if (now->status >> 16 == PTRACE_EVENT_EXIT)
		last_stop(t, r);
	if (now->status >> 16)
		return -1;
	now->sig = WSTOPSIG(now->status);
	return now->sig == SIGTRAP && is_fault(SIGTRAP, &now->si) ? 0 : now->sig;
}

/*
 * Somebody sent the signal now while a thread is brought out. It takes the place of the one
 * that waits to be delivered, *first, with which the next step begins: it is blocked, so the
 * kernel queues it again. Its number is returned; 0: none has to be. SIGTRAP cannot be
 * blocked, as the steps end with it: then it is the other way round. Of two of a number the
 * kernel keeps one.
 */
static int swap_pending(struct step_thread *t, struct pending *first,
			const struct pending *now, uint64_t *mask)
{
	struct pending back = first->sig == SIGTRAP ? *now : *first;

	if (first->sig == now->sig)
		return 0;
	if (first->sig != SIGTRAP)
		*first = *now;
	if (!back.sig)
		return 0;
	*mask |= UINT64_C(1) << (back.sig - 1);
	ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(*mask), mask);
	ptrace(PTRACE_SETSIGINFO, t->tid, NULL, &back.si);
	return back.sig;
}

/* The steps that lead out, with a mask of signals of its own. */
static int step_out(struct step_thread *t, struct user_regs_struct *r,
		    struct pending *first, uint64_t mask)
{
	struct pending now = { 0 };
	int n, got = 0, with = 0;

	for (n = 0; n < SETTLE_STEPS && got >= 0; n++) {
		uint64_t before = r->rip;
		bool sent;

		got = step_inside(t, r, with, &now);
		sent = got > 0 && !is_fault(got, &now.si);
		with = 0;
		if (sent && r->rip == before)
			with = swap_pending(t, first, &now, &mask);
		else if (sent)	/* a SIGTRAP; the one of the step was dropped for it */
			step_native_send_again(t, &now.si);
		if (got >= 0 && !with && try_out(t, r, got && !sent))
			break;
	}
	if (got < 0)
		first->status = now.status;
	else if (now.stops)	/* it is to be told again */
		ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
	return got;
}

/*
 * Brings a thread that a signal stopped out of the cache. sig, which is still to
 * be delivered, stays the one of its stop, if none comes on the way; an instruction that
 * faults there is undone, and will fault again.
 */
static bool settle(struct step_thread *t, struct user_regs_struct *r, int sig,
		   const siginfo_t *si, int *status)
{
	struct pending first = { .sig = sig, .status = *status, .si = *si };
	uint64_t mask, more;
	bool masked;
	int got;

	if (try_out(t, r, sig && is_fault(sig, si)))
		return true;
	count(t, STEP_N_SETTLE);
	masked = !ptrace(PTRACE_GETSIGMASK, t->tid, (void *)sizeof(mask), &mask);
	more = others(mask);
	if (masked)
		ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(more), &more);
	got = step_out(t, r, &first, more);
	*status = first.status;
	if (got < 0)
		return false;
	if (masked)
		ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(mask), &mask);
	if (first.sig)
		ptrace(PTRACE_SETSIGINFO, t->tid, NULL, &first.si);
	return !t->native.inside;
}

/* It goes on at ip: from the cache where that can be. from: the exit that led
 * there, whose link is made; NULL: an indirect branch. */
static int go_on(struct step_thread *t, struct user_regs_struct *r, uint64_t ip,
		 struct native_exit *from)
{
	size_t at = from ? (size_t)(from - t->proc->native->exits) : 0;
	struct step_native *nc = t->proc->native;
	uint32_t id = x86_is_vsyscall(ip) ? 0 : step_native_reach(t, ip);

	if (!id) {
		come_out(t, r, ip);
		return step_resume(t, 0);
	}
	if (from)
		step_native_link(nc, at, id);
	else
		step_native_door(nc, id);
	t->native.target = ip;
	t->native.tip = false;
	t->native.last = UINT32_MAX;
	r->rip = nc->units[id].code;
	return run_on(t, r);
}

/* Registration of restartable sequences fails as in a kernel that has none: the
 * kernel could not know where in the cache they are. Not so in a process that was
 * attached to: its C library has seen it succeed, and ends a program in which it then
 * fails for a new thread. */
static int refuse_rseq(struct step_thread *t, struct user_regs_struct *r)
{
	t->insn = (struct step_insn){ .ip = t->ip, .size = 2,
				      .cls = X86_SYSCALL };
	step_enter_syscall(t);
	t->in_syscall = false;
	r->rax = (uint64_t)-ENOSYS;
	r->orig_rax = UINT64_MAX;
	r->rcx = r->rip + 2;
	r->r11 = r->eflags;
	come_out(t, r, r->rip + 2);
	return step_resume(t, 0);
}

/* The instruction at t->ip is stepped. */
static int step_over(struct step_thread *t, struct user_regs_struct *r)
{
	uint8_t bytes[2];

	t->native.step_ip = t->ip;
	if ((uint32_t)r->rax == CALL_RSEQ && !t->proc->ran_before &&
	    step_memory_read(t->proc, t->ip, bytes, 2) == 2 &&
	    bytes[0] == 0x0f && bytes[1] == 5)
		return refuse_rseq(t, r);
	return step_resume(t, 0);
}

/* An exit's INT3, at pc. False: it has none there. */
static bool exit_trap(struct step_thread *t, struct user_regs_struct *r,
		      const struct native_unit *u, uint64_t pc)
{
	struct native_exit *e = t->proc->native->exits + u->first_exit;
	unsigned i;

	for (i = 0; i < u->n_exits; i++, e++) {
		if (pc == e->miss) {
			count(t, STEP_N_NEW);
			go_on(t, r, e->target, e);
			return true;
		} else if (pc == e->trap && e->kind == NATIVE_CHANGED) {
			uint64_t at = e->target;

			count(t, STEP_N_CHANGED);
			r->rip = pc;
			try_out(t, r, false);
			step_native_forget(t->proc, at, at + 1);
			step_resume(t, 0);
			return true;
		} else if (pc == e->trap) {
			count(t, e->kind == NATIVE_SYSCALL ? STEP_N_CALLS :
							     STEP_N_INSNS);
			r->rip = pc;
			try_out(t, r, false);
			step_over(t, r);
			return true;
		}
	}
	return false;
}

/* At the INT3 where a ring is full: the one stop that is not followed by reading all
 * that the thread ran. */
static bool full_trap(struct step_thread *t, struct user_regs_struct *r)
{
	const struct step_native *nc = t->proc->native;
	uint64_t pc = r->rip - 1, record = 0;
	const struct native_unit *u = step_native_at(nc, pc);
	const struct native_exit *e;

	for (e = u ? nc->exits + u->first_exit : NULL;
	     e && e < nc->exits + u->first_exit + u->n_exits; e++)
		if (pc == e->full)
			record = e->record;
	if (!record)
		return false;
	count(t, STEP_N_FULL);
	turn_ring(t, r, record);
	run_on(t, r);
	return true;
}

/* At another of our INT3. */
static bool own_trap(struct step_thread *t, struct user_regs_struct *r)
{
	struct step_native *nc = t->proc->native;
	uint64_t pc = r->rip - 1;
	const struct native_unit *u = step_native_at(nc, pc);

	if (step_native_is_miss(nc, pc)) {
		count(t, STEP_N_INDIRECT);
		restore_all(t, r);
		go_on(t, r, slots_of(t)->target, NULL);
		return true;
	}
	return u && exit_trap(t, r, u, pc);
}

/* A system call that the kernel is about to run again, 2 bytes back, leaves its
 * record again. */
static void restart_call(struct step_thread *t, struct user_regs_struct *r)
{
	struct step_native *nc = t->proc->native;
	const struct native_unit *u = step_native_at(nc, r->rip);
	int64_t rax = (int64_t)r->rax;
	uint32_t id;
	unsigned i;

	if (!u || (int64_t)r->orig_rax < 0 || rax > -512 || rax < -516)
		return;
	for (i = 0; i < u->n_exits; i++) {
		const struct native_exit *e = &nc->exits[u->first_exit + i];

		if (e->after != r->rip)
			continue;
		id = step_native_find(t, nc->insns[u->first_insn + e->n_insns - 1u].ip);
		if (!id)
			return;
		t->native.target = nc->units[id].start;
		t->native.tip = false;
		r->rip = nc->units[id].code + 2;
		ptrace(PTRACE_SETREGS, t->tid, NULL, r);
		return;
	}
}

/* It stopped as all of its process do, or was stopped and goes on. */
static bool group_stop(struct step_thread *t, struct user_regs_struct *r, int sig)
{
	restart_call(t, r);
	if (sig == SIGTRAP)
		ptrace(PTRACE_CONT, t->tid, NULL, NULL);
	else
		ptrace(PTRACE_LISTEN, t->tid, NULL, NULL);
	t->listens = sig != SIGTRAP;
	return true;
}

/* It ran one of our INT3 and was told to stop before that could be: that stop is yet to
 * come, and tells where it is. */
static bool stop_for_int3(struct step_thread *t)
{
	if (!step_int3_queued(t->tid))
		return false;
	t->running = true;
	ptrace(PTRACE_CONT, t->tid, NULL, NULL);
	return true;
}

/* A stop by a signal is judged only if its cause could be read. The IP alone does not
 * say it: the byte after one INT3 may be another INT3, not reached yet. */
bool step_native_stop(struct step_thread *t, int *status)
{
	int event = *status >> 16, sig = WSTOPSIG(*status);
	bool detaching = t->proc->step->detaching, int3;
	struct user_regs_struct r;
	siginfo_t si = { 0 };

	if ((!event && !read_cause(t, &si)) ||
	    ptrace(PTRACE_GETREGS, t->tid, NULL, &r))
		return true;
	int3 = !event && sig == SIGTRAP && si.si_code == SI_KERNEL;
	t->running = false;
	if (int3 && full_trap(t, &r))
		return true;
	if (event != PTRACE_EVENT_STOP || detaching)
		take_back(t, &r);
	step_native_drain(t);
	if (event == PTRACE_EVENT_EXIT) {
		last_stop(t, &r);
		return false;
	}
	if (event == PTRACE_EVENT_STOP && !detaching)
		return group_stop(t, &r, sig);
	if (event == PTRACE_EVENT_STOP && stop_for_int3(t))
		return true;
	if (int3 && own_trap(t, &r))
		return true;
	count(t, STEP_N_SIGNALS);
	if (!settle(t, &r, event ? 0 : sig, &si, status) &&
	    (t->running || !WIFSTOPPED(*status)))
		return true;	/* killed, as above; or it has ended */
	if (t->native.inside && *status >> 16 != PTRACE_EVENT_EXEC)
		step_note(t, -AUX_E_TARGET);
	return false;
}

/* Texts of enum step_count; the first one stands alone. */
static const char *const count_texts[STEP_N_COUNTS] = {
	[STEP_N_FULL] = "full ring",
	[STEP_N_NEW] = "new code",
	[STEP_N_INDIRECT] = "indirect branch",
	[STEP_N_CALLS] = "system call",
	[STEP_N_INSNS] = "instruction",
	[STEP_N_SIGNALS] = "signal or event",
	[STEP_N_SETTLE] = "of these between two instructions",
	[STEP_N_CHANGED] = "changes of copied code",
};

void step_native_notes(const struct step *st)
{
	const struct soft_program *p = st->p;
	const char *sep = "";
	size_t n = 0, i;

	if (!p->notes)
		return;
	if (st->counts[STEP_N_ALONE])
		n += (size_t)snprintf(p->notes, p->notes_size,
				      "%llu of the processes could not be run "
				      "from copies and were stepped, which is slow",
				      (unsigned long long)st->counts[STEP_N_ALONE]);
	if (!p->verbose || n >= p->notes_size)
		return;
	n += (size_t)snprintf(p->notes + n, p->notes_size - n,
			      "%snative: %llu instructions stepped; stops: ",
			      n ? "; " : "",
			      (unsigned long long)st->counts[STEP_N_STEPS]);
	for (i = STEP_N_FULL; i <= STEP_N_CHANGED && n < p->notes_size; i++) {
		n += (size_t)snprintf(p->notes + n, p->notes_size - n,
				      "%s%s %llu", sep, count_texts[i],
				      (unsigned long long)st->counts[i]);
		sep = ", ";
	}
}
