/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The recorder's feature sections: what was set, what the writer itself knows,
 * and the same as records among the data.
 *
 * In a file they stand twice. As sections, after the data, where every reader
 * looks; as records, so that repair finds them when the writer was killed
 * before it could write sections. A pipe has the records alone.
 *
 * Specification: perf.data-file-format.txt; HEADER_* writers of
 * tools/perf/util/header.c and tools/perf/util/auxtrace.c (the AUXTRACE index)
 * of Linux 6.1.
 */
#include <stdlib.h>
#include <string.h>

#include "perfdata/impl.h"
#include "perfdata/perfdata.h"

#define COMP_ZSTD 1

static void put_index(const struct writer *w, struct rewrite_bytes *b)
{
	rewrite_bytes_u64(b, w->n_chunks);
	for (size_t i = 0; i < w->n_chunks; i++)
		rewrite_bytes_put(b, &w->chunks[i].at, sizeof(w->chunks[i].at));
}

static void put_time(const struct writer *w, struct rewrite_bytes *b)
{
	rewrite_bytes_u64(b, w->first_ns);
	rewrite_bytes_u64(b, w->last_ns);
}

static void put_compressed(const struct writer *w, struct rewrite_bytes *b)
{
	/* version, type, level, ratio (perf only prints it), size of a piece */
	const uint32_t v[5] = { 1, COMP_ZSTD, (uint32_t)w->opt.zstd_level, 1,
				WRITER_ZIN };

	rewrite_bytes_put(b, v, sizeof(v));
}

/* What a section holds that the writer knows itself: at most these five. */
static bool has_own(const struct writer *w, unsigned bit)
{
	switch (bit) {
	case AUX_FEAT_BUILD_ID:
		return w->build_ids.n > 0;
	case AUX_FEAT_EVENT_DESC:
		return w->events.n > 0;
	case AUX_FEAT_AUXTRACE:
		return w->n_chunks > 0;
	case AUX_FEAT_SAMPLE_TIME:
		return w->last_ns > 0;
	case AUX_FEAT_COMPRESSED:
		return w->opt.zstd_level > 0;
	default:
		return false;
	}
}

bool writer_make_section(const struct writer *w, unsigned bit,
			 struct rewrite_bytes *b)
{
	if (!has_own(w, bit))
		return false;
	if (bit == AUX_FEAT_BUILD_ID)
		build_id_set_put(&w->build_ids, b);
	else if (bit == AUX_FEAT_EVENT_DESC)
		event_list_put_desc(&w->events, b);
	else if (bit == AUX_FEAT_AUXTRACE)
		put_index(w, b);
	else if (bit == AUX_FEAT_SAMPLE_TIME)
		put_time(w, b);
	else if (bit == AUX_FEAT_COMPRESSED)
		put_compressed(w, b);
	return true;
}

/* In a pipe: a HEADER_BUILD_ID record. */
static int send_build_id(struct writer *w, const struct build_id *id)
{
	struct rewrite_bytes b = { 0 };
	struct iovec part;

	if (!w->started && writer_start(w))
		return -w->error;
	build_id_put(id, AUX_RECORD_BUILD_ID, &b);
	part = (struct iovec){ b.data, b.len };
	if (b.oom)
		writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
	else if (b.len <= WRITER_REC_MAX)
		writer_append(w, &part, 1);
	free(b.data);
	return -w->error;
}

/*
 * Features as records: HEADER_FEATURE and TRACING_DATA of
 * tools/perf/util/header.c in Linux 6.1. Features of ours become own records
 * only, never sections or HEADER_FEATURE: perf inject 6.1 dies of a feature bit
 * that it does not know.
 */

static const uint8_t zero[8];

