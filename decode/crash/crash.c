/* SPDX-License-Identifier: BSD-2-Clause */
/* crash: see crash.h. Which process ended, how, and where its thread was. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <aux/flow.h>

#include "common/bytes.h"
#include "common/diag.h"
#include "decode/crash/impl.h"

/* ---- signals of the recording ---- */

struct signals {
	struct crash *c;
	int64_t pid;		/* wanted; -1: of any */
	struct aux_own_signal end, last;	/* the end by a signal; the last one
						 * delivered to its process */
	struct aux_own_signal got[CRASH_SIGNALS];	/* of any process, a ring */
	size_t n_got;
};

static void take_signal(struct signals *s, const struct aux_own_signal *sig)
{
	if (s->pid >= 0 && sig->pid != (uint32_t)s->pid)
		return;
	if (sig->what == AUX_SIGNAL_DELIVERED) {
		s->got[s->n_got++ % CRASH_SIGNALS] = *sig;
		return;
	}
	if (sig->what != AUX_SIGNAL_ENDED || !sig->signo)
		return;
	/* of a process the end of its first thread, which comes last */
	s->end = *sig;
}

/*
 * The tracepoint signal:signal_deliver: sig, errno, code, sa_handler, sa_flags after the
 * eight bytes that all have. Specification:
 * Linux, the trace events of signals.
 */
static void take_tracepoint(struct signals *s, const struct aux_event *ev, bool swapped)
{
	struct cursor c = cursor_init(ev->sample.raw_data.data,
				      ev->sample.raw_data.len, swapped);
	struct aux_own_signal sig = {
		.time_ns = ev->id.time, .pid = ev->id.pid, .tid = ev->id.tid,
		.what = AUX_SIGNAL_DELIVERED,
	};
	uint64_t handler;

	cursor_bytes(&c, 8);
	sig.signo = cursor_u32(&c);
	cursor_u32(&c);
	sig.code = (int32_t)cursor_u32(&c);
	cursor_u32(&c);
	handler = cursor_u64(&c);
	if (c.bad || !sig.signo || sig.signo > 64)
		return;
	take_signal(s, &sig);
	if (handler)	/* SIG_DFL is 0: what is delivered then ends the process */
		return;
	sig.what = AUX_SIGNAL_ENDED;
	take_signal(s, &sig);
}

static void read_signals(struct signals *s, struct session *session)
{
	struct aux_reader *r = session_reader(session);
	struct aux_diag diag;
	struct aux_event ev;

	aux_reader_rewind(r);
	while (aux_reader_next(r, &ev, &diag) == 1) {
		if (ev.type == AUX_RECORD_EVENT_TYPE && ev.own.kind == AUX_OWN_SIGNAL)
			take_signal(s, &ev.own.signal);
		else if (ev.type == PERF_RECORD_SAMPLE && ev.attr && ev.attr->name &&
			 !strcmp(ev.attr->name, "signal:signal_deliver"))
			take_tracepoint(s, &ev, aux_reader_info(r)->swapped);
	}
}

/* The delivery that ended the process, and those before it. */
static void choose_signal(struct signals *s)
{
	struct crash *c = s->c;
	size_t kept = s->n_got < CRASH_SIGNALS ? s->n_got : CRASH_SIGNALS;
	const struct aux_own_signal *fatal = NULL;

	for (size_t i = 0; i < kept; i++) {
		const struct aux_own_signal *sig = &s->got[(s->n_got - kept + i) %
							   CRASH_SIGNALS];

		if (s->end.signo && sig->pid == s->end.pid && sig->signo == s->end.signo)
			fatal = sig;
	}
	for (size_t i = 0; i < kept && s->end.signo; i++) {
		const struct aux_own_signal *sig = &s->got[(s->n_got - kept + i) %
							   CRASH_SIGNALS];

		if (sig->pid == s->end.pid && sig != fatal)
			c->earlier[c->n_earlier++] = *sig;
	}
	c->signal = fatal ? *fatal : s->end;
	c->dumped = s->end.flags & AUX_SIGNAL_CORE;
}

/* ---- process, thread and place ---- */

