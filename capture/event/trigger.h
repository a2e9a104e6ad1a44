/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trigger: moments that a recording waits for, as --when names them:
 *
 *	FUNCTION		a function begins
 *	FUNCTION > 200us	a call of it has returned that took longer
 *	FILE:LINE		a line of a source begins
 *	usdt:PROVIDER:NAME	a probe that the program has built in
 *	signal=SEGV		a thread gets the signal
 *	signal=crash, crash	one that ends its process with a core file
 *	signal=exit, exit	a process ends
 *	signal=oom		the kernel kills a process for want of memory
 *	SUBSYSTEM:NAME[/FILTER/]	a tracepoint, of the kernel's sources, as are:
 *	kprobe:FUNCTION[+OFFSET][/FILTER/] [> 1ms]	a function of the kernel
 *	page-faults		and other events that the kernel counts by software
 *	mem:ADDRESS[/LENGTH][:ACCESS]	a breakpoint of the CPU
 *
 * FUNCTION is the name as the file has it or as the source has it (C++, with or without
 * arguments), a glob, an extended regular expression between slashes, or 0xADDRESS as
 * linked; " @ FILE" means that file's alone, by its path or last part, else it is any file
 * that a process maps (an address: the program).
 */
#ifndef CAPTURE_EVENT_TRIGGER_H
#define CAPTURE_EVENT_TRIGGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

#define TRIGGERS_MAX 32

enum trigger_kind {
	TRIGGER_FUNCTION, TRIGGER_LINE, TRIGGER_USDT, TRIGGER_SIGNAL, TRIGGER_CRASH,
	TRIGGER_EXIT, TRIGGER_OOM, TRIGGER_EVENT, TRIGGER_COUNTER, TRIGGER_KPROBE,
};

struct trigger {
	const char *text;	/* as given, the caller's */
	enum trigger_kind kind;
	char *name;		/* FUNCTION, and KPROBE; NULL: addr; the file of a LINE;
				 * PROVIDER:NAME of USDT */
	char *path;		/* NULL: any file */
	uint64_t addr;		/* or what is added to a KPROBE */
	unsigned line;
	uint64_t longer_ns;	/* 0: when it begins */
	int signo;		/* SIGNAL */
	char *filter;		/* EVENT and COUNTER, whose name is in name; NULL: none */
};

struct triggers {
	struct trigger v[TRIGGERS_MAX];
	size_t n;
	uint64_t count;		/* how many moments are taken; 0: all */
	uint64_t cooldown_ns;	/* none so soon after the one before */
	uint64_t delay_ns;	/* a snapshot is taken so much later */
};

/* Adds one; -AUX_E_INVAL with a text that says what it may be, -AUX_E_NOMEM. */
int trigger_add(struct triggers *t, const char *text, struct aux_diag *diag);
void triggers_fini(struct triggers *t);

/* One that lies in files which processes map. */
bool trigger_in_file(const struct trigger *tr);

/* A place that the trigger names, in a file. */
struct trigger_place {
	uint64_t offset;
	uint64_t semaphore;	/* of USDT: where it counts who looks; 0: none */
};
struct trigger_places {
	struct trigger_place *v;
	size_t n, cap;
};
/*
 * Where the trigger's functions, lines or probes are in a file: into *v, whose array is the
 * caller's. path: as the process has it; file: where we find it. program: it is a process's
 * own, of which an address is meant. 0 or -AUX_E_NOMEM; a file that cannot be read has none.
 */
int trigger_places(const struct trigger *tr, const char *path, const char *file,
		   bool program, struct trigger_places *v);
/*
 * The same for the kernel: a tracepoint and its filter, as -e and --filter have them, into
 * buffers. False: it is none, but a probe.
 */
bool trigger_tracepoint(const struct trigger *tr, char *event, size_t event_len,
			char *filter, size_t filter_len);
/* "parse > 200us: 4711/4712 on cpu 1 at 12.345678901, took 251.004 us" */
#define TRIGGER_LABEL 256
struct trigger_moment {
	uint64_t time_ns, took_ns;	/* took: of a call; 0: it is none */
	uint32_t pid, tid, cpu;
};
void trigger_label(const struct trigger *tr, const struct trigger_moment *m,
		   char text[TRIGGER_LABEL]);
/* Whether the signal ends a process with a core file unless it is caught. */
bool trigger_is_fatal(int signo);

#endif
