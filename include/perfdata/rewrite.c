/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite: a perf.data file in the order in which it is written, front to back.
 *
 * header | ids | attrs | data | table of features | features. The header is
 * written last, over zeros, so a file without its end is no perf.data. Only the
 * index of AUXTRACE records is kept in memory: recordings are larger than that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"
#include "common/outfile.h"

#include "perfdata/impl.h"

#define REWRITE_AUXTRACE 48	/* bytes of the record without its payload */

struct rewrite {
	int fd;
	struct outfile file;	/* not open: a temporary file */
	const char *path;	/* what it will be called */
	bool swap;
	bool started;		/* the data have begun */
	bool temporary;		/* see rewrite_open_temp */
	struct aux_file_header h;
	struct event_list events;
	uint64_t *index;	/* places of AUXTRACE records */
	size_t n_index, cap_index;
	struct aux_bytes features[AUX_FEAT_BITS];	/* data NULL: not set */
	struct rewrite_bytes desc;
	struct rewrite_bytes build_ids;	/* collected by rewrite_copy */
	uint64_t pos;		/* in the file, of the next byte */
	uint8_t *buf;
	size_t used;
	int error;		/* the first AUX_E_*, 0: none */
	struct aux_diag diag;
};

/* Of a new file, as of all recordings: they hold code and memory of
 * programs. */
#define MODE 0600

#define BUF_SIZE ((size_t)1 << 20)

/* The first error stays: those after it are often its consequence. */
void rewrite_fail(struct rewrite *w, int code, const char *fmt, ...)
{
	va_list ap;

	if (w->error)
		return;
	w->error = code;
	va_start(ap, fmt);
	diag_vset(&w->diag, code, AUX_NO_OFFSET, fmt, ap);
	va_end(ap);
}

int rewrite_failed(const struct rewrite *w)
{
	return -w->error;
}

static void fail_write(struct rewrite *w, const char *why)
{
	if (w->temporary)
		rewrite_fail(w, AUX_E_IO, "cannot write a temporary file (set "
			     "TMPDIR to a larger disk): %s", why);
	else
		rewrite_fail(w, AUX_E_IO, "%s: cannot write: %s; "
			     "nothing was left there", w->path, why);
}

static void write_all(struct rewrite *w, const uint8_t *p, size_t n)
{
	while (n && !w->error) {
		ssize_t done = write(w->fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			fail_write(w, done < 0 ? strerror(errno) :
						 "no progress");
			return;
		}
		p += done;
		n -= (size_t)done;
	}
}

/* Into the buffer; what is larger goes out at once, in order. */
static void rewrite_put(struct rewrite *w, const void *data, size_t len)
{
	if (!len || w->error)
		return;
	w->pos += len;
	if (len > BUF_SIZE - w->used) {
		write_all(w, w->buf, w->used);
		w->used = 0;
	}
	if (len >= BUF_SIZE) {
		write_all(w, data, len);
		return;
	}
	memcpy(w->buf + w->used, data, len);
	w->used += len;
}

/* At the start of the file. */
static void rewrite_put_head(struct rewrite *w, const void *data, size_t len)
{
	write_all(w, w->buf, w->used);
	w->used = 0;
	if (w->error)
		return;
	if (pwrite(w->fd, data, len, 0) == (ssize_t)len)
		return;
	if (w->temporary)
		fail_write(w, strerror(errno));
	else
		rewrite_fail(w, AUX_E_IO, "%s: cannot write its header: %s",
			     w->path, strerror(errno));
}

int rewrite_refuse_input(const char *path, const char *input,
			 struct aux_diag *diag)
{
	struct stat in, out;

	if (stat(path, &out) || stat(input, &in) || in.st_dev != out.st_dev ||
	    in.st_ino != out.st_ino)
		return 0;
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"%s is the input: give another name with -o", path);
}

/* fd is -1 until there is a file, so that discard is right at any time. */
static struct rewrite *new_rewrite(bool swapped)
{
	struct rewrite *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->fd = -1;
	w->file = OUTFILE_NONE;
	w->swap = swapped;
	w->buf = malloc(BUF_SIZE);
	if (w->buf)
		return w;
	free(w);
	return NULL;
}

