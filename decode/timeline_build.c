/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: one pass over the records, then all that matters in order of time.
 *
 * Records of a perf.data are in the order of the buffers they came through, so
 * they are collected, sorted by (time, place in the file) and applied. Without
 * sample times everything has time 0 and keeps the order of the file. Saved code
 * (timeline_code.c) applies behind the records of its own time.
 */
#include <stdlib.h>
#include <string.h>

#include <internal/bytes.h>
#include <internal/diag.h>

#include "timeline_priv.h"

#define SCHED_NEXT_PID 56	/* in a sched:sched_switch payload */

struct op *timeline_add_op(struct build *b, enum op_kind kind, uint64_t time)
{
	struct op *op;

	if (timeline_grow(&b->ops, &b->cap, b->n, sizeof(*b->ops)) < 0)
		return NULL;
	op = &b->ops[b->n];
	*op = (struct op){ .time = time, .order = (uint32_t)b->n,
			   .kind = (uint8_t)kind };
	b->n++;
	return op;
}

static uint64_t time_of(const struct aux_event *ev)
{
	return ev->id.present & PERF_SAMPLE_TIME ? ev->id.time : 0;
}

static int add_mmap(struct build *b, const struct aux_event *ev)
{
	struct mapping *m = map_arena_alloc(&b->tl->arena, sizeof(*m));
	struct op *op = timeline_add_op(b, OP_MMAP, time_of(ev));
	uint64_t end;

	if (!m || !op)
		return -AUX_E_NOMEM;
	if (__builtin_add_overflow(ev->mmap.addr, ev->mmap.len, &end))
		end = UINT64_MAX;
	m->start = ev->mmap.addr;
	m->end = end;
	m->pgoff = ev->mmap.pgoff;
	m->time = op->time;
	op->untimed = !(ev->id.present & PERF_SAMPLE_TIME);
	m->path = ev->mmap.path ? ev->mmap.path : "";
	m->prot = ev->mmap.prot;
	m->build_id_size = ev->mmap.build_id_size <= sizeof(m->build_id) ?
				   ev->mmap.build_id_size : 0;
	memcpy(m->build_id, ev->mmap.build_id, m->build_id_size);
	op->pid = ev->mmap.pid;
	op->tid = ev->mmap.tid;
	op->map = m;
	return 0;
}

static int add_fork(struct build *b, const struct aux_event *ev)
{
	uint64_t time = ev->id.present & PERF_SAMPLE_TIME ? ev->id.time :
							    ev->task.time;
	struct op *op = timeline_add_op(b, OP_FORK, time);

	if (!op)
		return -AUX_E_NOMEM;
	op->pid = ev->task.pid;
	op->tid = ev->task.tid;
	op->ppid = ev->task.ppid;
	op->ptid = ev->task.ptid;
	return 0;
}

static int add_run(struct build *b, const struct aux_event *ev, uint32_t pid,
		   uint32_t tid)
{
	struct op *op;

	if (!(ev->id.present & PERF_SAMPLE_CPU) || ev->id.cpu >= STREAM_LINE)
		return 0;
	op = timeline_add_op(b, OP_RUN, time_of(ev));
	if (!op)
		return -AUX_E_NOMEM;
	op->pid = pid;
	op->tid = tid;
	op->cpu = ev->id.cpu;
	return 0;
}

/* Which events trace one thread. */
static int add_index(struct build *b, const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->id_index.entries.data,
				      ev->id_index.entries.len, b->swapped);

	for (uint64_t i = 0; i < ev->id_index.n && cursor_left(&c) >= 32; i++) {
		struct thread_event e = { .id = cursor_u64(&c) };
		uint64_t idx = cursor_u64(&c), cpu = cursor_u64(&c);

		e.idx = (uint32_t)idx;
		e.tid = (uint32_t)cursor_u64(&c);
		if ((uint32_t)cpu != UINT32_MAX || idx >= STREAM_LINE)
			continue;
		if (timeline_grow(&b->events, &b->cap_events, b->n_events,
				  sizeof(e)) < 0)
			return -AUX_E_NOMEM;
		b->events[b->n_events++] = e;
	}
	return 0;
}

