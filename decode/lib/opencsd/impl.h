/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the OpenCSD decoder share. Together they are one plugin: they
 * include the public headers, <opencsd/c_api/opencsd_c_api.h> and this file.
 */
#ifndef DECODE_LIB_OPENCSD_IMPL_H
#define DECODE_LIB_OPENCSD_IMPL_H

#include <stdbool.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include <aux/decoder.h>

#define N_FEED 512		/* bytes that the library gets at once */
#define N_ZEROS 32		/* of a run: more than any packet has */
#define N_GIVE 512		/* events that make it wait */
#define N_STEP 8		/* events of one packet or element, at most */
#define N_QUEUE (N_GIVE + 3 * N_FEED + N_STEP)
#define N_WAITING 64		/* events behind one that waits for an ip */
#define N_REGIONS 32
#define MAX_WALK (1u << 20)	/* bytes of code for one range */
/* The library's cache reads wildly where an instruction would end at 2^64. */
#define LAST_CODE (UINT64_MAX - 16)
#define N_HELD 2		/* last events, which the next may change */
#define MAX_IDLE 4096		/* packets without an atom: the library keeps
				 * them, and its time grows with their square */
#define NONE UINT32_MAX

struct region {
	uint64_t generation;
	struct aux_code code;	/* bytes NULL: the slot is free */
};

struct opencsd {
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	dcd_tree_handle_t tree;	/* NULL: this source cannot be decoded */
	ocsd_err_t why;		/* then */
	uint8_t csid;
	bool v4;		/* ETMv4 or ETE */
	bool early;		/* packets without code give their events */
	bool profile_m;

	struct region regions[N_REGIONS];
	unsigned last_region, next_region;
	uint64_t generation;	/* whose code the library has in its cache */
	uint64_t walked;	/* bytes of code since the last element */
	bool walked_off;	/* and that was too much */

	const struct aux_chunk *chunk;
	uint64_t pos;		/* the library has had data[0..pos) */
	uint64_t fed;		/* pos before that */
	uint64_t fed_offset;	/* the same in the stream, and where the chunk */
	uint64_t end_offset;	/* ends there */
	uint64_t packet_end;	/* of the last packet known */
	uint32_t seen_index;	/* of one that the library has just shown, */
	uint32_t seen_size;	/* its bytes, and */
	bool seen;		/* that there is one */
	bool resumes;		/* the next address is where a run begins */
	uint64_t given_pos;	/* early: of the last packet that gave events */
	bool given;		/* there is one */
	bool cut;		/* early: the host may have to switch */
	bool flush;		/* the library waits */
	bool eot, done;
	bool found;		/* a sync point, ever */
	bool synced;		/* ETMv4: packets count */
	uint64_t atoms;		/* ETMv4: P0 elements, newest first: an atom? */
	uint32_t n_idle;	/* ETMv4: packets since the last atom */
	uint32_t pending;	/* that are not committed, at least */
	bool except;		/* an exception waits for its address */
	bool refused;		/* ETMv4: Trace Info that cannot be */
	bool ahead;		/* it has come: has the run a time? */
	bool foretold;		/* that was the last TIME */
	uint64_t ts;		/* the last timestamp */
	uint32_t stop;		/* in queue, behind an event for the host to
				 * act on; 0: there is none */
	int packet_type;	/* of the last one */

	/* What each range sets stands together: so it is one store. */
	bool on;		/* flow since the last TRACE_ON */
	bool last_known;	/* last_ip, next_ip */
	bool lost;		/* no code at lost_ip, nothing ran since */
	bool lost_before;	/* and it was so when that was told last */
	bool addressed;		/* an address packet came after the last range */
	bool in_tx;
	unsync_info_t told;	/* loss of sync that is in the flow */
	uint64_t last_ip;	/* of the last instruction, and behind it */
	uint64_t next_ip;
	uint64_t lost_ip;
	uint32_t cycles;	/* since the last TIME */
	bool have_time;
	uint64_t time;		/* of the last TIME, ever */
	struct aux_flow context; /* the last one */
	bool have_context;

	/* A return stack that the library has popped once too often. */
	bool popped;		/* until it is empty */
	bool indirect;		/* the last range was a taken indirect branch */
	bool mute;		/* it went on at a wrong address */
	bool unpopped;		/* the same stack: not popped where it should be */

