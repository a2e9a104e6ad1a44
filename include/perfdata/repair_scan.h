/* SPDX-License-Identifier: BSD-2-Clause */
/* The walk over the records of a file that may end anywhere. */
#ifndef PERFDATA_REPAIR_SCAN_H
#define PERFDATA_REPAIR_SCAN_H

#include "perfdata/repair.h"
#include "perfdata/writer_impl.h"

struct repair_scan {
	const char *path;
	int fd;
	uint64_t file_size;
	struct aux_file_header h;
	uint64_t end;		/* behind the last whole record */
	struct repair_result *r;
	struct writer *w;	/* takes what the features need; NULL: nobody */
	uint64_t clip;		/* of the last record's trace, what is there; or 0 */
	uint64_t clip_at;	/* where that record begins */
	bool marked;		/* the loss at the end is told already */
	uint64_t last_ns;
	/* private */
	uint8_t *buf;
	uint64_t buf_start;
	size_t buf_len;
	bool zstd;		/* COMPRESSED records */
	struct repair_unzip *unzip;
	uint8_t *section;	/* of AUX_OWN_PIECEs, as far as they came */
	uint64_t section_len;
	bool has_time;		/* records end with time, at time_back */
	unsigned time_back;
	int time_front;		/* in a SAMPLE, -1: not known */
};

/* Walks from the start of the data. On damage that is no early end: -AUX_E_FORMAT. */
int repair_scan(struct repair_scan *s, struct aux_diag *diag);
/* A record, compressed or not, for what the features need. */
void repair_take(struct repair_scan *s, const uint8_t *p, size_t size);

/* repair_zstd.c, repair_nozstd.c */
/* Hands what is in a COMPRESSED or COMPRESSED2 record to repair_take. False: it
 * cannot be read. */
bool repair_inflate(struct repair_scan *s, const uint8_t *p, size_t size);
void repair_inflate_end(struct repair_scan *s);

#endif
