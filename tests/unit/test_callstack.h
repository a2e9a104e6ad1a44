/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flow made by hand for decode/callstack/callstack.h, and a log of what it tells: "+f" a frame of
 * f began, "-f" it ended; behind it the kind, when it is no call, and the end, when
 * it is no return; "?" what is guessed; "@2" a turn to stack 2; "#" a gap.
 */
#ifndef TESTS_UNIT_TEST_CALLSTACK_H
#define TESTS_UNIT_TEST_CALLSTACK_H

#include <stdio.h>
#include <string.h>

#include "decode/callstack/callstack.h"
#include "decode/lib/code/code.h"
#include "decode/lib/sideband/sideband.h"

#define SIZE 5 /* of each instruction that ends a range */

enum {
	MAIN = 0x1000, F = 0x2000, G = 0x3000, REC = 0x4000, SETJMP = 0x5000,
	LONGJMP = 0x5100, SWAP = 0x5200, SETCTX = 0x5300, HANDLER = 0x6000,
	HANDLER2 = 0x6200, RESTORE = 0x6100, STUB = 0x7000, CO = 0x8000,
	COLD = 0x9000, START = 0xa000, SWITCH = 0xb000, THUNK = 0xc000,
	YIELD = 0xd000, CO2 = 0xe000, NOWHERE = 0xf000,
	JITTED = 0xf800,
	UNMAPPED = 0xf900,	/* so far */
};
#define KERNEL UINT64_C(0xffffffff81000000)
#define KFUNC  UINT64_C(0xffffffff81000100)
#define KCALL  UINT64_C(0xffffffff81000200)

/* table */
static const struct {
	uint64_t start;
	const char *name;
} names[] = {
	{ MAIN, "main" }, { F, "f" }, { G, "g" }, { REC, "rec" },
	{ SETJMP, "_setjmp" }, { LONGJMP, "longjmp" }, { SWAP, "swapcontext" },
	{ SETCTX, "setcontext" }, { HANDLER, "handler" },
	{ HANDLER2, "handler2" }, { RESTORE, "__restore_rt" },
	{ STUB, "f@plt" }, { CO, "co" }, { COLD, "f.cold" },
	{ START, "_start" }, { SWITCH, "my_switch" },
	{ THUNK, "__x86_indirect_thunk_rax" }, { YIELD, "yield" },
	{ CO2, "co2" }, { KERNEL, "entry" }, { KFUNC, "kfunc" },
	{ KCALL, "entry_SYSCALL_64" },
};

struct made {
	struct calls *c;
	struct flow_ctx ctx;
	struct space space;
	struct sink_host host;
	char log[8192];
	uint64_t own, enters, leaves, branches;
	uint8_t code[16];	/* behind each address */
	char why[16];
	char lane[256];		/* on which CPU it ran, and when on none */
	struct off_span away;	/* of all threads; from 0: none */
};

static int give_symbol(void *priv, const struct space *space, uint64_t ip,
		       struct symbol *sym)
{
	(void)priv;
	(void)space;
	*sym = (struct symbol){ .dso = ip - JITTED < 0x100 ? "[anon]" :
				       ip - UNMAPPED < 0x100 ? NULL :
							       "/bin/made" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (ip - names[i].start >= 0x100)
			continue;
		sym->name = names[i].name;
		sym->start = names[i].start;
		sym->size = 0x100;
	}
	return sym->name ? 0 : -AUX_E_NOENT;
}

static int give_code(void *priv, const struct space *space, uint64_t ip,
		     struct aux_code *code)
{
	static uint8_t nops[0x10000];
	struct made *m = priv;

	(void)space;
	if (ip >= sizeof(nops))
		return -AUX_E_NOENT;
	memset(nops, 0x90, sizeof(nops));
	memcpy(nops + F + 0x40, m->code, sizeof(m->code));
	*code = (struct aux_code){ .start = 0, .end = sizeof(nops),
				   .bytes = nops };
	return 0;
}

__attribute__((format(printf, 2, 3)))
static void note(struct made *m, const char *fmt, ...)
{
	size_t n = strlen(m->log);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m->log + n, sizeof(m->log) - n, fmt, ap);
	va_end(ap);
}

