/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to capture/record: the kernel source and the recorder.
 *
 * source_kernel.c opens and maps, header.c writes what precedes the data,
 * loop.c runs the recording, watch.c sees what happens to CPUs and to us;
 * recorder.c owns the readers, drain.c reads one ring, snapshot.c saves
 * overwritten rings.
 */
#ifndef CAPTURE_RECORD_IMPL_H
#define CAPTURE_RECORD_IMPL_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/extension.h>

#include "capture/describe/describe.h"
#include "capture/event/auxpmu.h"
#include "capture/event/evlist.h"
#include "capture/event/evset.h"
#include "capture/event/explain.h"
#include "capture/event/probe.h"
#include "capture/event/ring.h"
#include "capture/record/record.h"
#include "common/idmap.h"
#include "perfdata/ledger.h"
#include "perfdata/writer.h"

/*
 * recorder: moves what the kernel writes into the rings to the file.
 *
 * AUX data are written straight from the mapping and their room is released at
 * once. Events that an overrun stopped are restarted. Every loss, whether a
 * record reports it or positions or silence betray it, goes into the ledger;
 * losses that no record of the kernel reports also go into the file
 * (AUX_OWN_LOSS).
 *
 * The rings are distributed over reader threads; with a single reader the
 * caller's thread reads in recorder_poll. All functions are the main thread's.
 * Operations that need all rings at rest (snapshot, file switch, end) take all
 * readers' locks.
 */

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
	bool tasks;		/* moments need to know which tasks there are */
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
 * Suppresses FINISHED_ROUND while another thread writes synthesized records:
 * they carry no time, and perf's readers must see them before the first round
 * ends. While held, or on the thread that polls.
 */
void recorder_describing(struct recorder *r, bool on);

/* Starts the reader threads, if there is more than one reader. */
int recorder_start(struct recorder *r, struct aux_diag *diag);

/*
 * Waits until there is something to read, one of fds is ready, or timeout_ms
 * have passed; without threads, reads all rings. Fills revents of fds. Returns
 * the first error of any reader, else 0.
 */
struct pollfd;
int recorder_poll(struct recorder *r, struct pollfd *fds, size_t n_fds,
		  int timeout_ms);
/* Bytes left until the file and what waits in the rings reach max_size;
 * UINT64_MAX without a limit. Takes the locks one by one: not while held. */
uint64_t recorder_room(struct recorder *r);

/* The time on perf's clock. */
uint64_t recorder_now(const struct recorder *r);

/* Takes all locks and reads every ring once. The locks are taken on error
 * too. */
int recorder_hold(struct recorder *r);
/* Releases them. */
void recorder_release(struct recorder *r);

/*
 * A snapshot of all AUX areas in overwrite mode, and of backward rings: stops
 * the events, saves what is new since the last snapshot, and starts them again
 * unless stay_off. label may be NULL.
 */
int recorder_snapshot(struct recorder *r, enum aux_snapshot_reason reason,
		      const char *label, bool stay_off, struct aux_diag *diag);

/* With all events disabled: ends the threads, reads the rest, completes the
 * ledger, so that its sums balance. */
int recorder_finish(struct recorder *r, struct aux_diag *diag);

/* Enters the bytes of the present file's streams into its ledger. While
 * held. */
void recorder_account(struct recorder *r, struct ledger *l);

void recorder_stats(const struct recorder *r, struct recorder_stats *stats);

/* What watch.c knows of the machine. */
struct rec_watch {
	int fd;			/* uevents; -1: none to be had */
	char online[4096];	/* the CPUs, as last read */
	uint64_t slept_ns;	/* the machine's sleep so far */
	uint64_t looked_ms;	/* CLOCK_MONOTONIC */
};

/*
 * when.c: --when. What the readers found becomes moments: of the tasks that are recorded,
 * in the order of their times, calls with their durations; and each that is due is noted
 * and has its snapshot.
 */
