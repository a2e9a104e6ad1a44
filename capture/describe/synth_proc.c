/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * synth_proc: processes that exist before the events are enabled, and their
 * maps.
 *
 * Invariant: for each process FORK, COMM and maps of the leader come first,
 * then FORK and COMM of its threads, so that a reader never meets a thread
 * before its process. A process that ends while it is read leaves what was
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "capture/describe/impl.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/diag.h"
#include "common/mapspath.h"

/*
 * MMAP2 records from /proc/PID/maps.
 *
 * Invariant: names are those that the kernel writes in its own records:
 * "//anon" for memory without a file, paths unescaped, " (deleted)" retained.
 * Specification: proc(5), perf_event_mmap_event() of Linux 6.1.
 */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

/* The name for a record: maps also shows names given by prctl
 * (PR_SET_VMA_ANON_NAME), which records do not carry. */
static const char *record_name(char *name, uint64_t ino)
{
	if (!*name || !strncmp(name, "[anon:", 6) ||
	    !strncmp(name, "[stack:", 7))
		return "//anon";
	if (!strncmp(name, "[anon_shmem:", 12))
		return "/dev/zero (deleted)";
	mapspath_decode(name, ino);
	return name;
}

/* Parses one line; v->map.path points into it. */
static bool parse_line(char *line, struct synth_vma *v)
{
	unsigned long long start, end, pgoff, ino;
	struct synth_map *m = &v->map;
	char perm[5];
	int at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, perm,
		   &pgoff, &m->maj, &m->min, &ino, &at) < 7 || !at ||
	    end <= start)
		return false;
	m->addr = start;
	m->len = end - start;
	m->pgoff = pgoff;
	m->ino = ino;
	m->prot = (perm[0] == 'r' ? PROT_READ : 0u) |
		  (perm[1] == 'w' ? PROT_WRITE : 0u) |
		  (perm[2] == 'x' ? PROT_EXEC : 0u);
	m->flags = perm[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
	m->path = record_name(line + at, ino);
	v->deleted = ends_with(m->path, " (deleted)");
	return true;
}

/*
 * The build id of a mapped file. A link in map_files opens the mapped file
 * itself, whatever now has its path, but needs CAP_CHECKPOINT_RESTORE; then the
 * path as the process sees it; then as we see it, if it is the same inode.
 */
static int read_file_id(const struct synth_run *run, const struct synth_vma *v,
			uint8_t *id)
{
	const struct synth_map *m = &v->map;
	char path[PATH_MAX + 64];
	struct stat st;
	int n;

	snprintf(path, sizeof(path), "%s/%d/map_files/%llx-%llx", run->proc,
		 v->pid, (unsigned long long)m->addr,
		 (unsigned long long)(m->addr + m->len));
	n = buildid_read(path, id);
	if (n >= 0 || v->deleted)
		return n;
	snprintf(path, sizeof(path), "%s/%d/root%s", run->proc, v->pid,
		 m->path);
	n = buildid_read(path, id);
	if (n >= 0)
		return n;
	if (stat(m->path, &st) || st.st_ino != m->ino)
		return -AUX_E_NOENT;	/* from another mount namespace */
	return buildid_read(m->path, id);
}

/* The cached build id of a mapping's file; NULL: out of memory. */
static const struct synth_file *find_file(struct synth_run *run,
					  const struct synth_vma *v)
{
	const struct synth_map *m = &v->map;
	struct synth_file **bucket, *f;
	int n;

	bucket = &run->files[(m->ino * 31 + m->min) % SYNTH_FILE_BUCKETS];
	for (f = *bucket; f; f = f->next)
		if (f->ino == m->ino && f->maj == m->maj && f->min == m->min)
			return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	n = read_file_id(run, v, f->id);
	f->id_size = n > 0 ? (uint8_t)n : 0;
	f->ino = m->ino;
	f->maj = m->maj;
	f->min = m->min;
	f->next = *bucket;
	*bucket = f;
	return f;
}

static void free_run(struct synth_run *run)
{
	size_t i;

	for (i = 0; i < SYNTH_FILE_BUCKETS; i++) {
		while (run->files[i]) {
			struct synth_file *f = run->files[i];

			run->files[i] = f->next;
			free(f);
		}
	}
	free(run->ranges);
	free(run->buf);
}

static int put_map(struct synth_run *run, struct synth_vma *v)
{
	struct synth_id id = run->o->id;
	const struct synth_file *f;
	struct synth_map *m = &v->map;
	int ret;

	if (!(m->prot & PROT_EXEC) &&
	    (!run->o->data_maps || !(m->prot & PROT_READ)))
		return 0;
	if (run->o->build_ids && m->ino && m->path[0] == '/' &&
	    (m->prot & PROT_EXEC)) {
		f = find_file(run, v);
		if (!f)
			return -AUX_E_NOMEM;
		memcpy(m->build_id, f->id, sizeof(m->build_id));
		m->build_id_size = f->id_size;
	}
	id.pid = id.tid = (uint32_t)v->pid;
	ret = synth_mmap2(run->w, &id, id.pid, id.pid, m);
	if (!ret)
		run->r->n_maps++;
	if (!ret && (m->prot & PROT_EXEC))
		ret = synth_code_add(run, v);
	return ret;
}

