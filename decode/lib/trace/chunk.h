/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunk_iter: walks the bytes of one queue, or of one CoreSight source in it, in
 * chunks that can be decoded alone, with the gaps between them.
 */
#ifndef DECODE_LIB_TRACE_CHUNK_H
#define DECODE_LIB_TRACE_CHUNK_H

#include "decode/lib/trace/trace.h"

/* What the PSB+ at the start of Intel PT bytes says. */
struct chunk_start {
	uint64_t tsc, ip;
	bool has_tsc, has_ip;
};

/* The last PSB in [p, end); NULL: there is none. */
const uint8_t *chunks_last_psb(const uint8_t *p, const uint8_t *end);

/* Where a chunk ends before its segment does. */
struct chunk_cut {
	uint64_t at, end_ip;
	bool continues;		/* the next chunk begins at end_ip */
	bool forced;		/* nowhere can it be cut well: at a PSB */
};

/* Where a chunk begins. */
struct chunk_place {
	size_t segment;
	struct chunk_cut cut;	/* before it; of a segment's first: only at */
	struct chunk_start start;	/* Intel PT: what its first PSB+ says */
};

/* What is wanted of a queue: from first on, up to end; all but segment and at are 0
 * where a segment begins. end.segment SIZE_MAX: to the end. */
struct chunk_span {
	struct chunk_place first, end;
};

/* Where pieces are put together; kept for the next ones. */
struct chunk_room {
	uint8_t *p;
	uint64_t size;
};

enum chunk_step { CHUNK_END = 0, CHUNK_DATA, CHUNK_GAP };

/* Walks one queue. For one thread; the queue may be shared, it is only read. */
struct chunk_iter {
	const struct queue *q;
	uint32_t trace_type;
	uint64_t chunk_min;
	size_t segment;		/* next one */
	size_t piece;		/* that holds at */
	uint64_t at;		/* in the segment: where the next chunk starts */
	bool held;		/* chunk waits until its gap was returned */
	bool forced;		/* the last chunk had to be cut anywhere */
	struct chunk_room joined;	/* chunk may be in it, up to the next step */
	bool lazy;		/* chunk.data may be NULL: chunk_iter_join */
	struct aux_chunk chunk;
	struct chunk_start start;	/* of chunk, if it is Intel PT */
	struct aux_flow gap;
	struct chunk_place end;	/* chunks from there on are not wanted */
	/* of one source */
	const struct chunk_source *source;	/* NULL: all bytes */
	const struct segment *now;	/* that chunk is of */
	bool anywhere;		/* the chunk may begin inside of a packet: no
				 * loss */
	const uint8_t *left;	/* frames of now */
	uint64_t n_left;
	uint64_t base;		/* where the chunk's first frame is */
	uint64_t part_max;	/* frames of a chunk end after so many bytes */
	bool reported;		/* bytes without a source were */
	struct cs_frame_pick pick;
};

/* chunk_min: a chunk may end after so many bytes; 0: CHUNK_MIN_DEFAULT. */
#define CHUNK_MIN_DEFAULT ((uint64_t)256 << 10)
void chunk_iter_init(struct chunk_iter *it, const struct queue *q,
		     uint32_t trace_type, uint64_t chunk_min);
void chunk_iter_fini(struct chunk_iter *it);
/*
 * A segment has a cell for each chunk_min of its bytes (Intel PT; else one); a gap
 * has none. find: where the chunk of a cell begins, which is the first place to
 * cut after its first byte: known without what is before. 0: none begins there;
 * -AUX_E_NOMEM. It leaves the iterator elsewhere.
 */
uint64_t chunk_iter_cells(const struct chunk_iter *it, const struct segment *segment);
int chunk_iter_find(struct chunk_iter *it, size_t segment, uint64_t cell,
		    struct chunk_place *place);
/* Only a part, before the first step. After chunk_iter_pick; of a source whole
 * segments. */
void chunk_iter_limit(struct chunk_iter *it, const struct chunk_span *span);
/* Only the bytes of one source, without frames. */
void chunk_iter_pick(struct chunk_iter *it, const struct chunk_source *source);
/* The bytes [from, to) of the stream were read and need not stay in memory. */
void chunks_release(const struct queue *q, const struct aux_reader *r,
		    uint64_t from, uint64_t to);
/* Where in the stream an event of the current chunk is. */
uint64_t chunk_iter_place(struct chunk_iter *it, uint64_t offset);
/* The same, and how many offsets from it on are contiguous. */
struct cs_frame_run chunk_iter_run(struct chunk_iter *it, uint64_t offset);
/* enum chunk_step (it->chunk or it->gap is filled), or -AUX_E_NOMEM. */
int chunk_iter_next(struct chunk_iter *it);
/* The bytes of a chunk that was given without (lazy); piece as it->piece was then.
 * -AUX_E_NOMEM. */
int chunk_iter_join(const struct chunk_iter *it, size_t piece,
		    struct aux_chunk *c, struct chunk_room *room);
/* The bytes [at, at + len) of a segment as it->chunk. -AUX_E_NOMEM. */
int chunk_iter_bytes(struct chunk_iter *it, uint64_t at, uint64_t len);

#endif
