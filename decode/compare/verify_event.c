/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify: what is between two RANGEs. The side whose event is next gives it: with
 * its partner, if the other one had it already, else it waits for that.
 */
#include <stdio.h>
#include <string.h>

#include "decode/compare/verify_impl.h"

/* Those about control keep their order; others may stand in another one. */
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

static bool same_event(const struct verify *v, const struct aux_flow *a,
		       const struct aux_flow *b)
{
	uint16_t flags = AUX_FLOW_HAS_IP;

	if (v->side[0].feed.source)
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

static void drop_pending(struct verify_side *s, unsigned i)
{
	memmove(&s->pending[i], &s->pending[i + 1],
		(--s->n_pending - i) * sizeof(s->pending[0]));
}

/* The head of s: with its partner, if the other side had it already. */
static int match_event(struct verify *v, struct verify_side *s)
{
	struct verify_side *o = verify_other(v, s);
	unsigned i = 0;

	while (i < o->n_pending &&
	       class_of(&o->pending[i]) != class_of(&s->head))
		i++;
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

static bool is_barrier(const struct verify_side *s)
{
	return s->head.kind == AUX_FLOW_RANGE || s->head.kind == VERIFY_END;
}

/* What the other decoder gave of a chunk that this one gave up has no partner. */
static int drop_handed(struct verify *v, bool *dropped)
{
	*dropped = false;
	for (unsigned i = 0; i < 2; i++) {
		struct verify_side *s = &v->side[i], *o = verify_other(v, s);

		while (s->place < o->place && !(s->place & 1) &&
		       verify_is_handed(o, s->place)) {
			int rc = verify_next(s);

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

/* The side whose event is next; NULL: both are at a RANGE. */
static struct verify_side *pick(struct verify *v)
{
	struct verify_side *a = &v->side[0], *b = &v->side[1];

	if (is_barrier(a) || is_barrier(b))
		return !is_barrier(a) ? a : !is_barrier(b) ? b : NULL;
	if (a->place != b->place)
		return a->place < b->place ? a : b;
	return a->n_pending <= b->n_pending ? a : b;
}

/* To the next RANGE of both. */
int verify_take_events(struct verify *v)
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

/* Each event of this place had a partner? */
int verify_check_pending(struct verify *v)
{
	char text[120];

	for (unsigned i = 0; i < 2; i++) {
		struct verify_side *s = &v->side[i];

		if (s->n_pending && v->loose &&
		    s->pending[0].kind == AUX_FLOW_TRACE_ON)
			drop_pending(s, 0);
		if (!s->n_pending)
			continue;
		verify_event_text(text, sizeof(text), &s->pending[0]);
		return verify_differ(v, "only %s has here: %s", s->name, text);
	}
	v->loose = false;
	return VERIFY_SAME;
}
