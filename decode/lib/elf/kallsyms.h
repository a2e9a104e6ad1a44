/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kallsyms: the names of a running kernel, as /proc/kallsyms lists them: lines
 * of address, type, name and, for modules and BPF programs, [where].
 */
#ifndef DECODE_LIB_ELF_KALLSYMS_H
#define DECODE_LIB_ELF_KALLSYMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kallsyms;

struct kallsyms_symbol {
	const char *name;	/* lives as the table does */
	const char *module;	/* NULL: the kernel itself */
	uint64_t start, end;
};

/* Copies the text. 0, -AUX_E_NOMEM, or -AUX_E_FORMAT when there is no symbol in
 * it with an address (kptr_restrict hides them). */
int kallsyms_new(struct kallsyms **k, const uint8_t *text, size_t len);
void kallsyms_free(struct kallsyms *k);

/* The symbol at or before an address, at most 64 KiB after its start. */
bool kallsyms_find(const struct kallsyms *k, uint64_t addr,
		   struct kallsyms_symbol *sym);
/* The address of a global name, 0 when there is none or more than one. */
uint64_t kallsyms_address(const struct kallsyms *k, const char *name);

#endif
