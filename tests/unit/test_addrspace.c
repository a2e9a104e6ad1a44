/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * addrspace against arrays that do the same the slow way: insertion over and under other
 * ranges, and ranges copied from another tree. Old versions never change.
 */
#include <stdlib.h>

#include "decode/lib/sideband/sideband.h"
#include "tests/unit/tap.h"

#define SLOTS 300
#define ROUNDS 3000
#define KEPT 20

struct model {
	uint64_t v[SLOTS];	/* what is at each address; 0: nothing */
};

static uint64_t seed = 1;

static uint64_t next_random(uint64_t n)
{
	seed = seed * 6364136223846793005 + 1442695040888963407;
	return (seed >> 33) % n;
}

static bool equals(const struct map_node *root, const struct model *m)
{
	for (uint64_t i = 0; i < SLOTS; i++) {
		const struct mapping *f = addrspace_find(root, i);

		if (m->v[i] != (f ? f->pgoff + i - f->start : 0))
			return false;
	}
	return true;
}

/* Sorted, disjoint, and counted; sums depend on the contents alone. */
static bool is_sound(struct map_arena *a, const struct map_node *root)
{
	const struct map_node *again = NULL;
	const struct mapping *m;
	uint64_t end = 0;
	uint32_t n = 0;

	for (m = addrspace_next(root, 0); m; m = addrspace_next(root, m->end)) {
		if (m->start < end || m->end <= m->start)
			return false;
		end = m->end;
		n++;
		again = addrspace_insert(a, again, m);
	}
	return n == (root ? root->n : 0) &&
	       (!n || (root->sum[0] == again->sum[0] &&
		       root->sum[1] == again->sum[1]));
}

static struct mapping pick(uint64_t n)
{
	struct mapping m = { .path = "/x", .time = n };

	m.start = next_random(SLOTS);
	m.end = m.start + 1 + next_random(30);
	if (m.end > SLOTS)
		m.end = SLOTS;
	m.pgoff = 1000 * n + m.start;
	return m;
}

static void change(struct map_arena *a, const struct map_node **root,
		   struct model *m, const struct map_node *from,
		   const struct model *fm, uint64_t n)
{
	struct mapping p = pick(n);
	unsigned what = (unsigned)next_random(5);

	if (what < 2)
		*root = addrspace_insert(a, *root, &p);
	else if (what == 2)
		*root = addrspace_insert_under(a, *root, &p);
	else
		*root = addrspace_copy(a, *root, what == 3 ? from : NULL,
				       p.start, p.end);
	for (uint64_t i = p.start; i < p.end; i++) {
		if (what < 2 || (what == 2 && !m->v[i]))
			m->v[i] = 1000 * n + i;
		else if (what > 2)
			m->v[i] = what == 3 ? fm->v[i] : 0;
	}
}

int main(void)
{
	const struct map_node *root[2] = { NULL, NULL }, *old[KEPT];
	struct map_arena a = { .seed = 7, .salt = 9 };
	struct model *kept = calloc(KEPT, sizeof(*kept));
	struct model m[2] = { 0 };
	bool good = true, sound = true;
	unsigned n_kept = 0;

	for (uint64_t n = 1; n <= ROUNDS; n++) {
		unsigned i = n & 1;

		change(&a, &root[i], &m[i], root[!i], &m[!i], n);
		good &= equals(root[i], &m[i]);
		if (n % 50 == 0)
			sound &= is_sound(&a, root[i]);
		if (n % (ROUNDS / KEPT) == 0) {
			old[n_kept] = root[i];
			kept[n_kept++] = m[i];
		}
	}
	ok(good, "%d changes of two trees equal two arrays", ROUNDS);
	ok(sound, "disjoint, sorted, counted, equal sums for equal contents");
	for (unsigned i = 0; i < n_kept; i++)
		good &= equals(old[i], &kept[i]);
	ok(good && n_kept == KEPT, "%u old versions did not change", n_kept);
	map_arena_free(&a);
	free(kept);
	return plan_done();
}
