/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flow of a recording as rows of sums, for each kind. The numbers are those of the
 * command of the same name, and come from where it has them: calls and their times from
 * callstack/, whole calls from find.h, instructions from count.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/outbuf.h"
#include "decode/callstack/calltimes.h"
#include "decode/callstack/flowtree.h"
#include "decode/callstack/names.h"
#include "decode/fleet/fleet.h"
#include "decode/lib/code/code.h"
#include "decode/sink/count.h"
#include "decode/sink/find.h"

struct fleet_sink {
	struct sink_env env;
	struct fleet_sink_config config;
	struct fleet_rows *rows;
	struct outbuf *key;		/* in memory */
	/* count and gaps */
	struct counter counter;
	uint32_t stream, pid, tid;	/* of counter.run */
	struct count_pool *pool;	/* count */
	/* hot, flame, calls */
	struct flowtree tree;
	/* latency */
	struct find_watch *watch;
};

static void close_sink(void *sink)
{
	struct fleet_sink *k = sink;

	if (!k)
		return;
	counter_fini(&k->counter);
	count_pool_free(k->pool);
	flowtree_fini(&k->tree);
	find_watch_free(k->watch);
	fleet_rows_free(k->rows);
	outbuf_free(k->key);
	free(k);
}

/* What all kinds have. NULL: out of memory. */
static struct fleet_sink *new_sink(const struct sink_env *env, const void *config)
{
	struct fleet_sink *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->env = *env;
	k->config = *(const struct fleet_sink_config *)config;
	k->rows = fleet_rows_new(k->config.kind);
	k->key = outbuf_new(-1);
	if (k->rows && k->key)
		return k;
	close_sink(k);
	return NULL;
}

static void begin_key(struct fleet_sink *k)
{
	k->key->p = k->key->buf;
}

/* Adds to the row of the key that was put together. */
static int add(struct fleet_sink *k, const uint64_t *values)
{
	if (outbuf_failed(k->key))
		return -AUX_E_NOMEM;
	return fleet_rows_add(k->rows, k->key->buf, (size_t)(k->key->p - k->key->buf), values);
}

static int write_rows(struct fleet_sink *k)
{
	fleet_rows_write(k->rows, k->env.out);
	return 0;
}

/* ---- count ---- */

/* A thread id, or "-" where it is not known. */
static void put_id(struct fleet_sink *k, uint32_t id)
{
	if (id == UINT32_MAX)
		fleet_field(k->key, "-");
	else
		fleet_field_number(k->key, id);
}

static int flush_count(struct fleet_sink *k)
{
	struct count_run *run = &k->counter.run;
	const uint64_t values[] = { run->n, run->n_branches, run->n_gaps, run->n_payloads };

	if (!(run->n | run->n_branches | run->n_gaps | run->n_payloads))
		return 0;
	begin_key(k);
	fleet_field(k->key, k->config.id);
	fleet_field_number(k->key, k->stream);
	put_id(k, k->pid);
	put_id(k, k->tid);
	*run = (struct count_run){ 0 };
	return add(k, values);
}

/* What does not fit the code is in the sink's report, and ends in a warning. */
static int note_mismatch(void *priv, const struct flow_ctx *ctx, const struct aux_flow *ev,
			 int err)
{
	(void)priv;
	(void)ctx;
	(void)ev;
	(void)err;
	return 0;
}

static int open_count(void **sink, const struct sink_env *env, const void *config,
		      struct aux_diag *diag)
{
	struct fleet_sink *k = new_sink(env, config);

	(void)diag;
	*sink = k;
	if (!k || count_pool_new(&k->pool, env->host))
		return -AUX_E_NOMEM;
	k->counter.mismatch = note_mismatch;
	return counter_init(&k->counter, env->host);
}

/* What follows is of this thread. */
static int begin_count(struct fleet_sink *k, uint32_t stream, uint32_t pid, uint32_t tid)
{
	int err = 0;

	if (tid != k->tid || stream != k->stream || pid != k->pid) {
		err = flush_count(k);
		k->tid = tid;
		k->pid = pid;
		k->stream = stream;
	}
	return err;
}

