/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flowdiff: two decoders over one chunk, through the plugin interface, and what
 * they must agree on: as auxdecode verify has it, without TIME. Events at one
 * place are put in order by kind; RANGEs that were only cut are joined.
 */
#ifndef TESTS_FUZZ_FLOWDIFF_H
#define TESTS_FUZZ_FLOWDIFF_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#define FLOW_MAX 20000
#define FLOW_BATCH 512
#define FLOW_TIMES 512

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c)) {                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); \
			abort();                                               \
		}                                                              \
	} while (0)

struct flow_list {
	struct aux_flow ev[FLOW_MAX];
	size_t n, place;	/* place: behind the last RANGE */
	uint64_t offset;
	bool unsupported, full;
	bool cut;		/* the trace ends inside of a packet */
	uint64_t n_insns;
	struct {		/* TIMEs that reached the horizon */
		uint64_t tsc, n_insns;	/* n_insns: in front of it */
	} time[FLOW_TIMES];
	size_t n_times;
	uint64_t no_insn;	/* detail of its GAP at bytes that are no
				 * instruction; 0: not known */
};

static bool flow_joins(const struct aux_flow *a, const struct aux_flow *b)
{
	unsigned size = a->flags & AUX_FLOW_SIZE_MASK;
	uint64_t step = b->range.first - a->range.last;

	/* libipt may leave the size to others */
	return a->kind == AUX_FLOW_RANGE && a->what == AUX_END_FALL &&
	       (size ? step == size : step - 1 < 15) &&
	       !((a->flags ^ b->flags) & ~AUX_FLOW_SIZE_MASK);
}

static bool flow_is_error(const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_GAP && ev->what != AUX_GAP_OVERFLOW;
}

static unsigned flow_class(const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_ASYNC || ev->kind == AUX_FLOW_TRACE_ON ||
	       ev->kind == AUX_FLOW_TRACE_OFF || ev->kind == AUX_FLOW_GAP ?
		       0 : ev->kind;
}

static void flow_add(struct flow_list *l, const struct aux_flow *ev)
{
	size_t i = l->n;

	ASSERT(ev->offset >= l->offset);
	l->offset = ev->offset;
	if (ev->kind == AUX_FLOW_TIME)
		return;
	if (ev->kind == AUX_FLOW_RANGE) {
		l->n_insns += ev->n;
		ASSERT(ev->n && ev->range.first <= ev->range.last);
		l->place = l->n + 1;
		if (l->n && flow_joins(&l->ev[l->n - 1], ev)) {
			struct aux_flow *f = &l->ev[l->n - 1];

			f->n += ev->n;
			f->range.last = ev->range.last;
			f->what = ev->what;
			f->flags = ev->flags;
			l->place = l->n;
			return;
		}
	}
	if (l->n == FLOW_MAX) {
		l->full = true;
		return;
	}
	/* nothing passes an error */
	if (ev->kind != AUX_FLOW_RANGE && !flow_is_error(ev))
		for (; i > l->place && flow_class(&l->ev[i - 1]) > flow_class(ev); i--)
			l->ev[i] = l->ev[i - 1];
	l->ev[i] = *ev;
	l->n++;
	if (flow_is_error(ev))
		l->place = l->n;
}

static void flow_add_path(struct flow_list *l, const struct aux_flow *ev)
{
	const struct aux_path *p = ev->path.path;
	uint64_t n = 0;

	for (uint32_t i = 0; i < p->n_steps; i++)
		for (uint32_t k = 0; k < p->steps[i]->n_ranges; k++) {
			struct aux_flow r = p->steps[i]->ranges[k];

			r.offset = ev->offset;
			n += r.n;
			flow_add(l, &r);
		}
	ASSERT(n == p->n_insns && n == ev->n);
}

/* Code that is missing: n units of an image from start on. */
struct flow_hole {
	size_t start, n;
};

/* Narrows [*from, *to), units of an image, to what is there around at; false: at is
 * missing. */
static bool flow_around_hole(struct flow_hole hole, size_t at, size_t *from,
			     size_t *to)
{
	size_t end = hole.start + hole.n;

	if (at >= hole.start && at < end)
		return false;
	if (at < hole.start)
		*to = *to < hole.start ? *to : hole.start;
	else
		*from = end;
	return true;
}

