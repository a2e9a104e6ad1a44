/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that run from a code cache, and what they ran there.
 *
 * A process's cache is a memfd that it and this process have mapped: the one
 * executes it, the other writes it. Two areas for copies, near the program and
 * near its libraries, so that most relative operands reach; and data, the table
 * of indirect targets and each thread's slots and ring.
 *
 * Invariant: a thread that is stopped is either inside, with registers that only
 * this file knows how to read, or has the registers and the address that it
 * would have had without the cache. Only in the latter state does it enter the
 * kernel for a signal's handler, or for a system call that is not plain; so the
 * program never sees an address of the cache. Where a stop falls between two
 * instructions of the program, single steps lead on to the next of them.
 *
 * Specification: ptrace(2); Linux, arch/x86/entry/entry_64.S (what SYSCALL
 * leaves in RCX) and kernel/signal.c (calls that are restarted).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/soft/step_native.h"
#include "common/array.h"
#include "common/clock.h"

#define SETTLE_STEPS 1000	/* far more than between two instructions */
#define CALL_RSEQ 334
#define ALIGN_FLAG 0x40000u	/* of EFLAGS: copied code is read where it is */
#define AHEAD 32	/* units made at once, before they are reached */
#define RECORD_AT 20	/* bytes from where an exit begins to its record, */
#define RECORD_BYTES 20	/* and from there until it counts */

static struct native_slots *slots_of(const struct step_thread *t)
{
	return step_native_slots(t, t->native.half);
}

static uint64_t slots_at(const struct step_thread *t)
{
	const struct step_native *nc = t->proc->native;

	return nc->data_at + (uint64_t)((uint8_t *)slots_of(t) - nc->mem);
}

static void set_cur(struct step_thread *t, int64_t cur)
{
	__atomic_store_n(&slots_of(t)->cur, cur, __ATOMIC_RELEASE);
}

static void count(const struct step_thread *t, enum step_count what)
{
	t->proc->step->counts[what]++;
}

/* ---- units ---- */

/* Code that may change is read anew for each unit. */
static struct native_page *read_page(struct step_thread *t, uint64_t addr)
{
	struct step_native *nc = t->proc->native;
	uint8_t bytes[STEP_PAGE];
	int kind = step_code_page(t, addr, bytes);
	uint32_t i = step_hash_get(&nc->page_at, addr);
	struct native_page *pg = i ? nc->pages[i - 1] : malloc(sizeof(*pg));

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
	uint32_t i = step_hash_get(&nc->page_at, addr);
	struct native_page *pg = i ? nc->pages[i - 1] : NULL;

	return pg && (!pg->changes || pg->round == nc->n_units) ?
		       pg : read_page(t, addr);
}

