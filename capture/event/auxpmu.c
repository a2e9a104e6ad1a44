/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxpmu: the table of PMUs with an AUX area, the probe for others, their ops,
 * and the clock.
 *
 * No file in sysfs says whether a PMU has an AUX area (pmu->setup_aux).
 * perf_mmap() refuses to map one where there is none, so an unknown PMU is
 * probed by mapping.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/event/auxpmu.h"

/*
 * auxpmu_raw: any other PMU with an AUX area. Its bytes are recorded unchanged;
 * there is no AUXTRACE_INFO, since that would name a decoder.
 */
static int configure_raw(struct evlist_event *ev, const struct evlist_options *o,
			 struct aux_diag *diag)
{
	(void)o;
	return pmu_config(ev->pmu, &ev->spec, evlist_aux_words, &ev->attr,
			  diag);
}

static int write_raw_info(const struct evlist_event *ev,
			  const struct auxpmu_env *env, struct writer *w,
			  struct aux_diag *diag)
{
	struct aux_rec_time_conv tc;

	(void)ev;
	(void)diag;
	auxpmu_clock(env->page, &tc);
	return tc.cap_user_time_zero ? writer_time_conv(w, &tc) : 0;
}

const struct auxpmu_ops auxpmu_raw = {
	.name = "",
	.trace = "raw trace",
	.configure = configure_raw,
	.info = write_raw_info,
	.prepare = auxpmu_prepare,
	.snapshot = auxpmu_snapshot,
	.remember = auxpmu_remember,
	.release = auxpmu_release,
	.granule = 4096,
};

static const struct auxpmu_ops *const table[] = { &auxpmu_intel_pt,
						  &auxpmu_cs_etm };

/* PMUs known to have one; '*' at the end matches any rest. */
static const char *const raw_names[] = { "aux_sim*",  "arm_spe_*", "hisi_ptt*",
					 "intel_bts", "arm_trbe",  NULL };

static bool is_raw(const char *name)
{
	size_t i, n;

	for (i = 0; raw_names[i]; i++) {
		n = strlen(raw_names[i]);
		if (raw_names[i][n - 1] == '*' ?
			    !strncmp(name, raw_names[i], n - 1) :
			    !strcmp(name, raw_names[i]))
			return true;
	}
	return false;
}

static bool map_aux(int fd, size_t page)
{
	struct perf_event_mmap_page *p;
	void *aux;

	p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return false;
	p->aux_offset = 2 * page;
	p->aux_size = page;
	aux = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   (off_t)(2 * page));
	if (aux != MAP_FAILED)
		munmap(aux, page);
	munmap(p, 2 * page);
	return aux != MAP_FAILED;
}

/* Opens the PMU's plainest event, disabled, and maps an AUX area on it. Per CPU
 * first, with and without exclude_kernel (not all PMUs accept it), then on this
 * thread, which needs less privilege. */
static bool kernel_maps_aux(const struct pmu *pmu)
{
	struct perf_event_attr attr = { .type = pmu->type,
					.size = sizeof(attr),
					.sample_period = 1,
					.exclude_kernel = 1,
					.disabled = 1 };
	int cpu = pmu->n_cpus ? pmu->cpus[0] : 0, tries;
	long fd = -1;
	bool has;

	for (tries = 0; tries < 2 && fd < 0; tries++) {
		fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1,
			     PERF_FLAG_FD_CLOEXEC);
		attr.exclude_kernel = 0;
	}
	if (fd < 0)
		fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return false;
	has = map_aux((int)fd, (size_t)sysconf(_SC_PAGESIZE));
	close((int)fd);
	return has;
}

const struct auxpmu_ops *auxpmu_find(const struct pmu *pmu)
{
	size_t i, n = strlen(PMU_SYSFS "/");

	for (i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (!strcmp(table[i]->name, pmu->name))
			return table[i];
	if (is_raw(pmu->name))
		return &auxpmu_raw;
	/* A type number of a copied sysfs means something else to this
	 * kernel. */
	if (pmu->type < PERF_TYPE_MAX || strncmp(pmu->dir, PMU_SYSFS "/", n))
		return NULL;
	return kernel_maps_aux(pmu) ? &auxpmu_raw : NULL;
}

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

void auxpmu_clock(const struct perf_event_mmap_page *page,
		  struct aux_rec_time_conv *tc)
{
	uint32_t seq;
	uint64_t caps;

	memset(tc, 0, sizeof(*tc));
	if (!page)
		return;
	/* Odd: the kernel is writing; changed: it wrote while we read. See
	 * arch_perf_update_userpage(). */
	do {
		seq = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
		caps = LOAD(page->capabilities);
		tc->time_shift = LOAD(page->time_shift);
		tc->time_mult = LOAD(page->time_mult);
		tc->time_zero = LOAD(page->time_zero);
		tc->time_cycles = LOAD(page->time_cycles);
		tc->time_mask = LOAD(page->time_mask);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while ((seq & 1) || seq != LOAD(page->lock));
	/* cap_user_time_zero, cap_user_time_short: bits 4 and 5. */
	tc->cap_user_time_zero = caps >> 4 & 1;
	tc->cap_user_time_short = caps >> 5 & 1;
	if (!tc->cap_user_time_zero)
		memset(tc, 0, sizeof(*tc));
	if (!tc->cap_user_time_short)
		tc->time_cycles = tc->time_mask = 0;
}

int auxpmu_info_write(struct writer *w, uint32_t type, const uint64_t *priv,
		      size_t n, const struct aux_rec_time_conv *tc,
		      struct aux_diag *diag)
{
	const struct aux_rec_auxtrace_info info = { .type = type };
	struct perf_event_header *rec;
	size_t head = sizeof(*rec) + sizeof(info), size = head + n * 8;
	int ret;

	if (size > UINT16_MAX - 7)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"the description of the trace of so many CPUs "
				"does not fit into its record; record fewer: "
				"-C LIST");
	rec = calloc(1, size);
	if (!rec)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	rec->type = AUX_RECORD_AUXTRACE_INFO;
	rec->size = (uint16_t)size;
	memcpy(rec + 1, &info, sizeof(info));
	memcpy((char *)rec + head, priv, n * 8);
	/* First: perf 7.2 makes the decoder at AUXTRACE_INFO, with the clock it
	 * knows by then, and shows nothing of CoreSight that has none. */
	ret = tc->cap_user_time_zero ? writer_time_conv(w, tc) : 0;
	if (!ret)
		ret = writer_record(w, rec);
	free(rec);
	return ret;
}
