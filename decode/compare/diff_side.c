/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diff_side: one thread's flow as a row of instructions, of which a window is held.
 * A GAP is an element too, equal to no other: it parts the flows where it is.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/compare/diff.h"
#include "decode/lib/trace/gap.h"

#define BEHIND (4 * DIFF_CONTEXT)	/* kept before head */

void diff_side_init(struct diff_side *s, struct diff_code *code, uint32_t tid)
{
	*s = (struct diff_side){ .code = code, .tid = tid };
	api_select(code->d, tid);
}

void diff_side_fini(struct diff_side *s)
{
	free(s->v);
	s->v = NULL;
}

static int make_room(struct diff_side *s, size_t n)
{
	size_t drop = s->head > BEHIND ? s->head - BEHIND : 0;
	size_t want = s->max ? s->max : 8192;
	struct diff_elem *bigger;

	if (s->n + n <= s->max)
		return 0;
	if (drop)
		memmove(s->v, s->v + drop, (s->n - drop) * sizeof(*s->v));
	s->n -= drop;
	s->head -= drop;
	while (want < 2 * (s->n + n))
		want *= 2;
	if (want == s->max)
		return 0;
	bigger = reallocarray(s->v, want, sizeof(*bigger));
	if (!bigger)
		return -AUX_E_NOMEM;
	s->v = bigger;
	s->max = want;
	return 0;
}

static int add_gap(struct diff_side *s, const struct space *space, uint64_t ip,
		   unsigned cause)
{
	if (make_room(s, 1))
		return -AUX_E_NOMEM;
	s->v[s->n++] = (struct diff_elem){ .key = ++s->n_gaps, .ip = ip,
					   .space = space,
					   .gap = (uint8_t)cause };
	return 0;
}

static int add_range(struct diff_side *s, const struct space *space,
		     const struct aux_flow *ev)
{
	const struct diff_range *d;
	struct diff_elem *e;
	struct walk_range *r;
	int rc = diff_code_find(s->code, space, ev, &r);

	if (rc < 0)
		return rc == -AUX_E_NOMEM ? rc :
		       add_gap(s, space, ev->range.first,
			       rc == -AUX_E_NOENT ? AUX_GAP_NO_CODE :
						    AUX_GAP_DESYNC);
	if (make_room(s, r->n))
		return -AUX_E_NOMEM;
	d = r->user;
	e = s->v + s->n;
	for (uint32_t i = 0; i < r->n; i++)
		e[i] = (struct diff_elem){ .key = d->key + r->off[i],
					   .ip = r->first + r->off[i],
					   .space = space, .mode = r->mode };
	s->n += r->n;
	return 0;
}

/* One event. */
static int add_event(struct diff_side *s, const struct aux_flow *ev)
{
	const struct space *space = (const struct space *)s->batch.ctx.space;

	if (s->batch.ctx.tid != s->tid)
		return 0;
	if (ev->kind == AUX_FLOW_RANGE)
		return add_range(s, space, ev);
	if (ev->kind == AUX_FLOW_GAP && aux_gap_is_loss(ev->what))
		return add_gap(s, space, ev->gap.ip, ev->what);
	return 0;
}

int diff_side_need(struct diff_side *s, size_t n, struct aux_diag *diag)
{
	int rc = 0;

	while (rc >= 0 && !s->ended && diff_side_left(s) < n) {
		if (s->at < s->batch.n) {
			rc = add_event(s, &s->batch.events[s->at++]);
			continue;
		}
		s->at = 0;
		rc = aux_decode_next(s->code->d, &s->batch, diag);
		s->ended = rc == 0;
	}
	return rc < 0 ? rc : 0;
}

void diff_side_take(struct diff_side *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s->index += !s->v[s->head + i].gap;
	s->head += n;
}