static int put_feature(struct writer *w, unsigned bit, const void *data,
		       size_t len)
{
	size_t pad = -len & 7;
	struct {
		struct perf_event_header h;
		uint64_t bit;
	} r = { .h.type = AUX_RECORD_HEADER_FEATURE, .bit = bit };
	const struct iovec part[] = {
		{ &r, sizeof(r) },
		{ (void *)(uintptr_t)data, len },
		{ (void *)(uintptr_t)zero, pad },
	};

	if (len > WRITER_REC_MAX - sizeof(r))
		return 0;	/* it will be a section only */
	r.h.size = (uint16_t)(sizeof(r) + len + pad);
	return writer_append(w, part, 3);
}

/* Without it perf cannot even open a file with tracepoints. */
static int put_pieces(struct writer *w, unsigned bit, const void *data,
		      size_t len)
{
	struct aux_own_piece p = { .bit = bit, .total = len };
	const size_t most = WRITER_OWN_MAX - sizeof(p);
	size_t n;

	for (; p.offset < len && !w->error; p.offset += n) {
		n = len - p.offset < most ? len - p.offset : most;
		writer_append_own(w, AUX_OWN_PIECE, &p, sizeof(p),
				  (const uint8_t *)data + p.offset, n);
	}
	return -w->error;
}

/* The record, then bytes that its size does not cover, padded to 8. */
static int put_tracing_data(struct writer *w, const void *data, size_t len)
{
	size_t pad = -len & 7;
	struct {
		struct perf_event_header h;
		uint32_t size;
	} r = {
		.h.type = AUX_RECORD_TRACING_DATA,
		.h.size = sizeof(r),
		.size = (uint32_t)(len + pad),
	};
	bool was_alone = w->senders.alone;

	if (writer_zstd_pending(w))
		writer_zstd_drain(w);
	w->senders.alone = true;	/* it is longer than the buffer, and one record */
	writer_put(w, &r, sizeof(r));
	writer_put(w, data, len);
	writer_put(w, zero, pad);
	w->senders.alone = was_alone;
	return -w->error;
}

/* The first word of our sections is their version, the second a count. */
static int put_own(struct writer *w, enum aux_own_kind kind,
		   const struct writer_bytes *f)
{
	const size_t head = sizeof(struct aux_feat_text);

	if (f->len < head || f->len - head > WRITER_OWN_MAX)
		return 0;
	return writer_append_own(w, kind, NULL, 0, (uint8_t *)f->data + head,
				 f->len - head);
}

int writer_feature_record(struct writer *w, unsigned bit, const void *data,
			  size_t len)
{
	switch (bit) {
	case AUX_FEAT_TRACING_DATA:
		return w->opt.pipe ? put_tracing_data(w, data, len) :
				     put_pieces(w, bit, data, len);
	case AUX_FEAT_BUILD_ID:		/* records of another type */
	case AUX_FEAT_AUXTRACE:		/* means nothing in a pipe */
	case AUX_FEAT_CACHE:
	case AUX_FEAT_DIR_FORMAT:
		return 0;
	default:
		return bit <= AUX_FEAT_PERF_LAST ?
			put_feature(w, bit, data, len) : 0;
	}
}

static int send_one(struct writer *w, unsigned bit)
{
	struct writer_bytes *f = &w->features[bit];
	struct rewrite_bytes b = { 0 };

	f->sent = true;
	if (bit == AUX_FEAT_AUXKIT_SOURCE)
		return put_own(w, AUX_OWN_SOURCE, f);
	if (bit == AUX_FEAT_AUXKIT_LEDGER)
		return put_own(w, AUX_OWN_LEDGER, f);
	if (f->data)
		return writer_feature_record(w, bit, f->data, f->len);
	writer_make_section(w, bit, &b);
	if (b.oom)
		writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
	else if (b.len)
		writer_feature_record(w, bit, b.data, b.len);
	free(b.data);
	return -w->error;
}

/* What the writer knows from the start; the rest comes with the end. */
static bool is_known(const struct writer *w, unsigned bit)
{
	if (w->features[bit].data)
		return true;
	return (bit == AUX_FEAT_EVENT_DESC || bit == AUX_FEAT_COMPRESSED) &&
	       has_own(w, bit);
}

