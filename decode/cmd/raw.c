/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_raw: the packets of each AUX stream, with their offsets in it; of
 * CoreSight those of each source. Damage and loss are '#' lines, and the exit
 * status.
 */
#include <inttypes.h>

#include <aux/decoder.h>
#include "common/diag.h"

#include "decode/lib/trace/trace.h"
#include "decode/cmd/impl.h"
#include "decode/lib/trace/gap.h"
#include "decode/lib/packet/packet.h"
#include "decode/sink/sink.h"

struct raw_config {
	uint64_t limit;		/* -n, 0: none */
};

/* table */
static const struct option_row option_rows[] = {
	SINK_LIMIT(struct raw_config, SINK_LIMIT_LINES),
	{ .name = NULL },
};

const struct cmd_own cmd_raw_own = {
	.options = option_rows,
	.config_size = sizeof(struct raw_config),
};

static uint64_t limit_of(const struct cmd_options *o)
{
	const struct raw_config *config = o->own;

	return config->limit;
}

static bool is_wanted(const struct cmd_options *o, const struct queue *q)
{
	return (o->filter.stream < 0 || (uint64_t)o->filter.stream == q->idx) &&
	       (o->filter.cpu < 0 || o->filter.cpu == q->cpu) &&
	       (o->filter.tid < 0 || o->filter.tid == q->tid);
}

/* advice_gap() speaks of the flow and of options that mend it; raw decodes
 * nothing, so it says what happened to the bytes. */
static const char *raw_gap_text(uint8_t cause)
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
	case AUX_GAP_NO_SYNC:
		return "bytes that belong to no trace source: before the "
		       "first trace id, or outside of frames";
	case GAP_SNAPSHOT:
		return "not recorded between snapshots";
	case GAP_STALLED:
		return "the trace unit had stopped: trace is missing";
	case GAP_OFFLINE:
		return "the CPU was offline: trace is missing";
	case GAP_UNSAVED:
		return "the recorder could not save what was here";
	}
	return "trace is missing";
}

/* Packets of a segment, which may lie in several pieces of the file: the
 * decoder gets them one after the other, since a packet may cross from one to
 * the next. */
static void print_segment(struct packets *p, const struct queue *q,
		      const struct segment *segment)
{
	uint64_t at = segment->offset;

	for (size_t i = segment->piece; i < q->n_pieces && at < segment->end; i++) {
		const struct piece *piece = &q->pieces[i];
		uint64_t skip = at - piece->offset;
		uint64_t n = piece->len - skip;

		if (n > segment->end - at)
			n = segment->end - at;
		packets_feed(p, piece->data + skip, n, at);
		at += n;
		if (packets_full(p))
			return;
	}
}

/* Prints the packets of a stream, segment by segment. Returns the number of
 * gaps, without those between snapshots: nothing was lost there. */
static unsigned print_queue(struct packets *p, const struct queue *q)
{
	unsigned gaps = 0;
	uint64_t skipped, bad;

	outbuf_printf(p->out, "# stream %u, cpu %d, tid %d: %" PRIu64
			      " bytes in %zu pieces\n", q->idx, q->cpu, q->tid,
		      q->n_bytes, q->n_pieces);
	packets_restart(p, 0);
	for (size_t i = 0; i < q->n_segments && !packets_full(p); i++) {
		const struct segment *segment = &q->segments[i];

		if (!segment->gap) {
			skipped = p->n_skipped;
			print_segment(p, q, segment);
			/* A snapshot starts anywhere: nothing was lost. */
			if (segment->fresh && p->synced)
				p->n_skipped = skipped;
			continue;
		}
		bad = p->n_bad;
		packets_restart(p, segment->end);
		if (segment->gap == GAP_SNAPSHOT)	/* it ends anywhere, too */
			p->n_bad = bad;
		gaps += segment->gap != GAP_SNAPSHOT;
		outbuf_printf(p->out, "# gap at %#" PRIx64 ": %s\n",
			      segment->offset, raw_gap_text(segment->gap));
	}
	packets_finish(p);
	return gaps;
}

static bool is_wanted_source(const struct cmd_options *o,
			     const struct chunks *c, size_t i)
{
	const struct chunk_source *s = &c->sources[i];
	const struct queue *q = &c->queues[s->queue];

	return (o->filter.stream < 0 || (uint64_t)o->filter.stream == i) &&
	       (o->filter.cpu < 0 || o->filter.cpu == (s->cpu >= 0 ? s->cpu : q->cpu)) &&
	       (o->filter.tid < 0 || o->filter.tid == q->tid);
}

