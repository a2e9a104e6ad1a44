/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: the questions. All tables are sorted by time and immutable by now,
 * so every answer is a hash look-up and a binary search, from any thread,
 * without a lock.
 */
#include <stdlib.h>

#include "decode/lib/sideband/impl.h"
#include "decode/lib/sideband/sideband.h"

void timeline_free(struct timeline *tl)
{
	if (!tl)
		return;
	timeline_free_spaces(tl);
	for (size_t i = 0; i < tl->cpus.n; i++)
		free(tl->cpus.v[i].e);
	for (size_t i = 0; i < tl->threads.n; i++)
		free(tl->threads.v[i].e);
	for (size_t i = 0; i < tl->processes.n; i++)
		free(tl->processes.v[i].v.e);
	for (size_t i = 0; i < tl->machines.n; i++)
		free(tl->machines.v[i].v.e);
	free(tl->offs);
	free(tl->cpus.v);
	free(tl->threads.v);
	free(tl->processes.v);
	free(tl->machines.v);
	free(tl->cgroups.v);
	idmap_fini(&tl->cpus.ids);
	idmap_fini(&tl->threads.ids);
	idmap_fini(&tl->processes.ids);
	idmap_fini(&tl->machines.ids);
	idmap_fini(&tl->cgroups.ids);
	free(tl->contents.e);
	free(tl->losses.v);
	free(tl->saved.v);
	idmap_fini(&tl->saved.by_hash);
	free(tl->bpf.v);
	map_arena_free(&tl->arena);
	free(tl);
}

const struct timeline_stats *timeline_stats(const struct timeline *tl)
{
	return &tl->stats;
}

const struct saved_code *timeline_saved(const struct timeline *tl, size_t i)
{
	return i < tl->saved.n ? &tl->saved.v[i] : NULL;
}

const struct timeline_loss *timeline_loss(const struct timeline *tl, size_t i)
{
	return i < tl->losses.n ? &tl->losses.v[i] : NULL;
}

bool timeline_guest(const struct timeline *tl, size_t i,
		    struct timeline_guest *guest)
{
	const struct machine *m;

	if (i + 1 >= tl->machines.n)
		return false;
	m = &tl->machines.v[i + 1];
	*guest = (struct timeline_guest){ .machine = m->id,
					  .n_processes = m->n_processes,
					  .n_threads = m->n_threads };
	return true;
}

