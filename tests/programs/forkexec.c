/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -pthread */
/*
 * Processes: fork with work on both sides, fork twice, vfork and exec, a pipe
 * between them, and an exec from a thread that is not the leader (the new
 * program takes over the leader's tid).
 *
 *	forkexec           runs all of it, itself as the exec'd program
 *	forkexec child N   the exec'd part: exits with N
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int status_of(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static unsigned int spin(unsigned int n)
{
	volatile unsigned int x = 1;

	while (n--)
		x = x * 1103515245u + 12345u;
	return x;
}

static int with_fork(void)
{
	int fds[2];
	char c = 0;
	pid_t pid;

	if (pipe(fds))
		return 1;
	pid = fork();
	if (pid == 0) {
		pid_t inner = fork();

		if (inner == 0)
			_exit(spin(50) == 1);
		if (status_of(inner) || write(fds[1], "x", 1) != 1)
			_exit(9);
		_exit(5);
	}
	close(fds[1]);
	spin(100);
	if (read(fds[0], &c, 1) != 1 || c != 'x')
		return 1;
	close(fds[0]);
	return status_of(pid) != 5;
}

static int with_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execl("/proc/self/exe", "forkexec", "child", "6", (char *)NULL);
		_exit(127);
	}
	return status_of(pid) != 6;
}

static void *exec_thread(void *arg)
{
	spin(20);
	execl("/proc/self/exe", "forkexec", "child", "7", (char *)NULL);
	return arg;
}

static int with_thread_exec(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pthread_t t;

		if (pthread_create(&t, NULL, exec_thread, NULL))
			_exit(126);
		pthread_join(t, NULL);
		_exit(127);
	}
	return status_of(pid) != 7;
}

int main(int argc, char **argv)
{
	int bad;

	if (argc == 3 && !strcmp(argv[1], "child"))
		return (int)strtol(argv[2], NULL, 0);
	bad = with_fork() | with_vfork() << 1 | with_thread_exec() << 2;
	printf("forkexec: %s\n", bad ? "wrong" : "all right");
	return bad;
}
