/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_export: calls, gaps and payloads for the formats of other tools; see
 * export.h. This file stands between the calls engine and a format: it makes
 * slices of frames, of gaps and of trace that is off, in pairs and in order.
 *
 * What covers the frames (EXPORT_OFF, EXPORT_GAP) is a slice on top of them, at
 * most one per track: it ends before anything else of the track begins or ends.
 * A gap ends when something runs again in its stream, even if no call begins
 * there (end_gaps). Time off the CPU (EXPORT_AWAY) is a slice on top of either,
 * made at once when its end is known.
 *
 * track.c has names and tracks; a format is one file and one line of formats[].
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"
#include "common/options.h"
#include "decode/callstack/calltree.h"
#include "decode/export/impl.h"
#include "decode/sink/sink.h"
#include "decode/lib/code/code.h"
#include "decode/lib/session/session.h"
#include "decode/lib/trace/event.h"
#include "decode/sink/columns.h"

/*
 * ---- payloads and events ----
 *
 * What programs put into the trace (ptwrite, STM, ITM), and what the CPU tells
 * of itself: instants, and by a schema counters and spans. A span whose end is
 * not in the trace ends with it; an end without a begin is an instant. Spans of
 * one process may overlap, so each gets a lane in which no other is open.
 */

#define MAX_OPEN 1024 /* spans; of more the oldest are given up as lost */

/* What schema_find asks through: the symbol at the place of a ptwrite. */
struct asker {
	struct exporter *e;
	const struct space *space;
	struct symbol sym;
};

/* A schema_symbol_fn. The name lives in a->sym, as long as a does. */
static bool find_place(void *priv, uint64_t ip, const char **name,
		       uint64_t *offset)
{
	struct asker *a = priv;

	find_symbol(a->e->x.env.host, a->space, ip, &a->sym);
	*name = a->sym.name;
	*offset = ip - a->sym.start;
	return a->sym.name;
}

/* The schema's fields with their bits of the value. */
static uint32_t fill_fields(struct export_field *to,
			    const struct schema_rule *r, uint64_t value)
{
	for (uint32_t i = 0; i < r->n_fields; i++)
		to[i] = (struct export_field){
			.name = r->fields[i].name,
			.value = schema_value(&r->fields[i], value),
			.is_signed = r->fields[i].is_signed,
		};
	return r->n_fields;
}

/* As flow: 1 when the limit is reached. */
static int show_instant(struct exporter *e, struct export_track *track,
			struct export_instant *i)
{
	int err = 0;

	if (!i->name)
		return -AUX_E_NOMEM;
	if (e->ops->instant)
		err = e->ops->instant(e->format, track, i);
	return err ? err : exporter_count(e);
}

/* The field "value", or all of the value. */
static int show_counter(struct exporter *e, struct export_track *track,
			uint64_t ns, const struct schema_rule *r,
			uint64_t value)
{
	const struct schema_field *f = schema_field(r, "value");
	struct export_counter c = {
		.ns = ns,
		.name = export_intern(&e->x, r->name),
		.category = "payload",
		.value = (int64_t)(f ? schema_value(f, value) : value),
	};
	int err = 0;

	if (!c.name)
		return -AUX_E_NOMEM;
	if (e->ops->counter)
		err = e->ops->counter(e->format, track, &c);
	return err ? err : exporter_count(e);
}

/* The lowest lane of the process and the name that is free. */
static uint32_t find_lane(const struct exporter *e,
			  const struct export_track *track,
			  const struct export_name *name)
{
	uint32_t lane = 0;

	for (size_t i = 0; i < e->n_spans; i++) {
		const struct open_span *o = &e->spans[i];

		if (o->span.name == name && o->track->pid == track->pid &&
		    o->span.lane == lane) {
			lane++;
			i = (size_t)-1; /* from the start: order is by begin */
		}
	}
	return lane;
}

/* Span i ends. Its time never goes back: it may end on another track than it
 * began on. */
static int drop_span(struct exporter *e, size_t i, uint64_t ns, bool lost)
{
	struct open_span o = e->spans[i];

	memmove(&e->spans[i], &e->spans[i + 1],
		(--e->n_spans - i) * sizeof(*e->spans));
	o.span.begin = false;
	o.span.lost = lost;
	o.span.ns = ns > o.span.ns ? ns : o.span.ns;
	return e->ops->span ? e->ops->span(e->format, o.track, &o.span) : 0;
}

