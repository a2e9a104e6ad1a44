/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cohorts: see cohort.h. Parts are sorted by key, so all are read side by side, a key at
 * a time: memory is that of the recordings, not of their rows. A recording without a row
 * has zero there.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/fleet/cohort.h"

struct input {
	FILE *f;
	struct fleet_row row;
	bool ended;
};

struct ranked {
	uint64_t value;
	bool second;
};

struct cohort {
	const struct fleet_kind *kind;
	struct input *in;
	size_t n[2], all;
	const char *const *paths;
	const char **which;
	struct aux_diag *diag;
	struct ranked *ranks;
	struct cohort_result *to;
};

/* ---- the test ---- */

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value;
}

/* The middle of the values of a group; ranks are sorted. */
static double median(const struct cohort *c, bool second)
{
	size_t n = c->n[second], at = 0;
	double lower = 0;

	for (size_t i = 0; i < c->all; i++) {
		if (c->ranks[i].second != second)
			continue;
		if (at == (n - 1) / 2)
			lower = (double)c->ranks[i].value;
		if (at++ == n / 2)
			return (lower + (double)c->ranks[i].value) / 2;
	}
	return 0;
}

#define WAYS 20000000	/* steps that one exact probability may take */
#define UNLIKELY 0.05	/* only what may be shown is worth it */

/*
 * The probability that a group of m among these ranks has a sum as far from the middle as
 * that of the second group, or farther: of all such groups, counted by their sum. Ranks
 * are doubled, for those of ties are halves. The smaller group is counted: what is left
 * has the rest of the sum. Negative: too many ways.
 */
static double count_ways(const struct cohort *c, const uint32_t *doubled, double sum)
{
	size_t n = c->all, m = c->n[0] < c->n[1] ? c->n[0] : c->n[1];
	size_t most = m * 2 * n + 1;
	double *ways, total = 0, far = 0, all = (double)n * (double)(n + 1);
	double middle = (double)m * (double)(n + 1), at;

	if ((double)n * (double)m * (double)most > WAYS)
		return -1;
	ways = calloc((m + 1) * most, sizeof(*ways));
	if (!ways)
		return -1;
	ways[0] = 1;
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1 < m ? i + 1 : m; k; k--)
			for (size_t s = most - 1; s >= doubled[i]; s--)
				ways[k * most + s] += ways[(k - 1) * most + s - doubled[i]];
	at = c->n[1] == m ? 2 * sum : all - 2 * sum;
	for (size_t s = 0; s < most; s++) {
		total += ways[m * most + s];
		if (fabs((double)s - middle) >= fabs(at - middle))
			far += ways[m * most + s];
	}
	free(ways);
	return total > 0 && far < INFINITY ? far / total : -1;
}

/* The same from sorted ranks and the sum of the second group's. */
static void sharpen(const struct cohort *c, double sum, double *p)
{
	uint32_t *doubled;
	double exact;

	if (*p > UNLIKELY || c->all > UINT16_MAX)
		return;
	doubled = calloc(c->all, sizeof(*doubled));
	for (size_t i = 0, end; doubled && i < c->all; i = end) {
		for (end = i; end < c->all && c->ranks[end].value == c->ranks[i].value; end++)
			;
		for (size_t k = i; k < end; k++)
			doubled[k] = (uint32_t)(i + 1 + end);
	}
	exact = doubled ? count_ways(c, doubled, sum) : -1;
	free(doubled);
	if (exact >= 0)
		*p = exact;
}