/* The recording does not say which signal it was. */
static void ask_core(struct crash *c)
{
	const struct elfcore_signal *sig = elfcore_signal(c->core);

	if (!sig->signo)
		return;
	c->from_core = true;
	c->signal = (struct aux_own_signal){
		.pid = elfcore_pid(c->core), .tid = elfcore_thread(c->core, 0)->tid,
		.what = AUX_SIGNAL_DELIVERED, .signo = sig->signo, .code = sig->code,
		.flags = AUX_SIGNAL_HAS_IP | (sig->has_addr ? AUX_SIGNAL_HAS_ADDR : 0),
		.ip = elfcore_thread(c->core, 0)->regs.rip, .addr = sig->addr,
		.sender = sig->sender,
	};
}

/* The thread of the core file; NULL: it has it not. */
static const struct elfcore_thread *core_thread(const struct crash *c, uint32_t tid)
{
	const struct elfcore_thread *t;

	for (size_t i = 0; c->core && (t = elfcore_thread(c->core, i)); i++)
		if (t->tid == tid)
			return t;
	return NULL;
}

static int open_replay(struct crash *c, const struct crash_config *config,
		       struct aux_diag *diag)
{
	struct replay_config rc = { .session = config->session, .pid = config->pid };

	if (rc.pid < 0 && c->core)
		rc.pid = elfcore_pid(c->core);
	else if (rc.pid < 0 && c->signal.signo)
		rc.pid = c->signal.pid;
	if (c->core && rc.pid != elfcore_pid(c->core))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"the core file is of process %u, not of %lld",
				elfcore_pid(c->core), (long long)rc.pid);
	return replay_open(&c->replay, &rc, diag);
}

/* The last instruction of the thread; of one that is not named that with which the
 * process ended. */
static int find_end(struct crash *c, int64_t tid, struct replay_place *at,
		    struct aux_diag *diag)
{
	struct replay_state st;
	struct replay_place next;
	struct replay_why why;
	int err = replay_last(c->replay, at, diag);

	if (err <= 0)
		return err < 0 ? err : -AUX_E_NOENT;
	err = replay_state(c->replay, at, &st, diag);
	if (!err && tid >= 0 && st.tid != (uint32_t)tid) {
		err = replay_step(c->replay, at, (uint32_t)tid, true, &why, diag);
		if (!err && why.stop == REPLAY_EDGE)
			return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET, "no instruction "
					"of thread %lld of process %u could be followed",
					(long long)tid, c->pid);
		if (!err)
			err = replay_state(c->replay, at, &st, diag);
	}
	if (err)
		return err;
	next = *at;
	err = replay_step(c->replay, &next, st.tid, false, &why, diag);
	if (err)
		return err;
	c->gap = why.cause;
	c->tid = st.tid;
	c->space = st.space;
	c->mode = st.mode;
	c->time_ns = st.time_ns;
	if (!c->signal.signo || c->signal.tid != c->tid)
		return 0;
	if (c->signal.time_ns > c->time_ns)
		c->time_ns = c->signal.time_ns;
	/* a tracepoint does not say where the signal came; what ran last was left there */
	if (why.stop == REPLAY_EDGE && why.interrupted && !c->gap &&
	    !(c->signal.flags & AUX_SIGNAL_HAS_IP)) {
		c->signal.flags |= AUX_SIGNAL_HAS_IP;
		c->signal.ip = why.stopped;
	}
	return 0;
}

/* ---- stacks ---- */

static void unwind_core(struct crash *c)
{
	struct elfcore_frame frames[CRASH_FRAMES];
	size_t n = elfcore_unwind(c->core, c->thread, frames, CRASH_FRAMES, &c->stack_end);

	for (size_t i = 0; i < n; i++) {
		const struct elfcore_frame *f = &frames[i];

		c->stack[c->n_stack++] = (struct crash_frame){
			.pc = f->pc, .call = f->pc - !(f->activation || !i),
			.interrupted = f->activation,
			/* both it and the frame that was interrupted are marked */
			.handler = i && i + 1 < n && f->activation &&
				   frames[i + 1].activation,
		};
	}
}

/* Where what ran and what the stack says part. Fewer frames are no difference: the
 * recording may begin late, and unwind tables end. */
static void compare_stacks(struct crash *c)
{
	for (size_t i = 0, k = 0; i < c->n_flow && k < c->n_stack; i++, k++) {
		k += c->stack[k].handler;
		if (k == c->n_stack || c->flow[i].pc == c->stack[k].pc)
			continue;
		c->differs = (int)i;
		c->stack_differs = (int)k;
		return;
	}
}

