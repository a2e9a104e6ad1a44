/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The decoder by OpenCSD, the reference: what its files share. With the public
 * headers and <opencsd/c_api/opencsd_c_api.h> they are one plugin.
 *
 * The library is fed bytes and calls back: with each packet as it is parsed
 * (packet.c) and, later, with generic elements (element.c). Events go into the
 * queue from both. struct opencsd holds the state by role; one thread uses a
 * decoder at a time. What the library shares between decoders is locked in
 * decoder.c.
 */
#ifndef DECODE_LIB_OPENCSD_IMPL_H
#define DECODE_LIB_OPENCSD_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include <aux/decoder_queue.h>

#include "common/etm_lookahead.h"

#define OPENCSD_FEED 512	/* bytes that the library gets at once */
#define OPENCSD_ZEROS 32	/* kept of a run of zeros: more than any packet has */
#define OPENCSD_QUEUE_FULL 512	/* events; the library has to wait from here on */
#define OPENCSD_PACKET_EVENTS 8	/* of one packet or element, at most */
#define OPENCSD_REGIONS 32
#define OPENCSD_CHECKED 256	/* ranges */
#define OPENCSD_WALK_MAX (1u << 20)	/* bytes of code in one range */
/* Where an instruction would end at 2^64 the library's cache reads out of
 * bounds. */
#define OPENCSD_LAST_CODE (UINT64_MAX - 16)
/* The last two events: the next element may amend or retract them. */
#define OPENCSD_HELD 2
/* Packets without an atom: the library keeps them in a list that it walks for
 * each one, so its time grows with their square. */
#define OPENCSD_IDLE_MAX 4096

/* A byte gives at most three events; the library has one call's bytes to
 * itself. */
_Static_assert(OPENCSD_QUEUE_FULL + 3 * OPENCSD_FEED + OPENCSD_PACKET_EVENTS <=
		       AUX_QUEUE_MAX, "one call of the library fits");

/* Constant after open, but for special, which may_switch changes once. */
struct opencsd_source {
	bool v4;		/* ETMv4 or ETE */
	bool in_order;		/* v4 without speculation: packets are in the order
				 * of execution and give events themselves */
	bool profile_m;
	bool has_ite;
	uint8_t ends[256];	/* enum aux_range_end, by kind_of() */
	bool special[256];	/* v4: headers that are fed one by one (run.c) */
};

/* The library's objects, and what it was told. */
struct opencsd_library {
	dcd_tree_handle_t tree;	/* owned; NULL: this source cannot be decoded */
	ocsd_err_t err;		/* the reason, then */
	uint8_t csid;
	/* of the chunk: */
	bool waits;		/* it has to be flushed before it takes more */
	bool eot;		/* it got the end of trace */
	bool bad_info;		/* v4: a Trace Info that it must not act on */
	bool misled;		/* by a branch that it does not know */
	bool cancelled;		/* v3: by its latest packet, an instruction */
	bool hold;		/* it is stopped after this element */
	uint32_t single;	/* atoms that it gets one by one, the first lowest; */
	unsigned n_single;	/* they are before in.pos */
};

struct opencsd_region {
	uint64_t generation;
	struct aux_code code;	/* bytes NULL: the slot is free */
};

struct opencsd_code {
	struct opencsd_region regions[OPENCSD_REGIONS];
	unsigned last, next;	/* the last hit; the slot to replace */
	uint64_t generation;	/* of the code in the library's cache */
	uint64_t walked;	/* bytes that it read since the last element */
	bool walked_off;	/* more than OPENCSD_WALK_MAX */
	uint64_t checked[OPENCSD_CHECKED][3];	/* ranges without a branch that the
				 * library does not know: first, end, generation */
};

/* The chunk. Positions are in its data. */
struct opencsd_input {
	const struct aux_chunk *chunk;
	uint64_t pos;		/* the library has had data[0..pos) */
	uint64_t fed;		/* pos before its last call */
	uint64_t fed_offset;	/* fed, and the end of the chunk, in the stream */
	uint64_t end_offset;
	uint64_t packet_end;	/* end of the last packet known */
	int packet_type;	/* of that packet */
	bool seen;		/* the library has shown a packet in this call: */
	uint32_t seen_index;	/* its index */
	uint32_t seen_size;
};

