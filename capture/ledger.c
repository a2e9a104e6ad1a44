/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loss ledger (D8): nothing is lost silently.
 *
 * Invariant: what cannot be entered for want of memory makes the ledger
 * unbalanced, so that it is never taken for complete.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <internal/diag.h>

#include "ledger.h"

struct ledger_stream {
	uint32_t idx;
	uint64_t produced;
};

/* table: how a cause is counted and called */
static const struct {
	const char *one, *many;	/* what is counted */
	const char *text;
	bool bytes;		/* part of the balance */
	bool expected;		/* no loss */
} causes[AUX_LEDGER_N_CAUSES] = {
	[AUX_LEDGER_SAVED] = { "byte", "bytes", "saved", true, true },
	[AUX_LEDGER_TRUNCATED] = { "byte", "bytes", "AUX buffer full", true,
				   false },
	[AUX_LEDGER_PARTIAL] = { "byte", "bytes", "partial trace", true,
				 false },
	[AUX_LEDGER_COLLISION] = { "byte", "bytes", "collision", true, false },
	[AUX_LEDGER_LOST_RECORDS] = { "record", "records", "data buffer full",
				      false, false },
	[AUX_LEDGER_OVERWRITTEN] = { "byte", "bytes", "overwritten", true,
				     true },
	[AUX_LEDGER_THROTTLED] = { "byte", "bytes", "throttled", true, false },
	[AUX_LEDGER_NOT_TRACED] = { "process", "processes", "not traced",
				    false, false },
	[AUX_LEDGER_KILLED] = { "thread's last instructions",
				"threads' last instructions",
				"killed in mid-run: where cannot be known",
				false, false },
	[AUX_LEDGER_ENDLESS] = { "endless loop's turns", "endless loops' turns",
				 "a loop of plain jumps: no packet counts them",
				 false, false },
	[AUX_LEDGER_UNEXPLAINED] = { "step", "steps",
				     "no branch explains them: a bug in auxcap, "
				     "please report it", false, false },
	[AUX_LEDGER_INJECTED] = { "overflow", "overflows", "injected as asked",
				  false, false },
};

void ledger_fini(struct ledger *l)
{
	free(l->entries);
	free(l->streams);
	memset(l, 0, sizeof(*l));
}

/* Room for one more element, or NULL and the mark of an incomplete ledger. */
static void *grow(struct ledger *l, void *array, size_t n, size_t *cap,
		  size_t size)
{
	size_t want = *cap ? *cap * 2 : 16;
	void *p = array;

	if (n < *cap)
		return p;
	p = reallocarray(array, want, size);
	if (p)
		*cap = want;
	else
		l->nomem = true;
	return p;
}

void ledger_produced(struct ledger *l, uint32_t idx, uint64_t bytes)
{
	struct ledger_stream *p;
	size_t i;

	for (i = 0; i < l->n_streams && l->streams[i].idx != idx; i++)
		;
	if (i == l->n_streams) {
		p = grow(l, l->streams, i, &l->cap_streams, sizeof(*p));
		if (!p)
			return;
		l->streams = p;
		p[i] = (struct ledger_stream){ .idx = idx };
		l->n_streams++;
	}
	l->streams[i].produced += bytes;
}

void ledger_add(struct ledger *l, uint32_t idx, enum aux_ledger_cause cause,
		uint64_t bytes, uint64_t first_ns, uint64_t last_ns)
{
	struct aux_ledger_entry *e;
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->entries[i].idx == idx && l->entries[i].cause == cause)
			break;
	if (i == l->n) {
		e = grow(l, l->entries, i, &l->cap, sizeof(*e));
		if (!e)
			return;
		l->entries = e;
		e[i] = (struct aux_ledger_entry){
			.idx = idx, .cause = cause, .first_ns = first_ns,
		};
		l->n++;
	}
	e = &l->entries[i];
	e->bytes += bytes;
	if (first_ns && (!e->first_ns || first_ns < e->first_ns))
		e->first_ns = first_ns;
	if (last_ns > e->last_ns)
		e->last_ns = last_ns;
}

uint64_t ledger_total(const struct ledger *l, enum aux_ledger_cause cause)
{
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->entries[i].cause == cause)
			total += l->entries[i].bytes;
	return total;
}

bool ledger_lossy(const struct ledger *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->entries[i].bytes && !causes[l->entries[i].cause].expected)
			return true;
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

int ledger_check(const struct ledger *l, struct aux_diag *diag)
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

int ledger_save(const struct ledger *l, struct writer *w)
{
	struct aux_feat_ledger h = { .version = 1,
				     .n_entries = (uint32_t)l->n };
	size_t size = sizeof(h) + l->n * sizeof(*l->entries);
	char *p = malloc(size);
	int ret;

	if (!p)
		return -AUX_E_NOMEM;
	memcpy(p, &h, sizeof(h));
	if (l->n)
		memcpy(p + sizeof(h), l->entries, l->n * sizeof(*l->entries));
	ret = writer_feature(w, AUX_FEAT_AUXKIT_LEDGER, p, size);
	free(p);
	return ret;
}

void ledger_text(const struct ledger *l, char *buf, size_t len)
{
	size_t used = 0;
	unsigned c;

	if (len)
		*buf = '\0';
	for (c = 0; c < AUX_LEDGER_N_CAUSES && used < len; c++) {
		uint64_t n = ledger_total(l, c);
		int k;

		if (!n || causes[c].expected)
			continue;
		k = snprintf(buf + used, len - used,
			     "%s%" PRIu64 " %s (%s)", used ? ", " : "", n,
			     n == 1 ? causes[c].one : causes[c].many,
			     causes[c].text);
		used += k > 0 ? (size_t)k : 0;
	}
}
