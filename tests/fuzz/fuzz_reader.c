/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader over any bytes: open, every record as text, every feature. Two
 * passes must give equal records, and all that is handed out must be readable.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <aux/reader.h>

#include "common/outbuf.h"
#include "decode/cmd/impl.h"

#define MAX_RECORDS 20000

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

static uint64_t hash(uint64_t h, const void *data, uint64_t len)
{
	const uint8_t *p = data;

	while (len--)
		h = (h ^ *p++) * 0x100000001b3;
	return h;
}

/* All records; returns a hash of their text and payload. */
static uint64_t walk(struct aux_reader *r, struct outbuf *out, int *end)
{
	struct aux_diag diag = { 0 };
	struct aux_event ev;
	uint64_t h = 0;
	unsigned n = 0;

	while ((*end = aux_reader_next(r, &ev, &diag)) == 1) {
		ASSERT(ev.raw.len >= 8);
		h = hash(h, ev.raw.data, ev.raw.len);
		if (ev.type == AUX_RECORD_AUXTRACE)
			h = hash(h, ev.auxtrace.payload.data,
				 ev.auxtrace.payload.len);
		if (ev.type == PERF_RECORD_SAMPLE) {
			h = hash(h, ev.sample.raw_data.data,
				 ev.sample.raw_data.len);
			h = hash(h, ev.sample.aux.data, ev.sample.aux.len);
		}
		out->p = out->buf;
		record_text(out, r, &ev);
		h = hash(h, out->buf, (uint64_t)(out->p - out->buf));
		if (++n == MAX_RECORDS)
			break;
	}
	if (*end < 0) {
		ASSERT(diag.code == -*end && diag.text[0]);
		ASSERT(aux_reader_next(r, &ev, &diag) == *end);
	}
	return h;
}

static uint64_t look(const struct aux_reader *r)
{
	const struct aux_attr *a;
	struct aux_bytes b;
	struct aux_diag diag;
	uint64_t h = 0;

	for (size_t i = 0; (a = aux_reader_attr(r, i)); i++) {
		h = hash(h, &a->attr, sizeof(a->attr));
		h = hash(h, a->name, a->name ? strlen(a->name) : 0);
		for (uint32_t k = 0; k < a->n_ids; k++)
			ASSERT(aux_reader_attr_by_id(r, a->ids[k]));
	}
	for (unsigned i = 0; i <= AUX_FEAT_BITS; i++)
		if (aux_reader_feature(r, i, &b, &diag) == 1)
			h = hash(h, b.data, b.len);
	a = NULL;
	if (aux_reader_source(r, "source"))
		h = hash(h, aux_reader_source(r, "source"), 1);
	return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct aux_diag diag = { 0 };
	struct outbuf *out;
	struct aux_reader *r;
	uint64_t first;
	int end1, end2;

	if (aux_reader_open_mem(&r, data, len, "fuzz", &diag)) {
		ASSERT(!r && diag.code && diag.text[0]);
		return 0;
	}
	out = outbuf_new(-1);
	ASSERT(out);
	look(r);
	first = walk(r, out, &end1);
	aux_reader_rewind(r);
	ASSERT(walk(r, out, &end2) == first && end1 == end2);
	outbuf_free(out);
	aux_reader_close(r);
	return 0;
}
