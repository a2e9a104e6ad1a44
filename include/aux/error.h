/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Error codes and diagnostics.
 *
 * Functions return 0 or a count on success and -AUX_E_* on failure. Text for
 * people goes into a caller-owned struct aux_diag; a NULL diag is allowed
 * everywhere. Codes are permanent: never renumbered, never reused.
 */
#ifndef AUX_ERROR_H
#define AUX_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum aux_error {
	AUX_E_NOMEM = 1,	/* out of memory */
	AUX_E_IO = 2,		/* read, write, open, mmap failed; see text */
	AUX_E_FORMAT = 3,	/* the file contradicts its format */
	AUX_E_TRUNCATED = 4,	/* the file ends inside a structure */
	AUX_E_UNSUPPORTED = 5,	/* well formed, but not known to this build */
	AUX_E_INVAL = 6,	/* a bad argument: the caller's mistake */
	AUX_E_NOENT = 7,	/* no such thing (mapping, symbol, section) */
	AUX_E_ABI = 8,		/* a plugin built for another interface */
	AUX_E_LIMIT = 9,	/* a limit of this build or of the system */
	AUX_E_TARGET = 10,	/* the traced program could not be run */
};

#define AUX_NO_OFFSET UINT64_MAX

/*
 * Causes about which a program can say more than the text does, since only the
 * program knows what its user typed. Permanent, like the codes.
 */
enum aux_why {
	AUX_WHY_NONE = 0,	/* nothing beyond code and text */
	AUX_WHY_SETTING = 1,	/* a setting is at fault; text starts with the
				 * setting's name ("symfs", "plugin", "image") */
	AUX_WHY_NO_DECODER = 2,	/* this build has no decoder for the trace; one
				 * can be loaded as a plugin */
	AUX_WHY_OTHER_DECODER = 3, /* this decoder does not know the trace, the
				 * architecture's reference decoder may */
	AUX_WHY_OUTSIDE = 4,	/* a description names a file that is not in its own
				 * directory: it is not opened unless the user says
				 * so */
	AUX_WHY_MEMORY = 5,	/* the limit of memory would have to be higher */
	AUX_WHY_OWN_FILES = 6,	/* as SETTING, of one that says what ran: the
				 * recording itself does */
};

/* What went wrong, for a person. offset: byte in the file, or AUX_NO_OFFSET. */
struct aux_diag {
	int code;		/* enum aux_error, 0 when nothing was set */
	int why;		/* enum aux_why; values not listed mean NONE */
	uint64_t offset;
	char text[512];		/* NUL terminated; the cause, no options */
};

/* A short fixed text for an error code, either sign. Never NULL. */
const char *aux_strerror(int code);

#ifdef __cplusplus
}
#endif
#endif
