/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded into auxcap: another kernel, or another processor, by environment variables.
 *
 * REFUSE_PTRACE	no process may be traced
 * REFUSE_MEMFD		no files in memory
 * PTWRITE		the processor has it (a step over one goes past it)
 * LOSE_CONT=N		the N'th PTRACE_CONT has no effect
 * LOSE_STEP=N		the N'th PTRACE_SINGLESTEP
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

typedef long ptrace_fn(enum __ptrace_request, pid_t, void *, void *);

static ptrace_fn *real(void)
{
	ptrace_fn *fn;

	*(void **)&fn = dlsym(RTLD_NEXT, "ptrace");
	return fn;
}

/* Its size, with one byte of ModRM; 0: none. */
static unsigned ptwrite_at(pid_t pid, uint64_t ip)
{
	uint64_t bytes = (uint64_t)real()(PTRACE_PEEKTEXT, pid, (void *)ip, NULL);
	unsigned char b[8];
	unsigned rex;

	memcpy(b, &bytes, sizeof(b));
	rex = (b[1] & 0xf0) == 0x40;
	return b[0] == 0xf3 && b[1 + rex] == 0x0f && b[2 + rex] == 0xae &&
			       (b[3 + rex] & 0x38) == 0x20 ? 4 + rex : 0;
}

static bool step_ptwrite(pid_t pid)
{
	struct user_regs_struct r;
	unsigned size;

	if (real()(PTRACE_GETREGS, pid, NULL, &r))
		return false;
	size = ptwrite_at(pid, r.rip);
	if (!size)
		return false;
	r.rip += size;
	real()(PTRACE_SETREGS, pid, NULL, &r);
	syscall(SYS_tgkill, pid, pid, SIGTRAP);
	real()(PTRACE_CONT, pid, NULL, NULL);
	return true;
}

static bool lose(const char *name, unsigned *count)
{
	const char *n = getenv(name);

	return n && ++*count == strtoul(n, NULL, 10);
}

long ptrace(enum __ptrace_request what, ...)
{
	static unsigned conts, steps;
	va_list ap;
	pid_t pid;
	void *addr, *data;

	va_start(ap, what);
	pid = va_arg(ap, pid_t);
	addr = va_arg(ap, void *);
	data = va_arg(ap, void *);
	va_end(ap);
	if (what == PTRACE_SEIZE && getenv("REFUSE_PTRACE")) {
		errno = EPERM;
		return -1;
	}
	if ((what == PTRACE_CONT && lose("LOSE_CONT", &conts)) ||
	    (what == PTRACE_SINGLESTEP && lose("LOSE_STEP", &steps)))
		return 0;
	if (what == PTRACE_SINGLESTEP && getenv("PTWRITE") && step_ptwrite(pid))
		return 0;
	return real()(what, pid, addr, data);
}

int memfd_create(const char *name, unsigned flags)
{
	if (!getenv("REFUSE_MEMFD"))
		return (int)syscall(SYS_memfd_create, name, flags);
	errno = EACCES;
	return -1;
}
