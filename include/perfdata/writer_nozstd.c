/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of writer_zstd.c where libzstd is missing: compression is refused
 * when the file is opened, with the reason.
 */
#ifndef HAVE_ZSTD
#include "common/diag.h"

#include "perfdata/writer_impl.h"

int writer_zstd_open(struct writer *w, struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"%s: this build cannot compress: install libzstd-dev "
			"and build again, or record uncompressed", w->path);
}

void writer_zstd_free(struct writer *w)
{
	(void)w;
}

bool writer_zstd_takes(const struct writer *w)
{
	(void)w;
	return false;
}

void writer_zstd_stop(struct writer *w)
{
	(void)w;
}

bool writer_zstd_add(struct writer *w, const struct iovec *part, int n_parts,
		     size_t len)
{
	(void)w, (void)part, (void)n_parts, (void)len;
	return false;
}

bool writer_zstd_pending(const struct writer *w)
{
	(void)w;
	return false;
}

int writer_zstd_drain(struct writer *w)
{
	return -w->error;
}

struct writer_zout *writer_zstd_aux(struct writer *w, const struct iovec *iov,
				    int n_iov, uint64_t len, struct iovec *out)
{
	(void)w, (void)iov, (void)n_iov, (void)len, (void)out;
	return NULL;
}

void writer_zstd_release(struct writer *w, struct writer_zout *z)
{
	(void)w, (void)z;
}
#endif
