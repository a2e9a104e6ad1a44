/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxpmu_cs_etm: CoreSight: the event's terms, the sink, and AUXTRACE_INFO,
 * which holds for each CPU the registers that a decoder needs.
 *
 * The metadata have version 1, which perf 6.1 reads: a CPU's trace ID is 0x10 +
 * 2 * CPU. Newer kernels allocate IDs, these same ones first, and report the
 * actual ones in AUX_OUTPUT_HW_ID records, which are recorded like any other
 * and take precedence in readers that know them. Version 2 differs only in that
 * an ID not reported that way is unused; perf 6.1 refuses it.
 * Specification: Arm IHI 0064 (TRCIDR0, TRCIDR2, TRCCONFIGR); Linux 6.1
 * drivers/hwtracing/coresight/coresight-etm-perf.c.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>
#include "common/diag.h"

#include "capture/event/auxpmu.h"

#define MAGIC_ETMV3 UINT64_C(0x3030303030303030)
#define MAGIC_ETMV4 UINT64_C(0x4040404040404040)
#define MAGIC_ETE UINT64_C(0x5050505050505050)
#define N_GLOBAL 3
#define MAX_WORDS 11	/* per CPU: magic, CPU, count, 8 registers */

/* Reads a register of a CPU's trace unit from sysfs; false: there is none. */
static bool read_reg(const struct pmu *pmu, int cpu, const char *reg,
		     uint64_t *v)
{
	char file[64], text[32], *end;

	snprintf(file, sizeof(file), "cpu%d/%s", cpu, reg);
	if (pmu_read(pmu, file, text, sizeof(text)) ||
	    !isxdigit((unsigned char)*text))
		return false;
	*v = strtoull(text, &end, 16);
	return !*end;
}

static uint64_t bits(uint64_t v, unsigned lo, unsigned hi)
{
	return v >> lo & ((UINT64_C(2) << (hi - lo)) - 1);
}

/* Whether an ETMv4 or ETE with these ID registers has what a term needs. */
static bool cpu_has(const char *term, uint64_t idr0, uint64_t idr2)
{
	if (!strcmp(term, "timestamp"))
		return bits(idr0, 24, 28);	/* TSSIZE */
	if (!strcmp(term, "contextid1"))
		return bits(idr2, 5, 9) >= 4;	/* CIDSIZE: 32 bits */
	if (!strcmp(term, "contextid2"))	/* VMIDOPT, VMIDSIZE */
		return bits(idr2, 29, 30) && bits(idr2, 10, 14) >= 4;
	if (!strcmp(term, "cycacc"))
		return bits(idr0, 7, 7);	/* TRCCCI */
	if (!strcmp(term, "retstack"))
		return bits(idr0, 9, 9);	/* RETSTACK */
	return bits(idr0, 5, 5);		/* branch_broadcast: TRCBB */
}

/* The first CPU that lacks what the term needs, or -1. An ETMv3 has no TRCIDRn
 * and is not checked. */
static int find_lack(const struct pmu *pmu, const char *term)
{
	DIR *d = opendir(pmu->dir);
	struct dirent *e;
	int cpu, lack = -1;

	while (d && (e = readdir(d))) {
		uint64_t idr0, idr2;
		char *end;

		if (strncmp(e->d_name, "cpu", 3) ||
		    !isdigit((unsigned char)e->d_name[3]))
			continue;
		cpu = (int)strtol(e->d_name + 3, &end, 10);
		if (*end || !read_reg(pmu, cpu, "trcidr/trcidr0", &idr0) ||
		    !read_reg(pmu, cpu, "trcidr/trcidr2", &idr2))
			continue;
		if (!cpu_has(term, idr0, idr2) && (lack < 0 || cpu < lack))
			lack = cpu;
	}
	if (d)
		closedir(d);
	return lack;
}

static uint64_t get(const struct evlist_event *ev, const char *name)
{
	const struct pmu_format *f = pmu_format_find(ev->pmu, name);

	return f ? pmu_format_get(f, &ev->attr) : 0;
}

/* Which of contextid1 and contextid2 the format contextid stands for: bit 15 of
 * config (EL2) where the kernel runs at EL2, else bit 14 (EL1). */
static const char *own_contextid(const struct pmu *pmu)
{
	const struct pmu_format *f = pmu_format_find(pmu, "contextid");

	if (!f || f->word)
		return NULL;
	return f->mask >> 15 & 1 ? "contextid2" : "contextid1";
}

