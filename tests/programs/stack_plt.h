/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stack_plt_lazy.c and stack_plt_now.c are.
 */
#include "stack_truth.h"

int lib_add(int a, int b);
int lib_apply(int (*f)(int), int n);
int lib_deep(int n);
int lib_back(int n);
int program_hook(int n);

static volatile int sink;

static int twice(int n)
{
	return lib_add(n, n);
}

int program_hook(int n)
{
	return lib_deep(n);
}

int main(void)
{
	for (int i = 0; i < 4; i++) {
		sink += lib_add(i, 1);
		sink += lib_apply(twice, i);
		sink += lib_deep(i);
		sink += lib_back(i);
	}
	puts("plt: all right");
	return 0;
}
