/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge_pprof: see pprof_merge.h. What was read into the sets is written: a thing's
 * id is its index + 1, in the order things were met.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"

#include "decode/lib/elf/elf.h"
#include "common/gzip.h"
#include "decode/profile/pprof_merge_impl.h"
#include "common/protobuf.h"

/* ---- sets ---- */

static uint64_t hash_row(const uint64_t *v, size_t n)
{
	uint64_t h = n;

	for (size_t i = 0; i < n; i++) {
		h = (h ^ v[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h ^ h >> 32;
}

/* Its slot, or the free one it may have. */
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
		*find_slot(s, merge_pprof_at(s, i), s->rows[i].n) =
			(uint32_t)i + 1;
	return 0;
}

int64_t merge_pprof_row(struct row_set *s, const uint64_t *v, size_t n)
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

void merge_pprof_row_fini(struct row_set *s)
{
	free(s->v);
	free(s->rows);
	free(s->slots);
}

/* ---- writing ---- */

struct writer {
	const struct pprof_sum *sum;
	struct protobuf pb;
	struct export_gzip *gzip;
};

static int flush(struct writer *w)
{
	int rc = w->pb.failed ? -AUX_E_NOMEM
			      : export_gzip_put(w->gzip, w->pb.buf, w->pb.n);

	protobuf_reset(&w->pb);
	return rc;
}

/* 0 is what a field has that is not there. */
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
	const uint64_t *row = merge_pprof_at(&w->sum->strings, i);

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
	put(w, 4, merge_pprof_at(&w->sum->mappings, i)[MAP_OFFSET]);
	put(w, 5, m->file);
	put(w, 6, m->build_id);
	for (uint32_t k = 0; k < 4; k++)
		put(w, 7 + k, m->has[k]);
	protobuf_end(&w->pb, msg);
	return flush(w);
}

static int put_function(struct writer *w, size_t i)
{
	const uint64_t *row = merge_pprof_at(&w->sum->functions, i);
	size_t msg = protobuf_begin(&w->pb, 5);

	put(w, 1, i + 1);
	for (uint32_t k = 0; k < FUNC_WORDS; k++)
		put(w, 2 + k, row[k]);
	protobuf_end(&w->pb, msg);
	return flush(w);
}

static int put_location(struct writer *w, size_t i)
{
	const uint64_t *row = merge_pprof_at(&w->sum->locations, i);
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
	const uint64_t *row = merge_pprof_at(&w->sum->samples, i);
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
		protobuf_u64(&w->pb, 13, *merge_pprof_at(&s->comments, i));
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
	struct writer w = { .sum = sum, .gzip = export_gzip_new(out) };
	int rc = w.gzip ? put_all(&w) : -AUX_E_NOMEM;

	if (!rc)
		rc = export_gzip_finish(w.gzip);
	export_gzip_free(w.gzip);
	protobuf_fini(&w.pb);
	return rc;
}

/* ---- files ---- */

bool merge_pprof_is_file(const char *path)
{
	FILE *f = fopen(path, "re");
	uint8_t b[4] = { 0 };
	size_t n = f ? fread(b, 1, sizeof(b), f) : 0;

	if (f)
		fclose(f);
	/* gzip; or field 1, a message of a few bytes, which begins with 1 or 2 */
	return n == 4 && ((b[0] == 0x1f && b[1] == 0x8b) ||
			  (b[0] == 0x0a && b[1] >= 2 && b[1] < 24 &&
			   (b[2] == 0x08 || b[2] == 0x10)));
}

static int take_file(struct pprof_sum *sum, const char *path,
		     struct aux_diag *diag)
{
	struct elfimage *im; /* any file, unpacked */
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
	rc = merge_pprof_read(sum, p, len, diag);
	elfimage_close(im);
	return rc;
}

static void free_sum(struct pprof_sum *s)
{
	merge_pprof_row_fini(&s->strings);
	merge_pprof_row_fini(&s->mappings);
	merge_pprof_row_fini(&s->functions);
	merge_pprof_row_fini(&s->locations);
	merge_pprof_row_fini(&s->samples);
	merge_pprof_row_fini(&s->comments);
	free(s->maps);
	free(s->values);
	free(s->types);
}

int merge_pprof(const char *const *paths, size_t n, struct outbuf *out,
		const char **which, struct aux_diag *diag)
{
	const uint64_t empty = 0;
	struct pprof_sum sum = { 0 };
	int64_t first = merge_pprof_row(&sum.strings, &empty, 1);
	int rc = first < 0 ? (int)first : 0;

	for (size_t i = 0; i < n && !rc; i++) {
		*which = paths[i];
		rc = take_file(&sum, paths[i], diag);
	}
	if (!rc)
		rc = write_sum(&sum, out);
	free_sum(&sum);
	return rc;
}
