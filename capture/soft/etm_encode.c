/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ETM packets that are not on the hot path, and the formatter's frames.
 *
 * The order of packets is that of real Cortex-A trace units that trace EL0
 * alone: a run is Trace On, context and address, atoms and addresses, and at
 * its end an exception, its return address and the context it led to. A
 * timestamp follows the first P0 element of a run, which may be the exception;
 * of a branch by register it precedes the address. Trace Info resets the
 * compression: addresses, timestamp and return stack use nothing before it.
 *
 * Invariant: waiting atoms precede every other packet, so each function that
 * sends one flushes them first; the sink is called between packets only.
 *
 * Specification: Arm IHI 0064, "Trace protocol descriptions"; the PKT_ values
 * and the atom and address formats are its tables.
 */
#include <string.h>

#include "capture/soft/etm_encode.h"

#define CC_BITS 20		/* TRCIDR2.CCSIZE */

/* Header bytes. CC: cycle count, formats 1 to 3. */
enum {
	PKT_TRACE_INFO = 0x01,
	PKT_TIMESTAMP = 0x02,
	PKT_TRACE_ON = 0x04,
	PKT_EXCEPTION = 0x06,
	PKT_CC_F2 = 0x0c,
	PKT_CC_F1 = 0x0e,
	PKT_CC_F3 = 0x10,
	PKT_CONTEXT = 0x80,
	PKT_ADDR32_CONTEXT = 0x82,
	PKT_ADDR64_CONTEXT = 0x85,
	PKT_TS_MARKER = 0x88,
};

/* Fields: IHI 0064, "Register descriptions", TRCIDR0 and following. A decoder
 * reads the layout of cycle counts, contexts and the architecture version from
 * them. */
struct etm_regs etm_encode_regs(const struct etm_encode_config *c)
{
	return (struct etm_regs){
		/* COMMOPT, 64-bit timestamps, 4 events, RETSTACK, CCI, BB */
		.idr0 = 0x28000ea1,
		.idr1 = c->ete ? 0x4100fff1 : 0x4100f424,
		/* 20-bit cycle counts, 64-bit IA, 32-bit CONTEXTID and VMID,
		 * which may be CONTEXTIDR_EL2 */
		.idr2 = 0x50001088,
		.devarch = c->ete ? 0x47715a13 : 0x47724a13,
		.configr = (uint32_t)(1 | c->broadcast << 3 | c->cycacc << 4 |
				      c->contextid << 6 | c->vmid << 7 |
				      c->timestamp << 11 | c->retstack << 12 |
				      c->vmid << 15),
		.authstatus = 0xcc,
	};
}

static void put_bytes(struct etm_encoder *e, const void *bytes, size_t n)
{
	memcpy(e->pos, bytes, n);
	e->pos += n;
}

/* Little-endian groups of 7 bits, the top bit says that more follow. */
static void put_uleb(struct etm_encoder *e, uint64_t v)
{
	for (; v > 0x7f; v >>= 7)
		*e->pos++ = (uint8_t)(v | 0x80);
	*e->pos++ = (uint8_t)v;
}

static uint64_t position(const struct etm_encoder *e)
{
	return e->done + (uint64_t)(e->pos - e->buf);
}

/* The inline path must stop at the buffer's end, or where A-sync is due. */
static void set_limit(struct etm_encoder *e)
{
	e->limit = encode_limit(e->buf, e->end - ETM_GROUP_MAX, e->done,
				e->next_sync);
}

/*
 * The bits up to the last that changed since the previous timestamp, in bytes
 * of 7 (the ninth has 8); then, with cycle counting, the cycles since the last
 * count, 0 meaning unknown. ETE announces where the value was taken with a
 * marker.
 */
