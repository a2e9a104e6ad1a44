/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_fxt: the Fuchsia trace format: records of 64-bit words, little endian.
 *
 * Strings and threads are registered in tables of 32767 and 255 entries, which
 * are used again from the start when they are full: a registration holds for
 * what follows it. A string has at most 32000 bytes; a longer name is cut at a
 * character and ends in "...", and so never makes a record too large.
 *
 * Specification: "Fuchsia trace format", fuchsia.dev.
 */
#include <stdlib.h>

#include "decode/sink/columns.h"
#include "decode/export/export.h"

#define N_STRINGS  0x7fff
#define N_THREADS  255
#define MAX_STRING 32000 /* of names that the trace has */
#define MAX_WORDS  64	 /* of an event: 15 arguments of at most 2 words */

enum record { REC_META = 0, REC_INIT, REC_STRING, REC_THREAD, REC_EVENT,
	      REC_OBJECT = 7 };
enum event { EV_INSTANT = 0, EV_COUNTER, EV_BEGIN, EV_END,
	     EV_ASYNC_BEGIN = 5, EV_ASYNC_END = 7 };
enum arg { ARG_I64 = 3, ARG_U64 = 4, ARG_STRING = 6, ARG_POINTER = 7,
	   ARG_KOID = 8, ARG_BOOL = 9 };
enum object { OBJ_PROCESS = 1, OBJ_THREAD = 2 };

/* An entry of the table of strings; key NULL: free. */
struct entry {
	const struct export_name *key;
	uint64_t event;		/* the last that uses it */
};

struct fxt {
	struct export *x;
	struct outbuf *out;
	struct entry *strings;		/* by index */
	struct export_ids index;	/* of names */
	uint32_t next_string, next_thread;
	const struct export_track *threads[N_THREADS + 1];
	/* the event that is being made */
	uint64_t words[MAX_WORDS];
	unsigned n, n_args;
	uint64_t event;
	int err;
};

/* export_track.user. */
struct track_state {
	uint32_t thread;	/* index; 0: none */
};

/* Little endian. */
static void put_word(struct fxt *f, uint64_t v)
{
	char b[8];

	for (unsigned i = 0; i < 8; i++)
		b[i] = (char)(v >> 8 * i);
	outbuf_put(f->out, b, 8);
}

/* Bytes, padded with zeros to whole words. */
static void put_stream(struct fxt *f, const char *s, size_t len)
{
	static const char zeros[8];

	outbuf_put(f->out, s, len);
	outbuf_put(f->out, zeros, -len & 7);
}

/* Registers a string at an index of the table. */
static void put_string(struct fxt *f, uint32_t index, const char *s, size_t len)
{
	char cut[MAX_STRING];
	size_t n = len;

	if (len > MAX_STRING) {
		n = export_cut(s, len, MAX_STRING - 3);
		memcpy(cut, s, n);
		memcpy(cut + n, "...", 3);
		n += 3;
		s = cut;
	}
	put_word(f, REC_STRING | (1 + (n + 7) / 8) << 4 |
			    (uint64_t)index << 16 | (uint64_t)n << 32);
	put_stream(f, s, n);
}

/* The string's reference; its record comes before the event's. An entry that
 * this event uses already must not be overwritten by its next string. */
static uint64_t use_name(struct fxt *f, const struct export_name *name)
{
	uint32_t *index = name ? export_ids_at(&f->index, name->id) : NULL;
	struct entry *e;

	if (!index) {
		f->err = -AUX_E_NOMEM;
		return 0;
	}
	if (!name->len)
		return 0;
	if (!*index) {
		do { /* the first that this event does not use */
			if (++f->next_string > N_STRINGS)
				f->next_string = 1;
			e = &f->strings[f->next_string];
		} while (e->key && e->event == f->event);
		if (e->key)
			*export_ids_at(&f->index, e->key->id) = 0;
		e->key = name;
		*index = f->next_string;
		put_string(f, f->next_string, name->text, name->len);
	}
	f->strings[*index].event = f->event;
	return *index;
}

/* The same of a text that is no name yet. */
static uint64_t use_text(struct fxt *f, const char *s)
{
	return use_name(f, export_intern(f->x, s));
}

/* The thread's index. When the table is full the oldest entry goes: its thread
 * is registered anew when it comes again. */
