/* SPDX-License-Identifier: BSD-2-Clause */
/* branchlist: the tables; see branchlist.h. */
#include <stdlib.h>
#include <string.h>

#include "decode/profile/branchlist.h"

#define MAX_ENTRIES ((size_t)1 << 28)

/* table */
static const char *const kind_names[BRANCHLIST_N_KINDS] = {
	[BRANCHLIST_COND] = "cond",
	[BRANCHLIST_JUMP] = "jmp",
	[BRANCHLIST_CALL] = "call",
	[BRANCHLIST_RET] = "ret",
	[BRANCHLIST_IND_JUMP] = "indjmp",
	[BRANCHLIST_IND_CALL] = "indcall",
	[BRANCHLIST_SYSCALL] = "syscall",
	[BRANCHLIST_FAR] = "far",
	[BRANCHLIST_ASYNC] = "async",
	[BRANCHLIST_INTERRUPT] = "intr",
	[BRANCHLIST_EXCEPTION] = "except",
};

const char *branchlist_kind_name(unsigned kind)
{
	return kind < BRANCHLIST_N_KINDS ? kind_names[kind] : NULL;
}

void branchlist_table_init(struct branchlist_table *t, size_t size, size_t key)
{
	*t = (struct branchlist_table){ .size = size, .key = key };
}

void branchlist_table_fini(struct branchlist_table *t)
{
	free(t->v);
	free(t->slots);
}

void branchlist_init(struct branchlist *l)
{
	*l = (struct branchlist){ 0 };
	branchlist_table_init(&l->branches, sizeof(struct branchlist_branch),
			      offsetof(struct branchlist_branch, count));
	branchlist_table_init(&l->ranges, sizeof(struct branchlist_range),
			      offsetof(struct branchlist_range, count));
}

void branchlist_fini(struct branchlist *l)
{
	for (size_t i = 0; i < l->n_modules; i++) {
		free(l->modules[i].path);
		free(l->modules[i].file);
	}
	free(l->modules);
	branchlist_table_fini(&l->branches);
	branchlist_table_fini(&l->ranges);
	*l = (struct branchlist){ 0 };
}

