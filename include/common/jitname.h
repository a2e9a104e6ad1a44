/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names of the files that JIT compilers write for profilers: jit-PID.dump,
 * which its writer maps executable so that it is seen, and perf-PID.map, which
 * is always in /tmp.
 *
 * Specification: tools/perf/Documentation/jitdump-specification.txt and
 * jit-interface.txt of Linux.
 */
#ifndef COMMON_JITNAME_H
#define COMMON_JITNAME_H

#include <stdbool.h>
#include <string.h>

/* path ends in "/", head, digits and tail. */
static inline bool jitname_fits(const char *path, const char *head,
				const char *tail)
{
	const char *p = strrchr(path, '/');
	size_t n;

	if (!p || strncmp(p + 1, head, strlen(head)) != 0)
		return false;
	p += 1 + strlen(head);
	n = strspn(p, "0123456789");
	return n && !strcmp(p + n, tail);
}

static inline bool jitname_is_dump(const char *path)
{
	return jitname_fits(path, "jit-", ".dump");
}

static inline bool jitname_is_map(const char *path)
{
	return jitname_fits(path, "perf-", ".map");
}

#endif
