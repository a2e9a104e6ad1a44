/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import: opens whatever holds a recording.
 *
 * perf.data is the only container inside: every other format is one file here
 * that makes a perf.data of what it finds (builder.c), and one line in the
 * table of import.c. So the decoder, the commands and the exports know one
 * format alone, and what a recording of another tool cannot say is decided
 * here, once.
 */
#ifndef DECODE_LIB_IMPORT_IMPORT_H
#define DECODE_LIB_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <aux/error.h>
#include <aux/reader.h>

/* What the command line says of a buffer that says nothing of itself. */
struct import_options {
	const char *pt;			/* --pt FILE[:BEGIN-END], NULL: none */
	const char *const *images;	/* --image, of pt alone: see raw.c */
	size_t n_images;
	/* --elf, ELF-FILE[@ADDR]: a program that ran, of pt and of snapshots, where
	 * each core has it; over what a snapshot has at its addresses */
	const char *const *elfs;
	size_t n_elfs;
	const char *cpu_model;		/* F/M[/S], of any recording; NULL: as it says */
	bool anywhere;			/* descriptions may name files outside of
					 * their directory */
	bool copied;			/* what is read is handed on: then that holds
					 * for code, too, which is otherwise looked
					 * up by its path as in any recording */
};

/*
 * As aux_reader_open, of anything the table knows; o may be NULL. path is kept
 * for messages. A path that no format claims is left to the reader.
 */
int import_open(struct aux_reader **r, const char *path,
		const struct import_options *o, struct aux_diag *diag);

/* Family, model and stepping of "6/158/10"; the stepping may be left out. Else a fault
 * of the command line (AUX_WHY_SETTING). */
int import_cpu_model(const char *arg, unsigned model[3], struct aux_diag *diag);

/* The kernel's memory that perf copied into a directory (--kcore), for
 * codeview_config.kcore; NULL: it has none. free it */
char *import_kcore(const char *path);

#endif
