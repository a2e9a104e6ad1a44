/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of merge share; nobody else includes this. */
#ifndef DECODE_EDIT_MERGE_IMPL_H
#define DECODE_EDIT_MERGE_IMPL_H

#include "decode/edit/merge.h"

/* One AUXTRACE record, numbered as in the new file. */
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

/* A blob of AUX_OWN_CODE, and a digest of its bytes. */
struct merge_blob {
	uint64_t number, sum;
};

struct merge_input {
	const char *path;
	struct aux_reader *r;
	size_t order;		/* as given */
	/* found by merge_scan */
	uint32_t trace_type;
	const uint64_t *priv;
	uint32_t n_priv;
	struct aux_rec_time_conv conv;
	bool has_conv;
	uint64_t first_ns;	/* UINT64_MAX: no record has a time */
	struct merge_pieces pieces;	/* numbered as in the input */
	struct merge_blob *blobs;	/* by number */
	size_t n_blobs, cap_blobs;
	uint64_t max_blob;
	uint32_t n_snapshots, max_idx;
	struct aux_bytes ledger;
	bool damaged;
	struct aux_diag damage;
	/* how its numbers change */
	bool is_part;		/* of the recording of an earlier input */
	uint64_t id_add, blob_add;
	uint32_t idx_add;
	/* merging */
	struct aux_event ev;
	bool has_event;
	uint64_t key;		/* time of ev, or of the last that had one */
};

struct merge {
	struct merge_input *in;	/* by first_ns */
	size_t n;
	bool swapped;
	struct merge_pieces pieces;	/* of all; by idx, then offset */
	struct merge_stats stats;
	struct rewrite_bytes build_ids, ledger, source;
	uint8_t times[16];	/* AUX_FEAT_SAMPLE_TIME */
	struct merge_seen {	/* records by contents */
		uint64_t sum[2];
		uint64_t n;
	} *seen;
	size_t n_seen, cap_seen;	/* cap: a power of two */
	uint8_t *buf;		/* a record that is being changed */
};

/* merge_scan.c: reads an input once. -AUX_E_NOMEM at worst. */
int merge_scan(struct merge_input *in);
/* Can b be merged with a? -AUX_E_* with diag if not. */
int merge_check(const struct merge_input *a, const struct merge_input *b,
		struct aux_diag *diag);
/* Why b, which is no part of another recording, cannot be merged; or 0. */
int merge_check_apart(const struct merge_input *b, struct aux_diag *diag);

/* -AUX_E_NOMEM at worst. */
int merge_add_piece(struct merge_pieces *p, const struct merge_piece *piece);

/* merge_ids.c: the record of ev with the numbers of the new file. Its bytes are
 * valid until the next call. */
struct aux_bytes merge_renumber(struct merge *m, const struct merge_input *in,
				const struct aux_event *ev);

/* merge_seen.c: a digest of bytes */
uint64_t merge_digest(const void *p, size_t n);
/* True when an earlier input brought a record with these contents
 * as often already. oom: negative. */
int merge_is_seen(struct merge *m, size_t input, struct aux_bytes rec);

#endif
