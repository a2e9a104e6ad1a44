/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Repair looks into compressed records for what features are made of: maps with
 * build ids, times.
 *
 * Invariant: what cannot be read stays in the file as it is; only the features
 * lack what it would have told. All of a file's compressed records are one zstd
 * stream, so nothing is read behind the first that fails.
 */
#ifdef HAVE_ZSTD
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "perfdata/repair_scan.h"

#define BUFFER (256 << 10)	/* more than two records */
/* More output than this for the input is no recording. */
#define MAX_RATIO 1000
#define MAX_SLACK (UINT64_C(64) << 20)

struct repair_unzip {
	ZSTD_DStream *stream;
	bool broken;
	uint64_t n_in, n_out;
	size_t n;	/* bytes in buf: the beginning of a record */
	uint8_t buf[BUFFER];
};

static bool start(struct repair_scan *s)
{
	if (!s->unzip)
		s->unzip = calloc(1, sizeof(*s->unzip));
	if (!s->unzip)
		return false;
	if (!s->unzip->stream)
		s->unzip->stream = ZSTD_createDStream();
	return s->unzip->stream && !s->unzip->broken;
}

/* The whole records in the buffer; the rest moves to its front. */
static bool take_records(struct repair_scan *s, struct repair_unzip *u)
{
	size_t at = 0;
	uint16_t size;

	while (u->n - at >= 8) {
		memcpy(&size, u->buf + at + 6, sizeof(size));
		if (size < 8)
			return false;
		if (size > u->n - at)
			break;
		repair_take(s, u->buf + at, size);
		at += size;
	}
	u->n -= at;
	memmove(u->buf, u->buf + at, u->n);
	return true;
}

static bool unzip(struct repair_scan *s, struct repair_unzip *u,
		  ZSTD_inBuffer in)
{
	ZSTD_outBuffer out;
	size_t ret;

	u->n_in += in.size;
	do {
		out = (ZSTD_outBuffer){ u->buf, sizeof(u->buf), u->n };
		ret = ZSTD_decompressStream(u->stream, &out, &in);
		u->n_out += out.pos - u->n;
		u->n = out.pos;
		if (ZSTD_isError(ret) || !take_records(s, u) ||
		    u->n_out > u->n_in * MAX_RATIO + MAX_SLACK)
			return false;
	} while (in.pos < in.size || out.pos == out.size);
	return true;
}

bool repair_inflate(struct repair_scan *s, const uint8_t *p, size_t size)
{
	ZSTD_inBuffer in = { p + 8, size - 8, 0 };
	uint32_t type;
	uint64_t len;

	if (!start(s))
		return false;
	memcpy(&type, p, sizeof(type));
	if (type == AUX_RECORD_COMPRESSED2) {
		len = UINT64_MAX;
		if (size >= 16)
			memcpy(&len, p + 8, sizeof(len));
		if (size < 16 || len > size - 16) {
			s->unzip->broken = true;
			return false;
		}
		in = (ZSTD_inBuffer){ p + 16, len, 0 };
	}
	s->unzip->broken = !unzip(s, s->unzip, in);
	return !s->unzip->broken;
}

void repair_inflate_end(struct repair_scan *s)
{
	if (s->unzip)
		ZSTD_freeDStream(s->unzip->stream);
	free(s->unzip);
	s->unzip = NULL;
}
#endif