static int made_enter(void *priv, struct call_thread *t)
{
	static const char *const kinds[] = { "=", "", "=>", "!", "^", "~",
					     "*" };
	const struct call_frame *f = &t->frames[t->depth - 1];
	struct made *m = priv;
	char name[64];

	call_func_name(f->func, name, sizeof(name));
	note(m, "%s+%s%s%s", m->log[0] ? " " : "", kinds[f->kind], name,
	     f->flags & CALL_GUESSED ? "?" : "");
	m->enters++;
	return 0;
}

static int made_leave(void *priv, struct call_thread *t, enum call_end end,
		      unsigned flags)
{
	static const char *const ends[] = { "", ">", "/", "k", "l", "x", "." };
	struct call_frame *f = &t->frames[t->depth - 1];
	struct made *m = priv;
	char name[64];

	call_func_name(f->func, name, sizeof(name));
	note(m, " -%s%s%s", name, ends[end], flags & CALL_GUESSED ? "?" : "");
	m->own += t->now.insns - f->at.insns - f->children.insns;
	m->leaves++;
	m->branches = t->now.branches;
	return 0;
}

static int made_turn(void *priv, struct call_thread *t, uint32_t from)
{
	(void)from;
	note(priv, " @%u", t->context);
	return 0;
}

static int made_gap(void *priv, struct call_thread *t, const struct aux_flow *ev)
{
	(void)t;
	(void)ev;
	note(priv, " #");
	return 0;
}

/* Apart from the log: why trace stops, a letter each. */
static int made_off(void *priv, struct call_thread *t, bool on)
{
	static const char letters[UNTRACED_N] = "?kf";
	struct made *m = priv;
	size_t n = strlen(m->why);

	if (!on && n < sizeof(m->why) - 1)
		m->why[n] = letters[t->why_off];
	return 0;
}

/* Apart from the log, too. */
static int made_ran(void *priv, struct call_thread *t, uint32_t cpu, uint64_t from, uint64_t to)
{
	struct made *m = priv;
	size_t n = strlen(m->lane);

	(void)t;
	snprintf(m->lane + n, sizeof(m->lane) - n, "%u:%u-%u ", cpu, (unsigned)from, (unsigned)to);
	return 0;
}

static int made_away(void *priv, struct call_thread *t, const struct off_span *span)
{
	struct made *m = priv;
	size_t n = strlen(m->lane);

	(void)t;
	snprintf(m->lane + n, sizeof(m->lane) - n, "-:%u-%u ", (unsigned)span->from,
		 (unsigned)span->to);
	return 0;
}

static const struct calls_ops made_ops = { .enter = made_enter,
					   .leave = made_leave,
					   .turn = made_turn,
					   .gap = made_gap,
					   .off = made_off,
					   .ran = made_ran,
					   .away = made_away };

static void made_begin(struct made *m, unsigned flags)
{
	*m = (struct made){ .space = { .id = 1 },
			    .host = { .code = give_code,
				      .symbol = give_symbol } };
	memset(m->code, 0x90, sizeof(m->code));
	m->ctx = (struct flow_ctx){ .space = &m->space, .pid = 7, .tid = 7,
				    .time_ns = 1000 };
	m->host.priv = m;
	calls_new(&m->c, &m->host, flags, &made_ops, m);
}

/* Instructions from first on; the last of them ends so. */
static void go(struct made *m, uint64_t first, uint64_t last, unsigned what)
{
	struct aux_flow ev = { .kind = AUX_FLOW_RANGE, .what = (uint8_t)what,
			       .flags = SIZE, .n = 2,
			       .range = { first, last } };

	calls_flow(m->c, &m->ctx, &ev, 1);
}

/* An event with an address. */
static void event(struct made *m, unsigned kind, uint64_t ip)
{
	struct aux_flow ev = { .kind = (uint8_t)kind,
			       .flags = ip ? AUX_FLOW_HAS_IP : 0 };

	ev.async.from = ip;
	calls_flow(m->c, &m->ctx, &ev, 1);
}

static const char *made_end(struct made *m)
{
	calls_finish(m->c);
	calls_free(m->c);
	m->c = NULL;
	return m->log;
}

#endif
