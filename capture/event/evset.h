/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evset: open events. Each event of an evlist is opened on each CPU and thread
 * of a target, and events share rings.
 *
 * Rings: one per CPU (or per thread), owned by the first AUX event there, and
 * one more for each further AUX event, since a ring has one AUX area; all other
 * events of that CPU write to the first ring (PERF_EVENT_IOC_SET_OUTPUT). With
 * backward rings (evlist_options.overwrite) samples have a ring of their own
 * per CPU: only events that all have write_backward may share a ring. An
 * any_task event is opened once per CPU, for whatever task runs there.
 *
 * After evset_open only the main thread changes the set; reader threads call
 * evset_ring_live and evset_aux_restart, which do not modify it.
 */
#ifndef CAPTURE_EVENT_EVSET_H
#define CAPTURE_EVENT_EVSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

#include "capture/event/evlist.h"
#include "capture/event/target.h"

struct evset_fd {
	int fd;
	uint64_t id;		/* PERF_EVENT_IOC_ID */
	uint32_t event;		/* index in the evlist */
	int32_t cpu;		/* -1: any, per thread */
	int32_t tid;		/* -1: any */
	uint32_t ring;		/* index in rings; that ring's fd may be this one */
};

struct evset_ring {
	int fd;			/* the event whose mapping this is */
	int aux_event;		/* index in the evlist, -1: no AUX area */
	bool backward;		/* attr.write_backward: map read-only */
	int32_t cpu, tid;	/* -1: none */
};

struct evset {
	struct evset_fd *fds;
	size_t n_fds, cap_fds;
	struct evset_ring *rings;
	size_t n_rings, cap_rings;
	int *old;		/* descriptors that evset_reopen replaced */
	size_t n_old, cap_old;
	uint32_t cpuless;	/* CPUs skipped because they are offline or not
				 * the PMU's: not an error */
	uint32_t gone;		/* threads that ended while we opened */
	bool cpu_wide_switch;	/* context_switch is set for whole CPUs: there
				 * will be SWITCH_CPU_WIDE records */
	char notes[512];	/* what was dropped from the request and why,
				 * for the user; "" if nothing */
};

/*
 * Opens everything, disabled (or enable_on_exec). Attr bits that this kernel
 * does not know and that nothing depends on (build_id, ksymbol, bpf_event,
 * text_poke, cgroup, comm_exec ...) are removed from the evlist's attrs, as
 * perf does with its missing_features; any other refusal is an error whose text
 * names the cause and the fix (explain.h).
 */
int evset_open(struct evset *s, struct evlist *l, const struct target *t,
	       struct aux_diag *diag);
/* Redirects all other events to their ring. After the rings are mapped, which
 * PERF_EVENT_IOC_SET_OUTPUT requires, and before events are enabled. */
int evset_attach(struct evset *s, const struct evlist *l,
		 struct aux_diag *diag);
/* Sets filters. After the rings are mapped, which address filters require. */
int evset_filter(struct evset *s, const struct evlist *l,
		 struct aux_diag *diag);
/* Enables or disables all events, enable_on_exec ones too, but does not enable those that
 * are held. All are tried; the error is the first one's. */
int evset_enable(struct evset *s, const struct evlist *l, struct aux_diag *diag);
/* Whether AUX events can be paused, as the first one says: a kernel or PMU may not know it. */
bool evset_can_pause(const struct evlist *l);
int evset_disable(struct evset *s, struct aux_diag *diag);
/* The same for events with an AUX area only; side-band stays enabled. */
int evset_aux_enable(struct evset *s, const struct evlist *l, bool on);
/* Restarts the AUX events of a ring after an overrun: DISABLE, then ENABLE.
 * ENABLE alone leaves the CPU silent (observed with Linux 6.1 and 6.12). */
int evset_aux_restart(struct evset *s, const struct evlist *l, uint32_t ring);
/* Disables the AUX events of one ring; enables them again. */
int evset_aux_stop(struct evset *s, const struct evlist *l, uint32_t ring);
int evset_aux_resume(struct evset *s, const struct evlist *l, uint32_t ring);
/* For poll(2): an fd of this ring whose task is alive; -1 if all have exited.
 * The fd that was mapped hangs up with its own task although other events still
 * write to its ring. Searches from *hint (0 at first) on and updates it. */
int evset_ring_live(const struct evset *s, uint32_t ring, size_t *hint);
/* Records dropped for lack of room in a ring, as the kernel counts them since
 * Linux 6.0 (PERF_FORMAT_LOST); 0 before. Without backward rings: these are
 * paused to be read, and drop records by design. */
uint64_t evset_lost(const struct evset *s, const struct evlist *l);
/*
 * After the CPU was offline: opens its events of any task again, disabled, with
 * new ids, writing to the rings of before. 0 or -errno, and then it may be
 * asked again. The old descriptors, which rings are mapped from, stay until
 * evset_close.
 */
int evset_reopen(struct evset *s, const struct evlist *l, int cpu, int cgroup_fd);
/* Then, when the file has the new ids: enables them, all or the immediate
 * ones. */
void evset_reopened(struct evset *s, const struct evlist *l, int cpu, bool all);

void evset_close(struct evset *s);

#endif
