/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a program can be emulated here: by a qemu-user that loads plugins, with
 * ours. What is built without (Debian 13 and later) has no word of them in it.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/soft/soft.h"

/* True: the file exists and holds text; cannot be read: perhaps. */
static bool holds(const char *file, const char *text)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	void *mem = MAP_FAILED;
	struct stat st;
	bool found = true;

	if (fd < 0)
		return true;
	if (!fstat(fd, &st) && st.st_size > 0)
		mem = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd,
			   0);
	close(fd);
	if (mem == MAP_FAILED)
		return true;
	found = memmem(mem, (size_t)st.st_size, text, strlen(text));
	munmap(mem, (size_t)st.st_size);
	return found;
}

/* The first executable of that name in PATH. */
static bool find_program(const char *name, char *file, size_t size)
{
	const char *path = getenv("PATH");
	size_t n;

	for (; path && *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		snprintf(file, size, "%.*s/%s", (int)n, path, name);
		if (n && !access(file, X_OK))
			return true;
	}
	return false;
}

bool soft_can_emulate(const char *self_dir)
{
	char file[PATH_MAX];

	snprintf(file, sizeof(file), "%s/auxkit-qemu.so", self_dir);
	return !access(file, R_OK) &&
	       find_program("qemu-x86_64", file, sizeof(file)) &&
	       holds(file, "qemu_plugin_register_vcpu_tb_trans_cb");
}
