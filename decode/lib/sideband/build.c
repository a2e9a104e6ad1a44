/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: one pass over the records, then all that matters in order of time.
 *
 * Records of a perf.data are in the order of the buffers they came through, so
 * they are collected, sorted by (time, place in the file) and applied. Without
 * sample times everything has time 0 and keeps the order of the file. Saved code
 * (code.c) applies behind the records of its own time.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/diag.h"

#include "decode/lib/sideband/build.h"

/* AUXTRACE_INFO.priv of cs_etm: the PMU's type is in the high half. */
#define CS_PMU_TYPE 1

struct op *timeline_add_op(struct build *b, enum op_kind kind, uint64_t time)
{
	struct op *op;

	if (array_grow(&b->ops, b->n, &b->cap, sizeof(*b->ops)) < 0)
		return NULL;
	op = &b->ops[b->n];
	*op = (struct op){ .time = time,
			   .order = ((uint32_t)b->n & (ORDER_RECORD - 1)) |
				    ORDER_RECORD,
			   .kind = (uint8_t)kind };
	b->n++;
	return op;
}

int64_t timeline_machine(struct timeline *tl, uint32_t id)
{
	int64_t slot;

	if (array_grow(&tl->machine, tl->n_machine, &tl->cap_machine,
		       sizeof(*tl->machine)) < 0)
		return -AUX_E_NOMEM;
	slot = idmap_add(&tl->machines, id, (uint32_t)tl->n_machine);
	if (slot == (int64_t)tl->n_machine)
		tl->machine[tl->n_machine++] = (struct machine){ .id = id };
	return slot;
}

/* An event by id; of equal ids the first one counts. */
static int add_event(struct build *b, uint64_t id, struct event_info e)
{
	int64_t slot;

	if (array_grow(&b->events, b->n_events, &b->cap_events,
		       sizeof(e)) < 0)
		return -AUX_E_NOMEM;
	slot = idmap_add(&b->event_ids, id, (uint32_t)b->n_events);
	if (slot == (int64_t)b->n_events)
		b->events[b->n_events++] = e;
	return slot < 0 ? -AUX_E_NOMEM : 0;
}

/* Which events trace one thread, and which a guest. */
static int add_index(struct build *b, const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->id_index.entries.data,
				      ev->id_index.entries.len, b->swapped);
	struct cursor g = cursor_init(ev->id_index.guests.data,
				      ev->id_index.guests.len, b->swapped);

	while (cursor_left(&c)) {
		uint64_t id = cursor_u64(&c), idx = cursor_u64(&c);
		uint64_t cpu = cursor_u64(&c), tid = cursor_u64(&c);
		uint64_t machine = cursor_left(&g) ? cursor_u64(&g) : 0;
		uint64_t vcpu = cursor_left(&g) ? cursor_u64(&g) : 0;
		struct event_info e = { .idx = UINT32_MAX,
					.tid = (uint32_t)tid,
					.vcpu = (uint32_t)vcpu };
		int64_t slot;

		if ((uint32_t)cpu == UINT32_MAX && idx < STREAM_LINE)
			e.idx = (uint32_t)idx;
		slot = machine && machine < HOST_ID ?
			       timeline_machine(b->tl, (uint32_t)machine) : 0;
		e.machine = (uint32_t)slot;
		if (slot < 0 ||
		    ((slot || e.idx != UINT32_MAX) && add_event(b, id, e) < 0))
			return -AUX_E_NOMEM;
	}
	return 0;
}

static int add_cgroup(struct timeline *tl, const struct aux_event *ev)
{
	int64_t slot;

	if (array_grow(&tl->cgroup, tl->n_cgroup, &tl->cap_cgroup,
		       sizeof(*tl->cgroup)) < 0)
		return -AUX_E_NOMEM;
	slot = idmap_add(&tl->cgroups, ev->cgroup.id, (uint32_t)tl->n_cgroup);
	if (slot < 0)
		return -AUX_E_NOMEM;
	tl->n_cgroup += slot == (int64_t)tl->n_cgroup;
	tl->cgroup[slot] = ev->cgroup.path;
	return 0;
}

