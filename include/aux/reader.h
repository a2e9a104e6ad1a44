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
#include <aux/perfdata.h>

#ifdef __cplusplus
extern "C" {
#endif

struct aux_reader;

struct aux_bytes {
	const uint8_t *data;
	uint64_t len;
};

/* One perf_event_attr of the file, widened or cut to this build's size. */
struct aux_attr {
	struct perf_event_attr attr;	/* host order; missing tail is zero */
	uint32_t file_size;		/* attr.size in the file */
	const uint64_t *ids;
	uint32_t n_ids;
	const char *name;		/* EVENT_DESC or EVENT_UPDATE; may be NULL */
};

/* The trailer (sample_id_all) or the same fields of a SAMPLE. */
struct aux_sample_id {
	uint64_t present;	/* PERF_SAMPLE_* bits that were there */
	uint32_t pid, tid;
	uint64_t time;
	uint64_t id;
	uint64_t stream_id;
	uint32_t cpu;
};

/*
 * A parsed record. Strings and byte ranges point into the file (or into the
 * reader's buffers) and live as long as the reader.
 */
struct aux_event {
	uint32_t type;		/* PERF_RECORD_* or AUX_RECORD_* */
	uint16_t misc;
	uint32_t size;		/* header.size */
	uint64_t offset;	/* of the record in the file; for a record from
				 * a COMPRESSED one, that one's offset */
	const struct aux_attr *attr;	/* NULL if no id leads to one */
	struct aux_sample_id id;
	struct aux_bytes raw;	/* the record, header included, file order */
	union {
		struct {	/* MMAP, MMAP2. MMAP has no prot: r-x, or
				 * r-- when marked as data */
			uint32_t pid, tid;
			uint64_t addr, len, pgoff;
			uint32_t maj, min;
			uint64_t ino, ino_generation;
			uint32_t prot, flags;
			uint8_t build_id[20];
			uint8_t build_id_size;	/* 0: none */
			const char *path;
		} mmap;
		struct {
			uint32_t pid, tid;
			bool exec;
			const char *comm;
		} comm;
		struct {	/* FORK, EXIT */
			uint32_t pid, ppid, tid, ptid;
			uint64_t time;
		} task;
		struct {	/* ITRACE_START */
			uint32_t pid, tid;
		} itrace;
		struct {
			uint64_t offset, size, flags;	/* PERF_AUX_FLAG_* */
		} aux;
		struct {
			uint64_t hw_id;
		} aux_output_hw_id;
		struct {	/* SWITCH, SWITCH_CPU_WIDE */
			bool out, preempt, cpu_wide;
			uint32_t next_prev_pid, next_prev_tid;
		} sw;
		struct {	/* LOST, LOST_SAMPLES (id 0) */
			uint64_t id, lost;
		} lost;
		struct {
			uint64_t time, id, stream_id;
		} throttle;
		struct {
			struct aux_rec_auxtrace h;
			struct aux_bytes payload;	/* clipped to the file */
			uint64_t payload_offset;	/* in the file */
			bool clipped;		/* the file ends inside it, or
						 * the frame is damaged */
			bool exact;		/* len has no padding in it */
			uint64_t zstd_size;	/* 0: not compressed; else
						 * payload is what was in the
						 * frame, h.size the raw size */
			const char *damage;	/* of the frame, NULL: none */
		} auxtrace;
		struct {
			uint32_t trace_type;
			uint32_t n_priv;
			const uint64_t *priv;	/* host order */
		} auxtrace_info;
		struct {
			uint32_t error_type, code, cpu, pid, tid;
			uint64_t ip, time;
			const char *msg;
		} auxtrace_error;
		struct aux_rec_time_conv time_conv;
		struct {
			uint64_t n;
			struct aux_bytes entries;	/* file order */
		} id_index;
		struct {	/* KSYMBOL */
			uint64_t addr;
			uint32_t len;
			uint16_t ksym_type, flags;
			const char *name;
		} ksymbol;
		struct {	/* TEXT_POKE */
			uint64_t addr;
			uint16_t old_len, new_len;
			const uint8_t *bytes;	/* old, then new */
		} text_poke;
		struct {	/* SAMPLE: the common part; see raw for the rest */
			uint64_t ip, period;
			struct aux_bytes raw_data;	/* PERF_SAMPLE_RAW */
			struct aux_bytes aux;		/* PERF_SAMPLE_AUX */
		} sample;
		struct {	/* EVENT_TYPE with AUX_OWN_MAGIC; kind 0: perf's */
			uint16_t kind, version;
			struct aux_bytes payload;	/* file order */
			union {
				struct aux_own_loss loss;
				struct {
					struct aux_own_snapshot h;
					const uint8_t *label;	/* no NUL */
				} snapshot;
				struct {
					struct aux_own_code h;
					const uint8_t *bytes;	/* NULL: see
								 * h.blob */
				} code;
				/* SOURCE: text, LEDGER: entries of 40 bytes */
				struct aux_bytes source, ledger;
			};
		} own;
	};
};

/* What the file says of itself. Strings may be NULL. */
struct aux_file_info {
	bool swapped;		/* the other byte order */
	bool pipe;
	bool unfinished;	/* the writer was killed */
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
 * it. An AUXTRACE with compressed payload comes as AUXTRACE with what was in the
 * frame; of a damaged one as much as could be had (clipped).
 */
int aux_reader_next(struct aux_reader *r, struct aux_event *ev,
		    struct aux_diag *diag);
/* Back to the first record. */
void aux_reader_rewind(struct aux_reader *r);

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
