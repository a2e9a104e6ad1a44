/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot_func: functions, from a call tree of all threads together: what each took
 * itself, and with all that it called. What runs in a function is its own however it
 * got there; only total and calls depend on the stack.
 */
#include <stdlib.h>
#include <string.h>

#include "common/outbuf.h"
#include "decode/sink/flame.h"
#include "decode/sink/hot.h"

#define DEFAULT_ROWS 25

struct hot_funcs {
	struct flame_tree tree;
	enum calltree_by by;
};

int hot_funcs_new(struct hot *h, struct aux_diag *diag)
{
	enum calltree_by by;
	int err = flame_parse_by(h->config.by, &by, diag);

	if (err)
		return err;
	h->funcs = calloc(1, sizeof(*h->funcs));
	if (!h->funcs)
		return -AUX_E_NOMEM;
	h->funcs->by = by;
	h->funcs->tree.ticks = true;
	return flame_tree_init(&h->funcs->tree, h->config.host,
			       CALLTREE_PER_ALL, CALLS_KEEPS_STUBS);
}

void hot_funcs_free(struct hot_funcs *f)
{
	if (f)
		flame_tree_fini(&f->tree);
	free(f);
}

int hot_funcs_flow(struct hot *h, const struct flow_ctx *ctx,
		   const struct aux_flow *ev, size_t n)
{
	struct flame_tree *t = &h->funcs->tree;
	int err = flame_tree_flow(t, ctx, ev, n);

	h->config.report->n_insns = calls_n_insns(t->calls);
	return err;
}

/* ---- the table ---- */

struct row {
	const char *name, *dso;
	char text[80];		/* for want of a name */
	struct calltree_func f;
	uint64_t own, total;
	bool is_kernel;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *const *x = a, *const *y = b;

	if ((*x)->own != (*y)->own)
		return (*x)->own > (*y)->own ? -1 : 1;
	if ((*x)->total != (*y)->total)
		return (*x)->total > (*y)->total ? -1 : 1;
	return strcmp((*x)->name, (*y)->name);
}

static void put_per_call(struct outbuf *out, const struct row *r)
{
	if (r->f.calls)
		outbuf_printf(out, " %12.1f",
			      (double)r->total / (double)r->f.calls);
	else
		outbuf_printf(out, " %12s", "-");
}

static void put_clean(struct outbuf *out, const char *s)
{
	for (; *s; s++) {
		char c = (unsigned char)*s < ' ' || *s == 127 ? '?' : *s;

		outbuf_put(out, &c, 1);
	}
}

static void put_row(struct hot *h, const struct row *r, uint64_t all, bool ipc)
{
	struct outbuf *out = h->config.out;

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
	put_clean(out, r->name);
	outbuf_str(out, " ");
	put_clean(out, r->dso ? r->dso : "-");
	outbuf_str(out, "\n");
}

static bool is_wanted(const struct hot *h, const struct row *r,
		      const struct call_func *f)
{
	const char *symbol = h->config.symbol;

	return !symbol || !strcmp(symbol, r->name) ||
	       (f && f->raw && !strcmp(symbol, f->raw));
}

static void fill_row(struct row *r, const struct hot_funcs *hf,
		     const struct calltree_func *f, const struct call_func *func)
{
	r->f = *f;
	r->own = calltree_get(&f->own, hf->by);
	r->total = calltree_get(&f->total, hf->by);
	r->name = func->name;
	r->dso = func->dso;
	if (!r->name) {
		call_func_name(func, r->text, sizeof(r->text));
		r->name = r->text;
	}
}

/* Rows of functions that ran; returns how many. */
static size_t make_rows(struct hot *h, const struct calltree_func *f, size_t n,
			struct row *rows, struct row **order)
{
	const struct hot_funcs *hf = h->funcs;
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		const struct call_func *func =
			calls_func(hf->tree.calls, (uint32_t)i);
		struct row *r = &rows[m];

		if (!f[i].calls && !f[i].own.insns)
			continue;
		fill_row(r, hf, &f[i], func);
		if (is_wanted(h, r, func))
			order[m++] = r;
		else
			h->config.report->n_filtered += f[i].own.insns;
	}
	qsort(order, m, sizeof(*order), compare_rows);
	return m;
}

static void put_other(struct hot *h, const char *what,
		      const struct call_count *c)
{
	struct outbuf *out = h->config.out;

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

/* Time and cycles that are no function's, and what is. */
static void put_others(struct hot *h)
{
	const struct calltree *t = &h->funcs->tree.tree;
	struct call_count gap = { 0 }, off = { 0 }, none = { 0 }, all = { 0 };

	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t func = t->nodes[i].func;
		struct call_count *to = func == CALLTREE_GAP ? &gap :
					func == CALLTREE_OFF ? &off :
					func == CALLTREE_ROOT ? &none : &all;

		*to = call_plus(*to, t->nodes[i].own);
	}
	if (all.cycles)
		outbuf_printf(h->config.out,
			      "# all functions: %llu instructions in %llu "
			      "cycles, IPC %.2f\n",
			      (unsigned long long)all.insns,
			      (unsigned long long)all.cycles,
			      (double)all.insns / (double)all.cycles);
	put_other(h, "lost in gaps", &gap);
	put_other(h, "not traced", &off);
	put_other(h, "in no function yet", &none);
}

static void put_rows(struct hot *h, struct row **v, size_t n)
{
	const struct calltree *t = &h->funcs->tree.tree;
	uint64_t max = h->config.limit ? h->config.limit : DEFAULT_ROWS;
	uint64_t all = calltree_get(&t->nodes[0].total, h->funcs->by);
	bool ipc = t->nodes[0].total.cycles;
	struct outbuf *out = h->config.out;

	outbuf_printf(out,
		      "# by %s\n#          own      %%          total      %%"
		      "        calls     per call%s function dso\n",
		      flame_unit(h->funcs->by), ipc ? "   IPC" : "");
	for (size_t i = 0; i < n && i < max; i++)
		put_row(h, v[i], all, ipc);
	if (n > max)
		outbuf_printf(out, "# %llu of %zu functions; -n shows more\n",
			      (unsigned long long)max, n);
	put_others(h);
	h->config.report->n_lines += n;
}

int hot_funcs_print(struct hot *h)
{
	struct flame_tree *t = &h->funcs->tree;
	int err = flame_tree_finish(t);
	size_t n = calls_n_funcs(t->calls);
	struct calltree_func *f = err ? NULL : calltree_funcs(&t->tree, n);
	struct row *rows = calloc(n + 1, sizeof(*rows));
	struct row **order = calloc(n + 1, sizeof(struct row *));

	if (!err && (!f || !rows || !order))
		err = -AUX_E_NOMEM;
	if (!err)
		put_rows(h, order, make_rows(h, f, n, rows, order));
	free(f);
	free(rows);
	free(order);
	return err;
}
