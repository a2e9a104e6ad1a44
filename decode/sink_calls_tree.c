/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_calls_tree: a tree for reading. A frame is "name() {" where it begins and
 * "}" where it ends, with how long it took; one that called nothing (or nothing
 * that is shown) is one line. Lines are in the order of time: a begin is held
 * back until the next event says which of the two it is.
 */
#include <string.h>

#include "sink_calls.h"
#include "sourceline.h"

#define MAX_INDENT  60	/* levels; deeper ones stay there */
#define MAX_INLINED 16

/* Right aligned in so many columns. */
static void put_right(struct outbuf *out, const char *text, size_t n, size_t width)
{
	static const char blanks[] = "                    ";

	if (n < width)
		outbuf_put(out, blanks, width - n);
	outbuf_put(out, text, n);
}

static void put_duration(struct outbuf *out, uint64_t ns)
{
	static const char *const units[] = { " ns", " us", " ms", " s " };
	uint64_t unit = 1, hundredths;
	char buf[32], *p;
	unsigned i = 0;

	for (; i < 3 && ns / unit >= 1000; i++)
		unit *= 1000;
	p = fmt_dec(buf, ns / unit);
	if (i) {
		hundredths = ns % unit * 100 / unit;
		*p++ = '.';
		*p++ = (char)('0' + hundredths / 10);
		*p++ = (char)('0' + hundredths % 10);
	}
	put_right(out, buf, (size_t)(p - buf), 6);
	outbuf_put(out, units[i], 3);
}

/* Who and when, then how long, or blanks for it. */
static void put_lead(struct calls_sink *s, uint32_t pid, uint32_t tid,
		     uint64_t ns, const struct call_count *took)
{
	struct outbuf *out = s->config.out;
	char buf[64], *p;

	if (!s->who_len || s->who_pid != pid || s->who_tid != tid) {
		p = fmt_sdec(s->who, (int32_t)pid);
		*p++ = '/';
		p = fmt_sdec(p, (int32_t)tid);
		s->who_len = (size_t)(p - s->who);
		s->who_pid = pid;
		s->who_tid = tid;
	}
	put_right(out, s->who, s->who_len, 13);
	p = buf;
	*p++ = ' ';
	if (ns)
		p = fmt_time(p, ns);
	else
		*p++ = '-';
	put_right(out, buf, (size_t)(p - buf), 18);
	outbuf_put(out, "  ", 2);
	if (!took) {
		outbuf_put(out, "                    ", 20);
		return;
	}
	if (ns)
		put_duration(out, took->ns);
	else
		outbuf_put(out, "         ", 9);
	buf[0] = ' ';
	p = fmt_dec(buf + 1, took->insns);
	put_right(out, buf, (size_t)(p - buf), 11);
}

