/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -pthread */
/* host: x86_64 */
/*
 * What programs do that a recorder would rather they did not: each case in a
 * process of its own, bounded, and the same whatever watches it.
 *
 *	hostile CASE [DIRECTORY]	prints "done CASE"; DIRECTORY is for files
 *	hostile list			prints the cases
 *	hostile list-cpu		prints those that only a real CPU runs right
 *
 * Where an emulator or the kernel refuses a call, a case does without it: its
 * output stays the same. Statuses are those in the table at the end.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *self, *dir = ".";
static volatile sig_atomic_t n_signals;
static volatile unsigned sink;

static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		_exit(90);
}

static unsigned work(unsigned n)
{
	unsigned x = n;

	for (unsigned i = 0; i < n; i++)
		x = x * 1664525u + (x >> 16 & 1 ? 1013904223u : i);
	sink = x;
	return x;
}

static void *work_thread(void *arg)
{
	work((unsigned)(uintptr_t)arg);
	return NULL;
}

static void run_threads(unsigned n, unsigned rounds)
{
	pthread_t t[8];

	for (unsigned i = 0; i < n && i < 8; i++)
		if (pthread_create(&t[i], NULL, work_thread,
				   (void *)(uintptr_t)(rounds + i)))
			_exit(91);
	for (unsigned i = 0; i < n && i < 8; i++)
		pthread_join(t[i], NULL);
}

/* The status of a child that runs fn; -1: it was killed. */
static int in_child(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		fn();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		_exit(92);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void exec_self(const char *what)
{
	char *argv[] = { (char *)(uintptr_t)self, (char *)(uintptr_t)what,
			 (char *)(uintptr_t)dir, NULL };

	execve(self, argv, environ);
}

static void exec_quiet(void)
{
	exec_self("quiet");
	_exit(93);
}

static const char *in_dir(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static bool write_file(const char *path, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	bool good = fd >= 0 && write(fd, bytes, n) == (ssize_t)n;

	if (fd >= 0)
		close(fd);
	return good;
}

static void copy_self(int to)
{
	char buf[65536];
	int from = open(self, O_RDONLY);
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) > 0)
		if (write(to, buf, (size_t)n) != n)
			_exit(94);
	close(from);
}

/* ---- descriptors and limits ---- */

static void case_quiet(void)
{
	work(100);
}

static void case_closefds(void)
{
	syscall(SYS_close_range, 3u, ~0u, 0u);
	for (int fd = 3; fd < 1100; fd++)
		close(fd);
	if (in_child(exec_quiet))
		_exit(1);
}

static void case_dupfds(void)
{
	for (int fd = 3; fd < 256; fd++)
		dup2(1, fd);
	if (in_child(exec_quiet))
		_exit(1);
	run_threads(2, 50);
}

static void case_closestd(void)
{
	say("done closestd\n");
	close(0);
	close(1);
	close(2);
	if (in_child(exec_quiet))
		_exit(1);
	_exit(7);
}

static void case_nofile(void)
{
	struct rlimit few = { 4, 4 };

	setrlimit(RLIMIT_NOFILE, &few);
	for (int i = 0; i < 8; i++)
		if (dup(1) < 0)
			break;
	if (in_child(exec_quiet))
		_exit(1);
}

static void case_addresses(void)
{
	struct rlimit little = { 64u << 20, 64u << 20 };
	void *p;

	setrlimit(RLIMIT_AS, &little);
	p = malloc(1u << 20);
	work(p != NULL ? 100 : 100);
	free(p);
}

static void case_filesize(void)
{
	struct rlimit none = { 0, 0 };

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &none);
	write_file(in_dir("big"), "x", 1);
	work(200);
}

/* ---- who may do what ---- */

static void case_seccomp(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(*code), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
	getppid();
	if (in_child(exec_quiet))
		_exit(1);
}

static void strict_child(void)
{
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0))
		raise(SIGKILL);
	work(50);
	getppid();
}

static void case_strict(void)
{
	if (in_child(strict_child) != -1)
		_exit(1);
}

static void nobody(void)
{
	if (setgid(65534) || setuid(65534))
		work(1);
	run_threads(2, 50);
	exec_quiet();
}

