/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: the bytes and the names behind an address, at a time, in a process.
 *
 * Sources, in this order: code that the recording has (saved bytes, patches, BPF
 * programs), what a JIT compiler logged, the mapped file (under symfs, then by
 * build id in caches, in the container of a process that still runs, from
 * debuginfod), of the kernel kcore and vmlinux. Never the memory or the vdso of
 * the machine that decodes. A file whose build id differs from the recorded one is
 * refused, and both ids are named; found elsewhere than at its recorded path, it
 * needs the recorded id.
 */
#ifndef DECODE_LIB_CODE_CODE_H
#define DECODE_LIB_CODE_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/reader.h>

#include "decode/lib/elf/sourceline.h"
#include "decode/lib/sideband/sideband.h"

struct codeview;

/* Paths; NULL: none given. */
struct codeview_config {
	const char *symfs;	/* prefix for paths, or the one file */
	const char *vdso;	/* ELF file for [vdso] */
	const char *buildid_dir; /* perf's cache; NULL: $PERF_BUILDID_DIR, or
				 * ~/.debug; "": none */
	const char *vmlinux;	/* the kernel's ELF file */
	const char *kcore;	/* a copy of /proc/kcore, or a directory with
				 * kcore, kallsyms, modules */
	const char *kallsyms;	/* a copy of /proc/kallsyms */
	bool debuginfod;	/* ask the servers of $DEBUGINFOD_URLS */
};

/* The reader outlives the view. */
int codeview_new(struct codeview **cv, struct aux_reader *r,
		 const struct codeview_config *config, struct aux_diag *diag);
/* Saved code of records, as timeline_saved gives it: for decoders that want a
 * path. What fails leaves them without one. */
void codeview_save(struct codeview *cv, const struct saved_code *code);
void codeview_free(struct codeview *cv);

/*
 * As timeline_space, and where code of a JIT compiler took the place of other
 * such code, the part of it between two changes. Lives as long as the view.
 */
const struct space *codeview_space(struct codeview *cv,
				   const struct timeline *tl, uint32_t pid,
				   uint64_t time);

/* Bytes around ip in a space. 0, or -AUX_E_NOENT. Pointers live as cv does. */
int codeview_code(struct codeview *cv, const struct space *space, uint64_t ip,
		  struct aux_code *code);

struct symbol {
	const char *name;	/* demangling is the sink's; NULL: none known */
	uint64_t start;		/* runtime address of the symbol */
	uint64_t size;
	const char *dso;	/* path of the mapping, "[jit]", or "[anon]" */
};

/* The symbol that contains ip, looked up lazily and cached. */
int codeview_symbol(struct codeview *cv, const struct space *space, uint64_t ip,
		    struct symbol *sym);

/* The source line of ip. 0, or -AUX_E_NOENT. What it points to lives as cv does. */
int codeview_line(struct codeview *cv, const struct space *space, uint64_t ip,
		  struct source_line *line);
/* The functions that are inlined at ip, from the innermost out; the last is the
 * function itself. Returns how many there are (at most max are filled), or
 * -AUX_E_NOENT. */
int codeview_inlines(struct codeview *cv, const struct space *space, uint64_t ip,
		     struct inline_frame *frames, size_t max);

/* The file behind ip, and the offset in it. 0, or -AUX_E_NOENT. */
struct elfimage;
int codeview_image(struct codeview *cv, const struct space *space, uint64_t ip,
		   struct elfimage **im, uint64_t *offset);

/*
 * Why there is no code at ip, for a person, with the file, the build id, when it
 * was mapped, and what to do: "no code at 0x7f..: /lib/x.so (build id ab.., mapped
 * at 12.345678901) not found; give its place with --symfs".
 */
void codeview_explain(struct codeview *cv, const struct space *space,
		      uint64_t ip, char *buf, size_t len);

/* What a person should know of where code came from ("..: read from
 * /proc/12/root/.."); NULL behind the last. */
const char *codeview_note(const struct codeview *cv, size_t i);

#endif
