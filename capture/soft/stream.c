/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_stream: opening and closing a software recording; its clock, streams
 * and AUX output.
 *
 * Records of one process and the code they describe are ordered by time alone:
 * a record that changes what code means moves the process's floor past all that
 * ran before, and each of its threads goes on later than that floor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/diag.h"

#include "capture/soft/stream.h"

#define ROUND_BYTES (4 << 20)	/* AUX bytes between two FINISHED_ROUNDs */

int soft_note(struct soft *s, int err)
{
	if (err < 0 && !s->error)
		s->error = err;
	return s->error;
}

uint64_t soft_stamp(struct soft *s, uint64_t time)
{
	if (time < s->floor)
		time = s->floor;
	if (time > s->max_time)
		s->max_time = time;
	return time;
}

uint64_t soft_thread_now(const struct soft_thread *t)
{
	return t->on ? *soft_clock(t->st) : t->clock;
}

/*
 * Readers sort records between rounds: what comes after a FINISHED_ROUND must
 * not be earlier than what came before the previous one.
 */
static void end_round(struct soft *s)
{
	s->round_bytes = 0;
	s->floor = s->round_time;
	s->round_time = s->max_time;
	soft_note(s, synth_finished_round(s->w));
}

int soft_stream_aux(struct soft_stream *st, const uint8_t *bytes, size_t n,
		    uint64_t flags)
{
	struct soft *s = st->s;
	bool per_thread = s->config.per_thread;
	struct soft_thread *t = st->owner;
	struct synth_id id = {
		.pid = t ? t->pid : UINT32_MAX,
		.tid = t ? t->tid : UINT32_MAX,
		.time = soft_stamp(s, *soft_clock(st)),
		.cpu = st->idx % s->config.n_cpus,
		.id = s->config.event_id,
	};
	struct aux_rec_auxtrace a = {
		.size = n,
		.offset = st->offset,
		.reference = *soft_clock(st),
		.idx = st->idx,
		.tid = per_thread && t ? t->tid : UINT32_MAX,
		.cpu = per_thread ? UINT32_MAX : st->idx,
	};
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes,
			     .iov_len = n };

	soft_note(s, synth_aux(s->w, &id, st->offset, n, flags));
	soft_note(s, writer_auxtrace(s->w, &a, &iov, 1));
	st->offset += n;
	s->stats.aux_bytes += n;
	s->round_bytes += n;
	if (s->round_bytes >= ROUND_BYTES)
		end_round(s);
	return s->error;
}

struct soft_stream *soft_stream_new(struct soft *s, uint32_t idx)
{
	struct soft_stream *st = calloc(1, sizeof(*st));

	if (!st)
		return NULL;
	st->buf = malloc(SOFT_BUF_SIZE);
	if (!st->buf) {
		free(st);
		return NULL;
	}
	st->s = s;
	st->idx = idx;
	s->ops->open(st);
	return st;
}

static struct soft_ended *find_ended(const struct soft *s, uint32_t tid)
{
	size_t i;

	for (i = 0; i < s->n_ended; i++)
		if (s->ended[i].tid == tid)
			return &s->ended[i];
	return NULL;
}

struct soft_stream *soft_stream_of(struct soft *s, uint32_t tid)
{
	const struct soft_ended *was = find_ended(s, tid);
	struct soft_stream *st;

	st = soft_stream_new(s, was ? was->idx : s->n_streams++);
	if (st && was)
		st->offset = was->offset;
	return st;
}

static int note_ended(const struct soft_stream *st, uint32_t tid)
{
	struct soft *s = st->s;
	struct soft_ended *e = find_ended(s, tid);
	size_t cap = s->cap_ended ? s->cap_ended * 2 : 16;

	if (!e && s->n_ended == s->cap_ended) {
		e = reallocarray(s->ended, cap, sizeof(*e));
		if (!e)
			return -AUX_E_NOMEM;
		s->ended = e;
		s->cap_ended = cap;
	}
	if (!find_ended(s, tid))
		e = &s->ended[s->n_ended++];
	*e = (struct soft_ended){ tid, st->idx, st->offset };
	return 0;
}

