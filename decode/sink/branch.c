/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_branch: one line per branch taken: from, to, and of which kind.
 *
 * A branch is known when its range ends, but where it goes only when the next
 * event of its stream arrives, so one edge per stream is held back (struct
 * held). An edge whose target is not in the trace (a gap follows, tracing ends)
 * is shown with the target "-"; none is dropped. A conditional branch that
 * falls through to the next instruction is dropped when it settles, unless
 * --not-taken.
 *
 * Inside of a path each branch leads to the next range: those lines depend on
 * nothing else and are kept with paths that come often (text_paths). The edge
 * that leads into the path and the one that leaves it are settled as those of
 * ranges are.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/callstack/names.h"
#include "decode/lib/code/code.h"
#include "decode/lib/session/expand.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/sink/columns.h"
#include "decode/sink/impl.h"
#include "decode/sink/sink.h"
#include "decode/sink/text.h"

#define FIELDS \
	"cpu,pid,tid,time,comm,cgroup,offset,kind,from,fromsym,fromdso,to,tosym,todso"
#define CACHE_SIZE 16384 /* a power of two */

/* table */
static const char *const edge_names[] = {
	[EDGE_COND] = "cond",	     [EDGE_JUMP] = "jmp",
	[EDGE_CALL] = "call",	     [EDGE_RET] = "ret",
	[EDGE_IND_JUMP] = "indjmp",  [EDGE_IND_CALL] = "indcall",
	[EDGE_SYSCALL] = "syscall",  [EDGE_FAR] = "far",
	[EDGE_ASYNC] = "async",	     [EDGE_INTERRUPT] = "intr",
	[EDGE_EXCEPTION] = "except", [EDGE_ON] = "on",
	[EDGE_OFF] = "off",	     [EDGE_NOT] = "not",
};

const char *edge_name(unsigned kind)
{
	return edge_names[kind];
}

struct cached {
	uint64_t space;
	uint64_t ip;
	struct symbol sym;
};

struct edge {
	uint8_t kind; /* 0: none */
	bool left; /* the last event was told to end tracing */
	bool maybe; /* taken only if it does not go to next */
	uint64_t next; /* address after the branch */
	uint64_t offset;
	struct flow_ctx ctx;
	struct place from, to;
};

struct held {
	uint32_t stream;
	struct edge edge;
};

struct branch_config {
	const char *fields;	/* -F, NULL: the default */
	uint64_t limit;		/* -n, 0: none */
	bool not_taken;		/* --not-taken */
};

struct branch {
	struct sink_env env;
	struct branch_config config;
	struct columns columns;
	struct walk *walk;		/* sizes of last instructions */
	struct lead lead;
	struct text_maker line;
	struct text_paths paths;	/* branches inside of each */
	struct held *held;
	size_t n_held;
	struct last_ips last;
	struct cached *cache;	/* symbols, NULL when no column shows any */
	bool started;
};

static void close_branch(void *sink)
{
	struct branch *b = sink;

	if (!b)
		return;
	walk_free(b->walk);
	text_maker_fini(&b->line);
	text_paths_fini(&b->paths);
	outbuf_free(b->lead.text);
	free(b->held);
	free(b->last.v);
	free(b->cache);
	free(b);
}

static int open_branch(void **sink, const struct sink_env *env,
		       const void *options, struct aux_diag *diag)
{
	const struct branch_config *config = options;
	const uint32_t symbols =
		COLUMN_BIT(COL_FROM_SYM) | COLUMN_BIT(COL_FROM_DSO) |
		COLUMN_BIT(COL_TO_SYM) | COLUMN_BIT(COL_TO_DSO);
	struct walk_config wc = { .host = env->host };
	struct branch *b = calloc(1, sizeof(*b));
	int err;

	*sink = NULL;
	if (!b)
		return -AUX_E_NOMEM;
	b->env = *env;
	b->config = *config;
	err = columns_parse(&b->columns, config->fields, FIELDS,
			    "cpu,pid/tid,time,kind,from,fromsym,->,to,tosym",
			    diag);
	if (!err)
		err = walk_new(&b->walk, &wc);
	if (!err)
		err = text_maker_init(&b->line);
	if (!err)
		err = text_paths_init(&b->paths, &b->columns);
	b->lead.text = outbuf_new(-1);
	if (env->symbol || b->columns.has & symbols)
		b->cache = calloc(CACHE_SIZE, sizeof(*b->cache));
	if (!err &&
	    (!b->lead.text ||
	     (!b->cache && (env->symbol || b->columns.has & symbols))))
		err = -AUX_E_NOMEM;
	if (err) {
		close_branch(b);
		return err;
	}
	*sink = b;
	return 0;
}

