/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A JIT compiler that logs what it makes (jitdump): functions that add numbers,
 * each called; one is moved, and one place is used twice. The log is jit-PID.dump
 * in the directory of the first argument.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static FILE *out;
static uint8_t *code;
static uint64_t n_loads;

static void put32(uint32_t v)
{
	fwrite(&v, sizeof(v), 1, out);
}

static void put64(uint64_t v)
{
	fwrite(&v, sizeof(v), 1, out);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void begin(uint32_t id, size_t size)
{
	put32(id);
	put32((uint32_t)size + 16);
	put64(now());
}

/* Maps the log executable: that is how perf finds it. */
static int open_log(const char *dir)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/jit-%d.dump", dir, (int)getpid());
	out = fopen(path, "w+");
	if (!out || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE,
			 fileno(out), 0) == MAP_FAILED)
		return -1;
	put32(0x4a695444);
	put32(1);
	put32(40);
	put32(62); /* EM_X86_64 */
	put32(0);
	put32((uint32_t)getpid());
	put64(now());
	put64(0);
	return 0;
}

/* lea add(%rdi), %eax, so many times; ret */
static size_t make(uint8_t *p, uint8_t add, unsigned times)
{
	uint8_t *start = p;

	memcpy(p, "\x89\xf8", 2); /* mov %edi, %eax */
	p += 2;
	while (times--) {
		*p++ = 0x83; /* add $add, %eax */
		*p++ = 0xc0;
		*p++ = add;
	}
	*p++ = 0xc3;
	return (size_t)(p - start);
}

static int call(const uint8_t *p, int x)
{
	int (*f)(int);

	memcpy(&f, &p, sizeof(f));
	return f(x);
}

static void log_load(const char *name, const uint8_t *p, size_t size)
{
	begin(0, 40 + strlen(name) + 1 + size);
	put32((uint32_t)getpid());
	put32((uint32_t)getpid());
	put64((uintptr_t)p);
	put64((uintptr_t)p);
	put64(size);
	put64(n_loads++);
	fwrite(name, strlen(name) + 1, 1, out);
	fwrite(p, size, 1, out);
}

static void log_move(const uint8_t *from, const uint8_t *to, size_t size,
		     uint64_t index)
{
	begin(1, 48);
	put32((uint32_t)getpid());
	put32((uint32_t)getpid());
	put64((uintptr_t)to);
	put64((uintptr_t)from);
	put64((uintptr_t)to);
	put64(size);
	put64(index);
}

int main(int argc, char **argv)
{
	size_t size;
	int sum = 0;

	code = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (argc < 2 || code == MAP_FAILED || open_log(argv[1]) < 0)
		return 1;
	for (unsigned i = 0; i < 4; i++) {
		char name[32];

		size = make(code + 256 * i, (uint8_t)i, i + 1);
		snprintf(name, sizeof(name), "jit_add_%u", i);
		log_load(name, code + 256 * i, size);
		sum += call(code + 256 * i, 10);
	}
	size = make(code + 8192, 3, 4);
	log_move(code + 256 * 3, code + 8192, size, 3);
	sum += call(code + 8192, 10);
	size = make(code, 9, 3); /* in place of jit_add_0 */
	log_load("jit_again", code, size);
	sum += call(code, 10);
	begin(3, 0);
	fclose(out);
	printf("%d\n", sum);
	return 0;
}
