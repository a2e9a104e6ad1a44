/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qemu's own libc calls that show what its plugin interface (qemu 7.2 and
 * 10.0) does not: leaving a block in the middle (siglongjmp), handling signals
 * (sigprocmask), dying of one (kill), forks and threads. And our file
 * descriptors are kept from guests that close every descriptor they find.
 *
 * Signals. qemu-user never interrupts generated code to deliver a signal: its
 * host handler queues the signal and makes the CPU leave at the next block
 * boundary; process_pending_signals() then blocks signals, which is the
 * sigprocmask() seen here, before it builds the guest's signal frame. At that
 * moment CPUArchState still has the interrupted PC; afterwards it has the
 * handler's. Synchronous faults are different: the host's SIGSEGV handler calls
 * sigprocmask() and jumps out of the block through cpu->jmp_env, and the exact
 * PC is known only at the jump, when qemu has restored the guest's state.
 *
 * Only the slots of qemu's global offset table are changed, so libraries and
 * the guest (whose libc is its own) see nothing.
 */
#include <errno.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/qemu/impl.h"

/* cpu->jmp_env lies in CPUState, which precedes CPUArchState in one object; the
 * translator's own jump buffer (a block grew too large) lies elsewhere. */
#define CPU_STATE_SPAN 0x8000

static struct {
	void (*longjmp)(sigjmp_buf env, int val);
	void (*longjmp_chk)(sigjmp_buf env, int val);
	int (*sigprocmask)(int how, const sigset_t *set, sigset_t *old);
	int (*kill)(pid_t pid, int sig);
	pid_t (*fork)(void);
	int (*pthread_create)(pthread_t *thread, const pthread_attr_t *attr,
			      void *(*fn)(void *), void *arg);
	int (*close)(int fd);
	int (*dup2)(int from, int to);
	int (*dup3)(int from, int to, int flags);
	long (*syscall)(long num, ...);
} libc;

/* qemu is about to jump to buf. If that is the buffer of its CPU loop, which
 * lies in the CPU's state, the thread leaves the block in the middle, at the
 * guest's PC. */
static void note_thrown(const void *buf)
{
	struct qp_thread *t = &qp_self;
	uintptr_t env = (uintptr_t)t->env, at = (uintptr_t)buf;

	if (!t->shm || !env || at > env || env - at > CPU_STATE_SPAN)
		return;
	if (t->state == QP_RUNNING)
		t->stop_ns = qp_now_ns();
	else if (t->state != QP_STOPPED)
		return;
	t->stop_ip = qp_pc(t->env);
	t->state = QP_THROWN;
	qp_attention(t);
}

static void hook_longjmp(sigjmp_buf env, int val)
{
	note_thrown(env);
	libc.longjmp(env, val);
}

static void hook_longjmp_chk(sigjmp_buf env, int val)
{
	note_thrown(env);
	libc.longjmp_chk(env, val);
}

/*
 * The first call of signal delivery, when PC is still the program's own; also
 * of a host fault handler, right before the jump out of the block. In the
 * second case PC may be stale; note_thrown() then corrects stop_ip.
 */
static int hook_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	struct qp_thread *t = &qp_self;

	if (t->shm && t->env && t->state == QP_RUNNING) {
		t->stop_ns = qp_now_ns();
		t->stop_ip = qp_pc(t->env);
		t->state = QP_STOPPED;
		qp_attention(t);
	} else if (t->shm && t->state == QP_THROWN) {
		t->stop_ip = qp_pc(t->env);
		t->state = QP_CAUGHT;
	}
	return libc.sigprocmask(how, set, old);
}

/*
 * Outside of system calls qemu signals itself to die (or stop) of a signal. Its
 * other threads run on until then, perhaps in mid-block. Their rings do not say
 * where they stopped, from which the consumer concludes that they were killed.
 */
static int hook_kill(pid_t pid, int sig)
{
	struct qp_thread *t = &qp_self;

	if (t->shm && t->env)
		qp_emit_stop(t, t->stop_ip);
	return libc.kill(pid, sig);
}

/* ---- processes ---- */

/*
 * In the child of a fork: one thread, the caller, with a log and rings of its
 * own. The tables of code.c and map.c are copies of the parent's, and so are
 * the ids they define (SHM_ESC_FORK says how many).
 */
static void start_child(uint32_t proc, uint32_t slot)
{
	pthread_mutex_init(&qp.lock, NULL);
	qp.threads = NULL;
	qp.parked = 0;
	if (!proc || !slot)
		qp_die("too many processes are traced at once");
	qp_log_attach(proc);
	/* env is the same memory in the child */
	uint64_t *env = qp_self.env;
	qp_thread_start(slot, QP_SYSCALL);
	qp_self.env = env;
}

