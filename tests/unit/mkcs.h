/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mkcs: CoreSight files made by hand: frames, AUXTRACE_INFO, and a decoder of toy
 * trace, so that a test sees which bytes, whose code and what time it gets.
 *
 * Toy trace is bytes: 0 nothing; 'C' id: CONTEXT with a context id, 'V' id: with a
 * VMID; 'T' n: TIME n00; 'P' page: PAYLOAD with the code byte at page000, or 0xff;
 * 'R' page: a RANGE there; 'O': TRACE_ON; anything else: PAYLOAD with that byte.
 */
#ifndef TESTS_UNIT_MKCS_H
#define TESTS_UNIT_MKCS_H

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "perfdata/csmeta.h"

#include "decode/sink/columns.h"
#include "tests/unit/mkperf.h"
#include "tests/unit/nofinish.h"
#include "decode/lib/session/session.h"
#include "decode/lib/session/impl.h"

#define CS_NO_CODE 0xff
#define CS_TIMESTAMPS 0x800u	/* TRCCONFIGR.TS */
#define CS_UNTIMED 0x80000000u	/* none of them, of whatever clock they were */

struct cs_bytes {
	uint8_t b[4096];
	size_t n;
};

/* Frames with the bytes of one id: its number first, then 14 bytes; the last one
 * is filled up with 0. */
__attribute__((unused))
static void cs_frame(struct cs_bytes *f, uint8_t id, const void *data,
		     size_t len)
{
	const uint8_t *p = data;

	for (; len; p += len < 14 ? len : 14, len -= len < 14 ? len : 14) {
		uint8_t *out = f->b + f->n;

		memset(out, 0, 16);
		out[0] = (uint8_t)(id << 1 | 1);
		memcpy(out + 1, p, len < 14 ? len : 14);
		for (unsigned i = 2; i < 15; i += 2) {
			out[15] |= (uint8_t)((out[i] & 1) << i / 2);
			out[i] &= 0xfe;
		}
		f->n += 16;
	}
}

__attribute__((unused))
static void cs_barrier(struct cs_bytes *f)
{
	for (unsigned i = 0; i < 16; i++)
		f->b[f->n++] = i % 4 == 3 ? 0x7f : 0xff;
}

__attribute__((unused))
static void cs_info(struct mk *m, const uint64_t *words, size_t n)
{
	size_t at = mk_begin(m, AUX_RECORD_AUXTRACE_INFO, 0);

	mk_u32(m, AUX_TRACE_CS_ETM);
	mk_u32(m, 0);
	for (size_t i = 0; i < n; i++)
		mk_u64(m, words[i]);
	mk_end(m, at, NULL);
}

/* n CPUs with ETMv4 that trace context ids; the id of CPU i is 0x10 + i. */
__attribute__((unused))
static void cs_info_v4(struct mk *m, unsigned n, uint64_t trcconfigr,
		       uint64_t ts_source)
{
	uint64_t w[3 + 8 * 11] = { 1, (uint64_t)MK_PMU << 32 | n, 0 };

	for (unsigned i = 0; i < n; i++) {
		uint64_t *b = w + 3 + i * 11;

		b[0] = AUX_CS_MAGIC_ETMV4;
		b[1] = i;
		b[2] = 8;
		b[3] = trcconfigr & CS_UNTIMED ? trcconfigr & ~CS_UNTIMED :
		       ts_source ? trcconfigr | CS_TIMESTAMPS : trcconfigr;
		b[4] = 0x10 + i;
		b[10] = ts_source;
	}
	cs_info(m, w, 3 + n * 11);
}

__attribute__((unused))
static void cs_hw_id(struct mk *m, struct mk_id id, uint64_t value)
{
	size_t at = mk_begin(m, PERF_RECORD_AUX_OUTPUT_HW_ID, 0);

	mk_u64(m, value);
	mk_end(m, at, &id);
}

