/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite: writes a perf.data made of the records of others.
 *
 * Records go out as they came, in the byte order of their file, and so does all
 * that is made here. The file has no name until rewrite_close gives it one, so
 * there is the whole file or none. Errors stick: after the first one nothing is
 * written, and rewrite_close returns it.
 *
 * Order of calls: open, attrs, then records, trace and features in any order,
 * close or discard. Specification: perf.data-file-format.txt, <aux/perfdata.h>.
 */
#ifndef PERFDATA_REWRITE_H
#define PERFDATA_REWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/reader.h>

struct rewrite;

/* Bytes that are built piece by piece, in the byte order of a file. */
struct rewrite_bytes {
	uint8_t *data;
	size_t len, cap;
	bool swap;
	bool oom;	/* sticky: what is there is not whole */
};

void rewrite_bytes_put(struct rewrite_bytes *b, const void *data, size_t len);
void rewrite_bytes_u32(struct rewrite_bytes *b, uint32_t v);
void rewrite_bytes_u64(struct rewrite_bytes *b, uint64_t v);
/* A string as features have it: u32 length, then the bytes; both count the
 * zeros up to a multiple of 64 (perf's NAME_ALIGN). */
void rewrite_bytes_string(struct rewrite_bytes *b, const char *s);
/* A copy of v in the file's byte order, at p. */
void rewrite_put_u32(uint8_t *p, uint32_t v, bool swap);
void rewrite_put_u64(uint8_t *p, uint64_t v, bool swap);

/*
 * path may exist as a regular file, which stays as it is until close replaces
 * it; anything else there is refused, and so is input (NULL: none), under
 * whatever name. swapped: the other byte order.
 */
int rewrite_open(struct rewrite **w, const char *path, const char *input,
		 bool swapped, struct aux_diag *diag);
/*
 * For an importer: a file without a name, in native byte order, which only
 * rewrite_reader opens. Its events come after all else, so rewrite_attr may be
 * called until then: the ids of streams are often known last. It has no index
 * of AUXTRACE records, which the reader does not use.
 */
int rewrite_open_temp(struct rewrite **w, struct aux_diag *diag);
/* Completes such a file and opens it; name is for messages. Frees w. */
int rewrite_reader(struct rewrite *w, struct aux_reader **r, const char *name,
		   struct aux_diag *diag);
/* -AUX_E_INVAL when path is the file that input names. */
int rewrite_refuse_input(const char *path, const char *input,
			 struct aux_diag *diag);

/* Before the first record. ids and the name are copied. */
void rewrite_attr(struct rewrite *w, const struct aux_attr *a);
/* Whole records, len a multiple of 8. */
void rewrite_record(struct rewrite *w, const void *rec, size_t len);
/* A record of our own; payload is in the file's byte order. */
#define REWRITE_OWN_MAX (65528 - 8 - 16)
void rewrite_own(struct rewrite *w, uint16_t kind, const void *payload,
		 size_t len);
/* The same; a payload that could not be made fails. */
struct rewrite_bytes;
void rewrite_own_bytes(struct rewrite *w, uint16_t kind,
		       const struct rewrite_bytes *payload);
/* h->size is not used: len bytes, padded to 8 in the file. */
void rewrite_auxtrace(struct rewrite *w, const struct aux_rec_auxtrace *h,
		      const void *payload, uint64_t len);
/* A feature section; the last call for a bit wins, data NULL takes it back.
 * data is not copied: it has to live until close. */
void rewrite_feature(struct rewrite *w, unsigned bit, const void *data,
		     size_t len);
bool rewrite_has_feature(const struct rewrite *w, unsigned bit);

/* The file cannot be what it should be: as any error of these functions. */
void rewrite_fail(struct rewrite *w, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The first error so far, or 0: for loops that would go on for long. */
int rewrite_failed(const struct rewrite *w);
/* Completes the file and gives it its name. Frees w. */
int rewrite_close(struct rewrite *w, struct aux_diag *diag);
/* Nothing remains. NULL is allowed. */
void rewrite_discard(struct rewrite *w);

/* ---- records of other files ---- */

/* What rewrite_copy leaves to others; all zero: a whole copy. */
struct rewrite_filter {
	/* false: this record is left out. Not asked for AUXTRACE. NULL: all. */
	bool (*keep)(void *priv, const struct aux_event *ev);
	void *priv;
	bool no_trace;		/* AUXTRACE is left out */
	const char *source;	/* lines added to the text of AUX_OWN_SOURCE */
	/* called now and then with bytes done and all; may be NULL */
	void (*progress)(void *priv, uint64_t done, uint64_t total);
};

/* Attrs of one file, as they are. */
void rewrite_attrs_of(struct rewrite *w, const struct aux_reader *r);
/*
 * All records of r from the first on, and its features. Where r ends early
 * (damage, a killed writer) an AUX_OWN_LOSS says so. -AUX_E_NOMEM, or what
 * rewrite_failed says.
 */
int rewrite_copy(struct rewrite *w, struct aux_reader *r,
		 const struct rewrite_filter *f);
/* The parts of it, for those that take records from several files. */
void rewrite_features_of(struct rewrite *w, const struct aux_reader *r);
/* The text of r's SOURCE, as lines; len 0: none. Reads r from the start. */
struct aux_bytes rewrite_source_of(struct aux_reader *r);
/* Whether the record describes the form of its file, which the new one has of
 * its own: those that only pipes need, COMPRESSED, SOURCE. */
bool rewrite_is_form(const struct aux_reader *r, const struct aux_event *ev);
/* Adds a record that the recording ends early; from_ns: the time of its last
 * record, 0 unknown. */
void rewrite_loss(struct rewrite *w, uint64_t from_ns);

#endif
