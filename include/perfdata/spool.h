/* SPDX-License-Identifier: BSD-2-Clause */
/* reader_spool: unlinked temporary files for what does not fit into memory. */
#ifndef PERFDATA_SPOOL_H
#define PERFDATA_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

/* What was in the frame of one compressed AUXTRACE. */
struct unpacked {
	uint64_t offset;	/* of the record in the file */
	const uint8_t *data;
	uint64_t len;
	const char *damage;	/* NULL: none; a text that lives for ever */
};

struct spool_map {
	void *p;
	size_t size;
};

/* Unpacked frames lie in an unlinked file that is mapped piece by piece. */
struct spool {
	int fd;
	bool opened;
	struct spool_map *maps;
	size_t n_maps, cap_maps;
	uint64_t end;		/* of the file */
	uint64_t at;		/* next free byte in the last map */
	struct unpacked *done;	/* by offset */
	size_t n_done, cap_done;
	void *stream;		/* ZSTD_DStream */
	uint8_t *buf;
};

/* reader_spool.c: len bytes that will appear at the pointer as they are written
 * to s->fd from *at on. NULL with diag filled. */
const uint8_t *spool_reserve(struct spool *s, uint64_t len, uint64_t *at,
			     struct aux_diag *diag);
int spool_write(int fd, const void *p, size_t n, uint64_t at);
void spool_fini(struct spool *s);
/* reader_load.c: an unlinked file, on disk if possible */
int spool_open(void);

#endif
