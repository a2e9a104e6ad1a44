/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The helper object inside qemu: callbacks and the state of a guest thread.
 *
 * The hot path is one callback for each block, ten machine instructions that
 * append the block's id. All else happens when a thread leaves generated code:
 * what qemu does then is seen through its syscall callbacks and a few libc
 * calls (hooks.c), which set the ring's limit to 0, so that the next block's
 * callback takes the slow path, qp_block_slow(). Only there is it known both
 * where the thread stopped and where it resumes, exactly, signals and faults in
 * mid-block included; then SHM_ESC_LEFT and SHM_ESC_BACK are emitted.
 *
 * The states of a thread are enum qp_state. QP_RUNNING to QP_STOPPED or
 * QP_THROWN by a libc call of qemu, to QP_SYSCALL by its callback; then, at the
 * latest in the next block's callback, to QP_REPORTED and back to QP_RUNNING.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "capture/qemu/impl.h"
#include "common/predict_exec.h"
#include "common/x86_insn.h"

#define SHM_FAR_BYTES (UINT64_C(64) << 30)
#define PARK_MS 3000	/* on a loaded machine a thread may wait that long for a
			 * processor before it comes to its next block */

/* ---- parking: before the process is replaced or ends ---- */

/* The thread is outside of user code, and its ring says where. */
static bool is_reported(const struct qp_thread *t)
{
	enum qp_state state = __atomic_load_n(&t->state, __ATOMIC_SEQ_CST);

	return state == QP_NEW || state == QP_REPORTED || state == QP_SYSCALL;
}

/*
 * Stops the other threads of the process between blocks. One that sleeps in a
 * system call is parked already. Gives up after PARK_MS: a thread may be
 * blocked in qemu itself, and its last block is then reported as unknown.
 */
static void qp_park_others(void)
{
	struct timespec ms = { .tv_nsec = 1000000 };
	bool busy = true;

	__atomic_store_n(&qp.parked, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; busy && i < PARK_MS; i++) {
		busy = false;
		pthread_mutex_lock(&qp.lock);
		for (struct qp_thread *t = qp.threads; t; t = t->next) {
			if (t == &qp_self || is_reported(t))
				continue;
			busy = true;
			__atomic_store_n(&t->shm->ring.limit, 0,
					 __ATOMIC_SEQ_CST);
		}
		pthread_mutex_unlock(&qp.lock);
		if (busy)
			nanosleep(&ms, NULL);
	}
}

/* The exec failed: they run on. */
static void qp_unpark(void)
{
	__atomic_store_n(&qp.parked, 0, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &qp.parked, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/*
 * ---- execve ----
 *
 * qemu would hand the new program to the kernel, which runs it natively, so the
 * callback that precedes the call runs qemu on it instead, with this object. A
 * program that cannot be followed, and a call that would fail, are left to
 * qemu; the former is reported.
 */

/* The arguments of execve; the arrays are ours, the strings the guest's. */
struct request {
	char path[PATH_MAX];
	char **argv, **envp;
};

/* Arm's tagged addresses: the kernel ignores the top byte of a pointer once the
 * program asked for it (prctl PR_SET_TAGGED_ADDR_CTRL), so must we. */
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

/* Any byte of the guest may be unmapped; process_vm_readv() says so without a
 * signal. Where it is forbidden (seccomp), assume the best. */
static bool readable(uintptr_t addr)
{
	char byte;
	struct iovec local = { &byte, 1 }, remote = { (void *)addr, 1 };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 ||
	       errno != EFAULT;
}

/* s is terminated before the first unreadable page. */
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

/* Copies a guest's argv or envp; the kernel takes NULL for an empty one. False:
 * an address is bad, or out of memory. *out is the caller's to free in any
 * case. */
static bool read_vector(const uint64_t *v, char ***out)
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
	    !read_vector((const uint64_t *)untag(args[at + 1]), &r->argv) ||
	    !read_vector((const uint64_t *)untag(args[at + 2]), &r->envp))
		return false;
	if (at)
		return path_at((int)args[0], path, args[4] & AT_EMPTY_PATH,
			       r->path);
	return snprintf(r->path, PATH_MAX, "%s", path) < PATH_MAX;
}

