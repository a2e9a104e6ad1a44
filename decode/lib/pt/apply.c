/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events are applied: the code up to where an event happens is walked, then the event
 * changes the state and is emitted.
 *
 * Where it happens is given by an ip, or by the instruction that it belongs to. Those that
 * need a packet (walk_by_trace) consume packets on the way; those that cannot, as the
 * event's packet would come after them (walk_to), do not:
 *
 *	asynchronous (FUP, TIP)		walk_to the ip of the FUP
 *	PIP, VMCS, PTWRITE without IP	walk to the next instruction that makes such
 *					a packet; it stays pending
 *	MODE, and PIP, VMCS with an IP	walk_by_trace to the ip
 *	TIP.PGD				walk_to_disable
 *
 * The cases are those of libipt's event handling, so that both decoders stop and
 * fail at the same instruction; where libipt has a workaround of its own for an erratum, the
 * chunk is left to it (PT_E_UNSUPPORTED).
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Packet Generation
 * Scenarios"; volume 2 for the opcodes.
 */
#include "decode/lib/pt/impl.h"

/* ---- emitting ---- */

struct aux_flow *pt_emit(struct pt *d, enum aux_flow_kind kind,
			       unsigned what)
{
	struct aux_flow *f;

	if (d->out.suppress)
		return &d->out.none;
	if (d->out.undo.tail == UINT32_MAX) {
		d->out.undo.tail = d->out.tail;
		d->out.undo.committed = d->out.committed;
		d->out.undo.last_ip = d->out.last_ip;
	}
	pt_commit(d);
	if (!pt_queue_room(d)) {
		pt_finish(d, PT_NOMEM);
		return &d->out.none;
	}
	f = &d->out.queue[d->out.tail++];
	d->out.committed = d->out.tail;
	*f = (struct aux_flow){ .offset = d->out.offset, .kind = (uint8_t)kind,
				.what = (uint8_t)what };
	return f;
}

bool pt_emit_time(struct pt *d, uint64_t tsc)
{
	struct aux_flow *f;
	bool now = tsc >= d->host->horizon_tsc || tsc < d->times.queued_tsc;

	if (d->times.have_time && (tsc <= d->times.tsc ||
			     (!now && tsc - d->times.tsc < d->host->time_step)))
		return false;
	d->times.have_time = true;
	d->times.tsc = d->times.queued_tsc = tsc;
	d->times.at_horizon |= now;
	f = pt_emit(d, AUX_FLOW_TIME, 0);
	f->flags = AUX_FLOW_HAS_TSC;
	f->n = pt_cycles_to_emit(d);
	f->time.tsc = tsc;
	f->time.ns = aux_clock_ns(&d->config->clock, tsc);
	return true;
}

void pt_emit_ip(struct pt *d, enum aux_flow_kind kind, unsigned what,
		 bool known, uint64_t ip)
{
	struct aux_flow *f = pt_emit(d, kind, what);

	if (!known)
		return;
	f->flags = AUX_FLOW_HAS_IP;
	f->trace.ip = ip;
}

/* The TIME of the event comes before it. */
static void emit_event_time(struct pt *d, const struct pt_event *ev)
{
	if (ev->timed)
		pt_emit_time(d, ev->tsc);
}

static void emit_value(struct pt *d, const struct pt_event *ev,
		       enum aux_flow_kind kind, unsigned what, uint32_t n,
		       uint64_t value)
{
	struct aux_flow *f;

	emit_event_time(d, ev);
	f = pt_emit(d, kind, what);
	f->n = n;
	f->flags = ev->has_ip ? AUX_FLOW_HAS_IP : 0;
	f->payload.ip = ev->has_ip ? ev->ip : 0;
	f->payload.value = value;
}

static void emit_context(struct pt *d, const struct pt_event *ev)
{
	struct aux_flow *f;

	emit_event_time(d, ev);
	f = pt_emit(d, AUX_FLOW_CONTEXT, 0);
	f->context.cr3 = d->context.cr3;
	f->context.vmcs = d->context.vmcs;
}

