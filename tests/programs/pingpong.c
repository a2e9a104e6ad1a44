/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O1 -pthread */
/*
 * Two threads that wait for each other in read(2), while signals come all the time: a
 * thread that is made to wait when it was about to, and should have been stopped, never
 * goes on if the other one then has to stop, as it may for open(2).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static int to[2], from[2];
static volatile sig_atomic_t n_signals;

static void on_alarm(int sig)
{
	(void)sig;
	n_signals++;
}

static unsigned char get(int fd)
{
	unsigned char c = 0;

	while (read(fd, &c, 1) < 0 && errno == EINTR)
		;
	return c;
}

static void put(int fd, unsigned char c)
{
	while (write(fd, &c, 1) < 0 && errno == EINTR)
		;
}

static void *echo(void *arg)
{
	long n = (long)arg, i;

	for (i = 0; i < n; i++) {
		unsigned char c = get(to[0]);

		close(open("/dev/null", O_RDONLY | O_CLOEXEC));
		put(from[1], (unsigned char)(c + 1));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerval it = { { 0, 200 }, { 0, 200 } };
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 2000, i;
	pthread_t t;
	int wrong = 0;

	if (pipe(to) || pipe(from))
		return 2;
	sigaction(SIGALRM, &sa, NULL);
	if (pthread_create(&t, NULL, echo, (void *)n))
		return 2;
	setitimer(ITIMER_REAL, &it, NULL);
	for (i = 0; i < n; i++) {
		put(to[1], (unsigned char)i);
		wrong += get(from[0]) != (unsigned char)(i + 1);
	}
	pthread_join(t, NULL);
	puts(wrong ? "wrong" : "right");
	return wrong != 0;
}