/* The new image's name, which its helper object reads from the same slot. */
static void set_next_comm(const char *path)
{
	const char *slash = strrchr(path, '/');

	path = slash ? slash + 1 : path;
	memset(qp_self.shm->comm, 0, sizeof(qp_self.shm->comm));
	memcpy(qp_self.shm->comm, path,
	       strnlen(path, sizeof(qp_self.shm->comm) - 1));
}

/* The next image will not be traced; a long path loses its front. */
static void emit_native(const char *path, uint64_t why)
{
	char *next = qp_self.shm->next;
	size_t n = strlen(path), skip = n < SHM_NAME_MAX ? 0 :
						 n - SHM_NAME_MAX + 1;

	memset(next, 0, SHM_NAME_MAX);
	memcpy(next, path + skip, n - skip);
	qp_escape(&qp_self.shm->ring, SHM_ESC_NATIVE, why, 0);
}

/*
 * Replaces this process by qemu on the program x. The other threads are parked
 * first: exec ends them wherever they are, and their rings must say where. The
 * new image inherits the descriptor, hence FD_CLOEXEC off. Returns if it
 * failed.
 */
static void start_qemu(const struct soft_exec *x,
		       const struct soft_exec_on *on, char *const *env)
{
	uint64_t slot = ((uintptr_t)qp_self.shm - (uintptr_t)qp.shm -
			 SHM_THREADS_AT) / SHM_THREAD_BYTES;
	char plugin[PATH_MAX + 128];
	char **argv, **envp;

	if (qp.fd < 0)	/* the program needed its number, and had no other */
		return;
	snprintf(plugin, sizeof(plugin), "%s,fd=%d,who=%d,slot=%llu,argc=%zu",
		 qp.object, qp.fd, qp.who_fd, (unsigned long long)slot, x->argc);
	if (soft_exec_command(x, on, qp.qemu, plugin, env, &argv, &envp) < 0)
		return;
	qp_park_others();
	fcntl(qp.fd, F_SETFD, 0);
	fcntl(qp.who_fd, F_SETFD, 0);
	execve(qp.qemu, argv, envp);
	fcntl(qp.fd, F_SETFD, FD_CLOEXEC);
	fcntl(qp.who_fd, F_SETFD, FD_CLOEXEC);
	qp_unpark();
	free(argv);
	free(envp);
}

/* The program in qemu's own command line: qp.argc words from its end. Kept for ever. */
static const char *program_argument(void)
{
	static char *words;
	static size_t cap;
	FILE *f = fopen("/proc/self/cmdline", "re");
	uint32_t n = 0;
	ssize_t at;

	if (!f)
		return NULL;
	at = getdelim(&words, &cap, EOF, f);
	fclose(f);
	for (; at > 0; at--)
		if (!words[at - 1] && n++ == qp.argc)
			break;
	return n && words ? words + at : NULL;
}

/* /proc/self/exe as the guest sees it; *owned is the caller's to free. */
static const char *own_program(char **owned)
{
	const char *path = qemu_plugin_path_to_binary ?
				   qemu_plugin_path_to_binary() : program_argument();

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

/* execve, or execveat if at, is about to be made. Returns if qemu shall make
 * it. */
static void qp_exec(bool at, const uint64_t *args)
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
		emit_native("", SOFT_WHY_DELETED);
		return;
	}
	ret = soft_exec_resolve(&x, &on, r->path, r->argv, own_program(&self));
	if (ret == SOFT_EXEC_TRACE) {
		set_next_comm(r->path);
		start_qemu(&x, &on, r->envp);
	} else if (ret == SOFT_EXEC_NATIVE) {
		why = x.why;
	}
	/* not replaced: either not ours to trace, or starting qemu failed */
	if (ret != SOFT_EXEC_FAIL)
		emit_native(r->path, why);
	soft_exec_fini(&x);
	free(self);
	free_request(r);
}


