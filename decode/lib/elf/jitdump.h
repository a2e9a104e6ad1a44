/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jitdump: the code that a JIT compiler made, as it logged it.
 *
 * Specification: tools/perf/Documentation/jitdump-specification.txt of Linux.
 * Either byte order. Nothing in the file is trusted: the first record that does
 * not fit ends the list; the records before it count.
 */
#ifndef DECODE_LIB_ELF_JITDUMP_H
#define DECODE_LIB_ELF_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct jitdump;

struct jitdump_code {
	uint64_t time;		/* by the file's own clock */
	uint64_t addr, size;	/* size > 0, addr + size does not wrap */
	const uint8_t *bytes;	/* size of them, in the file */
	uint64_t offset;	/* of bytes in the file */
	const char *name;
	uint64_t index;		/* what MOVE calls it by */
};

struct jitdump_info {
	uint32_t pid;		/* in its own namespace */
	uint32_t machine;	/* EM_* */
	bool arch_clock;	/* times are the CPU's counter; else ns */
	bool closed;		/* CLOSE was met */
	uint64_t n_skipped;	/* MOVE of unknown code, empty code */
	struct aux_diag damage;	/* code 0: the file is whole */
};

/*
 * data outlives it. 0, -AUX_E_FORMAT or -AUX_E_UNSUPPORTED (diag says why: no
 * jitdump, another version), -AUX_E_NOMEM.
 */
int jitdump_new(struct jitdump **j, const uint8_t *data, size_t len,
		struct aux_diag *diag);
void jitdump_free(struct jitdump *j);

const struct jitdump_info *jitdump_info(const struct jitdump *j);
/* Code as it was loaded or moved to, in the order of the file; NULL past the
 * last. */
const struct jitdump_code *jitdump_code(const struct jitdump *j, size_t i);

#endif
