/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What find and latency share: which functions are looked for (names,
 * patterns), what their calls are measured in, and which calls can be trusted.
 * See find.h.
 */
#include <fnmatch.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/diag.h"
#include "common/options.h"
#include "common/outbuf.h"
#include "decode/sink/find.h"

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

/* In quotes where a shell would take it apart, and cleaned, so that the command
 * can be pasted. */
static void put_word(struct outbuf *out, const char *s)
{
	const char *quote;

	if (*s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz"
			       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			       "0123456789_-+=.,:/@%")]) {
		outbuf_str(out, s);
		return;
	}
	outbuf_put(out, "'", 1);
	for (; (quote = strchr(s, '\'')); s = quote + 1) {
		outbuf_clean_n(out, s, (size_t)(quote - s));
		outbuf_str(out, "'\\''");
	}
	outbuf_clean(out, s);
	outbuf_put(out, "'", 1);
}

void find_put_range(struct outbuf *out, uint64_t from_ns, uint64_t to_ns,
		    uint32_t tid, const char *path)
{
	char text[64], *p;

	outbuf_str(out, "--time ");
	p = fmt_time(text, from_ns);
	*p++ = ',';
	p = fmt_time(p, to_ns);
	outbuf_put(out, text, (size_t)(p - text));
	if (tid != UINT32_MAX)
		outbuf_printf(out, " --tid %u", tid);
	outbuf_put(out, " ", 1);
	put_word(out, path ? path : "FILE");
}

/* ---- names: those that match a pattern, and those that were perhaps meant ---- */

#define N_NEAR	 5
#define SAME_BAD (TEXT_DISTANCE_MAX / 3)

/*
 * NAME, a glob (foo*), or a regular expression between slashes (/^foo_[0-9]/).
 * A function fits by its name as shown or as the file has it; without a regular
 * expression also by the name without its arguments.
 */
struct pattern {
	const char *text;	/* NULL: everything fits */
	bool is_regex;
	regex_t regex;
};

/* -AUX_E_INVAL with diag for a bad one. option is its name, for messages. */
static int parse_pattern(struct pattern *p, const char *option,
			     const char *text, struct aux_diag *diag)
{
	size_t len = text ? strlen(text) : 0;
	char why[128], *inner;
	int rc;

	*p = (struct pattern){ .text = text };
	if (!text)
		return 0;
	if (!len)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%s wants a name", option);
	if (len < 3 || text[0] != '/' || text[len - 1] != '/')
		return 0;
	inner = strndup(text + 1, len - 2);
	if (!inner)
		return -AUX_E_NOMEM;
	rc = regcomp(&p->regex, inner, REG_EXTENDED | REG_NOSUB);
	free(inner);
	p->is_regex = rc == 0;
	if (rc == 0)
		return 0;
	regerror(rc, &p->regex, why, sizeof(why));
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"%s %s is no regular expression: %s", option, text,
			why);
}

static void free_pattern(struct pattern *p)
{
	if (p->is_regex)
		regfree(&p->regex);
	p->is_regex = false;
}

/* The length without "(...)" at the end, and without what may follow that
 * ("const"). "operator()" is a name. */
static size_t bare_len(const char *name)
{
	size_t len = strlen(name), i;
	int depth = 0;

	for (i = len; i > 0; i--) {
		if (name[i - 1] == ')')
			depth++;
		else if (name[i - 1] == '(' && --depth == 0)
			break;
	}
	/* "operator()" is a name */
	return i > 1 && strncmp(name + i - 1, "()", 3) ? i - 1 : len;
}

/* Exact, glob, or regular expression; without the latter also the name without
 * its arguments. */
static bool fits_text(const struct pattern *p, const char *name)
{
	char bare[512];
	size_t len;

	if (!name)
		return false;
	if (p->is_regex)
		return !regexec(&p->regex, name, 0, NULL, 0);
	if (!strcmp(p->text, name) || !fnmatch(p->text, name, 0))
		return true;
	len = bare_len(name);
	if (!name[len] || len >= sizeof(bare))
		return false;
	memcpy(bare, name, len);
	bare[len] = 0;
	return !strcmp(p->text, bare) || !fnmatch(p->text, bare, 0);
}

