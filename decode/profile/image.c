/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: the file of a module, by which offsets become addresses and lines.
 *
 * A file that does not have the recorded build id is treated as missing: line
 * numbers of another build would be wrong without a sign. Formats then write
 * what offsets allow.
 */
#include <stdio.h>
#include <string.h>

#include "decode/lib/elf/elf.h"
#include "decode/profile/impl.h"

/* True if the file is the one that ran, as far as build ids are known. */
static bool is_same(const struct branchlist_module *m,
		    const struct elfimage *image)
{
	char text[41] = "";
	const uint8_t *id;
	size_t n = elfimage_build_id(image, &id);

	for (size_t i = 0; i < n && i < 20; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	return !*m->id || !n || !strcmp(text, m->id);
}

int profile_module_image(struct elfimage **image, const struct branchlist_module *module,
			 const char *symfs)
{
	int rc;

	*image = NULL;
	if (!module->file)
		return 0;
	rc = elfimage_open(image, module->file);
	if (rc) {
		*image = NULL;
		return rc == -AUX_E_NOMEM ? rc : 0;
	}
	if (!elfimage_is_elf(*image) || !is_same(module, *image)) {
		elfimage_close(*image);
		*image = NULL;
		return 0;
	}
	elfimage_debug_from(*image, symfs ? symfs : "", module->path);
	return 0;
}

int profile_module_open(struct profile_module *m, const struct branchlist *list,
			uint32_t index, const char *symfs)
{
	*m = (struct profile_module){ .list = list, .index = index };
	return profile_module_image(&m->image, &list->modules[index], symfs);
}

void profile_module_close(struct profile_module *m)
{
	if (m->image)
		elfimage_close(m->image);
	m->image = NULL;
}

uint64_t profile_module_addr(const struct profile_module *m, uint64_t offset)
{
	uint64_t addr;

	if (m->image && elfimage_addr(m->image, offset, &addr))
		return addr;
	return offset;
}
