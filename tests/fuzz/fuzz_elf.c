/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a file of code: opened, unpacked, asked for names, and as a kernel
 * module. What is handed out lies inside the file, and asking twice gives the
 * same.
 */
#include <stdlib.h>
#include <unistd.h>

#include "decode/lib/elf/elf.h"
#include "decode/lib/elf/impl.h"

#define N_ASKED 300

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

static uint64_t find(void *priv, const char *name)
{
	return *(const uint64_t *)priv + 16 * strlen(name);
}

static void ask_symbols(struct elfimage *im, uint64_t len)
{
	struct elfimage_symbol a, b;
	uint64_t step = len / N_ASKED + 1, addr, offset, left;

	for (uint64_t at = 0; at < len; at += step) {
		if (elfimage_symbol(im, at, &a) < 0)
			continue;
		ASSERT(a.start <= at && at - a.start < a.size && *a.name);
		ASSERT(!elfimage_symbol(im, at, &b) && a.name == b.name);
		ASSERT(!elfimage_symbol(im, a.start, &b));
		if (elfimage_addr(im, a.start, &addr) &&
		    elfimage_offset(im, addr, &offset, &left))
			ASSERT(offset <= len && left <= len - offset);
	}
	elfimage_find(im, "_text", &addr);
}

static void ask_module(struct elfimage *im, uint64_t len)
{
	uint64_t base = UINT64_C(0xffffffffc0000000);
	struct elfmodule_code c;
	struct elfmodule *m;
	volatile uint8_t sum = 0;

	if (elfmodule_new(&m, im, base, find, &base) < 0)
		return;
	for (uint64_t at = 0; at < len; at += len / N_ASKED + 1) {
		if (elfmodule_code(m, at, &c) < 0)
			continue;
		ASSERT(c.start <= at && at < c.end);
		ASSERT(c.offset <= len && c.end - c.start <= len - c.offset);
		sum ^= c.bytes[0] ^ c.bytes[c.end - c.start - 1];
	}
	(void)sum;
	elfmodule_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct elfimage *im;
	uint64_t size;
	int fd;

	if (elfimage_unpack(data, len, &fd, &size) > 0)
		close(fd);
	if (elfimage_open_mem(&im, data, len) < 0)
		return 0;
	ask_symbols(im, len);
	if (elfimage_is_object(im))
		ask_module(im, len);
	elfimage_close(im);
	return 0;
}
