/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_info_loss: what a file says of its own completeness: the recorder's
 * ledger, and the verdict over everything that was met.
 *
 * Invariant: "no loss recorded" is said only when all that could tell of a loss
 * was there and read.
 */
#include <inttypes.h>
#include <stdlib.h>

#include <internal/bytes.h>

#include "cmd_info.h"

/* table: by enum aux_ledger_cause */
static const struct {
	const char *text;	/* in a stream's line, and in the verdict */
	const char *one, *many;	/* what is counted */
	bool loss;
} causes[AUX_LEDGER_N_CAUSES] = {
	[AUX_LEDGER_SAVED] = { "saved", "byte", "bytes", false },
	[AUX_LEDGER_TRUNCATED] = { "lost, the AUX buffer was full", "byte",
				   "bytes", true },
	[AUX_LEDGER_PARTIAL] = { "lost, partial trace", "byte", "bytes", true },
	[AUX_LEDGER_COLLISION] = { "lost, another used the trace unit", "byte",
				   "bytes", true },
	[AUX_LEDGER_LOST_RECORDS] = { "lost, the data buffer was full",
				      "side-band record", "side-band records",
				      true },
	[AUX_LEDGER_OVERWRITTEN] = { "overwritten, as is usual in snapshots",
				     "byte", "bytes", false },
	[AUX_LEDGER_THROTTLED] = { "lost, throttled by the kernel", "byte",
				   "bytes", true },
	[AUX_LEDGER_NOT_TRACED] = { "not traced", "process", "processes",
				    true },
	[AUX_LEDGER_KILLED] = { "killed in mid-run, its last instructions "
				"cannot be known", "thread", "threads", true },
	[AUX_LEDGER_ENDLESS] = { "with turns that no packet counts",
				 "endless loop", "endless loops", true },
	[AUX_LEDGER_UNEXPLAINED] = { "that no branch explains, a bug in the "
				     "recorder", "step", "steps", true },
	[AUX_LEDGER_INJECTED] = { "injected as asked", "overflow", "overflows",
				  true },
};

static void put_amount(struct outbuf *o, uint64_t n, uint32_t cause)
{
	if (cause >= AUX_LEDGER_N_CAUSES) {
		outbuf_printf(o, "%" PRIu64 " of unknown cause %u", n, cause);
		return;
	}
	outbuf_printf(o, "%" PRIu64 " %s %s", n,
		      n == 1 ? causes[cause].one : causes[cause].many,
		      causes[cause].text);
}

int info_ledger_load(struct info *in)
{
	struct aux_bytes b;
	struct cursor c;
	uint32_t version, n;

	/* One that was cut off counts with the features. */
	if (aux_reader_feature(in->r, AUX_FEAT_AUXKIT_LEDGER, &b, NULL) != 1)
		return 0;
	c = cursor_init(b.data, b.len, aux_reader_info(in->r)->swapped);
	version = cursor_u32(&c);
	n = cursor_u32(&c);
	if (c.bad || version != 1 || n > cursor_left(&c) / sizeof(*in->entries)) {
		cmd_warn(in->o->path, "the loss ledger cannot be read "
				      "(version %u)", version);
		in->bad_ledger = true;
		return 0;
	}
	in->has_ledger = true;
	in->entries = calloc(n ? n : 1, sizeof(*in->entries));
	if (!in->entries)
		return -AUX_E_NOMEM;
	for (in->n_entries = 0; in->n_entries < n; in->n_entries++) {
		struct aux_ledger_entry *e = &in->entries[in->n_entries];

		e->idx = cursor_u32(&c);
		e->cause = cursor_u32(&c);
		e->bytes = cursor_u64(&c);
		e->first_ns = cursor_u64(&c);
		e->last_ns = cursor_u64(&c);
	}
	return 0;
}

const struct aux_ledger_entry *info_ledger_span(const struct info *in,
						uint32_t idx)
{
	for (uint32_t i = 0; i < in->n_entries; i++)
		if (in->entries[i].idx == idx && in->entries[i].first_ns &&
		    in->entries[i].cause == AUX_LEDGER_SAVED)
			return &in->entries[i];
	return NULL;
}

/* Does the file hold what the recorder saved? */
static void check_stream(struct info *in, const struct aux_ledger_entry *e)
{
	uint64_t held = 0;

	for (size_t i = 0; i < in->chunks.n; i++)
		if (in->chunks.queues[i].idx == e->idx)
			held += in->chunks.queues[i].n_bytes;
	if (held == e->bytes)
		return;
	in->bad_ledger = true;
	outbuf_printf(in->out, ", but the file holds %" PRIu64, held);
}

void info_ledger_print(struct info *in)
{
	for (uint32_t i = 0; i < in->n_entries; i++) {
		const struct aux_ledger_entry *e = &in->entries[i];

		if (!i)
			outbuf_str(in->out, "ledger of the recorder:\n");
		if (e->cause < AUX_LEDGER_N_CAUSES)
			in->sum[e->cause] += e->bytes;
		else
			in->bad_ledger = true;
		if (e->idx == UINT32_MAX)
			outbuf_str(in->out, "  all: ");
		else
			outbuf_printf(in->out, "  stream %u: ", e->idx);
		put_amount(in->out, e->bytes, e->cause);
		if (e->cause == AUX_LEDGER_SAVED)
			check_stream(in, e);
		outbuf_str(in->out, "\n");
	}
}

static bool put_count(struct info *in, uint64_t n, const char *what)
{
	if (n)
		outbuf_printf(in->out, "%s %" PRIu64 " %s",
			      in->lossy ? ";" : "verdict: incomplete:", n, what);
	in->lossy |= n != 0;
	return n;
}

static void put_if(struct info *in, bool is, const char *what)
{
	if (is)
		outbuf_printf(in->out, "%s %s",
			      in->lossy ? ";" : "verdict: incomplete:", what);
	in->lossy |= is;
}

/* One line: everything that is missing, or that nothing is known to be. */
void info_verdict(struct info *in, bool damaged)
{
	struct outbuf *o = in->out;
	bool unfinished = aux_reader_info(in->r)->unfinished;

	put_if(in, damaged, "the file is damaged");
	put_if(in, unfinished, "the recording was cut short");
	put_count(in, in->n_bad, "feature sections cut off or damaged");
	for (uint32_t i = 0; i < AUX_LEDGER_N_CAUSES; i++) {
		if (!causes[i].loss || !in->sum[i])
			continue;
		put_if(in, true, "");
		put_amount(o, in->sum[i], i);
	}
	put_count(in, in->n_by_flag[0], "AUX records say truncated");
	put_count(in, in->n_by_flag[2], "AUX records say partial");
	put_count(in, in->n_by_flag[3], "AUX records say collision");
	put_count(in, in->lost_records, "side-band records lost");
	put_count(in, in->lost_samples, "samples lost");
	put_count(in, in->chunks.n_orphan_aux, "AUX records without their data");
	put_if(in, in->bad_ledger, "the ledger does not balance, or cannot be "
				   "read");
	outbuf_str(o, in->lossy ? "\n" : "verdict: no loss recorded\n");
}