static pid_t hook_fork(void)
{
	uint32_t proc, slot;
	enum qp_call call = qp_self.call;
	pid_t pid;

	if (!qp_self.shm)
		return libc.fork();
	/* qemu's atfork handlers start its RCU thread in the child, which must
	 * not be taken for the guest's clone */
	qp_self.call = QP_CALL_NONE;
	pthread_mutex_lock(&qp.lock);
	proc = qp_proc_claim();
	slot = qp_thread_claim();
	qp_escape(&qp_self.shm->ring, SHM_ESC_FORK, slot, qp_n_blocks());
	pid = libc.fork();
	if (!pid) {
		start_child(proc, slot);
		return 0;
	}
	if (pid < 0) {
		int err = errno;

		atomic_store(&shm_thread(qp.shm, slot)->state, SHM_FAILED);
		atomic_store(&qp.header->proc_taken[proc], 0);
		errno = err;
	}
	qp_self.call = call;
	pthread_mutex_unlock(&qp.lock);
	return pid;
}

/* ---- threads ---- */

struct thread_start {
	void *(*fn)(void *arg);
	void *arg;
	uint32_t slot;
};

/* On the new host thread, before qemu's start routine. Frees arg. */
static void *run_thread(void *arg)
{
	struct thread_start s = *(struct thread_start *)arg;

	free(arg);
	pthread_mutex_lock(&qp.lock);
	qp_thread_start(s.slot, QP_SYSCALL);
	pthread_mutex_unlock(&qp.lock);
	return s.fn(s.arg);
}

/*
 * A guest's clone: the slot is claimed by the creator, so that its ring can
 * name it. Threads that qemu starts for itself are left alone.
 */
static int hook_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			       void *(*fn)(void *), void *arg)
{
	struct qp_thread *t = &qp_self;
	struct thread_start *s;
	int err;

	if (!t->shm || t->state != QP_SYSCALL ||
	    (t->call != QP_CALL_CLONE && t->call != QP_CALL_CLONE3))
		return libc.pthread_create(thread, attr, fn, arg);
	s = malloc(sizeof(*s));
	if (!s)
		return EAGAIN;
	*s = (struct thread_start){ fn, arg, qp_thread_claim() };
	if (!s->slot) {
		free(s);
		return EAGAIN;
	}
	qp_escape(&t->shm->ring, SHM_ESC_THREAD, s->slot, 0);
	qp_attention(t);
	err = libc.pthread_create(thread, attr, run_thread, s);
	if (err) {
		atomic_store(&shm_thread(qp.shm, s->slot)->state, SHM_FAILED);
		free(s);
	}
	return err;
}

/*
 * ---- our file descriptors ----
 *
 * The guest has no right to these numbers: to close one is EBADF, and where it
 * puts a file of its own there, ours moves away first.
 */

static bool is_ours(int fd)
{
	return fd >= 0 && (fd == qp.fd || fd == qp.who_fd);
}

static int hook_close(int fd)
{
	if (is_ours(fd)) {
		errno = EBADF;
		return -1;
	}
	return libc.close(fd);
}

/* The guest wants our number for a file of its own: use another one, as high as
 * its limit allows. */
static void move_away(int fd)
{
	int to = -1;

	if (!is_ours(fd))
		return;
	for (int low = 100; low && to < 0; low /= 2)
		to = fcntl(fd, F_DUPFD_CLOEXEC, low);
	if (fd == qp.fd)
		qp.fd = to;
	else
		qp.who_fd = to;
}

static int hook_dup2(int from, int to)
{
	if (from != to)
		move_away(to);
	return libc.dup2(from, to);
}

static int hook_dup3(int from, int to, int flags)
{
	if (from != to)
		move_away(to);
	return libc.dup3(from, to, flags);
}

/* The first of our descriptors in [first, last]; -1: none. */
static int next_of_ours(unsigned int first, unsigned int last)
{
	const int fds[] = { qp.fd, qp.who_fd };
	int found = -1;

	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0 && (unsigned int)fds[i] >= first &&
		    (unsigned int)fds[i] <= last &&
		    (found < 0 || fds[i] < found))
			found = fds[i];
	return found;
}

