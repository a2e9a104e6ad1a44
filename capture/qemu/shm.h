/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What auxcap (the consumer) and its helper object inside each qemu process
 * (the producers) share: one memfd with a header, process slots and thread
 * slots, each slot owned by one producer at a time.
 *
 * A thread's ring carries what it ran, in order: block ids, and escapes of
 * SHM_ESC_WORDS words. A process's log carries what its ids mean, and the
 * events (maps, code bytes) that all its threads must agree on: such a record
 * is a barrier, applied when the stream of the thread that caused it reaches
 * the SHM_ESC_SYNC with its number. The program being traced can overwrite all
 * of this: the consumer checks everything it takes.
 */
#ifndef CAPTURE_QEMU_SHM_H
#define CAPTURE_QEMU_SHM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_MAGIC 0x6d687353u
#define SHM_VERSION 3
#define SHM_N_THREADS 4096u
#define SHM_N_PROCS 2048u
#define SHM_RING_BYTES (512u << 10)	/* each of the three kinds of ring */
#define SHM_SEGMENT (64u << 10)		/* producers look up this often */
#define SHM_CTL_BYTES 4096u
#define SHM_NAME_MAX 128u
#define SHM_PATH_MAX 4096u
#define SHM_THREAD_BYTES (SHM_CTL_BYTES + 2 * SHM_RING_BYTES)
#define SHM_PROC_BYTES (SHM_CTL_BYTES + SHM_RING_BYTES)

/*
 * Positions count bytes and never wrap. The producer's cur, limit and base are
 * addresses in its own memory; its position is lap + (cur - base), valid while
 * seq is even and unchanged.
 */
struct shm_ring {
	uint64_t cur;		/* written with each entry, after it */
	uint64_t limit;		/* 0: look up before the next entry */
	uint64_t base;
	_Atomic uint64_t lap;	/* position of base */
	_Atomic uint32_t seq;
	/* the consumer's line */
	_Alignas(64) _Atomic uint64_t tail;
	_Atomic uint32_t freed;	/* futex, bumped when tail moved */
	_Atomic uint32_t waiting;
};

enum shm_slot_state {
	SHM_FREE = 0,
	SHM_RESERVED,	/* taken by a producer, nobody runs on it yet */
	SHM_LIVE,
	SHM_FAILED,	/* what it was reserved for did not happen */
};

struct shm_thread {
	struct shm_ring ring;
	struct shm_ring truth;
	_Atomic uint32_t state;
	uint32_t pid, tid;
	uint32_t proc;		/* its process slot */
	char comm[16];		/* at exec: of the next image */
	char next[SHM_NAME_MAX]; /* its path, when it is not traced */
};

struct shm_proc {
	struct shm_ring log;
	_Atomic uint32_t state;
	uint32_t pid;
};

struct shm_header {
	uint32_t magic, version;
	uint32_t truth;		/* per-instruction truth is wanted */
	uint32_t consumer;	/* its pid */
	uint32_t machine;	/* e_machine of all programs */
	_Atomic uint32_t wake;	/* futex the consumer sleeps on */
	_Atomic uint32_t sleeping;
	_Atomic uint32_t gone;	/* nobody reads any more: run on, discard */
	_Atomic uint32_t failed; /* error[] says why the program cannot run */
	char error[256];
	char sysroot[SHM_PATH_MAX]; /* qemu's -L; empty: none */
	uint32_t always;	/* it is for static programs, too */
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
	SHM_ESC_BACK = 1,	/* user code goes on at a, after b ns */
	SHM_ESC_LEFT,		/* it stopped at a: the last block is complete
				 * unless it ends with an unfinished REP at a */
	SHM_ESC_LEFT_CUT,	/* same, thrown out of the last block: it is cut
				 * at a if a is inside */
	SHM_ESC_SYSCALL,	/* the last block's end made syscall a */
	SHM_ESC_SYNC,		/* log record a takes effect here */
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
