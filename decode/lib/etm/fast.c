/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: the loop over packets. Those that most traces are full of (atoms along known
 * paths, addresses, cycle counts) are done here while nothing waits for anything;
 * all others one by one elsewhere.
 */
#include <string.h>

#include "decode/lib/etm/fast.h"

/*
 * etm: windows. Up to eight bytes of packets (atoms, and addresses that lean on the
 * ones before) do the same whenever they come at the same place with the same
 * addresses before them: all they do is one look into a hash, and one path.
 *
 * Only what comes again is worth that: a window is made when it is met for the
 * second time. It does not change once it is made; it is good where its path is.
 * Where returns are compressed there are none: calls and returns do too much.
 */

#define STEPS_MAX 48	/* of a path: as many events may come of it */

_Static_assert(STEPS_MAX <= ETM_STEP, "a path must fit into the queue");

/* A window that is being made. */
struct making {
	struct etm_window w;
	struct etm_path *only;	/* of the first atoms */
	unsigned n_paths;
	bool here;
	uint64_t ip;
	uint64_t history[3];
	struct etm_path p;
	struct aux_step *steps[STEPS_MAX];
};

/* Behind the path before: false where that cannot be in a window. */
static bool add_path(struct making *m, const struct etm_path *p, unsigned at)
{
	if (p->odd || m->p.p.n_steps + p->p.n_steps > STEPS_MAX)
		return false;
	if (!m->n_paths++)
		m->w.first = (uint8_t)at;
	memcpy(m->steps + m->p.p.n_steps, p->p.steps,
	       p->p.n_steps * sizeof(m->steps[0]));
	m->p.p.n_steps += p->p.n_steps;
	m->p.n_insns += p->n_insns;
	m->p.last = p->last;
	m->p.next = p->next;
	m->p.place = p->place;
	m->p.end_ip = p->end_ip;
	m->ip = p->end_ip;
	m->here = p->place == ETM_HERE;
	return true;
}

static bool add_atoms(struct etm *d, struct making *m, unsigned at)
{
	uint32_t atoms = d->atoms[(m->w.bytes >> 8 * at & 0xff) - 0xc0];
	struct etm_path *p;

	if (!m->here)
		return false;
	p = etm_find_path(d, m->ip, atoms);
	if (!p || !add_path(m, p, at))
		return false;
	if (!m->only)
		m->only = p;
	return true;
}

/* Returns the bytes of the packet there; 0: it is none of a window. */
static unsigned add_packet(struct etm *d, struct making *m, unsigned at)
{
	uint64_t v = m->w.bytes >> 8 * at;
	unsigned n = etm_address_size(v);

	if ((v & 0xff) >= 0xc0)
		return add_atoms(d, m, at);
	if (!n)
		return 0;
	m->ip = etm_address(v, 0, m->history);
	etm_shift_history(m->history, m->ip);
	m->here = m->w.moved = true;
	return n;
}

static struct etm_path *keep_path(struct etm *d, const struct making *m)
{
	size_t n = m->p.p.n_steps * sizeof(m->steps[0]);
	struct etm_path *p;

	if (m->n_paths <= 1)
		return m->only;
	p = etm_store_alloc(d->store, sizeof(*p) + n, 64);
	if (!p)
		return NULL;
	*p = m->p;
	p->generation = d->generation;
	p->p.steps = memcpy(p + 1, m->steps, n);
	p->p.n_ranges = p->p.n_steps;
	p->p.n_insns = p->n_insns;
	p->p.kept = 1;
	return p;
}

