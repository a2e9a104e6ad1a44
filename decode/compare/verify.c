/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify: two flows in lockstep.
 *
 * Both sides go to their next RANGE; whatever else they met on the way was at
 * the same place, and each event there must have a partner on the other side.
 * Then as many instructions are consumed from both as the shorter RANGE has: it
 * must be a part of the longer one. RANGEs are straight-line code, so an equal
 * start and count mean equal instructions, however the two decoders divide
 * them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/compare/impl.h"
#include "decode/lib/session/decoders.h"

#define STEPS_PER_PROGRESS 65536
#define RANGE_FLAGS (AUX_FLOW_MODE_MASK | AUX_FLOW_IN_TX)

/* Notes a difference, its text and place. VERIFY_DIFFERENT. */
static int verify_differ(struct verify *v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->text, sizeof(v->text), fmt, ap);
	va_end(ap);
	return VERIFY_DIFFERENT;
}

/* Both sides did this: it is kept to be shown before a difference. */
static void verify_remember(struct verify *v, const struct verify_side *s,
			    const struct aux_flow *ev)
{
	size_t i = v->n_history++ % VERIFY_HISTORY;

	v->history[i] = *ev;
	v->spaces[i] = s->cur.m.view.ctx.space;
}

/* ---- instructions ---- */

/* A branch of which the decoder does not say whether it was taken. */
static bool is_open(uint8_t what)
{
	return what == AUX_END_COND;
}

static bool is_cond(uint8_t what)
{
	return what == AUX_END_COND || what == AUX_END_COND_TAKEN ||
	       what == AUX_END_COND_NOT_TAKEN;
}

/* Direct jumps and calls have no packet of their own; branches with one are the
 * slots by which TIMEs are compared (verify_time.c). */
static bool has_packet(uint8_t what)
{
	return what != AUX_END_FALL && what != AUX_END_JUMP &&
	       what != AUX_END_CALL;
}

/* Both RANGEs end here: in the same way, too. */
static int compare_ends(struct verify *v)
{
	const struct aux_flow *a = &v->side[0].head, *b = &v->side[1].head;
	unsigned size_a = a->flags & AUX_FLOW_SIZE_MASK;
	unsigned size_b = b->flags & AUX_FLOW_SIZE_MASK;

	if (a->range.last != b->range.last)
		return verify_differ(v, "the last of %u instructions is at %#llx "
			      "and %#llx", a->n,
			      (unsigned long long)a->range.last,
			      (unsigned long long)b->range.last);
	if (a->what != b->what) {
		if (!is_cond(a->what) || !is_cond(b->what) ||
		    (!is_open(a->what) && !is_open(b->what)))
			return verify_differ(v, "the RANGEs end in another way");
		v->r->n_vague++;
	}
	if (size_a && size_b && size_a != size_b)
		return verify_differ(v, "the last instruction has %u and %u bytes",
			      size_a, size_b);
	v->r->n_branches += a->what != AUX_END_FALL;
	return VERIFY_SAME;
}

/* s has the shorter RANGE: its next one must continue where this was cut. */
static int cut_longer(struct verify *v, struct verify_side *s)
{
	struct verify_side *o = verify_other(v, s);
	unsigned size = s->head.flags & AUX_FLOW_SIZE_MASK;

	if (s->head.what != AUX_END_FALL)
		return verify_differ(v, "%s has a branch here, %s goes straight on",
			      s->name, o->name);
	if (s->head.range.last >= o->head.range.last)
		return verify_differ(v, "%u instructions of %s reach as far as %u of "
			      "%s", s->head.n, s->name, o->head.n,
			      o->name);
	o->head.n -= s->head.n;
	o->head.range.first = s->head.range.last + size;
	o->unknown_first = !size;
	return VERIFY_SAME;
}

/* Where a cut left the start unknown (the decoder gave no size of the
 * instruction before), it is taken from the other side: that side's next RANGE
 * must still fit. */
static int compare_begins(struct verify *v)
{
	struct verify_side *a = &v->side[0], *b = &v->side[1];

	if (a->unknown_first)
		a->head.range.first = b->head.range.first;
	if (b->unknown_first)
		b->head.range.first = a->head.range.first;
	a->unknown_first = b->unknown_first = false;
	if (a->head.range.first != b->head.range.first)
		return verify_differ(v, "%s is at %#llx, %s at %#llx", a->name,
			      (unsigned long long)a->head.range.first,
			      b->name,
			      (unsigned long long)b->head.range.first);
	if ((a->head.flags ^ b->head.flags) & RANGE_FLAGS)
		return verify_differ(v, "the modes differ");
	return VERIFY_SAME;
}

