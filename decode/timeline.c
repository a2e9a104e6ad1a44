/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: the questions. All tables are sorted by time and immutable by now,
 * so every answer is a hash look-up and a binary search, from any thread.
 */
#include <stdlib.h>

#include "timeline_priv.h"

static uint32_t hash(uint32_t key)
{
	return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

int64_t idmap_find(const struct idmap *m, uint32_t key)
{
	if (!m->cap)
		return -1;
	for (uint32_t i = hash(key);; i++) {
		const struct idmap_entry *e = &m->e[i & (m->cap - 1)];

		if (!e->slot)
			return -1;
		if (e->key == key)
			return (int64_t)e->slot - 1;
	}
}

static int grow_idmap(struct idmap *m)
{
	struct idmap old = *m;

	m->cap = old.cap ? 2 * old.cap : 64;
	m->e = calloc(m->cap, sizeof(*m->e));
	if (!m->e) {
		*m = old;
		return -AUX_E_NOMEM;
	}
	for (uint32_t i = 0; i < old.cap; i++) {
		uint32_t j = hash(old.e[i].key);

		if (!old.e[i].slot)
			continue;
		while (m->e[j & (m->cap - 1)].slot)
			j++;
		m->e[j & (m->cap - 1)] = old.e[i];
	}
	free(old.e);
	return 0;
}

int64_t idmap_add(struct idmap *m, uint32_t key, uint32_t new_slot)
{
	int64_t slot = idmap_find(m, key);
	uint32_t i;

	if (slot >= 0)
		return slot;
	if (2 * m->n >= m->cap && grow_idmap(m) < 0)
		return -AUX_E_NOMEM;
	for (i = hash(key); m->e[i & (m->cap - 1)].slot; i++)
		;
	m->e[i & (m->cap - 1)] =
		(struct idmap_entry){ .key = key, .slot = new_slot + 1 };
	m->n++;
	return new_slot;
}

int timeline_grow(void *array, size_t *cap, size_t n, size_t size)
{
	void **a = array;
	size_t want = *cap ? 2 * *cap : 8;
	void *p;

	if (n < *cap)
		return 0;
	p = reallocarray(*a, want, size);
	if (!p)
		return -AUX_E_NOMEM;
	*a = p;
	*cap = want;
	return 0;
}

void timeline_free(struct timeline *tl)
{
	if (!tl)
		return;
	for (size_t i = 0; i < tl->n_cpu; i++)
		free(tl->cpu[i].e);
	for (size_t i = 0; i < tl->n_thread; i++)
		free(tl->thread[i].e);
	for (size_t i = 0; i < tl->n_process; i++)
		free(tl->process[i].e);
	free(tl->cpu);
	free(tl->thread);
	free(tl->process);
	free(tl->cpus.e);
	free(tl->tids.e);
	free(tl->pids.e);
	free(tl->ids.sum);
	free(tl->saved);
	map_arena_free(&tl->arena);
	free(tl);
}

const struct timeline_stats *timeline_stats(const struct timeline *tl)
{
	return &tl->stats;
}

const struct saved_code *timeline_saved(const struct timeline *tl, size_t i)
{
	return i < tl->n_saved ? &tl->saved[i] : NULL;
}

/* Entries with from <= time, in a table of structs that start with from. */
static size_t count_until(const void *table, size_t n, size_t size,
			  uint64_t time)
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

struct who timeline_who(const struct timeline *tl, uint32_t cpu, uint64_t time)
{
	struct who w = { .pid = UINT32_MAX, .tid = UINT32_MAX,
			 .until = UINT64_MAX };
	int64_t slot = idmap_find(&tl->cpus, cpu);
	const struct cpu_line *l;
	size_t i;

	if (slot < 0)
		return w;
	l = &tl->cpu[slot];
	i = count_until(l->e, l->n, sizeof(*l->e), time);
	if (i) {
		w.pid = l->e[i - 1].pid;
		w.tid = l->e[i - 1].tid;
	}
	if (i < l->n)
		w.until = l->e[i].from;
	return w;
}

struct who timeline_stream(const struct timeline *tl, uint32_t idx,
			   uint64_t time)
{
	return timeline_who(tl, STREAM_LINE | idx, time);
}

static const struct thread_entry *find_thread(const struct timeline *tl,
					      uint32_t tid, uint64_t time)
{
	int64_t slot = idmap_find(&tl->tids, tid);
	const struct thread_line *l;
	size_t i;

	if (slot < 0)
		return NULL;
	l = &tl->thread[slot];
	i = count_until(l->e, l->n, sizeof(*l->e), time);
	/* What is first said of a thread holds for the time before, too. */
	return i ? &l->e[i - 1] : l->n ? &l->e[0] : NULL;
}

uint32_t timeline_pid(const struct timeline *tl, uint32_t tid, uint64_t time)
{
	const struct thread_entry *e = find_thread(tl, tid, time);

	return e ? e->pid : UINT32_MAX;
}

const char *timeline_comm(const struct timeline *tl, uint32_t tid,
			  uint64_t time)
{
	const struct thread_entry *e = find_thread(tl, tid, time);

	if (tid == 0)
		return "swapper";
	return e && e->comm ? e->comm : "";
}

const struct space *timeline_space(const struct timeline *tl, uint32_t pid,
				   uint64_t time)
{
	int64_t slot = idmap_find(&tl->pids, pid);
	const struct process_line *l;
	size_t lo = 0, n;

	if (slot < 0)
		return &tl->empty;
	l = &tl->process[slot];
	n = l->n;
	while (n) {
		size_t half = n / 2;

		if (l->e[lo + half]->from <= time) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo ? l->e[lo - 1] : &tl->empty;
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

const struct aux_clock *timeline_clock(const struct timeline *tl)
{
	return &tl->clock;
}

uint64_t clock_to_ns(const struct aux_clock *c, uint64_t tsc)
{
	uint64_t quot, rem;

	if (!c->mult || c->shift > 63)
		return 0;
	if (c->mask && c->mask != UINT64_MAX)
		tsc = c->cycles + ((tsc - c->cycles) & c->mask);
	quot = tsc >> c->shift;
	rem = tsc & ((UINT64_C(1) << c->shift) - 1);
	return c->zero + quot * c->mult + (rem * c->mult >> c->shift);
}

uint64_t clock_to_tsc(const struct aux_clock *c, uint64_t ns)
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
	/* Rounding goes down on both ways: off by a tick, or by a few when
	 * many ticks share one nanosecond. */
	for (int i = 0; i < 4 && clock_to_ns(c, tsc) < ns; i++)
		tsc++;
	for (int i = 0; i < 64 && tsc && clock_to_ns(c, tsc - 1) >= ns; i++)
		tsc--;
	return tsc;
}
