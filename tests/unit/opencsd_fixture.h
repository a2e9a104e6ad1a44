/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The OpenCSD decoder, a host with a few instructions, packets made by hand, and
 * what came out as a line of text.
 */
#ifndef TESTS_UNIT_OPENCSD_FIXTURE_H
#define TESTS_UNIT_OPENCSD_FIXTURE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#include "decode/lib/session/decoders.h"

#define N_EVENTS 8192
#define N_AREAS 16

struct packet_bytes {
	uint8_t b[4096];
	size_t n;
};

struct area {
	uint64_t start, end;
	const uint8_t *bytes;
};

struct fixture {
	struct aux_decoder_config config;
	struct aux_decoder_host host;
	const struct aux_decoder_ops *ops;
	void *dec;
	struct area areas[N_AREAS];
	unsigned n_areas;
	unsigned asked;		/* calls of code */
	struct aux_flow ev[N_EVENTS];
	size_t n;
};

static int fixture_code(void *priv, uint64_t ip, struct aux_code *c)
{
	struct fixture *f = priv;

	f->asked++;
	for (unsigned i = 0; i < f->n_areas; i++) {
		const struct area *a = &f->areas[i];

		if (ip < a->start || ip >= a->end)
			continue;
		*c = (struct aux_code){ .start = a->start, .end = a->end,
					.bytes = a->bytes };
		return 0;
	}
	return -AUX_E_NOENT;
}

/* Not yet opened: config.etm is to be filled. */
static void begin(struct fixture *f, unsigned arch)
{
	memset(f, 0, sizeof(*f));
	f->config.size = sizeof(f->config);
	f->config.clock.mult = 1;
	f->config.etm.arch = arch;
	f->config.etm.trace_id = 0x10;
	f->host = (struct aux_decoder_host){ .size = sizeof(f->host), .priv = f,
					     .code = fixture_code,
					     .generation = 1,
					     .horizon_tsc = UINT64_MAX };
	f->ops = decoders_find("opencsd", 0, NULL);
	if (!f->ops)
		abort();
}

static void start_decoder(struct fixture *f)
{
	struct aux_diag diag;

	if (f->ops->open(&f->dec, &f->config, &f->host, &diag) < 0)
		abort();
}

__attribute__((unused))
static void add_area(struct fixture *f, uint64_t start, const void *bytes,
		     size_t len)
{
	f->areas[f->n_areas++] = (struct area){ start, start + len, bytes };
}

/* Decodes all, so many events at once. False when it does not end. */
__attribute__((unused))
static bool run(struct fixture *f, const uint8_t *data, size_t len, size_t max)
{
	struct aux_chunk c = { .size = sizeof(c), .data = data, .len = len,
			       .stream_offset = 100 };
	int rc;

	f->n = 0;
	if (f->ops->start(f->dec, &c) < 0)
		return false;
	for (int i = 0; i < 100000; i++) {
		if (f->n + max > N_EVENTS)
			f->n = 0;
		rc = f->ops->decode(f->dec, f->ev + f->n, max);
		if (rc <= 0)
			return rc == 0;
		f->n += (size_t)rc;
	}
	return false;
}

static int print_event(char *p, size_t left, const struct aux_flow *e)
{
	static const char *const ends[] = {
		"fall", "taken", "not", "jump", "call", "ret", "ijump",
		"icall", "syscall", "far", "cond",
	};

	switch (e->kind) {
	case AUX_FLOW_RANGE:
		return snprintf(p, left, "%" PRIx64 "-%" PRIx64 "/%u:%s ",
				e->range.first, e->range.last, e->n,
				ends[e->what]);
	case AUX_FLOW_TIME:
		return snprintf(p, left, "t%" PRIu64 "+%u ", e->time.tsc, e->n);
	case AUX_FLOW_TRACE_ON:
		return e->flags & AUX_FLOW_HAS_IP ?
			       snprintf(p, left, "on:%" PRIx64 " ",
					e->trace.ip) :
			       snprintf(p, left, "on ");
	case AUX_FLOW_TRACE_OFF:
		return snprintf(p, left, "off ");
	case AUX_FLOW_ASYNC:
		return snprintf(p, left, "async%u:%" PRIx64 ">%" PRIx64 " ",
				e->what, e->async.from, e->async.to);
	case AUX_FLOW_CONTEXT:
		return snprintf(p, left, "el%x/%" PRIx64 "/%" PRIx64 " ",
				e->what, e->context.cr3, e->context.vmcs);
	case AUX_FLOW_GAP:
		return snprintf(p, left, "gap%u:%" PRIx64 " ", e->what,
				e->gap.ip);
	case AUX_FLOW_PAYLOAD:
		return snprintf(p, left, "p%u:%" PRIx64 "=%" PRIx64 "/%u ",
				e->what, e->payload.ip, e->payload.value, e->n);
	default:
		return snprintf(p, left, "kind%u:%u=%" PRIx64 " ", e->kind,
				e->what, e->payload.value);
	}
}

