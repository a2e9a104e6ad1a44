/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay: the callers of what runs, found by going back.
 *
 * Back over a return, the call that it returned from is no caller; a call that is met
 * while no return waits for it is one. Returns wait by their addresses, so what ended
 * by longjmp or an exception, without a return of its own, does not count as a caller:
 * the call that it left is met while an older return waits. An interrupt or signal is a
 * call of its handler, with the instruction that did not run as its return address.
 */
#include "common/array.h"
#include "decode/lib/replay/impl.h"

#define MAX_BACK (16u << 20)	/* records that are looked at */
#define MAX_LOOK 256		/* returns that may have been skipped */

struct search {
	struct walker k;
	uint32_t tid;
	uint64_t *returns;	/* addresses that returns led to, and whose calls are
				 * still to come */
	size_t n_returns, cap_returns;
	uint64_t next;		/* where the thread went on after the record at k; 0:
				 * not known */
	struct replay_frame *frames;
	size_t n, max;
	/* how many calls were met at the same time, later ones */
	uint64_t time_ns;
};

/* A call whose return address is back came by. True: it is a caller. */
static bool is_caller(struct search *s, uint64_t back)
{
	for (size_t i = s->n_returns, n = 0; i-- && n < MAX_LOOK; n++) {
		if (s->returns[i] != back)
			continue;
		s->n_returns = i;
		return false;
	}
	return !s->n_returns;
}

/* How many records of that time are before it in the window: calls of one time are told
 * apart so, wherever one looks from. */
static uint32_t order_of(const struct walker *k)
{
	uint64_t time_ns = walker_record(k)->time_ns;
	size_t i = k->i;

	while (i && k->w->v[i - 1].time_ns == time_ns)
		i--;
	return (uint32_t)(k->i - i);
}

static void add_frame(struct search *s, uint64_t back, bool interrupted)
{
	const struct record *rec = walker_record(&s->k);

	s->frames[s->n++] = (struct replay_frame){
		.call = rec->first + rec->span, .back = back, .time_ns = rec->time_ns,
		.order = order_of(&s->k), .interrupted = interrupted,
	};
}

/* The address after the last instruction of the record. */
static uint64_t end_of(const struct search *s)
{
	const struct record *rec = walker_record(&s->k);
	unsigned size = rec->flags & AUX_FLOW_SIZE_MASK;
	struct aux_flow ev = { .kind = AUX_FLOW_RANGE, .what = rec->what,
			       .flags = rec->flags, .n = rec->n,
			       .range = { rec->first, rec->first + rec->span } };
	struct walk_range *range;

	if (!size && !walk_find(s->k.r->walk, s->k.w->ctx[rec->ctx].space, &ev,
				&range))
		size = range->last_size;
	return rec->first + rec->span + size;
}

/* What the end of a record means to what runs after it, at s->next. */
static int take_record(struct search *s)
{
	const struct record *rec = walker_record(&s->k);
	bool call = rec->what == AUX_END_CALL || rec->what == AUX_END_IND_CALL;

	if (rec->kind == AUX_FLOW_ASYNC) {
		if (s->next && s->next != rec->first && is_caller(s, rec->first))
			add_frame(s, rec->first, true);
		s->next = 0;
		return 0;
	}
	if (!rec->n) {
		s->next = 0;
		return 0;
	}
	if (call) {
		uint64_t back = end_of(s);

		if (s->next != back && is_caller(s, back))
			add_frame(s, back, false);
	} else if (s->next && (rec->what == AUX_END_RET ||
			       (rec->what == AUX_END_SYSCALL &&
				s->next != end_of(s)))) {
		if (array_append(&s->returns, &s->n_returns, &s->cap_returns,
				 &s->next, sizeof(s->next)))
			return -AUX_E_NOMEM;
	}
	s->next = rec->first;
	return 0;
}

int replay_callers(struct replay *r, const struct replay_place *at,
		   struct replay_frame *frames, size_t max, struct aux_diag *diag)
{
	struct search s = { .frames = frames, .max = max };
	int rc = walker_at(&s.k, r, at, diag);

	if (rc)
		return rc;
	s.tid = walker_tid(&s.k);
	s.next = walker_record(&s.k)->first;
	for (unsigned n = 0; rc >= 0 && s.n < max && n < MAX_BACK; n++) {
		rc = walker_move(&s.k, true);
		if (rc <= 0)
			break;
		if (walker_tid(&s.k) == s.tid)
			rc = take_record(&s);
	}
	free(s.returns);
	return rc < 0 ? rc : (int)s.n;
}
