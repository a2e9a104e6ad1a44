/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/*
 * C++ exceptions with a hook in every frame (which is a cleanup: each frame of the
 * way is landed in): caught at several depths, rethrown, through recursive frames,
 * with destructors that run, and thrown out of a destructor's callee.
 */
#include <stdexcept>

#include "stack_truth.h"

static volatile int sink;

static void leaf(int n)
{
	sink += n;
}

struct guard {
	int n;
	explicit guard(int v) : n(v) {}
	~guard() { leaf(n); }
};

static void dig(int n, int kind)
{
	guard g(n);

	if (n == 0) {
		if (kind & 1)
			throw std::runtime_error("odd");
		throw kind;
	}
	dig(n - 1, kind);
	leaf(n);
}

static void middle(int n, int kind)
{
	try {
		dig(n, kind);
	} catch (int v) {
		leaf(v);
	}
	leaf(n);
}

static void again(int n)
{
	try {
		middle(n, 1);
	} catch (const std::runtime_error &) {
		leaf(1000);
		throw;
	}
}

static void layers(int n)
{
	if (n == 0)
		throw 5;
	try {
		layers(n - 1);
	} catch (int v) {
		leaf(v);
		if (n < 4)
			throw v + n;
	}
	leaf(n);
}

/* Only every third activation catches. */
static void some(int n)
{
	guard g(n);

	if (n == 0)
		throw 1L;
	if (n % 3) {
		some(n - 1);
	} else {
		try {
			some(n - 1);
		} catch (long) {
			leaf(n);
			if (n < 9)
				throw;
		}
	}
	leaf(n);
}

int main()
{
	for (int i = 0; i < 6; i++)
		middle(i, 2 * i);
	for (int i = 0; i < 4; i++) {
		try {
			again(i);
		} catch (const std::exception &) {
			leaf(i);
		}
	}
	layers(8);
	some(10);
	puts("throw: all right");
	return 0;
}