/* A cached lookup: branches of a loop ask for the same two addresses again and
 * again. Direct mapped by address and space. */
static const struct symbol *symbol_of(struct branch *b, const struct place *at)
{
	static const struct symbol none;
	struct cached *c;
	uint64_t space = at->space ? at->space->id : 0;

	if (!at->known || !b->cache)
		return &none;
	c = &b->cache[((at->ip ^ space << 7) * UINT64_C(0x9e3779b97f4a7c15)) >>
		      50];
	if (c->ip != at->ip || c->space != space || !c->ip) {
		c->ip = at->ip;
		c->space = space;
		find_symbol(b->env.host, at->space, at->ip, &c->sym);
	}
	return &c->sym;
}

/* "-" where it is not known. */
static void put_ip(struct outbuf *out, const struct place *at)
{
	char buf[24], *p = buf;

	if (at->known)
		p = fmt_hex(buf, at->ip);
	else
		*p++ = '-';
	outbuf_put(out, buf, (size_t)(p - buf));
}

static void put_column(struct branch *b, struct outbuf *out,
		       const struct edge *e, enum column col)
{
	const struct columns *c = &b->columns;

	switch (col) {
	case COL_KIND:
		outbuf_str(out, edge_name(e->kind));
		break;
	case COL_FROM:
		put_ip(out, &e->from);
		break;
	case COL_TO:
		put_ip(out, &e->to);
		break;
	case COL_ARROW:
		outbuf_put(out, "->", 2);
		break;
	case COL_FROM_SYM:
		column_symbol(c, out, b->env.host, symbol_of(b, &e->from),
			      e->from.ip);
		break;
	case COL_TO_SYM:
		column_symbol(c, out, b->env.host, symbol_of(b, &e->to),
			      e->to.ip);
		break;
	case COL_FROM_DSO:
		column_dso(c, out, symbol_of(b, &e->from));
		break;
	case COL_TO_DSO:
		column_dso(c, out, symbol_of(b, &e->to));
		break;
	default:
		column_ctx(c, out, col, &e->ctx, b->env.host, e->offset);
	}
}

/* Whether --symbol names the function there. */
static bool is_named(struct branch *b, const struct place *at)
{
	const struct symbol *sym = symbol_of(b, at);

	return names_fit(b->env.host->names, sym->name, sym->dso);
}

/* All of a line but the lead. False: --symbol drops it. */
static bool render_line(struct branch *b, const struct edge *e,
			  struct text_maker *to)
{
	const struct columns *c = &b->columns;
	struct outbuf *out = to->lines;
	size_t line = (size_t)(out->p - out->buf), start;

	if (b->env.symbol && !is_named(b, &e->from) && !is_named(b, &e->to)) {
		to->n_left_out++;
		return false;
	}
	for (unsigned i = c->n_lead; i < c->n; i++) {
		start = (size_t)(out->p - out->buf);
		put_column(b, out, e, c->col[i]);
		column_pad(c, i, out, start);
		if (i + 1 < c->n)
			outbuf_put(out, " ", 1);
	}
	while (c->aligned && out->p > out->buf + line && out->p[-1] == ' ')
		out->p--;
	outbuf_put(out, "\n", 1);
	return true;
}

/* One line; 1 when the limit is reached. */
static int put_edge(struct branch *b, const struct edge *e)
{
	struct sink_report *report = b->env.report;
	const struct outbuf *line = b->line.lines, *lead = b->lead.text;

	if (b->config.limit && report->n_lines >= b->config.limit)
		return 1;
	text_maker_reset(&b->line);
	if (!render_line(b, e, &b->line)) {
		report->n_filtered++;
		return 0;
	}
	lead_update(&b->lead, &b->columns, &e->ctx, b->env.host, e->offset);
	outbuf_put(b->env.out, lead->buf, (size_t)(lead->p - lead->buf));
	outbuf_put(b->env.out, line->buf, (size_t)(line->p - line->buf));
	report->n_lines++;
	return b->config.limit && report->n_lines >= b->config.limit;
}

