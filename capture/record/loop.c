/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop of a kernel recording: rings, signals, commands, clocks, rotation,
 * and an end that leaves nothing behind.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/record/kernel.h"

#define IDLE_MS 1000
#define FLUSH_MS 200	/* what was read goes to the file, though nothing follows */
#define FILL_MS 10	/* at the size, when half of --max-size is there */
#define DESCRIBE_MS 5
#define LOOK_MS 100	/* at processes of others, whose end nobody tells us */

struct loop {
	struct kernel *k;
	uint64_t started_ms, switched_ms;
	uint64_t switched_bytes;
	uint64_t progress_ms, flushed_ms;
	uint64_t room;	/* left of --max-size */
	bool waits;	/* for -D to run out */
	bool done;
	struct aux_diag *diag;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int enable(struct loop *lp, bool on)
{
	struct kernel *k = lp->k;
	int ret;

	if (k->enabled == on)
		return 0;
	k->result->never_enabled &= !on;
	ret = on ? evset_enable(&k->set, lp->diag) :
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

/* Tells a new file what exists, beside the readers: rings must not wait for it.
 * Its records have no time, so it does not matter that others come between. */
struct describing {
	struct kernel *k;
	struct writer *w;
	struct aux_diag diag;
	int ret;
	bool done;
};

static void *run_describing(void *arg)
{
	struct describing *d = arg;

	/* the readers hurry, this does not */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 0);
	d->ret = kernel_describe(d->k, d->w, true, &d->diag);
	__atomic_store_n(&d->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* What describes is not of the size at which files are to change; what comes from
 * the rings meanwhile is. */
static int describe(struct loop *lp, struct writer *w)
{
	struct describing d = { .k = lp->k, .w = w };
	struct pollfd none = { .fd = -1 };
	struct recorder_stats was, is;
	uint64_t begun = writer_size(w), more, read;
	pthread_t thread;
	int ret = 0;

	recorder_stats(lp->k->recorder, &was);
	if (pthread_create(&thread, NULL, run_describing, &d))
		return kernel_describe(lp->k, w, true, lp->diag);
	while (!ret && !__atomic_load_n(&d.done, __ATOMIC_ACQUIRE))
		ret = recorder_poll(lp->k->recorder, &none, 1, DESCRIBE_MS);
	pthread_join(thread, NULL);
	recorder_stats(lp->k->recorder, &is);
	more = writer_size(w) - begun;
	read = is.aux_bytes - was.aux_bytes;
	lp->switched_bytes += read < more ? more - read : 0;
	if (ret)
		return diag_set(lp->diag, -ret, AUX_NO_OFFSET,
				"the recording stopped: %s", aux_strerror(ret));
	if (d.ret)
		*lp->diag = d.diag;
	return d.ret;
}

/*
 * All at rest: the present file gets what belongs to it, the next begins. The
 * kernel hands over trace when enough of it is there, or the event stops; so it
 * stops, else trace would lie in another file than its side-band.
 */
static int switch_file(struct loop *lp)
{
	struct kernel *k = lp->k;
	bool stops = k->enabled && k->events.n_aux && !k->o->snapshot;
	struct writer *w;
	int ret = 0, err;

	lp->switched_ms = now_ms();
	if (stops)
		ret = evset_aux_enable(&k->set, &k->events, false);
	err = recorder_hold(k->recorder);
	ret = ret ? ret : err;
	if (k->save)
		codesave_output(k->save, NULL);
	if (stops) {
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

static int take_signal(struct loop *lp, int sig)
{
	struct kernel *k = lp->k;

	switch (sig) {
	case SIGUSR2:
		if (wants_snapshots(k))
			return snapshot(lp, AUX_SNAPSHOT_SIGNAL, NULL);
		return k->o->switch_signal ? switch_file(lp) : 0;
	case SIGINT:
	case SIGTERM:
	case SIGHUP:
		k->stopped = true;
		lp->done = true;
		return 0;
	default:	/* SIGCHLD: target_ended looks */
		return 0;
	}
}

static int take_signals(struct loop *lp)
{
	struct signalfd_siginfo si;
	int ret = 0;

	while (!ret && read(lp->k->o->signal_fd, &si, sizeof(si)) ==
			       (ssize_t)sizeof(si))
		ret = take_signal(lp, (int)si.ssi_signo);
	return ret;
}

static void answer_evlist(const struct kernel *k)
{
	size_t i;

	for (i = 0; i < k->events.n; i++)
		control_ack(k->control, k->events.events[i].name);
}

static int take_command(struct loop *lp, enum control_command c,
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
	case CONTROL_PING:
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

static int take_commands(struct loop *lp)
{
	enum control_command c;
	const char *arg;
	int ret = 0;

	while (!ret &&
	       (c = control_next(lp->k->control, &arg)) != CONTROL_NONE)
		ret = take_command(lp, c, arg);
	return ret;
}

/* What the clock or the size asks for. */
static int take_due(struct loop *lp)
{
	const struct kernel_options *o = lp->k->o;
	struct kernel *k = lp->k;
	uint64_t now = now_ms();
	int ret = 0;

	if (lp->waits && now - lp->started_ms >= (uint64_t)o->delay_ms) {
		lp->waits = false;
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
	if (k->job->progress && now - lp->progress_ms >= 500) {
		struct recorder_stats s;

		recorder_stats(k->recorder, &s);
		k->job->progress(k->job->progress_priv, 0, s.aux_bytes);
		lp->progress_ms = now;
	}
	return ret;
}

static int sleep_ms(const struct loop *lp)
{
	const struct kernel_options *o = lp->k->o;
	uint64_t now = now_ms(), due, left = IDLE_MS;

	if (!lp->k->target.child || lp->k->job->progress)
		left = LOOK_MS;
	if (lp->room < o->max_size / 2)
		left = FILL_MS;
	if (lp->waits) {
		due = lp->started_ms + (uint64_t)o->delay_ms;
		left = due <= now ? 0 : due - now < left ? due - now : left;
	}
	if (o->switch_ms) {
		due = lp->switched_ms + o->switch_ms;
		left = due <= now ? 0 : due - now < left ? due - now : left;
	}
	return (int)left;
}

static int start(struct loop *lp)
{
	struct kernel *k = lp->k;
	int ret = recorder_start(k->recorder, lp->diag);

	if (!ret && k->save && codesave_start(k->save))
		ret = diag_set(lp->diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			       "out of memory");
	if (!ret && !k->o->delay_ms) {
		k->enabled = true;
		if (!k->target.traces_child)
			ret = evset_enable(&k->set, lp->diag);
	} else {
		recorder_pause(k->recorder, true);
	}
	if (!ret && k->target.child)
		ret = target_start(&k->target, lp->diag);
	return ret;
}

static int turn(struct loop *lp)
{
	struct kernel *k = lp->k;
	struct pollfd fds[2] = {
		{ .fd = k->o->signal_fd, .events = POLLIN },
		{ .fd = k->control ? k->control->fd : -1, .events = POLLIN },
	};
	int ret = recorder_poll(k->recorder, fds, 2, sleep_ms(lp));

	if (ret)
		return diag_set(lp->diag, -ret, AUX_NO_OFFSET,
				"the recording stopped: %s", aux_strerror(ret));
	ret = take_signals(lp);
	if (!ret && fds[1].revents)
		ret = take_commands(lp);
	if (!ret)
		ret = take_due(lp);
	if (target_ended(&k->target))
		lp->done = true;
	return ret;
}

int kernel_loop(struct kernel *k, struct aux_diag *diag)
{
	struct aux_diag late = { 0 };
	struct loop lp = { .k = k, .diag = diag, .room = UINT64_MAX };
	int ret, err, status;

	lp.started_ms = lp.switched_ms = now_ms();
	lp.waits = k->o->delay_ms > 0;
	k->result->never_enabled = k->o->delay_ms != 0;
	ret = start(&lp);
	while (!ret && !lp.done)
		ret = turn(&lp);
	if (!ret && k->o->snapshot_at_exit)
		ret = snapshot(&lp, AUX_SNAPSHOT_EXIT, NULL);
	evset_disable(&k->set, &late);
	if (k->save) {	/* the program still is, and the rings tell of its maps */
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