/* ---- the state of guest threads ---- */

#define HIDDEN __attribute__((visibility("hidden")))

/*
 * qemu reads this after it has loaded the object, before the first call, and wants it
 * between two versions: 0 and 1 in 7.2, 2 and 4 in 10.0. What a qemu has says which it
 * is: scoreboards came with version 2, reading memory with 4.
 */
__attribute__((visibility("default"))) int qemu_plugin_version = 1;

__attribute__((constructor)) static void find_version(void)
{
	if (dlsym(RTLD_DEFAULT, "qemu_plugin_read_memory_vaddr"))
		qemu_plugin_version = 4;
	else if (dlsym(RTLD_DEFAULT, "qemu_plugin_scoreboard_new"))
		qemu_plugin_version = 2;
}

HIDDEN struct qp_proc qp = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.fd = -1,
	.who_fd = -1,
	.address = UINT64_MAX,
};

static struct shm_ring no_ring;	/* cur == limit: always the slow path */

/* initial-exec: one load of the offset and one from the thread's pointer, no call;
 * the assembly below knows this model. An object loaded by dlopen has room for a few
 * such. */
#define INITIAL_EXEC __attribute__((tls_model("initial-exec"), visibility("hidden")))
INITIAL_EXEC __thread struct qp_thread qp_self;
INITIAL_EXEC __thread struct shm_ring *qp_ring = &no_ring;
INITIAL_EXEC __thread struct shm_ring *qp_truth = &no_ring;

HIDDEN void qp_block_slow(unsigned int cpu, uintptr_t id, uint64_t *env);
HIDDEN void qp_block_rep(unsigned int cpu, uintptr_t id, uint64_t *env);
HIDDEN void qp_insn_slow(unsigned int cpu, uint64_t ip, uint64_t *env);
HIDDEN void qp_insn_rep(unsigned int cpu, uint64_t ip, uint64_t *env);

/*
 * append(ring, value): cur at 0 and limit at 8 of struct shm_ring. The value is
 * the callback's second argument. Stored first, then cur moves, in an order that
 * others see (shm.h): x86 keeps it, Arm is told to by stlr. In assembly because
 * qemu's generated code keeps CPUArchState in a register (%rbp, x19: its
 * TCG_AREG0), which C cannot name, and the slow path needs it as third
 * argument. Nothing is changed that a C function would have to keep.
 */
#ifdef __aarch64__
#define TRAMPOLINE(name, ring, store, size, slow)	\
	".globl " name "\n.hidden " name "\n"		\
	".type " name ", %function\n.p2align 4\n"	\
	name ":\n"					\
	"hint #34\n" /* bti c */			\
	"mrs x2, tpidr_el0\n"				\
	"adrp x3, :gottprel:" ring "\n"			\
	"ldr x3, [x3, #:gottprel_lo12:" ring "]\n"	\
	"ldr x2, [x2, x3]\n"				\
	"ldp x3, x4, [x2]\n"				\
	"cmp x3, x4\n"					\
	"b.hs 1f\n"					\
	store ", [x3], #" size "\n"			\
	"stlr x3, [x2]\n"				\
	"ret\n"						\
	"1: mov x2, x19\n"				\
	"b " slow "\n"

#define JUMP(name, target)				\
	".globl " name "\n.hidden " name "\n"		\
	".type " name ", %function\n" name ":\n"	\
	"hint #34\nmov x2, x19\nb " target "\n"

#define STORE32 "str w1"
#define STORE64 "str x1"
#else
#define TRAMPOLINE(name, ring, store, size, slow)	\
	".globl " name "\n.hidden " name "\n"		\
	".type " name ", @function\n.p2align 4\n"	\
	name ":\n"					\
	"movq " ring "@gottpoff(%rip), %rax\n"		\
	"movq %fs:(%rax), %rax\n"			\
	"movq (%rax), %rcx\n"				\
	"cmpq 8(%rax), %rcx\n"				\
	"jae 1f\n"					\
	store ", (%rcx)\n"				\
	"addq $" size ", %rcx\n"			\
	"movq %rcx, (%rax)\n"				\
	"ret\n"						\
	"1: movq %rbp, %rdx\n"				\
	"jmp " slow "\n"

