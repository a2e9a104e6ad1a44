/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify: a difference for people: what both sides did last, what each does
 * next, and the packets there. Showing consumes events of both sides, within
 * their chunk, so nothing is compared after it but from the next chunk on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clean.h"
#include "common/outbuf.h"
#include "decode/lib/elf/insn.h"
#include "decode/lib/packet/packet.h"
#include "decode/compare/impl.h"

#define INSNS	8	/* before, and after */
#define LINES	20
#define WALK	100000	/* instructions of one RANGE, at most */
#define BEFORE	8	/* packets */
#define AFTER	8
#define BYTES	64	/* of trace without packets, before and after */

/* By enum aux_range_end. */
static const char *const ends[] = {
	"", "taken", "not taken", "jump", "call", "return", "indirect jump",
	"indirect call", "to the kernel", "far", "taken or not"
};

static const char *end_text(uint8_t what)
{
	return what < sizeof(ends) / sizeof(ends[0]) ? ends[what] : "?";
}

/* A line without its fields' names: range.first and range.last overlay the two
 * words of all kinds (union in struct aux_flow). */
void verify_event_text(char *buf, size_t len, const struct aux_flow *ev)
{
	static const char *const names[] = { "end", "RANGE", "ASYNC",
		"TRACE_ON", "TRACE_OFF", "TIME", "CONTEXT", "TX", "PAYLOAD",
		"POWER", "EVENT", "GAP", "PATH" };
	const char *name = ev->kind < sizeof(names) / sizeof(names[0]) ?
				   names[ev->kind] : "?";
	uint64_t a = ev->range.first, b = ev->range.last;

	if (ev->kind == VERIFY_END)
		snprintf(buf, len, "the end");
	else if (ev->kind == AUX_FLOW_TIME)
		snprintf(buf, len, "TIME tsc %#" PRIx64 ", %" PRIu64 " ns", b,
			 a);
	else if (ev->kind == AUX_FLOW_TRACE_ON ||
		 ev->kind == AUX_FLOW_TRACE_OFF || ev->kind == AUX_FLOW_TX ||
		 ev->kind == AUX_FLOW_GAP)
		snprintf(buf, len, "%s %u%s%#" PRIx64, name, ev->what,
			 ev->flags & AUX_FLOW_HAS_IP ? " at " : " no ip ", a);
	else
		snprintf(buf, len, "%s %u%s%#" PRIx64 " %#" PRIx64, name,
			 ev->what, ev->flags & AUX_FLOW_HAS_IP ? " " : " (no ip) ",
			 a, b);
}

/* ---- instructions ---- */

struct view {
	struct verify *v;
	struct outbuf *out;
	struct disasm *d;
};

/* Prints one instruction, or, if silent, only finds its length in bytes, which
 * is returned; 0: unknown, and nothing after it can be shown. */
static int show_insn(struct view *w, const struct space *space, uint64_t ip,
		     unsigned mode, bool silent, const char *note)
{
	struct codeview *cv = session_codeview(w->v->s);
	struct aux_code code;
	struct symbol sym;
	char text[160];
	int size = 0;

	if (codeview_code(cv, space, ip, &code) == 0)
		size = disasm_text(w->d, code.bytes + (ip - code.start),
				   (size_t)(code.end - ip), ip, mode,
				   silent ? NULL : text, sizeof(text));
	if (silent)
		return size;
	outbuf_printf(w->out, "    %12" PRIx64 "  %-36s", ip,
		      size ? text : "(no code)");
	if (codeview_symbol(cv, space, ip, &sym) == 0 && sym.name)
		outbuf_clean_printf(w->out, " %s+%#" PRIx64, sym.name,
			      ip - sym.start);
	outbuf_printf(w->out, "%s%s\n", *note ? "  ; " : "", note);
	return size;
}

/* The instructions of a RANGE after the first skip ones, at most max. Returns
 * how many were shown. Those skipped are disassembled, too: there is no other
 * way to their length. */
static uint64_t show_range(struct view *w, const struct space *space,
			   const struct aux_flow *ev, uint64_t skip,
			   uint64_t max)
{
	uint64_t ip = ev->range.first, i, shown = 0;

	for (i = 0; i < ev->n && i < WALK && shown < max; i++) {
		bool last = i + 1 == ev->n;
		int size = show_insn(w, space, last ? ev->range.last : ip,
				     ev->flags, i < skip,
				     last ? end_text(ev->what) : "");

		shown += i >= skip;
		if (!size)
			break;
		ip += (unsigned)size;
	}
	return shown;
}

static void show_line(struct view *w, const struct aux_flow *ev)
{
	char text[120];

	verify_event_text(text, sizeof(text), ev);
	outbuf_printf(w->out, "    %#" PRIx64 ": %s\n", ev->offset, text);
}

/* The last instructions and events that both sides agreed on. */
static void show_history(struct view *w)
{
	const struct verify *v = w->v;
	uint64_t n = v->n_history < VERIFY_HISTORY ? v->n_history :
						     VERIFY_HISTORY;
	uint64_t i = v->n_history, total = 0, skip = 0;

	while (n && total < INSNS) {
		const struct aux_flow *ev = &v->history[--i % VERIFY_HISTORY];

		n--;
		total += ev->kind == AUX_FLOW_RANGE ? ev->n : 0;
	}
	outbuf_str(w->out, "  both:\n");
	if (total > INSNS)
		skip = total - INSNS;
	for (; i < v->n_history; i++, skip = 0) {
		const struct aux_flow *ev = &v->history[i % VERIFY_HISTORY];

		if (ev->kind == AUX_FLOW_RANGE)
			show_range(w, v->spaces[i % VERIFY_HISTORY], ev, skip,
				   UINT64_MAX);
		else
			show_line(w, ev);
	}
}