/* ---- instructions that events belong to ---- */

/* The byte after 0F, or after a REX2 that stands for it, after the prefixes; NULL:
 * another map. *rex: a REX directly before the opcode, else 0; of a REX2 its bits
 * R in that place. */
static const uint8_t *find_opcode(const uint8_t *p, size_t n, uint8_t *rex)
{
	const uint8_t *end = p + n;

	for (*rex = 0; p < end; p++) {
		if ((*p & 0xf0) == 0x40)
			*rex = *p;
		else if (*p == 0x66 || *p == 0xf2 || *p == 0xf3 || *p == 0x67 ||
			 *p == 0x2e || *p == 0x36 || *p == 0x3e ||
			 *p == 0x26 || *p == 0x64 || *p == 0x65 || *p == 0xf0)
			*rex = 0;
		else
			break;
	}
	if (end - p >= 4 && *p == 0xd5 && p[1] & 0x80) {
		*rex = p[1] & 0x44 ? 4 : 0;
		return p + 2;
	}
	return end - p >= 3 && *p == 0x0f ? p + 1 : NULL;
}

/* MOV CR3, r64 (0F 22 /3). With a bit R it would be another register. Out of 64-bit
 * mode D5 is AAD: then the opcode would be past the instruction. */
static bool is_mov_cr3(const uint8_t *p, size_t n, const struct x86_insn *insn)
{
	uint8_t rex;
	const uint8_t *op = find_opcode(p, insn->size, &rex);

	(void)n;
	return insn->cls == X86_OTHER && op && op[0] == 0x22 &&
	       (op[1] >> 3 & 7) == 3 && !(rex & 4);
}

static bool is_far(const struct x86_insn *insn)
{
	return insn->cls == X86_FAR || insn->cls == X86_SYSCALL;
}

static bool is_pip_source(const uint8_t *p, size_t n, const struct x86_insn *insn)
{
	return is_far(insn) || is_mov_cr3(p, n, insn);
}

/* Far branches, among them VM exits and entries, and VMPTRLD (0F C7 /6). */
static bool is_vmcs_source(const uint8_t *p, size_t n, const struct x86_insn *insn)
{
	uint8_t rex;
	const uint8_t *op = find_opcode(p, insn->size, &rex);

	(void)n;
	return is_far(insn) ||
	       (insn->cls == X86_OTHER && op && op[0] == 0xc7 &&
		op[1] >> 6 != 3 && (op[1] >> 3 & 7) == 6);
}

static bool is_ptwrite(const uint8_t *p, size_t n, const struct x86_insn *insn)
{
	(void)p, (void)n;
	return insn->cls == X86_PTWRITE;
}

static bool is_any(const uint8_t *p, size_t n, const struct x86_insn *insn)
{
	(void)p, (void)n, (void)insn;
	return true;
}

/* ---- going there ---- */

/* Walks to ip without consuming a packet. While tracing is off there is nowhere
 * to walk from; what libipt does then is left to it. */
static int walk_to(struct pt *d, uint64_t ip)
{
	int r;

	if (d->cur.state != PT_ON)
		return -PT_E_UNSUPPORTED;
	r = pt_slow_walk(d, &ip);
	return r == 1 ? 0 : r ? r : -PT_E_QUERY;
}

/* The same to the ip of the event, if it has one and tracing is on. */
static int walk_to_event(struct pt *d, const struct pt_event *ev)
{
	return ev->has_ip && d->cur.state == PT_ON ? walk_to(d, ev->ip) : 0;
}

/* Walks to the ip of the event, and consumes packets on the way. */
static int walk_by_trace(struct pt *d, const struct pt_event *ev)
{
	uint64_t ip = ev->ip;
	int r;

	if (!ev->has_ip)
		return 0;
	if (d->cur.state != PT_ON)
		return -PT_E_UNSUPPORTED;
	for (;;) {
		r = pt_slow_walk(d, &ip);
		if (r)
			return r < 0 ? r : 0;
		r = pt_slow_resolve(d);
		if (r)
			return r;
	}
}

/* Walks to an instruction that matches; it is pending until no more events can
 * belong to it. */