#define JUMP(name, target)				\
	".globl " name "\n.hidden " name "\n"		\
	".type " name ", @function\n" name ":\n"	\
	"movq %rbp, %rdx\njmp " target "\n"

#define STORE32 "movl %esi"
#define STORE64 "movq %rsi"
#endif

__asm__(".text\n"
	TRAMPOLINE("qp_exec_block", "qp_ring", STORE32, "4", "qp_block_slow")
	TRAMPOLINE("qp_exec_insn", "qp_truth", STORE64, "8", "qp_insn_slow")
	JUMP("qp_exec_rep", "qp_block_rep")
	JUMP("qp_exec_rep_insn", "qp_insn_rep"));

_Static_assert(offsetof(struct shm_ring, cur) == 0 &&
	       offsetof(struct shm_ring, limit) == 8, "the assembly knows these");

HIDDEN void qp_attention(struct qp_thread *t)
{
	t->attention = true;
	__atomic_store_n(&t->shm->ring.limit, 0, __ATOMIC_SEQ_CST);
}

/* The address logged last; the ring may have wrapped since. */
static uint64_t truth_last(const struct shm_ring *r)
{
	uint64_t at = r->cur == r->base ? r->base + SHM_RING_BYTES : r->cur;

	if (r->cur == r->base && !r->lap)
		return SHM_TRUTH_UNDO;
	return *(const uint64_t *)(at - 8);
}

/*
 * The truth's callback precedes its instruction. So if the one logged last is
 * where the thread stopped, it did not complete, and is taken back: after a
 * jump out of a block always, else only a REP instruction can stop before its
 * end.
 */
static void undo_truth(struct qp_thread *t, uint64_t ip, bool thrown)
{
	struct shm_ring *r = &t->shm->truth;

	if (qp.truth && truth_last(r) == ip &&
	    (thrown || qp_machine_repeats(qp.machine, ip)))
		qp_put64(r, SHM_TRUTH_UNDO);
}

/*
 * qemu left a block in the middle and no signal followed: the thread resumes
 * where it left (code page written, exclusive step), or after that instruction
 * (PAUSE), or elsewhere after the emulation of a vsyscall. In the first two
 * cases what ran is known from where it resumes.
 */
static uint64_t thrown_ip(const struct qp_thread *t, uint64_t next_ip)
{
	uint32_t id = qp_ring_last(&t->shm->ring);

	return qp_block_reaches(id, next_ip) ? next_ip : t->stop_ip;
}

HIDDEN void qp_emit_stop(struct qp_thread *t, uint64_t next_ip)
{
	bool thrown = t->state == QP_THROWN || t->state == QP_CAUGHT;
	uint64_t ip = t->stop_ip;

	if (!thrown && t->state != QP_STOPPED)
		return;
	if (t->state == QP_THROWN)
		ip = thrown_ip(t, next_ip);
	undo_truth(t, ip, thrown);
	qp_escape(&t->shm->ring, thrown ? SHM_ESC_LEFT_CUT : SHM_ESC_LEFT, ip,
		  0);
	t->state = QP_REPORTED;
	qp_attention(t);
}

/*
 * Before the first instruction: is qemu's CPUArchState as machine.c says? PC
 * must be the block's address, SP aligned (both psABIs), and argc on the
 * guest's stack must be the number that auxcap passed. Any other qemu is
 * refused, not misread.
 */
