/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of our own ETMv4 and ETE decoder share: the cursor, which is the
 * place in the packets and what they told so far, and what they call of each other.
 * What is made of code is in the store (store.h), and outlives chunks.
 */
#ifndef DECODE_LIB_ETM_ENGINE_H
#define DECODE_LIB_ETM_ENGINE_H

#include <stdbool.h>

#include <aux/decoder.h>

#include "decode/lib/etm/memo.h"

#define ETM_GIVE 1024		/* events that are given at once */
#define ETM_STEP 64		/* events of one packet, at most */
#define ETM_QUEUE (ETM_GIVE + 2 * ETM_STEP)
#define ETM_WAITING 64		/* events behind one that waits for an ip */
#define ETM_WALK_MAX (1u << 20)	/* bytes of code for one range */
#define ETM_ATOMS_MAX 25	/* of a packet */
#define ETM_RET_DEPTH 16
#define ETM_EARLY_MAX 16	/* events before Trace Info */
#define ETM_NONE UINT32_MAX
#define ETM_DETAIL_NO_CODE 27	/* of GAPs, as OpenCSD numbers them: no memory there */

/* ---- the cursor ---- */

enum etm_state {
	ETM_WAIT_SYNC,		/* for A-Sync */
	ETM_WAIT_INFO,		/* for Trace Info */
	ETM_DECODE,
};

enum etm_loss {
	ETM_LOSS_NONE, ETM_LOSS_OVERFLOW, ETM_LOSS_BAD, ETM_LOSS_DISCARD,
};

/* What a context tells. */
struct etm_ids {
	uint8_t el;
	bool secure, is_64, has_vmid, has_cid;
	uint32_t vmid, cid;
};

struct etm_early {
	uint64_t pos;
	uint8_t value;
};

/* An exception that waits for its address. */
struct etm_exception {
	bool waits;
	bool bad;		/* something stands in between */
	bool has_context;
	struct etm_ids context;
	bool target;		/* its address is an indirect branch's, too */
	uint16_t number;
};

/* What the ranges of a packet change, the events that wait included. */
struct etm_mark {
	uint32_t tail, waiting;
	bool on, last_known, lost;
	enum etm_loss told;
	uint64_t last_ip, next_ip, offset;
	struct aux_flow ev[ETM_WAITING];
};

/* An exception, behind the CONTEXT at which the host may switch. */
struct etm_after {
	bool waits;
	bool has_range, no_code, overrun, desync; /* what is before it; ip */
	uint16_t number;
	uint64_t from, ip;
	struct aux_flow range;
};

struct etm {
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	bool ete, stack;	/* stack: returns are compressed */
	uint8_t version;	/* 0x42: ETMv4.2 */
	bool waits;		/* wfi and wfe are P0 elements */
	uint8_t n_vmid, n_cid;	/* bytes of a context */
	uint32_t cycle_mask;
	bool adds_up;		/* a cycle count gives no event */
	bool timed;		/* there are timestamps */
	bool refused;		/* this source is not for us */
	bool unsupported;	/* nor is this chunk */
	uint8_t class[256];	/* enum etm_class by header */
	uint32_t atoms[64];	/* by header - 0xc0 */

	struct etm_store *store;
	struct etm_region *last_region;
	struct etm_region spare_region;	/* when the store is full */
	uint64_t generation;

	const struct aux_chunk *chunk;
	const uint8_t *data;
	uint64_t pos, len;
	uint64_t packet;	/* position of the last one */
	bool partial;		/* the chunk ends in the packet */
	bool informed;		/* there was a Trace Info */
	bool framed;		/* there was an A-Sync: packets are known */
	bool found;		/* one, ever */
	bool done;
	bool cut;		/* the host may have to switch */
	bool synced;		/* packets give events */
	bool except;		/* an exception waits: its address is no place */
	bool resumes, ahead, foretold;	/* as in ahead.c */
	enum etm_state state;
	enum etm_place place;
	bool need_context;
	bool overflowed;	/* until the flow goes on behind a Trace On */
	bool on_pending;	/* there was one */
	bool has_ip;
	bool is_64;		/* the last context says so */
	bool context_pending;	/* no instruction ran since */
	bool old_64;		/* before that */
	bool code_64;		/* that is what is at ip */
	uint64_t ip;		/* of the next instruction */
	struct etm_exception exc;
	struct etm_early early[ETM_EARLY_MAX];
	unsigned n_early;
	uint64_t returns[ETM_RET_DEPTH];
	uint32_t n_returns, top;
	bool unsure;		/* code that is missing called and returned, at */
	uint64_t unsure_ip;	/* this ip: returns are what was pushed since */

	uint64_t history[3];	/* addresses, the newest first */
	uint8_t history_is[3];
	bool sf_known, sf;	/* of the last context */
	struct etm_ids ids;	/* of the last context */
	uint64_t clock;		/* the last timestamp */
	bool clock_known;	/* since Trace Info */
	uint32_t threshold;	/* of cycle counts */

	bool on;		/* flow since the last TRACE_ON */
	bool last_known;	/* last_ip, next_ip */
	bool lost;		/* no code at lost_ip, nothing ran since */
	bool have_time, have_context;
	uint64_t last_ip, next_ip, lost_ip;
	enum etm_loss told;
	uint32_t cycles;
	uint64_t time;		/* of the last TIME, ever */
	uint64_t ts;		/* the last timestamp, for ahead.c */
	struct aux_flow context;

