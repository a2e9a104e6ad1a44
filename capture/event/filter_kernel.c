/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * addrfilter_kernel: the kernel's code symbols, from /proc/kallsyms; and the
 * list that both kinds of symbols are gathered in.
 *
 * Invariant: a symbol's size reaches to the next higher address in the list:
 * kallsyms has no sizes.
 * Specification: proc(5), nm(1) for the letters.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "capture/event/filter_impl.h"

int addrfilter_sym_add(struct filter_syms *s, const struct filter_sym *sym)
{
	void *p = realloc(s->v, (s->n + 1) * sizeof(*s->v));

	if (!p)
		return -AUX_E_NOMEM;
	s->v = p;
	s->v[s->n++] = *sym;
	return 0;
}

static int compare_syms(const void *a, const void *b)
{
	const struct filter_sym *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->bind - y->bind;	/* global before local, weak */
}

void addrfilter_sym_sort(struct filter_syms *s)
{
	size_t i, k = 0;

	if (!s->n)
		return;
	qsort(s->v, s->n, sizeof(*s->v), compare_syms);
	for (i = 1; i < s->n; i++)
		if (s->v[i].addr != s->v[k].addr)
			s->v[++k] = s->v[i];
	s->n = k + 1;
}

struct kallsym {
	uint64_t addr;
	char type;
	const char *name;
};

/* "ADDRESS TYPE NAME[\t[MODULE]]"; name points into line. */
static bool parse_kallsym(char *line, struct kallsym *k)
{
	char *p;

	k->addr = strtoull(line, &p, 16);
	if (p[0] != ' ' || !p[1] || p[2] != ' ')
		return false;
	k->type = p[1];
	k->name = p + 3;
	p[3 + strcspn(p + 3, "\t\n")] = '\0';
	return true;
}

/* Sizes: the least address above each, of any symbol. */
static void see_next(struct filter_syms *s, uint64_t addr)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (addr > s->v[i].addr &&
		    (!s->v[i].size || addr - s->v[i].addr < s->v[i].size))
			s->v[i].size = addr - s->v[i].addr;
}

static int see_symbol(struct filter_syms *s, const struct kallsym *k,
		      const char *name)
{
	struct filter_sym f = { .addr = k->addr };

	if (!strcmp(k->name, "_stext"))
		s->first = k->addr;
	if (!strcmp(k->name, "_etext"))
		s->last = k->addr;
	if (!name || strcmp(k->name, name) || !strchr("tTwW", k->type))
		return 0;
	f.bind = isupper((unsigned char)k->type) ? 'g' : 'l';
	if (k->type == 'w' || k->type == 'W')
		f.bind = 'w';
	return addrfilter_sym_add(s, &f);
}

int addrfilter_kernel(const char *kallsyms, const char *name,
		      struct filter_syms *s, struct aux_diag *diag)
{
	FILE *f = fopen(kallsyms, "re");
	struct kallsym k;
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	memset(s, 0, sizeof(*s));
	if (!f)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"--filter: %s: %s; give the kernel's addresses "
				"instead of names", kallsyms, strerror(errno));
	while (!ret && getline(&line, &room, f) > 0)
		if (parse_kallsym(line, &k))
			ret = see_symbol(s, &k, name);
	rewind(f);	/* modules come in no order: once more, for sizes */
	while (!ret && s->n && getline(&line, &room, f) > 0)
		if (parse_kallsym(line, &k))
			see_next(s, k.addr);
	free(line);
	fclose(f);
	addrfilter_sym_sort(s);
	if (!ret && ((s->n && !s->v[0].addr) || (!s->n && !s->last)))
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"--filter: the kernel hides its addresses; "
				"show them: sudo sysctl kernel.kptr_restrict=0 "
				"kernel.perf_event_paranoid=1, or be root");
	return ret;
}
