/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing perf.data (file mode, native byte order).
 *
 * Order of calls: open, attr_add for each event, then records and AUX chunks in
 * any order, features at any time, close. Records are buffered and written in
 * large pieces; AUX payload goes to the file without a copy when it is large.
 * The header is written with data size 0 at open and completed by close, so a
 * killed writer leaves a file that readers recognise as unfinished.
 */
#ifndef AUXCAP_WRITER_H
#define AUXCAP_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <linux/perf_event.h>

#include <aux/error.h>
#include <aux/perfdata.h>

struct writer;

/* path is created or truncated; an existing file is kept as path.old. */
int writer_open(struct writer **w, const char *path, struct aux_diag *diag);

/* Before the first record. name goes into EVENT_DESC. ids are copied. */
int writer_attr_add(struct writer *w, const struct perf_event_attr *attr,
		    const char *name, const uint64_t *ids, uint32_t n_ids);

/* One whole record: rec->size bytes, a multiple of 8. */
int writer_record(struct writer *w, const struct perf_event_header *rec);

/*
 * An AUXTRACE record and its payload. a->size is the payload's true length;
 * the writer pads it to 8 in the file, and enters the index.
 */
int writer_auxtrace(struct writer *w, const struct aux_rec_auxtrace *a,
		    const struct iovec *iov, int n_iov);

/* Sets a feature section's bytes (copied); the last call for a bit wins. */
int writer_feature(struct writer *w, unsigned bit, const void *data, size_t len);

/* Remembers code bytes for AUX_FEAT_AUXKIT_CODE; equal bytes are kept once. */
int writer_code(struct writer *w, const struct aux_code_entry *e,
		const void *bytes);

/* A file that was mapped: its build id goes into AUX_FEAT_BUILD_ID. */
int writer_build_id(struct writer *w, uint32_t pid, uint16_t cpumode,
		    const char *path, const uint8_t *id, size_t id_size);

/* Bytes written so far, buffers included. */
uint64_t writer_size(const struct writer *w);

/*
 * Completes and closes the file, and frees w; NULL is allowed. The first error
 * of any earlier call is returned again here, so callers may test once.
 */
int writer_close(struct writer *w, struct aux_diag *diag);

#endif
