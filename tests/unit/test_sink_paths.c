/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Sinks on PATH events: with any options, text and report equal those of the same flow as
 * RANGEs; and partial results, however the flow is cut, join to the whole.
 */
#include "decode/lib/trace/gap.h"
#include "tests/unit/sinkrun.h"
#include "tests/unit/tap.h"
#include "decode/cmd/cmd.h"

#define N_STEPS	 40
#define N_PATHS	 60
#define N_EVENTS 6000
#define MAX_PATH 6

static const struct space space = { .id = 5, .pid = 7 };

struct flow {
	struct aux_flow ranges[N_STEPS][3];
	struct aux_step steps[N_STEPS];
	struct aux_step *lists[N_PATHS][MAX_PATH];
	struct aux_path paths[N_PATHS];
	struct aux_flow ev[N_EVENTS];
	uint8_t thread[N_EVENTS]; /* changes the context, and ends a batch */
	uint64_t seed;
};

static uint32_t pick(struct flow *f, uint32_t n)
{
	f->seed = f->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(f->seed >> 33) % n;
}

static struct aux_flow pick_range(struct flow *f, bool bad)
{
	/* table */
	const struct aux_flow v[] = {
		range(BASE, BASE + 4, 3, AUX_END_CALL, 5),
		range(BASE + 0x10, BASE + 0x16, 3, AUX_END_RET, 1),
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND_TAKEN, 2),
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND, 2),
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND, 0),
		range(BASE + 4, BASE + 4, 1, AUX_END_CALL, 5),
		range(BASE + 0xd, BASE + 0xe, 2, AUX_END_RET, 1),
		range(BASE + 0x17, BASE + 0x17, 1, AUX_END_SYSCALL, 2),
		range(BASE, BASE + 1, 2, AUX_END_FALL, 3),
		range(BASE, BASE + 5, 3, AUX_END_CALL, 5), /* does not fit */
	};
	struct aux_flow ev = v[pick(f, bad ? 10 : 9)];

	ev.offset = 0;
	return ev;
}

static void make_paths(struct flow *f)
{
	for (unsigned i = 0; i < N_STEPS; i++) {
		struct aux_step *s = &f->steps[i];

		*s = (struct aux_step){ .ranges = f->ranges[i],
					.n_ranges = 1 + pick(f, 3) };
		for (unsigned k = 0; k < s->n_ranges; k++) {
			f->ranges[i][k] = pick_range(f, i < 2);
			s->n_insns += f->ranges[i][k].n;
		}
	}
	for (unsigned i = 0; i < N_PATHS; i++) {
		struct aux_path *p = &f->paths[i];

		*p = (struct aux_path){ .steps = f->lists[i],
					.n_steps = 1 + pick(f, MAX_PATH),
					.kept = i % 4 != 3 };
		for (unsigned k = 0; k < p->n_steps; k++) {
			/* few have a step that may be bad */
			f->lists[i][k] = &f->steps[pick(
				f, i % 8 ? N_STEPS - 2 : N_STEPS)];
			if (i % 8)
				f->lists[i][k] += 2;
			p->n_ranges += f->lists[i][k]->n_ranges;
			p->n_insns += f->lists[i][k]->n_insns;
		}
	}
}

static struct aux_flow pick_other(struct flow *f)
{
	/* table */
	static const struct aux_flow v[] = {
		{ .kind = AUX_FLOW_TIME },
		{ .kind = AUX_FLOW_GAP, .what = AUX_GAP_OVERFLOW },
		{ .kind = AUX_FLOW_GAP, .what = GAP_SNAPSHOT },
		{ .kind = AUX_FLOW_ASYNC, .async = { .from = BASE + 4 } },
		{ .kind = AUX_FLOW_TRACE_OFF },
		{ .kind = AUX_FLOW_TRACE_ON, .flags = AUX_FLOW_HAS_IP,
		  .trace = { .ip = BASE } },
		{ .kind = AUX_FLOW_TX, .what = AUX_TX_BEGIN },
		{ .kind = AUX_FLOW_PAYLOAD, .payload = { .value = 5 } },
	};

	return pick(f, 10) ? pick_range(f, true)
			   : v[pick(f, sizeof(v) / sizeof(v[0]))];
}

/* Always the same, for a seed. */
static struct flow *make_flow(uint64_t seed)
{
	struct flow *f = calloc(1, sizeof(*f));
	uint8_t thread = 0;

