/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls_demangle: names of C++, Rust and D as they stand in the source, by libiberty
 * (the only file that uses it). Without it names stay as the file has them.
 */
#include "decode/callstack/impl.h"

#ifdef HAVE_IBERTY
#include <string.h>

#include <libiberty/demangle.h>

/* The demangler recurses: longer names, which only made-up files have, stay as they
 * are. */
#define MAX_NAME 65536

char *calls_demangle(const char *name)
{
	if (strnlen(name, MAX_NAME) == MAX_NAME)
		return NULL;
	return cplus_demangle(name, DMGL_AUTO | DMGL_ANSI | DMGL_PARAMS);
}
#else

char *calls_demangle(const char *name)
{
	(void)name;
	return NULL;
}
#endif
