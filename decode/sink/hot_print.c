/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of hot: blocks, edges, functions. A line is: numbers, addresses,
 * then names, which may hold anything but a newline. What is left out for want
 * of rows is counted in a last line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/markup.h"
#include "common/outbuf.h"
#include "decode/callstack/names.h"
#include "decode/lib/elf/elf.h"
#include "decode/sink/columns.h"
#include "decode/sink/hot.h"
#include "decode/sink/impl.h"

#define DEFAULT_ROWS 25

static const struct columns plain; /* not aligned */

static uint64_t max_rows(const struct hot *h)
{
	return h->config.limit ? h->config.limit : DEFAULT_ROWS;
}

/* A range that ran and does not fit the code: all its executions are
 * missing. */
static void mismatch(void *priv, const struct hot_item *it, int err)
{
	struct hot *h = priv;
	struct flow_ctx ctx = { .space = it->space, .cpu = -1,
				.pid = it->space ? it->space->pid : UINT32_MAX,
				.tid = UINT32_MAX };

	h->env.report->n_mismatches += it->count;
	if (h->env.json)
		return;
	print_mismatch(h->env.out, h->env.host, &ctx, &it->range, err);
}

/* Beside the other columns, and where it is to fit short. */
static void put_short(struct hot *h, const char *name, const char *raw)
{
	const unsigned others = 100, least = 30;
	unsigned width = h->env.width;

	if (width && raw)
		name = names_cut(h->env.host->names, raw,
				 width > others + least ? width - others : least);
	outbuf_clean(h->env.out, name);
}

/* Of code without a symbol, the place in its file: what a disassembler has, wherever
 * the file was loaded. As call_func_name has it. */
static bool put_offset(struct outbuf *out, const struct space *space, uint64_t ip)
{
	const struct mapping *m = space ? space_find(space, ip) : NULL;
	const char *base = m ? strrchr(m->path, '/') : NULL;

	if (!base || *m->path != '/')
		return false;
	outbuf_str(out, "[");
	outbuf_clean(out, base + 1);
	outbuf_printf(out, "+0x%llx]", (unsigned long long)(ip - m->start + m->pgoff));
	return true;
}

/* Function, file, source line of an address. */
static void put_name(struct hot *h, const struct space *space, uint64_t ip)
{
	const struct sink_host *host = h->env.host;
	struct outbuf *out = h->env.out;
	struct source_line line;
	struct symbol sym;

	find_symbol(host, space, ip, &sym);
	outbuf_str(out, " ");
	if (h->env.width && sym.name) {
		put_short(h, sym.name, sym.name);
		outbuf_printf(out, "+0x%llx", (unsigned long long)(ip - sym.start));
	} else if (sym.name || !put_offset(out, space, ip)) {
		column_symbol(&plain, out, host, &sym, ip);
	}
	outbuf_str(out, " ");
	column_dso(&plain, out, &sym);
	if (!host->line || host->line(host->priv, space, ip, &line) ||
	    !line.file)
		return;
	outbuf_str(out, " ");
	outbuf_clean(out, line.file);
	outbuf_printf(out, ":%u", line.line);
}

/* The same as members; prefix: "from_", "to_", or none. */
static void json_name(struct hot *h, const char *prefix,
		      const struct space *space, uint64_t ip)
{
	const struct sink_host *host = h->env.host;
	struct outbuf *out = h->env.out;
	struct source_line line = { 0 };
	struct symbol sym;

	find_symbol(host, space, ip, &sym);
	if (!host->line || host->line(host->priv, space, ip, &line))
		line = (struct source_line){ 0 };
	outbuf_printf(out, ",\"%sfunction\":", prefix);
	if (sym.name)
		outbuf_json(out, names_shown(host->names, sym.name));
	else
		outbuf_str(out, "null");
	if (sym.name)
		outbuf_printf(out, ",\"%soffset\":%llu", prefix,
			      (unsigned long long)(ip - sym.start));
	outbuf_printf(out, ",\"%sdso\":", prefix);
	outbuf_json(out, sym.dso ? sym.dso : "-");
	if (!line.file)
		return;
	outbuf_printf(out, ",\"%sfile\":", prefix);
	outbuf_json(out, line.file);
	outbuf_printf(out, ",\"%sline\":%u", prefix, line.line);
}

