/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One record, one line. Strings from the file are printed with what is no
 * printable ASCII as \xNN, so a record never breaks its line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/bytes.h"

#include "decode/cmd/record_text_impl.h"

#define RAW_SHOWN 32

struct record_kind {
	const char *name;
	text_fn text;
};

void record_text_string(struct outbuf *o, const char *s, size_t n)
{
	for (; s && n-- && *s; s++) {
		if (*s >= ' ' && *s < 0x7f)
			outbuf_put(o, s, 1);
		else
			outbuf_printf(o, "\\x%02x", (uint8_t)*s);
	}
}

static void put_string(struct outbuf *o, const char *s)
{
	record_text_string(o, s, SIZE_MAX);
}

void record_text_hex(struct outbuf *o, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		outbuf_printf(o, "%02x", p[i]);
}

static void text_mmap(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o,
		      " pid %d tid %d addr %#" PRIx64 " len %#" PRIx64
		      " pgoff %#" PRIx64,
		      PID(ev->mmap.pid), PID(ev->mmap.tid), ev->mmap.addr,
		      ev->mmap.len, ev->mmap.pgoff);
	if (ev->mmap.build_id_size) {
		outbuf_str(o, " build-id ");
		record_text_hex(o, ev->mmap.build_id, ev->mmap.build_id_size);
	} else if (ev->type == PERF_RECORD_MMAP2) {
		outbuf_printf(o, " dev %02x:%02x ino %" PRIu64, ev->mmap.maj,
			      ev->mmap.min, ev->mmap.ino);
		if (ev->mmap.ino_generation)
			outbuf_printf(o, " generation %" PRIu64,
				      ev->mmap.ino_generation);
	}
	if (ev->mmap.flags && ev->mmap.flags != MAP_PRIVATE)
		outbuf_printf(o, " flags %#x", ev->mmap.flags);
	outbuf_printf(o, " %c%c%c ", ev->mmap.prot & 1 ? 'r' : '-',
		      ev->mmap.prot & 2 ? 'w' : '-',
		      ev->mmap.prot & 4 ? 'x' : '-');
	put_string(o, ev->mmap.path);
}

static void text_comm(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " pid %d tid %d%s ", PID(ev->comm.pid),
		      PID(ev->comm.tid), ev->comm.exec ? " exec" : "");
	put_string(o, ev->comm.comm);
}

static void text_task(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " pid %d tid %d ppid %d ptid %d time %" PRIu64,
		      PID(ev->task.pid), PID(ev->task.tid), PID(ev->task.ppid),
		      PID(ev->task.ptid), ev->task.time);
}

static void text_lost(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " id %" PRIu64 " lost %" PRIu64, ev->lost.id,
		      ev->lost.lost);
}

static void text_throttle(struct outbuf *o, const struct aux_reader *r,
			  const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " time %" PRIu64 " id %" PRIu64, ev->throttle.time,
		      ev->throttle.id);
	if (ev->throttle.stream_id)
		outbuf_printf(o, " stream-id %" PRIu64, ev->throttle.stream_id);
}

static void text_sample(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " ip %#" PRIx64 " period %" PRIu64, ev->sample.ip,
		      ev->sample.period);
	if (ev->sample.cgroup)
		outbuf_printf(o, " cgroup %" PRIu64, ev->sample.cgroup);
	if (ev->sample.raw_data.len)
		outbuf_printf(o, " raw %" PRIu64, ev->sample.raw_data.len);
	if (ev->sample.aux.len)
		outbuf_printf(o, " aux %" PRIu64, ev->sample.aux.len);
}

static void text_aux(struct outbuf *o, const struct aux_reader *r,
		     const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " offset %#" PRIx64 " size %#" PRIx64 " flags ",
		      ev->aux.offset, ev->aux.size);
	aux_flags_text(o, ev->aux.flags);
}

static void text_itrace(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " pid %d tid %d", PID(ev->itrace.pid),
		      PID(ev->itrace.tid));
}

static void text_switch(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " %s%s", ev->sw.out ? "out" : "in",
		      ev->sw.preempt ? " preempt" : "");
	if (ev->sw.cpu_wide)
		outbuf_printf(o, " %s pid %d tid %d",
			      ev->sw.out ? "next" : "prev",
			      PID(ev->sw.next_prev_pid),
			      PID(ev->sw.next_prev_tid));
}

