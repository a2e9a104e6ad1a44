/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address filters: what the user writes into what the kernel takes.
 *
 * User form, as perf's --filter for AUX PMUs, comma separated:
 *	filter|start|stop|tracestop [ADDR|SYMBOL [#N|#g|#G]] [/ SIZE|SYMBOL] [@ FILE]
 * a symbol without FILE is the kernel's; "filter *  @ FILE" is the whole file.
 * Kernel form: "filter 0xADDR/0xSIZE@FILE", offsets in FILE, see
 * kernel/events/core.c (Linux 6.1), perf_event_parse_addr_filter().
 */
#ifndef CAPTURE_EVENT_FILTER_H
#define CAPTURE_EVENT_FILTER_H

#include <stddef.h>

#include <aux/error.h>

/*
 * *out: the kernel's text (free it). Symbols of files are looked up with libelf
 * (symtab, dynsym), the kernel's in /proc/kallsyms; an ambiguous symbol is an
 * error that lists its addresses and how to choose (#N). -AUX_E_INVAL with the
 * place in the text; more than n_max filters is an error that says how many the
 * PMU has. base_dir resolves relative file names.
 */
int addrfilter_resolve(const char *text, unsigned n_max, char **out,
		       struct aux_diag *diag);

#endif
