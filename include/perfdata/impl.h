/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The insides of struct aux_reader, shared by reader*.c, records.c, features.c.
 *
 * Invariant: data[0..len) never moves while the reader lives, nor does anything
 * that was handed out; the only state that changes after open is the position.
 */
#ifndef PERFDATA_IMPL_H
#define PERFDATA_IMPL_H

#include <aux/reader.h>

#include "common/bytes.h"
#include "common/diag.h"

#include "perfdata/spool.h"

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
	bool on_disk;	/* the map is a file's, and nobody writes to it */
};

void backing_close(struct backing *b);

/* What all attrs agree on, so that a record can be read before its id is known. */
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
};

/* Where the output of one compressed record ends. */
struct inflate_rec {
	size_t chunk, end;
};

struct inflate {
	void *stream;		/* ZSTD_DStream */
	struct inflate_chunk *chunks;
	size_t n_chunks, cap_chunks;
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

struct aux_reader {
	char *path;
	struct backing file;	/* of a directory: all files, one behind the
				 * other, each from a page on */
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
	bool has_features;	/* any bit is set in the header */
	const char *source;	/* AUXKIT_SOURCE, lines ended by NUL */
	size_t source_len;
	uint64_t source_offset;	/* of its record; the section is the last */
};

/* Type numbers from here on are simpleperf's; misc holds the size's high half. */
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

/* reader.c: over a mapping, which the reader then owns, an error or not. */
int reader_open_map(struct aux_reader **r, void *map, size_t len,
		    const char *name, struct aux_diag *diag);
/* The same; of its bytes the first head_len are `data`, and the n segments of
 * more (allocated, then the reader's) are the data.N. */
int reader_open_parts(struct aux_reader **r, const struct backing *file,
		      uint64_t head_len, struct segment *more, size_t n,
		      const char *name, struct aux_diag *diag);

/* type, misc and size; false: fewer than 8 bytes. size may be below 8. */
bool reader_header(const struct aux_reader *r, const uint8_t *p, size_t len,
		   struct aux_event *ev);

/* reader_attr.c */
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
int features_source(struct aux_reader *r, const void *text, size_t len);

/* reader_zstd.c */
int inflate_feed(struct aux_reader *r, const struct aux_event *ev,
		 struct aux_diag *diag);
/* 1 with *ev framed, 0 when only a partial record (or nothing) is left */
int inflate_next(struct aux_reader *r, struct aux_event *ev,
		 struct aux_diag *diag);
/* Forgets the partial record at the end of a stream. */
void inflate_leave(struct inflate *z);
void inflate_rewind(struct inflate *z);
void inflate_fini(struct inflate *z);

/* reader_zstd.c: fills ev->auxtrace.payload from a frame, clipped if that is
 * damaged. An error: none of it can be had here. */
int unpack_auxtrace(struct aux_reader *r, struct aux_bytes frame,
		    struct aux_event *ev, struct aux_diag *diag);
void unpack_fini(struct spool *s);

/* records_user.c: c is the body */
void records_auxtrace(struct aux_reader *r, struct cursor *c,
		      struct aux_event *ev);
int records_auxtrace_zstd(struct aux_reader *r, struct cursor *c,
			  struct aux_event *ev, struct aux_diag *diag);
void records_auxtrace_info(struct aux_reader *r, struct cursor *c,
			   struct aux_event *ev);
void records_auxtrace_error(struct aux_reader *r, struct cursor *c,
			    struct aux_event *ev);
void records_time_conv(struct aux_reader *r, struct cursor *c,
		       struct aux_event *ev);
void records_id_index(struct aux_reader *r, struct cursor *c,
		      struct aux_event *ev);
void records_own(struct aux_reader *r, struct cursor *c, struct aux_event *ev);
void records_tracing_data(struct aux_reader *r, struct cursor *c,
			  struct aux_event *ev);
void records_thread_map(struct aux_reader *r, struct cursor *c,
			struct aux_event *ev);
void records_cpu_map(struct aux_reader *r, struct cursor *c,
		     struct aux_event *ev);
/* n elements of size bytes; nothing, and c->bad, when they are not there. */
struct aux_bytes records_array(struct cursor *c, uint64_t n, size_t size);

/* records.c: fills ev from ev->raw. */
int records_parse(struct aux_reader *r, struct aux_event *ev,
		  struct aux_diag *diag);

#endif