static void put_timestamp(struct etm_encoder *e)
{
	uint64_t diff = e->tsc ^ e->last_ts;
	uint64_t cycles = e->tsc - e->cc_tsc;
	unsigned i, n = diff ? (unsigned)(70 - __builtin_clzll(diff)) / 7 : 1;

	if (e->config.ete)
		*e->pos++ = PKT_TS_MARKER;
	*e->pos++ = PKT_TIMESTAMP | e->config.cycacc;
	n = n > 9 ? 9 : n;
	for (i = 0; i < n; i++)
		*e->pos++ = (uint8_t)((i == 8 ? e->tsc >> 56 :
						e->tsc >> 7 * i & 0x7f) |
				      (i + 1 < n ? 0x80 : 0));
	if (e->config.cycacc)
		put_uleb(e, cycles >> CC_BITS ? 0 : cycles);
	e->last_ts = e->tsc;
	e->next_ts = e->tsc + ETM_TS_PERIOD;
}

/* Gives the buffer to the sink; what follows a stop must be decodable by
 * itself, as an AUX record may begin there. */
static void hand_out(struct etm_encoder *e)
{
	size_t n = (size_t)(e->pos - e->buf);
	bool stopped = !e->on || e->lost;
	int err;

	if (n && !e->error) {
		err = e->sink(e->sink_ctx, e->buf, n, stopped);
		if (err)
			e->error = err;
	}
	e->done += n;
	e->pos = e->buf;
	/* many in one sink: the caller says when it is emptied */
	e->fresh |= n && stopped && !e->config.pieces;
	set_limit(e);
}

static bool is_full(const struct etm_encoder *e)
{
	return e->end - e->pos <= ETM_GROUP_MAX;
}

/*
 * The shortest packets for n atoms, the oldest in bit 0, 1 for E. Taken
 * branches come in runs, so format 6 (3 to 24 atoms: E and a last E or N)
 * first, then the fixed patterns of formats 5 and 4, then up to 3 atoms of
 * formats 1 to 3.
 */
uint8_t *etm_put_atoms(uint8_t *p, uint64_t v, uint32_t n)
{
	static const uint8_t five[32] = {
		[0x1e] = 0xf5, [0x00] = 0xd5, [0x0a] = 0xd6, [0x15] = 0xd7,
	};
	static const uint8_t four[16] = {
		[0x0e] = 0xdc, [0x00] = 0xdd, [0x0a] = 0xde, [0x05] = 0xdf,
	};
	static const uint8_t few[4] = { 0, 0xf6, 0xd8, 0xf8 };
	uint32_t run, take;

	for (; n; n -= take, v >>= take) {
		run = (uint32_t)__builtin_ctzll(~v);
		if (run >= 24) {
			take = 24;
			*p++ = 0xd4;
		} else if (run >= 3 && run < n) {
			take = run + 1;
			*p++ = (uint8_t)(0xe0 | (run - 3));
		} else if (run >= 4) {
			take = run;
			*p++ = (uint8_t)(0xc0 | (run - 4));
		} else if (n >= 5 && five[v & 31]) {
			take = 5;
			*p++ = five[v & 31];
		} else if (n >= 4 && four[v & 15]) {
			take = 4;
			*p++ = four[v & 15];
		} else {
			take = n < 3 ? n : 3;
			*p++ = (uint8_t)(few[take] |
					 (v & ((1u << take) - 1)));
		}
	}
	return p;
}

void etm_encode_flush_atoms(struct etm_encoder *e)
{
	e->pos = etm_put_atoms(e->pos, e->atoms, e->n_atoms);
	e->atoms = 0;
	e->n_atoms = 0;
}

void etm_encode_address(struct etm_encoder *e, uint64_t ip)
{
	etm_encode_flush_atoms(e);
	e->pos = etm_put_addr(e->pos, e->hist, ip);
}

/* What follows a context's header byte: exception level, VMID, context ID. A
 * kernel that puts the process into CONTEXTIDR_EL2 (contextid2) itself runs at
 * EL2. */
