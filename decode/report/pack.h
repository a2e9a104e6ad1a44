/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks: what the page's script reads. A block is bytes, deflated (zlib) where
 * this build can, in base64, in a script element of its own:
 *
 *   <script type="text/plain" class="block" data-kind="nodes" data-z="1">..
 *
 * json, sites: UTF-8 JSON. nodes, tree: u32 LE n, n_columns, more (nodes: the
 * lane), 0; then of each column its length as u32 LE, and its bytes: one varint
 * (LEB128) for each of the n; columns are in enum report_*_column's order.
 */
#ifndef DECODE_REPORT_PACK_H
#define DECODE_REPORT_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "common/outbuf.h"

enum report_node_column {
	NODE_DEPTH = 0,		/* minus the one before, zigzag */
	NODE_START,		/* minus the one before */
	NODE_LENGTH,
	NODE_INSNS,
	NODE_CYCLES,		/* merged: 0 */
	NODE_FUNC,
	NODE_WHAT,		/* kind | how << 3 | flags << 6 */
	NODE_SITE,		/* index + 1 in sites; 0: none */
	NODE_EXTRA,		/* with bit 15 of WHAT: count - 1, deep, ticks in
				 * calls; of others nothing */
	NODE_N_COLUMNS,
};
#define NODE_HAS_EXTRA (1 << 15)

enum report_tree_column {
	TREE_DEPTH = 0,		/* minus the one before, zigzag */
	TREE_FUNC,		/* id + 4, or ~CALLTREE_* */
	TREE_CALLS,
	TREE_NS,		/* its own */
	TREE_INSNS,
	TREE_BRANCHES,
	TREE_CYCLES,
	TREE_N_COLUMNS,
};

struct column_bytes {
	uint8_t *p;
	size_t n, max;
	int failed;
};

void column_put(struct column_bytes *c, uint64_t v);
static inline uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

/* A block of columns, which it empties, as text at the end of out (in memory). */
int report_pack_columns(struct outbuf *out, const char *kind, uint32_t n,
			uint32_t more, struct column_bytes *columns,
			unsigned n_columns);
int report_pack(struct outbuf *out, const char *kind, const void *bytes,
		size_t len);

/* Text that came from a trace: as JSON string with quotes, as HTML. What is no
 * UTF-8 becomes U+FFFD. */
void report_json(struct outbuf *out, const char *s);
void report_html(struct outbuf *out, const char *s);
/* As a word of a shell's command, in HTML or JSON still to be escaped. */
void report_shell(struct outbuf *out, const char *s);

#endif
