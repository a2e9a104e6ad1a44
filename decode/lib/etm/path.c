/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: atoms as paths through the code.
 *
 * A path is what the atoms of one packet say from a node on; it is made once. It
 * ends early where code is missing, and at an indirect branch inside of the packet
 * whose target is on the return stack from before. A call and its return in one
 * path leave the stack as it was, but for what a full stack loses.
 */
#include <string.h>

#include "decode/lib/etm/fast.h"

#define DETAIL_RETURN 28	/* nothing on the return stack */

/* ---- the return stack ---- */

void etm_push_return(struct etm *d, uint64_t ip)
{
	if (!d->stack)
		return;
	d->top = (d->top + 1) % ETM_RET_DEPTH;
	d->returns[d->top] = ip;
	d->n_returns += d->n_returns < ETM_RET_DEPTH;
}

/* The address that no packet told. False: nor is there any on the stack. */
bool etm_pop_return(struct etm *d)
{
	d->place = ETM_NOWHERE;
	if (!d->n_returns)
		return false;
	etm_go(d, d->returns[d->top]);
	d->top = (d->top + ETM_RET_DEPTH - 1) % ETM_RET_DEPTH;
	d->n_returns--;
	d->place = ETM_HERE;
	return true;
}

/* What ran at ip is missing: nobody knows what it pushed and popped. */
void etm_lose_returns(struct etm *d, uint64_t ip)
{
	if (!d->stack)
		return;
	d->n_returns = 0;
	d->unsure = true;
	d->unsure_ip = ip;
}

/* The return stack lacks an address because code was missing: up to the next one in
 * the trace nobody knows what runs. */
void etm_go_astray(struct etm *d)
{
	etm_push_gap(d, AUX_GAP_NO_CODE, true, d->unsure_ip, DETAIL_RETURN);
	d->on = true;
	d->place = ETM_ADRIFT;
}

void etm_apply_returns(struct etm *d, const struct etm_path *p)
{
	uint32_t keep = ETM_RET_DEPTH - (p->peak < ETM_RET_DEPTH ? p->peak :
						ETM_RET_DEPTH);

	if (d->n_returns > keep)
		d->n_returns = keep;
	for (unsigned i = 0; i < p->n_sites; i++)
		etm_push_return(d, p->sites[i]);
}

/* ---- paths ---- */

static struct etm_step *get_step(struct etm *d, struct etm_node *n, bool taken)
{
	struct etm_step *s = n->steps[taken];

	if (s)
		return s;
	s = etm_store_alloc(d->store, sizeof(*s), 8);
	if (!s)
		return NULL;
	s->node = n;
	s->range = etm_range(n, taken);
	s->s.ranges = &s->range;
	s->s.n_ranges = 1;
	s->s.n_insns = n->n;
	n->steps[taken] = s;
	return s;
}

/* A path that is being made. */
struct making {
	struct aux_step *steps[ETM_ATOMS_MAX];
	uint64_t sites[ETM_ATOMS_MAX];
	struct etm_path p;
};

/* Adds one step; more: there are atoms behind it. */
static void add_step(const struct etm *d, struct making *m, struct etm_step *s,
		     bool taken, bool more)
{
	const struct etm_node *n = s->node;
	struct etm_path *p = &m->p;

	m->steps[p->p.n_steps++] = &s->s;
	p->n_insns += n->n;
	p->n_atoms++;
	p->last = n->last;
	p->end_ip = p->next = n->next;
	if (taken && n->link && d->stack) {
		m->sites[p->n_sites++] = n->next;
		if (p->n_sites > p->peak)
			p->peak = p->n_sites;
	}
	if (!taken || n->kind == ETM_WAYPOINT)
		return;
	if (n->kind == ETM_DIRECT)
		p->end_ip = n->target;
	else if (more && p->n_sites)
		p->end_ip = m->sites[--p->n_sites];
	else
		p->place = d->stack ? ETM_RETURN : ETM_NOWHERE;
}

static void make_path(struct etm *d, struct making *m, struct etm_node *node,
		      uint32_t atoms)
{
	uint32_t n = atoms >> ETM_ATOM_BITS;
	struct etm_path *p = &m->p;

	memset(p, 0, sizeof(*p));
	p->ip = node->ip;
	p->atoms = atoms;
	p->generation = d->generation;
	for (uint32_t i = 0; i < n && node; i++) {
		bool taken = atoms >> i & 1;
		struct etm_step *s = get_step(d, node, taken);

		if (!s)
			break;
		add_step(d, m, s, taken, i + 1 < n);
		if (p->place != ETM_HERE || i + 1 == n)
			break;
		node = etm_find_node(d, p->end_ip);
	}
	/* without a return stack, nothing is known of the rest */
	if (p->place == ETM_NOWHERE)
		p->n_atoms = (uint8_t)n;
	p->odd = p->peak || p->n_atoms != n;
	p->p.n_ranges = p->p.n_steps;
	p->p.n_insns = p->n_insns;
}

/* All its code is what it was. */
bool etm_is_valid(struct etm *d, struct etm_path *p)
{
	if (p->generation == d->generation)
		return true;
	for (uint32_t i = 0; i < p->p.n_steps; i++) {
		const struct etm_step *s =
			(const struct etm_step *)p->p.steps[i];

		if (!etm_is_good(d, s->node->region, s->node->ip))
			return false;
	}
	p->generation = d->generation;
	return true;
}

static struct etm_path *look_up(struct etm *d, uint64_t ip, uint32_t atoms)
{
	const struct etm_store *s = d->store;
	size_t mask = ((size_t)1 << s->path_bits) - 1;
	size_t i = etm_hash_path(ip, atoms, s->path_bits);
	struct etm_path *p;

