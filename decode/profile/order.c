/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: the order in which functions, places and calls are shown. It depends
 * on names and counts alone, so equal profiles give equal bytes. Sorted arrays
 * also serve the queries below, by binary search.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/profile/impl.h"

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/*
 * By parent; roots by total, the largest first (readers may stop early, and -n
 * does); inlined functions by place, then name. Indexes are sorted, as places
 * refer to funcs.
 */
static int order_funcs(const void *a, const void *b, void *lines)
{
	const struct profile_lines *l = lines;
	const struct profile_lines_func *x, *y;
	int c;

	x = profile_lines_func(l, *(const uint32_t *)a);
	y = profile_lines_func(l, *(const uint32_t *)b);
	c = ORDER(x->parent, y->parent);
	if (!c && x->parent == PROFILE_LINES_ROOT)
		c = ORDER(y->total, x->total);
	c = c ? c : ORDER(x->line, y->line);
	c = c ? c : ORDER(x->disc, y->disc);
	return c ? c : strcmp(l->names[x->name], l->names[y->name]);
}

/* By function, then line: profile_lines_places returns a part of the array. */
static int order_places(const void *a, const void *b)
{
	const struct profile_lines_place *x = a, *y = b;
	int c = ORDER(x->func, y->func);

	c = c ? c : ORDER(x->line, y->line);
	return c ? c : ORDER(x->disc, y->disc);
}

/* By place, then the most frequent first, then name. */
static int order_calls(const void *a, const void *b, void *lines)
{
	const struct profile_lines_call *x = a, *y = b;
	const struct profile_lines *l = lines;
	int c = ORDER(x->func, y->func);

	c = c ? c : ORDER(x->line, y->line);
	c = c ? c : ORDER(x->disc, y->disc);
	c = c ? c : ORDER(y->count, x->count);
	return c ? c : strcmp(l->names[x->name], l->names[y->name]);
}

int profile_lines_sort(struct profile_lines *l)
{
	l->order = calloc(l->funcs.n + 1, sizeof(*l->order));
	if (!l->order)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < l->funcs.n; i++)
		l->order[i] = (uint32_t)i;
	qsort_r(l->order, l->funcs.n, sizeof(*l->order), order_funcs, l);
	if (l->places.n)
		qsort(l->places.v, l->places.n, l->places.size, order_places);
	if (l->calls.n)
		qsort_r(l->calls.v, l->calls.n, l->calls.size, order_calls, l);
	return 0;
}

const uint32_t *profile_lines_inside(const struct profile_lines *l,
				     uint32_t func, size_t *n)
{
	size_t lo = 0, hi = l->funcs.n, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (profile_lines_func(l, l->order[mid])->parent < func)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (*n = 0; lo + *n < l->funcs.n; ++*n)
		if (profile_lines_func(l, l->order[lo + *n])->parent != func)
			break;
	return l->order + lo;
}

const struct profile_lines_place *
profile_lines_places(const struct profile_lines *l, uint32_t func, size_t *n)
{
	const struct profile_lines_place *p = l->places.v;
	size_t lo = 0, hi = l->places.n, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (p[mid].func < func)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (*n = 0; lo + *n < l->places.n && p[lo + *n].func == func; ++*n)
		;
	return p + lo;
}

static int compare_place(const struct profile_lines_call *c,
			 const struct profile_lines_place *p)
{
	int d = ORDER(c->func, p->func);

	d = d ? d : ORDER(c->line, p->line);
	return d ? d : ORDER(c->disc, p->disc);
}

const struct profile_lines_call *
profile_lines_calls(const struct profile_lines *l,
		    const struct profile_lines_place *place, size_t *n)
{
	const struct profile_lines_call *c = l->calls.v;
	size_t lo = 0, hi = l->calls.n, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (compare_place(&c[mid], place) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (*n = 0; lo + *n < l->calls.n; ++*n)
		if (compare_place(&c[lo + *n], place))
			break;
	return c + lo;
}
