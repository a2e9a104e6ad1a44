/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_flame: all calls as a flame graph: folded stacks, a line each, as
 * flamegraph.pl and many others read them; or our own picture, flame_svg.c.
 *
 * Nothing is lost: the numbers of all lines add up to what ran. What --min or
 * -n leaves out is in lines of its own, "[rest]".
 *
 * The call tree that flow becomes here (flame_tree_*) is also that of hot.
 */
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/diag.h"
#include "common/outbuf.h"
#include "decode/sink/impl.h"
#include "decode/sink/sink.h"

/*
 * ---- the flow as a call tree ----
 *
 * A gap ends where something runs again. callstack/callstack.h is silent when
 * no frame began or ended there, so the flow is cut at that event and the gap
 * of the thread ended by hand (flow_some). n_gapped counts the threads that are
 * in a gap, so that this costs nothing without gaps.
 */

/* All are in a list, to be freed and for end_gap. */
static struct flame_thread *add_thread(struct flame_tree *t,
				       struct call_thread *th)
{
	struct flame_thread *ft = calloc(1, sizeof(*ft));

	if (!ft)
		return NULL;
	ft->thread = th;
	ft->next = t->threads;
	t->threads = ft;
	th->user = ft;
	return ft;
}

/* NULL: out of memory. */
static inline struct flame_thread *thread_of(struct flame_tree *t,
					     struct call_thread *th)
{
	return th->user ? th->user : add_thread(t, th);
}

static int on_enter(void *priv, struct call_thread *th)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft = thread_of(t, th);

	if (!ft)
		return -AUX_E_NOMEM;
	t->n_guessed += th->frames[th->depth - 1].flags & CALL_GUESSED;
	return calltree_enter(&t->tree, &ft->ct, th);
}

static int on_leave(void *priv, struct call_thread *th, enum call_end end,
		    unsigned flags)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft = thread_of(t, th);

	(void)flags;
	return ft ? calltree_leave(&t->tree, &ft->ct, th, end) : -AUX_E_NOMEM;
}

static int on_turn(void *priv, struct call_thread *th, uint32_t from)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft = thread_of(t, th);

	(void)from;
	return ft ? calltree_turn(&t->tree, &ft->ct, th) : -AUX_E_NOMEM;
}

static int on_gap(void *priv, struct call_thread *th, const struct aux_flow *ev)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft;

	(void)ev;
	if (!th)
		return 0;
	ft = thread_of(t, th);
	if (!ft)
		return -AUX_E_NOMEM;
	t->n_gapped++;
	return calltree_gap(&t->tree, &ft->ct, th);
}

static int on_off(void *priv, struct call_thread *th, bool on)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft = thread_of(t, th);

	return ft ? calltree_off(&t->tree, &ft->ct, th, on) : -AUX_E_NOMEM;
}

static const struct calls_ops ops = {
	.enter = on_enter,
	.leave = on_leave,
	.turn = on_turn,
	.gap = on_gap,
	.off = on_off,
};

int flame_tree_init(struct flame_tree *t, const struct sink_host *host,
		    enum calltree_per per, unsigned flags)
{
	struct calltree_config config = { .host = host, .per = per };
	int err = calltree_init(&t->tree, &config);

	return err ? err : calls_new(&t->calls, host, flags, &ops, t);
}

void flame_tree_fini(struct flame_tree *t)
{
	struct flame_thread *ft, *next;

	for (ft = t->threads; ft; ft = next) {
		next = ft->next;
		free(ft);
	}
	t->threads = NULL;
	calltree_fini(&t->tree);
	calls_free(t->calls);
	t->calls = NULL;
}

/* Events before the first that runs. */
static size_t count_still(const struct aux_flow *ev, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (ev[i].kind == AUX_FLOW_PATH ||
		    ev[i].kind == AUX_FLOW_RANGE)
			break;
	return i;
}

/* Ends the gap of the thread that runs now. */
static int end_gap(struct flame_tree *t, const struct flow_ctx *ctx)
{
	struct flame_thread *ft;

	for (ft = t->threads; ft; ft = ft->next) {
		if (ft->ct.away != CALLTREE_GAP ||
		    ft->thread->tid != ctx->tid ||
		    ft->thread->stream != ctx->stream)
			continue;
		return calltree_back(&t->tree, &ft->ct, ft->thread);
	}
	return 0;
}

static void count_gapped(struct flame_tree *t)
{
	t->n_gapped = 0;
	for (struct flame_thread *ft = t->threads; ft; ft = ft->next)
		t->n_gapped += ft->ct.away == CALLTREE_GAP;
}

