/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The decoder for ETMv4 and ETE: what its files share. struct etm holds the
 * state of one decoder by role; what was learned of the program's code is in
 * memo.h and outlives chunks. One thread uses a decoder at a time, so nothing
 * here is locked.
 *
 * Two states follow the packets, and they differ where the trace is damaged:
 * "emitting" packets become events that need no code (time, context), from
 * Trace Info until packets are lost; the flow (atoms over code) runs in state
 * ETM_DECODE only.
 *
 * Specifications: Arm IHI 0064 (ETMv4), DDI 0487 chapter D5 "ETE protocol".
 */
#ifndef DECODE_LIB_ETM_IMPL_H
#define DECODE_LIB_ETM_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#include <aux/decoder_queue.h>

#include "common/etm_lookahead.h"
#include "decode/lib/etm/memo.h"

#define ETM_QUEUE_FULL 1024	/* events; no packet is parsed from here on */
#define ETM_PACKET_EVENTS 64	/* of one packet, at most */
#define ETM_WALK_MAX (1u << 20)	/* bytes of code in one range */
#define ETM_ATOMS_MAX 25	/* of one packet (Atom format 6) */
#define ETM_RETURNS 16		/* depth of the return stack */
#define ETM_EARLY_MAX 16	/* events before Trace Info */
#define ETM_DETAIL_NO_CODE 27	/* gap.detail: OCSD_ERR_MEM_NACC */

_Static_assert(ETM_QUEUE_FULL + 2 * ETM_PACKET_EVENTS <= AUX_QUEUE_MAX,
	       "a packet fits into the queue");

enum etm_sync_state {
	ETM_WAIT_ASYNC,		/* bytes are skipped up to A-Sync */
	ETM_WAIT_INFO,		/* packets are known, the flow is not */
	ETM_DECODE,
};

/* The last loss of flow that was emitted: it is not emitted twice. */
enum etm_loss {
	ETM_LOSS_NONE, ETM_LOSS_OVERFLOW, ETM_LOSS_BAD, ETM_LOSS_DISCARD,
};

/* How the rest of a packet is parsed, by its header. */
enum etm_class {
	ETM_BAD = 0,		/* reserved */
	ETM_UNSUPPORTED,	/* left to another decoder */
	ETM_OTHER,
	ETM_ATOMS,
	ETM_MATCH, ETM_SHORT, ETM_LONG32, ETM_LONG64,	/* addresses */
};

/* ---- the state of one decoder ---- */

/* What the registers of the source say. Constant after open. */
struct etm_source {
	bool ete, return_stack;
	uint8_t version;	/* 0x42: ETMv4.2; ETE is 0x50 */
	bool wfx_is_p0;		/* wfi and wfe are P0 elements */
	uint8_t n_vmid, n_cid;	/* bytes in a context packet */
	uint32_t cycle_mask;
	bool has_timestamps;
	bool cycles_add_up;	/* a cycle count is no event of its own: the next
				 * timestamp reports it */
	bool unsupported;	/* no chunk of this source is for us */
	uint8_t class[256];	/* enum etm_class by header */
	uint32_t atoms[64];	/* by header - 0xc0, as in etm_path */
};

/* The host's code, as regions in the memo. */
struct etm_code {
	uint64_t generation;	/* of the host, in this decode() */
	struct etm_region *last;	/* hint; NULL: none */
	struct etm_region spare;	/* in place of one that the full memo
					 * cannot keep; valid until the next */
};

/* The chunk, valid from start to start. */
struct etm_input {
	const struct aux_chunk *chunk;
	const uint8_t *data;
	uint64_t pos, len;
	uint64_t packet;	/* position of the last packet parsed */
	bool truncated;		/* the chunk ends inside this packet */
};

struct etm_sync {
	enum etm_sync_state state;
	bool framed;		/* since an A-Sync packet boundaries are known */
	bool found;		/* there was an A-Sync in this chunk */
	bool informed;		/* Trace Info since the last loss */
	bool emitting;		/* packets become events */
	bool in_exception;	/* emitting: the next address is that of an
				 * exception, not one where the flow goes on */
};

