/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: opening a recording, and everything that is built from it once: the
 * timeline of the side-band, the view of the code, the streams of trace. All of
 * it is finished before the first chunk is decoded, and only read from then on,
 * so that any thread may decode any chunk in any order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/lib/import/import.h"
#include "decode/lib/session/decoders.h"
#include "decode/lib/session/impl.h"
#include "perfdata/perfdata.h"

/* For the mappings, however low the limit: tens of thousands. */
#define TABLES_MEMORY ((uint64_t)16 << 20)

/*
 * ---- what a decoder has to know of the recording: the PMU's settings, the CPU model
 * (errata), the clock; and what the recorder's ledger says was lost ----
 */

/* Parses one number of a CPUID string, after its separator; NULL: there is
 * none. In perf's newer form ("GenuineIntel-6-9E-A") all but the family are
 * hexadecimal. */
static const char *next_number(const char *s, unsigned *value)
{
	char *end;
	unsigned long v;

	if (!s || !*s)
		return NULL;
	v = strtoul(s + 1, &end, *s == '-' && *value ? 16 : 10);
	if (end == s + 1 || v > UINT16_MAX)
		return NULL;
	*value = (unsigned)v;
	return end;
}

/* "GenuineIntel,6,158,10", as perf's feature section has it. */
static void read_cpuid(struct aux_pt_config *pt, const char *cpuid)
{
	static const char vendor[] = "GenuineIntel";
	unsigned family = 0, model = 1, stepping = 1;
	const char *s;

	if (!cpuid || strncmp(cpuid, vendor, sizeof(vendor) - 1))
		return;
	s = next_number(cpuid + sizeof(vendor) - 1, &family);
	s = next_number(s, &model);
	if (!s || family > UINT16_MAX || model > UINT8_MAX)
		return;
	if (!next_number(s, &stepping) || stepping > UINT8_MAX)
		stepping = 0;
	pt->cpu_intel = 1;
	pt->cpu_family = (uint16_t)family;
	pt->cpu_model = (uint8_t)model;
	pt->cpu_stepping = (uint8_t)stepping;
}

static const struct aux_attr *find_attr(const struct session *s,
					uint32_t pmu_type)
{
	const struct aux_attr *a;

	for (size_t i = 0; (a = aux_reader_attr(s->reader, i)); i++) {
		if (a->attr.type == pmu_type)
			return a;
	}
	return NULL;
}

/* Fills in Intel PT's part from the words of AUXTRACE_INFO (aux/perfdata.h),
 * which have the bits of attr.config as the kernel's sysfs described them. */
static void read_pt(struct session *s)
{
	struct aux_pt_config *pt = &s->dec_config.pt;
	const uint64_t *p = s->chunks.metadata;
	uint32_t n = s->chunks.n_metadata;
	const char *source = aux_reader_source(s->reader, "source");
	const struct aux_attr *a;

	/* A software-made trace has the errata of no CPU. */
	if (!source || strcmp(source, "soft_pt"))
		read_cpuid(pt, aux_reader_info(s->reader)->cpuid);
	if (n <= AUX_PT_PER_CPU_MMAPS)
		return;
	a = find_attr(s, (uint32_t)p[AUX_PT_PMU_TYPE]);
	pt->attr_config = a ? a->attr.config : 0;
	s->timed = s->dec_config.clock.mult &&
		   (!a || pt->attr_config & p[AUX_PT_TSC_BIT]);
	if (n > AUX_PT_MTC_FREQ_BITS && p[AUX_PT_MTC_FREQ_BITS]) {
		uint64_t mask = p[AUX_PT_MTC_FREQ_BITS];

		pt->mtc_period = (uint32_t)((pt->attr_config & mask) >>
					    __builtin_ctzll(mask)) &
				 15;
	}
	if (n > AUX_PT_TSC_CTC_D) {
		pt->tsc_ctc_ratio_n = (uint32_t)p[AUX_PT_TSC_CTC_N];
		pt->tsc_ctc_ratio_d = (uint32_t)p[AUX_PT_TSC_CTC_D];
	}
	if (n > AUX_PT_MAX_NONTURBO_RATIO &&
	    p[AUX_PT_MAX_NONTURBO_RATIO] <= UINT8_MAX)
		pt->max_nonturbo_ratio = (uint32_t)p[AUX_PT_MAX_NONTURBO_RATIO];
}