/* By its name as shown or as the file has it. */
static bool fits_pattern(const struct pattern *p,
			      const struct call_func *f)
{
	char text[512];

	if (!p->text)
		return true;
	if (!f->name && !f->raw) {
		call_func_name(f, text, sizeof(text));
		return fits_text(p, text);
	}
	return fits_text(p, f->name) || fits_text(p, f->raw);
}

/* How far name is from what was asked for; SAME_BAD: too far. A part of the
 * name is near. */
static unsigned how_far(const char *text, const char *name)
{
	size_t la = strlen(text), lb = bare_len(name);
	unsigned d;

	if (la >= 3 && strcasestr(name, text))
		return 1;
	d = text_distance(text, la, name, lb);
	return d <= 1 + la / 4 ? d : SAME_BAD;
}

struct near {
	const char *name;
	unsigned far;
};

/* Inserts into a sorted array of the N_NEAR nearest; equal names once. */
static void keep_near(struct near *near, const char *name, unsigned far)
{
	unsigned i = N_NEAR;

	for (unsigned k = 0; k < N_NEAR; k++)
		if (near[k].name && !strcmp(near[k].name, name))
			return;
	for (; i > 0 && (!near[i - 1].name || near[i - 1].far > far); i--)
		if (i < N_NEAR)
			near[i] = near[i - 1];
	if (i < N_NEAR)
		near[i] = (struct near){ name, far };
}

static void append(char *hint, size_t len, const char *text)
{
	size_t at = strlen(hint);

	for (; *text && at + 1 < len; text++) /* names are the file's */
		hint[at++] = (unsigned char)*text < ' ' ? '?' : *text;
	hint[at] = 0;
}

void find_nearest(const struct calls *c, const char *text, char *hint,
		  size_t len)
{
	struct near near[N_NEAR] = { 0 };
	char bare[TEXT_DISTANCE_MAX + 1];
	size_t n = 0;

	for (; *text && n < TEXT_DISTANCE_MAX; text++)
		if (!strchr("*?/^$\\[]", *text))
			bare[n++] = *text;
	bare[n] = 0;
	for (size_t i = 0; i < calls_n_funcs(c); i++) {
		const struct call_func *f = calls_func(c, (uint32_t)i);
		unsigned far = f->name ? how_far(bare, f->name) : SAME_BAD;

		if (far < SAME_BAD)
			keep_near(near, f->name, far);
	}
	for (unsigned i = 0; i < N_NEAR && near[i].name; i++) {
		append(hint, len, i ? ", " : "; near to it: ");
		append(hint, len, near[i].name);
	}
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
	struct pattern pattern[3];	/* of FIND_THIS, ABOVE, CALLER */
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

/* The patterns are tried once per function. */
unsigned find_watch_marks(struct find_watch *w, struct call_func *f)
{
	uintptr_t marks = (uintptr_t)f->user;

	if (marks)
		return (unsigned)marks;
	marks = FIND_KNOWN;
	for (unsigned i = 0; i < 3; i++)
		if (fits_pattern(&w->pattern[i], f))
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
	if (w->config.by == FIND_BY_TIME && (!f->at.ns || !t->now.ns))
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
	int err;

	*watch = NULL;
	if (!w)
		return -AUX_E_NOMEM;
	w->config = *config;
	err = parse_pattern(&w->pattern[0], "--symbol", config->symbol,
				diag);
	if (!err)
		err = parse_pattern(&w->pattern[1], "--from", config->from,
					diag);
	if (!err)
		err = parse_pattern(&w->pattern[2], "--caller",
					config->caller, diag);
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
	for (unsigned i = 0; i < 3; i++)
		free_pattern(&w->pattern[i]);
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
