/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -fno-omit-frame-pointer -fno-inline -pthread */
/*
 * A throw through activations of one function of which only some catch: which
 * one it lands in, only the tables of the unwinder tell.
 */
#include "stack_truth.h"

static volatile int sink;

static NOINLINE void leaf(int n)
{
	ENTER(leaf);
	sink += n;
}

static NOINLINE void some(int n)
{
	ENTER(some);
	if (n == 0)
		throw 1;
	if (n % 4) {
		some(n - 1);
	} else {
		try {
			some(n - 1);
		} catch (int v) {
			leaf(v);
		}
	}
	leaf(n);
}

int main()
{
	ENTER(main);
	some(11);
	leaf(100);
	puts("throw_some: all right");
	return 0;
}
