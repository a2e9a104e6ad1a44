/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapspath: a path as /proc/PID/maps shows it, as it is.
 */
#ifndef COMMON_MAPSPATH_H
#define COMMON_MAPSPATH_H

#include <stdint.h>

/*
 * The kernel (seq_path()) escapes a newline as \012, and nothing else: not the
 * backslash, so a name that has these four characters looks the same. It is
 * left as it is if a file of that name has the inode of the mapping.
 */
void mapspath_decode(char *path, uint64_t ino);

#endif
