/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A trace of Perfetto: a TracePacket each for what tracks there are, for slices
 * (TrackEvent) with exact nanoseconds, gaps, payloads, counters. A packet is
 * begun, filled, ended and flushed; nothing else is written in between.
 *
 * Names are interned: each is written once, in the packet that first uses it.
 * The annotations' keys and the categories are interned in the first packet
 * (put_first), with iid = number + 1, for 0 is no iid. All packets are of one
 * sequence, so that what is interned holds for all of them.
 *
 * Counters (instructions, IPC) are written every COUNTER_NS at most: each call
 * would double the file.
 *
 * Specification: perfetto/protos: trace_packet, track_event, track_descriptor,
 * counter_descriptor, interned_data, debug_annotation.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/protobuf.h"
#include "decode/export/export.h"
#include "decode/sink/columns.h"

enum field {
	TRACE_PACKET = 1,

	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,

	EVENT_CATEGORY = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11,
	EVENT_VALUE = 30,
	EVENT_DOUBLE = 44,

	INTERNED_CATEGORY = 1,
	INTERNED_NAME = 2,
	INTERNED_ANNOTATION = 3,
	ENTRY_IID = 1,
	ENTRY_NAME = 2,

	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,
	COUNTER_UNIT = 3,

	NOTE_IID = 1,
	NOTE_BOOL = 2,
	NOTE_UINT = 3,
	NOTE_INT = 4,
	NOTE_STRING = 6,
	NOTE_POINTER = 7,
	NOTE_NAME = 10,
};

enum event_type { SLICE_BEGIN = 1, SLICE_END, INSTANT, COUNTER };
enum { FLAG_CLEARED = 1, FLAG_NEEDS = 2 };

/* Interned strings of our own: keys of annotations, categories; iid is one
 * more. */
enum key { KEY_INSNS, KEY_SELF, KEY_CYCLES, KEY_ADDR, KEY_FROM, KEY_DSO, KEY_KIND,
	   KEY_END, KEY_LOST, KEY_GUESSED, KEY_CAUSE, KEY_TEXT, KEY_OFFSET,
	   KEY_VALUE, KEY_IP, KEY_WHY, KEY_CPU, KEY_PID, KEY_TID, N_KEYS };
enum category { CAT_CALL, CAT_OFF, CAT_GAP, CAT_AWAY, CAT_SPAN, CAT_PAYLOAD,
		CAT_CPU, CAT_STATE, N_CATS };

/* UUIDs: track ids below, and from these on. */
#define UUID_TRACK   (UINT64_C(1) << 40)
#define UUID_PROCESS (UINT64_C(2) << 40)
#define UUID_INSNS   (UINT64_C(3) << 40)
#define UUID_IPC     (UINT64_C(4) << 40)
#define UUID_COUNTER (UINT64_C(5) << 40)
#define UUID_SPAN    (UINT64_C(6) << 40)
#define UUID_CPUS    (UINT64_C(7) << 40) /* the group, and each one behind it */
#define UUID_STATE   (UINT64_C(8) << 40)

struct thread_state {
	uint64_t shown_ns, away_ns;
	struct call_count shown;
	bool has_ipc, has_state;
};

/* A counter of the schema, or a lane of spans: a track of its own. */
struct lane {
	uint32_t pid, name, lane;
	bool is_counter;
};

struct perfetto {
	struct export *x;
	struct protobuf pb;
	struct export_ids seen;	/* 1: the name is written */
	struct lane *lanes;
	uint32_t n_lanes;
	struct export_ids cpus;	/* 1: it has a track */
	const struct export_name *on_cpu, *off_cpu;
	bool started, has_cpus;
};

static inline uint64_t track_uuid(const struct export_track *t)
{
	return UUID_TRACK + t->id;
}

#define MAX_LANES 4096

