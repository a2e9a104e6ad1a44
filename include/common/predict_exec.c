/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * predict_exec: which ELF file an execve would run, and with which arguments.
 *
 * Left alone, qemu-user's execve runs the new program natively and untraced. Both the
 * plugin and auxcap therefore start qemu on that program themselves, and must know
 * beforehand what the kernel would make of the call.
 * Follows fs/exec.c and fs/binfmt_script.c of Linux; whatever is not certain is left to
 * the kernel: untraced, but correct.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/predict_exec.h"

#define MAX_SCRIPTS 5	/* interpreters that are scripts: the limit of exec_binprm() */

const char *soft_why_text(unsigned why, int machine)
{
	static const char *const text[SOFT_WHY_N] = {
		[SOFT_WHY_NONE] = "unknown reason",
		[SOFT_WHY_ARCH] = "not an ELF program of this machine",
		[SOFT_WHY_SETUID] = "set-user-ID, set-group-ID or capabilities",
		[SOFT_WHY_UNREADABLE] = "program file is not readable",
		[SOFT_WHY_DELETED] = "program file has no path",
		[SOFT_WHY_HELPER] = "qemu could not be started for it",
	};

	if (why == SOFT_WHY_ARCH)
		return machine == EM_AARCH64 ? "not an AArch64 ELF program" :
					       "not an x86-64 ELF program";
	return why < SOFT_WHY_N && text[why] ? text[why] : text[0];
}

/* s is freed with x. */
static char *own(struct soft_exec *x, char *s)
{
	if (s && x->n_owned < sizeof(x->owned) / sizeof(x->owned[0]))
		x->owned[x->n_owned++] = s;
	return s;
}

/* To the guest these are its own program; to the kernel, which would run it,
 * qemu. */
static bool is_self_exe(const char *path)
{
	char own_proc[64];

	snprintf(own_proc, sizeof(own_proc), "/proc/%d/exe", (int)getpid());
	return !strcmp(path, "/proc/self/exe") ||
	       !strcmp(path, "/proc/thread-self/exe") ||
	       !strcmp(path, own_proc);
}

/*
 * A path through a descriptor that exec may close: the file's own path instead.
 * 0 when path is none, 1 when out is to be used, -1 when there is no other
 * path.
 */
static int follow_fd(const char *path, char out[PATH_MAX])
{
	struct stat a, b;
	char dir[64];
	ssize_t n;

	snprintf(dir, sizeof(dir), "/proc/%d/fd/", (int)getpid());
	if (strncmp(path, "/proc/self/fd/", 14) &&
	    strncmp(path, "/dev/fd/", 8) && strncmp(path, dir, strlen(dir)))
		return 0;
	n = readlink(path, out, PATH_MAX - 1);
	if (n <= 0)
		return -1;
	out[n] = 0;
	return out[0] == '/' && !stat(path, &a) && !stat(out, &b) &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino ? 1 : -1;
}

/* Such a program must be run by the kernel: qemu would run it without the
 * privileges. Capabilities make no difference to root. */
static bool changes_privileges(const char *path, const struct stat *st)
{
	if ((st->st_mode & S_ISUID) && st->st_uid != geteuid())
		return true;
	if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) &&
	    st->st_gid != getegid())
		return true;
	return geteuid() &&
	       getxattr(path, "security.capability", NULL, 0) > 0;
}

static int native(struct soft_exec *x, enum soft_why why)
{
	x->why = why;
	return SOFT_EXEC_NATIVE;
}

/* argv becomes interpreter [argument] path argv[1]... */
static int apply_script(struct soft_exec *x, char *line)
{
	char *interp, *arg = NULL, *end;
	char **argv;
	size_t extra, n = 0;

	line[strcspn(line, "\n")] = 0;
	interp = line + 2 + strspn(line + 2, " \t");
	end = interp + strcspn(interp, " \t");
	if (!*interp)
		return SOFT_EXEC_FAIL;
	if (*end) {
		*end++ = 0;
		arg = end + strspn(end, " \t");
		for (end = arg + strlen(arg);
		     end > arg && (end[-1] == ' ' || end[-1] == '\t'); end--)
			end[-1] = 0;
		if (!*arg)
			arg = NULL;
	}
	extra = arg ? 2 : 1;
	argv = calloc(x->argc + extra + 2, sizeof(*argv));
	if (!argv)
		return SOFT_EXEC_FAIL;
	argv[n++] = interp;
	if (arg)
		argv[n++] = arg;
	argv[n++] = x->path;
	for (size_t i = 1; i < x->argc; i++)
		argv[n++] = x->argv[i];
	free(x->argv);
	x->argv = argv;
	x->argc = n;
	x->path = interp;
	return SOFT_EXEC_TRACE;
}

/* As qemu looks files up: below -L first. */
static bool exists(const char *sysroot, const char *path)
{
	char below[2 * PATH_MAX];

	snprintf(below, sizeof(below), "%s%s", sysroot, path);
	return !access(below, F_OK) || !access(path, F_OK);
}

/* A dynamic program whose loader is missing: execve fails, qemu would exit. */
static bool loader_exists(struct soft_exec *x, const struct soft_exec_on *on,
			  int fd, const Elf64_Ehdr *eh)
{
	char path[PATH_MAX] = "";
	Elf64_Phdr ph;

	for (unsigned i = 0; i < eh->e_phnum; i++) {
		if (pread(fd, &ph, sizeof(ph),
			  (off_t)(eh->e_phoff + i * sizeof(ph))) != sizeof(ph))
			return true;
		x->dynamic |= ph.p_type == PT_INTERP || ph.p_type == PT_DYNAMIC;
		if (ph.p_type != PT_INTERP || ph.p_filesz >= sizeof(path))
			continue;
		if (pread(fd, path, ph.p_filesz, (off_t)ph.p_offset) !=
		    (ssize_t)ph.p_filesz)
			return true;
		return exists(on->sysroot, path);
	}
	return true;
}