/* Where the flow is, in state ETM_DECODE. */
struct etm_flow {
	enum etm_where where;
	bool has_ip;
	bool code_64;		/* the code at ip is A64 */
	uint64_t ip;		/* of the next instruction, with has_ip */
	bool overflowed;	/* until the flow goes on after a Trace On */
	bool trace_on;		/* Trace On came, its first P0 element did not */
};

/* What a context packet says. */
struct etm_ids {
	uint8_t el;
	bool secure, is_64, has_vmid, has_cid;
	uint32_t vmid, cid;
};

struct etm_context {
	struct etm_ids last;	/* for the packet that says "as before" */
	bool last_known;	/* since Trace Info: what was before that, a
				 * chunk that begins there does not know */
	bool sf_known, sf;	/* its width: how long addresses continue */
	bool needed;		/* no atom can be followed without one */
	bool is_64;
	bool pending;		/* no instruction ran since; a discard goes back */
	bool old_64;		/* to this, with pending */
	bool emitted;		/* event is valid */
	struct aux_flow event;	/* the last CONTEXT */
};

/* An exception packet whose address has not come yet. */
struct etm_exception {
	bool pending;		/* the rest is valid */
	bool broken;		/* another packet stands in between */
	bool has_context;
	struct etm_ids context;
	bool target;		/* its address is an indirect branch's, too */
	uint16_t number;
};

/*
 * An exception whose events follow the CONTEXT it comes with: the host may
 * switch at that, and must do so before any code is read for what follows.
 */
struct etm_deferred {
	bool valid;
	bool has_range;		/* range ran before it */
	bool no_code;		/* at ip, before the address was reached */
	bool overrun;		/* ip is past the address: the walk was wrong */
	bool desync;		/* with overrun: by code, not for lack of it */
	uint16_t number;
	uint64_t from, ip;
	struct aux_flow range;
};

/* Events seen between A-Sync and Trace Info (ETE): emitted at the next
 * packet. */
struct etm_early {
	unsigned n;
	struct {
		uint64_t pos;
		uint8_t value;
	} ev[ETM_EARLY_MAX];
};

/* A Q packet whose address has not come yet (q.c). */
struct etm_q {
	bool pending;		/* the rest is valid */
	bool broken;		/* another packet stands in between */
	bool has_context;	/* a context does */
	uint32_t n;		/* instructions; 0: not told */
};

/* The decoder's copy of the trace unit's return stack. */
struct etm_returns {
	uint64_t addr[ETM_RETURNS];	/* a ring */
	uint32_t n, top;
	bool unsure;		/* code at unsure_ip may have called and returned: */
	uint64_t unsure_ip;	/* only what was pushed since counts */
	uint8_t unsure_cause;	/* why it is not known; enum aux_gap_cause */
};

/* The last three addresses, the newest first: packets are relative to them. */
struct etm_history {
	uint64_t ip[3];
	uint8_t is[3];		/* instruction set, 0 or 1 */
};

struct etm_timestamps {
	uint64_t base;		/* the last timestamp: bytes left out are its */
	bool base_known;	/* since Trace Info */
	uint64_t last;		/* the last one while emitting */
	enum etm_lookahead lookahead;
	bool foretold;		/* the last TIME comes from the look-ahead */
};

/* What was emitted last: how the next loss or exception is shown. */
struct etm_emitted {
	bool on;		/* flow since the last TRACE_ON */
	bool last_known;	/* last_ip and next_ip are valid */
	bool code_missing;	/* at etm.missing_ip; nothing ran since */
	enum etm_loss loss;
	uint64_t last_ip;	/* of the last instruction */
	uint64_t next_ip;	/* its end */
};

struct etm {
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	struct etm_source src;
	struct etm_memo *memo;	/* owned; replaced in start alone */
	struct etm_code code;
	bool may_switch;	/* the host acts on time or context, ever */

