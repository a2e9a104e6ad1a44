/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writer: records and AUX data into a perf.data file or pipe.
 *
 * Layout of a file: header, event ids, attrs, data (records; an AUXTRACE record
 * is followed by its payload), feature sections. Invariant: the buffer and each
 * place in the file hold whole records, so a valid file can be made after any
 * failure (writer_end.c).
 * Specification: perf.data-file-format.txt and tools/perf/util/header.c of
 * Linux 6.1.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perfdata/writer_impl.h"

int writer_grow(struct writer *w, void **array, size_t n, size_t *cap,
		size_t size)
{
	size_t want;
	void *p;

	if (n < *cap)
		return 0;
	want = *cap ? *cap * 2 : 16;
	p = reallocarray(*array, want, size);
	if (!p)
		return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
				   w->path);
	*array = p;
	*cap = want;
	return 0;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int flush(struct writer *w)
{
	if (writer_zstd_pending(w))
		writer_zstd_drain(w);
	writer_send_buf(w);
	if (!w->error)
		writer_declare(w);
	return -w->error;
}

/* A slow source is flushed by the clock: who kills us loses little. */
int writer_leave(struct writer *w)
{
	uint64_t now = now_ms();
	int ret;

	if (!w->error && now - w->flushed_ms >= WRITER_PERIOD_MS) {
		w->flushed_ms = now;
		flush(w);
	}
	__atomic_store_n(&w->size, w->pos + w->used, __ATOMIC_RELAXED);
	ret = -w->error;
	pthread_mutex_unlock(&w->lock);
	return ret;
}

int writer_flush(struct writer *w)
{
	pthread_mutex_lock(&w->lock);
	flush(w);
	return writer_leave(w);
}

/* No records after the end. */
static int check_open(struct writer *w)
{
	if (w->finished)
		return writer_fail(w, AUX_E_INVAL,
				   "%s: a record after the end", w->path);
	if (!w->started)
		writer_start(w);
	return -w->error;
}

/* perf compresses what the kernel gave; our own are records for anybody. */
static bool may_compress(const struct perf_event_header *h)
{
	return h->type < AUX_RECORD_HEADER_ATTR ||
	       h->type == AUX_RECORD_EVENT_TYPE;
}

int writer_append(struct writer *w, const struct iovec *part, int n_parts)
{
	size_t len = 0;
	int i;

	for (i = 0; i < n_parts; i++)
		len += part[i].iov_len;
	if (check_open(w))
		return -w->error;
	if (writer_zstd_takes(w) && may_compress(part->iov_base)) {
		while (!w->error && !writer_zstd_add(w, part, n_parts, len))
			writer_zstd_drain(w);
		return -w->error;
	}
	do {	/* whoever else fills it while we have no lock */
		if (writer_zstd_pending(w))
			writer_zstd_drain(w);
		writer_room(w, len);
	} while (!w->error && writer_zstd_pending(w));
	for (i = 0; !w->error && i < n_parts; i++) {
		if (!part[i].iov_len)
			continue;
		memcpy(w->buf->data + w->used, part[i].iov_base,
		       part[i].iov_len);
		w->used += part[i].iov_len;
	}
	return -w->error;
}

int writer_record(struct writer *w, const struct perf_event_header *rec)
{
	struct iovec part = { (void *)(uintptr_t)rec, rec->size };

	pthread_mutex_lock(&w->lock);
	if (rec->size < sizeof(*rec) || rec->size % 8 ||
	    rec->type == AUX_RECORD_AUXTRACE) {
		writer_fail(w, AUX_E_INVAL, "%s: bad record (type %u, size %u)",
			    w->path, rec->type, rec->size);
	} else {
		writer_append(w, &part, 1);
		writer_codes_note(w, rec);
	}
	return writer_leave(w);
}

int writer_time_conv(struct writer *w, const struct aux_rec_time_conv *tc)
{
	struct {
		struct perf_event_header h;
		struct aux_rec_time_conv tc;
	} r = {
		.h.type = AUX_RECORD_TIME_CONV,
		.h.size = sizeof(r),
		.tc = *tc,
	};

	return writer_record(w, &r.h);
}