/* Compares two RANGEs, and consumes what they have in common. */
static int take_insns(struct verify *v)
{
	struct verify_side *a = &v->side[0], *b = &v->side[1];
	struct verify_side *s = a->head.n <= b->head.n ? a : b;
	uint8_t what = s->head.what;
	uint32_t n = s->head.n;
	int rc = compare_begins(v);

	if (rc != VERIFY_SAME)
		return rc;
	verify_remember(v, s, &s->head);
	if (a->head.n == b->head.n) {
		rc = compare_ends(v);
		if (rc == VERIFY_SAME)
			rc = verify_next(verify_other(v, s));
		v->slot += has_packet(what);
	} else {
		rc = cut_longer(v, s);
	}
	if (rc != VERIFY_SAME) {
		v->n_history--;
		return rc;
	}
	v->n_insns += n;
	v->r->n_insns += n;
	return verify_next(s);
}

/* One side goes on, and the other does not. */
static int differ_at_end(struct verify *v)
{
	return verify_differ(v, "the flow of %s ends here",
			     v->side[v->side[0].head.kind != VERIFY_END].name);
}

static int verify_take_events(struct verify *v);
static int verify_check_pending(struct verify *v);

/* One step: the events up to the next RANGE of both, then that. */
static int step(struct verify *v)
{
	const struct verify_side *a = &v->side[0], *b = &v->side[1];
	int rc = verify_take_events(v);

	if (rc == VERIFY_SAME)
		rc = verify_check_pending(v);
	if (rc != VERIFY_SAME)
		return rc;
	if (!verify_check_times(v, false))
		return VERIFY_DIFFERENT;
	for (unsigned i = 0; i < 2; i++)
		if (v->side[i].broken[0])
			return verify_differ(v, "%s: %s", v->side[i].name,
				      v->side[i].broken);
	if (a->head.kind != b->head.kind)
		return differ_at_end(v);
	return a->head.kind == VERIFY_END ? VERIFY_SAME : take_insns(v);
}

/* ---- a stream ---- */

static uint64_t less_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool ended(const struct verify *v)
{
	return v->side[0].head.kind == VERIFY_END &&
	       v->side[1].head.kind == VERIFY_END;
}

/* Skips to the next chunk that both sides have: after a difference the rest of
 * this one would differ, too. */
static int go_on(struct verify *v, uint64_t place)
{
	struct verify_side *a = &v->side[0], *b = &v->side[1], *s;
	int rc;

	place |= 1;	/* also past the gap after the chunk */
	while (!ended(v) && (a->place != b->place || a->place <= place)) {
		s = a->place <= b->place ? a : b;
		rc = verify_next(s);
		if (rc < 0)
			return rc;
	}
	for (unsigned i = 0; i < 2; i++) {
		v->side[i].n_pending = 0;
		v->side[i].broken[0] = 0;
	}
	verify_forget_times(v);
	v->loose = true;
	return 0;
}

/* A difference was found: it is shown, and both sides go on after the chunk. */
static int take_difference(struct verify *v)
{
	struct verify_side *a = &v->side[0], *b = &v->side[1];
	uint64_t place = a->place > b->place && a->place != UINT64_MAX ?
				 a->place : b->place;
	int rc;

	if (place == UINT64_MAX)
		place = a->place;
	v->r->n_differences++;
	rc = verify_show(v);
	if (rc < 0 || !v->config->all)
		return rc;
	return go_on(v, place);
}

static bool is_limit(const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_GAP && ev->what == AUX_GAP_DECODER;
}

/* The reference gives up here, and says so: no difference, but what follows in the
 * chunk is not compared. */
static const struct aux_flow *given_up_at(const struct verify *v)
{
	const struct verify_side *b = &v->side[1];

	/* of one decoder in two modes, both have the same limits */
	if (v->ops[0] == v->ops[1] || is_limit(&v->side[0].head))
		return NULL;
	for (unsigned i = 0; i < b->n_pending; i++)
		if (is_limit(&b->pending[i]))
			return &b->pending[i];
	return is_limit(&b->head) ? &b->head : NULL;
}

