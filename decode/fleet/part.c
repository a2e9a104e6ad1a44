/* SPDX-License-Identifier: BSD-2-Clause */
/* The head of a part: see fleet.h. It is text that people can read, and cut and sort. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/fleet/fleet.h"

void fleet_head_fini(struct fleet_head *h)
{
	free(h->units);
	*h = (struct fleet_head){ 0 };
}

int fleet_head_add_unit(struct fleet_head *h, const struct fleet_done *u)
{
	return array_append(&h->units, &h->n_units, &h->cap_units, u, sizeof(*u));
}

int fleet_head_add_gaps(struct fleet_head *h, const char *cause, uint64_t n)
{
	unsigned i;

	for (i = 0; i < h->n_causes && strcmp(h->causes[i].name, cause); i++)
		;
	if (i == FLEET_CAUSES)
		return -AUX_E_LIMIT;
	if (i == h->n_causes)
		snprintf(h->causes[h->n_causes++].name, sizeof(h->causes[i].name), "%s", cause);
	h->causes[i].n += n;
	return 0;
}

static int compare_units(const void *a, const void *b)
{
	const struct fleet_done *x = a, *y = b;

	return fleet_unit_compare(&x->unit, &y->unit);
}

static int compare_causes(const void *a, const void *b)
{
	const struct fleet_cause *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* In their order, a unit overlaps the next one, or, if it is all of a recording, others
 * that follow. */
int fleet_head_settle(struct fleet_head *h, struct aux_diag *diag)
{
	char a[FLEET_NAME], b[FLEET_NAME];

	if (h->n_units)
		qsort(h->units, h->n_units, sizeof(*h->units), compare_units);
	if (h->n_causes)
		qsort(h->causes, h->n_causes, sizeof(*h->causes), compare_causes);
	for (size_t i = 1; i < h->n_units; i++) {
		const struct fleet_unit *x = &h->units[i - 1].unit, *y = &h->units[i].unit;

		if (!fleet_unit_overlap(x, y))
			continue;
		fleet_unit_text(a, x);
		fleet_unit_text(b, y);
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				strcmp(a, b) ? "units %s and %s have trace in common: their sums "
					       "cannot be added" :
					       "unit %s is in several parts: its sums cannot be "
					       "added twice", a, b);
	}
	return 0;
}

const struct fleet_unit *fleet_head_find(const struct fleet_head *h, const char *id,
					 uint32_t stream, uint64_t chunk)
{
	struct fleet_unit key = { .stream = stream, .chunk_from = chunk };
	size_t from = 0, to = h->n_units;

	memcpy(key.id, id, FLEET_ID + 1);
	while (from < to) {
		size_t at = from + (to - from) / 2;

		if (fleet_unit_compare(&h->units[at].unit, &key) < 0)
			from = at + 1;
		else
			to = at;
	}
	if (from == h->n_units)
		return NULL;
	key.chunk_to = h->units[from].unit.chunk_to;
	return fleet_unit_compare(&h->units[from].unit, &key) ? NULL : &h->units[from].unit;
}

void fleet_head_write(const struct fleet_head *h, struct outbuf *out)
{
	const struct fleet_kind *kind = h->kind;
	char name[FLEET_NAME];

	outbuf_printf(out, "auxkit part %d\ndo\t%s\n", FLEET_VERSION, kind->name);
	for (size_t i = 0; i < h->n_units; i++) {
		const struct fleet_done *u = &h->units[i];

		outbuf_printf(out, "unit\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			      "\t%" PRIu64 "\t%d\n", fleet_unit_text(name, &u->unit),
			      u->unit.bytes, u->decoded, u->n_insns, u->n_gaps, u->lost, u->lossy);
	}
	for (unsigned i = 0; i < h->n_causes; i++)
		outbuf_printf(out, "gap\t%s\t%" PRIu64 "\n", h->causes[i].name, h->causes[i].n);
	outbuf_str(out, "rows");
	for (const char *s = kind->keys; *s; s += strcspn(s, " "), s += *s == ' ')
		outbuf_printf(out, "\t%.*s", (int)strcspn(s, " "), s);
	outbuf_str(out, "\t:");
	for (unsigned i = 0; i < kind->n_values; i++)
		outbuf_printf(out, "\t%s", kind->values[i].name);
	outbuf_str(out, "\n");
}

/* ---- reading ---- */