static void put_context_info(struct etm_encoder *e, bool kernel)
{
	const struct etm_encode_config *c = &e->config;

	*e->pos++ = (uint8_t)(0x30 | (!kernel ? 0 : c->vmid ? 2 : 1) |
			      c->vmid << 6 | c->contextid << 7);
	if (c->vmid)
		put_bytes(e, &e->contextid, 4);
	if (c->contextid)
		put_bytes(e, &e->contextid, 4);
}

static void put_context(struct etm_encoder *e, bool kernel)
{
	*e->pos++ = PKT_CONTEXT | 1;
	put_context_info(e, kernel);
}

/* Where tracing resumes. ETMv4 sends two packets, ETE one: so do recordings of
 * real machines with either. */
static void put_place(struct etm_encoder *e, uint64_t ip)
{
	bool wide = (ip ^ e->hist[0]) >> 32;

	if (!e->config.ete) {
		put_context(e, false);
		e->pos = etm_put_addr(e->pos, e->hist, ip);
		return;
	}
	*e->pos++ = wide ? PKT_ADDR64_CONTEXT : PKT_ADDR32_CONTEXT;
	e->pos = etm_put_long(e->pos, ip, wide);
	etm_push_addr(e->hist, ip);
	put_context_info(e, false);
}

/* The earlier of the next timestamp and the next cycle count. */
static void set_event(struct etm_encoder *e)
{
	uint64_t cc = e->cc_tsc + e->config.cc_threshold;

	e->event_tsc = e->config.timestamp ? e->next_ts : UINT64_MAX;
	if (e->config.cycacc && cc < e->event_tsc)
		e->event_tsc = cc;
}

/* A-sync and Trace Info: a decoder can start here. The next one is due
 * 2^sync_period bytes later (TRCSYNCPR). The timestamp is due at once, as its
 * base is reset. */
static void put_sync(struct etm_encoder *e)
{
	static const uint8_t async[12] = { [11] = 0x80 };
	bool cc = e->config.cycacc;

	e->next_sync = position(e) + (UINT64_C(1) << e->config.sync_period);
	put_bytes(e, async, sizeof(async));
	*e->pos++ = PKT_TRACE_INFO;
	*e->pos++ = cc ? 0x09 : 0;	/* sections INFO and CYCT */
	if (cc) {
		*e->pos++ = 1;		/* cycle counting */
		put_uleb(e, e->config.cc_threshold);
	}
	memset(e->hist, 0, sizeof(e->hist));
	e->last_ts = 0;
	e->next_ts = 0;
	e->ret_count = 0;
	e->fresh = false;
	set_event(e);
	set_limit(e);
}

void etm_encode_init(struct etm_encoder *e,
		     const struct etm_encode_config *config, uint8_t *buf,
		     size_t size, etm_sink_fn *sink, void *ctx)
{
	memset(e, 0, sizeof(*e));
	e->config = *config;
	e->buf = e->pos = buf;
	e->end = buf + size;
	e->sink = sink;
	e->sink_ctx = ctx;
	e->event_tsc = UINT64_MAX;
	e->fresh = true;
	e->lost_seed = 1;
	set_limit(e);
}

int etm_encode_flush(struct etm_encoder *e)
{
	if (e->config.pieces || !e->on || e->lost)
		hand_out(e);
	return e->error;
}

void etm_encode_enable(struct etm_encoder *e, uint64_t ip, uint32_t contextid)
{
	if (is_full(e))
		hand_out(e);
	e->cc_unknown |= e->fresh;
	if (e->fresh || position(e) >= e->next_sync)
		put_sync(e);
	*e->pos++ = PKT_TRACE_ON;
	e->contextid = contextid;
	e->ret_count = 0;
	put_place(e, ip);
	e->on = true;
	e->lost = false;
	e->next_ts = 0;
	set_event(e);
}

static void stop(struct etm_encoder *e)
{
	e->on = false;
	e->lost = false;
	e->event_tsc = UINT64_MAX;
}

