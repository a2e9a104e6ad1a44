/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_jsonl: an object a line. The first names the schema and its version:
 * what a version has stays as it is; a later one may add members and types,
 * never change them. auxdecode.1, section JSON LINES, is the reference.
 */
#include <stdlib.h>

#include "decode/sink/columns.h"
#include "decode/export/export.h"

#define VERSION 1

struct jsonl {
	struct export *x;
	struct outbuf *out;
	bool started;
};

/* The key comes with its quotes and colon, and the comma before it. */
static void put_u64(struct jsonl *j, const char *key, uint64_t v)
{
	char buf[20];

	outbuf_str(j->out, key);
	outbuf_put(j->out, buf, (size_t)(fmt_dec(buf, v) - buf));
}

/* The same, signed. */
static void put_i64(struct jsonl *j, const char *key, int64_t v)
{
	char buf[24];

	outbuf_str(j->out, key);
	outbuf_put(j->out, buf, (size_t)(fmt_sdec(buf, v) - buf));
}

/* Addresses and values are strings: JSON's numbers are doubles to many. */
static void put_hex(struct jsonl *j, const char *key, uint64_t v)
{
	char buf[24], *p = buf;

	outbuf_str(j->out, key);
	*p++ = '"';
	*p++ = '0';
	*p++ = 'x';
	p = fmt_hex(p, v);
	*p++ = '"';
	outbuf_put(j->out, buf, (size_t)(p - buf));
}

/* Anything: what is no UTF-8 is replaced, and all is escaped. */
static void put_text(struct jsonl *j, const char *key, const char *s)
{
	outbuf_str(j->out, key);
	export_json_string(j->out, s);
}

/* Already valid UTF-8: only escaped. */
static void put_name(struct jsonl *j, const char *key,
		     const struct export_name *n)
{
	outbuf_str(j->out, key);
	outbuf_put(j->out, "\"", 1);
	export_json_text(j->out, n->text, n->len);
	outbuf_put(j->out, "\"", 1);
}

/* The first line, when the clock is known. */
static void put_header(struct jsonl *j)
{
	if (j->started)
		return;
	j->started = true;
	outbuf_str(j->out, "{\"type\":\"header\",\"schema\":\"auxkit-flow\"");
	put_u64(j, ",\"version\":", VERSION);
	put_text(j, ",\"clock\":", export_clock(j->x));
	put_text(j, ",\"unit\":", j->x->timed ? "ns" : "instructions");
	outbuf_str(j->out, "}\n");
}

/* The members that all lines of a track begin with. */
static void put_head(struct jsonl *j, const struct export_track *t,
		     const char *type, uint64_t ns)
{
	put_header(j);
	outbuf_str(j->out, "{\"type\":\"");
	outbuf_str(j->out, type);
	put_u64(j, "\",\"ts\":", ns);
	put_u64(j, ",\"track\":", t->id);
}

static void put_end(struct jsonl *j)
{
	outbuf_put(j->out, "}\n", 2);
}

/* A track is described before its first event. */
static int track_jsonl(void *format, struct export_track *t)
{
	struct jsonl *j = format;

	put_header(j);
	put_u64(j, "{\"type\":\"track\",\"track\":", t->id);
	if ((int32_t)t->pid >= 0)
		put_u64(j, ",\"pid\":", t->pid);
	if ((int32_t)t->tid >= 0)
		put_u64(j, ",\"tid\":", t->tid);
	put_u64(j, ",\"stream\":", t->stream);
	if (t->stack)
		put_u64(j, ",\"stack\":", t->stack);
	if (t->comm)
		put_name(j, ",\"comm\":", t->comm);
	put_end(j);
	return 0;
}

/* What a call is; its end is a line of its own. */
static void put_call(struct jsonl *j, const struct export_slice *s)
{
	const struct call_frame *f = s->frame;

	put_name(j, ",\"name\":", s->name);
	put_u64(j, ",\"id\":", f->serial);
	put_hex(j, ",\"addr\":", f->to);
	if (f->from)
		put_hex(j, ",\"from\":", f->from);
	if (f->func->dso)
		put_text(j, ",\"dso\":", f->func->dso);
	put_text(j, ",\"kind\":", export_kind_name(f));
	if (s->guessed)
		outbuf_str(j->out, ",\"guessed\":true");
}

/* depth is that of the new frame, from 0. */
static int begin_jsonl(void *format, struct export_track *t,
		       const struct export_slice *s)
{
	static const char *const types[] = { "call", "off", "gap", "off-cpu" };
	struct jsonl *j = format;

	put_head(j, t, types[s->kind], s->ns);
	if (s->kind == EXPORT_FRAME) {
		put_u64(j, ",\"depth\":", t->depth - 1);
		put_call(j, s);
	} else if (s->kind == EXPORT_GAP) {
		put_text(j, ",\"cause\":", gap_name(s->gap->what));
		put_text(j, ",\"text\":", export_gap_text(j->x, s->gap->what));
		put_u64(j, ",\"offset\":", s->gap->offset);
		if (s->gap->flags & AUX_FLOW_HAS_IP)
			put_hex(j, ",\"ip\":", s->gap->gap.ip);
	}
	if (s->why)
		put_text(j, ",\"why\":", s->why);
	put_end(j);
	return 0;
}