	/* Behind code that is missing. */
	bool unsure;		/* that may have pushed and popped: only */
	uint8_t n_pushed;	/* so many addresses are what they should be */
	bool adrift;		/* the next address is where the flow goes on */
	bool hold;		/* what the library has not taken yet it gets so */
	uint64_t unsure_ip;	/* of that code */
	uint32_t single;	/* atoms that are fed one by one, and */
	unsigned n_single;	/* how many; they are in front of pos */

	uint8_t ends[256];	/* enum aux_range_end, by kind_of() */
	bool special[256];	/* ETMv4: headers that are fed with care */

	uint64_t offset;	/* of the last event */
	uint32_t head, tail;	/* of queue */
	uint32_t waiting;	/* from here events wait for an ip, or NONE */
	struct aux_flow queue[N_QUEUE];
};

/* code.c: its view of the host's code */
uint32_t opencsd_read_code(const void *priv, ocsd_vaddr_t ip,
			   ocsd_mem_space_acc_t space, uint32_t n, uint8_t *buf);
bool opencsd_new_code(struct opencsd *d);

/* event.c: events that do not depend on code */
void opencsd_push_gap(struct opencsd *d, enum aux_gap_cause cause,
		      bool known, uint64_t ip, uint64_t detail);
void opencsd_push_on(struct opencsd *d, trace_on_reason_t reason);
void opencsd_push_time(struct opencsd *d, uint64_t ts);
void opencsd_push_cycles(struct opencsd *d, uint32_t n);
void opencsd_push_context(struct opencsd *d, const struct aux_flow *context);
void opencsd_push_event(struct opencsd *d, uint64_t number);
void opencsd_end_return(struct opencsd *d);
void opencsd_settle(struct opencsd *d, uint64_t ip);
void opencsd_lose_sync(struct opencsd *d, unsync_info_t why);

/* element.c, packet.c: what the library calls */
void opencsd_fill_ends(struct opencsd *d);
ocsd_datapath_resp_t opencsd_take_element(const void *priv,
					  ocsd_trc_index_t index, uint8_t id,
					  const ocsd_generic_trace_elem *e);
void opencsd_see_packet(const void *priv, ocsd_datapath_op_t op,
			ocsd_trc_index_t index, const void *packet,
			uint32_t size, const uint8_t *data);

/* ahead.c: ETMv4: a run's TIME, before what it is of */
bool opencsd_may_look(const struct opencsd *d);
void opencsd_look_ahead(struct opencsd *d);

/* lost.c: what missing code takes with it */
bool opencsd_take_care(struct opencsd *d);
bool opencsd_is_misled(const struct opencsd *d);

/* Nothing of it counts any more. */
static inline void opencsd_find_again(struct opencsd *d)
{
	d->unsure = d->adrift = false;
	d->n_single = 0;
}

/* run.c: one call of the library */
void opencsd_fill_special(struct opencsd *d);
void opencsd_step(struct opencsd *d);

/* The library's index, of 32 bits, as a position in the chunk. */
static inline uint64_t opencsd_pos(const struct opencsd *d, ocsd_trc_index_t i)
{
	int64_t pos = (int64_t)d->fed + (int32_t)((uint32_t)i - (uint32_t)d->fed);

	return pos < 0 ? 0 : (uint64_t)pos;
}

static inline void opencsd_at(struct opencsd *d, uint64_t pos)
{
	uint64_t offset = d->chunk->stream_offset + pos;

	if (offset > d->offset && pos <= d->chunk->len)
		d->offset = offset;
}

/* The same of the library's index. */
static inline void opencsd_at_index(struct opencsd *d, ocsd_trc_index_t i)
{
	int32_t n = (int32_t)((uint32_t)i - (uint32_t)d->fed);
	uint64_t offset = d->fed_offset + (uint64_t)(int64_t)n;

	if (offset > d->offset && offset <= d->end_offset)
		d->offset = offset;
}

/* The next event: there is room. */
static inline struct aux_flow *opencsd_push(struct opencsd *d,
					    enum aux_flow_kind kind,
					    unsigned what)
{
	struct aux_flow *f = &d->queue[d->tail++];

	*f = (struct aux_flow){ .offset = d->offset, .kind = (uint8_t)kind,
				.what = (uint8_t)what };
	return f;
}

#endif
