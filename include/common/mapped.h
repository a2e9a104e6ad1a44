/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapped: files that are read through a mapping, and which of them an address
 * belongs to.
 *
 * A file that becomes shorter while it is mapped has no bytes for the rest of the
 * mapping: reading there is a SIGBUS, and a program that handles it finds here what to
 * say. What the process has of such files is the process's: this is the one place of
 * the library with data of its own.
 */
#ifndef COMMON_MAPPED_H
#define COMMON_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPPED_MADE_MAX (UINT64_C(1) << 30)
#define MAPPED_NAME 256	/* bytes of a name that are kept: its end */

/* Maps the first len > 0 bytes of fd to be read. name is for people. NULL with errno
 * set. */
void *mapped_open(int fd, uint64_t len, const char *name);
/* And what was moved into it. Accepts NULL. */
void mapped_close(const void *p, uint64_t len);
/* mremap has moved it. */
void mapped_moved(const void *from, const void *to);
/* The name lives as long as the process. False: the address is in no mapped file. */
bool mapped_find(const void *at, const char **name, uint64_t *offset);
#define MAPPED_LINE (MAPPED_NAME + 128)
/* In a handler of SIGBUS: an error for people, which begins with what, of the file that
 * was cut. Bytes of line; 0: the address is in no mapped file. */
size_t mapped_cut(const void *at, const char *what, char *line, size_t max);

/*
 * Files that the process makes in memory of others, such as a compressed one
 * unpacked: a recording may name any number of files that pack 500 MiB into 16 KiB.
 * False: all of them would have more than MAPPED_MADE_MAX bytes.
 */
bool mapped_charge(uint64_t size);
void mapped_discharge(uint64_t size);

#endif
