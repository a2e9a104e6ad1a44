/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records inside COMPRESSED and COMPRESSED2 records (perf record -z).
 *
 * All of a file's compressed records are one zstd stream, and a record may span
 * several of them. Invariant: bytes of which a record was handed out never
 * move; what was decompressed once is kept, so a second pass gives equal
 * pointers. The first 4 MB are in memory.
 *
 * What follows, and AUXTRACE payloads, each one frame, go to a spool file (spool.c),
 * so what is kept needs no memory.
 */
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "common/array.h"

#include "perfdata/impl.h"

#ifdef HAVE_ZSTD

#define CHUNK_SIZE (1 << 20)
#define CHUNK_ROOM (1 << 17)	/* start a new chunk when less is left */
#define MAX_MEMORY (4 << 20)	/* the other chunks are in the spool */
/* More output than this for the input is an attack, not a recording. */
#define MAX_RATIO 1000
#define MAX_SLACK (UINT64_C(64) << 20)

#define UNPACK_BUFFER (1 << 17)

/* A perf 6.16 writer's compressed output for one record. */
#define MAX_SUB_DATA 65519

static int fail_nomem(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			"out of memory for decompressed records");
}

static int fail_write(uint64_t offset, struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_IO, offset,
			"cannot write what is unpacked to a temporary file: %m "
			"(set TMPDIR to a larger disk)");
}

static uint8_t *get_buffer(struct spool *s)
{
	if (!s->buf)
		s->buf = malloc(UNPACK_BUFFER);
	return s->buf;
}

/* Appends n bytes, for which there is room. */
static int append(struct aux_reader *r, struct inflate_chunk *c, const uint8_t *p,
		  size_t n, struct aux_diag *diag)
{
	if (!c->spooled)
		memcpy(c->data + c->len, p, n);
	else if (spool_write(r->spool.fd, p, n, c->at + c->len) < 0)
		return fail_write(r->inflate.offset, diag);
	c->len += n;
	return 0;
}

/* An empty chunk. One that is freed before the end of the pass stays in memory. */
static int make_chunk(struct aux_reader *r, struct inflate_chunk *c, size_t cap,
		      struct aux_diag *diag)
{
	*c = (struct inflate_chunk){ .cap = cap };
	c->spooled = !r->salvage && r->inflate.in_memory + cap > MAX_MEMORY;
	if (!c->spooled) {
		c->data = malloc(cap);
		if (!c->data)
			return fail_nomem(diag);
		r->inflate.in_memory += cap;
		return 0;
	}
	if (!get_buffer(&r->spool))
		return fail_nomem(diag);
	c->data = (uint8_t *)(uintptr_t)spool_reserve(&r->spool, cap, &c->at, diag);
	return c->data ? 0 : -AUX_E_IO;
}

static void free_chunk(struct inflate *z, struct inflate_chunk *c)
{
	if (!c->spooled && c->data) {
		free(c->data);
		z->in_memory -= c->cap;
	}
	c->data = NULL;
}

/* A new chunk, which begins with the part of a record that the last one ended
 * with: records are handed out whole. */
static int add_chunk(struct aux_reader *r, size_t room, struct aux_diag *diag)
{
	struct inflate *z = &r->inflate;
	size_t keep = z->n_chunks ? z->chunks[z->chunk].len - z->pos : 0;
	struct inflate_chunk c;
	int rc;

	if (array_grow(&z->chunks, z->n_chunks, &z->cap_chunks,
		       sizeof(*z->chunks)))
		return fail_nomem(diag);
	rc = make_chunk(r, &c, keep + room, diag);
	if (rc < 0)
		return rc;
	z->chunks[z->n_chunks] = c;
	if (keep)
		rc = append(r, &z->chunks[z->n_chunks],
			    z->chunks[z->chunk].data + z->pos, keep, diag);
	z->chunk = z->n_chunks++;
	if (rc < 0)
		return rc;
	z->pos = 0;
	z->end = keep;
	return 0;
}

/* Nothing of the last chunk was handed out yet, so it may move. */
static int double_chunk(struct aux_reader *r, struct aux_diag *diag)
{
	struct inflate_chunk *c = &r->inflate.chunks[r->inflate.n_chunks - 1];
	struct inflate_chunk old = *c;
	int rc;

	rc = make_chunk(r, c, 2 * old.cap, diag);
	if (rc < 0) {
		*c = old;
		return rc;
	}
	rc = append(r, c, old.data, old.len, diag);
	free_chunk(&r->inflate, &old);
	return rc;
}

/*
 * CHUNK_ROOM free bytes in the last chunk. Earlier chunks have records that
 * were handed out and stay where they are; one that began in this call (fresh)
 * has none, so it can grow.
 */
