/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop of a kernel recording: polls rings, signals and commands, acts on
 * timers and sizes, rotates files, and ends the recording.
 *
 * Everything here runs on the main thread, except run_synthesis().
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/diag.h"

#include "capture/record/impl.h"

#define IDLE_MS 1000
#define FLUSH_MS 200	/* the writer's buffer reaches the file at least so often */
#define FILL_MS 10	/* poll interval once half of --max-size is used */
#define SYNTHESIS_MS 5	/* poll interval while a new file is described */
#define ATTACHED_MS 100	/* no SIGCHLD announces the end of others' processes */
#define PROGRESS_MS 500

struct loop {
	struct kernel *k;
	/* CLOCK_MONOTONIC: when the loop started, the file was last switched or
	 * flushed, progress was last reported. */
	uint64_t started_ms, switched_ms, flushed_ms, progress_ms;
	uint64_t switched_bytes;	/* of the file that do not count toward
					 * --switch-output=SIZE */
	uint64_t room;	/* bytes left of --max-size */
	bool delayed;	/* -D has not yet expired */
	bool done;
	struct aux_diag *diag;
};

static int enable(struct loop *lp, bool on)
{
	struct kernel *k = lp->k;
	int ret;

	if (k->enabled == on)
		return 0;
	k->result->never_enabled &= !on;
	ret = on ? evset_enable(&k->set, &k->events, lp->diag) :
		   evset_disable(&k->set, lp->diag);
	k->enabled = on;
	recorder_pause(k->recorder, !on);
	return ret;
}

static int snapshot(struct loop *lp, enum aux_snapshot_reason reason,
		    const char *label)
{
	return recorder_snapshot(lp->k->recorder, reason, label,
				 reason == AUX_SNAPSHOT_EXIT, lp->diag);
}

/*
 * Synthesis of a new file's side-band, on a thread of its own: reading /proc
 * may take seconds, and the rings must not wait for it. Its records carry no
 * time, so records from the rings may interleave with them.
 */
struct synthesis {
	struct kernel *k;
	struct writer *w;
	struct aux_diag diag;
	int ret;
	bool done;	/* atomic; releases diag and ret */
};

