/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O1 -fno-inline -lpthread */
/*
 * Moments to wait for: hits (1,000 calls of a function, in two threads), slow (one of
 * 10,000 calls takes long), stalls (one of them sleeps), jumps (calls that are left by
 * longjmp, and recursion), turns (1,000 times a call, a system call that nothing else makes,
 * and a signal), forks (a child, and a program that it starts), waits (three calls,
 * when there is something to read), sales (50 times one USDT probe, and 25 times one that is
 * only come to when its semaphore says that someone looks).
 */
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;

namespace shop {
struct till {
	void ring(unsigned n);
};

__attribute__((noinline)) void till::ring(unsigned n)
{
	sink = sink + n;
}
}

__attribute__((noinline)) static void work(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sink = sink * 31 + i;
}

extern "C" __attribute__((noinline)) void serve(unsigned i)
{
	work(i == 7777 ? 100000 : 10);
}

extern "C" __attribute__((noinline)) void stall(unsigned i)
{
	work(10);
	if (i == 7777)
		usleep(300000);
}

/* Notes as sys/sdt.h makes them. */
__asm__(".pushsection .probes, \"aw\"\nshop_refund_semaphore: .short 0\n.popsection\n"
	".hidden shop_refund_semaphore\n.globl shop_refund_semaphore\n"
	".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"
	".size _.stapsdt.base, 1\n.popsection\n");
#define PROBE(name, semaphore)								\
	__asm__ volatile("990: nop\n"							\
		".pushsection .note.stapsdt, \"\", \"note\"\n.balign 4\n"		\
		".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n" \
		"993: .8byte 990b, _.stapsdt.base, " semaphore "\n"			\
		".asciz \"shop\"\n.asciz \"" name "\"\n.asciz \"\"\n994: .balign 4\n"	\
		".popsection\n" : : : "memory")

extern "C" __attribute__((visibility("hidden"))) volatile unsigned short shop_refund_semaphore;

static void sales()
{
	for (unsigned i = 0; i < 50; i++) {
		PROBE("sale", "0");
		if (i % 2 && shop_refund_semaphore)
			PROBE("refund", "shop_refund_semaphore");
	}
}

static void stalls()
{
	for (unsigned i = 0; i < 10000; i++)
		stall(i);
}

static void waits()
{
	char byte;

	if (read(0, &byte, 1) == 1)
		for (unsigned i = 0; i < 3; i++)
			serve(i);
}

static void *hits(void *arg)
{
	shop::till t;

	for (unsigned i = 0; i < 500; i++) {
		t.ring(i);
		work(20);
	}
	return arg;
}

static void on_signal(int)
{
	sink = sink + 1;
}

static void turns()
{
	shop::till t;

	signal(SIGUSR1, on_signal);
	for (unsigned i = 0; i < 1000; i++) {
		t.ring(i);
		kill(getpid(), 0);
		raise(SIGUSR1);
	}
}

static jmp_buf out;

extern "C" __attribute__((noinline)) void leaves(unsigned n)
{
	work(n);
	longjmp(out, 1);
}

extern "C" __attribute__((noinline)) unsigned again(unsigned n)
{
	unsigned v = n ? again(n - 1) : 0;

	work(1000);
	return v + 1;
}

/* Left once; then calls that are fast; then seven in each other, of which each takes longer
 * than the one inside of it. */
static void jumps()
{
	if (!setjmp(out))
		leaves(5000);
	for (unsigned i = 0; i < 10; i++)
		serve(i);
	sink = again(6);
}

static void forks(const char *self)
{
	if (!fork()) {
		serve(1);
		execl(self, self, "child", (char *)nullptr);
		_exit(1);
	}
	wait(nullptr);
	serve(2);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "hits";
	pthread_t t;

	if (!strcmp(how, "hits") && !pthread_create(&t, nullptr, hits, nullptr)) {
		hits(nullptr);
		pthread_join(t, nullptr);
	}
	for (unsigned i = 0; !strcmp(how, "slow") && i < 10000; i++)
		serve(i);
	if (!strcmp(how, "turns"))
		turns();
	if (!strcmp(how, "jumps"))
		jumps();
	if (!strcmp(how, "forks"))
		forks(argv[0]);
	if (!strcmp(how, "stalls"))
		stalls();
	if (!strcmp(how, "waits"))
		waits();
	if (!strcmp(how, "sales"))
		sales();
	if (!strcmp(how, "child"))
		serve(3);
	return 0;
}
