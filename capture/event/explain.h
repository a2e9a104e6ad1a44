/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why the kernel refused, and the command that mends it. Used by errors and by
 * auxcap doctor, so both say the same.
 */
#ifndef CAPTURE_EVENT_EXPLAIN_H
#define CAPTURE_EVENT_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include <aux/error.h>

/* What decides over permission and memory, read once. -1: cannot be read. */
struct explain_system {
	int paranoid;		/* kernel.perf_event_paranoid; 2 when unknown */
	long mlock_kb;		/* kernel.perf_event_mlock_kb, per CPU */
	int64_t rlimit_memlock;	/* bytes; INT64_MAX unlimited */
	bool cap_perfmon, cap_admin, cap_ipc_lock;	/* effective */
	int lockdown;		/* 0 none, 1 integrity, 2 confidentiality */
	int kptr_restrict;
	int n_cpus;
	long page_size;
	int64_t mem_available;	/* bytes */
	int64_t rlimit_memlock_hard;	/* as rlimit_memlock */
	bool cap_ptrace, cap_resource, cap_syslog, cap_bpf;
};
void explain_system(struct explain_system *sys);
/* The same of a recorded tree: proc, sys as mount points. Limits are ours. */
void explain_system_at(struct explain_system *sys, const char *proc,
		       const char *sysfs);
/* What may be mapped by one user: bytes, INT64_MAX without a limit. */
int64_t explain_budget(const struct explain_system *sys);

/* Wanted sizes when the user gives none. */
#define EXPLAIN_DATA_BYTES (512 << 10)
#define EXPLAIN_AUX_BYTES (8 << 20)

/* perf_event_open failed with err for this event. Returns -AUX_E_*. */
int explain_open(const char *event, const struct perf_event_attr *attr,
		 int cpu, int tid, int err, const struct explain_system *sys,
		 struct aux_diag *diag);
/* mmap of a ring failed. aux: of the AUX area. */
int explain_mmap(const char *event, bool aux, size_t bytes, int err,
		 const struct explain_system *sys, struct aux_diag *diag);

/* Sizes in pages that fit into what may be locked. In: wanted (a power of two;
 * fixed: the user's own words, never reduced). Out: chosen. n_rings rings, of
 * which n_aux with an AUX area. text says what was chosen and why, "" when all
 * is as wanted. -AUX_E_LIMIT: even the least does not fit. */
struct explain_fit {
	size_t data_pages, aux_pages;
	bool data_fixed, aux_fixed;
	char text[256];
};
/* The kernel did not map that much (err of mmap) and fit now has less than was:
 * its text anew. */
void explain_fit_less(struct explain_fit *fit, const struct explain_fit *was,
		      size_t n_rings, size_t n_aux, int err,
		      const struct explain_system *sys);
/* Also without a limit, all rings together take no more than an eighth of the
 * memory that is free. */
int explain_fit(struct explain_fit *fit, size_t n_rings, size_t n_aux,
		const struct explain_system *sys, struct aux_diag *diag);

#endif
