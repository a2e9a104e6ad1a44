/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: what the compiler counts and a line table does not tell: lines that hold
 * nothing but a label ("case 3:", "default:", "out:") have no code. So they are read
 * from the source, where it is there.
 */
#ifndef DECODE_COVERAGE_LABELS_H
#define DECODE_COVERAGE_LABELS_H

#include <stdbool.h>
#include <stdint.h>

struct cover_labels;

#define COVER_LABEL 1	/* nothing but labels */
#define COVER_RETURN 2	/* there is "return;" in it */

/* What a line is, COVER_*. l may be NULL. */
unsigned cover_labels_of(const struct cover_labels *l, uint32_t line);

#endif