/* Fills p and effect from ranks; false: all are equal. */
static bool test(struct cohort *c, struct cohort_found *found)
{
	double n0 = (double)c->n[0], n1 = (double)c->n[1], n = n0 + n1;
	double sum = 0, ties = 0, u, sigma, z;

	qsort(c->ranks, c->all, sizeof(*c->ranks), compare_ranked);
	for (size_t i = 0, end; i < c->all; i = end) {
		double rank, t, seconds = 0;

		for (end = i; end < c->all && c->ranks[end].value == c->ranks[i].value; end++)
			seconds += c->ranks[end].second;
		rank = (double)(i + 1 + end) / 2;
		t = (double)(end - i);
		sum += rank * seconds;
		ties += t * t * t - t;
	}
	sigma = sqrt(n0 * n1 / 12 * (n + 1 - ties / (n * (n - 1))));
	if (!(sigma > 0))
		return false;
	u = sum - n1 * (n1 + 1) / 2;
	z = fabs(u - n0 * n1 / 2) - 0.5;
	found->p = z > 0 ? erfc(z / sigma / sqrt(2)) : 1;
	sharpen(c, sum, &found->p);
	found->effect = 2 * u / (n0 * n1) - 1;
	found->median[0] = median(c, false);
	found->median[1] = median(c, true);
	return true;
}

/* ---- the files ---- */

static int fail(struct cohort *c, size_t i, int rc)
{
	*c->which = c->paths[i];
	return rc;
}

static int advance(struct cohort *c, size_t i)
{
	int rc = fleet_row_read(&c->in[i].row, c->in[i].f, c->kind, c->diag);

	c->in[i].ended = rc <= 0;
	return rc < 0 ? fail(c, i, rc) : 0;
}

static int open_one(struct cohort *c, size_t i)
{
	struct fleet_head head = { .kind = c->kind };
	int rc;

	c->in[i].f = fopen(c->paths[i], "re");
	if (!c->in[i].f)
		return fail(c, i, diag_set(c->diag, AUX_E_IO, AUX_NO_OFFSET, "%s",
					   strerror(errno)));
	setvbuf(c->in[i].f, NULL, _IOFBF, 8192);
	rc = fleet_head_read(&head, c->in[i].f, c->diag);
	if (!rc && !(head.kind->compared && head.n_units == 1 && head.units[0].unit.whole))
		rc = diag_set(c->diag, AUX_E_INVAL, AUX_NO_OFFSET, "%s: a cohort is made of parts "
			      "of one recording each, by map --do hot, flame, latency, branches "
			      "or coverage",
			      c->paths[i]);
	c->kind = head.kind;
	fleet_head_fini(&head);
	return rc ? fail(c, i, rc) : advance(c, i);
}

/* The smallest key that any file is at; NULL: all have ended. */
static const struct fleet_row *first_row(const struct cohort *c)
{
	const struct fleet_row *best = NULL;

	for (size_t i = 0; i < c->all; i++)
		if (!c->in[i].ended && (!best || fleet_row_compare(&c->in[i].row, best) < 0))
			best = &c->in[i].row;
	return best;
}

/* The file that is farthest from the first group's median, in the direction in which
 * the second is. */
static size_t find_farthest(const struct cohort *c, const bool *has, unsigned value,
			    const struct cohort_found *found)
{
	double best = -1;
	size_t at = 0;

	for (size_t i = 0; i < c->all; i++) {
		double v = has[i] ? (double)c->in[i].row.values[value] : 0;
		double d = found->effect > 0 ? v - found->median[0] : found->median[0] - v;

		if (d > best) {
			best = d;
			at = i;
		}
	}
	return at;
}

/* One number of one key, of all files. has: those that are at the key. */
static int compare_value(struct cohort *c, const struct fleet_row *key, const bool *has,
			 unsigned value)
{
	struct cohort_found found = { .value = value };

	for (size_t i = 0; i < c->all; i++)
		c->ranks[i] = (struct ranked){ has[i] ? c->in[i].row.values[value] : 0,
					       i >= c->n[0] };
	if (!test(c, &found))
		return 0;
	found.farthest = find_farthest(c, has, value, &found);
	found.key = strndup(key->line, key->key_len);
	if (!found.key)
		return -AUX_E_NOMEM;
	return array_append(&c->to->v, &c->to->n, &c->to->cap, &found, sizeof(found));
}

static int compare_key(struct cohort *c, const struct fleet_row *key, bool *has,
		       uint32_t values)
{
	int rc = 0;

	for (size_t i = 0; i < c->all; i++)
		has[i] = !c->in[i].ended && !fleet_row_compare(&c->in[i].row, key);
	for (unsigned v = 0; v < c->kind->n_values && !rc; v++)
		if (values >> v & 1)
			rc = compare_value(c, key, has, v);
	for (size_t i = 0; i < c->all && !rc; i++)
		if (has[i])
			rc = advance(c, i);
	return rc;
}

