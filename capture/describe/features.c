/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * features: facts about the host and the recording, as feature sections.
 *
 * Invariant: a fact that cannot be found out omits its section; nothing is
 * invented. Layouts as written by tools/perf/util/header.c in Linux 6.1: a
 * string is its padded length (u32) and its bytes, NUL padded to a multiple of
 * 64.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "common/version.h"

#include "capture/describe/describe.h"

#define NAME_ALIGN 64

/* A section under construction. Once bad (out of memory) it is not used. */
struct section {
	char *data;
	size_t len, cap;
	bool bad;
};

static void add(struct section *s, const void *p, size_t len)
{
	size_t cap = s->cap;
	char *data;

	while (cap - s->len < len)
		cap = cap ? cap * 2 : 512;
	if (cap != s->cap) {
		data = realloc(s->data, cap);
		if (!data) {
			s->bad = true;
			return;
		}
		s->data = data;
		s->cap = cap;
	}
	memcpy(s->data + s->len, p, len);
	s->len += len;
}

static void add_u32(struct section *s, uint32_t v)
{
	add(s, &v, sizeof(v));
}

static void add_string(struct section *s, const char *text)
{
	static const char zero[NAME_ALIGN];
	size_t len = strlen(text) + 1;
	size_t pad = -len & (NAME_ALIGN - 1);

	add_u32(s, (uint32_t)(len + pad));
	add(s, text, len);
	add(s, zero, pad);
}

/* Writes the section and empties it. */
static int put(struct writer *w, unsigned bit, struct section *s)
{
	int ret = s->bad ? -AUX_E_NOMEM : writer_feature(w, bit, s->data,
							 s->len);

	free(s->data);
	memset(s, 0, sizeof(*s));
	return ret;
}

static int put_string(struct writer *w, unsigned bit, const char *text)
{
	struct section s = { 0 };

	add_string(&s, text);
	return put(w, bit, &s);
}

/* The value after "key : " in a file of /proc; key "": its first line. False:
 * none. */
static bool proc_value(const char *path, const char *key, char *buf, size_t len)
{
	FILE *f = fopen(path, "re");
	size_t n = strlen(key);
	bool found = false;
	char line[512];

	while (f && !found && fgets(line, sizeof(line), f)) {
		char *p = line + n;

		if (strncmp(line, key, n))
			continue;
		p += strspn(p, " \t:");
		p[strcspn(p, "\n")] = '\0';
		found = *p;
		snprintf(buf, len, "%s", p);
	}
	if (f)
		fclose(f);
	return found;
}

/* HEADER_CPUID as perf writes it: vendor,family,model,stepping; on Arm
 * MIDR_EL1. The family and model include their extended fields (SDM volume 2,
 * CPUID leaf 1). */
static bool cpuid_text(char *buf, size_t len)
{
#if defined(__x86_64__) || defined(__i386__)
	unsigned a, b, c, d, family, model;
	char vendor[13] = "";

	if (!__get_cpuid(0, &a, &b, &c, &d))
		return false;
	memcpy(vendor, &b, 4);
	memcpy(vendor + 4, &d, 4);
	memcpy(vendor + 8, &c, 4);
	if (!__get_cpuid(1, &a, &b, &c, &d))
		return false;
	family = a >> 8 & 0xf;
	model = a >> 4 & 0xf;
	if (family == 15)
		family += a >> 20 & 0xff;
	if (family >= 6)
		model += a >> 16 << 4 & 0xf0;
	snprintf(buf, len, "%s,%u,%u,%u", vendor, family, model, a & 0xf);
	return true;
#else
	return proc_value("/sys/devices/system/cpu/cpu0/regs/identification/"
			  "midr_el1", "", buf, len);
#endif
}