static void check_env(const uint64_t *env, uint64_t start)
{
	struct iovec local, remote;
	uint64_t argc = 0, sp = env[qp.machine->sp];

	if (qp_pc(env) != start || (sp & 15))
		qp_die("this qemu keeps its registers elsewhere (PC %#llx, "
		       "SP %#llx at %#llx)", (long long)qp_pc(env),
		       (long long)sp, (long long)start);
	local = (struct iovec){ &argc, sizeof(argc) };
	remote = (struct iovec){ (void *)sp, sizeof(argc) };
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) !=
	    sizeof(argc)) {
		if (errno == EFAULT)
			qp_die("guest memory is not directly addressable");
		argc = *(const uint64_t *)sp;
	}
	if (argc != qp.argc)
		qp_die("the guest's stack is not where qemu says (argc %llu, "
		       "not %u)", (long long)argc, qp.argc);
}

/* The thread is about to run the block at next_ip after something happened. */
static void emit_back(struct qp_thread *t, uint64_t next_ip)
{
	if (t->state == QP_NEW)
		check_env(t->env, next_ip);
	qp_emit_stop(t, next_ip);
	if (t->state != QP_RUNNING)
		qp_escape(&t->shm->ring, SHM_ESC_BACK, next_ip,
			  qp_now_ns() - t->stop_ns);
	t->state = QP_RUNNING;
	t->attention = false;
}

