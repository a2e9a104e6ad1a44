/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * csmeta: what AUXTRACE_INFO says of each CPU's trace source, see trace.h. The
 * words are perf's (perfdata/csmeta.h); what is in the ID of a
 * PERF_RECORD_AUX_OUTPUT_HW_ID is in linux/coresight-pmu.h (CS_AUX_HW_ID_*).
 * Every length in them is checked: the file may be damaged, or made to mislead.
 */
#include <stdlib.h>

#include "common/array.h"
#include "perfdata/csmeta.h"
#include "common/diag.h"

#include "decode/lib/sideband/sideband.h"
#include "decode/lib/trace/trace.h"

#define VERSION_MAX 2
#define IDS_MAX 16384	/* records; more than any machine has CPUs */

#define HW_ID_ID(v) ((unsigned)((v) & 0xff))
#define HW_ID_SINK(v) ((uint32_t)((v) >> 8))
#define HW_ID_MINOR(v) ((unsigned)((v) >> 56 & 15))
#define HW_ID_MAJOR(v) ((unsigned)((v) >> 60))

#define TRCCONFIGR_VMID 0x0080u
#define TRCCONFIGR_VMIDOPT 0x8000u
#define ETMIDR_MINOR_MAJOR(v) ((v) >> 4 & 0xff)	/* 0x2n: ETMv3, 0x3n: PTM */

static bool is_trace_id(uint64_t id)
{
	return id > 0 && id < 0x70;
}

/* The block's words from its number of words on; those it lacks are 0. */
struct block {
	const uint64_t *w;
	size_t n;
};

static uint64_t word(const struct block *b, unsigned i)
{
	return i < b->n ? b->w[i] : 0;
}

static uint32_t reg(const struct block *b, unsigned i)
{
	return (uint32_t)word(b, i);
}

/* perf's flag says that the id was made up. Files without id records come from
 * kernels that use just that one. */
static uint32_t id_of(const struct block *b, unsigned i)
{
	uint64_t id = word(b, i) & ~(uint64_t)AUX_CS_ID_UNUSED;

	return is_trace_id(id) ? (uint32_t)id : 0;
}

/* ETMv3 and PTM share a block; the major version in ETMIDR tells them apart. */
static void read_etmv3(struct csmeta_source *s, const struct block *b)
{
	struct aux_etm_config *e = &s->etm;

	e->etmcr = reg(b, AUX_CS_ETMV3_ETMCR);
	e->trace_id = id_of(b, AUX_CS_ETMV3_TRACEIDR);
	e->etmccer = reg(b, AUX_CS_ETMV3_ETMCCER);
	e->etmidr = reg(b, AUX_CS_ETMV3_ETMIDR);
	e->arch = ETMIDR_MINOR_MAJOR(e->etmidr) >= 0x30 ? AUX_ETM_PTM :
							  AUX_ETM_V3;
}

/* ETE's block begins like that of an ETMv4; only the words at its end differ.
 * With VMID tracing the kernel runs at EL2 and its CONTEXTIDR_EL2 carries the
 * pid. */
static void read_etmv4(struct csmeta_source *s, const struct block *b, bool ete)
{
	struct aux_etm_config *e = &s->etm;
	unsigned ts = ete ? AUX_CS_ETE_TS_SOURCE : AUX_CS_ETMV4_TS_SOURCE;

	e->arch = ete ? AUX_ETM_ETE : AUX_ETM_V4;
	e->trcconfigr = reg(b, AUX_CS_ETMV4_TRCCONFIGR);
	e->trace_id = id_of(b, AUX_CS_ETMV4_TRCTRACEIDR);
	e->trcidr0 = reg(b, AUX_CS_ETMV4_TRCIDR0);
	e->trcidr1 = reg(b, AUX_CS_ETMV4_TRCIDR1);
	e->trcidr2 = reg(b, AUX_CS_ETMV4_TRCIDR2);
	e->trcidr8 = reg(b, AUX_CS_ETMV4_TRCIDR8);
	e->trcauthstatus = reg(b, AUX_CS_ETMV4_TRCAUTHSTATUS);
	if (ete)
		e->trcdevarch = reg(b, AUX_CS_ETE_TRCDEVARCH);
	e->pid_in_vmid = !!(e->trcconfigr &
			    (TRCCONFIGR_VMID | TRCCONFIGR_VMIDOPT));
	e->ts_is_clock = word(b, ts) == AUX_CS_TS_VIRTUAL;
}