static void text_auxtrace_info(struct outbuf *o, const struct aux_reader *r,
			       const struct aux_event *ev)
{
	uint32_t type = ev->auxtrace_info.trace_type;

	(void)r;
	outbuf_printf(o, " type %u%s priv", type,
		      type == 1 ? " (intel_pt)" : type == 3 ? " (cs_etm)" : "");
	for (uint32_t i = 0; i < ev->auxtrace_info.n_priv; i++)
		outbuf_printf(o, " %#" PRIx64, ev->auxtrace_info.priv[i]);
}

static void text_auxtrace(struct outbuf *o, const struct aux_reader *r,
			  const struct aux_event *ev)
{
	const struct aux_rec_auxtrace *h = &ev->auxtrace.h;

	(void)r;
	outbuf_printf(o,
		      " stream %u offset %#" PRIx64 " size %#" PRIx64
		      " reference %#" PRIx64 " cpu %d tid %d",
		      h->idx, h->offset, h->size, h->reference, PID(h->cpu),
		      PID(h->tid));
	if (ev->auxtrace.zstd_size)
		outbuf_printf(o, " zstd %#" PRIx64, ev->auxtrace.zstd_size);
	if (ev->auxtrace.damage)
		outbuf_printf(o, " (damaged: %s; %#" PRIx64 " bytes are there)",
			      ev->auxtrace.damage, ev->auxtrace.payload.len);
	else if (ev->auxtrace.clipped)
		outbuf_printf(o, " (cut: %#" PRIx64 " bytes are there)",
			      ev->auxtrace.payload.len);
}

static void text_auxtrace_error(struct outbuf *o, const struct aux_reader *r,
				const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o,
		      " type %u code %u cpu %d pid %d tid %d ip %#" PRIx64
		      " time %" PRIu64 " ",
		      ev->auxtrace_error.error_type, ev->auxtrace_error.code,
		      PID(ev->auxtrace_error.cpu), PID(ev->auxtrace_error.pid),
		      PID(ev->auxtrace_error.tid), ev->auxtrace_error.ip,
		      ev->auxtrace_error.time);
	if (ev->auxtrace_error.machine_pid)
		outbuf_printf(o, "machine %d vcpu %d ",
			      PID(ev->auxtrace_error.machine_pid),
			      PID(ev->auxtrace_error.vcpu));
	put_string(o, ev->auxtrace_error.msg);
}

static void text_time_conv(struct outbuf *o, const struct aux_reader *r,
			   const struct aux_event *ev)
{
	const struct aux_rec_time_conv *t = &ev->time_conv;

	(void)r;
	outbuf_printf(o,
		      " shift %" PRIu64 " mult %" PRIu64 " zero %" PRIu64,
		      t->time_shift, t->time_mult, t->time_zero);
	if (t->time_mask)
		outbuf_printf(o, " cycles %" PRIu64 " mask %#" PRIx64,
			      t->time_cycles, t->time_mask);
}

static void text_feature(struct outbuf *o, const struct aux_reader *r,
			 const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->raw.data, ev->raw.len,
				      aux_reader_info(r)->swapped);
	struct name_buf buf;
	uint64_t bit;

	cursor_u64(&c);
	bit = cursor_u64(&c);
	outbuf_printf(o, " %s %zu bytes",
		      feature_name(bit < AUX_FEAT_BITS ? (unsigned)bit :
							 AUX_FEAT_BITS, &buf),
		      cursor_left(&c));
}

void record_text_bytes(struct outbuf *o, const struct aux_reader *r,
		       const struct aux_event *ev)
{
	size_t n = ev->raw.len > 8 ? ev->raw.len - 8 : 0;

	(void)r;
	if (!n)
		return;
	outbuf_str(o, " ");
	record_text_hex(o, ev->raw.data + 8, n < RAW_SHOWN ? n : RAW_SHOWN);
	if (n > RAW_SHOWN)
		outbuf_printf(o, "... (%zu bytes)", n);
}

