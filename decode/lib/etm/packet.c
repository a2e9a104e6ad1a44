/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: packets, one at a time: synchronization, and every packet that the fast
 * loop (fast.c) does not take.
 *
 * What a packet says without code becomes an event at once. What depends on the
 * flow waits for the next P0 element: an atom, an exception or a source
 * address.
 *
 * After an overflow or a discard, packet boundaries are still known and parsing
 * goes on byte by byte. After a bad packet, or one that contradicts the code,
 * they are not: the next A-Sync is searched in whatever bytes come.
 *
 * lib/packet/etm_packet.c has the layout of packets once more, as text. The two are
 * apart because the decoder acts on a packet while it reads it, without a record of
 * it in between. test_etm_noise compares where their packets begin.
 *
 * Specification: Arm IHI 0064, "Descriptions of trace protocols"; DDI 0487,
 * "ETE protocol". Where these leave damaged trace undefined, this file does as
 * OpenCSD.
 */
#include <string.h>

#include "decode/lib/etm/impl.h"

#define DETAIL_BAD 9	/* gap.detail: OCSD_RESP_FATAL_INVALID_DATA */

/* ---- look-ahead ---- */

/* Does the host need the time of a run before its first instruction? */
static bool wants_lookahead(const struct etm *d)
{
	return d->may_switch && d->config->etm.ts_is_clock &&
	       d->src.has_timestamps;
}

void etm_look_ahead(struct etm *d)
{
	struct etm_scan_config config = {
		.n_vmid = d->src.n_vmid, .n_cid = d->src.n_cid,
		.has_commit = !(d->config->etm.trcidr0 >> 29 & 1),
	};
	uint64_t ts;

	d->ts.lookahead = ETM_LOOKAHEAD_NONE;
	if (!etm_scan_timestamp(&config, d->in.data + d->in.pos,
				d->in.data + d->in.len, d->ts.last, &ts))
		return;
	etm_push_time(d, ts);
	d->ts.foretold = true;
}

/*
 * ---- address, source address and context packets ----
 *
 * An address is compressed against the last three; each one, an exact match
 * included, becomes the newest of these. Where 32 bits are sent, the upper half
 * stays only for a context of 64 bits (ctx.sf).
 *
 * Specification: Arm IHI 0064, "Address and Context packets"; DDI 0487 for
 * source addresses.
 */

static void push_history(struct etm *d, uint64_t ip, unsigned is)
{
	memmove(d->history.ip + 1, d->history.ip, 2 * sizeof(d->history.ip[0]));
	memmove(d->history.is + 1, d->history.is, 2);
	d->history.ip[0] = ip;
	d->history.is[0] = (uint8_t)is;
}

/* is: the instruction set says by how much addresses are shifted. */
static uint64_t read_long(struct etm *d, unsigned is, bool wide)
{
	uint64_t v = etm_read_bytes(d, wide ? 8 : 4);
	uint64_t low = is ? (v & 0x7f) << 1 | (v & 0xff00) :
			    (v & 0x7f) << 2 | (v >> 8 & 0x7f) << 9;

	v = (v & ~UINT64_C(0xffff)) | low;
	if (!wide && d->ctx.sf_known && d->ctx.sf)
		v |= d->history.ip[0] >> 32 << 32;
	return v;
}

static uint64_t read_short(struct etm *d, unsigned is)
{
	unsigned shift = is ? 1 : 2, bits = 7;
	uint8_t b = etm_read_byte(d);
	uint64_t v = b & 0x7f;

	if (b & 0x80) {
		v |= (uint64_t)etm_read_byte(d) << 7;
		bits = 15;
	}
	return d->history.ip[0] >> (bits + shift) << (bits + shift) | v << shift;
}

/* The address of a target or source packet, and in set the instruction set that
 * goes with it. False: the chunk ends inside it. */
static bool read_address(struct etm *d, enum etm_class class, uint8_t header,
		    unsigned is, uint64_t *ip, unsigned *set)
{
	unsigned i = header & 3;

	*set = is;
	switch (class) {
	case ETM_MATCH:
		*ip = d->history.ip[i];
		*set = d->history.is[i];
		break;
	case ETM_SHORT:
		*ip = read_short(d, is);
		break;
	default:
		*ip = read_long(d, is, class == ETM_LONG64);
		break;
	}
	if (d->in.truncated)
		return false;
	push_history(d, *ip, *set);
	return true;
}

