/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * explain: error messages and the sizes that they propose; and that our count of locked
 * memory equals the kernel's: an unprivileged child uses up the budget to the page, and the
 * next page is refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/event/evlist.h"
#include "capture/event/explain.h"
#include "tests/unit/tap.h"

#define UID_OTHER 54321

static const struct explain_system plain = {
	.paranoid = 2, .mlock_kb = 516, .rlimit_memlock = 8 << 20,
	.n_cpus = 4, .page_size = 4096, .mem_available = INT64_C(8) << 30,
};

static void test_open(void)
{
	enum { KERNEL = 1, TRACEPOINT = 2, PERFMON = 4, HARDWARE = 8 };
	/* table */
	static const struct {
		int paranoid, tid, err, flags, code;
		const char *words[3];
	} cases[] = {
		{ 3, 0, EACCES, 0, AUX_E_LIMIT,
		  { "perf_event_paranoid is 3", "setcap", "soft_pt" } },
		{ 4, 0, EACCES, 0, AUX_E_LIMIT,
		  { "paranoid is 4", "paranoid=2", "soft_pt" } },
		{ 2, 0, EACCES, KERNEL, AUX_E_LIMIT,
		  { "modifier u", "paranoid=1", "CAP_PERFMON" } },
		{ 2, -1, EACCES, 0, AUX_E_LIMIT,
		  { "whole CPUs", "paranoid=0", "without -a" } },
		{ 1, -1, EACCES, KERNEL, AUX_E_LIMIT,
		  { "whole CPUs", "paranoid=0", "it is 1" } },
		{ 2, 0, EPERM, TRACEPOINT | KERNEL, AUX_E_LIMIT,
		  { "tracepoints", "paranoid=-1", "tracing" } },
		{ 2, 77, EACCES, 0, AUX_E_LIMIT,
		  { "thread 77", "another user", "cap_sys_ptrace" } },
		{ 3, 0, EPERM, PERFMON, AUX_E_LIMIT,
		  { "seccomp", "--cap-add PERFMON", "podman" } },
		{ 1, 0, EPERM, 0, AUX_E_LIMIT,
		  { "seccomp", "is 1", "Docker" } },
		{ 1, 0, EBUSY, 0, AUX_E_LIMIT,
		  { "in use on CPU 3", "perf_event", "LBR" } },
		{ 1, 0, EMFILE, 0, AUX_E_LIMIT,
		  { "nofile", "--per-thread", "-t" } },
		{ 1, 0, ENOENT, HARDWARE, AUX_E_UNSUPPORTED,
		  { "virtual machine", "cpu-clock", "counter" } },
		{ 1, 0, ENOENT, 0, AUX_E_UNSUPPORTED,
		  { "auxcap list", "No such file", "ev:" } },
		{ 1, 0, EOPNOTSUPP, 0, AUX_E_UNSUPPORTED,
		  { "sampling", "privilege", "task" } },
		{ 1, 0, EINVAL, 0, AUX_E_UNSUPPORTED,
		  { "not legal", "auxcap list", "caps" } },
		{ 1, 0, E2BIG, 0, AUX_E_UNSUPPORTED,
		  { "112 bytes", "config3", "later kernel" } },
		{ 1, 0, ENOSYS, 0, AUX_E_UNSUPPORTED,
		  { "CONFIG_PERF_EVENTS", "sandbox", "ev:" } },
		{ 1, 9, ESRCH, 0, AUX_E_TARGET, { "9", "ended", "thread" } },
	};
	size_t i, k;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct explain_system sys = plain;
		struct perf_event_attr attr = {
			.type = 9, .config = 1, .size = 112,
			.exclude_kernel = !(cases[i].flags & KERNEL),
		};
		struct aux_diag diag = { 0 };
		bool good;

		if (cases[i].flags & TRACEPOINT)
			attr.type = PERF_TYPE_TRACEPOINT;
		if (cases[i].flags & HARDWARE)
			attr.type = PERF_TYPE_HARDWARE;
		sys.paranoid = cases[i].paranoid;
		sys.cap_perfmon = cases[i].flags & PERFMON;
		good = explain_open("ev", &attr, 3, cases[i].tid,
				    cases[i].err, &sys, &diag) ==
			       -cases[i].code && diag.code == cases[i].code;
		for (k = 0; k < 3; k++)
			good = good && strstr(diag.text, cases[i].words[k]);
		good = good && strlen(diag.text) < sizeof(diag.text) - 1;
		ok(good, "%s", diag.text);
	}
}

