/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge_pprof_read: what is in a profile, into the sets of pprof_merge_impl.h. Fields
 * come in any order, so a file is read four times: strings; what names strings alone;
 * locations; samples. All counts are bounded by the size of the file.
 */
#include "decode/profile/pprof_merge_file.h"

static int add_string(struct pprof_file *f, const struct pprof_field *fd)
{
	size_t len = fd->wire == WIRE_LEN ? (size_t)(fd->end - fd->p) : 0;
	size_t n = 1 + (len + 7) / 8;
	uint64_t *row;
	int64_t i;

	if (fd->wire != WIRE_LEN || (!f->strings.n && len))
		return merge_pprof_bad(f, fd->p ? fd->p : f->base,
				       "the first string is not empty");
	row = calloc(n, sizeof(*row));
	if (!row)
		return -AUX_E_NOMEM;
	row[0] = len;
	if (len)
		memcpy(row + 1, fd->p, len);
	i = merge_pprof_row(&f->sum->strings, row, n);
	free(row);
	return i < 0 ? (int)i : merge_pprof_push(&f->strings, (uint64_t)i);
}

static int add_mapping(struct pprof_file *f, const struct pprof_field *fd)
{
	uint64_t v[11], row[MAP_WORDS], file, build_id;
	struct pprof_sum *sum = f->sum;
	size_t had = sum->mappings.n;
	int64_t i;
	int rc = merge_pprof_numbers(f, fd, v, 11);

	if (!rc)
		rc = merge_pprof_string(f, fd, v[5], &file);
	if (!rc)
		rc = merge_pprof_string(f, fd, v[6], &build_id);
	if (rc)
		return rc;
	row[MAP_SIZE] = v[3] - v[2];
	row[MAP_OFFSET] = v[4];
	row[MAP_ID] = build_id ? build_id : file;
	i = merge_pprof_row(&sum->mappings, row, MAP_WORDS);
	rc = merge_pprof_add_id(f, fd, &f->mappings, v[1], v[2], i);
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
	int rc = merge_pprof_numbers(f, fd, v, 6);

	if (!rc)
		rc = merge_pprof_string(f, fd, v[2], &row[FUNC_NAME]);
	if (!rc)
		rc = merge_pprof_string(f, fd, v[3], &row[FUNC_SYSTEM]);
	if (!rc)
		rc = merge_pprof_string(f, fd, v[4], &row[FUNC_FILE]);
	row[FUNC_LINE] = v[5];
	return rc ? rc
		  : merge_pprof_add_id(f, fd, &f->functions, v[1], 0,
				       merge_pprof_row(&f->sum->functions, row,
						       FUNC_WORDS));
}

static int push_line(struct pprof_file *f, const struct pprof_field *fd)
{
	const struct pprof_id *func;
	uint64_t v[4];
	int rc = merge_pprof_numbers(f, fd, v, 4);

	if (rc)
		return rc;
	func = merge_pprof_find(&f->functions, v[1]);
	if (!func && v[1])
		return merge_pprof_bad(f, fd->p,
				       "a function that is not there");
	if (merge_pprof_push(&f->row, func ? func->index + 1 : 0) ||
	    merge_pprof_push(&f->row, v[2]) || merge_pprof_push(&f->row, v[3]))
		return -AUX_E_NOMEM;
	return 0;
}

static int add_location(struct pprof_file *f, const struct pprof_field *fd)
{
	const struct pprof_id *mapping;
	const uint8_t *p = fd->p;
	struct pprof_field line;
	uint64_t v[6];
	int rc = merge_pprof_numbers(f, fd, v, 6);

	if (rc)
		return rc;
	mapping = merge_pprof_find(&f->mappings, v[2]);
	if (!mapping && v[2])
		return merge_pprof_bad(f, fd->p, "a mapping that is not there");
	f->row.n = 0;
	if (merge_pprof_push(&f->row, mapping ? mapping->index + 1 : 0) ||
	    merge_pprof_push(&f->row, mapping ? v[3] - mapping->start : v[3]) ||
	    merge_pprof_push(&f->row, v[5]))
		return -AUX_E_NOMEM;
	while ((rc = merge_pprof_next(f, &p, fd->end, &line)) > 0) {
		rc = line.number == 4 ? push_line(f, &line) : 0;
		if (rc)
			return rc;
	}
	return rc ? rc
		  : merge_pprof_add_id(f, fd, &f->locations, v[1], 0,
				       merge_pprof_row(&f->sum->locations,
						       f->row.v, f->row.n));
}

/* ---- the profile ---- */

static int add_type(struct pprof_file *f, const struct pprof_field *fd,
		    struct pprof_words *to)
{
	uint64_t v[3];
	int rc = merge_pprof_numbers(f, fd, v, 3);

	if (!rc)
		rc = merge_pprof_string(f, fd, v[1], &v[1]);
	if (!rc)
		rc = merge_pprof_string(f, fd, v[2], &v[2]);
	return rc || merge_pprof_push(to, v[1]) || merge_pprof_push(to, v[2])
		       ? (rc ? rc : -AUX_E_NOMEM)
		       : 0;
}

static int add_comments(struct pprof_file *f, const struct pprof_field *fd)
{
	int rc;

	f->row.n = 0;
	rc = merge_pprof_push_numbers(f, fd, &f->row);
	for (size_t i = 0; i < f->row.n && !rc; i++) {
		int64_t k;

		rc = merge_pprof_string(f, fd, f->row.v[i], &f->row.v[i]);
		k = rc ? 0
		       : merge_pprof_row(&f->sum->comments, &f->row.v[i], 1);
		rc = k < 0 ? (int)k : rc;
	}
	return rc;
}

/* A string of the profile that the first file with one gives. */
static int first_string(const struct pprof_file *f,
			const struct pprof_field *fd, uint64_t *to)
{
	uint64_t s;
	int rc = merge_pprof_string(f, fd, fd->v, &s);

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
		merge_pprof_add(&s->duration, v);
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
	return fd->number == 2 ? merge_pprof_sample(f, fd) : 0;
}

/* The types are those of the files before; of the first one: take them. */
static int check_types(struct pprof_file *f)
{
	struct pprof_sum *s = f->sum;
	size_t size = f->types.n * sizeof(uint64_t);

	if (!f->types.n)
		return merge_pprof_bad(f, f->base, "it has no sample types");
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

	while ((rc = merge_pprof_next(f, &p, f->end, &fd)) > 0) {
		rc = add_if(f, &fd, pass);
		if (rc)
			return rc;
	}
	if (!rc && pass == 1)
		rc = merge_pprof_sort(f, &f->mappings);
	if (!rc && pass == 1)
		rc = merge_pprof_sort(f, &f->functions);
	if (!rc && pass == 1)
		rc = check_types(f);
	if (!rc && pass == 2)
		rc = merge_pprof_sort(f, &f->locations);
	return rc;
}

int merge_pprof_read(struct pprof_sum *sum, const uint8_t *p, uint64_t len,
		     struct aux_diag *diag)
{
	struct pprof_file f = {
		.sum = sum, .base = p, .end = p + len, .diag = diag
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
