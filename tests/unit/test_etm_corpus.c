/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The etm decoder on recorded traces: the same instructions as in the list of OpenCSD's own
 * lister (a later version), and the same events as the OpenCSD decoder.
 */
#include "tests/unit/opencsd_snapshot.h"
#include "common/sha256.h"
#include "tests/unit/test_etm.h"

static struct fixture f, g;

static void open_source(struct fixture *d, const char *name,
			const struct snapshot *s, const struct source *r,
			bool pull)
{
	set_up(d, name, (struct registers){ r->etm.arch, 0, pull });
	d->config.etm = r->etm;
	d->config.etm.ts_is_clock = pull;
	memcpy(d->areas, s->areas, sizeof(d->areas));
	d->n_areas = s->n_areas;
	start_decoder(d);
}

/* Up to 0, the end, or an error. The host's generation changes at each stop. */
static int fill(struct fixture *d, size_t max, bool pull)
{
	int rc = d->ops->decode(d->dec, d->ev, max);

	d->n = rc > 0 ? (size_t)rc : 0;
	d->host.generation += pull;
	return rc;
}

/* Returns what the etm decoder did last; n: of how many events. */
static int compare(const struct snapshot *s, const struct source *r, bool pull,
		   uint64_t *n)
{
	struct aux_chunk c = { .size = sizeof(c) };
	size_t i = 0, k = 0, len;
	uint8_t *data = source_bytes(s, r, &len);
	bool same = true;
	int rc = 1;

	*n = 0;
	c.data = data;
	c.len = len;
	open_source(&f, "opencsd", s, r, pull);
	open_source(&g, "etm", s, r, pull);
	f.ops->start(f.dec, &c);
	rc = g.ops->start(g.dec, &c);
	f.n = g.n = 0;
	while (same && rc >= 0) {
		if (k == g.n) {
			rc = fill(&g, pull ? 16 : 1000, pull);
			k = 0;
		}
		if (i == f.n) {
			fill(&f, 1000, pull);
			i = 0;
		}
		if (rc <= 0)
			break;
		same = i < f.n && !memcmp(&f.ev[i++], &g.ev[k++],
					  sizeof(f.ev[0]));
		++*n;
	}
	same &= rc < 0 || i == f.n;
	ok(same, "%s %s%s: %" PRIu64 " events as the reference's%s", s->dir,
	   r->name, pull ? ", switching" : "", *n,
	   rc < 0 ? ", then left to it" : "");
	f.ops->close(f.dec);
	g.ops->close(g.dec);
	free(data);
	return rc;
}

/* The instructions of a source, as cases.tsv has them. */
static uint64_t hash_insns(const struct snapshot *s, const struct source *r,
			   char hash[65])
{
	struct aux_chunk c = { .size = sizeof(c) };
	uint8_t *data = source_bytes(s, r, (size_t *)&c.len);
	struct sha256 sha;
	uint64_t n = 0;

	sha256_init(&sha);
	c.data = data;
	open_source(&g, "etm", s, r, false);
	g.ops->start(g.dec, &c);
	while (fill(&g, 1000, false) > 0) {
		for (size_t i = 0; i < g.n; i++) {
			const struct aux_flow *e = &g.ev[i];

			if (e->kind != AUX_FLOW_RANGE)
				continue;
			n += e->n;
			for (uint64_t ip = e->range.first; ip <= e->range.last;
			     ip += 4)
				sha256_update(&sha, &ip, 8);
		}
	}
	g.ops->close(g.dec);
	free(data);
	sha256_final(&sha, hash);
	return n;
}

static void fib(const char *corpus, const char *cases)
{
	struct snapshot s;
	char hash[65];

	for (int i = 1; i <= N_FIB; i++) {
		if (!open_fib(&s, corpus, i))
			continue;
		check_fib(cases, i, hash_insns(&s, &s.sources[0], hash), hash);
		close_snapshot(&s);
	}
}

static void snapshot(const char *corpus, const char *name, bool whole)
{
	struct snapshot s;
	uint64_t n, all = 0;
	int rc = 0;

	if (!open_shipped(&s, corpus, name))
		return;
	for (unsigned i = 0; i < s.n_sources; i++) {
		const struct source *r = &s.sources[i];

		if ((r->etm.arch != AUX_ETM_V4 && r->etm.arch != AUX_ETM_ETE) ||
		    !ini_get(s.trace, "source_buffers", 0, r->name))
			continue;
		for (int pull = 0; pull < 2; pull++) {
			rc |= compare(&s, r, pull, &n);
			all += n;
		}
	}
	if (whole)
		ok(rc == 0 && all, "%s: nothing is left to others", name);
	close_snapshot(&s);
}

int main(void)
{
	static const struct { const char *name; bool whole; } all[] = {
		{ "a57_single_step", true }, { "juno_r1_1", true },
		{ "juno-uname-001", true }, { "test-file-mem-offsets", true },
		{ "src_addr", true }, { "trace_file_vmid", true },
		{ "event_test", true }, { "init-short-addr", true },
		{ "ete_ip", false }, { "ete_spec_1", false },
		{ "q_elem", false }, { "tme_simple", false },
	};
	const char *corpus;
	char *cases = load_cases(&corpus);

	if (!cases)
		return plan_done();
	fib(corpus, cases);
	for (size_t i = 0; has_reference() && i < sizeof(all) / sizeof(all[0]); i++)
		snapshot(corpus, all[i].name, all[i].whole);
	free(cases);
	return plan_done();
}
