/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: the bytes and the names behind an address, at a time, in a process.
 *
 * Sources, in this order: code saved in the recording, the mapped
 * file under symfs, then (for [vdso]) the file of --vdso. Never the memory or
 * the vdso of the machine that decodes. A file whose build id differs from the
 * recorded one is refused, and both ids are named.
 */
#ifndef AUXDECODE_CODEVIEW_H
#define AUXDECODE_CODEVIEW_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/reader.h>

#include "timeline.h"

struct codeview;

struct codeview_config {
	const char *symfs;	/* prefix for paths, NULL: none */
	const char *vdso;	/* ELF file for [vdso], NULL: none */
};

/* The reader outlives the view. */
int codeview_new(struct codeview **cv, struct aux_reader *r,
		 const struct codeview_config *config, struct aux_diag *diag);
/* Saved code of records, as timeline_saved gives it: for decoders that want a
 * path. What fails leaves them without one. */
void codeview_save(struct codeview *cv, const struct saved_code *code);
void codeview_free(struct codeview *cv);

/* Bytes around ip in a space. 0, or -AUX_E_NOENT. Pointers live as cv does. */
int codeview_code(struct codeview *cv, const struct space *space, uint64_t ip,
		  struct aux_code *code);

struct symbol {
	const char *name;	/* demangling is the sink's; NULL: none known */
	uint64_t start;		/* runtime address of the symbol */
	uint64_t size;
	const char *dso;	/* path of the mapping, or "[anon]" */
};

/* The symbol that contains ip, looked up lazily and cached. */
int codeview_symbol(struct codeview *cv, const struct space *space, uint64_t ip,
		    struct symbol *sym);

/*
 * Why there is no code at ip, for a person, with the file, the build id and
 * what to do: "no code at 0x7f..: /lib/x.so (build id ab..) not found; give its
 * place with --symfs".
 */
void codeview_explain(struct codeview *cv, const struct space *space,
		      uint64_t ip, char *buf, size_t len);

#endif