static int walk_to_match(struct pt *d, pt_match match)
{
	int r = pt_slow_walk_match(d, match);

	if (r != 1)
		return r ? r : -PT_E_QUERY;
	d->pending.what |= PT_PENDING_BRANCH;
	return 0;
}

/* ---- each kind ---- */

static int apply_enabled(struct pt *d, const struct pt_event *ev)
{
	if (d->cur.state == PT_ON)
		return -PT_E_CONTEXT;
	emit_event_time(d, ev);
	d->pending.what &= ~PT_PENDING_ON;
	pt_emit_ip(d, AUX_FLOW_TRACE_ON, 0, true, ev->ip);
	d->walk.ip = ev->ip;
	if (!d->out.suppress)
		d->out.last_ip = d->walk.ip;
	d->cur.state = PT_ON;
	return 0;
}

/*
 * Walks to where a TIP.PGD ends tracing: to its IP if it has one, else to the
 * MOV CR3 that may have done it, or the next branch that takes a packet. The
 * outcome of a conditional branch follows from the IP. SKL014: a filter's
 * TIP.PGD may lack its IP.
 */
static int walk_to_disable(struct pt *d, const struct pt_event *ev)
{
	struct aux_flow *f;
	bool branch;
	int r;

	if (d->pending.what & PT_PENDING_BRANCH) {
		branch = d->walk.insn.cls != X86_OTHER &&
			 d->walk.insn.cls != X86_PTWRITE;
		if (branch || (d->pending.joined & PT_JOINED_PAGING && !ev->has_ip))
			return 0;
		pt_slow_pass_branch(d);
	}
	pt_slow_trace_on(d);
	if (!ev->has_ip && d->cur.errata & PT_ERR_SKL014 && d->config->n_filters)
		return -PT_E_UNSUPPORTED;
	r = ev->has_ip ? pt_slow_walk(d, &ev->ip) :
			 pt_slow_walk_match(d, is_mov_cr3);
	if (r)
		return r < 0 ? r : 0;
	f = &d->out.queue[d->out.tail - 1];
	if (ev->has_ip && d->walk.insn.cls == X86_COND) {
		if (ev->ip == d->walk.next_ip)
			f->what = AUX_END_COND_NOT_TAKEN;
		else if (ev->ip == d->walk.next_ip + (uint64_t)d->walk.insn.disp)
			f->what = AUX_END_COND_TAKEN;
	}
	return 0;
}

/* Tracing ends here. */
static void emit_disabled(struct pt *d, const struct pt_event *ev)
{
	emit_event_time(d, ev);
	d->pending.what &= ~(PT_PENDING_ON | PT_PENDING_BRANCH);
	d->cur.state = PT_OFF;
	d->pending.joined = 0;
	pt_emit_ip(d, AUX_FLOW_TRACE_OFF, 0, ev->has_ip, ev->ip);
}

static int apply_disabled(struct pt *d, const struct pt_event *ev)
{
	int r;

	if (d->cur.state != PT_ON)
		return -PT_E_UNSUPPORTED;
	r = walk_to_disable(d, ev);
	if (!r)
		emit_disabled(d, ev);
	return r;
}

/* An interrupt, or the like: ASYNC, and TRACE_OFF if it leaves what is
 * traced. */
static int apply_async(struct pt *d, const struct pt_event *ev)
{
	struct aux_flow *f;
	int r = walk_to(d, ev->from);

	if (r)
		return r;
	emit_event_time(d, ev);
	f = pt_emit(d, AUX_FLOW_ASYNC, AUX_ASYNC_UNKNOWN);
	f->flags = AUX_FLOW_HAS_IP;
	f->async.from = ev->from;
	if (ev->type == PT_EV_ASYNC_BRANCH) {
		f->async.to = ev->ip;
		d->walk.ip = ev->ip;
		return 0;
	}
	d->pending.what &= ~PT_PENDING_ON;
	d->cur.state = PT_OFF;
	pt_emit_ip(d, AUX_FLOW_TRACE_OFF, 0, ev->has_ip, ev->ip);
	return 0;
}

