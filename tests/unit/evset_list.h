/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evset_list.h: a list of events for sets of them: software events, which are
 * everywhere. Where perf_event_open is not allowed at all, all is skipped.
 */
#ifndef TESTS_UNIT_EVSET_LIST_H
#define TESTS_UNIT_EVSET_LIST_H

#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/event/evset.h"
#include "tests/unit/fds.h"
#include "tests/unit/tap.h"

static char name_clock[] = "cpu-clock", name_side[] = "dummy:u";

/* A sampling clock and the side-band dummy, as evlist_open makes them. */
static void make_list(struct evlist *l, struct evlist_event ev[2])
{
	memset(ev, 0, 2 * sizeof(*ev));
	ev[0].name = name_clock;
	ev[0].attr = (struct perf_event_attr){
		.size = sizeof(ev[0].attr), .type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK, .sample_period = 1000000,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			PERF_SAMPLE_IDENTIFIER,
		.exclude_kernel = 1, .inherit = 1, .sample_id_all = 1,
	};
	ev[1].name = name_side;
	ev[1].sideband = true;
	ev[1].leader = 1;
	ev[1].attr = (struct perf_event_attr){
		.size = sizeof(ev[1].attr), .type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY, .sample_period = 1,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			PERF_SAMPLE_IDENTIFIER,
		.inherit = 1, .sample_id_all = 1, .mmap = 1, .mmap2 = 1,
		.comm = 1, .comm_exec = 1, .task = 1, .context_switch = 1,
	};
	*l = (struct evlist){ .events = ev, .n = 2, .sideband = 1 };
}

static bool allowed(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY, .exclude_kernel = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* What main() does around the tests. */
static int run_tests(void (*tests)(void))
{
	int before;

	alarm(120);
	if (!allowed()) {
		skip("perf_event_open is not allowed here");
		return plan_done();
	}
	before = count_fds();
	tests();
	is_u64(count_fds(), before, "no file is left open");
	return plan_done();
}

#endif
