/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The doctor on simulated machines: the test writes trees of /proc and /sys, gives the
 * kernel's answers, and reads the report.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/cmd/cmd.h"
#include "tests/unit/tap.h"

static char root[64];
static int answer;	/* of perf_event_open: an fd that is none, or -errno */

static int fake_open(const struct perf_event_attr *attr, pid_t pid, int cpu)
{
	(void)attr;
	(void)pid;
	(void)cpu;
	return answer;
}

static int fake_close(int fd)
{
	(void)fd;
	return 0;
}

static void put(const char *file, const char *text)
{
	char path[512], *slash;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, file);
	for (slash = path + strlen(root) + 1; (slash = strchr(slash, '/'));
	     slash++) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	f = fopen(path, "w");
	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static void clear(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	if (system(command))
		printf("# %s is left\n", root);
}

static void begin(const char *paranoid, const char *cpuinfo)
{
	char text[2048];

	snprintf(root, sizeof(root), "/tmp/auxkit-doctor-XXXXXX");
	if (!mkdtemp(root))
		exit(1);
	answer = 1000;
	put("proc/sys/kernel/perf_event_paranoid", paranoid);
	put("proc/sys/kernel/perf_event_mlock_kb", "516\n");
	put("proc/sys/kernel/kptr_restrict", "1\n");
	put("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n"
	    "Seccomp:\t0\n");
	put("proc/meminfo", "MemTotal: 1 kB\nMemAvailable: 8000000 kB\n");
	put("proc/kallsyms", "0000000000000000 T _text\n"
	    "0000000000000000 t x\n");
	snprintf(text, sizeof(text), "processor\t: 0\n%s\n\nprocessor\t: 1\n",
		 cpuinfo);
	put("proc/cpuinfo", text);
	put("sys/devices/system/cpu/online", "0-3\n");
	put("sys/kernel/security/lockdown",
	    "[none] integrity confidentiality\n");
	put("sys/bus/event_source/devices/software/type", "1\n");
}

static void put_pmu(const char *name, const char *file, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "sys/bus/event_source/devices/%s/%s",
		 name, file);
	put(path, text);
}

static void put_pt(void)
{
	put_pmu("intel_pt", "type", "8\n");
	put_pmu("intel_pt", "nr_addr_filters", "2\n");
	put_pmu("intel_pt", "format/tsc", "config:10\n");
	put_pmu("intel_pt", "caps/psb_cyc", "1\n");
	put_pmu("intel_pt", "caps/mtc", "1\n");
	put_pmu("intel_pt", "caps/ptwrite", "0\n");
}

static char proc[128], sys[128], modules[128];

static struct doctor_env make_env(const char *machine)
{
	snprintf(proc, sizeof(proc), "%s/proc", root);
	snprintf(sys, sizeof(sys), "%s/sys", root);
	snprintf(modules, sizeof(modules), "%s/modules", root);
	return (struct doctor_env){
		.proc = proc, .sys = sys, .modules = modules, .path = "/nonexistent", .cwd = "/",
		.release = "6.1.0-18-amd64", .machine = machine,
		.open = fake_open, .close = fake_close,
	};
}

/* The topic's line has this state and these words in its text or fix. */
static void expect(const struct doctor *d, const char *topic,
		   enum doctor_state state, const char *word, const char *fix)
{
	size_t i;

	for (i = 0; i < d->n; i++)
		if (!strcmp(d->lines[i].topic, topic))
			break;
	if (!ok(i < d->n, "%s is told of", topic))
		return;
	ok(d->lines[i].state == state && strstr(d->lines[i].text, word) &&
	   strstr(d->lines[i].fix, fix), "%s: %d %s [%s]", topic,
	   d->lines[i].state, d->lines[i].text, d->lines[i].fix);
}

static bool has(const struct doctor *d, const char *topic)
{
	size_t i;

	for (i = 0; i < d->n; i++)
		if (!strcmp(d->lines[i].topic, topic))
			return true;
	return false;
}