/* SKD022: the FUP before a TIP.PGD may be that of a VM entry: VMLAUNCH or
 * VMRESUME (0F 01 C2, C3) at ip. */
static bool is_skd022(struct pt *d, uint64_t ip)
{
	const uint8_t *p, *op;
	uint8_t buf[16], rex;
	size_t n;

	if (!(d->cur.errata & PT_ERR_SKD022))
		return false;
	n = pt_memo_code(&d->memo, ip, buf, &p);
	op = n ? find_opcode(p, n, &rex) : NULL;
	return op && op[-1] == 0x0f && op[0] == 0x01 &&
	       (op[1] == 0xc2 || op[1] == 0xc3);
}

/* SKD022: the VM entry did run, and ended tracing. */
static int apply_skd022(struct pt *d, const struct pt_event *ev)
{
	int r = walk_to(d, ev->from);

	if (!r)
		r = walk_to_match(d, is_any);
	if (!r)
		emit_disabled(d, ev);
	return r;
}

static bool is_paging(const struct pt_event *ev)
{
	return ev->type == PT_EV_PAGING || ev->type == PT_EV_ASYNC_PAGING;
}

static void set_context(struct pt *d, const struct pt_event *ev)
{
	if (is_paging(ev))
		d->context.cr3 = ev->value;
	else
		d->context.vmcs = ev->value;
	emit_context(d, ev);
}

/* PIP and VMCS. Without an IP they belong to a far branch, a MOV CR3 or a
 * VMPTRLD. */
static int apply_context(struct pt *d, const struct pt_event *ev)
{
	bool cr3 = is_paging(ev);
	bool sync = ev->type == PT_EV_PAGING || ev->type == PT_EV_VMCS;
	uint8_t bound = cr3 ? PT_JOINED_PAGING : PT_JOINED_VMCS;
	int r = 0;

	if (!sync) {
		r = walk_by_trace(d, ev);
	} else if (d->cur.state == PT_ON &&
		   !(d->pending.what & PT_PENDING_BRANCH)) {
		r = walk_to_match(d, cr3 ? is_pip_source : is_vmcs_source);
		d->pending.joined |= bound;
	}
	if (r)
		return r;
	set_context(d, ev);
	return 0;
}

static enum pt_mode mode_of(const struct pt_event *ev)
{
	return ev->value2 ? PT_MODE_NONE :
	       ev->value == AUX_FLOW_MODE_X86_64 ? PT_MODE_64 :
	       ev->value == AUX_FLOW_MODE_X86_32 ? PT_MODE_32 : PT_MODE_16;
}

static void set_mode(struct pt *d, const struct pt_event *ev)
{
	d->walk.mode = mode_of(ev);
	d->walk.flags = (d->walk.flags & AUX_FLOW_IN_TX) | (uint16_t)ev->value;
}

static void set_tx(struct pt *d, const struct pt_event *ev)
{
	d->walk.flags = (d->walk.flags & AUX_FLOW_MODE_MASK) |
			(ev->value & 1 ? AUX_FLOW_IN_TX : 0);
}

void pt_apply_state(struct pt *d, const struct pt_event *ev)
{
	switch (ev->type) {
	case PT_EV_MODE:
		set_mode(d, ev);
		break;
	case PT_EV_TSX:
		set_tx(d, ev);
		break;
	case PT_EV_PAGING: case PT_EV_ASYNC_PAGING:
	case PT_EV_VMCS: case PT_EV_ASYNC_VMCS:
		set_context(d, ev);
		break;
	}
}

static int apply_mode(struct pt *d, const struct pt_event *ev)
{
	bool alone = ev->binding == PT_BIND_FUP; /* the interrupt flag changed */
	enum pt_mode mode = mode_of(ev);
	int r = alone ? walk_to_event(d, ev) : walk_by_trace(d, ev);

	if (r)
		return r;
	/* A PSB+ repeats the mode; it cannot change it. */
	if (ev->status && d->cur.state == PT_ON &&
	    d->walk.mode != PT_MODE_NONE && mode != d->walk.mode)
		return -PT_E_CONTEXT;
	emit_event_time(d, ev);
	set_mode(d, ev);
	if (alone)
		emit_value(d, ev, AUX_FLOW_EVENT, ev->what, AUX_EVENT_IF, 0);
	return 0;
}

