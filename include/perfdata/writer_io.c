/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The writer's way to the file: a buffer, and places given out under the lock
 * that are filled without it.
 *
 * Invariant: places are given out in order and hold whole records, so that the
 * file up to the first place that is not filled yet (writer_whole) is what a
 * single thread would have written. A place that cannot be filled is a hole for
 * good: what lies behind it does not count.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perfdata/writer_impl.h"

int writer_fail(struct writer *w, int code, const char *fmt, ...)
{
	va_list ap;

	if (!w->error) {
		w->error = code;
		w->diag.code = code;
		w->diag.offset = AUX_NO_OFFSET;
		va_start(ap, fmt);
		vsnprintf(w->diag.text, sizeof(w->diag.text), fmt, ap);
		va_end(ap);
	}
	return -w->error;
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

int writer_pwrite(struct writer *w, const void *data, size_t len, uint64_t pos)
{
	const char *p = data;

	while (len) {
		ssize_t n = pwrite(w->fd, p, len, (off_t)pos);

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

/* writev without the death by SIGPIPE, which comes with a write that was done in
 * part, too; a signal that waited before stays. */
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
		n = w->opt.pipe ? write_pipe(w->fd, iov, n_iov) :
				  pwritev(w->fd, iov, n_iov,
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

static void note_hole(struct writer *w, uint64_t start, uint64_t done, int err)
{
	if (!w->broken || start < w->hole) {
		w->hole = start;
		w->hole_end = start + done;
	}
	w->broken = true;
	fail_io(w, start + done, err);
}

uint64_t writer_whole(const struct writer *w)
{
	uint64_t end = w->flights ? w->flights->start : w->pos;

	return w->broken && w->hole < end ? w->hole : end;
}

/* Another buffer while the present one is being written. */
static struct writer_buf *take_spare(struct writer *w)
{
	struct writer_buf *b = w->spare;

	if (b)
		w->spare = b->next;
	else
		b = malloc(sizeof(*b));
	return b;
}

static void remove_flight(struct writer *w, struct writer_flight *f)
{
	struct writer_flight **p = &w->flights;

	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
}

static void add_flight(struct writer *w, struct writer_flight *f)
{
	struct writer_flight **p = &w->flights;

	while (*p)
		p = &(*p)->next;
	*p = f;
}

/* Into a pipe: one after the other, so the lock is kept. */
static int send_pipe(struct writer *w, struct iovec *iov, int n_iov,
		     uint64_t len)
{
	uint64_t start = w->pos, done;
	int err;

	w->pos += len;
	w->used = 0;
	done = write_out(w, iov, n_iov, start, &err);
	if (err)
		note_hole(w, start, done, err);
	return -w->error;
}

/*
 * Who kills several threads in mid-write leaves places half filled before others
 * that are full: then the header of a payload comes last, and a reader finds
 * nothing there. A single thread's last place is just cut off.
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

static bool is_shared(struct writer *w)
{
	if (!w->shared) {
		if (!w->sent_any)
			w->sender = pthread_self();
		w->sent_any = true;
		w->shared = !pthread_equal(w->sender, pthread_self());
	}
	return w->shared;
}

int writer_send(struct writer *w, struct iovec *iov, int n_iov, uint64_t len)
{
	struct writer_flight f = { .start = w->pos };
	struct writer_buf *buf = w->buf, *other = NULL;
	bool shared = is_shared(w);
	uint64_t done;
	int err;

	if (w->error)
		return -w->error;
	len += w->used;
	iov[0] = (struct iovec){ buf->data, w->used };
	if (!len)
		return 0;
	if (w->opt.pipe)
		return send_pipe(w, iov, n_iov, len);
	if (w->used) {
		other = take_spare(w);
		if (!other)
			return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
					   w->path);
		w->buf = other;
		w->used = 0;
	}
	w->pos += len;
	add_flight(w, &f);
	if (!w->alone)
		pthread_mutex_unlock(&w->lock);
	if (shared && n_iov > 2)
		done = write_headers_last(w, iov, n_iov, f.start, &err);
	else
		done = write_out(w, iov, n_iov, f.start, &err);
	if (!w->alone)
		pthread_mutex_lock(&w->lock);
	remove_flight(w, &f);
	if (other) {
		buf->next = w->spare;
		w->spare = buf;
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
	while (!w->error && WRITER_BUF - w->used < n)
		writer_send_buf(w);
	return -w->error;
}

int writer_put(struct writer *w, const void *data, size_t len)
{
	const char *p = data;

	while (len && !writer_room(w, 1)) {
		size_t n = WRITER_BUF - w->used;

		n = len < n ? len : n;
		memcpy(w->buf->data + w->used, p, n);
		w->used += n;
		p += n;
		len -= n;
	}
	return -w->error;
}

int writer_declare(struct writer *w)
{
	uint64_t end = writer_whole(w), size;

	if (!w->started || end <= w->data_end)
		return 0;
	w->data_end = end;
	size = end - w->data_start;
	if (!w->regular)
		return 0;
	return writer_pwrite(w, &size, sizeof(size),
			     offsetof(struct aux_file_header, data.size));
}