static int ran_jsonl(void *format, struct export_track *t, uint32_t cpu,
		     uint64_t from, uint64_t to)
{
	struct jsonl *j = format;

	put_head(j, t, "ran", from);
	put_u64(j, ",\"cpu\":", cpu);
	put_u64(j, ",\"ns\":", to - from);
	put_end(j);
	return 0;
}

/* The id joins it with its begin. */
static int end_jsonl(void *format, struct export_track *t,
		     const struct export_slice *s)
{
	static const char *const types[] = { "return", "on", "gap-end",
					     "on-cpu" };
	struct jsonl *j = format;

	put_head(j, t, types[s->kind], s->ns);
	if (s->kind == EXPORT_FRAME) {
		put_u64(j, ",\"depth\":", t->depth);
		put_u64(j, ",\"id\":", s->frame->serial);
		put_u64(j, ",\"ns\":", s->total.ns);
		put_u64(j, ",\"insns\":", s->total.insns);
		put_u64(j, ",\"self_insns\":", s->self.insns);
		put_u64(j, ",\"self_ns\":", call_self_ns(&s->self));
		if (j->x->env.host->off_cpu) {
			put_u64(j, ",\"off_cpu_ns\":", s->self.off_ns);
			put_u64(j, ",\"blocked_ns\":", s->self.blocked_ns);
			put_u64(j, ",\"preempted_ns\":", s->self.preempted_ns);
		}
		put_u64(j, ",\"untraced_ns\":", s->self.untraced_ns);
		put_u64(j, ",\"kernel_ns\":", s->self.kernel_ns);
		put_u64(j, ",\"filtered_ns\":", s->self.filtered_ns);
		put_u64(j, ",\"lost_ns\":", s->self.lost_ns);
		put_u64(j, ",\"branches\":", s->total.branches);
		if (s->total.cycles)
			put_u64(j, ",\"cycles\":", s->total.cycles);
		put_text(j, ",\"end\":", export_end_name(s->how));
		if (s->guessed)
			outbuf_str(j->out, ",\"guessed\":true");
	}
	put_end(j);
	return 0;
}

/* The thread goes on in another of its stacks, which is a track of its own. */
static int turn_jsonl(void *format, struct export_track *t,
		      const struct export_track *from, uint64_t ns)
{
	struct jsonl *j = format;

	put_head(j, t, "turn", ns);
	put_u64(j, ",\"from_track\":", from->id);
	put_end(j);
	return 0;
}

/* Fields of the schema, by name. */
static void put_fields(struct jsonl *j, const struct export_field *f,
		       uint32_t n)
{
	outbuf_str(j->out, ",\"fields\":{");
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			outbuf_put(j->out, ",", 1);
		export_json_string(j->out, f[i].name);
		if (f[i].is_signed)
			put_i64(j, ":", (int64_t)f[i].value);
		else
			put_u64(j, ":", f[i].value);
	}
	outbuf_put(j->out, "}", 1);
}

/* value is a string, as addresses are. */
static int instant_jsonl(void *format, struct export_track *t,
			 const struct export_instant *i)
{
	struct jsonl *j = format;

	put_head(j, t, "event", i->ns);
	put_name(j, ",\"name\":", i->name);
	put_text(j, ",\"source\":", i->category);
	put_hex(j, ",\"value\":", i->value);
	if (i->has_ip)
		put_hex(j, ",\"ip\":", i->ip);
	if (i->n_fields)
		put_fields(j, i->fields, i->n_fields);
	put_end(j);
	return 0;
}

static int counter_jsonl(void *format, struct export_track *t,
			 const struct export_counter *c)
{
	struct jsonl *j = format;

	put_head(j, t, "counter", c->ns);
	put_name(j, ",\"name\":", c->name);
	put_i64(j, ",\"value\":", c->value);
	put_end(j);
	return 0;
}

/* Two lines, joined by id. */
static int span_jsonl(void *format, struct export_track *t,
		      const struct export_span *s)
{
	struct jsonl *j = format;

	put_head(j, t, s->begin ? "span" : "span-end", s->ns);
	put_name(j, ",\"name\":", s->name);
	put_u64(j, ",\"id\":", s->serial);
	if (s->begin && s->n_fields)
		put_fields(j, s->fields, s->n_fields);
	if (s->lost)
		outbuf_str(j->out, ",\"lost\":true");
	put_end(j);
	return 0;
}

/* The last line says that the file is whole. */
static int finish_jsonl(void *format, struct aux_diag *diag)
{
	struct jsonl *j = format;

	(void)diag;
	put_header(j);
	put_u64(j, "{\"type\":\"end\",\"tracks\":", j->x->n_tracks);
	put_u64(j, ",\"insns\":", j->x->env.report->n_insns);
	put_end(j);
	return 0;
}

static int open_jsonl(void **format, struct export *x, struct aux_diag *diag)
{
	struct jsonl *j = calloc(1, sizeof(*j));

	(void)diag;
	*format = j;
	if (!j)
		return -AUX_E_NOMEM;
	j->x = x;
	j->out = x->out;
	return 0;
}

const struct export_ops export_jsonl = {
	.name = "jsonl",
	.help = "an object a line, with a schema that has a version",
	.open = open_jsonl,
	.track = track_jsonl,
	.begin = begin_jsonl,
	.end = end_jsonl,
	.ran = ran_jsonl,
	.turn = turn_jsonl,
	.instant = instant_jsonl,
	.counter = counter_jsonl,
	.span = span_jsonl,
	.finish = finish_jsonl,
	.close = free,
};
