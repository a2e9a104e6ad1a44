/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: the loop over packets, and its fast paths.
 *
 * Three ways, the fastest first; each hands over to the next at a packet that
 * it does not take, in the state that the next would have reached:
 *
 *  - Windows: up to eight bytes of packets in one look-up (follow_windows).
 *  - Packets one by one: atoms along known paths, addresses, cycle counts
 *    (parse_fast).
 *  - etm_parse_packet() for everything else.
 *
 * The first two run while nothing is pending (is_ready). They keep the state
 * that they change in struct etm_fast, so that it stays in registers; leave()
 * copies it back. Windows need AUX_PATHS_JOINED and no return stack.
 *
 * Measured, in host instructions for a trace of 27 M instructions: 563 M packet
 * by packet; 239 M with windows, and with events written straight into the
 * host's batch; 188 M today. Check with callgrind before and after any change
 * here.
 */
#include <string.h>

#include "common/bytes.h"
#include "decode/lib/etm/impl.h"

#define ALWAYS inline __attribute__((always_inline))

#define NO_IP 1		/* an ip that the next address gives; A64 code is even */

/* The state of the decoder while the fast loop runs. */
struct etm_fast {
	const uint8_t *p;	/* the next packet */
	struct aux_flow *f;	/* the next event */
	struct etm_path *path;	/* the last one followed; NULL: none yet */
	uint64_t ip;
	enum etm_where where;
	uint64_t history[3];
	/* constant: */
	uint64_t generation;
	uint64_t base;		/* + address of a byte: its offset in the stream */
};

/* ---- address packets, A64, without a context ---- */

#define ONES UINT64_C(0x0101010101010101)
#define TOPS UINT64_C(0x8080808080808080)

/* Bytes of the address packet in v, its first byte lowest; 0: another packet,
 * or one of nine bytes. */
static inline unsigned address_size(uint64_t v)
{
	switch (v & 0xff) {
	case 0x90: case 0x91: case 0x92:
		return 1;
	case 0x95:
		return v & 0x8000 ? 3 : 2;
	case 0x9a:
		return 5;
	default:
		return 0;
	}
}

/* The address it gives; ninth: the byte after the eight of v. */
static inline uint64_t decode_address(uint64_t v, uint8_t ninth,
				   const uint64_t *history)
{
	uint64_t ip = history[0], w = v >> 8;

	switch (v & 0xff) {
	case 0x91:
		return history[1];
	case 0x92:
		return history[2];
	case 0x95:
		return w & 0x80 ? ip >> 17 << 17 | (w & 0x7f) << 2 |
					  (w & 0xff00) << 1 :
				  ip >> 9 << 9 | (w & 0x7f) << 2;
	case 0x9a:
		return ip >> 32 << 32 | (w & 0xffff0000) | (w & 0x7f) << 2 |
		       (w & 0x7f00) << 1;
	case 0x9d:
		w |= (uint64_t)ninth << 56;
		return (w & ~UINT64_C(0xffff)) | (w & 0x7f) << 2 |
		       (w & 0x7f00) << 1;
	default:
		return ip;
	}
}

static inline void shift_history(uint64_t *history, uint64_t ip)
{
	history[2] = history[1];
	history[1] = history[0];
	history[0] = ip;
}

/* ---- windows ---- */

/*
 * A program that repeats itself repeats the bytes of its packets: the same
 * atoms and the same addresses, at the same ip after the same addresses. A
 * window remembers what up to eight such bytes do. It is made when its key is
 * met for the second time, as most keys never come again, and never changes.
 * With a return stack there are none: then calls and returns make what packets
 * do depend on more than the key.
 */

#define STEPS_MAX 48	/* of a window: as many RANGEs may come of it */

_Static_assert(STEPS_MAX <= ETM_PACKET_EVENTS, "a path fits into the queue");

/* A window under construction. */
struct window_builder {
	struct etm_window w;
	struct etm_path *only;	/* path of the first atoms */
	unsigned n_paths;
	bool has_ip;
	uint64_t ip;		/* the flow after the packets so far */
	uint64_t history[3];
	struct etm_path p;
	struct aux_step *steps[STEPS_MAX];
};

