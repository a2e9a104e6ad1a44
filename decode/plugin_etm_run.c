/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: the loop over packets. Those that most traces are full of (atoms along known
 * paths, addresses, cycle counts) are done here while nothing waits for anything;
 * all others one by one elsewhere.
 */
#include <string.h>

#include "plugin_etm.h"

#define ALWAYS inline __attribute__((always_inline))
#define LONGEST 16	/* bytes; no packet of those here has more */

/* The cursor while the loop runs. */
struct hot {
	const uint8_t *p;	/* the next packet */
	struct aux_flow *f;	/* the next event */
	struct etm_path *path;	/* the last one; NULL: none yet */
	uint64_t ip;
	enum etm_place place;
	uint64_t history[3];
	/* constant: */
	struct etm_path *const *paths;
	size_t mask;
	unsigned bits;
	uint64_t generation;
};

static ALWAYS bool is_ready(const struct etm *d)
{
	return d->state == ETM_DECODE && d->synced && d->code_64 && d->is_64 &&
	       d->waiting == ETM_NONE && !d->except && !d->exc.waits &&
	       !d->resumes && !d->on_pending && !d->n_early &&
	       !d->need_context && d->sf_known && d->sf &&
	       !(d->history_is[0] | d->history_is[1] | d->history_is[2]);
}

static ALWAYS uint64_t base_of(const struct etm *d, const uint8_t *p)
{
	return d->chunk->stream_offset + (uint64_t)(p - d->data);
}

static ALWAYS void enter(struct etm *d, struct hot *h)
{
	const struct etm_store *s = d->store;

	*h = (struct hot){
		.p = d->data + d->pos, .f = &d->queue[d->tail], .ip = d->ip,
		.place = d->place, .paths = s->paths,
		.mask = ((size_t)1 << s->path_bits) - 1, .bits = s->path_bits,
		.generation = d->generation,
	};
	for (unsigned i = 0; i < 3; i++)
		h->history[i] = d->history[i];
}

