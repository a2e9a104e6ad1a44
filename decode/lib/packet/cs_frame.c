/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cs_frame: CoreSight formatter frames (packet.h, Arm IHI 0029).
 *
 * Bytes 0 to 14 of a frame form pairs; byte 14 is alone in the last. In each pair the
 * odd byte is data. The even byte is
 *   - data, if its lowest bit is 0: that bit is taken from byte 15; or
 *   - a new trace id in its upper seven bits: then the bit in byte 15 says whether
 *     the odd byte still belongs to the old id.
 * Byte 15 has one such bit per pair, the first pair lowest.
 *
 * Streams of one source are mostly frames without any id, 15 bytes of data: these are
 * recognized eight bytes at a time and unpacked without a loop over bytes.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "common/bytes.h"

#include "decode/lib/packet/packet.h"

/* The lowest bits of the even bytes of eight. */
#define ID_BITS UINT64_C(0x0001000100010001)
/*
 * Linux' sink drivers write four of these words (coresight_barrier_pkt) over
 * the first frame of a buffer that wrapped. A frame with IDs cannot look so:
 * 0x7f is reserved.
 */
#define FSYNC_TWICE UINT64_C(0x7fffffff7fffffff)
#define BYTES_MAX 15	/* of data in one frame */

/* Stores eight bytes. The second half of a frame has seven of data: its last
 * byte, the frame's flags, is overwritten by the next frame, or lies past the
 * end (reserve()). */
static inline void put_half(uint8_t *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	memcpy(p, &v, sizeof(v));
}

/* Four bits of byte 15 as the lowest bits of bytes 0, 2, 4 and 6. */
#define SPREAD(bits)                                                     \
	((bits & UINT64_C(1)) | (bits & UINT64_C(2)) << 15 |             \
	 (bits & UINT64_C(4)) << 30 | (bits & UINT64_C(8)) << 45)

static const uint64_t spread[16] = {
	SPREAD(0), SPREAD(1), SPREAD(2), SPREAD(3), SPREAD(4), SPREAD(5),
	SPREAD(6), SPREAD(7), SPREAD(8), SPREAD(9), SPREAD(10), SPREAD(11),
	SPREAD(12), SPREAD(13), SPREAD(14), SPREAD(15),
};

bool cs_frame_is_barrier(const uint8_t *data)
{
	return load_le64(data) == FSYNC_TWICE &&
	       load_le64(data + 8) == FSYNC_TWICE;
}

/*
 * Unpacks a frame of any kind: ids[i] is the trace id of data byte bytes[i]. *now is
 * the current id, before and after. Returns the number of data bytes.
 */
static unsigned unpack(const uint8_t *f, uint8_t *now, uint8_t *ids,
		       uint8_t *bytes)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CS_FRAME_SIZE; i += 2) {
		uint8_t flag = f[15] >> (i / 2) & 1, old = *now;

		if (f[i] & 1) {
			*now = f[i] >> 1;
		} else {
			ids[n] = old;
			bytes[n++] = f[i] | flag;
		}
		if (i == CS_FRAME_SIZE - 2)
			break;
		ids[n] = f[i] & flag ? old : *now;
		bytes[n++] = f[i + 1];
	}
	return n;
}

/* id: below CS_FRAME_N_IDS, or CS_FRAME_NO_ID. */
static void count_bytes(struct cs_frame_ids *ids, unsigned id, uint64_t n)
{
	if (id < CS_FRAME_N_IDS)
		ids->n[id] += n;
	else
		ids->n_unowned += n;
}

/* How many frames from p on have no id in them: no even byte has its lowest bit
 * set. */
static size_t count_plain(const uint8_t *p, size_t n_frames)
{
	size_t n = 0;

	while (n < n_frames && !((load_le64(p + n * CS_FRAME_SIZE) |
				  load_le64(p + n * CS_FRAME_SIZE + 8)) &
				 ID_BITS))
		n++;
	return n;
}

/* A barrier does not end the scan: bytes after it have no owner up to the next
 * id. */
