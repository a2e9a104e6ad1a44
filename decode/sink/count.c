/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count: the number of instructions, per thread, per stream and in all,
 * and a hash of their addresses in order. Two decoders that print the same line
 * saw the same flow.
 *
 * The hash of a sequence is a polynomial in M (common/iphash.h): h' = h * M +
 * ip + 1, modulo 2^61 - 1. It composes: appending a block of n instructions is
 * h * M^n + block, in constant time. So whatever comes again is hashed once,
 * and its sums are added from then on:
 *
 *	totals    per thread, stream, all; hash, instructions, branches, gaps. The hash of
 *		  all is made of the streams' at the end (sum_streams)
 *	run       what was added since the thread or stream last changed
 *	path      kept by the decoder: its sums are in path->user, one join
 *	step      part of paths: its sums are in step->user
 *	range     one block of code without a taken branch: in counter.hot
 *
 * Three ways lead into a run. The fast one (join_pairs) takes two kept and
 * known paths at a time; it is all that most events see, and host instructions
 * per event are what it is measured by. The slow one (add_new) computes what is
 * not known yet: the sums of a step or path are facts of its code alone, so it
 * does not matter which thread computes them first. The filtered one
 * (flow_filtered) is for --limit, --symbol and --sha256, which must look at
 * single instructions; it shares only the totals.
 *
 * Ownership: a counter and its run belong to one thread. With parts
 * (count_part.c) each worker has a counter of its own and hands over runs,
 * which the session's thread appends to the totals in the order of the flow.
 * The totals are the session thread's alone.
 *
 * The output is for machines and does not change; its format is in auxdecode.1.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "common/markup.h"
#include "common/diag.h"
#include "common/iphash.h"
#include "common/outbuf.h"
#include "common/sha256.h"
#include "common/x86_insn.h"
#include "decode/lib/code/code.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/lib/trace/gap.h"
#include "decode/sink/columns.h"
#include "decode/sink/count.h"
#include "decode/sink/sink.h"

/* Of one thread, of one stream, or of all. */
struct tally {
	uint32_t id;
	struct iphash hash;
	uint64_t n_branches;
	uint64_t n_gaps;
	uint64_t n_payloads;
	struct sha256 sha;
	bool same_sha;		/* alone so far: the total's sha is its own */
};

/* Open addressing; slots hold indexes + 1 into v. */
struct tallies {
	struct tally **v;
	size_t n, max;
	uint32_t *slots;
	size_t n_slots;
	struct tally *current;
};

#define COUNT_DIGITS 5		/* of a number of instructions, up to 2^40 */

struct count_totals {
	struct tally all;
	struct tallies threads, streams;
	uint64_t powers[COUNT_DIGITS][256];	/* M^(digit << 8 * its place) */
};

struct count_config {
	uint64_t limit;	/* -n, 0: none */
	bool sha256;	/* --sha256: of the addresses, as u64 LE */
};

struct count {
	struct sink_env env;
	struct count_config config;
	struct count_totals totals;
	struct counter *counter;	/* NULL: a limit, a filter, SHA-256 */
	struct walk *walk;		/* without counter */
	struct count_run run;		/* without counter */
	struct count_pool *pool;	/* NULL: no partial results */
};

/* ---- the totals ---- */

static void count_totals_init(struct count_totals *t)
{
	uint64_t base = 1;

	*t = (struct count_totals){ 0 };
	sha256_init(&t->all.sha);
	for (unsigned i = 0; i < COUNT_DIGITS; i++) {
		uint64_t power = 1;

		base = i ? iphash_reduce((unsigned __int128)t->powers[i - 1][255] *
					 base) :
			   IPHASH_M % IPHASH_P;
		for (unsigned k = 0; k < 256; k++) {
			t->powers[i][k] = power;
			power = iphash_reduce((unsigned __int128)power * base);
		}
	}
}

/* M^n, by the digits of n. */
static uint64_t power_of(const struct count_totals *t, uint64_t n)
{
	uint64_t power = t->powers[0][n & 255];

	if (n >> 8 * COUNT_DIGITS)
		return iphash_power(n);
	for (unsigned i = 1; n >>= 8; i++)
		power = iphash_reduce((unsigned __int128)power *
				      t->powers[i][n & 255]);
	return power;
}

/* The list and its tallies; t itself is the caller's. */
static void free_tallies(struct tallies *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i]);
	free(t->v);
	free(t->slots);
}

static void count_totals_fini(struct count_totals *t)
{
	free_tallies(&t->threads);
	free_tallies(&t->streams);
}

/* The slot of an id, or the free one where it belongs. Never full:
 * grow_tallies. */
