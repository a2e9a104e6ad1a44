/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_branch_path: the branches inside of a path lead from one range to the next:
 * their lines depend on nothing else, and are kept with a path that comes often.
 * The one that leads into it, and the one at its end, are those of ranges.
 */
#include "decode/sink/branch.h"

static int put_slowly(struct branch *b, const struct flow_ctx *ctx,
		      struct edge *e, const struct aux_flow *ev)
{
	const struct aux_path *path = ev->path.path;
	struct aux_flow range;
	int err = 0;

	for (uint32_t i = 0; i < path->n_steps; i++) {
		const struct aux_step *step = path->steps[i];

		for (uint32_t k = 0; k < step->n_ranges && !err; k++) {
			range = step->ranges[k];
			range.offset = ev->offset;
			err = branch_range(b, ctx, e, &range);
		}
	}
	return err;
}

/* The line of a branch that goes to an address, if it is one and is taken. */
static int render_edge(struct branch *b, const struct flow_ctx *ctx,
		       struct edge *e, uint64_t to)
{
	e->to = (struct place){ .known = true, .space = ctx->space, .ip = to };
	if (!e->kind || !branch_is_shown(b, e, &e->to))
		return 0;
	if (!branch_render(b, e, &b->paths.maker))
		return 0;
	return text_maker_end_line(&b->paths.maker);
}

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

int branch_path(struct branch *b, const struct flow_ctx *ctx, struct edge *e,
		const struct aux_flow *ev, uint64_t *last_ip)
{
	struct sink_report *report = b->config.report;
	struct aux_path *path = ev->path.path;
	const struct text_ends *text = text_paths_find(&b->paths, path);
	uint64_t limit = b->config.limit;
	struct aux_flow last;
	int err;

	*last_ip = text ? text->last.range.last : flow_last_ip(ev);
	if (b->columns.mixed ||
	    (limit && limit - report->n_lines <= path->n_ranges + 1))
		return put_slowly(b, ctx, e, ev);
	e->left = false;
	err = branch_settle(b, ctx, e,
			    text ? text->first
				 : path->steps[0]->ranges[0].range.first);
	if (err)
		return err;
	lead_update(&b->lead, &b->columns, ctx, b->config.host, ev->offset);
	if (!text || !text_paths_put(&b->paths, b->config.out, &b->lead, text,
				     report)) {
		if (text_paths_is_due(&b->paths, path))
			err = keep_path(b, ctx, path);
		return err ? err : put_slowly(b, ctx, e, ev);
	}
	last = text->last;
	last.offset = ev->offset;
	report->n_insns += path->n_insns;
	*e = branch_at_end(b, ctx, &last);
	return 0;
}