void etm_encode_disable(struct etm_encoder *e, enum etm_exception type,
			uint64_t ip, bool target)
{
	if (!e->lost) {
		etm_encode_flush_atoms(e);
		*e->pos++ = PKT_EXCEPTION;
		/* E1:E0: what the address says */
		*e->pos++ = (uint8_t)(type << 1 | (target ? 0x40 : 1));
		e->pos = etm_put_addr(e->pos, e->hist, ip);
		put_context(e, true);
		if (e->config.timestamp && e->tsc >= e->next_ts)
			put_timestamp(e);
	}
	stop(e);
}

/* Trace before it is complete; after it nothing may rely on what was sent. */
static void put_overflow(struct etm_encoder *e)
{
	static const uint8_t overflow[] = { 0x00, 0x05 };

	etm_encode_flush_atoms(e);
	put_bytes(e, overflow, sizeof(overflow));
	e->fresh = true;
}

void etm_encode_overflow(struct etm_encoder *e, uint64_t ip, bool resume)
{
	if (!e->lost)
		put_overflow(e);
	e->lost = true;
	if (resume)
		etm_encode_enable(e, ip, e->contextid);
	else
		stop(e);
}

/* An overflow that a test asked for. */
static void inject_overflow(struct etm_encoder *e)
{
	put_overflow(e);
	e->n_injected++;
	e->lost = true;
	e->lost_until = e->tsc + encode_lost_time(&e->lost_seed);
	e->event_tsc = UINT64_MAX;
}

/*
 * No room: real buffers raise an interrupt, whose handler stops the trace unit
 * and starts it anew; so here. Where many units share the sink, the caller
 * stops them together when that one is full (out.full of struct soft).
 */
static void make_room(struct etm_encoder *e, uint64_t ip)
{
	if (e->config.pieces) {
		hand_out(e);
		e->handed = true;
		return;
	}
	etm_encode_disable(e, ETM_EXC_IRQ, ip, false);
	hand_out(e);
	etm_encode_enable(e, ip, e->contextid);
}

void etm_encode_checkpoint(struct etm_encoder *e, uint64_t ip)
{
	uint32_t every = e->config.inject_overflow;

	if (is_full(e))
		make_room(e, ip);
	if (position(e) < e->next_sync)
		return;
	etm_encode_flush_atoms(e);
	if (every && ++e->n_sync % every == 0) {
		inject_overflow(e);
		return;
	}
	put_sync(e);
	put_place(e, ip);
}

bool etm_encode_lost(struct etm_encoder *e, uint64_t ip)
{
	if (!e->lost || e->tsc < e->lost_until)
		return e->lost;
	etm_encode_enable(e, ip, e->contextid);
	return false;
}

/*
 * Cycles since the last count, above the threshold (TRCCCCTLR): format 3 has 2
 * bits, format 2 has 4 bits (its AAAA of 15 commits MAXSPEC elements, which is
 * none), format 1 the rest. A count that does not fit CCSIZE bits is sent as
 * unknown.
 */
static void put_cycles(struct etm_encoder *e)
{
	uint64_t n = e->tsc - e->cc_tsc, over = n - e->config.cc_threshold;

	if (e->cc_unknown || over >> CC_BITS) {
		*e->pos++ = PKT_CC_F1 | 1;
	} else if (over < 4) {
		*e->pos++ = (uint8_t)(PKT_CC_F3 | over);
	} else if (over < 16) {
		*e->pos++ = PKT_CC_F2 | 1;
		*e->pos++ = (uint8_t)(0xf0 | over);
	} else {
		*e->pos++ = PKT_CC_F1;
		put_uleb(e, over);
	}
	e->cc_unknown = false;
	e->cc_tsc = e->tsc;
}

void etm_encode_stamp(struct etm_encoder *e)
{
	if (!e->config.timestamp || e->tsc < e->next_ts)
		return;
	etm_encode_flush_atoms(e);
	put_timestamp(e);
	set_event(e);
}

void etm_encode_event(struct etm_encoder *e)
{
	etm_encode_flush_atoms(e);
	if (e->config.cycacc &&
	    e->tsc - e->cc_tsc >= e->config.cc_threshold)
		put_cycles(e);
	if (e->config.timestamp && e->tsc >= e->next_ts)
		put_timestamp(e);
	set_event(e);
}

