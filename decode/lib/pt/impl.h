/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the Intel PT decoder share: the state of one decoder, and
 * the functions of each file that others call.
 *
 * Two paths through the same packets. The fast path (fast.c) goes from packet
 * to packet along the memo: what a TNT or TIP did at an address when it was
 * seen there before; and through pauses of tracing (pause.c). The slow path
 * (slow.c) walks instruction by instruction and asks for packets as the code
 * needs them (events.c); it handles events, broken trace, code that the memo
 * cannot hold, and the beginning and the end of a chunk. decoder.c alternates:
 * the fast path as far as it goes, then one step of the slow path.
 *
 *	packets --> events.c --> slow.c, apply.c --> output queue --> caller
 *	      \---> fast.c, pause.c with memo.c -------------------> caller
 *
 * The reference is libipt: event by event the flow is the one that
 * decode/lib/libipt delivers, on broken trace too (`auxdecode verify`,
 * tests/fuzz/fuzz_ptflow.c), but that after missing code the flow may go on
 * before the next PSB (resume.c). Where a comment says "as libipt does", that is the
 * only reason for the order of things.
 *
 * A decoder belongs to one thread at a time, and so does all that is declared
 * here.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace".
 */
#ifndef DECODE_LIB_PT_IMPL_H
#define DECODE_LIB_PT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <aux/decoder.h>

#include "common/x86_insn.h"
#include "decode/lib/packet/packet.h"
#include "decode/lib/pt/memo.h"
#include "decode/lib/pt/time.h"

/* Why decoding cannot go on; the detail of a GAP. Functions return them
 * negated. */
enum pt_error {
	PT_E_EOS = 1,		/* not an error: the packets end */
	PT_E_PACKET,		/* bytes that are no packet */
	PT_E_CONTEXT,		/* a packet where it cannot be */
	PT_E_QUERY,		/* packet and code contradict each other */
	PT_E_NOIP,		/* an ip is needed and the packet has none */
	PT_E_RETURN,		/* a compressed return without a call */
	PT_E_CODE,		/* no code at walk.miss_ip */
	PT_E_INSN,		/* bytes that are no instruction */
	PT_E_LIMIT,		/* more events wait than we hold */
	PT_E_NOMEM,
	PT_E_UNSUPPORTED,	/* left to libipt: -AUX_E_UNSUPPORTED */
};

/* ---- events: what packets other than TNT and TIP say ---- */

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
	PT_EV_MODE,		/* value: AUX_FLOW_MODE_*, value2: it names none */
	PT_EV_TSX,		/* value: flags of MODE.TSX */
	PT_EV_STOP,
	PT_EV_EXSTOP,
	PT_EV_MWAIT,
	PT_EV_PWRE,
	PT_EV_PWRX,
	PT_EV_PTWRITE,
	PT_EV_CBR,
	PT_EV_NOTHING,		/* MNT and others without a meaning for the flow */
	PT_EV_CFE,
	PT_EV_EVD,
	PT_EV_TRIG,
};

/* The packet that gives an event its ip, or completes it. */
enum pt_binding { PT_BIND_NONE = 0, PT_BIND_PSBEND, PT_BIND_TIP, PT_BIND_FUP };

struct pt_event {
	uint8_t type;		/* enum pt_event_type */
	uint8_t binding;	/* enum pt_binding */
	bool has_ip;
	bool status;		/* from a PSB+: a state, not a change */
	bool timed;		/* tsc is valid */
	bool retried;		/* the flow was lost, and went on at it */
	uint8_t size;		/* PTWRITE: bytes of value */
	uint8_t what;		/* CFE, EVD: type; TRIG: which; MODE: the interrupt
				 * flag */
	bool shares;		/* bound to a FUP that begins a branch, too */
	uint64_t ip;		/* with has_ip: where it is, or leads to */
	uint64_t from;		/* ASYNC_BRANCH, ASYNC_DISABLED: where it left */
	uint64_t value, value2;
	uint64_t tsc;
};

#define PT_EVENTS 24

/* ---- the packet cursor ---- */

enum pt_state {
	PT_UNSYNCED = 0, /* look for a PSB: nothing else is known */
	PT_OFF, /* synchronized; tracing is off, walk.ip is not valid */
	PT_ON, /* synchronized; the flow is at walk.ip */
};

/* Last IP, to which the next IP packet may be relative (SDM, "IP
 * Compression"). */
