/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * synth: synthesized records, in the layouts of the kernel and of perf.
 *
 * Invariant: each record is a multiple of 8 bytes, strings NUL padded; kernel
 * records end with the trailer of SYNTH_SAMPLE_TYPE.
 * Specification: <linux/perf_event.h>, enum perf_event_type; user records:
 * tools/lib/perf/include/perf/event.h of Linux 6.1.
 */
#include <limits.h>
#include <string.h>

#include "capture/describe/describe.h"

#define COMM_MAX 15	/* as the kernel's TASK_COMM_LEN, NUL apart */
#define CPUS_MAX 2048	/* of one list, so that a record holds it */

/* A record under construction. The longest is an MMAP2 with a path of PATH_MAX;
 * callers bound everything else, so appending needs no check. */
struct rec {
	union {
		struct perf_event_header h;
		uint8_t bytes[PATH_MAX + 256];
	};
};

static void rec_init(struct rec *r, uint32_t type, uint16_t misc)
{
	memset(&r->h, 0, sizeof(r->h));
	r->h.type = type;
	r->h.misc = misc;
	r->h.size = sizeof(r->h);
}

static void add_bytes(struct rec *r, const void *p, size_t len)
{
	memcpy(r->bytes + r->h.size, p, len);
	r->h.size = (uint16_t)(r->h.size + len);
}

static void add_u8(struct rec *r, uint8_t v)
{
	add_bytes(r, &v, sizeof(v));
}

static void add_u16(struct rec *r, uint16_t v)
{
	add_bytes(r, &v, sizeof(v));
}

static void add_u32(struct rec *r, uint32_t v)
{
	add_bytes(r, &v, sizeof(v));
}

static void add_u64(struct rec *r, uint64_t v)
{
	add_bytes(r, &v, sizeof(v));
}

static void add_string(struct rec *r, const char *s, size_t len)
{
	static const char zero[8];

	add_bytes(r, s, len);
	add_bytes(r, zero, 8 - len % 8);	/* at least one NUL */
}

/* Appends the trailer and writes the record. */
static int finish(struct writer *w, struct rec *r, const struct synth_id *id)
{
	add_u32(r, id->pid);
	add_u32(r, id->tid);
	add_u64(r, id->time);
	add_u32(r, id->cpu);
	add_u32(r, 0);
	add_u64(r, id->id);
	if (id->time)	/* 0 would become the recording's start */
		writer_time(w, id->time);
	return writer_record(w, &r->h);
}