	/* of the chunk: */
	bool done;		/* all packets are parsed */
	bool unsupported;	/* the rest is for another decoder */
	struct etm_input in;
	struct etm_sync sync;
	struct etm_flow flow;
	struct etm_context ctx;
	struct etm_exception exc;
	struct etm_q wait;
	struct etm_deferred deferred;
	struct etm_early early;
	struct etm_returns ret;
	struct etm_history history;
	struct etm_timestamps ts;
	uint32_t cc_threshold;	/* added to each cycle count; Trace Info */
	struct etm_emitted out;
	uint64_t missing_ip;	/* with out.code_missing */
	struct aux_queue q;	/* last: open does not clear it */
};

/* The state before the atoms of a packet, to undo all of them. */
struct etm_mark {
	uint32_t tail, unsettled;
	uint64_t offset;
	struct etm_emitted out;
	struct aux_flow ev[AUX_QUEUE_WAIT_MAX];	/* from unsettled on */
};

/* ---- memo.c: code as nodes ---- */

/* The A64 instruction at ip. False: the host has no code there. */
bool etm_read_insn(struct etm *d, uint64_t ip, uint32_t *word);
/* The first address from ip on that has no code; end: all have, up to there. */
uint64_t etm_find_hole(struct etm *d, uint64_t ip, uint64_t end);
/* The node at ip; NULL: there is no code, or the memo cannot keep it. */
struct etm_node *etm_find_node(struct etm *d, uint64_t ip);
/* Fills node from ip to the next P0 element. False: there is no code at
 * node->next, it is not known what is there (node->kind is ETM_UNKNOWN), or the
 * walk was too long (d->unsupported); node has what precedes that. */
bool etm_walk(struct etm *d, uint64_t ip, struct etm_node *node);
/* Says in node what word does. True: it is a P0 element, or ETM_UNKNOWN. */
bool etm_classify(const struct etm *d, uint32_t word, uint64_t ip,
		  struct etm_node *node);
/* Does the host still have r at ip? Asks it once per generation. */
bool etm_is_current(struct etm *d, struct etm_region *r, uint64_t ip);
/* The RANGE of a node whose atom is E (taken) or N. */
struct aux_flow etm_range(const struct etm_node *n, bool taken);
/* Fills src.class and src.atoms. */
void etm_fill_headers(struct etm *d);

/* ---- path.c: atoms as paths; the return stack ---- */

/* The path of atoms from ip on; NULL: there is no code, or it cannot be
 * kept. */
struct etm_path *etm_find_path(struct etm *d, uint64_t ip, uint32_t atoms);
/* Is all the code of p what it was? Raises p's generation then. */
bool etm_is_valid(struct etm *d, struct etm_path *p);
void etm_follow_atoms(struct etm *d, uint32_t atoms);
/* The same for the last atoms of a packet; m: the state before the first. */
void etm_follow_rest(struct etm *d, uint32_t atoms, const struct etm_mark *m);
void etm_set_mark(const struct etm *d, struct etm_mark *m);
void etm_apply_returns(struct etm *d, const struct etm_path *p);
void etm_push_return(struct etm *d, uint64_t ip);
/* Goes on at the address on top. False: the stack is empty. */
bool etm_pop_return(struct etm *d);
/* Code at ip is missing or not known, for that cause: what it pushed and popped
 * is unknown. */
void etm_invalidate_returns(struct etm *d, uint64_t ip, enum aux_gap_cause why);
/* A return address is missing for that reason: emits a GAP. */
void etm_lose_flow(struct etm *d);
/* A P0 element: what precedes it happened. */
void etm_commit(struct etm *d);

/* ---- event.c: events, exceptions, source addresses ---- */

void etm_push_range(struct etm *d, const struct aux_flow *range);
void etm_push_path(struct etm *d, struct etm_path *p);
/* ip counts if known. */
void etm_push_gap(struct etm *d, enum aux_gap_cause cause, bool known,
		  uint64_t ip, uint64_t detail);