static void *run_synthesis(void *arg)
{
	struct synthesis *d = arg;

	/* with one reader this thread inherits its raised priority */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 0);
	d->ret = kernel_describe(d->k, d->w, true, &d->diag);
	__atomic_store_n(&d->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * Describes what exists to the new file w while the rings are still being read.
 * Synthesized records do not count toward --switch-output=SIZE; ring data read
 * meanwhile does. Otherwise a machine with many processes would rotate
 * continually.
 */
static int describe(struct loop *lp, struct writer *w)
{
	struct synthesis d = { .k = lp->k, .w = w };
	struct pollfd none = { .fd = -1 };
	struct recorder_stats before, after;
	uint64_t start_size = writer_size(w), grown, read;
	pthread_t thread;
	int ret = 0;

	recorder_stats(lp->k->recorder, &before);
	if (pthread_create(&thread, NULL, run_synthesis, &d))
		return kernel_describe(lp->k, w, true, lp->diag);
	while (!ret && !__atomic_load_n(&d.done, __ATOMIC_ACQUIRE))
		ret = recorder_poll(lp->k->recorder, &none, 1, SYNTHESIS_MS);
	pthread_join(thread, NULL);
	recorder_stats(lp->k->recorder, &after);
	grown = writer_size(w) - start_size;
	read = after.aux_bytes - before.aux_bytes;
	lp->switched_bytes += read < grown ? grown - read : 0;
	if (ret)
		return diag_set(lp->diag, -ret, AUX_NO_OFFSET,
				"the recording stopped: %s", aux_strerror(ret));
	if (d.ret)
		*lp->diag = d.diag;
	return d.ret;
}

/*
 * Completes the present file and begins the next, with all readers at rest.
 *
 * The kernel publishes trace (aux_head, PERF_RECORD_AUX) only at the AUX
 * watermark or when the event is scheduled out. So the AUX events are disabled
 * around the switch: trace would otherwise end up in the next file, after its
 * side-band.
 */
static int switch_file(struct loop *lp)
{
	struct kernel *k = lp->k;
	bool stop = k->enabled && k->events.n_aux && !k->o->snapshot;
	struct writer *w;
	int ret = 0, err;

	lp->switched_ms = clock_ms();
	if (stop)
		ret = evset_aux_enable(&k->set, &k->events, false);
	err = recorder_hold(k->recorder);
	ret = ret ? ret : err;
	if (k->save)
		codesave_output(k->save, NULL);
	if (stop) {
		err = evset_aux_enable(&k->set, &k->events, true);
		ret = ret ? ret : err;
	}
	writer_finish(output_writer(k->out));
	recorder_account(k->recorder, k->ledger);
	err = output_switch(k->out, lp->diag);
	ret = ret ? ret : err;
	w = output_writer(k->out);
	if (w) {
		recorder_output(k->recorder, w);
		if (k->save)
			codesave_output(k->save, w);
		err = kernel_header(k, w, lp->diag);
		ret = ret ? ret : err;
	}
	recorder_describing(k->recorder, true);
	recorder_release(k->recorder);
	if (w && !ret) {
		lp->switched_bytes = writer_size(w);
		ret = describe(lp, w);
		recorder_describing(k->recorder, false);
	}
	return ret;
}

static bool wants_snapshots(const struct kernel *k)
{
	return k->o->snapshot || k->o->overwrite;
}

static int handle_signal(struct loop *lp, int sig)
{
	struct kernel *k = lp->k;

	switch (sig) {
	case SIGUSR2:
		if (wants_snapshots(k))
			return snapshot(lp, AUX_SNAPSHOT_SIGNAL, NULL);
		return k->o->switch_signal ? switch_file(lp) : 0;
	case SIGCONT:
		watch_continued(k);
		return 0;
	case SIGCHLD:	/* run_once() asks target_ended() */
		return 0;
	default:	/* all others that cmd_record blocked */
		k->stopped = true;
		lp->done = true;
		return 0;
	}
}

static int handle_signals(struct loop *lp)
{
	struct signalfd_siginfo si;
	int ret = 0;

	while (!ret && read(lp->k->o->signal_fd, &si, sizeof(si)) ==
			       (ssize_t)sizeof(si))
		ret = handle_signal(lp, (int)si.ssi_signo);
	return ret;
}

static void answer_evlist(const struct kernel *k)
{
	size_t i;

	for (i = 0; i < k->events.n; i++)
		control_ack(k->control, k->events.events[i].name);
}

static int handle_command(struct loop *lp, enum control_command c,
			const char *arg)
{
	struct kernel *k = lp->k;
	char text[160];
	int ret = 0;

	switch (c) {
	case CONTROL_ENABLE:
	case CONTROL_DISABLE:
		ret = enable(lp, c == CONTROL_ENABLE);
		break;
	case CONTROL_SNAPSHOT:
		if (!wants_snapshots(k)) {
			control_ack(k->control, "error: no snapshot mode (-S)");
			return 0;
		}
		ret = snapshot(lp, AUX_SNAPSHOT_CONTROL, *arg ? arg : NULL);
		break;
	case CONTROL_SWITCH:
		if (output_is_pipe(k->out)) {
			control_ack(k->control, "error: a pipe has one "
				    "recording (-o names a file)");
			return 0;
		}
		ret = switch_file(lp);
		break;
	case CONTROL_STOP:
		lp->done = k->stopped = true;
		break;
	case CONTROL_EVLIST:
		answer_evlist(k);
		break;
	case CONTROL_PING:	/* is answered when the rings have been read */
		ret = recorder_hold(k->recorder);
		recorder_release(k->recorder);
		break;
	default:
		snprintf(text, sizeof(text), "error: unknown command '%.100s'",
			 arg);
		control_ack(k->control, text);
		return 0;
	}
	control_ack(k->control, ret ? "error: failed" : "ack");
	return ret;
}

static int handle_commands(struct loop *lp)
{
	enum control_command c;
	const char *arg;
	int ret = 0;

	while (!ret &&
	       (c = control_next(lp->k->control, &arg)) != CONTROL_NONE)
		ret = handle_command(lp, c, arg);
	return ret;
}

/* Whatever is due by time or size: -D, rotation, flush, --max-size,
 * progress. */
static int handle_timers(struct loop *lp)
{
	const struct kernel_options *o = lp->k->o;
	struct kernel *k = lp->k;
	uint64_t now = clock_ms();
	int ret = 0;

	if (lp->delayed && now - lp->started_ms >= (uint64_t)o->delay_ms) {
		lp->delayed = false;
		ret = enable(lp, true);
	}
	if (!ret && ((o->switch_ms && now - lp->switched_ms >= o->switch_ms) ||
		     (o->switch_size && writer_size(output_writer(k->out)) -
			      lp->switched_bytes >= o->switch_size)))
		ret = switch_file(lp);
	if (!ret && now - lp->flushed_ms >= FLUSH_MS) {
		ret = writer_flush(output_writer(k->out));
		lp->flushed_ms = now;
	}
	lp->room = recorder_room(k->recorder);
	if (!lp->room)
		lp->done = k->full = true;
	if (k->job->progress && now - lp->progress_ms >= PROGRESS_MS) {
		struct recorder_stats s;

		recorder_stats(k->recorder, &s);
		k->job->progress(k->job->progress_priv, 0, s.aux_bytes);
		lp->progress_ms = now;
	}
	return ret;
}

/* Milliseconds until something is due. */
static int timeout_ms(const struct loop *lp)
{
	const struct kernel_options *o = lp->k->o;
	uint64_t now = clock_ms(), due, left = IDLE_MS;

	if (!lp->k->target.child || lp->k->job->progress)
		left = ATTACHED_MS;
	if (lp->room < o->max_size / 2)
		left = FILL_MS;
	if (lp->delayed) {
		due = lp->started_ms + (uint64_t)o->delay_ms;
		left = due <= now ? 0 : due - now < left ? due - now : left;
	}
	due = lp->k->when.due_ms;
	if (due)
		left = due <= now ? 0 : due - now < left ? due - now : left;
	if (lp->k->when.more)
		left = 0;
	if (o->switch_ms) {
		due = lp->switched_ms + o->switch_ms;
		left = due <= now ? 0 : due - now < left ? due - now : left;
	}
	return (int)left;
}

/* Starts the readers, enables the events unless the child's exec does
 * (enable_on_exec) or -D delays it, and releases the child into its exec. */
static int start(struct loop *lp)
{
	struct kernel *k = lp->k;
	int ret = recorder_start(k->recorder, lp->diag);

	if (!ret && k->save && codesave_start(k->save))
		ret = diag_set(lp->diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			       "out of memory");
	if (!ret && !k->o->delay_ms) {
		k->enabled = true;
		if (!k->target.starts_at_exec)
			ret = evset_enable(&k->set, &k->events, lp->diag);
	} else {
		recorder_pause(k->recorder, true);
	}
	if (!ret && k->target.child)
		ret = target_start(&k->target, lp->diag);
	return ret;
}

static int run_once(struct loop *lp)
{
	struct kernel *k = lp->k;
	struct pollfd fds[] = {
		{ .fd = k->o->signal_fd, .events = POLLIN },
		{ .fd = k->control ? k->control->fd : -1, .events = POLLIN },
		{ .fd = k->watch.fd, .events = POLLIN },
		{ .fd = when_wanted(k) ? k->recorder->moments.fd : -1, .events = POLLIN },
	};
	int ret = recorder_poll(k->recorder, fds, 4, timeout_ms(lp));

	if (ret)
		return diag_set(lp->diag, -ret, AUX_NO_OFFSET,
				"the recording stopped: %s", aux_strerror(ret));
	ret = handle_signals(lp);
	if (!ret)
		ret = when_handle(k, false, lp->diag);
	if (!ret && watch_look(k, false))
		ret = diag_set(lp->diag, AUX_E_IO, AUX_NO_OFFSET,
			       "the recording stopped: what happened to a CPU "
			       "could not be written");
	if (!ret && fds[1].revents)
		ret = handle_commands(lp);
	if (!ret)
		ret = handle_timers(lp);
	if (target_ended(&k->target))
		lp->done = true;
	return ret;
}

int kernel_loop(struct kernel *k, struct aux_diag *diag)
{
	struct aux_diag late = { 0 };
	struct loop lp = { .k = k, .diag = diag, .room = UINT64_MAX };
	int ret, err, status;

	lp.started_ms = lp.switched_ms = clock_ms();
	lp.delayed = k->o->delay_ms > 0;
	k->result->never_enabled = k->o->delay_ms != 0;
	watch_open(k);
	ret = start(&lp);
	while (!ret && !lp.done)
		ret = run_once(&lp);
	if (!ret && when_wanted(k)) {	/* the last ones are still in the rings */
		ret = recorder_hold(k->recorder);
		recorder_release(k->recorder);
		if (!ret)
			ret = when_handle(k, true, diag);
	}
	if (!ret && k->o->snapshot_at_exit)
		ret = snapshot(&lp, AUX_SNAPSHOT_EXIT, NULL);
	watch_look(k, true);
	evset_disable(&k->set, &late);
	if (k->save) {
		/* Drain once more while the program may still exist: codesave
		 * reads the code of the last maps from its memory. */
		recorder_hold(k->recorder);
		recorder_release(k->recorder);
		codesave_finish(k->save);
	}
	k->result->terminated = !target_child_ended(&k->target, &status);
	if (k->result->terminated)
		target_kill(&k->target, SIGTERM);
	err = recorder_finish(k->recorder, &late);
	if (!ret && err)
		*diag = late;
	return ret ? ret : err;
}
