/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast path of the Intel PT decoder: TNT and TIP packets along the memo, and the
 * packets of time between them.
 *
 * Most packets are a CYC, or none, then a TNT or a TIP, and they lead where they led
 * before. There are three speeds:
 *
 *   follow_short_packets	the loop: short TNTs, TIPs and short CYCs whose path is in
 *			the first line of its hash. Nearly everything is here.
 *   follow_stream	the same where returns are compressed.
 *   consume_packet	one packet of time, or one TNT or TIP that needs more: another
 *			hash slot, a new path, the return stack of before.
 *   slow.c		all else. What is not understood is left as it was found.
 *
 * libipt reads one packet ahead, and so finds a broken packet before it reports the branch
 * in front of it. Here the last TNT or TIP is reported at once; it stands only when
 * pt_sync_verify has seen that no broken packet follows (struct pt_mark).
 *
 * How time is followed: fast_time.c. This file is one translation unit with its helpers
 * for the sake of speed.
 */
#include <string.h>

#include "decode/lib/pt/fast.h"

#define PT_GROUP 12		/* bits of a long TNT looked up at a time: as many
				 * as PT_BITS holds below a stop bit. With six, gzip
				 * took 1.54 G host instructions, not 1.25 (2f3f8a3) */
#define PT_LONG_TNT 47		/* bits of a long TNT, at most */
#define SHORT_TNT 7		/* events of a short one: its 6 bits and a TIP */
#define STREAM_GROUP 6		/* the same with compressed returns, if there are more
				 * than FEW_PATHS: of twelve bits, more would be new than
				 * it saves (cc1: 615 thousand paths, not 381) */
#define FEW_PATHS 16384
#define TSC_MASK ((UINT64_C(1) << 56) - 1)
#define MAX_PACKET 16		/* no packet that is taken here is longer */

/* ---- the loop ---- */

/* What changes with each path. Local to the loop and passed to inlined
 * functions only, so that it stays in registers. */
struct at {
	uint64_t key_ip;
	struct aux_flow *o;
	uint32_t top, depth;
};

/* How many bits of a long TNT are looked up at a time with compressed returns. */
static unsigned stream_group(const struct pt_fast *r)
{
	return r->d->memo.n_paths < FEW_PATHS ? PT_GROUP : STREAM_GROUP;
}

/* The entry of a key, if it is in the first line of its hash, its region is
 * mapped, and its path ends where the packets do. Both entries of the line are
 * tried without a branch. Else NULL. */
