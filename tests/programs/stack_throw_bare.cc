/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -fno-omit-frame-pointer -fno-inline -pthread */
/*
 * C++ exceptions that leave many frames at once: no cleanups on the way, so control
 * goes straight from the unwinder to where it is caught.
 */
#include <stdexcept>

#include "stack_truth.h"

static volatile int sink;

static NOINLINE void leaf(int n)
{
	ENTER(leaf);
	sink += n;
}

static NOINLINE void dig(int n)
{
	ENTER(dig);
	if (n == 0)
		throw 1;
	dig(n - 1);
	leaf(n);
}

static NOINLINE void ping(int n);

static NOINLINE void pong(int n)
{
	ENTER(pong);
	if (n == 0)
		throw std::runtime_error("pong");
	ping(n - 1);
	leaf(n);
}

static NOINLINE void ping(int n)
{
	ENTER(ping);
	pong(n);
	leaf(n);
}

/* All activations catch: the nearest one gets it. */
static NOINLINE void nearest(int n)
{
	ENTER(nearest);
	try {
		if (n)
			nearest(n - 1);
		dig(n);
	} catch (int v) {
		leaf(v);
	}
	leaf(n);
}

/* Each catches and throws again, from one activation to the next. */
static NOINLINE void relay(int n)
{
	ENTER(relay);
	try {
		if (n)
			relay(n - 1);
		else
			dig(2);
	} catch (int v) {
		leaf(v);
		if (n < 4)
			throw;
	}
	leaf(n);
}

int main()
{
	ENTER(main);
	for (int i = 0; i < 5; i++) {
		try {
			dig(10 * i);
		} catch (int) {
			leaf(i);
		}
	}
	for (int i = 0; i < 3; i++) {
		try {
			ping(i);
		} catch (const std::exception &) {
			leaf(i);
		}
	}
	nearest(4);
	relay(6);
	puts("throw_bare: all right");
	return 0;
}
