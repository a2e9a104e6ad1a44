/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite: the file itself. It is made without a name in the directory of its
 * path (with one that ends in digits where the file system cannot do that), so
 * a killed program leaves nothing behind. It is for its owner alone, as all
 * recordings are: there is code in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"

#include "perfdata/rewrite_impl.h"

#define BUF_SIZE ((size_t)1 << 20)

void rewrite_fail(struct rewrite *w, int code, const char *fmt, ...)
{
	va_list ap;

	if (w->error)
		return;
	w->error = code;
	w->diag.code = code;
	w->diag.offset = AUX_NO_OFFSET;
	va_start(ap, fmt);
	vsnprintf(w->diag.text, sizeof(w->diag.text), fmt, ap);
	va_end(ap);
}

int rewrite_failed(const struct rewrite *w)
{
	return -w->error;
}

static void write_all(struct rewrite *w, const uint8_t *p, size_t n)
{
	while (n && !w->error) {
		ssize_t done = write(w->fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			rewrite_fail(w, AUX_E_IO, "%s: cannot write: %s; "
				     "nothing was left there", w->path,
				     done < 0 ? strerror(errno) : "no progress");
			return;
		}
		p += done;
		n -= (size_t)done;
	}
}

void rewrite_put(struct rewrite *w, const void *data, size_t len)
{
	if (!len || w->error)
		return;
	w->pos += len;
	if (len > BUF_SIZE - w->used) {
		write_all(w, w->buf, w->used);
		w->used = 0;
	}
	if (len >= BUF_SIZE) {
		write_all(w, data, len);
		return;
	}
	memcpy(w->buf + w->used, data, len);
	w->used += len;
}

void rewrite_put_head(struct rewrite *w, const void *data, size_t len)
{
	write_all(w, w->buf, w->used);
	w->used = 0;
	if (w->error)
		return;
	if (pwrite(w->fd, data, len, 0) != (ssize_t)len)
		rewrite_fail(w, AUX_E_IO, "%s: cannot write its header: %s",
			     w->path, strerror(errno));
}

int rewrite_refuse_input(const char *path, const char *input,
			 struct aux_diag *diag)
{
	struct stat in, out;

	if (stat(path, &out) || stat(input, &in) || in.st_dev != out.st_dev ||
	    in.st_ino != out.st_ino)
		return 0;
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"%s is the input: give another name with -o", path);
}

/* Follows links, so that the file they lead to is replaced, not they. */
static int find_path(struct rewrite *w, const char *path, struct aux_diag *diag)
{
	struct stat st;

	if (!strcmp(path, "-"))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"a recording cannot be written to standard "
				"output: give a file with -o");
	if (!stat(path, &st)) {
		if (!S_ISREG(st.st_mode))
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"%s is not a regular file", path);
		w->path = realpath(path, NULL);
	} else {
		w->path = strdup(path);
	}
	return w->path ? 0 : diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				      "out of memory");
}

static int open_named(struct rewrite *w)
{
	int fd;

	if (asprintf(&w->temp, "%s.XXXXXX", w->path) < 0) {
		w->temp = NULL;
		return -1;
	}
	fd = mkostemp(w->temp, O_CLOEXEC);
	if (fd < 0) {
		free(w->temp);
		w->temp = NULL;
	}
	return fd;
}

static int open_file(struct rewrite *w, struct aux_diag *diag)
{
	char *copy = strdup(w->path);

	w->fd = copy ? open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC,
			    0600) : -1;
	free(copy);
	if (w->fd < 0)
		w->fd = open_named(w);
	if (w->fd < 0)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"%s: cannot create: %s", w->path,
				strerror(errno));
	return 0;
}

int rewrite_open(struct rewrite **out, const char *path, const char *input,
		 bool swapped, struct aux_diag *diag)
{
	struct rewrite *w = calloc(1, sizeof(*w));
	int rc = 0;

	*out = NULL;
	if (w) {
		w->fd = -1;
		w->swap = swapped;
		w->buf = malloc(BUF_SIZE);
	}
	if (!w || !w->buf)
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	if (rc == 0 && input)
		rc = rewrite_refuse_input(path, input, diag);
	if (rc == 0)
		rc = find_path(w, path, diag);
	if (rc == 0)
		rc = open_file(w, diag);
	if (rc < 0)
		rewrite_discard(w);
	else
		*out = w;
	return rc;
}

/* A file without a name gets one beside the path: only that can be renamed. */
static int give_name(struct rewrite *w)
{
	char from[32];

	snprintf(from, sizeof(from), "/proc/self/fd/%d", w->fd);
	for (unsigned i = 0; !w->temp && i < 100; i++) {
		if (asprintf(&w->temp, "%s.%u", w->path,
			     (unsigned)getpid() + i) < 0) {
			w->temp = NULL;
			return -1;
		}
		if (!linkat(AT_FDCWD, from, AT_FDCWD, w->temp,
			    AT_SYMLINK_FOLLOW))
			return 0;
		free(w->temp);
		w->temp = NULL;
		if (errno != EEXIST)
			return -1;
	}
	return w->temp ? 0 : -1;
}

int rewrite_name_file(struct rewrite *w)
{
	if (!w->error && (give_name(w) || rename(w->temp, w->path)))
		rewrite_fail(w, AUX_E_IO, "%s: cannot create: %s", w->path,
			     strerror(errno));
	if (!w->error) {
		free(w->temp);
		w->temp = NULL;
	}
	return -w->error;
}

void rewrite_discard(struct rewrite *w)
{
	if (!w)
		return;
	if (w->temp)
		unlink(w->temp);
	if (w->fd >= 0)
		close(w->fd);
	for (size_t i = 0; i < w->n_attrs; i++) {
		free((void *)(uintptr_t)w->attrs[i].a.ids);
		free((void *)(uintptr_t)w->attrs[i].a.name);
	}
	free(w->attrs);
	free(w->index);
	free(w->desc.data);
	free(w->build_ids.data);
	free(w->buf);
	free(w->path);
	free(w->temp);
	free(w);
}
