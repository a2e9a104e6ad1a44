/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfdata: THE FILE. Its public face is <aux/reader.h> for reading, and here
 * what only the importers of other containers need of the reader, and build ids
 * of ELF files; writer.h (the recorder's), rewrite.h (files made of other
 * files), repair.h, ledger.h and csmeta.h stand beside.
 */
#ifndef PERFDATA_PERFDATA_H
#define PERFDATA_PERFDATA_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/reader.h>

/*
 * The highest PERF_RECORD_* of the kernel that carries a sample_id trailer as
 * the reader knows it (PERF_RECORD_CALLCHAIN_DEFERRED). Types from 64 on belong
 * to perf's user space and have none.
 */
#define LAST_KERNEL_TYPE 22

/* A whole file that was mapped. */
struct reader_map {
	const void *data;	/* NULL: it is empty, or the reader has it */
	uint64_t len;
	const char *path;	/* for messages */
};

/*
 * Opens a perf.data directory: files[0] is `data`, a whole perf.data, the
 * others are data.0, data.1, .. with more records. The mappings are moved next
 * to each other: each one that the reader has taken over loses its data
 * pointer, error or not; the rest stays the caller's.
 */
int reader_open_maps(struct aux_reader **r, struct reader_map *files, size_t n,
		     const char *name, struct aux_diag *diag);

/* For aux_file_info.container; name lives longer than r. dir: absolute, without
 * links; what lies below it belongs to the recording. r frees it. */
void reader_set_container(struct aux_reader *r, const char *name, char *dir);
/* That directory; NULL: it is a perf.data, or the directory is not known. */
const char *reader_container_dir(const struct aux_reader *r);

/* ---- index.c: the records of a large file without their trace ---- */

struct outbuf;

/* Of a file that no index is used of. -AUX_E_UNSUPPORTED: it can have none; or what
 * aux_reader_next said, -AUX_E_NOMEM. */
int reader_index_write(struct aux_reader *r, struct outbuf *out, struct aux_diag *diag);
/*
 * From now on records are those of the index, a copy, and what is not in it is read from the
 * file. 1; 0: there is none, or it is damaged, or the file has changed since, or can have
 * none; -AUX_E_NOMEM.
 */
int reader_index_use(struct aux_reader *r, const char *path);
bool reader_has_index(const struct aux_reader *r);

/* ---- buildid.c ---- */

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