struct when_task;
struct rec_moment;
struct when {
	uint64_t n_hits, n_taken, n_passed, taken_ns;
	uint64_t due_ms;	/* --when-delay: when waits is taken; 0: nothing waits */
	struct rec_moment *waits;
	bool ordered;		/* probes: what comes is put in the order of its times */
	bool more;		/* some of v has been read already */
	struct rec_moment *v;	/* what is later than what all rings had been read to */
	size_t n, cap;
	bool filter;		/* only tasks that are ours */
	bool paused;		/* --window: the kernel pauses and resumes the trace */
	uint64_t n_windows;	/* else: how often we have switched it on */
	uint32_t n_open;	/* calls that are open */
	struct idmap slots;	/* tid -> index */
	struct when_task *tasks;
	size_t n_tasks, cap_tasks;
};

/*
 * The kernel source. The main thread owns it; after recorder_start the reader
 * threads use events, set and rings through the recorder, and the thread of
 * describe() in loop.c reads it while the main thread polls.
 */
struct kernel {
	const struct source_job *job;
	const struct kernel_options *o;

	struct probes probes;	/* of --when */
	struct when when;

	/* Acquired by open, in this order; close_kernel releases in reverse. */
	struct explain_system sys;
	struct control *control;	/* NULL: no --control */
	struct target target;
	struct evlist events;
	struct evset set;
	struct ring *rings;		/* set.n_rings, mapped */
	struct codesave *save;		/* NULL: code is not saved */
	struct recorder *recorder;
	char fit_text[256];		/* of explain_fit, for result->notes */
	uint64_t opened;		/* synth_proc_now() before the events */

	/* Valid from run on; borrowed from the caller. */
	struct ledger *ledger;		/* of the present file */
	struct source_result *result;
	struct output *out;

	/* State of the loop. */
	struct rec_watch watch;
	bool enabled;
	bool stopped;			/* by the user */
	bool full;			/* max_size was reached */
};

/* header.c. Attrs, features, AUXTRACE_INFO and ID_INDEX; each file of a
 * rotation gets its own copy. */
int kernel_header(struct kernel *k, struct writer *w, struct aux_diag *diag);
/*
 * Synthesizes what existed before the events: COMM, MMAP2, kernel maps; then
 * FINISHED_INIT. May take long; records from the rings may interleave. again:
 * the program is past its exec, so it is described from /proc as well.
 */
int kernel_describe(struct kernel *k, struct writer *w, bool again,
		    struct aux_diag *diag);

/* loop.c. Runs the recording to its end, ledger included. */
int kernel_loop(struct kernel *k, struct aux_diag *diag);

/* when.c. */
int when_open(struct kernel *k, struct aux_diag *diag);
void when_close(struct when *w);
/* Whether readers are to find moments at all. */
bool when_wanted(const struct kernel *k);
bool when_has_oom(const struct triggers *t);
/* Takes what has come, and what is due. */
int when_handle(struct kernel *k, bool end, struct aux_diag *diag);
/* How the recording's notes say it. */
void when_note(const struct kernel *k);

/* watch.c. CPUs that go and come back, stops of auxcap, sleep of the
 * machine. */
void watch_open(struct kernel *k);
void watch_close(struct kernel *k);
/* Looks for what has happened, at most every 100 ms but when final; watch.fd
 * may be polled to be told at once. */
int watch_look(struct kernel *k, bool final);
/* SIGCONT came. */
void watch_continued(struct kernel *k);

/* A full AUX area is written and released in at most so many pieces. */
#define REC_CUTS 32

/*
 * Has the AUX event of this ring stopped? The kernel disables an AUX event that
 * finds no room (perf_aux_output_begin, _end) and normally says so in an AUX
 * record with TRUNCATED. That record can be missing: dropped with a full data
 * ring, or never made when perf_aux_output_begin() itself finds the area full.
 * So a ring whose room has shrunk below a page is suspect; when its head then
 * stands still, the event is restarted, and if data follow it had stopped.
 */
struct rec_stop {
	bool truncated;		/* a record says so: restart the event */
	bool reported;		/* a TRUNCATED record was seen, */
	uint64_t reported_at;	/* which ended at this stream position */
	bool suspect;		/* room fell below a page, no record seen */
	uint64_t suspect_head;	/* aux_head at that time */
	uint64_t suspect_ms;	/* and the time, CLOCK_MONOTONIC */
	bool nudged;		/* restarted on suspicion; new data confirm it */
	bool full;		/* no byte was free: the kernel makes no record */
	/* aux_tail before each piece of the last drain: the PMU may have
	 * compared its head with any of them. */
	uint64_t tails[REC_CUTS + 1];
	unsigned int n_tails;
};

