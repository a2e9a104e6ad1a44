/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to capture/event: address filters. */
#ifndef CAPTURE_EVENT_IMPL_H
#define CAPTURE_EVENT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct filter_sym {
	uint64_t addr;	/* an offset in the file; the kernel's: virtual address */
	uint64_t size;	/* 0: unknown */
	char bind;	/* 'g' global, 'w' weak, 'l' local */
};

/* The code symbols of one name, sorted by address, each address once. A zeroed
 * list is empty; free v. */
struct filter_syms {
	struct filter_sym *v;
	size_t n, cap;
	uint64_t first, last;	/* the whole object, last excluded */
};

/* filter_symbols.c: the list. */
int filter_sym_add(struct filter_syms *s, const struct filter_sym *sym);
/* After all were added: sorts, and keeps one symbol per address. */
void filter_sym_sort(struct filter_syms *s);
/* Symbols of an ELF file; name NULL: only first and last. -AUX_E_IO or
 * -AUX_E_FORMAT, with the cause in diag. */
int filter_syms_elf(const char *path, const char *name, struct filter_syms *s,
		    struct aux_diag *diag);

/*
 * filter: address filters, from the user's notation to the kernel's.
 *
 * The user's, as perf's --filter for AUX PMUs, comma separated:
 *	filter|start|stop|tracestop [ADDR|SYMBOL [#N|#g|#G]] [/ SIZE|SYMBOL] [@ FILE]
 * A symbol without FILE is the kernel's; "filter * @ FILE" is the whole file. The
 * kernel's: "filter 0xADDR/0xSIZE@FILE", with ADDR an offset in FILE; see
 * perf_event_parse_addr_filter() in kernel/events/core.c (Linux 6.1).
 */

/*
 * Translates text; free *out. Symbols of files are looked up in their symtab
 * and dynsym, the kernel's in /proc/kallsyms; an ambiguous symbol is an error
 * that lists the addresses and how to choose one (#N). n_max is how many
 * filters the PMU has; more are -AUX_E_LIMIT. -AUX_E_INVAL names the position
 * in the text.
 */
int addrfilter_resolve(const char *text, unsigned n_max, char **out,
		       struct aux_diag *diag);

/* trigger_debug.c: the file (an Elf) that has the symbols of a stripped one, which the process
 * knows as path and we as file; NULL: it is not there. For elf_end, and close(*fd). */
void *trigger_debug_open(void *elf, const char *path, const char *file, int *fd);

/* trigger_lines.c: calls add with each address at which the line begins, once in each function
 * and each copy of one that was inlined. file: as DWARF has it, or its last parts. */
int trigger_line_addresses(void *elf, const char *file, unsigned line,
			   int (*add)(void *arg, uint64_t addr), void *arg);

#endif