static int classify_elf(struct soft_exec *x, const struct soft_exec_on *on,
			int fd, const char *head, size_t n)
{
	Elf64_Ehdr eh;

	if (n < sizeof(eh) || memcmp(head, ELFMAG, SELFMAG))
		return native(x, SOFT_WHY_ARCH); /* binfmt_misc, or ENOEXEC */
	memcpy(&eh, head, sizeof(eh));
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_ident[EI_DATA] != ELFDATA2LSB || eh.e_machine != on->machine ||
	    eh.e_phentsize != sizeof(Elf64_Phdr))
		return native(x, SOFT_WHY_ARCH);
	return loader_exists(x, on, fd, &eh) ? SOFT_EXEC_TRACE : SOFT_EXEC_FAIL;
}

/* One level. Returns 2 when a script's interpreter must be looked at next. */
static int look_at(struct soft_exec *x, const struct soft_exec_on *on)
{
	char *head = own(x, calloc(1, 257));
	struct stat st;
	ssize_t n;
	int fd, ret;

	if (!head || stat(x->path, &st) || !S_ISREG(st.st_mode) ||
	    faccessat(AT_FDCWD, x->path, X_OK, AT_EACCESS))
		return SOFT_EXEC_FAIL;
	if (changes_privileges(x->path, &st))
		return native(x, SOFT_WHY_SETUID);
	fd = open(x->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return native(x, SOFT_WHY_UNREADABLE);
	n = read(fd, head, 256);
	if (n < 2)
		ret = SOFT_EXEC_FAIL;
	else if (!memcmp(head, "#!", 2))
		ret = apply_script(x, head) ? SOFT_EXEC_FAIL : 2;
	else
		ret = classify_elf(x, on, fd, head, (size_t)n);
	close(fd);
	return ret;
}

int soft_exec_resolve(struct soft_exec *x, const struct soft_exec_on *on,
		      const char *path, char *const argv[],
		      const char *self_exe)
{
	static char empty[1];
	char real[PATH_MAX];
	size_t argc = 0;
	int fd_path;

	memset(x, 0, sizeof(*x));
	while (argv && argv[argc])
		argc++;
	x->argv = calloc(argc + 2, sizeof(*x->argv));
	if (!x->argv)
		return SOFT_EXEC_FAIL;
	for (size_t i = 0; i < argc; i++)
		x->argv[i] = argv[i];
	if (!argc)
		x->argv[argc++] = empty;
	x->argc = argc;
	if (self_exe && is_self_exe(path))
		path = self_exe;
	fd_path = follow_fd(path, real);
	x->path = own(x, strdup(fd_path > 0 ? real : path));
	if (!x->path)
		return SOFT_EXEC_FAIL;
	if (fd_path < 0)
		return access(path, X_OK) ? SOFT_EXEC_FAIL :
					    native(x, SOFT_WHY_DELETED);
	for (int i = 0; i <= MAX_SCRIPTS; i++) {
		int ret = look_at(x, on);

		if (ret != 2)
			return ret;
	}
	return SOFT_EXEC_FAIL;
}

void soft_exec_fini(struct soft_exec *x)
{
	for (size_t i = 0; i < x->n_owned; i++)
		free(x->owned[i]);
	free(x->argv);
	memset(x, 0, sizeof(*x));
}

/* Whether this variable would change qemu itself. qemu's -E splits at commas,
 * so a value with one cannot be passed on either. */
static bool acts_on_qemu(const char *var)
{
	static const char *const prefix[] = {
		"LD_", "QEMU_", "GLIBC_TUNABLES=", "MALLOC_", "GCONV_PATH=",
		"G_SLICE=", "G_DEBUG=",
	};

	for (size_t i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++)
		if (!strncmp(var, prefix[i], strlen(prefix[i])))
			return !strchr(var, ',');
	return false;
}

int soft_exec_command(const struct soft_exec *x, const struct soft_exec_on *on,
		      const char *qemu, const char *plugin, char *const env[], char ***argv,
		      char ***envp)
{
	size_t n_env = 0, n = 0, e = 0;
	char **a, **v;

	while (env && env[n_env])
		n_env++;
	a = calloc(x->argc + 2 * n_env + 14, sizeof(*a));
	v = calloc(n_env + 1, sizeof(*v));
	if (!a || !v) {
		free(a);
		free(v);
		return -1;
	}
	a[n++] = (char *)(uintptr_t)qemu;
	a[n++] = (char *)(uintptr_t)"-cpu";
	/* pointer authentication as the architecture has it is slow */
	a[n++] = (char *)(uintptr_t)(on->machine == EM_AARCH64 ?
					     "max,pauth-impdef=on" : "max");
	if (on->sysroot[0] && (x->dynamic || on->always)) {
		a[n++] = (char *)(uintptr_t)"-L";
		a[n++] = (char *)(uintptr_t)on->sysroot;
	}
	a[n++] = (char *)(uintptr_t)"-plugin";
	a[n++] = (char *)(uintptr_t)plugin;
	/* qemu hands the variables on in reverse order */
	for (size_t i = n_env; i-- > 0;) {
		if (acts_on_qemu(env[i])) {
			a[n++] = (char *)(uintptr_t)"-E";
			a[n++] = env[i];
		} else {
			v[e++] = env[i];
		}
	}
	a[n++] = (char *)(uintptr_t)"-0";
	a[n++] = x->argv[0];
	a[n++] = x->path;
	for (size_t i = 1; i < x->argc; i++)
		a[n++] = x->argv[i];
	*argv = a;
	*envp = v;
	return 0;
}
