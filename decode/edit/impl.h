/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to decode/edit: what the two files of bundle, the two of cut and the three
 * of merge share. The three commands share no state with each other.
 */
#ifndef DECODE_EDIT_IMPL_H
#define DECODE_EDIT_IMPL_H

#include "decode/edit/edit.h"
#include "decode/lib/trace/trace.h"

/*
 * The highest PERF_RECORD_* of the kernel that carries a sample_id trailer as
 * the reader knows it (PERF_RECORD_CALLCHAIN_DEFERRED). Types from 64 on belong
 * to perf's user space and have none.
 */
#define LAST_KERNEL_TYPE 22

/* ---- bundle ---- */

#define BUNDLE_PAGE 4096

/*
 * A page of code that was used: which bytes were at which address of which process,
 * and since when. bytes and region point into a file that codeview keeps mapped for
 * as long as the session lives; the page owns nothing.
 */
struct bundle_page {
	uint64_t addr, len;	/* runtime address; at most BUNDLE_PAGE bytes */
	uint64_t time;		/* ns: when it was mapped, or forked */
	const uint8_t *bytes;
	const uint8_t *region, *region_end; /* the whole mapping around bytes */
	const struct space *space;	/* any one in which it was used */
	uint32_t pid;		/* -1: the kernel */
	uint32_t kind;		/* enum aux_code_kind */
};

/* A FORK record of a process (not of a thread): pid starts as a copy at time. */
struct bundle_fork {
	uint64_t time;
	uint32_t pid;
};

/*
 * A direct-mapped cache of addresses [lo, hi] that are noted already, or that have
 * no code. Most ranges of a flow hit it, so the mapping is rarely looked up.
 */
struct bundle_slot {
	const struct space *space;
	uint64_t lo, hi;
};
#define BUNDLE_SLOTS 4096

struct bundle {
	struct session *s;
	struct bundle_page *pages;
	size_t n_pages, cap_pages;
	uint32_t *slots;	/* hash table of pages: index + 1, 0: free */
	size_t n_slots;		/* a power of two, or 0 */
	struct bundle_fork *forks;	/* by pid, then time */
	size_t n_forks, cap_forks;
	uint64_t blob;		/* the first blob number the input does not use */
	uint64_t n_insns;
	bool oom;		/* sticky; bundle_write reports it */
	struct bundle_slot known[BUNDLE_SLOTS];
};

/*
 * bundle.c: writes the symbols of len bytes of code that start at page, as a decode
 * on this machine would name them. The bytes are contiguous in one mapping. Adds to
 * *n_symbols. 0, or -AUX_E_NOMEM.
 */
int bundle_write_names(struct bundle *b, struct rewrite *w,
		       const struct bundle_page *page, uint64_t len,
		       uint64_t *n_symbols);

/* ---- cut ---- */

/* [from, to): byte offsets in a stream, or times in ns. */
struct cut_span {
	uint64_t from, to;
};

struct cut_queue {
	const struct queue *q;
	struct cut_span *kept;	/* byte offsets; ascending and disjoint */
	size_t n, cap;
};

/*
 * The last context switch of a CPU before from_ns: without it a decode of the cut
 * would not know which thread that CPU runs first. number counts the switches of the
 * file from 1, in file order.
 */
struct cut_switch {
	uint32_t cpu;
	uint64_t time, number;
};

struct cut {
	struct session *s;
	struct cut_wanted wanted;
	struct cut_queue *queues;
	size_t n;
	bool several;		/* some stream has more than one span */
	uint64_t from_ns, to_ns; /* time covered by the spans of all streams */
	struct cut_switch *first;	/* one for each CPU, unordered */
	size_t n_first, cap_first;
	uint64_t n_switches;	/* that cut_keep has seen so far */
};

/*
 * cut.c: true for a context switch, either PERF_RECORD_SWITCH(_CPU_WIDE) or a
 * sample of the tracepoint sched:sched_switch.
 */