/* What the user says of the CPU wins over what the recording says. */
static int set_model(struct aux_pt_config *pt, const char *arg,
		     struct aux_diag *diag)
{
	unsigned model[3];
	int rc = import_cpu_model(arg, model, diag);

	if (rc < 0)
		return rc;
	pt->cpu_intel = 1;
	pt->cpu_family = (uint16_t)model[0];
	pt->cpu_model = (uint8_t)model[1];
	pt->cpu_stepping = (uint8_t)model[2];
	return 0;
}

static int find_config(struct session *s, struct aux_diag *diag)
{
	const struct import_options *im = s->config.import;
	struct aux_decoder_config *c = &s->dec_config;

	c->size = sizeof(*c);
	c->clock = *timeline_clock(s->timeline);
	c->metadata = s->chunks.metadata;
	c->n_metadata = s->chunks.n_metadata;
	s->timed = c->clock.mult;
	if (s->chunks.trace_type == AUX_TRACE_INTEL_PT)
		read_pt(s);
	return im && im->cpu_model ? set_model(&c->pt, im->cpu_model, diag) : 0;
}

bool session_lacks_model(const struct session *s)
{
	const char *source = aux_reader_source(s->reader, "source");

	return s->chunks.trace_type == AUX_TRACE_INTEL_PT &&
	       !s->dec_config.pt.cpu_intel &&
	       (!source || strcmp(source, "soft_pt"));
}

/* Only causes with a text for the verdict are losses; a throttled event lost no
 * trace. */
static void sum_losses(struct session *s)
{
	for (uint32_t i = 0; i < s->losses.n; i++) {
		const struct aux_ledger_entry *e = &s->losses.e[i];
		const struct loss_text *t = losses_text(e->cause);

		if (t && !t->verdict)
			continue;
		if (t && t->bytes && e->cause != AUX_LEDGER_THROTTLED)
			s->ledger_lost += e->bytes;
		s->ledger_events += e->n ? e->n : e->bytes;
	}
	if (s->losses.bad)
		s->ledger_events++;
}

/* ---- opening ---- */

static int keep_string(char **copy, const char *s)
{
	*copy = s ? strdup(s) : NULL;
	return s && !*copy ? -AUX_E_NOMEM : 0;
}

/* A stream of all the bytes that an AUX queue has. */
static struct stream stream_of(const struct queue *q)
{
	return (struct stream){
		.idx = q->idx, .queue = q->idx, .cpu = q->cpu, .tid = q->tid,
		.n_bytes = q->n_bytes, .n_pieces = (uint32_t)q->n_pieces,
		.q = q,
	};
}

/* What is decoded alone: of Intel PT an AUX stream, of CoreSight each trace ID
 * in one (raw: each CPU), for the sources of an ETR write into one buffer. */
static int make_streams(struct session *s)
{
	struct chunks *c = &s->chunks;
	bool cs = c->trace_type == AUX_TRACE_CS_ETM;

	if (chunks_find_sources(c) < 0)
		return -AUX_E_NOMEM;
	s->n_streams = cs ? c->n_sources : c->n;
	s->streams = calloc(s->n_streams + 1, sizeof(*s->streams));
	s->spans = calloc(s->n_streams + 1, sizeof(*s->spans));
	if (!s->streams || !s->spans)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < s->n_streams; i++) {
		s->spans[i].end.segment = SIZE_MAX;	/* all */
		if (!cs) {
			s->streams[i] = stream_of(&c->queues[i]);
			continue;
		}
		s->streams[i] = stream_of(&c->queues[c->sources[i].queue]);
		s->streams[i].idx = (uint32_t)i;
		s->streams[i].source = &c->sources[i];
	}
	return 0;
}

/* The code view. A directory that `perf record --kcore` made has a copy of the
 * kernel's memory beside the records. */
static int open_code(struct session *s, const struct session_config *config,
		     struct aux_diag *diag)
{
	struct codeview_config code = config->code;
	char *kcore = code.kcore || config->data ? NULL :
		      import_kcore(config->path);
	int rc;

	if (kcore)
		code.kcore = kcore;
	rc = codeview_new(&s->codeview, s->reader, &code, diag);
	free(kcore);
	return rc;
}

/* Does nothing where there is no index that fits. */
static int use_index(struct session *s, const struct session_config *config)
{
	char *path = NULL;
	int rc;

	if (config->data || aux_reader_info(s->reader)->container)
		return 0;
	if (!config->index && asprintf(&path, "%s" SESSION_INDEX, config->path) < 0)
		return -AUX_E_NOMEM;
	rc = reader_index_use(s->reader, config->index ? config->index : path);
	free(path);
	return rc < 0 ? rc : 0;
}

