/* SPDX-License-Identifier: BSD-2-Clause */
/* merge_pprof_sample: stacks with their labels and values. A row of samples is the
 * number of locations, those, and four numbers for each label. */
#include "decode/profile/pprof_merge_file.h"

static int push_label(struct pprof_file *f, const struct pprof_field *fd)
{
	uint64_t v[5];
	int rc = merge_pprof_numbers(f, fd, v, 5);

	if (!rc)
		rc = merge_pprof_string(f, fd, v[1], &v[1]);
	if (!rc)
		rc = merge_pprof_string(f, fd, v[2], &v[2]);
	if (!rc)
		rc = merge_pprof_string(f, fd, v[4], &v[4]);
	for (unsigned i = 1; i < 5 && !rc; i++)
		rc = merge_pprof_push(&f->row, v[i]);
	return rc;
}

/* Fields of one number, from the sample. */
static int each_field(struct pprof_file *f, const struct pprof_field *sample,
		      uint64_t number, struct pprof_words *numbers)
{
	const uint8_t *p = sample->p;
	struct pprof_field fd;
	int rc;

	while ((rc = merge_pprof_next(f, &p, sample->end, &fd)) > 0) {
		if (fd.number != number)
			continue;
		rc = numbers ? merge_pprof_push_numbers(f, &fd, numbers)
			     : push_label(f, &fd);
		if (rc)
			return rc;
	}
	return rc;
}

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
		merge_pprof_add(&sum->values[(size_t)i * n + k],
				(int64_t)f->values.v[k]);
	return 0;
}

int merge_pprof_sample(struct pprof_file *f, const struct pprof_field *fd)
{
	size_t had = f->sum->samples.n, n;
	int64_t i;
	int rc;

	if (fd->wire != WIRE_LEN)
		return merge_pprof_bad(f, f->base, "a sample is no message");
	f->row.n = f->values.n = 0;
	rc = merge_pprof_push(&f->row, 0);
	if (!rc)
		rc = each_field(f, fd, 1, &f->row);
	if (rc)
		return rc;
	n = f->row.n - 1;
	f->row.v[SAMPLE_N] = n;
	for (size_t k = 1; k <= n; k++) {
		const struct pprof_id *id =
			merge_pprof_find(&f->locations, f->row.v[k]);

		if (!id)
			return merge_pprof_bad(f, fd->p,
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
		return merge_pprof_bad(f, fd->p,
				       "a sample has other values than there "
				       "are types");
	i = merge_pprof_row(&f->sum->samples, f->row.v, f->row.n);
	return add_values(f, i, f->sum->samples.n != had);
}