static size_t slot_of(const struct tallies *t, uint32_t id)
{
	size_t i = (size_t)(id * UINT32_C(0x9e3779b1)) & (t->n_slots - 1);

	while (t->slots[i] && t->v[t->slots[i] - 1]->id != id)
		i = (i + 1) & (t->n_slots - 1);
	return i;
}

/* Doubles both arrays. The slots are rebuilt; tallies do not move, so current
 * stays valid. */
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

/*
 * Makes the tally of an id the current one. While there is only one, its
 * SHA-256 is the total's (same_sha), which saves hashing every address twice;
 * the second one that appears ends that, and the first takes a copy.
 */
static int select_tally(const struct tally *all, struct tallies *t, uint32_t id)
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
			t->v[0]->sha = all->sha;
			t->v[0]->same_sha = false;
		}
		t->v[t->n++] = tally;
		t->slots[i] = (uint32_t)t->n;
	}
	t->current = t->v[t->slots[i] - 1];
	return 0;
}

/* These are the current ones from now on. 0, or -AUX_E_NOMEM. */
static int count_totals_select(struct count_totals *t, uint32_t tid, uint32_t stream)
{
	if (select_tally(&t->all, &t->threads, tid) ||
	    select_tally(&t->all, &t->streams, stream))
		return -AUX_E_NOMEM;
	return 0;
}

/* Appends to the current ones, if there are any, and adds to all what has no order;
 * empties the run. */
static void count_totals_add(struct count_totals *t, struct count_run *run)
{
	struct tally *v[2] = { t->threads.current, t->streams.current };
	struct iphash_block block = { .value = iphash_reduce(run->value),
				      .power = power_of(t, run->n), .n = run->n };

	for (int i = 0; i < 2 && v[i]; i++) {
		iphash_append_block(&v[i]->hash, &block);
		v[i]->n_branches += run->n_branches;
		v[i]->n_gaps += run->n_gaps;
		v[i]->n_payloads += run->n_payloads;
	}
	t->all.n_branches += run->n_branches;
	t->all.n_gaps += run->n_gaps;
	t->all.n_payloads += run->n_payloads;
	*run = (struct count_run){ 0 };
}

/* SHA-256 cannot be composed from blocks, so bytes go into each digest in
 * order. */
static void count_totals_sha(struct count_totals *t, const void *bytes,
			     size_t len)
{
	sha256_update(&t->all.sha, bytes, len);
	if (!t->threads.current->same_sha)
		sha256_update(&t->threads.current->sha, bytes, len);
	if (!t->streams.current->same_sha)
		sha256_update(&t->streams.current->sha, bytes, len);
}

/* Signed, so that -1 (no thread known) comes first. */
static int compare_ids(const void *a, const void *b)
{
	int32_t x = (int32_t)(*(struct tally *const *)a)->id;
	int32_t y = (int32_t)(*(struct tally *const *)b)->id;

	return (x > y) - (x < y);
}

/* "KIND ID insns N hash H branches B gaps G[ payloads P][ sha256 S]" */
static void print_tally(const struct count_totals *all, struct outbuf *out,
			const char *kind, const struct tally *t, bool with_sha)
{
	struct sha256 sha;
	char text[65];

	outbuf_str(out, kind);
	if (t != &all->all)
		outbuf_printf(out, " %d", (int32_t)t->id);
	outbuf_printf(out, " insns %llu hash %016llx branches %llu gaps %llu",
		      (unsigned long long)t->hash.n,
		      (unsigned long long)t->hash.value,
		      (unsigned long long)t->n_branches,
		      (unsigned long long)t->n_gaps);
	if (t->n_payloads)
		outbuf_printf(out, " payloads %llu",
			      (unsigned long long)t->n_payloads);
	if (with_sha) {
		sha = t->same_sha ? all->all.sha : t->sha;
		sha256_final(&sha, text);
		outbuf_printf(out, " sha256 %s", text);
	}
	outbuf_put(out, "\n", 1);
}

/* Sorted by id; threads in which nothing ran are left out. */
static void print_tallies(const struct count_totals *all, struct outbuf *out,
			  const char *kind, struct tallies *t, bool sha)
{
	if (t->n)
		qsort(t->v, t->n, sizeof(struct tally *), compare_ids);
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i]->hash.n || t->v[i]->n_gaps ||
		    t->v[i]->n_payloads)
			print_tally(all, out, kind, t->v[i], sha);
}