/* In the order in which one needs the other: records, who ran, code, trace,
 * losses. On an error session_close frees what there is. */
static int open_parts(struct session *s, const struct session_config *config,
		      struct aux_diag *diag)
{
	const struct saved_code *code;
	uint64_t limit = session_limit(s), left;
	int rc;

	if (keep_string(&s->path, config->path) < 0 ||
	    keep_string(&s->decoder, config->decoder) < 0)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	if (config->plugin) {
		rc = decoders_load(&s->plugin_handle, config->plugin,
				  &s->plugin_ops, diag);
		if (rc < 0)
			return rc;
	}
	rc = config->data ? aux_reader_open_mem(&s->reader, config->data,
						config->n_data, config->path,
						diag) :
			    import_open(&s->reader, config->path,
					config->import, diag);
	if (rc >= 0)
		rc = use_index(s, config);
	if (rc < 0)
		return rc;
	if (limit < TABLES_MEMORY)
		limit = TABLES_MEMORY;
	rc = timeline_new(&s->timeline, s->reader, limit, diag);
	if (rc < 0)
		return rc;
	rc = open_code(s, config, diag);
	if (rc < 0)
		return rc;
	for (size_t i = 0; (code = timeline_saved(s->timeline, i)); i++)
		codeview_save(s->codeview, code);
	left = limit - timeline_memory(s->timeline);
	rc = chunks_read(&s->chunks, s->reader, config->snapshot,
				left < TABLES_MEMORY ? TABLES_MEMORY : left, diag);
	if (rc < 0)
		return rc;
	if (make_streams(s) < 0 ||
	    losses_read(&s->losses, s->reader, &s->chunks) < 0)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	rc = find_config(s, diag);
	if (rc < 0)
		return rc;
	sum_losses(s);
	return session_find_last(s, diag);
}

int session_open(struct session **sp, const struct session_config *config,
		 struct aux_diag *diag)
{
	struct session *s = calloc(1, sizeof(*s));
	int rc;

	*sp = NULL;
	if (!s)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	pthread_mutex_init(&s->open_lock, NULL);
	s->config = *config;
	rc = open_parts(s, config, diag);
	if (rc < 0)
		session_close(s);
	else
		*sp = s;
	return rc;
}

void session_close(struct session *s)
{
	if (!s)
		return;
	chunks_fini(&s->chunks);
	losses_fini(&s->losses);
	codeview_free(s->codeview);
	timeline_free(s->timeline);
	aux_reader_close(s->reader);
	decoders_unload(s->plugin_handle);
	pthread_mutex_destroy(&s->open_lock);
	free(s->streams);
	free(s->spans);
	free(s->path);
	free(s->decoder);
	free(s->plugin);
	free(s);
}

struct aux_reader *session_reader(const struct session *s)
{
	return s->reader;
}

const struct timeline *session_timeline(const struct session *s)
{
	return s->timeline;
}

struct codeview *session_codeview(const struct session *s)
{
	return s->codeview;
}

const struct losses *session_losses(const struct session *s)
{
	return &s->losses;
}

const struct chunks *session_chunks(const struct session *s)
{
	return &s->chunks;
}

/* With CYC each packet has its time, and how far apart those are depends on the
 * code. */
uint64_t session_resolution(const struct session *s)
{
	const struct aux_pt_config *pt = &s->dec_config.pt;
	const struct aux_clock *clock = &s->dec_config.clock;
	const uint64_t *p = s->chunks.metadata;

	if (!s->timed || s->chunks.trace_type != AUX_TRACE_INTEL_PT ||
	    s->chunks.n_metadata <= AUX_PT_CYC_BIT || !pt->tsc_ctc_ratio_d ||
	    clock->shift > 63 || !(pt->attr_config & p[AUX_PT_MTC_BIT]) ||
	    pt->attr_config & p[AUX_PT_CYC_BIT])
		return 0;
	return (uint64_t)(((unsigned __int128)pt->tsc_ctc_ratio_n <<
			   pt->mtc_period) / pt->tsc_ctc_ratio_d *
			  clock->mult >> clock->shift);
}

/* ETMv4: TRCCONFIGR.CCI; ETMv3, PTM: ETMCR.CycleAccurate. */
static bool source_counts(const struct aux_etm_config *etm)
{
	return etm->trcconfigr >> 4 & 1 || etm->etmcr >> 12 & 1;
}