static void case_setuid(void)
{
	if (in_child(nobody))
		_exit(1);
}

static void case_dumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	run_threads(2, 50);
	if (in_child(exec_quiet))
		_exit(1);
}

static void ptrace_child(void)
{
	ptrace(PTRACE_SEIZE, getppid(), NULL, NULL);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	work(50);
}

static void case_ptrace(void)
{
	/* what a traced child does at a signal depends on who traces it */
	if (in_child(ptrace_child))
		_exit(1);
}

/* ---- namespaces ---- */

static void first_of_all(void)
{
	run_threads(3, 50);
	if (in_child(exec_quiet))
		_exit(1);
	exec_quiet();
}

static void case_pidns(void)
{
	unshare(CLONE_NEWPID);
	if (in_child(first_of_all))
		_exit(1);
}

static void deeper(void)
{
	unshare(CLONE_NEWPID);
	if (in_child(first_of_all))
		_exit(1);
}

static void case_pidns_deep(void)
{
	unshare(CLONE_NEWPID);
	if (in_child(deeper))
		_exit(1);
}

static void case_pidns_clone(void)
{
	int status = 0;
	long pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);

	if (pid < 0)
		pid = fork();
	if (!pid) {
		first_of_all();
		_exit(1);
	}
	if (waitpid((pid_t)pid, &status, 0) != pid || status)
		_exit(1);
}

static void case_userns(void)
{
	unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS);
	if (in_child(first_of_all))
		_exit(1);
}

static void jailed(void)
{
	self = "/hostile";
	if (chroot(dir) || chdir("/"))
		self = in_dir("hostile");
	dir = "/";
	run_threads(2, 50);
	if (in_child(exec_quiet))
		_exit(1);
	exec_quiet();
}

static void case_chroot(void)
{
	int fd = open(in_dir("hostile"), O_WRONLY | O_CREAT | O_TRUNC, 0755);

	copy_self(fd);
	close(fd);
	if (in_child(jailed))
		_exit(1);
}

/* ---- exec ---- */

static void storm(void)
{
	char left[24];
	const char *n = getenv("STORM");
	long i = n ? strtol(n, NULL, 10) : 12;

	if (!i)
		_exit(0);
	snprintf(left, sizeof(left), "%ld", i - 1);
	setenv("STORM", left, 1);
	exec_self("storm");
}

static void case_execstorm(void)
{
	if (in_child(storm))
		_exit(1);
}

static void *exec_in_thread(void *arg)
{
	(void)arg;
	exec_quiet();
	return NULL;
}

static void *spin(void *arg)
{
	volatile unsigned *x = arg;

	while (*x != ~0u)	/* a loop of plain jumps would not be counted */
		++*x;
	return NULL;
}

static void thread_execs(void)
{
	static unsigned x;
	pthread_t t, u;

	pthread_create(&u, NULL, spin, &x);
	pthread_create(&t, NULL, exec_in_thread, NULL);
	pthread_join(t, NULL);
}

static void case_execthread(void)
{
	if (in_child(thread_execs))
		_exit(1);
}

static void from_memory(void)
{
	char *argv[] = { (char *)(uintptr_t)"memory", (char *)(uintptr_t)"quiet",
			 NULL };
	int fd = memfd_create("program", 0);

	copy_self(fd);
	syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
	_exit(95);
}

static void case_memfd(void)
{
	int status = in_child(from_memory);

	if (status && status != 95)
		_exit(1);
}

static void change_personality(void)
{
	personality(ADDR_COMPAT_LAYOUT | ADDR_NO_RANDOMIZE);
	exec_quiet();
}

static void case_personality(void)
{
	if (in_child(change_personality))
		_exit(1);
}

static void exec_script(void)
{
	char *argv[] = { (char *)(uintptr_t)"x", NULL };

	execve(in_dir("script2"), argv, environ);
	_exit(96);
}

static void case_script(void)
{
	char text[4200];

	snprintf(text, sizeof(text), "#!%s quiet\n", self);
	write_file(in_dir("script1"), text, strlen(text));
	snprintf(text, sizeof(text), "#!%s/script1 more\n", dir);
	write_file(in_dir("script2"), text, strlen(text));
	if (in_child(exec_script))
		_exit(1);
}