static bool make_window(struct etm *d, struct making *m,
			const struct etm_window *key)
{
	bool unsupported = d->unsupported;
	unsigned at = 0, n;
	struct etm_path *p;

	memset(m, 0, sizeof(*m));
	m->w = (struct etm_window){ .ip = key->ip, .bytes = key->bytes,
				    .generation = d->generation };
	memcpy(m->w.history, key->history, sizeof(m->history));
	m->here = key->ip != ETM_NO_IP;
	m->ip = key->ip;
	memcpy(m->history, key->history, sizeof(m->history));
	while (at < 8 && m->w.bytes >> 8 * at) {
		n = add_packet(d, m, at);
		if (!n)
			break;
		m->w.last = (uint8_t)at;
		at += n;
	}
	d->unsupported = unsupported;	/* it is not yet there */
	m->w.n = (uint8_t)at;
	m->w.place = m->here ? ETM_HERE : m->p.place;
	m->w.end_ip = m->ip;
	if (m->w.moved)
		memcpy(m->w.to, m->history, sizeof(m->history));
	m->w.n_insns = m->p.n_insns;
	p = keep_path(d, m);
	m->w.path = p ? &p->p : NULL;
	return p || !m->n_paths;
}

/* Some other one may be of other code at the same place. */
static bool is_good(struct etm *d, struct etm_window *w,
		    const struct etm_window *key)
{
	if (!etm_is_window(w, key))
		return false;
	if (w->generation == d->generation)
		return true;
	if (!w->n || (w->path && !etm_is_valid(d, etm_path_of(w->path))))
		return false;
	w->generation = d->generation;
	return true;
}

/* The window of key. NULL: there is none, packet by packet is the way. A function of
 * its own: the loop has the registers. */
static __attribute__((noinline)) const struct etm_window *
learn_window(struct etm *d, struct etm_window of)
{
	const struct etm_window *key = &of;
	struct etm_store *s = d->store;
	uint64_t hash = etm_hash_window(key);
	uint32_t *seen = &s->seen[hash >> (64 - ETM_SEEN_BITS)];
	uint32_t tag = (uint32_t)(hash >> 16) | 1;
	struct making m;
	size_t i;

	for (i = hash >> s->window_shift; s->windows[i].bytes;
	     i = (i + 1) & (UINT64_MAX >> s->window_shift))
		if (is_good(d, &s->windows[i], key))
			return &s->windows[i];
	if (*seen != tag) {
		*seen = tag;
		return NULL;
	}
	return make_window(d, &m, key) ? etm_store_add_window(s, &m.w) : NULL;
}

/* ---- the loop ---- */

/* The first packets of v, of at most eight bytes. */
struct cut {
	uint64_t bytes;		/* 0 behind them */
	uint64_t match;		/* top bits of bytes that are exact matches */
	uint64_t set;		/* all bits: there are addresses */
	unsigned bits;
};

/* Atoms and exact matches, and one address behind them if all of it is there. */
static inline struct cut cut_window(uint64_t v)
{
	static const uint8_t size[256] = { [0x95] = 16, [0x9a] = 40 };
	uint64_t atoms = v & v << 1 & ETM_TOPS;
	uint64_t x = (v ^ 0x90 * ETM_ONES) & 0xfc * ETM_ONES;
	uint64_t match = ~(((x & ~ETM_TOPS) + ~ETM_TOPS) | x) & ETM_TOPS;
	uint64_t stop = ~(atoms | match) & ETM_TOPS, next;
	unsigned bits = stop ? (unsigned)__builtin_ctzll(stop) - 7 : 64, more;
	struct cut c;

	next = v >> (bits & 63);	/* 64: an atom, or a match */
	more = size[next & 0xff];
	more += (unsigned)(next >> 12) & more >> 1 & 8;
	more = bits + more <= 64 ? more : 0;
	c.bits = bits + more;
	c.bytes = c.bits ? v & ~UINT64_C(0) >> (64 - c.bits) : 0;
	c.match = match & c.bytes;
	c.set = -(uint64_t)(c.match || more);
	return c;
}