static double percent(uint64_t n, uint64_t of)
{
	return of ? 100.0 * (double)n / (double)of : 0;
}

static void put_block(struct hot *h, const struct hot_block *b, uint64_t total)
{
	outbuf_printf(h->env.out,
		      "%14llu %6.2f %14llu %6llu 0x%012llx-0x%012llx",
		      (unsigned long long)(b->count * b->n),
		      percent(b->count * b->n, total),
		      (unsigned long long)b->count, (unsigned long long)b->n,
		      (unsigned long long)b->first, (unsigned long long)b->last);
	put_name(h, b->space, b->first);
	outbuf_str(h->env.out, "\n");
}

static void json_block(struct hot *h, const struct hot_block *b, uint64_t total,
		       bool first)
{
	struct outbuf *out = h->env.out;

	outbuf_printf(out, "%s{\"instructions\":%llu,\"percent\":%.2f",
		      first ? "\n" : ",\n",
		      (unsigned long long)(b->count * b->n),
		      percent(b->count * b->n, total));
	outbuf_json_number(out, "executions", b->count);
	outbuf_json_number(out, "length", b->n);
	outbuf_json_hex(out, "first", b->first);
	outbuf_json_hex(out, "last", b->last);
	json_name(h, "", b->space, b->first);
	outbuf_str(out, "}");
}

/* What comes before the rows, and after them. */
static void begin_rows(struct hot *h, const char *what, const char *heading)
{
	if (h->env.json)
		outbuf_printf(h->env.out, ",\n\"%s\":[", what);
	else
		outbuf_str(h->env.out, heading);
}

/* "# 25 of 310 blocks": what is not shown is said. */
static void put_rest(struct hot *h, size_t shown, size_t n, const char *what)
{
	if (h->env.json)
		outbuf_printf(h->env.out, "],\"n_%s\":%zu", what, n);
	else if (shown < n)
		outbuf_printf(h->env.out,
			      "# %zu of %zu %s; -n shows more\n", shown, n,
			      what);
}

