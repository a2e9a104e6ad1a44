/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter: address filters, from the user's notation to the kernel's.
 *
 * The user's, as perf's --filter for AUX PMUs, comma separated:
 *	filter|start|stop|tracestop [ADDR|SYMBOL [#N|#g|#G]] [/ SIZE|SYMBOL] [@ FILE]
 * A symbol without FILE is the kernel's; "filter * @ FILE" is the whole file. The
 * kernel's: "filter 0xADDR/0xSIZE@FILE", with ADDR an offset in FILE; see
 * perf_event_parse_addr_filter() in kernel/events/core.c (Linux 6.1).
 */
#ifndef CAPTURE_EVENT_FILTER_H
#define CAPTURE_EVENT_FILTER_H

#include <stddef.h>

#include <aux/error.h>

/*
 * Translates text; free *out. Symbols of files are looked up in their symtab and
 * dynsym, the kernel's in /proc/kallsyms; an ambiguous symbol is an error that lists
 * the addresses and how to choose one (#N). n_max is how many filters the PMU has;
 * more are -AUX_E_LIMIT. -AUX_E_INVAL names the position in the text.
 */
int addrfilter_resolve(const char *text, unsigned n_max, char **out,
		       struct aux_diag *diag);

#endif
