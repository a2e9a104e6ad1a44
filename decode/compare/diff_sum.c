/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diff_sum: the first pass over a recording: a hash of what each thread ran, that
 * does not depend on how the flow is cut into ranges, and counts by function. A
 * function is called when control comes to its first instruction by a call, or by
 * a jump from another function.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/compare/diff.h"

static struct diff_thread *find_thread(struct diff_sum *s, uint32_t tid)
{
	struct diff_thread **bigger, *t;

	if (s->current < s->n && s->threads[s->current]->tid == tid)
		return s->threads[s->current];
	for (s->current = 0; s->current < s->n; s->current++)
		if (s->threads[s->current]->tid == tid)
			return s->threads[s->current];
	bigger = reallocarray(s->threads, s->n + 1, sizeof(*bigger));
	if (!bigger)
		return NULL;
	s->threads = bigger;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = tid;
	s->threads[s->n++] = t;
	return t;
}

static bool is_call(const struct diff_thread *t, const struct diff_func *to)
{
	switch (t->end) {
	case AUX_END_CALL:
	case AUX_END_IND_CALL:
		return true;
	case AUX_END_JUMP:
	case AUX_END_IND_JUMP:
		return t->func != to;
	}
	return false;
}

static int add_range(struct diff_sum *s, struct diff_thread *t,
		     const struct space *space, const struct aux_flow *ev)
{
	const struct diff_range *d;
	struct walk_range *r;
	int rc = diff_code_find(s->code, space, ev, &r);

	if (rc == -AUX_E_NOMEM)
		return rc;
	if (rc < 0) {
		t->n_gaps++;
		t->end = AUX_END_FALL;
		return 0;
	}
	d = r->user;
	iphash_append_block(&t->hash, &d->hash);
	for (const struct diff_part *p = d->parts; p; p = p->next) {
		p->func->insns[s->side] += p->n;
		if (p == d->parts && p->at_start && is_call(t, p->func))
			p->func->calls[s->side]++;
		t->func = p->func;
	}
	t->end = ev->what;
	return 0;
}

static int take_flow(void *priv, const struct aux_decode_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct diff_sum *s = priv;
	struct diff_thread *t = find_thread(s, ctx->tid);
	int rc = t ? 0 : -AUX_E_NOMEM;

	for (size_t i = 0; i < n && !rc; i++) {
		if (ev[i].kind == AUX_FLOW_RANGE) {
			rc = add_range(s, t, (const struct space *)ctx->space,
				       &ev[i]);
		} else if (ev[i].kind == AUX_FLOW_GAP) {
			t->n_gaps += aux_gap_is_loss(ev[i].what);
			t->end = AUX_END_FALL;
		}
	}
	if (s->tick)
		s->tick(s->tick_priv, s->code->d);
	return rc ? rc : s->enough;
}

static int compare_tids(const void *pa, const void *pb)
{
	const struct diff_thread *a = *(struct diff_thread *const *)pa;
	const struct diff_thread *b = *(struct diff_thread *const *)pb;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

int diff_sum_run(struct diff_sum *s, struct aux_diag *diag)
{
	struct aux_decode_sink sink = { .size = sizeof(sink), .priv = s,
					.flow = take_flow };
	int rc = aux_decode_run(s->code->d, &sink, diag);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < s->n; i++) {
		struct diff_thread *t = s->threads[i];

		snprintf(t->comm, sizeof(t->comm), "%s",
			 aux_decode_comm(s->code->d, t->tid, UINT64_MAX));
	}
	if (s->n)
		qsort(s->threads, s->n, sizeof(*s->threads), compare_tids);
	return 0;
}

void diff_sum_fini(struct diff_sum *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->threads[i]);
	free(s->threads);
}

static struct diff_thread *thread_of(const struct diff_sum *s, int64_t tid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->threads[i]->tid == tid)
			return s->threads[i];
	return NULL;
}

static int match_pair(struct diff_sum *a, struct diff_sum *b, int64_t tid_a,
		      int64_t tid_b, struct aux_diag *diag)
{
	struct diff_thread *ta = thread_of(a, tid_a), *tb = thread_of(b, tid_b);

	if (!ta || !tb)
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"%s has no thread %lld that ran; `auxdecode "
				"count` lists them", ta ? "B" : "A",
				(long long)(ta ? tid_b : tid_a));
	ta->match = tb;
	tb->match = ta;
	return 0;
}

int diff_match(struct diff_sum *a, struct diff_sum *b, int64_t tid_a,
	       int64_t tid_b, struct aux_diag *diag)
{
	if (tid_a >= 0)
		return match_pair(a, b, tid_a, tid_b, diag);
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++) {
			struct diff_thread *ta = a->threads[i];
			struct diff_thread *tb = b->threads[k];

			if (tb->match || strcmp(ta->comm, tb->comm))
				continue;
			ta->match = tb;
			tb->match = ta;
			break;
		}
	/* the only ones left: a program of another name */
	if (a->n == 1 && b->n == 1 && !a->threads[0]->match)
		return match_pair(a, b, a->threads[0]->tid, b->threads[0]->tid,
				  diag);
	return 0;
}
