/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O2 -fno-omit-frame-pointer -pthread */
/*
 * Tail calls: direct, indirect, mutual, conditional, in the callee of a loop, from a
 * function that was tail called itself, and through a pointer table (an interpreter).
 */
#include "stack_truth.h"

static volatile int sink;

#define CALLED NOINLINE __attribute__((noipa))

static CALLED void leaf(int n)
{
	ENTER(leaf);
	sink += n;
}

static CALLED void direct(int n)
{
	ENTER(direct);
	leaf(n + 1);
}

static void (*volatile const to_leaf)(int) = leaf;

static CALLED void indirect(int n)
{
	ENTER(indirect);
	to_leaf(n);
}

static CALLED void pong(int n);

static CALLED void ping(int n)
{
	ENTER(ping);
	if (n)
		pong(n - 1);
	else
		direct(n);
}

static CALLED void pong(int n)
{
	ENTER(pong);
	if (n)
		ping(n - 1);
}

/* A plain call first, then one in its own place. */
static CALLED void both(int n)
{
	ENTER(both);
	ping(n);
	leaf(n);
	indirect(n);
}

static CALLED int grow(int n)
{
	ENTER(grow);
	if (n == 0)
		return 1;
	both(n);
	n = grow(n - 1);
	leaf(n);
	return n + 1;
}

struct machine {
	const unsigned char *code;
	int acc;
};
typedef void op(struct machine *m);
static op do_add, do_sub, do_call, do_end;
static op *const ops[] = { do_add, do_sub, do_call, do_end };

#define NEXT(m) ops[*(m)->code++](m)

static CALLED void do_add(struct machine *m)
{
	ENTER(do_add);
	m->acc++;
	NEXT(m);
}

static CALLED void do_sub(struct machine *m)
{
	ENTER(do_sub);
	m->acc--;
	NEXT(m);
}

static CALLED void do_call(struct machine *m)
{
	ENTER(do_call);
	leaf(m->acc);
	NEXT(m);
}

static CALLED void do_end(struct machine *m)
{
	ENTER(do_end);
	sink += m->acc;
}

static CALLED void interpret(void)
{
	static const unsigned char code[] = { 0, 0, 1, 2, 0, 2, 1, 1, 2, 3 };
	struct machine m = { .code = code };

	ENTER(interpret);
	NEXT(&m);
	leaf(m.acc);
}

int main(void)
{
	ENTER(main);
	for (int i = 0; i < 4; i++) {
		direct(i);
		indirect(i);
		ping(i);
		both(i);
	}
	sink += grow(4);
	interpret();
	interpret();
	puts("tail: all right");
	return 0;
}
