/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target: builds a struct target from the options, and finds out when it has ended.
 * target_child.c starts the program, target_find.c finds tasks and cgroups.
 *
 * What perf_event_open gets as pid and cpu:
 *	program, -p, -t		each thread, each online CPU (or those of -C)
 *	with --per-thread	each thread, cpu -1
 *	-a, -C			pid -1, each CPU
 *	-G			the cgroup's fd as pid (PERF_FLAG_PID_CGROUP), each CPU
 * Threads per CPU: a thread's event on CPU n counts while the thread runs there, so
 * each CPU has one ring, in time order, whatever the number of threads.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/event/impl.h"

#define CPUS_ONLINE "/sys/devices/system/cpu/online"
#define CPUS_MAX 65536

/* Parses "A" or "A-B" at *p and advances it. */
static bool parse_range(const char **p, long *first, long *last)
{
	char *end;

	if (**p < '0' || **p > '9')
		return false;
	*first = *last = strtol(*p, &end, 10);
	if (*end == '-') {
		if (end[1] < '0' || end[1] > '9')
			return false;
		*last = strtol(end + 1, &end, 10);
	}
	*p = end;
	return *first <= *last && *last < CPUS_MAX;
}

/* Marks the CPUs of a list in a map of CPUS_MAX. */
static bool mark_cpus(const char *text, bool *map)
{
	long first, last;

	for (;; text++) {
		if (!parse_range(&text, &first, &last))
			return false;
		for (; first <= last; first++)
			map[first] = true;
		if (*text != ',')
			return !*text || !strcmp(text, "\n");
	}
}

/* The marked CPUs as an array; free *cpus. */
static int collect_cpus(const bool *map, int **cpus, size_t *n)
{
	size_t i, k = 0;

	for (i = 0; i < CPUS_MAX; i++)
		k += map[i];
	*cpus = calloc(k ? k : 1, sizeof(**cpus));
	if (!*cpus)
		return -AUX_E_NOMEM;
	*n = k;
	for (i = 0, k = 0; i < CPUS_MAX; i++)
		if (map[i])
			(*cpus)[k++] = (int)i;
	return 0;
}

/* Marks the CPUs that are online; text becomes their list, for messages. */
static bool mark_online(bool *map, char *text, size_t len)
{
	FILE *f = fopen(CPUS_ONLINE, "re");
	long i, n;

	text[0] = '\0';
	if (f && !fgets(text, (int)len, f))
		text[0] = '\0';
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = '\0';
	if (text[0])
		return mark_cpus(text, map);
	n = sysconf(_SC_NPROCESSORS_ONLN);	/* /sys is not mounted */
	snprintf(text, len, "0-%ld", n - 1);
	for (i = 0; i < n && i < CPUS_MAX; i++)
		map[i] = true;
	return n > 0;
}

int target_cpus_online(int **cpus, size_t *n, struct aux_diag *diag)
{
	bool *map = calloc(CPUS_MAX, sizeof(*map));
	char text[512];
	int ret;

	if (!map)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "no memory");
	if (mark_online(map, text, sizeof(text)))
		ret = collect_cpus(map, cpus, n);
	else
		ret = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
			       CPUS_ONLINE " reads '%.100s', which is no list "
			       "of CPUs", text);
	free(map);
	return ret;
}

int target_cpus_parse(const char *text, int **cpus, size_t *n,
		      struct aux_diag *diag)
{
	bool *map = calloc(CPUS_MAX, 2 * sizeof(*map)), *online;
	char are[512];
	int i, ret;

	if (!map)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "no memory");
	online = map + CPUS_MAX;
	if (!mark_cpus(text, map)) {
		ret = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			       "'%.100s' is no list of CPUs; write it as "
			       "0-3,5", text);
		goto out;
	}
	if (mark_online(online, are, sizeof(are)))
		for (i = 0; i < CPUS_MAX; i++)
			if (map[i] && !online[i]) {
				ret = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					       "CPU %d is not online; those "
					       "online are %.200s", i, are);
				goto out;
			}
	ret = collect_cpus(map, cpus, n);
out:
	free(map);
	return ret;
}

/* Refuses options that contradict one another, or that name nothing to record. */
static int check_spec(const struct target_spec *s, struct aux_diag *diag)
{
	bool tasks = s->pids || s->tids;
	bool wide = s->all_cpus || s->cgroup || (s->cpus && !tasks);
	const char *why = NULL;

	if (s->pids && s->tids)
		why = "-p and -t exclude each other: -t takes threads, -p all "
		      "threads of a process";
	else if (tasks && s->all_cpus)
		why = "-a records every process: leave out -a, or -p and -t";
	else if (tasks && s->cgroup)
		why = "-G records a cgroup: leave out -G, or -p and -t";
	else if (s->all_cpus && s->cpus)
		why = "-a means all CPUs: leave out -a, or -C";
	else if (s->per_thread && (wide || s->cpus))
		why = "--per-thread follows threads over all CPUs: it goes "
		      "with a program, -p or -t, not with -a, -C or -G";
	else if (!s->argv && !tasks && !wide)
		why = "nothing to record: give a program, -p PID, -t TID, "
		      "-C CPUS, -G CGROUP or -a";
	if (!why)
		return 0;
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "%s", why);
}