/* table */
static const char *const keys[N_KEYS] = {
	"insns", "self_insns", "cycles", "addr", "from", "dso", "kind", "end",
	"lost", "guessed", "cause", "text", "offset", "value", "ip",
	"why", "cpu", "pid", "tid",
};
/* table */
static const char *const cats[N_CATS] = { "call", "off", "gap", "off-cpu", "span",
					  "payload", "cpu", "state" };

/* What was made goes out. -AUX_E_NOMEM if making it failed. */
static int flush_packet(struct perfetto *f)
{
	if (f->pb.failed)
		return -AUX_E_NOMEM;
	outbuf_put(f->x->out, (const char *)f->pb.buf, f->pb.n);
	protobuf_reset(&f->pb);
	return 0;
}

/* An entry of InternedData. */
static void intern_entry(struct perfetto *f, uint32_t field, uint64_t iid,
			 const char *s, size_t len)
{
	size_t entry = protobuf_begin(&f->pb, field);

	protobuf_u64(&f->pb, ENTRY_IID, iid);
	protobuf_bytes(&f->pb, ENTRY_NAME, s, len);
	protobuf_end(&f->pb, entry);
}

/* The first packet: what is interned for good, and that what a reader may have
 * had before is void. */
static int put_first(struct perfetto *f)
{
	size_t packet = protobuf_begin(&f->pb, TRACE_PACKET), data;

	f->started = true;
	protobuf_u64(&f->pb, PACKET_SEQUENCE, 1);
	protobuf_u64(&f->pb, PACKET_FLAGS, FLAG_CLEARED | FLAG_NEEDS);
	data = protobuf_begin(&f->pb, PACKET_INTERNED);
	for (unsigned i = 0; i < N_CATS; i++)
		intern_entry(f, INTERNED_CATEGORY, i + 1, cats[i],
			     strlen(cats[i]));
	for (unsigned i = 0; i < N_KEYS; i++)
		intern_entry(f, INTERNED_ANNOTATION, i + 1, keys[i],
			     strlen(keys[i]));
	protobuf_end(&f->pb, data);
	protobuf_end(&f->pb, packet);
	return flush_packet(f);
}

/* The sequence, and that it needs what was interned. */
static size_t begin_packet(struct perfetto *f)
{
	size_t packet = protobuf_begin(&f->pb, TRACE_PACKET);

	protobuf_u64(&f->pb, PACKET_SEQUENCE, 1);
	protobuf_u64(&f->pb, PACKET_FLAGS, FLAG_NEEDS);
	return packet;
}

/* The name's iid, and in the packet its text when nothing had it before. */
static int perfetto_name(struct perfetto *f, const struct export_name *n)
{
	uint32_t *seen = export_ids_at(&f->seen, n->id);
	size_t data;

	if (!seen)
		return -AUX_E_NOMEM;
	if (*seen)
		return 0;
	*seen = 1;
	data = protobuf_begin(&f->pb, PACKET_INTERNED);
	intern_entry(f, INTERNED_NAME, (uint64_t)n->id + 1, n->text, n->len);
	protobuf_end(&f->pb, data);
	return 0;
}

static uint64_t process_uuid(const struct export_track *t)
{
	return UUID_PROCESS + (uint32_t)export_pid(t);
}

/* Describes the process: of a track whose thread is its main one, or of
 * none. */
static int put_process(struct perfetto *f, const struct export_track *t)
{
	size_t packet = begin_packet(f), track, process;

	track = protobuf_begin(&f->pb, PACKET_TRACK);
	protobuf_u64(&f->pb, TRACK_UUID, process_uuid(t));
	process = protobuf_begin(&f->pb, TRACK_PROCESS);
	protobuf_i64(&f->pb, PROCESS_PID, (int32_t)export_pid(t));
	protobuf_str(&f->pb, PROCESS_NAME, !export_pid(t) ? "[unknown]"
					   : t->comm ? t->comm->text : "?");
	protobuf_end(&f->pb, process);
	protobuf_end(&f->pb, track);
	protobuf_end(&f->pb, packet);
	return flush_packet(f);
}

