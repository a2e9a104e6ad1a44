/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_insn: one line per instruction.
 *
 * Printing is copying: the text of code is rendered once and kept, and only the
 * columns in front of it (who, when: struct lead) are made anew. There are
 * three levels, each put together from the one below:
 *
 *	range    struct lines, kept by walk with the range
 *	step     text_store steps, in step->user
 *	path     text_paths, in path->user, once the path came often
 *
 * When a column of the context follows a column of the code (columns.mixed),
 * nothing of a path can be kept: lines are rendered per range, again whenever
 * the lead changed. The same holds for a limit that ends inside of a path.
 *
 * The texts belong to the sink, which runs in the session's thread alone.
 */
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "decode/callstack/names.h"
#include "decode/lib/code/code.h"
#include "decode/lib/elf/insn.h"
#include "decode/lib/session/expand.h"
#include "decode/lib/trace/event.h"
#include "decode/sink/columns.h"
#include "decode/sink/sink.h"
#include "decode/sink/text.h"

#define MAX_INSN 15
#define STEP_BYTES ((size_t)96 << 20) /* texts of steps, all together */
#define MAX_TEXT 192 /* disassembly of one instruction */
#define FIELDS	 "cpu,pid,tid,time,comm,cgroup,offset,ip,sym,dso,bytes,insn"

/* What is kept with a range. */
struct lines {
	struct text *text; /* NULL: not rendered */
	uint64_t lead_serial; /* when mixed: it is so old */
};

struct insn_config {
	const char *fields;	/* -F, NULL: the default */
	uint64_t limit;		/* -n, 0: none */
	unsigned syntax;	/* --syntax: 0 Intel, 1 AT&T */
	bool source;		/* --source */
};

struct insn {
	struct sink_env env;
	struct insn_config config;
	struct columns columns;
	struct walk *walk;
	struct disasm *disasm;
	struct lead lead;
	struct text_maker maker;	/* of a range */
	struct last_ips last;
	uint64_t ran;			/* address that ran last */
	struct source_line source;	/* of the line before, --source */
	bool needs_symbol;
	bool started;
	struct text_maker joiner;	/* of a step */
	struct text_store steps;
	struct text_paths paths;
};

/* walk forgets a range: its text goes too. */
static void drop_lines(void *user)
{
	struct lines *l = user;

	free(l->text);
}

/* After columns_parse: whether leads change often decides how paths are
 * kept. */
static int init_texts(struct insn *s)
{
	text_store_init(&s->steps, STEP_BYTES);
	return text_maker_init(&s->joiner) ||
			       text_paths_init(&s->paths, &s->columns)
		       ? -AUX_E_NOMEM
		       : 0;
}

static void free_texts(struct insn *s)
{
	text_store_fini(&s->steps);
	text_maker_fini(&s->joiner);
	text_paths_fini(&s->paths);
}

static void close_insn(void *sink)
{
	struct insn *s = sink;

	if (!s)
		return;
	walk_free(s->walk);
	disasm_free(s->disasm);
	outbuf_free(s->lead.text);
	text_maker_fini(&s->maker);
	free_texts(s);
	free(s->last.v);
	free(s);
}

/* Whether a column shows the bytes or the disassembly. */
static bool wants_code(const struct insn *s)
{
	return s->columns.has & (COLUMN_BIT(COL_BYTES) | COLUMN_BIT(COL_INSN));
}

static int open_insn(void **sink, const struct sink_env *env,
		     const void *options, struct aux_diag *diag)
{
	const struct insn_config *config = options;
	struct walk_config wc = { .host = env->host,
				  .user_size = sizeof(struct lines),
				  .drop = drop_lines };
	struct insn *s = calloc(1, sizeof(*s));
	int err;

	*sink = NULL;
	if (!s)
		return -AUX_E_NOMEM;
	s->env = *env;
	s->config = *config;
	err = columns_parse(&s->columns, config->fields, FIELDS,
			    "cpu,pid/tid,time,ip,sym,insn", diag);
	s->needs_symbol =
		env->symbol ||
		(s->columns.has & (COLUMN_BIT(COL_SYM) | COLUMN_BIT(COL_DSO)));
	s->lead.text = outbuf_new(-1);
	if (!err && !s->lead.text)
		err = -AUX_E_NOMEM;
	if (!err && wants_code(s))
		err = disasm_new(&s->disasm, config->syntax ? DISASM_ATT :
							      DISASM_INTEL,
				 diag);
	if (!err)
		err = text_maker_init(&s->maker);
	if (!err)
		err = init_texts(s);
	if (!err)
		err = walk_new(&s->walk, &wc);
	if (err) {
		close_insn(s);
		return err;
	}
	*sink = s;
	return 0;
}

