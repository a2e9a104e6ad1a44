/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * callcmp: are the calls that auxdecode rebuilds those that the program made?
 *
 *	callcmp [--enters] [--base N] [--depths N] FILE TRUTH...
 *
 * TRUTH are the files that tests/programs/stack_truth.h wrote in the very run that
 * FILE is a recording of. Compared, thread by thread, is the sequence of functions
 * that began and returned (--enters: that began), each with its depth: how many
 * functions of the program are below it on its stack. Functions of the program are
 * those of objects named stack_*, without the hooks and the compiler's own.
 * Frames that were there already when a trace began (CALL_BASE) have no depth; there
 * have to be N of them (none) in the program's functions. --depths: up to N depths
 * (none) may be wrong, where the flow does not tell them.
 *
 *	callcmp --counts FILE		how often each of them began: "NAME COUNT"
 *	callcmp --list FILE		everything that was compared
 *
 * Exit status: 0 equal, 1 different, 2 usage or unreadable.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRUTH_HEADER_ONLY
#include "tests/programs/stack_truth.h"
#include "decode/callstack/callstack.h"
#include "decode/lib/code/code.h"
#include "decode/lib/session/session.h"

#define N_CONTEXT 6	/* events shown around a difference */
#define MAX_DEPTH 65536

struct step {
	uint64_t fn;
	uint32_t depth;
	bool exit;
};

struct steps {
	struct step *v;
	size_t n, max;
};

/* A frame that is alive, as far as the truth knows. */
struct alive {
	uint64_t fn, cfa, sp;
	int stack;	/* of the signal or fiber stacks; -1: the thread's own */
};

struct thread {
	uint32_t tid;
	struct steps truth, flow;
	/* frames alive on each of its stacks; the signal stacks' are on top of
	 * those of the stack that was interrupted */
	struct line {
		struct alive *v;
		size_t n, max;
		int stack;
	} *lines;
	size_t n_lines, max_lines, line;
};

struct area {
	uint64_t from, to;
	bool fiber;
};

struct compare {
	struct thread *threads;
	size_t n_threads;
	struct area areas[64];
	int n_areas;
	struct calls *calls;
	struct session *session;
	uint64_t n_base, n_depths;
	uint64_t max_depths;
	bool enters;
};

static void die(const char *what)
{
	fprintf(stderr, "callcmp: %s\n", what);
	exit(2);
}

static void *grow(void *v, size_t n, size_t *max, size_t size)
{
	if (n < *max)
		return v;
	*max = *max ? 2 * *max : 64;
	v = reallocarray(v, *max, size);
	if (!v)
		die("out of memory");
	return v;
}

static struct thread *thread_of(struct compare *c, uint32_t tid)
{
	for (size_t i = 0; i < c->n_threads; i++)
		if (c->threads[i].tid == tid)
			return &c->threads[i];
	c->threads = reallocarray(c->threads, c->n_threads + 1,
				  sizeof(*c->threads));
	if (!c->threads)
		die("out of memory");
	c->threads[c->n_threads] = (struct thread){ .tid = tid };
	return &c->threads[c->n_threads++];
}

static void add_step(struct steps *s, uint64_t fn, size_t depth, bool is_exit)
{
	s->v = grow(s->v, s->n, &s->max, sizeof(*s->v));
	s->v[s->n++] = (struct step){ fn, (uint32_t)depth, is_exit };
}

/* ---- the truth ---- */

static int area_of(const struct compare *c, uint64_t sp)
{
	for (int i = c->n_areas - 1; i >= 0; i--)
		if (sp > c->areas[i].from && sp <= c->areas[i].to)
			return i;
	return -1;
}

/* The frames of the stack (a fiber's, or -1) that sp is on. */
static struct line *line_of(struct thread *t, int stack)
{
	for (t->line = 0; t->line < t->n_lines; t->line++)
		if (t->lines[t->line].stack == stack)
			return &t->lines[t->line];
	if (t->n_lines == t->max_lines) {
		t->lines = reallocarray(t->lines, ++t->max_lines,
					sizeof(*t->lines));
		if (!t->lines)
			die("out of memory");
		t->lines[t->n_lines] = (struct line){ .stack = -1 };
	}
	t->lines[t->n_lines].stack = stack;
	t->lines[t->n_lines].n = 0;
	return &t->lines[t->n_lines++];
}

/*
 * Drops the frames that are gone when a frame with this CFA is there: those below
 * it on the same memory, and those of a signal stack when it is not on that.
 */
static void drop_gone(struct line *l, const struct truth_event *e, int area)
{
	while (l->n) {
		const struct alive *top = &l->v[l->n - 1];

		if (top->stack == area ? top->sp >= e->cfa : area >= 0)
			break;
		l->n--;
	}
}

