/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * regular: see regular.h.
 *
 * Looking at a name with O_PATH opens no device and asks no server. It does not
 * mount an automount point either that is the last name of the path (open(2)). One
 * among the directories before it is mounted, as by every program that opens the
 * path, where the machine that decodes has an automount point of that name: only
 * opening one directory after another with O_PATH, symbolic links read by hand,
 * would leave it alone. Who decodes a file of unknown origin on such a machine
 * gives --symfs with an empty directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/regular.h"

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* Opens what fd, of O_PATH, stands for: the same file, whatever has the name by
 * now. Without /proc, the name again, if it still leads to that file. */
static int open_again(int fd, const char *path, const struct stat *st)
{
	struct stat now;
	char link[32];
	int in;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	in = open(link, OPEN_FLAGS);
	if (in >= 0 || errno != ENOENT)
		return in;
	in = open(path, OPEN_FLAGS);
	if (in < 0 || (!fstat(in, &now) && now.st_dev == st->st_dev &&
		       now.st_ino == st->st_ino))
		return in;
	close(in);
	errno = ESTALE;
	return -1;
}

int regular_open(const char *path, struct stat *st)
{
	int fd, in = -1, err;

	*st = (struct stat){ 0 };
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, st)) {
		err = errno;
	} else if (!S_ISREG(st->st_mode)) {
		err = EINVAL;
	} else {
		in = open_again(fd, path, st);
		err = errno;
	}
	close(fd);
	errno = err;
	return in;
}
