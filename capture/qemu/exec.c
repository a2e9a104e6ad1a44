/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Following execve: qemu would run the new program natively, so we run qemu on
 * it ourselves, with this object, before qemu gets to it. What cannot be
 * followed, and what would fail, is left to qemu, and the former is reported.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/predict_exec.h"
#include "capture/qemu/impl.h"

struct request {
	char path[PATH_MAX];
	char **argv, **envp;	/* ours; the strings are the guest's */
};

static uintptr_t untag(uint64_t addr)
{
	return addr & qp.address;
}

/* execveat's file as a path; false when there is none. */
static bool path_at(int dirfd, const char *path, bool empty, char *out)
{
	char dir[64];
	ssize_t n;

	if (path[0] == '/' || dirfd == AT_FDCWD)
		return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
	snprintf(dir, sizeof(dir), "/proc/self/fd/%d", dirfd);
	n = readlink(dir, out, PATH_MAX - 1);
	if (n <= 0 || out[0] != '/')
		return false;
	out[n] = 0;
	if (!path[0])
		return empty && !access(out, F_OK);
	if (strlen(path) + (size_t)n + 2 > PATH_MAX)
		return false;
	out[n] = '/';
	memcpy(out + n + 1, path, strlen(path) + 1);
	return true;
}

static bool readable(uintptr_t addr)
{
	char byte;
	struct iovec local = { &byte, 1 }, remote = { (void *)addr, 1 };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 ||
	       errno != EFAULT;
}

/* A whole string of the guest's may be read. */
static bool is_string(const char *s)
{
	uintptr_t at = (uintptr_t)s;

	while (readable(at)) {
		size_t left = 4096 - at % 4096;

		if (memchr((const char *)at, 0, left))
			return true;
		at += left;
	}
	return false;
}

/* Pointers and strings of the guest, to an array of ours; none for NULL. */
static bool take_vector(const uint64_t *v, char ***out)
{
	char **more;

	for (size_t i = 0; v; i++) {
		if (!readable((uintptr_t)&v[i]) ||
		    !readable((uintptr_t)&v[i] + sizeof(*v) - 1))
			return false;
		more = realloc(*out, (i + 1) * sizeof(**out));
		if (!more)
			return false;
		*out = more;
		more[i] = (char *)untag(v[i]);
		if (!v[i])
			return true;
		if (!is_string(more[i]))
			return false;
	}
	return true;
}

/* False: execve would fail with EFAULT, or the file cannot be named. */
static bool read_request(bool at, const uint64_t *args, struct request *r)
{
	const char *path = (const char *)untag(args[at]);

	if (!is_string(path) ||
	    !take_vector((const uint64_t *)untag(args[at + 1]), &r->argv) ||
	    !take_vector((const uint64_t *)untag(args[at + 2]), &r->envp))
		return false;
	if (at)
		return path_at((int)args[0], path, args[4] & AT_EMPTY_PATH,
			       r->path);
	return snprintf(r->path, PATH_MAX, "%s", path) < PATH_MAX;
}

static void name_next(const char *path)
{
	const char *slash = strrchr(path, '/');

	path = slash ? slash + 1 : path;
	memset(qp_self.shm->comm, 0, sizeof(qp_self.shm->comm));
	memcpy(qp_self.shm->comm, path,
	       strnlen(path, sizeof(qp_self.shm->comm) - 1));
}

/* What execs now is not ours; a long path loses its front. */
static void tell_native(const char *path, uint64_t why)
{
	char *next = qp_self.shm->next;
	size_t n = strlen(path), skip = n < SHM_NAME_MAX ? 0 :
						 n - SHM_NAME_MAX + 1;

	memset(next, 0, SHM_NAME_MAX);
	memcpy(next, path + skip, n - skip);
	qp_escape(&qp_self.shm->ring, SHM_ESC_NATIVE, why, 0);
}

static void start_qemu(const struct soft_exec *x,
		       const struct soft_exec_on *on, char *const *env)
{
	uint64_t slot = ((uintptr_t)qp_self.shm - (uintptr_t)qp.shm -
			 SHM_THREADS_AT) / SHM_THREAD_BYTES;
	char plugin[PATH_MAX + 128];
	char **argv, **envp;

	snprintf(plugin, sizeof(plugin), "%s,fd=%d,slot=%llu,argc=%zu",
		 qp.object, qp.fd, (unsigned long long)slot, x->argc);
	if (soft_exec_command(x, on, qp.qemu, plugin, env, &argv, &envp) < 0)
		return;
	qp_park_others();
	fcntl(qp.fd, F_SETFD, 0);
	execve(qp.qemu, argv, envp);
	fcntl(qp.fd, F_SETFD, FD_CLOEXEC);
	qp_unpark();
	free(argv);
	free(envp);
}

static const char *own_program(char **owned)
{
	const char *path = qemu_plugin_path_to_binary();

	*owned = path ? realpath(path, NULL) : NULL;
	return *owned;
}

static void free_request(struct request *r)
{
	if (r) {
		free(r->argv);
		free(r->envp);
	}
	free(r);
}

void qp_exec(bool at, const uint64_t *args)
{
	const struct soft_exec_on on = {
		(int)qp.machine->elf, qp.sysroot, qp.always
	};
	struct request *r = calloc(1, sizeof(*r));
	struct soft_exec x = { 0 };
	char *self = NULL;
	uint64_t why = SOFT_WHY_HELPER;
	int ret;

	if (!r || !read_request(at, args, r)) {
		free_request(r);
		tell_native("", SOFT_WHY_DELETED);
		return;
	}
	ret = soft_exec_resolve(&x, &on, r->path, r->argv, own_program(&self));
	if (ret == SOFT_EXEC_TRACE) {
		name_next(r->path);
		start_qemu(&x, &on, r->envp);
	} else if (ret == SOFT_EXEC_NATIVE) {
		why = x.why;
	}
	/* still here */
	if (ret != SOFT_EXEC_FAIL)
		tell_native(r->path, why);
	soft_exec_fini(&x);
	free(self);
	free_request(r);
}
