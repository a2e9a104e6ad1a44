/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recorder: moves what the kernel writes into the rings to the file.
 *
 * AUX data are written straight from the mapping and their room is released at
 * once. Events that an overrun stopped are restarted. Every loss, whether a record
 * reports it or positions or silence betray it, goes into the ledger; losses
 * that no record of the kernel reports also go into the file (AUX_OWN_LOSS).
 *
 * The rings are distributed over reader threads; with a single reader the caller's
 * thread reads in recorder_poll. All functions are the main thread's. Operations
 * that need all rings at rest (snapshot, file switch, end) take all readers' locks.
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
	bool sampling;		/* trace comes in samples; the area is not read */
	bool backward;		/* samples are only read by recorder_snapshot */
	unsigned n_threads;	/* 0: one per eight rings */
	uint64_t max_size;	/* of the file; 0: no limit. See recorder_room */
	struct codesave *save;	/* sees every record; NULL: none */
};

struct recorder_stats {
	uint64_t n_wakeups;	/* polls that returned */
	uint64_t n_reads;	/* rings that had something */
	uint64_t n_restarts;	/* AUX events restarted after an overrun */
	uint64_t n_stalls;	/* stops that no record of the kernel reports */
	uint64_t aux_bytes;	/* saved */
	uint64_t n_records;
	uint64_t n_samples;
	uint64_t sampled_bytes;	/* trace inside samples */
	uint64_t n_snapshots;
};

int recorder_new(struct recorder **r, const struct recorder_config *config,
		 struct aux_diag *diag);
void recorder_free(struct recorder *r);

/* Sets the file to write to. Before recorder_start, or while held. */
void recorder_output(struct recorder *r, struct writer *w);

/* Sets the ledger that losses go to. Before recorder_start, or while held. */
void recorder_set_ledger(struct recorder *r, struct ledger *l);

/* While paused, by a user who disabled the events, no event is restarted. */
void recorder_pause(struct recorder *r, bool paused);

/*
 * Suppresses FINISHED_ROUND while another thread writes synthesized records: they
 * carry no time, and perf's readers must see them before the first round ends.
 * While held, or on the thread that polls.
 */
void recorder_describing(struct recorder *r, bool on);

/* Starts the reader threads, if there is more than one reader. */
int recorder_start(struct recorder *r, struct aux_diag *diag);

/*
 * Waits until there is something to read, one of fds is ready, or timeout_ms have
 * passed; without threads, reads all rings. Fills revents of fds. Returns the
 * first error of any reader, else 0.
 */
struct pollfd;
int recorder_poll(struct recorder *r, struct pollfd *fds, size_t n_fds,
		  int timeout_ms);
/* Bytes left until the file and what waits in the rings reach max_size; UINT64_MAX
 * without a limit. Takes the locks one by one: not while held. */
uint64_t recorder_room(struct recorder *r);

/* The time on perf's clock. */
uint64_t recorder_now(const struct recorder *r);

/* Takes all locks and reads every ring once. The locks are taken on error too. */
int recorder_hold(struct recorder *r);
/* Releases them. */
void recorder_release(struct recorder *r);

/*
 * A snapshot of all AUX areas in overwrite mode, and of backward rings: stops the
 * events, saves what is new since the last snapshot, and starts them again unless
 * stay_off. label may be NULL.
 */
int recorder_snapshot(struct recorder *r, enum aux_snapshot_reason reason,
		      const char *label, bool stay_off, struct aux_diag *diag);

/* With all events disabled: ends the threads, reads the rest, completes the
 * ledger, so that its sums balance. */
int recorder_finish(struct recorder *r, struct aux_diag *diag);

/* Enters the bytes of the present file's streams into its ledger. While held. */
void recorder_account(struct recorder *r, struct ledger *l);

void recorder_stats(const struct recorder *r, struct recorder_stats *stats);

#endif
