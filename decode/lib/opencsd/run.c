/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opencsd: feeds the library. It gets bytes until it asks to wait, is then
 * flushed until it does not, and gets EOT at the end of the chunk. After an
 * error it is reset, and searches the next sync point in the bytes that follow.
 *
 * Packets at which the library crashes, hangs or reads freed memory are
 * recognized here and never fed: would_crash(), OPENCSD_IDLE_MAX, skip_zeros().
 */
#include "decode/lib/opencsd/impl.h"

/* ETMv4 headers of packets after which the host may have to switch. */
static bool may_switch(uint8_t header)
{
	return (header >= 0x01 && header <= 0x04) ||
	       (header >= 0x80 && header <= 0x86);
}

/* Mispredict and cancel packets: they discard speculated elements. */
static bool is_mispredict(uint8_t header)
{
	return header >= 0x2f && header <= 0x3f;
}

/* Instrumentation: 1.3.3 does not know it, so no version gets it. */
#define ITE 0x09
#define ITE_SIZE 10
#define ETM3_IGNORE 0x66

/* Packets other than atoms that may commit or cancel elements. */
static bool may_resolve(uint8_t header)
{
	return (header >= 0x0c && header <= 0x1f) ||
	       (header >= 0x2d && header <= 0x3f);
}

/* Packets that have to be looked at before the library gets them, or right
 * after. */
void opencsd_fill_special(struct opencsd *d)
{
	for (unsigned i = 0; i < 256; i++)
		d->src.special[i] = is_mispredict((uint8_t)i) ||
				i == ETM4_PKT_I_EXCEPT ||
				i == ETM4_PKT_I_CANCEL_F1 ||
				(opencsd_is_q((uint8_t)i) &&
				 d->config->etm.trcidr0 >> 15 & 3) ||
				(d->src.has_ite && i == ITE) ||
				(d->may_switch && may_switch((uint8_t)i));
}

/* May it be the byte of an ETMv3 branch packet that says that the instruction before
 * an exception is canceled? Bit 5 of the exception's first byte, which another one
 * follows if it has bit 7; in the older encoding bit 7 of the fifth byte, with bit 6.
 * IHI 0014 (ETMv1 to v3.5), branch packets. */
static bool may_cancel(uint8_t byte)
{
	return byte & 0x20 || (byte & 0xc0) == 0xc0;
}

/* ETMv3: up to the end of such a packet. */
static uint32_t count_to_cancel(const struct opencsd *d, const uint8_t *p, uint32_t n)
{
	uint32_t i = 0;

	if (d->in.pos && (p[-1] & 0xa0) == 0xa0)
		return 1;
	while (i < n && !may_cancel(p[i]))
		i++;
	return i < n ? i + 1 : n;
}

/*
 * How many bytes to feed. A special packet is fed byte by byte, so that nothing
 * after it gets in; before that, feeding stops at each byte that may be a
 * special header. Most such bytes are inside a packet, which costs a call and
 * does no harm.
 */
static uint32_t count_bytes(const struct opencsd *d)
{
	const uint8_t *p = d->in.chunk->data + d->in.pos;
	uint64_t left = d->in.chunk->len - d->in.pos;
	uint32_t n = left < OPENCSD_FEED ? (uint32_t)left : OPENCSD_FEED;
	uint32_t i = 1;

	if (d->config->etm.arch == AUX_ETM_V3)
		return count_to_cancel(d, p, n);
	if (!d->src.v4)
		return n;
	if (d->sync.in_exception || d->untraced.waits || d->ts.lookahead ||
	    d->missing.unsure || d->missing.adrift ||
	    d->in.packet_end > d->in.pos ||
	    d->src.special[d->in.chunk->data[d->in.packet_end]])
		return 1;
	while (i < n && !d->src.special[p[i]])
		i++;
	return i;
}

/* How many elements a cancel or mispredict packet cancels; len is not 0. */
static uint32_t get_cancelled(const uint8_t *p, uint64_t len)
{
	uint32_t n = 0;

	if (p[0] >= 0x30)
		return p[0] < 0x34 ? 0 : p[0] < 0x38 ? 1 : 2 + (p[0] >> 1 & 3);
	for (uint64_t i = 1; i < len && i < 5; i++) {
		n |= (uint32_t)(p[i] & 0x7f) << 7 * (i - 1);
		if (p[i] < 0x80)
			return n;
	}
	return UINT32_MAX;
}

/*
 * Packets that the library must not get, as it has bugs: it searches the
 * mispredicted atom past the end of its list when there is none; the same when
 * an exception is committed before its address is known; and more elements than
 * there can be it cancels one by one, up to 2^32 times.
 */
