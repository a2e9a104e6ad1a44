/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfclock: the current time on perf's clock.
 *
 * Perf's default clock is the kernel's local_clock(), which no system call reads; only
 * records carry it. So this counts page faults of the calling thread with a sample
 * each, causes one, and reads the sample's time. Costs a few microseconds.
 */
#ifndef CAPTURE_EVENT_PERFCLOCK_H
#define CAPTURE_EVENT_PERFCLOCK_H

#include <stdint.h>
#include <sys/types.h>

#include "capture/event/ring.h"

struct perfclock {
	struct ring ring;
	int fd;
	pid_t tid;	/* the thread that the event counts; 0: not open */
	volatile uint8_t *page;	/* touched to fault */
};

/* The time in ns, or 0 if perf events are not available. A zeroed c is ready. The event
 * is reopened when another thread than last time asks; one thread at a time. */
uint64_t perfclock_now(struct perfclock *c);
void perfclock_close(struct perfclock *c);

#endif
