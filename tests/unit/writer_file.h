/* SPDX-License-Identifier: BSD-2-Clause */
/* A written perf.data file in memory, for the tests of the writer. */
#ifndef TESTS_UNIT_WRITER_FILE_H
#define TESTS_UNIT_WRITER_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"

#include "perfdata/writer.h"

struct file {
	uint8_t *data;
	size_t len;
};

__attribute__((unused))
static struct file load_file(const char *name)
{
	struct file f = { 0 };
	struct stat st;
	int fd = open(name, O_RDONLY);

	if (fd < 0 || fstat(fd, &st)) {
		f.data = calloc(1, 1);
		return f;
	}
	f.data = malloc((size_t)st.st_size + 1);
	f.len = (size_t)st.st_size;
	if (read(fd, f.data, f.len) != (ssize_t)f.len)
		f.len = 0;
	close(fd);
	return f;
}

__attribute__((unused))
static uint64_t u64_at(const struct file *f, uint64_t at)
{
	struct cursor c = cursor_init(f->data + (at < f->len ? at : f->len),
				      at < f->len ? f->len - at : 0, false);

	return cursor_u64(&c);
}

__attribute__((unused))
static uint32_t u32_at(const struct file *f, uint64_t at)
{
	struct cursor c = cursor_init(f->data + (at < f->len ? at : f->len),
				      at < f->len ? f->len - at : 0, false);

	return cursor_u32(&c);
}

/* Offset of a feature section, by walking bitmap and table; 0: none. */
__attribute__((unused))
static uint64_t feature(const struct file *f, unsigned bit, uint64_t *size)
{
	uint64_t at = u64_at(f, 40) + u64_at(f, 48);
	unsigned i;

	for (i = 0; i < bit; i++)
		if (u64_at(f, 72 + i / 64 * 8) >> (i % 64) & 1)
			at += 16;
	if (!(u64_at(f, 72 + bit / 64 * 8) >> (bit % 64) & 1))
		return 0;
	*size = u64_at(f, at + 8);
	return u64_at(f, at);
}

__attribute__((unused))
static bool has_features(const struct file *f)
{
	return u64_at(f, 72) || u64_at(f, 80) || u64_at(f, 88) ||
	       u64_at(f, 96);
}

/* The record behind the one at *at. False at the end, or when it is broken. */
__attribute__((unused))
static bool next_record(const struct file *f, uint64_t *at, uint64_t end)
{
	uint32_t type = u32_at(f, *at), size = u32_at(f, *at + 4) >> 16;
	uint64_t len = size;

	if (*at >= end || size < 8)
		return false;
	if (type == AUX_RECORD_AUXTRACE ||
	    type == AUX_RECORD_AUXKIT_AUXTRACE_ZSTD)
		len += u64_at(f, *at + 8);
	if (type == AUX_RECORD_TRACING_DATA)
		len += u32_at(f, *at + 8);
	if (len > end - *at)
		return false;
	*at += len;
	return true;
}

/* Walks the records: their number, or -1 when they do not fill the data. */
__attribute__((unused))
static long count_records(const struct file *f, uint64_t *aux)
{
	uint64_t at = u64_at(f, 40), end = at + u64_at(f, 48), rec = at;
	long n = 0;

	*aux = 0;
	while (next_record(f, &at, end)) {
		if (u32_at(f, rec) == AUX_RECORD_AUXTRACE)
			*aux += u64_at(f, rec + 8);
		rec = at;
		n++;
	}
	return at == end ? n : -1;
}

/* Runs "perf ARGS NAME", or "cat NAME | perf ARGS" when args end in "-"; counts
 * lines with a word of alarm, and lines with needle. -1: perf failed. What perf
 * says of all Intel PT in pipes is no alarm, nor that a file as small as the tests'
 * does not say how many CPUs there are (perf 7.2). */
__attribute__((unused))
static int perf_alarms(const char *args, const char *name, const char *needle,
		       int *hits)
{
	static const char *const alarms[] = {
		"rror", "arning", "WARN", "unknown f", "nvalid", "ailed",
		"orrupt", "unexpected", "truncat", "Bad", "incompat",
	};
	char cmd[512], line[1024];
	int bad = 0;
	FILE *p;
	size_t i;

	if (args[strlen(args) - 1] == '-')
		snprintf(cmd, sizeof(cmd), "cat %s | HOME=/nonexistent timeout "
			 "60 perf %s 2>&1", name, args);
	else
		snprintf(cmd, sizeof(cmd), "HOME=/nonexistent timeout 60 perf "
			 "%s %s 2>&1 </dev/null", args, name);
	p = popen(cmd, "r");
	*hits = 0;
	while (p && fgets(line, sizeof(line), p)) {
		if (strstr(line, "Intel PT with pipe mode is not recommended") ||
		    strstr(line, "missing HEADER_NRCPUS"))
			continue;
		*hits += strstr(line, needle) != NULL;
		for (i = 0; i < sizeof(alarms) / sizeof(*alarms); i++)
			if (strstr(line, alarms[i])) {
				printf("# %s: %s", args, line);
				bad++;
				break;
			}
	}
	return p && !pclose(p) ? bad : -1;
}

__attribute__((unused))
static bool have_perf(void)
{
	return !system("perf version >/dev/null 2>&1");
}

#endif
