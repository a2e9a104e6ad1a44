/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain: why perf_event_open or mmap refused, and the fix; fixes without root first.
 *
 * Permission is decided by kernel.perf_event_paranoid and capabilities, never by the
 * uid. A level forbids, to those without CAP_PERFMON (or CAP_SYS_ADMIN):
 *	> -1	raw tracepoint data; mlock beyond the limits without CAP_IPC_LOCK
 *	>  0	events of whole CPUs
 *	>  1	the kernel's part of an event
 *	>  2	everything (Debian's patch, not in mainline)
 *
 * Specification: Documentation/admin-guide/perf-security.rst; perf_allow_kernel() and
 * its siblings in include/linux/perf_event.h (Linux 6.1).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "capture/event/evlist.h"
#include "capture/event/explain.h"
#include "common/diag.h"

/*
 * What the system permits, from /proc and /sys. A file that cannot be read
 * leaves -1, or the kernel's default where -1 is a legal value.
 */

#define PARANOID_DEFAULT 2

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

/* The number after name in text; 0 if there is none. */
static uint64_t read_field(const char *text, const char *name, int base)
{
	const char *p = strstr(text, name);

	return p ? strtoull(p + strlen(name), NULL, base) : 0;
}

/* The effective capabilities, from the bit mask in /proc/self/status. */
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

/* The selected word of "none [integrity] confidentiality". */
static int read_lockdown(const char *sysfs)
{
	char buf[128];

	if (!read_text(sysfs, "kernel/security/lockdown", buf, sizeof(buf)))
		return -1;
	if (strstr(buf, "[confidentiality]"))
		return 2;
	return strstr(buf, "[integrity]") != NULL;
}

/* The number of CPUs in "0-3,8". */
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

#define SETCAP "sudo setcap cap_perfmon,cap_ipc_lock=ep "		\
	       "\"$(readlink -f \"$(command -v auxcap)\")\""
#define VER0 64		/* PERF_ATTR_SIZE_VER0 */

/* perfmon_capable(): exempt from every paranoid level. */
static bool may_all(const struct explain_system *sys)
{
	return sys->cap_perfmon || sys->cap_admin;
}

/* The command that grants what the given paranoid level permits. */
static void fix_paranoid(char *buf, size_t len, int level)
{
	snprintf(buf, len, "sudo sysctl kernel.perf_event_paranoid=%d (until "
		 "the next boot), or for auxcap alone: " SETCAP, level);
}

#define USER_ONLY 80

/* The event as the user wrote it, but with u as its modifier: intel_pt//k
 * becomes intel_pt//u, cycles:k and cycles become cycles:u. */
static const char *user_only(const char *event, char name[static USER_ONLY])
{
	const char *end = strrchr(event, '/');
	size_t n = end ? (size_t)(end - event) + 1 : strcspn(event, ":");

	snprintf(name, USER_ONLY, "%.*s%su", n < 60 ? (int)n : 60, event,
		 end ? "" : ":");
	return name;
}

/* Which paranoid level forbids this event; 0 and no text if none does. */
static int explain_level(const char *event, const struct perf_event_attr *attr,
			 int tid, const struct explain_system *sys,
			 struct aux_diag *diag)
{
	char fix[256], name[USER_ONLY];

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
				"modifier u, as -e %s. Fix: %s", event,
				sys->paranoid, user_only(event, name), fix);
	}
	return 0;
}

/* EACCES and EPERM. If the level permits the event, it was ptrace_may_access()
 * for another's thread (EACCES), lockdown, seccomp or a security module. */
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

/* E2BIG: perf_copy_attr() met non-zero bytes past the size it knows, and wrote
 * that size to attr->size. */
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

/* An older kernel says EINVAL, a PMU that cannot pause EOPNOTSUPP. */
static const char cannot_pause[] =
	"aux-action (start-paused, pause, resume) needs a kernel and a PMU "
	"that can pause: Linux 6.13 for intel_pt, 6.16 for cs_etm. Without "
	"it, --filter or --control (enable, disable) record a part";

