/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcap list: what can be recorded here.
 *
 * Each line begins with what -e takes, so grep finds it and a user can copy it;
 * a description follows it. Nothing to show is an error, with the reason.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/event/auxpmu.h"
#include "capture/cmd/cmd.h"
#include "capture/event/evlist.h"
#include "capture/record/record.h"

#define COLUMN 32	/* where the second column begins */

__attribute__((format(printf, 2, 3)))
/* Two columns; a first one that is too wide shifts the second. */
static void line(const char *first, const char *fmt, ...)
{
	va_list ap;

	printf("  %-*s ", COLUMN, first);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* "config:14-17" */
static void format_bits(const struct pmu_format *f, char *text, size_t len)
{
	static const char *const words[] = { "", "1", "2", "3" };
	size_t used = (size_t)snprintf(text, len, "config%s:", words[f->word]);
	const char *sep = "";
	unsigned lo, hi;

	for (lo = 0; lo < 64 && used < len; lo = hi + 1, sep = ",") {
		while (lo < 64 && !(f->mask >> lo & 1))
			lo++;
		if (lo == 64)
			break;
		for (hi = lo; hi < 63 && f->mask >> (hi + 1) & 1;)
			hi++;
		used += (size_t)snprintf(text + used, len - used,
					 hi > lo ? "%s%u-%u" : "%s%u", sep, lo,
					 hi);
	}
}

/* Intel PT tells the legal values as the bits of a cap. */
static uint64_t legal_bits(const struct pmu *pmu, const char *term)
{
	static const char *const caps[][2] = {
		{ "mtc_period", "mtc_periods" },
		{ "cyc_thresh", "cycle_thresholds" },
		{ "psb_period", "psb_periods" },
	};
	size_t i;

	for (i = 0; !strcmp(pmu->name, "intel_pt") && i < 3; i++)
		if (!strcmp(term, caps[i][0]))
			return pmu_cap(pmu, caps[i][1], 0) | 1;
	return 0;
}

/* "intel_pt/mtc_period=N/  config:14-17  legal values". The kernel refuses a value
 * that the CPU does not take with a bare EINVAL, so the legal ones are listed. */
static void list_term(const struct pmu *pmu, const struct pmu_format *f)
{
	uint64_t bits = legal_bits(pmu, f->name), max;
	char first[160], place[80], legal[160];
	size_t used = 0;
	unsigned v;

	max = UINT64_MAX >> (64 - __builtin_popcountll(f->mask));
	snprintf(first, sizeof(first), max > 1 ? "%s/%s=N/" : "%s/%s/",
		 pmu->name, f->name);
	format_bits(f, place, sizeof(place));
	snprintf(legal, sizeof(legal), max > 9 ? "0 to %#llx" : "0 to %llu",
		 (unsigned long long)max);
	for (v = 0; v < 64 && bits >> v && used < sizeof(legal); v++)
		if (bits >> v & 1)
			used += (size_t)snprintf(legal + used,
						 sizeof(legal) - used, "%s%u",
						 used ? ", " : "", v);
	line(first, "%-16s %s", place, legal);
}

/* Files of a directory of the PMU, with what they hold. -AUX_E_NOMEM at worst. */
static int list_files(const struct pmu *pmu, const char *sub, const char *mark,
		      const char *what)
{
	char path[300], file[320], first[200], text[64];
	struct dirent **all;
	int i, n;

	snprintf(path, sizeof(path), "%s/%s", pmu->dir, sub);
	n = scandir(path, &all, NULL, alphasort);
	for (i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", sub, all[i]->d_name);
		snprintf(first, sizeof(first), "%s%s%.100s%s", pmu->name, mark,
			 all[i]->d_name, *what == '=' ? "" : "/");
		if (*all[i]->d_name != '.' &&
		    !pmu_read(pmu, file, text, sizeof(text)))
			line(first, "%s %s", what, text);
		free(all[i]);
	}
	if (n >= 0)
		free(all);
	return n < 0 && errno == ENOMEM ? -AUX_E_NOMEM : 0;
}

/* cpumask: PMUs of a package or a cluster have one CPU each; a long list is
 * cut. */
static void list_cpus(const struct pmu *pmu)
{
	size_t i;

	for (i = 0; i < pmu->n_cpus && i < 16; i++)
		printf("%s%d", i ? "," : ", CPU ", pmu->cpus[i]);
	if (i < pmu->n_cpus)
		printf(",... (%zu)", pmu->n_cpus);
}

/* One line, and if full all of its terms, named events, sinks and caps.
 * -AUX_E_NOMEM at worst. */
static int list_pmu(const struct pmu *pmu, const struct auxpmu_ops *aux,
		     bool full)
{
	char first[160];
	size_t i;

	printf("%s//  PMU, type %u", pmu->name, pmu->type);
	if (aux)
		printf(", AUX area: %s", aux->trace);
	if (pmu->n_addr_filters)
		printf(", %u address filters", pmu->n_addr_filters);
	list_cpus(pmu);
	if (!full && pmu->n_formats + pmu->n_aliases)
		printf("; terms and events: %zu, see auxcap list %s",
		       pmu->n_formats + pmu->n_aliases, pmu->name);
	putchar('\n');
	if (!full)
		return 0;
	for (i = 0; i < pmu->n_formats; i++)
		list_term(pmu, &pmu->formats[i]);
	for (i = 0; i < pmu->n_aliases; i++) {
		snprintf(first, sizeof(first), "%s/%s/", pmu->name,
			 pmu->aliases[i].name);
		line(first, "stands for %s", pmu->aliases[i].terms);
	}
	if (list_files(pmu, "sinks", "/@", "sink") < 0)
		return -AUX_E_NOMEM;
	return list_files(pmu, "caps", " caps/", "=");
}

/* those: with an AUX area, without, or (name) that one. */
/* Returns how many were shown, or an error with diag. A PMU that cannot be read
 * (it went away, or sysfs is partly hidden in a container) is left out. */
static int list_pmus(const char *name, bool with_aux, struct aux_diag *diag)
{
	int i, n, shown = 0, err = 0;
	char **names;

	n = pmu_list(PMU_SYSFS, &names, diag);
	if (n < 0)
		return n;
	for (i = 0; i < n; i++) {
		const struct auxpmu_ops *aux;
		struct pmu *pmu;

		if (err != -AUX_E_NOMEM && (!name || !strcmp(name, names[i])) &&
		    !(err = pmu_open(&pmu, PMU_SYSFS, names[i], diag))) {
			aux = auxpmu_find(pmu);
			if (name || with_aux == !!aux) {
				err = list_pmu(pmu, aux, name || aux);
				shown++;
			}
			pmu_close(pmu);
		}
		free(names[i]);
	}
	free(names);
	if (err == -AUX_E_NOMEM)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	return shown;
}

/* Whether this machine counts it: a guest often has no counters. */
static bool is_here(uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = { .type = type, .size = sizeof(attr),
					.config = config, .disabled = 1,
					.exclude_kernel = 1, .exclude_hv = 1 };
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1,
			  PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		close((int)fd);
	return fd >= 0 || (errno != ENOENT && errno != EOPNOTSUPP &&
			   errno != ENODEV && errno != EINVAL);
}

/* Always all of them, also those that this machine does not count. */
static int list_names(uint32_t type, const char *what)
{
	struct evlist_name n;
	size_t i;

	for (i = 0; evlist_name(type, i, &n); i++)
		line(n.name, "%s event%s%s%s", what, *n.alias ? ", or " : "",
		     n.alias, is_here(type, n.config) ? "" :
				      ", but not on this machine");
	return (int)i;
}

static int is_shown(const struct dirent *e)
{
	return *e->d_name != '.' && e->d_type == DT_DIR;
}

/* Subsystems are many and short: as many go on a line as fit. */
static void list_short(struct dirent **all, int n)
{
	int i, used = 0, len;

	for (i = 0; i < n; i++, used += len) {
		len = (int)strlen(all[i]->d_name) + 2;
		if (used + len > 76) {
			putchar('\n');
			used = 0;
		}
		printf("%s%s:", used ? " " : "  ", all[i]->d_name);
	}
	putchar('\n');
}

/* The subsystems (brief: not a line for each), or the tracepoints of one. */
static int list_tracepoints(const char *subsystem, bool brief,
			    struct aux_diag *diag)
{
	const char *root = tracing_root();
	char path[400], first[600];
	struct dirent **all;
	int i, n;

	if (!root)
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"no tracepoints: tracefs is not mounted; as "
				"root: mount -t tracefs tracefs "
				"/sys/kernel/tracing");
	snprintf(path, sizeof(path), "%s/events/%.200s", root, subsystem);
	n = strchr(subsystem, '/') ? (errno = ENOENT, -1) :
				     scandir(path, &all, is_shown, alphasort);
	if (n < 0)
		return diag_set(diag, errno == ENOENT || errno == EACCES ?
				AUX_E_NOENT : AUX_E_IO, AUX_NO_OFFSET, "%s: %s%s",
				path, strerror(errno), errno == EACCES ?
				"; run as root, or remount tracefs with gid=" :
				errno == ENOENT ? "; auxcap list tracepoint "
				"shows those there are" : "");
	if (brief)
		list_short(all, n);
	for (i = 0; i < n; i++) {
		snprintf(first, sizeof(first), *subsystem ? "%s:%s" : "%s%s:",
			 subsystem, all[i]->d_name);
		if (*subsystem)
			line(first, "tracepoint");
		else if (!brief)
			line(first, "tracepoints; auxcap list %s shows them",
			     first);
		free(all[i]);
	}
	free(all);
	return n;
}

