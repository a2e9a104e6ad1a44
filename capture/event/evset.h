/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open events: each event of an evlist on each CPU and thread of a target, and
 * which of them share a ring.
 *
 * Rings: one per CPU (or per thread), owned by the first AUX event there, and
 * one more for each further AUX event; all other events of that CPU write to
 * the first ring (PERF_EVENT_IOC_SET_OUTPUT). With backward rings
 * (evlist_options.overwrite) samples have a ring of their own per CPU. An event
 * that is any_task is opened once per CPU of the machine that records.
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
	int32_t cpu;		/* -1: per thread */
	int32_t tid;		/* -1: any */
	uint32_t ring;
};

struct evset_ring {
	int fd;			/* to be mapped */
	int aux_event;		/* index in the evlist, -1: no AUX area */
	bool backward;		/* attr.write_backward: map read-only */
	int32_t cpu, tid;	/* -1: none */
};

struct evset {
	struct evset_fd *fds;
	size_t n_fds;
	struct evset_ring *rings;
	size_t n_rings;
	uint32_t cpuless;	/* per-CPU opens refused because the CPU is
				 * offline or not the PMU's: not an error */
	uint32_t gone;		/* threads that ended while we opened */
	bool cpu_wide_switch;	/* context_switch events on CPUs: the file has
				 * SWITCH_CPU_WIDE records */
	char notes[512];	/* what could not be had as asked and was done
				 * without, sentences for the user; "" none */
};

/*
 * Opens everything, disabled. Attr bits that this kernel does not know and that
 * nothing depends on (build_id, ksymbol, bpf_event, text_poke, cgroup,
 * comm_exec ...) are dropped from the evlist's attrs, once, as perf does; the
 * rest is an error whose text names the cause and the fix (explain.h).
 */
int evset_open(struct evset *s, struct evlist *l, const struct target *t,
	       struct aux_diag *diag);
/* All other events write to their ring; after the rings are mapped, which
 * PERF_EVENT_IOC_SET_OUTPUT needs, and before they are enabled. */
int evset_attach(struct evset *s, const struct evlist *l,
		 struct aux_diag *diag);
/* Sets filters; after the rings are mapped, which address filters need. */
int evset_filter(struct evset *s, const struct evlist *l,
		 struct aux_diag *diag);
/* Enables, or disables, all events (on_exec ones too). Errors are the first
 * one's. */
int evset_enable(struct evset *s, struct aux_diag *diag);
int evset_disable(struct evset *s, struct aux_diag *diag);
/* Only those with an AUX area; side-band goes on. */
int evset_aux_enable(struct evset *s, const struct evlist *l, bool on);
/* A stopped AUX event of this ring starts again: DISABLE, then ENABLE. The
 * second alone leaves the CPU silent (Linux 6.1, 6.12). */
int evset_aux_restart(struct evset *s, const struct evlist *l, uint32_t ring);
/* Only on, what evset_aux_enable switched off. */
int evset_aux_resume(struct evset *s, const struct evlist *l, uint32_t ring);
/* For poll(2): an fd of this ring whose task lives; -1: all have ended. The fd
 * that was mapped hangs up when its own task ends, others write on. Checks from
 * *hint (0 at first), which it sets. */
int evset_ring_live(const struct evset *s, uint32_t ring, size_t *hint);
/* Records that found no room in a ring, as the kernel counts them (Linux 6.0);
 * 0 where it does not. Backward rings, which are paused to be read, are left
 * out: what is missing there is told by what is saved. */
uint64_t evset_lost(const struct evset *s, const struct evlist *l);
void evset_close(struct evset *s);

#endif
