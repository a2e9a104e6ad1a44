/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: events. What waits for an ip (where tracing goes on, where an exception
 * leads to) gets it from the next address, if that comes before the host has to
 * act and not too late. The last event stays in the queue: an exception behind it
 * may tell how it ended.
 */
#include <string.h>

#include "decode/lib/etm/engine.h"

static void wait_for_ip(struct etm *d)
{
	if (d->waiting == ETM_NONE)
		d->waiting = d->tail - 1;
}

/* The flow goes on at ip. */
void etm_settle(struct etm *d, uint64_t ip)
{
	uint32_t i = d->tail - d->waiting > ETM_WAITING ? d->tail : d->waiting;

	for (; i < d->tail; i++) {
		struct aux_flow *f = &d->queue[i];

		if (f->kind == AUX_FLOW_ASYNC) {
			f->async.to = ip;
		} else if (f->kind == AUX_FLOW_TRACE_ON) {
			f->trace.ip = ip;
			f->flags |= AUX_FLOW_HAS_IP;
		} else if (f->kind == AUX_FLOW_GAP &&
			   f->what == AUX_GAP_OVERFLOW) {
			f->gap.ip = ip;
			f->flags |= AUX_FLOW_HAS_IP;
		}
	}
	d->waiting = ETM_NONE;
}

static void note_flow(struct etm *d, uint64_t first, uint64_t last,
		      uint64_t next)
{
	if (d->waiting != ETM_NONE)
		etm_settle(d, first);
	d->on = d->last_known = true;
	d->lost = false;
	d->told = ETM_LOSS_NONE;
	d->last_ip = last;
	d->next_ip = next;
}

void etm_push_range(struct etm *d, const struct aux_flow *range)
{
	note_flow(d, range->range.first, range->range.last,
		  range->range.last + (range->flags & AUX_FLOW_SIZE_MASK));
	d->queue[d->tail] = *range;
	d->queue[d->tail++].offset = d->offset;
}

/* As RANGEs, from the queue's event on. */
static void push_ranges(struct etm *d, const struct aux_path *p,
			uint64_t offset)
{
	for (uint32_t i = 0; i < p->n_steps; i++) {
		d->queue[d->tail] = p->steps[i]->ranges[0];
		d->queue[d->tail++].offset = offset;
	}
}

void etm_push_path(struct etm *d, struct etm_path *p)
{
	struct aux_flow *f;

	note_flow(d, p->p.steps[0]->ranges[0].range.first, p->last, p->next);
	if (!d->host->paths) {
		push_ranges(d, &p->p, d->offset);
		return;
	}
	f = etm_push(d, AUX_FLOW_PATH, 0);
	f->n = p->p.n_insns;
	f->path.path = &p->p;
}

/* The last event, a RANGE by all means; NULL: it is another one. */
static struct aux_flow *last_range(struct etm *d)
{
	struct aux_flow *f = d->tail > d->head ? &d->queue[d->tail - 1] : NULL;

	if (f && f->kind == AUX_FLOW_PATH) {
		d->tail--;
		push_ranges(d, f->path.path, f->offset);
		f = &d->queue[d->tail - 1];
	}
	return f && f->kind == AUX_FLOW_RANGE ? f : NULL;
}

/* An exception that an instruction asked for: the one before it did. */
static void etm_end_syscall(struct etm *d, uint64_t from)
{
	struct aux_flow *f = d->next_ip == from ? last_range(d) : NULL;

	if (f && f->what == AUX_END_FALL)
		f->what = AUX_END_SYSCALL;
}

/* The last instruction returned from an exception. */
void etm_end_return(struct etm *d)
{
	struct aux_flow *f = last_range(d);

	if (f && (f->what == AUX_END_IND_JUMP || f->what == AUX_END_RET))
		f->what = AUX_END_FAR;
}

void etm_push_gap(struct etm *d, enum aux_gap_cause cause, bool known,
		  uint64_t ip, uint64_t detail)
{
	struct aux_flow *f;

	d->waiting = ETM_NONE;
	f = etm_push(d, AUX_FLOW_GAP, cause);
	f->gap.detail = detail;
	if (known) {
		f->flags = AUX_FLOW_HAS_IP;
		f->gap.ip = ip;
	}
	if (cause == AUX_GAP_OVERFLOW)
		wait_for_ip(d);
}

