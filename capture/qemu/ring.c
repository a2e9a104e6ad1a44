/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Producing into the rings that auxcap reads: the slow path.
 *
 * Invariant: an entry is stored before cur moves past it (see shm.h), so what
 * cur covers is complete even when the process is killed at any point.
 *
 * A full ring makes the guest thread wait: nothing is ever dropped, and the
 * memory in use is bounded. The wait ends when the consumer is gone, because
 * the traced program must not hang when auxcap was killed; it then runs on and
 * overwrites its own ring.
 *
 * A ring's limit is at most SHM_SEGMENT past cur. So each producer comes here
 * at least every 64 KiB and wakes a consumer that sleeps, which costs the hot
 * path nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
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

/* The fence: either it sees what we stored, or we see that it sleeps. */
static void wake_consumer(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&qp.header->sleeping))
		return;
	atomic_fetch_add(&qp.header->wake, 1);
	futex_wake(&qp.header->wake);
}

/*
 * The consumer holds a lock on the memory's first byte, which the kernel
 * removes when it dies. Its pid would be no answer: in another pid namespace it
 * has none, or means another process. Checked once a second at most
 * (wait_freed's timeout), while a ring is full.
 */
static bool consumer_gone(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
			      .l_len = 1 };

	if (atomic_load(&qp.header->gone))
		return true;
	if (!fcntl(qp.fd, F_GETLK, &lock) && lock.l_type == F_UNLCK)
		atomic_store(&qp.header->gone, 1);
	return atomic_load(&qp.header->gone);
}

/*
 * Sleeps until the consumer has moved tail, at most a second. freed is read
 * before the last look at tail: a change between that look and the futex call
 * makes the latter return at once, so no wake-up is lost.
 */
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

/* cur, base and lap are about to change together; see shm.h. */
static void begin_move(struct shm_ring *r)
{
	atomic_fetch_add(&r->seq, 1);
	atomic_thread_fence(memory_order_release);
}

static void end_move(struct shm_ring *r)
{
	atomic_fetch_add_explicit(&r->seq, 1, memory_order_release);
}

/*
 * Moves limit on, wrapping the ring and waiting for the consumer as needed.
 * Called from qemu's generated code in mid-block, so errno is preserved.
 * seq_cst for limit: see qp_block_slow(), where another thread may set it to 0.
 */
static void qp_ring_room(struct shm_ring *r)
{
	uint64_t head, used, room;
	int err = errno;

	if (r->cur == r->base + SHM_RING_BYTES) {
		begin_move(r);
		atomic_fetch_add(&r->lap, SHM_RING_BYTES);
		__atomic_store_n(&r->cur, r->base, __ATOMIC_RELAXED);
		end_move(r);
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

/* len is a multiple of 8. The words may wrap, and become visible one by one:
 * the consumer waits until the record's size is there. */
void qp_put_bytes(struct shm_ring *r, const void *data, size_t len)
{
	const char *p = data;
	uint64_t word;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&word, p, 8);
		qp_put64(r, word);
	}
}

/*
 * The consumer takes an escape only when all of its words are there. While
 * attention is wanted limit must be 0 again, which qp_put32() may have moved.
 */
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

/*
 * Takes a ring over at the position it is at, in this process's addresses:
 * after exec the memfd is mapped elsewhere, and the former producer is gone.
 */
void qp_ring_attach(struct shm_ring *r, char *data)
{
	uint64_t at = r->cur - r->base;

	begin_move(r);
	__atomic_store_n(&r->cur, (uintptr_t)data + at, __ATOMIC_RELAXED);
	__atomic_store_n(&r->base, (uintptr_t)data, __ATOMIC_RELAXED);
	__atomic_store_n(&r->limit, 0, __ATOMIC_RELAXED);
	end_move(r);
}

/* mmap, not malloc: sparse tables of maximal size, of which only touched pages
 * cost. */
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

/* Slot 0 is the launcher's and means "none" in return values. */
static uint32_t claim(_Atomic uint32_t *taken, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		uint32_t zero = 0;

		if (!atomic_load_explicit(&taken[i], memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&taken[i], &zero, 1))
			return i;
	}
	return 0;
}

uint32_t qp_thread_claim(void)
{
	uint32_t slot = claim(qp.header->thread_taken, SHM_N_THREADS);

	if (slot)
		atomic_store(&shm_thread(qp.shm, slot)->state, SHM_RESERVED);
	return slot;
}

uint32_t qp_proc_claim(void)
{
	uint32_t slot = claim(qp.header->proc_taken, SHM_N_PROCS);

	if (slot)
		atomic_store(&shm_proc(qp.shm, slot)->state, SHM_RESERVED);
	return slot;
}

/*
 * The calling thread as auxcap numbers it: a program in a pid namespace of its
 * own has other numbers there. The link is the one of the /proc that auxcap
 * has, so its text is right wherever the thread is, after a chroot too. Without
 * the link, or where that /proc does not show us: our own numbers.
 */
static void host_ids(uint32_t *pid, uint32_t *tid)
{
	char text[64];
	ssize_t n = -1;

	if (qp.who_fd >= 0)
		n = readlinkat(qp.who_fd, "", text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	if (sscanf(text, "%u/task/%u", pid, tid) == 2)
		return;
	*pid = (uint32_t)getpid();
	*tid = (uint32_t)syscall(SYS_gettid);
}

void qp_log_attach(uint32_t slot)
{
	struct shm_proc *p = shm_proc(qp.shm, slot);
	uint32_t tid;

	qp.log = p;
	qp.log_slot = slot;
	qp_ring_attach(&p->log, shm_log_data(p));
	host_ids(&p->pid, &tid);
	atomic_store(&p->state, SHM_LIVE);
}

/*
 * Called with qp.lock held, or while the process has one thread. state LIVE is
 * stored last: the consumer waits for it before it reads the slot.
 */
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
	host_ids(&t->pid, &t->tid);
	t->proc = qp.log_slot;
	qp_ring_attach(&t->ring, shm_ring_data(t));
	qp_ring_attach(&t->truth, shm_truth_data(t));
	qp_ring = &t->ring;
	qp_truth = &t->truth;
	atomic_store(&t->state, SHM_LIVE);
}

/* Before the memory is mapped there is only stderr. _exit: qemu's exit handlers
 * must not run in the middle of whatever this was called from. */
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
