/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: the file that stands for a recorded path and build id, or the
 * nearest one that was refused.
 *
 * The recorded path comes first: under symfs if that is given. Every other
 * place (debug directories, perf's build-id cache, the container of a process
 * that still runs, debuginfod) needs the recorded build id, and a file there is
 * taken only if it has it: a library of the same name but another build would
 * decode to plausible nonsense. A file with another id is remembered for
 * code_cause.
 *
 * The debuginfod library is loaded when it is first needed: it brings a web
 * client along.
 *
 * Specification: debuginfod_find_executable(3) of elfutils; perf-buildid-
 * cache(1) for the cache; "Separate Debug Files" in GDB's manual for .build-id
 * directories.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <aux/error.h>

#include "decode/lib/code/impl.h"

#ifdef HAVE_DEBUGINFOD
#include <elfutils/debuginfod.h>

struct debuginfod {
	void *library;
	debuginfod_client *client;
	__typeof__(&debuginfod_find_executable) find;
	__typeof__(&debuginfod_end) end;
};

/* Without the library, or with one that lacks a function, client is NULL. */
static struct debuginfod *open_library(void)
{
	struct debuginfod *d = calloc(1, sizeof(*d));
	__typeof__(&debuginfod_begin) begin = NULL;

	if (!d)
		return NULL;
	d->library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!d->library)
		return d;
	*(void **)&begin = dlsym(d->library, "debuginfod_begin");
	*(void **)&d->find = dlsym(d->library, "debuginfod_find_executable");
	*(void **)&d->end = dlsym(d->library, "debuginfod_end");
	if (begin && d->find && d->end)
		d->client = begin();
	return d;
}

/* An executable by its build id, from a server or the client's cache; *path is
 * the caller's. 0, -AUX_E_NOENT, or -AUX_E_UNSUPPORTED (no library). */
static int fetch(struct codeview *cv, const struct file_id *id, char **path)
{
	int fd;

	if (!cv->fetch)
		cv->fetch = open_library();
	if (!cv->fetch || !cv->fetch->client) {
		codeview_add_note(cv, AUX_WHY_SETTING, "debuginfod: libdebuginfod.so.1 cannot "
				  "be loaded, nothing is asked for");
		return -AUX_E_UNSUPPORTED;
	}
	fd = cv->fetch->find(cv->fetch->client, id->bytes, id->size, path);
	if (fd < 0)
		return -AUX_E_NOENT;
	close(fd);
	return 0;
}

void codeview_fetch_free(struct debuginfod *d)
{
	if (!d)
		return;
	if (d->client)
		d->end(d->client);
	if (d->library)
		dlclose(d->library);
	free(d);
}

#else

static int fetch(struct codeview *cv, const struct file_id *id, char **path)
{
	(void)id;
	(void)path;
	codeview_add_note(cv, AUX_WHY_SETTING, "debuginfod: this build cannot ask servers");
	return -AUX_E_UNSUPPORTED;
}

void codeview_fetch_free(struct debuginfod *d)
{
	(void)d;
}

#endif

/* A path made of parts; NULL: out of memory. */
__attribute__((format(printf, 1, 2)))
static char *make_path(const char *fmt, ...)
{
	char *path;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&path, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : path;
}

const char *codeview_id_text(const struct file_id *id,
			     char text[CODEVIEW_ID_TEXT])
{
	static const char digits[] = "0123456789abcdef";

	if (!id->size)
		return "none";
	for (size_t i = 0; i < id->size; i++) {
		text[2 * i] = digits[id->bytes[i] >> 4];
		text[2 * i + 1] = digits[id->bytes[i] & 15];
	}
	text[2 * id->size] = '\0';
	return text;
}

/* perf pads ids of less than 20 bytes with zeros where it does not record the
 * size, so a recorded id may be longer. */
static bool same_id(const struct source *s, const struct elfimage *im)
{
	const uint8_t *id;
	size_t n = elfimage_build_id(im, &id);

	return n && n <= s->id.size && !memcmp(id, s->id.bytes, n);
}

