/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the writer share; nobody else includes this. */
#ifndef AUXCAP_WRITER_PRIV_H
#define AUXCAP_WRITER_PRIV_H

#include <stdbool.h>

#include "writer.h"

/* Large enough that a flush costs one call, small enough to lose little. */
#define WRITER_BUF (1 << 20)
/* Payload from here on goes to the file from where it lies. */
#define WRITER_DIRECT (64 << 10)

/* The longest that a record waits for the next one to push it out. */
#define WRITER_PERIOD_MS 200

struct writer_attr {
	struct perf_event_attr attr;
	char *name;
	uint64_t *ids;
	uint32_t n_ids;
};

struct writer_bytes {
	void *data;	/* NULL: not set */
	size_t len;
};

struct writer_file {	/* of AUX_FEAT_BUILD_ID */
	char *path;
	uint64_t hash;
	uint32_t pid;
	uint16_t cpumode;
	uint8_t id_size;
	uint8_t id[20];
};

struct codespool;

struct writer {
	int fd;
	int error;		/* the first AUX_E_*; nothing is written after */
	struct aux_diag diag;	/* its text */
	char *path;
	char *old_path;		/* where an existing file was moved, or NULL */
	bool broken;		/* a write failed: the buffer is gone */
	bool started;		/* the attrs are in the file */
	uint64_t pos;		/* of the first buffered byte in the file */
	uint64_t attrs_start;
	uint64_t data_start;
	uint64_t data_end;	/* a record's end, at or below what is flushed */
	uint64_t rec_end;	/* the last record's end, buffers included */
	uint8_t *buf;
	size_t used;
	uint64_t flushed_ms;
	uint64_t first_ns, last_ns;	/* of records with a time; 0 none */

	struct writer_attr *attrs;
	size_t n_attrs, cap_attrs;
	struct aux_auxtrace_index_entry *index;
	size_t n_index, cap_index;
	struct writer_file *files;
	size_t n_files, cap_files;
	uint32_t *file_slots;	/* hash table: number of the file + 1 */
	size_t n_slots;		/* a power of two, or 0 */
	struct writer_stream *streams;
	size_t n_streams, cap_streams;
	struct writer_bytes features[AUX_FEAT_BITS];
	struct codespool *code;
};

/* writer.c */
/* Makes room for one more of size bytes in *array. */
int writer_grow(struct writer *w, void **array, size_t n, size_t *cap,
		size_t size);
/* Sets the sticky error. Returns -code of the first one. */
__attribute__((format(printf, 3, 4)))
int writer_fail(struct writer *w, int code, const char *fmt, ...);
/* Writes header (data size 0), ids and attrs: from now on records may follow. */
int writer_start(struct writer *w);
void writer_header(const struct writer *w, struct aux_file_header *h);
/* Appends to the file, through the buffer unless len is large. */
int writer_put(struct writer *w, const void *data, size_t len);
int writer_pwrite(struct writer *w, const void *data, size_t len, uint64_t pos);

/* writer_feat.c */
/* Writes all feature sections behind the data and sets their bits. */
int writer_features_emit(struct writer *w, struct aux_file_header *h);
void writer_features_free(struct writer *w);

/* writer_code.c */
/* The bytes of AUX_FEAT_AUXKIT_CODE, in unlinked files beside path. */
int codespool_new(struct codespool **cs, const char *path);
void codespool_free(struct codespool *cs);
int codespool_add(struct codespool *cs, const struct aux_code_entry *e,
		  const void *bytes);
/* Appends the section to the file. */
int codespool_emit(struct codespool *cs, struct writer *w);

#endif
