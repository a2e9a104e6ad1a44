/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: the bytes and the names behind an address, at a time, in a process.
 *
 * Sources, in this order: code that the recording has (saved bytes, patches,
 * BPF programs), what a JIT compiler logged, the mapped file (in a snapshot's
 * own directory, under symfs, then by build id in caches, in the container of a
 * process that still runs, from debuginfod), of the kernel kcore and vmlinux.
 * Never the memory or the vdso of the machine that decodes. A file whose build
 * id differs from the recorded one is refused, and both ids are named; found
 * elsewhere than at its recorded path, it needs the recorded id.
 */
#ifndef DECODE_LIB_CODE_CODE_H
#define DECODE_LIB_CODE_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/reader.h>

#include "decode/lib/elf/elf.h"
#include "decode/lib/sideband/sideband.h"

struct codeview;

/* Paths; NULL: none given. */
struct codeview_config {
	const char *symfs;	/* prefix for paths, or the one file */
	const char *vdso;	/* ELF file for [vdso] */
	const char *buildid_dir; /* perf's cache, or a store of debuginfod's layout
				 * (buildid/ID/executable, debuginfo); NULL: $PERF_BUILDID_DIR, or
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

/* Whether a jitdump has the code at ip, or its name. */
bool codeview_is_logged(struct codeview *cv, const struct space *space,
			uint64_t ip);
/* The symbol that contains ip, looked up lazily and cached. */
int codeview_symbol(struct codeview *cv, const struct space *space, uint64_t ip,
		    struct symbol *sym);

/* The source line of ip. 0, or -AUX_E_NOENT. What it points to lives as cv
 * does. */
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

/* Why there is no code at an address: what would supply it follows from
 * this. */
enum code_why {
	CODE_WHY_UNMAPPED,	/* no mapping is known there */
	CODE_WHY_ANONYMOUS,	/* mapped, from no file, and not saved */
	CODE_WHY_JIT_TIMES,	/* several JIT functions; the log's clock is not
				 * the recording's, so none can be chosen */
	CODE_WHY_PAST_END,	/* the file ends before that offset */
	CODE_WHY_NO_FILE,	/* the file is missing or unreadable */
	CODE_WHY_OTHER_ID,	/* only a file with another build id is there */
	CODE_WHY_VDSO,		/* the vdso was not saved */
	CODE_WHY_KERNEL,	/* neither kcore nor vmlinux has it */
	CODE_WHY_MODULE,	/* neither kcore nor the module's file has it */
	CODE_WHY_ONLY_KCORE,	/* a file cannot have it: what the kernel compiled,
				 * or patched when it loaded a module */
};

struct code_cause {
	enum code_why why;
	/* CODE_WHY_NO_FILE */
	bool has_id;		/* the recording has the file's build id */
	bool in_bundle;		/* the bundle should hold the file */
	bool asked_servers;	/* debuginfod was asked, too */
	/* CODE_WHY_UNMAPPED and _ANONYMOUS: the process' JIT log, as recorded,
	 * that was not found; NULL: none. */
	const char *jit_log;
	/* Kernel code: why kcore, kallsyms or vmlinux are not used; "": they
	 * are, or none was given. */
	const char *kernel;
	bool no_kallsyms;	/* kernel: kcore lacks a kallsyms to check it by */
	char text[512];		/* the facts: "no code at 0x7f..: /lib/x.so (build
				 * id ab.., mapped at 12.345678901) not found" */
};

/* Why there is no code at ip. Pointers in *c live as long as cv. */
void codeview_cause(struct codeview *cv, const struct space *space, uint64_t ip,
		    struct code_cause *c);
/* The same as one sentence, with all facts, without advice. */
void codeview_explain(struct codeview *cv, const struct space *space,
		      uint64_t ip, char *buf, size_t len);

/* Was there not enough memory for code, names or lines that were asked for? What was
 * answered instead may be wrong: "no code", no name. */
bool codeview_nomem(struct codeview *cv);

/*
 * What the user should know of the origin of the code so far ("..: read from
 * /proc/12/root/.."), by index; NULL past the last. *why (may be NULL):
 * AUX_WHY_NONE, or AUX_WHY_SETTING when the note starts with a setting's name.
 */
const char *codeview_note(const struct codeview *cv, size_t i, int *why);

#endif
