/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Results of parts that were joined: rows of the part, in the order of what is asked for,
 * as text with tabs and a line of names that begins with "#". Equal numbers are in the
 * order of names, so equal sums give equal bytes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/callstack/calltimes.h"
#include "decode/callstack/calltree.h"
#include "decode/fleet/fleet.h"

/* ---- rows in memory ---- */

struct table {
	struct fleet_row *v;
	size_t n, cap;
	unsigned by;	/* the value that rows are sorted by, largest first */
};

static void free_table(struct table *t)
{
	while (t->n)
		fleet_row_fini(&t->v[--t->n]);
	free(t->v);
}

static int read_table(struct table *t, FILE *f, const struct fleet_kind *kind,
		      struct aux_diag *diag)
{
	int rc;

	do {
		if (array_grow(&t->v, t->n, &t->cap, sizeof(*t->v)))
			return -AUX_E_NOMEM;
		t->v[t->n] = (struct fleet_row){ 0 };
		rc = fleet_row_read(&t->v[t->n], f, kind, diag);
		if (rc > 0)
			t->n++;
		else
			fleet_row_fini(&t->v[t->n]);
	} while (rc > 0);
	return rc;
}

/* By a value, then by key. */
static int compare_by(const void *a, const void *b, void *by)
{
	const struct fleet_row *x = a, *y = b;
	unsigned i = *(const unsigned *)by;

	if (x->values[i] != y->values[i])
		return x->values[i] > y->values[i] ? -1 : 1;
	return fleet_row_compare(x, y);
}

static void sort_table(struct table *t)
{
	if (t->n)
		qsort_r(t->v, t->n, sizeof(*t->v), compare_by, &t->by);
}

static void put_names(struct outbuf *out, const struct fleet_kind *kind)
{
	outbuf_str(out, "#");
	for (unsigned i = 0; i < kind->n_values; i++)
		outbuf_printf(out, i ? "\t%s" : "%s", kind->values[i].name);
	for (const char *s = kind->keys; *s; s += strcspn(s, " "), s += *s == ' ')
		outbuf_printf(out, "\t%.*s", (int)strcspn(s, " "), s);
	outbuf_str(out, "\n");
}

static void put_values(struct outbuf *out, const struct fleet_row *row, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		outbuf_printf(out, "%" PRIu64 "\t", row->values[i]);
	outbuf_put(out, row->line, row->key_len);
	outbuf_str(out, "\n");
}

/* All rows, with the numbers first. */
static int print_sorted(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
			unsigned by, struct aux_diag *diag)
{
	struct table t = { .by = by };
	int rc = read_table(&t, rows, kind, diag);

	if (!rc) {
		sort_table(&t);
		put_names(out, kind);
	}
	for (size_t i = 0; i < t.n && !rc; i++)
		put_values(out, &t.v[i], kind->n_values);
	free_table(&t);
	return rc;
}

/* ---- the kinds ---- */

/* Where a kind has its numbers of enum calltree_by. */
static unsigned value_of(enum calltree_by by)
{
	return by == CALLTREE_BY_INSNS ? 0 : by == CALLTREE_BY_NS ? 1 :
	       by == CALLTREE_BY_CYCLES ? 2 : 3;
}

int fleet_print_count(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
		      unsigned by, struct aux_diag *diag)
{
	struct fleet_row row = { 0 }, all = { 0 };
	int rc;

	(void)by;
	put_names(out, kind);
	while ((rc = fleet_row_read(&row, rows, kind, diag)) > 0) {
		put_values(out, &row, kind->n_values);
		if (!fleet_row_join(&all, &row, kind))
			rc = -AUX_E_LIMIT;
		if (rc < 0)
			break;
	}
	fleet_row_fini(&row);
	for (unsigned i = 0; i < kind->n_values && !rc; i++)
		outbuf_printf(out, "%" PRIu64 "\t", all.values[i]);
	if (!rc)
		outbuf_str(out, "all\n");
	return rc;
}

int fleet_print_hot(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
		    unsigned by, struct aux_diag *diag)
{
	return print_sorted(out, rows, kind, value_of(by), diag);
}

