/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: events, and what the flow does at exceptions and source addresses.
 *
 * Events without an address get it from the next address packet
 * (decoder_queue.h). The last event stays in the queue, as an exception after
 * it may tell how it ended. Events come out as OpenCSD's elements do, so that
 * the two decoders can be compared event by event: details of GAPs are its
 * error numbers.
 */
#include <string.h>

#include "decode/lib/etm/impl.h"

/* Instructions from first to last ran. */
static void note_flow(struct etm *d, uint64_t first, uint64_t last,
		      uint64_t next)
{
	etm_settle(d, first);
	d->out.on = d->out.last_known = true;
	d->out.code_missing = false;
	d->out.loss = ETM_LOSS_NONE;
	d->out.last_ip = last;
	d->out.next_ip = next;
}

void etm_push_range(struct etm *d, const struct aux_flow *range)
{
	note_flow(d, range->range.first, range->range.last,
		  range->range.last + (range->flags & AUX_FLOW_SIZE_MASK));
	d->q.events[d->q.tail] = *range;
	d->q.events[d->q.tail++].offset = d->q.offset;
}

/* A path as its RANGEs. */
static void push_ranges(struct etm *d, const struct aux_path *p,
			uint64_t offset)
{
	for (uint32_t i = 0; i < p->n_steps; i++) {
		d->q.events[d->q.tail] = p->steps[i]->ranges[0];
		d->q.events[d->q.tail++].offset = offset;
	}
}

void etm_push_path(struct etm *d, struct etm_path *p)
{
	struct aux_flow *f;

	note_flow(d, p->p.steps[0]->ranges[0].range.first, p->last, p->next);
	if (!d->host->paths) {
		push_ranges(d, &p->p, d->q.offset);
		return;
	}
	f = aux_queue_push(&d->q, AUX_FLOW_PATH, 0);
	f->n = p->p.n_insns;
	f->path.path = &p->p;
}

/* The last event as a RANGE: a PATH is taken apart. NULL: it is another
 * event. */
static struct aux_flow *last_range(struct etm *d)
{
	struct aux_flow *f = aux_queue_last(&d->q);

	if (f && f->kind == AUX_FLOW_PATH) {
		d->q.tail--;
		push_ranges(d, f->path.path, f->offset);
		f = aux_queue_last(&d->q);
	}
	return f && f->kind == AUX_FLOW_RANGE ? f : NULL;
}

/* An exception that returns to the instruction after an svc was asked for by
 * that. */
static void end_syscall(struct etm *d, uint64_t from)
{
	struct aux_flow *f = d->out.next_ip == from ? last_range(d) : NULL;

	if (f && f->what == AUX_END_FALL)
		f->what = AUX_END_SYSCALL;
}

void etm_end_return(struct etm *d)
{
	struct aux_flow *f = last_range(d);

	if (f && (f->what == AUX_END_IND_JUMP || f->what == AUX_END_RET))
		f->what = AUX_END_FAR;
}

void etm_push_gap(struct etm *d, enum aux_gap_cause cause, bool known,
		  uint64_t ip, uint64_t detail)
{
	struct aux_flow *f = aux_queue_push_gap(&d->q, cause, detail);

	if (known) {
		f->flags = AUX_FLOW_HAS_IP;
		f->gap.ip = ip;
	}
}

void etm_push_no_code(struct etm *d, uint64_t ip)
{
	etm_settle(d, ip);
	etm_push_gap(d, AUX_GAP_NO_CODE, true, ip, ETM_DETAIL_NO_CODE);
	d->out.on = d->out.code_missing = true;
	d->missing_ip = ip;
}

void etm_push_unknown(struct etm *d, uint64_t ip)
{
	etm_settle(d, ip);
	etm_push_gap(d, AUX_GAP_UNKNOWN_INSN, true, ip, 0);
	d->out.on = d->out.code_missing = true;
	d->missing_ip = ip;
	etm_invalidate_returns(d, ip, AUX_GAP_UNKNOWN_INSN);
	d->flow.where = ETM_ADRIFT;
}

/* No packet says that tracing ended; only a Trace On elsewhere, or a discard,
 * shows that it did. */
static void push_off(struct etm *d)
{
	aux_queue_give_up(&d->q);
	if (d->out.on)
		aux_queue_push(&d->q, AUX_FLOW_TRACE_OFF, 0);
	d->out.on = false;
}

void etm_push_on(struct etm *d)
{
	if (d->out.loss != ETM_LOSS_OVERFLOW)
		push_off(d);
	d->out.loss = ETM_LOSS_NONE;
	d->out.on = d->out.last_known = false;
	aux_queue_push(&d->q, AUX_FLOW_TRACE_ON, 0);
	aux_queue_await(&d->q);
}

