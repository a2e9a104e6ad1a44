/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading perf.data: records in file order, parsed to host byte order.
 *
 * Accepts file mode of either byte order and every attr size, written by perf,
 * simpleperf or auxcap; pipe mode and zstd-compressed records too. Nothing in
 * the file is trusted: every length and offset is checked before use, and an
 * error names the offset and the cause.
 *
 * A file whose writer was killed (data size 0, or a file of ours without any
 * feature section) is read as far as it goes.
 */
#ifndef AUX_READER_H
#define AUX_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include <aux/error.h>
#include <aux/event.h>
#include <aux/perfdata.h>

#ifdef __cplusplus
extern "C" {
#endif

struct aux_reader;

/* What the file says of itself. Strings may be NULL. */
struct aux_file_info {
	bool swapped;		/* the other byte order */
	bool pipe;
	bool unfinished;	/* the writer was killed */
	uint32_t n_files;	/* of a directory: with `data`; else 1 */
	const char *container;	/* what it was made from in memory; NULL: it is
				 * a perf.data */
	uint64_t size;		/* bytes, as read */
	uint64_t data_offset, data_size;
	const char *hostname, *os_release, *version, *arch, *cpu_desc, *cpuid;
	const char *cmdline;	/* words joined with a space */
	uint32_t n_cpus_online, n_cpus_avail;
};

/*
 * Opens a file, or "-" for standard input. The path is kept for messages and
 * is the value of aux_reader_path. On error *r is NULL and diag is filled.
 */
int aux_reader_open(struct aux_reader **r, const char *path,
		    struct aux_diag *diag);
/* The same over memory that outlives the reader; name is for messages. */
int aux_reader_open_mem(struct aux_reader **r, const void *data, size_t len,
			const char *name, struct aux_diag *diag);
/* NULL is allowed. */
void aux_reader_close(struct aux_reader *r);

const char *aux_reader_path(const struct aux_reader *r);
const struct aux_file_info *aux_reader_info(const struct aux_reader *r);

/* All attrs are known after open, in pipe mode too. NULL behind the last. */
const struct aux_attr *aux_reader_attr(const struct aux_reader *r, size_t i);
/* The attr of an event id, or NULL. */
const struct aux_attr *aux_reader_attr_by_id(const struct aux_reader *r,
					     uint64_t id);

/*
 * The next record. Returns 1 with *ev filled, 0 at the end of the data, or
 * -AUX_E_* with diag filled: then the rest of the file cannot be read, but all
 * that came before stands (a cut file gives its records, then
 * -AUX_E_TRUNCATED). Asked again, it says the same again. A record of unknown
 * type is returned with raw alone; so is a COMPRESSED one, and then what is in
 * it. An AUXTRACE with compressed payload comes as AUXTRACE with what was in
 * the frame; of a damaged one as much as could be had (clipped).
 */
int aux_reader_next(struct aux_reader *r, struct aux_event *ev,
		    struct aux_diag *diag);
/* Back to the first record. */
void aux_reader_rewind(struct aux_reader *r);
/*
 * Bytes that records led to are not needed for now: their pages need not stay
 * in memory. They are there again when they are read, so this is never wrong;
 * safe in any thread.
 */
void aux_reader_let_go(const struct aux_reader *r, const void *p, uint64_t len);

/* A feature section: 1 with *out, 0 when the file has none, or an error. */
int aux_reader_feature(const struct aux_reader *r, unsigned bit,
		       struct aux_bytes *out, struct aux_diag *diag);

/* Value of a key of AUX_FEAT_AUXKIT_SOURCE, or of an AUX_OWN_SOURCE record that
 * open or next has met; NULL when absent. */
const char *aux_reader_source(const struct aux_reader *r, const char *key);

#ifdef __cplusplus
}
#endif
#endif
