/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pauses of tracing on the fast path: from a TIP.PGD to the TIP.PGE after it.
 *
 * A filter, and a system call where the kernel is not traced, make two packets each
 * time, and a PSB+ or a PIP comes between. In recordings of hardware these are a tenth
 * of all packets, and step by step they cost ten times as much as the others.
 *
 * pt_check_pause has looked at the packets, with what comes after them: each item before
 * d->checked can be read, and stands. So here they have their effect at once, in the
 * order in which the slow path gives it to them (apply.c), and whatever is not simple is
 * left to the slow path as it was found:
 *
 *  - a walk to the TIP.PGD that ends inside of a RANGE, or meets a MOV CR3;
 *  - a TIME that the host has to look at;
 *  - after the TIP.PGE, a mode that no key has.
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Packet Generation
 * Scenarios".
 */
#include <string.h>

#include "decode/lib/pt/fast.h"

#define ROOM 20			/* events of one item, without RANGEs: those of a
				 * PSB+, with a TIME */
#define ROOM_OFF 2		/* of a TIP.PGD */
#define PSBEND_SIZE 2
#define MTC_OPCODE 0x59

/* Is a TIME due at an event now, as in pt_emit_time? */
static bool is_due(const struct pt_fast *r)
{
	const struct pt *d = r->d;
	uint64_t tsc = d->cur.time.tsc;

	if (r->lazy || !d->cur.time.known)
		return false;
	return !d->times.have_time || tsc < d->times.queued_tsc ||
	       (tsc > d->times.tsc && (tsc >= d->host->horizon_tsc ||
				       tsc - d->times.tsc >= d->host->time_step));
}

/* Does the host have to look at the TIME that is due? */
static bool is_for_host(const struct pt_fast *r)
{
	const struct pt *d = r->d;

	return is_due(r) && (d->cur.time.tsc >= d->host->horizon_tsc ||
			     d->cur.time.tsc < d->times.queued_tsc ||
			     d->cur.time.tsc < d->times.delivered_tsc);
}

static struct aux_flow *put(struct pt_fast *r, enum aux_flow_kind kind,
			    unsigned what)
{
	struct aux_flow *f = r->o++;

	*f = (struct aux_flow){ .offset = r->offset, .kind = (uint8_t)kind,
				.what = (uint8_t)what };
	return f;
}

static void put_ip(struct pt_fast *r, enum aux_flow_kind kind, bool known,
		   uint64_t ip)
{
	struct aux_flow *f = put(r, kind, 0);

	f->flags = known ? AUX_FLOW_HAS_IP : 0;
	f->trace.ip = known ? ip : 0;
}

/* The TIME that comes before an event. */
static void put_time(struct pt_fast *r)
{
	struct pt *d = r->d;
	uint64_t tsc = d->cur.time.tsc;
	struct aux_flow *f;

	if (!is_due(r))
		return;
	d->times.have_time = true;
	d->times.tsc = d->times.queued_tsc = d->times.delivered_tsc = tsc;
	f = put(r, AUX_FLOW_TIME, 0);
	f->flags = AUX_FLOW_HAS_TSC;
	f->n = pt_cycles_to_emit(d);
	f->time.tsc = tsc;
	f->time.ns = aux_clock_ns(&d->config->clock, tsc);
}

/* Lazy timing ends at a packet of time. */
static void update_time(struct pt_fast *r, const struct ptpkt *pkt)
{
	pt_fast_store_time(r);
	pt_update_time(&r->d->cur, pkt);
	r->cycles = r->d->cur.time.cycles;
}

/* ---- the walk to a TIP.PGD ---- */

/* May the code of the step have a MOV CR3? It has the bytes 0F 22, or 22 after a REX2
 * prefix. */
