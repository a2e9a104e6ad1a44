/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count: how many instructions, per thread and per stream, and a hash of
 * their addresses in order. The output is for machines and stays as it is; the
 * format is in auxdecode.1.
 *
 * The hash of a range is computed once and appended in constant time (iphash.h).
 * The ranges seen last are found without the walk: most of a trace is a few of
 * them over and over.
 */
#include <stdlib.h>
#include <string.h>

#include <internal/iphash.h>
#include <internal/diag.h>

#include "codeview.h"
#include "columns.h"
#include "gap.h"
#include "outbuf.h"
#include "sha256.h"
#include "sink.h"
#include "timeline.h"
#include "walk.h"

/* What is counted of one thread, of one stream, or of all. */
struct tally {
	uint32_t id;
	struct iphash hash;
	uint64_t n_branches;
	uint64_t n_gaps;
	struct sha256 sha;
	bool same_sha; /* alone so far: the total's sha is its own */
};

/* Open addressing; slots hold indexes + 1 into v. */
struct tallies {
	struct tally **v;
	size_t n, max;
	uint32_t *slots;
	size_t n_slots;
	struct tally *current;
};

/* What is kept with a range. */
struct hashed {
	struct iphash_block block;
	bool ready;
	uint8_t *keep; /* with --symbol: 1 per instruction in it */
	bool last_kept; /* the last instruction counts */
};

#define N_HOT 4096 /* power of two */

/* A range that fits the code, and the hash of its block. */
struct hot {
	uint64_t first, last, space;
	uint32_t n; /* 0: free */
	uint32_t mode;
	uint64_t value, power;
};

struct count {
	struct sink_config config;
	struct walk *walk;
	struct tally total;
	struct tallies threads, streams;
	/* of the current thread and stream, not yet in the tallies; the power
	 * is computed when it is needed */
	struct iphash_block run;
	uint64_t run_branches, run_gaps;
	bool plain; /* no limit, no filter, no sha256 */
	struct hot hot[N_HOT];
};

static void drop_hashed(void *user)
{
	struct hashed *h = user;

	free(h->keep);
}

static void free_tallies(struct tallies *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i]);
	free(t->v);
	free(t->slots);
}

static void close_count(void *sink)
{
	struct count *c = sink;

	if (!c)
		return;
	walk_free(c->walk);
	free_tallies(&c->threads);
	free_tallies(&c->streams);
	free(c);
}

static int open_count(void **sink, const struct sink_config *config,
		      struct aux_diag *diag)
{
	struct walk_config wc = { .host = config->host,
				  .user_size = sizeof(struct hashed),
				  .drop = drop_hashed };
	struct count *c;
	int err;

	*sink = NULL;
	if (config->fields)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"count has no columns: -F is for insn and "
				"branch");
	c = calloc(1, sizeof(*c));
	if (!c)
		return -AUX_E_NOMEM;
	c->config = *config;
	c->plain = !config->limit && !config->symbol && !config->sha256;
	c->run = iphash_block_init();
	sha256_init(&c->total.sha);
	err = walk_new(&c->walk, &wc);
	if (err) {
		close_count(c);
		return err;
	}
	*sink = c;
	return 0;
}

static size_t slot_of(const struct tallies *t, uint32_t id)
{
	size_t i = (size_t)(id * UINT32_C(0x9e3779b1)) & (t->n_slots - 1);

	while (t->slots[i] && t->v[t->slots[i] - 1]->id != id)
		i = (i + 1) & (t->n_slots - 1);
	return i;
}

static int grow_tallies(struct tallies *t)
{
	size_t max = t->max ? t->max * 2 : 16;
	struct tally **v = realloc(t->v, max * sizeof(struct tally *));
	uint32_t *slots;

	if (!v)
		return -AUX_E_NOMEM;
	t->v = v;
	slots = calloc(max * 2, sizeof(*slots));
	if (!slots)
		return -AUX_E_NOMEM;
	free(t->slots);
	t->slots = slots;
	t->max = max;
	t->n_slots = max * 2;
	for (size_t i = 0; i < t->n; i++)
		slots[slot_of(t, t->v[i]->id)] = (uint32_t)i + 1;
	return 0;
}

