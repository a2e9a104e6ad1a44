/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of formats, and what they share.
 *
 * Files are mapped read only, regular ones alone and opened with O_NONBLOCK: a
 * path in a description comes from a stranger, and a FIFO or a device there
 * must not hang us.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/mapped.h"
#include "common/regular.h"

#include "decode/lib/import/impl.h"
#include "perfdata/perfdata.h"

/* The first that claims a path has it: raw is asked for by an option, so before
 * any look at the path; a directory with `data` is perf's, whatever else is in
 * it. table */
static const struct import_format *const formats[] = {
	&import_raw,
	&import_dir,
	&import_snapshot,
	&import_lldb,
};

char *import_join(const char *dir, const char *path)
{
	char *s;

	if (!dir || *path == '/')
		return strdup(path);
	return asprintf(&s, "%s/%s", dir, path) < 0 ? NULL : s;
}

char *import_absent(const char *dir, const char *path)
{
	char *root = realpath(dir, NULL);
	char *s = import_join(root ? root : dir, path);

	free(root);
	return s;
}

char *import_dirname(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* errno is that of the call that failed. */
static int fail_file(struct aux_diag *diag, const char *path)
{
	return diag_set(diag, errno == ENOENT ? AUX_E_NOENT :
			      errno == ENOMEM ? AUX_E_NOMEM : AUX_E_IO,
			AUX_NO_OFFSET, "%s: %s", path, strerror(errno));
}

/*
 * MAP_PRIVATE and read only: a file that grows is seen as it was. One that
 * shrinks under us is a SIGBUS, as with every mapped file. An empty file has
 * data NULL, since mmap refuses a length of 0.
 */
static int map_fd(struct import_file *f, int fd, const struct stat *st,
		  const char *path, struct aux_diag *diag)
{
	f->dev = st->st_dev;
	f->ino = st->st_ino;
	f->len = (uint64_t)st->st_size;
	if (!f->len)
		return 0;
	f->data = mapped_open(fd, f->len, path);
	if (f->data)
		return 0;
	f->len = 0;
	return fail_file(diag, path);
}

/* The real path is kept: mappings name it, and code is looked up by it later,
 * maybe from another directory. */
int import_map_file(struct import_file *f, const char *dir,
		    const char *path, struct aux_diag *diag)
{
	char *name = import_join(dir, path);
	struct stat st;
	int fd, rc;

	*f = (struct import_file){ 0 };
	if (!name)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	fd = regular_open(name, &st);
	f->path = fd < 0 ? NULL : realpath(name, NULL);
	if (f->path)
		rc = map_fd(f, fd, &st, name, diag);
	else if (st.st_mode && !S_ISREG(st.st_mode))
		rc = diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			      "%s is no regular file", name);
	else
		rc = fail_file(diag, name);
	if (fd >= 0)
		close(fd);
	if (rc < 0)
		import_unmap_file(f);
	free(name);
	return rc;
}

/* below: of real paths. The root has all below it. */
static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (n && dir[n - 1] == '/')
		n--;
	return !strncmp(path, dir, n) && (path[n] == '/' || !path[n]);
}

static bool has_parent(const char *path)
{
	for (const char *p = path; (p = strstr(p, "..")) != NULL; p += 2)
		if ((p == path || p[-1] == '/') && (!p[2] || p[2] == '/'))
			return true;
	return false;
}

bool import_is_outside(const char *dir, const char *path, struct aux_diag *diag)
{
	char *base = realpath(*dir ? dir : ".", NULL);
	char *name = import_join(dir, path);
	char *real = name ? realpath(name, NULL) : NULL;
	bool outside = !base || !name;

	if (real && !outside)
		outside = !is_below(real, base);
	else if (!outside)	/* it is not there: by its name */
		outside = has_parent(path) || (*path == '/' && !is_below(path, base));
	free(base);
	free(name);
	free(real);
	if (outside && diag) {
		diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			 "%.200s lies outside of the directory of the recording",
			 path);
		diag->why = AUX_WHY_OUTSIDE;
	}
	return outside;
}

int import_map_named(struct import_file *f, const char *dir, const char *path,
		bool anywhere, struct aux_diag *diag)
{
	*f = (struct import_file){ 0 };
	if (!anywhere && import_is_outside(dir, path, diag))
		return -AUX_E_UNSUPPORTED;
	return import_map_file(f, dir, path, diag);
}

void import_unmap_file(struct import_file *f)
{
	if (f->data)
		mapped_close(f->data, f->len);
	free(f->path);
	*f = (struct import_file){ 0 };
}

/* What is known before a format looks closer. Not there: the reader says so. */
static bool look_at(struct import_source *s)
{
	struct stat st;
	ssize_t n;
	int fd;

	if (!strcmp(s->path, "-") || stat(s->path, &st) < 0)
		return false;
	s->is_dir = S_ISDIR(st.st_mode);
	if (s->is_dir)
		return true;
	if (!S_ISREG(st.st_mode))
		return false;
	fd = regular_open(s->path, &st);
	if (fd < 0)
		return false;
	n = read(fd, s->head, sizeof(s->head));
	s->n_head = n > 0 ? (size_t)n : 0;
	close(fd);
	return true;
}

/* By its magic. A perf.data is never offered to the formats, which look for
 * text. */
static bool is_perf_data(const struct import_source *s)
{
	return s->n_head >= 8 && (!memcmp(s->head, "PERFILE2", 8) ||
				  !memcmp(s->head, "2ELIFREP", 8) ||
				  !memcmp(s->head, "PERFFILE", 8));
}

/* Files in a snapshot's or a bundle's directory are its own, and of a buffer alone
 * all that the command line names. */
static char *own_dir(const struct import_source *s)
{
	char *real, *dir;

	if (s->o->pt)
		return strdup("/");
	dir = s->is_dir ? strdup(s->path) : import_dirname(s->path);
	real = dir ? realpath(dir, NULL) : NULL;
	free(dir);
	return real;
}

/* Of a recording, or bundle, that says itself what ran where. */
static int refuse_elf(struct aux_diag *diag)
{
	return diag_why(diag, AUX_WHY_OWN_FILES,
			diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				 "elf is for snapshots and buffers of packets: "
				 "this recording says itself which files ran"));
}

/* A container that was converted has its name in aux_file_info. */
static int open_as(struct aux_reader **r, const struct import_format *f,
		   const struct import_source *s, struct aux_diag *diag)
{
	int rc;

	if (s->o->n_elfs && f != &import_raw && f != &import_snapshot)
		return refuse_elf(diag);
	rc = f->open(r, s, diag);

	if (rc == 0 && !f->is_perf)
		reader_set_container(*r, f->name, own_dir(s));
	return rc;
}

int import_open(struct aux_reader **r, const char *path,
		const struct import_options *o, struct aux_diag *diag)
{
	static const struct import_options none;
	struct import_source s = { .path = path, .o = o ? o : &none };

	*r = NULL;
	if ((look_at(&s) && !is_perf_data(&s)) || s.o->pt) {
		for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
			if (formats[i]->probe(&s))
				return open_as(r, formats[i], &s, diag);
	}
	if (s.is_dir)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"is a directory without `data` (perf), "
				"`snapshot.ini` (OpenCSD, DS-5) or `trace.json` "
				"(LLDB)");
	if (s.o->n_elfs)
		return refuse_elf(diag);
	return aux_reader_open(r, path, diag);
}
