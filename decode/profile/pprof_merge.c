/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: merges profiles of pprof.
 *
 * Strings, mappings, functions, locations and samples are rows of numbers, each
 * kept once in a set (row_set). Rows refer to rows of other sets by index, so
 * things are equal if and only if their rows are, and merging is adding rows.
 * Ids of a file are mapped to indexes while it is read; in the output an id is
 * index + 1, in the order in which things were met.
 *
 * Files are not trusted: every length is checked against the message around it,
 * ids must exist and be unique, and memory is bounded by the size of the files.
 *
 * Specifications: google/pprof, proto/profile.proto; Protocol Buffers,
 * "Encoding".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "common/outbuf.h"
#include "common/protobuf.h"
#include "decode/lib/elf/elf.h"
#include "decode/lib/session/sink.h"
#include "decode/profile/profile.h"

/* A set of rows of numbers. Rows have any length and lie one after another in
 * v. */
struct row_set {
	uint64_t *v; /* all rows */
	size_t n_v, max_v;
	struct row_place {
		size_t at;
		uint32_t n;
	} *rows;
	size_t n, max;
	uint32_t *slots; /* index + 1; 0: free */
	size_t n_slots; /* a power of two */
};

/* The row of an index; valid until the next row is added. */
static const uint64_t *row_at(const struct row_set *s, size_t i)
{
	return s->v + s->rows[i].at;
}

/* The words of rows, by set. Strings are indexes of strings. */
enum {
	MAP_SIZE,
	MAP_OFFSET,
	MAP_ID,
	MAP_WORDS, /* id: build id or path */
	FUNC_NAME = 0,
	FUNC_SYSTEM,
	FUNC_FILE,
	FUNC_LINE,
	FUNC_WORDS,
	LOC_MAPPING = 0, /* index + 1; 0: none */
	LOC_ADDRESS, /* from the start of the mapping */
	LOC_FOLDED,
	LOC_HEAD, /* then lines: */
	LOC_LINE_FUNC = 0, /* index + 1; 0: none */
	LOC_LINE,
	LOC_COLUMN,
	LOC_LINE_WORDS,
	SAMPLE_N = 0, /* how many locations, which follow; labels: */
	LABEL_KEY = 0,
	LABEL_STR,
	LABEL_NUM,
	LABEL_UNIT,
	LABEL_WORDS,
};

/* What does not identify a mapping, as in the file that had it first. */
struct pprof_mapping {
	uint64_t start, limit, file, build_id;
	uint64_t has[4]; /* functions, filenames, line numbers, inlined */
};

struct pprof_type {
	uint64_t type, unit;
};

/* The sum of all files so far. */
struct pprof_sum {
	struct row_set strings; /* length, then bytes padded to 8; 0 is "" */
	struct row_set mappings, functions, locations, samples;
	struct pprof_mapping *maps; /* by index of mappings */
	size_t max_maps;
	int64_t *values; /* n_types for each row of samples */
	size_t max_values;
	struct pprof_type *types;
	size_t n_types;
	struct row_set comments; /* of one string each */
	uint64_t drop, keep, default_type, doc; /* strings; 0: none */
	struct pprof_type period_type;
	int64_t period, time, duration;
	bool begun; /* a file was added */
};

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LEN = 2, WIRE_FIXED32 = 5 };

/* A field of a message: a number, or the bytes [p, end). */
struct pprof_field {
	uint64_t number, v;
	const uint8_t *p, *end;
	unsigned wire;
};

/* An id of the file, and its index in a set. start: of a mapping, in that
 * file. */
struct pprof_id {
	uint64_t id, start;
	uint64_t index;
};

struct pprof_ids {
	struct pprof_id *v;
	size_t n, max;
};

struct pprof_words {
	uint64_t *v;
	size_t n, max;
};

/* A file that is being read. */
struct pprof_file {
	struct pprof_sum *sum;
	const uint8_t *base, *end;
	struct aux_diag *diag;
	struct pprof_words strings; /* index in the file -> index in the set */
	struct pprof_ids mappings, functions, locations; /* sorted after a pass */
	struct pprof_words row, values, types; /* row, values: scratch */
};

/* ---- Sets of rows ---- */

