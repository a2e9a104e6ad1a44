/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -D: a program runs at its own speed first, and is joined later, with all that it has
 * started by then.
 *
 * Until then nobody traces it. Processes whose parent ended become ours in that time
 * (a subreaper's), so that everything it started can be found below us.
 *
 * Specification: PR_SET_CHILD_SUBREAPER of prctl(2); /proc/PID/stat of proc(5).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/event/target.h"
#include "capture/soft/impl.h"
#include "common/clock.h"
#include "common/diag.h"

/* Reads what a failed exec says. 0: the program runs. */
static int started(int fd)
{
	int err = 0;
	ssize_t n;

	do
		n = read(fd, &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	close(fd);
	return n > 0 ? err : 0;
}

static int start(char *const *argv, pid_t *pid, struct aux_diag *diag)
{
	int fail[2], err;

	if (pipe2(fail, O_CLOEXEC))
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET, "cannot make a pipe: %s",
				strerror(errno));
	*pid = fork();
	if (!*pid) {
		execvp(argv[0], argv);
		err = errno;
		if (write(fail[1], &err, sizeof(err)) < 0)
			err = 0;
		_exit(127);
	}
	err = *pid < 0 ? errno : 0;
	close(fail[1]);
	if (*pid < 0)
		close(fail[0]);
	else
		err = started(fail[0]);
	return err ? diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET, "cannot run %s: %s", argv[0],
			      strerror(err)) : 0;
}

/* False: the user wants the end, or the program (0: none) has ended. */
static bool sleep_beside(unsigned ms, pid_t pid, const volatile sig_atomic_t *stop)
{
	const struct timespec step = { .tv_nsec = 1000000 };
	uint64_t until = clock_ns() + ms * UINT64_C(1000000);
	siginfo_t si = { .si_pid = 0 };

	while (clock_ns() < until) {
		if (stop && *stop)
			return false;
		if (pid && (waitid(P_PID, (id_t)pid, &si, WNOHANG | WEXITED | WNOWAIT) ||
			    si.si_pid))
			return false;
		nanosleep(&step, NULL);
	}
	return true;
}

int later_begin(const struct source_job *job, pid_t *pid, int *status, struct aux_diag *diag)
{
	int ret;

	*pid = 0;
	if (job->attach) {
		sleep_beside(job->delay_ms, 0, job->stop);
		return 0;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	ret = start(job->argv, pid, diag);
	if (ret)
		return ret;
	if (sleep_beside(job->delay_ms, *pid, job->stop))
		return 0;
	if (job->stop && *job->stop)
		kill(*pid, SIGTERM);
	while (waitpid(*pid, status, 0) < 0 && errno == EINTR)
		if (job->stop && *job->stop > 1)
			kill(*pid, SIGKILL);
	return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET, "nothing was recorded: %s ended "
			"within the %u ms of -D", job->argv[0], job->delay_ms);
}

/* ---- what runs below us ---- */

struct process {
	pid_t pid, parent;
	bool below;
};

static pid_t parent_of(pid_t pid)
{
	pid_t parent = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	target_task_state(AT_FDCWD, path, &parent);
	return parent;
}

/* All processes, or NULL. */
static struct process *list(size_t *n)
{
	struct process *v = NULL, *more;
	size_t room = 0;
	DIR *d = opendir("/proc");
	struct dirent *e;

	*n = 0;
	while (d && (e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid <= 0)
			continue;
		if (*n == room) {
			room = room * 2 + 256;
			more = realloc(v, room * sizeof(*v));
			if (!more) {
				free(v);
				v = NULL;
				break;
			}
			v = more;
		}
		v[(*n)++] = (struct process){ .pid = pid, .parent = parent_of(pid) };
	}
	if (d)
		closedir(d);
	return v;
}

static int each_thread(pid_t pid, int (*visit)(void *priv, pid_t tid), void *priv)
{
	char path[64];
	struct dirent *e;
	int ret = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && !ret && (e = readdir(d)))
		if (*e->d_name != '.')
			ret = visit(priv, (pid_t)strtol(e->d_name, NULL, 10));
	if (d)
		closedir(d);
	return ret;
}

int soft_below(int (*visit)(void *priv, pid_t tid), void *priv)
{
	struct process *v;
	bool found = true;
	int ret = 0;
	size_t n;

	v = list(&n);
	if (!v)
		return -AUX_E_NOMEM;
	while (found) {
		found = false;
		for (size_t i = 0; i < n && !ret; i++) {
			bool ours = v[i].parent == getpid();

			for (size_t k = 0; k < n && !ours; k++)
				ours = v[k].below && v[k].pid == v[i].parent;
			if (v[i].below || !ours)
				continue;
			v[i].below = found = true;
			ret = each_thread(v[i].pid, visit, priv);
		}
	}
	free(v);
	return ret;
}
