/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loss ledger: nothing is lost silently. Per stream, the bytes that the PMU
 * produced are the sum of those saved and of those lost to each cause.
 *
 * Invariant: what cannot be entered for want of memory makes the ledger
 * unbalanced, so that it is never taken for complete. Statics are called with
 * the lock held, unless they take it. There are few streams and causes, so the
 * arrays are searched from the front.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"

#include "perfdata/ledger.h"

struct ledger_stream {
	uint32_t idx;
	uint64_t produced;
};

/* How a cause is counted and what it is called. table */
static const struct {
	const char *one, *many;	/* what is counted */
	const char *text;
	bool bytes;		/* part of the balance */
	bool expected;		/* no loss */
	const char *gap, *gaps;	/* bytes: what n counts; NULL: "gap(s)" */
} causes[AUX_LEDGER_N_CAUSES] = {
	[AUX_LEDGER_SAVED] = { "byte", "bytes", "saved", true, true, NULL, NULL },
	[AUX_LEDGER_TRUNCATED] = { "byte", "bytes", "AUX buffer full", true,
				   false, NULL, NULL },
	[AUX_LEDGER_PARTIAL] = { "byte", "bytes", "partial trace", true,
				 false, NULL, NULL },
	[AUX_LEDGER_COLLISION] = { "byte", "bytes", "collision", true, false, NULL, NULL },
	[AUX_LEDGER_LOST_RECORDS] = { "record", "records", "data buffer full",
				      false, false, NULL, NULL },
	[AUX_LEDGER_OVERWRITTEN] = { "byte", "bytes", "overwritten", true,
				     true, NULL, NULL },
	[AUX_LEDGER_THROTTLED] = { "byte", "bytes", "throttled", true, false,
				   "stop", "stops" },
	[AUX_LEDGER_NOT_TRACED] = { "process", "processes", "not traced",
				    false, false, NULL, NULL },
	[AUX_LEDGER_KILLED] = { "thread's last instructions",
				"threads' last instructions",
				"killed in mid-run: where cannot be known",
				false, false, NULL, NULL },
	[AUX_LEDGER_ENDLESS] = { "endless loop's turns", "endless loops' turns",
				 "a loop of plain jumps: no packet counts them",
				 false, false, NULL, NULL },
	[AUX_LEDGER_UNEXPLAINED] = { "step", "steps",
				     "no branch explains them: a bug in auxcap, "
				     "please report it", false, false, NULL, NULL },
	[AUX_LEDGER_INJECTED] = { "overflow", "overflows", "injected as asked",
				  false, false, NULL, NULL },
	[AUX_LEDGER_STALLED] = { "byte", "bytes", "PMU had stopped silently",
				 true, false, "stop", "stops" },
	[AUX_LEDGER_UNWRITTEN] = { "byte", "bytes", "could not be written",
				   true, false, "write", "writes" },
	[AUX_LEDGER_UNREAD] = { "byte", "bytes", "left in the buffer at the end",
				true, false, "buffer", "buffers" },
	[AUX_LEDGER_OFFLINE] = { "byte", "bytes", "the CPU was offline", true,
				 false, NULL, NULL },
	[AUX_LEDGER_ENDED] = { "byte", "bytes", "the event had ended", true,
			       false, NULL, NULL },
	[AUX_LEDGER_UNDESCRIBED] = { "process", "processes",
				     "maps could not be read", false, false, NULL, NULL },
	[AUX_LEDGER_AT_LEAST] = { "time", "times",
				  "overwritten more than is known", false, true, NULL, NULL },
	[AUX_LEDGER_HALTED] = { "time", "times", "auxcap itself was stopped",
				false, true, NULL, NULL },
	[AUX_LEDGER_SUSPENDED] = { "time", "times", "the machine slept", false,
				   false, NULL, NULL },
	[AUX_LEDGER_ABANDONED] = { "thread's end", "threads' ends",
				   "let go of, as one stood still: a bug in "
				   "auxcap, please report it", false, false, NULL,
				   NULL },
};

void ledger_fini(struct ledger *l)
{
	free(l->entries);
	free(l->streams);
	memset(l, 0, sizeof(*l));
}

/* The lock is no part of what a const ledger promises not to change. */
static void lock(const struct ledger *l)
{
	pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&l->lock);
}

static void unlock(const struct ledger *l)
{
	pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&l->lock);
}

