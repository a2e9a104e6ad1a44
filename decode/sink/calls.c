/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_calls: what was called, from where, how long it took, and what happened
 * inside. For reading as a tree; with -F as rows for programs. What is not
 * known is said: gaps and losses stand where they are, and so do frames that
 * never ended.
 *
 * callstack/callstack.h keeps the stacks; the sink hears of each frame as it
 * begins (enter) and ends (leave), of a thread that changes its stack (turn),
 * and of gaps. Both outputs share the filters: --symbol shows a function's
 * calls with all inside of them (counted per thread in call_view), --max-depth
 * cuts by depth. A frame's texts are made once per function (call_text).
 *
 * The tree holds one begin back: "name() {" is not printed until the next event
 * says whether the call had anything inside; if its end comes next, the call is
 * one line. So lines come in the order of time, and at most one is pending.
 *
 * Speed: there may be millions of calls a second, so lines are put together in
 * place (outbuf_room, fmt_copy) from parts that are ready: the lead, of which
 * mostly the last nine digits change, the indent, the name.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/diag.h"
#include "common/outbuf.h"
#include "decode/callstack/callstack.h"
#include "decode/callstack/names.h"
#include "decode/lib/elf/elf.h"
#include "decode/sink/columns.h"
#include "decode/sink/find.h"
#include "decode/sink/sink.h"

#define CALL_COLUMNS_MAX 32
#define CALL_LEAD_MAX	 96

/* What a thread needs for --symbol; call_thread.user. All are in a list, to be
 * freed. */
struct call_view {
	uint32_t n_inside;	/* frames of --symbol that are on the stack */
	uint32_t below;		/* frames below the lowest of them */
	struct call_view *next;	/* of all */
};

/* A function as it is printed; call_func.user. */
struct call_text {
	uint32_t n_name;	/* without the brackets */
	uint32_t n;		/* FMT_SLACK bytes more can be read */
	char text[];
};

/* A begin whose line is not out yet. Copied from the frame, which may be gone
 * when the line is printed. */
struct call_begin {
	uint64_t serial;	/* 0: none */
	struct call_func *func;
	uint64_t from, ns;
	const struct space *space;
	uint32_t pid, tid, depth;
	uint8_t kind, flags;
};

struct calls_config {
	const char *fields;	/* -F, NULL: a tree */
	uint64_t limit;		/* -n, 0: none */
	uint64_t max_depth;	/* --max-depth, 0: none */
	bool inlines;		/* --inline */
	bool source;		/* --source */
	bool stubs;		/* --stubs */
};

struct calls_sink {
	struct sink_env env;
	struct calls_config config;
	struct calls *calls;
	bool rows;		/* -F: rows of columns */
	uint8_t col[CALL_COLUMNS_MAX];
	unsigned n_col;
	bool has_event;		/* a row for each begin, too */
	bool counted, timed;	/* a row had cycles, a time */
	struct call_view *views;
	struct last_ips last;	/* for gap lines */
	uint64_t ran;		/* address that ran last in the stream */
	/* tree: */
	struct call_begin open;	/* the frame that began last */
	struct {
		uint32_t pid, tid;
		uint64_t ns, second;	/* second: where its second begins */
		size_t n_who, n;	/* n 0: none yet */
		char text[CALL_LEAD_MAX];
	} lead;			/* "pid/tid time  " of the last line */
	char least[9 + FMT_SLACK]; /* the duration that the trace cannot tell */
	uint64_t last_serial;	/* of the frame whose { came out last */
	uint64_t n_still;	/* frames that never ended */
	bool started;
};

/* "name()" once per function; a demangled name that has its own brackets gets
 * none. Out of memory: the output has failed. */
static const struct call_text *make_text(const struct sink_env *env,
					 struct call_func *f)
{
	struct outbuf *out = env->out;
	static const union {
		struct call_text text;
		char bytes[sizeof(struct call_text) + FMT_SLACK];
	} unknown;
	bool own = f->name && f->name != f->raw && strchr(f->name, '(');
	char buf[4096];
	struct call_text *text;
	const char *name = f->name;
	size_t n;

	if (!name)
		call_func_name(f, buf, sizeof(buf));
	else if (env->width)
		name = names_cut(env->host->names, f->raw,
				 env->width > 92 ? env->width - 60 : 32);
	if (name && name != f->name)
		own = strchr(name, '(') && name[strlen(name) - 1] == ')';
	name = name ? name : buf;
	n = strnlen(name, UINT32_MAX / 2);
	text = calloc(1, sizeof(*text) + n + 2 + FMT_SLACK);
	if (!text) {
		outbuf_fail(out, ENOMEM);
		return &unknown.text;
	}
	f->user = text;
	n = clean_text(text->text, name, n);
	memcpy(text->text + n, "()", 2);
	text->n_name = (uint32_t)n;
	text->n = (uint32_t)n + (own ? 0 : 2);
	return text;
}

