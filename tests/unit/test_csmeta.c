/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * csmeta: AUXTRACE_INFO of every version, trace ids from records, wrong or missing words;
 * and the metadata of recorded files compared with what perf prints.
 */
#include <stdlib.h>

#include <aux/reader.h>
#include "perfdata/csmeta.h"

#include "decode/lib/trace/trace.h"
#include "tests/unit/tap.h"

#define V3 AUX_CS_MAGIC_ETMV3
#define V4 AUX_CS_MAGIC_ETMV4
#define ETE AUX_CS_MAGIC_ETE
#define N(a) (sizeof(a) / sizeof((a)[0]))

static struct aux_diag diag;

static int take(struct csmeta *m, const uint64_t *words, size_t n)
{
	*m = (struct csmeta){ 0 };
	diag = (struct aux_diag){ 0 };
	return csmeta_read(m, words, n, &diag);
}

static void test_version_0(void)
{
	static const uint64_t w[] = {
		0, (uint64_t)8 << 32 | 3, 1,
		V4, 0, 0x41, 0x10, 0x28000ea1, 0x4100f403, 0x488, 0x99, 0xcc,
		V3, 1, 0xc40, 0x12, 0x9ba, 0x4104f230,
		V3, 2, 0xd40, 0x14, 0x9bb, 0x4114f310,
	};
	const struct csmeta_source *s;
	struct csmeta m;

	ok(take(&m, w, N(w)) == 0 && m.n_sources == 3, "version 0");
	ok(m.pmu_type == 8 && m.snapshot, "the PMU's type, snapshot mode");
	s = &m.sources[0];
	ok(s->etm.arch == AUX_ETM_V4 && s->etm.trcconfigr == 0x41 &&
	   s->etm.trace_id == 0x10 && s->etm.trcidr0 == 0x28000ea1 &&
	   s->etm.trcidr1 == 0x4100f403 && s->etm.trcidr2 == 0x488 &&
	   s->etm.trcidr8 == 0x99 && s->etm.trcauthstatus == 0xcc,
	   "registers of an ETMv4");
	ok(!s->etm.pid_in_vmid && !s->etm.ts_is_clock, "its context id");
	s = &m.sources[1];
	ok(s->cpu == 1 && s->etm.arch == AUX_ETM_V3 &&
	   s->etm.etmcr == 0xc40 && s->etm.etmccer == 0x9ba &&
	   s->etm.etmidr == 0x4104f230, "registers of an ETMv3");
	is_u64(m.sources[2].etm.arch, AUX_ETM_PTM, "a PTM by its ETMIDR");
	ok(csmeta_find_id(&m, 0, 0x14) == &m.sources[2] &&
	   !csmeta_find_id(&m, 0, 0x15) && !csmeta_find_id(&m, 0, 0),
	   "who has an id");
	csmeta_fini(&m);
}

static void test_version_1(void)
{
	static const uint64_t w[] = {
		1, 3, 0,
		ETE, 4, 8, 0x8080, 0x10, 1, 2, 3, 4, 5, 0x47715a13,
		ETE, 5, 9, 0x40, 0x12, 1, 2, 3, 4, 5, 0x47715a13, 1,
		V4, 6, 10, 0x80, 0x14, 1, 2, 3, 4, 5, UINT64_MAX, 77, 78,
	};
	struct csmeta m;

	ok(take(&m, w, N(w)) == 0 && m.n_sources == 3, "version 1");
	ok(m.sources[0].etm.arch == AUX_ETM_ETE &&
	   m.sources[0].etm.trcdevarch == 0x47715a13 &&
	   m.sources[0].etm.pid_in_vmid, "an ETE, the pid as its VMID");
	ok(m.sources[1].etm.ts_is_clock && !m.sources[1].etm.pid_in_vmid,
	   "virtual timestamps are of the clock");
	ok(m.sources[2].cpu == 6 && !m.sources[2].etm.ts_is_clock &&
	   m.sources[2].etm.pid_in_vmid,
	   "words behind the known ones are skipped");
	ok(csmeta_find_cpu(&m, 5) == &m.sources[1] && !csmeta_find_cpu(&m, 7),
	   "raw trace by CPU");
	csmeta_fini(&m);
}