	f->seed = seed;
	make_paths(f);
	for (unsigned i = 0; i < N_EVENTS; i++) {
		struct aux_flow *ev = &f->ev[i];

		if (!pick(f, 20))
			thread = (uint8_t)pick(f, 5);
		f->thread[i] = thread;
		*ev = pick_other(f);
		if (pick(f, 4)) {
			struct aux_path *p = &f->paths[pick(f, N_PATHS)];

			*ev = (struct aux_flow){ .kind = AUX_FLOW_PATH,
						 .n = p->n_insns,
						 .path = { p, 0 } };
		}
		ev->offset = 16 * (uint64_t)(i / 2);
	}
	return f;
}

static struct flow_ctx ctx_of(uint8_t thread, bool timed, size_t i)
{
	return (struct flow_ctx){
		.space = &space,
		.stream = thread & 1,
		.pid = 7,
		.tid = 7 + (uint32_t)thread * 1000,
		.cpu = thread & 1,
		.time_ns = timed ? 1000000007 + i / 50 * 999999 : 0,
	};
}

/* PATHs as RANGEs. Returns how many events. */
static size_t expand(const struct aux_flow *ev, struct aux_flow *to)
{
	const struct aux_path *p = ev->path.path;
	size_t n = 0;

	if (ev->kind != AUX_FLOW_PATH) {
		*to = *ev;
		return 1;
	}
	for (unsigned i = 0; i < p->n_steps; i++) {
		for (unsigned k = 0; k < p->steps[i]->n_ranges; k++) {
			to[n] = p->steps[i]->ranges[k];
			to[n++].offset = ev->offset;
		}
	}
	return n;
}

static void start(struct run *r, const char *name)
{
	if (run_open(r, cmd_find(name)->sink))
		ok(0, "opens: %s", r->diag.text);
}

/* A path that is not kept is gone when flow returns. */
static void feed_one(struct run *r, const struct flow_ctx *ctx,
		     struct aux_flow *ev, size_t n)
{
	struct aux_path gone[8];
	size_t n_gone = 0;

	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind != AUX_FLOW_PATH || ev[i].path.path->kept)
			continue;
		gone[n_gone] = *ev[i].path.path;
		memset(gone[n_gone].user, 0xa5, sizeof(gone->user));
		ev[i].path.path = &gone[n_gone++];
	}
	r->last = r->ops->flow(r->sink, ctx, ev, n);
	memset(gone, 0xa5, sizeof(gone));
}

static char *run_flow(struct run *r, const char *name, uint64_t seed,
		      bool paths, bool timed)
{
	struct flow *f = make_flow(seed);
	struct aux_flow batch[8 * MAX_PATH * 3];

	start(r, name);
	for (size_t i = 0; i < N_EVENTS && !r->last;) {
		struct flow_ctx ctx = ctx_of(f->thread[i], timed, i);
		size_t n = 0, k = i;

		do {
			if (paths)
				batch[n++] = f->ev[k++];
			else
				n += expand(&f->ev[k++], batch + n);
		} while (k < N_EVENTS && k % 50 && k - i < 8 &&
			 f->thread[k] == f->thread[i]);
		feed_one(r, &ctx, batch, n);
		i = k;
	}
	free(f);
	return run_close(r);
}

static void show_difference(const char *a, const char *b)
{
	const char *line = a;

	for (; *a && *a == *b; a++, b++)
		if (*a == '\n')
			line = a + 1;
	printf("# at %.100s\n# got %.60s\n# want %.60s\n", line, b, a);
}

static void same_as_ranges(const char *name, struct fake_options config,
			   bool timed)
{
	char *want, *got;
	int same = 1;

	for (uint64_t seed = 1; seed < 4 && same; seed++) {
		struct run a = { .config = config }, b = a;

		want = run_flow(&a, name, seed, false, timed);
		got = run_flow(&b, name, seed, true, timed);
		same = !strcmp(want, got) && a.last == b.last &&
		       !memcmp(&a.report, &b.report, sizeof(a.report)) &&
		       a.report.n_lines > 0;
		if (strcmp(want, got))
			show_difference(want, got);
		free(want);
		free(got);
	}
	ok(same, "%s -F %s%s%s%s%s: paths are as their ranges", name,
	   config.fields ? config.fields : "-",
	   config.symbol ? " --symbol" : "", config.limit ? " -n" : "",
	   config.sha256 ? " --sha256" : "", timed ? ", timed" : "");
}