/* When MAX_OPEN are open the oldest is given up as lost: a program that never
 * ends its spans must not cost memory without end. */
static int begin_span(struct exporter *e, struct export_track *track,
		      uint64_t ns, const struct schema_rule *r, uint64_t value)
{
	const struct schema_field *id = schema_field(r, "id");
	struct open_span *o;
	int err = e->n_spans < MAX_OPEN ? 0 : drop_span(e, 0, ns, true);

	if (err)
		return err;
	if (array_grow(&e->spans, e->n_spans, &e->max_spans, sizeof(*o)))
		return -AUX_E_NOMEM;
	o = &e->spans[e->n_spans];
	*o = (struct open_span){
		.span = { .ns = ns, .begin = true,
			  .name = export_intern(&e->x, r->name) },
		.track = track,
		.id = id ? schema_value(id, value) : 0,
		.has_id = id,
	};
	if (!o->span.name)
		return -AUX_E_NOMEM;
	o->span.n_fields = fill_fields(o->span.fields, r, value);
	o->span.lane = find_lane(e, track, o->span.name);
	o->span.serial = ++e->serial;
	e->n_spans++;
	if (e->ops->span)
		err = e->ops->span(e->format, track, &o->span);
	return err ? err : exporter_count(e);
}

/* With an id, the span of that id in the process; without one, of that name in
 * the thread. */
static bool ends_span(const struct open_span *o, const struct export_track *t,
		      const struct export_name *name,
		      const struct schema_field *id, uint64_t value)
{
	if (o->span.name != name || o->has_id != !!id ||
	    o->track->pid != t->pid)
		return false;
	return id ? o->id == schema_value(id, value)
		  : o->track->thread == t->thread;
}

/* Ends the last span that fits. *found false: there is none, and the event is
 * shown as an instant. */
static int end_span(struct exporter *e, struct export_track *track, uint64_t ns,
		    const struct schema_rule *r, uint64_t value, bool *found)
{
	const struct export_name *name = export_intern(&e->x, r->name);
	const struct schema_field *id = schema_field(r, "id");

	*found = true;
	if (!name)
		return -AUX_E_NOMEM;
	for (size_t i = e->n_spans; i-- > 0;)
		if (ends_span(&e->spans[i], track, name, id, value))
			return drop_span(e, i, ns, false);
	*found = false;
	return 0;
}

/* What is open at the end of the trace is lost. */
static int exporter_end_spans(struct exporter *e)
{
	int err = 0;

	while (e->n_spans && !err)
		err = drop_span(e, e->n_spans - 1, e->x.last_ns, true);
	return err;
}

/* By the first rule of the schema that fits; without one, an instant of its
 * kind. */
static int put_payload(struct exporter *e, struct export_track *track,
		       uint64_t ns, struct call_thread *t,
		       const struct aux_flow *ev)
{
	static const char *const names[] = { "ptwrite", "stm", "itm",
					     "marker", "ite" };
	struct asker a = { .e = e, .space = t->ctx ? t->ctx->space : NULL };
	const char *kind = ev->what < 5 ? names[ev->what] : "payload";
	const struct schema_rule *r = schema_find(e->schema, ev, find_place, &a);
	struct export_instant i = {
		.ns = ns,
		.category = kind,
		.value = ev->payload.value,
		.ip = ev->payload.ip,
		.has_ip = (ev->what != AUX_PAYLOAD_PTWRITE &&
			   ev->what != AUX_PAYLOAD_ITE) ||
			  ev->flags & AUX_FLOW_HAS_IP,
	};
	bool found;
	int err;

	if (r && r->what == SCHEMA_COUNTER)
		return show_counter(e, track, ns, r, i.value);
	if (r && r->what == SCHEMA_BEGIN)
		return begin_span(e, track, ns, r, i.value);
	if (r && r->what == SCHEMA_END) {
		err = end_span(e, track, ns, r, i.value, &found);
		if (err || found)
			return err;
	}
	i.name = export_intern(&e->x, r ? r->name : kind);
	if (r)
		i.n_fields = fill_fields(i.fields, r, i.value);
	return show_instant(e, track, &i);
}

/* Events that are no calls. What a format has no use for is left out by its
 * ops. */