/* A kind to come, few words, and auxkit's own. */
static void test_kinds(void)
{
	uint64_t w[3 + 5 + 5 + 3 + AUX_CS_OWN_N] = {
		2, 3, 0, 0x6060606060606060, 0, 2, 1, 2,
		V4, 1, 2, 0x41, 0x80000010, AUX_CS_MAGIC_OWN, UINT64_MAX,
		AUX_CS_OWN_N,
	};
	const struct aux_etm_config *e;
	struct csmeta m;

	for (unsigned i = 0; i < AUX_CS_OWN_N; i++)
		w[16 + i] = i + 1;
	ok(take(&m, w, N(w)) == 0 && m.n_sources == 2,
	   "a kind to come is skipped");
	ok(m.sources[0].etm.trace_id == 0x10 && !m.sources[0].etm.trcidr1,
	   "words that are missing are 0");
	e = &m.sources[1].etm;
	ok(m.sources[1].own && m.sources[1].cpu == -1 && e->arch == 1 &&
	   e->trace_id == 2 && e->core_version == 3 && e->core_profile == 4 &&
	   e->pid_in_vmid && e->ts_is_clock && e->trcconfigr == 7 &&
	   e->trcidr0 == 8 && e->trcidr8 == 11 && e->trcidr13 == 16 &&
	   e->trcdevarch == 17 && e->etmcr == 19 && e->etmccer == 21 &&
	   e->stmtcsr == 22 && e->stmdevid == 25 && e->itmtcr == 26,
	   "auxkit's own block");
	ok(csmeta_find_id(&m, -1, 2) == &m.sources[1], "and its id");
	csmeta_fini(&m);
}

/* Each is refused, with the word's number; what came before stands. */
static void test_bad(void)
{
	static const struct {
		size_t n;
		uint64_t w[16];
		const char *text;
		size_t n_sources;
	} bad[] = { /* table */
		{ 2, { 0, 1 }, "has 2 words", 0 },
		{ 3, { 3, 0, 0 }, "word 0: version 0x3", 0 },
		{ 3, { (uint64_t)1 << 32 }, "word 0: version", 0 },
		{ 3, { 1, 1, 0 }, "word 3: the block of a source", 0 },
		{ 5, { 1, 1, 0, V4, 0 }, "word 3: the block", 0 },
		{ 6, { 1, 1, 0, V4, 0x80000000, 0 }, "word 4: 0x80000000", 0 },
		{ 8, { 1, 1, 0, V4, 0, 3, 1, 2 }, "word 5: a source has 3", 0 },
		{ 8, { 1, 1, 0, V4, 0, UINT64_MAX }, "word 5: a source", 0 },
		{ 6, { 0, 1, 0, ETE, 0, 0 }, "word 3: 0x5050505050505050", 0 },
		{ 8, { 0, 1, 0, V3, 0, 1, 2, 3 }, "word 5: a source has 4", 0 },
		{ 12, { 0, 2, 0, V3, 0, 1, 2, 3, 4, 9, 9, 9 },
		  "word 9: 0x9 is no kind", 1 },
		{ 8, { 1, UINT32_MAX, 0, V3, 0, 0, V3, 0 }, "word 6", 1 },
	};
	struct csmeta m;

	for (size_t i = 0; i < N(bad); i++) {
		ok(take(&m, bad[i].w, bad[i].n) < 0 &&
		   strstr(diag.text, bad[i].text) &&
		   m.n_sources == bad[i].n_sources, "%s", bad[i].text);
		csmeta_fini(&m);
	}
}