int writer_append_own(struct writer *w, enum aux_own_kind kind,
		      const void *head, size_t head_len, const void *data,
		      size_t len)
{
	static const uint8_t zero[8];
	size_t pad = -(head_len + len) & 7;
	struct {
		struct perf_event_header h;
		struct aux_own_record own;
	} r = {
		.h.type = AUX_RECORD_EVENT_TYPE,
		.own.magic = AUX_OWN_MAGIC,
		.own.kind = (uint16_t)kind,
		.own.version = 1,
		.own.len = (uint32_t)(head_len + len),
	};
	const struct iovec part[] = {
		{ &r, sizeof(r) },
		{ (void *)(uintptr_t)head, head_len },
		{ (void *)(uintptr_t)data, len },
		{ (void *)(uintptr_t)zero, pad },
	};

	if (head_len > WRITER_OWN_MAX || len > WRITER_OWN_MAX - head_len)
		return writer_fail(w, AUX_E_INVAL,
				   "%s: an own record (kind %u) of %zu bytes",
				   w->path, kind, head_len + len);
	r.h.size = (uint16_t)(sizeof(r) + head_len + len + pad);
	return writer_append(w, part, 4);
}

int writer_own(struct writer *w, enum aux_own_kind kind, const void *head,
	       size_t head_len, const void *data, size_t len)
{
	pthread_mutex_lock(&w->lock);
	writer_append_own(w, kind, head, head_len, data, len);
	return writer_leave(w);
}

/* The totals of a queue; NULL when out of memory. */
static struct writer_stream *find_stream(struct writer *w, uint32_t idx)
{
	struct writer_stream *s;
	size_t i;

	for (i = 0; i < w->n_streams; i++)
		if (w->streams[i].idx == idx)
			return &w->streams[i];
	if (writer_grow(w, (void **)&w->streams, i, &w->cap_streams, sizeof(*s)))
		return NULL;
	s = &w->streams[w->n_streams++];
	*s = (struct writer_stream){ .idx = idx };
	return s;
}

/* An AUXTRACE record of either type on its way. */
struct chunk {
	struct {
		struct perf_event_header h;
		struct aux_rec_auxtrace a;
		struct aux_rec_auxtrace_zstd z;
	} rec;
	uint64_t given;		/* bytes of payload */
	uint64_t len;		/* of payload in the file, not padded */
	size_t pad;
	bool placed;		/* it has its place in the file */
	struct iovec *iov;	/* buffer, record, payload, padding */
	int n_iov;
};

static void fill_chunk(struct chunk *c, const struct aux_rec_auxtrace *a,
		       const struct iovec *packed)
{
	static const uint8_t zero[8];

	c->rec.a = *a;
	c->given = c->len = a->size;
	c->rec.h.type = AUX_RECORD_AUXTRACE;
	c->rec.h.size = sizeof(c->rec.h) + sizeof(c->rec.a);
	if (packed) {
		c->len = packed->iov_len;
		c->rec.h.type = AUX_RECORD_AUXKIT_AUXTRACE_ZSTD;
		c->rec.h.size = sizeof(c->rec);
		c->rec.z.raw_size = a->size;
		c->rec.z.zstd_size = c->len;
	}
	c->pad = -c->len & 7;
	c->rec.a.size = c->len + c->pad;
	c->iov[1] = (struct iovec){ &c->rec, c->rec.h.size };
	c->iov[c->n_iov - 1] = (struct iovec){ (void *)(uintptr_t)zero, c->pad };
}

/* Enters the chunk into the index and the totals, for the next place. */
static int place_chunk(struct writer *w, struct chunk *c)
{
	struct writer_stream *s = find_stream(w, c->rec.a.idx);
	struct writer_chunk *e;

	if (!s || writer_grow(w, (void **)&w->chunks, w->n_chunks,
			      &w->cap_chunks, sizeof(*w->chunks)))
		return -w->error;
	e = &w->chunks[w->n_chunks++];
	e->at.file_offset = w->pos + w->used;
	e->at.size = c->rec.h.size;
	e->stream = (uint32_t)(s - w->streams);
	e->len = c->given;
	s->saved += c->given;
	s->n_chunks++;
	c->placed = true;
	return 0;
}