/* table */
static const struct record_kind kinds[] = {
	[PERF_RECORD_MMAP] = { "MMAP", text_mmap },
	[PERF_RECORD_LOST] = { "LOST", text_lost },
	[PERF_RECORD_COMM] = { "COMM", text_comm },
	[PERF_RECORD_EXIT] = { "EXIT", text_task },
	[PERF_RECORD_THROTTLE] = { "THROTTLE", text_throttle },
	[PERF_RECORD_UNTHROTTLE] = { "UNTHROTTLE", text_throttle },
	[PERF_RECORD_FORK] = { "FORK", text_task },
	[PERF_RECORD_READ] = { "READ", record_text_read },
	[PERF_RECORD_SAMPLE] = { "SAMPLE", text_sample },
	[PERF_RECORD_MMAP2] = { "MMAP2", text_mmap },
	[PERF_RECORD_AUX] = { "AUX", text_aux },
	[PERF_RECORD_ITRACE_START] = { "ITRACE_START", text_itrace },
	[PERF_RECORD_LOST_SAMPLES] = { "LOST_SAMPLES", text_lost },
	[PERF_RECORD_SWITCH] = { "SWITCH", text_switch },
	[PERF_RECORD_SWITCH_CPU_WIDE] = { "SWITCH_CPU_WIDE", text_switch },
	[PERF_RECORD_NAMESPACES] = { "NAMESPACES", record_text_namespaces },
	[PERF_RECORD_KSYMBOL] = { "KSYMBOL", record_text_ksymbol },
	[PERF_RECORD_BPF_EVENT] = { "BPF_EVENT", record_text_bpf },
	[PERF_RECORD_CGROUP] = { "CGROUP", record_text_cgroup },
	[PERF_RECORD_TEXT_POKE] = { "TEXT_POKE", record_text_poke },
	[PERF_RECORD_AUX_OUTPUT_HW_ID] = { "AUX_OUTPUT_HW_ID",
					   record_text_hw_id },
	[22] = { "CALLCHAIN_DEFERRED", record_text_callchain },
	[AUX_RECORD_HEADER_ATTR] = { "HEADER_ATTR", NULL },
	[AUX_RECORD_EVENT_TYPE] = { "EVENT_TYPE", record_text_own },
	[AUX_RECORD_TRACING_DATA] = { "TRACING_DATA", record_text_tracing_data },
	[AUX_RECORD_BUILD_ID] = { "BUILD_ID", record_text_build_id },
	[AUX_RECORD_FINISHED_ROUND] = { "FINISHED_ROUND", NULL },
	[AUX_RECORD_ID_INDEX] = { "ID_INDEX", record_text_id_index },
	[AUX_RECORD_AUXTRACE_INFO] = { "AUXTRACE_INFO", text_auxtrace_info },
	[AUX_RECORD_AUXTRACE] = { "AUXTRACE", text_auxtrace },
	[AUX_RECORD_AUXTRACE_ERROR] = { "AUXTRACE_ERROR", text_auxtrace_error },
	[AUX_RECORD_THREAD_MAP] = { "THREAD_MAP", record_text_thread_map },
	[AUX_RECORD_CPU_MAP] = { "CPU_MAP", record_text_cpu_map },
	[AUX_RECORD_STAT_CONFIG] = { "STAT_CONFIG", NULL },
	[AUX_RECORD_STAT] = { "STAT", NULL },
	[AUX_RECORD_STAT_ROUND] = { "STAT_ROUND", NULL },
	[AUX_RECORD_EVENT_UPDATE] = { "EVENT_UPDATE", NULL },
	[AUX_RECORD_TIME_CONV] = { "TIME_CONV", text_time_conv },
	[AUX_RECORD_HEADER_FEATURE] = { "HEADER_FEATURE", text_feature },
	[AUX_RECORD_COMPRESSED] = { "COMPRESSED", NULL },
	[AUX_RECORD_FINISHED_INIT] = { "FINISHED_INIT", NULL },
	[AUX_RECORD_COMPRESSED2] = { "COMPRESSED2", NULL },
	[AUX_RECORD_BPF_METADATA] = { "BPF_METADATA", NULL },
};

