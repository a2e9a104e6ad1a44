/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outfile: see outfile.h.
 *
 * A rename replaces a file, which is not always the same as writing it: other
 * hard links would keep the old bytes, another owner would lose the file, a
 * bind-mounted file or one in a directory that is not ours cannot be replaced.
 * Such a file is written over from the complete one at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/outfile.h"

#define MAX_LINKS 40	/* as the kernel */
#define MAX_NAMES 100	/* that are tried */

static int fail(struct aux_diag *diag, const struct outfile *f,
		const char *what, int err)
{
	return diag_set(diag, err == ENOMEM ? AUX_E_NOMEM : AUX_E_IO,
			AUX_NO_OFFSET, "%s: %s: %s", f->path, what,
			strerror(err));
}

/* The name in the directory of path. */
static char *beside(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	char *s;

	if (name[0] == '/' || !slash)
		return strdup(name);
	if (asprintf(&s, "%.*s/%s", (int)(slash - path), path, name) < 0)
		return NULL;
	return s;
}

/* What the symbolic link at path leads to, whether it is there or not; path
 * itself if it is none. NULL with errno set. */
static char *follow_links(const char *path)
{
	char *p = strdup(path), *next, to[4096];

	for (unsigned i = 0; p && i < MAX_LINKS; i++) {
		ssize_t n = readlink(p, to, sizeof(to) - 1);

		if (n < 0)
			return p;
		to[n] = '\0';
		next = beside(p, to);
		free(p);
		p = next;
	}
	free(p);
	errno = p ? ELOOP : ENOMEM;
	return NULL;
}

