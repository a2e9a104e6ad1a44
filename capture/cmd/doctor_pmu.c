/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * doctor: PMUs with an AUX area, those found and those that one would expect.
 *
 * Specification: Documentation/ABI/testing/sysfs-bus-event_source-devices-*;
 * Intel SDM vol. 3, IA32_VMX_MISC bit 14 (trace under VMX).
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/event/auxpmu.h"
#include "capture/cmd/doctor.h"
#include "capture/event/pmu.h"

#define DEVICES "bus/event_source/devices"

/* Names in a directory, at most len - 1 characters: "tmc_etf0 tmc_etr0". */
static size_t list_dir(const struct doctor *d, const char *dir, char *buf,
		       size_t len)
{
	size_t n = 0, used = 0;
	struct dirent *e;
	char path[1024];
	DIR *dp;

	buf[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", d->env->sys, dir);
	dp = opendir(path);
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

static void describe_pt(const struct pmu *pmu, char *buf, size_t len)
{
	snprintf(buf, len, ": %s%s%s%u address filters",
		 pmu_cap(pmu, "psb_cyc", 0) ? "cyc, " : "",
		 pmu_cap(pmu, "mtc", 0) ? "mtc, " : "",
		 pmu_cap(pmu, "ptwrite", 0) ? "ptw, " : "",
		 pmu->n_addr_filters);
}

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

static void check_pmu(struct doctor *d, const struct pmu *pmu,
		      const struct auxpmu_ops *ops)
{
	struct perf_event_attr attr;
	struct aux_diag diag = { 0 };
	int err = try_open(d, pmu, &attr);
	char more[256] = "";

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
	doctor_say(d, strstr(more, "no sink") ? DOCTOR_LIMITED : DOCTOR_OK,
		   pmu->name, strstr(more, "no sink") ?
		   "sudo modprobe -a coresight-tmc coresight-tpiu "
		   "coresight-etm4x" : "",
		   "%s can be recorded%s%s", pmu->name,
		   ops == &auxpmu_raw ? " (raw bytes)" : "", more);
	snprintf(more, sizeof(more), "-e %s//u", pmu->name);
	doctor_works(d, more);
}

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

static void expect_etm(struct doctor *d)
{
	bool module = doctor_exists(d->env->sys, "module/coresight");

	doctor_say(d, DOCTOR_NO, "cs_etm", module ?
		   "the firmware (device tree, ACPI) has to describe the "
		   "trace units; sudo modprobe -a coresight-etm4x "
		   "coresight-tmc" :
		   "sudo modprobe -a coresight coresight-etm4x coresight-tmc "
		   "coresight-funnel coresight-replicator",
		   "no such PMU (%s)", module ? "no trace unit was found" :
		   "the CoreSight driver is not loaded");
	doctor_missing(d, "cs_etm: no such PMU");
}

void doctor_check_pmus(struct doctor *d)
{
	bool pt = false, etm = false;
	char root[512], **names;
	struct pmu *pmu;
	int i, n;

	snprintf(root, sizeof(root), "%s/" DEVICES, d->env->sys);
	n = pmu_list(root, &names, NULL);
	for (i = 0; i < n; i++) {
		const struct auxpmu_ops *ops = NULL;

		pt |= !strcmp(names[i], "intel_pt");
		etm |= !strcmp(names[i], "cs_etm");
		if (!pmu_open(&pmu, root, names[i], NULL)) {
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
