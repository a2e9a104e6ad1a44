/* SPDX-License-Identifier: BSD-2-Clause */
/* nofinish.h: the finish of a sink that has nothing left to do at the end. */
#ifndef TESTS_UNIT_NOFINISH_H
#define TESTS_UNIT_NOFINISH_H

#include <aux/error.h>

static int no_finish(void *sink, struct aux_diag *diag)
{
	(void)sink;
	(void)diag;
	return 0;
}

#endif