void etm_push_loss(struct etm *d, enum etm_loss why)
{
	if (why == d->out.loss)
		return;
	if (why == ETM_LOSS_OVERFLOW)
		etm_push_gap(d, AUX_GAP_OVERFLOW, false, 0, 0);
	else
		push_off(d);
	d->out.loss = why;
	d->out.on = d->ctx.emitted = d->out.last_known = false;
}

/* The host acts now, if it ever does. */
static void stop_here(struct etm *d)
{
	if (d->may_switch)
		aux_queue_stop(&d->q);
}

/* aux_decoder_host.time_step */
static bool may_skip(const struct etm *d, uint64_t ts)
{
	uint64_t step = d->host->time_step;

	return step && d->q.have_time && ts > d->q.time &&
	       ts - d->q.time < step && ts < d->host->horizon_tsc;
}

/* A timestamp of 0 says that none is available. */
void etm_push_time(struct etm *d, uint64_t ts)
{
	if (!ts || (d->q.have_time && ts == d->q.time) || may_skip(d, ts))
		return;
	if (aux_queue_push_etm_time(&d->q, ts, d->config, d->host))
		stop_here(d);
}

/* With timestamps, cycles go with the next of these. */
void etm_push_cycles(struct etm *d, uint32_t n)
{
	aux_queue_add_cycles(&d->q, n);
	if (!d->src.has_timestamps)
		aux_queue_push_cycles(&d->q);
}

/* The trace repeats the context at every sync point: only a change is an
 * event. */
void etm_push_context(struct etm *d, const struct etm_ids *ids)
{
	struct aux_flow c = d->ctx.emitted ? d->ctx.event :
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
	if (d->ctx.emitted && !memcmp(&c, &d->ctx.event, sizeof(c)))
		return;
	d->ctx.event = c;
	d->ctx.emitted = true;
	c.kind = AUX_FLOW_CONTEXT;
	c.offset = d->q.offset;
	d->q.events[d->q.tail++] = c;
	if (d->host->context_switches)
		stop_here(d);
}

/* ---- exceptions ---- */

/*
 * An exception packet has the address it returns to: up to there instructions
 * ran, none of them a taken branch. A source address says the same of a P0
 * element.
 */

enum { CALL = 2, IRQ = 14, FIQ = 15 };	/* exception types, IHI 0064 */

/* The RANGE from first to last; word: the instruction at last. */
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
 * Walks the code from the flow's ip to from, the return address of an
 * exception, and fills a with what ran. An address that no walk reaches (it is
 * before ip, or between instructions) contradicts the code: that becomes a GAP.
 */
static void walk_to(struct etm *d, uint64_t from, struct etm_deferred *a)
{
	uint64_t ip = d->flow.ip;
	uint32_t word = 0, last = 0;
	bool has_code = etm_read_insn(d, ip, &word);

	a->ip = ip;
	for (; ip < from && has_code; has_code = etm_read_insn(d, ip, &word)) {
		if (ip - d->flow.ip >= ETM_WALK_MAX) {
			d->unsupported = true;
			return;
		}
		last = word;
		ip += 4;
	}
	a->overrun = ip > from;
	a->no_code = ip < from;
	if (ip != from)
		d->flow.where = ETM_AT_ADDRESS;
	if (a->overrun) {	/* where the flow really went is unknown */
		a->desync = has_code || ip != d->flow.ip;
		d->flow.has_ip = false;
		return;
	}
	a->has_range = ip != d->flow.ip;
	if (a->has_range)
		end_range(d, &a->range, d->flow.ip, ip - 4, last);
	a->ip = ip;
	etm_continue_at(d, ip);
}

/* The walk missed the address of the exception: what ran may have called. */
static void push_overrun(struct etm *d, const struct etm_deferred *a)
{
	bool known = d->out.code_missing && d->missing_ip == a->ip;

	etm_invalidate_returns(d, a->ip, a->desync ? AUX_GAP_DESYNC :
						     AUX_GAP_NO_CODE);
	if (!a->desync && !known) {
		etm_push_no_code(d, a->ip);
		return;
	}
	etm_settle(d, a->ip);
	d->out.on = d->out.code_missing = true;
	d->missing_ip = a->ip;
	if (a->desync) {
		etm_push_gap(d, AUX_GAP_DESYNC, true, a->ip,
			     ETM_DETAIL_NO_CODE);
		d->out.loss = ETM_LOSS_NONE;
		d->out.last_known = false;
	}
}

void etm_push_deferred(struct etm *d)
{
	struct etm_deferred *a = &d->deferred;
	struct aux_flow *f;

	a->valid = false;
	if (a->has_range)
		etm_push_range(d, &a->range);
	if (a->no_code)
		etm_push_no_code(d, a->ip);
	if (a->overrun)
		push_overrun(d, a);
	if (a->number == CALL)
		end_syscall(d, a->from);
	etm_settle(d, a->from);
	f = aux_queue_push(&d->q, AUX_FLOW_ASYNC,
			   a->number == IRQ || a->number == FIQ ?
				   AUX_ASYNC_INTERRUPT : AUX_ASYNC_EXCEPTION);
	f->flags = AUX_FLOW_HAS_IP;
	f->async.from = a->from;
	aux_queue_await(&d->q);
	d->out.on = true;
}

