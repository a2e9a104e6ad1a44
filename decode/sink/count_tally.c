/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count_tally: the sums, by thread and by stream. The output is for machines
 * and stays as it is; the format is in auxdecode.1.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "common/outbuf.h"
#include "decode/sink/count.h"

void count_totals_init(struct count_totals *t)
{
	*t = (struct count_totals){ 0 };
	sha256_init(&t->all.sha);
}

static void free_tallies(struct tallies *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i]);
	free(t->v);
	free(t->slots);
}

void count_totals_fini(struct count_totals *t)
{
	free_tallies(&t->threads);
	free_tallies(&t->streams);
}

static size_t slot_of(const struct tallies *t, uint32_t id)
{
	size_t i = (size_t)(id * UINT32_C(0x9e3779b1)) & (t->n_slots - 1);

	while (t->slots[i] && t->v[t->slots[i] - 1]->id != id)
		i = (i + 1) & (t->n_slots - 1);
	return i;
}

static int grow_tallies(struct tallies *t)
{
	size_t max = t->max ? t->max * 2 : 16;
	struct tally **v = realloc(t->v, max * sizeof(struct tally *));
	uint32_t *slots;

	if (!v)
		return -AUX_E_NOMEM;
	t->v = v;
	slots = calloc(max * 2, sizeof(*slots));
	if (!slots)
		return -AUX_E_NOMEM;
	free(t->slots);
	t->slots = slots;
	t->max = max;
	t->n_slots = max * 2;
	for (size_t i = 0; i < t->n; i++)
		slots[slot_of(t, t->v[i]->id)] = (uint32_t)i + 1;
	return 0;
}

/* The tally of an id becomes the current one. */
static int select_tally(const struct tally *all, struct tallies *t, uint32_t id)
{
	struct tally *tally;
	size_t i;

	if (t->n == t->max && grow_tallies(t))
		return -AUX_E_NOMEM;
	i = slot_of(t, id);
	if (!t->slots[i]) {
		tally = calloc(1, sizeof(*tally));
		if (!tally)
			return -AUX_E_NOMEM;
		tally->id = id;
		tally->same_sha = !t->n;
		sha256_init(&tally->sha);
		if (t->n && t->v[0]->same_sha) {
			t->v[0]->sha = all->sha;
			t->v[0]->same_sha = false;
		}
		t->v[t->n++] = tally;
		t->slots[i] = (uint32_t)t->n;
	}
	t->current = t->v[t->slots[i] - 1];
	return 0;
}

int count_totals_select(struct count_totals *t, uint32_t tid, uint32_t stream)
{
	if (select_tally(&t->all, &t->threads, tid) ||
	    select_tally(&t->all, &t->streams, stream))
		return -AUX_E_NOMEM;
	return 0;
}

void count_totals_add(struct count_totals *t, struct count_run *run)
{
	struct tally *v[3] = { t->threads.current, t->streams.current,
			       &t->all };
	struct iphash_block block = { .value = iphash_reduce(run->value),
				      .power = iphash_power(run->n),
				      .n = run->n };

	for (int i = 0; i < 3; i++) {
		if (!v[i])
			continue;
		iphash_append_block(&v[i]->hash, &block);
		v[i]->n_branches += run->n_branches;
		v[i]->n_gaps += run->n_gaps;
	}
	*run = (struct count_run){ 0 };
}

void count_totals_sha(struct count_totals *t, const void *bytes, size_t len)
{
	sha256_update(&t->all.sha, bytes, len);
	if (!t->threads.current->same_sha)
		sha256_update(&t->threads.current->sha, bytes, len);
	if (!t->streams.current->same_sha)
		sha256_update(&t->streams.current->sha, bytes, len);
}

static int compare_ids(const void *a, const void *b)
{
	int32_t x = (int32_t)(*(struct tally *const *)a)->id;
	int32_t y = (int32_t)(*(struct tally *const *)b)->id;

	return (x > y) - (x < y);
}

/* "KIND ID insns N hash H branches B gaps G[ sha256 S]" */
static void print_tally(const struct count_totals *all, struct outbuf *out,
			const char *kind, const struct tally *t, bool with_sha)
{
	struct sha256 sha;
	char text[65];

	outbuf_str(out, kind);
	if (t != &all->all)
		outbuf_printf(out, " %d", (int32_t)t->id);
	outbuf_printf(out, " insns %llu hash %016llx branches %llu gaps %llu",
		      (unsigned long long)t->hash.n,
		      (unsigned long long)t->hash.value,
		      (unsigned long long)t->n_branches,
		      (unsigned long long)t->n_gaps);
	if (with_sha) {
		sha = t->same_sha ? all->all.sha : t->sha;
		sha256_final(&sha, text);
		outbuf_printf(out, " sha256 %s", text);
	}
	outbuf_put(out, "\n", 1);
}

static void print_tallies(const struct count_totals *all, struct outbuf *out,
			  const char *kind, struct tallies *t, bool sha)
{
	if (t->n)
		qsort(t->v, t->n, sizeof(struct tally *), compare_ids);
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i]->hash.n || t->v[i]->n_gaps)
			print_tally(all, out, kind, t->v[i], sha);
}

void count_totals_print(struct count_totals *t, struct outbuf *out, bool sha)
{
	print_tallies(t, out, "thread", &t->threads, sha);
	print_tallies(t, out, "stream", &t->streams, sha);
	print_tally(t, out, "total", &t->all, sha);
}
