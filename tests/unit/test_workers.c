/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * workers, and a session that has some: the order of work, and the same flow with any number
 * of threads, whatever the decoder and the sink do.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/mkperf.h"
#include "tests/unit/mkpt.h"
#include "tests/unit/odddec.h"
#include "decode/lib/session/impl.h"
#include "tests/unit/nofinish.h"
#include "tests/unit/tap.h"
#include "common/workers.h"

#ifdef HAVE_IPT
extern const struct aux_decoder_ops aux_decoder_libipt;
#define REAL aux_decoder_libipt
#else
extern const struct aux_decoder_ops aux_decoder_pt;
#define REAL aux_decoder_pt
#endif

/* ---- the pool ---- */

struct piece_of_work {
	struct work work;
	int n_left;	/* times it puts itself aside */
	int order;	/* when it was done */
};

static struct workers *pool;
static int n_done;

static enum work_state do_piece(void *priv, struct work *w)
{
	struct piece_of_work *p = (struct piece_of_work *)w;

	(void)priv;
	workers_lock(pool);
	if (!p->n_left)
		p->order = ++n_done;
	workers_unlock(pool);
	return p->n_left-- ? WORK_HELD : WORK_DONE;
}

static void the_pool(void)
{
	struct piece_of_work p[8] = { { .order = 0 } };
	bool sorted = true;

	/* it is not looked at before the lock is free */
	ok(workers_new(&pool, 1, do_piece, NULL) == 0, "one thread");
	workers_lock(pool);
	for (int i = 0; i < 8; i++) {
		p[i].work.key = (uint64_t)(i * 5 % 8);
		workers_add(pool, &p[i].work);
	}
	p[3].n_left = 2;
	for (int i = 0; i < 8; i++) {
		while (p[i].work.state != WORK_DONE) {
			workers_resume(pool, &p[i].work);
			workers_wait(pool, &p[i].work);
		}
		workers_remove(pool, &p[i].work);
	}
	workers_unlock(pool);
	ok(p[0].order == 1, "what is waited for goes first");
	for (int i = 4; i < 8; i++)
		for (int k = 4; k < 8; k++)
			sorted &= p[i].work.key >= p[k].work.key ||
				  p[i].order < p[k].order;
	ok(sorted && n_done == 8, "then the lowest key");
	workers_free(pool);
}

/* ---- a recording: two CPUs, two threads, many synchronization points ---- */

#define N_SYNCS 150

/* 0: nop; jne 0; nop; in two processes */
static const struct mk_codes code = {
	{ 1, 2, 8 },
	{ { 0, 0x1000, 4, 0, 10, AUX_CODE_ANON },
	  { 0, 0x2000, 4, 4, 20, AUX_CODE_ANON } },
	{ 0x90, 0x75, 0xfd, 0x90, 0x90, 0x75, 0xfd, 0x90 },
};

static struct {
	uint8_t b[2][N_SYNCS * 64];
	size_t n[2];
	uint64_t end;
} trace;

static void put(int cpu, const struct pt *p)
{
	memcpy(trace.b[cpu] + trace.n[cpu], p->b, p->n);
	trace.n[cpu] += p->n;
}

/* damaged: some packets are none, some code is not there. */
static void make_trace(struct mk *m, bool damaged)
{
	mk_init(m, 0x400);
	mk_pt_info(m);
	memset(&trace, 0, sizeof(trace));
	for (int cpu = 0; cpu < 2; cpu++) {
		uint64_t t = 100 + (uint64_t)cpu * 7;
		int who = cpu;

		mk_switch(m, (struct mk_id){ 10 + 10 * who, 10 + 10 * who, 50,
					     cpu }, false);
		for (int i = 0; i < N_SYNCS; i++, t += 20) {
			uint64_t ip = (who ? 0x2000 : 0x1000) + (i & 1);
			struct pt p = { .n = 0 };

			/* a PSB+ without a time once in a while */
			pt_psb(&p, i % 11 == 5 ? 0 : t, ip);
			for (int k = 0; k < 1 + i % 5; k++)
				pt_tnt(&p, "TTTTTT");
			if (damaged && i % 13 == 7)
				pt_bytes(&p, "\x02\xff", 2);
			if (i % 3 == 2) {
				who = !who;
				pt_pgd(&p);
				t += 10;
				mk_switch(m, (struct mk_id){
					10 + 10 * who, 10 + 10 * who, t, cpu },
					  false);
				pt_tsc(&p, t + 1);
				ip = who ? 0x2000 : 0x1000;
				pt_pge(&p, damaged && i % 17 == 5 ? 0x7000 :
								    ip);
			}
			pt_tnt(&p, "TTT");
			put(cpu, &p);
		}
		trace.end = t;
	}
	for (int cpu = 0; cpu < 2; cpu++) {
		size_t half = trace.n[cpu] / 2;

		/* several records, so that chunks have to be put together */
		mk_auxtrace(m, (uint32_t)cpu, (uint32_t)cpu, UINT32_MAX, 0,
			    trace.b[cpu], half);
		mk_auxtrace(m, (uint32_t)cpu, (uint32_t)cpu, UINT32_MAX, half,
			    trace.b[cpu] + half, trace.n[cpu] - half);
	}
	mk_feature(m, AUX_FEAT_AUXKIT_CODE, &code, sizeof(code));
	mk_finish(m);
}

