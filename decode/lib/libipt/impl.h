/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the libipt decoder share: its state, and the functions of
 * each file that others call. <intel-pt.h> is included here and nowhere else in
 * decode/.
 *
 * A decoder belongs to one thread at a time, and so does all that is declared
 * here.
 */
#ifndef DECODE_LIB_LIBIPT_IMPL_H
#define DECODE_LIB_LIBIPT_IMPL_H

#include <stdbool.h>

#include <intel-pt.h>

#include <aux/decoder.h>

#define N_QUEUE 512		/* at first; it grows while nothing is committed */
#define N_FILL 256		/* so many committed events are delivered first */
#define N_STEP 8		/* events of one step, at most */
#define N_IMAGES 32
#define N_ENDS 16384		/* power of two */
#define N_WANTED 4
#define ISCACHE_LIMIT (UINT64_C(1) << 30) /* bytes of mapped files */
#define MAX_UNTRACED (1 << 16)	/* blocks in a row that need no packet */
#define PSB_SIZE 16
#define END_PACKETS 10		/* FUP with a full IP, TIP.PGD without one */

/* What the last instruction of a block does. */
struct insn_end {
	uint8_t size;		/* 0: no branch, or not known */
	uint8_t kind;		/* enum aux_range_end */
	uint64_t next;		/* address after it */
	uint64_t target;	/* of a direct branch */
};

/* Cache slot for it, by address. */
struct end_slot {
	uint64_t ip;
	uint32_t image;		/* serial of the image; 0: the slot is free */
	uint8_t mode;
	struct insn_end end;
};

struct image_slot {
	struct pt_image *image;
	uint64_t generation;	/* the host's, that it answers for */
	uint32_t serial;	/* never used again for another image */
	uint64_t used;		/* libipt_code.clock of the last use */
};

/*
 * Code. Outlives chunks.
 *
 * libipt decodes fastest from sections of its image, which are mapped files.
 * What is in none of them it asks for by callback: that reads through the host,
 * and notes the file so that it is mapped before the next block. An image per
 * generation: after a switch back, all is there. N_IMAGES of them, the one used
 * longest ago goes.
 */
struct libipt_code {
	struct pt_image_section_cache *iscache;
	struct image_slot images[N_IMAGES];
	struct image_slot *image; /* in use; NULL: none since start */
	uint64_t clock;
	uint32_t serial;	/* of the newest image */
	struct aux_code wanted[N_WANTED]; /* read by callback, to be mapped */
	unsigned n_wanted;
	struct end_slot ends[N_ENDS];
	bool missed;		/* the last block asked for code that is not there, */
	uint64_t miss_ip;	/* here */
};

/* What libipt reads. */
struct libipt_input {
	struct pt_block_decoder *blk; /* NULL before the first chunk */
	uint8_t *tailed;	/* copy of the chunk with END_PACKETS, or NULL */
	uint64_t len;		/* with END_PACKETS, if there are any */
	uint64_t sync;		/* offset to look for the next PSB at */
	int status;		/* of the last libipt call; valid while synced */
};

/* TIMEs: what was emitted, and whether the next is due. */
struct libipt_times {
	bool have_time;		/* there was a TIME since the PSB: tsc is valid */
	bool asked;		/* libipt was asked for the time since the PSB */
	bool at_horizon;	/* a TIME in the queue reaches the horizon */
	uint64_t tsc;		/* of the last TIME */
	uint64_t queued_tsc, delivered_tsc; /* of the last TIME, across chunks */
};

/* Blocks in a row that need no packet: do they come back to where they were? */
struct libipt_loop {
	uint32_t untraced;	/* so many */
	uint32_t mark;		/* untraced when ip was the block's ip */
	uint64_t ip;
	uint32_t n_empty;	/* blocks without instructions in a row */
};

#define NONE UINT32_MAX

/*
 * The output queue: head <= committed <= tail <= cap.
 *
 * [head, committed) can be delivered. After that are RANGEs that a packet has
 * to confirm; or first the open one, whose conditional branch has no outcome
 * before the next ip is known.
 */
