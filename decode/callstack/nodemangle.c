/* SPDX-License-Identifier: BSD-2-Clause */
/* calls_nodemangle: without libiberty names stay as files have them. */
#ifndef HAVE_IBERTY
#include "decode/callstack/impl.h"

char *calls_demangle(const char *name)
{
	(void)name;
	return NULL;
}
#endif