int rewrite_open(struct rewrite **out, const char *path, const char *input,
		 bool swapped, struct aux_diag *diag)
{
	struct rewrite *w = new_rewrite(swapped);
	int rc = 0;

	*out = NULL;
	if (!w)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	if (input)
		rc = rewrite_refuse_input(path, input, diag);
	if (rc == 0 && !strcmp(path, "-"))
		rc = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			      "a recording cannot be written to standard "
			      "output: give a file with -o");
	if (rc == 0)
		rc = outfile_open(&w->file, path, MODE, OUTFILE_REGULAR, diag);
	w->fd = w->file.fd;
	w->path = w->file.path;
	if (rc < 0)
		rewrite_discard(w);
	else
		*out = w;
	return rc;
}

int rewrite_open_temp(struct rewrite **out, struct aux_diag *diag)
{
	struct rewrite *w = new_rewrite(false);

	*out = NULL;
	if (!w)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	w->temporary = true;
	w->fd = spool_open();
	if (w->fd < 0) {
		rewrite_discard(w);
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot make a temporary file");
	}
	*out = w;
	return 0;
}

void rewrite_discard(struct rewrite *w)
{
	if (!w)
		return;
	outfile_discard(&w->file);
	if (w->temporary && w->fd >= 0)
		close(w->fd);
	event_list_fini(&w->events);
	free(w->index);
	free(w->desc.data);
	free(w->build_ids.data);
	free(w->buf);
	free(w);
}

#define HEADER 8	/* of a record */

static const uint8_t zeros[AUX_OWN_RECORD_MIN];

static void put_u16(uint8_t *p, uint16_t v, bool swap)
{
	if (swap)
		v = __builtin_bswap16(v);
	memcpy(p, &v, sizeof(v));
}

/* ---- attrs ---- */

/* file_size: how much of the attr the input had; the largest one sets the size
 * of all. */
void rewrite_attr(struct rewrite *w, const struct aux_attr *a)
{
	if (event_list_add(&w->events, &a->attr, a->file_size, a->name, a->ids,
			   a->n_ids))
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
}

/* EVENT_DESC says what the events are called: it is needed when one has a
 * name. */