static int put_chunk(struct writer *w, struct chunk *c)
{
	uint64_t total = c->rec.h.size + c->len + c->pad;
	bool small = c->len < WRITER_DIRECT;
	int i;

	do {
		if (writer_zstd_pending(w))
			writer_zstd_drain(w);
		if (small)
			writer_room(w, total);
	} while (!w->error && writer_zstd_pending(w));
	if (w->error || place_chunk(w, c))
		return -w->error;
	if (!small)
		return writer_send(w, c->iov, c->n_iov, total);
	for (i = 1; i < c->n_iov; i++) {
		if (c->iov[i].iov_len)
			memcpy(w->buf->data + w->used, c->iov[i].iov_base,
			       c->iov[i].iov_len);
		w->used += c->iov[i].iov_len;
	}
	return 0;
}

/* What was given is counted, whatever comes of it: what has a place in the file
 * as saved until the end, when it may turn out to lie behind a hole. */
static int write_chunk(struct writer *w, const struct aux_rec_auxtrace *a,
		       struct chunk *c, const struct iovec *packed)
{
	struct writer_stream *s;

	pthread_mutex_lock(&w->lock);
	s = find_stream(w, a->idx);
	if (s && a->offset + a->size > s->end)
		s->end = a->offset + a->size;
	if (!c->iov)
		writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
	if (!check_open(w) && a->size) {
		fill_chunk(c, a, packed);
		put_chunk(w, c);
	}
	if (w->error && !c->placed) {
		s = find_stream(w, a->idx);
		if (s)
			s->unwritten += a->size;
	}
	return writer_leave(w);
}

static int fail_size(struct writer *w, uint64_t len, uint64_t declared)
{
	pthread_mutex_lock(&w->lock);
	writer_fail(w, AUX_E_INVAL,
		    "%s: AUX data of %llu bytes declared as %llu", w->path,
		    (unsigned long long)len, (unsigned long long)declared);
	return writer_leave(w);
}

#define FEW 8

int writer_auxtrace(struct writer *w, const struct aux_rec_auxtrace *a,
		    const struct iovec *iov, int n_iov)
{
	struct iovec few[FEW + 3], packed;
	struct writer_zout *z = NULL;
	struct chunk c = { .iov = few };
	uint64_t len = 0;
	int i, ret;

	for (i = 0; i < n_iov; i++)
		len += iov[i].iov_len;
	if (len != a->size)
		return fail_size(w, len, a->size);
	if (w->opt.zstd_aux)
		z = writer_zstd_aux(w, iov, n_iov, len, &packed);
	if (z) {
		iov = &packed;
		n_iov = 1;
	}
	c.n_iov = n_iov + 3;
	if (n_iov > FEW)
		c.iov = malloc((size_t)c.n_iov * sizeof(*c.iov));
	if (c.iov && n_iov)
		memcpy(c.iov + 2, iov, (size_t)n_iov * sizeof(*iov));
	ret = write_chunk(w, a, &c, z ? &packed : NULL);
	if (c.iov != few)
		free(c.iov);
	if (z)
		writer_zstd_release(w, z);
	return ret;
}

void writer_time(struct writer *w, uint64_t ns)
{
	pthread_mutex_lock(&w->lock);
	if (!w->first_ns || ns < w->first_ns)
		w->first_ns = ns;
	if (ns > w->last_ns)
		w->last_ns = ns;
	pthread_mutex_unlock(&w->lock);
}

uint64_t writer_size(const struct writer *w)
{
	return __atomic_load_n(&w->size, __ATOMIC_RELAXED);
}

const struct writer_stream *writer_streams(struct writer *w, size_t *n)
{
	*n = w->n_streams;
	return w->streams;
}
