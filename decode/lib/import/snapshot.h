/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_snapshot: a snapshot directory of DS-5 or OpenCSD, as read.
 *
 * Devices are cores (registers and memory dumps) and trace sources (registers);
 * trace.ini says which source wrote into which buffer, and which core it traced.
 */
#ifndef DECODE_LIB_IMPORT_SNAPSHOT_H
#define DECODE_LIB_IMPORT_SNAPSHOT_H

#include "decode/lib/import/import.h"
#include "decode/lib/import/ini.h"

#define SNAPSHOT_DEVICES 1024	/* at most; buffers too */

struct snapshot_device {
	struct ini ini;
	const char *name, *class, *type;	/* never NULL */
};

struct snapshot_buffer {
	const char *id;		/* its section */
	const char *name, *file, *format;	/* never NULL */
};

/* A source that wrote into a buffer. */
struct snapshot_link {
	const struct snapshot_device *source;
	size_t buffer;
	const struct snapshot_device *core;	/* NULL: of no core */
	uint32_t pid;		/* stands for the core; -1: none */
	uint32_t cpu;		/* its own number; -1: none */
};

struct snapshot_dir {
	char *dir;
	struct ini top, trace;
	struct snapshot_device *devices;
	size_t n_devices;
	struct snapshot_buffer *buffers;
	size_t n_buffers;
	struct snapshot_link *links;
	size_t n_links;
};

#endif