/* The CPUs that events are opened on; -1, any CPU, with --per-thread. */
static int choose_cpus(struct target *t, const struct target_spec *s,
		       struct aux_diag *diag)
{
	if (t->per_thread) {
		t->cpus = calloc(1, sizeof(*t->cpus));
		if (!t->cpus)
			return -AUX_E_NOMEM;
		t->cpus[0] = -1;
		t->n_cpus = 1;
		return 0;
	}
	if (s->cpus)
		return target_cpus_parse(s->cpus, &t->cpus, &t->n_cpus, diag);
	return target_cpus_online(&t->cpus, &t->n_cpus, diag);
}

/* The tasks that events are opened on; needs t->child if that is the target. */
static int choose_tasks(struct target *t, const struct target_spec *s,
			struct aux_diag *diag)
{
	int ret;

	if (s->pids || s->tids)
		return target_find_tasks(t, s->pids ? s->pids : s->tids,
					 s->pids != NULL, diag);
	if (s->cgroup) {
		ret = target_find_cgroup(t, s->cgroup, diag);
		if (ret)
			return ret;
	}
	t->tids = calloc(1, sizeof(*t->tids));
	if (!t->tids)
		return -AUX_E_NOMEM;
	t->n_tids = 1;
	t->tids[0] = t->system_wide ? -1 : t->child;
	return 0;
}

/* Forks only after everything else has been checked: until then a wrong argument
 * leaves nothing to undo. */
int target_open(struct target *t, const struct target_spec *s,
		struct aux_diag *diag)
{
	bool tasks = s->pids || s->tids;
	int ret;

	memset(t, 0, sizeof(*t));
	t->cgroup_fd = t->child_fd = t->exec_error_fd = -1;
	ret = check_spec(s, diag);
	if (ret)
		return ret;
	t->system_wide = !tasks && (s->all_cpus || s->cgroup || s->cpus);
	t->per_thread = s->per_thread;
	t->traces_child = s->argv && !tasks && !t->system_wide;
	t->starts_at_exec = t->traces_child;
	ret = choose_cpus(t, s, diag);
	if (!ret && s->argv)
		ret = target_check_program(s->argv[0], diag);
	if (!ret && !t->traces_child)
		ret = choose_tasks(t, s, diag);
	if (!ret && s->argv)
		ret = target_fork(t, s, diag);
	if (!ret && t->traces_child)
		ret = choose_tasks(t, s, diag);
	if (ret == -AUX_E_NOMEM)
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "no memory");
	if (ret)
		target_close(t);
	return ret;
}

/* Collects the child's status once; false: it still runs (WNOHANG). */
static bool reap(struct target *t, int flags)
{
	pid_t got;

	if (t->child_reaped)
		return true;
	do
		got = waitpid(t->child, &t->child_status, flags);
	while (got < 0 && errno == EINTR);
	if (got < 0)	/* ECHILD: SIGCHLD is ignored, the kernel reaped it */
		t->child_status = 0;
	t->child_reaped = got != 0;
	return t->child_reaped;
}

bool target_ended(struct target *t)
{
	size_t i, n_ended = 0;

	if (t->child && reap(t, WNOHANG))
		return true;
	for (i = 0; i < t->n_watches; i++)
		n_ended += target_watch_ended(&t->watches[i]);
	return t->n_watches && n_ended == t->n_watches;
}

void target_kill(struct target *t, int sig)
{
	if (t->child && !reap(t, WNOHANG))
		kill(t->child, sig);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

bool target_child_ended(struct target *t, int *status)
{
	*status = 0;
	if (!t->child)
		return true;
	close_fd(&t->child_fd);
	if (!reap(t, WNOHANG))
		return false;
	*status = t->child_status;
	return true;
}

/* Closes the start pipe first, so that a program not yet started exits. */
int target_wait(struct target *t)
{
	if (!t->child)
		return 0;
	close_fd(&t->child_fd);
	reap(t, 0);
	return t->child_status;
}

void target_close(struct target *t)
{
	bool waits = t->child && t->child_fd >= 0;
	size_t i;

	close_fd(&t->child_fd);
	if (waits)
		reap(t, 0);
	close_fd(&t->exec_error_fd);
	close_fd(&t->cgroup_fd);
	for (i = 0; i < t->n_watches; i++)
		close_fd(&t->watches[i].proc_fd);
	free(t->watches);
	free(t->cpus);
	free(t->tids);
	memset(t, 0, sizeof(*t));
	t->cgroup_fd = t->child_fd = t->exec_error_fd = -1;
}
