/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: the loop over packets. Those that most traces are full of (atoms along known
 * paths, addresses, cycle counts) are done here while nothing waits for anything;
 * all others one by one elsewhere.
 */
#include <string.h>

#include "decode/lib/etm/quick.h"

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