void soft_stream_free(struct soft_stream *st)
{
	if (!st)
		return;
	st->s->ops->flush(st);
	soft_note(st->s, soft_stream_error(st));
	if (st->s->config.stream_end && st->first_ns)
		st->s->config.stream_end(st->s->config.priv,
					 st->s->config.etm.shared ? 0 : st->idx,
					 st->first_ns, *soft_clock(st));
	if (st->s->config.per_thread && st->owner)
		soft_note(st->s, note_ended(st, st->owner->tid));
	free(st->buf);
	free(st);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void flush_stream(struct soft_stream *st)
{
	if (!st)
		return;
	st->s->ops->flush(st);
	soft_note(st->s, soft_stream_error(st));
}

void soft_flush_streams(struct soft *s)
{
	struct soft_thread *t;
	uint32_t i;

	for (i = 0; s->streams && i < s->n_streams; i++)
		flush_stream(s->streams[i]);
	for (t = s->threads; !s->streams && t; t = t->next)
		flush_stream(t->st);
	if (s->ops->flush_shared)
		s->ops->flush_shared(s);
}

/* The truth first: it shall cover what the file shows. */
int soft_tick(struct soft *s)
{
	uint64_t now = now_ms();

	if (now - s->flushed_ms < SOFT_WAIT_MS)
		return s->error;
	s->flushed_ms = now;
	soft_note(s, soft_truth_flush(s->truth));
	soft_flush_streams(s);
	if (s->round_bytes)
		end_round(s);
	return soft_note(s, writer_flush(s->w));
}

static int put_head(struct soft *s)
{
	uint64_t cpu = s->config.per_thread ? UINT64_MAX : 0;
	const struct aux_rec_id_index_entry e[2] = {
		{ .id = s->config.event_id, .cpu = cpu, .tid = UINT64_MAX },
		{ .id = s->config.sideband_id, .cpu = cpu, .tid = UINT64_MAX },
	};
	struct aux_rec_time_conv tc = {
		.time_shift = SOFT_TIME_SHIFT,
		.time_mult = 1 << SOFT_TIME_SHIFT,
		.cap_user_time_zero = 1,
	};

	soft_note(s, synth_id_index(s->w, e, 2));
	soft_note(s, s->ops->info(s));
	soft_note(s, synth_cpu_map(s->w, s->config.n_cpus));
	soft_note(s, writer_time_conv(s->w, &tc));
	return s->error;
}

static void setup(struct soft *s, const struct soft_config *config,
		  struct writer *w)
{
	s->config = *config;
	s->ops = config->trace == SOFT_TRACE_ETM ? &soft_trace_etm :
						   &soft_trace_pt;
	s->w = w;
	s->max_time = s->round_time = s->floor = config->start_ns;
	s->pt = (struct pt_encode_config){
		.tsc = config->tsc,
		.mtc = config->mtc && config->tsc,
		.cyc = config->cyc,
		.retcomp = config->retcomp,
		.branch = config->branch,
		.defer_tip = config->defer_tip,
		.mtc_period = config->mtc_period,
		.psb_period = config->psb_period,
		.cyc_thresh = config->cyc_thresh,
		.inject_overflow = config->inject_overflow,
	};
	s->etm = (struct etm_encode_config){
		.ete = config->etm.ete,
		.timestamp = config->etm.timestamp,
		.contextid = config->etm.contextid,
		.vmid = config->etm.vmid,
		.cycacc = config->etm.cycacc,
		.retstack = config->etm.retstack,
		.broadcast = config->etm.broadcast,
		.pieces = config->etm.shared,
		.cc_threshold = config->etm.cc_threshold,
		.sync_period = config->etm.sync_period,
		.inject_overflow = config->inject_overflow,
	};
}

int soft_open(struct soft **sp, const struct soft_config *config,
	      struct writer *w, struct aux_diag *diag)
{
	struct soft *s = calloc(1, sizeof(*s));
	int err = 0;

	*sp = NULL;
	if (!s || !config->n_cpus)
		goto nomem;
	setup(s, config, w);
	if (!config->per_thread) {
		s->streams = calloc(config->n_cpus, sizeof(*s->streams));
		if (!s->streams)
			goto nomem;
		s->n_streams = config->n_cpus;
	}
	if (config->truth_path)
		err = soft_truth_open(&s->truth, config->truth_path, diag);
	if (!err && put_head(s))
		err = diag_set(diag, -s->error, AUX_NO_OFFSET,
			       "cannot write the recording: %s",
			       aux_strerror(s->error));
	if (err)
		soft_close(s, NULL, NULL);
	else
		*sp = s;
	return err;
nomem:
	free(s);
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

static void free_streams(struct soft *s)
{
	uint32_t i;

	for (i = 0; s->streams && i < s->n_streams; i++)
		soft_stream_free(s->streams[i]);
	free(s->streams);
	free(s->ended);
}

int soft_close(struct soft *s, struct soft_stats *stats, struct aux_diag *diag)
{
	struct soft_process *proc;
	struct soft_thread *t;
	int err, truth_err;

	if (!s)
		return 0;
	while ((t = s->threads)) {
		s->threads = t->next;
		soft_switch_out(t);
		free(t);
	}
	if (s->ops->flush_shared)
		soft_flush_streams(s);
	free_streams(s);
	soft_etm_out_fini(&s->out);
	while ((proc = s->procs)) {
		s->procs = proc->next;
		free(proc);
	}
	truth_err = soft_truth_close(s->truth, diag);
	if (stats)
		*stats = s->stats;
	err = s->error;
	free(s);
	if (err)
		return diag_set(diag, -err, AUX_NO_OFFSET,
				"cannot write the recording: %s",
				aux_strerror(err));
	return truth_err;
}

const struct soft_stats *soft_stats(const struct soft *s)
{
	return &s->stats;
}

int soft_truth(struct soft *s, uint32_t tid, const uint64_t *ips, size_t n)
{
	return s->truth ? soft_note(s, soft_truth_add(s->truth, tid, ips, n)) :
			  0;
}
