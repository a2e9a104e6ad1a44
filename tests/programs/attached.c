/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -ldl -lpthread */
/*
 * What a recorder that comes late has to find: threads, a loaded object, and generated
 * code with its names in /tmp/perf-PID.map, all there before a line arrives on standard
 * input; then they run it. After that code is generated beside it and in pages of its
 * own, the object is loaded once more, and a thread begins.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reader.h"

#define N_THREADS 3

typedef int (*work_fn)(int);

static work_fn first, beside, apart, loaded;
static sem_t may_work, has_worked;
static char map_path[64], object[4096];

/* mov %edi, %eax; inc %eax, so many times; ret */
static size_t emit(uint8_t *p, size_t times)
{
	uint8_t *start = p;

	memcpy(p, "\x89\xf8", 2);
	for (p += 2; times--; p += 2)
		memcpy(p, "\xff\xc0", 2);
	*p++ = 0xc3;
	return (size_t)(p - start);
}

static work_fn generate(uint8_t *p, size_t times, const char *name)
{
	size_t size = emit(p, times);
	FILE *f = fopen(map_path, "a");
	work_fn fn;

	if (f) {
		fprintf(f, "%llx %zx %s\n", (unsigned long long)(uintptr_t)p, size, name);
		fclose(f);
	}
	memcpy(&fn, &p, sizeof(fn));
	return fn;
}

static work_fn load(void **handle)
{
	void *sym;
	work_fn fn = NULL;

	*handle = dlopen(object, RTLD_NOW);
	sym = *handle ? dlsym(*handle, "dlobj_work") : NULL;
	memcpy(&fn, &sym, sizeof(fn));
	return fn;
}

static void *worker(void *nothing)
{
	int i, n = 0;

	for (i = 0; i < 2; i++) {
		while (sem_wait(&may_work))
			;
		n += first(i) + loaded(3 + i);
		n += beside ? beside(i) + apart(i) : 0;
		sem_post(&has_worked);
	}
	(void)n;
	return nothing;
}

static void round_of_work(int n)
{
	int i;

	for (i = 0; i < n; i++)
		sem_post(&may_work);
	for (i = 0; i < n; i++)
		while (sem_wait(&has_worked))
			;
}

static uint8_t *pages(int prot)
{
	uint8_t *p = mmap(NULL, 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int prepare(void **handle, uint8_t *code)
{
	ssize_t n = readlink("/proc/self/exe", object, sizeof(object) - 16);
	char *slash = n > 0 ? strrchr(object, '/') : NULL;

	if (!slash || !code)
		return -1;
	memcpy(slash + 1, "dlobj", sizeof("dlobj"));
	snprintf(map_path, sizeof(map_path), "/tmp/perf-%d.map", (int)getpid());
	unlink(map_path);
	loaded = load(handle);
	sem_init(&may_work, 0, 0);
	sem_init(&has_worked, 0, 0);
	return loaded ? 0 : -1;
}

/* W^X: pages of their own are made executable when they are full. */
static int generate_more(uint8_t *code, uint8_t **own_page)
{
	uint8_t *own = *own_page = pages(PROT_READ | PROT_WRITE);
	work_fn fn;

	if (!own)
		return -1;
	fn = generate(own, 7, "attached_apart");
	if (mprotect(own, 4096, PROT_READ | PROT_EXEC))
		return -1;
	apart = fn;
	beside = generate(code + 256, 5, "attached_beside");
	return 0;
}

int main(void)
{
	uint8_t *code = pages(PROT_READ | PROT_WRITE | PROT_EXEC), *own;
	pthread_t threads[N_THREADS];
	void *handle;
	char line[16];
	int i;

	if (prepare(&handle, code))
		return 1;
	first = generate(code, 9, "attached_first");
	for (i = 0; i < N_THREADS - 1; i++)
		if (pthread_create(&threads[i], NULL, worker, NULL))
			return 1;
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 1;
	round_of_work(N_THREADS - 1);
	dlclose(handle);
	loaded = load(&handle);
	if (!loaded || generate_more(code, &own) ||
	    pthread_create(&threads[i], NULL, worker, NULL))
		return 1;
	wait_for_reader(code);
	wait_for_reader(own);
	round_of_work(N_THREADS + 1);	/* the new one twice */
	for (i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