static inline const struct call_text *text_of(const struct sink_env *env,
					      struct call_func *f)
{
	return f->user ? f->user : make_text(env, f);
}

/* The thread's view, made at first need; NULL: out of memory. */
static struct call_view *view_of(struct calls_sink *s, struct call_thread *t)
{
	struct call_view *v = t->user;

	if (v)
		return v;
	v = calloc(1, sizeof(*v));
	if (!v)
		return NULL;
	v->next = s->views;
	s->views = v;
	t->user = v;
	return v;
}

/* The depth to indent by, from 1; with --symbol counted from the lowest frame
 * of that function. */
static uint32_t depth_of(const struct calls_sink *s,
			const struct call_thread *t)
{
	const struct call_view *v = t->user;

	/* another stack of the thread may be lower */
	if (!s->env.symbol || !v || v->below >= t->depth)
		return t->depth;
	return t->depth - v->below;
}

/* Whether the frame on top passes --symbol and --max-depth. */
static bool is_shown(const struct calls_sink *s,
			  const struct call_thread *t)
{
	const struct call_view *v = t->user;

	if (s->env.symbol && (!v || !v->n_inside))
		return false;
	return !s->config.max_depth ||
	       depth_of(s, t) <= s->config.max_depth;
}

/* The frame on top begins (by 1) or ends (by -1): counts it if --symbol means
 * it. */
static int count_inside(struct calls_sink *s, struct call_thread *t, int by)
{
	struct call_view *v;

	if (!s->env.symbol || !t->frames[t->depth - 1].func->wanted)
		return 0;
	v = view_of(s, t);
	if (!v)
		return -AUX_E_NOMEM;
	if (by > 0 && !v->n_inside)
		v->below = t->depth - 1;
	v->n_inside += (uint32_t)by;
	return 0;
}

/* Counts a line that came out; 1: that was the last one of -n. */
static inline int count_line(struct calls_sink *s)
{
	s->env.report->n_lines++;
	return s->config.limit && s->env.report->n_lines >= s->config.limit;
}

/* The same line as in other sinks; t is NULL when no thread is known. */
static int on_gap(void *priv, struct call_thread *t,
			  const struct aux_flow *ev)
{
	static const struct flow_ctx nobody = { .pid = UINT32_MAX,
						.tid = UINT32_MAX, .cpu = -1 };
	struct calls_sink *s = priv;

	print_gap(s->env.out, s->env.host, t ? t->ctx : &nobody, ev, s->ran);
	return 0;
}

/* The same line as in other sinks, at the time of the call around it. */
static int put_payload(struct calls_sink *s, struct call_thread *t,
		       const struct aux_flow *ev)
{
	if (ev->kind != AUX_FLOW_PAYLOAD || s->env.symbol)
		return 0;
	print_payload(s->env.out, s->env.host, t->ctx, t->now.ns, ev);
	return count_line(s);
}

/*
 * ---- rows for programs, -F ----
 *
 * A row for each call when it ends, so that all is known of it; with the column
 * "event" one where it begins ("enter") and one where it ends ("leave"), in the
 * order of the flow. What is not known yet is "-".
 */

enum call_column {
	C_EVENT, C_PID, C_TID, C_COMM, C_TIME, C_END, C_DUR, C_SELF, C_INSNS,
	C_OWN, C_BRANCHES, C_CYCLES, C_DEPTH, C_STACK, C_KIND, C_HOW, C_GUESSED,
	C_FROM, C_TO, C_BACK, C_SERIAL, C_PARENT, C_SYM, C_DSO, C_CALLER,
	C_OFF_CPU, C_BLOCKED, C_PREEMPTED, C_UNTRACED, C_KERNEL, C_FILTERED,
	C_LOST, C_N
};

/* table */
static const char *const names[C_N] = {
	[C_EVENT] = "event", [C_PID] = "pid", [C_TID] = "tid",
	[C_COMM] = "comm", [C_TIME] = "time", [C_END] = "end",
	[C_DUR] = "dur", [C_SELF] = "self", [C_INSNS] = "insns",
	[C_OWN] = "own", [C_BRANCHES] = "branches", [C_CYCLES] = "cycles",
	[C_DEPTH] = "depth", [C_STACK] = "stack", [C_KIND] = "kind",
	[C_HOW] = "how", [C_GUESSED] = "guessed", [C_FROM] = "from",
	[C_TO] = "to", [C_BACK] = "back", [C_SERIAL] = "id",
	[C_PARENT] = "parent", [C_SYM] = "sym", [C_DSO] = "dso",
	[C_CALLER] = "caller", [C_OFF_CPU] = "offcpu",
	[C_BLOCKED] = "blocked", [C_PREEMPTED] = "preempted",
	[C_UNTRACED] = "untraced", [C_KERNEL] = "kernel",
	[C_FILTERED] = "filtered", [C_LOST] = "lost",
};
static const char row_fields[] =
	"event,pid,tid,comm,time,end,dur,self,insns,own,branches,cycles,depth,"
	"stack,kind,how,guessed,from,to,back,id,parent,sym,dso,caller,"
	"offcpu,blocked,preempted,untraced,kernel,filtered,lost";