/* Is the core file's thread where the trace ends? */
static void check_core(struct crash *c)
{
	if (!c->core)
		return;
	c->thread = core_thread(c, c->tid);
	if (c->gap)
		c->unproven = "the trace has a gap before the end";
	else if (!c->thread)
		c->unproven = "the core file has no registers of that thread";
	else if (c->signal.signo && c->signal.tid == c->tid &&
		 c->signal.flags & AUX_SIGNAL_HAS_IP && c->signal.ip != c->thread->regs.rip)
		c->unproven = "the core file's thread is not where the signal came";
	else if ((c->mode & AUX_FLOW_MODE_MASK) != AUX_FLOW_MODE_X86_64)
		c->unproven = "values are proven of 64-bit code alone";
	if (c->thread && !c->has_ip)
		c->ip = c->thread->regs.rip;
	c->has_ip |= c->thread != NULL;
}

static int fill(struct crash *c, const struct crash_config *config, struct aux_diag *diag)
{
	struct signals s = { .c = c, .pid = config->pid };
	int64_t tid = config->tid;
	struct replay_place at;
	int err;

	c->differs = c->stack_differs = -1;
	c->host = session_host(config->session);
	err = config->core ? elfcore_open(&c->core, config->core, diag) : 0;
	if (err)
		return err;
	if (s.pid < 0 && c->core)
		s.pid = elfcore_pid(c->core);
	read_signals(&s, config->session);
	choose_signal(&s);
	if (c->core && !c->signal.signo)
		ask_core(c);
	err = open_replay(c, config, diag);
	if (err)
		return err;
	c->pid = replay_pid(c->replay);
	if (tid < 0 && c->signal.signo)
		tid = c->signal.tid;
	else if (tid < 0 && c->core)
		tid = elfcore_thread(c->core, 0)->tid;
	err = find_end(c, tid, &at, diag);
	if (err)
		return err;
	if (c->signal.tid == c->tid && c->signal.flags & AUX_SIGNAL_HAS_IP)
		c->ip = c->signal.ip;
	c->has_ip = c->signal.tid == c->tid && c->signal.flags & AUX_SIGNAL_HAS_IP;
	check_core(c);
	err = crash_flow(c, &at, config->n < CRASH_LINES ? config->n : CRASH_LINES, diag);
	if (!err && c->thread) {
		unwind_core(c);
		compare_stacks(c);
	}
	return err;
}

int crash_find(struct crash **out, const struct crash_config *config,
	       struct aux_diag *diag)
{
	struct crash *c = calloc(1, sizeof(*c));
	int err = c ? fill(c, config, diag) : -AUX_E_NOMEM;

	*out = NULL;
	if (err) {
		crash_free(c);
		return err;
	}
	*out = c;
	return 0;
}

void crash_free(struct crash *c)
{
	if (!c)
		return;
	replay_close(c->replay);
	elfcore_close(c->core);
	free(c);
}

/* ---- names ---- */

const char *crash_signal_name(uint32_t signo)
{
	static const char *const names[] = {
		NULL, "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT",
		"SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE",
		"SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP",
		"SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ",
		"SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
	};

	return signo < sizeof(names) / sizeof(names[0]) ? names[signo] : NULL;
}

/* Specification: sigaction(2). */
const char *crash_code_text(uint32_t signo, int32_t code)
{
	static const struct {
		uint32_t signo;
		int32_t code;
		const char *text;
	} texts[] = {
		{ SIGSEGV, SEGV_MAPERR, "nothing is mapped there" },
		{ SIGSEGV, SEGV_ACCERR, "the mapping does not allow it" },
		{ SIGSEGV, SI_KERNEL, "no canonical address, or not allowed" },
		{ SIGBUS, BUS_ADRALN, "not aligned" },
		{ SIGBUS, BUS_ADRERR, "the mapped file has no such byte" },
		{ SIGILL, ILL_ILLOPN, "no such instruction" },
		{ SIGILL, ILL_ILLOPC, "no such instruction" },
		{ SIGFPE, FPE_INTDIV, "division by zero, or the quotient is too large" },
		{ SIGFPE, FPE_INTOVF, "integer overflow" },
		{ SIGFPE, FPE_FLTDIV, "division by zero" },
		{ SIGTRAP, SI_KERNEL, "a breakpoint instruction" },
		{ 0, SI_USER, "sent by kill" }, { 0, SI_TKILL, "sent by raise or abort" },
		{ 0, SI_QUEUE, "sent by sigqueue" }, { 0, SI_TIMER, "a timer" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if ((!texts[i].signo || texts[i].signo == signo) && texts[i].code == code)
			return texts[i].text;
	return NULL;
}
