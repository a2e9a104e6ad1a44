/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probes by a name in tracefs.
 *
 * A probe that perf_event_open makes by itself belongs to one CPU's event, so a place has as
 * many as there are CPUs, and a thread that moves to another CPU while the kernel goes
 * through them is seen by two of them or by none (seen on Linux 6.1: one hit of 1,000 twice).
 * One that has a name is one probe for all CPUs, its hits are exact, and children inherit
 * its event. So that is what is used wherever tracefs may be written to.
 *
 * Names are auxcap_PID:pN and go with the recording. What an auxcap that was killed left
 * behind counts nothing, and the next one removes it.
 *
 * The kernel keeps the breakpoint of a uprobe in a process as long as an event asks for that
 * process. When it switches between two tasks that inherited the same events, it exchanges
 * the events of both instead, and each then still asks for the other one's process: a child
 * that ends took away its parent's breakpoint (seen on Linux 6.1: of 300 hits in parents and
 * children up to 16 did not come, and nothing told). So each uprobe has one event more, for
 * all processes and never enabled (probes_hold), with which the breakpoint stays.
 * Specification: Documentation/trace/uprobetracer.rst and kprobetrace.rst.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/event/evlist.h"
#include "capture/event/probe.h"
#include "common/diag.h"

#define GROUP "auxcap_"

static int open_list(const char *root, bool kernel)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", root,
		 kernel ? "kprobe_events" : "uprobe_events");
	return open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

/* One line to one of the lists; 0 or errno. */
static int command(const char *root, bool kernel, const char *line)
{
	int fd = open_list(root, kernel), err;
	size_t n = strlen(line);

	if (fd < 0)
		return errno;
	err = write(fd, line, n) == (ssize_t)n ? 0 : errno;
	close(fd);
	return err;
}

static void remove_name(const char *root, bool kernel, const char *group, const char *name)
{
	char line[256];

	if (snprintf(line, sizeof(line), "-:%s/%s\n", group, name) < (int)sizeof(line))
		command(root, kernel, line);
}

static void remove_group(const char *root, const char *group)
{
	char dir[PATH_MAX];
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/events/%s", root, group);
	d = opendir(dir);
	while (d && (e = readdir(d)))
		if (e->d_name[0] == 'p') {
			remove_name(root, false, group, e->d_name);
			remove_name(root, true, group, e->d_name);
		}
	if (d)
		closedir(d);
}

/* Those that count for someone the kernel keeps. */
static void remove_stale(const char *root)
{
	char dir[PATH_MAX];
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/events", root);
	d = opendir(dir);
	while (d && (e = readdir(d))) {
		const char *pid = e->d_name + sizeof(GROUP) - 1;

		if (!strncmp(e->d_name, GROUP, sizeof(GROUP) - 1) &&
		    isdigit((unsigned char)*pid) &&
		    kill((pid_t)strtol(pid, NULL, 10), 0) && errno == ESRCH)
			remove_group(root, e->d_name);
	}
	if (d)
		closedir(d);
}

/* The path as the list takes it, which splits its lines at blanks. */
static const char *plain_path(const char *path, char buf[64], int *fd)
{
	*fd = -1;
	if (!strpbrk(path, " \t\n\\#"))
		return path;
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(buf, 64, "/proc/self/fd/%d", *fd);
	return buf;
}

static int define(const char *root, struct probe *p, size_t i)
{
	char line[PATH_MAX + 128], buf[64], semaphore[32] = "";
	char kind = probe_is_return(p) ? 'r' : 'p';
	int fd = -1, err;

	if (p->semaphore)
		snprintf(semaphore, sizeof(semaphore), "(0x%llx)",
			 (unsigned long long)p->semaphore);
	snprintf(p->event, sizeof(p->event), GROUP "%d:p%zu", (int)getpid(), i);
	if (p->kernel)
		snprintf(line, sizeof(line), "%c:" GROUP "%d/p%zu %s+%llu\n", kind,
			 (int)getpid(), i, p->where, (unsigned long long)p->offset);
	else
		snprintf(line, sizeof(line), "%c:" GROUP "%d/p%zu %s:0x%llx%s\n", kind,
			 (int)getpid(), i, plain_path(p->where, buf, &fd),
			 (unsigned long long)p->offset, semaphore);
	err = command(root, p->kernel, line);
	if (fd >= 0)
		close(fd);
	if (err)
		*p->event = '\0';
	return err;
}

static bool may_define(const char *root)
{
	int fd = root ? open_list(root, false) : -1;

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

int probes_define(struct probes *p, struct aux_diag *diag)
{
	const char *root = tracing_root();

	if (!p->n || !may_define(root))
		return 0;
	remove_stale(root);
	for (size_t i = 0; i < p->n; i++) {
		int err = define(root, &p->v[i], i);

		if (!err)
			continue;
		probes_undefine(p);
		if (err == EACCES || err == EPERM || err == EROFS)
			return 0;
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"\"%.80s\": the kernel puts no probe there (%.200s+"
				"0x%llx): %s%s", p->v[i].name, p->v[i].where,
				(unsigned long long)p->v[i].offset, strerror(err),
				p->v[i].kernel && err == ENOENT ?
				"; its functions are in /proc/kallsyms" : "");
	}
	return 0;
}

int probes_hold(struct probes *p, const struct evlist *l, int cpu)
{
	p->holds = calloc(l->n, sizeof(*p->holds));
	if (!p->holds)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < l->n; i++) {
		const struct evlist_event *ev = &l->events[i];
		struct perf_event_attr attr = {
			.size = sizeof(attr), .type = ev->attr.type,
			.config = ev->attr.config, .disabled = 1,
		};
		int fd;

		if (!ev->probe || ev->probe->kernel || !*ev->probe->event)
			continue;
		fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1,
				  (unsigned long)PERF_FLAG_FD_CLOEXEC);
		if (fd < 0)
			p->loose = true;
		else
			p->holds[p->n_holds++] = fd;
	}
	return 0;
}

static void let_go(struct probes *p)
{
	for (size_t i = 0; i < p->n_holds; i++)
		close(p->holds[i]);
	free(p->holds);
	p->holds = NULL;
	p->n_holds = 0;
}

void probes_undefine(struct probes *p)
{
	const char *root = tracing_root();
	char name[32], group[32];

	let_go(p);	/* a probe with an event cannot be removed */
	for (size_t i = 0; root && i < p->n; i++) {
		if (!*p->v[i].event)
			continue;
		snprintf(group, sizeof(group), GROUP "%d", (int)getpid());
		snprintf(name, sizeof(name), "p%zu", i);
		remove_name(root, p->v[i].kernel, group, name);
		*p->v[i].event = '\0';
	}
}
