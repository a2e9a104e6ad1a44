/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process's code cache: what step_native_map.c makes, step_native.c runs, and
 * step_native_read.c reads the records of.
 */
#ifndef CAPTURE_SOFT_STEP_NATIVE_H
#define CAPTURE_SOFT_STEP_NATIVE_H

#include <signal.h>

#include "capture/native/native.h"
#include "capture/soft/step.h"

#define NATIVE_N_AREAS 2
#define NATIVE_AREA_BYTES ((size_t)256 << 20)
#define NATIVE_N_SLOTS 1024u
/* times, a ring, its slots */
#define NATIVE_HALF_BYTES ((size_t)NATIVE_TIMES + NATIVE_RING + 4096)
#define NATIVE_SLOT_BYTES (2 * NATIVE_HALF_BYTES)	/* of a thread: one is
						 * filled, one read */
#define NATIVE_REAL_TABLES 128u	/* of those by address, some share one */
#define NATIVE_TABLE_BYTES ((size_t)NATIVE_N_TARGETS * sizeof(int64_t))
#define NATIVE_CALLS_AT (NATIVE_REAL_TABLES * NATIVE_TABLE_BYTES)
#define NATIVE_SLOTS_AT (NATIVE_CALLS_AT + NATIVE_N_CALLS)
#define NATIVE_DATA_BYTES (NATIVE_SLOTS_AT + NATIVE_N_SLOTS * NATIVE_SLOT_BYTES)

struct native_unit {
	uint64_t start, code, end;
	uint32_t first_insn, first_exit, first_block;
	uint64_t low, high;	/* its instructions are in [low, high) */
	uint32_t in;		/* exits that are linked to it: the first + 1 */
	uint32_t next_door;	/* the unit of the door after its own; 0: none */
	struct native_door door;	/* code 0: it has none */
	uint16_t n_insns, n_exits, n_blocks;
	uint8_t area;
	bool dead;		/* its code is gone: nothing leads to it */
	uint8_t tries;		/* to find a way for it; */
	bool way;		/* it follows one, and replaced another unit */
};

#define NATIVE_NO_EXIT UINT32_MAX
#define NATIVE_SEEN 4096

struct native_page {
	uint64_t addr;
	bool ok, changes;
	size_t round;		/* n_units when it was read */
	uint8_t bytes[STEP_PAGE];
	uint8_t begins[STEP_PAGE / 8];	/* bits: units begin here */
};

struct step_native {
	uint8_t *mem;		/* all of the memfd: data, then the areas */
	uint64_t data_at;
	struct native_area areas[NATIVE_N_AREAS];
	struct native_unit *units;	/* by number; 0 is none */
	struct native_insn *insns;
	struct native_exit *exits;
	struct soft_path *paths;	/* by exit */
	struct soft_block *blocks;
	size_t n_units, n_insns, n_exits, n_paths, n_blocks;
	size_t cap_units, cap_insns, cap_exits, cap_paths, cap_blocks;
	uint32_t *order[NATIVE_N_AREAS];	/* units by address */
	size_t n_order[NATIVE_N_AREAS], cap_order[NATIVE_N_AREAS];
	uint8_t *heat;		/* by exit: step_native_way.c's */
	size_t n_heat;
	uint32_t n_batches;
	uint32_t seen[NATIVE_SEEN];	/* records that are to be looked at */
	size_t n_seen;
	struct step_hash by_ip;	/* the newest unit */
	struct step_hash waiting;	/* by target: an exit + 1, or NATIVE_NO_EXIT */
	struct step_hash doors;	/* by entry of the tables: the unit of the first door;
				 * dead: there is no door any more */
	struct native_page **pages;
	size_t n_pages, cap_pages;
	struct step_hash page_at;
	struct native_page *latest;	/* of pages; NULL */
	bool taken[NATIVE_N_SLOTS];
	uint32_t n_taken;
	uint32_t n_sharing;	/* processes that share the memory, but one */
	bool translating, looking;	/* which may report what ran, to save a page */
	bool failed;		/* no memory: nothing new is translated */
	struct native_copy copy;
};

/* Maps a cache into the process of a thread that stands at t->ip. False: it has
 * to be stepped. */
bool step_native_open(struct step_thread *t);

/* step_native_unit.c. The unit for ip, 0: it cannot run from the cache; the same for what is
 * about to run: it is linked with what it leads to, and more is made ahead. */
uint32_t step_native_find(struct step_thread *t, uint64_t ip);
uint32_t step_native_reach(struct step_thread *t, uint64_t ip);
/* The unit whose copy has this address; NULL: not in one. */
const struct native_unit *step_native_at(const struct step_native *nc, uint64_t pc);
/* Where indirect branches end up that have no door. */
bool step_native_is_miss(const struct step_native *nc, uint64_t pc);
/* From now on the exit leads there. */
void step_native_link(struct step_native *nc, size_t id, uint32_t to);
/* Indirect branches find the unit. */
void step_native_door(struct step_native *nc, uint32_t id);
/* The newest unit that begins with the instruction at ip; 0: none. */
uint32_t step_native_unit_of(const struct step_native *nc, uint64_t ip);
/* Copies the code of a unit once more, along a way, and leads to that copy instead. */
void step_native_replace(struct step_thread *t, uint32_t old, const struct native_way *way);

/* step_native_way.c. Keeps some of what ran, exit by exit; looks at what was kept. The
 * latter makes copies, for which pages may be saved: before it, all that ran is reported
 * that is of older ones. */
void step_native_keep(struct step_native *nc, const uint32_t *ids, size_t n);
void step_native_look(struct step_thread *t);

/* step_native_map.c. A signal that was sent to the thread, and taken: once more. */
void step_native_send_again(const struct step_thread *t, const siginfo_t *si);

/* step_native_read.c. A thread's slots behind one of its two rings; of the thread, not
 * checked. */
struct native_slots *step_native_slots(const struct step_thread *t, unsigned half);
/* Reads on at the beginning of the ring that the thread fills. */
void step_native_begin_ring(struct step_thread *t);
/* The ring that the thread does not fill, if it is full: at most so many records. */
void step_native_read_full(struct step_thread *t, size_t max);
/* The thread left u before instruction k; the block that is not complete is for the
 * steps to go on with. */
void step_native_report_prefix(struct step_thread *t, const struct native_unit *u,
			       unsigned k);
#endif
