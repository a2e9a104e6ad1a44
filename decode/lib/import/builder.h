/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_build: writes a perf.data in a temporary file, and opens it.
 *
 * What other recorders wrote (snapshot directories, bundles, raw buffers) becomes
 * one, so that everything after the reader is the same for all. Errors stick:
 * after the first one nothing is written, and container_build_open returns it.
 * Specification: perf.data-file-format.txt.
 */
#ifndef DECODE_LIB_IMPORT_BUILDER_H
#define DECODE_LIB_IMPORT_BUILDER_H

#include <linux/perf_event.h>

#include <aux/perfdata.h>
#include <aux/reader.h>

#include "decode/lib/import/import.h"
#include "perfdata/rewrite.h"

#define CONTAINER_PMU 8		/* attr.type of the trace's event */
#define CONTAINER_STREAMS 4096	/* at most */
#define CONTAINER_USES 16	/* of one file, so that a small description does
				 * not fill the disk */
#define CONTAINER_FEATURES 8	/* at most */

/* The trailer of a record; cpu, pid, tid -1: none. */
struct container_who {
	uint32_t pid, tid, cpu;
	uint64_t time;	/* ns; 0: from the beginning */
};

/* Bytes of a file that lie at an address, in pid (-1: in all). */
struct container_map {
	uint32_t pid;
	uint64_t addr, len, pgoff;
	const char *path;	/* absolute */
	uint8_t build_id[20];
	uint8_t build_id_size;	/* 0: not known */
};

/* One AUX stream: an event id, a queue, and the bytes of one buffer. */
struct container_stream {
	struct container_who who;	/* tid with cpu -1: of a thread */
	const void *data;
	uint64_t len;
	uint64_t flags;		/* of its AUX record */
	const struct container_file *file;	/* that the bytes come from */
};

struct container_use {
	uint64_t dev, ino;
	unsigned n;
};

struct container_build {
	struct rewrite *w;
	uint64_t config;	/* of the trace's event */
	const char *event;	/* its name */
	bool timed;		/* records have times; set it before the first */
	struct container_who *streams;	/* id - 1 is the index */
	struct container_use *uses;	/* as many as streams, at most */
	size_t n_streams, cap_streams, n_uses, cap_uses;
	struct rewrite_bytes features[CONTAINER_FEATURES];
	size_t n_features;
};

/* event: the PMU's name, which lives longer than b. Call fini after an error, too,
 * and nothing else. */
int container_build_init(struct container_build *b, const char *event,
			 uint64_t config, struct aux_diag *diag);
void container_build_fini(struct container_build *b);

/* A string of AUX_FEAT_*, CPUID say. */
void container_build_feature(struct container_build *b, unsigned bit,
			     const char *text);
/* Words of AUXTRACE_INFO, which comes first. */
void container_build_info(struct container_build *b, uint32_t type,
			  const uint64_t *priv, size_t n);
/* Then the processes and what they map. */
void container_build_comm(struct container_build *b, struct container_who who,
			  const char *comm);
void container_build_map(struct container_build *b,
			 const struct container_map *m);
/* who runs on its CPU from the beginning. */
void container_build_runs(struct container_build *b, struct container_who who);
/* A record of the kernel: SWITCH_CPU_WIDE, LOST. body: without the trailer. */
void container_build_record(struct container_build *b, uint32_t type,
			    uint16_t misc, const void *body, size_t len,
			    struct container_who who);
/* Then the streams: an AUX record and an AUXTRACE. Queues count from 0. */
void container_build_stream(struct container_build *b,
			    const struct container_stream *s);

/* Completes the file and opens it; name is for messages. */
int container_build_open(struct container_build *b, struct aux_reader **r,
			 const char *name, struct aux_diag *diag);

#endif