static int make_room(struct aux_reader *r, bool *fresh, struct aux_diag *diag)
{
	struct inflate *z = &r->inflate;
	const struct inflate_chunk *c;

	if (z->n_chunks) {
		c = &z->chunks[z->n_chunks - 1];
		if (c->cap - c->len >= CHUNK_ROOM)
			return 0;
		if (*fresh)
			return double_chunk(r, diag);
	}
	*fresh = true;
	return add_chunk(r, CHUNK_SIZE, diag);
}

/* Runs the whole input through the stream into the last chunk. */
static int decompress(struct aux_reader *r, const uint8_t *data, size_t len,
		      bool *fresh, struct aux_diag *diag)
{
	struct inflate *z = &r->inflate;
	ZSTD_inBuffer in = { data, len, 0 };
	ZSTD_outBuffer out;
	struct inflate_chunk *c;
	size_t ret;
	int rc;

	z->n_in += len;
	do {
		rc = make_room(r, fresh, diag);
		if (rc < 0)
			return rc;
		c = &z->chunks[z->n_chunks - 1];
		if (c->spooled)
			out = (ZSTD_outBuffer){ r->spool.buf, UNPACK_BUFFER, 0 };
		else
			out = (ZSTD_outBuffer){ c->data + c->len, c->cap - c->len, 0 };
		ret = ZSTD_decompressStream(z->stream, &out, &in);
		if (ZSTD_isError(ret))
			return diag_set(diag, AUX_E_FORMAT, z->offset,
					"a compressed record does not "
					"decompress: %s",
					ZSTD_getErrorName(ret));
		z->n_out += out.pos;
		if (!c->spooled)
			c->len += out.pos;
		else if ((rc = append(r, c, out.dst, out.pos, diag)) < 0)
			return rc;
		if (z->n_out > z->n_in * MAX_RATIO + MAX_SLACK)
			return diag_set(diag, AUX_E_LIMIT, z->offset,
					"compressed records grow more than "
					"%d fold", MAX_RATIO);
	} while (in.pos < in.size || out.pos == out.size);
	z->end = c->len;
	return 0;
}

/* COMPRESSED2 headers lead from one to the next exactly to the end. */
static bool chain_fits(const struct aux_reader *r, const uint8_t *p, size_t len)
{
	struct aux_event ev = { 0 };

	while (len) {
		if (!reader_header(r, p, len, &ev) || ev.size < 16 ||
		    ev.type != AUX_RECORD_COMPRESSED2 || ev.size > len)
			return false;
		p += ev.size;
		len -= ev.size;
	}
	return true;
}

/*
 * perf 6.16 overwrites the first of several records with their total: the
 * first is as long as can be, the others keep their own headers.
 */
static int feed_overflown(struct aux_reader *r, const uint8_t *p, size_t len,
			  bool *fresh, struct aux_diag *diag)
{
	struct aux_event ev = { 0 };
	size_t n = len > MAX_SUB_DATA ? MAX_SUB_DATA : len;
	int ret;

	if (!chain_fits(r, p + n, len - n))
		return diag_set(diag, AUX_E_FORMAT, r->inflate.offset,
				"a COMPRESSED2 record of %zu bytes does not "
				"consist of such records", len);
	ret = decompress(r, p, n, fresh, diag);
	p += n;
	len -= n;
	while (!ret && len) {
		reader_header(r, p, len, &ev);
		ret = decompress(r, p + 16, ev.size - 16, fresh, diag);
		p += ev.size;
		len -= ev.size;
	}
	return ret;
}

/*
 * COMPRESSED holds zstd data up to its end; COMPRESSED2 (perf 6.16) says how
 * much of it is data, because that record is padded to 8 bytes.
 */
static int feed_new(struct aux_reader *r, const struct aux_event *ev,
		    struct aux_diag *diag)
{
	struct cursor c = reader_cursor(r, ev->raw.data, ev->raw.len);
	bool fresh = false;
	uint64_t n;

	if (!r->inflate.stream)
		r->inflate.stream = ZSTD_createDStream();
	if (!r->inflate.stream)
		return fail_nomem(diag);
	if (r->inflate.owner != r->seg)	/* each file has a stream of its own */
		ZSTD_DCtx_reset(r->inflate.stream, ZSTD_reset_session_only);
	r->inflate.owner = r->seg;
	cursor_bytes(&c, 8);
	n = cursor_left(&c);
	if (ev->type == AUX_RECORD_COMPRESSED2) {
		n = cursor_u64(&c);
		if (n > cursor_left(&c))
			c.bad = true;
	}
	if (c.bad)
		return diag_set(diag, AUX_E_FORMAT, ev->offset,
				"a COMPRESSED2 record is shorter than its data "
				"size");
	if (ev->type == AUX_RECORD_COMPRESSED2)
		return feed_overflown(r, c.p, n, &fresh, diag);
	return decompress(r, c.p, n, &fresh, diag);
}

