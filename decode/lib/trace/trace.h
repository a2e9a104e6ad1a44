/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a recording has of trace: chunks, the AUX bytes of each queue, in order,
 * cut where decoding can start; csmeta, what made CoreSight trace; losses, what
 * the recorder says is missing.
 *
 * AUXTRACE records give the bytes, AUX records what the kernel said of them.
 * Holes, cuts and truncations come out as GAP events at their stream offset, in
 * order among the chunks, so nothing is lost silently.
 */
#ifndef DECODE_LIB_TRACE_TRACE_H
#define DECODE_LIB_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/reader.h>

#include "common/array.h"
#include "decode/lib/packet/packet.h"

/*
 * csmeta: what made the CoreSight trace of a file: AUXTRACE_INFO's blocks, one
 * for each source, and the AUX_OUTPUT_HW_ID records that say which trace id a
 * CPU had. With such records the ids of the blocks mean nothing.
 */

/* One block. */
struct csmeta_source {
	struct aux_etm_config etm;	/* trace_id: as the block says, or 0 */
	int32_t cpu;		/* -1: of no CPU */
	bool own;		/* auxkit's kind: no file of perf's */
};

/* One AUX_OUTPUT_HW_ID. */
struct csmeta_hw_id {
	uint32_t cpu;		/* -1: not known */
	uint32_t sink;
	uint8_t id;
	bool has_sink;
};

struct csmeta {
	uint32_t version;
	uint32_t pmu_type;
	bool snapshot;
	struct csmeta_source *sources;	/* in the file's order */
	size_t n_sources;
	struct csmeta_hw_id *ids;
	size_t n_ids, cap_ids;
};

/*
 * Takes the words apart; m is zeroed or has ids alone. -AUX_E_FORMAT, or
 * -AUX_E_UNSUPPORTED for a new version, with a diag that names the word; what
 * came before it stands.
 */
int csmeta_read(struct csmeta *m, const uint64_t *words, size_t n,
		struct aux_diag *diag);
/* A record's value and the CPU of its trailer (-1: none). -AUX_E_UNSUPPORTED
 * for a new major version, -AUX_E_FORMAT for what is no trace id. */
int csmeta_add_id(struct csmeta *m, uint64_t hw_id, uint32_t cpu,
		  struct aux_diag *diag);
void csmeta_fini(struct csmeta *m);

/* Who has a trace id in the stream of a CPU (-1: of a thread); NULL: none, or
 * the file contradicts itself. */
const struct csmeta_source *csmeta_find_id(const struct csmeta *m,
					   int32_t queue_cpu, unsigned id);
/* The source of raw trace of a CPU; NULL: not known. */
const struct csmeta_source *csmeta_find_cpu(const struct csmeta *m,
					    int32_t cpu);

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
	uint64_t ring_size;	/* overwritten ring; 0: unknown */
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
	uint64_t time;		/* 0: unknown */
	uint64_t number;	/* in the file, from 1 */
	uint32_t cpu, pid, tid;	/* -1: unknown */
};

/* Bytes without a break in them, or what is between two of those. */
struct segment {
	uint64_t offset, end;	/* in the stream; equal in a gap */
	size_t piece;		/* that holds offset */
	uint8_t gap;		/* enum aux_gap_cause or gap.h, 0: bytes */
	bool fresh;		/* bytes: a snapshot, which starts anywhere */
	uint64_t detail;	/* gap: bytes that are missing, 0 unknown */
	/* CoreSight: a segment is what one AUX record is about */
	size_t mark;		/* place in queue.marks + 1; 0: no record */
	bool raw;		/* not in frames */
	uint64_t ids[2];	/* bit i: there are bytes of trace id i */
};

/*
 * An AUX stream: all trace of one AUX buffer. The name is perf's
 * (auxtrace_queue); idx is the index in AUXTRACE records, by which the streams
 * of a recording are ordered. Filled by chunks_read(), segment.ids by
 * chunks_find_sources(); read-only from then on, so that all threads may share
 * it.
 */
struct queue {
	uint32_t idx;
	int32_t cpu, tid;	/* -1: none */
	struct piece *pieces;	/* by record order, by offset, disjoint */
	size_t n_pieces, cap_pieces;
	size_t n_settled;	/* pieces whose ring_end cannot change any more */
	struct aux_mark *marks;	/* by offset */
	size_t n_marks, cap_marks;
	struct loss_mark *losses;	/* by offset */
	size_t n_losses, cap_losses;
	bool snapshots;		/* pieces are of snapshots */
	bool sampled;		/* pieces are of samples, without an offset */
	bool rebased;		/* offsets are ours: marks do not fit them */
	bool part;		/* not all of its pieces are here */
	struct segment *segments;	/* by offset */
	size_t n_segments, cap_segments;
	uint64_t n_bytes;
	struct array_limit *memory;	/* of all queues: chunks.memory */
};

/*
 * CoreSight: what is decoded alone. In frames, a queue has one for each trace
 * id; raw, one for each CPU that its AUX records name.
 */
