/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Synchronization, errors, and the end of a chunk.
 *
 * A PSB is a resume point: after it, nothing of what came before is needed.
 * Last IP, the mode, the return stack, CR3 and time are forgotten, and what is
 * repeated of it in the PSB+ is all that is known. So a chunk can begin at any
 * PSB, and decoding it gives what decoding the whole stream gives from there
 * on. That is also why errors cost no more than the trace up to the next PSB;
 * each try starts after the one before, so that decoding always ends.
 *
 * The seam of two chunks. The session cuts a stream at a PSB whose FUP says
 * where the CPU was: end_ip of the first chunk, and where the second one
 * begins. Between the last packet and the PSB the CPU ran instructions that
 * need no packet; they belong to the first chunk, which walks on to end_ip
 * (walk_to_end_ip). The second one is given the ip by the PSB+, and begins with
 * its TRACE_ON, which the session drops. Therefore, if packets end where
 * another chunk continues, a branch that needs a packet is a contradiction, not
 * the end of the trace.
 *
 * What was walked and no packet confirmed is never shown (pt_retract).
 *
 * After some errors the flow goes on before the next PSB: resume.c.
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Decoder
 * Synchronization".
 */
#include "decode/lib/pt/impl.h"

#define CODE_PAGE 4096	/* hosts keep code by pages of it, or larger ones */

static enum aux_gap_cause cause_of(const struct pt *d, int err)
{
	switch (-err) {
	case PT_E_RETURN:
		return d->resume.early ? AUX_GAP_LOST_CALL : AUX_GAP_DESYNC;
	case PT_E_CODE:
		return AUX_GAP_NO_CODE;
	case PT_E_PACKET:
		return AUX_GAP_BAD_PACKET;
	case PT_E_LIMIT:
		return AUX_GAP_DECODER;
	default:
		return AUX_GAP_DESYNC;
	}
}

/*
 * Code that was walked and is not shown decided where the flow goes on, too. A
 * host that keeps the code that was asked for (bundle) has to know, and of a
 * region only its first question reached it.
 */
static void ask_again(const struct pt *d, const struct aux_flow *f)
{
	uint64_t n = (f->range.last | (CODE_PAGE - 1)) - f->range.first;
	struct aux_code c;

	for (uint64_t at = 0; f->kind == AUX_FLOW_RANGE && at <= n; at += CODE_PAGE)
		d->host->code(d->host->priv, f->range.first + at, &c);
}

void pt_retract(struct pt *d)
{
	if (d->out.committed == d->out.tail)
		return;
	d->out.last_ip = d->out.queue[d->out.committed].range.first;
	while (d->out.tail > d->out.committed)
		ask_again(d, &d->out.queue[--d->out.tail]);
}

/* The RANGE that the failing branch ends; libipt did not report that either. */
static void drop_failed_branch(struct pt *d)
{
	if (d->out.committed < d->out.tail &&
	    d->out.queue[d->out.tail - 1].what != AUX_END_JUMP &&
	    d->out.queue[d->out.tail - 1].what != AUX_END_CALL &&
	    d->out.queue[d->out.tail - 1].what != AUX_END_FALL)
		ask_again(d, &d->out.queue[--d->out.tail]);
}

void pt_emit_gap(struct pt *d, enum aux_gap_cause cause, uint64_t ip, int err)
{
	struct aux_flow *f = pt_emit(d, AUX_FLOW_GAP, cause);

	f->flags = AUX_FLOW_HAS_IP;
	f->gap.ip = ip;
	f->gap.detail = (uint64_t)-err;
}

/* Nothing is known of the flow, or waits to be. */
static void reset_flow(struct pt *d)
{
	d->pending.what = 0;
	d->pending.joined = 0;
	d->checked = NULL;
	d->cur.n_bits = 0;
	d->walk.untraced = 0;
	d->stack.depth = 0;
}

/* Nothing is known but output, TIMEs and where the PSBs are looked for. */
static void reset(struct pt *d)
{
	reset_flow(d);
	d->cur.state = PT_UNSYNCED;
	d->cur.ip_state = PT_IP_NONE;
	d->cur.consumed = false;
	d->cur.bound.n = 0;
	d->cur.block = 0;
}

