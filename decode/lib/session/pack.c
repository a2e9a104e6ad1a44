/* SPDX-License-Identifier: BSD-2-Clause */
/* pack: events as words, see pack.h. */
#include <string.h>

#include "common/array.h"
#include "decode/lib/session/pack.h"
#include "decode/lib/session/sink.h"

#define RAW_WORDS (1 + sizeof(struct aux_flow) / sizeof(uint64_t))
#define PATH_OFFSET 15	/* bits */
#define TIME_OFFSET 14
#define TIME_TSC 18
#define TIME_NS 16
#define TIME_N 14

_Static_assert(2 + TIME_OFFSET + TIME_TSC + TIME_NS + TIME_N == 64, "one word");

static uint64_t *add_raw(struct pack_last *last, uint64_t *w,
			 const struct aux_flow *ev)
{
	*w++ = 0;
	memcpy(w, ev, sizeof(*ev));
	last->offset = ev->offset;
	if (ev->kind == AUX_FLOW_TIME) {
		last->tsc = ev->time.tsc;
		last->ns = ev->time.ns;
	}
	return w + RAW_WORDS - 1;
}

static inline uint64_t *add_path(struct pack_last *last, uint64_t *w,
			  const struct aux_flow *ev)
{
	uint64_t more = ev->offset - last->offset;
	uint64_t at = (uintptr_t)ev->path.path;

	/* one branch for all of it, as it is never taken */
	if (more >> PATH_OFFSET | at >> 48 | ev->what | ev->flags |
	    ev->path.reserved | (ev->n ^ ev->path.path->n_insns))
		return add_raw(last, w, ev);
	*w = at << 16 | more << 1 | 1;
	last->offset = ev->offset;
	return w + 1;
}

static inline uint64_t *add_time(struct pack_last *last, uint64_t *w,
			  const struct aux_flow *ev)
{
	uint64_t more = ev->offset - last->offset;
	uint64_t tsc = ev->time.tsc - last->tsc, ns = ev->time.ns - last->ns;

	if (more >> TIME_OFFSET | tsc >> TIME_TSC | ns >> TIME_NS |
	    ev->n >> TIME_N | ev->what | (ev->flags ^ AUX_FLOW_HAS_TSC))
		return add_raw(last, w, ev);
	*w = (uint64_t)ev->n << (64 - TIME_N) |
	     ns << (2 + TIME_OFFSET + TIME_TSC) | tsc << (2 + TIME_OFFSET) |
	     more << 2 | 2;
	last->offset = ev->offset;
	last->tsc = ev->time.tsc;
	last->ns = ev->time.ns;
	return w + 1;
}

/* n more words, and as many as n events may take. */
static int make_room(struct pack *p, size_t n)
{
	return array_grow(&p->words, p->n + n * RAW_WORDS, &p->cap,
			  sizeof(*p->words));
}

/* left: events that follow, for which there was room. */
static int add_ranges(struct pack *p, const struct aux_flow *ev, size_t left)
{
	struct path_ranges ranges = { .path = ev };
	struct aux_flow range;
	uint64_t *w;

	if (make_room(p, left + ev->path.path->n_ranges))
		return -AUX_E_NOMEM;
	w = p->words + p->n;
	while (path_next_range(&ranges, &range))
		w = add_raw(&p->last, w, &range);
	p->n = (size_t)(w - p->words);
	return 0;
}

int pack_events(struct pack *p, const struct aux_flow *ev, size_t n)
{
	struct pack_last last = p->last;
	uint64_t *w;

	if (make_room(p, n))
		return -AUX_E_NOMEM;
	w = p->words + p->n;
	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind == AUX_FLOW_PATH && ev[i].path.path->kept) {
			w = add_path(&last, w, &ev[i]);
		} else if (ev[i].kind == AUX_FLOW_TIME) {
			w = add_time(&last, w, &ev[i]);
		} else if (ev[i].kind == AUX_FLOW_PATH) {
			p->last = last;
			p->n = (size_t)(w - p->words);
			if (add_ranges(p, &ev[i], n - i))
				return -AUX_E_NOMEM;
			last = p->last;
			w = p->words + p->n;
		} else {
			w = add_raw(&last, w, &ev[i]);
		}
	}
	p->last = last;
	p->n = (size_t)(w - p->words);
	return 0;
}

static inline void take_path(struct pack_last *last, struct aux_flow *out, uint64_t w)
{
	struct aux_path *path = (struct aux_path *)(uintptr_t)(w >> 16);

	last->offset += w >> 1 & ((1U << PATH_OFFSET) - 1);
	*out = (struct aux_flow){ .offset = last->offset,
				  .kind = AUX_FLOW_PATH,
				  .n = path->n_insns,
				  .path = { .path = path } };
}

static inline void take_time(struct pack_last *last, struct aux_flow *out, uint64_t w)
{
	w >>= 2;
	last->offset += w & ((1U << TIME_OFFSET) - 1);
	w >>= TIME_OFFSET;
	last->tsc += w & ((1U << TIME_TSC) - 1);
	w >>= TIME_TSC;
	last->ns += w & ((1U << TIME_NS) - 1);
	*out = (struct aux_flow){ .offset = last->offset,
				  .kind = AUX_FLOW_TIME,
				  .flags = AUX_FLOW_HAS_TSC,
				  .n = (uint32_t)(w >> TIME_NS),
				  .time = { last->ns, last->tsc } };
}

static const uint64_t *take_raw(struct pack_last *last, struct aux_flow *out,
				const uint64_t *at)
{
	memcpy(out, at, sizeof(*out));
	last->offset = out->offset;
	if (out->kind == AUX_FLOW_TIME) {
		last->tsc = out->time.tsc;
		last->ns = out->time.ns;
	}
	return at + RAW_WORDS - 1;
}

size_t unpack_events(struct unpack *u, struct aux_flow *out, size_t max,
		     size_t *n_plain, uint64_t *plain_insns)
{
	struct pack_last last = u->last;
	const uint64_t *at = u->at;
	uint64_t n_insns = 0;
	size_t n = 0;

	/* most of all events, and first of all, for their number is wanted */
	for (; n < max && at < u->end && *at & 1; n++) {
		take_path(&last, &out[n], *at++);
		n_insns += out[n].n;
	}
	*n_plain = n;
	*plain_insns = n_insns;
	while (n < max && at < u->end) {
		uint64_t w = *at++;

		if (w & 1)
			take_path(&last, &out[n++], w);
		else if (w)
			take_time(&last, &out[n++], w);
		else
			at = take_raw(&last, &out[n++], at);
	}
	u->last = last;
	u->at = at;
	return n;
}
