/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle: notes which pages of code a flow used.
 *
 * Invariant: a page is in the table once for each process and mapping; which
 * streams used it, and in what order, does not show.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/sideband/addrspace.h"
#include "decode/edit/bundle_impl.h"
#include "decode/lib/session/impl.h"
#include "decode/lib/sideband/sideband.h"

/* No instruction is longer; a decoder may read so much where one begins. */
#define LONGEST_INSN 15

/* ---- forks: the side-band that the timeline does not show ---- */

static int by_pid(const void *a, const void *b)
{
	const struct bundle_fork *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->time < y->time ? -1 : x->time > y->time;
}

static int add_fork(struct bundle *b, const struct aux_event *ev)
{
	if (ev->task.pid == ev->task.ppid)
		return 0;	/* a thread */
	if (array_grow(&b->forks, b->n_forks, &b->cap_forks,
		       sizeof(*b->forks)) < 0)
		return -AUX_E_NOMEM;
	b->forks[b->n_forks++] = (struct bundle_fork){
		.time = ev->id.present & PERF_SAMPLE_TIME ? ev->id.time :
							    ev->task.time,
		.pid = ev->task.pid,
	};
	return 0;
}

static int read_records(struct bundle *b)
{
	struct aux_reader *r = session_reader(b->s);
	struct aux_event ev;

	aux_reader_rewind(r);
	while (aux_reader_next(r, &ev, NULL) > 0) {
		if (ev.type == PERF_RECORD_FORK && add_fork(b, &ev) < 0)
			return -AUX_E_NOMEM;
		if (ev.type == AUX_RECORD_EVENT_TYPE &&
		    ev.own.kind == AUX_OWN_CODE && ev.own.code.h.blob >= b->blob)
			b->blob = ev.own.code.h.blob + 1;
	}
	if (b->n_forks)
		qsort(b->forks, b->n_forks, sizeof(*b->forks), by_pid);
	return 0;
}

