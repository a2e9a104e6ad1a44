/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Our ETMv4 and ETE engine against OpenCSD, over traces that a trace unit could
 * have made and some that are broken (etmscript.h): the same flow, as RANGEs in
 * large and small batches and as PATHs; and nothing that did not run, in that order.
 * Some of the code may be missing. The bytes: code, CPU, host, batch, then the script.
 */
#include "tests/fuzz/flowdiff.h"
#include "decode/lib/session/decoders.h"
#include "tests/fuzz/etmscript.h"

#define N_HEAD 4
#define START 1000
#define HIDDEN 12		/* words of each half that are missing */

struct host {
	struct aux_decoder_host h;
	struct aux_decoder_config config;
	const struct etmscript *s;
	uint64_t step;		/* of the horizon */
	struct flow_hole hole;
};

static int give_code(void *priv, uint64_t ip, struct aux_code *c)
{
	const struct host *h = priv;
	const uint32_t *p;
	size_t n = es_at(h->s, ip & ~UINT64_C(3), &p), at = CODE_WORDS - n;
	size_t from = 0, to = CODE_WORDS;

	if (!n || !flow_around_hole(h->hole, at, &from, &to))
		return -AUX_E_NOENT;
	ip = (ip & ~UINT64_C(3)) - 4 * at;
	*c = (struct aux_code){ .start = ip + 4 * from, .end = ip + 4 * to,
				.bytes = (const uint8_t *)(p - at + from) };
	return 0;
}

/* The horizon goes on where it was met, and there alone: what waits for an address
 * does not wait behind it. The code stays. */
static void act(void *priv, const struct aux_flow *last)
{
	struct host *h = priv;

	if (last->kind == AUX_FLOW_TIME && last->time.tsc >= h->h.horizon_tsc)
		h->h.horizon_tsc = last->time.tsc + h->step;
}

static void configure(struct host *h, const struct etmscript *s,
		      const uint8_t *head, enum aux_paths paths)
{
	*h = (struct host){ .s = s, .hole = { CODE_WORDS, HIDDEN },
			    .step = head[0] & 1 ? 500 : 0 };
	if (head[2] >> 5 == 5)
		h->hole.start = (head[2] >> 1 & 15) * 16u;
	h->config.size = sizeof(h->config);
	h->config.clock.mult = 1;
	h->config.etm = (struct aux_etm_config){
		.arch = head[1] & 4 ? AUX_ETM_ETE : AUX_ETM_V4,
		.trace_id = 0x10, .core_version = 8, .core_profile = 'A',
		.trcidr0 = 0x28000ea1, .trcidr2 = 0x488,
		.trcidr1 = head[1] & 4 ? 0x4100fff0 : 0x4100f403,
		.trcdevarch = 0x47705a13,
		.trcconfigr = 1 | (head[1] & 1u) << 12 | (head[1] & 2u) << 5 |
			      1u << 11,
		.ts_is_clock = 1,
	};
	h->h = (struct aux_decoder_host){
		.size = sizeof(h->h), .priv = h, .code = give_code,
		.generation = 1, .forget = flow_forget, .paths = paths,
		.horizon_tsc = head[2] & 1 ? 0 : UINT64_MAX,
	};
}

/* Joined paths are made of what has come before: the last time counts. */
static void decode(struct flow_list *l, const char *name,
		   const struct etmscript *s, const uint8_t *head,
		   const struct aux_chunk *c, size_t max, enum aux_paths paths)
{
	const struct aux_decoder_ops *ops = decoders_find(name, 0, NULL);
	struct aux_diag diag;
	struct host h;
	void *dec;

	configure(&h, s, head, paths);
	ASSERT(ops->open(&dec, &h.config, &h.h, &diag) == 0);
	for (int i = paths == AUX_PATHS_JOINED ? 4 : 1; i; i--) {
		h.h.horizon_tsc = head[2] & 1 ? 0 : UINT64_MAX;
		flow_decode(l, ops, dec, c, max, act, &h);
	}
	ops->close(dec);
}

static void compare(const char *what, const struct flow_list *a,
		    const struct flow_list *b, bool own)
{
	size_t k = 0;
	size_t i = own ? flow_compare_own(a, b) : flow_compare(a, b, &k);

	if (i == SIZE_MAX)
		return;
	if (own)
		k = i;
	flow_differ(what, a, i, b, k);
}

/* What is shown of a trace that is not broken ran, in this order. */
static void check_ran(const char *name, const struct flow_list *l,
		      const struct etmscript *s)
{
	size_t k = 0, before;

	for (size_t i = 0; i < l->n && !s->broken; i++) {
		const struct aux_flow *f = &l->ev[i];

		if (f->kind != AUX_FLOW_RANGE)
			continue;
		for (uint64_t ip = f->range.first; ip <= f->range.last; ip += 4) {
			before = k;
			while (k < s->n_ran && s->ran[k] != ip)
				k++;
			if (k++ < s->n_ran)
				continue;
			fprintf(stderr, "%#" PRIx64 " did not run, event %zu:\n", ip, i);
			flow_print(name, l, i > 4 ? i - 4 : 0, i + 6);
			flow_print_ran(s->ran, s->n_ran, before);
			abort();
		}
	}
}

static void print_bytes(const struct aux_chunk *c)
{
	for (size_t i = 0; i < c->len; i++) {
		if (i % 16 == 0)
			fprintf(stderr, "\n%#zx:", START + i);
		fprintf(stderr, " %02x", c->data[i]);
	}
	fprintf(stderr, "\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct etmscript s;
	static struct flow_list ref, one, two;
	const char *engine = getenv("ENGINE") ? getenv("ENGINE") : "etm";
	const uint8_t *head = data;
	struct aux_chunk c = { .size = sizeof(c), .stream_offset = START };
	uint8_t *trace;

	if (len < N_HEAD || !decoders_find(engine, 0, NULL) ||
	    !decoders_find("opencsd", 0, NULL))
		return 0;
	es_make(&s, head[0], head[1], data + N_HEAD, len - N_HEAD);
	trace = malloc(s.n ? s.n : 1);	/* so that reads behind it are seen */
	ASSERT(trace);
	memcpy(trace, s.trace, s.n);
	c.data = trace;
	c.len = s.n;
	if (getenv("VERBOSE"))
		print_bytes(&c);
	decode(&one, engine, &s, head, &c, FLOW_BATCH, AUX_PATHS_NONE);
	check_ran("engine", &one, &s);
	decode(&two, engine, &s, head, &c, 16 + head[3],
	       AUX_PATHS_NONE);
	compare("small batches", &one, &two, true);
	decode(&two, engine, &s, head, &c, FLOW_BATCH, AUX_PATHS_PACKET);
	compare("PATHs", &one, &two, true);
	decode(&two, engine, &s, head, &c, 16 + head[3], AUX_PATHS_JOINED);
	compare("joined PATHs", &one, &two, true);
	decode(&ref, "opencsd", &s, head, &c, FLOW_BATCH, AUX_PATHS_NONE);
	check_ran("opencsd", &ref, &s);
	compare("opencsd", &one, &ref, false);
	free(trace);
	return 0;
}
