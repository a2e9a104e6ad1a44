/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What find and latency share: which functions are looked for, what their calls
 * are measured in, and which calls can be trusted. See find.h.
 */
#include <inttypes.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/markup.h"
#include "common/diag.h"
#include "common/options.h"
#include "common/outbuf.h"
#include "decode/callstack/names.h"
#include "decode/sink/find.h"
#include "decode/sink/impl.h"

/* ---- what calls are measured in, as text for people and from them ---- */

/* A time as --time takes it, or a whole number. */
static bool parse_amount(const char *s, bool is_time, uint64_t *v)
{
	const char *end;

	if (!is_time)
		return option_read_number(s, UINT64_MAX, v);
	end = option_read_time(s, v);
	return end && !*end;
}

int find_amount_parse(uint64_t *v, enum find_by by, const char *option,
		      const char *text, struct aux_diag *diag)
{
	if (parse_amount(text, by == FIND_BY_TIME, v))
		return 0;
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			by == FIND_BY_TIME ?
				"%s wants a time as 1ms or 20us, not \"%s\"" :
				"%s wants a number with this --by, not \"%s\"",
			option, text);
}

uint64_t find_amount(enum find_by by, const struct call_count *n)
{
	return by == FIND_BY_TIME  ? n->ns :
	       by == FIND_BY_INSNS ? n->insns :
				     n->cycles;
}

/* Groups of three digits. */
char *find_number_text(char *out, uint64_t v)
{
	char digits[24];
	size_t len = (size_t)(fmt_dec(digits, v) - digits), n = 0;

	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out[n++] = ',';
		out[n++] = digits[i];
	}
	out[n] = 0;
	return out;
}

/* Four digits of the largest unit of which there is one; none of them after the
 * point if the value is a whole number of units. */
char *find_amount_text(char *out, enum find_by by, uint64_t v)
{
	static const char *const units[] = { "us", "ms", "s" };
	uint64_t unit = 1000;
	unsigned i = 0, digits;

	if (by != FIND_BY_TIME)
		return find_number_text(out, v);
	if (v < 1000) {
		snprintf(out, 40, "%" PRIu64 " ns", v);
		return out;
	}
	for (; i < 2 && v / 1000 >= unit; i++)
		unit *= 1000;
	digits = v / unit >= 100 ? 1 : v / unit >= 10 ? 2 : 3;
	if (v % unit == 0)
		digits = 0;
	snprintf(out, 40, "%.*f %s", (int)digits, (double)v / (double)unit,
		 units[i]);
	return out;
}

char *find_took_text(char *out, enum find_by by, uint64_t v, uint64_t resolution)
{
	char least[40];

	if (by != FIND_BY_TIME || (v && v >= resolution))
		return find_amount_text(out, by, v);
	if (!resolution)
		return memcpy(out, "~0 ns", 6);
	snprintf(out, 40, "<%.30s", find_amount_text(least, by, resolution));
	return out;
}

void find_json_known(struct outbuf *out, const char *key, uint64_t v, bool known)
{
	if (known)
		outbuf_json_number(out, key, v);
	else
		outbuf_json_text(out, key, NULL);
}

char *find_off_text(char *out, const struct call_count *n)
{
	char off[40], blocked[40], preempted[40];

	find_amount_text(off, FIND_BY_TIME, n->off_ns);
	find_amount_text(blocked, FIND_BY_TIME, n->blocked_ns);
	find_amount_text(preempted, FIND_BY_TIME, n->preempted_ns);
	if (n->blocked_ns && n->preempted_ns)
		snprintf(out, FIND_OFF_TEXT, "%s: %s blocked, %s preempted", off, blocked,
			 preempted);
	else
		snprintf(out, FIND_OFF_TEXT, "%s%s", off,
			 n->off_ns && n->blocked_ns == n->off_ns ? ", blocked" :
			 n->off_ns && n->preempted_ns == n->off_ns ? ", preempted" : "");
	return out;
}

bool find_is_kernel_mostly(const struct call_count *n)
{
	return n->kernel_ns > (n->ns - n->off_ns) / 2;
}

void find_put_see(struct outbuf *out, const struct sink_env *env,
		  uint64_t from_ns, uint64_t to_ns, uint32_t tid)
{
	char words[128] = "calls --time ", *p = words + strlen(words);

	p = fmt_time(p, from_ns);
	*p++ = ',';
	p = fmt_time(p, to_ns);
	if (tid != UINT32_MAX)
		p += snprintf(p, 20, " --tid %" PRIu32, tid);
	memcpy(p, " FILE", 6);
	sink_follow(env->host, out, words);
}

