/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the system lets us do, read once from /proc and /sys. A file that cannot
 * be read leaves -1, or what is usual where a value is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "capture/event/explain.h"

#define PARANOID_DEFAULT 2	/* where it cannot be read; -1 is a level */

/* linux/capability.h */
enum { CAP_IPC_LOCK_BIT = 14, CAP_PTRACE_BIT = 19, CAP_ADMIN_BIT = 21,
       CAP_RESOURCE_BIT = 24, CAP_SYSLOG_BIT = 34, CAP_PERFMON_BIT = 38,
       CAP_BPF_BIT = 39 };

static bool read_text(const char *root, const char *file, char *buf, size_t len)
{
	char path[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, len - 1);
	close(fd);
	if (n < 0)
		return false;
	buf[n] = '\0';
	return true;
}

static long read_long(const char *root, const char *file, long dflt)
{
	char buf[64], *end;
	long v;

	if (!read_text(root, file, buf, sizeof(buf)))
		return dflt;
	v = strtol(buf, &end, 10);
	return end == buf ? dflt : v;
}

static uint64_t read_field(const char *text, const char *name, int base)
{
	const char *p = strstr(text, name);

	return p ? strtoull(p + strlen(name), NULL, base) : 0;
}

static void read_caps(struct explain_system *sys, const char *proc)
{
	char buf[8192];
	uint64_t caps;

	if (!read_text(proc, "self/status", buf, sizeof(buf)))
		return;
	caps = read_field(buf, "\nCapEff:", 16);
	sys->cap_ipc_lock = caps >> CAP_IPC_LOCK_BIT & 1;
	sys->cap_ptrace = caps >> CAP_PTRACE_BIT & 1;
	sys->cap_admin = caps >> CAP_ADMIN_BIT & 1;
	sys->cap_resource = caps >> CAP_RESOURCE_BIT & 1;
	sys->cap_syslog = caps >> CAP_SYSLOG_BIT & 1;
	sys->cap_perfmon = caps >> CAP_PERFMON_BIT & 1;
	sys->cap_bpf = caps >> CAP_BPF_BIT & 1;
}

/* "none [integrity] confidentiality" */
static int read_lockdown(const char *sysfs)
{
	char buf[128];

	if (!read_text(sysfs, "kernel/security/lockdown", buf, sizeof(buf)))
		return -1;
	if (strstr(buf, "[confidentiality]"))
		return 2;
	return strstr(buf, "[integrity]") != NULL;
}

/* "0-3,8" */
static int count_cpus(const char *sysfs)
{
	char buf[1024], *p = buf;
	long first, last;
	int n = 0;

	if (!read_text(sysfs, "devices/system/cpu/online", buf, sizeof(buf)))
		return (int)sysconf(_SC_NPROCESSORS_ONLN);
	while (*p >= '0' && *p <= '9') {
		first = last = strtol(p, &p, 10);
		if (*p == '-')
			last = strtol(p + 1, &p, 10);
		n += last >= first ? (int)(last - first) + 1 : 0;
		if (*p == ',')
			p++;
	}
	return n ? n : 1;
}

static int64_t limit_bytes(rlim_t v)
{
	return v == RLIM_INFINITY || v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static void read_limits(struct explain_system *sys)
{
	struct rlimit r = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &r);
	sys->rlimit_memlock = limit_bytes(r.rlim_cur);
	sys->rlimit_memlock_hard = limit_bytes(r.rlim_max);
}

void explain_system_at(struct explain_system *sys, const char *proc,
		       const char *sysfs)
{
	char buf[4096];

	memset(sys, 0, sizeof(*sys));
	sys->paranoid = (int)read_long(proc, "sys/kernel/perf_event_paranoid",
				       PARANOID_DEFAULT);
	sys->mlock_kb = read_long(proc, "sys/kernel/perf_event_mlock_kb", -1);
	sys->kptr_restrict = (int)read_long(proc, "sys/kernel/kptr_restrict",
					    -1);
	sys->lockdown = read_lockdown(sysfs);
	sys->n_cpus = count_cpus(sysfs);
	sys->page_size = sysconf(_SC_PAGESIZE);
	if (read_text(proc, "meminfo", buf, sizeof(buf)))
		sys->mem_available =
			(int64_t)read_field(buf, "\nMemAvailable:", 10) * 1024;
	read_caps(sys, proc);
	read_limits(sys);
}

void explain_system(struct explain_system *sys)
{
	explain_system_at(sys, "/proc", "/sys");
}