static uint64_t use_thread(struct fxt *f, struct export_track *t)
{
	struct track_state *st = t->user;

	if (st->thread)
		return st->thread;
	if (++f->next_thread > N_THREADS)
		f->next_thread = 1;
	st->thread = f->next_thread;
	if (f->threads[st->thread])
		((struct track_state *)f->threads[st->thread]->user)->thread = 0;
	f->threads[st->thread] = t;
	put_word(f, REC_THREAD | 3 << 4 | (uint64_t)st->thread << 16);
	put_word(f, export_pid(t));
	put_word(f, export_tid(t));
	return st->thread;
}

/* An event is made in words first: its strings are registered while it is made,
 * and their records must come before it. */
static void begin_event(struct fxt *f, struct export_track *t, enum event type,
			uint64_t ns, const char *category,
			const struct export_name *name)
{
	f->event++;
	f->n = 0;
	f->n_args = 0;
	f->words[f->n++] = REC_EVENT | (uint64_t)type << 16 |
			   use_thread(f, t) << 24 |
			   use_text(f, category) << 32 | use_name(f, name) << 48;
	f->words[f->n++] = ns;
}

/* At most 15: the count has four bits. */
static void put_arg(struct fxt *f, enum arg type, const char *name, uint64_t v)
{
	uint64_t head = type | use_text(f, name) << 16;

	if (f->n_args == 15)
		return;
	f->n_args++;
	switch (type) {
	case ARG_STRING:
	case ARG_BOOL:
		f->words[f->n++] = head | 1 << 4 | v << 32;
		break;
	default:
		f->words[f->n++] = head | 2 << 4;
		f->words[f->n++] = v;
	}
}

/* The value is a string, too, and registered before the argument is written. */
static void put_text_arg(struct fxt *f, const char *name, const char *text)
{
	uint64_t ref = use_text(f, text);

	put_arg(f, ARG_STRING, name, ref);
}

/* Now the number of words and arguments is known. Returns the first error. */
static int end_event(struct fxt *f)
{
	f->words[0] |= (uint64_t)f->n << 4 | (uint64_t)f->n_args << 20;
	for (unsigned i = 0; i < f->n; i++)
		put_word(f, f->words[i]);
	return f->err;
}

/* What a person calls a process or a thread. */
static void put_object(struct fxt *f, const struct export_track *t,
		       enum object type)
{
	char name[128];
	uint64_t ref, key, head = REC_OBJECT | (uint64_t)type << 16;

	f->event++;
	export_track_name(t, name, sizeof(name));
	if (type == OBJ_PROCESS) {
		ref = use_text(f, !export_pid(t) ? "[unknown]"
				  : t->comm ? t->comm->text : "?");
		put_word(f, head | 2 << 4 | ref << 24);
		put_word(f, export_pid(t));
		return;
	}
	ref = use_text(f, name);
	key = use_text(f, "process");
	put_word(f, head | 4 << 4 | ref << 24 | UINT64_C(1) << 40);
	put_word(f, export_tid(t));
	put_word(f, ARG_KOID | 2 << 4 | key << 16);
	put_word(f, export_pid(t));
}

static int track_fxt(void *format, struct export_track *t)
{
	struct fxt *f = format;

	t->user = calloc(1, sizeof(struct track_state));
	if (!t->user)
		return -AUX_E_NOMEM;
	put_object(f, t, OBJ_PROCESS);
	put_object(f, t, OBJ_THREAD);
	return f->err;
}

static void put_gap_args(struct fxt *f, const struct aux_flow *gap)
{
	put_text_arg(f, "cause", gap_name(gap->what));
	put_text_arg(f, "text", export_gap_text(f->x, gap->what));
	put_arg(f, ARG_U64, "offset", gap->offset);
}

static void put_frame_args(struct fxt *f, const struct export_slice *s)
{
	put_arg(f, ARG_POINTER, "addr", s->frame->to);
	if (s->frame->from)
		put_arg(f, ARG_POINTER, "from", s->frame->from);
	if (s->frame->func->dso)
		put_text_arg(f, "dso", s->frame->func->dso);
	if (s->frame->kind != CALL_CALL)
		put_text_arg(f, "kind", export_kind_name(s->frame));
	if (s->guessed)
		put_arg(f, ARG_BOOL, "guessed", 1);
}

static const char *category_of(const struct export_slice *s)
{
	return s->kind == EXPORT_GAP ? "gap"
	       : s->kind == EXPORT_AWAY ? "off-cpu"
	       : s->kind == EXPORT_OFF ? "off" : "call";
}

