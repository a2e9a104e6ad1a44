/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The followed task: every way into user code, every instruction, every way
 * out.
 *
 * The last thing before each return to user code is our user return notifier:
 * there TF is set and the exact IP is known. Each step ends in #DB; system
 * calls, signals, faults and the scheduler are seen by tracepoints, which take
 * TF away before anybody can see it or copy it (fork, signal frames, ptrace,
 * core files). Invariant: TF is ours only while c->task is this CPU's current.
 *
 * Specification: Intel SDM vol. 3, "Single-Step Exception Condition" and the
 * chapter on Intel PT (which transition gives which packet).
 */
#include <linux/cpuhotplug.h>
#include <linux/kdebug.h>
#include <linux/sched/task_stack.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/uprobes.h>
#include <asm/debugreg.h>
#include <asm/tsc.h>

#include "pmu_step.h"

static int hotplug_state;

static bool set_flag(struct pt_regs *regs, bool on)
{
	bool was = regs->flags & X86_EFLAGS_TF;

	regs->flags &= ~(unsigned long)X86_EFLAGS_TF;
	regs->flags |= on ? X86_EFLAGS_TF : 0;
	return was;
}

/* TF is again what the program believes. */
static void disarm(struct step_cpu *c)
{
	if (c->task)
		set_flag(task_pt_regs(c->task), c->tf_own);
	c->task = NULL;
}

/* The instruction at c->ip; a page not touched yet is read after the step. */
static void fetch(struct step_cpu *c)
{
	const void __user *p = (const void __user *)c->ip;
	size_t n = sizeof(c->bytes), left = PAGE_SIZE - c->ip % PAGE_SIZE;

	c->insn.size = 0;
	if (copy_from_user_nofault(c->bytes, p, n)) {
		if (n <= left || copy_from_user_nofault(c->bytes, p, left))
			return;
		n = left;
	}
	x86_insn_decode(c->bytes, n, &c->insn);
}

/* The opcode of a one-byte instruction behind its prefixes, else 0. */
static u8 plain_opcode(const struct step_cpu *c)
{
	u8 i, b;

	for (i = 0; i < c->insn.size; i++) {
		b = c->bytes[i];
		if ((b & 0xf0) != 0x40 && b != 0x66 && b != 0xf2 && b != 0xf3)
			return i + 1 == c->insn.size ? b : 0;
	}
	return 0;
}

/* Instructions that read or write TF: the program shall not see ours. */
static void mend_flags(struct step_cpu *c, struct pt_regs *regs)
{
	void __user *sp = (void __user *)regs->sp;
	u16 image;

	switch (plain_opcode(c)) {
	case 0x9c:	/* PUSHF */
		if (c->tf_own || copy_from_user_nofault(&image, sp, 2))
			break;
		image &= ~X86_EFLAGS_TF;
		if (copy_to_user_nofault(sp, &image, 2))
			step_count(STEP_N_UNEXPLAINED, 1);
		break;
	case 0x9d:	/* POPF */
	case 0xcf:	/* IRET */
		c->tf_own = regs->flags & X86_EFLAGS_TF;
		break;
	}
}

/*
 * Direct jumps alone came back to where they were, and no packet could tell how
 * often. Where the loop is entered is not known, so the place to compare with
 * moves on (Brent).
 */
static bool is_endless(struct step_buf *buf, u64 ip)
{
	u64 mark = pt_encode_mark(&buf->e, buf->e.n_tnt);

	if (mark != buf->loop_mark) {
		buf->loop_mark = mark;
		buf->loop_ip = ip;
		buf->loop_n = 1;
		return false;
	}
	if (ip == buf->loop_ip)
		return true;
	if (!(buf->loop_n & (buf->loop_n + 1)))
		buf->loop_ip = ip;
	buf->loop_n++;
	return false;
}

static void push_call(struct pt_encoder *e, u64 target, u64 next)
{
	/* a call to the next instruction only reads the IP */
	if (e->config.retcomp && target != next)
		pt_encode_call(e, next);
}