/* The events before something runs still belong to the gap. */
static int flow_some(struct flame_tree *t, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	size_t still;
	int rc;

	if (!t->n_gapped)
		return calls_flow(t->calls, ctx, ev, n);
	still = count_still(ev, n);
	rc = calls_flow(t->calls, ctx, ev, still);
	if (rc || still == n)
		return rc;
	rc = end_gap(t, ctx);
	count_gapped(t);
	return rc ? rc : calls_flow(t->calls, ctx, ev + still, n - still);
}

/* A thread of unknown id is one per stream. */
static bool is_of(const struct flame_thread *ft, const struct flow_ctx *ctx)
{
	return ft->thread->tid == ctx->tid && ft->thread->pid == ctx->pid &&
	       (ctx->tid != UINT32_MAX || ft->thread->stream == ctx->stream);
}

/* A TIME event that has cycles: they are of what runs from here to the next one
 * (calltree_tick), in the thread that runs now. */
static int tick(struct flame_tree *t, const struct flow_ctx *ctx)
{
	struct flame_thread *ft = t->ran;

	if (!ft || !is_of(ft, ctx))
		for (ft = t->threads; ft && !is_of(ft, ctx);)
			ft = ft->next;
	if (!ft)
		return 0;
	t->ran = ft;
	return calltree_tick(&t->tree, &ft->ct, ft->thread);
}

/* Without ticks all in one; with them cut at each TIME that has cycles. */
int flame_tree_flow(struct flame_tree *t, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	size_t from = 0;
	int err = 0;

	for (size_t i = 0; t->ticks && i < n && !err; i++) {
		if (ev[i].kind != AUX_FLOW_TIME || !ev[i].n)
			continue;
		if (i > from)
			err = flow_some(t, ctx, ev + from, i - from);
		if (!err)
			err = tick(t, ctx);
		from = i;
	}
	return err ? err : flow_some(t, ctx, ev + from, n - from);
}

int flame_tree_finish(struct flame_tree *t)
{
	int err = calls_finish(t->calls);

	for (struct flame_thread *ft = t->threads; ft && !err; ft = ft->next)
		err = calltree_flush(&t->tree, &ft->ct, ft->thread);
	if (!err)
		calltree_sum(&t->tree);
	return err < 0 ? err : 0;
}

/* table */
static const struct {
	const char *name, *unit;
} whats[] = {
	[CALLTREE_BY_INSNS] = { "insns", "instructions" },
	[CALLTREE_BY_NS] = { "time", "ns" },
	[CALLTREE_BY_CYCLES] = { "cycles", "cycles" },
	[CALLTREE_BY_BRANCHES] = { "branches", "branches" },
};

const char *flame_unit(enum calltree_by by)
{
	return whats[by].unit;
}

int refuse_amount(bool cycles, struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			cycles ? "the trace counts no cycles: record them with "
				 "cyc (Intel PT) or cycacc (CoreSight); --by "
				 "insns always works"
			       : "the trace has no times: record them with tsc "
				 "(Intel PT) or timestamp (CoreSight); --by "
				 "insns always works");
}

struct flame_config {
	uint64_t limit;		/* -n: stacks, 0: all */
	enum calltree_by by;	/* --by */
	enum calltree_per per;	/* --per */
	double min_percent;	/* --min, of the total */
	bool svg;		/* --svg */
};

struct flame {
	struct sink_env env;
	struct flame_config config;
	struct flame_tree tree;
	uint64_t min_own;	/* -n: of the last one to be shown */
	uint64_t n_equal;	/* how many of just that are to be shown */
	uint64_t rest;
	struct outbuf *stack;	/* the line in the making */
	size_t *starts;		/* where each depth's name begins in it */
};

static void close_flame(void *sink)
{
	struct flame *f = sink;

	if (!f)
		return;
	flame_tree_fini(&f->tree);
	outbuf_free(f->stack);
	free(f->starts);
	free(f);
}

static int parse_min(const struct option_row *row, void *options,
		     const char *arg, struct aux_diag *diag)
{
	struct flame_config *config = options;
	double v;
	char *end;

	(void)row;
	v = strtod(arg, &end);
	if (end == arg || (*end && strcmp(end, "%")) || !(v >= 0 && v <= 100))
		return option_refuse(diag, "--min is a percentage, 0 to 100, "
				     "not \"%s\"", arg);
	config->min_percent = v;
	return 0;
}