enum pt_ip_state {
	PT_IP_NONE = 0,		/* no IP since the PSB or OVF */
	PT_IP_SUPPRESSED,	/* the last IP packet had IPBytes 0 */
	PT_IP_KNOWN,
};

/*
 * Where reading is, and all that reading changes. It is complete: a copy of it
 * can be read further to see what comes (pt_look_ahead), and nothing is undone.
 */
struct pt_cursor {
	const uint8_t *p, *end;	/* next packet; end of the chunk */
	enum pt_state state;	/* set by sync.c and apply.c */
	uint8_t ip_state;	/* enum pt_ip_state */
	bool consumed;		/* the IP packet at p goes with its last event: it
				 * gave one, and stays until it gave all */
	uint16_t errata;	/* PT_ERR_*, constant */
	unsigned block;		/* items' size inside a BBP block, else 0 */
	uint64_t last_ip;	/* valid with PT_IP_KNOWN */
	bool whole_ip;		/* an IP packet had all of its bits: last_ip does
				 * not depend on packets before it; set alone */
	const uint8_t *psb;	/* the last one read */
	uint64_t bits; /* rest of a TNT before p: n_bits, the oldest highest */
	unsigned n_bits;
	uint64_t before_psb;	/* TSC before the last PSB; 0: not known */
	struct pt_time time;	/* as of the packets before p */
	struct {		/* events that wait for the packet they are bound
				 * to, in the order in which they happen */
		struct pt_event ev[PT_EVENTS];
		unsigned n;
	} bound;
};

/* ---- the flow ---- */

enum pt_pending_what {
	PT_PENDING_ON = 1,	/* TRACE_ON is due before the next RANGE */
	PT_PENDING_BRANCH = 2,	/* walk.insn is in the queue, and takes its packet
				 * only when no further event can belong to it */
	PT_PENDING_EVENT = 4,	/* event was read and not applied */
	PT_PENDING_LATE = 8,	/* late was read: see below */
	PT_PENDING_LOST = 16,	/* where the flow is is not known: resume.c reads
				 * on until it is */
};

/* What was read or walked and has not had its effect. None of it: the flow is
 * between two packets, and the fast path may go on. */
struct pt_pending {
	unsigned what;		/* enum pt_pending_what */
	uint8_t joined; /* PT_JOINED_*: events that the pending branch had */
	struct pt_event event;	/* valid with PT_PENDING_EVENT, and while applied */
	struct pt_event
		late; /* valid with PT_PENDING_LATE: a CBR of a PSB+, which
				 * is applied with the next event of that PSB+, as
				 * it has no ip of its own */
};

enum { PT_JOINED_PAGING = 1, PT_JOINED_VMCS = 2, PT_JOINED_CFE = 4 };

enum pt_mode {
	PT_MODE_NONE =
		0, /* no MODE.Exec since the PSB, or one that names none */
	PT_MODE_16, /* not decoded here: PT_E_UNSUPPORTED */
	PT_MODE_32,
	PT_MODE_64,
};

/* Walking through code. Valid with PT_ON. */
struct pt_walk {
	uint64_t ip;		/* of the next instruction */
	enum pt_mode mode;
	uint16_t flags;		/* of RANGEs: the mode, AUX_FLOW_IN_TX */
	struct x86_insn insn;	/* the last one walked, */
	uint64_t insn_ip;	/* where it is, */
	uint64_t next_ip;	/* and the address after it */
	uint64_t miss_ip;	/* valid with PT_E_CODE */
	/* Jumps in a row that take no packet: a loop of them never ends. The ip
	 * at each power of two is compared with later ones (Brent). */
	uint32_t untraced, loop_mark;
	uint64_t loop_ip;
};

/* Calls that did not return yet, of one path: its return addresses, in
 * place. */
struct pt_calls {
	const uint64_t *sites;
	uint64_t n;		/* those that are open; the last returns first */
};

/*
 * The return stack: where compressed returns lead (SDM, "Indirect Transfer
 * Compression for Returns (RET)"). A path of the memo is pushed as one entry
 * that points at its sites, whatever the number of its calls: nothing is copied
 * and nothing loaded (a quarter of the time of cc1 when it was introduced).
 * depth counts sites: the newest PT_STACK are valid, older ones are
 * overwritten.
 */
struct pt_stack {
	struct pt_calls calls[PT_STACK];
	uint64_t own[PT_STACK];	/* sites of calls that are of no kept path */
	uint32_t top;		/* entries ever pushed less those popped */
	uint32_t depth;
};

