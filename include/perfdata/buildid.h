/* SPDX-License-Identifier: BSD-2-Clause */
/* The build id of an ELF file. */
#ifndef PERFDATA_BUILDID_H
#define PERFDATA_BUILDID_H

#include <stdint.h>

#define BUILDID_MAX 20

/*
 * Reads the NT_GNU_BUILD_ID note of the file into id. Returns its size (1 to
 * BUILDID_MAX), 0 when the file has none (or is no ELF file, or has one longer
 * than perf.data can hold), or -AUX_E_IO when it cannot be read.
 */
int buildid_read(const char *path, uint8_t id[BUILDID_MAX]);

/* The same from bare notes: /sys/kernel/notes, /sys/module/NAME/notes/... */
int buildid_notes(const char *path, uint8_t id[BUILDID_MAX]);

#endif