/* unit 0: none. */
static int put_counter_track(struct perfetto *f, uint64_t uuid,
				  uint64_t parent, const char *name,
				  unsigned unit)
{
	size_t packet = begin_packet(f), track, counter;

	track = protobuf_begin(&f->pb, PACKET_TRACK);
	protobuf_u64(&f->pb, TRACK_UUID, uuid);
	protobuf_u64(&f->pb, TRACK_PARENT, parent);
	protobuf_str(&f->pb, TRACK_NAME, name);
	counter = protobuf_begin(&f->pb, TRACK_COUNTER);
	if (unit)
		protobuf_u64(&f->pb, COUNTER_UNIT, unit);
	protobuf_end(&f->pb, counter);
	protobuf_end(&f->pb, track);
	protobuf_end(&f->pb, packet);
	return flush_packet(f);
}

/* Describes a track: a thread, a further stack of one, or a stream. */
static int put_track(struct perfetto *f, const struct export_track *t)
{
	size_t packet = begin_packet(f), track, thread;
	char name[128];
	bool known = (int32_t)t->tid >= 0 && !t->stack;

	export_track_name(t, name, sizeof(name));
	track = protobuf_begin(&f->pb, PACKET_TRACK);
	protobuf_u64(&f->pb, TRACK_UUID, track_uuid(t));
	protobuf_u64(&f->pb, TRACK_PARENT, t->stack ? track_uuid(t->thread)
						    : process_uuid(t));
	if (known) {
		thread = protobuf_begin(&f->pb, TRACK_THREAD);
		protobuf_i64(&f->pb, THREAD_PID, (int32_t)export_pid(t));
		protobuf_i64(&f->pb, THREAD_TID, (int64_t)t->tid);
		if (t->comm)
			protobuf_bytes(&f->pb, THREAD_NAME, t->comm->text,
				       t->comm->len);
		protobuf_end(&f->pb, thread);
	} else {
		protobuf_str(&f->pb, TRACK_NAME, name);
	}
	protobuf_end(&f->pb, track);
	protobuf_end(&f->pb, packet);
	return flush_packet(f);
}

/* export_ops.track */
static int track_perfetto(void *format, struct export_track *t)
{
	struct perfetto *f = format;
	int err = f->started ? 0 : put_first(f);

	t->user = calloc(1, sizeof(struct thread_state));
	if (!t->user)
		return -AUX_E_NOMEM;
	if (!err)
		err = put_process(f, t);
	if (!err)
		err = put_track(f, t);
	if (!err && !t->stack && (int32_t)t->tid >= 0)
		err = put_counter_track(f, UUID_INSNS + t->id, track_uuid(t),
					"instructions", 2);
	return err;
}

/* The track of a counter or of a lane, made when it is new; -1: too many. */
static int64_t find_lane(struct perfetto *f, const struct export_track *t,
			     const struct export_name *name, uint32_t lane,
			     bool is_counter, int *err)
{
	struct lane as = { .pid = t->pid, .name = name->id, .lane = lane,
			   .is_counter = is_counter };
	struct lane *v = f->lanes;
	size_t packet, track;

	*err = 0;
	for (uint32_t i = 0; i < f->n_lanes; i++)
		if (v[i].pid == as.pid && v[i].name == as.name &&
		    v[i].lane == lane && v[i].is_counter == is_counter)
			return i;
	if (f->n_lanes == MAX_LANES)
		return -1;
	v = reallocarray(v, f->n_lanes + 1, sizeof(*v));
	*err = -AUX_E_NOMEM;
	if (!v)
		return -1;
	f->lanes = v;
	v[f->n_lanes++] = as;
	if (is_counter) {
		*err = put_counter_track(f, UUID_COUNTER + f->n_lanes - 1,
					 process_uuid(t), name->text, 0);
		return f->n_lanes - 1;
	}
	packet = begin_packet(f);
	track = protobuf_begin(&f->pb, PACKET_TRACK);
	protobuf_u64(&f->pb, TRACK_UUID, UUID_SPAN + f->n_lanes - 1);
	protobuf_u64(&f->pb, TRACK_PARENT, process_uuid(t));
	protobuf_bytes(&f->pb, TRACK_NAME, name->text, name->len);
	protobuf_end(&f->pb, track);
	protobuf_end(&f->pb, packet);
	*err = flush_packet(f);
	return f->n_lanes - 1;
}

