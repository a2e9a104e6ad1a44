/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the writer share; nobody else includes this.
 *
 * Everything in struct writer belongs to its lock; functions here are called
 * with it held, and those that say so give it up for a while.
 */
#ifndef PERFDATA_WRITER_IMPL_H
#define PERFDATA_WRITER_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include "perfdata/writer.h"

/* Large enough that a flush costs one call, small enough to lose little. */
#define WRITER_BUF (1 << 20)
/* Payload from here on goes to the file from where it lies. */
#define WRITER_DIRECT (64 << 10)
/* What is compressed at a time: perf allocates as much for every record. More
 * would not fit into one when it does not shrink, and gains nothing. */
#define WRITER_ZIN (64 << 10)
/* What a size field of 16 bits leaves, records being multiples of 8. */
#define WRITER_REC_MAX 65528

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
	bool sent;	/* stands among the data as a record */
};

struct writer_file {	/* of AUX_FEAT_BUILD_ID */
	char *path;
	uint64_t hash;
	uint32_t pid;
	uint16_t cpumode;
	uint8_t id_size;
	uint8_t id[20];
};

struct writer_chunk {	/* an AUXTRACE record that has its place in the file */
	struct aux_auxtrace_index_entry at;
	uint64_t len;	/* of the payload, as given */
	uint32_t stream;
};

struct writer_buf {
	struct writer_buf *next;
	uint8_t data[WRITER_BUF];
};

/* Whole records that have their place in the file and are being written. */
struct writer_flight {
	uint64_t start;
	struct writer_flight *next;
};

struct writer_codes;
struct writer_zstd;

struct writer {
	pthread_mutex_t lock;
	struct writer_options opt;
	int fd;
	int error;		/* the first AUX_E_*; nothing is written after */
	struct aux_diag diag;	/* its text */
	char *path;
	char *old_path;		/* where an existing file was moved, or NULL */
	bool regular;		/* its header can be kept up to date */
	bool started;		/* the attrs are in the file */
	bool finished;		/* no more records */
	bool shared;		/* several threads send */
	bool sent_any;
	pthread_t sender;
	bool alone;		/* the lock is not given up */
	bool broken;		/* a write failed: there is a hole at hole */
	uint64_t hole, hole_end; /* the first; bytes up to hole_end are there */
	uint64_t pos;		/* where the buffer goes to in the file */
	struct writer_buf *buf;
	size_t used;
	struct writer_buf *spare;
	struct writer_flight *flights;	/* in order of their place */
	uint64_t size;		/* what writer_size returns; atomic */
	struct aux_file_header kept;	/* of a file that is gone on with */
	uint64_t attrs_start;
	uint64_t data_start;
	uint64_t data_end;	/* as the header in the file has it */
	uint64_t flushed_ms;
	uint64_t first_ns, last_ns;	/* of records with a time; 0 none */

	struct writer_attr *attrs;
	size_t n_attrs, cap_attrs;
	struct writer_chunk *chunks;
	size_t n_chunks, cap_chunks;
	struct writer_file *files;
	size_t n_files, cap_files;
	uint32_t *file_slots;	/* hash table: number of the file + 1 */
	size_t n_slots;		/* a power of two, or 0 */
	struct writer_stream *streams;
	size_t n_streams, cap_streams;
	struct writer_bytes features[AUX_FEAT_BITS];
	struct writer_codes *codes;
	struct writer_zstd *zstd;	/* NULL: nothing is compressed */
};

/* writer.c */
/* Makes room for one more of size bytes in *array. */
int writer_grow(struct writer *w, void **array, size_t n, size_t *cap,
		size_t size);
/* The end of each call that appends: flushes by the clock, gives up the lock. */
int writer_leave(struct writer *w);
/* Appends a whole record, built of parts; may give up the
 * lock before. Starts the file if need be. */
