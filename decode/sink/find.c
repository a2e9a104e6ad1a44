/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * find: calls that meet conditions, one line each as they end: when, how long,
 * who, how much, called from where, and how to see what ran inside.
 *
 * Each call that is left out is counted for the first condition that it fails,
 * so an empty result says where everything went. With --time calls count that
 * began in that time; the flow comes whole, so that callers and ends are known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/markup.h"
#include "common/diag.h"
#include "common/outbuf.h"
#include "decode/callstack/calltimes.h"
#include "decode/callstack/names.h"
#include "decode/sink/columns.h"
#include "decode/sink/find.h"
#include "decode/sink/sink.h"

/* table */
#define FIELDS \
	"time,dur,self,offcpu,blocked,preempted,untraced,kernel,filtered,lost," \
	"pid,tid,comm,insns,cycles,sym,dso,caller,end,state,see," \
	"total_offcpu,total_kernel"

enum field {
	F_TIME, F_DUR, F_SELF, F_OFF_CPU, F_BLOCKED, F_PREEMPTED, F_UNTRACED,
	F_KERNEL, F_FILTERED, F_LOST, F_PID, F_TID, F_COMM, F_INSNS, F_CYCLES, F_SYM, F_DSO, F_CALLER, F_END, F_STATE,
	F_SEE, F_TOTAL_OFF_CPU, F_TOTAL_KERNEL, F_N,
};

/* Why a call is left out: the first condition that it fails, in the order of
 * judge(). */
enum drop {
	DROP_SYMBOL, DROP_TIME, DROP_LONGER, DROP_SHORTER, DROP_FROM,
	DROP_CALLER, DROP_WHOLE, DROP_N,
};

/* SORT_END: as they end, which needs no memory. */
enum find_sort {
	SORT_END, SORT_START, SORT_DUR, SORT_SELF, SORT_OFF_CPU, SORT_KERNEL,
	SORT_TOTAL_OFF_CPU, SORT_TOTAL_KERNEL, SORT_INSNS, SORT_CYCLES,
};

/* as enum find_sort; those that are a field show what that shows */
#define SORT_VALUES \
	"end start dur self offcpu kernel total_offcpu total_kernel insns cycles"
#define SORT_ROWS 1000000	/* without -n */

struct find_config {
	const char *fields;	/* -F, NULL: for people */
	uint64_t limit;		/* -n, 0: none */
	enum find_by by;	/* --by: what --longer and --shorter are of */
	const char *longer, *shorter;	/* as given, NULL: none */
	const char *from, *caller;	/* NAMEs, NULL: any */
	bool whole;		/* --whole */
	bool just_count;	/* --count */
	unsigned sort;		/* enum find_sort */
};

struct find {
	struct sink_env env;
	struct find_config config;
	enum find_by by;
	uint64_t longer, shorter;	/* 0, UINT64_MAX: none */
	struct find_watch *watch;
	uint8_t fields[F_N * 2];
	unsigned n_fields;		/* 0: for people */
	uint64_t n_calls, n_found;
	uint64_t n_dropped[DROP_N];
	uint64_t first;		/* what the function to go on with is sorted by */
	uint64_t n_uncounted;		/* by cycles: of which none is known */
	bool started;
	/* --sort: lines that are kept, by slot of order, and where each is made */
	struct slowest order;
	char **rows;
	struct outbuf *row;
};

/* A call that ends. */
struct found {
	const struct call_thread *t;
	const struct call_frame *f, *up; /* up: its caller, NULL: unknown */
	const struct call_count *took;
	enum call_end end;
	enum find_fault fault;
};

/* ---- conditions ---- */

/* frame.user is FIND_ABOVE when --from fits the frame or one below it. */
static int on_enter(void *priv, struct call_thread *t, unsigned marks)
{
	struct call_frame *f = &t->frames[t->depth - 1];
	uintptr_t above = t->depth > 1 ? (uintptr_t)f[-1].user : 0;

	(void)priv;
	f->user = (void *)(above | (marks & FIND_ABOVE));
	return 0;
}

/* Whether a caller, at any distance, fits --from. */
static bool is_from(const struct find *s, const struct found *c)
{
	return !s->config.from ||
	       (c->up && (uintptr_t)c->up->user & FIND_ABOVE);
}