/* Renders the leading columns anew, if what they show has changed. */
static void update_lead(struct insn *s, const struct flow_ctx *ctx,
		      uint64_t offset)
{
	lead_update(&s->lead, &s->columns, ctx, s->env.host, offset);
}

/* For programs without blanks, "-" when the code is not known; for reading "48
 * 89 e5". */
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
	outbuf_put(s->maker.lines, buf, (size_t)(p - buf));
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

/* For reading: " <name+0x4>" after a direct branch to another function. */
static void put_target(const struct insn *s, const struct line *l)
{
	struct symbol sym;
	uint64_t to;

	if (!s->columns.aligned || !(s->columns.has & COLUMN_BIT(COL_SYM)) ||
	    !insn_target(l->code, l->len, l->ip, l->r->mode, &to))
		return;
	find_symbol(s->env.host, l->ctx->space, to, &sym);
	if (!sym.name || sym.start == l->sym.start)
		return;
	outbuf_put(s->maker.lines, " <", 2);
	column_symbol(&s->columns, s->maker.lines, s->env.host, &sym, to);
	outbuf_put(s->maker.lines, ">", 1);
}

static void put_insn(const struct insn *s, const struct line *l)
{
	char text[MAX_TEXT];

	if (!disasm_text(s->disasm, l->code, l->len, l->ip, l->r->mode, text,
			 sizeof(text))) {
		outbuf_str(s->maker.lines, l->len ? "(bad)" : "(no code)");
		return;
	}
	outbuf_str(s->maker.lines, text);
	put_target(s, l);
}

/* Everything but the leading columns, unless those are mixed in. */
static void put_column(struct insn *s, const struct line *l, enum column col)
{
	char buf[24];
	int n;

	switch (col) {
	case COL_IP:
		outbuf_put(s->maker.lines, buf,
			   (size_t)(fmt_hex(buf, l->ip) - buf));
		break;
	case COL_SYM:
		column_symbol(&s->columns, s->maker.lines, s->env.host,
			      &l->sym, l->ip);
		break;
	case COL_DSO:
		column_dso(&s->columns, s->maker.lines, &l->sym);
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
		column_ctx(&s->columns, s->maker.lines, col, l->ctx, s->env.host,
			   s->lead.offset);
	}
}

/* "file:line" after the instruction. For reading only where it changes. */
static void put_source(struct insn *s, const struct line *l)
{
	const struct sink_host *host = s->env.host;
	struct source_line at = { .file = NULL };
	struct outbuf *out = s->maker.lines;

	if (host->line && l->ctx->space)
		host->line(host->priv, l->ctx->space, l->ip, &at);
	if (s->columns.aligned && (!at.file || (at.file == s->source.file &&
						at.line == s->source.line)))
		return;
	s->source = at;
	outbuf_str(out, s->columns.aligned ? "  ; " : " ");
	if (!at.file) {
		outbuf_put(out, "-", 1);
		return;
	}
	outbuf_clean(out, at.file);
	outbuf_printf(out, ":%u", at.line);
}

/* The last column of an aligned line may have been empty. */
static void trim_blanks(struct outbuf *out, size_t start)
{
	while (out->p > out->buf + start && out->p[-1] == ' ')
		out->p--;
}

/* All of a line but what leads it. */
static int render_line(struct insn *s, const struct line *l)
{
	struct outbuf *out = s->maker.lines;
	size_t line = (size_t)(out->p - out->buf), start;

	for (unsigned i = s->columns.n_lead; i < s->columns.n; i++) {
		start = (size_t)(out->p - out->buf);
		put_column(s, l, s->columns.col[i]);
		column_pad(&s->columns, i, out, start);
		if (i + 1 < s->columns.n)
			outbuf_put(out, " ", 1);
	}
	if (s->columns.aligned)
		trim_blanks(out, line);
	if (s->config.source)
		put_source(s, l);
	outbuf_put(out, "\n", 1);
	return text_maker_end_line(&s->maker);
}