/* table */
static const char *const kinds[] = {
	[CALL_BASE] = "base", [CALL_CALL] = "call", [CALL_TAIL] = "tail",
	[CALL_SIGNAL] = "signal", [CALL_INTERRUPT] = "interrupt",
	[CALL_SYSCALL] = "syscall", [CALL_CONTEXT] = "context",
};

/* table */
static const char *const ends[] = {
	[CALL_END_RET] = "ret", [CALL_END_TAIL] = "tail",
	[CALL_END_UNWOUND] = "unwound", [CALL_END_KERNEL] = "kernel",
	[CALL_END_LOST] = "lost", [CALL_END_EXEC] = "exec",
	[CALL_END_TRACE] = "trace",
};

/* The index of a column, -1: none of that name. */
static int find(const char *name, size_t len)
{
	for (int i = 0; i < C_N; i++)
		if (!strncmp(names[i], name, len) && !names[i][len])
			return i;
	return -1;
}

static int parse_fields(struct calls_sink *s, const char *fields,
			   struct aux_diag *diag)
{
	if (*fields == '+')
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"-F of calls takes no +LIST: rows are no tree; it takes %s",
				row_fields);
	while (*fields) {
		size_t len = strcspn(fields, ",");
		int col = find(fields, len);

		if (col < 0)
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"no column \"%.*s\"; -F takes: %s",
					(int)len, fields, row_fields);
		if (s->n_col == CALL_COLUMNS_MAX)
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"more than %d columns",
					CALL_COLUMNS_MAX);
		s->col[s->n_col++] = (uint8_t)col;
		s->has_event |= col == C_EVENT;
		fields += len + (fields[len] == ',');
	}
	if (!s->n_col)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"-F names no column; it takes: %s",
				row_fields);
	return 0;
}

struct row {
	const struct call_thread *t;
	const struct call_frame *f;
	struct call_count took;
	const char *event, *how;
	bool ended, guessed;
	bool knows_off;		/* time off the CPU is known */
};

static void put_name(const struct sink_env *env, struct call_func *f)
{
	const struct call_text *text = text_of(env, f);

	outbuf_put(env->out, text->text, text->n_name);
}

static void put_text(struct outbuf *out, const char *text)
{
	outbuf_clean(out, text && *text ? text : "-");
}

static void put_number(struct outbuf *out, uint64_t v, bool known)
{
	char buf[24], *p = buf;

	if (known)
		p = fmt_dec(p, v);
	else
		*p++ = '-';
	outbuf_put(out, buf, (size_t)(p - buf));
}

static void put_address(struct outbuf *out, uint64_t v)
{
	char buf[24], *p = buf;

	if (v)
		p = fmt_hex(p, v);
	else
		*p++ = '-';
	outbuf_put(out, buf, (size_t)(p - buf));
}

/* "-" where no time is known: 0 is not a time. */
static void put_time(struct outbuf *out, uint64_t ns)
{
	char buf[40], *p = buf;

	if (ns)
		p = fmt_time(p, ns);
	else
		*p++ = '-';
	outbuf_put(out, buf, (size_t)(p - buf));
}

/* Columns that tell of code. */
static void put_code(const struct row *r, const struct sink_env *env,
		     enum call_column col)
{
	const struct call_frame *f = r->f;
	struct outbuf *out = env->out;

	switch (col) {
	case C_SYM:
		put_name(env, f->func);
		return;
	case C_CALLER:
		if (r->t->depth > 1)
			put_name(env, f[-1].func);
		else
			outbuf_put(out, "-", 1);
		return;
	case C_DSO:
		put_text(out, f->func->dso);
		return;
	case C_FROM:
		put_address(out, f->from);
		return;
	case C_TO:
		put_address(out, f->to);
		return;
	default:
		put_address(out, f->back);
	}
}

/* Columns of numbers; of a call that has not ended most are "-". */
static void put_count(const struct row *r, struct outbuf *out,
		      enum call_column col)
{
	struct call_count own = call_minus(r->took, r->f->children);
	const struct call_thread *t = r->t;
	bool away = r->ended && t->now.ns && r->knows_off;

