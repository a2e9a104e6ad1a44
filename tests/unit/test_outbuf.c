/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * outbuf: numbers, memory, files, and pipes: pages given to a pipe must not change until the
 * reader has read them, however late that is.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <aux/error.h>

#include "common/outbuf.h"
#include "tests/unit/tap.h"

static void numbers(void)
{
	char buf[40];

	*fmt_dec(buf, 0) = 0;
	is_str(buf, "0", "0");
	*fmt_dec(buf, UINT64_MAX) = 0;
	is_str(buf, "18446744073709551615", "the largest");
	*fmt_sdec(buf, INT64_MIN) = 0;
	is_str(buf, "-9223372036854775808", "the smallest");
	*fmt_hex(buf, 0) = 0;
	is_str(buf, "0", "hex 0");
	for (int i = 0; i < 64; i++) {
		char want[40];

		snprintf(want, sizeof(want), "%llx", 1ULL << i);
		*fmt_hex(buf, 1ULL << i) = 0;
		if (strcmp(buf, want))
			ok(0, "hex of bit %d", i);
	}
	*fmt_hex_pad(buf, 0xab, 4) = 0;
	is_str(buf, "00ab", "padded");
	*fmt_time(buf, 1000000007) = 0;
	is_str(buf, "1.000000007", "time");
}

/* Against printf, where the number of digits changes and in between, and of all sizes;
 * 20 bytes are written at most. */
static void decimals(void)
{
	char buf[80], want[80];
	unsigned n_bad = 0;
	uint64_t random = 88172645463325252u;

	for (unsigned i = 0; i < 1000000; i++) {
		unsigned long long v;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		v = random >> i % 64;
		memset(buf, '#', 24);
		*fmt_dec(buf, v) = 0;
		snprintf(want, sizeof(want), "%llu", v);
		n_bad += strcmp(buf, want) || memcmp(buf + 21, "###", 3);
	}

	for (uint64_t ten = 1, k = 0; k < 20; k++, ten *= 10) {
		uint64_t of[] = { ten - 1, ten, ten + 1, ten / 7 * 3,
				  UINT64_MAX - ten, UINT64_MAX / ten };

		for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
			unsigned long long v = of[i];

			*fmt_dec(buf, v) = 0;
			snprintf(want, sizeof(want), "%llu", v);
			n_bad += strcmp(buf, want) != 0;
			*fmt_dec_right(buf, v, 11) = 0;
			snprintf(want, sizeof(want), "%11llu", v);
			n_bad += strcmp(buf, want) != 0;
			*fmt_time(buf, v) = 0;
			snprintf(want, sizeof(want), "%llu.%09llu",
				 v / 1000000000, v % 1000000000);
			n_bad += strcmp(buf, want) != 0;
		}
	}
	ok(!n_bad, "decimals are printf's");
}

static void copies(void)
{
	char from[100 + FMT_SLACK], to[100 + FMT_SLACK], *end;
	bool all = true;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)i;
	for (size_t n = 0; n <= 100; n++) {
		memset(to, -1, sizeof(to));
		end = fmt_copy(to, from, n);
		all &= end == to + n && !memcmp(to, from, n);
	}
	ok(all, "copies of any length");
}

static void outputs(void)
{
	struct outbuf *o = outbuf_new(-1);
	char big[3000];
	int fd[2];

	memset(big, 'x', sizeof(big));
	for (int i = 0; i < 1000; i++)
		outbuf_put(o, big, sizeof(big));
	outbuf_printf(o, "%s-%d", "end", 1);
	ok(o->p - o->buf == 3000005 && !memcmp(o->p - 6, "xend-1", 6),
	   "memory grows");
	outbuf_free(o);
	if (pipe(fd)) {
		ok(0, "no pipe");
		return;
	}
	close(fd[0]);
	o = outbuf_new(fd[1]);
	for (int i = 0; i < 1000; i++)
		outbuf_put(o, big, sizeof(big));
	ok(outbuf_flush(o) == -AUX_E_IO && outbuf_failed(o),
	   "a failed write is remembered");
	outbuf_free(o);
	outbuf_free(NULL);
	close(fd[1]);
}