	for (; (p = s->paths[i]) != NULL; i = (i + 1) & mask)
		if (p->ip == ip && p->atoms == atoms && etm_is_valid(d, p))
			return p;
	return NULL;
}

/* Into the store; NULL: there is no room. */
static struct etm_path *keep_path(struct etm *d, const struct making *m)
{
	size_t n_steps = m->p.p.n_steps * sizeof(m->steps[0]);
	size_t n_sites = m->p.n_sites * sizeof(m->sites[0]);
	struct etm_path *p = etm_store_alloc(
		d->store, sizeof(*p) + n_steps + n_sites, 64);
	struct aux_step **steps = (struct aux_step **)(p + 1);

	if (!p)
		return NULL;
	*p = m->p;
	memcpy(steps, m->steps, n_steps);
	p->p.steps = steps;
	p->p.kept = 1;
	p->sites = (uint64_t *)(steps + p->p.n_steps);
	memcpy(p->sites, m->sites, n_sites);
	return etm_store_add_path(d->store, p) ? p : NULL;
}

struct etm_path *etm_find_path(struct etm *d, uint64_t ip, uint32_t atoms)
{
	struct etm_path *p = look_up(d, ip, atoms);
	struct etm_node *node;
	struct making m;

	if (p)
		return p;
	node = etm_find_node(d, ip);
	if (!node)
		return NULL;
	make_path(d, &m, node, atoms);
	return m.p.n_atoms ? keep_path(d, &m) : NULL;
}

/* ---- atoms ---- */

/* One atom, where no path can be kept. */
static void take_atom(struct etm *d, bool taken)
{
	struct aux_flow range;
	struct etm_node n;

	if (!etm_walk(d, d->ip, &n)) {
		if (d->unsupported)
			return;
		if (n.n) {
			range = etm_range(&n, false);
			range.what = AUX_END_FALL;
			etm_push_range(d, &range);
		}
		etm_go(d, n.next);
		etm_push_no_code(d, n.next);
		etm_lose_returns(d, n.next);
		d->place = ETM_NOWHERE;
		return;
	}
	range = etm_range(&n, taken);
	etm_push_range(d, &range);
	if (taken && n.link)
		etm_push_return(d, n.next);
	etm_go(d, taken && n.kind == ETM_DIRECT ? n.target : n.next);
	if (taken && n.kind == ETM_INDIRECT)
		d->place = d->stack ? ETM_RETURN : ETM_NOWHERE;
}

/* Some of the atoms; returns how many. */
static uint32_t take_some(struct etm *d, uint32_t atoms)
{
	struct etm_path *p = etm_find_path(d, d->ip, atoms);

	if (!p) {
		take_atom(d, atoms & 1);
		return 1;
	}
	etm_push_path(d, p);
	if (p->peak)
		etm_apply_returns(d, p);
	etm_go(d, p->end_ip);
	d->place = (enum etm_place)p->place;
	return p->n_atoms;
}

/* The elements before an atom, an exception or a source address are in order. */
void etm_commit(struct etm *d)
{
	d->context_pending = false;
	if (d->n_early)
		etm_push_early(d);
	if (d->on_pending)
		d->overflowed = d->on_pending = false;
}

void etm_set_mark(const struct etm *d, struct etm_mark *m)
{
	m->tail = d->tail;
	m->waiting = d->waiting;
	m->on = d->on;
	m->last_known = d->last_known;
	m->lost = d->lost;
	m->told = d->told;
	m->last_ip = d->last_ip;
	m->next_ip = d->next_ip;
	m->offset = d->offset;
	if (d->waiting != ETM_NONE && d->tail - d->waiting <= ETM_WAITING)
		memcpy(m->ev, d->queue + d->waiting,
		       (d->tail - d->waiting) * sizeof(m->ev[0]));
}

/* An address is missing: nothing of the packet counts. */
static void take_back(struct etm *d, const struct etm_mark *m)
{
	d->tail = m->tail;
	d->waiting = m->waiting;
	d->on = m->on;
	d->last_known = m->last_known;
	d->lost = m->lost;
	d->told = m->told;
	d->last_ip = m->last_ip;
	d->next_ip = m->next_ip;
	d->offset = m->offset;
	if (d->waiting != ETM_NONE && d->tail - d->waiting <= ETM_WAITING)
		memcpy(d->queue + d->waiting, m->ev,
		       (d->tail - d->waiting) * sizeof(m->ev[0]));
	etm_fail(d, AUX_GAP_DESYNC);
}

void etm_take_rest(struct etm *d, uint32_t atoms, const struct etm_mark *m)
{
	while (atoms && !d->unsupported) {
		if (d->place == ETM_RETURN && !etm_pop_return(d)) {
			if (d->unsure)
				etm_go_astray(d);
			else
				take_back(d, m);
			return;
		}
		if (d->need_context || d->place != ETM_HERE)
			return;
		if (!d->code_64) {
			d->unsupported = true;
			return;
		}
		etm_at(d, d->packet);
		atoms = etm_skip_atoms(atoms, take_some(d, atoms));
	}
}

void etm_take_atoms(struct etm *d, uint32_t atoms)
{
	struct etm_mark m;

	if (d->state != ETM_DECODE)
		return;
	etm_commit(d);
	if (d->exc.waits) {
		etm_fail(d, AUX_GAP_DESYNC);
		return;
	}
	if (d->stack)
		etm_set_mark(d, &m);
	etm_take_rest(d, atoms, &m);
}
