/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names, tracks and numbers for all formats.
 *
 * A track is one stack of a thread, so that slices on it nest; so is a stream
 * whose gaps are of no known thread. Times of a track never go back, whatever
 * the trace says: a format may rely on it (exporter_stamp). Where the trace has
 * no times at all, instructions of the thread stand for them.
 *
 * A thread's counts go on while it is in another of its stacks. What it counted
 * elsewhere is subtracted (away), so that a slice has what ran inside of it and
 * nothing of the other stacks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "decode/export/export.h"
#include "decode/export/impl.h"
#include "decode/lib/session/session.h"
#include "decode/lib/trace/gap.h"
#include "decode/sink/columns.h"

/*
 * ---- names ----
 *
 * Each text is kept once, however many functions have it, so a format writes it
 * once; the longest mangled name costs its own bytes.
 */

/* FNV-1a. */
static uint64_t hash_text(const char *s, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 29;
}

/* The slot of a text, or the free one where it belongs. */
static struct export_name **name_slot(struct export_name **slots, size_t n,
				      const char *text, size_t len)
{
	size_t i = (size_t)hash_text(text, len) & (n - 1);

	while (slots[i] && (slots[i]->len != len ||
			    memcmp(slots[i]->text, text, len)))
		i = (i + 1) & (n - 1);
	return &slots[i];
}

/* Names do not move: formats keep pointers to them. */
static int grow_names(struct exporter *e)
{
	size_t n = e->n_slots ? 2 * e->n_slots : 1024;
	struct export_name **slots = calloc(n, sizeof(struct export_name *));

	if (!slots)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < e->n_slots; i++)
		if (e->slots[i])
			*name_slot(slots, n, e->slots[i]->text,
				   e->slots[i]->len) = e->slots[i];
	free(e->slots);
	e->slots = slots;
	e->n_slots = n;
	return 0;
}

/* An output without the name would be another one. */
static const struct export_name *no_memory(struct export *x)
{
	outbuf_fail(x->out, ENOMEM);
	return NULL;
}

/* The cleaned text decides whether two are equal. */
const struct export_name *export_intern(struct export *x, const char *text)
{
	struct exporter *e = (struct exporter *)x;
	size_t raw = strlen(text), len = export_clean(NULL, text, raw);
	struct export_name *name, **slot;

	if (2 * (size_t)(x->n_names + 1) > e->n_slots && grow_names(e))
		return no_memory(x);
	if (len > UINT32_MAX / 2)
		return NULL;
	name = malloc(sizeof(*name) + len + 1);
	if (!name)
		return no_memory(x);
	export_clean(name->text, text, raw);
	name->text[len] = 0;
	name->len = (uint32_t)len;
	slot = name_slot(e->slots, e->n_slots, name->text, len);
	if (*slot) {
		free(name);
		return *slot;
	}
	name->id = x->n_names++;
	*slot = name;
	return name;
}

/* Once per function: call_func.user. */
const struct export_name *export_func_name(struct export *x,
					   struct call_func *f)
{
	char buf[512];

	if (f->user)
		return f->user;
	if (f->name) {
		f->user = (void *)export_intern(x, f->name);
	} else {
		call_func_name(f, buf, sizeof(buf));
		f->user = (void *)export_intern(x, buf);
	}
	return f->user;
}

/* The length without the NUL; cut where buf is too small. */
size_t export_track_name(const struct export_track *t, char *buf, size_t len)
{
	const char *comm = t->comm ? t->comm->text : "?";
	int n;

	if ((int32_t)t->tid < 0)
		n = snprintf(buf, len, "stream %u", t->stream);
	else
		n = snprintf(buf, len, "%s/%u", comm, t->tid);
	if (t->stack && n >= 0 && (size_t)n < len)
		n += snprintf(buf + n, len - (size_t)n, " stack %u", t->stack);
	return n < 0 ? 0 : (size_t)n < len ? (size_t)n : len - 1;
}

#define MADE_UP (UINT64_C(1) << 30) /* no process has such a number */

uint64_t export_pid(const struct export_track *t)
{
	return (int32_t)t->pid < 0 ? 0 : t->pid;
}

uint64_t export_tid(const struct export_track *t)
{
	return (int32_t)t->tid < 0 || t->stack ? MADE_UP + t->id : t->tid;
}

