/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the Intel PT engine share.
 *
 * The store holds code in the form that the flow needs: regions, nodes, paths. It
 * outlives chunks and address spaces. The cursor is where one chunk's decoding is.
 * A cursor goes two ways over the same packets: quickly, packet by packet along
 * paths (run.c), wherever a TNT or TIP leads on; and branch by branch,
 * asking for packets as they are needed (slow.c), everywhere else.
 */
#ifndef DECODE_LIB_PT_ENGINE_H
#define DECODE_LIB_PT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>

#include "common/x86_insn.h"
#include "decode/lib/packet/pt_packet.h"
#include "decode/lib/pt/memo.h"
#include "decode/lib/pt/time.h"

/*
 * What packets of Intel PT tell beside TNT and TIP: events, and the packets that
 * they wait for.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace".
 */

enum pt_event_type {
	PT_EV_ENABLED = 1,
	PT_EV_DISABLED,
	PT_EV_ASYNC_DISABLED,
	PT_EV_ASYNC_BRANCH,
	PT_EV_PAGING,
	PT_EV_ASYNC_PAGING,
	PT_EV_VMCS,
	PT_EV_ASYNC_VMCS,
	PT_EV_OVERFLOW,
	PT_EV_MODE,
	PT_EV_TSX,
	PT_EV_STOP,
	PT_EV_EXSTOP,
	PT_EV_MWAIT,
	PT_EV_PWRE,
	PT_EV_PWRX,
	PT_EV_PTWRITE,
	PT_EV_CBR,
	PT_EV_NOTHING,		/* MNT and others that tell nothing */
	PT_EV_CFE,
	PT_EV_EVD,
};

/* The packet that gives an event its ip. */
enum pt_binding { PT_BIND_NONE = 0, PT_BIND_PSBEND, PT_BIND_TIP, PT_BIND_FUP };

struct pt_event {
	uint8_t type;
	uint8_t binding;
	bool has_ip;		/* to, or where it is */
	bool status;		/* of a PSB+ */
	bool timed;
	uint8_t size, what;	/* of a payload; of CFE, EVD */
	uint64_t ip, from;
	uint64_t value, value2;
	uint64_t tsc;		/* valid with timed */
};

#define PT_EVENTS 24

/* ---- the cursor ---- */

#define PT_STACK 64		/* calls, power of two */
#define PT_SCRATCH 131072	/* bytes of paths that are not kept */

/* Why decoding cannot go on; detail of a GAP. */
enum pt_error {
	PT_E_EOS = 1,		/* not an error: the packets end */
	PT_E_PACKET,		/* bytes that are no packet */
	PT_E_CONTEXT,		/* a packet where it cannot be */
	PT_E_QUERY,		/* packet and code contradict each other */
	PT_E_NOIP,		/* an ip is needed and there is none */
	PT_E_RETURN,		/* a compressed return that has no call */
	PT_E_CODE,		/* no code at miss_ip */
	PT_E_INSN,		/* bytes that are no instruction */
	PT_E_LIMIT,		/* more events in a row than we hold */
	PT_E_NOMEM,
	PT_E_UNSUPPORTED,
};

/* Calls that did not return yet: ips of one path, which stay where they are. */
struct pt_calls {
	const uint64_t *sites;
	uint64_t n;		/* of them that are open; the last returns first */
};

/*
 * CYCs and MTCs that the quick way goes over: where nobody asks for times below the
 * horizon, MTCs alone tell that it is far. At a PSB they are forgotten; where the time
 * matters before that, they are read after all.
 */
struct pt_skip {
	const uint8_t *from;	/* they begin here; NULL: there are none */
	const uint8_t *guard;	/* up to here CYCs do not lead far */
	uint64_t periods;	/* of MTCs, since from */
	uint8_t ctc;		/* of the last one */
};

struct pt {
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	struct pt_store store;
	struct pt_time time;
	uint16_t errata;	/* PT_ERR_* */

	/* packets */
	const struct aux_chunk *chunk;
	const uint8_t *p, *end;
	const uint8_t *sync;	/* where to look for the next PSB */
	unsigned block;		/* items' size in a BBP block, else 0 */
	uint64_t packet_ip;	/* the last IP, */
	bool have_ip, suppressed;
	uint64_t bits;		/* of TNT, n_bits of them, the oldest highest */
	unsigned n_bits;
	struct pt_event ev[PT_EVENTS];	/* that wait for a packet */
	unsigned n_ev;