/* EINVAL has many causes; the request says which is likely. */
static const char *why_invalid(const struct perf_event_attr *attr)
{
	if (evlist_aux_action(attr))
		return cannot_pause;
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

/* ENOENT, EINVAL, EOPNOTSUPP, ENODEV, ENOSYS: there is no such event here. */
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
	else if (err == EOPNOTSUPP && evlist_aux_action(attr))
		why = cannot_pause;
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

/* EBUSY: PMUs with an AUX area are exclusive (PERF_PMU_CAP_EXCLUSIVE); PT also
 * excludes BTS and, on some CPUs, LBR (x86_add_exclusive()). */
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
				"%.60s: -G names a cgroup of a hierarchy that "
				"has no perf_event controller. Fix: v2 has it "
				"once any controller is set (echo +pids | sudo "
				"tee /sys/fs/cgroup/cgroup.subtree_control); "
				"or mount it as v1 (sudo mount -t cgroup -o "
				"perf_event none DIR) and make the cgroup "
				"there", event);
	default:
		return explain_unsupported(event, attr, cpu, err, diag);
	}
}

/*
 * Sizes of rings that fit into what may be mapped.
 *
 * The kernel charges each mapping (a data ring with its control page, an AUX
 * area) first to the user: perf_event_mlock_kb for each online CPU, all
 * recorders of this user together. The excess is charged to the process under
 * RLIMIT_MEMLOCK, once and not per CPU. CAP_IPC_LOCK and a paranoid level of -1
 * lift the limit. See perf_mmap(), kernel/events/core.c (Linux 6.1).
 */

#define MLOCK_KB_DEFAULT 516		/* 512 + 1 page of 4 KB */
#define AUX_SMALL_BYTES (64 << 10)	/* below this, data rings shrink first */
#define DATA_SMALL_BYTES (32 << 10)
#define MEMORY_DIVISOR 8

/* Whether the limits on locked memory apply: the test of perf_mmap(). */
static bool has_limit(const struct explain_system *sys)
{
	return !sys->cap_ipc_lock && sys->paranoid > -1 &&
	       sys->rlimit_memlock != INT64_MAX;
}

/* What the user may map before RLIMIT_MEMLOCK counts. */
static int64_t user_allowance(const struct explain_system *sys)
{
	long kb = sys->mlock_kb >= 0 ? sys->mlock_kb : MLOCK_KB_DEFAULT;

	return kb * 1024 / sys->page_size * sys->page_size * sys->n_cpus;
}

int64_t explain_budget(const struct explain_system *sys)
{
	int64_t sum;

	if (!has_limit(sys))
		return INT64_MAX;
	if (__builtin_add_overflow(user_allowance(sys),
				   sys->rlimit_memlock / sys->page_size *
				   sys->page_size, &sum))
		return INT64_MAX;
	return sum;
}

/* "512K", "16M", as -m takes it. */
static const char *size_word(uint64_t bytes, char buf[24])
{
	static const char units[] = "KMGT";
	int i = 0;

	for (bytes /= 1024; bytes >= 1024 && bytes % 1024 == 0 && i < 3; i++)
		bytes /= 1024;
	snprintf(buf, 24, "%" PRIu64 "%c", bytes, units[i]);
	return buf;
}

struct fitting {
	struct explain_fit *fit;
	uint64_t n_rings, n_aux;
	uint64_t page, limit;	/* bytes */
};

/* Whether all rings fit; each data ring has one more page, its control page. */
static bool fits(const struct fitting *f, uint64_t data, uint64_t aux)
{
	uint64_t a, b, sum;

	return !__builtin_mul_overflow(f->n_rings * f->page, data + 1, &a) &&
	       !__builtin_mul_overflow(f->n_aux * f->page, aux, &b) &&
	       !__builtin_add_overflow(a, b, &sum) && sum <= f->limit;
}

/* One step smaller: AUX, then data, each down to its small size, then to a
 * page. */
