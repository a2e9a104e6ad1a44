/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * losses: what the recorder says was lost, see trace.h. Ledger entries come in
 * two versions and either byte order. The feature section is written when the
 * recording ends, so only a recording that was killed depends on what its
 * records say.
 */
#include <stdlib.h>

#include "common/bytes.h"

#include "decode/lib/trace/trace.h"

#define ENTRY_V1 32	/* bytes; version 2 appended n */

/* table */
static const struct loss_text texts[AUX_LEDGER_N_CAUSES] = {
	[AUX_LEDGER_SAVED] = { "byte", "bytes", "saved", NULL, true },
	[AUX_LEDGER_TRUNCATED] = { "byte", "bytes",
		"lost, the AUX buffer was full",
		": the AUX buffer was full; record with a larger one (-m)",
		true },
	[AUX_LEDGER_PARTIAL] = { "byte", "bytes", "lost, partial trace",
		": flagged partial by the kernel", true },
	[AUX_LEDGER_COLLISION] = { "byte", "bytes",
		"lost, another used the trace unit",
		": the trace unit was used by another", true },
	[AUX_LEDGER_LOST_RECORDS] = { "record", "records",
		"lost, the data buffer was full", ": the data buffer was full",
		false },
	[AUX_LEDGER_OVERWRITTEN] = { "byte", "bytes",
		"overwritten, as is usual in snapshots", NULL, true },
	[AUX_LEDGER_THROTTLED] = { "byte", "bytes",
		"lost, throttled by the kernel", ": throttled", true },
	[AUX_LEDGER_NOT_TRACED] = { "process", "processes", "not traced",
		" that could not be followed", false },
	[AUX_LEDGER_KILLED] = { "thread", "threads",
		"killed in mid-run, its last instructions cannot be known",
		" killed in mid-run: the last instructions cannot be known", false },
	[AUX_LEDGER_ENDLESS] = { "endless loop", "endless loops",
		"with turns that no packet counts",
		" with turns that no packet counts", false },
	[AUX_LEDGER_UNEXPLAINED] = { "step", "steps",
		"that no branch explains, a bug in the recorder",
		" that no branch explains: a bug in auxcap", false },
	[AUX_LEDGER_INJECTED] = { "overflow", "overflows", "injected as asked",
		", injected as asked", false },
	[AUX_LEDGER_STALLED] = { "byte", "bytes",
		"lost, the trace unit had stopped and no record told",
		": the trace unit had stopped and no record told", true },
	[AUX_LEDGER_UNWRITTEN] = { "byte", "bytes",
		"lost, the file could not take them",
		": the file could not take them; was the disk full?", true },
	[AUX_LEDGER_UNREAD] = { "byte", "bytes",
		"lost, still in the buffer when the recorder had to end",
		": still in the buffer when the recorder had to end", true },
	[AUX_LEDGER_OFFLINE] = { "byte", "bytes", "lost, the CPU was offline",
		": the CPU was offline", true },
	[AUX_LEDGER_ENDED] = { "byte", "bytes",
		"lost, the event ended before the recording",
		": the event ended before the recording", true },
	[AUX_LEDGER_UNDESCRIBED] = { "process", "processes",
		"without maps: these could not be read",
		" whose maps could not be read: their code is missing", false },
	[AUX_LEDGER_AT_LEAST] = { "time", "times",
		"more was overwritten than can be known", NULL, false },
	[AUX_LEDGER_HALTED] = { "time", "times",
		"the recorder itself was stopped", NULL, false },
	[AUX_LEDGER_SUSPENDED] = { "time", "times", "the machine slept",
		" the machine slept: trace may be missing", false },
	[AUX_LEDGER_ABANDONED] = { "thread", "threads",
		"let go of before the end, as one stood still",
		" let go of before the end: one stood still, a bug in auxcap",
		false },
};

const struct loss_text *losses_text(uint32_t cause)
{
	return cause < AUX_LEDGER_N_CAUSES && texts[cause].one ?
		       &texts[cause] : NULL;
}

