/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_export: see export.h. Between the calls engine and a format: it makes
 * slices of frames, of gaps and of trace that is off, in pairs and in order.
 */
#include <stdlib.h>
#include <unistd.h>

#include "decode/lib/code/code.h"
#include "decode/lib/session/session.h"
#include "decode/export/impl.h"

static const struct export_ops *const formats[] = {
	&export_perfetto, &export_chrome,    &export_fxt, &export_speedscope,
	&export_pprof,	  &export_callgrind,
#ifdef HAVE_SQLITE
	&export_sqlite,
#endif
	&export_jsonl,
};

const struct export_ops *export_format(size_t i)
{
	return i < sizeof(formats) / sizeof(formats[0]) ? formats[i] : NULL;
}

static int refuse(struct aux_diag *diag, const char *text, const char *more)
{
	struct outbuf *o = outbuf_new(-1);

	if (!o)
		return -AUX_E_NOMEM;
	outbuf_str(o, text);
	outbuf_str(o, more);
	outbuf_put(o, "", 1);
	diag->code = AUX_E_INVAL;
	diag->offset = AUX_NO_OFFSET;
	strncpy(diag->text, o->buf, sizeof(diag->text) - 1);
	diag->text[sizeof(diag->text) - 1] = 0;
	outbuf_free(o);
	return -AUX_E_INVAL;
}

static int find_format(const struct export_ops **ops, const char *name,
		       struct aux_diag *diag)
{
	const char *list = "--to FORMAT is one of perfetto, chrome, fxt, "
			   "speedscope, pprof, callgrind, sqlite, jsonl";

	for (size_t i = 0; name && (*ops = export_format(i)); i++)
		if (!strcmp((*ops)->name, name))
			return 0;
	if (!name)
		return refuse(diag, list, "");
	if (!strcmp(name, "sqlite"))
		return refuse(diag, "this build has no sqlite: libsqlite3-dev "
			      "was missing when it was made", "");
	return refuse(diag, list, "; there is none of that name");
}

static int check_output(const struct exporter *e, struct aux_diag *diag)
{
	const struct sink_config *c = &e->x.config;

	if (e->ops->flags & EXPORT_OWN_FILE && !c->out_path)
		return refuse(diag, e->ops->name, " writes a file: give its "
			      "name with -o FILE");
	if (e->ops->flags & EXPORT_BINARY && c->out->fd >= 0 &&
	    isatty(c->out->fd))
		return refuse(diag, e->ops->name, " is binary and does not go "
			      "onto a terminal: give -o FILE");
	return 0;
}

/* ---- what calls tells of ---- */

static bool is_shown(struct exporter *e, struct export_track *track,
		     const struct export_name *name)
{
	if (!e->symbol)
		return true;
	if (track->inside || name == e->symbol)
		track->inside++;
	else
		e->x.config.report->n_filtered++;
	return track->inside;
}

static int enter_frame(void *priv, struct call_thread *t)
{
	struct exporter *e = priv;
	struct call_frame *f = &t->frames[t->depth - 1];
	struct export_slice s = { .thread = t, .frame = f };
	int err;
	struct export_track *track = exporter_track(e, t, &err);

	if (!track)
		return err;
	s.ns = exporter_stamp(e, track, t);
	s.name = export_func_name(&e->x, f->func);
	if (!s.name)
		return -AUX_E_NOMEM;
	if (!is_shown(e, track, s.name))
		return 0;
	s.guessed = f->flags & CALL_GUESSED;
	err = exporter_settle(e, track, s.ns);
	if (err)
		return err;
	err = exporter_push(track, t);
	if (err)
		return err;
	track->depth++;
	if (e->ops->begin)
		err = e->ops->begin(e->format, track, &s);
	return err ? err : exporter_count(e);
}

static int leave_frame(void *priv, struct call_thread *t, enum call_end how,
		       unsigned flags)
{
	struct exporter *e = priv;
	struct call_frame *f = &t->frames[t->depth - 1];
	struct export_slice s = { .thread = t, .frame = f, .how = how };
	int err;
	struct export_track *track = exporter_track(e, t, &err);

	if (!track)
		return err;
	s.ns = exporter_stamp(e, track, t);
	err = exporter_settle(e, track, s.ns);
	if (err)
		return err;
	if ((e->symbol && !track->inside) || !track->n_open)
		return 0;
	track->inside -= e->symbol != NULL;
	s.name = f->func->user;
	s.guessed = flags & CALL_GUESSED;
	exporter_pop(track, t, &s);
	track->depth--;
	return e->ops->end ? e->ops->end(e->format, track, &s) : 0;
}

