/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a kernel does for a program: calls, a page that is not there yet, another process, a
 * wait. umask marks the begin, kill the end. What is stepped in the guest's kernel
 * (tests/guest/kernel_step.py) is this.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct timespec t = { .tv_nsec = 1000 };
	char buf[200];
	char *page;
	int p[2], fd;
	pid_t child;

	umask(022);
	fd = open("/proc/self/stat", O_RDONLY);
	if (fd < 0 || read(fd, buf, sizeof(buf)) < 1 || pipe(p) < 0 ||
	    write(p[1], buf, 100) != 100 || read(p[0], buf, 100) != 100)
		return 1;
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return 1;
	memset(page, 1, 8192);
	munmap(page, 8192);
	child = fork();
	if (!child)
		_exit(0);
	if (child < 0 || waitpid(child, NULL, 0) != child)
		return 1;
	nanosleep(&t, NULL);
	close(fd);
	kill(getpid(), 0);
	return 0;
}
