/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -pthread -ldl */
/*
 * A program that runs before anybody records it: with three threads, an object
 * loaded by dlopen, and code in anonymous memory. Each line on standard input is
 * an order, answered by a line when it is done; it ends with its input.
 *
 *	resident DIR	where the copies of the object are put
 *
 *	work N	each thread runs N rounds of its own code, the loaded and the made
 *	more	one more thread, and one more mapping of the object
 *	fork	one more process, which does what it reads from then on
 *	time	looks at the clock, as the vDSO does it
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long n_rounds;	/* of the present order */
static unsigned int n_threads, n_orders, n_done;
static const char *dir;
static int (*loaded)(int);
static uint64_t (*made)(uint64_t);

__attribute__((noinline))
static unsigned long resident_work(unsigned long n)
{
	volatile unsigned long x = 0;
	unsigned long i;

	for (i = 0; i < n; i++)
		x += i & 3;
	return x;
}

static void rounds(unsigned long n)
{
	while (n--) {
		resident_work(50);
		loaded(20);
		made(10);
	}
}

static void *thread(void *arg)
{
	unsigned int seen = (unsigned int)(uintptr_t)arg;

	pthread_mutex_lock(&lock);
	for (;;) {
		unsigned long n;

		while (n_orders == seen)
			pthread_cond_wait(&changed, &lock);
		seen = n_orders;
		n = n_rounds;
		pthread_mutex_unlock(&lock);
		rounds(n);
		pthread_mutex_lock(&lock);
		n_done++;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

static int add_thread(void)
{
	pthread_t t;
	char name[16];

	if (n_threads == MAX_THREADS ||
	    pthread_create(&t, NULL, thread, (void *)(uintptr_t)n_orders))
		return -1;
	snprintf(name, sizeof(name), "worker-%u", ++n_threads);
	return pthread_setname_np(t, name);
}

/* A copy of the object for each call: the same file would not be mapped again. */
static int load(void)
{
	char path[4096], copy[4096], buf[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	void *object, *sym;
	char *slash;
	FILE *from;
	size_t got;
	int fd;

	path[n > 0 ? n : 0] = 0;
	slash = strrchr(path, '/');
	snprintf(copy, sizeof(copy), "%s/object-XXXXXX", dir);
	fd = mkstemp(copy);
	if (!slash || fd < 0)
		return -1;
	memcpy(slash + 1, "dlobj", sizeof("dlobj"));
	from = fopen(path, "re");
	while (from && (got = fread(buf, 1, sizeof(buf), from)) > 0)
		if (write(fd, buf, got) != (ssize_t)got)
			return -1;
	if (from)
		fclose(from);
	close(fd);
	object = dlopen(copy, RTLD_NOW);
	sym = object ? dlsym(object, "dlobj_work") : NULL;
	if (!sym)
		return -1;
	memcpy(&loaded, &sym, sizeof(loaded));
	return 0;
}

/* xor eax,eax; 1: add rax,3; dec rdi; jnz 1b; ret, and the same of aarch64 */
static int make(void)
{
#ifdef __aarch64__
	static const uint32_t code[] = { 0xd2800001, 0x91000c21, 0xf1000400,
					 0x54ffffc1, 0xaa0103e0, 0xd65f03c0 };
#else
	static const uint8_t code[] = { 0x31, 0xc0, 0x48, 0x83, 0xc0, 0x03, 0x48,
					0xff, 0xcf, 0x75, 0xf7, 0xc3 };
#endif
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -1;
	memcpy(p, code, sizeof(code));
	__builtin___clear_cache(p, (char *)p + sizeof(code));
	memcpy(&made, &p, sizeof(made));
	return 0;
}

static void work(unsigned long n)
{
	pthread_mutex_lock(&lock);
	n_rounds = n;
	n_done = 0;
	n_orders++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	rounds(n);
	pthread_mutex_lock(&lock);
	while (n_done < n_threads)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

/* The child takes over; the parent waits for its end. */
static void fork_off(void)
{
	pid_t pid = fork();

	if (pid > 0) {
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	n_threads = 0;
}

static int obey(const char *line)
{
	struct timespec ts;
	int i;

	if (!strncmp(line, "work ", 5))
		work(strtoul(line + 5, NULL, 0));
	else if (!strcmp(line, "more\n"))
		return add_thread() || load();
	else if (!strcmp(line, "fork\n"))
		fork_off();
	else if (!strcmp(line, "time\n"))
		for (i = 0; i < 100; i++)
			clock_gettime(CLOCK_MONOTONIC, &ts);
	else
		return -1;
	return 0;
}

int main(int argc, char **argv)
{
	char line[64];

	dir = argc > 1 ? argv[1] : "/tmp";
	if (make() || load() || add_thread() || add_thread())
		return 1;
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (obey(line))
			return 1;
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
