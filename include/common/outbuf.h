/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outbuf: output in large pieces, and numbers as text without printf; gzip: the
 * same, compressed.
 *
 * A failed write is remembered and everything after it is dropped; callers look
 * at outbuf_failed now and then, not after each piece.
 */
#ifndef COMMON_OUTBUF_H
#define COMMON_OUTBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct outbuf {
	char *p;	/* next free byte */
	char *end;
	char *buf;
	int fd;		/* -1: memory; buf grows and keeps all */
	int error;	/* errno of the first failure, 0: none */
	bool looked;	/* at what fd is */
};

/* fd is not closed. NULL when out of memory. */
struct outbuf *outbuf_new(int fd);
/* Drops what was not flushed. NULL is allowed. */
void outbuf_free(struct outbuf *o);
/* 0, or -AUX_E_IO (errno in o->error), or -AUX_E_NOMEM. */
int outbuf_flush(struct outbuf *o);

static inline bool outbuf_failed(const struct outbuf *o)
{
	return o->error != 0;
}

/* What was to be written is not whole, for another reason (errno): the first
 * one stays. */
static inline void outbuf_fail(struct outbuf *o, int error)
{
	if (!o->error)
		o->error = error;
}

/* Room for n more bytes at o->p, or NULL after a failure. The caller writes
 * there and moves o->p. */
char *outbuf_make_room(struct outbuf *o, size_t n);
static inline char *outbuf_room(struct outbuf *o, size_t n)
{
	return (size_t)(o->end - o->p) >= n ? o->p : outbuf_make_room(o, n);
}

/* Any length; what is larger than the buffer is written straight. */
void outbuf_put_large(struct outbuf *o, const char *s, size_t n);
static inline void outbuf_put(struct outbuf *o, const char *s, size_t n)
{
	if ((size_t)(o->end - o->p) >= n) {
		memcpy(o->p, s, n);
		o->p += n;
	} else {
		outbuf_put_large(o, s, n);
	}
}

static inline void outbuf_str(struct outbuf *o, const char *s)
{
	outbuf_put(o, s, strlen(s));
}

void outbuf_printf(struct outbuf *o, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* In base64, with padding. */
void outbuf_base64(struct outbuf *out, const uint8_t *p, size_t n);

/*
 * Numbers at p, which has room for 20 bytes; each returns the end. No NUL is
 * written. fmt_hex has no padding; fmt_hex_pad writes exactly width digits or
 * more when they are needed.
 */
char *fmt_dec(char *p, uint64_t v);
char *fmt_sdec(char *p, int64_t v);
char *fmt_hex(char *p, uint64_t v);
char *fmt_hex_pad(char *p, uint64_t v, unsigned width);
/* Right aligned in width (at most 32) bytes or more; room for 32. */
char *fmt_dec_right(char *p, uint64_t v, unsigned width);
/* Nanoseconds as seconds, "12.345678901"; 30 bytes. */
char *fmt_time(char *p, uint64_t ns);
/* Nine digits: of nanoseconds, less than a second. */
char *fmt_nanos(char *p, uint32_t ns);

/*
 * Copies n bytes in pieces of FMT_SLACK: up to that many more are read, and
 * written after them.
 */
#define FMT_SLACK 32
static inline char *fmt_copy(char *p, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i += FMT_SLACK)
		memcpy(p + i, s + i, FMT_SLACK);
	return p + n;
}

/* gzip: what is put goes into an outbuf as one gzip member, by zlib; without
 * it uncompressed inside (stored blocks). Specification: RFC 1951, RFC 1952. */

struct gzip;

struct gzip *gzip_new(struct outbuf *out); /* NULL: no memory */
int gzip_put(struct gzip *z, const void *p, size_t n);
/* Writes the end, of which there is one. */
int gzip_finish(struct gzip *z);
void gzip_free(struct gzip *z);

#endif