/* ---- the clock ---- */

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
	uint32_t n = ev->auxtrace_info.n_priv;

	if (ev->auxtrace_info.trace_type == AUX_TRACE_CS_ETM && n > CS_PMU_TYPE)
		b->pmu_type = (uint32_t)(p[CS_PMU_TYPE] >> 32);
	if (ev->auxtrace_info.trace_type != AUX_TRACE_INTEL_PT ||
	    n <= AUX_PT_PER_CPU_MMAPS)
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

/* What the events are for; all attrs are known, in a pipe too. */
static void find_mode(struct build *b, const struct aux_reader *r)
{
	const struct aux_attr *a;
	unsigned n = 0, n_user = 0;

	for (size_t i = 0; (a = aux_reader_attr(r, i)); i++) {
		b->has_switches |= a->attr.context_switch;
		if (a->attr.type != b->pmu_type)
			continue;
		n++;
		n_user += a->attr.exclude_kernel;
	}
	b->tl->user_only = n && n == n_user;
}

/* ---- losses ---- */

/* The time of the last record of a CPU; NULL: out of memory. */
static uint64_t *last_time(struct build *b, uint32_t cpu)
{
	int64_t i;

	if (array_grow(&b->last_time, b->n_times, &b->cap_times,
		       sizeof(*b->last_time)) < 0)
		return NULL;
	i = idmap_add(&b->cpu_times, cpu, (uint32_t)b->n_times);
	if (i == (int64_t)b->n_times)
		b->last_time[b->n_times++] = 0;
	return i < 0 ? NULL : &b->last_time[i];
}

static int keep_time(struct build *b, const struct aux_event *ev)
{
	uint64_t *t;

	if ((ev->id.present & (PERF_SAMPLE_CPU | PERF_SAMPLE_TIME)) !=
	    (PERF_SAMPLE_CPU | PERF_SAMPLE_TIME))
		return 0;
	t = last_time(b, ev->id.cpu);
	if (!t)
		return -AUX_E_NOMEM;
	*t = ev->id.time;
	return 0;
}

static int add_loss(struct build *b, const struct aux_event *ev)
{
	struct timeline *tl = b->tl;
	struct timeline_stats *st = &tl->stats;
	bool has_cpu = ev->id.present & PERF_SAMPLE_CPU;
	struct timeline_loss l = { .until = timeline_time_of(ev),
				   .n = ev->lost.lost, .cpu = UINT32_MAX };
	uint64_t *t = has_cpu ? last_time(b, ev->id.cpu) : NULL;

	if ((has_cpu && !t) || array_grow(&tl->loss, tl->n_loss, &tl->cap_loss,
					  sizeof(l)) < 0)
		return -AUX_E_NOMEM;
	if (t && *t <= l.until) {
		l.cpu = ev->id.cpu;
		l.from = *t;
	}
	l.samples = ev->type == PERF_RECORD_LOST_SAMPLES;
	tl->loss[tl->n_loss++] = l;
	st->n_lost += l.n;
	if (!l.until || !l.n)
		return 0;
	if (!st->lost_until || l.from < st->lost_from)
		st->lost_from = l.from;
	if (l.until > st->lost_until)
		st->lost_until = l.until;
	return 0;
}

/* ---- records ---- */

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
	case PERF_RECORD_AUX:
		st->n_aux_flagged += !!(ev->aux.flags &
					(PERF_AUX_FLAG_TRUNCATED |
					 PERF_AUX_FLAG_PARTIAL));
		return 0;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		return add_loss(b, ev);
	case PERF_RECORD_THROTTLE:
		st->n_throttled += is_of_trace(b, ev);
		return 0;
	case PERF_RECORD_CGROUP:
		return add_cgroup(b->tl, ev);
	case AUX_RECORD_ID_INDEX:
		return add_index(b, ev);
	case AUX_RECORD_AUXTRACE_INFO:
		take_auxtrace_info(b, ev);
		return 0;
	case AUX_RECORD_TIME_CONV:
		take_time_conv(b, ev);
		return 0;
	case AUX_RECORD_TRACING_DATA:
		timeline_sched_format(b, ev->tracing_data.data);
		return 0;
	case AUX_RECORD_EVENT_TYPE:
		return timeline_keep_code(b, ev);
	default:
		return timeline_take_side(b, ev);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_ops(struct build *b)
{
	if (b->n)
		qsort(b->ops, b->n, sizeof(*b->ops), by_time);
}