/* The host's forget: what it gave stays. */
static void flow_forget(void *priv, void (*release)(void *what), void *what)
{
	(void)priv;
	release(what);
}

/* Decodes a chunk with an open decoder; h and what moves it are the caller's. */
static void flow_decode(struct flow_list *l, const struct aux_decoder_ops *ops,
			void *dec, const struct aux_chunk *c, size_t max,
			void (*act)(void *priv, const struct aux_flow *last),
			void *priv)
{
	static struct aux_flow ev[FLOW_BATCH];
	int n = ops->start(dec, c);
	uint64_t total = 0;

	l->n = l->place = l->n_times = 0;
	l->n_insns = 0;
	l->offset = c->stream_offset;
	l->full = false;
	while (n == 0 && (n = ops->decode(dec, ev, max)) > 0) {
		ASSERT((size_t)n <= max);
		total += (uint64_t)n;
		ASSERT(total < 4096 * (c->len + 64));	/* it ends */
		for (int i = 0; i < n; i++) {
			if (ev[i].kind == AUX_FLOW_PATH)
				flow_add_path(l, &ev[i]);
			else
				flow_add(l, &ev[i]);
		}
		act(priv, &ev[n - 1]);
		n = 0;
	}
	ASSERT(n == 0 || n == -AUX_E_UNSUPPORTED);
	ASSERT(l->offset <= c->stream_offset + c->len);
	l->unsupported = n < 0;
}

static bool flow_open_cond(const struct aux_flow *a, const struct aux_flow *b)
{
	return a->what == AUX_END_COND && (b->what == AUX_END_COND_TAKEN ||
					   b->what == AUX_END_COND_NOT_TAKEN);
}

static bool flow_same(const struct aux_flow *a, const struct aux_flow *b)
{
	uint16_t flags = AUX_FLOW_HAS_IP | AUX_FLOW_MODE_MASK | AUX_FLOW_IN_TX;

	if (a->kind != b->kind || (a->flags ^ b->flags) & flags)
		return false;
	switch (a->kind) {
	case AUX_FLOW_RANGE:
		return a->n == b->n && a->range.first == b->range.first &&
		       a->range.last == b->range.last &&
		       (a->what == b->what || flow_open_cond(a, b) ||
			flow_open_cond(b, a));
	case AUX_FLOW_ASYNC:
	case AUX_FLOW_CONTEXT:
		return a->range.first == b->range.first &&
		       a->range.last == b->range.last &&
		       (a->what == b->what || a->kind == AUX_FLOW_ASYNC);
	case AUX_FLOW_PAYLOAD:
	case AUX_FLOW_POWER:
	case AUX_FLOW_EVENT:
		return a->what == b->what && a->n == b->n &&
		       a->payload.value == b->payload.value &&
		       (!(a->flags & AUX_FLOW_HAS_IP) ||
			a->payload.ip == b->payload.ip);
	default:
		return a->what == b->what && (!(a->flags & AUX_FLOW_HAS_IP) ||
					      a->trace.ip == b->trace.ip);
	}
}

static void flow_print(const char *name, const struct flow_list *l, size_t from,
		       size_t to)
{
	fprintf(stderr, "%s:\n", name);
	for (size_t i = from; i < to && i < l->n; i++)
		fprintf(stderr, "  %#" PRIx64 ": kind %u what %u flags %#x n %u "
				"%#" PRIx64 " %#" PRIx64 "\n", l->ev[i].offset,
			l->ev[i].kind, l->ev[i].what, l->ev[i].flags,
			l->ev[i].n, l->ev[i].range.first, l->ev[i].range.last);
	if (to >= l->n)
		fprintf(stderr, "  end%s\n", l->unsupported ? ", gave up" : "");
}

/* Ends the program at event i of a, which is none of b's at k. */
static _Noreturn void flow_differ(const char *what, const struct flow_list *a,
				  size_t i, const struct flow_list *b, size_t k)
{
	fprintf(stderr, "%s, event %zu:\n", what, i);
	flow_print("engine", a, i > 4 ? i - 4 : 0, i + 6);
	flow_print("other", b, k > 4 ? k - 4 : 0, k + 6);
	abort();
}

