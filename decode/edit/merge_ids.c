/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge: event ids, stream numbers and blobs inside records.
 *
 * Where an id stands in a record follows from the fields that were found there:
 * see perfdata/records.c and perfdata/reader_sample.c. An id that the file does not declare stays.
 */
#include <string.h>

#include "decode/edit/merge_impl.h"

#define LAST_KERNEL_TYPE 22
#define OWN_HEAD (8 + sizeof(struct aux_own_record))

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

/* Bytes from the id to the end of the trailer. */
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
