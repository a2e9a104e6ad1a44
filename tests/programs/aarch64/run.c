/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * Runs another program, whatever machine it is for, and ends as it does.
 *
 *	run PROGRAM [ARG...]       as a child
 *	run -e PROGRAM [ARG...]    in its own place
 *	run -t PROGRAM [ARG...]    the same, with tagged pointers
 */
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char *tag(char *p)
{
	return (char *)((uintptr_t)p | (uintptr_t)0x5a << 56);
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc > 2 && !strcmp(argv[1], "-e"))
		return execv(argv[2], argv + 2) ? 127 : 0;
	if (argc > 2 && !strcmp(argv[1], "-t")) {
		prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE, 0, 0, 0);
		for (int i = 2; i < argc; i++)
			argv[i] = tag(argv[i]);
		return execv(argv[2], (char **)tag((char *)(argv + 2))) ? 127 : 0;
	}
	if (argc < 2)
		return 2;
	pid = fork();
	if (pid == 0)
		_exit(execv(argv[1], argv + 1) ? 127 : 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
