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
static void opencsd_push_off(struct opencsd *d)
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

/*
 * OpenCSD: the time of a run before its first instruction.
 *
 * A timestamp comes behind the first P0 element that it is of, so when it is seen
 * the library has read that code. Where the flow goes on (behind Trace On, at the
 * beginning of a chunk, back in user code) the packets up to the run's first
 * timestamp are therefore looked through beforehand. Only an exception leaves a
 * run of user code, and behind that nothing is looked at but a timestamp of its
 * own: an exec, a mmap or a switch can lie between two runs, never inside of one.
 * Each byte is looked at once. Specification: Arm IHI 0064 (ETMv4, ETE).
 */

enum verdict { GO_ON, FOUND, STOP };

struct scan {
	const uint8_t *p, *end;
	uint32_t idr0, idr2;
	uint64_t ts;
	bool moved;	/* an atom was seen: the run is under way */
	bool except;	/* an exception ended the run: */
	bool addressed;	/* its address has come */
	bool left;	/* its context, too */
};

static bool skip(struct scan *s, size_t n)
{
	if ((size_t)(s->end - s->p) < n)
		return false;
	s->p += n;
	return true;
}

/* Groups of 7 bits, the top bit says that more follow; of max bytes the last has
 * no such bit. */
static bool skip_groups(struct scan *s, unsigned max)
{
	for (unsigned i = 0; i < max; i++) {
		if (!skip(s, 1))
			return false;
		if (s->p[-1] < 0x80)
			return true;
	}
	return true;
}

/* What it does not tell is as in the timestamp before, but for the library, which
 * lets 7 bytes and more tell all. */
static bool take_timestamp(struct scan *s)
{
	uint64_t ts = 0;

	for (unsigned i = 0; i < 9; i++) {
		if (!skip(s, 1))
			return false;
		ts |= (uint64_t)(s->p[-1] & (i < 8 ? 0x7f : 0xff)) << 7 * i;
		if (s->p[-1] < 0x80 || i == 8) {
			if (i < 6)
				ts |= s->ts >> 7 * (i + 1) << 7 * (i + 1);
			break;
		}
	}
	s->ts = ts;
	return true;
}

static size_t bytes_of(uint32_t field)
{
	return field == 1 || field == 2 || field == 4 ? field : 0;
}

static bool skip_context(struct scan *s)
{
	size_t n = 0;

	if (!skip(s, 1))
		return false;
	if (s->p[-1] & 0x40)
		n += bytes_of(s->idr2 >> 10 & 0x1f);
	if (s->p[-1] & 0x80)
		n += bytes_of(s->idr2 >> 5 & 0x1f);
	return skip(s, n);
}

/* A run has its context before the first atom. Behind the exception that ends it
 * come one address, where it ended, and one context, that it led to. */
static bool may_have(struct scan *s, bool address, bool context)
{
	if (!s->except)
		return !context || !s->moved;
	if ((address && s->addressed) || (context && s->left))
		return false;
	s->addressed |= address;
	s->left |= context;
	return true;
}

static enum verdict pass_address(struct scan *s, uint8_t header)
{
	bool context = header < 0x88, fits;

	if (!may_have(s, true, context))
		return STOP;
	if (header == 0x95 || header == 0x96)
		fits = skip_groups(s, 2);
	else if (header == 0x9a || header == 0x9b || header == 0x82 ||
		 header == 0x83)
		fits = skip(s, 4);
	else if (header == 0x9d || header == 0x9e || header == 0x85 ||
		 header == 0x86)
		fits = skip(s, 8);
	else
		fits = header >= 0x90 && header <= 0x92;
	return fits && (!context || skip_context(s)) ? GO_ON : STOP;
}

/* Source addresses are P0 elements, as atoms are. */
static enum verdict pass_source(struct scan *s, uint8_t header)
{
	s->moved = true;
	if (s->except)
		return STOP;
	switch (header) {
	case 0xb0: case 0xb1: case 0xb2:
		return GO_ON;
	case 0xb4: case 0xb5:
		return skip_groups(s, 2) ? GO_ON : STOP;
	case 0xb6: case 0xb7:
		return skip(s, 4) ? GO_ON : STOP;
	case 0xb8: case 0xb9:
		return skip(s, 8) ? GO_ON : STOP;
	default:
		return STOP;
	}
}

static enum verdict pass_cycles(struct scan *s, uint8_t header)
{
	if (header >= 0x10)
		return GO_ON;
	if (header <= 0x0d)
		return skip(s, 1) ? GO_ON : STOP;
	if (!(s->idr0 >> 29 & 1) && !skip_groups(s, 4))
		return STOP;
	return header & 1 || skip_groups(s, 3) ? GO_ON : STOP;
}

static enum verdict pass_exception(struct scan *s)
{
	if (s->except || !skip(s, 1) || (s->p[-1] & 0x80 && !skip(s, 1)))
		return STOP;
	s->except = true;
	return GO_ON;
}

static enum verdict pass(struct scan *s, uint8_t header)
{
	if (header >= 0xc0) {
		s->moved = true;
		return s->except ? STOP : GO_ON;
	}
	if (header >= 0xb0)
		return pass_source(s, header);
	if (header == 0x02 || header == 0x03)
		return take_timestamp(s) ? FOUND : STOP;
	if (header == 0x06)
		return pass_exception(s);
	if (header >= 0x0c && header <= 0x1f)
		return pass_cycles(s, header);
	if (header == 0x80 || header == 0x81)
		return may_have(s, false, true) &&
				       (header == 0x80 || skip_context(s)) ?
			       GO_ON : STOP;
	if (header >= 0x82 && header <= 0x9e && header != 0x88)
		return pass_address(s, header);
	/* padding, events, where a timestamp belongs, transactions */
	return (header >= 0x70 && header <= 0x7f) || header == 0x88 ||
			       header == 0x0a || header == 0x0b ?
		       GO_ON : STOP;
}

/* Does a run that begins have a time for the host to act on? */
bool opencsd_may_look(const struct opencsd *d)
{
	const struct aux_etm_config *etm = &d->config->etm;

	return d->cut && etm->ts_is_clock && etm->trcconfigr >> 11 & 1;
}

void opencsd_look_ahead(struct opencsd *d)
{
	struct scan s = { .p = d->chunk->data + d->pos,
			  .end = d->chunk->data + d->chunk->len,
			  .idr0 = d->config->etm.trcidr0,
			  .idr2 = d->config->etm.trcidr2, .ts = d->ts };
	enum verdict v = GO_ON;

	d->ahead = false;
	while (v == GO_ON && s.p < s.end)
		v = pass(&s, *s.p++);
	if (v != FOUND)
		return;
	opencsd_push_time(d, s.ts);
	d->foretold = true;
}
