/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Translates x86-64 code, so that it runs on this CPU from a cache beside the
 * program and leaves a record of where it went.
 *
 * Contract. A unit is a copy of instructions that are entered at the first one
 * alone, and is left at one of its exits. It follows fall-throughs; or a way that the
 * program was seen to take, through any branches, with an exit for each other way. All
 * that the program can see stays as it is: registers and flags (only lea, mov and jrcxz
 * are added, and comparisons that put the flags back), return addresses, the stack (what is
 * below its pointer, too), the address in a fault (native_insn says which instruction an
 * address of the cache belongs to).
 * Instructions that cannot be copied exactly are not: the unit ends before them, at a trap.
 *
 * Records. One word for each exit that is taken, in the ring of the thread: the
 * number of the exit. A conditional branch that goes where the copy goes on costs
 * nothing. Where an indirect branch went is where the unit of the next record begins. So
 * the words are the whole flow, whichever of several copies of the same code ran.
 *
 * Indirect branches. One in the middle of a way compares where it goes with the place that
 * the copy goes on with. For all others the tables say which door comes first for an
 * address: the offset of its code from a miss. Doors of several units that share an entry
 * lead from one to the next, so there is room for all, and none is ever written again but
 * its link.
 *
 * Time. A system call leaves when it began and when it was over beside its record: only
 * the program's own thread knows that.
 *
 * Threads. The base of GS is a thread's struct native_slots, at whose end below
 * is its ring: the instructions that use GS themselves are not copied. What
 * needs the tracer ends in INT3: a ring that is full, an exit that leads to no
 * unit yet, an indirect target that has no door, a system call that
 * changes what the tracer knows.
 *
 * Code that may change any time, unseen (it can be written, or is shared), is compared
 * with what was copied each time that it is about to run: when its unit is entered, and
 * after each store that is not to the stack. In one unit, what was compared stays the same
 * until such a store: another thread's is seen when the next unit is entered, as a CPU may
 * run what it has fetched.
 *
 * Others may run in the cache at any time: what is written goes beyond what
 * they can reach, except for links, which are single aligned stores.
 *
 * Specification: Intel SDM volume 2.
 */
#ifndef CAPTURE_NATIVE_NATIVE_H
#define CAPTURE_NATIVE_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NATIVE_RING (256 << 10)		/* bytes, below the slots */
#define NATIVE_TIMES (4 * NATIVE_RING)	/* below the ring: struct native_time */
#define NATIVE_MAX_ID 0x7ffffff0u
#define NATIVE_N_CALLS 65536u	/* by the low 16 bits of the number; 0: traps */
#define NATIVE_KNOWN_CALLS 462u	/* none is plain from here on */
#define NATIVE_N_TARGETS 65536u	/* of a table, by the low 16 bits of an address */
#define NATIVE_N_TABLES 256u	/* by bits 16 to 23 of it */
#define NATIVE_UNIT_INSNS 32	/* of a unit without a way */
#define NATIVE_MAX_INSNS 192	/* of a unit */
#define NATIVE_MAX_EXITS (2 * NATIVE_MAX_INSNS + 1)
#define NATIVE_MAX_CODE 65536u	/* bytes of a unit's copy, more than enough */
#define NATIVE_NO_REG 0xff

/* What copies use, at GS. */
struct native_slots {
	int64_t cur;		/* of the next record, from the ring's end: < 0;
				 * 0: the ring is full */
	uint64_t rax, rcx, rdx;	/* the program's, while a copy uses these */
	uint64_t far;		/* of the register that a far operand needs */
	uint64_t calls;		/* NATIVE_N_CALLS bytes */
	uint64_t target;	/* of an indirect branch */
	uint64_t miss;		/* where entries of tables count from */
	uint64_t tables[NATIVE_N_TABLES];	/* of int64_t */
};

/* For each record of the ring, in its order; filled for a system call's: what the time stamp
 * counter said before it, and after. */
struct native_time {
	uint64_t left, back;
};

