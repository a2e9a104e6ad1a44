/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Features as records among the data. In a pipe there are no sections. In a file
 * they tell what a killed writer had no time to put into sections: perf, and who
 * repairs the file, take them from there.
 *
 * Specification: HEADER_FEATURE and TRACING_DATA of tools/perf/util/header.c in
 * Linux 6.1. Our own features are our own records only: perf inject up to this
 * day dies of a feature bit that it does not know.
 */
#include <string.h>
#include <stdlib.h>

#include "perfdata/writer_impl.h"

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
		return 0;	/* no record is that long */
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
	bool was_alone = w->alone;

	if (writer_zstd_pending(w))
		writer_zstd_drain(w);
	w->alone = true;	/* it is longer than the buffer, and one record */
	writer_put(w, &r, sizeof(r));
	writer_put(w, data, len);
	writer_put(w, zero, pad);
	w->alone = was_alone;
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
		return bit <= AUX_FEAT_PMU_CAPS ?
			put_feature(w, bit, data, len) : 0;
	}
}

static int send_one(struct writer *w, unsigned bit)
{
	struct writer_bytes *f = &w->features[bit];
	struct writer_desc d = { 0 };

	f->sent = true;
	if (bit == AUX_FEAT_AUXKIT_SOURCE)
		return put_own(w, AUX_OWN_SOURCE, f);
	if (bit == AUX_FEAT_AUXKIT_LEDGER)
		return put_own(w, AUX_OWN_LEDGER, f);
	if (f->data)
		return writer_feature_record(w, bit, f->data, f->len);
	writer_desc_make(w, bit, &d);
	if (d.bad)
		writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
	else if (d.len)
		writer_feature_record(w, bit, d.data, d.len);
	free(d.data);
	return -w->error;
}

/* What the writer knows from the start; the rest comes with the end. */
static bool is_known(const struct writer *w, unsigned bit)
{
	if (w->features[bit].data)
		return true;
	return (bit == AUX_FEAT_EVENT_DESC || bit == AUX_FEAT_COMPRESSED) &&
	       writer_desc_has(w, bit);
}

int writer_features_send(struct writer *w)
{
	unsigned bit;

	for (bit = 0; bit < AUX_FEAT_BITS && !w->error; bit++)
		if (!w->features[bit].sent && is_known(w, bit))
			send_one(w, bit);
	return -w->error;
}