static void put_tally(const struct count_totals *all, struct outbuf *out,
		      const struct tally *t, bool with_sha)
{
	struct sha256 sha;
	char text[65];

	outbuf_json_number(out, "instructions", t->hash.n);
	outbuf_printf(out, ",\"hash\":\"%016llx\"",
		      (unsigned long long)t->hash.value);
	outbuf_json_number(out, "branches", t->n_branches);
	outbuf_json_number(out, "gaps", t->n_gaps);
	outbuf_json_number(out, "payloads", t->n_payloads);
	if (with_sha) {
		sha = t->same_sha ? all->all.sha : t->sha;
		sha256_final(&sha, text);
		outbuf_json_text(out, "sha256", text);
	}
	outbuf_str(out, "}");
}

/* The same as print_tallies, as an array. */
static void put_tallies(const struct count_totals *all, struct outbuf *out,
			const char *kind, struct tallies *t, bool sha)
{
	bool first = true;

	if (t->n)
		qsort(t->v, t->n, sizeof(struct tally *), compare_ids);
	outbuf_printf(out, ",\n\"%ss\":[", kind);
	for (size_t i = 0; i < t->n; i++) {
		if (!(t->v[i]->hash.n | t->v[i]->n_gaps |
		      t->v[i]->n_payloads))
			continue;
		outbuf_printf(out, "%s{\"%s\":%d", first ? "\n" : ",\n", kind,
			      (int32_t)t->v[i]->id);
		first = false;
		put_tally(all, out, t->v[i], sha);
	}
	outbuf_str(out, "]");
}

/*
 * The hash of the total: of the streams' addresses, one stream after the other by number.
 * Every stream has its own order, so this takes no order between them, which each stint
 * of a merge would have to wait for.
 */
static void sum_streams(struct count_totals *t)
{
	t->all.hash = (struct iphash){ 0 };
	if (t->streams.n)
		qsort(t->streams.v, t->streams.n, sizeof(struct tally *), compare_ids);
	for (size_t i = 0; i < t->streams.n; i++) {
		const struct iphash *h = &t->streams.v[i]->hash;
		struct iphash_block block = { .value = h->value, .power = power_of(t, h->n),
					      .n = h->n };

		iphash_append_block(&t->all.hash, &block);
	}
}

static void count_totals_json(struct count_totals *t, struct outbuf *out,
			      bool sha)
{
	sum_streams(t);
	put_tallies(t, out, "thread", &t->threads, sha);
	put_tallies(t, out, "stream", &t->streams, sha);
	outbuf_printf(out, ",\n\"total\":{\"threads\":%zu", t->threads.n);
	put_tally(t, out, &t->all, sha);
}

static void count_totals_print(struct count_totals *t, struct outbuf *out,
			       bool sha)
{
	sum_streams(t);
	print_tallies(t, out, "thread", &t->threads, sha);
	print_tallies(t, out, "stream", &t->streams, sha);
	print_tally(t, out, "total", &t->all, sha);
}

/*
 * ---- filtered: a limit, --symbol, --sha256 ----
 *
 * The hash of a range is kept with it, and for --symbol which of its
 * instructions count. A limit may end inside of a range.
 */

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

/* Ranges keep a struct hashed; walk frees it with the range. */
static int open_filtered(struct count *c)
{
	struct walk_config wc = { .host = c->env.host,
				  .user_size = sizeof(struct hashed),
				  .drop = drop_hashed };

	return walk_new(&c->walk, &wc);
}

/* Computes what is kept with a range. With --symbol every instruction is looked
 * up, for a range may span two functions. */
static int prepare(struct count *c, const struct space *space,
		   const struct walk_range *r, struct hashed *h)
{
	h->block = iphash_block_init();
	h->last_kept = true;
	if (c->env.symbol) {
		h->keep = malloc(r->n);
		if (!h->keep)
			return -AUX_E_NOMEM;
		walk_charge(c->walk, r->n);
	}
	for (uint32_t i = 0; i < r->n; i++) {
		uint64_t ip = r->first + r->off[i];

		if (h->keep) {
			h->keep[i] = in_symbol(c->env.host, space, ip);
			h->last_kept = h->keep[i];
		}
		if (!h->keep || h->keep[i])
			iphash_block_add(&h->block, ip);
	}
	h->ready = true;
	return 0;
}

/* The first n addresses as 64-bit little endian words. */
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

/* Adds a range, or the part of it that the limit leaves. 1: the limit is
 * reached. */