static void all_options(const char *name, const char *const *fields)
{
	for (; *fields; fields++) {
		const char *list = **fields ? *fields : NULL;

		for (int timed = 0; timed < 2; timed++) {
			struct fake_options c = { .fields = list };

			same_as_ranges(name, c, timed);
			c.symbol = "f";
			same_as_ranges(name, c, timed);
			c.limit = 1000;
			same_as_ranges(name, c, timed);
		}
	}
	for (uint64_t limit = 4990; limit < 5010; limit++) {
		struct fake_options c = { .fields = fields[-1], .limit = limit };

		same_as_ranges(name, c, false);
	}
}

/* A partial result takes some events; with paths, and in a stint or several. */
static void *fill_partial(struct run *r, struct flow *f, size_t from, size_t to,
			  uint32_t *stint)
{
	void *partial;

	if (r->ops->partial_new(&partial, r->sink)) {
		ok(0, "a partial result is made");
		return NULL;
	}
	for (; from < to; from++) {
		struct flow_ctx ctx = ctx_of(f->thread[from], false, from);

		if (r->ops->partial_flow(partial, *stint, &ctx, &f->ev[from],
					 1))
			ok(0, "a partial result takes an event");
		*stint += !pick(f, 100);
	}
	return partial;
}

/* Two partial results are filled at a time, and joined in order, or the sink is. */
static char *run_partials(struct run *r, uint64_t seed)
{
	struct flow *f = make_flow(seed);

	start(r, "count");
	for (size_t i = 0; i < N_EVENTS;) {
		size_t a = i + pick(f, 400), b = a + pick(f, 400);
		uint32_t last_a = 0, last_b = 0;
		void *first, *second;

		if (b > N_EVENTS)
			a = b = N_EVENTS;
		second = fill_partial(r, f, a, b, &last_b);
		first = fill_partial(r, f, i, a, &last_a);
		for (uint32_t k = 0; k <= last_a; k++)
			r->ops->partial_join(r->sink, first, k);
		for (uint32_t k = 0; k <= last_b; k++)
			r->ops->partial_join(r->sink, second, k);
		r->ops->partial_free(first);
		r->ops->partial_free(second);
		for (i = b; i < N_EVENTS && i < b + 50; i++) {
			struct flow_ctx ctx = ctx_of(f->thread[i], false, i);

			r->ops->flow(r->sink, &ctx, &f->ev[i], 1);
		}
	}
	free(f);
	return run_close(r);
}

static void partials(void)
{
	int same = 1;
	char *want, *got;
	void *partial;

	for (uint64_t seed = 1; seed < 20 && same; seed++) {
		struct run a = { .last = 0 }, b = a;

		want = run_flow(&a, "count", seed, false, false);
		got = run_partials(&b, seed);
		same = !strcmp(want, got) &&
		       !memcmp(&a.report, &b.report, sizeof(a.report));
		if (!same)
			show_difference(want, got);
		free(want);
		free(got);
	}
	ok(same, "partial results make the whole, however it is cut");
	for (int i = 0; i < 3; i++) {
		struct run r = { .config = { .limit = i == 0,
					     .sha256 = i == 1,
					     .symbol = i == 2 ? "f" : NULL } };

		start(&r, "count");
		ok(r.ops->partial_new(&partial, r.sink) == -AUX_E_UNSUPPORTED,
		   "no partial results where the order matters");
		free(run_close(&r));
	}
	cmd_find("count")->sink->partial_free(NULL);
}

int main(void)
{
	/* table */
	static const char *const insn[] = {
		"", "tid,ip", "time,ip", "ip", "tid", "comm,ip,sym,dso",
		"offset,ip", "cpu,pid,tid,time,comm,offset,ip,sym,dso,bytes,insn",
		"ip,tid,time", "+bytes,dso", "tid,ip", NULL,
	}, *const branch[] = {
		"", "tid,kind,from,to", "time,from,fromsym,to,tosym", "from",
		"offset,kind,from,fromdso,todso,to", "from,tid,to",
		"tid,from,to", NULL,
	};
	struct fake_options c = { .fields = NULL };

	all_options("insn", insn);
	all_options("branch", branch);
	same_as_ranges("count", c, false);
	c.sha256 = true;
	same_as_ranges("count", c, false);
	c.limit = 3001;
	same_as_ranges("count", c, false);
	c.symbol = "f";
	same_as_ranges("count", c, false);
	partials();
	return plan_done();
}
