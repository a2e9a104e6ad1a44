/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of perfdata share: the reader's insides, the parts that files
 * are made of, the recorder's writer.
 */
#ifndef PERFDATA_IMPL_H
#define PERFDATA_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include <aux/reader.h>

#include "common/bytes.h"
#include "common/diag.h"

#include "perfdata/perfdata.h"
#include "perfdata/rewrite.h"
#include "perfdata/writer.h"

/* ---- the reader ---- */

/*
 * Invariant: data[0..len) never moves while the reader lives, nor does anything
 * that was handed out; the only state that changes after open is the position.
 */

/* Memory that is freed all at once, with the reader. */
struct arena_block;
struct arena {
	struct arena_block *head;
};

/* Zeroed, aligned to 8. NULL when out of memory. */
void *arena_alloc(struct arena *a, size_t size);
/* len bytes and a NUL. */
char *arena_string(struct arena *a, const void *s, size_t len);

/* The bytes of a file: mapped, or spooled first when it cannot be mapped. */
struct backing {
	const uint8_t *data;
	size_t len;
	void *map;	/* NULL: nothing to unmap */
	bool on_disk;	/* pages can be released: the file has them */
};

/* What all attrs agree on, so that a record can be read before its id is
 * known. */
struct attr_layout {
	bool same_trailer;	/* sample_id_all and the trailer's fields */
	bool same_sample;	/* everything that shapes a SAMPLE */
	bool has_id;		/* the id is at id_pos and trailer_pos */
	unsigned id_pos;	/* SAMPLE: words before the id */
	unsigned trailer_pos;	/* others: words from the id to the end */
};

struct attr_id {
	uint64_t id;
	size_t attr;		/* index */
};

struct attr_table {
	struct aux_attr **v;
	size_t n, cap;
	struct attr_id *ids;	/* sorted by id, then attr, when sorted is set */
	size_t n_ids, cap_ids;
	bool sorted;
	struct attr_layout layout;
};

enum feature_state { FEATURE_NONE, FEATURE_OK, FEATURE_CUT };

struct feature {
	enum feature_state state;
	uint64_t offset, size;	/* offset: in the file */
};

/* A span of decompressed records that never moves once records are out. */
struct inflate_chunk {
	uint8_t *data;
	size_t len, cap;
	bool spooled;		/* data shows the spool, from at on: read-only */
	uint64_t at;
};

/* Where the output of one compressed record ends. */
struct inflate_rec {
	size_t chunk, end;
};

struct inflate {
	void *stream;		/* ZSTD_DStream */
	struct inflate_chunk *chunks;
	size_t n_chunks, cap_chunks;
	size_t n_freed;		/* salvage: of the first chunks */
	uint64_t in_memory;	/* bytes of chunks that were not freed */
	struct inflate_rec *recs;
	size_t n_recs, cap_recs;
	uint64_t n_in, n_out;
	const void *owner;	/* the segment that stream is of */
	struct aux_diag broken;	/* the stream cannot be continued */
	/* position of this pass */
	size_t next_rec;
	size_t chunk, pos, end;
	uint64_t offset;	/* of the last compressed record in the file */
};

/* Records in a row: the data section, or a data.N of a directory. */
struct segment {
	uint64_t start, end;	/* clipped to the file */
	uint64_t cut;		/* bytes of it that the file lacks */
	bool at_end;		/* it ends where its file does */
};

/* What was in the frame of one compressed AUXTRACE. */
struct unpacked {
	uint64_t offset;	/* of the record in the file */
	const uint8_t *data;
	uint64_t len;
	const char *damage;	/* NULL: none; a string constant */
};

struct spool_map {
	void *p;
	size_t size;
};

/* What is unpacked, frames and many records, lies in an unlinked file that is mapped
 * piece by piece. */