	/* the flow */
	bool synced, enabled, done, unsupported, failed_mem;
	bool consumed;		/* the IP packet at p goes with its last event */
	bool held;		/* event is there, and did not happen yet */
	struct pt_event event;
	bool has_late;		/* late is there: a CBR of a PSB+, which is told */
	struct pt_event late;	/* with the next event of it, where that happens */
	uint64_t before_psb;	/* the TSC in front of the last PSB; 0: unknown */
	uint8_t bound;		/* PT_BOUND_*: what the postponed one has had */
	struct x86_insn insn;	/* the branch that was walked to, */
	uint64_t insn_ip;
	bool mode16;
	bool postponed;		/* behind the instruction that takes the next
				 * TIP, which is given already */
	bool need_on;		/* TRACE_ON is due before the next RANGE */
	uint64_t ip;
	uint16_t flags;		/* of RANGEs */
	bool no_mode;		/* no MODE packet told it */
	struct pt_calls calls[PT_STACK];
	uint64_t own[PT_STACK];	/* sites of calls that are of no path */
	uint32_t top;		/* of calls */
	uint32_t depth;		/* sites in them that count, the newest */
	uint64_t last_ip;	/* of the last instruction given */
	uint64_t miss_ip;
	uint64_t cr3, vmcs;
	uint64_t offset;	/* of the last event */

	/* walking */
	uint32_t untraced, loop_mark; /* jumps since the last packet */
	uint64_t loop_ip;
	uint64_t next_seq;	/* behind the last instruction walked */

	/* time */
	bool have_time;		/* a TIME was given since the sync */
	bool at_horizon;	/* a TIME in queue reaches it */
	uint64_t tsc;		/* of the last TIME, */
	uint64_t told_cycles;	/* and time.total then */
	uint64_t pushed_tsc, given_tsc; /* ever */
	struct pt_skip skip;
	uint32_t skip_bytes;	/* from an MTC to the guard */
	uint32_t skip_periods;	/* with fewer up to the horizon all is read */

	/* events that are ready, up to sure; RANGEs that a packet must confirm */
	struct aux_flow *queue;
	uint32_t head, sure, tail, cap;

	/* the last item was a TNT, taken quickly: until what follows is seen */
	size_t mark;		/* its first event in the batch; SIZE_MAX: none */
	struct pt_entry entry;	/* of the last path that is not kept */
	uint64_t mark_ip;	/* where the item began */
	bool mark_tip;		/* it was a TIP */
	uint64_t tip_place;	/* where the last one led */

	struct pt *ahead;	/* scratch of pt_query_ahead */
	struct aux_flow none;	/* takes what is not told */
	uint32_t told, told_sure; /* where the event's first one is, and */
	uint64_t told_ip;	/* what was before it */
	bool mute;		/* nothing is told of the event that happens */
	uint8_t *scratch;
	size_t n_scratch;
};

enum {
	PT_ERR_BDM70 = 1, PT_ERR_BDM64 = 2, PT_ERR_SKD007 = 4,
	PT_ERR_SKD022 = 8, PT_ERR_SKD010 = 16, PT_ERR_SKL014 = 32,
	PT_ERR_APL12 = 64, PT_ERR_APL11 = 128,
};

/* run.c: the quick way. Returns the events given. */
size_t pt_run(struct pt *d, struct aux_flow *out, size_t max, bool *stop);

/* pace.c: time is up to date: all in front of p is read that was skipped, or
 * forgotten, where a PSB is next. */
void pt_skip_end(struct pt *d, const uint8_t *p);

/* path.c: what bits (below a stop bit, PT_TIP) do at a place. NULL: there
 * is no code, the branch there takes no such packet, or no memory. */
const struct pt_entry *pt_path_find(struct pt *d, uint64_t place, unsigned bits);

/* slow.c: one step, whatever comes */
void pt_slow_step(struct pt *d);
/* Walks to where a packet is needed (0), to ip (1), or -enum pt_error. */
int pt_slow_walk(struct pt *d, const uint64_t *ip);
/* The same, to an instruction of one kind (1). It counts as walked; d->ip is
 * still there. */
typedef bool (*pt_match)(const uint8_t *p, size_t n,
			 const struct x86_insn *insn);
int pt_slow_walk_match(struct pt *d, pt_match match);
/* The branch walked to takes its packet. */
int pt_slow_take(struct pt *d);
/* Both, behind what is postponed: 0, or -enum pt_error. */
int pt_slow_branch(struct pt *d);
/* Goes on behind a postponed instruction. */
int pt_slow_proceed(struct pt *d);
void pt_slow_turn_on(struct pt *d);

/* query.c: packets as they are asked for */
/* Goes to the next packet that matters: its enum pt_item, or -enum pt_error. */
enum pt_item { PT_ITEM_TNT = 1, PT_ITEM_TIP, PT_ITEM_EVENT };
int pt_query_item(struct pt *d);
enum { PT_BOUND_PAGING = 1, PT_BOUND_VMCS = 2 };
/* The next event, at an item that is one. */
int pt_query_event(struct pt *d, struct pt_event *ev);
/* What pt_query_item will find from p on; *pos is where. Changes nothing. */
int pt_query_peek(const struct pt *d, const uint8_t *p, const uint8_t **pos);
int pt_query_ahead(const struct pt *d, const uint8_t **pos, bool *fetched);
int pt_query_header(struct pt *d);
/* The type of the packet that the bytes at d->p end in. */
unsigned pt_query_cut(const struct pt *d);
bool pt_query_has(const struct pt *d, enum pt_binding binding);