/* A counter of nanoseconds. */
__attribute__((unused))
static void cs_clock(struct mk *m)
{
	size_t at = mk_begin(m, AUX_RECORD_TIME_CONV, 0);

	mk_u64(m, 0);
	mk_u64(m, 1);
	for (unsigned i = 0; i < 3; i++)
		mk_u64(m, 0);
	mk_u64(m, 1);
	mk_end(m, at, NULL);
}

struct cs_toy {
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	const struct aux_chunk *chunk;
	uint64_t pos;
	bool start;
};

static int cs_toy_open(void **dec, const struct aux_decoder_config *config,
		       const struct aux_decoder_host *host,
		       struct aux_diag *diag)
{
	struct cs_toy *t = calloc(1, sizeof(*t));

	(void)diag;
	t->config = config;
	t->host = host;
	*dec = t;
	return 0;
}

static int cs_toy_start(void *dec, const struct aux_chunk *chunk)
{
	struct cs_toy *t = dec;

	t->chunk = chunk;
	t->pos = 0;
	t->start = true;
	return 0;
}

static uint64_t cs_toy_code(const struct cs_toy *t, uint64_t ip)
{
	struct aux_code c;

	return t->host->code(t->host->priv, ip, &c) < 0 ? CS_NO_CODE :
		       c.bytes[ip - c.start];
}

/* One packet; true: the host has to look at it. */
static bool cs_toy_step(struct cs_toy *t, struct aux_flow *f)
{
	const uint8_t *p = t->chunk->data + t->pos;
	uint8_t arg = t->pos + 1 < t->chunk->len ? p[1] : 0;

	*f = (struct aux_flow){ .offset = t->chunk->stream_offset + t->pos };
	t->pos += *p == 'C' || *p == 'V' || *p == 'T' || *p == 'P' ||
			  *p == 'R' ? 2 : 1;
	switch (*p) {
	case 0:
		return false;
	case 'C': case 'V':
		f->kind = AUX_FLOW_CONTEXT;
		f->flags = *p == 'C' ? AUX_FLOW_HAS_CID : AUX_FLOW_HAS_VMID;
		f->context.cr3 = *p == 'C' ? arg : 0;
		f->context.vmcs = *p == 'V' ? arg : 0;
		return t->host->context_switches;
	case 'T':
		f->kind = AUX_FLOW_TIME;
		f->flags = AUX_FLOW_HAS_TSC;
		f->time.tsc = arg * 100;
		f->time.ns = t->config->etm.ts_is_clock ? f->time.tsc : 0;
		return f->time.tsc >= t->host->horizon_tsc;
	case 'R':
		f->kind = AUX_FLOW_RANGE;
		f->flags = 4;
		f->n = 1;
		f->range.first = f->range.last = (uint64_t)arg << 12;
		return false;
	case 'O':
		f->kind = AUX_FLOW_TRACE_ON;
		return false;
	}
	f->kind = AUX_FLOW_PAYLOAD;
	f->payload.value = *p == 'P' ? cs_toy_code(t, arg << 12) : *p;
	return false;
}

static int cs_toy_decode(void *dec, struct aux_flow *out, size_t max)
{
	struct cs_toy *t = dec;
	size_t n = 0;

	if (t->start && t->chunk->len)
		out[n++] = (struct aux_flow){ .kind = AUX_FLOW_TRACE_ON };
	t->start = false;
	while (n < max && t->pos < t->chunk->len) {
		bool stop = cs_toy_step(t, &out[n]);

		n += out[n].kind != 0;
		if (stop)
			break;
	}
	return (int)n;
}

static const struct aux_decoder_ops cs_toy = {
	.abi = AUX_DECODER_ABI, .size = sizeof(cs_toy), .name = "toy",
	.trace_type = AUX_TRACE_CS_ETM, .open = cs_toy_open,
	.start = cs_toy_start, .decode = cs_toy_decode, .close = free,
};