/* What the loop knows, to all others. */
static ALWAYS void leave(struct etm *d, const struct hot *h)
{
	d->tail = (uint32_t)(h->f - d->queue);
	d->ip = h->ip;
	d->place = h->place;
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
static ALWAYS struct etm_path *find_known(const struct hot *h, uint32_t atoms)
{
	size_t i = etm_hash_path(h->ip, atoms, h->bits);
	struct etm_path *p;

	while ((p = h->paths[i]) != NULL &&
	       (p->ip != h->ip || p->atoms != atoms))
		i = (i + 1) & h->mask;
	return p && p->generation == h->generation ? p : NULL;
}

static ALWAYS void give_path(struct hot *h, struct etm_path *p, uint64_t offset,
			     bool paths)
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
static ALWAYS bool pop_place(struct etm *d, struct hot *h)
{
	if (h->place == ETM_NOWHERE || !d->n_returns)
		return false;
	h->ip = d->returns[d->top];
	d->top = (d->top + ETM_RET_DEPTH - 1) % ETM_RET_DEPTH;
	d->n_returns--;
	h->place = ETM_HERE;
	return true;
}

/* Along a path that p->odd. Returns what is left of the atoms; 0: nothing. */
static ALWAYS uint32_t run_odd(struct etm *d, struct hot *h, struct etm_path *p,
			       uint32_t atoms, uint64_t offset, bool paths)
{
	for (;;) {
		give_path(h, p, offset, paths);
		if (p->peak)
			etm_apply_returns(d, p);
		atoms = etm_skip_atoms(atoms, p->n_atoms);
		if (!atoms || (h->place != ETM_HERE && !pop_place(d, h)))
			return atoms;
		p = find_known(h, atoms);
		if (!p)
			return atoms;
	}
}

static ALWAYS uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

/* An address packet without a context, of A64. False: it is another one. */
static ALWAYS bool run_address(struct hot *h, uint8_t header)
{
	uint64_t ip = h->history[0], v = load64(h->p + 1);

	switch (header) {
	case 0x90:
		h->p += 1;
		break;
	case 0x91:
		ip = h->history[1];
		h->p += 1;
		break;
	case 0x92:
		ip = h->history[2];
		h->p += 1;
		break;
	case 0x95:
		ip = v & 0x80 ? ip >> 17 << 17 | (v & 0x7f) << 2 |
					(v & 0xff00) << 1 :
				ip >> 9 << 9 | (v & 0x7f) << 2;
		h->p += v & 0x80 ? 3 : 2;
		break;
	case 0x9a:
		ip = ip >> 32 << 32 | (v & 0xffff0000) | (v & 0x7f) << 2 |
		     (v & 0x7f00) << 1;
		h->p += 5;
		break;
	case 0x9d:
		ip = (v & ~UINT64_C(0xffff)) | (v & 0x7f) << 2 |
		     (v & 0x7f00) << 1;
		h->p += 9;
		break;
	default:
		return false;
	}
	h->history[2] = h->history[1];
	h->history[1] = h->history[0];
	h->history[0] = ip;
	h->ip = ip;
	h->place = ETM_HERE;
	return true;
}

/* A cycle count that only adds up. */
static ALWAYS bool run_cycles(struct etm *d, struct hot *h, uint8_t header)
{
	uint64_t v = load64(h->p + 1);
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
static void finish_packet(struct etm *d, struct hot h, struct aux_flow *f,
			  struct etm_path *path, uint32_t atoms)
{
	struct hot before = h;
	struct etm_mark m;

	before.f = f;
	before.path = path;
	leave(d, &before);
	etm_set_mark(d, &m);
	leave(d, &h);
	d->packet = d->pos++;
	etm_at(d, d->packet);
	etm_take_rest(d, atoms, &m);
}

/* How many packets may be taken before bytes and room are looked at again. */
static ALWAYS size_t count_safe(const struct etm *d, const struct hot *h,
				bool paths)
{
	size_t bytes = (size_t)(d->data + d->len - h->p) / LONGEST;
	size_t room = (size_t)(d->queue + ETM_GIVE - h->f);

	if (h->f >= d->queue + ETM_GIVE)
		return 0;
	if (!paths || d->stack)	/* one packet may give many */
		room = (room + ETM_ATOMS_MAX - 1) / ETM_ATOMS_MAX;
	return bytes < room ? bytes : room;
}

static ALWAYS void run_hot(struct etm *d, bool paths)
{
	struct aux_flow *f = NULL;
	struct etm_path *path = NULL, *next;
	const uint8_t *last = NULL;
	uint32_t atoms = 0;
	struct hot h;
	size_t n;

	enter(d, &h);
	while (!atoms && (n = count_safe(d, &h, paths)) != 0) {
		const uint8_t *p;

		for (; n; n--, last = p) {
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
			atoms = d->atoms[*p - 0xc0];
			next = find_known(&h, atoms);
			if (!next) {
				atoms = 0;
				break;
			}
			f = h.f;
			path = h.path;
			if (next->odd)
				atoms = run_odd(d, &h, next, atoms,
						base_of(d, p), paths);
			else
				atoms = 0;
			if (atoms)
				break;
			if (!next->odd)
				give_path(&h, next, base_of(d, p), paths);
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
	if (atoms)
		finish_packet(d, h, f, path, atoms);
	else
		leave(d, &h);
}

static void run_ready(struct etm *d)
{
	if (d->host->paths)
		run_hot(d, true);
	else
		run_hot(d, false);
}

void etm_run(struct etm *d)
{
	while (!d->done && !d->stop && !d->unsupported && d->tail < ETM_GIVE) {
		if (d->after.waits) {
			etm_push_after(d);
		} else if (d->ahead) {
			etm_look_ahead(d);
		} else if (d->pos >= d->len) {
			etm_finish(d);
		} else {
			if (is_ready(d))
				run_ready(d);
			if (d->pos < d->len && d->tail < ETM_GIVE &&
			    !d->unsupported)
				etm_take_packet(d);
		}
	}
}