	switch (col) {
	case C_DUR:
		put_number(out, r->took.ns, r->ended && t->now.ns);
		return;
	case C_SELF:
		put_number(out, call_self_ns(&own), r->ended && t->now.ns);
		return;
	case C_OFF_CPU:
		put_number(out, own.off_ns, away);
		return;
	case C_BLOCKED:
		put_number(out, own.blocked_ns, away);
		return;
	case C_PREEMPTED:
		put_number(out, own.preempted_ns, away);
		return;
	case C_UNTRACED:
		put_number(out, own.untraced_ns, r->ended && t->now.ns);
		return;
	case C_KERNEL:
		put_number(out, own.kernel_ns, r->ended && t->now.ns);
		return;
	case C_FILTERED:
		put_number(out, own.filtered_ns, r->ended && t->now.ns);
		return;
	case C_LOST:
		put_number(out, own.lost_ns, r->ended && t->now.ns);
		return;
	case C_INSNS:
		put_number(out, r->took.insns, r->ended);
		return;
	case C_OWN:
		put_number(out, own.insns, r->ended);
		return;
	case C_BRANCHES:
		put_number(out, r->took.branches, r->ended);
		return;
	case C_CYCLES:
		put_number(out, r->took.cycles, r->ended && t->now.cycles);
		return;
	case C_DEPTH:
		put_number(out, t->depth, true);
		return;
	case C_STACK:
		put_number(out, t->context, true);
		return;
	case C_SERIAL:
		put_number(out, r->f->serial, true);
		return;
	default:
		put_number(out, t->depth > 1 ? r->f[-1].serial : 0, true);
	}
}

static void put_column(const struct calls_sink *s, const struct row *r,
		       enum call_column col)
{
	const struct sink_host *host = s->env.host;
	struct outbuf *out = s->env.out;

	switch (col) {
	case C_EVENT:
		outbuf_str(out, r->event);
		return;
	case C_PID:
		outbuf_printf(out, "%d", (int32_t)r->t->pid);
		return;
	case C_TID:
		outbuf_printf(out, "%d", (int32_t)r->t->tid);
		return;
	case C_COMM:
		put_text(out, host->comm ? host->comm(host->priv, r->t->tid,
						      r->f->at.ns) : NULL);
		return;
	case C_TIME:
		put_time(out, s->has_event ? r->t->now.ns : r->f->at.ns);
		return;
	case C_END:
		put_time(out, r->ended ? r->t->now.ns : 0);
		return;
	case C_KIND:
		outbuf_str(out, kinds[r->f->kind]);
		return;
	case C_HOW:
		put_text(out, r->how);
		return;
	case C_GUESSED:
		outbuf_put(out, r->guessed ? "1" : "0", 1);
		return;
	case C_FROM: case C_TO: case C_BACK: case C_SYM: case C_DSO:
	case C_CALLER:
		put_code(r, &s->env, col);
		return;
	default:
		put_count(r, out, col);
	}
}

static bool has_column(const struct calls_sink *s, enum call_column from,
		       enum call_column to)
{
	for (unsigned i = 0; i < s->n_col; i++)
		if (s->col[i] >= from && s->col[i] <= to)
			return true;
	return false;
}

/* Why columns have nothing but "-". */
static void say_unknown(const struct calls_sink *s)
{
	bool off = has_column(s, C_OFF_CPU, C_PREEMPTED);
	const char *what = "";

	if (!s->timed && (off || has_column(s, C_TIME, C_SELF)))
		what = "the trace has no times: record them with tsc (Intel PT) or timestamp "
		       "(CoreSight)";
	else if (!s->counted && has_column(s, C_CYCLES, C_CYCLES))
		what = "the trace counts no cycles: record them with cyc (Intel PT) or cycacc "
		       "(CoreSight)";
	else if (off && !s->env.host->off_cpu)
		what = "the recording does not say when a thread was off the CPU: it has no "
		       "SWITCH records";
	if (s->env.report->n_lines)
		snprintf(s->env.report->note, sizeof(s->env.report->note), "%s", what);
}

/* 1: the limit is reached. */
static int put_row(struct calls_sink *s, const struct row *r)
{
	s->counted |= r->ended && r->t->now.cycles;
	s->timed |= r->t->now.ns != 0;
	for (unsigned i = 0; i < s->n_col; i++) {
		if (i)
			outbuf_put(s->env.out, " ", 1);
		put_column(s, r, s->col[i]);
	}
	outbuf_put(s->env.out, "\n", 1);
	return count_line(s);
}

static int enter_row(void *priv, struct call_thread *t)
{
	struct calls_sink *s = priv;
	struct row r = { .t = t, .f = &t->frames[t->depth - 1],
			 .event = "enter" };
	int rc = count_inside(s, t, 1);

	r.guessed = r.f->flags & CALL_GUESSED;
	if (rc || !s->has_event || !is_shown(s, t))
		return rc;
	return put_row(s, &r);
}

