/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opencsd: the library's generic elements as events of the flow, in their
 * order.
 *
 * A bug of the library (up to 1.5.5): when an exception interrupts the target
 * of an indirect branch, it pops its return stack, though the exception packet
 * has the address. From then on each address from the stack belongs to another
 * call. What it shows from such an address on never ran: that is a GAP, up to
 * the next address packet (ret.popped, ret.suppress).
 */
#include "common/a64_insn.h"
#include "decode/lib/opencsd/impl.h"

/*
 * ---- missing code ----
 *
 * Code that is missing calls and returns like any other. The library keeps its
 * return stack all the same, and later takes addresses from it that belong to
 * other calls; after a source address without code it goes on from where it was
 * before. What it would show then never ran. So from missing code up to the
 * next sync point it gets atoms one by one, and none that needs an address
 * which only the trace unit knows: that is a GAP, up to the next address
 * packet.
 */

#define ATOMS 0xc0	/* headers from here on are atoms */
#define STACK 16	/* addresses on a return stack */

static bool compresses_returns(const struct opencsd *d)
{
	return d->config->etm.trcconfigr >> 12 & 1;
}

/* The code of this packet's P0 element is missing at ip, or not known; adrift:
 * the flow is lost up to the next address. */
static void lose_code(struct opencsd *d, uint64_t ip, bool adrift,
		      enum aux_gap_cause why)
{
	if (!d->src.in_order)
		return;
	d->missing.adrift = adrift;
	d->missing.unsure |= compresses_returns(d);
	d->missing.ip = ip;
	d->missing.cause = (uint8_t)why;
	d->missing.n_pushed = 0;
	d->lib.hold = true;
}

/* The flow went another way than the trace says: what ran may have called. */
static void doubt_returns(struct opencsd *d, uint64_t ip, enum aux_gap_cause why)
{
	if (!d->src.in_order || !compresses_returns(d))
		return;
	d->missing.unsure = true;
	d->missing.ip = ip;
	d->missing.cause = (uint8_t)why;
	d->missing.n_pushed = 0;
}

/* Keeps count of the addresses that were pushed since code was missing. pops:
 * the next range begins where the stack says. pushes: the last one ended with a
 * call. */
static void opencsd_follow_stack(struct opencsd *d, bool pops, bool pushes)
{
	if (pops && d->missing.n_pushed)
		d->missing.n_pushed--;
	if (pushes && d->missing.n_pushed < STACK)
		d->missing.n_pushed++;
}

static bool lacks_address(const struct opencsd *d)
{
	return d->missing.adrift || (d->missing.unsure && d->out.indirect && !d->out.addressed &&
			     !d->missing.n_pushed);
}

/* Atom formats 1 to 6; the first atom is bit 0. Returns how many. */
static unsigned decode_atoms(uint8_t header, uint32_t *atoms)
{
	static const uint8_t four[] = { 0x0e, 0x00, 0x0a, 0x05 };
	static const uint8_t five[] = { 0, 0x00, 0x0a, 0x15 };
	unsigned n;

	switch (header >> 2) {
	case 0xf8 >> 2: case 0xfc >> 2:
		*atoms = header & 7;
		return 3;
	case 0xd8 >> 2:
		*atoms = header & 3;
		return 2;
	case 0xdc >> 2:
		*atoms = four[header & 3];
		return 4;
	}
	if (header >= 0xf6) {
		*atoms = header & 1;
		return 1;
	}
	if (header == 0xf5 || (header > 0xd4 && header < 0xd8)) {
		*atoms = header == 0xf5 ? 0x1e : five[header & 3];
		return 5;
	}
	n = 3 + (header & 0x1f);
	*atoms = ((UINT32_C(1) << n) - 1) | !(header & 0x20) << n;
	return n + 1;
}

/* The next atoms need an address that is unknown: they are a GAP. */
static void drop_atoms(struct opencsd *d)
{
	d->lib.n_single = 0;
	d->ts.lookahead = ETM_LOOKAHEAD_NONE;
	if (d->missing.adrift)
		return;
	opencsd_push_gap(d, (enum aux_gap_cause)d->missing.cause, true, d->missing.ip,
			 OCSD_ERR_RET_STACK_OVERFLOW);
	d->out.on = d->missing.adrift = true;
}

