/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Producing into the rings that auxcap reads.
 *
 * An entry is stored before cur moves past it (x86 keeps the order), so what
 * cur covers is complete even when the process dies at any point. A producer
 * waits when its ring is full, and never when the reader is gone.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/qemu/impl.h"

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wake_consumer(void)
{
	if (!atomic_load(&qp.header->sleeping))
		return;
	atomic_fetch_add(&qp.header->wake, 1);
	futex_wake(&qp.header->wake);
}

/* One that has ended, but that nobody waits for, is not. */
static bool is_alive(pid_t pid)
{
	struct pollfd p = { .events = POLLIN };
	bool alive;

	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0)
		return errno != ESRCH;
	/* a signal that is waiting makes it fail: that says nothing */
	alive = poll(&p, 1, 0) <= 0;
	close(p.fd);
	return alive;
}

static bool consumer_gone(void)
{
	if (atomic_load(&qp.header->gone))
		return true;
	if (!is_alive((pid_t)qp.header->consumer))
		atomic_store(&qp.header->gone, 1);
	return atomic_load(&qp.header->gone);
}

static void wait_freed(struct shm_ring *r, uint64_t head)
{
	struct timespec ts = { .tv_sec = 1 };
	uint32_t seen = atomic_load(&r->freed);

	atomic_store(&r->waiting, 1);
	if (head - atomic_load(&r->tail) >= SHM_RING_BYTES &&
	    !atomic_load(&qp.header->gone)) {
		wake_consumer();
		syscall(SYS_futex, &r->freed, FUTEX_WAIT, seen, &ts, NULL, 0);
	}
	atomic_store(&r->waiting, 0);
}

/* A ring that is full or stopped gets room; may wait for the consumer. */
static void qp_ring_room(struct shm_ring *r)
{
	uint64_t head, used, room;
	int err = errno;

	if (r->cur == r->base + SHM_RING_BYTES) {
		atomic_fetch_add(&r->seq, 1);
		atomic_fetch_add(&r->lap, SHM_RING_BYTES);
		r->cur = r->base;
		atomic_fetch_add(&r->seq, 1);
	}
	head = r->lap + (r->cur - r->base);
	while ((used = head - atomic_load(&r->tail)) >= SHM_RING_BYTES) {
		if (consumer_gone()) {
			used = 0;
			break;
		}
		wait_freed(r, head);
	}
	if (used >= SHM_SEGMENT)
		wake_consumer();
	room = SHM_RING_BYTES - used;
	if (room > SHM_SEGMENT)
		room = SHM_SEGMENT;
	if (room > r->base + SHM_RING_BYTES - r->cur)
		room = r->base + SHM_RING_BYTES - r->cur;
	__atomic_store_n(&r->limit, r->cur + room, __ATOMIC_SEQ_CST);
	errno = err;
}

void qp_put32(struct shm_ring *r, uint32_t word)
{
	if (r->cur >= r->limit)
		qp_ring_room(r);
	__atomic_store_n((uint32_t *)r->cur, word, __ATOMIC_RELAXED);
	__atomic_store_n(&r->cur, r->cur + 4, __ATOMIC_RELEASE);
}

void qp_put64(struct shm_ring *r, uint64_t word)
{
	if (r->cur >= r->limit)
		qp_ring_room(r);
	__atomic_store_n((uint64_t *)r->cur, word, __ATOMIC_RELAXED);
	__atomic_store_n(&r->cur, r->cur + 8, __ATOMIC_RELEASE);
}

/* len is a multiple of 8 */
void qp_put_bytes(struct shm_ring *r, const void *data, size_t len)
{
	const char *p = data;
	uint64_t word;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&word, p, 8);
		qp_put64(r, word);
	}
}

void qp_escape(struct shm_ring *r, enum shm_escape kind, uint64_t a, uint64_t b)
{
	qp_put32(r, SHM_ESC | kind);
	qp_put32(r, (uint32_t)a);
	qp_put32(r, (uint32_t)(a >> 32));
	qp_put32(r, (uint32_t)b);
	qp_put32(r, (uint32_t)(b >> 32));
	qp_put32(r, SHM_ESC_END);
	if (r == qp_ring && qp_self.attention)
		__atomic_store_n(&r->limit, 0, __ATOMIC_SEQ_CST);
}

uint32_t qp_ring_last(const struct shm_ring *r)
{
	uint64_t at = r->cur == r->base ? r->base + SHM_RING_BYTES : r->cur;

	if (r->cur == r->base && !r->lap)
		return SHM_ESC_END;
	return *(const uint32_t *)(at - 4);
}

/* Takes a ring over at the position it is at, in this process's addresses. */
void qp_ring_attach(struct shm_ring *r, char *data)
{
	atomic_fetch_add(&r->seq, 1);
	r->cur = r->cur - r->base + (uintptr_t)data;
	r->base = (uintptr_t)data;
	r->limit = 0;
	atomic_fetch_add(&r->seq, 1);
}

void *qp_reserve(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		qp_die("out of memory inside qemu");
	return p;
}

uint64_t qp_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint32_t take(_Atomic uint32_t *taken, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		uint32_t zero = 0;

		if (!atomic_load_explicit(&taken[i], memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&taken[i], &zero, 1))
			return i;
	}
	return 0;
}

uint32_t qp_thread_take(void)
{
	uint32_t slot = take(qp.header->thread_taken, SHM_N_THREADS);

	if (slot)
		atomic_store(&shm_thread(qp.shm, slot)->state, SHM_RESERVED);
	return slot;
}

uint32_t qp_proc_take(void)
{
	uint32_t slot = take(qp.header->proc_taken, SHM_N_PROCS);

	if (slot)
		atomic_store(&shm_proc(qp.shm, slot)->state, SHM_RESERVED);
	return slot;
}

void qp_log_attach(uint32_t slot)
{
	struct shm_proc *p = shm_proc(qp.shm, slot);

	qp.log = p;
	qp.log_slot = slot;
	qp_ring_attach(&p->log, shm_log_data(p));
	p->pid = (uint32_t)getpid();
	atomic_store(&p->state, SHM_LIVE);
}

/* The calling host thread becomes the producer of a thread slot. */
void qp_thread_start(uint32_t slot, enum qp_state state)
{
	struct shm_thread *t = shm_thread(qp.shm, slot);

	qp_self = (struct qp_thread){
		.shm = t,
		.state = state,
		.stop_ns = qp_now_ns(),
		.attention = true,
		.next = qp.threads,
	};
	qp.threads = &qp_self;
	t->pid = (uint32_t)getpid();
	t->tid = (uint32_t)syscall(SYS_gettid);
	t->proc = qp.log_slot;
	qp_ring_attach(&t->ring, shm_ring_data(t));
	qp_ring_attach(&t->truth, shm_truth_data(t));
	qp_ring = &t->ring;
	qp_truth = &t->truth;
	atomic_store(&t->state, SHM_LIVE);
}

void qp_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (qp.header && !atomic_load(&qp.header->failed)) {
		vsnprintf(qp.header->error, sizeof(qp.header->error), fmt, ap);
		atomic_store(&qp.header->failed, 1);
	} else if (!qp.header) {
		vdprintf(STDERR_FILENO, fmt, ap);
	}
	va_end(ap);
	_exit(127);
}
