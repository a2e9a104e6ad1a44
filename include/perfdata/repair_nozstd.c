/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of repair_zstd.c where libzstd is missing: what compressed records
 * hold stays unknown, and the features of a repaired file lack it.
 */
#ifndef HAVE_ZSTD
#include "perfdata/repair_scan.h"

bool repair_inflate(struct repair_scan *s, const uint8_t *p, size_t size)
{
	(void)s, (void)p, (void)size;
	return false;
}

void repair_inflate_end(struct repair_scan *s)
{
	(void)s;
}
#endif
