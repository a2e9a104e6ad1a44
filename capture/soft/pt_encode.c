/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Intel PT packets that are not on the hot path.
 *
 * Invariant: the sink is called between packets only. Waiting TNT bits (and the
 * TIPs deferred after them) precede every other packet, so each function that
 * sends one calls pt_encode_flush_tnt() first.
 *
 * PSB+, OVF and the first packet after either carry an uncompressed IP. The SDM
 * lets the last IP be zero after a PSB, but decoders differ on what they
 * remember across PSB and OVF, and eight bytes per PSB period cost nothing.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace", section
 * "Trace Packets and Data Types"; the packet layouts are its tables.
 */
#include "capture/soft/pt_encode.h"

#define SHORT_TNT_BITS 6

static void put_bytes(struct pt_encoder *e, const void *bytes, size_t n)
{
	memcpy(e->pos, bytes, n);
	e->pos += n;
}

static uint64_t position(const struct pt_encoder *e)
{
	return e->done + (uint64_t)(e->pos - e->buf);
}

/* The inline path must stop at the buffer's end, or where PSB+ is due. */
static void set_limit(struct pt_encoder *e)
{
	e->limit = encode_limit(e->buf, e->end - PT_GROUP_MAX, e->done,
				e->next_psb);
}

/* Gives the buffer to the sink. After an error bytes are counted and
 * dropped. */
static void hand_out(struct pt_encoder *e)
{
	size_t n = (size_t)(e->pos - e->buf);
	int err;

	if (n && !e->error) {
		err = e->sink(e->sink_ctx, e->buf, n);
		if (err)
			e->error = err;
	}
	e->done += n;
	e->pos = e->buf;
	set_limit(e);
}

/* One group of packets always fits: see PT_GROUP_MAX. */
static void need_room(struct pt_encoder *e)
{
	if (e->end - e->pos < PT_GROUP_MAX)
		hand_out(e);
}

/* ~ip as the last IP differs in the top bits, so nothing is left out. */
static void put_ip(struct pt_encoder *e, enum pt_ip_opcode op, uint64_t ip)
{
	e->pos = pt_put_ip(e->pos, (uint8_t)op, ip,
			   e->full_ip ? ~ip : e->last_ip);
	e->last_ip = ip;
	e->full_ip = false;
}

static void put_tsc(struct pt_encoder *e)
{
	uint64_t v = e->tsc << 8 | 0x19;

	put_bytes(e, &v, 8);
}

/*
 * TMA, right after TSC: CTC and the TSC ticks since its last one (FastCounter,
 * 9 bits). It relates the two clocks, without which an MTC has no time.
 */
static void put_tma(struct pt_encoder *e)
{
	uint64_t ctc = e->tsc * PT_TSC_CTC_D / PT_TSC_CTC_N;
	uint64_t fast = e->tsc - ctc * PT_TSC_CTC_N / PT_TSC_CTC_D;
	uint8_t p[7] = { 0x02, 0x73, (uint8_t)ctc, (uint8_t)(ctc >> 8), 0,
			 (uint8_t)fast, (fast >> 8) & 1 };

	put_bytes(e, p, sizeof(p));
}

/* event_tsc at the next multiple of 2^mtc_period CTC ticks after now. */
static void next_mtc(struct pt_encoder *e)
{
	uint64_t ctc = e->tsc * PT_TSC_CTC_D / PT_TSC_CTC_N;
	uint32_t shift = e->config.mtc_period;

	if (e->config.mtc)
		e->event_tsc = (((ctc >> shift) + 1) << shift) * PT_TSC_CTC_N /
			       PT_TSC_CTC_D;
}

static void put_time(struct pt_encoder *e)
{
	if (e->config.tsc) {
		put_tsc(e);
		if (e->config.mtc)
			put_tma(e);
	}
	next_mtc(e);
}

/*
 * CYC with all cycles up to tsc. Before TSC and MTC it is sent below the
 * threshold as well: those set the time, and a decoder would add cycles that
 * are sent later a second time.
 */
static void put_cyc(struct pt_encoder *e, uint64_t tsc)
{
	uint64_t n = tsc - e->cyc_tsc;

	if (!e->config.cyc || tsc <= e->cyc_tsc)
		return;
	e->cyc_tsc = tsc;
	*e->pos++ = (uint8_t)(0x03 | (n & 0x1f) << 3 | (n > 0x1f) << 2);
	for (n >>= 5; n; n >>= 7)
		*e->pos++ = (uint8_t)((n & 0x7f) << 1 | (n > 0x7f));
}

/* CYC before a packet of the flow, if the threshold is reached. */
static void pt_encode_cyc(struct pt_encoder *e)
{
	uint32_t thresh = e->config.cyc_thresh;

	if (!thresh || e->tsc - e->cyc_tsc >= UINT64_C(1) << (thresh - 1))
		put_cyc(e, e->tsc);
}

