/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a program can be run natively here: what it needs is tried on a child of our own,
 * before there is a program.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/soft/soft.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10
#endif

/* A number of a file of /proc/sys; -1: there is none. */
static int read_setting(const char *path)
{
	int value = -1;
	FILE *f = fopen(path, "re");

	if (f && fscanf(f, "%d", &value) != 1)
		value = -1;
	if (f)
		fclose(f);
	return value;
}

/* 0, or why a child of ours cannot be traced. */
static int try_ptrace(void)
{
	int err = 0;
	pid_t pid = fork();

	if (pid < 0)
		return errno;
	if (!pid) {
		pause();
		_exit(0);
	}
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL))
		err = errno;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	return err;
}

/* 0, or why the memory of such a file cannot be run. */
static int try_code(void)
{
	void *mem = MAP_FAILED;
	int fd, err;

	fd = memfd_create("auxcap", MFD_CLOEXEC | MFD_EXEC);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("auxcap", MFD_CLOEXEC);
	if (fd < 0)
		return errno;
	if (!ftruncate(fd, 4096))
		mem = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	err = errno;
	close(fd);
	if (mem == MAP_FAILED)
		return err;
	munmap(mem, 4096);
	return 0;
}

static void explain_ptrace(int err, struct soft_native *n)
{
	int scope = read_setting("/proc/sys/kernel/yama/ptrace_scope");

	if (scope < 2) {
		snprintf(n->why, sizeof(n->why), "ptrace is refused here (%s)",
			 strerror(err));
		snprintf(n->fix, sizeof(n->fix), "allow it: a container may need "
			 "--cap-add SYS_PTRACE, or a seccomp profile that has ptrace");
		return;
	}
	snprintf(n->why, sizeof(n->why), "kernel.yama.ptrace_scope is %d: no process "
		 "may be traced", scope);
	snprintf(n->fix, sizeof(n->fix), "%s", scope == 2 ?
		 "sudo sysctl kernel.yama.ptrace_scope=1" :
		 "kernel.yama.ptrace_scope 3 stays until the next boot");
}

void soft_find_native(struct soft_native *n)
{
	int err;

	*n = (struct soft_native){ 0 };
	if (access("/proc/self/maps", R_OK)) {
		snprintf(n->why, sizeof(n->why), "/proc is not mounted, and a program's code is "
			 "read through it");
		snprintf(n->fix, sizeof(n->fix), "mount -t proc proc /proc");
		return;
	}
	err = try_ptrace();
	n->traces = !err;
	if (err) {
		explain_ptrace(err, n);
		return;
	}
	err = try_code();
	n->runs = !err;
	if (!err)
		return;
	snprintf(n->why, sizeof(n->why), "code in memory files may not be run here (%s)",
		 strerror(err));
	snprintf(n->fix, sizeof(n->fix), "%s",
		 read_setting("/proc/sys/vm/memfd_noexec") == 2 ?
		 "sudo sysctl vm.memfd_noexec=1" :
		 "the policy that forbids it, as of SELinux, has to let auxcap do so");
}
