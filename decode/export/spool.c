/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text of many tracks that is written track by track in the end; see export.h.
 * What does not fit into a block waits in an unlinked temporary file, so that
 * memory does not grow with the trace. Blocks are of one size, all full but the
 * last, which stays in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <aux/error.h>

#include "common/array.h"
#include "decode/export/export.h"

#define BLOCK 16384

struct export_piece {
	struct export_piece *next;
	uint64_t *blocks;	/* numbers of blocks in the file */
	size_t n_blocks, max_blocks;
	size_t n;		/* of buf */
	char *buf;
};

struct export_spool {
	struct export_piece *pieces;
	int fd;			/* -1: none yet */
	uint64_t n_blocks;
};

struct export_spool *export_spool_new(void)
{
	struct export_spool *s = calloc(1, sizeof(*s));

	if (s)
		s->fd = -1;
	return s;
}

void export_spool_free(struct export_spool *s)
{
	if (!s)
		return;
	while (s->pieces) {
		struct export_piece *p = s->pieces;

		s->pieces = p->next;
		free(p->blocks);
		free(p->buf);
		free(p);
	}
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

/* Belongs to the spool, which frees it. */
struct export_piece *export_spool_piece(struct export_spool *s)
{
	struct export_piece *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->next = s->pieces;
	s->pieces = p;
	return p;
}

/* What was stored in the file stays there, unread. */
void export_spool_clear(struct export_piece *p)
{
	p->n_blocks = 0;
	p->n = 0;
}

int export_temp_file(void)
{
	const char *dir = getenv("TMPDIR");
	char path[4096];
	size_t n;
	int fd;

	dir = dir && *dir ? dir : "/tmp";
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	n = strlen(dir);
	if (fd >= 0 || n > sizeof(path) - 32)
		return fd;
	/* a file system without O_TMPFILE */
	memcpy(path, dir, n);
	memcpy(path + n, "/auxdecode-XXXXXX", 18);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

int export_write_at(int fd, const void *p, size_t n, uint64_t at)
{
	const char *from = p;

	while (n) {
		ssize_t r = pwrite(fd, from, n, (off_t)at);

		if (r < 0 && errno == EINTR)
			continue;
		if (!r)
			errno = ENOSPC;
		if (r <= 0)
			return -AUX_E_IO;
		from += r;
		n -= (size_t)r;
		at += (uint64_t)r;
	}
	return 0;
}

/* A full block goes to the end of the file; its number is kept. */
static int store_block(struct export_spool *s, struct export_piece *p)
{
	if (s->fd < 0)
		s->fd = export_temp_file();
	if (s->fd < 0)
		return -AUX_E_IO;
	if (array_grow(&p->blocks, p->n_blocks, &p->max_blocks,
		       sizeof(*p->blocks)))
		return -AUX_E_NOMEM;
	if (export_write_at(s->fd, p->buf, BLOCK, s->n_blocks * BLOCK))
		return -AUX_E_IO;
	p->blocks[p->n_blocks++] = s->n_blocks++;
	p->n = 0;
	return 0;
}

/* Fills the block of the piece; a full one is stored. */
int export_spool_put(struct export_spool *s, struct export_piece *p,
		     const char *text, size_t n)
{
	int err;

	if (!p->buf)
		p->buf = malloc(BLOCK);
	if (!p->buf)
		return -AUX_E_NOMEM;
	while (n) {
		size_t take = BLOCK - p->n < n ? BLOCK - p->n : n;

		memcpy(p->buf + p->n, text, take);
		p->n += take;
		text += take;
		n -= take;
		err = p->n == BLOCK ? store_block(s, p) : 0;
		if (err)
			return err;
	}
	return 0;
}

/* The blocks in their order, then what is still in memory. */
int export_spool_write(struct export_spool *s, const struct export_piece *p,
		       struct outbuf *out)
{
	char block[BLOCK];

	for (size_t i = 0; i < p->n_blocks; i++) {
		size_t done = 0;

		while (done < BLOCK) {
			ssize_t n = pread(s->fd, block + done, BLOCK - done,
					  (off_t)(p->blocks[i] * BLOCK + done));

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return -AUX_E_IO;
			done += (size_t)n;
		}
		outbuf_put(out, block, BLOCK);
	}
	if (p->n)
		outbuf_put(out, p->buf, p->n);
	return 0;
}
