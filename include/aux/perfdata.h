/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perf.data on disk: what the kernel's uapi header does not define.
 *
 * Specification: tools/perf/Documentation/perf.data-file-format.txt (as of 4.7)
 * and tools/perf/util/{header,event}.h of Linux 6.1. Kernel records and
 * perf_event_attr are in <linux/perf_event.h>. All fields are in the byte order
 * of the machine that wrote the file. Readers never cast file bytes to these
 * structs; writers (native order) do. Sizes are asserted at the end.
 */
#ifndef AUX_PERFDATA_H
#define AUX_PERFDATA_H

#include <stdint.h>

#include <aux/extension.h>

#define AUX_PERF_MAGIC2 0x32454c4946524550ULL /* "PERFILE2" little endian */

struct aux_file_section {
	uint64_t offset;
	uint64_t size;
};

/* At offset 0. A pipe has magic and size (16) alone, then records. */
struct aux_file_header {
	uint64_t magic;
	uint64_t size;		/* of this header: 104 */
	uint64_t attr_size;	/* stride of attrs: attr + ids section */
	struct aux_file_section attrs;
	struct aux_file_section data;	/* size 0: the writer was killed */
	struct aux_file_section event_types;
	uint64_t features[4];	/* bitmap; sections follow data, in bit order */
};

/* User record types: above what the kernel emits. */
enum aux_record_type {
	AUX_RECORD_HEADER_ATTR = 64,
	AUX_RECORD_EVENT_TYPE = 65,
	AUX_RECORD_TRACING_DATA = 66,
	AUX_RECORD_BUILD_ID = 67,
	AUX_RECORD_FINISHED_ROUND = 68,
	AUX_RECORD_ID_INDEX = 69,
	AUX_RECORD_AUXTRACE_INFO = 70,
	AUX_RECORD_AUXTRACE = 71,
	AUX_RECORD_AUXTRACE_ERROR = 72,
	AUX_RECORD_THREAD_MAP = 73,
	AUX_RECORD_CPU_MAP = 74,
	AUX_RECORD_STAT_CONFIG = 75,
	AUX_RECORD_STAT = 76,
	AUX_RECORD_STAT_ROUND = 77,
	AUX_RECORD_EVENT_UPDATE = 78,
	AUX_RECORD_TIME_CONV = 79,
	AUX_RECORD_HEADER_FEATURE = 80,
	AUX_RECORD_COMPRESSED = 81,
	AUX_RECORD_FINISHED_INIT = 82,
	AUX_RECORD_COMPRESSED2 = 83,
	AUX_RECORD_BPF_METADATA = 84,
	AUX_RECORD_SCHEDSTAT_CPU = 85,
	AUX_RECORD_SCHEDSTAT_DOMAIN = 86,
};

/* Feature bits, as perf's HEADER_*. */
enum aux_feature {
	AUX_FEAT_TRACING_DATA = 1,
	AUX_FEAT_BUILD_ID = 2,
	AUX_FEAT_HOSTNAME = 3,
	AUX_FEAT_OSRELEASE = 4,
	AUX_FEAT_VERSION = 5,
	AUX_FEAT_ARCH = 6,
	AUX_FEAT_NRCPUS = 7,
	AUX_FEAT_CPUDESC = 8,
	AUX_FEAT_CPUID = 9,
	AUX_FEAT_TOTAL_MEM = 10,
	AUX_FEAT_CMDLINE = 11,
	AUX_FEAT_EVENT_DESC = 12,
	AUX_FEAT_CPU_TOPOLOGY = 13,
	AUX_FEAT_NUMA_TOPOLOGY = 14,
	AUX_FEAT_BRANCH_STACK = 15,
	AUX_FEAT_PMU_MAPPINGS = 16,
	AUX_FEAT_GROUP_DESC = 17,
	AUX_FEAT_AUXTRACE = 18,	/* the index of AUXTRACE records */
	AUX_FEAT_STAT = 19,
	AUX_FEAT_CACHE = 20,
	AUX_FEAT_SAMPLE_TIME = 21,
	AUX_FEAT_MEM_TOPOLOGY = 22,
	AUX_FEAT_CLOCKID = 23,
	AUX_FEAT_DIR_FORMAT = 24,
	AUX_FEAT_BPF_PROG_INFO = 25,
	AUX_FEAT_BPF_BTF = 26,
	AUX_FEAT_COMPRESSED = 27,
	AUX_FEAT_CPU_PMU_CAPS = 28,
	AUX_FEAT_CLOCK_DATA = 29,
	AUX_FEAT_HYBRID_TOPOLOGY = 30,
	AUX_FEAT_PMU_CAPS = 31,
	AUX_FEAT_CPU_DOMAIN_INFO = 32,
	AUX_FEAT_E_MACHINE = 33,
	AUX_FEAT_CLN_SIZE = 34,
	AUX_FEAT_PERF_LAST = AUX_FEAT_CLN_SIZE,