int synth_comm(struct writer *w, const struct synth_id *id, uint32_t pid,
	       uint32_t tid, const char *comm, bool exec)
{
	struct rec r;

	rec_init(&r, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
	add_u32(&r, pid);
	add_u32(&r, tid);
	add_string(&r, comm, strnlen(comm, COMM_MAX));
	return finish(w, &r, id);
}

/* FORK and EXIT: pid, ppid, tid, ptid, time. */
static int add_task(struct writer *w, const struct synth_id *id, uint32_t type,
		    uint16_t misc, const uint32_t ids[4])
{
	struct rec r;

	rec_init(&r, type, misc);
	add_bytes(&r, ids, 4 * sizeof(*ids));
	add_u64(&r, id->time);
	return finish(w, &r, id);
}

int synth_fork(struct writer *w, const struct synth_id *id, uint32_t pid,
	       uint32_t ppid, uint32_t tid, uint32_t ptid)
{
	const uint32_t ids[4] = { pid, ppid, tid, ptid };

	return add_task(w, id, PERF_RECORD_FORK, 0, ids);
}

int synth_fork_exec(struct writer *w, const struct synth_id *id, uint32_t pid,
		    uint32_t ppid, uint32_t tid, uint32_t ptid)
{
	const uint32_t ids[4] = { pid, ppid, tid, ptid };

	return add_task(w, id, PERF_RECORD_FORK, PERF_RECORD_MISC_FORK_EXEC,
			ids);
}

int synth_exit(struct writer *w, const struct synth_id *id, uint32_t pid,
	       uint32_t ppid, uint32_t tid, uint32_t ptid)
{
	const uint32_t ids[4] = { pid, ppid, tid, ptid };

	return add_task(w, id, PERF_RECORD_EXIT, 0, ids);
}

static void add_path(struct rec *r, const char *path)
{
	size_t len = strlen(path);

	if (len < PATH_MAX)
		add_string(r, path, len);
	else	/* as perf_event_mmap_event() */
		add_string(r, "//toolong", strlen("//toolong"));
}

/* PERF_RECORD_MMAP with the kernel's pid of -1, as
 * machine__synthesize_kernel_mmap. */
int synth_mmap_kernel(struct writer *w, const struct synth_id *id,
		      uint64_t addr, uint64_t len, uint64_t pgoff,
		      const char *path)
{
	struct rec r;

	rec_init(&r, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);
	add_u32(&r, UINT32_MAX);
	add_u32(&r, 0);
	add_u64(&r, addr);
	add_u64(&r, len);
	add_u64(&r, pgoff);
	add_path(&r, path);
	return finish(w, &r, id);
}

/* With MISC_MMAP_BUILD_ID the inode fields hold the build id: size, 3 reserved
 * bytes, 20 bytes. */
static void add_backing(struct rec *r, const struct synth_map *map)
{
	if (map->build_id_size) {
		add_u8(r, map->build_id_size);
		add_u8(r, 0);
		add_u16(r, 0);
		add_bytes(r, map->build_id, sizeof(map->build_id));
	} else {
		add_u32(r, map->maj);
		add_u32(r, map->min);
		add_u64(r, map->ino);
		add_u64(r, map->ino_generation);
	}
}

/* A build id also goes into the file's build-id table, which perf archive
 * reads. */
int synth_mmap2(struct writer *w, const struct synth_id *id, uint32_t pid,
		uint32_t tid, const struct synth_map *map)
{
	uint16_t misc = PERF_RECORD_MISC_USER;
	struct rec r;

	if (map->build_id_size > sizeof(map->build_id))
		return -AUX_E_INVAL;
	if (map->build_id_size)
		misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
	if (!(map->prot & 4))	/* PROT_EXEC */
		misc |= PERF_RECORD_MISC_MMAP_DATA;
	if (map->cut)
		misc |= PERF_RECORD_MISC_PROC_MAP_PARSE_TIMEOUT;
	rec_init(&r, PERF_RECORD_MMAP2, misc);
	add_u32(&r, pid);
	add_u32(&r, tid);
	add_u64(&r, map->addr);
	add_u64(&r, map->len);
	add_u64(&r, map->pgoff);
	add_backing(&r, map);
	add_u32(&r, map->prot);
	add_u32(&r, map->flags);
	add_path(&r, map->path);
	if (map->build_id_size)
		writer_build_id(w, UINT32_MAX, PERF_RECORD_MISC_USER, map->path,
				map->build_id, map->build_id_size);
	return finish(w, &r, id);
}

int synth_itrace_start(struct writer *w, const struct synth_id *id,
		       uint32_t pid, uint32_t tid)
{
	struct rec r;

	rec_init(&r, PERF_RECORD_ITRACE_START, 0);
	add_u32(&r, pid);
	add_u32(&r, tid);
	return finish(w, &r, id);
}

int synth_preempted(struct writer *w, const struct synth_id *id)
{
	struct rec r;

	rec_init(&r, PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT |
					 PERF_RECORD_MISC_SWITCH_OUT_PREEMPT);
	return finish(w, &r, id);
}

int synth_switch(struct writer *w, const struct synth_id *id, bool out)
{
	struct rec r;

	rec_init(&r, PERF_RECORD_SWITCH,
		 out ? PERF_RECORD_MISC_SWITCH_OUT : 0);
	return finish(w, &r, id);
}

int synth_aux(struct writer *w, const struct synth_id *id, uint64_t offset,
	      uint64_t size, uint64_t flags)
{
	struct rec r;

	rec_init(&r, PERF_RECORD_AUX, 0);
	add_u64(&r, offset);
	add_u64(&r, size);
	add_u64(&r, flags);
	return finish(w, &r, id);
}

int synth_auxtrace_info(struct writer *w, uint32_t type, const uint64_t *priv,
			uint32_t n_priv)
{
	struct rec r;

	rec_init(&r, AUX_RECORD_AUXTRACE_INFO, 0);
	if (n_priv > (sizeof(r) - 16) / sizeof(*priv))
		return -AUX_E_INVAL;
	add_u32(&r, type);
	add_u32(&r, 0);
	add_bytes(&r, priv, n_priv * sizeof(*priv));
	return writer_record(w, &r.h);
}

/* As many records as the entries need: a record's size has 16 bits. */
int synth_id_index(struct writer *w, const struct aux_rec_id_index_entry *e,
		   uint64_t n)
{
	struct rec r;
	const uint64_t max = (sizeof(r) - 16) / sizeof(*e);
	int ret = 0;

	while (n && !ret) {
		uint64_t k = n < max ? n : max;

		rec_init(&r, AUX_RECORD_ID_INDEX, 0);
		add_u64(&r, k);
		add_bytes(&r, e, k * sizeof(*e));
		ret = writer_record(w, &r.h);
		e += k;
		n -= k;
	}
	return ret;
}

/* THREAD_MAP: u64 count, then u64 tid and 16 bytes of name each. */
int synth_thread_map(struct writer *w, const uint32_t *tids,
		     const char *const *comms, uint64_t n)
{
	struct rec r;
	const uint64_t max = (sizeof(r) - 16) / 24;
	int ret = 0;

	while (n && !ret) {
		uint64_t i, k = n < max ? n : max;

		rec_init(&r, AUX_RECORD_THREAD_MAP, 0);
		add_u64(&r, k);
		for (i = 0; i < k; i++) {
			char comm[COMM_MAX + 1] = "";

			memcpy(comm, comms[i], strnlen(comms[i], COMM_MAX));
			add_u64(&r, tids[i]);
			add_bytes(&r, comm, sizeof(comm));
		}
		ret = writer_record(w, &r.h);
		tids += k;
		comms += k;
		n -= k;
	}
	return ret;
}

/* struct cpu_map_entries, padded to 8. */
static void add_cpu_list(struct rec *r, const uint16_t *cpus, uint16_t n)
{
	add_u16(r, 0);	/* PERF_CPU_MAP__CPUS */
	add_u16(r, n);
	add_bytes(r, cpus, n * sizeof(*cpus));
	while (r->h.size % 8)
		add_u16(r, 0);
}

int synth_cpu_list(struct writer *w, const uint16_t *cpus, size_t n)
{
	struct rec r;

	rec_init(&r, AUX_RECORD_CPU_MAP, 0);
	if (n > CPUS_MAX)
		return -AUX_E_INVAL;
	add_cpu_list(&r, cpus, (uint16_t)n);
	return writer_record(w, &r.h);
}

int synth_cpu_map(struct writer *w, uint32_t n_cpus)
{
	uint16_t cpus[CPUS_MAX];
	uint32_t i;

	if (n_cpus > CPUS_MAX)
		return -AUX_E_INVAL;
	for (i = 0; i < n_cpus; i++)
		cpus[i] = (uint16_t)i;
	return synth_cpu_list(w, cpus, n_cpus);
}

static int add_empty(struct writer *w, uint32_t type)
{
	struct rec r;

	rec_init(&r, type, 0);
	return writer_record(w, &r.h);
}

int synth_finished_round(struct writer *w)
{
	return add_empty(w, AUX_RECORD_FINISHED_ROUND);
}

int synth_finished_init(struct writer *w)
{
	return add_empty(w, AUX_RECORD_FINISHED_INIT);
}
