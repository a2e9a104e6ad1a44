/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrays that grow by doubling, and what several of them may take together. */
#ifndef COMMON_ARRAY_H
#define COMMON_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

/* Room for n + 1 elements in the array that *array (a pointer to any type)
 * points to; *cap is how many it has room for. 0, or -AUX_E_NOMEM: all is as it
 * was. */
static inline int array_grow(void *array, size_t n, size_t *cap, size_t size)
{
	size_t want = *cap ? *cap : 4;
	void *v;

	if (n < *cap)
		return 0;
	do {
		if (__builtin_mul_overflow(want, (size_t)2, &want))
			return -AUX_E_NOMEM;
	} while (want <= n);
	memcpy(&v, array, sizeof(v));
	v = reallocarray(v, want, size);
	if (!v)
		return -AUX_E_NOMEM;
	memcpy(array, &v, sizeof(v));
	*cap = want;
	return 0;
}

/* Of all that one owner keeps. Not for several threads. */
struct array_limit {
	uint64_t used, max;	/* bytes; max 0: as many as there are */
	bool full;		/* something failed because of max */
};

/* 0, or -AUX_E_NOMEM, and full: they are too many. */
static inline int array_take(struct array_limit *l, uint64_t bytes)
{
	if (l->max && (l->used > l->max || bytes > l->max - l->used)) {
		l->full = true;
		return -AUX_E_NOMEM;
	}
	l->used += bytes;
	return 0;
}

static inline void array_give(struct array_limit *l, uint64_t bytes)
{
	l->used -= bytes;
}

/* As array_grow, with the bytes of the array in the limit; by less than twice where
 * that is all it allows. */
static inline int array_grow_within(struct array_limit *l, void *array, size_t n,
				    size_t *cap, size_t size)
{
	size_t most = l->max > l->used ? (l->max - l->used) / size : 0;
	size_t more = *cap ? *cap : 2;
	void *v;

	if (n < *cap)
		return 0;
	if (l->max && more > most && most > more / 8)
		more = most;
	memcpy(&v, array, sizeof(v));
	if (array_take(l, (uint64_t)more * size) < 0)
		return -AUX_E_NOMEM;
	v = reallocarray(v, *cap + more, size);
	if (!v) {
		array_give(l, (uint64_t)more * size);
		return -AUX_E_NOMEM;
	}
	memcpy(array, &v, sizeof(v));
	*cap += more;
	return 0;
}

/* qsort, with the copy that it makes in the limit. */
static inline int array_sort_within(struct array_limit *l, void *v, size_t n,
				    size_t size,
				    int (*compare)(const void *, const void *))
{
	if (!n)
		return 0;
	if (array_take(l, (uint64_t)n * size) < 0)
		return -AUX_E_NOMEM;
	qsort(v, n, size, compare);
	array_give(l, (uint64_t)n * size);
	return 0;
}

/* Copies *element, of size bytes, to the end of such an array of *n
 * elements. */
static inline int array_append(void *array, size_t *n, size_t *cap,
			       const void *element, size_t size)
{
	uint8_t *v;

	if (array_grow(array, *n, cap, size) < 0)
		return -AUX_E_NOMEM;
	memcpy(&v, array, sizeof(v));
	memcpy(v + *n * size, element, size);
	++*n;
	return 0;
}

static inline int array_append_within(struct array_limit *l, void *array, size_t *n,
				      size_t *cap, const void *element, size_t size)
{
	if (array_grow_within(l, array, *n, cap, size) < 0)
		return -AUX_E_NOMEM;
	return array_append(array, n, cap, element, size);
}

#endif
