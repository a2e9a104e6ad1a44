/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * Generated code at a pace that a recorder can follow: it is written, and runs
 * once the recorder has read it; more is added behind it; then it is replaced; a child
 * that was forked runs what it inherited, and code of its own in the same place.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reader.h"

#define SIZE (64u << 10)
#define PAGE 4096u

typedef unsigned int (*code_fn)(void);

/* nops; mov eax, value; ret */
static void emit(uint8_t *p, unsigned int n_nops, unsigned int value)
{
	memset(p, 0x90, n_nops);
	p[n_nops] = 0xb8;
	memcpy(p + n_nops + 1, &value, 4);
	p[n_nops + 5] = 0xc3;
}

static int call(const uint8_t *p, unsigned int value)
{
	code_fn fn;

	memcpy(&fn, &p, sizeof(fn));
	return fn() != value;
}

int main(void)
{
	uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int bad = 0, status;
	pid_t pid;

	if (p == MAP_FAILED || madvise(p, PAGE, MADV_DONTDUMP))
		return 1;
	emit(p, 3, 1);
	emit(p + 5 * PAGE - 4, 5, 2);	/* across two pages */
	wait_for_reader(p);
	bad |= call(p, 1) | call(p + 5 * PAGE - 4, 2);
	emit(p + 128, 1, 3);		/* behind it */
	wait_for_reader(p);
	bad |= call(p + 128, 3) | call(p, 1);
	wait_for_reader(p);	/* what was replaced since it last ran is not known */
	emit(p, 9, 4);			/* in its place */
	wait_for_reader(p);
	bad |= call(p, 4);
	pid = fork();
	if (!pid) {
		bad |= call(p, 4);
		emit(p + 256, 2, 5);
		wait_for_reader(p);
		_exit(bad | call(p + 256, 5));
	}
	emit(p + 256, 7, 6);
	wait_for_reader(p);
	bad |= call(p + 256, 6);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		bad = 1;
	return bad;
}
