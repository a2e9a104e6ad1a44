/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * A recorder that resumes at umask() and pauses at kill() has inside() alone.
 */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_ROUNDS 3

static volatile int sum;

static __attribute__((noinline)) void inside(int n)
{
	for (int i = 0; i < n; i++)
		sum += i;
}

static __attribute__((noinline)) void outside(int n)
{
	for (int i = 0; i < n; i++)
		sum -= i;
}

int main(void)
{
	for (int i = 1; i <= N_ROUNDS; i++) {
		outside(10 * i);
		umask(022);
		inside(10 * i);
		if (kill(getpid(), 0))
			return 1;
	}
	outside(5);
	return 0;
}