/* The tally of an id becomes the current one. */
static int select_tally(const struct count *c, struct tallies *t, uint32_t id)
{
	struct tally *tally;
	size_t i;

	if (t->n == t->max && grow_tallies(t))
		return -AUX_E_NOMEM;
	i = slot_of(t, id);
	if (!t->slots[i]) {
		tally = calloc(1, sizeof(*tally));
		if (!tally)
			return -AUX_E_NOMEM;
		tally->id = id;
		tally->same_sha = !t->n;
		sha256_init(&tally->sha);
		if (t->n && t->v[0]->same_sha) {
			t->v[0]->sha = c->total.sha;
			t->v[0]->same_sha = false;
		}
		t->v[t->n++] = tally;
		t->slots[i] = (uint32_t)t->n;
	}
	t->current = t->v[t->slots[i] - 1];
	return 0;
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

static void add_sha_bytes(struct count *c, const uint8_t *buf, size_t len)
{
	sha256_update(&c->total.sha, buf, len);
	if (!c->threads.current->same_sha)
		sha256_update(&c->threads.current->sha, buf, len);
	if (!c->streams.current->same_sha)
		sha256_update(&c->streams.current->sha, buf, len);
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
			add_sha_bytes(c, buf, len);
			len = 0;
		}
	}
}

/* M^n, for iphash_block.power. */
static uint64_t power_of(uint64_t n)
{
	unsigned __int128 base = IPHASH_M % IPHASH_P, power = 1;

	for (; n; n >>= 1) {
		if (n & 1)
			power = iphash_reduce(power * base);
		base = iphash_reduce(base * base);
	}
	return (uint64_t)power;
}

static void append_run(struct count *c, uint64_t value, uint64_t power,
		       uint64_t n)
{
	c->run.value = iphash_reduce((unsigned __int128)c->run.value * power +
				     value);
	c->run.n += n;
}