	/*
	 * auxkit's own, see extension.h. perf skips what it does not know. Each
	 * starts with a u32 version (1) and a u32 of its own.
	 */
	AUX_FEAT_AUXKIT_SOURCE = 240,	/* struct aux_feat_text: key=value lines */
	AUX_FEAT_AUXKIT_LEDGER = 241,	/* struct aux_feat_ledger */
	AUX_FEAT_AUXKIT_CODE = 242,	/* struct aux_feat_code */
	AUX_FEAT_AUXKIT_SNAPSHOT = 243,
	AUX_FEAT_AUXKIT_CHUNKS = 244,
	AUX_FEAT_BITS = 256,
};

/*
 * AUXTRACE_INFO: after the 8-byte header. priv: words, meaning by type; for
 * Intel PT see enum aux_pt_priv.
 */
struct aux_rec_auxtrace_info {
	uint32_t type;		/* AUX_TRACE_* of decoder.h */
	uint32_t reserved;
	/* uint64_t priv[]; */
};

/* AUXTRACE: 48 bytes with the header, then size payload bytes that the record
 * header's size does not cover. */
struct aux_rec_auxtrace {
	uint64_t size;		/* payload in the file, a multiple of 8: includes
				 * 0 to 7 bytes of padding */
	uint64_t offset;	/* in the AUX stream of this queue, padding not
				 * counted */
	uint64_t reference;	/* unique; PT: a TSC, supplies its top byte */
	uint32_t idx;		/* queue */
	uint32_t tid;		/* -1: per-CPU */
	uint32_t cpu;		/* -1: per-thread */
	uint32_t reserved;
};

/* AUX_FEAT_AUXTRACE: u64 count, then entries. size is the record's own (48). */
struct aux_auxtrace_index_entry {
	uint64_t file_offset;
	uint64_t size;
};

/* AUXTRACE_INFO.priv of Intel PT (perf's INTEL_PT_*), one u64 each. */
enum aux_pt_priv {
	AUX_PT_PMU_TYPE,
	AUX_PT_TIME_SHIFT,
	AUX_PT_TIME_MULT,
	AUX_PT_TIME_ZERO,
	AUX_PT_CAP_USER_TIME_ZERO,
	AUX_PT_TSC_BIT,
	AUX_PT_NORETCOMP_BIT,
	AUX_PT_HAVE_SCHED_SWITCH, /* 0 none, 1 tracepoint, 2 SWITCH, 3 CPU wide */
	AUX_PT_SNAPSHOT_MODE,
	AUX_PT_PER_CPU_MMAPS,
	AUX_PT_MTC_BIT,
	AUX_PT_MTC_FREQ_BITS,	/* mask of the field in config */
	AUX_PT_TSC_CTC_N,
	AUX_PT_TSC_CTC_D,
	AUX_PT_CYC_BIT,
	AUX_PT_MAX_NONTURBO_RATIO,
	AUX_PT_FILTER_STR_LEN,	/* then the string, padded to 8 */
	AUX_PT_N_PRIV,
};

/* TIME_CONV, after the header. */
struct aux_rec_time_conv {
	uint64_t time_shift;
	uint64_t time_mult;
	uint64_t time_zero;
	uint64_t time_cycles;
	uint64_t time_mask;
	uint8_t cap_user_time_zero;
	uint8_t cap_user_time_short;
	uint8_t reserved[6];
};

/* ID_INDEX, after the header: u64 count, then entries; as many
 * aux_rec_id_index_guest may follow, of perf inject --guest-data. */
struct aux_rec_id_index_entry {
	uint64_t id;
	uint64_t idx;
	uint64_t cpu;
	uint64_t tid;
};

struct aux_rec_id_index_guest {
	uint64_t machine_pid;	/* of the hypervisor's process; 0: the host */
	uint64_t vcpu;
};

/* THREAD_MAP, after the header: u64 count, then entries. */
struct aux_rec_thread_map_entry {
	uint64_t tid;
	char comm[16];
};

/* CPU_MAP, after the header: u16 type, then by type. Not aligned. */
enum aux_cpu_map_type {
	AUX_CPU_MAP_CPUS = 0,	/* u16 n, u16 cpu[n] */
	AUX_CPU_MAP_MASK = 1,	/* u16 n, u16 long_size, (8: u32 pad,) mask[n] */
	AUX_CPU_MAP_RANGE = 2,	/* u8 any, u8 pad, u16 start, u16 end */
};

/*
 * AUX_FEAT_BPF_PROG_INFO: u32 count, then of each program this head, info_len
 * bytes of the kernel's struct bpf_prog_info and data_len bytes. Pointers in
 * the info are offsets in those bytes, valid for arrays whose bit is set.
 */
struct aux_feat_bpf_prog {
	uint32_t info_len;
	uint32_t data_len;
	uint64_t arrays;	/* 1 << AUX_BPF_* */
};

enum aux_bpf_array {
	AUX_BPF_JITED_INSNS = 0,
	AUX_BPF_JITED_KSYMS = 3,
	AUX_BPF_JITED_FUNC_LENS = 4,
	AUX_BPF_PROG_TAGS = 8,
};

AUX_ASSERT_SIZE(struct aux_file_header, 104);
AUX_ASSERT_SIZE(struct aux_rec_auxtrace, 40);
AUX_ASSERT_SIZE(struct aux_rec_time_conv, 48);
AUX_ASSERT_SIZE(struct aux_rec_thread_map_entry, 24);
AUX_ASSERT_SIZE(struct aux_feat_bpf_prog, 16);

#endif
