/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rows: what views show of a model: functions, the open part of the call tree,
 * threads, gaps. All with the model's lock; names live as long as the model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/outbuf.h"
#include "decode/tui/impl.h"

static bool is_of(const struct model_who *who, const struct calltree_node *root)
{
	return !who->one || (root->func == CALLTREE_ROOT && root->id == who->tid &&
			     (who->tid != UINT32_MAX || root->stream == who->stream));
}

static bool want(const void *priv, const struct calltree_node *root)
{
	return is_of(priv, root);
}

static bool passes(const char *filter, const char *name)
{
	return !filter || !*filter || strcasestr(name, filter);
}

static uint64_t sum_of(const struct calltree *t, const struct rows_query *q)
{
	uint64_t n = 0;

	if (!q->who.one)
		return calltree_get(&t->nodes[0].total, q->by);
	for (uint32_t i = t->nodes[0].child; i; i = t->nodes[i].next)
		if (is_of(&q->who, &t->nodes[i]))
			n += calltree_get(&t->nodes[i].total, q->by);
	return n;
}

/* ---- functions ---- */

void func_rows_fini(struct func_rows *rows)
{
	free(rows->v);
	*rows = (struct func_rows){ .n = 0 };
}

/* Larger first, then as hot has it: own, total, name. */
static int by_amounts(const struct func_row *x, const struct func_row *y)
{
	if (x->own != y->own)
		return x->own > y->own ? -1 : 1;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int by_own(const void *a, const void *b)
{
	return by_amounts(a, b);
}

static int by_total(const void *a, const void *b)
{
	const struct func_row *x = a, *y = b;

	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return by_amounts(x, y);
}

static int by_calls(const void *a, const void *b)
{
	const struct func_row *x = a, *y = b;

	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	return by_amounts(x, y);
}

static int by_name(const void *a, const void *b)
{
	const struct func_row *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : by_amounts(x, y);
}

static void fill_row(struct func_row *r, const struct call_func *func,
		     const struct calltree_func *f, enum calltree_by by)
{
	*r = (struct func_row){
		.func = func, .name = func->name, .dso = func->dso,
		.own = calltree_get(&f->own, by),
		.total = calltree_get(&f->total, by), .calls = f->calls,
	};
	if (!r->name) {
		call_func_name(func, r->text, sizeof(r->text));
		r->name = r->text;
	}
}

/* r->name may point into r: qsort moves rows. */
static void mend_names(struct func_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		if (!rows->v[i].func->name)
			rows->v[i].name = rows->v[i].text;
}

static void sort_functions(struct func_rows *rows, enum rows_order order)
{
	static int (*const compare[ROWS_N_ORDERS])(const void *, const void *) = {
		[ROWS_BY_OWN] = by_own, [ROWS_BY_TOTAL] = by_total,
		[ROWS_BY_CALLS] = by_calls, [ROWS_BY_NAME] = by_name,
	};

	if (rows->n)
		qsort(rows->v, rows->n, sizeof(*rows->v), compare[order]);
	mend_names(rows);
}

int rows_functions(struct model *m, const struct rows_query *q,
		   struct func_rows *rows)
{
	size_t n = m->tree.calls ? calls_n_funcs(m->tree.calls) : 0;
	struct calltree *t = &m->tree.tree;
	struct calltree_func *f;

	func_rows_fini(rows);
	if (!n)
		return 0;
	calltree_sum(t);
	rows->all = sum_of(t, q);
	f = q->who.one ? calltree_funcs_below(t, n, want, &q->who)
		       : calltree_funcs(t, n);
	rows->v = calloc(n, sizeof(*rows->v));
	if (!f || !rows->v) {
		free(f);
		func_rows_fini(rows);
		return -AUX_E_NOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		const struct call_func *func =
			calls_func(m->tree.calls, (uint32_t)i);

		if (!f[i].calls && !f[i].own.insns)
			continue;
		rows->n_all++;
		fill_row(&rows->v[rows->n], func, &f[i], q->by);
		if (passes(q->filter, rows->v[rows->n].name))
			rows->n++;
	}
	free(f);
	mend_names(rows);
	sort_functions(rows, q->order);
	return 0;
}

const struct call_func *rows_named(struct model *m, const char *name, size_t len)
{
	size_t n = m->tree.calls ? calls_n_funcs(m->tree.calls) : 0;

	for (size_t i = 0; i < n; i++) {
		const struct call_func *f = calls_func(m->tree.calls, (uint32_t)i);

		if (f->name && strlen(f->name) == len && !memcmp(f->name, name, len))
			return f;
	}
	return NULL;
}

/* ---- the call tree ---- */

static bool open_nodes_has(const struct open_nodes *o, uint32_t node)
{
	return node / 8 < o->n && o->v[node / 8] >> node % 8 & 1;
}

int open_nodes_set(struct open_nodes *o, uint32_t node, bool open)
{
	size_t n = node / 8 + 64;
	uint8_t *v;

	if (node / 8 >= o->n && !open)
		return 0;
	if (node / 8 >= o->n) {
		v = realloc(o->v, n);
		if (!v)
			return -AUX_E_NOMEM;
		memset(v + o->n, 0, n - o->n);
		o->v = v;
		o->n = n;
	}
	o->v[node / 8] &= (uint8_t)~(1 << node % 8);
	o->v[node / 8] |= (uint8_t)(open << node % 8);
	return 0;
}

void tree_rows_fini(struct tree_rows *rows)
{
	free(rows->v);
	*rows = (struct tree_rows){ .n = 0 };
}

/* A node that is no function is shown where it has something of the amount. */
static bool is_shown(const struct calltree *t, uint32_t node, enum calltree_by by)
{
	const struct calltree_node *n = &t->nodes[node];

	return n->func < CALLTREE_FOLDED || n->func == CALLTREE_ROOT ||
	       calltree_get(&n->total, by);
}

struct child {
	uint64_t total;
	uint32_t node;
};

static int larger_first(const void *a, const void *b)
{
	const struct child *x = a, *y = b;

	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* The shown children of a node, largest first, at the end of *v. */
static int add_children(const struct calltree *t, const struct rows_query *q,
			uint32_t node, struct child **v, size_t *n, size_t *cap)
{
	size_t first = *n;

	for (uint32_t i = t->nodes[node].child; i; i = t->nodes[i].next) {
		struct child c = { calltree_get(&t->nodes[i].total, q->by), i };

		if (!is_shown(t, i, q->by) || (!node && !is_of(&q->who, &t->nodes[i])))
			continue;
		if (array_append(v, n, cap, &c, sizeof(c)))
			return -AUX_E_NOMEM;
	}
	if (*n > first)
		qsort(*v + first, *n - first, sizeof(**v), larger_first);
	/* the one that comes first is taken from the end */
	for (size_t i = first, k = *n; i + 1 < k; i++) {
		struct child c = (*v)[i];

		(*v)[i] = (*v)[--k];
		(*v)[k] = c;
	}
	return 0;
}

static bool has_children(const struct calltree *t, uint32_t node, enum calltree_by by)
{
	for (uint32_t i = t->nodes[node].child; i; i = t->nodes[i].next)
		if (is_shown(t, i, by))
			return true;
	return false;
}

static int add_row(struct model *m, const struct rows_query *q, uint32_t node,
		   bool is_open, struct tree_rows *rows)
{
	const struct calltree *t = &m->tree.tree;
	const struct calltree_node *n = &t->nodes[node];
	struct tree_row r = {
		.node = node, .depth = n->depth - 1,
		.own = calltree_get(&n->own, q->by),
		.total = calltree_get(&n->total, q->by), .calls = n->calls,
		.has_more = has_children(t, node, q->by), .is_open = is_open,
	};
	char buf[CALLTREE_NAME];
	const char *name = calltree_name(t, m->tree.calls, node, buf);

	r.func = n->func < CALLTREE_FOLDED ? calls_func(m->tree.calls, n->func) : NULL;
	if (name == buf)
		snprintf(r.text, sizeof(r.text), "%.*s", (int)sizeof(r.text) - 1, buf);
	else
		r.name = name;
	return array_append(&rows->v, &rows->n, &rows->cap, &r, sizeof(r));
}

int rows_tree(struct model *m, const struct rows_query *q,
	      const struct open_nodes *open, struct tree_rows *rows)
{
	struct calltree *t = &m->tree.tree;
	struct child *v = NULL;
	size_t n = 0, cap = 0;
	int err;

	tree_rows_fini(rows);
	if (!t->n)
		return 0;
	calltree_sum(t);
	rows->all = sum_of(t, q);
	err = add_children(t, q, 0, &v, &n, &cap);
	while (n && !err) {
		uint32_t node = v[--n].node;
		bool is_open = open_nodes_has(open, node);

		err = add_row(m, q, node, is_open, rows);
		if (!err && is_open)
			err = add_children(t, q, node, &v, &n, &cap);
	}
	free(v);
	for (size_t i = 0; i < rows->n; i++)
		if (!rows->v[i].name)
			rows->v[i].name = rows->v[i].text;
	return err;
}

/* The next node after node, in the order of the tree's links, below top. 0: there
 * is none. */
static uint32_t next_below(const struct calltree *t, uint32_t node, uint32_t top)
{
	if (t->nodes[node].child)
		return t->nodes[node].child;
	while (node != top && !t->nodes[node].next)
		node = t->nodes[node].parent;
	return node == top ? 0 : t->nodes[node].next;
}

int rows_open_below(struct model *m, struct open_nodes *open, uint32_t node,
		    size_t max)
{
	const struct calltree *t = &m->tree.tree;
	int err = 0;

	for (uint32_t i = node; i && !err && max--; i = next_below(t, i, node))
		if (t->nodes[i].child)
			err = open_nodes_set(open, i, true);
	return err;
}

int rows_open_above(struct model *m, struct open_nodes *open, uint32_t node)
{
	const struct calltree *t = &m->tree.tree;
	int err = 0;

	for (uint32_t i = t->nodes[node].parent; i && !err; i = t->nodes[i].parent)
		err = open_nodes_set(open, i, true);
	return err;
}

void rows_close_below(struct model *m, struct open_nodes *open, uint32_t node)
{
	for (uint32_t i = node; i; i = next_below(&m->tree.tree, i, node))
		open_nodes_set(open, i, false);
}

/* Is it the function that is looked for, or has what is looked for in its name? */
static bool is_wanted(const struct model *m, const struct rows_query *q, uint32_t func,
		      uint32_t node)
{
	const struct calltree *t = &m->tree.tree;
	char buf[CALLTREE_NAME];

	if (func != CALLTREE_ROOT)
		return t->nodes[node].func == func;
	return *q->filter &&
	       strcasestr(calltree_name(t, m->tree.calls, node, buf), q->filter);
}

uint32_t rows_place(struct model *m, const struct rows_query *q, uint32_t func,
		    size_t k)
{
	struct calltree *t = &m->tree.tree;
	struct child *v = NULL;
	size_t n = 0, cap = 0;
	uint32_t node = 0, root;

	calltree_sum(t);
	for (uint32_t i = 1; i < t->n; i++) {
		struct child c = { calltree_get(&t->nodes[i].total, q->by), i };

		if (!is_wanted(m, q, func, i) || !is_shown(t, i, q->by))
			continue;
		for (root = i; t->nodes[root].parent;)
			root = t->nodes[root].parent;
		if (is_of(&q->who, &t->nodes[root]) &&
		    array_append(&v, &n, &cap, &c, sizeof(c)))
			break;
	}
	if (n)
		qsort(v, n, sizeof(*v), larger_first);
	if (k < n)
		node = v[k].node;
	free(v);
	return node;
}

/* ---- threads ---- */

void lane_rows_fini(struct lane_rows *rows)
{
	free(rows->v);
	*rows = (struct lane_rows){ .n = 0 };
}

static int by_insns(const void *a, const void *b)
{
	const struct lane_row *x = a, *y = b;

	if (x->insns != y->insns)
		return x->insns > y->insns ? -1 : 1;
	return x->lane->root < y->lane->root ? -1 : x->lane->root > y->lane->root;
}

int rows_lanes(struct model *m, const struct rows_query *q, struct lane_rows *rows)
{
	struct calltree *t = &m->tree.tree;
	uint64_t all;

	lane_rows_fini(rows);
	if (!t->n)
		return 0;
	rows->v = calloc(m->lanes.n + 1, sizeof(*rows->v));
	if (!rows->v)
		return -AUX_E_NOMEM;
	calltree_sum(t);
	all = t->nodes[0].total.insns;
	rows->n_all = m->lanes.n;
	for (size_t i = 0; i < m->lanes.n; i++) {
		const struct lane *lane = m->lanes.v[i];
		const struct calltree_node *root = &t->nodes[lane->root];
		struct lane_row *r = &rows->v[rows->n];
		char buf[CALLTREE_NAME];

		*r = (struct lane_row){ .lane = lane, .tid = root->id,
					.stream = root->stream,
					.insns = root->total.insns };
		r->percent = all ? 100.0 * (double)r->insns / (double)all : 0;
		snprintf(r->name, sizeof(r->name), "%.*s", (int)sizeof(r->name) - 1,
			 calltree_name(t, m->tree.calls, lane->root, buf));
		if (passes(q->filter, r->name))
			rows->n++;
	}
	if (rows->n)
		qsort(rows->v, rows->n, sizeof(*rows->v), by_insns);
	return 0;
}

/* ---- gaps and losses ---- */

static void put_causes(struct model *m, struct outbuf *out)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < GAP_N_CAUSES; i++)
		n += i == GAP_SNAPSHOT ? 0 : m->n_by_cause[i];
	outbuf_printf(out, "%llu gap%s in the flow%s\n", (unsigned long long)n,
		      n == 1 ? "" : "s", n ? ":" : "");
	for (unsigned i = 0; i < GAP_N_CAUSES; i++)
		if (m->n_by_cause[i])
			outbuf_printf(out, "  %6llu %-13s %s\n",
				      (unsigned long long)m->n_by_cause[i],
				      gap_name(i), m->config->gap_text ?
				      m->config->gap_text(i) : gap_text(i));
	if (m->missing)
		outbuf_printf(out, "  missing code, the first: %s\n", m->missing);
}

