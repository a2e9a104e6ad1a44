/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as the log of a JIT compiler: code and names lie inside the file, and
 * reading twice gives the same.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/elf/jitdump.h"

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

static uint64_t look(const struct jitdump *j, const uint8_t *data, size_t len)
{
	const struct jitdump_code *c;
	uint64_t h = jitdump_info(j)->n_skipped;

	for (size_t i = 0; (c = jitdump_code(j, i)); i++) {
		const char *name = c->name;

		ASSERT(c->size && c->addr + c->size > c->addr);
		ASSERT(c->offset <= len && c->size <= len - c->offset);
		ASSERT(c->bytes == data + c->offset);
		ASSERT((const uint8_t *)name > data &&
		       (const uint8_t *)name + strlen(name) < c->bytes);
		h = h * 31 + c->addr + c->bytes[c->size - 1] + c->time;
	}
	return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct aux_diag diag = { 0 };
	struct jitdump *a, *b;

	if (jitdump_new(&a, data, len, &diag) < 0) {
		ASSERT(!a && diag.code && diag.text[0]);
		return 0;
	}
	ASSERT(!jitdump_new(&b, data, len, &diag));
	ASSERT(look(a, data, len) == look(b, data, len));
	jitdump_free(a);
	jitdump_free(b);
	return 0;
}