/* ---- sinks: every event as bytes, at once or by partial results ---- */

struct told {
	uint64_t v[8];
};

struct tell {
	struct told *told;
	size_t n, max;
	bool with_time;
	uint64_t limit;
};

/* of each event: its stint */
struct partial {
	struct tell tell;
	uint32_t *stints;
	size_t at;
};

static struct told tell_event(const struct tell *t, const struct flow_ctx *c,
			      const struct aux_flow *ev)
{
	return (struct told){ {
		(uint64_t)ev->kind << 32 | ev->what, ev->offset, ev->n,
		ev->range.first, ev->range.last, c->tid, c->stream,
		t->with_time ? c->time_ns : c->pid,
	} };
}

static void add(struct tell *t, struct told told)
{
	if (t->limit && t->n == t->limit)
		return;
	if (t->n == t->max) {
		t->max = 2 * t->max + 64;
		t->told = realloc(t->told, t->max * sizeof(told));
		if (!t->told)
			abort();
	}
	t->told[t->n++] = told;
}

static void tell_flow(struct tell *t, const struct flow_ctx *ctx,
		      const struct aux_flow *ev)
{
	if (ev->kind == AUX_FLOW_TIME && !t->with_time)
		return;
	if (ev->kind != AUX_FLOW_PATH) {
		add(t, tell_event(t, ctx, ev));
		return;
	}
	for (uint32_t i = 0; i < ev->path.path->n_steps; i++) {
		const struct aux_step *s = ev->path.path->steps[i];

		for (uint32_t k = 0; k < s->n_ranges; k++) {
			struct aux_flow r = s->ranges[k];

			r.offset = ev->offset;
			add(t, tell_event(t, ctx, &r));
		}
	}
}


static int flow(void *sink, const struct flow_ctx *ctx,
		const struct aux_flow *ev, size_t n)
{
	struct tell *t = sink;

	for (size_t i = 0; i < n; i++) {
		tell_flow(t, ctx, &ev[i]);
		if (t->limit && t->n == t->limit)
			return 1;
	}
	return 0;
}

static int partial_new(void **partial, const void *sink)
{
	struct partial *p;

	*partial = NULL;
	if (((const struct tell *)sink)->limit)
		return -AUX_E_UNSUPPORTED;
	p = calloc(1, sizeof(*p));
	p->tell.with_time = ((const struct tell *)sink)->with_time;
	*partial = p;
	return 0;
}

static int partial_flow(void *partial, uint32_t stint,
			const struct flow_ctx *ctx, const struct aux_flow *ev,
			size_t n)
{
	struct partial *p = partial;
	size_t from = p->tell.n;

	for (size_t i = 0; i < n; i++)
		tell_flow(&p->tell, ctx, &ev[i]);
	p->stints = realloc(p->stints, (p->tell.n + 1) * sizeof(*p->stints));
	if (!p->stints || (from && p->stints[from - 1] > stint))
		abort();
	for (; from < p->tell.n; from++)
		p->stints[from] = stint;
	return 0;
}

static int partial_join(void *sink, void *partial, uint32_t stint)
{
	struct tell *t = sink;
	struct partial *p = partial;

	for (; p->at < p->tell.n && p->stints[p->at] <= stint; p->at++)
		add(t, p->tell.told[p->at]);
	return 0;
}

static void partial_free(void *partial)
{
	struct partial *p = partial;

	free(p->tell.told);
	free(p->stints);
	free(p);
}

static struct sink_ops ops = { .name = "tell", .finish = no_finish };

static char path[] = "/tmp/auxkit-test-XXXXXX";

struct result {
	int rc;
	struct session_stats st;
	struct tell t;
};