struct chunk_source {
	uint32_t queue;		/* place in chunks.queues */
	bool raw;
	bool first;		/* of the queue: reports bytes without a source */
	uint8_t id;		/* 0: raw, or no bytes at all */
	int32_t cpu;		/* that was traced; -1: not known */
	uint64_t n_bytes;	/* without frames */
	const struct csmeta_source *meta;	/* NULL: the file has none */
};

struct chunks {
	struct array_limit memory;
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
	/* CoreSight */
	struct csmeta cs;
	struct aux_diag cs_error;	/* code 0: cs is complete */
	struct chunk_source *sources;	/* by queue, then raw or by id */
	size_t n_sources, cap_sources;
	bool sources_found;
};

/*
 * One pass over the records. Damage ends the pass; what came before stands.
 * snapshot: the number of the one wanted, 0 all; -AUX_E_NOENT: there is none.
 * memory: bytes for the tables, 0 as many as it takes; -AUX_E_LIMIT: not enough.
 * c stays where it is until chunks_fini().
 */
int chunks_read(struct chunks *c, struct aux_reader *r, uint64_t snapshot,
		uint64_t memory, struct aux_diag *diag);
void chunks_fini(struct chunks *c);

/* segments.c: trims the pieces of a queue and fills its segments. */
int chunks_make_segments(struct queue *q);
/* Puts the losses among the segments; one gap at one place. */
int chunks_place_losses(struct queue *q);
/* snapshot.c: takes the common bytes of a queue's snapshots off the later
 * ones and gives all their place in one stream. By offset if trusted says that
 * offsets are true, else by what the packets of Intel PT say. */
void chunks_join_snapshots(struct queue *q, uint32_t trace_type, bool trusted);
/* segments.c: a record that says which id a CPU has; its words of
 * AUXTRACE_INFO, after the last record. What is wrong with them goes into
 * cs_error. */
void chunks_take_hw_id(struct chunks *c, const struct aux_event *ev);
void chunks_read_metadata(struct chunks *c);
/* Makes the segments of a queue those of its AUX records. */
int chunks_split_segments(struct chunks *c, struct queue *q);
/* Fills sources: one pass over all bytes, the first time. -AUX_E_NOMEM. */
int chunks_find_sources(struct chunks *c);
/* The CPU that a raw segment is of; -1: not known. */
int32_t chunks_raw_cpu(const struct queue *q, const struct segment *segment);
/* First and last TSC in Intel PT; false: there is none. */
bool chunks_tsc_span(const uint8_t *p, const uint8_t *end, uint64_t *first,
		     uint64_t *last);

/*
 * losses: what the recorder says was lost: its ledger, from the feature section
 * or the last one among the records, else the sum of the losses that it
 * reported.
 */

enum losses_origin {
	LOSSES_NONE = 0,	/* the file says nothing */
	LOSSES_SECTION,		/* the feature section */
	LOSSES_RECORD,		/* the last AUX_OWN_LEDGER */
	LOSSES_SUMMED,		/* of AUX_OWN_LOSS: nothing of what was saved */
};

struct losses {
	struct aux_ledger_entry *e;
	uint32_t n;
	uint8_t origin;		/* enum losses_origin */
	bool bad;		/* there is a ledger that cannot be read */
	uint32_t version;
};

/* c: of the same file, as read. -AUX_E_NOMEM at worst. */
int losses_read(struct losses *l, const struct aux_reader *r,
		const struct chunks *c);
void losses_fini(struct losses *l);

/* By enum aux_ledger_cause. */
struct loss_text {
	const char *one, *many;	/* what is counted */
	const char *info;	/* after "5 bytes ", in a stream's line */
	const char *verdict;	/* the same with what to do; NULL: no loss */
	bool bytes;		/* counts bytes: 0 of n losses is unknown */
};

/* NULL: a cause that this build does not know. */
const struct loss_text *losses_text(uint32_t cause);

/*
 * chunk_iter: walks the bytes of one queue, or of one CoreSight source in it,
 * in chunks that can be decoded alone, with the gaps between them.
 */

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

/* What is wanted of a queue: from first on, up to end; all but segment and at
 * are 0 where a segment begins. end.segment SIZE_MAX: to the end. */
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
	uint16_t errata;	/* ptpkt_errata of the CPU; may be set after init */
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
 * A segment has a cell for each chunk_min of its bytes (Intel PT; else one); a
 * gap has none. find: where the chunk of a cell begins, which is the first
 * place to cut after its first byte: known without what is before. 0: none
 * begins there; -AUX_E_NOMEM. It leaves the iterator elsewhere.
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
/* The bytes of a chunk that was given without (lazy); piece as it->piece was
 * then. -AUX_E_NOMEM. */
int chunk_iter_join(const struct chunk_iter *it, size_t piece,
		    struct aux_chunk *c, struct chunk_room *room);
/* The bytes [at, at + len) of a segment as it->chunk. -AUX_E_NOMEM. */
int chunk_iter_bytes(struct chunk_iter *it, uint64_t at, uint64_t len);

#endif
