/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jitfiles: see describe.h. The directory of a file in another mount namespace
 * is held open: it can then be read when the process, and with it the
 * namespace, is gone.
 *
 * Specification: proc(5) for root, ns, NSpid and starttime; openat2(2).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/describe/impl.h"
#include "common/array.h"

#define MAX_DIRS 256	/* held open */
#define DUMP_BYTES ((uint64_t)1 << 30)

struct jitfile {
	char *path;		/* as the process sees it */
	uint32_t pid;
	int dir;		/* its directory; -1: path is ours, too */
	bool is_map;
	uid_t uid;		/* the process's user */
	time_t since;		/* no map of this process is older */
};

struct jitfiles {
	const char *proc;
	struct jitfile *v;
	size_t n, cap, n_dirs;
	time_t began;
};

static time_t realtime(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return ts.tv_sec;
}

int jitfiles_new(struct jitfiles **jp, const char *proc)
{
	struct jitfiles *j = calloc(1, sizeof(*j));

	*jp = j;
	if (!j)
		return -AUX_E_NOMEM;
	j->proc = proc ? proc : "/proc";
	j->began = realtime(CLOCK_REALTIME);
	return 0;
}

static void drop(struct jitfiles *j, struct jitfile *f)
{
	if (f->dir >= 0) {
		close(f->dir);
		j->n_dirs--;
	}
	free(f->path);
}

void jitfiles_free(struct jitfiles *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n; i++)
		drop(j, &j->v[i]);
	free(j->v);
	free(j);
}

static void proc_path(const struct jitfiles *j, uint32_t pid, const char *name,
		      char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%u%s%s", j->proc, pid, *name ? "/" : "",
		 name);
}

/* Reads a file of /proc as a string; false: the process is gone. */
static bool read_proc(const struct jitfiles *j, uint32_t pid, const char *name,
		      char *buf, size_t len)
{
	char path[PATH_MAX];
	ssize_t n = -1;
	int fd;

	proc_path(j, pid, name, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, buf, len - 1);
		close(fd);
	}
	buf[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The pid by which the process knows itself: the last one of NSpid. */
static uint32_t own_pid(const struct jitfiles *j, uint32_t pid)
{
	char status[4096], *p, *end;
	unsigned long v = pid;

	if (!read_proc(j, pid, "status", status, sizeof(status)) ||
	    !(p = strstr(status, "\nNSpid:")))
		return pid;
	p += strlen("\nNSpid:");
	while (*p == '\t' || *p == ' ') {
		v = strtoul(p, &end, 10);
		if (end == p)
			break;
		p = end;
	}
	return (uint32_t)v;
}

/* When the process began. The name in stat may contain anything, also ')'. */
static time_t start_time(const struct jitfiles *j, uint32_t pid)
{
	long ticks = sysconf(_SC_CLK_TCK);
	unsigned long long start;
	char stat[1024], *p;

	if (ticks <= 0 || !read_proc(j, pid, "stat", stat, sizeof(stat)) ||
	    !(p = strrchr(stat, ')')) ||
	    sscanf(p + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%*s %*s %*s %*s %*s %*s %llu", &start) != 1)
		return j->began;
	return realtime(CLOCK_REALTIME) - realtime(CLOCK_BOOTTIME) +
	       (time_t)(start / (unsigned long long)ticks);
}

static bool same_link(const char *a, const char *b)
{
	char x[64], y[64];
	ssize_t n = readlink(a, x, sizeof(x)), m = readlink(b, y, sizeof(y));

	return n < 0 || m < 0 || (n == m && !memcmp(x, y, (size_t)n));
}

/* Whether the process's paths are ours; also when it is gone, or not ours to
 * ask. */
static bool shares_root(const struct jitfiles *j, uint32_t pid,
			char root[PATH_MAX])
{
	char ns[PATH_MAX];
	struct stat theirs, ours;

	proc_path(j, pid, "ns/mnt", ns);
	proc_path(j, pid, "root", root);
	if (stat(root, &theirs) || stat("/", &ours))
		return true;
	return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino &&
	       same_link(ns, "/proc/self/ns/mnt");
}

/* The directory of path under a root, whose symbolic links lead nowhere outside
 * it. */
static int open_dir(const char *root, const char *path)
{
	const struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	size_t len = (size_t)(strrchr(path, '/') - path);
	int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), dir;
	char name[PATH_MAX];

	if (fd < 0)
		return -1;
	snprintf(name, sizeof(name), "%.*s", (int)(len ? len : 1), path);
	dir = (int)syscall(SYS_openat2, fd, name, &how, sizeof(how));
	close(fd);
	return dir;
}

/* -1: it cannot be read, or is not what it claims to be. */
static int open_file(const struct jitfile *f)
{
	const char *base = strrchr(f->path, '/') + 1;
	int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK |
		    (f->is_map ? O_NOFOLLOW : 0);
	int fd = f->dir >= 0 ? openat(f->dir, base, flags | O_NOFOLLOW) :
			       open(f->path, flags);
	struct stat st;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    (!f->is_map ||
	     ((!st.st_uid || st.st_uid == geteuid() || st.st_uid == f->uid) &&
	      st.st_mtime + 1 >= f->since)))
		return fd;
	close(fd);
	return -1;
}

/* Makes room: maps that no process will write any more. */
static void prune(struct jitfiles *j)
{
	size_t k = 0;

	for (size_t i = 0; i < j->n; i++) {
		struct jitfile *f = &j->v[i];
		char path[PATH_MAX];
		int fd = f->is_map ? open_file(f) : -1;
		bool idle = f->is_map && fd < 0;

		if (fd >= 0)
			close(fd);
		proc_path(j, f->pid, "", path);
		if (idle && access(path, F_OK))
			drop(j, f);
		else
			j->v[k++] = *f;
	}
	j->n = k;
}

static const struct jitfile *find(const struct jitfiles *j, uint32_t pid,
				  const char *path)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct jitfile *f = &j->v[i];

		if (f->pid == pid &&
		    (path ? !strcmp(f->path, path) : f->is_map))
			return f;
	}
	return NULL;
}

