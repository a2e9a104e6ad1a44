/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge: reads each input once and refuses what does not fit, finds out which are parts
 * of one recording, renumbers the others, and writes.
 *
 * What must stay true of the output:
 * - an event id (PERF_SAMPLE_ID) means one event, so ids of different recordings are
 *   moved apart. Ids of parts of one recording are the same events and stay;
 * - a stream number (AUXTRACE idx) means one buffer, likewise;
 * - a blob number means one sequence of bytes;
 * - what two parts both have (the side-band in front of rotated files, overlapping
 *   cuts) is there once, but what one file says twice stays twice.
 *
 * All inputs have the same byte order (check_input), which the output keeps.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/edit/edit.h"
#include "decode/lib/sideband/sideband.h"
#include "perfdata/perfdata.h"

/* One AUXTRACE record. h.idx is the stream number of the output once it is in
 * merge.pieces, and that of the input in merge_input.pieces. data points into
 * the mapped input. */
struct merge_piece {
	struct aux_rec_auxtrace h;	/* size: bytes of data */
	const uint8_t *data;
	uint32_t input;
	uint32_t snapshot;	/* of its input, from 1; 0: none */
};

struct merge_pieces {
	struct merge_piece *v;
	size_t n, cap;
	struct array_limit *memory;
};

/* A blob of AUX_OWN_CODE: its number in the input and digest_bytes of its
 * bytes. */
struct merge_blob {
	uint64_t number, sum;
};

struct merge_input {
	const char *path;
	struct aux_reader *r;
	size_t order;		/* index on the command line */
	/* set by scan_input */
	uint32_t trace_type;
	const uint64_t *priv;
	uint32_t n_priv;
	struct aux_rec_time_conv conv;
	bool has_conv;
	uint64_t first_ns;	/* UINT64_MAX: no record has a time */
	struct merge_pieces pieces;	/* h.idx: as in the input */
	struct merge_blob *blobs;	/* sorted by number */
	size_t n_blobs, cap_blobs;
	uint64_t max_blob;
	uint32_t n_snapshots, max_idx;
	struct aux_bytes ledger;
	bool damaged;
	struct aux_diag damage;
	/* set by numbering: what is added to ids, blobs and stream numbers */
	bool is_part;		/* of the same recording as an earlier input */
	uint64_t id_add, blob_add;
	uint32_t idx_add;
	/* state of merge_write */
	struct aux_event ev;
	bool has_event;
	uint64_t key;		/* merge key: the highest time up to ev */
};

struct merge {
	struct array_limit memory;
	struct merge_input *in;	/* sorted by first_ns */
	size_t n;
	bool swapped;
	struct merge_pieces pieces;	/* of all inputs; by idx, then offset */
	struct merge_stats stats;
	struct rewrite_bytes build_ids, ledger, source;
	uint8_t times[16];	/* body of AUX_FEAT_SAMPLE_TIME */
	struct merge_seen {	/* hash table of record contents */
		uint64_t sum[2];	/* sum[0] is 0 in a free slot */
		uint64_t n;	/* how often these contents occurred */
	} *seen;
	size_t n_seen, cap_seen;	/* cap: a power of two */
	uint8_t *buf;		/* 64 KB: the record that is being edited */
};

/* 128 bits that stand for a record, or another with another salt. */
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

/* 64 bits that stand for n bytes. Not cryptographic. */
static uint64_t digest_bytes(const void *p, size_t n)
{
	uint64_t sum[2];

	digest((struct aux_bytes){ p, n }, 0, sum);
	return sum[0] ^ sum[1];
}

/* Appends a copy of *piece. 0, or -AUX_E_NOMEM. */
static int add_piece(struct merge_pieces *p, const struct merge_piece *piece)
{
	if (array_grow_within(p->memory, &p->v, p->n, &p->cap, sizeof(*p->v)) < 0)
		return -AUX_E_NOMEM;
	p->v[p->n++] = *piece;
	return 0;
}

