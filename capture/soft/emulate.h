/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulate back end's own: the consumer of what our helper object writes
 * inside qemu-user.
 *
 * emulate.c starts the program, reads the rings (which blocks ran) and the
 * addresses as observed (truth); emulate_proc.c reads the logs (which blocks
 * and mappings there are). Everything in shared memory is untrusted: the traced
 * program can write there.
 *
 * A single thread, the main one, consumes; the helpers produce. soft_* are its
 * sinks.
 */
#ifndef CAPTURE_SOFT_EMULATE_H
#define CAPTURE_SOFT_EMULATE_H

#include "capture/qemu/shm.h"
#include "capture/soft/soft.h"

#define EMU_HELD 1024u		/* more instructions than qemu's blocks have */
#define EMU_CHUNK 16384u	/* ring words looked at in one go */

struct emu_info {		/* beside each soft_block */
	uint32_t sizes_at;	/* of its instructions, in sizes[] */
	bool rep;		/* ends with a REP string instruction */
};

struct emu_proc {
	struct emu_proc *next;
	struct shm_proc *shm;
	uint32_t slot, pid;
	int pidfd;		/* -1: it is gone already */
	unsigned n_threads;
	bool dead;		/* what its rings hold is all there will be */
	uint32_t native_why;	/* about to exec something untraced: */
	char native[SHM_NAME_MAX];

	struct soft_block *table;	/* SHM_MAX_BLOCKS reserved */
	struct emu_info *info;
	uint32_t n_blocks;
	uint8_t *sizes;
	size_t n_sizes, max_sizes;

	/* front parts of blocks that were cut, at the table's far end */
	uint32_t n_cuts;
	uint64_t *cut_keys;	/* of cut k: block id << 32 | n_insns */
	uint32_t *cut_index;	/* k + 1, open addressing */
	uint32_t cut_index_size;

	/* a log record that waits for its SYNC */
	bool barrier;
	uint64_t barrier_seq;
	uint8_t record[SHM_LOG_MAX];
};

enum emu_where {
	EMU_OUTSIDE,	/* in the kernel, or not started */
	EMU_USER,
	EMU_LEFT,	/* stopped at left_ip; not reported yet (esc_back) */
};

struct emu_thread {
	struct emu_thread *next;
	struct shm_thread *shm;
	uint32_t slot, tid;
	struct emu_proc *proc;
	struct soft_thread *st;	/* NULL: the launcher's stream */
	enum emu_where where;
	uint64_t left_ip;	/* where it stopped, or in EMU_USER resumed last */
	bool busy;		/* in emu_thread_drain(): not again, below it */
	bool ended;
	bool have_last;		/* buf[0] ran last; whether to its end is unknown */
	const struct soft_block *prev;	/* reported last; NULL: none since it
					 * entered user code */
	bool prev_rep;
	uint64_t *held;		/* truth that may still be undone */
	size_t n_held;
	uint64_t n_truth, n_flow;	/* instructions seen and reported; with
					 * truth only */
	uint32_t buf[EMU_CHUNK + 1];
};

struct emu {
	struct soft *soft;
	struct aux_diag *diag;
	int err;		/* first failure, -AUX_E_* */
	int fd;
	void *shm;
	struct shm_header *header;
	struct emu_proc *procs;
	struct emu_thread *threads;
	uint32_t child;		/* the first qemu */
	bool started;		/* the program's first image runs */
	bool truth;
	int machine;		/* EM_X86_64 or EM_AARCH64 */
};

enum emu_step {
	EMU_STEP_ON = 0,
	EMU_STEP_WAIT,	/* come back later, the escape stays in the ring */
	EMU_STEP_END,	/* this stream is over (or failed) */
};

/* Keeps the first failure of what a call returned. */
int emu_fail(struct emu *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Reading a ring: where it ends, len bytes at pos, and bytes up to tail are
 * done. */
uint64_t emu_ring_head(struct emu *e, struct shm_ring *r);
void emu_ring_copy(const char *data, uint64_t pos, void *out, size_t len);
void emu_ring_advance(struct emu *e, struct shm_ring *r, uint64_t tail);

/* emulate_proc.c */
struct emu_proc *emu_proc_new(struct emu *e, uint32_t slot);
/* A forked child knows its parent's first n blocks. */
int emu_proc_inherit(struct emu *e, struct emu_proc *p,
		     const struct emu_proc *parent, uint32_t n);
void emu_proc_free(struct emu *e, struct emu_proc *p);
/* Reads definitions up to the next barrier. True: something was new. */
bool emu_proc_read_log(struct emu *e, struct emu_proc *p);
/* Puts the waiting record into effect. */
int emu_proc_apply(struct emu *e, struct emu_proc *p, struct soft_thread *t);
/* Instructions of block id before ip; n_insns when ip is no start in it. */
uint32_t emu_proc_index(const struct emu_proc *p, uint32_t id, uint64_t ip);
/* The block made of the first n instructions of block id. */
int emu_proc_cut(struct emu *e, struct emu_proc *p, uint32_t id, uint32_t n,
		 uint32_t *cut);

/* emulate.c. The thread that runs on a slot; NULL: out of memory. */
struct emu_thread *emu_thread_new(struct emu *e, uint32_t slot);
void emu_thread_free(struct emu *e, struct emu_thread *t);

/* Consumes what its rings hold. True: there was something. */
bool emu_thread_drain(struct emu *e, struct emu_thread *t);
/* The process is gone and the rings are empty. */
void emu_thread_end(struct emu *e, struct emu_thread *t);

#endif