static int flow_count(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev, size_t n)
{
	struct fleet_sink *k = sink;
	struct sink_report *to = k->env.report, *from = &k->counter.report;
	int err = begin_count(k, ctx->stream, ctx->pid, ctx->tid);

	if (!err)
		err = counter_add(&k->counter, ctx, ev, n);
	to->n_insns += from->n_insns;
	to->n_mismatches += from->n_mismatches;
	*from = (struct sink_report){ 0 };
	return err;
}

static int new_count_part(void **partial, const void *sink)
{
	return count_part_new(partial, ((const struct fleet_sink *)sink)->pool);
}

static int join_count_run(void *sink, struct count_part_run *run)
{
	struct fleet_sink *k = sink;
	struct count_run *sum = &k->counter.run;
	int err = begin_count(k, run->stream, run->pid, run->tid);

	k->env.report->n_insns += run->run.n;
	sum->n += run->run.n;
	sum->n_branches += run->run.n_branches;
	sum->n_gaps += run->run.n_gaps;
	sum->n_payloads += run->run.n_payloads;
	return err;
}

static void join_count_mismatch(void *sink, const struct count_part_mismatch *m)
{
	struct sink_report *report = ((struct fleet_sink *)sink)->env.report;

	report->n_mismatches++;
	report->n_insns += m->ev.n;
}

static int join_count(void *sink, void *partial, uint32_t stint)
{
	const struct count_part_to to = { sink, join_count_run, join_count_mismatch };

	return count_part_join(partial, stint, &to);
}

static int finish_count(void *sink, struct aux_diag *diag)
{
	struct fleet_sink *k = sink;
	int err = flush_count(k);

	(void)diag;
	return err ? err : write_rows(k);
}

#define TREE_NEEDS                                                                   \
	(SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_TAKES_TIMES | SINK_OWN_FORMAT | \
	 FLOWPART_NEEDS)
/* The tree's partial results, and what joins them. */
#define TREE_PARTIALS                                                                \
	.partial_new = new_tree_part, .partial_flow = flowpart_flow,                 \
	.partial_end = flowpart_end, .partial_bytes = flowpart_bytes,                \
	.partial_join = join_tree, .partial_free = flowpart_free

const struct sink_ops fleet_sink_count = {
	.name = "map", .needs = SINK_TAKES_PATHS | SINK_OWN_FORMAT | SINK_THREAD_ORDER,
	.open = open_count, .flow = flow_count, .finish = finish_count, .close = close_sink,
	.partial_new = new_count_part, .partial_flow = count_part_flow,
	.partial_end = count_part_end, .partial_join = join_count,
	.partial_free = count_part_free,
};

/* ---- gaps ---- */

static int open_plain(void **sink, const struct sink_env *env, const void *config,
		      struct aux_diag *diag)
{
	(void)diag;
	*sink = new_sink(env, config);
	return *sink ? 0 : -AUX_E_NOMEM;
}

static int flow_gaps(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev, size_t n)
{
	struct fleet_sink *k = sink;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		const uint64_t one = 1;

		if (ev[i].kind == AUX_FLOW_PATH || ev[i].kind == AUX_FLOW_RANGE)
			k->env.report->n_insns += ev[i].n;
		if (ev[i].kind != AUX_FLOW_GAP || ev[i].what == GAP_SNAPSHOT)
			continue;
		begin_key(k);
		fleet_field(k->key, k->config.id);
		fleet_field_number(k->key, ctx->stream);
		fleet_field(k->key, gap_name(ev[i].what));
		err = add(k, &one);
	}
	return err;
}

static int finish_plain(void *sink, struct aux_diag *diag)
{
	(void)diag;
	return write_rows(sink);
}

const struct sink_ops fleet_sink_gaps = {
	.name = "map", .needs = SINK_TAKES_PATHS | SINK_OWN_FORMAT, .open = open_plain,
	.flow = flow_gaps, .finish = finish_plain, .close = close_sink,
};

/* ---- values ---- */