/*
 * ---- Scanning ----
 *
 * Reads each input once to collect what must be known before anything is
 * written, and decides which inputs can be merged at all.
 *
 * Inputs are refused where a merged decode could be wrong without a sign: other
 * clocks would interleave threads in the wrong order, other machines have equal
 * pids for other processes, and other trace units (AUXTRACE_INFO) decode
 * differently.
 */

/*
 * Notes one piece of trace. An offset that overflows can only come from a
 * damaged file and is dropped, so that offset + size is safe from here on.
 */
static int scan_trace(struct merge_input *in, const struct aux_event *ev)
{
	struct merge_piece p = { .h = ev->auxtrace.h,
				 .data = ev->auxtrace.payload.data,
				 .snapshot = in->n_snapshots };

	p.h.size = ev->auxtrace.payload.len;
	if (p.h.idx > in->max_idx)
		in->max_idx = p.h.idx;
	if (p.h.size > UINT64_MAX - p.h.offset)
		return 0;
	return add_piece(&in->pieces, &p);
}

/*
 * Notes the blob numbers in use. Numbers near the maximum are ignored, so that
 * adding to them cannot overflow. bytes is NULL if the record refers to an
 * earlier one.
 */
static int scan_code(struct merge_input *in, const struct aux_own_code *h,
		     const uint8_t *bytes)
{
	if (h->blob > in->max_blob && h->blob < UINT64_MAX >> 16)
		in->max_blob = h->blob;
	if (!bytes)
		return 0;
	if (array_grow_within(in->pieces.memory, &in->blobs, in->n_blobs, &in->cap_blobs,
		       sizeof(*in->blobs)) < 0)
		return -AUX_E_NOMEM;
	in->blobs[in->n_blobs++] = (struct merge_blob){
		h->blob, digest_bytes(bytes, h->len)
	};
	return 0;
}

static int scan_own(struct merge_input *in, const struct aux_event *ev)
{
	switch (ev->own.kind) {
	case AUX_OWN_SNAPSHOT:
		in->n_snapshots++;
		return 0;
	case AUX_OWN_CODE:
		return scan_code(in, &ev->own.code.h, ev->own.code.bytes);
	case AUX_OWN_LEDGER:
		in->ledger = ev->own.ledger;
		return 0;
	default:
		return 0;
	}
}

static int scan_record(struct merge_input *in, const struct aux_event *ev)
{
	switch (ev->type) {
	case AUX_RECORD_AUXTRACE_INFO:
		in->trace_type = ev->auxtrace_info.trace_type;
		in->priv = ev->auxtrace_info.priv;
		in->n_priv = ev->auxtrace_info.n_priv;
		return 0;
	case AUX_RECORD_TIME_CONV:
		in->conv = ev->time_conv;
		in->has_conv = true;
		return 0;
	case AUX_RECORD_AUXTRACE:
		return scan_trace(in, ev);
	case AUX_RECORD_EVENT_TYPE:
		return scan_own(in, ev);
	}
	if (ev->id.present & PERF_SAMPLE_TIME && ev->id.time &&
	    ev->id.time < in->first_ns)
		in->first_ns = ev->id.time;
	return 0;
}

/*
 * The ledger may stand in a record or in a feature section, after a head of its
 * own. A truncated last entry is dropped.
 */
static void find_ledger(struct merge_input *in)
{
	struct aux_bytes s;

	if (in->ledger.data ||
	    aux_reader_feature(in->r, AUX_FEAT_AUXKIT_LEDGER, &s, NULL) <= 0 ||
	    s.len < sizeof(struct aux_feat_ledger))
		return;
	in->ledger.data = s.data + sizeof(struct aux_feat_ledger);
	in->ledger.len = s.len - sizeof(struct aux_feat_ledger);
	in->ledger.len -= in->ledger.len % sizeof(struct aux_ledger_entry);
}

