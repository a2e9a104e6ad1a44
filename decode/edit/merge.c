/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge: opens the inputs, finds out which are parts of one recording, and renumbers
 * the others. merge_scan.c reads each input once and refuses what does not fit,
 * merge_write.c writes.
 *
 * What must stay true of the output:
 * - an event id (PERF_SAMPLE_ID) means one event, so ids of different recordings are
 *   moved apart. Ids of parts of one recording are the same events and stay;
 * - a stream number (AUXTRACE idx) means one buffer, likewise;
 * - a blob number means one sequence of bytes;
 * - what two parts both have (the side-band in front of rotated files, overlapping
 *   cuts) is there once, but what one file says twice stays twice.
 *
 * All inputs have the same byte order (merge_check), which the output keeps.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/edit/impl.h"
#include "decode/lib/sideband/sideband.h"

/*
 * ---- Parts and numbers ----
 *
 * A file is a part when it shares an event id with an earlier one and the bytes of
 * every stream that both have are equal where they overlap. Ids alone do not suffice:
 * kernels count them from 1 after each boot.
 */

/*
 * perf pads the payload of AUXTRACE to 8 bytes with zeros that are not trace, so the
 * last 7 bytes of a piece need not agree with another file.
 */
#define PAD 8

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

/*
 * The first piece of a stream that may end after offset. Pieces are sorted by offset and
 * nearly disjoint, so of those that start before it only the last is considered.
 */
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

/* True if the bytes that two pieces of one stream both have are equal. */
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

/*
 * True if input i declares an event that an earlier input which keeps its ids declares
 * under the same id. Type and configuration are compared because ids repeat.
 */
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

/* The highest id that the first n inputs use in the output. */
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

/* The first stream number that the first n inputs leave free. */
static uint32_t next_idx(const struct merge *m, size_t n)
{
	uint32_t next = 0;

	for (size_t i = 0; i < n; i++)
		if (m->in[i].idx_add + m->in[i].max_idx >= next)
			next = m->in[i].idx_add + m->in[i].max_idx + 1;
	return next;
}

/*
 * Adds the trace of input i. Sorted after each input, since the next one is compared
 * with all before it.
 */
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

/* True if no blob number means different bytes in the two; both are sorted. */
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

/*
 * Parts whose blobs agree (cuts of a file) keep the numbers, so that equal records of
 * code are recognized as repetitions. Other inputs get numbers of their own.
 */
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

/*
 * Decides whether input i is a part, and sets what is added to its numbers. A second
 * recording also restricts the first: both then need a common clock.
 */
static int number_input(struct merge *m, size_t i, struct aux_diag *diag)
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

static int number_inputs(struct merge *m, const char **which,
			 struct aux_diag *diag)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < m->n; i++) {
		*which = m->in[i].path;
		rc = number_input(m, i, diag);
	}
	return rc;
}

static int open_input(struct merge_input *in, const char *path, size_t order,
		      const struct import_options *o, struct aux_diag *diag)
{
	int rc;

	in->path = path;
	in->order = order;
	rc = import_open(&in->r, path, o, diag);
	if (rc == 0 && merge_scan(in) < 0)
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	return rc;
}

/*
 * By the first time of any record, so that earlier inputs keep their numbers. Ties, and
 * inputs without times, stay in the order of the command line.
 */
static int by_time(const void *a, const void *b)
{
	const struct merge_input *x = a, *y = b;

	if (x->first_ns != y->first_ns)
		return x->first_ns < y->first_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* m->n counts the inputs that merge_close has to release, even after a failure. */
static int open_all(struct merge *m, const char *const *paths, size_t n,
		    const struct import_options *o, const char **which,
		    struct aux_diag *diag)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		*which = paths[i];
		rc = open_input(&m->in[m->n++], paths[i], i, o, diag);
		if (rc == 0 && i)
			rc = merge_check(&m->in[0], &m->in[i], diag);
	}
	if (rc < 0)
		return rc;
	*which = NULL;
	m->swapped = aux_reader_info(m->in[0].r)->swapped;
	qsort(m->in, m->n, sizeof(*m->in), by_time);
	for (size_t i = 0; i < m->n; i++)
		m->stats.total += aux_reader_info(m->in[i].r)->size;
	return number_inputs(m, which, diag);
}

int merge_open(struct merge **out, const char *const *paths, size_t n,
	       const struct import_options *o, const char **which,
	       struct aux_diag *diag)
{
	struct merge *m = calloc(1, sizeof(*m));
	int rc = -AUX_E_NOMEM;

	*out = NULL;
	*which = NULL;
	if (m) {
		m->in = calloc(n, sizeof(*m->in));
		m->buf = malloc(UINT16_MAX + 1);
	}
	if (m && m->in && m->buf)
		rc = open_all(m, paths, n, o, which, diag);
	if (rc < 0) {
		merge_close(m);
		if (rc == -AUX_E_NOMEM)
			diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				 "out of memory");
		return rc;
	}
	*out = m;
	return 0;
}

