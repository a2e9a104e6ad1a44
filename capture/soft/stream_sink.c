/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_stream_sink: CoreSight's way out: trace IDs, frames, AUX records, and
 * what AUXTRACE_INFO says of the virtual CPUs.
 *
 * Decoders start anew with each AUX record, so a record ends only where its
 * trace units have stopped. A sink that all CPUs share is emptied when all of
 * them were stopped.
 * Specification: Linux 6.1, tools/perf/util/cs-etm.h, and coresight-event/pmu.h for
 * AUX_OUTPUT_HW_ID.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>
#include "perfdata/csmeta.h"

#include "capture/soft/stream.h"

#define AUX_FLAG_RAW 0x100	/* PERF_AUX_FLAG_CORESIGHT_FORMAT_RAW */
#define RECORD_HW_ID 21		/* PERF_RECORD_AUX_OUTPUT_HW_ID */
#define PIECE_SIZE (4 * ETM_GROUP_MAX)
#define ETE_IGNORE 0x70		/* what a TRBE fills up with */
#define SINK_ALIGN 64		/* of what a sink writes to memory */
#define MAX_WORDS 12		/* of a CPU's block */

static uint32_t cpu_of(const struct soft_stream *st)
{
	return st->idx % st->s->config.n_cpus;
}

/* The driver's IDs; 0x70 and up are reserved. */
static uint8_t trace_id(uint32_t cpu)
{
	return (uint8_t)(0x10 + 2 * cpu);
}

static size_t put_raw(const struct soft *s, const uint8_t *bytes, size_t n)
{
	size_t pad = s->etm.ete ? -n % SINK_ALIGN : 0;

	memcpy(s->out.scratch, bytes, n);
	memset(s->out.scratch + n, ETE_IGNORE, pad);
	return n + pad;
}

static size_t put_framed(struct soft *s, uint8_t id, const uint8_t *bytes,
			 size_t n)
{
	uint8_t *p = s->out.scratch;
	size_t done = etm_frame_put(&s->out.frame, id, bytes, n, p);

	done += etm_frame_end(&s->out.frame, p + done);
	return done + etm_frame_pad(p + done, SINK_ALIGN - done % SINK_ALIGN);
}

static int add_shared(struct soft *s, uint8_t id, const uint8_t *bytes,
		      size_t n)
{
	struct soft_etm_out *o = &s->out;
	size_t need = o->n + etm_frame_room(n) + SINK_ALIGN, cap = o->cap;
	uint8_t *p;

	if (need > cap) {
		cap = need > cap * 2 ? need : cap * 2;
		p = realloc(o->bytes, cap);
		if (!p)
			return -AUX_E_NOMEM;
		o->bytes = p;
		o->cap = cap;
	}
	o->n += etm_frame_put(&o->frame, id, bytes, n, o->bytes + o->n);
	o->full = o->n >= SOFT_BUF_SIZE;
	return 0;
}

static int take(void *ctx, const uint8_t *bytes, size_t n, bool stopped)
{
	struct soft_stream *st = ctx;
	struct soft *s = st->s;
	bool raw = s->config.etm.raw;
	uint8_t id = trace_id(cpu_of(st));

	(void)stopped;
	if (s->config.etm.shared)
		return add_shared(s, id, bytes, n);
	n = raw ? put_raw(s, bytes, n) : put_framed(s, id, bytes, n);
	return soft_stream_aux(st, s->out.scratch, n, raw ? AUX_FLAG_RAW : 0);
}

/* The CPU's trace ID, as the kernel tells it when an event starts there. */
static int put_hw_id(struct soft_stream *st)
{
	struct soft *s = st->s;
	struct {
		struct perf_event_header h;
		uint64_t hw_id;
		uint32_t pid, tid;
		uint64_t time;
		uint32_t cpu, zero;
		uint64_t id;
	} r = {
		.h = { .type = RECORD_HW_ID, .size = sizeof(r) },
		.hw_id = trace_id(cpu_of(st)),
		.pid = UINT32_MAX,
		.tid = UINT32_MAX,
		.time = soft_stamp(s, s->config.start_ns),
		.cpu = cpu_of(st),
		.id = s->config.event_id,
	};

	return writer_record(s->w, &r.h);
}

