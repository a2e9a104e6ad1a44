/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -pthread */
/* host: x86_64 */
/*
 * A program to attach to: threads that compute, sleep, wait for one another,
 * store and load the flags, make code, and get signals from a timer; processes
 * that come and go. Says "ready", runs until its input ends, then checks that
 * each did what it should: a step too many or too few, a lost or an invented
 * signal, a flag that is left behind would show.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_bool stop;
static atomic_ulong n_alarms, n_sent, n_got, n_naps, n_calls, n_children;
static int pipes[2];
static const char *fault;

struct worker {
	uint64_t seed, x, n;
};

static uint64_t next(uint64_t x)
{
	unsigned long flags;

	/* what is pushed is popped: a trap flag in it would come back */
	__asm__ volatile("sub $128, %%rsp\n\tpushfq\n\tpop %0\n\tpush %0\n\t"
			 "popfq\n\tadd $128, %%rsp"
			 : "=r"(flags) : : "memory", "cc");
	if (flags & 0x100)
		fault = "a trap flag";
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

static void *compute(void *arg)
{
	struct worker *w = arg;

	w->x = w->seed;
	while (!stop) {
		w->x = next(w->x);
		w->n++;
	}
	return NULL;
}

static void *nap(void *arg)
{
	struct timespec ts = { .tv_nsec = 3000000 }, now;

	(void)arg;
	while (!stop) {
		if (nanosleep(&ts, NULL) && errno != EINTR)
			fault = "nanosleep";
		clock_gettime(CLOCK_MONOTONIC, &now);
		n_naps++;
	}
	return NULL;
}

static void *put(void *arg)
{
	char c = 'x';

	(void)arg;
	while (!stop) {
		if (write(pipes[1], &c, 1) != 1)
			fault = "write";
		n_sent++;
		usleep(5000);
	}
	close(pipes[1]);
	return NULL;
}

/* Mostly asleep in the kernel. No signal comes here: read must not fail. */
static void *receive(void *arg)
{
	sigset_t all;
	ssize_t n;
	char c;

	(void)arg;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	while ((n = read(pipes[0], &c, 1)) == 1)
		n_got++;
	if (n < 0)
		fault = "read";
	return NULL;
}

static void *generate(void *arg)
{
	static const uint8_t code[] = { 0xb8, 0, 0, 0, 0, 0xc3 };
	uint32_t (*fn)(void);
	uint8_t *p;

	(void)arg;
	for (uint32_t i = 0; !stop; i++) {
		p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(p, code, sizeof(code));
		memcpy(p + 1, &i, 4);
		memcpy(&fn, &p, sizeof(fn));
		if (fn() != i)
			fault = "made code";
		munmap(p, 4096);
		n_calls++;
		usleep(4000);
	}
	return NULL;
}

static void *breed(void *arg)
{
	int status;
	pid_t pid;

	(void)arg;
	while (!stop) {
		pid = fork();
		if (!pid)
			_exit(7);
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
		    WEXITSTATUS(status) != 7)
			fault = "a child";
		n_children++;
		usleep(50000);
	}
	return NULL;
}

static void on_alarm(int sig)
{
	(void)sig;
	n_alarms++;
}

static void on_trap(int sig)
{
	(void)sig;
	fault = "a SIGTRAP";
}

static void check(const struct worker *w)
{
	uint64_t x = w->seed;

	for (uint64_t i = 0; i < w->n; i++)
		x = next(x);
	if (x != w->x || !w->n)
		fault = "a computation";
}

int main(void)
{
	static struct worker w[2] = { { .seed = 88172645463325252u },
				      { .seed = 1234567 } };
	static void *(*const others[])(void *) = { nap, put, receive, generate,
						   breed };
	struct itimerval it = { { 0, 20000 }, { 0, 20000 } };
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	pthread_t t[7];
	char c;
	int i;

	sigaction(SIGALRM, &sa, NULL);
	sa.sa_handler = on_trap;
	sigaction(SIGTRAP, &sa, NULL);
	if (pipe(pipes))
		return 2;
	for (i = 0; i < 7; i++)
		if (pthread_create(&t[i], NULL, i < 2 ? compute : others[i - 2],
				   i < 2 ? &w[i] : NULL))
			return 2;
	setitimer(ITIMER_REAL, &it, NULL);
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	stop = true;
	for (i = 0; i < 7; i++)
		pthread_join(t[i], NULL);
	check(&w[0]);
	check(&w[1]);
	if (!n_alarms || !n_naps || !n_calls || !n_children || n_sent != n_got)
		fault = "a thread that did nothing";
	printf("%s\n", fault ? fault : "right");
	return fault != NULL;
}
