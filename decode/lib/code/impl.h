/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of codeview share. cv->lock guards all tables; functions to be
 * called with it held say so. Sources, modules and images are never freed
 * before the view, so pointers to them may be used without the lock.
 */
#ifndef DECODE_LIB_CODE_IMPL_H
#define DECODE_LIB_CODE_IMPL_H

#include <pthread.h>

#include "decode/lib/code/code.h"
#include "decode/lib/elf/elf.h"
#include "decode/lib/elf/kallsyms.h"
#include "decode/lib/sideband/sideband.h"

#define CODEVIEW_ID_TEXT (2 * 20 + 1)

struct file_id {
	uint8_t bytes[20];
	uint8_t size;		/* 0: no id */
};

/* A recorded path and build id, and the file that stands for it. */
struct source {
	struct source *next;
	char *name;		/* as recorded */
	struct file_id id;	/* as recorded */
	uint8_t kind;		/* enum mapping_kind */
	char *path;		/* on this machine; while there is no image,
				 * the first place that was looked at */
	struct elfimage *image;	/* NULL: see error */
	int error;		/* -AUX_E_*: NOENT, FORMAT: another id, .. */
	char *other;		/* a file that was refused, and its id */
	struct file_id other_id;
	struct module *modules;	/* an object file, at each load address */
	bool nomem;		/* a place was not looked at */
};

/* An object file (a kernel module) laid out at one address. */
struct module {
	struct module *next;
	uint64_t base;
	struct elfmodule *code;	/* NULL: it failed */
	bool nomem;		/* for want of memory */
};

/* What was found for one mapping of the timeline. */
struct place {
	const struct mapping *m;
	struct source *source;		/* NULL: no file */
	struct elfmodule *module;	/* NULL: the file is no object */
};

/* A whole saved mapping that is an ELF image: the vdso, for its names. */
struct saved_image {
	struct saved_image *next;
	const uint8_t *bytes;
	struct elfimage *image;
};

struct known_id {
	const char *path;
	struct file_id id;
};

/* A file that the recording itself has (AUX_OWN_FILE). */
struct own_file {
	const char *path;
	uint32_t path_len, pid;
	uint8_t *bytes;
	uint64_t len;
	uint64_t total;		/* bytes of the file it was; 0: unknown */
};

/* A process whose JIT compiler logged what it made. */
struct jit_marker {
	uint32_t pid;
	const char *path;	/* of the log, as recorded */
};

struct fork {
	uint32_t pid, ppid;	/* ppid -1: pid has run exec */
};

/* What the user should know of the origin of code. */
struct code_note {
	char *text;
	enum aux_why why;
};

struct codeview {
	pthread_mutex_t lock;
	char *symfs, *vdso, *cache, *vmlinux, *kcore, *kallsyms;
	bool symfs_is_file, debuginfod;
	bool nomem;		/* something could not be looked up for want of
				 * memory */
	bool closed;		/* a bundle: this machine's files are not used
				 * unless symfs names them */
	const char *release;	/* of the recorded kernel; may be NULL */
	const char *own_dir;	/* its files belong to the recording; NULL: none */
	struct source *sources;
	struct place **places;	/* hashed by mapping */
	size_t n_places, cap_places;
	struct saved_image *saved;
	uint8_t *uprobes;	/* what stands for the kernel's page; NULL: not asked */
	bool is_a64;		/* recorded there */
	struct known_id *ids;	/* AUX_FEAT_BUILD_ID, by path */
	size_t n_ids;
	/* the memfd with all saved code, see mapping.saved_offset */
	char saved_path[64];	/* "": nothing is saved, or it is incomplete */
	int saved_fd;
	bool saved_broken;	/* a piece could not be written */
	struct bundle_symbols *names;	/* of a bundle; NULL: none */
	struct own_file *own;
	size_t n_own, cap_own;
	struct kernel_code *kernel;	/* kernel.c; NULL: not asked */
	struct jit_marker *markers;
	size_t n_markers, cap_markers;
	struct fork *forks;
	size_t n_forks, cap_forks;
	bool jit_clock;		/* perf clock is CLOCK_MONOTONIC */
	bool virtual_clock;
	struct jits *jits;	/* jit.c */
	struct jitmaps *maps;	/* jitmap.c; NULL: not asked yet */
	struct debuginfod *fetch;	/* find.c; NULL: not asked yet */
	struct code_note *notes;
	size_t n_notes, cap_notes;
};

/* codeview.c: adds a note, unless there is an equal one. */
void codeview_add_note(struct codeview *cv, enum aux_why why, const char *fmt,
		       ...) __attribute__((format(printf, 3, 4)));