static uint64_t hash_row(const uint64_t *v, size_t n)
{
	uint64_t h = n;

	for (size_t i = 0; i < n; i++) {
		h = (h ^ v[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h ^ h >> 32;
}

/* The slot of a row, or the free one where it belongs. */
static uint32_t *find_slot(const struct row_set *s, const uint64_t *v, size_t n)
{
	size_t at = (size_t)hash_row(v, n) & (s->n_slots - 1);

	for (; s->slots[at]; at = (at + 1) & (s->n_slots - 1)) {
		const struct row_place *r = &s->rows[s->slots[at] - 1];

		if (r->n == n && !memcmp(s->v + r->at, v, n * sizeof(*v)))
			break;
	}
	return &s->slots[at];
}

static int grow_slots(struct row_set *s)
{
	size_t n = s->n_slots ? 2 * s->n_slots : 64;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -AUX_E_NOMEM;
	free(s->slots);
	s->slots = slots;
	s->n_slots = n;
	for (size_t i = 0; i < s->n; i++)
		*find_slot(s, row_at(s, i), s->rows[i].n) =
			(uint32_t)i + 1;
	return 0;
}

/* The index of a row, a new one if need be; -AUX_E_NOMEM, -AUX_E_LIMIT. */
static int64_t add_row(struct row_set *s, const uint64_t *v, size_t n)
{
	uint32_t *slot;

	if (s->n >= s->n_slots / 2 && grow_slots(s) < 0)
		return -AUX_E_NOMEM;
	slot = find_slot(s, v, n);
	if (*slot)
		return *slot - 1;
	if (s->n >= UINT32_MAX - 1 || n > UINT32_MAX)
		return -AUX_E_LIMIT;
	if (array_grow(&s->rows, s->n, &s->max, sizeof(*s->rows)) < 0 ||
	    array_grow(&s->v, s->n_v + n, &s->max_v, sizeof(*s->v)) < 0)
		return -AUX_E_NOMEM;
	memcpy(s->v + s->n_v, v, n * sizeof(*v));
	s->rows[s->n++] = (struct row_place){ s->n_v, (uint32_t)n };
	s->n_v += n;
	*slot = (uint32_t)s->n;
	return (int64_t)s->n - 1;
}

static void row_set_fini(struct row_set *s)
{
	free(s->v);
	free(s->rows);
	free(s->slots);
}

/*
 * ---- Writing ----
 *
 * Field numbers are those of profile.proto. Each message is compressed as soon
 * as it is complete, so the profile is never in memory twice.
 */

struct writer {
	const struct pprof_sum *sum;
	struct protobuf pb;
	struct gzip *gzip;
};

/* Compresses what pb has. 0, or -AUX_E_*. */
static int flush(struct writer *w)
{
	int rc = w->pb.failed ? -AUX_E_NOMEM
			      : gzip_put(w->gzip, w->pb.buf, w->pb.n);

	protobuf_reset(&w->pb);
	return rc;
}

/* proto3: a field that is absent is 0, so 0 is not written. */
static void put(struct writer *w, uint32_t field, uint64_t v)
{
	if (v)
		protobuf_u64(&w->pb, field, v);
}

static void put_type(struct writer *w, uint32_t field,
		     const struct pprof_type *t)
{
	size_t m = protobuf_begin(&w->pb, field);

	put(w, 1, t->type);
	put(w, 2, t->unit);
	protobuf_end(&w->pb, m);
}

static int put_string(struct writer *w, size_t i)
{
	const uint64_t *row = row_at(&w->sum->strings, i);

	protobuf_bytes(&w->pb, 6, row + 1, (size_t)row[0]);
	return flush(w);
}

static int put_mapping(struct writer *w, size_t i)
{
	const struct pprof_mapping *m = &w->sum->maps[i];
	size_t msg = protobuf_begin(&w->pb, 3);

	put(w, 1, i + 1);
	put(w, 2, m->start);
	put(w, 3, m->limit);
	put(w, 4, row_at(&w->sum->mappings, i)[MAP_OFFSET]);
	put(w, 5, m->file);
	put(w, 6, m->build_id);
	for (uint32_t k = 0; k < 4; k++)
		put(w, 7 + k, m->has[k]);
	protobuf_end(&w->pb, msg);
	return flush(w);
}

static int put_function(struct writer *w, size_t i)
{
	const uint64_t *row = row_at(&w->sum->functions, i);
	size_t msg = protobuf_begin(&w->pb, 5);

	put(w, 1, i + 1);
	for (uint32_t k = 0; k < FUNC_WORDS; k++)
		put(w, 2 + k, row[k]);
	protobuf_end(&w->pb, msg);
	return flush(w);
}

/* Addresses in rows are relative to their mapping; here they become absolute
 * again. */
static int put_location(struct writer *w, size_t i)
{
	const uint64_t *row = row_at(&w->sum->locations, i);
	uint64_t map = row[LOC_MAPPING], address = row[LOC_ADDRESS];
	size_t n = w->sum->locations.rows[i].n;
	size_t msg = protobuf_begin(&w->pb, 4), line;

	put(w, 1, i + 1);
	put(w, 2, map);
	put(w, 3, map ? address + w->sum->maps[map - 1].start : address);
	for (size_t k = LOC_HEAD; k < n; k += LOC_LINE_WORDS) {
		line = protobuf_begin(&w->pb, 4);
		put(w, 1, row[k + LOC_LINE_FUNC]);
		put(w, 2, row[k + LOC_LINE]);
		put(w, 3, row[k + LOC_COLUMN]);
		protobuf_end(&w->pb, line);
	}
	put(w, 5, row[LOC_FOLDED]);
	protobuf_end(&w->pb, msg);
	return flush(w);
}

static int put_sample(struct writer *w, size_t i)
{
	const uint64_t *row = row_at(&w->sum->samples, i);
	const int64_t *v = w->sum->values + i * w->sum->n_types;
	size_t n = w->sum->samples.rows[i].n, k;
	size_t msg = protobuf_begin(&w->pb, 2), list;

	list = protobuf_begin(&w->pb, 1);
	for (k = 1; k <= row[SAMPLE_N]; k++)
		protobuf_packed(&w->pb, row[k] + 1);
	protobuf_end(&w->pb, list);
	list = protobuf_begin(&w->pb, 2);
	for (size_t t = 0; t < w->sum->n_types; t++)
		protobuf_packed(&w->pb, (uint64_t)v[t]);
	protobuf_end(&w->pb, list);
	for (; k < n; k += LABEL_WORDS) {
		list = protobuf_begin(&w->pb, 3);
		for (uint32_t t = 0; t < LABEL_WORDS; t++)
			put(w, 1 + t, row[k + t]);
		protobuf_end(&w->pb, list);
	}
	protobuf_end(&w->pb, msg);
	return flush(w);
}

/*
 * All fields of Profile that are no table; they come first, so that readers see
 * the sample types early.
 */
static int put_head(struct writer *w)
{
	const struct pprof_sum *s = w->sum;

	for (size_t i = 0; i < s->n_types; i++)
		put_type(w, 1, &s->types[i]);
	put(w, 7, s->drop);
	put(w, 8, s->keep);
	put(w, 9, (uint64_t)s->time);
	put(w, 10, (uint64_t)s->duration);
	if (s->period_type.type || s->period_type.unit)
		put_type(w, 11, &s->period_type);
	put(w, 12, (uint64_t)s->period);
	for (size_t i = 0; i < s->comments.n; i++)
		protobuf_u64(&w->pb, 13, *row_at(&s->comments, i));
	put(w, 14, s->default_type);
	put(w, 15, s->doc);
	return flush(w);
}

static int put_all(struct writer *w)
{
	const struct pprof_sum *s = w->sum;
	int rc = put_head(w);

	for (size_t i = 0; i < s->strings.n && !rc; i++)
		rc = put_string(w, i);
	for (size_t i = 0; i < s->mappings.n && !rc; i++)
		rc = put_mapping(w, i);
	for (size_t i = 0; i < s->functions.n && !rc; i++)
		rc = put_function(w, i);
	for (size_t i = 0; i < s->locations.n && !rc; i++)
		rc = put_location(w, i);
	for (size_t i = 0; i < s->samples.n && !rc; i++)
		rc = put_sample(w, i);
	return rc;
}

static int write_sum(const struct pprof_sum *sum, struct outbuf *out)
{
	struct writer w = { .sum = sum, .gzip = gzip_new(out) };
	int rc = w.gzip ? put_all(&w) : -AUX_E_NOMEM;

	if (!rc)
		rc = gzip_finish(w.gzip);
	gzip_free(w.gzip);
	protobuf_fini(&w.pb);
	return rc;
}

/* ---- The wire format ---- */

/* -AUX_E_FORMAT with diag; at: where in the file. */
static int malformed(const struct pprof_file *f, const uint8_t *at,
			   const char *what)
{
	return diag_set(f->diag, AUX_E_FORMAT, (uint64_t)(at - f->base),
			"no pprof profile: %s", what);
}

static int push_word(struct pprof_words *w, uint64_t v)
{
	if (array_grow(&w->v, w->n, &w->max, sizeof(*w->v)) < 0)
		return -AUX_E_NOMEM;
	w->v[w->n++] = v;
	return 0;
}

/*
 * A base-128 number, least significant group first, of at most 10 bytes; bits
 * above 64 are dropped, as other readers do. False if it is cut.
 */
static bool read_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	*v = 0;
	for (unsigned shift = 0; shift < 70 && *p < end; shift += 7) {
		uint8_t byte = *(*p)++;

		if (shift < 64)
			*v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* 1: a field was read and *p is past it; 0: at the end; or -AUX_E_FORMAT.
 * Groups (wire types 3 and 4) are deprecated, and profile.proto has none. */
static int next_field(const struct pprof_file *f, const uint8_t **p,
			    const uint8_t *end, struct pprof_field *to)
{
	const uint8_t *at = *p;
	uint64_t tag, n = 0;

	if (at == end)
		return 0;
	*to = (struct pprof_field){ 0 };
	if (!read_varint(p, end, &tag) || !(tag >> 3))
		return malformed(f, at, "a field without a number");
	to->number = tag >> 3;
	to->wire = tag & 7;
	switch (to->wire) {
	case WIRE_VARINT:
		if (!read_varint(p, end, &to->v))
			return malformed(f, at, "a number is cut");
		return 1;
	case WIRE_FIXED64:
		n = 8;
		break;
	case WIRE_FIXED32:
		n = 4;
		break;
	case WIRE_LEN:
		if (read_varint(p, end, &n))
			break;
		/* fall through */
	default:
		return malformed(f, at, "a field of no known kind");
	}
	if (n > (uint64_t)(end - *p))
		return malformed(f, at, "a field is cut");
	to->p = *p;
	to->end = *p += n;
	return 1;
}

/* Appends the values of a repeated number. Writers may pack them or not. */
static int push_numbers(const struct pprof_file *f,
				    const struct pprof_field *fd,
				    struct pprof_words *to)
{
	const uint8_t *p = fd->p;
	uint64_t v;
	int rc = 0;

	if (fd->wire == WIRE_VARINT)
		return push_word(to, fd->v);
	if (fd->wire != WIRE_LEN)
		return malformed(f, fd->p, "numbers of no known kind");
	while (p < fd->end && !rc)
		rc = read_varint(&p, fd->end, &v)
			     ? push_word(to, v)
			     : malformed(f, p, "a number is cut");
	return rc;
}

/* Reads the varint fields of a message into v[field number], for numbers below
 * n; absent ones are 0. Other fields are skipped. */
static int read_numbers(const struct pprof_file *f,
			       const struct pprof_field *message, uint64_t *v,
			       size_t n)
{
	const uint8_t *p = message->p;
	struct pprof_field fd;
	int rc;

	memset(v, 0, n * sizeof(*v));
	if (message->wire != WIRE_LEN)
		return malformed(f, f->base,
				       "a number where a message is due");
	while ((rc = next_field(f, &p, message->end, &fd)) > 0)
		if (fd.wire == WIRE_VARINT && fd.number < n)
			v[fd.number] = fd.v;
	return rc;
}

/* ---- From indexes and ids of the file to indexes of the sets ---- */

/* Sets *to to the index of the file's string i. Index 0 is always the empty
 * string. */
static int map_string(const struct pprof_file *f,
			      const struct pprof_field *at, uint64_t i,
			      uint64_t *to)
{
	if (i && i >= f->strings.n)
		return malformed(f, at->p ? at->p : f->base,
				       "a string that is not there");
	*to = i ? f->strings.v[i] : 0;
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	const struct pprof_id *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* NULL: there is no such id. ids must be sorted. */
static const struct pprof_id *find_id(const struct pprof_ids *ids,
					uint64_t id)
{
	const struct pprof_id key = { .id = id };

	return ids->n ? bsearch(&key, ids->v, ids->n, sizeof(key), compare_ids)
		      : NULL;
}

/* Sorts ids; a duplicate is an error, since references to it are ambiguous. */
static int sort_ids(const struct pprof_file *f, struct pprof_ids *ids)
{
	if (ids->n)
		qsort(ids->v, ids->n, sizeof(*ids->v), compare_ids);
	for (size_t i = 1; i < ids->n; i++)
		if (ids->v[i].id == ids->v[i - 1].id)
			return malformed(f, f->base,
					       "an id is there twice");
	return 0;
}

/* Maps an id of the file to what add_row returned: an index, or an error to
 * return. */
static int add_id(const struct pprof_file *f,
			      const struct pprof_field *at,
			      struct pprof_ids *ids, uint64_t id,
			      uint64_t start, int64_t index)
{
	if (index < 0)
		return (int)index;
	if (!id)
		return malformed(f, at->p, "an id is 0");
	if (array_grow(&ids->v, ids->n, &ids->max, sizeof(*ids->v)) < 0)
		return -AUX_E_NOMEM;
	ids->v[ids->n++] = (struct pprof_id){ id, start, (uint64_t)index };
	return 0;
}

/* Saturates: a wrapped sum would look plausible. */
static void add_saturated(int64_t *sum, int64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = v < 0 ? INT64_MIN : INT64_MAX;
}

/*
 * ---- Samples ----
 *
 * A row is the number of locations, the locations, and LABEL_WORDS for each
 * label. Values are not part of it: they are what is added up.
 */

static int push_label(struct pprof_file *f, const struct pprof_field *fd)
{
	uint64_t v[5];
	int rc = read_numbers(f, fd, v, 5);

	if (!rc)
		rc = map_string(f, fd, v[1], &v[1]);
	if (!rc)
		rc = map_string(f, fd, v[2], &v[2]);
	if (!rc)
		rc = map_string(f, fd, v[4], &v[4]);
	for (unsigned i = 1; i < 5 && !rc; i++)
		rc = push_word(&f->row, v[i]);
	return rc;
}

/* Appends all fields of one number to numbers, or as labels to f->row if that
 * is NULL. */
static int each_field(struct pprof_file *f, const struct pprof_field *sample,
		      uint64_t number, struct pprof_words *numbers)
{
	const uint8_t *p = sample->p;
	struct pprof_field fd;
	int rc;

	while ((rc = next_field(f, &p, sample->end, &fd)) > 0) {
		if (fd.number != number)
			continue;
		rc = numbers ? push_numbers(f, &fd, numbers)
			     : push_label(f, &fd);
		if (rc)
			return rc;
	}
	return rc;
}

/* Adds f->values to those of sample i, which start at 0 if it is new. */
static int add_values(struct pprof_file *f, int64_t i, bool is_new)
{
	struct pprof_sum *sum = f->sum;
	size_t n = sum->n_types;

	if (i < 0)
		return (int)i;
	if (is_new) {
		if (array_grow(&sum->values, (size_t)(i + 1) * n,
			       &sum->max_values, sizeof(*sum->values)) < 0)
			return -AUX_E_NOMEM;
		memset(sum->values + (size_t)i * n, 0,
		       n * sizeof(*sum->values));
	}
	for (size_t k = 0; k < n; k++)
		add_saturated(&sum->values[(size_t)i * n + k],
				(int64_t)f->values.v[k]);
	return 0;
}

/* One sample, in the last pass: all that it refers to is known. */
static int add_sample(struct pprof_file *f,
			      const struct pprof_field *fd)
{
	size_t had = f->sum->samples.n, n;
	int64_t i;
	int rc;

	if (fd->wire != WIRE_LEN)
		return malformed(f, f->base, "a sample is no message");
	f->row.n = f->values.n = 0;
	rc = push_word(&f->row, 0);
	if (!rc)
		rc = each_field(f, fd, 1, &f->row);
	if (rc)
		return rc;
	n = f->row.n - 1;
	f->row.v[SAMPLE_N] = n;
	for (size_t k = 1; k <= n; k++) {
		const struct pprof_id *id =
			find_id(&f->locations, f->row.v[k]);

		if (!id)
			return malformed(f, fd->p,
					       "a location that is not "
					       "there");
		f->row.v[k] = id->index;
	}
	rc = each_field(f, fd, 3, NULL);
	if (!rc)
		rc = each_field(f, fd, 2, &f->values);
	if (rc)
		return rc;
	if (f->values.n != f->sum->n_types)
		return malformed(f, fd->p,
				       "a sample has other values than there "
				       "are types");
	i = add_row(&f->sum->samples, f->row.v, f->row.n);
	return add_values(f, i, f->sum->samples.n != had);
}

/*
 * ---- The other messages ----
 *
 * Fields come in any order, but refer to each other. So a file is read four
 * times: strings; what refers to strings alone; locations; samples.
 */

static int add_string(struct pprof_file *f, const struct pprof_field *fd)
{
	size_t len = fd->wire == WIRE_LEN ? (size_t)(fd->end - fd->p) : 0;
	size_t n = 1 + (len + 7) / 8;
	uint64_t *row;
	int64_t i;

	if (fd->wire != WIRE_LEN || (!f->strings.n && len))
		return malformed(f, fd->p ? fd->p : f->base,
				       "the first string is not empty");
	row = calloc(n, sizeof(*row));
	if (!row)
		return -AUX_E_NOMEM;
	row[0] = len;
	if (len)
		memcpy(row + 1, fd->p, len);
	i = add_row(&f->sum->strings, row, n);
	free(row);
	return i < 0 ? (int)i : push_word(&f->strings, (uint64_t)i);
}

/*
 * A mapping is known by size, offset and file. The has_* flags of the result
 * hold for all inputs, so they are and-ed.
 */
static int add_mapping(struct pprof_file *f, const struct pprof_field *fd)
{
	uint64_t v[11], row[MAP_WORDS], file, build_id;
	struct pprof_sum *sum = f->sum;
	size_t had = sum->mappings.n;
	int64_t i;
	int rc = read_numbers(f, fd, v, 11);

	if (!rc)
		rc = map_string(f, fd, v[5], &file);
	if (!rc)
		rc = map_string(f, fd, v[6], &build_id);
	if (rc)
		return rc;
	row[MAP_SIZE] = v[3] - v[2];
	row[MAP_OFFSET] = v[4];
	row[MAP_ID] = build_id ? build_id : file;
	i = add_row(&sum->mappings, row, MAP_WORDS);
	rc = add_id(f, fd, &f->mappings, v[1], v[2], i);
	if (rc)
		return rc;
	if (sum->mappings.n == had) {
		for (unsigned k = 0; k < 4; k++)
			sum->maps[i].has[k] &= v[7 + k];
		return 0;
	}
	if (array_grow(&sum->maps, had, &sum->max_maps, sizeof(*sum->maps)) < 0)
		return -AUX_E_NOMEM;
	sum->maps[i] = (struct pprof_mapping){
		v[2], v[3], file, build_id, { v[7], v[8], v[9], v[10] },
	};
	return 0;
}

static int add_function(struct pprof_file *f, const struct pprof_field *fd)
{
	uint64_t v[6], row[FUNC_WORDS];
	int rc = read_numbers(f, fd, v, 6);

	if (!rc)
		rc = map_string(f, fd, v[2], &row[FUNC_NAME]);
	if (!rc)
		rc = map_string(f, fd, v[3], &row[FUNC_SYSTEM]);
	if (!rc)
		rc = map_string(f, fd, v[4], &row[FUNC_FILE]);
	row[FUNC_LINE] = v[5];
	return rc ? rc
		  : add_id(f, fd, &f->functions, v[1], 0,
				       add_row(&f->sum->functions, row,
						       FUNC_WORDS));
}

/* Appends one line of a location to f->row. */
static int push_line(struct pprof_file *f, const struct pprof_field *fd)
{
	const struct pprof_id *func;
	uint64_t v[4];
	int rc = read_numbers(f, fd, v, 4);

	if (rc)
		return rc;
	func = find_id(&f->functions, v[1]);
	if (!func && v[1])
		return malformed(f, fd->p,
				       "a function that is not there");
	if (push_word(&f->row, func ? func->index + 1 : 0) ||
	    push_word(&f->row, v[2]) || push_word(&f->row, v[3]))
		return -AUX_E_NOMEM;
	return 0;
}

static int add_location(struct pprof_file *f, const struct pprof_field *fd)
{
	const struct pprof_id *mapping;
	const uint8_t *p = fd->p;
	struct pprof_field line;
	uint64_t v[6];
	int rc = read_numbers(f, fd, v, 6);

	if (rc)
		return rc;
	mapping = find_id(&f->mappings, v[2]);
	if (!mapping && v[2])
		return malformed(f, fd->p, "a mapping that is not there");
	f->row.n = 0;
	if (push_word(&f->row, mapping ? mapping->index + 1 : 0) ||
	    push_word(&f->row, mapping ? v[3] - mapping->start : v[3]) ||
	    push_word(&f->row, v[5]))
		return -AUX_E_NOMEM;
	while ((rc = next_field(f, &p, fd->end, &line)) > 0) {
		rc = line.number == 4 ? push_line(f, &line) : 0;
		if (rc)
			return rc;
	}
	return rc ? rc
		  : add_id(f, fd, &f->locations, v[1], 0,
				       add_row(&f->sum->locations,
						       f->row.v, f->row.n));
}

/* ---- The profile itself ---- */

static int add_type(struct pprof_file *f, const struct pprof_field *fd,
		    struct pprof_words *to)
{
	uint64_t v[3];
	int rc = read_numbers(f, fd, v, 3);

	if (!rc)
		rc = map_string(f, fd, v[1], &v[1]);
	if (!rc)
		rc = map_string(f, fd, v[2], &v[2]);
	return rc || push_word(to, v[1]) || push_word(to, v[2])
		       ? (rc ? rc : -AUX_E_NOMEM)
		       : 0;
}

/* A string of the sum: length, then bytes. */
static bool is_string(const struct pprof_sum *sum, uint64_t i, const char *s)
{
	const uint64_t *row = row_at(&sum->strings, i);

	return *row == strlen(s) && !memcmp(row + 1, s, *row);
}

static int add_comments(struct pprof_file *f, const struct pprof_field *fd)
{
	int rc;

	f->row.n = 0;
	rc = push_numbers(f, fd, &f->row);
	for (size_t i = 0; i < f->row.n && !rc; i++) {
		int64_t k;

		rc = map_string(f, fd, f->row.v[i], &f->row.v[i]);
		if (!rc && is_string(f->sum, f->row.v[i], PPROF_PART))
			return diag_set(f->diag, AUX_E_UNSUPPORTED,
					AUX_NO_OFFSET,
					"stacks of a part of a recording "
					"(--chunk) begin in the middle of calls, "
					"and do not add up to those of the "
					"whole: decode it whole");
		k = rc ? 0
		       : add_row(&f->sum->comments, &f->row.v[i], 1);
		rc = k < 0 ? (int)k : rc;
	}
	return rc;
}

/* Sets *to if no file before had such a string. */
static int first_string(const struct pprof_file *f,
			const struct pprof_field *fd, uint64_t *to)
{
	uint64_t s = 0;
	int rc = map_string(f, fd, fd->v, &s);

	if (!rc && !*to)
		*to = s;
	return rc;
}

static int add_period_type(struct pprof_file *f, const struct pprof_field *fd)
{
	struct pprof_type *p = &f->sum->period_type;
	const uint64_t *v;
	int rc;

	f->row.n = 0;
	rc = add_type(f, fd, &f->row);
	v = f->row.v;
	if (rc || (!v[0] && !v[1]))
		return rc;
	if ((p->type || p->unit) && (p->type != v[0] || p->unit != v[1]))
		return diag_set(f->diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"its period is of another type than that of "
				"the files before");
	*p = (struct pprof_type){ v[0], v[1] };
	return 0;
}

/* As pprof merges: the earliest time, the sum of durations, the largest
 * period. */
static int add_other(struct pprof_file *f, const struct pprof_field *fd)
{
	struct pprof_sum *s = f->sum;
	int64_t v = (int64_t)fd->v;

	switch (fd->number) {
	case 7:
		return first_string(f, fd, &s->drop);
	case 8:
		return first_string(f, fd, &s->keep);
	case 9:
		if (v && (!s->time || v < s->time))
			s->time = v;
		return 0;
	case 10:
		add_saturated(&s->duration, v);
		return 0;
	case 11:
		return add_period_type(f, fd);
	case 12:
		s->period = v > s->period ? v : s->period;
		return 0;
	case 13:
		return add_comments(f, fd);
	case 14:
		return first_string(f, fd, &s->default_type);
	case 15:
		return first_string(f, fd, &s->doc);
	}
	return 0;
}

static int add_named(struct pprof_file *f, const struct pprof_field *fd)
{
	switch (fd->number) {
	case 1:
		return add_type(f, fd, &f->types);
	case 3:
		return add_mapping(f, fd);
	case 5:
		return add_function(f, fd);
	}
	return add_other(f, fd);
}

static int add_if(struct pprof_file *f, const struct pprof_field *fd,
		  unsigned pass)
{
	switch (pass) {
	case 0:
		return fd->number == 6 ? add_string(f, fd) : 0;
	case 1:
		return fd->number == 6 ? 0 : add_named(f, fd);
	case 2:
		return fd->number == 4 ? add_location(f, fd) : 0;
	}
	return fd->number == 2 ? add_sample(f, fd) : 0;
}

/* The sample types must be those of the first file, whose types are kept. */
static int check_types(struct pprof_file *f)
{
	struct pprof_sum *s = f->sum;
	size_t size = f->types.n * sizeof(uint64_t);

	if (!f->types.n)
		return malformed(f, f->base, "it has no sample types");
	if (!s->begun) {
		s->types = malloc(size);
		if (!s->types)
			return -AUX_E_NOMEM;
		memcpy(s->types, f->types.v, size);
		s->n_types = f->types.n / 2;
		s->begun = true;
	}
	if (s->n_types != f->types.n / 2 || memcmp(s->types, f->types.v, size))
		return diag_set(f->diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"its sample types are not those of the first "
				"file: what is added up must be alike");
	return 0;
}

static int read_pass(struct pprof_file *f, unsigned pass)
{
	const uint8_t *p = f->base;
	struct pprof_field fd;
	int rc;

	while ((rc = next_field(f, &p, f->end, &fd)) > 0) {
		rc = add_if(f, &fd, pass);
		if (rc)
			return rc;
	}
	if (!rc && pass == 1)
		rc = sort_ids(f, &f->mappings);
	if (!rc && pass == 1)
		rc = sort_ids(f, &f->functions);
	if (!rc && pass == 1)
		rc = check_types(f);
	if (!rc && pass == 2)
		rc = sort_ids(f, &f->locations);
	return rc;
}

/* Adds a profile, unpacked, of len bytes. 0 or -AUX_E_*. */
static int read_profile(struct pprof_sum *sum, const uint8_t *p,
			    uint64_t len, struct aux_diag *diag)
{
	struct pprof_file f = {
		.sum = sum, .base = p, .end = len ? p + len : p, .diag = diag
	};
	int rc = 0;

	for (unsigned pass = 0; pass < 4 && !rc; pass++)
		rc = read_pass(&f, pass);
	free(f.strings.v);
	free(f.mappings.v);
	free(f.functions.v);
	free(f.locations.v);
	free(f.row.v);
	free(f.values.v);
	free(f.types.v);
	return rc;
}

/* ---- Files ---- */

bool merge_pprof_is_file(const char *path)
{
	FILE *f = fopen(path, "re");
	uint8_t b[4] = { 0 };
	size_t n = f ? fread(b, 1, sizeof(b), f) : 0;

	if (f)
		fclose(f);
	/* gzip; or field 1, a message of a few bytes, which begins with 1 or
	 * 2 */
	return n == 4 && ((b[0] == 0x1f && b[1] == 0x8b) ||
			  (b[0] == 0x0a && b[1] >= 2 && b[1] < 24 &&
			   (b[2] == 0x08 || b[2] == 0x10)));
}

static int add_file(struct pprof_sum *sum, const char *path,
		     struct aux_diag *diag)
{
	struct elfimage *im; /* maps any file, and unpacks gzip */
	const uint8_t *p;
	uint64_t len;
	int rc = elfimage_open(&im, path);

	if (rc == -AUX_E_FORMAT || rc == -AUX_E_LIMIT)
		return diag_set(diag, -rc, AUX_NO_OFFSET,
				rc == -AUX_E_LIMIT
					? "it unpacks to more than is allowed"
					: "the gzip data are damaged");
	if (rc < 0)
		return diag_set(diag, -rc, AUX_NO_OFFSET, "cannot open: %s",
				aux_strerror(rc));
	p = elfimage_data(im, &len);
	rc = read_profile(sum, p, len, diag);
	elfimage_close(im);
	return rc;
}

static void free_sum(struct pprof_sum *s)
{
	row_set_fini(&s->strings);
	row_set_fini(&s->mappings);
	row_set_fini(&s->functions);
	row_set_fini(&s->locations);
	row_set_fini(&s->samples);
	row_set_fini(&s->comments);
	free(s->maps);
	free(s->values);
	free(s->types);
}

int merge_pprof(const char *const *paths, size_t n, struct outbuf *out,
		const char **which, struct aux_diag *diag)
{
	const uint64_t empty = 0;
	struct pprof_sum sum = { 0 };
	int64_t first = add_row(&sum.strings, &empty, 1);
	int rc = first < 0 ? (int)first : 0;

	for (size_t i = 0; i < n && !rc; i++) {
		*which = paths[i];
		rc = add_file(&sum, paths[i], diag);
	}
	if (!rc)
		rc = write_sum(&sum, out);
	free_sum(&sum);
	return rc;
}
