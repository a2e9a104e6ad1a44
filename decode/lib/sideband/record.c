/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: from one record to the ops that it stands for.
 *
 * A record is a guest's when the id of its event is (ID_INDEX says so), or its
 * cpumode; then its machine is the hypervisor's pid, or what stands in its place.
 */
#include <string.h>

#include "common/bytes.h"

#include "decode/lib/sideband/build.h"

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
	/* A host's sample inside a guest still is of the host's thread. */
	if (!is_of_guest(ev) || ev->type == PERF_RECORD_SAMPLE)
		return HOST_SLOT;
	if (ev->type == PERF_RECORD_MMAP || ev->type == PERF_RECORD_MMAP2)
		id = ev->mmap.pid;
	return timeline_machine(b->tl, id == HOST_ID ? 0 : id);
}

/* A new op of the record's machine and time. NULL: out of memory. */
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

/* "[kernel.kallsyms]_text", also "[guest.kernel.kallsyms.77]_text": splits it. */
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

/* The place of a kernel's image is not told to everyone (kptr_restrict): then it
 * is anywhere in the kernel's half, and its symbol's address is unknown. With
 * simpleperf the image starts at the symbol, and pgoff is 0. */
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

/* What a kernel has mapped is told when recording starts, and never anew: it was
 * there all the time. */
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
	/* Recorders of before Linux 4.20 do not mark what they make up. */
	if (ev->misc & PERF_RECORD_MISC_FORK_EXEC || (timed && !op->time))
		op->flags |= OP_EXEC;
	return 0;
}

static int add_run(struct build *b, const struct aux_event *ev,
		   const struct op *who)
{
	const struct event_info *e = find_event(b, ev);
	uint32_t cpu = e && e->machine ? e->vcpu : ev->id.cpu;
	bool has_cpu = ev->id.present & PERF_SAMPLE_CPU ||
		       (e && e->machine);
	struct op *op;

	if (!has_cpu || cpu >= STREAM_LINE)
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
	op->cpu = cpu;
	return 0;
}

/* A thread that execs takes over its leader's tid, and no other record tells. */
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
	/* Without times what was mapped before has to stay, see apply_mmap. */
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

/* Without the next one's name: what the kernel still does is the old thread's,
 * user code is not. */
static int add_switch(struct build *b, const struct aux_event *ev)
{
	uint32_t pid = ev->id.pid, tid = ev->id.tid;
	struct op run = { .pid = pid, .tid = tid };

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

static int add_sample(struct build *b, const struct aux_event *ev)
{
	struct op run = { .pid = UINT32_MAX }, *op;

	if (timeline_sched_switch(b, ev, &run) && add_run(b, ev, &run) < 0)
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

/* Names of threads from before the trace; -1 stands for all. */
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

int timeline_take_side(struct build *b, const struct aux_event *ev)
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
