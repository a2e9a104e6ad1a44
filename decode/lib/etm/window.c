/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: windows. Up to eight bytes of packets (atoms, and addresses that lean on the
 * ones before) do the same whenever they come at the same place with the same
 * addresses before them: all they do is one look into a hash, and one path.
 *
 * Only what comes again is worth that: a window is made when it is met for the
 * second time. It does not change once it is made; it is good where its path is.
 * Where returns are compressed there are none: calls and returns do too much.
 */
#include <string.h>

#include "decode/lib/etm/quick.h"

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
size_t etm_run_windows(struct etm *d, struct etm_hot *hot, size_t n,
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
