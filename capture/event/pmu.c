/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pmu: reads a PMU's directory in sysfs, once, when it is opened.
 *
 * Invariant: whatever the files hold, a format lies within its word and a name
 * within its array; what is not understood is skipped, never guessed.
 * Specification:
 * Documentation/ABI/testing/sysfs-bus-event_source-devices-format and -events.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/event/pmu.h"
#include "common/array.h"
#include "common/diag.h"

#define MAX_CPUS 65536

static int out_of_memory(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

int pmu_read(const struct pmu *pmu, const char *file, char *buf, size_t len)
{
	char path[512];
	ssize_t n;
	int fd;

	if (!len || snprintf(path, sizeof(path), "%s/%s", pmu->dir, file) >=
			    (int)sizeof(path))
		return -AUX_E_NOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -AUX_E_NOENT;
	n = read(fd, buf, len - 1);
	close(fd);
	if (n < 0)
		return -AUX_E_NOENT;
	while (n > 0 && isspace((unsigned char)buf[n - 1]))
		n--;
	buf[n] = '\0';
	return 0;
}

uint64_t pmu_cap(const struct pmu *pmu, const char *name, uint64_t dflt)
{
	char file[128], text[32], *end;
	uint64_t v;

	snprintf(file, sizeof(file), "caps/%s", name);
	if (pmu_read(pmu, file, text, sizeof(text)) ||
	    !isxdigit((unsigned char)*text))
		return dflt;
	errno = 0;
	/* arch/x86/events/intel/pt.c prints %x, other drivers %d or 0x%x. */
	v = strtoull(text, &end, strcmp(pmu->name, "intel_pt") ? 0 : 16);
	return *end || errno ? dflt : v;
}

/* Parses "0-3,5"; stops at what it does not understand. */
static int read_cpus(struct pmu *pmu, const char *text)
{
	while (isdigit((unsigned char)*text)) {
		char *end;
		unsigned long lo = strtoul(text, &end, 10), hi = lo;
		int *cpus;

		if (*end == '-')
			hi = strtoul(end + 1, &end, 10);
		if (hi < lo || hi >= MAX_CPUS)
			return 0;
		cpus = reallocarray(pmu->cpus, pmu->n_cpus + hi - lo + 1,
				    sizeof(*cpus));
		if (!cpus)
			return -AUX_E_NOMEM;
		pmu->cpus = cpus;
		for (; lo <= hi; lo++)
			cpus[pmu->n_cpus++] = (int)lo;
		text = *end == ',' ? end + 1 : end;
	}
	return 0;
}

/* Parses "config1:0-3,7". */
static bool parse_format(struct pmu_format *f, const char *text)
{
	static const char *const words[] = { "config:", "config1:", "config2:",
					     "config3:" };
	size_t n;

	for (f->word = 0; f->word < 4; f->word++) {
		n = strlen(words[f->word]);
		if (!strncmp(text, words[f->word], n))
			break;
	}
	if (f->word == 4)
		return false;
	for (text += n; isdigit((unsigned char)*text); text++) {
		char *end;
		unsigned long lo = strtoul(text, &end, 10), hi = lo;

		if (*end == '-')
			hi = strtoul(end + 1, &end, 10);
		if (hi < lo || hi > 63)
			return false;
		f->mask |= UINT64_MAX << lo & UINT64_MAX >> (63 - hi);
		text = end;
		if (*text != ',')
			break;
	}
	return !*text && f->mask;
}

/* A file of format/; one that cannot be parsed is skipped. */
static int add_format(struct pmu *pmu, const char *name, const char *text)
{
	struct pmu_format f = { .mask = 0 };

	if (strlen(name) >= sizeof(f.name) || !parse_format(&f, text))
		return 0;
	if (array_grow(&pmu->formats, pmu->n_formats, &pmu->cap_formats,
		       sizeof(f)))
		return -AUX_E_NOMEM;
	memcpy(f.name, name, strlen(name) + 1);
	pmu->formats[pmu->n_formats++] = f;
	return 0;
}

/* Adds the alias that a file of events/ defines. One that does not fit struct
 * pmu_alias is skipped. */
static int add_alias(struct pmu *pmu, const char *name, const char *text)
{
	struct pmu_alias a;

	/* NAME.unit, .scale and others say how to show a count. */
	if (strlen(name) >= sizeof(a.name) || strlen(text) >= sizeof(a.terms) ||
	    strchr(name, '.'))
		return 0;
	if (array_grow(&pmu->aliases, pmu->n_aliases, &pmu->cap_aliases,
		       sizeof(a)))
		return -AUX_E_NOMEM;
	memset(&a, 0, sizeof(a));
	memcpy(a.name, name, strlen(name) + 1);
	memcpy(a.terms, text, strlen(text) + 1);
	pmu->aliases[pmu->n_aliases++] = a;
	return 0;
}

/* Calls add for each file of a directory, which may be missing. */
static int read_dir(struct pmu *pmu, const char *sub,
		    int (*add)(struct pmu *pmu, const char *name, const char *text))
{
	char path[512], file[320], text[256];
	struct dirent *e;
	int ret = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", pmu->dir, sub);
	d = opendir(path);
	if (!d)
		return errno == ENOMEM ? -AUX_E_NOMEM : 0;
	while (!ret && (e = readdir(d))) {
		if (*e->d_name == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s", sub, e->d_name);
		if (!pmu_read(pmu, file, text, sizeof(text)))
			ret = add(pmu, e->d_name, text);
	}
	closedir(d);
	return ret;
}

/* For formats and aliases: both structs begin with the name. */
static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The error for an unknown name, with the existing ones. */
static int no_such_pmu(const char *root, const char *name,
		       struct aux_diag *diag)
{
	char list[320] = "", **names;
	int i, n = pmu_list(root, &names, NULL);
	size_t used = 0;

	for (i = 0; i < n; i++) {
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used,
						 sizeof(list) - used, "%s%s",
						 i ? ", " : "", names[i]);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
			"no PMU '%.64s' on this machine; there are: %s", name,
			*list ? list : "none");
}

/* type is mandatory; everything else may be missing. Uncore PMUs have cpumask,
 * hybrid core PMUs cpus. */
static int read_pmu(struct pmu *pmu, struct aux_diag *diag)
{
	char text[4096], *end;
	unsigned long type;
	int ret;

	if (pmu_read(pmu, "type", text, 32) ||
	    (errno = 0, type = strtoul(text, &end, 10), errno) || *end ||
	    !isdigit((unsigned char)*text) || type > UINT32_MAX)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"%s/type holds no number", pmu->dir);
	pmu->type = (uint32_t)type;
	if (!pmu_read(pmu, "nr_addr_filters", text, 32))
		pmu->n_addr_filters = (uint32_t)strtoul(text, NULL, 0);
	ret = read_dir(pmu, "format", add_format);
	if (!ret)
		ret = read_dir(pmu, "events", add_alias);
	if (!ret && (!pmu_read(pmu, "cpumask", text, sizeof(text)) ||
		     !pmu_read(pmu, "cpus", text, sizeof(text))))
		ret = read_cpus(pmu, text);
	if (ret)
		return out_of_memory(diag);
	if (pmu->n_formats)
		qsort(pmu->formats, pmu->n_formats, sizeof(*pmu->formats),
		      by_name);
	if (pmu->n_aliases)
		qsort(pmu->aliases, pmu->n_aliases, sizeof(*pmu->aliases),
		      by_name);
	return 0;
}

