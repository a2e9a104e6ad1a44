/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -O2 */
/*
 * Work for a measured time: a checksum by table, a sort through a callback and
 * a walk, the same on every run; about 20 million instructions a round.
 *
 *	bench [ROUNDS]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 65536

static uint32_t table[256], values[N];
static uint8_t bytes[N * 4];

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
		table[i] = c;
	}
}

static uint32_t checksum(const uint8_t *p, size_t n)
{
	uint32_t c = 0xffffffff;

	while (n--)
		c = c >> 8 ^ table[(c ^ *p++) & 255];
	return ~c;
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint32_t work(uint32_t seed)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < N; i++)
		values[i] = seed = seed * 1664525u + 1013904223u;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(values[i % N] >> 24);
	sum = checksum(bytes, sizeof(bytes));
	qsort(values, N, sizeof(values[0]), compare);
	for (size_t i = 1; i < N; i++)
		if ((values[i] ^ values[i - 1]) & 16)
			sum += values[i];
	return sum;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? strtol(argv[1], NULL, 0) : 1;
	uint32_t sum = 1;

	make_table();
	while (rounds-- > 0)
		sum = work(sum);
	printf("bench: %08x\n", sum);
	return 0;
}