static bool may_set_cr3(struct pt *d, const struct aux_step *s)
{
	for (uint32_t i = 0; i < s->n_ranges; i++) {
		const struct aux_flow *f = &s->ranges[i];
		size_t n = (size_t)(f->range.last - f->range.first) + 1;
		const uint8_t *code = pt_memo_bytes(&d->memo, f->range.first, n);
		const uint8_t *p = code;

		if (!code)
			return true;
		while ((p = memchr(p, 0x22, n - (size_t)(p - code)))) {
			if ((p > code && p[-1] == 0x0f) ||
			    (p > code + 1 && p[-2] == 0xd5))
				return true;
			p++;
		}
	}
	return false;
}

static bool is_on(const struct aux_step *s, uint64_t ip)
{
	for (uint32_t i = 0; i < s->n_ranges; i++)
		if (ip >= s->ranges[i].range.first &&
		    ip <= s->ranges[i].range.last)
			return true;
	return false;
}

/* May the TIP.PGD end the flow along p, whose last branch takes its TIP? ip: of the
 * TIP.PGD, or NULL. */
static bool is_simple(struct pt *d, const struct aux_path *p, const uint64_t *ip)
{
	for (uint32_t i = 0; i < p->n_steps; i++)
		if (ip ? is_on(p->steps[i], *ip) : may_set_cr3(d, p->steps[i]))
			return false;
	return true;
}

/* To the next branch that takes a TIP, which the TIP.PGD stands for. */
static bool follow_tip(struct pt_fast *r, const uint64_t *ip)
{
	struct pt_entry e[PT_LEADS];
	unsigned n = pt_fast_find_tip(r, e);
	size_t room = (size_t)(r->end - r->o) - ROOM_OFF;

	for (unsigned i = 0; i < n; i++) {
		const struct aux_path *p = &e[i].path->pub;

		if (p->n_ranges > room || !is_simple(r->d, p, ip))
			return false;
		room -= p->n_ranges;
	}
	for (unsigned i = 0; i < n; i++)
		pt_fast_follow(r, &e[i]);
	return n;
}

/* How many RANGEs of w come before ip. All of them: it ends at ip, or at a branch that
 * takes a packet. 0: that is not so simple. *on: it leads on to another region. */
static uint32_t count_before(const struct pt_memo_walk *w, uint64_t ip, bool *on)
{
	const struct aux_flow *last = &w->ranges[w->n_ranges - 1];

	for (uint32_t i = 0; i < w->n_ranges; i++) {
		if (w->ranges[i].range.first == ip)
			return i;
		if (ip > w->ranges[i].range.first && ip <= w->ranges[i].range.last)
			return 0;
	}
	*on = w->leads && w->to != ip;
	if (w->insn.cls == X86_COND && !w->leads) {
		uint64_t next = last->range.last + w->insn.size;

		if (ip != next && ip != next + (uint64_t)w->insn.disp)
			return 0;
	}
	return w->n_ranges;
}

/* Emits n RANGEs of w, and pushes their calls. A call whose target is the next
 * instruction has no site. */
static void put_walk(struct pt_fast *r, const struct pt_memo_walk *w, uint32_t n,
		     uint64_t ip)
{
	uint32_t site = 0;
	struct aux_flow *f = NULL;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t next;

		f = r->o++;
		*f = w->ranges[i];
		f->offset = r->offset;
		next = f->range.last + (f->flags & AUX_FLOW_SIZE_MASK);
		if (site < w->n_sites && w->sites[site].ip == next)
			pt_push_call(&r->d->stack, w->sites[site++].ip);
	}
	if (n == w->n_ranges && w->insn.cls == X86_COND && !w->leads)
		f->what = ip == f->range.last + w->insn.size ?
				  AUX_END_COND_NOT_TAKEN : AUX_END_COND_TAKEN;
}

