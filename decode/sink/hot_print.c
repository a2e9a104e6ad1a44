/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot_print: the tables of blocks and edges. A line is: numbers, addresses,
 * then names, which may hold anything but a newline.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/sink/columns.h"
#include "common/outbuf.h"
#include "decode/sink/hot.h"
#include "decode/lib/elf/sourceline.h"

#define DEFAULT_ROWS 25

static const struct columns plain; /* not aligned */

static uint64_t max_rows(const struct hot *h)
{
	return h->config.limit ? h->config.limit : DEFAULT_ROWS;
}

static void mismatch(void *priv, const struct hot_item *it, int err)
{
	struct hot *h = priv;
	struct flow_ctx ctx = { .space = it->space, .cpu = -1,
				.pid = it->space ? it->space->pid : UINT32_MAX,
				.tid = UINT32_MAX };

	h->config.report->n_mismatches += it->count;
	print_mismatch(h->config.out, h->config.host, &ctx, &it->range, err);
}

static void put_name(struct hot *h, const struct space *space, uint64_t ip)
{
	const struct sink_host *host = h->config.host;
	struct outbuf *out = h->config.out;
	struct source_line line;
	struct symbol sym;

	find_symbol(host, space, ip, &sym);
	outbuf_str(out, " ");
	column_symbol(&plain, out, &sym, ip);
	outbuf_str(out, " ");
	column_dso(&plain, out, &sym);
	if (!host->line || host->line(host->priv, space, ip, &line) ||
	    !line.file)
		return;
	outbuf_str(out, " ");
	column_clean(out, line.file);
	outbuf_printf(out, ":%u", line.line);
}

static bool in_symbol(struct hot *h, const struct space *space, uint64_t ip)
{
	struct symbol sym;

	if (!h->config.symbol)
		return true;
	find_symbol(h->config.host, space, ip, &sym);
	return sym.name && !strcmp(sym.name, h->config.symbol);
}

static double percent(uint64_t n, uint64_t of)
{
	return of ? 100.0 * (double)n / (double)of : 0;
}

static void put_block(struct hot *h, const struct hot_block *b, uint64_t total)
{
	outbuf_printf(h->config.out,
		      "%14llu %6.2f %14llu %6llu 0x%012llx-0x%012llx",
		      (unsigned long long)(b->count * b->n),
		      percent(b->count * b->n, total),
		      (unsigned long long)b->count, (unsigned long long)b->n,
		      (unsigned long long)b->first, (unsigned long long)b->last);
	put_name(h, b->space, b->first);
	outbuf_str(h->config.out, "\n");
}

/* "# 25 of 310 blocks": what is not shown is said. */
static void put_rest(struct hot *h, size_t shown, size_t n, const char *what)
{
	if (shown < n)
		outbuf_printf(h->config.out,
			      "# %zu of %zu %s; -n shows more\n", shown, n,
			      what);
}

static void print_blocks(struct hot *h, const struct hot_block *v, size_t n,
			 uint64_t total)
{
	struct sink_report *report = h->config.report;
	size_t shown = 0, n_kept = 0;

	outbuf_str(h->config.out,
		   "#         insns      %     executions  insns "
		   "first          last           function dso source\n");
	for (size_t i = 0; i < n; i++) {
		if (!in_symbol(h, v[i].space, v[i].first)) {
			report->n_filtered += v[i].count * v[i].n;
			continue;
		}
		report->n_lines++;
		if (n_kept++ >= max_rows(h))
			continue;
		put_block(h, &v[i], total);
		shown++;
	}
	put_rest(h, shown, n_kept, "blocks");
}

int hot_print_blocks(struct hot *h)
{
	struct hot_code code = { .n_insns = 0 };
	struct hot_block *v = NULL;
	size_t n;
	int err = hot_code_build(&code, h->config.host, &h->items, mismatch, h);

	if (!err) {
		v = hot_code_blocks(&code, &n);
		err = v ? 0 : -AUX_E_NOMEM;
	}
	if (!err)
		print_blocks(h, v, n, code.n_total);
	free(v);
	hot_code_fini(&code);
	return err;
}

/* ---- edges ---- */

/* An edge with the places of its code, so that spaces do not tell them apart. */
struct row {
	struct hot_edge e;
	uint64_t from, to;
};

static int compare_keys(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return (int)x->e.kind - (int)y->e.kind;
}

