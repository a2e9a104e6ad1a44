/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxpmu: what differs between the PMUs that have an AUX area: the event's
 * terms, AUXTRACE_INFO, and where the valid part of a snapshot begins.
 *
 * To add one: a file with its struct auxpmu_ops, and a line in the table of
 * auxpmu.c.
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
	const struct perf_event_mmap_page *page;	/* any ring's, for the clock */
	bool snapshot, per_thread, system_wide;
	bool cpu_wide_switch;	/* there will be SWITCH_CPU_WIDE records */
	bool switch_records;	/* there will be SWITCH records */
	const int *cpus;	/* of the AUX events; per thread: all online */
	size_t n_cpus;
	const char *filter;	/* address filter as the kernel got it, or NULL */
};

/* An AUX area in overwrite mode whose writer is stopped, and what is remembered
 * of it between snapshots. Zeroed at first; one per ring, owned by the
 * recorder. */
struct auxpmu_wrap {
	/* Set before each call of snapshot. */
	const uint8_t *buf;
	size_t size;
	uint64_t head;		/* aux_head as read */
	/* State between snapshots. */
	uint64_t pos;		/* bytes produced up to the last snapshot, as far as
				 * known; modulo size that snapshot's head */
	uint8_t *mark;		/* see auxpmu_wrap.c; NULL at first */
};

struct auxpmu_ops {
	const char *name;	/* of the PMU; "" matches any */
	const char *trace;	/* "Intel PT", for messages */
	uint32_t type;		/* AUXTRACE_INFO: AUX_TRACE_*; 0: no such record */
	/* Sets defaults and the PMU's own terms in ev->attr, and checks
	 * them. */
	int (*configure)(struct evlist_event *ev,
			 const struct evlist_options *o, struct aux_diag *diag);
	/* Writes TIME_CONV, then AUXTRACE_INFO. */
	int (*info)(const struct evlist_event *ev, const struct auxpmu_env *env,
		    struct writer *w, struct aux_diag *diag);
	/* Allocates what snapshot needs, for a buffer of wrap->size. 0 or
	 * -AUX_E_NOMEM. snapshot does it otherwise, while the writer stands. */
	int (*prepare)(struct auxpmu_wrap *wrap);
	/*
	 * Finds the valid bytes since the last snapshot: the *len bytes that
	 * end at *end, an offset in the buffer (mod size). *skipped: bytes
	 * overwritten between the last snapshot and these, UINT64_MAX if
	 * unknown. Updates pos. 0 or -AUX_E_NOMEM.
	 */
	int (*snapshot)(struct auxpmu_wrap *wrap, uint64_t *end, uint64_t *len,
			uint64_t *skipped);
	/* After each snapshot, with the same head: remembers the buffer, of
	 * which the len bytes up to the head are new. buf may be a copy by
	 * then, and the writer may run. */
	void (*remember)(struct auxpmu_wrap *wrap, uint64_t len);
	void (*release)(struct auxpmu_wrap *wrap);	/* frees mark */
	size_t granule;		/* AUX sizes are a multiple of it */
};

/* Those of snapshots, for all present PMUs; auxpmu_wrap.c says what is proven. */
int auxpmu_prepare(struct auxpmu_wrap *wrap);
int auxpmu_snapshot(struct auxpmu_wrap *wrap, uint64_t *end, uint64_t *len,
		    uint64_t *skipped);
void auxpmu_remember(struct auxpmu_wrap *wrap, uint64_t len);
void auxpmu_release(struct auxpmu_wrap *wrap);

/* The clock parameters of the mmap page, read under its seqlock; all 0 if the
 * kernel offers none (cap_user_time_zero), and then no TIME_CONV is written. */
void auxpmu_clock(const struct perf_event_mmap_page *page,
		  struct aux_rec_time_conv *tc);

/* Writes TIME_CONV if tc has a clock, then AUXTRACE_INFO of that type with n
 * words. */
int auxpmu_info_write(struct writer *w, uint32_t type, const uint64_t *priv,
		      size_t n, const struct aux_rec_time_conv *tc,
		      struct aux_diag *diag);

extern const struct auxpmu_ops auxpmu_intel_pt, auxpmu_cs_etm, auxpmu_raw;

/* The PMU's ops: its own, or auxpmu_raw for one that has an AUX area by name or
 * because the kernel maps one; NULL: it has none. A PMU of a copied sysfs is
 * judged by name alone. */
const struct auxpmu_ops *auxpmu_find(const struct pmu *pmu);

#endif
