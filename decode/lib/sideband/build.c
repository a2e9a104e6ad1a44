/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: one pass over the records, then everything that matters applied in
 * order of time.
 *
 * A perf.data file has its records in the order in which per-CPU buffers were
 * drained, so a record may come long before an earlier one of another CPU. Each
 * record is turned into ops; the ops are sorted by (time, order), where order
 * keeps the place in the file, and applied. Without sample times everything has
 * time 0 and keeps the order of the file. Saved code (saved_code.c) applies
 * after the records of its own time.
 *
 * A record belongs to a guest when the id of its event does (ID_INDEX says so)
 * or its cpumode; the guest is named by the pid of its hypervisor.
 *
 * Specification: perf_event_open(2) and include/uapi/linux/perf_event.h for the
 * records of the kernel, tools/lib/perf/include/perf/event.h for those that
 * perf itself writes.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/diag.h"
#include "decode/lib/sideband/impl.h"

/* ---- mappings of processes, applied in order of time ---- */

/* Saved code lies in a mapping of its process and keeps its name, so symbols
 * are found. */
static void name_saved(struct mapping *m, const struct map_node *root)
{
	const struct mapping *under = addrspace_find(root, m->start);

	if (!under)
		return;
	m->path = under->path;
	m->pgoff = under->pgoff + (m->start - under->start);
	memcpy(m->build_id, under->build_id, sizeof(m->build_id));
	m->build_id_size = under->build_id_size;
}

/* True if the range of m holds code other than what m maps. */
static bool is_in_use(const struct map_node *root, const struct mapping *m)
{
	const struct mapping *old = addrspace_next(root, m->start);

	for (; old && old->start < m->end; old = addrspace_next(root, old->end))
		if (strcmp(old->path, m->path) ||
		    old->pgoff - old->start != m->pgoff - m->start)
			return true;
	return false;
}

/* Was the process last changed by the op before, at the same time, by a mapping?
 * Then no other version has that tree. */
static bool is_same_moment(const struct op *op, const struct op *before,
			   const struct process_line *l)
{
	const struct version *last = l->v.n ? &l->v.e[l->v.n - 1] : NULL;

	return before && before->kind == OP_MMAP &&
	       !(before->flags & OP_KERNEL) && before->pid == op->pid &&
	       before->machine == op->machine && before->time == op->time &&
	       last && last->from == op->time && last->root == l->root;
}

/*
 * Without times (op flag UNTIMED) all mappings count as older than the trace.
 * Where such a mapping replaces a different one, nothing says which of them was
 * there when the trace was made: the statistics count that, and the verdict
 * warns.
 */
static int apply_mmap(struct timeline *tl, const struct op *op,
		      const struct op *before)
{
	struct process_line *l = timeline_process(tl, op->machine, op->pid);
	struct mapping m = *op->map;

	if (!l || timeline_revive(tl, l, op->time) < 0)
		return -AUX_E_NOMEM;
	if (m.saved)
		name_saved(&m, l->root);
	if (op->flags & OP_UNTIMED && is_in_use(l->root, &m))
		tl->stats.n_unordered++;
	/* what it was before, at the same time, nothing asks for */
	tl->arena.goes_on = is_same_moment(op, before, l);
	l->root = addrspace_insert(&tl->arena, l->root, &m);
	tl->arena.goes_on = false;
	if (tl->arena.oom)
		return -AUX_E_NOMEM;
	return timeline_set_version(tl, &l->v, op->time, l->root);
}

/* before: the op before; NULL: none. */
static int timeline_apply(struct timeline *tl, const struct op *op,
			  const struct op *before)
{
	switch (op->kind) {
	case OP_MMAP:
		if (!(op->flags & OP_KERNEL))
			return apply_mmap(tl, op, before);
		return timeline_apply_kernel(tl, op);
	case OP_KSYMBOL:
	case OP_POKE:
	case OP_POKED:
		return timeline_apply_kernel(tl, op);
	default:
		return timeline_apply_task(tl, op);
	}
}

