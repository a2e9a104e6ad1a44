/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: exceptions, which say up to where instructions ran without a P0 element, and
 * source addresses, which say the same of a taken branch.
 */
#include "decode/lib/etm/packet.h"

enum { CALL = 2, IRQ = 14, FIQ = 15 };

/* A range up to the instruction behind which it ended. */
static void end_range(struct etm *d, struct aux_flow *range, uint64_t first,
		      uint64_t last, uint32_t word)
{
	struct etm_node n = { 0 };

	etm_classify(d, word, last, &n);
	n.ip = first;
	n.last = last;
	n.n = (uint32_t)((last - first) / 4 + 1);
	*range = etm_range(&n, true);
}

/*
 * What ran before an exception that returns to from. A way to there that is none
 * (it is behind, or between instructions) is a GAP.
 */
static void walk_to(struct etm *d, uint64_t from, struct etm_after *a)
{
	uint64_t ip = d->ip;
	uint32_t word = 0, last = 0;
	bool there = etm_read_insn(d, ip, &word);

	a->ip = ip;
	for (; ip < from && there; there = etm_read_insn(d, ip, &word)) {
		if (ip - d->ip >= ETM_WALK_MAX) {
			d->unsupported = true;
			return;
		}
		last = word;
		ip += 4;
	}
	a->overrun = ip > from;
	a->no_code = ip < from;
	if (ip != from)
		d->place = ETM_NOWHERE;
	if (a->overrun) {	/* nobody knows where it would have ended */
		a->desync = there || ip != d->ip;
		d->has_ip = false;
		return;
	}
	a->has_range = ip != d->ip;
	if (a->has_range)
		end_range(d, &a->range, d->ip, ip - 4, last);
	a->ip = ip;
	etm_go(d, ip);
}

/* Where the way led, when it is a wrong one. */
static void push_overrun(struct etm *d, const struct etm_after *a)
{
	bool known = d->lost && d->lost_ip == a->ip;

	if (!a->desync && !known) {
		etm_push_no_code(d, a->ip);
		return;
	}
	if (d->waiting != ETM_NONE)
		etm_settle(d, a->ip);
	d->on = d->lost = true;
	d->lost_ip = a->ip;
	if (a->desync) {
		etm_push_gap(d, AUX_GAP_DESYNC, true, a->ip,
			     ETM_DETAIL_NO_CODE);
		d->told = ETM_LOSS_NONE;
		d->last_known = false;
	}
}

/* The rest of an exception, behind its context. */
void etm_push_after(struct etm *d)
{
	struct etm_after *a = &d->after;
	struct aux_flow *f;

	a->waits = false;
	if (a->has_range)
		etm_push_range(d, &a->range);
	if (a->no_code)
		etm_push_no_code(d, a->ip);
	if (a->overrun)
		push_overrun(d, a);
	if (a->number == CALL)
		etm_end_syscall(d, a->from);
	if (d->waiting != ETM_NONE)
		etm_settle(d, a->from);
	f = etm_push(d, AUX_FLOW_ASYNC,
		     a->number == IRQ || a->number == FIQ ?
			     AUX_ASYNC_INTERRUPT : AUX_ASYNC_EXCEPTION);
	f->flags = AUX_FLOW_HAS_IP;
	f->async.from = a->from;
	d->waiting = d->tail - 1;
	d->on = true;
}

/* Its address has come. */
void etm_take_exception(struct etm *d, uint64_t from)
{
	struct etm_exception *e = &d->exc;

	etm_commit(d);
	e->waits = false;
	if (!e->bad && d->place == ETM_RETURN && !e->target &&
	    !etm_pop_return(d)) {
		if (d->unsure)
			etm_go_astray(d);
		else
			e->bad = true;
	}
	if (e->bad) {
		etm_fail(d, AUX_GAP_DESYNC);
		return;
	}
	d->after = (struct etm_after){ .waits = true, .number = e->number,
				       .from = from };
	if (e->has_context) {
		d->is_64 = d->code_64 = e->context.is_64;
		d->need_context = false;
	}
	if (e->target) {
		etm_go(d, from);
		d->place = ETM_HERE;
	} else if (d->place == ETM_ADRIFT) {
		;	/* what ran up to there is not known */
	} else if (!d->has_ip || (d->ip != from && !d->code_64)) {
		d->unsupported = true;
		d->after.waits = false;
		return;
	} else if (d->ip != from) {
		walk_to(d, from, &d->after);
	}
	if (d->unsupported) {
		d->after.waits = false;
		return;
	}
	if (e->has_context)
		etm_push_context(d, &e->context);
	if (!d->stop)
		etm_push_after(d);
}

/* An indirect branch went nobody knows where. */
static bool is_adrift(struct etm *d)
{
	if (d->place == ETM_RETURN && !etm_pop_return(d)) {
		if (!d->unsure)
			return true;
		etm_go_astray(d);
	}
	return d->place == ETM_NOWHERE && d->on && !d->lost;
}

/*
 * A taken branch at ip, or another P0 element, and those before it were not taken.
 * Nothing goes on there when the flow cannot have come there, or when it is another
 * instruction. DDI 0487, K10.5.5.7.
 */
void etm_take_source(struct etm *d, uint64_t ip)
{
	struct etm_node n = { 0 };
	struct aux_flow range;
	uint64_t first = ip;
	uint32_t word;

	if (d->need_context || !d->code_64) {
		d->unsupported = true;
		return;
	}
	if (is_adrift(d)) {
		etm_fail(d, AUX_GAP_DESYNC);
		return;
	}
	if (!etm_read_insn(d, ip, &word)) {
		etm_push_no_code(d, ip);
		etm_lose_returns(d, ip);
		d->place = ETM_ADRIFT;
		return;
	}
	if (!etm_classify(d, word, ip, &n)) {
		etm_fail(d, AUX_GAP_DESYNC);
		return;
	}
	if (d->place == ETM_HERE && d->ip <= ip)
		first = d->ip;
	if (ip - first >= ETM_WALK_MAX) {
		d->unsupported = true;
		return;
	}
	end_range(d, &range, first, ip, word);
	etm_push_range(d, &range);
	if (n.link)
		etm_push_return(d, ip + 4);
	etm_go(d, n.kind == ETM_DIRECT ? n.target : ip + 4);
	d->place = n.kind != ETM_INDIRECT ? ETM_HERE :
		   d->stack ? ETM_RETURN : ETM_NOWHERE;
}
