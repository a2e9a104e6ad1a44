/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pack: flow events on their way from one thread to another.
 *
 * What a core writes and another reads costs both a wait for each cache line: two
 * threads took twice the time of one where 32 bytes went over for each event. Packed, a
 * PATH or a TIME is one word, as far as it differs little from the one before:
 *
 *	 63                      16 15            1  0
 *	+--------------------------+---------------+---+
 *	| struct aux_path *        | offset: more  | 1 |	PATH
 *	+-----------+-------+------+------+--------+---+
 *	| n         | ns    | tsc         | offset | 2 |	TIME: what each of them is more
 *	+-----------+-------+-------------+--------+---+	than that of the last TIME
 *	| 0                                            |	an event follows, in four words
 *	+----------------------------------------------+
 */
#ifndef DECODE_LIB_SESSION_PACK_H
#define DECODE_LIB_SESSION_PACK_H

#include <stddef.h>
#include <stdint.h>

#include <aux/flow.h>

/* What the next event is compared with. All 0 at the start. */
struct pack_last {
	uint64_t offset, tsc, ns;
};

struct pack {
	uint64_t *words;
	size_t n, cap;
	struct pack_last last;
};

/* Appends events; a PATH that its decoder does not keep as its RANGEs. 0 or
 * -AUX_E_NOMEM. */
int pack_events(struct pack *p, const struct aux_flow *ev, size_t n);

/* Where unpacking is. */
struct unpack {
	const uint64_t *at, *end;
	struct pack_last last;
};

/* The next events, at most max; returns how many: 0 at the end. The first *n_plain of
 * them are RANGEs and PATHs, of so many instructions. */
size_t unpack_events(struct unpack *u, struct aux_flow *out, size_t max,
		     size_t *n_plain, uint64_t *plain_insns);

#endif
