/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring: the memory that the kernel shares with us, data ring and AUX area;
 * perfclock: the time on perf's clock, which comes through a ring.
 *
 * A ring reads memory handed to it; where that comes from (ring_map, a test) is
 * not its concern. All barriers of the recorder are in ring.c.
 * Specification: <linux/perf_event.h>, struct perf_event_mmap_page, and
 * kernel/events/ring_buffer.c of Linux 6.1.
 *
 * A ring has one reader at a time; its caller sees to that (recorder.c locks).
 */
#ifndef CAPTURE_EVENT_RING_H
#define CAPTURE_EVENT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <linux/perf_event.h>

#include <aux/error.h>

struct ring {
	struct perf_event_mmap_page *page;
	uint8_t *data;
	uint8_t *aux;		/* NULL: none */
	size_t data_size;	/* a power of two */
	size_t aux_size;	/* any multiple of the page size */
	bool backward;		/* attr.write_backward: the kernel writes
				 * downwards and overwrites */
	bool aux_overwrite;	/* AUX is mapped read-only: the kernel overwrites
				 * and reads no tail */
	uint64_t data_tail;	/* consumed up to here */
	uint64_t aux_tail;	/* full trace: released up to here */
	size_t map_len;		/* of page and data; 0: not mapped by us */
};

struct ring_sizes {
	size_t data_pages;	/* a power of two */
	size_t aux_pages;	/* 0: no AUX area */
	bool backward, aux_overwrite;
	bool aux_populate;	/* fault in all of AUX when mapping it */
};

/* Maps fd's rings. 0, or -AUX_E_IO with errno as the cause, *aux_failed true if
 * it was the AUX mapping, and r empty. A data ring that is mapped read-only
 * (backward) is overwritten; so is an AUX area. */
int ring_map(struct ring *r, int fd, const struct ring_sizes *sizes,
	     bool *aux_failed);
/* Accepts NULL and empty rings. */
void ring_unmap(struct ring *r);

/*
 * Forward data ring: the bytes not yet consumed, in one or two pieces. They are
 * complete records, but one may straddle the two pieces. Returns the total.
 */
size_t ring_data(struct ring *r, struct iovec iov[2]);
/* The total alone. */
size_t ring_data_waits(const struct ring *r);
/* Consumes the first n of them: the kernel may overwrite these bytes. */
void ring_data_done(struct ring *r, size_t n);

/*
 * The record at byte pos of the pieces, copied into buf if it straddles them.
 * NULL if its size is impossible or exceeds len (a corrupt ring).
 */
const struct perf_event_header *ring_record(const struct iovec iov[2],
					    size_t pos, void *buf, size_t len);

/*
 * Backward ring, its events disabled or paused (PERF_EVENT_IOC_PAUSE_OUTPUT):
 * the complete records, newest first, in one or two pieces. A record at the old
 * end that is partly overwritten is left out. Returns the total.
 */
size_t ring_backward(struct ring *r, struct iovec iov[2]);

/*
 * Full trace: the AUX bytes not yet released, in one or two pieces; *pos is the
 * stream position of the first. Returns the total.
 */
size_t ring_aux(struct ring *r, struct iovec iov[2], uint64_t *pos);
/* Releases the first n of them. */
void ring_aux_done(struct ring *r, size_t n);
/* aux_head, loaded with acquire: the bytes below it may be read. */
uint64_t ring_aux_head(const struct ring *r);

/* Bytes [end - len, end) of the AUX buffer, mod its size, oldest first. */
void ring_aux_slice(const struct ring *r, uint64_t end, uint64_t len,
		    struct iovec iov[2]);

/*
 * perfclock: the current time on perf's clock.
 *
 * Perf's default clock is the kernel's local_clock(), which no system call
 * reads; only records carry it. So this counts page faults of the calling
 * thread with a sample each, causes one, and reads the sample's time. Costs a
 * few microseconds.
 */

struct perfclock {
	struct ring ring;
	int fd;
	pid_t tid;	/* the thread that the event counts; 0: not open */
	volatile uint8_t *page;	/* touched to fault */
};

/* The time in ns, or 0 if perf events are not available. A zeroed c is ready.
 * The event is reopened when another thread than last time asks; one thread at
 * a time. */
uint64_t perfclock_now(struct perfclock *c);
void perfclock_close(struct perfclock *c);

#endif
