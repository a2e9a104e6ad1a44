/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor: the kernel, who may use its perf events, and how much memory they may
 * take.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/cmd/doctor.h"

#define VERSION(a, b) ((a) * 1000 + (b))
#define PERFMON_FIX							\
	"sudo setcap cap_perfmon,cap_ipc_lock,cap_sys_ptrace=ep "		\
	"\"$(readlink -f \"$(command -v auxcap)\")\""

static long version_of(const char *release)
{
	char *end;
	long major = strtol(release, &end, 10);
	long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

	return VERSION(major, minor);
}

static void check_kernel(struct doctor *d)
{
	/* table */
	static const struct {
		long since;
		const char *what;
	} features[] = {
		{ VERSION(4, 7), "--overwrite (4.7)" },
		{ VERSION(5, 4), "aux-output (5.4)" },
		{ VERSION(5, 5), "--aux-sample (5.5)" },
		{ VERSION(5, 8), "CAP_PERFMON (5.8; CAP_SYS_ADMIN instead)" },
		{ VERSION(6, 13), "aux-action pause/resume (6.13)" },
	};
	long v = version_of(d->env->release);
	char lacks[256] = "";
	size_t i, used = 0;

	if (v < VERSION(4, 1)) {
		doctor_say(d, DOCTOR_NO, "kernel", "install Linux 4.1 or later",
			   "Linux %s has no AUX area", d->env->release);
		return;
	}
	for (i = 0; i < sizeof(features) / sizeof(*features); i++)
		if (v < features[i].since && used < sizeof(lacks))
			used += (size_t)snprintf(lacks + used,
						 sizeof(lacks) - used, "%s%s",
						 used ? ", " : "; it lacks ",
						 features[i].what);
	doctor_say(d, DOCTOR_OK, "kernel", "", "Linux %s%s", d->env->release,
		   lacks);
	if (v >= VERSION(6, 1) && v <= VERSION(6, 12))
		doctor_say(d, DOCTOR_OK, "kernel-bugs", "",
			   "after an overrun such a kernel (seen with 6.1 and "
			   "6.12) leaves a CPU silent when its event is only "
			   "enabled again; auxcap disables it first");
}

static void check_open(struct doctor *d)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY, .exclude_kernel = 1,
		.exclude_hv = 1, .disabled = 1,
	};
	int fd = d->env->open(&attr, 0, -1);
	struct aux_diag diag = { 0 };

	d->may_open = fd >= 0;
	if (fd >= 0) {
		d->env->close(fd);
		doctor_say(d, DOCTOR_OK, "perf-events", "",
			   "perf_event_open works: software events such as "
			   "cpu-clock can be recorded");
		return;
	}
	explain_open("software events", &attr, -1, 0, -fd, &d->sys, &diag);
	doctor_say(d, DOCTOR_NO, "perf-events", "", "%s", diag.text);
}

static void check_paranoid(struct doctor *d)
{
	const struct explain_system *s = &d->sys;
	bool may_all = s->cap_perfmon || s->cap_admin;

	if (!doctor_exists(d->env->proc, "sys/kernel/perf_event_paranoid"))
		doctor_say(d, DOCTOR_NO, "permission",
			   "a kernel with CONFIG_PERF_EVENTS; in a sandbox "
			   "such as gVisor there is none",
			   "no /proc/sys/kernel/perf_event_paranoid: this "
			   "kernel has no perf events");
	else if (may_all)
		doctor_say(d, DOCTOR_OK, "permission", "",
			   "%s: everything may be recorded "
			   "(kernel.perf_event_paranoid %d does not matter)",
			   s->cap_perfmon ? "CAP_PERFMON" : "CAP_SYS_ADMIN",
			   s->paranoid);
	else if (s->paranoid > 2)
		doctor_say(d, DOCTOR_NO, "permission",
			   "sudo sysctl kernel.perf_event_paranoid=2 (until "
			   "the next boot), or " PERFMON_FIX,
			   "kernel.perf_event_paranoid is %d: no perf events "
			   "without CAP_PERFMON; soft_pt needs none",
			   s->paranoid);
	else if (s->paranoid == 2)
		doctor_say(d, DOCTOR_LIMITED, "permission",
			   "sudo sysctl kernel.perf_event_paranoid=-1, or "
			   PERFMON_FIX,
			   "kernel.perf_event_paranoid is 2: your own "
			   "processes, user space only (modifier u); no -a, "
			   "-C, -G");
	else if (s->paranoid == 1)
		doctor_say(d, DOCTOR_LIMITED, "permission",
			   "sudo sysctl kernel.perf_event_paranoid=-1, or "
			   PERFMON_FIX,
			   "kernel.perf_event_paranoid is 1: your own "
			   "processes and the kernel under them; no -a, -C, "
			   "-G");
	else
		doctor_say(d, DOCTOR_OK, "permission", "",
			   "kernel.perf_event_paranoid is %d: all CPUs and "
			   "the kernel%s", s->paranoid, s->paranoid ? "" :
			   ", but no tracepoints (-1 allows them)");
}

