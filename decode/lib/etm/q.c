/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: Q elements: instructions of which the trace has no atoms.
 *
 * A Q element says how many instructions ran, or only that some did, and where the
 * flow is after them. Code without a branch leaves one way for so many, and a branch
 * that is the last of them went to that address; anything else is a GAP with their
 * number, up to the address.
 *
 * Specification: Arm IHI 0064, "Q elements" and "Q packet". It does not say what the
 * trace unit does to its return stack at branches that it does not trace: what was on
 * it counts no more.
 */
#include "decode/lib/etm/impl.h"

/* Did the last of n instructions, a branch, lead to that address? */
static bool leads_to(const struct etm_node *last, uint64_t next, uint64_t to,
		     bool *taken)
{
	*taken = true;
	if (last->kind == ETM_INDIRECT)
		return true;
	if (last->kind == ETM_WAYPOINT)
		return to == next;
	if (last->taken == AUX_END_COND_TAKEN && to == next)
		*taken = false;
	return to == last->target || !*taken;
}

/* Fills range with what ran. Returns why that is not known, and in *at where; 0: it
 * is. */
static unsigned walk(struct etm *d, const struct etm_q *q, uint64_t to,
		     struct aux_flow *range, struct etm_node *last, uint64_t *at)
{
	uint64_t first = d->flow.ip, ip = first;
	bool taken;
	uint32_t word;

	*at = first;
	if (!q->n || q->has_context || q->n > ETM_WALK_MAX / 4)
		return AUX_GAP_UNTRACED;
	for (uint32_t i = 0; i < q->n; i++, ip += 4) {
		if (i && last->kind != ETM_WAYPOINT)
			return AUX_GAP_UNTRACED;
		*last = (struct etm_node){ .n = i + 1 };
		if (!etm_read_insn(d, ip, &word)) {
			*at = ip;
			return AUX_GAP_NO_CODE;
		}
		etm_classify(d, word, ip, last);
		if (last->kind == ETM_UNKNOWN)
			return AUX_GAP_UNTRACED;
	}
	if (!leads_to(last, ip, to, &taken))
		return AUX_GAP_DESYNC;
	last->ip = first;
	last->last = ip - 4;
	*range = etm_range(last, taken);
	return 0;
}

static void push_untraced(struct etm *d, unsigned why, uint64_t ip, uint32_t n)
{
	if (why == AUX_GAP_NO_CODE) {
		etm_push_no_code(d, ip);
	} else {
		etm_settle(d, ip);
		etm_push_gap(d, (enum aux_gap_cause)why, true, ip, n);
		d->out.on = true;
		d->out.code_missing = false;
	}
	d->out.last_known = false;
	d->out.loss = ETM_LOSS_NONE;
	etm_invalidate_returns(d, ip, (enum aux_gap_cause)why);
}

/* Nothing is known of where these instructions were. */
static void push_adrift(struct etm *d, const struct etm_q *q)
{
	if (d->flow.where != ETM_AT_ADDRESS || d->out.code_missing)
		return;
	etm_push_gap(d, AUX_GAP_UNTRACED, false, 0, q->n);
	d->out.on = true;
	d->out.last_known = false;
	d->out.loss = ETM_LOSS_NONE;
}

void etm_apply_q(struct etm *d, const struct etm_q *q, uint64_t to)
{
	struct etm_node last = { 0 };
	struct aux_flow range;
	uint64_t at;
	unsigned why;

	if (d->ctx.needed || !d->flow.code_64) {
		d->unsupported = true;
		return;
	}
	if (d->flow.where == ETM_AT_RETURN && !etm_pop_return(d)) {
		if (!d->ret.unsure) {
			etm_fail(d, AUX_GAP_DESYNC);
			return;
		}
		etm_lose_flow(d);
	}
	if (d->flow.where != ETM_AT_IP) {
		push_adrift(d, q);
	} else {
		why = walk(d, q, to, &range, &last, &at);
		if (why)
			push_untraced(d, why, at, q->n);
		else
			etm_push_range(d, &range);
		if (!why && (last.link || last.kind == ETM_INDIRECT))
			etm_invalidate_returns(d, range.range.last, AUX_GAP_UNTRACED);
	}
	etm_continue_at(d, to);
	d->flow.code_64 = d->ctx.is_64;
	d->flow.where = ETM_AT_IP;
}

void etm_drop_q(struct etm *d)
{
	if (d->wait.pending)
		etm_push_gap(d, AUX_GAP_UNTRACED, false, 0, d->wait.n);
	d->wait.pending = false;
}