static int add_walked(struct count *c, const struct walk_range *r,
		      const struct hashed *h, unsigned what)
{
	struct sink_report *report = c->env.report;
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

/* A range that does not fit the code is reported and counted as a gap, not as
 * instructions. As flow. */
static int add_range_filtered(struct count *c, const struct flow_ctx *ctx,
				const struct aux_flow *ev)
{
	struct walk_range *r;
	struct hashed *h;
	int err = walk_find(c->walk, ctx->space, ev, &r);

	c->env.report->n_insns += ev->n;
	if (err == -AUX_E_NOMEM)
		return err;
	if (err) {
		c->env.report->n_mismatches++;
		c->run.n_gaps++;
		if (!c->env.json)
			print_mismatch(c->env.out, c->env.host, ctx, ev, err);
		return 0;
	}
	h = r->user;
	if (!h->ready && prepare(c, ctx->space, r, h))
		return -AUX_E_NOMEM;
	return add_walked(c, r, h, ev->what);
}

/* Range by range, at the offset of the path. */
static int add_path_filtered(struct count *c, const struct flow_ctx *ctx,
			       const struct aux_flow *ev)
{
	struct path_ranges ranges = { .path = ev };
	struct aux_flow range;
	int err = 0;

	while (!err && path_next_range(&ranges, &range))
		err = add_range_filtered(c, ctx, &range);
	return err;
}

/* Does not count for a limit, which is of instructions. */
static int add_payload(struct count *c)
{
	c->run.n_payloads++;
	c->env.report->n_payloads++;
	return 0;
}

static int flow_filtered(struct count *c, const struct flow_ctx *ctx,
			   const struct aux_flow *ev, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		if (ev[i].kind == AUX_FLOW_GAP && ev[i].what != GAP_SNAPSHOT)
			c->run.n_gaps++;
		else if (ev[i].kind == AUX_FLOW_PAYLOAD && !c->env.symbol)
			err = add_payload(c);
		else if (ev[i].kind == AUX_FLOW_RANGE)
			err = add_range_filtered(c, ctx, &ev[i]);
		else if (ev[i].kind == AUX_FLOW_PATH)
			err = add_path_filtered(c, ctx, &ev[i]);
	}
	return err;
}

/*
 * ---- what a step or a path adds ----
 *
 * The code of a range is read to see that it has as many instructions as the
 * decoder says, and where they begin. The two loops here know the usual cases
 * only: code that lies in one piece, 64-bit x86 or fixed-size Arm. All else
 * goes to walk, which knows every case; what fits the code here fits it there.
 */

#define MAX_INSN 15
#define MAX_INSNS (1u << 20) /* COUNT_SUMS of them fit 32 bits */
#define M8 (IPHASH_M << 3)

/* The powers of M that steps of usual length need; others are computed when
 * they come. */
static void memo_init(struct count_memo *l, const struct sink_host *host,
			    struct walk *walk)
{
	uint64_t power = 1;

	*l = (struct count_memo){ .walk = walk, .host = host };
	for (unsigned n = 0; n < COUNT_POWERS; n++) {
		l->power8[n] = power << 3;
		power = iphash_reduce((unsigned __int128)power * IPHASH_M);
	}
}

/* 8 * M^n: iphash_join wants the power shifted by the three bits it folds. */
static uint64_t power8_of(const struct count_memo *l, uint32_t n)
{
	return n < COUNT_POWERS ? l->power8[n] : iphash_power(n) << 3;
}

/* The bytes at first, if those up to the longest instruction at last are
 * there. */
static const uint8_t *find_code(struct count_memo *l, const struct space *space,
				const struct aux_flow *range)
{
	uint64_t first = range->range.first, last = range->range.last;
	struct aux_code *a = &l->area;

	if (!space || last < first || last - first >= UINT32_MAX)
		return NULL;
	if (l->area_space != space->id || first < a->start || first >= a->end) {
		l->area_space = 0;
		if (l->host->code(l->host->priv, space, first, a) ||
		    first < a->start || first >= a->end)
			return NULL;
		l->area_space = space->id;
	}
	return last < a->end && a->end - last >= MAX_INSN ?
		       a->bytes + (first - a->start) : NULL;
}

/* Appends the instructions of a range by decoding their lengths. False, and
 * *value unchanged, if they do not end exactly at range.last. */
static bool hash_x86(uint64_t *value, const uint8_t *p, uint64_t add,
		     const struct aux_flow *range)
{
	const uint8_t *last = p + (range->range.last - range->range.first);
	uint64_t v = iphash_join(*value, M8, add);
	struct x86_insn insn;
	int size;

	for (uint32_t i = 1; i < range->n; i++) {
		size = x86_insn_decode(p, MAX_INSN, &insn);
		p += size;
		add += (unsigned)size;
		if (size <= 0 || p > last)
			return false;
		v = iphash_join(v, M8, add);
	}
	*value = v;
	return p == last;
}

