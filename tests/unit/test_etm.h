/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The etm decoder beside the reference: the same packets, host and registers for
 * both, and what both gave, event by event. Where the reference is not built in,
 * etm runs alone.
 */
#ifndef TESTS_UNIT_TEST_ETM_H
#define TESTS_UNIT_TEST_ETM_H

#include "tests/unit/etm_flow.h"
#include "tests/unit/tap.h"

struct registers {
	unsigned arch;
	uint32_t configr;
	bool pull;	/* the host switches at each chance */
};

/* TRCDEVARCH of an ETE; 0: version 1.0. */
static uint32_t ete_version;

static bool has_reference(void)
{
	return decoders_find("opencsd", 0, NULL) != NULL;
}

/* Not yet opened; no code. */
static void set_up(struct fixture *f, const char *name, struct registers r)
{
	struct aux_etm_config *etm = &f->config.etm;

	(void)begin;
	memset(f, 0, sizeof(*f));
	f->config.size = sizeof(f->config);
	f->config.clock.mult = 1;
	etm->arch = r.arch;
	etm->trace_id = 0x10;
	etm->trcconfigr = r.configr;
	etm->trcidr0 = 0x28000ea1;
	etm->trcidr1 = r.arch == AUX_ETM_ETE ? 0x4100fff0 : 0x4100f433;
	etm->trcidr2 = r.arch == AUX_ETM_ETE ? 0xd0001088 : 0x80001088;
	etm->trcdevarch = r.arch != AUX_ETM_ETE ? 0 :
			  ete_version ? ete_version : 0x47705a13;
	f->host = (struct aux_decoder_host){
		.size = sizeof(f->host), .priv = f, .code = fixture_code,
		.generation = 1, .horizon_tsc = UINT64_MAX };
	if (r.pull) {
		etm->ts_is_clock = 1;
		f->host.horizon_tsc = 0;
		f->host.context_switches = 1;
	}
	f->ops = decoders_find(name, 0, NULL);
	if (!f->ops)
		abort();
}

__attribute__((unused))
static void open_one(struct fixture *f, const char *name, struct registers r)
{
	set_up(f, name, r);
	start_decoder(f);
	add_area(f, 0x1000, etm_code, sizeof(etm_code));
}

/* Decodes from memory that ends where the bytes do. Returns what decode did last. */
__attribute__((unused))
static int run_exact(struct fixture *f, const uint8_t *data, size_t len,
		     size_t max)
{
	struct aux_chunk c = { .size = sizeof(c), .len = len,
			       .stream_offset = 100 };
	uint8_t *exact = malloc(len + !len);
	int rc;

	memcpy(exact, data, len);
	c.data = exact;
	f->n = 0;
	rc = f->ops->start(f->dec, &c);
	while (rc >= 0 && f->n + max <= N_EVENTS) {
		rc = f->ops->decode(f->dec, f->ev + f->n, max);
		if (rc <= 0)
			break;
		f->n += (size_t)rc;
	}
	free(exact);
	return rc;
}

/* PATHs as their RANGEs; *sound: they add up. */
__attribute__((unused))
static size_t expand(const struct fixture *f, struct aux_flow *to, bool *sound)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		const struct aux_flow *e = &f->ev[i];
		uint32_t insns = 0;

		if (e->kind != AUX_FLOW_PATH) {
			to[n++] = *e;
			continue;
		}
		for (uint32_t k = 0; k < e->path.path->n_steps; k++) {
			const struct aux_step *s = e->path.path->steps[k];

			*sound &= s->n_ranges == 1 && !s->ranges->offset &&
				  s->n_insns == s->ranges->n;
			to[n] = *s->ranges;
			to[n++].offset = e->offset;
			insns += s->n_insns;
		}
		*sound &= insns == e->n && insns == e->path.path->n_insns &&
			  e->path.path->n_ranges == e->path.path->n_steps;
	}
	return n;
}

/* As b, but for the offset of RANGEs, which is that of the first of some packets. */
__attribute__((unused))
static bool is_joined(const struct aux_flow *a, const struct aux_flow *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct aux_flow e = a[i];

		if (e.kind == AUX_FLOW_RANGE && e.offset <= b[i].offset)
			e.offset = b[i].offset;
		if (memcmp(&e, &b[i], sizeof(e)))
			return false;
	}
	return true;
}

/* The first event in which b differs from a. */
__attribute__((unused))
static size_t find_difference(const struct fixture *a, const struct fixture *b)
{
	size_t i = 0;

	while (i < a->n && i < b->n &&
	       !memcmp(&a->ev[i], &b->ev[i], sizeof(a->ev[i])))
		i++;
	return i;
}

/* What etm gives, and that it is what the reference gives. */
__attribute__((unused))
static void gives(struct registers r, const struct packet_bytes *p, const char *want,
		  const char *name)
{
	static struct fixture a, b;
	size_t i;

	open_one(&b, "etm", r);
	ok(run_exact(&b, p->b, p->n, 16) == 0, "%s: ends", name);
	is_str(text(&b), want, name);
	if (has_reference()) {
		open_one(&a, "opencsd", r);
		run_exact(&a, p->b, p->n, 1000);
		i = find_difference(&a, &b);
		ok(i == a.n && i == b.n, "%s: as the reference", name);
		a.ops->close(a.dec);
	}
	b.ops->close(b.dec);
}

#endif
