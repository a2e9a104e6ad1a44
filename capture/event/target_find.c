/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target_find: finds processes, threads and cgroups.
 *
 * Threads come and go while /proc is read: a process's task directory is read again
 * until a pass finds nothing new.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/event/impl.h"
#include "common/array.h"
#include "common/diag.h"

#define MAX_PASSES 16

/* The state letter in the stat file of a task, below fd; 0: the task is gone. */
static char task_state(int fd, const char *path)
{
	char buf[512], *p;
	ssize_t n;
	int f = openat(fd, path, O_RDONLY | O_CLOEXEC);

	if (f < 0)
		return 0;
	n = read(f, buf, sizeof(buf) - 1);
	close(f);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	p = strrchr(buf, ')');	/* the name in () may itself contain ')' */
	return p && p[1] == ' ' ? p[2] : 0;
}

static bool is_alive(char state)
{
	return state && state != 'Z' && state != 'X' && state != 'x';
}

/* Whether the process's task directory lists a thread that is alive. */
static bool any_thread_lives(int proc_fd)
{
	int fd = openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool lives = false;
	char path[300];

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!lives && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/stat", e->d_name);
		lives = isdigit((unsigned char)e->d_name[0]) &&
			is_alive(task_state(fd, path));
	}
	closedir(dir);
	return lives;
}

/* A process lives as long as any of its threads, even after the first has exited
 * (which then is a zombie until the last one ends). */
bool target_watch_ended(struct target_watch *w)
{
	char path[32];

	if (w->ended)
		return true;
	if (w->process) {
		w->ended = !is_alive(task_state(w->proc_fd, "stat")) &&
			   !any_thread_lives(w->proc_fd);
	} else {
		snprintf(path, sizeof(path), "task/%d/stat", (int)w->id);
		w->ended = !is_alive(task_state(w->proc_fd, path));
	}
	return w->ended;
}

/* 1: added, 0: known. */
static int add_tid(struct target *t, pid_t tid)
{
	size_t i;

	for (i = 0; i < t->n_tids; i++)
		if (t->tids[i] == tid)
			return 0;
	if (array_grow(&t->tids, t->n_tids, &t->cap_tids, sizeof(*t->tids)))
		return -AUX_E_NOMEM;
	t->tids[t->n_tids++] = tid;
	return 1;
}

/* Adds the threads that exist now; returns how many were new. */
static int read_threads(struct target *t, int proc_fd)
{
	int fd = openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int n = 0, ret = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (ret >= 0 && (e = readdir(dir))) {
		long tid = strtol(e->d_name, NULL, 10);

		if (tid > 0) {
			ret = add_tid(t, (pid_t)tid);
			n += ret > 0;
		}
	}
	closedir(dir);
	return ret < 0 ? ret : n;
}

int target_rescan(struct target *t, struct aux_diag *diag)
{
	int n = 0, got, tries;
	size_t i;

	for (i = 0; i < t->n_watches; i++) {
		if (!t->watches[i].process)
			continue;
		for (tries = 0; tries < MAX_PASSES; tries++) {
			got = read_threads(t, t->watches[i].proc_fd);
			if (got < 0)
				return diag_set(diag, -got, AUX_NO_OFFSET,
						"no memory");
			n += got;
			if (!got)
				break;
		}
	}
	return n;
}

/* The error for a task that is not there or cannot be looked at. */
static int explain_missing(const char *what, long id, int err,
			   struct aux_diag *diag)
{
	if (err == ENOENT || err == ESRCH)
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"there is no %s %ld (or /proc is mounted with "
				"hidepid); ps -eLf shows them", what, id);
	return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET, "%s %ld: %s", what,
			id, strerror(err));
}

/* Watches a process or thread by its /proc directory; it must be alive. A thread is
 * added to tids here, a process's threads by target_rescan. */
static int add_watch(struct target *t, long id, bool process,
		     struct aux_diag *diag)
{
	const char *what = process ? "process" : "thread";
	struct target_watch *w;
	char path[64];
	int fd;

	if (array_grow(&t->watches, t->n_watches, &t->cap_watches, sizeof(*w)))
		return -AUX_E_NOMEM;
	snprintf(path, sizeof(path), "/proc/%ld", id);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return explain_missing(what, id, errno, diag);
	w = &t->watches[t->n_watches++];
	*w = (struct target_watch){
		.id = (pid_t)id, .proc_fd = fd, .process = process,
	};
	if (target_watch_ended(w))
		return explain_missing(what, id, ESRCH, diag);
	return process ? 0 : add_tid(t, (pid_t)id);
}

/* list: numbers separated by commas. Ids are checked to exist, so that a mistyped one is
 * an error rather than an empty recording. */
int target_find_tasks(struct target *t, const char *list, bool processes,
		      struct aux_diag *diag)
{
	const char *p = list;
	char *end;
	long id;
	int ret;

	for (;; p = end + 1) {
		id = strtol(p, &end, 10);
		if (!isdigit((unsigned char)*p) || id < 1 || id > INT32_MAX ||
		    (*end && *end != ','))
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"'%.100s' is no list of numbers, as "
					"%s 123,456", list,
					processes ? "-p" : "-t");
		ret = add_watch(t, id, processes, diag);
		if (ret < 0)
			return ret;
		if (!*end)
			break;
	}
	ret = target_rescan(t, diag);
	if (ret >= 0 && !t->n_tids)
		return explain_missing("process", id, ESRCH, diag);
	return ret < 0 ? ret : 0;
}

/* Whether word is one of the comma separated mount options. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);
	const char *p;

	for (p = list; (p = strstr(p, word)); p += len)
		if ((p == list || p[-1] == ',') &&
		    (!p[len] || p[len] == ',' || p[len] == ' '))
			return true;
	return false;
}

/* The hierarchy that perf_event uses: v1 with that controller if mounted, else v2. */
static bool find_mount(char *mount, size_t len)
{
	char line[4096], dir[2048], type[64], opts[1024];
	FILE *f = fopen("/proc/self/mounts", "re");
	bool v1 = false;

	mount[0] = '\0';
	while (f && !v1 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %2047s %63s %1023s", dir, type, opts) < 3)
			continue;
		v1 = !strcmp(type, "cgroup") && has_word(opts, "perf_event");
		if (v1 || (!mount[0] && !strcmp(type, "cgroup2")))
			snprintf(mount, len, "%s", dir);
	}
	if (f)
		fclose(f);
	return mount[0] != '\0';
}

/* name is relative to the hierarchy's mount point, or begins with it. */
int target_find_cgroup(struct target *t, const char *name,
		       struct aux_diag *diag)
{
	char mount[2048], path[4096];
	size_t len;

	if (!find_mount(mount, sizeof(mount)))
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"-G %.100s: no cgroup file system is mounted; "
				"mount -t cgroup2 none /sys/fs/cgroup", name);
	len = strlen(mount);
	if (!strncmp(name, mount, len) && (!name[len] || name[len] == '/'))
		name += len;
	snprintf(path, sizeof(path), "%s/%s", mount, name);
	t->cgroup_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->cgroup_fd < 0)
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"there is no cgroup '%.100s' below %.100s: %s; "
				"systemd-cgls shows them all, "
				"/proc/PID/cgroup that of a process", name,
				mount, strerror(errno));
	return 0;
}
