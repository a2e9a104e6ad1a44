/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/*
 * Processes: fork, vfork and exec, exec of itself without a fork.
 */
#include <sys/wait.h>

#include "stack_truth.h"

static volatile int sink;

static int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static void run(const char *what)
{
	char *const args[] = { (char *)"stack_exec", (char *)what, NULL };

	truth_write_mine();
	execv("/proc/self/exe", args);
	_exit(9);
}

static void in_child(const char *what)
{
	sink = fib(3);
	run(what);
}

static int by_vfork(const char *what)
{
	int status;
	pid_t pid = vfork();

	if (pid == 0)
		in_child(what);
	sink = fib(2);
	waitpid(pid, &status, 0);
	return status;
}

static int by_fork(int n)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		sink = fib(n);
		if (n > 2)
			by_fork(n - 1);
		exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	int bad = 0;

	if (argc > 1 && !strcmp(argv[1], "leaf")) {
		sink = fib(4);
		return 0;
	}
	bad |= by_vfork("leaf");
	bad |= by_fork(4);
	bad |= by_vfork("leaf");
	puts(bad ? "exec: wrong" : "exec: all right");
	fflush(stdout);
	if (bad)
		return 1;
	run("leaf");
}