const char *export_clock(const struct export *x)
{
	const char *clock = NULL;

	if (!x->timed)
		return "instructions";
	if (x->session)
		clock = aux_reader_source(session_reader(x->session), "clock");
	return clock && !strcmp(clock, "virtual") ? clock : "perf";
}

const char *export_kind_name(const struct call_frame *f)
{
	static const char *const names[] = {
		[CALL_BASE] = "base",	      [CALL_CALL] = "call",
		[CALL_TAIL] = "tail",	      [CALL_SIGNAL] = "signal",
		[CALL_INTERRUPT] = "interrupt", [CALL_SYSCALL] = "syscall",
		[CALL_CONTEXT] = "context",
	};

	return f->kind < sizeof(names) / sizeof(names[0]) ? names[f->kind]
							  : "unknown";
}

const char *export_end_name(enum call_end how)
{
	static const char *const names[] = {
		[CALL_END_RET] = "return",    [CALL_END_TAIL] = "tail",
		[CALL_END_UNWOUND] = "unwound", [CALL_END_KERNEL] = "kernel",
		[CALL_END_LOST] = "lost",     [CALL_END_EXEC] = "exec",
		[CALL_END_TRACE] = "trace-end",
	};

	return how < sizeof(names) / sizeof(names[0]) ? names[how] : "unknown";
}

bool export_is_cut(enum call_end how)
{
	return how == CALL_END_LOST || how == CALL_END_TRACE;
}

/* The thread's name at that time, if the host knows one. */
static void name_track(struct exporter *e, struct export_track *t,
		       uint64_t time)
{
	const struct sink_host *host = e->x.env.host;
	const char *comm;

	if ((int32_t)t->tid < 0 || !host->comm)
		return;
	comm = host->comm(host->priv, t->tid, time);
	if (comm && *comm)
		t->comm = export_intern(&e->x, comm);
}

/*
 * A copy of as, with a number, at the end of the list; the format hears of it.
 * NULL and *err on failure: the track is in the list all the same, and freed
 * with it.
 */
static struct export_track *add_track(struct exporter *e,
				      const struct export_track *as, int *err)
{
	struct export_track *t = malloc(sizeof(*t));

	*err = -AUX_E_NOMEM;
	if (!t)
		return NULL;
	*t = *as;
	t->id = e->x.n_tracks++;
	if (!t->thread)
		t->thread = t;
	t->last_ns = e->x.last_ns;
	name_track(e, t, e->x.timed ? e->x.last_ns : UINT64_MAX);
	*e->last_track = t;
	e->last_track = &t->next;
	*err = e->ops->track ? e->ops->track(e->format, t) : 0;
	return *err ? NULL : t;
}

/* The track of a stream's gaps, made at first need. */
struct export_track *exporter_stream(struct exporter *e, uint32_t stream,
				     int *err)
{
	struct export_track as = { .pid = -1, .tid = -1, .stream = stream };
	struct export_track **v = e->streams;

	for (size_t i = 0; i < e->n_streams; i++)
		if (v[i]->stream == stream)
			return v[i];
	*err = -AUX_E_NOMEM;
	v = reallocarray(v, e->n_streams + 1, sizeof(*v));
	if (!v)
		return NULL;
	e->streams = v;
	v[e->n_streams] = add_track(e, &as, err);
	return v[e->n_streams] ? v[e->n_streams++] : NULL;
}

/* NULL: out of memory. */
static struct export_thread *thread_of(struct exporter *e,
				       struct call_thread *t)
{
	struct export_thread *th = t->user;

	if (th)
		return th;
	th = calloc(1, sizeof(*th));
	if (!th)
		return NULL;
	th->next = e->threads;
	e->threads = th;
	t->user = th;
	return th;
}

/* Room for stacks up to n - 1. */
static int grow_thread(struct export_thread *th, uint32_t n)
{
	struct export_track **v = reallocarray(th->tracks, n, sizeof(*v));

	if (!v)
		return -AUX_E_NOMEM;
	memset(v + th->n, 0, (n - th->n) * sizeof(*v));
	th->tracks = v;
	th->n = n;
	return 0;
}

/* The thread is in this one of its stacks now: what it counted since it left is
 * away. */
