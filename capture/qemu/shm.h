/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared-memory protocol between auxcap (the consumer) and its helper
 * object inside each qemu process (the producers): one memfd with a header,
 * process slots and thread slots, each slot owned by one producer at a time.
 *
 * Blocks. The unit of a thread's ring is a translation block of qemu, not an
 * instruction: a block id is one word, and it is defined once in the log.
 * qemu's blocks have one entry, and only their last instruction may branch, so
 * a sequence of ids is a complete record of the flow, as long as every block
 * runs to its end.
 *
 * Escapes. Where a block does not (signal, fault, system call), and where
 * something happens that other threads or processes depend on (clone, fork,
 * exec, new code), the ring holds an escape of SHM_ESC_WORDS words instead of
 * an id. Escapes have bit 31 set and ids do not, so that the consumer finds the
 * next one with a vectorized test.
 *
 * Barriers. A process's log defines the ids, and holds the events that all its
 * threads must agree on: a mapping, new bytes of code. The rings of the threads
 * are not ordered against each other, so each such record has a number, and the
 * thread that caused it writes SHM_ESC_SYNC with that number into its own ring.
 * The consumer reads the log no further than the record until that escape is
 * next in the thread's ring, and drains the other threads of the process first:
 * then what they ran before the change precedes it in the recording, too.
 *
 * Store order. A producer stores an entry, then moves cur past it; the consumer
 * loads cur, then the entries below it:
 *
 *	producer: qp_put32(), plugin.c	consumer: emu_ring_head()
 *	(A) store entry			(C) load cur, acquire
 *	(B) store cur, release		    load entry
 *
 * B pairs with C. The assembly in plugin.c does the same: x86 keeps stores in
 * program order, and loads too (Intel SDM volume 3, "Memory Ordering"), so there
 * both stores are plain; Arm does not, there B is stlr (Arm ARM, B2.3).
 *
 * Where the ring turns over cur, base and lap change together, under seq:
 *
 *	producer: qp_ring_room()	consumer: emu_ring_head()
 *	    store seq, odd		    load seq
 *	(D) release fence		    load lap, cur, base, each acquire
 *	    store lap, cur, base	(F) load seq: as before?
 *	(E) store seq, even, release
 *
 * A consumer that read one of the new values has D before F, and finds seq odd or
 * moved on. Room goes the other way: the consumer stores tail, sequentially
 * consistent, after its loads of what that frees, and the producer loads it so.
 *
 * Who is alive. The consumer holds a write lock (fcntl F_SETLK) on the memfd's
 * first byte as long as it lives; producers test it. It tests theirs by pidfd.
 *
 * The program being traced runs in the producer's address space and can
 * overwrite all of this: the consumer copies what it reads and checks the copy.
 */
#ifndef CAPTURE_QEMU_SHM_H
#define CAPTURE_QEMU_SHM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_MAGIC 0x6d687353u
#define SHM_VERSION 4
#define SHM_N_THREADS 4096u
#define SHM_N_PROCS 2048u
#define SHM_RING_BYTES (512u << 10)	/* each of the three kinds of ring */
#define SHM_SEGMENT (64u << 10)		/* producers take the slow path, and
					 * wake the consumer, this often */
#define SHM_CTL_BYTES 4096u
#define SHM_NAME_MAX 128u
#define SHM_PATH_MAX 4096u
#define SHM_THREAD_BYTES (SHM_CTL_BYTES + 2 * SHM_RING_BYTES)
#define SHM_PROC_BYTES (SHM_CTL_BYTES + SHM_RING_BYTES)

/*
 * Positions count bytes and never wrap. The producer's cur, limit and base are
 * addresses in its own memory, so that its hot path needs no arithmetic; its
 * position is lap + (cur - base), valid while seq is even and unchanged (a
 * sequence lock: cur and lap change together only when the ring wraps, or when
 * a new image takes the ring over).
 *
 * The first cache line belongs to the producer and the second to the consumer.
 * limit alone may also be set to 0 by another thread of the producer's process.
 */
struct shm_ring {
	uint64_t cur;		/* written with each entry, after it */
	uint64_t limit;		/* cur may not pass it; 0: slow path next */
	uint64_t base;
	_Atomic uint64_t lap;	/* position of base */
	_Atomic uint32_t seq;
	/* written by the consumer; waiting by the producer, too */
	_Alignas(64) _Atomic uint64_t tail;
	_Atomic uint32_t freed;	/* futex, bumped when tail moved */
	_Atomic uint32_t waiting;
};

enum shm_slot_state {
	SHM_FREE = 0,
	SHM_RESERVED,	/* claimed by a producer, no thread runs on it yet */
	SHM_LIVE,
	SHM_FAILED,	/* the clone or fork it was reserved for failed */
};

struct shm_thread {
	struct shm_ring ring;
	struct shm_ring truth;
	_Atomic uint32_t state;
	uint32_t pid, tid;	/* in auxcap's pid namespace, not its own */
	uint32_t proc;		/* its process slot */
	char comm[16];		/* at exec: of the next image */
	char next[SHM_NAME_MAX]; /* path of an image that is not traced */
};