/* Behind the last window that was taken; NULL: none was. */
static inline void leave_window(struct etm_hot *h, const struct etm_window *w,
				const uint8_t *p, const uint8_t **last)
{
	if (!w)
		return;
	h->ip = w->end_ip;
	h->place = (enum etm_place)w->place;
	*last = p - w->n + w->last;
}

/* The key's address behind it. */
static inline uint64_t key_of(const struct etm_window *w)
{
	return w->place == ETM_HERE ? w->end_ip : ETM_NO_IP;
}

/*
 * Takes windows from hot->p on, n at most, as long as they are known. Returns how many
 * are left of n. Up to *until, packet by packet is the way.
 */
static size_t etm_run_windows(struct etm *d, struct etm_hot *hot, size_t n,
			      const uint8_t **last, const uint8_t **until)
{
	const struct etm_store *s = d->store;
	const struct etm_window *w, *before = NULL;
	const uint8_t *p = hot->p;
	struct aux_flow *f = hot->f;
	uint64_t h0 = hot->history[0], h1 = hot->history[1],
		 h2 = hot->history[2];
	uint64_t ip = hot->place == ETM_HERE ? hot->ip : ETM_NO_IP;

	for (; n; n--) {
		struct cut c = cut_window(load_le64(p));
		struct etm_window key;

		/* in two registers, not in one with both */
		__asm__("" : "+r"(h0), "+r"(h1));
		if (c.bits <= 8 || (ip == ETM_NO_IP && *p >= 0xc0))
			break;
		key.ip = ip;
		key.bytes = c.bytes;
		key.history[0] = h0 & c.set;
		key.history[1] = h1 & c.set;
		key.history[2] = c.match & c.bytes << 6 ? h2 : 0;
		w = &s->windows[etm_hash_window(&key) >> s->window_shift];
		if (!etm_is_window(w, &key) ||
		    w->generation != hot->generation) {
			leave_window(hot, before, p, last);
			before = NULL;	/* they may move */
			w = learn_window(d, key);
		}
		if (!w || w->n != c.bits / 8) {
			if (!w || !w->n) {
				*until = p + c.bits / 8;
				break;
			}
			c.bits = w->n * 8u;
			c.set = -(uint64_t)w->moved;
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
		p += c.bits / 8;	/* waits for no window */
		before = w;
	}
	leave_window(hot, before, p, last);
	if (f != hot->f)
		hot->path = etm_path_of(f[-1].path.path);
	hot->p = p;
	hot->f = f;
	hot->history[0] = h0;
	hot->history[1] = h1;
	hot->history[2] = h2;
	return n;
}

#define LONGEST 16	/* bytes; no packet of those here has more */

static bool is_ready(const struct etm *d)
{
	return d->state == ETM_DECODE && d->synced && d->code_64 && d->is_64 &&
	       d->waiting == ETM_NONE && !d->except && !d->exc.waits &&
	       !d->resumes && !d->on_pending && !d->n_early &&
	       !d->need_context && d->sf_known && d->sf &&
	       !(d->history_is[0] | d->history_is[1] | d->history_is[2]);
}

static ALWAYS void enter(const struct etm *d, struct etm_hot *h,
			 struct aux_flow *f)
{
	*h = (struct etm_hot){
		.p = d->data + d->pos, .f = f, .ip = d->ip, .place = d->place,
		.generation = d->generation,
		.base = d->chunk->stream_offset - (uint64_t)d->data,
	};
	for (unsigned i = 0; i < 3; i++)
		h->history[i] = d->history[i];
}

/* What the loop knows, to all others. */
static ALWAYS void leave(struct etm *d, const struct etm_hot *h)
{
	d->ip = h->ip;
	d->place = h->place;
	d->has_ip |= h->place == ETM_HERE || h->path;
	for (unsigned i = 0; i < 3; i++)
		d->history[i] = h->history[i];
	if (!h->path)
		return;
	d->on = d->last_known = true;
	d->lost = false;
	d->told = ETM_LOSS_NONE;
	d->last_ip = h->path->last;
	d->next_ip = h->path->next;
}

/* The path of atoms, if it is known and no more has to be looked at. */
static ALWAYS struct etm_path *find_known(const struct etm_store *s,
					  const struct etm_hot *h,
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

static ALWAYS void give_path(struct etm_hot *h, struct etm_path *p,
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
	h->place = (enum etm_place)p->place;
}

/* The place that no packet told. */
static ALWAYS bool pop_place(struct etm *d, struct etm_hot *h)
{
	if (h->place != ETM_RETURN || !d->n_returns)
		return false;
	h->ip = d->returns[d->top];
	d->top = (d->top + ETM_RET_DEPTH - 1) % ETM_RET_DEPTH;
	d->n_returns--;
	h->place = ETM_HERE;
	return true;
}

/* Along a path that p->odd. Returns what is left of the atoms; 0: nothing. */
static ALWAYS uint32_t run_odd(struct etm *d, struct etm_hot *h, struct etm_path *p,
			       uint32_t atoms, uint64_t offset, bool paths)
{
	for (;;) {
		give_path(h, p, offset, paths);
		if (p->peak)
			etm_apply_returns(d, p);
		atoms = etm_skip_atoms(atoms, p->n_atoms);
		if (!atoms || (h->place != ETM_HERE && !pop_place(d, h)))
			return atoms;
		p = find_known(d->store, h, atoms);
		if (!p)
			return atoms;
	}
}

/* An address packet without a context, of A64. False: it is another one. */
static ALWAYS bool run_address(struct etm_hot *h, uint8_t header)
{
	uint64_t v = load_le64(h->p);
	unsigned n = header == 0x9d ? 9 : etm_address_size(v);

	if (!n)
		return false;
	h->ip = etm_address(v, h->p[8], h->history);
	etm_shift_history(h->history, h->ip);
	h->place = ETM_HERE;
	h->p += n;
	return true;
}

/* A cycle count that only adds up. */
static ALWAYS bool run_cycles(struct etm *d, struct etm_hot *h, uint8_t header)
{
	uint64_t v = load_le64(h->p + 1);
	uint32_t n = d->threshold;

	if (!d->adds_up)
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
	d->cycles = d->cycles > UINT32_MAX - n ? UINT32_MAX : d->cycles + n;
	return true;
}

/* A packet is begun, and the rest of its atoms has to be looked at. */
static void finish_packet(struct etm *d, struct etm_hot h, struct aux_flow *f,
			  struct etm_path *path, uint32_t atoms)
{
	struct etm_hot before = h;
	struct etm_mark m;

	before.path = path;
	leave(d, &before);
	d->tail = (uint32_t)(f - d->queue);
	etm_set_mark(d, &m);
	leave(d, &h);
	d->tail = (uint32_t)(h.f - d->queue);
	d->packet = d->pos++;
	etm_at(d, d->packet);
	etm_take_rest(d, atoms, &m);
}

/* How many packets may be taken before bytes and room are looked at again. */
static ALWAYS size_t count_safe(const struct etm *d, const struct etm_hot *h,
				const struct aux_flow *end, enum aux_paths paths)
{
	size_t bytes = (size_t)(d->data + d->len - h->p) / LONGEST;
	size_t room = (size_t)(end - h->f);

	if (h->f >= end)
		return 0;
	if (!paths || d->stack)	/* one packet may give many */
		room = (room + ETM_ATOMS_MAX - 1) / ETM_ATOMS_MAX;
	return bytes < room ? bytes : room;
}

/*
 * Packets, as long as they are such as are done here. Events go to f and up to end;
 * returns where the next one goes. NULL: into the queue, and it is done.
 */
static ALWAYS struct aux_flow *run_hot(struct etm *d, struct aux_flow *f,
				       const struct aux_flow *end,
				       enum aux_paths paths, bool direct)
{
	const uint8_t *last = NULL, *until = NULL, *p;
	struct etm_path *path = NULL, *next;
	uint32_t atoms = 0;
	struct etm_hot h;
	size_t n;

	enter(d, &h, f);
	while (!atoms && (n = count_safe(d, &h, end, paths)) != 0) {
		for (; n; n--, last = p) {
			if (paths == AUX_PATHS_JOINED && h.p >= until) {
				n = etm_run_windows(d, &h, n, &last, &until);
				if (!n)
					break;
			}
			p = h.p;
			if (*p < 0xc0) {
				if (*p >= 0x90 ? !run_address(&h, *p) :
				    *p < 0x0c || *p > 0x1f ||
					    !run_cycles(d, &h, *p))
					break;
				continue;
			}
			if (h.place != ETM_HERE && !pop_place(d, &h))
				break;
			next = find_known(d->store, &h, d->atoms[*p - 0xc0]);
			if (!next || (direct && next->odd))
				break;
			f = h.f;
			path = h.path;
			if (next->odd) {
				atoms = run_odd(d, &h, next, next->atoms,
						h.base + (uint64_t)p, paths);
				if (atoms)
					break;
			} else {
				give_path(&h, next, h.base + (uint64_t)p, paths);
			}
			h.p++;
		}
		if (n)
			break;
	}
	d->pos = (uint64_t)(h.p - d->data);
	if (last) {
		d->packet = (uint64_t)(last - d->data);
		etm_at(d, d->packet);
	}
	if (atoms) {
		finish_packet(d, h, f, path, atoms);
		return NULL;
	}
	leave(d, &h);
	return h.f;
}

static void run_queue(struct etm *d)
{
	struct aux_flow *f = d->queue + d->tail, *end = d->queue + ETM_GIVE;
	enum aux_paths paths = (enum aux_paths)d->host->paths;

	/* what calls and returns do to the stack is told packet by packet */
	switch (d->stack && paths ? AUX_PATHS_PACKET : paths) {
	case AUX_PATHS_NONE:
		f = run_hot(d, f, end, AUX_PATHS_NONE, false);
		break;
	case AUX_PATHS_PACKET:
		f = run_hot(d, f, end, AUX_PATHS_PACKET, false);
		break;
	default:
		f = run_hot(d, f, end, AUX_PATHS_JOINED, false);
	}
	if (f)
		d->tail = (uint32_t)(f - d->queue);
}

/*
 * Paths of several packets, straight to the host: how many, of max at most. The last
 * event, and it alone, stays in the queue.
 */
size_t etm_run_direct(struct etm *d, struct aux_flow *out, size_t max)
{
	uint32_t n = d->tail - d->head;
	struct aux_flow *f = out + n;

	if (n > 1 || max <= n || d->stop || d->done || d->unsupported ||
	    d->after.waits || d->ahead || !is_ready(d))
		return 0;
	memcpy(out, d->queue + d->head, n * sizeof(*out));
	f = run_hot(d, f, out + max, AUX_PATHS_JOINED, true);
	if (f == out + n)
		return 0;
	d->queue[0] = *--f;
	d->head = 0;
	d->tail = 1;
	return (size_t)(f - out);
}

/* direct: back behind a packet after which the quick way may go on. */
void etm_run(struct etm *d, bool direct)
{
	bool begun = false;

	while (!d->done && !d->stop && !d->unsupported && d->tail < ETM_GIVE) {
		if (d->after.waits) {
			etm_push_after(d);
		} else if (d->ahead) {
			etm_look_ahead(d);
		} else if (d->pos >= d->len) {
			etm_finish(d);
		} else {
			if (is_ready(d)) {
				if (direct && begun)
					return;
				if (!direct)
					run_queue(d);
			}
			if (d->pos < d->len && d->tail < ETM_GIVE &&
			    !d->unsupported)
				etm_take_packet(d);
			begun = true;
		}
	}
}