static int take_difference_or_limit(struct verify *v)
{
	const struct aux_flow *at = given_up_at(v);

	if (!at)
		return take_difference(v);
	if (!v->r->n_given_up++)
		v->r->first_given_up = at->offset;
	return go_on(v, less_of(v->side[0].place, v->side[1].place));
}

static void show_progress(struct verify *v)
{
	const struct aux_flow *a = &v->side[0].head, *b = &v->side[1].head;

	if (v->config->progress && v->n_steps++ % STEPS_PER_PROGRESS == 0)
		v->config->progress(v->config->progress_priv,
				    less_of(a->offset, b->offset));
}

/* One side or both took for missing what there was no memory for. */
static bool lacks_memory(const struct verify *v)
{
	return codeview_nomem(session_codeview(v->s)) ||
	       timeline_nomem(session_timeline(v->s));
}

/* Until both sides ended, or at the first difference without config->all. */
static int compare_all(struct verify *v)
{
	int rc = verify_next(&v->side[0]);

	if (!rc)
		rc = verify_next(&v->side[1]);
	while (!rc) {
		rc = step(v);
		if (rc == VERIFY_SAME && ended(v) && !verify_check_times(v, true))
			rc = VERIFY_DIFFERENT;
		show_progress(v);
		if (rc == VERIFY_DIFFERENT && lacks_memory(v))
			return -AUX_E_NOMEM;
		if (rc == VERIFY_DIFFERENT) {
			rc = take_difference_or_limit(v);
			if (v->r->n_differences && !v->config->all)
				return rc;
		}
		if (!rc && ended(v))
			break;
	}
	return !rc && lacks_memory(v) ? -AUX_E_NOMEM : rc;
}

/* Chunks are counted by the reference, which decodes all of them. */
static void add_counts(struct verify *v)
{
	const struct verify_side *a = &v->side[0];

	v->r->n_chunks += v->side[1].n_chunks;
	if (a->n_handed && !v->r->n_handed)
		v->r->first_handed = a->first_handed;
	v->r->n_handed += a->n_handed;
	v->r->n_paths += a->n_paths;
}

int verify_stream(struct session *s, size_t i,
		  const struct verify_config *config,
		  const struct aux_decoder_ops *const ops[2], bool paths,
		  struct verify_result *r, struct aux_diag *diag)
{
	struct verify *v = calloc(1, sizeof(*v));
	int rc;

	if (!v)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	v->s = s;
	v->config = config;
	v->ops = ops;
	v->r = r;
	v->diag = diag;
	rc = verify_open_side(v, 0, i, paths, diag);
	if (rc >= 0)
		rc = verify_open_side(v, 1, i, false, diag);
	if (rc >= 0)
		rc = compare_all(v);
	if (rc == -AUX_E_NOMEM)
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	add_counts(v);
	verify_close_side(&v->side[0]);
	verify_close_side(&v->side[1]);
	free(v);
	return rc;
}

/* A decoder by name; the session's plugin is not in the table of decoders.
 * NULL: diag says why. */
static const struct aux_decoder_ops *find(const struct session *s,
					  const char *name,
					  struct aux_diag *diag)
{
	const struct aux_decoder_ops *p = session_plugin(s);

	if (p && !strcmp(name, p->name))
		return p;
	return decoders_find(name, session_chunks(s)->trace_type, diag);
}

int verify_decoders(const struct session *s, const struct verify_config *c,
		    const struct aux_decoder_ops *ops[2],
		    struct aux_diag *diag)
{
	bool pt = session_chunks(s)->trace_type == AUX_TRACE_INTEL_PT;

	if (!pt && session_chunks(s)->trace_type != AUX_TRACE_CS_ETM &&
	    !(c->decoder && c->reference))
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"no two decoders for this AUX data (trace type "
				"%u)", session_chunks(s)->trace_type);
	if (session_chunks(s)->cs_error.code) {
		*diag = session_chunks(s)->cs_error;
		return -diag->code;
	}
	if (session_plugin(s) && !c->decoder)
		ops[0] = session_plugin(s);
	else
		ops[0] = find(s, c->decoder ? c->decoder : pt ? "pt" : "etm",
			      diag);
	if (!ops[0])
		return -diag->code;
	ops[1] = find(s, c->reference ? c->reference :
			 pt ? "libipt" : "opencsd", diag);
	return ops[1] ? 0 : -diag->code;
}

