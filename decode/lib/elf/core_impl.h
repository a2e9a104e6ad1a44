/* SPDX-License-Identifier: BSD-2-Clause */
/* What core.c keeps of a core file, for unwind.c. */
#ifndef DECODE_LIB_ELF_CORE_IMPL_H
#define DECODE_LIB_ELF_CORE_IMPL_H

#include "common/bytes.h"
#include "decode/lib/elf/core.h"

/* Memory that the file has. Bytes lie inside of it. */
struct core_segment {
	uint64_t start, len;
	const uint8_t *bytes;
};

struct core_file {
	uint64_t start, end, offset;
	const char *path;	/* in the file, ended by NUL */
};

struct elfcore {
	const uint8_t *data;
	uint64_t len;
	bool cut;
	uint32_t pid;
	struct elfcore_signal signal;
	struct elfcore_thread *threads;
	size_t n_threads, cap_threads;
	struct core_segment *segments;	/* by address */
	size_t n_segments, cap_segments;
	struct core_file *files;
	size_t n_files;
};

#endif