/* auxkit's own block: struct aux_etm_config by member, of which perf's blocks
 * lack some (ETMs of M cores, STM, ITM). */
static void read_own(struct csmeta_source *s, const struct block *b)
{
	s->own = true;
	s->etm = (struct aux_etm_config){
		.arch = reg(b, AUX_CS_OWN_ARCH),
		.trace_id = id_of(b, AUX_CS_OWN_TRACE_ID),
		.core_version = reg(b, AUX_CS_OWN_CORE_VERSION),
		.core_profile = (char)word(b, AUX_CS_OWN_CORE_PROFILE),
		.pid_in_vmid = !!word(b, AUX_CS_OWN_PID_IN_VMID),
		.ts_is_clock = !!word(b, AUX_CS_OWN_TS_IS_CLOCK),
		.trcconfigr = reg(b, AUX_CS_OWN_TRCCONFIGR),
		.trcidr0 = reg(b, AUX_CS_OWN_TRCIDR0),
		.trcidr1 = reg(b, AUX_CS_OWN_TRCIDR1),
		.trcidr2 = reg(b, AUX_CS_OWN_TRCIDR2),
		.trcidr8 = reg(b, AUX_CS_OWN_TRCIDR8),
		.trcidr9 = reg(b, AUX_CS_OWN_TRCIDR9),
		.trcidr10 = reg(b, AUX_CS_OWN_TRCIDR10),
		.trcidr11 = reg(b, AUX_CS_OWN_TRCIDR11),
		.trcidr12 = reg(b, AUX_CS_OWN_TRCIDR12),
		.trcidr13 = reg(b, AUX_CS_OWN_TRCIDR13),
		.trcdevarch = reg(b, AUX_CS_OWN_TRCDEVARCH),
		.trcauthstatus = reg(b, AUX_CS_OWN_TRCAUTHSTATUS),
		.etmcr = reg(b, AUX_CS_OWN_ETMCR),
		.etmidr = reg(b, AUX_CS_OWN_ETMIDR),
		.etmccer = reg(b, AUX_CS_OWN_ETMCCER),
		.stmtcsr = reg(b, AUX_CS_OWN_STMTCSR),
		.stmfeat1r = reg(b, AUX_CS_OWN_STMFEAT1R),
		.stmfeat3r = reg(b, AUX_CS_OWN_STMFEAT3R),
		.stmdevid = reg(b, AUX_CS_OWN_STMDEVID),
		.itmtcr = reg(b, AUX_CS_OWN_ITMTCR),
	};
}

/* How many words a block of version 0 has after its CPU; 0: an unknown kind. */
static size_t old_length(uint64_t magic)
{
	switch (magic) {
	case AUX_CS_MAGIC_ETMV3:
		return AUX_CS_ETMV3_N;
	case AUX_CS_MAGIC_ETMV4:
		return AUX_CS_ETMV4_TRCAUTHSTATUS + 1;
	}
	return 0;
}

static void read_block(struct csmeta *m, uint64_t magic, uint64_t cpu,
		       const struct block *b)
{
	struct csmeta_source *s = &m->sources[m->n_sources];

	*s = (struct csmeta_source){ .cpu = (int32_t)(uint32_t)cpu };
	if (magic == AUX_CS_MAGIC_ETMV3)
		read_etmv3(s, b);
	else if (magic == AUX_CS_MAGIC_ETMV4 || magic == AUX_CS_MAGIC_ETE)
		read_etmv4(s, b, magic == AUX_CS_MAGIC_ETE);
	else if (magic == AUX_CS_MAGIC_OWN)
		read_own(s, b);
	else
		return;	/* a kind to come: its trace becomes a GAP, whose cause
			 * is that the id is unknown */
	m->n_sources++;
}

