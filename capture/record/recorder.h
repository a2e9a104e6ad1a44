/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recorder: what the kernel puts into the rings goes into the file.
 *
 * AUX data are copied straight from the mapping, and their room is given back
 * at once. Events that an overrun stopped are started again. Every loss that is
 * seen, in records, positions or silence, goes into the ledger, and those that
 * no record of the kernel tells also into the file (AUX_OWN_LOSS).
 *
 * The rings are shared out among reader threads; with one, the caller's thread
 * reads itself. Whoever needs all rings at rest (snapshot, a new file, the end)
 * takes the readers' locks.
 */
#ifndef CAPTURE_RECORD_RECORDER_H
#define CAPTURE_RECORD_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/extension.h>

#include "capture/event/evlist.h"
#include "capture/event/evset.h"
#include "perfdata/ledger.h"
#include "capture/event/ring.h"
#include "perfdata/writer.h"

struct codesave;
struct recorder;

struct recorder_config {
	const struct evlist *events;
	struct evset *set;
	struct ring *rings;	/* of set->rings, mapped */
	bool snapshot;		/* AUX is only read by recorder_snapshot */
	bool sampling;		/* AUX comes in samples, never from the area */
	bool backward;		/* samples are only read by recorder_snapshot */
	unsigned n_threads;	/* 0: by the number of rings */
	uint64_t max_size;	/* of the file; 0: none. See recorder_room */
	struct codesave *save;	/* is told of the records; NULL: none */
};

struct recorder_stats {
	uint64_t n_wakeups;	/* polls that returned */
	uint64_t n_reads;	/* rings that had something */
	uint64_t n_restarts;	/* events started again after an overrun */
	uint64_t n_stalls;	/* of these, without a word of the kernel */
	uint64_t aux_bytes;	/* saved */
	uint64_t n_records;
	uint64_t n_samples;
	uint64_t sampled_bytes;	/* of trace, in these */
	uint64_t n_snapshots;
};

int recorder_new(struct recorder **r, const struct recorder_config *config,
		 struct aux_diag *diag);
void recorder_free(struct recorder *r);

/* The file to write to; NULL: none yet. With readers at rest, or before start. */
void recorder_output(struct recorder *r, struct writer *w);

/* Where losses go from now on. As recorder_output. */
void recorder_set_ledger(struct recorder *r, struct ledger *l);

/* The user has disabled the events: nothing is started again by itself. */
void recorder_pause(struct recorder *r, bool paused);

/* Records without a time go into the file meanwhile: they have to come before the
 * first FINISHED_ROUND. With readers at rest, or on the thread that polls. */
void recorder_describing(struct recorder *r, bool on);

/* Starts the reader threads, if there are to be any. */
int recorder_start(struct recorder *r, struct aux_diag *diag);

/*
 * Waits until something is to be read, one of fds is ready, or timeout_ms have
 * passed; reads what the caller's thread has to. Returns the first error of any
 * reader, else 0. revents of fds are filled.
 */
struct pollfd;
int recorder_poll(struct recorder *r, struct pollfd *fds, size_t n_fds,
		  int timeout_ms);
/* Bytes until the file and what waits for it have max_size; UINT64_MAX without
 * one. With readers not at rest, too. */
uint64_t recorder_room(struct recorder *r);

/* Brings all readers to rest and reads everything once; then lets them go. */
int recorder_hold(struct recorder *r);
void recorder_release(struct recorder *r);

/*
 * A snapshot of all AUX areas (and backward rings): stops what writes, saves
 * what is new since the last one, starts it again unless stay_off.
 */
int recorder_snapshot(struct recorder *r, enum aux_snapshot_reason reason,
		      const char *label, bool stay_off, struct aux_diag *diag);

/* Events are disabled: reads the rest, ends the threads, balances the ledger. */
int recorder_finish(struct recorder *r, struct aux_diag *diag);

/* The present file is about to end: its streams' bytes into its ledger. */
void recorder_account(struct recorder *r, struct ledger *l);

void recorder_stats(const struct recorder *r, struct recorder_stats *stats);

#endif
