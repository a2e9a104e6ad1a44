/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mkperf: a perf.data made by hand, in memory: attrs, any records, features.
 *
 * Every record gets the trailer of PERF_SAMPLE_TID | TIME | CPU | IDENTIFIER; the
 * event's id is 1, those of more attrs count on.
 */
#ifndef TESTS_UNIT_MKPERF_H
#define TESTS_UNIT_MKPERF_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <aux/perfdata.h>

#define MK_PMU 8	/* attr.type of the AUX PMU */
#define MK_TRAILER 32
#define MK_MISC_BUILD_ID (1 << 14)	/* MISC_MMAP_BUILD_ID: not in old headers */

struct mk {
	uint8_t *p;
	size_t n, cap;
	size_t data_at;
	size_t n_attrs;
	struct {
		unsigned bit;
		const void *data;
		size_t len;
	} feat[4];
	unsigned n_feat;
};

/* Who and when: the trailer. */
struct mk_id {
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu;
};

static void mk_put(struct mk *m, const void *data, size_t len)
{
	if (m->n + len > m->cap) {
		m->cap = 2 * (m->n + len) + 4096;
		m->p = realloc(m->p, m->cap);
		if (!m->p)
			abort();
	}
	memcpy(m->p + m->n, data, len);
	m->n += len;
}

static void mk_u32(struct mk *m, uint32_t v)
{
	mk_put(m, &v, 4);
}

static void mk_u64(struct mk *m, uint64_t v)
{
	mk_put(m, &v, 8);
}

/* A string, padded with zeros to 8. */
static void mk_text(struct mk *m, const char *s)
{
	static const char zero[8];
	size_t len = strlen(s) + 1;

	mk_put(m, s, len);
	mk_put(m, zero, -len & 7);
}

/* Events with the ids 1, 2, .. */
static void mk_init_attrs(struct mk *m, const struct perf_event_attr *attrs,
			  size_t n)
{
	memset(m, 0, sizeof(*m));
	for (size_t i = 0; i < sizeof(struct aux_file_header); i += 8)
		mk_u64(m, 0);
	for (size_t i = 0; i < n; i++)
		mk_u64(m, i + 1);
	for (size_t i = 0; i < n; i++) {
		struct aux_file_section ids = {
			sizeof(struct aux_file_header) + 8 * i, 8,
		};

		mk_put(m, &attrs[i], sizeof(attrs[i]));
		mk_put(m, &ids, sizeof(ids));
	}
	m->n_attrs = n;
	m->data_at = m->n;
}

static struct perf_event_attr mk_attr(uint32_t type, uint64_t config)
{
	return (struct perf_event_attr){
		.type = type, .size = sizeof(struct perf_event_attr),
		.config = config,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER,
		.sample_id_all = 1, .exclude_kernel = 1,
	};
}

__attribute__((unused))
static void mk_init(struct mk *m, uint64_t config)
{
	struct perf_event_attr attr = mk_attr(MK_PMU, config);

	mk_init_attrs(m, &attr, 1);
}

static size_t mk_begin(struct mk *m, uint32_t type, uint16_t misc)
{
	struct perf_event_header h = { .type = type, .misc = misc };
	size_t at = m->n;

	mk_put(m, &h, sizeof(h));
	return at;
}

static void mk_end(struct mk *m, size_t at, const struct mk_id *id)
{
	struct perf_event_header h;

	if (id) {
		mk_u32(m, id->pid);
		mk_u32(m, id->tid);
		mk_u64(m, id->time);
		mk_u32(m, id->cpu);
		mk_u32(m, 0);
		mk_u64(m, 1);
	}
	memcpy(&h, m->p + at, sizeof(h));
	h.size = (uint16_t)(m->n - at);
	memcpy(m->p + at, &h, sizeof(h));
}

/* What is mapped, and the 20 equal bytes of its build id; 0: it has none. */
struct mk_map {
	uint64_t addr, len, pgoff;
	const char *path;
	uint8_t build_id;
};

static void mk_mmap2(struct mk *m, uint16_t misc, struct mk_id id,
		     struct mk_map map)
{
	size_t at = mk_begin(m, PERF_RECORD_MMAP2,
			     misc | (map.build_id ? MK_MISC_BUILD_ID : 0));
	uint8_t bytes[24] = { map.build_id ? 20 : 0 };	/* or device and inode */

	memset(bytes + 4, map.build_id, 20);
	mk_u32(m, id.pid);
	mk_u32(m, id.tid);
	mk_u64(m, map.addr);
	mk_u64(m, map.len);
	mk_u64(m, map.pgoff);
	mk_put(m, bytes, sizeof(bytes));
	mk_u32(m, 5);
	mk_u32(m, 2);
	mk_text(m, map.path);
	mk_end(m, at, &id);
}

__attribute__((unused))
static void mk_mmap(struct mk *m, struct mk_id id, uint64_t addr, uint64_t len,
		    uint64_t pgoff, const char *path)
{
	mk_mmap2(m, PERF_RECORD_MISC_USER, id,
		 (struct mk_map){ addr, len, pgoff, path, 0 });
}

