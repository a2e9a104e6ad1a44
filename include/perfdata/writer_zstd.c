/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compression: records as perf record -z has them, AUX payload as our own record
 * of it (extension.h).
 *
 * Records: one zstd stream for the file, since what came before makes up a third
 * of the gain. Invariant: each COMPRESSED record ends with a whole block, so that
 * all records up to the last one in a cut file can be read, and one call of
 * ZSTD_decompressStream reads each of them whole: perf up to this day takes the
 * second call's bytes for the first's.
 * AUX payload: one frame each, made by any number of threads at a time.
 */
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "perfdata/impl.h"

#ifdef HAVE_ZSTD

/* Input that always fits into one record, even when it does not shrink: a frame
 * header of 18 bytes, and blocks, at most 196 of them, with 3 bytes each. */
#define PORTION (63 << 10)
#define OUT_MAX (WRITER_REC_MAX - sizeof(struct perf_event_header))

struct writer_zout {
	struct writer_zout *next;
	ZSTD_CCtx *ctx;
	void *data;
	size_t cap;
};

struct writer_zstd {
	ZSTD_CCtx *stream;	/* of records; NULL: they are not compressed */
	size_t n_in;
	uint8_t in[WRITER_ZIN];
	int level;
	pthread_mutex_t lock;	/* of idle */
	struct writer_zout *idle;
};

static ZSTD_CCtx *new_ctx(int level)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();

	if (c)
		ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
	return c;
}

/* Level 0: records are not compressed. AUX payload may be all the same, at
 * level 1. On an error w->zstd may be set; writer_zstd_free is called with w in
 * any case. */
int writer_zstd_open(struct writer *w, struct aux_diag *diag)
{
	int level = w->opt.zstd_level;
	struct writer_zstd *z;

	if (level < 0 || level > ZSTD_maxCLevel())
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"compression level %d: levels are 1 to %d",
				level, ZSTD_maxCLevel());
	z = calloc(1, sizeof(*z));
	if (z) {
		pthread_mutex_init(&z->lock, NULL);
		z->level = level ? level : 1;
		z->stream = level ? new_ctx(level) : NULL;
		w->zstd = z;
	}
	if (!z || (level && !z->stream))
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"%s: out of memory", w->path);
	return 0;
}

static void free_out(struct writer_zout *o)
{
	if (!o)
		return;
	ZSTD_freeCCtx(o->ctx);
	free(o->data);
	free(o);
}

void writer_zstd_free(struct writer *w)
{
	struct writer_zstd *z = w->zstd;
	struct writer_zout *o;

	if (!z)
		return;
	while ((o = z->idle)) {
		z->idle = o->next;
		free_out(o);
	}
	ZSTD_freeCCtx(z->stream);
	pthread_mutex_destroy(&z->lock);
	free(z);
	w->zstd = NULL;
}

/* ---- records ---- */

bool writer_zstd_takes(const struct writer *w)
{
	return w->zstd && w->zstd->stream;
}

void writer_zstd_stop(struct writer *w)
{
	struct writer_zstd *z = w->zstd;

	if (!z)
		return;
	ZSTD_freeCCtx(z->stream);
	z->stream = NULL;
	z->n_in = 0;
}

/* A single record always fits, as it has at most 65,528 bytes; it may be more
 * than PORTION, and then writer_zstd_drain makes two COMPRESSED records of
 * it. */
bool writer_zstd_add(struct writer *w, const struct iovec *part, int n_parts,
		     size_t len)
{
	struct writer_zstd *z = w->zstd;
	int i;

	if (z->n_in && z->n_in + len > PORTION)
		return false;
	for (i = 0; i < n_parts; i++) {
		if (part[i].iov_len)
			memcpy(z->in + z->n_in, part[i].iov_base,
			       part[i].iov_len);
		z->n_in += part[i].iov_len;
	}
	return true;
}

bool writer_zstd_pending(const struct writer *w)
{
	return w->zstd && w->zstd->n_in;
}

/* Blocks of nothing, three zeros each, make the length a multiple of 8. */
static size_t pad_blocks(uint8_t *p, size_t len)
{
	size_t pad = 3 * (-len * 3 & 7);

	memset(p + len, 0, pad);
	return len + pad;
}

/* One record of all the input, after what is in the buffer, which has room for
 * it. */
static int put_compressed(struct writer *w, const uint8_t *data, size_t len)
{
	struct perf_event_header h = { .type = AUX_RECORD_COMPRESSED };
	uint8_t *p = w->out.buf->data + w->out.used;
	ZSTD_inBuffer in = { data, len, 0 };
	ZSTD_outBuffer out = { p + sizeof(h), OUT_MAX - 21, 0 };
	size_t left = ZSTD_compressStream2(w->zstd->stream, &out, &in,
					   ZSTD_e_flush);

	if (ZSTD_isError(left))
		return writer_fail(w, AUX_E_NOMEM, "%s: compression: %s",
				   w->path, ZSTD_getErrorName(left));
	if (left)
		return writer_fail(w, AUX_E_LIMIT, "%s: compression of %zu "
				   "bytes into more than %zu", w->path, len,
				   out.size);
	h.size = (uint16_t)(sizeof(h) + pad_blocks(out.dst, out.pos));
	memcpy(p, &h, sizeof(h));
	w->out.used += h.size;
	return 0;
}

