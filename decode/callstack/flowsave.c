/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flowsave: a part of the flow (flowpart.c) as bytes, and back.
 *
 * Numbers are written seven bits a byte, lowest first, the highest bit set on all but the
 * last; those that may be negative zigzag. A space is named by a process and the time from
 * which it holds; a function by an address in it, as the session's thread would be led to it
 * (struct met). In order:
 *
 *	a version
 *	spaces: their number, then these
 *	functions that were met, those that were left, those jumped to: three numbers, then these
 *	items: their number; of each where it begins, then its stretch, or its events up to a kind 0
 *
 * What comes back may be anything that somebody put into a file: an index is checked against
 * what it is an index of, and nothing is allocated that the bytes do not pay for.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/outbuf.h"
#include "decode/callstack/flowpart.h"
#include "decode/callstack/stretch.h"

#define VERSION 1

#define MET_NAMED 1	/* flags of a function */
#define MET_STARTS 2

#define ITEM_STRETCH 1	/* flags of an item */
#define ITEM_OTHER 2	/* another thread, CPU or space than the item before */

#define N_COUNTS (sizeof(struct call_count) / sizeof(uint64_t))
_Static_assert(N_COUNTS == 11, "a bit each in put_count");

/* ---- writing ---- */

struct save {
	struct flow_part *p;
	struct outbuf *out;
	const struct space **spaces;
	size_t n_spaces, cap_spaces;
	uint32_t *index;	/* of met, and one, by a function's id */
	uint32_t n_index;
	struct flow_ctx ctx;	/* of the item before */
	struct item last;
	uint64_t ip;		/* the address before */
	int error;
};

static inline void put(struct save *s, uint64_t v)
{
	char *p = s->out->end - s->out->p >= 10 ? s->out->p : outbuf_room(s->out, 10);

	if (!p)
		return;
	for (; v >= 0x80; v >>= 7)
		*p++ = (char)(v | 0x80);
	*p++ = (char)v;
	s->out->p = p;
}

static void put_signed(struct save *s, uint64_t v)
{
	put(s, v << 1 ^ (v >> 63 ? UINT64_MAX : 0));
}

/* An address, by what it differs from the one before. */
static void put_ip(struct save *s, uint64_t ip)
{
	put_signed(s, ip - s->ip);
	s->ip = ip;
}

static void put_count(struct save *s, const struct call_count *c)
{
	uint64_t v[N_COUNTS], mask = 0;

	memcpy(v, c, sizeof(v));
	for (unsigned i = 0; i < N_COUNTS; i++)
		mask |= (uint64_t)!!v[i] << i;
	put(s, mask);
	for (unsigned i = 0; i < N_COUNTS; i++)
		if (v[i])
			put(s, v[i]);
}

/* Its index and one, 0: no space. Others find it by pid and time, or it has no name. */
static size_t find_space(struct save *s, const struct space *space)
{
	const struct sink_host *host = s->p->tree->calls->host;
	const struct space *same;

	if (!space)
		return 0;
	for (size_t i = s->n_spaces; i--;)
		if (s->spaces[i] == space)
			return i + 1;
	same = host->space ? host->space(host->priv, space->pid, space->from) : NULL;
	if (!same || same->id != space->id) {
		s->error = -AUX_E_UNSUPPORTED;
		return 0;
	}
	if (array_append(&s->spaces, &s->n_spaces, &s->cap_spaces, &space, sizeof(space)))
		s->error = -AUX_E_NOMEM;
	return s->n_spaces;
}

static void find_spaces(struct save *s)
{
	const struct flow_part *p = s->p;

	for (size_t i = 0; i < p->n_met; i++)
		find_space(s, p->met[i].space);
	for (size_t i = 0; i < p->n_left; i++)
		find_space(s, p->left[i].space);
	for (size_t i = 0; i < p->n_jumps; i++)
		find_space(s, p->jumps[i].space);
	for (size_t i = 0; i < p->n_items; i++)
		find_space(s, p->items[i].ctx.space);
	put(s, s->n_spaces);
	for (size_t i = 0; i < s->n_spaces; i++) {
		put(s, s->spaces[i]->pid);
		put(s, s->spaces[i]->from);
	}
}