static bool shrink(struct fitting *f)
{
	struct explain_fit *x = f->fit;
	bool aux = !x->aux_fixed && f->n_aux, data = !x->data_fixed;

	if (aux && x->aux_pages * f->page > AUX_SMALL_BYTES)
		x->aux_pages /= 2;
	else if (data && x->data_pages * f->page > DATA_SMALL_BYTES)
		x->data_pages /= 2;
	else if (aux && x->aux_pages > 1)
		x->aux_pages /= 2;
	else if (data && x->data_pages > 1)
		x->data_pages /= 2;
	else
		return false;
	return true;
}

/* Shrinking data rings may have freed more than was needed: AUX gets the
 * rest. */
static void grow_back(struct fitting *f, size_t wanted)
{
	struct explain_fit *x = f->fit;

	while (!x->aux_fixed && f->n_aux && x->aux_pages * 2 <= wanted &&
	       fits(f, x->data_pages, x->aux_pages * 2))
		x->aux_pages *= 2;
}

static size_t small_pages(const struct fitting *f, size_t wanted)
{
	size_t small = AUX_SMALL_BYTES / f->page;

	return wanted < small ? wanted : small;
}

/* The error when even one page per ring exceeds the limit. */
static int explain_no_fit(const struct fitting *f,
			  const struct explain_system *sys,
			  struct aux_diag *diag)
{
	const struct explain_fit *x = f->fit;
	uint64_t need = (x->data_pages + 1) * f->n_rings * f->page +
			x->aux_pages * f->n_aux * f->page;
	uint64_t kb = need / 1024 / (unsigned)sys->n_cpus + 1;
	char total[24];

	if (!has_limit(sys))
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"the rings need %s of memory and that is more "
				"than can be had: choose smaller ones with -m "
				"DATA,AUX, or fewer CPUs with -C",
				size_word(need, total));
	return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
			"%" PRIu64 " ring%s (data %zu, AUX %zu pages) take "
			"%" PRIu64 " KB and may take %" PRIu64 " KB: "
			"kernel.perf_event_mlock_kb %ld for each of %d CPUs, "
			"and ulimit -l %" PRId64 " KB once. Without root: "
			"smaller -m DATA,AUX, fewer CPUs (-C). Fix: sudo sysctl"
			" kernel.perf_event_mlock_kb=%" PRIu64 ", or "
			"CAP_IPC_LOCK for auxcap (setcap)", f->n_rings,
			f->n_rings == 1 ? "" : "s",
			x->data_pages, f->n_aux ? x->aux_pages : 0, need / 1024,
			f->limit / 1024, sys->mlock_kb, sys->n_cpus,
			sys->rlimit_memlock / 1024, kb);
}

/* The limits in words; more: a qualification. */
static void describe_limit(char *why, size_t len, const char *more,
		       const struct explain_system *sys)
{
	snprintf(why, len, "what may be locked%s: perf_event_mlock_kb %ld for "
		 "each of %d CPUs and ulimit -l %" PRId64 " KB", more,
		 sys->mlock_kb, sys->n_cpus, sys->rlimit_memlock / 1024);
}

/* Sets fit->text if the sizes differ from the wanted ones, data and aux. */
static void describe_choice(const struct fitting *f, size_t data, size_t aux,
		       const char *why)
{
	struct explain_fit *x = f->fit;
	char d[24], a[24];
	int n;

	x->text[0] = '\0';
	if (x->data_pages == data && x->aux_pages == aux)
		return;
	n = snprintf(x->text, sizeof(x->text), "buffers of %s",
		     size_word(x->data_pages * f->page, d));
	if (f->n_aux)
		n += snprintf(x->text + n, sizeof(x->text) - (size_t)n,
			      ", AUX %s (not %s)",
			      size_word(x->aux_pages * f->page, a),
			      size_word(aux * f->page, d));
	snprintf(x->text + n, sizeof(x->text) - (size_t)n,
		 " for each of %" PRIu64 " rings: %s", f->n_rings, why);
}

