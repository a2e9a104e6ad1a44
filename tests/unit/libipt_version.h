/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which libipt runs, for what its versions do in different ways.
 */
#ifndef TESTS_UNIT_LIBIPT_VERSION_H
#define TESTS_UNIT_LIBIPT_VERSION_H

#include <stdbool.h>

#ifdef HAVE_IPT
#include <intel-pt.h>

/* 2.1 or later: its decoders stand on one that gives events, one at a time. */
static bool is_libipt_v21(void)
{
	struct pt_version v = pt_library_version();

	return v.major > 2 || (v.major == 2 && v.minor >= 1);
}
#else
static bool is_libipt_v21(void)
{
	return false;
}
#endif

#endif