/* The same where all instructions have four bytes. */
static bool hash_words(uint64_t *value, uint64_t add,
		       const struct aux_flow *range)
{
	if (range->range.last - range->range.first != 4 * (range->n - UINT64_C(1)))
		return false;
	for (uint32_t i = 0; i < range->n; i++, add += 4)
		*value = iphash_join(*value, M8, add);
	return true;
}

/* False where it takes more than the loops above: the code is in pieces, or the
 * mode has variable length and is not x86-64. */
static bool hash_without_walk(struct count_memo *l, const struct space *space,
			 const struct aux_flow *range, uint64_t *value)
{
	const uint8_t *p = find_code(l, space, range);
	uint64_t first = range->range.first;
	uint64_t add = iphash_fold(first) + 1;

	if (!p || !range->n)
		return false;
	switch (range->flags & AUX_FLOW_MODE_MASK) {
	case AUX_FLOW_MODE_X86_64:
		return hash_x86(value, p, add, range);
	case AUX_FLOW_MODE_A64:
	case AUX_FLOW_MODE_A32:
		return hash_words(value, add, range);
	}
	return false;
}

/* Appends a range by whichever way knows it. 0, or an error where it does not
 * fit the code. */
static int hash_range_into(struct count_memo *l,
				  const struct space *space,
				  const struct aux_flow *range, uint64_t *value)
{
	uint64_t v = *value;
	struct walk_range r;
	int err;

	if (hash_without_walk(l, space, range, &v)) {
		*value = v;
		return 0;
	}
	err = walk_once(l->walk, space, range, &r);
	for (uint32_t i = 0; !err && i < r.n; i++)
		*value = iphash_join(*value, M8,
				     iphash_fold(r.first + r.off[i]) + 1);
	return err;
}

/* Fills step->user, or leaves user[1] at 0, if a range does not fit or the
 * numbers would overflow the packed sums. 0, or -AUX_E_NOMEM. */
static int learn_step(struct count_memo *l, const struct space *space,
			    struct aux_step *step)
{
	uint64_t value = 0, n = 0, n_branches = 0;
	int err;

	if (step->n_insns >= MAX_INSNS)
		return 0;
	for (uint32_t i = 0; i < step->n_ranges; i++) {
		const struct aux_flow *range = &step->ranges[i];

		err = hash_range_into(l, space, range, &value);
		if (err)
			return err == -AUX_E_NOMEM ? err : 0;
		n += range->n;
		n_branches += range->what != AUX_END_FALL;
	}
	if (n != step->n_insns)
		return 0;
	step->user[0] = iphash_reduce(value);
	step->user[1] = power8_of(l, step->n_insns);
	step->user[2] = n << 32 | n_branches;
	return 0;
}

/* Joins the sums of the steps, if all of them are known. */
static void learn_path(struct aux_path *path)
{
	uint64_t value = 0, power = 1, sums = 0;

	if (path->n_insns >= MAX_INSNS)
		return;
	for (uint32_t i = 0; i < path->n_steps; i++) {
		const struct aux_step *step = path->steps[i];

		if (!step->user[1] || sums >> 32 >= MAX_INSNS)
			return;
		value = iphash_join(value, step->user[1], step->user[0]);
		power = iphash_join(power, step->user[1], 0);
		sums += step->user[2];
	}
	if (sums >> 32 != path->n_insns)
		return;
	path->user[0] = iphash_reduce(value);
	path->user[1] = iphash_reduce(power) << 3;
	path->user[2] = sums;
}

/*
 * ---- the fast path ----
 *
 * In these loops events wait for memory and for the chain of multiplications of
 * the hash, nothing else: what they touch is prefetched AHEAD events early, and
 * the sums are collected in registers.
 */

#define AHEAD 16 /* events: paths of large programs are in no near cache */
#define MAX_WALK ((size_t)32 << 20) /* bytes kept of ranges */

int counter_init(struct counter *c, const struct sink_host *host)
{
	struct walk_config wc = { .host = host,
				  .user_size = sizeof(struct iphash_block),
				  .max_bytes = MAX_WALK };

	if (walk_new(&c->walk, &wc))
		return -AUX_E_NOMEM;
	memo_init(&c->memo, host, c->walk);
	return 0;
}

void counter_fini(struct counter *c)
{
	walk_free(c->walk);
}

/* Instructions and branches, as user[2] has them, of COUNT_SUMS at most. */
static inline void add_sums(struct count_run *run, uint64_t sums)
{
	run->n += sums >> 32;
	run->n_branches += (uint32_t)sums;
}

/* user of a step or path */
static inline void join(struct count_run *run, const uint64_t user[3])
{
	run->value = iphash_join(run->value, user[1], user[0]);
	add_sums(run, user[2]);
}

