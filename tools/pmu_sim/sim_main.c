// SPDX-License-Identifier: GPL-2.0-only
/*
 * pmu_sim: registers the PMUs that its parameter `names` lists.
 *
 * Unloading is safe: an open event holds the module, so that no event, handle
 * or running timer is left when it goes.
 */
#include <linux/cpumask.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#include "sim.h"

struct sim_pmu sim_pmus[SIM_N_KIND];

/* Copies out of an AUX area into a sample; the core does not export it. */
long (*sim_copy_aux)(struct perf_output_handle *aux,
		     struct perf_output_handle *out,
		     unsigned long from, unsigned long to);

const char *sim_name(enum sim_kind kind)
{
	static const char *const names[] = { "aux_sim", "intel_pt", "cs_etm" };

	return names[kind];
}

static void find_copy_aux(void)
{
	struct kprobe kp = { .symbol_name = "perf_output_copy_aux" };

	if (register_kprobe(&kp)) {
		pr_info("pmu_sim: no AUX samples: %s not found\n",
			kp.symbol_name);
		return;
	}
	sim_copy_aux = (void *)kp.addr;
	unregister_kprobe(&kp);
}

static enum hrtimer_restart tick(struct hrtimer *timer)
{
	struct sim_cpu *c = container_of(timer, struct sim_cpu, timer);

	if (!c->event || !c->buf)
		return HRTIMER_NORESTART;
	c->n.ticks++;
	sim_data_advance(c);
	if (!c->buf)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(READ_ONCE(sim_tick_us) * 1000));
	return HRTIMER_RESTART;
}

static void free_cpus(struct sim_pmu *s)
{
	unsigned int cpu;

	if (!s->cpus)
		return;
	for_each_possible_cpu(cpu)
		vfree(per_cpu_ptr(s->cpus, cpu)->session);
	free_percpu(s->cpus);
	s->cpus = NULL;
}

static int make_cpus(struct sim_pmu *s)
{
	unsigned int cpu;

	s->cpus = alloc_percpu(struct sim_cpu);
	if (!s->cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct sim_cpu *c = per_cpu_ptr(s->cpus, cpu);

		c->sim = s;
		c->cpu = cpu;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
		hrtimer_setup(&c->timer, tick, CLOCK_MONOTONIC,
			      HRTIMER_MODE_REL_PINNED_HARD);
#else
		hrtimer_init(&c->timer, CLOCK_MONOTONIC,
			     HRTIMER_MODE_REL_PINNED_HARD);
		c->timer.function = tick;
#endif
		c->session = vzalloc(SIM_N_SESSION * sizeof(*c->session));
		if (!c->session) {
			free_cpus(s);
			return -ENOMEM;
		}
	}
	return 0;
}

static int add_pmu(enum sim_kind kind)
{
	struct sim_pmu *s = &sim_pmus[kind];
	int err;

	if (s->registered)
		return -EEXIST;
	s->kind = kind;
	err = make_cpus(s);
	if (err)
		return err;
	sim_event_setup(s);
	err = perf_pmu_register(&s->pmu, sim_name(kind), -1);
	if (err) {
		free_cpus(s);
		return err;
	}
	s->registered = true;
	if (kind == SIM_ETM)
		err = sim_etm_add_cpus(s->pmu.dev);
	return err;
}

static void remove_pmus(void)
{
	int i;

	for (i = 0; i < SIM_N_KIND; i++) {
		if (!sim_pmus[i].registered)
			continue;
		if (i == SIM_ETM)
			sim_etm_remove_cpus();
		perf_pmu_unregister(&sim_pmus[i].pmu);
		sim_pmus[i].registered = false;
		free_cpus(&sim_pmus[i]);
	}
}

static int add_named(const char *word)
{
	int i;

	for (i = 0; i < SIM_N_KIND; i++)
		if (!strcmp(word, sim_name(i)))
			return add_pmu(i);
	pr_err("pmu_sim: no PMU is called '%s'\n", word);
	return -EINVAL;
}

static int add_pmus(const char *names)
{
	char *copy = kstrdup(names, GFP_KERNEL), *rest = copy, *word;
	int err = copy ? 0 : -ENOMEM;

	while (!err && (word = strsep(&rest, ",")))
		if (*word)
			err = add_named(word);
	kfree(copy);
	return err;
}

static int __init pmu_sim_init(void)
{
	int err;

	find_copy_aux();
	err = sim_debugfs_init();
	if (!err)
		err = add_pmus(sim_names);
	if (err) {
		remove_pmus();
		sim_debugfs_exit();
	}
	return err;
}

static void __exit pmu_sim_exit(void)
{
	sim_debugfs_exit();
	remove_pmus();
	sim_replay_free();
}

module_init(pmu_sim_init);
module_exit(pmu_sim_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("PMUs with an AUX area that need no trace hardware");