static void print_source_head(struct outbuf *out, const struct chunks *c,
			      size_t i)
{
	const struct chunk_source *s = &c->sources[i];
	const struct queue *q = &c->queues[s->queue];

	outbuf_printf(out, "# stream %zu, ", i);
	if (s->id)
		outbuf_printf(out, "trace id %#x, ", s->id);
	outbuf_printf(out, "cpu %d, tid %d: %" PRIu64 " bytes in AUX stream %u"
			   "\n", s->cpu >= 0 ? s->cpu : q->cpu, q->tid,
		      s->n_bytes, q->idx);
}

static bool is_padding(const uint8_t *data, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (data[i] && data[i] != 0x70)
			return false;
	return true;
}

/* Bytes that are no packets, up to an A-Sync: a buffer begins anywhere, and the
 * end of one that was never full is zeros. */
static void print_unsynced(struct packets *p, struct chunk_iter *it,
			   uint64_t at, uint64_t n)
{
	if (n)
		outbuf_printf(p->out, "# %" PRIu64 " bytes %s, from %#" PRIx64 "\n",
			      n, is_padding(it->chunk.data + at, n) ?
					 "of padding" : "without sync",
			      chunk_iter_place(it, at + it->chunk.stream_offset));
}

/* The packets of a chunk, from its first A-Sync on. */
static void print_etm_packets(struct packets *p, struct chunk_iter *it,
			      const struct aux_etm_config *config)
{
	const uint8_t *data = it->chunk.data;
	uint64_t len = it->chunk.len, at = 0, place;
	bool synced = false;
	char text[ETMPKT_TEXT];
	struct etmpkt s;
	int n;

	etmpkt_init(&s, config);
	while (at < len && !packets_full(p)) {
		if (!synced) {
			uint64_t skip = etmpkt_find_sync(data + at, len - at);

			print_unsynced(p, it, at, skip);
			at += skip;
			synced = true;
			etmpkt_init(&s, config);
			continue;
		}
		n = etmpkt_next(&s, data + at, len - at, text);
		place = chunk_iter_place(it, at + it->chunk.stream_offset);
		if (n > 0) {
			packets_line(p, place, text);
			at += (unsigned)n;
			continue;
		}
		if (is_padding(data + at, len - at)) {
			print_unsynced(p, it, at, len - at);
			return;
		}
		if (n == 0)
			snprintf(text, sizeof(text), "cut: %" PRIu64
				 " bytes of a packet", len - at);
		else
			snprintf(text, sizeof(text), "bad %02x: no packet starts so",
				 data[at]);
		packets_line(p, place, text);
		p->n_bad++;
		if (n == 0)
			return;
		synced = false;
	}
}

/* Lines of bytes, each at the place in the AUX stream of its first. */
static void print_bytes(struct packets *p, struct chunk_iter *it)
{
	for (size_t at = 0; at < it->chunk.len; at += PACKET_HEX) {
		uint64_t n = it->chunk.len - at;

		packets_hex(p, it->chunk.data + at,
			    n < PACKET_HEX ? (size_t)n : PACKET_HEX,
			    chunk_iter_place(it, at + it->chunk.stream_offset));
	}
}

/* One CoreSight source, out of its frames: packets, or bytes where its packets
 * have no printer here (ETMv3, PTM, STM) or its registers are not known. */
static int print_source(struct packets *p, const struct chunks *c, size_t i,
			unsigned *gaps)
{
	static const struct csmeta_source anybody;
	struct chunk_source source = c->sources[i];
	struct chunk_iter it;
	int step;

	if (!source.meta)	/* its bytes are here all the same */
		source.meta = &anybody;
	print_source_head(p->out, c, i);
	chunk_iter_init(&it, &c->queues[source.queue], c->trace_type, 0);
	chunk_iter_pick(&it, &source);
	while (!packets_full(p) && (step = chunk_iter_next(&it)) > 0) {
		if (step == CHUNK_GAP) {
			*gaps += it.gap.what != GAP_SNAPSHOT;
			outbuf_printf(p->out, "# gap at %#" PRIx64 ": %s\n",
				      it.gap.offset, raw_gap_text(it.gap.what));
			continue;
		}
		outbuf_printf(p->out, "# %" PRIu64 " bytes from %#" PRIx64
				      "\n", it.chunk.len, it.now->offset);
		if (etmpkt_knows(&source.meta->etm))
			print_etm_packets(p, &it, &source.meta->etm);
		else
			print_bytes(p, &it);
	}
	chunk_iter_fini(&it);
	return step < 0 ? step : 0;
}