/* The context bytes of a packet, which become ctx.last. False: the chunk ends
 * inside them, or this source cannot have them. */
static bool read_ids(struct etm *d, struct etm_ids *ids)
{
	uint8_t b = etm_read_byte(d);

	*ids = (struct etm_ids){
		.el = b & 3, .is_64 = b >> 4 & 1,
		.secure = !(b >> 5 & 1) && !(b >> 3 & 1),
		.has_vmid = b >> 6 & 1, .has_cid = b >> 7,
	};

	if ((ids->has_vmid && !d->src.n_vmid) || (ids->has_cid && !d->src.n_cid))
		d->unsupported = true;
	if (ids->has_vmid)
		ids->vmid = (uint32_t)etm_read_bytes(d, d->src.n_vmid);
	if (ids->has_cid)
		ids->cid = (uint32_t)etm_read_bytes(d, d->src.n_cid);
	if (d->in.truncated || d->unsupported)
		return false;
	d->ctx.sf_known = true;
	d->ctx.sf = ids->is_64;
	d->ctx.last = *ids;
	d->ctx.last_known = true;
	d->ctx.last.has_cid = d->ctx.last.has_vmid = false;
	return true;
}

/* A change to EL0 resumes user code: a run begins at the next address. */
static void show_context(struct etm *d, const struct etm_ids *ids)
{
	uint8_t what = (uint8_t)(AUX_CONTEXT_EL_KNOWN | ids->el |
				 (ids->secure ? AUX_CONTEXT_SECURE : 0));

	if (!ids->el && d->ctx.emitted && d->ctx.event.what != what)
		d->ts.lookahead = wants_lookahead(d) ?
					  ETM_LOOKAHEAD_AT_ADDRESS :
					  ETM_LOOKAHEAD_NONE;
	etm_push_context(d, ids);
}

/* An exception keeps its context until its address comes. A discard before the
 * next instruction takes any other context back, hence old_64. */
static void apply_context(struct etm *d, const struct etm_ids *ids)
{
	if (d->sync.state != ETM_DECODE)
		return;
	d->wait.has_context = true;
	if (d->exc.pending) {
		d->exc.broken |= d->exc.has_context;
		d->exc.has_context = true;
		d->exc.context = *ids;
		return;
	}
	if (!d->ctx.pending)
		d->ctx.old_64 = d->ctx.is_64;
	d->ctx.pending = true;
	d->ctx.is_64 = d->flow.code_64 = ids->is_64;
	d->ctx.needed = false;
}

static void parse_context(struct etm *d, uint8_t header)
{
	struct etm_ids ids = d->ctx.last;	/* bit 0 clear: as before */

	if (header & 1 && !read_ids(d, &ids))
		return;
	if (d->sync.emitting)
		etm_emit_at_packet(d);
	if (d->sync.emitting && !d->sync.in_exception && header & 1)
		show_context(d, &ids);
	if (header & 1 || d->exc.pending)
		apply_context(d, &ids);
}

/* The address that a Q packet left out. Between them only a context may stand. */
static void apply_pending_q(struct etm *d, uint64_t to)
{
	struct etm_q q = d->wait;

	d->wait.pending = false;
	if (q.broken || d->exc.pending)
		etm_fail(d, AUX_GAP_DESYNC);
	else
		etm_apply_q(d, &q, to);
}

static void apply_address(struct etm *d, uint64_t ip)
{
	if (d->sync.state != ETM_DECODE)
		return;
	if (d->wait.pending) {
		apply_pending_q(d, ip);
		return;
	}
	if (d->exc.pending) {
		etm_apply_exception(d, ip);
		return;
	}
	etm_continue_at(d, ip);
	d->flow.code_64 = d->ctx.is_64;
	d->flow.where = ETM_AT_IP;
}