/* TIMEs: what was emitted, and when the next one is due. */
struct pt_times {
	bool have_time;		/* there was a TIME since the PSB: tsc is valid */
	bool at_horizon;	/* a TIME in the queue reaches the horizon */
	uint64_t tsc;		/* of the last TIME, */
	uint64_t emitted_cycles; /* and cur.time.total then */
	/* Across chunks: a TIME before them goes back, and the host has to
	 * look. */
	uint64_t queued_tsc, delivered_tsc;
};

/*
 * Lazy timing: packets of time that the fast path skipped; see fast.c. Valid
 * between two PSBs while from is set.
 */
struct pt_lazy {
	const uint8_t *from;	/* the first of them; NULL: time is up to date */
	const uint8_t *guard;	/* up to here CYCs alone cannot reach the horizon */
	uint64_t periods;	/* of MTCs since from */
	uint8_t ctc;		/* of the last MTC */
};

#define PT_NO_UNDO UINT32_MAX

/*
 * The output queue of the slow path: head <= committed <= tail <= cap.
 *
 * [head, committed) can be delivered. [committed, tail) are RANGEs of
 * instructions that needed no packet: a later packet confirms them, or they are
 * taken back.
 */
struct pt_output {
	struct aux_flow *queue;
	uint32_t head, committed, tail, cap;
	uint64_t offset; /* for events: stream offset of the current packet */
	uint64_t last_ip;	/* of the last instruction emitted */
	bool suppress;		/* the event is applied without being emitted */
	struct aux_flow none;	/* takes what is suppressed, or has no memory */
	struct {		/* the queue before the first emission for the event
				 * that is applied; tail PT_NO_UNDO: none yet */
		uint32_t tail, committed;
		uint64_t last_ip;
	} undo;
};

/* Going on after an error before the next PSB: see resume.c. */
struct pt_resume {
	bool early;		/* it was done in this chunk */
	bool open;		/* with PT_PENDING_LOST: bits of a TNT may belong
				 * after the next TIP */
	const uint8_t *run;	/* open by a TNT that is not full: where it ends,
				 * or the last TIP directly after it; else NULL */
	const uint8_t *psb;	/* cur.psb when the flow was lost */
	bool whole;		/* the packets are sound: code was missing */
	bool piece;		/* the flow up to the next packet, a TIP, was shown */
};

/* The last packet of the fast path: it stands once it is known that no broken
 * packet follows it. Valid from pt_fast_run to pt_sync_verify. */
struct pt_mark {
	size_t at;		/* its first event in the batch; SIZE_MAX: none */
	uint64_t ip;		/* where the flow was before it */
	bool tip;		/* it was a TIP, or ended in one */
};

/* Why no more flow comes of this chunk. Ordered: the highest is reported. */
enum pt_end { PT_RUNNING = 0, PT_DONE, PT_UNSUPPORTED, PT_NOMEM };

struct pt {
	/* given to open, constant */
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	uint32_t guard_bytes;	/* lazy timing: bytes from an MTC to the guard, */
	uint32_t min_periods;	/* and less than so many periods: not worth it */
	bool no_checks;		/* looks ahead at each item; for tests */

	/* outlives chunks */
	struct pt_memo memo;

	bool has_returns;	/* a bit was a return to a call that no path has */

	/* of the chunk, from start on */
	const struct aux_chunk *chunk;
	const uint8_t *sync;	/* where to look for the next PSB */
	enum pt_end end;
	struct pt_cursor cur;
	const uint8_t *checked;	/* items that begin before it need no look ahead */
	struct pt_pending pending;
	struct pt_walk walk;
	struct pt_stack stack;
	struct { uint64_t cr3, vmcs; } context; /* 0: not known since the PSB */
	struct pt_times times;
	struct pt_lazy lazy;
	struct pt_resume resume;
	struct pt_output out;
	struct pt_mark mark;
};

/* ---- decoder.c ---- */

/* Room for another event in the queue. False: no memory. */
bool pt_queue_room(struct pt *d);

static inline void pt_finish(struct pt *d, enum pt_end end)
{
	if (d->end < end)
		d->end = end;
}

/* ---- fast.c ---- */

/* Packets along the memo, into out. Returns the events written; *stop: the host
 * has to look at the last one before more is decoded. */
size_t pt_fast_run(struct pt *d, struct aux_flow *out, size_t max, bool *stop);

/* Ends lazy timing: all skipped packets before p are read, or forgotten where a
 * PSB is at p. */