static void put_indent(struct outbuf *out, uint32_t depth)
{
	static const char blanks[2 * MAX_INDENT + 1] =
		"                                                            "
		"                                                            ";
	uint32_t n = depth - 1 < MAX_INDENT ? depth - 1 : MAX_INDENT;

	outbuf_put(out, "  ", 2);
	outbuf_put(out, blanks, 2 * n);
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

/* The place of the call: its source line, and what was inlined there. */
static void put_site(const struct calls_sink *s, struct outbuf *out,
		     const struct space *space, const struct call_frame *f)
{
	const struct sink_host *host = s->config.host;
	struct inline_frame in[MAX_INLINED];
	struct source_line line;
	int n = 0;

	if (!f->from || !space)
		return;
	if (s->config.inlines && host->inlines)
		n = host->inlines(host->priv, space, f->from, in, MAX_INLINED);
	for (int i = 0; i + 1 < n && i + 1 < MAX_INLINED; i++) {
		outbuf_str(out, i ? ", in " : "  <- ");
		column_clean(out, in[i].name ? in[i].name : "?");
		outbuf_str(out, " (inlined)");
	}
	if (!s->config.source || !host->line ||
	    host->line(host->priv, space, f->from, &line) || !line.file)
		return;
	outbuf_str(out, "  ");
	column_clean(out, line.file);
	outbuf_printf(out, ":%u", line.line);
}

static void put_header(struct calls_sink *s)
{
	if (!s->started)
		outbuf_str(s->config.out,
			   "#    pid/tid              time"
			   "   duration instructions  call\n");
	s->started = true;
}

/* A demangled name has its own. */
static void put_brackets(struct outbuf *out, const struct call_func *f)
{
	if (!f->name || f->name == f->raw || !strchr(f->name, '('))
		outbuf_put(out, "()", 2);
}

/* The begin that is held back: it did call something. */
static int put_open(struct calls_sink *s)
{
	const struct call_frame *f = &s->open;
	struct outbuf *out = s->config.out;

	if (!f->serial)
		return 0;
	put_header(s);
	put_lead(s, s->open_pid, s->open_tid, f->at.ns, NULL);
	put_indent(out, s->open_depth);
	calls_sink_name(out, f->func);
	put_brackets(out, f->func);
	outbuf_put(out, " {", 2);
	put_notes(out, kind_notes[f->kind], NULL, f->flags & CALL_GUESSED);
	put_site(s, out, s->open_space, f);
	outbuf_put(out, "\n", 1);
	s->last_serial = f->serial;
	s->open.serial = 0;
	return calls_sink_line(s);
}

static int enter_tree(void *priv, struct call_thread *t)
{
	struct calls_sink *s = priv;
	int rc = calls_sink_count(s, t, 1);

	if (rc || !calls_sink_shows(s, t))
		return rc;
	rc = put_open(s);
	s->open = t->frames[t->depth - 1];
	s->open_pid = t->pid;
	s->open_tid = t->tid;
	s->open_depth = calls_sink_depth(s, t);
	s->open_space = t->ctx->space;
	return rc;
}

static int leave_tree(void *priv, struct call_thread *t, enum call_end end,
		      unsigned flags)
{
	struct calls_sink *s = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];
	struct call_count took = call_minus(t->now, f->at);
	struct outbuf *out = s->config.out;
	uint32_t depth = calls_sink_depth(s, t);
	bool leaf = s->open.serial == f->serial, shown = calls_sink_shows(s, t);
	int rc = calls_sink_count(s, t, -1);

	if (rc || !shown)
		return rc;
	s->n_still += end == CALL_END_TRACE;
	if (!leaf)
		rc = put_open(s);
	if (rc)
		return rc;
	s->open.serial = 0;
	put_header(s);
	put_lead(s, t->pid, t->tid, leaf ? f->at.ns : t->now.ns, &took);
	put_indent(out, depth);
	if (!leaf)
		outbuf_put(out, "}", 1);
	if (!leaf && f->serial != s->last_serial)
		outbuf_put(out, " ", 1);
	if (leaf || f->serial != s->last_serial)
		calls_sink_name(out, f->func);
	if (leaf)
		put_brackets(out, f->func);
	put_notes(out, leaf ? kind_notes[f->kind] : NULL, end_notes[end],
		  (f->flags | flags) & CALL_GUESSED);
	if (leaf)
		put_site(s, out, s->open_space, f);
	outbuf_put(out, "\n", 1);
	return calls_sink_line(s);
}

static int turn_tree(void *priv, struct call_thread *t, uint32_t from)
{
	struct calls_sink *s = priv;
	int rc = put_open(s);

	if (rc || s->config.symbol)
		return rc;
	put_header(s);
	outbuf_printf(s->config.out,
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
	return calls_sink_gap(s, t, ev);
}

const struct calls_ops calls_tree_ops = {
	.enter = enter_tree,
	.leave = leave_tree,
	.turn = turn_tree,
	.gap = gap_tree,
};

int calls_tree_finish(struct calls_sink *s)
{
	if (s->n_still)
		outbuf_printf(s->config.out,
			      "# %llu calls had not ended when the trace did\n",
			      (unsigned long long)s->n_still);
	return 0;
}