INLINE const struct pt_entry *find_first(const struct pt_memo *s, uint64_t key,
					 uint32_t tip)
{
	const struct pt_entry *e = pt_entry_at(s->paths, s->path_mask,
					       pt_path_hash(key));

	e += e->key != key;
	return __builtin_expect((e->key ^ key) |
				(s->ready[pt_entry_tag(e)] ^ tip), 0) ?
		       NULL : e;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PATH_HEAD ((uint32_t)AUX_FLOW_PATH)
#else
#define PATH_HEAD ((uint32_t)AUX_FLOW_PATH << 24)
#endif

/* The PATH of e. kind, what and flags are stored as one word. */
INLINE void set_path_event(struct aux_flow *o, const struct pt_entry *e,
		      uint64_t offset)
{
	const uint32_t head = PATH_HEAD;

	o->offset = offset;
	memcpy(&o->kind, &head, sizeof(head));
	o->n = e->n_insns;
	o->path.path = &e->path->pub;
	o->path.reserved = 0;
}

/* Emits the path of e and pushes its calls: without a branch, and without a
 * load from the path, as both would wait for memory. If there are no calls, the
 * entry is overwritten by the next push. */
INLINE void follow_entry(struct pt *d, struct at *at, const struct pt_entry *e,
		     uint64_t offset)
{
	struct pt_calls *c = &d->stack.calls[at->top & (PT_STACK - 1)];
	uint32_t room = e->room;

	set_path_event(at->o++, e, offset);
	c->sites = e->path->sites;
	c->n = e->n_calls;
	at->top += e->n_calls > 0;
	at->depth = (at->depth > room ? room : at->depth) + e->n_calls;
}

/* cycles plus the count of the CYC packet in w, which has two bytes if more is
 * 1, else one. */
INLINE uint64_t add_cycles(uint64_t cycles, uint64_t w, unsigned more)
{
	uint64_t high = w >> 4 & (127 << 5);

	return cycles + ((w >> 3 & 31) | (high & -(uint64_t)more));
}

/* The CYC at *p, which w begins with. False: the loop leaves it to pt_fast_take_cyc. */
INLINE bool take_cyc(const struct pt_fast *r, uint64_t w, const uint8_t **p,
		     uint64_t *cycles, uint64_t limit, bool lazy)
{
	unsigned more = w >> 2 & 1;
	uint64_t n = lazy ? 0 : add_cycles(*cycles, w, more);

	if (__builtin_expect(w & r->stops[w & 7], 0) ||
	    __builtin_expect(n > limit, 0))
		return false;
	*cycles = n;
	*p += 1 + more;
	return true;
}

/* The time at these cycles, as the loop has it. */
INLINE uint64_t loop_tsc(const struct pt_fast *r, uint64_t cycles)
{
	return r->loop_base + (cycles * r->loop_scale >> PT_TIME_SHIFT);
}

/* Emits the TIME at these cycles, if it is due. */
INLINE void emit_time_in_loop(struct pt_fast *r, struct at *at, uint64_t cycles,
		      uint64_t offset)
{
	struct pt *d = r->d;
	const struct pt_time *t = &d->cur.time;
	uint64_t tsc = loop_tsc(r, cycles), n;

	if (tsc < r->due_tsc)
		return;
	n = t->total + (cycles - t->cycles) - d->times.emitted_cycles;
	d->times.emitted_cycles += n;
	d->times.tsc = d->times.queued_tsc = d->times.delivered_tsc = tsc;
	r->due_tsc = tsc + (d->host->time_step ? d->host->time_step : 1);
	*at->o++ = (struct aux_flow){
		.offset = offset, .kind = AUX_FLOW_TIME,
		.flags = AUX_FLOW_HAS_TSC,
		.n = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX,
		.time = { aux_clock_ns(&d->config->clock, tsc), tsc } };
}

/* Where the loop ends at the latest. */
INLINE const uint8_t *loop_end(const struct pt_fast *r, bool lazy)
{
	const uint8_t *guard = r->d->lazy.guard;

	return lazy && guard < r->last ? guard : r->last;
}

/* The size of a packet that the loop just skips: PAD, and MTC with lazy timing.
 * 0: it is none. *last: see loop_end. */
INLINE unsigned skip_in_loop(struct pt_fast *r, const uint8_t *p, bool lazy,
			     const uint8_t **last)
{
	if (!*p)	/* PAD */
		return 1;
	if (!lazy || packet_kind[*p] != MTC || !pt_fast_skip_mtc(r, p))
		return 0;
	*last = loop_end(r, true);
	return 2;
}

static void begin_loop_time(struct pt_fast *r);

/* Reads an MTC while timing is not lazy. False: the loop has to be left after it,
 * as the time may be at the horizon. Not inlined: the loop has enough in registers. */
static __attribute__((noinline)) bool take_mtc(struct pt_fast *r,
					       const uint8_t *p, bool emits_times)
{
	pt_fast_store_time(r);
	pt_time_mtc(&r->d->cur.time, p[1]);
	pt_fast_load_time(r);
	begin_loop_time(r);
	return emits_times ? r->loop_emits : !r->time_due;
}

/* What the loop has of the last packet that it followed; NULL: there was none. */
INLINE void keep_mark(struct pt_fast *r, struct aux_flow *mark, uint64_t key)
{
	if (!mark)
		return;
	r->mark = mark;
	r->mark_key_ip = key & PT_KEY_IP_MASK;
	r->mark_tip = key & PT_TIP;
}

/* Passes the packet at *p, which is neither CYC nor branch. False: the loop has to be
 * left where *p is then. */
INLINE bool pass_other(struct pt_fast *r, const uint8_t **p, uint64_t *cycles,
		       bool emits_times, bool lazy, const uint8_t **last)
{
	unsigned n = skip_in_loop(r, *p, lazy, last);
	bool goes_on = true;

	if (!n && (lazy || packet_kind[**p] != MTC))
		return false;
	if (!n) {
		r->cycles = *cycles;
		goes_on = take_mtc(r, *p, emits_times);
		*cycles = r->cycles;
		n = 2;
	}
	*p += n;
	return goes_on;
}

/* The entry of a key whose path returns to a call before it, in the first line of its
 * hash, if the stack says where. Else NULL. */
INLINE const struct pt_entry *find_pop(const struct pt *d, const struct at *at,
				       uint64_t key)
{
	const struct pt_memo *s = &d->memo;
	const struct pt_calls *c = &d->stack.calls[(at->top - 1) & (PT_STACK - 1)];
	const struct pt_entry *e = pt_entry_at(s->paths, s->path_mask,
					       pt_path_hash(key));

	e += e->key != key;
	if (e->key != key || pt_entry_end(e) != PT_END_POP ||
	    s->ready[pt_entry_tag(e)] != PT_READY || !at->depth ||
	    !pt_is_canonical(c->sites[c->n - 1]))
		return NULL;
	return e;
}

/* Follows e, and returns to where the stack says, of which find_pop has made sure. */
INLINE void follow_pop(struct pt *d, struct at *at, const struct pt_entry *e,
		       uint64_t offset)
{
	struct pt_calls *c = &d->stack.calls[(at->top - 1) & (PT_STACK - 1)];

	set_path_event(at->o++, e, offset);
	at->key_ip = pt_key_ip(c->sites[c->n - 1]);
	at->top -= !--c->n;
	at->depth = (at->depth > e->room ? e->room : at->depth) - 1;
}

/* Follows the k highest bits of rest. False: no entry is where the loop looks. */
INLINE bool follow_group(struct pt_fast *r, struct at *at, const uint8_t *p,
			 uint64_t rest, unsigned k)
{
	uint64_t key = at->key_ip | r->mode | rest >> (63 - k) | 1 | UINT64_C(2) << k;
	const struct pt_entry *e = find_first(&r->d->memo, key, 0);

	if (!e)
		return false;
	follow_entry(r->d, at, e, r->base + (uintptr_t)p);
	at->key_ip = e->next & PT_KEY_IP_MASK;
	return true;
}

/* Follows a long TNT in groups of its bits. Returns how many bits are left. */
INLINE unsigned follow_long_tnt(struct pt_fast *r, struct at *at, const uint8_t *p,
				uint64_t bits)
{
	unsigned n = 63 - (unsigned)__builtin_clzll(bits);
	uint64_t rest = bits << 1 << (63 - n);

	while (n >= PT_GROUP) {
		if (!follow_group(r, at, p, rest, PT_GROUP))
			return n;
		n -= PT_GROUP;
		rest <<= PT_GROUP;
	}
	return n && !follow_group(r, at, p, rest, n) ? n : 0;
}

/*
 * The loop. A turn takes a CYC or none, then a short TNT, a TIP, or a TNT and
 * the TIP after it (joined). Stops at the first packet that is something else,
 * or whose path is not in the first line of its hash.
 *
 * Which packet comes next cannot be predicted, and paths are looked up all over
 * memory. So there is hardly a branch on the packet, and the loads of one turn
 * do not wait for those of the turn before. In particular where a TIP leads is
 * known from the packet alone. A compiler would rather select e->next or
 * last_ip with a conditional move, which waits for e. It must not execute an
 * asm volatile that the source does not reach: so the empty one keeps the
 * branch, and the CPU speculates across it. Paths by address and this loop took
 * gzip from 1.20 to 1.16 G host instructions, python from 1.72 to 1.44, and cc1
 * to 0.85 of its time (edb363d).
 *
 * joined, emits_times and lazy are constants in each of the calls (run_fast_loop),
 * so that no version spends registers or instructions on what it does not do.
 */
INLINE const uint8_t *follow_short_packets(struct pt_fast *r, struct at *at,
				 const uint8_t *p, bool joined, bool emits_times,
				 bool lazy)
{
	const struct pt_memo *s = &r->d->memo;
	const struct aux_flow *full = r->end - 2;
	const uint8_t *last = loop_end(r, lazy);
	struct aux_flow *mark = NULL;
	uint64_t last_ip = r->last_ip, cycles = r->cycles, mark_key = 0;
	uint64_t limit = r->loop_limit;

	while (p < last && at->o < full) {
		uint64_t w = load_le64(p), key, ip;
		const struct tip_packet *t;
		const struct pt_entry *e;
		unsigned tnt;

		if ((w & 3) == 3 && !take_cyc(r, w, &p, &cycles, limit, lazy))
			break;
		key = tnt_keys[*p];
		tnt = key & 1;
		t = &tip_packets[joined ? p[tnt] : p[0]];
		if (__builtin_expect(!(tnt | t->size), 0)) {
			if (!pass_other(r, &p, &cycles, emits_times, lazy, &last))
				break;
			limit = r->loop_limit;
			continue;
		}
		if (emits_times)
			emit_time_in_loop(r, at, cycles, r->base + (uintptr_t)p);
		key |= at->key_ip | r->mode | t->key;
		e = find_first(s, key, t->key);
		if (!e)
			break;
		mark = at->o;
		mark_key = key;
		follow_entry(r->d, at, e, r->base + (uintptr_t)p);
		at->key_ip = e->next & PT_KEY_IP_MASK;
		p += tnt;
		if (t->size) {
			ip = load_le64(p + 1) << 16;
			last_ip ^= (last_ip ^ ip) & t->mask;
			p += t->size;
			/* stays a branch: see above */
			__asm__ volatile("" : "=r"(at->key_ip) : "0"(last_ip));
		}
	}
	keep_mark(r, mark, mark_key);
	r->last_ip = last_ip;
	if (!lazy)
		r->cycles = cycles;
	return p;
}

/* If a bit of the TNT at p is a return to a call that no path has, returns are compressed:
 * from then on follow_stream takes packets. joined: with the TIP after it. */
static __attribute__((noinline)) void notice_returns(struct pt_fast *r, const struct at *at,
						     const uint8_t *p, bool joined)
{
	const struct tip_packet *t = &tip_packets[joined ? p[1] : 0];

	r->d->has_returns |= find_pop(r->d, at, at->key_ip | r->mode |
						tnt_keys[*p] | t->key) != NULL;
}

/* The loop, and long TNTs between. Bits of the last one may be left in r->n. */
INLINE void fast_loop(struct pt_fast *r, bool joined, bool emits_times, bool lazy)
{
	struct pt *d = r->d;
	struct at at = { r->key_ip, r->o, d->stack.top, d->stack.depth };
	const uint8_t *p = r->p;

	for (;;) {
		uint64_t bits, key_ip;
		struct aux_flow *o;
		unsigned n;

		p = follow_short_packets(r, &at, p, joined, emits_times, lazy);
		if (emits_times ? !r->loop_emits : r->time_due)
			break;
		if (p < r->last && tnt_keys[*p] & 1) {
			struct at there = at;	/* so that at stays in registers */

			notice_returns(r, &there, p, joined);
			break;
		}
		bits = p < r->last && r->end - at.o > PT_LONG_TNT + 1
			       ? long_tnt_bits(p)
			       : 0;
		if (!bits)
			break;
		if (emits_times)
			emit_time_in_loop(r, &at, r->cycles,
					  r->base + (uintptr_t)p);
		key_ip = at.key_ip;
		o = at.o;
		n = follow_long_tnt(r, &at, p, bits);
		if (at.o == o)
			break;
		r->mark = o;
		r->mark_key_ip = key_ip;
		r->mark_tip = false;
		r->offset = r->base + (uintptr_t)p;
		p += 8;
		r->n = n;
		r->rest = bits;
		if (n)
			break;
	}
	r->p = p;
	r->o = at.o;
	r->key_ip = at.key_ip;
	d->stack.top = at.top;
	d->stack.depth = at.depth;
}

/* ---- the loop for compressed returns ----
 *
 * A CPU compresses returns unless it is told not to: where one leads only the stack
 * says, and hardly a TIP ends a TNT early. So a TNT is six bits from wherever the last
 * one ended. Were paths to begin where packets do, they would begin at any branch, and most
 * would be new. Here they begin where a TIP or a return to a call before them leads, or
 * after six bits from there: what a packet has more waits for those of the next one
 * (struct queue). A compiler's run of 69 million bits asked for 230 thousand paths, and so
 * for 131 thousand; cc1 with long TNTs, which had twelve bits at a time, took 2.7 s and
 * takes 1.3.
 *
 * Nothing may wait where the flow has to be known: at packets of time, which come before
 * the branches after them, unless timing is lazy; and at the last packet before one that
 * may be broken (pt_sync_verify). may_wait sees to that: when bits wait, a TIP is next, or
 * a TNT and after it one more of them.
 */
#define STREAM_TURN (SHORT_TNT + PT_GROUP + 1)	/* events of a turn, with a TIME; */
#define TIMES 3			/* packets of time that bits may wait for */
#define LONG_TURN (STREAM_TURN + PT_LONG_TNT)	/* and of one with a long TNT */

/* Bits that are not followed: the n highest, the oldest first; the others are 0. own: bits
 * of the packet at p, which is at offset; those before are of the one at before. t: the
 * TIP after them, or one without a size; tip: PT_TIP until it is taken. */
struct queue {
	uint64_t bits;
	unsigned n, own, size;
	unsigned group, wide;	/* bits of a key; of one of a long TNT */
	const struct tip_packet *t;
	uint32_t tip;
	const uint8_t *p;
	uint64_t offset, before;
};

/* Adds the TNT or TIP at p, joined with the TIP after it. False: it is neither, or there
 * is no room for so many events. */
INLINE bool queue_packet(struct queue *q, const uint8_t *p, ptrdiff_t room, bool joined)
{
	uint64_t bits = (uint64_t)*p << 56;

	q->size = 1;
	q->group = STREAM_GROUP;
	if (__builtin_expect(!(tnt_keys[*p] & 1), 0)) {
		bits = room < LONG_TURN ? 0 : long_tnt_bits(p) << 1;
		q->size = bits ? 8 : 0;
		q->group = q->wide;
		if (!bits && !tip_packets[*p].size)
			return false;
		bits |= !bits << 1;
	}
	q->own = (unsigned)__builtin_clzll(bits);	/* of zeros before the stop bit */
	bits = bits << q->own << 1;
	q->own = (q->size == 1 ? 6 : 62) - q->own;
	q->bits |= bits >> q->n;
	q->n += q->own;
	q->p = p;
	q->t = &tip_packets[!q->size || (joined && q->size == 1) ? p[q->size] : 0];
	q->tip = q->t->key;
	return true;
}

/* After the packets of time at p that the loop takes: CYCs and an MTC between. */
INLINE const uint8_t *after_times(const struct pt_fast *r, const uint8_t *p)
{
	for (unsigned i = 0; i < TIMES; i++) {
		unsigned w = p[0] | (unsigned)p[1] << 8;

		if ((w & 3) == 3 && !(w & r->stops[w & 7]))
			p += 1 + (w >> 2 & 1);
		else if (packet_kind[*p] == MTC)
			p += 2;
		else
			break;
	}
	return p;
}

/* The size of the TNT at p; 0: another packet. */
INLINE unsigned tnt_size(const uint8_t *p)
{
	return tnt_keys[*p] & 1 ? 1 : *p == 2 && long_tnt_bits(p) ? 8 : 0;
}

/* For may_wait, where the packets at next are not two short ones. */
static __attribute__((noinline)) unsigned may_wait_for(const struct pt_fast *r,
						       const uint8_t *next, bool lazy,
						       unsigned group)
{
	unsigned size;

	if (lazy)
		next = after_times(r, next);
	size = tnt_size(next);
	if (tip_packets[*next].size)
		return group;
	next += size;
	if (lazy)
		next = after_times(r, next);
	return size && (tip_packets[*next].size || tnt_size(next)) ? group - 1 : 0;
}

/* How many bits may wait for the packet at next: of one packet only. With lazy timing
 * no branch waits for a time, so these may be between. */
INLINE unsigned may_wait(const struct pt_fast *r, const struct queue *q,
			 const uint8_t *next, bool lazy)
{
	unsigned n = tnt_keys[next[0]] & tnt_keys[next[1]] & 1 ?
			     q->group - 1 : may_wait_for(r, next, lazy, q->group);

	return n < q->own ? n : q->own;
}

static unsigned follow_made(struct pt_fast *r, struct at *at, uint64_t key,
			    uint64_t offset);

/* Follows the bits of key, or the first of them, where find_first finds nothing. Returns
 * the others, below a stop bit, with PT_TIP if that is in key and was not taken; 0: none
 * is followed. */
INLINE unsigned follow_key(struct pt_fast *r, struct at *at, uint64_t key, uint64_t offset)
{
	const struct pt_entry *e = find_pop(r->d, at, key);
	struct at there;
	unsigned left;

	if (e) {
		follow_pop(r->d, at, e, offset);
		return e->left | (key & PT_TIP);
	}
	there = *at;	/* so that at stays in registers */
	left = follow_made(r, &there, key, offset);
	*at = there;
	return left;
}

/* Follows whole groups, as long as there are more bits and find_first finds them. */
INLINE void follow_groups_of(struct pt_fast *r, struct at *at, struct queue *q)
{
	const uint64_t rest = r->mode | UINT64_C(2) << q->group | 1;
	unsigned n = q->n;

	while (n > q->group) {
		uint64_t key = at->key_ip | rest | q->bits >> (63 - q->group);
		const struct pt_entry *e = find_first(&r->d->memo, key, 0);

		if (__builtin_expect(!e, 0))
			break;
		follow_entry(r->d, at, e, n > q->own ? q->before : q->offset);
		at->key_ip = e->next & PT_KEY_IP_MASK;
		n -= q->group;
		q->bits <<= q->group;
	}
	q->n = n;
}

/* Follows bits until at most wait are left, and the TIP, if there is one. False: not
 * all. */
INLINE bool follow_queue(struct pt_fast *r, struct at *at, struct queue *q, unsigned wait)
{
	follow_groups_of(r, at, q);
	while (q->tip | (q->n > wait)) {
		unsigned k = q->n < q->group ? q->n : q->group, left = 1;
		uint32_t tip = k == q->n ? q->tip : 0;
		uint64_t key = at->key_ip | r->mode | tip | UINT64_C(2) << k |
			       (q->bits >> (63 - k) & ~UINT64_C(1)) | (k > 0);
		uint64_t offset = q->n > q->own ? q->before : q->offset;
		const struct pt_entry *e = find_first(&r->d->memo, key, tip);

		if (__builtin_expect(e != NULL, 1)) {
			follow_entry(r->d, at, e, offset);
			at->key_ip = e->next & PT_KEY_IP_MASK;
			q->tip = tip ? 0 : q->tip;
		} else {
			left = follow_key(r, at, key, offset);
			if (!left)
				return false;
			k -= 31 - (unsigned)__builtin_clz(left & ~PT_TIP);
			q->tip = tip ? left & PT_TIP : q->tip;
		}
		q->n -= k;
		q->bits <<= k;
	}
	return true;
}

/* Leaves bits that are not followed to follow_rest: those of the packet at p, or, if old,
 * of the one before it. Returns the packet after them. */
INLINE const uint8_t *leave_queue(struct pt_fast *r, const struct queue *q, bool old)
{
	r->n = old ? q->n - q->own : q->n;
	r->rest = r->n ? q->bits >> (64 - r->n) : 0;
	r->rest_tip = !old && q->tip && q->n;
	r->offset = old ? q->before : q->offset;
	return old ? q->p : q->p + q->size;
}

/* Follows the queue, which the packet at *p was added to, up to what may wait. False:
 * not all, and the loop has to be left at *p. */
INLINE bool take_packet(struct pt_fast *r, struct at *at, struct queue *q,
			const uint8_t **p, uint64_t *last_ip, bool joined, bool lazy)
{
	unsigned wait = joined && !q->tip ? may_wait(r, q, q->p + q->size, lazy) : 0;
	uint64_t ip;

	if (__builtin_expect(!follow_queue(r, at, q, wait), 0)) {
		*p = leave_queue(r, q, q->n >= q->own);
		q->t = &tip_packets[0];
		return false;
	}
	*p += q->size;
	if (q->t->size) {
		ip = load_le64(*p + 1) << 16;
		*last_ip ^= (*last_ip ^ ip) & q->t->mask;
		*p += q->t->size;
		/* stays a branch: see follow_short_packets */
		__asm__ volatile("" : "=r"(at->key_ip) : "0"(*last_ip));
	}
	return true;
}

/* Where the loop ends at the latest: may_wait looks at so many bytes more. */
INLINE const uint8_t *stream_end(const struct pt_fast *r, bool lazy)
{
	const uint8_t *end = loop_end(r, lazy), *last = r->last - 2 * MAX_PACKET;

	return end < last ? end : last;
}

/* As follow_short_packets. Bits of the last packet may be left in r->n. */
INLINE const uint8_t *follow_stream(struct pt_fast *r, struct at *at, const uint8_t *p,
				    bool joined, bool emits_times, bool lazy)
{
	const struct aux_flow *full = r->end - STREAM_TURN;
	const uint8_t *last = stream_end(r, lazy);
	uint64_t cycles = r->cycles, limit = r->loop_limit, last_ip = r->last_ip;
	struct queue q = { .p = p, .wide = stream_group(r) };
	struct aux_flow *mark = NULL;
	uint64_t mark_key = 0;
	bool whole = true;

	while (whole && p < last && at->o < full) {
		uint64_t w = load_le64(p);

		if ((w & 3) == 3 && !take_cyc(r, w, &p, &cycles, limit, lazy))
			break;
		if (__builtin_expect(!queue_packet(&q, p, r->end - at->o, joined), 0)) {
			if (!pass_other(r, &p, &cycles, emits_times, lazy, &last))
				break;
			last = stream_end(r, lazy);
			limit = r->loop_limit;
			continue;
		}
		q.before = q.offset;
		q.offset = r->base + (uintptr_t)p;
		if (emits_times)
			emit_time_in_loop(r, at, cycles, q.offset);
		mark = at->o;
		mark_key = at->key_ip;
		whole = take_packet(r, at, &q, &p, &last_ip, joined, lazy);
	}
	if (whole && q.n)
		leave_queue(r, &q, false);
	keep_mark(r, mark, mark_key | (q.t ? q.t->key : 0));
	r->last_ip = last_ip;
	if (!lazy)
		r->cycles = cycles;
	return p;
}

INLINE void stream_loop(struct pt_fast *r, bool joined, bool emits_times, bool lazy)
{
	struct pt *d = r->d;
	struct at at = { r->key_ip, r->o, d->stack.top, d->stack.depth };

	r->p = follow_stream(r, &at, r->p, joined, emits_times, lazy);
	r->o = at.o;
	r->key_ip = at.key_ip;
	d->stack.top = at.top;
	d->stack.depth = at.depth;
}

static void run_stream_loop(struct pt_fast *r, bool joined, bool emits_times)
{
	if (r->lazy && joined)
		stream_loop(r, true, false, true);
	else if (emits_times && joined)
		stream_loop(r, true, true, false);
	else if (emits_times)
		stream_loop(r, false, true, false);
	else if (joined)
		stream_loop(r, true, false, false);
	else
		stream_loop(r, false, false, false);
}

/* Is a TIME due at the cycles added up so far? */
static bool is_time_due(const struct pt_fast *r)
{
	return loop_tsc(r, r->cycles) >= r->due_tsc;
}

/*
 * How the loop has the time: up to a limit it adds up cycles. Where these cannot be
 * just added up, as there are none or the time stands still, it leaves all CYCs to
 * pt_fast_take_cyc, and the time is that of the last packet.
 */
static void begin_loop_time(struct pt_fast *r)
{
	const struct pt_time *t = &r->d->cur.time;
	bool adds = r->lazy || r->limit > r->cycles;

	r->loop_limit = adds ? r->limit - 1 : r->cycles;
	r->loop_base = adds ? t->base : t->tsc;
	r->loop_scale = adds ? t->scale : 0;
	r->loop_emits = r->emits_times &&
			(adds || t->tsc < r->d->host->horizon_tsc);
	r->stops = cyc_stops[!adds ? 2 : r->d->cur.errata & PT_ERR_SKD007 ? 1 : 0];
}

/*
 * Runs the loop from r->p on, in the version for what the host wants:
 *
 *	joined	emits_times	lazy
 *	yes	no		yes	no times are wanted, and the horizon is far
 *	yes	yes		no	all TIMEs are wanted
 *	no	yes		no	and each packet's offset too: a PATH for each
 *	yes	no		no	no times are wanted, but the horizon is near
 *	no	no		no	no times are wanted, but offsets are
 *
 * And all of them for compressed returns, once there were any.
 *
 * When TIMEs are wanted at all branches, a version that emits them saves leaving the
 * loop at each CYC: calls of gzip took 0.23 s where it took 0.32 (3000677). Of the last
 * TNT n bits of rest may be left.
 */
static void run_fast_loop(struct pt_fast *r)
{
	bool joined = r->paths == AUX_PATHS_JOINED, returns = r->d->has_returns;
	bool emits_times;

	begin_loop_time(r);
	emits_times = r->loop_emits;
	if ((r->time_due && !emits_times) || r->d->cur.ip_state != PT_IP_KNOWN ||
	    !r->paths)
		return;
	if (returns)
		run_stream_loop(r, joined, emits_times);
	else if (r->lazy && joined)
		fast_loop(r, true, false, true);
	else if (emits_times && joined)
		fast_loop(r, true, true, false);
	else if (emits_times)
		fast_loop(r, false, true, false);
	else if (joined)
		fast_loop(r, true, false, false);
	else
		fast_loop(r, false, false, false);
	if (emits_times)	/* the loop emits before branches only */
		r->time_due = is_time_due(r);
}

/* ---- events ---- */

/* Emits the TIME that is due before a branch. False: the host has to look at
 * it. */
static bool emit_time(struct pt_fast *r)
{
	struct pt *d = r->d;
	uint64_t tsc;

	r->time_due = false;
	pt_fast_store_time(r);
	if (!d->cur.time.known)
		return true;
	tsc = d->cur.time.tsc;
	r->stop = tsc >= d->host->horizon_tsc || tsc < d->times.delivered_tsc;
	d->times.have_time = true;
	d->times.tsc = d->times.queued_tsc = d->times.delivered_tsc = tsc;
	*r->o++ = (struct aux_flow){
		.offset = r->offset, .kind = AUX_FLOW_TIME,
		.flags = AUX_FLOW_HAS_TSC, .n = pt_cycles_to_emit(d),
		.time = { aux_clock_ns(&d->config->clock, tsc), tsc } };
	pt_fast_load_time(r);
	return !r->stop;
}

/* Writes the RANGEs of a path, for a host that accepts no PATHs. Returns their
 * end, NULL: no room. */
static struct aux_flow *emit_ranges(const struct pt_fast *r,
				   const struct pt_path *path)
{
	struct aux_flow *o = r->o;

	if ((size_t)(r->end - o) < path->pub.n_ranges)
		return NULL;
	for (uint32_t i = 0; i < path->pub.n_steps; i++) {
		const struct aux_step *s = path->pub.steps[i];

		for (uint32_t k = 0; k < s->n_ranges; k++) {
			*o = s->ranges[k];
			o++->offset = r->offset;
		}
	}
	return o;
}

INLINE bool emit_path(struct pt_fast *r, const struct pt_entry *e)
{
	struct aux_flow *o = r->o;

	if (r->paths) {
		*o++ = (struct aux_flow){ .offset = r->offset,
					  .kind = AUX_FLOW_PATH,
					  .n = e->n_insns,
					  .path = { &e->path->pub, 0 } };
	} else {
		o = emit_ranges(r, e->path);
		if (!o)
			return false;
	}
	r->o = o;
	return true;
}

/* ---- along paths ---- */

INLINE void push_path_calls(struct pt *d, const struct pt_entry *e)
{
	const uint64_t *sites = e->path->sites;
	bool kept = e->path->pub.kept;

	d->stack.depth = (d->stack.depth > e->room ? e->room : d->stack.depth) +
			 e->n_calls;
	/* The sites of a path that is not kept are overwritten soon. */
	for (unsigned i = 0; !kept && i < e->n_calls; i++)
		pt_push_own(&d->stack, sites[i]);
	if (!kept || !e->n_calls)
		return;
	d->stack.calls[d->stack.top++ & (PT_STACK - 1)] =
		(struct pt_calls){ sites, e->n_calls };
}

INLINE const struct pt_entry *find_entry(const struct pt_fast *r)
{
	const struct pt_memo *s = &r->d->memo;
	uint64_t key = r->key_ip | r->mode | pt_key_bits(r->left);
	const struct pt_entry *e = pt_entry_at(s->paths, s->path_mask,
					       pt_path_hash(key));

	e += e->key != key;
	if (e->key == key && s->ready[pt_entry_tag(e)] != PT_UNKNOWN)
		return e;
	return pt_memo_find(&r->d->memo, r->key_ip, r->left,
			    r->d->walk.flags);
}

bool pt_fast_follow(struct pt_fast *r, const struct pt_entry *e)
{
	if (!emit_path(r, e))
		return false;
	push_path_calls(r->d, e);
	return true;
}

/* Does the stack lead to an address that a key can hold? */
static bool can_pop(const struct pt *d)
{
	return d->stack.depth && pt_is_canonical(pt_top_call(&d->stack));
}

/* For follow_key: a key that is new, or not where the loop looks. */
static __attribute__((noinline)) unsigned follow_made(struct pt_fast *r, struct at *at,
						      uint64_t key, uint64_t offset)
{
	struct pt *d = r->d;
	unsigned bits = (key >> 1 & PT_BITS) | (key & PT_TIP);
	const struct pt_entry *e = pt_memo_find(&d->memo, key & PT_KEY_IP_MASK, bits,
						d->walk.flags);
	enum pt_path_end end;

	if (!e || !e->n_insns)
		return 0;
	end = pt_entry_end(e);
	d->stack.top = at->top;
	d->stack.depth = at->depth;
	if (end == PT_END_STOP || (end == PT_END_POP && !can_pop(d)) ||
	    (end == PT_END_IP && e->left == (bits & ~PT_TIP)))
		return 0;
	set_path_event(at->o++, e, offset);
	push_path_calls(d, e);
	at->key_ip = end == PT_END_POP ? pt_key_ip(pt_pop_call(&d->stack)) :
					 e->next & PT_KEY_IP_MASK;
	at->top = d->stack.top;
	at->depth = d->stack.depth;
	return e->left | (end == PT_END_TIP ? 0 : bits & PT_TIP);
}

/* Does e take none of the bits that are left, nor the TIP? */
static bool takes_none(const struct pt_fast *r, const struct pt_entry *e)
{
	return e->left == (r->left & ~PT_TIP) &&
	       (pt_entry_end(e) == PT_END_IP || pt_entry_end(e) == PT_END_STOP);
}

unsigned pt_fast_find_tip(struct pt_fast *r, struct pt_entry e[PT_LEADS])
{
	uint64_t key_ip = r->key_ip;
	unsigned n = 0;

	r->left = 1 | PT_TIP;
	while (n < PT_LEADS) {
		const struct pt_entry *next = find_entry(r);

		if (!next || !next->n_insns)
			break;
		e[n++] = *next;
		if (pt_entry_end(next) == PT_END_TIP) {
			r->key_ip = key_ip;
			return n;
		}
		if (pt_entry_end(next) != PT_END_IP || !takes_none(r, next))
			break;
		r->key_ip = next->next & PT_KEY_IP_MASK;
	}
	r->key_ip = key_ip;
	return 0;
}

/* Can e be emitted after the n leads, with what the rest of a TNT needs? */
static bool can_follow(const struct pt_fast *r, const struct pt_entry *leads,
		       unsigned n, const struct pt_entry *e)
{
	size_t room = PT_LONG_TNT;
	uint64_t site = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct pt_entry *l = &leads[i];

		room += r->paths ? 1 : l->path->pub.n_ranges;
		if (l->n_calls)
			site = l->path->sites[l->n_calls - 1];
	}
	if (!r->paths)
		room += e->path->pub.n_ranges;
	if (pt_entry_end(e) == PT_END_POP &&
	    !(site ? pt_is_canonical(site) : can_pop(r->d)))
		return false;
	return (size_t)(r->end - r->o) >= room;
}