static void name_stream(const struct build *b, const struct aux_event *ev,
			struct op *op)
{
	for (size_t i = 0; i < b->n_events; i++) {
		if (b->events[i].id == ev->id.id) {
			op->cpu = STREAM_LINE | b->events[i].idx;
			op->ptid = b->events[i].tid;
			return;
		}
	}
}

/* A thread that execs takes over its leader's tid, and no other record tells. */
static int add_comm(struct build *b, const struct aux_event *ev)
{
	struct op *op = timeline_add_op(b, OP_COMM, time_of(ev));

	if (!op)
		return -AUX_E_NOMEM;
	op->pid = ev->comm.pid;
	op->tid = ev->comm.tid;
	/* Without times what was mapped before has to stay, see apply_mmap. */
	op->exec = ev->comm.exec && ev->id.present & PERF_SAMPLE_TIME;
	op->comm = ev->comm.comm;
	if (!ev->comm.exec || !(ev->id.present & PERF_SAMPLE_TID) ||
	    ev->id.tid != ev->comm.tid)
		return 0;
	if (op->exec && ev->id.present & (PERF_SAMPLE_ID |
					  PERF_SAMPLE_IDENTIFIER))
		name_stream(b, ev, op);
	return add_run(b, ev, ev->comm.pid, ev->comm.tid);
}

static int add_switch(struct build *b, const struct aux_event *ev)
{
	if (ev->sw.out && ev->sw.cpu_wide)
		return add_run(b, ev, ev->sw.next_prev_pid,
			       ev->sw.next_prev_tid);
	if (!ev->sw.out)
		return add_run(b, ev, ev->id.pid, ev->id.tid);
	/* Of who comes next nothing is known. What the kernel still does is
	 * the old thread's; user code is not. */
	return b->user_only ? add_run(b, ev, UINT32_MAX, UINT32_MAX) : 0;
}

/* sched:sched_switch, what recorders used before SWITCH records. */
static int add_sample(struct build *b, const struct aux_event *ev)
{
	struct cursor c;
	uint32_t tid;

	if (b->sched_mode != 1 || !ev->attr || !ev->attr->name ||
	    !strstr(ev->attr->name, "sched_switch") ||
	    ev->sample.raw_data.len < SCHED_NEXT_PID + 4)
		return 0;
	c = cursor_init(ev->sample.raw_data.data, ev->sample.raw_data.len,
			b->swapped);
	cursor_bytes(&c, SCHED_NEXT_PID);
	tid = cursor_u32(&c);
	return add_run(b, ev, timeline_pid(b->tl, tid, 0), tid);
}

static void take_clock(struct timeline *tl, uint64_t shift, uint64_t mult,
		       uint64_t zero)
{
	if (shift > 63 || !mult || mult > UINT32_MAX)
		return;
	tl->clock.shift = (uint16_t)shift;
	tl->clock.mult = (uint32_t)mult;
	tl->clock.zero = zero;
}

static void take_auxtrace_info(struct build *b, const struct aux_event *ev)
{
	const uint64_t *p = ev->auxtrace_info.priv;

	if (ev->auxtrace_info.trace_type != AUX_TRACE_INTEL_PT ||
	    ev->auxtrace_info.n_priv <= AUX_PT_PER_CPU_MMAPS)
		return;
	if (p[AUX_PT_CAP_USER_TIME_ZERO])
		take_clock(b->tl, p[AUX_PT_TIME_SHIFT], p[AUX_PT_TIME_MULT],
			   p[AUX_PT_TIME_ZERO]);
	b->sched_mode = (uint32_t)p[AUX_PT_HAVE_SCHED_SWITCH];
	b->pmu_type = (uint32_t)p[AUX_PT_PMU_TYPE];
}

static void take_time_conv(struct build *b, const struct aux_event *ev)
{
	const struct aux_rec_time_conv *tc = &ev->time_conv;

	if (!tc->cap_user_time_zero)
		return;
	if (!b->tl->clock.mult)
		take_clock(b->tl, tc->time_shift, tc->time_mult,
			   tc->time_zero);
	if (tc->cap_user_time_short) {
		b->tl->clock.cycles = tc->time_cycles;
		b->tl->clock.mask = tc->time_mask;
	}
}

