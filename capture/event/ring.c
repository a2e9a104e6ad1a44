/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ring: reading what the kernel writes, in the order in which it wrote it.
 *
 * The pairing, for data_head/data_tail as for aux_head/aux_tail:
 *
 *	kernel                               auxcap
 *	(A) load tail                        (C) load head, acquire
 *	    control dependency                   reads of the bytes
 *	    stores of the bytes                  full barrier
 *	    write barrier                    (D) store tail
 *	(B) store head
 *
 * B pairs with C: when a head is seen, the bytes below it are there. D pairs
 * with A: when a tail is seen, the bytes below it have been read.
 *
 * Invariant: tail <= head, and head - tail <= size; a head that breaks it (a
 * torn or damaged page) yields nothing rather than bytes out of bounds.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/event/ring.h"

static uint64_t load_head(const __u64 *head)
{
	return __atomic_load_n(head, __ATOMIC_ACQUIRE);
}

static void store_tail(__u64 *tail, uint64_t value)
{
	/* The reads above must not be delayed past the store: smp_mb() as in
	 * perf's ring_buffer_write_tail(). ThreadSanitizer knows no fences;
	 * the release below is enough for it. */
#ifndef __SANITIZE_THREAD__
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	__atomic_store_n(tail, value, __ATOMIC_RELEASE);
}

/* Bytes [pos, pos + len) of a circular buffer. An AUX area need not be a power
 * of two in size, so positions are reduced by %, not by a mask. */
static void slice(uint8_t *buf, size_t size, uint64_t pos, size_t len,
		  struct iovec iov[2])
{
	size_t at = (size_t)(pos % size);
	size_t first = len < size - at ? len : size - at;

	iov[0].iov_base = buf + at;
	iov[0].iov_len = first;
	iov[1].iov_base = buf;
	iov[1].iov_len = len - first;
}

/* rb_alloc_aux() reads aux_offset and aux_size from the page, then checks them
 * against this mmap: both must be set first. PROT_WRITE selects full trace. */
static int map_aux(struct ring *r, int fd, const struct ring_sizes *s,
		   size_t page_size)
{
	int prot = PROT_READ | (s->aux_overwrite ? 0 : PROT_WRITE);
	void *p;

	r->page->aux_offset = r->map_len;
	r->page->aux_size = s->aux_pages * page_size;
	/* Populated if asked: page faults of the reader during the first pass
	 * through the area slow it down enough to lose trace. */
	p = mmap(NULL, s->aux_pages * page_size, prot,
		 MAP_SHARED | (s->aux_populate ? MAP_POPULATE : 0), fd,
		 (off_t)r->map_len);
	if (p == MAP_FAILED)
		return -AUX_E_IO;
	r->aux = p;
	r->aux_size = s->aux_pages * page_size;
	return 0;
}

int ring_map(struct ring *r, int fd, const struct ring_sizes *s,
	     bool *aux_failed)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	size_t len = (1 + s->data_pages) * page_size;
	int prot = PROT_READ | (s->backward ? 0 : PROT_WRITE), err;
	void *p;

	memset(r, 0, sizeof(*r));
	*aux_failed = false;
	p = mmap(NULL, len, prot, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		return -AUX_E_IO;
	r->page = p;
	r->data = (uint8_t *)p + page_size;
	r->data_size = s->data_pages * page_size;
	r->backward = s->backward;
	r->aux_overwrite = s->aux_overwrite;
	r->map_len = len;
	if (!s->aux_pages || !map_aux(r, fd, s, page_size))
		return 0;
	err = errno;
	*aux_failed = true;
	ring_unmap(r);
	errno = err;
	return -AUX_E_IO;
}

void ring_unmap(struct ring *r)
{
	if (!r || !r->map_len)
		return;
	/* Unmap AUX first; the kernel frees the buffers with the data
	 * mapping. */
	if (r->aux)
		munmap(r->aux, r->aux_size);
	munmap(r->page, r->map_len);
	memset(r, 0, sizeof(*r));
}

size_t ring_data_waits(const struct ring *r)
{
	uint64_t len = load_head(&r->page->data_head) - r->data_tail;

	return len > r->data_size ? 0 : (size_t)len;
}

size_t ring_data(struct ring *r, struct iovec iov[2])
{
	size_t len = ring_data_waits(r);

	slice(r->data, r->data_size, r->data_tail, len, iov);
	return len;
}

void ring_data_done(struct ring *r, size_t n)
{
	r->data_tail += n;
	store_tail(&r->page->data_tail, r->data_tail);
}

static void copy_out(const struct iovec iov[2], size_t pos, void *to, size_t n)
{
	size_t first = 0;

	if (pos < iov[0].iov_len) {
		first = iov[0].iov_len - pos;
		if (first > n)
			first = n;
		memcpy(to, (uint8_t *)iov[0].iov_base + pos, first);
		pos += first;
	}
	if (n > first)
		memcpy((uint8_t *)to + first, (uint8_t *)iov[1].iov_base +
		       (pos - iov[0].iov_len), n - first);
}

const struct perf_event_header *ring_record(const struct iovec iov[2],
					    size_t pos, void *buf, size_t len)
{
	size_t total = iov[0].iov_len + iov[1].iov_len;
	struct perf_event_header h;

	if (pos > total || total - pos < sizeof(h))
		return NULL;
	copy_out(iov, pos, &h, sizeof(h));
	if (h.size < sizeof(h) || h.size % 8 || h.size > total - pos)
		return NULL;
	if (pos >= iov[0].iov_len)
		return (void *)((uint8_t *)iov[1].iov_base +
				(pos - iov[0].iov_len));
	if (h.size <= iov[0].iov_len - pos)
		return (void *)((uint8_t *)iov[0].iov_base + pos);
	if (h.size > len)
		return NULL;
	copy_out(iov, pos, buf, h.size);
	return buf;
}

/* The kernel writes downwards: head is the start of the newest record and
 * counts down from 0, so ascending addresses from head lead to ever older
 * records. */
size_t ring_backward(struct ring *r, struct iovec iov[2])
{
	uint64_t head = load_head(&r->page->data_head);
	uint64_t written = -head;
	size_t have = written < r->data_size ? (size_t)written : r->data_size;
	uint8_t buf[8];
	size_t pos = 0;

	slice(r->data, r->data_size, head, have, iov);
	for (;;) {
		struct perf_event_header h;

		if (have - pos < sizeof(h))
			break;
		copy_out(iov, pos, buf, sizeof(buf));
		memcpy(&h, buf, sizeof(h));
		if (h.size < sizeof(h) || h.size % 8 || h.size > have - pos)
			break;	/* partly overwritten, or never written */
		pos += h.size;
	}
	slice(r->data, r->data_size, head, pos, iov);
	return pos;
}

uint64_t ring_aux_head(const struct ring *r)
{
	return load_head(&r->page->aux_head);
}

size_t ring_aux(struct ring *r, struct iovec iov[2], uint64_t *pos)
{
	uint64_t len = ring_aux_head(r) - r->aux_tail;

	if (len > r->aux_size)
		len = 0;
	*pos = r->aux_tail;
	slice(r->aux, r->aux_size, r->aux_tail, (size_t)len, iov);
	return (size_t)len;
}

void ring_aux_done(struct ring *r, size_t n)
{
	r->aux_tail += n;
	store_tail(&r->page->aux_tail, r->aux_tail);
}

void ring_aux_slice(const struct ring *r, uint64_t end, uint64_t len,
		    struct iovec iov[2])
{
	uint64_t start = end % r->aux_size + r->aux_size - len;

	slice(r->aux, r->aux_size, start, (size_t)len, iov);
}