/* What ran, from a little before k on. */
static inline void flow_print_ran(const uint64_t *ran, size_t n, size_t k)
{
	fprintf(stderr, "ran:");
	for (size_t i = k > 4 ? k - 4 : 0; i < k + 8 && i < n; i++)
		fprintf(stderr, "%s %#" PRIx64, i == k ? " ->" : "", ran[i]);
	fprintf(stderr, "\n");
}

/* Is b's event i the rest of a RANGE that a gave only the begin of? */
static bool flow_is_part(const struct aux_flow *a, const struct aux_flow *b)
{
	return a->kind == AUX_FLOW_RANGE && b->kind == AUX_FLOW_RANGE &&
	       a->what == AUX_END_FALL && a->n < b->n &&
	       a->range.first == b->range.first;
}

/*
 * The decoders read packets ahead, by different ways: what a packet that is wrong
 * took with it may differ by so many events, and which of two contradictions was
 * seen first. Returns where the GAP is; l->n: none.
 */
#define FLOW_AHEAD 3

static size_t flow_error(const struct flow_list *l, size_t i)
{
	for (size_t k = i; k < l->n && k <= i + FLOW_AHEAD; k++)
		if (flow_is_error(&l->ev[k]))
			return k;
	return l->n;
}

/*
 * Trace has the flow at an address that the code does not lead to: the engine says
 * so, the reference walks on through whatever code follows.
 */
static bool flow_walked_on(const struct flow_list *a, size_t i,
			   const struct flow_list *b, size_t k)
{
	return a->ev[i].kind == AUX_FLOW_GAP &&
	       a->ev[i].what == AUX_GAP_DESYNC &&
	       b->ev[k].kind == AUX_FLOW_RANGE && i + 1 < a->n &&
	       k + 1 < b->n && !flow_is_error(&a->ev[i + 1]) &&
	       flow_same(&a->ev[i + 1], &b->ev[k + 1]);
}

/* A run that ends without a packet: whoever tells of what follows tells of it. */
static bool flow_is_direct(const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_RANGE &&
	       (ev->what == AUX_END_JUMP || ev->what == AUX_END_CALL);
}

/* How many events of a in [i, end_a) have no equal one in b in [k, end_b), but for
 * those. */
static size_t flow_unmatched(const struct flow_list *a, size_t i, size_t end_a,
			     const struct flow_list *b, size_t k, size_t end_b)
{
	static bool used[FLOW_MAX];
	size_t n = 0, y;

	memset(used, 0, sizeof(used));
	for (; i < end_a; i++) {
		for (y = k; y < end_b; y++)
			if (!used[y] && flow_same(&a->ev[i], &b->ev[y]))
				break;
		if (y < end_b)
			used[y] = true;
		else
			n += !flow_is_direct(&a->ev[i]);
	}
	return n;
}

/*
 * The trace ends in what follows i and k, which is in order by kind. libipt may not
 * tell of the last packet, and a PSB that is cut is the end for it, whatever its
 * bytes are: the engine tells that they are no packet, and they may take the event
 * before them with them. Of another packet that is cut libipt knows what it would
 * be, and that no such one could come; to the engine it is the end.
 */
static bool flow_ends_alike(const struct flow_list *a, size_t i,
			    const struct flow_list *b, size_t k)
{
	size_t n_ranges = 0;
	bool error = false;

	for (size_t x = i; x < a->n; x++) {
		error |= flow_is_error(&a->ev[x]);
		n_ranges += a->ev[x].kind == AUX_FLOW_RANGE &&
			    !flow_is_direct(&a->ev[x]);
	}
	if (n_ranges > FLOW_AHEAD)
		return false;
	return flow_unmatched(a, i, a->n, b, k, b->n) <=
		       (error ? 2 * FLOW_AHEAD : FLOW_AHEAD) &&
	       flow_unmatched(b, k, b->n, a, i, a->n) <=
		       (error || a->cut ? 2 * FLOW_AHEAD : 0);
}

