/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the libipt decoder share. Together they are one plugin: they
 * include the public headers, <intel-pt.h> and this file.
 */
#ifndef DECODE_LIB_LIBIPT_IMPL_H
#define DECODE_LIB_LIBIPT_IMPL_H

#include <stdbool.h>

#include <intel-pt.h>

#include <aux/decoder.h>

#define N_QUEUE 512		/* at first; it grows while nothing is sure */
#define N_FILL 256		/* what is sure is given when so many are */
#define N_STEP 8		/* events of one step, at most */
#define N_IMAGES 32
#define N_ENDS 16384		/* power of two */
#define N_WANTED 4
#define ISCACHE_LIMIT (UINT64_C(1) << 30)
#define MAX_UNTRACED (1 << 16)	/* blocks in a row that need no trace */
#define PSB_SIZE 16
#define TAIL_SIZE 10		/* FUP with a full IP, TIP.PGD without one */

/* What the last instruction of a block does. */
struct insn_end {
	uint8_t size;		/* 0: not a branch, not known */
	uint8_t kind;		/* enum aux_range_end */
	uint64_t next;		/* behind it */
	uint64_t target;	/* of a direct branch */
};

struct end_slot {
	uint64_t ip;
	uint32_t image;		/* its serial; 0: the slot is free */
	uint8_t mode;
	struct insn_end end;
};

struct image_slot {
	struct pt_image *image;
	uint64_t generation;
	uint32_t serial;	/* never used again for another one */
	uint64_t used;		/* the clock of the last use */
};

struct libipt {
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	struct pt_image_section_cache *iscache;
	struct image_slot images[N_IMAGES], *image;
	uint64_t image_clock;
	uint32_t image_serial;
	struct aux_code wanted[N_WANTED]; /* read by callback: to be mapped */
	unsigned n_wanted;
	struct end_slot ends[N_ENDS];

	struct pt_block_decoder *blk;
	const struct aux_chunk *chunk;
	uint8_t *tailed;	/* copy of the chunk with an end packet */
	uint64_t len;		/* of what libipt reads */
	uint64_t sync;		/* next offset to look for a PSB */
	uint64_t offset;	/* of the last event */
	int status;		/* of the last libipt call */
	bool synced, done, nomem;
	bool need_on;		/* TRACE_ON is due before the next RANGE */
	bool has_late;		/* late is there: a CBR of a PSB+, which is told */
	struct pt_event late;	/* with the next event of it, where that happens */
	bool have_time, timed;	/* ever; since the last sync */
	uint64_t tsc;
	uint64_t pushed_tsc, given_tsc; /* of the last TIME, ever */
	uint64_t last_ip, miss_ip, cr3, vmcs;
	bool missed;
	uint32_t untraced;	/* blocks since trace was last needed */
	uint32_t loop_mark;	/* untraced, when loop_ip was the block's ip */
	uint64_t loop_ip;
	uint32_t n_empty;	/* blocks without instructions in a row */

	struct aux_flow *queue;	/* head <= sure <= tail <= cap */
	uint32_t head, tail, cap;
	uint32_t sure;		/* behind: RANGEs that trace has to confirm */
	uint32_t open;		/* RANGE with an unknown outcome, or NONE */
	uint64_t open_next, open_target;
	bool at_horizon;	/* a TIME in queue reaches it */
};

#define NONE UINT32_MAX

/* code.c: code bytes, and what the last of a block does */
int libipt_use_image(struct libipt *d);
void libipt_map_wanted(struct libipt *d);
void libipt_fill_end(struct libipt *d, const struct pt_block *b,
		     struct end_slot *s);

/* event.c: libipt's events as flow events */
void libipt_push_time(struct libipt *d, uint64_t tsc);
void libipt_push_ip(struct libipt *d, enum aux_flow_kind kind, unsigned what,
		    bool known, uint64_t ip);
void libipt_push_gap(struct libipt *d, enum aux_gap_cause cause, uint64_t ip,
		     uint64_t detail);
void libipt_push_event(struct libipt *d, const struct pt_event *e);

/* run.c: synchronization, blocks, errors. One step of libipt. */
void libipt_step(struct libipt *d);
bool libipt_has_room(const struct libipt *d);

/* ---- the queue ---- */

/* All that is queued is given, however the open RANGE ended. */
static inline void libipt_confirm(struct libipt *d)
{
	d->open = NONE;
	d->sure = d->tail;
}

/* The next event; there is room. It does not tell how the open RANGE ended. */
static inline struct aux_flow *libipt_push(struct libipt *d, enum aux_flow_kind kind,
			     unsigned what)
{
	struct aux_flow *f = &d->queue[d->tail++];

	*f = (struct aux_flow){ .offset = d->offset, .kind = (uint8_t)kind,
				.what = (uint8_t)what };
	d->sure = d->open != NONE ? d->open : d->tail;
	return f;
}

/* The flow goes on at ip: settles how the open range ended. */
static inline void libipt_settle(struct libipt *d, bool known, uint64_t ip)
{
	struct aux_flow *f;

	if (d->open == NONE)
		return;
	f = &d->queue[d->open];
	libipt_confirm(d);
	if (!known)
		return;
	if (ip == d->open_next)
		f->what = AUX_END_COND_NOT_TAKEN;
	else if (ip == d->open_target)
		f->what = AUX_END_COND_TAKEN;
}

#endif