/* "soft_pt/mtc_period=N/u  MTC each 2^n ticks of 40 ns". */
static void list_soft_terms(const struct source_ops *source)
{
	const struct event_field *f;
	char first[160];

	for (f = source->fields; f->name; f++) {
		bool number = f->hi > f->lo;

		snprintf(first, sizeof(first), number ? "%s/%s=N/u" : "%s/%s/u",
			 source->name, f->name);
		/* those that are for a real one alone are refused with a reason */
		if (f->legal != 1)
			line(first, "%s", f->why ? f->why : "0 or 1");
	}
	for (const char *const *word = source->words; *word; word++) {
		snprintf(first, sizeof(first), "%s/%s/u", source->name, *word);
		line(first, "of auxkit alone; see auxcap(1)");
	}
}

/* Always there, since they need no PMU. only NULL: all, without terms. */
static int list_software_sources(const char *only)
{
	static const struct source_ops *const sources[] = { &source_soft_pt,
							    &source_soft_etm };
	int shown = 0;

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		if (only && strcmp(only, sources[i]->name))
			continue;
		printf("%s//u  no PMU needed: %s\n", sources[i]->name,
		       sources[i]->help);
		if (only)
			list_soft_terms(sources[i]);
		shown++;
	}
	return shown;
}

/* auxcap list: an overview. A tracefs that is missing or not for this user is a
 * line of it and no error. */
