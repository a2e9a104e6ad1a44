/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When threads were off the CPU, by the records of switches: SWITCH, or the
 * samples of sched_switch where there are no such records. A thread is off from
 * the record that it went to that it came back; what the records leave open,
 * before the first one of a thread, counts as on.
 *
 * A record may be missing (LOST), and both kinds of a CPU-wide SWITCH say the
 * same: of several in a row that a thread went, the first counts.
 */
#include <stdlib.h>

#include "common/array.h"
#include "decode/lib/sideband/impl.h"

int timeline_note_switch(struct build *b, const struct aux_event *ev,
			 uint32_t tid, bool out)
{
	uint64_t time = timeline_time_of(ev);

	/* the idle thread is many threads, one for each CPU */
	if (!time || !tid || tid == UINT32_MAX)
		return 0;
	if (array_grow_within(&b->tl->memory, &b->turns, b->n_turns, &b->cap_turns,
		       sizeof(*b->turns)) < 0)
		return -AUX_E_NOMEM;
	b->turns[b->n_turns] = (struct turn){ .time = time, .tid = tid,
					      .order = b->n_turns, .out = out };
	b->n_turns++;
	return 0;
}

static int compare_turns(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

int timeline_pair_switches(struct build *b)
{
	struct timeline *tl = b->tl;
	struct off_cpu *v;
	size_t n = 0;

	if (array_sort_within(&tl->memory, b->turns, b->n_turns,
			      sizeof(*b->turns), compare_turns) < 0 ||
	    array_take(&tl->memory, (b->n_turns + 1) * sizeof(*v)) < 0)
		return -AUX_E_NOMEM;
	v = calloc(b->n_turns + 1, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < b->n_turns; i++) {
		const struct turn *t = &b->turns[i];
		bool open = n && v[n - 1].tid == t->tid &&
			    v[n - 1].to == UINT64_MAX;

		if (t->out && !open)
			v[n++] = (struct off_cpu){ t->tid, t->time, UINT64_MAX };
		else if (!t->out && open)
			v[n - 1].to = t->time;
	}
	tl->offs = v;
	tl->n_offs = n;
	free(b->turns);
	array_give(&tl->memory, b->cap_turns * sizeof(*b->turns));
	b->turns = NULL;
	b->cap_turns = b->n_turns = 0;
	return 0;
}

/* The first of a thread that ends after a time. */
static size_t first_after(const struct timeline *tl, uint32_t tid,
			  uint64_t time)
{
	size_t from = 0, to = tl->n_offs;

	while (from < to) {
		size_t mid = from + (to - from) / 2;
		const struct off_cpu *o = &tl->offs[mid];

		if (o->tid < tid || (o->tid == tid && o->to <= time))
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

uint64_t timeline_off_cpu(const struct timeline *tl, uint32_t tid,
			  uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	for (size_t i = first_after(tl, tid, from);
	     i < tl->n_offs && tl->offs[i].tid == tid &&
	     tl->offs[i].from < to; i++) {
		uint64_t a = tl->offs[i].from, b = tl->offs[i].to;

		sum += (b < to ? b : to) - (a > from ? a : from);
	}
	return sum;
}
