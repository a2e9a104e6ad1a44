/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: the usual: short TNTs, TIPs, and CYCs before them, and long TNTs, along paths
 * that are kept and where they are looked for first.
 *
 * Which packet is the next nobody can foretell, and memory is far: so there is
 * hardly a branch on the one, and none that waits for the other. For the same
 * reason what changes is in registers: no function that is not inlined gets its
 * address.
 */
#include "decode/lib/pt/engine.h"
#include "decode/lib/pt/packets.h"
#include "decode/lib/pt/quick.h"

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

void pt_quick_usual(struct pt_quick *r)
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
