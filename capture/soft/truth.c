/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes the truth file (truth.h): the addresses as the tracer observed them.
 *
 * It shares nothing with the encoder, so that a test compares two independent
 * results. Addresses are deltas to the same tid's previous one, across blocks
 * and across the reuse of the tid. Only soft's thread uses it. The first write
 * error sticks and ends the recording: a truth file with a gap would make tests
 * compare the wrong things.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"
#include "capture/soft/truth.h"

#include "capture/soft/impl.h"

#define OUT_SIZE (1 << 20)
#define BLOCK_BYTES (64 << 10)
#define HEAD_SIZE 16

/* The last address of a tid: the base of the next delta. */
struct last_ip {
	uint64_t ip;
	uint32_t tid;
	bool used;
};

struct soft_truth {
	int fd;
	int error;
	bool begun;		/* something was written */
	char *made;		/* the path, if there was no such file before */
	size_t n_out;
	struct last_ip *last;	/* open addressing, n_last a power of two */
	size_t n_last, n_used;
	uint8_t out[OUT_SIZE];
};

/* A file that was there before is emptied only now: a recording that comes to
 * nothing leaves it as it was. */
static void empty_file(struct soft_truth *tr)
{
	struct stat st;

	if (!tr->begun && !fstat(tr->fd, &st) && S_ISREG(st.st_mode) &&
	    ftruncate(tr->fd, 0))
		tr->error = errno;
	tr->begun = true;
}

static void write_out(struct soft_truth *tr)
{
	size_t done = 0;
	ssize_t n;

	if (!tr->begun && tr->n_out <= HEAD_SIZE)
		return;
	empty_file(tr);
	while (done < tr->n_out && !tr->error) {
		n = write(tr->fd, tr->out + done, tr->n_out - done);
		if (n < 0 && errno != EINTR)
			tr->error = errno;
		if (n > 0)
			done += (size_t)n;
	}
	tr->n_out = 0;
}

/* The entry of tid, or the free one where it belongs. */
static struct last_ip *slot(struct last_ip *last, size_t n, uint32_t tid)
{
	size_t i = tid * 2654435761u & (n - 1);

	while (last[i].used && last[i].tid != tid)
		i = (i + 1) & (n - 1);
	return &last[i];
}

/* tids of ended threads stay: a reused tid continues its sequence. */
static int grow(struct soft_truth *tr)
{
	size_t i, n = tr->n_last ? tr->n_last * 2 : 64;
	struct last_ip *last = calloc(n, sizeof(*last));

	if (!last)
		return -AUX_E_NOMEM;
	for (i = 0; i < tr->n_last; i++)
		if (tr->last[i].used)
			*slot(last, n, tr->last[i].tid) = tr->last[i];
	free(tr->last);
	tr->last = last;
	tr->n_last = n;
	return 0;
}

static struct last_ip *find_last(struct soft_truth *tr, uint32_t tid)
{
	struct last_ip *l;

	if (tr->n_used * 2 >= tr->n_last && grow(tr))
		return NULL;
	l = slot(tr->last, tr->n_last, tid);
	if (!l->used) {
		l->used = true;
		l->tid = tid;
		tr->n_used++;
	}
	return l;
}

int soft_truth_open(struct soft_truth **trp, const char *path,
		    struct aux_diag *diag)
{
	static const uint32_t version[2] = { TRUTH_VERSION, 0 };
	struct soft_truth *tr = malloc(sizeof(*tr));

	*trp = NULL;
	if (!tr)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	memset(tr, 0, offsetof(struct soft_truth, out));
	tr->fd = open(path, O_WRONLY | O_CLOEXEC);
	if (tr->fd < 0 && errno == ENOENT) {
		tr->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
			      0666);
		tr->made = tr->fd < 0 ? NULL : strdup(path);
	}
	if (tr->fd < 0) {
		free(tr);
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"%s: cannot write the truth file: %s", path,
				strerror(errno));
	}
	memcpy(tr->out, TRUTH_MAGIC, 8);
	memcpy(tr->out + 8, version, 8);
	tr->n_out = HEAD_SIZE;
	*trp = tr;
	return 0;
}

/* Appends a block of at most BLOCK_BYTES; returns how many addresses it
 * holds. */
static size_t add_block(struct soft_truth *tr, struct last_ip *l,
			const uint64_t *ips, size_t n)
{
	struct truth_block head = { .tid = l->tid };
	uint8_t *start, *p;
	size_t i;

	if (OUT_SIZE - tr->n_out < sizeof(head) + BLOCK_BYTES)
		write_out(tr);
	start = p = tr->out + tr->n_out + sizeof(head);
	for (i = 0; i < n && p - start <= BLOCK_BYTES - TRUTH_MAX_DELTA; i++) {
		p += truth_put(p, ips[i], l->ip);
		l->ip = ips[i];
	}
	head.n_insns = (uint32_t)i;
	head.n_bytes = (uint32_t)(p - start);
	memcpy(tr->out + tr->n_out, &head, sizeof(head));
	tr->n_out = (size_t)(p - tr->out);
	return i;
}

int soft_truth_add(struct soft_truth *tr, uint32_t tid, const uint64_t *ips,
		   size_t n)
{
	struct last_ip *l = find_last(tr, tid);
	size_t done;

	if (!l)
		return -AUX_E_NOMEM;
	for (; n; n -= done, ips += done)
		done = add_block(tr, l, ips, n);
	return tr->error ? -AUX_E_IO : 0;
}

int soft_truth_flush(struct soft_truth *tr)
{
	if (!tr)
		return 0;
	write_out(tr);
	return tr->error ? -AUX_E_IO : 0;
}

int soft_truth_close(struct soft_truth *tr, struct aux_diag *diag)
{
	int err;

	if (!tr)
		return 0;
	write_out(tr);
	if (close(tr->fd) && !tr->error)
		tr->error = errno;
	if (tr->made && !tr->begun)
		unlink(tr->made);
	err = tr->error;
	free(tr->made);
	free(tr->last);
	free(tr);
	if (err)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot write the truth file: %s (another place "
				"for --truth?)", strerror(err));
	return 0;
}