/* The block of a range that walk has taken apart. */
static struct iphash_block hash_range(const struct walk_range *r)
{
	struct iphash_block b = iphash_block_init();

	for (uint32_t i = 0; i < r->n; i++)
		iphash_block_add(&b, r->first + r->off[i]);
	return b;
}

/* The one slot where this range can be: direct mapped, no search. */
static inline struct count_hot *find_hot(struct counter *c,
					 const struct aux_flow *ev)
{
	uint64_t h = ev->range.first ^ ev->range.last << 5;

	return &c->hot[(h ^ h >> 12) & (COUNT_HOT - 1)];
}

/* Is it this range, and in this space? */
static inline bool is_hot(const struct count_hot *h, const struct aux_flow *ev,
			  uint64_t space)
{
	return h->first == ev->range.first && h->last == ev->range.last &&
	       h->n == ev->n && h->mode == (ev->flags & AUX_FLOW_MODE_MASK) &&
	       h->space == space;
}

static inline void join_hot(struct count_run *run, const struct count_hot *h,
			    const struct aux_flow *ev)
{
	run->value = iphash_join(run->value, h->power8, h->value);
	run->n += h->n;
	run->n_branches += ev->what != AUX_END_FALL;
}

/* A range that is not in hot: walks it, or takes what walk kept, and puts it
 * there. A mismatch is reported to the owner and counts as a gap. */
static int add_range(struct counter *c, const struct flow_ctx *ctx,
		     const struct aux_flow *ev)
{
	struct iphash_block *b;
	struct walk_range *r;
	struct count_hot *hot = find_hot(c, ev);
	int err = walk_find(c->walk, ctx->space, ev, &r);

	if (err == -AUX_E_NOMEM)
		return err;
	if (err) {
		c->report.n_insns += ev->n;
		c->report.n_mismatches++;
		c->run.n_gaps++;
		return c->mismatch(c->priv, ctx, ev, err);
	}
	b = r->user;
	if (!b->power)
		*b = hash_range(r);
	*hot = (struct count_hot){ .first = ev->range.first,
				   .last = ev->range.last,
				   .n = ev->n,
				   .mode = ev->flags & AUX_FLOW_MODE_MASK,
				   .space = ctx->space ? ctx->space->id : 0,
				   .value = b->value,
				   .power8 = b->power << 3 };
	join_hot(&c->run, hot, ev);
	return 0;
}

/* The ranges of a step, one by one, each at the place of the path. */
static int add_ranges(struct counter *c, const struct flow_ctx *ctx,
		      const struct aux_step *step, uint64_t offset)
{
	struct aux_flow ev;
	int err = 0;

	for (uint32_t i = 0; i < step->n_ranges && !err; i++) {
		ev = step_range(step, i, offset);
		err = add_range(c, ctx, &ev);
	}
	return err;
}

/* Counts a step, known or not. */
static int add_step(struct counter *c, const struct flow_ctx *ctx,
		    struct aux_step *step, uint64_t offset)
{
	int err;

	if (!step->user[1]) {
		err = learn_step(&c->memo, ctx->space, step);
		if (err)
			return err;
	}
	if (!step->user[1])
		return add_ranges(c, ctx, step, offset);
	join(&c->run, step->user);
	return 0;
}

static int add_path(struct counter *c, const struct flow_ctx *ctx,
		    const struct aux_flow *ev)
{
	struct aux_path *path = ev->path.path;
	int err = 0;

	if (path->kept)	/* most of its steps were in others before */
		learn_path(path);
	if (path->kept && path->user[1]) {
		join(&c->run, path->user);
		return 0;
	}
	for (uint32_t i = 0; i < path->n_steps && !err; i++)
		err = add_step(c, ctx, path->steps[i], ev->offset);
	if (!err && path->kept)
		learn_path(path);
	return err;
}

/* What is not known yet. */
static int add_new(struct counter *c, const struct flow_ctx *ctx,
		   const struct aux_flow *ev)
{
	if (ev->kind == AUX_FLOW_PATH)
		return add_path(c, ctx, ev);
	return add_range(c, ctx, ev);
}

/* Adds all of a path that is not kept; false, and nothing, if a step is new. */
static inline bool join_steps(struct count_run *run, const struct aux_path *path)
{
	struct count_run sum = *run;

	for (uint32_t i = 0; i < path->n_steps; i++) {
		if (!path->steps[i]->user[1])
			return false;
		join(&sum, path->steps[i]->user);
	}
	*run = sum;
	return true;
}