/* The held edge of a stream, kind 0 at first. NULL: out of memory. There are as
 * many streams as CPUs, so a linear search will do. */
static struct edge *held_of(struct branch *b, uint32_t stream)
{
	struct held *held;

	for (size_t i = 0; i < b->n_held; i++)
		if (b->held[i].stream == stream)
			return &b->held[i].edge;
	held = realloc(b->held, (b->n_held + 1) * sizeof(*held));
	if (!held)
		return NULL;
	b->held = held;
	held[b->n_held] = (struct held){ .stream = stream };
	return &held[b->n_held++].edge;
}

/* A COND was held without knowing whether it is taken; its target tells. An
 * edge that falls through becomes EDGE_NOT. */
static bool is_shown(const struct branch *b, struct edge *e,
			    const struct place *to)
{
	if (!e->maybe || !to->known || to->ip != e->next)
		return true;
	e->kind = EDGE_NOT;
	return b->config.not_taken;
}

/* The held edge leads to to, or (to->known false) to an unknown place. */
static int settle(struct branch *b, struct edge *e, const struct place *to)
{
	struct edge done = *e;

	e->kind = 0;
	if (!done.kind || !is_shown(b, &done, to))
		return 0;
	done.to = *to;
	return put_edge(b, &done);
}

static const struct place nowhere;

static struct place place_at(const struct flow_ctx *ctx, uint64_t ip)
{
	return (struct place){ .known = true, .space = ctx->space, .ip = ip };
}

/* Edges that are complete when they are met: interrupts, trace on and off. */
static int put_now(struct branch *b, const struct flow_ctx *ctx,
		   enum edge_kind kind, const struct place *from,
		   const struct place *to, uint64_t offset)
{
	struct edge e = { .kind = (uint8_t)kind,
			  .ctx = *ctx,
			  .offset = offset,
			  .from = *from,
			  .to = *to };

	return put_edge(b, &e);
}

/* table */
static const uint8_t edge_of_end[] = {
	[AUX_END_COND_TAKEN] = EDGE_COND,   [AUX_END_COND] = EDGE_COND,
	[AUX_END_JUMP] = EDGE_JUMP,	    [AUX_END_CALL] = EDGE_CALL,
	[AUX_END_RET] = EDGE_RET,	    [AUX_END_IND_JUMP] = EDGE_IND_JUMP,
	[AUX_END_IND_CALL] = EDGE_IND_CALL, [AUX_END_SYSCALL] = EDGE_SYSCALL,
	[AUX_END_FAR] = EDGE_FAR,
};

unsigned edge_of_range(unsigned what)
{
	return what < sizeof(edge_of_end) ? edge_of_end[what] : 0;
}

/*
 * The edge at the end of a RANGE, still without a target; kind 0: it just falls
 * through. For a COND the size of the branch is needed, to tell its
 * fall-through address: from the event, or from the code.
 */
static struct edge branch_at_end(struct branch *b, const struct flow_ctx *ctx,
				 const struct aux_flow *ev)
{
	struct edge e = { .offset = ev->offset, .ctx = *ctx,
			  .from = place_at(ctx, ev->range.last) };
	struct walk_range *r;

	e.kind = (uint8_t)edge_of_range(ev->what);
	if (ev->what == AUX_END_COND_NOT_TAKEN && b->config.not_taken)
		e.kind = EDGE_NOT;
	e.maybe = ev->what == AUX_END_COND;
	if (!e.maybe)
		return e;
	e.next = ev->range.last + (ev->flags & AUX_FLOW_SIZE_MASK);
	if (!(ev->flags & AUX_FLOW_SIZE_MASK) &&
	    !walk_find(b->walk, ctx->space, ev, &r))
		e.next += r->last_size;
	return e;
}

/* settle() with an address of the same space. */
static int settle_at(struct branch *b, const struct flow_ctx *ctx,
			 struct edge *e, uint64_t to)
{
	struct place at = place_at(ctx, to);

