/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opencsd: what is taken from packets instead of elements.
 *
 * The library keeps ETMv4's timestamps, contexts and the like until the next
 * atom, and shows them after it has read that atom's code: too late for a host
 * that has to switch. So they become events when their packet is seen;
 * opencsd_step() takes care that nothing after such a packet has been fed.
 * Their elements, which come later, are dropped. With a speculation depth,
 * packets are not in the order of execution and elements are all there is: code
 * may then be asked for too early.
 *
 * Specification: Arm IHI 0064, "Descriptions of trace protocols".
 */
#include "decode/lib/opencsd/impl.h"

/* The first sync point is at pos: the bytes before it are lost, unless they are
 * padding. */
static void note_sync(struct opencsd *d, uint64_t pos)
{
	if (d->sync.found)
		return;
	d->sync.found = true;
	for (uint64_t i = 0; i < pos && i < d->in.chunk->len; i++) {
		uint8_t b = d->in.chunk->data[i];

		if (b && b != ETM4_PKT_I_IGNORE) {
			opencsd_push_gap(d, AUX_GAP_NO_SYNC, false, 0, pos);
			return;
		}
	}
}

/* User code resumes: the run begins at the next address. */
static void expect_run(struct opencsd *d)
{
	d->ts.lookahead = opencsd_wants_lookahead(d) ?
				  ETM_LOOKAHEAD_AT_ADDRESS :
				  ETM_LOOKAHEAD_NONE;
}

struct aux_flow opencsd_add_context(const struct opencsd *d,
				    const etmv4_context_t *from)
{
	struct aux_flow c = d->ctx.emitted ? d->ctx.event :
					      (struct aux_flow){ 0 };

	c.what = (uint8_t)(AUX_CONTEXT_EL_KNOWN | from->EL);
	if (!from->NS && !from->NSE)
		c.what |= AUX_CONTEXT_SECURE;
	if (from->updated_c) {
		c.flags |= AUX_FLOW_HAS_CID;
		c.context.cr3 = from->ctxtID;
	}
	if (from->updated_v) {
		c.flags |= AUX_FLOW_HAS_VMID;
		c.context.vmcs = from->VMID;
	}
	return c;
}

/* A context "as before" has no ids of its own. */
static void note_context(struct opencsd *d, const etmv4_context_t *from)
{
	if (from->updated) {
		d->sync.has_context = true;
		d->ctx.packet = *from;
	} else {
		d->ctx.packet.updated_c = d->ctx.packet.updated_v = 0;
	}
}

static void handle_context(struct opencsd *d, const etmv4_context_t *from)
{
	struct aux_flow c;

	if (!from->updated)
		return;
	c = opencsd_add_context(d, from);
	/* user code resumes */
	if (!from->EL && d->ctx.emitted && d->ctx.event.what != c.what)
		expect_run(d);
	opencsd_push_context(d, &c);
}

/* Where the flow continues; but the address after an exception packet belongs
 * to that. */
static void handle_address(struct opencsd *d, const ocsd_etmv4_i_pkt *p,
			bool context)
{
	if (d->sync.in_exception)
		return;
	if (d->untraced.waits) {
		d->untraced = (struct opencsd_q){
			.pending = true, .to = p->v_addr.val,
			.has_context = context || d->untraced.has_context,
		};
		if (context)
			handle_context(d, &p->context);
		return;
	}
	d->out.addressed = true;
	d->out.address = p->v_addr.val;
	d->ret.suppress = d->missing.adrift = false;
	opencsd_settle(d, p->v_addr.val);
	if (context)
		handle_context(d, &p->context);
	if (d->ts.lookahead)
		d->ts.lookahead = ETM_LOOKAHEAD_NOW;
}

static void handle_timestamp(struct opencsd *d, const ocsd_etmv4_i_pkt *p)
{
	if (p->pkt_valid.bits.cc_valid)
		opencsd_push_cycles(d, p->cycle_count);
	d->ts.last = p->ts.timestamp;
	/* The look-ahead emitted this TIME, without the cycles up to it:
	 * again. */
	if (d->ts.foretold && d->q.cycles)
		d->q.have_time = false;
	d->ts.foretold = false;
	opencsd_push_time(d, d->ts.last);
}

