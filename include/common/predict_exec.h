/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What execve would run, for either machine, and the qemu command line that
 * runs the same under our helper object. Used by auxcap for the first program
 * and inside qemu for every later exec.
 */
#ifndef COMMON_PREDICT_EXEC_H
#define COMMON_PREDICT_EXEC_H

#include <stdbool.h>
#include <stddef.h>

/* Why a program is left to run natively, untraced. */
enum soft_why {
	SOFT_WHY_NONE = 0,
	SOFT_WHY_ARCH,		/* not an ELF of the traced machine */
	SOFT_WHY_SETUID,	/* its privileges would be lost */
	SOFT_WHY_UNREADABLE,	/* may be executed, not read */
	SOFT_WHY_DELETED,	/* no path leads to it (memfd, deleted) */
	SOFT_WHY_HELPER,	/* qemu or the helper could not be started */
	SOFT_WHY_N,
};

const char *soft_why_text(unsigned why, int machine);

/* What runs programs. */
struct soft_exec_on {
	int machine;		/* EM_X86_64 or EM_AARCH64 */
	const char *sysroot;	/* where the loader and the libraries of another
				 * machine's programs are; "": as on that one */
	bool always;		/* for static programs too: absolute paths that
				 * they open are below it, when there */
};

enum {
	SOFT_EXEC_FAIL = -1,	/* execve would fail: let it */
	SOFT_EXEC_TRACE = 0,
	SOFT_EXEC_NATIVE = 1,	/* see why */
};

struct soft_exec {
	enum soft_why why;
	char *path;	/* the ELF file */
	char **argv;	/* its arguments; NULL-ended, strings not owned but
			 * for owned[] */
	size_t argc;
	bool dynamic;	/* it loads libraries, or is a loader */
	char *owned[16];
	size_t n_owned;
};

/*
 * Follows interpreter lines. path as execve gets it; self_exe stands for
 * /proc/self/exe (NULL: none). Always pair with soft_exec_fini.
 */
int soft_exec_resolve(struct soft_exec *x, const struct soft_exec_on *on,
		      const char *path, char *const argv[],
		      const char *self_exe);
void soft_exec_fini(struct soft_exec *x);

/*
 * The command line of qemu for x, and its environment: variables that would act
 * on qemu itself go to the program through -E. Both NULL-ended, one free() each
 * for *argv and *envp, or -1 for want of memory.
 */
int soft_exec_command(const struct soft_exec *x, const struct soft_exec_on *on,
		      const char *qemu, const char *plugin, char *const env[], char ***argv,
		      char ***envp);

#endif
