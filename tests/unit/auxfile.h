/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxfile.h: what a recording of ours has of AUX data and switches. The file is
 * trusted.
 */
#ifndef TESTS_UNIT_AUXFILE_H
#define TESTS_UNIT_AUXFILE_H

#include "tests/unit/recordfile.h"

struct sw {
	uint64_t time;
	uint32_t cpu, tid;
};

struct aux_record {
	uint64_t offset, size, flags;
	uint32_t cpu;
};

struct auxfile {
	struct recordfile file;
	struct sw sw[100000];
	size_t n_sw;
	struct aux_record rec[20000];	/* AUX records and, below, their bytes */
	const uint8_t *bytes[20000];
	uint64_t offset[20000];		/* as AUXTRACE says */
	uint32_t idx[20000], tid[20000];
	size_t n_rec, n_bytes, n_hw_id;
};

static void auxfile_take(void *ctx, const struct perf_event_header *h,
			 const uint8_t *p)
{
	struct auxfile *f = ctx;
	struct aux_rec_auxtrace a;
	struct sw *sw = &f->sw[f->n_sw];
	uint64_t v[3];

	if (h->type == PERF_RECORD_AUX) {
		memcpy(v, p + 8, sizeof(v));
		f->rec[f->n_rec].offset = v[0];
		f->rec[f->n_rec].size = v[1];
		f->rec[f->n_rec].flags = v[2];
		memcpy(&f->rec[f->n_rec++].cpu, p + 8 + 24 + 16, 4);
	} else if (h->type == AUX_RECORD_AUXTRACE) {
		memcpy(&a, p + 8, sizeof(a));
		f->offset[f->n_bytes] = a.offset;
		f->idx[f->n_bytes] = a.idx;
		f->tid[f->n_bytes] = a.tid;
		f->bytes[f->n_bytes++] = p + 48;
	} else if (h->type == PERF_RECORD_SWITCH &&
		   !(h->misc & PERF_RECORD_MISC_SWITCH_OUT)) {
		memcpy(&sw->tid, p + 8 + 4, 4);
		memcpy(&sw->time, p + 8 + 8, 8);
		memcpy(&sw->cpu, p + 8 + 16, 4);
		f->n_sw++;
	}
	f->n_hw_id += h->type == 21;
}

static bool auxfile_read(struct auxfile *f, const char *path)
{
	memset(f, 0, sizeof(*f));
	return recordfile_read(&f->file, path, auxfile_take, f) &&
	       f->n_rec == f->n_bytes;
}

static void auxfile_free(struct auxfile *f)
{
	recordfile_free(&f->file);
}

#endif
