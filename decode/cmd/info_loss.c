/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_info_loss: what a file says of its own completeness: the recorder's
 * ledger, and the verdict over everything that was met.
 *
 * Invariant: "no loss recorded" is said only when all that could tell of a loss
 * was there and read.
 */
#include <inttypes.h>

#include "decode/cmd/info.h"

/* "3 bytes lost, the AUX buffer was full (2 times)" */
static void put_amount(struct outbuf *o, const struct aux_ledger_entry *e,
		       uint32_t cause)
{
	const struct loss_text *t = losses_text(cause);

	if (!t) {
		outbuf_printf(o, "%" PRIu64 " of unknown cause %u", e->bytes,
			      cause);
		return;
	}
	if (t->bytes && t->verdict && !e->bytes)
		outbuf_printf(o, "an unknown number of %s", t->many);
	else
		outbuf_printf(o, "%" PRIu64 " %s", e->bytes,
			      e->bytes == 1 ? t->one : t->many);
	outbuf_printf(o, " %s", t->info);
	if (t->bytes && t->verdict && e->n > 1)
		outbuf_printf(o, " (%" PRIu64 " times)", e->n);
}

int info_ledger_load(struct info *in)
{
	/* One that was cut off counts with the features. */
	int rc = losses_read(&in->losses, in->r, &in->chunks);

	if (in->losses.bad) {
		cmd_warn(in->o->path, "the loss ledger cannot be read "
				      "(version %u)", in->losses.version);
		in->bad_ledger = true;
	}
	return rc;
}

const struct aux_ledger_entry *info_ledger_span(const struct info *in,
						uint32_t idx)
{
	const struct losses *l = &in->losses;

	for (uint32_t i = 0; i < l->n; i++)
		if (l->e[i].idx == idx && l->e[i].first_ns &&
		    l->e[i].cause == AUX_LEDGER_SAVED)
			return &l->e[i];
	return NULL;
}

/* Does the file hold what the recorder saved? */
static void check_stream(struct info *in, const struct aux_ledger_entry *e)
{
	uint64_t held = 0;

	for (size_t i = 0; i < in->chunks.n; i++)
		if (in->chunks.queues[i].idx == e->idx)
			held += in->chunks.queues[i].n_bytes;
	/* More came behind the last ledger of a recorder that was killed. */
	if (held == e->bytes ||
	    (held > e->bytes && aux_reader_info(in->r)->unfinished))
		return;
	in->bad_ledger = true;
	outbuf_printf(in->out, ", but the file holds %" PRIu64, held);
}

static const char *ledger_title(const struct info *in)
{
	if (in->losses.origin == LOSSES_SUMMED)
		return "losses that the recorder told of (it wrote no ledger):"
		       "\n";
	if (in->losses.origin == LOSSES_RECORD &&
	    aux_reader_info(in->r)->unfinished)
		return "ledger of the recorder, the last that it wrote:\n";
	return "ledger of the recorder:\n";
}

static void sum_up(struct info *in, const struct aux_ledger_entry *e)
{
	if (e->cause >= AUX_LEDGER_N_CAUSES) {
		in->bad_ledger = true;
		return;
	}
	in->sum[e->cause].bytes += e->bytes;
	in->sum[e->cause].n += e->n;
}

void info_ledger_print(struct info *in)
{
	for (uint32_t i = 0; i < in->losses.n; i++) {
		const struct aux_ledger_entry *e = &in->losses.e[i];

		if (!i)
			outbuf_str(in->out, ledger_title(in));
		sum_up(in, e);
		if (e->idx == UINT32_MAX)
			outbuf_str(in->out, "  all: ");
		else
			outbuf_printf(in->out, "  stream %u: ", e->idx);
		put_amount(in->out, e, e->cause);
		if (e->cause == AUX_LEDGER_SAVED)
			check_stream(in, e);
		outbuf_str(in->out, "\n");
	}
}

static void put_count(struct info *in, uint64_t n, const char *one,
		      const char *many)
{
	if (n)
		outbuf_printf(in->out, "%s %" PRIu64 " %s",
			      in->lossy ? ";" : "verdict: incomplete:", n,
			      n == 1 ? one : many);
	in->lossy |= n != 0;
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
	uint64_t told;

	put_if(in, damaged, "the file is damaged");
	put_if(in, unfinished, "the recording was cut short");
	put_count(in, in->n_bad, "feature section cut off or damaged",
		  "feature sections cut off or damaged");
	for (uint32_t i = 0; i < AUX_LEDGER_N_CAUSES; i++) {
		const struct aux_ledger_entry *sum = &in->sum[i];

		if (!losses_text(i)->verdict || !(sum->bytes | sum->n))
			continue;
		put_if(in, true, "");
		put_amount(o, sum, i);
	}
	put_count(in, in->n_by_flag[0], "AUX record says truncated",
		  "AUX records say truncated");
	put_count(in, in->n_by_flag[2], "AUX record says partial",
		  "AUX records say partial");
	put_count(in, in->n_by_flag[3], "AUX record says collision",
		  "AUX records say collision");
	/* those that the ledger has are told */
	told = in->sum[AUX_LEDGER_LOST_RECORDS].bytes;
	put_count(in, in->lost_records > told ? in->lost_records - told : 0,
		  "record lost", "records lost");
	put_count(in, in->lost_samples, "sample lost", "samples lost");
	put_count(in, in->n_throttled,
		  "time throttled by the kernel",
		  "times throttled by the kernel");
	put_count(in, in->chunks.n_orphan_aux, "AUX record without its data",
		  "AUX records without their data");
	put_count(in, in->chunks.n_damaged,
		  "compressed AUXTRACE record damaged",
		  "compressed AUXTRACE records damaged");
	put_count(in, in->n_nobodys, "trace source is nobody's",
		  "trace sources are nobody's");
	put_if(in, in->bad_sources, "what made the trace cannot be read");
	put_if(in, in->bad_ledger, "the ledger does not balance, or cannot be "
				   "read");
	outbuf_str(o, in->lossy ? "\n" : "verdict: no loss recorded\n");
}
