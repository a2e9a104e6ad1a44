/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_insn: one line per instruction.
 *
 * The lines of a range are rendered once and kept with it. What leads a line and
 * depends on who and when (cpu, tid, time) is patched into the kept text when it
 * changed since the range was last shown, and the whole is copied out.
 */
#include <stdlib.h>
#include <string.h>

#include "codeview.h"
#include "columns.h"
#include "disasm.h"
#include "outbuf.h"
#include "sink.h"
#include "walk.h"

#define MAX_INSN 15
#define MAX_TEXT 192 /* disassembly of one instruction */
#define FIELDS	 "cpu,pid,tid,time,comm,offset,ip,sym,dso,bytes,insn"

/* The lines of one range. */
struct lines {
	char *text;
	uint32_t *start; /* n + 1 offsets in text */
	uint32_t n; /* fewer than instructions with --symbol */
	uint32_t lead_len;
	uint64_t lead_serial;
	bool rendered;
};

struct insn {
	struct sink_config config;
	struct columns columns;
	struct walk *walk;
	struct disasm *disasm;
	struct lead lead;
	struct outbuf *scratch;
	struct last_ips last;
	bool needs_symbol;
	bool started;
};

static void drop_lines(void *user)
{
	struct lines *l = user;

	free(l->text);
	free(l->start);
}

static void close_insn(void *sink)
{
	struct insn *s = sink;

	if (!s)
		return;
	walk_free(s->walk);
	disasm_free(s->disasm);
	outbuf_free(s->lead.text);
	outbuf_free(s->scratch);
	free(s->last.v);
	free(s);
}

static int open_insn(void **sink, const struct sink_config *config,
		     struct aux_diag *diag)
{
	struct walk_config wc = { .host = config->host,
				  .user_size = sizeof(struct lines),
				  .drop = drop_lines };
	struct insn *s = calloc(1, sizeof(*s));
	int err;

	*sink = NULL;
	if (!s)
		return -AUX_E_NOMEM;
	s->config = *config;
	err = columns_parse(&s->columns, config->fields, FIELDS,
			    "cpu,pid/tid,time,ip,sym,insn", diag);
	s->needs_symbol =
		config->symbol ||
		(s->columns.has & (COLUMN_BIT(COL_SYM) | COLUMN_BIT(COL_DSO)));
	s->lead.text = outbuf_new(-1);
	s->scratch = outbuf_new(-1);
	s->disasm = disasm_new(config->syntax_att ? DISASM_ATT : DISASM_INTEL);
	if (!err && (!s->lead.text || !s->scratch || !s->disasm))
		err = -AUX_E_NOMEM;
	if (!err)
		err = walk_new(&s->walk, &wc);
	if (err) {
		close_insn(s);
		return err;
	}
	*sink = s;
	return 0;
}

static void update_lead(struct insn *s, const struct flow_ctx *ctx,
			uint64_t offset)
{
	lead_update(&s->lead, &s->columns, ctx, s->config.host, offset);
}

static size_t lead_len(const struct insn *s)
{
	return (size_t)(s->lead.text->p - s->lead.text->buf);
}

static void put_bytes(const struct insn *s, const uint8_t *code, int n)
{
	char buf[3 * MAX_INSN], *p = buf;

	for (int i = 0; i < n; i++) {
		if (i && s->columns.aligned)
			*p++ = ' ';
		p = fmt_hex_pad(p, code[i], 2);
	}
	if (!n && !s->columns.aligned)
		*p++ = '-';
	outbuf_put(s->scratch, buf, (size_t)(p - buf));
}

/* One instruction: what its line is made of. */
struct line {
	const struct flow_ctx *ctx;
	const struct walk_range *r;
	uint64_t ip;
	struct symbol sym;
	uint8_t code[MAX_INSN];
	size_t len; /* bytes known at ip */
};

/* For reading: " <name+0x4>" behind a direct branch to another function. */
static void put_target(const struct insn *s, const struct line *l)
{
	struct symbol sym;
	uint64_t to;

	if (!s->columns.aligned || !(s->columns.has & COLUMN_BIT(COL_SYM)) ||
	    !insn_target(l->code, l->len, l->ip, l->r->mode, &to))
		return;
	find_symbol(s->config.host, l->ctx->space, to, &sym);
	if (!sym.name || sym.start == l->sym.start)
		return;
	outbuf_put(s->scratch, " <", 2);
	column_symbol(&s->columns, s->scratch, &sym, to);
	outbuf_put(s->scratch, ">", 1);
}