static void put_losses(struct model *m, struct outbuf *out)
{
	const struct losses *l = session_losses(m->session);

	for (uint32_t i = 0; i < l->n; i++) {
		const struct aux_ledger_entry *e = &l->e[i];
		const struct loss_text *t = losses_text(e->cause);

		if (!t || !t->verdict || !(e->bytes | e->n))
			continue;
		outbuf_printf(out, "lost at capture, stream %u: ", e->idx);
		if (t->bytes && !e->bytes)
			outbuf_str(out, "an unknown number of bytes");
		else
			outbuf_printf(out, "%llu %s", (unsigned long long)e->bytes,
				      e->bytes == 1 ? t->one : t->many);
		outbuf_printf(out, "%s\n", t->verdict);
	}
}

static void put_gap(const struct model_gap *g, struct outbuf *out)
{
	char time[32] = "-", thread[24] = "-", at[24] = "-";

	if (g->time_ns)
		*fmt_time(time, g->time_ns) = '\0';
	if (g->tid != UINT32_MAX)
		snprintf(thread, sizeof(thread), "%u", g->tid);
	if (g->has_ip)
		snprintf(at, sizeof(at), "%#llx", (unsigned long long)g->ip);
	outbuf_printf(out, "%20s %8s %6u %#10llx %-13s %s\n", time, thread,
		      g->stream, (unsigned long long)g->offset, gap_name(g->cause),
		      at);
}

int rows_gaps(struct model *m, const struct rows_query *q, struct outbuf *out)
{
	uint64_t n = 0;

	model_lock(m);
	if (m->session) {
		put_causes(m, out);
		put_losses(m, out);
	}
	for (size_t i = 0; i < m->n_gaps; i++) {
		const struct model_gap *g = &m->gaps[i];

		if (q->who.one && g->tid != q->who.tid)
			continue;
		if (!n++)
			outbuf_printf(out, "\n%20s %8s %6s %10s %-13s %s\n", "time",
				      "tid", "stream", "offset", "cause", "address");
		put_gap(g, out);
	}
	if (m->n_gaps == MODEL_GAPS)
		outbuf_printf(out, "only the first %d are listed\n", MODEL_GAPS);
	model_unlock(m);
	return outbuf_failed(out) ? -AUX_E_NOMEM : 0;
}