bool session_counts_cycles(const struct session *s)
{
	const struct aux_pt_config *pt = &s->dec_config.pt;

	if (s->chunks.trace_type == AUX_TRACE_INTEL_PT)
		return s->chunks.n_metadata <= AUX_PT_CYC_BIT ||
		       pt->attr_config & s->chunks.metadata[AUX_PT_CYC_BIT];
	for (size_t i = 0; i < s->n_streams; i++)
		if (s->streams[i].source && s->streams[i].source->meta &&
		    source_counts(&s->streams[i].source->meta->etm))
			return true;
	return false;
}

bool session_is_timed(const struct session *s)
{
	return s->timed;
}

const struct aux_decoder_ops *session_plugin(const struct session *s)
{
	return s->plugin_ops;
}

void session_select_tid(struct session *s, int64_t tid)
{
	s->config.tid = tid;
}

void session_select_time(struct session *s, uint64_t from, uint64_t to)
{
	s->config.time_from = from;
	s->config.time_to = to;
}

const struct stream *session_stream(const struct session *s, size_t i)
{
	return i < s->n_streams ? &s->streams[i] : NULL;
}

/* ---- what a sink asks ---- */

/* Where only some threads or times are shown, what is at a cut may not be
 * shown at all: such parts have no open ends. */
static bool host_part(void *priv, size_t i, struct sink_part *part)
{
	const struct session *s = priv;
	const struct session_config *c = &s->config;
	const struct chunk_span *span;

	if (i >= s->n_streams)
		return false;
	*part = (struct sink_part){ .stream = s->streams[i].idx };
	if (!c->chunks || s->streams[i].source || c->tid >= 0 || c->n_pids ||
	    c->n_comms || c->time_from ||
	    c->time_to != UINT64_MAX)
		return true;
	span = &s->spans[i];
	part->comes_from = span->first.cut.continues;
	part->from_at = span->first.cut.at;
	part->goes_on = span->end.segment != SIZE_MAX && span->end.cut.continues;
	part->to_at = span->end.cut.at;
	part->to_ip = span->end.cut.end_ip;
	return true;
}

static const struct space *host_space(void *priv, uint32_t pid, uint64_t time)
{
	struct session *s = priv;

	return codeview_space(s->codeview, s->timeline, pid, time);
}

static uint64_t host_identity(void *priv)
{
	return session_identity(priv);
}

static int host_code(void *priv, const struct space *space, uint64_t ip,
		     struct aux_code *code)
{
	return codeview_code(session_codeview(priv), space, ip, code);
}

static int host_symbol(void *priv, const struct space *space, uint64_t ip,
		       struct symbol *sym)
{
	return codeview_symbol(session_codeview(priv), space, ip, sym);
}

static const char *host_comm(void *priv, uint32_t tid, uint64_t time)
{
	return timeline_comm(session_timeline(priv), tid, time);
}

static const char *host_cgroup(void *priv, uint32_t tid, uint64_t time)
{
	return timeline_cgroup(session_timeline(priv), tid, time);
}

static bool host_off_cpu(void *priv, uint32_t tid, uint64_t from, uint64_t to,
			 struct off_span *span)
{
	return timeline_off_cpu(session_timeline(priv), tid, from, to, span);
}

static int host_line(void *priv, const struct space *space, uint64_t ip,
		     struct source_line *line)
{
	return codeview_line(session_codeview(priv), space, ip, line);
}

static int host_inlines(void *priv, const struct space *space, uint64_t ip,
			struct inline_frame *frames, size_t max)
{
	return codeview_inlines(session_codeview(priv), space, ip, frames, max);
}

static int host_image(void *priv, const struct space *space, uint64_t ip,
		      struct elfimage **im, uint64_t *offset)
{
	return codeview_image(session_codeview(priv), space, ip, im, offset);
}

static bool host_counts_cycles(void *priv)
{
	return session_counts_cycles(priv);
}

struct sink_host session_host(struct session *s)
{
	return (struct sink_host){
		.priv = s,
		.code = host_code,
		.symbol = host_symbol,
		.comm = host_comm,
		.cgroup = host_cgroup,
		.off_cpu = timeline_knows_off_cpu(session_timeline(s)) ?
				   host_off_cpu : NULL,
		.part = host_part,
		.counts_cycles = host_counts_cycles,
		.space = host_space,
		.identity = host_identity,
		.line = host_line,
		.inlines = host_inlines,
		.image = host_image,
	};
}
