/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_chrome: the JSON that chrome://tracing, Perfetto and others read:
 * events B and E of slices, i of instants, C of counters, b and e of spans, one
 * a line.
 *
 * Times are microseconds with all their nanoseconds. A viewer that reads
 * numbers as doubles loses some above 2^53 ns (104 days of uptime): then
 * base_ns of otherData was taken off each.
 *
 * Specification: Trace Event Format (Google), JSON Object Format.
 */
#include <stdlib.h>

#include "decode/sink/columns.h"
#include "decode/export/export.h"

#define DOUBLE_NS (UINT64_C(1) << 53)

struct chrome {
	struct export *x;
	struct outbuf *out;
	uint64_t base_ns;
	bool started;
};

static void put_u64(struct outbuf *out, uint64_t v)
{
	char buf[20];

	outbuf_put(out, buf, (size_t)(fmt_dec(buf, v) - buf));
}

/* As a string: JSON has no hexadecimal numbers. */
static void put_hex(struct outbuf *out, uint64_t v)
{
	char buf[24], *p = buf;

	*p++ = '"';
	*p++ = '0';
	*p++ = 'x';
	p = fmt_hex(p, v);
	*p++ = '"';
	outbuf_put(out, buf, (size_t)(p - buf));
}

/* Already valid UTF-8: only escaped. */
static void put_name(struct outbuf *out, const struct export_name *n)
{
	outbuf_put(out, "\"", 1);
	export_json_text(out, n->text, n->len);
	outbuf_put(out, "\"", 1);
}

/* The beginning of the file, or the comma between events. base_ns is chosen at
 * the first event, when its time is known. */