/* Stream positions where AUX records end, ascending. A cut between two AUXTRACE
 * records must lie there: anywhere else it could split a packet. */
struct rec_cuts {
	uint64_t at[REC_CUTS];
	unsigned int n;
};

/* Times of the ring's records, on perf's clock; 0: none yet. */
struct rec_times {
	uint64_t first_ns;	/* in the present file */
	uint64_t last_ns;
	uint64_t before_ns;	/* before the last: when a loss may have begun */
};

/* One ring and the state of its stream. Used by its reader, under the reader's
 * lock, or by the holder of all locks. */
struct rec_ring {
	/* Constant after recorder_new. */
	struct ring *ring;
	const struct evset_ring *set;
	uint32_t idx;		/* AUXTRACE.idx: the index in the evset */
	bool aux;		/* has an AUX area */

	struct rec_stop stop;
	struct rec_cuts cuts;	/* of what waits; empty between drains */
	struct rec_times times;
	size_t live;		/* evset_ring_live's hint */
	bool offline;		/* its CPU has gone, with the events of any task */
	bool reopened;		/* watch.c opened them again: poll those */
	uint32_t n_throttled;	/* events that a record says were stopped */
	uint64_t ended_ns;	/* all events of any task have ended; 0: not */
	uint64_t produced;	/* full trace: AUX bytes in the ledger so far */

	/* Snapshots. */
	uint64_t snap_end;	/* end of the last: AUX stream position, or
				 * data_head of a backward ring */
	uint8_t *snap_copy;	/* the area as of the last snapshot; NULL: none
				 * yet, or no memory */
	bool snap_partial;	/* the copy lacks what older snapshots saved */
	/* Of the snapshot that is being taken, by auxpmu_ops.snapshot. */
	uint64_t snap_at, snap_len, snap_skipped;
	struct auxpmu_wrap wrap;
};

/*
 * A reader and its rings. The thread uses its own reader only; lock protects
 * rings, stats, n_lost and round_records against the holder. fds belongs to the
 * thread alone. error is written once under the lock and read atomically
 * without.
 */
struct rec_reader {
	struct recorder *r;
	pthread_t thread;
	bool running;		/* thread is valid: main thread only */
	pthread_mutex_t lock;	/* held while reading, never while waiting */
	struct rec_ring **rings;
	size_t n_rings;
	struct pollfd *fds;	/* one per ring, then wake_fd or the caller's */
	size_t n_extra;		/* room for the caller's */
	int error;		/* the first -AUX_E_* */
	struct recorder_stats stats;
	uint64_t n_lost;	/* sum of LOST records */
	uint64_t round_records;	/* stats.n_records at the last FINISHED_ROUND */
	uint64_t *copy;		/* a record that wraps around the ring's end */
};

struct rec_moment;

/* A queue; fd is readable while something is in it. */
struct rec_moments {
	pthread_mutex_t lock;
	struct rec_moment *v;
	size_t n, cap;
	int fd;
	bool nomem;
};

/*
 * Lock order: held, then the readers' locks by index. The writer, the ledger,
 * codesave and moments lock themselves and call nothing of ours.
 */
struct recorder {
	struct rec_moments moments;

	/* Constant after recorder_new. */
	struct recorder_config config;
	struct rec_ring *rings;
	size_t n_rings;
	struct rec_reader *readers;
	size_t n_readers;
	bool threaded;		/* readers have threads; else the caller reads */
	int wake_fd;		/* eventfd that ends the threads' polls */

	/* Changed only before start or by the holder of all locks. */
	struct writer *w;	/* the present file; NULL: none */
	struct ledger *ledger;
	uint64_t n_snapshots;
	bool describing;	/* see recorder_describing; read with one reader only */

	/* Written by the main thread, read atomically by the readers. */
	bool paused;		/* the user disabled the events: no restarts */
	bool stopping;		/* threads end */

	pthread_mutex_t held;	/* one holder at a time */
};

/*
 * moments.c: what --when waits for, and what tells whose it is and how long it took. The
 * readers find it in the rings, the main thread takes it.
 */
