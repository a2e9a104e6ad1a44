/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxpmu: which bytes of an overwritten AUX area are new since the last look.
 *
 * Two conventions. A growing head counts every byte, so all is known. A head
 * that is an offset in the buffer (Intel PT) tells what was produced only modulo
 * size. Then, with p the last head and h this one, the bytes of [h, p), cyclic,
 * are those that a writer touches only by going round. The buffer as it was left
 * is remembered: verbatim the TAIL bytes before p, a hash of each block of the
 * NEAR bytes before p, and farther away of one block in FAR bytes: a writer that
 * goes round passes over all of them, and the PMU stands still while we look.
 * Before the first look all is zeros, as the kernel allocates it.
 *
 * Proven: a byte that differs there means that the writer went round, and then
 * the whole buffer is new (for h == p, too: an exact multiple of size). Zeros
 * are bytes like others. When none differs, the writer has not gone round unless
 * it wrote the same bytes to the same places, which a trace with time does not;
 * if it did, what is taken is still true trace that ends at h, only less of it
 * than could be had. Fewer than FEW bytes may be the same by chance: they are
 * taken for untouched, but loss is not ruled out. How often the writer went
 * round is never known: skipped is then UINT64_MAX. Not compared: less than a
 * block behind h, when [h, p) is longer than TAIL.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/event/auxpmu.h"

#define BLOCK 256	/* its hash: 3 % of the buffer in memory of our own */
#define TAIL 4096
#define NEAR (64 << 10)
#define FAR (16 << 10)
#define FEW 64

struct mark {
	bool growing;		/* the head was once beyond size: it counts */
	uint8_t tail[TAIL];	/* the last min(TAIL, size) bytes before p */
	uint64_t hash[];	/* of each block */
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

/* Is the hash of the block at s kept, when the newest byte is before p? */
static bool is_kept(const struct auxpmu_wrap *w, size_t s, size_t p)
{
	size_t before = p > s ? p - s : p + (w->size - s);

	return s % FAR == 0 || before <= NEAR;
}

static int make_mark(struct auxpmu_wrap *w)
{
	static const uint8_t zeros[BLOCK];
	size_t n = (w->size + BLOCK - 1) / BLOCK, i;
	struct mark *m = calloc(1, sizeof(*m) + n * sizeof(*m->hash));

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

/* n bytes that end at offset end: are they those that ended there? */
static bool same_tail(const struct auxpmu_wrap *w, size_t end, size_t n)
{
	const uint8_t *tail = mark_of(w)->tail + tail_length(w) - n;
	size_t before = n > end ? n - end : 0;	/* at the buffer's end */

	return !memcmp(tail, w->buf + w->size - before, before) &&
	       !memcmp(tail + before, w->buf + end - (n - before), n - before);
}

/* Are the m bytes from h on, up to p, as they were left? */
static bool untouched(const struct auxpmu_wrap *w, size_t h, size_t p, size_t m)
{
	size_t n = tail_length(w), s, len;

	if (!same_tail(w, p, m < n ? m : n))
		return false;
	if (m <= n)
		return true;
	for (s = 0; s < w->size; s += len) {
		size_t from_h = s >= h ? s - h : s + (w->size - h);

		len = block_length(w->size, s);
		if (from_h + len <= m && is_kept(w, s, p) &&
		    hash_bytes(w->buf + s, len) != mark_of(w)->hash[s / BLOCK])
			return false;
	}
	return true;
}

/* The n bytes from p on are new; the next look starts at h. */
static void remember(struct auxpmu_wrap *w, size_t p, size_t n, size_t h)
{
	struct mark *mark = mark_of(w);
	size_t tail = tail_length(w), s, len, first;

	for (s = 0; s < w->size; s += len) {
		size_t from_p = s >= p ? s - p : s + (w->size - p);

		len = block_length(w->size, s);
		/* It begins among the new bytes, or p lies within it. */
		if ((from_p < n || (n && from_p + len > w->size)) &&
		    is_kept(w, s, h))
			mark->hash[s / BLOCK] = hash_bytes(w->buf + s, len);
	}
	first = tail > h ? tail - h : 0;
	memcpy(mark->tail, w->buf + w->size - first, first);
	memcpy(mark->tail + first, w->buf + h - (tail - first), tail - first);
}

static void take_growing(struct auxpmu_wrap *w, uint64_t *len,
			 uint64_t *skipped)
{
	uint64_t n = w->head - w->pos;

	/* The head of a 32-bit driver wraps early. */
	if (w->head < w->pos && w->pos <= UINT32_MAX)
		n = (uint32_t)n;
	*len = n < w->size ? n : w->size;
	*skipped = n - *len;
	w->pos = w->head;
}

static void take_offset(struct auxpmu_wrap *w, uint64_t *len, uint64_t *skipped)
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
		w->pos += n + w->size;	/* at least */
	}
	remember(w, p, (size_t)*len, h);
}

int auxpmu_snapshot(struct auxpmu_wrap *w, uint64_t *end, uint64_t *len,
		    uint64_t *skipped)
{
	if (!w->mark && make_mark(w))
		return -AUX_E_NOMEM;
	*end = w->head % w->size;
	mark_of(w)->growing |= w->head > w->size;
	if (mark_of(w)->growing)
		take_growing(w, len, skipped);
	else
		take_offset(w, len, skipped);
	return 0;
}

void auxpmu_release(struct auxpmu_wrap *w)
{
	free(w->mark);
	w->mark = NULL;
}
