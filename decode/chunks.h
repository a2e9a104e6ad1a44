/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunks: the AUX bytes of each queue, in order, cut where decoding can start.
 *
 * AUXTRACE records give the bytes, AUX records what the kernel said of them.
 * Holes, cuts and truncations come out as GAP events at their stream offset, in
 * order among the chunks, so nothing is lost silently.
 */
#ifndef AUXDECODE_CHUNKS_H
#define AUXDECODE_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/reader.h>

/* Bytes of one AUXTRACE record. */
struct piece {
	uint64_t offset;	/* in the stream */
	const uint8_t *data;
	uint64_t len;		/* without padding */
	uint64_t file_offset;
	uint64_t reference;
	bool clipped;		/* the file ends inside */
};

/* What an AUX record says of the stream. */
struct aux_mark {
	uint64_t offset, size;
	uint64_t flags;		/* PERF_AUX_FLAG_* */
	uint64_t time;
};

/* Bytes without a break in them, or what is between two of those. */
struct run {
	uint64_t offset, end;	/* in the stream; equal in a gap */
	size_t piece;		/* that holds offset */
	uint8_t gap;		/* enum aux_gap_cause, 0: bytes */
};

struct queue {
	uint32_t idx;
	int32_t cpu, tid;	/* -1: none */
	struct piece *pieces;	/* by record order, by offset, disjoint */
	size_t n_pieces, cap_pieces;
	struct aux_mark *marks;	/* by offset */
	size_t n_marks, cap_marks;
	struct run *runs;	/* by offset */
	size_t n_runs, cap_runs;
	uint64_t n_bytes;
};

struct chunks {
	struct queue *queues;	/* by idx */
	size_t n, cap;
	uint32_t trace_type;	/* of AUXTRACE_INFO; 0: none in the file */
	const uint64_t *metadata;
	uint32_t n_metadata;
	uint64_t aux_bytes;
	uint64_t n_orphan_aux;	/* AUX records of bytes that are not here */
};

/* One pass over the records. Damage ends the pass; what came before stands. */
int chunks_read(struct chunks *c, struct aux_reader *r, struct aux_diag *diag);
void chunks_fini(struct chunks *c);

/* chunks_cut.c: trims the pieces of a queue and fills its runs. */
int chunks_make_runs(struct queue *q);

enum chunk_step { CHUNK_END = 0, CHUNK_DATA, CHUNK_GAP };

/* chunks_iter.c: walks one queue. */
struct chunk_iter {
	const struct queue *q;
	uint32_t trace_type;
	uint64_t chunk_min;
	size_t run;		/* next one */
	size_t piece;		/* that holds at */
	uint64_t at;		/* in the run: where the next chunk starts */
	bool held;		/* chunk waits behind a gap */
	uint8_t *joined;	/* pieces put together, freed on the next step */
	struct aux_chunk chunk;
	struct aux_flow gap;
};

/* chunk_min: a chunk may end behind so many bytes; 0: CHUNK_MIN_DEFAULT. */
#define CHUNK_MIN_DEFAULT ((uint64_t)8 << 20)
void chunk_iter_init(struct chunk_iter *it, const struct queue *q,
		     uint32_t trace_type, uint64_t chunk_min);
void chunk_iter_fini(struct chunk_iter *it);
/* enum chunk_step (it->chunk or it->gap is filled), or -AUX_E_NOMEM. */
int chunk_iter_next(struct chunk_iter *it);

/* First PSB in [p, end), or NULL. */
const uint8_t *chunks_find_psb(const uint8_t *p, const uint8_t *end);

#endif
