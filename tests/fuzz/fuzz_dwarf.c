/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a file with debug information: lines, inlined functions, the list of
 * all functions and their rows. What is handed out is what was asked for, and asking
 * twice gives the same.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/elf/elf.h"

#define N_ASKED    200
#define MAX_FRAMES 16

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

static size_t text_len(const char *s)
{
	return s ? strlen(s) : 0;
}

static void ask_at(struct elfimage *im, uint64_t at)
{
	struct inline_frame f[MAX_FRAMES];
	struct source_line a, b;
	volatile size_t sum = 0;
	int n;

	if (elfimage_line(im, at, &a) == 0) {
		ASSERT(elfimage_line(im, at, &b) == 0 && a.line == b.line &&
		       a.file == b.file);
		sum += text_len(a.file);
	}
	n = elfimage_inlines(im, at, f, MAX_FRAMES);
	ASSERT(n == elfimage_inlines(im, at, NULL, 0));
	for (int i = 0; i < n && i < MAX_FRAMES; i++)
		sum += text_len(f[i].name) + text_len(f[i].linkage) +
		       text_len(f[i].call.file);
	(void)sum;
}

static void ask_all(struct elfimage *im)
{
	struct elfimage_function *f;
	const struct source_row *rows;
	volatile size_t sum = 0;
	size_t n, n_rows;

	if (elfimage_functions(im, &f, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		ASSERT(!i || f[i - 1].entry <= f[i].entry);
		sum += text_len(f[i].name) + text_len(f[i].file);
		for (size_t k = 0; k < f[i].n_areas; k++)
			ASSERT(f[i].areas[k].start < f[i].areas[k].end);
		n_rows = elfimage_rows(im, f[i].entry, &rows);
		for (size_t k = 0; k < n_rows && k < N_ASKED; k++)
			ASSERT(!k || rows[k - 1].addr < rows[k].addr);
	}
	(void)sum;
	free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elfimage *im;

	if (elfimage_open_mem(&im, data, size) < 0)
		return 0;
	for (uint64_t at = 0; at < size; at += size / N_ASKED + 1)
		ask_at(im, at);
	ask_all(im);
	elfimage_close(im);
	return 0;
}
