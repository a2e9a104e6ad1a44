/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * outfile: a file that is to be written as a whole or not at all.
 *
 * It is made without a name beside its path and gets the name when it is
 * complete: a mistake on the command line, bad input or a full disk leaves what
 * was there as it was, and a killed program leaves nothing.
 */
#ifndef COMMON_OUTFILE_H
#define COMMON_OUTFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include <aux/error.h>

struct outfile {
	int fd;		/* to write to, and to read; -1: not open */
	char *path;	/* where it will be: links were followed */
	char *temp;	/* its name until then; NULL: it has none */
	bool direct;	/* no regular file, or what standard output is: fd is it */
	bool over;	/* copied over what is there, which a rename would change */
};

#define OUTFILE_NONE ((struct outfile){ .fd = -1 })

#define OUTFILE_REGULAR 1 /* refuse what is no regular file */
#define OUTFILE_NAMED 2	/* temp is there from the start, for who opens by name */

/*
 * An existing file keeps its mode and owner; a new one has mode less the umask.
 * Pipes and devices are opened and written directly. -AUX_E_IO, -AUX_E_INVAL
 * (OUTFILE_REGULAR) or -AUX_E_NOMEM with diag, whose text names the path.
 */
int outfile_open(struct outfile *f, const char *path, mode_t mode,
		 unsigned flags, struct aux_diag *diag);
/* Gives the file its name and closes it, also after an error, when all is as
 * with outfile_discard. */
int outfile_commit(struct outfile *f, struct aux_diag *diag);
/* Closes it; nothing is left. Accepts what is not open. */
void outfile_discard(struct outfile *f);

#endif