/* Did what was walked up to the error run? With missing code what is before it
 * did; and a return whose bit was found, only its call was not. */
static bool is_walk_certain(const struct pt *d, int err)
{
	return err == -PT_E_CODE || err == -PT_E_PACKET ||
	       (err == -PT_E_RETURN && d->resume.early);
}

/* A chunk in which the flow went on early is not left to libipt: it has more
 * events than libipt's, which could not be told apart. */
static void end_unsupported(struct pt *d)
{
	if (!d->resume.early) {
		pt_finish(d, PT_UNSUPPORTED);
		return;
	}
	pt_emit_gap(d, AUX_GAP_DECODER, d->out.last_ip, -PT_E_UNSUPPORTED);
	pt_finish(d, PT_DONE);
}

void pt_sync_fail(struct pt *d, int err, const uint8_t *pos)
{
	bool more = d->chunk->flags & AUX_CHUNK_HAS_END_IP;
	bool tail = more && pos == d->cur.end;
	bool lost = pt_resume_allowed(d, err);
	unsigned n_bits = d->cur.n_bits;
	uint64_t ip;

	/* The stream does not end where another chunk continues. */
	if (more && err == -PT_E_EOS)
		err = -PT_E_QUERY;
	if (lost) {
		reset_flow(d);
	} else {
		reset(d);
		if (d->cur.p < pos)
			d->cur.p = pos;
		if (d->out.offset < pt_offset(d, d->cur.p))
			d->out.offset = pt_offset(d, d->cur.p);
	}
	if (is_walk_certain(d, err)) {
		pt_commit(d);
	} else {
		drop_failed_branch(d);
		pt_retract(d);
	}
	ip = err == -PT_E_CODE ? d->walk.miss_ip : d->out.last_ip;
	switch (-err) {
	case PT_E_NOMEM:
		pt_finish(d, PT_NOMEM);
		break;
	case PT_E_UNSUPPORTED:
		if (!d->resume.early) {
			pt_finish(d, PT_UNSUPPORTED);
			break;
		}
		pt_emit_gap(d, AUX_GAP_DECODER, ip, err);
		break;
	case PT_E_EOS:
		pt_finish(d, PT_DONE);
		break;
	default:
		/* At the very end: only the walk to end_ip is lost. */
		pt_emit_gap(d, tail ? AUX_GAP_DESYNC : cause_of(d, err), ip, err);
		if (lost)
			pt_resume_begin(d, err, n_bits);
		else if (tail)
			pt_finish(d, PT_DONE);
	}
}

/* Begins at a PSB, where nothing is known. The mode is that of most code until
 * MODE.Exec. */
static void begin_at(struct pt *d, const uint8_t *psb)
{
	reset(d);
	d->cur.p = psb;
	d->sync = psb + PTPKT_PSB_SIZE;
	if (d->out.offset < pt_offset(d, psb))
		d->out.offset = pt_offset(d, psb);
	d->times.have_time = false;
	d->context.cr3 = d->context.vmcs = 0;
	d->walk.ip = 0;
	d->walk.flags = AUX_FLOW_MODE_X86_64;
	d->walk.mode = PT_MODE_NONE;
}

void pt_sync_at(struct pt *d, const uint8_t *psb)
{
	reset(d);
	d->sync = d->cur.p = psb;
}

void pt_sync_next(struct pt *d)
{
	const uint8_t *psb, *pos;
	bool fetched;
	int err;

	/* A packet that was wrong may have run into a PSB. */
	if (d->cur.p - d->sync > PTPKT_PSB_SIZE - 1)
		d->sync = d->cur.p - (PTPKT_PSB_SIZE - 1);
	psb = d->sync < d->cur.end ? ptpkt_find_psb(d->sync, d->cur.end) : NULL;
	if (!psb) {
		pt_finish(d, PT_DONE);
		return;
	}
	begin_at(d, psb);
	err = pt_read_psb(&d->cur);
	/* Without an IP, libipt goes on to the first item; for that, tracing
	 * counts as on. */
	d->cur.state = PT_ON;
	if (!err && d->cur.ip_state == PT_IP_NONE && !d->cur.bound.n) {
		err = pt_next_item(&d->cur);
		err = err > 0 ? 0 : err;
	}
	d->cur.state = PT_OFF;
	if (!err && d->cur.ip_state == PT_IP_KNOWN) {
		d->cur.state = PT_ON;
		d->pending.what |= PT_PENDING_ON;
		d->walk.ip = d->cur.last_ip;
	}
	pos = d->cur.p;
	if (!err)
		err = pt_look_ahead(&d->cur, &pos, &fetched);
	if (err < 0)
		pt_sync_fail(d, err, pos);
}