/* Room for two records, taken first: after that the lock is not given up until
 * all is in the buffer, so nothing comes between two parts of a record. */
int writer_zstd_drain(struct writer *w)
{
	struct writer_zstd *z = w->zstd;
	size_t at, n;

	writer_room(w, 2 * WRITER_REC_MAX);
	if (w->error)
		return -w->error;
	for (at = 0; at < z->n_in && !w->error; at += n) {
		n = z->n_in - at < PORTION ? z->n_in - at : PORTION;
		put_compressed(w, z->in + at, n);
	}
	z->n_in = 0;
	return -w->error;
}

/* ---- AUX ---- */

/*
 * A context with room for len bytes, from those that are idle: there are as
 * many as threads ever compressed at a time. NULL: out of memory; the payload
 * stays as it is.
 */
static struct writer_zout *take_out(struct writer_zstd *z, size_t len)
{
	struct writer_zout *o;

	pthread_mutex_lock(&z->lock);
	o = z->idle;
	if (o)
		z->idle = o->next;
	pthread_mutex_unlock(&z->lock);
	if (!o)
		o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	if (!o->ctx)
		o->ctx = new_ctx(z->level);
	if (o->cap < len) {
		free(o->data);
		o->data = malloc(len);
		o->cap = o->data ? len : 0;
	}
	if (o->ctx && o->data)
		return o;
	free_out(o);
	return NULL;
}

void writer_zstd_release(struct writer *w, struct writer_zout *o)
{
	struct writer_zstd *z = w->zstd;

	pthread_mutex_lock(&z->lock);
	o->next = z->idle;
	z->idle = o;
	pthread_mutex_unlock(&z->lock);
}

/* One frame in at most max bytes: its length, or 0. */
static size_t make_frame(struct writer_zout *o, const struct iovec *iov,
			 int n_iov, uint64_t len, size_t max)
{
	ZSTD_outBuffer out = { o->data, max, 0 };
	size_t left = 0;
	int i;

	ZSTD_CCtx_reset(o->ctx, ZSTD_reset_session_only);
	ZSTD_CCtx_setPledgedSrcSize(o->ctx, len);
	for (i = 0; i < n_iov; i++) {
		ZSTD_inBuffer in = { iov[i].iov_base, iov[i].iov_len, 0 };

		left = ZSTD_compressStream2(o->ctx, &out, &in,
					    i + 1 < n_iov ? ZSTD_e_continue :
							    ZSTD_e_end);
		if (ZSTD_isError(left) || in.pos < in.size)
			return 0;
	}
	return left ? 0 : out.pos;
}

/* What compression must save is the longer record: two more words, and the
 * padding. A frame that does not fit into that stops early, and the payload
 * goes out as it is. */
struct writer_zout *writer_zstd_aux(struct writer *w, const struct iovec *iov,
				    int n_iov, uint64_t len, struct iovec *out)
{
	const size_t more = sizeof(struct aux_rec_auxtrace_zstd) + 8;
	struct writer_zout *o;
	size_t n;

	if (len <= more)
		return NULL;
	o = take_out(w->zstd, len - more);
	if (!o)
		return NULL;
	n = make_frame(o, iov, n_iov, len, len - more);
	if (!n) {
		writer_zstd_release(w, o);
		return NULL;
	}
	*out = (struct iovec){ o->data, n };
	return o;
}

#else /* !HAVE_ZSTD: refused when the file is opened, with the reason */

int writer_zstd_open(struct writer *w, struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"%s: this build cannot compress: install libzstd-dev "
			"and build again, or record uncompressed", w->path);
}

void writer_zstd_free(struct writer *w)
{
	(void)w;
}

bool writer_zstd_takes(const struct writer *w)
{
	(void)w;
	return false;
}

void writer_zstd_stop(struct writer *w)
{
	(void)w;
}

bool writer_zstd_add(struct writer *w, const struct iovec *part, int n_parts,
		     size_t len)
{
	(void)w, (void)part, (void)n_parts, (void)len;
	return false;
}

bool writer_zstd_pending(const struct writer *w)
{
	(void)w;
	return false;
}

int writer_zstd_drain(struct writer *w)
{
	return -w->error;
}

struct writer_zout *writer_zstd_aux(struct writer *w, const struct iovec *iov,
				    int n_iov, uint64_t len, struct iovec *out)
{
	(void)w, (void)iov, (void)n_iov, (void)len, (void)out;
	return NULL;
}

void writer_zstd_release(struct writer *w, struct writer_zout *z)
{
	(void)w, (void)z;
}

#endif