bool opencsd_feed_singly(struct opencsd *d)
{
	uint8_t header;

	if (d->lib.n_single) {
		if (lacks_address(d))
			drop_atoms(d);
		return true;
	}
	if (!(d->missing.unsure || d->missing.adrift) || d->in.pos >= d->in.chunk->len ||
	    !d->sync.emitting || d->in.packet_end != d->in.pos)
		return false;
	header = d->in.chunk->data[d->in.pos];
	if (header < ATOMS)
		return false;
	d->in.packet_end = ++d->in.pos;
	d->lib.n_single = decode_atoms(header, &d->lib.single);
	if (lacks_address(d))
		drop_atoms(d);
	return true;
}

/* Is the address of the next instruction known, without the return stack? */
static bool has_address(const struct opencsd *d)
{
	return d->out.addressed ||
	       (d->out.last_known && !d->out.indirect && !d->out.code_missing &&
		!d->missing.adrift);
}

/* Before a Q packet the library does not pop its return stack: it does so later. */
bool opencsd_would_mislead(const struct opencsd *d)
{
	uint8_t header;

	if (d->in.pos >= d->in.chunk->len || !d->sync.emitting || d->lib.n_single ||
	    d->in.packet_end != d->in.pos)
		return false;
	header = d->in.chunk->data[d->in.pos];
	return (header == ETM4_PKT_I_EXCEPT && lacks_address(d)) ||
	       (d->src.in_order && compresses_returns(d) && d->src.special[header] &&
		opencsd_is_q(header) && !has_address(d));
}

enum { V4_CALL = 2, V7_SMC = 2, V7_SVC = 10, IRQ = 14, FIQ = 15 };

/* ---- ranges ---- */

static unsigned end_of(unsigned type, unsigned subtype, bool conditional,
		       bool executed)
{
	bool link = subtype == OCSD_S_INSTR_BR_LINK;

	if (type != OCSD_INSTR_BR && type != OCSD_INSTR_BR_INDIRECT)
		return AUX_END_FALL;
	if (!executed)
		return AUX_END_COND_NOT_TAKEN;
	if (type == OCSD_INSTR_BR)
		return link ? AUX_END_CALL :
		       conditional ? AUX_END_COND_TAKEN : AUX_END_JUMP;
	if (subtype == OCSD_S_INSTR_V8_ERET)
		return AUX_END_FAR;
	if (subtype == OCSD_S_INSTR_V8_RET ||
	    subtype == OCSD_S_INSTR_V7_IMPLIED_RET)
		return AUX_END_RET;
	return link ? AUX_END_IND_CALL : AUX_END_IND_JUMP;
}

static inline unsigned kind_of(const ocsd_generic_trace_elem *e)
{
	return (e->last_i_type & 7) << 5 | (e->last_i_subtype & 7) << 2 |
	       e->last_instr_cond << 1 | e->last_instr_exec;
}

void opencsd_fill_ends(struct opencsd *d)
{
	for (unsigned i = 0; i < 256; i++)
		d->src.ends[i] = (uint8_t)end_of(i >> 5, i >> 2 & 7, i & 2, i & 1);
}

static inline uint16_t mode_of(ocsd_isa isa)
{
	static const uint16_t modes[8] = {
		AUX_FLOW_MODE_A32, AUX_FLOW_MODE_T32, AUX_FLOW_MODE_A64,
		AUX_FLOW_MODE_A32, AUX_FLOW_MODE_A32, AUX_FLOW_MODE_A32,
		AUX_FLOW_MODE_A32, AUX_FLOW_MODE_A32,
	};

	return modes[isa & 7];
}

/* False: the library took this address from a stack that is off by one. Emits
 * one GAP for all that follows it. */
static bool is_trusted(struct opencsd *d, uint64_t ip)
{
	if (d->out.indirect && !d->out.addressed && !d->ret.suppress) {
		opencsd_push_gap(d, AUX_GAP_DESYNC, d->out.last_known, d->out.last_ip,
				 ip);
		d->ret.suppress = true;
	}
	return !d->ret.suppress;
}