static void take_event(struct compare *c, const struct truth_event *e)
{
	struct thread *t = thread_of(c, e->tid);
	int area = area_of(c, e->sp);
	struct line *l;

	if (area >= 0 && c->areas[area].fiber)
		l = line_of(t, area);
	else if (area >= 0)
		l = t->n_lines ? &t->lines[t->line] : line_of(t, -1);
	else
		l = line_of(t, -1);
	if (e->kind == TRUTH_ENTER) {
		drop_gone(l, e, area);
		l->v = grow(l->v, l->n, &l->max, sizeof(*l->v));
		add_step(&t->truth, e->fn, l->n, false);
		l->v[l->n++] = (struct alive){ e->fn, e->cfa, e->sp, area };
		return;
	}
	while (l->n && (l->v[l->n - 1].stack != area ||
			l->v[l->n - 1].cfa < e->cfa))
		l->n--;
	if (!l->n || l->v[l->n - 1].fn != e->fn)
		die("the truth contradicts itself");
	l->n--;
	if (!c->enters)
		add_step(&t->truth, e->fn, l->n, true);
}

static void forget_stacks(struct compare *c, uint32_t tid)
{
	struct thread *t = thread_of(c, tid);

	t->n_lines = 0;
	t->line = 0;
	c->n_areas = 0;
}

static void read_truth(struct compare *c, const char *path)
{
	struct truth_event e;
	FILE *f = fopen(path, "rb");

	if (!f)
		die("cannot read the truth");
	while (fread(&e, sizeof(e), 1, f) == 1) {
		if (e.kind == TRUTH_START) {
			forget_stacks(c, e.tid);
		} else if (e.kind == TRUTH_ENTER || e.kind == TRUTH_EXIT) {
			take_event(c, &e);
		} else {
			if (c->n_areas == 64)
				die("too many stacks");
			c->areas[c->n_areas++] = (struct area){
				e.fn, e.cfa, e.kind == TRUTH_FIBER_STACK
			};
		}
	}
	fclose(f);
}

/* ---- the flow ---- */

/* Kept in call_func.user */
static char own_mark, other_mark;

static bool is_own(struct call_func *f)
{
	static const char *const not[] = { "frame_dummy", "register_tm_clones",
					   "deregister_tm_clones", "atexit",
					   "pthread_atfork" };
	const char *base = f->dso ? strrchr(f->dso, '/') : NULL;
	bool own;

	if (f->user)
		return f->user == &own_mark;
	own = base && !strncmp(base, "/stack_", 7) && f->raw && !f->is_stub &&
	      !strstr(f->raw, "truth_") &&
	      (f->raw[0] != '_' || !strncmp(f->raw, "_Z", 2));
	for (size_t i = 0; own && i < sizeof(not) / sizeof(not[0]); i++)
		own = strcmp(f->raw, not[i]);
	f->user = own ? &own_mark : &other_mark;
	return own;
}

/* Own frames below the topmost one. */
static size_t depth_of(struct call_thread *t)
{
	size_t n = 0;

	for (uint32_t i = 0; i + 1 < t->depth; i++)
		n += t->frames[i].kind != CALL_BASE && is_own(t->frames[i].func);
	return n;
}

static int on_enter(void *priv, struct call_thread *t)
{
	struct compare *c = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];

	if (!is_own(f->func))
		return 0;
	if (f->kind == CALL_BASE)
		c->n_base++;
	else
		add_step(&thread_of(c, t->tid)->flow, f->to, depth_of(t),
			 false);
	return 0;
}

static int on_leave(void *priv, struct call_thread *t, enum call_end end,
		    unsigned flags)
{
	struct compare *c = priv;
	const struct call_frame *f = &t->frames[t->depth - 1];

	(void)flags;
	if (!c->enters && end == CALL_END_RET && f->kind != CALL_BASE &&
	    is_own(f->func))
		add_step(&thread_of(c, t->tid)->flow, f->to, depth_of(t), true);
	return 0;
}

static int take_flow(void *sink, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct compare *c = sink;

	return calls_flow(c->calls, ctx, ev, n);
}

static int end_flow(void *sink, struct aux_diag *diag)
{
	struct compare *c = sink;

	(void)diag;
	return calls_finish(c->calls);
}

static void read_flow(struct compare *c, const char *path)
{
	static const struct calls_ops ops = { .enter = on_enter,
					      .leave = on_leave };
	static const struct sink_ops sink = {
		.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS,
		.flow = take_flow,
		.finish = end_flow,
	};
	struct session_config config = { .path = path, .tid = -1, .cpu = -1,
					 .time_to = UINT64_MAX };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct sink_host host;

	if (session_open(&c->session, &config, &diag))
		die(diag.text);
	host = session_host(c->session);
	if (calls_new(&c->calls, &host, 0, &ops, c))
		die("out of memory");
	if (session_run(c->session, &sink, c, NULL, &diag) < 0)
		die(diag.text);
}