/* Room for one more element. Without it the ledger is marked as incomplete. */
static bool grow(struct ledger *l, void *array, size_t n, size_t *cap,
		 size_t size)
{
	if (array_grow(array, n, cap, size))
		l->nomem = true;
	return n < *cap;
}

/* Streams come into being when they first produce bytes. The lock is held. */
static void add_produced(struct ledger *l, uint32_t idx, uint64_t bytes)
{
	size_t i;

	for (i = 0; i < l->n_streams && l->streams[i].idx != idx; i++)
		;
	if (i == l->n_streams) {
		if (!grow(l, &l->streams, i, &l->cap_streams,
			  sizeof(*l->streams)))
			return;
		l->streams[i] = (struct ledger_stream){ .idx = idx };
		l->n_streams++;
	}
	l->streams[i].produced += bytes;
}

void ledger_produced(struct ledger *l, uint32_t idx, uint64_t bytes)
{
	lock(l);
	add_produced(l, idx, bytes);
	unlock(l);
}

/*
 * One entry for each stream and cause: bytes and times add up, the span of time
 * grows to hold both. A time of 0 is not known and does not count as the
 * earliest. So the ledger stays small, however often something is lost. The
 * lock is held.
 */
static void add_entry(struct ledger *l, const struct aux_ledger_entry *add)
{
	struct aux_ledger_entry *e;
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->entries[i].idx == add->idx &&
		    l->entries[i].cause == add->cause)
			break;
	if (i == l->n) {
		if (!grow(l, &l->entries, i, &l->cap, sizeof(*l->entries)))
			return;
		l->entries[i] = *add;
		l->n++;
		return;
	}
	e = &l->entries[i];
	e->bytes += add->bytes;
	e->n += add->n;
	if (add->first_ns && (!e->first_ns || add->first_ns < e->first_ns))
		e->first_ns = add->first_ns;
	if (add->last_ns > e->last_ns)
		e->last_ns = add->last_ns;
}

/* A loss of bytes counts even when its size is unknown: the kernel reports a
 * truncated buffer, but not how much did not fit. */
static bool counts_empty(enum aux_ledger_cause cause)
{
	return causes[cause].bytes && cause != AUX_LEDGER_SAVED;
}

/* Bytes that were saved in no bytes are no event; a loss without a size is one,
 * and counted as unknown, for the text to say so. */
void ledger_add(struct ledger *l, uint32_t idx, enum aux_ledger_cause cause,
		uint64_t bytes, uint64_t first_ns, uint64_t last_ns)
{
	struct aux_ledger_entry e = {
		.idx = idx, .cause = cause, .bytes = bytes,
		.first_ns = first_ns, .last_ns = last_ns,
		.n = bytes || counts_empty(cause),
	};

	lock(l);
	add_entry(l, &e);
	if (e.n && !bytes)
		l->unknown[cause]++;
	unlock(l);
}

void ledger_until(struct ledger *l, uint32_t idx, enum aux_ledger_cause cause,
		  uint64_t last_ns)
{
	struct aux_ledger_entry e = { .idx = idx, .cause = cause,
				      .last_ns = last_ns };

	lock(l);
	add_entry(l, &e);
	unlock(l);
}

/* Locks dst, then src: of two ledgers only one is ever merged into the
 * other. */
void ledger_merge(struct ledger *dst, const struct ledger *src)
{
	size_t i;

	lock(dst);
	lock(src);
	for (i = 0; i < src->n_streams; i++)
		add_produced(dst, src->streams[i].idx,
			     src->streams[i].produced);
	for (i = 0; i < src->n; i++)
		add_entry(dst, &src->entries[i]);
	for (i = 0; i < AUX_LEDGER_N_CAUSES; i++)
		dst->unknown[i] += src->unknown[i];
	dst->nomem |= src->nomem;
	unlock(src);
	unlock(dst);
}

/* Bytes, or what the cause counts, and how often. */
static void sum_up(const struct ledger *l, enum aux_ledger_cause cause,
		   uint64_t *total, uint64_t *n)
{
	size_t i;

	*total = *n = 0;
	lock(l);
	for (i = 0; i < l->n; i++)
		if (l->entries[i].cause == cause) {
			*total += l->entries[i].bytes;
			*n += l->entries[i].n;
		}
	unlock(l);
}

uint64_t ledger_total(const struct ledger *l, enum aux_ledger_cause cause)
{
	uint64_t total, n;

	sum_up(l, cause, &total, &n);
	return total;
}