/* Appends the path of a packet. False: a window cannot contain it. */
static bool add_path(struct window_builder *m, const struct etm_path *p, unsigned at)
{
	if (p->irregular || m->p.p.n_steps + p->p.n_steps > STEPS_MAX)
		return false;
	if (!m->n_paths++)
		m->w.first = (uint8_t)at;
	memcpy(m->steps + m->p.p.n_steps, p->p.steps,
	       p->p.n_steps * sizeof(m->steps[0]));
	m->p.p.n_steps += p->p.n_steps;
	m->p.n_insns += p->n_insns;
	m->p.last = p->last;
	m->p.next = p->next;
	m->p.where = p->where;
	m->p.end_ip = p->end_ip;
	m->ip = p->end_ip;
	m->has_ip = p->where == ETM_AT_IP;
	return true;
}

static bool add_atoms(struct etm *d, struct window_builder *m, unsigned at)
{
	uint32_t atoms = d->src.atoms[(m->w.bytes >> 8 * at & 0xff) - 0xc0];
	struct etm_path *p;

	if (!m->has_ip)
		return false;
	p = etm_find_path(d, m->ip, atoms);
	if (!p || !add_path(m, p, at))
		return false;
	if (!m->only)
		m->only = p;
	return true;
}

/* Adds the packet at byte at; returns its size. 0: a window cannot contain
 * it. */
static unsigned add_packet(struct etm *d, struct window_builder *m, unsigned at)
{
	uint64_t v = m->w.bytes >> 8 * at;
	unsigned n = address_size(v);

	if ((v & 0xff) >= 0xc0)
		return add_atoms(d, m, at);
	if (!n)
		return 0;
	m->ip = decode_address(v, 0, m->history);
	shift_history(m->history, m->ip);
	m->has_ip = m->w.has_address = true;
	return n;
}

/* The path of all packets; one packet has its own already. NULL: no memory. */
static struct etm_path *keep_path(struct etm *d, const struct window_builder *m)
{
	size_t n = m->p.p.n_steps * sizeof(m->steps[0]);
	struct etm_path *p;

	if (m->n_paths <= 1)
		return m->only;
	p = etm_memo_alloc(d->memo, sizeof(*p) + n, 64);
	if (!p)
		return NULL;
	*p = m->p;
	p->generation = d->code.generation;
	p->p.steps = memcpy(p + 1, m->steps, n);
	p->p.n_ranges = p->p.n_steps;
	p->p.n_insns = p->n_insns;
	p->p.kept = 1;
	return p;
}

/* Follows the packets of key as far as a window can. False: no memory. */
static bool make_window(struct etm *d, struct window_builder *m,
			const struct etm_window *key)
{
	bool unsupported = d->unsupported;
	unsigned at = 0, n;
	struct etm_path *p;

	memset(m, 0, sizeof(*m));
	m->w = (struct etm_window){ .ip = key->ip, .bytes = key->bytes,
				    .generation = d->code.generation };
	memcpy(m->w.history, key->history, sizeof(m->history));
	m->has_ip = key->ip != NO_IP;
	m->ip = key->ip;
	memcpy(m->history, key->history, sizeof(m->history));
	while (at < 8 && m->w.bytes >> 8 * at) {
		n = add_packet(d, m, at);
		if (!n)
			break;
		m->w.last = (uint8_t)at;
		at += n;
	}
	d->unsupported = unsupported;	/* the packets are not parsed yet */
	m->w.n = (uint8_t)at;
	m->w.where = m->has_ip ? ETM_AT_IP : m->p.where;
	m->w.end_ip = m->ip;
	if (m->w.has_address)
		memcpy(m->w.to, m->history, sizeof(m->history));
	m->w.n_insns = m->p.n_insns;
	p = keep_path(d, m);
	m->w.path = p ? &p->p : NULL;
	return p || !m->n_paths;
}

/* Two windows can have one key, made of different code that was mapped at the
 * same addresses in turn: only one of them is valid in a generation. */
static bool is_usable(struct etm *d, struct etm_window *w,
		    const struct etm_window *key)
{
	if (!etm_window_matches(w, key))
		return false;
	if (w->generation == d->code.generation)
		return true;
	if (!w->n || (w->path && !etm_is_valid(d, etm_path_of(w->path))))
		return false;
	w->generation = d->code.generation;
	return true;
}

/*
 * The window for the key, made if it was met before. NULL: none, the caller
 * goes packet by packet. noinline and the key by value: inlined, it has gcc
 * keep the key of every turn in memory.
 */
