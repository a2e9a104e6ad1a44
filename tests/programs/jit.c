/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * Code that is in no file when it is decoded: written to anonymous memory and
 * run, rewritten in place and run again, mapped twice (one side to write, one
 * to run), and run from a file that is deleted meanwhile.
 *
 *	jit [once]
 *
 * "once" does not rewrite through the second mapping: qemu-user 7.2 does not
 * notice such writes and runs the old code.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t (*code_fn)(uint64_t);

/*
 * A sum of as many steps as the argument says, and as many nops in front as the
 * caller likes: the same addresses then hold other instructions.
 */
#ifdef __aarch64__
#define ACROSS 4088	/* before a page's end */

/* mov x1,#0; 1: add x1,x1,#imm; subs x0,x0,#1; b.ne 1b; mov x0,x1; ret */
static size_t emit(uint8_t *p, uint8_t step, unsigned int n_nops)
{
	uint32_t loop[] = { 0xd2800001, 0x91000021, 0xf1000400, 0x54ffffc1,
			    0xaa0103e0, 0xd65f03c0 };
	static const uint32_t nop = 0xd503201f;
	unsigned int i;

	loop[1] |= (uint32_t)step << 10;
	for (i = 0; i < n_nops; i++)
		memcpy(p + 4 * i, &nop, 4);
	memcpy(p + 4 * n_nops, loop, sizeof(loop));
	__builtin___clear_cache((char *)p, (char *)p + 4 * n_nops + sizeof(loop));
	return 4 * n_nops + sizeof(loop);
}
#else
#define ACROSS 4090

/* xor eax,eax; 1: add rax,imm8; dec rdi; jnz 1b; ret */
static size_t emit(uint8_t *p, uint8_t step, unsigned int n_nops)
{
	static const uint8_t loop[] = { 0x31, 0xc0, 0x48, 0x83, 0xc0, 0x00, 0x48,
					0xff, 0xcf, 0x75, 0xf7, 0xc3 };

	memset(p, 0x90, n_nops);
	memcpy(p + n_nops, loop, sizeof(loop));
	p[n_nops + 5] = step;
	return n_nops + sizeof(loop);
}
#endif

static uint64_t call(const void *p, uint64_t n)
{
	code_fn fn;

	memcpy(&fn, &p, sizeof(fn));
	return fn(n);
}

static int run_anonymous(void)
{
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int bad = 0;
	unsigned int i;

	if (p == MAP_FAILED)
		return 1;
	for (i = 1; i <= 20; i++) {
		emit(p, (uint8_t)i, i % 5);
		bad |= call(p, 10) != 10 * i;
	}
	munmap(p, 4096);
	return bad;
}

/* W^X: written, sealed, run, opened, rewritten, sealed, run. */
static int run_sealed(void)
{
	uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int bad = 0;
	unsigned int i;

	if (p == MAP_FAILED)
		return 1;
	for (i = 1; i <= 4; i++) {
		mprotect(p, 8192, PROT_READ | PROT_WRITE);
		emit(p + ACROSS, (uint8_t)i, i);	/* across two pages */
		mprotect(p, 8192, PROT_READ | PROT_EXEC);
		bad |= call(p + ACROSS, 5) != 5 * i;
	}
	munmap(p, 8192);
	return bad;
}

static int run_two_views(int fd, int once)
{
	uint8_t *w, *x;
	int bad = 0;
	unsigned int i;

	if (fd < 0 || ftruncate(fd, 4096))
		return 1;
	w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	x = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	if (w == MAP_FAILED || x == MAP_FAILED)
		return 1;
	for (i = 1; i <= (once ? 1 : 3); i++) {
		emit(w, (uint8_t)(10 * i), i);
		bad |= call(x, 7) != 70 * i;
	}
	munmap(w, 4096);
	munmap(x, 4096);
	close(fd);
	return bad;
}

static int deleted_file(void)
{
	char path[] = "/tmp/auxkit-jit-XXXXXX";
	int fd = mkstemp(path);

	if (fd >= 0)
		unlink(path);
	return fd;
}

int main(int argc, char **argv)
{
	int once = argc > 1 && !strcmp(argv[1], "once");
	int bad = run_anonymous() | run_sealed() << 1 |
		  run_two_views(memfd_create("auxkit-jit", 0), once) << 2 |
		  run_two_views(deleted_file(), once) << 3;

	printf("jit: %s\n", bad ? "wrong" : "all right");
	return bad;
}
