/* SPDX-License-Identifier: BSD-2-Clause */
/* coverage: formats of fuzzers and of binary tools: by files and offsets. */
#ifndef DECODE_COVERAGE_FORMATS_H
#define DECODE_COVERAGE_FORMATS_H

#include "decode/coverage/tally.h"

#define AFL_MAP_SIZE 65536

/* Each writes a sorted tally, and returns how many blocks (AFL: edges) it wrote.
 * DynamoRIO's drcov, version 2, as lighthouse reads it. */
uint64_t cover_print_drcov(const struct cover_tally *t, struct outbuf *out);
/* As afl-showmap -r: "EDGE:COUNT" lines. */
uint64_t cover_print_afl(const struct cover_tally *t, struct outbuf *out);
/*
 * NAME.PID.sancov in a directory for each file with code that ran: the addresses of
 * its blocks, as linked. -AUX_E_IO with diag.
 */
int cover_write_sancov(const struct cover_tally *t, const char *dir,
		       uint32_t pid, uint64_t *n, struct aux_diag *diag);

#endif