/* The fast path: nothing depends on where the range begins. */
static inline void push_range(struct opencsd *d,
			      const ocsd_generic_trace_elem *e)
{
	struct aux_flow *f = &d->q.events[d->q.tail];
	unsigned size = e->last_instr_sz, kind = kind_of(e);

	if (e->en_addr <= e->st_addr || !e->num_instr_range)
		return;
	d->out.indirect = e->last_i_type == OCSD_INSTR_BR_INDIRECT && (kind & 1);
	d->out.on = d->out.last_known = true;
	d->out.code_missing = d->out.addressed = false;
	d->out.loss = UNSYNC_UNKNOWN;
	d->q.tail++;
	f->offset = d->q.offset;
	f->kind = AUX_FLOW_RANGE;
	f->what = d->out.end = d->src.ends[kind];
	d->out.isa = (uint8_t)e->isa;
	f->flags = (uint16_t)(mode_of(e->isa) | size |
			      (d->out.in_tx ? AUX_FLOW_IN_TX : 0));
	f->n = e->num_instr_range;
	f->range.first = e->st_addr;
	d->out.last_ip = f->range.last = e->en_addr - size;
	d->out.next_ip = e->en_addr;
}

/* A range after something that makes its beginning doubtful or wanted. */
static void check_range(struct opencsd *d, const ocsd_generic_trace_elem *e)
{
	bool trusted = !d->ret.popped || is_trusted(d, e->st_addr);
	bool pops = d->out.indirect && !d->out.addressed;
	ocsd_generic_trace_elem last;

	if (e->en_addr <= e->st_addr || !e->num_instr_range)
		return;
	if (!trusted) {
		d->out.indirect = e->last_i_type == OCSD_INSTR_BR_INDIRECT &&
			      e->last_instr_exec;
		d->out.addressed = false;
		return;
	}
	/* A source address: only its own instruction is known to have run. */
	if (d->missing.adrift) {
		last = *e;
		last.st_addr = e->en_addr - e->last_instr_sz;
		last.num_instr_range = 1;
		e = &last;
		d->missing.adrift = false;
	}
	opencsd_settle(d, e->st_addr);
	push_range(d, e);
	/* Up to an exception the library walks over calls without making
	 * them. */
	opencsd_follow_stack(d, pops, (opencsd_is_atoms(d) || opencsd_is_source(d)) &&
				      e->last_instr_exec &&
				      e->last_i_subtype == OCSD_S_INSTR_BR_LINK);
}

/* What of e is before y->ip. */
static ocsd_generic_trace_elem range_before(const ocsd_generic_trace_elem *e,
					    const struct opencsd_young *y)
{
	ocsd_generic_trace_elem part = *e;

	part.en_addr = y->ip;
	part.num_instr_range = y->n;
	part.last_instr_sz = (uint8_t)y->size & 7;
	part.last_i_type = OCSD_INSTR_OTHER;
	part.last_i_subtype = OCSD_S_INSTR_NONE;
	return part;
}

/* Up to a source address the library goes without reading the code. Of what is behind
 * a place without code only the source itself is known to have run. */
static void push_torn(struct opencsd *d, const ocsd_generic_trace_elem *e,
		      const struct opencsd_young *y)
{
	ocsd_generic_trace_elem part = range_before(e, y);

	if (e->has_cc)
		opencsd_push_cycles(d, e->cycle_count);
	check_range(d, &part);
	if (d->ret.suppress)
		return;
	if (!d->out.code_missing || d->out.missing_ip != y->ip) {
		opencsd_settle(d, y->ip);
		opencsd_push_gap(d, AUX_GAP_NO_CODE, true, y->ip,
				 OCSD_ERR_MEM_NACC);
	}
	doubt_returns(d, y->ip, AUX_GAP_NO_CODE);
	/* the atoms after it may lack an address: not in this call */
	d->lib.hold = true;
	part = *e;
	part.st_addr = e->en_addr - e->last_instr_sz;
	part.num_instr_range = 1;
	check_range(d, &part);
}

/*
 * The library took a branch of this range for a plain instruction (branch.c).
 * What ran before it is right, and all the library makes of it is wrong: up to
 * the next address, or, with speculation, to the next sync point.
 */