/* Turns a term on if all CPUs have it. */
static void set_default(struct evlist_event *ev, const char *term,
			const char *needs)
{
	const struct pmu_format *f = pmu_format_find(ev->pmu, term);

	if (f && needs && find_lack(ev->pmu, needs) < 0)
		pmu_format_set(f, &ev->attr, 1);
}

/* The trace of a CPU contains many threads: context IDs say which, timestamps
 * when. */
static void set_defaults(struct evlist_event *ev,
			 const struct evlist_options *o)
{
	const struct event_spec *s = &ev->spec;

	if (o->per_thread)
		return;
	if (!event_has(s, "contextid1") && !event_has(s, "contextid2"))
		set_default(ev, "contextid", own_contextid(ev->pmu));
	set_default(ev, "timestamp", "timestamp");
}

static void list_sinks(const struct pmu *pmu, char *text, size_t len)
{
	char path[300];
	struct dirent *e;
	size_t used = 0;
	DIR *d;

	*text = '\0';
	snprintf(path, sizeof(path), "%s/sinks", pmu->dir);
	d = opendir(path);
	while (d && (e = readdir(d)) && used < len)
		if (*e->d_name != '.')
			used += (size_t)snprintf(text + used, len - used,
						 "%s@%s", used ? ", " : "",
						 e->d_name);
	if (d)
		closedir(d);
}

/* @NAME: sinks/NAME in sysfs holds the id for config2 (sinkid, before it had a
 * name). */
static int set_sink(struct evlist_event *ev, const char *name,
		    struct aux_diag *diag)
{
	const struct pmu_format *f = pmu_format_find(ev->pmu, "sinkid");
	const struct pmu_format word = { .word = 2, .mask = UINT32_MAX };
	char file[96], text[200], *end;
	uint64_t id;

	snprintf(file, sizeof(file), "sinks/%.80s", name);
	if (strchr(name, '/') || *name == '.' ||
	    pmu_read(ev->pmu, file, text, sizeof(text))) {
		list_sinks(ev->pmu, text, sizeof(text));
		return event_refuse(diag, &ev->spec, "%s has no sink '%.40s'; "
				    "it has: %s", ev->pmu->name, name,
				    *text ? text : "none");
	}
	id = strtoull(text, &end, 16);
	if (*end || end == text ||
	    pmu_format_set(f ? f : &word, &ev->attr, id))
		return event_refuse(diag, &ev->spec, "%s holds no sink id",
				    file);
	return 0;
}

static int set_sinks(struct evlist_event *ev, struct aux_diag *diag)
{
	const struct event_term *t;
	size_t i, n = 0;

	for (i = 0; i < ev->spec.n_terms; i++) {
		t = &ev->spec.terms[i];
		if (*t->name != '@')
			continue;
		if (n++ || t->value)
			return event_refuse(diag, &ev->spec, "one sink, as "
					    "@NAME");
		if (set_sink(ev, t->name + 1, diag))
			return -AUX_E_INVAL;
	}
	return 0;
}

/* The driver silently ignores terms that the CPU lacks; here they are
 * errors. */
static int check_terms(const struct evlist_event *ev, struct aux_diag *diag)
{
	static const char *const terms[] = { "timestamp", "contextid1",
					     "contextid2", "cycacc",
					     "retstack", "branch_broadcast" };
	size_t i;
	int cpu;

	for (i = 0; i < sizeof(terms) / sizeof(*terms); i++) {
		if (!get(ev, terms[i]))
			continue;
		cpu = find_lack(ev->pmu, terms[i]);
		if (cpu >= 0)
			return event_refuse(diag, &ev->spec, "%s is not "
					    "possible: the trace unit of CPU "
					    "%d lacks it", terms[i], cpu);
	}
	return 0;
}

static int configure(struct evlist_event *ev, const struct evlist_options *o,
		     struct aux_diag *diag)
{
	int ret;

	set_defaults(ev, o);
	ret = pmu_config(ev->pmu, &ev->spec, evlist_aux_words, &ev->attr, diag);
	if (!ret)
		ret = set_sinks(ev, diag);
	return ret ? ret : check_terms(ev, diag);
}

