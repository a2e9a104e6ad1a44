/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcheck: what auxcap says of its own recording, against what is in it.
 *
 * The ledger is right when its saved bytes are those of the file, when it counts
 * each loss that the file marks and no other, and when bytes that the PMU stored
 * and the file lacks are entered as unread or unwritten. Losses in the PMU itself
 * have no size there: only the module's stat knows it.
 */
#ifndef TOOLS_AUXCHECK_OWN_H
#define TOOLS_AUXCHECK_OWN_H

#include "tools/auxcheck.h"

static const char *const cause_names[AUX_LEDGER_N_CAUSES] = {
	"saved", "truncated", "partial", "collision", "lost_records", "overwritten", "throttled",
	"not_traced", "killed", "endless", "unexplained", "injected", "stalled", "unwritten",
	"unread", "offline", "ended", "undescribed", "at_least", "halted", "suspended",
};

static inline void take_ledger(struct check *c, struct aux_bytes b)
{
	struct aux_ledger_entry e;

	c->have_ledger = true;
	c->file_ledger.n = 0;	/* each holds all so far */
	for (; b.len >= sizeof(e); b.data += sizeof(e), b.len -= sizeof(e)) {
		memcpy(&e, b.data, sizeof(e));
		PUSH(&c->file_ledger, e);
	}
}

static inline void end_of_file(struct check *c)
{
	size_t i;

	for (i = 0; i < c->file_ledger.n; i++)
		PUSH(&c->ledger, c->file_ledger.p[i]);
	c->file_ledger.n = 0;
}

static inline void add_own(struct check *c, const struct aux_event *ev)
{
	switch (ev->own.kind) {
	case AUX_OWN_LOSS:
		PUSH(&c->losses, ev->own.loss);
		break;
	case AUX_OWN_SNAPSHOT:
		PUSH(&c->labels, (struct label){ ev->own.snapshot.h, ev->own.snapshot.label });
		break;
	case AUX_OWN_LEDGER:
		take_ledger(c, ev->own.ledger);
		break;
	case 0:
		return;	/* perf's */
	default:
		break;
	}
	c->own = true;
}

/* Bytes and times of a cause; idx NULL: of all streams. */
static inline struct aux_ledger_entry ledger_of(const struct check *c, const uint32_t *idx,
						uint32_t cause)
{
	struct aux_ledger_entry sum = { .cause = cause };
	size_t i;

	for (i = 0; i < c->ledger.n; i++) {
		const struct aux_ledger_entry *e = &c->ledger.p[i];

		if (e->cause != cause || (idx && e->idx != *idx))
			continue;
		sum.bytes += e->bytes;
		sum.n += e->n;
	}
	return sum;
}

/* Does the recorder say that something is missing at this place? */
static inline bool told_at(const struct check *c, unsigned int stream, uint64_t at)
{
	size_t i;

	for (i = 0; i < c->losses.n; i++)
		if (c->losses.p[i].idx == c->streams[stream].idx && c->losses.p[i].offset == at)
			return true;
	return false;
}

/*
 * Places where the area was full. Of one stop there may be several records that
 * all end at the same place; a stop later is at another.
 */
static inline void count_stops(struct stream *s)
{
	uint64_t at = NONE;
	size_t i;

	for (i = 0; i < s->records.n; i++) {
		const struct piece *r = &s->records.p[i];

		if (!(r->flags & PERF_AUX_FLAG_TRUNCATED))
			continue;
		if (r->end != at)
			s->n_stops++;
		at = r->end;
	}
}

/* A killed recorder's ledger is that of the files it had ended. */
static inline void expect(struct check *c, uint32_t idx, uint32_t cause, const char *what,
			  uint64_t got, uint64_t want)
{
	if (got != want && !(c->allow_tail && got < want))
		offend(c, "ledger idx=%u %s %s=%" PRIu64 " file=%" PRIu64, idx, cause_names[cause],
		       what, got, want);
}