static ocsd_datapath_resp_t push_young(struct opencsd *d,
				       const ocsd_generic_trace_elem *e,
				       const struct opencsd_young *y)
{
	ocsd_generic_trace_elem part = range_before(e, y);

	if (e->has_cc)
		opencsd_push_cycles(d, e->cycle_count);
	if (!opencsd_is_source(d))
		check_range(d, &part);
	if (d->ret.suppress)
		return OCSD_RESP_CONT;
	opencsd_settle(d, y->ip);
	d->missing.ip = y->ip;
	if (!d->src.in_order) {
		d->lib.misled = true;
		return OCSD_RESP_FATAL_INVALID_DATA;
	}
	opencsd_push_gap(d, AUX_GAP_UNKNOWN_INSN, true, y->ip, 0);
	d->out.on = d->out.code_missing = true;
	d->out.missing_ip = y->ip;
	d->out.indirect = false;
	lose_code(d, y->ip, true, AUX_GAP_UNKNOWN_INSN);
	d->missing.wrong = true;
	return OCSD_RESP_WAIT;
}

/*
 * ---- Q elements ----
 *
 * The library shows a range where the code leaves one way, and takes a branch at its
 * end for taken, whichever address follows. Where it finds no way, the reason is
 * looked for here.
 */

static bool read_a64(struct opencsd *d, uint64_t ip, struct a64_insn *insn)
{
	uint8_t b[4];

	if (opencsd_copy_code(d, ip, 4, b) < 4)
		return false;
	a64_insn_decode(b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
			(uint32_t)b[3] << 24, insn);
	return true;
}

static bool may_branch(const struct a64_insn *insn)
{
	return (insn->cls >= A64_COND && insn->cls <= A64_IND_CALL) ||
	       insn->cls == A64_FAR || insn->cls == A64_UNKNOWN;
}

/* Why is it not known what ran? Where code is missing, *at is there. */
static enum aux_gap_cause why_untraced(struct opencsd *d,
				       const ocsd_generic_trace_elem *e,
				       uint64_t *at)
{
	struct a64_insn insn;
	uint64_t ip = e->st_addr;

	if (e->isa != ocsd_isa_aarch64 || !e->num_instr_range ||
	    e->num_instr_range > OPENCSD_WALK_MAX / 4)
		return AUX_GAP_UNTRACED;
	for (uint32_t i = 0; i < e->num_instr_range; i++, ip += 4) {
		if (!read_a64(d, ip, &insn)) {
			*at = ip;
			return AUX_GAP_NO_CODE;
		}
		if (may_branch(&insn))
			return AUX_GAP_UNTRACED;
	}
	return AUX_GAP_DESYNC;
}

/* Where did the last instruction of a range lead? False: not to that address. */
static bool leads_to(struct opencsd *d, const ocsd_generic_trace_elem *e,
		     uint64_t to, bool *taken)
{
	uint64_t ip = e->en_addr - e->last_instr_sz;
	struct a64_insn insn;

	*taken = e->last_i_type != OCSD_INSTR_BR || !e->last_instr_cond ||
		 to != e->en_addr;
	if (e->last_i_type != OCSD_INSTR_BR)
		return e->last_i_type == OCSD_INSTR_BR_INDIRECT || to == e->en_addr;
	return !*taken || e->isa != ocsd_isa_aarch64 || !read_a64(d, ip, &insn) ||
	       to == ip + (uint64_t)(int64_t)insn.disp;
}

static void push_untraced(struct opencsd *d, enum aux_gap_cause why, uint64_t ip,
			  uint32_t n)
{
	opencsd_settle(d, ip);
	if (why != AUX_GAP_NO_CODE || !d->out.code_missing || d->out.missing_ip != ip)
		opencsd_push_gap(d, why, true, ip, why == AUX_GAP_NO_CODE ?
				 (uint64_t)OCSD_ERR_MEM_NACC : n);
	d->out.on = true;
	d->out.code_missing = why == AUX_GAP_NO_CODE;
	d->out.missing_ip = ip;
	d->out.last_known = false;
	d->out.loss = UNSYNC_UNKNOWN;
	doubt_returns(d, ip, why);
}

/* The library begins where it was last. */
static void push_q_adrift(struct opencsd *d, const ocsd_generic_trace_elem *e)
{
	if (!d->missing.adrift && !d->out.code_missing) {
		opencsd_push_gap(d, AUX_GAP_UNTRACED, false, 0, e->num_instr_range);
		d->out.on = true;
		d->out.last_known = false;
		d->out.loss = UNSYNC_UNKNOWN;
	}
	d->missing.adrift = false;
}

