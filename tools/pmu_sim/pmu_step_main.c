/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmu_step: a PMU named intel_pt whose trace is what really ran.
 *
 * While an event is scheduled in, the user code of its task is single-stepped
 * (pmu_step_flow.c) and each step encoded as Intel PT. To perf this is the
 * hardware: same name, same sysfs files, packets in the AUX area, TSC on
 * perf's clock. What a stepper cannot offer (MTC, CYC, PTWRITE, power events,
 * address filters, kernel code) is not in caps/ and is refused.
 */
#include <linux/cpuhotplug.h>
#include <linux/module.h>

#include "intel_pt_attrs.h"
#include "pmu_step.h"

#define STEP_CONFIG_MASK (STEP_CONFIG_PT | STEP_CONFIG_TSC |		\
			  STEP_CONFIG_NORETCOMP | STEP_CONFIG_BRANCH |	\
			  STEP_CONFIG_PSB)
#define PSB_PERIOD_MAX 5

DEFINE_PER_CPU(struct step_cpu, step_cpus);

static int init_event(struct perf_event *event)
{
	u64 config = event->attr.config;

	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (config & ~STEP_CONFIG_MASK || event->attr.exclude_user ||
	    (config & STEP_CONFIG_PSB) >> STEP_CONFIG_PSB_SHIFT >
		    PSB_PERIOD_MAX)
		return -EINVAL;
	return 0;
}

/* Other events of the group pause and resume it (Linux 6.13). */
#ifdef PERF_PMU_CAP_AUX_PAUSE
#define STEP_CAP_PAUSE PERF_PMU_CAP_AUX_PAUSE
#define STEP_PAUSE PERF_EF_PAUSE
#define STEP_RESUME PERF_EF_RESUME

static bool is_paused(const struct perf_event *event)
{
	return event->hw.aux_paused;
}
#else
#define STEP_CAP_PAUSE 0
#define STEP_PAUSE 0
#define STEP_RESUME 0

static bool is_paused(const struct perf_event *event)
{
	return false;
}
#endif

static void start_event(struct perf_event *event, int mode)
{
	struct step_cpu *c = this_cpu_ptr(&step_cpus);

	if (mode & STEP_RESUME) {
		if (c->event == event)
			c->paused = false;
		return;
	}
	event->hw.state = 0;
	if (c->event == event)
		return;
	c->paused = is_paused(event);
	if (c->event || !step_aux_open(c, event))
		event->hw.state = PERF_HES_STOPPED;
}

static void stop_event(struct perf_event *event, int mode)
{
	struct step_cpu *c = this_cpu_ptr(&step_cpus);

	if (mode & STEP_PAUSE) {
		if (c->event == event) {
			step_flow_leave(c);
			c->paused = true;
		}
		return;
	}
	event->hw.state |= PERF_HES_STOPPED;
	if (c->event != event)
		return;
	step_flow_leave(c);
	if (c->event)
		step_aux_close(c);
}

static int add_event(struct perf_event *event, int mode)
{
	struct step_cpu *c = this_cpu_ptr(&step_cpus);

	if (c->event)
		return -EBUSY;
	event->hw.state = PERF_HES_STOPPED;
	if (!(mode & PERF_EF_START))
		return 0;
	start_event(event, 0);
	return event->hw.state & PERF_HES_STOPPED ? -EINVAL : 0;
}

static void del_event(struct perf_event *event, int mode)
{
	stop_event(event, PERF_EF_UPDATE);
}

static void read_event(struct perf_event *event)
{
}

static struct pmu step_pmu = {
	.module = THIS_MODULE,
	.capabilities = PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_ITRACE |
			STEP_CAP_PAUSE,
	.attr_groups = intel_pt_attr_groups,
	.task_ctx_nr = perf_sw_context,
	.event_init = init_event,
	.add = add_event,
	.del = del_event,
	.start = start_event,
	.stop = stop_event,
	.read = read_event,
	.setup_aux = step_aux_setup,
	.free_aux = step_aux_free,
};

static void declare_caps(void)
{
	intel_pt_cap_cr3_filtering.value = 0;
	intel_pt_cap_ip_filtering.value = 0;
	intel_pt_cap_num_address_ranges.value = 0;
	intel_pt_cap_mtc.value = 0;
	intel_pt_cap_mtc_periods.value = 0;
	intel_pt_cap_cycle_thresholds.value = 0;
	intel_pt_cap_ptwrite.value = 0;
	intel_pt_cap_power_event_trace.value = 0;
}

static int __init step_init(void)
{
	int err;

	declare_caps();
	err = step_truth_init();
	if (err)
		return err;
	err = step_flow_init();
	if (err)
		goto no_flow;
	err = perf_pmu_register(&step_pmu, "intel_pt", -1);
	if (!err)
		return 0;
	step_flow_exit();
no_flow:
	step_truth_exit();
	return err;
}

static void __exit step_exit(void)
{
	perf_pmu_unregister(&step_pmu);
	step_flow_exit();
	step_truth_exit();
}

module_init(step_init);
module_exit(step_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("intel_pt by single-stepping: real execution, no hardware");
