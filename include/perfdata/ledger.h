/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger: what a recording produced, saved and lost, per stream and cause.
 *
 * For each stream the bytes produced are the sum of the bytes saved and of
 * those lost to each cause; ledger_check tests it. Causes that count something
 * else (AUX_LEDGER_LOST_RECORDS, AUX_LEDGER_NOT_TRACED to AUX_LEDGER_INJECTED,
 * AUX_LEDGER_UNDESCRIBED and after) stand beside. A loss of unknown size has
 * bytes 0 and counts in n.
 * All functions but fini may be called by several threads at a time.
 */
#ifndef PERFDATA_LEDGER_H
#define PERFDATA_LEDGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/perfdata.h>

#include "perfdata/writer.h"

#define LEDGER_NO_STREAM UINT32_MAX

struct ledger {
	pthread_mutex_t lock;	/* zeros are an unlocked one */
	struct aux_ledger_entry *entries;
	size_t n, cap;
	struct ledger_stream *streams;
	size_t n_streams, cap_streams;
	uint64_t unknown[AUX_LEDGER_N_CAUSES]; /* losses of unknown size */
	bool nomem;	/* an entry was dropped: never balanced */
};

/* A zeroed ledger is empty. fini accepts it too. */
void ledger_fini(struct ledger *l);

/* The stream has produced this much more. */
void ledger_produced(struct ledger *l, uint32_t idx, uint64_t bytes);
/* Adds to the entry of stream and cause, and widens its time range. One call is
 * one loss (n grows by 1); bytes 0 is a loss of unknown size, except with
 * AUX_LEDGER_SAVED and with causes that count: there it only widens the
 * time. */
void ledger_add(struct ledger *l, uint32_t idx, enum aux_ledger_cause cause,
		uint64_t bytes, uint64_t first_ns, uint64_t last_ns);
/* A loss that was added before lasted until then: widens its time, nothing
 * else. */
void ledger_until(struct ledger *l, uint32_t idx, enum aux_ledger_cause cause,
		  uint64_t last_ns);
/* Adds all that src holds to dst. */
void ledger_merge(struct ledger *dst, const struct ledger *src);

/* Total of a cause, over all streams: bytes, or what it counts. */
uint64_t ledger_total(const struct ledger *l, enum aux_ledger_cause cause);
/* How often, over all streams. */
uint64_t ledger_times(const struct ledger *l, enum aux_ledger_cause cause);
/* Something was lost that was not meant to be. */
bool ledger_lossy(const struct ledger *l);
/* 0, or -AUX_E_LIMIT and in diag the first stream that does not balance. */
int ledger_check(const struct ledger *l, struct aux_diag *diag);
/* For the end of the file: an AUX_OWN_LEDGER record that writer_close writes
 * when everything else is in the file. */
int ledger_save(const struct ledger *l, struct writer *w);

/* "1,234 bytes (AUX buffer full), 2 processes (not traced)"; "" when nothing is
 * lost. Of unknown size: "3 gaps (AUX buffer full), bytes unknown", "5 bytes
 * and 1 gap of unknown size (AUX buffer full)". */
void ledger_text(const struct ledger *l, char *buf, size_t len);

#endif