/* ---- tables of the build ---- */

/* AUXTRACE_INFO.priv of cs_etm: word 1 has the PMU's type in its high half
 * (perf's CS_PMU_TYPE_CPUS). */
#define CS_PMU_TYPE 1

struct op *timeline_add_op(struct build *b, enum op_kind kind, uint64_t time)
{
	struct op *op;

	if (array_grow_within(&b->tl->memory, &b->ops, b->n, &b->cap,
			      sizeof(*b->ops)) < 0)
		return NULL;
	op = &b->ops[b->n];
	*op = (struct op){ .time = time,
			   .order = ((uint32_t)b->n & (ORDER_RECORD - 1)) |
				    ORDER_RECORD,
			   .kind = (uint8_t)kind };
	b->n++;
	return op;
}

/* The slot of a machine, made if it is new; negative: out of memory. */
static int64_t timeline_machine(struct timeline *tl, uint32_t id)
{
	int64_t slot;

	if (array_grow_within(&tl->memory, &tl->machines.v, tl->machines.n,
			      &tl->machines.cap, sizeof(*tl->machines.v)) < 0)
		return -AUX_E_NOMEM;
	slot = idmap_add(&tl->machines.ids, id, (uint32_t)tl->machines.n);
	if (slot == (int64_t)tl->machines.n)
		tl->machines.v[tl->machines.n++] = (struct machine){ .id = id };
	return slot;
}

/* Of two entries with one id the first counts. */
static int add_event(struct build *b, uint64_t id, struct event_info e)
{
	int64_t slot;

	if (array_grow_within(&b->tl->memory, &b->events, b->n_events,
			      &b->cap_events, sizeof(e)) < 0)
		return -AUX_E_NOMEM;
	slot = idmap_add(&b->event_ids, id, (uint32_t)b->n_events);
	if (slot == (int64_t)b->n_events)
		b->events[b->n_events++] = e;
	return slot < 0 ? -AUX_E_NOMEM : 0;
}

/*
 * ID_INDEX: which events trace one thread (cpu -1), and which count in a guest:
 * a second array, which older files lack, has the machine and vcpu of each
 * entry.
 */
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
		struct event_info e = { .idx = UINT32_MAX,
					.tid = (uint32_t)tid };
		int64_t slot;

		if (cursor_left(&g))
			cursor_u64(&g); /* the vcpu */
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

	if (array_grow_within(&tl->memory, &tl->cgroups.v, tl->cgroups.n,
			      &tl->cgroups.cap, sizeof(*tl->cgroups.v)) < 0)
		return -AUX_E_NOMEM;
	slot = idmap_add(&tl->cgroups.ids, ev->cgroup.id, (uint32_t)tl->cgroups.n);
	if (slot < 0)
		return -AUX_E_NOMEM;
	tl->cgroups.n += slot == (int64_t)tl->cgroups.n;
	tl->cgroups.v[slot] = (struct cgroup){ ev->cgroup.id, ev->cgroup.path };
	return 0;
}

/* ---- the clock ---- */

/* Values that the conversion could not use (a shift of 64 or more, mult 0) are
 * ignored: the times are unknown then. */
static void set_clock(struct timeline *tl, uint64_t shift, uint64_t mult,
		       uint64_t zero)
{
	if (shift > 63 || !mult || mult > UINT32_MAX)
		return;
	tl->clock.shift = (uint16_t)shift;
	tl->clock.mult = (uint32_t)mult;
	tl->clock.zero = zero;
}

/* Intel PT has the clock in its private words, as perf wrote it down from the
 * mmap page; have_sched_switch says where task switches come from. */
