/* SPDX-License-Identifier: BSD-2-Clause */
/* calls_demangle: names of C++, Rust and D as people wrote them. */
#ifdef HAVE_IBERTY
#include <string.h>

#include <libiberty/demangle.h>

#include "decode/callstack/impl.h"

#define MAX_NAME 65536 /* longer ones stay as they are */

char *calls_demangle(const char *name)
{
	if (strnlen(name, MAX_NAME) == MAX_NAME)
		return NULL;
	return cplus_demangle(name, DMGL_AUTO | DMGL_ANSI | DMGL_PARAMS);
}
#endif