/* Remembers the first file with another build id. Takes path over. */
static void refuse(struct source *s, char *path, const struct elfimage *im)
{
	const uint8_t *id;

	if (s->other) {
		free(path);
		return;
	}
	s->other = path;
	s->other_id.size = (uint8_t)elfimage_build_id(im, &id);
	memcpy(s->other_id.bytes, id, s->other_id.size);
}

/* Takes path over. */
static void set_path(struct source *s, char *path, int error)
{
	free(s->path);
	s->path = path;
	s->error = error;
}

/*
 * Uses the file at path if it is the one. Takes path over. True: stop looking.
 */
static bool try_path(struct source *s, char *path)
{
	struct elfimage *im;
	int rc;

	s->nomem |= !path;
	if (!path || s->image) {
		free(path);
		return s->image;
	}
	rc = elfimage_open(&im, path);
	s->nomem |= rc == -AUX_E_NOMEM;
	if (!rc && !elfimage_is_debug(im) && (!s->id.size || same_id(s, im))) {
		s->image = im;
		set_path(s, path, 0);
		return true;
	}
	/* Report the first place, or the first that has an unusable file. */
	if (!rc && !elfimage_is_debug(im))
		refuse(s, path, im);
	else if (rc && (!s->path || (rc != -AUX_E_NOENT &&
				     s->error == -AUX_E_NOENT)))
		set_path(s, path, rc);
	else
		free(path);
	if (!rc)
		elfimage_close(im);
	return false;
}

/* ROOT/DIR/.build-id/xx/yyyy, as debug packages name it, and what perf's cache
 * has in it. */
static bool try_tree(struct source *s, const char *root, const char *dir)
{
	static const char *const names[] = { "/elf", "/vdso", "/vmlinux", "" };
	char id[CODEVIEW_ID_TEXT];

	codeview_id_text(&s->id, id);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (try_path(s, make_path("%s%s/.build-id/%.2s/%s%s", root, dir,
					  id, id + 2, names[i])))
			return true;
	}
	return false;
}

/* A store of debuginfod's layout. */
static bool try_store(struct source *s, const char *root)
{
	char id[CODEVIEW_ID_TEXT];

	return s->id.size && try_path(s, make_path("%s/buildid/%s/executable", root,
						   codeview_id_text(&s->id, id)));
}

/* The kernel, where distributions install it. */
static bool try_kernel(struct source *s, const char *root, const char *release)
{
	/* table */
	static const struct {
		const char *before, *after; /* the release */
	} places[] = { { "/usr/lib/debug/boot/vmlinux-", "" },
		       { "/usr/lib/debug/lib/modules/", "/vmlinux" },
		       { "/boot/vmlinux-", "" },
		       { "/lib/modules/", "/build/vmlinux" } };

	for (size_t i = 0; release && i < sizeof(places) / sizeof(places[0]);
	     i++) {
		if (try_path(s, make_path("%s%s%s%s", root, places[i].before,
					  release, places[i].after)))
			return true;
	}
	return false;
}

/* The length of a path without " (deleted)", which the kernel appends for a
 * file that is gone. */
static int plain_len(const char *name)
{
	static const char mark[] = " (deleted)";
	size_t n = strlen(name), m = sizeof(mark) - 1;

	if (n > m && !strcmp(name + n - m, mark))
		n -= m;
	return n < INT32_MAX ? (int)n : 0;
}

/*
 * The recorded path in the mount namespace of the recorded process, if it still
 * runs. Only with the recorded id, since the pid may be another process by now.
 */
static void try_container(struct codeview *cv, struct source *s, uint32_t pid)
{
	if (!pid || pid >= INT32_MAX || kill((pid_t)pid, 0) < 0)
		return;
	if (try_path(s, make_path("/proc/%u/root%.*s", pid, plain_len(s->name),
				  s->name)))
		codeview_add_note(cv, AUX_WHY_NONE, "%s: read from /proc/%u/root, where it "
				  "has the recorded build id", s->name, pid);
}

