/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target: what is recorded: a program that we start, processes, threads, CPUs,
 * a cgroup.
 *
 * target_open forks the program, which waits before its exec until
 * target_start, so that events can be opened on it. It runs with the signal
 * dispositions and the mask that the user's shell gave us.
 */
#ifndef CAPTURE_EVENT_TARGET_H
#define CAPTURE_EVENT_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <signal.h>
#include <sys/types.h>

#include <aux/error.h>

struct target_spec {
	char *const *argv;	/* the program; NULL: none. Beside other targets it
				 * is not traced, its end ends the recording */
	const char *pids;	/* -p LIST */
	const char *tids;	/* -t LIST */
	const char *cpus;	/* -C LIST: 0-3,5 */
	const char *cgroup;	/* -G NAME, below the perf_event or v2 mount */
	bool all_cpus;		/* -a; implied by -C or -G without tasks */
	bool per_thread;
	bool stdout_taken;	/* the recording is written to stdout: the program
				 * gets stderr in its place */
	/* The program's signals; NULL: as they are now. */
	const struct target_signals *signals;
};

/* The signals that were ignored or blocked when we were started. Save them
 * before the first sigaction. */
struct target_signals {
	sigset_t ignored, blocked;
};
void target_signals_save(struct target_signals *s);

/* A process (-p) or thread (-t) that is recorded. The open /proc directory
 * stays its own when the kernel reuses the number. */
struct target_watch {
	pid_t id;
	int proc_fd;
	bool process;		/* else a thread */
	bool ended;
};

struct target {
	/* What perf_event_open gets: each tid on each CPU. */
	bool system_wide;	/* pid is -1, or the cgroup's fd */
	bool per_thread;	/* cpu is -1 */
	bool traces_child;	/* the child is the target, */
	bool starts_at_exec;	/* and its exec enables the events */
	int *cpus;		/* per_thread: one, -1 */
	size_t n_cpus;
	pid_t *tids;		/* system_wide: one, -1. Of processes: all their
				 * threads; inherit covers later ones */
	size_t n_tids, cap_tids;
	int cgroup_fd;		/* -1: none */

	/* The program. */
	pid_t child;		/* 0: none */
	int child_fd;		/* a byte written here lets it exec; closing it
				 * without one makes it exit */
	int exec_error_fd;	/* delivers the errno of a failed exec */
	bool child_reaped;	/* child_status is valid */
	int child_status;	/* as wait(2) reports it */

	/* Processes and threads that exist already. */
	struct target_watch *watches;
	size_t n_watches, cap_watches;
};

/* The letter of a task's state in its stat file, below dir_fd or from the root, and who
 * started it (NULL: not wanted). 0: the task is gone. */
char target_task_state(int dir_fd, const char *path, pid_t *parent);
/* Whether execvp would find name. Checked before any file is touched, so a
 * mistyped name costs nothing. -AUX_E_TARGET, with the fix. */
int target_check_program(const char *name, struct aux_diag *diag);
/* The same, and where: path has PATH_MAX bytes. */
bool target_find_program(const char *name, char *path);

/* -AUX_E_INVAL: contradicting options, no such CPU; -AUX_E_TARGET: no such
 * process, or it cannot be looked at. t is closed on error. */
int target_open(struct target *t, const struct target_spec *spec,
		struct aux_diag *diag);
/* Adds threads of -p processes that have appeared since to tids; returns how
 * many, or an error. If there are any after evset_open, they may lack events:
 * close the set and open it again. */
int target_rescan(struct target *t, struct aux_diag *diag);
/* Lets the program exec; -AUX_E_TARGET with the cause if exec fails. */
int target_start(struct target *t, struct aux_diag *diag);
/* Whether the program, or everything that is recorded, has ended; never true
 * system wide without a program. Does not wait. */
bool target_ended(struct target *t);
/* Sends sig to our program if it still runs. */
void target_kill(struct target *t, int sig);
/* Whether our program has ended (true if there is none), and its status. Does
 * not wait. */
bool target_child_ended(struct target *t, int *status);
/* Waits for our program and returns its status; 0 if there is none. */
int target_wait(struct target *t);
void target_close(struct target *t);

/* Parses "0-3,5"; -AUX_E_INVAL for a CPU that is not online. Free *cpus. */
int target_cpus_parse(const char *text, int **cpus, size_t *n,
		      struct aux_diag *diag);
/* All CPUs that are online. Free *cpus. */
int target_cpus_online(int **cpus, size_t *n, struct aux_diag *diag);

#endif