/* Whether the direct caller fits --caller. */
static bool is_by_caller(const struct find *s, const struct found *c)
{
	return !s->config.caller ||
	       (c->up && find_watch_marks(s->watch, c->up->func) & FIND_CALLER);
}

/* DROP_N: it meets all conditions. */
static enum drop judge(const struct find *s, const struct found *c,
		       unsigned marks)
{
	uint64_t amount = find_amount(s->by, c->took);

	if (!(marks & FIND_THIS))
		return DROP_SYMBOL;
	if (c->f->at.ns < s->env.time_from ||
	    c->f->at.ns > s->env.time_to)
		return DROP_TIME;
	if (amount < s->longer)
		return DROP_LONGER;
	if (amount >= s->shorter)
		return DROP_SHORTER;
	if (!is_from(s, c))
		return DROP_FROM;
	if (!is_by_caller(s, c))
		return DROP_CALLER;
	if (s->config.whole && c->fault)
		return DROP_WHOLE;
	return DROP_N;
}

/* ---- lines ---- */

static const char *end_text(enum call_end end)
{
	/* table */
	static const char *const texts[] = {
		[CALL_END_RET] = "ret",	      [CALL_END_TAIL] = "tail",
		[CALL_END_UNWOUND] = "unwound", [CALL_END_KERNEL] = "kernel",
		[CALL_END_LOST] = "lost",     [CALL_END_EXEC] = "exec",
		[CALL_END_TRACE] = "trace",
	};

	return texts[end];
}

static const char *state_text(enum find_fault fault)
{
	/* table */
	static const char *const texts[] = {
		[FIND_WHOLE] = "whole",	    [FIND_GAP] = "gap",
		[FIND_GUESSED] = "guessed", [FIND_RUNNING] = "running",
		[FIND_BEFORE] = "before",   [FIND_UNTIMED] = "untimed",
	};

	return texts[fault];
}

/* "-" for the caller of a frame that has none. */
static void put_name(struct outbuf *out, const struct call_frame *f)
{
	char name[512];

	if (!f) {
		outbuf_put(out, "-", 1);
		return;
	}
	call_func_name(f->func, name, sizeof(name));
	outbuf_clean(out, name);
}

/* The same for people: short where it is to fit. */
static void put_short(struct find *s, const struct call_frame *f)
{
	const unsigned others = 66, least = 28;
	unsigned width = s->env.width;

	if (width)
		width = width > others + 2 * least ? (width - others) / 2 : least;
	if (f && f->func->raw)
		outbuf_clean(s->env.out, names_cut(s->env.host->names, f->func->raw,
						   width));
	else
		put_name(s->env.out, f);
}

/* The command that shows what ran inside. */
static void put_see(struct find *s, const struct found *c)
{
	struct outbuf *out = s->env.out;

	if (!c->f->at.ns) {
		outbuf_put(out, "-", 1);
		return;
	}
	find_put_see(out, &s->env, c->f->at.ns, c->t->now.ns, c->t->tid);
}

static void put_time(struct outbuf *out, uint64_t ns)
{
	char text[40];

	if (ns)
		outbuf_put(out, text, (size_t)(fmt_time(text, ns) - text));
	else
		outbuf_put(out, "-", 1);
}

static void put_number(struct outbuf *out, uint64_t v)
{
	char text[24];

	outbuf_put(out, text, (size_t)(fmt_dec(text, v) - text));
}

static void put_id(struct outbuf *out, uint32_t id)
{
	outbuf_printf(out, "%d", (int)id);
}

/* The name the thread had when the call began. */
static void put_comm(struct find *s, const struct found *c)
{
	const struct sink_host *host = s->env.host;
	const char *comm = host->comm ? host->comm(host->priv, c->t->tid,
						   c->f->at.ns) : NULL;

	outbuf_clean(s->env.out, comm && *comm ? comm : "-");
}

/* What was not measured is no 0. */
static void put_known(struct outbuf *out, uint64_t v, bool known)
{
	if (known)
		put_number(out, v);
	else
		outbuf_put(out, "-", 1);
}

