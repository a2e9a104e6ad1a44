/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -shared -fPIC */
/*
 * The object that dlopen.c loads and unloads.
 */
int dlobj_work(int n);

int dlobj_work(int n)
{
	int i, x = 0;

	for (i = 0; i < n; i++)
		x += i & 1 ? i : -i;
	return x;
}