enum rec_moment_what {
	REC_MOMENT,
	REC_CALL, REC_RETURN,		/* of a function whose duration matters */
	REC_OPEN, REC_SHUT,		/* of --window, where the kernel cannot pause */
	REC_TASK_BEGIN, REC_TASK_END,
};

struct rec_moment {
	struct trigger_moment m;
	uint32_t trigger;	/* from 1; 0: of a task */
	enum rec_moment_what what;
	bool kernel;		/* the function is the kernel's: sp says nothing */
	bool is_32;		/* of a program with 32-bit addresses */
	uint64_t sp;		/* the stack pointer at a call and a return; 0: unknown */
};

/* Called by a reader, for each record of a trigger's event. */
void rec_moment_add(struct recorder *r, const struct rec_moment *m);
/* All that have come since, in *v, which is the caller's; how many. -AUX_E_NOMEM: some are
 * missing. */
int recorder_moments(struct recorder *r, struct rec_moment **v);
void rec_moments_init(struct rec_moments *ms);
void rec_moments_fini(struct rec_moments *ms);

#define REC_COPY_MAX 65536	/* perf_event_header.size has 16 bits */

/* drain.c. Moves everything that one ring has into the file. */
int rec_drain(struct rec_reader *rd, struct rec_ring *rr);
/* Restarts an event that stopped, or that seems to have. */
int rec_restart(struct rec_reader *rd, struct rec_ring *rr);
/*
 * After all rings were read once: writes FINISHED_ROUND, which lets readers of
 * the file flush what is older than the previous round. Not with trace: its
 * samples are made from AUX data, later than the records beside them.
 */
int rec_end_round(struct rec_reader *rd);
/* At the end: enters stops that were suspected and can no longer be
 * confirmed. */
int rec_silent_end(struct rec_reader *rd, struct rec_ring *rr);
/* Writes an AUXTRACE record with len bytes from stream position pos. */
int rec_put_aux(struct rec_reader *rd, struct rec_ring *rr,
		const struct iovec iov[2], uint64_t pos, uint64_t len);
/* recorder.c. Reads every ring once, all locks held; restarts nothing. */
int rec_read_held(struct recorder *r);
/* snapshot.c. Frees the memory that snapshots were copied to. */
void rec_free_copy(struct rec_ring *rr);
/* The ring's stream ends here, at time now: a loss of unknown size, in the
 * ledger and in the file. The lock is held, and the ring was read. */
int rec_enter_end(struct recorder *r, struct rec_ring *rr,
		  enum aux_ledger_cause cause, uint64_t now);
/* Evaluates a record before it is written: times, losses, cuts, the vdso. */
void rec_inspect(struct rec_reader *rd, struct rec_ring *rr,
		 const struct perf_event_header *h);

/*
 * The control FIFO: commands while a recording runs, as perf's --control.
 *
 * "fifo:COMMANDS[,ACKS]" or "fd:N[,M]". One command per line. If an ack channel
 * was given, each command is answered after it has been carried out: "ack\n",
 * or "error: ...\n" for one that is unknown or failed.
 */

enum control_command {
	CONTROL_NONE,
	CONTROL_ENABLE,
	CONTROL_DISABLE,
	CONTROL_SNAPSHOT,	/* its argument is a label, "" for none */
	CONTROL_SWITCH,		/* next file */
	CONTROL_PING,
	CONTROL_STOP,
	CONTROL_EVLIST,
	CONTROL_UNKNOWN,
};

struct control {
	int fd, ack_fd;		/* -1: none */
	bool ours;		/* control_close closes the fds */
	char buf[512];		/* input, then the current line */
	size_t used;		/* bytes of input */
	bool skipping;		/* inside a line too long for buf */
};

/* -AUX_E_INVAL: bad text; -AUX_E_IO: cannot be opened. The error for a FIFO
 * that does not exist names mkfifo. */
int control_open(struct control **c, const char *text, struct aux_diag *diag);
void control_close(struct control *c);

/* The next complete command and its argument ("" for none; of an unknown
 * command, its text), valid until the next call. CONTROL_NONE: nothing has
 * arrived. */
enum control_command control_next(struct control *c, const char **arg);
/* Answers a command; text is "ack" or "error: ...", without the newline. */
void control_ack(struct control *c, const char *text);

#endif