static void parse_address(struct etm *d, enum etm_class class, uint8_t header)
{
	bool context = header < 0x88;
	struct etm_ids ids;
	unsigned is;
	uint64_t ip;

	is = header == 0x83 || header == 0x86 || header == 0x96 ||
	     header == 0x9b || header == 0x9e;
	if (!read_address(d, class, header, is, &ip, &is))
		return;
	if (context && !read_ids(d, &ids))
		return;
	if (d->sync.emitting)
		etm_emit_at_packet(d);
	if (d->sync.emitting && !d->sync.in_exception) {
		etm_settle(d, ip);
		if (context)
			show_context(d, &ids);
		if (d->ts.lookahead)
			d->ts.lookahead = ETM_LOOKAHEAD_NOW;
	}
	if (context)
		apply_context(d, &ids);
	d->sync.in_exception &= !d->sync.emitting;
	apply_address(d, ip);
}

/* A P0 element begins. False: it has no effect, or stands where the address of the one
 * before has to come first. */
static bool begin_element(struct etm *d)
{
	if (d->sync.emitting)
		etm_emit_at_packet(d);
	if (d->sync.state != ETM_DECODE)
		return false;
	etm_commit(d);
	if (!d->exc.pending && !d->wait.pending)
		return true;
	etm_fail(d, AUX_GAP_DESYNC);
	return false;
}

static void parse_source(struct etm *d, enum etm_class class, uint8_t header)
{
	unsigned is = header == 0xb5 || header == 0xb7 || header == 0xb9;
	uint64_t ip;

	if (!read_address(d, class, header, is, &ip, &is))
		return;
	if (begin_element(d))
		etm_apply_source(d, ip);
}

/* Types 0 to 2, 5, 6, 10 and 11 have an address; all but 15 the number of
 * instructions. */
static void parse_q(struct etm *d, uint8_t header)
{
	unsigned type = header & 0xf, is = type == 6 || type == 11;
	struct etm_q q = { .pending = type > 11 };
	uint64_t to = 0;

	if (!q.pending && !read_address(d, type < 3 ? ETM_MATCH : type < 7 ?
					ETM_SHORT : ETM_LONG32, header, is, &to, &is))
		return;
	if (type != 15)
		q.n = etm_read_uleb(d, 5);
	if (d->in.truncated)
		return;
	if (!begin_element(d))
		return;
	if (q.pending)
		d->wait = q;
	else
		etm_apply_q(d, &q, to);
}

/* ---- synchronization ---- */

/* Packets have no effect any more, up to Trace Info. */
static void stop_emitting(struct etm *d)
{
	d->sync.emitting = d->sync.in_exception = false;
	d->ts.lookahead = ETM_LOOKAHEAD_NONE;
}

static void reset_flow(struct etm *d)
{
	d->ctx.needed = true;
	d->flow.where = ETM_AT_ADDRESS;
	d->flow.has_ip = false;
	d->flow.overflowed = d->flow.trace_on = false;
	d->exc.pending = d->ctx.pending = d->wait.pending = false;
	d->early.n = 0;
}

/* Back to the start of a chunk, except for what was emitted. */
static void lose_all(struct etm *d)
{
	reset_flow(d);
	d->ctx.is_64 = false;
	stop_emitting(d);
	d->ts = (struct etm_timestamps){ 0 };
	d->ctx.sf_known = d->sync.informed = false;
	d->cc_threshold = 0;
	d->out.on = d->out.last_known = d->ctx.emitted = false;
	d->out.loss = ETM_LOSS_BAD;
	d->sync.state = ETM_WAIT_ASYNC;
	d->sync.framed = false;
}

void etm_fail(struct etm *d, enum aux_gap_cause cause)
{
	etm_at(d, d->in.pos);
	etm_push_gap(d, cause, d->out.last_known, d->out.last_ip, DETAIL_BAD);
	lose_all(d);
}

static void fail_bad_packet(struct etm *d)
{
	stop_emitting(d);
	if (d->sync.state == ETM_DECODE)
		etm_fail(d, AUX_GAP_BAD_PACKET);
}

/* Discard and Overflow: the elements since the last P0 element did not happen.
 * What follows is known again after the next Trace Info. */
