// SPDX-License-Identifier: GPL-2.0-only
/*
 * The blob to replay: written into debugfs in any number of pieces, it takes
 * effect as a whole when the file is closed; an empty one means silence.
 * Sources read it under RCU, from hard interrupts.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "sim.h"

#define BLOB_MAX (256UL << 20)

struct blob {
	size_t len, cap;
	u8 *data;
};

static struct blob __rcu *blob;
static DEFINE_MUTEX(blob_lock);

static void free_blob(struct blob *b)
{
	if (b)
		vfree(b->data);
	kfree(b);
}

static void publish(struct blob *b)
{
	struct blob *old;

	mutex_lock(&blob_lock);
	old = rcu_replace_pointer(blob, b, lockdep_is_held(&blob_lock));
	mutex_unlock(&blob_lock);
	synchronize_rcu();
	free_blob(old);
}

/* How many of the next `want` bytes from pos on there are. */
u64 sim_replay_left(u64 pos, u64 want)
{
	struct blob *b;

	rcu_read_lock();
	b = rcu_dereference(blob);
	if (!b || !b->len)
		want = 0;
	else if (!READ_ONCE(sim_replay_loop))
		want = pos < b->len ? min_t(u64, want, b->len - pos) : 0;
	rcu_read_unlock();
	return want;
}

void sim_replay_copy(void *to, u64 pos, size_t n)
{
	struct blob *b;

	rcu_read_lock();
	b = rcu_dereference(blob);
	while (n) {
		size_t at, k = n;

		if (!b || !b->len) {	/* replaced in between */
			memset(to, 0, n);
			break;
		}
		at = pos % b->len;
		k = min(k, b->len - at);
		memcpy(to, b->data + at, k);
		to += k;
		pos += k;
		n -= k;
	}
	rcu_read_unlock();
}

static int replay_open(struct inode *inode, struct file *file)
{
	if (!(file->f_mode & FMODE_WRITE))
		return -EINVAL;
	file->private_data = kzalloc(sizeof(struct blob), GFP_KERNEL);
	return file->private_data ? 0 : -ENOMEM;
}

static int make_room(struct blob *b, size_t want)
{
	size_t cap = max_t(size_t, want, 2 * b->cap);
	u8 *data;

	if (want > BLOB_MAX)
		return -EFBIG;
	if (want <= b->cap)
		return 0;
	data = vmalloc(cap);
	if (!data)
		return -ENOMEM;
	memcpy(data, b->data, b->len);
	vfree(b->data);
	b->data = data;
	b->cap = cap;
	return 0;
}

static ssize_t replay_write(struct file *file, const char __user *from,
			    size_t n, loff_t *pos)
{
	struct blob *b = file->private_data;
	int err;

	if (n > BLOB_MAX)
		return -EFBIG;
	err = make_room(b, b->len + n);
	if (err)
		return err;
	if (copy_from_user(b->data + b->len, from, n))
		return -EFAULT;
	b->len += n;
	return n;
}

static int replay_release(struct inode *inode, struct file *file)
{
	publish(file->private_data);
	return 0;
}

const struct file_operations sim_replay_fops = {
	.owner = THIS_MODULE,
	.open = replay_open,
	.write = replay_write,
	.release = replay_release,
};

void sim_replay_free(void)
{
	publish(NULL);
}