/* exit(9) of a 32-bit program, or of ours where the kernel runs none. */
static void exec_32bit(void)
{
	static const uint8_t code[] = { 0x31, 0xc0, 0x40, 0x31, 0xdb, 0xb3, 9,
					0xcd, 0x80 };
	struct {
		Elf32_Ehdr e;
		Elf32_Phdr p;
		uint8_t code[sizeof(code)];
	} f = {
		.e = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB,
				    EV_CURRENT }, .e_type = ET_EXEC,
		       .e_machine = EM_386, .e_version = EV_CURRENT,
		       .e_entry = 0x10000 + offsetof(typeof(f), code),
		       .e_phoff = offsetof(typeof(f), p),
		       .e_ehsize = sizeof(Elf32_Ehdr),
		       .e_phentsize = sizeof(Elf32_Phdr), .e_phnum = 1 },
		.p = { .p_type = PT_LOAD, .p_vaddr = 0x10000, .p_paddr = 0x10000,
		       .p_filesz = sizeof(f), .p_memsz = sizeof(f),
		       .p_flags = PF_R | PF_X, .p_align = 4096 },
	};
	char *argv[] = { (char *)(uintptr_t)"x", NULL };

	memcpy(f.code, code, sizeof(code));
	write_file(in_dir("small"), &f, sizeof(f));
	execve(in_dir("small"), argv, environ);
	_exit(9);
}

static void case_exec32(void)
{
	if (in_child(exec_32bit) != 9)
		_exit(1);
}

static void case_execfail(void)
{
	char *argv[] = { (char *)(uintptr_t)"x", NULL };

	write_file(in_dir("text"), "no program\n", 11);
	execve("/nonexistent", argv, environ);
	execve("/", argv, environ);
	execve(in_dir("text"), argv, environ);
	syscall(SYS_execve, 8L, argv, environ);
	syscall(SYS_execve, self, 8L, environ);
	work(100);
}

/* ---- processes and threads ---- */

static void tree(int depth)
{
	for (int i = 0; depth && i < 3; i++) {
		pid_t pid = fork();

		if (!pid) {
			tree(depth - 1);
			_exit(0);
		}
	}
	work(20);
	while (wait(NULL) > 0)
		;
}

static void case_forkbomb(void)
{
	tree(3);
}

static void case_vfork(void)
{
	char *argv[] = { (char *)(uintptr_t)self, (char *)(uintptr_t)"quiet",
			 NULL };
	int status;

	for (volatile int i = 0; i < 4; i++) {
		pid_t pid = vfork();

		if (!pid) {
			if (i & 1)
				execve(self, argv, environ);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			_exit(1);
	}
}

static int shared_memory(void *arg)
{
	*(volatile unsigned *)arg = work(100);
	return 0;
}

static void case_clonevm(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	static unsigned x;
	int status;
	pid_t pid = clone(shared_memory, stack + sizeof(stack),
			  CLONE_VM | SIGCHLD, &x);

	if (pid > 0)
		waitpid(pid, &status, 0);
	work(x ? 50 : 50);
}

static void *outlive(void *arg)
{
	(void)arg;
	work(3000);
	say("done leaderexit\n");
	_exit(5);
}

static void case_leaderexit(void)
{
	pthread_t t;

	pthread_create(&t, NULL, outlive, NULL);
	pthread_exit(NULL);
}

static void case_threadstorm(void)
{
	for (int i = 0; i < 10; i++)
		run_threads(8, 10);
}

static void case_exitrace(void)
{
	static unsigned x;
	pthread_t t;

	for (int i = 0; i < 4; i++)
		pthread_create(&t, NULL, spin, &x);
	work(500);
	say("done exitrace\n");
	_exit(0);
}

static void case_orphan(void)
{
	int fds[2];
	char c;

	if (pipe(fds))
		_exit(1);
	if (!fork()) {
		setsid();
		if (!fork()) {
			work(500);
			_exit(write(fds[1], "x", 1) != 1);
		}
		_exit(0);
	}
	wait(NULL);
	if (read(fds[0], &c, 1) != 1)
		_exit(1);
}

static void die_spinning(void)
{
	static unsigned x;
	pthread_t t;

	pthread_create(&t, NULL, spin, &x);
	work(500);
	raise(SIGKILL);
}

static void case_killed(void)
{
	if (in_child(die_spinning) != -1)
		_exit(1);
}

/* ---- signals ---- */

static void count_signal(int sig)
{
	(void)sig;
	n_signals++;
}

static void handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = { .sa_handler = fn, .sa_flags = flags };

	sigaction(sig, &sa, NULL);
}

