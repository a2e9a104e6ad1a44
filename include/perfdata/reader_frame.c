/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Framing: where each record of the data section begins and ends.
 *
 * Invariant: pos moves past a whole record and its payload or not at all.
 * header.size does not cover the payload of AUXTRACE and TRACING_DATA, and is
 * wrong in a COMPRESSED2 that was too long for its 16 bits (perf 6.16).
 */
#include "perfdata/impl.h"

#define HEADER 8
#define COMPRESSED2_HEADER 16

bool reader_header(const struct aux_reader *r, const uint8_t *p, size_t len,
		   struct aux_event *ev)
{
	struct cursor c = reader_cursor(r, p, len);

	ev->type = cursor_u32(&c);
	ev->misc = cursor_u16(&c);
	ev->size = cursor_u16(&c);
	if (ev->type >= SIMPLEPERF_FIRST) {
		ev->size |= (uint32_t)ev->misc << 16;
		ev->misc = 0;
	}
	return !c.bad;
}

static int fail_cut(struct aux_reader *r, uint64_t at, const char *what,
		    struct aux_diag *diag)
{
	if (r->seg->at_end)
		return diag_set(diag, AUX_E_TRUNCATED, at,
				"the file ends inside %s: what comes before it "
				"was read", what);
	return diag_set(diag, AUX_E_FORMAT, at,
			"the data section ends inside %s", what);
}

static int end_of_data(struct aux_reader *r, struct aux_diag *diag)
{
	if (!r->seg->cut)
		return 0;
	return diag_set(diag, AUX_E_TRUNCATED, r->seg->end,
			"the file was cut: at least %llu bytes of records are "
			"missing", (unsigned long long)r->seg->cut);
}

/*
 * perf 6.16 stores ALIGN(16 + data_size, 8) in the 16-bit size, and pads only
 * when that did not overflow: then the record is 16 + data_size bytes.
 */
static uint64_t compressed2_size(const struct aux_reader *r, const uint8_t *p,
				 uint64_t left, uint32_t size)
{
	struct cursor c = reader_cursor(r, p, left);
	uint64_t want;

	cursor_bytes(&c, HEADER);
	want = cursor_u64(&c);
	if (c.bad || want > left || COMPRESSED2_HEADER + want <= size)
		return size;
	want += COMPRESSED2_HEADER;
	return (uint16_t)((want + 7) & ~UINT64_C(7)) == size ? want : size;
}

static bool is_auxtrace(uint32_t type)
{
	return type == AUX_RECORD_AUXTRACE ||
	       type == AUX_RECORD_AUXKIT_AUXTRACE_ZSTD;
}

/* Bytes that follow a record and are not in its size. */
static uint64_t payload_size(const struct aux_reader *r,
			     const struct aux_event *ev)
{
	struct cursor c = reader_cursor(r, ev->raw.data, ev->raw.len);
	uint64_t size;

	cursor_bytes(&c, HEADER);
	if (is_auxtrace(ev->type))
		return cursor_u64(&c);
	if (ev->type != AUX_RECORD_TRACING_DATA)
		return 0;
	size = cursor_u32(&c);
	return (size + 7) & ~UINT64_C(7);
}

/* Steps over the payload; a cut one is the last thing that is returned. */
static int skip_payload(struct aux_reader *r, struct aux_event *ev,
			struct aux_diag *diag)
{
	uint64_t size = payload_size(r, ev);
	uint64_t left = r->seg->end - r->pos;

	if (size <= left) {
		r->pos += size;
		return 1;
	}
	if (!is_auxtrace(ev->type))
		return fail_cut(r, ev->offset, "tracing data", diag);
	fail_cut(r, ev->offset, "the payload of this AUXTRACE", &r->error);
	r->pos = r->seg->end;
	return 1;
}

int reader_frame(struct aux_reader *r, struct aux_event *ev,
		 struct aux_diag *diag)
{
	const uint8_t *p = r->file.data + r->pos;
	uint64_t left = r->seg->end - r->pos;
	uint64_t size;

	if (!left)
		return end_of_data(r, diag);
	if (!reader_header(r, p, left, ev))
		return fail_cut(r, r->pos, "a record's header", diag);
	size = ev->size;
	if (ev->type == AUX_RECORD_COMPRESSED2)
		size = compressed2_size(r, p, left, ev->size);
	if (size < HEADER)
		return diag_set(diag, AUX_E_FORMAT, r->pos,
				"a record of type %u has size %u, less than its "
				"header: what follows cannot be read", ev->type,
				ev->size);
	if (size > left)
		return fail_cut(r, r->pos, "a record", diag);
	ev->offset = r->pos;
	ev->raw = (struct aux_bytes){ p, size };
	r->pos += size;
	return skip_payload(r, ev, diag);
}
