/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cut: what is wanted of each stream, and which records that needs.
 *
 * All that says who existed and what was mapped is kept up to the end of the
 * time; of who ran when, that time and the last word before it.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>
#include "common/array.h"
#include "common/diag.h"

#include "decode/edit/cut_impl.h"
#include "decode/lib/session/impl.h"
#include "decode/lib/sideband/sideband.h"

#define LAST_KERNEL_TYPE 22

/* ---- times ---- */

struct times {
	struct cut_span *v;
	size_t n, cap;
};

static int add_time(struct times *t, uint64_t from, uint64_t to)
{
	if (from > to)
		return 0;
	if (array_grow(&t->v, t->n, &t->cap, sizeof(*t->v)) < 0)
		return -AUX_E_NOMEM;
	t->v[t->n++] = (struct cut_span){ from, to };
	return 0;
}

/* When the thread ran on a CPU. */
static int add_runs(const struct cut *c, uint32_t cpu, struct times *t)
{
	const struct cut_wanted *want = &c->wanted;
	uint64_t at = want->time_from;
	int rc = 0;

	while (rc == 0 && at <= want->time_to) {
		struct who w = timeline_who(c->s->timeline, cpu, at);
		uint64_t to = w.until < want->time_to ? w.until :
							want->time_to;

		if (w.tid == (uint32_t)want->tid)
			rc = add_time(t, at, to);
		if (w.until == UINT64_MAX || w.until <= at)
			break;
		at = w.until;
	}
	return rc;
}

static bool is_wanted(const struct cut *c, const struct queue *q)
{
	const struct cut_wanted *want = &c->wanted;

	if (want->cpu >= 0 && q->cpu >= 0 && q->cpu != want->cpu)
		return false;
	return want->tid < 0 || q->cpu >= 0 || q->tid < 0 ||
	       q->tid == want->tid ||
	       timeline_stream(c->s->timeline, q->idx, UINT64_MAX).tid ==
		       (uint32_t)want->tid;
}

static int plan_queue(struct cut *c, struct cut_queue *q)
{
	const struct cut_wanted *want = &c->wanted;
	struct times t = { 0 };
	int rc;

	if (!is_wanted(c, q->q))
		return 0;
	if (want->tid >= 0 && q->q->cpu >= 0 && c->s->timed)
		rc = add_runs(c, (uint32_t)q->q->cpu, &t);
	else
		rc = add_time(&t, want->time_from, want->time_to);
	if (rc == 0)
		rc = cut_plan_queue(c, q, t.v, t.n);
	free(t.v);
	return rc;
}

/* ---- who ran before ---- */

/* A switch, as SWITCH or as a sample of sched_switch. */
static bool is_switch(const struct aux_event *ev)
{
	if (ev->type == PERF_RECORD_SAMPLE)
		return ev->attr && ev->attr->name &&
		       strstr(ev->attr->name, "sched_switch");
	return ev->type == PERF_RECORD_SWITCH ||
	       ev->type == PERF_RECORD_SWITCH_CPU_WIDE;
}

static bool has_time(const struct aux_event *ev)
{
	return ev->type && ev->type <= LAST_KERNEL_TYPE &&
	       ev->id.present & PERF_SAMPLE_TIME && ev->id.time;
}

static int note_switch(struct cut *c, const struct aux_event *ev,
		       uint64_t number)
{
	struct cut_switch s = { ev->id.cpu, ev->id.time, number };

	if (!has_time(ev) || !(ev->id.present & PERF_SAMPLE_CPU) ||
	    s.time >= c->from_ns)
		return 0;
	for (size_t i = 0; i < c->n_first; i++) {
		if (c->first[i].cpu != s.cpu)
			continue;
		if (s.time >= c->first[i].time)
			c->first[i] = s;
		return 0;
	}
	if (array_grow(&c->first, c->n_first, &c->cap_first, sizeof(s)) < 0)
		return -AUX_E_NOMEM;
	c->first[c->n_first++] = s;
	return 0;
}

static int find_first(struct cut *c)
{
	struct aux_event ev;
	uint64_t number = 0;
	int rc = 0;

	if (!c->from_ns)
		return 0;
	aux_reader_rewind(c->s->reader);
	while (rc == 0 && aux_reader_next(c->s->reader, &ev, NULL) > 0) {
		if (is_switch(&ev))
			rc = note_switch(c, &ev, ++number);
	}
	return rc;
}

/* ---- the plan ---- */

/* Intel PT tells its times itself; of all else the AUX records have some. */
static bool has_times(const struct cut *c)
{
	const struct chunks *ch = &c->s->chunks;

	for (size_t i = 0; ch->trace_type != AUX_TRACE_INTEL_PT && i < ch->n;
	     i++)
		if (ch->queues[i].n_marks && ch->queues[i].marks[0].time)
			return true;
	return c->s->timed;
}

static int check(const struct cut *c, struct aux_diag *diag)
{
	const struct cut_wanted *want = &c->wanted;

	for (size_t i = 0; i < c->s->chunks.n; i++) {
		if (c->s->chunks.queues[i].sampled)
			return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
					"its trace is in samples, which are "
					"not cut");
	}
	if (has_times(c) || (!want->time_from && want->time_to == UINT64_MAX))
		return 0;
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"its trace has no times that its records share: only "
			"--cpu and --tid can cut it");
}

static int plan(struct cut *c, struct aux_diag *diag)
{
	struct chunks *chunks = &c->s->chunks;
	int rc = check(c, diag);

	if (rc < 0)
		return rc;
	c->queues = calloc(chunks->n ? chunks->n : 1, sizeof(*c->queues));
	if (!c->queues)
		return -AUX_E_NOMEM;
	c->n = chunks->n;
	c->from_ns = UINT64_MAX;
	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		c->queues[i].q = &chunks->queues[i];
		rc = plan_queue(c, &c->queues[i]);
	}
	if (rc == 0 && !cut_stats(c).n_bytes)
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"no trace is left: nothing was recorded there; "
				"`auxdecode info` shows what there is");
	return rc == 0 ? find_first(c) : rc;
}

int cut_new(struct cut **out, struct session *s, const struct cut_wanted *wanted,
	    struct aux_diag *diag)
{
	struct cut *c = calloc(1, sizeof(*c));
	int rc = -AUX_E_NOMEM;

	*out = NULL;
	if (c) {
		c->s = s;
		c->wanted = *wanted;
		rc = plan(c, diag);
	}
	if (rc < 0) {
		cut_free(c);
		return rc == -AUX_E_NOMEM ?
			       diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
					"out of memory") : rc;
	}
	*out = c;
	return 0;
}

void cut_free(struct cut *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->queues && i < c->n; i++)
		free(c->queues[i].kept);
	free(c->queues);
	free(c->first);
	free(c);
}

struct cut_stats cut_stats(const struct cut *c)
{
	struct cut_stats st = { .n_all = c->s->chunks.aux_bytes };

	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < c->queues[i].n; k++)
			st.n_bytes += c->queues[i].kept[k].to -
				      c->queues[i].kept[k].from;
	return st;
}
