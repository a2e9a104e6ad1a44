/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writer_dir.h: a folder for the small recording of writer_small.h, and short
 * words for what is done with it there.
 */
#ifndef TESTS_UNIT_WRITER_DIR_H
#define TESTS_UNIT_WRITER_DIR_H

#include "tests/unit/writer_small.h"

static char dir[] = "/tmp/auxkit-writer.XXXXXX";
static char path[64];

static bool make_dir(void)
{
	if (!mkdtemp(dir))
		return false;
	snprintf(path, sizeof(path), "%s/perf.data", dir);
	snprintf(tiny, sizeof(tiny), "%s/tiny", dir);
	return make_tiny();
}

static bool remove_dir(void)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return !system(cmd);
}

static struct writer *start(void)
{
	return start_small(path, NULL);
}

static struct file load(void)
{
	return load_file(path);
}

static int perf(const char *args, const char *needle, int *hits)
{
	char with[256];

	snprintf(with, sizeof(with), "%s -i", args);
	return perf_alarms(with, path, needle, hits);
}

static int count_fds(void)
{
	int i, n = 0;

	for (i = 0; i < 64; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
}

#endif