static bool is_same(const struct stat *a, int fd)
{
	struct stat b;

	return !fstat(fd, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

/*
 * What cannot be replaced. A regular file that is standard output or standard
 * error (-o /dev/stdout >>FILE) is written where they stand: others write
 * there, too.
 */
static int open_direct(struct outfile *f, const struct stat *st)
{
	f->direct = true;
	if (S_ISREG(st->st_mode))
		f->fd = fcntl(is_same(st, STDOUT_FILENO) ? STDOUT_FILENO :
			      STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		f->fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return f->fd < 0 ? errno : 0;
}

/* The first name that is free: PATH.PID and on. 0 or an errno. */
static int try_names(struct outfile *f, int (*make)(struct outfile *f, mode_t mode),
		     mode_t mode)
{
	int err = EEXIST;

	for (unsigned i = 0; err == EEXIST && i < MAX_NAMES; i++) {
		if (asprintf(&f->temp, "%s.%u", f->path,
			     (unsigned)getpid() + i) < 0) {
			f->temp = NULL;
			return ENOMEM;
		}
		err = make(f, mode);
		if (!err)
			return 0;
		free(f->temp);
		f->temp = NULL;
	}
	return err;
}

static int make_named(struct outfile *f, mode_t mode)
{
	f->fd = open(f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	return f->fd < 0 ? errno : 0;
}

/* linkat cannot replace a file, rename can: so a file without a name first gets
 * one beside its path. */
static int link_named(struct outfile *f, mode_t mode)
{
	char from[32];

	(void)mode;
	snprintf(from, sizeof(from), "/proc/self/fd/%d", f->fd);
	return linkat(AT_FDCWD, from, AT_FDCWD, f->temp, AT_SYMLINK_FOLLOW) ?
		       errno : 0;
}

/* In the directory of the path, since a rename must not cross file systems.
 * Some file systems have no O_TMPFILE (NFS): there a killed program leaves a
 * file, whose name begins with that of the output. */
static int open_aside(struct outfile *f, mode_t mode, unsigned flags)
{
	char *dir = strdup(f->path);

	if (!dir)
		return ENOMEM;
	if (!(flags & OUTFILE_NAMED))
		f->fd = open(dirname(dir), O_TMPFILE | O_RDWR | O_CLOEXEC,
			     mode);
	free(dir);
	return f->fd >= 0 ? 0 : try_names(f, make_named, mode);
}

/* For a directory in which nothing can be made. */
static int open_elsewhere(struct outfile *f)
{
	const char *dir = getenv("TMPDIR");

	f->over = true;
	f->fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC,
		     0600);
	if (f->fd < 0)
		f->fd = memfd_create("auxkit-output", MFD_CLOEXEC);
	return f->fd < 0 ? errno : 0;
}

static int open_existing(struct outfile *f, const struct stat *st,
			 unsigned flags)
{
	int err;

	if (access(f->path, W_OK))
		return errno;
	err = open_aside(f, 0600, flags);
	if (err && err != ENOMEM && !(flags & OUTFILE_NAMED))
		return open_elsewhere(f);
	if (err)
		return err;
	if (st->st_nlink > 1 || fchown(f->fd, st->st_uid, st->st_gid) ||
	    fchmod(f->fd, st->st_mode & 0777))
		f->over = true;
	return 0;
}

static int open_path(struct outfile *f, mode_t mode, unsigned flags)
{
	struct stat st;

	if (stat(f->path, &st))
		return errno == ENOENT ? open_aside(f, mode, flags) : errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	if (!S_ISREG(st.st_mode) || is_same(&st, STDOUT_FILENO) ||
	    is_same(&st, STDERR_FILENO))
		return open_direct(f, &st);
	return open_existing(f, &st, flags);
}

/* Also a pipe's name in /proc/self/fd is a link, but to nothing: so links are
 * followed only to what can be replaced. */
static int find_path(struct outfile *f, const char *path)
{
	struct stat st;
	bool there = !stat(path, &st);

	f->path = there && (!S_ISREG(st.st_mode) || !st.st_nlink) ?
			  strdup(path) : follow_links(path);
	return f->path ? 0 : errno;
}

int outfile_open(struct outfile *f, const char *path, mode_t mode,
		 unsigned flags, struct aux_diag *diag)
{
	struct stat st;
	int err;

	*f = OUTFILE_NONE;
	if (flags & OUTFILE_REGULAR && !stat(path, &st) &&
	    (!S_ISREG(st.st_mode) || is_same(&st, STDOUT_FILENO)))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%s is not a regular file", path);
	err = find_path(f, path);
	if (!err)
		err = open_path(f, mode, flags);
	if (!err)
		return 0;
	if (f->path)
		err = fail(diag, f, "cannot create", err);
	else
		err = diag_set(diag, err == ENOMEM ? AUX_E_NOMEM : AUX_E_IO,
			       AUX_NO_OFFSET, "%s: cannot create: %s", path,
			       strerror(err));
	outfile_discard(f);
	return err;
}

static int copy_bytes(int from, int to, off_t size)
{
	char buf[64 << 10];
	off_t at = 0;

	while (at < size) {
		ssize_t n = pread(from, buf, sizeof(buf), at), done = 0;

		if (n <= 0)
			return n < 0 ? errno : EIO;
		while (done < n) {
			ssize_t put = pwrite(to, buf + done, (size_t)(n - done),
					     at + done);

			if (put <= 0)
				return put < 0 ? errno : EIO;
			done += put;
		}
		at += n;
	}
	return ftruncate(to, size) ? errno : 0;
}

/* The room is reserved first: on a full disk the old bytes stay. Where that is
 * not supported, there is no telling before. */
static int copy_over(struct outfile *f)
{
	struct stat st;
	int to, err = 0;

	if (fstat(f->fd, &st))
		return errno;
	to = open(f->path, O_WRONLY | O_CREAT | O_CLOEXEC, st.st_mode & 0777);
	if (to < 0)
		return errno;
	if (st.st_size && fallocate(to, FALLOC_FL_KEEP_SIZE, 0, st.st_size) &&
	    (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
		err = errno;
	if (!err)
		err = copy_bytes(f->fd, to, st.st_size);
	if (close(to) && !err)
		err = errno;
	return err;
}

/* Closed before the rename: on NFS that is what reports a full disk. */
static int replace(struct outfile *f)
{
	int err = f->temp ? 0 : try_names(f, link_named, 0), fd;

	if (err)
		return copy_over(f);
	fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	err = fd < 0 || close(fd) ? errno : 0;
	if (err)
		return err;
	if (rename(f->temp, f->path))
		return copy_over(f);
	free(f->temp);
	f->temp = NULL;
	return 0;
}

int outfile_commit(struct outfile *f, struct aux_diag *diag)
{
	int err = 0;

	if (f->fd < 0)
		return 0;
	if (!f->direct)
		err = f->over ? copy_over(f) : replace(f);
	if (close(f->fd) && !err)
		err = errno;
	f->fd = -1;
	err = err ? fail(diag, f, "cannot write", err) : 0;
	outfile_discard(f);
	return err;
}

void outfile_discard(struct outfile *f)
{
	if (f->temp)
		unlink(f->temp);
	if (f->fd >= 0)
		close(f->fd);
	free(f->path);
	free(f->temp);
	*f = OUTFILE_NONE;
}
