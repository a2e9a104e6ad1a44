/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gdb: packets of the remote protocol: $text#checksum, answered with + or - until the
 * debugger asks for that to end. Nothing that comes in is trusted: what is too long, or
 * has a wrong checksum, is refused and asked for again.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "decode/gdb/impl.h"

#define BREAK 0x03	/* a byte between packets: stop what runs */

/* More bytes, waiting for them. False: there are none, and never will be. */
static bool fill(struct link *l)
{
	ssize_t n;

	if (l->ended)
		return false;
	do {
		n = read(l->in, l->buf, sizeof(l->buf));
	} while (n < 0 && errno == EINTR);
	l->at = 0;
	l->n = n > 0 ? (size_t)n : 0;
	l->ended = n <= 0;
	return !l->ended;
}

static int next(struct link *l)
{
	if (l->at == l->n && !fill(l))
		return -1;
	return l->buf[l->at++];
}

static int flush(struct link *l)
{
	int err = outbuf_flush(l->to);

	l->ended |= err < 0;
	return err;
}

static int hex(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* From after $ to the checksum. 1: it is whole; 0: it is not; -1: the end. */
static int read_body(struct link *l)
{
	unsigned sum = 0;
	bool fits = true;
	int c, high, low;

	l->len = 0;
	while ((c = next(l)) >= 0 && c != '#') {
		sum += (unsigned)c;
		fits = l->len < GDB_PACKET;
		if (fits)
			l->packet[l->len++] = (char)c;
	}
	high = hex(next(l));
	low = hex(next(l));
	if (l->ended)
		return -1;
	l->packet[l->len] = '\0';
	return fits && high >= 0 && low >= 0 &&
	       (sum & 0xff) == (unsigned)(high << 4 | low);
}

int link_read(struct link *l)
{
	int c, whole;

	while ((c = next(l)) >= 0) {
		if (c == BREAK)
			l->broke = true;
		if (c != '$')
			continue;
		whole = read_body(l);
		if (whole < 0)
			break;
		if (!l->no_ack) {
			outbuf_str(l->to, whole ? "+" : "-");
			if (flush(l))
				break;
		}
		if (whole)
			return 1;
	}
	return 0;
}

static void put_byte(struct link *l, char c, unsigned *sum)
{
	*sum += (uint8_t)c;
	outbuf_put(l->to, &c, 1);
}

int link_send(struct link *l, const char *p, size_t n)
{
	unsigned sum = 0;

	outbuf_str(l->to, "$");
	for (size_t i = 0; i < n; i++) {
		if (p[i] && strchr("#$}*", p[i])) {
			put_byte(l, '}', &sum);
			put_byte(l, p[i] ^ 0x20, &sum);
		} else {
			put_byte(l, p[i], &sum);
		}
	}
	outbuf_printf(l->to, "#%02x", sum & 0xff);
	return flush(l);
}

bool link_is_broken(struct link *l)
{
	struct pollfd fd = { .fd = l->in, .events = POLLIN };

	while (l->at == l->n && poll(&fd, 1, 0) > 0 && fill(l))
		;
	while (l->at < l->n && l->buf[l->at] != '$') {
		if (l->buf[l->at++] == BREAK)
			l->broke = true;
	}
	return l->broke || l->ended;
}