static struct result decode(const struct session_config *config,
			    bool with_time, uint64_t limit)
{
	struct result r = { .t = { .with_time = with_time, .limit = limit } };
	struct session_config c = *config;
	struct aux_diag diag = { 0 };
	struct session *s;

	c.path = path;
	r.rc = session_open(&s, &c, &diag);
	if (r.rc == 0) {
		s->plugin_ops = &odd_ops;
		r.rc = session_run(s, &ops, &r.t, &r.st, &diag);
		session_close(s);
	}
	if (r.rc < 0)
		printf("# %s\n", diag.text);
	return r;
}

static void say_event(const char *who, const struct tell *t, size_t i)
{
	printf("# %s:", who);
	for (int k = 0; i < t->n && k < 8; k++)
		printf(" %#llx", (unsigned long long)t->told[i].v[k]);
	printf("\n");
}

static bool same_result(const struct result *a, const struct result *b)
{
	size_t i = 0;

	while (i < a->t.n && i < b->t.n &&
	       !memcmp(&a->t.told[i], &b->t.told[i], sizeof(struct told)))
		i++;
	if (i < a->t.n || i < b->t.n) {
		printf("# event %zu of %zu and %zu\n", i, a->t.n, b->t.n);
		say_event("one", &a->t, i);
		say_event("more", &b->t, i);
		return false;
	}
	return a->rc == b->rc && a->st.lossy == b->st.lossy &&
	       !memcmp(a->st.n_gaps, b->st.n_gaps, sizeof(a->st.n_gaps));
}

/* For any number of threads, with little memory and much: as with one. */
static bool any_number(struct session_config *c, bool with_time, uint64_t limit)
{
	static const unsigned threads[] = { 2, 3, 8 };
	struct result one, more;
	bool same = true;

	c->n_workers = 1;
	one = decode(c, with_time, limit);
	same = one.t.n > 20;
	for (int i = 0; i < 6; i++) {
		c->n_workers = threads[i % 3];
		c->max_memory = i < 3 ? 0 : 1;
		more = decode(c, with_time, limit);
		if (!same_result(&one, &more)) {
			printf("# %u threads, %llu memory\n", c->n_workers,
			       (unsigned long long)c->max_memory);
			same = false;
		}
		free(more.t.told);
	}
	free(one.t.told);
	return same && !odd_n_stores;
}

static void with_partials(bool on)
{
	ops.flow = flow;
	ops.partial_new = on ? partial_new : NULL;
	ops.partial_flow = partial_flow;
	ops.partial_join = partial_join;
	ops.partial_free = partial_free;
}

static void all_ways(const char *what, unsigned needs)
{
	struct session_config c = { .tid = -1, .cpu = -1,
				    .time_to = UINT64_MAX, .chunk_min = 1 };
	bool time = needs & SINK_NEEDS_TIME;

	ops.needs = needs;
	for (int partials = 0; partials < 2; partials++) {
		const char *how = partials ? "by partial results" : "at once";

		with_partials(partials);
		ok(any_number(&c, time, 0), "%s, %s", what, how);
		c.chunk_min = 500;
		ok(any_number(&c, time, 0), "%s, %s, large chunks", what, how);
		c.chunk_min = 1;
		c.cpu = 1;
		ok(any_number(&c, time, 0), "%s, %s, one CPU", what, how);
		c.cpu = -1;
		c.tid = 20;
		ok(any_number(&c, time, 0), "%s, %s, one thread", what, how);
		c.tid = -1;
		c.time_from = 500;
		c.time_to = 2000;
		ok(any_number(&c, time, 0), "%s, %s, some time", what, how);
		c.time_from = 0;
		c.time_to = UINT64_MAX;
		for (uint64_t n = 30; n < 1000; n *= 3)
			ok(any_number(&c, time, n), "%s, %s, the first %llu",
			   what, how, (unsigned long long)n);
	}
}

static void a_trace(bool damaged)
{
	const char *what = damaged ? "damaged" : "whole";
	int fd = open(path, O_WRONLY | O_TRUNC);
	struct mk m;
	bool fine;

	make_trace(&m, damaged);
	fine = fd >= 0 && write(fd, m.p, m.n) == (ssize_t)m.n;
	close(fd);
	free(m.p);
	ok(fine, "a %s trace", what);
	odd_ways = (struct odd_ways){ .real = &REAL };
	all_ways(what, SINK_NEEDS_TIME);
	all_ways(what, 0);
	odd_ways.paths = true;
	all_ways(damaged ? "damaged, PATHs" : "PATHs", SINK_TAKES_PATHS);
	odd_ways.give_up = 3;
	odd_ways.after = 4;
	all_ways("some given up", SINK_TAKES_PATHS);
	odd_ways.after = 0;
	all_ways("some not begun", SINK_TAKES_PATHS | SINK_NEEDS_TIME);
}

