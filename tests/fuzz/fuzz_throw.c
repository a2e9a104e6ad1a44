/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a program whose tables say where functions are, and where exceptions land:
 * asked for calls all over the file, one of two activations of a function is found, or
 * none; and where one is found, it is found again.
 */
#include <stdlib.h>

#include "decode/callstack/impl.h"
#include "decode/lib/elf/eh_frame.h"
#include "decode/lib/elf/elf.h"

#define N_ASKED 60

#define ASSERT(c)                \
	do {                     \
		if (!(c))        \
			abort(); \
	} while (0)

/* The whole file is mapped at its offsets. */
static int get_image(void *priv, const struct space *space, uint64_t ip,
		     struct elfimage **im, uint64_t *offset)
{
	(void)space;
	*im = priv;
	*offset = ip;
	return 0;
}

static void ask(struct elfimage *im, uint64_t len)
{
	struct func func = { .part_of = 1 };
	struct call_frame frames[3] = { { .func = &func.pub },
					{ .func = &func.pub },
					{ .func = &func.pub } };
	struct sink_host host = { .priv = im, .image = get_image };
	struct calls c = { .code.host = &host,
			   .space = (const struct space *)im };
	struct thread t = { .pub = { .frames = frames, .depth = 3 } };
	uint64_t step = len / N_ASKED + 1;

	for (uint64_t back = 1; back < len; back += step) {
		uint64_t start, size;
		bool called;

		if (eh_frame_function(im, back, &start, &size, &called))
			ASSERT(back - start < size);
		frames[1].back = back;
		frames[2].back = back + step / 2;
		for (uint64_t to = 0; to < len; to += step) {
			uint32_t n = calls_unwind_find(&c, &t, &func, to);

			ASSERT(n <= 2);
			ASSERT(n == calls_unwind_find(&c, &t, &func, to));
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct elfimage *im;

	if (elfimage_open_mem(&im, data, len) < 0)
		return 0;
	ask(im, len);
	elfimage_close(im);
	return 0;
}