void soft_etm_open(struct soft_stream *st)
{
	struct soft *s = st->s;

	etm_encode_init(&st->etm, &s->etm, st->buf,
			s->etm.pieces ? PIECE_SIZE : SOFT_BUF_SIZE, take, st);
	st->etm.lost_seed = st->idx + 1;
	st->etm.tsc = st->etm.cc_tsc = s->config.start_ns;
	if (!s->out.scratch)
		s->out.scratch = malloc(etm_frame_room(SOFT_BUF_SIZE) +
					SINK_ALIGN);
	if (!s->out.scratch)
		st->etm.error = -AUX_E_NOMEM;
	soft_note(s, put_hw_id(st));
}

void soft_etm_flush(struct soft_stream *st)
{
	if (st->owner)
		soft_preempt(st->owner);
	etm_encode_flush(&st->etm);
	st->s->stats.n_injected += st->etm.n_injected;
	st->etm.n_injected = 0;
}

/* What is in a record ran before its end, and what is in the next one later. */
static void align_clocks(struct soft *s)
{
	uint64_t now = 0;
	uint32_t i;

	for (i = 0; i < s->n_streams; i++)
		if (s->streams[i] && s->streams[i]->etm.tsc > now)
			now = s->streams[i]->etm.tsc;
	for (i = 0; i < s->n_streams; i++)
		if (s->streams[i])
			s->streams[i]->etm.tsc = now;
}

/* After the CPUs' own flushes: all have stopped. */
void soft_etm_flush_shared(struct soft *s)
{
	struct soft_etm_out *o = &s->out;
	uint32_t i;

	if (!s->config.etm.shared || !o->n)
		return;
	align_clocks(s);
	o->n += etm_frame_end(&o->frame, o->bytes + o->n);
	o->n += etm_frame_pad(o->bytes + o->n,
			      SINK_ALIGN - o->n % SINK_ALIGN);
	if (!s->streams[0])
		s->streams[0] = soft_stream_new(s, 0);
	if (!s->streams[0])
		soft_note(s, -AUX_E_NOMEM);
	else
		soft_note(s, soft_stream_aux(s->streams[0], o->bytes, o->n, 0));
	for (i = 0; i < s->n_streams; i++)
		if (s->streams[i])
			s->streams[i]->etm.fresh = true;
	o->n = 0;
	o->full = false;
}

void soft_etm_out_fini(struct soft_etm_out *o)
{
	free(o->bytes);
	free(o->scratch);
}

static size_t put_block(const struct etm_encode_config *c, uint32_t cpu,
			uint64_t *p)
{
	const struct etm_regs r = etm_encode_regs(c);
	size_t n = AUX_CS_NR_PARAMS + 1;

	p[AUX_CS_MAGIC] = c->ete ? AUX_CS_MAGIC_ETE : AUX_CS_MAGIC_ETMV4;
	p[AUX_CS_CPU] = cpu;
	p[n++] = r.configr;
	p[n++] = trace_id(cpu);
	p[n++] = r.idr0;
	p[n++] = r.idr1;
	p[n++] = r.idr2;
	p[n++] = r.idr8;
	p[n++] = r.authstatus;
	if (c->ete)
		p[n++] = r.devarch;
	p[n++] = AUX_CS_TS_VIRTUAL;
	p[AUX_CS_NR_PARAMS] = n - (AUX_CS_NR_PARAMS + 1);
	return n;
}

int soft_etm_info(struct soft *s)
{
	uint32_t cpu, n_cpus = s->config.n_cpus;
	uint64_t *priv = calloc(AUX_CS_N_HEADER + (size_t)n_cpus * MAX_WORDS,
				sizeof(*priv));
	size_t n = AUX_CS_N_HEADER;
	int ret;

	if (!priv)
		return -AUX_E_NOMEM;
	priv[AUX_CS_VERSION] = 1;
	priv[AUX_CS_PMU_CPUS] = (uint64_t)s->config.pmu_type << 32 | n_cpus;
	for (cpu = 0; cpu < n_cpus; cpu++)
		n += put_block(&s->etm, cpu, priv + n);
	ret = synth_auxtrace_info(s->w, AUX_TRACE_CS_ETM, priv, (uint32_t)n);
	free(priv);
	return ret;
}
