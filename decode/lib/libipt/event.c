/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libipt's events and time as events of the flow. Each event confirms the
 * RANGEs before it, as libipt reports one only when it has consumed its
 * packets.
 */
#include "decode/lib/libipt/impl.h"

/* libipt's estimate may go back when a packet corrects it; a TIME does so only
 * after a new sync. */
void libipt_push_time(struct libipt *d, uint64_t tsc)
{
	struct aux_flow *f;

	d->times.asked = true;
	if (d->times.have_time && tsc <= d->times.tsc)
		return;
	d->times.have_time = true;
	d->times.tsc = tsc;
	f = libipt_push(d, AUX_FLOW_TIME, 0);
	f->flags = AUX_FLOW_HAS_TSC;
	f->time.tsc = tsc;
	f->time.ns = aux_clock_ns(&d->config->clock, tsc);
	if (tsc >= d->host->horizon_tsc || tsc < d->times.queued_tsc)
		d->times.at_horizon = true;
	d->times.queued_tsc = tsc;
}

void libipt_push_ip(struct libipt *d, enum aux_flow_kind kind, unsigned what,
		    bool known, uint64_t ip)
{
	struct aux_flow *f = libipt_push(d, kind, what);

	if (!known)
		return;
	f->flags = AUX_FLOW_HAS_IP;
	f->trace.ip = ip;
}

void libipt_push_gap(struct libipt *d, enum aux_gap_cause cause, uint64_t ip,
		     uint64_t detail)
{
	struct aux_flow *f;

	libipt_settle(d, false, 0);
	f = libipt_push(d, AUX_FLOW_GAP, cause);
	f->flags = AUX_FLOW_HAS_IP;
	f->gap.ip = ip;
	f->gap.detail = detail;
}

/* ---- libipt's events ---- */

static void push_context(struct libipt *d)
{
	struct aux_flow *f = libipt_push(d, AUX_FLOW_CONTEXT, 0);

	f->context.cr3 = d->context.cr3;
	f->context.vmcs = d->context.vmcs;
}

static void push_power(struct libipt *d, enum aux_power_kind what, bool known,
		       uint64_t ip, uint64_t value)
{
	struct aux_flow *f = libipt_push(d, AUX_FLOW_POWER, what);

	f->flags = known ? AUX_FLOW_HAS_IP : 0;
	f->payload.ip = known ? ip : 0;
	f->payload.value = value;
}

/* Without an IP of its own it belongs to the instruction before it. libipt 2.0
 * says so itself, 2.1 only if it had to walk there. */
static void push_ptwrite(struct libipt *d, const struct pt_event *e)
{
	struct aux_flow *f = libipt_push(d, AUX_FLOW_PAYLOAD, 0);
	bool ip = !e->ip_suppressed;

	f->n = e->variant.ptwrite.size;
	f->flags = ip || d->out.at_insn ? AUX_FLOW_HAS_IP : 0;
	f->payload.ip = ip ? e->variant.ptwrite.ip :
			d->out.at_insn ? d->out.last_ip : 0;
	f->payload.value = e->variant.ptwrite.payload;
}

/* A PSB+ repeats the state; that no transaction runs is not worth an event. */
static void push_tsx(struct libipt *d, const struct pt_event *e)
{
	if (e->status_update && !e->variant.tsx.speculative)
		return;
	libipt_push_ip(d, AUX_FLOW_TX,
		       e->variant.tsx.aborted ? AUX_TX_ABORT :
		       e->variant.tsx.speculative ? AUX_TX_BEGIN : AUX_TX_COMMIT,
		       !e->ip_suppressed, e->variant.tsx.ip);
}

/* The open branch led to from, which was interrupted. */
static void push_async(struct libipt *d, uint64_t from, uint64_t to)
{
	struct aux_flow *f;

	libipt_settle(d, true, from);
	f = libipt_push(d, AUX_FLOW_ASYNC, AUX_ASYNC_UNKNOWN);
	f->flags = AUX_FLOW_HAS_IP;
	f->async.from = from;
	f->async.to = to;
}

/* Pushes e if it changes the control flow. False: it is an event of another
 * kind. */
static bool push_flow_event(struct libipt *d, const struct pt_event *e)
{
	bool ip = !e->ip_suppressed;

	switch (e->type) {
	case ptev_enabled:
		d->pending.trace_on = false;
		libipt_settle(d, false, 0);
		libipt_push_ip(d, AUX_FLOW_TRACE_ON, 0, ip, e->variant.enabled.ip);
		d->out.last_ip = e->variant.enabled.ip;
		return true;
	case ptev_disabled:
		d->pending.trace_on = false;
		libipt_settle(d, ip, e->variant.disabled.ip);
		libipt_push_ip(d, AUX_FLOW_TRACE_OFF, 0, ip, e->variant.disabled.ip);
		return true;
	case ptev_async_disabled:
		d->pending.trace_on = false;
		push_async(d, e->variant.async_disabled.at, 0);
		libipt_push_ip(d, AUX_FLOW_TRACE_OFF, 0, ip,
			       e->variant.async_disabled.ip);
		return true;
	case ptev_async_branch:
		push_async(d, e->variant.async_branch.from,
			   ip ? e->variant.async_branch.to : 0);
		return true;
	case ptev_overflow:
		d->pending.trace_on = false;
		libipt_push_gap(d, AUX_GAP_OVERFLOW,
				ip ? e->variant.overflow.ip : 0, 0);
		if (!ip)
			d->out.queue[d->out.tail - 1].flags = 0;
		return true;
	default:
		return false;
	}
}

void libipt_push_event(struct libipt *d, const struct pt_event *e)
{
	bool ip = !e->ip_suppressed;

	if (push_flow_event(d, e)) {
		d->out.at_insn = false;
		return;
	}
	switch (e->type) {
	case ptev_paging:
	case ptev_async_paging:
		d->context.cr3 = e->variant.paging.cr3;
		push_context(d);
		break;
	case ptev_vmcs:
	case ptev_async_vmcs:
		d->context.vmcs = e->variant.vmcs.base;
		push_context(d);
		break;
	case ptev_tsx:
		push_tsx(d, e);
		break;
	case ptev_ptwrite:
		push_ptwrite(d, e);
		break;
	case ptev_exstop:
		push_power(d, AUX_POWER_STOPPED, ip, e->variant.exstop.ip, 0);
		break;
	case ptev_mwait:
		push_power(d, AUX_POWER_MWAIT, ip, e->variant.mwait.ip,
			   e->variant.mwait.hints |
				   (uint64_t)e->variant.mwait.ext << 32);
		break;
	case ptev_pwre:
		push_power(d, AUX_POWER_ENTRY, false, 0,
			   e->variant.pwre.state |
				   e->variant.pwre.sub_state << 8);
		break;
	case ptev_pwrx:
		push_power(d, AUX_POWER_EXIT, false, 0,
			   e->variant.pwrx.last |
				   e->variant.pwrx.deepest << 8);
		break;
	case ptev_cbr:
		push_power(d, AUX_POWER_RATIO, false, 0, e->variant.cbr.ratio);
		break;
	default: /* tick, exec_mode, stop, mnt: only their time matters */
		break;
	}
}
