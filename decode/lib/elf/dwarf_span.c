/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage_dwarf: address ranges that lie inside each other, and the innermost one
 * around an address. A look-up is a binary search, then a walk outwards.
 */
#ifdef HAVE_DW
#include <stdlib.h>

#include <aux/error.h>

#include "decode/lib/elf/dwarf.h"

int dwarf_add_span(struct dwarf_spans *s, uint64_t start, uint64_t end,
		   uint32_t what)
{
	size_t cap = s->cap ? 2 * s->cap : 16;
	struct dwarf_span *v;

	if (s->n == s->cap) {
		v = cap < UINT32_MAX ? reallocarray(s->v, cap, sizeof(*v)) :
				       NULL;
		if (!v)
			return -AUX_E_NOMEM;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = (struct dwarf_span){ start, end, what, 0 };
	return 0;
}

/* What a linker left out begins at 0, 1 or -1, where there is no code. */
int dwarf_add_ranges(struct dwarf_image *d, struct dwarf_spans *s,
		     Dwarf_Die *die, uint32_t what, uint64_t *lowest)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	int n = 0;

	*lowest = UINT64_MAX;
	while (d->left && (at = dwarf_ranges(die, at, &base, &start,
					     &end)) > 0) {
		d->left--;
		if (end <= start || !dwarf_is_code(d->im, start))
			continue;
		if (dwarf_add_span(s, start, end, what) < 0)
			return -AUX_E_NOMEM;
		if (start < *lowest)
			*lowest = start;
		n++;
	}
	return n;
}

static int by_start(const void *a, const void *b)
{
	const struct dwarf_span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->what < y->what ? -1 : x->what > y->what;
}

void dwarf_sort_spans(struct dwarf_spans *s)
{
	uint32_t top = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_start);
	for (size_t i = 0; i < s->n; i++) {
		while (top && s->v[top - 1].end <= s->v[i].start)
			top = s->v[top - 1].around;
		s->v[i].around = top;
		top = (uint32_t)i + 1;
	}
}

const struct dwarf_span *dwarf_find_span(const struct dwarf_spans *s,
					 uint64_t addr)
{
	size_t lo = 0, n = s->n;

	while (n) {
		size_t half = n / 2;

		if (s->v[lo + half].start <= addr) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	while (lo && addr >= s->v[lo - 1].end)
		lo = s->v[lo - 1].around;
	return lo ? &s->v[lo - 1] : NULL;
}
#endif