__attribute__((unused))
static void mk_comm(struct mk *m, struct mk_id id, bool exec, const char *comm)
{
	size_t at = mk_begin(m, PERF_RECORD_COMM,
			     exec ? PERF_RECORD_MISC_COMM_EXEC : 0);

	mk_u32(m, id.pid);
	mk_u32(m, id.tid);
	mk_text(m, comm);
	mk_end(m, at, &id);
}

/* PERF_RECORD_FORK or EXIT with any misc. id: the child's, or who ends. */
static void mk_task(struct mk *m, uint32_t type, uint16_t misc, struct mk_id id,
		    uint32_t ppid, uint32_t ptid)
{
	size_t at = mk_begin(m, type, misc);

	mk_u32(m, id.pid);
	mk_u32(m, ppid);
	mk_u32(m, id.tid);
	mk_u32(m, ptid);
	mk_u64(m, id.time);
	mk_end(m, at, &id);
}

/* id: the child's */
__attribute__((unused))
static void mk_fork(struct mk *m, struct mk_id id, uint32_t ppid, uint32_t ptid)
{
	mk_task(m, PERF_RECORD_FORK, 0, id, ppid, ptid);
}

__attribute__((unused))
static void mk_switch(struct mk *m, struct mk_id id, bool out)
{
	mk_end(m, mk_begin(m, PERF_RECORD_SWITCH,
			   out ? PERF_RECORD_MISC_SWITCH_OUT : 0), &id);
}

__attribute__((unused))
static void mk_switch_preempt(struct mk *m, struct mk_id id)
{
	mk_end(m, mk_begin(m, PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT |
			   PERF_RECORD_MISC_SWITCH_OUT_PREEMPT), &id);
}

__attribute__((unused))
static void mk_switch_wide(struct mk *m, struct mk_id id, bool out,
			   uint32_t pid, uint32_t tid)
{
	size_t at = mk_begin(m, PERF_RECORD_SWITCH_CPU_WIDE,
			     out ? PERF_RECORD_MISC_SWITCH_OUT : 0);

	mk_u32(m, pid);
	mk_u32(m, tid);
	mk_end(m, at, &id);
}

__attribute__((unused))
static void mk_itrace(struct mk *m, struct mk_id id)
{
	size_t at = mk_begin(m, PERF_RECORD_ITRACE_START, 0);

	mk_u32(m, id.pid);
	mk_u32(m, id.tid);
	mk_end(m, at, &id);
}

__attribute__((unused))
static void mk_aux(struct mk *m, struct mk_id id, uint64_t offset,
		   uint64_t size, uint64_t flags)
{
	size_t at = mk_begin(m, PERF_RECORD_AUX, 0);

	mk_u64(m, offset);
	mk_u64(m, size);
	mk_u64(m, flags);
	mk_end(m, at, &id);
}

/* Of the second attr, mk_attr and PERF_SAMPLE_AUX. */
__attribute__((unused))
static void mk_sample_aux(struct mk *m, struct mk_id id, const void *data,
			  size_t len)
{
	static const uint8_t pad[8];
	size_t at = mk_begin(m, PERF_RECORD_SAMPLE, 0);

	mk_u64(m, 2);
	mk_u32(m, id.pid);
	mk_u32(m, id.tid);
	mk_u64(m, id.time);
	mk_u32(m, id.cpu);
	mk_u32(m, 0);
	mk_u64(m, (len + 7) & ~(size_t)7);
	mk_put(m, data, len);
	mk_put(m, pad, -len & 7);
	mk_end(m, at, NULL);
}

/* Intel PT with a TSC that counts nanoseconds. */
__attribute__((unused))
static void mk_pt_info_mode(struct mk *m, bool snapshot)
{
	size_t at = mk_begin(m, AUX_RECORD_AUXTRACE_INFO, 0);

	mk_u32(m, 1);
	mk_u32(m, 0);
	for (unsigned i = 0; i < AUX_PT_N_PRIV; i++)
		mk_u64(m, i == AUX_PT_PMU_TYPE ? MK_PMU :
			  i == AUX_PT_TIME_MULT ||
			  i == AUX_PT_CAP_USER_TIME_ZERO ? 1 :
			  i == AUX_PT_TSC_BIT ? 0x400 :
			  i == AUX_PT_HAVE_SCHED_SWITCH ? 2 :
			  i == AUX_PT_SNAPSHOT_MODE ? snapshot : 0);
	mk_end(m, at, NULL);
}

__attribute__((unused))
static void mk_pt_info(struct mk *m)
{
	mk_pt_info_mode(m, false);
}

/* An own record; more, len_more: what follows the fixed part. */
__attribute__((unused))
static void mk_own(struct mk *m, uint16_t kind, const void *data, size_t len,
		   const void *more, size_t len_more)
{
	static const uint8_t pad[8];
	struct aux_own_record h = { AUX_OWN_MAGIC, kind, 1,
				    (uint32_t)(len + len_more) };
	size_t at = mk_begin(m, AUX_RECORD_EVENT_TYPE, 0);

	mk_put(m, &h, sizeof(h));
	mk_put(m, data, len);
	if (len_more)
		mk_put(m, more, len_more);
	mk_put(m, pad, -(len + len_more) & 7);
	mk_end(m, at, NULL);
}