struct spool {
	int fd;
	bool opened;
	struct spool_map *maps;
	size_t n_maps, cap_maps;
	uint64_t end;		/* of the file */
	uint64_t at;		/* next free byte in the last map */
	struct unpacked *done;	/* by offset */
	size_t n_done, cap_done;
	void *stream;		/* ZSTD_DStream */
	uint8_t *buf;
};

struct reader_index;

struct aux_reader {
	char *path;
	char *container_dir;	/* see perfdata.h */
	struct backing file;	/* of a directory: all files one after
				 * the other, each on a page of its own */
	uint64_t head_len;	/* of the first file, which has all but data.N */
	struct aux_file_info info;
	struct segment first;	/* the data section */
	struct segment *more;	/* of a directory, NULL: none */
	size_t n_more;
	const struct segment *seg;	/* that pos is in */
	struct aux_diag skipped;	/* the first damage of an earlier one */
	uint64_t pos;
	uint64_t kept_pos;	/* from here on to pos pages may be in memory */
	struct aux_diag error;	/* what next returns from now on */
	struct arena arena;
	struct attr_table attrs;
	struct feature features[AUX_FEAT_BITS];
	struct inflate inflate;
	struct spool spool;
	struct reader_index *index;	/* NULL: none is used */
	struct reader_index *gather;	/* one that is being made; NULL: none */
	bool salvage;		/* see reader_salvage */
	bool has_features;	/* any bit is set in the header */
	const char *source;	/* AUXKIT_SOURCE, lines ended by NUL */
	size_t source_len;
	uint64_t source_offset;	/* of its record; the section is the last */
};

/* Type numbers from here on are simpleperf's; misc holds the size's high
 * half. */
#define SIMPLEPERF_FIRST 32768

static inline struct cursor reader_cursor(const struct aux_reader *r,
					  const void *data, size_t len)
{
	return cursor_init(data, len, r->info.swapped);
}

/* Whether [offset, offset + size) lies in the file. */
static inline bool reader_has(const struct aux_reader *r, uint64_t offset,
			      uint64_t size)
{
	return offset <= r->file.len && size <= r->file.len - offset;
}

/* index.c: the bytes at a place of the file, *n of them; NULL: it has none of there. */
const uint8_t *reader_index_at(struct reader_index *x, uint64_t pos, uint64_t *n);
void reader_index_free(struct reader_index *x);	/* accepts NULL */
/* Records of a file on a disk are kept as they pass, at most max bytes. False: out of
 * memory. */
bool reader_index_begin(struct aux_reader *r, uint64_t max);
/* For the frame loop: from the first record on, one passes, all have passed. */
void reader_index_restart(struct aux_reader *r);
void reader_index_pass(struct aux_reader *r, uint64_t offset, const uint8_t *p, uint64_t len);
void reader_index_end(struct aux_reader *r);

/* reader.c */
/* Opens the file of fd, whose position is 0; fd stays the caller's. name is for
 * messages. */
int reader_open_fd(struct aux_reader **r, int fd, const char *name,
		   struct aux_diag *diag);
/* type, misc and size; false: fewer than 8 bytes. size may be below 8. */
bool reader_header(const struct aux_reader *r, const uint8_t *p, size_t len,
		   struct aux_event *ev);

/*
 * For repair: all bytes up to the end of the file count, whatever the header
 * says of the data, and what cannot be read is passed on as it is: a compressed
 * record that does not decompress, a body too short for its type, compressed
 * trace. Rewinds. What next hands out is valid until the next call only.
 */
void reader_salvage(struct aux_reader *r);
/* The records go on to the end of the file, wherever the header lets them
 * end. */
void reader_extend(struct aux_reader *r);
/* A file for what does not fit into memory: unlinked, in TMPDIR if possible. */
int spool_open(void);

/* attr.c */
/* Turns the n bytes of an attr into the other byte order. */
void attr_swap(uint8_t *p, size_t n);
int attr_table_load(struct aux_reader *r, uint64_t offset, uint64_t size,
		    uint64_t stride, struct aux_diag *diag);
int attr_table_record(struct aux_reader *r, const struct aux_event *ev,
		      struct aux_diag *diag);
