/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outbuf: buffered output, see outbuf.h.
 *
 * Invariant: buf <= p <= end. After a failed write the buffer is emptied and p
 * stays usable, so that callers need not check every piece: the error is
 * returned by the next flush.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <aux/error.h>

#include "common/outbuf.h"

#define BUF_SIZE  ((size_t)256 << 10)	/* fits in the L2 cache */
#define PIPE_SIZE (1 << 20)

struct outbuf *outbuf_new(int fd)
{
	struct outbuf *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->buf = malloc(BUF_SIZE);
	if (!o->buf) {
		free(o);
		return NULL;
	}
	o->p = o->buf;
	o->end = o->buf + BUF_SIZE;
	o->fd = fd;
	return o;
}

void outbuf_free(struct outbuf *o)
{
	if (!o)
		return;
	free(o->buf);
	free(o);
}

/* All of it, or o->error is set: a short write is continued. */
static void write_all(struct outbuf *o, const char *s, size_t n)
{
	while (n && !o->error) {
		ssize_t done = write(o->fd, s, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			o->error = done < 0 ? errno : EIO;
			return;
		}
		s += done;
		n -= (size_t)done;
	}
}

/* A memory buffer (fd < 0) keeps its bytes. The error stays for later calls. */
int outbuf_flush(struct outbuf *o)
{
	if (o->fd >= 0) {
		write_all(o, o->buf, (size_t)(o->p - o->buf));
		o->p = o->buf;
	}
	if (o->error == ENOMEM)
		return -AUX_E_NOMEM;
	return o->error ? -AUX_E_IO : 0;
}

/*
 * A larger pipe means fewer switches between writer and reader. Data is copied
 * into it: vmsplice would save the copy, but a reader may splice our pages on
 * unread, and there is no way to know when they may be written to again.
 */
static void widen_pipe(struct outbuf *o)
{
	struct stat st;

	o->looked = true;
	if (!fstat(o->fd, &st) && S_ISFIFO(st.st_mode) &&
	    fcntl(o->fd, F_GETPIPE_SZ) < PIPE_SIZE)
		fcntl(o->fd, F_SETPIPE_SZ, PIPE_SIZE);
}

/* For memory buffers (fd < 0), and for a piece larger than the buffer. */
static bool grow(struct outbuf *o, size_t n)
{
	size_t used = (size_t)(o->p - o->buf);
	size_t size = (size_t)(o->end - o->buf);
	char *buf;

	while (size - used < n)
		size *= 2;
	buf = realloc(o->buf, size);
	if (!buf) {
		o->error = ENOMEM;
		return false;
	}
	o->buf = buf;
	o->p = buf + used;
	o->end = buf + size;
	return true;
}

/* The slow path of outbuf_room. NULL: out of memory, and o->error says so. */
char *outbuf_make_room(struct outbuf *o, size_t n)
{
	if (o->fd >= 0) {
		if (!o->looked)
			widen_pipe(o);
		outbuf_flush(o);
	}
	if ((size_t)(o->end - o->p) < n && !grow(o, n))
		return NULL;
	return o->p;
}

/* What is larger than the buffer is written from where it lies. */
void outbuf_put_large(struct outbuf *o, const char *s, size_t n)
{
	char *p;

	if (o->fd >= 0 && n > (size_t)(o->end - o->buf)) {
		outbuf_flush(o);
		write_all(o, s, n);
		return;
	}
	p = outbuf_make_room(o, n);
	if (!p)
		return;
	memcpy(p, s, n);
	o->p += n;
}

/* For rare output: vsnprintf reads its format anew each time. Hot paths use
 * fmt_*. */
void outbuf_printf(struct outbuf *o, const char *fmt, ...)
{
	va_list ap, again;
	size_t room = (size_t)(o->end - o->p);
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(o->p, room, fmt, ap);
	if (n >= 0 && (size_t)n >= room && outbuf_room(o, (size_t)n + 1))
		n = vsnprintf(o->p, (size_t)n + 1, fmt, again);
	if (n > 0 && (size_t)n < (size_t)(o->end - o->p))
		o->p += n;
	va_end(again);
	va_end(ap);
}

static const char digits[] = "0123456789abcdef";

/* 00 to 99. table */
static const char pairs[] =
	"00010203040506070809" "10111213141516171819"
	"20212223242526272829" "30313233343536373839"
	"40414243444546474849" "50515253545556575859"
	"60616263646566676869" "70717273747576777879"
	"80818283848586878889" "90919293949596979899";

static inline void put_pair(char *p, unsigned v)
{
	memcpy(p, pairs + 2 * v, 2);
}

/* Four digits a turn: numbers below 10,000 need none. */
static unsigned count_digits(uint64_t v)
{
	unsigned n = 1;

	for (; v >= 10000; v /= 10000)
		n += 4;
	return n + (v >= 10) + (v >= 100) + (v >= 1000);
}