bool codeview_is_vdso(const char *name);
/* Only a path names a file: not "[heap]", "//anon", "anon_inode:..", "". */
bool codeview_is_file(const char *name);
/* "ab01..", or "none" */
const char *codeview_id_text(const struct file_id *id,
			     char text[CODEVIEW_ID_TEXT]);
/* lookup.c: the place of a mapping; NULL: out of memory. Acquires the lock. */
struct place *codeview_place(struct codeview *cv, const struct space *space,
			     const struct mapping *m);

/* codeview.c: whether the name at ip is one that a JIT compiler logged. */
bool codeview_is_jit(struct codeview *cv, const struct space *space,
		     const struct mapping *m, uint64_t ip);

/* records.c: ids, files and logs that the recording names. */
int codeview_read_records(struct codeview *cv, struct aux_reader *r);
/* The own file of a path, of this process if several have one there
 * (containers); NULL: none. */
const struct own_file *codeview_own(const struct codeview *cv, const char *path,
				    uint32_t pid);
/* The first own file whose name ends so, of the kernel. */
const struct own_file *codeview_own_kernel(const struct codeview *cv,
					   const char *end);

/* find.c: fills s->image, or s->error and s->other. pid: a process that mapped
 * it; 0: none. Called with the lock held. */
void codeview_find(struct codeview *cv, struct source *s, uint32_t pid);

void codeview_fetch_free(struct debuginfod *d);

/* kernel.c: for MAPPING_KERNEL, _MODULE and _KSYMBOL. */
int codeview_kernel_code(struct codeview *cv, const struct space *space,
			 const struct mapping *m, uint64_t ip,
			 struct aux_code *code);
int codeview_kernel_symbol(struct codeview *cv, const struct space *space,
			   const struct mapping *m, uint64_t ip,
			   struct symbol *sym);
/* The image with ip, ip's offset in it, and how far it was moved from where it
 * was linked; false: none. */
bool codeview_kernel_image(struct codeview *cv, const struct space *space,
			   const struct mapping *m, uint64_t ip,
			   struct elfimage **im, uint64_t *offset,
			   uint64_t *shift);
/* Fills c->kernel and c->no_kallsyms. */
void codeview_kernel_cause(struct codeview *cv, const struct space *space,
			   struct code_cause *c);
void codeview_kernel_free(struct kernel_code *k);
/* The address of a global symbol of the kernel, 0: unknown. */
uint64_t codeview_kernel_address(void *cv, const char *name);
/* Opens what was given; before modules are. */
void codeview_kernel_open(struct codeview *cv, const struct space *space);

/* Code that a JIT compiler logged. */
struct jit_hit {
	const char *name;
	uint64_t sym_start, sym_size;
	uint64_t start, end;	/* the part of it that was there */
	const uint8_t *bytes;	/* at start; NULL: one of several, unknown which */
	uint64_t time;		/* when it was made; UINT64_MAX: unknown */
	const char *log;	/* as recorded */
	const char *path;	/* the log on this machine; NULL: it is in the
				 * recording */
	uint64_t offset;	/* of bytes in the log */
};

/* jit.c: the logged code at ip of a space of codeview_space; m: what is
 * mapped there, or NULL. */
bool codeview_jit_find(struct codeview *cv, const struct space *space,
		       const struct mapping *m, uint64_t ip,
		       struct jit_hit *hit);
/* Narrows [*start, *end) around ip to what is not logged code. */
void codeview_jit_clip(struct codeview *cv, const struct space *space,
		       uint64_t ip, uint64_t *start, uint64_t *end);
/* A log of the process that was not found, as recorded; NULL: none. */
const char *codeview_jit_missing(const struct codeview *cv,
				 const struct space *space);
void codeview_jit_free(struct jits *jits);
/* The process that pid was forked from, unless it has run exec since;
 * UINT32_MAX: none is known. */
uint32_t codeview_parent(const struct codeview *cv, uint32_t pid);

/* jitmap.c: the name that a JIT compiler gave its code at ip of a process's
 * memory. */
bool codeview_map_find(struct codeview *cv, const struct space *space,
		       uint64_t ip, struct symbol *sym);
void codeview_map_free(struct jitmaps *maps);

/*
 * names.c: the names that a bundle brings along (AUX_OWN_SYMBOLS of
 * aux/extension.h).
 */
struct bundle_symbols;

/* Whether the file is a bundle: it needs no file of this machine. */
bool bundle_symbols_expected(const struct aux_reader *r);
/* All names in the file. NULL with rc 0: it has none. The reader outlives
 * it. */
int bundle_symbols_new(struct bundle_symbols **b, struct aux_reader *r);
void bundle_symbols_free(struct bundle_symbols *b);

/* The symbol at an offset of the file that m maps. 0 or -AUX_E_NOENT. */
int bundle_symbols_find(const struct bundle_symbols *b, const struct mapping *m,
			uint64_t offset, struct elfimage_symbol *sym);

#endif