static void put_met(struct save *s, const struct met *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct call_func *f = &v[i].func->pub;

		put(s, find_space(s, v[i].space));
		put_ip(s, v[i].to);
		put(s, (f->name ? MET_NAMED : 0) | (f->start ? MET_STARTS : 0));
	}
}

static int index_met(struct save *s)
{
	const struct flow_part *p = s->p;

	for (size_t i = 0; i < p->n_met; i++)
		if (p->met[i].func->pub.id >= s->n_index)
			s->n_index = p->met[i].func->pub.id + 1;
	s->index = calloc(s->n_index + (size_t)1, sizeof(*s->index));
	if (!s->index)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < p->n_met; i++)
		s->index[p->met[i].func->pub.id] = (uint32_t)i + 1;
	return 0;
}

/* A function by its place in met: one of no place is none of the part, or none at all. */
static void put_func(struct save *s, uint32_t id)
{
	if (id >= s->n_index || !s->index[id])
		s->error = -AUX_E_UNSUPPORTED;
	else
		put(s, s->index[id] - 1);
}

static void put_pend(struct save *s, const struct pend *e)
{
	put(s, e->what);
	put(s, e->flags);
	put(s, e->syscall);
	put_ip(s, e->from);
	put_ip(s, e->next);
}

static void put_nodes(struct save *s, const struct stretch *st)
{
	const struct calltree_node *v = s->p->sums.nodes;

	put(s, st->end_node - st->root);
	put_count(s, &v[st->root].own);
	for (uint32_t i = st->root + 1; i < st->end_node; i++) {
		put(s, i - v[i].parent);
		put_func(s, v[i].func);
		put(s, (uint64_t)v[i].kind << 1 | v[i].is_kernel);
		put(s, v[i].calls);
		put_count(s, &v[i].own);
	}
}

static void put_frames(struct save *s, const struct stretch *st)
{
	put(s, st->n_frames);
	for (uint32_t i = 0; i < st->n_frames; i++) {
		const struct call_frame *f = &s->p->frames[st->frame + i];

		put_func(s, f->func->id);
		put_ip(s, f->from);
		put_ip(s, f->to);
		put_ip(s, f->back);
		put_count(s, &f->at);
		put_count(s, &f->children);
		put(s, f->kind);
		put(s, f->flags);
		put(s, (uint32_t)(uintptr_t)f->user - st->root);
	}
}

static void put_slices(struct save *s, const struct stretch *st)
{
	const struct calltree_slice *v = s->p->slices + st->slice;

	put(s, st->ticked);
	put(s, st->n_head);
	put(s, st->n_tail);
	put(s, st->head_cycles);
	put(s, st->tail_cycles);
	for (uint32_t i = 0; i < st->n_head + st->n_tail; i++) {
		put(s, v[i].node - st->root);
		put(s, v[i].insns);
	}
}

static void put_stretch(struct save *s, const struct item *item)
{
	const struct stretch *st = &s->p->stretches[item->stretch];

	put_pend(s, &st->from);
	put_pend(s, &st->to);
	put_count(s, &st->now);
	put_count(s, &st->children);
	put_signed(s, st->from_ns - item->ctx.time_ns);
	put_signed(s, st->end.time_ns - item->ctx.time_ns);
	put_signed(s, st->end.tsc - item->ctx.tsc);
	put(s, st->depth);
	put(s, st->stub_kind);
	put_ip(s, st->stub_from);
	put_ip(s, st->stub_back);
	put(s, st->n_jumps);
	put_nodes(s, st);
	put_frames(s, st);
	put_slices(s, st);
}

static void put_event(struct save *s, const struct aux_flow *ev, uint64_t *offset)
{
	put(s, ev->kind);
	put(s, ev->what);
	put(s, ev->flags);
	put(s, ev->n);
	put_signed(s, ev->offset - *offset);
	*offset = ev->offset;
	put_ip(s, ev->range.first);	/* of other kinds, whatever is there */
	put_ip(s, ev->range.last);
}

static void put_events(struct save *s, const struct item *item)
{
	struct unpack u = { .at = s->p->pack.words + item->from,
			    .end = s->p->pack.words + item->to, .last = item->last };
	uint64_t offset = 0, n_insns;
	struct aux_flow ev, range;
	size_t n_plain;

	while (unpack_events(&u, &ev, 1, &n_plain, &n_insns)) {
		struct path_ranges ranges = { .path = &ev };

		if (ev.kind != AUX_FLOW_PATH)
			put_event(s, &ev, &offset);
		else
			while (path_next_range(&ranges, &range))
				put_event(s, &range, &offset);
	}
	put(s, 0);
}

