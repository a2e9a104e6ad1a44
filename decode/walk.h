/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * walk: a RANGE, expanded into the addresses of its instructions, once.
 *
 * A RANGE says first, last and how many; the code bytes say the same. When the
 * two disagree nothing is expanded and the caller reports a gap: a wrong address
 * is never given. Expanded ranges are kept and found again by (space, first,
 * last, n, mode), or by the place of their code bytes when the same file is
 * mapped at the same address in a later space. Each carries room for what a sink
 * makes of it, so text is rendered and hashes are computed once.
 */
#ifndef AUXDECODE_WALK_H
#define AUXDECODE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/flow.h>

#include "sink.h"

struct walk;

struct walk_range {
	uint64_t first, last;
	uint32_t n;
	uint16_t mode;		/* AUX_FLOW_MODE_* */
	uint8_t last_size;	/* bytes of the last instruction, 0 unknown */
	uint8_t no_code;	/* no bytes here: n is 1 */
	const uint32_t *off;	/* n offsets from first */
	void *user;		/* the sink's, user_size bytes, zeroed first */
};

struct walk_config {
	const struct sink_host *host;
	size_t user_size;
	void (*drop)(void *user);	/* frees what hangs on it; NULL: none */
	size_t max_bytes;		/* forget all above this; 0: default */
};

int walk_new(struct walk **w, const struct walk_config *config);
void walk_free(struct walk *w);

/*
 * The expansion of ev (a RANGE) in a space (NULL: unknown). Valid until the next
 * call. Returns 0, -AUX_E_NOENT when code is missing, -AUX_E_FORMAT when code
 * and range disagree, -AUX_E_NOMEM.
 */
int walk_find(struct walk *w, const struct space *space,
	      const struct aux_flow *ev, struct walk_range **range);

/* The same into *range, and nothing is kept: user is NULL, off is valid until the
 * next call. */
int walk_once(struct walk *w, const struct space *space,
	      const struct aux_flow *ev, struct walk_range *range);

/* A sink hung so many bytes on a range: they count against max_bytes. */
void walk_charge(struct walk *w, size_t bytes);

/* Bytes at ip in a space, across mappings; returns how many, at most max. */
size_t walk_bytes(struct walk *w, const struct space *space, uint64_t ip,
		  uint8_t *buf, size_t max);

/*
 * Length of the instruction at code[0..len) by the rules of its set, 0 when it
 * is none, -1 when only a disassembler knows (x86 32- and 16-bit modes).
 */
int insn_length(const uint8_t *code, size_t len, unsigned mode);

/* Where the direct branch at ip leads; false when it is none (or of x86 in 32- or
 * 16-bit mode). An address of T32 code has no bit 0 set. */
bool insn_target(const uint8_t *code, size_t len, uint64_t ip, unsigned mode,
		 uint64_t *to);

#endif
