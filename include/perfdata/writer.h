/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing perf.data, as a file or into a pipe, in native byte order.
 *
 * Order of calls: open, attr_add for each event, then records, own records and
 * AUX chunks in any order and from any thread, features at any time, close.
 * Records are buffered and written in large pieces; AUX payload goes from where
 * it lies to the file in one call, without a lock held.
 *
 * The file is valid at every moment: every WRITER_PERIOD_MS, when something is
 * written, and at each writer_flush the header gets the present size of the
 * data. As long as no feature bit is set in its header, a file is unfinished:
 * its writer is still at work, or was killed. `auxcap repair` then finds what
 * came after the last update, and makes the index and the features.
 */
#ifndef PERFDATA_WRITER_H
#define PERFDATA_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <linux/perf_event.h>

#include <aux/error.h>
#include <aux/perfdata.h>

struct writer;

struct writer_options {
	bool pipe;		/* perf's pipe format; path may be a FIFO */
	int zstd_level;		/* of the records: 1 to 22; 0: not compressed */
	bool zstd_aux;		/* AUX data too: perf refuses such a file */
};

/*
 * path is created; an existing regular file is kept as path.old. A device is
 * written in place; what cannot be seeked is refused unless o->pipe. "-" is
 * standard output, in pipe format. A NULL o stands for zeros.
 */
int writer_open(struct writer **w, const char *path,
		const struct writer_options *o, struct aux_diag *diag);

/* Before the first record. name goes into EVENT_DESC. ids are copied. */
int writer_attr_add(struct writer *w, const struct perf_event_attr *attr,
		    const char *name, const uint64_t *ids, uint32_t n_ids);

/* One more id of an event, the n-th that was added, at any time: a file names
 * it in its header when it is closed. A pipe cannot: -AUX_E_UNSUPPORTED. */
int writer_attr_more(struct writer *w, size_t n, uint64_t id);

/* One whole record: rec->size bytes, a multiple of 8. */
int writer_record(struct writer *w, const struct perf_event_header *rec);
/* PERF_RECORD_TIME_CONV: how TSC and the perf clock relate. */
int writer_time_conv(struct writer *w, const struct aux_rec_time_conv *tc);

/* One record of our own (extension.h): head, then data, padded to 8. Both
 * together at most WRITER_OWN_MAX bytes. */
#define WRITER_OWN_MAX (65528 - 8 - 16)
int writer_own(struct writer *w, enum aux_own_kind kind, const void *head,
	       size_t head_len, const void *data, size_t len);

/*
 * An AUXTRACE record and its payload. a->size is the payload's true length;
 * the writer pads it to 8 in the file, and enters the index. When this returns
 * the payload is no longer needed. Calls for one stream must not overlap.
 */
int writer_auxtrace(struct writer *w, const struct aux_rec_auxtrace *a,
		    const struct iovec *iov, int n_iov);

/*
 * Sets a feature section's bytes (copied); the last call for a bit wins. It
 * stands as a HEADER_FEATURE record among the data too, for a pipe and for
 * repair. AUX_FEAT_AUXKIT_SOURCE and _LEDGER become own records only:
 * perf inject 6.1 dies of a section that it does not know.
 */
int writer_feature(struct writer *w, unsigned bit, const void *data, size_t len);

/*
 * Code bytes that cannot be had later, as AUX_OWN_CODE records, written now.
 * Equal bytes are stored once; what is in the file already changes nothing.
 * e->blob_offset is not used. bytes is NULL for AUX_CODE_UNKNOWN alone.
 */
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

/* Bytes written so far, buffers included. Any thread, any time. */
uint64_t writer_size(const struct writer *w);

/*
 * What writer_auxtrace was given, per queue, in order of appearance. What never
 * came is end - saved - unwritten. To be asked when no other thread writes;
 * final once writer_finish was called.
 */
struct writer_stream {
	uint32_t idx;
	uint64_t end;		/* of the stream, as the offsets show */
	uint64_t saved;		/* bytes written, padding not counted */
	uint64_t unwritten;	/* bytes given that the file could not take */
	uint64_t n_chunks;	/* given and written */
};
const struct writer_stream *writer_streams(struct writer *w, size_t *n);

/*
 * No more data will come: all of it is handed to the file, and after an error
 * the file is cut after its last whole record, so that the totals above are
 * final. Only features may follow. Returns the first error. Optional: close
 * does the same.
 */
int writer_finish(struct writer *w);

/* After writer_finish: not even its head could be written, so it is no file. */
bool writer_headless(const struct writer *w);

/*
 * Completes and closes the file, and frees w; NULL is allowed. The first error
 * of any earlier call is returned again here, so callers may test once. After
 * an error (a full disk) the file holds all whole records that reached it, and
 * its header and features are completed as far as that is possible. No other
 * thread may use w from here on.
 */
int writer_close(struct writer *w, struct aux_diag *diag);

/*
 * For a recording that came to nothing: removes the new file, puts path.old
 * back where this open had moved it, and frees w. The first error of an earlier
 * call, if there was one, goes into diag. NULL is allowed.
 */
void writer_discard(struct writer *w, struct aux_diag *diag);

#endif
