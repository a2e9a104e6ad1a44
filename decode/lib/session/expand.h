/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * walk: a RANGE, expanded into the addresses of its instructions, once.
 *
 * A RANGE says first, last and how many; the code bytes say the same. When the
 * two disagree nothing is expanded and the caller reports a gap: a wrong
 * address is never given. Expanded ranges are kept and found again by (space,
 * first, last, n, mode), or by the place of their code bytes when the same file
 * is mapped at the same address in a later space. Each carries room for what a
 * sink makes of it, so text is rendered and hashes are computed once.
 */
#ifndef DECODE_LIB_SESSION_EXPAND_H
#define DECODE_LIB_SESSION_EXPAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/flow.h>

#include "decode/lib/session/sink.h"

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
 * The expansion of ev (a RANGE) in a space (NULL: unknown). Valid until the
 * next call. Returns 0, -AUX_E_NOENT when code is missing, -AUX_E_FORMAT when
 * code and range disagree, -AUX_E_NOMEM.
 */
int walk_find(struct walk *w, const struct space *space,
	      const struct aux_flow *ev, struct walk_range **range);

/* The same into *range, and nothing is kept: user is NULL, off is valid until
 * the next call. */
int walk_once(struct walk *w, const struct space *space,
	      const struct aux_flow *ev, struct walk_range *range);

/* A length was not found for want of memory: a sink that goes on without it asks
 * at its end. */
bool walk_nomem(const struct walk *w);

/* A sink hung so many bytes on a range: they count against max_bytes. */
void walk_charge(struct walk *w, size_t bytes);

/* Bytes at ip in a space, across mappings; returns how many, at most max. */
size_t walk_bytes(struct walk *w, const struct space *space, uint64_t ip,
		  uint8_t *buf, size_t max);

#endif