static void parse_auxtrace_info(struct build *b, const struct aux_event *ev)
{
	const uint64_t *p = ev->auxtrace_info.priv;
	uint32_t n = ev->auxtrace_info.n_priv;

	if (ev->auxtrace_info.trace_type == AUX_TRACE_CS_ETM && n > CS_PMU_TYPE)
		b->pmu_type = (uint32_t)(p[CS_PMU_TYPE] >> 32);
	if (ev->auxtrace_info.trace_type != AUX_TRACE_INTEL_PT ||
	    n <= AUX_PT_PER_CPU_MMAPS)
		return;
	if (p[AUX_PT_CAP_USER_TIME_ZERO])
		set_clock(b->tl, p[AUX_PT_TIME_SHIFT], p[AUX_PT_TIME_MULT],
			   p[AUX_PT_TIME_ZERO]);
	b->sched_mode = (uint32_t)p[AUX_PT_HAVE_SCHED_SWITCH];
	b->pmu_type = (uint32_t)p[AUX_PT_PMU_TYPE];
}

/*
 * TIME_CONV has the same clock for any trace source. With cap_user_time_short
 * (arm64) the counter is narrower than 64 bits, and wraps: cycles and mask
 * widen it.
 */
static void parse_time_conv(struct build *b, const struct aux_event *ev)
{
	const struct aux_rec_time_conv *tc = &ev->time_conv;

	if (!tc->cap_user_time_zero)
		return;
	if (!b->tl->clock.mult)
		set_clock(b->tl, tc->time_shift, tc->time_mult,
			   tc->time_zero);
	if (tc->cap_user_time_short) {
		b->tl->clock.cycles = tc->time_cycles;
		b->tl->clock.mask = tc->time_mask;
	}
}

/*
 * Whether kernel code is traced (not when every event of the trace excludes
 * it), and whether there are SWITCH records. Runs again at AUXTRACE_INFO, which
 * says which PMU's events are the trace.
 */
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

	if (array_grow_within(&b->tl->memory, &b->last_time, b->n_times,
			      &b->cap_times, sizeof(*b->last_time)) < 0)
		return NULL;
	i = idmap_add(&b->cpu_times, cpu, (uint32_t)b->n_times);
	if (i == (int64_t)b->n_times)
		b->last_time[b->n_times++] = 0;
	return i < 0 ? NULL : &b->last_time[i];
}

/* A LOST record says how many records are missing, not since when: since the
 * record before it in the same CPU's buffer. */
static int record_time(struct build *b, const struct aux_event *ev)
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

	if ((has_cpu && !t) ||
	    array_grow_within(&tl->memory, &tl->losses.v, tl->losses.n,
			      &tl->losses.cap, sizeof(l)) < 0)
		return -AUX_E_NOMEM;
	if (t && *t <= l.until) {
		l.cpu = ev->id.cpu;
		l.from = *t;
	}
	l.samples = ev->type == PERF_RECORD_LOST_SAMPLES;
	tl->losses.v[tl->losses.n++] = l;
	st->n_lost += l.n;
	if (!l.until || !l.n)
		return 0;
	if (!st->lost_until || l.from < st->lost_from)
		st->lost_from = l.from;
	if (l.until > st->lost_until)
		st->lost_until = l.until;
	return 0;
}

/* ---- from a record to its ops ---- */

#define KERNEL_HALF (UINT64_C(1) << 63)
#define KERNEL_HALF_32 (UINT64_C(1) << 31)

static uint16_t cpumode(const struct aux_event *ev)
{
	return ev->misc & PERF_RECORD_MISC_CPUMODE_MASK;
}

static bool is_of_guest(const struct aux_event *ev)
{
	return cpumode(ev) == PERF_RECORD_MISC_GUEST_KERNEL ||
	       cpumode(ev) == PERF_RECORD_MISC_GUEST_USER;
}

static const struct event_info *find_event(const struct build *b,
					   const struct aux_event *ev)
{
	int64_t i = -1;

	if (ev->id.present & (PERF_SAMPLE_ID | PERF_SAMPLE_IDENTIFIER))
		i = idmap_find(&b->event_ids, ev->id.id);
	return i < 0 ? NULL : &b->events[i];
}

