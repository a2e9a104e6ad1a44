/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gzip: a stream of gzip (RFC 1952), see outbuf.h.
 *
 * The header has neither a time nor a name, so equal input gives equal bytes.
 * Without zlib the data goes into stored blocks (RFC 1951, 3.2.4): larger, but
 * every reader takes it.
 */
#include <stdlib.h>

#include <aux/error.h>

#include "common/outbuf.h"

#ifdef HAVE_Z
#include <zlib.h>

struct gzip {
	struct outbuf *out;
	z_stream z;
	bool open;
};

struct gzip *gzip_new(struct outbuf *out)
{
	struct gzip *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->out = out;
	g->open = deflateInit2(&g->z, 6, Z_DEFLATED, 15 + 16, 8,
			       Z_DEFAULT_STRATEGY) == Z_OK;
	if (g->open)
		return g;
	free(g);
	return NULL;
}

/* Compresses what next_in holds; -AUX_E_NOMEM. Z_BUF_ERROR only says that no
 * more progress is possible now. */
static int run(struct gzip *g, int flush)
{
	char buf[16384];
	int rc;

	do {
		g->z.next_out = (Bytef *)buf;
		g->z.avail_out = sizeof(buf);
		rc = deflate(&g->z, flush);
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			return -AUX_E_NOMEM;
		outbuf_put(g->out, buf, sizeof(buf) - g->z.avail_out);
	} while (!g->z.avail_out);
	return 0;
}

int gzip_put(struct gzip *g, const void *p, size_t n)
{
	const uint8_t *at = p;
	int err = 0;

	/* avail_in is an unsigned int: feed at most 1 MB at a time */
	while (n && !err) {
		size_t take = n < 1 << 20 ? n : 1 << 20;

		g->z.next_in = (Bytef *)(uintptr_t)at;
		g->z.avail_in = (uInt)take;
		err = run(g, Z_NO_FLUSH);
		at += take;
		n -= take;
	}
	return err;
}

int gzip_finish(struct gzip *g)
{
	g->z.avail_in = 0;
	return run(g, Z_FINISH);
}

void gzip_free(struct gzip *g)
{
	if (g && g->open)
		deflateEnd(&g->z);
	free(g);
}

#else

struct gzip {
	struct outbuf *out;
	uint32_t crc, size;
};

struct gzip *gzip_new(struct outbuf *out)
{
	struct gzip *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->out = out;
	g->crc = UINT32_MAX;
	outbuf_put(out, "\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
	return g;
}

/* A stored block: its length and the complement of that, then the bytes. */
static void put_block(struct gzip *g, bool last, const void *p, size_t n)
{
	char head[] = { last, (char)n, (char)(n >> 8), (char)~n,
			(char)(~n >> 8) };

	outbuf_put(g->out, head, sizeof(head));
	outbuf_put(g->out, p, n);
}

int gzip_put(struct gzip *g, const void *p, size_t n)
{
	const uint8_t *at = p;

	g->size += (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		g->crc ^= at[i];
		for (unsigned k = 0; k < 8; k++)
			g->crc = g->crc >> 1 ^ (g->crc & 1 ? 0xedb88320u : 0);
	}
	for (; n; n -= n < 0xffff ? n : 0xffff) {
		put_block(g, false, at, n < 0xffff ? n : 0xffff);
		at += n < 0xffff ? n : 0xffff;
	}
	return 0;
}

int gzip_finish(struct gzip *g)
{
	uint32_t words[] = { ~g->crc, g->size };
	char b[8];

	put_block(g, true, "", 0);
	for (unsigned i = 0; i < 8; i++)
		b[i] = (char)(words[i / 4] >> 8 * (i % 4));
	outbuf_put(g->out, b, sizeof(b));
	return 0;
}

void gzip_free(struct gzip *g)
{
	free(g);
}
#endif
