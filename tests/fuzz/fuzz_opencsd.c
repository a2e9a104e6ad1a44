/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The OpenCSD decoder over any trace and any code: it ends, its places never go
 * back, it shows nothing but code that there is, and gives the same in small
 * batches as in large ones. The first eight bytes say what made the trace and what
 * the host is like; then come 64 bytes of code, and the trace.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "decode/lib/session/decoders.h"

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

#define N_HEAD 8
#define N_CODE 64
#define MAX_LEN 4096		/* the library is slow on some packets */
#define CODE_AT 0x1000
#define START 100

/* Two versions of the code: own bytes, and the same the other way round. */
struct host {
	struct aux_decoder_host h;
	struct aux_decoder_config config;
	uint8_t *code[2];
	uint64_t time;		/* of the last TIME */
};

struct result {
	uint64_t n, hash, last;
};

static int give_code(void *priv, uint64_t ip, struct aux_code *c)
{
	struct host *h = priv;

	if (ip < CODE_AT || ip >= CODE_AT + N_CODE)
		return -AUX_E_NOENT;
	*c = (struct aux_code){ .start = CODE_AT, .end = CODE_AT + N_CODE,
				.bytes = h->code[h->h.generation & 1] };
	return 0;
}

static void configure_v4(struct aux_etm_config *e, const uint8_t *head)
{
	e->trcidr0 = 0x28000ea1 | (uint32_t)(head[2] & 1) << 29;
	e->trcidr1 = e->arch == AUX_ETM_V4 ? 0x4100f403 : 0x4100fff0;
	e->trcidr2 = 0x488;
	e->trcidr8 = head[2] >> 1 & 0x3f;
	e->trcdevarch = 0x47705a13;
	e->trcconfigr = 0x1u | (uint32_t)head[3] << 3 |
			(uint32_t)(head[4] & 3) << 11;
	e->ts_is_clock = head[4] >> 2 & 1;
}

static void configure(struct host *h, const uint8_t *head)
{
	struct aux_etm_config *e = &h->config.etm;

	h->time = 0;
	h->config.size = sizeof(h->config);
	h->config.clock.mult = 1;
	e->arch = head[0] % 7;
	e->trace_id = 0x10;
	e->core_version = head[1] & 15;
	e->core_profile = "ARMA"[head[1] >> 4 & 3];
	e->etmcr = 0x1000c000 | (uint32_t)head[3];
	e->etmidr = e->arch == AUX_ETM_V3 ? 0x410cf250 : 0x411cf312;
	e->etmccer = e->arch == AUX_ETM_V3 ? 0x344008f2 : 0x34c01ac2;
	e->stmtcsr = 0x00100005;
	if (e->arch == AUX_ETM_V4 || e->arch == AUX_ETM_ETE)
		configure_v4(e, head);
	h->h = (struct aux_decoder_host){
		.size = sizeof(h->h), .priv = h, .code = give_code,
		.generation = 1, .context_switches = head[5] & 1,
		.horizon_tsc = head[5] & 2 ? head[6] : UINT64_MAX,
	};
}

/* Does the host have to act behind this event, before more code is asked for? */
static bool is_due(const struct host *h, const struct aux_flow *ev)
{
	if (ev->kind == AUX_FLOW_CONTEXT)
		return h->h.context_switches;
	return ev->kind == AUX_FLOW_TIME && ev->flags & AUX_FLOW_HAS_TSC &&
	       h->h.horizon_tsc != UINT64_MAX &&
	       (ev->time.tsc >= h->h.horizon_tsc || ev->time.tsc < h->time);
}

/* It switches to the code of the other version, or back. */
static void act(struct host *h, const struct aux_flow *ev)
{
	if (ev->kind == AUX_FLOW_CONTEXT) {
		h->h.generation = 2 + (ev->context.cr3 & 1);
		return;
	}
	if (ev->time.tsc < UINT64_MAX - 10)
		h->h.horizon_tsc = ev->time.tsc + 10;
	h->h.generation = 4 + (ev->time.tsc & 1);
}

/* Returns whether it is one that the host acts upon. */
static bool take(struct host *h, struct result *r, const struct aux_flow *ev)
{
	const uint8_t *p = (const uint8_t *)ev;
	bool due = is_due(h, ev);

	ASSERT(ev->kind >= AUX_FLOW_RANGE && ev->kind <= AUX_FLOW_GAP);
	ASSERT(ev->offset >= r->last);
	r->last = ev->offset;
	if (ev->kind == AUX_FLOW_RANGE)
		ASSERT(ev->n && ev->range.first <= ev->range.last &&
		       ev->range.first >= CODE_AT &&
		       ev->range.last < CODE_AT + N_CODE);
	if (ev->kind == AUX_FLOW_TIME && ev->flags & AUX_FLOW_HAS_TSC)
		h->time = ev->time.tsc;
	for (size_t i = 0; i < sizeof(*ev); i++)
		r->hash = (r->hash ^ p[i]) * 0x100000001b3;
	r->n++;
	return due;
}

static struct result decode(struct host *h, const struct aux_chunk *c,
			    size_t max)
{
	const struct aux_decoder_ops *ops = decoders_find("opencsd", 0, NULL);
	struct result r = { .hash = 0xcbf29ce484222325, .last = START };
	struct aux_flow ev[512];
	struct aux_diag diag;
	void *dec;
	int n;

	ASSERT(ops->open(&dec, &h->config, &h->h, &diag) == 0);
	ASSERT(ops->start(dec, c) == 0);
	while ((n = ops->decode(dec, ev, max)) > 0) {
		ASSERT((size_t)n <= max && r.n < 64 * (c->len + 16));
		for (int i = 0; i < n; i++)
			if (take(h, &r, &ev[i])) {
				ASSERT(i == n - 1);
				act(h, &ev[i]);
			}
	}
	ASSERT(n == 0 && r.last <= START + c->len);
	ops->close(dec);
	return r;
}

static void check(const uint8_t *head, const uint8_t *code, uint8_t *trace,
		  size_t len, bool stays)
{
	struct aux_chunk c = { .size = sizeof(c), .data = trace, .len = len,
			       .stream_offset = START };
	struct host h = { 0 };
	struct result one, two;

	for (int i = 0; i < 2; i++) {
		h.code[i] = malloc(N_CODE);
		ASSERT(h.code[i]);
	}
	memcpy(h.code[1], code, N_CODE);
	for (int i = 0; i < N_CODE; i++)
		h.code[0][i] = code[stays ? i : (N_CODE - 4 - i / 4 * 4) + i % 4];
	configure(&h, head);
	one = decode(&h, &c, 512);
	configure(&h, head);
	two = decode(&h, &c, 16 + head[7]);
	ASSERT(one.n == two.n && one.hash == two.hash);
	free(h.code[0]);
	free(h.code[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t *trace;
	size_t n;

	if (len < N_HEAD + N_CODE || !decoders_find("opencsd", 0, NULL))
		return 0;
	n = len - N_HEAD - N_CODE < MAX_LEN ? len - N_HEAD - N_CODE : MAX_LEN;
	trace = malloc(n ? n : 1);	/* so that reads behind it are seen */
	ASSERT(trace);
	memcpy(trace, data + N_HEAD + N_CODE, n);
	check(data, data + N_HEAD, trace, n, data[5] & 4);
	free(trace);
	return 0;
}