/* table */
static const char *const features[] = {
	[AUX_FEAT_TRACING_DATA] = "tracing_data",
	[AUX_FEAT_BUILD_ID] = "build_id",
	[AUX_FEAT_HOSTNAME] = "hostname",
	[AUX_FEAT_OSRELEASE] = "osrelease",
	[AUX_FEAT_VERSION] = "version",
	[AUX_FEAT_ARCH] = "arch",
	[AUX_FEAT_NRCPUS] = "nrcpus",
	[AUX_FEAT_CPUDESC] = "cpudesc",
	[AUX_FEAT_CPUID] = "cpuid",
	[AUX_FEAT_TOTAL_MEM] = "total_mem",
	[AUX_FEAT_CMDLINE] = "cmdline",
	[AUX_FEAT_EVENT_DESC] = "event_desc",
	[AUX_FEAT_CPU_TOPOLOGY] = "cpu_topology",
	[AUX_FEAT_NUMA_TOPOLOGY] = "numa_topology",
	[AUX_FEAT_BRANCH_STACK] = "branch_stack",
	[AUX_FEAT_PMU_MAPPINGS] = "pmu_mappings",
	[AUX_FEAT_GROUP_DESC] = "group_desc",
	[AUX_FEAT_AUXTRACE] = "auxtrace",
	[AUX_FEAT_STAT] = "stat",
	[AUX_FEAT_CACHE] = "cache",
	[AUX_FEAT_SAMPLE_TIME] = "sample_time",
	[AUX_FEAT_MEM_TOPOLOGY] = "mem_topology",
	[AUX_FEAT_CLOCKID] = "clockid",
	[AUX_FEAT_DIR_FORMAT] = "dir_format",
	[AUX_FEAT_BPF_PROG_INFO] = "bpf_prog_info",
	[AUX_FEAT_BPF_BTF] = "bpf_btf",
	[AUX_FEAT_COMPRESSED] = "compressed",
	[AUX_FEAT_CPU_PMU_CAPS] = "cpu_pmu_caps",
	[AUX_FEAT_CLOCK_DATA] = "clock_data",
	[AUX_FEAT_HYBRID_TOPOLOGY] = "hybrid_topology",
	[AUX_FEAT_PMU_CAPS] = "pmu_caps",
	[AUX_FEAT_AUXKIT_SOURCE] = "auxkit_source",
	[AUX_FEAT_AUXKIT_LEDGER] = "auxkit_ledger",
	[AUX_FEAT_AUXKIT_CODE] = "auxkit_code",
	[AUX_FEAT_AUXKIT_SNAPSHOT] = "auxkit_snapshot",
	[AUX_FEAT_AUXKIT_CHUNKS] = "auxkit_chunks",
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define N_FEATURES (sizeof(features) / sizeof(features[0]))

const char *record_name(uint32_t type, struct name_buf *buf)
{
	if (type < N_KINDS && kinds[type].name)
		return kinds[type].name;
	snprintf(buf->text, sizeof(buf->text), "TYPE_%u", type);
	return buf->text;
}

const char *feature_name(unsigned bit, struct name_buf *buf)
{
	if (bit < N_FEATURES && features[bit])
		return features[bit];
	snprintf(buf->text, sizeof(buf->text), "feature_%u", bit);
	return buf->text;
}

void aux_flags_text(struct outbuf *o, uint64_t flags)
{
	static const char *const names[] = { "truncated", "overwrite",
					     "partial", "collision" };
	const char *sep = "";

	if (!flags)
		outbuf_str(o, "none");
	for (unsigned i = 0; i < 4; i++) {
		if (!(flags >> i & 1))
			continue;
		outbuf_printf(o, "%s%s", sep, names[i]);
		sep = ",";
	}
	if (flags >> 4)
		outbuf_printf(o, "%s%#" PRIx64, sep, flags & ~UINT64_C(15));
}

static void put_trailer(struct outbuf *o, const struct aux_sample_id *id)
{
	if (!id->present)
		return;
	outbuf_str(o, " |");
	if (id->present & PERF_SAMPLE_TID)
		outbuf_printf(o, " pid %d tid %d", PID(id->pid), PID(id->tid));
	if (id->present & PERF_SAMPLE_TIME)
		outbuf_printf(o, " time %" PRIu64, id->time);
	if (id->present & PERF_SAMPLE_CPU)
		outbuf_printf(o, " cpu %d", PID(id->cpu));
	if (id->present & (PERF_SAMPLE_ID | PERF_SAMPLE_IDENTIFIER))
		outbuf_printf(o, " id %" PRIu64, id->id);
	if (id->present & PERF_SAMPLE_STREAM_ID)
		outbuf_printf(o, " stream-id %" PRIu64, id->stream_id);
}

static void put_guest(struct outbuf *o, const struct aux_event *ev)
{
	uint16_t mode = ev->misc & PERF_RECORD_MISC_CPUMODE_MASK;

	if (ev->type >= AUX_RECORD_HEADER_ATTR)
		return;
	if (mode == PERF_RECORD_MISC_GUEST_KERNEL)
		outbuf_str(o, " guest-kernel");
	else if (mode == PERF_RECORD_MISC_GUEST_USER)
		outbuf_str(o, " guest-user");
}

void record_text(struct outbuf *o, const struct aux_reader *r,
		 const struct aux_event *ev)
{
	text_fn text = ev->type < N_KINDS ? kinds[ev->type].text : NULL;
	struct name_buf buf;

	/* A sample without its attr was not parsed. */
	if (ev->type == PERF_RECORD_SAMPLE && !ev->id.present && !ev->attr)
		text = NULL;
	outbuf_printf(o, "%#" PRIx64 " [%u] %s", ev->offset, ev->size,
		      record_name(ev->type, &buf));
	put_guest(o, ev);
	(text ? text : record_text_bytes)(o, r, ev);
	put_trailer(o, &ev->id);
}