static void case_sigstorm(void)
{
	handle(SIGUSR1, count_signal, SA_NODEFER);
	handle(SIGRTMIN, count_signal, SA_RESTART);
	for (int i = 0; i < 60; i++) {
		raise(SIGUSR1);
		kill(getpid(), SIGRTMIN);
	}
	if (n_signals != 120)
		_exit(1);
}

static void case_timers(void)
{
	struct itimerval ms = { { 0, 1000 }, { 0, 1000 } }, none = { 0 };

	handle(SIGALRM, count_signal, SA_RESTART);
	setitimer(ITIMER_REAL, &ms, NULL);
	while (n_signals < 5)
		pause();
	setitimer(ITIMER_REAL, &none, NULL);
}

static void die_of_alarm(void)
{
	struct itimerval soon = { { 0, 0 }, { 0, 1000 } };

	setitimer(ITIMER_REAL, &soon, NULL);
	for (;;)
		pause();
}

static void case_alarm(void)
{
	if (in_child(die_of_alarm) != -1)
		_exit(1);
}

static void overflowed(int sig)
{
	(void)sig;
	say("done altstack\n");
	_exit(0);
}

static unsigned recurse(unsigned n)
{
	volatile char room[4096];

	room[0] = (char)n;
	return n ? recurse(n + 1) + (unsigned)room[0] : 0;
}

static void case_altstack(void)
{
	static char alt[65536];
	stack_t ss = { .ss_sp = alt, .ss_size = sizeof(alt) };
	struct rlimit small = { 256 << 10, 256 << 10 };

	setrlimit(RLIMIT_STACK, &small);
	sigaltstack(&ss, NULL);
	handle(SIGSEGV, overflowed, SA_ONSTACK);
	recurse(1);
}

static void stop_self(void)
{
	raise(SIGSTOP);
	work(50);
}

static void case_stopped(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		stop_self();
		_exit(0);
	}
	waitpid(pid, &status, WUNTRACED);
	kill(pid, SIGCONT);
	if (waitpid(pid, &status, 0) != pid || status)
		_exit(1);
}

static void case_blocked(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	work(100);
	raise(SIGTERM);
	run_threads(2, 50);
}

static void case_int3(void)
{
	handle(SIGTRAP, count_signal, 0);
	for (int i = 0; i < 5; i++)
		__asm__ volatile("int3");
	if (n_signals != 5)
		_exit(1);
}

/* The trap flag is ours: what the program sees of it is what it set. */
static void case_trapflag(void)
{
	unsigned long flags;

	__asm__ volatile("pushfq\n\tpop %0" : "=r"(flags) : : "memory");
	if (flags & 0x100)
		_exit(1);
	__asm__ volatile("pushfw\n\tpopw %w0" : "=r"(flags) : : "memory");
	if (flags & 0x100)
		_exit(2);
	__asm__ volatile("pushfq\n\tpopfq\n\tnop\n\tnop" : : : "memory", "cc");
	work(10);
}

static void die_at_null(void)
{
	work(10);
	*(volatile int *)(uintptr_t)sink = 0;
	((void (*)(void))8)();
}

static void case_fault(void)
{
	if (in_child(die_at_null) != -1)
		_exit(1);
}

/* ---- code that changes ---- */

static const uint8_t ret_imm[] = { 0xb8, 0, 0, 0, 0, 0xc3 };	/* mov, ret */

static void put_code(uint8_t *at, uint32_t value)
{
	memcpy(at, ret_imm, sizeof(ret_imm));
	memcpy(at + 1, &value, 4);
}

static uint32_t call_code(const void *at)
{
	uint32_t (*fn)(void);

	memcpy(&fn, &at, sizeof(fn));
	return fn();
}