/* To ip, where a direct branch leads that the filter ends; or to a branch. */
static bool follow_walk(struct pt_fast *r, uint64_t ip)
{
	struct pt_memo_walk w[PT_LEADS];
	size_t room = (size_t)(r->end - r->o) - ROOM_OFF;
	uint32_t n[PT_LEADS], k = 0;
	uint64_t at = pt_ip_of_key(r->key_ip);
	bool on;

	do {
		on = false;
		if (k == PT_LEADS || !pt_is_canonical(at) ||
		    !pt_memo_walk(&r->d->memo, at, r->d->walk.flags, &w[k]))
			return false;
		n[k] = count_before(&w[k], ip, &on);
		if (!n[k] || n[k] > room)
			return false;
		room -= n[k];
		at = w[k++].to;
	} while (on);
	for (uint32_t i = 0; i < k; i++)
		put_walk(r, &w[i], n[i], ip);
	return true;
}

static bool take_pgd(struct pt_fast *r, const struct ptpkt *pkt)
{
	struct pt *d = r->d;
	uint64_t ip = d->cur.last_ip;
	bool known = ptpkt_ip(pkt, &ip);

	if (!pt_is_canonical(ip) ||
	    (!known && d->cur.errata & PT_ERR_SKL014 && d->config->n_filters))
		return false;
	if (!follow_tip(r, known ? &ip : NULL) && !(known && follow_walk(r, ip)))
		return false;
	pt_update_ip(&d->cur, pkt);
	put_time(r);
	put_ip(r, AUX_FLOW_TRACE_OFF, known, ip);
	d->cur.state = PT_OFF;
	d->pending.joined = 0;
	r->mark = NULL;
	return true;
}

/* ---- while tracing is off ---- */

static void put_context(struct pt_fast *r)
{
	struct aux_flow *f;

	put_time(r);
	f = put(r, AUX_FLOW_CONTEXT, 0);
	f->context.cr3 = r->d->context.cr3;
	f->context.vmcs = r->d->context.vmcs;
}

static void put_ratio(struct pt_fast *r, uint64_t ratio)
{
	put_time(r);
	put(r, AUX_FLOW_POWER, AUX_POWER_RATIO)->payload.value = ratio;
}

/* An event of a PSB+. */
static void take_status(struct pt_fast *r, const struct pt_event *ev)
{
	struct pt *d = r->d;

	switch (ev->type) {
	case PT_EV_ASYNC_PAGING:
		d->context.cr3 = ev->value;
		put_context(r);
		break;
	case PT_EV_ASYNC_VMCS:
		d->context.vmcs = ev->value;
		put_context(r);
		break;
	case PT_EV_CBR:
		put_ratio(r, ev->value);
		break;
	case PT_EV_TSX:
		put_time(r);
		pt_apply_state(d, ev);
		if (ev->value & 1)
			put(r, AUX_FLOW_TX, ev->value & 2 ? AUX_TX_ABORT :
							    AUX_TX_BEGIN);
		break;
	default:
		put_time(r);
		pt_apply_state(d, ev);
		break;
	}
}

/* The events of a PSB+ that was read. A CBR comes after the next one, as it has no ip
 * (slow.c, waits_for_psbend). */
static void take_header(struct pt_fast *r)
{
	struct pt_cursor *c = &r->d->cur;
	const struct pt_event *late = NULL;

	for (unsigned i = 0; i < c->bound.n; i++) {
		const struct pt_event *ev = &c->bound.ev[i];

		if (late && ev->type == PT_EV_CBR && i + 1 < c->bound.n)
			take_status(r, late);
		if (ev->type == PT_EV_CBR && i + 1 < c->bound.n) {
			late = ev;
			continue;
		}
		take_status(r, ev);
		if (late)
			take_status(r, late);
		late = NULL;
	}
	c->bound.n = 0;
}

/*
 * The same PSB+ again, as long as it comes: with many short pauses (a filter, a virtual
 * machine) there are more of them than of anything else. From psb to r->p is the one
 * that was taken, and first its first event. One without a TSC that changed nothing
 * never does.
 */