static int apply_tx(struct pt *d, const struct pt_event *ev)
{
	bool begun = ev->value & 1, aborted = ev->value & 2;
	int r = ev->has_ip ? walk_to(d, ev->ip) : 0;

	/* BDM64: the branch before an abort may have a wrong packet. */
	if (r == -PT_E_QUERY && aborted && d->cur.errata & PT_ERR_BDM64)
		return -PT_E_UNSUPPORTED;
	if (r)
		return r;
	emit_event_time(d, ev);
	set_tx(d, ev);
	if (!ev->status || begun)
		pt_emit_ip(d, AUX_FLOW_TX,
			    aborted ? AUX_TX_ABORT :
			    begun ? AUX_TX_BEGIN : AUX_TX_COMMIT,
			    ev->has_ip, ev->ip);
	return 0;
}

/* Packets were lost. The flow resumes at the IP of the FUP after it, or at a
 * TIP.PGE. */
static int apply_overflow(struct pt *d, const struct pt_event *ev)
{
	struct aux_flow *f;

	emit_event_time(d, ev);
	f = pt_emit(d, AUX_FLOW_GAP, AUX_GAP_OVERFLOW);
	f->flags = ev->has_ip ? AUX_FLOW_HAS_IP : 0;
	f->gap.ip = ev->has_ip ? ev->ip : 0;
	d->pending.what &= ~PT_PENDING_ON;
	d->cur.state = ev->has_ip ? PT_ON : PT_OFF;
	d->walk.ip = f->gap.ip;
	d->walk.flags = d->walk.flags & AUX_FLOW_MODE_MASK;
	return 0;
}

/* Without an IP it belongs to the next PTWRITE. ev gets the ip that was
 * found. */
static int apply_ptwrite(struct pt *d, struct pt_event *ev)
{
	int r = 0;

	if (d->cur.state == PT_ON && !ev->has_ip) {
		r = walk_to_match(d, is_ptwrite);
		ev->has_ip = !r;
		ev->ip = d->walk.insn_ip;
	} else if (d->cur.state == PT_ON) {
		r = walk_to(d, ev->ip);
		if (!r)
			r = walk_to_match(d, is_any);
	}
	if (!r)
		emit_value(d, ev, AUX_FLOW_PAYLOAD, 0, ev->size, ev->value);
	return r;
}

/* Power events, and all others with a value: CBR. */
static int apply_power(struct pt *d, const struct pt_event *ev)
{
	uint64_t v = ev->value;
	unsigned what;
	int r = walk_to_event(d, ev);

	switch (ev->type) {
	case PT_EV_EXSTOP:
		what = AUX_POWER_STOPPED;
		v = 0;
		break;
	case PT_EV_MWAIT:
		what = AUX_POWER_MWAIT;
		v |= ev->value2 << 32;
		break;
	case PT_EV_PWRE:
		what = AUX_POWER_ENTRY;
		v |= ev->value2 << 8;
		break;
	case PT_EV_PWRX:
		what = AUX_POWER_EXIT;
		v |= ev->value2 << 8;
		break;
	default:
		what = AUX_POWER_RATIO;
		break;
	}
	if (!r)
		emit_value(d, ev, AUX_FLOW_POWER, what, 0, v);
	return r;
}

/* Is it of an instruction, which it is shown after? Its IP is that of the
 * instruction; other events have that of the next one. */
static bool is_cfe_of_insn(const struct pt_event *ev)
{
	return ev->what == AUX_CFE_IRET || ev->what == AUX_CFE_VMENTRY ||
	       ev->what == AUX_CFE_UIRET;
}

