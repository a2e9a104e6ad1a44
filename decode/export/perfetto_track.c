/* SPDX-License-Identifier: BSD-2-Clause */
/* export_perfetto_track: what tracks there are, and names: see perfetto.h. */
#include <stdlib.h>

#include "decode/export/perfetto.h"

#define MAX_LANES 4096

/* table */
static const char *const keys[N_KEYS] = {
	"insns", "self_insns", "cycles", "addr", "from", "dso", "kind", "end",
	"lost", "guessed", "cause", "text", "offset", "value", "ip",
};
/* table */
static const char *const cats[N_CATS] = { "call", "off", "gap", "span",
					  "payload" };

int perfetto_flush(struct perfetto *f)
{
	if (f->pb.failed)
		return -AUX_E_NOMEM;
	outbuf_put(f->x->out, (const char *)f->pb.buf, f->pb.n);
	protobuf_reset(&f->pb);
	return 0;
}

static void intern_entry(struct perfetto *f, uint32_t field, uint64_t iid,
			 const char *s, size_t len)
{
	size_t entry = protobuf_begin(&f->pb, field);

	protobuf_u64(&f->pb, ENTRY_IID, iid);
	protobuf_bytes(&f->pb, ENTRY_NAME, s, len);
	protobuf_end(&f->pb, entry);
}

/* The first packet: what we intern for good. */
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
	return perfetto_flush(f);
}

size_t perfetto_packet(struct perfetto *f)
{
	size_t packet = protobuf_begin(&f->pb, TRACE_PACKET);

	protobuf_u64(&f->pb, PACKET_SEQUENCE, 1);
	protobuf_u64(&f->pb, PACKET_FLAGS, FLAG_NEEDS);
	return packet;
}

/* The name's iid, and in the packet its text when nothing had it before. */
int perfetto_name(struct perfetto *f, const struct export_name *n)
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

int perfetto_process(struct perfetto *f, const struct export_track *t)
{
	size_t packet = perfetto_packet(f), track, process;

	track = protobuf_begin(&f->pb, PACKET_TRACK);
	protobuf_u64(&f->pb, TRACK_UUID, process_uuid(t));
	process = protobuf_begin(&f->pb, TRACK_PROCESS);
	protobuf_i64(&f->pb, PROCESS_PID, (int32_t)export_pid(t));
	protobuf_str(&f->pb, PROCESS_NAME, !export_pid(t) ? "[unknown]"
					   : t->comm ? t->comm->text : "?");
	protobuf_end(&f->pb, process);
	protobuf_end(&f->pb, track);
	protobuf_end(&f->pb, packet);
	return perfetto_flush(f);
}

int perfetto_counter_track(struct perfetto *f, uint64_t uuid, uint64_t parent,
			     const char *name, unsigned unit)
{
	size_t packet = perfetto_packet(f), track, counter;

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
	return perfetto_flush(f);
}

int perfetto_track(struct perfetto *f, const struct export_track *t)
{
	size_t packet = perfetto_packet(f), track, thread;
	char name[128];
	bool known = (int32_t)t->tid >= 0 && !t->stack;

	export_track_name(t, name, sizeof(name));
	track = protobuf_begin(&f->pb, PACKET_TRACK);
	protobuf_u64(&f->pb, TRACK_UUID, perfetto_uuid(t));
	protobuf_u64(&f->pb, TRACK_PARENT, t->stack ? perfetto_uuid(t->thread)
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
	return perfetto_flush(f);
}

int perfetto_meet(void *format, struct export_track *t)
{
	struct perfetto *f = format;
	int err = f->started ? 0 : put_first(f);

	t->user = calloc(1, sizeof(struct thread_state));
	if (!t->user)
		return -AUX_E_NOMEM;
	if (!err)
		err = perfetto_process(f, t);
	if (!err)
		err = perfetto_track(f, t);
	if (!err && !t->stack && (int32_t)t->tid >= 0)
		err = perfetto_counter_track(f, UUID_INSNS + t->id, perfetto_uuid(t),
					"instructions", 2);
	return err;
}

/* The track of a counter or of a lane, made when it is new; -1: too many. */
int64_t perfetto_lane(struct perfetto *f, const struct export_track *t,
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
		*err = perfetto_counter_track(f, UUID_COUNTER + f->n_lanes - 1,
					 process_uuid(t), name->text, 0);
		return f->n_lanes - 1;
	}
	packet = perfetto_packet(f);
	track = protobuf_begin(&f->pb, PACKET_TRACK);
	protobuf_u64(&f->pb, TRACK_UUID, UUID_SPAN + f->n_lanes - 1);
	protobuf_u64(&f->pb, TRACK_PARENT, process_uuid(t));
	protobuf_bytes(&f->pb, TRACK_NAME, name->text, name->len);
	protobuf_end(&f->pb, track);
	protobuf_end(&f->pb, packet);
	*err = perfetto_flush(f);
	return f->n_lanes - 1;
}
