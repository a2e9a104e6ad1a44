/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: the quick way: TNT and TIP packets along paths, and the packets of time.
 *
 * Whatever else comes, and whatever does not fit, is left as it is found for the
 * slow way. A TNT that was taken here stands only once it is known that no broken
 * packet follows it (mark), as libipt reads one packet ahead.
 */
#include "decode/lib/pt/engine.h"
#include "decode/lib/pt/fast.h"

/*
 * pt: the usual: short TNTs, TIPs, and CYCs before them, and long TNTs, along paths
 * that are kept and where they are looked for first.
 *
 * Which packet is the next nobody can foretell, and memory is far: so there is
 * hardly a branch on the one, and none that waits for the other. For the same
 * reason what changes is in registers: no function that is not inlined gets its
 * address.
 */

/* What changes with each path. */
struct at {
	uint64_t place;
	struct aux_flow *o;
	uint32_t top, depth;
};

/* The entry of a key, where it is looked for first; NULL: it is not there, or does
 * not end where its packets do. */
INLINE const struct pt_entry *find_usual(const struct pt_store *s, uint64_t key,
					 uint32_t tip)
{
	const struct pt_entry *e = pt_entry_at(s->paths, s->path_mask,
					       pt_path_hash(key));

	e += e->key != key;
	return __builtin_expect((e->key ^ key) |
				(s->ready[pt_entry_where(e)] ^ tip), 0) ?
		       NULL : e;
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PATH_HEAD ((uint32_t)AUX_FLOW_PATH)
#else
#define PATH_HEAD ((uint32_t)AUX_FLOW_PATH << 24)
#endif

/* The path of e: kind, what and flags in one. */
INLINE void set_event(struct aux_flow *o, const struct pt_entry *e,
		      uint64_t offset)
{
	const uint32_t head = PATH_HEAD;

	o->offset = offset;
	memcpy(&o->kind, &head, sizeof(head));
	o->n = e->n_insns;
	o->path.path = &e->path->pub;
	o->path.reserved = 0;
}

/* Along a path that is kept. The calls are pushed without a branch and without a look
 * at them: both would wait for memory. */
INLINE void go_along(struct pt *d, struct at *at, const struct pt_entry *e,
		     uint64_t offset)
{
	struct pt_calls *c = &d->calls[at->top & (PT_STACK - 1)];
	uint32_t room = e->room;

	set_event(at->o++, e, offset);
	c->sites = e->path->sites;
	c->n = e->n_calls;
	at->top += e->n_calls > 0;
	at->depth = (at->depth > room ? room : at->depth) + e->n_calls;
}

/* The k highest bits of rest. */
INLINE bool take_group(struct pt_quick *r, struct at *at, const uint8_t *p,
		       uint64_t rest, unsigned k)
{
	uint64_t key = rest >> (63 - k) | 1 | UINT64_C(2) << k;
	const struct pt_entry *e = find_usual(&r->d->store,
					      at->place | r->mode | key, 0);

	if (!e)
		return false;
	go_along(r->d, at, e, r->base + (uintptr_t)p);
	at->place = e->next & PT_PLACE_MASK;
	return true;
}

/* A long TNT, in groups of its bits. Returns how many are left. */
INLINE unsigned take_long(struct pt_quick *r, struct at *at, const uint8_t *p,
			  uint64_t bits)
{
	unsigned n = 63 - (unsigned)__builtin_clzll(bits);
	uint64_t rest = bits << 1 << (63 - n);

	while (n >= PT_GROUP) {
		if (!take_group(r, at, p, rest, PT_GROUP))
			return n;
		rest <<= PT_GROUP;
		n -= PT_GROUP;
	}
	return n && take_group(r, at, p, rest, n) ? 0 : n;
}

/* The cycles of a CYC of two bytes at most. */
INLINE uint64_t add_cycles(uint64_t cycles, uint64_t w, unsigned more)
{
	uint64_t high = w >> 4 & (127 << 5);

	return cycles + ((w >> 3 & 31) | (high & -(uint64_t)more));
}

/* The TIME at these cycles, if it is due. */
INLINE void tell_time(struct pt_quick *r, struct at *at, uint64_t cycles,
		      uint64_t offset)
{
	struct pt *d = r->d;
	const struct pt_time *t = &d->time;
	uint64_t tsc = t->base + (cycles * t->scale >> PT_TIME_SHIFT), n;

	if (tsc < r->due)
		return;
	n = t->total + (cycles - t->cycles) - d->told_cycles;
	d->told_cycles += n;
	d->tsc = d->pushed_tsc = d->given_tsc = tsc;
	r->due = tsc + (d->host->time_step ? d->host->time_step : 1);
	*at->o++ = (struct aux_flow){
		.offset = offset, .kind = AUX_FLOW_TIME,
		.flags = AUX_FLOW_HAS_TSC,
		.n = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX,
		.time = { aux_clock_ns(&d->config->clock, tsc), tsc } };
}

/* Where the usual ends at the latest. */
INLINE const uint8_t *find_last(const struct pt_quick *r, bool skips)
{
	const uint8_t *guard = r->d->skip.guard;

	return skips && guard < r->last ? guard : r->last;
}

/*
 * A CYC, or none; then a TNT of one byte, a TIP, or one behind the other; and so on.
 * Stops before what is something else, or leads anywhere else than where it led
 * most often.
 */
INLINE const uint8_t *take_short(struct pt_quick *r, struct at *at,
				 const uint8_t *p, bool joined, bool timed,
				 bool skips, uint64_t limit)
{
	const struct pt_store *s = &r->d->store;
	const struct aux_flow *full = r->end - 2;
	const uint8_t *last = find_last(r, skips);
	struct aux_flow *mark = NULL;
	uint64_t last_ip = r->last_ip, cycles = r->cycles, mark_key = 0;

	while (p < last && at->o < full) {
		uint64_t w = load_le64(p), key, ip;
		const struct quick_tip *t;
		const struct pt_entry *e;
		unsigned tnt;

		if ((w & 3) == 3) {
			unsigned more = w >> 2 & 1;
			uint64_t n = skips ? 0 : add_cycles(cycles, w, more);

			if (__builtin_expect(w & r->stops[w & 7], 0) ||
			    __builtin_expect(n > limit, 0))
				break;
			cycles = n;
			p += 1 + more;
		}
		key = quick_tnts[*p];
		tnt = key & 1;
		t = &quick_tips[joined ? p[tnt] : p[0]];
		if (__builtin_expect(!(tnt | t->size), 0)) {
			if (!skips || quick[*p] != MTC || !pt_skip_mtc(r, p))
				break;
			last = find_last(r, true);
			p += 2;
			continue;
		}
		if (timed)
			tell_time(r, at, cycles, r->base + (uintptr_t)p);
		key |= at->place | r->mode | t->key;
		e = find_usual(s, key, t->key);
		if (!e)
			break;
		mark = at->o;
		mark_key = key;
		go_along(r->d, at, e, r->base + (uintptr_t)p);
		at->place = e->next & PT_PLACE_MASK;
		p += tnt;
		if (t->size) {
			ip = load_le64(p + 1) << 16;
			last_ip ^= (last_ip ^ ip) & t->mask;
			p += t->size;
			/* must not wait for the path: stays a branch */
			__asm__ volatile("" : "=r"(at->place) : "0"(last_ip));
		}
	}
	if (mark) {
		r->mark = mark;
		r->mark_place = mark_key & PT_PLACE_MASK;
		r->mark_tip = mark_key & PT_TIP;
	}
	r->last_ip = last_ip;
	if (!skips)
		r->cycles = cycles;
	return p;
}

/* The same, and long TNTs. Bits of one may be left in r->n. */
INLINE void take_usual(struct pt_quick *r, bool joined, bool timed, bool skips,
		       uint64_t limit)
{
	struct pt *d = r->d;
	struct at at = { r->place, r->o, d->top, d->depth };
	const uint8_t *p = r->p;

	for (;;) {
		uint64_t bits, place;
		struct aux_flow *o;
		unsigned n;

		p = take_short(r, &at, p, joined, timed, skips, limit);
		bits = p < r->last && r->end - at.o > PT_LONG_TNT + 1 ? quick_long(p) : 0;
		if (!bits)
			break;
		if (timed)
			tell_time(r, &at, r->cycles, r->base + (uintptr_t)p);
		place = at.place;
		o = at.o;
		n = take_long(r, &at, p, bits);
		if (at.o == o)
			break;
		r->mark = o;
		r->mark_place = place;
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
	r->place = at.place;
	d->top = at.top;
	d->depth = at.depth;
}

/* Is a TIME due at the cycles that were added up? */
static bool is_late(const struct pt_quick *r)
{
	const struct pt_time *t = &r->d->time;

	return t->base + (r->cycles * t->scale >> PT_TIME_SHIFT) >= r->due;
}

/* what is usual from p on, if anything is. Of a long TNT n bits of
 * rest may be left. */
static void pt_quick_usual(struct pt_quick *r)
{
	bool adds = r->skips || r->limit > r->cycles, timed = r->timed && adds;
	uint64_t limit = adds ? r->limit - 1 : r->cycles;

	if ((r->late && !timed) || !r->d->have_ip || r->d->suppressed || !r->paths)
		return;
	r->stops = quick_stops[!adds ? 2 : r->d->errata & PT_ERR_SKD007 ? 1 : 0];
	if (r->skips && r->paths == AUX_PATHS_JOINED)
		take_usual(r, true, false, true, limit);
	else if (timed && r->paths == AUX_PATHS_JOINED)
		take_usual(r, true, true, false, limit);
	else if (timed)
		take_usual(r, false, true, false, limit);
	else if (r->paths == AUX_PATHS_JOINED)
		take_usual(r, true, false, false, limit);
	else
		take_usual(r, false, false, false, limit);
	if (timed)	/* what was due was told, before a branch alone */
		r->late = is_late(r);
}

/*
 * pt: time in the quick way: cycles are added up until they matter, and where no time
 * does, up to a horizon that is far, packets of time are gone over.
 */

#define OFTEN (UINT64_C(1) << 24) /* ticks; below, TIMEs are no exception */
#define SKIP_PERIOD 4096	/* ticks; what is longer has many CYCs */
#define CYCLES_SHIFT 11		/* so many bits of cycles in a byte of a CYC */

/* Before it no TIME is. In the quick way the last one pushed is the last one given. */
static uint64_t find_due(const struct pt *d)
{
	uint64_t due = d->tsc + d->host->time_step;

	if (!d->time.known || !d->have_time)
		return 0;
	if (due < d->tsc || due > d->host->horizon_tsc)
		due = d->host->horizon_tsc;
	return due > d->tsc ? due : d->tsc + 1;
}

/* No more cycles than this lead below a time; a few less do no harm. */
static uint64_t find_limit(struct pt_quick *r, const struct pt_time *t,
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

/* Time as the packets so far tell it. */
static void pt_quick_take_time(struct pt_quick *r)
{
	const struct aux_decoder_host *host = r->d->host;
	const struct pt_time *t = &r->d->time;
	uint64_t limit;

	r->due = find_due(r->d);
	r->timed = r->due && host->time_step < OFTEN;
	r->cycles = t->cycles;
	r->late = t->tsc >= r->due;
	limit = r->timed ? host->horizon_tsc : r->late ? UINT64_MAX : r->due;
	r->limit = find_limit(r, t, limit < t->limit ? limit : t->limit);
}

/* What was added up or skipped; take_time comes behind. */
static void pt_quick_give_time(struct pt_quick *r)
{
	struct pt_time *t = &r->d->time;
	uint64_t n;

	if (r->skips) {
		r->skips = false;
		pt_skip_end(r->d, r->p);
		return;
	}
	n = r->cycles - t->cycles;
	if (!n)
		return;
	t->cycles = r->cycles;
	t->total += n;
	t->tsc = t->base + (t->cycles * t->scale >> PT_TIME_SHIFT);
}

/* The CYC at p, of three bytes at most: its size, 0: it is for the slow way, and never
 * skipped. */
static unsigned read_cyc(const struct pt *d, const uint8_t *p, uint64_t *cycles)
{
	uint64_t v = p[0] >> 3;
	unsigned n = 1;

	if (p[0] & 4) {
		v |= (uint64_t)(p[1] >> 1) << 5;
		n = 2;
		if (d->errata & PT_ERR_SKD007)
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

/* The CYC at p, of any length. False: not here. */
static bool pt_quick_cyc(struct pt_quick *r)
{
	uint64_t cycles;
	unsigned n = read_cyc(r->d, r->p, &cycles);

	if (!n)
		return false;
	if (r->skips && r->d->skip.guard - r->p >
				(ptrdiff_t)(cycles >> CYCLES_SHIFT)) {
		r->d->skip.guard -= cycles >> CYCLES_SHIFT;
	} else {
		pt_quick_give_time(r);
		pt_time_cyc_tsc(&r->d->time, cycles);
		pt_quick_take_time(r);
	}
	r->p += n;
	return true;
}

/* ---- time that nobody asks for ---- */

/* Ticks that the CYCs up to the guard take at most, and those before. */
static uint64_t max_ticks(const struct pt *d)
{
	const struct pt_time *t = &d->time;
	uint64_t cycles = t->cycles + ((uint64_t)d->skip_bytes << CYCLES_SHIFT);
	uint64_t scale = t->scale > t->high ? t->scale : t->high;

	if (!t->nominal_given || !t->ratio || !t->high)
		return cycles << 8;	/* no scale is larger */
	return cycles * scale >> PT_TIME_SHIFT;
}

/* So many periods of MTCs from here on surely end below the horizon. An MTC is one
 * period late at most; without it cycles tell the time. */
static uint64_t count_periods(const struct pt *d)
{
	const struct pt_time *t = &d->time;
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

static uint64_t find_periods(const struct pt_quick *r)
{
	const struct pt *d = r->d;

	return d->host->time_step == UINT64_MAX && d->have_time &&
	       r->paths == AUX_PATHS_JOINED ? count_periods(d) : 0;
}

/* from here on packets of time are skipped, if they may be; else as
 * take_time. */
static void pt_quick_skip_time(struct pt_quick *r)
{
	struct pt *d = r->d;
	struct pt_skip *skip = &d->skip;

	r->max_periods = find_periods(r);
	if (skip->from && skip->periods > r->max_periods) { /* another horizon */
		pt_skip_end(d, d->p);
		r->max_periods = find_periods(r);
	}
	if (!skip->from) {
		if (r->max_periods < d->skip_periods) {
			pt_quick_take_time(r);
			return;
		}
		*skip = (struct pt_skip){
			.from = d->p, .guard = d->p + d->skip_bytes,
			.ctc = (uint8_t)(d->time.ctc >> d->time.period) };
	}
	r->skips = true;
	r->late = r->timed = false;
}

static bool is_psb(const struct pt *d, const uint8_t *p)
{
	struct ptpkt pkt;

	return ptpkt_decode(p, d->end, &pkt) > 0 && pkt.type == PTPKT_PSB;
}

void pt_skip_end(struct pt *d, const uint8_t *p)
{
	const uint8_t *at = d->skip.from;

	if (!d->synced || is_psb(d, p))
		at = p;
	while (at < p) {
		enum quick kind = (enum quick)quick[*at];
		uint64_t cycles = 0;

		if (kind == CYC) {
			at += read_cyc(d, at, &cycles);
			pt_time_cyc_tsc(&d->time, cycles);
		} else if (kind == MTC) {
			pt_time_mtc(&d->time, at[1]);
			at += 2;
		} else {
			at += kind == TIP ? quick_tips[*at].size :
			      kind == EXT ? 8 : 1;
		}
	}
	d->skip.from = NULL;
}

/* The same at the end, but that what is skipped stays so. */
static void pt_quick_leave_time(struct pt_quick *r)
{
	if (!r->skips)
		pt_quick_give_time(r);
}

/* What is due is told before a branch. False: the host has to look at it. */
static bool pt_quick_put_time(struct pt_quick *r)
{
	struct pt *d = r->d;
	uint64_t tsc;

	r->late = false;
	pt_quick_give_time(r);
	if (!d->time.known)
		return true;
	tsc = d->time.tsc;
	r->stop = tsc >= d->host->horizon_tsc || tsc < d->given_tsc;
	d->have_time = true;
	d->tsc = d->pushed_tsc = d->given_tsc = tsc;
	*r->o++ = (struct aux_flow){
		.offset = r->offset, .kind = AUX_FLOW_TIME,
		.flags = AUX_FLOW_HAS_TSC, .n = pt_take_cycles(d),
		.time = { aux_clock_ns(&d->config->clock, tsc), tsc } };
	pt_quick_take_time(r);
	return !r->stop;
}

#define SHORT_TNT 7	/* events: of its bits, and a TIP behind them */
#define TSC_MASK ((UINT64_C(1) << 56) - 1)
#define TAIL 16		/* no packet that is taken here is longer */

/* ---- events ---- */

/* The RANGEs of a path that is not given as such: their end, NULL: no room. */
static struct aux_flow *put_ranges(const struct pt_quick *r,
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

static bool put_path(struct pt_quick *r, const struct pt_entry *e)
{
	struct aux_flow *o = r->o;

	if (r->paths) {
		*o++ = (struct aux_flow){ .offset = r->offset,
					  .kind = AUX_FLOW_PATH,
					  .n = e->n_insns,
					  .path = { &e->path->pub, 0 } };
	} else {
		o = put_ranges(r, e->path);
		if (!o)
			return false;
	}
	r->o = o;
	return true;
}

/* ---- along paths ---- */

static void push_calls(struct pt *d, const struct pt_entry *e)
{
	const uint64_t *sites = e->path->sites;

	d->depth = (d->depth > e->room ? e->room : d->depth) + e->n_calls;
	/* A path that is not kept does not stay where it is. */
	for (unsigned i = 0; e == &d->entry && i < e->n_calls; i++)
		pt_push_own(d, sites[i]);
	if (e == &d->entry || !e->n_calls)
		return;
	d->calls[d->top++ & (PT_STACK - 1)] =
		(struct pt_calls){ sites, e->n_calls };
}

static const struct pt_entry *find_path(const struct pt_quick *r)
{
	const struct pt_store *s = &r->d->store;
	uint64_t key = r->place | r->mode | pt_key_bits(r->left);
	const struct pt_entry *e = pt_entry_at(s->paths, s->path_mask,
					       pt_path_hash(key));

	e += e->key != key;
	if (e->key == key && s->ready[pt_entry_where(e)] != PT_UNKNOWN)
		return e;
	return pt_path_find(r->d, r->place, r->left);
}

/* To an address that a place can hold. */
static bool can_pop(const struct pt *d)
{
	return d->depth && pt_is_canonical(pt_top_call(d));
}

/* Along the bits that are left, up to the branch that takes the TIP, if there is to be
 * one. False: the slow way has to go on. */
static bool take_bits(struct pt_quick *r)
{
	struct pt *d = r->d;
	const struct pt_entry *e;
	enum pt_path_end end;

	do {
		e = find_path(r);
		if (!e)
			return false;
		end = pt_entry_end(e);
		if ((end == PT_END_POP && !can_pop(d)) ||
		    (e->n_insns && !put_path(r, e)))
			return false;
		push_calls(d, e);
		r->left = e->left | (r->left & PT_TIP);
		r->place = end == PT_END_POP ? pt_place(pt_pop_call(d)) :
					       e->next & PT_PLACE_MASK;
		if (end == PT_END_STOP)
			return false;
	} while (end != PT_END_TIP && r->left > 1);
	return true;
}

static void set_mark(struct pt_quick *r)
{
	r->mark = r->o;
	r->mark_place = r->place;
	r->mark_tip = false;
}

/* The TIP at r->p, behind its branch. */
static void follow_tip(struct pt_quick *r)
{
	const struct quick_tip *t = &quick_tips[*r->p];

	r->last_ip = (r->last_ip & ~t->mask) |
		     (load_le64(r->p + 1) << 16 & t->mask);
	r->place = r->last_ip;
	r->d->have_ip = true;
	r->d->suppressed = false;
	r->mark_tip = true;
	r->p += t->size;
}

/* Bits that the slow way has to take. */
static void leave_bits(struct pt_quick *r)
{
	unsigned left = r->left & ~PT_TIP;
	unsigned k = 31 - (unsigned)__builtin_clz(left);

	r->d->n_bits = k + r->n;
	r->d->bits = (uint64_t)(left & ((1U << k) - 1)) << r->n |
		     (r->rest & ((UINT64_C(1) << r->n) - 1));
}

/* All n bits of r->rest in groups. False: the slow way has to go on. */
static bool take_groups(struct pt_quick *r)
{
	while (r->n) {
		unsigned k = r->n < PT_GROUP ? r->n : PT_GROUP;

		r->n -= k;
		r->left = (unsigned)(r->rest >> r->n & ((1U << k) - 1)) |
			  1U << k;
		if (!take_bits(r))
			return false;
	}
	return true;
}

/* A TNT, at r->p. False: the slow way has to go on, or has to take it. */
static bool take_tnt(struct pt_quick *r, unsigned n, uint64_t bits,
		     unsigned size)
{
	bool whole, tip = size == 1 && r->paths == AUX_PATHS_JOINED &&
			  quick[r->p[1]] == TIP;

	set_mark(r);
	r->n = 0;
	r->rest = bits;
	if (n > PT_GROUP) {
		r->n = n;
		whole = take_groups(r);
	} else {
		r->left = (unsigned)bits | (tip ? PT_TIP : 0);
		whole = take_bits(r);
	}
	if (whole) {
		r->p += size;
		if (tip)
			follow_tip(r);
		return true;
	}
	leave_bits(r);
	if (r->d->n_bits == n) {
		r->d->n_bits = 0;
		r->mark = NULL;
	} else {
		r->p += size;
	}
	return false;
}

/* The TIP at r->p, alone. The same. */
static bool take_tip(struct pt_quick *r)
{
	struct aux_flow *o = r->o;
	uint64_t place = r->place;

	r->left = 1 | PT_TIP;
	if (!take_bits(r))
		return false;
	r->mark = o;
	r->mark_place = place;
	follow_tip(r);
	return true;
}

/* A TNT or TIP, whatever it leads to. The same. */
static bool take_branch(struct pt_quick *r, enum quick kind)
{
	const uint8_t *p = r->p;
	uint64_t bits = kind == EXT ? quick_long(p) : kind == TNT ? *p >> 1 : 2;

	if (!bits)
		return false;
	if (r->end - r->o <= (kind == EXT ? PT_LONG_TNT : SHORT_TNT)) {
		r->stop = r->o != r->out;
		return false;
	}
	r->offset = r->base + (uintptr_t)p;
	if (r->late && !pt_quick_put_time(r))
		return false;
	if (kind == TIP)
		return take_tip(r);
	return take_tnt(r, 63 - (unsigned)__builtin_clzll(bits), bits,
			kind == EXT ? 8 : 1);
}

/* The packet at r->p. False: not here. */
static __attribute__((noinline)) bool take_packet(struct pt_quick *r)
{
	enum quick kind = (enum quick)quick[*r->p];

	switch (kind) {
	case SLOW:
		return false;
	case PAD:
		r->p++;
		return true;
	case TNT: case TIP: case EXT:
		return take_branch(r, kind);
	case CYC:
		return pt_quick_cyc(r);
	case MTC:
		if (r->skips && pt_skip_mtc(r, r->p)) {
			r->p += 2;
			return true;
		}
		pt_quick_give_time(r);
		pt_time_mtc(&r->d->time, r->p[1]);
		r->p += 2;
		break;
	case TSC:
		pt_quick_give_time(r);
		pt_time_tsc(&r->d->time, load_le64(r->p + 1) & TSC_MASK);
		r->p += 8;
		break;
	}
	pt_quick_take_time(r);
	return true;
}

/* ---- runs ---- */

/* Bits of a long TNT that are left. */
static bool take_left(struct pt_quick *r)
{
	bool whole = take_groups(r);

	if (whole)
		r->d->n_bits = 0;
	else
		leave_bits(r);
	return whole;
}

/* The slow way took some of them. */
static bool take_rest(struct pt_quick *r)
{
	struct pt *d = r->d;
	bool whole;

	if (r->end - r->o <= PT_LONG_TNT) {
		r->stop = r->o != r->out;
		return false;
	}
	r->n = d->n_bits;
	r->rest = d->bits;
	r->offset = d->offset;
	set_mark(r);
	whole = take_left(r);
	/* what follows the TNT was looked at before its first bit */
	r->mark_tip = true;
	return whole;
}

/* Packets, until one is not for here. */
static void take_packets(struct pt_quick *r)
{
	do {
		pt_quick_usual(r);
		if (r->n && !take_left(r))
			return;
	} while (r->p < r->last && take_packet(r));
}

static bool can_run(const struct pt *d)
{
	return d->synced && d->enabled && !d->postponed && !d->need_on &&
	       !d->n_ev && d->head == d->tail && !d->block && !d->no_mode &&
	       !d->mode16 && !d->done && !d->held && d->end - d->p >= TAIL &&
	       !(d->flags & AUX_FLOW_IN_TX) && pt_is_canonical(d->ip) &&
	       pt_is_canonical(d->packet_ip);
}

size_t pt_run(struct pt *d, struct aux_flow *out, size_t max, bool *stop)
{
	struct pt_quick r = { .d = d, .p = d->p, .last = d->end - TAIL + 1,
			 .base = d->chunk->stream_offset -
				 (uintptr_t)d->chunk->data,
			 .mode = pt_key_mode(d->flags),
			 .place = pt_place(d->ip),
			 .last_ip = pt_place(d->packet_ip),
			 .out = out, .o = out, .end = out + max,
			 .paths = (enum aux_paths)d->host->paths };

	*stop = false;
	if (!can_run(d))
		return 0;
	pt_quick_skip_time(&r);
	if (!d->n_bits || take_rest(&r))
		take_packets(&r);
	pt_quick_leave_time(&r);
	d->p = r.p;
	d->ip = pt_place_ip(r.place);
	d->packet_ip = pt_place_ip(r.last_ip);
	d->mark = r.mark ? (size_t)(r.mark - out) : SIZE_MAX;
	d->mark_ip = pt_place_ip(r.mark_place);
	d->mark_tip = r.mark_tip;
	d->untraced = 0;
	if (r.o != out)
		d->offset = r.o[-1].offset;
	*stop = r.stop;
	return pt_sync_check(d, out, (size_t)(r.o - out), stop);
}
