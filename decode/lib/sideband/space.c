/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: address spaces by time.
 *
 * Processes and kernels have versions by time; a space is one version of each.
 * All combinations could be as many as the product of both, and few are asked
 * for, so a space is made when it is first needed and then stays as long as the
 * timeline. Any thread may need one: the table has a fixed number of buckets,
 * each a list that only grows at its head, by compare-and-swap. Two threads may
 * make the same space at once; both stay, and have the same id and contents, so
 * it does not matter which one is found.
 *
 * An id is made of the numbers of both contents, so equal code has equal ids:
 * decoders keep what they cached of a process when a mapping comes and goes.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/sideband/impl.h"

#define MAX_BUCKETS (1 << 20) /* 8 MiB; lists get longer beyond that */

struct made_space {
	struct space s;
	const struct version *process, *kernel;
	const struct made_space *next;
};

/* Appends; time is later than that of the last version. */
static int add_version(struct timeline *tl, struct version_line *l, uint64_t time,
		       const struct map_node *root)
{
	if (array_grow_within(&tl->memory, &l->e, l->n, &l->cap, sizeof(*l->e)) < 0)
		return -AUX_E_NOMEM;
	l->e[l->n++] = (struct version){ .from = time, .root = root };
	return 0;
}

int timeline_set_version(struct timeline *tl, struct version_line *l, uint64_t time,
			 const struct map_node *root)
{
	struct version *last = l->n ? &l->e[l->n - 1] : NULL;

	if (!last && time && add_version(tl, l, 0, NULL) < 0)
		return -AUX_E_NOMEM;
	if (last && last->root == root)
		return 0;
	if (last && last->from == time) {
		last->root = root;
		return 0;
	}
	return add_version(tl, l, time, root);
}

/* The version of a time, or NULL before the first. */
static const struct version *timeline_version(const struct version_line *l,
				       uint64_t time)
{
	size_t n = timeline_count(l->e, l->n, sizeof(*l->e), time);

	return n ? &l->e[n - 1] : NULL;
}

static uint64_t mix(uint64_t h)
{
	h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return h ^ h >> 32;
}

static int grow_contents(struct timeline *tl)
{
	struct content *old = tl->contents.e;
	size_t cap = tl->contents.cap, want = cap ? 2 * cap : 256;

	if (array_take(&tl->memory, (want - cap) * sizeof(*old)) < 0)
		return -AUX_E_NOMEM;
	tl->contents.e = calloc(want, sizeof(*old));
	if (!tl->contents.e) {
		tl->contents.e = old;
		return -AUX_E_NOMEM;
	}
	tl->contents.cap = want;
	for (size_t i = 0; i < cap; i++) {
		size_t j = old[i].sum[0] & (want - 1);

		if (!old[i].number)
			continue;
		while (tl->contents.e[j].number)
			j = (j + 1) & (want - 1);
		tl->contents.e[j] = old[i];
	}
	free(old);
	return 0;
}

/*
 * Gives equal contents of one machine the same number. The digests have 128
 * bits and a random salt, so equal digests are taken for equal contents.
 * Nothing mapped: number 0.
 */
static int number_contents(struct timeline *tl, struct version *v,
			   uint32_t machine)
{
	struct content *c;
	uint64_t sum[2];
	size_t i;

	if (!v->root)
		return 0;
	sum[0] = mix(v->root->sum[0] + machine);
	sum[1] = v->root->sum[1];
	if (2 * tl->contents.n >= tl->contents.cap && grow_contents(tl) < 0)
		return -AUX_E_NOMEM;
	for (i = sum[0];; i++) {
		c = &tl->contents.e[i & (tl->contents.cap - 1)];
		if (!c->number)
			break;
		if (c->sum[0] == sum[0] && c->sum[1] == sum[1])
			goto out;
	}
	memcpy(c->sum, sum, sizeof(sum));
	c->number = (uint32_t)++tl->contents.n;
out:
	v->content = c->number;
	return 0;
}

static int number_line(struct timeline *tl, struct version_line *l,
		       uint32_t machine)
{
	for (size_t i = 0; i < l->n; i++)
		if (number_contents(tl, &l->e[i], machine) < 0)
			return -AUX_E_NOMEM;
	return 0;
}

/* A process' line belongs to the machine in the high half of its key. */
static int number_all(struct timeline *tl, size_t *n_versions)
{
	for (uint32_t i = 0; i < tl->processes.ids.cap; i++) {
		const struct idmap_entry *e = &tl->processes.ids.e[i];
		struct version_line *l;

		if (!e->slot)
			continue;
		l = &tl->processes.v[e->slot - 1].v;
		*n_versions += l->n;
		if (number_line(tl, l, (uint32_t)(e->key >> 32)) < 0)
			return -AUX_E_NOMEM;
	}
	for (uint32_t i = 0; i < tl->machines.n; i++) {
		*n_versions += tl->machines.v[i].v.n;
		if (number_line(tl, &tl->machines.v[i].v, i) < 0)
			return -AUX_E_NOMEM;
	}
	return 0;
}