static __attribute__((noinline)) const struct etm_window *
learn_window(struct etm *d, struct etm_window of)
{
	const struct etm_window *key = &of;
	struct etm_memo *s = d->memo;
	uint64_t hash = etm_window_hash(key);
	uint32_t *seen = &s->seen[hash >> (64 - ETM_SEEN_BITS)];
	uint32_t tag = (uint32_t)(hash >> 16) | 1;
	struct window_builder m;
	size_t i;

	for (i = hash >> s->window_shift; s->windows[i].bytes;
	     i = (i + 1) & (UINT64_MAX >> s->window_shift))
		if (is_usable(d, &s->windows[i], key))
			return &s->windows[i];
	if (*seen != tag) {
		*seen = tag;
		return NULL;
	}
	return make_window(d, &m, key) ? etm_memo_add_window(s, &m.w) : NULL;
}

/* ---- the loop over windows ---- */

/* The first packets of eight bytes. */
struct cut {
	uint64_t bytes;		/* of these packets; 0 past the last */
	uint64_t match;		/* top bits of bytes that are exact matches */
	uint64_t set;		/* all ones: there are addresses; else 0 */
	unsigned bits;
};

/*
 * Atoms and exact matches (0x90 to 0x92), then one longer address if all of it
 * is in v. Computed without branches: which packet is next is unpredictable,
 * and a mispredicted branch costs more than this.
 */
static inline struct cut cut_window(uint64_t v)
{
	static const uint8_t size[256] = { [0x95] = 16, [0x9a] = 40 };
	uint64_t atoms = v & v << 1 & TOPS;
	uint64_t x = (v ^ 0x90 * ONES) & 0xfc * ONES;
	uint64_t match = ~(((x & ~TOPS) + ~TOPS) | x) & TOPS;
	uint64_t stop = ~(atoms | match) & TOPS, next;
	unsigned bits = stop ? (unsigned)__builtin_ctzll(stop) - 7 : 64, more;
	struct cut c;

	next = v >> (bits & 63);	/* 64 bits are taken: no address fits */
	more = size[next & 0xff];
	more += (unsigned)(next >> 12) & more >> 1 & 8;
	more = bits + more <= 64 ? more : 0;
	c.bits = bits + more;
	c.bytes = c.bits ? v & ~UINT64_C(0) >> (64 - c.bits) : 0;
	c.match = match & c.bytes;
	c.set = -(uint64_t)(c.match || more);
	return c;
}

/* The state after the window w, which ends at p; NULL: none was followed. */
static inline void end_windows(struct etm_fast *h, const struct etm_window *w,
				const uint8_t *p, const uint8_t **last)
{
	if (!w)
		return;
	h->ip = w->end_ip;
	h->where = (enum etm_where)w->where;
	*last = p - w->n + w->last;
}

/* The ip of the key that follows w. */
static inline uint64_t key_of(const struct etm_window *w)
{
	return w->where == ETM_AT_IP ? w->end_ip : NO_IP;
}

/*
 * Follows windows from hot->p on, at most n, while they are known or can be
 * made. Returns how many are left of n. Up to *until the caller goes packet by
 * packet; *last is the last packet parsed.
 *
 * Why, measured: the next packet's type and the memory of the memo are what the
 * loop would wait for. Nothing here branches by the contents of packets, except
 * that the window is there; and where the next window begins (p) depends on the
 * bytes alone, so the processor loads several windows at once. What only the
 * end needs (last packet, ip, path) is found when the loop ends. That, the
 * fence, and the key in registers (learn_window) made 188 M host instructions
 * of 200 M.
 */
