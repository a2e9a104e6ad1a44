/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_perfetto's parts: field numbers, and packets that say what tracks and names
 * there are. A packet is begun, filled, ended and flushed; nothing else is meanwhile.
 */
#ifndef DECODE_EXPORT_PERFETTO_H
#define DECODE_EXPORT_PERFETTO_H

#include "common/protobuf.h"
#include "decode/export/export.h"

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

/* Interned strings of our own: keys of annotations, categories; iid is one more. */
enum key { KEY_INSNS, KEY_SELF, KEY_CYCLES, KEY_ADDR, KEY_FROM, KEY_DSO, KEY_KIND,
	   KEY_END, KEY_LOST, KEY_GUESSED, KEY_CAUSE, KEY_TEXT, KEY_OFFSET,
	   KEY_VALUE, KEY_IP, N_KEYS };
enum category { CAT_CALL, CAT_OFF, CAT_GAP, CAT_SPAN, CAT_PAYLOAD, N_CATS };

/* UUIDs: track ids below, and from these on. */
#define UUID_TRACK   (UINT64_C(1) << 40)
#define UUID_PROCESS (UINT64_C(2) << 40)
#define UUID_INSNS   (UINT64_C(3) << 40)
#define UUID_IPC     (UINT64_C(4) << 40)
#define UUID_COUNTER (UINT64_C(5) << 40)
#define UUID_SPAN    (UINT64_C(6) << 40)

struct thread_state {
	uint64_t shown_ns;
	struct call_count shown;
	bool has_ipc;
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
	bool started;
};

static inline uint64_t perfetto_uuid(const struct export_track *t)
{
	return UUID_TRACK + t->id;
}

#endif