/* Where it was written: a place in a function, or the channel of a trace source. */
static void put_source(struct fleet_sink *k, const struct flow_ctx *ctx, const struct aux_flow *ev)
{
	const struct sink_host *host = k->env.host;
	struct symbol sym = { 0 };
	uint64_t ip = ev->payload.ip;
	bool at = ev->what == AUX_PAYLOAD_PTWRITE;
	char text[512] = "-";

	if (at && ev->flags & AUX_FLOW_HAS_IP) {
		if (!ctx->space || !host->symbol || host->symbol(host->priv, ctx->space, ip, &sym))
			sym.name = NULL;
		if (sym.name)
			snprintf(text, sizeof(text), "%s+0x%" PRIx64,
				 names_shown(host->names, sym.name), ip - sym.start);
		else
			snprintf(text, sizeof(text), "0x%" PRIx64, ip);
	} else if (ev->what == AUX_PAYLOAD_STM || ev->what == AUX_PAYLOAD_MARKER) {
		snprintf(text, sizeof(text), "%" PRIu32 ".%" PRIu32, (uint32_t)(ip >> 32),
			 (uint32_t)ip);
	} else if (!at) {
		snprintf(text, sizeof(text), "%" PRIu64, ip);
	}
	fleet_field(k->key, text);
	fleet_field(k->key, sym.dso ? sym.dso : "-");
}

static int add_value(struct fleet_sink *k, const struct flow_ctx *ctx, const struct aux_flow *ev)
{
	static const char *const names[] = {
		[AUX_PAYLOAD_PTWRITE] = "ptwrite", [AUX_PAYLOAD_STM] = "stm",
		[AUX_PAYLOAD_ITM] = "itm", [AUX_PAYLOAD_MARKER] = "marker",
		[AUX_PAYLOAD_ITE] = "ite",
	};
	const uint64_t one = 1;
	char text[24];

	begin_key(k);
	fleet_field(k->key, ev->what < sizeof(names) / sizeof(names[0]) ? names[ev->what] : "-");
	put_source(k, ctx, ev);
	fleet_field_number(k->key, ev->n);
	snprintf(text, sizeof(text), "%0*" PRIx64, ev->n <= 8 ? (int)ev->n * 2 : 16,
		 ev->payload.value);
	fleet_field(k->key, ev->n ? text : "-");
	return add(k, &one);
}

static int flow_values(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev, size_t n)
{
	struct fleet_sink *k = sink;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		if (ev[i].kind == AUX_FLOW_PATH || ev[i].kind == AUX_FLOW_RANGE)
			k->env.report->n_insns += ev[i].n;
		if (ev[i].kind != AUX_FLOW_PAYLOAD)
			continue;
		k->env.report->n_payloads++;
		err = add_value(k, ctx, &ev[i]);
	}
	return err;
}

const struct sink_ops fleet_sink_values = {
	.name = "map", .needs = SINK_TAKES_PATHS | SINK_OWN_FORMAT, .open = open_plain,
	.flow = flow_values, .finish = finish_plain, .close = close_sink,
};

/* ---- hot ---- */

static int open_tree(void **sink, const struct sink_env *env, const void *config,
		     struct aux_diag *diag)
{
	struct fleet_sink *k = new_sink(env, config);

	(void)diag;
	*sink = k;
	if (!k)
		return -AUX_E_NOMEM;
	k->tree.ticks = true;
	return flowtree_init(&k->tree, env->host, CALLTREE_PER_ALL, 0);
}

static int flow_tree(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev, size_t n)
{
	struct fleet_sink *k = sink;
	int err = flowtree_flow(&k->tree, ctx, ev, n);

	k->env.report->n_insns = calls_n_insns(k->tree.calls);
	return err;
}

static int new_tree_part(void **part, const void *sink)
{
	const struct fleet_sink *k = sink;

	return flowpart_new(part, &k->tree);
}

static int join_tree(void *sink, void *part, uint32_t stint)
{
	struct fleet_sink *k = sink;
	int err = flowpart_join(&k->tree, part, stint);

	k->env.report->n_insns = calls_n_insns(k->tree.calls);
	return err;
}

