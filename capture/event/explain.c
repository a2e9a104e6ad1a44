/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why perf_event_open refused, and what mends it: first what needs no root.
 *
 * Who may what is decided by kernel.perf_event_paranoid and by capabilities,
 * never by the uid. Specification: Documentation/admin-guide/perf-security.rst,
 * kernel/events/core.c (Linux 6.1).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/event/explain.h"

#define SETCAP "sudo setcap cap_perfmon,cap_ipc_lock=ep "		\
	       "\"$(readlink -f \"$(command -v auxcap)\")\""
#define VER0 64		/* PERF_ATTR_SIZE_VER0 */

static bool may_all(const struct explain_system *sys)
{
	return sys->cap_perfmon || sys->cap_admin;
}

/* What the user is asked to do, for a paranoid level that would be enough. */
static void fix_paranoid(char *buf, size_t len, int level)
{
	snprintf(buf, len, "sudo sysctl kernel.perf_event_paranoid=%d (until "
		 "the next boot), or for auxcap alone: " SETCAP, level);
}

static int explain_level(const char *event, const struct perf_event_attr *attr,
			 int tid, const struct explain_system *sys,
			 struct aux_diag *diag)
{
	char fix[256];

	if (sys->paranoid > 2) {
		fix_paranoid(fix, sizeof(fix), 2);
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: kernel.perf_event_paranoid is %d: only "
				"those with CAP_PERFMON may use perf events. "
				"Fix: %s. Without root: -e soft_pt//u needs "
				"none of it", event, sys->paranoid, fix);
	}
	if (attr->type == PERF_TYPE_TRACEPOINT && sys->paranoid > -1) {
		fix_paranoid(fix, sizeof(fix), -1);
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: tracepoints need "
				"kernel.perf_event_paranoid -1 (it is %d) or "
				"CAP_PERFMON, and read permission below "
				"/sys/kernel/tracing. Fix: %s", event,
				sys->paranoid, fix);
	}
	if (tid == -1 && sys->paranoid > 0) {
		fix_paranoid(fix, sizeof(fix), 0);
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: whole CPUs need "
				"kernel.perf_event_paranoid 0 or less (it is "
				"%d) or CAP_PERFMON. Without root: record your "
				"own program or process, without -a, -C, -G. "
				"Fix: %s", event, sys->paranoid, fix);
	}
	if (!attr->exclude_kernel && sys->paranoid > 1) {
		fix_paranoid(fix, sizeof(fix), 1);
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: the kernel's part needs "
				"kernel.perf_event_paranoid 1 or less (it is "
				"%d) or CAP_PERFMON. Without root: the "
				"modifier u, as -e %.60s/u. Fix: %s", event,
				sys->paranoid, event, fix);
	}
	return 0;
}

static int explain_permission(const char *event,
			      const struct perf_event_attr *attr, int tid,
			      int err, const struct explain_system *sys,
			      struct aux_diag *diag)
{
	int ret = 0;

	if (!may_all(sys))
		ret = explain_level(event, attr, tid, sys, diag);
	if (ret)
		return ret;
	if (err == EACCES && tid > 0)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: thread %d may not be looked at: it "
				"belongs to another user or is not dumpable "
				"(setuid). Fix: run auxcap as that user, or "
				"sudo setcap cap_perfmon,cap_sys_ptrace=ep "
				"\"$(readlink -f \"$(command -v auxcap)\")\"",
				event, tid);
	if (sys->lockdown == 2)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: %s; the kernel is locked down "
				"(confidentiality): boot without lockdown= "
				"and Secure Boot", event, strerror(err));
	return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
			"%.60s: %s, though kernel.perf_event_paranoid is %d "
			"and this is enough: a seccomp filter (container, "
			"sandbox) or a security module refuses "
			"perf_event_open. Fix for Docker: docker run "
			"--cap-add PERFMON, or --security-opt "
			"seccomp=unconfined; podman alike", event,
			strerror(err), sys->paranoid);
}