	return settle(b, e, &at);
}

/* Settles the held edge at the range's beginning and holds the one at its
 * end. */
static inline int on_range(struct branch *b, const struct flow_ctx *ctx,
			   struct edge *e, const struct aux_flow *ev)
{
	int err;

	b->env.report->n_insns += ev->n;
	e->left = false;
	err = settle_at(b, ctx, e, ev->range.first);
	if (!err)
		*e = branch_at_end(b, ctx, ev);
	return err;
}

/*
 * An interrupt cuts the flow: the held edge was on its way to async.from.
 * Without a target tracing ends there, and the TRACE_OFF that follows says
 * nothing new (left).
 */
static int on_async(struct branch *b, const struct flow_ctx *ctx,
		    struct edge *e, const struct aux_flow *ev)
{
	struct place from = place_at(ctx, ev->async.from), to = nowhere;
	enum edge_kind kind = ev->what == AUX_ASYNC_INTERRUPT	? EDGE_INTERRUPT
			      : ev->what == AUX_ASYNC_EXCEPTION ? EDGE_EXCEPTION
								: EDGE_ASYNC;
	int err = settle(b, e, &from);

	if (ev->async.to)
		to = place_at(ctx, ev->async.to);
	e->left = !ev->async.to;
	return err ? err : put_now(b, ctx, kind, &from, &to, ev->offset);
}

/* TRACE_ON is an edge out of nowhere; TRACE_OFF is the target of what was held,
 * or an edge of its own when nothing was. */
static int on_trace(struct branch *b, const struct flow_ctx *ctx,
		    struct edge *e, const struct aux_flow *ev)
{
	struct place at = nowhere;
	bool had = e->kind || e->left;
	int err;

	e->left = false;

	if (ev->flags & AUX_FLOW_HAS_IP)
		at = place_at(ctx, ev->trace.ip);
	if (ev->kind == AUX_FLOW_TRACE_ON) {
		err = settle(b, e, &nowhere);
		return err ? err
			   : put_now(b, ctx, EDGE_ON, &nowhere, &at,
				     ev->offset);
	}
	err = settle(b, e, &at);
	return err || had
		       ? err
		       : put_now(b, ctx, EDGE_OFF, &at, &nowhere, ev->offset);
}

/* Nothing of the path is kept or used. */
static int on_path_by_range(struct branch *b, const struct flow_ctx *ctx,
		      struct edge *e, const struct aux_flow *ev)
{
	struct path_ranges ranges = { .path = ev };
	struct aux_flow range;
	int err = 0;

	while (!err && path_next_range(&ranges, &range))
		err = on_range(b, ctx, e, &range);
	return err;
}

/* The line of an inner edge, if it is one and is taken. */
static int render_edge(struct branch *b, const struct flow_ctx *ctx,
		       struct edge *e, uint64_t to)
{
	e->to = (struct place){ .known = true, .space = ctx->space, .ip = to };
	if (!e->kind || !is_shown(b, e, &e->to))
		return 0;
	if (!render_line(b, e, &b->paths.maker))
		return 0;
	return text_maker_end_line(&b->paths.maker);
}

/* Makes the text of a path from its inner edges. Not kept when its ranges do
 * not add up to the instructions it says. */
static int keep_path(struct branch *b, const struct flow_ctx *ctx,
		     struct aux_path *path)
{
	struct edge e = { .kind = 0 };
	uint64_t n_insns = 0;

	text_maker_reset(&b->paths.maker);
	for (uint32_t i = 0; i < path->n_steps; i++) {
		const struct aux_step *step = path->steps[i];

		for (uint32_t k = 0; k < step->n_ranges; k++) {
			if (render_edge(b, ctx, &e,
					step->ranges[k].range.first))
				return -AUX_E_NOMEM;
			e = branch_at_end(b, ctx, &step->ranges[k]);
			n_insns += step->ranges[k].n;
		}
	}
	if (n_insns == path->n_insns)
		text_paths_keep(&b->paths, &b->lead, path);
	return 0;
}

/* The edge into the path settles first; then the inner lines are copied or
 * made; then the edge at the end is held. */
