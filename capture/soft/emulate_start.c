/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulate back end starts a program: finds qemu, our helper object and the
 * program, makes the shared memory, and runs the former on the latter.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/predict_exec.h"
#include "capture/soft/emulate.h"

int emu_create_shm(struct emu *e)
{
	struct shm_header *h;

	e->fd = memfd_create("auxkit", MFD_CLOEXEC);
	if (e->fd < 0 || ftruncate(e->fd, (off_t)SHM_BYTES))
		return emu_fail(e, AUX_E_IO, "shared memory: %s",
				strerror(errno));
	e->shm = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_NORESERVE, e->fd, 0);
	if (e->shm == MAP_FAILED) {
		e->shm = NULL;
		return emu_fail(e, AUX_E_IO, "shared memory: %s",
				strerror(errno));
	}
	h = e->header = e->shm;
	h->magic = SHM_MAGIC;
	h->version = SHM_VERSION;
	h->truth = e->truth;
	h->machine = (uint32_t)e->machine;
	h->consumer = (uint32_t)getpid();
	h->thread_taken[0] = h->proc_taken[0] = 1;
	return 0;
}

/* Looks name up as a shell does; 0 with out filled. */
static int find_program(const char *name, char *out, size_t size)
{
	const char *path = getenv("PATH");
	size_t n;

	if (strchr(name, '/'))
		return (size_t)snprintf(out, size, "%s", name) < size &&
		       !access(out, F_OK) ? 0 : -1;
	for (path = path ? path : "/usr/bin:/bin";; path += n + 1) {
		n = strcspn(path, ":");
		if ((size_t)snprintf(out, size, "%.*s%s%s", (int)n, path,
				     n ? "/" : "", name) < size &&
		    !access(out, X_OK))
			return 0;
		if (!path[n])
			return -1;
	}
}

/* A descriptor number that programs rarely use, and shells do not pass on. */
static int high_fd(int fd)
{
	struct rlimit lim;
	int at = 200;

	if (!getrlimit(RLIMIT_NOFILE, &lim) && lim.rlim_cur != RLIM_INFINITY &&
	    lim.rlim_cur > 300 && lim.rlim_cur < 65536)
		at = (int)lim.rlim_cur - 20;
	return fcntl(fd, F_DUPFD, at);
}

struct command {
	char qemu[PATH_MAX], program[PATH_MAX], helper[PATH_MAX];
	struct soft_exec_on on;
	struct soft_exec x;
};

const char *emu_qemu_name(const struct emu *e)
{
	return e->machine == EM_AARCH64 ? "qemu-aarch64" : "qemu-x86_64";
}

/*
 * Where the loader and the libraries of another machine's programs are: as
 * qemu's user says, or where cross compilers of Debian keep them when this
 * machine has none at their own place.
 */
static void find_sysroot(const struct emu *e)
{
	static const char usual[] = "/usr/aarch64-linux-gnu";
	const char *set = getenv("QEMU_LD_PREFIX");

	if (e->machine != EM_AARCH64)
		return;
	e->header->always = set != NULL;
	if (!set && access("/lib/ld-linux-aarch64.so.1", F_OK))
		set = usual;
	if (set && strlen(set) < SHM_PATH_MAX && !access(set, F_OK))
		memcpy(e->header->sysroot, set, strlen(set) + 1);
}

static int find_parts(struct emu *e, const struct soft_program *p,
		      struct command *c)
{
	int ret;

	if (find_program(emu_qemu_name(e), c->qemu, sizeof(c->qemu)) < 0)
		return emu_fail(e, AUX_E_TARGET, "%s is not installed: install "
				"it (Debian: apt install qemu-user)%s",
				emu_qemu_name(e), e->machine == EM_AARCH64 ? "" :
				", or use -e soft_pt/step/");
	find_sysroot(e);
	c->on = (struct soft_exec_on){ e->machine, e->header->sysroot,
				       e->header->always };
	snprintf(c->helper, sizeof(c->helper), "%s/auxkit-qemu.so", p->self_dir);
	if (access(c->helper, R_OK))
		return emu_fail(e, AUX_E_TARGET, "%s: %s", c->helper,
				strerror(errno));
	if (find_program(p->argv[0], c->program, sizeof(c->program)) < 0)
		return emu_fail(e, AUX_E_TARGET, "%s: no such program",
				p->argv[0]);
	ret = soft_exec_resolve(&c->x, &c->on, c->program, p->argv, NULL);
	if (ret == SOFT_EXEC_NATIVE)
		return emu_fail(e, AUX_E_TARGET, "%s: cannot be traced: %s",
				p->argv[0], soft_why_text(c->x.why, e->machine));
	if (ret < 0)
		return emu_fail(e, AUX_E_TARGET, "%s: cannot be executed%s",
				p->argv[0], e->machine == EM_AARCH64 ?
				" (if its loader is missing, QEMU_LD_PREFIX "
				"says below which directory it is)" : "");
	return 0;
}

static void exec_qemu(const struct emu *e, const struct command *c)
{
	char plugin[PATH_MAX + 128];
	char **argv, **envp;
	int fd = high_fd(e->fd);

	snprintf(plugin, sizeof(plugin), "%s,fd=%d,slot=0,argc=%zu", c->helper,
		 fd, c->x.argc);
	if (fd >= 0 && !soft_exec_command(&c->x, &c->on, c->qemu, plugin,
					  environ, &argv, &envp))
		execve(c->qemu, argv, envp);
	_exit(127);
}

int emu_start_program(struct emu *e, const struct soft_program *p)
{
	struct command *c = calloc(1, sizeof(*c));
	const char *slash;
	pid_t pid;
	int err;

	if (!c)
		return emu_fail(e, AUX_E_NOMEM, "out of memory");
	err = find_parts(e, p, c);
	if (err < 0)
		goto out;
	slash = strrchr(c->program, '/');
	memcpy(shm_thread(e->shm, 0)->comm, slash ? slash + 1 : c->program,
	       strnlen(slash ? slash + 1 : c->program, 15));
	if (!emu_thread_new(e, 0)) {
		err = e->err;
		goto out;
	}
	pid = fork();
	if (!pid)
		exec_qemu(e, c);
	if (pid < 0)
		err = emu_fail(e, AUX_E_TARGET, "fork: %s", strerror(errno));
	else
		e->child = (uint32_t)pid;
out:
	soft_exec_fini(&c->x);
	free(c);
	return err;
}
