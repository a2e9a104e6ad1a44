/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_raw: the packets of each AUX stream, with their offsets in it. Damage and
 * loss are '#' lines, and the exit status.
 */
#include <inttypes.h>

#include <aux/decoder.h>
#include <internal/diag.h>

#include "chunks.h"
#include "cmd.h"
#include "gap.h"
#include "packets.h"

static bool is_wanted(const struct cmd_options *o, const struct queue *q)
{
	return (o->stream < 0 || (uint64_t)o->stream == q->idx) &&
	       (o->cpu < 0 || o->cpu == q->cpu) &&
	       (o->tid < 0 || o->tid == q->tid);
}

static const char *gap_text(uint8_t cause)
{
	switch (cause) {
	case AUX_GAP_AUX_TRUNCATED:
		return "the AUX buffer was full: trace is missing";
	case AUX_GAP_AUX_PARTIAL:
		return "the kernel marked the trace as partial";
	case AUX_GAP_AUX_COLLISION:
		return "another user of the trace hardware interfered";
	case AUX_GAP_FILE:
		return "the file lacks these bytes";
	case GAP_SNAPSHOT:
		return "not recorded between snapshots";
	case GAP_STALLED:
		return "the trace unit had stopped: trace is missing";
	case GAP_UNSAVED:
		return "the recorder could not save what was here";
	}
	return "trace is missing";
}

static void print_run(struct packets *p, const struct queue *q,
		      const struct run *run)
{
	uint64_t at = run->offset;

	for (size_t i = run->piece; i < q->n_pieces && at < run->end; i++) {
		const struct piece *piece = &q->pieces[i];
		uint64_t skip = at - piece->offset;
		uint64_t n = piece->len - skip;

		if (n > run->end - at)
			n = run->end - at;
		packets_feed(p, piece->data + skip, n, at);
		at += n;
		if (packets_full(p))
			return;
	}
}

/* Returns the number of gaps. */
static unsigned print_queue(struct packets *p, const struct queue *q)
{
	unsigned gaps = 0;
	uint64_t skipped, bad;

	outbuf_printf(p->out, "# stream %u, cpu %d, tid %d: %" PRIu64
			      " bytes in %zu pieces\n", q->idx, q->cpu, q->tid,
		      q->n_bytes, q->n_pieces);
	packets_restart(p, 0);
	for (size_t i = 0; i < q->n_runs && !packets_full(p); i++) {
		const struct run *run = &q->runs[i];

		if (!run->gap) {
			skipped = p->n_skipped;
			print_run(p, q, run);
			/* A snapshot starts anywhere: nothing was lost. */
			if (run->fresh && p->synced)
				p->n_skipped = skipped;
			continue;
		}
		bad = p->n_bad;
		packets_restart(p, run->end);
		if (run->gap == GAP_SNAPSHOT)	/* it ends anywhere, too */
			p->n_bad = bad;
		gaps += run->gap != GAP_SNAPSHOT;
		outbuf_printf(p->out, "# gap at %#" PRIx64 ": %s\n",
			      run->offset, gap_text(run->gap));
	}
	packets_finish(p);
	return gaps;
}

static int print_all(struct outbuf *out, const struct cmd_options *o,
		     const struct chunks *c)
{
	struct packets p;
	unsigned gaps = 0;

	packets_init(&p, out, c->trace_type != AUX_TRACE_INTEL_PT, o->limit);
	if (p.hex && c->n)
		outbuf_printf(out, "# trace type %u: bytes, not packets\n",
			      c->trace_type);
	for (size_t i = 0; i < c->n && !packets_full(&p); i++)
		if (is_wanted(o, &c->queues[i]))
			gaps += print_queue(&p, &c->queues[i]);
	return gaps || p.n_bad || p.n_skipped ? CMD_GAPS : CMD_OK;
}

/* What is there comes first, then what is wrong with the file. */
static int run_raw(const struct cmd_options *o, struct aux_reader *r)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct chunks c = { 0 };
	struct aux_event ev;
	struct outbuf *out;
	int ret = chunks_read(&c, r, o->snapshot, &diag);
	int status = CMD_FAILED;

	/* Damage ended that pass: the reader says it again. */
	if (ret >= 0)
		ret = aux_reader_next(r, &ev, &diag);
	if (ret >= 0 && !c.n)
		ret = diag_set(&diag, AUX_E_NOENT, AUX_NO_OFFSET,
			       "there is no AUX data in this file");
	if (c.n) {
		status = cmd_out_open(&out, o);
		if (!status)
			status = cmd_out_close(out, o, print_all(out, o, &c));
	}
	if (ret < 0) {
		cmd_error(o->path, &diag);
		if (c.n && status != CMD_FAILED)
			status = CMD_GAPS;
	}
	chunks_fini(&c);
	return status;
}

int cmd_raw(const struct cmd_options *o)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct aux_reader *r;
	int status;

	if (aux_reader_open(&r, o->path, &diag) < 0)
		return cmd_error(o->path, &diag);
	status = run_raw(o, r);
	aux_reader_close(r);
	return status;
}
