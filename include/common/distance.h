/* SPDX-License-Identifier: BSD-2-Clause */
/* How many letters two words differ by, for "did you mean". */
#ifndef COMMON_DISTANCE_H
#define COMMON_DISTANCE_H

#include <limits.h>
#include <stddef.h>

#define TEXT_DISTANCE_MAX 64	/* letters; longer words are far from all */

/* Letters to put in, leave out or change: Levenshtein's distance. */
static inline unsigned text_distance(const char *a, size_t la, const char *b,
				     size_t lb)
{
	unsigned row[TEXT_DISTANCE_MAX + 1], diag, up, best;

	if (la > TEXT_DISTANCE_MAX || lb > TEXT_DISTANCE_MAX)
		return UINT_MAX;
	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		diag = row[0];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			up = row[j];
			best = diag + (a[i - 1] != b[j - 1]);
			best = up + 1 < best ? up + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			diag = up;
			row[j] = best;
		}
	}
	return row[lb];
}

#endif