static int turn_stack(void *priv, struct call_thread *t, uint32_t from)
{
	struct exporter *e = priv;
	struct export_thread *th;
	struct export_track *old, *track;
	uint64_t ns;
	int err;

	track = exporter_track(e, t, &err);
	if (!track)
		return err;
	th = t->user;
	old = from < th->n ? th->tracks[from] : NULL;
	ns = exporter_stamp(e, track, t);
	if (old && old != track) {
		if (old->last_ns < ns)
			old->last_ns = ns;
		err = exporter_settle(e, old, old->last_ns);
	} else {
		err = 0;
	}
	if (!err)
		err = exporter_settle(e, track, ns);
	if (err || !e->ops->turn || !old || old == track)
		return err;
	return e->ops->turn(e->format, track, old, ns);
}

static int meet_gap(void *priv, struct call_thread *t, const struct aux_flow *ev)
{
	struct exporter *e = priv;
	int err;
	struct export_track *track = t ? exporter_track(e, t, &err) : NULL;

	if (!t)		/* its stream is that of the flow: flow_export */
		return 0;
	if (!track)
		return err;
	return exporter_cover(e, track, exporter_stamp(e, track, t), EXPORT_GAP,
			      t, ev);
}

static int switch_trace(void *priv, struct call_thread *t, bool on)
{
	struct exporter *e = priv;
	int err;
	struct export_track *track = exporter_track(e, t, &err);
	uint64_t ns;

	if (!track)
		return err;
	ns = exporter_stamp(e, track, t);
	if (on)
		return exporter_settle(e, track, ns);
	if (e->symbol && !track->inside)
		return 0;
	return exporter_cover(e, track, ns, EXPORT_OFF, t, NULL);
}

static int meet_event(void *priv, struct call_thread *t,
		      const struct aux_flow *ev)
{
	struct exporter *e = priv;
	int err;
	struct export_track *track = exporter_track(e, t, &err);

	if (!track)
		return err;
	return exporter_event(e, track, exporter_stamp(e, track, t), t, ev);
}

static const struct calls_ops from_calls = {
	.enter = enter_frame,
	.leave = leave_frame,
	.turn = turn_stack,
	.gap = meet_gap,
	.off = switch_trace,
	.event = meet_event,
};

/* ---- the sink ---- */

static void close_export(void *sink)
{
	struct exporter *e = sink;

	if (!e)
		return;
	if (e->format)
		e->ops->close(e->format);
	calls_free(e->calls);
	exporter_free_tracks(e);
	for (size_t i = 0; i < e->n_slots; i++)
		free(e->slots[i]);
	free(e->slots);
	free(e->spans);
	schema_free(e->schema);
	free(e);
}

static int start_parts(struct exporter *e, struct aux_diag *diag)
{
	const struct sink_config *c = &e->x.config;
	int err = 0;

	e->off = export_intern(&e->x, "[not traced]");
	if (c->symbol)
		e->symbol = export_intern(&e->x, c->symbol);
	if (!e->off || (c->symbol && !e->symbol))
		return -AUX_E_NOMEM;
	if (c->schema)
		err = schema_load(&e->schema, c->schema, diag);
	if (!err)
		err = e->ops->open(&e->format, &e->x, diag);
	if (!err)
		err = calls_new(&e->calls, c->host, e->ops->calls_flags,
				e->ops->raw ? e->ops->raw : &from_calls,
				e->ops->raw ? e->format : e);
	e->x.calls = e->calls;
	return err;
}

static int open_export(void **sink, const struct sink_config *config,
		       struct aux_diag *diag)
{
	struct exporter *e = calloc(1, sizeof(*e));
	int err;