#define COUNTER_NS UINT64_C(10000) /* a counter of a thread so often */

struct event {
	size_t packet, event;
};

static int begin_event(struct perfetto *f, struct event *e, uint64_t ns,
		       enum event_type type, uint64_t track,
		       const struct export_name *name, unsigned cat)
{
	int err;

	e->packet = begin_packet(f);
	protobuf_u64(&f->pb, PACKET_TIMESTAMP, ns);
	if (name) {
		err = perfetto_name(f, name);
		if (err)
			return err;
	}
	e->event = protobuf_begin(&f->pb, PACKET_EVENT);
	protobuf_u64(&f->pb, EVENT_TYPE, type);
	protobuf_u64(&f->pb, EVENT_TRACK, track);
	if (name) {
		protobuf_u64(&f->pb, EVENT_CATEGORY, cat + 1);
		protobuf_u64(&f->pb, EVENT_NAME, (uint64_t)name->id + 1);
	}
	return 0;
}

static int end_event(struct perfetto *f, const struct event *e)
{
	protobuf_end(&f->pb, e->event);
	protobuf_end(&f->pb, e->packet);
	return flush_packet(f);
}

static void note_u64(struct perfetto *f, enum key key, uint32_t field,
		     uint64_t v)
{
	size_t note = protobuf_begin(&f->pb, EVENT_ANNOTATION);

	protobuf_u64(&f->pb, NOTE_IID, key + 1);
	protobuf_u64(&f->pb, field, v);
	protobuf_end(&f->pb, note);
}

static void note_str(struct perfetto *f, enum key key, const char *s)
{
	size_t note = protobuf_begin(&f->pb, EVENT_ANNOTATION);
	size_t len = strlen(s), clean = export_clean(NULL, s, len);
	char *copy = clean == len ? NULL : malloc(clean + 1);

	protobuf_u64(&f->pb, NOTE_IID, key + 1);
	if (copy)
		export_clean(copy, s, len);
	if (copy || clean == len)
		protobuf_bytes(&f->pb, NOTE_STRING, copy ? copy : s, clean);
	protobuf_end(&f->pb, note);
	free(copy);
}

/* Fields of the schema: their names are not interned, they are few. */
static void note_fields(struct perfetto *f, const struct export_field *v,
			uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		size_t note = protobuf_begin(&f->pb, EVENT_ANNOTATION);

		protobuf_str(&f->pb, NOTE_NAME, v[i].name);
		protobuf_u64(&f->pb, v[i].is_signed ? NOTE_INT : NOTE_UINT,
			     v[i].value);
		protobuf_end(&f->pb, note);
	}
}

/* What a slice is, in annotations of its begin. */
static void note_begin(struct perfetto *f, const struct export_slice *s)
{
	const struct call_frame *fr = s->frame;

	if (s->kind == EXPORT_GAP) {
		note_str(f, KEY_CAUSE, gap_name(s->gap->what));
		note_str(f, KEY_TEXT, export_gap_text(f->x, s->gap->what));
		note_u64(f, KEY_OFFSET, NOTE_UINT, s->gap->offset);
	}
	if (s->why)
		note_str(f, KEY_WHY, s->why);
	if (s->kind != EXPORT_FRAME)
		return;
	note_u64(f, KEY_ADDR, NOTE_POINTER, fr->to);
	if (fr->from)
		note_u64(f, KEY_FROM, NOTE_POINTER, fr->from);
	if (fr->func->dso)
		note_str(f, KEY_DSO, fr->func->dso);
	if (fr->kind != CALL_CALL)
		note_str(f, KEY_KIND, export_kind_name(fr));
	if (s->guessed)
		note_u64(f, KEY_GUESSED, NOTE_BOOL, 1);
}