/* Advice that can be typed as it stands. */
static void test_advice(void)
{
	static const struct {
		const char *event, *advice;
	} events[] = {
		{ "intel_pt//k", "-e intel_pt//u. Fix" },
		{ "intel_pt//", "-e intel_pt//u. Fix" },
		{ "cycles:k", "-e cycles:u. Fix" },
		{ "cycles", "-e cycles:u. Fix" },
	};
	struct perf_event_attr attr = { .type = 9, .size = 136 };
	struct explain_system sys = plain;
	struct aux_diag diag = { 0 };
	uint32_t pause = EVLIST_PAUSE;
	size_t i;

	for (i = 0; i < sizeof(events) / sizeof(*events); i++) {
		explain_open(events[i].event, &attr, 0, 0, EACCES, &sys, &diag);
		ok(strstr(diag.text, events[i].advice) != NULL, "%s", diag.text);
	}
	memcpy((char *)&attr + offsetof(struct perf_event_attr, sig_data) - 4,
	       &pause, sizeof(pause));
	explain_open("cycles/aux-action=pause/", &attr, 0, 0, EINVAL, &sys,
		     &diag);
	ok(strstr(diag.text, "Linux 6.13") != NULL, "%s", diag.text);
	explain_open("intel_pt//", &attr, 0, 0, EOPNOTSUPP, &sys, &diag);
	ok(strstr(diag.text, "a PMU that can pause") != NULL, "%s", diag.text);
	explain_open("ev", &attr, 0, 0, EBADF, &sys, &diag);
	ok(strstr(diag.text, "cgroup.subtree_control") &&
	   strstr(diag.text, "there") &&
	   strlen(diag.text) < sizeof(diag.text) - 1, "%s", diag.text);
}

static void test_mmap(void)
{
	struct aux_diag diag = { 0 };

	ok(explain_mmap("pt", true, 4 << 20, EPERM, &plain, &diag) ==
	   -AUX_E_LIMIT && strstr(diag.text, "perf_event_mlock_kb=4612") &&
	   strstr(diag.text, "Without root") && strstr(diag.text, "-m"),
	   "%s", diag.text);
	ok(explain_mmap("pt", true, 4 << 20, ENOMEM, &plain, &diag) ==
	   -AUX_E_LIMIT && strstr(diag.text, "smaller"), "%s", diag.text);
	ok(explain_mmap("pt", true, 4096, EOPNOTSUPP, &plain, &diag) ==
	   -AUX_E_UNSUPPORTED && strstr(diag.text, "no AUX area"), "%s",
	   diag.text);
}

static void test_budget(void)
{
	struct explain_system sys = plain;

	is_u64(explain_budget(&sys), 4 * 516 * 1024 + (8 << 20),
	       "per CPU once, the rlimit once");
	sys.page_size = 65536;
	is_u64(explain_budget(&sys), 4 * 8 * 65536 + (8 << 20),
	       "whole pages of 64 KB");
	sys = plain;
	sys.paranoid = -1;
	ok(explain_budget(&sys) == INT64_MAX, "paranoid -1 lifts it");
	sys = plain;
	sys.cap_ipc_lock = true;
	ok(explain_budget(&sys) == INT64_MAX, "CAP_IPC_LOCK lifts it");
	sys = plain;
	sys.rlimit_memlock = INT64_MAX;
	ok(explain_budget(&sys) == INT64_MAX, "no rlimit, no limit");
}

static void test_fit(void)
{
	/* table */
	static const struct {
		long kb, rlimit_kb;
		int cpus;
		size_t n_rings, n_aux, data, aux;
		bool data_fixed, aux_fixed;
		size_t want_data, want_aux;	/* 0, 0: no fit */
	} cases[] = {
		/* Room for all. */
		{ 20000, 0, 4, 4, 4, 128, 4096, 0, 0, 128, 4096 },
		/* Debian's defaults: AUX gives way. */
		{ 516, 8192, 4, 4, 4, 128, 4096, 0, 0, 128, 512 },
		{ 516, 8192, 64, 64, 64, 128, 4096, 0, 0, 128, 32 },
		/* 64 KB of rlimit: data as well, what is left goes to AUX. */
		{ 516, 64, 2, 2, 2, 128, 4096, 0, 0, 64, 64 },
		{ 516, 64, 1, 1, 1, 128, 4096, 0, 0, 128, 16 },
		/* The user's sizes stay. */
		{ 516, 8192, 4, 4, 4, 128, 512, 0, 1, 128, 512 },
		{ 516, 8192, 4, 4, 4, 256, 4096, 1, 0, 256, 256 },
		{ 516, 8192, 4, 4, 4, 128, 1024, 0, 1, 0, 0 },
		{ 516, 8192, 4, 4, 4, 1024, 1024, 1, 1, 0, 0 },
		/* No AUX. */
		{ 516, 64, 2, 2, 0, 512, 4096, 0, 0, 128, 4096 },
		/* More threads than pages. */
		{ 8, 0, 1, 1, 1, 128, 4096, 0, 0, 0, 0 },
		{ 12, 0, 1, 1, 1, 128, 4096, 0, 0, 1, 1 },
		{ 516, 64, 2, 300, 300, 128, 4096, 0, 0, 0, 0 },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct explain_system sys = plain;
		struct explain_fit f = {
			.data_pages = cases[i].data,
			.aux_pages = cases[i].aux,
			.data_fixed = cases[i].data_fixed,
			.aux_fixed = cases[i].aux_fixed,
		};
		struct aux_diag diag = { 0 };
		bool fits = cases[i].want_data, same;
		int ret;

		sys.mlock_kb = cases[i].kb;
		sys.rlimit_memlock = cases[i].rlimit_kb * 1024;
		sys.n_cpus = cases[i].cpus;
		ret = explain_fit(&f, cases[i].n_rings, cases[i].n_aux, &sys,
				  &diag);
		same = f.data_pages == cases[i].data &&
		       (f.aux_pages == cases[i].aux || !cases[i].n_aux);
		ok(ret == (fits ? 0 : -AUX_E_LIMIT) &&
		   (!fits || (f.data_pages == cases[i].want_data &&
			      f.aux_pages == cases[i].want_aux &&
			      same == !f.text[0])) &&
		   (fits || strstr(diag.text, "-m DATA,AUX")),
		   "fit %zu: %zu,%zu %s%s", i, f.data_pages, f.aux_pages,
		   f.text, diag.text);
	}
}