int explain_fit(struct explain_fit *fit, size_t n_rings, size_t n_aux,
		const struct explain_system *sys, struct aux_diag *diag)
{
	int64_t budget = explain_budget(sys);
	int64_t part = sys->mem_available / MEMORY_DIVISOR;
	bool by_memory = part > 0 && part < budget;
	struct fitting f = {
		.fit = fit, .n_rings = n_rings, .n_aux = n_aux,
		.page = (uint64_t)sys->page_size,
		.limit = (uint64_t)(by_memory ? part : budget),
	};
	size_t data = fit->data_pages, aux = fit->aux_pages;
	char why[160] = "an eighth of the free memory";

	fit->text[0] = '\0';
	while (!fits(&f, fit->data_pages, fit->aux_pages))
		if (!shrink(&f)) {
			/* Sizes that the user gave may exceed the eighth. */
			f.limit = (uint64_t)budget;
			if (by_memory && !fit->aux_fixed)
				fit->aux_pages = small_pages(&f, aux);
			if (fits(&f, fit->data_pages, fit->aux_pages))
				break;
			return explain_no_fit(&f, sys, diag);
		}
	grow_back(&f, aux);
	if (!by_memory)
		describe_limit(why, sizeof(why), "", sys);
	describe_choice(&f, data, aux, why);
	return 0;
}

void explain_fit_less(struct explain_fit *fit, const struct explain_fit *was,
		      size_t n_rings, size_t n_aux, int err,
		      const struct explain_system *sys)
{
	struct fitting f = {
		.fit = fit, .n_rings = n_rings, .n_aux = n_aux,
		.page = (uint64_t)sys->page_size,
	};
	char why[160] = "what the kernel has of memory in one piece";

	if (err == EPERM)
		describe_limit(why, sizeof(why), " beside this user's other "
			       "recorders", sys);
	describe_choice(&f, was->data_pages, was->aux_pages, why);
}

/* EPERM from mmap: beyond what may be locked. */
static int explain_locked(const char *event, const char *what, size_t bytes,
			  const struct explain_system *sys,
			  struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
			"%.60s: %s of %zu KB: more than may be locked: "
			"kernel.perf_event_mlock_kb %ld KB for each of %d CPUs,"
			" shared by all recorders of this user, and ulimit -l "
			"%" PRId64 " KB once. Without root: smaller -m "
			"DATA,AUX, fewer CPUs (-C), end other recorders. Fix: "
			"sudo sysctl kernel.perf_event_mlock_kb=%zu, or "
			"CAP_IPC_LOCK for auxcap (setcap)", event, what,
			bytes / 1024, sys->mlock_kb, sys->n_cpus,
			sys->rlimit_memlock == INT64_MAX ? -1 :
			sys->rlimit_memlock / 1024,
			(size_t)(sys->mlock_kb > 0 ? sys->mlock_kb : 0) +
			bytes / 1024);
}

int explain_mmap(const char *event, bool aux, size_t bytes, int err,
		 const struct explain_system *sys, struct aux_diag *diag)
{
	const char *what = aux ? "an AUX area" : "a data ring";
	const char *why = "";

	if (!event)
		event = "event";
	if (err == EPERM)
		return explain_locked(event, what, bytes, sys, diag);
	if (err == ENOMEM)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: no memory for %s of %zu KB (AUX areas "
				"may need large pieces in one): smaller -m "
				"DATA,AUX", event, what, bytes / 1024);
	if (err == EINVAL && aux)
		why = ": it has to be a power of two pages, and the PMU may "
		      "want it larger or smaller (-m DATA,AUX)";
	else if (err == EINVAL)
		why = ": a power of two pages; and an event that is inherited "
		      "cannot be mapped per thread";
	else if (err == EOPNOTSUPP)
		why = ": this PMU has no AUX area";
	else if (err == EBUSY)
		why = ": the PMU or its sink is in use by another recorder";
	else if (err == ENODEV && aux)
		why = ": no sink (CoreSight: name one, as cs_etm/@tmc_etr0/)";
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"%.60s: %s of %zu KB cannot be mapped: %s%s", event,
			what, bytes / 1024, strerror(err), why);
}