static void put_long_tnt(struct pt_encoder *e)
{
	uint64_t v = e->tnt | UINT64_C(1) << e->n_tnt;

	v = v << 16 | 0xa302;
	put_bytes(e, &v, 8);
}

void pt_encode_flush_tnt(struct pt_encoder *e)
{
	need_room(e);
	if (e->n_tnt) {
		pt_encode_cyc(e);
		/* decoders expect a deferred TIP after one TNT packet, not
		 * four */
		if (e->n_tnt <= (e->n_defer ? SHORT_TNT_BITS : PT_SHORT_TNT_UPTO))
			e->pos = pt_put_short_tnts(e->pos, e->tnt, e->n_tnt);
		else
			put_long_tnt(e);
	}
	put_bytes(e, e->defer, e->n_defer);
	e->n_defer = 0;
	e->n_tnt = 0;
	e->tnt = 0;
}

/*
 * Deferred TIPs (SDM, same name): TNT bits of branches after a TIP may be
 * packed before it, so one long TNT serves several TIPs. With CYC packets the
 * times would be wrong, so the TIP is then sent at once.
 */
void pt_encode_tip_slow(struct pt_encoder *e, uint64_t ip, bool defer)
{
	uint8_t *p;

	if (e->config.defer_tip && defer && e->n_tnt && !e->config.cyc &&
	    !e->full_ip && e->n_defer <= (PT_DEFER_MAX - 1) * PT_TIP_SIZE) {
		p = pt_put_ip(e->defer + e->n_defer, PT_OP_TIP, ip, e->last_ip);
		e->n_defer = (uint32_t)(p - e->defer);
		e->last_ip = ip;
		return;
	}
	pt_encode_flush_tnt(e);
	pt_encode_cyc(e);
	put_ip(e, PT_OP_TIP, ip);
}

/*
 * PSB+: a decoder can start here. Its packets describe the state: TSC, TMA,
 * CBR, MODE.Exec (64-bit code), FUP with the current IP if tracing is on. The
 * return stack is emptied, because a decoder that starts here has none. ip
 * NULL: tracing is off. The next one is due psb_period bytes later, as
 * processors count.
 */
static void put_psb(struct pt_encoder *e, const uint64_t *ip)
{
	static const uint8_t psb[PT_PSB_SIZE] = { 2, 0x82, 2, 0x82, 2, 0x82,
						  2, 0x82, 2, 0x82, 2, 0x82,
						  2, 0x82, 2, 0x82 };
	static const uint8_t cbr[] = { 0x02, 0x03, PT_BUS_RATIO, 0 };
	static const uint8_t mode_exec_64[] = { 0x99, 0x01 };
	static const uint8_t psbend[] = { 0x02, 0x23 };

	pt_encode_flush_tnt(e);
	if (position(e))
		put_cyc(e, e->tsc);
	else
		e->cyc_tsc = e->tsc;	/* a stream starts with its PSB */
	e->next_psb = position(e) + (UINT64_C(2048) << e->config.psb_period);
	put_bytes(e, psb, sizeof(psb));
	put_time(e);
	put_bytes(e, cbr, sizeof(cbr));
	put_bytes(e, mode_exec_64, sizeof(mode_exec_64));
	e->full_ip = true;
	if (ip && e->config.branch)
		put_ip(e, PT_OP_FUP, *ip);
	put_bytes(e, psbend, sizeof(psbend));
	pt_encode_ret_clear(e);
	set_limit(e);
}

void pt_encode_init(struct pt_encoder *e, const struct pt_encode_config *config,
		    uint8_t *buf, size_t size, pt_sink_fn *sink, void *ctx)
{
	memset(e, 0, sizeof(*e));
	e->config = *config;
	e->buf = e->pos = buf;
	e->end = buf + size;
	e->sink = sink;
	e->sink_ctx = ctx;
	e->event_tsc = UINT64_MAX;
	e->full_ip = true;
	e->lost_seed = 1;
	set_limit(e);
}

int pt_encode_flush(struct pt_encoder *e)
{
	hand_out(e);
	return e->error;
}

/* TSC and TMA here, too: after time in the kernel MTCs cannot say how long. */
void pt_encode_enable(struct pt_encoder *e, uint64_t ip)
{
	need_room(e);
	if (position(e) >= e->next_psb) {
		put_psb(e, NULL);
	} else {
		put_cyc(e, e->tsc);
		put_time(e);
	}
	if (e->config.branch && !e->filtered)
		put_ip(e, PT_OP_PGE, ip);
	e->on = true;
	e->lost = false;
}

/* While tracing is off there are no MTCs, and a return stack would be stale. */
static void stop(struct pt_encoder *e)
{
	pt_encode_ret_clear(e);
	e->on = false;
	e->lost = false;
	e->event_tsc = UINT64_MAX;
}

void pt_encode_disable(struct pt_encoder *e)
{
	if (!e->lost && e->config.branch && !e->filtered) {
		pt_encode_flush_tnt(e);
		pt_encode_cyc(e);
		*e->pos++ = PT_OP_PGD;
	}
	stop(e);
}

