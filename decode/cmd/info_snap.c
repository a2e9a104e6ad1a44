/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_info_snap: the snapshots of a file. One snapshot can hold old buffers of CPUs
 * that have long been idle, so each stream's span of time is told.
 */
#include <inttypes.h>

#include <aux/decoder.h>

#include "decode/cmd/info.h"
#include "decode/lib/sideband/sideband.h"

/* As AUXTRACE_INFO has it; mult 0: unknown. */
static struct aux_clock find_clock(const struct chunks *c)
{
	struct aux_clock clock = { 0 };

	if (c->trace_type != AUX_TRACE_INTEL_PT ||
	    c->n_metadata <= AUX_PT_CAP_USER_TIME_ZERO ||
	    !c->metadata[AUX_PT_CAP_USER_TIME_ZERO] ||
	    c->metadata[AUX_PT_TIME_SHIFT] > 63)
		return clock;
	clock.shift = (uint16_t)c->metadata[AUX_PT_TIME_SHIFT];
	clock.mult = (uint32_t)c->metadata[AUX_PT_TIME_MULT];
	clock.zero = c->metadata[AUX_PT_TIME_ZERO];
	return clock;
}

static const char *reason_text(uint32_t reason)
{
	switch (reason) {
	case 0:
		return "";
	case AUX_SNAPSHOT_SIGNAL:
		return " on a signal";
	case AUX_SNAPSHOT_CONTROL:
		return " on a command";
	case AUX_SNAPSHOT_EXIT:
		return " at the end";
	case AUX_SNAPSHOT_CUT:
		return " left by a cut";
	}
	return " for a reason that this build does not know";
}

static void print_head(struct outbuf *o, const struct snapshot *s)
{
	outbuf_printf(o, "  %" PRIu64 ":", s->number);
	if (s->time_ns) {
		outbuf_str(o, " at ");
		info_time(o, s->time_ns);
		outbuf_str(o, " s");
	}
	outbuf_str(o, reason_text(s->reason));
	if (s->label.len) {
		outbuf_str(o, " \"");
		for (size_t i = 0; i < s->label.len; i++) {
			uint8_t ch = s->label.data[i];

			outbuf_printf(o, ch >= ' ' && ch < 0x7f && ch != '"' ? "%c" :
							  "\\x%02x", ch);
		}
		outbuf_str(o, "\"");
	}
	outbuf_str(o, "\n");
}

/* The packets tell when, unless they have no time or are of another kind. */
static bool find_span(const struct chunks *c, const struct queue *q,
		      uint32_t snapshot, uint64_t *first, uint64_t *last)
{
	bool found = false;

	for (size_t i = 0; i < q->n_pieces; i++) {
		const struct piece *p = &q->pieces[i];
		uint64_t a, b;

		if (p->snapshot != snapshot ||
		    c->trace_type != AUX_TRACE_INTEL_PT ||
		    !chunks_tsc_span(p->data, p->data + p->len, &a, &b))
			continue;
		if (!found)
			*first = a;
		*last = b;
		found = true;
	}
	return found;
}

/* Else the kernel's records: each came when a stretch of the trace had ended. */
static void put_records_span(struct info *in, const struct queue *q,
			     uint32_t snapshot)
{
	uint64_t first = 0, last = 0;

	for (size_t i = 0; i < q->n_pieces; i++) {
		const struct piece *p = &q->pieces[i];

		if (p->snapshot != snapshot || !p->first_ns)
			continue;
		if (!first || p->first_ns < first)
			first = p->first_ns;
		if (p->last_ns > last)
			last = p->last_ns;
	}
	if (!first) {
		outbuf_str(in->out, "of unknown time");
		return;
	}
	outbuf_str(in->out, "AUX records from ");
	info_span(in->out, first, last);
}

static void print_stream(struct info *in, const struct queue *q,
			 uint32_t snapshot, const struct aux_clock *clock)
{
	struct outbuf *o = in->out;
	uint64_t bytes = 0, first, last;
	size_t n = 0;

	for (size_t i = 0; i < q->n_pieces; i++) {
		if (q->pieces[i].snapshot != snapshot)
			continue;
		bytes += q->pieces[i].len;
		n++;
	}
	if (!n)
		return;
	outbuf_printf(o, "     stream %u", q->idx);
	if (q->cpu >= 0)
		outbuf_printf(o, ", cpu %d", q->cpu);
	if (q->tid >= 0)
		outbuf_printf(o, ", tid %d", q->tid);
	outbuf_printf(o, ": %" PRIu64 " byte%s, ", bytes, bytes == 1 ? "" : "s");
	if (!find_span(&in->chunks, q, snapshot, &first, &last))
		put_records_span(in, q, snapshot);
	else if (clock->mult)
		info_span(o, clock_to_ns(clock, first),
			  clock_to_ns(clock, last));
	else
		outbuf_printf(o, "tsc %#" PRIx64 " to %#" PRIx64, first, last);
	outbuf_str(o, "\n");
}

void info_snapshots(struct info *in)
{
	const struct chunks *c = &in->chunks;
	struct aux_clock clock = find_clock(c);

	if (!c->n_snapshots)
		return;
	outbuf_printf(in->out, "snapshots: %zu%s\n", c->n_snapshots,
		      c->own_snapshots ? "" :
		      " (counted by the order of the AUXTRACE records)");
	for (uint32_t i = 1; i <= c->n_snapshots; i++) {
		print_head(in->out, &c->snapshots[i - 1]);
		for (size_t k = 0; k < c->n; k++)
			print_stream(in, &c->queues[k], i, &clock);
	}
}
