/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a fuzz target over files, and over the files of directories, without a
 * fuzzing engine. Every input is given as an exact-size heap copy. A target that
 * finds something aborts, so the file named last is the one.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int run_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *p = malloc(size ? size : 1);
	int ret = -1;

	if (f && p && fread(p, 1, size, f) == size) {
		fprintf(stderr, "replay: %s\n", path);
		LLVMFuzzerTestOneInput(p, size);
		ret = 0;
	} else {
		fprintf(stderr, "replay: error: %s: %s\n", path,
			strerror(errno));
	}
	if (f)
		fclose(f);
	free(p);
	return ret;
}

/* Returns the number of inputs, or -1. */
static long run_path(const char *path)
{
	char sub[4096];
	struct dirent *e;
	struct stat st;
	long n = 0, ret;
	DIR *d;

	if (stat(path, &st)) {
		fprintf(stderr, "replay: error: %s: %s\n", path,
			strerror(errno));
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return run_file(path, (size_t)st.st_size) ? -1 : 1;
	d = opendir(path);
	while (d && (e = readdir(d)) && n >= 0) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		ret = run_path(sub);
		n = ret < 0 ? -1 : n + ret;
	}
	if (d)
		closedir(d);
	return d ? n : -1;
}

int main(int argc, char **argv)
{
	long n = 0, ret;

	for (int i = 1; i < argc; i++) {
		ret = run_path(argv[i]);
		if (ret < 0)
			return 1;
		n += ret;
	}
	printf("%ld inputs\n", n);
	return !n;
}
