/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_insn_path: the lines of steps and paths. A step's text is put together from
 * those of its ranges, a path's, when it comes often, from those of its steps.
 */
#include "decode/sink/insn.h"

#define STEP_BYTES ((size_t)96 << 20)

int insn_path_init(struct insn *s)
{
	text_store_init(&s->steps, STEP_BYTES);
	return text_maker_init(&s->joiner) ||
			       text_paths_init(&s->paths, &s->columns)
		       ? -AUX_E_NOMEM
		       : 0;
}

void insn_path_fini(struct insn *s)
{
	text_store_fini(&s->steps);
	text_maker_fini(&s->joiner);
	text_paths_fini(&s->paths);
}

/* Range by range: what has a column among others, a limit that is near, or a range
 * that does not fit the code. */
static int put_ranges(struct insn *s, const struct flow_ctx *ctx,
		      const struct aux_step *step, uint64_t offset)
{
	struct aux_flow ev;
	int err = 0;

	for (uint32_t i = 0; i < step->n_ranges && !err; i++) {
		ev = step->ranges[i];
		ev.offset = offset;
		err = insn_range(s, ctx, &ev);
	}
	return err;
}

/* NULL without an error: it goes range by range. */
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
		err = insn_text(s, ctx, &step->ranges[i], &t);
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
	insn_put(s, t, t->n, step->n_insns);
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

static int put_slowly(struct insn *s, const struct flow_ctx *ctx,
		      const struct aux_flow *ev)
{
	const struct aux_path *path = ev->path.path;
	int err = 0;

	for (uint32_t i = 0; i < path->n_steps && !err; i++)
		err = put_ranges(s, ctx, path->steps[i], ev->offset);
	return err;
}

int insn_path(struct insn *s, const struct flow_ctx *ctx,
	      const struct aux_flow *ev)
{
	struct sink_report *report = s->config.report;
	struct aux_path *path = ev->path.path;
	const struct text_ends *text = text_paths_find(&s->paths, path);
	uint64_t limit = s->config.limit;
	int err = 0;

	s->ran = text ? text->last.range.last : flow_last_ip(ev);
	if (s->columns.mixed ||
	    (limit && limit - report->n_lines <= path->n_insns))
		return put_slowly(s, ctx, ev);
	if (s->columns.has & COLUMN_BIT(COL_OFFSET))
		insn_lead(s, ctx, ev->offset);
	if (text && text_paths_put(&s->paths, s->config.out, &s->lead, text,
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
