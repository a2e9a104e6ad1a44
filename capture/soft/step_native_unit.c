/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The units of a code cache: made from the program's code, linked to each other as soon as
 * there is something to link, found by the address of either, and forgotten when the
 * program's code is gone.
 *
 * Exits that lead to what is not copied yet wait for it, by its address: a unit is linked to
 * all that lead to it when it is made.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/soft/step_native.h"
#include "common/array.h"

#define AHEAD 48	/* units made at once, before they are reached; */
#define WAY_AHEAD 12	/* with a way */

/* ---- pages ---- */

/* Code that may change is read anew for each unit. */
static struct native_page *read_page(struct step_thread *t, uint64_t addr)
{
	struct step_native *nc = t->proc->native;
	uint8_t bytes[STEP_PAGE];
	int kind = step_code_page(t, addr, bytes);
	uint32_t i = step_hash_get(&nc->page_at, addr);
	struct native_page *pg = i ? nc->pages[i - 1] : calloc(1, sizeof(*pg));

	if (!pg || (!i && array_grow(&nc->pages, nc->n_pages, &nc->cap_pages,
				     sizeof(pg)))) {
		free(pg);
		return NULL;
	}
	pg->addr = addr;
	pg->ok = kind > 0;
	pg->changes = kind == STEP_CODE_CHANGES;
	pg->round = nc->n_units;
	if (pg->ok)
		memcpy(pg->bytes, bytes, sizeof(bytes));
	if (i)
		return pg;
	nc->pages[nc->n_pages++] = pg;
	step_hash_put(&nc->page_at, addr, (uint32_t)nc->n_pages);
	return pg;
}

static struct native_page *get_page(struct step_thread *t, uint64_t addr)
{
	struct step_native *nc = t->proc->native;
	struct native_page *pg = nc->latest;
	uint32_t i;

	if (!pg || pg->addr != addr) {
		i = step_hash_get(&nc->page_at, addr);
		pg = i ? nc->pages[i - 1] : NULL;
	}
	if (!pg || (pg->changes && pg->round != nc->n_units))
		pg = read_page(t, addr);
	nc->latest = pg;
	return pg;
}

static size_t fetch(void *priv, uint64_t ip, uint8_t *bytes)
{
	uint64_t page = ip & ~(uint64_t)(STEP_PAGE - 1);
	struct native_page *pg = get_page(priv, page);
	size_t at = ip - page, n = STEP_PAGE - at;

	if (!pg || !pg->ok || step_marked(((struct step_thread *)priv)->proc, ip))
		return 0;
	n = n < 15 ? n : 15;
	memcpy(bytes, pg->bytes + at, n);
	if (n == 15)
		return n;
	pg = get_page(priv, page + STEP_PAGE);
	if (!pg || !pg->ok)
		return n;
	memcpy(bytes + n, pg->bytes, 15 - n);
	return 15;
}

static bool changes(void *priv, uint64_t ip)
{
	struct native_page *pg = get_page(priv, ip & ~(uint64_t)(STEP_PAGE - 1));

	return pg && pg->changes;
}

uint32_t step_native_unit_of(const struct step_native *nc, uint64_t ip)
{
	uint32_t id = step_hash_get(&nc->by_ip, ip);

	return id && !nc->units[id].dead ? id : 0;
}

/* Perhaps it is of a unit that is gone. */
static bool known(void *priv, uint64_t ip)
{
	const struct native_page *pg = get_page(priv, ip & ~(uint64_t)(STEP_PAGE - 1));

	return pg && pg->begins[ip % STEP_PAGE / 8] >> ip % 8 & 1;
}

/* The first area from whose both ends ip can be reached. */
static unsigned area_for(const struct step_native *nc, uint64_t ip)
{
	int64_t reach = INT64_C(0x7ff00000);
	unsigned i;

	for (i = 0; i < NATIVE_N_AREAS; i++) {
		int64_t d = (int64_t)(ip - nc->areas[i].at);

		if (d > -reach + (int64_t)NATIVE_AREA_BYTES && d < reach)
			return i;
	}
	return NATIVE_N_AREAS - 1;
}

static uint64_t area_at(void *priv, uint64_t ip)
{
	struct step_native *nc = ((struct step_thread *)priv)->proc->native;

	return nc->areas[area_for(nc, ip)].at;
}