/* Forks of a pid, or of lower ones, up to a time. */
static size_t count_forks(const struct bundle *b, uint32_t pid, uint64_t time)
{
	size_t lo = 0, n = b->n_forks;

	while (n) {
		const struct bundle_fork *f = &b->forks[lo + n / 2];

		if (f->pid < pid || (f->pid == pid && f->time <= time)) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return lo;
}

struct bundle *bundle_new(struct session *s)
{
	struct bundle *b = calloc(1, sizeof(*b));

	if (b) {
		b->s = s;
		b->blob = 1;
		if (read_records(b) < 0) {
			bundle_free(b);
			b = NULL;
		}
	}
	return b;
}

void bundle_free(struct bundle *b)
{
	if (!b)
		return;
	free(b->pages);
	free(b->slots);
	free(b->forks);
	free(b);
}

/* ---- the table ---- */

static uint64_t hash(const struct bundle_page *p)
{
	uint64_t h = p->addr / BUNDLE_PAGE * 0x9e3779b97f4a7c15;

	h = (h ^ p->pid ^ p->time) * 0xff51afd7ed558ccd;
	h = (h ^ (uintptr_t)p->bytes) * 0xc4ceb9fe1a85ec53;
	return h ^ h >> 29;
}

static bool is_same(const struct bundle_page *x, const struct bundle_page *y)
{
	return x->addr == y->addr && x->time == y->time && x->pid == y->pid &&
	       x->bytes == y->bytes && x->len == y->len;
}

static int grow_slots(struct bundle *b)
{
	size_t n = b->n_slots ? 2 * b->n_slots : 1024;
	uint32_t *v = calloc(n, sizeof(*v));

	if (!v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < b->n_pages; i++) {
		size_t at = hash(&b->pages[i]) & (n - 1);

		while (v[at])
			at = (at + 1) & (n - 1);
		v[at] = (uint32_t)i + 1;
	}
	free(b->slots);
	b->slots = v;
	b->n_slots = n;
	return 0;
}

static int add_page(struct bundle *b, const struct bundle_page *p)
{
	size_t at;

	if (2 * b->n_pages >= b->n_slots && grow_slots(b) < 0)
		return -AUX_E_NOMEM;
	at = hash(p) & (b->n_slots - 1);
	while (b->slots[at]) {
		if (is_same(&b->pages[b->slots[at] - 1], p))
			return 0;
		at = (at + 1) & (b->n_slots - 1);
	}
	if (array_grow(&b->pages, b->n_pages, &b->cap_pages,
		       sizeof(*b->pages)) < 0 || b->n_pages >= UINT32_MAX)
		return -AUX_E_NOMEM;
	b->pages[b->n_pages++] = *p;
	b->slots[at] = (uint32_t)b->n_pages;
	return 0;
}

/* ---- what the flow used ---- */

static uint32_t kind_of(const struct mapping *m, bool kernel)
{
	if (kernel)
		return AUX_CODE_KERNEL;
	if (!strcmp(m->path, "[vdso]"))
		return AUX_CODE_VDSO;
	return *m->path == '/' ? AUX_CODE_FILE : AUX_CODE_ANON;
}

/* Of code that a JIT compiler logged the bundle brings the log. */
static bool is_logged(struct bundle *b, const struct space *space, uint64_t ip)
{
	struct symbol sym;

	codeview_symbol(session_codeview(b->s), space, ip, &sym);
	return sym.dso && !strcmp(sym.dso, "[jit]");
}

/*
 * A page of a process is its own from the time of its mapping, or of the fork that
 * brought it. A space may go on over further forks: where a pid came back, and
 * its new owner has what the last one had.
 */
static int add_own(struct bundle *b, struct bundle_page *p, uint64_t mapped)
{
	const struct space *space = p->space;
	size_t i = count_forks(b, space->pid, space->from);
	uint64_t forked = i && b->forks[i - 1].pid == space->pid ?
				  b->forks[i - 1].time : 0;
	int rc;

	p->time = mapped > forked ? mapped : forked;
	rc = add_page(b, p);
	for (; rc == 0 && i < b->n_forks && b->forks[i].pid == space->pid &&
	       b->forks[i].time < space->until; i++) {
		p->time = b->forks[i].time;
		rc = add_page(b, p);
	}
	return rc;
}

/* The page around ip, as far as it is of one mapping and has bytes. */
static void note(struct bundle *b, const struct space *space, uint64_t ip,
		 struct bundle_slot *slot)
{
	uint64_t lo = ip & ~(uint64_t)(BUNDLE_PAGE - 1);
	uint64_t hi = lo + (BUNDLE_PAGE - 1);	/* may be the last byte */
	const struct mapping *m = space_find(space, ip);
	struct bundle_page p = { .space = space, .pid = space->pid };
	struct aux_code c = { 0 };
	bool kernel;

	*slot = (struct bundle_slot){ space, ip, ip };
	if (!m || codeview_code(session_codeview(b->s), space, ip, &c) < 0)
		return;
	lo = lo < c.start ? c.start : lo;
	hi = hi > c.end - 1 ? c.end - 1 : hi;
	slot->lo = lo;
	slot->hi = hi;
	if (m->saved || is_logged(b, space, ip))
		return;
	kernel = addrspace_find(space->kernel, ip) == m;
	p.addr = lo;
	p.len = hi - lo + 1;
	p.time = m->time;
	p.bytes = c.bytes + (lo - c.start);
	p.region = c.bytes;
	p.region_end = c.bytes + (c.end - c.start);
	p.pid = kernel ? UINT32_MAX : space->pid;
	p.kind = kind_of(m, kernel);
	b->oom |= (kernel ? add_page(b, &p) : add_own(b, &p, m->time)) < 0;
}

/* Returns the last address that is noted with ip. */
static uint64_t note_once(struct bundle *b, const struct space *space,
			  uint64_t ip)
{
	size_t at = (ip / BUNDLE_PAGE ^ space->id) & (BUNDLE_SLOTS - 1);
	struct bundle_slot *slot = &b->known[at];

	if (slot->space != space || ip < slot->lo || ip > slot->hi)
		note(b, space, ip, slot);
	return slot->hi;
}

void bundle_ask(void *priv, const struct space *space, uint64_t ip)
{
	if (space)
		note_once(priv, space, ip);
}

static void note_range(struct bundle *b, const struct space *space,
		       uint64_t first, uint64_t last)
{
	uint64_t end;

	if (__builtin_add_overflow(last, LONGEST_INSN, &last))
		last = UINT64_MAX;
	while (first <= last) {
		end = note_once(b, space, first);
		if (end >= last)
			return;
		first = end + 1;
	}
}

int bundle_flow(void *priv, const struct flow_ctx *ctx,
		const struct aux_flow *ev, size_t n)
{
	struct bundle *b = priv;

	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind != AUX_FLOW_RANGE)
			continue;
		b->n_insns += ev[i].n;
		if (ctx->space && ev[i].range.first <= ev[i].range.last)
			note_range(b, ctx->space, ev[i].range.first,
				   ev[i].range.last);
	}
	return b->oom ? -AUX_E_NOMEM : 0;
}