static int64_t find_machine(struct build *b, const struct aux_event *ev)
{
	const struct event_info *e = find_event(b, ev);
	uint32_t id = ev->id.pid;

	if (e && e->machine)
		return e->machine;
	/* A sample that interrupted a guest is still the host thread's. */
	if (!is_of_guest(ev) || ev->type == PERF_RECORD_SAMPLE)
		return HOST_SLOT;
	if (ev->type == PERF_RECORD_MMAP || ev->type == PERF_RECORD_MMAP2)
		id = ev->mmap.pid;
	return timeline_machine(b->tl, id == HOST_ID ? 0 : id);
}

/* A new op with the record's machine and time. NULL: out of memory. */
static struct op *add_op(struct build *b, enum op_kind kind,
			 const struct aux_event *ev)
{
	int64_t machine = find_machine(b, ev);
	struct op *op;

	if (machine < 0)
		return NULL;
	op = timeline_add_op(b, kind, timeline_time_of(ev));
	if (op)
		op->machine = (uint32_t)machine;
	return op;
}

/* ---- mappings ---- */

static bool is_kernel(const struct aux_event *ev)
{
	return ev->mmap.pid == UINT32_MAX ||
	       cpumode(ev) == PERF_RECORD_MISC_KERNEL ||
	       cpumode(ev) == PERF_RECORD_MISC_GUEST_KERNEL;
}

/* Splits the name of a kernel image as perf writes it, "[kernel.kallsyms]_text"
 * or "[guest.kernel.kallsyms.77]_text", into path and reference symbol. */
static int name_image(struct build *b, struct mapping *m)
{
	const char *end = strchr(m->path, ']');
	size_t len;
	char *name;

	if (!end || (strncmp(m->path, "[kernel", 7) &&
		     strncmp(m->path, "[guest.kernel", 13)))
		return 0;
	len = (size_t)(end - m->path) + 1;
	name = map_arena_alloc(&b->tl->arena, len + 1);
	if (!name)
		return -AUX_E_NOMEM;
	m->ref_name = end[1] ? end + 1 : NULL;
	m->path = memcpy(name, m->path, len);
	m->kind = MAPPING_KERNEL;
	return 0;
}

/*
 * perf cannot read addresses of kernel symbols under kptr_restrict: start is 0
 * then, so the image may be anywhere in the kernel's half, and the address of
 * its symbol is unknown. simpleperf starts the image at the symbol and leaves
 * pgoff 0.
 */
static void place_image(const struct build *b, struct mapping *m)
{
	uint64_t lowest = b->is_32bit ? KERNEL_HALF_32 : KERNEL_HALF;

	if (m->ref_name)
		m->ref_addr = m->pgoff ? m->pgoff : m->start;
	if (!m->start)
		m->start = lowest;
	if (m->end <= m->start)
		m->end = UINT64_MAX;
	m->pgoff = m->start;
}

/* Mappings of the kernel are synthesized when recording starts and never again,
 * so they held before, too: time 0, and before all other ops of that time. */
static int add_kernel(struct build *b, struct op *op)
{
	struct mapping *m = op->map;

	op->flags |= OP_KERNEL;
	op->order &= ~ORDER_RECORD;
	op->time = m->time = 0;
	m->kind = MAPPING_MODULE;
	if (name_image(b, m) < 0)
		return -AUX_E_NOMEM;
	if (m->kind == MAPPING_KERNEL)
		place_image(b, m);
	return 0;
}

static int add_mmap(struct build *b, const struct aux_event *ev)
{
	struct mapping *m = map_arena_alloc(&b->arena, sizeof(*m));
	struct op *op = add_op(b, OP_MMAP, ev);
	uint64_t end;

	if (!m || !op)
		return -AUX_E_NOMEM;
	if (__builtin_add_overflow(ev->mmap.addr, ev->mmap.len, &end))
		end = UINT64_MAX;
	m->start = ev->mmap.addr;
	m->end = end;
	m->pgoff = ev->mmap.pgoff;
	m->time = op->time;
	m->path = ev->mmap.path ? ev->mmap.path : "";
	m->prot = ev->mmap.prot;
	m->build_id_size = ev->mmap.build_id_size <= sizeof(m->build_id) ?
				   ev->mmap.build_id_size : 0;
	memcpy(m->build_id, ev->mmap.build_id, m->build_id_size);
	op->flags = ev->id.present & PERF_SAMPLE_TIME ? 0 : OP_UNTIMED;
	op->pid = ev->mmap.pid;
	op->tid = ev->mmap.tid;
	op->map = m;
	return is_kernel(ev) ? add_kernel(b, op) : 0;
}