static void parse_discard(struct etm *d, enum etm_loss why)
{
	stop_emitting(d);
	if (d->sync.state != ETM_DECODE)
		return;
	etm_push_early(d);
	etm_at(d, d->in.packet);
	etm_drop_q(d);
	if (d->flow.overflowed)
		why = ETM_LOSS_OVERFLOW;
	if (d->ctx.pending)
		d->ctx.is_64 = d->ctx.old_64;
	reset_flow(d);
	d->flow.overflowed = why == ETM_LOSS_OVERFLOW;
	etm_at(d, d->in.packet);
	etm_push_loss(d, why);
	d->sync.state = ETM_WAIT_ASYNC;
}

/* The n bytes before the first A-Sync are lost, unless they are padding: zeros
 * and Ignore packets. */
static void report_unsynced(struct etm *d, uint64_t n)
{
	if (d->sync.found)
		return;
	d->sync.found = true;
	for (uint64_t i = 0; i < n; i++) {
		if (d->in.data[i] && d->in.data[i] != 0x70) {
			etm_push_gap(d, AUX_GAP_NO_SYNC, false, 0, n);
			return;
		}
	}
}

/* Searches A-Sync, eleven zeros or more and 0x80, without regard to packets. */
static void find_async(struct etm *d)
{
	uint64_t zeros = 0, pos = d->in.pos;

	for (; pos < d->in.len; pos++) {
		if (!d->in.data[pos]) {
			zeros++;
			continue;
		}
		if (zeros >= 11 && d->in.data[pos] == 0x80)
			break;
		zeros = 0;
	}
	d->in.packet = pos - zeros;
	d->in.pos = pos;
	if (pos == d->in.len)
		return;
	d->in.pos++;
	d->sync.framed = true;
	report_unsynced(d, d->in.packet);
	d->sync.state = ETM_WAIT_INFO;
}

/* A-Sync as a packet in turn: two zeros were read. */
static void parse_async(struct etm *d)
{
	for (unsigned i = 2; i < 12; i++) {
		uint8_t b = etm_read_byte(d);

		if (d->in.truncated)
			return;
		if (b != (i == 11 ? 0x80 : 0)) {
			fail_bad_packet(d);
			return;
		}
	}
	if (d->sync.state == ETM_WAIT_ASYNC)
		d->sync.state = ETM_WAIT_INFO;
}

static void parse_extension(struct etm *d)
{
	uint8_t b = etm_read_byte(d);

	if (d->in.truncated)
		return;
	if (b == 0)
		parse_async(d);
	else if (b == 3)
		parse_discard(d, ETM_LOSS_DISCARD);
	else if (b == 5)
		parse_discard(d, ETM_LOSS_OVERFLOW);
	else
		fail_bad_packet(d);
}

/* The early events happened if a P0 element follows; any other packet drops
 * them. */
void etm_push_early(struct etm *d)
{
	for (unsigned i = 0; i < d->early.n; i++) {
		etm_at(d, d->early.ev[i].pos);
		aux_queue_push(&d->q, AUX_FLOW_EVENT, 0)->payload.value =
			d->early.ev[i].value;
	}
	d->early.n = 0;
}

/*
 * The offset of the NO_SYNC gap of a chunk without any A-Sync. OpenCSD discards
 * such bytes eight at a time, or up to a zero that may begin an A-Sync, and
 * reports what is left as an incomplete packet at its start: the same offset is
 * found here.
 */
static uint64_t find_rest(const struct etm *d)
{
	enum { NOTHING, ZERO, ZEROS } seen = NOTHING;
	uint64_t n = 0, at = 0, given = 0;

	for (uint64_t i = 0; i < d->in.len; i++) {
		uint8_t b = d->in.data[i];
		bool last = i + 1 == d->in.len;

		n++;
		if (seen == NOTHING && !b) {
			at = n == 1 || !last ? i : at;
			n = 1;
			seen = ZERO;
		} else if (seen == NOTHING && n >= 8 && !last) {
			at = i + 1;
			n = 0;
		} else if (seen == ZERO) {
			seen = b ? NOTHING : ZEROS;
		} else if (seen == ZEROS && b && n == 12) {
			given = at;
			at = i + 1;
			n = 0;
			seen = NOTHING;
		} else if (seen == ZEROS && b) {
			seen = NOTHING;
		} else if (seen == ZEROS && n == 12) {
			n--;
		}
	}
	return n ? at : given;
}