/* A value of a counter's track. */
static int put_value(struct perfetto *f, uint64_t ns, uint64_t track, int64_t v)
{
	struct event e;
	int err = begin_event(f, &e, ns, COUNTER, track, NULL, 0);

	if (err)
		return err;
	protobuf_i64(&f->pb, EVENT_VALUE, v);
	return end_event(f, &e);
}

/* Instructions per cycle since the last one; none without cycles. */
static int put_ipc(struct perfetto *f, struct export_track *t, uint64_t ns,
		   const struct call_count *d)
{
	struct thread_state *st = t->user;
	struct event e;
	int err = 0;

	if (!d->cycles)
		return 0;
	if (!st->has_ipc)
		err = put_counter_track(f, UUID_IPC + t->id, track_uuid(t), "IPC",
					0);
	st->has_ipc = true;
	if (!err)
		err = begin_event(f, &e, ns, COUNTER, UUID_IPC + t->id, NULL, 0);
	if (err)
		return err;
	protobuf_double(&f->pb, EVENT_DOUBLE,
			(double)d->insns / (double)d->cycles);
	return end_event(f, &e);
}

/* What the thread counted, now and then, and at the end. */
static int put_counters(struct perfetto *f, struct export_track *track,
			uint64_t ns, const struct call_thread *ct, bool last)
{
	struct export_track *t = track->thread;
	struct thread_state *st = t->user;
	struct call_count d;
	int err;

	if (!ct || (int32_t)t->tid < 0 ||
	    (!last && ns - st->shown_ns < COUNTER_NS))
		return 0;
	d = call_minus(ct->now, st->shown);
	if (!d.insns)
		return 0;
	err = put_ipc(f, t, st->shown_ns ? st->shown_ns : ns, &d);
	st->shown = ct->now;
	st->shown_ns = ns;
	return err ? err : put_value(f, ns, UUID_INSNS + t->id,
				     (int64_t)ct->now.insns);
}

/* A track with a name and nothing else. */
static int put_plain_track(struct perfetto *f, uint64_t uuid, uint64_t parent,
			   const char *name)
{
	size_t packet = begin_packet(f);
	size_t track = protobuf_begin(&f->pb, PACKET_TRACK);

	protobuf_u64(&f->pb, TRACK_UUID, uuid);
	if (parent)
		protobuf_u64(&f->pb, TRACK_PARENT, parent);
	protobuf_str(&f->pb, TRACK_NAME, name);
	protobuf_end(&f->pb, track);
	protobuf_end(&f->pb, packet);
	return flush_packet(f);
}

/* The track of a CPU, among those of all CPUs. */
static int need_cpu(struct perfetto *f, uint32_t cpu)
{
	uint32_t *seen;
	char name[24];
	int err = 0;

	if (!f->has_cpus)
		err = put_plain_track(f, UUID_CPUS, 0, "CPUs");
	f->has_cpus = true;
	seen = err ? NULL : export_ids_at(&f->cpus, cpu);
	if (!seen)
		return err ? err : -AUX_E_NOMEM;
	if (*seen)
		return 0;
	*seen = 1;
	snprintf(name, sizeof(name), "CPU %u", cpu);
	return put_plain_track(f, UUID_CPUS + 1 + cpu, UUID_CPUS, name);
}

/* A slice that has ended already, with what is known of it. */
static int put_interval(struct perfetto *f, uint64_t track,
			const struct export_name *name, unsigned cat,
			uint64_t from, uint64_t to, const struct export_track *t,
			int64_t cpu, const char *why)
{
	struct event e;
	int err = begin_event(f, &e, from, SLICE_BEGIN, track, name, cat);

	if (err)
		return err;
	if (cpu >= 0)
		note_u64(f, KEY_CPU, NOTE_UINT, (uint64_t)cpu);
	if (cat == CAT_CPU) {
		note_u64(f, KEY_PID, NOTE_UINT, export_pid(t));
		note_u64(f, KEY_TID, NOTE_UINT, t->tid);
	}
	if (why)
		note_str(f, KEY_WHY, why);
	err = end_event(f, &e);
	if (!err)
		err = begin_event(f, &e, to, SLICE_END, track, NULL, 0);
	return err ? err : end_event(f, &e);
}