/*
 * From e, which is a lead, to the entry that takes the first bit or the TIP.
 * Only then are the leads known to have run, so they are emitted last. NULL:
 * there is none, and nothing has changed.
 */
static __attribute__((noinline)) const struct pt_entry *
follow_leads(struct pt_fast *r, const struct pt_entry *e)
{
	struct pt_entry leads[PT_LEADS];
	uint64_t key_ip = r->key_ip;
	unsigned n = 0;

	do {
		leads[n++] = *e;
		r->key_ip = e->next & PT_KEY_IP_MASK;
		e = find_entry(r);
	} while (e && takes_none(r, e) && e->n_insns && n < PT_LEADS);
	if (!e || takes_none(r, e) || !can_follow(r, leads, n, e)) {
		r->key_ip = key_ip;
		return NULL;
	}
	for (unsigned i = 0; i < n; i++) {
		emit_path(r, &leads[i]);
		push_path_calls(r->d, &leads[i]);
	}
	return e;
}

/* Follows r->left, up to the branch that takes the TIP if PT_TIP is set. False:
 * the slow path has to go on. */
static bool follow_bits(struct pt_fast *r)
{
	struct pt *d = r->d;
	const struct pt_entry *e;
	enum pt_path_end end;

	do {
		e = find_entry(r);
		if (!e)
			return false;
		end = pt_entry_end(e);
		if (end == PT_END_IP && takes_none(r, e)) {
			e = follow_leads(r, e);
			if (!e)
				return false;
			end = pt_entry_end(e);
		}
		if ((end == PT_END_POP && !can_pop(d)) ||
		    (e->n_insns && !emit_path(r, e)))
			return false;
		push_path_calls(d, e);
		r->left = e->left | (r->left & PT_TIP);
		r->key_ip = end == PT_END_POP ? pt_key_ip(pt_pop_call(&d->stack)) :
					       e->next & PT_KEY_IP_MASK;
		if (end == PT_END_STOP)
			return false;
	} while (end != PT_END_TIP && r->left > 1);
	return true;
}