int fleet_print_first(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
		      unsigned by, struct aux_diag *diag)
{
	(void)by;
	return print_sorted(out, rows, kind, 0, diag);
}

int fleet_print_flame(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
		      unsigned by, struct aux_diag *diag)
{
	struct fleet_row row = { 0 };
	unsigned i = value_of(by);
	int rc;

	while ((rc = fleet_row_read(&row, rows, kind, diag)) > 0) {
		if (!row.values[i])
			continue;
		outbuf_put(out, row.line, row.key_len);
		outbuf_printf(out, " %" PRIu64 "\n", row.values[i]);
	}
	fleet_row_fini(&row);
	return rc;
}

/* ---- latency: percentiles of the calls of a function, from its buckets ---- */

struct function {
	char *name;		/* function and file, with the tab between them */
	size_t len;
	struct calltimes times;
};

struct functions {
	struct function *v;
	size_t n, cap;
};

/* The number of a bucket after the last tab. */
static bool read_bucket(const struct fleet_row *row, size_t *len, uint32_t *bucket)
{
	const char *tab = memrchr(row->line, '\t', row->key_len);

	*bucket = 0;
	if (!tab || row->key_len - (size_t)(tab - row->line) != 5)
		return false;
	for (unsigned i = 1; i <= 4; i++) {
		if (tab[i] < '0' || tab[i] > '9')
			return false;
		*bucket = *bucket * 10 + (uint32_t)(tab[i] - '0');
	}
	*len = (size_t)(tab - row->line);
	return *bucket < CALLTIMES_BUCKETS;
}

static int add_bucket(struct functions *f, const struct fleet_row *row, struct aux_diag *diag)
{
	struct function *at = f->n ? &f->v[f->n - 1] : NULL;
	uint32_t bucket;
	size_t len;

	if (!read_bucket(row, &len, &bucket) || row->values[2] > row->values[3] ||
	    calltimes_bucket(row->values[2]) != bucket ||
	    calltimes_bucket(row->values[3]) != bucket)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"a row of calls has no bucket that its times are of");
	if (!at || at->len != len || memcmp(at->name, row->line, len)) {
		if (array_grow(&f->v, f->n, &f->cap, sizeof(*f->v)))
			return -AUX_E_NOMEM;
		at = &f->v[f->n];
		*at = (struct function){ .len = len, .name = strndup(row->line, len) };
		if (!at->name)
			return -AUX_E_NOMEM;
		f->n++;
	}
	return calltimes_add_bucket(&at->times, bucket, row->values[0], row->values[1],
				    row->values[2], row->values[3]);
}

/* By all their time together, then by name. */
static int compare_functions(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if (x->times.sum != y->times.sum)
		return x->times.sum > y->times.sum ? -1 : 1;
	return strcmp(x->name, y->name);
}

int fleet_print_latency(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
			unsigned by, struct aux_diag *diag)
{
	static const double at[] = { 0.5, 0.9, 0.99, 0.999 };
	struct functions f = { 0 };
	struct fleet_row row = { 0 };
	int rc;

	(void)by;
	while ((rc = fleet_row_read(&row, rows, kind, diag)) > 0)
		if ((rc = add_bucket(&f, &row, diag)))
			break;
	fleet_row_fini(&row);
	if (f.n && !rc)
		qsort(f.v, f.n, sizeof(*f.v), compare_functions);
	if (!rc)
		outbuf_str(out, "#calls\tsum_ns\tmin_ns\tp50_ns\tp90_ns\tp99_ns\tp999_ns\tmax_ns\t"
				"function\tdso\n");
	for (size_t i = 0; i < f.n; i++) {
		const struct calltimes *t = &f.v[i].times;

		if (!rc) {
			outbuf_printf(out, "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, t->n, t->sum,
				      t->min);
			for (unsigned q = 0; q < 4; q++)
				outbuf_printf(out, "\t%" PRIu64, calltimes_at(t, at[q]));
			outbuf_printf(out, "\t%" PRIu64 "\t%s\n", t->max, f.v[i].name);
		}
		calltimes_fini(&f.v[i].times);
		free(f.v[i].name);
	}
	free(f.v);
	return rc;
}
