/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evlist_names: events that need no PMU in sysfs: hardware, software and cache
 * events by perf's names, and rHEX.
 *
 * Specification: perf-list(1); enum perf_hw_id, perf_sw_ids, perf_hw_cache_id
 * in <linux/perf_event.h>.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/event/evlist.h"

struct known {
	const char *name, *alias;
	uint64_t config;
};

/* table */
static const struct known hardware[] = {
	{ "cycles", "cpu-cycles", PERF_COUNT_HW_CPU_CYCLES },
	{ "instructions", "", PERF_COUNT_HW_INSTRUCTIONS },
	{ "cache-references", "", PERF_COUNT_HW_CACHE_REFERENCES },
	{ "cache-misses", "", PERF_COUNT_HW_CACHE_MISSES },
	{ "branches", "branch-instructions",
	  PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
	{ "branch-misses", "", PERF_COUNT_HW_BRANCH_MISSES },
	{ "bus-cycles", "", PERF_COUNT_HW_BUS_CYCLES },
	{ "stalled-cycles-frontend", "idle-cycles-frontend",
	  PERF_COUNT_HW_STALLED_CYCLES_FRONTEND },
	{ "stalled-cycles-backend", "idle-cycles-backend",
	  PERF_COUNT_HW_STALLED_CYCLES_BACKEND },
	{ "ref-cycles", "", PERF_COUNT_HW_REF_CPU_CYCLES },
	{ NULL, NULL, 0 },
};

/* table */
static const struct known software[] = {
	{ "cpu-clock", "", PERF_COUNT_SW_CPU_CLOCK },
	{ "task-clock", "", PERF_COUNT_SW_TASK_CLOCK },
	{ "page-faults", "faults", PERF_COUNT_SW_PAGE_FAULTS },
	{ "context-switches", "cs", PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ "cpu-migrations", "migrations", PERF_COUNT_SW_CPU_MIGRATIONS },
	{ "minor-faults", "", PERF_COUNT_SW_PAGE_FAULTS_MIN },
	{ "major-faults", "", PERF_COUNT_SW_PAGE_FAULTS_MAJ },
	{ "alignment-faults", "", PERF_COUNT_SW_ALIGNMENT_FAULTS },
	{ "emulation-faults", "", PERF_COUNT_SW_EMULATION_FAULTS },
	{ "dummy", "", PERF_COUNT_SW_DUMMY },
	{ "bpf-output", "", PERF_COUNT_SW_BPF_OUTPUT },
	{ "cgroup-switches", "", PERF_COUNT_SW_CGROUP_SWITCHES },
	{ NULL, NULL, 0 },
};

/* ops: which operations the cache has: bit 0 loads, 1 stores, 2 prefetches. */
static const struct cache {
	const char *name;
	uint8_t ops;
} caches[] = {
	[PERF_COUNT_HW_CACHE_L1D] = { "L1-dcache", 7 },
	[PERF_COUNT_HW_CACHE_L1I] = { "L1-icache", 5 },
	[PERF_COUNT_HW_CACHE_LL] = { "LLC", 7 },
	[PERF_COUNT_HW_CACHE_DTLB] = { "dTLB", 7 },
	[PERF_COUNT_HW_CACHE_ITLB] = { "iTLB", 1 },
	[PERF_COUNT_HW_CACHE_BPU] = { "branch", 1 },
	[PERF_COUNT_HW_CACHE_NODE] = { "node", 7 },
};

static const char *const cache_ops[3][2] = {
	{ "loads", "load-misses" },
	{ "stores", "store-misses" },
	{ "prefetches", "prefetch-misses" },
};

#define N_CACHES (sizeof(caches) / sizeof(*caches))

/* The i-th combination that exists. config is cache | op << 8 | result << 16,
 * with result 1 for misses. */
static bool cache_name(size_t i, struct evlist_name *n)
{
	size_t k;

	for (k = 0; k < N_CACHES * 6; k++) {
		size_t op = k / 2 % 3, cache = k / 6;

		if (!(caches[cache].ops >> op & 1) || i--)
			continue;
		snprintf(n->name, sizeof(n->name), "%s-%s", caches[cache].name,
			 cache_ops[op][k % 2]);
		n->config = cache | op << 8 | (uint64_t)(k % 2) << 16;
		return true;
	}
	return false;
}

bool evlist_name(uint32_t type, size_t i, struct evlist_name *n)
{
	const struct known *k = type == PERF_TYPE_HARDWARE ? hardware : software;

	memset(n, 0, sizeof(*n));
	if (type == PERF_TYPE_HW_CACHE)
		return cache_name(i, n);
	for (; k->name && i; i--)
		k++;
	if (!k->name)
		return false;
	snprintf(n->name, sizeof(n->name), "%s", k->name);
	snprintf(n->alias, sizeof(n->alias), "%s", k->alias);
	n->config = k->config;
	return true;
}

/* rHEX: at most 16 digits. */
static bool find_raw(const char *name, uint32_t *type, uint64_t *config)
{
	char *end;

	if (*name != 'r' || !isxdigit((unsigned char)name[1]) ||
	    strlen(name) > 17)
		return false;
	*config = strtoull(name + 1, &end, 16);
	*type = PERF_TYPE_RAW;
	return !*end;
}

bool evlist_name_find(const char *name, uint32_t *type, uint64_t *config)
{
	static const uint32_t types[] = { PERF_TYPE_HARDWARE,
					  PERF_TYPE_SOFTWARE,
					  PERF_TYPE_HW_CACHE };
	struct evlist_name n;
	size_t t, i;

	for (t = 0; t < sizeof(types) / sizeof(*types); t++) {
		for (i = 0; evlist_name(types[t], i, &n); i++) {
			if (strcmp(n.name, name) && strcmp(n.alias, name))
				continue;
			*type = types[t];
			*config = n.config;
			return true;
		}
	}
	return find_raw(name, type, config);
}