enum native_exit_kind {
	NATIVE_DIRECT,		/* jump, call, condition or the unit's size */
	NATIVE_SYSCALL,		/* SYSCALL runs, then it goes on at target */
	NATIVE_INDIRECT,	/* goes on where the slots' target says */
	NATIVE_TRAP,		/* the instruction at target is not copied */
	NATIVE_CHANGED,		/* code from target on is not what was copied */
};

/* Addresses are those of the cache in the program; 0: it has none. */
struct native_exit {
	uint64_t target;
	uint64_t link;		/* of the displacement or pointer to the next */
	uint64_t miss, full;	/* INT3: nothing linked; ring full */
	uint64_t record;	/* goes on there with room in the ring */
	uint64_t trap;		/* INT3 before a SYSCALL, or NATIVE_TRAP's and
				 * NATIVE_CHANGED's, */
	uint64_t compare, compared;	/* whose comparison is there */
	uint64_t call, after;	/* SYSCALL, when the record is left; what follows it */
	uint32_t unit, to;	/* numbers; to 0: nothing linked */
	uint32_t next_in;	/* the caller's: the next of those that are linked to
				 * the same unit, or wait for it, + 1 */
	uint16_t n_insns;	/* of the unit, when it leaves here */
	uint16_t n_blocks;	/* the caller's */
	uint8_t kind;
	bool far;		/* link is a pointer */
};

struct native_insn {
	uint64_t ip, target;	/* target: of a direct branch */
	uint64_t at, end;	/* of the copy's bytes */
	uint8_t size, cls;	/* enum x86_class */
	uint8_t far;		/* register in slots.far during the copy */
};

/* A place for copies, and an INT3 at its start, where indirect branches end up that have
 * no door. */
struct native_area {
	uint64_t at;		/* in the program */
	uint8_t *mem;		/* here */
	size_t size, used;
	uint64_t miss;
};

/* Where an indirect branch comes into a unit: compares the target with its start. */
struct native_door {
	uint64_t code;
	uint64_t link;		/* of the pointer to the next door, or to miss */
};

/* A unit as it is made. */
struct native_copy {
	uint64_t code, end;	/* entry; the first byte after it all */
	struct native_insn insns[NATIVE_MAX_INSNS];
	struct native_exit exits[NATIVE_MAX_EXITS];
	unsigned n_insns, n_exits;
};

/* Where the branches go that a unit is to follow, in order. */
struct native_way {
	const uint64_t *to;
	unsigned n;
};

struct native_source {
	/* Bytes at ip, at most 15; 0: what is there is not to be copied. */
	size_t (*fetch)(void *priv, uint64_t ip, uint8_t *bytes);
	/* The bytes at ip may be other ones any time. */
	bool (*changes)(void *priv, uint64_t ip);
	/* A unit exists for ip. */
	bool (*known)(void *priv, uint64_t ip);
	/* Copies of the code at ip go to the area that begins there. */
	uint64_t (*area_at)(void *priv, uint64_t ip);
	void *priv;
};

/* The beginning of a new area. */
void native_area_init(struct native_area *a);
/* A door to the unit at code, whose copy is in a, for targets that are ip; a has
 * NATIVE_MAX_CODE bytes of room. next: the address of another door, or of miss. */
struct native_door native_make_door(struct native_area *a, uint64_t ip, uint64_t code,
				    uint64_t next);
/* From now on what is not for this door goes to next. a: where it is. */
void native_link_door(struct native_area *a, const struct native_door *d, uint64_t next);
/* Copies the code at ip to the end of a, which has NATIVE_MAX_CODE bytes of
 * room. unit and exit: its number, and that of its first exit. way NULL: none. */
void native_translate(struct native_area *a, const struct native_source *src,
		      const struct native_way *way, uint64_t ip, uint32_t unit,
		      uint32_t exit, struct native_copy *copy);
/* From now on e leads to code; to e->miss when that is 0. a: where e is. */
void native_link(struct native_area *a, const struct native_exit *e,
		 uint64_t code);
/* System calls that the tracer need not see. */
bool native_call_is_plain(uint32_t number);

#endif