	*sink = NULL;
	if (!e)
		return -AUX_E_NOMEM;
	e->x.config = *config;
	e->x.out = config->out;
	e->last_track = &e->x.tracks;
	err = find_format(&e->ops, config->to, diag);
	if (!err)
		err = check_output(e, diag);
	if (!err)
		err = start_parts(e, diag);
	if (err) {
		close_export(e);
		return err;
	}
	*sink = e;
	return 0;
}

/* Flow goes on: gaps of the stream end before what runs then begins. */
static int end_gaps(struct exporter *e, const struct flow_ctx *ctx)
{
	int err = 0;

	for (struct export_track *t = e->x.tracks; t && !err; t = t->next) {
		if (t->overlay != EXPORT_GAP || t->stream != ctx->stream)
			continue;
		if (t->last_ns < ctx->time_ns)
			t->last_ns = ctx->time_ns;
		err = exporter_settle(e, t, t->last_ns);
	}
	return err;
}

/* Of no thread: it lies on a track of its stream, from and to that moment. */
static int show_lone_gap(struct exporter *e, const struct flow_ctx *ctx,
			 const struct aux_flow *ev)
{
	int err;
	struct export_track *t = exporter_stream(e, ctx->stream, &err);

	if (!t)
		return err;
	if (t->last_ns < ctx->time_ns)
		t->last_ns = ctx->time_ns;
	err = exporter_cover(e, t, t->last_ns, EXPORT_GAP, NULL, ev);
	return err ? err : exporter_settle(e, t, t->last_ns);
}

/* What it needs before calls gets it. */
static int look_at(struct exporter *e, const struct flow_ctx *ctx,
		   const struct aux_flow *ev, size_t n)
{
	bool runs = false;
	int err = 0;

	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind != AUX_FLOW_RANGE && ev[i].kind != AUX_FLOW_PATH)
			continue;
		e->x.config.report->n_insns += ev[i].n;
		runs = true;
	}
	if (runs && e->n_gaps)
		err = end_gaps(e, ctx);
	if (!err && n && ev[n - 1].kind == AUX_FLOW_GAP &&
	    (int32_t)ctx->tid < 0 && !e->ops->raw)
		err = show_lone_gap(e, ctx, &ev[n - 1]);
	return err;
}

static int flow_export(void *sink, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n)
{
	struct exporter *e = sink;
	const struct sink_config *c = &e->x.config;
	int err;

	if (!e->x.session)
		e->x.session = ctx->session;
	if (ctx->time_ns && (!e->x.timed || ctx->time_ns < e->x.first_ns))
		e->x.first_ns = ctx->time_ns;
	if (ctx->time_ns > e->x.last_ns || (ctx->time_ns && !e->x.timed))
		e->x.last_ns = ctx->time_ns;
	e->x.timed |= ctx->time_ns != 0;
	err = look_at(e, ctx, ev, n);
	if (!err)
		err = calls_flow(e->calls, ctx, ev, n);
	if (!err && outbuf_failed(c->out))
		err = -AUX_E_IO;
	return err;
}

/* Names as they were last. */
static void name_tracks(struct exporter *e)
{
	const struct sink_host *host = e->x.config.host;

	for (struct export_track *t = e->x.tracks; t && host->comm;
	     t = t->next) {
		const char *comm = (int32_t)t->tid < 0 ? NULL :
			host->comm(host->priv, t->tid, e->x.timed ? t->last_ns
							: UINT64_MAX);

		if (comm && *comm)
			t->comm = export_intern(&e->x, comm);
	}
}

static int finish_export(void *sink, struct aux_diag *diag)
{
	struct exporter *e = sink;
	int err;

	e->finishing = true;
	err = calls_finish(e->calls);
	for (struct export_track *t = e->x.tracks; t && err >= 0; t = t->next)
		err = exporter_settle(e, t, t->last_ns);
	if (err >= 0)
		err = exporter_end_spans(e);
	name_tracks(e);
	if (err >= 0 && e->ops->finish)
		err = e->ops->finish(e->format, diag);
	return err < 0 ? err : 0;
}

const struct sink_ops sink_export = {
	.name = "export",
	.help = "calls as files of other tools: --to perfetto, chrome, ...",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_OWN_FORMAT,
	.open = open_export,
	.flow = flow_export,
	.finish = finish_export,
	.close = close_export,
};
