/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether qemu-user is there and takes plugins: Debian builds it without from 13 on.
 */
#ifndef TESTS_UNIT_QEMU_H
#define TESTS_UNIT_QEMU_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The reason why not, for a skip; NULL: it does. */
static const char *qemu_lacks(const char *qemu)
{
	char line[256];
	bool any = false, plugin = false;
	FILE *f;

	snprintf(line, sizeof(line), "%s -help 2>/dev/null", qemu);
	f = popen(line, "r");
	while (f && fgets(line, sizeof(line), f)) {
		any = true;
		plugin |= !strncmp(line, "-plugin ", 8);
	}
	if (f)
		pclose(f);
	return !any ? "no qemu-user (Debian: apt install qemu-user)" :
	       !plugin ? "qemu-user has no plugins (Debian 13 builds it without)" :
			 NULL;
}

#endif