static inline bool join_path(struct count_run *run, const struct aux_path *path)
{
	if (!path->kept)
		return join_steps(run, path);
	if (!path->user[1])
		return false;
	join(run, path->user);
	return true;
}

/* Adds what is known without computing. False: nothing was added, add_new
 * must. */
static inline bool join_event(struct count_run *run, struct counter *c,
			      const struct aux_flow *ev, uint64_t space)
{
	const struct count_hot *hot;

	if (ev->kind == AUX_FLOW_PATH)
		return join_path(run, ev->path.path);
	if (ev->kind == AUX_FLOW_RANGE) {
		hot = find_hot(c, ev);
		if (!is_hot(hot, ev, space))
			return false;
		join_hot(run, hot, ev);
	} else if (ev->kind == AUX_FLOW_GAP) {
		run->n_gaps += ev->what != GAP_SNAPSHOT;
	} else if (ev->kind == AUX_FLOW_PAYLOAD) {
		run->n_payloads++;
		c->report.n_payloads++;
	}
	return true;
}

/* A path that is kept and known: most of all events. */
static inline bool is_ready(const struct aux_flow *ev)
{
	const struct aux_path *path = ev->path.path;

	return ev->kind == AUX_FLOW_PATH && path->kept && path->user[1];
}

/* One multiplication; the caller folds after two of them (iphash_extend). */
static inline uint64_t extend(uint64_t value, const struct aux_path *path)
{
	return iphash_extend(value, path->user[1], path->user[0]);
}

/* Prefetches what the event will add. If it is no PATH, the address is garbage,
 * which a prefetch ignores. */
static inline void fetch(const struct aux_flow *ev)
{
	uintptr_t path = (uintptr_t)ev->path.path;

	__builtin_prefetch((void *)(path + offsetof(struct aux_path, user)));
}

/*
 * Counts pairs of events that are ready, of n <= COUNT_SUMS; ahead more can be
 * looked at. Returns where they end. A chain of multiplications is all that one
 * event waits for. A function of its own: all is in registers.
 */
static __attribute__((noinline)) const struct aux_flow *
join_pairs(struct count_run *run, const struct aux_flow *ev, size_t n,
	   size_t ahead)
{
	const struct aux_flow *end = ev + n - 1;
	uint64_t value = run->value, sums = 0;

	for (; ev < end && is_ready(&ev[0]) && is_ready(&ev[1]); ev += 2) {
		fetch(&ev[ahead]);
		fetch(&ev[ahead + 1]);
		value = extend(value, ev[0].path.path);
		value = extend(value, ev[1].path.path);
		value = iphash_fold(value);
		sums += ev[0].path.path->user[2];
		sums += ev[1].path.path->user[2];
	}
	run->value = value;
	add_sums(run, sums);
	return ev;
}

/* Counts events up to the first that is not known. Returns how many. */
static size_t add_known(struct counter *c, uint64_t space,
			const struct aux_flow *ev, size_t n)
{
	const struct aux_flow *p = ev, *end = ev + n;
	struct count_run run = c->run;
	size_t left;

	while (p < end) {
		left = (size_t)(end - p);
		if (left > COUNT_SUMS)
			left = COUNT_SUMS;
		p = left > AHEAD ? join_pairs(&run, p, left - AHEAD, AHEAD) :
				   join_pairs(&run, p, left, 0);
		if (p < end && !join_event(&run, c, p, space))
			break;
		p += p < end;
	}
	c->run = run;
	return (size_t)(p - ev);
}

/*
 * Alternates between the loop over what is known and the single events that are
 * not. Every instruction that was added was also shown, so both numbers of the
 * report grow alike.
 */
int counter_add(struct counter *c, const struct flow_ctx *ctx,
		const struct aux_flow *ev, size_t n)
{
	uint64_t space = ctx->space ? ctx->space->id : 0, before = c->run.n;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		i += add_known(c, space, ev + i, n - i);
		if (i < n)
			err = add_new(c, ctx, &ev[i]);
	}
	c->report.n_insns += c->run.n - before;
	c->report.n_lines += c->run.n - before;
	return err;
}

static void close_count(void *sink)
{
	struct count *c = sink;

	if (!c)
		return;
	if (c->counter)
		counter_fini(c->counter);
	free(c->counter);
	walk_free(c->walk);
	count_pool_free(c->pool);
	count_totals_fini(&c->totals);
	free(c);
}

/* The counter's callback when there are no parts: prints at once. */
static int report_mismatch(void *priv, const struct flow_ctx *ctx,
			   const struct aux_flow *ev, int err)
{
	struct count *c = priv;

	if (!c->env.json)
		print_mismatch(c->env.out, c->env.host, ctx, ev, err);
	return 0;
}