void attr_table_update(struct aux_reader *r, const struct aux_event *ev);
void attr_table_sort(struct attr_table *t);
struct aux_attr *attr_table_find(const struct attr_table *t, uint64_t id);
void attr_table_fini(struct attr_table *t);

/* features.c */
void features_locate(struct aux_reader *r, const uint64_t bits[4]);
void features_record(struct aux_reader *r, const struct aux_event *ev);
int features_load(struct aux_reader *r);
/* Keeps a copy of SOURCE text. -AUX_E_NOMEM at worst. */
int reader_keep_source(struct aux_reader *r, const void *text, size_t len);

/* zstd.c: records inside COMPRESSED records */
int inflate_feed(struct aux_reader *r, const struct aux_event *ev,
		 struct aux_diag *diag);
/* Frames the next inflated record in *ev and returns 1; 0 when only a part of
 * one, or nothing, is left; else an error with diag. */
int inflate_next(struct aux_reader *r, struct aux_event *ev,
		 struct aux_diag *diag);
/* Forgets the partial record at the end of a stream. */
void inflate_leave(struct inflate *z);
void inflate_rewind(struct inflate *z);
void inflate_fini(struct inflate *z);

/* zstd.c: fills ev->auxtrace.payload from a frame, clipped if that is
 * damaged. An error: none of it can be had here. */
int unpack_auxtrace(struct aux_reader *r, struct aux_bytes frame,
		    struct aux_event *ev, struct aux_diag *diag);
void unpack_fini(struct spool *s);

/* spool.c */
/* len bytes that will appear at the pointer as they are written to s->fd from *at
 * on. NULL with diag filled. */
const uint8_t *spool_reserve(struct spool *s, uint64_t len, uint64_t *at,
			     struct aux_diag *diag);
int spool_write(int fd, const void *p, size_t n, uint64_t at);
void spool_fini(struct spool *s);

/* records_user.c: c is the body */
void records_auxtrace(struct aux_reader *r, struct cursor *c,
		      struct aux_event *ev);
int records_auxtrace_zstd(struct aux_reader *r, struct cursor *c,
			  struct aux_event *ev, struct aux_diag *diag);
void records_auxtrace_info(struct aux_reader *r, struct cursor *c,
			   struct aux_event *ev);
void records_auxtrace_error(struct cursor *c, struct aux_event *ev);
void records_time_conv(struct cursor *c, struct aux_event *ev);
void records_id_index(struct cursor *c, struct aux_event *ev);
void records_own(struct aux_reader *r, struct cursor *c, struct aux_event *ev);
void records_tracing_data(struct aux_reader *r, struct cursor *c,
			  struct aux_event *ev);
void records_thread_map(struct cursor *c, struct aux_event *ev);
void records_cpu_map(struct cursor *c, struct aux_event *ev);
/* The bytes of n elements; none, and c->bad, when they are not all there. */
struct aux_bytes records_array(struct cursor *c, uint64_t n, size_t size);

/* records.c: fills ev from ev->raw. */
int records_parse(struct aux_reader *r, struct aux_event *ev,
		  struct aux_diag *diag);

/* ---- what files are made of: sections.c ---- */

struct event_entry {
	struct perf_event_attr attr;
	char *name;		/* NULL: not known */
	uint64_t *ids;
	uint32_t n_ids;
};

/* The events of a file that is being written. Zeroed, it is empty. */
struct event_list {
	struct event_entry *v;
	size_t n, cap;
	size_t attr_size;	/* of all attrs in the file: that of the largest */
};

/* Adds an event, whose attr has size bytes; copies the name (NULL: none) and
 * the ids. -AUX_E_NOMEM at worst. */
int event_list_add(struct event_list *l, const struct perf_event_attr *attr,
		   size_t size, const char *name, const uint64_t *ids,
		   uint32_t n_ids);
/* The ids, then the attrs, for the place at in the file; what the header says
 * of them goes into h. */
