/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count_learn: what steps and paths add, see count.h.
 *
 * The code of a range is looked at to see that it has so many instructions, and
 * where. What is out of the ordinary is left to walk, which knows all cases; a
 * range that fits the code here fits it there.
 */
#include "common/x86_insn.h"

#include "decode/sink/count.h"
#include "decode/lib/sideband/sideband.h"

#define MAX_INSN 15
#define MAX_INSNS (1u << 20) /* COUNT_SUMS of them fit 32 bits */
#define M8 (IPHASH_M << 3)

void count_lore_init(struct count_lore *l, const struct sink_host *host,
		     struct walk *walk)
{
	uint64_t power = 1;

	*l = (struct count_lore){ .walk = walk, .host = host };
	for (unsigned n = 0; n < COUNT_POWERS; n++) {
		l->power8[n] = power << 3;
		power = iphash_reduce((unsigned __int128)power * IPHASH_M);
	}
}

static uint64_t power8_of(const struct count_lore *l, uint32_t n)
{
	return n < COUNT_POWERS ? l->power8[n] : iphash_power(n) << 3;
}

/* The bytes at first, if those up to the longest instruction at last are there. */
static const uint8_t *find_code(struct count_lore *l, const struct space *space,
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

/* Appends the instructions of a range. False: not here. */
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

static bool hash_words(uint64_t *value, uint64_t add,
		       const struct aux_flow *range)
{
	if (range->range.last - range->range.first != 4 * (range->n - UINT64_C(1)))
		return false;
	for (uint32_t i = 0; i < range->n; i++, add += 4)
		*value = iphash_join(*value, M8, add);
	return true;
}

static bool hash_quickly(struct count_lore *l, const struct space *space,
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

/* 0, or an error where the range does not fit the code. */
static int hash_range(struct count_lore *l, const struct space *space,
		      const struct aux_flow *range, uint64_t *value)
{
	uint64_t v = *value;
	struct walk_range r;
	int err;

	if (hash_quickly(l, space, range, &v)) {
		*value = v;
		return 0;
	}
	err = walk_once(l->walk, space, range, &r);
	for (uint32_t i = 0; !err && i < r.n; i++)
		*value = iphash_join(*value, M8,
				     iphash_fold(r.first + r.off[i]) + 1);
	return err;
}

int count_learn_step(struct count_lore *l, const struct space *space,
		     struct aux_step *step)
{
	uint64_t value = 0, n = 0, n_branches = 0;
	int err;

	if (step->n_insns >= MAX_INSNS)
		return 0;
	for (uint32_t i = 0; i < step->n_ranges; i++) {
		const struct aux_flow *range = &step->ranges[i];

		err = hash_range(l, space, range, &value);
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

void count_learn_path(struct aux_path *path)
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
