/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PMUs as sysfs describes them: /sys/bus/event_source/devices/NAME.
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

/* format/NAME: bits of a config word, perhaps in several pieces. The lowest
 * bit of the value goes to the lowest bit of the mask. */
struct pmu_format {
	char name[64];
	unsigned word;		/* 0 config, 1 config1, 2 config2, 3 config3 */
	uint64_t mask;
};

/* events/NAME: a name for terms. */
struct pmu_alias {
	char name[64];
	char terms[192];
};

struct pmu {
	char name[64];
	char dir[256];		/* in sysfs */
	uint32_t type;		/* perf_event_attr.type */
	uint32_t n_addr_filters;	/* nr_addr_filters, 0: none */
	struct pmu_format *formats;
	size_t n_formats;
	struct pmu_alias *aliases;
	size_t n_aliases;
	int *cpus;		/* cpumask or cpus; NULL: all */
	size_t n_cpus;
};

/* root: PMU_SYSFS, or a recorded tree. -AUX_E_NOENT: no such PMU; diag then
 * names those that there are. */
int pmu_open(struct pmu **pmu, const char *root, const char *name,
	     struct aux_diag *diag);
void pmu_close(struct pmu *pmu);

/* Names of all PMUs, sorted; free each and the array. Returns the count. */
int pmu_list(const char *root, char ***names, struct aux_diag *diag);

/* A small file below the PMU, such as "caps/psb_cyc", without its newline.
 * 0, or -AUX_E_NOENT. */
int pmu_read(const struct pmu *pmu, const char *file, char *buf, size_t len);
/* A cap as a number (hexadecimal as the kernel prints it for intel_pt, or
 * decimal); dflt when there is none. */
uint64_t pmu_cap(const struct pmu *pmu, const char *name, uint64_t dflt);

const struct pmu_format *pmu_format_find(const struct pmu *pmu,
					 const char *name);
/* Value of the field in attr's config words. */
uint64_t pmu_format_get(const struct pmu_format *f,
			const struct perf_event_attr *attr);
/* -AUX_E_INVAL when the value does not fit. */
int pmu_format_set(const struct pmu_format *f, struct perf_event_attr *attr,
		   uint64_t value);

/*
 * Terms of spec into attr's config words: formats, aliases, config=N,
 * config1=N, config2=N, config3=N. Terms named in words (NULL ended) are the
 * caller's own and passed over; so are terms that begin with '@'. An unknown
 * term is -AUX_E_INVAL and diag lists the legal ones.
 */
int pmu_config(const struct pmu *pmu, const struct event_spec *spec,
	       const char *const *words, struct perf_event_attr *attr,
	       struct aux_diag *diag);

#endif
