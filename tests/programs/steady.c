/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same instructions in every run, whatever its process ids, environment and
 * standard input are: 800,000 turns of branches and calls that cannot be predicted,
 * 1.1 MB of trace; then it waits for a line or the end of its input.
 */
#include <unistd.h>

static unsigned add(unsigned s, unsigned x) { return s + x; }
static unsigned mix(unsigned s, unsigned x) { return s ^ x << 3; }
static unsigned turn(unsigned s, unsigned x) { return s << 5 | (x & 31); }
static unsigned keep(unsigned s, unsigned x) { return x & 1 ? s : s + 1; }

static unsigned (*const volatile calls[])(unsigned s, unsigned x) = { add, mix, turn, keep };

int main(void)
{
	unsigned x = 1, s = 0;
	char c;

	for (unsigned i = 0; i < 800000; i++) {
		x = x * 1664525 + 1013904223;
		if (x & 1 << 16)
			s += x;
		if (x & 1 << 21)
			s ^= i;
		if (!(x & 7 << 25))
			s = calls[x >> 30](s, x);
	}
	while (read(0, &c, 1) == 1 && c != '\n')
		;
	return s == 1;
}
