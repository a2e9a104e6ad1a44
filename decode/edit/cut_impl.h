/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of cut share; nobody else includes this. */
#ifndef DECODE_EDIT_CUT_IMPL_H
#define DECODE_EDIT_CUT_IMPL_H

#include "decode/lib/trace/trace.h"
#include "decode/edit/cut.h"

struct cut_span {
	uint64_t from, to;
};

struct cut_queue {
	const struct queue *q;
	struct cut_span *kept;	/* offsets in the stream, by place */
	size_t n, cap;
};

/* The SWITCH, by its number in the file, that says who a CPU began with. */
struct cut_switch {
	uint32_t cpu;
	uint64_t time, number;
};

struct cut {
	struct session *s;
	struct cut_wanted wanted;
	struct cut_queue *queues;
	size_t n;
	bool several;		/* a stream has more than one span */
	uint64_t from_ns, to_ns;	/* side-band of this time is needed */
	struct cut_switch *first;	/* by CPU */
	size_t n_first, cap_first;
	uint64_t n_switches;	/* that cut_keep has seen */
};

/* cut_points.c: walks the sync points of a queue. */
struct cut_point {
	uint64_t offset, time;
};

struct cut_points {
	const struct session *s;
	const struct queue *q;
	size_t i;		/* piece, or AUX record */
	const uint8_t *p;	/* in the piece; NULL: at its start */
};

#endif
