/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of bundle share; nobody else includes this. */
#ifndef DECODE_EDIT_BUNDLE_IMPL_H
#define DECODE_EDIT_BUNDLE_IMPL_H

#include "decode/edit/bundle.h"

#define BUNDLE_PAGE 4096

/* A page that was used: which bytes lay where, in which process, from when on. */
struct bundle_page {
	uint64_t addr, len;
	uint64_t time;		/* from when on; of the mapping, or the fork */
	const uint8_t *bytes;
	const uint8_t *region, *region_end;	/* of the mapping, in bytes' file */
	const struct space *space;	/* one in which it was used */
	uint32_t pid;		/* -1: the kernel */
	uint32_t kind;		/* enum aux_code_kind */
};

/* When a process began as a copy of another. */
struct bundle_fork {
	uint64_t time;
	uint32_t pid;
};

/* What was found last at an address, so that it is not looked for again. */
struct bundle_slot {
	const struct space *space;
	uint64_t lo, hi;
};
#define BUNDLE_SLOTS 4096

struct bundle {
	struct session *s;
	struct bundle_page *pages;
	size_t n_pages, cap_pages;
	uint32_t *slots;	/* hash table: number of the page + 1 */
	size_t n_slots;		/* a power of two, or 0 */
	struct bundle_fork *forks;	/* by pid, then time */
	size_t n_forks, cap_forks;
	uint64_t blob;		/* numbers from here on are free */
	uint64_t n_insns;
	bool oom;
	struct bundle_slot known[BUNDLE_SLOTS];
};

/* bundle_names.c: the names of len bytes of code at page, as a decode here shows
 * them; they lie one behind the other in one mapping. -AUX_E_NOMEM at worst. */
int bundle_write_names(struct bundle *b, struct rewrite *w,
		       const struct bundle_page *page, uint64_t len,
		       uint64_t *n_symbols);

#endif
