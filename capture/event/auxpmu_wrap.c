/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxpmu_wrap: which bytes of an overwritten AUX area are new since the last
 * snapshot.
 *
 * Drivers have two conventions for aux_head. A head that counts every byte
 * leaves nothing to find out. A head that is an offset in the buffer (Intel PT)
 * tells only modulo its size how much was produced: did the writer wrap around?
 *
 * Let p be the last head and h this one. The bytes of [h, p), cyclic, are
 * written only by a writer that wraps. So part of the buffer as the last
 * snapshot left it is remembered: verbatim the TAIL bytes before p, a hash of
 * each block in the NEAR bytes before p, and farther away a hash of one block
 * in FAR bytes. A writer that wraps passes over all of these. The PMU is
 * stopped during the comparison. Before the first snapshot the buffer is all
 * zeros, as the kernel allocates it.
 *
 * What this proves: if a remembered byte differs, the writer wrapped, and the
 * whole buffer is new (also when h == p: an exact multiple of the size). If
 * none differs, it did not wrap, unless it wrote the same bytes to the same
 * places, which trace with timestamps does not; even then what is saved is true
 * trace that ends at h, only less than was available. Fewer than FEW bytes may
 * coincide by chance: they count as untouched, but loss is not excluded. How
 * often the writer wrapped is never known: skipped is UINT64_MAX then. Not
 * compared: the part of a block after h, less than BLOCK bytes, if [h, p) is
 * longer than TAIL.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/event/auxpmu.h"

#define BLOCK 256	/* 8 bytes of hash each: 3 % of the buffer's size */
#define TAIL 4096
#define NEAR (64 << 10)
#define FAR (16 << 10)
#define FEW 64

struct mark {
	bool growing;		/* the head once exceeded size: it counts bytes */
	uint8_t tail[TAIL];	/* the last min(TAIL, size) bytes before p */
	uint64_t hash[];	/* per block; valid where is_kept() */
};

static struct mark *mark_of(const struct auxpmu_wrap *w)
{
	return (struct mark *)(void *)w->mark;
}

static uint64_t rotate(uint64_t v)
{
	return v << 29 | v >> 35;
}

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)

static void mix(uint64_t lane[4], const uint64_t v[4])
{
	size_t i;

	for (i = 0; i < 4; i++)
		lane[i] = rotate((lane[i] ^ v[i]) * HASH_FACTOR);
}

/* Four lanes, so that the multiplications overlap. */
static uint64_t hash_bytes(const uint8_t *p, size_t len)
{
	uint64_t lane[4] = { 1, 2, 3, 5 }, v[4];

	for (; len >= sizeof(v); p += sizeof(v), len -= sizeof(v)) {
		memcpy(v, p, sizeof(v));
		mix(lane, v);
	}
	if (len) {
		memset(v, 0, sizeof(v));
		memcpy(v, p, len);
		mix(lane, v);
	}
	return ((rotate(lane[0]) ^ lane[1]) * HASH_FACTOR + rotate(lane[2])) *
	       HASH_FACTOR ^ lane[3];
}

static size_t block_length(size_t size, size_t start)
{
	return size - start < BLOCK ? size - start : BLOCK;
}

/* Whether the hash of the block at s is kept for a head of p. */
static bool is_kept(const struct auxpmu_wrap *w, size_t s, size_t p)
{
	size_t before = p > s ? p - s : p + (w->size - s);

	return s % FAR == 0 || before <= NEAR;
}

/* The start of the next block after that at s whose hash is kept for a head of
 * p; size: none. */
static size_t next_kept(const struct auxpmu_wrap *w, size_t s, size_t p)
{
	size_t far = (s / FAR + 1) * FAR, near;

	s += BLOCK;
	if (s >= w->size || is_kept(w, s, p))
		return s;
	/* A buffer of at most NEAR bytes keeps all blocks. */
	near = p > NEAR ? p - NEAR : p + (w->size - NEAR);
	near = (near + BLOCK - 1) / BLOCK * BLOCK;
	if (near < s || near > far)
		near = far;
	return near < w->size ? near : w->size;
}

int auxpmu_prepare(struct auxpmu_wrap *w)
{
	static const uint8_t zeros[BLOCK];
	size_t n = (w->size + BLOCK - 1) / BLOCK, i;
	struct mark *m;

	if (w->mark)
		return 0;
	m = calloc(1, sizeof(*m) + n * sizeof(*m->hash));
	if (!m)
		return -AUX_E_NOMEM;
	for (i = 0; i < n; i++)
		m->hash[i] = i && i < n - 1 ? m->hash[0] :
			     hash_bytes(zeros, block_length(w->size, i * BLOCK));
	w->mark = (uint8_t *)m;
	return 0;
}