static int list_all(struct aux_diag *diag)
{
	struct aux_diag none = { 0 };
	int n, tracepoints;

	puts("Trace, with an AUX area (auxcap list aux):");
	list_software_sources(NULL);
	n = list_pmus(NULL, true, diag);
	if (!n)
		puts("  no PMU of this machine has one");
	puts("\nOther PMUs:");
	if (n >= 0)
		n = list_pmus(NULL, false, diag);
	puts("\nEvents by name (also auxcap list cache; rHEX is a raw one):");
	list_names(PERF_TYPE_HARDWARE, "hardware");
	list_names(PERF_TYPE_SOFTWARE, "software");
	puts("\nTracepoints, by subsystem (auxcap list SUBSYSTEM: shows them):");
	tracepoints = list_tracepoints("", true, &none);
	if (tracepoints == -AUX_E_NOENT)
		printf("  %s\n", none.text);
	if (n < 0)
		return n;
	if (tracepoints < 0 && tracepoints != -AUX_E_NOENT) {
		*diag = none;
		return tracepoints;
	}
	return 1;
}

/* Words of perf list are taken too (hw, sw). How many were shown, or an
 * error. */
static int list_what(const char *what, struct aux_diag *diag)
{
	size_t len = strcspn(what, "/:");
	char name[80];
	int n;

	snprintf(name, sizeof(name), "%.*s", (int)len, what);
	if (!strcmp(what, "aux"))
		return list_software_sources(NULL) +
		       list_pmus(NULL, true, diag) > 0;
	if (!strcmp(what, "hardware") || !strcmp(what, "hw"))
		return list_names(PERF_TYPE_HARDWARE, "hardware");
	if (!strcmp(what, "software") || !strcmp(what, "sw"))
		return list_names(PERF_TYPE_SOFTWARE, "software");
	if (!strcmp(what, "cache"))
		return list_names(PERF_TYPE_HW_CACHE, "cache");
	if (!strcmp(what, "tracepoint"))
		return list_tracepoints("", false, diag);
	n = list_software_sources(name);
	if (n)
		return n;
	if (what[len] == ':')
		return list_tracepoints(name, false, diag);
	n = list_pmus(name, false, diag);
	if (n)
		return n;
	if (evlist_instead(name))
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"no PMU '%.60s' on this machine: %s", name,
				evlist_instead(name));
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "nothing to list "
			"under '%.60s'; it may be aux, hardware, software, "
			"cache, tracepoint, SUBSYSTEM: or the name of a PMU",
			what);
}

/* what NULL: an overview. CMD_FAILED where the list would be empty. */
int cmd_list(const char *what)
{
	struct aux_diag diag = { 0 };
	int n = what ? list_what(what, &diag) : list_all(&diag);

	if (n < 0)
		return cmd_error(&diag);
	if (!n) {
		diag_set(&diag, AUX_E_NOENT, AUX_NO_OFFSET,
			 "there is nothing of the kind on this machine");
		return cmd_error(&diag);
	}
	if (!fflush(stdout) && !ferror(stdout))
		return CMD_OK;
	diag_set(&diag, AUX_E_IO, AUX_NO_OFFSET, "cannot write: %s",
		 strerror(errno));
	return cmd_error(&diag);
}