struct opencsd_sync {
	bool found;		/* there was a sync point in this chunk */
	bool framed;		/* v4: since one packet boundaries are known */
	bool emitting;		/* v4: since Trace Info */
	bool in_exception;	/* v4: its address is to come */
	bool has_context;	/* v4: one came since Trace Info */
	bool emitted;		/* in_order: packets up to emitted_pos gave their */
	uint64_t emitted_pos;	/* events; elements of these are dropped */
	uint32_t n_idle;	/* v4: packets since the last atom */
};

/* v4 with speculation: P0 elements that are not committed. */
struct opencsd_speculation {
	uint64_t atoms;		/* the newest lowest; 1: it is an atom */
	uint32_t n;		/* at least so many */
	uint32_t n_left;	/* at the end of trace: the library drops them */
};

struct opencsd_timestamps {
	uint64_t last;
	enum etm_lookahead lookahead;
	bool foretold;		/* the last TIME comes from the look-ahead */
};

/* What was emitted last. The bools that each range sets stand together, so that
 * the compiler sets them with one store. */
struct opencsd_emitted {
	bool on;		/* flow since the last TRACE_ON */
	bool last_known;	/* last_ip and next_ip are valid */
	bool code_missing;	/* at missing_ip; nothing ran since */
	bool missed_before;	/* and it was so when that was emitted last */
	bool addressed;		/* an address packet came after the last range */
	bool in_tx;
	bool indirect;		/* the last range ends with a taken indirect branch */
	uint8_t end;		/* of the last range: enum aux_range_end, ocsd_isa */
	uint8_t isa;
	unsync_info_t loss;	/* of sync, the last one emitted */
	uint64_t last_ip;	/* of the last instruction */
	uint64_t next_ip;	/* its end */
	uint64_t missing_ip;
	uint64_t address;	/* with addressed, in order: that of the packet */
};

/* Where the library's return stack is known to be wrong (element.c). */
struct opencsd_returns {
	bool popped;		/* once too often; until the next sync point */
	bool suppress;		/* popped: it follows a wrong address */
	bool unpopped;		/* once too seldom */
};

/* A Q packet (element.c), in_order only. */
struct opencsd_q {
	bool waits;		/* its address is in a packet that is to come */
	bool pending;		/* its element is */
	bool has_context;	/* a context came before that address */
	uint32_t n;		/* instructions; 0: not told */
	uint64_t to;		/* where the flow is after it */
};

/* After code that is missing (element.c), in_order only. */
struct opencsd_missing {
	bool unsure;		/* that code may have called and returned: of the */
	uint8_t n_pushed;	/* return stack only so many addresses are right */
	bool adrift;		/* the next address packet says where the flow is */
	bool wrong;		/* and what the library still makes of this packet
				 * is wrong */
	uint8_t cause;		/* of unsure: enum aux_gap_cause */
	uint64_t ip;		/* of that code */
};

struct opencsd_context {
	bool emitted;		/* event is valid */
	struct aux_flow event;	/* the last CONTEXT */
	etmv4_context_t packet;	/* of the last packet with one. What the library says
				 * with an exception may be of the last chunk */
};

struct opencsd {
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	struct opencsd_source src;
	struct opencsd_library lib;
	struct opencsd_code code;
	bool may_switch;	/* in_order: the host acts on time or context */

	/* of the chunk: */
	bool done;
	struct opencsd_input in;
	struct opencsd_sync sync;
	struct opencsd_speculation spec;
	struct opencsd_timestamps ts;
	struct opencsd_emitted out;
	struct opencsd_returns ret;
	struct opencsd_missing missing;
	struct opencsd_q untraced;
	struct opencsd_context ctx;
	struct aux_queue q;	/* last: open does not clear it */
};

/* ---- code.c: the library's view of the host's code ---- */

/* The library's callback. Returns how many bytes there are. */
uint32_t opencsd_read_code(const void *priv, ocsd_vaddr_t ip,
			   ocsd_mem_space_acc_t space, uint32_t n, uint8_t *buf);
/* Copies up to n bytes at ip from one region; returns how many. */
uint32_t opencsd_copy_code(struct opencsd *d, uint64_t ip, uint32_t n, uint8_t *buf);
/* Empties the library's cache if the host's generation changed. False: no
 * memory. */
bool opencsd_update_code(struct opencsd *d);

/* ---- branch.c: branches younger than the library, and places without code ---- */

struct opencsd_young {
	uint64_t ip;		/* of the branch */
	uint32_t n, size;	/* instructions before it, size of the last one */
	bool missing;		/* it is no branch: there is no code */
};

/* Does the library take a branch in this range for a plain instruction, or did it go,
 * up to a source address, over a place without code? */
