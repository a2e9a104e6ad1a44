/* SPDX-License-Identifier: BSD-2-Clause */
/* Filling a struct aux_diag. */
#ifndef COMMON_DIAG_H
#define COMMON_DIAG_H

#include <stdarg.h>
#include <stdio.h>

#include <aux/error.h>

/* As diag_set, for functions that take a format themselves. */
__attribute__((format(printf, 4, 0)))
static inline int diag_vset(struct aux_diag *diag, int code, uint64_t offset,
			    const char *fmt, va_list ap)
{
	if (diag) {
		diag->code = code;
		diag->why = AUX_WHY_NONE;
		diag->offset = offset;
		vsnprintf(diag->text, sizeof(diag->text), fmt, ap);
	}
	return -code;
}

/* Records the cause and returns -code, so a caller can return it at once. */
__attribute__((format(printf, 4, 5)))
static inline int diag_set(struct aux_diag *diag, int code, uint64_t offset,
			   const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_vset(diag, code, offset, fmt, ap);
	va_end(ap);
	return -code;
}

/* Adds the cause to a diag just set. Passes rc on, so that a caller can return
 * it. */
static inline int diag_why(struct aux_diag *diag, enum aux_why why, int rc)
{
	if (diag)
		diag->why = why;
	return rc;
}

#endif
