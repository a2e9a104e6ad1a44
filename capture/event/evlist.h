/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The events of a recording, as perf_event_open wants them: what -e names, and
 * the side-band event that every recording has.
 *
 * Forms of an event: PMU/TERMS/MODIFIERS, a hardware or software event by
 * perf's name (cycles, instructions, cpu-clock, page-faults, dummy ...),
 * SUBSYSTEM:NAME for a tracepoint, rHEX; several with commas between, groups in
 * braces {a,b}. Terms that hold for any event: period=N, freq=N, name=TEXT,
 * aux-output, aux-sample-size=N, aux-action=pause|resume|start-paused.
 */
#ifndef CAPTURE_EVENT_EVLIST_H
#define CAPTURE_EVENT_EVLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include <aux/error.h>

#include "capture/event/pmu.h"

struct auxpmu_ops;

struct evlist_event {
	struct perf_event_attr attr;	/* size and all; ready to open */
	char *name;		/* for EVENT_DESC, as perf names it */
	struct event_spec spec;	/* as given */
	struct pmu *pmu;	/* NULL: not from sysfs. Owned */
	const struct auxpmu_ops *aux;	/* not NULL: it has an AUX area */
	size_t leader;		/* of its group; itself when alone */
	char *filter_text;	/* --filter, as given, or NULL */
	char *filter;		/* for PERF_EVENT_IOC_SET_FILTER, or NULL */
	bool sideband;		/* a dummy: mmap, comm, task; or switches */
	bool any_task;		/* on each CPU whoever runs, even when the
				 * target is a task */
	bool immediate;		/* enabled when opened, not on exec */
};

struct evlist {
	struct evlist_event *events;	/* AUX events first */
	size_t n;
	size_t n_aux;
	/*
	 * Index of the dummy with mmap, comm and task. It has the context
	 * switches too, except when what is traced is tasks by CPU: then the
	 * event behind it, an any_task one, has them alone (SWITCH_CPU_WIDE
	 * when it may be opened so, else SWITCH of the target's own threads).
	 */
	size_t sideband;
	bool uses_tracepoints;
};

struct evlist_word {
	const char *text;	/* of one -e */
	const char *filter;	/* the --filter behind it, or NULL */
};

struct evlist_options {
	const char *sysfs;	/* NULL: PMU_SYSFS */
	const char *tracefs;	/* NULL: found in the usual places */
	const struct evlist_word *words;
	size_t n_words;
	bool per_thread;
	bool system_wide;
	bool snapshot;		/* AUX in overwrite mode */
	bool overwrite;		/* backward data rings for samples */
	uint32_t aux_sample_size;	/* --aux-sample, 0: none */
	uint64_t freq, period;	/* -F, -c; 0: the event's or the default */
	bool callgraph;		/* -g */
};

int evlist_open(struct evlist *l, const struct evlist_options *o,
		struct aux_diag *diag);
void evlist_close(struct evlist *l);

/* Terms of every event, and those of events with an AUX area: not the PMU's,
 * for pmu_config. NULL ended. */
extern const char *const evlist_words[], *const evlist_aux_words[];

/* attr.aux_action (Linux 6.13) lies where older headers have __reserved_3. */
enum evlist_aux_action {
	EVLIST_START_PAUSED = 1,
	EVLIST_PAUSE = 2,
	EVLIST_RESUME = 4,
};
uint32_t evlist_aux_action(const struct perf_event_attr *attr);

/* Events by name that need no PMU in sysfs, for lists: the i-th of kind
 * PERF_TYPE_HARDWARE, _SOFTWARE or _HW_CACHE; false: there are no more. alias
 * may be "". */
struct evlist_name {
	char name[40], alias[40];
	uint64_t config;
};
bool evlist_name(uint32_t type, size_t i, struct evlist_name *n);
/* By name or alias; also rHEX. */
bool evlist_name_find(const char *name, uint32_t *type, uint64_t *config);

#endif