/*
 * What is between two RANGEs. The side whose event is next by place in the
 * stream supplies it: it is matched with its partner if the other side had that
 * already, else it waits (pending) for it.
 */

/* Events about control flow keep their order among each other; others (POWER,
 * PAYLOAD) may be emitted earlier or later by another decoder. */
static unsigned class_of(const struct aux_flow *ev)
{
	switch (ev->kind) {
	case AUX_FLOW_ASYNC:
	case AUX_FLOW_TRACE_ON:
	case AUX_FLOW_TRACE_OFF:
	case AUX_FLOW_GAP:
		return 0;
	default:
		return ev->kind;
	}
}

/* Flags that depend on the decoder are not compared. An ASYNC's cause of 0 is
 * unknown and equal to any; context and VM ids are CoreSight's. */
static bool same_event(const struct verify *v, const struct aux_flow *a,
		       const struct aux_flow *b)
{
	uint16_t flags = AUX_FLOW_HAS_IP;

	if (v->side[0].cur.source)
		flags |= AUX_FLOW_HAS_CID | AUX_FLOW_HAS_VMID;
	if (a->kind != b->kind || (a->flags ^ b->flags) & flags)
		return false;
	switch (a->kind) {
	case AUX_FLOW_ASYNC:
		return a->async.from == b->async.from &&
		       a->async.to == b->async.to &&
		       (a->what == b->what || !a->what || !b->what);
	case AUX_FLOW_CONTEXT:
		return a->what == b->what &&
		       a->context.cr3 == b->context.cr3 &&
		       a->context.vmcs == b->context.vmcs;
	case AUX_FLOW_PAYLOAD:
		if (a->n != b->n)
			return false;
		/* fall through */
	case AUX_FLOW_POWER:
	case AUX_FLOW_EVENT:
		return a->what == b->what &&
		       a->payload.value == b->payload.value &&
		       (!(a->flags & AUX_FLOW_HAS_IP) ||
			a->payload.ip == b->payload.ip);
	default:
		return a->what == b->what &&
		       (!(a->flags & AUX_FLOW_HAS_IP) ||
			a->trace.ip == b->trace.ip);
	}
}

/* The others stay in order. */
static void drop_pending(struct verify_side *s, unsigned i)
{
	memmove(&s->pending[i], &s->pending[i + 1],
		(--s->n_pending - i) * sizeof(s->pending[0]));
}

static bool is_overflow(const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_GAP && ev->what == AUX_GAP_OVERFLOW;
}

/*
 * libipt reads a packet ahead, and may lose to an OVF the TIP.PGD before it: it
 * says that there was an overflow, perhaps twice, but not that tracing ended
 * before. So the TRACE_OFF needs no partner, and is counted.
 */
static bool is_hidden(const struct aux_flow *off, const struct aux_flow *other)
{
	return off->kind == AUX_FLOW_TRACE_OFF && is_overflow(other);
}

/* The partner of the head of s, among the events of the other side that wait;
 * n_pending: none. TRACE_OFFs that an overflow hides are dropped. */
static unsigned find_partner(struct verify *v, const struct verify_side *s)
{
	struct verify_side *o = verify_other(v, s);
	unsigned i = 0;

	while (i < o->n_pending) {
		if (class_of(&o->pending[i]) != class_of(&s->head)) {
			i++;
		} else if (is_hidden(&o->pending[i], &s->head)) {
			drop_pending(o, i);
			v->r->n_hidden++;
		} else {
			break;
		}
	}
	return i;
}

/* Matches the head of s, or lets it wait. */
static int match_event(struct verify *v, struct verify_side *s)
{
	struct verify_side *o = verify_other(v, s);
	unsigned i = find_partner(v, s);

	if (i < o->n_pending && is_hidden(&s->head, &o->pending[i])) {
		v->r->n_hidden++;
		return VERIFY_SAME;
	}
	if (i == o->n_pending) {
		if (s->n_pending == VERIFY_PENDING)
			return verify_differ(v, "%u events of %s have no partner",
				      s->n_pending, s->name);
		s->pending[s->n_pending++] = s->head;
		return VERIFY_SAME;
	}
	if (!same_event(v, &s->head, &o->pending[i])) {
		s->pending[s->n_pending++ % VERIFY_PENDING] = s->head;
		return verify_differ(v, "the events differ");
	}
	if (is_overflow(&s->head))
		s->overflow = o->overflow = true;
	v->r->n_moved += i > 0;
	v->r->n_events++;
	drop_pending(o, i);
	verify_remember(v, s, &s->head);
	return VERIFY_SAME;
}