static void put_item(struct save *s, const struct item *item)
{
	const struct flow_ctx *c = &item->ctx, *was = &s->ctx;
	bool other = c->pid != was->pid || c->tid != was->tid || c->cpu != was->cpu ||
		     c->space != was->space;
	bool stretch = item->stretch != UINT32_MAX;

	put(s, (stretch ? ITEM_STRETCH : 0) | (other ? ITEM_OTHER : 0));
	put(s, item->stint - s->last.stint);
	put(s, item->n_met - s->last.n_met);
	put_signed(s, c->time_ns - was->time_ns);
	put_signed(s, c->tsc - was->tsc);
	if (other) {
		put(s, c->pid);
		put(s, c->tid);
		put(s, (uint32_t)c->cpu);
		put(s, find_space(s, c->space));
	}
	s->ctx = *c;
	s->last = *item;
	if (stretch)
		put_stretch(s, item);
	else
		put_events(s, item);
}

uint64_t flowpart_span(const void *part)
{
	const struct flow_part *p = part;
	struct unpack u = { .at = p->pack.words, .end = p->pack.words + p->pack.n };
	struct aux_flow first;
	uint64_t n_insns;
	size_t n_plain;

	return unpack_events(&u, &first, 1, &n_plain, &n_insns) ?
		       p->pack.last.offset - first.offset : 0;
}

int flowpart_save(void *part, uint32_t stint, struct outbuf *out)
{
	struct flow_part *p = part;
	struct save s = { .p = p, .out = out };

	if (!p->n_items || p->items[p->n_items - 1].stint > stint)
		return 0;
	s.error = index_met(&s);
	if (!s.error) {
		put(&s, VERSION);
		find_spaces(&s);
		put(&s, p->n_met);
		put(&s, p->n_left);
		put(&s, p->n_jumps);
		put_met(&s, p->met, p->n_met);
		put_met(&s, p->left, p->n_left);
		put_met(&s, p->jumps, p->n_jumps);
		put(&s, p->n_items);
		for (size_t i = 0; i < p->n_items && !s.error; i++)
			put_item(&s, &p->items[i]);
	}
	free(s.spaces);
	free(s.index);
	if (outbuf_failed(out))
		s.error = -AUX_E_NOMEM;
	flowpart_empty(p);
	return s.error ? s.error : 1;
}

/* ---- reading ---- */

struct load {
	struct flow_part *p;
	const uint8_t *at, *end;
	const struct space **spaces;
	uint64_t n_spaces;
	uint32_t n_met_of_item;
	struct flow_ctx ctx;
	struct item last;
	uint64_t ip;
	uint32_t n_stretch_jumps;	/* of those that are of a stretch already */
	int error;
};

static uint64_t fault(struct load *l)
{
	if (!l->error)
		l->error = -AUX_E_FORMAT;
	l->at = l->end;
	return 0;
}

static uint64_t get_long(struct load *l)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && l->at < l->end; shift += 7) {
		uint8_t b = *l->at++;

		if (shift == 63 && b > 1)
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return v;
	}
	return fault(l);
}

/* Most are of one byte. */
static inline uint64_t get(struct load *l)
{
	return l->at < l->end && *l->at < 0x80 ? *l->at++ : get_long(l);
}

/* At most max. */
static inline uint64_t get_max(struct load *l, uint64_t max)
{
	uint64_t v = get(l);

	return v <= max ? v : fault(l);
}

/* How many elements follow, of at least so many bytes each. */
static uint64_t get_number(struct load *l, size_t bytes)
{
	uint64_t v = get(l);

	return v <= (uint64_t)(l->end - l->at) / bytes ? v : fault(l);
}

static uint64_t get_signed(struct load *l)
{
	uint64_t v = get(l);

	return v >> 1 ^ (v & 1 ? UINT64_MAX : 0);
}

static uint64_t get_ip(struct load *l)
{
	return l->ip += get_signed(l);
}

static struct call_count get_count(struct load *l)
{
	uint64_t v[N_COUNTS] = { 0 }, mask = get_max(l, (1U << N_COUNTS) - 1);
	struct call_count c;

