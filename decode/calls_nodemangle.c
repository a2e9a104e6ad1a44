/* SPDX-License-Identifier: BSD-2-Clause */
/* calls_nodemangle: without libiberty names stay as files have them. */
#include "calls_priv.h"

char *calls_demangle(const char *name)
{
	(void)name;
	return NULL;
}
