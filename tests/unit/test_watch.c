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

/* In place of libc's. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	int ret = (int)syscall(SYS_clock_gettime, id, ts);

	if (!ret && id == CLOCK_BOOTTIME) {
		int64_t ns = ts->tv_nsec + slept_ns;

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