/* What one side does next, which the other does not. */
static int show_next(struct view *w, struct verify_side *s)
{
	uint64_t place = s->place, n, insns = 0;
	int rc;

	outbuf_printf(w->out, "  %s:\n", s->name);
	for (unsigned i = 0; i < s->n_pending; i++)
		show_line(w, &s->pending[i]);
	for (unsigned i = 0; i < LINES && insns < INSNS; i++) {
		if (s->head.kind == AUX_FLOW_RANGE) {
			n = show_range(w, s->cur.m.view.ctx.space, &s->head, 0,
				       INSNS - insns);
			insns += n;
			if (n < s->head.n)
				break;
		} else {
			show_line(w, &s->head);
		}
		if (s->head.kind == VERIFY_END)
			break;
		rc = verify_next(s);
		if (rc < 0)
			return rc;
		if (s->place != place)
			break;
	}
	return 0;
}

/* ---- packets ---- */

struct line {
	uint64_t offset;
	char text[80];
};

static void show_packet(struct view *w, const struct line *l, uint64_t offset)
{
	outbuf_printf(w->out, "    %#" PRIx64 ": %s%s\n", l->offset, l->text,
		      l->offset == offset ? "  <" : "");
}

/* BEFORE packets that begin before offset, and AFTER ones from it on. Packets
 * cannot be read backwards: all of the chunk up to there is read, with the last
 * ones in a ring. */
static void show_packets(struct view *w, const struct aux_chunk *c,
			 uint64_t offset)
{
	const uint8_t *end = c->data + c->len, *p = ptpkt_find_psb(c->data, end);
	struct line before[BEFORE], l;
	unsigned block = 0, n = 0, after = 0;
	struct ptpkt pkt;

	while (p && p < end && after < AFTER) {
		int size = ptpkt_next(p, end, &block, &pkt);

		l.offset = c->stream_offset + (uint64_t)(p - c->data);
		p += size > 0 ? size : 1;
		if (size <= 0) {
			p = ptpkt_find_psb(p, end);
			block = 0;
			snprintf(l.text, sizeof(l.text), "no packet");
		} else if (pkt.type == PTPKT_PAD) {
			continue;
		} else {
			ptpkt_text(l.text, sizeof(l.text), &pkt);
		}
		if (l.offset < offset) {
			before[n++ % BEFORE] = l;
			continue;
		}
		for (unsigned i = n > BEFORE ? n - BEFORE : 0; i < n; i++)
			show_packet(w, &before[i % BEFORE], offset);
		n = 0;
		show_packet(w, &l, offset);
		after++;
	}
	for (unsigned i = n > BEFORE ? n - BEFORE : 0; i < n; i++)
		show_packet(w, &before[i % BEFORE], offset);
}

/* The chunk's bytes around a place in the stream, by bisection: unpacked bytes
 * have no offset of their own, but they are in order. */
static void show_bytes(struct view *w, struct verify_side *s, uint64_t offset)
{
	const struct aux_chunk *c = &s->cur.it.chunk;
	uint64_t low = 0, high = c->len, mid, from;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (chunk_iter_place(&s->cur.it, c->stream_offset + mid) <
		    offset)
			low = mid + 1;
		else
			high = mid;
	}
	from = low > BYTES ? low - BYTES : 0;
	for (uint64_t i = from; i < c->len && i < low + BYTES; i++) {
		if ((i - from) % 16 == 0)
			outbuf_printf(w->out, "%s    %#" PRIx64 ":",
				      i == from ? "" : "\n",
				      chunk_iter_place(&s->cur.it,
						       c->stream_offset + i));
		outbuf_printf(w->out, "%s%02x", i == low ? " <" : " ",
			      c->data[i]);
	}
	outbuf_str(w->out, "\n");
}

static void show_trace(struct view *w, uint64_t offset)
{
	struct verify_side *s = &w->v->side[0];
	const struct aux_chunk *c = &s->cur.it.chunk;

	if (!c->data)
		return;
	outbuf_str(w->out, "  trace:\n");
	if (s->cur.source || session_chunks(w->v->s)->trace_type != AUX_TRACE_INTEL_PT)
		show_bytes(w, s, offset);
	else
		show_packets(w, c, offset);
}

/* Where a side stands: at an event without a partner, else at its next one. */
static uint64_t offset_of(const struct verify_side *s)
{
	return s->n_pending ? s->pending[0].offset :
	       s->head.kind == VERIFY_END ? UINT64_MAX : s->head.offset;
}

int verify_show(struct verify *v)
{
	struct view w = { .v = v, .out = v->config->out };
	uint64_t a = offset_of(&v->side[0]), b = offset_of(&v->side[1]);
	const struct flow_ctx *ctx = &v->side[1].cur.m.view.ctx;
	uint64_t offset = a < b ? a : b;
	int rc = disasm_new(&w.d, DISASM_INTEL, v->diag);

	if (rc < 0)
		return rc;
	if (offset == UINT64_MAX)
		offset = v->history[(v->n_history - 1) % VERIFY_HISTORY].offset;
	outbuf_printf(w.out, "difference: stream %u, cpu %d, pid %d, tid %d, "
			     "offset %#" PRIx64 ", instruction %" PRIu64
			     ": %s\n", ctx->stream, ctx->cpu, (int)ctx->pid,
		      (int)ctx->tid, offset, v->n_insns + 1, v->text);
	show_history(&w);
	show_trace(&w, offset);
	rc = show_next(&w, &v->side[0]);
	if (rc >= 0)
		rc = show_next(&w, &v->side[1]);
	disasm_free(w.d);
	return rc;
}