/* Replaces the text of a range; its size is charged to walk, which bounds what
 * all ranges keep. */
static int keep_lines(struct insn *s, struct lines *l)
{
	size_t size = text_maker_size(&s->maker);
	void *at = size ? malloc(size) : NULL;

	if (!at)
		return -AUX_E_NOMEM;
	free(l->text);
	l->text = text_maker_write(&s->maker, at);
	l->lead_serial = s->lead.serial;
	walk_charge(s->walk, size);
	return 0;
}

/* All lines of a range. Instructions that --symbol does not name have none. */
static int render(struct insn *s, const struct flow_ctx *ctx,
		  const struct walk_range *r, struct lines *l)
{
	struct line line = { .ctx = ctx, .r = r };

	text_maker_reset(&s->maker);
	s->source.file = NULL;
	for (uint32_t i = 0; i < r->n; i++) {
		line.ip = r->first + r->off[i];
		if (s->needs_symbol)
			find_symbol(s->env.host, ctx->space, line.ip,
				    &line.sym);
		if (s->env.symbol &&
		    !names_fit(s->env.host->names, line.sym.name,
			       line.sym.dso)) {
			s->maker.n_left_out++;
			continue;
		}
		if (wants_code(s))
			line.len = walk_bytes(s->walk, ctx->space, line.ip,
					      line.code, MAX_INSN);
		if (render_line(s, &line))
			return -AUX_E_NOMEM;
	}
	return keep_lines(s, l);
}

/*
 * The lines of a RANGE, valid until the next call. 0, -AUX_E_NOMEM, or what
 * walk_find says of a range that does not fit the code.
 */
static int range_text(struct insn *s, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, const struct text **text)
{
	struct walk_range *r;
	struct lines *l;
	int err = walk_find(s->walk, ctx->space, ev, &r);

	if (err)
		return err;
	l = r->user;
	if (!l->text ||
	    (s->columns.mixed && l->lead_serial != s->lead.serial))
		err = render(s, ctx, r, l);
	*text = l->text;
	return err;
}

/* The first n lines of a text, each after the lead. n_insns is what ran, for
 * the report: a filter may have left some without a line. */
static void put_texts(struct insn *s, const struct text *text, uint32_t n,
		     uint32_t n_insns)
{
	const struct outbuf *lead = s->lead.text;

	text_put(s->env.out, lead->buf, (size_t)(lead->p - lead->buf), text,
		 n);
	s->env.report->n_insns += n_insns;
	s->env.report->n_lines += n;
	s->env.report->n_filtered += text->n_left_out;
}

/* Prints a RANGE; one that does not fit the code becomes a gap line. 1 when the
 * limit is reached, or -AUX_E_NOMEM. */
static int put_range(struct insn *s, const struct flow_ctx *ctx,
		      const struct aux_flow *ev)
{
	struct sink_report *report = s->env.report;
	const struct text *text;
	uint64_t left = UINT64_MAX;
	int err;

	if (s->columns.has & COLUMN_BIT(COL_OFFSET))
		update_lead(s, ctx, ev->offset);
	err = range_text(s, ctx, ev, &text);
	if (err == -AUX_E_NOMEM)
		return err;
	if (err) {
		report->n_insns += ev->n;
		report->n_mismatches++;
		print_mismatch(s->env.out, s->env.host, ctx, ev, err);
		return 0;
	}
	if (s->config.limit)
		left = s->config.limit - report->n_lines;
	put_texts(s, text, text->n < left ? text->n : (uint32_t)left, ev->n);
	return text->n >= left;
}

/* A value that the program wrote; 1 when the limit is reached. */
static int put_payload(struct insn *s, const struct flow_ctx *ctx,
		       const struct aux_flow *ev)
{
	if (s->env.symbol &&
	    !in_symbol(s->env.host, ctx->space, ev->payload.ip)) {
		s->env.report->n_filtered++;
		return 0;
	}
	print_payload(s->env.out, s->env.host, ctx, ctx->time_ns, ev);
	s->env.report->n_lines++;
	return s->config.limit && s->env.report->n_lines >= s->config.limit;
}