/* Keys are whole words without padding between them. */
static uint64_t hash_key(const struct branchlist_table *t, const void *key)
{
	const uint8_t *p = key;
	uint64_t h = 0, w;

	for (size_t i = 0; i < t->key; i += sizeof(w)) {
		memcpy(&w, p + i, sizeof(w));
		h = (h ^ w) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

static void *entry(const struct branchlist_table *t, size_t i)
{
	return (char *)t->v + i * t->size;
}

/* The slot of a key, or the free one where it belongs. */
static size_t find_slot(const struct branchlist_table *t, const void *key)
{
	size_t i = (size_t)hash_key(t, key) & (t->n_slots - 1);

	while (t->slots[i] &&
	       memcmp(entry(t, t->slots[i] - 1), key, t->key) != 0)
		i = (i + 1) & (t->n_slots - 1);
	return i;
}

static int fill_slots(struct branchlist_table *t, size_t n_slots)
{
	uint32_t *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -AUX_E_NOMEM;
	free(t->slots);
	t->slots = slots;
	t->n_slots = n_slots;
	for (size_t i = 0; i < t->n; i++)
		slots[find_slot(t, entry(t, i))] = (uint32_t)i + 1;
	return 0;
}

static int grow_table(struct branchlist_table *t)
{
	size_t max = t->max ? t->max * 2 : 1024;
	void *v;

	if (max > MAX_ENTRIES)
		return -AUX_E_LIMIT;
	v = reallocarray(t->v, max, t->size);
	if (!v)
		return -AUX_E_NOMEM;
	t->v = v;
	t->max = max;
	return fill_slots(t, max * 2);
}

int branchlist_table_find(struct branchlist_table *t, const void *key)
{
	size_t i;
	int err;

	if (t->n == t->max) {
		err = grow_table(t);
		if (err)
			return err;
	}
	i = find_slot(t, key);
	if (t->slots[i])
		return (int)t->slots[i] - 1;
	memset(entry(t, t->n), 0, t->size);
	memcpy(entry(t, t->n), key, t->key);
	t->slots[i] = (uint32_t)++t->n;
	return (int)t->n - 1;
}

int branchlist_branch(struct branchlist *l, const struct branchlist_branch *b)
{
	return branchlist_table_find(&l->branches, b);
}

int branchlist_range(struct branchlist *l, const struct branchlist_range *r)
{
	return branchlist_table_find(&l->ranges, r);
}

static int grow_modules(struct branchlist *l)
{
	size_t max = l->max_modules ? l->max_modules * 2 : 16;
	struct branchlist_module *m;

	if (max > 1 << 20)
		return -AUX_E_LIMIT;
	m = reallocarray(l->modules, max, sizeof(*m));
	if (!m)
		return -AUX_E_NOMEM;
	l->modules = m;
	l->max_modules = max;
	return 0;
}

int branchlist_module(struct branchlist *l, const char *path, const char *id)
{
	struct branchlist_module *m;
	int err;

	for (size_t i = 0; i < l->n_modules; i++) {
		m = &l->modules[i];
		if (!strcmp(m->path, path) && !strcmp(m->id, id))
			return (int)i;
	}
	err = l->n_modules == l->max_modules ? grow_modules(l) : 0;
	if (err)
		return err;
	m = &l->modules[l->n_modules];
	*m = (struct branchlist_module){ .path = strdup(path) };
	if (!m->path)
		return -AUX_E_NOMEM;
	memcpy(m->id, id, strnlen(id, sizeof(m->id) - 1));
	return (int)l->n_modules++;
}

void branchlist_sum(struct branchlist *l)
{
	const struct branchlist_range *r = branchlist_ranges(l);

	for (size_t i = 0; i < l->n_modules; i++)
		l->modules[i].n_insns = 0;
	for (size_t i = 0; i < l->ranges.n; i++)
		l->modules[r[i].module].n_insns += r[i].n_insns * r[i].count;
}

/* ---- order ---- */

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int order_modules(const void *a, const void *b, void *list)
{
	const struct branchlist *l = list;
	const struct branchlist_module *x = &l->modules[*(const uint32_t *)a];
	const struct branchlist_module *y = &l->modules[*(const uint32_t *)b];
	int c = strcmp(x->path, y->path);

	return c ? c : strcmp(x->id, y->id);
}

static int order_branches(const void *a, const void *b)
{
	const struct branchlist_branch *x = a, *y = b;
	int c = ORDER(x->from_module, y->from_module);

	c = c ? c : ORDER(x->from, y->from);
	c = c ? c : ORDER(x->to_module, y->to_module);
	c = c ? c : ORDER(x->to, y->to);
	return c ? c : ORDER(x->kind, y->kind);
}

static int order_ranges(const void *a, const void *b)
{
	const struct branchlist_range *x = a, *y = b;
	int c = ORDER(x->module, y->module);

	c = c ? c : ORDER(x->first, y->first);
	c = c ? c : ORDER(x->last, y->last);
	c = c ? c : ORDER(x->outside, y->outside);
	return c ? c : ORDER(x->n_insns, y->n_insns);
}

static void renumber(struct branchlist *l, const uint32_t *to)
{
	struct branchlist_branch *b = branchlist_branches(l);
	struct branchlist_range *r = branchlist_ranges(l);

	for (size_t i = 0; i < l->branches.n; i++) {
		b[i].from_module = to[b[i].from_module];
		if (b[i].to_module != BRANCHLIST_NOWHERE)
			b[i].to_module = to[b[i].to_module];
	}
	for (size_t i = 0; i < l->ranges.n; i++)
		r[i].module = to[r[i].module];
}

static int sort_modules(struct branchlist *l)
{
	struct branchlist_module *sorted = calloc(l->n_modules, sizeof(*sorted));
	uint32_t *from = calloc(l->n_modules, sizeof(*from));
	uint32_t *to = calloc(l->n_modules, sizeof(*to));
	int err = -AUX_E_NOMEM;

	if (!sorted || !from || !to)
		goto out;
	for (uint32_t i = 0; i < l->n_modules; i++)
		from[i] = i;
	qsort_r(from, l->n_modules, sizeof(*from), order_modules, l);
	for (uint32_t i = 0; i < l->n_modules; i++) {
		sorted[i] = l->modules[from[i]];
		to[from[i]] = i;
	}
	memcpy(l->modules, sorted, l->n_modules * sizeof(*sorted));
	renumber(l, to);
	err = 0;
out:
	free(sorted);
	free(from);
	free(to);
	return err;
}

static int sort_table(struct branchlist_table *t,
		      int (*order)(const void *a, const void *b))
{
	if (!t->n)
		return 0;
	qsort(t->v, t->n, t->size, order);
	return fill_slots(t, t->n_slots);
}

int branchlist_sort(struct branchlist *l)
{
	int err = l->n_modules ? sort_modules(l) : 0;

	if (!err)
		err = sort_table(&l->branches, order_branches);
	return err ? err : sort_table(&l->ranges, order_ranges);
}

/* ---- merging ---- */

/* A sum that stays at the end of its range. */
static void add_count(uint64_t *sum, uint64_t n)
{
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = UINT64_MAX;
}

static int add_branch(struct branchlist *to, const uint32_t *map,
		      struct branchlist_branch b)
{
	int i;

	b.from_module = map[b.from_module];
	if (b.to_module != BRANCHLIST_NOWHERE)
		b.to_module = map[b.to_module];
	i = branchlist_branch(to, &b);
	if (i >= 0)
		add_count(&branchlist_branches(to)[i].count, b.count);
	return i;
}

static int add_range(struct branchlist *to, const uint32_t *map,
		     struct branchlist_range r)
{
	int i;

	r.module = map[r.module];
	i = branchlist_range(to, &r);
	if (i >= 0)
		add_count(&branchlist_ranges(to)[i].count, r.count);
	return i;
}

static int map_modules(struct branchlist *to, const struct branchlist *from,
		       uint32_t *map)
{
	for (size_t i = 0; i < from->n_modules; i++) {
		const struct branchlist_module *m = &from->modules[i];
		int k = branchlist_module(to, m->path, m->id);

		if (k < 0)
			return k;
		map[i] = (uint32_t)k;
		to->modules[k].main |= m->main;
		if (!to->modules[k].file && m->file)
			to->modules[k].file = strdup(m->file);
	}
	return 0;
}

int branchlist_merge(struct branchlist *to, const struct branchlist *from)
{
	uint32_t *map = calloc(from->n_modules + 1, sizeof(*map));
	int rc = map ? map_modules(to, from, map) : -AUX_E_NOMEM;

	for (size_t i = 0; i < from->branches.n && rc >= 0; i++)
		rc = add_branch(to, map, branchlist_branches(from)[i]);
	for (size_t i = 0; i < from->ranges.n && rc >= 0; i++)
		rc = add_range(to, map, branchlist_ranges(from)[i]);
	if (rc >= 0)
		add_count(&to->n_gaps, from->n_gaps);
	free(map);
	return rc < 0 ? rc : 0;
}