static int by_number(const void *a, const void *b)
{
	const struct merge_blob *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/* Reads an input to its end and fills its fields. A damaged input is no error:
 * damaged is set then. 0, or -AUX_E_NOMEM. */
static int scan_input(struct merge_input *in)
{
	struct aux_event ev;
	int rc = 0, got;

	in->first_ns = UINT64_MAX;
	aux_reader_rewind(in->r);
	while ((got = aux_reader_next(in->r, &ev, &in->damage)) > 0 && rc == 0)
		rc = scan_record(in, &ev);
	in->damaged = got < 0;
	find_ledger(in);
	if (in->n_blobs)
		qsort(in->blobs, in->n_blobs, sizeof(*in->blobs), by_number);
	return got == -AUX_E_NOMEM ? got : rc;
}

/* ---- what can be merged ---- */

/* The message is about b, which the caller names; a is named in it. */
static int refuse(struct aux_diag *diag, const struct merge_input *a,
		  const char *what)
{
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"cannot be merged with %s: %s", a->path, what);
}

/* A file that does not say (NULL) contradicts nothing. */
static bool same_text(const char *a, const char *b)
{
	return !a || !b || !strcmp(a, b);
}

/* True if both have this feature section, and its contents differ. */
static bool differs(const struct merge_input *a, const struct merge_input *b,
		    unsigned bit)
{
	struct aux_bytes x, y;

	return aux_reader_feature(a->r, bit, &x, NULL) > 0 &&
	       aux_reader_feature(b->r, bit, &y, NULL) > 0 &&
	       (x.len != y.len || memcmp(x.data, y.data, x.len) != 0);
}

/* TIME_CONV maps the TSC to perf's clock; the kernel computes it anew at each
 * boot. */
static bool same_conv(const struct merge_input *a, const struct merge_input *b)
{
	return !a->has_conv || !b->has_conv ||
	       (a->conv.time_mult == b->conv.time_mult &&
		a->conv.time_shift == b->conv.time_shift &&
		a->conv.time_zero == b->conv.time_zero);
}

/* Words [from, to) of AUXTRACE_INFO. */
static bool same_words(const struct merge_input *a, const struct merge_input *b,
		       uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if ((i < a->n_priv ? a->priv[i] : 0) !=
		    (i < b->n_priv ? b->priv[i] : 0))
			return false;
	return true;
}

/*
 * The words of AUXTRACE_INFO (arch/x86/util/intel-pt.c and
 * arch/arm/util/cs-etm.c of perf) describe the trace units. For Intel PT the
 * clock's words are compared first, to give the reason.
 */
static int check_trace(const struct merge_input *a, const struct merge_input *b,
		       struct aux_diag *diag)
{
	bool is_pt = a->trace_type == AUX_TRACE_INTEL_PT;

	if (!a->trace_type || !b->trace_type)
		return 0;
	if (a->trace_type != b->trace_type)
		return refuse(diag, a, "their traces are of different kinds "
			      "(`auxdecode info` shows them)");
	if (!same_conv(a, b) ||
	    (is_pt && !same_words(a, b, AUX_PT_TIME_SHIFT,
				  AUX_PT_CAP_USER_TIME_ZERO + 1)))
		return refuse(diag, a, "their clocks differ: they are of "
			      "different machines, or of different boots");
	if (a->n_priv != b->n_priv || !same_words(a, b, 0, a->n_priv))
		return refuse(diag, a, "their trace units are set or described "
			      "differently");
	return 0;
}

/* 0 if b can be merged with a, else -AUX_E_* with diag. */
static int check_input(const struct merge_input *a, const struct merge_input *b,
		       struct aux_diag *diag)
{
	const struct aux_file_info *x = aux_reader_info(a->r);
	const struct aux_file_info *y = aux_reader_info(b->r);
	struct aux_bytes s;