/* The end of raw and dump --packets: why the status is not 0, in one line of
 * numbers; where is in the output. */
int cmd_packets_status(const struct cmd_options *o, const struct packets *p,
		       unsigned gaps)
{
	if (!gaps && !p->n_bad && !p->n_skipped)
		return CMD_OK;
	outbuf_flush(p->out);
	cmd_warn(o->path, "not all of the trace is packets: %" PRIu64
		 " places where none starts, %" PRIu64
		 " bytes without sync, %u gaps",
		 p->n_bad, p->n_skipped, gaps);
	return CMD_GAPS;
}

static int out_of_memory(const struct cmd_options *o)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };

	return cmd_failed(o->path, -AUX_E_NOMEM, &diag);
}

/* Whether one is there that --stream means: of CoreSight, by trace id. */
static bool has_stream(const struct cmd_options *o, const struct chunks *c)
{
	bool found = o->filter.stream < 0;

	if (c->trace_type == AUX_TRACE_CS_ETM)
		return found || (uint64_t)o->filter.stream < c->n_sources;
	for (size_t i = 0; i < c->n && !found; i++)
		found = (uint64_t)o->filter.stream == c->queues[i].idx;
	return found;
}

static int refuse_stream(const struct cmd_options *o)
{
	return cmd_usage("--stream %" PRId64 ": the file has no such stream; "
			 "`auxdecode info` lists them", o->filter.stream);
}

static int print_sources(struct outbuf *out, const struct cmd_options *o,
			 struct chunks *c)
{
	struct packets p;
	unsigned gaps = 0;
	int status;

	if (c->cs_error.code)
		cmd_error(o->path, &c->cs_error);
	if (chunks_find_sources(c) < 0)
		return out_of_memory(o);
	if (c->n_sources && !has_stream(o, c))
		return refuse_stream(o);
	packets_init(&p, out, true, limit_of(o));
	for (size_t i = 0; i < c->n_sources && !packets_full(&p); i++)
		if (is_wanted_source(o, c, i) &&
		    print_source(&p, c, i, &gaps) < 0)
			return out_of_memory(o);
	status = cmd_packets_status(o, &p, gaps);
	return c->cs_error.code ? CMD_GAPS : status;
}

/* Intel PT and CoreSight as packets; other trace, which has no printer, as
 * bytes. CMD_GAPS: gaps, or bytes that are no packet. */
static int print_all(struct outbuf *out, const struct cmd_options *o,
		     struct chunks *c)
{
	struct packets p;
	unsigned gaps = 0;

	if (c->trace_type == AUX_TRACE_CS_ETM)
		return print_sources(out, o, c);

	if (c->n && !has_stream(o, c))
		return refuse_stream(o);
	packets_init(&p, out, c->trace_type != AUX_TRACE_INTEL_PT, limit_of(o));
	if (p.hex && c->n)
		outbuf_printf(out, "# trace type %u: bytes, not packets\n",
			      c->trace_type);
	for (size_t i = 0; i < c->n && !packets_full(&p); i++)
		if (is_wanted(o, &c->queues[i]))
			gaps += print_queue(&p, &c->queues[i]);
	return cmd_packets_status(o, &p, gaps);
}

/* What is there comes first, then what is wrong with the file. */
static int run_raw(const struct cmd_options *o, struct aux_reader *r)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct chunks c = { 0 };
	struct aux_event ev;
	struct cmd_out out;
	int ret = chunks_read(&c, r, o->filter.snapshot,
				     cmd_memory(o), &diag);
	int status = CMD_FAILED;

	/* Damage ended that pass: the reader says it again. */
	if (ret >= 0)
		ret = aux_reader_next(r, &ev, &diag);
	if (ret >= 0 && !c.n)
		ret = diag_set(&diag, AUX_E_NOENT, AUX_NO_OFFSET,
			       "there is no AUX data in this file");
	if (c.n && ret != -AUX_E_NOMEM) {
		status = cmd_out_open(&out, o);
		if (!status)
			status = cmd_out_close(&out, o,
					       print_all(out.buf, o, &c));
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

	if (import_open(&r, o->path, &o->import.options, &diag) < 0)
		return cmd_error(o->path, &diag);
	status = run_raw(o, r);
	aux_reader_close(r);
	return status;
}
