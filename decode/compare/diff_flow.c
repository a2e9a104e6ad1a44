/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diff_flow: two flows in lockstep, and where they meet again behind a difference:
 * of all places in a window where DIFF_MEET instructions in a row are the same, the
 * one that leaves the fewest out. The window grows until there is one.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/compare/diff.h"

#define STEP 8192	/* instructions compared in one go */
#define WINDOW_MIN 256
#define FACTOR UINT64_C(0x9e3779b97f4a7c15)	/* of the rolling hash */

static bool is_same(const struct diff_elem *a, const struct diff_elem *b)
{
	return a->key == b->key && !a->gap && !b->gap;
}

static size_t count_same(const struct diff_elem *a, const struct diff_elem *b,
			 size_t n)
{
	size_t i = 0;

	while (i < n && is_same(&a[i], &b[i]))
		i++;
	return i;
}

/* First places of each row of DIFF_MEET instructions. */
struct rows {
	uint32_t *slots;	/* place + 1 */
	uint64_t *hashes;	/* of each place */
	size_t mask;
};

static size_t hash_rows(uint64_t *h, const struct diff_elem *v, size_t n)
{
	uint64_t sum = 0, out = 1;

	if (n < DIFF_MEET)
		return 0;
	for (unsigned i = 0; i < DIFF_MEET; i++)
		out *= FACTOR;
	for (size_t i = 0; i < n; i++) {
		sum = sum * FACTOR + v[i].key;
		if (i >= DIFF_MEET)
			sum -= v[i - DIFF_MEET].key * out;
		if (i + 1 >= DIFF_MEET)
			h[i + 1 - DIFF_MEET] = sum;
	}
	return n + 1 - DIFF_MEET;
}

static size_t slot_of(const struct rows *r, uint64_t h)
{
	return (size_t)((h ^ h >> 31) * FACTOR >> 24) & r->mask;
}

static void insert_rows(struct rows *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = slot_of(r, r->hashes[i]);

		while (r->slots[at] &&
		       r->hashes[r->slots[at] - 1] != r->hashes[i])
			at = (at + 1) & r->mask;
		if (!r->slots[at])
			r->slots[at] = (uint32_t)i + 1;
	}
}

/* The first place of a row; SIZE_MAX: it is nowhere. */
static size_t find_row(const struct rows *r, uint64_t h)
{
	size_t at = slot_of(r, h);

	for (; r->slots[at]; at = (at + 1) & r->mask)
		if (r->hashes[r->slots[at] - 1] == h)
			return r->slots[at] - 1;
	return SIZE_MAX;
}

/* Where both go on alike, with the least left out. */
static bool find_meeting(struct diff_flow *f, struct rows *r, uint64_t *other)
{
	const struct diff_side *a = &f->side[0], *b = &f->side[1];
	const struct diff_elem *va = a->v + a->head, *vb = b->v + b->head;
	size_t na = hash_rows(r->hashes, va, diff_side_left(a));
	size_t nb = hash_rows(other, vb, diff_side_left(b));
	size_t best = SIZE_MAX;

	insert_rows(r, na);
	for (size_t j = 0; j < nb && j < best; j++) {
		size_t i = find_row(r, other[j]);

		if (i == SIZE_MAX || i + j >= best ||
		    count_same(va + i, vb + j, DIFF_MEET) < DIFF_MEET)
			continue;
		best = i + j;
		f->skip[0] = i;
		f->skip[1] = j;
	}
	return best != SIZE_MAX;
}

/* What is there of both, as a window: 1: they meet in it. */
static int look_in_window(struct diff_flow *f)
{
	size_t na = diff_side_left(&f->side[0]), size = 64;
	size_t nb = diff_side_left(&f->side[1]);
	uint64_t *other = malloc((nb + 1) * sizeof(*other));
	struct rows r = { .hashes = malloc((na + 1) * sizeof(*r.hashes)) };
	int rc = -AUX_E_NOMEM;

	while (size < 2 * na)
		size *= 2;
	r.slots = calloc(size, sizeof(*r.slots));
	r.mask = size - 1;
	if (other && r.hashes && r.slots)
		rc = find_meeting(f, &r, other);
	free(r.slots);
	free(r.hashes);
	free(other);
	return rc;
}

/* The flows part here. */
static int find_end(struct diff_flow *f, struct aux_diag *diag)
{
	struct diff_side *a = &f->side[0], *b = &f->side[1];
	int rc = 0;

	for (size_t w = WINDOW_MIN; w <= DIFF_WINDOW; w *= 4) {
		rc = diff_side_need(a, w, diag);
		if (rc == 0)
			rc = diff_side_need(b, w, diag);
		if (rc == 0)
			rc = look_in_window(f);
		if (rc)
			break;
		if (a->ended && b->ended && diff_side_left(a) <= w &&
		    diff_side_left(b) <= w)
			break;
	}
	f->met = rc > 0;
	if (!f->met) {
		f->skip[0] = diff_side_left(a);
		f->skip[1] = diff_side_left(b);
	}
	return rc < 0 ? rc : 0;
}

/* A difference. 1: enough. */
static int part(struct diff_flow *f, struct aux_diag *diag)
{
	int rc = find_end(f, diag);

	if (rc < 0)
		return rc;
	f->n_found++;
	rc = f->found(f->priv, f);
	diff_side_take(&f->side[0], f->skip[0]);
	diff_side_take(&f->side[1], f->skip[1]);
	return rc ? rc : !f->met;
}

int diff_flow_run(struct diff_flow *f, struct aux_diag *diag)
{
	struct diff_side *a = &f->side[0], *b = &f->side[1];
	size_t n, same;
	int rc = 0;

	while (!rc) {
		rc = diff_side_need(a, STEP, diag);
		if (rc == 0)
			rc = diff_side_need(b, STEP, diag);
		if (rc)
			break;
		n = diff_side_left(a) < diff_side_left(b) ? diff_side_left(a) :
							    diff_side_left(b);
		same = count_same(a->v + a->head, b->v + b->head, n);
		diff_side_take(a, same);
		diff_side_take(b, same);
		/* all of a step is the same, or both have come to their end */
		if (same == STEP || (!diff_side_left(a) && !diff_side_left(b)))
			rc = same ? 0 : 1;
		else if (same < n || !n)
			rc = part(f, diag);
	}
	return rc < 0 ? rc : 0;
}
