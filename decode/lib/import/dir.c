/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_dir: perf.data as a directory: `data` is a whole perf.data, data.0,
 * data.1, .. are more records of it, one file for each thread of perf record
 * --threads. With --kcore there is `data` alone, and kcore_dir beside it.
 *
 * The reader sees all of them as one file, `data` first. Specification:
 * tools/perf/util/data.c, and perf.data-directory-format.txt.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/diag.h"

#include "decode/lib/import/impl.h"
#include "perfdata/perfdata.h"

#define MAX_PARTS 65536
#define DIR_VERSION 1

/* The files of a directory: v[0] is `data`. */
struct parts {
	struct import_file *v;
	size_t n;
};

/* That `data` is a perf.data is left to the reader: its message is better than
 * "no known format". */
static bool probe(const struct import_source *s)
{
	char *data = s->is_dir ? import_join(s->path, "data") : NULL;
	bool is_there = data && access(data, F_OK) == 0;

	free(data);
	return is_there;
}

/* N of data.N, or -1. */
static long part_number(const char *name)
{
	char *end;
	long n;

	if (strncmp(name, "data.", 5) || name[5] < '0' || name[5] > '9')
		return -1;
	n = strtol(name + 5, &end, 10);
	return *end || n >= MAX_PARTS ? -1 : n;
}

/* How many data.N there are. They count from 0: a hole is a file that is
 * lost. */
static int count_parts(const char *path, size_t *n, struct aux_diag *diag)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	long last = -1;

	*n = 0;
	if (!dir)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot read the directory: %s",
				strerror(errno));
	while ((e = readdir(dir))) {
		long i = part_number(e->d_name);

		*n += i >= 0;
		if (i > last)
			last = i;
	}
	closedir(dir);
	if ((long)*n != last + 1)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"%zu files data.N are here, the last one is "
				"data.%ld: some are missing", *n, last);
	return 0;
}

/* Stops at the first that fails; the caller unmaps those that are there. */
static int map_parts(struct parts *p, const char *path, struct aux_diag *diag)
{
	char name[32];
	int rc;

	rc = import_map_file(&p->v[0], path, "data", diag);
	for (size_t i = 1; rc == 0 && i < p->n; i++) {
		snprintf(name, sizeof(name), "data.%zu", i - 1);
		rc = import_map_file(&p->v[i], path, name, diag);
	}
	return rc;
}

/* Another version may divide the records otherwise. */
static int check_version(const struct aux_reader *r, struct aux_diag *diag)
{
	struct aux_bytes b;
	struct cursor c;
	uint64_t version;

	if (aux_reader_feature(r, AUX_FEAT_DIR_FORMAT, &b, NULL) <= 0)
		return 0;
	c = cursor_init(b.data, b.len, aux_reader_info(r)->swapped);
	version = cursor_u64(&c);
	if (version == DIR_VERSION)
		return 0;
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"a directory of version %llu; this build knows %d",
			(unsigned long long)version, DIR_VERSION);
}

/*
 * The reader moves the mappings next to each other and owns those that it took:
 * their data is NULL afterwards, and unmapping them is no longer our business.
 */
static int open_parts(struct aux_reader **r, struct parts *p, const char *path,
		      struct aux_diag *diag)
{
	struct reader_map *maps = calloc(p->n, sizeof(*maps));
	int rc;

	if (!maps)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	rc = map_parts(p, path, diag);
	for (size_t i = 0; i < p->n; i++)
		maps[i] = (struct reader_map){ p->v[i].data, p->v[i].len,
					       p->v[i].path };
	if (rc == 0)
		rc = reader_open_maps(r, maps, p->n, path, diag);
	for (size_t i = 0; i < p->n; i++)
		p->v[i].data = maps[i].data;	/* NULL: the reader has it */
	free(maps);
	if (rc == 0 && p->n > 1)
		rc = check_version(*r, diag);
	if (rc < 0) {
		aux_reader_close(*r);
		*r = NULL;
	}
	return rc;
}

/* perf record --kcore copies /proc/kcore: the kernel's code as it runs, with
 * modules and patched instructions, which vmlinux lacks. */
char *import_kcore(const char *path)
{
	char *dir = import_join(path, "kcore_dir");
	char *file = dir ? import_join(dir, "kcore") : NULL;

	if (!file || access(file, R_OK)) {
		free(dir);
		dir = NULL;
	}
	free(file);
	return dir;
}

static int open_dir(struct aux_reader **r, const struct import_source *s,
		    struct aux_diag *diag)
{
	struct parts p = { 0 };
	int rc = count_parts(s->path, &p.n, diag);

	if (rc < 0)
		return rc;
	p.n++;
	p.v = calloc(p.n, sizeof(*p.v));
	rc = p.v ? open_parts(r, &p, s->path, diag) :
		   diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	for (size_t i = 0; p.v && i < p.n; i++)
		import_unmap_file(&p.v[i]);
	free(p.v);
	return rc;
}

const struct import_format import_dir = {
	"perf.data directory", true, probe, open_dir,
};
