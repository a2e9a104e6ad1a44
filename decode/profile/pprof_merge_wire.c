/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge_pprof_wire: fields of a profile, and what names others by number in it.
 * Every length is checked against the message that it is in.
 *
 * Specification: Protocol Buffers, "Encoding".
 */
#include "decode/profile/pprof_merge_file.h"

int merge_pprof_bad(const struct pprof_file *f, const uint8_t *at,
		    const char *what)
{
	return diag_set(f->diag, AUX_E_FORMAT, (uint64_t)(at - f->base),
			"no pprof profile: %s", what);
}

int merge_pprof_push(struct pprof_words *w, uint64_t v)
{
	if (array_grow(&w->v, w->n, &w->max, sizeof(*w->v)) < 0)
		return -AUX_E_NOMEM;
	w->v[w->n++] = v;
	return 0;
}

/* ---- the wire ---- */

static bool take_varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	*v = 0;
	for (unsigned shift = 0; shift < 70 && *p < end; shift += 7) {
		uint8_t byte = *(*p)++;

		if (shift < 64)
			*v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

int merge_pprof_next(const struct pprof_file *f, const uint8_t **p,
		     const uint8_t *end, struct pprof_field *to)
{
	const uint8_t *at = *p;
	uint64_t tag, n = 0;

	if (at == end)
		return 0;
	*to = (struct pprof_field){ 0 };
	if (!take_varint(p, end, &tag) || !(tag >> 3))
		return merge_pprof_bad(f, at, "a field without a number");
	to->number = tag >> 3;
	to->wire = tag & 7;
	switch (to->wire) {
	case WIRE_VARINT:
		if (!take_varint(p, end, &to->v))
			return merge_pprof_bad(f, at, "a number is cut");
		return 1;
	case WIRE_FIXED64:
		n = 8;
		break;
	case WIRE_FIXED32:
		n = 4;
		break;
	case WIRE_LEN:
		if (take_varint(p, end, &n))
			break;
		/* fall through */
	default:
		return merge_pprof_bad(f, at, "a field of no known kind");
	}
	if (n > (uint64_t)(end - *p))
		return merge_pprof_bad(f, at, "a field is cut");
	to->p = *p;
	to->end = *p += n;
	return 1;
}

int merge_pprof_push_numbers(const struct pprof_file *f,
			     const struct pprof_field *fd,
			     struct pprof_words *to)
{
	const uint8_t *p = fd->p;
	uint64_t v;
	int rc = 0;

	if (fd->wire == WIRE_VARINT)
		return merge_pprof_push(to, fd->v);
	if (fd->wire != WIRE_LEN)
		return merge_pprof_bad(f, fd->p, "numbers of no known kind");
	while (p < fd->end && !rc)
		rc = take_varint(&p, fd->end, &v)
			     ? merge_pprof_push(to, v)
			     : merge_pprof_bad(f, p, "a number is cut");
	return rc;
}

int merge_pprof_numbers(const struct pprof_file *f,
			const struct pprof_field *message, uint64_t *v,
			size_t n)
{
	const uint8_t *p = message->p;
	struct pprof_field fd;
	int rc;

	memset(v, 0, n * sizeof(*v));
	if (message->wire != WIRE_LEN)
		return merge_pprof_bad(f, f->base,
				       "a number where a message is due");
	while ((rc = merge_pprof_next(f, &p, message->end, &fd)) > 0)
		if (fd.wire == WIRE_VARINT && fd.number < n)
			v[fd.number] = fd.v;
	return rc;
}

/* ---- what is named by number ---- */

int merge_pprof_string(const struct pprof_file *f, const struct pprof_field *at,
		       uint64_t i, uint64_t *to)
{
	if (i && i >= f->strings.n)
		return merge_pprof_bad(f, at->p ? at->p : f->base,
				       "a string that is not there");
	*to = i ? f->strings.v[i] : 0;
	return 0;
}

static int compare_ids(const void *a, const void *b)
{
	const struct pprof_id *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

const struct pprof_id *merge_pprof_find(const struct pprof_ids *ids,
					uint64_t id)
{
	const struct pprof_id key = { .id = id };

	return ids->n ? bsearch(&key, ids->v, ids->n, sizeof(key), compare_ids)
		      : NULL;
}

int merge_pprof_sort(const struct pprof_file *f, struct pprof_ids *ids)
{
	if (ids->n)
		qsort(ids->v, ids->n, sizeof(*ids->v), compare_ids);
	for (size_t i = 1; i < ids->n; i++)
		if (ids->v[i].id == ids->v[i - 1].id)
			return merge_pprof_bad(f, f->base,
					       "an id is there twice");
	return 0;
}

int merge_pprof_add_id(const struct pprof_file *f, const struct pprof_field *at,
		       struct pprof_ids *ids, uint64_t id, uint64_t start,
		       int64_t index)
{
	if (index < 0)
		return (int)index;
	if (!id)
		return merge_pprof_bad(f, at->p, "an id is 0");
	if (array_grow(&ids->v, ids->n, &ids->max, sizeof(*ids->v)) < 0)
		return -AUX_E_NOMEM;
	ids->v[ids->n++] = (struct pprof_id){ id, start, (uint64_t)index };
	return 0;
}

void merge_pprof_add(int64_t *sum, int64_t v)
{
	if (__builtin_add_overflow(*sum, v, sum))
		*sum = v < 0 ? INT64_MIN : INT64_MAX;
}
