/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O1 */
/* host: x86_64 */
/* PTWRITE of a register and of memory, again and again: 3 times, or as often as it is told. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	uint64_t i, sum = 0, n = argc > 1 ? strtoul(argv[1], NULL, 10) : 3;

	for (i = 1; i <= n; i++) {
		uint64_t value = i % 100 * UINT64_C(0x1111111111111111);
		uint32_t small = (uint32_t)i << 8;

		__asm__ volatile("ptwriteq %0" : : "r"(value));
		sum += value;
		__asm__ volatile("ptwritel (%0)" : : "r"(&small), "m"(small));
	}
	printf("%llx\n", (unsigned long long)sum);
	return 0;
}