static int exporter_event(struct exporter *e, struct export_track *track,
			  uint64_t ns, struct call_thread *t,
			  const struct aux_flow *ev)
{
	static const char *const power[] = { "power", "mwait", "power-entry",
					     "power-exit", "stopped",
					     "frequency" };
	static const char *const tx[] = { "tx-begin", "tx-commit", "tx-abort" };
	struct export_instant i = { .ns = ns };
	char number[EVENT_NAME], name[2 * EVENT_NAME];

	switch (ev->kind) {
	case AUX_FLOW_PAYLOAD:
		return put_payload(e, track, ns, t, ev);
	case AUX_FLOW_POWER:
		i.category = "power";
		i.name = export_intern(&e->x, power[ev->what < 6 ? ev->what
								 : 0]);
		i.value = ev->payload.value;
		break;
	case AUX_FLOW_TX:
		i.category = "tx";
		i.name = export_intern(&e->x, tx[ev->what < 3 ? ev->what : 2]);
		break;
	case AUX_FLOW_EVENT:
		i.category = event_source(ev);
		snprintf(name, sizeof(name), "%s-%s", i.category,
			 event_name(ev, number));
		i.name = export_intern(&e->x, ev->n ? name : i.category);
		i.value = ev->payload.value;
		i.ip = ev->payload.ip;
		i.has_ip = ev->flags & AUX_FLOW_HAS_IP;
		break;
	default:
		return 0;
	}
	return show_instant(e, track, &i);
}

static const struct export_ops *const formats[] = {
	&export_perfetto,   &export_chrome, &export_fxt,      &export_firefox,
	&export_speedscope, &export_pprof,  &export_callgrind,
#ifdef HAVE_SQLITE
	&export_sqlite,
#endif
	&export_parquet,    &export_postgres, &export_jsonl, &export_tenet,
};

const struct export_ops *export_format(size_t i)
{
	return i < sizeof(formats) / sizeof(formats[0]) ? formats[i] : NULL;
}

/* The message is text and more. -AUX_E_INVAL. */
static int refuse(struct aux_diag *diag, const char *text, const char *more)
{
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "%s%s", text, more);
}

/* table */
static const struct habit other_formats[] = {
	{ "csv tsv excel", "`auxdecode export --to sqlite -o OUT FILE` makes tables, of which "
			   "sqlite3 -csv prints any; --to parquet is for pandas and DuckDB" },
	{ "ctf lttng babeltrace", "Trace Compass and ui.perfetto.dev open what `auxdecode export "
				  "--to chrome -o OUT FILE` writes" },
	{ "json", "`auxdecode export --to jsonl FILE` prints one object for each event, "
		  "--to chrome is one for a viewer" },
	{ "flamegraph folded", "`auxdecode flame FILE` prints stacks, --svg draws them" },
	{ "perf perf.data", "`auxdecode profile --to perf -o OUT FILE` makes samples with "
			    "branch stacks" },
	{ "html", "`auxdecode report -o OUT FILE` makes a page" },
	{ NULL, NULL },
};

/* -AUX_E_INVAL with the list; sqlite may be known, but not in this build. */
static int find_format(const struct export_ops **ops, const char *name,
		       struct aux_diag *diag)
{
	const char *list = "--to FORMAT is one of perfetto, chrome, fxt, "
			   "firefox, speedscope, pprof, callgrind, sqlite, "
			   "parquet, postgres, jsonl, tenet";
	const char *other;

	for (size_t i = 0; name && (*ops = export_format(i)); i++)
		if (!strcmp((*ops)->name, name))
			return 0;
	if (!name)
		return refuse(diag, list, "");
	if (!strcmp(name, "sqlite"))
		return refuse(diag, "this build has no sqlite: libsqlite3-dev "
			      "was missing when it was made", "");
	other = habit_find(other_formats, name);
	if (other)
		return refuse(diag, "--to: ", other);
	return refuse(diag, list, "; there is none of that name");
}

/* Refused before anything is decoded. */
static int check_output(const struct exporter *e, struct aux_diag *diag)
{
	const struct sink_env *env = &e->x.env;

	if (e->ops->flags & EXPORT_NEEDS_DIR && !env->out_path)
		return refuse(diag, e->ops->name, " writes a file for each table: "
			      "give the name of their directory with -o DIR");
	if (e->ops->flags & EXPORT_OWN_FILE && !env->out_path)
		return refuse(diag, e->ops->name, " writes a file: give its "
			      "name with -o FILE");
	if (e->ops->flags & EXPORT_BINARY && !env->out_path &&
	    env->out->fd >= 0 && isatty(env->out->fd))
		return refuse(diag, e->ops->name, " is binary and does not go "
			      "onto a terminal: give -o FILE");
	return 0;
}