void find_json_see(struct outbuf *out, const struct sink_env *env,
		   uint64_t from_ns, uint64_t to_ns, uint32_t tid)
{
	struct outbuf *text = outbuf_new(-1);

	if (!text) {
		outbuf_fail(out, ENOMEM);
		return;
	}
	find_put_see(text, env, from_ns, to_ns, tid);
	outbuf_put(text, "", 1);
	outbuf_json_text(out, "command", text->buf);
	outbuf_free(text);
}

/*
 * ---- the calls ----
 *
 * A gap spoils every frame that is on its thread's stacks at that time. Frames
 * have serial numbers in the order in which they began, so it is enough to keep
 * the newest one that there was at the last gap: all up to it are spoilt (those
 * that ended are gone anyway). A gap of which no thread is known spoils all
 * frames of all threads.
 */

/* Of a thread, in call_thread.user. */
struct spoilt {
	uint64_t serial;	/* frames up to this one have a gap inside */
	struct spoilt *next;
};

struct find_watch {
	struct find_watch_config config;
	struct calls *calls;
	struct names *from, *caller;	/* --from, --caller; NULL: any */
	bool measured;		/* there were times, or cycles */
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
		[FIND_UNTIMED] = "no time or cycles known",
	};

	return texts[fault];
}

static bool fits(struct names *n, const struct call_func *f)
{
	char text[512];

	if (!f->raw)
		call_func_name(f, text, sizeof(text));
	return names_fit(n, f->raw ? f->raw : text, f->dso);
}

/* The patterns are tried once per function. */
unsigned find_watch_marks(struct find_watch *w, struct call_func *f)
{
	uintptr_t marks = (uintptr_t)f->user;

	if (marks)
		return (unsigned)marks;
	marks = FIND_KNOWN | (f->wanted ? FIND_THIS : 0) |
		(fits(w->from, f) ? FIND_ABOVE : 0) |
		(fits(w->caller, f) ? FIND_CALLER : 0);
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

/* The order matters: the first fault is the one that is told. */
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
	if ((w->config.by == FIND_BY_TIME && (!f->at.ns || !t->now.ns)) ||
	    (w->config.by == FIND_BY_CYCLES && !t->now.cycles))
		return FIND_UNTIMED;
	return FIND_WHOLE;
}

/* A call that began before the first time is known has no duration. */
static int on_leave(void *priv, struct call_thread *t,
			       enum call_end end, unsigned flags)
{
	struct find_watch *w = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];
	unsigned marks = find_watch_marks(w, f->func);
	struct call_count took;

	w->measured |= find_amount(w->config.by, &t->now) != 0;
	if (!w->config.all && !(marks & FIND_THIS))
		return 0;
	took = call_minus(t->now, f->at);
	if (!f->at.ns)
		took.ns = 0;
	return w->config.ops->leave(w->config.priv, t, marks, end,
				    fault_of(w, t, f, end, flags), &took);
}

/* See the comment above struct spoilt. */
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
	struct find_watch *w = calloc(1, sizeof(*w));
	int err = 0;

	*watch = NULL;
	if (!w)
		return -AUX_E_NOMEM;
	w->config = *config;
	if (config->from)
		err = names_new(&w->from, "--from", &config->from, 1, false,
				diag);
	if (!err && config->caller)
		err = names_new(&w->caller, "--caller", &config->caller, 1,
				false, diag);
	if (!err)
		err = calls_new(&w->calls, w->config.env->host, 0, &watch_ops, w);
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
	struct sink_report *report = w->config.env->report;

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
	names_free(w->from);
	names_free(w->caller);
	while (w->spoilt) {
		struct spoilt *next = w->spoilt->next;

		free(w->spoilt);
		w->spoilt = next;
	}
	free(w);
}

void find_watch_hint(struct find_watch *w, char *hint, size_t len)
{
	char text[512];

	for (size_t i = 0; i < calls_n_funcs(w->calls); i++)
		find_watch_marks(w, calls_func(w->calls, (uint32_t)i));
	names_hint(w->from, text, sizeof(text));
	snprintf(hint, len, "%s%s", text[0] ? "--from: " : "", text);
	if (text[0])
		return;
	names_hint(w->caller, text, sizeof(text));
	snprintf(hint, len, "%s%s", text[0] ? "--caller: " : "", text);
}

int find_watch_check(const struct find_watch *w, struct aux_diag *diag)
{
	return w->measured || !w->last ?
		       0 : refuse_amount(w->config.by == FIND_BY_CYCLES, diag);
}

struct calls *find_watch_calls(struct find_watch *w)
{
	return w->calls;
}
