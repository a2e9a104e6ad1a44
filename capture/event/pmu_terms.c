/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmu_terms: turns the terms of an event into the config words of its attr, by
 * the PMU's format and events directories.
 *
 * Invariant: a value that does not fit into its field is an error, never
 * truncated.
 */
#include <string.h>

#include "common/diag.h"

#include "capture/event/pmu.h"

#define MAX_DEPTH 4	/* aliases that refer to aliases */

/*
 * The word in attr. config3 came with Linux 6.3 (PERF_ATTR_SIZE_VER8, after
 * sig_data); NULL if we are compiled with older headers, whose attr ends before
 * it.
 */
static __u64 *config_word(const struct perf_event_attr *attr, unsigned word)
{
	struct perf_event_attr *a = (struct perf_event_attr *)(uintptr_t)attr;

	switch (word) {
	case 0:
		return &a->config;
	case 1:
		return &a->config1;
	case 2:
		return &a->config2;
	default:
#ifdef PERF_ATTR_SIZE_VER8
		return &a->config3;
#else
		return NULL;
#endif
	}
}

const struct pmu_format *pmu_format_find(const struct pmu *pmu,
					 const char *name)
{
	size_t i;

	for (i = 0; i < pmu->n_formats; i++)
		if (!strcmp(pmu->formats[i].name, name))
			return &pmu->formats[i];
	return NULL;
}

uint64_t pmu_format_get(const struct pmu_format *f,
			const struct perf_event_attr *attr)
{
	const __u64 *word = config_word(attr, f->word);
	uint64_t v = 0;
	unsigned bit, n = 0;

	for (bit = 0; word && bit < 64; bit++)
		if (f->mask >> bit & 1)
			v |= (*word >> bit & 1) << n++;
	return v;
}

int pmu_format_set(const struct pmu_format *f, struct perf_event_attr *attr,
		   uint64_t value)
{
	__u64 *word = config_word(attr, f->word);
	uint64_t bits = 0;
	unsigned bit;

	for (bit = 0; bit < 64; bit++) {
		if (!(f->mask >> bit & 1))
			continue;
		bits |= (value & 1) << bit;
		value >>= 1;
	}
	if (value || !word)
		return -AUX_E_INVAL;
	*word = (*word & ~f->mask) | bits;
	return 0;
}

/* A list for a message, truncated at the end of its buffer. */
struct list {
	char text[300];
	size_t len;
};

static void list_add(struct list *l, const char *word)
{
	size_t room = sizeof(l->text) - l->len;
	int n = snprintf(l->text + l->len, room, "%s%s", l->len ? ", " : "",
			 word);

	l->len += (size_t)n < room ? (size_t)n : room - 1;
}

static int refuse_term(const struct pmu *pmu, const struct event_spec *spec,
		       const char *const *words, const char *name,
		       struct aux_diag *diag)
{
	struct list l = { .len = 0 };
	size_t i;

	for (i = 0; i < pmu->n_formats; i++)
		list_add(&l, pmu->formats[i].name);
	for (i = 0; i < pmu->n_aliases; i++)
		list_add(&l, pmu->aliases[i].name);
	for (; words && *words; words++)
		list_add(&l, *words);
	return event_refuse(diag, spec, "%s has no term '%.40s'; it has: %s",
			    pmu->name, name, l.len ? l.text : "config");
}

/* Sets a field; a term without a value means 1. */
static int set_term(const struct pmu_format *f, const struct event_spec *spec,
		    const struct event_term *t, struct perf_event_attr *attr,
		    struct aux_diag *diag)
{
	int bits = __builtin_popcountll(f->mask);
	uint64_t v;

	if (!config_word(attr, f->word))
		return event_refuse(diag, spec, "%s lies in config3, which "
				    "this build does not know: build auxcap "
				    "with headers of Linux 6.3 or newer",
				    f->name);
	if (event_number(t->value, &v) && !pmu_format_set(f, attr, v))
		return 0;
	return event_refuse(diag, spec, "%s=%.40s is not possible; legal: 0 to "
			    "%#llx", f->name, t->value ? t->value : "1",
			    (unsigned long long)(UINT64_MAX >> (64 - bits)));
}

/* config=N, config1=N ...: a whole word. 1: the term is none of these. */
static int set_word(const struct event_spec *spec, const struct event_term *t,
		    struct perf_event_attr *attr, struct aux_diag *diag)
{
	static const char *const words[] = { "config", "config1", "config2",
					     "config3" };
	struct pmu_format f = { .mask = UINT64_MAX };

	for (; f.word < 4; f.word++) {
		if (strcmp(t->name, words[f.word]))
			continue;
		memcpy(f.name, t->name, strlen(t->name) + 1);
		return set_term(&f, spec, t, attr, diag);
	}
	return 1;
}

static const struct pmu_alias *find_alias(const struct pmu *pmu,
					  const struct event_term *t)
{
	size_t i;

	for (i = 0; !t->value && i < pmu->n_aliases; i++)
		if (!strcmp(pmu->aliases[i].name, t->name))
			return &pmu->aliases[i];
	return NULL;
}

static bool is_own(const struct event_term *t, const char *const *words)
{
	for (; words && *words; words++)
		if (!strcmp(*words, t->name))
			return true;
	return *t->name == '@';
}

/* apply and apply_alias call each other. */
static int apply(const struct pmu *pmu, const struct event_spec *spec,
		 const char *const *words, struct perf_event_attr *attr,
		 unsigned depth, struct aux_diag *diag);

/* An alias stands for terms, among them other aliases. */
static int apply_alias(const struct pmu *pmu, const struct pmu_alias *a,
		       struct perf_event_attr *attr, unsigned depth,
		       struct aux_diag *diag)
{
	struct event_spec spec;
	char text[300];
	int ret;

	snprintf(text, sizeof(text), "%s/%s/", pmu->name, a->terms);
	ret = event_parse(&spec, text, diag);
	if (ret)
		return ret;
	if (depth == MAX_DEPTH)
		ret = event_refuse(diag, &spec, "its names stand for one "
				   "another: the kernel's %s/events is damaged",
				   pmu->dir);
	else
		ret = apply(pmu, &spec, NULL, attr, depth + 1, diag);
	event_fini(&spec);
	return ret;
}

static int apply(const struct pmu *pmu, const struct event_spec *spec,
		 const char *const *words, struct perf_event_attr *attr,
		 unsigned depth, struct aux_diag *diag)
{
	size_t i;
	int ret;

	for (i = 0; i < spec->n_terms; i++) {
		const struct event_term *t = &spec->terms[i];
		const struct pmu_format *f;
		const struct pmu_alias *a;

		if (is_own(t, words))
			continue;
		/* A format named like a word ("config") takes precedence. */
		f = pmu_format_find(pmu, t->name);
		if (f)
			ret = set_term(f, spec, t, attr, diag);
		else if ((ret = set_word(spec, t, attr, diag)) != 1)
			;
		else if ((a = find_alias(pmu, t)))
			ret = apply_alias(pmu, a, attr, depth, diag);
		else
			ret = refuse_term(pmu, spec, words, t->name, diag);
		if (ret)
			return ret;
	}
	return 0;
}

int pmu_config(const struct pmu *pmu, const struct event_spec *spec,
	       const char *const *words, struct perf_event_attr *attr,
	       struct aux_diag *diag)
{
	return apply(pmu, spec, words, attr, 0, diag);
}
