/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The sysfs face of Intel PT: format/, caps/ and the two timing files, named
 * and printed as the kernel's own driver does, so that a tool which looks for
 * `intel_pt` finds all that it asks for. Include it in one file of a module.
 *
 * Invariant: every bit that a format names is in INTEL_PT_CONFIG_MASK.
 * Specification: Intel SDM vol. 3, IA32_RTIT_CTL; CPUID leaf 14h.
 */
#ifndef TOOLS_PMU_SIM_INTEL_PT_ATTRS_H
#define TOOLS_PMU_SIM_INTEL_PT_ATTRS_H

#include <linux/device.h>
#include <linux/perf_event.h>
#include <linux/sysfs.h>

PMU_FORMAT_ATTR(pt,		"config:0");
PMU_FORMAT_ATTR(cyc,		"config:1");
PMU_FORMAT_ATTR(pwr_evt,	"config:4");
PMU_FORMAT_ATTR(fup_on_ptw,	"config:5");
PMU_FORMAT_ATTR(mtc,		"config:9");
PMU_FORMAT_ATTR(tsc,		"config:10");
PMU_FORMAT_ATTR(noretcomp,	"config:11");
PMU_FORMAT_ATTR(ptw,		"config:12");
PMU_FORMAT_ATTR(branch,		"config:13");
PMU_FORMAT_ATTR(mtc_period,	"config:14-17");
PMU_FORMAT_ATTR(cyc_thresh,	"config:19-22");
PMU_FORMAT_ATTR(psb_period,	"config:24-27");
PMU_FORMAT_ATTR(event,		"config:31");
PMU_FORMAT_ATTR(notnt,		"config:55");

#define INTEL_PT_CONFIG_MASK						\
	(BIT_ULL(0) | BIT_ULL(1) | BIT_ULL(4) | BIT_ULL(5) |		\
	 GENMASK_ULL(17, 9) | GENMASK_ULL(22, 19) |			\
	 GENMASK_ULL(27, 24) | BIT_ULL(31) | BIT_ULL(55))

static struct attribute *intel_pt_format_attrs[] = {
	&format_attr_pt.attr,
	&format_attr_cyc.attr,
	&format_attr_pwr_evt.attr,
	&format_attr_event.attr,
	&format_attr_notnt.attr,
	&format_attr_fup_on_ptw.attr,
	&format_attr_mtc.attr,
	&format_attr_tsc.attr,
	&format_attr_noretcomp.attr,
	&format_attr_ptw.attr,
	&format_attr_branch.attr,
	&format_attr_mtc_period.attr,
	&format_attr_cyc_thresh.attr,
	&format_attr_psb_period.attr,
	NULL,
};

static const struct attribute_group intel_pt_format_group = {
	.name = "format",
	.attrs = intel_pt_format_attrs,
};

/* A module may change .value before it registers its PMU. */
struct intel_pt_cap {
	struct device_attribute attr;
	u32 value;
};

static ssize_t show_intel_pt_cap(struct device *dev,
				 struct device_attribute *attr, char *page)
{
	return sysfs_emit(page, "%x\n",
			  container_of(attr, struct intel_pt_cap, attr)->value);
}

#define INTEL_PT_CAP(_name, _value)					\
	static struct intel_pt_cap intel_pt_cap_##_name = {		\
		.attr = __ATTR(_name, 0444, show_intel_pt_cap, NULL),	\
		.value = (_value),					\
	}

INTEL_PT_CAP(max_subleaf, 1);
INTEL_PT_CAP(cr3_filtering, 1);
INTEL_PT_CAP(psb_cyc, 1);
INTEL_PT_CAP(ip_filtering, 1);
INTEL_PT_CAP(mtc, 1);
INTEL_PT_CAP(ptwrite, 1);
INTEL_PT_CAP(power_event_trace, 1);
INTEL_PT_CAP(event_trace, 0);
INTEL_PT_CAP(tnt_disable, 0);
INTEL_PT_CAP(topa_output, 1);
INTEL_PT_CAP(topa_multiple_entries, 1);
INTEL_PT_CAP(single_range_output, 1);
INTEL_PT_CAP(output_subsys, 0);
INTEL_PT_CAP(payloads_lip, 0);
INTEL_PT_CAP(num_address_ranges, 2);
INTEL_PT_CAP(mtc_periods, 0x249);
INTEL_PT_CAP(cycle_thresholds, 0x1fff);
INTEL_PT_CAP(psb_periods, 0x3f);

static struct attribute *intel_pt_cap_attrs[] = {
	&intel_pt_cap_max_subleaf.attr.attr,
	&intel_pt_cap_cr3_filtering.attr.attr,
	&intel_pt_cap_psb_cyc.attr.attr,
	&intel_pt_cap_ip_filtering.attr.attr,
	&intel_pt_cap_mtc.attr.attr,
	&intel_pt_cap_ptwrite.attr.attr,
	&intel_pt_cap_power_event_trace.attr.attr,
	&intel_pt_cap_event_trace.attr.attr,
	&intel_pt_cap_tnt_disable.attr.attr,
	&intel_pt_cap_topa_output.attr.attr,
	&intel_pt_cap_topa_multiple_entries.attr.attr,
	&intel_pt_cap_single_range_output.attr.attr,
	&intel_pt_cap_output_subsys.attr.attr,
	&intel_pt_cap_payloads_lip.attr.attr,
	&intel_pt_cap_num_address_ranges.attr.attr,
	&intel_pt_cap_mtc_periods.attr.attr,
	&intel_pt_cap_cycle_thresholds.attr.attr,
	&intel_pt_cap_psb_periods.attr.attr,
	NULL,
};

static const struct attribute_group intel_pt_cap_group = {
	.name = "caps",
	.attrs = intel_pt_cap_attrs,
};

/* What CPUID 15h and MSR_PLATFORM_INFO would give: 24 MHz times 125 = 3 GHz. */
static ssize_t max_nonturbo_ratio_show(struct device *dev,
				       struct device_attribute *attr,
				       char *page)
{
	return sysfs_emit(page, "%u\n", 30);
}
static DEVICE_ATTR_RO(max_nonturbo_ratio);

static ssize_t tsc_art_ratio_show(struct device *dev,
				  struct device_attribute *attr, char *page)
{
	return sysfs_emit(page, "%u:%u\n", 250, 2);
}
static DEVICE_ATTR_RO(tsc_art_ratio);

static struct attribute *intel_pt_timing_attrs[] = {
	&dev_attr_max_nonturbo_ratio.attr,
	&dev_attr_tsc_art_ratio.attr,
	NULL,
};

static const struct attribute_group intel_pt_timing_group = {
	.attrs = intel_pt_timing_attrs,
};

/* For struct pmu's attr_groups. nr_addr_filters is the core's to show. */
static const struct attribute_group *intel_pt_attr_groups[] = {
	&intel_pt_cap_group,
	&intel_pt_format_group,
	&intel_pt_timing_group,
	NULL,
};

#endif