static int add_block(struct step_native *nc, const struct native_insn *first,
		     const struct native_insn *last)
{
	if (array_grow(&nc->blocks, nc->n_blocks, &nc->cap_blocks,
		       sizeof(*nc->blocks)))
		return -1;
	nc->blocks[nc->n_blocks++] = (struct soft_block){
		.start = first->ip, .end = last->ip + last->size,
		.target = last->target, .n_insns = (uint32_t)(last - first + 1),
		.cls = last->cls, .last_size = last->size,
	};
	return 0;
}

/* The blocks of the unit in nc->copy, and how many each exit has done. */
static int make_blocks(struct step_native *nc)
{
	struct native_copy *c = &nc->copy;
	size_t before = nc->n_blocks;
	unsigned i, first = 0, exit = 0;
	bool last;

	for (i = 0; i < c->n_insns; i++) {
		last = i + 1 == c->n_insns &&
		       c->exits[c->n_exits - 1].kind != NATIVE_TRAP;
		if (c->insns[i].cls != X86_OTHER || last) {
			if (add_block(nc, &c->insns[first], &c->insns[i]))
				return -1;
			first = i + 1;
		}
		for (; exit < c->n_exits && c->exits[exit].n_insns <= i + 1;
		     exit++)
			c->exits[exit].n_blocks =
				(uint16_t)(nc->n_blocks - before);
	}
	return 0;
}

static int append(void *array, size_t *n, size_t *cap, size_t size,
		  const void *from, unsigned count)
{
	if (count && array_grow(array, *n + count - 1, cap, size))
		return -1;
	memcpy(*(char **)array + *n * size, from, count * size);
	*n += count;
	return 0;
}

/* What reading an exit's records needs. */
static int make_paths(struct step_native *nc, const struct native_unit *u)
{
	const struct native_exit *e = nc->exits + u->first_exit;
	struct soft_path none = { .by_blocks = true }, path;
	unsigned i;

	for (i = 0; i < u->n_exits; i++, e++) {
		path = e->n_blocks ? soft_path_of(nc->blocks, u->first_block,
						  e->n_blocks, e->target) : none;
		if (append(&nc->paths, &nc->n_paths, &nc->cap_paths,
			   sizeof(path), &path, 1)) {
			free(path.tail);
			return -1;
		}
	}
	return 0;
}

/* ---- links ---- */

void step_native_link(struct step_native *nc, size_t id, uint32_t to)
{
	struct native_exit *e = &nc->exits[id];

	if (e->to == to)
		return;
	e->to = to;
	e->next_in = nc->units[to].in;
	nc->units[to].in = (uint32_t)id + 1;
	native_link(&nc->areas[nc->units[e->unit].area], e,
		    nc->units[to].code);
}

/* It leads to nothing: to a unit when one is made there. */
static void wait_for_unit(struct step_native *nc, size_t id)
{
	struct native_exit *e = &nc->exits[id];
	uint32_t first = step_hash_get(&nc->waiting, e->target);

	e->to = 0;
	e->next_in = first ? first : NATIVE_NO_EXIT;
	if (step_hash_put(&nc->waiting, e->target, (uint32_t)id + 1))
		nc->failed = true;
}

/* Links a new unit's exits, and those that wait for it. */
static int link_unit(struct step_native *nc, uint32_t id)
{
	struct native_unit *u = &nc->units[id];
	uint32_t i, next, to;

	for (i = u->first_exit; i < u->first_exit + u->n_exits; i++) {
		if (!nc->exits[i].link)
			continue;
		to = step_native_unit_of(nc, nc->exits[i].target);
		if (to && nc->units[to].n_insns)
			step_native_link(nc, i, to);
		else
			wait_for_unit(nc, i);
	}
	i = step_hash_get(&nc->waiting, u->start);
	if (!i || i == NATIVE_NO_EXIT || !u->n_insns)
		return 0;
	for (; i != NATIVE_NO_EXIT; i = next) {
		next = nc->exits[i - 1].next_in;
		step_native_link(nc, i - 1, id);
	}
	return step_hash_put(&nc->waiting, u->start, NATIVE_NO_EXIT);
}

