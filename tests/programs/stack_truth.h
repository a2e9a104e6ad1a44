/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack_truth.h: what calls a program made, as its own hooks saw them.
 *
 * Each stack_* program includes this once. With -finstrument-functions every
 * function reports where it begins and returns; without (tail calls, bare throw)
 * functions say ENTER() themselves. An event has the function, the thread and the
 * bounds of the frame: its CFA, and the stack pointer while the hook runs. From these
 * tools/callcmp.c knows which frames are alive, whatever longjmp or throw did.
 * At the end all is appended to the file $STACK_TRUTH.PID.
 *
 * Needs -fno-omit-frame-pointer -fno-optimize-sibling-calls (but not where ENTER is).
 */
#ifndef TESTS_PROGRAMS_STACK_TRUTH_H
#define TESTS_PROGRAMS_STACK_TRUTH_H

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_HOOK	 __attribute__((no_instrument_function))
#define NOINLINE __attribute__((noinline, noclone))

enum truth_kind {
	TRUTH_START = 1,	/* a program begins: no frames in this process */
	TRUTH_ENTER,
	TRUTH_EXIT,
	TRUTH_SIGNAL_STACK,	/* fn to cfa: its frames are above the others */
	TRUTH_FIBER_STACK,	/* fn to cfa: a stack of its own */
};

struct truth_event {
	uint64_t fn, cfa, sp;
	uint32_t tid, kind;
};

#ifndef TRUTH_HEADER_ONLY
#pragma GCC diagnostic ignored "-Wframe-address"

#define TRUTH_MAX 65536

static struct truth_event truth_events[TRUTH_MAX];
static uint32_t truth_n;

#ifdef __cplusplus
extern "C" {
#endif
NO_HOOK void __cyg_profile_func_enter(void *fn, void *site);
NO_HOOK void __cyg_profile_func_exit(void *fn, void *site);
NO_HOOK NOINLINE void truth_enter(void *fn);
#ifdef __cplusplus
}
#endif

NO_HOOK static inline void truth_log(uint32_t kind, uint64_t fn, uint64_t cfa,
				     uint64_t sp)
{
	uint32_t i = __atomic_fetch_add(&truth_n, 1, __ATOMIC_RELAXED);
	struct truth_event *e = &truth_events[i];

	if (i >= TRUTH_MAX)
		abort();
	e->fn = fn;
	e->cfa = cfa;
	e->sp = sp;
	e->tid = (uint32_t)syscall(SYS_gettid);
	e->kind = kind;
}

#define TRUTH_FRAME                                           \
	(uint64_t)(uintptr_t)__builtin_frame_address(1) + 16, \
		(uint64_t)(uintptr_t)__builtin_frame_address(0) + 16

void __cyg_profile_func_enter(void *fn, void *site)
{
	(void)site;
	truth_log(TRUTH_ENTER, (uint64_t)(uintptr_t)fn, TRUTH_FRAME);
}

void __cyg_profile_func_exit(void *fn, void *site)
{
	(void)site;
	truth_log(TRUTH_EXIT, (uint64_t)(uintptr_t)fn, TRUTH_FRAME);
}

void truth_enter(void *fn)
{
	truth_log(TRUTH_ENTER, (uint64_t)(uintptr_t)fn, TRUTH_FRAME);
}
#define ENTER(fn) truth_enter((void *)(uintptr_t)(fn))

NO_HOOK static inline void truth_stack(enum truth_kind kind, void *base,
				       size_t size)
{
	uint64_t from = (uint64_t)(uintptr_t)base;

	truth_log(kind, from, from + size, 0);
}

NO_HOOK static void truth_begin(void)
{
	truth_n = 0;
	truth_log(TRUTH_START, 0, 0, 0);
}

/* To append to this process's file; -1: none is wanted. */
NO_HOOK static int truth_open(void)
{
	const char *name = getenv("STACK_TRUTH");
	char path[4096];
	int fd;

	if (!name)
		return -1;
	snprintf(path, sizeof(path), "%s.%d", name, (int)getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0)
		abort();
	return fd;
}

/* Writes what there is; a process that ends by _exit or exec calls it itself. */
NO_HOOK static __attribute__((destructor)) void truth_write(void)
{
	size_t len = truth_n * sizeof(truth_events[0]);
	int fd = truth_open();

	if (fd < 0)
		return;
	if (write(fd, truth_events, len) != (ssize_t)len)
		abort();
	close(fd);
	truth_n = 0;
}

/*
 * Writes what this thread made, and takes it out: for a child of vfork before it
 * runs another program. (Its memory may be its parent's, or a copy of it.)
 */
NO_HOOK static inline void truth_write_mine(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid), kept = 0, n = truth_n;
	int fd = truth_open();

	if (fd < 0)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct truth_event *e = &truth_events[i];

		if (e->tid != tid)
			truth_events[kept++] = *e;
		else if (write(fd, e, sizeof(*e)) != sizeof(*e))
			abort();
	}
	close(fd);
	truth_n = kept;
}

NO_HOOK static __attribute__((constructor)) void truth_init(void)
{
	truth_begin();
	pthread_atfork(NULL, NULL, truth_begin);
}
#endif
#endif
