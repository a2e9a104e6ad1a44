/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * watch: what no ring tells. That the machine slept: the test moves the clock that
 * counts sleep, and no other.
 */
#include <sys/syscall.h>
#include <time.h>

#include "tests/unit/fakekernel.h"

static int64_t slept_ns;
/* Of both clocks, before one is read: somebody else has run. */
static int64_t away_ns, delay_ns;
static unsigned n_delays;

/* In place of libc's. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	int ret = (int)syscall(SYS_clock_gettime, id, ts);
	int64_t ns;

	if (!ret && (id == CLOCK_BOOTTIME || id == CLOCK_MONOTONIC)) {
		if (n_delays && n_delays--)
			away_ns += delay_ns;
		ns = ts->tv_nsec + away_ns + (id == CLOCK_BOOTTIME ? slept_ns : 0);
		ts->tv_sec += ns / 1000000000;
		ts->tv_nsec = ns % 1000000000;
	}
	return ret;
}

static uint64_t look_again(struct kernel *k)
{
	ok(!watch_look(k, true), "a look");
	return ledger_times(k->ledger, AUX_LEDGER_SUSPENDED);
}

static void test_sleep(void)
{
	struct kernel_options o = { 0 };
	struct fake *f = fake_new(1);
	struct kernel k = { .o = &o, .events = f->list, .set = f->set,
			    .ledger = &f->ledger };
	struct file file;
	char text[512];

	begin(f);
	k.recorder = f->r;
	watch_open(&k);
	is_u64(look_again(&k), 0, "it did not sleep");
	slept_ns += 5000000;
	is_u64(look_again(&k), 0, "clocks that are read one after the other");
	delay_ns = 50000000;
	for (unsigned i = 1; i < 40; i++) {
		n_delays = i;
		ok(!watch_look(&k, true), "others run %u times meanwhile", i);
	}
	n_delays = 0;
	is_u64(look_again(&k), 0, "others ran, it did not sleep");
	slept_ns += 2000000000;
	trace_with_record(f, 0, 100);
	turn(f);
	is_u64(look_again(&k), 1, "it slept");
	is_u64(look_again(&k), 1, "it did not sleep again");
	slept_ns += 20000000;
	is_u64(look_again(&k), 2, "not for long");
	ok(ledger_lossy(&f->ledger), "trace may be missing");
	ledger_text(&f->ledger, text, sizeof(text));
	is_str(text, "2 times (the machine slept)", "the verdict names it");
	watch_close(&k);
	file = end(f);
	is_u64(look(&file).bytes, 100, "the trace is there");
	fake_free(f);
}

int main(void)
{
	char dir[] = "/tmp/auxkit-watch.XXXXXX";

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/r.data", dir);
	test_sleep();
	unlink(path);
	rmdir(dir);
	return plan_done();
}
