/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_calls_row: rows for programs, -F. A row for each call when it ends, so that
 * all is known of it; with the column "event" one where it begins ("enter") and
 * one where it ends ("leave"), in the order of the flow.
 */
#include <stdio.h>
#include <string.h>

#include "common/diag.h"

#include "decode/sink/calls.h"

enum call_column {
	C_EVENT, C_PID, C_TID, C_COMM, C_TIME, C_END, C_DUR, C_SELF, C_INSNS,
	C_OWN, C_BRANCHES, C_CYCLES, C_DEPTH, C_STACK, C_KIND, C_HOW, C_GUESSED,
	C_FROM, C_TO, C_BACK, C_SERIAL, C_PARENT, C_SYM, C_DSO, C_CALLER, C_N
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
	[C_CALLER] = "caller",
};
const char calls_row_fields[] =
	"event,pid,tid,comm,time,end,dur,self,insns,own,branches,cycles,depth,"
	"stack,kind,how,guessed,from,to,back,id,parent,sym,dso,caller";

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

static int find(const char *name, size_t len)
{
	for (int i = 0; i < C_N; i++)
		if (!strncmp(names[i], name, len) && !names[i][len])
			return i;
	return -1;
}

int calls_row_parse(struct calls_sink *s, const char *fields,
		    struct aux_diag *diag)
{
	if (*fields == '+')
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"-F of calls takes no +LIST: rows are no tree");
	while (*fields) {
		size_t len = strcspn(fields, ",");
		int col = find(fields, len);

		if (col < 0)
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"no column \"%.*s\"; -F takes: %s",
					(int)len, fields, calls_row_fields);
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
				calls_row_fields);
	return 0;
}

struct row {
	const struct call_thread *t;
	const struct call_frame *f;
	struct call_count took;
	const char *event, *how;
	bool ended, guessed;
};

static void put_name(struct outbuf *out, struct call_func *f)
{
	const struct call_text *text = calls_sink_text(f);

	outbuf_put(out, text->text, text->n_name);
}

static void put_text(struct outbuf *out, const char *text)
{
	column_clean(out, text && *text ? text : "-");
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

static void put_time(struct outbuf *out, uint64_t ns)
{
	char buf[40], *p = buf;

	if (ns)
		p = fmt_time(p, ns);
	else
		*p++ = '-';
	outbuf_put(out, buf, (size_t)(p - buf));
}

static void put_code(const struct row *r, struct outbuf *out,
		     enum call_column col)
{
	const struct call_frame *f = r->f;

	switch (col) {
	case C_SYM:
		put_name(out, f->func);
		return;
	case C_CALLER:
		if (r->t->depth > 1)
			put_name(out, f[-1].func);
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

static void put_count(const struct row *r, struct outbuf *out,
		      enum call_column col)
{
	const struct call_count *c = &r->f->children;
	const struct call_thread *t = r->t;

	switch (col) {
	case C_DUR:
		put_number(out, r->took.ns, r->ended && t->now.ns);
		return;
	case C_SELF:
		put_number(out, r->took.ns - c->ns, r->ended && t->now.ns);
		return;
	case C_INSNS:
		put_number(out, r->took.insns, r->ended);
		return;
	case C_OWN:
		put_number(out, r->took.insns - c->insns, r->ended);
		return;
	case C_BRANCHES:
		put_number(out, r->took.branches, r->ended);
		return;
	case C_CYCLES:
		put_number(out, r->took.cycles, r->ended);
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
	const struct sink_host *host = s->config.host;
	struct outbuf *out = s->config.out;

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
		put_code(r, out, col);
		return;
	default:
		put_count(r, out, col);
	}
}

static int put_row(struct calls_sink *s, const struct row *r)
{
	for (unsigned i = 0; i < s->n_col; i++) {
		if (i)
			outbuf_put(s->config.out, " ", 1);
		put_column(s, r, s->col[i]);
	}
	outbuf_put(s->config.out, "\n", 1);
	return calls_sink_line(s);
}

static int enter_row(void *priv, struct call_thread *t)
{
	struct calls_sink *s = priv;
	struct row r = { .t = t, .f = &t->frames[t->depth - 1],
			 .event = "enter" };
	int rc = calls_sink_count(s, t, 1);

	r.guessed = r.f->flags & CALL_GUESSED;
	if (rc || !s->has_event || !calls_sink_shows(s, t))
		return rc;
	return put_row(s, &r);
}

static int leave_row(void *priv, struct call_thread *t, enum call_end end,
		     unsigned flags)
{
	struct calls_sink *s = priv;
	struct row r = { .t = t, .f = &t->frames[t->depth - 1],
			 .event = "leave", .how = ends[end], .ended = true };
	int rc = 0;

	r.took = call_minus(t->now, r.f->at);
	r.guessed = (r.f->flags | flags) & CALL_GUESSED;
	if (calls_sink_shows(s, t))
		rc = put_row(s, &r);
	return rc ? rc : calls_sink_count(s, t, -1);
}

const struct calls_ops calls_row_ops = {
	.enter = enter_row,
	.leave = leave_row,
	.gap = calls_sink_gap,
};
