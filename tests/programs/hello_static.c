/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * Hello through stdio, linked statically: start-up code, ifuncs, one write.
 */
#include <stdio.h>

int main(void)
{
	printf("hello, %s\n", "static world");
	return 0;
}
