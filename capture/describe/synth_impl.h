/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of synth_proc share. synth_proc.c: who there is; synth_maps.c:
 * what a process has mapped; synth_code.c: bytes that cannot be had later;
 * synth_kernel.c: the kernel and its modules.
 */
#ifndef CAPTURE_DESCRIBE_SYNTH_IMPL_H
#define CAPTURE_DESCRIBE_SYNTH_IMPL_H

#include "perfdata/buildid.h"
#include "capture/describe/synth_proc.h"

#define SYNTH_FILE_BUCKETS 256

/* Build ids are read once a file. */
struct synth_file {
	struct synth_file *next;
	uint64_t ino;
	uint32_t maj, min;
	uint8_t id[BUILDID_MAX];
	uint8_t id_size;
};

struct synth_run {
	struct writer *w;
	const struct synth_proc_options *o;
	struct synth_proc_result *r;
	const char *proc;
	uint64_t deadline_ns;	/* CLOCK_MONOTONIC; 0: none */
	uint64_t code_left;	/* bytes that may still be saved */
	uint8_t *buf;		/* for code, NULL until there is some */
	struct synth_file *files[SYNTH_FILE_BUCKETS];
	struct synth_range *ranges;
	size_t n_ranges, cap_ranges;
};

/* Code that no file will have. */
struct synth_range {
	uint64_t addr, len, pgoff;
	pid_t pid;
	uint32_t kind;		/* enum aux_code_kind */
	bool file;		/* mapped from one */
};

/* An executable (or data) mapping of a process. */
struct synth_vma {
	struct synth_map map;
	pid_t pid;
	bool deleted;
};

/* True from the deadline on; remembers it in the result. */
bool synth_run_late(struct synth_run *run);

/* Remembers v if no file has its bytes. */
int synth_code_note(struct synth_run *run, const struct synth_vma *v);
/* Saves what was noted, small ranges first: they are many, and a few large ones
 * use up time and space. Returns writer errors and -AUX_E_NOMEM only. */
int synth_code_save(struct synth_run *run);

/* The kernel's map, its modules' maps, their build ids. Writer errors only. */
int synth_kernel(struct synth_run *run);

#endif
