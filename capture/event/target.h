/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is recorded: a program we start, processes, threads, CPUs, a cgroup.
 *
 * A program is forked by target_open and waits before its exec with all
 * signals as the user left them, so that events can be opened on it.
 */
#ifndef CAPTURE_EVENT_TARGET_H
#define CAPTURE_EVENT_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <signal.h>
#include <sys/types.h>

#include <aux/error.h>

struct target_spec {
	char *const *argv;	/* NULL: none; with other targets it says only
				 * how long to record, as perf does */
	const char *pids;	/* -p LIST */
	const char *tids;	/* -t LIST */
	const char *cpus;	/* -C LIST: 0-3,5 */
	const char *cgroup;	/* -G NAME, below the perf_event or v2 mount */
	bool all_cpus;		/* -a; the default when nothing else is given
				 * but CPUs or a cgroup */
	bool per_thread;
	bool stdout_taken;	/* by the recording: the program gets stderr */
	/* As the user left them, for the program; NULL: as they are now. */
	const struct target_signals *signals;
};

/* Which signals were ignored or blocked when we were started. To be saved
 * before the first sigaction. */
struct target_signals {
	sigset_t ignored, blocked;
};
void target_signals_save(struct target_signals *s);

/* A process (-p) or thread (-t) that is recorded: its directory below /proc,
 * which stays its own when the number is given to another. */
struct target_watch {
	pid_t id;
	int proc_fd;
	bool process;
	bool ended;
};

struct target {
	bool system_wide;	/* events have pid -1 (or a cgroup) */
	bool per_thread;	/* events have cpu -1 */
	bool traces_child;	/* enable_on_exec */
	int *cpus;		/* per_thread: one, -1 */
	size_t n_cpus;
	pid_t *tids;		/* system_wide: one, -1. Of processes: all their
				 * threads, with inherit for what comes */
	size_t n_tids;
	int cgroup_fd;		/* -1: none */
	pid_t child;		/* 0: none */
	int child_fd;		/* start pipe */
	int exec_error_fd;	/* tells why exec failed */
	bool child_reaped;
	int child_status;	/* as wait(2) */
	struct target_watch *watches;
	size_t n_watches;
};

/* Whether name can be run as a program; before any file is touched, so a
 * mistyped name costs nothing. -AUX_E_TARGET, with what to do about it. */
int target_check_program(const char *name, struct aux_diag *diag);

/* -AUX_E_INVAL (contradiction, no such CPU), -AUX_E_TARGET (no such process, no
 * permission to look at it). */
int target_open(struct target *t, const struct target_spec *spec,
		struct aux_diag *diag);
/* Threads of the processes of -p that have appeared since: added to tids.
 * Returns how many. When there are some after evset_open, their events may be missing:
 * close and open the set again. */
int target_rescan(struct target *t, struct aux_diag *diag);
/* Lets the program exec; -AUX_E_TARGET with the cause when it cannot. */
int target_start(struct target *t, struct aux_diag *diag);
/* Whether all that is recorded has ended; never, when system wide without a
 * program. Does not wait. */
bool target_ended(struct target *t);
/* A program that we started and that still runs is sent sig. */
void target_kill(struct target *t, int sig);
/* Whether our program has ended, and its status (0 when there is none). Does not
 * wait. */
bool target_child_ended(struct target *t, int *status);
/* Waits for our program; its status. */
int target_wait(struct target *t);
void target_close(struct target *t);

/* "0-3,5" to an array of CPUs that are online; free *cpus. */
int target_cpus_parse(const char *text, int **cpus, size_t *n,
		      struct aux_diag *diag);
int target_cpus_online(int **cpus, size_t *n, struct aux_diag *diag);

/* The pieces of target_open. */
int target_find_tasks(struct target *t, const char *list, bool processes,
		      struct aux_diag *diag);
int target_find_cgroup(struct target *t, const char *name,
		       struct aux_diag *diag);
bool target_watch_ended(struct target_watch *w);

#endif