static bool would_crash(const struct opencsd *d)
{
	const uint8_t *p = d->in.chunk->data + d->in.pos;
	uint32_t n, left;

	if (!d->src.v4 || !d->sync.emitting || d->in.packet_end != d->in.pos)
		return false;
	if (*p == ETM4_PKT_I_CANCEL_F1 && !d->sync.in_exception)
		return get_cancelled(p, d->in.chunk->len - d->in.pos) >
		       d->config->etm.trcidr8;
	/* A context as before, in an exception: it would take that of the last
	 * chunk. */
	if (*p == ETM4_PKT_I_CTXT && d->sync.in_exception && !d->sync.has_context)
		return true;
	if (!is_mispredict(*p) || d->sync.in_exception)
		return d->sync.in_exception && may_resolve(*p);
	n = get_cancelled(p, d->in.chunk->len - d->in.pos);
	if (n >= 64 || n >= d->spec.n)
		return true;
	left = d->spec.n - n;
	return !(d->spec.atoms >> n & (left < 64 ? (UINT64_C(1) << left) - 1 :
					      UINT64_MAX));
}

static enum aux_gap_cause cause_of(const struct opencsd *d)
{
	if (!d->src.v4)
		return AUX_GAP_DESYNC;
	if (d->ret.unpopped)
		return AUX_GAP_DECODER;
	switch (d->in.packet_type) {
	case ETM4_PKT_I_BAD_SEQUENCE:
	case ETM4_PKT_I_BAD_TRACEMODE:
	case ETM4_PKT_I_RESERVED:
	case ETM4_PKT_I_RESERVED_CFG:
		return AUX_GAP_BAD_PACKET;
	default:
		return d->in.packet_type >= ETM4_PKT_I_NUM_DS_MKR &&
		       d->in.packet_type < ETM4_PKT_I_IGNORE ?
			       AUX_GAP_DECODER : AUX_GAP_DESYNC;
	}
}

static void reset_state(struct opencsd *d)
{
	d->sync.emitting = d->sync.in_exception = d->sync.emitted = d->lib.bad_info = false;
	d->sync.framed = false;
	d->ts = (struct opencsd_timestamps){ 0 };
	d->untraced = (struct opencsd_q){ 0 };
	d->spec.atoms = d->spec.n = d->sync.n_idle = 0;
	d->out.on = d->out.in_tx = d->out.last_known = d->ctx.emitted = false;
	d->out.indirect = d->ret.popped = d->ret.suppress = d->ret.unpopped = false;
	opencsd_clear_missing(d);
	d->out.loss = UNSYNC_BAD_PACKET;
	d->lib.waits = d->lib.misled = d->lib.cancelled = false;
	d->in.packet_end = d->in.pos;
	if (d->lib.eot)
		d->done = true;
}

/* Up to the next sync point nothing can be decoded, for a reason that is
 * emitted. */
static void restart(struct opencsd *d)
{
	uint32_t used;

	reset_state(d);
	if (OCSD_DATA_RESP_IS_FATAL(ocsd_dt_process_data(d->lib.tree, OCSD_OP_RESET,
							 0, 0, NULL, &used)))
		d->done = true;
}

static void fail(struct opencsd *d, enum aux_gap_cause cause,
		 ocsd_datapath_resp_t resp)
{
	opencsd_at(d, d->in.pos);
	if (d->lib.misled)
		opencsd_push_gap(d, AUX_GAP_UNKNOWN_INSN, true, d->missing.ip, 0);
	else
		opencsd_push_gap(d, cause, d->out.last_known, d->out.last_ip, resp);
	restart(d);
}

/*
 * The library's PTM decoder takes quadratic time over a run of zeros, with
 * which a buffer that was never full ends. An A-Sync needs only the last ones.
 */
static void skip_zeros(struct opencsd *d)
{
	uint64_t pos = d->in.pos;

	while (pos < d->in.chunk->len && !d->in.chunk->data[pos])
		pos++;
	if (pos - d->in.pos > 2 * OPENCSD_ZEROS)
		d->in.pos = pos - OPENCSD_ZEROS;
}

static ocsd_datapath_resp_t feed(struct opencsd *d)
{
	uint32_t n = count_bytes(d), used = 0;
	ocsd_datapath_resp_t resp;

	d->in.fed = d->in.pos;
	d->in.fed_offset = d->in.chunk->stream_offset + d->in.pos;
	resp = ocsd_dt_process_data(d->lib.tree, OCSD_OP_DATA,
				    (ocsd_trc_index_t)d->in.pos, n,
				    d->in.chunk->data + d->in.pos, &used);
	if (used > n)
		used = n;
	/* Guards against an endless loop if it consumes nothing. */
	if (!used)
		used = 1;
	d->in.pos += used;
	return resp;
}

/* Feeds one of the single atoms as a packet of its own (Atom format 1). */
static ocsd_datapath_resp_t feed_single(struct opencsd *d)
{
	uint8_t packet = 0xf6 | (d->lib.single & 1);
	uint32_t used = 0;

	d->lib.single >>= 1;
	d->lib.n_single--;
	d->in.fed = d->in.pos - 1;
	d->in.fed_offset = d->in.chunk->stream_offset + d->in.fed;
	return ocsd_dt_process_data(d->lib.tree, OCSD_OP_DATA,
				    (ocsd_trc_index_t)d->in.fed, 1, &packet, &used);
}

/*
 * The library cancels the same instruction again at each of several branches in a row
 * that cancel one, until its list has less than nothing. A packet that says nothing,
 * behind each, makes it forget what it may cancel.
 */