/* For the next pass, which does not decompress again. */
static int remember(struct inflate *z)
{
	if (array_grow(&z->recs, z->n_recs, &z->cap_recs, sizeof(*z->recs)))
		return -1;
	z->recs[z->n_recs++] = (struct inflate_rec){ z->chunk, z->end };
	return 0;
}

/* There is one pass only: what lies before the present chunk is not read
 * again. */
static void free_passed(struct inflate *z)
{
	for (; z->n_freed < z->chunk; z->n_freed++)
		free_chunk(z, &z->chunks[z->n_freed]);
}

/* The first error stays: a stream cannot be continued after a gap. */
int inflate_feed(struct aux_reader *r, const struct aux_event *ev,
		 struct aux_diag *diag)
{
	struct inflate *z = &r->inflate;
	const struct inflate_rec *rec;

	z->offset = ev->offset;
	if (r->salvage)
		free_passed(z);
	if (z->next_rec == z->n_recs) {
		if (!z->broken.code) {
			if (!feed_new(r, ev, &z->broken) && remember(z))
				fail_nomem(&z->broken);
		}
		if (z->broken.code) {
			*diag = z->broken;
			return -z->broken.code;
		}
	}
	rec = &z->recs[z->next_rec++];
	if (rec->chunk != z->chunk) {
		z->chunk = rec->chunk;
		z->pos = 0;
	}
	z->end = rec->end;
	return 0;
}

/*
 * 0 also for a record that is not whole yet: its other part is in the next
 * compressed record. ev->offset is the compressed record's, the only place that
 * a message can name.
 */
int inflate_next(struct aux_reader *r, struct aux_event *ev,
		 struct aux_diag *diag)
{
	struct inflate *z = &r->inflate;
	const uint8_t *p;
	size_t left = z->end - z->pos;

	if (left < 8)
		return 0;
	p = z->chunks[z->chunk].data + z->pos;
	reader_header(r, p, left, ev);
	/* what has a payload outside its size cannot be in a stream */
	if (ev->size < 8 || ev->size > UINT16_MAX ||
	    ev->type == AUX_RECORD_AUXTRACE ||
	    ev->type == AUX_RECORD_AUXKIT_AUXTRACE_ZSTD ||
	    ev->type == AUX_RECORD_TRACING_DATA)
		return diag_set(diag, AUX_E_FORMAT, z->offset,
				"a compressed record holds a record of type %u, "
				"size %u", ev->type, ev->size);
	if (ev->size > left)
		return 0;
	ev->offset = z->offset;
	ev->raw = (struct aux_bytes){ p, ev->size };
	z->pos += ev->size;
	return 1;
}

void inflate_leave(struct inflate *z)
{
	z->pos = z->end;
}

void inflate_rewind(struct inflate *z)
{
	z->next_rec = 0;
	z->chunk = 0;
	z->pos = 0;
	z->end = 0;
}

void inflate_fini(struct inflate *z)
{
	ZSTD_freeDStream(z->stream);
	for (size_t i = 0; i < z->n_chunks; i++)
		free_chunk(z, &z->chunks[i]);
	free(z->chunks);
	free(z->recs);
}

/* ---- AUXTRACE ---- */

/* More than any AUX ring. */
#define MAX_RAW (UINT64_C(4) << 30)