static int add_ksymbol(struct build *b, const struct aux_event *ev)
{
	struct mapping *m = map_arena_alloc(&b->arena, sizeof(*m));
	struct op *op = add_op(b, OP_KSYMBOL, ev);

	if (!m || !op)
		return -AUX_E_NOMEM;
	m->start = ev->ksymbol.addr;
	if (__builtin_add_overflow(m->start, ev->ksymbol.len, &m->end))
		m->end = UINT64_MAX;
	m->time = op->time;
	m->path = ev->ksymbol.name;
	m->kind = MAPPING_KSYMBOL;
	op->map = m;
	if (ev->ksymbol.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER)
		op->flags |= OP_REMOVE;
	return 0;
}

static int add_poke(struct build *b, const struct aux_event *ev)
{
	uint32_t n_old = ev->text_poke.old_len, n_new = ev->text_poke.new_len;
	struct op *op;

	if (ev->text_poke.addr > UINT64_MAX - (n_old > n_new ? n_old : n_new)) {
		b->tl->stats.n_bad_code++;
		return 0;
	}
	op = add_op(b, OP_POKE, ev);
	if (!op)
		return -AUX_E_NOMEM;
	op->addr = ev->text_poke.addr;
	op->bytes = ev->text_poke.bytes;
	op->n_old = (uint16_t)n_old;
	op->n_new = (uint16_t)n_new;
	return 0;
}

/* ---- tasks ---- */

static int add_task(struct build *b, const struct aux_event *ev)
{
	bool timed = ev->id.present & PERF_SAMPLE_TIME;
	struct op *op = add_op(b, ev->type == PERF_RECORD_FORK ? OP_FORK :
								 OP_EXIT, ev);

	if (!op)
		return -AUX_E_NOMEM;
	if (!timed) {
		op->time = ev->task.time;
		op->flags |= OP_UNTIMED;
	}
	op->pid = ev->task.pid;
	op->tid = ev->task.tid;
	op->ppid = ev->task.ppid;
	op->ptid = ev->task.ptid;
	/* perf before Linux 4.20 does not flag the FORKs it synthesizes;
	 * they have time 0. */
	if (ev->misc & PERF_RECORD_MISC_FORK_EXEC || (timed && !op->time))
		op->flags |= OP_EXEC;
	return 0;
}

/* pid and tid of who run on the record's CPU from here on. */
static int add_run(struct build *b, const struct aux_event *ev,
		   const struct op *who)
{
	struct op *op;

	if (!(ev->id.present & PERF_SAMPLE_CPU) || ev->id.cpu >= STREAM_LINE)
		return 0;
	op = add_op(b, OP_RUN, ev);
	if (!op)
		return -AUX_E_NOMEM;
	op->flags = who->flags;
	op->pid = who->pid;
	op->tid = who->tid;
	op->ppid = who->ppid;
	op->ptid = who->ptid;
	op->comm = who->comm;
	op->cpu = ev->id.cpu;
	return 0;
}

/*
 * When a thread that is not the leader execs, it takes over the leader's tid;
 * the kernel writes no other record of that than this COMM. So it also counts
 * as a switch, and hands the thread's own stream over to the new tid.
 */
