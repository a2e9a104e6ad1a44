/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Index: the records of a file without their trace, as a file of its own. Whoever opens
 * a large recording walks over all records, a few times; each leads to a page of the file
 * that is touched for its header alone (10 GB: 30,000 of them, 0.4 s a time). Where many
 * processes open it, each for a small part, that is more than the part.
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
	const uint8_t *map;
	uint64_t map_len;
	const struct span *spans;
	uint64_t *at;		/* of each: where its bytes are */
	size_t n, cur;
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

/* ---- writing ---- */

struct spans {
	struct span *v;
	size_t n, cap;
	uint64_t n_bytes;
};

static int add_record(struct spans *s, uint64_t offset, uint64_t len)
{
	s->n_bytes += len;
	if (s->n && s->v[s->n - 1].offset + s->v[s->n - 1].len == offset) {
		s->v[s->n - 1].len += len;
		return 0;
	}
	return array_append(&s->v, &s->n, &s->cap, &(struct span){ offset, len },
			    sizeof(*s->v));
}

static int find_spans(struct spans *s, struct aux_reader *r, struct aux_diag *diag)
{
	struct aux_event ev;
	int rc, err = 0;

	aux_reader_rewind(r);
	while (!err && (rc = aux_reader_next(r, &ev, diag)) > 0)
		if (ev.raw.data == r->file.data + ev.offset)
			err = add_record(s, ev.offset, ev.raw.len);
	aux_reader_rewind(r);
	return err ? err : rc;
}

int reader_index_write(struct aux_reader *r, struct outbuf *out, struct aux_diag *diag)
{
	struct head h = { 0 };
	struct spans s = { 0 };
	int rc;

	if (r->n_more || !r->file.on_disk || r->index || r->info.pipe || r->info.unfinished ||
	    !look_at(r->path, &h) || h.size != r->file.len)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"only a complete perf.data file on a disk has an index");
	rc = find_spans(&s, r, diag);
	if (rc) {
		free(s.v);
		return rc;
	}
	h.n_spans = s.n;
	h.n_bytes = s.n_bytes;
	h.sum = sum_of(s.v, s.n * sizeof(*s.v));
	for (size_t i = 0; i < s.n; i++)
		h.sum ^= sum_of(r->file.data + s.v[i].offset, s.v[i].len) * (2 * i + 1);
	outbuf_put(out, (const char *)&h, sizeof(h));
	outbuf_put(out, (const char *)s.v, s.n * sizeof(*s.v));
	for (size_t i = 0; i < s.n; i++)
		outbuf_put(out, (const char *)r->file.data + s.v[i].offset, s.v[i].len);
	free(s.v);
	return 0;
}

/* ---- reading ---- */

void reader_index_free(struct reader_index *x)
{
	if (!x)
		return;
	mapped_close(x->map, x->map_len);
	free(x->at);
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
		x->at[i] = at;
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
	x->at = calloc(x->n + 1, sizeof(*x->at));
	if (!x->at)
		return -AUX_E_NOMEM;
	return check_spans(x, h);
}

int reader_index_use(struct aux_reader *r, const char *path)
{
	struct reader_index *x;
	struct head now = { 0 };
	struct stat st;
	int fd = r->n_more || !r->file.on_disk || r->info.pipe || r->index ||
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
	if (rc > 0)
		r->index = x;
	else
		reader_index_free(x);
	return x ? rc : -AUX_E_NOMEM;
}

bool reader_has_index(const struct aux_reader *r)
{
	return r->index != NULL;
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
	return x->map + x->at[lo] + (pos - x->spans[lo].offset);
}