__attribute__((unused))
static void mk_loss(struct mk *m, uint32_t idx, uint32_t cause, uint64_t offset,
		    uint64_t bytes)
{
	struct aux_own_loss l = { .idx = idx, .cause = cause, .offset = offset,
				  .bytes = bytes, .cpu = UINT32_MAX,
				  .tid = UINT32_MAX };

	mk_own(m, AUX_OWN_LOSS, &l, sizeof(l), NULL, 0);
}

__attribute__((unused))
static void mk_snapshot(struct mk *m, uint64_t number, const char *label)
{
	struct aux_own_snapshot s = { number, number * 1000,
				      AUX_SNAPSHOT_SIGNAL,
				      (uint32_t)strlen(label) };

	mk_own(m, AUX_OWN_SNAPSHOT, &s, sizeof(s), label, strlen(label));
}

/* bytes NULL: those of an earlier record */
__attribute__((unused))
static void mk_code(struct mk *m, uint32_t pid, uint64_t time, uint64_t addr,
		    uint64_t blob, const void *bytes, size_t len)
{
	struct aux_own_code c = { time, addr, len, blob, pid, AUX_CODE_ANON };

	mk_own(m, AUX_OWN_CODE, &c, sizeof(c), bytes, bytes ? len : 0);
}

__attribute__((unused))
static void mk_auxtrace(struct mk *m, uint32_t idx, uint32_t cpu, uint32_t tid,
			uint64_t offset, const void *data, size_t len)
{
	static const uint8_t pad[8];
	size_t at = mk_begin(m, AUX_RECORD_AUXTRACE, 0);

	mk_u64(m, (len + 7) & ~(size_t)7);
	mk_u64(m, offset);
	mk_u64(m, 0);
	mk_u32(m, idx);
	mk_u32(m, tid);
	mk_u32(m, cpu);
	mk_u32(m, 0);
	mk_end(m, at, NULL);
	mk_put(m, data, len);
	mk_put(m, pad, -len & 7);
}

/* frame: a zstd frame of n raw bytes, or not */
__attribute__((unused))
static size_t mk_auxtrace_zstd(struct mk *m, uint32_t idx, uint64_t offset,
			       const void *frame, size_t len, uint64_t raw)
{
	static const uint8_t pad[8];
	size_t at = mk_begin(m, AUX_RECORD_AUXKIT_AUXTRACE_ZSTD, 0);

	mk_u64(m, (len + 7) & ~(size_t)7);
	mk_u64(m, offset);
	mk_u64(m, 0);
	mk_u32(m, idx);
	mk_u32(m, UINT32_MAX);
	mk_u32(m, idx);
	mk_u32(m, 0);
	mk_u64(m, raw);
	mk_u64(m, len);
	mk_end(m, at, NULL);
	mk_put(m, frame, len);
	mk_put(m, pad, -len & 7);
	return at;
}

/* The code of two processes, 10 and 20, as an AUX_FEAT_AUXKIT_CODE. */
struct mk_codes {
	struct aux_feat_code head;
	struct aux_code_entry e[2];
	uint8_t blob[8];
};

/* nop; nop; syscall, for both */
__attribute__((unused))
static const struct mk_codes mk_syscalls = {
	{ 1, 2, 8 },
	{ { 0, 0x1000, 4, 0, 10, AUX_CODE_ANON },
	  { 0, 0x2000, 4, 0, 20, AUX_CODE_ANON } },
	{ 0x90, 0x90, 0x0f, 0x05 },
};

/* In ascending order of bit; data must live until mk_finish. */
__attribute__((unused))
static void mk_feature(struct mk *m, unsigned bit, const void *data, size_t len)
{
	m->feat[m->n_feat].bit = bit;
	m->feat[m->n_feat].data = data;
	m->feat[m->n_feat++].len = len;
}

/* Completes the file; free(m->p) when done. */
static void mk_finish(struct mk *m)
{
	size_t attr = sizeof(struct perf_event_attr) +
		      sizeof(struct aux_file_section);
	size_t attrs = attr * m->n_attrs;
	struct aux_file_header h = {
		.magic = AUX_PERF_MAGIC2, .size = sizeof(h), .attr_size = attr,
		.attrs = { m->data_at - attrs, attrs },
		.data = { m->data_at, m->n - m->data_at },
	};
	size_t table = m->n;

	for (unsigned i = 0; i < m->n_feat; i++) {
		h.features[m->feat[i].bit / 64] |= UINT64_C(1)
						   << (m->feat[i].bit % 64);
		mk_u64(m, 0);
		mk_u64(m, 0);
	}
	for (unsigned i = 0; i < m->n_feat; i++) {
		struct aux_file_section s = { m->n, m->feat[i].len };

		mk_put(m, m->feat[i].data, m->feat[i].len);
		memcpy(m->p + table + i * sizeof(s), &s, sizeof(s));
	}
	memcpy(m->p, &h, sizeof(h));
}

#endif
