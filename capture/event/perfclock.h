/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfclock: what time it is on perf's clock, now.
 *
 * No system call tells: it is the kernel's sched clock, and only a record has it.
 * So an event of our own is made to give one: a page fault, on purpose, in this
 * thread. Nobody else's events see it as a record.
 */
#ifndef CAPTURE_EVENT_PERFCLOCK_H
#define CAPTURE_EVENT_PERFCLOCK_H

#include <stdint.h>
#include <sys/types.h>

#include "capture/event/ring.h"

struct perfclock {
	struct ring ring;
	int fd;
	pid_t tid;	/* the thread that may ask; 0: not open */
	volatile uint8_t *page;
};

/* Zeroed, c is ready. ns, or 0: perf events cannot be had. Another thread than
 * the last to ask costs a new event. */
uint64_t perfclock_now(struct perfclock *c);
void perfclock_close(struct perfclock *c);

#endif
