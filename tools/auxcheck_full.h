/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcheck: full trace. The bytes of each stream meet, AUX records cover them
 * exactly, and each CPU's pattern is there once, in order, with marked holes.
 */
#ifndef TOOLS_AUXCHECK_FULL_H
#define TOOLS_AUXCHECK_FULL_H

#include "tools/auxcheck.h"
#include "tools/auxcheck_own.h"
#include "tools/auxcheck_pattern.h"

/* The chunks must meet: padding of at most 7 bytes is cut off. */
static inline void join_chunks(struct check *c, unsigned int n)
{
	struct stream *s = &c->streams[n];
	struct piece *last = s->records.n ? &s->records.p[s->records.n - 1] : NULL;
	size_t i;

	for (i = 0; i < s->chunks.n; i++) {
		struct piece *k = &s->chunks.p[i];
		uint64_t next = i + 1 < s->chunks.n ? k[1].at :
				last && last->end > k->at ? last->end : k->end;

		if (k->end > next && k->end - next < 8) {
			s->padding += k->end - next;
			k->end = next;
		}
		if (i + 1 < s->chunks.n && k->end != next)
			offend(c, "chunks stream=%u end=%" PRIu64 " next=%" PRIu64,
			       n, k->end, next);
		s->bytes += k->end - k->at;
	}
}

/* How many of the stream's bytes [at, end) the file has. */
static inline uint64_t have_range(const struct stream *s, uint64_t at, uint64_t end)
{
	size_t lo = 0, hi = s->chunks.n;
	uint64_t had = 0;

	while (lo < hi) {	/* the first chunk that ends behind at */
		size_t mid = lo + (hi - lo) / 2;

		if (s->chunks.p[mid].end > at)
			hi = mid;
		else
			lo = mid + 1;
	}
	for (; lo < s->chunks.n && s->chunks.p[lo].at < end; lo++) {
		const struct piece *k = &s->chunks.p[lo];
		uint64_t a = k->at > at ? k->at : at, b = k->end < end ? k->end : end;

		if (a >= b)
			continue;
		had += b - a;
	}
	return had;
}

/* The bytes in one, as a place is only known from some words of the pattern. */
static inline void take_all(struct check *c, unsigned int n)
{
	const struct pieces *k = &c->streams[n].chunks;
	uint8_t *buf = malloc(c->streams[n].bytes + 1);
	uint64_t len = 0;
	size_t i;

	if (!buf) {
		perror("auxcheck");
		exit(2);
	}
	for (i = 0; i < k->n; i++) {
		memcpy(buf + len, k->p[i].data, k->p[i].end - k->p[i].at);
		len += k->p[i].end - k->p[i].at;
		if (i + 1 < k->n && k->p[i + 1].at == k->p[i].end)
			continue;
		take(c, n, buf, len, k->p[i].end - len);
		len = 0;
	}
	free(buf);
}

static inline void check_full(struct check *c, unsigned int n)
{
	struct stream *s = &c->streams[n];
	bool cut = c->allow_tail || ledger_of(c, &s->idx, AUX_LEDGER_UNWRITTEN).bytes ||
		ledger_of(c, &s->idx, AUX_LEDGER_UNREAD).bytes;
	uint64_t at, top, behind;
	size_t i;

	join_chunks(c, n);
	take_all(c, n);
	at = s->chunks.n ? s->chunks.p[0].at : 0;
	top = s->chunks.n ? s->chunks.p[s->chunks.n - 1].end : 0;
	for (i = 0; i < s->records.n; i++) {
		struct piece *r = &s->records.p[i];

		if (r->at > at)
			s->uncovered += have_range(s, at, r->at);
		else if (r->at < at && r->end > r->at)
			offend(c, "record stream=%u offset=%" PRIu64 " before=%" PRIu64,
			       n, r->at, at);
		if (have_range(s, r->at > at ? r->at : at, r->end) !=
		    r->end - r->at && r->at >= at && !(cut && r->end > top))
			offend(c, "record stream=%u offset=%" PRIu64 " size=%" PRIu64
			       " not all in the file", n, r->at, r->end - r->at);
		if (r->end > at)
			at = r->end;
	}
	behind = top > at ? have_range(s, at, top) : 0;
	if (!c->allow_tail)	/* a killed recorder had not read the record yet */
		s->uncovered += behind;
	if (s->uncovered)
		offend(c, "uncovered stream=%u bytes=%" PRIu64 " lost_records=%" PRIu64,
		       n, s->uncovered, c->n_lost_records);
}