/* The error that the events from i on end in, before a RANGE; l->n: none. */
static size_t flow_ends_in(const struct flow_list *l, size_t i)
{
	while (i < l->n && l->ev[i].kind != AUX_FLOW_RANGE &&
	       !flow_is_error(&l->ev[i]))
		i++;
	return i < l->n && flow_is_error(&l->ev[i]) ? i : l->n;
}

/* A limit of its own, behind any number of events. */
static bool flow_gives_up(const struct flow_list *l, size_t i)
{
	i = flow_ends_in(l, i);
	return i < l->n && l->ev[i].what == AUX_GAP_DECODER;
}

/* What an error took with it, from among many events in order by kind. */
static bool flow_fails_alike(const struct flow_list *a, size_t i, size_t *end_a,
			     const struct flow_list *b, size_t k, size_t *end_b)
{
	size_t x = flow_ends_in(a, i), y = flow_ends_in(b, k);

	if (x == a->n || y == b->n ||
	    flow_unmatched(a, i, x, b, k, y) > FLOW_AHEAD ||
	    flow_unmatched(b, k, y, a, i, x) > FLOW_AHEAD)
		return false;
	*end_a = x;
	*end_b = y;
	return true;
}

/* One decoder in two ways: all is the same, but for how far it came. */
static size_t flow_compare_own(const struct flow_list *a,
			       const struct flow_list *b)
{
	size_t i = 0;

	while (i < a->n && i < b->n && flow_same(&a->ev[i], &b->ev[i]))
		i++;
	if ((i == a->n && i == b->n) || a->full || b->full)
		return SIZE_MAX;
	if (a->unsupported || b->unsupported)
		return i + 1 < a->place && i + 1 < b->place ? i : SIZE_MAX;
	return i;
}

static inline void flow_add_time(struct flow_list *l, uint64_t tsc)
{
	if (l->n_times == FLOW_TIMES)
		return;
	l->time[l->n_times].tsc = tsc;
	l->time[l->n_times++].n_insns = l->n_insns;
}

/* Was the horizon reached at the same places? */
static inline bool flow_same_times(const struct flow_list *a,
				   const struct flow_list *b)
{
	return a->n_times == b->n_times &&
	       !memcmp(a->time, b->time, a->n_times * sizeof(a->time[0]));
}

/* The place of the first difference in a; SIZE_MAX: none. a is the engine's. */
static size_t flow_compare(const struct flow_list *a, const struct flow_list *b,
			   size_t *in_b)
{
	size_t i = 0, k = 0, x, y;

	for (; i < a->n && k < b->n; i++, k++) {
		*in_b = k;
		if (flow_same(&a->ev[i], &b->ev[k]) ||
		    flow_walked_on(a, i, b, k))
			continue;
		/* events behind the last RANGE are not all there are */
		if ((a->unsupported && i + 1 >= a->place &&
		     (i >= a->place || flow_is_part(&a->ev[i], &b->ev[k]))) ||
		    (b->unsupported && k + 1 >= b->place &&
		     (k >= b->place || flow_is_part(&b->ev[k], &a->ev[i]))))
			return SIZE_MAX;
		x = flow_error(a, i);
		y = flow_error(b, k);
		/* libipt takes AAD and other opcodes that 64-bit mode lacks */
		if (x < a->n && y == b->n && a->no_insn &&
		    a->ev[x].gap.detail == a->no_insn)
			return SIZE_MAX;
		/* what the reference cannot do, the engine may */
		if ((y < b->n && b->ev[y].what == AUX_GAP_DECODER) ||
		    flow_gives_up(b, k))
			return SIZE_MAX;
		if ((x == a->n || y == b->n) &&
		    !flow_fails_alike(a, i, &x, b, k, &y))
			return flow_ends_alike(a, i, b, k) ? SIZE_MAX : i;
		i = x;
		k = y;
	}
	*in_b = k;
	if ((i == a->n && k == b->n) || a->full || b->full ||
	    (a->unsupported && i == a->n) || (b->unsupported && k == b->n))
		return SIZE_MAX;
	return flow_ends_alike(a, i, b, k) ? SIZE_MAX : i;
}

#endif
