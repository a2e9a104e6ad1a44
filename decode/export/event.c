/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_export: what programs put into the trace, and what the CPU tells of itself:
 * instants, and by a schema counters and spans. A span whose end is not in the
 * trace ends with it; an end without a begin is an instant.
 */
#include <stdlib.h>

#include "decode/sink/columns.h"
#include "decode/lib/code/code.h"
#include "decode/export/impl.h"

#define MAX_OPEN 1024 /* spans; of more the oldest are given up as lost */

struct asker {
	struct exporter *e;
	const struct space *space;
	struct symbol sym;
};

static bool find_place(void *priv, uint64_t ip, const char **name,
		       uint64_t *offset)
{
	struct asker *a = priv;

	find_symbol(a->e->x.config.host, a->space, ip, &a->sym);
	*name = a->sym.name;
	*offset = ip - a->sym.start;
	return a->sym.name;
}

static uint32_t fill_fields(struct export_field *to, const struct schema_rule *r,
			    uint64_t value)
{
	for (uint32_t i = 0; i < r->n_fields; i++)
		to[i] = (struct export_field){
			.name = r->fields[i].name,
			.value = schema_value(&r->fields[i], value),
			.is_signed = r->fields[i].is_signed,
		};
	return r->n_fields;
}

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

static int show_counter(struct exporter *e, struct export_track *track,
			uint64_t ns, const struct schema_rule *r, uint64_t value)
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

static int begin_span(struct exporter *e, struct export_track *track,
		      uint64_t ns, const struct schema_rule *r, uint64_t value)
{
	const struct schema_field *id = schema_field(r, "id");
	size_t max = e->max_spans ? 2 * e->max_spans : 16;
	struct open_span *o = e->spans;
	int err = e->n_spans < MAX_OPEN ? 0 : drop_span(e, 0, ns, true);

	if (err)
		return err;
	if (e->n_spans == e->max_spans) {
		o = reallocarray(o, max, sizeof(*o));
		if (!o)
			return -AUX_E_NOMEM;
		e->spans = o;
		e->max_spans = max;
	}
	o += e->n_spans;
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

/* The last one that began with that id in the process, without one in the
 * thread. */
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

int exporter_end_spans(struct exporter *e)
{
	int err = 0;

	while (e->n_spans && !err)
		err = drop_span(e, e->n_spans - 1, e->x.last_ns, true);
	return err;
}

static int put_payload(struct exporter *e, struct export_track *track,
		       uint64_t ns, struct call_thread *t,
		       const struct aux_flow *ev)
{
	static const char *const names[] = { "ptwrite", "stm", "itm",
					     "marker" };
	struct asker a = { .e = e, .space = t->ctx ? t->ctx->space : NULL };
	const char *kind = ev->what < 4 ? names[ev->what] : "payload";
	const struct schema_rule *r = schema_find(e->schema, ev, find_place, &a);
	struct export_instant i = {
		.ns = ns,
		.category = kind,
		.value = ev->payload.value,
		.ip = ev->payload.ip,
		.has_ip = ev->what != AUX_PAYLOAD_PTWRITE ||
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

int exporter_event(struct exporter *e, struct export_track *track, uint64_t ns,
		   struct call_thread *t, const struct aux_flow *ev)
{
	static const char *const power[] = { "power", "mwait", "power-entry",
					     "power-exit", "stopped",
					     "frequency" };
	static const char *const tx[] = { "tx-begin", "tx-commit", "tx-abort" };
	struct export_instant i = { .ns = ns };

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
		i.category = "cpu-event";
		i.name = export_intern(&e->x, "cpu-event");
		i.value = ev->payload.value;
		break;
	default:
		return 0;
	}
	return show_instant(e, track, &i);
}
