/* SPDX-License-Identifier: BSD-2-Clause */
/* auxcheck: finding the pattern in bytes, and cutting it into runs. */
#ifndef TOOLS_AUXCHECK_PATTERN_H
#define TOOLS_AUXCHECK_PATTERN_H

#include "tools/auxcheck.h"

enum { SURE_RUN = 24 };	/* bytes that are in order by no chance */

static inline uint64_t word_at(const uint8_t *p)
{
	uint64_t v = 0;
	int i;

	for (i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

/* How many bytes of p go on with CPU cpu's pattern from pos on. */
static inline uint64_t match(const uint8_t *p, uint64_t len, unsigned int cpu, uint64_t pos)
{
	uint64_t n = 0;

	while (n < len) {
		uint64_t k = pos + n, w = (uint64_t)cpu << 56 | k / 8;

		if (!(k % 8) && len - n >= 8 && word_at(p + n) == w) {
			n += 8;
			continue;
		}
		if (p[n] != (uint8_t)(w >> k % 8 * 8))
			break;
		n++;
	}
	return n;
}

/* Where the pattern p starts, from its words; long enough to be no chance. */
static inline bool find_place(const uint8_t *p, uint64_t len, unsigned int *cpu, uint64_t *pos)
{
	uint64_t shift;

	for (shift = 0; shift < 8 && shift + 8 <= len; shift++) {
		uint64_t w = word_at(p + shift), k = (w & (NONE >> 8)) * 8;
		uint64_t want = len < SURE_RUN ? len : SURE_RUN;

		if (k < shift)
			continue;
		if (match(p, len, (unsigned int)(w >> 56), k - shift) >= want) {
			*cpu = (unsigned int)(w >> 56);
			*pos = k - shift;
			return true;
		}
	}
	return false;
}

/* Does a record end there; one that tells of a loss, when asked for that? */
static inline bool record_ends(const struct stream *s, uint64_t at, bool lossy)
{
	size_t lo = 0, hi = s->records.n;

	while (lo < hi) {	/* ends do not go down */
		size_t mid = lo + (hi - lo) / 2;

		if (s->records.p[mid].end < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < s->records.n && s->records.p[lo].end == at; lo++)
		if (!lossy || s->records.p[lo].flags & LOSS)
			return true;
	return false;
}

static inline bool is_told(const struct check *c, const struct stream *s, uint64_t at)
{
	size_t i;

	for (i = 0; i < c->losses.n; i++)
		if (c->losses.p[i].idx == s->idx && c->losses.p[i].offset == at)
			return true;
	return record_ends(s, at, true);
}

/*
 * The last bytes of a run may by chance be the first of the next, too: of these
 * places the border is the one where a loss is told, else where a record ends.
 */
static inline void settle_border(const struct check *c, const struct stream *s, struct run *r,
				 struct run *fresh, const uint8_t *p)
{
	uint64_t n, most = r->end - r->pos < 8 ? r->end - r->pos : 8, best = NONE;

	for (n = 0; n <= most && n <= fresh->pos; n++) {
		if (n && match(p - n, 1, fresh->cpu, fresh->pos - n) != 1)
			break;
		if (best == NONE && record_ends(s, fresh->at - n, false))
			best = n;
		if (!is_told(c, s, fresh->at - n))
			continue;
		best = n;
		break;
	}
	if (best == NONE)
		return;
	r->end -= best;
	r->at_end -= best;
	fresh->pos -= best;
	fresh->at -= best;
	fresh->at_end -= best;
}

/*
 * A run between two told losses may be too short to show its place by itself: its
 * bytes are then those of the first place behind the last run that has such bytes.
 * Up to 7 of them may have looked as the last run's next ones.
 */
static inline bool place_short_run(const struct check *c, const struct stream *s,
				   struct run *last, const uint8_t *p, uint64_t len,
				   struct run *fresh)
{
	const uint64_t hole = 64 << 20;	/* bytes, the largest in which to look */
	uint64_t back = 0, n, pos, most = last->end - last->pos < 7 ? last->end - last->pos : 7;

	while (back < most && !is_told(c, s, fresh->at - back))
		back++;
	if (!is_told(c, s, fresh->at - back))
		return false;
	for (n = back + 1; n - back < len && n - back < SURE_RUN; n++)
		if (is_told(c, s, fresh->at - back + n))
			break;
	if (n - back == len || n - back == SURE_RUN)
		return false;
	for (pos = last->end - back + 1; pos < last->end + hole; pos++) {
		if (match(p - back, n, last->cpu, pos) != n)
			continue;
		last->end -= back;
		last->at_end -= back;
		fresh->at -= back;
		fresh->cpu = last->cpu;
		fresh->pos = pos;
		return true;
	}
	return false;
}

/* Adds bytes of stream s to the runs; the last run may go on. */
static inline void take(struct check *c, unsigned int s, const uint8_t *p, uint64_t len,
			uint64_t at)
{
	while (len) {
		struct run *r = c->runs.n ? &c->runs.p[c->runs.n - 1] : NULL;
		struct run fresh = { .at = at, .at_end = at, .stream = s };
		uint64_t n = 0;
		bool next = r && r->stream == s && r->at_end == at, found = false;

		if (next)
			n = match(p, len, r->cpu, r->end);
		if (n < 8 && n < len) {
			found = find_place(p, len, &fresh.cpu, &fresh.pos);
			if (found && next)
				settle_border(c, &c->streams[s], r, &fresh, p);
			else if (next)
				found = place_short_run(c, &c->streams[s], r, p, len, &fresh);
		}
		if (found) {
			fresh.at_end = at;
			fresh.end = fresh.pos + (at - fresh.at);
			PUSH(&c->runs, fresh);
			r = &c->runs.p[c->runs.n - 1];
			n = match(p, len, r->cpu, r->end);
		}
		if (n) {
			r->end += n;
			r->at_end += n;
		} else {
			if (!c->garbage++)
				offend(c, "garbage stream=%u offset=%" PRIu64 " byte=%#x",
				       s, at, p[0]);
			n = 1;
		}
		p += n;
		at += n;
		len -= n;
	}
}

#endif