static void put_insn(const struct insn *s, const struct line *l)
{
	char text[MAX_TEXT];

	if (!disasm_text(s->disasm, l->code, l->len, l->ip, l->r->mode, text,
			 sizeof(text))) {
		outbuf_str(s->scratch, l->len ? "(bad)" : "(no code)");
		return;
	}
	outbuf_str(s->scratch, text);
	put_target(s, l);
}

static void put_column(struct insn *s, const struct line *l, enum column col)
{
	char buf[24];
	int n;

	switch (col) {
	case COL_IP:
		outbuf_put(s->scratch, buf,
			   (size_t)(fmt_hex(buf, l->ip) - buf));
		break;
	case COL_SYM:
		column_symbol(&s->columns, s->scratch, &l->sym, l->ip);
		break;
	case COL_DSO:
		column_dso(&s->columns, s->scratch, &l->sym);
		break;
	case COL_BYTES:
		n = disasm_text(s->disasm, l->code, l->len, l->ip, l->r->mode,
				NULL, 0);
		put_bytes(s, l->code, n);
		break;
	case COL_INSN:
		put_insn(s, l);
		break;
	default:
		column_ctx(&s->columns, s->scratch, col, l->ctx, s->config.host,
			   s->lead.offset);
	}
}

static void trim_blanks(struct outbuf *out, size_t start)
{
	while (out->p > out->buf + start && out->p[-1] == ' ')
		out->p--;
}

static void render_line(struct insn *s, const struct line *l)
{
	struct outbuf *out = s->scratch;
	size_t line = (size_t)(out->p - out->buf), start;

	outbuf_put(out, s->lead.text->buf, lead_len(s));
	for (unsigned i = s->columns.n_lead; i < s->columns.n; i++) {
		start = (size_t)(out->p - out->buf);
		put_column(s, l, s->columns.col[i]);
		column_pad(&s->columns, i, out, start);
		if (i + 1 < s->columns.n)
			outbuf_put(out, " ", 1);
	}
	if (s->columns.aligned)
		trim_blanks(out, line);
	outbuf_put(out, "\n", 1);
}

static int keep_lines(struct insn *s, struct lines *l)
{
	size_t len = (size_t)(s->scratch->p - s->scratch->buf);
	char *text;

	if (outbuf_failed(s->scratch) || len > UINT32_MAX)
		return -AUX_E_NOMEM;
	text = malloc(len + 1);
	if (!text)
		return -AUX_E_NOMEM;
	memcpy(text, s->scratch->buf, len);
	free(l->text);
	l->text = text;
	l->start[l->n] = (uint32_t)len;
	l->lead_len = (uint32_t)lead_len(s);
	l->lead_serial = s->lead.serial;
	l->rendered = true;
	walk_charge(s->walk, len);
	return 0;
}

static bool wants_code(const struct insn *s)
{
	return s->columns.has & (COLUMN_BIT(COL_BYTES) | COLUMN_BIT(COL_INSN));
}

static int render(struct insn *s, const struct flow_ctx *ctx,
		  const struct walk_range *r, struct lines *l)
{
	struct line line = { .ctx = ctx, .r = r };

	if (!l->start) {
		l->start = malloc(((size_t)r->n + 1) * sizeof(*l->start));
		if (!l->start)
			return -AUX_E_NOMEM;
		walk_charge(s->walk, ((size_t)r->n + 1) * sizeof(*l->start));
	}
	s->scratch->p = s->scratch->buf;
	l->n = 0;
	for (uint32_t i = 0; i < r->n; i++) {
		line.ip = r->first + r->off[i];
		if (s->needs_symbol)
			find_symbol(s->config.host, ctx->space, line.ip,
				    &line.sym);
		if (s->config.symbol &&
		    (!line.sym.name || strcmp(line.sym.name, s->config.symbol)))
			continue;
		if (wants_code(s))
			line.len = walk_bytes(s->walk, ctx->space, line.ip,
					      line.code, MAX_INSN);
		l->start[l->n++] = (uint32_t)(s->scratch->p - s->scratch->buf);
		render_line(s, &line);
	}
	return keep_lines(s, l);
}

/* memcpy for the few bytes of the leading columns. */
static inline void copy_short(char *to, const char *from, size_t n)
{
	if (n >= 8 && n <= 16) {
		uint64_t a, b;

		memcpy(&a, from, 8);
		memcpy(&b, from + n - 8, 8);
		memcpy(to, &a, 8);
		memcpy(to + n - 8, &b, 8);
	} else if (n >= 4 && n < 8) {
		uint32_t a, b;

		memcpy(&a, from, 4);
		memcpy(&b, from + n - 4, 4);
		memcpy(to, &a, 4);
		memcpy(to + n - 4, &b, 4);
	} else {
		memcpy(to, from, n);
	}
}