/* All are counted in the report, the first max_rows are shown. */
static void print_blocks(struct hot *h, const struct hot_block *v, size_t n,
			 uint64_t total)
{
	struct sink_report *report = h->env.report;
	size_t shown = 0, n_kept = 0;

	begin_rows(h, "blocks",
		   "#         insns      %     executions  insns "
		   "first          last           function dso source\n");
	for (size_t i = 0; i < n; i++) {
		if (h->env.symbol &&
		    !in_symbol(h->env.host, v[i].space, v[i].first)) {
			report->n_filtered += v[i].count * v[i].n;
			continue;
		}
		report->n_lines++;
		if (n_kept++ >= max_rows(h))
			continue;
		if (h->env.json)
			json_block(h, &v[i], total, !shown);
		else
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
	int err = hot_code_build(&code, h->env.host, &h->items, mismatch, h);

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

/* An edge with the places of its code, so that spaces do not tell them
 * apart. */
struct edge_row {
	struct hot_edge e;
	uint64_t from, to;
};

static int compare_keys(const void *a, const void *b)
{
	const struct edge_row *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return (int)x->e.kind - (int)y->e.kind;
}

/* What stands for equal ones is the same in each run. */
static int compare_rows(const void *a, const void *b)
{
	const struct edge_row *x = a, *y = b;
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
	const struct edge_row *x = a, *y = b;

	if (x->e.count != y->e.count)
		return x->e.count > y->e.count ? -1 : 1;
	if (x->e.from.ip != y->e.from.ip)
		return x->e.from.ip < y->e.from.ip ? -1 : 1;
	if (x->e.to.ip != y->e.to.ip)
		return x->e.to.ip < y->e.to.ip ? -1 : 1;
	return (int)x->e.kind - (int)y->e.kind;
}

/* 0 for what is not known: no code has that key. */
static uint64_t key_of(const struct hot *h, const struct place *at)
{
	return at->known ? hot_code_key(h->env.host, at->space, at->ip) : 0;
}

/* One row for each edge of the code: those of several processes that run the
 * same file are added up. The caller frees them. NULL: out of memory. */
static struct edge_row *make_rows(const struct hot *h, size_t *n)
{
	struct edge_row *v = calloc(h->edges.n + 1, sizeof(*v));
	size_t m = 0;

	if (!v)
		return NULL;
	for (size_t i = 0; i < h->edges.n_slots; i++) {
		const struct hot_edge *e = &h->edges.v[i];

		if (e->kind)
			v[m++] = (struct edge_row){ .e = *e,
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
		outbuf_str(h->env.out, " -");
}

/* The share is that of the executions of the instruction it comes from; an
 * interrupt comes from anywhere and has none. */
static void put_edge(struct hot *h, const struct edge_row *r,
		     const struct hot_code *code)
{
	struct outbuf *out = h->env.out;
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

static void json_edge(struct hot *h, const struct edge_row *r,
		      const struct hot_code *code, bool first)
{
	struct outbuf *out = h->env.out;
	uint64_t ran = r->from ? hot_code_count(code, r->from) : 0;

	outbuf_printf(out, "%s{\"count\":%llu", first ? "\n" : ",\n",
		      (unsigned long long)r->e.count);
	if (ran && r->e.kind < EDGE_ASYNC)
		outbuf_printf(out, ",\"percent\":%.2f",
			      percent(r->e.count, ran));
	outbuf_json_text(out, "kind", edge_name(r->e.kind));
	if (r->e.from.known) {
		outbuf_json_hex(out, "from", r->e.from.ip);
		json_name(h, "from_", r->e.from.space, r->e.from.ip);
	}
	if (r->e.to.known) {
		outbuf_json_hex(out, "to", r->e.to.ip);
		json_name(h, "to_", r->e.to.space, r->e.to.ip);
	}
	outbuf_str(out, "}");
}

/* With --symbol: one end is in it. */
static bool edge_wanted(struct hot *h, const struct hot_edge *e)
{
	const struct sink_host *host = h->env.host;

	return !h->env.symbol ||
	       (e->from.known && in_symbol(host, e->from.space, e->from.ip)) ||
	       (e->to.known && in_symbol(host, e->to.space, e->to.ip));
}

static void print_edges(struct hot *h, const struct edge_row *v, size_t n,
			const struct hot_code *code)
{
	size_t shown = 0, n_kept = 0;

	begin_rows(h, "edges", "#        count  share kind    from           "
				  "to             names\n");
	for (size_t i = 0; i < n; i++) {
		if (!edge_wanted(h, &v[i].e)) {
			h->env.report->n_filtered += v[i].e.count;
			continue;
		}
		h->env.report->n_lines++;
		if (n_kept++ >= max_rows(h))
			continue;
		if (h->env.json)
			json_edge(h, &v[i], code, !shown);
		else
			put_edge(h, &v[i], code);
		shown++;
	}
	put_rest(h, shown, n_kept, "edges");
}

int hot_print_edges(struct hot *h)
{
	struct hot_code code = { .n_insns = 0 };
	size_t n = 0;
	int err = hot_code_build(&code, h->env.host, &h->items, mismatch, h);
	struct edge_row *v = err ? NULL : make_rows(h, &n);

	if (v)
		print_edges(h, v, n, &code);
	else if (!err)
		err = -AUX_E_NOMEM;
	free(v);
	hot_code_fini(&code);
	return err;
}

/*
 * ---- functions ----
 *
 * From a call tree of all threads together: what each took itself, and with all
 * that it called. What runs in a function is its own however it got there; only
 * total and calls depend on the stack. Time and cycles in gaps, or when trace
 * was off, are no function's and have lines of their own, so that the sum is
 * right.
 */

struct hot_funcs {
	struct flowtree tree;
	enum calltree_by by;
};

int hot_funcs_new(struct hot *h, struct aux_diag *diag)
{
	(void)diag;
	h->funcs = calloc(1, sizeof(*h->funcs));
	if (!h->funcs)
		return -AUX_E_NOMEM;
	h->funcs->by = h->config.by == HOT_BY_NONE ? CALLTREE_BY_INSNS :
						     h->config.by;
	h->funcs->tree.ticks = true;
	return flowtree_init(&h->funcs->tree, h->env.host,
			       CALLTREE_PER_ALL,
			       h->config.stubs ? CALLS_KEEPS_STUBS : 0);
}

void hot_funcs_free(struct hot_funcs *f)
{
	if (f)
		flowtree_fini(&f->tree);
	free(f);
}

int hot_funcs_flow(struct hot *h, const struct flow_ctx *ctx,
		   const struct aux_flow *ev, size_t n)
{
	struct flowtree *t = &h->funcs->tree;
	int err = flowtree_flow(t, ctx, ev, n);

	h->env.report->n_insns = calls_n_insns(t->calls);
	return err;
}

int hot_funcs_partial(const struct hot *h, void **part)
{
	return flowpart_new(part, &h->funcs->tree);
}

int hot_funcs_join(struct hot *h, void *part, uint32_t stint)
{
	struct flowtree *t = &h->funcs->tree;
	int rc = flowpart_join(t, part, stint);

	h->env.report->n_insns = calls_n_insns(t->calls);
	return rc;
}

/* ---- the table ---- */

struct func_row {
	const char *name, *dso;
	const char *raw;	/* NULL: there is no name */
	char text[80];		/* for want of a name */
	struct calltree_func f;
	uint64_t own, total;
	bool is_kernel;
};

static int compare_texts(const char *name, const char *dso, const char *other_name,
			 const char *other_dso)
{
	int by = strcmp(name, other_name);

	return by ? by : strcmp(dso ? dso : "", other_dso ? other_dso : "");
}

/* By own, then total, then name and file: equal input, equal output. */
static int compare_funcs(const void *a, const void *b)
{
	const struct func_row *const *x = a, *const *y = b;

	if ((*x)->own != (*y)->own)
		return (*x)->own > (*y)->own ? -1 : 1;
	if ((*x)->total != (*y)->total)
		return (*x)->total > (*y)->total ? -1 : 1;
	return compare_texts((*x)->name, (*x)->dso, (*y)->name, (*y)->dso);
}

static void put_per_call(struct outbuf *out, const struct func_row *r)
{
	if (r->f.calls)
		outbuf_printf(out, " %12.1f",
			      (double)r->total / (double)r->f.calls);
	else
		outbuf_printf(out, " %12s", "-");
}

static void put_func(struct hot *h, const struct func_row *r, uint64_t all,
		    bool ipc)
{
	const char *dso = r->dso ? strrchr(r->dso, '/') : NULL;
	struct outbuf *out = h->env.out;

	outbuf_printf(out, "%14llu %6.2f %14llu %6.2f %12llu",
		      (unsigned long long)r->own,
		      all ? 100.0 * (double)r->own / (double)all : 0,
		      (unsigned long long)r->total,
		      all ? 100.0 * (double)r->total / (double)all : 0,
		      (unsigned long long)r->f.calls);
	put_per_call(out, r);
	if (ipc && r->f.own.cycles)
		outbuf_printf(out, " %5.2f",
			      (double)r->f.own.insns /
				      (double)r->f.own.cycles);
	else if (ipc)
		outbuf_printf(out, " %5s", "-");
	outbuf_str(out, " ");
	put_short(h, r->name, r->raw);
	outbuf_str(out, " ");
	outbuf_clean(out, dso && h->env.width && dso[1] ? dso + 1 :
			  r->dso ? r->dso : "-");
	outbuf_str(out, "\n");
}

static void json_func(struct hot *h, const struct func_row *r, uint64_t all,
		      bool first)
{
	struct outbuf *out = h->env.out;

	outbuf_str(out, first ? "\n{\"function\":" : ",\n{\"function\":");
	outbuf_json(out, r->name);
	outbuf_json_text(out, "dso", r->dso);
	outbuf_json_number(out, "own", r->own);
	outbuf_printf(out, ",\"own_percent\":%.2f", percent(r->own, all));
	outbuf_json_number(out, "total", r->total);
	outbuf_printf(out, ",\"total_percent\":%.2f", percent(r->total, all));
	outbuf_json_number(out, "calls", r->f.calls);
	outbuf_json_number(out, "instructions", r->f.own.insns);
	outbuf_json_number(out, "branches", r->f.own.branches);
	outbuf_json_number(out, "cycles", r->f.own.cycles);
	outbuf_json_number(out, "ns", r->f.own.ns);
	outbuf_str(out, "}");
}

/* A function without a name is shown by its address (call_func_name). */
static void fill_func(struct func_row *r, const struct hot_funcs *hf,
		     const struct calltree_func *f,
		     const struct call_func *func)
{
	r->f = *f;
	r->own = calltree_get(&f->own, hf->by);
	r->total = calltree_get(&f->total, hf->by);
	r->name = func->name;
	r->raw = func->raw;
	r->dso = func->dso;
	if (!r->name) {
		call_func_name(func, r->text, sizeof(r->text));
		r->name = r->text;
	}
}

/* Rows of functions that ran, sorted into order; returns how many. */
static size_t make_func_rows(struct hot *h, const struct calltree_func *f,
				 size_t n, struct func_row *rows,
				 struct func_row **order)
{
	const struct hot_funcs *hf = h->funcs;
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		const struct call_func *func =
			calls_func(hf->tree.calls, (uint32_t)i);
		struct func_row *r = &rows[m];

		if (!f[i].calls && !f[i].own.insns)
			continue;
		fill_func(r, hf, &f[i], func);
		if (func->wanted)
			order[m++] = r;
		else
			h->env.report->n_filtered += f[i].own.insns;
	}
	qsort(order, m, sizeof(*order), compare_funcs);
	return m;
}

/* Nothing when there is neither time nor cycles. */
static void put_other(struct hot *h, const char *key, const char *what,
		      const struct call_count *c)
{
	struct outbuf *out = h->env.out;

	if (h->env.json) {
		outbuf_printf(out, ",\"%s\":{\"ns\":%llu,\"cycles\":%llu}",
			      key, (unsigned long long)c->ns,
			      (unsigned long long)c->cycles);
		return;
	}
	if (!c->ns && !c->cycles)
		return;
	outbuf_printf(out, "# %s:", what);
	if (c->ns)
		outbuf_printf(out, " %llu ns%s", (unsigned long long)c->ns,
			      c->cycles ? "," : "");
	if (c->cycles)
		outbuf_printf(out, " %llu cycles",
			      (unsigned long long)c->cycles);
	outbuf_str(out, "\n");
}

static void put_off_cpu(struct hot *h, const struct call_count *c)
{
	struct outbuf *out = h->env.out;

	if (h->env.json && !h->env.host->off_cpu) {
		outbuf_json_text(out, "off_cpu", NULL);
		return;
	}
	if (h->env.json) {
		outbuf_printf(out, ",\"off_cpu\":{\"ns\":%llu,\"cycles\":%llu,"
			      "\"blocked_ns\":%llu,\"preempted_ns\":%llu}",
			      (unsigned long long)c->ns,
			      (unsigned long long)c->cycles,
			      (unsigned long long)c->blocked_ns,
			      (unsigned long long)c->preempted_ns);
		return;
	}
	put_other(h, "off_cpu", "off CPU", c);
	if (c->blocked_ns)
		outbuf_printf(out, "#   blocked: %llu ns\n",
			      (unsigned long long)c->blocked_ns);
	if (c->preempted_ns)
		outbuf_printf(out, "#   preempted: %llu ns\n",
			      (unsigned long long)c->preempted_ns);
}

/* Time and cycles that are no function's, and what is. */
static void put_others(struct hot *h)
{
	const struct calltree *t = &h->funcs->tree.tree;
	struct call_count gap = { 0 }, off = { 0 }, none = { 0 }, all = { 0 };
	struct call_count off_cpu = { 0 }, kernel = { 0 }, filtered = { 0 };

	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t func = t->nodes[i].func;
		struct call_count *to = func == CALLTREE_GAP ? &gap :
					func == CALLTREE_OFF ? &off :
					func == CALLTREE_OFF_CPU ? &off_cpu :
					func == CALLTREE_IN_KERNEL ? &kernel :
					func == CALLTREE_FILTERED ? &filtered :
					func == CALLTREE_ROOT ? &none : &all;

		*to = call_plus(*to, t->nodes[i].own);
	}
	if (h->env.json)
		outbuf_printf(h->env.out, ",\n\"all_functions\":"
			      "{\"instructions\":%llu,\"cycles\":%llu}",
			      (unsigned long long)all.insns,
			      (unsigned long long)all.cycles);
	else if (all.cycles)
		outbuf_printf(h->env.out,
			      "# all functions: %llu instructions in %llu "
			      "cycles, IPC %.2f\n",
			      (unsigned long long)all.insns,
			      (unsigned long long)all.cycles,
			      (double)all.insns / (double)all.cycles);
	put_other(h, "lost", "lost in gaps", &gap);
	put_other(h, "in_kernel", "in the kernel", &kernel);
	put_other(h, "filtered", "filtered", &filtered);
	put_other(h, "not_traced", "not traced", &off);
	put_off_cpu(h, &off_cpu);
	put_other(h, "in_no_function", "in no function yet", &none);
}

/* The first that has a name is the one to go on with. */
static void note_first(struct hot *h, struct func_row **v, size_t n)
{
	struct sink_report *to = h->env.report;

	for (size_t i = 0; i < n && !*to->function; i++)
		if (v[i]->raw)
			names_typed(h->env.host->names, v[i]->raw, to->function,
				    sizeof(to->function));
}

static void put_funcs(struct hot *h, struct func_row **v, size_t n)
{
	const struct calltree *t = &h->funcs->tree.tree;
	uint64_t max = h->config.limit ? h->config.limit : DEFAULT_ROWS;
	uint64_t all = calltree_get(&t->nodes[0].total, h->funcs->by);
	bool ipc = t->nodes[0].total.cycles;
	struct outbuf *out = h->env.out;

	note_first(h, v, n);
	if (h->env.json) {
		outbuf_json_text(out, "by", flame_unit(h->funcs->by));
		outbuf_str(out, ",\n\"functions\":[");
		for (size_t i = 0; i < n && i < max; i++)
			json_func(h, v[i], all, !i);
		put_rest(h, 0, n, "functions");
		put_others(h);
		h->env.report->n_lines += n;
		return;
	}
	outbuf_printf(out,
		      "# by %s\n#          own      %%          total      %%"
		      "        calls     per call%s function dso\n",
		      flame_unit(h->funcs->by), ipc ? "   IPC" : "");
	for (size_t i = 0; i < n && i < max; i++)
		put_func(h, v[i], all, ipc);
	if (n > max)
		outbuf_printf(out, "# %llu of %zu functions; -n shows more\n",
			      (unsigned long long)max, n);
	put_others(h);
	h->env.report->n_lines += n;
}

int hot_funcs_print(struct hot *h, struct aux_diag *diag)
{
	struct flowtree *t = &h->funcs->tree;
	int err = flowtree_finish(t);
	size_t n = calls_n_funcs(t->calls);
	struct calltree_func *f = err ? NULL : calltree_funcs(&t->tree, n);
	struct func_row *rows = calloc(n + 1, sizeof(*rows));
	struct func_row **order = calloc(n + 1, sizeof(struct func_row *));

	if (!err && (!f || !rows || !order))
		err = -AUX_E_NOMEM;
	if (!err && h->env.report->n_insns &&
	    !calltree_get(&t->tree.nodes[0].total, h->funcs->by))
		err = refuse_amount(h->funcs->by == CALLTREE_BY_CYCLES, diag);
	if (!err)
		put_funcs(h, order, make_func_rows(h, f, n, rows, order));
	free(f);
	free(rows);
	free(order);
	return err;
}