static bool take_direct(struct step_cpu *c, u64 ip)
{
	struct pt_encoder *e = &c->buf->e;
	u64 next = c->ip + c->insn.size, target = next + (u64)c->insn.disp;

	if (c->insn.cls == X86_COND) {
		if (ip != target && ip != next)
			return false;
		pt_encode_tnt(e, ip == target);
		return true;
	}
	if (ip != target)
		return false;
	if (ip <= c->ip && is_endless(c->buf, ip)) {
		step_count(STEP_N_ENDLESS, 1);
		pt_encode_lose(e);
	} else if (c->insn.cls == X86_CALL) {
		push_call(e, target, next);
	}
	return true;
}

/* From the instruction at c->ip to ip; false: it cannot lead there. */
static bool take(struct step_cpu *c, u64 ip)
{
	struct pt_encoder *e = &c->buf->e;
	u64 next = c->ip + c->insn.size;

	if (!c->insn.size)
		return false;
	switch (c->insn.cls) {
	case X86_COND:
	case X86_JUMP:
	case X86_CALL:
		return take_direct(c, ip);
	case X86_RET:
		if (e->config.retcomp && pt_encode_ret_pop(e, ip))
			pt_encode_tnt(e, true);
		else
			pt_encode_tip(e, ip, false);
		return true;
	case X86_IND_CALL:
		pt_encode_tip(e, ip, true);
		push_call(e, ip, next);
		return true;
	case X86_IND_JUMP:
	case X86_FAR:
		pt_encode_tip(e, ip, true);
		return true;
	case X86_SYSCALL:
		return false;
	default:
		return ip == next;
	}
}

/* The kernel steps over its copy, to come back when that is done. */
static bool is_uprobes(void)
{
	const struct uprobe_task *u = current->utask;

	return u && u->active_uprobe && u->state == UTASK_SSTEP;
}

/* The instruction at c->ip ran, and ip is next. */
static void step_over(struct step_cpu *c, u64 ip)
{
	struct pt_encoder *e = &c->buf->e;

	step_count(STEP_N_INSNS, 1);
	if (!is_uprobes())	/* a copy has no address of the program's */
		step_truth_add(task_pid_nr(c->task), c->ip);
	if (e->lost || !e->config.branch)
		return;
	if (!take(c, ip)) {
		step_count(STEP_N_UNEXPLAINED, 1);
		pt_encode_overflow(e, ip, true);
	} else if (e->pos >= e->limit) {
		e->tsc = rdtsc_ordered();
		pt_encode_checkpoint(e, ip);
	}
}

/* The instruction at c->ip entered the kernel, by its nature. */
static void take_syscall(struct step_cpu *c)
{
	step_count(STEP_N_INSNS, 1);
	step_count(STEP_N_SYSCALLS, 1);
	step_truth_add(task_pid_nr(c->task), c->ip);
	pt_encode_disable(&c->buf->e);
}

static void leave(struct step_cpu *c, bool by_syscall)
{
	struct pt_encoder *e = &c->buf->e;
	u64 ip = task_pt_regs(c->task)->ip;

	e->tsc = rdtsc_ordered();
	if (c->insn.size ? c->insn.cls == X86_SYSCALL &&
			   (by_syscall || ip != c->ip) : by_syscall) {
		take_syscall(c);
	} else if (ip == c->ip && !by_syscall) {
		step_count(STEP_N_ASYNC, 1);
		pt_encode_disable_async(e, ip);
	} else {
		step_count(STEP_N_UNEXPLAINED, 1);
		pt_encode_overflow(e, ip, false);
	}
	disarm(c);
	step_aux_spill(c);
}

void step_flow_leave(struct step_cpu *c)
{
	if (c->task)
		leave(c, false);
}

/* A CPU's event, and who reads it: stepped, it would never keep up. */
static bool is_recorder(const struct perf_event *event)
{
	const struct task_struct *owner = event->owner;

	return !(event->attach_state & PERF_ATTACH_TASK) && owner &&
	       owner->tgid == current->tgid;
}