void etm_push_no_code(struct etm *d, uint64_t ip)
{
	if (d->waiting != ETM_NONE)
		etm_settle(d, ip);
	etm_push_gap(d, AUX_GAP_NO_CODE, true, ip, ETM_DETAIL_NO_CODE);
	d->on = d->lost = true;
	d->lost_ip = ip;
}

/* No packet tells that tracing ended: what goes on elsewhere does. */
static void etm_push_off(struct etm *d)
{
	d->waiting = ETM_NONE;
	if (d->on)
		etm_push(d, AUX_FLOW_TRACE_OFF, 0);
	d->on = false;
}

void etm_push_on(struct etm *d)
{
	if (d->told != ETM_LOSS_OVERFLOW)
		etm_push_off(d);
	d->told = ETM_LOSS_NONE;
	d->on = d->last_known = false;
	etm_push(d, AUX_FLOW_TRACE_ON, 0);
	wait_for_ip(d);
}

void etm_tell_loss(struct etm *d, enum etm_loss why)
{
	if (why == d->told)
		return;
	if (why == ETM_LOSS_OVERFLOW)
		etm_push_gap(d, AUX_GAP_OVERFLOW, false, 0, 0);
	else
		etm_push_off(d);
	d->told = why;
	d->on = d->have_context = d->last_known = false;
}

/* The host acts now, if it ever does. */
static void stop_here(struct etm *d)
{
	if (d->cut)
		d->stop = d->tail;
}

static bool may_skip(const struct etm *d, uint64_t ts)
{
	uint64_t step = d->host->time_step;

	return step && d->have_time && ts > d->time && ts - d->time < step &&
	       ts < d->host->horizon_tsc;
}

/* A timestamp of 0 says that there was none. */
void etm_push_time(struct etm *d, uint64_t ts)
{
	struct aux_flow *f;

	if (!ts || (d->have_time && ts == d->time) || may_skip(d, ts))
		return;
	f = etm_push(d, AUX_FLOW_TIME, 0);
	f->flags = AUX_FLOW_HAS_TSC;
	f->n = d->cycles;
	f->time.tsc = ts;
	if (d->config->etm.ts_is_clock)
		f->time.ns = aux_clock_ns(&d->config->clock, ts);
	if (ts >= d->host->horizon_tsc || ts < d->time)
		stop_here(d);
	d->cycles = 0;
	d->have_time = true;
	d->time = ts;
}

/* Cycles go with the next timestamp, where such come. */
void etm_push_cycles(struct etm *d, uint32_t n)
{
	struct aux_flow *f;

	if (d->cycles > UINT32_MAX - n)
		d->cycles = UINT32_MAX;
	else
		d->cycles += n;
	if (d->timed || !d->cycles)
		return;
	f = etm_push(d, AUX_FLOW_TIME, 0);
	f->n = d->cycles;
	d->cycles = 0;
}

/* Each sync tells the context anew: only a change is an event. */
void etm_push_context(struct etm *d, const struct etm_ids *ids)
{
	struct aux_flow c = d->have_context ? d->context :
					      (struct aux_flow){ 0 };

	c.what = (uint8_t)(AUX_CONTEXT_EL_KNOWN | ids->el |
			   (ids->secure ? AUX_CONTEXT_SECURE : 0));
	if (ids->has_cid) {
		c.flags |= AUX_FLOW_HAS_CID;
		c.context.cr3 = ids->cid;
	}
	if (ids->has_vmid) {
		c.flags |= AUX_FLOW_HAS_VMID;
		c.context.vmcs = ids->vmid;
	}
	if (d->have_context && !memcmp(&c, &d->context, sizeof(c)))
		return;
	d->context = c;
	d->have_context = true;
	c.kind = AUX_FLOW_CONTEXT;
	c.offset = d->offset;
	d->queue[d->tail++] = c;
	if (d->host->context_switches)
		stop_here(d);
}

/*
 * etm: exceptions, which say up to where instructions ran without a P0 element, and
 * source addresses, which say the same of a taken branch.
 */

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
