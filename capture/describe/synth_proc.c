/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * synth_proc: who exists before the events count.
 *
 * Invariant: for each process FORK, COMM and maps of the leader come first,
 * then FORK and COMM of its threads, so that a reader never sees a thread
 * before its process; a process that ends while it is read leaves what was
 * read, and is counted as gone.
 * Specification: proc(5); the order is perf record's (Linux 6.1).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/describe/synth_impl.h"

#define CODE_MAX (256ull << 20)

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

bool synth_run_late(struct synth_run *run)
{
	if (!run->r->timed_out && run->deadline_ns &&
	    now_ns() >= run->deadline_ns)
		run->r->timed_out = true;
	return run->r->timed_out;
}

/* A small file as a string; its length or -1. */
static ssize_t read_text(const char *path, char *buf, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, buf, len - 1);
	close(fd);
	if (n >= 0)
		buf[n] = '\0';
	return n;
}

static int compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

/* The numbers among the names of a directory, ascending; free *pids. */
static int list_pids(const char *path, pid_t **pids, size_t *n)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	size_t cap = 0;

	*pids = NULL;
	*n = 0;
	if (!dir)
		return -AUX_E_NOENT;
	while ((d = readdir(dir))) {
		char *end;
		long pid = strtol(d->d_name, &end, 10);

		if (*end || pid <= 0 || pid > INT_MAX)
			continue;
		if (*n == cap) {
			void *p = realloc(*pids, (2 * cap + 64) *
						 sizeof(**pids));
			if (!p)
				break;
			*pids = p;
			cap = 2 * cap + 64;
		}
		(*pids)[(*n)++] = (pid_t)pid;
	}
	closedir(dir);
	if (d)
		return -AUX_E_NOMEM;
	qsort(*pids, *n, sizeof(**pids), compare_pids);
	return 0;
}

/* A number behind a key of /proc/PID/status, -1 when it is not there. */
static long status_value(const char *status, const char *key)
{
	const char *p = strstr(status, key);

	return p ? strtol(p + strlen(key), NULL, 10) : -1;
}

/* FORK and COMM of one thread. -AUX_E_NOENT: it is gone. */
static int put_thread(struct synth_run *run, pid_t pid, pid_t ppid, pid_t tid)
{
	struct synth_id id = run->o->id;
	char path[PATH_MAX], comm[64];
	ssize_t n;
	int ret;

	snprintf(path, sizeof(path), "%s/%d/task/%d/comm", run->proc, pid, tid);
	n = read_text(path, comm, sizeof(comm));
	if (n < 0)
		return -AUX_E_NOENT;
	if (n && comm[n - 1] == '\n')
		comm[n - 1] = '\0';
	id.pid = (uint32_t)pid;
	id.tid = (uint32_t)tid;
	ret = synth_fork_exec(run->w, &id, id.pid, (uint32_t)ppid, id.tid,
			      (uint32_t)ppid);
	if (!ret)
		ret = synth_comm(run->w, &id, id.pid, id.tid, comm, false);
	if (!ret)
		run->r->n_threads++;
	return ret;
}

/*
 * The maps, through the leader; when the leader has ended before its threads,
 * only they have them.
 */
static int put_maps(struct synth_run *run, pid_t pid, const pid_t *tids,
		    size_t n)
{
	size_t i, n_lines = 0;
	int ret = synth_maps(run, pid, pid, &n_lines);

	for (i = 0; i < n && i < 16 && !ret && !n_lines; i++)
		if (tids[i] != pid)
			ret = synth_maps(run, pid, tids[i], &n_lines);
	if (ret == -AUX_E_TARGET) {
		run->r->n_unreadable++;
		ret = 0;
	}
	return ret;
}

static int put_process(struct synth_run *run, pid_t pid)
{
	char path[PATH_MAX], status[4096];
	pid_t *tids = NULL;
	size_t i, n = 0;
	long ppid;
	int ret;

	snprintf(path, sizeof(path), "%s/%d/status", run->proc, pid);
	if (read_text(path, status, sizeof(status)) <= 0)
		return -AUX_E_NOENT;
	ppid = status_value(status, "\nPPid:");
	snprintf(path, sizeof(path), "%s/%d/task", run->proc, pid);
	ret = list_pids(path, &tids, &n);
	if (!ret)
		ret = put_thread(run, pid, ppid < 0 ? 0 : (pid_t)ppid, pid);
	if (!ret)
		ret = put_maps(run, pid, tids, n);
	for (i = 0; i < n && !ret; i++) {
		if (tids[i] == pid)
			continue;
		ret = put_thread(run, pid, pid, tids[i]);
		if (ret == -AUX_E_NOENT)
			ret = 0;	/* only this thread */
	}
	free(tids);
	return ret;
}

/* The process that a thread belongs to; 0: there is none. */
static pid_t process_of(const struct synth_run *run, pid_t tid)
{
	char path[PATH_MAX], status[4096];
	long pid;

	snprintf(path, sizeof(path), "%s/%d/status", run->proc, tid);
	if (read_text(path, status, sizeof(status)) <= 0)
		return 0;
	pid = status_value(status, "\nTgid:");
	return pid > 0 ? (pid_t)pid : 0;
}

/* The processes asked for, each once, ascending; free *pids. */
static int list_targets(struct synth_run *run, pid_t **pids, size_t *n)
{
	const struct synth_proc_options *o = run->o;
	size_t i, k = 0;

	*n = 0;
	*pids = calloc(o->n_tids + 1, sizeof(**pids));
	if (!*pids)
		return -AUX_E_NOMEM;
	for (i = 0; i < o->n_tids; i++) {
		(*pids)[*n] = process_of(run, o->tids[i]);
		if ((*pids)[*n])
			++*n;
		else
			run->r->n_gone++;
	}
	qsort(*pids, *n, sizeof(**pids), compare_pids);
	for (i = 0; i < *n; i++)
		if (!k || (*pids)[i] != (*pids)[k - 1])
			(*pids)[k++] = (*pids)[i];
	*n = k;
	return 0;
}

static int put_processes(struct synth_run *run, const pid_t *pids, size_t n)
{
	size_t i;
	int ret;

	for (i = 0; i < n; i++) {
		if (synth_run_late(run)) {
			run->r->n_unreadable += n - i;
			return 0;
		}
		ret = put_process(run, pids[i]);
		if (ret == -AUX_E_NOENT)
			run->r->n_gone++;
		else if (ret)
			return ret;
		else
			run->r->n_processes++;
	}
	return 0;
}

int synth_proc(struct writer *w, const struct synth_proc_options *o,
	       struct synth_proc_result *r, struct aux_diag *diag)
{
	struct synth_run run = {
		.w = w, .o = o, .r = r,
		.proc = o->proc ? o->proc : "/proc",
		.code_left = CODE_MAX,
	};
	pid_t *pids = NULL;
	size_t n;
	int ret = 0;

	memset(r, 0, sizeof(*r));
	if (o->timeout_ms)
		run.deadline_ns = now_ns() + o->timeout_ms * 1000000ull;
	if (o->kernel)
		ret = synth_kernel(&run);
	if (!ret)
		ret = o->tids ? list_targets(&run, &pids, &n) :
				list_pids(run.proc, &pids, &n);
	if (ret == -AUX_E_NOENT) {
		diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
			 "%s cannot be read: %s; mount it: mount -t proc proc "
			 "/proc", run.proc, strerror(errno));
		ret = -AUX_E_IO;
	}
	if (!ret)
		ret = put_processes(&run, pids, n);
	if (!ret)
		ret = synth_code_save(&run);
	free(pids);
	synth_maps_fini(&run);
	return ret;
}