static void repeat_psb(struct pt_fast *r, const uint8_t *psb,
		       const struct aux_flow *first)
{
	struct pt_cursor *c = &r->d->cur;
	ptrdiff_t size = r->p - psb;
	size_t n = (size_t)(r->o - first);

	if (c->time.known)
		return;
	while (r->end - r->o >= ROOM &&
	       (psb = pt_find_same_psb(psb, r->p, r->d->checked))) {
		r->p = psb + size;
		r->offset = r->base + (uintptr_t)r->p - PSBEND_SIZE;
		for (size_t i = 0; i < n; i++) {
			*r->o = first[i];
			r->o++->offset = r->offset;
		}
		c->psb = psb;
		c->before_psb = 0;
	}
}

/* The PSB+ at r->p, which ends with a PSBEND. */
static bool take_psb(struct pt_fast *r)
{
	struct pt_cursor *c = &r->d->cur;
	const uint8_t *psb = r->p;
	const struct aux_flow *first = r->o;
	uint64_t cr3 = r->d->context.cr3, vmcs = r->d->context.vmcs;

	pt_fast_store_time(r);
	c->p = r->p;
	if (pt_read_psb(c))
		return false;
	r->cycles = c->time.cycles;
	r->p = c->p;
	r->offset = r->base + (uintptr_t)c->p;
	if (is_for_host(r))	/* with its events bound, as the slow path has them */
		return false;
	take_header(r);
	r->p += PSBEND_SIZE;
	if (cr3 == r->d->context.cr3 && vmcs == r->d->context.vmcs)
		repeat_psb(r, psb, first);
	return true;
}

/* An event of one packet. */
static void take_event(struct pt_fast *r, const struct ptpkt *pkt)
{
	struct pt_event ev = { .type = PT_EV_TSX, .value = pkt->flags };
	struct pt *d = r->d;

	switch (pkt->type) {
	case PTPKT_PIP:
		d->context.cr3 = pkt->payload;
		put_context(r);
		break;
	case PTPKT_VMCS:
		d->context.vmcs = pkt->payload;
		put_context(r);
		break;
	case PTPKT_MODE_TSX:
		put_time(r);
		pt_apply_state(d, &ev);
		put(r, AUX_FLOW_TX, pkt->flags & 2 ? AUX_TX_ABORT :
				    pkt->flags & 1 ? AUX_TX_BEGIN :
						     AUX_TX_COMMIT);
		break;
	default:	/* TraceStop */
		put_time(r);
		break;
	}
}

/* mode: the MODE.Exec before the TIP.PGE, or NULL */
static bool take_pge(struct pt_fast *r, const struct ptpkt *pkt,
		     const struct ptpkt *mode)
{
	struct pt *d = r->d;
	uint64_t ip = d->cur.last_ip;
	struct pt_event ev;

	if (!ptpkt_ip(pkt, &ip) || !pt_is_canonical(ip))
		return false;
	pt_update_ip(&d->cur, pkt);
	put_time(r);
	put_ip(r, AUX_FLOW_TRACE_ON, true, ip);
	if (mode) {
		ev = (struct pt_event){ .type = PT_EV_MODE };
		pt_set_mode(&ev, mode);
		pt_apply_state(d, &ev);
	}
	d->cur.state = PT_ON;
	r->key_ip = pt_key_ip(ip);
	r->mode = pt_key_mode(d->walk.flags);
	return true;
}

/* ---- all of it ---- */

static bool is_time(const struct ptpkt *pkt)
{
	return pkt->type == PTPKT_TSC || pkt->type == PTPKT_TMA ||
	       pkt->type == PTPKT_MTC || pkt->type == PTPKT_CYC;
}

/* The packet of time at r->p. False: it would end lazy timing, and must not. */
static bool take_time(struct pt_fast *r, const struct ptpkt *pkt, bool lazy)
{
	if (r->lazy && (pkt->type == PTPKT_CYC || pkt->type == PTPKT_MTC) &&
	    pt_fast_skip_time(r))
		return true;
	if (r->lazy && lazy)
		return false;
	update_time(r, pkt);
	r->p += pkt->size;
	return true;
}

