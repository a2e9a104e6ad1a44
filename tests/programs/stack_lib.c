/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -shared -fPIC -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/*
 * The library of stack_plt_lazy.c and stack_plt_now.c: calls across its border in both
 * directions, and within itself by way of its own PLT.
 */
int lib_add(int a, int b);
int lib_apply(int (*f)(int), int n);
int lib_deep(int n);
int lib_back(int n);
int program_hook(int n);

int lib_add(int a, int b)
{
	return a + b;
}

int lib_apply(int (*f)(int), int n)
{
	return f(lib_add(n, 1));
}

int lib_deep(int n)
{
	return n ? lib_add(lib_deep(n - 1), 1) : 0;
}

int lib_back(int n)
{
	return program_hook(n) + lib_add(n, n);
}