static int explain_size(const char *event, const struct perf_event_attr *attr,
			struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"%.60s: this kernel knows only the first %u bytes of "
			"the event's attributes (perf_event_attr), and it "
			"needs later ones: leave out terms that the kernel is "
			"too old for (config3, sigtrap, aux-sample-size), or "
			"run a later kernel", event,
			attr->size < VER0 ? VER0 : attr->size);
}

static const char *why_invalid(const struct perf_event_attr *attr)
{
	if (attr->aux_output || attr->sample_type & PERF_SAMPLE_AUX)
		return "aux-output and --aux-sample need a group whose leader "
		       "has an AUX area, as '{intel_pt//,cycles}'; "
		       "aux-output also a CPU with PEBS via PT";
	if (attr->write_backward)
		return "--overwrite needs Linux 4.7 or later";
	if (attr->use_clockid)
		return "this clock cannot be used with this PMU";
	if (attr->config2 || attr->config1 || attr->config)
		return "a term's value is not legal on this CPU: auxcap list "
		       "shows format and caps of each PMU";
	return "one of its attributes is not known to this kernel; dmesg may "
	       "tell";
}

static int explain_unsupported(const char *event,
			       const struct perf_event_attr *attr, int cpu,
			       int err, struct aux_diag *diag)
{
	const char *why = "auxcap list shows what this machine has";

	if (attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_RAW ||
	    attr->type == PERF_TYPE_HW_CACHE)
		why = "this CPU has no such counter, or it is a virtual "
		      "machine without performance counters; cpu-clock and "
		      "task-clock work everywhere";
	else if (err == EINVAL)
		why = why_invalid(attr);
	else if (err == EOPNOTSUPP)
		why = "the PMU cannot do this (sampling, a privilege level, "
		      "a task where it only counts CPUs, or the other way "
		      "round)";
	else if (err == ENODEV && cpu >= 0)
		why = "the CPU is offline or not one of this PMU";
	else if (err == ENOSYS)
		why = "the kernel was built without CONFIG_PERF_EVENTS, or a "
		      "sandbox hides perf_event_open";
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET, "%.60s: %s: %s",
			event, strerror(err), why);
}

static int explain_busy(const char *event, int cpu, struct aux_diag *diag)
{
	char at[32] = "";

	if (cpu >= 0)
		snprintf(at, sizeof(at), " on CPU %d", cpu);
	return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
			"%.60s is in use%s: another recorder has it, or what "
			"excludes it (Intel PT excludes BTS and LBR without "
			"freeze; a CoreSight sink serves one session). "
			"sudo ls -l /proc/[0-9]*/fd 2>/dev/null | grep "
			"perf_event shows who; end that one first", event, at);
}

int explain_open(const char *event, const struct perf_event_attr *attr,
		 int cpu, int tid, int err, const struct explain_system *sys,
		 struct aux_diag *diag)
{
	if (!event)
		event = "event";
	switch (err) {
	case EACCES:
	case EPERM:
		return explain_permission(event, attr, tid, err, sys, diag);
	case EBUSY:
		return explain_busy(event, cpu, diag);
	case E2BIG:
		return explain_size(event, attr, diag);
	case ESRCH:
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"%.60s: thread %d has ended", event, tid);
	case EMFILE:
	case ENFILE:
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: more files than one %s may have open: "
				"each event takes one per CPU and thread. "
				"Fix: %s, or record fewer threads (-t) or "
				"CPUs (-C), or --per-thread", event,
				err == EMFILE ? "process" : "system",
				err == EMFILE ? "ulimit -Hn shows the limit; "
				"sudo prlimit --pid $$ --nofile=65536" :
				"sudo sysctl fs.file-max=1000000");
	case ENOMEM:
	case ENOSPC:
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: %s: the kernel has no room for one "
				"more of these (memory, breakpoints or "
				"counters)", event, strerror(err));
	case EBADF:
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%.60s: -G does not name a cgroup of the "
				"hierarchy that perf uses (perf_event of v1, "
				"else v2)", event);
	default:
		return explain_unsupported(event, attr, cpu, err, diag);
	}
}
