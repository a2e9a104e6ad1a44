/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Every perf.data of the corpus against the record counts of perf and of an
 * independent walker.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <aux/reader.h>

#include "tests/unit/tap.h"

/* Names of the tables in the corpus for types. table */
static const struct {
	const char *name;
	uint32_t type;
} type_names[] = {
	{ "MMAP", 1 }, { "LOST", 2 }, { "COMM", 3 }, { "EXIT", 4 },
	{ "THROTTLE", 5 }, { "UNTHROTTLE", 6 }, { "FORK", 7 }, { "READ", 8 },
	{ "SAMPLE", 9 }, { "MMAP2", 10 }, { "AUX", 11 },
	{ "ITRACE_START", 12 }, { "LOST_SAMPLES", 13 }, { "SWITCH", 14 },
	{ "SWITCH_CPU_WIDE", 15 }, { "NAMESPACES", 16 }, { "ATTR", 64 },
	{ "EVENT_TYPE", 65 }, { "FINISHED_ROUND", 68 }, { "ID_INDEX", 69 },
	{ "AUXTRACE_INFO", 70 }, { "AUXTRACE", 71 }, { "THREAD_MAP", 73 },
	{ "CPU_MAP", 74 }, { "EVENT_UPDATE", 78 }, { "TIME_CONV", 79 },
	{ "FEATURE", 80 }, { "FINISHED_INIT", 82 },
};

static uint32_t type_of(const char *name)
{
	for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++)
		if (!strcmp(type_names[i].name, name))
			return type_names[i].type;
	return 127;
}

/*
 * "COMM=2 MMAP=3" against counts; counts that the list lacks must be 0. perf
 * counts attrs of file mode as ATTR: those are no records.
 */
static bool same_counts(const char *list, const uint64_t *got, bool pipe_mode)
{
	uint64_t want[128] = { 0 };
	char name[32];
	unsigned long n;
	int used;

	while (sscanf(list, " %31[A-Z0-9_]=%lu%n", name, &n, &used) == 2) {
		want[type_of(name)] = n;
		list += used;
	}
	if (!pipe_mode)
		want[64] = 0;
	return !memcmp(want, got, sizeof(want));
}

static void check_file(const char *dir, char **field)
{
	uint64_t counts[128] = { 0 }, total = 0;
	struct aux_diag diag = { 0 };
	struct aux_reader *r;
	struct aux_event e;
	char path[4096];
	bool pipe_mode;
	int ret;

	snprintf(path, sizeof(path), "%s/%s", dir, field[0] + 2);
	if (!ok(!aux_reader_open(&r, path, &diag), "%s opens", field[0]))
		return;
	pipe_mode = aux_reader_info(r)->pipe;
	while ((ret = aux_reader_next(r, &e, &diag)) == 1) {
		counts[e.type < 127 ? e.type : 127]++;
		total++;
	}
	ok(total == strtoull(field[7], NULL, 10) &&
	   same_counts(field[9], counts, pipe_mode) &&
	   same_counts(field[10], counts, pipe_mode) &&
	   !!ret == (field[8][0] != '\0'),
	   "%s: %lu records by type as perf and the walker%s%s", field[0] + 2,
	   (unsigned long)total, ret ? ": " : "", diag.text);
	aux_reader_close(r);
}

static void test_corpus(void)
{
	const char *dir = getenv("AUXKIT_CORPUS");
	char line[4096], path[4096];
	FILE *f;

	if (!dir)
		dir = "../shared/corpus";
	snprintf(path, sizeof(path), "%s/robustness/summary.tsv", dir);
	f = fopen(path, "r");
	if (!f) {
		skip("corpus: no recorded traces: set AUXKIT_CORPUS");
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		char *field[12] = { NULL }, *p = line;
		int n = 0;

		while (p && n < 12)
			field[n++] = strsep(&p, "\t\n");
		if (n == 12 && strcmp(field[0], "file"))
			check_file(dir, field);
	}
	fclose(f);
}

int main(void)
{
	test_corpus();
	return plan_done();
}