/* Another event that is throttled takes nothing from the trace. */
static bool is_of_trace(const struct build *b, const struct aux_event *ev)
{
	return b->pmu_type == UINT32_MAX || !ev->attr ||
	       ev->attr->attr.type == b->pmu_type;
}

static int take_record(struct build *b, const struct aux_event *ev)
{
	struct timeline_stats *st = &b->tl->stats;

	switch (ev->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return add_mmap(b, ev);
	case PERF_RECORD_COMM:
		return add_comm(b, ev);
	case PERF_RECORD_FORK:
		return add_fork(b, ev);
	case PERF_RECORD_ITRACE_START:
		return add_run(b, ev, ev->itrace.pid, ev->itrace.tid);
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return add_switch(b, ev);
	case PERF_RECORD_SAMPLE:
		return add_sample(b, ev);
	case PERF_RECORD_AUX:
		st->n_aux_flagged += !!(ev->aux.flags &
					(PERF_AUX_FLAG_TRUNCATED |
					 PERF_AUX_FLAG_PARTIAL));
		return 0;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		st->n_lost += ev->lost.lost;
		return 0;
	case PERF_RECORD_THROTTLE:
		st->n_throttled += is_of_trace(b, ev);
		return 0;
	case AUX_RECORD_ID_INDEX:
		return add_index(b, ev);
	case AUX_RECORD_AUXTRACE_INFO:
		take_auxtrace_info(b, ev);
		return 0;
	case AUX_RECORD_TIME_CONV:
		take_time_conv(b, ev);
		return 0;
	case AUX_RECORD_EVENT_TYPE:
		return timeline_keep_code(b, ev);
	default:
		return 0;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static void find_mode(struct build *b, const struct aux_reader *r)
{
	const struct aux_attr *a;

	for (size_t i = 0; (a = aux_reader_attr(r, i)); i++) {
		if (a->attr.type == b->pmu_type)
			b->user_only = a->attr.exclude_kernel;
	}
}

static int collect(struct build *b, struct aux_reader *r, struct aux_diag *diag)
{
	struct timeline_stats *st = &b->tl->stats;
	struct aux_event ev;
	int rc;

	aux_reader_rewind(r);
	while ((rc = aux_reader_next(r, &ev, &st->damage)) > 0) {
		st->n_records++;
		/* In a pipe, attrs come among the records. */
		if (ev.type == AUX_RECORD_AUXTRACE_INFO ||
		    ev.type == PERF_RECORD_ITRACE_START)
			find_mode(b, r);
		rc = take_record(b, &ev);
		if (ev.type == AUX_RECORD_AUXTRACE_INFO)
			find_mode(b, r);
		if (rc < 0)
			return diag_set(diag, -rc, ev.offset, "out of memory");
	}
	st->damaged = rc < 0;
	if (timeline_add_code(b, r) < 0)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	return 0;
}

int timeline_new(struct timeline **tlp, struct aux_reader *r,
		 struct aux_diag *diag)
{
	struct timeline *tl = calloc(1, sizeof(*tl));
	struct build b = { .tl = tl, .sched_mode = 2, .pmu_type = UINT32_MAX,
			   .swapped = aux_reader_info(r)->swapped };
	int rc;

	*tlp = NULL;
	if (!tl)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	rc = collect(&b, r, diag);
	if (rc == 0) {
		if (b.n)
			qsort(b.ops, b.n, sizeof(*b.ops), by_time);
		for (size_t i = 0; rc == 0 && i < b.n; i++)
			rc = timeline_apply(tl, &b.ops[i]);
		if (rc == 0)
			rc = timeline_finish(tl);
		if (rc < 0)
			diag_set(diag, -rc, AUX_NO_OFFSET, "out of memory");
	}
	free(b.ops);
	free(b.codes);
	free(b.events);
	if (rc < 0)
		timeline_free(tl);
	else
		*tlp = tl;
	return rc;
}
