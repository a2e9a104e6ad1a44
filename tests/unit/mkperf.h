/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mkperf: a perf.data made by hand, in memory: one attr, any records, features.
 *
 * Every record gets the trailer of PERF_SAMPLE_TID | TIME | CPU | IDENTIFIER.
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

struct mk {
	uint8_t *p;
	size_t n, cap;
	size_t data_at;
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

static void mk_init(struct mk *m, uint64_t config)
{
	struct perf_event_attr attr = {
		.type = MK_PMU, .size = sizeof(attr), .config = config,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER,
		.sample_id_all = 1, .exclude_kernel = 1,
	};
	struct aux_file_section ids = { 0, 0 };

	memset(m, 0, sizeof(*m));
	for (size_t i = 0; i < sizeof(struct aux_file_header); i += 8)
		mk_u64(m, 0);
	ids.offset = m->n;
	ids.size = 8;
	mk_u64(m, 1); /* the event's id */
	mk_put(m, &attr, sizeof(attr));
	mk_put(m, &ids, sizeof(ids));
	m->data_at = m->n;
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

__attribute__((unused))
static void mk_mmap(struct mk *m, struct mk_id id, uint64_t addr, uint64_t len,
		    uint64_t pgoff, const char *path)
{
	size_t at = mk_begin(m, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);

	mk_u32(m, id.pid);
	mk_u32(m, id.tid);
	mk_u64(m, addr);
	mk_u64(m, len);
	mk_u64(m, pgoff);
	mk_u64(m, 0);
	mk_u64(m, 0);
	mk_u64(m, 0);
	mk_u32(m, 5);
	mk_u32(m, 2);
	mk_text(m, path);
	mk_end(m, at, &id);
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

/* id: the child's */
__attribute__((unused))
static void mk_fork(struct mk *m, struct mk_id id, uint32_t ppid, uint32_t ptid)
{
	size_t at = mk_begin(m, PERF_RECORD_FORK, 0);

	mk_u32(m, id.pid);
	mk_u32(m, ppid);
	mk_u32(m, id.tid);
	mk_u32(m, ptid);
	mk_u64(m, id.time);
	mk_end(m, at, &id);
}

__attribute__((unused))
static void mk_switch(struct mk *m, struct mk_id id, bool out)
{
	mk_end(m, mk_begin(m, PERF_RECORD_SWITCH,
			   out ? PERF_RECORD_MISC_SWITCH_OUT : 0), &id);
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

/* Intel PT with a TSC that counts nanoseconds. */
__attribute__((unused))
static void mk_pt_info(struct mk *m)
{
	size_t at = mk_begin(m, AUX_RECORD_AUXTRACE_INFO, 0);

	mk_u32(m, 1);
	mk_u32(m, 0);
	for (unsigned i = 0; i < AUX_PT_N_PRIV; i++)
		mk_u64(m, i == AUX_PT_PMU_TYPE ? MK_PMU :
			  i == AUX_PT_TIME_MULT ||
			  i == AUX_PT_CAP_USER_TIME_ZERO ? 1 :
			  i == AUX_PT_TSC_BIT ? 0x400 :
			  i == AUX_PT_HAVE_SCHED_SWITCH ? 2 : 0);
	mk_end(m, at, NULL);
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
	struct aux_file_header h = {
		.magic = AUX_PERF_MAGIC2, .size = sizeof(h), .attr_size = attr,
		.attrs = { m->data_at - attr, attr },
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
