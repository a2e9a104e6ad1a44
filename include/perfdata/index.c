/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Index: the records of a file without their trace, as a file of its own. Whoever opens
 * a large recording walks over all records, a few times; each leads to a page of the file
 * that is touched for its header alone (10 GB: 30,000 of them, 0.4 s a time). Where many
 * processes open it, each for a small part, that is more than the part. So the first walk
 * keeps them in memory, unless they are too many, and `auxdecode index` in a file, which
 * spares others the first:
 *
 *	magic	size, mtime (s, ns) of the recording	n_spans, n_bytes	sum
 *	offset, len	of each span of records in the recording
 *	the bytes of all spans
 *
 * in words of 64 bits, of this machine's byte order. An index is a copy, so it is never
 * needed: what does not fit it, or is damaged, is read from the recording. Nothing
 * in it is trusted, but for what the records say.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"
#include "common/mapped.h"
#include "common/outbuf.h"
#include "perfdata/impl.h"

#define MAGIC UINT64_C(0x3158444958554100)	/* "\0AUXIDX1" */

struct head {
	uint64_t magic, size, sec, nsec, n_spans, n_bytes, sum;
};

struct span {
	uint64_t offset, len;
};

struct reader_index {
	const uint8_t *map;	/* a file; NULL: in memory */
	uint64_t map_len;
	const struct span *spans;
	const uint64_t *at;	/* of each: where its bytes are, from base on */
	const uint8_t *base;
	size_t n, cur;
	/* in memory: */
	struct span *own_spans;
	uint64_t *own_at;
	uint8_t *own;
	size_t n_bytes, cap_spans, cap_at, cap_bytes;
	uint64_t max;		/* bytes that may be kept */
};

static uint64_t sum_of(const void *data, uint64_t len)
{
	const uint8_t *p = data;
	uint64_t h = len, w;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&w, p, 8);
		h = (h ^ w) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	for (; len; p++, len--)
		h = (h ^ *p) * UINT64_C(0x100000001b3);
	return h;
}

/* What tells that a file is what it was; false: it is no regular file. */
static bool look_at(const char *path, struct head *h)
{
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	h->magic = MAGIC;
	h->size = (uint64_t)st.st_size;
	h->sec = (uint64_t)st.st_mtim.tv_sec;
	h->nsec = (uint64_t)st.st_mtim.tv_nsec;
	return true;
}

/* ---- in memory, while the records pass for the first time ---- */

bool reader_index_begin(struct aux_reader *r, uint64_t max)
{
	struct reader_index *x;

	if (r->n_more || !r->file.on_disk || r->index || r->gather || r->info.pipe)
		return true;
	x = calloc(1, sizeof(*x));
	if (x)
		x->max = max;
	r->gather = x;
	return x;
}

void reader_index_restart(struct aux_reader *r)
{
	if (r->gather)
		r->gather->n = r->gather->n_bytes = 0;
}

void reader_index_pass(struct aux_reader *r, uint64_t offset, const uint8_t *p, uint64_t len)
{
	struct reader_index *x = r->gather;
	struct span *last;

	if (len > x->max - x->n_bytes ||
	    array_grow(&x->own, x->n_bytes + len, &x->cap_bytes, 1) < 0 ||
	    array_grow(&x->own_spans, x->n, &x->cap_spans, sizeof(*x->own_spans)) < 0 ||
	    array_grow(&x->own_at, x->n, &x->cap_at, sizeof(*x->own_at)) < 0) {
		/* it does without */
		r->gather = NULL;
		reader_index_free(x);
		return;
	}
	memcpy(x->own + x->n_bytes, p, len);
	last = x->n ? &x->own_spans[x->n - 1] : NULL;
	if (last && last->offset + last->len == offset) {
		last->len += len;
	} else {
		x->own_spans[x->n] = (struct span){ offset, len };
		x->own_at[x->n++] = x->n_bytes;
	}
	x->n_bytes += len;
}

void reader_index_end(struct aux_reader *r)
{
	struct reader_index *x = r->gather;

	x->spans = x->own_spans;
	x->at = x->own_at;
	x->base = x->own;
	r->gather = NULL;
	r->index = x;
}

/* ---- writing ---- */

/* All records once more, if they were not kept. */
static int find_spans(struct aux_reader *r, struct aux_diag *diag)
{
	struct aux_event ev;
	int rc = 0;

	if (r->index)
		return 0;
	reader_index_free(r->gather);
	r->gather = NULL;
	aux_reader_rewind(r);
	if (!reader_index_begin(r, UINT64_MAX))
		return -AUX_E_NOMEM;
	while (!r->index && (rc = aux_reader_next(r, &ev, diag)) > 0)
		if (!r->gather)
			return -AUX_E_NOMEM;
	aux_reader_rewind(r);
	return rc;
}