static inline void check_ledger_stream(struct check *c, const struct stream *s)
{
	struct aux_ledger_entry over = ledger_of(c, &s->idx, AUX_LEDGER_OVERWRITTEN);
	uint64_t n_stalls = 0, stops;
	size_t i;

	for (i = 0; i < c->losses.n; i++)
		n_stalls += c->losses.p[i].idx == s->idx &&
			c->losses.p[i].cause == AUX_LEDGER_STALLED;
	expect(c, s->idx, AUX_LEDGER_SAVED, "bytes",
	       ledger_of(c, &s->idx, AUX_LEDGER_SAVED).bytes, s->bytes);
	/* an area that was left full: the record of that stop is in no file */
	stops = ledger_of(c, &s->idx, AUX_LEDGER_TRUNCATED).n;
	stops -= stops > s->n_stops && ledger_of(c, &s->idx, AUX_LEDGER_UNREAD).bytes;
	expect(c, s->idx, AUX_LEDGER_TRUNCATED, "times", stops, s->n_stops);
	expect(c, s->idx, AUX_LEDGER_PARTIAL, "times",
	       ledger_of(c, &s->idx, AUX_LEDGER_PARTIAL).n, s->n_flag[2]);
	expect(c, s->idx, AUX_LEDGER_COLLISION, "times",
	       ledger_of(c, &s->idx, AUX_LEDGER_COLLISION).n, s->n_flag[3]);
	expect(c, s->idx, AUX_LEDGER_STALLED, "times",
	       ledger_of(c, &s->idx, AUX_LEDGER_STALLED).n, n_stalls);
	if (!s->overwrite)
		return;
	printf("overwritten idx=%u ledger=%" PRIu64 " times=%" PRIu64 " real=%" PRIu64 "\n", s->idx,
	       over.bytes, over.n, s->hole);
	if (over.bytes > s->hole + s->slack || (s->hole && !over.n))
		offend(c, "ledger idx=%u overwritten=%" PRIu64 " times=%" PRIu64 " real=%" PRIu64,
		       s->idx, over.bytes, over.n, s->hole);
}

/* What the PMU stored is in the file, unread or unwritten. */
static inline void check_ledger_total(struct check *c)
{
	uint64_t unread = ledger_of(c, NULL, AUX_LEDGER_UNREAD).bytes, stored = 0, bytes = 0;
	uint64_t unwritten = ledger_of(c, NULL, AUX_LEDGER_UNWRITTEN).bytes, lost = 0, told;
	unsigned int i;

	for (i = 0; i < N_CPU; i++) {
		stored += c->cpu[i].stored;
		bytes += c->cpu[i].bytes;
		lost += c->cpu[i].lost + c->cpu[i].skipped;
	}
	told = ledger_of(c, NULL, AUX_LEDGER_TRUNCATED).n +
		ledger_of(c, NULL, AUX_LEDGER_PARTIAL).n +
		ledger_of(c, NULL, AUX_LEDGER_COLLISION).n +
		ledger_of(c, NULL, AUX_LEDGER_STALLED).n +
		ledger_of(c, NULL, AUX_LEDGER_LOST_RECORDS).bytes;
	printf("books stored=%" PRIu64 " in_file=%" PRIu64 " unread=%" PRIu64 " unwritten=%" PRIu64
	       " lost=%" PRIu64 " losses_told=%" PRIu64 "\n", stored, bytes, unread, unwritten,
	       lost, told);
	if (stored != bytes + unread + unwritten)
		offend(c, "books stored=%" PRIu64 " in_file=%" PRIu64 " unread=%" PRIu64
		       " unwritten=%" PRIu64, stored, bytes, unread, unwritten);
	if (lost && !told)
		offend(c, "silent lost=%" PRIu64 " and the ledger has no loss", lost);
}

static inline void check_labels(struct check *c)
{
	size_t i;

	for (i = 0; i < c->labels.n; i++) {
		const struct label *l = &c->labels.p[i];

		printf("label number=%" PRIu64 " reason=%u time=%" PRIu64 " text=%.*s\n",
		       l->h.number, l->h.reason, l->h.time_ns, (int)l->h.label_len,
		       l->text ? (const char *)l->text : "");
		if (l->h.number != i + 1)
			offend(c, "label number=%" PRIu64 " expected=%zu", l->h.number, i + 1);
		if (i && l->h.time_ns < l[-1].h.time_ns)
			offend(c, "label number=%" PRIu64 " is before the one before it",
			       l->h.number);
	}
	if (c->want_labels != NONE && c->want_labels != c->labels.n)
		offend(c, "labels=%zu asked_for=%" PRIu64, c->labels.n, c->want_labels);
}

static inline void check_own(struct check *c, bool overwrite)
{
	size_t i;

	check_labels(c);
	for (i = 0; i < c->ledger.n; i++) {
		const struct aux_ledger_entry *e = &c->ledger.p[i];

		printf("ledger idx=%d cause=%s bytes=%" PRIu64 " times=%" PRIu64 "\n", (int)e->idx,
		       e->cause < AUX_LEDGER_N_CAUSES ? cause_names[e->cause] : "unknown",
		       e->bytes, e->n);
	}
	if (!c->have_ledger)
		return;
	for (i = 0; i < c->n_streams; i++)
		check_ledger_stream(c, &c->streams[i]);
	if (c->have_stat && !overwrite && !c->allow_tail)
		check_ledger_total(c);
}

#endif
