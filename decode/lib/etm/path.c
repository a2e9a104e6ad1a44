/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: atoms as paths through the code, and the return stack.
 *
 * A path is what the atoms of one packet say from an ip on, made once and kept
 * in the memo. It ends before the last atom where code is missing, and at an
 * indirect branch whose target an earlier packet pushed on the return stack: a
 * path is the same whatever that stack holds. A call and its return in one path
 * leave the stack as it was, except that a full stack loses its oldest entries;
 * peak says how many.
 *
 * Specification: Arm IHI 0064, "Atom packets" and the return stack.
 */
#include <string.h>

#include "decode/lib/etm/impl.h"

#define DETAIL_RETURN 28	/* gap.detail: OCSD_ERR_RET_STACK_OVERFLOW */

/* ---- the return stack ---- */

void etm_push_return(struct etm *d, uint64_t ip)
{
	if (!d->src.return_stack)
		return;
	d->ret.top = (d->ret.top + 1) % ETM_RETURNS;
	d->ret.addr[d->ret.top] = ip;
	d->ret.n += d->ret.n < ETM_RETURNS;
}

bool etm_pop_return(struct etm *d)
{
	d->flow.where = ETM_AT_ADDRESS;
	if (!d->ret.n)
		return false;
	etm_continue_at(d, d->ret.addr[d->ret.top]);
	d->ret.top = (d->ret.top + ETM_RETURNS - 1) % ETM_RETURNS;
	d->ret.n--;
	d->flow.where = ETM_AT_IP;
	return true;
}

void etm_invalidate_returns(struct etm *d, uint64_t ip, enum aux_gap_cause why)
{
	if (!d->src.return_stack)
		return;
	d->ret.n = 0;
	d->ret.unsure = true;
	d->ret.unsure_ip = ip;
	d->ret.unsure_cause = (uint8_t)why;
}

/* Missing code may have pushed the address that a return needs now: what runs
 * up to the next address packet is unknown. The gap is at that code, its
 * cause. */
void etm_lose_flow(struct etm *d)
{
	etm_push_gap(d, (enum aux_gap_cause)d->ret.unsure_cause, true,
		     d->ret.unsure_ip, DETAIL_RETURN);
	d->out.on = true;
	d->flow.where = ETM_ADRIFT;
}

/* What p does to the return stack, after its own pairs of call and return. */
void etm_apply_returns(struct etm *d, const struct etm_path *p)
{
	uint32_t keep = ETM_RETURNS - (p->peak < ETM_RETURNS ? p->peak :
						ETM_RETURNS);

	if (d->ret.n > keep)
		d->ret.n = keep;
	for (unsigned i = 0; i < p->n_sites; i++)
		etm_push_return(d, p->sites[i]);
}

/* ---- paths ---- */

static struct etm_step *get_step(struct etm *d, struct etm_node *n, bool taken)
{
	struct etm_step *s = n->steps[taken];

