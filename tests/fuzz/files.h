/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An input that is a directory: "@@ NAME" lines divide it into files, which are
 * written to a directory in memory that one process uses again and again. What
 * it opens as must be readable, twice the same, and bounded by its input.
 */
#ifndef TESTS_FUZZ_FILES_H
#define TESTS_FUZZ_FILES_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decode/lib/import/import.h"

#define MAX_FILES 16
#define MAX_NAME 32

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

static char files_dir[64];
static char files_names[MAX_FILES][MAX_NAME + 1];
static unsigned files_n;

static void files_remove(void)
{
	char path[sizeof(files_dir) + sizeof(files_names[0]) + 1];

	for (unsigned i = 0; i < files_n; i++) {
		snprintf(path, sizeof(path), "%s/%.*s", files_dir, MAX_NAME,
			 files_names[i]);
		unlink(path);
	}
	files_n = 0;
}

static void files_end(void)
{
	files_remove();
	rmdir(files_dir);
}

static void files_start(void)
{
	if (*files_dir)
		return;
	snprintf(files_dir, sizeof(files_dir), "/dev/shm/auxkit-fuzz-XXXXXX");
	if (!mkdtemp(files_dir)) {
		snprintf(files_dir, sizeof(files_dir),
			 "/tmp/auxkit-fuzz-XXXXXX");
		ASSERT(mkdtemp(files_dir));
	}
	atexit(files_end);
}

static void files_write(const char *name, size_t len, const uint8_t *p,
			size_t n)
{
	char path[sizeof(files_dir) + sizeof(files_names[0]) + 1];
	int fd;

	if (files_n == MAX_FILES || !len || len > MAX_NAME || name[0] == '.' ||
	    memchr(name, '/', len) || memchr(name, 0, len))
		return;
	memcpy(files_names[files_n], name, len);
	files_names[files_n][len] = '\0';
	snprintf(path, sizeof(path), "%s/%.*s", files_dir, MAX_NAME,
		 files_names[files_n++]);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ASSERT(fd >= 0 && write(fd, p, n) == (ssize_t)n && !close(fd));
}

static const uint8_t *files_mark(const uint8_t *p, const uint8_t *end)
{
	while ((p = memmem(p, (size_t)(end - p), "@@ ", 3)) &&
	       memchr(p, '\n', (size_t)(end - p)) == NULL)
		p++;
	return p ? p : end;
}

static void files_make(const uint8_t *data, size_t len)
{
	const uint8_t *end = data + len, *p, *next, *line;

	files_start();
	files_remove();
	for (p = files_mark(data, end); p < end; p = next) {
		line = memchr(p, '\n', (size_t)(end - p));
		next = files_mark(line + 1, end);
		files_write((const char *)p + 3, (size_t)(line - p - 3),
			    line + 1, (size_t)(next - line - 1));
	}
}

static inline uint64_t files_walk(struct aux_reader *r)
{
	struct aux_event e;
	uint64_t h = 0, n = 0;
	int ret;

	while ((ret = aux_reader_next(r, &e, NULL)) == 1) {
		h = h * 31 + e.type + e.size;
		if (e.type == AUX_RECORD_AUXTRACE)
			for (uint64_t i = 0; i < e.auxtrace.payload.len; i++)
				h = h * 31 + e.auxtrace.payload.data[i];
		n++;
	}
	/* what we make ourselves is whole */
	ASSERT(!ret || !aux_reader_info(r)->container);
	return h ^ n;
}

/* Opens what the input is. */
static inline void files_open(const uint8_t *data, size_t len)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r;
	uint64_t h;

	files_make(data, len);
	if (import_open(&r, files_dir, NULL, &diag)) {
		ASSERT(!r && diag.code && diag.text[0]);
		return;
	}
	h = files_walk(r);
	aux_reader_rewind(r);
	ASSERT(files_walk(r) == h);
	aux_reader_close(r);
}

#endif
