/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OpenCSD: events that need no code. What waits for an ip (where tracing goes on,
 * where an exception leads to) gets it from the next address, if that comes before
 * the host has to act and not too late.
 */
#include "decode/lib/opencsd/impl.h"

static void wait_for_ip(struct opencsd *d)
{
	if (d->waiting == NONE)
		d->waiting = d->tail - 1;
}

/* The flow goes on at ip. */
void opencsd_settle(struct opencsd *d, uint64_t ip)
{
	uint32_t i = d->tail - d->waiting > N_WAITING ? d->tail : d->waiting;

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
	d->waiting = NONE;
}

void opencsd_push_gap(struct opencsd *d, enum aux_gap_cause cause,
		      bool known, uint64_t ip, uint64_t detail)
{
	struct aux_flow *f;

	d->waiting = NONE;
	f = opencsd_push(d, AUX_FLOW_GAP, cause);
	f->gap.detail = detail;
	if (known) {
		f->flags = AUX_FLOW_HAS_IP;
		f->gap.ip = ip;
	}
	if (cause == AUX_GAP_OVERFLOW)
		wait_for_ip(d);
}

/* No packet tells that tracing ended: what goes on elsewhere does. */
void opencsd_push_off(struct opencsd *d)
{
	d->waiting = NONE;
	if (d->on)
		opencsd_push(d, AUX_FLOW_TRACE_OFF, 0);
	d->on = false;
}

void opencsd_push_on(struct opencsd *d, trace_on_reason_t reason)
{
	bool lost = d->told == UNSYNC_OVERFLOW;

	if (reason == TRACE_ON_OVERFLOW && !lost) {
		opencsd_push_gap(d, AUX_GAP_OVERFLOW, false, 0, 0);
		lost = true;
	}
	if (!lost)
		opencsd_push_off(d);
	d->told = UNSYNC_UNKNOWN;
	d->in_tx = d->on = false;
	d->last_known = d->indirect = d->popped = d->mute = false;
	d->unsure = false;
	opencsd_push(d, AUX_FLOW_TRACE_ON, 0);
	wait_for_ip(d);
}

void opencsd_lose_sync(struct opencsd *d, unsync_info_t why)
{
	if (why == d->told)
		return;
	if (why == UNSYNC_OVERFLOW)
		opencsd_push_gap(d, AUX_GAP_OVERFLOW, false, 0, 0);
	else if (why == UNSYNC_BAD_PACKET)
		opencsd_push_gap(d, AUX_GAP_BAD_PACKET, d->last_known,
				 d->last_ip, 0);
	else if (why == UNSYNC_DISCARD)
		opencsd_push_off(d);
	else if (d->on)
		opencsd_push_gap(d, AUX_GAP_DESYNC, d->last_known, d->last_ip,
				 why);
	else
		return;
	d->told = why;
	d->on = false;
	d->have_context = false;
	d->in_tx = d->last_known = false;
	d->indirect = d->popped = d->mute = false;
	opencsd_find_again(d);
}

/* The host acts now, if it ever does and the library can be held. */
static void stop_here(struct opencsd *d)
{
	if (d->cut || !d->early)
		d->stop = d->tail;
}

/* A timestamp of 0 says that there was none. */
void opencsd_push_time(struct opencsd *d, uint64_t ts)
{
	struct aux_flow *f;

	if (!ts || (d->have_time && ts == d->time))
		return;
	f = opencsd_push(d, AUX_FLOW_TIME, 0);
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

static bool has_timestamps(const struct aux_etm_config *etm)
{
	if (etm->arch == AUX_ETM_V4 || etm->arch == AUX_ETM_ETE)
		return etm->trcconfigr >> 11 & 1;
	return etm->etmcr >> 28 & 1;
}

/* Cycles go with the next timestamp, where such come. */
void opencsd_push_cycles(struct opencsd *d, uint32_t n)
{
	struct aux_flow *f;

	if (d->cycles > UINT32_MAX - n)
		d->cycles = UINT32_MAX;
	else
		d->cycles += n;
	if (has_timestamps(&d->config->etm) || !d->cycles)
		return;
	f = opencsd_push(d, AUX_FLOW_TIME, 0);
	f->n = d->cycles;
	d->cycles = 0;
}

/* Each sync tells the context anew: only a change is an event. */
void opencsd_push_context(struct opencsd *d, const struct aux_flow *context)
{
	const struct aux_flow *old = &d->context;
	struct aux_flow *f;

	if (d->have_context && context->what == old->what &&
	    context->flags == old->flags &&
	    context->context.cr3 == old->context.cr3 &&
	    context->context.vmcs == old->context.vmcs)
		return;
	d->context = *context;
	d->have_context = true;
	f = opencsd_push(d, AUX_FLOW_CONTEXT, context->what);
	f->flags = context->flags;
	f->context = context->context;
	if (d->host->context_switches)
		stop_here(d);
}

void opencsd_push_event(struct opencsd *d, uint64_t number)
{
	opencsd_push(d, AUX_FLOW_EVENT, 0)->payload.value = number;
}

/* The last instruction returned from an exception. */
void opencsd_end_return(struct opencsd *d)
{
	struct aux_flow *f = d->tail > d->head ? &d->queue[d->tail - 1] : NULL;

	if (f && f->kind == AUX_FLOW_RANGE &&
	    (f->what == AUX_END_IND_JUMP || f->what == AUX_END_RET))
		f->what = AUX_END_FAR;
}
