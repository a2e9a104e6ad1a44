// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module's parameters, under /sys/module/pmu_sim/parameters. All but
 * `names` may be written at any time and count from the next tick on (head:
 * from the next mapping of an AUX area on).
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/string.h>

#include "sim.h"

char *sim_names = "aux_sim";
module_param_named(names, sim_names, charp, 0444);
MODULE_PARM_DESC(names, "PMUs to register: aux_sim,intel_pt,cs_etm");

unsigned long sim_rate = 1000000;
module_param_named(rate, sim_rate, ulong, 0644);
MODULE_PARM_DESC(rate, "bytes per second on each CPU");

unsigned int sim_flags;
module_param_named(flags, sim_flags, uint, 0644);
MODULE_PARM_DESC(flags, "AUX flags of every record, such as 0x100");

int sim_replay_cpu = -1;
module_param_named(replay_cpu, sim_replay_cpu, int, 0644);
MODULE_PARM_DESC(replay_cpu, "replay on this CPU only; -1: on all");

bool sim_replay_loop;
module_param_named(replay_loop, sim_replay_loop, bool, 0644);
MODULE_PARM_DESC(replay_loop, "replay again and again");

bool sim_mute;
module_param_named(mute, sim_mute, bool, 0644);
MODULE_PARM_DESC(mute, "stop for want of room without the TRUNCATED flag");

/* Numbers within bounds, so that no tick can divide by zero or flood. */
struct bounded {
	unsigned long *value, min, max;
};

static int set_bounded(const char *text, const struct kernel_param *kp)
{
	const struct bounded *b = kp->arg;
	unsigned long v;
	int err = kstrtoul(text, 0, &v);

	if (err)
		return err;
	if (v < b->min || v > b->max)
		return -ERANGE;
	WRITE_ONCE(*b->value, v);
	return 0;
}

static int get_bounded(char *text, const struct kernel_param *kp)
{
	const struct bounded *b = kp->arg;

	return sysfs_emit(text, "%lu\n", *b->value);
}

static const struct kernel_param_ops bounded_ops = {
	.set = set_bounded,
	.get = get_bounded,
};

unsigned long sim_tick_us = 1000;
static struct bounded tick_us = { &sim_tick_us, 50, 10000000 };
module_param_cb(tick_us, &bounded_ops, &tick_us, 0644);
MODULE_PARM_DESC(tick_us, "microseconds between two deliveries");

unsigned long sim_unit = 8;
static struct bounded unit = { &sim_unit, 1, 4096 };
module_param_cb(unit, &bounded_ops, &unit, 0644);
MODULE_PARM_DESC(unit, "bytes are made, stored and lost in multiples of this");

unsigned long sim_align = 1;
static struct bounded align = { &sim_align, 1, 65536 };
module_param_cb(align, &bounded_ops, &align, 0644);
MODULE_PARM_DESC(align, "records start at a multiple of this");

/* Words out of a list. */
struct choice {
	int *value;
	const char *const *words;
};

static int set_choice(const char *text, const struct kernel_param *kp)
{
	const struct choice *c = kp->arg;
	int i = __sysfs_match_string(c->words, -1, text);

	if (i < 0)
		return i;
	WRITE_ONCE(*c->value, i);
	return 0;
}

static int get_choice(char *text, const struct kernel_param *kp)
{
	const struct choice *c = kp->arg;

	return sysfs_emit(text, "%s\n", c->words[*c->value]);
}

static const struct kernel_param_ops choice_ops = {
	.set = set_choice,
	.get = get_choice,
};

enum sim_head sim_head = SIM_HEAD_AUTO;
static const char *const head_words[] = { "auto", "offset", "growing", NULL };
static struct choice head = { (int *)&sim_head, head_words };
module_param_cb(head, &choice_ops, &head, 0644);
MODULE_PARM_DESC(head, "of an overwritten area: offset, growing, or the PMU's");

enum sim_payload sim_payload = SIM_PATTERN;
static const char *const payload_words[] = {
	"auto", "pattern", "replay", NULL
};
static struct choice payload = { (int *)&sim_payload, payload_words };
module_param_cb(payload, &choice_ops, &payload, 0644);
MODULE_PARM_DESC(payload, "pattern, or replay of what debugfs replay holds");