/* event.c: an event happens */
int pt_event_apply(struct pt *d, struct pt_event *ev);
/* What came with d->event, and waited for it, happens. */
void pt_event_late(struct pt *d);
/* True: a TIME; look at at_horizon. */
bool pt_event_time(struct pt *d, uint64_t tsc);
void pt_event_ip(struct pt *d, enum aux_flow_kind kind, unsigned what,
		 bool known, uint64_t ip);
struct aux_flow *pt_event_push(struct pt *d, enum aux_flow_kind kind,
			       unsigned what);

/* sync.c: synchronization, errors, the end of a chunk */
void pt_sync_next(struct pt *d);
void pt_sync_fail(struct pt *d, int err, const uint8_t *pos);
void pt_sync_end(struct pt *d);
/* How many of the events of the quick way stand; the error of the others is told. */
size_t pt_sync_check(struct pt *d, struct aux_flow *out, size_t n, bool *stop);

/* ---- the queue ---- */

/* decoder.c: room for another event. False: no memory */
bool pt_queue_room(struct pt *d);

static inline void pt_confirm(struct pt *d)
{
	if (d->sure < d->tail)
		d->last_ip = d->queue[d->tail - 1].range.last;
	d->sure = d->tail;
}

/* For a TIME: cycles since the last one. */
static inline uint32_t pt_take_cycles(struct pt *d)
{
	uint64_t n = d->time.total - d->told_cycles;

	if (d->host->time_step == UINT64_MAX) /* some were skipped */
		return 0;
	d->told_cycles = d->time.total;
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Who runs must be known before the first code is asked for. */
static inline bool pt_is_time_up(struct pt *d)
{
	if (d->time.known && pt_event_time(d, d->time.tsc))
		return d->at_horizon;
	return false;
}

static inline uint64_t pt_offset(const struct pt *d, const uint8_t *p)
{
	return d->chunk->stream_offset + (uint64_t)(p - d->chunk->data);
}

/* What query.c and ahead.c share of reading packets. */

/* The packets that may be between an OVF and its FUP. */
#define BEFORE_FUP                                                             \
	(1U << PTPKT_PAD | 1U << PTPKT_MNT | 1U << PTPKT_CBR |                 \
	 1U << PTPKT_TSC | 1U << PTPKT_TMA | 1U << PTPKT_MTC | 1U << PTPKT_CYC)
/* and those that cannot be there at all */
#define NOT_BEHIND_OVF                                                         \
	(1U << PTPKT_PSBEND | 1U << PTPKT_TIP | 1U << PTPKT_TIP_PGD |          \
	 1U << PTPKT_TNT)
#define IN_HEADER                                                              \
	(BEFORE_FUP | 1U << PTPKT_FUP | 1U << PTPKT_PIP | 1U << PTPKT_VMCS |   \
	 1U << PTPKT_MODE_EXEC | 1U << PTPKT_MODE_TSX)
/* nothing for the flow, beyond time */
#define SKIPPED                                                                \
	(1U << PTPKT_PAD | 1U << PTPKT_TSC | 1U << PTPKT_TMA |                 \
	 1U << PTPKT_MTC | 1U << PTPKT_CYC | 1U << PTPKT_BBP |                 \
	 1U << PTPKT_BIP)

static inline bool is_in(const struct ptpkt *pkt, uint32_t set)
{
	return set >> pkt->type & 1;
}

/*
 * The return stack of the Intel PT engine: calls that compressed returns may go back
 * to, the newest PT_STACK of them.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace", "Indirect
 * Transfer Compression for Returns (RET)".
 */

static inline void pt_push_own(struct pt *d, uint64_t ip)
{
	uint32_t i = d->top++ & (PT_STACK - 1);

	d->own[i] = ip;
	d->calls[i] = (struct pt_calls){ &d->own[i], 1 };
}

static inline void pt_push_call(struct pt *d, uint64_t ip)
{
	pt_push_own(d, ip);
	if (d->depth < PT_STACK)
		d->depth++;
}

/* Where the last call returns to; depth is not 0. */
static inline uint64_t pt_top_call(const struct pt *d)
{
	const struct pt_calls *c = &d->calls[(d->top - 1) & (PT_STACK - 1)];

	return c->sites[c->n - 1];
}

static inline uint64_t pt_pop_call(struct pt *d)
{
	struct pt_calls *c = &d->calls[(d->top - 1) & (PT_STACK - 1)];
	uint64_t ip = pt_top_call(d);

	d->top -= !--c->n;
	d->depth--;
	return ip;
}

#endif
