/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrays that grow by doubling. */
#ifndef COMMON_ARRAY_H
#define COMMON_ARRAY_H

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

#endif
