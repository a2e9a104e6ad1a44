/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does this program run under qemu-user? There /proc/PID is the host's process: its
 * executable is qemu, and no memory of the program is executable. qemu shows the
 * program's own in /proc/self alone, and has no eye on /proc/thread-self.
 */
#ifndef TESTS_UNIT_EMULATED_H
#define TESTS_UNIT_EMULATED_H

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static inline bool is_emulated(void)
{
	char self[PATH_MAX] = "", real[PATH_MAX] = "";

	return readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 &&
	       readlink("/proc/thread-self/exe", real, sizeof(real) - 1) > 0 &&
	       strcmp(self, real);
}

#endif