struct libipt_output {
	struct aux_flow *queue;
	uint32_t head, committed, tail, cap;
	uint32_t open;		/* the open RANGE, or NONE */
	uint64_t open_next, open_target; /* where it leads, not taken and taken */
	uint64_t offset;	/* for events: stream offset of the current packet */
	uint64_t last_ip;	/* of the last instruction emitted */
	bool at_insn;		/* nothing moved the flow on from there */
};

/* Why no more flow comes of this chunk. */
enum libipt_end { LIBIPT_RUNNING = 0, LIBIPT_DONE, LIBIPT_NOMEM };

struct libipt {
	/* given to open, constant */
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	bool is_v21;		/* the library that runs is libipt 2.1 or later */

	struct libipt_code code;

	/* of the chunk, from start on */
	const struct aux_chunk *chunk;
	struct libipt_input in;
	enum libipt_end end;
	bool synced;		/* else a PSB is looked for */
	struct {
		bool trace_on;	/* TRACE_ON is due before the next RANGE */
		bool has_late;
		struct pt_event late; /* with has_late: a CBR of a PSB+, which is
				 * emitted with the next event of that PSB+ */
	} pending;
	struct { uint64_t cr3, vmcs; } context; /* 0: not known since the PSB */
	struct libipt_times times;
	struct libipt_loop loop;
	struct libipt_output out;
};

/* ---- code.c ---- */

/* Has libipt use the image of the host's generation. 0, or a pt_error_code. */
int libipt_use_image(struct libipt *d);

/* Maps the files of what was read by callback, so that libipt can cache their
 * blocks. */
void libipt_map_files(struct libipt *d);

/* Fills *s with what the last instruction of b does. */
void libipt_fill_end(struct libipt *d, const struct pt_block *b,
		     struct end_slot *s);

/* ---- event.c ---- */

/* A TIME, unless it does not advance. times.at_horizon is set if the host has
 * to look. */
void libipt_push_time(struct libipt *d, uint64_t tsc);
void libipt_push_ip(struct libipt *d, enum aux_flow_kind kind, unsigned what,
		    bool known, uint64_t ip);
void libipt_push_gap(struct libipt *d, enum aux_gap_cause cause, uint64_t ip,
		     uint64_t detail);

/* libipt's event as events of the flow, without its time. */
void libipt_push_event(struct libipt *d, const struct pt_event *e);

/* ---- run.c ---- */

/* Synchronizes, or has libipt decode an event or some blocks. N_STEP events are
 * free. */
void libipt_step(struct libipt *d);

/* Room for a step, and not so much committed that it should be delivered
 * first. */
bool libipt_has_room(const struct libipt *d);

/* ---- the queue ---- */

/* Commits all that is queued; the open RANGE stays without an outcome. */
static inline void libipt_commit(struct libipt *d)
{
	d->out.open = NONE;
	d->out.committed = d->out.tail;
}

/* The next event, zero but for offset, kind and what. It does not settle the
 * open RANGE, which keeps it from being committed. */
static inline struct aux_flow *libipt_push(struct libipt *d, enum aux_flow_kind kind,
			     unsigned what)
{
	struct aux_flow *f = &d->out.queue[d->out.tail++];

	*f = (struct aux_flow){ .offset = d->out.offset, .kind = (uint8_t)kind,
				.what = (uint8_t)what };
	d->out.committed = d->out.open != NONE ? d->out.open : d->out.tail;
	return f;
}

/* The flow continues at ip, if that is known: the outcome of the open RANGE. */
static inline void libipt_settle(struct libipt *d, bool known, uint64_t ip)
{
	struct aux_flow *f;

	if (d->out.open == NONE)
		return;
	f = &d->out.queue[d->out.open];
	libipt_commit(d);
	if (!known)
		return;
	if (ip == d->out.open_next)
		f->what = AUX_END_COND_NOT_TAKEN;
	else if (ip == d->out.open_target)
		f->what = AUX_END_COND_TAKEN;
}

#endif
