// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sysfs face of CoreSight's cs_etm: format/, sinks/ and, for each CPU, the
 * registers that a recorder copies into the file's header. They describe an
 * ETMv4 as in a Cortex-A53.
 *
 * Specification: Arm IHI 0064 (ETMv4), TRCIDR0-13, TRCAUTHSTATUS, TRCDEVARCH.
 */
#include <linux/cpumask.h>
#include <linux/kobject.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/version.h>

#include "sim.h"

PMU_FORMAT_ATTR(branch_broadcast, "config:8");
PMU_FORMAT_ATTR(cycacc,		"config:12");
PMU_FORMAT_ATTR(contextid,	"config:14");
PMU_FORMAT_ATTR(contextid1,	"config:14");
PMU_FORMAT_ATTR(contextid2,	"config:15");
PMU_FORMAT_ATTR(timestamp,	"config:28");
PMU_FORMAT_ATTR(retstack,	"config:29");
PMU_FORMAT_ATTR(preset,		"config:0-3");
PMU_FORMAT_ATTR(sinkid,		"config2:0-31");
PMU_FORMAT_ATTR(configid,	"config2:32-63");
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)	/* has config3 */
PMU_FORMAT_ATTR(cc_threshold,	"config3:0-11");
#endif

static struct attribute *format_attrs[] = {
	&format_attr_branch_broadcast.attr,
	&format_attr_cycacc.attr,
	&format_attr_contextid.attr,
	&format_attr_contextid1.attr,
	&format_attr_contextid2.attr,
	&format_attr_timestamp.attr,
	&format_attr_retstack.attr,
	&format_attr_preset.attr,
	&format_attr_sinkid.attr,
	&format_attr_configid.attr,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	&format_attr_cc_threshold.attr,
#endif
	NULL,
};

static const struct attribute_group format_group = {
	.name = "format", .attrs = format_attrs,
};

/* The kernel shows a hash of the sink's name; any 32-bit number will do. */
PMU_EVENT_ATTR_STRING(tmc_etr0, sink_tmc_etr0, "0x5a5ae001");
PMU_EVENT_ATTR_STRING(tmc_etf0, sink_tmc_etf0, "0x5a5ae002");

static struct attribute *sink_attrs[] = {
	&sink_tmc_etr0.attr.attr,
	&sink_tmc_etf0.attr.attr,
	NULL,
};

static const struct attribute_group sink_group = {
	.name = "sinks", .attrs = sink_attrs,
};

const struct attribute_group *sim_etm_attr_groups[] = {
	&format_group, &sink_group, NULL,
};

struct reg {
	struct kobj_attribute attr;
	u32 value;
};

static ssize_t show_reg(struct kobject *kobj, struct kobj_attribute *attr,
			char *page)
{
	return sysfs_emit(page, "0x%x\n",
			  container_of(attr, struct reg, attr)->value);
}

#define REG(_name, _value)						\
	static struct reg reg_##_name = {				\
		.attr = __ATTR(_name, 0444, show_reg, NULL),		\
		.value = (_value),					\
	}

REG(trcidr0, 0x28000ea1);
REG(trcidr1, 0x4100f403);
REG(trcidr2, 0x00000488);
REG(trcidr3, 0x0d7b0004);
REG(trcidr4, 0x11170004);
REG(trcidr5, 0x28c7081e);
REG(trcidr8, 0);
REG(trcidr9, 0);
REG(trcidr10, 0);
REG(trcidr11, 0);
REG(trcidr12, 0);
REG(trcidr13, 0);
REG(trcauthstatus, 0xcc);
REG(trcdevarch, 0x47704a13);
REG(trcconfig, 0xc1);
REG(trctraceid, 0x10);

#define R(_name) (&reg_##_name.attr.attr)
static struct attribute *trcidr_attrs[] = {
	R(trcidr0), R(trcidr1), R(trcidr2), R(trcidr3), R(trcidr4),
	R(trcidr5), R(trcidr8), R(trcidr9), R(trcidr10), R(trcidr11),
	R(trcidr12), R(trcidr13), NULL,
};
static struct attribute *mgmt_attrs[] = {
	R(trcauthstatus), R(trcdevarch), R(trcconfig), R(trctraceid), NULL,
};

static const struct attribute_group trcidr_group = {
	.name = "trcidr", .attrs = trcidr_attrs,
};
static const struct attribute_group mgmt_group = {
	.name = "mgmt", .attrs = mgmt_attrs,
};

static struct kobject **cpu_dirs;

int sim_etm_add_cpus(struct device *dev)
{
	unsigned int cpu;

	cpu_dirs = kcalloc(nr_cpu_ids, sizeof(*cpu_dirs), GFP_KERNEL);
	if (!cpu_dirs)
		return -ENOMEM;
	for_each_present_cpu(cpu) {
		char name[16];
		int err;

		snprintf(name, sizeof(name), "cpu%u", cpu);
		cpu_dirs[cpu] = kobject_create_and_add(name, &dev->kobj);
		if (!cpu_dirs[cpu])
			return -ENOMEM;
		err = sysfs_create_group(cpu_dirs[cpu], &trcidr_group);
		if (!err)
			err = sysfs_create_group(cpu_dirs[cpu], &mgmt_group);
		if (err)
			return err;
	}
	return 0;
}

void sim_etm_remove_cpus(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu_dirs && cpu < nr_cpu_ids; cpu++)
		kobject_put(cpu_dirs[cpu]);
	kfree(cpu_dirs);
	cpu_dirs = NULL;
}