/* What stands for equal ones is the same in each run. */
static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int by = compare_keys(a, b);

	if (by)
		return by;
	if (x->e.from.ip != y->e.from.ip)
		return x->e.from.ip < y->e.from.ip ? -1 : 1;
	if (x->e.to.ip != y->e.to.ip)
		return x->e.to.ip < y->e.to.ip ? -1 : 1;
	return 0;
}

static int compare_counts(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->e.count != y->e.count)
		return x->e.count > y->e.count ? -1 : 1;
	if (x->e.from.ip != y->e.from.ip)
		return x->e.from.ip < y->e.from.ip ? -1 : 1;
	if (x->e.to.ip != y->e.to.ip)
		return x->e.to.ip < y->e.to.ip ? -1 : 1;
	return (int)x->e.kind - (int)y->e.kind;
}

static uint64_t key_of(const struct hot *h, const struct place *at)
{
	return at->known ? hot_code_key(h->config.host, at->space, at->ip) : 0;
}

/* One row for each edge of the code; the caller frees them. */
static struct row *make_rows(const struct hot *h, size_t *n)
{
	struct row *v = calloc(h->edges.n + 1, sizeof(*v));
	size_t m = 0;

	if (!v)
		return NULL;
	for (size_t i = 0; i < h->edges.n_slots; i++) {
		const struct hot_edge *e = &h->edges.v[i];

		if (e->kind)
			v[m++] = (struct row){ .e = *e,
					       .from = key_of(h, &e->from),
					       .to = key_of(h, &e->to) };
	}
	qsort(v, m, sizeof(*v), compare_rows);
	*n = 0;
	for (size_t i = 0; i < m; i++) {
		if (*n && !compare_keys(&v[*n - 1], &v[i]))
			v[*n - 1].e.count += v[i].e.count;
		else
			v[(*n)++] = v[i];
	}
	qsort(v, *n, sizeof(*v), compare_counts);
	return v;
}

static void put_place(struct outbuf *out, const struct place *at)
{
	if (at->known)
		outbuf_printf(out, " 0x%012llx", (unsigned long long)at->ip);
	else
		outbuf_printf(out, " %14s", "-");
}

static void put_end(struct hot *h, const struct place *at)
{
	if (at->known)
		put_name(h, at->space, at->ip);
	else
		outbuf_str(h->config.out, " -");
}

static void put_edge(struct hot *h, const struct row *r,
		     const struct hot_code *code)
{
	struct outbuf *out = h->config.out;
	uint64_t ran = r->from ? hot_code_count(code, r->from) : 0;

	outbuf_printf(out, "%14llu", (unsigned long long)r->e.count);
	if (ran && r->e.kind < EDGE_ASYNC)
		outbuf_printf(out, " %6.2f", percent(r->e.count, ran));
	else
		outbuf_printf(out, " %6s", "-");
	outbuf_printf(out, " %-7s", edge_name(r->e.kind));
	put_place(out, &r->e.from);
	put_place(out, &r->e.to);
	put_end(h, &r->e.from);
	outbuf_str(out, " ->");
	put_end(h, &r->e.to);
	outbuf_str(out, "\n");
}

static bool edge_wanted(struct hot *h, const struct hot_edge *e)
{
	return !h->config.symbol ||
	       (e->from.known && in_symbol(h, e->from.space, e->from.ip)) ||
	       (e->to.known && in_symbol(h, e->to.space, e->to.ip));
}

static void print_edges(struct hot *h, const struct row *v, size_t n,
			const struct hot_code *code)
{
	size_t shown = 0, n_kept = 0;

	outbuf_str(h->config.out, "#        count  share kind    from           "
				  "to             names\n");
	for (size_t i = 0; i < n; i++) {
		if (!edge_wanted(h, &v[i].e)) {
			h->config.report->n_filtered += v[i].e.count;
			continue;
		}
		h->config.report->n_lines++;
		if (n_kept++ >= max_rows(h))
			continue;
		put_edge(h, &v[i], code);
		shown++;
	}
	put_rest(h, shown, n_kept, "edges");
}

int hot_print_edges(struct hot *h)
{
	struct hot_code code = { .n_insns = 0 };
	size_t n = 0;
	int err = hot_code_build(&code, h->config.host, &h->items, mismatch, h);
	struct row *v = err ? NULL : make_rows(h, &n);

	if (v)
		print_edges(h, v, n, &code);
	else if (!err)
		err = -AUX_E_NOMEM;
	free(v);
	hot_code_fini(&code);
	return err;
}
