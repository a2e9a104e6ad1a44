/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kallsyms: see kallsyms.h. The same lines in two orders: by address, for what
 * is there, and by name, for where something is.
 *
 * Specification: kernel/kallsyms.c of Linux (s_show). Lower-case types are
 * local symbols.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "common/array.h"

#include "decode/lib/elf/kallsyms.h"

/* The list has no sizes. The last symbol of the kernel, or of a module, covers
 * at most this much. */
#define MAX_REACH 65536

struct line {
	uint64_t addr;
	const char *name, *module;
	char type;
};

struct kallsyms {
	char *text;		/* a copy, cut into strings */
	struct line *by_addr;	/* all */
	struct line *by_name;	/* global ones */
	size_t n, cap, n_names;
};

/* Hexadecimal digits and a space; returns what follows, or NULL. */
static char *parse_addr(char *p, uint64_t *addr)
{
	char *start = p;

	*addr = 0;
	for (;; p++) {
		unsigned digit;

		if (*p >= '0' && *p <= '9')
			digit = (unsigned)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			digit = (unsigned)(*p - 'a') + 10;
		else
			break;
		*addr = *addr << 4 | digit;
	}
	return p > start && p - start <= 16 && *p == ' ' ? p + 1 : NULL;
}

/* One line without its end; cuts it into strings. Address 0 is hidden
 * (kptr_restrict). */
static bool parse_line(char *p, struct line *l)
{
	char *end;

	p = parse_addr(p, &l->addr);
	if (!p || !p[0] || p[1] != ' ' || !l->addr)
		return false;
	l->type = p[0];
	l->name = p + 2;
	l->module = NULL;
	end = strpbrk(p + 2, "\t ");
	if (end) {
		*end++ = '\0';
		end += strspn(end, "\t ");
		if (*end == '[') {
			l->module = end + 1;
			end = strchr(end, ']');
			if (!end)
				return false;
			*end = '\0';
		}
	}
	return *l->name;
}

static int by_addr(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	size_t ux, uy;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	/* The best one last, by the rule of symbols.c: a global name, then fewer
	 * underscores in front: what returns from an interrupt is not called
	 * __irqentry_text_end. */
	if ((x->type < 'a') != (y->type < 'a'))
		return x->type < 'a' ? 1 : -1;
	ux = strspn(x->name, "_");
	uy = strspn(y->name, "_");
	if (ux != uy)
		return ux < uy ? 1 : -1;
	return -strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->name,
		      ((const struct line *)b)->name);
}

static int parse_text(struct kallsyms *k)
{
	char *save, *next = k->text;
	struct line l;

	while ((save = next)) {
		next = strchr(save, '\n');
		if (next)
			*next++ = '\0';
		if (!parse_line(save, &l))
			continue;
		if (array_grow(&k->by_addr, k->n, &k->cap, sizeof(l)) < 0)
			return -AUX_E_NOMEM;
		k->by_addr[k->n++] = l;
	}
	return k->n ? 0 : -AUX_E_FORMAT;
}

/* Only global names: local ones occur many times, so they identify nothing. */
static int sort_names(struct kallsyms *k)
{
	k->by_name = calloc(k->n, sizeof(*k->by_name));
	if (!k->by_name)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < k->n; i++) {
		if (k->by_addr[i].type < 'a')
			k->by_name[k->n_names++] = k->by_addr[i];
	}
	qsort(k->by_name, k->n_names, sizeof(*k->by_name), by_name);
	return 0;
}

int kallsyms_new(struct kallsyms **kp, const uint8_t *text, size_t len)
{
	struct kallsyms *k = calloc(1, sizeof(*k));
	int rc = -AUX_E_NOMEM;

	*kp = NULL;
	if (k)
		k->text = malloc(len + 1);
	if (k && k->text) {
		if (len)
			memcpy(k->text, text, len);
		k->text[len] = '\0';
		rc = parse_text(k);
	}
	if (!rc) {
		qsort(k->by_addr, k->n, sizeof(*k->by_addr), by_addr);
		rc = sort_names(k);
	}
	if (rc < 0)
		kallsyms_free(k);
	else
		*kp = k;
	return rc;
}

void kallsyms_free(struct kallsyms *k)
{
	if (!k)
		return;
	free(k->by_addr);
	free(k->by_name);
	free(k->text);
	free(k);
}

/* Text, or weak: t T w W. */
static bool is_code(const struct line *l)
{
	return strchr("tTwW", l->type);
}

bool kallsyms_find(const struct kallsyms *k, uint64_t addr,
		   struct kallsyms_symbol *sym)
{
	size_t lo = 0, n = k->n, at;
	const struct line *l = NULL;

	while (n) {
		size_t half = n / 2;

		if (k->by_addr[lo + half].addr <= addr) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	/* Among the names of one address the last that is code. */
	for (at = lo; !l && at &&
		      k->by_addr[at - 1].addr == k->by_addr[lo - 1].addr; at--) {
		if (is_code(&k->by_addr[at - 1]))
			l = &k->by_addr[at - 1];
	}
	if (!l)
		return false;
	*sym = (struct kallsyms_symbol){ l->name, l->module, l->addr,
					 l->addr + MAX_REACH };
	if (lo < k->n && k->by_addr[lo].addr < sym->end)
		sym->end = k->by_addr[lo].addr;
	return addr < sym->end;
}

uint64_t kallsyms_address(const struct kallsyms *k, const char *name)
{
	size_t lo = 0, n = k->n_names;

	while (n) {
		size_t half = n / 2;

		if (strcmp(k->by_name[lo + half].name, name) < 0) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	if (lo == k->n_names || strcmp(k->by_name[lo].name, name))
		return 0;
	for (size_t i = lo + 1; i < k->n_names; i++) {
		if (strcmp(k->by_name[i].name, name))
			break;
		if (k->by_name[i].addr != k->by_name[lo].addr)
			return 0;
	}
	return k->by_name[lo].addr;
}