/* The address of an exception that is not itself a branch target. Nothing is
 * known of what ran before it when the flow is adrift. */
static void walk_to_exception(struct etm *d, uint64_t from)
{
	if (d->flow.where == ETM_ADRIFT)
		return;
	if (!d->flow.has_ip || (d->flow.ip != from && !d->flow.code_64))
		d->unsupported = true;
	else if (d->flow.ip != from)
		walk_to(d, from, &d->deferred);
}

void etm_apply_exception(struct etm *d, uint64_t from)
{
	struct etm_exception *e = &d->exc;

	etm_commit(d);
	e->pending = false;
	if (!e->broken && d->flow.where == ETM_AT_RETURN && !e->target &&
	    !etm_pop_return(d)) {
		if (d->ret.unsure)
			etm_lose_flow(d);
		else
			e->broken = true;
	}
	if (e->broken) {
		etm_fail(d, AUX_GAP_DESYNC);
		return;
	}
	d->deferred = (struct etm_deferred){ .valid = true, .from = from,
					     .number = e->number };
	if (e->has_context) {
		d->ctx.is_64 = d->flow.code_64 = e->context.is_64;
		d->ctx.needed = false;
	}
	if (e->target) {
		etm_continue_at(d, from);
		d->flow.where = ETM_AT_IP;
	} else {
		walk_to_exception(d, from);
	}
	if (d->unsupported) {
		d->deferred.valid = false;
		return;
	}
	if (e->has_context)
		etm_push_context(d, &e->context);
	if (!d->q.stop)
		etm_push_deferred(d);
}

/* ---- source addresses ---- */

/* Did an indirect branch go where no packet and no return stack says? */
static bool lacks_address(struct etm *d)
{
	if (d->flow.where == ETM_AT_RETURN && !etm_pop_return(d)) {
		if (!d->ret.unsure)
			return true;
		etm_lose_flow(d);
	}
	return d->flow.where == ETM_AT_ADDRESS && d->out.on &&
	       !d->out.code_missing;
}

/* What ran from first on up to where there is no code. */
static void push_up_to_hole(struct etm *d, uint64_t first, uint64_t hole)
{
	struct etm_node n = { .ip = first, .last = hole - 4,
			      .n = (uint32_t)((hole - first) / 4),
			      .taken = AUX_END_FALL };
	struct aux_flow range = etm_range(&n, true);

	if (hole != first)
		etm_push_range(d, &range);
	if (!d->out.code_missing || d->missing_ip != hole)
		etm_push_no_code(d, hole);
	etm_invalidate_returns(d, hole, AUX_GAP_NO_CODE);
}

/*
 * The P0 elements between the flow's ip and this one were not taken (DDI 0487,
 * K10.5.5.7). An instruction that is no P0 element, or that the flow cannot
 * have reached, contradicts the trace.
 */
void etm_apply_source(struct etm *d, uint64_t ip)
{
	struct etm_node n = { 0 };
	struct aux_flow range;
	uint64_t first = ip, hole;
	uint32_t word;

	if (d->ctx.needed || !d->flow.code_64) {
		d->unsupported = true;
		return;
	}
	if (lacks_address(d)) {
		etm_fail(d, AUX_GAP_DESYNC);
		return;
	}
	if (!etm_read_insn(d, ip, &word)) {
		etm_push_no_code(d, ip);
		etm_invalidate_returns(d, ip, AUX_GAP_NO_CODE);
		d->flow.where = ETM_ADRIFT;
		return;
	}
	if (!etm_classify(d, word, ip, &n)) {
		etm_fail(d, AUX_GAP_DESYNC);
		return;
	}
	if (n.kind == ETM_UNKNOWN) {
		etm_push_unknown(d, ip);
		return;
	}
	if (d->flow.where == ETM_AT_IP && d->flow.ip <= ip)
		first = d->flow.ip;
	if (ip - first >= ETM_WALK_MAX) {
		d->unsupported = true;
		return;
	}
	hole = etm_find_hole(d, first, ip);
	if (hole != ip) {
		push_up_to_hole(d, first, hole);
		first = ip;
	}
	end_range(d, &range, first, ip, word);
	etm_push_range(d, &range);
	if (n.link)
		etm_push_return(d, ip + 4);
	etm_continue_at(d, n.kind == ETM_DIRECT ? n.target : ip + 4);
	if (n.kind == ETM_INDIRECT)
		d->flow.where = d->src.return_stack ? ETM_AT_RETURN :
						      ETM_AT_ADDRESS;
	else
		d->flow.where = ETM_AT_IP;
}