static void check_memory(struct doctor *d)
{
	const struct explain_system *s = &d->sys;
	int64_t budget = explain_budget(s);
	struct explain_fit fit = {
		.data_pages = EXPLAIN_DATA_BYTES / (size_t)s->page_size,
		.aux_pages = EXPLAIN_AUX_BYTES / (size_t)s->page_size,
	};
	struct aux_diag diag = { 0 };
	size_t n = (size_t)s->n_cpus;
	char limit[128] = "no limit", fix[128] = "";

	if (budget != INT64_MAX) {
		snprintf(limit, sizeof(limit), "%" PRId64 " KB may be locked "
			 "(perf_event_mlock_kb %ld per CPU, ulimit -l %" PRId64
			 " KB)", budget / 1024, s->mlock_kb,
			 s->rlimit_memlock / 1024);
		snprintf(fix, sizeof(fix), "sudo sysctl "
			 "kernel.perf_event_mlock_kb=%d, or CAP_IPC_LOCK",
			 (EXPLAIN_AUX_BYTES + EXPLAIN_DATA_BYTES) / 1024 + 64);
	}
	if (explain_fit(&fit, n, n, s, &diag))
		doctor_say(d, DOCTOR_NO, "memory", fix, "%s", diag.text);
	else
		doctor_say(d, fit.text[0] && budget != INT64_MAX ?
			   DOCTOR_LIMITED : DOCTOR_OK, "memory",
			   fit.text[0] ? fix : "",
			   "%s: on %d CPUs an AUX area of %zu KB and a ring "
			   "of %zu KB each (-m DATA,AUX chooses)", limit,
			   s->n_cpus,
			   fit.aux_pages * (size_t)s->page_size / 1024,
			   fit.data_pages * (size_t)s->page_size / 1024);
}

static void check_lockdown(struct doctor *d)
{
	if (d->sys.lockdown == 2)
		doctor_say(d, DOCTOR_LIMITED, "lockdown",
			   "boot without lockdown=confidentiality (or without "
			   "Secure Boot)",
			   "confidentiality: no registers in kernel samples, "
			   "no /proc/kcore: kernel code cannot be saved");
	else
		doctor_say(d, DOCTOR_OK, "lockdown", "", "%s",
			   d->sys.lockdown == 1 ?
			   "integrity: does not touch recording" : "none");
}

static void check_machine(struct doctor *d)
{
	char type[64] = "";

	doctor_read(d->env->sys, "hypervisor/type", type, sizeof(type));
	if (!d->virtual)
		doctor_say(d, DOCTOR_OK, "machine", "", "no hypervisor seen");
	else
		doctor_say(d, DOCTOR_LIMITED, "machine", "",
			   "virtual machine%s%s: trace hardware is there "
			   "only when the host hands it in", type[0] ? ": " :
			   "", type);
}

static void check_sandbox(struct doctor *d)
{
	char status[8192];
	const char *p;

	if (!doctor_read(d->env->proc, "self/status", status, sizeof(status)))
		return;
	p = strstr(status, "\nSeccomp:");
	if (!p || strtol(p + 9, NULL, 10) != 2)
		return;
	if (d->may_open)
		doctor_say(d, DOCTOR_OK, "sandbox", "",
			   "a seccomp filter is active; it lets "
			   "perf_event_open pass");
	else
		doctor_say(d, DOCTOR_LIMITED, "sandbox",
			   "docker run --cap-add PERFMON, or --security-opt "
			   "seccomp=unconfined",
			   "a seccomp filter is active (container?) and "
			   "perf_event_open is refused");
}

void doctor_check_system(struct doctor *d)
{
	check_kernel(d);
	check_machine(d);
	check_open(d);
	check_paranoid(d);
	check_sandbox(d);
	check_memory(d);
	check_lockdown(d);
}
