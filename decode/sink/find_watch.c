/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that are looked for: see find.h. A gap spoils every frame that is
 * on its thread's stacks then: frames have numbers in the order in which they
 * began, so it is enough to keep the highest one that there was at the last gap.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/sink/find.h"

struct spoilt {
	uint64_t serial;	/* frames up to this one have a gap inside */
	struct spoilt *next;
};

struct find_watch {
	struct find_watch_config config;
	struct calls *calls;
	struct find_pattern pattern[3];	/* of FIND_THIS, ABOVE, CALLER */
	uint64_t last;		/* serial of the newest frame */
	uint64_t all_spoilt;	/* by a gap of which no thread is known */
	struct spoilt *spoilt;	/* of threads, in call_thread.user */
};

const char *find_fault_text(enum find_fault fault)
{
	/* table */
	static const char *const texts[FIND_N_FAULTS] = {
		[FIND_WHOLE] = "whole",
		[FIND_GAP] = "a gap inside",
		[FIND_GUESSED] = "a begin or end that is guessed",
		[FIND_RUNNING] = "still running at the end",
		[FIND_BEFORE] = "running before the trace began",
		[FIND_UNTIMED] = "no time known",
	};

	return texts[fault];
}

unsigned find_watch_marks(struct find_watch *w, struct call_func *f)
{
	uintptr_t marks = (uintptr_t)f->user;

	if (marks)
		return (unsigned)marks;
	marks = FIND_KNOWN;
	for (unsigned i = 0; i < 3; i++)
		if (find_pattern_fits(&w->pattern[i], f))
			marks |= 1u << i;
	f->user = (void *)marks;
	return (unsigned)marks;
}

static int on_enter(void *priv, struct call_thread *t)
{
	struct find_watch *w = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];

	w->last = f->serial;
	return w->config.ops->enter ?
		       w->config.ops->enter(w->config.priv, t,
					    find_watch_marks(w, f->func)) :
		       0;
}

static enum find_fault fault_of(const struct find_watch *w,
				const struct call_thread *t,
				const struct call_frame *f, enum call_end end,
				unsigned flags)
{
	const struct spoilt *s = t->user;

	if (f->kind == CALL_BASE)
		return FIND_BEFORE;
	if (end == CALL_END_LOST || f->serial <= w->all_spoilt ||
	    (s && f->serial <= s->serial))
		return FIND_GAP;
	if ((f->flags | flags) & CALL_GUESSED)
		return FIND_GUESSED;
	if (end == CALL_END_TRACE || end == CALL_END_EXEC)
		return FIND_RUNNING;
	if (w->config.by == FIND_BY_TIME && (!f->at.ns || !t->now.ns))
		return FIND_UNTIMED;
	return FIND_WHOLE;
}

static int on_leave(void *priv, struct call_thread *t, enum call_end end,
		    unsigned flags)
{
	struct find_watch *w = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];
	unsigned marks = find_watch_marks(w, f->func);
	struct call_count took;

	if (!w->config.all && !(marks & FIND_THIS))
		return 0;
	took = call_minus(t->now, f->at);
	if (!f->at.ns)
		took.ns = 0;
	return w->config.ops->leave(w->config.priv, t, marks, end,
				    fault_of(w, t, f, end, flags), &took);
}

static int on_gap(void *priv, struct call_thread *t, const struct aux_flow *ev)
{
	struct find_watch *w = priv;
	struct spoilt *s;

	(void)ev;
	if (!t) {
		w->all_spoilt = w->last;
		return 0;
	}
	s = t->user;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return -AUX_E_NOMEM;
		s->next = w->spoilt;
		w->spoilt = s;
		t->user = s;
	}
	s->serial = w->last;
	return 0;
}

static const struct calls_ops watch_ops = {
	.enter = on_enter,
	.leave = on_leave,
	.gap = on_gap,
};

int find_watch_new(struct find_watch **watch,
		   const struct find_watch_config *config,
		   struct aux_diag *diag)
{
	const struct sink_config *sink = config->sink;
	struct find_watch *w = calloc(1, sizeof(*w));
	int err;

	*watch = NULL;
	if (!w)
		return -AUX_E_NOMEM;
	w->config = *config;
	err = find_pattern_init(&w->pattern[0], "--symbol", sink->symbol, diag);
	if (!err)
		err = find_pattern_init(&w->pattern[1], "--from", sink->from,
					diag);
	if (!err)
		err = find_pattern_init(&w->pattern[2], "--caller",
					sink->caller, diag);
	if (!err)
		err = calls_new(&w->calls, sink->host, 0, &watch_ops, w);
	if (err) {
		find_watch_free(w);
		return err;
	}
	*watch = w;
	return 0;
}

int find_watch_flow(struct find_watch *w, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	struct sink_report *report = w->config.sink->report;

	for (size_t i = 0; i < n; i++)
		if (ev[i].kind == AUX_FLOW_RANGE || ev[i].kind == AUX_FLOW_PATH)
			report->n_insns += ev[i].n;
	return calls_flow(w->calls, ctx, ev, n);
}

int find_watch_finish(struct find_watch *w)
{
	return calls_finish(w->calls);
}

void find_watch_free(struct find_watch *w)
{
	if (!w)
		return;
	calls_free(w->calls);
	for (unsigned i = 0; i < 3; i++)
		find_pattern_fini(&w->pattern[i]);
	while (w->spoilt) {
		struct spoilt *next = w->spoilt->next;

		free(w->spoilt);
		w->spoilt = next;
	}
	free(w);
}

struct calls *find_watch_calls(struct find_watch *w)
{
	return w->calls;
}
