/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain: why the kernel refused, and the command that fixes it. Errors and
 * auxcap doctor both use it, so they give the same advice.
 */
#ifndef CAPTURE_EVENT_EXPLAIN_H
#define CAPTURE_EVENT_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include <aux/error.h>

/* The settings that decide about permission and memory. -1: cannot be read. */
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
/* The same from a copy of /proc and /sys; resource limits are this
 * process's. */
void explain_system_at(struct explain_system *sys, const char *proc,
		       const char *sysfs);
/* Bytes that one user may map, INT64_MAX without a limit. */
int64_t explain_budget(const struct explain_system *sys);

/* Sizes to aim for when the user gives none. */
#define EXPLAIN_DATA_BYTES (512 << 10)
#define EXPLAIN_AUX_BYTES (8 << 20)

/* perf_event_open failed with err for this event. Returns -AUX_E_*. */
int explain_open(const char *event, const struct perf_event_attr *attr,
		 int cpu, int tid, int err, const struct explain_system *sys,
		 struct aux_diag *diag);
/* mmap of a ring failed, of its AUX area if aux. Returns -AUX_E_*. */
int explain_mmap(const char *event, bool aux, size_t bytes, int err,
		 const struct explain_system *sys, struct aux_diag *diag);

/* Sizes in pages per ring; powers of two. */
struct explain_fit {
	size_t data_pages, aux_pages;	/* in: wanted; out: chosen */
	bool data_fixed, aux_fixed;	/* the user's values: never reduced */
	char text[256];			/* out: what was chosen and why; "" if all
					 * is as wanted */
};
/* Writes fit->text again after the kernel refused to map sizes `was` with err,
 * and the caller reduced them. */
void explain_fit_less(struct explain_fit *fit, const struct explain_fit *was,
		      size_t n_rings, size_t n_aux, int err,
		      const struct explain_system *sys);
/*
 * Reduces sizes until n_rings rings, n_aux of them with an AUX area, fit into
 * what may be locked; and, with or without that limit, into an eighth of the
 * available memory. -AUX_E_LIMIT: not even the smallest sizes fit.
 */
int explain_fit(struct explain_fit *fit, size_t n_rings, size_t n_aux,
		const struct explain_system *sys, struct aux_diag *diag);

#endif