/* After the last packet: walks to where the next chunk continues, see above.
 * Without one, nothing is known of what ran. */
static void walk_to_end_ip(struct pt *d)
{
	uint64_t ip;
	int r;

	if (!(d->chunk->flags & AUX_CHUNK_HAS_END_IP)) {
		pt_retract(d);
		pt_finish(d, PT_DONE);
		return;
	}
	if (d->cur.bound.n || d->cur.state != PT_ON) {
		end_unsupported(d);
		return;
	}
	r = pt_slow_pass_branch(d);
	if (!r)
		r = pt_slow_walk(d, &d->chunk->end_ip);
	pt_finish(d, PT_DONE);
	if (r == 1) {
		pt_commit(d);
		return;
	}
	if (r == -PT_E_UNSUPPORTED) {
		end_unsupported(d);
		return;
	}
	if (r == -PT_E_CODE)
		pt_commit(d);
	else
		drop_failed_branch(d);
	pt_retract(d);
	ip = r == -PT_E_CODE ? d->walk.miss_ip : d->out.last_ip;
	pt_emit_gap(d, AUX_GAP_DESYNC, ip, r ? r : -PT_E_QUERY);
}

/* The chunk ends inside of a packet. For these, libipt first walks to the
 * branch that would consume it, and finds the end only then. */
static bool is_walked_for(const struct pt *d)
{
	switch (pt_cut_packet(&d->cur)) {
	case PTPKT_TIP:
		return !pt_has_bound(&d->cur, PT_BIND_TIP);
	case PTPKT_FUP:
		return !pt_has_bound(&d->cur, PT_BIND_FUP);
	case PTPKT_TNT: case PTPKT_TSC: case PTPKT_TMA: case PTPKT_MTC:
	case PTPKT_CYC: case PTPKT_PSB:
		return true;
	default:
		return false;
	}
}

/* Is that packet one of time? */
static bool is_time_cut(const struct pt *d)
{
	unsigned type = pt_cut_packet(&d->cur);

	return type == PTPKT_TSC || type == PTPKT_TMA || type == PTPKT_MTC ||
	       type == PTPKT_CYC;
}

void pt_sync_end(struct pt *d)
{
	int r;

	if (!is_walked_for(d) || (d->cur.state != PT_ON && is_time_cut(d))) {
		/* What runs up to the next chunk runs after the last CYC. */
		if (!(d->chunk->flags & AUX_CHUNK_HAS_END_IP) ||
		    d->cur.state != PT_ON || !pt_reach_horizon(d))
			walk_to_end_ip(d);
		return;
	}
	if (d->cur.state != PT_ON) {
		pt_sync_fail(d, -PT_E_CONTEXT, d->cur.p);
		return;
	}
	if (pt_reach_horizon(d))
		return;
	r = pt_slow_branch(d);
	pt_sync_fail(d, r < 0 ? r : -PT_E_EOS, d->cur.p);
}

/* ---- what the fast path emitted too early ---- */

/* The TNT that the fast path consumed last does not stand, as the packets after
 * it are broken: the flow is where it was before. */
static void undo_tnt(struct pt *d, int err, const uint8_t *pos)
{
	int r;

	d->walk.ip = d->mark.ip;
	d->cur.n_bits = 0;
	d->walk.untraced = 0;
	r = pt_slow_walk(d, NULL);
	pt_sync_fail(d, r < 0 ? r : err, pos);
}

/* Sets out.last_ip to the last instruction of these events, or to where they begin
 * to show any, if there is one. */
