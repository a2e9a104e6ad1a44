/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_report_func: how long the calls of a function took, and which were the
 * slowest. Those are pinned: their nodes stay, and with them the nodes they are in.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/report/report.h"

static int grow_funcs(struct report *r, uint32_t n)
{
	uint32_t max = r->n_funcs ? r->n_funcs : 256;
	struct report_func *grown;

	while (max < n)
		max *= 2;
	grown = reallocarray(r->funcs, max, sizeof(*grown));
	if (!grown)
		return -AUX_E_NOMEM;
	memset(grown + r->n_funcs, 0, (max - r->n_funcs) * sizeof(*grown));
	r->funcs = grown;
	r->n_funcs = max;
	return 0;
}

/* A new pin; REPORT_NONE: out of memory. */
static uint32_t add_pin(struct report *r)
{
	uint32_t max = r->max_pins ? 2 * r->max_pins : 1024;
	struct report_pin *grown;

	if (r->n_pins == r->max_pins) {
		grown = reallocarray(r->pins, max, sizeof(*grown));
		if (!grown)
			return REPORT_NONE;
		r->pins = grown;
		r->max_pins = max;
	}
	r->pins[r->n_pins] = (struct report_pin){ .alive = true,
						  .node = REPORT_NONE };
	return r->n_pins++;
}

int report_func_took(struct report *r, struct report_node *node,
		     uint64_t ticks)
{
	struct report_func *f;
	int64_t slot;
	uint32_t pin;
	int err = 0;

	if (node->func >= r->n_funcs)
		err = grow_funcs(r, node->func + 1);
	if (err)
		return err;
	f = &r->funcs[node->func];
	if (!f->slow.max)
		err = slowest_init(&f->slow, REPORT_SLOWEST);
	if (!err)
		err = calltimes_add(&f->times, ticks);
	if (err || !slowest_wants(&f->slow, ticks))
		return err;
	pin = add_pin(r);
	if (pin == REPORT_NONE)
		return -AUX_E_NOMEM;
	if (f->slow.n == f->slow.max)
		r->pins[f->pins[f->slow.v[0].slot]].alive = false;
	slot = slowest_offer(&f->slow, ticks);
	if (slot < 0)
		return 0;
	f->pins[slot] = pin;
	node->pin = pin + 1;
	return 0;
}

void report_func_fini(struct report_func *f)
{
	calltimes_fini(&f->times);
	slowest_fini(&f->slow);
}
