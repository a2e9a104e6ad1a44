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

/* Bytes of one AUXTRACE record, or of a sample. */
struct piece {
	uint64_t offset;	/* in the stream */
	const uint8_t *data;
	uint64_t len;		/* without padding */
	uint64_t file_offset;
	uint64_t reference;
	bool clipped;		/* the file ends inside, or it is damaged */
	bool exact;		/* no padding in len */
	bool fresh;		/* not the continuation of the one before */
	uint32_t snapshot;	/* place in chunks.snapshots + 1; 0: of none */
	size_t n_before;	/* AUX records before it in the file */
	uint64_t ring_end;	/* where the last of these ended in an */
	uint64_t ring_size;	/* overwritten ring; 0: not told */
	uint64_t first_ns;	/* of those since the piece before: when they */
	uint64_t last_ns;	/* came; 0: there is none */
};

/* One snapshot, as the recorder says or as the AUXTRACE records look. */
struct snapshot {
	uint64_t number;	/* from 1 */
	uint64_t time_ns;	/* 0: unknown */
	uint32_t reason;	/* enum aux_snapshot_reason, 0: not said */
	struct aux_bytes label;
};

/* Something is missing before the byte at offset. */
struct loss_mark {
	uint64_t offset, bytes;	/* bytes 0: unknown */
	uint8_t gap;		/* a cause of a GAP */
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
	uint8_t gap;		/* enum aux_gap_cause or gap.h, 0: bytes */
	bool fresh;		/* bytes: a snapshot, which starts anywhere */
	uint64_t detail;	/* gap: bytes that are missing, 0 unknown */
};

struct queue {
	uint32_t idx;
	int32_t cpu, tid;	/* -1: none */
	struct piece *pieces;	/* by record order, by offset, disjoint */
	size_t n_pieces, cap_pieces;
	size_t n_told;		/* pieces whose ring_end cannot change any more */
	struct aux_mark *marks;	/* by offset */
	size_t n_marks, cap_marks;
	struct loss_mark *losses;	/* by offset */
	size_t n_losses, cap_losses;
	bool snapshots;		/* pieces are of snapshots */
	bool sampled;		/* pieces are of samples, without an offset */
	bool rebased;		/* offsets are ours: marks do not fit them */
	bool part;		/* not all of its pieces are here */
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
	uint64_t n_damaged;	/* AUXTRACE records that cannot be unpacked */
	struct snapshot *snapshots;	/* in the order of the file */
	size_t n_snapshots, cap_snapshots;
	bool own_snapshots;	/* the recorder was ours: offsets are true */
	bool snapshot_mode;	/* AUXTRACE_INFO says so */
	bool sampling;		/* an event's samples bring the newest trace */
	uint64_t n_samples;	/* that did; each is a piece of its own */
	struct aux_own_loss *losses;
	size_t n_losses, cap_losses;
	struct aux_bytes ledger;	/* of the last AUX_OWN_LEDGER */
};

/*
 * One pass over the records. Damage ends the pass; what came before stands.
 * snapshot: the number of the one wanted, 0 all; -AUX_E_NOENT: there is none.
 */
int chunks_read(struct chunks *c, struct aux_reader *r, uint64_t snapshot,
		struct aux_diag *diag);
void chunks_fini(struct chunks *c);

/* chunks_cut.c: trims the pieces of a queue and fills its runs. */
int chunks_make_runs(struct queue *q);
/* chunks_loss.c: puts the losses among the runs; one gap at one place. */
int chunks_place_losses(struct queue *q);
/* chunks_snap.c: takes the common bytes of a queue's snapshots off the later
 * ones and gives all their place in one stream. By offset if trusted says that
 * offsets are true, else by what the packets of Intel PT say. */
void chunks_join_snapshots(struct queue *q, uint32_t trace_type, bool trusted);
/* First and last TSC in Intel PT; false: there is none. */
bool chunks_tsc_span(const uint8_t *p, const uint8_t *end, uint64_t *first,
		     uint64_t *last);

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
	bool forced;		/* the last chunk had to be cut anywhere */
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

#endif