static int add_comm(struct build *b, const struct aux_event *ev)
{
	const struct event_info *e = find_event(b, ev);
	struct op *op = add_op(b, OP_COMM, ev);
	struct op run = { .pid = ev->comm.pid, .tid = ev->comm.tid };

	if (!op)
		return -AUX_E_NOMEM;
	op->pid = ev->comm.pid;
	op->tid = ev->comm.tid;
	op->comm = ev->comm.comm;
	/* Without times the mappings from before must stay: see apply_mmap. */
	if (ev->comm.exec && ev->id.present & PERF_SAMPLE_TIME)
		op->flags |= OP_EXEC;
	if (!ev->comm.exec || !(ev->id.present & PERF_SAMPLE_TID) ||
	    ev->id.tid != ev->comm.tid)
		return 0;
	if (op->flags & OP_EXEC && e && e->idx != UINT32_MAX) {
		op->cpu = STREAM_LINE | e->idx;
		op->ptid = e->tid;
	}
	return add_run(b, ev, &run);
}

/*
 * Only a CPU-wide SWITCH names the next thread. After a per-thread switch-out
 * nothing is known to run; the kernel code that still runs is the old thread's,
 * so it stays unless the trace has user code alone.
 */
static int add_switch(struct build *b, const struct aux_event *ev)
{
	uint32_t pid = ev->id.pid, tid = ev->id.tid;
	struct op run = { .pid = pid, .tid = tid };

	if (ev->id.present & PERF_SAMPLE_TID && !find_machine(b, ev) &&
	    timeline_note_switch(b, ev, tid, ev->sw.out,
				 timeline_why_switch(b, ev)) < 0)
		return -AUX_E_NOMEM;
	if (!(ev->id.present & PERF_SAMPLE_TID))
		run.pid = run.tid = pid = tid = UINT32_MAX;
	if (ev->sw.out && ev->sw.cpu_wide) {
		run.pid = ev->sw.next_prev_pid;
		run.tid = ev->sw.next_prev_tid;
	} else if (ev->sw.out && b->tl->user_only) {
		run.pid = run.tid = UINT32_MAX;
	}
	if (ev->sw.out || ev->sw.cpu_wide) {
		run.flags = OP_HAS_PREV;
		run.ppid = ev->sw.out ? pid : ev->sw.next_prev_pid;
		run.ptid = ev->sw.out ? tid : ev->sw.next_prev_tid;
	}
	return add_run(b, ev, &run);
}

static int add_itrace(struct build *b, const struct aux_event *ev)
{
	const struct op run = { .pid = ev->itrace.pid, .tid = ev->itrace.tid };

	return add_run(b, ev, &run);
}

/* Of a sched_switch, where there are no SWITCH records. */
static int note_sample(struct build *b, const struct aux_event *ev,
		       const struct op *run)
{
	if (b->has_switches || find_machine(b, ev))
		return 0;
	if (run->flags & OP_HAS_PREV &&
	    timeline_note_switch(b, ev, run->ptid, true,
				 timeline_why_sample(b, ev)) < 0)
		return -AUX_E_NOMEM;
	return timeline_note_switch(b, ev, run->tid, false, OFF_UNKNOWN);
}

/* A SAMPLE may be sched_switch, and may have the cgroup of its thread. */
static int add_sample(struct build *b, const struct aux_event *ev)
{
	struct op run = { .pid = UINT32_MAX }, *op;

	if (timeline_sched_switch(b, ev, &run) &&
	    (add_run(b, ev, &run) < 0 || note_sample(b, ev, &run) < 0))
		return -AUX_E_NOMEM;
	if (!ev->sample.cgroup || !(ev->id.present & PERF_SAMPLE_TID))
		return 0;
	op = add_op(b, OP_CGROUP, ev);
	if (!op)
		return -AUX_E_NOMEM;
	op->pid = ev->id.pid;
	op->tid = ev->id.tid;
	op->cgroup = ev->sample.cgroup;
	return 0;
}