static void handle_flow(struct opencsd *d, const ocsd_etmv4_i_pkt *p)
{
	switch ((int)p->type) {
	case ETM4_PKT_I_TRACE_ON:
		opencsd_push_on(d, TRACE_ON_NORMAL);
		expect_run(d);
		break;
	case ETM4_PKT_I_TIMESTAMP:
		handle_timestamp(d, p);
		break;
	case ETM4_PKT_I_CCNT_F1:
	case ETM4_PKT_I_CCNT_F2:
	case ETM4_PKT_I_CCNT_F3:
		opencsd_push_cycles(d, p->cycle_count);
		break;
	case ETM4_PKT_I_EVENT:
		opencsd_push_event(d, p->event_val);
		break;
	case ETM4_PKT_I_EXCEPT_RTN:
		opencsd_end_return(d);
		break;
	case ETM4_PKT_I_Q:
		d->untraced = (struct opencsd_q){
			.pending = p->Q_pkt.addr_present, .to = p->v_addr.val,
			.waits = !p->Q_pkt.addr_present, .n = p->Q_pkt.q_count,
		};
		break;
	case ETM4_PKT_I_CTXT:
		d->untraced.has_context = true;
		if (!d->sync.in_exception)
			handle_context(d, &p->context);
		break;
	case ETM4_PKT_I_ADDR_CTXT_L_32IS0:
	case ETM4_PKT_I_ADDR_CTXT_L_32IS1:
	case ETM4_PKT_I_ADDR_CTXT_L_64IS0:
	case ETM4_PKT_I_ADDR_CTXT_L_64IS1:
		handle_address(d, p, true);
		break;
	case ETM4_PKT_I_ADDR_MATCH:
	case ETM4_PKT_I_ADDR_S_IS0:
	case ETM4_PKT_I_ADDR_S_IS1:
	case ETM4_PKT_I_ADDR_L_32IS0:
	case ETM4_PKT_I_ADDR_L_32IS1:
	case ETM4_PKT_I_ADDR_L_64IS0:
	case ETM4_PKT_I_ADDR_L_64IS1:
		handle_address(d, p, false);
		break;
	default:
		break;
	}
}

/*
 * Counts the P0 elements that the library has not committed, to know which
 * cancel and mispredict packets it survives (run.c). The count is a lower
 * bound: packets of which it is unclear whether they are P0 elements hide the
 * atoms before them.
 */
static void track_elements(struct opencsd *d, const ocsd_etmv4_i_pkt *p)
{
	unsigned type = p->type, n = p->atom.num < 32 ? p->atom.num : 32;
	bool atoms = type >= ETM4_PKT_I_ATOM_F6 && type <= 0xff;
	bool spec = type >= ETM4_PKT_I_COMMIT && type < ETM4_PKT_I_COND_I_F2;

	if (atoms || (spec && n)) {
		d->spec.atoms = d->spec.atoms << n | ((UINT64_C(1) << n) - 1);
		d->spec.n += n;
		d->sync.n_idle = 0;
	} else if (type == ETM4_PKT_I_EXCEPT || type == ETM4_PKT_I_EXCEPT_RTN ||
		   type == ETM4_PKT_I_FUNC_RET || type > 0xff ||
		   (type >= ETM4_PKT_I_Q && type < ETM4_PKT_I_ATOM_F6) ||
		   type == ETE_PKT_I_TRANS_ST || type == ETE_PKT_I_TRANS_COMMIT) {
		d->spec.atoms = 0;
	}
	if (spec && type != ETM4_PKT_I_COMMIT && p->cancel_elements) {
		n = p->cancel_elements;
		d->spec.atoms = n < 64 ? d->spec.atoms >> n : 0;
		d->spec.n = n < d->spec.n ? d->spec.n - n : 0;
	}
	if (p->pkt_valid.bits.commit_elem_valid || type == ETM4_PKT_I_COMMIT)
		d->spec.n = p->commit_elements < d->spec.n ?
				     d->spec.n - p->commit_elements : 0;
	if (d->spec.n > d->config->etm.trcidr8)
		d->spec.n = d->config->etm.trcidr8;
}

static bool has_context(unsigned type)
{
	return type == ETM4_PKT_I_CTXT || (type >= ETM4_PKT_I_ADDR_CTXT_L_32IS0 &&
					   type <= ETM4_PKT_I_ADDR_CTXT_L_64IS1);
}

