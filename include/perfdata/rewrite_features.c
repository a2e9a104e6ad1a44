/* SPDX-License-Identifier: BSD-2-Clause */
/* rewrite_features, see there. Specification: tools/perf/util/header.c. */
#include <stdlib.h>
#include <string.h>

#include "perfdata/rewrite_features.h"

#define MISC_CPUMODE 7
#define MISC_BUILD_ID_SIZE (1 << 15)
#define NAME_ALIGN 64
#define MAX_SECTION (64 << 20)

static void take_time(struct rewrite_found *f, const struct aux_event *ev)
{
	if (!(ev->id.present & PERF_SAMPLE_TIME) || !ev->id.time)
		return;
	if (!f->first_ns || ev->id.time < f->first_ns)
		f->first_ns = ev->id.time;
	if (ev->id.time > f->last_ns)
		f->last_ns = ev->id.time;
}

/* Is an entry with this path and id there? Entries have been made here. */
static bool has_id(const struct rewrite_found *f, const uint8_t *id,
		   const char *path)
{
	const uint8_t *p = f->build_ids.data, *end = p + f->build_ids.len;
	uint16_t size;

	for (; p < end; p += size) {
		memcpy(&size, p + 6, sizeof(size));
		size = f->swap ? __builtin_bswap16(size) : size;
		if (!memcmp(p + 12, id, 20) &&
		    !strcmp((const char *)p + 36, path))
			return true;
	}
	return false;
}

static void take_map(struct rewrite_found *f, const struct aux_event *ev)
{
	static const uint8_t zeros[NAME_ALIGN];
	size_t len = ev->mmap.path ? strlen(ev->mmap.path) + 1 : 0;
	size_t padded = (len + NAME_ALIGN - 1) & ~(size_t)(NAME_ALIGN - 1);
	uint32_t head = (uint32_t)(36 + padded) << 16 |
			(ev->misc & MISC_CPUMODE) | MISC_BUILD_ID_SIZE;
	uint8_t id[24] = { 0 };

	if (!ev->mmap.build_id_size || len < 2 || padded > 8192)
		return;
	memcpy(id, ev->mmap.build_id, ev->mmap.build_id_size);
	id[20] = ev->mmap.build_id_size;
	if (has_id(f, id, ev->mmap.path))
		return;
	f->build_ids.swap = f->swap;
	rewrite_bytes_u32(&f->build_ids, 0);
	if (f->swap)	/* misc, then size, 16 bits each */
		head = head << 16 | head >> 16;
	rewrite_bytes_u32(&f->build_ids, head);
	rewrite_bytes_u32(&f->build_ids, UINT32_MAX);
	rewrite_bytes_put(&f->build_ids, id, sizeof(id));
	rewrite_bytes_put(&f->build_ids, ev->mmap.path, len);
	rewrite_bytes_put(&f->build_ids, zeros, padded - len);
}

/* HEADER_FEATURE: u64 bit, then what the section would hold. */
static void take_feature(struct rewrite_found *f, const struct aux_event *ev)
{
	uint64_t bit;

	if (ev->raw.len <= 16)
		return;
	memcpy(&bit, ev->raw.data + 8, sizeof(bit));
	bit = f->swap ? __builtin_bswap64(bit) : bit;
	/* what is found here is better; compressed records were unpacked */
	if (bit <= AUX_FEAT_BUILD_ID || bit > AUX_FEAT_PMU_CAPS ||
	    bit == AUX_FEAT_AUXTRACE || bit == AUX_FEAT_SAMPLE_TIME ||
	    bit == AUX_FEAT_COMPRESSED)
		return;
	f->features[bit] = (struct aux_bytes){ ev->raw.data + 16,
					       ev->raw.len - 16 };
}

/* Parts of a section, which come one behind the other. */
static void take_piece(struct rewrite_found *f, const struct aux_event *ev)
{
	const struct aux_bytes *b = &ev->own.payload;
	const size_t head = sizeof(struct aux_own_piece);
	uint64_t offset, total;
	uint32_t bit;

	if (b->len < head)
		return;
	memcpy(&bit, b->data, sizeof(bit));
	memcpy(&offset, b->data + 8, sizeof(offset));
	memcpy(&total, b->data + 16, sizeof(total));
	if (f->swap) {
		bit = __builtin_bswap32(bit);
		offset = __builtin_bswap64(offset);
		total = __builtin_bswap64(total);
	}
	if (!offset)
		f->pieces.len = 0;
	if (bit != AUX_FEAT_TRACING_DATA || offset != f->pieces.len ||
	    total > MAX_SECTION || b->len - head > total - offset)
		return;
	rewrite_bytes_put(&f->pieces, b->data + head, b->len - head);
	f->pieces_total = total;
}

int rewrite_found_take(struct rewrite_found *f, const struct aux_reader *r,
		       const struct aux_event *ev)
{
	(void)r;
	take_time(f, ev);
	if (ev->type == PERF_RECORD_MMAP2)
		take_map(f, ev);
	else if (ev->type == AUX_RECORD_HEADER_FEATURE)
		take_feature(f, ev);
	else if (ev->type == AUX_RECORD_EVENT_TYPE &&
		 ev->own.kind == AUX_OWN_PIECE)
		take_piece(f, ev);
	return f->build_ids.oom || f->pieces.oom ? -AUX_E_NOMEM : 0;
}

static void set(struct rewrite *w, unsigned bit, const void *data, size_t len)
{
	if (len && !rewrite_has_feature(w, bit))
		rewrite_feature(w, bit, data, len);
}

void rewrite_found_set(struct rewrite_found *f, struct rewrite *w)
{
	for (unsigned bit = 0; bit < AUX_FEAT_BITS; bit++)
		set(w, bit, f->features[bit].data, f->features[bit].len);
	set(w, AUX_FEAT_BUILD_ID, f->build_ids.data, f->build_ids.len);
	if (f->pieces.len == f->pieces_total)
		set(w, AUX_FEAT_TRACING_DATA, f->pieces.data, f->pieces.len);
	rewrite_put_u64(f->times, f->first_ns, f->swap);
	rewrite_put_u64(f->times + 8, f->last_ns, f->swap);
	if (f->last_ns)
		set(w, AUX_FEAT_SAMPLE_TIME, f->times, sizeof(f->times));
}

void rewrite_found_fini(struct rewrite_found *f)
{
	free(f->build_ids.data);
	free(f->pieces.data);
}