static void make_event_desc(struct rewrite *w)
{
	bool named = false;

	for (size_t i = 0; i < w->events.n; i++)
		named |= w->events.v[i].name != NULL;
	if (!named || rewrite_has_feature(w, AUX_FEAT_EVENT_DESC))
		return;
	w->desc.swap = w->swap;
	event_list_put_desc(&w->events, &w->desc);
	if (w->desc.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	rewrite_feature(w, AUX_FEAT_EVENT_DESC, w->desc.data, w->desc.len);
}

/* Before the data, as perf does it; after the features in a temporary file,
 * whose ids are known last. The header names the place, so a reader does not
 * care. */
static void put_events(struct rewrite *w)
{
	struct rewrite_bytes b = { .swap = w->swap };

	event_list_put(&w->events, w->pos, &b, &w->h);
	if (b.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	rewrite_put(w, b.data, b.len);
	free(b.data);
}

/* The header, still zeros, and the events, unless these come last. */
static void start(struct rewrite *w)
{
	static const uint8_t header[sizeof(w->h)];

	w->started = true;
	rewrite_put(w, header, sizeof(header));
	if (!w->temporary)
		put_events(w);
	w->h.data.offset = w->pos;
}

/* ---- records ---- */

/* Also pieces of a record, as the importers do it: the file is a stream of
 * bytes here. */
void rewrite_record(struct rewrite *w, const void *rec, size_t len)
{
	if (!w->started)
		start(w);
	rewrite_put(w, rec, len);
}

/* The 8 bytes that a record begins with. */
static void make_header(const struct rewrite *w, uint8_t *p, uint32_t type,
			size_t size)
{
	rewrite_put_u32(p, type, w->swap);
	put_u16(p + 4, 0, w->swap);
	put_u16(p + 6, (uint16_t)size, w->swap);
}

/* In the form of an EVENT_TYPE record, which perf ignores: see
 * <aux/extension.h>. */
void rewrite_own(struct rewrite *w, uint16_t kind, const void *payload,
		 size_t len)
{
	uint8_t head[HEADER + sizeof(struct aux_own_record)];
	size_t pad = own_record_pad(len);

	if (len > REWRITE_OWN_MAX) {
		rewrite_fail(w, AUX_E_LIMIT, "a record would be too long");
		return;
	}
	make_header(w, head, AUX_RECORD_EVENT_TYPE, sizeof(head) + len + pad);
	rewrite_put_u64(head + 8, AUX_OWN_MAGIC, w->swap);
	put_u16(head + 16, kind, w->swap);
	put_u16(head + 18, 1, w->swap);
	rewrite_put_u32(head + 20, (uint32_t)len, w->swap);
	rewrite_record(w, head, sizeof(head));
	rewrite_put(w, payload, len);
	rewrite_put(w, zeros, pad);
}

void rewrite_own_bytes(struct rewrite *w, uint16_t kind,
		       const struct rewrite_bytes *payload)
{
	if (payload->oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	else
		rewrite_own(w, kind, payload->data, payload->len);
}

/* For the record that begins at pos. */
static bool add_index(struct rewrite *w)
{
	if (array_grow(&w->index, w->n_index, &w->cap_index,
		       sizeof(*w->index))) {
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
		return false;
	}
	w->index[w->n_index++] = w->pos;
	return true;
}

void rewrite_auxtrace(struct rewrite *w, const struct aux_rec_auxtrace *h,
		      const void *payload, uint64_t len)
{
	uint8_t rec[REWRITE_AUXTRACE];
	uint64_t pad = -len & 7;

	if (!w->started)
		start(w);
	if (!add_index(w))
		return;
	make_header(w, rec, AUX_RECORD_AUXTRACE, sizeof(rec));
	rewrite_put_u64(rec + 8, len + pad, w->swap);
	rewrite_put_u64(rec + 16, h->offset, w->swap);
	rewrite_put_u64(rec + 24, h->reference, w->swap);
	rewrite_put_u32(rec + 32, h->idx, w->swap);
	rewrite_put_u32(rec + 36, h->tid, w->swap);
	rewrite_put_u32(rec + 40, h->cpu, w->swap);
	rewrite_put_u32(rec + 44, h->reserved, w->swap);
	rewrite_put(w, rec, sizeof(rec));
	rewrite_put(w, payload, len);
	rewrite_put(w, zeros, pad);
}

/* ---- features and the end ---- */

void rewrite_feature(struct rewrite *w, unsigned bit, const void *data,
		     size_t len)
{
	if (bit < AUX_FEAT_BITS)
		w->features[bit] = (struct aux_bytes){ data, data ? len : 0 };
}

bool rewrite_has_feature(const struct rewrite *w, unsigned bit)
{
	return bit < AUX_FEAT_BITS && w->features[bit].data;
}

/* AUX_FEAT_AUXTRACE: the places of all AUXTRACE records. */
static void make_index(struct rewrite *w, struct rewrite_bytes *b)
{
	rewrite_bytes_u64(b, w->n_index);
	for (size_t i = 0; i < w->n_index; i++) {
		rewrite_bytes_u64(b, w->index[i]);
		rewrite_bytes_u64(b, REWRITE_AUXTRACE);
	}
	rewrite_feature(w, AUX_FEAT_AUXTRACE, b->data, b->len);
}

/* The table first, then the sections in the order of their bits, as readers
 * expect. */
static void put_features(struct rewrite *w)
{
	struct rewrite_bytes table = { .swap = w->swap };

	section_put_table(w->features, w->pos, &table, w->h.features);
	if (table.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	rewrite_put(w, table.data, table.len);
	for (unsigned i = 0; i < AUX_FEAT_BITS; i++)
		rewrite_put(w, w->features[i].data, w->features[i].len);
	free(table.data);
}

static void put_header(struct rewrite *w)
{
	uint8_t image[sizeof(w->h)];

	header_image(&w->h, w->swap, image);
	rewrite_put_head(w, image, sizeof(image));
}

/* What follows the data. After this all of the file is with the kernel. */
static void finish(struct rewrite *w)
{
	struct rewrite_bytes index = { .swap = w->swap };

	if (!w->started)
		start(w);
	w->h.data.size = w->pos - w->h.data.offset;
	if (!w->temporary)
		make_index(w, &index);
	make_event_desc(w);
	if (index.oom || w->desc.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	put_features(w);
	if (w->temporary)
		put_events(w);
	put_header(w);
	free(index.data);
}

int rewrite_close(struct rewrite *w, struct aux_diag *diag)
{
	int rc;

	finish(w);
	rc = -w->error;
	if (rc < 0 && diag)
		*diag = w->diag;
	if (rc == 0)
		rc = outfile_commit(&w->file, diag);
	rewrite_discard(w);
	return rc;
}

int rewrite_reader(struct rewrite *w, struct aux_reader **r, const char *name,
		   struct aux_diag *diag)
{
	int rc;

	*r = NULL;
	finish(w);
	rc = -w->error;
	if (rc < 0 && diag)
		*diag = w->diag;
	if (rc == 0 && lseek(w->fd, 0, SEEK_SET) < 0)
		rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
			      "cannot read a temporary file: %s",
			      strerror(errno));
	if (rc == 0)
		rc = reader_open_fd(r, w->fd, name, diag);
	rewrite_discard(w);
	return rc;
}

/*
 * rewrite: the records and features of one file into another.
 *
 * A pipe becomes a file: what it says in records goes into sections. Compressed
 * records and trace come out as what was in them, since not every reader can
 * unpack them.
 */

#define PROGRESS_RECORDS 4096

void rewrite_attrs_of(struct rewrite *w, const struct aux_reader *r)
{
	const struct aux_attr *a;

	for (size_t i = 0; (a = aux_reader_attr(r, i)); i++)
		rewrite_attr(w, a);
}

bool rewrite_is_form(const struct aux_reader *r, const struct aux_event *ev)
{
	bool pipe = aux_reader_info(r)->pipe;

	switch (ev->type) {
	case AUX_RECORD_COMPRESSED:
	case AUX_RECORD_COMPRESSED2:
	case AUX_RECORD_TRACING_DATA:
		return true;
	case AUX_RECORD_HEADER_ATTR:
	case AUX_RECORD_EVENT_UPDATE:
	case AUX_RECORD_HEADER_FEATURE:
	case AUX_RECORD_BUILD_ID:
		return pipe;
	case AUX_RECORD_EVENT_TYPE:
		return ev->own.kind == AUX_OWN_SOURCE;
	default:
		return false;
	}
}

/* Sections that hold only for the file that they are in. */
static bool is_of_form(unsigned bit)
{
	return bit == AUX_FEAT_AUXTRACE || bit == AUX_FEAT_COMPRESSED ||
	       bit == AUX_FEAT_DIR_FORMAT || bit == AUX_FEAT_AUXKIT_SOURCE;
}

void rewrite_features_of(struct rewrite *w, const struct aux_reader *r)
{
	struct aux_bytes b;

	for (unsigned bit = 0; bit < AUX_FEAT_BITS; bit++) {
		if (!is_of_form(bit) && aux_reader_feature(r, bit, &b, NULL) > 0)
			rewrite_feature(w, bit, b.data, b.len);
	}
}

struct aux_bytes rewrite_source_of(struct aux_reader *r)
{
	struct aux_bytes text = { 0 }, s;
	bool swapped = aux_reader_info(r)->swapped;
	struct aux_event ev;

	if (aux_reader_feature(r, AUX_FEAT_AUXKIT_SOURCE, &s, NULL) > 0 &&
	    s.len >= sizeof(struct aux_feat_text)) {
		uint32_t len;

		memcpy(&len, s.data + 4, sizeof(len));
		len = swapped ? __builtin_bswap32(len) : len;
		if (len <= s.len - 8)
			return (struct aux_bytes){ s.data + 8, len };
	}
	aux_reader_rewind(r);
	while (aux_reader_next(r, &ev, NULL) > 0) {
		if (ev.type == AUX_RECORD_EVENT_TYPE &&
		    ev.own.kind == AUX_OWN_SOURCE)
			text = ev.own.source;
	}
	return text;
}

/*
 * The text of the input and the caller's lines as one record at the front, so
 * that a file which was made of others says where it came from. A section of
 * text is padded with NULs, which go. Text that does not fit into a record is
 * left out as a whole.
 */
static void copy_source(struct rewrite *w, struct aux_reader *r,
			const char *more)
{
	struct aux_bytes text = rewrite_source_of(r);
	size_t len = text.len, n = more ? strlen(more) : 0;
	struct rewrite_bytes b = { 0 };

	while (len && !text.data[len - 1])
		len--;
	rewrite_bytes_put(&b, text.data, len);
	if (len && text.data[len - 1] != '\n')
		rewrite_bytes_put(&b, "\n", 1);
	rewrite_bytes_put(&b, more, n);
	if (b.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	else if (b.len && b.len <= REWRITE_OWN_MAX)
		rewrite_own(w, AUX_OWN_SOURCE, b.data, b.len);
	free(b.data);
}

/* What a pipe has among its records and a file in sections. */
static void keep_as_section(struct rewrite *w, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	uint32_t size;

	if (ev->type == AUX_RECORD_TRACING_DATA && ev->raw.len >= 12) {
		memcpy(&size, ev->raw.data + 8, sizeof(size));
		size = aux_reader_info(r)->swapped ? __builtin_bswap32(size) :
						     size;
		rewrite_feature(w, AUX_FEAT_TRACING_DATA,
				ev->raw.data + ev->raw.len, size);
	} else if (ev->type == AUX_RECORD_BUILD_ID) {
		rewrite_bytes_put(&w->build_ids, ev->raw.data, ev->raw.len);
	}
}

/* Where the file ends inside the trace, it is shortened to a multiple of 8 and
 * not padded: zeros are padding to some trace units only. */
static void copy_trace(struct rewrite *w, const struct aux_event *ev)
{
	uint64_t len = ev->auxtrace.payload.len;

	if (ev->auxtrace.clipped)
		len &= ~UINT64_C(7);
	rewrite_auxtrace(w, &ev->auxtrace.h, ev->auxtrace.payload.data, len);
}

/* Records as they came: in the byte order of the input, which is that of the
 * output. */
static void copy_record(struct rewrite *w, struct aux_reader *r,
			const struct rewrite_filter *f,
			const struct aux_event *ev)
{
	if (rewrite_is_form(r, ev))
		keep_as_section(w, r, ev);
	else if (ev->type == AUX_RECORD_AUXTRACE && f->no_trace)
		return;
	else if (ev->type == AUX_RECORD_AUXTRACE)
		copy_trace(w, ev);
	else if (!f->keep || f->keep(f->priv, ev))
		rewrite_record(w, ev->raw.data, ev->raw.len);
}

/* An aux_own_loss field by field, as the byte order may be the other one: any
 * stream (-1), an unknown number of bytes (0) at an unknown offset (-1). */
void rewrite_loss(struct rewrite *w, uint64_t from_ns)
{
	struct rewrite_bytes b = { .swap = w->swap };

	rewrite_bytes_u32(&b, UINT32_MAX);
	rewrite_bytes_u32(&b, AUX_LEDGER_UNREAD);
	rewrite_bytes_u64(&b, UINT64_MAX);
	rewrite_bytes_u64(&b, 0);
	rewrite_bytes_u64(&b, from_ns);
	rewrite_bytes_u64(&b, 0);
	rewrite_bytes_u32(&b, UINT32_MAX);
	rewrite_bytes_u32(&b, UINT32_MAX);
	if (b.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	else
		rewrite_own(w, AUX_OWN_LOSS, b.data, b.len);
	free(b.data);
}

/*
 * Damage ends the copy and is no error: what came before is worth having, and
 * the loss says that there was more. Out of memory is an error: the rest is
 * there.
 */
int rewrite_copy(struct rewrite *w, struct aux_reader *r,
		 const struct rewrite_filter *f)
{
	const struct aux_file_info *info = aux_reader_info(r);
	struct aux_event ev;
	uint64_t n = 0, last_ns = 0;
	int rc;

	copy_source(w, r, f->source);
	aux_reader_rewind(r);
	while ((rc = aux_reader_next(r, &ev, NULL)) > 0 && !w->error) {
		copy_record(w, r, f, &ev);
		if (ev.id.present & PERF_SAMPLE_TIME && ev.id.time > last_ns)
			last_ns = ev.id.time;
		if (f->progress && n++ % PROGRESS_RECORDS == 0)
			f->progress(f->priv, ev.offset, info->size);
	}
	if (rc == -AUX_E_NOMEM)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	else if (rc < 0 || info->unfinished)
		rewrite_loss(w, last_ns);
	rewrite_features_of(w, r);
	if (w->build_ids.len)
		rewrite_feature(w, AUX_FEAT_BUILD_ID, w->build_ids.data,
				w->build_ids.len);
	return -w->error;
}
