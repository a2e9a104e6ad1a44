/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writer: records and AUX data into a perf.data file or pipe.
 *
 * Layout of a file: header, event ids, attrs, data (records; an AUXTRACE record
 * is followed by its payload), feature sections. Invariant: the buffer and each
 * place in the file hold whole records, so a valid file can be made after any
 * failure (see cut_back).
 * Specification: perf.data-file-format.txt and tools/perf/util/header.c of
 * Linux 6.1.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"

#include "perfdata/impl.h"

/*
 * The writer's way to the file: a buffer, and places given out under the lock
 * that are filled without it.
 *
 * Invariant: places are given out in order and hold whole records, so that the
 * file up to the first place that is not filled yet (writer_whole) is what a
 * single thread would have written. A place that cannot be filled is a hole for
 * good: what follows it does not count.
 */

int writer_fail(struct writer *w, int code, const char *fmt, ...)
{
	va_list ap;

	if (!w->error) {
		w->error = code;
		va_start(ap, fmt);
		diag_vset(&w->diag, code, AUX_NO_OFFSET, fmt, ap);
		va_end(ap);
	}
	return -w->error;
}

static int fail_nomem(struct writer *w)
{
	return writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
}

static int fail_io(struct writer *w, uint64_t pos, int err)
{
	const char *hint = "";

	if (err == ENOSPC || err == EDQUOT || err == EFBIG)
		hint = " (make room, or -o names a file elsewhere)";
	return writer_fail(w, AUX_E_IO, "%s: write at byte %llu: %s%s",
			   strcmp(w->path, "-") ? w->path : "standard output",
			   (unsigned long long)pos, strerror(err), hint);
}

/* For the header alone; data goes through write_out, which says how far it
 * came. */