static size_t fetch(void *priv, uint64_t ip, uint8_t *bytes)
{
	uint64_t page = ip & ~(uint64_t)(STEP_PAGE - 1);
	struct native_page *pg = get_page(priv, page);
	size_t at = ip - page, n = STEP_PAGE - at;

	if (!pg || !pg->ok)
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

static bool known(void *priv, uint64_t ip)
{
	return step_native_unit_of(((struct step_thread *)priv)->proc->native, ip);
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
	unsigned i;

	for (i = 0; i < count; i++) {
		if (array_grow(array, *n, cap, size))
			return -1;
		memcpy(*(char **)array + *n * size,
		       (const char *)from + i * size, size);
		++*n;
	}
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
	return 0;
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
static uint32_t find_unit(struct step_thread *t, uint64_t ip)
{
	struct step_native *nc = t->proc->native;
	uint32_t id = step_native_unit_of(nc, ip);

	if (id)
		return nc->units[id].n_insns ? id : 0;
	return make_unit(t, ip, NULL);
}

/* The unit whose copy has this address; NULL: not in one. */
static const struct native_unit *unit_at(const struct step_native *nc, uint64_t pc)
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
static bool is_miss(const struct step_native *nc, uint64_t pc)
{
	unsigned a;

	for (a = 0; a < NATIVE_N_AREAS; a++)
		if (pc == nc->areas[a].miss)
			return true;
	return false;
}

static void unlink_exit(struct step_native *nc, struct native_exit *e)
{
	e->to = 0;
	native_link(&nc->areas[nc->units[e->unit].area], e, 0);
}

/* Several threads may stop where an exit leads to nothing before the first of them is let
 * on: it is in the list of its unit once. */
static void link_exit(struct step_native *nc, size_t id, uint32_t to)
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
static void add_door(struct step_native *nc, uint32_t id)
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
		id = find_unit(t, ip);
	return id && nc->units[id].n_insns ? id : 0;
}

/* Links the unit, and those that it leads to, as far as is known. New units
 * have the numbers after it. */
static void expand(struct step_thread *t, uint32_t id)
{
	struct step_native *nc = t->proc->native;
	size_t limit = nc->n_units + AHEAD, i;
	uint32_t to;

	for (; id < nc->n_units; id++) {
		const struct native_unit u = nc->units[id];

		for (i = u.first_exit; i < u.first_exit + u.n_exits; i++) {
			struct native_exit e = nc->exits[i];

			if (e.to || !e.link)
				continue;
			to = make_ready(t, e.target, limit);
			if (to)
				link_exit(nc, i, to);
		}
		for (i = u.first_insn; i < u.first_insn + u.n_insns; i++) {
			struct native_insn in = nc->insns[i];

			if (in.cls != X86_CALL && in.cls != X86_IND_CALL)
				continue;
			to = make_ready(t, in.ip + in.size, limit);
			if (to)
				add_door(nc, to);
		}
	}
}

/* The unit for ip, which is about to run; 0: as find_unit(). */
static uint32_t reach_unit(struct step_thread *t, uint64_t ip)
{
	size_t before = t->proc->native->n_units;
	uint32_t id = find_unit(t, ip);

	if (id && id >= before)
		expand(t, id);
	return id;
}

void step_native_replace(struct step_thread *t, uint32_t old, const struct native_way *way)
{
	struct step_native *nc = t->proc->native;
	uint32_t id = make_unit(t, nc->units[old].start, way), i, next, to;
	struct native_unit *u;

	if (!id)
		return;
	u = &nc->units[id];
	u->way = true;
	for (i = nc->units[old].in; i; i = next) {
		next = nc->exits[i - 1].next_in;
		if (nc->exits[i - 1].to == old)
			link_exit(nc, i - 1, id);
	}
	nc->units[old].in = 0;
	if (nc->units[old].door.code) {
		add_door(nc, id);
		if (u->door.code)
			drop_door(nc, old);
	}
	for (i = u->first_exit; i < u->first_exit + u->n_exits; i++) {
		if (!nc->exits[i].link)
			continue;
		to = make_ready(t, nc->exits[i].target, 0);
		if (to)
			link_exit(nc, i, to);
	}
}

static void forget_pages(struct step_native *nc, uint64_t start, uint64_t end)
{
	size_t i, n = 0;

	step_hash_clear(&nc->page_at);
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
	struct native_exit *e;
	uint32_t i, id = (uint32_t)(u - nc->units);

	drop_door(nc, id);
	u->dead = true;
	for (i = u->in; i; i = e->next_in) {
		e = &nc->exits[i - 1];
		if (e->to == id)
			unlink_exit(nc, e);
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

/* ---- in and out ---- */

static bool claim_slot(struct step_thread *t)
{
	struct step_native *nc = t->proc->native;
	struct native_slots *s;
	uint32_t i;

	for (i = 0; i < NATIVE_N_SLOTS && nc->taken[i]; i++)
		;
	if (i == NATIVE_N_SLOTS)
		return false;
	nc->taken[i] = true;
	nc->n_taken++;
	t->native.slot = i + 1;
	s = slots_of(t);
	memset(s, 0, sizeof(*s));
	s->calls = nc->data_at + NATIVE_CALLS_AT;
	s->miss = nc->areas[0].miss;
	for (i = 0; i < NATIVE_N_TABLES; i++)
		s->tables[i] = nc->data_at +
			       i % NATIVE_REAL_TABLES * NATIVE_TABLE_BYTES;
	*step_native_slots(t, 1) = *s;
	set_cur(t, -NATIVE_RING);
	step_native_begin_ring(t);
	return true;
}

void step_native_drop(struct step_thread *t)
{
	if (t->native.slot && t->proc && t->proc->native) {
		t->proc->native->taken[t->native.slot - 1] = false;
		t->proc->native->n_taken--;
	}
	t->native = (struct step_native_thread){ 0 };
}

static int run_on(struct step_thread *t, const struct user_regs_struct *r)
{
	ptrace(PTRACE_SETREGS, t->tid, NULL, r);
	t->running = true;
	ptrace(PTRACE_CONT, t->tid, NULL, NULL);
	return t->proc->step->error;
}

/* The thread is as it would be without the cache, at ip. */
static void come_out(struct step_thread *t, struct user_regs_struct *r,
		     uint64_t ip)
{
	r->rip = ip;
	r->gs_base = t->native.gs;
	ptrace(PTRACE_SETREGS, t->tid, NULL, r);
	t->native.inside = t->native.tip = false;
	t->ip = ip;
	t->insn.size = 0;
	if (!t->block_n)
		t->block_start = ip;
}

bool step_native_enter(struct step_thread *t)
{
	struct step_native_thread *n = &t->native;
	struct user_regs_struct r;
	uint32_t id;

	if (!t->proc->step->native || t->in_syscall || t->restart ||
	    t->injected || t->block_n || t->ip == n->step_ip ||
	    t->proc->native_off || x86_is_vsyscall(t->ip))
		return false;
	if (!t->proc->native && !step_native_open(t))
		return false;
	if (!n->slot && !claim_slot(t))
		return false;
	id = reach_unit(t, t->ip);
	if (!id || ptrace(PTRACE_GETREGS, t->tid, NULL, &r) ||
	    r.eflags & (STEP_TRAP_FLAG | ALIGN_FLAG) || r.rip != t->ip)
		return false;
	step_flush_thread(t);
	n->inside = true;
	n->target = t->ip;
	n->tip = false;
	n->last = UINT32_MAX;
	n->gs = r.gs_base;
	n->step_ip = 0;
	if (!t->user)
		n->back_ns = clock_ns();
	r.rip = t->proc->native->units[id].code;
	r.gs_base = slots_at(t);
	run_on(t, &r);
	return true;
}

/* ---- stops inside ---- */

/* The program's registers that a copy of this instruction may have in slots. */
static void restore(const struct step_thread *t, const struct native_insn *in,
		    struct user_regs_struct *r)
{
	const struct native_slots *s = slots_of(t);

	if (in->cls == X86_RET || in->cls == X86_IND_CALL ||
	    in->cls == X86_IND_JUMP) {
		r->rax = s->rax;
		r->rcx = s->rcx;
		r->rdx = s->rdx;
	}
	if (in->far == 6)
		r->rsi = s->far;
	else if (in->far == 7)
		r->rdi = s->far;
	else if (in->far == 3)
		r->rbx = s->far;
}

static void restore_all(const struct step_thread *t, struct user_regs_struct *r)
{
	const struct native_slots *s = slots_of(t);

	r->rax = s->rax;
	r->rcx = s->rcx;
	r->rdx = s->rdx;
}

/* The ring is full: the thread goes on with its other one, which has been read. */
static void turn_ring(struct step_thread *t, struct user_regs_struct *r,
		      uint64_t record)
{
	struct step_native_thread *n = &t->native;
	const struct native_slots *from = slots_of(t);

	step_native_read_full(t, SIZE_MAX);
	n->half ^= 1;
	memcpy(slots_of(t), from, offsetof(struct native_slots, tables));
	set_cur(t, -NATIVE_RING);
	r->gs_base = slots_at(t);
	r->rcx = (uint64_t)-NATIVE_RING;
	r->rip = record;
	if (n->done)
		step_reader_wake(t->proc->step);
	else
		step_native_begin_ring(t);	/* the full one was read already */
}

/* After a system call that ran in the cache, at its next instruction: as if it
 * had been stepped over and its end is to be reported. */
static void after_syscall(struct step_thread *t, struct user_regs_struct *r,
			  const struct native_unit *u, const struct native_exit *e)
{
	const struct native_insn *in =
		t->proc->native->insns + u->first_insn + e->n_insns - 1;

	r->rcx = e->target;
	come_out(t, r, e->target);
	t->insn = (struct step_insn){ .ip = in->ip, .size = in->size,
				      .cls = in->cls };
	t->in_syscall = true;
	t->regs = *r;
	if ((int64_t)r->orig_rax >= 0)
		t->regs.rax = r->orig_rax;
	else
		t->regs.rax = SYS_getpid;
}

/* Code that was to be compared cannot be read: it faults when it is to run. */
static bool fault_comparing(struct step_thread *t, struct user_regs_struct *r,
			    const struct native_unit *u)
{
	const struct native_exit *e = t->proc->native->exits + u->first_exit;
	unsigned i;

	for (i = 0; i < u->n_exits; i++, e++) {
		if (r->rip < e->compare || r->rip >= e->compared)
			continue;
		r->rax = slots_of(t)->rax;
		r->rcx = slots_of(t)->rcx;
		step_native_report_prefix(t, u, e->n_insns);
		come_out(t, r, e->target);
		return true;
	}
	return false;
}

/*
 * If the thread is where the program has an address, it comes out there. fault:
 * the instruction has not run, whatever its copy has done. Else false; or, when
 * the ring was full, r has changed.
 */
static bool try_out(struct step_thread *t, struct user_regs_struct *r, bool fault)
{
	struct step_native *nc = t->proc->native;
	const struct native_unit *u = unit_at(nc, r->rip);
	const struct native_insn *in;
	const struct native_exit *e;
	unsigned i;

	if (is_miss(nc, r->rip)) {
		restore_all(t, r);
		come_out(t, r, slots_of(t)->target);
		return true;
	}
	if (!u)
		return false;
	in = nc->insns + u->first_insn;
	e = nc->exits + u->first_exit;
	for (i = 0; i < u->n_exits; i++, e++) {
		if (r->rip == e->miss) {
			come_out(t, r, e->target);
			return true;
		} else if (r->rip == e->after) {
			after_syscall(t, r, u, e);
			return true;
		} else if (r->rip == e->full) {
			turn_ring(t, r, e->record);
			return false;
		} else if (r->rip == e->trap) {
			i = e->n_insns - (e->kind == NATIVE_SYSCALL);
			if (e->kind == NATIVE_SYSCALL)
				r->rcx = slots_of(t)->rcx;
			step_native_report_prefix(t, u, i);
			come_out(t, r, e->kind == NATIVE_SYSCALL ? in[i].ip :
								   e->target);
			return true;
		}
	}
	if (fault && fault_comparing(t, r, u))
		return true;
	for (i = 0; i < u->n_insns; i++) {
		if (r->rip != in[i].at &&
		    !(fault && r->rip > in[i].at && r->rip < in[i].end))
			continue;
		if (r->rip != in[i].at)
			restore(t, &in[i], r);
		step_native_report_prefix(t, u, i);
		come_out(t, r, in[i].ip);
		return true;
	}
	return false;
}

static bool is_fault(int sig, const siginfo_t *si)
{
	return si->si_code > 0 && si->si_code != SI_TIMER &&
	       (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE ||
		sig == SIGILL || sig == SIGTRAP || sig == SIGSYS);
}

/* All signals that are not of an instruction's own making. */
static uint64_t others(uint64_t mask)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
				   SIGSYS };
	uint64_t all = ~UINT64_C(0);
	size_t i;

	for (i = 0; i < sizeof(own) / sizeof(*own); i++)
		all &= ~(UINT64_C(1) << (own[i] - 1));
	return mask | all;
}

/* How many instructions of u are over at pc, at least; fewer than there are. */
static unsigned done_at(const struct step_native *nc, const struct native_unit *u,
			uint64_t pc)
{
	const struct native_insn *in = nc->insns + u->first_insn;
	const struct native_exit *e = nc->exits + u->first_exit;
	unsigned i, k = 0;

	for (i = 0; i < u->n_exits; i++, e++)
		if (e->record && pc + RECORD_AT >= e->record && pc <= e->full)
			return pc - e->record < RECORD_BYTES || pc <= e->record ?
				       e->n_insns - 1u : 0;
	for (i = 0; i < u->n_insns && in[i].at <= pc; i++)
		k = i;
	return k;
}

/* Where the unit begins that it is in, or goes to. */
static uint64_t unit_start(const struct step_thread *t)
{
	return t->native.tip ? slots_of(t)->target : t->native.target;
}

/* The last stop of a thread that ends: it cannot be brought to the next
 * instruction. What has not left its record has not run. */
static void last_stop(struct step_thread *t, const struct user_regs_struct *r)
{
	struct step_native *nc = t->proc->native;
	const struct native_unit *u = unit_at(nc, r->rip);
	uint64_t ip = unit_start(t);
	unsigned k = u && u->start == ip ? done_at(nc, u, r->rip) : 0;

	if (k) {
		step_native_report_prefix(t, u, k);
		ip = nc->insns[u->first_insn + k].ip;
	}
	t->native.inside = t->native.tip = false;
	t->ip = ip;
	t->insn.size = 0;
}

/* What it ran after its last record is not known. */
void step_native_gone(struct step_thread *t)
{
	step_native_drain(t);
	t->ip = unit_start(t);
	t->native.inside = t->native.tip = false;
	t->insn.size = 0;
}

/* One step of a thread inside. 0: it is done; else the signal that came in its
 * place, or -1: *status says how it ends. */
static int step_inside(struct step_thread *t, struct user_regs_struct *r,
		       int *status)
{
	ptrace(PTRACE_SETREGS, t->tid, NULL, r);
	do {
		if (ptrace(PTRACE_SINGLESTEP, t->tid, NULL, NULL)) {
			t->running = errno == ESRCH;
			return -1;
		}
		if (!step_wait(t, status))
			return -1;
	} while (*status >> 16 == PTRACE_EVENT_STOP);
	if (ptrace(PTRACE_GETREGS, t->tid, NULL, r))
		return -1;
	step_native_drain(t);
	if (*status >> 16 == PTRACE_EVENT_EXIT)
		last_stop(t, r);
	if (*status >> 16)
		return -1;
	return WSTOPSIG(*status) == SIGTRAP ? 0 : WSTOPSIG(*status);
}

/*
 * Brings a thread that a signal stopped out of the cache. sig, which is still to
 * be delivered, stays the one of its stop; an instruction that faults on the way
 * is undone, and will fault again.
 */
static bool settle(struct step_thread *t, struct user_regs_struct *r, int sig,
		   const siginfo_t *si, int *status)
{
	bool fault = sig && is_fault(sig, si), masked;
	int first = *status, n, got = 0;
	uint64_t mask;

	if (try_out(t, r, fault))
		return true;
	count(t, STEP_N_SETTLE);
	masked = !ptrace(PTRACE_GETSIGMASK, t->tid, (void *)sizeof(mask), &mask);
	if (masked) {
		uint64_t more = others(mask);

		ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(more), &more);
	}
	for (n = 0; n < SETTLE_STEPS && got >= 0; n++) {
		got = step_inside(t, r, status);
		if (got >= 0 && try_out(t, r, got > 0))
			break;
	}
	if (got < 0)
		return false;
	*status = first;
	if (masked)
		ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(mask), &mask);
	if (sig)
		ptrace(PTRACE_SETSIGINFO, t->tid, NULL, si);
	return !t->native.inside;
}

