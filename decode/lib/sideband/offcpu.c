/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When threads were off the CPU, by the records of switches: SWITCH, or the
 * samples of sched_switch where there are no such records. A thread is off from
 * the record that it went to that it came back; what the records leave open,
 * before the first one of a thread, counts as on.
 *
 * A SWITCH has a bit for "preempted" from Linux 4.17 on: without it, in a file
 * of an older or unknown kernel that has it nowhere, nothing is known of why.
 *
 * A record may be missing (LOST), and both kinds of a CPU-wide SWITCH say the
 * same: of several in a row that a thread went, the first counts.
 */
#include <stdlib.h>

#include "common/array.h"
#include "decode/lib/sideband/impl.h"

int timeline_note_switch(struct build *b, const struct aux_event *ev,
			 uint32_t tid, bool out, enum off_why why)
{
	uint64_t time = timeline_time_of(ev);

	/* the idle thread is many threads, one for each CPU */
	if (!time || !tid || tid == UINT32_MAX)
		return 0;
	if (array_grow_within(&b->tl->memory, &b->turns, b->n_turns, &b->cap_turns,
		       sizeof(*b->turns)) < 0)
		return -AUX_E_NOMEM;
	b->turns[b->n_turns] = (struct turn){ .time = time, .tid = tid,
					      .order = b->n_turns, .out = out,
					      .cpu = (int32_t)ev->id.cpu,
					      .why = (uint8_t)why };
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

/* Older than 4.17, or of an unknown version. */
static bool is_old(const char *release)
{
	char *end;
	unsigned long major, minor;

	if (!release)
		return true;
	major = strtoul(release, &end, 10);
	minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	return major < 4 || (major == 4 && minor < 17);
}

enum off_why timeline_why_switch(struct build *b, const struct aux_event *ev)
{
	b->met_switch = true;
	b->tells_preempt |= ev->sw.out && ev->sw.preempt;
	return ev->sw.preempt ? OFF_PREEMPTED : OFF_BLOCKED;
}

/* Finds for each when its thread next came back on another CPU. */
static void find_moves(struct off_cpu *v, size_t n)
{
	for (size_t i = n; i--;) {
		const struct off_cpu *next = &v[i + 1];

		if (i + 1 == n || next->tid != v[i].tid)
			v[i].moves = UINT64_MAX;
		else
			v[i].moves = next->cpu == v[i].cpu ? next->moves : next->to;
	}
}

int timeline_pair_switches(struct build *b, const char *release)
{
	bool told = !b->met_switch || b->tells_preempt || !is_old(release);
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

		if (t->out && !open) {
			v[n++] = (struct off_cpu){
				.tid = t->tid, .from = t->time, .to = UINT64_MAX,
				.cpu = -1,
				.why = told ? t->why : OFF_UNKNOWN,
			};
		} else if (!t->out && open) {
			v[n - 1].to = t->time;
			v[n - 1].cpu = t->cpu;
		}
	}
	find_moves(v, n);
	tl->knows_off_cpu = b->n_turns;
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

bool timeline_knows_off_cpu(const struct timeline *tl)
{
	return tl->knows_off_cpu;
}

bool timeline_off_cpu(const struct timeline *tl, uint32_t tid, uint64_t from,
		      uint64_t to, struct off_span *span)
{
	size_t i = first_after(tl, tid, from);
	const struct off_cpu *o = &tl->offs[i];

	if (from >= to || i == tl->n_offs || o->tid != tid || o->from >= to)
		return false;
	span->from = o->from > from ? o->from : from;
	span->to = o->to < to ? o->to : to;
	span->why = o->why;
	span->cpu = o->to <= to ? o->cpu : -1;
	return true;
}

uint64_t timeline_thread_moves(const struct timeline *tl, uint32_t tid, uint32_t cpu,
			       uint64_t time)
{
	size_t i = first_after(tl, tid, time);
	const struct off_cpu *o = &tl->offs[i];

	if (i == tl->n_offs || o->tid != tid)
		return UINT64_MAX;
	return o->cpu == (int32_t)cpu ? o->moves : o->to;
}
