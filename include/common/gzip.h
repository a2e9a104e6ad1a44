/* SPDX-License-Identifier: BSD-2-Clause */
/* export_gzip: what is put goes into an outbuf as one gzip member, by zlib; without
 * it uncompressed inside (stored blocks). Specification: RFC 1951, RFC 1952. */
#ifndef COMMON_GZIP_H
#define COMMON_GZIP_H

#include "common/outbuf.h"

struct export_gzip;

struct export_gzip *export_gzip_new(struct outbuf *out); /* NULL: no memory */
int export_gzip_put(struct export_gzip *z, const void *p, size_t n);
/* Writes the end, of which there is one. */
int export_gzip_finish(struct export_gzip *z);
void export_gzip_free(struct export_gzip *z);

#endif