/* It goes on at ip: from the cache where that can be. from: the exit that led
 * there, whose link is made; NULL: an indirect branch. */
static int go_on(struct step_thread *t, struct user_regs_struct *r, uint64_t ip,
		 struct native_exit *from)
{
	size_t at = from ? (size_t)(from - t->proc->native->exits) : 0;
	struct step_native *nc = t->proc->native;
	uint32_t id = x86_is_vsyscall(ip) ? 0 : reach_unit(t, ip);

	if (!id) {
		come_out(t, r, ip);
		return step_resume(t, 0);
	}
	if (from)
		link_exit(nc, at, id);
	else
		add_door(nc, id);
	t->native.target = ip;
	t->native.tip = false;
	t->native.last = UINT32_MAX;
	r->rip = nc->units[id].code;
	return run_on(t, r);
}

/* Registration of restartable sequences fails as in a kernel that has none: the
 * kernel could not know where in the cache they are. Not so in a process that was
 * attached to: its C library has seen it succeed, and ends a program in which it then
 * fails for a new thread. */
static int refuse_rseq(struct step_thread *t, struct user_regs_struct *r)
{
	t->insn = (struct step_insn){ .ip = t->ip, .size = 2,
				      .cls = X86_SYSCALL };
	step_enter_syscall(t);
	t->in_syscall = false;
	r->rax = (uint64_t)-ENOSYS;
	r->orig_rax = UINT64_MAX;
	r->rcx = r->rip + 2;
	r->r11 = r->eflags;
	come_out(t, r, r->rip + 2);
	return step_resume(t, 0);
}

