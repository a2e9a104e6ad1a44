/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writer_dir.h: a folder for the small recording of writer_small.h, and short
 * words for what is done with it there.
 */
#ifndef TESTS_UNIT_WRITER_DIR_H
#define TESTS_UNIT_WRITER_DIR_H

#include "tests/unit/fds.h"
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

__attribute__((unused))
static struct writer *start(void)
{
	return start_small(path, NULL);
}

__attribute__((unused))
static struct file load(void)
{
	return load_file(path);
}

__attribute__((unused))
static int perf(const char *args, const char *needle, int *hits)
{
	char with[256];

	snprintf(with, sizeof(with), "%s -i", args);
	return perf_alarms(with, path, needle, hits);
}

#endif