/* The range of a Q packet, or a GAP where the library has none. */
static void push_q(struct opencsd *d, const ocsd_generic_trace_elem *e)
{
	struct opencsd_q q = d->untraced;
	bool range = e->elem_type == OCSD_GEN_TRC_ELEM_INSTR_RANGE, taken;
	enum aux_gap_cause why = AUX_GAP_UNTRACED;
	ocsd_generic_trace_elem ran = *e;
	struct opencsd_young young;
	uint64_t at = e->st_addr;

	if (e->has_cc)
		opencsd_push_cycles(d, e->cycle_count);
	if (!range && !q.has_context)
		why = why_untraced(d, e, &at);
	if (!has_address(d))
		push_q_adrift(d, e);
	else if (!range || q.has_context || e->num_instr_range > OPENCSD_WALK_MAX / 4 ||
	    opencsd_find_young(d, e, &young)) {
		push_untraced(d, why, at, e->num_instr_range);
	} else if (!leads_to(d, e, q.to, &taken)) {
		push_untraced(d, AUX_GAP_DESYNC, at, e->num_instr_range);
	} else {
		ran.last_instr_exec = taken;
		opencsd_settle(d, e->st_addr);
		push_range(d, &ran);
		if (d->out.indirect || e->last_i_subtype == OCSD_S_INSTR_BR_LINK)
			doubt_returns(d, d->out.last_ip, AUX_GAP_UNTRACED);
	}
	d->untraced = (struct opencsd_q){ 0 };
	d->ret.suppress = d->out.indirect = false;
	d->out.addressed = true;
	d->out.address = q.to;
}

/* The trace ends, or loses its way, before the address of a Q packet. */
void opencsd_drop_q(struct opencsd *d)
{
	if (d->untraced.waits)
		opencsd_push_gap(d, AUX_GAP_UNTRACED, false, 0, d->untraced.n);
	d->untraced = (struct opencsd_q){ 0 };
}

/* ---- the rest ---- */

static unsigned async_kind(const struct opencsd *d, uint32_t number)
{
	if (d->src.profile_m)
		return AUX_ASYNC_UNKNOWN;
	return number == IRQ || number == FIQ ? AUX_ASYNC_INTERRUPT :
						AUX_ASYNC_EXCEPTION;
}

/* An exception that returns to the instruction after an svc was asked for by
 * that. */
static void end_syscall(struct opencsd *d, uint32_t number, uint64_t from)
{
	struct aux_flow *f = aux_queue_last(&d->q);

	if (d->src.v4 ? number != V4_CALL : number != V7_SVC && number != V7_SMC)
		return;
	if (f && !d->src.profile_m && f->kind == AUX_FLOW_RANGE &&
	    f->what == AUX_END_FALL && d->out.next_ip == from)
		f->what = AUX_END_SYSCALL;
}

/* The nth event from the last, if this packet made it and it was not
 * delivered. */
static struct aux_flow *event_of_packet(struct opencsd *d, uint32_t n)
{
	struct aux_flow *f;

	if (d->q.tail - d->q.head < n)
		return NULL;
	f = &d->q.events[d->q.tail - n];
	return f->offset == d->q.offset ? f : NULL;
}

/*
 * The library finds the return address of an exception by walking over the
 * code, branches included, to the end of what is there. A walk that went past
 * the address took a wrong way: nothing of it ran, so its events are retracted.
 */
static void retract_walk(struct opencsd *d, uint64_t from)
{
	struct aux_flow *gap = event_of_packet(d, 1), *range = event_of_packet(d, 2);
	uint64_t ip;

	if (!gap || gap->kind != AUX_FLOW_GAP ||
	    gap->gap.detail != OCSD_ERR_MEM_NACC || gap->gap.ip <= from)
		return;
	ip = gap->gap.ip;
	doubt_returns(d, ip, AUX_GAP_NO_CODE);
	if (!range || range->kind != AUX_FLOW_RANGE || d->out.next_ip != ip) {
		if (d->out.missed_before)	/* this gap was emitted already */
			d->q.tail--;
		return;
	}
	d->q.tail -= 2;
	ip = range->range.first;
	d->out.last_known = false;
	opencsd_push_gap(d, AUX_GAP_DESYNC, true, ip, OCSD_ERR_MEM_NACC);
	doubt_returns(d, ip, AUX_GAP_DESYNC);
}

/* Where is the flow for the library, behind what was emitted? False: not known. After a
 * branch to an address that did not come it is where it was, or where its return stack
 * says. */
