/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count_slow: counting with a limit, a filter or SHA-256, range by range.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/code/code.h"
#include "decode/sink/columns.h"
#include "decode/lib/trace/gap.h"
#include "decode/sink/count.h"

/* What is kept with a range. */
struct hashed {
	struct iphash_block block;
	bool ready;
	uint8_t *keep; /* with --symbol: 1 per instruction in it */
	bool last_kept; /* the last instruction counts */
};

static void drop_hashed(void *user)
{
	struct hashed *h = user;

	free(h->keep);
}

int count_slow_new(struct count *c)
{
	struct walk_config wc = { .host = c->config.host,
				  .user_size = sizeof(struct hashed),
				  .drop = drop_hashed };

	return walk_new(&c->walk, &wc);
}

static bool in_symbol(const struct count *c, const struct space *space,
		      uint64_t ip)
{
	struct symbol sym;

	find_symbol(c->config.host, space, ip, &sym);
	return sym.name && !strcmp(sym.name, c->config.symbol);
}

static int prepare(struct count *c, const struct space *space,
		   const struct walk_range *r, struct hashed *h)
{
	h->block = iphash_block_init();
	h->last_kept = true;
	if (c->config.symbol) {
		h->keep = malloc(r->n);
		if (!h->keep)
			return -AUX_E_NOMEM;
		walk_charge(c->walk, r->n);
	}
	for (uint32_t i = 0; i < r->n; i++) {
		uint64_t ip = r->first + r->off[i];

		if (h->keep) {
			h->keep[i] = in_symbol(c, space, ip);
			h->last_kept = h->keep[i];
		}
		if (!h->keep || h->keep[i])
			iphash_block_add(&h->block, ip);
	}
	h->ready = true;
	return 0;
}

static void add_sha(struct count *c, const struct walk_range *r,
		    const struct hashed *h, uint32_t n)
{
	uint8_t buf[512];
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t ip = r->first + r->off[i];

		for (unsigned b = 0; (!h->keep || h->keep[i]) && b < 8; b++)
			buf[len++] = (uint8_t)(ip >> (8 * b));
		if (len == sizeof(buf) || i + 1 == n) {
			count_totals_sha(&c->totals, buf, len);
			len = 0;
		}
	}
}

/* The first instructions of a range, as many as the limit leaves. Returns how
 * many of the range were looked at. */
static uint32_t cut_block(const struct walk_range *r, const struct hashed *h,
			  uint64_t left, struct iphash_block *b)
{
	uint32_t i;

	*b = iphash_block_init();
	for (i = 0; i < r->n && b->n < left; i++)
		if (!h->keep || h->keep[i])
			iphash_block_add(b, r->first + r->off[i]);
	return i;
}

/* 1: enough. */
static int add_walked(struct count *c, const struct walk_range *r,
		      const struct hashed *h, unsigned what)
{
	struct sink_report *report = c->config.report;
	uint64_t left = c->config.limit ? c->config.limit - report->n_lines
					: UINT64_MAX;
	struct iphash_block cut = h->block;
	uint32_t n = r->n;

	if (h->block.n >= left)
		n = cut_block(r, h, left, &cut);
	c->run.value = iphash_join(c->run.value, cut.power << 3, cut.value);
	c->run.n += cut.n;
	c->run.n_branches += what != AUX_END_FALL && h->last_kept && n == r->n;
	if (c->config.sha256)
		add_sha(c, r, h, n);
	report->n_lines += cut.n;
	report->n_filtered += r->n - h->block.n;
	return h->block.n >= left;
}

static int add_range(struct count *c, const struct flow_ctx *ctx,
		     const struct aux_flow *ev)
{
	struct walk_range *r;
	struct hashed *h;
	int err = walk_find(c->walk, ctx->space, ev, &r);

	c->config.report->n_insns += ev->n;
	if (err == -AUX_E_NOMEM)
		return err;
	if (err) {
		c->config.report->n_mismatches++;
		c->run.n_gaps++;
		print_mismatch(c->config.out, c->config.host, ctx, ev, err);
		return 0;
	}
	h = r->user;
	if (!h->ready && prepare(c, ctx->space, r, h))
		return -AUX_E_NOMEM;
	return add_walked(c, r, h, ev->what);
}

static int add_path(struct count *c, const struct flow_ctx *ctx,
		    const struct aux_flow *ev)
{
	const struct aux_path *path = ev->path.path;
	struct aux_flow range;
	int err = 0;

	for (uint32_t i = 0; i < path->n_steps; i++) {
		const struct aux_step *step = path->steps[i];

		for (uint32_t k = 0; k < step->n_ranges && !err; k++) {
			range = step->ranges[k];
			range.offset = ev->offset;
			err = add_range(c, ctx, &range);
		}
	}
	return err;
}

int count_slow_flow(struct count *c, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		if (ev[i].kind == AUX_FLOW_GAP && ev[i].what != GAP_SNAPSHOT)
			c->run.n_gaps++;
		else if (ev[i].kind == AUX_FLOW_RANGE)
			err = add_range(c, ctx, &ev[i]);
		else if (ev[i].kind == AUX_FLOW_PATH)
			err = add_path(c, ctx, &ev[i]);
	}
	return err;
}
