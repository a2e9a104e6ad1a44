/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_firefox: what firefox.c collects and firefox_file.c writes.
 */
#ifndef DECODE_EXPORT_FIREFOX_H
#define DECODE_EXPORT_FIREFOX_H

#include "decode/export/export.h"
#include "decode/lib/trace/gap.h"

#define NO_INDEX UINT32_MAX

/* meta.categories, of frames and markers. */
enum firefox_category {
	CAT_OTHER = 0,		/* the default one: must be grey */
	CAT_USER,
	CAT_KERNEL,
	CAT_JIT,
	CAT_OFF_CPU,
	CAT_UNTRACED,
	CAT_LOST,
	CAT_VALUES,
};

/* A frame of the format: a function, or what is none (func: NO_INDEX). Frames
 * that the flow does not prove are frames of their own. */
struct firefox_frame {
	uint32_t func;		/* of funcs */
	uint8_t category;
	bool guessed;
};

struct firefox_func {
	const struct export_name *name;
	const struct call_func *call;	/* NULL: it is none */
};

/* A file that functions are from. */
struct firefox_lib {
	const char *path;
	uint8_t build_id[20];
	uint8_t build_id_size;
	uint32_t resource_name;
};

/* A row of nativeSymbols; frames point to it. */
struct firefox_native {
	uint32_t lib, name;
	uint64_t address, size;
};

enum firefox_column {
	MARK_NAME, MARK_START, MARK_END, MARK_PHASE, MARK_CATEGORY, MARK_DATA,
	N_MARK_COLUMNS,
};

/* What becomes of an interval: see emit(). */
struct firefox_sample {
	uint32_t stack;		/* number + 1; 0: none */
	uint64_t at, weight;
	bool is_on;		/* a CPU */
};

/* A thread: all tracks of its stacks share one. */
struct firefox_thread {
	struct export_piece *stack, *delta, *weight, *cpu;
	uint64_t n_samples;
	struct export_piece *marks[N_MARK_COLUMNS];
	uint64_t n_marks;
	struct call_count last;	/* what is in samples so far */
	struct firefox_track *active;	/* the stack that it is in */
	struct firefox_sample pending;
	bool seen, has_pending, was_on;
	uint64_t first, previous;	/* times of the first, the last written */
};

/* export_track.user */
struct firefox_track {
	struct firefox_thread *thread;
	uint32_t stack;		/* number + 1 of the stack; 0: nothing runs */
	uint32_t n_folded;	/* frames inside of "[folded]" */
	const struct export_name *gap;	/* covers the stack; NULL: none */
	uint64_t gap_ns;
};

/* A counter of a schema, in one process. */
struct firefox_counter {
	const struct export_name *name;
	const struct export_track *track;	/* where it was met */
	struct export_piece *delta, *count;
	uint64_t n, first, previous;
	int64_t first_value, value;
};

struct firefox {
	struct export *x;
	struct export_spool *spool;
	struct outbuf *text;	/* of one marker */
	struct export_map frame_map;	/* function or name, guessed */
	struct export_map stack_map;	/* (stack below, frame) */
	struct export_map lib_map, counter_map;
	struct export_ids strings, func_of, name_of;	/* one more; 0: none */
	struct firefox_frame *frames;
	struct firefox_func *funcs;
	struct firefox_lib *libs;
	struct firefox_native *natives;
	struct firefox_counter *counters;
	const struct export_name **names;	/* stringArray */
	size_t n_names, max_names, n_funcs, max_funcs, n_frames, max_frames,
		n_libs, max_libs, n_natives, max_natives, n_counters,
		max_counters;
	const struct export_name *off_cpu, *untraced[UNTRACED_N], *gap, *folded;
	uint64_t n_gaps[GAP_N_CAUSES];
	uint64_t base;		/* time 0 of the file */
	bool has_base, by_insns;
	bool untimed;		/* samples so far: no time was known for them */
	bool nomem;		/* a row is missing: sticky */
};

/* The index in stringArray. */
uint32_t firefox_string(struct firefox *f, const struct export_name *name);
enum firefox_category firefox_category_of(const struct call_func *c);
/* Time 0 is the first that is shown: what is before it, if anything, is cut
 * off. */
uint64_t firefox_after_base(struct firefox *f, uint64_t ns);
/* Nanoseconds as milliseconds, all digits: "12e-6"; returns its end. */
char *firefox_fmt_ms(char *p, uint64_t ns);
void firefox_put_u64(struct outbuf *out, uint64_t v);

/* A marker: its data begins, its fields follow, and all of it goes into the
 * columns of the thread. from and to are the same of an instant. */
struct outbuf *firefox_begin_mark(struct firefox *f, const char *type);
int firefox_end_mark(struct firefox *f, struct firefox_thread *th,
		     const struct export_name *name,
		     enum firefox_category category, uint64_t from,
		     uint64_t to);

/* The whole file, when all is collected. */
int firefox_write(struct firefox *f);

#endif