static int put_lines(struct synth_run *run, pid_t pid, FILE *f, size_t *n_lines)
{
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	while (!ret && (errno = 0, getline(&line, &room, f) > 0)) {
		struct synth_vma v = { .pid = pid };

		++*n_lines;
		if (!parse_line(line, &v))
			continue;
		v.map.cut = synth_late(run);
		ret = put_map(run, &v);
		if (!ret && v.map.cut)
			ret = -AUX_E_TARGET;
	}
	/* At the end of the file errno may be what an allocation that went well left. */
	if (!ret && !feof(f) && errno == ENOMEM)
		ret = -AUX_E_NOMEM;
	/* It may exec something that we may not read at any time. */
	if (!ret && ferror(f) && errno != ESRCH)
		ret = -AUX_E_TARGET;
	free(line);
	return ret;
}

/*
 * The maps of a process, read through its thread tid. Adds to *n_lines the
 * lines read, none for a kernel thread or one that has ended. -AUX_E_NOENT: it
 * is gone; -AUX_E_TARGET: not all could be read; else the writer's error.
 */
static int put_process_maps(struct synth_run *run, pid_t pid, pid_t tid,
		      size_t *n_lines)
{
	char path[PATH_MAX];
	FILE *f;
	int ret;

	snprintf(path, sizeof(path), "%s/%d/task/%d/maps", run->proc, pid, tid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOMEM ? -AUX_E_NOMEM :
		       errno == ENOENT || errno == ESRCH ? -AUX_E_NOENT :
							   -AUX_E_TARGET;
	ret = put_lines(run, pid, f, n_lines);
	fclose(f);
	return ret;
}

#define CODE_MAX (256ull << 20)	/* bytes of code saved of all processes */
#define LEADERLESS_TRIES 16	/* threads asked for the maps of their process */

bool synth_late(struct synth_run *run)
{
	if (!run->r->timed_out && run->deadline_ns &&
	    clock_ns() >= run->deadline_ns)
		run->r->timed_out = true;
	return run->r->timed_out;
}

/* Reads a small file as a string; its length, or -1. */
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
		return errno == ENOMEM ? -AUX_E_NOMEM : -AUX_E_NOENT;
	while ((d = readdir(dir))) {
		char *end;
		long pid = strtol(d->d_name, &end, 10);

		if (*end || pid <= 0 || pid > INT_MAX)
			continue;
		if (array_grow(pids, *n, &cap, sizeof(**pids)))
			break;
		(*pids)[(*n)++] = (pid_t)pid;
	}
	closedir(dir);
	if (d)
		return -AUX_E_NOMEM;
	qsort(*pids, *n, sizeof(**pids), compare_pids);
	return 0;
}

/* The number after a key of /proc/PID/status; -1: no such key. */
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
 * The maps, through the leader. A leader that ended before its threads shows
 * none, but they still do.
 */
static int put_maps(struct synth_run *run, pid_t pid, const pid_t *tids,
		    size_t n)
{
	size_t i, n_lines = 0;
	int ret = put_process_maps(run, pid, pid, &n_lines);

	for (i = 0; i < n && i < LEADERLESS_TRIES && !ret && !n_lines; i++)
		if (tids[i] != pid)
			ret = put_process_maps(run, pid, tids[i], &n_lines);
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

/* The process of a thread; 0: it is gone. */
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

/* When a process began, in clock ticks since boot: the 22nd field of its stat
 * file, counted after the name, which may hold anything. 0: it is gone. */
static uint64_t began(const struct synth_run *run, pid_t pid)
{
	char path[PATH_MAX], stat[1024], *p;
	int field;

	snprintf(path, sizeof(path), "%s/%d/stat", run->proc, pid);
	if (read_text(path, stat, sizeof(stat)) <= 0)
		return 0;
	p = strrchr(stat, ')');
	for (field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

uint64_t synth_proc_now(void)
{
	struct timespec ts = { 0 };
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * hz +
	       (uint64_t)ts.tv_nsec * hz / 1000000000;
}

/* Processes of others are none of ours, which run with our rights: the kernel
 * ends the events of a program that gains more. */
static bool may_read(const struct synth_run *run, pid_t pid)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%d/maps", run->proc, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Adds the processes that began since then to the list. */
static int list_younger(struct synth_run *run, pid_t **pids, size_t *n)
{
	pid_t *all = NULL, *more;
	size_t n_all, i;
	int ret = list_pids(run->proc, &all, &n_all);

	if (ret)
		return ret;
	more = reallocarray(*pids, *n + n_all + 1, sizeof(**pids));
	if (more)
		*pids = more;
	for (i = 0; more && i < n_all; i++)
		if (began(run, all[i]) >= run->o->since &&
		    may_read(run, all[i]))
			more[(*n)++] = all[i];
	free(all);
	return more ? 0 : -AUX_E_NOMEM;
}

/* The processes of o->tids, and those since, each once, ascending; free
 * *pids. */
static int list_targets(struct synth_run *run, pid_t **pids, size_t *n)
{
	const struct synth_proc_options *o = run->o;
	size_t i, k = 0;
	int ret;

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
	ret = o->since ? list_younger(run, pids, n) : 0;
	if (ret)
		return ret;
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
		if (synth_late(run)) {
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
		run.deadline_ns = clock_ns() + o->timeout_ms * 1000000ull;
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
	free_run(&run);
	return ret;
}
