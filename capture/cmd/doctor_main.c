/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcap doctor: prints what works here. One line a check, its state first; a
 * fix stands below it. The checks are doctor.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "capture/cmd/cmd.h"
#include "capture/cmd/doctor.h"

static int open_event(const struct perf_event_attr *attr, pid_t pid, int cpu)
{
	struct perf_event_attr copy = *attr;	/* written on E2BIG */
	long fd = syscall(SYS_perf_event_open, &copy, pid, cpu, -1,
			  (unsigned long)PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* Beside us, or in ../libexec/auxkit. */
static const char *find_helper(char *buf, size_t len)
{
	static const char *const places[] = { "", "/../libexec/auxkit" };
	char self[4096], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	size_t i;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (i = 0; i < 2; i++) {
		snprintf(buf, len, "%s%s/auxkit-qemu.so", self, places[i]);
		if (!access(buf, R_OK))
			return buf;
	}
	return NULL;
}

static void print_line(const struct doctor_line *l)
{
	static const char *const words[] = { "ok", "limited", "no" };

	printf("%-8s %-14s %s\n", words[l->state], l->topic, l->text);
	if (l->fix[0])
		printf("         %-14s fix: %s\n", "", l->fix);
}

int cmd_doctor(void)
{
	char helper[4200], summary[640];
	struct utsname u = { 0 };
	struct doctor_env env = {
		.proc = "/proc", .sys = "/sys", .cwd = ".",
		.path = getenv("PATH"), .debuginfod = getenv("DEBUGINFOD_URLS"),
		.helper = find_helper(helper, sizeof(helper)),
		.open = open_event, .close = close,
		.release = u.release, .machine = u.machine,
	};
	struct aux_diag diag = { .code = AUX_E_NOMEM };
	struct doctor d;
	size_t i;
	int ret;

	uname(&u);
	if (doctor_run(&d, &env)) {
		doctor_fini(&d);
		return cmd_error(&diag);
	}
	for (i = 0; i < d.n; i++)
		print_line(&d.lines[i]);
	doctor_summary(&d, summary, sizeof(summary));
	puts(summary);
	ret = fflush(stdout) || ferror(stdout) || !d.n_sources;
	doctor_fini(&d);
	return ret ? CMD_FAILED : CMD_OK;
}
