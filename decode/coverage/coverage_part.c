/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_coverage_part: counts a chunk in a thread of its own. What a segment had is
 * packed at its cut into one list, which the session's thread adds to its own: sums
 * do not depend on the order. What does is one thing: where the jump at the end of
 * one segment went is seen in the next of the stream.
 */
#include <stdlib.h>

#include <aux/error.h>

#include "decode/coverage/coverage.h"

struct share {
	uint64_t n;
	uint32_t id;
};

struct segment {
	struct share *shares;
	struct cover_jump *jumps;
	size_t n_shares, n_jumps;
	uint64_t head;		/* as in struct cover_counter */
	uint32_t head_tid, tid, stream, prev;
	bool empty;		/* nothing came */
	uint32_t pid;		/* the lowest */
	struct sink_report report;
};

struct cover_part {
	struct cover_part *next;	/* idle */
	struct coverage *sink;
	struct cover_counter counter;
	struct segment *segments;
	size_t n_segments, max_segments, given;
	uint32_t head_tid, pid;
};

struct cover_pending *cover_pending_of(struct coverage *c, uint32_t stream)
{
	struct cover_pending *p;

	for (size_t i = 0; i < c->n_pending; i++) {
		if (c->pending[i].stream == stream)
			return &c->pending[i];
	}
	p = reallocarray(c->pending, c->n_pending + 1, sizeof(*p));
	if (!p)
		return NULL;
	c->pending = p;
	p[c->n_pending] = (struct cover_pending){ .stream = stream };
	return &p[c->n_pending++];
}

static void free_segments(struct cover_part *p)
{
	for (size_t i = 0; i < p->n_segments; i++) {
		free(p->segments[i].shares);
		free(p->segments[i].jumps);
	}
	p->n_segments = p->given = 0;
}

void cover_parts_free(struct coverage *c)
{
	struct cover_part *p, *next;

	for (p = c->idle; p; p = next) {
		next = p->next;
		cover_counter_fini(&p->counter);
		free(p->segments);
		free(p);
	}
}

int cover_part_open(void **part, const void *sink)
{
	/* the list of those that are idle is all of it that changes */
	struct coverage *c = (void *)(uintptr_t)sink;
	struct cover_part *p;

	*part = NULL;
	if (c->config.limit)
		return -AUX_E_UNSUPPORTED;
	pthread_mutex_lock(&c->lock);
	p = c->idle;
	if (p)
		c->idle = p->next;
	pthread_mutex_unlock(&c->lock);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -AUX_E_NOMEM;
		p->sink = c;
		if (cover_counter_init(&p->counter, &c->units) < 0) {
			free(p);
			return -AUX_E_NOMEM;
		}
	}
	p->pid = UINT32_MAX;
	*part = p;
	return 0;
}

void cover_part_close(void *part)
{
	struct cover_part *p = part;

	if (!p)
		return;
	free_segments(p);
	cover_counter_clear(&p->counter);
	p->counter.tid = p->counter.stream = UINT32_MAX;
	pthread_mutex_lock(&p->sink->lock);
	p->next = p->sink->idle;
	p->sink->idle = p;
	pthread_mutex_unlock(&p->sink->lock);
}

int cover_part_flow(void *part, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	struct cover_part *p = part;

	if (p->counter.open)
		p->head_tid = ctx->tid;
	cover_take_pid(&p->pid, ctx->pid);
	return cover_counter_flow(&p->counter, ctx, ev, n);
}

/* What the counter has, packed. */
static int pack(const struct cover_counter *c, struct segment *s)
{
	if (c->n_touched) {
		s->shares = reallocarray(NULL, c->n_touched,
					 sizeof(*s->shares));
		if (!s->shares)
			return -AUX_E_NOMEM;
	}
	for (size_t i = 0; i < c->n_touched; i++)
		s->shares[s->n_shares++] = (struct share){
			c->counts[c->touched[i]], c->touched[i],
		};
	if (c->n_jumps) {
		s->jumps = reallocarray(NULL, c->n_jumps, sizeof(*s->jumps));
		if (!s->jumps)
			return -AUX_E_NOMEM;
	}
	for (size_t i = 0; c->n_jumps && i < c->n_slots; i++) {
		if (c->jumps[i].id)
			s->jumps[s->n_jumps++] = c->jumps[i];
	}
	return 0;
}

int cover_part_cut(void *part)
{
	struct cover_part *p = part;
	struct cover_counter *c = &p->counter;
	size_t max = p->max_segments ? 2 * p->max_segments : 4;
	struct segment *s = p->segments;

	if (p->n_segments == p->max_segments) {
		s = reallocarray(s, max, sizeof(*s));
		if (!s)
			return -AUX_E_NOMEM;
		p->segments = s;
		p->max_segments = max;
	}
	s += p->n_segments++;
	*s = (struct segment){ .head = c->head, .head_tid = p->head_tid,
			       .tid = c->tid, .stream = c->stream,
			       .prev = c->prev, .empty = c->open,
			       .pid = p->pid, .report = c->report };
	p->pid = UINT32_MAX;
	if (pack(c, s) < 0)
		return -AUX_E_NOMEM;
	cover_counter_clear(c);
	return 0;
}

/* The jump that was open, and the one that is now. */
static int join(struct coverage *c, const struct segment *s)
{
	struct cover_pending *p;

	if (s->empty)
		return 0;
	p = cover_pending_of(c, s->stream);
	if (!p)
		return -AUX_E_NOMEM;
	if (p->id && s->head && p->tid == s->head_tid &&
	    cover_counter_jump(&c->counter, p->id, s->head, 1) < 0)
		return -AUX_E_NOMEM;
	p->id = s->prev;
	p->tid = s->tid;
	return 0;
}

int cover_part_give(void *sink, void *part)
{
	struct coverage *c = sink;
	struct cover_part *p = part;
	struct segment *s;
	int err;

	if (p->given == p->n_segments && cover_part_cut(p) < 0)
		return -AUX_E_NOMEM;
	s = &p->segments[p->given++];
	err = join(c, s);
	for (size_t i = 0; i < s->n_shares && !err; i++)
		err = cover_counter_add(&c->counter, s->shares[i].id,
					s->shares[i].n);
	for (size_t i = 0; i < s->n_jumps && !err; i++)
		err = cover_counter_jump(&c->counter, s->jumps[i].id,
					 s->jumps[i].to, s->jumps[i].n);
	c->config.report->n_insns += s->report.n_insns;
	cover_take_pid(&c->pid, s->pid);
	free(s->shares);
	free(s->jumps);
	s->shares = NULL;
	s->jumps = NULL;
	s->n_shares = s->n_jumps = 0;
	return err;
}
