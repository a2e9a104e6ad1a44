/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of reader_zstd.c where libzstd is missing: a file with compressed
 * records is refused at the first of them, with the reason.
 */
#ifndef HAVE_ZSTD
#include "perfdata/impl.h"

int inflate_feed(struct aux_reader *r, const struct aux_event *ev,
		 struct aux_diag *diag)
{
	(void)r;
	return diag_set(diag, AUX_E_UNSUPPORTED, ev->offset,
			"a zstd-compressed record, but this build has no "
			"libzstd: install libzstd-dev and build again");
}

int inflate_next(struct aux_reader *r, struct aux_event *ev,
		 struct aux_diag *diag)
{
	(void)r, (void)ev, (void)diag;
	return 0;
}

int unpack_auxtrace(struct aux_reader *r, struct aux_bytes frame,
		    struct aux_event *ev, struct aux_diag *diag)
{
	(void)r, (void)frame;
	return diag_set(diag, AUX_E_UNSUPPORTED, ev->offset,
			"zstd-compressed trace, but this build has no libzstd: "
			"install libzstd-dev and build again");
}

void unpack_fini(struct spool *s)
{
	spool_fini(s);
}

void inflate_leave(struct inflate *z)
{
	(void)z;
}

void inflate_rewind(struct inflate *z)
{
	(void)z;
}

void inflate_fini(struct inflate *z)
{
	(void)z;
}
#endif