/* Brings the kept lines up to date with the leading columns. */
static int refresh(struct insn *s, const struct flow_ctx *ctx,
		   const struct walk_range *r, struct lines *l)
{
	size_t len = lead_len(s);

	if (!l->rendered || l->lead_len != len || s->columns.mixed ||
	    s->columns.n_lead == s->columns.n)
		return render(s, ctx, r, l);
	for (uint32_t i = 0; i < l->n; i++)
		copy_short(l->text + l->start[i], s->lead.text->buf, len);
	l->lead_serial = s->lead.serial;
	return 0;
}

/* Puts the lines out; 1 when the limit is reached. */
static int put_lines(struct insn *s, const struct walk_range *r,
		     const struct lines *l)
{
	struct sink_report *report = s->config.report;
	uint32_t n = l->n;
	int enough = 0;

	if (s->config.limit && n >= s->config.limit - report->n_lines) {
		n = (uint32_t)(s->config.limit - report->n_lines);
		enough = 1;
	}
	outbuf_put(s->config.out, l->text, l->start[n]);
	report->n_lines += n;
	report->n_filtered += r->n - l->n;
	return enough;
}

static int put_range(struct insn *s, const struct flow_ctx *ctx,
		     const struct aux_flow *ev)
{
	struct walk_range *r;
	struct lines *l;
	int err;

	s->config.report->n_insns += ev->n;
	err = walk_find(s->walk, ctx->space, ev, &r);
	if (err == -AUX_E_NOMEM)
		return err;
	if (err) {
		s->config.report->n_mismatches++;
		print_mismatch(s->config.out, s->config.host, ctx, ev, err);
		return 0;
	}
	l = r->user;
	if (s->columns.has & COLUMN_BIT(COL_OFFSET))
		update_lead(s, ctx, ev->offset);
	if (l->lead_serial != s->lead.serial || !l->rendered) {
		err = refresh(s, ctx, r, l);
		if (err)
			return err;
	}
	return put_lines(s, r, l);
}

static void put_note(struct insn *s, const struct flow_ctx *ctx,
		     const struct aux_flow *ev)
{
	struct outbuf *out = s->config.out;

	switch (ev->kind) {
	case AUX_FLOW_PAYLOAD:
		outbuf_printf(out, "# ptwrite 0x%llx",
			      (unsigned long long)ev->payload.value);
		if (ev->flags & AUX_FLOW_HAS_IP)
			outbuf_printf(out, " at 0x%llx",
				      (unsigned long long)ev->payload.ip);
		break;
	case AUX_FLOW_ASYNC:
		outbuf_printf(out, "# interrupted at 0x%llx",
			      (unsigned long long)ev->async.from);
		break;
	case AUX_FLOW_TX:
		outbuf_printf(out, "# transaction %s",
			      ev->what == AUX_TX_BEGIN	  ? "begins"
			      : ev->what == AUX_TX_COMMIT ? "commits"
							  : "aborts");
		break;
	default:
		return;
	}
	outbuf_printf(out, " (tid %d)\n", (int32_t)ctx->tid);
}

static int flow_insn(void *sink, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct insn *s = sink;
	uint64_t *last = last_ip_of(&s->last, ctx->stream);
	int err = 0;

	if (!last)
		return -AUX_E_NOMEM;
	if (!s->started) {
		columns_header(&s->columns, s->config.out);
		s->started = true;
	}
	update_lead(s, ctx, n ? ev[0].offset : 0);
	for (size_t i = 0; i < n && !err; i++) {
		if (ev[i].kind == AUX_FLOW_RANGE) {
			err = put_range(s, ctx, &ev[i]);
			*last = ev[i].range.last;
		} else if (ev[i].kind == AUX_FLOW_GAP) {
			print_gap(s->config.out, s->config.host, ctx, &ev[i],
				  *last);
		} else if (s->columns.aligned && !s->config.symbol) {
			put_note(s, ctx, &ev[i]);
		}
	}
	if (!err && outbuf_failed(s->config.out))
		err = -AUX_E_IO;
	return err;
}

static int finish_insn(void *sink, struct aux_diag *diag)
{
	(void)sink;
	(void)diag;
	return 0;
}

const struct sink_ops sink_insn = {
	.name = "insn",
	.help = "one line per instruction (the default)",
	.needs = SINK_NEEDS_TIME,
	.fields = FIELDS,
	.open = open_insn,
	.flow = flow_insn,
	.finish = finish_insn,
	.close = close_insn,
};
