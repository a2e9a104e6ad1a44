/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_cs: what CoreSight snapshots say of sources and buffers, in the
 * terms of AUXTRACE_INFO (perfdata/csmeta.h) and of formatter frames in memory.
 */
#ifndef DECODE_LIB_IMPORT_SNAPSHOT_CS_H
#define DECODE_LIB_IMPORT_SNAPSHOT_CS_H

#include <stddef.h>
#include <stdint.h>

#include "decode/lib/import/ini.h"
#include "perfdata/csmeta.h"

/* Words of one source's block. */
#define CONTAINER_CS_BLOCK (AUX_CS_NR_PARAMS + 1 + AUX_CS_OWN_N)

/*
 * Fills a block from a device's [regs]. type: of the source, core_type: of the
 * core (NULL: none), both as the device files have them; cpu -1: of no CPU.
 */
void container_cs_block(uint64_t words[CONTAINER_CS_BLOCK],
			const struct ini *device, const char *type,
			const char *core_type, uint32_t cpu);

/* 7 or 8: the architecture of a core by its name; 0 not known. */
unsigned container_cs_version(const char *core_type);

/*
 * What DSTREAM stored: blocks of 512 bytes, of which the last 8 are its own.
 * Copies the others to dst, which has room for len; returns their number.
 */
size_t container_cs_dstream(uint8_t *dst, const uint8_t *src, size_t len);

/*
 * A TPIU's stream as frames alone: without half syncs, and full syncs between
 * frames; a frame that a sync cuts is dropped and a barrier put in its place. dst
 * has room for CONTAINER_CS_ROOM(len). Returns the number of bytes.
 */
#define CONTAINER_CS_ROOM(len) (3 * (len) + 16)
size_t container_cs_frames(uint8_t *dst, const uint8_t *src, size_t len);

#endif