static int apply_cfe(struct pt *d, const struct pt_event *ev)
{
	int r = 0;

	/* Without an IP: the next branch, as that needs the next packet. */
	if (is_cfe_of_insn(ev) && d->cur.state == PT_ON &&
	    !(d->pending.what & PT_PENDING_BRANCH)) {
		r = walk_to_event(d, ev);
		if (!r)
			r = ev->has_ip ? pt_slow_walk_match(d, is_any) :
					 pt_slow_walk(d, NULL);
		if (r < 0)
			return r;
		d->pending.what |= PT_PENDING_BRANCH;
		d->pending.joined |= PT_JOINED_CFE;
	} else if (!is_cfe_of_insn(ev)) {
		r = walk_to_event(d, ev);
		if (r)
			return r;
	}
	emit_value(d, ev, AUX_FLOW_EVENT, ev->what, AUX_EVENT_CFE, ev->value);
	return 0;
}

unsigned pt_join_of(const struct pt *d, const struct pt_event *ev)
{
	switch (ev->type) {
	case PT_EV_PAGING:
		return PT_JOINED_PAGING;
	case PT_EV_VMCS:
		return PT_JOINED_VMCS;
	case PT_EV_CFE:
		return is_cfe_of_insn(ev) &&
		       (!ev->has_ip || ev->ip == d->walk.insn_ip) ?
			       PT_JOINED_CFE : 0;
	default:
		return 0;
	}
}

void pt_apply_late(struct pt *d)
{
	if (d->pending.what & PT_PENDING_LATE)
		apply_power(d, &d->pending.late);
	d->pending.what &= ~PT_PENDING_LATE;
}

/* The pending branch: ev belongs to it, too, or ends its wait, or the branch
 * takes its packet before ev. */
static int settle_branch(struct pt *d, const struct pt_event *ev)
{
	unsigned join = pt_join_of(d, ev);

	if (!(d->pending.what & PT_PENDING_BRANCH) || ev->type == PT_EV_DISABLED)
		return 0;
	if (ev->type == PT_EV_OVERFLOW) {	/* its TIP is lost, too */
		d->pending.what &= ~PT_PENDING_BRANCH;
		d->pending.joined = 0;
		return 0;
	}
	if (join && !(d->pending.joined & join) && is_far(&d->walk.insn)) {
		d->pending.joined |= (uint8_t)join;
		return 0;
	}
	return pt_slow_pass_branch(d);
}

int pt_apply(struct pt *d, struct pt_event *ev)
{
	int r = settle_branch(d, ev);

	if (r)
		return r;
	switch (ev->type) {
	case PT_EV_ENABLED:
		return apply_enabled(d, ev);
	case PT_EV_DISABLED:
		return apply_disabled(d, ev);
	case PT_EV_ASYNC_DISABLED:
		return is_skd022(d, ev->from) ? apply_skd022(d, ev) :
						apply_async(d, ev);
	case PT_EV_ASYNC_BRANCH:
		return apply_async(d, ev);
	case PT_EV_PAGING: case PT_EV_ASYNC_PAGING:
	case PT_EV_VMCS: case PT_EV_ASYNC_VMCS:
		return apply_context(d, ev);
	case PT_EV_OVERFLOW:
		return apply_overflow(d, ev);
	case PT_EV_MODE:
		return apply_mode(d, ev);
	case PT_EV_TSX:
		return apply_tx(d, ev);
	case PT_EV_STOP:
		if (d->cur.state == PT_ON)
			return -PT_E_CONTEXT;
		emit_event_time(d, ev);
		return 0;
	case PT_EV_PTWRITE:
		return apply_ptwrite(d, ev);
	case PT_EV_CFE:
		return apply_cfe(d, ev);
	case PT_EV_EVD:
	case PT_EV_TRIG:
		r = walk_to_event(d, ev);
		if (!r)
			emit_value(d, ev, AUX_FLOW_EVENT, ev->what,
				   ev->type == PT_EV_EVD ? AUX_EVENT_EVD :
							   AUX_EVENT_TRIG,
				   ev->value);
		return r;
	case PT_EV_NOTHING:
		emit_event_time(d, ev);
		return 0;
	default:
		return apply_power(d, ev);
	}
}