static void set_mark(struct pt_fast *r)
{
	r->mark = r->o;
	r->mark_key_ip = r->key_ip;
	r->mark_tip = false;
}

/* The flow goes on where the TIP at r->p says. */
static void apply_tip(struct pt_fast *r)
{
	const struct tip_packet *t = &tip_packets[*r->p];

	r->last_ip = (r->last_ip & ~t->mask) |
		     (load_le64(r->p + 1) << 16 & t->mask);
	r->key_ip = r->last_ip;
	r->d->cur.ip_state = PT_IP_KNOWN;
	r->mark_tip = true;
	r->p += t->size;
}

/* Leaves the bits that were not followed to the slow path. */
static void return_bits(struct pt_fast *r)
{
	unsigned left = r->left & ~PT_TIP;
	unsigned k = 31 - (unsigned)__builtin_clz(left);

	r->d->cur.n_bits = k + r->n;
	r->d->cur.bits = (uint64_t)(left & ((1U << k) - 1)) << r->n |
		     (r->rest & ((UINT64_C(1) << r->n) - 1));
}

/* Follows all n bits of r->rest in groups. False: the slow path has to go
 * on. */
static bool follow_groups(struct pt_fast *r)
{
	unsigned group = r->d->has_returns ? stream_group(r) : PT_GROUP;

	while (r->n) {
		unsigned k = r->n < group ? r->n : group;

		r->n -= k;
		r->left = (unsigned)(r->rest >> r->n & ((1U << k) - 1)) |
			  1U << k | (r->rest_tip && !r->n ? PT_TIP : 0);
		if (!follow_bits(r))
			return false;
	}
	return true;
}