	if (x->swapped != y->swapped)
		return refuse(diag, a, "their byte orders differ");
	if (!same_text(x->hostname, y->hostname))
		return refuse(diag, a, "they are of different machines, whose "
			      "processes could not be told apart");
	if (!same_text(x->arch, y->arch))
		return refuse(diag, a, "their architectures differ");
	if (differs(a, b, AUX_FEAT_CLOCKID))
		return refuse(diag, a, "their clocks differ (CLOCKID)");
	if (!same_text(aux_reader_source(a->r, "source"),
		       aux_reader_source(b->r, "source")) ||
	    !same_text(aux_reader_source(a->r, "clock"),
		       aux_reader_source(b->r, "clock")))
		return refuse(diag, a, "their traces were made differently");
	if (aux_reader_feature(b->r, AUX_FEAT_AUXKIT_CODE, &s, NULL) > 0)
		return refuse(diag, a, "it has its code in a section, of which "
			      "a file can have one");
	return check_trace(a, b, diag);
}

/*
 * Virtual clocks of two recordings have no relation to each other. Snapshots
 * without an AUX_OWN_SNAPSHOT cannot be told from a full trace after merging,
 * as AUXTRACE_INFO has one flag for all streams.
 */
static int check_apart(const struct merge_input *b, struct aux_diag *diag)
{
	const char *clock = aux_reader_source(b->r, "clock");

	if (clock && !strcmp(clock, "virtual"))
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"is a recording of its own, with a virtual "
				"clock: nobody knows what ran before what in "
				"another one");
	if (b->trace_type == AUX_TRACE_INTEL_PT && !b->n_snapshots &&
	    b->n_priv > AUX_PT_SNAPSHOT_MODE && b->priv[AUX_PT_SNAPSHOT_MODE])
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"has snapshots without their places in the "
				"stream, which cannot be merged");
	return 0;
}

/*
 * ---- Parts and numbers ----
 *
 * A file is a part when it shares an event id with an earlier one and the bytes
 * of every stream that both have are equal where they overlap. Ids alone do not
 * suffice: kernels count them from 1 after each boot.
 */

/*
 * perf pads the payload of AUXTRACE to 8 bytes with zeros that are not trace,
 * so the last 7 bytes of a piece need not agree with another file.
 */
#define PAD 8

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
 * The first piece of a stream that may end after offset. Pieces are sorted by
 * offset and nearly disjoint, so of those that start before it only the last is
 * considered.
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
 * True if input i declares an event that an earlier input which keeps its ids
 * declares under the same id. Type and configuration are compared because ids
 * repeat.
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
 * Adds the trace of input i. Sorted after each input, since the next one is
 * compared with all before it.
 */
