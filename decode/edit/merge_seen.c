/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge: records that several inputs have. Two digests stand for the contents;
 * what one file says twice stays twice.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/edit/merge_impl.h"

static void digest(struct aux_bytes rec, uint64_t salt, uint64_t sum[2])
{
	uint64_t a = 0x9e3779b97f4a7c15 ^ salt, b = rec.len + salt, v;
	const uint8_t *p = rec.data;
	size_t n = rec.len;

	for (; n; p += n < 8 ? n : 8, n -= n < 8 ? n : 8) {
		v = 0;
		memcpy(&v, p, n < 8 ? n : 8);
		a = (a ^ v) * 0xff51afd7ed558ccd;
		a ^= a >> 32;
		b = (b + v) * 0xc4ceb9fe1a85ec53;
		b ^= b >> 29;
	}
	sum[0] = a | 1;	/* never free */
	sum[1] = b;
}

uint64_t merge_digest(const void *p, size_t n)
{
	uint64_t sum[2];

	digest((struct aux_bytes){ p, n }, 0, sum);
	return sum[0] ^ sum[1];
}

static int grow(struct merge *m)
{
	size_t cap = m->cap_seen ? 2 * m->cap_seen : 4096;
	struct merge_seen *v = calloc(cap, sizeof(*v));

	if (!v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < m->cap_seen; i++) {
		size_t at = m->seen[i].sum[0] >> 1 & (cap - 1);

		if (!m->seen[i].sum[0])
			continue;
		while (v[at].sum[0])
			at = (at + 1) & (cap - 1);
		v[at] = m->seen[i];
	}
	free(m->seen);
	m->seen = v;
	m->cap_seen = cap;
	return 0;
}

/* How often it came; the place to count it. */
static uint64_t *find(struct merge *m, const uint64_t sum[2])
{
	size_t at = sum[0] >> 1 & (m->cap_seen - 1);

	for (; m->seen[at].sum[0]; at = (at + 1) & (m->cap_seen - 1))
		if (m->seen[at].sum[0] == sum[0] && m->seen[at].sum[1] == sum[1])
			return &m->seen[at].n;
	m->seen[at].sum[0] = sum[0];
	m->seen[at].sum[1] = sum[1];
	m->n_seen++;
	return &m->seen[at].n;
}

int merge_is_seen(struct merge *m, size_t input, struct aux_bytes rec)
{
	uint64_t sum[2], here, *n;

	if (2 * (m->n_seen + 2) > m->cap_seen && grow(m) < 0)
		return -AUX_E_NOMEM;
	digest(rec, (input + 1) * 0xd6e8feb86659fd93, sum);
	here = ++*find(m, sum);	/* in this file */
	digest(rec, 0, sum);
	n = find(m, sum);	/* in the new one */
	if (here <= *n)
		return 1;
	*n = here;
	return 0;
}