/* ---- what is chance ---- */

static double difference(const struct cohort_found *f)
{
	return fabs(f->median[1] - f->median[0]);
}

/* Many numbers may tell the groups apart wholly: what differs most comes first then. */
static int compare_found(const void *a, const void *b)
{
	const struct cohort_found *x = a, *y = b;

	if (x->p < y->p || x->p > y->p)
		return x->p < y->p ? -1 : 1;
	if (fabs(x->effect) < fabs(y->effect) || fabs(x->effect) > fabs(y->effect))
		return fabs(x->effect) > fabs(y->effect) ? -1 : 1;
	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	if (difference(x) < difference(y) || difference(x) > difference(y))
		return difference(x) > difference(y) ? -1 : 1;
	return strcmp(x->key, y->key);
}

/* Of the k least likely ones p * n / k may be chance; from the end on, so that more of
 * them are never less likely to be. */
static void correct(struct cohort_result *r)
{
	double least = 1;

	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), compare_found);
	r->n_tests = r->n;
	for (size_t i = r->n; i; i--) {
		double q = r->v[i - 1].p * (double)r->n / (double)i;

		least = q < least ? q : least;
		r->v[i - 1].q = least;
	}
}

/* So many files are open at a time. */
static void allow_files(void)
{
	struct rlimit l;

	if (!getrlimit(RLIMIT_NOFILE, &l) && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

int cohort_compare(struct cohort_result *r, const char *const *paths, const size_t n[2],
		   uint32_t values, const struct fleet_kind **kind, const char **which,
		   struct aux_diag *diag)
{
	struct cohort c = { .n = { n[0], n[1] }, .all = n[0] + n[1], .paths = paths,
			    .which = which, .diag = diag, .to = r, .kind = *kind };
	const struct fleet_row *key;
	bool *has;
	int rc = 0;

	*r = (struct cohort_result){ .n = 0 };
	*which = NULL;
	if (n[0] < COHORT_MIN || n[1] < COHORT_MIN)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "groups of %zu and %zu: each "
				"wants at least %d recordings, for fewer can prove nothing",
				n[0], n[1], COHORT_MIN);
	allow_files();
	c.in = calloc(c.all, sizeof(*c.in));
	c.ranks = calloc(c.all, sizeof(*c.ranks));
	has = calloc(c.all, sizeof(*has));
	if (!c.in || !c.ranks || !has)
		rc = -AUX_E_NOMEM;
	for (size_t i = 0; i < c.all && !rc; i++)
		rc = open_one(&c, i);
	while (!rc && (key = first_row(&c))) {
		struct fleet_row at = *key;

		at.line = strndup(key->line, key->key_len);
		rc = at.line ? compare_key(&c, &at, has, values) : -AUX_E_NOMEM;
		free(at.line);
	}
	for (size_t i = 0; c.in && i < c.all; i++) {
		if (c.in[i].f)
			fclose(c.in[i].f);
		fleet_row_fini(&c.in[i].row);
	}
	free(c.in);
	free(c.ranks);
	free(has);
	*kind = c.kind;
	correct(r);
	return rc;
}

int cohort_kind(const struct fleet_kind **kind, const char *path, const char **which,
		struct aux_diag *diag)
{
	struct fleet_head head = { .kind = NULL };
	FILE *f = path ? fopen(path, "re") : NULL;
	int rc;

	*which = path;
	if (!f)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s",
				path ? strerror(errno) : "no file in the groups");
	rc = fleet_head_read(&head, f, diag);
	*kind = head.kind;
	fleet_head_fini(&head);
	fclose(f);
	return rc;
}

void cohort_fini(struct cohort_result *r)
{
	while (r->n)
		free(r->v[--r->n].key);
	free(r->v);
	*r = (struct cohort_result){ .n = 0 };
}
