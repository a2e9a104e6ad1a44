// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/pmu_sim: stat, sessions, filters (read), reset, inject,
 * replay (write). Lines are `key value`, the key `PMU.cpuN.NAME`.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "sim.h"

struct sim_inject sim_inject;
static struct dentry *dir;

static void show_source(struct seq_file *m, const struct sim_cpu *c)
{
#define LINE(name) seq_printf(m, "%s.cpu%u." #name " %llu\n", \
	sim_name(c->sim->kind), c->cpu, READ_ONCE(c->n.name))
	LINE(produced);
	LINE(stored);
	LINE(lost);
	LINE(lost_stalled);
	LINE(unmade);
	LINE(skipped);
	LINE(padded);
	LINE(starts);
	LINE(stops);
	LINE(sessions);
	LINE(ticks);
	LINE(records);
	LINE(truncated);
	LINE(begin_failed);
	LINE(injected);
	LINE(samples);
	LINE(pauses);
	LINE(resumes);
#undef LINE
	seq_printf(m, "%s.cpu%u.running %d\n", sim_name(c->sim->kind), c->cpu,
		   !!READ_ONCE(c->buf));
}

static void show_sessions(struct seq_file *m, const struct sim_cpu *c)
{
	u64 n = smp_load_acquire(&c->n.sessions);
	u64 i = n > SIM_N_SESSION ? n - SIM_N_SESSION : 0;

	for (; i < n; i++)
		seq_printf(m, "%s.cpu%u.session %llu %llu %llu %llu\n",
			   sim_name(c->sim->kind), c->cpu,
			   c->session[i % SIM_N_SESSION].start,
			   c->session[i % SIM_N_SESSION].end,
			   c->session[i % SIM_N_SESSION].start_ns,
			   c->session[i % SIM_N_SESSION].end_ns);
}

static void each_source(struct seq_file *m, void (*show)(struct seq_file *m,
						const struct sim_cpu *c))
{
	unsigned int cpu;
	int i;

	for (i = 0; i < SIM_N_KIND; i++) {
		if (!sim_pmus[i].registered)
			continue;
		for_each_online_cpu(cpu)
			show(m, per_cpu_ptr(sim_pmus[i].cpus, cpu));
	}
}

static int stat_show(struct seq_file *m, void *unused)
{
	each_source(m, show_source);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stat);

static int sessions_show(struct seq_file *m, void *unused)
{
	each_source(m, show_sessions);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sessions);

static int filters_show(struct seq_file *m, void *unused)
{
	sim_event_show_filters(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(filters);

/* Runs on the source's CPU with interrupts off. */
static void reset_source(void *arg)
{
	struct sim_pmu *s = arg;
	struct sim_cpu *c = this_cpu_ptr(s->cpus);

	c->inject_seen = sim_inject.gen;
	c->inject_left = 0;
	if (!c->event)
		memset(&c->n, 0, sizeof(c->n));
}

/* Counters and pattern of idle sources start at zero; orders are dropped. */
static ssize_t reset_write(struct file *file, const char __user *text,
			   size_t n, loff_t *pos)
{
	int i;

	for (i = 0; i < SIM_N_KIND; i++)
		if (sim_pmus[i].registered)
			on_each_cpu(reset_source, &sim_pmus[i], 1);
	return n;
}

static const struct file_operations reset_fops = {
	.owner = THIS_MODULE,
	.write = reset_write,
};

/* "FLAGS COUNT SKIP": for the next COUNT records of every source. */
static ssize_t inject_write(struct file *file, const char __user *text,
			    size_t n, loff_t *pos)
{
	unsigned long long flags, skip = 0;
	unsigned int count = 1;
	char line[64];

	if (n >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, text, n))
		return -EFAULT;
	line[n] = 0;
	if (sscanf(line, "%lli %u %lli", &flags, &count, &skip) < 1)
		return -EINVAL;
	WRITE_ONCE(sim_inject.flags, flags);
	WRITE_ONCE(sim_inject.count, count);
	WRITE_ONCE(sim_inject.skip, skip);
	smp_wmb();	/* a source that sees the new gen sees the order */
	WRITE_ONCE(sim_inject.gen, sim_inject.gen + 1);
	return n;
}

static const struct file_operations inject_fops = {
	.owner = THIS_MODULE,
	.write = inject_write,
};

int sim_debugfs_init(void)
{
	dir = debugfs_create_dir("pmu_sim", NULL);
	if (IS_ERR(dir))
		return PTR_ERR(dir);
	debugfs_create_file("stat", 0444, dir, NULL, &stat_fops);
	debugfs_create_file("sessions", 0444, dir, NULL, &sessions_fops);
	debugfs_create_file("filters", 0444, dir, NULL, &filters_fops);
	debugfs_create_file("reset", 0200, dir, NULL, &reset_fops);
	debugfs_create_file("inject", 0200, dir, NULL, &inject_fops);
	debugfs_create_file("replay", 0600, dir, NULL, &sim_replay_fops);
	return 0;
}

void sim_debugfs_exit(void)
{
	debugfs_remove_recursive(dir);
	dir = NULL;
}