static int write_at(struct writer *w, const void *data, size_t len, uint64_t pos)
{
	const char *p = data;

	while (len) {
		ssize_t n = pwrite(w->out.fd, p, len, (off_t)pos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_io(w, pos, n ? errno : EIO);
		p += n;
		pos += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* writev without the death by SIGPIPE, which comes with a write that was done
 * in part, too; a signal that waited before stays. */
static ssize_t write_pipe(int fd, const struct iovec *iov, int n_iov)
{
	const struct timespec now = { 0 };
	sigset_t pipe_set, was, waiting;
	ssize_t n;
	int err;

	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	sigpending(&waiting);
	pthread_sigmask(SIG_BLOCK, &pipe_set, &was);
	n = writev(fd, iov, n_iov);
	err = errno;
	if (!sigismember(&waiting, SIGPIPE))
		while (sigtimedwait(&pipe_set, NULL, &now) < 0 &&
		       errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	errno = err;
	return n;
}

/* Writes as much as it can, at pos or into the pipe. Returns the bytes, and 0
 * or the cause in *err. Changes iov. */
static uint64_t write_out(const struct writer *w, struct iovec *iov, int n_iov,
			  uint64_t pos, int *err)
{
	uint64_t done = 0;
	ssize_t n;

	*err = 0;
	for (;;) {
		while (n_iov && !iov->iov_len) {
			iov++;
			n_iov--;
		}
		if (!n_iov)
			return done;
		n = w->opt.pipe ? write_pipe(w->out.fd, iov, n_iov) :
				  pwritev(w->out.fd, iov, n_iov,
					  (off_t)(pos + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			*err = n ? errno : EIO;
			return done;
		}
		done += (uint64_t)n;
		while (n_iov && (size_t)n >= iov->iov_len) {
			n -= (ssize_t)iov->iov_len;
			iov++;
			n_iov--;
		}
		if (n_iov) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
}

/* The place at start got only done bytes. The first hole in the file counts. */
static void note_hole(struct writer *w, uint64_t start, uint64_t done, int err)
{
	if (!w->out.broken || start < w->out.hole) {
		w->out.hole = start;
		w->out.hole_end = start + done;
	}
	w->out.broken = true;
	fail_io(w, start + done, err);
}

/* Up to where the file has no hole. */
static uint64_t writer_whole(const struct writer *w)
{
	uint64_t end = w->out.flights ? w->out.flights->start : w->out.pos;

	return w->out.broken && w->out.hole < end ? w->out.hole : end;
}

/* Another buffer while the present one is being written. */
static struct writer_buf *take_spare(struct writer *w)
{
	struct writer_buf *b = w->out.spare;

	if (b)
		w->out.spare = b->next;
	else
		b = malloc(sizeof(*b));
	return b;
}

static void remove_flight(struct writer *w, struct writer_flight *f)
{
	struct writer_flight **p = &w->out.flights;

	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
}

/* At the end: places are given out in order. There are as many as threads that
 * write. */
static void add_flight(struct writer *w, struct writer_flight *f)
{
	struct writer_flight **p = &w->out.flights;

	while (*p)
		p = &(*p)->next;
	*p = f;
}

/* Into a pipe: one after the other, so the lock is kept. */
static int send_pipe(struct writer *w, struct iovec *iov, int n_iov,
		     uint64_t len)
{
	uint64_t start = w->out.pos, done;
	int err;

	w->out.pos += len;
	w->out.used = 0;
	done = write_out(w, iov, n_iov, start, &err);
	if (err)
		note_hole(w, start, done, err);
	return -w->error;
}

/*
 * When a process is killed while several threads write, a place may be half
 * filled and a later one full. So the payload is written before the header of
 * its record: a place that is not complete begins with zeros, which readers and
 * repair take for the end. A single thread's last place is just cut off, in one
 * call instead of two.
 */
static uint64_t write_headers_last(const struct writer *w, struct iovec *iov,
				   int n_iov, uint64_t pos, int *err)
{
	uint64_t head = iov[0].iov_len + iov[1].iov_len, done, buf_done;
	int err2;

	done = write_out(w, iov + 2, n_iov - 2, pos + head, err);
	buf_done = write_out(w, iov, *err ? 1 : 2, pos, &err2);
	if (!*err)
		*err = err2;
	return buf_done == head ? head + done : buf_done;
}

/* More than one thread has sent so far. */
static bool is_shared(struct writer *w)
{
	if (!w->senders.shared) {
		if (!w->senders.any)
			w->senders.first = pthread_self();
		w->senders.any = true;
		w->senders.shared = !pthread_equal(w->senders.first, pthread_self());
	}
	return w->senders.shared;
}

/*
 * Sends the buffer, then len bytes in iov[1..n_iov-1]; iov[0] is for the
 * buffer. The place in the file is taken under the lock, which is given up
 * while writing, so that threads write side by side.
 */
static int writer_send(struct writer *w, struct iovec *iov, int n_iov,
		       uint64_t len)
{
	struct writer_flight f = { .start = w->out.pos };
	struct writer_buf *buf = w->out.buf, *other = NULL;
	bool shared = is_shared(w);
	uint64_t done;
	int err;

	if (w->error)
		return -w->error;
	len += w->out.used;
	iov[0] = (struct iovec){ buf->data, w->out.used };
	if (!len)
		return 0;
	if (w->opt.pipe)
		return send_pipe(w, iov, n_iov, len);
	if (w->out.used) {
		other = take_spare(w);
		if (!other)
			return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
					   w->path);
		w->out.buf = other;
		w->out.used = 0;
	}
	w->out.pos += len;
	add_flight(w, &f);
	if (!w->senders.alone)
		pthread_mutex_unlock(&w->lock);
	if (shared && n_iov > 2)
		done = write_headers_last(w, iov, n_iov, f.start, &err);
	else
		done = write_out(w, iov, n_iov, f.start, &err);
	if (!w->senders.alone)
		pthread_mutex_lock(&w->lock);
	remove_flight(w, &f);
	if (other) {
		buf->next = w->out.spare;
		w->out.spare = buf;
	}
	if (err)
		note_hole(w, f.start, done, err);
	return -w->error;
}

int writer_send_buf(struct writer *w)
{
	struct iovec iov;

	return writer_send(w, &iov, 1, 0);
}

int writer_room(struct writer *w, size_t n)
{
	while (!w->error && WRITER_BUF - w->out.used < n)
		writer_send_buf(w);
	return -w->error;
}

int writer_put(struct writer *w, const void *data, size_t len)
{
	const char *p = data;

	while (len && !writer_room(w, 1)) {
		size_t n = WRITER_BUF - w->out.used;

		n = len < n ? len : n;
		memcpy(w->out.buf->data + w->out.used, p, n);
		w->out.used += n;
		p += n;
		len -= n;
	}
	return -w->error;
}

/* The header in the file learns how far the data reach. It is one aligned
 * pwrite of 8 bytes, so a reader finds the old size or the new one. */
static int writer_declare(struct writer *w)
{
	uint64_t end = writer_whole(w), size;

	if (!w->started || end <= w->data_end)
		return 0;
	w->data_end = end;
	size = end - w->h.data.offset;
	if (!w->out.regular)
		return 0;
	return write_at(w, &size, sizeof(size),
			     offsetof(struct aux_file_header, data.size));
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* What was appended goes to the kernel, and the header learns how much of it is
 * whole. */
static int flush(struct writer *w)
{
	if (writer_zstd_pending(w))
		writer_zstd_drain(w);
	writer_send_buf(w);
	if (!w->error)
		writer_declare(w);
	return -w->error;
}

/* A slow source is flushed by the clock, so that being killed costs little. */
int writer_leave(struct writer *w)
{
	uint64_t now = now_ms();
	int ret;

	if (!w->error && now - w->flushed_ms >= WRITER_PERIOD_MS) {
		w->flushed_ms = now;
		flush(w);
	}
	__atomic_store_n(&w->size, w->out.pos + w->out.used, __ATOMIC_RELAXED);
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

/* perf record -z compresses what it reads from the ring, so records of the
 * kernel's types. Ours may be compressed too, since perf skips them. */
static bool may_compress(const struct perf_event_header *h)
{
	return h->type < AUX_RECORD_HEADER_ATTR ||
	       h->type == AUX_RECORD_EVENT_TYPE;
}

/*
 * With compression a record waits in writer_zstd's input until that is full. A
 * record that may not be compressed must not overtake those: they are drained
 * before it.
 */
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
	do {	/* another thread may fill it while we have no lock */
		if (writer_zstd_pending(w))
			writer_zstd_drain(w);
		writer_room(w, len);
	} while (!w->error && writer_zstd_pending(w));
	for (i = 0; !w->error && i < n_parts; i++) {
		if (!part[i].iov_len)
			continue;
		memcpy(w->out.buf->data + w->out.used, part[i].iov_base,
		       part[i].iov_len);
		w->out.used += part[i].iov_len;
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

/* A record of ours, padded; head and data are copied before this returns. */
int writer_append_own(struct writer *w, enum aux_own_kind kind,
		      const void *head, size_t head_len, const void *data,
		      size_t len)
{
	static const uint8_t zero[AUX_OWN_RECORD_MIN];
	size_t pad = own_record_pad(head_len + len);
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
	if (array_grow(&w->streams, i, &w->cap_streams, sizeof(*s))) {
		fail_nomem(w);
		return NULL;
	}
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

/* packed: the zstd frame, or NULL. iov[0] stays free for the buffer, so that
 * one writev takes what is buffered, the record and its payload. */
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

	if (!s)
		return -w->error;
	if (array_grow(&w->chunks, w->n_chunks, &w->cap_chunks,
		       sizeof(*w->chunks)))
		return fail_nomem(w);
	e = &w->chunks[w->n_chunks++];
	e->at.file_offset = w->out.pos + w->out.used;
	e->at.size = c->rec.h.size;
	e->stream = (uint32_t)(s - w->streams);
	e->len = c->given;
	s->saved += c->given;
	s->n_chunks++;
	c->placed = true;
	return 0;
}

/* Small payload goes through the buffer, large one from where it lies. What was
 * kept for compression comes first: the order of records is that of the
 * calls. */
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
			memcpy(w->out.buf->data + w->out.used, c->iov[i].iov_base,
			       c->iov[i].iov_len);
		w->out.used += c->iov[i].iov_len;
	}
	return 0;
}

/* What was given is counted, whatever comes of it: what has a place in the file
 * as saved until the end, when it may turn out to lie after a hole. */
static int write_chunk(struct writer *w, const struct aux_rec_auxtrace *a,
		       struct chunk *c, const struct iovec *packed)
{
	struct writer_stream *s;

	pthread_mutex_lock(&w->lock);
	s = find_stream(w, a->idx);
	if (s && a->offset + a->size > s->end)
		s->end = a->offset + a->size;
	if (!c->iov)
		fail_nomem(w);
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

/*
 * Compresses before it takes the lock, which is what lets threads compress side
 * by side. The payload stays the caller's; it was written or copied when this
 * returns.
 */
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

/*
 * The beginning of a recording: the file or pipe, the header, the events.
 *
 * Specification: perf.data-file-format.txt and tools/perf/util/header.c of
 * Linux 6.1. The stride of attrs in a file covers the ids section after each
 * attr; in a pipe each event is a HEADER_ATTR record, and EVENT_UPDATE has
 * its name.
 */

#define EVENT_UPDATE_NAME 2

/* Header, ids, attrs: the file is one from here on, without any data. */
static void start_file(struct writer *w)
{
	struct rewrite_bytes b = { 0 };

	event_list_put(&w->events, sizeof(w->h), &b, &w->h);
	w->h.data.offset = sizeof(w->h) + b.len;
	w->data_end = w->h.data.offset;
	if (b.oom)
		fail_nomem(w);
	writer_put(w, &w->h, sizeof(w->h));
	writer_put(w, b.data, b.len);
	free(b.data);
}

static void put_attr(struct writer *w, const struct event_entry *a)
{
	size_t ids = a->n_ids * sizeof(uint64_t);
	struct {
		struct perf_event_header h;
		struct perf_event_attr attr;
	} r = { .h.type = AUX_RECORD_HEADER_ATTR, .attr = a->attr };

	if (sizeof(r) + ids > WRITER_REC_MAX) {
		writer_fail(w, AUX_E_LIMIT, "%s: event '%.64s' has %u ids, too "
			    "many for a pipe (record into a file)", w->path,
			    a->name, a->n_ids);
		return;
	}
	r.h.size = (uint16_t)(sizeof(r) + ids);
	writer_put(w, &r, sizeof(r));
	writer_put(w, a->ids, ids);
}

/* A HEADER_ATTR has no name: EVENT_UPDATE gives it, cut to 4,096 bytes. */
static void put_name(struct writer *w, const struct event_entry *a)
{
	static const char zero[8];
	size_t len = strnlen(a->name, 4096) + 1, pad;
	struct {
		struct perf_event_header h;
		uint64_t type;
		uint64_t id;
	} r = {
		.h.type = AUX_RECORD_EVENT_UPDATE,
		.type = EVENT_UPDATE_NAME,
	};

	if (!a->n_ids)	/* an EVENT_UPDATE names its event by an id */
		return;
	pad = -len & 7;
	r.id = a->ids[0];
	r.h.size = (uint16_t)(sizeof(r) + len + pad);
	writer_put(w, &r, sizeof(r));
	writer_put(w, a->name, len - 1);
	writer_put(w, zero, 1 + pad);
}

/* The header of a pipe is only magic and size; what a file has in sections
 * comes as records. All attrs first: perf looks an id up when the name
 * comes. */
static void start_pipe(struct writer *w)
{
	const uint64_t h[2] = { AUX_PERF_MAGIC2, sizeof(h) };
	size_t i;

	writer_put(w, h, sizeof(h));
	for (i = 0; i < w->events.n; i++)
		put_attr(w, &w->events.v[i]);
	for (i = 0; i < w->events.n; i++)
		put_name(w, &w->events.v[i]);
}

/* The lock is kept (alone): no other thread may put a record before the attrs,
 * which are needed to read it. */
int writer_start(struct writer *w)
{
	bool was_alone = w->senders.alone;

	w->started = true;
	w->senders.alone = true;
	if (w->opt.pipe)
		start_pipe(w);
	else
		start_file(w);
	writer_send_buf(w);
	writer_features_send(w);
	w->senders.alone = was_alone;
	return -w->error;
}

/* Keeps what is there as path.old, as perf does: a second run must not destroy
 * a recording that took hours. Devices are left alone. */
static int keep_old(struct writer *w, struct aux_diag *diag)
{
	struct stat st;

	if (stat(w->path, &st) || !S_ISREG(st.st_mode) || st.st_size == 0)
		return 0;
	if (asprintf(&w->old_path, "%s.old", w->path) < 0) {
		w->old_path = NULL;
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"%s: out of memory", w->path);
	}
	if (rename(w->path, w->old_path))
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot keep the existing file as %s: %s (-o "
				"names another file)", w->old_path,
				strerror(errno));
	return 0;
}

static int open_file(struct writer *w, struct aux_diag *diag)
{
	struct stat st;

	/* checked first: opening a FIFO for writing would block */
	if (!w->opt.pipe && !stat(w->path, &st) &&
	    (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"%s is a pipe or a socket; a recording needs a "
				"file (or -o - and a redirection)", w->path);
	w->out.fd = open(w->path, (w->opt.pipe ? O_WRONLY : O_RDWR) | O_CREAT |
		     O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
	if (w->out.fd < 0)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot create %s: %s (-o names another file)",
				w->path, strerror(errno));
	w->out.regular = !w->opt.pipe && !fstat(w->out.fd, &st) && S_ISREG(st.st_mode);
	if (w->out.regular)	/* shows auxcap repair that the file is in use */
		flock(w->out.fd, LOCK_EX | LOCK_NB);
	return 0;
}

/* A copy of the descriptor, so that close is ours and standard output stays
 * open. */
static int open_stdout(struct writer *w, struct aux_diag *diag)
{
	w->opt.pipe = true;
	if (isatty(STDOUT_FILENO))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"a recording is not for a terminal: redirect "
				"standard output, or -o names a file");
	w->out.fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (w->out.fd < 0)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot write to standard output: %s",
				strerror(errno));
	return 0;
}

static int open_output(struct writer *w, struct aux_diag *diag)
{
	int ret = 0;

	if (w->opt.zstd_level || w->opt.zstd_aux)
		ret = writer_zstd_open(w, diag);
	if (ret)
		return ret;
	if (!strcmp(w->path, "-"))
		return open_stdout(w, diag);
	if (!w->opt.pipe)
		ret = keep_old(w, diag);
	return ret ? ret : open_file(w, diag);
}

int writer_open(struct writer **out, const char *path,
		const struct writer_options *o, struct aux_diag *diag)
{
	struct writer *w = calloc(1, sizeof(*w));
	int ret;

	*out = NULL;
	if (w) {
		pthread_mutex_init(&w->lock, NULL);
		w->out.fd = -1;
		w->opt = o ? *o : (struct writer_options){ 0 };
		w->path = strdup(path);
		w->out.buf = malloc(sizeof(*w->out.buf));
	}
	if (!w || !w->path || !w->out.buf) {
		writer_close(w, NULL);
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"%s: out of memory", path);
	}
	ret = open_output(w, diag);
	if (ret) {
		writer_close(w, NULL);
		return ret;
	}
	*out = w;
	return 0;
}

static int add_attr(struct writer *w, const struct perf_event_attr *attr,
		    const char *name, const uint64_t *ids, uint32_t n_ids)
{
	struct perf_event_attr whole = *attr;

	if (w->started)
		return writer_fail(w, AUX_E_INVAL,
				   "%s: an event after the first record",
				   w->path);
	whole.size = sizeof(whole);
	if (event_list_add(&w->events, &whole, sizeof(whole), name, ids, n_ids))
		return fail_nomem(w);
	return 0;
}

int writer_attr_add(struct writer *w, const struct perf_event_attr *attr,
		    const char *name, const uint64_t *ids, uint32_t n_ids)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	ret = add_attr(w, attr, name, ids, n_ids);
	pthread_mutex_unlock(&w->lock);
	return ret;
}

static int more_ids(struct writer *w, size_t n, uint64_t id)
{
	struct event_entry *e = &w->events.v[n];
	uint64_t *ids;

	if (w->opt.pipe)
		return -AUX_E_UNSUPPORTED;
	ids = reallocarray(e->ids, (size_t)e->n_ids + 1, sizeof(*ids));
	if (!ids)
		return fail_nomem(w);
	e->ids = ids;
	e->ids[e->n_ids++] = id;
	w->more_ids = true;
	return 0;
}

int writer_attr_more(struct writer *w, size_t n, uint64_t id)
{
	int ret = -AUX_E_INVAL;

	pthread_mutex_lock(&w->lock);
	if (n < w->events.n)
		ret = more_ids(w, n, id);
	pthread_mutex_unlock(&w->lock);
	return ret;
}

/*
 * The end of a recording: features, the completed header, and what can be saved
 * after an error.
 *
 * Invariant: the header names data only up to the last whole record, and
 * features only when all of them are in the file.
 */

/* The end of the whole records in [hole, hole_end): reads them back. */
static uint64_t find_whole(const struct writer *w)
{
	uint64_t at = w->out.hole;

	for (;;) {
		struct {
			struct perf_event_header h;
			uint64_t aux_size;
		} r = { .aux_size = 0 };
		uint64_t len;
		ssize_t n = pread(w->out.fd, &r, sizeof(r), (off_t)at);

		if (n < (ssize_t)sizeof(r.h) || r.h.size < sizeof(r.h))
			return at;
		len = r.h.size;
		if (r.h.type == AUX_RECORD_AUXTRACE ||
		    r.h.type == AUX_RECORD_AUXKIT_AUXTRACE_ZSTD)
			len += r.aux_size;
		if (len > w->out.hole_end || at > w->out.hole_end - len)
			return at;
		at += len;
	}
}

/* What got a place after the end of the file was not written after all. */
static void drop_chunks(struct writer *w, uint64_t end)
{
	while (w->n_chunks && w->chunks[w->n_chunks - 1].at.file_offset >= end) {
		const struct writer_chunk *c = &w->chunks[--w->n_chunks];
		struct writer_stream *s = &w->streams[c->stream];

		s->saved -= c->len;
		s->unwritten += c->len;
		s->n_chunks--;
	}
}

/* Makes the file end after its last whole record, for a fresh start there. */
static void cut_back(struct writer *w)
{
	uint64_t end = w->out.hole;

	if (w->h.data.offset && end >= w->h.data.offset && !w->opt.pipe)
		end = find_whole(w);
	drop_chunks(w, end);
	writer_zstd_stop(w);
	w->out.used = 0;
	w->out.pos = end;
	w->out.broken = false;
	if (w->out.regular && ftruncate(w->out.fd, (off_t)end))
		return;	/* then the header alone says where it ends */
}

/* The first error, put aside: what follows is done as if there was none. */
struct aside {
	int error;
	struct aux_diag diag;
};

/* The first of several calls counts; w->error is clear after each one. */
static void put_aside(struct writer *w, struct aside *a)
{
	if (!a->error) {
		a->error = w->error;
		a->diag = w->diag;
	}
	w->error = 0;
}

static void put_back(struct writer *w, const struct aside *a)
{
	if (a->error) {
		w->error = a->error;
		w->diag = a->diag;
	}
}

/* What is buffered is whole records: all of it, or what there was before. */
static void drain(struct writer *w, struct aside *a)
{
	if (!w->out.broken) {
		put_aside(w, a);
		if (writer_zstd_pending(w))
			writer_zstd_drain(w);
		writer_send_buf(w);
	}
	if (w->out.broken)
		cut_back(w);
	drop_chunks(w, w->out.pos);	/* and what memory was missing for */
	put_aside(w, a);
	writer_declare(w);
}

/* The end of the data. Totals are final after it; only features follow. */
static void finish(struct writer *w)
{
	struct aside a = { 0 };

	w->senders.alone = true;
	if (!w->started)
		writer_start(w);
	drain(w, &a);
	put_back(w, &a);
	w->finished = true;
	w->size = w->out.pos;
}

int writer_finish(struct writer *w)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	if (!w->finished)
		finish(w);
	ret = -w->error;
	pthread_mutex_unlock(&w->lock);
	return ret;
}

/* Events got more ids than there was room for at the beginning: ids and attrs
 * stand once more at the end of the file, and the header names these. */
static void add_ids(struct writer *w, struct aux_file_header *h)
{
	struct rewrite_bytes b = { 0 };
	struct aux_file_header with = *h;
	struct stat st;
	uint64_t at;

	if (!w->more_ids || fstat(w->out.fd, &st))
		return;
	at = ((uint64_t)st.st_size + 7) & ~UINT64_C(7);
	event_list_put(&w->events, at, &b, &with);
	if (b.oom)
		fail_nomem(w);
	else if (!write_at(w, b.data, b.len, at))
		*h = with;
	free(b.data);
}

/* Features, then their bits. On failure the file ends with the data. */
static void add_features(struct writer *w)
{
	uint64_t end = w->data_end;
	struct aux_file_header h = w->h;

	h.data.size = end - w->h.data.offset;
	/* the data are declared first, the features when they are there: a
	 * reader that comes now, or after a crash, finds one or both */
	write_at(w, &h, sizeof(h), 0);
	if (writer_features_emit(w, &h)) {
		memset(h.features, 0, sizeof(h.features));
		if (w->out.regular && ftruncate(w->out.fd, (off_t)end))
			writer_fail(w, AUX_E_IO, "%s: %s", w->path,
				    strerror(errno));
	}
	add_ids(w, &h);
	write_at(w, &h, sizeof(h), 0);
}

bool writer_headless(const struct writer *w)
{
	return w->error && !w->opt.pipe && w->out.pos < w->h.data.offset;
}

/* The last records: what was set since, the ledger before all. */
static void send_last(struct writer *w, struct aside *a)
{
	struct rewrite_bytes b = { 0 };

	w->finished = false;
	writer_features_send(w);
	if (w->opt.pipe && writer_make_section(w, AUX_FEAT_SAMPLE_TIME, &b) &&
	    !b.oom)
		writer_feature_record(w, AUX_FEAT_SAMPLE_TIME, b.data, b.len);
	free(b.data);
	drain(w, a);
	w->finished = true;
}

/* What makes it a whole file, as far as possible after an error: on a full
 * disk, cutting off the last record may have made room for the features. */
static void complete(struct writer *w)
{
	struct aside a = { 0 };

	if (!w->finished)
		finish(w);
	if (w->opt.pipe && w->error)
		return;
	if (writer_headless(w))
		return;
	put_aside(w, &a);
	send_last(w, &a);
	put_aside(w, &a);
	if (!w->opt.pipe)
		add_features(w);
	put_back(w, &a);
}

/* The descriptor is closed already, or was never ours. */
static void free_writer(struct writer *w)
{
	struct writer_buf *b;

	event_list_fini(&w->events);
	while ((b = w->out.spare)) {
		w->out.spare = b->next;
		free(b);
	}
	free(w->chunks);
	free(w->streams);
	writer_features_free(w);
	writer_codes_free(w->codes);
	writer_zstd_free(w);
	free(w->old_path);
	free(w->path);
	free(w->out.buf);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int writer_close(struct writer *w, struct aux_diag *diag)
{
	int ret;

	if (!w)
		return 0;
	if (w->out.fd >= 0) {
		complete(w);
		if (close(w->out.fd))
			writer_fail(w, AUX_E_IO, "%s: close: %s", w->path,
				    strerror(errno));
	}
	ret = -w->error;
	if (ret && diag)
		*diag = w->diag;
	free_writer(w);
	return ret;
}

/* Undoes the recording: the file goes, and what keep_old moved away comes back.
 * A device or a pipe is only closed. */
void writer_discard(struct writer *w, struct aux_diag *diag)
{
	struct stat st;

	if (!w)
		return;
	if (w->error && diag)
		*diag = w->diag;
	if (w->out.fd >= 0 && !w->opt.pipe && !fstat(w->out.fd, &st) &&
	    S_ISREG(st.st_mode) && !unlink(w->path) && w->old_path &&
	    rename(w->old_path, w->path))
		w->error = AUX_E_IO;	/* then it stays where it is */
	if (w->out.fd >= 0)
		close(w->out.fd);
	free_writer(w);
}

/*
 * A writer for a file whose own writer was killed: it only completes it.
 *
 * Invariant: until writer_resume_commit nothing touches the file.
 */

/* fd is the caller's after an error, so writer_close must not see it. */
static void writer_resume_abandon(struct writer *w)
{
	if (!w)
		return;
	w->out.fd = -1;
	writer_close(w, NULL);
}

int writer_resume(struct writer **out, const char *path, int fd,
		  const struct aux_file_header *h, struct aux_diag *diag)
{
	struct writer *w = calloc(1, sizeof(*w));

	*out = NULL;
	if (w) {
		pthread_mutex_init(&w->lock, NULL);
		w->out.fd = -1;
		w->path = strdup(path);
		w->out.buf = malloc(sizeof(*w->out.buf));
	}
	if (!w || !w->path || !w->out.buf) {
		writer_resume_abandon(w);
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"%s: out of memory", path);
	}
	w->out.fd = fd;
	w->out.regular = true;
	w->senders.alone = true;
	w->started = true;
	w->finished = true;	/* features that are set are not written yet */
	w->h = *h;
	memset(w->h.features, 0, sizeof(w->h.features));
	*out = w;
	return 0;
}

int writer_resume_chunk(struct writer *w, uint64_t offset, uint16_t size)
{
	if (array_grow(&w->chunks, w->n_chunks, &w->cap_chunks,
		       sizeof(*w->chunks)))
		return fail_nomem(w);
	w->chunks[w->n_chunks++] = (struct writer_chunk){
		.at = { offset, size },
	};
	return 0;
}

int writer_resume_commit(struct writer *w, uint64_t end,
			 const struct aux_own_loss *loss, struct aux_diag *diag)
{
	unsigned bit;

	w->out.pos = end;
	w->data_end = w->h.data.offset;
	w->finished = false;
	if (ftruncate(w->out.fd, (off_t)end))
		writer_fail(w, AUX_E_IO, "%s: %s", w->path, strerror(errno));
	for (bit = 0; bit < AUX_FEAT_BITS; bit++)
		w->features[bit].sent = true;	/* there they were found */
	if (loss)
		writer_own(w, AUX_OWN_LOSS, loss, sizeof(*loss), NULL, 0);
	return writer_close(w, diag);
}
