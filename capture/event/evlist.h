/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evlist: the events of a recording, as perf_event_open takes them: what -e
 * names, and the side-band events that every recording has.
 *
 * Forms of an event: PMU/TERMS/MODIFIERS, a hardware or software event by
 * perf's name (cycles, instructions, cpu-clock, page-faults, dummy ...),
 * SUBSYSTEM:NAME for a tracepoint, rHEX, mem:ADDRESS[/LENGTH][:r|w|rw|x] for a
 * breakpoint; several with commas between, groups in braces {a,b}. Terms of any
 * event: period=N, freq=N, name=TEXT,
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
struct probe;

struct evlist_event {
	struct perf_event_attr attr;	/* complete, ready to open */
	char *name;		/* for HEADER_EVENT_DESC, as perf names it */
	struct event_spec spec;	/* as given */
	struct pmu *pmu;	/* owned; NULL: not from sysfs */
	const struct auxpmu_ops *aux;	/* not NULL: it has an AUX area */
	size_t leader;		/* index of its group's leader, or its own */
	char *filter_text;	/* --filter, as given, or NULL */
	char *filter;		/* for PERF_EVENT_IOC_SET_FILTER, or NULL */
	bool sideband;		/* a dummy that carries side-band records */
	bool any_task;		/* opened with pid -1 if permitted, even when
				 * the target is a task */
	bool immediate;		/* enabled when opened, not on exec */
	uint32_t trigger;	/* as in its evlist_word */
	const struct probe *probe;	/* the same */
	bool held;		/* --window, where the kernel cannot pause: enabled by us
				 * alone */
};

struct evlist {
	struct evlist_event *events;	/* AUX events first, side-band last */
	size_t n, cap;
	size_t n_aux;
	/*
	 * Index of the dummy with mmap, comm and task. It also has the context
	 * switches, except when tasks are traced in buffers per CPU: then the
	 * next event, an any_task one, has them alone (SWITCH_CPU_WIDE if it
	 * may be opened for whole CPUs, else SWITCH of the target's own
	 * threads).
	 */
	size_t sideband;
	bool uses_tracepoints;
};

struct evlist_word {
	const char *text;	/* of one -e */
	const char *filter;	/* the --filter that followed it, or NULL */
	uint32_t trigger;	/* of --when, from 1: each time wakes us; 0: none */
	const struct probe *probe;	/* a uprobe or kprobe in place of text; NULL: none */
	uint32_t action;	/* enum evlist_aux_action that its samples make; 0: none */
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
	bool all_user, all_kernel;
	bool start_paused;	/* AUX events, which members of their groups resume */
};

/* The tracepoint of signal=oom. */
#define EVLIST_OOM "oom:mark_victim"

/* What to record in place of a PMU that this machine does not have, or whose name
 * is another: a sentence, NULL: nothing is known. */
const char *evlist_instead(const char *pmu);

/* Parses all words and appends the side-band. -AUX_E_INVAL: what was asked for;
 * nothing has been opened in the kernel yet. */
int evlist_open(struct evlist *l, const struct evlist_options *o,
		struct aux_diag *diag);
void evlist_close(struct evlist *l);

/* Terms of events with an AUX area that are not the PMU's: pmu_config skips
 * them. NULL terminated. */
extern const char *const evlist_aux_words[];

/* Bits of attr.aux_action (Linux 6.13), which older headers call
 * __reserved_3. */
enum evlist_aux_action {
	EVLIST_START_PAUSED = 1,
	EVLIST_PAUSE = 2,
	EVLIST_RESUME = 4,
};
uint32_t evlist_aux_action(const struct perf_event_attr *attr);

/* Events by name that need no PMU in sysfs: the i-th of type
 * PERF_TYPE_HARDWARE, _SOFTWARE or _HW_CACHE; false past the last. alias may be
 * "". */
struct evlist_name {
	char name[40], alias[40];
	uint64_t config;
};
bool evlist_name(uint32_t type, size_t i, struct evlist_name *n);
/* Finds one by name or alias, or parses rHEX. */
bool evlist_name_find(const char *name, uint32_t *type, uint64_t *config);

/*
 * tracing_data: what a reader needs to parse the payload of tracepoints:
 * formats and printk formats in the layout of trace.dat (version 0.6,
 * trace-cmd.dat.v6(5)), which perf stores as HEADER_TRACING_DATA, and in pipe
 * mode as a record.
 */

/* Where tracefs is mounted: "/sys/kernel/tracing" or below debugfs; NULL:
 * nowhere. */
const char *tracing_root(void);

/* The id of SUBSYSTEM:NAME, or -AUX_E_NOENT / -AUX_E_IO with the cause and the
 * fix (mount it, permission). */
int64_t tracing_id(const char *root, const char *subsystem, const char *name,
		   struct aux_diag *diag);

/* The blob for these events ("sched:sched_switch"); free *data. */
int tracing_data(const char *root, const char *const *events, size_t n,
		 void **data, size_t *len, struct aux_diag *diag);

#endif
