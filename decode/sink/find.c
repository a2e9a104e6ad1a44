/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_find: calls that meet conditions, one line each as they end: when, how long,
 * who, how much, called from where, and how to see what ran inside.
 *
 * Each call that is left out is counted for the first condition that it fails, so
 * an empty result says where everything went. With --time calls count that began in
 * that time; the flow comes whole, so that callers and ends are known.
 */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "common/distance.h"
#include "common/outbuf.h"
#include "decode/sink/columns.h"
#include "decode/sink/find.h"
#include "decode/sink/sink.h"

/*
 * What calls are measured in, as text for people and from them.
 */

int find_by_parse(enum find_by *by, const char *text, struct aux_diag *diag)
{
	/* table */
	static const char *const names[] = { [FIND_BY_TIME] = "time",
					     [FIND_BY_INSNS] = "insns",
					     [FIND_BY_CYCLES] = "cycles" };

	*by = FIND_BY_TIME;
	if (!text)
		return 0;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(text, names[i])) {
			*by = i;
			return 0;
		}
	}
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"--by is time, insns or cycles here, not \"%s\"", text);
}

/* Nanoseconds of a unit; 0: there is none of that name. */
static uint64_t unit_of(const char *s)
{
	return !strcmp(s, "ns") ? 1 :
	       !strcmp(s, "us") ? 1000 :
	       !strcmp(s, "ms") ? 1000000 :
	       !strcmp(s, "") || !strcmp(s, "s") ? 1000000000 : /* as --time */
						   0;
}

/* Digits, a point and digits, a unit; false: it is none, or too large. */
static bool parse_amount(const char *s, bool is_time, uint64_t *v)
{
	const char *end = s + strspn(s, is_time ? "0123456789." : "0123456789");
	uint64_t unit = is_time ? unit_of(end) : !*end, whole = 0, frac = 0;
	bool digits = false;

	for (; *s >= '0' && *s <= '9'; s++, digits = true)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *s - '0', &whole))
			return false;
	if (*s == '.') {
		uint64_t scale = unit;

		for (s++; *s >= '0' && *s <= '9'; s++, digits = true) {
			if (scale % 10 && *s != '0')
				return false; /* finer than it is counted */
			scale /= 10;
			frac += (uint64_t)(*s - '0') * scale;
		}
	}
	return unit && digits && s == end &&
	       !__builtin_mul_overflow(whole, unit, v) &&
	       !__builtin_add_overflow(*v, frac, v);
}

static int find_amount_parse(uint64_t *v, enum find_by by, const char *option,
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

/* In quotes where a shell would take it apart. */
static void put_word(struct outbuf *out, const char *s)
{
	if (*s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz"
			       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			       "0123456789_-+=.,:/@%")]) {
		outbuf_str(out, s);
		return;
	}
	outbuf_put(out, "'", 1);
	for (; *s; s++)
		outbuf_str(out, *s == '\'' ? "'\\''" :
				(unsigned char)*s < ' ' ?
					     "?" :
					     (char[]){ *s, 0 });
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

/*
 * Names of functions: those that fit a pattern, and those that were perhaps meant.
 */

#define N_NEAR	 5
#define SAME_BAD (TEXT_DISTANCE_MAX / 3)

