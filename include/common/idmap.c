/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash table from ids to indices, see idmap.h. */
#include <stdlib.h>
#include <unistd.h>

#include "common/array.h"
#include "common/idmap.h"

uint64_t idmap_salt(void)
{
	uint64_t salt = 0;

	if (getentropy(&salt, sizeof(salt)) < 0)
		salt = (uintptr_t)&salt * UINT64_C(0x9e3779b97f4a7c15);
	return salt;
}

/* The salt is random: a file cannot choose ids that collide. */
static uint32_t hash(const struct idmap *m, uint64_t key)
{
	key = (key ^ m->salt) * UINT64_C(0x9e3779b97f4a7c15);
	key = (key ^ key >> 32) * (m->salt | 1);
	return (uint32_t)(key >> 32);
}

int64_t idmap_find(const struct idmap *m, uint64_t key)
{
	if (!m->cap)
		return -1;
	for (uint32_t i = hash(m, key);; i++) {
		const struct idmap_entry *e = &m->e[i & (m->cap - 1)];

		if (!e->slot)
			return -1;
		if (e->key == key)
			return (int64_t)e->slot - 1;
	}
}

/* Doubles the table; at most half of it is used, so probes stay short. */
static int grow_idmap(struct idmap *m)
{
	struct idmap old = *m;

	m->cap = old.cap ? 2 * old.cap : 64;
	if (m->limit && array_take(m->limit, m->cap * sizeof(*m->e)) < 0) {
		m->cap = old.cap;
		return -AUX_E_NOMEM;
	}
	m->e = calloc(m->cap, sizeof(*m->e));
	if (!m->e) {
		*m = old;
		return -AUX_E_NOMEM;
	}
	for (uint32_t i = 0; i < old.cap; i++) {
		uint32_t j = hash(m, old.e[i].key);

		if (!old.e[i].slot)
			continue;
		while (m->e[j & (m->cap - 1)].slot)
			j++;
		m->e[j & (m->cap - 1)] = old.e[i];
	}
	free(old.e);
	if (m->limit)
		array_give(m->limit, old.cap * sizeof(*m->e));
	return 0;
}

int64_t idmap_add(struct idmap *m, uint64_t key, uint32_t new_slot)
{
	int64_t slot = idmap_find(m, key);
	uint32_t i;

	if (slot >= 0)
		return slot;
	if (m->n >= UINT32_MAX / 4 ||
	    (2 * m->n >= m->cap && grow_idmap(m) < 0))
		return -AUX_E_NOMEM;
	for (i = hash(m, key); m->e[i & (m->cap - 1)].slot; i++)
		;
	m->e[i & (m->cap - 1)] =
		(struct idmap_entry){ .key = key, .slot = new_slot + 1 };
	m->n++;
	return new_slot;
}

void idmap_fini(struct idmap *m)
{
	if (m->limit)
		array_give(m->limit, m->cap * sizeof(*m->e));
	free(m->e);
	*m = (struct idmap){ 0 };
}
