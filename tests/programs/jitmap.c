/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * A JIT compiler that writes a perf map: code in anonymous memory, its names in
 * /tmp/perf-PID.map, among lines that are no entries. "fork": a forked child runs the
 * code once more. "away": the map is called PATH.away in the end. Its path is printed.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* mov %edi, %eax; inc %eax, so many times; ret */
static size_t make(uint8_t *p, size_t times)
{
	uint8_t *start = p;

	memcpy(p, "\x89\xf8", 2);
	for (p += 2; times--; p += 2)
		memcpy(p, "\xff\xc0", 2);
	*p++ = 0xc3;
	return (size_t)(p - start);
}

static int call(const uint8_t *p, int x)
{
	int (*f)(int);

	memcpy(&f, &p, sizeof(f));
	return f(x);
}

int main(int argc, char **argv)
{
	uint8_t *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long long at = (uintptr_t)code;
	char path[64];
	size_t size;
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	f = fopen(path, "w");
	if (code == MAP_FAILED || !f)
		return 1;
	size = make(code, 10);
	fprintf(f, "%llx 1000 map_old\nno entry\n\n%llx zz map_bad\n", at, at);
	fprintf(f, "%llx %zx map_first\n", at, size);
	make(code + 64, 10);
	fprintf(f, "0x%llx 0x%zx map second(int)\n", at + 64, size);
	fclose(f);
	for (int i = 0; i < 10; i++)
		call(code, call(code + 64, i));
	make(code + 512, 3);	/* only the old entry covers it */
	call(code + 512, 1);
	if (argc > 1 && !strcmp(argv[1], "fork") && !fork()) {
		make(code + 128, 5);
		_exit(call(code, call(code + 128, 1)) == 0);
	}
	while (wait(NULL) > 0)
		;
	puts(path);
	if (argc > 1 && !strcmp(argv[1], "away")) {
		char away[80];

		snprintf(away, sizeof(away), "%s.away", path);
		return rename(path, away) != 0;
	}
	return 0;
}