static int leave_row(void *priv, struct call_thread *t, enum call_end end,
		     unsigned flags)
{
	struct calls_sink *s = priv;
	struct row r = { .t = t, .f = &t->frames[t->depth - 1],
			 .event = "leave", .how = ends[end], .ended = true,
			 .knows_off = s->env.host->off_cpu };
	int rc = 0;

	r.took = call_minus(t->now, r.f->at);
	r.guessed = (r.f->flags | flags) & CALL_GUESSED;
	if (is_shown(s, t))
		rc = put_row(s, &r);
	return rc ? rc : count_inside(s, t, -1);
}

static int event_row(void *priv, struct call_thread *t,
		     const struct aux_flow *ev)
{
	return put_payload(priv, t, ev);
}

static const struct calls_ops row_ops = {
	.enter = enter_row,
	.leave = leave_row,
	.gap = on_gap,
	.event = event_row,
};

/*
 * ---- the tree ----
 *
 * A frame is "name() {" where it begins and "}" where it ends, with how long it
 * took; one that called nothing (or nothing that is shown) is one line. A "}"
 * repeats the name unless its "{" was the last one printed.
 */

#define MAX_INDENT  60	/* levels; deeper ones stay there */
#define MAX_INLINED 16

/*
 * Text goes straight to where there is room for the longest line without its
 * name, its notes and its place. Pieces are copied whole and more (fmt_copy).
 */
#define LINE_ROOM (CALL_LEAD_MAX + 64 + 2 * MAX_INDENT + 2 * FMT_SLACK)

/* table */
static const char blanks[2 * (MAX_INDENT + 1) + FMT_SLACK + 1] =
	"                                                            "
	"                                                            "
	"                                  ";

/* Right aligned in so many columns. */
static char *put_right(char *p, const char *text, size_t n, size_t width)
{
	if (n < width)
		p = fmt_copy(p, blanks, width - n);
	memcpy(p, text, n);
	return p + n;
}

/* Three digits and two more, of the largest unit of which there is one: nine
 * characters. */
static char *put_duration(char *p, uint64_t ns)
{
	uint64_t hundredths;
	const char *unit;

	if (ns < 1000) {
		p = fmt_dec_right(p, ns, 6);
		memcpy(p, " ns", 3);
		return p + 3;
	}
	if (ns < 1000000) {
		hundredths = ns / 10;
		unit = " us";
	} else if (ns < 1000000000) {
		hundredths = ns / 10000;
		unit = " ms";
	} else {
		hundredths = ns / 10000000;
		unit = " s ";
	}
	p = fmt_dec_right(p, hundredths / 100, 3);
	*p++ = '.';
	*p++ = (char)('0' + hundredths / 10 % 10);
	*p++ = (char)('0' + hundredths % 10);
	memcpy(p, unit, 3);
	return p + 3;
}

/* "pid/tid", right aligned; the same for many lines. */
static void make_who(struct calls_sink *s, uint32_t pid, uint32_t tid)
{
	char who[48], *p = fmt_sdec(who, (int32_t)pid);

	*p++ = '/';
	p = fmt_sdec(p, (int32_t)tid);
	p = put_right(s->lead.text, who, (size_t)(p - who), 13);
	s->lead.n_who = (size_t)(p - s->lead.text);
	s->lead.pid = pid;
	s->lead.tid = tid;
}

/* The whole lead: thread or second are others than in the line before. */
static void make_lead(struct calls_sink *s, uint32_t pid, uint32_t tid,
		      uint64_t ns)
{
	char when[48], *p = when;

	if (!s->lead.n || s->lead.pid != pid || s->lead.tid != tid)
		make_who(s, pid, tid);
	*p++ = ' ';
	if (ns)
		p = fmt_time(p, ns);
	else
		*p++ = '-';
	p = put_right(s->lead.text + s->lead.n_who, when, (size_t)(p - when),
		      18);
	memcpy(p, "  ", 2);
	s->lead.n = (size_t)(p + 2 - s->lead.text);
	s->lead.ns = ns;
	s->lead.second = ns - ns % 1000000000;
}

/* Within the same second of the same thread only the nine digits of the
 * fraction are written again: the lead ends in them and two blanks. */
static inline char *put_lead(struct calls_sink *s, char *p, uint32_t pid,
			     uint32_t tid, uint64_t ns)
{
	uint64_t nanos = ns - s->lead.second;

	if (s->lead.tid != tid || s->lead.pid != pid || !s->lead.n || !ns ||
	    !s->lead.ns || nanos >= 1000000000) {
		make_lead(s, pid, tid, ns);
	} else if (s->lead.ns != ns) {
		fmt_nanos(s->lead.text + s->lead.n - 11, (uint32_t)nanos);
		s->lead.ns = ns;
	}
	return fmt_copy(p, s->lead.text, s->lead.n);
}

