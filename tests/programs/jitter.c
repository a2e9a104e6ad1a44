/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * Generated code at a pace that a recorder can follow: it is written, and runs
 * once the recorder has read it; more is added behind it; then it is replaced; a child
 * that was forked runs what it inherited, and code of its own in the same place.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE (64u << 10)
#define PAGE 4096u
#define PERIOD_MS 50
#define READS 3			/* one may be under way, and a pause follows each */
#define LONGEST_MS 30000

typedef unsigned int (*code_fn)(void);

static void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&ts, &ts))
		;
}

/* Marks all pages of this process as not accessed. */
static bool clear_accessed(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY);
	bool done = fd >= 0 && write(fd, "1", 1) == 1;

	if (fd >= 0)
		close(fd);
	return done;
}

/* Whether anyone accessed the first page at p, which is a mapping of its own in
 * smaps, since then: a read of /proc/PID/mem counts. */
static bool is_accessed(const uint8_t *p)
{
	static char text[64u << 10];
	char name[40];
	size_t n = 0;
	ssize_t got = 0;
	int fd = open("/proc/self/smaps", O_RDONLY);

	if (fd < 0)
		return false;
	while ((got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	text[n] = '\0';
	snprintf(name, sizeof(name), "%lx-", (unsigned long)(uintptr_t)p);
	p = (const uint8_t *)strstr(text, name);
	p = p ? (const uint8_t *)strstr((const char *)p, "Referenced:") : NULL;
	return p && strncmp((const char *)p, "Referenced:            0", 24) != 0;
}

/* Until the recorder has read the page at p again and again. A fixed time was too
 * short, whatever it was, where ten jobs ran for each core. */
static void wait_for_reader(const uint8_t *p)
{
	int n, ms = 0;

	for (n = 0; n < READS && clear_accessed(); n++) {
		while (!is_accessed(p) && ms < LONGEST_MS) {
			sleep_ms(PERIOD_MS);
			ms += PERIOD_MS;
		}
	}
}

/* nops; mov eax, value; ret */
static void emit(uint8_t *p, unsigned int n_nops, unsigned int value)
{
	memset(p, 0x90, n_nops);
	p[n_nops] = 0xb8;
	memcpy(p + n_nops + 1, &value, 4);
	p[n_nops + 5] = 0xc3;
}

static int call(const uint8_t *p, unsigned int value)
{
	code_fn fn;

	memcpy(&fn, &p, sizeof(fn));
	return fn() != value;
}

int main(void)
{
	uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int bad = 0, status;
	pid_t pid;

	if (p == MAP_FAILED || madvise(p, PAGE, MADV_DONTDUMP))
		return 1;
	emit(p, 3, 1);
	emit(p + 5 * PAGE - 4, 5, 2);	/* across two pages */
	wait_for_reader(p);
	bad |= call(p, 1) | call(p + 5 * PAGE - 4, 2);
	emit(p + 128, 1, 3);		/* behind it */
	wait_for_reader(p);
	bad |= call(p + 128, 3) | call(p, 1);
	wait_for_reader(p);	/* what was replaced since it last ran is not known */
	emit(p, 9, 4);			/* in its place */
	wait_for_reader(p);
	bad |= call(p, 4);
	pid = fork();
	if (!pid) {
		bad |= call(p, 4);
		emit(p + 256, 2, 5);
		wait_for_reader(p);
		_exit(bad | call(p + 256, 5));
	}
	emit(p + 256, 7, 6);
	wait_for_reader(p);
	bad |= call(p + 256, 6);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		bad = 1;
	return bad;
}