/* What is the call's own, without its callees. */
static void put_own(const struct find *s, const struct found *c, enum field field)
{
	struct call_count own = call_minus(*c->took, c->f->children);
	bool timed = c->f->at.ns, away = timed && s->env.host->off_cpu;
	struct outbuf *out = s->env.out;

	switch (field) {
	case F_OFF_CPU:
		put_known(out, own.off_ns, away);
		break;
	case F_BLOCKED:
		put_known(out, own.blocked_ns, away);
		break;
	case F_PREEMPTED:
		put_known(out, own.preempted_ns, away);
		break;
	case F_UNTRACED:
		put_known(out, own.untraced_ns, timed);
		break;
	case F_KERNEL:
		put_known(out, own.kernel_ns, timed);
		break;
	case F_FILTERED:
		put_known(out, own.filtered_ns, timed);
		break;
	case F_LOST:
		put_known(out, own.lost_ns, timed);
		break;
	default:
		put_known(out, call_self_ns(&own), timed);
	}
}

static void put_field(struct find *s, const struct found *c, enum field field)
{
	struct outbuf *out = s->env.out;

	switch (field) {
	case F_TIME:
		put_time(out, c->f->at.ns);
		break;
	case F_DUR:
		put_known(out, c->took->ns, c->f->at.ns);
		break;
	case F_SELF:
	case F_OFF_CPU:
	case F_BLOCKED:
	case F_PREEMPTED:
	case F_UNTRACED:
	case F_KERNEL:
	case F_FILTERED:
	case F_LOST:
		put_own(s, c, field);
		break;
	case F_PID:
		put_id(out, c->t->pid);
		break;
	case F_TID:
		put_id(out, c->t->tid);
		break;
	case F_COMM:
		put_comm(s, c);
		break;
	case F_INSNS:
		put_number(out, c->took->insns);
		break;
	case F_CYCLES:
		put_known(out, c->took->cycles, c->t->now.cycles);
		break;
	case F_SYM:
		put_name(out, c->f);
		break;
	case F_DSO:
		outbuf_clean(out, c->f->func->dso ? c->f->func->dso : "-");
		break;
	case F_CALLER:
		put_name(out, c->up);
		break;
	case F_END:
		outbuf_str(out, end_text(c->end));
		break;
	case F_STATE:
		outbuf_str(out, state_text(c->fault));
		break;
	case F_TOTAL_OFF_CPU:
		put_known(out, c->took->off_ns, c->f->at.ns && s->env.host->off_cpu);
		break;
	case F_TOTAL_KERNEL:
		put_known(out, c->took->kernel_ns, c->f->at.ns);
		break;
	default:
		put_see(s, c);
	}
}

static void put_head(struct find *s)
{
	outbuf_printf(s->env.out, "#%19s %11s %15s %11s  %s\n", "time",
		      s->by == FIND_BY_CYCLES ? "cycles" : "duration", "pid/tid",
		      "insns", "function <- caller");
}

/* Whether the lines are in the order of time in the kernel. */
static bool is_by_kernel(const struct find *s)
{
	return s->config.sort == SORT_KERNEL || s->config.sort == SORT_TOTAL_KERNEL;
}

/* What explains a long call: where it waited itself, and with its callees. */
static void put_beside(struct find *s, const struct found *c)
{
	struct call_count own = call_minus(*c->took, c->f->children);
	struct outbuf *out = s->env.out;
	char off[FIND_OFF_TEXT], ns[40];

	if (!c->f->at.ns)
		return;
	if (own.off_ns)
		outbuf_printf(out, " [off CPU %s]", find_off_text(off, &own));
	if (c->took->off_ns != own.off_ns)
		outbuf_printf(out, " [total off CPU %s]",
			      find_off_text(off, c->took));
	if (!find_is_kernel_mostly(c->took) && !(is_by_kernel(s) && c->took->kernel_ns))
		return;
	if (own.kernel_ns)
		outbuf_printf(out, " [in the kernel %s]",
			      find_amount_text(ns, FIND_BY_TIME, own.kernel_ns));
	if (c->took->kernel_ns != own.kernel_ns)
		outbuf_printf(out, " [total in the kernel %s]",
			      find_amount_text(ns, FIND_BY_TIME, c->took->kernel_ns));
}

