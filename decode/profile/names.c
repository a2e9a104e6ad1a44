/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: names of functions, each once; their indexes are the numbers of gcov.c's table
 * of names. A hash table (FNV-1a), since C++ programs have many and long ones.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/profile/impl.h"

#define MAX_NAMES ((size_t)1 << 24)

static size_t find_slot(const struct profile_lines *l, const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	size_t i;

	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	i = (size_t)(h ^ h >> 32) & (l->n_name_slots - 1);
	while (l->name_slots[i] &&
	       strcmp(l->names[l->name_slots[i] - 1], name) != 0)
		i = (i + 1) & (l->n_name_slots - 1);
	return i;
}

/* Doubles names and slots; slots are twice as many, so they are half full at most. */
static int grow(struct profile_lines *l)
{
	size_t max = l->max_names ? 2 * l->max_names : 256;
	uint32_t *slots;
	char **names;

	if (max > MAX_NAMES)
		return -AUX_E_LIMIT;
	names = reallocarray(l->names, max, sizeof(*names));
	if (!names)
		return -AUX_E_NOMEM;
	l->names = names;
	slots = calloc(2 * max, sizeof(*slots));
	if (!slots)
		return -AUX_E_NOMEM;
	free(l->name_slots);
	l->name_slots = slots;
	l->n_name_slots = 2 * max;
	l->max_names = max;
	for (size_t i = 0; i < l->n_names; i++)
		slots[find_slot(l, names[i])] = (uint32_t)i + 1;
	return 0;
}

int profile_lines_name(struct profile_lines *l, const char *name)
{
	size_t i;
	int err = l->n_names == l->max_names ? grow(l) : 0;

	if (err)
		return err;
	i = find_slot(l, name);
	if (l->name_slots[i])
		return (int)l->name_slots[i] - 1;
	l->names[l->n_names] = strdup(name);
	if (!l->names[l->n_names])
		return -AUX_E_NOMEM;
	l->name_slots[i] = (uint32_t)++l->n_names;
	return (int)l->n_names - 1;
}
