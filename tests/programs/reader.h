/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that go on when a recorder has read the code which they generated. */
#ifndef TESTS_PROGRAMS_READER_H
#define TESTS_PROGRAMS_READER_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_MS 50
#define READS 3			/* one may be under way, and a pause follows each */
#define LONGEST_MS 30000

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

#endif