/* What came out: "[1 a b!12 ]": chunk of CPU 1, payloads, GAP of cause 12. A byte
 * of no text is in hex, behind a dot. */
struct cs_seen {
	char text[1024];
	size_t n;
	struct {
		uint64_t offset, value;
		uint32_t pid, tid;
		int32_t cpu;
		uint64_t time_ns;
	} ev[64];		/* payloads and gaps */
	size_t n_ev;
	bool back;		/* an offset of a stream went back */
	uint64_t last[64];
	char error[512];
};

__attribute__((format(printf, 2, 3)))
static void cs_say(struct cs_seen *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	s->n += (size_t)vsnprintf(s->text + s->n, sizeof(s->text) - s->n, fmt,
				  ap);
	va_end(ap);
	if (s->n >= sizeof(s->text))
		abort();
}

static void cs_keep(struct cs_seen *s, const struct flow_ctx *ctx,
		    const struct aux_flow *ev)
{
	if (s->n_ev == 64)
		return;
	s->ev[s->n_ev].offset = ev->offset;
	s->ev[s->n_ev].value = ev->kind == AUX_FLOW_GAP ? ev->gap.detail :
							  ev->payload.value;
	s->ev[s->n_ev].pid = ctx->pid;
	s->ev[s->n_ev].tid = ctx->tid;
	s->ev[s->n_ev].cpu = ctx->cpu;
	s->ev[s->n_ev++].time_ns = ctx->time_ns;
}

static int cs_see(void *sink, const struct flow_ctx *ctx,
		  const struct aux_flow *ev, size_t n)
{
	struct cs_seen *s = sink;

	for (; n; ev++, n--) {
		s->back |= ev->offset < s->last[ctx->stream % 64];
		s->last[ctx->stream % 64] = ev->offset;
		if (ev->kind == AUX_FLOW_TRACE_ON)
			cs_say(s, "[%d", ctx->cpu);
		if (ev->kind == AUX_FLOW_RANGE)
			cs_say(s, "R%u", (unsigned)(ev->range.first >> 12));
		if (ev->kind == AUX_FLOW_GAP)
			cs_say(s, "!%s", gap_name(ev->what));
		if (ev->kind == AUX_FLOW_PAYLOAD)
			cs_say(s, ev->payload.value > ' ' &&
				  ev->payload.value < 127 ? "%c" : ".%02x",
			       (int)ev->payload.value);
		if (ev->kind == AUX_FLOW_GAP || ev->kind == AUX_FLOW_PAYLOAD)
			cs_keep(s, ctx, ev);
	}
	return 0;
}

static const struct sink_ops cs_sink = { .name = "seen", .flow = cs_see,
					 .finish = no_finish };

/* Completes, decodes and frees the file. */
__attribute__((unused))
static int cs_decode(struct mk *m, struct cs_seen *seen,
		     struct session_stats *st)
{
	char path[] = "/tmp/auxkit-test-XXXXXX";
	struct session_config c = { .tid = -1, .cpu = -1, .path = path,
				    .time_to = UINT64_MAX };
	struct aux_diag diag = { 0 };
	struct session *s = NULL;
	int fd = mkstemp(path), rc;

	*seen = (struct cs_seen){ 0 };
	*st = (struct session_stats){ 0 };
	mk_feature(m, AUX_FEAT_HOSTNAME, "\1\0\0\0", 5);
	mk_finish(m);
	if (fd < 0 || write(fd, m->p, m->n) != (ssize_t)m->n)
		return -1;
	close(fd);
	rc = session_open(&s, &c, &diag);
	if (rc == 0) {
		s->plugin_ops = &cs_toy;
		rc = session_run(s, &cs_sink, seen, st, &diag);
	}
	snprintf(seen->error, sizeof(seen->error), "%s", diag.text);
	session_close(s);
	unlink(path);
	free(m->p);
	return rc;
}

#endif