/* The aligned line. By cycles, the column of the duration shows those. */
static void put_for_people(struct find *s, const struct found *c)
{
	struct outbuf *out = s->env.out;
	char dur[40], n[40], who[32], time[40];

	if (!s->started && !s->row)
		put_head(s);
	s->started = true;
	*fmt_time(time, c->f->at.ns) = 0;
	if (s->by == FIND_BY_CYCLES)
		find_amount_text(dur, s->by, c->took->cycles);
	else if (c->f->at.ns)
		find_took_text(dur, FIND_BY_TIME, c->took->ns,
			       s->env.resolution);
	else
		memcpy(dur, "-", 2);
	find_number_text(n, c->took->insns);
	snprintf(who, sizeof(who), "%d/%d", (int)c->t->pid, (int)c->t->tid);
	outbuf_printf(out, "%20s %11s %15s %11s  ", c->f->at.ns ? time : "-",
		      dur, who, n);
	put_short(s, c->f);
	outbuf_str(out, " <- ");
	put_short(s, c->up);
	put_beside(s, c);
	if (c->end != CALL_END_RET && !c->fault)
		outbuf_printf(out, " [%s]", end_text(c->end));
	if (c->fault)
		outbuf_printf(out, " [%s]", find_fault_text(c->fault));
	outbuf_str(out, "  ");
	put_see(s, c);
	outbuf_str(out, "\n");
}

static void json_times(struct find *s, const struct found *c,
		       const struct call_count *own)
{
	bool timed = c->f->at.ns, away = timed && s->env.host->off_cpu;
	struct outbuf *out = s->env.out;

	find_json_known(out, "ns", c->took->ns, timed);
	find_json_known(out, "self_ns", call_self_ns(own), timed);
	find_json_known(out, "off_cpu_ns", own->off_ns, away);
	find_json_known(out, "blocked_ns", own->blocked_ns, away);
	find_json_known(out, "preempted_ns", own->preempted_ns, away);
	find_json_known(out, "untraced_ns", own->untraced_ns, timed);
	find_json_known(out, "kernel_ns", own->kernel_ns, timed);
	find_json_known(out, "filtered_ns", own->filtered_ns, timed);
	find_json_known(out, "lost_ns", own->lost_ns, timed);
	find_json_known(out, "total_off_cpu_ns", c->took->off_ns, away);
	find_json_known(out, "total_kernel_ns", c->took->kernel_ns, timed);
}

/* All fields, whatever -F has. */
static void put_json(struct find *s, const struct found *c)
{
	struct call_count own = call_minus(*c->took, c->f->children);
	const struct sink_host *host = s->env.host;
	const char *comm = host->comm ? host->comm(host->priv, c->t->tid,
						   c->f->at.ns) : NULL;
	struct outbuf *out = s->env.out;
	bool timed = c->f->at.ns;
	char name[512];

	call_func_name(c->f->func, name, sizeof(name));
	outbuf_str(out, s->started && !s->row ? ",\n{\"function\":" :
						"\n{\"function\":");
	s->started = true;
	outbuf_json(out, name);
	outbuf_json_text(out, "dso", c->f->func->dso);
	if (c->up)
		call_func_name(c->up->func, name, sizeof(name));
	outbuf_json_text(out, "caller", c->up ? name : NULL);
	outbuf_printf(out, ",\"pid\":%d,\"tid\":%d", (int)c->t->pid,
		      (int)c->t->tid);
	outbuf_json_text(out, "comm", comm && *comm ? comm : NULL);
	outbuf_json_number(out, "time_ns", c->f->at.ns);
	json_times(s, c, &own);
	outbuf_json_number(out, "instructions", c->took->insns);
	find_json_known(out, "cycles", c->took->cycles, c->t->now.cycles);
	outbuf_json_text(out, "end", end_text(c->end));
	outbuf_json_text(out, "state", state_text(c->fault));
	if (timed)
		find_json_see(out, &s->env, c->f->at.ns, c->t->now.ns,
			      c->t->tid);
	outbuf_str(out, "}");
}

static void put_fields(struct find *s, const struct found *c)
{
	for (unsigned i = 0; i < s->n_fields; i++) {
		if (i)
			outbuf_put(s->env.out, " ", 1);
		put_field(s, c, s->fields[i]);
	}
	outbuf_put(s->env.out, "\n", 1);
}

static void put_call(struct find *s, const struct found *c)
{
	if (s->env.json)
		put_json(s, c);
	else if (s->n_fields)
		put_fields(s, c);
	else
		put_for_people(s, c);
}