/* ---- by stint: threads that move between CPUs, and back ---- */

/* Two threads on two CPUs, or off both; a CPU where one comes back may have run nothing
 * else, and where nothing ran there is no trace. switches: records say so; else the CPUs
 * have one thread each. */
static void make_moves(struct mk *m, uint32_t seed, bool switches)
{
	int on[2] = { -1, -1 };	/* CPU of a thread */
	uint64_t t = 100;

	mk_init(m, 0x400);
	mk_pt_info(m);
	memset(&trace, 0, sizeof(trace));
	for (int i = 0; i < N_SYNCS; i++) {
		seed = seed * 1664525 + 1013904223;
		for (int who = 0; who < 2; who++) {
			uint32_t roll = seed >> (8 + 8 * who);
			int to = roll & 3 ? (int)(roll >> 2 & 1) : -1, from = on[who];
			uint32_t id = 10 + 10 * (uint32_t)who;
			struct pt p = { .n = 0 };

			if (to == from || (to >= 0 && on[!who] == to))
				continue;
			t += 10;
			if (from >= 0 && switches) {
				mk_switch_wide(m, (struct mk_id){ id, id, t, from }, true, 0, 0);
				mk_switch_wide(m, (struct mk_id){ 0, 0, t, from }, false, id, id);
			}
			if (from >= 0) {
				pt_pgd(&p);
				put(from, &p);
			}
			on[who] = to;
			if (to < 0)
				continue;
			t += 10;
			if (switches)
				mk_switch_wide(m, (struct mk_id){ id, id, t, to }, false, 0, 0);
			else if (!trace.n[to])
				mk_itrace(m, (struct mk_id){ id, id, t, to });
			p.n = 0;
			if (!trace.n[to] || roll & 8)
				pt_psb(&p, t + 1, 0);
			pt_tsc(&p, t + 2);
			pt_mode64(&p);
			pt_pge(&p, who ? 0x2000 : 0x1000);
			pt_tnt(&p, "TTTTT");
			put(to, &p);
		}
	}
	for (int cpu = 0; cpu < 2; cpu++)
		mk_auxtrace(m, (uint32_t)cpu, (uint32_t)cpu, UINT32_MAX, 0, trace.b[cpu],
			    trace.n[cpu]);
	mk_feature(m, AUX_FEAT_AUXKIT_CODE, &code, sizeof(code));
	mk_finish(m);
}

/* Each thread's flow is in the order of time; any: the flow of all is. */
static bool in_order(const struct tell *t, bool any)
{
	uint64_t last[2] = { 0, 0 };
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		const uint64_t *v = t->told[i].v;
		int who = v[5] == 20 && !any;

		if (v[0] >> 32 != AUX_FLOW_RANGE)
			continue;
		if (v[7] < last[who])
			return false;
		last[who] = v[7];
		n++;
	}
	return n > 20;
}

static bool moves_in_order(uint32_t seed, bool switches)
{
	struct session_config c = { .tid = -1, .cpu = -1, .time_to = UINT64_MAX };
	int fd = open(path, O_WRONLY | O_TRUNC);
	bool fine;
	struct mk m;

	make_moves(&m, seed, switches);
	fine = fd >= 0 && write(fd, m.p, m.n) == (ssize_t)m.n;
	close(fd);
	free(m.p);
	for (unsigned i = 0; i < 8; i++) {
		struct result r;

		c.n_workers = 1 + (i & 1);
		c.chunk_min = i & 2 ? 1 : 100000;
		with_partials(i & 4);
		r = decode(&c, true, 0);
		fine &= r.rc == 0 && in_order(&r.t, !switches);
		free(r.t.told);
	}
	return fine;
}

static void threads_that_move(void)
{
	unsigned n[2] = { 0, 0 };

	odd_ways = (struct odd_ways){ .real = &REAL };
	ops.needs = SINK_NEEDS_TIME | SINK_THREAD_ORDER;
	for (uint32_t seed = 1; seed <= 200; seed++)
		for (int switches = 0; switches < 2; switches++)
			n[switches] += moves_in_order(seed, switches);
	ok(n[1] == 200, "threads that move: what each ran is in order, in %u of 200", n[1]);
	ok(n[0] == 200, "without records of switches all is, in %u of 200", n[0]);
}

int main(void)
{
	int fd = mkstemp(path);

	the_pool();
	threads_that_move();
	a_trace(false);
	a_trace(true);
	close(fd);
	unlink(path);
	return plan_done();
}
