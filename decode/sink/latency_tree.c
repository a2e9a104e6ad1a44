/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ran inside of one call: places (a function, called from where its parent is),
 * with how often and what it took. Of bounded size: calls at places beyond that are
 * counted, and no more.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/sink/columns.h"
#include "common/outbuf.h"
#include "decode/sink/find.h"

struct find_tree *find_tree_new(struct find_trees *all, struct call_func *func)
{
	struct find_tree *t = all->idle;

	if (t) {
		all->idle = t->next_idle;
	} else {
		t = calloc(1, sizeof(*t));
		if (!t)
			return NULL;
		/* nodes do not move: frames point to them */
		t->nodes = calloc(FIND_TREE_NODES, sizeof(*t->nodes));
		t->max = FIND_TREE_NODES;
		t->next = all->all;
		all->all = t;
		if (!t->nodes)
			return NULL;
	}
	t->n = 1;
	t->n_left_out = 0;
	t->nodes[0] = (struct find_node){ .func = func, .tree = t };
	return t;
}

void find_tree_drop(struct find_trees *all, struct find_tree *t)
{
	if (!t)
		return;
	t->next_idle = all->idle;
	all->idle = t;
}

void find_trees_fini(struct find_trees *all)
{
	while (all->all) {
		struct find_tree *next = all->all->next;

		free(all->all->nodes);
		free(all->all);
		all->all = next;
	}
	all->idle = NULL;
}

struct find_node *find_tree_child(struct find_node *node,
				  struct call_func *func)
{
	struct find_tree *t = node->tree;
	struct find_node **link = &node->child, *n;

	for (; (n = *link); link = &n->next) {
		if (n->func != func)
			continue;
		*link = n->next; /* to the front: it will come again */
		n->next = node->child;
		node->child = n;
		return n;
	}
	if (t->n == t->max)
		return NULL;
	n = &t->nodes[t->n];
	*n = (struct find_node){ .func = func, .parent = node, .tree = t,
				 .id = t->n, .next = node->child };
	t->n++;
	node->child = n;
	return n;
}

/* ---- as text ---- */

struct shown {
	struct find_node *node;
	uint64_t amount;
};

static int by_amount(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;

	if (x->amount != y->amount)
		return x->amount > y->amount ? -1 : 1;
	return x->node->id < y->node->id ? -1 : 1;
}

struct tree_text {
	struct outbuf *out;
	enum find_by by;
	struct shown *shown;	/* largest first */
	uint32_t n;
};

static void put_line(const struct tree_text *tt, const struct find_node *node,
		     unsigned depth)
{
	char total[40], own[40], n[40], name[512];
	unsigned indent = 2 * (depth < 20 ? depth : 20);

	find_amount_text(total, tt->by, find_amount(tt->by, &node->total));
	find_amount_text(own, tt->by, find_amount(tt->by, &node->own));
	find_number_text(n, node->n);
	call_func_name(node->func, name, sizeof(name));
	outbuf_printf(tt->out, "  %12s %12s %9s  %*s", total, own, n,
		      (int)indent, "");
	column_clean(tt->out, name);
	outbuf_put(tt->out, "\n", 1);
}

/* A node, and below it those of its children that are shown, largest first. */
static void put_node(const struct tree_text *tt, const struct find_node *node,
		     unsigned depth)
{
	put_line(tt, node, depth);
	for (uint32_t i = 0; i < tt->n; i++)
		if (tt->shown[i].node->parent == node)
			put_node(tt, tt->shown[i].node, depth + 1);
}

void find_tree_put(struct find_tree *t, struct outbuf *out, enum find_by by,
		   unsigned max)
{
	struct tree_text tt = { .out = out, .by = by };
	uint64_t left_out = t->n_left_out;
	char n[40];

	tt.shown = calloc(t->n, sizeof(*tt.shown));
	if (!tt.shown)
		return;
	/* A parent has no less than its child, and a smaller id: it is shown
	 * where the child is */
	for (uint32_t i = 0; i < t->n; i++)
		tt.shown[i] = (struct shown){
			&t->nodes[i], i ? find_amount(by, &t->nodes[i].total) :
					  UINT64_MAX
		};
	qsort(tt.shown, t->n, sizeof(*tt.shown), by_amount);
	tt.n = t->n < max ? t->n : max;
	outbuf_printf(out, "  %12s %12s %9s\n", "total", "own", "calls");
	put_node(&tt, &t->nodes[0], 0);
	for (uint32_t i = tt.n; i < t->n; i++)
		left_out += tt.shown[i].node->n;
	if (left_out)
		outbuf_printf(out, "  (%s smaller calls inside are not shown)\n",
			      find_number_text(n, left_out));
	free(tt.shown);
}