/* Nor 32-bit code, nor what a debugger has in its hands. */
static bool can_follow(const struct step_cpu *c, struct pt_regs *regs)
{
	return c->event && !c->paused && user_64bit_mode(regs) && !current->ptrace &&
	       !test_thread_flag(TIF_SINGLESTEP) && !is_recorder(c->event);
}

static void enter(struct step_cpu *c, struct pt_regs *regs)
{
	struct pt_encoder *e;

	if (!step_aux_room(c))
		return;
	c->task = current;
	c->tf_own = set_flag(regs, true);
	c->ip = regs->ip;
	fetch(c);
	e = &c->buf->e;
	e->tsc = rdtsc_ordered();
	pt_encode_enable(e, c->ip);
	step_aux_spill(c);
}

/* Did this way through the kernel begin with a system call unseen so far? */
static bool made_syscall(const struct step_cpu *c, const struct pt_regs *regs)
{
	return c->insn.size && c->insn.cls == X86_SYSCALL &&
	       (long)regs->orig_ax >= 0;
}

/* The very last of the way to user code. */
static void on_user_return(struct user_return_notifier *urn)
{
	struct step_cpu *c = container_of(urn, struct step_cpu, urn);
	struct pt_regs *regs = task_pt_regs(current);
	bool follow;

	if (!c->task && !c->event)
		return;
	follow = can_follow(c, regs);
	if (c->task && made_syscall(c, regs))
		leave(c, true);
	else if (c->task && (!follow || regs->ip != c->ip))
		leave(c, false);
	if (c->task)
		set_flag(regs, true);	/* POPF may have cleared it */
	else if (c->event && follow)
		enter(c, regs);
	else if (c->event)
		step_count(STEP_N_PASSED, 1);
}

static void step(struct step_cpu *c, struct pt_regs *regs)
{
	if (!c->insn.size)
		fetch(c);
	if (regs->ip == c->ip && c->insn.size && c->insn.rep_string)
		return;		/* one turn of a REP that goes on */
	if (!step_aux_room(c)) {
		disarm(c);
		return;
	}
	mend_flags(c, regs);
	step_over(c, regs->ip);
	step_aux_spill(c);
	c->ip = regs->ip;
	fetch(c);
}

/*
 * A uprobe's breakpoint: the program comes to the kernel in front of the instruction, and
 * goes on behind it or in the kernel's copy of it, which sets TF for itself.
 */
static void on_breakpoint(struct step_cpu *c, struct pt_regs *regs)
{
	if (regs->ip - 1 != c->ip)
		return;
	regs->ip = c->ip;
	step_flow_leave(c);
	regs->ip++;
}

/*
 * Of breakpoint registers that are not in use: the processor may tell of them, too, and
 * with their address 0 it does when a program calls a null pointer.
 */
static unsigned long unused_breakpoints(void)
{
	unsigned long in_use = __this_cpu_read(cpu_dr7), bits = 0;
	int i;

	for (i = 0; i < HBP_NUM; i++)
		if (!(in_use >> (i * DR_ENABLE_SIZE) & (DR_LOCAL_ENABLE | DR_GLOBAL_ENABLE)))
			bits |= DR_TRAP0 << i;
	return bits;
}

static int on_debug(struct notifier_block *nb, unsigned long what, void *data)
{
	struct step_cpu *c = this_cpu_ptr(&step_cpus);
	struct die_args *args = data;
	unsigned long *dr6;
	bool own;

	if (!user_mode(args->regs) || !c->task || c->task != current)
		return NOTIFY_DONE;
	if (what == DIE_INT3)
		on_breakpoint(c, args->regs);
	if (what != DIE_DEBUG)
		return NOTIFY_DONE;
	dr6 = (unsigned long *)ERR_PTR(args->err);
	if (!(*dr6 & DR_STEP))
		return NOTIFY_DONE;
	own = c->tf_own;
	step(c, args->regs);
	if (is_uprobes())
		step_flow_leave(c);
	if (own)
		return NOTIFY_DONE;	/* the program's SIGTRAP */
	*dr6 &= ~(DR_STEP | unused_breakpoints());
	current->thread.virtual_dr6 &= ~DR_STEP;
	return *dr6 ? NOTIFY_DONE : NOTIFY_STOP;
}

