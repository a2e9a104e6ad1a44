/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What differs between the PMUs that have an AUX area (D9): the event's terms,
 * AUXTRACE_INFO, and where a snapshot begins.
 */
#ifndef CAPTURE_EVENT_AUXPMU_H
#define CAPTURE_EVENT_AUXPMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include <aux/error.h>

#include "capture/event/evlist.h"
#include "perfdata/writer.h"

/* What is known when the header records are written. */
struct auxpmu_env {
	const struct perf_event_mmap_page *page;	/* of any ring: clock */
	bool snapshot, per_thread, system_wide;
	bool cpu_wide_switch;	/* SWITCH_CPU_WIDE records are there */
	bool switch_records;	/* SWITCH records are there */
	const int *cpus;	/* of the AUX events; per thread: all online */
	size_t n_cpus;
	const char *filter;	/* address filter as the kernel got it, or NULL */
};

/*
 * The AUX area in overwrite mode, all writers stopped. head is aux_head as read;
 * prev the value this function left for the last snapshot (see pos).
 */
struct auxpmu_wrap {
	const uint8_t *buf;
	size_t size;
	uint64_t head;
	uint64_t pos;		/* kept per ring: bytes produced up to the last
				 * snapshot, as far as known */
	uint8_t *mark;		/* kept per ring: see intel_pt; NULL at first */
};

struct auxpmu_ops {
	const char *name;	/* of the PMU; "" matches any */
	const char *trace;	/* "Intel PT", for messages */
	uint32_t type;		/* AUXTRACE_INFO: AUX_TRACE_*; 0: no such record */
	/* Defaults, own terms and checks, into ev->attr. */
	int (*configure)(struct evlist_event *ev,
			 const struct evlist_options *o, struct aux_diag *diag);
	/* AUXTRACE_INFO and TIME_CONV. */
	int (*info)(const struct evlist_event *ev, const struct auxpmu_env *env,
		    struct writer *w, struct aux_diag *diag);
	/*
	 * The valid bytes since the last snapshot, oldest first: the *len bytes
	 * that end at *end, an offset in the buffer (mod size). *skipped: bytes
	 * overwritten between the last snapshot and these, UINT64_MAX unknown.
	 * Keeps pos and mark for the next call. -AUX_E_NOMEM or 0.
	 */
	int (*snapshot)(struct auxpmu_wrap *wrap, uint64_t *end, uint64_t *len,
			uint64_t *skipped);
	void (*release)(struct auxpmu_wrap *wrap);	/* frees mark */
	size_t granule;		/* aux sizes: a multiple, power of two pages */
};

/* snapshot and release of all of them; see auxpmu_wrap.c for what is proven. */
int auxpmu_snapshot(struct auxpmu_wrap *wrap, uint64_t *end, uint64_t *len,
		    uint64_t *skipped);
void auxpmu_release(struct auxpmu_wrap *wrap);

/* The clock of the mmap page, read under its lock; zeros: the kernel has none
 * that user space can convert. TIME_CONV is written only when there is one. */
void auxpmu_clock(const struct perf_event_mmap_page *page,
		  struct aux_rec_time_conv *tc);

/* AUXTRACE_INFO of that type with n words, and TIME_CONV when tc has a clock. */
int auxpmu_info_write(struct writer *w, uint32_t type, const uint64_t *priv,
		      size_t n, const struct aux_rec_time_conv *tc,
		      struct aux_diag *diag);

extern const struct auxpmu_ops auxpmu_intel_pt, auxpmu_cs_etm, auxpmu_raw;

/* The PMU's, or auxpmu_raw when it has an AUX area by what sysfs and
 * perf_event_open tell; NULL: it has none. A recorded tree is judged by name. */
const struct auxpmu_ops *auxpmu_find(const struct pmu *pmu);

#endif