/* ---- --sort ---- */

/* The larger comes first. */
static uint64_t sort_value(const struct find *s, const struct found *c)
{
	struct call_count own = call_minus(*c->took, c->f->children);

	switch (s->config.sort) {
	case SORT_START:
		return UINT64_MAX - c->f->at.ns;
	case SORT_DUR:
		return c->took->ns;
	case SORT_SELF:
		return call_self_ns(&own);
	case SORT_OFF_CPU:
		return own.off_ns;
	case SORT_KERNEL:
		return own.kernel_ns;
	case SORT_TOTAL_OFF_CPU:
		return c->took->off_ns;
	case SORT_TOTAL_KERNEL:
		return c->took->kernel_ns;
	case SORT_INSNS:
		return c->took->insns;
	case SORT_CYCLES:
		return c->took->cycles;
	case SORT_END:
		break;
	}
	return 0;
}

/* The function of the first call, or of the largest, is the one to go on with. */
static void note_first(struct find *s, const struct found *c, uint64_t value)
{
	struct sink_report *to = s->env.report;

	if (!c->f->func->raw || (*to->function && value <= s->first))
		return;
	s->first = value;
	names_typed(s->env.host->names, c->f->func->raw, to->function,
		    sizeof(to->function));
}

/* Makes the line of a call that is among the first so far, and keeps it. 0 or
 * -AUX_E_NOMEM. */
static int keep_row(struct find *s, const struct found *c)
{
	int64_t slot = slowest_offer(&s->order, sort_value(s, c));
	struct outbuf *out = s->env.out;
	char *text;

	if (slot < 0)
		return 0;
	s->env.out = s->row;
	put_call(s, c);
	s->env.out = out;
	text = strndup(s->row->buf, (size_t)(s->row->p - s->row->buf));
	s->row->p = s->row->buf;
	if (!text || outbuf_failed(s->row)) {
		free(text);
		return -AUX_E_NOMEM;
	}
	free(s->rows[slot]);
	s->rows[slot] = text;
	return 0;
}

static void put_rows(struct find *s)
{
	if (!s->env.json && !s->n_fields && s->order.n)
		put_head(s);
	slowest_sort(&s->order);
	for (uint32_t i = 0; i < s->order.n; i++) {
		outbuf_str(s->env.out, s->env.json && i ? "," : "");
		outbuf_str(s->env.out, s->rows[s->order.v[i].slot]);
	}
}

/* What -n left out, for people. */
static void put_left_out(struct find *s)
{
	if (s->env.json || s->n_fields || s->config.just_count)
		return;
	if (s->row && s->n_found > s->order.n)
		outbuf_printf(s->env.out, "# %u of %llu calls; -n shows more\n",
			      s->order.n, (unsigned long long)s->n_found);
	else if (!s->row && s->config.limit && s->n_found >= s->config.limit)
		outbuf_str(s->env.out, "# the first of them, as they ended; the "
			   "longest: --sort dur\n");
}

static int open_sort(struct find *s)
{
	uint64_t max = s->config.limit && s->config.limit < SORT_ROWS ?
		       s->config.limit : SORT_ROWS;

	if (s->config.sort == SORT_END || s->config.just_count)
		return 0;
	s->row = outbuf_new(-1);
	s->rows = calloc(max, sizeof(*s->rows));
	if (!s->row || !s->rows)
		return -AUX_E_NOMEM;
	return slowest_init(&s->order, (uint32_t)max);
}

static void close_sort(struct find *s)
{
	for (uint32_t i = 0; s->rows && i < s->order.max; i++)
		free(s->rows[i]);
	free(s->rows);
	slowest_fini(&s->order);
	outbuf_free(s->row);
}

/* ---- the flow ---- */

/* 1 when as many were found as were asked for; calls that still end when the
 * flow stops are not looked at any more. */