struct shm_proc {
	struct shm_ring log;
	_Atomic uint32_t state;
	uint32_t pid;		/* in auxcap's pid namespace */
};

struct shm_header {
	uint32_t magic, version;
	uint32_t truth;		/* per-instruction truth is wanted */
	uint32_t reserved;
	uint32_t machine;	/* e_machine of all programs */
	_Atomic uint32_t wake;	/* futex the consumer sleeps on */
	_Atomic uint32_t sleeping;
	_Atomic uint32_t gone;	/* the consumer has ended: run on, discard */
	_Atomic uint32_t failed; /* error[] says why the program cannot run */
	char error[256];
	char sysroot[SHM_PATH_MAX]; /* qemu's -L; empty: none */
	uint32_t always;	/* static programs get sysroot, too */
	_Atomic uint32_t thread_taken[SHM_N_THREADS];
	_Atomic uint32_t proc_taken[SHM_N_PROCS];
};

#define SHM_HEADER_BYTES (64u << 10)
#define SHM_PROCS_AT ((uint64_t)SHM_HEADER_BYTES)
#define SHM_THREADS_AT (SHM_PROCS_AT + (uint64_t)SHM_N_PROCS * SHM_PROC_BYTES)
#define SHM_BYTES (SHM_THREADS_AT + (uint64_t)SHM_N_THREADS * SHM_THREAD_BYTES)

static inline struct shm_proc *shm_proc(void *shm, uint32_t slot)
{
	return (void *)((char *)shm + SHM_PROCS_AT +
			(uint64_t)slot * SHM_PROC_BYTES);
}

static inline struct shm_thread *shm_thread(void *shm, uint32_t slot)
{
	return (void *)((char *)shm + SHM_THREADS_AT +
			(uint64_t)slot * SHM_THREAD_BYTES);
}

static inline char *shm_ring_data(struct shm_thread *t)
{
	return (char *)t + SHM_CTL_BYTES;
}

static inline char *shm_truth_data(struct shm_thread *t)
{
	return (char *)t + SHM_CTL_BYTES + SHM_RING_BYTES;
}

static inline char *shm_log_data(struct shm_proc *p)
{
	return (char *)p + SHM_CTL_BYTES;
}

/* ---- thread ring: u32 words ---- */

/* ids are below; escapes: kind | SHM_ESC, a (2 words), b (2), SHM_ESC_END */
#define SHM_MAX_BLOCKS (1u << 24)
#define SHM_ESC 0x80000000u
#define SHM_ESC_END 0xffffffffu
#define SHM_ESC_WORDS 6

enum shm_escape {
	SHM_ESC_BACK = 1,	/* user code resumes at a, after b ns */
	SHM_ESC_LEFT,		/* it stopped at a: the last block is complete
				 * unless it ends with an unfinished REP at a */
	SHM_ESC_LEFT_CUT,	/* same, but qemu jumped out of the last block:
				 * it is cut at a if a is inside */
	SHM_ESC_SYSCALL,	/* the last block's end made syscall a */
	SHM_ESC_SYNC,		/* barrier a of the log takes effect here */
	SHM_ESC_THREAD,		/* new thread on slot a */
	SHM_ESC_FORK,		/* new process on slot a, which knows b ids */
	SHM_ESC_COMM,		/* a, b: 16 bytes of name */
	SHM_ESC_EXIT,		/* the thread's last */
	SHM_ESC_EXEC,		/* continues on slot a as a new image */
	SHM_ESC_NATIVE,		/* will exec untraced, reason a (SOFT_WHY_*) */
	SHM_ESC_N,
};

/* ---- truth ring: u64 words: addresses, or ---- */

#define SHM_TRUTH_UNDO UINT64_MAX	/* the address before did not complete */

/* ---- log: records of size bytes, multiples of 8 ---- */

enum shm_log_kind {
	SHM_LOG_BLOCK = 1,	/* the next id; not a barrier */
	SHM_LOG_MAP,
	SHM_LOG_CODE,
};

struct shm_log_head {
	uint32_t size;		/* this head included */
	uint32_t kind;
	uint64_t seq;		/* barriers: 1, 2, ... in the process */
};

struct shm_log_block {		/* then n_insns bytes of sizes */
	struct shm_log_head head;
	uint64_t start, end, target;
	uint32_t n_insns;
	uint8_t cls;		/* enum x86_class or a64_class of the last */
	uint8_t last_size;
	uint8_t rep;		/* the last is a REP string instruction */
	uint8_t reserved;
};

struct shm_log_map {		/* then the path, NUL terminated */
	struct shm_log_head head;
	uint64_t addr, len, pgoff, ino;
	uint32_t maj, min, prot, flags;
};

struct shm_log_code {		/* then len bytes */
	struct shm_log_head head;
	uint64_t addr;
	uint32_t len, kind;	/* enum aux_code_kind */
};

#define SHM_LOG_MAX 8192u	/* largest record */
#define SHM_MAX_INSNS 4096u	/* per block */

#endif