void event_list_put(const struct event_list *l, uint64_t at,
		    struct rewrite_bytes *b, struct aux_file_header *h);
/* AUX_FEAT_EVENT_DESC */
void event_list_put_desc(const struct event_list *l, struct rewrite_bytes *b);
void event_list_fini(struct event_list *l);

/* The header as it stands in the file; its magic is always PERFILE2. */
void header_image(const struct aux_file_header *h, bool swap,
		  uint8_t image[sizeof(*h)]);
/* The table of the sections in v (data NULL: not there), which stands at `at`;
 * the sections follow in the order of the bits. Sets their bits. */
void section_put_table(const struct aux_bytes v[AUX_FEAT_BITS], uint64_t at,
		       struct rewrite_bytes *b, uint64_t bits[4]);

/* A mapped file and its build id, an entry of AUX_FEAT_BUILD_ID. */
struct build_id {
	char *path;
	uint64_t hash;
	uint32_t pid;		/* names a machine: -1 the host, else a guest */
	uint16_t cpumode;
	uint8_t size;
	uint8_t id[20];
};

/* Each file once. Zeroed, it is empty. */
struct build_id_set {
	struct build_id *v;
	size_t n, cap;
	uint32_t *slots;	/* hash table: number of the file + 1 */
	size_t n_slots;		/* a power of two, or 0 */
};

/* 1: it was added; 0: it was there; -AUX_E_NOMEM. misc is a record's, size at
 * most 20; pid counts only in a guest's record. */
int build_id_set_add(struct build_id_set *s, uint32_t pid, uint16_t misc,
		     const char *path, const uint8_t *id, size_t size);
/* One entry; type 0, or BUILD_ID as a record of a pipe, which is padded to 8
 * bytes as every record: perf 7.2 ends at one that is not. In a section perf
 * pads names alone. */
void build_id_put(const struct build_id *f, uint32_t type,
		  struct rewrite_bytes *b);
void build_id_set_put(const struct build_id_set *s, struct rewrite_bytes *b);
void build_id_set_fini(struct build_id_set *s);

/* Zeros after the payload of a record of ours: AUX_OWN_RECORD_MIN, and a
 * multiple of 8. */
static inline size_t own_record_pad(size_t len)
{
	size_t size = sizeof(struct perf_event_header) +
		      sizeof(struct aux_own_record) + len;

	return size < AUX_OWN_RECORD_MIN ? AUX_OWN_RECORD_MIN - size : -size & 7;
}

/* ---- the writer ---- */

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

struct writer_bytes {
	void *data;	/* NULL: not set */
	size_t len;
	bool sent;	/* stands among the data as a record */
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

/*
 * Everything here belongs to the lock; functions below are called with it held,
 * and those that say so give it up for a while.
 */

/* The way to the file: a buffer, and places that are being filled without the
 * lock. */
struct writer_out {
	int fd;
	bool regular;		/* its header can be kept up to date */
	uint64_t pos;		/* where the buffer goes to in the file */
	struct writer_buf *buf;
	size_t used;
	struct writer_buf *spare;
	struct writer_flight *flights;	/* in order of their place */
	bool broken;		/* a write failed: there is a hole at hole */
	uint64_t hole, hole_end; /* the first; bytes up to hole_end are there */
};

/* Which threads send, for the order of writes (see write_headers_last). */
struct writer_senders {
	bool any;
	bool shared;		/* more than one so far */
	pthread_t first;
	bool alone;		/* the lock is not given up */
};

struct writer {
	pthread_mutex_t lock;
	struct writer_options opt;
	char *path;
	char *old_path;		/* where an existing file was moved, or NULL */
	int error;		/* the first AUX_E_*; nothing is written after */
	struct aux_diag diag;	/* its text */
	bool started;		/* the attrs are in the file */
	bool finished;		/* no more records */
	struct writer_out out;
	struct writer_senders senders;
	struct aux_file_header h;	/* without size of data and features */
	uint64_t data_end;	/* as the header in the file has it */
	uint64_t flushed_ms;
	uint64_t size;		/* what writer_size returns; atomic */

