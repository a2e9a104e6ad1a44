/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a perf map: of the entries that cover an address the last one is found,
 * for the first and the last address of each.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/elf/perfmap.h"

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

static void look(const struct perfmap *p, uint64_t ip)
{
	const struct perfmap_entry *e = perfmap_find(p, ip);

	if (!e)
		return;
	ASSERT(ip >= e->start && ip - e->start < e->size);
	ASSERT(*e->name && strlen(e->name) <= PERFMAP_MAX_NAME);
	ASSERT(perfmap_find(p, e->start) && perfmap_find(p, e->start + e->size - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct perfmap *p;

	ASSERT(!perfmap_new(&p, data, len));
	for (size_t i = 0; i + 16 <= len; i++) {
		char text[17] = { 0 };

		memcpy(text, data + i, 16);
		look(p, strtoull(text, NULL, 16));
		look(p, strtoull(text, NULL, 16) - 1);
	}
	perfmap_free(p);
	return 0;
}