void etm_finish(struct etm *d)
{
	d->done = true;
	etm_push_early(d);
	etm_drop_q(d);
	if (d->flow.overflowed) {
		etm_at(d, d->in.packet);
		etm_push_loss(d, ETM_LOSS_OVERFLOW);
	}
	aux_queue_give_up(&d->q);
	if (!d->sync.found)
		etm_at(d, find_rest(d));
	report_unsynced(d, d->in.len);
}

/* ---- packets ---- */

static void begin_flow(struct etm *d, uint32_t info)
{
	if (d->sync.state != ETM_WAIT_INFO)
		return;
	d->ctx.needed = true;
	d->flow.where = ETM_AT_ADDRESS;
	d->sync.state = ETM_DECODE;
	if (info & 0x40)	/* inside a transaction */
		d->unsupported = true;
}

static void parse_trace_info(struct etm *d)
{
	uint8_t sections = etm_read_byte(d), b = sections;
	uint32_t v[5] = { 0 };
	uint64_t at;
	bool too_long = false;	/* a field has more bits than any can have */

	while (b & 0x80 && !d->in.truncated)
		b = etm_read_byte(d);
	for (unsigned i = 0; i < 5; i++) {
		at = d->in.pos;
		if (sections >> i & 1)
			v[i] = etm_read_uleb(d, 5);
		too_long |= d->in.pos - at > 5;
	}
	if (d->in.truncated)
		return;
	if (!d->sync.emitting && wants_lookahead(d))
		d->ts.lookahead = ETM_LOOKAHEAD_AT_ADDRESS;
	d->sync.emitting = d->sync.informed = true;
	d->sync.in_exception = false;
	d->ts.base_known = d->ctx.last_known = false;
	d->cc_threshold = v[3];
	memset(d->history.ip, 0, sizeof(d->history.ip));
	memset(d->history.is, 0, sizeof(d->history.is));
	etm_clear_returns(d);
	begin_flow(d, v[0]);
	if (v[2] || too_long)	/* v[2]: elements are speculated */
		d->unsupported = true;
}

/* A timestamp leaves out the high bits that did not change, except for the
 * first one after Trace Info. */
static void parse_timestamp(struct etm *d, uint8_t header)
{
	uint64_t v = 0, mask = UINT64_MAX;
	uint32_t cycles = 0;

	for (unsigned i = 0; i < 9; i++) {
		uint8_t b = etm_read_byte(d);

		v |= (uint64_t)(b & (i < 8 ? 0x7f : 0xff)) << 7 * i;
		if (b < 0x80) {
			if (i < 8)
				mask = (UINT64_C(1) << 7 * (i + 1)) - 1;
			break;
		}
	}
	if (header & 1)
		cycles = etm_read_uleb(d, 3) & d->src.cycle_mask;
	if (d->in.truncated)
		return;
	if (!d->ts.base_known && d->sync.informed)
		mask = UINT64_MAX;
	d->ts.base = (d->ts.base & ~mask) | v;
	d->ts.base_known = true;
	d->exc.broken = d->wait.broken = true;
	if (!d->sync.emitting)
		return;
	etm_emit_at_packet(d);
	if (header & 1)
		etm_push_cycles(d, cycles);
	d->ts.last = d->ts.base;
	/* The look-ahead emitted this TIME, without the cycles up to it:
	 * again. */
	if (d->ts.foretold && d->q.cycles)
		d->q.have_time = false;
	d->ts.foretold = false;
	etm_push_time(d, d->ts.base);
}

