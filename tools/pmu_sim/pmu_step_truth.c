/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * debugfs/pmu_step: `stat`, counters; `truth`, all instructions that ran, in
 * the layout of capture/soft/truth.h, noted before anything is encoded.
 *
 * truth is kept when the module is loaded with truth_mb=N; what does not fit
 * is counted as truth_lost. Writing anything to stat clears both.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "capture/soft/truth.h"

#include "pmu_step.h"

#define N_TIDS 32768	/* pid_max of a small machine */
#define BLOCK_MAX 60000	/* bytes of one block */

static unsigned int truth_mb;
module_param(truth_mb, uint, 0444);
MODULE_PARM_DESC(truth_mb, "megabytes of truth to keep, 0 for none");

static const char *const stat_names[STEP_N_STATS] = {
	"insns", "syscalls", "async", "unexplained", "endless", "overruns",
	"passed", "bytes",
};

static atomic64_t stats[STEP_N_STATS];

static struct {
	raw_spinlock_t lock;
	u8 *data;
	size_t size, used;
	size_t block;		/* where the open one starts, or 0 */
	struct truth_block head;
	u64 *last_ip;		/* per tid */
	u64 lost;
} truth = { .lock = __RAW_SPIN_LOCK_UNLOCKED(truth.lock) };

static struct dentry *dir;

void step_count(enum step_stat what, u64 n)
{
	atomic64_add(n, &stats[what]);
}

static void close_block(void)
{
	if (truth.block)
		memcpy(truth.data + truth.block, &truth.head,
		       sizeof(truth.head));
	truth.block = 0;
}

static void open_block(u32 tid)
{
	close_block();
	truth.head = (struct truth_block){ .tid = tid };
	truth.block = truth.used;
	truth.used += sizeof(truth.head);
}

void step_truth_add(pid_t tid, u64 ip)
{
	u64 *last;
	unsigned long flags;
	size_t n;

	if (!truth.data)
		return;
	raw_spin_lock_irqsave(&truth.lock, flags);
	last = &truth.last_ip[tid % N_TIDS];
	if (truth.used + sizeof(truth.head) + TRUTH_MAX_DELTA > truth.size) {
		truth.lost++;
	} else {
		if (!truth.block || truth.head.tid != (u32)tid ||
		    truth.head.n_bytes > BLOCK_MAX)
			open_block((u32)tid);
		n = truth_put(truth.data + truth.used, ip, *last);
		*last = ip;
		truth.used += n;
		truth.head.n_bytes += n;
		truth.head.n_insns++;
	}
	raw_spin_unlock_irqrestore(&truth.lock, flags);
}

/* The magic and the version, and nothing else. */
static void clear_truth(void)
{
	const u32 version[2] = { TRUTH_VERSION, 0 };
	unsigned long flags;

	if (!truth.data)
		return;
	raw_spin_lock_irqsave(&truth.lock, flags);
	memcpy(truth.data, TRUTH_MAGIC, 8);
	memcpy(truth.data + 8, version, sizeof(version));
	truth.used = 16;
	truth.block = 0;
	truth.lost = 0;
	memset(truth.last_ip, 0, N_TIDS * sizeof(*truth.last_ip));
	raw_spin_unlock_irqrestore(&truth.lock, flags);
}

static int show_stat(struct seq_file *m, void *unused)
{
	size_t i;

	for (i = 0; i < STEP_N_STATS; i++)
		seq_printf(m, "%s %lld\n", stat_names[i],
			   atomic64_read(&stats[i]));
	seq_printf(m, "truth_bytes %zu\ntruth_lost %llu\n", truth.used,
		   truth.lost);
	return 0;
}

static int open_stat(struct inode *inode, struct file *file)
{
	return single_open(file, show_stat, NULL);
}

static ssize_t write_stat(struct file *file, const char __user *buf, size_t n,
			  loff_t *pos)
{
	size_t i;

	for (i = 0; i < STEP_N_STATS; i++)
		atomic64_set(&stats[i], 0);
	clear_truth();
	return (ssize_t)n;
}

static const struct file_operations stat_ops = {
	.owner = THIS_MODULE,
	.open = open_stat,
	.read = seq_read,
	.write = write_stat,
	.llseek = seq_lseek,
	.release = single_release,
};

/* The open block's head is written first: the reader sees it whole. */
static ssize_t read_truth(struct file *file, char __user *buf, size_t n,
			  loff_t *pos)
{
	unsigned long flags;
	size_t used;

	raw_spin_lock_irqsave(&truth.lock, flags);
	close_block();
	used = truth.used;
	raw_spin_unlock_irqrestore(&truth.lock, flags);
	return simple_read_from_buffer(buf, n, pos, truth.data, used);
}

static const struct file_operations truth_ops = {
	.owner = THIS_MODULE,
	.read = read_truth,
	.llseek = default_llseek,
};

static int alloc_truth(void)
{
	truth.size = (size_t)truth_mb << 20;
	if (!truth.size)
		return 0;
	truth.last_ip = vzalloc(N_TIDS * sizeof(*truth.last_ip));
	truth.data = truth.last_ip ? vmalloc(truth.size) : NULL;
	if (!truth.data) {
		vfree(truth.last_ip);
		return -ENOMEM;
	}
	clear_truth();
	return 0;
}

int step_truth_init(void)
{
	int err = alloc_truth();

	if (err)
		return err;
	dir = debugfs_create_dir("pmu_step", NULL);
	debugfs_create_file("stat", 0600, dir, NULL, &stat_ops);
	if (truth.data)
		debugfs_create_file("truth", 0400, dir, NULL, &truth_ops);
	return 0;
}

void step_truth_exit(void)
{
	debugfs_remove_recursive(dir);
	vfree(truth.data);
	vfree(truth.last_ip);
}
