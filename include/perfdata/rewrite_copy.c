/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite: the records and features of one file into another.
 *
 * A pipe becomes a file: what it says in records goes into sections. Compressed
 * records and trace come out as what was in them, since not every reader can
 * unpack them.
 */
#include <stdlib.h>
#include <string.h>

#include "perfdata/rewrite_impl.h"

#define PROGRESS_RECORDS 4096

void rewrite_attrs_of(struct rewrite *w, const struct aux_reader *r)
{
	const struct aux_attr *a;

	for (size_t i = 0; (a = aux_reader_attr(r, i)); i++)
		rewrite_attr(w, a);
}

bool rewrite_is_form(const struct aux_reader *r, const struct aux_event *ev)
{
	bool pipe = aux_reader_info(r)->pipe;

	switch (ev->type) {
	case AUX_RECORD_COMPRESSED:
	case AUX_RECORD_COMPRESSED2:
	case AUX_RECORD_TRACING_DATA:
		return true;
	case AUX_RECORD_HEADER_ATTR:
	case AUX_RECORD_EVENT_UPDATE:
	case AUX_RECORD_HEADER_FEATURE:
	case AUX_RECORD_BUILD_ID:
		return pipe;
	case AUX_RECORD_EVENT_TYPE:
		return ev->own.kind == AUX_OWN_SOURCE;
	default:
		return false;
	}
}

/* Sections that hold only for the file that they are in. */
static bool is_of_form(unsigned bit)
{
	return bit == AUX_FEAT_AUXTRACE || bit == AUX_FEAT_COMPRESSED ||
	       bit == AUX_FEAT_DIR_FORMAT || bit == AUX_FEAT_AUXKIT_SOURCE;
}

void rewrite_features_of(struct rewrite *w, const struct aux_reader *r)
{
	struct aux_bytes b;

	for (unsigned bit = 0; bit < AUX_FEAT_BITS; bit++) {
		if (!is_of_form(bit) && aux_reader_feature(r, bit, &b, NULL) > 0)
			rewrite_feature(w, bit, b.data, b.len);
	}
}

struct aux_bytes rewrite_source_of(struct aux_reader *r)
{
	struct aux_bytes text = { 0 }, s;
	bool swapped = aux_reader_info(r)->swapped;
	struct aux_event ev;

	if (aux_reader_feature(r, AUX_FEAT_AUXKIT_SOURCE, &s, NULL) > 0 &&
	    s.len >= sizeof(struct aux_feat_text)) {
		uint32_t len;

		memcpy(&len, s.data + 4, sizeof(len));
		len = swapped ? __builtin_bswap32(len) : len;
		if (len <= s.len - 8)
			return (struct aux_bytes){ s.data + 8, len };
	}
	aux_reader_rewind(r);
	while (aux_reader_next(r, &ev, NULL) > 0) {
		if (ev.type == AUX_RECORD_EVENT_TYPE &&
		    ev.own.kind == AUX_OWN_SOURCE)
			text = ev.own.source;
	}
	return text;
}

static void copy_source(struct rewrite *w, struct aux_reader *r,
			const char *more)
{
	struct aux_bytes text = rewrite_source_of(r);
	size_t len = text.len, n = more ? strlen(more) : 0;
	struct rewrite_bytes b = { 0 };

	while (len && !text.data[len - 1])
		len--;
	rewrite_bytes_put(&b, text.data, len);
	if (len && text.data[len - 1] != '\n')
		rewrite_bytes_put(&b, "\n", 1);
	rewrite_bytes_put(&b, more, n);
	if (b.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	else if (b.len && b.len <= REWRITE_OWN_MAX)
		rewrite_own(w, AUX_OWN_SOURCE, b.data, b.len);
	free(b.data);
}

/* What a pipe has among its records and a file in sections. */
static void take_form(struct rewrite *w, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	uint32_t size;

	if (ev->type == AUX_RECORD_TRACING_DATA && ev->raw.len >= 12) {
		memcpy(&size, ev->raw.data + 8, sizeof(size));
		size = aux_reader_info(r)->swapped ? __builtin_bswap32(size) :
						     size;
		rewrite_feature(w, AUX_FEAT_TRACING_DATA,
				ev->raw.data + ev->raw.len, size);
	} else if (ev->type == AUX_RECORD_BUILD_ID) {
		rewrite_bytes_put(&w->build_ids, ev->raw.data, ev->raw.len);
	}
}

/* Where the file ends in it no padding is made: to some units it is no filler. */
static void copy_trace(struct rewrite *w, const struct aux_event *ev)
{
	uint64_t len = ev->auxtrace.payload.len;

	if (ev->auxtrace.clipped)
		len &= ~UINT64_C(7);
	rewrite_auxtrace(w, &ev->auxtrace.h, ev->auxtrace.payload.data, len);
}

static void copy_record(struct rewrite *w, struct aux_reader *r,
			const struct rewrite_filter *f,
			const struct aux_event *ev)
{
	if (rewrite_is_form(r, ev))
		take_form(w, r, ev);
	else if (ev->type == AUX_RECORD_AUXTRACE && f->no_trace)
		return;
	else if (ev->type == AUX_RECORD_AUXTRACE)
		copy_trace(w, ev);
	else if (!f->keep || f->keep(f->priv, ev))
		rewrite_record(w, ev->raw.data, ev->raw.len);
}

void rewrite_loss(struct rewrite *w, uint64_t from_ns)
{
	struct rewrite_bytes b = { .swap = w->swap };

	rewrite_bytes_u32(&b, UINT32_MAX);
	rewrite_bytes_u32(&b, AUX_LEDGER_UNREAD);
	rewrite_bytes_u64(&b, UINT64_MAX);
	rewrite_bytes_u64(&b, 0);
	rewrite_bytes_u64(&b, from_ns);
	rewrite_bytes_u64(&b, 0);
	rewrite_bytes_u32(&b, UINT32_MAX);
	rewrite_bytes_u32(&b, UINT32_MAX);
	if (b.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	else
		rewrite_own(w, AUX_OWN_LOSS, b.data, b.len);
	free(b.data);
}

int rewrite_copy(struct rewrite *w, struct aux_reader *r,
		 const struct rewrite_filter *f)
{
	const struct aux_file_info *info = aux_reader_info(r);
	struct aux_event ev;
	uint64_t n = 0, last_ns = 0;
	int rc;

	copy_source(w, r, f->source);
	aux_reader_rewind(r);
	while ((rc = aux_reader_next(r, &ev, NULL)) > 0 && !w->error) {
		copy_record(w, r, f, &ev);
		if (ev.id.present & PERF_SAMPLE_TIME && ev.id.time > last_ns)
			last_ns = ev.id.time;
		if (f->progress && n++ % PROGRESS_RECORDS == 0)
			f->progress(f->priv, ev.offset, info->size);
	}
	if (rc == -AUX_E_NOMEM)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	else if (rc < 0 || info->unfinished)
		rewrite_loss(w, last_ns);
	rewrite_features_of(w, r);
	if (w->build_ids.len)
		rewrite_feature(w, AUX_FEAT_BUILD_ID, w->build_ids.data,
				w->build_ids.len);
	return -w->error;
}