static ocsd_datapath_resp_t feed_ignore(struct opencsd *d)
{
	uint8_t packet = ETM3_IGNORE;
	uint32_t used = 0;

	d->lib.cancelled = false;
	d->in.fed = d->in.pos - 1;
	d->in.fed_offset = d->in.chunk->stream_offset + d->in.fed;
	return ocsd_dt_process_data(d->lib.tree, OCSD_OP_DATA,
				    (ocsd_trc_index_t)d->in.fed, 1, &packet, &used);
}

/* One call may show many packets; the last one counts. */
static void note_packet_end(struct opencsd *d)
{
	if (d->in.seen)
		d->in.packet_end = opencsd_pos(d, d->in.seen_index) + d->in.seen_size;
	d->in.seen = false;
}

/* A Q packet must not be committed before its address is known, either. */
static bool waits_in_vain(const struct opencsd *d)
{
	return d->untraced.waits && d->in.pos < d->in.chunk->len &&
	       d->in.packet_end == d->in.pos && may_resolve(d->in.chunk->data[d->in.pos]);
}

/* Fails if the library must not get the next packet. */
static bool reject_packet(struct opencsd *d)
{
	if (d->lib.waits || d->lib.n_single)
		return false;
	if (d->in.pos < d->in.chunk->len && would_crash(d))
		fail(d, AUX_GAP_BAD_PACKET, OCSD_RESP_FATAL_INVALID_DATA);
	else if (waits_in_vain(d))
		fail(d, AUX_GAP_DESYNC, OCSD_RESP_FATAL_INVALID_DATA);
	else if (d->sync.n_idle > OPENCSD_IDLE_MAX)
		fail(d, AUX_GAP_DECODER, OCSD_RESP_FATAL_SYS_ERR);
	else if (opencsd_would_mislead(d))
		fail(d, AUX_GAP_DECODER, OCSD_RESP_FATAL_INVALID_DATA);
	else
		return false;
	return true;
}

/* The packet that follows is instrumentation: its value is emitted. */
static bool take_instrumentation(struct opencsd *d)
{
	const uint8_t *p = d->in.chunk->data + d->in.pos;
	uint64_t left = d->in.chunk->len - d->in.pos;
	struct aux_flow *f;

	if (!d->src.has_ite || !left || *p != ITE || !d->sync.framed ||
	    d->in.packet_end != d->in.pos || d->lib.waits || d->lib.n_single)
		return false;
	if (left < ITE_SIZE) {
		d->in.pos = d->in.chunk->len;
		if (d->sync.emitting)
			fail(d, AUX_GAP_DESYNC, OCSD_RESP_FATAL_INVALID_DATA);
		return true;
	}
	opencsd_at(d, d->in.pos);
	f = aux_queue_push(&d->q, AUX_FLOW_PAYLOAD, AUX_PAYLOAD_ITE);
	f->n = 8;
	f->payload.ip = p[1] & 3;
	for (unsigned i = 0; i < 8; i++)
		f->payload.value |= (uint64_t)p[2 + i] << 8 * i;
	d->in.pos += ITE_SIZE;
	d->in.packet_end = d->in.pos;
	return true;
}

/* Calls the library: to flush, with bytes, or with EOT. single: with one
 * atom. */
static ocsd_datapath_resp_t call(struct opencsd *d, bool single)
{
	ocsd_datapath_op_t op = OCSD_OP_FLUSH;
	uint32_t used;

	if (single)
		return feed_single(d);
	if (!d->lib.waits && d->lib.cancelled)
		return feed_ignore(d);
	if (!d->lib.waits && d->in.pos < d->in.chunk->len) {
		if (d->config->etm.arch == AUX_ETM_PTM)
			skip_zeros(d);
		return feed(d);
	}
	if (!d->lib.waits) {
		opencsd_drop_q(d);
		d->spec.n_left = d->src.in_order ? 0 : d->spec.n;
		d->lib.eot = true;
		op = OCSD_OP_EOT;
	}
	return ocsd_dt_process_data(d->lib.tree, op, 0, 0, NULL, &used);
}

void opencsd_step(struct opencsd *d)
{
	ocsd_datapath_resp_t resp;
	bool care;

	d->code.walked = 0;
	if (d->ts.lookahead == ETM_LOOKAHEAD_NOW) {
		opencsd_look_ahead(d);
		return;
	}
	if (reject_packet(d) || take_instrumentation(d))
		return;
	care = !d->lib.waits && opencsd_feed_singly(d);
	if (care && !d->lib.n_single)
		return;
	if (!care && !d->lib.waits && d->in.pos >= d->in.chunk->len && d->lib.eot) {
		d->done = true;
		return;
	}
	resp = call(d, care);
	note_packet_end(d);
	d->lib.hold = false;
	d->lib.waits = OCSD_DATA_RESP_IS_WAIT(resp);
	if (d->lib.bad_info)
		fail(d, AUX_GAP_BAD_PACKET, OCSD_RESP_FATAL_INVALID_DATA);
	else if (OCSD_DATA_RESP_IS_FATAL(resp))
		fail(d, cause_of(d), resp);
}