/* known() says so. */
static void note_begin(struct step_native *nc, uint64_t ip)
{
	uint32_t i = step_hash_get(&nc->page_at, ip & ~(uint64_t)(STEP_PAGE - 1));

	if (i)
		nc->pages[i - 1]->begins[ip % STEP_PAGE / 8] |=
			(uint8_t)(1 << ip % 8);
}

static int register_copy(struct step_native *nc, unsigned area, uint64_t ip)
{
	struct native_copy *c = &nc->copy;
	struct native_unit u = { .start = ip, .code = c->code, .end = c->end,
			  .first_insn = (uint32_t)nc->n_insns,
			  .first_exit = (uint32_t)nc->n_exits,
			  .first_block = (uint32_t)nc->n_blocks,
			  .n_insns = (uint16_t)c->n_insns,
			  .n_exits = (uint16_t)c->n_exits,
			  .area = (uint8_t)area };
	uint32_t id = (uint32_t)nc->n_units;
	unsigned i;

	u.low = u.high = ip;
	for (i = 0; i < c->n_insns; i++) {
		const struct native_insn *in = &c->insns[i];

		u.low = in->ip < u.low ? in->ip : u.low;
		u.high = in->ip + in->size > u.high ? in->ip + in->size : u.high;
	}
	if (make_blocks(nc) ||
	    append(&nc->insns, &nc->n_insns, &nc->cap_insns,
		   sizeof(*nc->insns), c->insns, c->n_insns) ||
	    append(&nc->exits, &nc->n_exits, &nc->cap_exits,
		   sizeof(*nc->exits), c->exits, c->n_exits))
		return -1;
	u.n_blocks = (uint16_t)(nc->n_blocks - u.first_block);
	if (make_paths(nc, &u))
		return -1;
	if (append(&nc->units, &nc->n_units, &nc->cap_units, sizeof(u), &u, 1) ||
	    append(&nc->order[area], &nc->n_order[area], &nc->cap_order[area],
		   sizeof(id), &id, 1) ||
	    step_hash_put(&nc->by_ip, ip, id))
		return -1;
	note_begin(nc, ip);
	return link_unit(nc, id);
}

/* A new unit for ip; 0: it cannot run from the cache. way NULL: none. */
static uint32_t make_unit(struct step_thread *t, uint64_t ip, const struct native_way *way)
{
	struct step_native *nc = t->proc->native;
	const struct native_source src = { fetch, changes, known, area_at, t };
	unsigned area = area_for(nc, ip);
	struct native_area *a = &nc->areas[area];
	uint8_t bytes[15];

	if (nc->failed || a->size - a->used < NATIVE_MAX_CODE ||
	    nc->n_exits > NATIVE_MAX_ID - NATIVE_MAX_EXITS ||
	    !fetch(t, ip, bytes))
		return 0;
	nc->translating = true;
	native_translate(a, &src, way, ip, (uint32_t)nc->n_units,
			 (uint32_t)nc->n_exits, &nc->copy);
	nc->translating = false;
	if (register_copy(nc, area, ip)) {
		nc->failed = true;
		return 0;
	}
	return nc->copy.n_insns ? (uint32_t)nc->n_units - 1 : 0;
}

/* The unit for ip; 0: it cannot run from the cache. */
uint32_t step_native_find(struct step_thread *t, uint64_t ip)
{
	struct step_native *nc = t->proc->native;
	uint32_t id = step_native_unit_of(nc, ip);

	if (id)
		return nc->units[id].n_insns ? id : 0;
	return make_unit(t, ip, NULL);
}

/* The unit whose copy has this address; NULL: not in one. */
const struct native_unit *step_native_at(const struct step_native *nc, uint64_t pc)
{
	size_t lo, hi, mid;
	unsigned a;

	for (a = 0; a < NATIVE_N_AREAS; a++) {
		const struct native_unit *u;

		if (pc - nc->areas[a].at >= nc->areas[a].used)
			continue;
		for (lo = 0, hi = nc->n_order[a]; lo < hi;) {
			mid = (lo + hi) / 2;
			u = &nc->units[nc->order[a][mid]];
			if (pc < u->code)
				hi = mid;
			else if (pc >= u->end)
				lo = mid + 1;
			else
				return u;
		}
	}
	return NULL;
}