static int add_namespaces(struct build *b, const struct aux_event *ev)
{
	struct thread_ns *ns = map_arena_alloc(&b->tl->arena, sizeof(*ns));
	struct op *op = add_op(b, OP_NS, ev);
	struct cursor c = cursor_init(ev->namespaces.ids.data,
				      ev->namespaces.ids.len, b->swapped);

	if (!ns || !op)
		return -AUX_E_NOMEM;
	for (unsigned i = 0; i < TIMELINE_N_NS && cursor_left(&c); i++) {
		ns->id[i].dev = cursor_u64(&c);
		ns->id[i].inode = cursor_u64(&c);
	}
	op->pid = ev->namespaces.pid;
	op->tid = ev->namespaces.tid;
	op->ns = ns;
	return 0;
}

/* THREAD_MAP: names of threads from before the trace. tid -1 stands for all
 * threads. */
static int add_thread_map(struct build *b, const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->thread_map.entries.data,
				      ev->thread_map.entries.len, b->swapped);

	while (cursor_left(&c)) {
		uint64_t tid = cursor_u64(&c);
		const uint8_t *comm = cursor_bytes(&c, 16);
		struct op *op;

		if ((uint32_t)tid == UINT32_MAX || !comm || !*comm ||
		    !memchr(comm, 0, 16))
			continue;
		op = timeline_add_op(b, OP_COMM, 0);
		if (!op)
			return -AUX_E_NOMEM;
		op->pid = UINT32_MAX;
		op->tid = (uint32_t)tid;
		op->comm = (const char *)comm;
	}
	return 0;
}

/* The ops of one record about tasks, mappings or kernel code. */
static int add_ops(struct build *b, const struct aux_event *ev)
{
	switch (ev->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return add_mmap(b, ev);
	case PERF_RECORD_COMM:
		return add_comm(b, ev);
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		return add_task(b, ev);
	case PERF_RECORD_ITRACE_START:
		return add_itrace(b, ev);
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return add_switch(b, ev);
	case PERF_RECORD_SAMPLE:
		return add_sample(b, ev);
	case PERF_RECORD_NAMESPACES:
		return add_namespaces(b, ev);
	case PERF_RECORD_KSYMBOL:
		return add_ksymbol(b, ev);
	case PERF_RECORD_TEXT_POKE:
		return add_poke(b, ev);
	case AUX_RECORD_THREAD_MAP:
		return add_thread_map(b, ev);
	default:
		return 0;
	}
}

/* ---- the pass ---- */

/* The throttling of another event (cycles, say) costs the trace nothing. */
static bool is_of_trace(const struct build *b, const struct aux_event *ev)
{
	return b->pmu_type == UINT32_MAX || !ev->attr ||
	       ev->attr->attr.type == b->pmu_type;
}

static int handle_record(struct build *b, const struct aux_event *ev)
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
		parse_auxtrace_info(b, ev);
		return 0;
	case AUX_RECORD_TIME_CONV:
		parse_time_conv(b, ev);
		return 0;
	case AUX_RECORD_TRACING_DATA:
		timeline_sched_format(b, ev->tracing_data.data);
		return 0;
	case AUX_RECORD_EVENT_TYPE:
		return timeline_keep_code(b, ev);
	default:
		return add_ops(b, ev);
	}
}

/* order is unique up to 2^29 ops, so equal times keep the order of the file. */
static int by_time(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int sort_ops(struct build *b)
{
	return array_sort_within(&b->tl->memory, b->ops, b->n, sizeof(*b->ops),
				 by_time);
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
		if (handle_record(b, &ev) < 0 || record_time(b, &ev) < 0)
			return -AUX_E_NOMEM;
		if (ev.type == AUX_RECORD_AUXTRACE_INFO)
			find_mode(b, r);
	}
	st->damaged = rc < 0;
	if (timeline_add_code(b, r) < 0 || timeline_load_bpf(b, r) < 0)
		return -AUX_E_NOMEM;
	return 0;
}

/* Ops of the past (OP_POKED) can be made only once the order is known; they are
 * then sorted in. */
