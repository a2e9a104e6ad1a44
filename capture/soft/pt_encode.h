/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intel PT packets from a control flow.
 *
 * One encoder makes one stream. The caller says what happened in program order;
 * the encoder packs TNT bits, compresses IPs and returns, and places PSB+, MTC
 * and CYC. Bytes leave through the sink in whole packets. The common case, a
 * TNT bit or a TIP, is inline; everything else is in pt_encode.c.
 *
 * Also compiled into a kernel module (tools/pmu_sim): nothing of libc but
 * memcpy and memset.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace".
 */
#ifndef CAPTURE_SOFT_PT_ENCODE_H
#define CAPTURE_SOFT_PT_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "capture/soft/encode.h"

#define PT_TNT_MAX 47		/* bits of a long TNT: 6 bytes less the stop bit */
#define PT_SHORT_TNT_UPTO 24	/* more pending bits go into one long TNT of 8
				 * bytes: one packet to decode instead of five */
#define PT_RET_DEPTH 64		/* entries of the return stack */
#define PT_DEFER_MAX 32		/* TIPs that may wait until a TNT is full */
#define PT_TIP_SIZE 9
#define PT_PSB_SIZE 16
#define PT_GROUP_MAX 512	/* bytes one call can write without asking */

/* The declared machine: TSC = CTC * ratio, one cycle is one TSC tick. */
#define PT_TSC_CTC_N 40
#define PT_TSC_CTC_D 1
#define PT_BUS_RATIO 10		/* CBR; 1 GHz over 100 MHz */

struct pt_encode_config {
	bool tsc, mtc, cyc, retcomp;
	bool branch;		/* COFI packets at all */
	bool defer_tip;		/* TNT may run past a TIP (not past a RET's) */
	uint32_t mtc_period;	/* log2 of CTC ticks */
	uint32_t psb_period;	/* PSB+ each 2^(n+11) bytes */
	uint32_t cyc_thresh;	/* 0, or CYC after 2^(n-1) cycles */
	uint32_t inject_overflow; /* OVF in place of each nth PSB+; 0 never */
};

/* Takes n bytes of whole packets. Returns 0, or an error that sticks. */
typedef int pt_sink_fn(void *ctx, const uint8_t *bytes, size_t n);

struct pt_encoder {
	/* hot */
	uint8_t *pos;
	uint8_t *limit;		/* from here on call pt_encode_checkpoint() */
	union {
		struct encode_hot hot;
		struct {	/* the same by name */
			uint64_t tnt;	/* pending, the newest is bit 0 */
			uint32_t n_tnt;
			uint64_t tsc;
		};
	};
	uint32_t n_defer;	/* bytes in defer */
	uint64_t last_ip;
	uint64_t event_tsc;	/* pt_encode_time() is due; ~0 never */

	bool on;		/* tracing is enabled: ContextEn */
	bool filtered;		/* and an address filter keeps it off: no FilterEn */
	bool lost;		/* after OVF, before its FUP */
	bool full_ip;		/* the next IP must not be compressed */

	struct pt_encode_config config;
	uint64_t cyc_tsc;	/* of the last CYC */
	uint64_t lost_until;
	uint32_t n_psb;
	uint64_t n_injected;	/* overflows that config asked for */
	uint32_t lost_seed;
	int error;

	uint32_t ret_top, ret_count;
	uint64_t ret[PT_RET_DEPTH];

	uint8_t *buf;
	uint8_t *end;
	uint64_t done;		/* bytes handed to the sink */
	uint64_t next_psb;	/* stream position */
	pt_sink_fn *sink;
	void *sink_ctx;
	uint8_t defer[PT_DEFER_MAX * PT_TIP_SIZE + 8];
};

/* buf is the caller's, at least 4 * PT_GROUP_MAX bytes. */
void pt_encode_init(struct pt_encoder *e, const struct pt_encode_config *config,
		    uint8_t *buf, size_t size, pt_sink_fn *sink, void *ctx);
/* Hands out what is complete. Returns the first error of the sink. */
int pt_encode_flush(struct pt_encoder *e);

/* TIP.PGE(ip) unless filtered, after PSB+ when due, TSC (and TMA, CYC). */
void pt_encode_enable(struct pt_encoder *e, uint64_t ip);
/* TIP.PGD without an IP: the last instruction entered the kernel. */
void pt_encode_disable(struct pt_encoder *e);
/* FUP(ip), TIP.PGD: something happened before ip ran. */
void pt_encode_disable_async(struct pt_encoder *e, uint64_t ip);
/* An address filter: TIP.PGD(ip), as ip is outside of what is traced; TIP.PGE(ip), as it
 * is inside. While filtered only packets of time and PSB+ are sent. */
void pt_encode_filter_out(struct pt_encoder *e, uint64_t ip);
void pt_encode_filter_in(struct pt_encoder *e, uint64_t ip);
/* Flow is unknown here: OVF, and FUP(ip) when tracing goes on at ip. */
void pt_encode_overflow(struct pt_encoder *e, uint64_t ip, bool resume);
/* OVF; lost until tracing is disabled and enabled again. */
void pt_encode_lose(struct pt_encoder *e);
/* PTW, and FUP(ip) when with_fup. size is 4 or 8. */
void pt_encode_ptwrite(struct pt_encoder *e, uint64_t ip, uint64_t value,
		       int size, bool with_fup);

/*
 * Between two transitions, at the instruction ip that comes next: sends what
 * is due (room in the buffer, PSB+, injected OVF). Call it when pos >= limit.
 */
