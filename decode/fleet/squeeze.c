/* SPDX-License-Identifier: BSD-2-Clause */
/* squeeze: see squeeze.h. What comes back was in a file, so it pays for its memory. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include <aux/error.h>

#include "common/array.h"
#include "decode/fleet/squeeze.h"

#define PLAIN 0
#define ZSTD 1

#ifdef HAVE_ZSTD
#define LEVEL 1
#define MAX_RATIO 200	/* what is smaller than that is left as it is */
#endif

static int keep_plain(struct squeeze *s, const uint8_t *p, size_t n)
{
	if (array_grow(&s->bytes, n + 1, &s->cap, 1) < 0)
		return -AUX_E_NOMEM;
	s->bytes[0] = PLAIN;
	if (n)
		memcpy(s->bytes + 1, p, n);
	s->n = n + 1;
	return 0;
}

static int unplain(struct squeeze *s, const uint8_t *p, size_t n)
{
	if (array_grow(&s->bytes, n, &s->cap, 1) < 0)
		return -AUX_E_NOMEM;
	if (n)
		memcpy(s->bytes, p, n);
	s->n = n;
	return 0;
}

#ifdef HAVE_ZSTD

int squeeze(struct squeeze *s, const uint8_t *p, size_t n)
{
	size_t bound = ZSTD_compressBound(n), got;

	if (!s->to)
		s->to = ZSTD_createCCtx();
	if (!s->to || array_grow(&s->bytes, bound + 1, &s->cap, 1) < 0)
		return -AUX_E_NOMEM;
	got = ZSTD_compressCCtx(s->to, s->bytes + 1, bound, p, n, LEVEL);
	if (ZSTD_isError(got))
		return -AUX_E_NOMEM;
	if (got >= n || n / MAX_RATIO >= got)
		return keep_plain(s, p, n);
	s->bytes[0] = ZSTD;
	s->n = got + 1;
	return 0;
}

static int unpack(struct squeeze *s, const uint8_t *p, size_t n)
{
	unsigned long long size = ZSTD_getFrameContentSize(p, n);
	size_t got;

	if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN ||
	    size / MAX_RATIO >= n)
		return -AUX_E_FORMAT;
	if (!s->from)
		s->from = ZSTD_createDCtx();
	if (!s->from || array_grow(&s->bytes, (size_t)size, &s->cap, 1) < 0)
		return -AUX_E_NOMEM;
	got = ZSTD_decompressDCtx(s->from, s->bytes, (size_t)size, p, n);
	s->n = (size_t)size;
	return got == size ? 0 : -AUX_E_FORMAT;	/* an error is more than any size */
}

void squeeze_fini(struct squeeze *s)
{
	ZSTD_freeCCtx(s->to);
	ZSTD_freeDCtx(s->from);
	free(s->bytes);
	*s = (struct squeeze){ .n = 0 };
}

#else

int squeeze(struct squeeze *s, const uint8_t *p, size_t n)
{
	return keep_plain(s, p, n);
}

static int unpack(struct squeeze *s, const uint8_t *p, size_t n)
{
	(void)s;
	(void)p;
	(void)n;
	return -AUX_E_UNSUPPORTED;
}

void squeeze_fini(struct squeeze *s)
{
	free(s->bytes);
	*s = (struct squeeze){ .n = 0 };
}

#endif

int unsqueeze(struct squeeze *s, const uint8_t *p, size_t n)
{
	if (!n || p[0] > ZSTD)
		return -AUX_E_FORMAT;
	return p[0] == ZSTD ? unpack(s, p + 1, n - 1) : unplain(s, p + 1, n - 1);
}