/* Consumes the TNT at r->p, with the TIP after it. False: the slow path has to
 * go on after it, or, if nothing of it was followed, from it. */
static bool consume_tnt(struct pt_fast *r, unsigned n, uint64_t bits,
		     unsigned size)
{
	bool whole, tip = size == 1 && r->paths == AUX_PATHS_JOINED &&
			  packet_kind[r->p[1]] == TIP;

	set_mark(r);
	r->n = 0;
	r->rest = bits;
	if (n > PT_GROUP) {
		r->n = n;
		whole = follow_groups(r);
	} else {
		r->left = (unsigned)bits | (tip ? PT_TIP : 0);
		whole = follow_bits(r);
	}
	if (whole) {
		r->p += size;
		if (tip)
			apply_tip(r);
		return true;
	}
	return_bits(r);
	if (r->d->cur.n_bits == n) {
		r->d->cur.n_bits = 0;
		r->mark = NULL;
	} else {
		r->p += size;
	}
	return false;
}

/* Consumes the TIP at r->p. False: as consume_tnt. */
static bool consume_tip(struct pt_fast *r)
{
	struct aux_flow *o = r->o;
	uint64_t key_ip = r->key_ip;

	r->left = 1 | PT_TIP;
	if (!follow_bits(r))
		return false;
	r->mark = o;
	r->mark_key_ip = key_ip;
	apply_tip(r);
	return true;
}

