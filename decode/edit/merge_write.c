/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge: writes the new file. Records are merged by time; an input's own order
 * never changes, so out-of-order records of one CPU stay as they were and the
 * reader sorts them, as with perf's own files. Trace follows all records, sorted by
 * stream and offset: AUXTRACE records need no place in time.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/edit/impl.h"

#define PROGRESS_RECORDS 4096

/* ---- attrs ---- */

/* True if an earlier input with the same shift of ids has this event already. */
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
		copy.n_ids = 0;
	} else {
		for (uint32_t i = 0; i < a->n_ids; i++)
			ids[i] = a->ids[i] + add;
		copy.ids = ids;
	}
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
 * True for records that do not carry over: those made anew here (trace, snapshots,
 * ledger, the file's form), FINISHED_ROUND (the order it promises is gone), and
 * descriptions of the whole file, which the first input brings.
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
 * Advances an input. The key never decreases: a record that is late or has no time goes
 * right after the one before it in its file.
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
	rec = merge_renumber(m, in, &in->ev);
	seen = merge_is_seen(m, i, rec);
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
 * Removes overlaps. Where two pieces overlap, the earlier one is shortened, because its
 * last bytes may be padding; a piece that lies within the one before is dropped.
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
	if (!b.oom)
		rewrite_own(w, AUX_OWN_SNAPSHOT, b.data, b.len);
	free(b.data);
}

/*
 * If an input has snapshots, every change of input, snapshot or stream starts one:
 * otherwise a gap between two of them would be reported as loss.
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
 * Concatenates the ledgers; equal ones (of cuts of one file) count once. Entries that
 * belong to no stream have idx UINT32_MAX.
 */
static void make_ledger(struct merge *m, struct rewrite *w)
{
	const size_t size = sizeof(struct aux_ledger_entry);

	for (size_t i = 0; i < m->n; i++) {
		const struct aux_bytes *l = &m->in[i].ledger;
		size_t at = m->ledger.len;
		int seen = l->len ? merge_is_seen(m, i, *l) : 1;

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
	if (m->ledger.len && m->ledger.len <= REWRITE_OWN_MAX)
		rewrite_own(w, AUX_OWN_LEDGER, m->ledger.data, m->ledger.len);
}

/*
 * HEADER_BUILD_ID: the union of the entries, each a perf_event_header with its size at
 * byte 6. A malformed entry ends its list, since the next cannot be found.
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
			seen = merge_is_seen(m, i, entry);
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
 * The first input's features, without those that hold for it alone. If any input ended
 * early, the output says so, or its readers would take it for complete.
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
		void *priv)
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
	return rc < 0 ? rc : rewrite_failed(w);
}