	if (s)
		return s;
	s = etm_memo_alloc(d->memo, sizeof(*s), 8);
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

/* A path under construction. */
struct path_builder {
	struct aux_step *steps[ETM_ATOMS_MAX];
	uint64_t sites[ETM_ATOMS_MAX];
	struct etm_path p;
};

/* Appends a step; more: atoms follow it, so its return must be resolved
 * here. */
static void add_step(const struct etm *d, struct path_builder *m, struct etm_step *s,
		     bool taken, bool more)
{
	const struct etm_node *n = s->node;
	struct etm_path *p = &m->p;

	m->steps[p->p.n_steps++] = &s->s;
	p->n_insns += n->n;
	p->n_atoms++;
	p->last = n->last;
	p->end_ip = p->next = n->next;
	if (taken && n->link && d->src.return_stack) {
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
		p->where = d->src.return_stack ? ETM_AT_RETURN : ETM_AT_ADDRESS;
}

static void make_path(struct etm *d, struct path_builder *m, struct etm_node *node,
		      uint32_t atoms)
{
	uint32_t n = atoms >> ETM_ATOM_BITS;
	struct etm_path *p = &m->p;

	memset(p, 0, sizeof(*p));
	p->ip = node->ip;
	p->atoms = atoms;
	p->generation = d->code.generation;
	for (uint32_t i = 0; i < n && node; i++) {
		bool taken = atoms >> i & 1;
		struct etm_step *s = get_step(d, node, taken);

		if (!s)
			break;
		add_step(d, m, s, taken, i + 1 < n);
		if (p->where != ETM_AT_IP || i + 1 == n)
			break;
		node = etm_find_node(d, p->end_ip);
	}
	/* Without a return stack no atom can follow an indirect branch: what
	 * the packet still has is skipped. */
	if (p->where == ETM_AT_ADDRESS)
		p->n_atoms = (uint8_t)n;
	p->irregular = p->peak || p->n_atoms != n;
	p->p.n_ranges = p->p.n_steps;
	p->p.n_insns = p->n_insns;
}

bool etm_is_valid(struct etm *d, struct etm_path *p)
{
	if (p->generation == d->code.generation)
		return true;
	for (uint32_t i = 0; i < p->p.n_steps; i++) {
		const struct etm_step *s =
			(const struct etm_step *)p->p.steps[i];

		if (!etm_is_current(d, s->node->region, s->node->ip))
			return false;
	}
	p->generation = d->code.generation;
	return true;
}

static struct etm_path *look_up(struct etm *d, uint64_t ip, uint32_t atoms)
{
	const struct etm_memo *s = d->memo;
	size_t mask = ((size_t)1 << s->path_bits) - 1;
	size_t i = etm_hash_path(ip, atoms, s->path_bits);
	struct etm_path *p;

	for (; (p = s->paths[i]) != NULL; i = (i + 1) & mask)
		if (p->ip == ip && p->atoms == atoms && etm_is_valid(d, p))
			return p;
	return NULL;
}

/* Copies it into the memo; NULL: no room. */
static struct etm_path *keep_path(struct etm *d, const struct path_builder *m)
{
	size_t n_steps = m->p.p.n_steps * sizeof(m->steps[0]);
	size_t n_sites = m->p.n_sites * sizeof(m->sites[0]);
	struct etm_path *p = etm_memo_alloc(
		d->memo, sizeof(*p) + n_steps + n_sites, 64);
	struct aux_step **steps = (struct aux_step **)(p + 1);

	if (!p)
		return NULL;
	*p = m->p;
	memcpy(steps, m->steps, n_steps);
	p->p.steps = steps;
	p->p.kept = 1;
	p->sites = (uint64_t *)(steps + p->p.n_steps);
	memcpy(p->sites, m->sites, n_sites);
	return etm_memo_add_path(d->memo, p) ? p : NULL;
}

struct etm_path *etm_find_path(struct etm *d, uint64_t ip, uint32_t atoms)
{
	struct etm_path *p = look_up(d, ip, atoms);
	struct etm_node *node;
	struct path_builder m;

	if (p)
		return p;
	node = etm_find_node(d, ip);
	if (!node)
		return NULL;
	make_path(d, &m, node, atoms);
	return m.p.n_atoms ? keep_path(d, &m) : NULL;
}

/* ---- atoms ---- */

/* One atom, where no path can be kept: code is missing, crosses regions, or the
 * memo is full. */
static void follow_atom(struct etm *d, bool taken)
{
	struct aux_flow range;
	struct etm_node n;

	if (!etm_walk(d, d->flow.ip, &n)) {
		if (d->unsupported)
			return;
		if (n.n) {
			range = etm_range(&n, false);
			range.what = AUX_END_FALL;
			etm_push_range(d, &range);
		}
		etm_continue_at(d, n.next);
		if (n.kind == ETM_UNKNOWN) {
			etm_push_unknown(d, n.next);
			return;
		}
		etm_push_no_code(d, n.next);
		etm_invalidate_returns(d, n.next, AUX_GAP_NO_CODE);
		d->flow.where = ETM_AT_ADDRESS;
		return;
	}
	range = etm_range(&n, taken);
	etm_push_range(d, &range);
	if (taken && n.link)
		etm_push_return(d, n.next);
	etm_continue_at(d, taken && n.kind == ETM_DIRECT ? n.target : n.next);
	if (taken && n.kind == ETM_INDIRECT)
		d->flow.where = d->src.return_stack ? ETM_AT_RETURN : ETM_AT_ADDRESS;
}

/* Follows as many atoms as one path has; returns how many. */
static uint32_t follow_path(struct etm *d, uint32_t atoms)
{
	struct etm_path *p = etm_find_path(d, d->flow.ip, atoms);

	if (!p) {
		follow_atom(d, atoms & 1);
		return 1;
	}
	etm_push_path(d, p);
	if (p->peak)
		etm_apply_returns(d, p);
	etm_continue_at(d, p->end_ip);
	d->flow.where = (enum etm_where)p->where;
	return p->n_atoms;
}

void etm_commit(struct etm *d)
{
	d->ctx.pending = false;
	if (d->early.n)
		etm_push_early(d);
	if (d->flow.trace_on)
		d->flow.overflowed = d->flow.trace_on = false;
}

void etm_set_mark(const struct etm *d, struct etm_mark *m)
{
	const struct aux_queue *q = &d->q;

	m->tail = q->tail;
	m->unsettled = q->unsettled;
	m->offset = q->offset;
	m->out = d->out;
	if (q->unsettled != AUX_QUEUE_NONE &&
	    q->tail - q->unsettled <= AUX_QUEUE_WAIT_MAX)
		memcpy(m->ev, q->events + q->unsettled,
		       (q->tail - q->unsettled) * sizeof(m->ev[0]));
}

/* A return has no address: the packet contradicts the trace before it, and none
 * of its atoms count, as with OpenCSD. */
static void roll_back(struct etm *d, const struct etm_mark *m)
{
	struct aux_queue *q = &d->q;

	q->tail = m->tail;
	q->unsettled = m->unsettled;
	q->offset = m->offset;
	d->out = m->out;
	if (q->unsettled != AUX_QUEUE_NONE &&
	    q->tail - q->unsettled <= AUX_QUEUE_WAIT_MAX)
		memcpy(q->events + q->unsettled, m->ev,
		       (q->tail - q->unsettled) * sizeof(m->ev[0]));
	etm_fail(d, AUX_GAP_DESYNC);
}

void etm_follow_rest(struct etm *d, uint32_t atoms, const struct etm_mark *m)
{
	while (atoms && !d->unsupported) {
		if (d->flow.where == ETM_AT_RETURN && !etm_pop_return(d)) {
			if (d->ret.unsure)
				etm_lose_flow(d);
			else
				roll_back(d, m);
			return;
		}
		if (d->ctx.needed || d->flow.where != ETM_AT_IP)
			return;
		if (!d->flow.code_64) {
			d->unsupported = true;
			return;
		}
		etm_at(d, d->in.packet);
		atoms = etm_skip_atoms(atoms, follow_path(d, atoms));
	}
}

void etm_follow_atoms(struct etm *d, uint32_t atoms)
{
	struct etm_mark m;

	if (d->sync.state != ETM_DECODE)
		return;
	etm_commit(d);
	if (d->exc.pending || d->wait.pending) {
		etm_fail(d, AUX_GAP_DESYNC);
		return;
	}
	if (d->src.return_stack)
		etm_set_mark(d, &m);
	etm_follow_rest(d, atoms, &m);
}