/* The MODE.Exec at r->p, and the TIP.PGE that it waits for; both at the offset of the
 * first. False: nothing is taken. What lazy timing has skipped is skipped again then,
 * which makes no difference to it. */
static bool take_mode(struct pt_fast *r, const struct ptpkt *mode)
{
	struct pt *d = r->d;
	const uint8_t *p = r->p;
	struct pt_time time;
	struct ptpkt pkt = *mode;
	unsigned block = 0;

	if (!r->lazy)
		time = d->cur.time;
	r->p += mode->size;
	for (;;) {
		r->p = ptpkt_skip_pads(r->p, d->cur.end);
		if (ptpkt_next_on(r->p, d->cur.end, d->cur.errata, &block,
				  &pkt) <= 0 ||
		    !is_time(&pkt) || !take_time(r, &pkt, true))
			break;
	}
	if (pkt.type == PTPKT_TIP_PGE && !is_for_host(r) &&
	    take_pge(r, &pkt, mode)) {
		r->p += pkt.size;
		return true;
	}
	if (!r->lazy) {
		d->cur.time = time;
		r->cycles = time.cycles;
	}
	r->p = p;
	return false;
}

/* The item at r->p. False: it is left to the slow path. */
static bool take_item(struct pt_fast *r, const struct ptpkt *pkt)
{
	if (pkt->type == PTPKT_PSB)
		return take_psb(r);
	if (is_for_host(r))
		return false;
	switch (pkt->type) {
	case PTPKT_MODE_EXEC:
		return take_mode(r, pkt);
	case PTPKT_TIP_PGD:
		if (!take_pgd(r, pkt))
			return false;
		break;
	case PTPKT_TIP_PGE:
		if (!take_pge(r, pkt, NULL))
			return false;
		break;
	case PTPKT_CBR:
		update_time(r, pkt);
		put_ratio(r, pkt->payload);
		break;
	default:
		take_event(r, pkt);
		break;
	}
	r->p += pkt->size;
	return true;
}

/* Can the fast path go on where the TIP.PGE says? */
static bool has_key(const struct pt *d)
{
	return d->walk.mode >= PT_MODE_32 && !(d->walk.flags & AUX_FLOW_IN_TX);
}

/* Items up to the TIP.PGE (true), or one that is left to the slow path. */
static bool take_items(struct pt_fast *r)
{
	struct pt *d = r->d;
	struct ptpkt pkt;
	unsigned block = 0;

	do {
		do	/* a long pause may be nothing but MTCs */
			r->p = ptpkt_skip_pads(r->p, d->cur.end);
		while (r->lazy && r->p < d->checked && *r->p == MTC_OPCODE &&
		       pt_fast_skip_time(r));
		if (r->p >= d->checked ||
		    ptpkt_next_on(r->p, d->cur.end, d->cur.errata, &block,
				  &pkt) <= 0)
			return false;
		if (r->end - r->o < ROOM) {
			r->stop = r->o != r->out;
			return false;
		}
		r->offset = r->base + (uintptr_t)r->p;
		if (is_time(&pkt))
			take_time(r, &pkt, false);
		else if (!take_item(r, &pkt))
			return false;
	} while (d->cur.state != PT_ON);
	return has_key(d);
}

bool pt_pause_run(struct pt_fast *r)
{
	struct pt *d = r->d;
	bool on;

	d->cur.p = r->p;
	d->cur.last_ip = pt_ip_of_key(r->last_ip);
	if (!pt_slow_is_checked(d))
		return false;
	if (!r->lazy)
		pt_fast_store_time(r);
	on = take_items(r);
	r->last_ip = pt_key_ip(d->cur.last_ip);
	d->walk.untraced = 0;
	if (!r->lazy)
		pt_fast_begin_time(r);
	return on;
}