static const struct unpacked *find_unpacked(const struct spool *s,
					    uint64_t offset)
{
	size_t lo = 0, n = s->n_done;

	while (n) {
		size_t half = n / 2;

		if (s->done[lo + half].offset < offset) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo < s->n_done && s->done[lo].offset == offset ? &s->done[lo] :
								NULL;
}

/* Records are met in the order of the file; a pass may skip none. */
static struct unpacked *add_unpacked(struct spool *s, uint64_t offset)
{
	struct unpacked *v;

	if (array_grow(&s->done, s->n_done, &s->cap_done, sizeof(*s->done)))
		return NULL;
	v = &s->done[s->n_done++];
	*v = (struct unpacked){ .offset = offset };
	return v;
}

/* What cannot be true, before anything is made of it. */
static const char *check_frame(struct aux_bytes frame, uint64_t raw_size)
{
	unsigned long long said =
		ZSTD_getFrameContentSize(frame.data, frame.len);

	if (said == ZSTD_CONTENTSIZE_ERROR)
		return "it is no zstd frame";
	if (said != ZSTD_CONTENTSIZE_UNKNOWN && said != raw_size)
		return "its frame holds another number of bytes";
	if (raw_size > MAX_RAW || raw_size > frame.len * MAX_RATIO + MAX_SLACK)
		return "it would grow more than trace can";
	return NULL;
}

/* As much of the frame as there is: u->len and u->damage. */
static int unpack_frame(struct spool *s, struct aux_bytes frame,
			uint64_t raw_size, uint64_t at, struct unpacked *u)
{
	ZSTD_inBuffer in = { frame.data, frame.len, 0 };
	size_t ret = 1;

	ZSTD_initDStream(s->stream);
	while (ret && !u->damage) {
		ZSTD_outBuffer out = { s->buf, UNPACK_BUFFER, 0 };

		ret = ZSTD_decompressStream(s->stream, &out, &in);
		if (out.pos > raw_size - u->len) {
			out.pos = raw_size - u->len;
			u->damage = "its frame holds more than it says";
		}
		if (spool_write(s->fd, s->buf, out.pos, at + u->len) < 0)
			return -AUX_E_IO;
		u->len += out.pos;
		if (ZSTD_isError(ret))
			u->damage = ZSTD_getErrorName(ret);
		else if (ret && in.pos == in.size && !out.pos)
			u->damage = "its frame is cut";
	}
	if (!u->damage && u->len != raw_size)
		u->damage = "its frame holds less than it says";
	return 0;
}

/*
 * Unpacks into the spool; ev->auxtrace.h.size is the size without compression.
 * Damage is no error: u keeps it, and all bytes before it are trace. An error
 * leaves an entry in s->done that unpack_auxtrace takes back.
 */
static int unpack_new(struct aux_reader *r, struct aux_bytes frame,
		      const struct aux_event *ev, struct aux_diag *diag)
{
	struct spool *s = &r->spool;
	uint64_t raw_size = ev->auxtrace.h.size, at;
	struct unpacked *u = add_unpacked(s, ev->offset);

	if (!s->stream)
		s->stream = ZSTD_createDStream();
	if (!u || !s->stream || !get_buffer(s))
		return diag_set(diag, AUX_E_NOMEM, ev->offset, "out of memory");
	u->damage = check_frame(frame, raw_size);
	if (u->damage || !raw_size)
		return 0;
	u->data = spool_reserve(s, raw_size, &at, diag);
	if (!u->data)
		return -AUX_E_IO;
	if (unpack_frame(s, frame, raw_size, at, u) < 0)
		return fail_write(ev->offset, diag);
	return 0;
}

/* Each frame is unpacked once and found again by the offset of its record. */
int unpack_auxtrace(struct aux_reader *r, struct aux_bytes frame,
		    struct aux_event *ev, struct aux_diag *diag)
{
	const struct unpacked *u = find_unpacked(&r->spool, ev->offset);
	int rc;

	if (!u) {
		rc = unpack_new(r, frame, ev, diag);
		if (rc < 0) {
			if (find_unpacked(&r->spool, ev->offset))
				r->spool.n_done--;
			return rc;
		}
		u = &r->spool.done[r->spool.n_done - 1];
	}
	ev->auxtrace.payload = (struct aux_bytes){ u->data, u->len };
	ev->auxtrace.clipped |= u->damage != NULL;
	ev->auxtrace.damage = u->damage;
	return 0;
}

void unpack_fini(struct spool *s)
{
	ZSTD_freeDStream(s->stream);
	spool_fini(s);
}

#else /* !HAVE_ZSTD: refused at the first compressed record, with the reason */

int inflate_feed(struct aux_reader *r, const struct aux_event *ev,
		 struct aux_diag *diag)
{
	diag_set(&r->inflate.broken, AUX_E_UNSUPPORTED, ev->offset,
		 "a zstd-compressed record, but this build has no "
		 "libzstd: install libzstd-dev and build again");
	*diag = r->inflate.broken;
	return -AUX_E_UNSUPPORTED;
}

int inflate_next(struct aux_reader *r, struct aux_event *ev,
		 struct aux_diag *diag)
{
	(void)r, (void)ev, (void)diag;
	return 0;
}

int unpack_auxtrace(struct aux_reader *r, struct aux_bytes frame,
		    struct aux_event *ev, struct aux_diag *diag)
{
	(void)r, (void)frame;
	return diag_set(diag, AUX_E_UNSUPPORTED, ev->offset,
			"zstd-compressed trace, but this build has no libzstd: "
			"install libzstd-dev and build again");
}

void unpack_fini(struct spool *s)
{
	spool_fini(s);
}

void inflate_leave(struct inflate *z)
{
	(void)z;
}

void inflate_rewind(struct inflate *z)
{
	(void)z;
}

void inflate_fini(struct inflate *z)
{
	(void)z;
}

#endif
