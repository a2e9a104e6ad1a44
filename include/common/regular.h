/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * regular: opening a file whose name somebody else chose: a recording, a
 * process, a file of debug information.
 *
 * Such a name may lead to a device, whose open alone does something (a tape
 * rewinds, a watchdog starts), to a FIFO, which blocks, or to a point where an
 * automounter waits. So it is looked at first, without being opened.
 */
#ifndef COMMON_REGULAR_H
#define COMMON_REGULAR_H

#include <sys/stat.h>

/* For reading; follows symbolic links. *st is of the file. -1 with errno set;
 * st->st_mode is 0 if it could not be looked at, and errno is EINVAL if it is no
 * regular file. */
int regular_open(const char *path, struct stat *st);

#endif