/* On the thread's lane of states: on which CPU it was, or that it was on none. */
static int put_state(struct perfetto *f, struct export_track *track,
		     const struct export_name *name, uint64_t from, uint64_t to,
		     int64_t cpu, const char *why)
{
	struct export_track *t = track->thread;
	struct thread_state *st = t->user;
	int err = 0;

	if (!st->has_state)
		err = put_plain_track(f, UUID_STATE + t->id, track_uuid(t),
				      "on and off the CPU");
	st->has_state = true;
	return err ? err : put_interval(f, UUID_STATE + t->id, name, CAT_STATE,
					from, to, t, cpu, why);
}

/* A gap is an instant, too: to be seen when it is too short for a slice. */
static int begin_perfetto(void *format, struct export_track *t,
			  const struct export_slice *s)
{
	static const uint8_t cat[] = {
		[EXPORT_FRAME] = CAT_CALL, [EXPORT_OFF] = CAT_OFF,
		[EXPORT_GAP] = CAT_GAP, [EXPORT_AWAY] = CAT_AWAY,
	};
	struct perfetto *f = format;
	struct event e;
	int err;

	if (s->kind == EXPORT_AWAY)
		((struct thread_state *)t->thread->user)->away_ns = s->ns;
	if (s->kind == EXPORT_GAP) { /* to be seen when it is short, too */
		err = begin_event(f, &e, s->ns, INSTANT, track_uuid(t), s->name,
				  CAT_GAP);
		if (err)
			return err;
		note_begin(f, s);
		err = end_event(f, &e);
		if (err)
			return err;
	}
	err = begin_event(f, &e, s->ns, SLICE_BEGIN, track_uuid(t), s->name,
			  cat[s->kind]);
	if (err)
		return err;
	note_begin(f, s);
	err = end_event(f, &e);
	return err ? err : put_counters(f, t, s->ns, s->thread, false);
}

/* What a call took: known at its end only. */
static void note_end(struct perfetto *f, const struct export_slice *s)
{
	note_u64(f, KEY_INSNS, NOTE_UINT, s->total.insns);
	note_u64(f, KEY_SELF, NOTE_UINT, s->self.insns);
	if (s->total.cycles)
		note_u64(f, KEY_CYCLES, NOTE_UINT, s->total.cycles);
	if (s->how != CALL_END_RET)
		note_str(f, KEY_END, export_end_name(s->how));
	if (export_is_cut(s->how))
		note_u64(f, KEY_LOST, NOTE_BOOL, 1);
	if (s->guessed)
		note_u64(f, KEY_GUESSED, NOTE_BOOL, 1);
}

/* The end has no name: Perfetto pairs it with the last begin of its track. */
static int end_perfetto(void *format, struct export_track *t,
			const struct export_slice *s)
{
	struct perfetto *f = format;
	struct thread_state *st = t->thread->user;
	struct event e;
	int err = 0;

	if (s->kind == EXPORT_AWAY && st->away_ns < s->ns)
		err = put_state(f, t, f->off_cpu, st->away_ns, s->ns, -1, s->why);
	if (!err)
		err = begin_event(f, &e, s->ns, SLICE_END, track_uuid(t), NULL, 0);
	if (err)
		return err;
	if (s->kind == EXPORT_FRAME)
		note_end(f, s);
	err = end_event(f, &e);
	return err ? err : put_counters(f, t, s->ns, s->thread,
					s->kind == EXPORT_FRAME &&
						s->how == CALL_END_TRACE);
}

