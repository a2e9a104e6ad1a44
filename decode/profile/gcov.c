/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: what gcc -fauto-profile=FILE reads, all numbers in the byte order of
 * the machine:
 *
 *	magic "gcda" as a number, version 2, 0
 *	0xaa000000, length, N, N names: length, bytes with a final 0
 *	0xac000000, length, N, N functions: head count (u64) and an instance
 *	0xae000000, length, 0
 *
 *	instance: name, N places, N inlined (u32 each), places, inlined
 *	place: line << 16 | discriminator, N targets, count (u64), targets
 *	target: type (u32), name (u64), count (u64)
 *	inlined: place (u32), instance
 *
 * gcc up to 14 ignores discriminators and keeps the last count it reads for a
 * line, so there is one count per line. Specification: gcc/auto-profile.cc (up
 * to 11: .c).
 */
#include <string.h>

#include "common/outbuf.h"
#include "decode/profile/impl.h"

#define TAG_NAMES	0xaa000000
#define TAG_FUNCTIONS	0xac000000
#define TAG_MODULES	0xae000000
#define MAGIC		0x67636461
#define VERSION		2
#define TARGET_INDIRECT	7	/* HIST_TYPE_INDIR_CALL_TOPN */
#define MAX_DEPTH	128

static void put32(struct outbuf *out, uint32_t v)
{
	outbuf_put(out, (const char *)&v, sizeof(v));
}

static void put64(struct outbuf *out, uint64_t v)
{
	put32(out, (uint32_t)v);
	put32(out, (uint32_t)(v >> 32));
}

/* gcc reads counts as signed (gcov_type). */
static void put_count(struct outbuf *out, uint64_t v)
{
	put64(out, v > INT64_MAX ? INT64_MAX : v);
}

/* Only targets of indirect calls have a place in the format: gcc promotes
 * these. */
static uint32_t count_indirect(const struct profile_lines_call *c, size_t n)
{
	uint32_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += c[i].indirect != 0;
	return found;
}

static void put_place(struct outbuf *out, const struct profile_lines *l,
		      const struct profile_lines_place *p)
{
	const struct profile_lines_call *c;
	size_t n;

	c = profile_lines_calls(l, p, &n);
	put32(out, p->line << 16 | p->disc);
	put32(out, count_indirect(c, n));
	put_count(out, p->count);
	for (size_t i = 0; i < n; i++) {
		if (!c[i].indirect)
			continue;
		put32(out, TARGET_INDIRECT);
		put64(out, c[i].name);
		put_count(out, c[i].indirect);
	}
}

/* A function and what is inlined into it, recursively. At MAX_DEPTH nothing is
 * inlined. */
static void put_instance(struct outbuf *out, const struct profile_lines *l,
			 uint32_t func, unsigned depth)
{
	const struct profile_lines_place *p;
	const uint32_t *inside;
	size_t n_places, n_inside;

	p = profile_lines_places(l, func, &n_places);
	inside = profile_lines_inside(l, func, &n_inside);
	if (depth == MAX_DEPTH)
		n_inside = 0;
	put32(out, profile_lines_func(l, func)->name);
	put32(out, (uint32_t)n_places);
	put32(out, (uint32_t)n_inside);
	for (size_t i = 0; i < n_places; i++)
		put_place(out, l, &p[i]);
	for (size_t i = 0; i < n_inside; i++) {
		put32(out, profile_lines_func(l, inside[i])->line << 16);
		put_instance(out, l, inside[i], depth + 1);
	}
}

/* All names, by index: functions and targets refer to them so. */
static void put_names(struct outbuf *out, const struct profile_lines *l)
{
	uint32_t length = 4;

	for (size_t i = 0; i < l->n_names; i++)
		length += 4 + (uint32_t)strlen(l->names[i]) + 1;
	put32(out, TAG_NAMES);
	put32(out, length);
	put32(out, (uint32_t)l->n_names);
	for (size_t i = 0; i < l->n_names; i++) {
		uint32_t n = (uint32_t)strlen(l->names[i]) + 1;

		put32(out, n);
		outbuf_put(out, l->names[i], n);
	}
}

static uint32_t count_roots(const struct profile_lines *l, const uint32_t *root,
			    size_t n, uint64_t max)
{
	uint32_t found = 0;

	for (size_t i = 0; i < n && (!max || found < max); i++)
		found += profile_lines_func(l, root[i])->total != 0;
	return found;
}

/* Roots are sorted by total: those that did not run come last and are left
 * out. */
static uint64_t put_functions(struct outbuf *out, const struct profile_lines *l,
			      uint64_t max)
{
	const uint32_t *root;
	size_t n;
	uint32_t n_out;

	root = profile_lines_inside(l, PROFILE_LINES_ROOT, &n);
	n_out = count_roots(l, root, n, max);
	put32(out, TAG_FUNCTIONS);
	put32(out, 0); /* length: gcc does not use it */
	put32(out, n_out);
	for (size_t i = 0; i < n_out; i++) {
		put_count(out, profile_lines_func(l, root[i])->head);
		put_instance(out, l, root[i], 0);
	}
	return n_out;
}

int profile_write_gcov(const struct profile_module *m, struct outbuf *out,
		       uint64_t max, struct profile_result *result,
		       struct aux_diag *diag)
{
	struct profile_lines l;
	int err = profile_lines_new(&l, m, false, result);

	(void)diag;
	if (!err)
		err = profile_lines_sort(&l);
	if (!err && l.places.n) {
		put32(out, MAGIC);
		put32(out, VERSION);
		put32(out, 0);
		put_names(out, &l);
		result->n_lines = put_functions(out, &l, max);
		put32(out, TAG_MODULES);
		put32(out, 4);
		put32(out, 0);
	}
	profile_lines_free(&l);
	return err;
}