/* The instruction at t->ip is stepped. */
static int step_over(struct step_thread *t, struct user_regs_struct *r)
{
	uint8_t bytes[2];

	t->native.step_ip = t->ip;
	if ((uint32_t)r->rax == CALL_RSEQ && !t->proc->ran_before &&
	    step_memory_read(t->proc, t->ip, bytes, 2) == 2 &&
	    bytes[0] == 0x0f && bytes[1] == 5)
		return refuse_rseq(t, r);
	return step_resume(t, 0);
}

/* An exit's INT3, at pc. False: it has none there. */
static bool exit_trap(struct step_thread *t, struct user_regs_struct *r,
		      const struct native_unit *u, uint64_t pc)
{
	struct native_exit *e = t->proc->native->exits + u->first_exit;
	unsigned i;

	for (i = 0; i < u->n_exits; i++, e++) {
		if (pc == e->miss) {
			count(t, STEP_N_NEW);
			go_on(t, r, e->target, e);
			return true;
		} else if (pc == e->trap && e->kind == NATIVE_CHANGED) {
			uint64_t at = e->target;

			count(t, STEP_N_CHANGED);
			r->rip = pc;
			try_out(t, r, false);
			step_native_forget(t->proc, at, at + 1);
			step_resume(t, 0);
			return true;
		} else if (pc == e->trap) {
			count(t, e->kind == NATIVE_SYSCALL ? STEP_N_CALLS :
							     STEP_N_INSNS);
			r->rip = pc;
			try_out(t, r, false);
			step_over(t, r);
			return true;
		}
	}
	return false;
}

