/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that the kernel gives more rights than who executes them has: not to a process
 * that is traced, unless the tracer may trace any. Such a process is let go of before.
 *
 * Specification: execve(2), credentials(7), capabilities(7).
 */
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

/* As the process sees it: below its root, or its working directory. */
static void path_of(const struct step_thread *t, const char *name, char *path,
		    size_t size)
{
	snprintf(path, size, "/proc/%d/%s%s%s", t->tid, *name == '/' ? "root" : "cwd",
		 *name == '/' ? "" : "/", name);
}

bool step_gains_rights(struct step_thread *t, char *name, size_t size)
{
	const struct user_regs_struct *r = &t->regs;
	char path[PATH_MAX + 64];
	struct stat st;
	size_t n;

	if (r->rax != SYS_execve || t->proc->n_threads > 1 || may_trace_any())
		return false;
	n = step_memory_read(t->proc, r->rdi, name, size - 1);
	name[n] = '\0';
	path_of(t, name, path, sizeof(path));
	if (strlen(name) == n || !*name || stat(path, &st) ||
	    !S_ISREG(st.st_mode) || has_no_new_privs(t->tid))
		return false;
	return (st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	       ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		st.st_gid != getegid()) ||
	       getxattr(path, "security.capability", NULL, 0) > 0;
}