/* ---- the result ---- */

static const char *name_of(struct compare *c, uint64_t fn)
{
	for (size_t i = 0; i < calls_n_funcs(c->calls); i++)
		if (calls_func(c->calls, (uint32_t)i)->start == fn)
			return calls_func(c->calls, (uint32_t)i)->name;
	return "?";
}

static void print_steps(struct compare *c, const char *what,
			const struct steps *s, size_t from, size_t to)
{
	for (size_t i = from; i < to && i < s->n; i++)
		printf("  %s %6zu %s %*s%s %" PRIx64 " depth %u\n", what, i,
		       s->v[i].exit ? "}" : "{",
		       s->v[i].depth < 20 ? (int)s->v[i].depth : 20, "",
		       name_of(c, s->v[i].fn), s->v[i].fn, s->v[i].depth);
}

static bool is_same(struct compare *c, const struct step *a,
		    const struct step *b)
{
	if (a->fn != b->fn || a->exit != b->exit)
		return false;
	if (a->depth == b->depth)
		return true;
	return c->n_depths++ < c->max_depths;
}

static bool compare_thread(struct compare *c, const struct thread *t)
{
	size_t n = 0, from;

	while (n < t->truth.n && n < t->flow.n &&
	       is_same(c, &t->truth.v[n], &t->flow.v[n]))
		n++;
	if (n == t->truth.n && n == t->flow.n)
		return true;
	from = n > N_CONTEXT ? n - N_CONTEXT : 0;
	printf("thread %u differs at %zu of %zu (flow: %zu)\n", t->tid, n,
	       t->truth.n, t->flow.n);
	print_steps(c, "both ", &t->truth, from, n);
	print_steps(c, "truth", &t->truth, n, n + N_CONTEXT);
	print_steps(c, "flow ", &t->flow, n, n + N_CONTEXT);
	return false;
}

static int compare_all(struct compare *c, uint64_t n_base)
{
	size_t n = 0;
	bool same = true;

	for (size_t i = 0; i < c->n_threads; i++) {
		n += c->threads[i].truth.n;
		same &= compare_thread(c, &c->threads[i]);
	}
	if (c->n_base != n_base) {
		printf("%" PRIu64 " base frames in functions of the program, "
		       "not %" PRIu64 "\n", c->n_base, n_base);
		same = false;
	}
	if (c->max_depths)
		printf("%" PRIu64 " depths are wrong, ", c->n_depths);
	printf("%zu events, %zu threads\n", n, c->n_threads);
	return n && same ? 0 : 1;
}

static int list_all(struct compare *c, bool counts)
{
	for (size_t i = 0; i < c->n_threads; i++) {
		const struct steps *s = &c->threads[i].flow;

		if (!counts)
			printf("thread %u\n", c->threads[i].tid);
		for (size_t k = 0; counts && k < s->n; k++)
			if (!s->v[k].exit)
				printf("%s\n", name_of(c, s->v[k].fn));
		if (!counts)
			print_steps(c, "flow", s, 0, s->n);
	}
	return 0;
}

static void free_all(struct compare *c)
{
	for (size_t i = 0; i < c->n_threads; i++) {
		struct thread *t = &c->threads[i];

		for (size_t k = 0; k < t->max_lines; k++)
			free(t->lines[k].v);
		free(t->lines);
		free(t->truth.v);
		free(t->flow.v);
	}
	free(c->threads);
	calls_free(c->calls);
	session_close(c->session);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "enters", 0, NULL, 'e' },
					       { "base", 1, NULL, 'b' },
					       { "depths", 1, NULL, 'd' },
					       { "counts", 0, NULL, 'c' },
					       { "list", 0, NULL, 'l' },
					       { NULL, 0, NULL, 0 } };
	struct compare c = { .enters = false };
	uint64_t n_base = 0;
	int id, mode = 0;

	while ((id = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (id == 'e')
			c.enters = true;
		else if (id == 'b')
			n_base = strtoull(optarg, NULL, 10);
		else if (id == 'd')
			c.max_depths = strtoull(optarg, NULL, 10);
		else if (id == 'c' || id == 'l')
			mode = id;
		else
			return 2;
	}
	if (argc - optind < 1 + !mode)
		die("usage: callcmp [--enters] [--base N] [--depths N] FILE TRUTH...\n"
		    "       callcmp --counts|--list FILE");
	for (int i = optind + 1; i < argc; i++)
		read_truth(&c, argv[i]);
	read_flow(&c, argv[optind]);
	id = mode ? list_all(&c, mode == 'c') : compare_all(&c, n_base);
	free_all(&c);
	return id;
}
