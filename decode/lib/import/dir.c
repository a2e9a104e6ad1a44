/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_dir: perf.data as a directory: `data` is a whole perf.data, data.0,
 * data.1, .. are more records of it, one file for each thread of perf record
 * --threads. With --kcore there is `data` alone, and kcore_dir beside it.
 *
 * All are mapped one behind the other, so offsets in messages count from the
 * first byte of `data`. Specification: tools/perf/util/data.c, and
 * perf.data-directory-format.txt.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/diag.h"

#include "decode/lib/import/import.h"
#include "perfdata/impl.h"

#define MAX_PARTS 65536
#define DIR_VERSION 1

/* The files of a directory: v[0] is `data`. */
struct parts {
	struct container_file *v;
	size_t n;
	struct segment *segs;	/* of v[1..n) */
};

static bool probe(const struct container_source *s)
{
	char *data = s->is_dir ? container_join(s->path, "data") : NULL;
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

/* How many data.N there are. They count from 0: a hole is a file that is lost. */
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

static int map_parts(struct parts *p, const char *path, struct aux_diag *diag)
{
	char name[32];
	int rc;

	rc = container_map_file(&p->v[0], path, "data", diag);
	for (size_t i = 1; rc == 0 && i < p->n; i++) {
		snprintf(name, sizeof(name), "data.%zu", i - 1);
		rc = container_map_file(&p->v[i], path, name, diag);
	}
	return rc;
}

/* Moves the mappings next to each other. What lies between reads as zeros. */
static int join(struct parts *p, struct backing *all, struct aux_diag *diag)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = 0, len = 0;

	for (size_t i = 0; i < p->n; i++)
		len += (p->v[i].len + page - 1) & ~(page - 1);
	all->map = mmap(NULL, len, PROT_READ,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all->map == MAP_FAILED) {
		all->map = NULL;
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot map the files: %s", strerror(errno));
	}
	all->data = all->map;
	all->len = len;
	for (size_t i = 0; i < p->n; i++) {
		struct container_file *f = &p->v[i];

		if (i)
			p->segs[i - 1] = (struct segment){ at, at + f->len, 0,
							   true };
		if (f->len && mremap((void *)(uintptr_t)f->data, f->len, f->len,
				     MREMAP_MAYMOVE | MREMAP_FIXED,
				     (uint8_t *)all->map + at) == MAP_FAILED)
			return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
					"cannot map %s: %s", f->path,
					strerror(errno));
		f->data = NULL;
		at += (f->len + page - 1) & ~(page - 1);
	}
	return 0;
}

/* Of another version nobody knows what is where. */
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

static int open_parts(struct aux_reader **r, struct parts *p, const char *path,
		      struct aux_diag *diag)
{
	struct backing all = { 0 };
	uint64_t head;
	int rc = map_parts(p, path, diag);

	if (rc == 0 && !p->v[0].len)
		rc = diag_set(diag, AUX_E_FORMAT, 0, "its file `data` is empty: "
			      "not a perf.data file");
	head = p->v[0].len;
	if (rc == 0)
		rc = join(p, &all, diag);
	if (rc < 0) {
		backing_close(&all);
		free(p->segs);
		return rc;
	}
	rc = reader_open_parts(r, &all, head, p->segs, p->n - 1, path, diag);
	if (rc == 0 && p->n > 1)
		rc = check_version(*r, diag);
	if (rc < 0) {
		aux_reader_close(*r);
		*r = NULL;
	}
	return rc;
}

char *container_kcore(const char *path)
{
	char *dir = container_join(path, "kcore_dir");
	char *file = dir ? container_join(dir, "kcore") : NULL;

	if (!file || access(file, R_OK)) {
		free(dir);
		dir = NULL;
	}
	free(file);
	return dir;
}

static int open_dir(struct aux_reader **r, const struct container_source *s,
		    struct aux_diag *diag)
{
	struct parts p = { 0 };
	int rc = count_parts(s->path, &p.n, diag);

	if (rc < 0)
		return rc;
	p.n++;
	p.v = calloc(p.n, sizeof(*p.v));
	p.segs = calloc(p.n, sizeof(*p.segs));
	if (p.v && p.segs) {
		rc = open_parts(r, &p, s->path, diag);
	} else {
		free(p.segs);
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	}
	for (size_t i = 0; p.v && i < p.n; i++)
		container_unmap_file(&p.v[i]);
	free(p.v);
	return rc;
}

const struct container_format container_dir = {
	"perf.data directory", true, probe, open_dir,
};