void merge_close(struct merge *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++) {
		free(m->in[i].pieces.v);
		free(m->in[i].blobs);
		aux_reader_close(m->in[i].r);
	}
	free(m->in);
	free(m->pieces.v);
	free(m->build_ids.data);
	free(m->ledger.data);
	free(m->source.data);
	free(m->seen);
	free(m->buf);
	free(m);
}

bool merge_swapped(const struct merge *m)
{
	return m->swapped;
}

const struct merge_stats *merge_stats(const struct merge *m)
{
	return &m->stats;
}

const struct aux_diag *merge_damage(const struct merge *m, size_t i)
{
	for (size_t k = 0; k < m->n; k++)
		if (m->in[k].order == i && m->in[k].damaged)
			return &m->in[k].damage;
	return NULL;
}

/*
 * ---- Editing ids, stream numbers and blob numbers inside records ----
 *
 * The position of an id follows from sample_type, as perf_event_open(2) lays out
 * PERF_RECORD_SAMPLE and struct sample_id. An id that the file does not declare
 * (0, or of an unknown event) is left alone.
 */
/* perf_event_header, then the head of auxkit's own records. */
#define OWN_HEAD (8 + sizeof(struct aux_own_record))

/* A record that is being edited, in the byte order of the file. */
struct edit {
	const struct merge_input *in;
	uint8_t *p;
	size_t len;
	bool swap;
};

static void add_u64(const struct edit *e, size_t at, uint64_t add)
{
	uint64_t v;

	if (at + 8 > e->len)
		return;
	memcpy(&v, e->p + at, sizeof(v));
	v = (e->swap ? __builtin_bswap64(v) : v) + add;
	rewrite_put_u64(e->p + at, v, e->swap);
}

/* UINT32_MAX means "no stream" and stays. */
static void add_u32(const struct edit *e, size_t at, uint32_t add)
{
	uint32_t v;

	if (at + 4 > e->len)
		return;
	memcpy(&v, e->p + at, sizeof(v));
	v = e->swap ? __builtin_bswap32(v) : v;
	if (v != UINT32_MAX)
		rewrite_put_u32(e->p + at, v + add, e->swap);
}

/* Moves the id at byte at, if there is one that the input declares. */
static void edit_id(const struct edit *e, size_t at)
{
	uint64_t v;

	if (at + 8 > e->len)
		return;
	memcpy(&v, e->p + at, sizeof(v));
	v = e->swap ? __builtin_bswap64(v) : v;
	if (v && aux_reader_attr_by_id(e->in->r, v))
		add_u64(e, at, e->in->id_add);
}

/*
 * struct sample_id at the end of all records but samples, in this order: TID, TIME, ID,
 * STREAM_ID, CPU, IDENTIFIER. So it is read backwards from the end.
 */
static void edit_trailer(const struct edit *e, uint64_t present)
{
	size_t back = 0;

	if (present & PERF_SAMPLE_IDENTIFIER) {
		back += 8;
		edit_id(e, e->len - back);
	}
	back += present & PERF_SAMPLE_CPU ? 8 : 0;
	if (present & PERF_SAMPLE_STREAM_ID) {
		back += 8;
		edit_id(e, e->len - back);
	}
	if (present & PERF_SAMPLE_ID) {
		back += 8;
		edit_id(e, e->len - back);
	}
}

/*
 * PERF_RECORD_SAMPLE: IDENTIFIER, IP, TID, TIME, ADDR (8 bytes each, if present), then
 * ID and STREAM_ID.
 */
static void edit_sample(const struct edit *e, const struct aux_event *ev)
{
	uint64_t t = ev->attr ? ev->attr->attr.sample_type : 0;
	const uint64_t before = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
				PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;
	size_t at = 8;

	if (t & PERF_SAMPLE_IDENTIFIER) {
		edit_id(e, at);
		at += 8;
	}
	at += 8 * (size_t)__builtin_popcountll(t & before);
	if (t & PERF_SAMPLE_ID) {
		edit_id(e, at);
		at += 8;
	}
	if (t & PERF_SAMPLE_STREAM_ID)
		edit_id(e, at);
}

/* LOST has an id in its body, THROTTLE and UNTHROTTLE have id and stream_id after a time. */
static void edit_kernel(const struct edit *e, const struct aux_event *ev)
{
	if (ev->type == PERF_RECORD_SAMPLE) {
		edit_sample(e, ev);
		return;
	}
	edit_trailer(e, ev->id.present);
	if (ev->type == PERF_RECORD_LOST) {
		edit_id(e, 8);
	} else if (ev->type == PERF_RECORD_THROTTLE ||
		   ev->type == PERF_RECORD_UNTHROTTLE) {
		edit_id(e, 16);
		edit_id(e, 24);
	}
}

