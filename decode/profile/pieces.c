/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * branchlist: pieces, the runs that a border between two parts of a recording
 * cuts. Pieces that meet at a cut are one, in whatever order the lists of the parts
 * were read; one with no cut left is a range.
 */
#include <stdlib.h>

#include "common/array.h"
#include "decode/profile/branchlist.h"

int branchlist_piece(struct branchlist *l, const struct branchlist_piece *p)
{
	if (array_grow(&l->pieces, l->n_pieces, &l->max_pieces,
		       sizeof(*l->pieces)) < 0)
		return -AUX_E_NOMEM;
	l->pieces[l->n_pieces++] = *p;
	return 0;
}

/* Where a piece is in its stream: what ends at a cut precedes what begins there. */
static uint64_t place_of(const struct branchlist_piece *p)
{
	return p->head != BRANCHLIST_NO_CUT ? p->head : p->tail;
}

static int order_pieces(const void *a, const void *b)
{
	const struct branchlist_piece *x = a, *y = b;
	uint64_t at = place_of(x), bt = place_of(y);

	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	if (at != bt)
		return at < bt ? -1 : 1;
	/* NO_CUT is the largest number: a piece without a head comes first */
	if (x->head != y->head)
		return x->head > y->head ? -1 : 1;
	return (x->tail > y->tail) - (x->tail < y->tail);
}

static bool meets(const struct branchlist_piece *a,
		  const struct branchlist_piece *b)
{
	return a->stream == b->stream && a->tail != BRANCHLIST_NO_CUT &&
	       a->tail == b->head;
}

/* b goes on where a ends. */
static struct branchlist_piece join(const struct branchlist_piece *a,
				    const struct branchlist_piece *b)
{
	struct branchlist_piece p = *a;

	if (!a->n_insns) {
		p.module = b->module;
		p.first = b->first;
	}
	if (b->n_insns)
		p.last = b->last;
	p.n_insns = a->n_insns + b->n_insns;
	p.tail = b->tail;
	return p;
}

/* A range, if anything ran. */
static int add_range(struct branchlist *l, const struct branchlist_piece *p)
{
	struct branchlist_range r = { .module = p->module,
				      .outside = p->outside, .first = p->first,
				      .last = p->last, .n_insns = p->n_insns };
	int i;

	if (!p->n_insns)
		return 0;
	i = branchlist_range(l, &r);
	if (i < 0)
		return i;
	branchlist_add_count(&branchlist_ranges(l)[i].count, 1);
	return 0;
}

/* Two parts of one place: they are of several recordings, or one was given
 * twice. */
static bool has_twice(const struct branchlist *l)
{
	for (size_t i = 1; i < l->n_pieces; i++) {
		const struct branchlist_piece *a = &l->pieces[i - 1], *b = a + 1;

		if (a->stream == b->stream && place_of(a) == place_of(b) &&
		    (a->head == b->head || (a->tail == b->tail &&
					    a->tail != BRANCHLIST_NO_CUT)))
			return true;
	}
	return false;
}

int branchlist_join(struct branchlist *l)
{
	size_t n = l->n_pieces, kept = 0;
	int err = 0;

	if (n)
		qsort(l->pieces, n, sizeof(*l->pieces), order_pieces);
	if (has_twice(l))
		return -AUX_E_INVAL;
	for (size_t i = 0; i < n && !err; i++) {
		struct branchlist_piece p = l->pieces[i];

		while (i + 1 < n && meets(&p, &l->pieces[i + 1]))
			p = join(&p, &l->pieces[++i]);
		if (p.head == BRANCHLIST_NO_CUT && p.tail == BRANCHLIST_NO_CUT)
			err = add_range(l, &p);
		else
			l->pieces[kept++] = p;
	}
	l->n_pieces = kept;
	return err;
}

int branchlist_close(struct branchlist *l)
{
	int err = 0;

	for (size_t i = 0; i < l->n_pieces && !err; i++) {
		l->pieces[i].outside |= l->pieces[i].head != BRANCHLIST_NO_CUT;
		err = add_range(l, &l->pieces[i]);
	}
	l->n_pieces = 0;
	return err;
}