int writer_append(struct writer *w, const struct iovec *part, int n_parts);
/* writer_own without the lock. */
int writer_append_own(struct writer *w, enum aux_own_kind kind,
		      const void *head, size_t head_len, const void *data,
		      size_t len);

/* writer_io.c */
/* Sets the sticky error. Returns -code of the first one. */
__attribute__((format(printf, 3, 4)))
int writer_fail(struct writer *w, int code, const char *fmt, ...);
int writer_pwrite(struct writer *w, const void *data, size_t len, uint64_t pos);
/*
 * Sends the buffer, then len bytes in iov[1..n_iov-1]; iov[0] is for the buffer.
 * Gives up the lock while it writes. The place is taken before.
 */
int writer_send_buf(struct writer *w);
/* Waits for nothing: sends the buffer until n bytes fit; may give up the lock. */
int writer_room(struct writer *w, size_t n);
/* Bytes that need not be whole records: before the data and behind them. */
int writer_put(struct writer *w, const void *data, size_t len);

/* writer_open.c */
/* Writes header, ids and attrs, or their records: now records may follow. */
int writer_start(struct writer *w);

/* writer_feat.c */
/* Writes all feature sections behind the data and sets their bits. */
int writer_features_emit(struct writer *w, struct aux_file_header *h);
void writer_features_free(struct writer *w);

/* writer_featrec.c */
/* Features as records among the data, as far as they are set and not sent. */
int writer_features_send(struct writer *w);
int writer_feature_record(struct writer *w, unsigned bit, const void *data,
			  size_t len);

/* writer_desc.c, used by both forms */
struct writer_desc {
	uint8_t *data;
	size_t len, cap;
	bool bad;	/* out of memory */
};
/* What a section holds that the writer knows itself; false: nothing. */
bool writer_desc_make(const struct writer *w, unsigned bit,
		      struct writer_desc *d);

/* writer_code.c */
void writer_codes_free(struct writer_codes *c);
/* A record that may give memory other code: forgets what is known of it. */
void writer_codes_note(struct writer *w, const struct perf_event_header *rec);

/* writer_resume.c */
/*
 * A writer that goes on behind byte end of an unfinished file, whose header is h.
 * Nothing is written until writer_resume_commit; the file descriptor is the
 * writer's then, and the caller's until then. Meanwhile features, build ids and
 * times may be set.
 */
int writer_resume(struct writer **w, const char *path, int fd,
		  const struct aux_file_header *h, struct aux_diag *diag);
/* An AUXTRACE record that is in the file, for the index. */
int writer_resume_chunk(struct writer *w, uint64_t offset, uint16_t size);
/* Cuts the file at end, adds loss (NULL: none), completes and closes it. */
int writer_resume_commit(struct writer *w, uint64_t end,
			 const struct aux_own_loss *loss,
			 struct aux_diag *diag);
void writer_resume_abandon(struct writer *w);

/* writer_zstd.c, writer_nozstd.c */
int writer_zstd_open(struct writer *w, struct aux_diag *diag);
void writer_zstd_free(struct writer *w);
/* Records are compressed. */
bool writer_zstd_takes(const struct writer *w);
/* What was compressed last did not reach the file: from here on they are not. */
void writer_zstd_stop(struct writer *w);
/* Keeps a record for compression; false: it does not fit, drain first. */
bool writer_zstd_add(struct writer *w, const struct iovec *part, int n_parts,
		     size_t len);
bool writer_zstd_pending(const struct writer *w);
/* What was kept goes into the buffer; may give up the lock before. */
int writer_zstd_drain(struct writer *w);
/*
 * Compresses AUX payload; called without the lock. Returns the compressed bytes
 * in out, and what writer_zstd_release takes back; NULL: leave it as it is.
 */
struct writer_zout;
struct writer_zout *writer_zstd_aux(struct writer *w, const struct iovec *iov,
				    int n_iov, uint64_t len, struct iovec *out);
void writer_zstd_release(struct writer *w, struct writer_zout *z);

#endif