/* How long it took, by the clock and in instructions. timed: the begin has a
 * time. */
static char *put_took(const struct calls_sink *s, char *p, uint64_t ns, bool timed,
		      uint64_t insns)
{
	if (timed && (ns < s->env.resolution || !ns))
		p = fmt_copy(p, s->least, 9);
	else
		p = timed ? put_duration(p, ns) : fmt_copy(p, blanks, 9);
	*p = ' ';
	if (insns < 10000000000)
		return fmt_dec_right(p, insns, 11);
	return fmt_dec(p + 1, insns);
}

static char *put_indent(char *p, uint32_t depth)
{
	uint32_t n = depth <= MAX_INDENT ? depth : MAX_INDENT + 1;

	return fmt_copy(p, blanks, 2 * n);
}

/* table */
static const char *const kind_notes[] = {
	[CALL_BASE] = "already runs",
	[CALL_TAIL] = "by a jump",
	[CALL_SIGNAL] = "signal",
	[CALL_INTERRUPT] = "interrupt",
	[CALL_SYSCALL] = "system call",
	[CALL_CONTEXT] = "new stack",
};

/* table */
static const char *const end_notes[] = {
	[CALL_END_TAIL] = "jumps on",
	[CALL_END_UNWOUND] = "unwound",
	[CALL_END_KERNEL] = "to user code",
	[CALL_END_LOST] = "lost in a gap",
	[CALL_END_EXEC] = "exec",
	[CALL_END_TRACE] = "the trace ends",
};

static void put_notes(struct outbuf *out, const char *a, const char *b,
		      bool guessed)
{
	const char *sep = "  # ";

	if (a) {
		outbuf_str(out, sep);
		outbuf_str(out, a);
		sep = ", ";
	}
	if (b) {
		outbuf_str(out, sep);
		outbuf_str(out, b);
		sep = ", ";
	}
	if (guessed) {
		outbuf_str(out, sep);
		outbuf_str(out, "guessed");
	}
}

/* The place of the call: what was inlined there, its source line. */
static void put_site(const struct calls_sink *s, struct outbuf *out,
		     const struct call_begin *f)
{
	const struct sink_host *host = s->env.host;
	struct inline_frame in[MAX_INLINED];
	struct source_line line;
	int n = 0;

	if (!f->from || !f->space)
		return;
	if (s->config.inlines && host->inlines)
		n = host->inlines(host->priv, f->space, f->from, in, MAX_INLINED);
	for (int i = 0; i + 1 < n && i + 1 < MAX_INLINED; i++) {
		outbuf_str(out, i ? ", in " : "  <- ");
		outbuf_clean(out, in[i].name ? in[i].name : "?");
		outbuf_str(out, " (inlined)");
	}
	if (!s->config.source || !host->line ||
	    host->line(host->priv, f->space, f->from, &line) || !line.file)
		return;
	outbuf_str(out, "  ");
	outbuf_clean(out, line.file);
	outbuf_printf(out, ":%u", line.line);
}

static void put_header(struct calls_sink *s)
{
	if (!s->started)
		outbuf_str(s->env.out,
			   "#    pid/tid              time"
			   "   duration instructions  call\n");
	s->started = true;
}

/* The rest of a line: its notes, and where it was called from (NULL: it
 * ends). */
static inline int end_line(struct calls_sink *s, const struct call_begin *begin,
		    enum call_end end, bool guessed)
{
	struct outbuf *out = s->env.out;
	const char *how = begin ? kind_notes[begin->kind] : NULL;

	if (how || end_notes[end] || guessed)
		put_notes(out, how, end_notes[end], guessed);
	if (begin && (s->config.inlines || s->config.source))
		put_site(s, out, begin);
	outbuf_put(out, "\n", 1);
	return count_line(s);
}

/* The begin that is held back did call something: its line is printed now. */
static int put_open(struct calls_sink *s)
{
	struct call_begin *f = &s->open;
	const struct call_text *text;
	char *p;

	if (!f->serial)
		return 0;
	put_header(s);
	text = text_of(&s->env, f->func);
	p = outbuf_room(s->env.out, LINE_ROOM + text->n);
	if (p) {
		p = put_lead(s, p, f->pid, f->tid, f->ns);
		p = fmt_copy(p, blanks, 20);
		p = put_indent(p, f->depth);
		p = fmt_copy(p, text->text, text->n);
		memcpy(p, " {", 2);
		s->env.out->p = p + 2;
	}
	s->last_serial = f->serial;
	f->serial = 0;
	return end_line(s, f, CALL_END_RET, f->flags & CALL_GUESSED);
}