/* "# cfe vmexit_intr vector 32 at 0x1002" and the like. */
static void put_event(struct outbuf *out, const struct aux_flow *ev)
{
	uint64_t v = ev->payload.value;
	char number[EVENT_NAME];

	outbuf_printf(out, "# %s %s", event_source(ev), event_name(ev, number));
	if (ev->n == AUX_EVENT_CFE)
		outbuf_printf(out, " vector %llu", (unsigned long long)v);
	else if (ev->n == AUX_EVENT_EVD)
		outbuf_printf(out, " 0x%llx", (unsigned long long)v);
	else if (ev->n == AUX_EVENT_TRIG && v & AUX_TRIG_SEVERAL)
		outbuf_str(out, ", several");
	if (ev->n == AUX_EVENT_TRIG && v & AUX_TRIG_HAS_COUNT &&
	    v & AUX_TRIG_COUNT_MASK)
		outbuf_printf(out, " after %u instructions",
			      (unsigned)(v & AUX_TRIG_COUNT_MASK));
	if (ev->flags & AUX_FLOW_HAS_IP)
		outbuf_printf(out, " at 0x%llx",
			      (unsigned long long)ev->payload.ip);
}

/* For reading: events that are no instruction, as "# ..." lines. */
static int put_note(struct insn *s, const struct flow_ctx *ctx,
		    const struct aux_flow *ev)
{
	struct outbuf *out = s->env.out;

	switch (ev->kind) {
	case AUX_FLOW_PAYLOAD:
		return put_payload(s, ctx, ev);
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
	case AUX_FLOW_EVENT:
		if (ev->n == AUX_EVENT_ETM)
			return 0;
		put_event(out, ev);
		break;
	default:
		return 0;
	}
	outbuf_printf(out, " (tid %d)\n", (int32_t)ctx->tid);
	return 0;
}

/* Range by range, for a column that is mixed in, a limit that is near, or a
 * range that does not fit the code. */
static int put_ranges(struct insn *s, const struct flow_ctx *ctx,
		      const struct aux_step *step, uint64_t offset)
{
	struct aux_flow ev;
	int err = 0;

	for (uint32_t i = 0; i < step->n_ranges && !err; i++) {
		ev = step_range(step, i, offset);
		err = put_range(s, ctx, &ev);
	}
	return err;
}

/*
 * A step's text out of those of its ranges, kept in step->user. *text stays
 * NULL, without an error, where it must go range by range: a mismatch (which
 * put_range reports), or no room.
 */
static int join_ranges(struct insn *s, const struct flow_ctx *ctx,
		       struct aux_step *step, const struct text **text)
{
	uint64_t n_insns = 0;
	const struct text *t;
	size_t size;
	void *at;
	int err;

	text_maker_reset(&s->joiner);
	for (uint32_t i = 0; i < step->n_ranges; i++) {
		err = range_text(s, ctx, &step->ranges[i], &t);
		if (err)
			return err == -AUX_E_NOMEM ? err : 0;
		if (text_maker_append(&s->joiner, t))
			return -AUX_E_NOMEM;
		n_insns += step->ranges[i].n;
	}
	size = text_maker_size(&s->joiner);
	if (!size || n_insns != step->n_insns)
		return 0;
	at = text_store_get(&s->steps, size);
	if (!at)
		return 0;
	*text = text_maker_write(&s->joiner, at);
	step->user[0] = s->steps.epoch;
	step->user[1] = (uintptr_t)at;
	return 0;
}

/* A step whose path has no text yet. */
static int put_step(struct insn *s, const struct flow_ctx *ctx,
		    struct aux_step *step, uint64_t offset)
{
	const struct text *t = text_store_find(&s->steps, step->user);
	int err;

	if (!t) {
		err = join_ranges(s, ctx, step, &t);
		if (err)
			return err;
	}
	if (!t)
		return put_ranges(s, ctx, step, offset);
	put_texts(s, t, t->n, step->n_insns);
	return 0;
}

/* A text of all steps, if all have theirs. */
static int keep_path(struct insn *s, struct aux_path *path)
{
	uint64_t n_insns = 0;
	const struct text *t;

	text_maker_reset(&s->paths.maker);
	for (uint32_t i = 0; i < path->n_steps; i++) {
		t = text_store_find(&s->steps, path->steps[i]->user);
		if (!t)
			return 0;
		if (text_maker_append(&s->paths.maker, t))
			return -AUX_E_NOMEM;
		n_insns += path->steps[i]->n_insns;
	}
	if (n_insns == path->n_insns)
		text_paths_keep(&s->paths, &s->lead, path);
	return 0;
}

