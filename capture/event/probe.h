/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe: what --when waits for by the kernel's uprobes and kprobes: which file or function,
 * and where in it.
 *
 * A uprobe belongs to a file (its inode), not to a process: it is there wherever the file is
 * mapped, at whatever address, in what is forked or executed later too, and under any other
 * name of the file. So functions are found before the recording begins: in the program and
 * the libraries that it will be linked with, in what processes have mapped, or in the file
 * that is named.
 */
#ifndef CAPTURE_EVENT_PROBE_H
#define CAPTURE_EVENT_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

#include "capture/event/target.h"
#include "capture/event/trigger.h"

struct evlist;

/* So many places at most, as each is an event on each CPU. */
#define PROBES_MAX 500

enum probe_what {
	PROBE_MOMENT,	/* each hit is one */
	PROBE_CALL,	/* a call begins whose duration matters */
	PROBE_RETURN,	/* it has returned */
	PROBE_OPEN,	/* of --window: the trace goes on, */
	PROBE_SHUT,	/* and pauses */
};

struct probe {
	uint32_t trigger;	/* from 1; of --window, in its own list */
	enum probe_what what;
	bool kernel;		/* where is a function of the kernel, else a path */
	const char *where;
	uint64_t offset;
	uint64_t semaphore;	/* USDT: its offset in the file; 0: none */
	const char *name;	/* the trigger's text, and its filter; NULL: none */
	const char *filter;
	char event[48];		/* its name in tracefs; "": it has none */
};

static inline bool probe_is_return(const struct probe *p)
{
	return p->what == PROBE_RETURN || p->what == PROBE_SHUT;
}

struct probes {
	struct probe *v;
	size_t n, cap;
	char **paths;		/* what where points into */
	size_t n_paths, cap_paths;
	int *holds;		/* events that keep them in place */
	size_t n_holds;
	bool loose;		/* not all have one */
};

/* Adds those of all triggers that are probes; window: the list is that of --window.
 * -AUX_E_INVAL names one that was not found, and what to do about it; p is freed then. */
int probes_find(struct probes *p, const struct triggers *list, bool window,
		const struct target_spec *spec, const struct target *target,
		struct aux_diag *diag);
/* probe_tracefs.c: gives them names, where tracefs may be written to; else they have none,
 * and perf_event_open makes them. -AUX_E_INVAL: the kernel puts none there. */
int probes_define(struct probes *p, struct aux_diag *diag);
/* Keeps those of l in place where children inherit their events. -AUX_E_NOMEM. */
int probes_hold(struct probes *p, const struct evlist *l, int cpu);
/* After their events are closed. */
void probes_undefine(struct probes *p);
void probes_free(struct probes *p);

/* A file with code that the target maps. */
struct probe_file {
	char *path;		/* as the process has it */
	char *file;		/* where we find it: below /proc/PID/root */
	uint64_t dev, ino;
	bool program;		/* it is what runs */
};

struct probe_files {
	struct probe_file *v;
	size_t n, cap;
};

/* probe_files.c: of processes that run (tids; n 0: of all), or that the program argv[0] will
 * map when it starts. Files that cannot be read are left out. */
int probe_files_processes(struct probe_files *f, const pid_t *tids, size_t n);
int probe_files_program(struct probe_files *f, const char *name);
/* Adds a library as the loader finds it by name, for a program of the same kind as the
 * files' first. */
int probe_files_library(struct probe_files *f, const char *name);
void probe_files_free(struct probe_files *f);

#endif