static void edit_own(const struct edit *e, const struct aux_event *ev)
{
	if (ev->own.kind == AUX_OWN_LOSS)
		add_u32(e, OWN_HEAD, e->in->idx_add);
	else if (ev->own.kind == AUX_OWN_CODE)
		add_u64(e, OWN_HEAD + 24, e->in->blob_add);
}

struct aux_bytes merge_renumber(struct merge *m, const struct merge_input *in,
				const struct aux_event *ev)
{
	const struct edit e = { in, m->buf, ev->raw.len, m->swapped };

	if (ev->raw.len > UINT16_MAX ||
	    (!in->id_add && !in->idx_add && !in->blob_add))
		return ev->raw;
	memcpy(m->buf, ev->raw.data, ev->raw.len);
	if (ev->type && ev->type <= LAST_KERNEL_TYPE) {
		edit_kernel(&e, ev);
	} else if (ev->type == AUX_RECORD_ID_INDEX) {
		for (uint64_t i = 0; i < ev->id_index.n; i++) {
			edit_id(&e, 16 + i * 32);
			add_u64(&e, 16 + i * 32 + 8, in->idx_add);
		}
	} else if (ev->type == AUX_RECORD_EVENT_UPDATE) {
		edit_id(&e, 16);
	} else if (ev->type == AUX_RECORD_EVENT_TYPE) {
		edit_own(&e, ev);
	}
	return (struct aux_bytes){ m->buf, ev->raw.len };
}

/*
 * ---- Records that several inputs have ----
 *
 * A multiset of contents, for which 128 bits of digest stand: two records that differ
 * are very unlikely to agree in all. Each contents has two counters in one table: one
 * salted with the input (how often this file said it) and one without salt
 * (how often the output says it). A record is written if the first exceeds the
 * second.
 */

static void digest(struct aux_bytes rec, uint64_t salt, uint64_t sum[2])
{
	uint64_t a = 0x9e3779b97f4a7c15 ^ salt, b = rec.len + salt, v;
	const uint8_t *p = rec.data;
	size_t n = rec.len;

	for (; n; p += n < 8 ? n : 8, n -= n < 8 ? n : 8) {
		v = 0;
		memcpy(&v, p, n < 8 ? n : 8);
		a = (a ^ v) * 0xff51afd7ed558ccd;
		a ^= a >> 32;
		b = (b + v) * 0xc4ceb9fe1a85ec53;
		b ^= b >> 29;
	}
	sum[0] = a | 1;	/* 0 marks a free slot */
	sum[1] = b;
}

uint64_t merge_digest(const void *p, size_t n)
{
	uint64_t sum[2];

	digest((struct aux_bytes){ p, n }, 0, sum);
	return sum[0] ^ sum[1];
}

/* Doubles the table, which is at most half full. */
static int grow(struct merge *m)
{
	size_t cap = m->cap_seen ? 2 * m->cap_seen : 4096;
	struct merge_seen *v = calloc(cap, sizeof(*v));

	if (!v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < m->cap_seen; i++) {
		size_t at = m->seen[i].sum[0] >> 1 & (cap - 1);

		if (!m->seen[i].sum[0])
			continue;
		while (v[at].sum[0])
			at = (at + 1) & (cap - 1);
		v[at] = m->seen[i];
	}
	free(m->seen);
	m->seen = v;
	m->cap_seen = cap;
	return 0;
}

/* The counter of these contents; a new one starts at 0. Needs a free slot. */
static uint64_t *find(struct merge *m, const uint64_t sum[2])
{
	size_t at = sum[0] >> 1 & (m->cap_seen - 1);

	for (; m->seen[at].sum[0]; at = (at + 1) & (m->cap_seen - 1))
		if (m->seen[at].sum[0] == sum[0] && m->seen[at].sum[1] == sum[1])
			return &m->seen[at].n;
	m->seen[at].sum[0] = sum[0];
	m->seen[at].sum[1] = sum[1];
	m->n_seen++;
	return &m->seen[at].n;
}

int merge_is_seen(struct merge *m, size_t input, struct aux_bytes rec)
{
	uint64_t sum[2], here, *n;

	if (2 * (m->n_seen + 2) > m->cap_seen && grow(m) < 0)
		return -AUX_E_NOMEM;
	digest(rec, (input + 1) * 0xd6e8feb86659fd93, sum);
	here = ++*find(m, sum);	/* in this file */
	digest(rec, 0, sum);
	n = find(m, sum);	/* in the new one */
	if (here <= *n)
		return 1;
	*n = here;
	return 0;
}