int timeline_finish(struct timeline *tl)
{
	size_t n = 0, want = 64;

	tl->empty = (struct space){ .id = 1, .pid = UINT32_MAX,
				    .until = UINT64_MAX };
	if (number_all(tl, &n) < 0)
		return -AUX_E_NOMEM;
	while (want < n && want < MAX_BUCKETS)
		want *= 2;
	tl->spaces.bucket = calloc(want + 1, sizeof(*tl->spaces.bucket));
	if (!tl->spaces.bucket)
		return -AUX_E_NOMEM;
	tl->spaces.n = want;
	return 0;
}

void timeline_free_spaces(struct timeline *tl)
{
	for (size_t i = 0; i < tl->spaces.n; i++) {
		struct made_space *s = atomic_load(&tl->spaces.bucket[i]);

		while (s) {
			struct made_space *next = (struct made_space *)s->next;

			free(s);
			s = next;
		}
	}
	free(tl->spaces.bucket);
}

/*
 * Limits s to the time for which a version (NULL: that before the first) holds.
 */
static void clip_time(struct space *s, const struct version_line *l,
		      const struct version *v)
{
	const struct version *next = v ? v + 1 : l ? l->e : NULL;

	if (v && v->from > s->from)
		s->from = v->from;
	if (next && next < l->e + l->n && next->from < s->until)
		s->until = next->from;
}

static struct made_space *make_space(const struct version_line *pl,
				     const struct version *p,
				     const struct machine *m,
				     const struct version *k, bool last_kernel)
{
	struct made_space *new = calloc(1, sizeof(*new));
	struct space *s;

	if (!new)
		return NULL;
	new->process = p;
	new->kernel = k;
	s = &new->s;
	s->until = UINT64_MAX;
	s->pid = UINT32_MAX;
	clip_time(s, pl, p);
	if (!last_kernel)
		clip_time(s, &m->v, k);
	if (p) {
		s->root = p->root;
		s->n_maps = s->root ? s->root->n : 0;
	}
	s->kernel = k ? k->root : NULL;
	s->id = ((uint64_t)(k ? k->content : 0) << 32 |
		 (p ? p->content : 0)) + 1;
	return new;
}

static const struct made_space *find_made(const struct made_space *s,
					  const struct version *p,
					  const struct version *k)
{
	while (s && (s->process != p || s->kernel != k))
		s = s->next;
	return s;
}

/* In the bucket after the last one, once a space could not be made. */
#define NO_MEMORY ((struct made_space *)(uintptr_t)1)

bool timeline_nomem(const struct timeline *tl)
{
	return tl->spaces.bucket &&
	       atomic_load(&tl->spaces.bucket[tl->spaces.n]);
}

/* The space of a process at a time. Out of memory it is the empty one, and code
 * is missing: timeline_nomem. */
static const struct space *get_space(const struct timeline *tl, uint32_t slot,
				     uint32_t pid, uint64_t time)
{
	int64_t line = idmap_find(&tl->processes.ids, machine_key(slot, pid));
	const struct version_line *pl =
		line < 0 ? NULL : &tl->processes.v[line].v;
	const struct machine *m = &tl->machines.v[slot];
	const struct version *p = pl ? timeline_version(pl, time) : NULL;
	const struct version *k = timeline_version(
		&m->v, tl->user_only ? UINT64_MAX : time);
	struct made_space *_Atomic *bucket;
	struct made_space *head, *new;
	const struct made_space *s;

	/* Nothing is known of the process or of its kernel. */
	if (!p && !k)
		return &tl->empty;
	bucket = &tl->spaces.bucket[mix((uintptr_t)p + mix((uintptr_t)k)) &
				    (tl->spaces.n - 1)];
	head = atomic_load_explicit(bucket, memory_order_acquire);
	s = find_made(head, p, k);
	if (s)
		return &s->s;
	new = make_space(pl, p, m, k, tl->user_only);
	if (!new) {
		atomic_store(&tl->spaces.bucket[tl->spaces.n], NO_MEMORY);
		return &tl->empty;
	}
	new->s.pid = p ? pid : UINT32_MAX;
	do {
		new->next = head;
	} while (!atomic_compare_exchange_weak_explicit(
		bucket, &head, new, memory_order_release,
		memory_order_acquire));
	return &new->s;
}

const struct space *timeline_space(const struct timeline *tl, uint32_t pid,
				   uint64_t time)
{
	return get_space(tl, HOST_SLOT, pid, time);
}

const struct space *timeline_guest_space(const struct timeline *tl,
					 uint32_t machine, uint32_t pid,
					 uint64_t time)
{
	int64_t slot = idmap_find(&tl->machines.ids, machine);

	return slot <= HOST_SLOT ? &tl->empty :
			  get_space(tl, (uint32_t)slot, pid, time);
}
