/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -pthread */
/*
 * Runs another program in its own place, from a thread while others compute, and
 * in several children at once, which compute before they do.
 *
 *	execs N PROGRAM [ARG...]    N children; 0: in its own place
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_OTHERS 2

static char **args;

static unsigned int spin(unsigned int n)
{
	volatile unsigned int x = 1;

	while (n--)
		x = x * 1103515245u + 12345u;
	return x;
}

static void *compute(void *arg)
{
	for (;;)
		spin(1000);
	return arg;
}

static void *leave(void *arg)
{
	spin(100);
	execv(args[0], args);
	_exit(127);
	return arg;
}

static void leave_from_thread(void)
{
	pthread_t t;

	for (unsigned int i = 0; i < N_OTHERS; i++)
		if (pthread_create(&t, NULL, compute, NULL))
			_exit(126);
	if (pthread_create(&t, NULL, leave, NULL))
		_exit(126);
	compute(NULL);
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? (int)strtol(argv[1], NULL, 10) : -1;
	int bad = 0, status;

	if (n < 0)
		return 2;
	args = argv + 2;
	if (!n)
		leave_from_thread();
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (!pid) {
			spin(50 * (unsigned int)i);
			leave(NULL);
		}
	}
	while (n--)
		bad |= wait(&status) < 0 || status;
	return bad;
}