static int add_func(struct fleet_sink *k, const char *name, const char *dso,
		    const struct calltree_func *f)
{
	const struct call_count *own = &f->own, *total = &f->total;
	const uint64_t values[] = { own->insns, own->ns, own->cycles, own->branches,
				    total->insns, total->ns, total->cycles, total->branches,
				    f->calls };

	begin_key(k);
	fleet_field(k->key, name);
	fleet_field(k->key, dso ? dso : "-");
	return add(k, values);
}

/* What is no function: time off the CPU, not traced, lost. It is not called: in how many
 * pieces that time was charged depends on how the flow was cut. */
static int add_others(struct fleet_sink *k)
{
	const struct calltree *t = &k->tree.tree;
	struct calltree_func sums[CALLTREE_N_OTHERS] = { 0 };
	int err = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct calltree_node *node = &t->nodes[i];
		struct calltree_func *f;

		if (!calltree_is_away(node->func))
			continue;
		f = &sums[CALLTREE_GAP - node->func];
		f->own = call_plus(f->own, node->own);
		f->calls += node->calls;
	}
	for (uint32_t i = 0; i < CALLTREE_N_OTHERS && !err; i++) {
		bool charged = sums[i].calls;

		sums[i].total = sums[i].own;
		sums[i].calls = 0;
		if (charged)
			err = add_func(k, calltree_other(CALLTREE_GAP - i), NULL, &sums[i]);
	}
	return err;
}

static int finish_hot(void *sink, struct aux_diag *diag)
{
	struct fleet_sink *k = sink;
	int err = flowtree_finish(&k->tree);
	size_t n = calls_n_funcs(k->tree.calls);
	struct calltree_func *sums = err ? NULL : calltree_funcs(&k->tree.tree, n);
	char text[512];

	(void)diag;
	if (!err && !sums)
		err = -AUX_E_NOMEM;
	for (uint32_t i = 0; i < n && !err; i++) {
		const struct call_func *f = calls_func(k->tree.calls, i);

		if (!sums[i].calls && !sums[i].own.insns)
			continue;
		if (!f->name)
			call_func_name(f, text, sizeof(text));
		err = add_func(k, f->name ? f->name : text, f->dso, &sums[i]);
	}
	if (!err)
		err = add_others(k);
	free(sums);
	return err ? err : write_rows(k);
}

const struct sink_ops fleet_sink_hot = {
	.name = "map", .needs = TREE_NEEDS, .open = open_tree,
	.flow = flow_tree, .finish = finish_hot, .close = close_sink, TREE_PARTIALS,
};

/* ---- calls: who called what ---- */

static void put_func(struct fleet_sink *k, const struct call_func *f)
{
	char text[512];

	if (!f->name)
		call_func_name(f, text, sizeof(text));
	fleet_field(k->key, f->name ? f->name : text);
	fleet_field(k->key, f->dso ? f->dso : "-");
}

/* A function or what stands for one, and its file. */
static void put_called(struct fleet_sink *k, uint32_t func)
{
	if (func < CALLTREE_FOLDED) {
		put_func(k, calls_func(k->tree.calls, func));
		return;
	}
	fleet_field(k->key, func == CALLTREE_ROOT ? "-" : calltree_other(func));
	fleet_field(k->key, "-");
}

static int add_call(struct fleet_sink *k, uint32_t func, uint32_t caller,
		    const struct calltree_func *sum)
{
	const uint64_t values[] = { sum->calls, sum->total.ns, sum->total.insns, sum->own.ns,
				    sum->own.insns };

	begin_key(k);
	put_called(k, func);
	put_called(k, caller);
	return add(k, values);
}

static int finish_calls(void *sink, struct aux_diag *diag)
{
	struct fleet_sink *k = sink;
	const struct calltree *t = &k->tree.tree;
	int err = flowtree_finish(&k->tree);

	(void)diag;
	for (uint32_t i = 1; i < t->n && !err; i++) {
		const struct calltree_node *n = &t->nodes[i];
		const struct calltree_func sum = { .own = n->own, .total = n->total,
						   .calls = n->calls };

		if (n->func <= CALLTREE_FOLDED && (n->calls || n->total.insns || n->total.ns))
			err = add_call(k, n->func, t->nodes[n->parent].func, &sum);
	}
	/* where the tree had no more room: who called, and what it called, is not known */
	for (uint32_t i = 0; i < t->n_folded && !err; i++) {
		struct calltree_func sum = t->folded[i];

		sum.total = sum.own;
		if (sum.calls)
			err = add_call(k, i, CALLTREE_FOLDED, &sum);
	}
	return err ? err : write_rows(k);
}

