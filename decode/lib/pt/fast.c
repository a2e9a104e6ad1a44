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
 *   consume_packet	one packet of time, or one TNT or TIP that needs more: another
 *			hash slot, a new path, the return stack of before.
 *   slow.c		all else. What is not understood is left as it was found.
 *
 * libipt reads one packet ahead, and so finds a broken packet before it reports the branch
 * in front of it. Here the last TNT or TIP is reported at once; it stands only when
 * pt_sync_verify has seen that no broken packet follows (struct pt_mark).
 *
 * Lazy timing. A host that wants no times (time_step UINT64_MAX: count, coverage, profiles
 * by instructions) still has to stop at its horizon. While that is far, CYCs are not even
 * added up, and of an MTC only its 8 bits are looked at:
 *
 *  - count_periods says how many MTC periods certainly end before the horizon. An MTC
 *    that stays below is skipped; the first that does not ends lazy timing.
 *  - CYCs without an MTC could lead far, too. So each MTC sets a guard some bytes ahead,
 *    up to which all the bytes, were they CYCs, could not reach the horizon: a byte holds
 *    less than 2^CYCLES_SHIFT cycles (a large CYC moves the guard closer). At the guard
 *    the slower functions look.
 *  - pt_lazy_end reads again, from lazy.from on, what was skipped: only TNT, TIP, CYC and
 *    MTC packets can be there. At a PSB there is nothing to read, as a PSB forgets
 *    all of time.
 *
 * Measured (918d6bd): gzip 975 to 771 million host instructions for 210 million traced,
 * cc1 3983 to 3520 for 396.
 *
 * Where times are wanted, cycles are added up in a register and compared with a limit,
 * which is where a TIME could be due, or pt_time has more to do than add: load_time.
 *
 * This file is one translation unit with its helpers for the sake of speed.
 */
#include <string.h>

#include "decode/lib/pt/fast.h"

#define PT_GROUP 12		/* bits of a long TNT looked up at a time: as many
				 * as PT_BITS holds below a stop bit. With six, gzip
				 * took 1.54 G host instructions, not 1.25 (2f3f8a3) */
#define PT_LONG_TNT 47		/* bits of a long TNT, at most */
#define SHORT_TNT 7		/* events of a short one: its 6 bits and a TIP */
#define TURN (SHORT_TNT + 1)	/* events of a turn with returns, and a TIME */
#define TSC_MASK ((UINT64_C(1) << 56) - 1)
#define MAX_PACKET 16		/* no packet that is taken here is longer */
#define OFTEN (UINT64_C(1) << 24) /* ticks; below, TIMEs are no exception */
#define SKIP_PERIOD 4096	/* ticks; longer MTC periods hold too many CYCs */
#define CYCLES_SHIFT 11		/* a byte of a CYC stands for fewer than 2^11 cycles */

/* Skips the MTC at p. False: after it the time may be at the horizon. */
static inline bool skip_mtc(struct pt_fast *r, const uint8_t *p)
{
	struct pt_lazy *skip = &r->d->lazy;
	uint64_t periods = skip->periods + (uint8_t)(p[1] - skip->ctc);

	if (periods > r->max_periods)
		return false;
	skip->periods = periods;
	skip->ctc = p[1];
	skip->guard = p + r->d->guard_bytes;
	return true;
}

/* ---- the loop ---- */

/* What changes with each path. Local to the loop and passed to inlined
 * functions only, so that it stays in registers. */
struct at {
	uint64_t key_ip;
	struct aux_flow *o;
	uint32_t top, depth;
};

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

/* The CYC at *p, which w begins with. False: the loop leaves it to consume_cyc. */
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
	if (!lazy || packet_kind[*p] != MTC || !skip_mtc(r, p))
		return 0;
	*last = loop_end(r, true);
	return 2;
}

static void load_time(struct pt_fast *r);
static void begin_loop_time(struct pt_fast *r);

/* Reads an MTC while timing is not lazy. False: the loop has to be left after it,
 * as the time may be at the horizon. Not inlined: the loop has enough in registers. */
