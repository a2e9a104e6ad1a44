/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gdb: `monitor slowest FUNCTION`: to where the call that took longest begins.
 *
 * One pass over the recording finds it, by the rules of `find`: calls with a gap inside, or
 * whose begin or end nobody saw, do not count. Where times are coarse several calls
 * begin at one time: so it is known which of those it is.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/callstack/names.h"
#include "decode/gdb/impl.h"
#include "decode/sink/find.h"

/* Calls of a thread that began at one time. */
struct begun {
	uint64_t ns, to;
	uint32_t tid, n;
};

struct slowest {
	struct find_watch *watch;
	struct link *link;
	uint32_t pid, n_flows;
	bool broke;		/* the debugger asked to stop */
	struct begun *begun;	/* of each thread, those at its last time */
	size_t n_begun, cap_begun;
	uint64_t n_calls;	/* whole ones */
	/* the slowest so far; took 0: there is none */
	uint64_t took;
	struct begun best;	/* n: how many began with it and before */
	char name[256];
};

/* Those that began with this frame; NULL: out of memory. What the thread began at earlier
 * times is dropped, so there are few. */
static struct begun *find_begun(struct slowest *s, const struct call_thread *t,
				const struct call_frame *f)
{
	for (size_t i = 0; i < s->n_begun;) {
		struct begun *b = &s->begun[i];

		if (b->tid == t->tid && b->ns != f->at.ns)
			*b = s->begun[--s->n_begun];
		else if (b->tid == t->tid && b->to == f->to)
			return b;
		else
			i++;
	}
	if (array_grow(&s->begun, s->n_begun, &s->cap_begun, sizeof(*s->begun)) < 0)
		return NULL;
	s->begun[s->n_begun] = (struct begun){ .ns = f->at.ns, .to = f->to,
						 .tid = t->tid };
	return &s->begun[s->n_begun++];
}

static int on_enter(void *priv, struct call_thread *t, unsigned marks)
{
	struct call_frame *f = &t->frames[t->depth - 1];
	struct begun *b = marks & FIND_THIS ? find_begun(priv, t, f) : NULL;

	if (!b)
		return marks & FIND_THIS ? -AUX_E_NOMEM : 0;
	f->user = (void *)(uintptr_t)++b->n;
	return 0;
}

static int on_leave(void *priv, struct call_thread *t, unsigned marks, enum call_end end,
		    enum find_fault fault, const struct call_count *took)
{
	const struct call_frame *f = &t->frames[t->depth - 1];
	struct slowest *s = priv;

	(void)marks;
	(void)end;
	if (fault != FIND_WHOLE)
		return 0;
	s->n_calls++;
	if (took->ns <= s->took)
		return 0;
	s->took = took->ns;
	s->best = (struct begun){ .ns = f->at.ns, .to = f->to, .tid = t->tid,
				  .n = (uint32_t)(uintptr_t)f->user };
	call_func_name(f->func, s->name, sizeof(s->name));
	return 0;
}

static int flow_slowest(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev,
			size_t n)
{
	struct slowest *s = sink;

	/* asking costs a system call */
	if (!(++s->n_flows % 1024) && link_is_broken(s->link)) {
		s->broke = true;
		return 1;
	}
	return ctx->pid == s->pid ? find_watch_flow(s->watch, ctx, ev, n) : 0;
}

static int finish_slowest(void *sink, struct aux_diag *diag)
{
	struct slowest *s = sink;

	(void)diag;
	return find_watch_finish(s->watch);
}

static const struct sink_ops slowest_sink = {
	.name = "slowest",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS,
	.flow = flow_slowest,
	.finish = finish_slowest,
};

/* The pass. */
static int find_slowest(struct server *s, const char *func, struct slowest *found,
			char *hint, size_t len)
{
	static const struct find_ops ops = { .enter = on_enter, .leave = on_leave };
	struct sink_report report = { 0 };
	struct sink_host host = s->host;
	struct sink_env env = { .host = &host, .report = &report, .out = s->out,
				.symbol = func, .time_to = UINT64_MAX };
	struct find_watch_config config = { .env = &env, .ops = &ops, .priv = found };
	int err = names_new(&host.names, "slowest", &func, 1, false, s->diag);

	if (!err)
		err = find_watch_new(&found->watch, &config, s->diag);
	if (!err) {
		session_select_time(s->config->session, 0, UINT64_MAX);
		err = session_run(s->config->session, &slowest_sink, found, NULL, s->diag);
	}
	if (!err)
		names_hint(host.names, hint, len);
	find_watch_free(found->watch);
	names_free(host.names);
	return err;
}

static bool is_broken(void *priv)
{
	return link_is_broken(priv);
}

/* The place where the call begins. 1, or 0: it is not there. */
static int go_there(struct server *s, const struct begun *b, struct replay_place *at)
{
	const struct replay_points points = { &b->to, 1 };
	struct replay_why why = { .stop = REPLAY_POINT };
	struct replay_state st = { 0 };
	uint32_t left = b->n;
	int rc = replay_seek(s->replay, b->ns, at, s->diag);

	while (rc > 0 && why.stop != REPLAY_EDGE && why.stop != REPLAY_INTERRUPTED) {
		rc = replay_state(s->replay, at, &st, s->diag);
		if (rc < 0 || st.time_ns > b->ns)
			return rc < 0 ? rc : 0;
		if (st.pc == b->to && st.tid == b->tid && !--left)
			return 1;
		rc = replay_run(s->replay, at, &points, false, is_broken, &s->link, &why,
				s->diag);
		rc = rc < 0 ? rc : 1;
	}
	return rc < 0 ? rc : 0;
}

int slowest_find(struct server *s, const char *func, struct replay_place *at)
{
	struct slowest found = { .pid = replay_pid(s->replay), .link = &s->link };
	char hint[512] = "", took[40];
	int err;

	if (!*func || !session_is_timed(s->config->session)) {
		outbuf_str(s->out, *func ? "the trace has no times\n" :
					   "slowest FUNCTION: of which function?\n");
		return 0;
	}
	err = find_slowest(s, func, &found, hint, sizeof(hint));
	free(found.begun);
	if (err == -AUX_E_INVAL) {
		outbuf_printf(s->out, "%s\n", s->diag->text);
		return 0;
	}
	if (err)
		return err;
	if (found.broke) {
		outbuf_str(s->out, "interrupted\n");
		return 0;
	}
	if (!found.took) {
		outbuf_printf(s->out, "%s\n", *hint ? hint : "no call of it was seen from its "
					     "begin to its end with a time between");
		return 0;
	}
	err = go_there(s, &found.best, at);
	if (err > 0)
		outbuf_printf(s->out, "%s took %s, the longest of %llu calls\n", found.name,
			      find_amount_text(took, FIND_BY_TIME, found.took),
			      (unsigned long long)found.n_calls);
	return err;
}