__attribute__((unused))
static char *text(const struct fixture *f)
{
	static char buf[8192];
	size_t n = 0;

	buf[0] = 0;
	for (size_t i = 0; i < f->n && n < sizeof(buf) - 200; i++)
		n += (size_t)print_event(buf + n, sizeof(buf) - n, &f->ev[i]);
	return buf;
}

/* ---- packets ---- */

static void put(struct packet_bytes *p, const void *bytes, size_t n)
{
	if (p->n + n > sizeof(p->b))
		abort();
	memcpy(p->b + p->n, bytes, n);
	p->n += n;
}

#define PUT(p, ...)                                        \
	do {                                               \
		static const uint8_t bytes_[] = { __VA_ARGS__ }; \
		put(p, bytes_, sizeof(bytes_));            \
	} while (0)

/* ETMv4 and ETE: A-Sync, Trace Info; with cycle counts, threshold 1. */
__attribute__((unused))
static void v4_sync(struct packet_bytes *p, bool cycles)
{
	PUT(p, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80);
	if (cycles)
		PUT(p, 0x01, 0x09, 0x01, 0x01);
	else
		PUT(p, 0x01, 0x00);
}

/* Long address, 64 bit, IS0 */
__attribute__((unused))
static void v4_address(struct packet_bytes *p, uint64_t ip)
{
	uint8_t b[9] = { 0x9d, ip >> 2 & 0x7f, ip >> 9 & 0x7f };

	for (int i = 3; i < 9; i++)
		b[i] = (uint8_t)(ip >> (16 + 8 * (i - 3)));
	put(p, b, sizeof(b));
}

/* AArch64, not secure */
__attribute__((unused))
static void v4_context(struct packet_bytes *p, unsigned el, uint32_t cid)
{
	uint8_t b[6] = { 0x81, (uint8_t)(0xb0 | el) };

	memcpy(b + 2, &cid, 4);
	put(p, b, sizeof(b));
}

/* Both in one packet */
__attribute__((unused))
static void v4_address_context(struct packet_bytes *p, uint64_t ip, unsigned el,
			       uint32_t cid)
{
	size_t at = p->n;

	v4_address(p, ip);
	p->b[at] = 0x85;
	at = p->n;
	v4_context(p, el, cid);
	memmove(p->b + at, p->b + at + 1, 5);
	p->n--;
}

__attribute__((unused))
static void v4_atoms(struct packet_bytes *p, const char *atoms)
{
	for (; *atoms; atoms++)
		put(p, *atoms == 'E' ? "\xf7" : "\xf6", 1);
}

/* kind: 1 the return address follows, 2 it is also a branch's target */
__attribute__((unused))
static void v4_exception(struct packet_bytes *p, unsigned number, unsigned kind,
			 uint64_t ip)
{
	uint8_t b[2] = { 0x06, (uint8_t)((kind & 2) << 5 | number << 1 |
					 (kind & 1)) };

	put(p, b, 2);
	v4_address(p, ip);
}

/* All protocols but STM: the header, then seven bits in each byte */
static void put_time(struct packet_bytes *p, uint8_t header, uint64_t ts)
{
	put(p, &header, 1);
	do {
		uint8_t b = (uint8_t)((ts & 0x7f) | (ts > 0x7f ? 0x80 : 0));

		put(p, &b, 1);
		ts >>= 7;
	} while (ts);
}

__attribute__((unused))
static void v4_time(struct packet_bytes *p, uint64_t ts)
{
	put_time(p, 0x02, ts);
}

/* ETMv3 and PTM */
__attribute__((unused))
static void v7_sync(struct packet_bytes *p)
{
	PUT(p, 0, 0, 0, 0, 0, 0x80);
}

__attribute__((unused))
static void v7_time(struct packet_bytes *p, uint64_t ts)
{
	put_time(p, 0x42, ts);
}

__attribute__((unused))
static void v7_context(struct packet_bytes *p, uint32_t cid)
{
	put(p, "\x6e", 1);
	put(p, &cid, 4);
}

#endif