static int on_leave(void *priv, struct call_thread *t, unsigned marks,
		    enum call_end end, enum find_fault fault,
		    const struct call_count *took)
{
	struct find *s = priv;
	struct found c = { .t = t,
			   .f = &t->frames[t->depth - 1],
			   .took = took,
			   .end = end,
			   .fault = fault };
	enum drop drop;

	if (!s->row && s->config.limit && s->n_found >= s->config.limit)
		return 1; /* more of them end when the flow stops */
	if (t->depth > 1)
		c.up = c.f - 1;
	s->n_calls++;
	if (fault == FIND_UNTIMED && s->by == FIND_BY_CYCLES) {
		s->n_uncounted++;
		return 0;
	}
	drop = judge(s, &c, marks);
	if (drop != DROP_N) {
		s->n_dropped[drop]++;
		return 0;
	}
	s->n_found++;
	if (s->config.just_count)
		return 0;
	note_first(s, &c, s->row ? sort_value(s, &c) : 0);
	if (s->row)
		return keep_row(s, &c);
	put_call(s, &c);
	if (outbuf_failed(s->env.out))
		return -AUX_E_IO;
	return s->config.limit && s->n_found >= s->config.limit;
}

/* ---- the end ---- */

/* table */
static const char *const drop_texts[DROP_N] = {
	[DROP_SYMBOL] = "of other functions",
	[DROP_TIME] = "began outside of --time",
	[DROP_LONGER] = "took less than --longer",
	[DROP_SHORTER] = "took --shorter or more",
	[DROP_FROM] = "not below --from",
	[DROP_CALLER] = "not by --caller",
	[DROP_WHOLE] = "not whole (--whole)",
};

/* Why none of the calls of the function is shown: each is counted at the first
 * condition that it fails. */
static void say_drops(struct find *s)
{
	uint64_t n = s->n_calls - s->n_dropped[DROP_SYMBOL];
	char *hint = s->env.report->hint;
	const size_t room = sizeof(s->env.report->hint);
	size_t at;

	if (!n)
		return;
	at = (size_t)snprintf(hint, room, "of %llu calls ", (unsigned long long)n);
	for (unsigned i = DROP_SYMBOL + 1; i < DROP_N; i++)
		if (s->n_dropped[i] && at < room)
			at += (size_t)snprintf(hint + at, room - at, "%s%llu %s",
					       hint[at - 1] == ' ' ? "" : ", ",
					       (unsigned long long)s->n_dropped[i],
					       drop_texts[i]);
}

/* The table of an empty result. */
static void report_drops(struct find *s)
{
	struct sink_report *r = s->env.report;

	r->drops[r->n_drops].what = "calls seen";
	r->drops[r->n_drops++].n = s->n_calls;
	for (unsigned i = 0; i < DROP_N; i++) {
		if (!s->n_dropped[i])
			continue;
		r->drops[r->n_drops].what = drop_texts[i];
		r->drops[r->n_drops++].n = s->n_dropped[i];
	}
}

static int finish_find(void *sink, struct aux_diag *diag)
{
	struct find *s = sink;
	int rc = find_watch_finish(s->watch);

	if (!rc && (s->by == FIND_BY_CYCLES || s->longer ||
		    s->shorter != UINT64_MAX))
		rc = find_watch_check(s->watch, diag);
	if (rc < 0)
		return rc;
	if (s->n_uncounted)
		snprintf(s->env.report->note, sizeof(s->env.report->note),
			 "%llu calls ended before the trace counted cycles, "
			 "and are not shown", (unsigned long long)s->n_uncounted);
	put_rows(s);
	put_left_out(s);
	if (s->env.json) {
		outbuf_str(s->env.out, "]");
		outbuf_json_number(s->env.out, "n_calls", s->n_calls);
		outbuf_json_number(s->env.out, "n_found", s->n_found);
	} else if (s->config.just_count)
		outbuf_printf(s->env.out, "%llu\n",
			      (unsigned long long)s->n_found);
	s->env.report->n_lines = s->n_found;
	if (s->n_found)
		return 0;
	report_drops(s);
	find_watch_hint(s->watch, s->env.report->hint,
			sizeof(s->env.report->hint));
	if (!s->env.report->hint[0] && s->n_calls)
		say_drops(s);
	return 0;
}

static void close_find(void *sink)
{
	struct find *s = sink;

	if (!s)
		return;
	find_watch_free(s->watch);
	close_sort(s);
	free(s);
}

/* The index of a field in FIELDS; F_N: there is none of that name. */
static unsigned find_field(const char *name, size_t len)
{
	const char *p = FIELDS;

	for (unsigned i = 0; i < F_N; i++) {
		size_t n = strcspn(p, ",");

		if (n == len && !memcmp(p, name, n))
			return i;
		p += n + (p[n] == ',');
	}
	return F_N;
}

