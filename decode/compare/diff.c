/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diff: two flows in lockstep, and where they meet again after a difference: of
 * all places in a window where DIFF_MEET instructions in a row are the same,
 * the one that leaves the fewest out. The window grows until there is one.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/compare/diff.h"
#include "decode/lib/trace/gap.h"

/*
 * One thread's flow as a row of instructions, of which a window is held. A GAP
 * is an element, too, equal to no other: nothing is known to be equal across
 * it.
 */

#define KEPT (4 * DIFF_CONTEXT)	/* elements before head that are kept to be shown */

void diff_side_init(struct diff_side *s, struct diff_code *code, uint32_t tid)
{
	*s = (struct diff_side){ .code = code, .tid = tid };
	aux_decode_select_tid(code->d, tid);
}

void diff_side_fini(struct diff_side *s)
{
	free(s->v);
	s->v = NULL;
}

/* Room for n more elements. What is long past head is dropped first, and the
 * array is at most half full after it has grown: an element is moved once on
 * average. */
static int make_room(struct diff_side *s, size_t n)
{
	size_t drop = s->head > KEPT ? s->head - KEPT : 0;
	size_t want = s->max ? s->max : 8192;
	struct diff_elem *bigger;

	if (s->n + n <= s->max)
		return 0;
	if (drop)
		memmove(s->v, s->v + drop, (s->n - drop) * sizeof(*s->v));
	s->n -= drop;
	s->head -= drop;
	while (want < 2 * (s->n + n))
		want *= 2;
	if (want == s->max)
		return 0;
	bigger = reallocarray(s->v, want, sizeof(*bigger));
	if (!bigger)
		return -AUX_E_NOMEM;
	s->v = bigger;
	s->max = want;
	return 0;
}

static int add_gap(struct diff_side *s, const struct space *space, uint64_t ip,
		   unsigned cause)
{
	if (make_room(s, 1))
		return -AUX_E_NOMEM;
	s->v[s->n++] = (struct diff_elem){ .key = ++s->n_gaps, .ip = ip,
					   .space = space,
					   .gap = (uint8_t)cause };
	return 0;
}

/* A RANGE that cannot be expanded is a gap: its instructions are not known, so
 * they are not equal to anything. */
static int add_range(struct diff_side *s, const struct space *space,
		     const struct aux_flow *ev)
{
	const struct diff_range *d;
	struct diff_elem *e;
	struct walk_range *r;
	int rc = diff_code_find(s->code, space, ev, &r);

	if (rc < 0)
		return rc == -AUX_E_NOMEM ? rc :
		       add_gap(s, space, ev->range.first,
			       rc == -AUX_E_NOENT ? AUX_GAP_NO_CODE :
						    AUX_GAP_DESYNC);
	if (make_room(s, r->n))
		return -AUX_E_NOMEM;
	d = r->user;
	e = s->v + s->n;
	for (uint32_t i = 0; i < r->n; i++)
		e[i] = (struct diff_elem){ .key = d->key + r->off[i],
					   .ip = r->first + r->off[i],
					   .space = space, .mode = r->mode };
	s->n += r->n;
	return 0;
}

/* Adds the elements of one event. */
static int add_event(struct diff_side *s, const struct aux_flow *ev)
{
	const struct space *space = (const struct space *)s->batch.ctx.space;

	if (s->batch.ctx.tid != s->tid)
		return 0;
	if (ev->kind == AUX_FLOW_RANGE)
		return add_range(s, space, ev);
	if (ev->kind == AUX_FLOW_GAP && aux_gap_is_loss(ev->what))
		return add_gap(s, space, ev->gap.ip, ev->what);
	return 0;
}

/* Reads on until there are n elements from head on, or the flow ends. 0, or an
 * error. */
static int diff_side_need(struct diff_side *s, size_t n, struct aux_diag *diag)
{
	int rc = 0;

	while (rc >= 0 && !s->ended && diff_side_left(s) < n) {
		if (s->at < s->batch.n) {
			rc = add_event(s, &s->batch.events[s->at++]);
			continue;
		}
		s->at = 0;
		rc = aux_decode_next(s->code->d, &s->batch, diag);
		s->ended = rc == 0;
	}
	return rc < 0 ? rc : 0;
}

/* Moves head past n elements, which are there; index counts instructions, not
 * gaps. */
static void diff_side_take(struct diff_side *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s->index += !s->v[s->head + i].gap;
	s->head += n;
}

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

/* A hash table of each row of DIFF_MEET instructions in a window: its first
 * place. */
struct rows {
	uint32_t *slots;	/* place + 1 */
	uint64_t *hashes;	/* of each place */
	size_t mask;
};

/*
 * The hash of each row of DIFF_MEET elements in v[0..n), into h; returns how
 * many rows. It rolls: the sum is a polynomial in FACTOR, of which the term
 * that leaves is subtracted.
 */
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

/* Of equal rows only the first is kept: a later one would leave more out. */
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

/* The first place of a row; SIZE_MAX: there is none. */
static size_t find_row(const struct rows *r, uint64_t h)
{
	size_t at = slot_of(r, h);

	for (; r->slots[at]; at = (at + 1) & r->mask)
		if (r->hashes[r->slots[at] - 1] == h)
			return r->slots[at] - 1;
	return SIZE_MAX;
}

/*
 * The place from which both go on alike, with the least left out: the sum of
 * what is skipped in A and in B. Rows of B are tried in order, until j alone is
 * more than the best sum. Hashes may collide and gaps have keys, too, so a row
 * counts only when its instructions were compared.
 */
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

/* Looks in what is read of both. 1: they meet in it, after skip[]; 0;
 * -AUX_E_NOMEM. */
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

/* The flows part here: finds where they meet, in windows that grow fourfold,
 * since most differences are short. Without a meeting all that was read is
 * skipped. */
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

/* Reports a difference and goes past it. 1: found wants no more, or they do not
 * meet. */
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

/* A STEP at a time, which bounds what is held while the flows are equal; only a
 * difference reads further ahead. */
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