/* At the INT3 where a ring is full: the one stop that is not followed by reading all
 * that the thread ran. */
static bool full_trap(struct step_thread *t, struct user_regs_struct *r)
{
	const struct step_native *nc = t->proc->native;
	uint64_t pc = r->rip - 1, record = 0;
	const struct native_unit *u = unit_at(nc, pc);
	const struct native_exit *e;

	for (e = u ? nc->exits + u->first_exit : NULL;
	     e && e < nc->exits + u->first_exit + u->n_exits; e++)
		if (pc == e->full)
			record = e->record;
	if (!record)
		return false;
	count(t, STEP_N_FULL);
	turn_ring(t, r, record);
	run_on(t, r);
	return true;
}

/* At another of our INT3. */
static bool own_trap(struct step_thread *t, struct user_regs_struct *r)
{
	struct step_native *nc = t->proc->native;
	uint64_t pc = r->rip - 1;
	const struct native_unit *u = unit_at(nc, pc);

	if (is_miss(nc, pc)) {
		count(t, STEP_N_INDIRECT);
		restore_all(t, r);
		go_on(t, r, slots_of(t)->target, NULL);
		return true;
	}
	return u && exit_trap(t, r, u, pc);
}

/* A system call that the kernel is about to run again, 2 bytes back, leaves its
 * record again. */