/* Debian on an Intel desktop, a user. */
static void test_intel_user(void)
{
	struct doctor_env env;
	struct doctor d;
	char summary[640];

	begin("3\n", "vendor_id\t: GenuineIntel\ncpu family\t: 6\n"
	      "model\t\t: 158\nmodel name\t: x\nflags\t\t: fpu vmx intel_pt");
	put_pt();
	answer = -EACCES;
	env = make_env("x86_64");
	ok(!doctor_run(&d, &env), "Intel, paranoid 3");
	expect(&d, "kernel", DOCTOR_OK, "aux-action", "");
	expect(&d, "kernel-bugs", DOCTOR_OK, "6.12", "");
	expect(&d, "machine", DOCTOR_OK, "no hypervisor", "");
	expect(&d, "perf-events", DOCTOR_NO, "paranoid is 3", "");
	expect(&d, "permission", DOCTOR_NO, "is 3", "setcap");
	expect(&d, "memory", DOCTOR_LIMITED, "4 CPUs", "mlock_kb");
	expect(&d, "lockdown", DOCTOR_OK, "none", "");
	expect(&d, "intel_pt", DOCTOR_NO, "paranoid is 3", "");
	expect(&d, "soft_pt-emulate", DOCTOR_LIMITED, "not installed", "apt install");
	expect(&d, "soft_pt", DOCTOR_OK, "ptrace", "");
	expect(&d, "tracepoints", DOCTOR_LIMITED, "no tracefs", "");
	expect(&d, "triggers", DOCTOR_LIMITED, "no uprobes", "UPROBE_EVENTS");
	expect(&d, "kernel-names", DOCTOR_LIMITED, "kptr_restrict 1",
	       "cap_syslog");
	expect(&d, "kernel-code", DOCTOR_LIMITED, "not there", "KCORE");
	ok(!has(&d, "intel_pt-vmx"), "this CPU traces under VMX");
	doctor_summary(&d, summary, sizeof(summary));
	ok(strstr(summary, "works now: -e soft_pt//u, -e soft_pt/step/u; "
			   "not: intel_pt") &&
	   d.n_sources == 2, "%s", summary);
	doctor_fini(&d);

	answer = 1000;
	put("proc/sys/kernel/perf_event_paranoid", "-1\n");
	put("proc/sys/kernel/yama/ptrace_scope", "3\n");
	ok(!doctor_run(&d, &env), "the same, paranoid -1");
	expect(&d, "permission", DOCTOR_OK, "is -1", "");
	expect(&d, "memory", DOCTOR_OK, "no limit", "");
	expect(&d, "intel_pt", DOCTOR_OK, "cyc, mtc, 2 address", "");
	expect(&d, "soft_pt", DOCTOR_NO, "is 3", "next boot");
	doctor_summary(&d, summary, sizeof(summary));
	ok(!strncmp(summary, "works now: -e intel_pt//u; not: soft_pt", 39),
	   "%s", summary);
	doctor_fini(&d);
	clear();
}

static void test_broadwell(void)
{
	struct doctor_env env;
	struct doctor d;

	begin("2\n", "vendor_id\t: GenuineIntel\ncpu family\t: 6\n"
	      "model\t\t: 79\nflags\t\t: vmx intel_pt");
	put_pt();
	put("sys/module/kvm_intel/refcnt", "0\n");
	env = make_env("x86_64");
	ok(!doctor_run(&d, &env), "Broadwell with kvm_intel");
	expect(&d, "intel_pt-vmx", DOCTOR_LIMITED, "PARTIAL", "modprobe -r");
	expect(&d, "permission", DOCTOR_LIMITED, "user space only", "sysctl");
	doctor_fini(&d);
	clear();
}

static void test_no_pmu(void)
{
	/* table */
	static const struct {
		const char *cpu, *word, *fix;
	} cases[] = {
		{ "vendor_id\t: GenuineIntel\nflags\t\t: vmx hypervisor",
		  "virtual machine", "pt_mode=1" },
		{ "vendor_id\t: GenuineIntel\nflags\t\t: intel_pt vmx",
		  "kernel made no PMU", "dmesg" },
		{ "vendor_id\t: GenuineIntel\nflags\t\t: intel_ptx vmx",
		  "this CPU has none", "soft_pt" },
		{ "vendor_id\t: AuthenticAMD\nflags\t\t: svm", "AMD",
		  "soft_pt" },
	};
	struct doctor_env env;
	struct doctor d;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin("1\n", cases[i].cpu);
		env = make_env("x86_64");
		ok(!doctor_run(&d, &env), "no intel_pt, case %zu", i);
		expect(&d, "intel_pt", DOCTOR_NO, cases[i].word, cases[i].fix);
		ok(strstr(d.missing, cases[i].word) != NULL,
		   "and in the summary");
		doctor_fini(&d);
		clear();
	}
}

