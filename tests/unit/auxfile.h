/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxfile.h: what a recording of ours has of AUX data and switches, read with as
 * little code as can be. The file is trusted.
 */
#ifndef TESTS_UNIT_AUXFILE_H
#define TESTS_UNIT_AUXFILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/perf_event.h>

#include <aux/perfdata.h>

struct sw {
	uint64_t time;
	uint32_t cpu, tid;
};

struct aux_record {
	uint64_t offset, size, flags;
	uint32_t cpu;
};

struct auxfile {
	uint8_t *map;
	size_t size;
	struct sw sw[100000];
	size_t n_sw;
	struct aux_record rec[20000];	/* AUX records and, below, their bytes */
	const uint8_t *bytes[20000];
	uint32_t idx[20000], tid[20000];
	size_t n_rec, n_bytes, n_hw_id;
};

static void auxfile_record(struct auxfile *f, const uint8_t *p)
{
	struct perf_event_header h;
	struct aux_rec_auxtrace a;
	struct sw *sw = &f->sw[f->n_sw];
	uint64_t v[5];

	memcpy(&h, p, sizeof(h));
	memcpy(v, p + 8, sizeof(v));
	if (h.type == PERF_RECORD_AUX) {
		f->rec[f->n_rec].offset = v[0];
		f->rec[f->n_rec].size = v[1];
		f->rec[f->n_rec].flags = v[2];
		memcpy(&f->rec[f->n_rec++].cpu, p + 8 + 24 + 16, 4);
	} else if (h.type == AUX_RECORD_AUXTRACE) {
		memcpy(&a, p + 8, sizeof(a));
		f->idx[f->n_bytes] = a.idx;
		f->tid[f->n_bytes] = a.tid;
		f->bytes[f->n_bytes++] = p + 48;
	} else if (h.type == PERF_RECORD_SWITCH &&
		   !(h.misc & PERF_RECORD_MISC_SWITCH_OUT)) {
		memcpy(&sw->tid, p + 8 + 4, 4);
		memcpy(&sw->time, p + 8 + 8, 8);
		memcpy(&sw->cpu, p + 8 + 16, 4);
		f->n_sw++;
	}
	f->n_hw_id += h.type == 21;
}

static bool auxfile_read(struct auxfile *f, const char *path)
{
	struct aux_file_header head;
	struct stat sb;
	int fd = open(path, O_RDONLY);
	uint8_t *p, *end;

	memset(f, 0, sizeof(*f));
	if (fd < 0 || fstat(fd, &sb))
		return false;
	f->size = (size_t)sb.st_size;
	f->map = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (f->map == MAP_FAILED)
		return false;
	memcpy(&head, f->map, sizeof(head));
	p = f->map + head.data.offset;
	end = p + head.data.size;
	while (p < end) {
		struct perf_event_header h;
		uint64_t payload = 0;

		memcpy(&h, p, sizeof(h));
		if (h.type == AUX_RECORD_AUXTRACE)
			memcpy(&payload, p + 8, 8);
		auxfile_record(f, p);
		p += h.size + payload;
	}
	return p == end && f->n_rec == f->n_bytes;
}

static void auxfile_free(struct auxfile *f)
{
	munmap(f->map, f->size);
}

#endif
