/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The walk over the records of a file that may end anywhere, and what they tell
 * for the features: the places of AUXTRACE, build ids, times, HEADER_FEATURE.
 *
 * Invariant: nothing in the file is believed; every size is checked against the
 * end of the file before it is used.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"

#include "perfdata/repair_scan.h"

#define WINDOW (128 << 10)
#define MISC_BUILD_ID (1 << 14)	/* PERF_RECORD_MISC_MMAP_BUILD_ID */
#define MAX_TYPE 1024	/* beyond any record there is or will soon be */
/* Of a killed `perf record -z` nobody knows it: larger than its buffers. */
#define COMP_MMAP_LEN (8 << 20)

/* Bytes of the file; NULL when they are not there. At most 128 KB. */
static const uint8_t *repair_peek(struct repair_scan *s, uint64_t at,
				  size_t len)
{
	if (at < s->buf_start || at - s->buf_start > s->buf_len ||
	    len > s->buf_len - (size_t)(at - s->buf_start)) {
		ssize_t n;

		do
			n = pread(s->fd, s->buf, WINDOW, (off_t)at);
		while (n < 0 && errno == EINTR);
		s->buf_start = at;
		s->buf_len = n > 0 ? (size_t)n : 0;
	}
	if (len > s->buf_len - (size_t)(at - s->buf_start))
		return NULL;
	return s->buf + (at - s->buf_start);
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t get_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Where time stands in the trailer, counted from the end of a record, and in a
 * SAMPLE from its start; only when all events agree. */
static void find_time(struct repair_scan *s)
{
	const uint64_t trailer = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				 PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID |
				 PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;
	uint64_t i, first = 0, type;

	for (i = 0; i < s->h.attrs.size / s->h.attr_size; i++) {
		const uint8_t *p = repair_peek(s, s->h.attrs.offset +
					       i * s->h.attr_size, 48);

		if (!p || !(get_u64(p + 40) & 1 << 18))	/* sample_id_all */
			return;
		type = get_u64(p + 24);
		if (i && (type ^ first) & (trailer | PERF_SAMPLE_IP))
			return;
		first = type;
	}
	if (!i || !(first & PERF_SAMPLE_TIME))
		return;
	s->has_time = true;
	s->time_back = 8 * (1 + !!(first & PERF_SAMPLE_ID) +
			    !!(first & PERF_SAMPLE_STREAM_ID) +
			    !!(first & PERF_SAMPLE_CPU) +
			    !!(first & PERF_SAMPLE_IDENTIFIER));
	s->time_front = 8 * (1 + !!(first & PERF_SAMPLE_IDENTIFIER) +
			     !!(first & PERF_SAMPLE_IP) +
			     !!(first & PERF_SAMPLE_TID));
}

static void take_time(struct repair_scan *s, const uint8_t *p, uint32_t type,
		      size_t size)
{
	size_t at = size - s->time_back;
	uint64_t ns;

	if (!s->has_time || type >= AUX_RECORD_HEADER_ATTR || size < 16)
		return;
	if (type == PERF_RECORD_SAMPLE)
		at = (size_t)s->time_front;
	if (at < 8 || at > size - 8)
		return;
	ns = get_u64(p + at);
	if (!ns)	/* made by the recorder: before all */
		return;
	if (ns > s->last_ns)
		s->last_ns = ns;
	if (s->w)
		writer_time(s->w, ns);
}

static void take_map(struct repair_scan *s, const uint8_t *p, size_t size)
{
	uint16_t misc = (uint16_t)(get_u32(p + 4) & 0xffff);
	const size_t head = 8 + 64;	/* pid to flags, then the name */
	uint8_t id_size;

	if (!(misc & MISC_BUILD_ID) || size <= head || !s->w)
		return;
	id_size = p[40];
	if (!id_size || id_size > 20 || !memchr(p + head, 0, size - head) ||
	    p[head] == '\0')
		return;
	writer_build_id(s->w, get_u32(p + 8), misc, (const char *)p + head,
			p + 44, id_size);
}

static void take_build_id(struct repair_scan *s, const uint8_t *p, size_t size)
{
	uint16_t misc = (uint16_t)(get_u32(p + 4) & 0xffff);
	const size_t head = 36;
	uint8_t id_size = 20;

	if (!s->w || size <= head || !memchr(p + head, 0, size - head))
		return;
	if (misc & 1 << 15 && p[32] && p[32] <= 20)
		id_size = p[32];
	writer_build_id(s->w, get_u32(p + 8), misc, (const char *)p + head,
			p + 12, id_size);
}

static void take_feature(struct repair_scan *s, const uint8_t *p, size_t size)
{
	uint64_t bit = size > 16 ? get_u64(p + 8) : UINT64_MAX;

	/* what the scan finds itself is better */
	if (!s->w || bit > AUX_FEAT_PMU_CAPS || bit <= AUX_FEAT_BUILD_ID ||
	    bit == AUX_FEAT_AUXTRACE || bit == AUX_FEAT_SAMPLE_TIME)
		return;
	if (bit == AUX_FEAT_COMPRESSED)
		s->zstd = false;	/* it is said how */
	writer_feature(s->w, (unsigned)bit, p + 16, size - 16);
}

#define MAX_SECTION (64 << 20)

/* Parts of a section, which come one behind the other. */
static void take_piece(struct repair_scan *s, const uint8_t *p, size_t size)
{
	const size_t head = sizeof(struct perf_event_header) +
			    sizeof(struct aux_own_record);
	struct aux_own_piece piece;
	uint64_t len;
	uint8_t *v;

	if (size < head + sizeof(piece) || !s->w)
		return;
	memcpy(&piece, p + head, sizeof(piece));
	len = get_u32(p + 20);
	if (len < sizeof(piece) || len > size - head)
		return;
	len -= sizeof(piece);
	if (!piece.offset)
		s->section_len = 0;
	if (piece.offset != s->section_len || piece.total > MAX_SECTION ||
	    len > piece.total - piece.offset ||
	    piece.bit != AUX_FEAT_TRACING_DATA)
		return;
	v = realloc(s->section, piece.total + 1);
	if (!v)
		return;
	s->section = v;
	memcpy(v + piece.offset, p + head + sizeof(piece), len);
	s->section_len = piece.offset + len;
	if (s->section_len == piece.total)
		writer_feature(s->w, piece.bit, v, piece.total);
}

static bool is_own(const uint8_t *p, size_t size, enum aux_own_kind kind)
{
	return size >= 24 && get_u32(p) == AUX_RECORD_EVENT_TYPE &&
	       get_u64(p + 8) == AUX_OWN_MAGIC &&
	       (get_u32(p + 16) & 0xffff) == kind;
}

/* The mark of an earlier repair that could not be completed. */
static bool is_mark(const uint8_t *p, size_t size)
{
	return size == 24 + sizeof(struct aux_own_loss) &&
	       is_own(p, size, AUX_OWN_LOSS) && get_u32(p + 24) == UINT32_MAX &&
	       get_u32(p + 28) == AUX_LEDGER_UNREAD;
}

void repair_take(struct repair_scan *s, const uint8_t *p, size_t size)
{
	uint32_t type = get_u32(p);

	s->r->n_records++;
	take_time(s, p, type, size);
	if (type == PERF_RECORD_MMAP2)
		take_map(s, p, size);
	else if (is_own(p, size, AUX_OWN_PIECE))
		take_piece(s, p, size);
}

static void take_record(struct repair_scan *s, const uint8_t *p, uint64_t at,
			size_t size)
{
	uint32_t type = get_u32(p);

	s->marked = is_mark(p, size);
	if ((type == AUX_RECORD_COMPRESSED || type == AUX_RECORD_COMPRESSED2) &&
	    repair_inflate(s, p, size))
		return;
	repair_take(s, p, size);
	switch (type) {
	case AUX_RECORD_BUILD_ID:
		take_build_id(s, p, size);
		break;
	case AUX_RECORD_HEADER_FEATURE:
		take_feature(s, p, size);
		break;
	case AUX_RECORD_AUXTRACE:
	case AUX_RECORD_AUXKIT_AUXTRACE_ZSTD:
		s->r->n_auxtrace++;
		s->r->aux_bytes += s->clip ? s->clip : get_u64(p + 8);
		if (s->w)
			writer_resume_chunk(s->w, at, (uint16_t)size);
		break;
	}
}

/* Length of a record of this type and size with what its size does not tell. */
static uint64_t full_length(const struct repair_scan *s, const uint8_t *p,
			    uint32_t type, uint32_t size)
{
	uint64_t len;

	if (type == AUX_RECORD_AUXTRACE ||
	    type == AUX_RECORD_AUXKIT_AUXTRACE_ZSTD) {
		len = get_u64(p + 8);
		return size < 48 || len > UINT64_MAX - size ? UINT64_MAX :
							      size + len;
	}
	if (type == AUX_RECORD_TRACING_DATA && size >= 12)
		return size + (((uint64_t)get_u32(p + 8) + 7) & ~UINT64_C(7));
	if (type != AUX_RECORD_COMPRESSED2 || size < 16)
		return size;
	/* perf 6.16 stores the sum, aligned to 8, in 16 bits, as they come */
	len = get_u64(p + 8);
	if (len > s->file_size || 16 + len <= size ||
	    (uint16_t)((16 + len + 7) & ~UINT64_C(7)) != size)
		return size;
	return 16 + len;
}

/* The file ends in the trace of a record: what is there is kept. Its length, or
 * 0. */
static uint64_t clip(struct repair_scan *s, uint32_t type, uint64_t len,
		     uint32_t size)
{
	uint64_t left = s->file_size - s->end;

	if (type != AUX_RECORD_AUXTRACE || left < size + 8)
		return 0;
	s->clip = (left - size) & ~UINT64_C(7);
	s->clip_at = s->end;
	s->r->missing = len - size - s->clip;
	return size + s->clip;
}

/* Length of the record at s->end with its payload. 0: the file ends in it, or
 * was not written from there on; UINT64_MAX: it is no record. */
static uint64_t measure(struct repair_scan *s, const uint8_t **rec)
{
	uint64_t left = s->file_size - s->end, len;
	const uint8_t *p = repair_peek(s, s->end, 8);
	uint32_t type, size;

	if (!p)
		return 0;
	type = get_u32(p);
	size = get_u32(p + 4) >> 16;
	if (!get_u64(p))
		return 0;	/* zeros: a hole */
	if (size < 8 || !type ||
	    (type > MAX_TYPE && type != AUX_RECORD_AUXKIT_AUXTRACE_ZSTD))
		return UINT64_MAX;
	*rec = repair_peek(s, s->end, size);
	if (!*rec)
		return 0;
	len = full_length(s, *rec, type, size);
	if (len != UINT64_MAX && len > left)
		len = clip(s, type, len, size);
	if (type == AUX_RECORD_COMPRESSED || type == AUX_RECORD_COMPRESSED2)
		s->zstd = true;
	return len;
}

/* perf makes room by this feature; without it compressed records are lost. */
static void add_compressed(struct repair_scan *s)
{
	const uint32_t v[5] = { 1, 1, 1, 1, COMP_MMAP_LEN };

	if (s->zstd && s->w && !s->w->features[AUX_FEAT_COMPRESSED].data)
		writer_feature(s->w, AUX_FEAT_COMPRESSED, v, sizeof(v));
}

int repair_scan(struct repair_scan *s, struct aux_diag *diag)
{
	uint8_t window[WINDOW];
	const uint8_t *p = NULL;
	uint64_t len;

	s->buf = window;
	s->buf_len = 0;
	s->end = s->h.data.offset;
	find_time(s);
	while ((len = measure(s, &p)) && len != UINT64_MAX) {
		take_record(s, p, s->end, get_u32(p + 4) >> 16);
		s->end += len;
	}
	s->buf = NULL;
	s->buf_len = 0;
	repair_inflate_end(s);
	free(s->section);
	s->section = NULL;
	if (len == UINT64_MAX)
		return diag_set(diag, AUX_E_FORMAT, s->end,
				"%s: what stands at byte %llu is no record: "
				"this is damage, not an early end", s->path,
				(unsigned long long)s->end);
	add_compressed(s);
	s->r->data_size = s->end - s->h.data.offset;
	s->r->cut = s->file_size - s->end;
	return s->w ? -s->w->error : 0;
}