int pmu_open(struct pmu **pmu, const char *root, const char *name,
	     struct aux_diag *diag)
{
	struct pmu *p = calloc(1, sizeof(*p));
	int ret;

	*pmu = NULL;
	if (!p)
		return out_of_memory(diag);
	if (!*name || *name == '.' || strchr(name, '/') ||
	    strlen(name) >= sizeof(p->name) ||
	    snprintf(p->dir, sizeof(p->dir), "%s/%s", root, name) >=
		    (int)sizeof(p->dir) ||
	    access(p->dir, F_OK)) {
		ret = no_such_pmu(root, name, diag);
	} else {
		memcpy(p->name, name, strlen(name) + 1);
		ret = read_pmu(p, diag);
	}
	if (ret)
		pmu_close(p);
	else
		*pmu = p;
	return ret;
}

void pmu_close(struct pmu *pmu)
{
	if (!pmu)
		return;
	free(pmu->formats);
	free(pmu->aliases);
	free(pmu->cpus);
	free(pmu);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int pmu_list(const char *root, char ***names, struct aux_diag *diag)
{
	DIR *d = opendir(root);
	struct dirent *e;
	char **all = NULL;
	size_t n = 0, cap = 0;

	*names = NULL;
	if (!d && errno == ENOMEM)
		return out_of_memory(diag);
	if (!d)
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"%.200s: %s; is sysfs mounted there, and has "
				"the kernel perf events?", root,
				strerror(errno));
	while ((e = readdir(d))) {
		if (*e->d_name == '.')
			continue;
		if (array_grow(&all, n, &cap, sizeof(*all)) ||
		    !(all[n] = strdup(e->d_name)))
			break;
		n++;
	}
	closedir(d);
	if (e) {	/* left the loop for lack of memory */
		while (n)
			free(all[--n]);
		free(all);
		return out_of_memory(diag);
	}
	if (n)
		qsort(all, n, sizeof(*all), by_text);
	*names = all;
	return (int)n;
}
