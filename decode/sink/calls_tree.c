/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_calls_tree: a tree for reading. A frame is "name() {" where it begins and
 * "}" where it ends, with how long it took; one that called nothing (or nothing
 * that is shown) is one line. Lines are in the order of time: a begin is held
 * back until the next event says which of the two it is.
 */
#include <string.h>

#include "decode/sink/calls.h"
#include "decode/lib/elf/sourceline.h"

#define MAX_INDENT  60	/* levels; deeper ones stay there */
#define MAX_INLINED 16

/*
 * Text goes straight to where there is room for the longest line without its name,
 * its notes and its place. Pieces are copied whole and more (fmt_copy).
 */
#define LINE_ROOM (CALL_LEAD_MAX + 64 + 2 * MAX_INDENT + 2 * FMT_SLACK)

/* table */
static const char blanks[2 * (MAX_INDENT + 1) + FMT_SLACK] =
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

/* Three digits and two more, of the largest unit of which there is one. */
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

/* Who and when. */
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

/* How long it took, by the clock and in instructions. */
static char *put_took(char *p, uint64_t ns, bool timed, uint64_t insns)
{
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

/* The place of the call: its source line, and what was inlined there. */
static void put_site(const struct calls_sink *s, struct outbuf *out,
		     const struct call_begin *f)
{
	const struct sink_host *host = s->config.host;
	struct inline_frame in[MAX_INLINED];
	struct source_line line;
	int n = 0;

	if (!f->from || !f->space)
		return;
	if (s->config.inlines && host->inlines)
		n = host->inlines(host->priv, f->space, f->from, in, MAX_INLINED);
	for (int i = 0; i + 1 < n && i + 1 < MAX_INLINED; i++) {
		outbuf_str(out, i ? ", in " : "  <- ");
		column_clean(out, in[i].name ? in[i].name : "?");
		outbuf_str(out, " (inlined)");
	}
	if (!s->config.source || !host->line ||
	    host->line(host->priv, f->space, f->from, &line) || !line.file)
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

/* The rest of a line: its notes, and where it was called from (NULL: it ends). */
static inline int end_line(struct calls_sink *s, const struct call_begin *begin,
		    enum call_end end, bool guessed)
{
	struct outbuf *out = s->config.out;
	const char *how = begin ? kind_notes[begin->kind] : NULL;

	if (how || end_notes[end] || guessed)
		put_notes(out, how, end_notes[end], guessed);
	if (begin && (s->config.inlines || s->config.source))
		put_site(s, out, begin);
	outbuf_put(out, "\n", 1);
	return calls_sink_line(s);
}

/* The begin that is held back: it did call something. */
static int put_open(struct calls_sink *s)
{
	struct call_begin *f = &s->open;
	const struct call_text *text;
	char *p;

	if (!f->serial)
		return 0;
	put_header(s);
	text = calls_sink_text(f->func);
	p = outbuf_room(s->config.out, LINE_ROOM + text->n);
	if (p) {
		p = put_lead(s, p, f->pid, f->tid, f->ns);
		p = fmt_copy(p, blanks, 20);
		p = put_indent(p, f->depth);
		p = fmt_copy(p, text->text, text->n);
		memcpy(p, " {", 2);
		s->config.out->p = p + 2;
	}
	s->last_serial = f->serial;
	f->serial = 0;
	return end_line(s, f, CALL_END_RET, f->flags & CALL_GUESSED);
}

static int enter_tree(void *priv, struct call_thread *t)
{
	struct calls_sink *s = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];
	int rc = calls_sink_count(s, t, 1);

	if (rc || !calls_sink_shows(s, t))
		return rc;
	rc = put_open(s);
	s->open = (struct call_begin){
		.serial = f->serial, .func = f->func, .from = f->from,
		.ns = f->at.ns, .space = t->ctx->space, .pid = t->pid,
		.tid = t->tid, .depth = calls_sink_depth(s, t),
		.kind = f->kind, .flags = f->flags,
	};
	return rc;
}

/* A call that called nothing: all of it in one line. */
static char *put_leaf(struct calls_sink *s, const struct call_thread *t,
		      const struct call_frame *f, uint32_t depth)
{
	const struct call_text *text = calls_sink_text(f->func);
	char *p = outbuf_room(s->config.out, LINE_ROOM + text->n);

	if (!p)
		return NULL;
	p = put_lead(s, p, t->pid, t->tid, f->at.ns);
	p = put_took(p, t->now.ns - f->at.ns, f->at.ns,
		     t->now.insns - f->at.insns);
	p = put_indent(p, depth);
	return fmt_copy(p, text->text, text->n);
}

/* The end of one whose begin is above; its name, if that is far. */
static char *put_end(struct calls_sink *s, const struct call_thread *t,
		     const struct call_frame *f, uint32_t depth)
{
	const struct call_text *text = calls_sink_text(f->func);
	char *p = outbuf_room(s->config.out, LINE_ROOM + text->n);

	if (!p)
		return NULL;
	p = put_lead(s, p, t->pid, t->tid, t->now.ns);
	p = put_took(p, t->now.ns - f->at.ns, t->now.ns,
		     t->now.insns - f->at.insns);
	p = put_indent(p, depth);
	*p++ = '}';
	if (f->serial == s->last_serial)
		return p;
	*p++ = ' ';
	return fmt_copy(p, text->text, text->n_name);
}

static int leave_tree(void *priv, struct call_thread *t, enum call_end end,
		      unsigned flags)
{
	struct calls_sink *s = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];
	uint32_t depth = calls_sink_depth(s, t);
	bool leaf = s->open.serial == f->serial, shown = calls_sink_shows(s, t);
	int rc = calls_sink_count(s, t, -1);
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
		s->config.out->p = p;
	s->open.serial = 0;
	return end_line(s, leaf ? &s->open : NULL, end,
			(f->flags | flags) & CALL_GUESSED);
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