/* Reads n entries that the caller found to be there. -AUX_E_NOMEM. */
static int read_entries(struct losses *l, struct cursor *c, uint64_t n,
			uint32_t version)
{
	l->version = version;
	l->e = calloc(n ? n : 1, sizeof(*l->e));
	if (!l->e)
		return -AUX_E_NOMEM;
	for (l->n = 0; l->n < n; l->n++) {
		struct aux_ledger_entry *e = &l->e[l->n];

		e->idx = cursor_u32(c);
		e->cause = cursor_u32(c);
		e->bytes = cursor_u64(c);
		e->first_ns = cursor_u64(c);
		e->last_ns = cursor_u64(c);
		e->n = version > 1 ? cursor_u64(c) : 0;
	}
	return 0;
}

/* A section that is damaged or of a later version is no error: bad is set, and
 * the trace is as good as before. */
static int read_section(struct losses *l, struct cursor *c)
{
	uint32_t version = cursor_u32(c), n = cursor_u32(c);
	size_t size = version == 1 ? ENTRY_V1 : sizeof(*l->e);

	l->version = version;
	l->bad = c->bad || (version != 1 && version != 2) ||
		 n > cursor_left(c) / size;
	if (l->bad)
		return 0;
	l->origin = LOSSES_SECTION;
	return read_entries(l, c, n, version);
}

/* 0 says that two entries are of one sum. */
static int by_stream(const void *a, const void *b)
{
	const struct aux_ledger_entry *x = a, *y = b;

	if (x->idx != y->idx)
		return x->idx < y->idx ? -1 : 1;
	return x->cause < y->cause ? -1 : x->cause > y->cause;
}

/* Bytes saturate: a damaged record must not make a loss look small. first_ns
 * and last_ns of 0 are not known. */
static void add_entry(struct aux_ledger_entry *sum,
		      const struct aux_ledger_entry *e)
{
	if (__builtin_add_overflow(sum->bytes, e->bytes, &sum->bytes))
		sum->bytes = UINT64_MAX;
	sum->n += e->n;
	if (e->first_ns && (!sum->first_ns || e->first_ns < sum->first_ns))
		sum->first_ns = e->first_ns;
	if (e->last_ns > sum->last_ns)
		sum->last_ns = e->last_ns;
}

/* Of a recording that was killed: its loss records, added up by stream and
 * cause. */
static int sum_records(struct losses *l, const struct chunks *c)
{
	l->e = calloc(c->n_losses, sizeof(*l->e));
	if (!l->e)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < c->n_losses; i++) {
		const struct aux_own_loss *loss = &c->losses[i];

		l->e[i] = (struct aux_ledger_entry){
			.idx = loss->idx, .cause = loss->cause,
			.bytes = loss->bytes, .first_ns = loss->first_ns,
			.last_ns = loss->last_ns, .n = 1,
		};
	}
	qsort(l->e, c->n_losses, sizeof(*l->e), by_stream);
	for (size_t i = 0; i < c->n_losses; i++) {
		if (l->n && !by_stream(&l->e[l->n - 1], &l->e[i]))
			add_entry(&l->e[l->n - 1], &l->e[i]);
		else
			l->e[l->n++] = l->e[i];
	}
	l->origin = LOSSES_SUMMED;
	l->version = 2;		/* the first in which entries have n */
	return 0;
}

/* The section, else the last ledger record, else what the loss records add up
 * to: each is older than the one before it, and knows less. */
int losses_read(struct losses *l, const struct aux_reader *r,
		const struct chunks *c)
{
	bool swapped = aux_reader_info(r)->swapped;
	struct cursor cur;
	struct aux_bytes b;
	int rc;

	*l = (struct losses){ 0 };
	rc = aux_reader_feature(r, AUX_FEAT_AUXKIT_LEDGER, &b, NULL);
	if (rc == 1) {
		cur = cursor_init(b.data, b.len, swapped);
		return read_section(l, &cur);
	}
	if (c->ledger.data) {
		cur = cursor_init(c->ledger.data, c->ledger.len, swapped);
		l->origin = LOSSES_RECORD;
		return read_entries(l, &cur, c->ledger.len / sizeof(*l->e), 2);
	}
	return c->n_losses ? sum_records(l, c) : 0;
}

void losses_fini(struct losses *l)
{
	free(l->e);
	*l = (struct losses){ 0 };
}