/* Another thread ends or replaces the process: stop here, between blocks. */
static void park(struct qp_thread *t, uint64_t next_ip)
{
	if (t->state == QP_RUNNING) {
		t->stop_ip = next_ip;
		t->stop_ns = qp_now_ns();
		t->state = QP_STOPPED;
	}
	qp_emit_stop(t, next_ip);
	while (__atomic_load_n(&qp.parked, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &qp.parked, FUTEX_WAIT, 1, NULL, NULL, 0);
}

/*
 * Before block id runs: the ring's limit was reached, or attention is wanted.
 *
 * Parking races with a thread that starts to run: qp_park_others() sets parked,
 * then reads the states; here the state is set to QP_RUNNING, then parked is
 * read. With both in sequential order at least one side sees the other: the
 * parker finds the thread running and clears its limit, or the thread finds
 * parked set. qp_put32() may move a limit that was cleared, hence the last
 * look.
 */
HIDDEN void qp_block_slow(unsigned int cpu, uintptr_t id, uint64_t *env)
{
	struct qp_thread *t = &qp_self;

	(void)cpu;
	if (!t->shm)
		return;
	t->env = env;
	do {
		if (__atomic_load_n(&qp.parked, __ATOMIC_SEQ_CST))
			park(t, qp_block_start((uint32_t)id));
		if (t->attention)
			emit_back(t, qp_block_start((uint32_t)id));
		atomic_thread_fence(memory_order_seq_cst);
	} while (__atomic_load_n(&qp.parked, __ATOMIC_SEQ_CST));
	qp_put32(&t->shm->ring, (uint32_t)id);
	if (__atomic_load_n(&qp.parked, __ATOMIC_SEQ_CST))
		qp_attention(t);
}

/*
 * qemu runs each iteration of a REP instruction as a block of its own.
 * Processors trace the instruction once, so only the first iteration is logged:
 * one that does not follow a block ending with the same instruction.
 */
HIDDEN void qp_block_rep(unsigned int cpu, uintptr_t id, uint64_t *env)
{
	struct qp_thread *t = &qp_self;

	if (!t->shm || t->attention || __atomic_load_n(&qp.parked, __ATOMIC_RELAXED) ||
	    !qp_repeats(qp_ring_last(&t->shm->ring), (uint32_t)id))
		qp_block_slow(cpu, id, env);
}

HIDDEN void qp_insn_slow(unsigned int cpu, uint64_t ip, uint64_t *env)
{
	(void)cpu;
	(void)env;
	if (qp_self.shm)
		qp_put64(&qp_self.shm->truth, ip);
}

HIDDEN void qp_insn_rep(unsigned int cpu, uint64_t ip, uint64_t *env)
{
	if (qp_self.shm && truth_last(&qp_self.shm->truth) != ip)
		qp_insn_slow(cpu, ip, env);
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	qp_translate(tb);
}

/* exit(2) of one thread; the host thread runs on for a moment, unseen. */
static void end_thread(struct qp_thread *t)
{
	pthread_mutex_lock(&qp.lock);
	for (struct qp_thread **p = &qp.threads; *p; p = &(*p)->next) {
		if (*p == t) {
			*p = t->next;
			break;
		}
	}
	pthread_mutex_unlock(&qp.lock);
	qp_escape(&t->shm->ring, SHM_ESC_EXIT, 0, 0);
	qp_ring = qp_truth = &no_ring;
	t->shm = NULL;
}

/*
 * exit_group(2), made here: all threads stop between blocks, then the process
 * ends. qemu's own way out would let the other threads run on until then, and
 * they would die at an unknown place.
 */
static void end_process(int status)
{
	qp_park_others();
	syscall(SYS_exit_group, status);
}

/*
 * A call of the vsyscall page faults: nothing of it runs, and the kernel does
 * its work and returns to the caller. qemu too, but makes a system call for the
 * work, which is not the program's: the thread left its code where the
 * fault was.
 */
static bool in_vsyscall(const struct qp_thread *t)
{
	return t->state == QP_THROWN && x86_is_vsyscall(t->stop_ip);
}

/*
 * Before qemu emulates a system call. munmap takes effect here, not at its end:
 * another thread may map the same range again before this one comes back.
 */
static void syscall_start(qemu_plugin_id_t id, unsigned int cpu, int64_t num,
			  uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
			  uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	struct qp_thread *t = &qp_self;

	(void)id, (void)cpu, (void)a7, (void)a8;
	if (!t->shm || in_vsyscall(t))
		return;
	t->stop_ns = qp_now_ns();
	t->state = QP_SYSCALL;
	t->sysno = num;
	t->call = qp_machine_call(qp.machine, num);
	t->args[0] = a1, t->args[1] = a2, t->args[2] = a3;
	t->args[3] = a4, t->args[4] = a5, t->args[5] = a6;
	qp_escape(&t->shm->ring, SHM_ESC_SYSCALL, (uint64_t)num, 0);
	if (t->call == QP_CALL_EXIT) {
		end_thread(t);
		return;
	}
	if (t->call == QP_CALL_EXIT_GROUP)
		end_process((int)a1);
	else if (t->call == QP_CALL_MUNMAP)
		qp_unmapped(a1, a2);
	else if (t->call == QP_CALL_EXECVE || t->call == QP_CALL_EXECVEAT)
		qp_exec(t->call == QP_CALL_EXECVEAT, t->args);
	qp_attention(t);
}

static void report_comm(struct qp_thread *t)
{
	uint64_t name[2] = { 0 };

	if (!prctl(PR_GET_NAME, name))
		qp_escape(&t->shm->ring, SHM_ESC_COMM, name[0], name[1]);
}

/* After a prctl that succeeded. */
static void note_prctl(struct qp_thread *t)
{
	if (t->args[0] == PR_SET_NAME)
		report_comm(t);
	else if (t->args[0] == PR_SET_TAGGED_ADDR_CTRL)
		qp.address = t->args[1] & PR_TAGGED_ADDR_ENABLE ?
				     UINT64_MAX >> 8 : UINT64_MAX;
}

/* After the call, in the same thread. Mappings that replaced code are known
 * only now; failed calls changed nothing (results from -4095 to -1 are
 * errors). */
static void syscall_end(qemu_plugin_id_t id, unsigned int cpu, int64_t num,
			int64_t ret)
{
	struct qp_thread *t = &qp_self;
	bool failed = ret < 0 && ret > -4096;

	(void)id, (void)cpu;
	if (!t->shm || failed || num != t->sysno)
		return;
	if (t->call == QP_CALL_MMAP) {
		qp_unmapped((uint64_t)ret, t->args[1]);
		if (t->args[2] & PROT_EXEC && !(t->args[3] & MAP_ANONYMOUS))
			qp_mapped((uint64_t)ret);
	} else if (t->call == QP_CALL_MREMAP) {
		qp_unmapped(t->args[0], t->args[1]);
		qp_unmapped((uint64_t)ret, t->args[2]);
	} else if (t->call == QP_CALL_PRCTL) {
		note_prctl(t);
	}
	qp_attention(t);
}

static const char *option(int argc, char **argv, const char *key)
{
	size_t n = strlen(key);

	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], key, n) && argv[i][n] == '=')
			return argv[i] + n + 1;
	return NULL;
}

