/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot_code: how often each instruction ran, and blocks of them.
 *
 * Ranges overlap: a jump may lead into the middle of one. So each is taken apart
 * into its instructions, these are added up, and a block is what runs one after the
 * other, equally often, up to a branch. Code that two processes share is one.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/sink/hot.h"

#define MIN_INSNS (1u << 16)

void hot_code_fini(struct hot_code *code)
{
	free(code->insns);
	code->insns = NULL;
}

uint64_t hot_code_key(const struct sink_host *host, const struct space *space,
		      uint64_t ip)
{
	struct aux_code area;

	if (!space || host->code(host->priv, space, ip, &area) ||
	    ip < area.start || ip >= area.end)
		return ip | UINT64_C(1) << 63;
	return (uint64_t)(uintptr_t)(area.bytes + (ip - area.start));
}

static int compare_keys(const void *a, const void *b)
{
	const struct hot_insn *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static uint64_t id_of(const struct hot_insn *insn)
{
	return insn->space ? insn->space->id : 0;
}

/* What stands for equal ones is the same in each run. */
static int compare_insns(const void *a, const void *b)
{
	const struct hot_insn *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->ip != y->ip)
		return x->ip < y->ip ? -1 : 1;
	return id_of(x) < id_of(y) ? -1 : id_of(x) > id_of(y);
}

/* Sorts, and makes one of equal ones. */
static void compact(struct hot_code *code)
{
	struct hot_insn *v = code->insns;
	size_t n = 0;

	if (!v)
		return;
	qsort(v, code->n_insns, sizeof(*v), compare_insns);
	for (size_t i = 0; i < code->n_insns; i++) {
		if (n && v[n - 1].key == v[i].key) {
			v[n - 1].count += v[i].count;
			v[n - 1].ends |= v[i].ends;
		} else {
			v[n++] = v[i];
		}
	}
	code->n_insns = n;
}

/* Room for n more. */
static int make_room(struct hot_code *code, size_t n)
{
	size_t max = code->max_insns ? code->max_insns : MIN_INSNS;
	struct hot_insn *v;

	if (code->insns && code->max_insns - code->n_insns >= n)
		return 0;
	compact(code);
	while (max - code->n_insns < n || max / 2 < code->n_insns)
		max *= 2;
	if (max == code->max_insns)
		return 0;
	v = reallocarray(code->insns, max, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	code->insns = v;
	code->max_insns = max;
	return 0;
}

static int add_range(struct hot_code *code, const struct hot_item *it,
		     const struct walk_range *r)
{
	uint64_t key = hot_code_key(code->host, it->space, r->first);
	uint64_t end = hot_code_key(code->host, it->space, r->last);
	bool apart = end - key != r->last - r->first; /* two pieces of code */
	struct hot_insn *insn;

	if (make_room(code, r->n))
		return -AUX_E_NOMEM;
	for (uint32_t i = 0; i < r->n; i++) {
		uint64_t ip = r->first + r->off[i];
		bool last = i + 1 == r->n;

		insn = &code->insns[code->n_insns++];
		*insn = (struct hot_insn){
			.key = apart ? hot_code_key(code->host, it->space, ip)
				     : key + r->off[i],
			.ip = ip,
			.space = it->space,
			.count = it->count,
			.size = last ? r->last_size
				     : (uint8_t)(r->off[i + 1] - r->off[i]),
			.ends = last && it->range.what != AUX_END_FALL,
		};
	}
	code->n_total += it->count * r->n;
	return 0;
}

/* From each item of a row to the next. */
static int add_inner(struct hot_edges *edges, const struct hot_items *items,
		     const struct hot_item *it)
{
	int err = 0;

	for (uint32_t i = 1; i < it->n_ids && !err; i++) {
		const struct hot_item *to = hot_item(items, it->ids[i]);
		struct place at = { .known = true };

		to = hot_item(items, to->first);
		at.space = to->space;
		at.ip = to->range.range.first;
		err = hot_edges_settle(edges, items, it->ids[i - 1], &at,
				       it->count);
	}
	return err;
}

int hot_code_spread(const struct hot_items *items, struct hot_edges *edges)
{
	int err = 0;

	for (uint32_t id = items->n; id && !err; id--) {
		struct hot_item *it = hot_item(items, id);

		if (!it->n_ids || !it->count)
			continue;
		for (uint32_t i = 0; i < it->n_ids; i++)
			hot_item(items, it->ids[i])->count += it->count;
		if (edges)
			err = add_inner(edges, items, it);
		it->count = 0;
	}
	return err;
}

int hot_code_build(struct hot_code *code, const struct sink_host *host,
		   const struct hot_items *items,
		   void (*mismatch)(void *priv, const struct hot_item *range,
				    int err),
		   void *priv)
{
	struct walk_range r;
	int err = make_room(code, 1);

	code->host = host;
	for (uint32_t id = 1; id <= items->n && !err; id++) {
		const struct hot_item *it = hot_item(items, id);

		if (it->n_ids || !it->count)
			continue;
		err = walk_once(items->walk, it->space, &it->range, &r);
		if (!err) {
			err = add_range(code, it, &r);
		} else if (err != -AUX_E_NOMEM) {
			mismatch(priv, it, err);
			err = 0;
		}
	}
	compact(code);
	return err;
}

uint64_t hot_code_count(const struct hot_code *code, uint64_t key)
{
	struct hot_insn want = { .key = key }, *found;

	found = bsearch(&want, code->insns, code->n_insns, sizeof(want),
			compare_keys);
	return found ? found->count : 0;
}

/* Does b go on behind a? */
static bool goes_on(const struct hot_insn *a, const struct hot_insn *b)
{
	return !a->ends && a->size && a->key + a->size == b->key &&
	       a->count == b->count;
}

static int compare_blocks(const void *a, const void *b)
{
	const struct hot_block *x = a, *y = b;
	uint64_t n = x->count * x->n, m = y->count * y->n;

	if (n != m)
		return n > m ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

struct hot_block *hot_code_blocks(const struct hot_code *code, size_t *n)
{
	struct hot_block *v = calloc(code->n_insns + 1, sizeof(*v)), *b = v;
	uint64_t key = 0;

	*n = 0;
	if (!v)
		return NULL;
	for (size_t i = 0; i < code->n_insns; i++) {
		const struct hot_insn *insn = &code->insns[i];

		if (!i || !goes_on(insn - 1, insn)) {
			b = &v[(*n)++];
			*b = (struct hot_block){ .space = insn->space,
						 .first = insn->ip,
						 .count = insn->count };
			key = insn->key;
		}
		b->last = b->first + (insn->key - key);
		b->n++;
	}
	qsort(v, *n, sizeof(*v), compare_blocks);
	return v;
}
