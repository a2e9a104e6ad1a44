/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay: where the next stop may be, without windows: one pass over much of the
 * recording, which keeps nothing but a time. Paths that lead by no point are known as
 * such once they were looked at.
 */
#include "decode/lib/replay/impl.h"

#define ASK_EVERY 4096		/* events, between two questions whether to stop */

/* user[0] of a path */
enum { PATH_UNKNOWN = 0, PATH_BY, PATH_AT };

struct scan {
	uint32_t pid;
	const struct replay_points *points;
	bool back;
	bool (*interrupted)(void *priv);
	void *priv;
	bool found, broken;
	uint64_t time_ns;	/* of the first, or (back) of the last; or where it
				 * was interrupted */
	unsigned n;
};

size_t replay_first_point(const struct replay_points *p, uint64_t ip)
{
	size_t lo = 0, hi = p->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->v[mid] < ip)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* A point may lie between two instructions: the window will tell. */
static bool is_at(const struct scan *s, const struct aux_flow *range)
{
	size_t i = replay_first_point(s->points, range->range.first);

	return i < s->points->n && s->points->v[i] <= range->range.last;
}

static bool is_path_at(const struct scan *s, const struct aux_flow *ev)
{
	struct path_ranges ranges = { .path = ev };
	struct aux_path *path = ev->path.path;
	struct aux_flow range;
	bool at = false;

	if (path->kept && path->user[0])
		return path->user[0] == PATH_AT;
	while (!at && path_next_range(&ranges, &range))
		at = is_at(s, &range);
	if (path->kept)
		path->user[0] = at ? PATH_AT : PATH_BY;
	return at;
}

static int flow(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev,
		size_t n)
{
	uint64_t time_ns = ctx->time_ns;
	struct scan *s = sink;
	bool at = false;

	if (ctx->pid != s->pid)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind == AUX_FLOW_TIME)
			time_ns = ev[i].time.ns > time_ns ? ev[i].time.ns : time_ns;
		else if (ev[i].kind == AUX_FLOW_PATH)
			at = is_path_at(s, &ev[i]);
		else
			at = ev[i].kind == AUX_FLOW_GAP ||
			     (ev[i].kind == AUX_FLOW_RANGE && is_at(s, &ev[i]));
		if (!at)
			continue;
		at = false;
		s->found = true;
		s->time_ns = time_ns;
		if (!s->back)
			return 1;
	}
	s->n += (unsigned)n;
	if (s->n >= ASK_EVERY && s->interrupted) {
		s->n = 0;
		s->broken = s->interrupted(s->priv);
	}
	if (s->broken && !s->back)
		s->time_ns = time_ns;
	return s->broken;
}

static int finish(void *sink, struct aux_diag *diag)
{
	(void)sink;
	(void)diag;
	return 0;
}

static const struct sink_ops scan_sink = {
	.name = "scan",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_TAKES_TIMES,
	.flow = flow,
	.finish = finish,
};

int scan_points(struct replay *r, struct scan_part *part, bool back,
		bool (*interrupted)(void *priv), void *priv, struct aux_diag *diag)
{
	struct scan s = { .pid = r->pid, .points = part->points, .back = back,
			  .interrupted = interrupted, .priv = priv };
	int err;

	session_select_time(r->session, part->from, part->to);
	err = session_run(r->session, &scan_sink, &s, NULL, diag);
	part->time_ns = s.time_ns;
	part->broken = s.broken;
	return err ? err : s.found;
}
