/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * Ends badly, in the way named: abort, segv, ill, exit (status 3), kill, loop
 * (for ever: to be interrupted), spin (the same without a packet, until SIGALRM).
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "abort";
	volatile uint8_t *volatile nowhere = (volatile uint8_t *)16;
	volatile uint64_t x = 0;

	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "segv"))
		*nowhere = 1;
	if (!strcmp(how, "ill"))
#ifdef __aarch64__
		__asm__ volatile("udf #0");
#else
		__asm__ volatile("ud2");
#endif
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(how, "spin")) {
		alarm(1);
		for (;;)
			;
	}
	while (!strcmp(how, "loop"))
		x++;
	return x ? 4 : 3;
}