static struct export_track *enter_track(struct export_thread *th,
					struct export_track *track,
					const struct call_thread *t)
{
	if (th->current == track)
		return track;
	if (th->current) {
		th->current->left = t->now;
		track->away = call_plus(track->away,
					call_minus(t->now, track->left));
	}
	return th->current = track;
}

/* The thread's counts, as this stack alone would have them. */
static struct call_count count_here(const struct export_track *track,
				    const struct call_thread *t)
{
	return call_minus(t->now, track->away);
}

int exporter_push(struct export_track *track, const struct call_thread *t)
{
	uint32_t max = track->max_open ? 2 * track->max_open : 32;
	struct export_open *v = track->open;

	if (track->n_open == track->max_open) {
		v = reallocarray(v, max, sizeof(*v));
		if (!v)
			return -AUX_E_NOMEM;
		track->open = v;
		track->max_open = max;
	}
	v[track->n_open++] =
		(struct export_open){ .at = count_here(track, t) };
	return 0;
}

/* total and self of the frame that ends; its caller's children, or the track's
 * top, get the total. */
void exporter_pop(struct export_track *track, const struct call_thread *t,
		  struct export_slice *s)
{
	struct export_open *o = &track->open[--track->n_open];

	s->total = call_minus(count_here(track, t), o->at);
	s->self = call_minus(s->total, o->children);
	if (track->n_open)
		o[-1].children = call_plus(o[-1].children, s->total);
	else
		track->top = call_plus(track->top, s->total);
}

/* The track of the stack that t is in. Stack 0 always comes first, for formats
 * name the thread after it. */
struct export_track *exporter_track(struct exporter *e, struct call_thread *t,
				    int *err)
{
	struct export_thread *th = thread_of(e, t);
	struct export_track as = { .pid = t->pid, .tid = t->tid,
				   .stream = t->stream, .stack = t->context };

	*err = -AUX_E_NOMEM;
	if (!th || (t->context >= th->n &&
		    grow_thread(th, t->context + 1 > 2 * th->n
					    ? t->context + 1 : 2 * th->n)))
		return NULL;
	if (th->tracks[t->context])
		return enter_track(th, th->tracks[t->context], t);
	if (t->context && !th->tracks[0]) {
		as.stack = 0;
		th->tracks[0] = add_track(e, &as, err);
		if (!th->tracks[0])
			return NULL;
		as.stack = t->context;
	}
	as.thread = th->tracks[0];
	if (as.thread)
		as.stream = as.thread->stream;
	as.left = t->now;
	th->tracks[t->context] = add_track(e, &as, err);
	return th->tracks[t->context]
		       ? enter_track(th, th->tracks[t->context], t) : NULL;
}

/* The time for something of t that happens now: at least that of the event
 * before. */
uint64_t exporter_stamp(struct exporter *e, struct export_track *track,
			const struct call_thread *t)
{
	uint64_t ns = t ? t->now.ns : 0;

	if (t && !e->x.timed)
		ns = t->now.insns;
	if (ns < track->last_ns)
		ns = track->last_ns;
	track->last_ns = ns;
	if (e->x.timed && ns > e->x.last_ns)
		e->x.last_ns = ns;
	return ns;
}

/* "[gap: cause]", made once for each cause. */
static const struct export_name *gap_name_of(struct exporter *e, unsigned cause)
{
	char buf[64];
	struct outbuf *o;

	cause = cause < GAP_N_CAUSES ? cause : 0;
	if (e->gaps[cause])
		return e->gaps[cause];
	o = outbuf_new(-1);
	if (!o)
		return NULL;
	outbuf_printf(o, "[gap: %s]", gap_name(cause));
	outbuf_put(o, "", 1);
	strncpy(buf, o->buf, sizeof(buf) - 1);
	buf[sizeof(buf) - 1] = 0;
	outbuf_free(o);
	return e->gaps[cause] = export_intern(&e->x, buf);
}

/* Fills in what covers the track. */
static int show_cover(struct exporter *e, struct export_track *track,
		      struct export_slice *s)
{
	static const char *const reasons[UNTRACED_N] = {
		[UNTRACED_KERNEL] = "kernel", [UNTRACED_FILTERED] = "filter",
	};

	s->kind = track->overlay;
	s->gap = track->overlay == EXPORT_GAP ? &track->gap : NULL;
	s->name = track->overlay == EXPORT_OFF
			  ? e->off[track->why_off]
			  : gap_name_of(e, track->gap.what);
	s->why = track->overlay == EXPORT_OFF ? reasons[track->why_off] : NULL;
	return s->name ? 0 : -AUX_E_NOMEM;
}