uint64_t ledger_times(const struct ledger *l, enum aux_ledger_cause cause)
{
	uint64_t total, n;

	sum_up(l, cause, &total, &n);
	return n;
}

/* A ledger that ran out of memory cannot rule a loss out, so it counts as
 * one. */
bool ledger_lossy(const struct ledger *l)
{
	uint64_t total, n;
	unsigned c;

	for (c = 0; c < AUX_LEDGER_N_CAUSES; c++) {
		if (causes[c].expected)
			continue;
		sum_up(l, c, &total, &n);
		if (total || n)
			return true;
	}
	return l->nomem;
}

/* Bytes that the entries of a stream explain. */
static uint64_t explained(const struct ledger *l, uint32_t idx)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->entries[i].idx == idx &&
		    causes[l->entries[i].cause].bytes)
			sum += l->entries[i].bytes;
	return sum;
}

/* The balance: for each stream, produced = saved + lost. A difference is a bug
 * of the recorder, and the recording must not pass as complete. The lock is
 * held. */
static int check_streams(const struct ledger *l, struct aux_diag *diag)
{
	size_t i;

	if (l->nomem)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"out of memory for the ledger of losses");
	for (i = 0; i < l->n_streams; i++) {
		const struct ledger_stream *s = &l->streams[i];
		uint64_t sum = explained(l, s->idx);

		if (sum != s->produced)
			return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
					"stream %" PRIu32 " produced %" PRIu64
					" bytes of trace, but %" PRIu64
					" are saved or explained", s->idx,
					s->produced, sum);
	}
	return 0;
}

int ledger_check(const struct ledger *l, struct aux_diag *diag)
{
	int ret;

	lock(l);
	ret = check_streams(l, diag);
	unlock(l);
	return ret;
}

/* The section; without its head, the record. */
static char *pack(const struct ledger *l, size_t *len)
{
	struct aux_feat_ledger h = { .version = 2 };
	char *p;

	lock(l);
	h.n_entries = (uint32_t)l->n;
	*len = sizeof(h) + l->n * sizeof(*l->entries);
	p = malloc(*len);
	if (p)
		memcpy(p, &h, sizeof(h));
	if (p && l->n)
		memcpy(p + sizeof(h), l->entries, l->n * sizeof(*l->entries));
	unlock(l);
	return p;
}

/* The writer copies the bytes. */
int ledger_save(const struct ledger *l, struct writer *w)
{
	size_t size;
	char *p = pack(l, &size);
	int ret;

	if (!p)
		return -AUX_E_NOMEM;
	ret = writer_feature(w, AUX_FEAT_AUXKIT_LEDGER, p, size);
	free(p);
	return ret;
}

/* One cause for the verdict line. */
static int put_loss(char *buf, size_t len, unsigned c, uint64_t total,
		    uint64_t unknown)
{
	const char *one = causes[c].gap ? causes[c].gap : "gap";
	const char *many = causes[c].gaps ? causes[c].gaps : "gaps";
	const char *gaps = unknown == 1 ? one : many;
	const char *what = total == 1 ? causes[c].one : causes[c].many;

	if (!unknown)
		return snprintf(buf, len, "%" PRIu64 " %s (%s)", total, what,
				causes[c].text);
	if (!total)
		return snprintf(buf, len, "%" PRIu64 " %s (%s), bytes unknown",
				unknown, gaps, causes[c].text);
	return snprintf(buf, len, "%" PRIu64 " %s and %" PRIu64 " %s of unknown "
			"size (%s)", total, what, unknown, gaps,
			causes[c].text);
}

/* Causes that are no loss are left out. Text that does not fit is cut, as
 * snprintf does; buf always ends with a NUL. */
void ledger_text(const struct ledger *l, char *buf, size_t len)
{
	size_t used = 0;
	unsigned c;

	if (len)
		*buf = '\0';
	for (c = 0; c < AUX_LEDGER_N_CAUSES && used < len; c++) {
		uint64_t total, n;
		int k;

		sum_up(l, c, &total, &n);
		if ((!total && !n) || causes[c].expected)
			continue;
		if (used) {
			k = snprintf(buf + used, len - used, ", ");
			used += (size_t)k;
			if (used >= len)
				return;
		}
		k = put_loss(buf + used, len - used, c, total, l->unknown[c]);
		used += k > 0 ? (size_t)k : 0;
	}
}