/* Nothing of the path is kept or used. */
static int put_path_by_range(struct insn *s, const struct flow_ctx *ctx,
		      const struct aux_flow *ev)
{
	const struct aux_path *path = ev->path.path;
	int err = 0;

	for (uint32_t i = 0; i < path->n_steps && !err; i++)
		err = put_ranges(s, ctx, path->steps[i], ev->offset);
	return err;
}

/*
 * A kept path with a text of this lead is one memcpy, most of all events in a
 * loop. Otherwise its steps are printed, and the path gets a text when it is
 * due.
 */
static int put_path(struct insn *s, const struct flow_ctx *ctx,
		     const struct aux_flow *ev)
{
	struct sink_report *report = s->env.report;
	struct aux_path *path = ev->path.path;
	const struct text_ends *text = text_paths_find(&s->paths, path);
	uint64_t limit = s->config.limit;
	int err = 0;

	s->ran = text ? text->last.range.last : flow_last_ip(ev);
	if (s->columns.mixed ||
	    (limit && limit - report->n_lines <= path->n_insns))
		return put_path_by_range(s, ctx, ev);
	if (s->columns.has & COLUMN_BIT(COL_OFFSET))
		update_lead(s, ctx, ev->offset);
	if (text && text_paths_put(&s->paths, s->env.out, &s->lead, text,
				   report)) {
		report->n_insns += path->n_insns;
		return 0;
	}
	for (uint32_t i = 0; i < path->n_steps && !err; i++)
		err = put_step(s, ctx, path->steps[i], ev->offset);
	if (!err && text_paths_is_due(&s->paths, path))
		err = keep_path(s, path);
	return err;
}

/* Gap lines name the last address that ran in the stream, so that is kept
 * across calls. */
static int flow_insn(void *sink, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct insn *s = sink;
	uint64_t *last = last_ip_of(&s->last, ctx->stream);
	int err = 0;

	if (!last)
		return -AUX_E_NOMEM;
	if (!s->started) {
		columns_header(&s->columns, s->env.out);
		s->started = true;
	}
	s->ran = *last;
	update_lead(s, ctx, n ? ev[0].offset : 0);
	for (size_t i = 0; i < n && !err; i++) {
		if (ev[i].kind == AUX_FLOW_PATH) {
			err = put_path(s, ctx, &ev[i]);
		} else if (ev[i].kind == AUX_FLOW_RANGE) {
			err = put_range(s, ctx, &ev[i]);
			s->ran = ev[i].range.last;
		} else if (ev[i].kind == AUX_FLOW_GAP) {
			print_gap(s->env.out, s->env.host, ctx, &ev[i],
				  s->ran);
		} else if (ev[i].kind == AUX_FLOW_PAYLOAD ||
			   (s->columns.aligned && !s->env.symbol)) {
			err = put_note(s, ctx, &ev[i]);
		}
	}
	*last = s->ran;
	if (!err && outbuf_failed(s->env.out))
		err = -AUX_E_IO;
	return err;
}

static int finish_insn(void *sink, struct aux_diag *diag)
{
	(void)sink;
	(void)diag;
	return 0;
}

static uint32_t needs_of_insn(const void *options)
{
	const struct insn_config *config = options;

	return text_needs(config->fields);
}

/* table */
static const struct option_row insn_options[] = {
	SINK_FIELDS(struct insn_config),
	SINK_LIMIT(struct insn_config, SINK_LIMIT_LINES),
	{ .name = "source",
	  .help = "source lines (needs debug information)",
	  OPTION_FLAG(struct insn_config, source) },
	{ .name = "syntax", .arg = "NAME", .values = "intel att",
	  .help = "intel (the default) or att",
	  OPTION_CHOICE(struct insn_config, syntax) },
	{ .name = NULL },
};

const struct sink_ops sink_insn = {
	.name = "insn",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS,
	.needs_of = needs_of_insn,
	.fields = FIELDS,
	.options = insn_options,
	.config_size = sizeof(struct insn_config),
	.open = open_insn,
	.flow = flow_insn,
	.finish = finish_insn,
	.close = close_insn,
};