static size_t follow_windows(struct etm *d, struct etm_fast *hot, size_t n,
			      const uint8_t **last, const uint8_t **until)
{
	const struct etm_memo *s = d->memo;
	const struct etm_window *w, *before = NULL;
	const uint8_t *p = hot->p;
	struct aux_flow *f = hot->f;
	uint64_t h0 = hot->history[0], h1 = hot->history[1], h2 = hot->history[2];
	uint64_t ip = hot->where == ETM_AT_IP ? hot->ip : NO_IP;

	for (; n; n--) {
		struct cut c = cut_window(load_le64(p));
		struct etm_window key;

		/* An empty fence: without it gcc holds both addresses in one
		 * vector register, whose halves it moves out and in again. */
		__asm__("" : "+r"(h0), "+r"(h1));
		if (c.bits <= 8 || (ip == NO_IP && *p >= 0xc0))
			break;
		key.ip = ip;
		key.bytes = c.bytes;
		key.history[0] = h0 & c.set;
		key.history[1] = h1 & c.set;
		key.history[2] = c.match & c.bytes << 6 ? h2 : 0;
		w = &s->windows[etm_window_hash(&key) >> s->window_shift];
		if (!etm_window_matches(w, &key) ||
		    w->generation != hot->generation) {
			end_windows(hot, before, p, last);
			before = NULL;	/* windows move when the hash grows */
			w = learn_window(d, key);
		}
		if (!w || w->n != c.bits / 8) {
			if (!w || !w->n) {
				*until = p + c.bits / 8;
				break;
			}
			c.bits = w->n * 8u;
			c.set = -(uint64_t)w->has_address;
		}
		h0 = w->to[0] | (h0 & ~c.set);
		h1 = w->to[1] | (h1 & ~c.set);
		h2 = w->to[2] | (h2 & ~c.set);
		f->offset = hot->base + (uint64_t)p + w->first;
		f->kind = AUX_FLOW_PATH;
		f->what = 0;
		f->flags = 0;
		f->n = w->n_insns;
		f->path.path = w->path;
		f->path.reserved = 0;
		f += w->path != NULL;
		ip = key_of(w);
		p += c.bits / 8;	/* known before w is loaded */
		before = w;
	}
	end_windows(hot, before, p, last);
	if (f != hot->f)
		hot->path = etm_path_of(f[-1].path.path);
	hot->p = p;
	hot->f = f;
	hot->history[0] = h0;
	hot->history[1] = h1;
	hot->history[2] = h2;
	return n;
}

/* ---- packet by packet ---- */

#define LONGEST 16	/* bytes that one packet here, or the look at it, reads */

/* Nothing is pending, and addresses and code are plain A64: then the packets of
 * the fast loop change nothing but struct etm_fast, the cycles and the return
 * stack. */
static bool is_ready(const struct etm *d)
{
	return d->sync.state == ETM_DECODE && d->sync.emitting &&
	       d->flow.code_64 && d->ctx.is_64 &&
	       d->q.unsettled == AUX_QUEUE_NONE && !d->sync.in_exception &&
	       !d->exc.pending && !d->wait.pending &&
	       !d->ts.lookahead && !d->flow.trace_on &&
	       !d->early.n && !d->ctx.needed && d->ctx.sf_known && d->ctx.sf &&
	       !(d->history.is[0] | d->history.is[1] | d->history.is[2]);
}

static ALWAYS void enter(const struct etm *d, struct etm_fast *h,
			 struct aux_flow *f)
{
	*h = (struct etm_fast){
		.p = d->in.data + d->in.pos, .f = f,
		.ip = d->flow.ip, .where = d->flow.where,
		.generation = d->code.generation,
		.base = d->in.chunk->stream_offset - (uint64_t)d->in.data,
	};
	for (unsigned i = 0; i < 3; i++)
		h->history[i] = d->history.ip[i];
}

/* Copies the state back, as etm_push_path() would have left it. */
static ALWAYS void leave(struct etm *d, const struct etm_fast *h)
{
	d->flow.ip = h->ip;
	d->flow.where = h->where;
	d->flow.has_ip |= h->where == ETM_AT_IP || h->path;
	for (unsigned i = 0; i < 3; i++)
		d->history.ip[i] = h->history[i];
	if (!h->path)
		return;
	d->out.on = d->out.last_known = true;
	d->out.code_missing = false;
	d->out.loss = ETM_LOSS_NONE;
	d->out.last_ip = h->path->last;
	d->out.next_ip = h->path->next;
}

/* The path of atoms in this generation; NULL: not made, or to be checked
 * again. */
static ALWAYS struct etm_path *find_known(const struct etm_memo *s,
					  const struct etm_fast *h,
					  uint32_t atoms)
{
	size_t mask = ((size_t)1 << s->path_bits) - 1;
	size_t i = etm_hash_path(h->ip, atoms, s->path_bits);
	struct etm_path *p;

	while ((p = s->paths[i]) != NULL &&
	       (p->ip != h->ip || p->atoms != atoms))
		i = (i + 1) & mask;
	return p && p->generation == h->generation ? p : NULL;
}