	for (unsigned i = 0; i < N_COUNTS; i++)
		if (mask >> i & 1)
			v[i] = get(l);
	memcpy(&c, v, sizeof(c));
	return c;
}

static bool grow(struct load *l, void *v, size_t n, size_t *cap, size_t size)
{
	if (array_grow(v, n, cap, size) >= 0)
		return true;
	l->error = -AUX_E_NOMEM;
	return false;
}

static void get_spaces(struct load *l)
{
	const struct sink_host *host = l->p->tree->calls->host;
	uint64_t n = get_number(l, 2);

	l->spaces = calloc(n + 1, sizeof(*l->spaces));
	if (!l->spaces) {
		l->error = -AUX_E_NOMEM;
		return;
	}
	for (uint64_t i = 0; i < n && !l->error; i++) {
		uint32_t pid = (uint32_t)get_max(l, UINT32_MAX);
		uint64_t from = get(l);

		l->spaces[++l->n_spaces] =
			host->space ? host->space(host->priv, pid, from) : NULL;
	}
}

static const struct space *get_space(struct load *l)
{
	uint64_t i = get_max(l, l->n_spaces);

	return l->error ? NULL : l->spaces[i];
}

/* Functions; *func of each stands for one with an id of its own. */
static void get_met(struct load *l, struct met **v, size_t *n, size_t *cap, struct func *funcs,
		    uint64_t more)
{
	for (uint64_t i = 0; i < more && !l->error; i++) {
		struct met met = { .func = &funcs[i], .space = get_space(l), .to = get_ip(l) };
		uint64_t flags = get_max(l, MET_NAMED | MET_STARTS);

		funcs[i].pub.name = flags & MET_NAMED ? "" : NULL;
		funcs[i].pub.start = flags & MET_STARTS;
		if (grow(l, v, *n, cap, sizeof(**v)))
			(*v)[(*n)++] = met;
	}
}

static void get_funcs(struct load *l)
{
	struct flow_part *p = l->p;
	uint64_t n_met = get_number(l, 3), n_left = get_number(l, 3), n_jumps = get_number(l, 3);
	size_t n = (size_t)(n_met + n_left + n_jumps);
	struct func *funcs;

	if (n > (size_t)(l->end - l->at) / 3)
		fault(l);
	if (l->error || !grow(l, &p->stand_ins, n, &p->cap_stand_ins, sizeof(*p->stand_ins)))
		return;
	funcs = p->stand_ins;
	memset(funcs, 0, n * sizeof(*funcs));
	for (uint32_t i = 0; i < n_met; i++)
		funcs[i].pub.id = i;
	get_met(l, &p->met, &p->n_met, &p->cap_met, funcs, n_met);
	get_met(l, &p->left, &p->n_left, &p->cap_left, funcs + n_met, n_left);
	get_met(l, &p->jumps, &p->n_jumps, &p->cap_jumps, funcs + n_met + n_left, n_jumps);
}

/* The place in met of a function that the item may have. */
static uint32_t get_func(struct load *l)
{
	return l->n_met_of_item ? (uint32_t)get_max(l, l->n_met_of_item - 1) :
				  (uint32_t)fault(l);
}

static struct pend get_pend(struct load *l)
{
	struct pend e = { .what = (uint8_t)get_max(l, PEND_SWITCH) };

	if (e.what > AUX_END_COND && e.what < PEND_START)
		fault(l);
	e.flags = (uint16_t)get_max(l, UINT16_MAX);
	e.syscall = get_max(l, 1);
	e.from = get_ip(l);
	e.next = get_ip(l);
	return e;
}

/* Room for n more nodes of the tree, which is only read. */
static bool grow_tree(struct load *l, uint64_t n)
{
	struct calltree *t = &l->p->sums;
	uint64_t want = t->n + n, max = t->max;
	void *v;

	if (want <= max)
		return true;
	max = want < 2 * max ? 2 * max : want;
	v = max < UINT32_MAX ? reallocarray(t->nodes, max, sizeof(*t->nodes)) : NULL;
	if (!v) {
		l->error = -AUX_E_NOMEM;
		return false;
	}
	t->nodes = v;
	t->max = (uint32_t)max;
	return true;
}