/* Formats 3, 2 and 1, by header. A commit count is of speculated elements. */
static void parse_cycle_count(struct etm *d, uint8_t header)
{
	bool commits = !(d->config->etm.trcidr0 >> 29 & 1);
	uint32_t n = 0, commit = 0;
	uint8_t b;

	if (header >= 0x10) {
		n = d->cc_threshold + (header & 3);
		commit = commits ? (header >> 2 & 3) + 1u : 0;
	} else if (header < 0x0e) {
		b = etm_read_byte(d);
		n = d->cc_threshold + (b & 0xf);
		commit = !commits || (header & 1 && b >> 4 == 0xf) ? 0 : 1;
	} else {
		if (commits)
			commit = etm_read_uleb(d, 5);
		if (!(header & 1))
			n = etm_read_uleb(d, 3) + d->cc_threshold;
	}
	if (d->in.truncated)
		return;
	if (commit && d->sync.state == ETM_DECODE)
		d->unsupported = true;
	if (!d->sync.emitting)
		return;
	etm_emit_at_packet(d);
	etm_push_cycles(d, n);
}

static void push_early(struct etm *d, uint8_t value)
{
	d->early.ev[d->early.n].pos = d->in.packet;
	d->early.ev[d->early.n++].value = value;
}

/* Between an exception and its address only a context may stand, hence
 * exc.broken. */
static void parse_event(struct etm *d, uint8_t header)
{
	d->exc.broken = d->wait.broken = true;
	if (d->sync.emitting) {
		etm_emit_at_packet(d);
		aux_queue_push(&d->q, AUX_FLOW_EVENT, 0)->payload.value = header & 0xf;
	} else if (d->sync.state == ETM_WAIT_INFO && d->src.ete) {
		if (d->early.n == ETM_EARLY_MAX)
			d->unsupported = true;
		else
			push_early(d, header & 0xf);
	}
}

/* The value of a trcit and its exception level: it needs no flow to mean
 * something, so it counts wherever packet boundaries are known. */
static void parse_instrumentation(struct etm *d)
{
	uint8_t el = etm_read_byte(d) & 3;
	uint64_t value = etm_read_bytes(d, 8);
	struct aux_flow *f;

	if (d->in.truncated)
		return;
	etm_emit_at_packet(d);
	f = aux_queue_push(&d->q, AUX_FLOW_PAYLOAD, AUX_PAYLOAD_ITE);
	f->n = 8;
	f->payload.ip = el;
	f->payload.value = value;
}

static void parse_trace_on(struct etm *d)
{
	d->exc.broken = d->wait.broken = true;
	if (d->sync.emitting) {
		etm_emit_at_packet(d);
		etm_push_on(d);
		d->ts.lookahead = wants_lookahead(d) ?
					  ETM_LOOKAHEAD_AT_ADDRESS :
					  ETM_LOOKAHEAD_NONE;
	}
	if (d->sync.state != ETM_DECODE)
		return;
	d->flow.trace_on = true;
	etm_clear_returns(d);
}

static void parse_exception(struct etm *d)
{
	uint8_t b = etm_read_byte(d), more = b & 0x80 ? etm_read_byte(d) : 0;
	unsigned type = b >> 1 & 0x1f;

	if (d->in.truncated)
		return;
	if (d->src.ete && (type == 0 || type == 0x18))
		d->unsupported = true; /* reset, failed transaction */
	if (d->sync.emitting)
		etm_emit_at_packet(d);
	d->sync.in_exception |= d->sync.emitting;
	d->wait.broken = true;
	if (d->sync.state != ETM_DECODE)
		return;
	d->exc = (struct etm_exception){
		.broken = d->exc.pending, .pending = true,
		.target = b & 0x40 && !(b & 1),
		.number = (uint16_t)(type | (more & 0x1fu) << 5),
	};
}

static void parse_exception_return(struct etm *d)
{
	d->exc.broken = d->wait.broken = true;
	if (!d->sync.emitting)
		return;
	etm_emit_at_packet(d);
	etm_end_return(d);
}

/* Nothing is speculated, so a commit of elements contradicts Trace Info. */
static void parse_commit(struct etm *d)
{
	uint32_t n = etm_read_uleb(d, 5);

	if (d->in.truncated)
		return;
	if (d->sync.emitting)
		etm_emit_at_packet(d);
	if (n && d->sync.state == ETM_DECODE)
		etm_fail(d, AUX_GAP_DECODER);
}

