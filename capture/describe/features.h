/* SPDX-License-Identifier: BSD-2-Clause */
/* Feature sections that say where and how a recording was made. */
#ifndef CAPTURE_DESCRIBE_FEATURES_H
#define CAPTURE_DESCRIBE_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/writer.h"

/*
 * The host: name, kernel, architecture, CPUs, memory; the tool and its command
 * line. What the host does not tell is left out. Returns writer errors only.
 */
int features_host(struct writer *w, int argc, char *const *argv);

/* Cores and packages of the host. Readers need features_host's CPU count. */
int features_topology(struct writer *w);

/* Groups of events: leader is an index of the attrs, as they were added;
 * n_members counts it, too. name may be NULL. */
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