/* The counter, and a pool of parts for chunks that other threads decode. */
static int open_plain(struct count *c)
{
	int err = count_pool_new(&c->pool, c->env.host);

	if (err)
		return err;
	c->counter = calloc(1, sizeof(*c->counter));
	if (!c->counter)
		return -AUX_E_NOMEM;
	c->counter->mismatch = report_mismatch;
	c->counter->priv = c;
	return counter_init(c->counter, c->env.host);
}

static int open_count(void **sink, const struct sink_env *env,
		      const void *options, struct aux_diag *diag)
{
	const struct count_config *config = options;
	struct count *c;
	int err;

	*sink = NULL;
	(void)diag;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -AUX_E_NOMEM;
	c->env = *env;
	c->config = *config;
	count_totals_init(&c->totals);
	err = config->limit || env->symbol || config->sha256
		      ? open_filtered(c)
		      : open_plain(c);
	if (err) {
		close_count(c);
		return err;
	}
	*sink = c;
	return 0;
}

/* The run ends: its thread or stream changes, or someone wants the totals. */
static void count_flush(struct count *c)
{
	count_totals_add(&c->totals, c->counter ? &c->counter->run : &c->run);
}

/* All events of one call are of one thread and stream (ctx). */
static int flow_count(void *sink, const struct flow_ctx *ctx,
		      const struct aux_flow *ev, size_t n)
{
	struct count *c = sink;
	const struct tally *thread = c->totals.threads.current;
	struct sink_report *to = c->env.report, *from;
	int err;

	if (!thread || thread->id != ctx->tid ||
	    c->totals.streams.current->id != ctx->stream) {
		count_flush(c);
		if (count_totals_select(&c->totals, ctx->tid, ctx->stream))
			return -AUX_E_NOMEM;
	}
	if (!c->counter)
		return flow_filtered(c, ctx, ev, n);
	err = counter_add(c->counter, ctx, ev, n);
	from = &c->counter->report;
	to->n_insns += from->n_insns;
	to->n_lines += from->n_lines;
	to->n_payloads += from->n_payloads;
	to->n_mismatches += from->n_mismatches;
	*from = (struct sink_report){ 0 };
	return err;
}

static int finish_count(void *sink, struct aux_diag *diag)
{
	struct count *c = sink;

	(void)diag;
	count_flush(c);
	if (c->env.json)
		count_totals_json(&c->totals, c->env.out, c->config.sha256);
	else
		count_totals_print(&c->totals, c->env.out, c->config.sha256);
	return 0;
}

/* ---- partial results: count_part.c ---- */

static int new_partial(void **partial, const void *sink)
{
	const struct count *c = sink;

	*partial = NULL;
	return c->pool ? count_part_new(partial, c->pool) : -AUX_E_UNSUPPORTED;
}

static void join_mismatch(void *sink, const struct count_part_mismatch *m)
{
	struct count *c = sink;

	c->env.report->n_mismatches++;
	c->env.report->n_insns += m->ev.n;
	if (!c->env.json)
		print_mismatch(c->env.out, c->env.host, &m->ctx, &m->ev, m->err);
}

/* The report follows from the runs and the mismatches: it is not kept by stint. */
static int join_run(void *sink, struct count_part_run *run)
{
	struct count *c = sink;
	struct sink_report *report = c->env.report;

	if (count_totals_select(&c->totals, run->tid, run->stream))
		return -AUX_E_NOMEM;
	report->n_insns += run->run.n;
	report->n_lines += run->run.n;
	report->n_payloads += run->run.n_payloads;
	count_totals_add(&c->totals, &run->run);
	return 0;
}

static int join_partial(void *sink, void *partial, uint32_t stint)
{
	const struct count_part_to to = { sink, join_run, join_mismatch };

	count_flush(sink);
	return count_part_join(partial, stint, &to);
}

/* table */
static const struct option_row count_options[] = {
	SINK_LIMIT(struct count_config, "stop after N instructions"),
	{ .name = "sha256",
	  .help = "SHA-256 of the addresses, each as 8 bytes, little endian",
	  OPTION_FLAG(struct count_config, sha256) },
	{ .name = NULL },
};

const struct sink_ops sink_count = {
	.name = "count",
	.needs = SINK_TAKES_PATHS | SINK_THREAD_ORDER,
	.options = count_options,
	.config_size = sizeof(struct count_config),
	.open = open_count,
	.flow = flow_count,
	.finish = finish_count,
	.close = close_count,
	.partial_new = new_partial,
	.partial_end = count_part_end,
	.partial_flow = count_part_flow,
	.partial_join = join_partial,
	.partial_free = count_part_free,
};