static inline int by_place(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	if (x->cpu != y->cpu)
		return x->cpu < y->cpu ? -1 : 1;
	return x->pos < y->pos ? -1 : x->pos > y->pos;
}

/*
 * What the records say of a hole behind offset `at` of s: a stop for want of room
 * is told by the record that ends there, other losses by one that holds it.
 */
static inline uint64_t marks_at(const struct stream *s, uint64_t at)
{
	size_t lo = 0, hi = s->records.n;
	uint64_t flags = 0;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->records.p[mid].end >= at)
			hi = mid;
		else
			lo = mid + 1;
	}
	for (; lo < s->records.n && s->records.p[lo].at <= at; lo++) {
		const struct piece *r = &s->records.p[lo];

		flags |= r->flags & (r->end == at ? LOSS : LOSS & ~PERF_AUX_FLAG_TRUNCATED);
	}
	return flags;
}

static inline void note_gap(struct check *c, const struct run *a, const struct run *b)
{
	struct source *o = &c->cpu[b->cpu];
	uint64_t n = b->pos - a->end, flags = marks_at(&c->streams[a->stream], a->at_end) |
		marks_at(&c->streams[b->stream], b->at);
	bool told = told_at(c, a->stream, a->at_end) || told_at(c, b->stream, b->at);

	o->n_gaps++;
	o->missing += n;
	if (c->verbose)
		printf("gap cpu=%u index=%" PRIu64 " bytes=%" PRIu64 " stream=%u offset=%" PRIu64
		       " flags=%#" PRIx64 " told=%d\n", b->cpu, a->end / 8, n, b->stream, b->at,
		       flags, told);
	if (flags || told)
		return;
	o->unmarked += n;
	if (!o->n_unmarked++)
		offend(c, "unmarked cpu=%u index=%" PRIu64 " bytes=%" PRIu64 " stream=%u offset=%"
		       PRIu64, b->cpu, a->end / 8, n, b->stream, b->at);
}

/* All runs of each CPU, whichever stream they are in. */
static inline void check_runs(struct check *c)
{
	const struct run *a = NULL;
	size_t i;

	for (i = 1; i < c->runs.n; i++) {
		const struct run *p = &c->runs.p[i];

		if (p[-1].stream == p->stream && p[-1].cpu == p->cpu && p->pos < p[-1].end)
			offend(c, "order stream=%u offset=%" PRIu64 " cpu=%u index=%" PRIu64
			       " after=%" PRIu64, p->stream, p->at, p->cpu, p->pos / 8,
			       p[-1].end / 8);
	}
	if (c->runs.n)
		qsort(c->runs.p, c->runs.n, sizeof(*c->runs.p), by_place);
	for (i = 0; i < c->runs.n; i++) {
		const struct run *b = &c->runs.p[i];
		struct source *o = &c->cpu[b->cpu];

		if (o->first == NONE)
			o->first = b->pos;
		else if (b->pos > a->end)
			note_gap(c, a, b);
		else if (b->pos < a->end && !c->duplicate++)
			offend(c, "duplicate cpu=%u index=%" PRIu64 " stream=%u offset=%" PRIu64,
			       b->cpu, b->pos / 8, b->stream, b->at);
		o->bytes += b->end - b->pos;
		if (o->last == NONE || b->end > o->last) {
			o->last = b->end;
			o->tail = *b;
			a = b;
		}
	}
}

/*
 * What a source lost at its very end has no run behind it: the last record, or
 * the recorder, must tell.
 */
static inline void check_tail(struct check *c, unsigned int cpu)
{
	struct source *o = &c->cpu[cpu];
	uint64_t made = o->before + o->produced;
	const struct stream *s = &c->streams[o->tail.stream];

	if (o->last == NONE || made <= o->last || c->allow_tail)
		return;
	if (marks_at(s, o->tail.at_end) || told_at(c, o->tail.stream, o->tail.at_end) ||
	    ledger_of(c, &s->idx, AUX_LEDGER_UNREAD).bytes ||
	    ledger_of(c, &s->idx, AUX_LEDGER_UNWRITTEN).bytes)
		return;
	offend(c, "unmarked tail cpu=%u bytes=%" PRIu64 " stream=%u offset=%" PRIu64, cpu,
	       made - o->last, o->tail.stream, o->tail.at_end);
}

#endif
