/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mkside: side-band records of mkperf.h's kind that only tests of what the timeline
 * knows need, and a file of them with its timeline.
 */
#ifndef TESTS_UNIT_MKSIDE_H
#define TESTS_UNIT_MKSIDE_H

#include <stdio.h>

#include "tests/unit/mkperf.h"
#include "tests/unit/tap.h"
#include "decode/lib/sideband/sideband.h"

struct side {
	struct mk mk;
	struct aux_reader *r;
	struct timeline *tl;
};

__attribute__((unused))
static bool side_open(struct side *f)
{
	struct aux_diag diag = { 0 };

	mk_finish(&f->mk);
	if (aux_reader_open_mem(&f->r, f->mk.p, f->mk.n, "made", &diag) < 0 ||
	    timeline_new(&f->tl, f->r, 0, &diag) < 0) {
		ok(0, "opening: %s", diag.text);
		return false;
	}
	return true;
}

__attribute__((unused))
static void side_close(struct side *f)
{
	timeline_free(f->tl);
	aux_reader_close(f->r);
	free(f->mk.p);
	memset(f, 0, sizeof(*f));
}

/* All but net and mnt are the same for each thread: 11 to 16, on device 4. */
__attribute__((unused))
static void mk_namespaces(struct mk *m, struct mk_id id, uint64_t net,
			  uint64_t mnt)
{
	const uint64_t inode[7] = { net, 11, 12, 13, 14, mnt, 16 };
	size_t at = mk_begin(m, PERF_RECORD_NAMESPACES, 0);

	mk_u32(m, id.pid);
	mk_u32(m, id.tid);
	mk_u64(m, 7);
	for (unsigned i = 0; i < 7; i++) {
		mk_u64(m, 4);
		mk_u64(m, inode[i]);
	}
	mk_end(m, at, &id);
}

__attribute__((unused))
static void mk_cgroup(struct mk *m, uint64_t cgroup, const char *path)
{
	size_t at = mk_begin(m, PERF_RECORD_CGROUP, 0);

	mk_u64(m, cgroup);
	mk_text(m, path);
	mk_end(m, at, &(struct mk_id){ 0 });
}

/* Of an event that is mk_attr and PERF_SAMPLE_CGROUP. */
__attribute__((unused))
static void mk_cgroup_sample(struct mk *m, uint64_t event, struct mk_id id,
			     uint64_t cgroup)
{
	size_t at = mk_begin(m, PERF_RECORD_SAMPLE, 0);

	mk_u64(m, event);
	mk_u32(m, id.pid);
	mk_u32(m, id.tid);
	mk_u64(m, id.time);
	mk_u64(m, id.cpu);
	mk_u64(m, cgroup);
	mk_end(m, at, NULL);
}

__attribute__((unused))
static void mk_exit(struct mk *m, struct mk_id id)
{
	mk_task(m, PERF_RECORD_EXIT, 0, id, 1, 1);
}

/* PERF_RECORD_MMAP, as recorders make up for kernels. */
__attribute__((unused))
static void mk_mmap1(struct mk *m, uint16_t misc, uint32_t pid, uint64_t time,
		     uint64_t addr, uint64_t len, uint64_t pgoff,
		     const char *path)
{
	size_t at = mk_begin(m, PERF_RECORD_MMAP, misc);
	struct mk_id id = { .time = time };

	mk_u32(m, pid);
	mk_u32(m, 0);
	mk_u64(m, addr);
	mk_u64(m, len);
	mk_u64(m, pgoff);
	mk_text(m, path);
	mk_end(m, at, &id);
}

__attribute__((unused))
static void mk_ksymbol(struct mk *m, uint64_t time, uint64_t addr, uint32_t len,
		       bool remove, const char *name)
{
	size_t at = mk_begin(m, PERF_RECORD_KSYMBOL, 0);
	struct mk_id id = { .time = time };

	mk_u64(m, addr);
	mk_u32(m, len);
	mk_u32(m, 1u | (uint32_t)remove << 16);
	mk_text(m, name);
	mk_end(m, at, &id);
}

__attribute__((unused))
static void mk_poke(struct mk *m, uint64_t time, uint64_t addr, const void *old,
		    uint16_t n_old, const void *new, uint16_t n_new)
{
	static const uint8_t pad[8];
	size_t at = mk_begin(m, PERF_RECORD_TEXT_POKE, PERF_RECORD_MISC_KERNEL);
	struct mk_id id = { .time = time };

	mk_u64(m, addr);
	mk_u32(m, n_old | (uint32_t)n_new << 16);
	if (n_old)
		mk_put(m, old, n_old);
	if (n_new)
		mk_put(m, new, n_new);
	mk_put(m, pad, -(12u + n_old + n_new) & 7);
	mk_end(m, at, &id);
}

__attribute__((unused))
static void mk_lost(struct mk *m, uint32_t type, struct mk_id id, uint64_t n)
{
	size_t at = mk_begin(m, type, 0);

	if (type == PERF_RECORD_LOST)
		mk_u64(m, 1);
	mk_u64(m, n);
	mk_end(m, at, &id);
}

#endif
