/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diff: two recordings, where their flows part, and what each function ran
 * more.
 *
 * An instruction is the same in both when it lies at the same offset of a file
 * of the same name, wherever that was loaded (memory without a file: of the
 * mapping). A first pass over each recording hashes what each thread ran and
 * counts by function; a thread whose hash differs from that of its match is
 * then gone through in lockstep. Memory does not grow with the recording.
 *
 * After a difference the two meet again where DIFF_MEET instructions in a row
 * are the same, at the least distance from where they parted, within
 * DIFF_WINDOW.
 */
#ifndef DECODE_COMPARE_DIFF_H
#define DECODE_COMPARE_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decode.h>

#include "common/iphash.h"
#include "common/outbuf.h"
#include "decode/lib/session/expand.h"
#include "decode/lib/sideband/sideband.h"

struct cmd_options;

#define DIFF_MEET 16
#define DIFF_WINDOW ((size_t)1 << 20)
#define DIFF_CONTEXT 5	/* instructions shown before a difference */

/* Of one name in one file; of both recordings. Code of a file that has no symbol
 * is a piece: what ran from there to a branch, until diff_funcs_settle. */
struct diff_func {
	struct diff_func *next;	/* of its slot */
	uint64_t insns[2], calls[2];
	const char *name;	/* NULL: no symbol */
	const char *dso;	/* the file's name */
	uint64_t offset;	/* of a piece, in the file */
	bool piece;
	bool stub;		/* what runs in it belongs to its caller */
	char text[];		/* of both */
};

struct diff_funcs {
	struct diff_func **slots;
	struct diff_func *joined;	/* pieces that are part of others */
	size_t n_slots, n;
};

int diff_funcs_init(struct diff_funcs *f);
void diff_funcs_fini(struct diff_funcs *f);
/* When all has been counted: pieces become functions, each from where a call went
 * to the next such place, with names as hot's. 0 or -AUX_E_NOMEM. */
int diff_funcs_settle(struct diff_funcs *f);
/* By the size of the difference in instructions, the largest first; free it.
 * NULL: out of memory. */
struct diff_func **diff_funcs_sort(const struct diff_funcs *f);

/* n instructions of a range, in one function. */
struct diff_part {
	struct diff_part *next;
	struct diff_func *func;
	uint32_t n;
	bool at_start;		/* the first is the function's */
};

/* What is known of a range; user of its walk_range. Instruction i has the key
 * key + off[i]. */
struct diff_range {
	struct diff_part *parts; /* NULL: not learnt yet */
	uint64_t key;
	struct iphash_block hash;
};

/* The code of one recording. */
struct diff_code {
	struct aux_decode *d;
	struct walk *walk;
	struct sink_host host;
	struct diff_funcs *funcs;
};

int diff_code_init(struct diff_code *c, struct aux_decode *d,
		   struct diff_funcs *funcs);
void diff_code_fini(struct diff_code *c);
/* As walk_find. */
int diff_code_find(struct diff_code *c, const struct space *space,
		   const struct aux_flow *ev, struct walk_range **r);

/*
 * What a step or path of the decoder adds, in one space: kept with it, so that one which
 * comes again costs no more than to count it.
 */
struct diff_whole {
	struct diff_whole *next;	/* of the same one, in another space */
	struct diff_whole *all;
	uint64_t space_id;
	uint64_t n;		/* how often it came, not in functions yet */
	struct iphash_block hash;
	struct diff_func *first, *last;	/* of its first and last instruction */
	struct diff_func *owner; /* the last that is no stub; NULL: all are */
	uint64_t n_lead;	/* instructions of stubs, before any other function */
	bool at_start;		/* the first is the function's */
	uint8_t end;		/* enum aux_range_end of its last range */
	uint32_t n_parts;
	struct diff_share {
		struct diff_func *func;
		uint64_t insns, calls;	/* without a call that leads to its begin */
	} parts[];
};

/* diff_sum.c: what each thread ran. */
struct diff_thread {
	uint32_t tid;
	char comm[32];
	struct iphash hash;
	uint64_t n_gaps;
	struct diff_func *func;	/* in which it is */
	struct diff_func *owner; /* the last that is no stub; NULL: none yet */
	uint8_t end;		/* enum aux_range_end of the last range */
	struct diff_thread *match; /* of the other recording; NULL: none */
};

struct diff_sum {
	struct diff_code *code;
	unsigned side;		/* 0: A, 1: B */
	struct diff_thread **threads;	/* in the end by tid */
	size_t n, current;
	struct diff_whole *wholes;	/* all of this epoch */
	uint64_t epoch;		/* from 1; see whole_of */
	size_t whole_bytes;
	struct diff_share *shares;	/* of the next one */
	size_t max_shares;
	uint64_t n_payloads;	/* values that the program wrote */
	bool enough;		/* tick may set it: no more is wanted */
	void (*tick)(void *priv, const struct aux_decode *d);	/* or NULL */
	void *tick_priv;
};

int diff_sum_run(struct diff_sum *s, struct aux_diag *diag);
void diff_sum_fini(struct diff_sum *s);
/* Threads of one name, the first to the first, and so on. tid >= 0: only
 * these. */
int diff_match(struct diff_sum *a, struct diff_sum *b, int64_t tid_a,
	       int64_t tid_b, struct aux_diag *diag);

/* diff.c: one thread of one recording, as instructions. */
struct diff_elem {
	uint64_t key, ip;
	const struct space *space;
	uint16_t mode;
	uint8_t gap;		/* not 0: no instruction but a GAP of this cause */
};

struct diff_side {
	struct diff_code *code;
	uint32_t tid;
	struct diff_elem *v;	/* from head on not used yet, before it the last
				 * DIFF_CONTEXT of what was */
	size_t head, n, max;
	uint64_t index;		/* instructions before head */
	uint64_t n_gaps;
	struct aux_decode_batch batch;
	size_t at;
	bool ended;
};

void diff_side_init(struct diff_side *s, struct diff_code *code, uint32_t tid);
void diff_side_fini(struct diff_side *s);

static inline size_t diff_side_left(const struct diff_side *s)
{
	return s->n - s->head;
}

/* diff.c: both in lockstep. Where they part they are passed to found, with what
 * only one of them ran still ahead: skip[0] and skip[1] of it. met: what
 * comes after it is the same again. 1 of found: enough. */
struct diff_flow {
	struct diff_side side[2];
	size_t skip[2];
	bool met;
	uint64_t n_found;
	int (*found)(void *priv, struct diff_flow *f);
	void *priv;
};

int diff_flow_run(struct diff_flow *f, struct aux_diag *diag);

/* diff_print.c */
struct colour;
struct disasm;

struct diff_print {
	struct outbuf *out;
	struct disasm *disasm;
	struct names *names;	/* how they are shown */
	const char *paths[2];
	uint64_t limit;		/* differences, functions; 0: the standard */
	const struct colour *colour;
	const char *(*gap_text)(unsigned cause); /* meaning and advice */
	const struct diff_thread *pair[2];
	bool equal;		/* nothing that was shown differs */
};

/* One line: two threads that are alike, or that are not. */
void diff_print_pair(struct diff_print *p);
/* Threads of one recording alone. */
void diff_print_alone(struct diff_print *p, const struct diff_sum *s);
int diff_print_found(void *priv, struct diff_flow *f);
int diff_print_funcs(struct diff_print *p, const struct diff_funcs *f);

#endif
