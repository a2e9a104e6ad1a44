/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that the kernel gives more rights than who executes them has: not to a process
 * that is traced, unless the tracer may trace any. Such a process is let go of before.
 *
 * Specification: execve(2), credentials(7), capabilities(7).
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "capture/soft/step.h"

static bool may_trace_any(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct c[2] = { { 0 } };

	return !syscall(SYS_capget, &h, c) &&
	       c[0].effective & 1u << CAP_SYS_PTRACE;
}

/* Then no program gives it more rights. */
static bool has_no_new_privs(pid_t tid)
{
	return step_status(tid, "NoNewPrivs", NULL) > 0;
}

/* What a system call is to execute, and from which directory. */
struct exec_call {
	int dir;
	uint64_t name_at;
	bool is_dir;		/* without a name: dir itself */
};

static bool is_exec(const struct step_thread *t, struct exec_call *c)
{
	if (step_call_number(t) == SYS_execve) {
		*c = (struct exec_call){ .dir = AT_FDCWD,
					 .name_at = step_call_arg(t, 0) };
		return true;
	}
	*c = (struct exec_call){ .dir = (int)step_call_arg(t, 0),
				 .name_at = step_call_arg(t, 1),
				 .is_dir = step_call_arg(t, 4) & AT_EMPTY_PATH };
	return step_call_number(t) == SYS_execveat;
}

/* As the process sees it: below its root, its working directory or one that it has open. */
static void path_of(const struct step_thread *t, const struct exec_call *c,
		    const char *name, char *path, size_t size)
{
	if (*name == '/')
		snprintf(path, size, "/proc/%d/root%s", t->tid, name);
	else if (c->dir == AT_FDCWD)
		snprintf(path, size, "/proc/%d/cwd/%s", t->tid, name);
	else
		snprintf(path, size, "/proc/%d/fd/%d%s%s", t->tid, c->dir,
			 *name ? "/" : "", name);
}

/* A descriptor has no name but that which the file had when it was opened. */
static void name_of(const char *path, char *name, size_t size)
{
	ssize_t n = readlink(path, name, size - 1);

	name[n > 0 ? n : 0] = '\0';
}

bool step_gains_rights(struct step_thread *t, char *name, size_t size)
{
	char path[PATH_MAX + 64];
	struct exec_call c;
	struct stat st;
	size_t n;

	if (!is_exec(t, &c) || t->proc->n_threads > 1 || may_trace_any())
		return false;
	n = step_memory_read(t->proc, c.name_at, name, size - 1);
	name[n] = '\0';
	if (strlen(name) == n || (!*name && !c.is_dir))
		return false;
	path_of(t, &c, name, path, sizeof(path));
	if (stat(path, &st) || !S_ISREG(st.st_mode) || has_no_new_privs(t->tid))
		return false;
	if (!*name)
		name_of(path, name, size);
	return (st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	       ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		st.st_gid != getegid()) ||
	       getxattr(path, "security.capability", NULL, 0) > 0;
}
