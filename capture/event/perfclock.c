/* SPDX-License-Identifier: BSD-2-Clause */
/* perfclock: causes a page fault and reads the time in its sample. */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/perf_event.h>

#include "capture/event/ring.h"

#define TRIES 3		/* the fault may be dropped by throttling */

/* A sample with sample_type TIME alone. */
struct sample {
	struct perf_event_header h;
	uint64_t time;
};

void perfclock_close(struct perfclock *c)
{
	if (!c->tid)
		return;
	ring_unmap(&c->ring);
	close(c->fd);
	if (c->page)
		munmap((void *)(uintptr_t)c->page,
		       (size_t)sysconf(_SC_PAGESIZE));
	memset(c, 0, sizeof(*c));
}

/* Opens the event for the calling thread. User faults only, which need no
 * privilege up to perf_event_paranoid 2. */
static int open_here(struct perfclock *c)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_TIME,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	const struct ring_sizes sizes = { .data_pages = 1 };
	bool aux_failed;
	void *p;

	perfclock_close(c);
	c->fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (c->fd < 0)
		return -1;
	c->tid = (pid_t)syscall(SYS_gettid);
	p = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED)
		c->page = p;
	if (!c->page || ring_map(&c->ring, c->fd, &sizes, &aux_failed)) {
		perfclock_close(c);
		return -1;
	}
	return 0;
}

/* Consumes all records; returns the last sample's time, 0 if there is none. */
static uint64_t consume(struct ring *r)
{
	struct iovec iov[2];
	size_t len = ring_data(r, iov), pos = 0;
	struct sample buf;
	uint64_t time = 0;

	while (pos < len) {
		const struct perf_event_header *h =
			ring_record(iov, pos, &buf, sizeof(buf));

		if (!h || !h->size)
			break;
		if (h->type == PERF_RECORD_SAMPLE && h->size == sizeof(buf))
			memcpy(&time, h + 1, sizeof(time));
		pos += h->size;
	}
	ring_data_done(r, len);
	return time;
}

uint64_t perfclock_now(struct perfclock *c)
{
	uint64_t time = 0;
	int i;

	if (c->tid != (pid_t)syscall(SYS_gettid) && open_here(c))
		return 0;
	for (i = 0; i < TRIES && !time; i++) {
		consume(&c->ring);	/* makes room for ours */
		/* The private page is dropped, so the store faults again. */
		madvise((void *)(uintptr_t)c->page,
			(size_t)sysconf(_SC_PAGESIZE), MADV_DONTNEED);
		*c->page = 1;
		time = consume(&c->ring);
	}
	return time;
}
