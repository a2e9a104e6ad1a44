/* SPDX-License-Identifier: BSD-2-Clause */
/* features: feature sections that say where and how a recording was made. */
#ifndef CAPTURE_DESCRIBE_FEATURES_H
#define CAPTURE_DESCRIBE_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/writer.h"

/*
 * The host: name, kernel, architecture, CPUs, memory; the tool and its command line.
 * A fact that cannot be found out is omitted. Returns writer errors only.
 */
int features_host(struct writer *w, int argc, char *const *argv);

/* Cores and packages of the host. Readers parse it with the CPU count that
 * features_host writes. */
int features_topology(struct writer *w);

/* A group of events. leader is an index in the order in which attrs were added;
 * n_members includes it. name may be NULL. */
struct features_group {
	const char *name;
	uint32_t leader;
	uint32_t n_members;
};
int features_groups(struct writer *w, const struct features_group *groups,
		    uint32_t n);

struct features_pmu {
	uint32_t type;
	const char *name;
};
int features_pmu_mappings(struct writer *w, const struct features_pmu *pmus,
			  uint32_t n);

/* AUX_FEAT_AUXKIT_SOURCE: key=value lines. */
int features_source(struct writer *w, const char *text);

#endif