/* -AUX_E_INVAL with diag for a bad one. option is its name, for messages. */
static int find_pattern_init(struct find_pattern *p, const char *option,
			     const char *text, struct aux_diag *diag)
{
	size_t len = text ? strlen(text) : 0;
	char why[128], *inner;
	int rc;

	*p = (struct find_pattern){ .text = text };
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

static void find_pattern_fini(struct find_pattern *p)
{
	if (p->is_regex)
		regfree(&p->regex);
	p->is_regex = false;
}

/* Without "(...)" at its end, and what may stand behind that. */
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

static bool fits_text(const struct find_pattern *p, const char *name)
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

static bool find_pattern_fits(const struct find_pattern *p,
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

/* How far name is from what was asked for; SAME_BAD: too far. */
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
 * The calls that are looked for: see find.h. A gap spoils every frame that is
 * on its thread's stacks then: frames have numbers in the order in which they
 * began, so it is enough to keep the highest one that there was at the last gap.
 */

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

/* FIND_* of a function. */
static unsigned find_watch_marks(struct find_watch *w, struct call_func *f)
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

static int find_watch_on_enter(void *priv, struct call_thread *t)
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

static int find_watch_on_leave(void *priv, struct call_thread *t,
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
	.enter = find_watch_on_enter,
	.leave = find_watch_on_leave,
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
	err = find_pattern_init(&w->pattern[0], "--symbol", config->symbol,
				diag);
	if (!err)
		err = find_pattern_init(&w->pattern[1], "--from", config->from,
					diag);
	if (!err)
		err = find_pattern_init(&w->pattern[2], "--caller",
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

/* table */
#define FIELDS \
	"time,dur,pid,tid,comm,insns,cycles,sym,dso,caller,end,state,see"

enum field {
	F_TIME, F_DUR, F_PID, F_TID, F_COMM, F_INSNS, F_CYCLES, F_SYM, F_DSO,
	F_CALLER, F_END, F_STATE, F_SEE, F_N,
};

/* Why a call is left out. */
enum drop {
	DROP_SYMBOL, DROP_TIME, DROP_LONGER, DROP_SHORTER, DROP_FROM,
	DROP_CALLER, DROP_WHOLE, DROP_N,
};

struct find {
	struct sink_env env;
	struct sink_config config;
	enum find_by by;
	uint64_t longer, shorter;	/* 0, UINT64_MAX: none */
	struct find_watch *watch;
	uint8_t fields[F_N * 2];
	unsigned n_fields;		/* 0: for people */
	uint64_t n_calls, n_found;
	uint64_t n_dropped[DROP_N];
	bool started;
};

/* A call that ends. */
struct found {
	const struct call_thread *t;
	const struct call_frame *f, *up; /* up: its caller, NULL: unknown */
	const struct call_count *took;
	enum call_end end;
	enum find_fault fault;
};

/* ---- conditions ---- */

/* frame.user: FIND_ABOVE when --from fits it or a frame below it */
static int on_enter(void *priv, struct call_thread *t, unsigned marks)
{
	struct call_frame *f = &t->frames[t->depth - 1];
	uintptr_t above = t->depth > 1 ? (uintptr_t)f[-1].user : 0;

	(void)priv;
	f->user = (void *)(above | (marks & FIND_ABOVE));
	return 0;
}

static bool is_from(const struct find *s, const struct found *c)
{
	return !s->config.from ||
	       (c->up && (uintptr_t)c->up->user & FIND_ABOVE);
}

static bool is_by_caller(const struct find *s, const struct found *c)
{
	return !s->config.caller ||
	       (c->up && find_watch_marks(s->watch, c->up->func) & FIND_CALLER);
}

/* DROP_N: it meets all of them. */
static enum drop judge(const struct find *s, const struct found *c,
		       unsigned marks)
{
	uint64_t amount = find_amount(s->by, c->took);

	if (!(marks & FIND_THIS))
		return DROP_SYMBOL;
	if (c->f->at.ns < s->env.time_from ||
	    c->f->at.ns > s->env.time_to)
		return DROP_TIME;
	if (amount < s->longer)
		return DROP_LONGER;
	if (amount >= s->shorter)
		return DROP_SHORTER;
	if (!is_from(s, c))
		return DROP_FROM;
	if (!is_by_caller(s, c))
		return DROP_CALLER;
	if (s->config.whole && c->fault)
		return DROP_WHOLE;
	return DROP_N;
}

/* ---- lines ---- */

static const char *end_text(enum call_end end)
{
	/* table */
	static const char *const texts[] = {
		[CALL_END_RET] = "ret",	      [CALL_END_TAIL] = "tail",
		[CALL_END_UNWOUND] = "unwound", [CALL_END_KERNEL] = "kernel",
		[CALL_END_LOST] = "lost",     [CALL_END_EXEC] = "exec",
		[CALL_END_TRACE] = "trace",
	};

	return texts[end];
}

static const char *state_text(enum find_fault fault)
{
	/* table */
	static const char *const texts[] = {
		[FIND_WHOLE] = "whole",	    [FIND_GAP] = "gap",
		[FIND_GUESSED] = "guessed", [FIND_RUNNING] = "running",
		[FIND_BEFORE] = "before",   [FIND_UNTIMED] = "untimed",
	};

	return texts[fault];
}

static void put_name(struct outbuf *out, const struct call_frame *f)
{
	char name[512];

	if (!f) {
		outbuf_put(out, "-", 1);
		return;
	}
	call_func_name(f->func, name, sizeof(name));
	column_clean(out, name);
}

static void put_see(struct find *s, const struct found *c)
{
	struct outbuf *out = s->env.out;

	if (!c->f->at.ns) {
		outbuf_put(out, "-", 1);
		return;
	}
	outbuf_str(out, "auxdecode calls ");
	find_put_range(out, c->f->at.ns, c->t->now.ns, c->t->tid,
		       s->env.path);
}

static void put_time(struct outbuf *out, uint64_t ns)
{
	char text[40];

	if (ns)
		outbuf_put(out, text, (size_t)(fmt_time(text, ns) - text));
	else
		outbuf_put(out, "-", 1);
}

static void put_number(struct outbuf *out, uint64_t v)
{
	char text[24];

	outbuf_put(out, text, (size_t)(fmt_dec(text, v) - text));
}

static void put_id(struct outbuf *out, uint32_t id)
{
	outbuf_printf(out, "%d", (int)id);
}

static void put_comm(struct find *s, const struct found *c)
{
	const struct sink_host *host = s->env.host;
	const char *comm = host->comm ? host->comm(host->priv, c->t->tid,
						   c->f->at.ns) : NULL;

	column_clean(s->env.out, comm && *comm ? comm : "-");
}

static void put_field(struct find *s, const struct found *c, enum field field)
{
	struct outbuf *out = s->env.out;

	switch (field) {
	case F_TIME:
		put_time(out, c->f->at.ns);
		break;
	case F_DUR:
		put_number(out, c->took->ns);
		break;
	case F_PID:
		put_id(out, c->t->pid);
		break;
	case F_TID:
		put_id(out, c->t->tid);
		break;
	case F_COMM:
		put_comm(s, c);
		break;
	case F_INSNS:
		put_number(out, c->took->insns);
		break;
	case F_CYCLES:
		put_number(out, c->took->cycles);
		break;
	case F_SYM:
		put_name(out, c->f);
		break;
	case F_DSO:
		column_clean(out, c->f->func->dso ? c->f->func->dso : "-");
		break;
	case F_CALLER:
		put_name(out, c->up);
		break;
	case F_END:
		outbuf_str(out, end_text(c->end));
		break;
	case F_STATE:
		outbuf_str(out, state_text(c->fault));
		break;
	default:
		put_see(s, c);
	}
}

static void put_for_people(struct find *s, const struct found *c)
{
	struct outbuf *out = s->env.out;
	char dur[40], n[40], who[32], time[40];

	if (!s->started)
		outbuf_printf(out, "#%19s %11s %15s %11s  %s\n", "time",
			      s->by == FIND_BY_CYCLES ? "cycles" : "duration",
			      "pid/tid", "insns", "function <- caller");
	s->started = true;
	*fmt_time(time, c->f->at.ns) = 0;
	find_amount_text(dur, s->by == FIND_BY_CYCLES ? s->by : FIND_BY_TIME,
			 s->by == FIND_BY_CYCLES ? c->took->cycles :
						   c->took->ns);
	find_number_text(n, c->took->insns);
	snprintf(who, sizeof(who), "%d/%d", (int)c->t->pid, (int)c->t->tid);
	outbuf_printf(out, "%20s %11s %15s %11s  ", c->f->at.ns ? time : "-",
		      dur, who, n);
	put_name(out, c->f);
	outbuf_str(out, " <- ");
	put_name(out, c->up);
	if (c->end != CALL_END_RET && !c->fault)
		outbuf_printf(out, " [%s]", end_text(c->end));
	if (c->fault)
		outbuf_printf(out, " [%s]", find_fault_text(c->fault));
	outbuf_str(out, "  ");
	put_see(s, c);
	outbuf_str(out, "\n");
}

static void put_fields(struct find *s, const struct found *c)
{
	for (unsigned i = 0; i < s->n_fields; i++) {
		if (i)
			outbuf_put(s->env.out, " ", 1);
		put_field(s, c, s->fields[i]);
	}
	outbuf_put(s->env.out, "\n", 1);
}

static int on_leave(void *priv, struct call_thread *t, unsigned marks,
		    enum call_end end, enum find_fault fault,
		    const struct call_count *took)
{
	struct find *s = priv;
	struct found c = { .t = t,
			   .f = &t->frames[t->depth - 1],
			   .took = took,
			   .end = end,
			   .fault = fault };
	enum drop drop;

	if (s->config.limit && s->n_found >= s->config.limit)
		return 1; /* more of them end when the flow stops */
	if (t->depth > 1)
		c.up = c.f - 1;
	s->n_calls++;
	drop = judge(s, &c, marks);
	if (drop != DROP_N) {
		s->n_dropped[drop]++;
		return 0;
	}
	s->n_found++;
	if (s->config.just_count)
		return 0;
	if (s->n_fields)
		put_fields(s, &c);
	else
		put_for_people(s, &c);
	if (outbuf_failed(s->env.out))
		return -AUX_E_IO;
	return s->config.limit && s->n_found >= s->config.limit;
}

/* ---- the end ---- */

static void report_drops(struct find *s)
{
	/* table */
	static const char *const texts[DROP_N] = {
		[DROP_SYMBOL] = "of other functions",
		[DROP_TIME] = "began outside of --time",
		[DROP_LONGER] = "took less than --longer",
		[DROP_SHORTER] = "took --shorter or more",
		[DROP_FROM] = "not below --from",
		[DROP_CALLER] = "not by --caller",
		[DROP_WHOLE] = "not whole (--whole)",
	};
	struct sink_report *r = s->env.report;

	r->drops[r->n_drops].what = "calls seen";
	r->drops[r->n_drops++].n = s->n_calls;
	for (unsigned i = 0; i < DROP_N; i++) {
		if (!s->n_dropped[i])
			continue;
		r->drops[r->n_drops].what = texts[i];
		r->drops[r->n_drops++].n = s->n_dropped[i];
	}
}

/* Was a function met that the option names? Else says what was meant. */
static void hint_name(struct find *s, const char *option, const char *text,
		      unsigned mark)
{
	struct calls *c = find_watch_calls(s->watch);
	struct sink_report *r = s->env.report;
	size_t len = strlen(r->hint);

	if (!text || len)
		return;
	for (size_t i = 0; i < calls_n_funcs(c); i++)
		if (find_watch_marks(s->watch, calls_func(c, (uint32_t)i)) &
		    mark)
			return;
	snprintf(r->hint, sizeof(r->hint), "no function that %s fits was met",
		 option);
	find_nearest(c, text, r->hint, sizeof(r->hint));
}

static int finish_find(void *sink, struct aux_diag *diag)
{
	struct find *s = sink;
	int rc = find_watch_finish(s->watch);

	(void)diag;
	if (rc < 0)
		return rc;
	if (s->config.just_count)
		outbuf_printf(s->env.out, "%llu\n",
			      (unsigned long long)s->n_found);
	s->env.report->n_lines = s->n_found;
	if (s->n_found)
		return 0;
	report_drops(s);
	hint_name(s, "--symbol", s->config.symbol, FIND_THIS);
	hint_name(s, "--from", s->config.from, FIND_ABOVE);
	hint_name(s, "--caller", s->config.caller, FIND_CALLER);
	if (!s->env.report->hint[0] && s->n_calls)
		snprintf(s->env.report->hint,
			 sizeof(s->env.report->hint),
			 "each call is counted at the first condition that it "
			 "fails");
	return 0;
}

static void close_find(void *sink)
{
	struct find *s = sink;

	if (!s)
		return;
	find_watch_free(s->watch);
	free(s);
}

/* The index of a field in FIELDS; F_N: it is none. */
static unsigned find_field(const char *name, size_t len)
{
	const char *p = FIELDS;

	for (unsigned i = 0; i < F_N; i++) {
		size_t n = strcspn(p, ",");

		if (n == len && !memcmp(p, name, n))
			return i;
		p += n + (p[n] == ',');
	}
	return F_N;
}

static int parse_fields(struct find *s, const char *list, struct aux_diag *diag)
{
	while (list) {
		size_t len = strcspn(list, ",");
		unsigned field = find_field(list, len);

		if (field == F_N || s->n_fields == sizeof(s->fields))
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"-F of find takes " FIELDS ", not "
					"\"%s\"", list);
		s->fields[s->n_fields++] = (uint8_t)field;
		list = list[len] ? list + len + 1 : NULL;
	}
	return 0;
}

static const struct find_ops find_ops = { .enter = on_enter,
					  .leave = on_leave };

static int open_parts(struct find *s, struct aux_diag *diag)
{
	const struct sink_config *config = &s->config;
	struct find_watch_config watch = { .env = &s->env,
					   .symbol = config->symbol,
					   .from = config->from,
					   .caller = config->caller,
					   .ops = &find_ops,
					   .priv = s, .all = true };
	int err = find_by_parse(&s->by, config->by, diag);

	s->shorter = UINT64_MAX;
	if (!err && config->longer)
		err = find_amount_parse(&s->longer, s->by, "--longer",
					config->longer, diag);
	if (!err && config->shorter)
		err = find_amount_parse(&s->shorter, s->by, "--shorter",
					config->shorter, diag);
	if (!err)
		err = parse_fields(s, config->fields, diag);
	watch.by = s->by;
	return err ? err : find_watch_new(&s->watch, &watch, diag);
}

static int open_find(void **sink, const struct sink_env *env,
		     const struct sink_config *config,
		     struct aux_diag *diag)
{
	struct find *s = calloc(1, sizeof(*s));
	int err;

	*sink = NULL;
	if (!s)
		return -AUX_E_NOMEM;
	s->env = *env;
	s->config = *config;
	err = open_parts(s, diag);
	if (err)
		close_find(s);
	else
		*sink = s;
	return err;
}

static int flow_find(void *sink, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct find *s = sink;

	return find_watch_flow(s->watch, ctx, ev, n);
}

const struct sink_ops sink_find_calls = {
	.name = "find",
	.help = "calls of a function: longer than, called from, ...",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS,
	.fields = FIELDS,
	.open = open_find,
	.flow = flow_find,
	.finish = finish_find,
	.close = close_find,
};
