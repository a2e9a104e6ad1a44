/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opencsd: events that need no code, and the look-ahead for timestamps. Events
 * without an address get it from the next address packet (decoder_queue.h).
 */
#include "decode/lib/opencsd/impl.h"

void opencsd_push_gap(struct opencsd *d, enum aux_gap_cause cause,
		      bool known, uint64_t ip, uint64_t detail)
{
	struct aux_flow *f = aux_queue_push_gap(&d->q, cause, detail);

	if (known) {
		f->flags = AUX_FLOW_HAS_IP;
		f->gap.ip = ip;
	}
}

/* No packet says that tracing ended; only a Trace On elsewhere, or a discard,
 * shows that it did. */
static void push_off(struct opencsd *d)
{
	aux_queue_give_up(&d->q);
	if (d->out.on)
		aux_queue_push(&d->q, AUX_FLOW_TRACE_OFF, 0);
	d->out.on = false;
}

void opencsd_push_on(struct opencsd *d, trace_on_reason_t reason)
{
	bool lost = d->out.loss == UNSYNC_OVERFLOW;

	if (reason == TRACE_ON_OVERFLOW && !lost) {
		opencsd_push_gap(d, AUX_GAP_OVERFLOW, false, 0, 0);
		lost = true;
	}
	if (!lost)
		push_off(d);
	d->out.loss = UNSYNC_UNKNOWN;
	d->out.in_tx = d->out.on = false;
	d->out.last_known = d->out.indirect = d->ret.popped = d->ret.suppress = false;
	d->missing.unsure = false;
	aux_queue_push(&d->q, AUX_FLOW_TRACE_ON, 0);
	aux_queue_await(&d->q);
}

/* A reason that was emitted is not emitted again. */
void opencsd_lose_sync(struct opencsd *d, unsync_info_t why)
{
	if (why == d->out.loss)
		return;
	if (why == UNSYNC_OVERFLOW)
		opencsd_push_gap(d, AUX_GAP_OVERFLOW, false, 0, 0);
	else if (why == UNSYNC_BAD_PACKET)
		opencsd_push_gap(d, AUX_GAP_BAD_PACKET, d->out.last_known,
				 d->out.last_ip, 0);
	else if (why == UNSYNC_DISCARD)
		push_off(d);
	else if (d->out.on)
		opencsd_push_gap(d, AUX_GAP_DESYNC, d->out.last_known, d->out.last_ip,
				 why);
	else
		return;
	d->out.loss = why;
	d->out.on = false;
	d->ctx.emitted = false;
	d->out.in_tx = d->out.last_known = false;
	d->out.indirect = d->ret.popped = d->ret.suppress = false;
	opencsd_clear_missing(d);
}

/* The host acts now, if it ever does; may_switch says so for in_order alone. */
static void stop_here(struct opencsd *d)
{
	if (d->may_switch || !d->src.in_order)
		aux_queue_stop(&d->q);
}

/* A timestamp of 0 says that none is available. */
void opencsd_push_time(struct opencsd *d, uint64_t ts)
{
	if (!ts || (d->q.have_time && ts == d->q.time))
		return;
	if (aux_queue_push_etm_time(&d->q, ts, d->config, d->host))
		stop_here(d);
}

static bool has_timestamps(const struct aux_etm_config *etm)
{
	if (etm->arch == AUX_ETM_V4 || etm->arch == AUX_ETM_ETE)
		return etm->trcconfigr >> 11 & 1;
	return etm->etmcr >> 28 & 1;
}

/* With timestamps, cycles go with the next of these. */
void opencsd_push_cycles(struct opencsd *d, uint32_t n)
{
	aux_queue_add_cycles(&d->q, n);
	if (!has_timestamps(&d->config->etm))
		aux_queue_push_cycles(&d->q);
}

/* The trace repeats the context at every sync point: only a change is an
 * event. */
void opencsd_push_context(struct opencsd *d, const struct aux_flow *context)
{
	const struct aux_flow *old = &d->ctx.event;
	struct aux_flow *f;

	if (d->ctx.emitted && context->what == old->what &&
	    context->flags == old->flags &&
	    context->context.cr3 == old->context.cr3 &&
	    context->context.vmcs == old->context.vmcs)
		return;
	d->ctx.event = *context;
	d->ctx.emitted = true;
	f = aux_queue_push(&d->q, AUX_FLOW_CONTEXT, context->what);
	f->flags = context->flags;
	f->context = context->context;
	if (d->host->context_switches)
		stop_here(d);
}

void opencsd_push_event(struct opencsd *d, uint64_t number)
{
	aux_queue_push(&d->q, AUX_FLOW_EVENT, 0)->payload.value = number;
}

void opencsd_end_return(struct opencsd *d)
{
	struct aux_flow *f = aux_queue_last(&d->q);

	if (f && f->kind == AUX_FLOW_RANGE &&
	    (f->what == AUX_END_IND_JUMP || f->what == AUX_END_RET))
		f->what = AUX_END_FAR;
}

/* ---- look-ahead (etm_lookahead.h): the library reads the code of the first P0
 * element before it shows the timestamp after it ---- */

bool opencsd_wants_lookahead(const struct opencsd *d)
{
	const struct aux_etm_config *etm = &d->config->etm;

	return d->may_switch && etm->ts_is_clock && has_timestamps(etm);
}

/* TRCIDR2's size fields: only these values are not reserved. */
static unsigned size_of_field(uint32_t field)
{
	field &= 0x1f;
	return field == 1 || field == 2 || field == 4 ? field : 0;
}

void opencsd_look_ahead(struct opencsd *d)
{
	const struct aux_etm_config *etm = &d->config->etm;
	const struct aux_chunk *chunk = d->in.chunk;
	struct etm_scan_config config = {
		.n_vmid = size_of_field(etm->trcidr2 >> 10),
		.n_cid = size_of_field(etm->trcidr2 >> 5),
		.has_commit = !(etm->trcidr0 >> 29 & 1),
	};
	uint64_t ts;

	d->ts.lookahead = ETM_LOOKAHEAD_NONE;
	if (!etm_scan_timestamp(&config, chunk->data + d->in.pos,
				chunk->data + chunk->len, d->ts.last, &ts))
		return;
	opencsd_push_time(d, ts);
	d->ts.foretold = true;
}