static void restart_call(struct step_thread *t, struct user_regs_struct *r)
{
	struct step_native *nc = t->proc->native;
	const struct native_unit *u = unit_at(nc, r->rip);
	int64_t rax = (int64_t)r->rax;
	uint32_t id;
	unsigned i;

	if (!u || (int64_t)r->orig_rax < 0 || rax > -512 || rax < -516)
		return;
	for (i = 0; i < u->n_exits; i++) {
		const struct native_exit *e = &nc->exits[u->first_exit + i];

		if (e->after != r->rip)
			continue;
		id = find_unit(t, nc->insns[u->first_insn + e->n_insns - 1u].ip);
		if (!id)
			return;
		t->native.target = nc->units[id].start;
		t->native.tip = false;
		r->rip = nc->units[id].code + 2;
		ptrace(PTRACE_SETREGS, t->tid, NULL, r);
		return;
	}
}

/* It stopped as all of its process do, or was stopped and goes on. */
static bool group_stop(struct step_thread *t, struct user_regs_struct *r, int sig)
{
	restart_call(t, r);
	if (sig == SIGTRAP)
		ptrace(PTRACE_CONT, t->tid, NULL, NULL);
	else
		ptrace(PTRACE_LISTEN, t->tid, NULL, NULL);
	return true;
}

