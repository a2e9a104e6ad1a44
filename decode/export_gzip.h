/* SPDX-License-Identifier: BSD-2-Clause */
/* export_gzip: what is put goes into an outbuf as one gzip member, by zlib; without
 * it uncompressed inside (stored blocks). Specification: RFC 1951, RFC 1952. */
#ifndef AUXDECODE_EXPORT_GZIP_H
#define AUXDECODE_EXPORT_GZIP_H

#include "outbuf.h"

struct export_gzip;

struct export_gzip *export_gzip_new(struct outbuf *out); /* NULL: no memory */
int export_gzip_put(struct export_gzip *z, const void *p, size_t n);
/* Writes the end, of which there is one. */
int export_gzip_finish(struct export_gzip *z);
void export_gzip_free(struct export_gzip *z);

#endif