/* Where indirect branches end up that have no door. */
bool step_native_is_miss(const struct step_native *nc, uint64_t pc)
{
	unsigned a;

	for (a = 0; a < NATIVE_N_AREAS; a++)
		if (pc == nc->areas[a].miss)
			return true;
	return false;
}

/* ---- doors ---- */

static uint64_t door_entry(uint64_t ip)
{
	return (ip >> 16) % NATIVE_REAL_TABLES * NATIVE_N_TARGETS + (ip & 0xffff);
}

/* The unit whose door is the first one there; 0: none. */
static uint32_t first_door(const struct step_native *nc, uint64_t entry)
{
	uint32_t id = step_hash_get(&nc->doors, entry);

	return nc->units[id].dead ? 0 : id;
}

static uint64_t door_code(const struct step_native *nc, uint32_t id)
{
	return id ? nc->units[id].door.code : nc->areas[0].miss;
}

/* The tables lead to it, or (0) to none. */
static void set_first_door(struct step_native *nc, uint64_t entry, uint32_t id)
{
	int64_t *tables = (void *)nc->mem;

	if (id && step_hash_put(&nc->doors, entry, id))
		id = 0;
	__atomic_store_n(&tables[entry],
			 (int64_t)(door_code(nc, id) - nc->areas[0].miss),
			 __ATOMIC_RELEASE);
}

/* Indirect branches find the unit. */
void step_native_door(struct step_native *nc, uint32_t id)
{
	struct native_unit *u = &nc->units[id];
	struct native_area *a = &nc->areas[u->area];
	uint64_t entry = door_entry(u->start);

	if (u->door.code || a->size - a->used < NATIVE_MAX_CODE)
		return;
	u->next_door = first_door(nc, entry);
	u->door = native_make_door(a, u->start, u->code,
				   door_code(nc, u->next_door));
	set_first_door(nc, entry, id);
}

/* They do not any more. A unit that is in the way of another one is dead already. */
static void drop_door(struct step_native *nc, uint32_t id)
{
	struct native_unit *u = &nc->units[id], *p = NULL;
	uint64_t entry = door_entry(u->start);
	uint32_t at;

	if (!u->door.code)
		return;
	for (at = first_door(nc, entry); at && at != id; at = p->next_door)
		p = &nc->units[at];
	if (!at)
		return;
	if (!p) {
		set_first_door(nc, entry, u->next_door);
		return;
	}
	p->next_door = u->next_door;
	native_link_door(&nc->areas[p->area], &p->door,
			 door_code(nc, u->next_door));
}

/* Where a unit may go on, with units that are made for it if there is room for
 * more: whatever is ready needs no stop when it is reached first. */
static uint32_t make_ready(struct step_thread *t, uint64_t ip, size_t limit)
{
	struct step_native *nc = t->proc->native;
	uint32_t id = step_native_unit_of(nc, ip);

	if (!id && nc->n_units < limit)
		id = step_native_find(t, ip);
	return id && nc->units[id].n_insns ? id : 0;
}

/* Makes what the unit leads to, and what that leads to. New units have the numbers after
 * it. */
static void expand(struct step_thread *t, uint32_t id, size_t ahead)
{
	struct step_native *nc = t->proc->native;
	size_t limit = nc->n_units + ahead, i;
	uint32_t to;

	for (; id < nc->n_units; id++) {
		const struct native_unit u = nc->units[id];

		for (i = u.first_exit; i < u.first_exit + u.n_exits; i++) {
			struct native_exit e = nc->exits[i];

			if (!e.to && e.link)
				make_ready(t, e.target, limit);
		}
		for (i = u.first_insn; i < u.first_insn + u.n_insns; i++) {
			struct native_insn in = nc->insns[i];

			if (in.cls != X86_CALL && in.cls != X86_IND_CALL)
				continue;
			to = make_ready(t, in.ip + in.size, limit);
			if (to)
				step_native_door(nc, to);
		}
	}
}

/* The unit for ip, which is about to run; 0: as step_native_find(). */
uint32_t step_native_reach(struct step_thread *t, uint64_t ip)
{
	size_t before = t->proc->native->n_units;
	uint32_t id = step_native_find(t, ip);

	if (id && id >= before)
		expand(t, id, AHEAD);
	return id;
}

