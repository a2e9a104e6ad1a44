/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * PMUs read from a tree like sysfs: split formats, aliases, caps in both bases, damaged
 * files, and terms turned into config words.
 */
#include "capture/event/pmu.h"
#include "tests/unit/sysfs.h"
#include "tests/unit/tap.h"

#define N(a) (sizeof(a) / sizeof(*(a)))

static struct pmu *open_pmu(const char *name)
{
	struct aux_diag d = { 0 };
	struct pmu *p;

	if (!ok(!pmu_open(&p, sysfs_root, name, &d), "%s opens %s", name,
		d.text))
		exit(1);
	return p;
}

static void test_open(void)
{
	struct aux_diag d = { 0 };
	struct pmu *p = open_pmu("intel_pt");

	is_u64(p->type, 8, "type");
	is_u64(p->n_addr_filters, 2, "address filters");
	is_u64(p->n_formats, 12, "formats");
	ok(!p->cpus, "all CPUs");
	ok(!strcmp(p->formats[0].name, "branch"), "sorted");
	is_u64(pmu_cap(p, "mtc_periods", 0), 0x249, "a cap of intel_pt is hex");
	is_u64(pmu_cap(p, "absent", 7), 7, "a cap that is not there");
	pmu_close(p);
	p = open_pmu("cpu");
	is_u64(pmu_cap(p, "branches", 0), 32, "others are decimal");
	is_u64(p->n_aliases, 2, "aliases");
	pmu_close(p);
	p = open_pmu("uncore_imc");
	ok(p->n_cpus == 4 && p->cpus[0] == 0 && p->cpus[1] == 4 &&
	   p->cpus[3] == 6, "cpumask");
	pmu_close(p);
	ok(pmu_open(&p, sysfs_root, "nope", &d) == -AUX_E_NOENT && !p &&
	   strstr(d.text, "aux_sim, badtype, cpu, cs_etm, intel_pt"),
	   "none such: %s", d.text);
	ok(pmu_open(&p, sysfs_root, "../cpu", &d) == -AUX_E_NOENT,
	   "no path out of the tree");
	ok(pmu_open(&p, sysfs_root, "", &d) == -AUX_E_NOENT, "no empty name");
	ok(pmu_open(&p, sysfs_root, "badtype", &d) == -AUX_E_IO, "%s", d.text);
	pmu_close(NULL);
}

static void test_list(void)
{
	struct aux_diag d = { 0 };
	char **names;
	int i, n = pmu_list(sysfs_root, &names, &d);

	ok(n == 7 && !strcmp(names[0], "aux_sim") &&
	   !strcmp(names[6], "uncore_imc"), "%d names", n);
	for (i = 0; i < n; i++)
		free(names[i]);
	free(names);
	ok(pmu_list("/nowhere", &names, &d) == -AUX_E_NOENT && !names &&
	   strstr(d.text, "mounted"), "%s", d.text);
}

static void test_format(void)
{
	struct pmu *p = open_pmu("aux_sim");
	const struct pmu_format *f = pmu_format_find(p, "odd");
	struct perf_event_attr a = { .config = 0xff };

	is_u64(p->n_formats, 2, "damaged formats are left out");
	is_u64(p->n_aliases, 3, "units are no aliases");
	is_u64(f->mask, UINT64_C(0x8007010000000000), "pieces");
	ok(!pmu_format_set(f, &a, 0x15), "a value");
	is_u64(a.config, UINT64_C(0x80020100000000ff), "spread over its bits");
	is_u64(pmu_format_get(f, &a), 0x15, "and back");
	ok(pmu_format_set(f, &a, 0x20) == -AUX_E_INVAL, "one bit too many");
	is_u64(pmu_format_get(f, &a), 0x15, "changes nothing");
	pmu_close(p);
}

static int config(const char *text, struct perf_event_attr *a,
		  struct aux_diag *d)
{
	static const char *const words[] = { "period", NULL };
	struct event_spec e;
	struct pmu *p;
	int ret;

	memset(a, 0, sizeof(*a));
	d->text[0] = '\0';
	if (event_parse(&e, text, d))
		return 1;
	ret = pmu_open(&p, sysfs_root, e.pmu, d);
	if (!ret)
		ret = pmu_config(p, &e, words, a, d);
	pmu_close(p);
	event_fini(&e);
	return ret;
}

static void test_config(void)
{
	static const struct {
		const char *text;
		uint64_t config, config1, config2;
	} good[] = {
		{ "cpu/event=0x3c,umask=1/", 0x13c, 0, 0 },
		{ "cpu/cpu-cycles,ldlat=30,period=5/", 0x3c, 30, 0 },
		{ "cpu/config=0x1ff,event=1/", 0x101, 0, 0 },
		{ "cpu/config1=7,config2=0xffffffffffffffff/", 0, 7,
		  UINT64_MAX },
		{ "aux_sim/faster/", UINT64_C(0x8002010000000200), 0, 0 },
		{ "cs_etm/@tmc_etr0,autofdo/", 0, 0, UINT64_C(0x1b2c3d4e00000000) },
	};
	static const struct { const char *text, *says; } bad[] = {
		{ "cpu/event=0x100/", "event=0x100 is not possible; legal: 0 "
		  "to 0xff" },
		{ "cpu/event=x/", "event=x" },
		{ "cpu/nope/", "no term 'nope'; it has: event, ldlat, umask, "
		  "branches, cpu-cycles, period" },
		{ "cpu/cpu-cycles=1/", "no term 'cpu-cycles'" },
		{ "aux_sim/loop/", "damaged" },
	};
	struct perf_event_attr a;
	struct aux_diag d;
	size_t i;
	int ret;

	for (i = 0; i < N(good); i++) {
		ret = config(good[i].text, &a, &d);
		ok(!ret && a.config == good[i].config &&
		   a.config1 == good[i].config1 && a.config2 == good[i].config2,
		   "%s: %#llx %#llx %#llx %s", good[i].text, a.config,
		   a.config1, a.config2, d.text);
	}
	for (i = 0; i < N(bad); i++)
		ok(config(bad[i].text, &a, &d) == -AUX_E_INVAL &&
		   strstr(d.text, bad[i].says), "refused: %s", d.text);
#ifndef PERF_ATTR_SIZE_VER8
	ok(config("cs_etm/cc_threshold=1/", &a, &d) == -AUX_E_INVAL &&
	   strstr(d.text, "6.3"), "%s", d.text);
#endif
}

int main(void)
{
	sysfs_make();
	test_open();
	test_list();
	test_format();
	test_config();
	return plan_done();
}