int writer_features_send(struct writer *w)
{
	unsigned bit;

	for (bit = 0; bit < AUX_FEAT_BITS && !w->error; bit++)
		if (!w->features[bit].sent && is_known(w, bit))
			send_one(w, bit);
	return -w->error;
}

static int set_feature(struct writer *w, unsigned bit, const void *data,
		       size_t len)
{
	struct writer_bytes *f;
	void *copy;

	if (bit >= AUX_FEAT_BITS)
		return writer_fail(w, AUX_E_INVAL, "%s: no feature %u", w->path,
				   bit);
	copy = malloc(len + 1);
	if (!copy)
		return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
				   w->path);
	if (len)
		memcpy(copy, data, len);
	f = &w->features[bit];
	free(f->data);
	f->data = copy;
	f->len = len;
	f->sent = false;
	if (w->started && !w->finished)
		return writer_features_send(w);
	return 0;
}

int writer_feature(struct writer *w, unsigned bit, const void *data, size_t len)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	ret = set_feature(w, bit, data, len);
	pthread_mutex_unlock(&w->lock);
	return ret;
}

static int add_build_id(struct writer *w, uint32_t pid, uint16_t cpumode,
			const char *path, const uint8_t *id, size_t id_size)
{
	int is_new;

	if (!id_size || id_size > BUILDID_MAX)
		return writer_fail(w, AUX_E_INVAL, "%s: build id of %zu bytes",
				   w->path, id_size);
	is_new = build_id_set_add(&w->build_ids, pid, cpumode, path, id,
				  id_size);
	if (is_new < 0)
		return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
				   w->path);
	return is_new && w->opt.pipe ?
		send_build_id(w, &w->build_ids.v[w->build_ids.n - 1]) : 0;
}

int writer_build_id(struct writer *w, uint32_t pid, uint16_t cpumode,
		    const char *path, const uint8_t *id, size_t id_size)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	ret = add_build_id(w, pid, cpumode, path, id, id_size);
	pthread_mutex_unlock(&w->lock);
	return ret;
}

/*
 * What the sections hold: bytes that were set win over what the writer itself
 * knows. made keeps what is made here. Our own features are records among the
 * data, never sections.
 */
static void collect_sections(struct writer *w, struct aux_bytes *v,
			     struct rewrite_bytes *made)
{
	for (unsigned bit = 0; bit <= AUX_FEAT_PERF_LAST; bit++) {
		const struct writer_bytes *f = &w->features[bit];

		if (f->data)
			v[bit] = (struct aux_bytes){ f->data, f->len };
		else if (writer_make_section(w, bit, &made[bit]))
			v[bit] = (struct aux_bytes){ made[bit].data,
						     made[bit].len };
		if (made[bit].oom)
			writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
				    w->path);
	}
}

int writer_features_emit(struct writer *w, struct aux_file_header *h)
{
	struct rewrite_bytes made[AUX_FEAT_PERF_LAST + 1] = { 0 }, table = { 0 };
	struct aux_bytes v[AUX_FEAT_BITS] = { 0 };
	unsigned bit;

	collect_sections(w, v, made);
	section_put_table(v, w->data_end, &table, h->features);
	if (table.oom)
		writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
	writer_put(w, table.data, table.len);
	for (bit = 0; bit <= AUX_FEAT_PERF_LAST && !w->error; bit++)
		writer_put(w, v[bit].data, v[bit].len);
	for (bit = 0; bit <= AUX_FEAT_PERF_LAST; bit++)
		free(made[bit].data);
	free(table.data);
	return writer_send_buf(w);
}

void writer_features_free(struct writer *w)
{
	build_id_set_fini(&w->build_ids);
	for (size_t i = 0; i < AUX_FEAT_BITS; i++)
		free(w->features[i].data);
}