static __attribute__((noinline)) bool take_mtc(struct pt_fast *r,
					       const uint8_t *p, bool emits_times)
{
	pt_fast_store_time(r);
	pt_time_mtc(&r->d->cur.time, p[1]);
	load_time(r);
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
INLINE void follow_pop(struct pt_fast *r, struct at *at, const struct pt_entry *e)
{
	struct pt_calls *c = &r->d->stack.calls[(at->top - 1) & (PT_STACK - 1)];

	set_path_event(at->o++, e, r->offset);
	at->key_ip = pt_key_ip(c->sites[c->n - 1]);
	at->top -= !--c->n;
	at->depth = (at->depth > e->room ? e->room : at->depth) - 1;
}

/* Leaves to follow_rest the bits of a key, of a TNT that is consumed, with the TIP that
 * is next: its paths are kept for the keys that the loop asks for. */
INLINE void leave_bits(struct pt_fast *r, uint64_t key)
{
	r->rest_tip = key & PT_TIP;
	r->rest = key >> 1 & PT_BITS;
	r->n = 63 - (unsigned)__builtin_clzll(r->rest);
}

/* Follows pop and the returns after it. The entry that takes the rest of *key, which is
 * not followed yet; NULL: none does, and bits are left in r->n, or all are followed but
 * for the TIP. */
INLINE const struct pt_entry *pass_returns(struct pt_fast *r, struct at *at,
					   const struct pt_entry *pop, uint64_t *key,
					   uint32_t tip)
{
	const struct pt_entry *e;

	do {
		follow_pop(r, at, pop);
		if (pop->left == 1)
			return NULL;
		*key = at->key_ip | r->mode | tip | pt_key_bits(pop->left);
		e = find_first(&r->d->memo, *key, tip);
		pop = e ? NULL : find_pop(r->d, at, *key);
	} while (pop);
	if (!e)
		leave_bits(r, *key);
	return e;
}

/* Follows the bits of key, without a TIP, from a path that returns to a call before it
 * on. Returns how many are left. */
static __attribute__((noinline)) unsigned follow_pops(struct pt_fast *r, struct at *at,
						      uint64_t key)
{
	const struct pt_entry *e, *pop = find_pop(r->d, at, key);
	unsigned n;

	if (!pop)
		return 31 - (unsigned)__builtin_clz((unsigned)key >> 1 & PT_BITS);
	e = pass_returns(r, at, pop, &key, 0);
	n = r->n;
	r->n = 0;
	if (!e)
		return n;
	follow_entry(r->d, at, e, r->offset);
	at->key_ip = e->next & PT_KEY_IP_MASK;
	return 0;
}

/* Follows the k highest bits of rest. Returns how many are left. */
INLINE unsigned follow_group(struct pt_fast *r, struct at *at, const uint8_t *p,
			     uint64_t rest, unsigned k, bool returns)
{
	uint64_t key = at->key_ip | r->mode | rest >> (63 - k) | 1 | UINT64_C(2) << k;
	const struct pt_entry *e = find_first(&r->d->memo, key, 0);
	struct at there = *at;	/* so that at stays in registers */
	unsigned left;

	if (!e && returns) {
		r->offset = r->base + (uintptr_t)p;
		left = follow_pops(r, &there, key);
		*at = there;
		return left;
	}
	if (!e)
		return k;
	follow_entry(r->d, at, e, r->base + (uintptr_t)p);
	at->key_ip = e->next & PT_KEY_IP_MASK;
	return 0;
}

/* Follows a long TNT in groups of its bits. Returns how many bits are left. */
INLINE unsigned follow_long_tnt(struct pt_fast *r, struct at *at, const uint8_t *p,
				uint64_t bits, bool returns)
{
	unsigned n = 63 - (unsigned)__builtin_clzll(bits), left;
	uint64_t rest = bits << 1 << (63 - n);

	while (n >= PT_GROUP) {
		n -= PT_GROUP;
		left = follow_group(r, at, p, rest, PT_GROUP, returns);
		if (left)
			return n + left;
		rest <<= PT_GROUP;
	}
	return n ? follow_group(r, at, p, rest, n, returns) : 0;
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
 * joined, emits_times, lazy and returns are constants in each of the calls
 * (run_fast_loop), so that no version spends registers or instructions on what
 * it does not do. returns: bits may be returns to calls that no path has, after which
 * bits may be left in r->n.
 */
INLINE const uint8_t *follow_short_packets(struct pt_fast *r, struct at *at,
				 const uint8_t *p, bool joined, bool emits_times,
				 bool lazy, bool returns)
{
	const struct pt_memo *s = &r->d->memo;
	const struct aux_flow *full = r->end - (returns ? TURN : 2);
	const uint8_t *last = loop_end(r, lazy);
	struct aux_flow *mark = NULL;
	uint64_t last_ip = r->last_ip, cycles = r->cycles, mark_key = 0;
	uint64_t limit = r->loop_limit;

	while (p < last && at->o < full) {
		uint64_t w = load_le64(p), key, ip;
		const struct tip_packet *t;
		const struct pt_entry *e, *pop;
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
		pop = e || !returns ? NULL : find_pop(r->d, at, key);
		if (!e && !pop)
			break;
		mark = at->o;
		mark_key = key;
		if (pop) {
			r->offset = r->base + (uintptr_t)p;
			e = pass_returns(r, at, pop, &key, t->key);
			if (!e) {	/* a TIP is the next turn's */
				mark_key &= ~(uint64_t)PT_TIP;
				p += tnt;
				if (r->n)
					break;
				continue;
			}
		}
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

/*
 * Consumes the short TNT at p, of which a bit is a return to a call that no path has:
 * with compressed returns, which CPUs make unless they are told not to, that is every
 * other one. joined: with the TIP after it. From then on the loop takes them, in a version
 * that is slower at all else (10 % where there are none). Bits may be left in r->n.
 * Returns the size of what is consumed; 0: nothing.
 */
static __attribute__((noinline)) unsigned
follow_returns(struct pt_fast *r, struct at *at, const uint8_t *p, bool joined)
{
	const struct tip_packet *t = &tip_packets[joined ? p[1] : 0];
	uint64_t key = at->key_ip | r->mode | tnt_keys[*p] | t->key;
	const struct pt_entry *e, *pop = find_pop(r->d, at, key);

	if (!pop)
		return 0;
	r->d->has_returns = true;
	r->offset = r->base + (uintptr_t)p;
	r->mark = at->o;
	r->mark_key_ip = at->key_ip;
	r->mark_tip = false;
	e = pass_returns(r, at, pop, &key, t->key);
	if (!e)
		return 1;
	follow_entry(r->d, at, e, r->offset);
	at->key_ip = e->next & PT_KEY_IP_MASK;
	if (!t->size)
		return 1;
	r->last_ip ^= (r->last_ip ^ load_le64(p + 2) << 16) & t->mask;
	at->key_ip = r->last_ip;
	r->mark_tip = true;
	return 1 + t->size;
}

/* The loop, and long TNTs between. Bits of the last one may be left in r->n. */
INLINE void fast_loop(struct pt_fast *r, bool joined, bool emits_times, bool lazy,
		      bool returns)
{
	struct pt *d = r->d;
	struct at at = { r->key_ip, r->o, d->stack.top, d->stack.depth };
	const uint8_t *p = r->p;

	for (;;) {
		uint64_t bits, key_ip;
		struct aux_flow *o;
		unsigned n;
		bool room;

		p = follow_short_packets(r, &at, p, joined, emits_times, lazy,
					 returns);
		if (r->n)
			break;
		if (emits_times ? !r->loop_emits : r->time_due)
			break;
		room = !returns && p < loop_end(r, lazy) &&
		       r->end - at.o > SHORT_TNT;
		if (room && tnt_keys[*p] & 1) {
			struct at there = at;	/* so that at stays in registers */

			n = follow_returns(r, &there, p, joined);
			at = there;
			p += n;
			if (r->n || !n)
				break;
			continue;
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
		n = follow_long_tnt(r, &at, p, bits, returns);
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

/* Is a TIME due at the cycles added up so far? */
static bool is_time_due(const struct pt_fast *r)
{
	return loop_tsc(r, r->cycles) >= r->due_tsc;
}

/*
 * How the loop has the time: up to a limit it adds up cycles. Where these cannot be
 * just added up, as there are none or the time stands still, it leaves all CYCs to
 * consume_cyc, and the time is that of the last packet.
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
 * The first two, the usual ones, also with returns, once there were any.
 *
 * When TIMEs are wanted at all branches, a version that emits them saves leaving the
 * loop at each CYC: calls of gzip took 0.23 s where it took 0.32 (3000677). Of a long TNT
 * n bits of rest may be left.
 */
static void run_fast_loop(struct pt_fast *r)
{
	bool emits_times;

	begin_loop_time(r);
	emits_times = r->loop_emits;
	if ((r->time_due && !emits_times) || r->d->cur.ip_state != PT_IP_KNOWN ||
	    !r->paths)
		return;
	if (r->lazy && r->paths == AUX_PATHS_JOINED && r->d->has_returns)
		fast_loop(r, true, false, true, true);
	else if (r->lazy && r->paths == AUX_PATHS_JOINED)
		fast_loop(r, true, false, true, false);
	else if (emits_times && r->paths == AUX_PATHS_JOINED && r->d->has_returns)
		fast_loop(r, true, true, false, true);
	else if (emits_times && r->paths == AUX_PATHS_JOINED)
		fast_loop(r, true, true, false, false);
	else if (emits_times)
		fast_loop(r, false, true, false, false);
	else if (r->paths == AUX_PATHS_JOINED)
		fast_loop(r, true, false, false, false);
	else
		fast_loop(r, false, false, false, false);
	if (emits_times)	/* the loop emits before branches only */
		r->time_due = is_time_due(r);
}

/* ---- time ---- */

/* No TIME is due before this TSC; 0: one may be at any time. In the fast path
 * the last TIME queued is the last one delivered: the queue is empty. */
static uint64_t earliest_due(const struct pt *d)
{
	uint64_t due_tsc = d->times.tsc + d->host->time_step;

	if (!d->cur.time.known || !d->times.have_time)
		return 0;
	if (due_tsc < d->times.tsc || due_tsc > d->host->horizon_tsc)
		due_tsc = d->host->horizon_tsc;
	return due_tsc > d->times.tsc ? due_tsc : d->times.tsc + 1;
}

/* How many cycles since t->base certainly stay below tsc; too few only cost
 * time. */
static uint64_t cycle_limit(struct pt_fast *r, const struct pt_time *t,
			   uint64_t tsc)
{
	const double max = UINT64_C(1) << PT_TIME_CYCLE_BITS;
	double n;

	if (tsc <= t->base || !t->scale)
		return 0;
	if (t->scale != r->scale) {
		r->scale = t->scale;
		r->per_tick = (1 << PT_TIME_SHIFT) / (double)t->scale *
			      (1 - 1e-9);
	}
	n = (double)(tsc - t->base) * r->per_tick;
	return n < 1 ? 0 : (uint64_t)(n < max ? n : max);
}

/* Loads time from pt_time: what is due, and how far cycles can be just added
 * up. */
static void load_time(struct pt_fast *r)
{
	const struct aux_decoder_host *host = r->d->host;
	const struct pt_time *t = &r->d->cur.time;
	uint64_t limit;

	r->due_tsc = earliest_due(r->d);
	r->emits_times = r->due_tsc && host->time_step < OFTEN;
	r->cycles = t->cycles;
	r->time_due = t->tsc >= r->due_tsc;
	limit = r->emits_times ? host->horizon_tsc
		: r->time_due  ? UINT64_MAX
			       : r->due_tsc;
	r->limit = cycle_limit(r, t, limit < t->limit ? limit : t->limit);
}

/* Stores what was added up, or reads what was skipped; load_time must
 * follow. */
void pt_fast_store_time(struct pt_fast *r)
{
	struct pt_time *t = &r->d->cur.time;
	uint64_t n;

	if (r->lazy) {
		r->lazy = false;
		pt_lazy_end(r->d, r->p);
		return;
	}
	n = r->cycles - t->cycles;
	if (!n)
		return;
	t->cycles = r->cycles;
	t->total += n;
	t->tsc = t->base + (t->cycles * t->scale >> PT_TIME_SHIFT);
}

/* The CYC at p of up to three bytes: its size. 0: it is longer, or an erratum
 * may concern it; the slow path reads it. Such a CYC is never skipped. */
static unsigned read_cyc(const struct pt *d, const uint8_t *p, uint64_t *cycles)
{
	uint64_t v = p[0] >> 3;
	unsigned n = 1;

	if (p[0] & 4) {
		v |= (uint64_t)(p[1] >> 1) << 5;
		n = 2;
		if (d->cur.errata & PT_ERR_SKD007)
			return 0;
	}
	if (n == 2 && p[1] & 1) {
		v |= (uint64_t)(p[2] >> 1) << 12;
		n = 3;
		if (p[2] & 1)
			return 0;
	}
	*cycles = v;
	return n;
}

/* While timing is lazy. False: after it the time may be at the horizon. */
static bool skip_cyc(struct pt_fast *r, uint64_t cycles)
{
	ptrdiff_t n = (ptrdiff_t)(cycles >> CYCLES_SHIFT);

	if (r->d->lazy.guard - r->p <= n)
		return false;
	r->d->lazy.guard -= n;
	return true;
}

bool pt_fast_skip_time(struct pt_fast *r)
{
	uint64_t cycles;
	unsigned n = 2;

	if (packet_kind[*r->p] == MTC) {
		if (!skip_mtc(r, r->p))
			return false;
	} else {
		n = read_cyc(r->d, r->p, &cycles);
		if (!n || !skip_cyc(r, cycles))
			return false;
	}
	r->p += n;
	return true;
}

/* Consumes the CYC at r->p. False: the slow path has to. */
static bool consume_cyc(struct pt_fast *r)
{
	uint64_t cycles;
	unsigned n = read_cyc(r->d, r->p, &cycles);

	if (!n)
		return false;
	if (!r->lazy || !skip_cyc(r, cycles)) {
		pt_fast_store_time(r);
		pt_time_cyc_tsc(&r->d->cur.time, cycles);
		load_time(r);
	}
	r->p += n;
	return true;
}

/* ---- lazy timing: see the head of this file ---- */

/* At most so many ticks pass with the cycles before now and those up to the
 * guard. */
static uint64_t max_ticks(const struct pt *d)
{
	const struct pt_time *t = &d->cur.time;
	uint64_t cycles = t->cycles + ((uint64_t)d->guard_bytes << CYCLES_SHIFT);
	uint64_t scale = t->scale > t->high ? t->scale : t->high;

	if (!t->nominal_given || !t->ratio || !t->high)
		return cycles << 8;	/* no scale is larger */
	return cycles * scale >> PT_TIME_SHIFT;
}

/*
 * How many MTC periods from now on certainly end before the horizon; 0 wherever
 * that is not simple: no TSC yet, after an OVF, between a TMA and its first
 * MTC. An MTC is one period late at most; if it is missing, the cycles in
 * max_ticks tell the time.
 */
static uint64_t count_periods(const struct pt *d)
{
	const struct pt_time *t = &d->cur.time;
	uint64_t period = t->period_tsc + 1, horizon = d->host->horizon_tsc;
	uint64_t latest = t->ctc_tsc + t->ctc_bound;

	if (!t->known || !t->have_ctc || t->lost || t->turn || t->tma_last ||
	    !t->scale || t->cycles >> 32 || period > SKIP_PERIOD ||
	    (t->tsc | t->ctc_tsc | t->ctc_bound) >> 61)
		return 0;
	if (latest < t->tsc)
		latest = t->tsc;
	latest += max_ticks(d) + 2 * period;
	return latest < horizon ? (horizon - latest) / period : 0;
}

static uint64_t lazy_periods(const struct pt_fast *r)
{
	const struct pt *d = r->d;

	return d->host->time_step == UINT64_MAX && d->times.have_time &&
	       r->paths == AUX_PATHS_JOINED ? count_periods(d) : 0;
}

/* At the start of a run: goes on with lazy timing or begins it, if that is
 * worth it and the horizon is far; else load_time. The horizon may have changed
 * since the last run. */
void pt_fast_begin_time(struct pt_fast *r)
{
	struct pt *d = r->d;
	struct pt_lazy *skip = &d->lazy;

	r->max_periods = lazy_periods(r);
	/* the horizon is nearer, or times are wanted now */
	if (skip->from && (skip->periods > r->max_periods ||
			   d->host->time_step != UINT64_MAX)) {
		pt_lazy_end(d, r->p);
		r->max_periods = lazy_periods(r);
	}
	if (!skip->from) {
		if (r->max_periods < d->min_periods) {
			load_time(r);
			return;
		}
		*skip = (struct pt_lazy){
			.from = r->p, .guard = r->p + d->guard_bytes,
			.ctc = (uint8_t)(d->cur.time.ctc >> d->cur.time.period) };
	}
	r->lazy = true;
	r->time_due = r->emits_times = false;
}

static bool is_psb(const struct pt *d, const uint8_t *p)
{
	struct ptpkt pkt;

	return ptpkt_decode(p, d->cur.end, &pkt) > 0 && pkt.type == PTPKT_PSB;
}

void pt_lazy_end(struct pt *d, const uint8_t *p)
{
	const uint8_t *at = d->lazy.from;
	struct ptpkt pkt;

	if (d->cur.state == PT_UNSYNCED || is_psb(d, p))
		at = p;
	while (at < p) {
		enum packet_kind kind = (enum packet_kind)packet_kind[*at];
		uint64_t cycles = 0;

		if (kind == CYC) {
			at += read_cyc(d, at, &cycles);
			pt_time_cyc_tsc(&d->cur.time, cycles);
		} else if (kind == MTC) {
			pt_time_mtc(&d->cur.time, at[1]);
			at += 2;
		} else if (kind == PAD || kind == TNT) {
			at++;
		} else {	/* TIPs, long TNTs, and those of pauses */
			ptpkt_decode(at, d->cur.end, &pkt);
			at += pkt.size;
		}
	}
	d->lazy.from = NULL;
}

/* At the end of a run: lazy timing goes on in the next one. */
static void end_time(struct pt_fast *r)
{
	if (!r->lazy)
		pt_fast_store_time(r);
}

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
	load_time(r);
	return !r->stop;
}

/* ---- events ---- */

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
	while (r->n) {
		unsigned k = r->n < PT_GROUP ? r->n : PT_GROUP;

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
		return consume_cyc(r);
	case MTC:
		if (r->lazy && skip_mtc(r, r->p)) {
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
	load_time(r);
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

/* Consumes packets until the slow path is needed. */
static void consume_packets(struct pt_fast *r)
{
	if (r->d->cur.state != PT_ON && !pt_pause_run(r))
		return;
	do {
		run_fast_loop(r);
		if (r->n && !follow_rest(r))
			return;
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
	end_time(&r);
	d->cur.p = r.p;
	d->walk.ip = pt_ip_of_key(r.key_ip);
	d->cur.last_ip = pt_ip_of_key(r.last_ip);
	d->mark.at = r.mark ? (size_t)(r.mark - out) : SIZE_MAX;
	d->mark.ip = pt_ip_of_key(r.mark_key_ip);
	d->mark.tip = r.mark_tip;
	d->walk.untraced = 0;
	if (r.o != out)
		d->out.offset = r.o[-1].offset;
	*stop = r.stop;
	return pt_sync_verify(d, out, (size_t)(r.o - out), stop);
}
