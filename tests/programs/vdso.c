/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * The clock, read through the vdso where there is one: code that no file holds.
 */
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

int main(void)
{
	struct timespec before, now;
	struct timeval tv;
	int i, bad = 0;

	clock_gettime(CLOCK_MONOTONIC, &before);
	for (i = 0; i < 50; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		bad |= now.tv_sec < before.tv_sec;
		before = now;
		gettimeofday(&tv, NULL);
		bad |= time(NULL) == 0;
	}
	puts(bad ? "vdso: wrong" : "vdso: all right");
	return bad;
}