static void find_last_ip(struct pt *d, const struct aux_flow *out, size_t n)
{
	while (n--) {
		if (out[n].kind == AUX_FLOW_TRACE_ON) {
			d->out.last_ip = out[n].trace.ip;
			return;
		}
		if (out[n].kind == AUX_FLOW_RANGE) {
			d->out.last_ip = out[n].range.last;
			return;
		}
		if (out[n].kind == AUX_FLOW_PATH) {
			const struct aux_path *p = out[n].path.path;
			const struct aux_step *s = p->steps[p->n_steps - 1];

			d->out.last_ip = s->ranges[s->n_ranges - 1].range.last;
			return;
		}
	}
}

/* Is it a PATH that is a branch to another region alone? */
static bool is_lead(const struct aux_flow *f)
{
	const struct aux_step *s;

	if (f->kind != AUX_FLOW_PATH)
		return false;
	s = f->path.path->steps[f->path.path->n_steps - 1];
	return s->ranges[s->n_ranges - 1].what == AUX_END_JUMP ||
	       s->ranges[s->n_ranges - 1].what == AUX_END_CALL;
}

/* The first of the n events that holds what ran since the last packet but
 * one. */
static size_t find_last_step(const struct aux_flow *out, size_t n)
{
	size_t i = n - 1;

	if (out[i].kind == AUX_FLOW_PATH) {
		while (i && out[n - 1].path.path->n_steps == 1 &&
		       is_lead(&out[i - 1]))
			i--;
		return i;
	}
	while (i && out[i - 1].kind == AUX_FLOW_RANGE &&
	       (out[i - 1].what == AUX_END_JUMP ||
		out[i - 1].what == AUX_END_CALL))
		i--;
	return i;
}

/* Puts the RANGEs of a PATH into the queue; all but the last step stand. */
static void queue_path(struct pt *d, const struct aux_flow *out)
{
	const struct aux_path *p = out->path.path;
	struct aux_flow *f;

	for (uint32_t i = 0; i < p->n_steps; i++) {
		if (i)
			pt_commit(d);
		for (uint32_t k = 0; k < p->steps[i]->n_ranges; k++) {
			if (!pt_queue_room(d))
				break;
			f = &d->out.queue[d->out.tail++];
			*f = p->steps[i]->ranges[k];
			f->offset = out->offset;
		}
	}
}

/* Only the last step of what the fast path emitted last does not stand. Its
 * RANGEs go to the queue, where pt_sync_fail takes them back. Returns the
 * events left in out. */
static size_t undo_step(struct pt *d, struct aux_flow *out, size_t n, int err,
			const uint8_t *pos)
{
	size_t left = find_last_step(out, n);

	find_last_ip(d, out, left);
	d->cur.n_bits = 0;
	for (size_t i = left; i < n; i++) {
		if (out[i].kind == AUX_FLOW_PATH)
			queue_path(d, &out[i]);
		else if (pt_queue_room(d))
			d->out.queue[d->out.tail++] = out[i];
	}
	pt_sync_fail(d, err, pos);
	return left;
}

/*
 * libipt reads one item ahead: had the next one been broken, it would not have
 * reported the branch that consumed the last TNT or TIP. fetched: it is broken
 * only in the next event, which libipt reads later.
 */
size_t pt_sync_verify(struct pt *d, struct aux_flow *out, size_t n, bool *stop)
{
	const uint8_t *pos;
	bool fetched;
	int err = d->mark.at < n && !pt_slow_is_checked(d) ?
			  pt_look_ahead(&d->cur, &pos, &fetched) :
			  0;

	if (!err) {
		find_last_ip(d, out, n);
		return n;
	}
	*stop = false;
	if (fetched && err == -PT_E_PACKET) {	/* the step stands */
		find_last_ip(d, out, n);
		d->cur.n_bits = 0;
		pt_sync_fail(d, err, pos);
		return n;
	}
	if (fetched || d->mark.tip)
		return undo_step(d, out, n, err, pos);
	n = d->mark.at;
	find_last_ip(d, out, n);
	undo_tnt(d, err, pos);
	return n;
}