static void case_selfmod(void)
{
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (uint32_t i = 0; i < 20; i++) {
		/* another length each time: stale bytes give another flow */
		memset(p, 0x90, i);
		put_code(p + i, i);
		if (call_code(p) != i)
			_exit(1);
	}
}

/* A page of our own text, in no other function's way. */
__attribute__((aligned(4096), noinline, used, section(".text.page")))
static uint32_t text_page(void)
{
	__asm__ volatile(".fill 4080, 1, 0x90");
	return 1;
}

static void case_ownpage(void)
{
	uint8_t *p = (uint8_t *)(uintptr_t)&text_page;

	if (text_page() != 1 ||
	    mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		_exit(1);
	put_code(p, 2);
	if (text_page() != 2)
		_exit(2);
	put_code(p, 3);
	/* from here on the mapping looks as if nothing had happened */
	if (mprotect(p, 4096, PROT_READ | PROT_EXEC) || text_page() != 3)
		_exit(3);
}

static void case_overtext(void)
{
	uint8_t *p = (uint8_t *)(uintptr_t)&text_page;

	if (text_page() != 1 ||
	    mmap(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p)
		_exit(1);
	put_code(p, 4);
	if (text_page() != 4)
		_exit(2);
}

static void case_twoviews(void)
{
	int fd = memfd_create("code", 0);
	uint8_t *w, *x;

	if (ftruncate(fd, 4096))
		_exit(1);
	w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	x = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	put_code(w, 5);
	if (call_code(x) != 5)
		_exit(2);
	put_code(w + 16, 6);
	if (call_code(x + 16) != 6)
		_exit(3);
}

static void case_remapped(void)
{
	uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;

	put_code(p, 7);
	if (call_code(p) != 7)
		_exit(1);
	q = mremap(p, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, p + 4096);
	if (q != p + 4096 || call_code(q) != 7)
		_exit(2);
	munmap(q, 4096);
}

/* Code through the file that the memory is: no mapping changes, and none needs to be
 * writable. Another length for each value: stale bytes give another flow. */
static size_t code_of(uint8_t *code, uint32_t value)
{
	memset(code, 0x90, value);
	put_code(code + value, value);
	return value + sizeof(ret_imm);
}

static void write_memory(const uint8_t *at, uint32_t value)
{
	int fd = open("/proc/self/mem", O_RDWR);
	uint8_t code[64];
	size_t size = code_of(code, value);
	struct iovec v[2] = { { code, 2 }, { code + 2, size - 2 } };
	ssize_t n;

	if (value & 1)
		n = pwrite(fd, code, size, (off_t)(uintptr_t)at);
	else if (lseek(fd, (off_t)(uintptr_t)at, SEEK_SET) < 0)
		n = -1;
	else if (value & 2)
		n = write(fd, code, size);
	else
		n = writev(fd, v, 2);
	close(fd);
	if (n != (ssize_t)size)
		_exit(80);
}

static void case_ownmemory(void)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)&text_page;
	uint8_t *x = mmap(NULL, 4096, PROT_READ | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (text_page() != 1)
		_exit(1);
	for (uint32_t i = 1; i < 9; i++) {
		write_memory(p, i);
		write_memory(x, i + 10);
		if (text_page() != i || call_code(x) != i + 10)
			_exit(2);
	}
}

static volatile int n_called, n_written;

static void *await_memory(void *arg)
{
	if (text_page() != 1)
		_exit(3);
	n_called = 1;
	while (!n_written)
		;
	if (text_page() != 9)
		_exit(4);
	return arg;
}

/* For another thread, and by a child that has a descriptor of its parent's memory. */
static void case_othermemory(void)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)&text_page;
	int fd = open("/proc/self/mem", O_RDWR), status;
	uint8_t code[64];
	size_t size;
	pthread_t t;
	pid_t pid;

	if (text_page() != 1 || pthread_create(&t, NULL, await_memory, NULL))
		_exit(1);
	while (!n_called)
		;
	write_memory(p, 9);
	n_written = 1;
	pthread_join(t, NULL);
	pid = fork();
	if (!pid) {
		size = code_of(code, 12);
		_exit(pwrite(fd, code, size, (off_t)(uintptr_t)p) !=
			      (ssize_t)size || text_page() != 9);
	}
	if (waitpid(pid, &status, 0) != pid || status || text_page() != 12)
		_exit(2);
}

