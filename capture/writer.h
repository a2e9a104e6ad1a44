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

/*
 * path is created; an existing regular file is kept as path.old. A device is
 * written in place; what cannot be seeked (a pipe) is refused.
 */
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

/*
 * A file that was mapped: its build id goes into AUX_FEAT_BUILD_ID, once. pid
 * names a machine there: it is written as -1 (the host) unless cpumode is a
 * guest's. synth_mmap2 calls this for maps with a build id.
 */
int writer_build_id(struct writer *w, uint32_t pid, uint16_t cpumode,
		    const char *path, const uint8_t *id, size_t id_size);

/* A record was made for this time (ns, perf clock): widens SAMPLE_TIME. */
void writer_time(struct writer *w, uint64_t ns);

/* Hands all buffered bytes to the file now. */
int writer_flush(struct writer *w);

/* Bytes written so far, buffers included. */
uint64_t writer_size(const struct writer *w);

/*
 * What writer_auxtrace was given, per queue, in order of appearance. The
 * difference of end and saved is what never came, or what could not be written.
 */
struct writer_stream {
	uint32_t idx;
	uint64_t end;		/* of the stream, as the offsets tell */
	uint64_t saved;		/* bytes written, padding not counted */
	uint64_t n_chunks;
};
const struct writer_stream *writer_streams(const struct writer *w, size_t *n);

/*
 * Completes and closes the file, and frees w; NULL is allowed. The first error
 * of any earlier call is returned again here, so callers may test once. After
 * an error (a full disk) the file holds all whole records that reached it, and
 * its header and features are completed as far as that is possible.
 */
int writer_close(struct writer *w, struct aux_diag *diag);

/*
 * For a recording that came to nothing: removes the new file, puts path.old
 * back where this open had moved it, and frees w. The first error of an earlier
 * call, if there was one, goes into diag. NULL is allowed.
 */
void writer_discard(struct writer *w, struct aux_diag *diag);

#endif