	/* for the sections */
	struct event_list events;
	bool more_ids;		/* than the beginning of the file has */
	uint64_t first_ns, last_ns;	/* of records with a time; 0 none */
	struct writer_chunk *chunks;
	size_t n_chunks, cap_chunks;
	struct build_id_set build_ids;
	struct writer_bytes features[AUX_FEAT_BITS];

	struct writer_stream *streams;
	size_t n_streams, cap_streams;
	struct writer_codes *codes;
	struct writer_zstd *zstd;	/* NULL: nothing is compressed */
};

/* writer.c */
/* The end of each call that appends: flushes when WRITER_PERIOD_MS have passed,
 * and releases the lock. Returns -error. */
int writer_leave(struct writer *w);
/* Appends a whole record, built of parts; may give up the
 * lock before. Starts the file if need be. */
int writer_append(struct writer *w, const struct iovec *part, int n_parts);
/* writer_own without the lock. */
int writer_append_own(struct writer *w, enum aux_own_kind kind,
		      const void *head, size_t head_len, const void *data,
		      size_t len);

/* Sets the sticky error. Returns -code of the first one. */
__attribute__((format(printf, 3, 4)))
int writer_fail(struct writer *w, int code, const char *fmt, ...);
/* Sends the buffer; gives up the lock while it writes. */
int writer_send_buf(struct writer *w);
/* Waits for nothing: sends the buffer until n bytes fit; may give up the
 * lock. */
int writer_room(struct writer *w, size_t n);
/* Bytes that need not be whole records: before the data and after them. */
int writer_put(struct writer *w, const void *data, size_t len);

/* Writes header, ids and attrs, or their records: now records may follow. */
int writer_start(struct writer *w);

/* writer_features.c */
/* Writes all feature sections after the data and sets their bits in h. */
int writer_features_emit(struct writer *w, struct aux_file_header *h);
void writer_features_free(struct writer *w);
/* Features as records among the data, as far as they are set and not sent. */
int writer_features_send(struct writer *w);
int writer_feature_record(struct writer *w, unsigned bit, const void *data,
			  size_t len);
/* What a section holds that the writer knows itself; false: nothing. */
bool writer_make_section(const struct writer *w, unsigned bit,
			 struct rewrite_bytes *b);

/* writer_code.c */
/*
 * The tables of a writer that has none yet; a and b: the key of their hashes.
 * The first code makes them with a random key. Two ranges may then share a slot,
 * and code is written again that need not be: a test gives a known key.
 */
struct writer_codes *writer_codes_new(struct writer *w, uint64_t a, uint64_t b);
void writer_codes_free(struct writer_codes *c);
/* A record that may give memory other code: forgets what is known of it. */
void writer_codes_note(struct writer *w, const struct perf_event_header *rec);

/* writer.c, for repair */
/*
 * A writer that continues an unfinished file, whose header is h.
 * Nothing is written until writer_resume_commit, which closes fd; until then
 * features, build ids, times and chunks may be set. After an error fd is the
 * caller's.
 */
int writer_resume(struct writer **w, const char *path, int fd,
		  const struct aux_file_header *h, struct aux_diag *diag);
/* An AUXTRACE record that is in the file, for the index. */
int writer_resume_chunk(struct writer *w, uint64_t offset, uint16_t size);
/* Cuts the file at end, adds loss (NULL: none), completes and closes it. */
int writer_resume_commit(struct writer *w, uint64_t end,
			 const struct aux_own_loss *loss,
			 struct aux_diag *diag);

/* writer_zstd.c */
int writer_zstd_open(struct writer *w, struct aux_diag *diag);
void writer_zstd_free(struct writer *w);
/* Records are compressed. */
bool writer_zstd_takes(const struct writer *w);
/* What was compressed last did not reach the file. The records are one stream,
 * so nothing later could be read: from here on they are written as they are. */
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