#define PIPED ((size_t)64 << 20) /* bytes: the ring goes round */

/* Byte i of what goes through a pipe. */
static char byte_at(size_t i)
{
	return (char)(i ^ i >> 8 ^ i >> 16 ^ i >> 24);
}

struct reader {
	int fd;
	int middle[2]; /* a pipe that pages are moved to unread; -1: none */
	size_t n_held; /* there */
	size_t n_good;
	size_t stop; /* goes away here */
};

/* Into the second pipe, which always holds some 200 KB. */
static ssize_t move_on(struct reader *r, char *buf, size_t n)
{
	ssize_t got;

	while (r->n_held < 200000) {
		got = splice(r->fd, NULL, r->middle[1], NULL, 1 << 16, 0);
		if (got <= 0)
			return got;
		r->n_held += (size_t)got;
	}
	got = read(r->middle[0], buf, n);
	r->n_held -= got > 0 ? (size_t)got : 0;
	return got;
}

/* Reads in pieces of all sizes, and checks each byte. */
static void *read_pipe(void *priv)
{
	struct reader *r = priv;
	size_t size = 1, n = 0;
	char buf[100000];
	ssize_t got;

	while (n < r->stop) {
		size = (size * 31 + 7) % sizeof(buf) + 1;
		got = r->middle[0] < 0 ? read(r->fd, buf, size)
				       : move_on(r, buf, size);
		if (got <= 0)
			break;
		for (ssize_t i = 0; i < got; i++)
			r->n_good += buf[i] == byte_at(n++);
	}
	/* what is left in the second pipe */
	close(r->fd);
	if (r->middle[0] < 0)
		return NULL;
	close(r->middle[1]);
	while ((got = read(r->middle[0], buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < got; i++)
			r->n_good += buf[i] == byte_at(n++);
	close(r->middle[0]);
	return NULL;
}

/* Pieces of all sizes, a flush here and there. */
static int write_pipe(struct outbuf *o)
{
	size_t size = 1, n = 0;
	char *p;

	while (n < PIPED && !outbuf_failed(o)) {
		size = (size * 1237 + 11) % (n % 64 ? 300 : 70000) + 1;
		if (size > PIPED - n)
			size = PIPED - n;
		p = outbuf_room(o, size + 100);
		if (!p)
			return -1;
		for (size_t i = 0; i < size; i++)
			p[i] = byte_at(n + i);
		o->p += size;
		n += size;
		if (n % 60013 == 0)
			outbuf_flush(o);
	}
	return outbuf_flush(o);
}

static void through_pipe(bool spliced, size_t stop, const char *what)
{
	struct reader r = { .middle = { -1, -1 }, .stop = stop };
	pthread_t thread;
	struct outbuf *o;
	int fd[2], rc;

	if (pipe(fd) ||
	    (spliced && (pipe(r.middle) ||
			 fcntl(r.middle[0], F_SETPIPE_SZ, 1 << 20) < 0))) {
		ok(0, "no pipe");
		return;
	}
	r.fd = fd[0];
	o = outbuf_new(fd[1]);
	pthread_create(&thread, NULL, read_pipe, &r);
	rc = write_pipe(o);
	close(fd[1]);
	pthread_join(thread, NULL);
	if (stop == SIZE_MAX)
		ok(!rc && r.n_good == PIPED, "%s", what);
	else
		ok(rc == -AUX_E_IO && r.n_good >= stop, "%s", what);
	outbuf_free(o);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	numbers();
	decimals();
	copies();
	outputs();
	through_pipe(false, SIZE_MAX, "a pipe takes all, unchanged");
	through_pipe(true, SIZE_MAX, "so does a reader that moves pages on");
	through_pipe(false, 100, "the reader goes away at once");
	through_pipe(false, PIPED / 2, "the reader goes away");
	return plan_done();
}