	uint64_t offset;	/* of the last event */
	uint32_t head, tail, stop, waiting;
	struct etm_after after;
	struct aux_flow queue[ETM_QUEUE];
};

/* What to do with a packet, by its header. */
enum etm_class {
	ETM_BAD = 0,
	ETM_UNSUPPORTED,
	ETM_OTHER,
	ETM_ATOMS,
	ETM_MATCH, ETM_SHORT, ETM_LONG32, ETM_LONG64,
};

/* The instruction at ip. False: there is no code. */
bool etm_read_insn(struct etm *d, uint64_t ip, uint32_t *word);
/* The node at ip; NULL: there is none, or it cannot be kept. */
struct etm_node *etm_find_node(struct etm *d, uint64_t ip);
bool etm_walk(struct etm *d, uint64_t ip, struct etm_node *node);
bool etm_classify(const struct etm *d, uint32_t word, uint64_t ip,
		  struct etm_node *node);
bool etm_is_good(struct etm *d, struct etm_region *r, uint64_t ip);
struct aux_flow etm_range(const struct etm_node *n, bool taken);

/* path.c: atoms as paths */
void etm_take_atoms(struct etm *d, uint32_t atoms);
/* The same behind the first atoms of a packet, before which was m. */
void etm_take_rest(struct etm *d, uint32_t atoms, const struct etm_mark *m);
void etm_set_mark(const struct etm *d, struct etm_mark *m);
void etm_apply_returns(struct etm *d, const struct etm_path *p);
void etm_push_return(struct etm *d, uint64_t ip);
bool etm_pop_return(struct etm *d);
void etm_lose_returns(struct etm *d, uint64_t ip);
void etm_go_astray(struct etm *d);
void etm_commit(struct etm *d);

/* event.c: the queue */
void etm_push_range(struct etm *d, const struct aux_flow *range);
void etm_push_path(struct etm *d, struct etm_path *p);
void etm_push_gap(struct etm *d, enum aux_gap_cause cause, bool known,
		  uint64_t ip, uint64_t detail);
void etm_push_no_code(struct etm *d, uint64_t ip);
void etm_push_on(struct etm *d);
void etm_push_time(struct etm *d, uint64_t ts);
void etm_push_cycles(struct etm *d, uint32_t n);
void etm_push_context(struct etm *d, const struct etm_ids *ids);
void etm_settle(struct etm *d, uint64_t ip);

/* sync.c: sync points, and what loses them */
/* All behind the packet is lost, up to a sync point. */
void etm_fail(struct etm *d, enum aux_gap_cause cause);
void etm_push_early(struct etm *d);
void etm_finish(struct etm *d);

/* packet.c: all that is no atom; table.c */
void etm_take_packet(struct etm *d);
void etm_fill_classes(struct etm *d);

/* except.c: the rest of an exception */
void etm_push_after(struct etm *d);

/* ahead.c: a run's TIME, before what it is of */
bool etm_may_look(const struct etm *d);
void etm_look_ahead(struct etm *d);

/* run.c: the loop */
void etm_run(struct etm *d, bool direct);
size_t etm_run_direct(struct etm *d, struct aux_flow *out, size_t max);

static inline void etm_at(struct etm *d, uint64_t pos)
{
	uint64_t offset = d->chunk->stream_offset + pos;

	if (offset > d->offset)
		d->offset = offset;
}

/* The next event: there is room. */
static inline struct aux_flow *etm_push(struct etm *d, enum aux_flow_kind kind,
					unsigned what)
{
	struct aux_flow *f = &d->queue[d->tail++];

	*f = (struct aux_flow){ .offset = d->offset, .kind = (uint8_t)kind,
				.what = (uint8_t)what };
	return f;
}

/* Where the flow goes on. */
static inline void etm_go(struct etm *d, uint64_t ip)
{
	d->ip = ip;
	d->has_ip = true;
}

/* The etm decoder: what its files that read packets share. */

/* address.c */
void etm_take_context(struct etm *d, uint8_t header);
void etm_take_address(struct etm *d, enum etm_class class, uint8_t header);
void etm_take_source_packet(struct etm *d, enum etm_class class,
			    uint8_t header);

/* except.c */
void etm_take_exception(struct etm *d, uint64_t from);
void etm_take_source(struct etm *d, uint64_t ip);

/* event.c */
void etm_end_return(struct etm *d);
void etm_tell_loss(struct etm *d, enum etm_loss why);

/* The packet is one that events are told from. */
static inline void etm_show_packet(struct etm *d)
{
	etm_at(d, d->packet);
	if (!d->except)
		d->n_early = 0;
}

static inline void etm_forget_returns(struct etm *d)
{
	d->n_returns = 0;
	d->unsure = false;
	if (d->place == ETM_RETURN)
		d->place = ETM_NOWHERE;
}

/* 0 at the end of the chunk, which then is in the middle of the packet. */
static inline uint8_t etm_take_byte(struct etm *d)
{
	if (d->pos < d->len)
		return d->data[d->pos++];
	d->partial = true;
	return 0;
}

static inline uint64_t etm_take_bytes(struct etm *d, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)etm_take_byte(d) << 8 * i;
	return v;
}

/* Groups of 7 bits; the first max bytes tell the value. */
static inline uint32_t etm_take_groups(struct etm *d, unsigned max)
{
	uint32_t v = 0;

	for (unsigned i = 0;; i++) {
		uint8_t b = etm_take_byte(d);

		if (i < max)
			v |= (uint32_t)(b & 0x7f) << 7 * i;
		if (b < 0x80)
			return v;
	}
}

#endif
