/* SPDX-License-Identifier: BSD-2-Clause */
/* Symbols by name, for addrfilter: of a file (filter_symbols.c), of the kernel
 * (filter_kernel.c). */
#ifndef CAPTURE_EVENT_FILTER_IMPL_H
#define CAPTURE_EVENT_FILTER_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct filter_sym {
	uint64_t addr;	/* file offset; the kernel's: virtual address */
	uint64_t size;	/* 0: nobody knows */
	char bind;	/* 'g' global, 'w' weak, 'l' local */
};

/* All symbols of one name that are code, by address, each address once. */
struct filter_syms {
	struct filter_sym *v;
	size_t n;
	uint64_t first, last;	/* of the whole object, last excluded */
};

/* name NULL: only first and last. -AUX_E_IO, -AUX_E_FORMAT with the cause. */
int addrfilter_elf(const char *path, const char *name, struct filter_syms *s,
		   struct aux_diag *diag);

/* For the two: one more, and at the end order and unite. */
int addrfilter_sym_add(struct filter_syms *s, const struct filter_sym *sym);
void addrfilter_sym_sort(struct filter_syms *s);

#endif