/* HEADER_NRCPUS (configured first, then online), CPUDESC, CPUID. */
static int put_cpu(struct writer *w)
{
	struct section s = { 0 };
	char text[512];
	int ret;

	add_u32(&s, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
	add_u32(&s, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
	ret = put(w, AUX_FEAT_NRCPUS, &s);
	if (!ret && proc_value("/proc/cpuinfo", "model name", text,
			       sizeof(text)))
		ret = put_string(w, AUX_FEAT_CPUDESC, text);
	if (!ret && cpuid_text(text, sizeof(text)))
		ret = put_string(w, AUX_FEAT_CPUID, text);
	return ret;
}

/* HEADER_TOTAL_MEM, in KB. */
static int put_memory(struct writer *w)
{
	char text[64];
	uint64_t kb;

	if (!proc_value("/proc/meminfo", "MemTotal", text, sizeof(text)))
		return 0;
	kb = strtoull(text, NULL, 10);
	return writer_feature(w, AUX_FEAT_TOTAL_MEM, &kb, sizeof(kb));
}

/* HEADER_CMDLINE: the path of this program in place of argv[0], then its
 * arguments. */
static int put_cmdline(struct writer *w, int argc, char *const *argv)
{
	struct section s = { 0 };
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int i;

	if (n <= 0 || argc < 1)
		return 0;
	self[n] = '\0';
	add_u32(&s, (uint32_t)argc);
	add_string(&s, self);
	for (i = 1; i < argc; i++)
		add_string(&s, argv[i]);
	return put(w, AUX_FEAT_CMDLINE, &s);
}

int features_host(struct writer *w, int argc, char *const *argv)
{
	struct utsname u;
	int ret = put_string(w, AUX_FEAT_VERSION, "auxcap " AUXKIT_VERSION);

	if (!ret && !uname(&u)) {
		ret = put_string(w, AUX_FEAT_HOSTNAME, u.nodename);
		if (!ret)
			ret = put_string(w, AUX_FEAT_OSRELEASE, u.release);
		if (!ret)
			ret = put_string(w, AUX_FEAT_ARCH, u.machine);
	}
	if (!ret)
		ret = put_cpu(w);
	if (!ret)
		ret = put_memory(w);
	if (!ret)
		ret = put_cmdline(w, argc, argv);
	return ret;
}

/* The line of a topology file of one CPU; false: there is none (it is
 * offline). */
static bool cpu_text(unsigned cpu, const char *name, char *buf, size_t len)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/"
		 "%s", cpu, name);
	return proc_value(path, "", buf, len);
}

/* Appends a count and each distinct list of CPUs that file has for any CPU. */
static void add_siblings(struct section *s, const char *name, unsigned n_cpus)
{
	size_t at = s->len;
	uint32_t n = 0;
	unsigned i;

	add_u32(s, 0);
	for (i = 0; i < n_cpus; i++) {
		char list[512], *end;

		/* Lists ascend, so one is new exactly at its first CPU. */
		if (!cpu_text(i, name, list, sizeof(list)) ||
		    strtoul(list, &end, 10) != i)
			continue;
		add_string(s, list);
		n++;
	}
	if (!s->bad)
		memcpy(s->data + at, &n, sizeof(n));
}

/* The number in a topology file; -1: there is none. */
static uint32_t cpu_number(unsigned cpu, const char *name)
{
	char text[64];

	return cpu_text(cpu, name, text, sizeof(text)) ?
		       (uint32_t)strtol(text, NULL, 10) : UINT32_MAX;
}

/* HEADER_CPU_TOPOLOGY: lists of core and thread siblings, then core and package
 * id of each CPU (-1: offline), then the same of dies. */
int features_topology(struct writer *w)
{
	unsigned i, n = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
	struct section s = { 0 };

	if (cpu_number(0, "core_id") == UINT32_MAX)
		return 0;
	add_siblings(&s, "core_siblings_list", n);
	add_siblings(&s, "thread_siblings_list", n);
	for (i = 0; i < n; i++) {
		add_u32(&s, cpu_number(i, "core_id"));
		add_u32(&s, cpu_number(i, "physical_package_id"));
	}
	/* Dies are optional in a file, but in pipe mode perf would parse the
	 * padding of the HEADER_FEATURE record as dies and refuse the
	 * recording. */
	add_siblings(&s, "die_cpus_list", n);
	for (i = 0; i < n; i++)
		add_u32(&s, cpu_number(i, "die_id"));
	return put(w, AUX_FEAT_CPU_TOPOLOGY, &s);
}

/* HEADER_GROUP_DESC; perf names a group without a name {anon_group}. */
int features_groups(struct writer *w, const struct features_group *groups,
		    uint32_t n)
{
	struct section s = { 0 };
	uint32_t i;

	if (!n)
		return 0;
	add_u32(&s, n);
	for (i = 0; i < n; i++) {
		add_string(&s, groups[i].name ? groups[i].name : "{anon_group}");
		add_u32(&s, groups[i].leader);
		add_u32(&s, groups[i].n_members);
	}
	return put(w, AUX_FEAT_GROUP_DESC, &s);
}

int features_pmu_mappings(struct writer *w, const struct features_pmu *pmus,
			  uint32_t n)
{
	struct section s = { 0 };
	uint32_t i;

	add_u32(&s, n);
	for (i = 0; i < n; i++) {
		add_u32(&s, pmus[i].type);
		add_string(&s, pmus[i].name);
	}
	return put(w, AUX_FEAT_PMU_MAPPINGS, &s);
}

int features_source(struct writer *w, const char *text)
{
	struct aux_feat_text h = { .version = 1,
				   .len = (uint32_t)strlen(text) };
	struct section s = { 0 };

	add(&s, &h, sizeof(h));
	add(&s, text, h.len);
	return put(w, AUX_FEAT_AUXKIT_SOURCE, &s);
}