static int collect(struct build *b, struct aux_reader *r)
{
	struct timeline_stats *st = &b->tl->stats;
	struct aux_bytes s;
	struct aux_event ev;
	int rc;

	if (aux_reader_feature(r, AUX_FEAT_TRACING_DATA, &s, NULL) > 0)
		timeline_sched_format(b, s);
	find_mode(b, r);
	aux_reader_rewind(r);
	while ((rc = aux_reader_next(r, &ev, &st->damage)) > 0) {
		st->n_records++;
		if (take_record(b, &ev) < 0 || keep_time(b, &ev) < 0)
			return -AUX_E_NOMEM;
		if (ev.type == AUX_RECORD_AUXTRACE_INFO)
			find_mode(b, r);
	}
	st->damaged = rc < 0;
	if (timeline_add_code(b, r) < 0 || timeline_load_bpf(b, r) < 0)
		return -AUX_E_NOMEM;
	return 0;
}

static int build_all(struct build *b, struct aux_reader *r)
{
	size_t n;
	int rc = timeline_machine(b->tl, HOST_ID) < 0 ? -AUX_E_NOMEM :
							collect(b, r);

	if (rc < 0)
		return rc;
	sort_ops(b);
	n = b->n;
	rc = timeline_look_back(b);
	if (b->n > n)
		sort_ops(b);
	for (size_t i = 0; rc == 0 && i < b->n; i++)
		rc = timeline_apply(b->tl, &b->ops[i]);
	return rc < 0 ? rc : timeline_finish(b->tl);
}

static bool is_32bit(const char *arch)
{
	if (!arch)
		return false;
	return (!strncmp(arch, "arm", 3) && !strstr(arch, "64")) ||
	       (arch[0] == 'i' && strlen(arch) == 4 && !strcmp(arch + 2, "86"));
}

/* Randomness shapes the tables, never what they say. */
static void salt_tables(struct build *b)
{
	struct timeline *tl = b->tl;
	uint64_t salt = (uintptr_t)tl;

	if (getentropy(&salt, sizeof(salt)) < 0)
		salt *= UINT64_C(0x9e3779b97f4a7c15);
	tl->arena.seed = b->arena.seed = salt;
	tl->arena.salt = b->arena.salt = ~salt;
	tl->cpus.salt = tl->tids.salt = tl->pids.salt = salt;
	tl->machines.salt = tl->cgroups.salt = tl->saved_by_hash.salt = salt;
	b->event_ids.salt = b->cpu_times.salt = salt;
}

int timeline_new(struct timeline **tlp, struct aux_reader *r,
		 struct aux_diag *diag)
{
	struct timeline *tl = calloc(1, sizeof(*tl));
	struct build b = { .tl = tl, .sched_mode = 2, .pmu_type = UINT32_MAX,
			   .is_32bit = is_32bit(aux_reader_info(r)->arch),
			   .swapped = aux_reader_info(r)->swapped };
	int rc = -AUX_E_NOMEM;

	if (tl) {
		salt_tables(&b);
		rc = build_all(&b, r);
	}

	free(b.ops);
	free(b.codes);
	free(b.events);
	free(b.event_ids.e);
	free(b.last_time);
	free(b.cpu_times.e);
	map_arena_free(&b.arena);
	*tlp = NULL;
	if (rc == 0)
		*tlp = tl;
	else
		timeline_free(tl);
	return rc == 0 ? 0 : diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				      "out of memory");
}
