/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * annotate: cycles of units. A TIME has the cycles of what runs from there to the
 * next one: units that ran in between share them by their instructions, as the
 * functions of hot do (calltree_tick). Cycles for which nothing ran wait for the next
 * interval; those that passed while nothing was traced are nobody's.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "common/array.h"
#include "decode/coverage/impl.h"

static int add(struct cover_cycles *c, uint32_t id, uint64_t n)
{
	size_t cap = c->cap ? c->cap : 1024;
	uint64_t *grown;

	while (cap <= id)
		cap *= 2;
	if (cap != c->cap) {
		grown = reallocarray(c->v, cap, sizeof(*grown));
		if (!grown)
			return -AUX_E_NOMEM;
		memset(grown + c->cap, 0, (cap - c->cap) * sizeof(*grown));
		c->v = grown;
		c->cap = cap;
	}
	c->v[id] += n;
	return 0;
}

uint64_t cover_cycles_of(const struct cover_cycles *c, uint32_t id)
{
	return c && id < c->cap ? c->v[id] : 0;
}

int cover_cycles_add(struct cover_cycles *c, uint32_t id, uint64_t n)
{
	return c && n ? add(c, id, n) : 0;
}

uint64_t cover_cycles_share(uint64_t n, uint64_t part, uint64_t all)
{
	return part >= all ? n : (uint64_t)((unsigned __int128)n * part / all);
}

/* What is lost by rounding goes to what ran later, so that the sum is right. */
static int settle(struct cover_cycles *c, struct cover_interval *i)
{
	uint64_t left = i->waiting, insns = i->n_insns, n;
	int err = 0;

	if (!i->n)
		return 0;
	for (size_t k = 0; k < i->n && !err; k++) {
		n = cover_cycles_share(left, i->runs[k].n_insns, insns);
		insns -= i->runs[k].n_insns;
		left -= n;
		err = add(c, i->runs[k].id, n);
	}
	i->n = 0;
	i->n_insns = 0;
	i->waiting = 0;
	return err;
}

int cover_cycles_at(struct cover_cycles *c, uint32_t stream, uint32_t tid)
{
	struct cover_interval new = { .stream = stream, .tid = tid, .away = true };
	struct cover_interval *i;
	size_t k;
	int err;

	for (k = 0; k < c->n_intervals && c->intervals[k].stream != stream; k++)
		;
	if (k == c->n_intervals &&
	    array_append(&c->intervals, &c->n_intervals, &c->cap_intervals, &new,
			 sizeof(new)))
		return -AUX_E_NOMEM;
	c->at = k;
	i = &c->intervals[k];
	if (i->tid == tid)
		return 0;
	i->tid = tid;
	err = settle(c, i);
	i->waiting = 0;
	return err;
}

int cover_cycles_ran(struct cover_cycles *c, uint32_t id, uint64_t n_insns)
{
	struct cover_interval *i = &c->intervals[c->at];

	i->away = false;
	if (!i->waiting || !n_insns)
		return 0;
	i->n_insns += n_insns;
	if (i->n && i->runs[i->n - 1].id == id) {
		i->runs[i->n - 1].n_insns += n_insns;
		return 0;
	}
	return array_append(&i->runs, &i->n, &i->cap,
			    &(struct cover_run){ .id = id, .n_insns = n_insns },
			    sizeof(*i->runs));
}

int cover_cycles_pass(struct cover_cycles *c, uint64_t n)
{
	struct cover_interval *i = &c->intervals[c->at];
	int err = settle(c, i);

	if (!i->away)
		i->waiting += n << COVER_CYCLE_BITS;
	return err;
}

void cover_cycles_pause(struct cover_cycles *c, bool away)
{
	c->intervals[c->at].away = away;
}

int cover_cycles_end(struct cover_cycles *c)
{
	int err = 0;

	for (size_t k = 0; k < c->n_intervals && !err; k++)
		err = settle(c, &c->intervals[k]);
	return err;
}

void cover_cycles_free(struct cover_cycles *c)
{
	if (!c)
		return;
	for (size_t k = 0; k < c->n_intervals; k++)
		free(c->intervals[k].runs);
	free(c->intervals);
	free(c->v);
	free(c);
}
