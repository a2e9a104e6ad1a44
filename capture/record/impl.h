/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the recorder share; nobody else includes this. */
#ifndef CAPTURE_RECORD_IMPL_H
#define CAPTURE_RECORD_IMPL_H

#include <poll.h>
#include <pthread.h>

#include "capture/event/auxpmu.h"
#include "capture/record/recorder.h"

/* Pieces in which a full AUX area is written and given back. */
#define REC_CUTS 32

/* One ring and what is known of its stream. One reader's, or the holder's. */
struct rec_ring {
	struct ring *ring;
	const struct evset_ring *set;
	uint32_t idx;		/* AUXTRACE.idx: the place in the evset */
	bool aux;		/* has an AUX area that we drain or snapshot */
	bool truncated;		/* the kernel stopped the event: restart it */
	bool any_truncated;
	uint64_t truncated_at;	/* stream position of the last such record */
	bool suspect;		/* was full, and no record told of a stop */
	bool nudged;		/* restarted for that; the head tells why */
	bool brimful;		/* not a byte was free, and no record says so */
	uint64_t suspect_head;
	uint64_t tails[REC_CUTS + 1];	/* aux_tail as it was in the last drain */
	unsigned int n_tails;
	uint64_t suspect_ms;
	uint64_t full_ns;	/* time of the last record before */
	uint64_t produced;	/* AUX bytes the kernel has made, as accounted */
	uint64_t last_ns;	/* time of the last record with a time */
	uint64_t first_ns;
	size_t live;		/* of evset_ring_live */
	uint64_t cuts[REC_CUTS];	/* of what waits: where records end, rising */
	unsigned int n_cuts;
	uint64_t snap_end;	/* snapshot: stream position of the last end */
	struct auxpmu_wrap wrap;
};

struct rec_reader {
	struct recorder *r;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;	/* held while it reads */
	struct rec_ring **rings;
	size_t n_rings;
	struct pollfd *fds;	/* one per ring, then the caller's or our own */
	size_t n_extra;
	int error;		/* the first -AUX_E_* */
	struct recorder_stats stats;
	uint64_t n_lost;	/* as LOST records tell */
	uint64_t round_records;	/* n_records at the last FINISHED_ROUND */
	uint64_t *copy;		/* a record that lies across a ring's end */
};

struct recorder {
	struct recorder_config config;
	struct writer *w;
	struct ledger *ledger;
	bool paused;
	bool describing;	/* no rounds end, see recorder_describing */
	struct rec_ring *rings;
	size_t n_rings;
	struct rec_reader *readers;
	size_t n_readers;
	bool threaded;
	int wake_fd;		/* eventfd: ends the threads' polls */
	bool stopping;
	uint64_t n_snapshots;
	pthread_mutex_t held;	/* one holder at a time */
};

#define REC_COPY_MAX 65536	/* header.size is 16 bits */

/* drain.c: reads all that one ring has. */
int rec_drain(struct rec_reader *rd, struct rec_ring *rr);
/* Starts stopped events again, watches for silent ones. */
int rec_restart(struct rec_reader *rd, struct rec_ring *rr);
/*
 * All rings were read once: readers of the file need not keep what is older than
 * the round before. Not with trace: there is little else then, and it comes later
 * than the records beside it.
 */
int rec_end_round(struct rec_reader *rd);
/* All is read, and nothing more will come: enters stops that nobody told. */
int rec_silent_end(struct rec_reader *rd, struct rec_ring *rr);

/* An AUXTRACE record with len bytes that begin at stream position pos. */
int rec_put_aux(struct rec_reader *rd, struct rec_ring *rr,
		const struct iovec iov[2], uint64_t pos, uint64_t len);
/* What a record tells: its time, losses, a vdso; before it is written. */
void rec_note(struct rec_reader *rd, struct rec_ring *rr,
	      const struct perf_event_header *h);
/* sample.c: bytes of trace in a sample, as it begins with its id. */
uint64_t rec_sample_aux(const struct recorder *r,
			const struct perf_event_header *h);

#endif