/* Prints the begin that was held back, and holds this one. */
static int enter_tree(void *priv, struct call_thread *t)
{
	struct calls_sink *s = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];
	int rc = count_inside(s, t, 1);

	if (rc || !is_shown(s, t))
		return rc;
	rc = put_open(s);
	s->open = (struct call_begin){
		.serial = f->serial, .func = f->func, .from = f->from,
		.ns = f->at.ns, .space = t->ctx->space, .pid = t->pid,
		.tid = t->tid, .depth = depth_of(s, t),
		.kind = f->kind, .flags = f->flags,
	};
	return rc;
}

/* A call that called nothing: all of it in one line. NULL: out of memory, which
 * outbuf keeps. */
static char *put_leaf(struct calls_sink *s, const struct call_thread *t,
		      const struct call_frame *f, uint32_t depth)
{
	const struct call_text *text = text_of(&s->env, f->func);
	char *p = outbuf_room(s->env.out, LINE_ROOM + text->n);

	if (!p)
		return NULL;
	p = put_lead(s, p, t->pid, t->tid, f->at.ns);
	p = put_took(s, p, t->now.ns - f->at.ns, f->at.ns,
		     t->now.insns - f->at.insns);
	p = put_indent(p, depth);
	return fmt_copy(p, text->text, text->n);
}

/* The end of one whose begin is above; its name, if that is far. */
static char *put_end(struct calls_sink *s, const struct call_thread *t,
		     const struct call_frame *f, uint32_t depth)
{
	const struct call_text *text = text_of(&s->env, f->func);
	char *p = outbuf_room(s->env.out, LINE_ROOM + text->n);

	if (!p)
		return NULL;
	p = put_lead(s, p, t->pid, t->tid, t->now.ns);
	p = put_took(s, p, t->now.ns - f->at.ns, t->now.ns,
		     t->now.insns - f->at.insns);
	p = put_indent(p, depth);
	*p++ = '}';
	if (f->serial == s->last_serial)
		return p;
	*p++ = ' ';
	return fmt_copy(p, text->text, text->n_name);
}

/* Off CPU in the frame itself. */
static inline void put_off_cpu(struct calls_sink *s,
			       const struct call_thread *t,
			       const struct call_frame *f)
{
	uint64_t off = t->now.off_ns - f->at.off_ns - f->children.off_ns;
	struct call_count own;
	char text[FIND_OFF_TEXT];

	if (!off)
		return;
	own = call_minus(call_minus(t->now, f->at), f->children);
	outbuf_printf(s->env.out, "  # off CPU %s", find_off_text(text, &own));
}

/* The filters are asked before the frame is counted off: they look at the stack
 * with it. */
static int leave_tree(void *priv, struct call_thread *t, enum call_end end,
		      unsigned flags)
{
	struct calls_sink *s = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];
	uint32_t depth = depth_of(s, t);
	bool leaf = s->open.serial == f->serial, shown = is_shown(s, t);
	int rc = count_inside(s, t, -1);
	char *p;

	if (rc || !shown)
		return rc;
	s->n_still += end == CALL_END_TRACE;
	if (!leaf)
		rc = put_open(s);
	if (rc)
		return rc;
	put_header(s);
	p = leaf ? put_leaf(s, t, f, depth) : put_end(s, t, f, depth);
	if (p)
		s->env.out->p = p;
	put_off_cpu(s, t, f);
	s->open.serial = 0;
	return end_line(s, leaf ? &s->open : NULL, end,
			(f->flags | flags) & CALL_GUESSED);
}

/* A thread switched to another of its stacks (a coroutine, a signal stack). */
static int turn_tree(void *priv, struct call_thread *t, uint32_t from)
{
	struct calls_sink *s = priv;
	int rc = put_open(s);

	if (rc || s->env.symbol)
		return rc;
	put_header(s);
	outbuf_printf(s->env.out,
		      "# tid %d goes on in stack %u (from stack %u)\n",
		      (int32_t)t->tid, t->context, from);
	return 0;
}

static int gap_tree(void *priv, struct call_thread *t,
		    const struct aux_flow *ev)
{
	struct calls_sink *s = priv;
	int rc = put_open(s);

	if (rc)
		return rc;
	put_header(s);
	return on_gap(s, t, ev);
}

static int event_tree(void *priv, struct call_thread *t,
		      const struct aux_flow *ev)
{
	struct calls_sink *s = priv;
	int rc;

	if (ev->kind != AUX_FLOW_PAYLOAD)
		return 0;
	rc = put_open(s);
	if (rc)
		return rc;
	put_header(s);
	return put_payload(s, t, ev);
}