static ALWAYS void emit_path(struct etm_fast *h, struct etm_path *p,
			     uint64_t offset, bool paths)
{
	struct aux_flow *f = h->f;

	if (paths) {
		f->offset = offset;
		f->kind = AUX_FLOW_PATH;
		f->what = 0;
		f->flags = 0;
		f->n = p->n_insns;
		f->path.path = &p->p;
		f->path.reserved = 0;
		h->f = f + 1;
	} else {
		for (uint32_t i = 0; i < p->p.n_steps; i++, f++) {
			*f = *p->p.steps[i]->ranges;
			f->offset = offset;
		}
		h->f = f;
	}
	h->path = p;
	h->ip = p->end_ip;
	h->where = (enum etm_where)p->where;
}

/* The target of a return: no packet gives it. */
static ALWAYS bool pop_return(struct etm *d, struct etm_fast *h)
{
	if (h->where != ETM_AT_RETURN || !d->ret.n)
		return false;
	h->ip = d->ret.addr[d->ret.top];
	d->ret.top = (d->ret.top + ETM_RETURNS - 1) % ETM_RETURNS;
	d->ret.n--;
	h->where = ETM_AT_IP;
	return true;
}

/* Follows a path that is p->irregular, and those after it in the same packet.
 * Returns the atoms that are left for the slow path. */
static ALWAYS uint32_t follow_irregular(struct etm *d, struct etm_fast *h,
					struct etm_path *p, uint32_t atoms,
					uint64_t offset, bool paths)
{
	for (;;) {
		emit_path(h, p, offset, paths);
		if (p->peak)
			etm_apply_returns(d, p);
		atoms = etm_skip_atoms(atoms, p->n_atoms);
		if (!atoms || (h->where != ETM_AT_IP && !pop_return(d, h)))
			return atoms;
		p = find_known(d->memo, h, atoms);
		if (!p)
			return atoms;
	}
}

/* False: it is no address packet, or one with a context. */
static ALWAYS bool parse_fast_address(struct etm_fast *h, uint8_t header)
{
	uint64_t v = load_le64(h->p);
	unsigned n = header == 0x9d ? 9 : address_size(v);

	if (!n)
		return false;
	h->ip = decode_address(v, h->p[8], h->history);
	shift_history(h->history, h->ip);
	h->where = ETM_AT_IP;
	h->p += n;
	return true;
}

/* A cycle count without commit, of at most 14 bits. False: it is for the slow
 * path. */
static ALWAYS bool parse_fast_cycles(struct etm *d, struct etm_fast *h,
				     uint8_t header)
{
	uint64_t v = load_le64(h->p + 1);
	uint32_t n = d->cc_threshold;

	if (!d->src.cycles_add_up)
		return false;
	if (header >= 0x10) {
		n += header & 3;
		h->p += 1;
	} else if (header < 0x0e) {
		n += v & 0xf;
		h->p += 2;
	} else if (header == 0x0e && !(v & 0x80)) {
		n += v & 0x7f;
		h->p += 2;
	} else if (header == 0x0e && !(v & 0x8000)) {
		n += (uint32_t)((v & 0x7f) | (v & 0x7f00) >> 1);
		h->p += 3;
	} else {
		return false;
	}
	d->q.cycles = d->q.cycles > UINT32_MAX - n ? UINT32_MAX : d->q.cycles + n;
	return true;
}

/* Hands the atoms that are left of a packet to the slow path. f, path: the
 * state before the packet, to which it may have to go back. */
static void finish_packet(struct etm *d, struct etm_fast h, struct aux_flow *f,
			  struct etm_path *path, uint32_t atoms)
{
	struct etm_fast before = h;
	struct etm_mark m;

	before.path = path;
	leave(d, &before);
	d->q.tail = (uint32_t)(f - d->q.events);
	etm_set_mark(d, &m);
	leave(d, &h);
	d->q.tail = (uint32_t)(h.f - d->q.events);
	d->in.packet = d->in.pos++;
	etm_at(d, d->in.packet);
	etm_follow_rest(d, atoms, &m);
}

/* How many packets cannot exceed the chunk or the room for events. */
static ALWAYS size_t count_safe(const struct etm *d, const struct etm_fast *h,
				const struct aux_flow *end, enum aux_paths paths)
{
	size_t bytes = (size_t)(d->in.data + d->in.len - h->p) / LONGEST;
	size_t room = (size_t)(end - h->f);

	if (h->f >= end)
		return 0;
	if (!paths || d->src.return_stack)	/* a packet may give many events */
		room = (room + ETM_ATOMS_MAX - 1) / ETM_ATOMS_MAX;
	return bytes < room ? bytes : room;
}

