/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that the kernel shares with us: data ring and AUX area.
 *
 * A ring reads memory handed to it; where that comes from (ring_map, a test) is
 * not its concern. All barriers of the recorder are in ring.c.
 * Specification: <linux/perf_event.h>, struct perf_event_mmap_page, and
 * kernel/events/ring_buffer.c of Linux 6.1.
 *
 * One thread reads a ring.
 */
#ifndef CAPTURE_EVENT_RING_H
#define CAPTURE_EVENT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <linux/perf_event.h>

#include <aux/error.h>

struct ring {
	struct perf_event_mmap_page *page;
	uint8_t *data;
	uint8_t *aux;		/* NULL: none */
	size_t data_size;	/* a power of two */
	size_t aux_size;	/* any multiple of the page size */
	bool backward;		/* the kernel writes downwards and overwrites */
	bool aux_overwrite;	/* AUX is mapped read-only: no tail */
	uint64_t data_tail;	/* read up to here */
	uint64_t aux_tail;	/* full trace: given back up to here */
	size_t map_len;		/* of page and data; 0: not ours to unmap */
};

struct ring_sizes {
	size_t data_pages;	/* a power of two */
	size_t aux_pages;	/* 0: no AUX area */
	bool backward, aux_overwrite;
	bool aux_populate;	/* all of AUX will be used, and at once */
};

/* Maps fd's rings. On failure errno tells why, *aux_failed at which. Returns 0
 * or -AUX_E_IO; r is empty then. */
int ring_map(struct ring *r, int fd, const struct ring_sizes *sizes,
	     bool *aux_failed);
/* A ring over memory of the caller's: page, then data, then AUX. */
void ring_attach(struct ring *r, struct perf_event_mmap_page *page, void *data,
		 size_t data_size, void *aux, size_t aux_size);
/* NULL and empty rings are allowed. */
void ring_unmap(struct ring *r);

/*
 * Forward data ring: the bytes that wait, in one or two pieces. They are whole
 * records, but a record may lie across the two pieces. Returns the total.
 */
size_t ring_data(struct ring *r, struct iovec iov[2]);
/* How many they are. */
size_t ring_data_waits(const struct ring *r);
/* The first n of them are done with: the kernel may write there. */
void ring_data_done(struct ring *r, size_t n);

/*
 * The record at byte pos of the pieces: copied into buf when it lies across
 * them. NULL when it does not fit into what waits (a damaged ring).
 */
const struct perf_event_header *ring_record(const struct iovec iov[2],
					    size_t pos, void *buf, size_t len);

/*
 * Backward ring, all writers stopped or paused (ring_pause): the records that
 * are there, newest first, in one or two pieces. What the oldest end of it cuts
 * is left out. Returns the total.
 */
size_t ring_backward(struct ring *r, struct iovec iov[2]);

/*
 * Full trace: the AUX bytes that wait, in one or two pieces; *pos is the
 * stream position of the first. Returns the total.
 */
size_t ring_aux(struct ring *r, struct iovec iov[2], uint64_t *pos);
void ring_aux_done(struct ring *r, size_t n);
/* As the kernel has it now, acquired. */
uint64_t ring_aux_head(const struct ring *r);

/* Bytes [end - len, end) of the AUX buffer, mod its size, oldest first. */
void ring_aux_slice(const struct ring *r, uint64_t end, uint64_t len,
		    struct iovec iov[2]);

#endif