static void ignore_packet(struct etm *d)
{
	if (d->sync.emitting)
		etm_emit_at_packet(d);
}

static void parse_other(struct etm *d, uint8_t header)
{
	switch (header) {
	case 0x00:
		parse_extension(d);
		break;
	case 0x01:
		parse_trace_info(d);
		break;
	case 0x02: case 0x03:
		parse_timestamp(d, header);
		break;
	case 0x04:
		parse_trace_on(d);
		break;
	case 0x06:
		parse_exception(d);
		break;
	case 0x07:
		parse_exception_return(d);
		break;
	case 0x09:
		parse_instrumentation(d);
		break;
	case 0x2d: case 0x2e: case 0x2f:
		parse_commit(d);
		break;
	case 0x70:
		ignore_packet(d);
		break;
	case 0x80: case 0x81:
		parse_context(d, header);
		break;
	case 0x88:
		d->exc.broken = d->wait.broken = true;
		ignore_packet(d);
		break;
	default:
		if (header >= 0xa0)
			parse_q(d, header);
		else if (header >= 0x71 && header <= 0x7f)
			parse_event(d, header);
		else if (header <= 0x1f)
			parse_cycle_count(d, header);
		else
			ignore_packet(d);	/* mispredict; is_fatal() has the rest */
	}
}

/* Is the ULEB128 field at pos other than 0? One that is not ended counts as
 * such. */
static bool is_nonzero_uleb(const struct etm *d, uint64_t pos)
{
	uint8_t any = 0;

	for (unsigned i = 0; i < 4 && pos < d->in.len; i++, pos++) {
		any |= d->in.data[pos] & 0x7f;
		if (d->in.data[pos] < 0x80)
			return any;
	}
	return true;
}

/* Packets other than atoms that may commit or cancel elements. */
static bool may_commit(uint8_t header)
{
	return (header >= 0x0c && header <= 0x1f) ||
	       (header >= 0x2d && header <= 0x3f);
}

/* Packets at which OpenCSD fails: mispredict and cancel while nothing is
 * speculated, and any that would commit an exception before its address is
 * known. And an exception's context "as before" where none was before: only an
 * earlier chunk could know it. */
static bool is_fatal(const struct etm *d, uint8_t header)
{
	if (!d->sync.emitting)
		return false;
	if (d->sync.in_exception)
		return (header == 0x80 && !d->ctx.last_known) || may_commit(header);
	return header == 0x2e ? is_nonzero_uleb(d, d->in.pos + 1) :
				header >= 0x2f && header <= 0x3f;
}

/* The chunk ends inside the packet. */
static void fail_truncated(struct etm *d)
{
	d->in.pos = d->in.len;
	if (d->sync.emitting)
		etm_at(d, d->in.packet);
	if (d->sync.state == ETM_DECODE)
		etm_fail(d, AUX_GAP_DESYNC);
}

void etm_parse_packet(struct etm *d)
{
	uint8_t header;

	if (!d->sync.framed) {
		find_async(d);
		return;
	}
	d->in.packet = d->in.pos;
	header = d->in.data[d->in.pos];
	if (is_fatal(d, header)) {
		etm_fail(d, AUX_GAP_BAD_PACKET);
		return;
	}
	if (d->wait.pending && may_commit(header)) {
		etm_fail(d, AUX_GAP_DESYNC);
		return;
	}
	d->in.pos++;
	d->in.truncated = false;
	switch (d->src.class[header]) {
	case ETM_ATOMS:
		d->ts.lookahead = ETM_LOOKAHEAD_NONE;
		d->sync.in_exception = false;
		etm_follow_atoms(d, d->src.atoms[header - 0xc0]);
		break;
	case ETM_OTHER:
		parse_other(d, header);
		break;
	case ETM_BAD:
		fail_bad_packet(d);
		break;
	case ETM_UNSUPPORTED:
		d->unsupported = true;
		break;
	default:
		if (header >= 0xb0)
			parse_source(d, d->src.class[header], header);
		else
			parse_address(d, d->src.class[header], header);
	}
	if (d->in.truncated)
		fail_truncated(d);
}