/* ---- what the call stack reports ---- */

/* --symbol: the function and all inside of it. Counts how deep inside the track
 * is. */
static bool is_shown(struct exporter *e, struct export_track *track,
		     const struct call_func *func)
{
	if (!e->x.env.symbol)
		return true;
	if (track->inside || func->wanted)
		track->inside++;
	else
		e->x.env.report->n_filtered++;
	return track->inside;
}

/* Ends what covers the frames, and begins the slice. */
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
	if (!is_shown(e, track, f->func))
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

/* A frame that --symbol did not show has no slice to end. */
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
	if ((e->x.env.symbol && !track->inside) || !track->n_open)
		return 0;
	track->inside -= e->x.env.symbol != NULL;
	s.name = f->func->user;
	s.guessed = flags & CALL_GUESSED;
	exporter_pop(track, t, &s);
	track->depth--;
	return e->ops->end ? e->ops->end(e->format, track, &s) : 0;
}

/* The thread goes on in another of its stacks: what covers either of them
 * ends. */
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

static int meet_gap(void *priv, struct call_thread *t,
		    const struct aux_flow *ev)
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
	if (e->x.env.symbol && !track->inside)
		return 0;
	return exporter_cover(e, track, ns, EXPORT_OFF, t, NULL);
}

/* Where events have no times there is nothing between them. */
static int meet_away(void *priv, struct call_thread *t,
		     const struct off_span *span)
{
	static const char *const reasons[] = {
		[OFF_UNKNOWN] = NULL, [OFF_BLOCKED] = "blocked",
		[OFF_PREEMPTED] = "preempted",
	};
	struct exporter *e = priv;
	struct export_slice s = { .kind = EXPORT_AWAY, .name = e->away,
				  .why = reasons[span->why] };
	int err;
	struct export_track *track = exporter_track(e, t, &err);

	if (!track)
		return err;
	if (!e->x.timed || (e->x.env.symbol && !track->inside))
		return 0;
	s.ns = span->from > track->last_ns ? span->from : track->last_ns;
	track->depth++;
	err = e->ops->begin ? e->ops->begin(e->format, track, &s) : 0;
	track->depth--;
	s.ns = exporter_stamp(e, track, t);
	return err || !e->ops->end ? err : e->ops->end(e->format, track, &s);
}

static int meet_ran(void *priv, struct call_thread *t, uint32_t cpu,
		    uint64_t from, uint64_t to)
{
	struct exporter *e = priv;
	int err;
	struct export_track *track = exporter_track(e, t, &err);

	if (!track)
		return err;
	if (!e->ops->ran || e->x.env.symbol)
		return 0;
	return e->ops->ran(e->format, track->thread, cpu, from, to);
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
	.away = meet_away,
	.ran = meet_ran,
	.off = switch_trace,
	.event = meet_event,
};

/* ---- the sink ---- */

/* The format first: it may look at the tracks. */
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

/* On failure close_export frees what was made. */
static int start_parts(struct exporter *e, struct aux_diag *diag)
{
	const struct export_config *c = &e->x.config;
	int err = 0;

	for (unsigned i = 0; i < UNTRACED_N && !err; i++) {
		e->off[i] = export_intern(&e->x, calltree_other(calltree_untraced(i)));
		err = e->off[i] ? 0 : -AUX_E_NOMEM;
	}
	e->away = export_intern(&e->x, calltree_other(CALLTREE_OFF_CPU));
	if (err)
		return err;
	if (c->schema)
		err = schema_load(&e->schema, c->schema, diag);
	if (!err)
		err = e->ops->open(&e->format, &e->x, diag);
	if (!err)
		err = calls_new(&e->calls, e->x.env.host, e->ops->calls_flags,
				e->ops->raw ? e->ops->raw : &from_calls,
				e->ops->raw ? e->format : e);
	e->x.calls = e->calls;
	return err;
}

