/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The name of a node in a line of folded stacks (flamegraph.pl, "stackcollapse"): frames
 * are separated by ";", and the number follows a blank.
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

void calltree_put_folded(struct outbuf *out, const struct calltree *t,
			 const struct calls *c, uint32_t node)
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