/*
 * Reads the block at words[at]; returns its length in words, or an error with
 * diag. From version 1 on a block says how many words it has (NR_TRC_PARAMS),
 * so that a later perf may append some; in version 0 the kind decides, and an
 * unknown one ends the reading.
 */
static int64_t take_block(struct csmeta *m, const uint64_t *words, size_t n,
			  size_t at, struct aux_diag *diag)
{
	size_t head = AUX_CS_NR_PARAMS;
	uint64_t magic, len;

	if (n - at < head + 1)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"AUXTRACE_INFO of cs_etm: word %zu: the block "
				"of a source begins here, and %zu words are "
				"left", at, n - at);
	magic = words[at + AUX_CS_MAGIC];
	if (words[at + AUX_CS_CPU] > INT32_MAX &&
	    words[at + AUX_CS_CPU] != UINT64_MAX)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"AUXTRACE_INFO of cs_etm: word %zu: %#llx is "
				"no CPU", at + AUX_CS_CPU,
				(unsigned long long)words[at + AUX_CS_CPU]);
	len = old_length(magic);
	if (m->version || magic == AUX_CS_MAGIC_OWN)
		len = words[at + head++];
	else if (!len)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"AUXTRACE_INFO of cs_etm: word %zu: %#llx is "
				"no kind of source", at,
				(unsigned long long)magic);
	if (len > n - at - head)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"AUXTRACE_INFO of cs_etm: word %zu: a source "
				"has %llu words, and %zu are left",
				at + AUX_CS_NR_PARAMS, (unsigned long long)len,
				n - at - head);
	read_block(m, magic, words[at + AUX_CS_CPU],
		   &(struct block){ words + at + head, (size_t)len });
	return (int64_t)(head + len);
}

int csmeta_read(struct csmeta *m, const uint64_t *words, size_t n,
		struct aux_diag *diag)
{
	size_t at = AUX_CS_N_HEADER;
	uint32_t n_blocks;
	int64_t len;

	if (n < AUX_CS_N_HEADER)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"AUXTRACE_INFO of cs_etm has %zu words, at "
				"least 3 are needed", n);
	if (words[AUX_CS_VERSION] > VERSION_MAX)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"AUXTRACE_INFO of cs_etm: word 0: version "
				"%#llx; this build knows 0 to %u",
				(unsigned long long)words[AUX_CS_VERSION],
				VERSION_MAX);
	m->version = (uint32_t)words[AUX_CS_VERSION];
	m->pmu_type = (uint32_t)(words[AUX_CS_PMU_CPUS] >> 32);
	n_blocks = (uint32_t)words[AUX_CS_PMU_CPUS];
	m->snapshot = words[AUX_CS_SNAPSHOT];
	/* no block is shorter: a bound for damaged counts */
	m->sources = calloc(n / AUX_CS_NR_PARAMS, sizeof(*m->sources));
	if (!m->sources)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	for (uint32_t i = 0; i < n_blocks; i++) {
		len = take_block(m, words, n, at, diag);
		if (len < 0)
			return (int)len;
		at += (size_t)len;
	}
	return 0;
}

/* Each event reports the ids of its CPUs, so that records repeat; equal ones
 * are kept once. */
int csmeta_add_id(struct csmeta *m, uint64_t hw_id, uint32_t cpu,
		  struct aux_diag *diag)
{
	struct csmeta_hw_id h = { .cpu = cpu, .id = (uint8_t)HW_ID_ID(hw_id),
				  .has_sink = HW_ID_MINOR(hw_id) > 0 };

