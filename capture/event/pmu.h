/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmu: PMUs as sysfs describes them in /sys/bus/event_source/devices/NAME.
 *
 * Specification: Documentation/ABI/testing/sysfs-bus-event_source-devices-*.
 */
#ifndef CAPTURE_EVENT_PMU_H
#define CAPTURE_EVENT_PMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include <aux/error.h>

#include "capture/event/event.h"

#define PMU_SYSFS "/sys/bus/event_source/devices"

/* format/NAME: a field of a config word, not always contiguous. The value's
 * bits go to the mask's bits from the lowest upwards. */
struct pmu_format {
	char name[64];
	unsigned word;		/* 0 config, 1 config1, 2 config2, 3 config3 */
	uint64_t mask;
};

/* events/NAME: an alias for terms. */
struct pmu_alias {
	char name[64];
	char terms[192];
};

struct pmu {
	char name[64];
	char dir[256];		/* in sysfs */
	uint32_t type;		/* perf_event_attr.type */
	uint32_t n_addr_filters;	/* nr_addr_filters, 0: none */
	struct pmu_format *formats;	/* sorted by name */
	size_t n_formats, cap_formats;
	struct pmu_alias *aliases;	/* sorted by name */
	size_t n_aliases, cap_aliases;
	int *cpus;		/* cpumask or cpus; NULL: all */
	size_t n_cpus;
};

/* root: PMU_SYSFS or a copy of that tree. -AUX_E_NOENT: no such PMU; diag lists
 * the existing ones. */
int pmu_open(struct pmu **pmu, const char *root, const char *name,
	     struct aux_diag *diag);
void pmu_close(struct pmu *pmu);

/* Names of all PMUs, sorted; the caller frees each and the array. Returns the
 * count, or an error. */
int pmu_list(const char *root, char ***names, struct aux_diag *diag);

/* Reads a small file below the PMU, such as "caps/psb_cyc", without trailing
 * white space. 0, or -AUX_E_NOENT. */
int pmu_read(const struct pmu *pmu, const char *file, char *buf, size_t len);
/* A capability as a number; dflt if there is no such file. intel_pt prints
 * hexadecimal without a prefix, other PMUs decimal or 0x. */
uint64_t pmu_cap(const struct pmu *pmu, const char *name, uint64_t dflt);

const struct pmu_format *pmu_format_find(const struct pmu *pmu,
					 const char *name);
/* The field's value in attr. */
uint64_t pmu_format_get(const struct pmu_format *f,
			const struct perf_event_attr *attr);
/* -AUX_E_INVAL if the value does not fit. */
int pmu_format_set(const struct pmu_format *f, struct perf_event_attr *attr,
		   uint64_t value);

/*
 * Applies the terms of spec to attr's config words: formats, aliases, config=N,
 * config1=N, config2=N, config3=N. Terms listed in words (NULL terminated) are
 * the caller's own and are skipped; so are terms that begin with '@'. An
 * unknown term is -AUX_E_INVAL, and diag lists the legal ones.
 */
int pmu_config(const struct pmu *pmu, const struct event_spec *spec,
	       const char *const *words, struct perf_event_attr *attr,
	       struct aux_diag *diag);

#endif