static bool find_next(struct opencsd *d, bool pops, uint64_t *ip)
{
	struct a64_insn insn;

	*ip = d->out.addressed ? d->out.address : d->out.next_ip;
	if (d->out.addressed)
		return true;
	if (!has_address(d) || (pops && compresses_returns(d)))
		return false;
	if (d->out.end != AUX_END_COND_TAKEN && d->out.end != AUX_END_JUMP &&
	    d->out.end != AUX_END_CALL)
		return true;
	if (d->out.isa != ocsd_isa_aarch64 || !read_a64(d, d->out.last_ip, &insn))
		return false;
	*ip = d->out.last_ip + (uint64_t)(int64_t)insn.disp;
	return true;
}

/*
 * An exception that returns to before the address where the flow went on. Later
 * libraries (1.5.5 does) walk forward only: there is no element that shows the
 * contradiction, so it is looked for here.
 */
static void find_contradiction(struct opencsd *d, uint64_t from, bool pops)
{
	struct aux_flow *walk = event_of_packet(d, 1);
	enum aux_gap_cause why;
	uint8_t insn[2];
	uint64_t ip;

	if (!d->src.in_order ||
	    (walk && (walk->kind == AUX_FLOW_GAP || walk->kind == AUX_FLOW_RANGE)) ||
	    !find_next(d, pops, &ip) || ip <= from ||
	    (d->out.code_missing && d->out.missing_ip == ip))
		return;
	why = opencsd_copy_code(d, ip, 2, insn) < 2 ? AUX_GAP_NO_CODE :
						      AUX_GAP_DESYNC;
	opencsd_push_gap(d, why, true, ip, OCSD_ERR_MEM_NACC);
	doubt_returns(d, ip, why);
}

static void push_exception(struct opencsd *d, const ocsd_generic_trace_elem *e)
{
	bool known = e->excep_ret_addr || d->out.last_known;
	uint64_t from = e->excep_ret_addr ? e->en_addr : d->out.next_ip;
	bool pops = d->out.indirect && !d->out.addressed;
	struct aux_flow *f;

	if (e->excep_data_marker)
		return;
	if (d->src.v4 && e->excep_ret_addr_br_tgt && pops && compresses_returns(d))
		d->ret.popped = true;
	opencsd_follow_stack(d, pops, false);
	d->out.indirect = d->ret.suppress = false;
	if (e->excep_ret_addr)
		retract_walk(d, from);
	if (e->excep_ret_addr && !e->excep_ret_addr_br_tgt && d->src.v4)
		find_contradiction(d, from, pops);
	end_syscall(d, e->exception_number, from);
	if (known)
		opencsd_settle(d, from);
	else
		aux_queue_give_up(&d->q);
	f = aux_queue_push(&d->q, AUX_FLOW_ASYNC, async_kind(d, e->exception_number));
	if (known) {
		f->flags = AUX_FLOW_HAS_IP;
		f->async.from = from;
	}
	aux_queue_await(&d->q);
	d->out.on = true;
	d->out.in_tx = false;
}

static void push_no_code(struct opencsd *d, uint64_t ip)
{
	opencsd_settle(d, ip);
	opencsd_push_gap(d, d->code.walked_off ? AUX_GAP_DESYNC : AUX_GAP_NO_CODE,
			 true, ip, OCSD_ERR_MEM_NACC);
	d->code.walked_off = false;
	d->out.missed_before = d->out.code_missing && d->out.missing_ip == ip;
	d->out.on = d->out.code_missing = true;
	d->out.missing_ip = ip;
	opencsd_follow_stack(d, d->out.indirect && !d->out.addressed, false);
	d->out.indirect = false;
	if (opencsd_is_source(d) || opencsd_is_atoms(d))
		lose_code(d, ip, opencsd_is_source(d), AUX_GAP_NO_CODE);
}

static void push_pe_context(struct opencsd *d, const ocsd_pe_context *pe)
{
	struct aux_flow c = d->ctx.emitted ? d->ctx.event :
					      (struct aux_flow){ 0 };

	if (d->src.in_order) {
		c = opencsd_add_context(d, &d->ctx.packet);
		opencsd_push_context(d, &c);
		return;
	}
	if (pe->el_valid)
		c.what = (uint8_t)(AUX_CONTEXT_EL_KNOWN |
				   (pe->exception_level & AUX_CONTEXT_EL_MASK));
	c.what &= (uint8_t)~AUX_CONTEXT_SECURE;
	if (pe->security_level == ocsd_sec_secure)
		c.what |= AUX_CONTEXT_SECURE;
	if (pe->ctxt_id_valid) {
		c.flags |= AUX_FLOW_HAS_CID;
		c.context.cr3 = pe->context_id;
	}
	if (pe->vmid_valid) {
		c.flags |= AUX_FLOW_HAS_VMID;
		c.context.vmcs = pe->vmid;
	}
	opencsd_push_context(d, &c);
}

