/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small tree as sysfs has it, for tests: intel_pt as a Skylake shows it, a
 * cs_etm of an ETMv4 and an ETE, aux_sim, cpu, software. In a new directory.
 */
#ifndef TESTS_UNIT_SYSFS_H
#define TESTS_UNIT_SYSFS_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char sysfs_root[64] = "/tmp/auxkit-sysfs.XXXXXX";

/* table */
static const char *const sysfs_files[][2] = {
	{ "intel_pt/type", "8" },
	{ "intel_pt/nr_addr_filters", "2" },
	{ "intel_pt/format/pt", "config:0" },
	{ "intel_pt/format/cyc", "config:1" },
	{ "intel_pt/format/pwr_evt", "config:4" },
	{ "intel_pt/format/fup_on_ptw", "config:5" },
	{ "intel_pt/format/mtc", "config:9" },
	{ "intel_pt/format/tsc", "config:10" },
	{ "intel_pt/format/noretcomp", "config:11" },
	{ "intel_pt/format/ptw", "config:12" },
	{ "intel_pt/format/branch", "config:13" },
	{ "intel_pt/format/mtc_period", "config:14-17" },
	{ "intel_pt/format/cyc_thresh", "config:19-22" },
	{ "intel_pt/format/psb_period", "config:24-27" },
	{ "intel_pt/caps/mtc", "1" },
	{ "intel_pt/caps/psb_cyc", "1" },
	{ "intel_pt/caps/ptwrite", "0" },
	{ "intel_pt/caps/power_event_trace", "0" },
	{ "intel_pt/caps/mtc_periods", "249" },
	{ "intel_pt/caps/cycle_thresholds", "1fff" },
	{ "intel_pt/caps/psb_periods", "3f" },
	{ "intel_pt/max_nonturbo_ratio", "30" },
	{ "intel_pt/tsc_art_ratio", "250:2" },
	{ "cs_etm/type", "9" },
	{ "cs_etm/cpus", "0-1" },
	{ "cs_etm/format/branch_broadcast", "config:8" },
	{ "cs_etm/format/cycacc", "config:12" },
	{ "cs_etm/format/contextid", "config:14" },
	{ "cs_etm/format/contextid1", "config:14" },
	{ "cs_etm/format/contextid2", "config:15" },
	{ "cs_etm/format/timestamp", "config:28" },
	{ "cs_etm/format/retstack", "config:29" },
	{ "cs_etm/format/preset", "config:0-3" },
	{ "cs_etm/format/sinkid", "config2:0-31" },
	{ "cs_etm/format/configid", "config2:32-63" },
	{ "cs_etm/format/cc_threshold", "config3:0-11" },
	{ "cs_etm/events/autofdo", "configid=0x1b2c3d4e" },
	{ "cs_etm/sinks/tmc_etr0", "0x5a5ae001" },
	{ "cs_etm/sinks/tmc_etf0", "0x5a5ae002" },
	{ "cs_etm/cpu0/trcidr/trcidr0", "0x28000ea1" },
	{ "cs_etm/cpu0/trcidr/trcidr1", "0x4100f403" },
	{ "cs_etm/cpu0/trcidr/trcidr2", "0x488" },
	{ "cs_etm/cpu0/trcidr/trcidr8", "0x0" },
	{ "cs_etm/cpu0/mgmt/trcauthstatus", "0xcc" },
	{ "cs_etm/cpu0/mgmt/trcdevarch", "0x47704a13" },
	{ "cs_etm/cpu1/trcidr/trcidr0", "0x28000ee1" },
	{ "cs_etm/cpu1/trcidr/trcidr1", "0x4100fff3" },
	{ "cs_etm/cpu1/trcidr/trcidr2", "0x20001088" },
	{ "cs_etm/cpu1/trcidr/trcidr8", "0x7" },
	{ "cs_etm/cpu1/mgmt/trcauthstatus", "0xcc" },
	{ "cs_etm/cpu1/mgmt/trcdevarch", "0x47705a13" },
	{ "aux_sim/type", "11" },
	{ "aux_sim/format/rate", "config:0-31" },
	{ "aux_sim/format/odd", "config:40,48-50,63" },
	{ "aux_sim/format/broken", "config:60-70" },
	{ "aux_sim/format/backwards", "config:9-3" },
	{ "aux_sim/format/nothing", "config:" },
	{ "aux_sim/format/other", "konfig:0-3" },
	{ "aux_sim/events/fast", "rate=0x100,odd=0x15" },
	{ "aux_sim/events/faster", "fast,rate=0x200" },
	{ "aux_sim/events/loop", "loop" },
	{ "aux_sim/events/fast.unit", "MB" },
	{ "cpu/type", "4" },
	{ "cpu/format/event", "config:0-7" },
	{ "cpu/format/umask", "config:8-15" },
	{ "cpu/format/ldlat", "config1:0-15" },
	{ "cpu/events/cpu-cycles", "event=0x3c" },
	{ "cpu/events/branches", "event=0xc4" },
	{ "cpu/caps/max_precise", "3" },
	{ "cpu/caps/branches", "32" },
	{ "software/type", "1" },
	{ "uncore_imc/type", "14" },
	{ "uncore_imc/cpumask", "0,4-6" },
	{ "badtype/type", "x" },
};

static int sysfs_unlink(const char *path, const struct stat *st, int flag,
			struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void sysfs_remove(void)
{
	nftw(sysfs_root, sysfs_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

__attribute__((unused))
static void sysfs_put(const char *file, const char *text)
{
	char path[256], *slash;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", sysfs_root, file);
	for (slash = path + strlen(sysfs_root) + 1;
	     (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0755);
		*slash = '/';
	}
	f = fopen(path, "w");
	if (!f)
		return;
	fprintf(f, "%s\n", text);
	fclose(f);
}

static void sysfs_make(void)
{
	size_t i;

	if (!mkdtemp(sysfs_root))
		exit(1);
	atexit(sysfs_remove);
	for (i = 0; i < sizeof(sysfs_files) / sizeof(*sysfs_files); i++)
		sysfs_put(sysfs_files[i][0], sysfs_files[i][1]);
}

#endif