/* v has exactly n digits. Two digits a step: a division by 100 is a
 * multiplication. */
static inline void put_digits(char *p, uint64_t v, unsigned n)
{
	for (; v >= 100; v /= 100)
		put_pair(p + (n -= 2), (unsigned)(v % 100));
	if (n == 2)
		put_pair(p, (unsigned)v);
	else
		*p = (char)('0' + v);
}

/* Eight digits of v, below 10^8, the first in the lowest byte: each step halves all
 * groups at once, dividing by multiplication. */
static inline uint64_t spread_digits(uint32_t v)
{
	uint64_t fours = v / 10000 | (uint64_t)(v % 10000) << 32, high, pairs_of;

	high = fours * 10486 >> 20 & UINT64_C(0x0000007f0000007f);	/* / 100 */
	pairs_of = high | (fours - 100 * high) << 16;
	high = pairs_of * 103 >> 10 & UINT64_C(0x000f000f000f000f);	/* / 10 */
	return high | (pairs_of - 10 * high) << 8;
}

static inline void put_eight(char *p, uint64_t spread)
{
	spread |= UINT64_C(0x3030303030303030);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	spread = __builtin_bswap64(spread);
#endif
	memcpy(p, &spread, 8);
}

/* Without zeros in front; always writes eight bytes. */
static inline char *put_first(char *p, uint32_t v)
{
	uint64_t spread = spread_digits(v);
	/* the last digit stays, if it is 0 */
	unsigned skip = (unsigned)__builtin_ctzll(spread | UINT64_C(1) << 56) & ~7u;

	put_eight(p, spread >> skip);
	return p + 8 - skip / 8;
}

char *fmt_dec(char *p, uint64_t v)
{
	if (v < 100) {
		put_digits(p, v, 1 + (v >= 10));
		return p + 1 + (v >= 10);
	}
	if (v < 100000000)
		return put_first(p, (uint32_t)v);
	if (v < UINT64_C(10000000000000000)) {
		p = put_first(p, (uint32_t)(v / 100000000));
	} else {
		p = put_first(p, (uint32_t)(v / UINT64_C(10000000000000000)));
		put_eight(p, spread_digits((uint32_t)(v / 100000000 % 100000000)));
		p += 8;
	}
	put_eight(p, spread_digits((uint32_t)(v % 100000000)));
	return p + 8;
}

/* Pads by 32 blanks before writing, whatever the width: one store instead of a
 * loop. The caller's room includes them. */
char *fmt_dec_right(char *p, uint64_t v, unsigned width)
{
	unsigned n = count_digits(v);

	if (width < n)
		width = n;
	memset(p, ' ', 32);
	put_digits(p + width - n, v, n);
	return p + width;
}

char *fmt_sdec(char *p, int64_t v)
{
	if (v >= 0)
		return fmt_dec(p, (uint64_t)v);
	*p++ = '-';
	return fmt_dec(p, -(uint64_t)v);
}

char *fmt_hex_pad(char *p, uint64_t v, unsigned width)
{
	unsigned n = v ? (67 - (unsigned)__builtin_clzll(v)) / 4 : 1;

	if (n < width)
		n = width;
	for (unsigned i = n; i-- > 0; v >>= 4)
		p[i] = digits[v & 15];
	return p + n;
}

char *fmt_hex(char *p, uint64_t v)
{
	return fmt_hex_pad(p, v, 1);
}

char *fmt_nanos(char *p, uint32_t ns)
{
	uint32_t high = ns / 100000, low = ns % 100000;

	put_pair(p, high / 100);
	put_pair(p + 2, high % 100);
	p[4] = (char)('0' + low / 10000);
	low %= 10000;
	put_pair(p + 5, low / 100);
	put_pair(p + 7, low % 100);
	return p + 9;
}

char *fmt_time(char *p, uint64_t ns)
{
	p = fmt_dec(p, ns / 1000000000);
	*p++ = '.';
	return fmt_nanos(p, (uint32_t)(ns % 1000000000));
}

void outbuf_base64(struct outbuf *out, const uint8_t *p, size_t n)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	char *to = outbuf_room(out, n / 3 * 4 + 4);

	if (!to)
		return;
	for (; n >= 3; n -= 3, p += 3) {
		uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];

		*to++ = digit[v >> 18];
		*to++ = digit[v >> 12 & 63];
		*to++ = digit[v >> 6 & 63];
		*to++ = digit[v & 63];
	}
	if (n) {
		uint32_t v = (uint32_t)p[0] << 16 |
			     (n > 1 ? (uint32_t)p[1] << 8 : 0);

		*to++ = digit[v >> 18];
		*to++ = digit[v >> 12 & 63];
		*to++ = n > 1 ? digit[v >> 6 & 63] : '=';
		*to++ = '=';
	}
	out->p = to;
}