/* Consumes a TNT or TIP, wherever it leads. False: as consume_tnt, or no
 * room. */
static bool consume_branch(struct pt_fast *r, enum packet_kind kind)
{
	const uint8_t *p = r->p;
	uint64_t bits = kind == EXT ? long_tnt_bits(p) : kind == TNT ? *p >> 1 : 2;

	if (!bits)
		return false;
	if (r->end - r->o <= (kind == EXT ? PT_LONG_TNT : SHORT_TNT)) {
		r->stop = r->o != r->out;
		return false;
	}
	r->offset = r->base + (uintptr_t)p;
	if (r->time_due && !emit_time(r))
		return false;
	if (kind == TIP)
		return consume_tip(r);
	return consume_tnt(r, 63 - (unsigned)__builtin_clzll(bits), bits,
			kind == EXT ? 8 : 1);
}

/* A TIP.PGD, with any IPBytes. */
static bool is_pgd(const uint8_t *p)
{
	return (*p & 0x1f) == 1;
}

/* Consumes the packet at r->p, of any kind. False: the slow path has to. Not
 * inlined, so that the registers of the loop are not its concern. */
static __attribute__((noinline)) bool consume_packet(struct pt_fast *r)
{
	enum packet_kind kind = (enum packet_kind)packet_kind[*r->p];

	switch (kind) {
	case SLOW:
		return is_pgd(r->p) && pt_pause_run(r);
	case PAD:
		r->p = ptpkt_skip_pads(r->p, r->d->cur.end);
		return true;
	case TNT: case TIP: case EXT:
		return consume_branch(r, kind);
	case CYC:
		return pt_fast_take_cyc(r);
	case MTC:
		if (r->lazy && pt_fast_skip_mtc(r, r->p)) {
			r->p += 2;
			return true;
		}
		pt_fast_store_time(r);
		pt_time_mtc(&r->d->cur.time, r->p[1]);
		r->p += 2;
		break;
	case TSC:
		pt_fast_store_time(r);
		pt_time_tsc(&r->d->cur.time, load_le64(r->p + 1) & TSC_MASK);
		r->p += 8;
		break;
	}
	pt_fast_load_time(r);
	return true;
}

