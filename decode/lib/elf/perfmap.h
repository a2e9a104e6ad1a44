/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfmap: the names that a JIT compiler gave its code in /tmp/perf-PID.map.
 *
 * A line is "START SIZE NAME", both numbers hexadecimal, the name up to the end
 * of the line. There is no time in it: where entries overlap, the one that was
 * written later counts, for the whole recording. A line that is no entry is
 * skipped and counted.
 *
 * Specification: tools/perf/Documentation/jit-interface.txt of Linux.
 */
#ifndef DECODE_LIB_ELF_PERFMAP_H
#define DECODE_LIB_ELF_PERFMAP_H

#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

#define PERFMAP_MAX_BYTES   ((size_t)64 << 20)
#define PERFMAP_MAX_ENTRIES ((size_t)1 << 20)
#define PERFMAP_MAX_NAME    4096	/* longer names are cut */

struct perfmap;

struct perfmap_entry {
	uint64_t start, size;	/* size > 0, start + size does not wrap */
	const char *name;	/* lives as long as the map */
};

struct perfmap_info {
	size_t n_entries;
	size_t n_skipped;	/* lines that are no entry */
	size_t n_over;		/* entries, or bytes, beyond the limits */
};

/* data is copied. 0 or -AUX_E_NOMEM. */
int perfmap_new(struct perfmap **p, const uint8_t *data, size_t len);
void perfmap_free(struct perfmap *p);	/* accepts NULL */

const struct perfmap_info *perfmap_info(const struct perfmap *p);
/* The last entry that covers ip; NULL: none. */
const struct perfmap_entry *perfmap_find(const struct perfmap *p, uint64_t ip);

#endif
