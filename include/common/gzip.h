/* SPDX-License-Identifier: BSD-2-Clause */
/* gzip: what is put goes into an outbuf as one gzip member, by zlib; without
 * it uncompressed inside (stored blocks). Specification: RFC 1951, RFC 1952. */
#ifndef COMMON_GZIP_H
#define COMMON_GZIP_H

#include "common/outbuf.h"

struct gzip;

struct gzip *gzip_new(struct outbuf *out); /* NULL: no memory */
int gzip_put(struct gzip *z, const void *p, size_t n);
/* Writes the end, of which there is one. */
int gzip_finish(struct gzip *z);
void gzip_free(struct gzip *z);

#endif