static const struct calls_ops tree_ops = {
	.enter = enter_tree,
	.leave = leave_tree,
	.turn = turn_tree,
	.gap = gap_tree,
	.event = event_tree,
};

/* Frames that ran when the trace ended have no end; how many is said. */
static int finish_tree(struct calls_sink *s)
{
	if (s->n_still)
		outbuf_printf(s->env.out,
			      "# %llu calls had not ended when the trace did\n",
			      (unsigned long long)s->n_still);
	return 0;
}

static void close_calls(void *sink)
{
	struct calls_sink *s = sink;
	struct call_view *v, *next;

	if (!s)
		return;
	for (size_t i = 0; s->calls && i < calls_n_funcs(s->calls); i++)
		free(calls_func(s->calls, (uint32_t)i)->user);
	calls_free(s->calls);
	for (v = s->views; v; v = next) {
		next = v->next;
		free(v);
	}
	free(s->last.v);
	free(s);
}

/* "<320 ns", in the nine columns of a duration. */
static void make_least(struct calls_sink *s)
{
	char text[40];

	find_took_text(text, FIND_BY_TIME, 0, s->env.resolution);
	put_right(s->least, text, strnlen(text, 9), 9);
}

static int open_calls(void **sink, const struct sink_env *env,
		      const void *options, struct aux_diag *diag)
{
	const struct calls_config *config = options;
	struct calls_sink *s = calloc(1, sizeof(*s));
	unsigned flags = config->stubs ? CALLS_KEEPS_STUBS : 0;
	int err = 0;

	*sink = NULL;
	if (!s)
		return -AUX_E_NOMEM;
	s->env = *env;
	make_least(s);
	s->config = *config;
	s->rows = config->fields;
	if (s->rows)
		s->env.width = 0;	/* for programs */
	if (s->rows)
		err = parse_fields(s, config->fields, diag);
	if (!err)
		err = calls_new(&s->calls, env->host, flags,
				s->rows ? &row_ops : &tree_ops, s);
	if (err) {
		close_calls(s);
		return err;
	}
	*sink = s;
	return 0;
}

static int flow_calls(void *sink, const struct flow_ctx *ctx,
		      const struct aux_flow *ev, size_t n)
{
	struct calls_sink *s = sink;
	uint64_t *last = last_ip_of(&s->last, ctx->stream);
	int rc;

	if (!last)
		return -AUX_E_NOMEM;
	/* a GAP is the last event of its batch */
	for (size_t i = n; i > 0; i--) {
		const struct aux_flow *e = &ev[i - 1];

		if (e->kind == AUX_FLOW_RANGE)
			*last = e->range.last;
		else if (e->kind == AUX_FLOW_PATH)
			*last = flow_last_ip(e);
		else
			continue;
		break;
	}
	s->ran = *last;
	rc = calls_flow(s->calls, ctx, ev, n);
	s->env.report->n_insns = calls_n_insns(s->calls);
	if (!rc && outbuf_failed(s->env.out))
		rc = -AUX_E_IO;
	return rc;
}

static int finish_calls(void *sink, struct aux_diag *diag)
{
	struct calls_sink *s = sink;
	uint64_t limit = s->config.limit;
	int rc;

	(void)diag;
	if (!limit || s->env.report->n_lines < limit) {
		rc = calls_finish(s->calls);
		if (rc < 0)
			return rc;
		if (!s->rows)
			return finish_tree(s);
	}
	if (s->rows)
		say_unknown(s);
	return 0;
}

/* table */
static const struct option_row calls_options[] = {
	SINK_ROW_FIELDS(struct calls_config),
	SINK_LIMIT(struct calls_config, SINK_LIMIT_LINES),
	{ .name = "max-depth", .arg = "N", .max = INT32_MAX,
	  .zero = "0 would show nothing",
	  .help = "leave out calls deeper than N; their callers keep their time",
	  OPTION_NUMBER(struct calls_config, max_depth) },
	{ .name = "inline",
	  .help = "after each call, the functions inlined where it was made",
	  OPTION_FLAG(struct calls_config, inlines) },
	{ .name = "source",
	  .help = "source lines (needs debug information)",
	  OPTION_FLAG(struct calls_config, source) },
	{ .name = "stubs",
	  .help = "show PLT entries and thunks as calls of their own",
	  OPTION_FLAG(struct calls_config, stubs) },
	{ .name = NULL },
};

const struct sink_ops sink_calls = {
	.name = "calls",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_TAKES_TIMES,
	.fields = row_fields,
	.options = calls_options,
	.config_size = sizeof(struct calls_config),
	.open = open_calls,
	.flow = flow_calls,
	.finish = finish_calls,
	.close = close_calls,
};
