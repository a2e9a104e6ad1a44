/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle_symbols: the names that a bundle brings along (AUX_OWN_SYMBOLS).
 *
 * Specification: <aux/extension.h>. Nothing in a record is trusted: what does
 * not fit is left out.
 */
#ifndef DECODE_LIB_CODE_NAMES_H
#define DECODE_LIB_CODE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/reader.h>

#include "decode/lib/elf/elf.h"
#include "decode/lib/sideband/sideband.h"

struct bundle_symbols;

/* Whether the file is a bundle: it needs no file of this machine. */
bool bundle_symbols_expected(const struct aux_reader *r);
/* All names in the file. NULL with rc 0: it has none. The reader outlives it. */
int bundle_symbols_new(struct bundle_symbols **b, struct aux_reader *r);
void bundle_symbols_free(struct bundle_symbols *b);

/* The symbol at an offset of the file that m maps. 0 or -AUX_E_NOENT. */
int bundle_symbols_find(const struct bundle_symbols *b, const struct mapping *m,
			uint64_t offset, struct elfimage_symbol *sym);

#endif
