/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage_map: which edges a program went along, as a map of 64 KB with a counter
 * for each edge, as fuzzers keep it (AFL's technical details, "Coverage
 * measurements"). A sink of one's own, that takes whole paths for speed.
 *
 *	cc coverage_map.c $(pkg-config --cflags --libs libauxdecode) -o coverage_map
 *	coverage_map perf.data [MAP-FILE]
 *
 * Places are named by file and offset, so runs of one program give one map wherever
 * it was loaded. Status 3: something is missing, so edges may be, too.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decode.h>

#define MAP_SIZE 65536
#define CACHE 65536	/* power of two */
#define MAX_STREAMS 4096

/* What an address is called, wherever it was loaded; asked for once. */
struct place {
	uint64_t space_id, ip, id;
};

struct coverage {
	struct aux_decode *d;
	uint8_t map[MAP_SIZE];
	uint64_t n_edges;
	struct place cache[CACHE];
	/* of each stream: where the run of instructions before ended */
	struct { uint8_t end; uint64_t last, next; } at[MAX_STREAMS];
};

static uint64_t mix(uint64_t h)
{
	h ^= h >> 33;
	h *= UINT64_C(0xff51afd7ed558ccd);
	h ^= h >> 33;
	h *= UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

static uint64_t name_place(struct coverage *c, const struct aux_decode_ctx *ctx,
			   uint64_t ip)
{
	struct place *p = &c->cache[mix(ip ^ ctx->space_id) & (CACHE - 1)];
	struct aux_decode_symbol sym = { .size = sizeof(sym) };
	uint64_t h = 0;

	if (p->ip == ip && p->space_id == ctx->space_id && p->id)
		return p->id;
	if (aux_decode_symbol(c->d, ctx->space, ip, &sym) < 0 || !sym.dso)
		sym.dso = "";
	for (const char *s = sym.dso; *s; s++)
		h = mix(h + (uint8_t)*s);
	h = mix(h + (sym.dso_offset ? sym.dso_offset : ip));
	*p = (struct place){ ctx->space_id, ip, h | 1 };
	return p->id;
}

static bool is_taken(uint8_t end, uint64_t next, uint64_t to)
{
	if (end == AUX_END_COND)	/* some traces do not say */
		return to != next;
	return end != AUX_END_FALL && end != AUX_END_COND_NOT_TAKEN;
}

/* Control came to ip: the edge there, if it was not just gone on to. */
static void arrive(struct coverage *c, const struct aux_decode_ctx *ctx,
		   uint64_t ip)
{
	uint32_t s = ctx->stream % MAX_STREAMS;
	uint64_t edge;

	if (!is_taken(c->at[s].end, c->at[s].next, ip))
		return;
	edge = name_place(c, ctx, c->at[s].last) >> 1 ^ name_place(c, ctx, ip);
	edge = mix(edge) % MAP_SIZE;
	c->map[edge] += c->map[edge] != 255;
	c->n_edges++;
}

static void add_range(struct coverage *c, const struct aux_decode_ctx *ctx,
		      const struct aux_flow *ev)
{
	uint32_t s = ctx->stream % MAX_STREAMS;

	arrive(c, ctx, ev->range.first);
	c->at[s].end = ev->what;
	c->at[s].last = ev->range.last;
	c->at[s].next = ev->range.last + (ev->flags & AUX_FLOW_SIZE_MASK);
}

/* A PATH is many RANGEs in a row, whose list the decoder keeps. */
static void add_path(struct coverage *c, const struct aux_decode_ctx *ctx,
		     const struct aux_path *path)
{
	for (uint32_t i = 0; i < path->n_steps; i++)
		for (uint32_t k = 0; k < path->steps[i]->n_ranges; k++)
			add_range(c, ctx, &path->steps[i]->ranges[k]);
}

static int take_flow(void *priv, const struct aux_decode_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct coverage *c = priv;

	for (size_t i = 0; i < n; i++) {
		switch (ev[i].kind) {
		case AUX_FLOW_RANGE:
			add_range(c, ctx, &ev[i]);
			break;
		case AUX_FLOW_PATH:
			add_path(c, ctx, ev[i].path.path);
			break;
		case AUX_FLOW_ASYNC:	/* interrupted there */
			arrive(c, ctx, ev[i].async.from);
			c->at[ctx->stream % MAX_STREAMS].end = AUX_END_FALL;
			break;
		case AUX_FLOW_GAP:	/* what comes next follows nothing */
		case AUX_FLOW_TRACE_ON:
		case AUX_FLOW_TRACE_OFF:
			c->at[ctx->stream % MAX_STREAMS].end = AUX_END_FALL;
			break;
		}
	}
	return 0;	/* 1 would mean: enough */
}

static int save_map(const struct coverage *c, const char *path)
{
	FILE *f = fopen(path, "wb");
	size_t n = f ? fwrite(c->map, 1, MAP_SIZE, f) : 0;

	if (!f || fclose(f) || n != MAP_SIZE) {
		perror(path);
		return 1;
	}
	return 0;
}

/* Whether the flow is all that ran; says so where it is not. */
static bool print_summary(const struct coverage *c)
{
	struct aux_decode_stats st = { .size = sizeof(st) };
	char missing[256];
	unsigned n_cells = 0;
	uint64_t h = 0;

	for (unsigned i = 0; i < MAP_SIZE; i++) {
		n_cells += c->map[i] != 0;
		h = mix(h + c->map[i]);
	}
	aux_decode_get_stats(c->d, &st);
	printf("insns %" PRIu64 " gaps %" PRIu64 " edges %" PRIu64
	       " cells %u map %016" PRIx64 "\n", st.n_insns, st.n_gaps,
	       c->n_edges, n_cells, h);
	if (!st.lossy)
		return true;
	aux_decode_missing(c->d, missing, sizeof(missing));
	fprintf(stderr, "coverage_map: edges may be missing: %s\n", missing);
	return false;
}

int main(int argc, char **argv)
{
	/* times are not looked at, so none need be computed */
	struct aux_decode_options options = { .size = sizeof(options),
					      .flags = AUX_DECODE_NO_TIMES };
	struct coverage *c = calloc(1, sizeof(*c));
	struct aux_decode_sink sink = { .size = sizeof(sink),
					.flags = AUX_DECODE_PATHS,
					.priv = c, .flow = take_flow };
	struct aux_diag diag = { 0 };
	int rc, status = 1;

	if (!c || argc < 2 || argc > 3) {
		fprintf(stderr, "usage: coverage_map FILE [MAP-FILE]\n");
		return 2;
	}
	rc = aux_decode_open(&c->d, argv[1], &options, &diag);
	if (rc == 0)
		rc = aux_decode_run(c->d, &sink, &diag);
	if (rc < 0) {
		fprintf(stderr, "coverage_map: %s\n", diag.text);
	} else {
		status = print_summary(c) ? 0 : 3;
		if (argc == 3 && save_map(c, argv[2]))
			status = 1;
	}
	aux_decode_close(c->d);
	free(c);
	return status;
}
