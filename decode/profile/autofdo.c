/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: a sample profile as text, for clang -fprofile-sample-use and
 * llvm-profdata --sample:
 *
 *	FUNCTION:TOTAL:HEAD
 *	 LINE[.DISCRIMINATOR]: COUNT [CALLEE:COUNT]...
 *	 LINE[.DISCRIMINATOR]: INLINED-FUNCTION:TOTAL
 *	  LINE: COUNT
 *
 * Lines that begin with # are skipped by its readers. Specification: LLVM,
 * include/llvm/ProfileData/SampleProfReader.h.
 */
#include <string.h>

#include "common/clean.h"
#include "common/outbuf.h"
#include "decode/profile/impl.h"

#define MAX_DEPTH 128	/* of inlining: more is not written */

/* False for names that would break the grammar; these are left out. */
static bool is_name(const char *name)
{
	for (size_t size; *name; name += size)
		if (!clean_char(name, strnlen(name, 4), &size) ||
		    *name == ' ' || *name == ':')
			return false;
	return true;
}

static void put_indent(struct outbuf *out, unsigned depth)
{
	while (depth--)
		outbuf_put(out, " ", 1);
}

static void put_where(struct outbuf *out, unsigned depth, uint32_t line,
		      uint32_t disc)
{
	put_indent(out, depth);
	outbuf_printf(out, "%u", line);
	if (disc)
		outbuf_printf(out, ".%u", disc);
	outbuf_put(out, ": ", 2);
}

static void put_place(struct outbuf *out, const struct profile_lines *l,
		      const struct profile_lines_place *p, unsigned depth)
{
	const struct profile_lines_call *c;
	size_t n;

	put_where(out, depth, p->line, p->disc);
	outbuf_printf(out, "%llu", (unsigned long long)p->count);
	c = profile_lines_calls(l, p, &n);
	for (size_t i = 0; i < n; i++)
		if (is_name(l->names[c[i].name]))
			outbuf_printf(out, " %s:%llu", l->names[c[i].name],
				      (unsigned long long)c[i].count);
	outbuf_put(out, "\n", 1);
}

/* Places of a function first, then what is inlined into it, one blank deeper
 * each. */
static void put_body(struct outbuf *out, const struct profile_lines *l,
		     uint32_t func, unsigned depth)
{
	const struct profile_lines_place *p;
	const uint32_t *inside;
	size_t n;

	p = profile_lines_places(l, func, &n);
	for (size_t i = 0; i < n; i++)
		put_place(out, l, &p[i], depth);
	inside = profile_lines_inside(l, func, &n);
	for (size_t i = 0; i < n && depth < MAX_DEPTH; i++) {
		const struct profile_lines_func *f =
			profile_lines_func(l, inside[i]);

		if (!is_name(l->names[f->name]))
			continue;
		put_where(out, depth, f->line, f->disc);
		outbuf_printf(out, "%s:%llu\n", l->names[f->name],
			      (unsigned long long)f->total);
		put_body(out, l, inside[i], depth + 1);
	}
}

/* Functions that did not run have total 0 and are skipped. Returns how many it
 * wrote. */
static uint64_t put_roots(struct outbuf *out, const struct profile_lines *l,
			  uint64_t max)
{
	const uint32_t *root;
	uint64_t n_out = 0;
	size_t n;

	root = profile_lines_inside(l, PROFILE_LINES_ROOT, &n);
	for (size_t i = 0; i < n && (!max || n_out < max); i++) {
		const struct profile_lines_func *f =
			profile_lines_func(l, root[i]);

		if (!f->total || !is_name(l->names[f->name]))
			continue;
		outbuf_printf(out, "%s:%llu:%llu\n", l->names[f->name],
			      (unsigned long long)f->total,
			      (unsigned long long)f->head);
		put_body(out, l, root[i], 1);
		n_out++;
	}
	return n_out;
}

int profile_write_autofdo(const struct profile_module *m, struct outbuf *out,
			  uint64_t max, struct profile_result *result,
			  struct aux_diag *diag)
{
	struct profile_lines l;
	int err = profile_lines_new(&l, m, true, result);

	(void)diag;
	if (!err)
		err = profile_lines_sort(&l);
	if (!err && l.places.n) {
		if (m->list->n_gaps)
			outbuf_printf(out, "# gaps %llu: what ran there is not "
				      "counted\n",
				      (unsigned long long)m->list->n_gaps);
		result->n_lines = put_roots(out, &l, max);
	}
	profile_lines_free(&l);
	return err;
}
