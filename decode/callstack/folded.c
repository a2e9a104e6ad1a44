/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tree as lines of folded stacks (flamegraph.pl, "stackcollapse"): frames are separated
 * by ";", and the number follows a blank. Without recursion: a tree may be deep.
 */
#include <string.h>

#include "common/clean.h"
#include "decode/callstack/calltree.h"

/* Characters at the begin of s that are shown as they are: nearly all of a name. */
static size_t count_plain(const char *s)
{
	size_t n = 0;

	while (s[n] > ' ' && s[n] < 0x7f && s[n] != ';')
		n++;
	return n;
}

/* What separates frames and numbers is not part of a name. */
static void put_name(struct outbuf *out, const struct calltree *t, const struct calls *c,
		     uint32_t node)
{
	char buf[CALLTREE_NAME];
	const char *s = calltree_name(t, c, node, buf);

	for (;;) {
		size_t size = count_plain(s), n;

		outbuf_put(out, s, size);
		s += size;
		if (!*s)
			break;
		n = clean_char(s, strnlen(s, 4), &size);
		if (!n || *s == ' ')
			outbuf_put(out, "_", 1);
		else
			outbuf_put(out, *s == ';' ? ":" : s, n);
		s += size;
	}
	if (t->nodes[node].is_kernel && t->nodes[node].func < CALLTREE_FOLDED)
		outbuf_put(out, "_[k]", 4);
}

void calltree_fold(struct outbuf *line, size_t *starts, const struct calltree *t,
		   const struct calls *c, uint32_t before, uint32_t node)
{
	uint32_t depth = t->nodes[node].depth;

	if (depth > t->nodes[before].depth)
		starts[depth] = (size_t)(line->p - line->buf);
	line->p = line->buf + starts[depth];
	if (line->p != line->buf)
		outbuf_put(line, ";", 1);
	put_name(line, t, c, node);
}

uint32_t calltree_depth(const struct calltree *t)
{
	uint32_t max = 0;

	for (uint32_t i = 0; i < t->n; i++)
		max = t->nodes[i].depth > max ? t->nodes[i].depth : max;
	return max;
}

uint32_t calltree_next(const struct calltree *t, uint32_t node, bool below)
{
	uint32_t next = below ? t->nodes[node].child : 0;

	while (!next && node) {
		next = t->nodes[node].next;
		node = t->nodes[node].parent;
	}
	return next;
}