struct lines {
	FILE *f;
	char *line;
	size_t cap;
	uint64_t n;	/* of the line, from 1 */
	struct aux_diag *diag;
};

static int refuse(const struct lines *l, const char *why)
{
	return diag_set(l->diag, AUX_E_FORMAT, AUX_NO_OFFSET, "line %" PRIu64 ": %s", l->n, why);
}

/* The next line, without its end. */
static int next_line(struct lines *l)
{
	ssize_t n = getline(&l->line, &l->cap, l->f);

	l->n++;
	if (n <= 0 || l->line[n - 1] != '\n')
		return refuse(l, ferror(l->f) ? strerror(errno) : "the part ends in its head");
	l->line[n - 1] = '\0';
	return strlen(l->line) == (size_t)n - 1 ? 0 : refuse(l, "a zero byte");
}

/* A number after a tab; NULL: there is none. */
static char *take_number(char *s, uint64_t *v)
{
	char *end;

	if (!s || *s != '\t' || s[1] < '0' || s[1] > '9')
		return NULL;
	errno = 0;
	*v = strtoull(s + 1, &end, 10);
	return errno ? NULL : end;
}

static int read_unit(struct lines *l, struct fleet_head *h)
{
	char *name = l->line + 5, *p = strchr(name, '\t');
	struct fleet_done u = { .decoded = 0 };
	uint64_t bytes = 0, lossy = 0;

	if (p)
		*p = '\0';
	if (!p || fleet_unit_parse(&u.unit, name))
		return refuse(l, "no unit");
	*p = '\t';
	p = take_number(p, &bytes);
	p = take_number(p, &u.decoded);
	p = take_number(p, &u.n_insns);
	p = take_number(p, &u.n_gaps);
	p = take_number(p, &u.lost);
	p = take_number(p, &lossy);
	if (!p || *p || lossy > 1)
		return refuse(l, "a unit has six numbers");
	u.unit.bytes = bytes;
	u.lossy = lossy;
	return fleet_head_add_unit(h, &u);
}

static int read_gap(struct lines *l, struct fleet_head *h)
{
	char *name = l->line + 4, *p = strchr(name, '\t');
	uint64_t v = 0;

	if (!p || p == name || (size_t)(p - name) >= sizeof(h->causes[0].name))
		return refuse(l, "no cause of a gap");
	*p = '\0';
	if (strspn(name, "abcdefghijklmnopqrstuvwxyz-") != strlen(name))
		return refuse(l, "no cause of a gap");
	*p = '\t';
	if (!(p = take_number(p, &v)) || *p)
		return refuse(l, "a cause has one number");
	*strchr(name, '\t') = '\0';
	return fleet_head_add_gaps(h, name, v) ? refuse(l, "too many causes of gaps") : 0;
}

/* The first two lines: what it is, and of what. */
static int read_begin(struct lines *l, struct fleet_head *h)
{
	const struct fleet_kind *kind;
	unsigned version;
	int end = 0, rc = next_line(l);

	if (rc || sscanf(l->line, "auxkit part %u%n", &version, &end) != 1 || l->line[end])
		return diag_set(l->diag, AUX_E_FORMAT, 0, "not a part: `auxdecode map` makes them");
	if (version != FLEET_VERSION)
		return diag_set(l->diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"a part of version %u; this program makes and joins version %d: "
				"map its units again", version, FLEET_VERSION);
	rc = next_line(l);
	if (rc)
		return rc;
	kind = strncmp(l->line, "do\t", 3) ? NULL : fleet_kind_named(l->line + 3);
	if (!kind)
		return refuse(l, "does not say what was summed up");
	if (h->kind && h->kind != kind)
		return diag_set(l->diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"a part of --do %s among parts of --do %s", kind->name,
				h->kind->name);
	h->kind = kind;
	return 0;
}

int fleet_head_read(struct fleet_head *h, FILE *f, struct aux_diag *diag)
{
	struct lines l = { .f = f, .diag = diag };
	int rc = read_begin(&l, h);

	while (!rc) {
		rc = next_line(&l);
		if (rc || !strncmp(l.line, "rows\t", 5))
			break;
		if (!strncmp(l.line, "unit\t", 5))
			rc = read_unit(&l, h);
		else if (!strncmp(l.line, "gap\t", 4))
			rc = read_gap(&l, h);
		else
			rc = refuse(&l, "not a line of a part");
	}
	free(l.line);
	return rc;
}