static void push_transaction(struct opencsd *d, trace_memtrans_t what)
{
	d->out.in_tx = what == OCSD_MEM_TRANS_START ||
		   what == OCSD_MEM_TRANS_TRACE_INIT;
	aux_queue_push(&d->q, AUX_FLOW_TX,
		     d->out.in_tx ? AUX_TX_BEGIN :
		     what == OCSD_MEM_TRANS_COMMIT ? AUX_TX_COMMIT :
						     AUX_TX_ABORT);
}

static void push_payload(struct opencsd *d, const ocsd_generic_trace_elem *e)
{
	const ocsd_swt_info_t *s = &e->sw_trace_info;
	uint32_t size = (s->swt_payload_pkt_bitsize + 7u) / 8;
	const uint8_t *p = e->ptr_extended_data;
	struct aux_flow *f;

	if (e->has_ts)
		opencsd_push_time(d, e->timestamp);
	if (!p)
		size = 0;
	if (size > 8)
		size = 8;
	if (s->swt_frequency)
		return; /* the frequency of timestamps, not a value of the program */
	if (s->swt_global_err || s->swt_master_err) {
		opencsd_push_gap(d, AUX_GAP_OVERFLOW, false, 0, size ? *p : 0);
		aux_queue_give_up(&d->q);
		return;
	}
	f = aux_queue_push(&d->q, AUX_FLOW_PAYLOAD,
			 s->swt_marker_packet || s->swt_trigger_event ?
				 AUX_PAYLOAD_MARKER : AUX_PAYLOAD_STM);
	f->n = size;
	for (uint32_t i = 0; i < size; i++)
		f->payload.value |= (uint64_t)p[i] << 8 * i;
	if (s->swt_id_valid) {
		f->flags = AUX_FLOW_HAS_IP;
		f->payload.ip = AUX_STM_IP(s->swt_master_id, s->swt_channel_id);
	}
}

/* Was this element's event emitted when its packet was seen? */
static bool is_emitted(const struct opencsd *d, uint64_t pos,
		     ocsd_gen_trc_elem_t type)
{
	if (!d->sync.emitted || pos > d->sync.emitted_pos)
		return false;
	return type == OCSD_GEN_TRC_ELEM_TRACE_ON ||
	       type == OCSD_GEN_TRC_ELEM_PE_CONTEXT ||
	       type == OCSD_GEN_TRC_ELEM_TIMESTAMP ||
	       type == OCSD_GEN_TRC_ELEM_CYCLE_COUNT ||
	       type == OCSD_GEN_TRC_ELEM_EVENT ||
	       type == OCSD_GEN_TRC_ELEM_EXCEPTION_RET;
}

static void push_element(struct opencsd *d, const ocsd_generic_trace_elem *e)
{
	switch (e->elem_type) {
	case OCSD_GEN_TRC_ELEM_NO_SYNC:
		opencsd_lose_sync(d, e->unsync_eot_info);
		break;
	case OCSD_GEN_TRC_ELEM_EO_TRACE:
		if (e->unsync_eot_info == UNSYNC_OVERFLOW ||
		    e->unsync_eot_info == UNSYNC_BAD_PACKET)
			opencsd_lose_sync(d, e->unsync_eot_info);
		break;
	case OCSD_GEN_TRC_ELEM_TRACE_ON:
		opencsd_push_on(d, e->trace_on_reason);
		break;
	case OCSD_GEN_TRC_ELEM_PE_CONTEXT:
		push_pe_context(d, &e->context);
		break;
	case OCSD_GEN_TRC_ELEM_I_RANGE_NOPATH:	/* with speculation */
		opencsd_push_gap(d, AUX_GAP_UNTRACED, true, e->st_addr,
				 e->num_instr_range);
		break;
	case OCSD_GEN_TRC_ELEM_ADDR_NACC:
		push_no_code(d, e->st_addr);
		break;
	case OCSD_GEN_TRC_ELEM_EXCEPTION:
		push_exception(d, e);
		break;
	case OCSD_GEN_TRC_ELEM_EXCEPTION_RET:
		opencsd_end_return(d);
		break;
	case OCSD_GEN_TRC_ELEM_TIMESTAMP:
		opencsd_push_time(d, e->timestamp);
		break;
	case OCSD_GEN_TRC_ELEM_EVENT:
		opencsd_push_event(d, e->trace_event.ev_type == EVENT_NUMBERED ?
				      e->trace_event.ev_number : 0);
		break;
	case OCSD_GEN_TRC_ELEM_SWTRACE:
		push_payload(d, e);
		break;
	case OCSD_GEN_TRC_ELEM_MEMTRANS:
		push_transaction(d, e->mem_trans);
		break;
	default: /* cycles alone, timestamp markers, unknown addresses */
		break;
	}
}