void step_native_replace(struct step_thread *t, uint32_t old, const struct native_way *way)
{
	struct step_native *nc = t->proc->native;
	uint32_t id = make_unit(t, nc->units[old].start, way), i, next;
	struct native_unit *u;

	if (!id)
		return;
	u = &nc->units[id];
	u->way = true;
	for (i = nc->units[old].in; i; i = next) {
		next = nc->exits[i - 1].next_in;
		if (nc->exits[i - 1].to == old)
			step_native_link(nc, i - 1, id);
	}
	nc->units[old].in = 0;
	if (nc->units[old].door.code) {
		step_native_door(nc, id);
		if (u->door.code)
			drop_door(nc, old);
	}
	expand(t, id, WAY_AHEAD);
}

static void forget_pages(struct step_native *nc, uint64_t start, uint64_t end)
{
	size_t i, n = 0;

	step_hash_clear(&nc->page_at);
	nc->latest = NULL;
	for (i = 0; i < nc->n_pages; i++) {
		struct native_page *pg = nc->pages[i];

		if (pg->addr + STEP_PAGE > start && pg->addr < end) {
			free(pg);
			continue;
		}
		nc->pages[n++] = pg;
		if (step_hash_put(&nc->page_at, pg->addr, (uint32_t)n))
			nc->failed = true;
	}
	nc->n_pages = n;
}

/* Whether any instruction of u was in [start, end). */
static bool unit_overlaps(const struct step_native *nc, const struct native_unit *u,
			  uint64_t start, uint64_t end)
{
	const struct native_insn *in = nc->insns + u->first_insn;
	unsigned i;

	for (i = 0; i < u->n_insns; i++)
		if (in[i].ip < end && in[i].ip + in[i].size > start)
			return true;
	return u->start >= start && u->start < end;
}

/* Nothing leads to it any more. */
static void kill_unit(struct step_native *nc, struct native_unit *u)
{
	uint32_t i, next, id = (uint32_t)(u - nc->units);

	drop_door(nc, id);
	u->dead = true;
	for (i = u->in; i; i = next) {
		struct native_exit *e = &nc->exits[i - 1];

		next = e->next_in;
		if (e->to != id)
			continue;
		native_link(&nc->areas[nc->units[e->unit].area], e, 0);
		wait_for_unit(nc, i - 1);
	}
	u->in = 0;
}

void step_native_forget(struct step_process *proc, uint64_t start, uint64_t end)
{
	struct step_native *nc = proc->native;
	bool any = false;
	size_t i;

	if (!nc)
		return;
	forget_pages(nc, start, end);
	for (i = 1; i < nc->n_units; i++) {
		struct native_unit *u = &nc->units[i];

		if (u->dead || u->low >= end || u->high <= start ||
		    !unit_overlaps(nc, u, start, end))
			continue;
		kill_unit(nc, u);
		any = true;
	}
	proc->step->counts[STEP_N_CHANGED] += any;
}

/* Of a unit's instructions, those in the page are no longer what was copied. */
static bool unit_differs(const struct step_native *nc, const struct native_unit *u,
			 uint64_t page, const uint8_t *before, const uint8_t *now)
{
	const struct native_insn *in = nc->insns + u->first_insn;
	unsigned i;

	for (i = 0; i < u->n_insns; i++) {
		uint64_t from = in[i].ip, to = from + in[i].size;

		from = from < page ? page : from;
		to = to > page + STEP_PAGE ? page + STEP_PAGE : to;
		if (from < to && memcmp(before + (from - page), now + (from - page),
					to - from))
			return true;
	}
	return false;
}

/* The recording has the new bytes from now on: a unit that is still of the old
 * ones must not run again without these being saved again. */
void step_native_changed(struct step_process *proc, uint64_t page,
			 const uint8_t *before, const uint8_t *now)
{
	struct step_native *nc = proc->native;
	size_t i;

	for (i = 1; nc && i < nc->n_units; i++) {
		struct native_unit *u = &nc->units[i];

		if (!u->dead && u->low < page + STEP_PAGE && u->high > page &&
		    unit_differs(nc, u, page, before, now))
			kill_unit(nc, u);
	}
}