/* ---- runs ---- */

/* Follows the bits of a long TNT that the loop left. */
static bool follow_rest(struct pt_fast *r)
{
	bool whole = follow_groups(r);

	if (whole)
		r->d->cur.n_bits = 0;
	else
		return_bits(r);
	if (whole && r->rest_tip)
		apply_tip(r);
	r->rest_tip = false;
	return whole;
}

/* Follows the rest of a TNT whose first bits the slow path took. */
static bool resume_long_tnt(struct pt_fast *r)
{
	struct pt *d = r->d;
	bool whole;

	if (r->end - r->o <= PT_LONG_TNT) {
		r->stop = r->o != r->out;
		return false;
	}
	r->n = d->cur.n_bits;
	r->rest = d->cur.bits;
	r->offset = d->out.offset;
	set_mark(r);
	whole = follow_rest(r);
	/* the slow path saw what follows the TNT before its first bit */
	r->mark_tip = true;
	return whole;
}

/* Did the loop for compressed returns stop for want of room? A packet taken elsewhere
 * makes paths that are of no use to it. */
static bool lacks_room(const struct pt_fast *r)
{
	ptrdiff_t room = r->end - r->o;

	if (!r->d->has_returns || r->o == r->out)
		return false;
	return room <= STREAM_TURN ||
	       (room < LONG_TURN && r->p < r->last && tnt_size(r->p) == 8);
}