static void put_start(struct chrome *c, uint64_t ns)
{
	struct outbuf *out = c->out;

	if (c->started) {
		outbuf_put(out, ",\n", 2);
		return;
	}
	c->started = true;
	if (ns >= DOUBLE_NS / 2)
		c->base_ns = ns;
	outbuf_str(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{"
			"\"producer\":\"auxdecode\",\"clock\":\"");
	outbuf_str(out, export_clock(c->x));
	outbuf_str(out, "\",\"base_ns\":\"");
	put_u64(out, c->base_ns);
	outbuf_str(out, "\"},\"traceEvents\":[\n");
}

/* {"ph":"B","pid":1,"tid":2,"ts":3.456; the caller goes on and closes it. */
static void put_head(struct chrome *c, const struct export_track *t, char ph,
		     uint64_t ns)
{
	struct outbuf *out = c->out;

	put_start(c, ns);
	outbuf_str(out, "{\"ph\":\"");
	outbuf_put(out, &ph, 1);
	outbuf_str(out, "\",\"pid\":");
	put_u64(out, export_pid(t));
	outbuf_str(out, ",\"tid\":");
	put_u64(out, export_tid(t));
	outbuf_str(out, ",\"ts\":");
	export_put_us(out, ns > c->base_ns ? ns - c->base_ns : 0);
}

/* before comes with its comma, quotes and colon. */
static void put_text(struct outbuf *out, const char *before, const char *text)
{
	outbuf_str(out, before);
	export_json_string(out, text);
}

/* An event of metadata: the name of a thread or process. */
static void put_label(struct chrome *c, const struct export_track *t,
		      const char *what, const char *name)
{
	put_head(c, t, 'M', c->x->first_ns);
	put_text(c->out, ",\"name\":", what);
	put_text(c->out, ",\"args\":{\"name\":", name);
	outbuf_str(c->out, "}}");
}

/* The process is named after its main thread. */
static void label_track(struct chrome *c, const struct export_track *t)
{
	char name[128];

	export_track_name(t, name, sizeof(name));
	put_label(c, t, "thread_name", name);
	if (t->pid != t->tid && export_pid(t))
		return;
	put_label(c, t, "process_name",
		  !export_pid(t) ? "[unknown]" : t->comm ? t->comm->text : "?");
}

/* Why flow is missing, as args. */
static void put_gap(struct chrome *c, const struct aux_flow *ev)
{
	put_text(c->out, "\"cause\":", gap_name(ev->what));
	put_text(c->out, ",\"text\":", export_gap_text(c->x, ev->what));
	outbuf_str(c->out, ",\"offset\":");
	put_u64(c->out, ev->offset);
}

/* What a call is, as args of its begin. */
static void put_frame(struct chrome *c, const struct export_slice *s)
{
	const struct call_frame *f = s->frame;

	outbuf_str(c->out, "\"addr\":");
	put_hex(c->out, f->to);
	if (f->from) {
		outbuf_str(c->out, ",\"from\":");
		put_hex(c->out, f->from);
	}
	if (f->func->dso)
		put_text(c->out, ",\"dso\":", f->func->dso);
	if (f->kind != CALL_CALL)
		put_text(c->out, ",\"kind\":", export_kind_name(f));
	if (s->guessed)
		outbuf_str(c->out, ",\"guessed\":true");
}

/* table */
static const char *const categories[] = {
	[EXPORT_FRAME] = "call", [EXPORT_OFF] = "off", [EXPORT_GAP] = "gap",
	[EXPORT_AWAY] = "off-cpu",
};

/* A gap is an instant, too: to be seen when it is too short for a slice. */
static int begin_chrome(void *format, struct export_track *t,
			const struct export_slice *s)
{
	struct chrome *c = format;

	if (s->kind == EXPORT_GAP) { /* to be seen when it is short, too */
		put_head(c, t, 'i', s->ns);
		outbuf_str(c->out, ",\"s\":\"t\",\"cat\":\"gap\",\"name\":");
		put_name(c->out, s->name);
		outbuf_str(c->out, ",\"args\":{");
		put_gap(c, s->gap);
		outbuf_str(c->out, "}}");
	}
	put_head(c, t, 'B', s->ns);
	outbuf_str(c->out, ",\"cat\":\"");
	outbuf_str(c->out, categories[s->kind]);
	outbuf_str(c->out, "\",\"name\":");
	put_name(c->out, s->name);
	if (s->kind != EXPORT_OFF || s->why) {
		outbuf_str(c->out, ",\"args\":{");
		if (s->why)
			put_text(c->out, "\"why\":", s->why);
		else if (s->kind == EXPORT_GAP)
			put_gap(c, s->gap);
		else if (s->kind == EXPORT_FRAME)
			put_frame(c, s);
		outbuf_put(c->out, "}", 1);
	}
	outbuf_put(c->out, "}", 1);
	return 0;
}

/* What a call took is known at its end only: viewers join the args of both. */
static int end_chrome(void *format, struct export_track *t,
		      const struct export_slice *s)
{
	struct chrome *c = format;

	put_head(c, t, 'E', s->ns);
	if (s->kind == EXPORT_FRAME) {
		outbuf_str(c->out, ",\"args\":{\"insns\":");
		put_u64(c->out, s->total.insns);
		outbuf_str(c->out, ",\"self_insns\":");
		put_u64(c->out, s->self.insns);
		if (s->total.cycles) {
			outbuf_str(c->out, ",\"cycles\":");
			put_u64(c->out, s->total.cycles);
		}
		if (s->how != CALL_END_RET)
			put_text(c->out, ",\"end\":", export_end_name(s->how));
		if (export_is_cut(s->how))
			outbuf_str(c->out, ",\"lost\":true");
		if (s->guessed)
			outbuf_str(c->out, ",\"guessed\":true");
		outbuf_put(c->out, "}", 1);
	}
	outbuf_put(c->out, "}", 1);
	return 0;
}

/* Fields of the schema, as members. */
static void put_fields(struct chrome *c, const struct export_field *f,
		       uint32_t n)
{
	char buf[24];

	for (uint32_t i = 0; i < n; i++) {
		if (i)
			outbuf_put(c->out, ",", 1);
		export_json_string(c->out, f[i].name);
		outbuf_put(c->out, ":", 1);
		if (f[i].is_signed)
			outbuf_put(c->out, buf,
				   (size_t)(fmt_sdec(buf, (int64_t)f[i].value) -
					    buf));
		else
			put_u64(c->out, f[i].value);
	}
}

/* "s":"t": of its thread. */
static int instant_chrome(void *format, struct export_track *t,
			  const struct export_instant *i)
{
	struct chrome *c = format;

	put_head(c, t, 'i', i->ns);
	put_text(c->out, ",\"s\":\"t\",\"cat\":", i->category);
	outbuf_str(c->out, ",\"name\":");
	put_name(c->out, i->name);
	outbuf_str(c->out, ",\"args\":{\"value\":");
	put_hex(c->out, i->value);
	if (i->has_ip) {
		outbuf_str(c->out, ",\"ip\":");
		put_hex(c->out, i->ip);
	}
	if (i->n_fields)
		outbuf_put(c->out, ",", 1);
	put_fields(c, i->fields, i->n_fields);
	outbuf_str(c->out, "}}");
	return 0;
}

/* Viewers draw counters of one name and process as one curve. */
static int counter_chrome(void *format, struct export_track *t,
			  const struct export_counter *k)
{
	struct chrome *c = format;
	char buf[24];

	put_head(c, t, 'C', k->ns);
	outbuf_str(c->out, ",\"name\":");
	put_name(c->out, k->name);
	outbuf_str(c->out, ",\"args\":{\"value\":");
	outbuf_put(c->out, buf, (size_t)(fmt_sdec(buf, k->value) - buf));
	outbuf_str(c->out, "}}");
	return 0;
}

/* Async events: those may overlap; the serial number is their id. */
static int span_chrome(void *format, struct export_track *t,
		       const struct export_span *s)
{
	struct chrome *c = format;

	put_head(c, t, s->begin ? 'b' : 'e', s->ns);
	outbuf_str(c->out, ",\"cat\":\"span\",\"id\":");
	put_hex(c->out, s->serial);
	outbuf_str(c->out, ",\"name\":");
	put_name(c->out, s->name);
	outbuf_str(c->out, ",\"args\":{");
	if (s->begin)
		put_fields(c, s->fields, s->n_fields);
	else if (s->lost)
		outbuf_str(c->out, "\"lost\":true");
	outbuf_str(c->out, "}}");
	return 0;
}

/* Names were known late: labels come last, which the format allows. */
static int finish_chrome(void *format, struct aux_diag *diag)
{
	struct chrome *c = format;

	(void)diag;
	for (const struct export_track *t = c->x->tracks; t; t = t->next)
		label_track(c, t);
	if (!c->started)
		outbuf_str(c->out, "{\"traceEvents\":[\n");
	outbuf_str(c->out, "\n]}\n");
	return 0;
}

/* Nothing is written yet: the header needs the first time. */
static int open_chrome(void **format, struct export *x, struct aux_diag *diag)
{
	struct chrome *c = calloc(1, sizeof(*c));

	(void)diag;
	*format = c;
	if (!c)
		return -AUX_E_NOMEM;
	c->x = x;
	c->out = x->out;
	return 0;
}

const struct export_ops export_chrome = {
	.name = "chrome",
	.help = "JSON of chrome://tracing",
	.open = open_chrome,
	.begin = begin_chrome,
	.end = end_chrome,
	.instant = instant_chrome,
	.counter = counter_chrome,
	.span = span_chrome,
	.finish = finish_chrome,
	.close = free,
};
