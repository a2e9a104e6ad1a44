/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record of a perf.data, parsed to host byte order, as the reader gives it.
 *
 * Strings and byte ranges point into the file (or into the reader's buffers)
 * and live as long as the reader. Fields are those of the record in
 * <linux/perf_event.h>, or of <aux/perfdata.h> and <aux/extension.h>.
 */
#ifndef AUX_EVENT_H
#define AUX_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include <aux/perfdata.h>

#ifdef __cplusplus
extern "C" {
#endif

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
			uint32_t machine_pid, vcpu;	/* 0: no guest */
		} auxtrace_error;
		struct aux_rec_time_conv time_conv;
		struct {
			uint64_t n;
			struct aux_bytes entries;	/* file order */
			struct aux_bytes guests;	/* n times machine pid
							 * and vcpu, u64 each,
							 * or nothing */
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
		struct {
			uint32_t pid, tid;
			uint64_t n;
			struct aux_bytes ids;	/* n times dev and inode, u64
						 * each, in file order */
		} namespaces;
		struct {	/* BPF_EVENT */
			uint16_t type, flags;	/* PERF_BPF_EVENT_* */
			uint32_t id;
			uint8_t tag[8];
		} bpf;
		struct {
			uint64_t id;
			const char *path;
		} cgroup;
		struct {	/* READ; what read_format leaves out is 0 */
			uint32_t pid, tid;
			uint64_t format;	/* PERF_FORMAT_* */
			uint64_t value, enabled, running, id, lost;
		} read;
		struct {	/* CALLCHAIN_DEFERRED */
			uint64_t cookie, n;
			struct aux_bytes ips;	/* u64 each, file order */
		} callchain;
		struct {
			uint64_t n;
			struct aux_bytes entries;	/* n times u64 tid and
							 * 16 bytes of name */
		} thread_map;
		struct {
			uint16_t type;		/* AUX_CPU_MAP_* */
			uint16_t n, long_size;	/* CPUS: n, MASK: both */
			uint16_t start, end;	/* RANGE */
			bool any;		/* RANGE: and no CPU at all */
			struct aux_bytes data;	/* n times u16, or n words of
						 * long_size; file order */
		} cpu_map;
		struct {	/* what the file has behind the record */
			struct aux_bytes data;
		} tracing_data;
		struct {	/* SAMPLE: the common part; see raw for the rest */
			uint64_t ip, period;
			uint64_t cgroup;	/* PERF_SAMPLE_CGROUP; 0: none */
			struct aux_bytes raw_data;	/* PERF_SAMPLE_RAW */
			struct aux_bytes aux;		/* PERF_SAMPLE_AUX */
		} sample;
		struct {	/* EVENT_TYPE with AUX_OWN_MAGIC; kind 0: perf's */
			uint16_t kind, version;
			struct aux_bytes payload;	/* file order */
			union {
				struct aux_own_loss loss;
				struct aux_own_signal signal;
				struct {
					struct aux_own_moment h;
					const uint8_t *label;	/* no NUL */
				} moment;
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

#ifdef __cplusplus
}
#endif
#endif