/* noinline: so that the fast path of its caller saves no registers. */
static __attribute__((noinline)) void
handle_other(struct opencsd *d, ocsd_trc_index_t index,
	   const ocsd_generic_trace_elem *e)
{
	bool range = e->elem_type == OCSD_GEN_TRC_ELEM_INSTR_RANGE;

	if (!range && is_emitted(d, opencsd_pos(d, index), e->elem_type))
		return;
	opencsd_at_index(d, index);
	if (e->has_cc)
		opencsd_push_cycles(d, e->cycle_count);
	if (range)
		check_range(d, e);
	else
		push_element(d, e);
}

/*
 * A source address (ETE) that the flow cannot have reached, or whose
 * instruction is no P0 element: the library goes on there all the same, so this
 * is checked here. Nor does it pop its return stack before a source address;
 * then everything up to the next sync point is lost (ret.unpopped).
 */
static bool contradicts(struct opencsd *d, const ocsd_generic_trace_elem *e)
{
	bool range = e->elem_type == OCSD_GEN_TRC_ELEM_INSTR_RANGE;
	bool lost = d->out.indirect && !d->out.addressed;

	if (!range && e->elem_type != OCSD_GEN_TRC_ELEM_ADDR_NACC)
		return false;
	d->ret.unpopped = lost && d->config->etm.trcconfigr >> 12 & 1;
	return lost || (range && e->last_i_type == OCSD_INSTR_OTHER);
}

static inline ocsd_datapath_resp_t stop_or_go(const struct opencsd *d)
{
	return d->q.stop || d->lib.hold || d->q.tail >= OPENCSD_QUEUE_FULL ?
		       OCSD_RESP_WAIT : OCSD_RESP_CONT;
}

ocsd_datapath_resp_t opencsd_handle_element(const void *priv,
					  ocsd_trc_index_t index, uint8_t id,
					  const ocsd_generic_trace_elem *e)
{
	struct opencsd *d = (struct opencsd *)(uintptr_t)priv;
	bool range = e->elem_type == OCSD_GEN_TRC_ELEM_INSTR_RANGE;
	struct opencsd_young young;
	bool found;

	(void)id;
	d->code.walked = 0;
	if (d->missing.wrong && (range || e->elem_type == OCSD_GEN_TRC_ELEM_ADDR_NACC))
		return OCSD_RESP_CONT;
	if (d->untraced.pending &&
	    (range || e->elem_type == OCSD_GEN_TRC_ELEM_I_RANGE_NOPATH)) {
		opencsd_at_index(d, index);
		push_q(d, e);
		return stop_or_go(d);
	}
	found = range && !(opencsd_is_source(d) && d->missing.adrift) &&
		opencsd_find_young(d, e, &young);
	if (found && !young.missing) {
		opencsd_at_index(d, index);
		return push_young(d, e, &young);
	}
	if (opencsd_is_source(d) && contradicts(d, e))
		return OCSD_RESP_FATAL_INVALID_DATA;
	if (found) {
		opencsd_at_index(d, index);
		push_torn(d, e, &young);
	} else if (range && !e->has_cc &&
	    !d->ret.popped && !d->missing.unsure && !d->missing.adrift &&
	    d->q.unsettled == AUX_QUEUE_NONE) {
		opencsd_at_index(d, index);
		push_range(d, e);
	} else {
		handle_other(d, index, e);
	}
	return stop_or_go(d);
}