void cs_frame_scan(struct cs_frame_ids *ids, const uint8_t *data, size_t len)
{
	size_t n_frames = len / CS_FRAME_SIZE, plain, n;
	uint8_t of[CS_FRAME_SIZE], bytes[CS_FRAME_SIZE];

	while (n_frames) {
		plain = count_plain(data, n_frames);
		count_bytes(ids, ids->id, plain * BYTES_MAX);
		data += plain * CS_FRAME_SIZE;
		n_frames -= plain;
		if (!n_frames)
			break;
		if (cs_frame_is_barrier(data)) {
			ids->id = CS_FRAME_NO_ID;
			ids->n_barriers++;
		} else {
			n = unpack(data, &ids->id, of, bytes);
			for (size_t i = 0; i < n; i++)
				count_bytes(ids, of[i], 1);
		}
		data += CS_FRAME_SIZE;
		n_frames--;
	}
}

uint64_t cs_frame_unowned(const uint8_t *data, size_t len)
{
	size_t n_frames = len / CS_FRAME_SIZE;
	size_t plain = count_plain(data, n_frames), i = 0;

	if (plain == n_frames)
		return plain * BYTES_MAX;
	data += plain * CS_FRAME_SIZE;
	while (!(data[i] & 1))
		i += 2;
	/* the odd byte after the first id may still belong to what precedes
	 * it */
	return plain * BYTES_MAX + i +
	       (i < CS_FRAME_SIZE - 2 && data[15] >> (i / 2) & 1);
}

void cs_frame_pick_init(struct cs_frame_pick *p, uint8_t id)
{
	*p = (struct cs_frame_pick){ .id = id, .now = CS_FRAME_NO_ID };
}

void cs_frame_pick_reset(struct cs_frame_pick *p)
{
	p->now = CS_FRAME_NO_ID;
	p->n = p->n_segs = p->cursor = 0;
	p->n_frames = 0;
}

void cs_frame_pick_fini(struct cs_frame_pick *p)
{
	free(p->data);
	free(p->segs);
	p->data = NULL;
	p->segs = NULL;
	p->n = p->cap = p->n_segs = p->cap_segs = 0;
}

/* Room for n_frames more, and for the byte that put_half() writes past the
 * last. */
static int reserve(struct cs_frame_pick *p, size_t n_frames)
{
	size_t want = p->n + n_frames * BYTES_MAX + CS_FRAME_SIZE;
	uint8_t *data;

	if (want <= p->cap)
		return 0;
	if (want < p->cap + p->cap / 2)
		want = p->cap + p->cap / 2;
	data = realloc(p->data, want);
	if (!data)
		return -AUX_E_NOMEM;
	p->data = data;
	p->cap = want;
	return 0;
}

/* A segment that begins at the next byte, which comes from the current
 * frame. */
static int add_seg(struct cs_frame_pick *p)
{
	size_t want = p->cap_segs ? 2 * p->cap_segs : 16;
	struct cs_frame_seg *segs;

	if (p->n_segs == p->cap_segs) {
		segs = reallocarray(p->segs, want, sizeof(*segs));
		if (!segs)
			return -AUX_E_NOMEM;
		p->segs = segs;
		p->cap_segs = want;
	}
	p->segs[p->n_segs++] = (struct cs_frame_seg){
		.pos = (uint32_t)p->n, .frame = (uint32_t)p->n_frames
	};
	return 0;
}

/* Does a frame of 15 bytes continue the last segment? */
static bool goes_on(const struct cs_frame_pick *p)
{
	const struct cs_frame_seg *s;

	if (!p->n_segs)
		return false;
	s = &p->segs[p->n_segs - 1];
	return p->n - s->pos == (p->n_frames - s->frame) * BYTES_MAX;
}

