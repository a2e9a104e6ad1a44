/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recordfile.h: the records of a recording of ours, one by one, with as little
 * code as can be. The file is trusted.
 */
#ifndef TESTS_UNIT_RECORDFILE_H
#define TESTS_UNIT_RECORDFILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/perf_event.h>

#include <aux/perfdata.h>

struct recordfile {
	uint8_t *map;
	size_t size;
};

/* p is the record, its header included; what AUXTRACE has is behind it. */
typedef void recordfile_fn(void *ctx, const struct perf_event_header *h,
			   const uint8_t *p);

/* False: no file, or its records do not end where its data do. */
static bool recordfile_read(struct recordfile *f, const char *path,
			    recordfile_fn *take, void *ctx)
{
	struct aux_file_header head;
	struct stat sb;
	int fd = open(path, O_RDONLY);
	uint8_t *p, *end;

	*f = (struct recordfile){ NULL, 0 };
	if (fd < 0 || fstat(fd, &sb))
		return false;
	p = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return false;
	*f = (struct recordfile){ p, (size_t)sb.st_size };
	memcpy(&head, p, sizeof(head));
	p += head.data.offset;
	end = p + head.data.size;
	while (p < end) {
		struct perf_event_header h;
		uint64_t payload = 0;

		memcpy(&h, p, sizeof(h));
		if (h.size < sizeof(h))
			return false;
		if (h.type == AUX_RECORD_AUXTRACE)
			memcpy(&payload, p + 8, 8);
		take(ctx, &h, p);
		p += h.size + payload;
	}
	return p == end;
}

static void recordfile_free(struct recordfile *f)
{
	if (f->map)
		munmap(f->map, f->size);
	*f = (struct recordfile){ NULL, 0 };
}

#endif