/*
 * ---- etm_frame: the CoreSight formatter (Arm IHI 0029, "Formatter"; DDI 0314 describes the
 * same frames for the ETB).
 *
 * In a frame, bytes 0, 2, ... 14 hold an ID (bit 0 set) or data, whose own
 * bit 0 is then in byte 15; odd ones hold data. For an ID, that bit of byte 15
 * says that the one data byte after it still belongs to the former source:
 * that is how sources change where an odd byte is next.
 */

/* A data byte at the next position; the caller emits full frames. */
static void frame_byte(struct etm_frame *f, uint8_t v)
{
	if (!(f->n & 1)) {
		f->b[15] |= (uint8_t)((v & 1) << f->n / 2);
		v &= 0xfe;
	}
	f->b[f->n++] = v;
}

/* Copies a full frame to out and starts the next one. */
static size_t frame_emit(struct etm_frame *f, uint8_t *out)
{
	if (f->n < 15)
		return 0;
	memcpy(out, f->b, ETM_FRAME_SIZE);
	f->b[15] = 0;
	f->n = 0;
	return ETM_FRAME_SIZE;
}

/* The bytes that follow are of source id. n is below 15 before and after. */
static size_t frame_change(struct etm_frame *f, uint8_t id, uint8_t *out)
{
	uint8_t head = (uint8_t)(id << 1 | 1), at = f->n / 2, last;

	if (f->id == id)
		return 0;
	f->id = id;
	if (f->n & 1) {
		/* the last byte moves after the ID */
		last = (uint8_t)(f->b[f->n - 1] | (f->b[15] >> at & 1));
		f->b[15] |= (uint8_t)(1 << at);
		f->b[f->n - 1] = head;
		f->b[f->n++] = last;
	} else {
		f->b[f->n++] = head;
	}
	return frame_emit(f, out);
}

/*
 * 15 bytes of one source make a frame. The usual case for a single CPU, so all
 * low bits of the even bytes are moved at once: the multiplication gathers bits
 * 0, 16, 32 and 48 in the top bits.
 */
static void put_frame(uint8_t *out, const uint8_t *in)
{
	const uint64_t even = UINT64_C(0x0001000100010001);
	const uint64_t gather = UINT64_C(0x0001000200040008);
	uint64_t a, b = 0, flags;

	memcpy(&a, in, 8);
	memcpy(&b, in + 8, 7);
	flags = ((a & even) * gather >> 48 & 15) |
		((b & even) * gather >> 48 & 15) << 4;
	a &= ~even;
	b = (b & ~even) | flags << 56;
	memcpy(out, &a, 8);
	memcpy(out + 8, &b, 8);
}

size_t etm_frame_put(struct etm_frame *f, uint8_t id, const uint8_t *bytes,
		     size_t n, uint8_t *out)
{
	uint8_t *p = out;

	if (!n)
		return 0;
	p += frame_change(f, id, p);
	while (n) {
		if (!f->n && n >= 15) {
			put_frame(p, bytes);
			p += ETM_FRAME_SIZE;
			bytes += 15;
			n -= 15;
			continue;
		}
		frame_byte(f, *bytes++);
		n--;
		p += frame_emit(f, p);
	}
	return (size_t)(p - out);
}

size_t etm_frame_end(struct etm_frame *f, uint8_t *out)
{
	size_t done = 0;

	if (f->n)
		done = frame_change(f, 0, out);
	if (f->n) {
		memset(f->b + f->n, 0, 15u - f->n);
		f->n = 15;
		done += frame_emit(f, out + done);
	}
	f->id = 0;
	return done;
}

size_t etm_frame_pad(uint8_t *out, size_t n)
{
	size_t i;

	memset(out, 0, n);
	for (i = 0; i < n; i += ETM_FRAME_SIZE)
		out[i] = 1;	/* ID 0 */
	return n;
}
