/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * csmeta: what made the CoreSight trace of a file: AUXTRACE_INFO's blocks, one
 * for each source, and the AUX_OUTPUT_HW_ID records that say which trace id a
 * CPU had. With such records the ids of the blocks mean nothing.
 */
#ifndef DECODE_LIB_TRACE_CSMETA_H
#define DECODE_LIB_TRACE_CSMETA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>

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
/* A record's value and the CPU of its trailer (-1: none). -AUX_E_UNSUPPORTED for
 * a new major version, -AUX_E_FORMAT for what is no trace id. */
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

#endif