/* The value and its fields are annotations. */
static int instant_perfetto(void *format, struct export_track *t,
			    const struct export_instant *i)
{
	struct perfetto *f = format;
	struct event e;
	int err = begin_event(f, &e, i->ns, INSTANT, track_uuid(t), i->name,
			      CAT_PAYLOAD);

	if (err)
		return err;
	note_str(f, KEY_KIND, i->category);
	note_u64(f, KEY_VALUE, NOTE_UINT, i->value);
	if (i->has_ip)
		note_u64(f, KEY_IP, NOTE_POINTER, i->ip);
	note_fields(f, i->fields, i->n_fields);
	return end_event(f, &e);
}

/* Each counter of a process has a track of its own. */
static int counter_perfetto(void *format, struct export_track *t,
			    const struct export_counter *c)
{
	struct perfetto *f = format;
	int err;
	int64_t at = find_lane(f, t, c->name, 0, true, &err);

	return err || at < 0 ? err : put_value(f, c->ns,
					       UUID_COUNTER + (uint64_t)at,
					       c->value);
}

/* Spans that overlap are on different lanes, each a track of its own. */
static int span_perfetto(void *format, struct export_track *t,
			 const struct export_span *s)
{
	struct perfetto *f = format;
	struct event e;
	int err;
	int64_t at = find_lane(f, t, s->name, s->lane, false, &err);

	if (err || at < 0)
		return err;
	err = begin_event(f, &e, s->ns, s->begin ? SLICE_BEGIN : SLICE_END,
			  UUID_SPAN + (uint64_t)at, s->begin ? s->name : NULL,
			  CAT_SPAN);
	if (err)
		return err;
	if (s->begin)
		note_fields(f, s->fields, s->n_fields);
	else if (s->lost)
		note_u64(f, KEY_LOST, NOTE_BOOL, 1);
	return end_event(f, &e);
}

static int ran_perfetto(void *format, struct export_track *t, uint32_t cpu,
			uint64_t from, uint64_t to)
{
	struct perfetto *f = format;
	char name[128];
	const struct export_name *n;
	int err = need_cpu(f, cpu);

	export_track_name(t, name, sizeof(name));
	n = export_intern(f->x, name);
	if (!n)
		return -AUX_E_NOMEM;
	if (!err)
		err = put_interval(f, UUID_CPUS + 1 + cpu, n, CAT_CPU, from, to,
				   t, -1, NULL);
	return err ? err : put_state(f, t, f->on_cpu, from, to, cpu, NULL);
}

/* Names may have come late: the last descriptors hold. */
static int finish_perfetto(void *format, struct aux_diag *diag)
{
	struct perfetto *f = format;
	int err = 0;

	(void)diag;
	for (struct export_track *t = f->x->tracks; t && !err; t = t->next) {
		if (t->pid == t->tid)
			err = put_process(f, t);
		if (!err)
			err = put_track(f, t);
	}
	return err;
}

static int open_perfetto(void **format, struct export *x, struct aux_diag *diag)
{
	struct perfetto *f = calloc(1, sizeof(*f));

	(void)diag;
	*format = f;
	if (!f)
		return -AUX_E_NOMEM;
	f->x = x;
	f->on_cpu = export_intern(x, "on CPU");
	f->off_cpu = export_intern(x, "off CPU");
	return f->on_cpu && f->off_cpu ? 0 : -AUX_E_NOMEM;
}

/* What open_perfetto did not make is NULL. */
static void close_perfetto(void *format)
{
	struct perfetto *f = format;

	for (struct export_track *t = f->x->tracks; t; t = t->next)
		free(t->user);
	protobuf_fini(&f->pb);
	export_ids_fini(&f->seen);
	export_ids_fini(&f->cpus);
	free(f->lanes);
	free(f);
}

const struct export_ops export_perfetto = {
	.name = "perfetto",
	.help = "a trace of Perfetto",
	.flags = EXPORT_BINARY,
	.open = open_perfetto,
	.track = track_perfetto,
	.begin = begin_perfetto,
	.end = end_perfetto,
	.ran = ran_perfetto,
	.instant = instant_perfetto,
	.counter = counter_perfetto,
	.span = span_perfetto,
	.finish = finish_perfetto,
	.close = close_perfetto,
};
