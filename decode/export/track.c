/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_export: tracks. A stack of a thread is one; so is a stream whose gaps are of
 * no known thread. Times of a track never go back; where the trace has no times at
 * all, instructions of the thread stand for them.
 */
#include <stdlib.h>

#include "decode/sink/columns.h"
#include "decode/lib/trace/gap.h"
#include "decode/export/impl.h"

static void name_track(struct exporter *e, struct export_track *t, uint64_t time)
{
	const struct sink_host *host = e->x.config.host;
	const char *comm;

	if ((int32_t)t->tid < 0 || !host->comm)
		return;
	comm = host->comm(host->priv, t->tid, time);
	if (comm && *comm)
		t->comm = export_intern(&e->x, comm);
}

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

static struct export_thread *thread_of(struct exporter *e, struct call_thread *t)
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

/* The thread is in this one of its stacks now. */
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

static int show_cover(struct exporter *e, struct export_track *track,
		      struct export_slice *s)
{
	s->kind = track->overlay;
	s->gap = track->overlay == EXPORT_GAP ? &track->gap : NULL;
	s->name = track->overlay == EXPORT_OFF
			  ? e->off : gap_name_of(e, track->gap.what);
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
