/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor: the software source, and what a recording and its decoding need
 * besides: the kernel's code and names, tracepoints, room on the disk.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "capture/cmd/doctor.h"

#define FEW_BYTES (UINT64_C(1) << 30)

static bool find_program(const char *path, const char *name)
{
	char file[4096];
	size_t n;

	for (; path; path += n + 1) {
		n = strcspn(path, ":");
		snprintf(file, sizeof(file), "%.*s%s%s", (int)n, path,
			 n ? "/" : "", name);
		if (!access(file, X_OK))
			return true;
		if (!path[n])
			return false;
	}
	return false;
}

static bool check_emulate(struct doctor *d)
{
	bool qemu = find_program(d->env->path, "qemu-x86_64");

	if (qemu && d->env->helper) {
		doctor_say(d, DOCTOR_OK, "soft_pt", "",
			   "qemu-x86_64 is there: -e soft_pt//u works without "
			   "trace hardware and without permission");
		return true;
	}
	doctor_say(d, DOCTOR_LIMITED, "soft_pt", qemu ?
		   "install auxkit whole: make install, or run auxcap where "
		   "it was built" :
		   "sudo apt install qemu-user (Debian, Ubuntu), sudo dnf "
		   "install qemu-user (Fedora)",
		   "%s: no emulation, only soft_pt/step/u, which is slower",
		   qemu ? "auxkit-qemu.so is missing" :
		   "qemu-x86_64 is not installed");
	return false;
}

/* PTRACE_SEIZE on our own child: yama allows it up to level 1. */
static bool check_step(struct doctor *d)
{
	char buf[32];
	long scope = 0;

	if (doctor_read(d->env->proc, "sys/kernel/yama/ptrace_scope", buf,
			sizeof(buf)))
		scope = strtol(buf, NULL, 10);
	if (scope < 2 || (scope == 2 && d->sys.cap_ptrace)) {
		doctor_say(d, DOCTOR_OK, "soft_pt-step", "",
			   "ptrace is allowed: -e soft_pt/step/u works");
		return true;
	}
	doctor_say(d, DOCTOR_NO, "soft_pt-step", scope == 3 ?
		   "kernel.yama.ptrace_scope 3 stays until the next boot" :
		   "sudo sysctl kernel.yama.ptrace_scope=1",
		   "kernel.yama.ptrace_scope is %ld: no process may be "
		   "traced, which soft_pt/step needs", scope);
	return false;
}

void doctor_check_soft(struct doctor *d)
{
	bool emulate, step;

	if (strcmp(d->env->machine, "x86_64")) {
		doctor_say(d, DOCTOR_NO, "soft_pt", "",
			   "soft_pt follows x86-64 programs on x86-64; this "
			   "is %s", d->env->machine);
		doctor_missing(d, "soft_pt: not on %s", d->env->machine);
		return;
	}
	emulate = check_emulate(d);
	step = check_step(d);
	if (emulate)
		doctor_works(d, "-e soft_pt//u");
	if (step)
		doctor_works(d, "-e soft_pt/step/u");
	if (!emulate && !step)
		doctor_missing(d, "soft_pt: neither qemu-x86_64 nor ptrace");
}

static void check_tracefs(struct doctor *d)
{
	static const char *const places[] = {
		"kernel/tracing/events", "kernel/debug/tracing/events",
	};
	char path[1024];
	size_t i;

	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", d->env->sys, places[i]);
		if (!access(path, R_OK | X_OK)) {
			doctor_say(d, DOCTOR_OK, "tracepoints", "", "%s can be "
				   "read", path);
			return;
		}
	}
	if (doctor_exists(d->env->sys, "kernel/tracing"))
		doctor_say(d, DOCTOR_LIMITED, "tracepoints",
			   "sudo mount -t tracefs tracefs /sys/kernel/tracing; "
			   "for one user: sudo mount -o remount,gid=$(id -g),"
			   "mode=750 /sys/kernel/tracing",
			   "/sys/kernel/tracing is not mounted or not "
			   "readable: no -e SUBSYSTEM:NAME");
	else
		doctor_say(d, DOCTOR_LIMITED, "tracepoints",
			   "a kernel with CONFIG_FTRACE, CONFIG_EVENT_TRACING",
			   "this kernel has no tracefs: no -e SUBSYSTEM:NAME");
}

/* Addresses are shown as zeros to those who may not see them. */
static void check_kallsyms(struct doctor *d)
{
	char buf[8192], *p;
	bool seen = false;

	doctor_read(d->env->proc, "kallsyms", buf, sizeof(buf));
	for (p = buf; *p && !seen; p += strcspn(p, "\n"), p += *p == '\n')
		seen = strtoull(p, NULL, 16) != 0;
	if (seen)
		doctor_say(d, DOCTOR_OK, "kernel-names", "",
			   "/proc/kallsyms shows addresses");
	else
		doctor_say(d, DOCTOR_LIMITED, "kernel-names",
			   "sudo sysctl kernel.kptr_restrict=0 "
			   "kernel.perf_event_paranoid=1, or sudo setcap "
			   "cap_perfmon,cap_syslog=ep \"$(readlink -f "
			   "\"$(command -v auxcap)\")\"",
			   "/proc/kallsyms shows no addresses "
			   "(kernel.kptr_restrict %d): functions of the "
			   "kernel stay nameless", d->sys.kptr_restrict);
}

static void check_kcore(struct doctor *d)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/kcore", d->env->proc);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		doctor_say(d, DOCTOR_OK, "kernel-code", "",
			   "/proc/kcore can be read: the kernel's and BPF "
			   "code can be saved");
		return;
	}
	doctor_say(d, DOCTOR_LIMITED, "kernel-code",
		   access(path, F_OK) ? "a kernel with CONFIG_PROC_KCORE" :
		   "sudo auxcap, for recordings of the kernel",
		   "/proc/kcore %s: the kernel's part of a trace cannot be "
		   "decoded; user space is not touched",
		   access(path, F_OK) ? "is not there" : "cannot be read");
}

static void check_disk(struct doctor *d)
{
	struct statvfs v;
	uint64_t bytes;

	if (statvfs(d->env->cwd, &v))
		return;
	bytes = (uint64_t)v.f_bavail * v.f_frsize;
	doctor_say(d, bytes < FEW_BYTES ? DOCTOR_LIMITED : DOCTOR_OK, "disk",
		   bytes < FEW_BYTES ? "-o on another file system, --max-size, "
		   "or -S for snapshots" : "",
		   "%" PRIu64 " MB free here; hardware trace is some 100 MB a "
		   "second and CPU", bytes >> 20);
}

static void check_debuginfod(struct doctor *d)
{
	bool set = d->env->debuginfod && d->env->debuginfod[0];

	doctor_say(d, DOCTOR_OK, "debuginfod", "", "%s", set ?
		   "DEBUGINFOD_URLS is set: debug information can be fetched" :
		   "DEBUGINFOD_URLS is not set: only debug information that "
		   "is installed is found");
}

void doctor_check_code(struct doctor *d)
{
	check_tracefs(d);
	check_kallsyms(d);
	check_kcore(d);
	check_debuginfod(d);
	check_disk(d);
}