/* Consumes packets until the slow path is needed. */
static void consume_packets(struct pt_fast *r)
{
	if (r->d->cur.state != PT_ON && !pt_pause_run(r))
		return;
	do {
		run_fast_loop(r);
		if (r->n && !follow_rest(r))
			return;
		if (lacks_room(r)) {
			r->stop = true;
			return;
		}
	} while (r->p < r->last && consume_packet(r));
}

/* Is the flow between two packets, with nothing left to do for those before? Where
 * tracing is off, a pause may go on. */
static bool is_between_packets(const struct pt *d)
{
	return d->cur.state != PT_UNSYNCED && !d->pending.what &&
	       !d->cur.bound.n && !d->cur.consumed &&
	       d->out.head == d->out.tail;
}

/* Can a key hold where the flow is, and a packet's IP? */
static bool has_key(const struct pt *d)
{
	if (!pt_is_canonical(d->cur.last_ip))
		return false;
	return d->cur.state == PT_OFF ||
	       (d->walk.mode >= PT_MODE_32 &&
		!(d->walk.flags & AUX_FLOW_IN_TX) &&
		pt_is_canonical(d->walk.ip));
}

/* Inside of a block, bytes mean other packets. */
static bool has_packets(const struct pt *d)
{
	return !d->cur.block && d->cur.end - d->cur.p >= MAX_PACKET;
}

size_t pt_fast_run(struct pt *d, struct aux_flow *out, size_t max, bool *stop)
{
	struct pt_fast r = { .d = d,
			     .p = d->cur.p,
			     .last = d->cur.end - MAX_PACKET + 1,
			     .base = d->chunk->stream_offset -
				     (uintptr_t)d->chunk->data,
			     .offset = d->out.offset,
			     .mode = pt_key_mode(d->walk.flags),
			     .key_ip = pt_key_ip(d->walk.ip),
			     .last_ip = pt_key_ip(d->cur.last_ip),
			     .out = out,
			     .o = out,
			     .end = out + max,
			     .paths = (enum aux_paths)d->host->paths };

	*stop = false;
	if (!is_between_packets(d) || !has_key(d) || !has_packets(d))
		return 0;
	pt_fast_begin_time(&r);
	if (!d->cur.n_bits || resume_long_tnt(&r))
		consume_packets(&r);
	pt_fast_end_time(&r);
	d->cur.p = r.p;
	d->walk.ip = pt_ip_of_key(r.key_ip);
	d->cur.last_ip = pt_ip_of_key(r.last_ip);
	d->mark.at = r.mark ? (size_t)(r.mark - out) : SIZE_MAX;
	d->mark.ip = pt_ip_of_key(r.mark_key_ip);
	d->mark.tip = r.mark_tip;
	d->walk.untraced = 0;
	if (d->cur.n_bits)
		d->out.offset = r.offset;
	else if (r.o != out)
		d->out.offset = r.o[-1].offset;
	*stop = r.stop;
	return pt_sync_verify(d, out, (size_t)(r.o - out), stop);
}