bool cut_is_switch(const struct aux_event *ev);

/* ---- merge ---- */

/* One AUXTRACE record. h.idx is the stream number of the output once it is in
 * merge.pieces, and that of the input in merge_input.pieces. data points into the
 * mapped input. */
struct merge_piece {
	struct aux_rec_auxtrace h;	/* size: bytes of data */
	const uint8_t *data;
	uint32_t input;
	uint32_t snapshot;	/* of its input, from 1; 0: none */
};

struct merge_pieces {
	struct merge_piece *v;
	size_t n, cap;
};

/* A blob of AUX_OWN_CODE: its number in the input and merge_digest of its bytes. */
struct merge_blob {
	uint64_t number, sum;
};

struct merge_input {
	const char *path;
	struct aux_reader *r;
	size_t order;		/* index on the command line */
	/* set by merge_scan */
	uint32_t trace_type;
	const uint64_t *priv;
	uint32_t n_priv;
	struct aux_rec_time_conv conv;
	bool has_conv;
	uint64_t first_ns;	/* UINT64_MAX: no record has a time */
	struct merge_pieces pieces;	/* h.idx: as in the input */
	struct merge_blob *blobs;	/* sorted by number */
	size_t n_blobs, cap_blobs;
	uint64_t max_blob;
	uint32_t n_snapshots, max_idx;
	struct aux_bytes ledger;
	bool damaged;
	struct aux_diag damage;
	/* set by numbering: what is added to ids, blobs and stream numbers */
	bool is_part;		/* of the same recording as an earlier input */
	uint64_t id_add, blob_add;
	uint32_t idx_add;
	/* state of merge_write */
	struct aux_event ev;
	bool has_event;
	uint64_t key;		/* merge key: the highest time up to ev */
};

struct merge {
	struct merge_input *in;	/* sorted by first_ns */
	size_t n;
	bool swapped;
	struct merge_pieces pieces;	/* of all inputs; by idx, then offset */
	struct merge_stats stats;
	struct rewrite_bytes build_ids, ledger, source;
	uint8_t times[16];	/* body of AUX_FEAT_SAMPLE_TIME */
	struct merge_seen {	/* hash table of record contents */
		uint64_t sum[2];	/* sum[0] is 0 in a free slot */
		uint64_t n;	/* how often these contents occurred */
	} *seen;
	size_t n_seen, cap_seen;	/* cap: a power of two */
	uint8_t *buf;		/* 64 KB: the record that is being edited */
};

/* merge_scan.c: reads an input to its end and fills the fields above. A damaged
 * input is no error: damaged is set then. 0, or -AUX_E_NOMEM. */
int merge_scan(struct merge_input *in);
/* merge_scan.c: 0 if b can be merged with a, else -AUX_E_* with diag. */
int merge_check(const struct merge_input *a, const struct merge_input *b,
		struct aux_diag *diag);
/* merge_scan.c: the same for b as a recording of its own, that is with streams
 * that no other input continues. */
int merge_check_apart(const struct merge_input *b, struct aux_diag *diag);

/* merge.c: appends a copy of *piece. 0, or -AUX_E_NOMEM. */
int merge_add_piece(struct merge_pieces *p, const struct merge_piece *piece);

/* merge.c: the record of ev with the ids, stream and blob numbers of the output. The
 * bytes are those of the input if nothing changes, else m->buf: valid until the next
 * call. */
struct aux_bytes merge_renumber(struct merge *m, const struct merge_input *in,
				const struct aux_event *ev);

/* merge.c: 64 bits that stand for n bytes. Not cryptographic. */
uint64_t merge_digest(const void *p, size_t n);
/* merge.c: 1 if earlier inputs brought a record with these contents at least as often
 * as this input so far (it is a repetition), 0 if not, or -AUX_E_NOMEM. Each
 * call counts. */
int merge_is_seen(struct merge *m, size_t input, struct aux_bytes rec);

#endif
