/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge: which files are parts of one recording, and new numbers for the others.
 *
 * A file is a part when it has event ids of an earlier one and says the same of
 * every byte of a stream that both have.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"

#include "decode/edit/merge_impl.h"
#include "decode/lib/sideband/sideband.h"

#define PAD 8	/* an AUXTRACE payload has less than this of padding */

int merge_add_piece(struct merge_pieces *p, const struct merge_piece *piece)
{
	if (array_grow(&p->v, p->n, &p->cap, sizeof(*p->v)) < 0)
		return -AUX_E_NOMEM;
	p->v[p->n++] = *piece;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct merge_piece *x = a, *y = b;

	if (x->h.idx != y->h.idx)
		return x->h.idx < y->h.idx ? -1 : 1;
	if (x->h.offset != y->h.offset)
		return x->h.offset < y->h.offset ? -1 : 1;
	if (x->h.size != y->h.size)
		return x->h.size < y->h.size ? -1 : 1;
	return x->input < y->input ? -1 : x->input > y->input;
}

/* The first piece of a stream that ends behind offset. Pieces are sorted, and
 * nearly disjoint: the one before may reach over it. */
static size_t find_piece(const struct merge_pieces *p, uint32_t idx,
			 uint64_t offset)
{
	size_t lo = 0, n = p->n;

	while (n) {
		const struct merge_piece *m = &p->v[lo + n / 2];

		if (m->h.idx < idx ||
		    (m->h.idx == idx && m->h.offset <= offset)) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return lo && p->v[lo - 1].h.idx == idx ? lo - 1 : lo;
}

/* Whether two pieces of one stream agree about what both have. */
static bool agree(const struct merge_piece *a, const struct merge_piece *b)
{
	uint64_t from = a->h.offset > b->h.offset ? a->h.offset : b->h.offset;
	uint64_t a_end = a->h.offset + a->h.size;
	uint64_t b_end = b->h.offset + b->h.size;
	uint64_t end = a_end < b_end ? a_end : b_end;

	if (a->h.cpu != b->h.cpu || a->h.tid != b->h.tid)
		return false;
	if (end <= from || end - from < PAD)
		return true;	/* nothing in common, or padding */
	return !memcmp(a->data + (from - a->h.offset),
		       b->data + (from - b->h.offset), end - from - (PAD - 1));
}

static bool same_streams(const struct merge *m, const struct merge_input *in)
{
	for (size_t i = 0; i < in->pieces.n; i++) {
		const struct merge_piece *p = &in->pieces.v[i];
		size_t k = find_piece(&m->pieces, p->h.idx, p->h.offset);

		for (; k < m->pieces.n && m->pieces.v[k].h.idx == p->h.idx &&
		       m->pieces.v[k].h.offset < p->h.offset + p->h.size; k++)
			if (!agree(&m->pieces.v[k], p))
				return false;
	}
	return true;
}

static bool shares_ids(const struct merge *m, size_t i)
{
	const struct aux_attr *a, *b;

	for (size_t n = 0; (a = aux_reader_attr(m->in[i].r, n)); n++) {
		for (size_t k = 0; k < i; k++) {
			if (m->in[k].id_add || !a->n_ids)
				continue;
			b = aux_reader_attr_by_id(m->in[k].r, a->ids[0]);
			if (b && b->attr.type == a->attr.type &&
			    b->attr.config == a->attr.config)
				return true;
		}
	}
	return false;
}

static uint64_t max_id(const struct merge *m, size_t n)
{
	const struct aux_attr *a;
	uint64_t max = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; (a = aux_reader_attr(m->in[i].r, k)); k++)
			for (uint32_t j = 0; j < a->n_ids; j++)
				if (a->ids[j] + m->in[i].id_add > max)
					max = a->ids[j] + m->in[i].id_add;
	return max;
}

static uint32_t next_idx(const struct merge *m, size_t n)
{
	uint32_t next = 0;

	for (size_t i = 0; i < n; i++)
		if (m->in[i].idx_add + m->in[i].max_idx >= next)
			next = m->in[i].idx_add + m->in[i].max_idx + 1;
	return next;
}

static int add_pieces(struct merge *m, size_t i)
{
	struct merge_input *in = &m->in[i];

	for (size_t k = 0; k < in->pieces.n; k++) {
		struct merge_piece p = in->pieces.v[k];

		p.h.idx += in->idx_add;
		p.input = (uint32_t)i;
		if (merge_add_piece(&m->pieces, &p) < 0)
			return -AUX_E_NOMEM;
	}
	if (m->pieces.n)
		qsort(m->pieces.v, m->pieces.n, sizeof(*m->pieces.v), by_place);
	return 0;
}

/* Whether no number stands for other bytes in the two. */
static bool same_blobs(const struct merge_input *a, const struct merge_input *b)
{
	size_t i = 0, k = 0;

	while (i < a->n_blobs && k < b->n_blobs) {
		if (a->blobs[i].number < b->blobs[k].number)
			i++;
		else if (a->blobs[i].number > b->blobs[k].number)
			k++;
		else if (a->blobs[i++].sum != b->blobs[k++].sum)
			return false;
	}
	return true;
}

/* Cuts of a file have its blobs, so that what two of them have is said once. */
static void number_blobs(struct merge *m, size_t i)
{
	struct merge_input *in = &m->in[i];
	bool same = in->is_part;

	for (size_t k = 0; k < i && same; k++)
		same = m->in[k].blob_add || same_blobs(&m->in[k], in);
	for (size_t k = 0; k < i && !same; k++)
		if (m->in[k].blob_add + m->in[k].max_blob + 1 > in->blob_add)
			in->blob_add = m->in[k].blob_add + m->in[k].max_blob + 1;
}

static int number(struct merge *m, size_t i, struct aux_diag *diag)
{
	struct merge_input *in = &m->in[i];
	bool shared = i && shares_ids(m, i);
	int rc;

	in->is_part = shared && same_streams(m, in);
	m->stats.n_parts += in->is_part;
	if (i && !in->is_part) {
		rc = merge_check_apart(in, diag);
		if (rc == 0)
			rc = merge_check_apart(&m->in[0], diag);
		if (rc < 0)
			return rc;
		in->id_add = max_id(m, i);
		in->idx_add = next_idx(m, i);
	}
	number_blobs(m, i);
	return add_pieces(m, i);
}

int merge_number(struct merge *m, const char **which, struct aux_diag *diag)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < m->n; i++) {
		*which = m->in[i].path;
		rc = number(m, i, diag);
	}
	return rc;
}