static void get_nodes(struct load *l, struct stretch *st)
{
	struct calltree *t = &l->p->sums;
	uint64_t n = get_number(l, 1);

	if (!n)
		fault(l);
	if (l->error || !grow_tree(l, n))
		return;
	st->root = t->n;
	st->end_node = t->n + (uint32_t)n;
	t->nodes[t->n++] = (struct calltree_node){ .func = CALLTREE_ROOT, .own = get_count(l) };
	for (uint32_t i = st->root + 1; i < st->end_node && !l->error; i++) {
		struct calltree_node node = { .parent = i - (uint32_t)get_max(l, i - st->root) };
		uint64_t kind;

		if (node.parent == i)
			fault(l);
		node.func = get_func(l);
		kind = get_max(l, CALL_CONTEXT << 1 | 1);
		node.kind = (uint8_t)(kind >> 1);
		node.is_kernel = kind & 1;
		node.calls = get(l);
		node.own = get_count(l);
		t->nodes[t->n++] = node;
	}
}

static void get_frames(struct load *l, struct stretch *st)
{
	struct flow_part *p = l->p;
	uint64_t n = get_max(l, st->depth ? st->depth - 1 : 0);

	st->frame = (uint32_t)p->n_frames;
	for (uint64_t i = 0; i < n && !l->error; i++) {
		struct call_frame f = { .func = &p->stand_ins[get_func(l)].pub };

		f.from = get_ip(l);
		f.to = get_ip(l);
		f.back = get_ip(l);
		f.at = get_count(l);
		f.children = get_count(l);
		f.kind = (uint8_t)get_max(l, CALL_CONTEXT);
		f.flags = (uint8_t)get_max(l, CALL_GUESSED | CALL_KEPT);
		f.user = (void *)(uintptr_t)(st->root +
					     get_max(l, st->end_node - st->root - 1));
		if (grow(l, &p->frames, p->n_frames, &p->cap_frames, sizeof(f)))
			p->frames[p->n_frames++] = f;
	}
	st->n_frames = (uint32_t)n;
}

static void get_slices(struct load *l, struct stretch *st)
{
	struct flow_part *p = l->p;

	st->slice = (uint32_t)p->n_slices;
	st->ticked = get_max(l, 1);
	st->n_head = (uint32_t)get_max(l, CALLTREE_SLICES);
	st->n_tail = (uint32_t)get_max(l, CALLTREE_SLICES);
	st->head_cycles = get(l);
	st->tail_cycles = get(l);
	for (uint32_t i = 0; i < st->n_head + st->n_tail && !l->error; i++) {
		struct calltree_slice v = { .node = st->root +
			(uint32_t)get_max(l, st->end_node - st->root - 1) };

		v.insns = get(l);
		if (grow(l, &p->slices, p->n_slices, &p->cap_slices, sizeof(v)))
			p->slices[p->n_slices++] = v;
	}
}

static void get_stretch(struct load *l, struct item *item)
{
	struct flow_part *p = l->p;
	struct stretch st = { .from = get_pend(l) };

	st.to = get_pend(l);
	st.now = get_count(l);
	st.children = get_count(l);
	st.end = item->ctx;
	st.from_ns = item->ctx.time_ns + get_signed(l);
	st.end.time_ns = item->ctx.time_ns + get_signed(l);
	st.end.tsc = item->ctx.tsc + get_signed(l);
	st.depth = (uint32_t)get_max(l, MAX_FRAMES + 1);
	st.stub_kind = (uint8_t)get_max(l, CALL_TAIL);
	st.stub_from = get_ip(l);
	st.stub_back = get_ip(l);
	st.jump = l->n_stretch_jumps;
	st.n_jumps = (uint32_t)get_max(l, p->n_jumps - l->n_stretch_jumps);
	l->n_stretch_jumps += st.n_jumps;
	get_nodes(l, &st);
	if (l->error)
		return;
	get_frames(l, &st);
	get_slices(l, &st);
	item->stretch = (uint32_t)p->n_stretches;
	if (grow(l, &p->stretches, p->n_stretches, &p->cap_stretches, sizeof(st)))
		p->stretches[p->n_stretches++] = st;
}

