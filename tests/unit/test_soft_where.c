/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * soft_stream: where threads run according to its records. Processes fork, exec, map code and
 * exit, on many CPUs or on few. In order of time, the COMM of an exec and an
 * ITRACE_START carry the CPU where SWITCH records put the thread at that moment, as a
 * kernel's do, and no CPU runs two threads.
 */
#include <stdlib.h>
#include <unistd.h>

#include "common/x86_insn.h"

#include "tests/unit/recordfile.h"
#include "capture/soft/soft.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

#define N_THREADS 24
#define N_CPUS 4
#define START_NS 1000000000
#define MAX_RECORDS 200000
#define TRAILER 32		/* pid, tid, time, cpu, reserved, id */

static uint64_t rng = 88172645463325252;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)(next_random(&rng) >> 32) % n;
}

/* ---- what happens ---- */

struct run {
	struct soft *s;
	struct soft_thread *t[N_THREADS];
	uint32_t pid[N_THREADS], tid[N_THREADS], next_tid;
	bool user[N_THREADS];
};

static const struct soft_block loop = {
	.start = 0x401000, .end = 0x401010, .target = 0x401000, .n_insns = 4,
	.cls = X86_COND, .last_size = 2,
};

static void run_user(struct run *r, uint32_t k)
{
	uint32_t ids[64] = { 0 };

	if (!r->user[k])
		soft_enter(r->t[k], loop.start, rnd(3) ? rnd(50000) : 0);
	r->user[k] = true;
	soft_run(r->t[k], &loop, ids, 1 + rnd(64));
}

static void leave_user(struct run *r, uint32_t k)
{
	if (r->user[k])
		soft_leave(r->t[k], SOFT_LEAVE_ASYNC, loop.end);
	r->user[k] = false;
}

static void add_thread(struct run *r, uint32_t k, uint32_t parent)
{
	uint32_t tid = r->next_tid++;

	if (r->t[k] || !r->t[parent])
		return;
	leave_user(r, parent);
	r->tid[k] = tid;
	r->pid[k] = rnd(2) ? r->pid[parent] : tid;
	r->t[k] = soft_thread_add(r->s, r->pid[k], tid, r->t[parent]);
}

static void end_thread(struct run *r, uint32_t k)
{
	leave_user(r, k);
	soft_thread_exit(r->t[k]);
	r->t[k] = NULL;
}

static void step(struct run *r)
{
	static const struct synth_map map = { .addr = 0x401000, .len = 0x1000,
					      .path = "//anon" };
	uint32_t k = rnd(N_THREADS), what = rnd(40);

	if (!r->t[k]) {
		if (what < 8)
			add_thread(r, k, rnd(N_THREADS));
	} else if (what < 20) {
		run_user(r, k);
	} else if (what < 30) {
		leave_user(r, k);
	} else if (what < 33) {
		leave_user(r, k);
		soft_comm(r->t[k], "new", true);
		soft_mmap(r->t[k], &map);
	} else if (what < 35) {
		soft_comm(r->t[k], "name", false);
	} else if (what < 37) {
		soft_mmap(r->t[k], &map);
	} else if (what < 38) {
		soft_code(r->t[k], 0x401000, "x", 1, AUX_CODE_ANON);
	} else if (what < 39 && k) {
		end_thread(r, k);
	}
}

static bool record(const char *path, const struct soft_config *c)
{
	struct perf_event_attr attr = {
		.type = 8, .size = sizeof(attr), .sample_id_all = 1,
		.sample_type = SYNTH_SAMPLE_TYPE, .exclude_kernel = 1,
	};
	struct run r = { .pid = { 100 }, .tid = { 100 }, .next_tid = 101 };
	struct writer *w = NULL;
	uint64_t id = 7;

	if (writer_open(&w, path, NULL, NULL))
		return false;
	writer_attr_add(w, &attr, "soft//", &id, 1);
	if (soft_open(&r.s, c, w, NULL))
		return false;
	r.t[0] = soft_thread_add(r.s, 100, 100, NULL);
	for (int i = 0; i < 8000; i++)
		step(&r);
	for (uint32_t k = 0; k < N_THREADS; k++)
		if (r.t[k] && rnd(2))
			end_thread(&r, k);
		else if (r.t[k])
			leave_user(&r, k);
	return !soft_close(r.s, NULL, NULL) && !writer_close(w, NULL);
}

/* ---- what the records say ---- */

struct told {
	uint64_t time;
	uint32_t order, type, tid, cpu;
	bool out;
};

static struct told told[MAX_RECORDS];
static uint32_t n_told;

static void take(void *ctx, const struct perf_event_header *h, const uint8_t *p)
{
	struct told *x = &told[n_told];
	const uint8_t *end = p + h->size - TRAILER;

	(void)ctx;
	if (h->size < sizeof(*h) + TRAILER || n_told == MAX_RECORDS)
		return;
	if (h->type != PERF_RECORD_ITRACE_START &&
	    h->type != PERF_RECORD_SWITCH &&
	    !(h->type == PERF_RECORD_COMM &&
	      h->misc & PERF_RECORD_MISC_COMM_EXEC))
		return;
	memcpy(&x->tid, end + 4, 4);
	memcpy(&x->time, end + 8, 8);
	memcpy(&x->cpu, end + 16, 4);
	x->type = h->type;
	x->order = n_told++;
	x->out = h->misc & PERF_RECORD_MISC_SWITCH_OUT;
}

static int by_time(const void *a, const void *b)
{
	const struct told *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* How many records are not from where their thread is. */
static uint32_t count_strays(bool show)
{
	uint32_t on[N_CPUS] = { 0 }, n_bad = 0;

	qsort(told, n_told, sizeof(*told), by_time);
	for (uint32_t i = 0; i < n_told; i++) {
		const struct told *x = &told[i];
		bool in = x->type == PERF_RECORD_SWITCH && !x->out;

		if (x->cpu >= N_CPUS || on[x->cpu] != (in ? 0 : x->tid)) {
			if (show && !n_bad)
				printf("# type %u of tid %u at %ju, cpu %u\n",
				       x->type, x->tid, (uintmax_t)x->time,
				       x->cpu);
			n_bad++;
		}
		if (x->type == PERF_RECORD_SWITCH && x->cpu < N_CPUS)
			on[x->cpu] = in ? x->tid : 0;
	}
	return n_bad;
}

static void check(const char *name, const struct soft_config *c)
{
	char path[] = "/tmp/auxkit-where-XXXXXX";
	struct recordfile f = { NULL, 0 };
	int fd = mkstemp(path);
	uint32_t n_bad;
	bool good;

	if (fd >= 0)
		close(fd);
	n_told = 0;
	good = record(path, c) && recordfile_read(&f, path, take, NULL);
	n_bad = count_strays(true);
	ok(good && n_told > 1000 && !n_bad,
	   "%s, %u CPUs: %u records, %u from elsewhere", name, c->n_cpus,
	   n_told, n_bad);
	recordfile_free(&f);
	unlink(path);
}

int main(void)
{
	struct soft_config c = {
		.tsc = true, .branch = true, .event_id = 7, .sideband_id = 8,
		.pmu_type = 8, .start_ns = START_NS,
	};

	for (c.n_cpus = 1; c.n_cpus <= N_CPUS; c.n_cpus++)
		check("Intel PT", &c);
	c.trace = SOFT_TRACE_ETM;
	c.etm.timestamp = c.etm.contextid = true;
	c.etm.sync_period = 12;
	for (c.n_cpus = 1; c.n_cpus <= N_CPUS; c.n_cpus++)
		check("CoreSight", &c);
	return plan_done();
}
