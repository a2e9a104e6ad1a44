/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Coverage as rows: those of a tracefile of lcov, which is the result, too. Counts of lines
 * are not sums over the chunks of a stream, as a line that a border cuts is entered in both:
 * units are whole recordings.
 *
 *	FILE branch LINE BLOCK.WAY	N RAN
 *	FILE function LINE NAME		N 0
 *	FILE line LINE -		N 0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/coverage/coverage.h"
#include "decode/fleet/fleet.h"

#define FIELDS 4

/* table */
static const char *const words[] = {
	[COVERAGE_BRANCH] = "branch", [COVERAGE_FUNCTION] = "function",
	[COVERAGE_LINE] = "line",
};

/* ---- a recording ---- */

struct coverage_sink {
	void *inner;		/* of sink_coverage */
	struct outbuf *out;
	struct fleet_rows *rows;
	struct outbuf *key;	/* in memory */
};

static void close_coverage(void *sink)
{
	struct coverage_sink *k = sink;

	if (!k)
		return;
	if (k->inner)
		sink_coverage.close(k->inner);
	fleet_rows_free(k->rows);
	outbuf_free(k->key);
	free(k);
}

static int open_coverage(void **sink, const struct sink_env *env, const void *config,
			 struct aux_diag *diag)
{
	const struct fleet_sink_config *c = config;
	const struct coverage_config lcov = { .format = COVER_LCOV };
	struct coverage_sink *k = calloc(1, sizeof(*k));

	*sink = k;
	if (!k)
		return -AUX_E_NOMEM;
	k->out = env->out;
	k->rows = fleet_rows_new(c->kind);
	k->key = outbuf_new(-1);
	return k->rows && k->key ? sink_coverage.open(&k->inner, env, &lcov, diag) :
				   -AUX_E_NOMEM;
}

static int flow_coverage(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev,
			 size_t n)
{
	struct coverage_sink *k = sink;

	return sink_coverage.flow(k->inner, ctx, ev, n);
}

static int add_row(void *priv, const struct coverage_row *r)
{
	struct coverage_sink *k = priv;
	const uint64_t values[] = { r->n, r->ran };
	char text[32];

	k->key->p = k->key->buf;
	fleet_field(k->key, r->file);
	fleet_field(k->key, words[r->what]);
	fleet_field_number(k->key, r->line);
	snprintf(text, sizeof(text), "%" PRIu32 ".%" PRIu32, r->block, r->way);
	fleet_field(k->key, r->what == COVERAGE_BRANCH ? text : r->name ? r->name : "-");
	if (outbuf_failed(k->key))
		return -AUX_E_NOMEM;
	return fleet_rows_add(k->rows, k->key->buf, (size_t)(k->key->p - k->key->buf), values);
}

static int finish_coverage(void *sink, struct aux_diag *diag)
{
	struct coverage_sink *k = sink;
	int err = coverage_rows(k->inner, add_row, k);

	(void)diag;
	if (!err)
		fleet_rows_write(k->rows, k->out);
	return err;
}

/* Partial results are those of coverage. */
static int new_partial(void **partial, const void *sink)
{
	return sink_coverage.partial_new(partial, ((const struct coverage_sink *)sink)->inner);
}

static int flow_partial(void *partial, uint32_t stint, const struct flow_ctx *ctx,
			const struct aux_flow *ev, size_t n)
{
	return sink_coverage.partial_flow(partial, stint, ctx, ev, n);
}

static int join_partial(void *sink, void *partial, uint32_t stint)
{
	return sink_coverage.partial_join(((struct coverage_sink *)sink)->inner, partial, stint);
}

static void free_partial(void *partial)
{
	sink_coverage.partial_free(partial);
}

const struct sink_ops fleet_sink_coverage = {
	.name = "map", .needs = SINK_TAKES_PATHS | SINK_OWN_FORMAT | SINK_ANY_STREAM_ORDER,
	.open = open_coverage, .flow = flow_coverage, .finish = finish_coverage,
	.close = close_coverage, .partial_new = new_partial, .partial_flow = flow_partial,
	.partial_join = join_partial, .partial_free = free_partial,
};

/* ---- the result ---- */

static int refuse(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET, "a row is none of coverage");
}

/* The row of a line, whose text is changed. */
static int take_row(struct coverage_sum *sum, struct fleet_row *row, struct aux_diag *diag)
{
	char *f[FIELDS];
	uint64_t block = 0, way = 0, line;
	struct coverage_row r = { .n = row->values[0], .ran = row->values[1] };
	const char *end;

	if (fleet_fields(row, f, FIELDS))
		return refuse(diag);
	while (r.what < COVERAGE_LINE && strcmp(f[1], words[r.what]))
		r.what++;
	end = fleet_number(f[2], UINT32_MAX, &line);
	if (strcmp(f[1], words[r.what]) || !end || *end)
		return refuse(diag);
	if (r.what == COVERAGE_BRANCH) {
		end = fleet_number(f[3], UINT32_MAX, &block);
		end = end && *end == '.' ? fleet_number(end + 1, UINT32_MAX, &way) : NULL;
		if (!end || *end)
			return refuse(diag);
	}
	r.file = f[0];
	r.line = (uint32_t)line;
	r.block = (uint32_t)block;
	r.way = (uint32_t)way;
	r.name = r.what == COVERAGE_FUNCTION && strcmp(f[3], "-") ? f[3] : NULL;
	return coverage_sum_add(sum, &r);
}

int fleet_print_coverage(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
			 unsigned by, struct aux_diag *diag)
{
	struct coverage_sum *sum = coverage_sum_new();
	struct fleet_row row = { 0 };
	int rc = sum ? 0 : -AUX_E_NOMEM;

	(void)by;
	while (!rc && (rc = fleet_row_read(&row, rows, kind, diag)) > 0)
		rc = take_row(sum, &row, diag);
	fleet_row_fini(&row);
	if (!rc)
		rc = coverage_sum_write(sum, out);
	coverage_sum_free(sum);
	return rc;
}