static void try_fetch(struct codeview *cv, struct source *s)
{
	char *path;

	if (cv->debuginfod && fetch(cv, &s->id, &path) == 0)
		try_path(s, path);
}

/* All places but the recorded path. A bundle (closed) is to be decoded alike
 * everywhere, so this machine's files do not count unless symfs names them. */
static void find_by_id(struct codeview *cv, struct source *s, uint32_t pid)
{
	const char *root = cv->symfs && !cv->symfs_is_file ? cv->symfs : "";
	bool here = !cv->closed || cv->symfs;
	const char *base = strrchr(s->name, '/');
	bool file = codeview_is_file(s->name);

	if (file && here && plain_len(s->name) != (int)strlen(s->name) &&
	    try_path(s, make_path("%s%.*s", root, plain_len(s->name), s->name)))
		return;
	if (*root && (try_tree(s, root, "") ||
		      (file && try_path(s, make_path("%s/%.*s", root,
						     plain_len(base + 1),
						     base + 1)))))
		return;
	if (here && (try_tree(s, root, "/usr/lib/debug") ||
		     try_tree(s, root, "/usr/lib")))
		return;
	if (cv->cache && (try_tree(s, cv->cache, "") || try_store(s, cv->cache)))
		return;
	if (s->kind == MAPPING_KERNEL && here &&
	    try_kernel(s, root, cv->release))
		return;
	if (file && !cv->symfs && !cv->closed)
		try_container(cv, s, pid);
	if (!s->image)
		try_fetch(cv, s);
}

/* A kernel module may be installed compressed or not, whatever it was at
 * recording. */
static bool try_packed(struct source *s, const char *root)
{
	static const char *const ends[] = { ".xz", ".gz", ".zst", "" };
	size_t len = strlen(s->name);

	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(ends[i]);

		if (len > n && !strcmp(s->name + len - n, ends[i]))
			len -= n;
	}
	for (size_t i = 0; i < 4; i++) {
		if (len < INT32_MAX &&
		    try_path(s, make_path("%s%.*s%s", root, (int)len, s->name,
					  ends[i])))
			return true;
	}
	return false;
}

/* Did the file come with the recording? */
static bool is_own(const struct codeview *cv, const char *name)
{
	size_t len = cv->own_dir ? strlen(cv->own_dir) : 0;

	while (len && cv->own_dir[len - 1] == '/')
		len--;
	return cv->own_dir && !strncmp(name, cv->own_dir, len) && name[len] == '/';
}

/* The recorded path itself: under symfs, unless the file came with the
 * recording. symfs may be one file: then it stands for everything, by its build
 * id if that is known. */
static void find_named(struct codeview *cv, struct source *s)
{
	const char *root = cv->symfs ? cv->symfs : "";

	if (codeview_is_vdso(s->name) || !codeview_is_file(s->name)) {
		if (codeview_is_vdso(s->name) && cv->vdso)
			try_path(s, strdup(cv->vdso));
		return;
	}
	if (cv->closed && !cv->symfs)
		return;
	if (is_own(cv, s->name) && try_path(s, strdup(s->name)))
		return;
	if (cv->symfs_is_file)
		try_path(s, strdup(cv->symfs));
	else if (!try_path(s, make_path("%s%s", root, s->name)) &&
		 s->kind == MAPPING_MODULE)
		try_packed(s, root);
}

void codeview_find(struct codeview *cv, struct source *s, uint32_t pid)
{
	const char *root = cv->symfs && !cv->symfs_is_file ? cv->symfs : "";

	s->error = -AUX_E_NOENT;
	find_named(cv, s);
	if (!s->image && s->id.size)
		find_by_id(cv, s, pid);
	if (s->image)
		elfimage_debug_from(s->image, root, s->name);
	else if (s->other)
		s->error = -AUX_E_FORMAT;
}
