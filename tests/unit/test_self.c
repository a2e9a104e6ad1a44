/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Self-monitoring: the arithmetic compared with 128-bit sums; a page in memory that a thread
 * writes as the kernel does; and the kernel's own page compared with clock_gettime, where
 * this machine supports it.
 */
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <aux/self.h>

#include "tests/unit/tap.h"

#define N_STATES 1000	/* to be seen, or for 5 s */
#define CAPS (AUX_SELF_CAP_TIME | AUX_SELF_CAP_ZERO)

static uint64_t seed = 88172645463325252;

static uint64_t random_bits(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void test_arithmetic(void)
{
	bool scales = true, divides = true;
	int i;

	for (i = 0; i < 200000; i++) {
		uint64_t a = random_bits() >> random_bits() % 64;
		uint64_t b = random_bits() >> random_bits() % 64;
		uint64_t c = (random_bits() >> random_bits() % 64) | 1;
		uint16_t shift = (uint16_t)(random_bits() % 64);
		unsigned __int128 p = (unsigned __int128)a * b / c;

		scales &= aux_self_scale(a, (uint32_t)b, shift) ==
			  (uint64_t)((unsigned __int128)a * (uint32_t)b >>
				     shift);
		divides &= aux_self_muldiv(a, b, c) ==
			   (p > UINT64_MAX ? UINT64_MAX : (uint64_t)p);
	}
	ok(scales, "cycles * mult >> shift");
	ok(divides, "a * b / c");
	is_u64(aux_self_muldiv(1, 1, 0), UINT64_MAX, "by nothing");
	is_u64(aux_self_widen(0x105, 0xfffffff0, 0xfff), 0x100000105,
	       "a short counter that went round");
	is_u64(aux_self_widen(77, 0, UINT64_MAX), 77, "a wide one");
}

/* 2.445 GHz, as the kernel's terms for it; zero "before" the counter's. */
static const struct aux_self_clock clock_2g = {
	.zero = -1000000000ull, .mask = UINT64_MAX, .mult = 0xd16af1ad,
	.shift = 33,
};

static void test_clock(void)
{
	uint64_t last_ns = 0, last_cycles = 0, cycles = 2445000000ull * 2;
	bool there = true, back = true, near_by = true;
	int i;

	for (i = 0; i < 100000; i++) {
		uint64_t ns = aux_self_to_ns(&clock_2g, cycles);
		uint64_t c = aux_self_to_cycles(&clock_2g, ns);
		uint64_t again = aux_self_to_ns(&clock_2g, c);

		there &= ns >= last_ns;
		back &= c >= last_cycles && c <= cycles;
		near_by &= again <= ns && ns - again <= 1;
		last_ns = ns;
		last_cycles = c;
		cycles += random_bits() >> 18;	/* up to 21 hours */
	}
	ok(there, "cycles to ns never goes back");
	ok(back, "ns to cycles neither, nor ahead");
	ok(near_by, "there and back differ by a nanosecond at most");
	ok(last_ns > 1ull << 60, "over %" PRIu64 " days",
	   last_ns / 1000000000 / 86400);
	cycles = aux_self_to_cycles(&clock_2g, 5000000000ull);
	ok(cycles > 14660000000 && cycles < 14680000000,
	   "6 s after zero at 2.445 GHz: %" PRIu64 " cycles", cycles);
}

static void test_page(void)
{
	struct perf_event_mmap_page pg = { .capabilities = 0 };
	struct aux_self_state s = { .caps = AUX_SELF_CAP_RDPMC, .offset = 100 };
	struct aux_self_count c = { 1000, 400, 100 };
	struct aux_self_clock clk;
	uint64_t v, w;

	ok(pg.cap_user_rdpmc = 1, "a page");
	is_u64(pg.capabilities, AUX_SELF_CAP_RDPMC, "bit of rdpmc");
	pg.capabilities = 0;
	pg.cap_user_time = 1;
	is_u64(pg.capabilities, AUX_SELF_CAP_TIME, "bit of time");
	pg.capabilities = 0;
	pg.cap_user_time_zero = 1;
	is_u64(pg.capabilities, AUX_SELF_CAP_ZERO, "bit of time_zero");
	pg.capabilities = 0;
	pg.cap_user_time_short = 1;
	is_u64(pg.capabilities, AUX_SELF_CAP_SHORT, "bit of short counters");
	pg.capabilities = 0;
	ok(aux_self_times(&pg, &v, &w) == -AUX_E_UNSUPPORTED &&
	   aux_self_clock_read(&pg, &clk) == -AUX_E_UNSUPPORTED &&
	   aux_self_now(&pg, &v) == -AUX_E_UNSUPPORTED &&
	   aux_self_count_read(&pg, -1, &c) == -AUX_E_UNSUPPORTED,
	   "no capabilities: unsupported");
	ok(!aux_self_state_count(&s, &v) && v == 100, "on no counter: offset");
	s.index = 1;
	s.pmc_width = 48;
	s.pmc = 0xffff000000000005;
	ok(!aux_self_state_count(&s, &v) && v == 105, "48 bits count");
	s.pmc = 0xfffffffffff0;
	ok(!aux_self_state_count(&s, &v) && v == 84, "and have a sign");
	s.pmc_width = 0;
	ok(aux_self_state_count(&s, &v) == -AUX_E_UNSUPPORTED, "no width");
	c = (struct aux_self_count){ 1000, 400, 100 };
	is_u64(aux_self_scaled(&c), 4000, "a quarter of the time");
	c = (struct aux_self_count){ 1ull << 60, 3ull << 40, 1ull << 40 };
	is_u64(aux_self_scaled(&c), 3ull << 60, "large numbers");
	c = (struct aux_self_count){ 7, 400, 400 };
	is_u64(aux_self_scaled(&c), 7, "all the time");
	c.running_ns = 0;
	is_u64(aux_self_scaled(&c), 0, "never");
}

static void test_state_times(void)
{
	struct aux_self_state s = {
		.caps = CAPS | AUX_SELF_CAP_SHORT, .enabled_ns = 1000,
		.running_ns = 500, .index = 1, .time_mult = 3, .time_shift = 1,
		.time_offset = -1500ull - 0x1800, .cycles = 0x3e8,
		.time_cycles = 0xffe, .time_mask = 0xfff,
	};
	uint64_t enabled, running;

	/* the counter went on to 0x13e8: 0x1ddc ns */
	ok(!aux_self_state_times(&s, &enabled, &running), "times");
	is_u64(enabled, 1000 + 0x1ddc - 0x1800 - 1500, "enabled");
	is_u64(running, 500 + 0x1ddc - 0x1800 - 1500, "running");
	s.index = 0;
	ok(!aux_self_state_times(&s, &enabled, &running) && running == 500,
	   "on no counter, running stands still");
}

/* ---- a thread that plays the kernel ---- */

static uint64_t now_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static struct perf_event_mmap_page *page;
static bool stop;

/* All fields come from one number, so that a mix of two shows. */
static void *write_page(void *arg)
{
	uint32_t n;

	(void)arg;
	for (n = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
#define STORE(f, v) __atomic_store_n(&page->f, v, __ATOMIC_RELEASE)
		uint32_t lock = page->lock + 1;

		/* an exchange orders what follows behind it */
		__atomic_exchange_n(&page->lock, lock, __ATOMIC_ACQ_REL);
		STORE(time_enabled, n * 3ull);
		STORE(time_running, n * 2ull);
		STORE(offset, n);
		STORE(time_mult, n);
		STORE(time_zero, n * 5ull);
		STORE(time_offset, n * 7ull);
		STORE(lock, lock + 1);
#undef STORE
	}
	return NULL;
}

static void test_seqlock(void)
{
	struct aux_self_state s;
	uint64_t last = 0, n_seen = 0;
	bool whole = true, forward = true;
	pthread_t t;
	uint64_t end = now_ns(CLOCK_MONOTONIC) + 5000000000;

	page = calloc(1, sizeof(*page));
	if (!page || pthread_create(&t, NULL, write_page, NULL))
		return;
	while (n_seen < N_STATES && whole &&
	       now_ns(CLOCK_MONOTONIC) < end) {
		uint64_t n;

		if (aux_self_read(page, &s))
			continue;	/* our "kernel" can be preempted */
		n = (uint64_t)s.offset;
		whole &= s.enabled_ns == n * 3 && s.running_ns == n * 2 &&
			 s.time_mult == (uint32_t)n && s.time_zero == n * 5 &&
			 s.time_offset == n * 7;
		forward &= n >= last;
		n_seen += n != last;
		last = n;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	ok(whole, "each read is one state");
	ok(forward && n_seen > 1, "%" PRIu64 " states seen, in order", n_seen);
	page->lock = 1;
	ok(aux_self_read(page, &s) == -AUX_E_LIMIT,
	   "a page whose writer died does not hang");
	free(page);
}

/* ---- the kernel ---- */

static struct perf_event_mmap_page *open_event(struct perf_event_attr *a,
					       int *fd)
{
	void *p;

	a->size = sizeof(*a);
	a->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			 PERF_FORMAT_TOTAL_TIME_RUNNING;
	a->exclude_kernel = a->exclude_hv = 1;
	*fd = (int)syscall(SYS_perf_event_open, a, 0, -1, -1,
			   PERF_FLAG_FD_CLOEXEC);
	if (*fd < 0)
		return NULL;
	p = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED,
		 *fd, 0);
	if (p != MAP_FAILED)
		return p;
	close(*fd);
	return NULL;
}

static void spin(clockid_t clock, uint64_t ns)
{
	uint64_t end = now_ns(clock) + ns;

	while (now_ns(clock) < end)
		;
}

/* Intervals by the page and by the system's clock agree to 1 in 500 and 50 us:
 * the raw clock and the perf clock are both made of the TSC. */
static void compare_clocks(const struct perf_event_mmap_page *pg)
{
	uint64_t a = 0, b, e1, e2 = 0, r, raw1, raw2, worst = 0;
	struct aux_self_clock c;
	int i;

	for (i = 0; i < 10; i++) {
		uint64_t t0 = now_ns(CLOCK_MONOTONIC_RAW), t1, d;

		if (aux_self_now(pg, &a))
			break;
		spin(CLOCK_MONOTONIC_RAW, 1000000);
		t1 = now_ns(CLOCK_MONOTONIC_RAW);
		if (aux_self_now(pg, &b))
			break;
		d = b - a > t1 - t0 ? b - a - (t1 - t0) : t1 - t0 - (b - a);
		if (!worst || d < worst)
			worst = d + 1;	/* of ten the best: others run too */
	}
	ok(i == 10 && worst < 52000, "1 ms by the page: %" PRIu64 " ns off",
	   worst);
	ok(!aux_self_clock_read(pg, &c) &&
	   aux_self_to_ns(&c, aux_self_to_cycles(&c, a)) <= a &&
	   a - aux_self_to_ns(&c, aux_self_to_cycles(&c, a)) <= 2,
	   "a time goes to cycles and back");
	raw1 = now_ns(CLOCK_MONOTONIC_RAW);
	ok(!aux_self_times(pg, &e1, &r), "time since enabled");
	spin(CLOCK_MONOTONIC_RAW, 5000000);
	ok(!aux_self_times(pg, &e2, &r) && e2 > e1, "and 5 ms later");
	raw2 = now_ns(CLOCK_MONOTONIC_RAW);
	ok(e2 - e1 <= (raw2 - raw1) * 501 / 500, "by no more than has passed");
}

static void test_kernel_time(void)
{
	struct perf_event_attr a = { .type = PERF_TYPE_SOFTWARE,
				     .config = PERF_COUNT_SW_TASK_CLOCK };
	struct aux_self_count c;
	struct perf_event_mmap_page *pg;
	int fd;

	pg = open_event(&a, &fd);
	if (!pg) {
		skip("privileges: perf_event_open is refused");
		return;
	}
	/* of the thread: on a loaded machine it may hardly run in 2 ms of another clock */
	spin(CLOCK_THREAD_CPUTIME_ID, 2000000);
	ok(!aux_self_count_read(pg, fd, &c), "a software event, by read");
	ok(c.value > 100000 && c.enabled_ns > 100000 &&
	   c.running_ns <= c.enabled_ns, "%" PRIu64 " ns of %" PRIu64, c.value,
	   c.enabled_ns);
	ok(aux_self_count_read(pg, -1, &c) == -AUX_E_UNSUPPORTED,
	   "not by the page");
	if (pg->cap_user_time_zero)
		compare_clocks(pg);
	else
		skip("hardware: the TSC is no sched clock here");
	munmap(pg, (size_t)sysconf(_SC_PAGESIZE));
	close(fd);
}

static void test_kernel_count(void)
{
	struct perf_event_attr a = { .type = PERF_TYPE_HARDWARE,
				     .config = PERF_COUNT_HW_INSTRUCTIONS };
	struct aux_self_count c[2], by_read;
	struct perf_event_mmap_page *pg;
	int fd;

#if defined(__aarch64__)
	a.config1 = 3;
#endif
	pg = open_event(&a, &fd);
	if (!pg || !pg->cap_user_rdpmc) {
		skip("hardware: no counter that may be read by instruction");
		return;
	}
	if (aux_self_count_read(pg, -1, &c[0])) {
		skip("hardware: counters without a clock");
		return;
	}
	spin(CLOCK_MONOTONIC_RAW, 1000000);
	ok(!aux_self_count_read(pg, -1, &c[1]) && c[1].value > c[0].value,
	   "instructions: %" PRIu64, c[1].value - c[0].value);
	ok(read(fd, &by_read, sizeof(by_read)) == sizeof(by_read) &&
	   by_read.value >= c[1].value, "read(2) agrees: %" PRIu64,
	   by_read.value);
	munmap(pg, (size_t)sysconf(_SC_PAGESIZE));
	close(fd);
}

int main(void)
{
	test_arithmetic();
	test_clock();
	test_page();
	test_state_times();
	test_seqlock();
	test_kernel_time();
	test_kernel_count();
	return plan_done();
}