static int build_all(struct build *b, struct aux_reader *r)
{
	size_t n;
	int rc = timeline_machine(b->tl, HOST_ID) < 0 ? -AUX_E_NOMEM :
							collect(b, r);

	if (rc == 0)
		rc = timeline_pair_switches(b, aux_reader_info(r)->os_release);
	if (rc == 0)
		rc = sort_ops(b);
	n = b->n;
	if (rc == 0)
		rc = timeline_look_back(b);
	if (rc == 0 && b->n > n)
		rc = sort_ops(b);
	for (size_t i = 0; rc == 0 && i < b->n; i++)
		rc = timeline_apply(b->tl, &b->ops[i],
				    i ? &b->ops[i - 1] : NULL);
	return rc < 0 ? rc : timeline_finish(b->tl);
}

/* "arm", "armv7l", "i386" to "i686". */
static bool is_32bit(const char *arch)
{
	if (!arch)
		return false;
	return (!strncmp(arch, "arm", 3) && !strstr(arch, "64")) ||
	       (arch[0] == 'i' && strlen(arch) == 4 && !strcmp(arch + 2, "86"));
}

/* A file could be made so that hashes collide and trees degenerate; random
 * salts prevent it. They shape the tables, never the answers. */
static void salt_tables(struct build *b)
{
	struct timeline *tl = b->tl;
	uint64_t salt = idmap_salt();

	tl->arena.seed = b->arena.seed = salt;
	tl->arena.salt = b->arena.salt = ~salt;
	tl->cpus.ids.salt = tl->threads.ids.salt = tl->processes.ids.salt = salt;
	tl->machines.ids.salt = tl->cgroups.ids.salt = tl->saved.by_hash.salt = salt;
	b->event_ids.salt = b->cpu_times.salt = salt;
}

static void share_limit(struct build *b)
{
	struct timeline *tl = b->tl;
	struct array_limit *l = &tl->memory;

	tl->arena.limit = b->arena.limit = l;
	tl->cpus.ids.limit = tl->threads.ids.limit = tl->processes.ids.limit = l;
	tl->machines.ids.limit = tl->cgroups.ids.limit = tl->saved.by_hash.limit = l;
	b->event_ids.limit = b->cpu_times.limit = l;
}

uint64_t timeline_memory(const struct timeline *tl)
{
	return tl->memory.used;
}

static int say_failure(const struct timeline *tl, struct aux_diag *diag)
{
	if (!tl || !tl->memory.full)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
		 "what was mapped, who ran, and when, needs more than %llu MiB",
		 (unsigned long long)(tl->memory.max >> 20));
	return diag_why(diag, AUX_WHY_MEMORY, -AUX_E_LIMIT);
}

/* Its tables are no part of what the timeline takes from here on. */
static void free_build(struct build *b)
{
	struct array_limit *l = &b->tl->memory;

	free(b->ops);
	array_give(l, b->cap * sizeof(*b->ops));
	free(b->codes);
	array_give(l, b->cap_codes * sizeof(*b->codes));
	free(b->turns);
	array_give(l, b->cap_turns * sizeof(*b->turns));
	free(b->events);
	array_give(l, b->cap_events * sizeof(*b->events));
	free(b->last_time);
	array_give(l, b->cap_times * sizeof(*b->last_time));
	idmap_fini(&b->event_ids);
	idmap_fini(&b->cpu_times);
	map_arena_free(&b->arena);
}

int timeline_new(struct timeline **tlp, struct aux_reader *r,
		 uint64_t memory, struct aux_diag *diag)
{
	struct timeline *tl = calloc(1, sizeof(*tl));
	struct build b = { .tl = tl, .sched_mode = 2, .pmu_type = UINT32_MAX,
			   .is_32bit = is_32bit(aux_reader_info(r)->arch),
			   .swapped = aux_reader_info(r)->swapped };
	int rc = -AUX_E_NOMEM;

	if (tl) {
		salt_tables(&b);
		tl->memory.max = memory;
		share_limit(&b);
		rc = build_all(&b, r);
	}

	if (tl)
		free_build(&b);
	*tlp = NULL;
	if (rc == 0) {
		*tlp = tl;
		return 0;
	}
	rc = say_failure(tl, diag);
	timeline_free(tl);
	return rc;
}
