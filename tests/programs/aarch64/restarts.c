/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -O1 */
/*
 * System calls that signals break: one that the kernel runs again, some that end with
 * EINTR, and one that goes on after the process was stopped. A signal comes each second.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int hits;
static int fds[2];

static void on_alarm(int sig)
{
	(void)sig;
	if (++hits == 2 && write(fds[1], "x", 1) != 1)
		_exit(2);
}

static void set_clock(int flags, long seconds)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };
	struct itimerval it = { { seconds, 0 }, { seconds, 0 } };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &it, NULL);
}

/* Returns whether it slept to the end, though it was stopped in between. */
static int sleep_stopped(void)
{
	struct timespec ts = { 3, 0 };
	pid_t me = getpid(), child = fork();

	if (!child) {
		sleep(1);
		kill(me, SIGSTOP);
		sleep(1);
		kill(me, SIGCONT);
		_exit(0);
	}
	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
	return waitpid(child, NULL, 0) == child;
}

int main(void)
{
	struct timespec ts = { 20, 0 };
	struct pollfd p = { .events = POLLIN };
	sigset_t none, mine;
	int good, n;
	char c;

	if (pipe(fds))
		return 2;
	p.fd = fds[0];
	set_clock(SA_RESTART, 1);
	good = read(fds[0], &c, 1) == 1 && hits >= 2;
	set_clock(0, 1);
	good += nanosleep(&ts, NULL) < 0 && errno == EINTR;
	sigemptyset(&none);
	good += ppoll(&p, 1, &ts, &none) < 0 && errno == EINTR;
	sigemptyset(&mine);
	sigaddset(&mine, SIGALRM);
	sigaddset(&mine, SIGTRAP);
	sigprocmask(SIG_BLOCK, &mine, NULL);
	good += sigsuspend(&none) < 0 && errno == EINTR;
	sigprocmask(SIG_UNBLOCK, &none, &mine);
	good += sigismember(&mine, SIGTRAP) == 1;
	set_clock(0, 0);
	n = sleep_stopped();
	printf("%s\n", good + n == 6 ? "all right" : "wrong");
	return good + n != 6;
}