int exporter_settle(struct exporter *e, struct export_track *track, uint64_t ns)
{
	struct export_slice s = { .ns = ns };
	int err;

	if (!track->overlay)
		return 0;
	err = show_cover(e, track, &s);
	if (err)
		return err;
	if (track->overlay == EXPORT_GAP)
		e->n_gaps--;
	track->overlay = 0;
	track->depth--;
	return e->ops->end ? e->ops->end(e->format, track, &s) : 0;
}

int exporter_cover(struct exporter *e, struct export_track *track, uint64_t ns,
		   enum export_kind kind, const struct call_thread *t,
		   const struct aux_flow *gap)
{
	struct export_slice s = { .ns = ns, .thread = t };
	int err = exporter_settle(e, track, ns);

	if (err)
		return err;
	track->overlay = (uint8_t)kind;
	track->why_off = t ? t->why_off : UNTRACED_UNKNOWN;
	track->depth++;
	if (kind == EXPORT_GAP) {
		track->gap = *gap;
		e->n_gaps++;
	}
	err = show_cover(e, track, &s);
	if (err)
		return err;
	return e->ops->begin ? e->ops->begin(e->format, track, &s) : 0;
}

void exporter_free_tracks(struct exporter *e)
{
	while (e->x.tracks) {
		struct export_track *t = e->x.tracks;

		e->x.tracks = t->next;
		free(t->open);
		free(t);
	}
	while (e->threads) {
		struct export_thread *th = e->threads;

		e->threads = th->next;
		free(th->tracks);
		free(th);
	}
	free(e->streams);
}

/* ---- numbers for names and for keys; see export.h ---- */

uint32_t *export_ids_at(struct export_ids *ids, uint32_t id)
{
	size_t n = ids->n ? ids->n : 256;
	uint32_t *v;

	while (n <= id)
		n *= 2;
	if (n > ids->n) {
		v = reallocarray(ids->v, n, sizeof(*v));
		if (!v)
			return NULL;
		memset(v + ids->n, 0, (n - ids->n) * sizeof(*v));
		ids->v = v;
		ids->n = n;
	}
	return &ids->v[id];
}

static bool same_key(const uint64_t *a, const uint64_t *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

/* The slot of a key, or the free one where it belongs. */
static uint32_t *map_slot(const struct export_map *m, const uint64_t *key)
{
	uint64_t h = key[0] * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t i;

	h = (h ^ h >> 32 ^ key[1]) * UINT64_C(0xc2b2ae3d27d4eb4f);
	h = (h ^ h >> 29 ^ key[2]) * UINT64_C(0x9e3779b97f4a7c15);
	i = (uint32_t)(h >> 32) & (m->n_slots - 1);
	while (m->slots[i] && !same_key(m->keys[m->slots[i] - 1], key))
		i = (i + 1) & (m->n_slots - 1);
	return &m->slots[i];
}

/* Keys are in the order in which they came, so numbers stay. */
static int grow_map(struct export_map *m)
{
	uint32_t max = m->max ? 2 * m->max : 1024;
	uint64_t(*keys)[3] = reallocarray(m->keys, max, sizeof(*keys));
	uint32_t *slots;

	if (!keys)
		return -AUX_E_NOMEM;
	m->keys = keys;
	slots = calloc((size_t)max * 2, sizeof(*slots));
	if (!slots || max >= UINT32_MAX / 4) {
		free(slots);
		return -AUX_E_NOMEM;
	}
	free(m->slots);
	m->slots = slots;
	m->n_slots = 2 * max;
	m->max = max;
	for (uint32_t i = 0; i < m->n; i++)
		*map_slot(m, m->keys[i]) = i + 1;
	return 0;
}

int64_t export_map_find(struct export_map *m, uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t key[3] = { a, b, c };
	uint32_t *slot;

	if (m->n == m->max && grow_map(m))
		return -AUX_E_NOMEM;
	slot = map_slot(m, key);
	if (!*slot) {
		memcpy(m->keys[m->n], key, sizeof(key));
		*slot = ++m->n;
	}
	return *slot - 1;
}

void export_map_fini(struct export_map *m)
{
	free(m->keys);
	free(m->slots);
}