static void test_fit_memory(void)
{
	struct explain_system sys = plain;
	struct explain_fit f = { .data_pages = 128, .aux_pages = 4096 };

	sys.cap_ipc_lock = true;
	sys.mem_available = 64 << 20;
	ok(!explain_fit(&f, 4, 4, &sys, NULL) && f.data_pages == 128 &&
	   f.aux_pages == 256 && strstr(f.text, "free memory"), "%s", f.text);
	f = (struct explain_fit){ .data_pages = 128, .aux_pages = 4096,
				  .data_fixed = true, .aux_fixed = true };
	ok(!explain_fit(&f, 4, 4, &sys, NULL) && f.aux_pages == 4096,
	   "who names sizes may have more than that");
	sys.mem_available = 0;
	f = (struct explain_fit){ .data_pages = 128, .aux_pages = 4096 };
	ok(!explain_fit(&f, 4, 4, &sys, NULL) && f.aux_pages == 4096,
	   "unknown memory is no limit");
}

/* A ring of n pages and its control page; 0 or errno. fd and map stay. */
static int map_ring(size_t n, long page)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY, .exclude_kernel = 1,
		.disabled = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	size_t bytes = (n + 1) * (size_t)page;

	if (fd < 0)
		return -1;
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
	       MAP_FAILED ? errno : 0;
}

/* In a child: 0 good, 1 refused too early, 2 too late, 3 cannot tell. */
static int fill_budget(void)
{
	struct rlimit lock = { 256 << 10, 256 << 10 };
	struct explain_system sys;
	int64_t left;
	size_t n = 512;
	int err;

	if (setrlimit(RLIMIT_MEMLOCK, &lock) ||
	    setresgid(UID_OTHER, UID_OTHER, UID_OTHER) ||
	    setresuid(UID_OTHER, UID_OTHER, UID_OTHER))
		return 3;
	explain_system(&sys);
	if (explain_budget(&sys) == INT64_MAX || sys.cap_ipc_lock)
		return 3;
	for (left = explain_budget(&sys) / sys.page_size; left;) {
		if ((int64_t)n + 1 > left) {
			n /= 2;
			continue;
		}
		err = map_ring(n, sys.page_size);
		if (err)
			return err == EPERM ? 1 : 3;
		left -= (int64_t)n + 1;
	}
	return map_ring(0, sys.page_size) == EPERM ? 0 : 2;
}

static void test_kernel_agrees(void)
{
	int status;
	pid_t pid;

	if (geteuid()) {
		skip("another user cannot be had without root");
		return;
	}
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(fill_budget());
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		skip("no perf events, or no limit, for another user here");
	else
		ok(WIFEXITED(status) && !WEXITSTATUS(status),
		   "the kernel's limit is ours, to the page (%d)", status);
}

static void test_system(void)
{
	struct explain_system sys;

	explain_system(&sys);
	ok(sys.n_cpus == sysconf(_SC_NPROCESSORS_ONLN), "CPUs: %d", sys.n_cpus);
	ok(sys.page_size == sysconf(_SC_PAGESIZE) && sys.mem_available > 0,
	   "memory");
	explain_system_at(&sys, "/nonexistent", "/nonexistent");
	ok(sys.paranoid == 2 && sys.mlock_kb == -1 && sys.lockdown == -1 &&
	   !sys.cap_perfmon && sys.n_cpus > 0, "nothing can be read");
}

int main(void)
{
	test_open();
	test_advice();
	test_mmap();
	test_budget();
	test_fit();
	test_fit_memory();
	test_kernel_agrees();
	test_system();
	return plan_done();
}