/* An event as a decoder may make one. */
static bool is_event(const struct aux_flow *ev)
{
	switch (ev->kind) {
	case AUX_FLOW_RANGE:
		return ev->n && ev->what <= AUX_END_COND && ev->range.last >= ev->range.first;
	case AUX_FLOW_GAP:
		return ev->what && ev->what < GAP_N_CAUSES;
	case AUX_FLOW_ASYNC:
		return ev->what <= AUX_ASYNC_EXCEPTION;
	case AUX_FLOW_PATH:
		return false;
	}
	return ev->kind < AUX_FLOW_PATH;
}

static void get_events(struct load *l, struct item *item)
{
	struct pack *pack = &l->p->pack;
	uint64_t offset = 0, kind;

	item->from = pack->n;
	item->last = pack->last;
	while (!l->error && (kind = get_max(l, AUX_FLOW_PATH))) {
		struct aux_flow ev = { .kind = (uint8_t)kind };

		ev.what = (uint8_t)get_max(l, UINT8_MAX);
		ev.flags = (uint16_t)get_max(l, UINT16_MAX);
		ev.n = (uint32_t)get_max(l, UINT32_MAX);
		ev.offset = offset += get_signed(l);
		ev.range.first = get_ip(l);
		ev.range.last = get_ip(l);
		if (!l->error && !is_event(&ev))
			fault(l);
		if (!l->error && pack_events(pack, &ev, 1))
			l->error = -AUX_E_NOMEM;
	}
	item->to = pack->n;
}

static void get_item(struct load *l)
{
	struct flow_part *p = l->p;
	uint64_t flags = get_max(l, ITEM_STRETCH | ITEM_OTHER);
	struct item item = { .stretch = UINT32_MAX };

	item.stint = l->last.stint + (uint32_t)get_max(l, UINT32_MAX - l->last.stint);
	item.n_met = l->last.n_met + (uint32_t)get_max(l, p->n_met - l->last.n_met);
	l->ctx.time_ns += get_signed(l);
	l->ctx.tsc += get_signed(l);
	if (flags & ITEM_OTHER) {
		l->ctx.pid = (uint32_t)get_max(l, UINT32_MAX);
		l->ctx.tid = (uint32_t)get_max(l, UINT32_MAX);
		l->ctx.cpu = (int32_t)get_max(l, UINT32_MAX);
		l->ctx.space = get_space(l);
	}
	item.ctx = l->ctx;
	l->n_met_of_item = item.n_met;
	if (flags & ITEM_STRETCH)
		get_stretch(l, &item);
	else
		get_events(l, &item);
	l->last = item;
	if (!l->error && grow(l, &p->items, p->n_items, &p->cap_items, sizeof(item)))
		p->items[p->n_items++] = item;
}

int flowpart_load(void *part, uint32_t stream, const uint8_t *bytes, size_t n)
{
	struct flow_part *p = part;
	struct load l = { .p = p, .at = bytes, .end = bytes + n, .ctx = { .stream = stream } };
	uint64_t n_items;

	p->loaded = true;
	if (get(&l) != VERSION)
		return -AUX_E_UNSUPPORTED;
	get_spaces(&l);
	if (!l.error)
		get_funcs(&l);
	n_items = get_number(&l, 5);
	for (uint64_t i = 0; i < n_items && !l.error; i++)
		get_item(&l);
	free(l.spaces);
	if (!l.error && (l.at != l.end || !p->n_items))
		l.error = -AUX_E_FORMAT;
	return l.error;
}

bool flowpart_next(const void *part, uint32_t *stint, uint64_t *ns)
{
	const struct flow_part *p = part;

	if (p->n_joined == p->n_items)
		return false;
	*stint = p->items[p->n_joined].stint;
	*ns = p->items[p->n_joined].ctx.time_ns;
	return true;
}

bool flowpart_ends_in_gap(const void *part)
{
	const struct flow_part *p = part;
	const struct item *item = p->n_items ? &p->items[p->n_items - 1] : NULL;
	struct unpack u = { .at = NULL };
	bool gap = false;
	struct aux_flow ev;
	uint64_t n_insns;
	size_t n_plain;

	if (!item || item->stretch != UINT32_MAX)
		return false;
	u = (struct unpack){ .at = p->pack.words + item->from,
			     .end = p->pack.words + item->to, .last = item->last };
	while (unpack_events(&u, &ev, 1, &n_plain, &n_insns))
		if (ev.kind != AUX_FLOW_TIME && ev.kind != AUX_FLOW_CONTEXT)
			gap = ev.kind == AUX_FLOW_GAP;
	return gap;
}