static int take_event(struct verify *v, struct verify_side *s)
{
	int rc = VERIFY_SAME;

	if (s->broken[0])
		return verify_differ(v, "%s: %s", s->name, s->broken);
	if (s->head.kind != AUX_FLOW_TIME)
		rc = match_event(v, s);
	else if (!verify_take_time(v, s))
		rc = VERIFY_DIFFERENT;
	if (rc != VERIFY_SAME)
		return rc;
	return verify_next(s);
}

/* An event whose partner has not come when both sides reach such a head has
 * none. */
static bool is_barrier(const struct verify_side *s)
{
	return s->head.kind == AUX_FLOW_RANGE || s->head.kind == VERIFY_END;
}

/*
 * The head of s is about to be dropped: if the other side emitted the same
 * event before it gave the chunk up, that one has had its partner.
 */
static void settle_pending(struct verify *v, struct verify_side *s)
{
	struct verify_side *o = verify_other(v, s);

	if (is_barrier(s) || s->head.kind == AUX_FLOW_TIME)
		return;
	for (unsigned i = 0; i < o->n_pending; i++) {
		if (class_of(&o->pending[i]) == class_of(&s->head) &&
		    same_event(v, &s->head, &o->pending[i])) {
			drop_pending(o, i);
			return;
		}
	}
}

/* What the other decoder emitted of a chunk that this one gave up has no
 * partner. */
static int drop_handed(struct verify *v, bool *dropped)
{
	*dropped = false;
	for (unsigned i = 0; i < 2; i++) {
		struct verify_side *s = &v->side[i], *o = verify_other(v, s);

		while (s->place < o->place && !(s->place & 1) &&
		       verify_is_handed(o, s->place)) {
			int rc;

			settle_pending(v, s);
			rc = verify_next(s);
			if (rc < 0)
				return rc;
			s->n_pending = 0;
			*dropped = true;
		}
	}
	if (*dropped) {
		v->loose = true;
		verify_forget_times(v);
	}
	return VERIFY_SAME;
}

/* The side whose event is next; NULL: both are at a RANGE. At one place, the
 * one that has fewer events waiting, so that partners meet early. */
static struct verify_side *pick(struct verify *v)
{
	struct verify_side *a = &v->side[0], *b = &v->side[1];

	if (is_barrier(a) || is_barrier(b))
		return !is_barrier(a) ? a : !is_barrier(b) ? b : NULL;
	if (a->place != b->place)
		return a->place < b->place ? a : b;
	return a->n_pending <= b->n_pending ? a : b;
}

/* Brings both sides to their next RANGE. */
static int verify_take_events(struct verify *v)
{
	struct verify_side *s;
	bool dropped;
	int rc;

	for (;;) {
		rc = drop_handed(v, &dropped);
		if (rc != VERIFY_SAME)
			return rc;
		s = pick(v);
		if (!s)
			return VERIFY_SAME;
		rc = take_event(v, s);
		if (rc != VERIFY_SAME)
			return rc;
	}
}

/* Did each event of this place find its partner? */
static int verify_check_pending(struct verify *v)
{
	char text[120];

	for (unsigned i = 0; i < 2; i++) {
		struct verify_side *s = &v->side[i];

		if (s->n_pending && v->loose &&
		    s->pending[0].kind == AUX_FLOW_TRACE_ON)
			drop_pending(s, 0);
		/* the same one, said twice */
		if (s->n_pending && s->overflow && is_overflow(&s->pending[0]))
			drop_pending(s, 0);
		s->overflow = false;
		if (!s->n_pending)
			continue;
		/* that the other one lacks an event, too, says less */
		if (s->head.kind != VERIFY_END && v->side[!i].head.kind == VERIFY_END)
			return differ_at_end(v);
		verify_event_text(text, sizeof(text), &s->pending[0]);
		return verify_differ(v, "only %s has here: %s", s->name, text);
	}
	v->loose = false;
	return VERIFY_SAME;
}
