/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room for what is unpacked: an unlinked file, mapped in large parts. It is
 * written with pwrite, so a full disk is an error (a store to the mapping would
 * be SIGBUS); a shared mapping shows what was written. Invariant: what was
 * handed out stays until the reader is closed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"

#include "perfdata/impl.h"

/* Mapped at a time: few mappings, and little address space for a small file. */
#define MAP_SIZE (UINT64_C(64) << 20)

static int fail_spool(struct aux_diag *diag, const char *what)
{
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
			"cannot %s a temporary file for what is unpacked: %s "
			"(set TMPDIR to a larger disk)", what, strerror(errno));
}

static int add_map(struct spool *s, uint64_t size, struct aux_diag *diag)
{
	void *p;

	if (!s->opened) {
		s->fd = spool_open();
		if (s->fd < 0)
			return fail_spool(diag, "make");
		s->opened = true;
	}
	if (array_grow(&s->maps, s->n_maps, &s->cap_maps, sizeof(*s->maps)))
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	if (ftruncate(s->fd, (off_t)(s->end + size)) < 0)
		return fail_spool(diag, "grow");
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, s->fd, (off_t)s->end);
	if (p == MAP_FAILED)
		return fail_spool(diag, "map");
	s->maps[s->n_maps++] = (struct spool_map){ p, size };
	s->at = s->end;
	s->end += size;
	return 0;
}

const uint8_t *spool_reserve(struct spool *s, uint64_t len, uint64_t *at,
			     struct aux_diag *diag)
{
	const struct spool_map *m;
	uint64_t size = len > MAP_SIZE ? len : MAP_SIZE;

	size = (size + 65535) & ~UINT64_C(65535);	/* the largest page size */
	if ((!s->n_maps || len > s->end - s->at) && add_map(s, size, diag) < 0)
		return NULL;
	m = &s->maps[s->n_maps - 1];
	*at = s->at;
	s->at += len;
	return (const uint8_t *)m->p + (*at - (s->end - m->size));
}

int spool_write(int fd, const void *p, size_t n, uint64_t at)
{
	const uint8_t *from = p;

	while (n) {
		ssize_t ret = pwrite(fd, from, n, (off_t)at);

		if (ret < 0 && errno == EINTR)
			continue;
		if (ret <= 0)
			return -1;
		from += ret;
		at += (uint64_t)ret;
		n -= (size_t)ret;
	}
	return 0;
}

void spool_fini(struct spool *s)
{
	for (size_t i = 0; i < s->n_maps; i++)
		munmap(s->maps[i].p, s->maps[i].size);
	if (s->opened)
		close(s->fd);
	free(s->maps);
	free(s->done);
	free(s->buf);
}
