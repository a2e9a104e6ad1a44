/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of codesave share. codesave_note.c: what records tell;
 * codesave.c: what there is to look at, and when; codesave_read.c: looking at
 * one range; codesave_kernel.c: the kernel.
 */
#ifndef CAPTURE_DESCRIBE_CODESAVE_IMPL_H
#define CAPTURE_DESCRIBE_CODESAVE_IMPL_H

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "capture/describe/codesave.h"
#include "capture/event/perfclock.h"

#define CODE_PAGE 4096u

/* What a page held when it was looked at; shared with forked children. */
struct code_copy {
	uint32_t n_refs;
	uint8_t bytes[CODE_PAGE];
};

/* Executable memory that no file has. */
struct code_range {
	uint64_t addr, len;	/* whole pages */
	uint64_t look_ns;	/* of the last look, or when it was mapped */
	uint32_t pid;
	uint32_t kind;		/* enum aux_code_kind */
	bool gone;
	struct code_copy **pages;	/* NULL: never seen */
};

enum code_note_kind { NOTE_MAP = 1, NOTE_FORK, NOTE_DROP, NOTE_KERNEL, NOTE_DUMP };

/* What a record told, until the next look. */
struct code_note {
	uint8_t kind;		/* enum code_note_kind */
	uint8_t code;		/* enum aux_code_kind; 0: from a file */
	uint32_t pid, ppid;
	uint64_t addr, len, time_ns;
	char *path;		/* NOTE_DUMP */
};

struct code_dump {
	char *path;
	uint32_t pid;
};

struct codesave {
	struct codesave_config config;
	struct codesave_stats stats;
	pthread_mutex_t looking;	/* of all but the next lines */
	pthread_mutex_t lock;	/* of what follows, up to the empty line */
	pthread_cond_t wake;
	bool running, stop;
	struct code_note *notes;
	size_t n_notes, cap_notes;
	uint64_t noted_ms;	/* CLOCK_MONOTONIC: when the first came */
	bool lost_notes;

	pthread_t thread;
	struct perfclock clock;
	struct writer *w;
	int error;	/* the first */
	struct code_range *ranges;
	size_t n_ranges, cap_ranges;
	struct code_dump *dumps;
	size_t n_dumps, cap_dumps;
	uint64_t due_ms;	/* CLOCK_MONOTONIC: when to look again */
	uint64_t free_ms;	/* and before when not to, for new memory either */
	uint64_t pause_ms;	/* between two looks that found nothing */
	uint8_t *buf;
};

/* Bytes of the kernel, from kcore; what cannot be read is left out. */
int codesave_read_kernel(const char *proc, struct writer *w, uint64_t addr,
			 uint64_t len, uint64_t time_ns, uint64_t *n_unsaved);
/* A file in parts; what cannot be read is left out. pid -1: the kernel's. */
int codesave_file(struct writer *w, const char *path, const char *name,
		  uint32_t pid);

static inline void code_copy_put(struct code_copy *c)
{
	if (c && !--c->n_refs)
		free(c);
}

#endif
