/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: decode */
/*
 * The OpenCSD decoder on recorded traces: its ranges against those that OpenCSD's
 * own lister, of a later version, printed for them.
 */
#include "tests/unit/opencsd_snapshot.h"
#include "common/sha256.h"
#include "tests/unit/tap.h"

struct range {
	uint64_t first, end;
	uint32_t n;
};

struct ranges {
	struct range *r;
	size_t n, cap;
};

static void add_range(struct ranges *to, struct range r)
{
	if (to->n == to->cap) {
		to->cap = 2 * to->cap + 1024;
		to->r = realloc(to->r, to->cap * sizeof(r));
		if (!to->r)
			abort();
	}
	to->r[to->n++] = r;
}

static void read_list(struct ranges *to, const char *path, unsigned id)
{
	char line[4096];
	struct range r;
	unsigned i;
	FILE *f;

	to->n = 0;
	snprintf(line, sizeof(line), "zcat '%s'", path);
	f = popen(line, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Idx:%*u; ID:%x; OCSD_GEN_TRC_ELEM_INSTR_RANGE"
			   "(exec range=%" SCNx64 ":[%" SCNx64 "] num_i(%u)",
			   &i, &r.first, &r.end, &r.n) == 4 && i == id)
			add_range(to, r);
	if (f)
		pclose(f);
}

struct result {
	struct ranges ranges;
	uint64_t insns;
	unsigned gaps[AUX_GAP_N_CAUSES], payloads, others;
	char hash[65];
};

static void take_event(struct result *to, struct sha256 *sha,
		       const struct aux_flow *e)
{
	if (e->kind == AUX_FLOW_GAP && e->what < AUX_GAP_N_CAUSES)
		to->gaps[e->what]++;
	if (e->kind == AUX_FLOW_PAYLOAD)
		to->payloads++;
	if (e->kind != AUX_FLOW_RANGE)
		return;
	to->insns += e->n;
	add_range(&to->ranges, (struct range){
			e->range.first,
			e->range.last + (e->flags & AUX_FLOW_SIZE_MASK), e->n });
	for (uint64_t ip = e->range.first; ip <= e->range.last; ip += 4)
		sha256_update(sha, &ip, 8);
}

/* With the host switching at each chance, or not at all. */
static bool decode(const struct snapshot *s, const struct source *r, bool pull,
		   struct result *to)
{
	static struct fixture f;
	struct aux_chunk c = { .size = sizeof(c) };
	size_t len, max = pull ? 16 : 1000;
	struct sha256 sha;
	int rc;

	sha256_init(&sha);
	to->ranges.n = to->insns = to->payloads = 0;
	memset(to->gaps, 0, sizeof(to->gaps));
	begin(&f, r->etm.arch);
	f.config.etm = r->etm;
	if (pull) {
		f.host.horizon_tsc = 0;
		f.host.context_switches = 1;
	}
	start_decoder(&f);
	memcpy(f.areas, s->areas, sizeof(f.areas));
	f.n_areas = s->n_areas;
	c.data = source_bytes(s, r, &len);
	c.len = len;
	if (!c.data)
		return false;
	f.ops->start(f.dec, &c);
	while ((rc = f.ops->decode(f.dec, f.ev, max)) > 0) {
		for (int i = 0; i < rc; i++)
			take_event(to, &sha, &f.ev[i]);
		f.host.generation += pull;
	}
	f.ops->close(f.dec);
	free((void *)(uintptr_t)c.data);
	sha256_final(&sha, to->hash);
	return rc == 0;
}

static bool is_same(const struct ranges *a, const struct ranges *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (a->r[i].first != b->r[i].first || a->r[i].end != b->r[i].end ||
		    a->r[i].n != b->r[i].n) {
			printf("# range %zu: %#" PRIx64 " instead of %#" PRIx64
			       "\n", i, a->r[i].first, b->r[i].first);
			return false;
		}
	return a->n == b->n;
}

static void compare(const struct snapshot *s, const struct source *r,
		    const char *list, const char *name)
{
	static struct result got;
	static struct ranges want;

	read_list(&want, list, r->etm.trace_id);
	for (int pull = 0; pull < 2; pull++) {
		ok(decode(s, r, pull, &got) && is_same(&got.ranges, &want),
		   "%s %s: the %zu ranges%s", name, r->name, want.n,
		   pull ? " with a host that switches" : "");
		ok(!got.gaps[AUX_GAP_BAD_PACKET], "no bad packet");
	}
}

static void fib(const char *corpus, const char *cases)
{
	static struct result got;
	struct snapshot s;
	char list[1024];

	for (int i = 1; i <= N_FIB; i++) {
		if (!open_fib(&s, corpus, i))
			continue;
		snprintf(list, sizeof(list), "%s/coresight-decoder/tests/ref/"
			 "fib.trace%d.ppl.gz", corpus, i);
		compare(&s, &s.sources[0], list, "fib");
		decode(&s, &s.sources[0], false, &got);
		check_fib(cases, i, got.insns, got.hash);
		close_snapshot(&s);
	}
}

static void snapshot(const char *corpus, const char *name, const char *only)
{
	struct snapshot s;
	char list[1024];

	snprintf(list, sizeof(list), "%s/opencsd/ref-1.8.0/%s.ppl.gz", corpus,
		 name);
	if (!open_shipped(&s, corpus, name))
		return;
	for (unsigned i = 0; i < s.n_sources; i++) {
		const struct source *r = &s.sources[i];

		if (r->etm.arch == AUX_ETM_NONE || r->etm.arch == AUX_ETM_STM ||
		    (only && strcmp(only, r->name)) ||
		    !ini_get(s.trace, "source_buffers", 0, r->name))
			continue;
		compare(&s, r, list, name);
	}
	close_snapshot(&s);
}

static void stm(const char *corpus)
{
	static struct result got;
	struct snapshot s;

	if (!open_shipped(&s, corpus, "stm_only"))
		return;
	ok(decode(&s, &s.sources[0], true, &got), "ends");
	is_u64(got.payloads, 6279 - 7, "what it gave, but for 7 frequencies");
	close_snapshot(&s);
}

int main(void)
{
	static const char *const names[] = {
		"TC2", "Snowball", "trace_cov_a15", "a57_single_step",
		"juno_r1_1", "juno-uname-001", "test-file-mem-offsets",
		"ete_ip", "ete_spec_1", "src_addr", "tme_simple",
		"trace_file_vmid", "event_test",
	};
	const char *corpus;
	char *cases = load_cases(&corpus);

	if (!cases)
		return plan_done();
	fib(corpus, cases);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		snapshot(corpus, names[i], NULL);
	snapshot(corpus, "q_elem", "ETE_0_s2");
	stm(corpus);
	free(cases);
	return plan_done();
}
