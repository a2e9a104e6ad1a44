/* SPDX-License-Identifier: BSD-2-Clause */
/* export_map: numbers for names and for keys; see export.h. */
#include <stdlib.h>

#include "decode/export/export.h"

uint32_t *export_ids_at(struct export_ids *ids, uint32_t id)
{
	size_t n = ids->n ? ids->n : 256;
	uint32_t *v;

	while (n <= id)
		n *= 2;
	if (n > ids->n) {
		v = reallocarray(ids->v, n, sizeof(*v));
		if (!v)
			return NULL;
		memset(v + ids->n, 0, (n - ids->n) * sizeof(*v));
		ids->v = v;
		ids->n = n;
	}
	return &ids->v[id];
}

static uint32_t *find_slot(const struct export_map *m, const uint64_t *key)
{
	uint64_t h = key[0] * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t i;

	h = (h ^ h >> 32 ^ key[1]) * UINT64_C(0xc2b2ae3d27d4eb4f);
	h = (h ^ h >> 29 ^ key[2]) * UINT64_C(0x9e3779b97f4a7c15);
	i = (uint32_t)(h >> 32) & (m->n_slots - 1);
	while (m->slots[i] && memcmp(m->keys[m->slots[i] - 1], key,
				     sizeof(*m->keys)))
		i = (i + 1) & (m->n_slots - 1);
	return &m->slots[i];
}

static int grow_map(struct export_map *m)
{
	uint32_t max = m->max ? 2 * m->max : 1024;
	uint64_t(*keys)[3] = reallocarray(m->keys, max, sizeof(*keys));
	uint32_t *slots;

	if (!keys)
		return -AUX_E_NOMEM;
	m->keys = keys;
	slots = calloc((size_t)max * 2, sizeof(*slots));
	if (!slots || max >= UINT32_MAX / 4) {
		free(slots);
		return -AUX_E_NOMEM;
	}
	free(m->slots);
	m->slots = slots;
	m->n_slots = 2 * max;
	m->max = max;
	for (uint32_t i = 0; i < m->n; i++)
		*find_slot(m, m->keys[i]) = i + 1;
	return 0;
}

int64_t export_map_find(struct export_map *m, uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t key[3] = { a, b, c };
	uint32_t *slot;

	if (m->n == m->max && grow_map(m))
		return -AUX_E_NOMEM;
	slot = find_slot(m, key);
	if (!*slot) {
		memcpy(m->keys[m->n], key, sizeof(key));
		*slot = ++m->n;
	}
	return *slot - 1;
}

void export_map_fini(struct export_map *m)
{
	free(m->keys);
	free(m->slots);
}