static int open_export(void **sink, const struct sink_env *env,
		       const void *options, struct aux_diag *diag)
{
	const struct export_config *config = options;
	struct exporter *e = calloc(1, sizeof(*e));
	int err;

	*sink = NULL;
	if (!e)
		return -AUX_E_NOMEM;
	e->x.env = *env;
	e->x.config = *config;
	e->x.out = env->out;
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

/* A gap of no thread lies on a track of its stream, from and to that moment. */
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

/* What is to happen before calls gets the events. A gap is the last of its
 * batch. */
static int look_at(struct exporter *e, const struct flow_ctx *ctx,
		   const struct aux_flow *ev, size_t n)
{
	bool runs = false;
	int err = 0;

	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind != AUX_FLOW_RANGE && ev[i].kind != AUX_FLOW_PATH)
			continue;
		e->x.env.report->n_insns += ev[i].n;
		runs = true;
	}
	if (runs && e->n_gaps)
		err = end_gaps(e, ctx);
	if (!err && n && ev[n - 1].kind == AUX_FLOW_GAP &&
	    (int32_t)ctx->tid < 0 && !e->ops->raw)
		err = show_lone_gap(e, ctx, &ev[n - 1]);
	return err;
}

/* Output fails in many places, and errno says why. */
static int say_why(const struct exporter *e, int err)
{
	struct sink_report *report = e->x.env.report;
	const char *path = e->x.env.out_path;

	if (err == -AUX_E_IO && !report->error[0])
		snprintf(report->error, sizeof(report->error),
			 "%.300s (or a file in $TMPDIR, else /tmp) cannot be written: %s",
			 path ? path : "the output", strerror(errno));
	return err;
}

/* The first and last time are updated before anything is shown, since headers
 * have them. */
static int flow_export(void *sink, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n)
{
	struct exporter *e = sink;
	int err;

	if (!e->x.session)
		e->x.session = ctx->session;
	if (ctx->time_ns && (!e->x.timed || ctx->time_ns < e->x.first_ns))
		e->x.first_ns = ctx->time_ns;
	if (ctx->time_ns > e->x.last_ns || (ctx->time_ns && !e->x.timed))
		e->x.last_ns = ctx->time_ns;
	e->x.timed |= ctx->time_ns != 0;
	err = look_at(e, ctx, ev, n);
	if (!err && e->ops->flow)
		err = e->ops->flow(e->format, ctx, ev, n);
	if (!err)
		err = calls_flow(e->calls, ctx, ev, n);
	if (!err && outbuf_failed(e->x.out))
		err = -AUX_E_IO;
	return say_why(e, err);
}

/* Names as they were last: a program may set its name late. */
static void name_tracks(struct exporter *e)
{
	const struct sink_host *host = e->x.env.host;

	for (struct export_track *t = e->x.tracks; t && host->comm;
	     t = t->next) {
		const char *comm = (int32_t)t->tid < 0 ? NULL :
			host->comm(host->priv, t->tid, e->x.timed ? t->last_ns
							: UINT64_MAX);

		if (comm && *comm)
			t->comm = export_intern(&e->x, comm);
	}
}

/* Frames first, then what covers them, then spans; then the format writes what
 * it kept. */
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
	if (err >= 0 && outbuf_failed(e->x.out))
		err = -AUX_E_IO;
	if (err >= 0 && e->ops->finish)
		err = e->ops->finish(e->format, diag);
	return err < 0 ? say_why(e, err) : 0;
}

static bool makes_file(const void *options)
{
	const struct export_config *config = options;
	const struct export_ops *ops;

	return !find_format(&ops, config->to, NULL) &&
	       ops->flags & (EXPORT_OWN_FILE | EXPORT_OWN_DIR);
}

/* table */
static const struct option_row export_options[] = {
	{ .name = "to", .arg = "FORMAT",
	  .values = "perfetto chrome fxt firefox speedscope pprof callgrind sqlite parquet postgres "
		    "jsonl tenet",
	  .help = "perfetto, chrome, fxt, firefox, speedscope, pprof,\n"
		  "callgrind, sqlite, parquet, postgres, jsonl, tenet",
	  OPTION_TEXT(struct export_config, to) },
	{ .name = "schema", .arg = "FILE",
	  .help = "what payloads (ptwrite, STM, ITM) mean: fields, counters, spans",
	  OPTION_TEXT(struct export_config, schema) },
	SINK_BY(struct export_config, "time insns",
		"--to firefox, speedscope: time (the default) or insns"),
	SINK_LIMIT(struct export_config, "stop after N events"),
	{ .name = NULL },
};

const struct sink_ops sink_export = {
	.name = "export",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_OWN_FORMAT,
	.options = export_options,
	.makes_file = makes_file,
	.config_size = sizeof(struct export_config),
	.open = open_export,
	.flow = flow_export,
	.finish = finish_export,
	.close = close_export,
};
