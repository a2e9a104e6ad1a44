/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor: which parts of auxcap work on this machine, and what would make the others
 * work.
 *
 * Every check reads below the roots of an environment, so that a test can put
 * another machine in place of this one. Checks collect lines; cmd_doctor() prints
 * them.
 */
#ifndef CAPTURE_CMD_DOCTOR_H
#define CAPTURE_CMD_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/perf_event.h>
#include <sys/types.h>

#include "capture/event/explain.h"

enum doctor_state { DOCTOR_OK, DOCTOR_LIMITED, DOCTOR_NO };

struct doctor_line {
	enum doctor_state state;
	char topic[32];
	char text[512];
	char fix[400];		/* "" nothing to mend */
};

struct doctor_env {
	const char *proc, *sys;		/* mount points */
	const char *path;		/* to find programs; NULL: none */
	const char *cwd;
	const char *helper;		/* auxkit-qemu.so, NULL: not there */
	const char *debuginfod;		/* DEBUGINFOD_URLS or NULL */
	const char *release, *machine;	/* as uname(2) */
	/* An fd, or -errno. */
	int (*open)(const struct perf_event_attr *attr, pid_t pid, int cpu);
	int (*close)(int fd);
};

struct doctor {
	const struct doctor_env *env;
	struct explain_system sys;
	struct doctor_line *lines;
	size_t n;
	bool nomem;
	char cpuinfo[8192];	/* of the first CPU */
	bool x86, arm64, intel, amd, virtual;
	bool may_open;		/* perf_event_open works at all */
	unsigned n_sources;	/* that work */
	char works[256], missing[256];	/* the summary's two halves */
};

/* All checks. -AUX_E_NOMEM, else 0. */
int doctor_run(struct doctor *d, const struct doctor_env *env);
void doctor_fini(struct doctor *d);
/* The last line: what works now, and why the rest does not. */
void doctor_summary(const struct doctor *d, char *buf, size_t len);

#endif