bool opencsd_find_young(struct opencsd *d, const ocsd_generic_trace_elem *e,
			struct opencsd_young *y);

/* ---- event.c: events that need no code ---- */

/* ip counts if known. */
void opencsd_push_gap(struct opencsd *d, enum aux_gap_cause cause,
		      bool known, uint64_t ip, uint64_t detail);
void opencsd_push_on(struct opencsd *d, trace_on_reason_t reason);
void opencsd_push_time(struct opencsd *d, uint64_t ts);
void opencsd_push_cycles(struct opencsd *d, uint32_t n);
/* kind and offset do not count. */
void opencsd_push_context(struct opencsd *d, const struct aux_flow *context);
/* The last CONTEXT with what a packet says. */
struct aux_flow opencsd_add_context(const struct opencsd *d,
				    const etmv4_context_t *from);
void opencsd_push_event(struct opencsd *d, uint64_t number);
/* The last instruction was an exception return. */
void opencsd_end_return(struct opencsd *d);
void opencsd_lose_sync(struct opencsd *d, unsync_info_t why);
/* Does the host need the time of a run before its first instruction? */
bool opencsd_wants_lookahead(const struct opencsd *d);
void opencsd_look_ahead(struct opencsd *d);

/* ---- element.c, packet.c: the library's callbacks ---- */

void opencsd_fill_ends(struct opencsd *d);
ocsd_datapath_resp_t opencsd_handle_element(const void *priv,
					    ocsd_trc_index_t index, uint8_t id,
					    const ocsd_generic_trace_elem *e);
void opencsd_handle_packet(const void *priv, ocsd_datapath_op_t op,
			   ocsd_trc_index_t index, const void *packet,
			   uint32_t size, const uint8_t *data);
/* After missing code atoms are fed singly. True: the next packet is done with,
 * or lib.n_single atoms of it are to be fed. */
bool opencsd_feed_singly(struct opencsd *d);
void opencsd_drop_q(struct opencsd *d);
/* Would the next packet, an exception or Q, have the library walk from a wrong
 * place? */
bool opencsd_would_mislead(const struct opencsd *d);

/* ---- run.c ---- */

void opencsd_fill_special(struct opencsd *d);
/* One call of the library, or what stands in for it. */
void opencsd_step(struct opencsd *d);

/* ---- small helpers ---- */

static inline bool opencsd_is_source(const struct opencsd *d)
{
	return d->in.packet_type >= ETE_PKT_I_SRC_ADDR_MATCH &&
	       d->in.packet_type <= ETE_PKT_I_SRC_ADDR_L_64IS1 && d->src.in_order;
}

static inline bool opencsd_is_q(uint8_t header)
{
	return header >> 4 == ETM4_PKT_I_Q >> 4;
}

static inline bool opencsd_is_atoms(const struct opencsd *d)
{
	return d->in.packet_type >= ETM4_PKT_I_ATOM_F6 && d->in.packet_type <= 0xff;
}

/* A sync point: missing code has no effect past it. */
static inline void opencsd_clear_missing(struct opencsd *d)
{
	d->missing.unsure = d->missing.adrift = d->missing.wrong = false;
	d->lib.n_single = 0;
}

/* The library's index, of 32 bits, as a position in the chunk. */
static inline uint64_t opencsd_pos(const struct opencsd *d, ocsd_trc_index_t i)
{
	int64_t pos = (int64_t)d->in.fed +
		      (int32_t)((uint32_t)i - (uint32_t)d->in.fed);

	return pos < 0 ? 0 : (uint64_t)pos;
}

static inline void opencsd_at(struct opencsd *d, uint64_t pos)
{
	if (pos <= d->in.chunk->len)
		aux_queue_at(&d->q, d->in.chunk->stream_offset + pos);
}

/* opencsd_at() for the library's index, on the fast path. */
static inline void opencsd_at_index(struct opencsd *d, ocsd_trc_index_t i)
{
	int32_t n = (int32_t)((uint32_t)i - (uint32_t)d->in.fed);
	uint64_t offset = d->in.fed_offset + (uint64_t)(int64_t)n;

	if (offset > d->q.offset && offset <= d->in.end_offset)
		d->q.offset = offset;
}

static inline void opencsd_settle(struct opencsd *d, uint64_t ip)
{
	if (d->q.unsettled != AUX_QUEUE_NONE)
		aux_queue_settle(&d->q, ip);
}

#endif
