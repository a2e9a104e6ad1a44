/* SPDX-License-Identifier: BSD-2-Clause */
/* mapspath: see mapspath.h. */
#include <string.h>
#include <sys/stat.h>

#include "common/mapspath.h"

void mapspath_decode(char *path, uint64_t ino)
{
	const char *s = strstr(path, "\\012");
	char *to = path;
	struct stat st;

	if (!s || (ino && !lstat(path, &st) && st.st_ino == ino))
		return;
	for (s = path; *s; to++) {
		if (strncmp(s, "\\012", 4) != 0) {
			*to = *s++;
			continue;
		}
		*to = '\n';
		s += 4;
	}
	*to = '\0';
}