void etm_push_no_code(struct etm *d, uint64_t ip);
/* The instruction at ip ran and is not known: adrift up to the next address. */
void etm_push_unknown(struct etm *d, uint64_t ip);
void etm_push_on(struct etm *d);
void etm_push_time(struct etm *d, uint64_t ts);
void etm_push_cycles(struct etm *d, uint32_t n);
void etm_push_context(struct etm *d, const struct etm_ids *ids);
/* Overflow or discard; once, however many packets say so. */
void etm_push_loss(struct etm *d, enum etm_loss why);
/* The last instruction was an exception return. */
void etm_end_return(struct etm *d);
/* d->deferred, after its CONTEXT. */
void etm_push_deferred(struct etm *d);
/* The address of a pending exception: where it returns to. */
void etm_apply_exception(struct etm *d, uint64_t from);
/* A source address element (ETE): the instruction at ip is a P0 element. */
void etm_apply_source(struct etm *d, uint64_t ip);

/* ---- q.c: instructions without atoms ---- */

/* q ran, and then the instruction at to. */
void etm_apply_q(struct etm *d, const struct etm_q *q, uint64_t to);
/* The trace ends, or loses its way, before the address of a Q packet. */
void etm_drop_q(struct etm *d);

/* ---- packet.c: one packet each ---- */

/* The packet at in.pos, whatever it is; or bytes up to A-Sync. */
void etm_parse_packet(struct etm *d);
/* Emits a GAP; everything up to the next A-Sync is lost. */
void etm_fail(struct etm *d, enum aux_gap_cause cause);
void etm_push_early(struct etm *d);
/* The end of the chunk. */
void etm_finish(struct etm *d);
void etm_look_ahead(struct etm *d);

/* ---- fast.c: the loop over packets ---- */

/* Parses packets into the queue until it is full, the chunk ends or the host
 * has to act. direct: returns after a packet from which etm_parse_direct() can
 * go on. */
void etm_parse(struct etm *d, bool direct);
/* Fast packets straight into out[0..max); returns how many events. The last
 * event, and it alone, stays in the queue, where a later packet may amend
 * it. */
size_t etm_parse_direct(struct etm *d, struct aux_flow *out, size_t max);

/* ---- small helpers ---- */

static inline void etm_at(struct etm *d, uint64_t pos)
{
	aux_queue_at(&d->q, d->in.chunk->stream_offset + pos);
}

static inline void etm_continue_at(struct etm *d, uint64_t ip)
{
	d->flow.ip = ip;
	d->flow.has_ip = true;
}

static inline void etm_settle(struct etm *d, uint64_t ip)
{
	if (d->q.unsettled != AUX_QUEUE_NONE)
		aux_queue_settle(&d->q, ip);
}

/* Events that follow are those of this packet. */
static inline void etm_emit_at_packet(struct etm *d)
{
	etm_at(d, d->in.packet);
	if (!d->sync.in_exception)
		d->early.n = 0;
}

static inline void etm_clear_returns(struct etm *d)
{
	d->ret.n = 0;
	d->ret.unsure = false;
	if (d->flow.where == ETM_AT_RETURN)
		d->flow.where = ETM_AT_ADDRESS;
}

/* 0 at the end of the chunk, with in.truncated. */
static inline uint8_t etm_read_byte(struct etm *d)
{
	if (d->in.pos < d->in.len)
		return d->in.data[d->in.pos++];
	d->in.truncated = true;
	return 0;
}

static inline uint64_t etm_read_bytes(struct etm *d, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)etm_read_byte(d) << 8 * i;
	return v;
}

/* A ULEB128 field of any length; bytes past max do not count. */
static inline uint32_t etm_read_uleb(struct etm *d, unsigned max)
{
	uint32_t v = 0;

	for (unsigned i = 0;; i++) {
		uint8_t b = etm_read_byte(d);

		if (i < max)
			v |= (uint32_t)(b & 0x7f) << 7 * i;
		if (b < 0x80)
			return v;
	}
}

#endif