/* The branch that leads there needs no packet of its own (SDM, "Filtering by IP"). */
void pt_encode_filter_out(struct pt_encoder *e, uint64_t ip)
{
	if (!e->lost) {
		pt_encode_flush_tnt(e);
		pt_encode_cyc(e);
		put_ip(e, PT_OP_PGD, ip);
	}
	pt_encode_ret_clear(e);
	e->lost = false;
	e->filtered = true;
}

void pt_encode_filter_in(struct pt_encoder *e, uint64_t ip)
{
	need_room(e);
	if (position(e) >= e->next_psb)
		put_psb(e, NULL);
	pt_encode_cyc(e);
	put_ip(e, PT_OP_PGE, ip);
	e->filtered = false;
}

void pt_encode_disable_async(struct pt_encoder *e, uint64_t ip)
{
	if (!e->lost && e->config.branch && !e->filtered) {
		pt_encode_flush_tnt(e);
		pt_encode_cyc(e);
		put_ip(e, PT_OP_FUP, ip);
		*e->pos++ = PT_OP_PGD;
	}
	stop(e);
}

/* Waiting bits belong to the flow before the overflow and are sent. */
static void put_ovf(struct pt_encoder *e)
{
	static const uint8_t ovf[] = { 0x02, 0xf3 };

	pt_encode_flush_tnt(e);
	put_bytes(e, ovf, sizeof(ovf));
	pt_encode_ret_clear(e);
	e->full_ip = true;
}

void pt_encode_overflow(struct pt_encoder *e, uint64_t ip, bool resume)
{
	if (!e->config.branch)
		return;
	if (e->filtered) {	/* nothing of it is traced */
		if (!resume)
			stop(e);
		return;
	}
	if (!e->lost)
		put_ovf(e);
	e->lost = false;
	if (resume)
		put_ip(e, PT_OP_FUP, ip);
	else
		stop(e);
}

void pt_encode_lose(struct pt_encoder *e)
{
	put_ovf(e);
	e->lost = true;
	e->lost_until = UINT64_MAX;
}

/* PTW precedes its FUP; the IP bit announces that one follows. */
void pt_encode_ptwrite(struct pt_encoder *e, uint64_t ip, uint64_t value,
		       int size, bool with_fup)
{
	if (e->lost || e->filtered)
		return;
	pt_encode_flush_tnt(e);
	pt_encode_cyc(e);
	*e->pos++ = 0x02;
	*e->pos++ = (uint8_t)(0x12 | (size == 8 ? 1 << 5 : 0) | with_fup << 7);
	put_bytes(e, &value, size == 8 ? 8 : 4);
	if (with_fup)
		put_ip(e, PT_OP_FUP, ip);
}

/*
 * hand_out() first: PSB+ needs about 50 bytes. Injected overflows take the
 * place of a PSB+, so that their number follows from the trace's size and tests
 * are repeatable.
 */
void pt_encode_checkpoint(struct pt_encoder *e, uint64_t ip)
{
	uint32_t every = e->config.inject_overflow;

	if (e->end - e->pos <= PT_GROUP_MAX)
		hand_out(e);
	if (position(e) < e->next_psb)
		return;
	if (e->filtered) {
		put_psb(e, NULL);
		return;
	}
	if (every && e->config.branch && ++e->n_psb % every == 0) {
		put_ovf(e);
		e->n_injected++;
		e->lost = true;
		e->lost_until = e->tsc + encode_lost_time(&e->lost_seed);
		return;
	}
	put_psb(e, &ip);
}

/* FUP is where tracing resumed (SDM, "Overflow"); a PSB+ follows at once, as
 * one was due when the overflow was injected. */
bool pt_encode_lost(struct pt_encoder *e, uint64_t ip)
{
	if (!e->lost || e->tsc < e->lost_until)
		return e->lost;
	need_room(e);
	put_ip(e, PT_OP_FUP, ip);
	e->lost = false;
	put_psb(e, &ip);
	return false;
}

/* MTC carries 8 bits of CTC. Waiting TNT bits are sent first: their branches
 * precede the MTC. In an overflow MTCs are dropped, too, but the clock goes
 * on. */
void pt_encode_time(struct pt_encoder *e, uint64_t tsc)
{
	uint64_t step = ((uint64_t)PT_TSC_CTC_N << e->config.mtc_period) /
			PT_TSC_CTC_D;
	uint64_t ctc;

	if (e->n_tnt || e->n_defer)
		pt_encode_flush_tnt(e);
	while (e->event_tsc <= tsc) {
		need_room(e);
		ctc = e->event_tsc * PT_TSC_CTC_D / PT_TSC_CTC_N;
		if (!e->lost) {
			put_cyc(e, e->event_tsc);
			*e->pos++ = 0x59;
			*e->pos++ = (uint8_t)(ctc >> e->config.mtc_period);
		}
		e->event_tsc += step;
	}
}