	if (HW_ID_MAJOR(hw_id))
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"AUX_OUTPUT_HW_ID %#llx is of version %u, this "
				"build knows 0", (unsigned long long)hw_id,
				HW_ID_MAJOR(hw_id));
	if (!is_trace_id(h.id))
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"AUX_OUTPUT_HW_ID %#llx: %#x is no trace id",
				(unsigned long long)hw_id, h.id);
	if (h.has_sink)
		h.sink = HW_ID_SINK(hw_id);
	for (size_t i = 0; i < m->n_ids; i++) {
		const struct csmeta_hw_id *o = &m->ids[i];

		if (o->cpu == h.cpu && o->id == h.id && o->sink == h.sink &&
		    o->has_sink == h.has_sink)
			return 0;
	}
	if (m->n_ids == IDS_MAX)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"AUX_OUTPUT_HW_ID: more than %u trace ids",
				IDS_MAX);
	if (array_grow(&m->ids, m->n_ids, &m->cap_ids, sizeof(h)) < 0)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	m->ids[m->n_ids++] = h;
	return 0;
}

void csmeta_fini(struct csmeta *m)
{
	free(m->sources);
	free(m->ids);
	*m = (struct csmeta){ 0 };
}

/* The block of a CPU; NULL: none. */
static const struct csmeta_source *block_of_cpu(const struct csmeta *m,
						uint32_t cpu)
{
	for (size_t i = 0; i < m->n_sources; i++)
		if (m->sources[i].cpu >= 0 &&
		    (uint32_t)m->sources[i].cpu == cpu)
			return &m->sources[i];
	return NULL;
}

/* Where a CPU's trace goes; NULL: the file does not say. */
static const struct csmeta_hw_id *sink_of(const struct csmeta *m, int32_t cpu)
{
	for (size_t i = 0; i < m->n_ids && cpu >= 0; i++)
		if (m->ids[i].has_sink && m->ids[i].cpu == (uint32_t)cpu)
			return &m->ids[i];
	return NULL;
}

/*
 * The source of an id by the records. From minor version 1 of them on ids are
 * unique for each sink only (has_sink), so records of another sink than the
 * stream's do not count. The stream's own CPU has precedence; two other CPUs
 * with one id are a contradiction, and give NULL.
 */
static const struct csmeta_source *find_told(const struct csmeta *m,
					     int32_t queue_cpu, unsigned id)
{
	const struct csmeta_hw_id *sink = sink_of(m, queue_cpu), *found = NULL;
	bool clash = false;

	for (size_t i = 0; i < m->n_ids; i++) {
		const struct csmeta_hw_id *h = &m->ids[i];

		if (h->id != id || (sink && h->has_sink &&
				    h->sink != sink->sink))
			continue;
		if (queue_cpu >= 0 && h->cpu == (uint32_t)queue_cpu)
			return block_of_cpu(m, h->cpu);
		clash |= found && found->cpu != h->cpu;
		found = h;
	}
	return found && !clash ? block_of_cpu(m, found->cpu) : NULL;
}

/* Blocks first: without id records they are all there is, and auxkit's own are
 * always right. With records, perf's ids in them are made up
 * (AUX_CS_ID_UNUSED). */
const struct csmeta_source *csmeta_find_id(const struct csmeta *m,
					   int32_t queue_cpu, unsigned id)
{
	const struct csmeta_source *found = NULL;
	bool clash = false;

	if (!is_trace_id(id))
		return NULL;
	for (size_t i = 0; i < m->n_sources; i++) {
		const struct csmeta_source *s = &m->sources[i];

		if (s->etm.trace_id != id || (m->n_ids && !s->own))
			continue;
		if (queue_cpu >= 0 && s->cpu == queue_cpu)
			return s;
		clash |= found != NULL;
		found = s;
	}
	if (found || !m->n_ids)
		return clash ? NULL : found;
	return find_told(m, queue_cpu, id);
}

/* A CPU without a block: where there is one source only, it can be no other. */
const struct csmeta_source *csmeta_find_cpu(const struct csmeta *m, int32_t cpu)
{
	const struct csmeta_source *s = NULL;

	if (cpu >= 0)
		s = block_of_cpu(m, (uint32_t)cpu);
	return !s && m->n_sources == 1 ? &m->sources[0] : s;
}