static void test_hw_ids(void)
{
	static const uint64_t w[] = {
		2, 3, 0, V4, 0, 2, 0, 0x30, V4, 1, 2, 0, 0x31,
		V4, 2, 2, 0, 0x32,
	};
	uint64_t minor = (uint64_t)1 << 56;
	struct csmeta m;

	take(&m, w, N(w));
	ok(csmeta_add_id(&m, 0x20, 0, &diag) == 0 &&
	   csmeta_add_id(&m, 0x20, 0, &diag) == 0 && m.n_ids == 1,
	   "an id that is told again");
	ok(csmeta_find_id(&m, 1, 0x20) == &m.sources[0],
	   "without a sink it holds for all streams");
	ok(!csmeta_find_id(&m, 1, 0x31), "and the blocks' ids for none");
	csmeta_add_id(&m, 0x20, 2, &diag);
	ok(csmeta_find_id(&m, 2, 0x20) == &m.sources[2] &&
	   !csmeta_find_id(&m, 1, 0x20) && !csmeta_find_id(&m, -1, 0x20),
	   "an id of two CPUs is only clear where one of them is");
	csmeta_add_id(&m, minor | 5 << 8 | 0x21, 0, &diag);
	csmeta_add_id(&m, minor | 5 << 8 | 0x22, 1, &diag);
	csmeta_add_id(&m, minor | 6 << 8 | 0x22, 2, &diag);
	ok(csmeta_find_id(&m, 0, 0x22) == &m.sources[1] &&
	   csmeta_find_id(&m, 2, 0x22) == &m.sources[2] &&
	   !csmeta_find_id(&m, -1, 0x22), "by the sink");
	ok(!csmeta_find_id(&m, 0, 0x40), "an id that nobody told");
	ok(csmeta_add_id(&m, 0, 0, &diag) == -AUX_E_FORMAT &&
	   csmeta_add_id(&m, 0x70, 0, &diag) == -AUX_E_FORMAT &&
	   csmeta_add_id(&m, (uint64_t)1 << 60 | 9, 0, &diag) ==
		   -AUX_E_UNSUPPORTED, "what is no id");
	ok(csmeta_add_id(&m, 0x23, 9, &diag) == 0 &&
	   !csmeta_find_id(&m, 0, 0x23), "a CPU without a block");
	csmeta_fini(&m);
}

static bool same_etm(const struct aux_etm_config *a,
		     const struct aux_etm_config *b)
{
	size_t regs = offsetof(struct aux_etm_config, trcconfigr);

	return a->arch == b->arch && a->trace_id == b->trace_id &&
	       a->pid_in_vmid == b->pid_in_vmid &&
	       a->ts_is_clock == b->ts_is_clock &&
	       !memcmp((const char *)a + regs, (const char *)b + regs,
		       sizeof(*a) - regs);
}

/* A file's registers, as `perf report -D` shows them. */
static void test_file(const char *corpus, const char *name, size_t n,
		      size_t i, const struct aux_etm_config *want)
{
	struct aux_reader *r = NULL;
	struct aux_event ev;
	struct csmeta m = { 0 };
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", corpus, name);
	if (!ok(aux_reader_open(&r, path, &diag) == 0, "%s", name))
		return;
	while (aux_reader_next(r, &ev, NULL) == 1) {
		if (ev.type != AUX_RECORD_AUXTRACE_INFO)
			continue;
		ok(take(&m, ev.auxtrace_info.priv, ev.auxtrace_info.n_priv) ==
		   0 && m.n_sources == n, "all its sources");
		ok(n == m.n_sources && same_etm(&m.sources[i].etm, want),
		   "registers");
		csmeta_fini(&m);
	}
	aux_reader_close(r);
}

static void test_recorded(void)
{
	static const struct aux_etm_config etm = {
		.arch = AUX_ETM_V4, .trace_id = 0x14, .trcconfigr = 0x40,
		.trcidr0 = 0x28000ea1, .trcidr1 = 0x4100f422,
		.trcidr2 = 0x20001088, .trcauthstatus = 0x8c,
	}, ete = {
		.arch = AUX_ETM_ETE, .trace_id = 0x12, .trcconfigr = 0x8080,
		.trcidr0 = 0x288006a1, .trcidr1 = 0x4100fff0,
		.trcidr2 = 0xc0001088, .trcauthstatus = 0xcc,
		.trcdevarch = 0x47715a13, .pid_in_vmid = 1,
	}, v3 = {
		.arch = AUX_ETM_V3, .trace_id = 0x10, .etmcr = 0xc40,
		.etmccer = 0x9ba, .etmidr = 0x4104f230,
	};
	const char *corpus = getenv("AUXKIT_CORPUS");
	char path[1024];
	FILE *f;

	corpus = corpus ? corpus : "../shared/corpus";
	snprintf(path, sizeof(path), "%s/cases.tsv", corpus);
	f = fopen(path, "r");
	if (!f) {
		skip("corpus: not here (set AUXKIT_CORPUS)");
		return;
	}
	fclose(f);
	test_file(corpus, "simpleperf/simpleperf/testdata/etm/perf_etm.data", 8,
		  2, &etm);
	test_file(corpus, "simpleperf/simpleperf/testdata/etm/"
		  "perf_with_unformatted_trace.data", 2, 1, &ete);
	test_file(corpus, "wrapped/coresight-r5-freertos.perf.data", 1, 0, &v3);
}

int main(void)
{
	test_version_0();
	test_version_1();
	test_kinds();
	test_bad();
	test_hw_ids();
	test_recorded();
	return plan_done();
}