int reader_index_write(struct aux_reader *r, struct outbuf *out, struct aux_diag *diag)
{
	const struct reader_index *x;
	struct head h = { 0 };
	int rc;

	if (r->n_more || !r->file.on_disk || reader_has_index(r) || r->info.pipe ||
	    r->info.unfinished || !look_at(r->path, &h) || h.size != r->file.len)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"only a complete perf.data file on a disk has an index");
	rc = find_spans(r, diag);
	x = r->index;
	if (rc || !x)
		return rc ? rc : diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
					  "there are no records to be indexed");
	h.n_spans = x->n;
	h.n_bytes = x->n_bytes;
	h.sum = sum_of(x->spans, x->n * sizeof(*x->spans));
	for (size_t i = 0; i < x->n; i++)
		h.sum ^= sum_of(x->base + x->at[i], x->spans[i].len) * (2 * i + 1);
	outbuf_put(out, (const char *)&h, sizeof(h));
	outbuf_put(out, (const char *)x->spans, x->n * sizeof(*x->spans));
	outbuf_put(out, (const char *)x->base, x->n_bytes);
	return 0;
}

/* ---- reading ---- */

void reader_index_free(struct reader_index *x)
{
	if (!x)
		return;
	mapped_close(x->map, x->map_len);
	free(x->own_spans);
	free(x->own_at);
	free(x->own);
	free(x);
}

/* Spans in order, in the file, with all their bytes. */
static bool check_spans(struct reader_index *x, const struct head *h)
{
	uint64_t at = sizeof(*h) + h->n_spans * sizeof(*x->spans), end = 0;
	uint64_t sum = sum_of(x->spans, x->n * sizeof(*x->spans));

	for (size_t i = 0; i < x->n; i++) {
		const struct span *s = &x->spans[i];

		if (s->offset < end || s->offset > h->size || !s->len ||
		    s->len > h->size - s->offset || s->len > x->map_len - at)
			return false;
		end = s->offset + s->len;
		x->own_at[i] = at;
		sum ^= sum_of(x->map + at, s->len) * (2 * i + 1);
		at += s->len;
	}
	return at == x->map_len && sum == h->sum;
}

/* 1, 0: it is none of this file, -AUX_E_NOMEM. */
static int load(struct reader_index *x, const struct head *now)
{
	const struct head *h = (const struct head *)x->map;

	if (x->map_len < sizeof(*h) || h->magic != MAGIC || h->size != now->size ||
	    h->sec != now->sec || h->nsec != now->nsec ||
	    h->n_spans > (x->map_len - sizeof(*h)) / sizeof(*x->spans))
		return 0;
	x->n = (size_t)h->n_spans;
	x->spans = (const struct span *)(x->map + sizeof(*h));
	x->own_at = calloc(x->n + 1, sizeof(*x->own_at));
	if (!x->own_at)
		return -AUX_E_NOMEM;
	x->at = x->own_at;
	x->base = x->map;
	return check_spans(x, h);
}

int reader_index_use(struct aux_reader *r, const char *path)
{
	struct reader_index *x;
	struct head now = { 0 };
	struct stat st;
	int fd = r->n_more || !r->file.on_disk || r->info.pipe || reader_has_index(r) ||
		 !look_at(r->path, &now) || now.size != r->file.len ?
			 -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = 0;

	if (fd < 0)
		return 0;
	x = calloc(1, sizeof(*x));
	if (x && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
		x->map_len = (uint64_t)st.st_size;
		x->map = mapped_open(fd, x->map_len, path);
		rc = x->map ? load(x, &now) : 0;
	}
	close(fd);
	if (!x)
		return -AUX_E_NOMEM;
	/* what points into one in memory stays valid */
	if (rc > 0 && !r->index)
		r->index = x;
	else
		reader_index_free(x);
	return rc;
}

bool reader_has_index(const struct aux_reader *r)
{
	return r->index && r->index->map;
}

const uint8_t *reader_index_at(struct reader_index *x, uint64_t pos, uint64_t *n)
{
	size_t lo = 0, hi = x->n;

	/* mostly this span or the next */
	if (x->cur < x->n && pos >= x->spans[x->cur].offset) {
		lo = x->cur;
		if (lo + 1 == x->n || pos < x->spans[lo + 1].offset)
			hi = lo + 1;
		else if (lo + 2 == x->n || pos < x->spans[lo + 2].offset)
			lo++, hi = lo + 1;
	}
	while (hi - lo > 1) {
		size_t half = lo + (hi - lo) / 2;

		if (x->spans[half].offset <= pos)
			lo = half;
		else
			hi = half;
	}
	if (lo >= x->n || pos < x->spans[lo].offset ||
	    pos - x->spans[lo].offset >= x->spans[lo].len)
		return NULL;
	x->cur = lo;
	*n = x->spans[lo].len - (pos - x->spans[lo].offset);
	return x->base + x->at[lo] + (pos - x->spans[lo].offset);
}