static int begin_fxt(void *format, struct export_track *t,
		     const struct export_slice *s)
{
	struct fxt *f = format;

	if (s->kind == EXPORT_GAP) { /* to be seen when it is short, too */
		begin_event(f, t, EV_INSTANT, s->ns, "gap", s->name);
		put_gap_args(f, s->gap);
		end_event(f);
	}
	begin_event(f, t, EV_BEGIN, s->ns, category_of(s), s->name);
	if (s->kind == EXPORT_GAP)
		put_gap_args(f, s->gap);
	else if (s->kind == EXPORT_FRAME)
		put_frame_args(f, s);
	else if (s->why)
		put_text_arg(f, "why", s->why);
	return end_event(f);
}

static int end_fxt(void *format, struct export_track *t,
		   const struct export_slice *s)
{
	struct fxt *f = format;

	begin_event(f, t, EV_END, s->ns, category_of(s), s->name);
	if (s->kind != EXPORT_FRAME)
		return end_event(f);
	put_arg(f, ARG_U64, "insns", s->total.insns);
	put_arg(f, ARG_U64, "self_insns", s->self.insns);
	if (s->total.cycles)
		put_arg(f, ARG_U64, "cycles", s->total.cycles);
	if (s->how != CALL_END_RET)
		put_text_arg(f, "end", export_end_name(s->how));
	if (export_is_cut(s->how))
		put_arg(f, ARG_BOOL, "lost", 1);
	if (s->guessed)
		put_arg(f, ARG_BOOL, "guessed", 1);
	return end_event(f);
}

static void put_fields(struct fxt *f, const struct export_field *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		put_arg(f, v[i].is_signed ? ARG_I64 : ARG_U64, v[i].name,
			v[i].value);
}

static int instant_fxt(void *format, struct export_track *t,
		       const struct export_instant *i)
{
	struct fxt *f = format;

	begin_event(f, t, EV_INSTANT, i->ns, i->category, i->name);
	put_arg(f, ARG_U64, "value", i->value);
	if (i->has_ip)
		put_arg(f, ARG_POINTER, "ip", i->ip);
	put_fields(f, i->fields, i->n_fields);
	return end_event(f);
}

static int counter_fxt(void *format, struct export_track *t,
		       const struct export_counter *c)
{
	struct fxt *f = format;

	begin_event(f, t, EV_COUNTER, c->ns, c->category, c->name);
	put_arg(f, ARG_I64, "value", (uint64_t)c->value);
	f->words[f->n++] = (uint64_t)c->name->id + 1;
	return end_event(f);
}

/* Async events: the serial number, in the last word, joins begin and end. */
static int span_fxt(void *format, struct export_track *t,
		    const struct export_span *s)
{
	struct fxt *f = format;

	begin_event(f, t, s->begin ? EV_ASYNC_BEGIN : EV_ASYNC_END, s->ns,
		    "span", s->name);
	if (s->begin)
		put_fields(f, s->fields, s->n_fields);
	else if (s->lost)
		put_arg(f, ARG_BOOL, "lost", 1);
	f->words[f->n++] = s->serial;
	return end_event(f);
}

/* Names may have come late: the last ones hold. */
static int finish_fxt(void *format, struct aux_diag *diag)
{
	struct fxt *f = format;

	(void)diag;
	for (const struct export_track *t = f->x->tracks; t; t = t->next) {
		if (t->pid == t->tid && !t->stack)
			put_object(f, t, OBJ_PROCESS);
		put_object(f, t, OBJ_THREAD);
	}
	return f->err;
}

/* The magic number and the resolution: nanoseconds. */
static int open_fxt(void **format, struct export *x, struct aux_diag *diag)
{
	struct fxt *f = calloc(1, sizeof(*f));

	(void)diag;
	*format = f;
	if (!f)
		return -AUX_E_NOMEM;
	f->x = x;
	f->out = x->out;
	f->strings = calloc(N_STRINGS + 1, sizeof(*f->strings));
	if (!f->strings)
		return -AUX_E_NOMEM;
	put_word(f, UINT64_C(0x0016547846040010)); /* the magic number */
	put_word(f, REC_INIT | 2 << 4);
	put_word(f, 1000000000); /* ticks of a second */
	return 0;
}

static void close_fxt(void *format)
{
	struct fxt *f = format;

	for (struct export_track *t = f->x->tracks; t; t = t->next)
		free(t->user);
	free(f->strings);
	export_ids_fini(&f->index);
	free(f);
}

const struct export_ops export_fxt = {
	.name = "fxt",
	.help = "the Fuchsia trace format",
	.flags = EXPORT_BINARY,
	.open = open_fxt,
	.track = track_fxt,
	.begin = begin_fxt,
	.end = end_fxt,
	.instant = instant_fxt,
	.counter = counter_fxt,
	.span = span_fxt,
	.finish = finish_fxt,
	.close = close_fxt,
};