/* ---- the table ---- */

/* table: status is that of exit(2) */
static const struct hostile_case {
	const char *name;
	void (*run)(void);
	bool silent;	/* says "done" by itself */
	bool cpu;	/* qemu-user goes on with the code that was */
} cases[] = {
	{ .name = "closefds", .run = case_closefds },
	{ .name = "dupfds", .run = case_dupfds },
	{ .name = "closestd", .run = case_closestd, .silent = true },
	{ .name = "nofile", .run = case_nofile },
	{ .name = "addresses", .run = case_addresses },
	{ .name = "filesize", .run = case_filesize },
	{ .name = "seccomp", .run = case_seccomp },
	{ .name = "strict", .run = case_strict },
	{ .name = "setuid", .run = case_setuid },
	{ .name = "dumpable", .run = case_dumpable },
	{ .name = "ptrace", .run = case_ptrace },
	{ .name = "pidns", .run = case_pidns },
	{ .name = "pidns_deep", .run = case_pidns_deep },
	{ .name = "pidns_clone", .run = case_pidns_clone },
	{ .name = "userns", .run = case_userns },
	{ .name = "chroot", .run = case_chroot },
	{ .name = "execstorm", .run = case_execstorm },
	{ .name = "execthread", .run = case_execthread },
	{ .name = "memfd", .run = case_memfd },
	{ .name = "personality", .run = case_personality },
	{ .name = "script", .run = case_script },
	{ .name = "exec32", .run = case_exec32 },
	{ .name = "execfail", .run = case_execfail },
	{ .name = "forkbomb", .run = case_forkbomb },
	{ .name = "vfork", .run = case_vfork },
	{ .name = "clonevm", .run = case_clonevm },
	{ .name = "leaderexit", .run = case_leaderexit, .silent = true },
	{ .name = "threadstorm", .run = case_threadstorm },
	{ .name = "exitrace", .run = case_exitrace, .silent = true },
	{ .name = "orphan", .run = case_orphan },
	{ .name = "killed", .run = case_killed },
	{ .name = "sigstorm", .run = case_sigstorm },
	{ .name = "timers", .run = case_timers },
	{ .name = "alarm", .run = case_alarm },
	{ .name = "altstack", .run = case_altstack, .silent = true },
	{ .name = "stopped", .run = case_stopped },
	{ .name = "blocked", .run = case_blocked },
	{ .name = "int3", .run = case_int3 },
	{ .name = "trapflag", .run = case_trapflag },
	{ .name = "fault", .run = case_fault },
	{ .name = "selfmod", .run = case_selfmod },
	{ .name = "ownpage", .run = case_ownpage },
	{ .name = "overtext", .run = case_overtext },
	{ .name = "twoviews", .run = case_twoviews },
	{ .name = "remapped", .run = case_remapped },
	{ .name = "ownmemory", .run = case_ownmemory, .cpu = true },
	{ .name = "othermemory", .run = case_othermemory, .cpu = true },
	{ .name = "quiet", .run = case_quiet, .silent = true },
	{ .name = "storm", .run = storm, .silent = true },
};
#define N_CASES (sizeof(cases) / sizeof(*cases))
#define N_LISTED (N_CASES - 2)	/* the others are for children */

int main(int argc, char **argv)
{
	static char name[4096];
	const char *which = argc > 1 ? argv[1] : "list";
	bool cpu = !strcmp(which, "list-cpu"), list = cpu || !strcmp(which, "list");

	self = realpath("/proc/self/exe", name) ? name : argv[0];
	if (argc > 2)
		dir = argv[2];
	for (size_t i = 0; i < N_CASES; i++) {
		if (list && i < N_LISTED && cases[i].cpu == cpu)
			puts(cases[i].name);
		if (strcmp(which, cases[i].name))
			continue;
		cases[i].run();
		if (!cases[i].silent) {
			say("done ");
			say(which);
			say("\n");
		}
		return 0;
	}
	return !list;
}
