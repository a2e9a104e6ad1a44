/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_spool: texts of many tracks that grow side by side and are written one
 * behind the other at last, for formats that want each track in one piece. What does
 * not fit in a small buffer goes into one unnamed temporary file ($TMPDIR), so
 * memory does not grow with the trace, and no file is open for each track.
 */
#ifndef DECODE_EXPORT_SPOOL_H
#define DECODE_EXPORT_SPOOL_H

#include "common/outbuf.h"

struct export_spool;
struct export_piece;	/* the text of one track */

struct export_spool *export_spool_new(void);	/* NULL: out of memory */
void export_spool_free(struct export_spool *s);
/* NULL: out of memory. It lives as s does. */
struct export_piece *export_spool_piece(struct export_spool *s);
/* 0, -AUX_E_NOMEM, or -AUX_E_IO: the temporary file cannot be written. */
int export_spool_put(struct export_spool *s, struct export_piece *p,
		     const char *text, size_t n);
int export_spool_write(struct export_spool *s, const struct export_piece *p,
		       struct outbuf *out);

#endif
