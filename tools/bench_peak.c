/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_peak: runs a command and says what it took: "peak MiB, CPU s, wall s", to the
 * file named first. Exits as the command did.
 *
 *	bench_peak OUT COMMAND...
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double seconds(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	double began = now();
	struct rusage ru;
	int status;
	pid_t pid;
	FILE *f;

	if (argc < 3) {
		fprintf(stderr, "usage: bench_peak OUT COMMAND...\n");
		return 2;
	}
	pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &ru) < 0 || !(f = fopen(argv[1], "w"))) {
		perror("bench_peak");
		return 1;
	}
	fprintf(f, "%ld %.6f %.6f\n", ru.ru_maxrss / 1024,
		seconds(&ru.ru_utime) + seconds(&ru.ru_stime), now() - began);
	fclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