/* Reads what t stopped for. False: it was killed since. The kernel then has no answer,
 * or that of PTRACE_EVENT_EXIT, which is the next stop. */
static bool read_cause(const struct step_thread *t, siginfo_t *si)
{
	return !ptrace(PTRACE_GETSIGINFO, t->tid, NULL, si) &&
	       si->si_code != (SIGTRAP | PTRACE_EVENT_EXIT << 8);
}

/* A stop by a signal is judged only if its cause could be read. The IP alone does not
 * say it: the byte after one INT3 may be another INT3, not reached yet. */
bool step_native_stop(struct step_thread *t, int *status)
{
	int event = *status >> 16, sig = WSTOPSIG(*status);
	bool detaching = t->proc->step->detaching, int3;
	struct user_regs_struct r;
	siginfo_t si = { 0 };

	if ((!event && !read_cause(t, &si)) ||
	    ptrace(PTRACE_GETREGS, t->tid, NULL, &r))
		return true;
	int3 = !event && sig == SIGTRAP && si.si_code == SI_KERNEL;
	t->running = false;
	if (int3 && full_trap(t, &r))
		return true;
	step_native_drain(t);
	if (event == PTRACE_EVENT_EXIT) {
		last_stop(t, &r);
		return false;
	}
	if (event == PTRACE_EVENT_STOP && !detaching)
		return group_stop(t, &r, sig);
	if (int3 && own_trap(t, &r))
		return true;
	count(t, STEP_N_SIGNALS);
	if (!settle(t, &r, event ? 0 : sig, &si, status) &&
	    (t->running || !WIFSTOPPED(*status)))
		return true;	/* killed, as above; or it has ended */
	if (t->native.inside && *status >> 16 != PTRACE_EVENT_EXEC)
		step_note(t, -AUX_E_TARGET);
	return false;
}

/* Texts of enum step_count; the first one stands alone. */
static const char *const count_texts[STEP_N_COUNTS] = {
	[STEP_N_FULL] = "full ring",
	[STEP_N_NEW] = "new code",
	[STEP_N_INDIRECT] = "indirect branch",
	[STEP_N_CALLS] = "system call",
	[STEP_N_INSNS] = "instruction",
	[STEP_N_SIGNALS] = "signal or event",
	[STEP_N_SETTLE] = "of these between two instructions",
	[STEP_N_CHANGED] = "changes of copied code",
};

void step_native_notes(const struct step *st)
{
	const struct soft_program *p = st->p;
	const char *sep = "";
	size_t n = 0, i;

	if (!p->notes)
		return;
	if (st->counts[STEP_N_ALONE])
		n += (size_t)snprintf(p->notes, p->notes_size,
				      "%llu of the processes could not be run "
				      "from copies and were stepped, which is slow",
				      (unsigned long long)st->counts[STEP_N_ALONE]);
	if (!p->verbose || n >= p->notes_size)
		return;
	n += (size_t)snprintf(p->notes + n, p->notes_size - n,
			      "%snative: %llu instructions stepped; stops: ",
			      n ? "; " : "",
			      (unsigned long long)st->counts[STEP_N_STEPS]);
	for (i = STEP_N_FULL; i <= STEP_N_CHANGED && n < p->notes_size; i++) {
		n += (size_t)snprintf(p->notes + n, p->notes_size - n,
				      "%s%s %llu", sep, count_texts[i],
				      (unsigned long long)st->counts[i]);
		sep = ", ";
	}
}