/*
 * Parses packets while they are fast ones. Events are written from f on, up to
 * end; returns where the next one goes. NULL: a packet was finished by the slow
 * path, and all of its events are in the queue.
 *
 * paths and direct are constants: each caller has its own copy of the loop.
 */
static ALWAYS struct aux_flow *parse_fast(struct etm *d, struct aux_flow *f,
					  const struct aux_flow *end,
					  enum aux_paths paths, bool direct)
{
	const uint8_t *last = NULL, *until = NULL, *p;
	struct etm_path *path = NULL, *next;
	uint32_t atoms = 0;
	struct etm_fast h;
	size_t n;

	enter(d, &h, f);
	while (!atoms && (n = count_safe(d, &h, end, paths)) != 0) {
		for (; n; n--, last = p) {
			if (paths == AUX_PATHS_JOINED && h.p >= until) {
				n = follow_windows(d, &h, n, &last, &until);
				if (!n)
					break;
			}
			p = h.p;
			if (*p < 0xc0) {
				if (*p >= 0x90 ? !parse_fast_address(&h, *p) :
				    *p < 0x0c || *p > 0x1f ||
					    !parse_fast_cycles(d, &h, *p))
					break;
				continue;
			}
			if (h.where != ETM_AT_IP && !pop_return(d, &h))
				break;
			next = find_known(d->memo, &h, d->src.atoms[*p - 0xc0]);
			if (!next || (direct && next->irregular))
				break;
			f = h.f;
			path = h.path;
			if (next->irregular) {
				atoms = follow_irregular(d, &h, next,
							 next->atoms,
							 h.base + (uint64_t)p,
							 paths);
				if (atoms)
					break;
			} else {
				emit_path(&h, next, h.base + (uint64_t)p, paths);
			}
			h.p++;
		}
		if (n)
			break;
	}
	d->in.pos = (uint64_t)(h.p - d->in.data);
	if (last) {
		d->in.packet = (uint64_t)(last - d->in.data);
		etm_at(d, d->in.packet);
	}
	if (atoms) {
		finish_packet(d, h, f, path, atoms);
		return NULL;
	}
	leave(d, &h);
	return h.f;
}

static void parse_into_queue(struct etm *d)
{
	struct aux_flow *end = d->q.events + ETM_QUEUE_FULL;
	struct aux_flow *f = d->q.events + d->q.tail;
	enum aux_paths paths = (enum aux_paths)d->host->paths;

	/* windows would not keep the return stack */
	switch (d->src.return_stack && paths ? AUX_PATHS_PACKET : paths) {
	case AUX_PATHS_NONE:
		f = parse_fast(d, f, end, AUX_PATHS_NONE, false);
		break;
	case AUX_PATHS_PACKET:
		f = parse_fast(d, f, end, AUX_PATHS_PACKET, false);
		break;
	default:
		f = parse_fast(d, f, end, AUX_PATHS_JOINED, false);
	}
	if (f)
		d->q.tail = (uint32_t)(f - d->q.events);
}

size_t etm_parse_direct(struct etm *d, struct aux_flow *out, size_t max)
{
	uint32_t n = d->q.tail - d->q.head;
	struct aux_flow *f = out + n;

	if (n > 1 || max <= n || d->q.stop || d->done || d->unsupported ||
	    d->deferred.valid || !is_ready(d))
		return 0;
	memcpy(out, d->q.events + d->q.head, n * sizeof(*out));
	f = parse_fast(d, f, out + max, AUX_PATHS_JOINED, true);
	if (f == out + n)
		return 0;
	d->q.events[0] = *--f;
	d->q.head = 0;
	d->q.tail = 1;
	return (size_t)(f - out);
}

void etm_parse(struct etm *d, bool direct)
{
	bool begun = false;

	while (!d->done && !d->q.stop && !d->unsupported &&
	       d->q.tail < ETM_QUEUE_FULL) {
		if (d->deferred.valid) {
			etm_push_deferred(d);
		} else if (d->ts.lookahead == ETM_LOOKAHEAD_NOW) {
			etm_look_ahead(d);
		} else if (d->in.pos >= d->in.len) {
			etm_finish(d);
		} else {
			if (is_ready(d)) {
				if (direct && begun)
					return;
				if (!direct)
					parse_into_queue(d);
			}
			if (d->in.pos < d->in.len && d->q.tail < ETM_QUEUE_FULL &&
			    !d->unsupported)
				etm_parse_packet(d);
			begun = true;
		}
	}
}