static void test_arm64(void)
{
	struct doctor_env env;
	struct doctor d;
	char summary[640], path[200], file[256];

	begin("2\n", "Features\t: fp asimd");
	env = make_env("aarch64");
	env.release = "4.19.0";
	ok(!doctor_run(&d, &env), "arm64 without CoreSight");
	expect(&d, "kernel", DOCTOR_OK, "CAP_PERFMON (5.8", "");
	expect(&d, "cs_etm", DOCTOR_NO, "not loaded", "modprobe");
	expect(&d, "soft_etm", DOCTOR_NO, "qemu-aarch64 is not", "qemu-user");
	ok(!has(&d, "intel_pt") && !has(&d, "kernel-bugs"), "no word of Intel");
	doctor_summary(&d, summary, sizeof(summary));
	ok(!d.n_sources && !strncmp(summary, "works now: nothing", 18), "%s",
	   summary);
	doctor_fini(&d);

	put_pmu("cs_etm", "type", "9\n");
	put_pmu("cs_etm", "format/timestamp", "config:28\n");
	put_pmu("cs_etm", "sinks/tmc_etr0", "0x12345\n");
	put_pmu("arm_spe_0", "type", "10\n");
	put_pmu("arm_spe_0", "cpumask", "0-3\n");
	put("proc/device-tree/hypervisor/compatible", "kvm");
	put("bin/qemu-aarch64", "#!/bin/sh\necho -plugin\n");
	put("bin/auxkit-qemu.so", "x");
	snprintf(path, sizeof(path), "%s/bin", root);
	snprintf(file, sizeof(file), "%s/bin/qemu-aarch64", root);
	chmod(file, 0755);
	env.path = path;
	env.helper = path;
	ok(!doctor_run(&d, &env), "arm64 with CoreSight and SPE");
	expect(&d, "cs_etm", DOCTOR_OK, "tmc_etr0", "");
	expect(&d, "arm_spe_0", DOCTOR_OK, "raw bytes", "");
	expect(&d, "machine", DOCTOR_LIMITED, "virtual", "");
	expect(&d, "soft_etm", DOCTOR_OK, "-e soft_etm//u works", "");
	is_u64(d.n_sources, 3, "three sources");
	doctor_fini(&d);
	clear();
}

/* Modules that the fix for a missing sink names are those that the kernel has. */
static void test_modules(void)
{
	static const struct {
		const char *dep, *builtin, *fix;
	} kernels[] = {
		{ "kernel/drivers/hwtracing/coresight/coresight-trbe.ko.xz: "
		  "kernel/drivers/hwtracing/coresight/coresight.ko.xz\n"
		  "kernel/drivers/hwtracing/coresight/coresight.ko.xz:\n"
		  "kernel/x/y.ko: kernel/drivers/hwtracing/coresight/coresight-tmc.ko\n",
		  "", "sudo modprobe -a coresight coresight-trbe; this kernel has no "
		  "coresight-tmc: its only sink is TRBE, on CPUs that have one" },
		{ "kernel/a/coresight-tmc.ko:\n", "kernel/a/coresight.ko\n",
		  "sudo modprobe -a coresight-tmc" },
		{ "kernel/a/b.ko:\n", "kernel/c.ko\n", "a kernel with CONFIG_CORESIGHT" },
		{ NULL, NULL, "sudo modprobe -a coresight coresight-etm4x "
		  "coresight-funnel coresight-replicator coresight-tmc coresight-trbe" },
	};
	struct doctor_env env;
	struct doctor d;
	size_t i;

	for (i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		begin("2\n", "Features\t: fp asimd");
		env = make_env("aarch64");
		put_pmu("cs_etm", "type", "9\n");
		put_pmu("cs_etm", "format/timestamp", "config:28\n");
		if (kernels[i].dep) {
			put("modules/6.1.0-18-amd64/modules.dep", kernels[i].dep);
			put("modules/6.1.0-18-amd64/modules.builtin", kernels[i].builtin);
		}
		ok(!doctor_run(&d, &env), "a CPU without a sink, kernel %zu", i);
		expect(&d, "cs_etm", DOCTOR_LIMITED, "no sink", kernels[i].fix);
		doctor_fini(&d);
		clear();
	}
}

static void test_locked(void)
{
	struct doctor_env env;
	struct doctor d;

	begin("2\n", "vendor_id\t: AuthenticAMD\nflags\t\t: svm");
	put("sys/kernel/security/lockdown",
	    "none integrity [confidentiality]\n");
	put("proc/self/status", "Name:\tx\nCapEff:\t0000004000000000\n"
	    "Seccomp:\t2\n");
	answer = -EPERM;
	env = make_env("x86_64");
	ok(!doctor_run(&d, &env), "a container on a locked kernel");
	expect(&d, "permission", DOCTOR_OK, "CAP_PERFMON", "");
	expect(&d, "perf-events", DOCTOR_NO, "locked down", "");
	expect(&d, "sandbox", DOCTOR_LIMITED, "seccomp", "--cap-add PERFMON");
	expect(&d, "lockdown", DOCTOR_LIMITED, "confidentiality", "boot");
	doctor_fini(&d);
	env.release = "3.10.0-1160.el7";
	ok(!doctor_run(&d, &env), "an old kernel");
	expect(&d, "kernel", DOCTOR_NO, "no AUX area", "4.1");
	doctor_fini(&d);
	clear();
	env = make_env("x86_64");
	ok(!doctor_run(&d, &env), "no /proc, no /sys");
	expect(&d, "permission", DOCTOR_NO, "no perf events", "CONFIG");
	doctor_fini(&d);
}

int main(void)
{
	struct rlimit lock = { 64 << 10, 64 << 10 };

	setrlimit(RLIMIT_MEMLOCK, &lock);
	test_intel_user();
	test_broadwell();
	test_no_pmu();
	test_arm64();
	test_modules();
	test_locked();
	return plan_done();
}