void pt_lazy_end(struct pt *d, const uint8_t *p);

/* ---- slow.c ---- */

/* Does the item at cur.p stand, whatever follows it? cur is between two. */
bool pt_slow_is_checked(struct pt *d);

/* One step: a branch, an event, a synchronization, or the end. */
void pt_slow_step(struct pt *d);

/* Walks to where a packet is needed (0), to *ip (1), or -enum pt_error. */
int pt_slow_walk(struct pt *d, const uint64_t *ip);

/* Walks to an instruction that matches (1), which is in the queue then; walk.ip
 * is still there. 0 and errors as above. */
typedef bool (*pt_match)(const uint8_t *p, size_t n,
			 const struct x86_insn *insn);
int pt_slow_walk_match(struct pt *d, pt_match match);

/* The branch at walk.insn takes its packet: walk.ip is where it leads. */
int pt_slow_resolve(struct pt *d);

/* Passes the pending branch, walks to the next one and resolves it. */
int pt_slow_branch(struct pt *d);

/* A pending branch takes its packet now. 0 if there is none. */
int pt_slow_pass_branch(struct pt *d);

/* Emits a TRACE_ON that is due. */
void pt_slow_trace_on(struct pt *d);

/* ---- events.c: functions of the cursor ---- */

enum pt_item { PT_ITEM_TNT = 1, PT_ITEM_TIP, PT_ITEM_EVENT };

/* Reads up to the next packet that matters to the flow: enum pt_item, -enum
 * pt_error. */
int pt_next_item(struct pt_cursor *c);

/* The next event, where pt_next_item said PT_ITEM_EVENT. */
int pt_next_event(struct pt_cursor *c, struct pt_event *ev);

/* What pt_next_item will return from p on (0 or an error); *pos: where. */
int pt_peek(const struct pt_cursor *c, const uint8_t *p, const uint8_t **pos);

/*
 * libipt reads one item ahead: an error there comes before what it has read. 0,
 * or that error and where it is; *fetched: it is in the next event, not on the
 * way to it.
 */
int pt_look_ahead(const struct pt_cursor *c, const uint8_t **pos,
		  bool *fetched);

/*
 * Pauses of tracing, from a TIP.PGD to a TIP.PGE, are looked at once: up to
 * where pt_look_ahead would find no error from any item on. c->p itself if that
 * is not known, or no pause is here. c waits for nothing: bound.n, block and
 * n_bits are 0.
 */
const uint8_t *pt_check_pause(const struct pt_cursor *c);

/* Where the packets from psb to after come again, behind nothing but PADs; NULL: they
 * do not, or not whole before end. */
static inline const uint8_t *pt_find_same_psb(const uint8_t *psb, const uint8_t *after,
					      const uint8_t *end)
{
	const uint8_t *p = ptpkt_skip_pads(after, end);
	size_t size = (size_t)(after - psb);

	return (size_t)(end - p) >= size && !memcmp(p, psb, size) ? p : NULL;
}

/* From the PSB at p to the PSBEND or OVF that ends its header, which stays. */
int pt_read_psb(struct pt_cursor *c);

/* Time as of after the packet, if it is one that tells it. */
void pt_update_time(struct pt_cursor *c, const struct ptpkt *pkt);

/* What a MODE.Exec says, as value and value2 of a PT_EV_MODE. */
void pt_set_mode(struct pt_event *ev, const struct ptpkt *pkt);

/* The type of the packet that the bytes at p end in. */
unsigned pt_cut_packet(const struct pt_cursor *c);

bool pt_has_bound(const struct pt_cursor *c, enum pt_binding binding);

/* Updates Last IP. False: the packet suppresses it. */
static inline bool pt_update_ip(struct pt_cursor *c, const struct ptpkt *pkt)
{
	bool known = ptpkt_ip(pkt, &c->last_ip);

	c->whole_ip |= pkt->count == 3 || pkt->count == 6;
	if (known)
		c->ip_state = PT_IP_KNOWN;
	else if (c->ip_state == PT_IP_KNOWN)
		c->ip_state = PT_IP_SUPPRESSED;
	return known;
}

/* ---- apply.c ---- */

/* Walks to where ev happens, and lets it happen. 0, or -enum pt_error. */
int pt_apply(struct pt *d, struct pt_event *ev);

/* What makes ev an event of the pending branch, PT_JOINED_*; 0: nothing. One
 * branch has each of them once. */
unsigned pt_join_of(const struct pt *d, const struct pt_event *ev);