static int add(struct jitfiles *j, uint32_t pid, const char *path, bool is_map)
{
	struct jitfile f = { .pid = pid, .dir = -1, .is_map = is_map };
	char root[PATH_MAX];
	struct stat st;

	if (j->n == JITFILES_MAX)
		prune(j);
	if (j->n == JITFILES_MAX || *path != '/' || strlen(path) >= PATH_MAX)
		return 0;
	if (array_grow(&j->v, j->n, &j->cap, sizeof(*j->v)) ||
	    !(f.path = strdup(path)))
		return -AUX_E_NOMEM;
	f.since = start_time(j, pid);
	if (!shares_root(j, pid, root) && j->n_dirs < MAX_DIRS) {
		f.dir = open_dir(root, path);
		j->n_dirs += f.dir >= 0;
	}
	proc_path(j, pid, "", root);
	f.uid = stat(root, &st) ? geteuid() : st.st_uid;
	j->v[j->n++] = f;
	return 0;
}

int jitfiles_add_dump(struct jitfiles *j, uint32_t pid, const char *path)
{
	return find(j, pid, path) ? 0 : add(j, pid, path, false);
}

int jitfiles_add_map(struct jitfiles *j, uint32_t pid)
{
	char path[64];

	if (find(j, pid, NULL))
		return 0;
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", own_pid(j, pid));
	return add(j, pid, path, true);
}

int jitfiles_add_child(struct jitfiles *j, uint32_t pid, uint32_t ppid)
{
	return pid != ppid && find(j, ppid, NULL) ? jitfiles_add_map(j, pid) : 0;
}

int jitfiles_save(struct jitfiles *j, struct writer *w)
{
	int ret = 0;

	for (size_t i = 0; i < j->n && !ret; i++) {
		const struct jitfile *f = &j->v[i];
		int fd = open_file(f);

		if (fd < 0)
			continue;
		ret = codesave_fd(w, fd, f->path, f->pid,
				  f->is_map ? JITFILES_MAP_BYTES : DUMP_BYTES);
		close(fd);
	}
	return ret;
}