static void handle_v4(struct opencsd *d, const ocsd_etmv4_i_pkt *p, uint64_t pos)
{
	switch ((int)p->type) {
	case ETM4_PKT_I_ASYNC:
		note_sync(d, pos);
		d->sync.framed = true;
		break;
	case ETM4_PKT_I_TRACE_INFO:
		if (!d->sync.emitting && opencsd_wants_lookahead(d))
			d->ts.lookahead = ETM_LOOKAHEAD_AT_ADDRESS;
		d->sync.emitting = true;
		d->sync.in_exception = d->ret.popped = false;
		d->sync.has_context = false;
		d->untraced = (struct opencsd_q){ 0 };
		d->missing.unsure = false;
		d->spec.atoms = d->spec.n = 0;
		/* The library would commit elements that it has not got. */
		d->lib.bad_info = p->curr_spec_depth > d->config->etm.trcidr8;
		break;
	case ETM4_PKT_I_NOTSYNC:
	case ETM4_PKT_I_OVERFLOW:
	case ETM4_PKT_I_DISCARD:
	case ETM4_PKT_I_BAD_SEQUENCE:
	case ETM4_PKT_I_BAD_TRACEMODE:
	case ETM4_PKT_I_RESERVED:
	case ETM4_PKT_I_RESERVED_CFG:
		d->sync.framed &= p->type != ETM4_PKT_I_NOTSYNC;
		if (d->sync.emitting && (p->type == ETM4_PKT_I_OVERFLOW ||
					 p->type == ETM4_PKT_I_DISCARD))
			opencsd_drop_q(d);
		d->untraced.waits = false;
		d->sync.emitting = d->sync.in_exception = false;
		d->ts.lookahead = ETM_LOOKAHEAD_NONE;
		d->sync.n_idle = 0;
		break;
	default:
		if (!d->sync.emitting)
			break;
		opencsd_at(d, pos);
		d->sync.n_idle += p->type != ETM4_PKT_I_IGNORE;
		if (has_context(p->type))
			note_context(d, &p->context);
		if (d->src.in_order)
			handle_flow(d, p);
		else
			track_elements(d, p);
		/* The context of an exception comes with its elements, in
		 * order. */
		if (d->src.in_order && !d->sync.in_exception && p->type != ETM4_PKT_I_EXCEPT) {
			d->sync.emitted = true;
			d->sync.emitted_pos = pos;
		}
		if (p->type == ETM4_PKT_I_EXCEPT)
			d->sync.in_exception = true;
		else if (p->type >= ETM4_PKT_I_ADDR_CTXT_L_32IS0 &&
			 p->type < ETM4_PKT_I_Q && p->type != ETE_PKT_I_TS_MARKER)
			d->sync.in_exception = false;
	}
}

static bool cancels(const ocsd_etmv3_pkt *packet)
{
	return packet->type == ETM3_PKT_BRANCH_ADDRESS &&
	       packet->exception.bits.present && packet->exception.bits.cancel;
}

/* noinline: so that the fast path of its caller saves no registers. */
static __attribute__((noinline)) void handle_other_packet(struct opencsd *d,
						const void *packet, uint64_t pos)
{
	d->lib.cancelled = d->config->etm.arch == AUX_ETM_V3 && cancels(packet);
	if (d->src.v4) {
		handle_v4(d, packet, pos);
	} else if (d->in.packet_type ==
		   (d->config->etm.arch == AUX_ETM_V3 ? (int)ETM3_PKT_A_SYNC :
		    d->config->etm.arch == AUX_ETM_PTM ? (int)PTM_PKT_A_SYNC :
							 (int)STM_PKT_ASYNC)) {
		note_sync(d, pos);
	}
}

void opencsd_handle_packet(const void *priv, ocsd_datapath_op_t op,
			ocsd_trc_index_t index, const void *packet,
			uint32_t size, const uint8_t *data)
{
	struct opencsd *d = (struct opencsd *)(uintptr_t)priv;

	(void)data;
	if (op != OCSD_OP_DATA || !packet)
		return;
	d->missing.wrong = false;
	d->in.seen_index = (uint32_t)index;
	d->in.seen_size = size;
	/* the first member of the packet structs of all protocols */
	d->in.packet_type = *(const int *)packet;
	/* Most packets are atoms; without speculation they say nothing here. */
	if (d->src.in_order && d->in.packet_type >= ETM4_PKT_I_ATOM_F6 &&
	    d->in.packet_type <= 0xff) {
		d->sync.n_idle = 0;
		d->in.seen = true;
		d->ts.lookahead = ETM_LOOKAHEAD_NONE;
		d->sync.in_exception = false;
		return;
	}
	d->in.seen = true;
	handle_other_packet(d, packet, opencsd_pos(d, index));
}
