/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: one file of code, and the names in it. elfimage.c is the only user
 * of libelf. Files that are no ELF give bytes and no names.
 *
 * Symbols are read when first asked for, never before. All functions may be
 * called from any thread.
 */
#ifndef AUXDECODE_ELFIMAGE_H
#define AUXDECODE_ELFIMAGE_H

#include <stddef.h>
#include <stdint.h>

struct elfimage;

struct elfimage_symbol {
	const char *name;
	uint64_t start;		/* file offset */
	uint64_t size;
};

/* Maps a file. 0, -AUX_E_NOENT, -AUX_E_IO or -AUX_E_NOMEM. */
int elfimage_open(struct elfimage **im, const char *path);
/* The same over bytes that outlive the image. */
int elfimage_open_mem(struct elfimage **im, const uint8_t *data, size_t len);
void elfimage_close(struct elfimage *im);

const uint8_t *elfimage_data(const struct elfimage *im, uint64_t *len);
/* Its build id; returns the size, 0 when it has none. */
size_t elfimage_build_id(const struct elfimage *im, const uint8_t **id);
/*
 * The symbol that contains a file offset. 0 or -AUX_E_NOENT. The name lives as
 * long as the image.
 */
int elfimage_symbol(struct elfimage *im, uint64_t offset,
		    struct elfimage_symbol *sym);

#endif