static int on_path(struct branch *b, const struct flow_ctx *ctx,
		       struct edge *e, const struct aux_flow *ev,
		       uint64_t *last_ip)
{
	struct sink_report *report = b->env.report;
	struct aux_path *path = ev->path.path;
	const struct text_ends *text = text_paths_find(&b->paths, path);
	uint64_t limit = b->config.limit;
	struct aux_flow last;
	int err;

	*last_ip = text ? text->last.range.last : flow_last_ip(ev);
	if (b->columns.mixed ||
	    (limit && limit - report->n_lines <= path->n_ranges + 1))
		return on_path_by_range(b, ctx, e, ev);
	e->left = false;
	err = settle_at(b, ctx, e,
			    text ? text->first
				 : path->steps[0]->ranges[0].range.first);
	if (err)
		return err;
	lead_update(&b->lead, &b->columns, ctx, b->env.host, ev->offset);
	if (!text || !text_paths_put(&b->paths, b->env.out, &b->lead, text,
				     report)) {
		if (text_paths_is_due(&b->paths, path))
			err = keep_path(b, ctx, path);
		return err ? err : on_path_by_range(b, ctx, e, ev);
	}
	last = text->last;
	last.offset = ev->offset;
	report->n_insns += path->n_insns;
	*e = branch_at_end(b, ctx, &last);
	return 0;
}

static int on_event(struct branch *b, const struct flow_ctx *ctx,
		    struct edge *e, const struct aux_flow *ev, uint64_t *last)
{
	int err;

	switch (ev->kind) {
	case AUX_FLOW_PATH:
		return on_path(b, ctx, e, ev, last);
	case AUX_FLOW_RANGE:
		*last = ev->range.last;
		return on_range(b, ctx, e, ev);
	case AUX_FLOW_ASYNC:
		return on_async(b, ctx, e, ev);
	case AUX_FLOW_TRACE_ON:
	case AUX_FLOW_TRACE_OFF:
		return on_trace(b, ctx, e, ev);
	case AUX_FLOW_PAYLOAD:
		if (b->env.symbol)
			return 0;
		print_payload(b->env.out, b->env.host, ctx, ctx->time_ns, ev);
		b->env.report->n_payloads++;
		return 0;
	case AUX_FLOW_GAP:
		err = settle(b, e, &nowhere);
		print_gap(b->env.out, b->env.host, ctx, ev, *last);
		return err;
	}
	return 0;
}

static int flow_branch(void *sink, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n)
{
	struct branch *b = sink;
	struct edge *e = held_of(b, ctx->stream);
	uint64_t *last = last_ip_of(&b->last, ctx->stream);
	int err = 0;

	if (!e || !last)
		return -AUX_E_NOMEM;
	if (!b->started) {
		columns_header(&b->columns, b->env.out);
		b->started = true;
	}
	for (size_t i = 0; i < n && !err; i++)
		err = on_event(b, ctx, e, &ev[i], last);
	if (!err && outbuf_failed(b->env.out))
		err = -AUX_E_IO;
	return err;
}

/* What is still held leads to an unknown place. */
static int finish_branch(void *sink, struct aux_diag *diag)
{
	struct branch *b = sink;
	int rc = 0;

	(void)diag;
	for (size_t i = 0; i < b->n_held && !rc; i++)
		rc = settle(b, &b->held[i].edge, &nowhere);
	if (rc >= 0)	/* 1: there are as many lines as were wanted */
		rc = walk_nomem(b->walk) ? -AUX_E_NOMEM : 0;
	return rc;
}

static uint32_t needs_of_branch(const void *options)
{
	const struct branch_config *config = options;

	return text_needs(config->fields);
}

/* table */
static const struct option_row branch_options[] = {
	SINK_FIELDS(struct branch_config),
	SINK_LIMIT(struct branch_config, SINK_LIMIT_LINES),
	{ .name = "not-taken",
	  .help = "also conditional branches that were not taken",
	  OPTION_FLAG(struct branch_config, not_taken) },
	{ .name = NULL },
};

const struct sink_ops sink_branch = {
	.name = "branch",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS,
	.needs_of = needs_of_branch,
	.fields = FIELDS,
	.options = branch_options,
	.config_size = sizeof(struct branch_config),
	.open = open_branch,
	.flow = flow_branch,
	.finish = finish_branch,
	.close = close_branch,
};
