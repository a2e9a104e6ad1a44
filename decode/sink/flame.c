/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_flame: all calls as a flame graph: folded stacks, a line each, as
 * flamegraph.pl and many others read them; or our own picture, flame_svg.c.
 *
 * Nothing is lost: the numbers of all lines add up to what ran. What --min or
 * -n leaves out is in lines of its own, "[rest]".
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "common/outbuf.h"
#include "decode/sink/impl.h"
#include "decode/sink/sink.h"

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
	struct flowtree tree;
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
	flowtree_fini(&f->tree);
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
	err = flowtree_init(&f->tree, env->host, config->per, 0);
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
	int rc = flowtree_flow(&f->tree, ctx, ev, n);

	f->env.report->n_insns = calls_n_insns(f->tree.calls);
	return rc;
}

/* ---- partial results ---- */

static int flame_partial_new(void **partial, const void *sink)
{
	const struct flame *f = sink;

	return flowpart_new(partial, &f->tree);
}

static int flame_partial_join(void *sink, void *partial, uint32_t stint)
{
	struct flame *f = sink;
	int rc = flowpart_join(&f->tree, partial, stint);

	f->env.report->n_insns = calls_n_insns(f->tree.calls);
	return rc;
}

/* ---- folded stacks ---- */

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

/* All of the tree. found is the node with the symbol that lets all below it pass, 0:
 * none. */
static void put_tree(struct flame *f)
{
	const struct calltree *t = &f->tree.tree;
	uint32_t node = 0, next, found = 0;
	bool all = !f->env.symbol;

	put_node(f, 0, all);
	for (; (next = calltree_next(t, node, !is_small(f, node))); node = next) {
		if (found && t->nodes[next].depth <= t->nodes[found].depth)
			found = 0;
		calltree_fold(f->stack, f->starts, t, f->tree.calls, node, next);
		if (!found && !all && is_symbol(f, next))
			found = next;
		if (!is_small(f, next))
			put_node(f, next, all || found);
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

static int print_folded(struct flame *f)
{
	f->starts = calloc(calltree_depth(&f->tree.tree) + 1, sizeof(*f->starts));
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
	int err = flowtree_finish(&f->tree);

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
			.full_names = f->env.full_names,
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
		       SINK_OWN_FORMAT | FLOWPART_NEEDS;
	return SINK_TAKES_PATHS | SINK_TAKES_TIMES | SINK_OWN_FORMAT | FLOWPART_NEEDS;
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
	.partial_new = flame_partial_new,
	.partial_flow = flowpart_flow,
	.partial_end = flowpart_end,
	.partial_bytes = flowpart_bytes,
	.partial_join = flame_partial_join,
	.partial_free = flowpart_free,
};