/* TRCCONFIGR as etm4_parse_event_config() derives it from attr.config. */
static uint64_t trcconfigr(uint64_t config)
{
	static const struct {
		uint8_t from;
		uint16_t to;
	} map[] = {
		{ 8, 1 << 3 },		     /* branch broadcast */
		{ 12, 1 << 4 },		     /* cycle counts */
		{ 14, 1 << 6 },		     /* CONTEXTIDR_EL1 */
		{ 15, 1 << 7 | 1 << 15 },    /* CONTEXTIDR_EL2, as VMID */
		{ 28, 1 << 11 },	     /* timestamps */
		{ 29, 1 << 12 },	     /* return stack */
	};
	uint64_t v = 0;
	size_t i;

	for (i = 0; i < sizeof(map) / sizeof(*map); i++)
		if (config >> map[i].from & 1)
			v |= map[i].to;
	return v;
}

/* One CPU's block: magic, CPU, number of registers, registers. Returns its
 * words. */
static size_t put_regs(const struct pmu *pmu, int cpu, uint64_t magic,
		       const uint64_t first[2], const char *const *regs,
		       uint64_t *p)
{
	size_t n = 3;

	p[0] = magic;
	p[1] = (uint64_t)cpu;
	p[n++] = first[0];
	p[n++] = first[1];
	for (; *regs; regs++, n++)
		if (!read_reg(pmu, cpu, *regs, &p[n]))
			p[n] = 0;
	p[2] = n - 3;
	return n;
}

/* The block of one CPU; 0: it has no trace unit, or is offline. */
static size_t put_cpu(const struct evlist_event *ev, int cpu, uint64_t *p)
{
	static const char *const etmv3[] = { "mgmt/etmccer", "mgmt/etmidr",
					     NULL };
	static const char *const ete[] = {
		"trcidr/trcidr0",     "trcidr/trcidr1",	 "trcidr/trcidr2",
		"trcidr/trcidr8",     "mgmt/trcauthstatus", "mgmt/trcdevarch",
		NULL
	};
	static const char *const etmv4[] = {
		"trcidr/trcidr0",     "trcidr/trcidr1",	 "trcidr/trcidr2",
		"trcidr/trcidr8",     "mgmt/trcauthstatus", NULL
	};
	uint64_t first[2] = { trcconfigr(ev->attr.config),
			      0x10 + 2 * (uint64_t)cpu };
	uint64_t v = 0;

	if (!read_reg(ev->pmu, cpu, "trcidr/trcidr0", &v)) {
		if (!read_reg(ev->pmu, cpu, "mgmt/etmidr", &v))
			return 0;
		/* config has ETMCR's own bits. */
		first[0] = ev->attr.config;
		return put_regs(ev->pmu, cpu, MAGIC_ETMV3, first, etmv3, p);
	}
	/* TRCDEVARCH: ARCHPART 0xA13, and ARCHVER 5 for ETE. */
	if (read_reg(ev->pmu, cpu, "mgmt/trcdevarch", &v) &&
	    bits(v, 0, 15) == 0x5a13)
		return put_regs(ev->pmu, cpu, MAGIC_ETE, first, ete, p);
	return put_regs(ev->pmu, cpu, MAGIC_ETMV4, first, etmv4, p);
}

static int write_info(const struct evlist_event *ev,
		      const struct auxpmu_env *env, struct writer *w,
		      struct aux_diag *diag)
{
	uint64_t *priv = calloc(N_GLOBAL + env->n_cpus * MAX_WORDS,
				sizeof(*priv));
	struct aux_rec_time_conv tc;
	size_t i, n = N_GLOBAL, n_cpus = 0, added;
	int ret;

	if (!priv)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	for (i = 0; i < env->n_cpus; i++) {
		added = put_cpu(ev, env->cpus[i], priv + n);
		n_cpus += added != 0;
		n += added;
	}
	priv[0] = 1;	/* version */
	priv[1] = (uint64_t)ev->pmu->type << 32 | n_cpus;
	priv[2] = env->snapshot;
	auxpmu_clock(env->page, &tc);
	if (n_cpus)
		ret = auxpmu_info_write(w, AUX_TRACE_CS_ETM, priv, n, &tc,
					diag);
	else
		ret = diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET, "no CPU that "
			       "is recorded has a trace unit with its "
			       "registers in %s", ev->pmu->dir);
	free(priv);
	return ret;
}

/* In snapshots the head of newer drivers grows; that of older ones is an offset
 * in the buffer. auxpmu_snapshot recognizes both. */
const struct auxpmu_ops auxpmu_cs_etm = {
	.name = "cs_etm",
	.trace = "CoreSight",
	.type = AUX_TRACE_CS_ETM,
	.configure = configure,
	.info = write_info,
	.prepare = auxpmu_prepare,
	.snapshot = auxpmu_snapshot,
	.remember = auxpmu_remember,
	.release = auxpmu_release,
	.granule = 4096,
};