static int add_pieces(struct merge *m, size_t i)
{
	struct merge_input *in = &m->in[i];

	for (size_t k = 0; k < in->pieces.n; k++) {
		struct merge_piece p = in->pieces.v[k];

		p.h.idx += in->idx_add;
		p.input = (uint32_t)i;
		if (add_piece(&m->pieces, &p) < 0)
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
 * Parts whose blobs agree (cuts of a file) keep the numbers, so that equal
 * records of code are recognized as repetitions. Other inputs get numbers of
 * their own.
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
 * Decides whether input i is a part, and sets what is added to its numbers. A
 * second recording also restricts the first: both then need a common clock.
 */
static int number_input(struct merge *m, size_t i, struct aux_diag *diag)
{
	struct merge_input *in = &m->in[i];
	bool shared = i && shares_ids(m, i);
	int rc;

	in->is_part = shared && same_streams(m, in);
	m->stats.n_parts += in->is_part;
	if (i && !in->is_part) {
		rc = check_apart(in, diag);
		if (rc == 0)
			rc = check_apart(&m->in[0], diag);
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

static int say_memory(const struct merge *m, struct aux_diag *diag)
{
	if (!m || !m->memory.full)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
		 "to merge them needs more than %llu MiB",
		 (unsigned long long)(m->memory.max >> 20));
	return diag_why(diag, AUX_WHY_MEMORY, -AUX_E_LIMIT);
}

static int open_input(struct merge *m, struct merge_input *in, const char *path,
		      size_t order, const struct import_options *o,
		      struct aux_diag *diag)
{
	int rc;

	in->pieces.memory = &m->memory;
	in->path = path;
	in->order = order;
	rc = import_open(&in->r, path, o, diag);
	if (rc == 0 && scan_input(in) < 0)
		rc = say_memory(m, diag);
	return rc;
}

/*
 * By the first time of any record, so that earlier inputs keep their numbers.
 * Ties, and inputs without times, stay in the order of the command line.
 */
static int by_time(const void *a, const void *b)
{
	const struct merge_input *x = a, *y = b;

	if (x->first_ns != y->first_ns)
		return x->first_ns < y->first_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* m->n counts the inputs that merge_close has to release, even after a
 * failure. */
static int open_all(struct merge *m, const char *const *paths, size_t n,
		    const struct import_options *o, const char **which,
		    struct aux_diag *diag)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		*which = paths[i];
		rc = open_input(m, &m->in[m->n++], paths[i], i, o, diag);
		if (rc == 0 && i)
			rc = check_input(&m->in[0], &m->in[i], diag);
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
	       const struct import_options *o, uint64_t memory, const char **which,
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
	if (m) {
		m->memory.max = memory;
		m->pieces.memory = &m->memory;
	}
	if (m && m->in && m->buf)
		rc = open_all(m, paths, n, o, which, diag);
	if (rc == -AUX_E_NOMEM)
		rc = say_memory(m, diag);
	if (rc < 0) {
		merge_close(m);
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
 * The position of an id follows from sample_type, as perf_event_open(2) lays
 * out PERF_RECORD_SAMPLE and struct sample_id. An id that the file does not
 * declare (0, or of an unknown event) is left alone.
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
 * struct sample_id at the end of all records but samples, in this order: TID,
 * TIME, ID, STREAM_ID, CPU, IDENTIFIER. So it is read backwards from the end.
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
 * PERF_RECORD_SAMPLE: IDENTIFIER, IP, TID, TIME, ADDR (8 bytes each, if
 * present), then ID and STREAM_ID.
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

/* LOST has an id in its body, THROTTLE and UNTHROTTLE have id and stream_id
 * after a time. */
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

/* The record of ev with the ids, stream and blob numbers of the output. The
 * bytes are those of the input if nothing changes, else m->buf: valid until the
 * next call. */
static struct aux_bytes renumber(struct merge *m, const struct merge_input *in,
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
 * A multiset of contents, for which 128 bits of digest stand: two records that
 * differ are very unlikely to agree in all. Each contents has two counters in
 * one table: one salted with the input (how often this file said it) and one
 * without salt (how often the output says it). A record is written if the first
 * exceeds the second.
 */

/* Doubles the table, which is at most half full. */
static int grow(struct merge *m)
{
	size_t cap = m->cap_seen ? 2 * m->cap_seen : 4096;
	struct merge_seen *v;

	if (array_take(&m->memory, cap * sizeof(*v)) < 0)
		return -AUX_E_NOMEM;
	v = calloc(cap, sizeof(*v));
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
	array_give(&m->memory, m->cap_seen * sizeof(*v));
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

/* 1 if earlier inputs brought a record with these contents at least as often as
 * this input so far (it is a repetition), 0 if not, or -AUX_E_NOMEM. Each call
 * counts. */
static int is_seen(struct merge *m, size_t input, struct aux_bytes rec)
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

/*
 * ---- Writing ----
 *
 * Writes the new file. Records are merged by time; an input's own order never
 * changes, so out-of-order records of one CPU stay as they were and the reader
 * sorts them, as with perf's own files. Trace follows all records, sorted by
 * stream and offset: AUXTRACE records need no place in time.
 */

#define PROGRESS_RECORDS 4096

/* ---- attrs ---- */

/* True if an earlier input with the same shift of ids has this event
 * already. */
static bool is_known(const struct merge *m, size_t i, const struct aux_attr *a)
{
	const struct aux_attr *b;

	for (size_t k = 0; k < i; k++) {
		if (m->in[k].id_add != m->in[i].id_add || !a->n_ids)
			continue;
		b = aux_reader_attr_by_id(m->in[k].r, a->ids[0]);
		if (b && b->n_ids >= a->n_ids)
			return true;
	}
	return false;
}

/* Out of memory, the event is written without its ids. */
static void write_attr(struct rewrite *w, const struct aux_attr *a,
		       uint64_t add)
{
	uint64_t *ids = malloc((size_t)a->n_ids * 8 + 8);
	struct aux_attr copy = *a;

	if (!ids) {
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
		return;
	}
	for (uint32_t i = 0; i < a->n_ids; i++)
		ids[i] = a->ids[i] + add;
	copy.ids = ids;
	rewrite_attr(w, &copy);
	free(ids);
}

static void write_attrs(struct merge *m, struct rewrite *w)
{
	const struct aux_attr *a;

	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; (a = aux_reader_attr(m->in[i].r, k)); k++)
			if (!is_known(m, i, a))
				write_attr(w, a, m->in[i].id_add);
}

/* ---- records ---- */

/*
 * True for records that do not carry over: those made anew here (trace,
 * snapshots, ledger, the file's form), FINISHED_ROUND (the order it promises is
 * gone), and descriptions of the whole file, which the first input brings.
 */
static bool is_left_out(const struct merge *m, size_t i,
			const struct aux_event *ev)
{
	if (rewrite_is_form(m->in[i].r, ev))
		return true;
	switch (ev->type) {
	case AUX_RECORD_AUXTRACE:
	case AUX_RECORD_FINISHED_ROUND:
		return true;
	case AUX_RECORD_AUXTRACE_INFO:
	case AUX_RECORD_HEADER_FEATURE:
		return i > 0;
	case AUX_RECORD_EVENT_TYPE:
		return ev->own.kind == AUX_OWN_SNAPSHOT ||
		       ev->own.kind == AUX_OWN_LEDGER;
	default:
		return false;
	}
}

/*
 * Advances an input. The key never decreases: a record that is late or has no
 * time goes right after the one before it in its file.
 */
static void next_event(struct merge_input *in)
{
	const struct aux_event *ev = &in->ev;

	in->has_event = aux_reader_next(in->r, &in->ev, NULL) > 0;
	if (in->has_event && ev->id.present & PERF_SAMPLE_TIME &&
	    ev->id.time > in->key)
		in->key = ev->id.time;
}

/* A linear search: a merge has a handful of inputs. */
static struct merge_input *earliest(struct merge *m)
{
	struct merge_input *best = NULL;

	for (size_t i = 0; i < m->n; i++) {
		struct merge_input *in = &m->in[i];

		if (in->has_event && (!best || in->key < best->key))
			best = in;
	}
	return best;
}

/* 0, also if the record is left out or repeated; or -AUX_E_*. */
static int write_record(struct merge *m, struct rewrite *w,
			struct merge_input *in)
{
	size_t i = (size_t)(in - m->in);
	struct aux_bytes rec;
	int seen;

	if (is_left_out(m, i, &in->ev))
		return 0;
	rec = renumber(m, in, &in->ev);
	seen = is_seen(m, i, rec);
	if (seen < 0)
		return seen;
	if (seen) {
		m->stats.n_repeated++;
		return 0;
	}
	m->stats.n_records++;
	rewrite_record(w, rec.data, rec.len);
	return rewrite_failed(w);
}

static int write_records(struct merge *m, struct rewrite *w,
			 void (*show)(void *, const struct merge_stats *),
			 void *priv)
{
	struct merge_input *in;
	uint64_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < m->n; i++) {
		aux_reader_rewind(m->in[i].r);
		next_event(&m->in[i]);
	}
	while (rc == 0 && (in = earliest(m))) {
		uint64_t at = in->ev.offset;

		rc = write_record(m, w, in);
		next_event(in);
		if (in->has_event && in->ev.offset > at)
			m->stats.done += in->ev.offset - at;
		if (show && n++ % PROGRESS_RECORDS == 0)
			show(priv, &m->stats);
	}
	return rc;
}

/* ---- trace ---- */

/*
 * Removes overlaps. Where two pieces overlap, the earlier one is shortened,
 * because its last bytes may be padding; a piece that lies within the one
 * before is dropped.
 */
static void trim_pieces(struct merge_pieces *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct merge_piece *last = n ? &p->v[n - 1] : NULL;
		const struct merge_piece *next = &p->v[i];
		uint64_t end = last ? last->h.offset + last->h.size : 0;

		if (last && last->h.idx == next->h.idx &&
		    next->h.offset < end) {
			if (next->h.offset + next->h.size <= end)
				continue;
			last->h.size = next->h.offset - last->h.offset;
			n -= !last->h.size;
		}
		p->v[n++] = *next;
	}
	p->n = n;
}

/* Labels and reasons of the inputs' snapshots are not carried over. */
static void write_snapshot(struct merge *m, struct rewrite *w, uint64_t number)
{
	struct rewrite_bytes b = { .swap = m->swapped };

	rewrite_bytes_u64(&b, number);
	rewrite_bytes_u64(&b, 0);
	rewrite_bytes_u32(&b, AUX_SNAPSHOT_CUT);
	rewrite_bytes_u32(&b, 0);
	rewrite_own_bytes(w, AUX_OWN_SNAPSHOT, &b);
	free(b.data);
}

/*
 * If an input has snapshots, every change of input, snapshot or stream starts
 * one: otherwise a gap between two of them would be reported as loss.
 */
static void write_trace(struct merge *m, struct rewrite *w)
{
	const struct merge_piece *last = NULL;
	bool snapshots = false;
	uint64_t number = 0;

	trim_pieces(&m->pieces);
	for (size_t i = 0; i < m->n; i++)
		snapshots |= m->in[i].n_snapshots;
	for (size_t i = 0; i < m->pieces.n; i++) {
		const struct merge_piece *p = &m->pieces.v[i];

		if (snapshots && (!last || last->input != p->input ||
				  last->snapshot != p->snapshot ||
				  last->h.idx != p->h.idx))
			write_snapshot(m, w, ++number);
		rewrite_auxtrace(w, &p->h, p->data, p->h.size);
		m->stats.n_bytes += p->h.size;
		last = p;
	}
}

/* ---- features ---- */

/*
 * Concatenates the ledgers; equal ones (of cuts of one file) count once.
 * Entries that belong to no stream have idx UINT32_MAX.
 */
static void make_ledger(struct merge *m, struct rewrite *w)
{
	const size_t size = sizeof(struct aux_ledger_entry);

	for (size_t i = 0; i < m->n; i++) {
		const struct aux_bytes *l = &m->in[i].ledger;
		size_t at = m->ledger.len;
		int seen = l->len ? is_seen(m, i, *l) : 1;

		if (seen < 0)
			m->ledger.oom = true;
		if (seen)
			continue;
		rewrite_bytes_put(&m->ledger, l->data, l->len);
		for (; !m->ledger.oom && at < m->ledger.len; at += size) {
			uint8_t *p = m->ledger.data + at;
			uint32_t idx;

			memcpy(&idx, p, sizeof(idx));
			idx = m->swapped ? __builtin_bswap32(idx) : idx;
			if (idx != UINT32_MAX)
				rewrite_put_u32(p, idx + m->in[i].idx_add,
						m->swapped);
		}
	}
	if (m->ledger.oom || (m->ledger.len && m->ledger.len <= REWRITE_OWN_MAX))
		rewrite_own_bytes(w, AUX_OWN_LEDGER, &m->ledger);
}

/*
 * HEADER_BUILD_ID: the union of the entries, each a perf_event_header with its
 * size at byte 6. A malformed entry ends its list, since the next cannot be
 * found.
 */
static int make_build_ids(struct merge *m, struct rewrite *w)
{
	struct aux_bytes s, entry;

	for (size_t i = 0; i < m->n; i++) {
		if (aux_reader_feature(m->in[i].r, AUX_FEAT_BUILD_ID, &s,
				       NULL) <= 0)
			continue;
		while (s.len >= 8) {
			uint16_t size;
			int seen;

			memcpy(&size, s.data + 6, sizeof(size));
			size = m->swapped ? __builtin_bswap16(size) : size;
			if (size < 8 || size > s.len)
				break;
			entry = (struct aux_bytes){ s.data, size };
			seen = is_seen(m, i, entry);
			if (seen < 0)
				return seen;
			if (!seen)
				rewrite_bytes_put(&m->build_ids, s.data, size);
			s.data += size;
			s.len -= size;
		}
	}
	if (m->build_ids.len)
		rewrite_feature(w, AUX_FEAT_BUILD_ID, m->build_ids.data,
				m->build_ids.len);
	return 0;
}

static uint64_t get_u64(const uint8_t *p, bool swap)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return swap ? __builtin_bswap64(v) : v;
}

/* HEADER_SAMPLE_TIME: the hull of the inputs'; left out unless all have it. */
static void make_times(struct merge *m, struct rewrite *w)
{
	uint64_t first = UINT64_MAX, last = 0;
	struct aux_bytes s;

	for (size_t i = 0; i < m->n; i++) {
		if (aux_reader_feature(m->in[i].r, AUX_FEAT_SAMPLE_TIME, &s,
				       NULL) <= 0 || s.len < 16)
			return;
		if (get_u64(s.data, m->swapped) < first)
			first = get_u64(s.data, m->swapped);
		if (get_u64(s.data + 8, m->swapped) > last)
			last = get_u64(s.data + 8, m->swapped);
	}
	rewrite_put_u64(m->times, first, m->swapped);
	rewrite_put_u64(m->times + 8, last, m->swapped);
	rewrite_feature(w, AUX_FEAT_SAMPLE_TIME, m->times, sizeof(m->times));
}

/*
 * The first input's features, without those that hold for it alone. If any
 * input ended early, the output says so, or its readers would take it for
 * complete.
 */
static int write_features(struct merge *m, struct rewrite *w)
{
	bool ended = false;

	rewrite_features_of(w, m->in[0].r);
	rewrite_feature(w, AUX_FEAT_EVENT_DESC, NULL, 0);
	rewrite_feature(w, AUX_FEAT_AUXKIT_LEDGER, NULL, 0);
	make_ledger(m, w);
	make_times(m, w);
	for (size_t i = 0; i < m->n; i++)
		ended |= m->in[i].damaged ||
			 aux_reader_info(m->in[i].r)->unfinished;
	if (ended)
		rewrite_loss(w, 0);
	return make_build_ids(m, w);
}

int merge_write(struct merge *m, struct rewrite *w,
		void (*show)(void *priv, const struct merge_stats *stats),
		void *priv, struct aux_diag *diag)
{
	struct aux_bytes source = rewrite_source_of(m->in[0].r);
	int rc;

	write_attrs(m, w);
	if (source.len && source.len <= REWRITE_OWN_MAX)
		rewrite_own(w, AUX_OWN_SOURCE, source.data, source.len);
	rc = write_records(m, w, show, priv);
	if (rc == 0) {
		write_trace(m, w);
		rc = write_features(m, w);
	}
	if (rc == -AUX_E_NOMEM)
		return say_memory(m, diag);
	return rc < 0 ? rc : rewrite_failed(w);
}
