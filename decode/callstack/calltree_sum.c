/* SPDX-License-Identifier: BSD-2-Clause */
/* calltree_sum: totals, order and names of a tree that is complete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/callstack/calltree.h"

void calltree_sum(struct calltree *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		t->nodes[i].total = t->nodes[i].own;
	for (uint32_t i = t->n - 1; i; i--) {
		struct calltree_node *parent = &t->nodes[t->nodes[i].parent];

		parent->total = call_plus(parent->total, t->nodes[i].total);
	}
}

/* A node, to be put in order among all. */
struct place {
	uint32_t parent, node;
	uint64_t key;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

/* Links the children anew, in the order of the keys. */
static void link_places(struct calltree *t, struct place *v, uint32_t n)
{
	struct calltree_node *nodes = t->nodes;

	qsort(v, n, sizeof(*v), compare_places);
	for (uint32_t i = 0; i < n; i++) {
		bool first = !i || v[i - 1].parent != v[i].parent;
		bool last = i + 1 == n || v[i + 1].parent != v[i].parent;

		if (first)
			nodes[v[i].parent].child = v[i].node;
		nodes[v[i].node].next = last ? 0 : v[i + 1].node;
	}
}

int calltree_sort(struct calltree *t, enum calltree_by by)
{
	struct place *v = reallocarray(NULL, t->n, sizeof(*v));

	if (!v)
		return -AUX_E_NOMEM;
	for (uint32_t i = 1; i < t->n; i++) {
		const struct calltree_node *node = &t->nodes[i];

		v[i - 1] = (struct place){
			.parent = node->parent,
			.node = i,
			.key = UINT64_MAX - calltree_get(&node->total, by),
		};
	}
	link_places(t, v, t->n - 1);
	free(v);
	return 0;
}

/* ---- by name: functions, and what is none, are put in order first ---- */

struct named {
	char *name;
	uint32_t rank;
};

static int compare_names(const void *a, const void *b)
{
	const struct named *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* Equal names have equal ranks. */
static int rank_names(struct named *v, size_t n)
{
	struct named **order = reallocarray(NULL, n + 1, sizeof(*order));
	size_t m = 0;

	if (!order)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n; i++)
		if (v[i].name)
			order[m++] = &v[i];
	qsort(order, m, sizeof(*order), compare_names);
	for (size_t i = 1; i < m; i++)
		order[i]->rank = order[i - 1]->rank +
				 !!strcmp(order[i]->name, order[i - 1]->name);
	free(order);
	return 0;
}

static size_t slot_of(const struct calltree *t, size_t n_funcs, uint32_t i)
{
	const struct calltree_node *node = &t->nodes[i];

	switch (node->func) {
	case CALLTREE_ROOT:
		return n_funcs + 3 + i;
	case CALLTREE_GAP:
		return n_funcs;
	case CALLTREE_OFF:
		return n_funcs + 1;
	case CALLTREE_FOLDED:
		return n_funcs + 2;
	}
	return node->func;
}

static int name_all(const struct calltree *t, const struct calls *c,
		    struct named *v, size_t n_funcs)
{
	char buf[CALLTREE_NAME];

	for (uint32_t i = 1; i < t->n; i++) {
		struct named *name = &v[slot_of(t, n_funcs, i)];

		if (name->name)
			continue;
		name->name = strdup(calltree_name(t, c, i, buf));
		if (!name->name)
			return -AUX_E_NOMEM;
	}
	return 0;
}

int calltree_sort_names(struct calltree *t, const struct calls *c)
{
	size_t n_funcs = calls_n_funcs(c), n = n_funcs + 3 + t->n;
	struct named *names = calloc(n, sizeof(*names));
	struct place *v = reallocarray(NULL, t->n, sizeof(*v));
	int err = names && v ? 0 : -AUX_E_NOMEM;

	if (!err)
		err = name_all(t, c, names, n_funcs);
	if (!err)
		err = rank_names(names, n);
	for (uint32_t i = 1; i < t->n && !err; i++)
		v[i - 1] = (struct place){
			.parent = t->nodes[i].parent,
			.node = i,
			.key = names[slot_of(t, n_funcs, i)].rank,
		};
	if (!err)
		link_places(t, v, t->n - 1);
	for (size_t i = 0; names && i < n; i++)
		free(names[i].name);
	free(names);
	free(v);
	return err;
}

/* ---- by function ---- */

static void add_folded(const struct calltree *t, struct calltree_func *v,
		       size_t n)
{
	for (size_t i = 0; i < n && i < t->n_folded; i++) {
		const struct calltree_func *f = &t->folded[i];

		/* else what is folded lies below a node of its own */
		if (!v[i].calls)
			v[i].total = f->own;
		v[i].calls += f->calls;
		v[i].own = call_plus(v[i].own, f->own);
	}
}

struct calltree_func *calltree_funcs(const struct calltree *t, size_t n)
{
	struct calltree_func *v = calloc(n + 1, sizeof(*v));

	if (!v)
		return NULL;
	for (uint32_t i = 1; i < t->n; i++) {
		const struct calltree_node *node = &t->nodes[i];
		struct calltree_func *f = v + node->func;

		if (node->func >= n)
			continue;
		f->calls += node->calls;
		f->own = call_plus(f->own, node->own);
		if (!node->is_inner)
			f->total = call_plus(f->total, node->total);
	}
	add_folded(t, v, n);
	return v;
}

static const char *name_root(const struct calltree_node *n, char *buf)
{
	const char *comm = n->comm ? n->comm : "[unknown]";

	if (n->id == UINT32_MAX)
		snprintf(buf, CALLTREE_NAME, "%s/stream %u", comm, n->stream);
	else
		snprintf(buf, CALLTREE_NAME, "%s/%u", comm, n->id);
	return buf;
}

const char *calltree_name(const struct calltree *t, const struct calls *c,
			  uint32_t node, char buf[CALLTREE_NAME])
{
	const struct calltree_node *n = &t->nodes[node];
	const struct call_func *f;

	switch (n->func) {
	case CALLTREE_ROOT:
		return node ? name_root(n, buf) : "all";
	case CALLTREE_GAP:
		return "[gap]";
	case CALLTREE_OFF:
		return "[not traced]";
	case CALLTREE_FOLDED:
		return "[folded]";
	}
	f = calls_func(c, n->func);
	if (f && f->name)
		return f->name;
	buf[0] = 0;
	if (f)
		call_func_name(f, buf, CALLTREE_NAME);
	return buf;
}
