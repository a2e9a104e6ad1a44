/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/* host: x86_64 */
/*
 * Calls of the vsyscall page, with work between them. Kernels without that page make
 * it end by SIGSEGV, which exits with 77.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void no_page(int sig)
{
	(void)sig;
	_exit(77);
}

int main(void)
{
#ifdef __x86_64__
	const uintptr_t at = 0xffffffffff600400;	/* time() */
	long (*call)(long *);
	volatile unsigned int work = 0;
	int n = 0;

	signal(SIGSEGV, no_page);
	memcpy(&call, &at, sizeof(call));
	for (int i = 0; i < 20; i++) {
		n += call(NULL) > 0;
		for (int k = 0; k < 50; k++)
			work += (unsigned int)k;
	}
	(void)work;
	printf("vsyscall: %d\n", n);
	return n != 20;
#else
	no_page(0);
#endif
}