/* Entries with from <= time; each struct starts with its from. */
size_t timeline_count(const void *table, size_t n, size_t size, uint64_t time)
{
	const uint8_t *t = table;
	size_t lo = 0;

	while (n) {
		size_t half = n / 2;

		if (*(const uint64_t *)(t + (lo + half) * size) <= time) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

/* A thread of the host. What is said first of it holds for the time before,
 * too: a recorder describes threads late. */
static const struct thread_entry *find_thread(const struct timeline *tl,
					      uint32_t tid, uint64_t time)
{
	int64_t slot = idmap_find(&tl->threads.ids, machine_key(HOST_SLOT, tid));
	const struct thread_line *l;
	size_t i;

	if (slot < 0)
		return NULL;
	l = &tl->threads.v[slot];
	i = timeline_count(l->e, l->n, sizeof(*l->e), time);
	return i ? &l->e[i - 1] : l->n ? &l->e[0] : NULL;
}

uint64_t timeline_thread_until(const struct timeline *tl, uint32_t tid,
			       uint64_t time)
{
	int64_t slot = idmap_find(&tl->threads.ids, machine_key(HOST_SLOT, tid));
	const struct thread_line *l;
	size_t i;

	if (slot < 0)
		return UINT64_MAX;
	l = &tl->threads.v[slot];
	i = timeline_count(l->e, l->n, sizeof(*l->e), time);
	/* the first entry holds for the time before it, too */
	i += !i;
	return i < l->n ? l->e[i].from : UINT64_MAX;
}

/* tid 0 is the idle task of every CPU; its process is 0, too. */
uint32_t timeline_pid(const struct timeline *tl, uint32_t tid, uint64_t time)
{
	const struct thread_entry *e = find_thread(tl, tid, time);

	if (tid == 0)		/* idle */
		return 0;
	return e ? e->pid : UINT32_MAX;
}

/* Before the first entry of a CPU nobody is known to run: only add_run (task.c)
 * could tell. */
struct who timeline_who(const struct timeline *tl, uint32_t cpu, uint64_t time)
{
	struct who w = { .pid = UINT32_MAX, .tid = UINT32_MAX,
			 .until = UINT64_MAX };
	int64_t line = idmap_find(&tl->cpus.ids, cpu);
	const struct cpu_line *l;
	size_t i;

	if (line < 0)
		return w;
	l = &tl->cpus.v[line];
	i = timeline_count(l->e, l->n, sizeof(*l->e), time);
	if (i) {
		w.pid = l->e[i - 1].pid;
		w.tid = l->e[i - 1].tid;
	}
	if (i < l->n)
		w.until = l->e[i].from;
	if (w.pid == UINT32_MAX && w.tid != UINT32_MAX)
		w.pid = timeline_pid(tl, w.tid, time);
	return w;
}

struct who timeline_stream(const struct timeline *tl, uint32_t idx,
			   uint64_t time)
{
	return timeline_who(tl, STREAM_LINE | idx, time);
}

const char *timeline_comm(const struct timeline *tl, uint32_t tid,
			  uint64_t time)
{
	const struct thread_entry *e = find_thread(tl, tid, time);

	if (tid == 0)
		return "swapper";
	return e && e->comm ? e->comm : "";
}

const struct timeline_ns_id *timeline_namespaces(const struct timeline *tl,
						 uint32_t tid, uint64_t time)
{
	const struct thread_entry *e = find_thread(tl, tid, time);

	return e && e->ns ? e->ns->id : NULL;
}

const char *timeline_cgroup(const struct timeline *tl, uint32_t tid,
			    uint64_t time)
{
	const struct thread_entry *e = find_thread(tl, tid, time);

	return e ? e->cgroup : NULL;
}

const char *timeline_cgroup_path(const struct timeline *tl, uint64_t id)
{
	int64_t slot = idmap_find(&tl->cgroups.ids, id);

	return slot < 0 ? NULL : tl->cgroups.v[slot].path;
}

const char *timeline_cgroup_at(const struct timeline *tl, size_t i,
			       uint64_t *id)
{
	if (i >= tl->cgroups.n)
		return NULL;
	*id = tl->cgroups.v[i].id;
	return tl->cgroups.v[i].path;
}

bool timeline_next_thread(const struct timeline *tl, size_t *i, uint32_t *tid)
{
	while (*i < tl->threads.n) {
		uint64_t key = tl->threads.v[(*i)++].key;

		*tid = (uint32_t)key;
		if (key == machine_key(HOST_SLOT, *tid))
			return true;
	}
	return false;
}

const struct mapping *space_find(const struct space *s, uint64_t addr)
{
	const struct mapping *m;

	if (!s)
		return NULL;
	m = addrspace_find(s->root, addr);
	return m ? m : addrspace_find(s->kernel, addr);
}

const struct mapping *space_next(const struct space *s, uint64_t addr)
{
	return s ? addrspace_next(s->root, addr) : NULL;
}

const struct mapping *space_next_kernel(const struct space *s, uint64_t addr)
{
	return s ? addrspace_next(s->kernel, addr) : NULL;
}

const struct aux_clock *timeline_clock(const struct timeline *tl)
{
	return &tl->clock;
}

/*
 * TSC <-> perf clock, by the formula beside time_mult in struct
 * perf_event_mmap_page (include/uapi/linux/perf_event.h): ns = zero + (tsc *
 * mult >> shift).
 */

uint64_t clock_to_ns(const struct aux_clock *c, uint64_t tsc)
{
	return aux_clock_ns(c, tsc);
}

/* The inverse, without overflow: whole multiples of mult first. Rounds down. */
static uint64_t clock_to_tsc(const struct aux_clock *c, uint64_t ns)
{
	uint64_t t = ns - c->zero;

	if (!c->mult || c->shift > 63)
		return 0;
	return (t / c->mult << c->shift) +
	       (uint64_t)(((unsigned __int128)(t % c->mult) << c->shift) /
			  c->mult);
}

uint64_t clock_horizon(const struct aux_clock *c, uint64_t ns)
{
	uint64_t tsc;

	if (ns == UINT64_MAX || !c->mult || c->shift > 63)
		return UINT64_MAX;
	tsc = clock_to_tsc(c, ns);
	/* Both directions round down, so tsc may be a tick low, or a few ticks
	 * high where several share one nanosecond. */
	for (int i = 0; i < 4 && clock_to_ns(c, tsc) < ns; i++)
		tsc++;
	for (int i = 0; i < 64 && tsc && clock_to_ns(c, tsc - 1) >= ns; i++)
		tsc--;
	return tsc;
}