static int open_flame(void **sink, const struct sink_env *env,
		      const void *options, struct aux_diag *diag)
{
	const struct flame_config *config = options;
	struct flame *f = calloc(1, sizeof(*f));
	int err;

	*sink = NULL;
	if (!f)
		return -AUX_E_NOMEM;
	f->env = *env;
	f->config = *config;
	(void)diag;
	f->tree.ticks = config->by == CALLTREE_BY_CYCLES;
	err = flame_tree_init(&f->tree, env->host, config->per, 0);
	if (!err && !(f->stack = outbuf_new(-1)))
		err = -AUX_E_NOMEM;
	if (err) {
		close_flame(f);
		return err;
	}
	*sink = f;
	return 0;
}

static int flow_flame(void *sink, const struct flow_ctx *ctx,
		      const struct aux_flow *ev, size_t n)
{
	struct flame *f = sink;
	int rc = flame_tree_flow(&f->tree, ctx, ev, n);

	f->env.report->n_insns = calls_n_insns(f->tree.calls);
	return rc;
}

/* ---- folded stacks ---- */

/* What separates frames and numbers is not part of a name. */
static void put_name(struct flame *f, uint32_t node)
{
	const struct calltree *t = &f->tree.tree;
	char buf[CALLTREE_NAME];
	const char *s = calltree_name(t, f->tree.calls, node, buf);

	if (f->stack->p != f->stack->buf)
		outbuf_put(f->stack, ";", 1);
	while (*s) {
		size_t size, n = clean_char(s, strnlen(s, 4), &size);

		if (!n || *s == ' ')
			outbuf_put(f->stack, "_", 1);
		else
			outbuf_put(f->stack, *s == ';' ? ":" : s, n);
		s += size;
	}
	if (t->nodes[node].is_kernel && t->nodes[node].func < CALLTREE_FOLDED)
		outbuf_put(f->stack, "_[k]", 4);
}

/* The stack, more of it, and a number. */
static void put_line(struct flame *f, const char *more, uint64_t n)
{
	struct outbuf *out = f->env.out;
	char number[24], *end = fmt_dec(number + 1, n);

	number[0] = ' ';
	*end++ = '\n';
	outbuf_put(out, f->stack->buf, (size_t)(f->stack->p - f->stack->buf));
	if (f->stack->p == f->stack->buf && *more == ';')
		more++;
	outbuf_str(out, more);
	outbuf_put(out, number, (size_t)(end - number));
	f->env.report->n_lines++;
}

static uint64_t own_of(const struct flame *f, uint32_t node)
{
	return calltree_get(&f->tree.tree.nodes[node].own, f->config.by);
}

static uint64_t total_of(const struct flame *f, uint32_t node)
{
	return calltree_get(&f->tree.tree.nodes[node].total, f->config.by);
}

/* A node's own line; or it is added to the rest, if -n leaves it out. Of those
 * equal to the smallest that is shown, only n_equal are. */
static void put_own(struct flame *f, uint32_t node)
{
	uint64_t own = own_of(f, node);

	if (!own)
		return;
	if (own < f->min_own || (own == f->min_own && !f->n_equal)) {
		f->rest += own;
		return;
	}
	if (own == f->min_own)
		f->n_equal--;
	if (node || f->stack->p != f->stack->buf)
		put_line(f, "", own);
	else
		put_line(f, "[unknown]", own);
}

static bool is_symbol(const struct flame *f, uint32_t node)
{
	uint32_t func = f->tree.tree.nodes[node].func;

	return func < CALLTREE_FOLDED &&
	       calls_func(f->tree.calls, func)->wanted;
}

/* --min: less than that share of all. */
static bool is_small(const struct flame *f, uint32_t node)
{
	return (double)total_of(f, node) * 100 <
	       f->config.min_percent * (double)total_of(f, 0);
}

/* Goes down into a node, after its name was appended; its small children are
 * one line. */
static void put_node(struct flame *f, uint32_t node, bool wanted)
{
	uint64_t small = 0;
	uint32_t i;

	if (wanted)
		put_own(f, node);
	else
		f->env.report->n_filtered +=
			f->tree.tree.nodes[node].own.insns;
	for (i = f->tree.tree.nodes[node].child; i && wanted;
	     i = f->tree.tree.nodes[i].next)
		small += is_small(f, i) ? total_of(f, i) : 0;
	if (small)
		put_line(f, ";[rest]", small);
}

/* All of the tree, without recursion: it may be deep. found is the node with
 * the symbol that lets all below it pass, 0: none. */