const struct sink_ops fleet_sink_calls = {
	.name = "map", .needs = TREE_NEEDS, .open = open_tree,
	.flow = flow_tree, .finish = finish_calls, .close = close_sink, TREE_PARTIALS,
};

/* ---- flame ---- */

/* The row of a node: what ran in it alone. */
static int add_stack(struct fleet_sink *k, uint32_t node)
{
	const struct call_count *own = &k->tree.tree.nodes[node].own;
	const uint64_t values[] = { own->insns, own->ns, own->cycles, own->branches };

	if (!(own->insns | own->ns | own->cycles | own->branches))
		return 0;
	if (k->key->p == k->key->buf)
		return fleet_rows_add(k->rows, "[unknown]", strlen("[unknown]"), values);
	return add(k, values);
}

static int finish_flame(void *sink, struct aux_diag *diag)
{
	struct fleet_sink *k = sink;
	const struct calltree *t = &k->tree.tree;
	int err = flowtree_finish(&k->tree);
	size_t *starts = calloc(calltree_depth(t) + 1, sizeof(*starts));
	uint32_t node = 0, next;

	(void)diag;
	if (!starts)
		return -AUX_E_NOMEM;
	begin_key(k);
	err = err ? err : add_stack(k, 0);
	for (; !err && (next = calltree_next(t, node, true)); node = next) {
		calltree_fold(k->key, starts, t, k->tree.calls, node, next);
		err = add_stack(k, next);
	}
	free(starts);
	return err ? err : write_rows(k);
}

const struct sink_ops fleet_sink_flame = {
	.name = "map", .needs = TREE_NEEDS, .open = open_tree,
	.flow = flow_tree, .finish = finish_flame, .close = close_sink, TREE_PARTIALS,
};

/* ---- latency ---- */

/* Whole calls alone, as for the command latency: what has a fault is no measurement. */
static int on_leave(void *priv, struct call_thread *t, unsigned marks, enum call_end end,
		    enum find_fault fault, const struct call_count *took)
{
	struct fleet_sink *k = priv;
	const uint64_t values[] = { 1, took->ns, took->ns, took->ns };
	char text[24];

	(void)marks;
	(void)end;
	if (fault != FIND_WHOLE)
		return 0;
	begin_key(k);
	put_func(k, t->frames[t->depth - 1].func);
	snprintf(text, sizeof(text), "%04" PRIu32, calltimes_bucket(took->ns));
	fleet_field(k->key, text);
	return add(k, values);
}

static const struct find_ops on_calls = { .leave = on_leave };

static int open_latency(void **sink, const struct sink_env *env, const void *config,
			struct aux_diag *diag)
{
	struct fleet_sink *k = new_sink(env, config);
	struct find_watch_config watch = { .ops = &on_calls, .by = FIND_BY_TIME, .all = true };

	*sink = k;
	if (!k)
		return -AUX_E_NOMEM;
	watch.env = &k->env;
	watch.priv = k;
	return find_watch_new(&k->watch, &watch, diag);
}

static int flow_latency(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev,
			size_t n)
{
	struct fleet_sink *k = sink;

	return find_watch_flow(k->watch, ctx, ev, n);
}

static int finish_latency(void *sink, struct aux_diag *diag)
{
	struct fleet_sink *k = sink;
	int err = find_watch_finish(k->watch);

	if (!err)
		err = find_watch_check(k->watch, diag);
	return err ? err : write_rows(k);
}

const struct sink_ops fleet_sink_latency = {
	.name = "map", .needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_OWN_FORMAT,
	.open = open_latency, .flow = flow_latency, .finish = finish_latency,
	.close = close_sink,
};