/* n frames without ids: all bytes belong to the current id. */
static int pick_plain(struct cs_frame_pick *p, const uint8_t *data, size_t n)
{
	uint8_t *to;

	if (p->now != p->id) {
		p->n_frames += n;
		return 0;
	}
	if (!goes_on(p) && add_seg(p) < 0)
		return -AUX_E_NOMEM;
	if (reserve(p, n) < 0)
		return -AUX_E_NOMEM;
	to = p->data + p->n;
	for (size_t i = 0; i < n; i++, data += CS_FRAME_SIZE, to += BYTES_MAX) {
		uint64_t lo = load_le64(data), hi = load_le64(data + 8);

		put_half(to, lo | spread[hi >> 56 & 15]);
		put_half(to + 8, hi | spread[hi >> 60]);
	}
	p->n += n * BYTES_MAX;
	p->n_frames += n;
	return 0;
}

/* A frame with ids in it is a segment of its own. */
static int pick_mixed(struct cs_frame_pick *p, const uint8_t *data)
{
	uint8_t of[CS_FRAME_SIZE], bytes[CS_FRAME_SIZE];
	unsigned n = unpack(data, &p->now, of, bytes);
	bool any = false;

	if (reserve(p, 1) < 0)
		return -AUX_E_NOMEM;
	for (unsigned i = 0; i < n; i++) {
		if (of[i] != p->id)
			continue;
		if (!any && add_seg(p) < 0)
			return -AUX_E_NOMEM;
		any = true;
		p->data[p->n++] = bytes[i];
	}
	p->n_frames++;
	return 0;
}

/* Segments have positions of 32 bits, which is why 4 GiB of bytes or frames are
 * refused before anything is picked. */
int64_t cs_frame_pick_add(struct cs_frame_pick *p, const uint8_t *data,
			  size_t len)
{
	size_t n_frames = len / CS_FRAME_SIZE, at = 0, plain;

	if (n_frames > UINT32_MAX - p->n_frames ||
	    n_frames * BYTES_MAX > UINT32_MAX - p->n)
		return -AUX_E_NOMEM;
	while (at < n_frames) {
		plain = count_plain(data + at * CS_FRAME_SIZE, n_frames - at);
		if (plain && pick_plain(p, data + at * CS_FRAME_SIZE,
					plain) < 0)
			return -AUX_E_NOMEM;
		at += plain;
		if (at == n_frames ||
		    cs_frame_is_barrier(data + at * CS_FRAME_SIZE))
			break;
		if (pick_mixed(p, data + at * CS_FRAME_SIZE) < 0)
			return -AUX_E_NOMEM;
		at++;
	}
	return (int64_t)(at * CS_FRAME_SIZE);
}

/* Moves the cursor to the segment that contains pos: a few steps ahead, which
 * does for positions that grow, or by bisection. */
static void move_cursor(struct cs_frame_pick *p, size_t pos)
{
	size_t lo = 0, n = p->n_segs;

	for (int i = 0; i < 4; i++) {
		if (p->segs[p->cursor].pos > pos)
			break;
		if (p->cursor + 1 == p->n_segs ||
		    p->segs[p->cursor + 1].pos > pos)
			return;
		p->cursor++;
	}
	while (n > 1) {
		size_t half = n / 2;

		if (p->segs[lo + half].pos <= pos)
			lo += half;
		n -= half;
	}
	p->cursor = lo;
}

struct cs_frame_run cs_frame_run(struct cs_frame_pick *p, size_t pos)
{
	struct cs_frame_run run = { .pos = pos, .len = 1 };
	const struct cs_frame_seg *s;
	size_t at = pos < p->n ? pos : p->n - 1, end;

	if (!p->n)
		return run;
	s = &p->segs[p->cursor];
	end = p->cursor + 1 < p->n_segs ? s[1].pos : p->n;
	if (at < s->pos || at >= end) {
		move_cursor(p, at);
		s = &p->segs[p->cursor];
		end = p->cursor + 1 < p->n_segs ? s[1].pos : p->n;
	}
	run = (struct cs_frame_run){
		.pos = s->pos, .len = end - s->pos,
		.offset = s->frame * (uint64_t)CS_FRAME_SIZE,
		.framed = CS_FRAME_FRAMED,
	};
	if (pos == at)
		return run;
	return (struct cs_frame_run){ .pos = pos, .len = 1,
				      .offset = cs_frame_at(&run, at) };
}