static int parse_fields(struct find *s, const char *list, struct aux_diag *diag)
{
	while (list) {
		size_t len = strcspn(list, ",");
		unsigned field = find_field(list, len);

		if (field == F_N || s->n_fields == sizeof(s->fields))
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"-F of find takes " FIELDS ", not "
					"\"%s\"", list);
		s->fields[s->n_fields++] = (uint8_t)field;
		list = list[len] ? list + len + 1 : NULL;
	}
	return 0;
}

static const struct find_ops find_ops = { .enter = on_enter,
					  .leave = on_leave };

static int open_parts(struct find *s, struct aux_diag *diag)
{
	const struct find_config *config = &s->config;
	struct find_watch_config watch = { .env = &s->env,
					   .from = config->from,
					   .caller = config->caller,
					   .ops = &find_ops,
					   .priv = s, .all = true };
	int err = 0;

	s->by = config->by;
	s->shorter = UINT64_MAX;
	if (!err && config->longer)
		err = find_amount_parse(&s->longer, s->by, "--longer",
					config->longer, diag);
	if (!err && config->shorter)
		err = find_amount_parse(&s->shorter, s->by, "--shorter",
					config->shorter, diag);
	if (!err)
		err = parse_fields(s, config->fields, diag);
	if (!err)
		err = open_sort(s);
	watch.by = s->by;
	return err ? err : find_watch_new(&s->watch, &watch, diag);
}

static int open_find(void **sink, const struct sink_env *env,
		     const void *options, struct aux_diag *diag)
{
	const struct find_config *config = options;
	struct find *s = calloc(1, sizeof(*s));
	int err;

	*sink = NULL;
	if (!s)
		return -AUX_E_NOMEM;
	s->env = *env;
	s->config = *config;
	if (env->json && config->fields)
		err = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			       "--json has all fields: leave -F out");
	else
		err = open_parts(s, diag);
	if (!err && env->json)
		outbuf_str(env->out, ",\n\"calls\":[");
	if (err)
		close_find(s);
	else
		*sink = s;
	return err;
}

static int flow_find(void *sink, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct find *s = sink;

	return find_watch_flow(s->watch, ctx, ev, n);
}

/* table */
static const struct option_row find_options[] = {
	SINK_ROW_FIELDS(struct find_config),
	SINK_LIMIT(struct find_config, "the first N calls"),
	{ .name = "sort", .arg = "KEY", .values = SORT_VALUES,
	  .help = "the largest first: dur, self, insns, cycles; offcpu, kernel: the\n"
		  "call's own, total_offcpu, total_kernel: with its callees; start: in\n"
		  "the order they began; end (the default): as they ended",
	  OPTION_CHOICE(struct find_config, sort) },
	SINK_BY(struct find_config, FIND_BY_VALUES, FIND_BY_HELP),
	{ .name = "longer", .arg = "TIME",
	  .help = "calls that took TIME or more: 1ms, 0.5 (seconds);\nwith --by insns or cycles, a number of them",
	  OPTION_TEXT(struct find_config, longer) },
	{ .name = "shorter", .arg = "TIME",
	  .help = "calls that took less than TIME",
	  OPTION_TEXT(struct find_config, shorter) },
	{ .name = "from", .arg = "NAME",
	  .help = "calls with function NAME anywhere above them",
	  OPTION_TEXT(struct find_config, from) },
	{ .name = "caller", .arg = "NAME",
	  .help = "calls that function NAME made directly",
	  OPTION_TEXT(struct find_config, caller) },
	{ .name = "whole",
	  .help = "only calls without a gap inside, seen from begin to end",
	  OPTION_FLAG(struct find_config, whole) },
	{ .name = "count",
	  .help = "print only how many there are",
	  OPTION_FLAG(struct find_config, just_count) },
	{ .name = NULL },
};

const struct sink_ops sink_find_calls = {
	.name = "find",
	/* a call that begins in --time may end after it */
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_FILTERS_TIME,
	.fields = FIELDS,
	.options = find_options,
	.config_size = sizeof(struct find_config),
	.open = open_find,
	.flow = flow_find,
	.finish = finish_find,
	.close = close_find,
};