/* Applies pending.late, if it is there. */
void pt_apply_late(struct pt *d);

/* The mode, transaction or address space of ev, where it cannot be walked to. */
void pt_apply_state(struct pt *d, const struct pt_event *ev);

/* The next event of the queue, zero but for offset, kind and what. Commits what
 * was walked. Never NULL: without memory it is out.none, and the chunk ends. */
struct aux_flow *pt_emit(struct pt *d, enum aux_flow_kind kind, unsigned what);

/* A TIME, unless the host does not want it. True: it was emitted; if the host
 * has to look at it, times.at_horizon is set. */
bool pt_emit_time(struct pt *d, uint64_t tsc);

void pt_emit_ip(struct pt *d, enum aux_flow_kind kind, unsigned what,
		bool known, uint64_t ip);

/* ---- sync.c ---- */

/* Synchronizes at the next PSB, or ends the chunk. */
void pt_sync_next(struct pt *d);

/* err was found at pos: a GAP, and the next PSB is looked for. */
void pt_sync_fail(struct pt *d, int err, const uint8_t *pos);

/* The packets end: at p, or inside of the last one. */
void pt_sync_end(struct pt *d);

/* The next synchronization is at this PSB. */
void pt_sync_at(struct pt *d, const uint8_t *psb);

/* How many of the n events of the fast path stand; handles the error of the
 * others. */
size_t pt_sync_verify(struct pt *d, struct aux_flow *out, size_t n, bool *stop);

/* ---- resume.c ---- */

/* May the flow go on before the next PSB after this error? */
bool pt_resume_allowed(const struct pt *d, int err);

/* ip: where the flow is lost. detail is err: a number for messages. */
void pt_emit_gap(struct pt *d, enum aux_gap_cause cause, uint64_t ip, int err);

/* Takes back what no packet confirmed. The last known ip is where that
 * began. */
void pt_retract(struct pt *d);

/* The flow is lost at cur, which is as the error left it; n_bits of a TNT were
 * left. */
void pt_resume_begin(struct pt *d, int err, unsigned n_bits);

/* The event that was pending could not be applied: perhaps the flow goes on
 * where it happened. */
void pt_resume_event(struct pt *d);

/* Reads on, with PT_PENDING_LOST. */
void pt_resume_step(struct pt *d);

/* ---- the queue ---- */

static inline void pt_commit(struct pt *d)
{
	if (d->out.committed < d->out.tail)
		d->out.last_ip = d->out.queue[d->out.tail - 1].range.last;
	d->out.committed = d->out.tail;
}

/* Cycles since the last TIME, for the next one. */
static inline uint32_t pt_cycles_to_emit(struct pt *d)
{
	uint64_t n = d->cur.time.total - d->times.emitted_cycles;

	if (d->host->time_step == UINT64_MAX) /* lazy timing skipped some */
		return 0;
	d->times.emitted_cycles = d->cur.time.total;
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The TIME as of the packets so far. True: the host has to look at it before it
 * is asked for code, as another thread may run. */
static inline bool pt_reach_horizon(struct pt *d)
{
	if (d->cur.time.known && pt_emit_time(d, d->cur.time.tsc))
		return d->times.at_horizon;
	return false;
}

static inline uint64_t pt_offset(const struct pt *d, const uint8_t *p)
{
	return d->chunk->stream_offset + (uint64_t)(p - d->chunk->data);
}

/* ---- the return stack ---- */

/* An entry of one call that is of no kept path; does not count it. */
static inline void pt_push_own(struct pt_stack *s, uint64_t ip)
{
	uint32_t i = s->top++ & (PT_STACK - 1);

	s->own[i] = ip;
	s->calls[i] = (struct pt_calls){ &s->own[i], 1 };
}

static inline void pt_push_call(struct pt_stack *s, uint64_t ip)
{
	pt_push_own(s, ip);
	if (s->depth < PT_STACK)
		s->depth++;
}

/* Where the last call returns to; depth is not 0. */
static inline uint64_t pt_top_call(const struct pt_stack *s)
{
	const struct pt_calls *c = &s->calls[(s->top - 1) & (PT_STACK - 1)];

	return c->sites[c->n - 1];
}

static inline uint64_t pt_pop_call(struct pt_stack *s)
{
	struct pt_calls *c = &s->calls[(s->top - 1) & (PT_STACK - 1)];
	uint64_t ip = pt_top_call(s);

	s->top -= !--c->n;
	s->depth--;
	return ip;
}

#endif
