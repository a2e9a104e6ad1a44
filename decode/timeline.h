/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: who ran where, and what was mapped when.
 *
 * One pass over the records builds it; then it never changes, so any chunk can
 * be decoded in any order (D3). Times are perf clock nanoseconds. Records of
 * equal time apply in file order; a record applies from its own time on.
 */
#ifndef AUXDECODE_TIMELINE_H
#define AUXDECODE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/reader.h>

struct timeline;

struct mapping {
	uint64_t start, end;	/* virtual addresses */
	uint64_t pgoff;		/* file offset of start */
	uint64_t time;		/* of the record that made it */
	const char *path;
	uint8_t build_id[20];
	uint8_t build_id_size;	/* 0: not recorded */
	uint32_t prot;
	const uint8_t *saved;	/* bytes the recorder saved, NULL: in the file */
	uint64_t saved_offset;	/* of saved, from the first blob byte */
};

/* Bytes of one AUX_OWN_CODE record. */
struct saved_code {
	const uint8_t *bytes;
	uint64_t len;
	uint64_t offset;	/* as mapping.saved_offset: behind the blobs of
				 * AUXKIT_CODE */
};

struct map_node;

/* An address space between two changes. Immutable. See space_next. */
struct space {
	uint64_t id;		/* equal id, equal contents; never 0 */
	uint32_t pid;
	uint64_t from, until;	/* ns, [from, until) */
	uint32_t n_maps;	/* without the kernel's */
	const struct map_node *root;	/* the process's, by address */
	const struct map_node *kernel;	/* what all processes share */
};

struct who {
	uint32_t pid, tid;	/* -1: nobody known; 0: idle */
	uint64_t until;		/* valid before this time; UINT64_MAX: for ever */
};

/* What the records say of the recording; counted by timeline_new. */
struct timeline_stats {
	uint64_t n_records;
	uint64_t n_lost;	/* records lost (LOST, LOST_SAMPLES) */
	uint64_t n_aux_flagged;	/* AUX records with TRUNCATED or PARTIAL */
	uint64_t n_throttled;
	uint64_t n_unordered;	/* mappings in place of others, nobody knows
				 * when: the code may be that of the others */
	uint64_t n_bad_code;	/* saved code that cannot be what it says */
	bool damaged;		/* reading ended with an error, in diag */
	struct aux_diag damage;
};

/* Reads all records (rewinds r first). Counts what it could not use. */
int timeline_new(struct timeline **tl, struct aux_reader *r,
		 struct aux_diag *diag);
void timeline_free(struct timeline *tl);

const struct timeline_stats *timeline_stats(const struct timeline *tl);

/* Saved code of records; NULL behind the last. */
const struct saved_code *timeline_saved(const struct timeline *tl, size_t i);

/* Who runs on a CPU at a time. */
struct who timeline_who(const struct timeline *tl, uint32_t cpu, uint64_t time);
/* Who took the stream of a thread over, by an exec; tid -1: nobody so far. */
struct who timeline_stream(const struct timeline *tl, uint32_t idx,
			   uint64_t time);
/* The process of a thread at a time; -1 when unknown. */
uint32_t timeline_pid(const struct timeline *tl, uint32_t tid, uint64_t time);
/* The thread's name at a time; never NULL. */
const char *timeline_comm(const struct timeline *tl, uint32_t tid,
			  uint64_t time);
/* The address space of a process at a time; never NULL, may be empty. Safe to
 * call from any thread; the space lives as long as the timeline. */
const struct space *timeline_space(const struct timeline *tl, uint32_t pid,
				   uint64_t time);
/* The mapping that contains addr, or NULL. */
const struct mapping *space_find(const struct space *s, uint64_t addr);
/* The process's first mapping that ends behind addr, or NULL: for walking. */
const struct mapping *space_next(const struct space *s, uint64_t addr);

/* TSC <-> perf clock, from AUXTRACE_INFO or TIME_CONV. mult 0: none known. */
const struct aux_clock *timeline_clock(const struct timeline *tl);
uint64_t clock_to_ns(const struct aux_clock *c, uint64_t tsc);
uint64_t clock_to_tsc(const struct aux_clock *c, uint64_t ns);
/* The first TSC whose time is ns or later. */
uint64_t clock_horizon(const struct aux_clock *c, uint64_t ns);

#endif
