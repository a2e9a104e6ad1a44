/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger: what a recording produced, saved and lost, per stream and cause.
 *
 * For each stream the bytes produced are the sum of the bytes saved and of
 * those lost to each cause; ledger_check tests it. Causes that count something
 * else (AUX_LEDGER_LOST_RECORDS, AUX_LEDGER_NOT_TRACED and up) stand beside.
 */
#ifndef AUXCAP_LEDGER_H
#define AUXCAP_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/perfdata.h>

#include "writer.h"

#define LEDGER_NO_STREAM UINT32_MAX

struct ledger {
	struct aux_ledger_entry *entries;
	size_t n, cap;
	struct ledger_stream *streams;
	size_t n_streams, cap_streams;
	bool nomem;	/* an entry was dropped: never balanced */
};

/* A zeroed ledger is empty. fini accepts it too. */
void ledger_fini(struct ledger *l);

/* The stream has produced this much more. */
void ledger_produced(struct ledger *l, uint32_t idx, uint64_t bytes);
/* Adds to the entry of stream and cause, and widens its time range. */
void ledger_add(struct ledger *l, uint32_t idx, enum aux_ledger_cause cause,
		uint64_t bytes, uint64_t first_ns, uint64_t last_ns);

/* Total of a cause, over all streams. */
uint64_t ledger_total(const struct ledger *l, enum aux_ledger_cause cause);
/* Something was lost that was not meant to be. */
bool ledger_lossy(const struct ledger *l);
/* 0, or -AUX_E_LIMIT and in diag the first stream that does not balance. */
int ledger_check(const struct ledger *l, struct aux_diag *diag);
/* AUX_FEAT_AUXKIT_LEDGER. */
int ledger_save(const struct ledger *l, struct writer *w);

/* "1,234 bytes (AUX buffer full), 2 processes (not traced)"; "" when nothing is
 * lost. */
void ledger_text(const struct ledger *l, char *buf, size_t len);

#endif
