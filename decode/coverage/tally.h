/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: what ran as blocks and edges of files, by offset, so that it does not
 * matter where a file was loaded, nor how often; and what is made of that.
 */
#ifndef DECODE_COVERAGE_TALLY_H
#define DECODE_COVERAGE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct elfimage;
struct outbuf;
struct sink_host;
struct space;

/* A RANGE, without its place in the trace. */
struct cover_range {
	uint64_t first, last;
	uint32_t n;
	uint16_t flags;		/* AUX_FLOW_MODE_*, AUX_FLOW_SIZE_MASK */
	uint8_t what;		/* enum aux_range_end */
};

/* A file, by its recorded path and build id. */
struct cover_module {
	const char *path;	/* as recorded */
	uint8_t build_id[20];
	uint8_t build_id_size;
	uint8_t kind;		/* enum mapping_kind */
	uint16_t mode;		/* AUX_FLOW_MODE_* of its code */
	uint32_t pid;		/* that ran it first */
	uint64_t base, end;	/* of offset 0, where it was first met */
	struct elfimage *image;	/* NULL: there is none */
	uint64_t shift;		/* offsets in image: so much more */
	size_t block, n_blocks;	/* its part of blocks, sorted by offset */
	size_t edge, n_edges;	/* its part of edges, sorted by from, to */
};

/* Code that ran in one go, up to a branch. */
struct cover_block {
	uint64_t off;
	uint64_t n;
	uint32_t module;
	uint32_t size;
};

/* From a branch to where it went; of one that was not taken, behind it. */
struct cover_edge {
	uint64_t from, to;	/* offsets in their modules */
	uint64_t n;
	uint32_t module, to_module;
	uint8_t what;		/* enum aux_range_end */
};

struct cover_tally {
	const struct sink_host *host;
	const char *symbol;	/* --symbol; NULL: all */
	const char *only;	/* --module: path or name; NULL: all */
	struct cover_module *modules;
	size_t n_modules, cap_modules;
	struct cover_block *blocks;
	size_t n_blocks, cap_blocks;
	struct cover_edge *edges;
	size_t n_edges, cap_edges;
	uint64_t n_insns;	/* that came in */
	uint64_t n_homeless;	/* of them those of no file, or of others */
	uint64_t n_filtered;	/* those of other symbols */
	uint64_t n_mismatches;	/* ranges that do not fit the code */
	/* caches */
	const void *last_map[64];
	uint32_t last_module[64];
	struct walk *walk;
};

int cover_tally_init(struct cover_tally *t, const struct sink_host *host,
		     const char *symbol);
void cover_tally_fini(struct cover_tally *t);
/* A range that ran n times. 0 or -AUX_E_NOMEM, as the others. */
int cover_tally_range(struct cover_tally *t, const struct space *space,
		      const struct cover_range *r, uint64_t n);
/* Its branch at the end went to an address n times. */
int cover_tally_edge(struct cover_tally *t, const struct space *space,
		     const struct cover_range *r, uint64_t to, uint64_t n);
/* The same, where the code says where it goes. */
int cover_tally_end(struct cover_tally *t, const struct space *space,
		    const struct cover_range *r, uint64_t n);
/* Sorts, and adds up what is there twice. */
void cover_tally_sort(struct cover_tally *t);

#endif