/* What ran since the last change of thread or stream goes into the tallies. */
static void flush_run(struct count *c)
{
	struct tally *t[3] = { c->threads.current, c->streams.current,
			       &c->total };

	c->run.power = power_of(c->run.n);
	for (int i = 0; i < 3 && t[i]; i++) {
		iphash_append_block(&t[i]->hash, &c->run);
		t[i]->n_branches += c->run_branches;
		t[i]->n_gaps += c->run_gaps;
	}
	c->run = iphash_block_init();
	c->run_branches = c->run_gaps = 0;
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

/* With a limit, a filter or SHA-256; 1: enough. */
static int count_slowly(struct count *c, const struct walk_range *r,
			const struct hashed *h, unsigned what)
{
	struct sink_report *report = c->config.report;
	uint64_t left = c->config.limit ? c->config.limit - report->n_lines
					: UINT64_MAX;
	struct iphash_block cut = h->block;
	uint32_t n = r->n;

	if (h->block.n >= left)
		n = cut_block(r, h, left, &cut);
	append_run(c, cut.value, cut.power, cut.n);
	c->run_branches += what != AUX_END_FALL && h->last_kept && n == r->n;
	if (c->config.sha256)
		add_sha(c, r, h, n);
	report->n_lines += cut.n;
	report->n_filtered += r->n - h->block.n;
	return h->block.n >= left;
}

static inline struct hot *find_hot(struct count *c, const struct aux_flow *ev)
{
	uint64_t h = ev->range.first ^ ev->range.last << 5;

	return &c->hot[(h ^ h >> 12) & (N_HOT - 1)];
}

static int count_range(struct count *c, const struct flow_ctx *ctx,
		       const struct aux_flow *ev)
{
	struct walk_range *r;
	struct hashed *h;
	int err = walk_find(c->walk, ctx->space, ev, &r);

	if (err)
		return err;
	h = r->user;
	if (!h->ready && prepare(c, ctx->space, r, h))
		return -AUX_E_NOMEM;
	if (!c->plain)
		return count_slowly(c, r, h, ev->what);
	*find_hot(c, ev) = (struct hot){
		.first = ev->range.first, .last = ev->range.last, .n = ev->n,
		.mode = ev->flags & AUX_FLOW_MODE_MASK,
		.space = ctx->space ? ctx->space->id : 0,
		.value = h->block.value, .power = h->block.power,
	};
	append_run(c, h->block.value, h->block.power, ev->n);
	c->run_branches += ev->what != AUX_END_FALL;
	c->config.report->n_lines += ev->n;
	return 0;
}

/* Counts a range that was counted lately. False: it was not. */
static inline bool count_hot(struct count *c, const struct aux_flow *ev,
			     uint64_t space)
{
	const struct hot *h = find_hot(c, ev);

	if (h->first != ev->range.first || h->last != ev->range.last ||
	    h->n != ev->n || h->mode != (ev->flags & AUX_FLOW_MODE_MASK) ||
	    h->space != space)
		return false;
	append_run(c, h->value, h->power, h->n);
	c->run_branches += ev->what != AUX_END_FALL;
	c->config.report->n_lines += h->n;
	return true;
}

static int flow_count(void *sink, const struct flow_ctx *ctx,
		      const struct aux_flow *ev, size_t n)
{
	struct count *c = sink;
	uint64_t space = ctx->space ? ctx->space->id : 0;
	int err = 0;

	if (!c->threads.current || c->threads.current->id != ctx->tid ||
	    c->streams.current->id != ctx->stream) {
		flush_run(c);
		if (select_tally(c, &c->threads, ctx->tid) ||
		    select_tally(c, &c->streams, ctx->stream))
			return -AUX_E_NOMEM;
	}
	for (size_t i = 0; i < n && !err; i++) {
		if (ev[i].kind == AUX_FLOW_GAP && ev[i].what != GAP_SNAPSHOT)
			c->run_gaps++;
		if (ev[i].kind != AUX_FLOW_RANGE)
			continue;
		c->config.report->n_insns += ev[i].n;
		if (count_hot(c, &ev[i], space))
			continue;
		err = count_range(c, ctx, &ev[i]);
		if (err >= 0 || err == -AUX_E_NOMEM)
			continue;
		c->config.report->n_mismatches++;
		c->run_gaps++;
		print_mismatch(c->config.out, c->config.host, ctx, &ev[i], err);
		err = 0;
	}
	return err;
}

static int compare_ids(const void *a, const void *b)
{
	int32_t x = (int32_t)(*(struct tally *const *)a)->id;
	int32_t y = (int32_t)(*(struct tally *const *)b)->id;

	return (x > y) - (x < y);
}

/* "KIND ID insns N hash H branches B gaps G[ sha256 S]" */
static void print_tally(const struct count *c, const char *kind,
			const struct tally *t)
{
	struct outbuf *out = c->config.out;
	struct sha256 sha;
	char text[65];

	outbuf_str(out, kind);
	if (t != &c->total)
		outbuf_printf(out, " %d", (int32_t)t->id);
	outbuf_printf(out, " insns %llu hash %016llx branches %llu gaps %llu",
		      (unsigned long long)t->hash.n,
		      (unsigned long long)t->hash.value,
		      (unsigned long long)t->n_branches,
		      (unsigned long long)t->n_gaps);
	if (c->config.sha256) {
		sha = t->same_sha ? c->total.sha : t->sha;
		sha256_final(&sha, text);
		outbuf_printf(out, " sha256 %s", text);
	}
	outbuf_put(out, "\n", 1);
}

static void print_tallies(const struct count *c, const char *kind,
			  struct tallies *t)
{
	if (t->n)
		qsort(t->v, t->n, sizeof(struct tally *), compare_ids);
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i]->hash.n || t->v[i]->n_gaps)
			print_tally(c, kind, t->v[i]);
}

static int finish_count(void *sink, struct aux_diag *diag)
{
	struct count *c = sink;

	(void)diag;
	flush_run(c);
	print_tallies(c, "thread", &c->threads);
	print_tallies(c, "stream", &c->streams);
	print_tally(c, "total", &c->total);
	return 0;
}

const struct sink_ops sink_count = {
	.name = "count",
	.help = "instructions per thread and per stream, with a hash",
	.open = open_count,
	.flow = flow_count,
	.finish = finish_count,
	.close = close_count,
};