static void put_tree(struct flame *f)
{
	const struct calltree_node *nodes = f->tree.tree.nodes;
	uint32_t node = 0, found = 0;
	bool all = !f->env.symbol;

	put_node(f, 0, all);
	while (nodes[node].child || node) {
		uint32_t next = is_small(f, node) ? 0 : nodes[node].child;

		while (!next && node) {
			if (node == found)
				found = 0;
			f->stack->p = f->stack->buf +
				      f->starts[nodes[node].depth];
			next = nodes[node].next;
			if (!next)
				node = nodes[node].parent;
		}
		if (!next)
			break;
		node = next;
		f->starts[nodes[node].depth] =
			(size_t)(f->stack->p - f->stack->buf);
		put_name(f, node);
		if (!found && !all && is_symbol(f, node))
			found = node;
		if (!is_small(f, node))
			put_node(f, node, all || found);
	}
}

static int compare_values(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x > *y ? -1 : *x < *y;
}

/* -n: the smallest own value that is shown, and how many of just that. */
static int find_largest(struct flame *f)
{
	uint32_t n = f->tree.tree.n, m = 0;
	uint64_t *v;

	if (!f->config.limit || f->config.limit >= n)
		return 0;
	v = reallocarray(NULL, n, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	for (uint32_t i = 0; i < n; i++)
		v[m++] = own_of(f, i);
	qsort(v, m, sizeof(*v), compare_values);
	f->min_own = v[f->config.limit - 1];
	for (uint64_t i = f->config.limit; i && v[i - 1] == f->min_own; i--)
		f->n_equal++;
	free(v);
	return 0;
}

/* How many names are on the line at most. */
static uint32_t max_depth(const struct calltree *t)
{
	uint32_t max = 0;

	for (uint32_t i = 0; i < t->n; i++)
		if (t->nodes[i].depth > max)
			max = t->nodes[i].depth;
	return max;
}

static int print_folded(struct flame *f)
{
	f->starts = calloc(max_depth(&f->tree.tree) + 2, sizeof(*f->starts));
	if (!f->starts || find_largest(f))
		return -AUX_E_NOMEM;
	if (sink_has_parts(f->env.host))
		outbuf_str(f->env.out, FOLDED_PART);
	put_tree(f);
	f->stack->p = f->stack->buf;
	if (f->rest)
		put_line(f, "[rest]", f->rest);
	return outbuf_failed(f->stack) ? -AUX_E_NOMEM : 0;
}

static uint64_t total_insns(const struct flame *f)
{
	return f->tree.tree.nodes[0].total.insns;
}

static int finish_flame(void *sink, struct aux_diag *diag)
{
	struct flame *f = sink;
	int err = flame_tree_finish(&f->tree);

	if (!err)
		err = calltree_sort_names(&f->tree.tree, f->tree.calls);
	if (!err && !total_of(f, 0) && f->env.report->n_insns)
		return refuse_amount(f->config.by == CALLTREE_BY_CYCLES, diag);
	if (!err && f->config.svg) {
		struct flamesvg_config c = {
			.file = f->env.path,
			.by = f->config.by,
			.unit = flame_unit(f->config.by),
			.min_percent = f->config.min_percent,
			.symbol = f->env.symbol,
		};

		err = flamesvg_write(f->env.out, &f->tree.tree,
				     f->tree.calls, &c);
		f->env.report->n_lines += err > 0;
		if (!err)
			f->env.report->n_filtered = total_insns(f);
	} else if (!err) {
		err = print_folded(f);
	}
	if (err == -AUX_E_NOMEM)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	return err < 0 ? err : 0;
}

/* table */
static const struct option_row flame_options[] = {
	SINK_LIMIT(struct flame_config, "only the N largest stacks"),
	SINK_BY(struct flame_config, FLAME_BY_VALUES, FLAME_BY_HELP),
	{ .name = "per", .arg = "WHAT", .values = "thread process all",
	  .help = "a graph for each thread (the default), each process, or all",
	  OPTION_CHOICE(struct flame_config, per) },
	{ .name = "min", .arg = "PERCENT", .parse = parse_min,
	  .help = "leave out stacks below PERCENT of the total" },
	{ .name = "svg",
	  .help = "an SVG picture, for a browser",
	  OPTION_FLAG(struct flame_config, svg) },
	{ .name = NULL },
};

/* Times are looked at where they are asked for. */
static uint32_t needs_of_flame(const void *options)
{
	const struct flame_config *config = options;

	if (config->by == CALLTREE_BY_NS || config->by == CALLTREE_BY_CYCLES)
		return SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_TAKES_TIMES |
		       SINK_OWN_FORMAT;
	return SINK_TAKES_PATHS | SINK_OWN_FORMAT;
}

const struct sink_ops sink_flame = {
	.name = "flame",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_OWN_FORMAT,
	.needs_of = needs_of_flame,
	.options = flame_options,
	.config_size = sizeof(struct flame_config),
	.open = open_flame,
	.flow = flow_flame,
	.finish = finish_flame,
	.close = close_flame,
};