/* Before hw_breakpoint's, which may end the chain. */
static struct notifier_block debug_block = {
	.notifier_call = on_debug,
	.priority = INT_MAX,
};

/* SYSCALL has copied the flags to r11. */
static void on_sys_enter(void *data, struct pt_regs *regs, long id)
{
	unsigned long irq_flags;
	struct step_cpu *c;

	local_irq_save(irq_flags);
	c = this_cpu_ptr(&step_cpus);
	if (c->task && c->task == current) {
		bool copied = regs->r11 == regs->flags;

		leave(c, true);
		if (copied)
			regs->r11 = regs->flags;
	}
	local_irq_restore(irq_flags);
}

static void leave_current(void)
{
	unsigned long irq_flags;
	struct step_cpu *c;

	local_irq_save(irq_flags);
	c = this_cpu_ptr(&step_cpus);
	if (c->task == current)
		step_flow_leave(c);
	local_irq_restore(irq_flags);
}

static void on_signal(void *data, int sig, struct kernel_siginfo *info,
		      struct k_sigaction *ka)
{
	leave_current();
}

static void on_page_fault(void *data, unsigned long address,
			  struct pt_regs *regs, unsigned long error_code)
{
	leave_current();
}

static void on_switch(void *data, bool preempt, struct task_struct *prev,
		      struct task_struct *next, unsigned int prev_state)
{
	leave_current();
}

struct probe {
	const char *name;
	void *fn;
	struct tracepoint *tp;
	bool registered;
};

static struct probe probes[] = {
	{ .name = "sys_enter", .fn = on_sys_enter },
	{ .name = "signal_deliver", .fn = on_signal },
	{ .name = "page_fault_user", .fn = on_page_fault },
	{ .name = "sched_switch", .fn = on_switch },
};

static void find_probe(struct tracepoint *tp, void *data)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(tp->name, probes[i].name))
			probes[i].tp = tp;
}

static int set_probes(void)
{
	size_t i;
	int err;

	for_each_kernel_tracepoint(find_probe, NULL);
	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		if (!probes[i].tp) {
			pr_err("pmu_step: this kernel has no tracepoint %s\n",
			       probes[i].name);
			return -ENOENT;
		}
		err = tracepoint_probe_register(probes[i].tp, probes[i].fn,
						NULL);
		if (err)
			return err;
		probes[i].registered = true;
	}
	return 0;
}

static void unset_probes(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (probes[i].registered)
			tracepoint_probe_unregister(probes[i].tp, probes[i].fn,
						    NULL);
	tracepoint_synchronize_unregister();
}

/* Both run in a thread of that CPU. */
static int watch_cpu(unsigned int cpu)
{
	struct step_cpu *c;

	preempt_disable();
	c = this_cpu_ptr(&step_cpus);
	c->urn.on_user_return = on_user_return;
	user_return_notifier_register(&c->urn);
	preempt_enable();
	return 0;
}

static int unwatch_cpu(unsigned int cpu)
{
	unsigned long irq_flags;

	local_irq_save(irq_flags);
	user_return_notifier_unregister(&this_cpu_ptr(&step_cpus)->urn);
	local_irq_restore(irq_flags);
	return 0;
}

int step_flow_init(void)
{
	int err = set_probes();

	if (err)
		goto no_probes;
	err = register_die_notifier(&debug_block);
	if (err)
		goto no_probes;
	hotplug_state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "pmu_step:flow",
					  watch_cpu, unwatch_cpu);
	if (hotplug_state >= 0)
		return 0;
	err = hotplug_state;
	unregister_die_notifier(&debug_block);
no_probes:
	unset_probes();
	return err;
}

void step_flow_exit(void)
{
	cpuhp_remove_state(hotplug_state);
	unset_probes();
	unregister_die_notifier(&debug_block);
}
