/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slices.h: lists of instructions; and what decoders give CPU by CPU, as each
 * thread ran it: a thread moves between CPUs, so its slices are sorted by time.
 */
#ifndef TESTS_UNIT_SLICES_H
#define TESTS_UNIT_SLICES_H

#include <stdint.h>
#include <stdlib.h>

#define GAP UINT64_MAX		/* in the place of instructions that are lost */
#define SLICES_TID 100		/* of the first thread */
#define SLICES_THREADS 5
#define SLICES_MAX 200000

struct list {
	uint64_t *v;
	size_t n, cap;
};

static void add(struct list *l, uint64_t v)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 1024;
		l->v = realloc(l->v, l->cap * sizeof(*l->v));
		if (!l->v)
			abort();
	}
	l->v[l->n++] = v;
}

/* Consecutive instructions of one thread in one stream. */
struct slice {
	uint64_t time;
	uint32_t order, thread;
	size_t first, n;	/* in all */
};

struct slices {
	struct list all;
	struct slice v[SLICES_MAX];
	uint32_t n;
	struct list ips[SLICES_THREADS];
};

static void slices_add(struct slices *s, uint64_t time, uint32_t tid,
		       uint64_t ip)
{
	struct slice *x = &s->v[s->n];

	if (!s->n || x[-1].time != time || x[-1].thread != tid - SLICES_TID) {
		*x = (struct slice){ .time = time, .thread = tid - SLICES_TID,
				     .order = s->n, .first = s->all.n };
		s->n++;
		x++;
	}
	add(&s->all, ip);
	x[-1].n++;
}

static int slices_by_time(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* Behind the last one: fills ips. */
static void slices_merge(struct slices *s)
{
	qsort(s->v, s->n, sizeof(*s->v), slices_by_time);
	for (uint32_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < s->v[i].n; k++)
			add(&s->ips[s->v[i].thread % SLICES_THREADS],
			    s->all.v[s->v[i].first + k]);
}

static void slices_free(struct slices *s)
{
	for (uint32_t i = 0; i < SLICES_THREADS; i++)
		free(s->ips[i].v);
	free(s->all.v);
}

#endif