static int option_int(int argc, char **argv, const char *key)
{
	const char *s = option(argc, argv, key);

	return s ? (int)strtol(s, NULL, 10) : -1;
}

static uint32_t option_u32(int argc, char **argv, const char *key)
{
	const char *s = option(argc, argv, key);

	return s ? (uint32_t)strtoul(s, NULL, 10) : 0;
}

/*
 * Maps the memfd, 5 GiB of addresses, far below this object. Left to the kernel
 * it would lie right below, and qemu's code buffer, which is mapped later,
 * below it: more than 2 GiB from our trampolines, out of reach of a direct
 * call.
 */
static int map_shm(int fd)
{
	uintptr_t far = ((uintptr_t)&qp & -(uintptr_t)QP_PAGE) - SHM_FAR_BYTES;
	void *p = mmap((void *)far, SHM_BYTES, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return -1;
	qp.shm = p;
	qp.header = p;
	qp.fd = fd;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return qp.header->magic == SHM_MAGIC &&
	       qp.header->version == SHM_VERSION ? 0 : -1;
}

/*
 * A new image claims slots of its own. old_slot is the exec'ing thread's, or
 * the launcher's: its producer is gone, so its last entry, SHM_ESC_EXEC, is
 * written here and names the slot where the stream continues.
 */
static int start_image(uint32_t old_slot)
{
	uint32_t proc = qp_proc_claim(), slot = qp_thread_claim();
	struct shm_thread *old = shm_thread(qp.shm, old_slot);

	if (!proc || !slot)
		return -1;
	memcpy(shm_thread(qp.shm, slot)->comm, old->comm, sizeof(old->comm));
	qp_log_attach(proc);
	qp_thread_start(slot, QP_NEW);
	qp_ring_attach(&old->ring, shm_ring_data(old));
	qp_escape(&old->ring, SHM_ESC_EXEC, slot, 0);
	prctl(PR_SET_NAME, shm_thread(qp.shm, slot)->comm);
	return 0;
}

/* The paths of qemu and of this object, for the next exec. */
static void find_self(void)
{
	Dl_info info;
	ssize_t n = readlink("/proc/self/exe", qp.qemu, sizeof(qp.qemu) - 1);

	qp.qemu[n > 0 ? n : 0] = 0;
	if (dladdr(&qp, &info) && info.dli_fname)
		snprintf(qp.object, sizeof(qp.object), "%s", info.dli_fname);
}

/* qemu's entry point, before the guest's first instruction. */
__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info,
			int argc, char **argv)
{
	qp.who_fd = option_int(argc, argv, "who");
	fcntl(qp.who_fd, F_SETFD, FD_CLOEXEC);
	if (map_shm(option_int(argc, argv, "fd")) < 0)
		qp_die("auxkit-qemu: this object is for use by auxcap alone\n");
	qp.api = info->version.cur;
	qp.machine = qp_machine_find(info->target_name);
	if (!qp.machine || info->system_emulation ||
	    qp.machine->elf != qp.header->machine)
		qp_die("qemu is built for %s", info->target_name);
	qp.id = id;
	qp.truth = qp.header->truth;
	qp.always = qp.header->always;
	memcpy(qp.sysroot, qp.header->sysroot, SHM_PATH_MAX - 1);
	qp.argc = option_u32(argc, argv, "argc");
	find_self();
	qp_code_init();
	if (qp_hooks_install() < 0)
		qp_die("qemu does not call the libc functions it should");
	if (start_image(option_u32(argc, argv, "slot")) < 0)
		qp_die("too many processes are traced at once");
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	qemu_plugin_register_vcpu_syscall_cb(id, syscall_start);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, syscall_end);
	return 0;
}