/* close_range() in parts, which leave out our descriptors. */
static long close_around(unsigned int first, unsigned int last,
			 unsigned int how)
{
	long ret = 0;
	int fd;

	while (!ret && (fd = next_of_ours(first, last)) >= 0) {
		if (first < (unsigned int)fd)
			ret = libc.syscall(SYS_close_range, first, fd - 1, how);
		if (last == (unsigned int)fd)
			return ret;
		first = (unsigned int)fd + 1;
	}
	return ret ? ret : libc.syscall(SYS_close_range, first, last, how);
}

static long hook_syscall(long num, long a, long b, long c, long d, long e,
			 long f)
{
	if (num == SYS_close_range && (unsigned int)a <= (unsigned int)b)
		return close_around((unsigned int)a, (unsigned int)b,
				    (unsigned int)c);
	return libc.syscall(num, a, b, c, d, e, f);
}

/* ---- the global offset table ---- */

struct hook {
	const char *name;
	void *with;
	void *old;	/* where to keep what was there */
	bool required;
	bool done;
};

/* A slot of the table, filled at once or with the first call. */
#ifdef __aarch64__
#define IS_SLOT(type) ((type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_JUMP_SLOT)
#else
#define IS_SLOT(type) ((type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_JUMP_SLOT)
#endif

/* The table is read-only when qemu was linked with -z relro. */
static void patch_slot(void **slot, struct hook *h)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (mprotect((void *)((uintptr_t)slot & -size), size, PROT_READ | PROT_WRITE))
		return;
	memcpy(h->old, slot, sizeof(*slot));
	*slot = h->with;
	h->done = true;
}

static void patch_table(const struct link_map *map, const Elf64_Rela *rela,
			size_t n, const Elf64_Sym *sym, const char *str,
			struct hook *hooks, size_t n_hooks)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t type = ELF64_R_TYPE(rela[i].r_info);
		const char *name = str + sym[ELF64_R_SYM(rela[i].r_info)].st_name;

		if (!IS_SLOT(type))
			continue;
		for (size_t k = 0; k < n_hooks; k++)
			if (!strcmp(name, hooks[k].name))
				patch_slot((void **)(map->l_addr +
						     rela[i].r_offset),
					   &hooks[k]);
	}
}

/* qemu itself is the first object of the dynamic linker's list (System V
 * ABI). */
static void patch_program(struct hook *hooks, size_t n_hooks)
{
	const struct link_map *map = _r_debug.r_map;
	const Elf64_Rela *rela = NULL, *plt = NULL;
	const Elf64_Sym *sym = NULL;
	const char *str = NULL;
	size_t rela_len = 0, plt_len = 0;

	for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_RELA: rela = (const void *)d->d_un.d_ptr; break;
		case DT_RELASZ: rela_len = d->d_un.d_val; break;
		case DT_JMPREL: plt = (const void *)d->d_un.d_ptr; break;
		case DT_PLTRELSZ: plt_len = d->d_un.d_val; break;
		case DT_SYMTAB: sym = (const void *)d->d_un.d_ptr; break;
		case DT_STRTAB: str = (const void *)d->d_un.d_ptr; break;
		}
	}
	if (!sym || !str)
		return;
	patch_table(map, rela, rela_len / sizeof(*rela), sym, str, hooks,
		    n_hooks);
	patch_table(map, plt, plt_len / sizeof(*plt), sym, str, hooks, n_hooks);
}

/* The fortified libc calls __longjmp_chk instead of siglongjmp: one of them
 * must be there. close and dup are missed only by guests that close
 * everything. */
int qp_hooks_install(void)
{
	struct hook hooks[] = {
		{ "siglongjmp", hook_longjmp, &libc.longjmp, false, false },
		{ "__longjmp_chk", hook_longjmp_chk, &libc.longjmp_chk, false,
		  false },
		{ "sigprocmask", hook_sigprocmask, &libc.sigprocmask, true,
		  false },
		{ "kill", hook_kill, &libc.kill, true, false },
		{ "fork", hook_fork, &libc.fork, true, false },
		{ "pthread_create", hook_pthread_create, &libc.pthread_create,
		  true, false },
		{ "close", hook_close, &libc.close, false, false },
		{ "dup2", hook_dup2, &libc.dup2, false, false },
		{ "dup3", hook_dup3, &libc.dup3, false, false },
		{ "syscall", hook_syscall, &libc.syscall, false, false },
	};
	size_t n = sizeof(hooks) / sizeof(hooks[0]);

	patch_program(hooks, n);
	if (!hooks[0].done && !hooks[1].done)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (hooks[i].required && !hooks[i].done)
			return -1;
	return 0;
}