static size_t tail_length(const struct auxpmu_wrap *w)
{
	return w->size < TAIL ? w->size : TAIL;
}

/* Whether the last n bytes of the remembered tail still stand before offset
 * end. */
static bool same_tail(const struct auxpmu_wrap *w, size_t end, size_t n)
{
	const uint8_t *tail = mark_of(w)->tail + tail_length(w) - n;
	size_t before = n > end ? n - end : 0;	/* at the buffer's end */

	return !memcmp(tail, w->buf + w->size - before, before) &&
	       !memcmp(tail + before, w->buf + end - (n - before), n - before);
}

/* Whether the m bytes from h up to p are as the last snapshot left them. */
static bool untouched(const struct auxpmu_wrap *w, size_t h, size_t p, size_t m)
{
	size_t n = tail_length(w), s, len;

	if (!same_tail(w, p, m < n ? m : n))
		return false;
	if (m <= n)
		return true;
	for (s = 0; s < w->size; s = next_kept(w, s, p)) {
		size_t from_h = s >= h ? s - h : s + (w->size - h);

		len = block_length(w->size, s);
		if (from_h + len <= m && is_kept(w, s, p) &&
		    hash_bytes(w->buf + s, len) != mark_of(w)->hash[s / BLOCK])
			return false;
	}
	return true;
}

/* The n bytes from p on are new, and h is the head now. Hashes of other blocks
 * are still valid. */
static void remember(struct auxpmu_wrap *w, size_t p, size_t n, size_t h)
{
	struct mark *mark = mark_of(w);
	size_t tail = tail_length(w), s, len, first;

	for (s = 0; s < w->size; s = next_kept(w, s, h)) {
		size_t from_p = s >= p ? s - p : s + (w->size - p);

		len = block_length(w->size, s);
		/* The block starts among the new bytes, or contains p. */
		if ((from_p < n || (n && from_p + len > w->size)) &&
		    is_kept(w, s, h))
			mark->hash[s / BLOCK] = hash_bytes(w->buf + s, len);
	}
	first = tail > h ? tail - h : 0;
	memcpy(mark->tail, w->buf + w->size - first, first);
	memcpy(mark->tail + first, w->buf + h - (tail - first), tail - first);
}

/* The head counts bytes. */
static void measure_growing(struct auxpmu_wrap *w, uint64_t *len,
			 uint64_t *skipped)
{
	uint64_t n = w->head - w->pos;

	/* A driver with a 32-bit head wraps at 4 GB. */
	if (w->head < w->pos && w->pos <= UINT32_MAX)
		n = (uint32_t)n;
	*len = n < w->size ? n : w->size;
	*skipped = n - *len;
	w->pos = w->head;
}

/* The head is an offset. */
static void measure_offset(struct auxpmu_wrap *w, uint64_t *len,
			   uint64_t *skipped)
{
	size_t h = (size_t)(w->head % w->size), p = (size_t)(w->pos % w->size);
	size_t n = h >= p ? h - p : h + (w->size - p);

	if (untouched(w, h, p, w->size - n)) {
		*len = n;
		*skipped = w->size - n < FEW ? UINT64_MAX : 0;
		w->pos += n;
	} else {
		*len = w->size;
		*skipped = UINT64_MAX;
		w->pos += n + w->size;	/* one wrap at least */
	}
}

void auxpmu_remember(struct auxpmu_wrap *w, uint64_t len)
{
	size_t h = (size_t)(w->head % w->size);

	if (!mark_of(w)->growing)
		remember(w, h >= len ? h - (size_t)len :
				       h + (w->size - (size_t)len),
			 (size_t)len, h);
}

int auxpmu_snapshot(struct auxpmu_wrap *w, uint64_t *end, uint64_t *len,
		    uint64_t *skipped)
{
	if (auxpmu_prepare(w))
		return -AUX_E_NOMEM;
	*end = w->head % w->size;
	mark_of(w)->growing |= w->head > w->size;
	if (mark_of(w)->growing)
		measure_growing(w, len, skipped);
	else
		measure_offset(w, len, skipped);
	return 0;
}

void auxpmu_release(struct auxpmu_wrap *w)
{
	free(w->mark);
	w->mark = NULL;
}