void pt_encode_checkpoint(struct pt_encoder *e, uint64_t ip);
/* MTCs up to and including tsc; call when tsc >= event_tsc. */
void pt_encode_time(struct pt_encoder *e, uint64_t tsc);
/* In the lost state: resumes at ip when enough was lost. Returns lost. */
bool pt_encode_lost(struct pt_encoder *e, uint64_t ip);

/* Two marks differ if anything was sent, or began to wait, between them. */
static inline uint64_t pt_encode_mark(const struct pt_encoder *e,
				      uint32_t n_tnt)
{
	return (e->done + (uint64_t)(e->pos - e->buf)) << 16 |
	       (uint64_t)e->n_defer << 6 | n_tnt;
}

/* Parts of the inline path, not for callers. */
void pt_encode_flush_tnt(struct pt_encoder *e);
void pt_encode_tip_slow(struct pt_encoder *e, uint64_t ip, bool defer);

static inline void pt_encode_ret_clear(struct pt_encoder *e)
{
	e->ret_count = 0;
}

static inline void pt_encode_call(struct pt_encoder *e, uint64_t next)
{
	e->ret_top = (e->ret_top + 1) % PT_RET_DEPTH;
	e->ret[e->ret_top] = next;
	e->ret_count += e->ret_count < PT_RET_DEPTH;
}

/*
 * A return to ip: true when it is compressed (the caller adds a taken bit),
 * else the caller sends a TIP. After a mismatch the stack is dropped, because
 * decoders differ on whether a mismatched return pops an entry.
 */
static inline bool pt_encode_ret_pop(struct pt_encoder *e, uint64_t ip)
{
	if (!e->ret_count || e->ret[e->ret_top] != ip) {
		e->ret_count = 0;
		return false;
	}
	e->ret_top = (e->ret_top - 1) % PT_RET_DEPTH;
	e->ret_count--;
	return true;
}

/* An IP packet with the shortest IP the last one allows; needs 9 bytes. */
static inline uint8_t *pt_put_ip(uint8_t *p, uint8_t opcode, uint64_t ip,
				 uint64_t last_ip)
{
	static const uint8_t code[4] = { 1 << 5, 2 << 5, 3 << 5, 6 << 5 };
	static const uint8_t size[4] = { 3, 5, 7, 9 };
	unsigned i = (unsigned)(63 - __builtin_clzll((ip ^ last_ip) | 1)) / 16;
	bool canonical = (uint64_t)((int64_t)(ip << 16) >> 16) == ip;

	/* IPBytes: 3 sign-extends 48 bits, 4 keeps the upper 16, 6 has all
	 * 64 */
	i = i == 3 && canonical ? 2 : i;
	p[0] = opcode | (i == 2 && !canonical ? 4 << 5 : code[i]);
	memcpy(p + 1, &ip, 8);
	return p + size[i];
}

enum pt_ip_opcode {
	PT_OP_TIP = 0x0d,
	PT_OP_PGE = 0x11,
	PT_OP_PGD = 0x01,
	PT_OP_FUP = 0x1d,
};

/* A conditional branch, or a compressed return. */
static inline void pt_encode_tnt(struct pt_encoder *e, bool taken)
{
	e->tnt = e->tnt << 1 | taken;
	if (++e->n_tnt == PT_TNT_MAX)
		pt_encode_flush_tnt(e);
}

/* At most PT_SHORT_TNT_UPTO bits as short TNTs: a stop bit above up to 6, the oldest
 * uppermost. Without branches, which would be as good as random; up to 4 bytes are
 * written, and some of them for nothing. */
static inline uint8_t *pt_put_short_tnts(uint8_t *p, uint64_t bits, uint32_t n)
{
	uint32_t count = (n + 5) / 6, full = count - !!n, rest = n - 6 * full;
	uint64_t upper = bits >> rest << (18 - 6 * full);
	uint32_t v = (uint32_t)((upper >> 12 & 63) | (upper >> 6 & 63) << 8 |
				(upper & 63) << 16) << 1 | 0x808080;

	memcpy(p, &v, sizeof(v));
	p[full] = (uint8_t)(((bits & ((1u << rest) - 1)) | 1u << rest) << 1);
	return p + count;
}

/* A TIP after at most 6 TNT bits, where nothing else is due. */
static inline void pt_encode_tip_short(struct pt_encoder *e, uint64_t ip)
{
	uint32_t n = e->n_tnt;
	uint8_t *p = e->pos;

	/* a short TNT of 0 to 6 bits: at 0 the next byte overwrites it */
	*p = (uint8_t)((e->tnt | 1u << n) << 1);
	p += n != 0;
	e->pos = pt_put_ip(p, PT_OP_TIP, ip, e->last_ip);
	e->last_ip = ip;
	e->n_tnt = 0;
	e->tnt = 0;
}

/* The same after any number of bits, which the caller holds. */
static inline void pt_encode_tip_bits(struct pt_encoder *e, const struct encode_hot *h,
				      uint64_t ip)
{
	uint8_t *p;

	if (__builtin_expect(h->n_bits > PT_SHORT_TNT_UPTO, 0)) {
		e->hot = *h;
		pt_encode_flush_tnt(e);
		p = e->pos;
	} else {
		p = pt_put_short_tnts(e->pos, h->bits, h->n_bits);
	}
	e->pos = pt_put_ip(p, PT_OP_TIP, ip, e->last_ip);
	e->last_ip = ip;
}

/* An indirect branch to ip; defer: later TNT bits may precede it (never a
 * RET). */
static inline void pt_encode_tip(struct pt_encoder *e, uint64_t ip, bool defer)
{
	if (e->n_tnt > 6 || e->config.cyc || e->full_ip || e->config.defer_tip)
		pt_encode_tip_slow(e, ip, defer);
	else
		pt_encode_tip_short(e, ip);
}

#endif
