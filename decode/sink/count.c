/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count: how many instructions, per thread and per stream, and a hash of
 * their addresses in order. See count.h.
 */
#include <stdlib.h>

#include "common/diag.h"

#include "decode/sink/columns.h"
#include "decode/sink/count.h"
#include "decode/sink/sink.h"

static void close_count(void *sink)
{
	struct count *c = sink;

	if (!c)
		return;
	if (c->counter)
		counter_fini(c->counter);
	free(c->counter);
	walk_free(c->walk);
	count_parts_free(c->parts);
	count_totals_fini(&c->totals);
	free(c);
}

static int report_mismatch(void *priv, const struct flow_ctx *ctx,
			   const struct aux_flow *ev, int err)
{
	struct count *c = priv;

	print_mismatch(c->config.out, c->config.host, ctx, ev, err);
	return 0;
}

/* No limit, no filter, no SHA-256. */
static int open_plain(struct count *c)
{
	int err = count_parts_new(&c->parts, c->config.host);

	if (err)
		return err;
	c->counter = calloc(1, sizeof(*c->counter));
	if (!c->counter)
		return -AUX_E_NOMEM;
	c->counter->mismatch = report_mismatch;
	c->counter->priv = c;
	return counter_init(c->counter, c->config.host);
}

static int open_count(void **sink, const struct sink_config *config,
		      struct aux_diag *diag)
{
	struct count *c;
	int err;

	*sink = NULL;
	if (config->fields)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"count has no columns: -F is for insn and "
				"branch");
	c = calloc(1, sizeof(*c));
	if (!c)
		return -AUX_E_NOMEM;
	c->config = *config;
	count_totals_init(&c->totals);
	err = config->limit || config->symbol || config->sha256
		      ? count_slow_new(c)
		      : open_plain(c);
	if (err) {
		close_count(c);
		return err;
	}
	*sink = c;
	return 0;
}

void count_flush(struct count *c)
{
	count_totals_add(&c->totals, c->counter ? &c->counter->run : &c->run);
}

static int flow_count(void *sink, const struct flow_ctx *ctx,
		      const struct aux_flow *ev, size_t n)
{
	struct count *c = sink;
	const struct tally *thread = c->totals.threads.current;
	struct sink_report *to = c->config.report, *from;
	int err;

	if (!thread || thread->id != ctx->tid ||
	    c->totals.streams.current->id != ctx->stream) {
		count_flush(c);
		if (count_totals_select(&c->totals, ctx->tid, ctx->stream))
			return -AUX_E_NOMEM;
	}
	if (!c->counter)
		return count_slow_flow(c, ctx, ev, n);
	err = counter_add(c->counter, ctx, ev, n);
	from = &c->counter->report;
	to->n_insns += from->n_insns;
	to->n_lines += from->n_lines;
	to->n_mismatches += from->n_mismatches;
	*from = (struct sink_report){ 0 };
	return err;
}

static int finish_count(void *sink, struct aux_diag *diag)
{
	struct count *c = sink;

	(void)diag;
	count_flush(c);
	count_totals_print(&c->totals, c->config.out, c->config.sha256);
	return 0;
}

const struct sink_ops sink_count = {
	.name = "count",
	.help = "instructions per thread and per stream, with a hash",
	.needs = SINK_TAKES_PATHS,
	.open = open_count,
	.flow = flow_count,
	.finish = finish_count,
	.close = close_count,
	.part_open = count_part_open,
	.part_flow = count_part_flow,
	.part_cut = count_part_cut,
	.part_give = count_part_give,
	.part_close = count_part_close,
};
