/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor: the list of lines and what all checks use. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <aux/error.h>

#include "common/diag.h"

#include "capture/cmd/cmd.h"
#include "capture/event/auxpmu.h"
#include "capture/event/pmu.h"

/* Adds a line; fix may be "": nothing to mend. */
__attribute__((format(printf, 5, 6)))
static void doctor_say(struct doctor *d, enum doctor_state state,
		       const char *topic, const char *fix, const char *fmt, ...)
{
	struct doctor_line *l = reallocarray(d->lines, d->n + 1, sizeof(*l));
	va_list ap;

	if (!l) {
		d->nomem = true;
		return;
	}
	d->lines = l;
	l += d->n++;
	memset(l, 0, sizeof(*l));
	l->state = state;
	snprintf(l->topic, sizeof(l->topic), "%s", topic);
	snprintf(l->fix, sizeof(l->fix), "%s", fix);
	va_start(ap, fmt);
	vsnprintf(l->text, sizeof(l->text), fmt, ap);
	va_end(ap);
}

/* The file below proc or sys, at most len - 1 bytes; false: it cannot be read.
 */
static bool doctor_read(const char *root, const char *file, char *buf,
			size_t len)
{
	char path[1024];
	size_t used = 0;
	ssize_t n = 1;
	int fd;

	buf[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", root, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	while (used < len - 1 && n > 0) {
		n = read(fd, buf + used, len - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	buf[used] = '\0';
	if (used && buf[used - 1] == '\n')
		buf[used - 1] = '\0';
	return n >= 0;
}

static bool doctor_exists(const char *root, const char *file)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", root, file);
	return !access(path, F_OK);
}

/* Value of a line of cpuinfo, "" when there is none. */
/* The text after the colon, up to the end of cpuinfo, not of the line. */
static const char *cpu_line(const struct doctor *d, const char *name)
{
	size_t len = strlen(name);
	const char *p = d->cpuinfo, *q;

	for (; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : p) {
		if (strncmp(p, name, len))
			continue;
		q = p + len;
		q += strspn(q, " \t");
		if (*q == ':')
			return q + 1;
	}
	return "";
}

/* A word of the first CPU's flags. */
static bool doctor_cpu_flag(const struct doctor *d, const char *flag)
{
	const char *p = cpu_line(d, d->arm64 ? "Features" : "flags");
	const char *end = strchrnul(p, '\n');
	size_t len = strlen(flag);

	for (; (p = strstr(p, flag)) && p < end; p += len)
		if (p[-1] == ' ' && (isspace((unsigned char)p[len]) || !p[len]))
			return true;
	return false;
}

/* "NAME : VALUE" of /proc/cpuinfo, -1 none. */
static long doctor_cpu_number(const struct doctor *d, const char *name)
{
	const char *p = cpu_line(d, name);
	char *end;
	long v = strtol(p, &end, 0);

	return end == p ? -1 : v;
}

static void append(char *list, size_t len, const char *what)
{
	size_t used = strlen(list);

	snprintf(list + used, len - used, "%s%s", used ? ", " : "", what);
}

/* A source that can be recorded now, as -e takes it. */
static void doctor_works(struct doctor *d, const char *what)
{
	d->n_sources++;
	append(d->works, sizeof(d->works), what);
}

/* Appends to the half of the summary that says what does not work, and why. */
__attribute__((format(printf, 2, 3)))
static void doctor_missing(struct doctor *d, const char *fmt, ...)
{
	char text[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	append(d->missing, sizeof(d->missing), text);
}

/* A hypervisor is in the CPU flags on x86, in sysfs for Xen, in the device tree
 * on Arm. */
static void know_machine(struct doctor *d)
{
	const char *m = d->env->machine;
	const char *vendor;

	d->x86 = !strcmp(m, "x86_64") || (m[0] == 'i' && !strcmp(m + 2, "86"));
	d->arm64 = !strcmp(m, "aarch64");
	doctor_read(d->env->proc, "cpuinfo", d->cpuinfo, sizeof(d->cpuinfo));
	vendor = cpu_line(d, "vendor_id");
	vendor += strspn(vendor, " ");
	d->intel = !strncmp(vendor, "GenuineIntel", 12);
	d->amd = !strncmp(vendor, "AuthenticAMD", 12);
	d->virtual = doctor_cpu_flag(d, "hypervisor") ||
		doctor_exists(d->env->sys, "hypervisor/type") ||
		doctor_exists(d->env->proc, "device-tree/hypervisor");
}

static void doctor_check_soft(struct doctor *d);
static void doctor_check_code(struct doctor *d);
static void doctor_check_pmus(struct doctor *d);
static void doctor_check_system(struct doctor *d);

int doctor_run(struct doctor *d, const struct doctor_env *env)
{
	memset(d, 0, sizeof(*d));
	d->env = env;
	explain_system_at(&d->sys, env->proc, env->sys);
	know_machine(d);
	doctor_check_system(d);
	doctor_check_pmus(d);
	doctor_check_soft(d);
	doctor_check_code(d);
	return d->nomem ? -AUX_E_NOMEM : 0;
}

void doctor_summary(const struct doctor *d, char *buf, size_t len)
{
	snprintf(buf, len, "works now: %s%s%s",
		 d->n_sources ? d->works : "nothing",
		 d->missing[0] ? "; not: " : "", d->missing);
}

void doctor_fini(struct doctor *d)
{
	free(d->lines);
	d->lines = NULL;
	d->n = 0;
}

/*
 * auxcap doctor: prints what works here. One line a check, its state first; a
 * fix stands below it. The checks are doctor.c.
 */

/* doctor_env.open for the machine itself. */
static int open_event(const struct perf_event_attr *attr, pid_t pid, int cpu)
{
	struct perf_event_attr copy = *attr;	/* written on E2BIG */
	long fd = syscall(SYS_perf_event_open, &copy, pid, cpu, -1,
			  (unsigned long)PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* buf is what it returns; NULL: there is no such object. */
static const char *find_helper(char *buf, size_t len)
{
	char dir[CMD_HELPER_DIR_MAX];

	if (!cmd_helper_dir(dir))
		return NULL;
	snprintf(buf, len, "%s/" CMD_HELPER, dir);
	return buf;
}

static void print_line(const struct doctor_line *l)
{
	static const char *const words[] = { "ok", "limited", "no" };

	printf("%-8s %-14s %s\n", words[l->state], l->topic, l->text);
	if (l->fix[0])
		printf("         %-14s fix: %s\n", "", l->fix);
}

/* CMD_FAILED where no source works: scripts can ask before they record. */
int cmd_doctor(void)
{
	char helper[4200], summary[640];
	struct utsname u = { 0 };
	struct doctor_env env = {
		.proc = "/proc", .sys = "/sys", .cwd = ".",
		.modules = "/lib/modules",
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
	if (fflush(stdout) || ferror(stdout)) {
		doctor_fini(&d);
		diag_set(&diag, AUX_E_IO, AUX_NO_OFFSET, "cannot write: %s",
			 strerror(errno));
		return cmd_error(&diag);
	}
	ret = !d.n_sources;
	doctor_fini(&d);
	return ret ? CMD_FAILED : CMD_OK;
}

/*
 * doctor: the software source, and what a recording and its decoding need
 * besides: the kernel's code and names, tracepoints, room on the disk.
 */

#define FEW_BYTES (UINT64_C(1) << 30)

/* Where a program is in PATH. An empty entry is the present directory, as in
 * execvp(3). */
static bool find_program(const char *path, const char *name, char *file,
			 size_t size)
{
	size_t n;

	for (; path; path += n + 1) {
		n = strcspn(path, ":");
		snprintf(file, size, "%.*s%s%s", (int)n, path, n ? "/" : "",
			 name);
		if (!access(file, X_OK))
			return true;
		if (!path[n])
			return false;
	}
	return false;
}

/* Does the help of a qemu name the option? Where it cannot be asked, it is taken to
 * have it. */
static bool has_plugins(const char *qemu)
{
	char help[16384];
	size_t n = 0;
	ssize_t got;
	int fd[2], status = -1;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return true;
	pid = fork();
	if (!pid) {
		dup2(fd[1], STDOUT_FILENO);
		dup2(fd[1], STDERR_FILENO);
		execl(qemu, qemu, "-help", (char *)NULL);
		_exit(127);
	}
	close(fd[1]);
	while (pid > 0 && n < sizeof(help) &&
	       (got = read(fd[0], help + n, sizeof(help) - n)) > 0)
		n += (size_t)got;
	close(fd[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return status || memmem(help, n, "-plugin", 7);
}

/* True: emulation works, as event says. It needs both qemu-user and our helper object.
 * without: what is left where it does not. */
static bool check_emulate(struct doctor *d, const char *topic, const char *event,
			  const char *name, const char *without)
{
	char file[4096];
	bool qemu = find_program(d->env->path, name, file, sizeof(file));
	bool plugins = qemu && has_plugins(file);

	if (plugins && d->env->helper) {
		doctor_say(d, DOCTOR_OK, topic, "",
			   "%s is there: -e %s works without "
			   "trace hardware and without permission", name, event);
		return true;
	}
	doctor_say(d, *without ? DOCTOR_LIMITED : DOCTOR_NO, topic,
		   plugins ? "install auxkit whole: make install, or run auxcap "
			     "where it was built" :
		   qemu ? "a qemu-user with plugins, as Debian 12 has it" :
		   "sudo apt install qemu-user (Debian, Ubuntu), sudo dnf "
		   "install qemu-user (Fedora)",
		   "%s%s: no emulation%s", plugins ? "auxkit-qemu.so" : name,
		   plugins ? " is missing" : qemu ? " is built without plugins" :
		   " is not installed", without);
	return false;
}

/* PTRACE_SEIZE on our own child: yama allows it up to level 1. */
static bool check_native(struct doctor *d, bool emulate)
{
	char buf[32];
	long scope = 0;
	bool may;

	if (doctor_read(d->env->proc, "sys/kernel/yama/ptrace_scope", buf,
			sizeof(buf)))
		scope = strtol(buf, NULL, 10);
	if (scope < 2 || (scope == 2 && d->sys.cap_ptrace)) {
		may = scope == 0 || d->sys.cap_ptrace;
		doctor_say(d, DOCTOR_OK, "soft_pt", may ? "" :
			   "sudo sysctl kernel.yama.ptrace_scope=0, for -p and "
			   "-t with soft_pt",
			   "ptrace is allowed: -e soft_pt//u works without "
			   "trace hardware, %s",
			   may ? "with -p and -t too" :
			   "but not -p and -t: kernel.yama.ptrace_scope is 1");
		return true;
	}
	doctor_say(d, emulate ? DOCTOR_LIMITED : DOCTOR_NO, "soft_pt", scope == 3 ?
		   "kernel.yama.ptrace_scope 3 stays until the next boot" :
		   "sudo sysctl kernel.yama.ptrace_scope=1",
		   "kernel.yama.ptrace_scope is %ld: no process may be "
		   "traced%s", scope, emulate ? "; -e soft_pt//u emulates programs "
		   "instead, and -p and -t do not work" :
		   ", which soft_pt needs where it cannot emulate");
	return false;
}

/* The software source for this machine's own programs. */
static void doctor_check_soft(struct doctor *d)
{
	bool emulate, native;

	if (d->arm64) {
		if (check_emulate(d, "soft_etm", "soft_etm//u", "qemu-aarch64", ""))
			doctor_works(d, "-e soft_etm//u");
		else
			doctor_missing(d, "soft_etm: no qemu-aarch64 with our plugin");
		return;
	}
	if (strcmp(d->env->machine, "x86_64")) {
		doctor_say(d, DOCTOR_NO, "soft_pt", "",
			   "soft_pt follows x86-64 programs, soft_etm those of arm64; "
			   "this is %s", d->env->machine);
		doctor_missing(d, "soft_pt, soft_etm: not on %s", d->env->machine);
		return;
	}
	emulate = check_emulate(d, "soft_pt-emulate", "soft_pt/emulate/u",
				"qemu-x86_64", ", which is not needed where "
				"ptrace is allowed");
	native = check_native(d, emulate);
	if (emulate || native)
		doctor_works(d, "-e soft_pt//u");
	if (native)
		doctor_works(d, "-e soft_pt/step/u");
	if (!emulate && !native)
		doctor_missing(d, "soft_pt: neither qemu-x86_64 nor ptrace");
}

#define PERFMON_FIX							\
	"sudo setcap cap_perfmon,cap_ipc_lock,cap_sys_ptrace=ep "		\
	"\"$(readlink -f \"$(command -v auxcap)\")\""

/* tracefs has its own mount since Linux 4.1; before, and on many systems still,
 * it is below debugfs. */
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

/* Opened, not only tested: the kernel asks for CAP_SYS_RAWIO at open(2),
 * whatever the mode of the file says. */
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

/* The present directory, where perf.data goes without -o. */
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

/* What --when needs: its signals and ends are tracepoints, its functions are uprobes. A trace
 * by software needs none of it. */
static void check_triggers(struct doctor *d)
{
	static const char soft[] = "-e soft_pt//u waits for functions, durations, signals and "
				   "ends without rights";
	bool may_all = d->sys.cap_perfmon || d->sys.cap_admin;
	char path[1024];

	snprintf(path, sizeof(path), "%s/kernel/tracing/uprobe_events", d->env->sys);
	if (!doctor_exists(d->env->sys, "bus/event_source/devices/uprobe"))
		doctor_say(d, DOCTOR_LIMITED, "triggers", "a kernel with CONFIG_UPROBE_EVENTS "
			   "(4.17)", "this kernel has no uprobes: no --when FUNCTION with "
			   "its events; %s", soft);
	else if (!access(path, W_OK))
		doctor_say(d, DOCTOR_OK, "triggers", "", "--when FUNCTION, FILE:LINE, usdt:, "
			   "kprobe:, tracepoints, signals, crash, exit");
	else if (may_all)
		doctor_say(d, DOCTOR_LIMITED, "triggers",
			   "write permission below /sys/kernel/tracing",
			   "--when FUNCTION works, but a thread that moves to another CPU just "
			   "then may be missed or counted twice: %s may not be written to", path);
	else
		doctor_say(d, DOCTOR_LIMITED, "triggers", "sudo auxcap, or: " PERFMON_FIX,
			   "--when FUNCTION of the kernel's events needs CAP_PERFMON, and "
			   "tracepoints, signals, crash and exit do, too; %s", soft);
}

static void doctor_check_code(struct doctor *d)
{
	check_tracefs(d);
	check_triggers(d);
	check_kallsyms(d);
	check_kcore(d);
	check_debuginfod(d);
	check_disk(d);
}

/*
 * doctor: PMUs with an AUX area, those found and those that one would expect.
 *
 * Specification: Documentation/ABI/testing/sysfs-bus-event_source-devices-*;
 * Intel SDM vol. 3, IA32_VMX_MISC bit 14 (trace under VMX).
 */

#define DEVICES "bus/event_source/devices"

/* Names in a directory, at most len - 1 characters: "tmc_etf0 tmc_etr0". */
static size_t list_dir(struct doctor *d, const char *dir, char *buf,
		       size_t len)
{
	size_t n = 0, used = 0;
	struct dirent *e;
	char path[1024];
	DIR *dp;

	buf[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", d->env->sys, dir);
	dp = opendir(path);
	d->nomem |= !dp && errno == ENOMEM;
	while (dp && (e = readdir(dp))) {
		if (e->d_name[0] == '.')
			continue;
		n++;
		if (used < len)
			used += (size_t)snprintf(buf + used, len - used, "%s%s",
						 used ? " " : "", e->d_name);
	}
	if (dp)
		closedir(dp);
	return n;
}

/* 0, or -errno of opening the PMU's plainest event on ourselves, or where it
 * takes no tasks, on its first CPU. */
static int try_open(struct doctor *d, const struct pmu *pmu,
		    struct perf_event_attr *attr)
{
	int fd;

	*attr = (struct perf_event_attr){
		.size = sizeof(*attr), .type = pmu->type, .disabled = 1,
		.sample_period = 1, .exclude_kernel = 1, .exclude_hv = 1,
	};
	fd = d->env->open(attr, 0, -1);
	if (fd == -EINVAL || fd == -EOPNOTSUPP)
		fd = d->env->open(attr, -1, pmu->n_cpus ? pmu->cpus[0] : 0);
	if (fd < 0)
		return fd;
	d->env->close(fd);
	return 0;
}

/* Only Broadwell traces and stops while a hypervisor is in VMX operation. */
static bool stops_under_vmx(const struct doctor *d)
{
	static const int models[] = { 0x3d, 0x47, 0x4f, 0x56 };
	long model = doctor_cpu_number(d, "model");
	size_t i;

	for (i = 0; i < sizeof(models) / sizeof(*models); i++)
		if (d->intel && doctor_cpu_number(d, "cpu family") == 6 &&
		    model == models[i])
			return true;
	return false;
}

static void check_vmx(struct doctor *d)
{
	bool kvm = doctor_exists(d->env->sys, "module/kvm_intel");

	if (!stops_under_vmx(d) || !doctor_cpu_flag(d, "vmx"))
		return;
	doctor_say(d, kvm ? DOCTOR_LIMITED : DOCTOR_OK, "intel_pt-vmx",
		   kvm ? "end the virtual machines, then sudo modprobe -r "
			 "kvm_intel" : "",
		   "this CPU (Broadwell) stops Intel PT while a virtual "
		   "machine runs: the trace is then empty, its AUX records "
		   "say PARTIAL%s", kvm ? "" : "; kvm_intel is not loaded");
}

/* What -e intel_pt/TERM/ can ask for on this CPU, from the caps of the PMU. */
static void describe_pt(const struct pmu *pmu, char *buf, size_t len)
{
	snprintf(buf, len, ": %s%s%s%u address filters",
		 pmu_cap(pmu, "psb_cyc", 0) ? "cyc, " : "",
		 pmu_cap(pmu, "mtc", 0) ? "mtc, " : "",
		 pmu_cap(pmu, "ptwrite", 0) ? "ptw, " : "",
		 pmu->n_addr_filters);
}

/* CoreSight's drivers that Linux has as modules of their own; the last two are the
 * sinks, where trace goes to memory. */
static const char *const etm_modules[] = {
	"coresight", "coresight-etm4x", "coresight-funnel", "coresight-replicator",
	"coresight-tmc", "coresight-trbe",
};
#define N_ETM_MODULES (sizeof(etm_modules) / sizeof(*etm_modules))

/* Adds 1 << i to *found for each of etm_modules that a list of the kernel's modules
 * names. False: there is no list. */
static bool read_modules(const struct doctor *d, const char *list, unsigned *found)
{
	char path[1024], name[64], *line = NULL;
	size_t room = 0, i;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s", d->env->modules, d->env->release, list);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (getline(&line, &room, f) > 0) {
		line[strcspn(line, ":\n")] = '\0';
		for (i = 0; i < N_ETM_MODULES; i++) {
			snprintf(name, sizeof(name), "/%s.ko", etm_modules[i]);
			if (strstr(line, name))
				*found |= 1u << i;
		}
	}
	free(line);
	fclose(f);
	return true;
}

/* How this kernel's drivers are loaded, those that it has; where that cannot be seen,
 * those that it could have. */
static void etm_fix(const struct doctor *d, char *buf, size_t len)
{
	unsigned found = 0, builtin = 0, all = (1u << N_ETM_MODULES) - 1;
	size_t i, used;

	if (!read_modules(d, "modules.dep", &found))
		found = all;
	else
		read_modules(d, "modules.builtin", &builtin);
	if (!found && !builtin) {
		snprintf(buf, len, "a kernel with CONFIG_CORESIGHT: this one has none "
			 "of its modules");
		return;
	}
	used = (size_t)snprintf(buf, len, "%s", found ? "sudo modprobe -a" : "");
	for (i = 0; i < N_ETM_MODULES && used < len; i++)
		if (found & 1u << i)
			used += (size_t)snprintf(buf + used, len - used, " %s",
						 etm_modules[i]);
	if (used < len && !((found | builtin) & 1u << (N_ETM_MODULES - 2)))
		snprintf(buf + used, len - used, "%sthis kernel has no coresight-tmc: "
			 "its only sink is %s", found ? "; " : "",
			 (found | builtin) & 1u << (N_ETM_MODULES - 1) ?
			 "TRBE, on CPUs that have one" : "none");
}

/* Without a sink the kernel has nowhere to put the trace. */
static void describe_etm(struct doctor *d, char *buf, size_t len)
{
	char sinks[160];
	size_t n = list_dir(d, DEVICES "/cs_etm/sinks", sinks, sizeof(sinks));

	if (n)
		snprintf(buf, len, ": sinks %s; -e cs_etm/@SINK/u takes one",
			 sinks);
	else
		snprintf(buf, len, ": no sink is there");
}

/* Opens the PMU for real: permission, seccomp and firmware all show there, and
 * explain_open names the one that refused. */
static void check_pmu(struct doctor *d, const struct pmu *pmu,
		      const struct auxpmu_ops *ops)
{
	struct perf_event_attr attr;
	struct aux_diag diag = { 0 };
	int err = try_open(d, pmu, &attr);
	char more[256] = "", fix[400] = "";

	if (!strcmp(pmu->name, "intel_pt"))
		describe_pt(pmu, more, sizeof(more));
	if (!strcmp(pmu->name, "cs_etm"))
		describe_etm(d, more, sizeof(more));
	if (err) {
		explain_open(pmu->name, &attr, -1, 0, -err, &d->sys, &diag);
		doctor_say(d, DOCTOR_NO, pmu->name, "", "%s", diag.text);
		doctor_missing(d, "%s: it is there but refused", pmu->name);
		return;
	}
	if (strstr(more, "no sink"))
		etm_fix(d, fix, sizeof(fix));
	doctor_say(d, *fix ? DOCTOR_LIMITED : DOCTOR_OK, pmu->name, fix,
		   "%s can be recorded%s%s", pmu->name,
		   ops == &auxpmu_raw ? " (raw bytes)" : "", more);
	snprintf(more, sizeof(more), "-e %s//u", pmu->name);
	doctor_works(d, more);
}

/* The likeliest of the reasons that can be seen; *fix is what to do about
 * it. */
static const char *why_no_pt(const struct doctor *d, const char **fix)
{
	*fix = "-e soft_pt//u makes the same trace by software";
	if (d->amd)
		return "this CPU is AMD";
	if (!d->intel)
		return "this CPU is not from Intel";
	if (doctor_cpu_flag(d, "intel_pt")) {
		*fix = "sudo dmesg | grep -i -e intel_pt -e 'PT '; a kernel "
		       "with CONFIG_PERF_EVENTS; BIOS: enable Processor Trace";
		return "the CPU has it, the kernel made no PMU";
	}
	if (d->virtual) {
		*fix = "on the host: sudo modprobe kvm_intel pt_mode=1 and the "
		       "guest's CPU model with +intel-pt; else -e soft_pt//u";
		return "this virtual machine is not given it";
	}
	return "this CPU has none, or the BIOS has disabled it";
}

static void expect_pt(struct doctor *d)
{
	const char *fix, *why = why_no_pt(d, &fix);

	doctor_say(d, DOCTOR_NO, "intel_pt", fix, "no such PMU (%s)", why);
	doctor_missing(d, "intel_pt: no such PMU (%s)", why);
}

/* Firmware describes trace units; without that the driver finds none, and it is
 * mostly a module. */
static void expect_etm(struct doctor *d)
{
	bool module = doctor_exists(d->env->sys, "module/coresight");
	char load[300], fix[400];

	etm_fix(d, load, sizeof(load));
	snprintf(fix, sizeof(fix), "%s%s", module ? "the firmware (device tree, ACPI) has "
		 "to describe the trace units; " : "", load);
	doctor_say(d, DOCTOR_NO, "cs_etm", fix, "no such PMU (%s)",
		   module ? "no trace unit was found" : "the CoreSight driver is not loaded");
	doctor_missing(d, "cs_etm: no such PMU");
}

/* PMUs that are there, then those that this architecture could have. */
static void doctor_check_pmus(struct doctor *d)
{
	bool pt = false, etm = false;
	char root[512], **names;
	struct pmu *pmu;
	int i, n;

	snprintf(root, sizeof(root), "%s/" DEVICES, d->env->sys);
	n = pmu_list(root, &names, NULL);
	d->nomem |= n == -AUX_E_NOMEM;
	for (i = 0; i < n; i++) {
		const struct auxpmu_ops *ops = NULL;
		int err = pmu_open(&pmu, root, names[i], NULL);

		pt |= !strcmp(names[i], "intel_pt");
		etm |= !strcmp(names[i], "cs_etm");
		d->nomem |= err == -AUX_E_NOMEM;
		if (!err) {
			ops = auxpmu_find(pmu);
			if (ops)
				check_pmu(d, pmu, ops);
			pmu_close(pmu);
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	if (d->x86 && !pt)
		expect_pt(d);
	if (d->arm64 && !etm)
		expect_etm(d);
	if (pt)
		check_vmx(d);
}

/*
 * doctor: the kernel, who may use its perf events, and how much memory they may
 * take.
 */

#define VERSION(a, b) ((a) * 1000 + (b))
/* "6.12.3-amd64" as 6012: distributions append what they like. */
static long version_of(const char *release)
{
	char *end;
	long major = strtol(release, &end, 10);
	long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

	return VERSION(major, minor);
}

/* What this kernel is too old for; recordings without that work. */
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
		{ VERSION(6, 13), "aux-action pause/resume, exact --window (6.13)" },
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

/* An event that needs no hardware and no kernel code: if this is refused,
 * everything is, by perf_event_paranoid above 2 (Debian, Ubuntu) or a
 * sandbox. */
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

/* Levels of kernel.perf_event_paranoid:
 * Documentation/admin-guide/sysctl/kernel.rst. A level above 2 is a patch of
 * distributions. */
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

/* AUX areas are locked memory: perf_event_mlock_kb for each CPU and user, and
 * on top of it RLIMIT_MEMLOCK for the process. */
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

/* Documentation: kernel_lockdown(7). */
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

/* A fact and no fault: software sources work in a guest as anywhere. */
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

/* Seccomp 2 in status is SECCOMP_MODE_FILTER; what the filter forbids cannot be
 * read, so the answer of perf_event_open decides. */
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

/* Pieces, each a list of checks. */
static void doctor_check_system(struct doctor *d)
{
	check_kernel(d);
	check_machine(d);
	check_open(d);
	check_paranoid(d);
	check_sandbox(d);
	check_memory(d);
	check_lockdown(d);
}
