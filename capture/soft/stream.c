/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A software recording: its clock, its threads on (virtual) CPUs, AUX output.
 *
 * The virtual clock. Each CPU has a clock that only its own instructions and records
 * advance, so a recording does not depend on the machine's speed, except for the time
 * spent in the kernel. The CPUs' clocks are not synchronized: what relates them is
 * that readers merge records and trace by time. Three rules make this right:
 *
 * - Floor of a process: records of one process and the code they describe are ordered
 *   by time alone. A record that changes what code means (mapping, code bytes, exec)
 *   moves the process's floor past all that ran before, and each of its threads
 *   resumes later than that floor (resync).
 * - Floor of the file: readers sort records between two FINISHED_ROUNDs, as perf does.
 *   No record may be earlier than the latest one before the previous round (stamp).
 * - A thread's records and trace have rising times, on whatever CPU it runs (clock,
 *   last_record).
 *
 * The first error sticks (keep_error), and every later call returns it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <aux/decoder.h>

#include "capture/soft/impl.h"
#include "common/array.h"
#include "common/diag.h"
#include "common/jitname.h"
#include "perfdata/csmeta.h"

#define AUX_FLAG_OVERWRITE 2	/* PERF_AUX_FLAG_OVERWRITE */
#define ROUND_BYTES (4 << 20)	/* AUX bytes between two FINISHED_ROUNDs */

/* Retains the first error of the recording, which every later call returns. */
static int keep_error(struct soft *s, int err)
{
	if (err < 0 && !s->error)
		s->error = err;
	return s->error;
}

/* A time for a record: never before what readers may have sorted already. */
static uint64_t stamp(struct soft *s, uint64_t time)
{
	if (time < s->floor)
		time = s->floor;
	if (time > s->max_time)
		s->max_time = time;
	return time;
}

/* The time of a thread, on a CPU or not. */
static uint64_t thread_now(const struct soft_thread *t)
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
	keep_error(s, synth_finished_round(s->w));
}

/* What is kept of a stream until a snapshot. */
static int keep_newest(struct soft_stream *st, const uint8_t *bytes, size_t n)
{
	size_t size = st->s->config.ring_bytes, part;

	if (!st->ring && !(st->ring = malloc(size)))
		return keep_error(st->s, -AUX_E_NOMEM);
	for (size_t at; n; st->offset += part, bytes += part, n -= part) {
		at = (size_t)(st->offset % size);
		part = n < size - at ? n : size - at;
		memcpy(st->ring + at, bytes, part);
	}
	return st->s->error;
}

static int put_aux(struct soft_stream *st, const struct iovec *iov, int n_iov,
		   uint64_t offset, uint64_t flags);

/* reference is the TSC, as perf record has it. */
int soft_stream_aux(struct soft_stream *st, const uint8_t *bytes, size_t n,
		    uint64_t flags)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = n };

	if (st->s->config.ring_bytes)
		return keep_newest(st, bytes, n);
	st->offset += n;
	st->s->stats.aux_bytes += n;
	return put_aux(st, &iov, 1, st->offset - n, flags);
}

static int put_aux(struct soft_stream *st, const struct iovec *iov, int n_iov,
		   uint64_t offset, uint64_t flags)
{
	struct soft *s = st->s;
	bool per_thread = s->config.per_thread;
	struct soft_thread *t = st->owner;
	uint64_t n = iov[0].iov_len + (n_iov > 1 ? iov[1].iov_len : 0);
	struct synth_id id = {
		.pid = t ? t->pid : UINT32_MAX,
		.tid = t ? t->tid : UINT32_MAX,
		.time = stamp(s, *soft_clock(st)),
		.cpu = st->idx % s->config.n_cpus,
		.id = s->config.event_id,
	};
	struct aux_rec_auxtrace a = {
		.size = n,
		.offset = offset,
		.reference = *soft_clock(st),
		.idx = st->idx,
		.tid = per_thread && t ? t->tid : UINT32_MAX,
		.cpu = per_thread ? UINT32_MAX : st->idx,
	};

	keep_error(s, synth_aux(s->w, &id, offset, n, flags));
	keep_error(s, writer_auxtrace(s->w, &a, iov, n_iov));
	s->round_bytes += n;
	if (s->round_bytes >= ROUND_BYTES)
		end_round(s);
	return s->error;
}

static struct soft_stream *new_stream(struct soft *s, uint32_t idx)
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

/* A new stream for a thread (per_thread), or the continuation of the one that
 * an earlier thread of that tid had. */
static struct soft_stream *thread_stream(struct soft *s, uint32_t tid)
{
	const struct soft_ended *was = find_ended(s, tid);
	struct soft_stream *st;

	st = new_stream(s, was ? was->idx : s->n_streams++);
	if (st && was)
		st->offset = was->offset;
	return st;
}

/* Records where the stream of a thread ended: if its tid is used again, the new
 * thread's trace continues that stream. */
static int record_end(const struct soft_stream *st, uint32_t tid)
{
	struct soft *s = st->s;
	struct soft_ended *e = find_ended(s, tid);

	if (!e) {
		if (array_grow(&s->ended, s->n_ended, &s->cap_ended,
			       sizeof(*e)))
			return -AUX_E_NOMEM;
		e = &s->ended[s->n_ended++];
	}
	*e = (struct soft_ended){ tid, st->idx, st->offset };
	return 0;
}

/* Flushes the stream and reports the time that it covers. NULL is allowed. */
static void free_stream(struct soft_stream *st)
{
	if (!st)
		return;
	st->s->ops->flush(st);
	keep_error(st->s, soft_stream_error(st));
	if (st->s->config.stream_end && st->first_ns)
		st->s->config.stream_end(st->s->config.priv,
					 st->s->config.etm.shared ? 0 : st->idx,
					 st->first_ns, *soft_clock(st));
	if (st->s->config.per_thread && st->owner)
		keep_error(st->s, record_end(st, st->owner->tid));
	free(st->ring);
	free(st->buf);
	free(st);
}

/* Real time; coarse, as it is read for every batch of blocks. */
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
	keep_error(st->s, soft_stream_error(st));
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

/* ---- snapshots ---- */

static void preempt(struct soft_thread *t);

/* What of a stream no snapshot has yet, as far as it is kept; the records of a file are
 * multiples of 8, and a zero is a packet that means nothing. */
static void save_newest(struct soft_stream *st)
{
	static const uint8_t zeros[8];
	size_t size = st->s->config.ring_bytes, at, first;
	uint64_t new, n;
	struct iovec iov[2];

	if (st->ring && keep_newest(st, zeros, -st->offset & 7))
		return;
	new = st->offset - st->saved_to;
	n = new < size ? new : size;
	st->saved_to = st->offset;
	st->s->stats.aux_bytes += new;
	if (!n)
		return;
	at = (size_t)((st->offset - n) % size);
	first = n < size - at ? (size_t)n : size - at;
	iov[0] = (struct iovec){ st->ring + at, first };
	iov[1] = (struct iovec){ st->ring, (size_t)n - first };
	put_aux(st, iov, n > first ? 2 : 1, st->offset - n, AUX_FLAG_OVERWRITE);
	st->e.next_psb = 0;	/* what comes next can be decoded alone */
}

/* What is kept goes to the file: of each CPU what no snapshot has yet. label may be NULL. */
static int take_snapshot(struct soft *s, enum aux_snapshot_reason reason,
			 const char *label, uint64_t time_ns)
{
	struct aux_own_snapshot r = {
		.number = ++s->stats.n_snapshots,
		.time_ns = time_ns,
		.reason = reason,
		.label_len = label ? (uint32_t)strnlen(label, 256) : 0,
	};

	/* all that ran is in it: the way into a block is known, that out of it is not */
	for (uint32_t i = 0; i < s->n_streams; i++)
		if (s->streams[i] && s->streams[i]->owner)
			preempt(s->streams[i]->owner);
	soft_flush_streams(s);
	keep_error(s, writer_own(s->w, AUX_OWN_SNAPSHOT, &r, sizeof(r), label,
				 r.label_len));
	for (uint32_t i = 0; i < s->n_streams; i++)
		if (s->streams[i])
			save_newest(s->streams[i]);
	end_round(s);
	return keep_error(s, writer_flush(s->w));
}

void soft_when(const struct soft_thread *t, uint64_t *time_ns, uint32_t *cpu)
{
	*time_ns = thread_now(t);
	*cpu = (t->st ? t->st->idx : t->last_idx) % t->s->config.n_cpus;
}

int soft_moment(struct soft *s, const struct soft_moment *m)
{
	struct aux_own_moment r = {
		.time_ns = m->time_ns, .took_ns = m->took_ns, .pid = m->pid,
		.tid = m->tid, .cpu = m->cpu,
		.label_len = (uint32_t)strnlen(m->text, 256),
	};

	keep_error(s, writer_own(s->w, AUX_OWN_MOMENT, &r, sizeof(r), m->text,
				 r.label_len));
	if (s->config.ring_bytes)
		take_snapshot(s, AUX_SNAPSHOT_TRIGGER, m->text, m->time_ns);
	return s->error;
}

/* The user asked for one, or several at once. */
static void snapshot_as_asked(struct soft *s)
{
	sig_atomic_t asked = s->config.asked ? *s->config.asked : 0;

	if (!s->config.ring_bytes || asked == s->n_asked)
		return;
	s->n_asked = asked;
	take_snapshot(s, AUX_SNAPSHOT_SIGNAL, NULL, s->max_time);
}

/* The truth first: if auxcap is killed, it covers what the file shows. */
int soft_tick(struct soft *s)
{
	uint64_t now = now_ms();

	snapshot_as_asked(s);
	if (now - s->flushed_ms < SOFT_WAIT_MS)
		return s->error;
	s->flushed_ms = now;
	keep_error(s, soft_truth_flush(s->truth));
	soft_flush_streams(s);
	if (s->round_bytes)
		end_round(s);
	keep_error(s, writer_flush(s->w));
	if (s->config.max_size && writer_size(s->w) >= s->config.max_size)
		s->config.end();
	return s->error;
}

/*
 * ---- threads: they come and go, get a (virtual) CPU; their records ----
 *
 * A thread keeps its CPU through the kernel; SWITCH records appear only where
 * another thread takes it over, as a real scheduler would write them. On one
 * stream a thread's trace lies strictly between its SWITCH in and SWITCH out,
 * and so does an exec's COMM: readers take it for a sign of who runs there.
 */

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The trailer of a record of t. */
static struct synth_id id_of(const struct soft_thread *t, uint64_t time)
{
	return (struct synth_id){
		.pid = t->pid,
		.tid = t->tid,
		.time = time,
		.cpu = (t->st ? t->st->idx : t->last_idx) %
		       t->s->config.n_cpus,
		.id = t->s->config.sideband_id,
	};
}

/* A time for t's next record; what t runs later is later. */
static uint64_t tick(struct soft_thread *t)
{
	uint64_t now = max_u64(thread_now(t), t->last_record) + 1;

	now = t->last_record = stamp(t->s, now);
	if (t->on) {
		t->proc->floor = max_u64(t->proc->floor, now);
		t->resync = true;
	} else {
		t->clock = now;
	}
	return now;
}

/* Takes t off its stream at last.start; it is still switched in. */
static void preempt(struct soft_thread *t)
{
	uint64_t ip = t->last.start;

	if (!t->on)
		return;
	if (t->pinned) {
		/* the PTWRITE's packet is out, so the block cannot be repeated
		 * from its start: stop at its last instruction, or after it */
		ip = t->last.end;
		if (t->last.cls != X86_PTWRITE && t->last.cls != X86_OTHER)
			ip -= t->last.last_size;
		t->last.start = ip;
	}
	t->s->ops->preempt(t, ip);
	t->clock = *soft_clock(t->st);
	t->on = false;
	t->resync = false;
}

/* t leaves its stream for good: SWITCH out. */
static void switch_out(struct soft_thread *t)
{
	struct soft_stream *st = t->st;
	struct soft *s = t->s;
	struct synth_id id;
	uint64_t *now;

	if (!st)
		return;
	preempt(t);
	now = soft_clock(st);
	*now = stamp(s, max_u64(max_u64(*now, t->clock), t->last_record) + 1);
	t->clock = *now;
	if (s->config.per_thread) {
		free_stream(st);
	} else {
		id = id_of(t, *now);
		keep_error(s, t->user ? synth_preempted(s->w, &id) :
					synth_switch(s->w, &id, true));
		st->owner = NULL;
	}
	t->st = NULL;
}

/*
 * The CPU to run t on: its former one unless another thread is in user code
 * there, else the least recently used of the best kind: free, its thread in the
 * kernel, any.
 */
static uint32_t choose_cpu(const struct soft_thread *t)
{
	const struct soft *s = t->s;
	uint32_t i, best = t->last_idx;
	int best_rank = 4, rank;
	uint64_t best_used = 0;

	for (i = 0; i < s->n_streams; i++) {
		const struct soft_stream *st = s->streams[i];

		rank = !st || !st->owner ? 1 : st->owner->user ? 3 : 2;
		if (i == t->last_idx && rank < 3)
			return i;
		if (rank < best_rank ||
		    (rank == best_rank && st && st->used < best_used)) {
			best = i;
			best_rank = rank;
			best_used = st ? st->used : 0;
		}
	}
	return best;
}

/* Its thread, if it has one, is switched out. NULL: out of memory. */
static struct soft_stream *claim_cpu(struct soft_thread *t)
{
	struct soft *s = t->s;
	struct soft_stream **st;

	if (s->config.per_thread)
		return thread_stream(s, t->tid);
	st = &s->streams[choose_cpu(t)];
	if (!*st)
		*st = new_stream(s, (uint32_t)(st - s->streams));
	else if ((*st)->owner)
		switch_out((*st)->owner);
	return *st;
}

/* SWITCH in, and ITRACE_START the first time. */
static int switch_in(struct soft_thread *t)
{
	struct soft_stream *st = claim_cpu(t);
	struct soft *s = t->s;
	struct synth_id id;
	uint64_t *now;

	if (!st)
		return keep_error(s, -AUX_E_NOMEM);
	t->st = st;
	t->last_idx = st->idx;
	st->owner = t;
	now = soft_clock(st);
	*now = stamp(s, max_u64(*now, t->clock) + 1);
	t->clock = *now;
	id = id_of(t, *now);
	if (!s->config.per_thread)
		keep_error(s, synth_switch(s->w, &id, false));
	id.id = s->config.event_id;
	if (!t->started)
		keep_error(s, synth_itrace_start(s->w, &id, t->pid, t->tid));
	t->started = true;
	return s->error;
}

/* Puts t on a stream and goes on at last.start. */
static int resume(struct soft_thread *t)
{
	struct soft *s = t->s;
	uint64_t *now;

	if (!t->st && switch_in(t))
		return s->error;
	t->st->used = ++s->order;
	now = soft_clock(t->st);
	*now = max_u64(max_u64(*now, t->clock), t->proc->floor) + 1;
	if (!t->st->first_ns)
		t->st->first_ns = *now;
	s->ops->enable(t);
	t->on = true;
	t->resync = false;
	return s->error;
}

/* Found or made. */
static struct soft_process *find_process(struct soft *s, uint32_t pid)
{
	struct soft_process *p;

	for (p = s->procs; p; p = p->next)
		if (p->pid == pid)
			return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->next = s->procs;
	s->procs = p;
	return p;
}

static void drop_process(struct soft *s, struct soft_process *proc)
{
	struct soft_process **p = &s->procs;

	if (--proc->n_threads)
		return;
	while (*p != proc)
		p = &(*p)->next;
	*p = proc->next;
	free(proc->ranges);
	free(proc);
}

/* ---- address filters ---- */

static int add_range(struct soft_process *p, uint64_t start, uint64_t end)
{
	if (array_grow(&p->ranges, p->n_ranges, &p->cap_ranges,
		       sizeof(*p->ranges)))
		return -AUX_E_NOMEM;
	p->ranges[p->n_ranges++] = (struct soft_range){ start, end };
	return 0;
}

/* What was mapped there is gone. A range is inside of one mapping. */
static void drop_ranges(struct soft_process *p, uint64_t start, uint64_t end)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_ranges; i++)
		if (p->ranges[i].end <= start || p->ranges[i].start >= end)
			p->ranges[n++] = p->ranges[i];
	p->n_ranges = n;
}

/* The ranges of filters in a new mapping. */
static int map_ranges(struct soft *s, struct soft_process *p,
		      const struct synth_map *map)
{
	drop_ranges(p, map->addr, map->addr + map->len);
	for (size_t i = 0; i < s->config.n_filters; i++) {
		const struct addrfilter *f = &s->config.filters[i];
		uint64_t from = max_u64(f->offset, map->pgoff);
		uint64_t to = f->offset + f->size, end = map->pgoff + map->len;

		if (to > end)
			to = end;
		if (from < to && !strcmp(f->path, map->path) &&
		    add_range(p, map->addr + (from - map->pgoff),
			      map->addr + (to - map->pgoff)))
			return -AUX_E_NOMEM;
	}
	return 0;
}

/* A new process has its parent's mappings. */
static int copy_ranges(struct soft_process *p, const struct soft_process *from)
{
	int ret = 0;

	if (p == from || p->n_ranges)
		return 0;
	for (size_t i = 0; i < from->n_ranges && !ret; i++)
		ret = add_range(p, from->ranges[i].start, from->ranges[i].end);
	return ret;
}

/* The file's list of what is recorded; readers that have it know of a recording
 * by thread. */
int soft_attach(struct soft *s, uint32_t *tids, size_t n)
{
	const char **comms = calloc(n ? n : 1, sizeof(*comms));
	size_t i;

	if (!comms)
		return keep_error(s, -AUX_E_NOMEM);
	for (i = 0; i < n; i++)
		comms[i] = "";
	keep_error(s, synth_thread_map(s->w, tids, comms, n));
	free(comms);
	s->announced = true;
	return keep_error(s, synth_finished_init(s->w));
}

/* The thread that executes a program takes the first one's tid: after that one's end, as
 * readers must find, though its own time may be earlier. */
static void wait_for_end(struct soft_thread *t)
{
	uint64_t *clock = t->on ? soft_clock(t->st) : &t->clock;

	*clock = max_u64(*clock, t->proc->floor + 1);
}

struct soft_thread *soft_thread_add(struct soft *s, uint32_t pid, uint32_t tid,
				    struct soft_thread *parent)
{
	struct soft_thread *t = calloc(1, sizeof(*t));
	struct synth_id id;

	if (!t || !(t->proc = find_process(s, pid))) {
		free(t);
		keep_error(s, -AUX_E_NOMEM);
		return NULL;
	}
	t->proc->n_threads++;
	t->s = s;
	t->pid = pid;
	t->tid = tid;
	t->next = s->threads;
	s->threads = t;
	s->stats.n_threads++;
	if (!s->config.per_thread)
		t->last_idx = (uint32_t)(s->stats.n_threads - 1) % s->n_streams;
	if (!parent) {
		t->clock = s->config.start_ns;
		if (!s->announced)
			soft_attach(s, &tid, 1);
		return t;
	}
	keep_error(s, copy_ranges(t->proc, parent->proc));
	if (tid == pid && parent->pid == pid)
		wait_for_end(parent);
	t->ppid = parent->pid;
	t->ptid = parent->tid;
	t->clock = tick(parent);
	id = id_of(parent, t->clock);
	keep_error(s, synth_fork(s->w, &id, pid, t->ppid, tid, t->ptid));
	keep_error(s, jitfiles_add_child(s->jit, pid, t->ppid));
	return t;
}

void soft_thread_exit(struct soft_thread *t)
{
	struct soft *s = t->s;
	struct soft_thread **p = &s->threads;
	struct synth_id id;

	preempt(t);
	id = id_of(t, tick(t));
	t->proc->floor = max_u64(t->proc->floor, id.time);
	keep_error(s, synth_exit(s->w, &id, t->pid, t->ppid, t->tid, t->ptid));
	switch_out(t);
	t->proc->floor = max_u64(t->proc->floor, t->clock);
	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	drop_process(s, t->proc);
	free(t);
}

/* A time after all that this process ran so far; its threads resume later. */
static uint64_t barrier(struct soft_thread *t)
{
	struct soft_thread *o;
	uint64_t now = t->proc->floor;

	for (o = t->s->threads; o; o = o->next) {
		if (o->proc != t->proc)
			continue;
		now = max_u64(now, thread_now(o));
		o->resync = o->on;
	}
	now = stamp(t->s, now + 1);
	t->proc->floor = t->last_record = now;
	return now;
}

/*
 * ETM without timestamps: readers place a thread's trace by the AUX record it
 * is in, so the old image's trace must end its records before the exec.
 */
static void end_records(struct soft_thread *t)
{
	const struct soft_config *c = &t->s->config;

	if (c->trace != SOFT_TRACE_ETM || c->etm.timestamp)
		return;
	for (struct soft_thread *o = t->s->threads; o; o = o->next)
		if (o->proc == t->proc && o->st)
			t->s->ops->flush(o->st);
	/* their times may be later than what is in them */
	t->proc->floor = max_u64(t->proc->floor, stamp(t->s, 0));
}

int soft_comm(struct soft_thread *t, const char *comm, bool exec)
{
	struct soft *s = t->s;
	struct synth_id id;

	if (exec) {
		if (!t->st && !s->config.per_thread)
			switch_in(t);
		end_records(t);
		t->proc->n_ranges = 0;
	}
	/* a new image: whatever the old one's threads ran is before it */
	id = id_of(t, exec ? barrier(t) : tick(t));
	return keep_error(s, synth_comm(s->w, &id, t->pid, t->tid, comm, exec));
}

/* What JIT compilers write is saved at the end: a jitdump, or the perf map of a
 * process with code that no file has. */
static int note_jit(struct soft_thread *t, const struct synth_map *map)
{
	const char *path = map->path;

	if (jitname_is_dump(path))
		return jitfiles_add_dump(t->s->jit, t->pid, path);
	if (*path == '/' && path[1] != '/' && !(map->prot & PROT_WRITE) &&
	    strncmp(path, "/memfd:", 7) != 0 && !strstr(path, " (deleted)"))
		return 0;
	return strcmp(path, "[vdso]") ? jitfiles_add_map(t->s->jit, t->pid) : 0;
}

int soft_mmap(struct soft_thread *t, const struct synth_map *map)
{
	struct soft *s = t->s;
	uint64_t now = barrier(t);
	struct synth_id id = id_of(t, now);

	keep_error(s, synth_mmap2(s->w, &id, t->pid, t->tid, map));
	keep_error(s, map_ranges(s, t->proc, map));
	keep_error(s, note_jit(t, map));
	if (map->build_id_size && map->path[0] == '/')
		keep_error(s, writer_build_id(s->w, t->pid,
					     PERF_RECORD_MISC_USER, map->path,
					     map->build_id,
					     map->build_id_size));
	return s->error;
}

int soft_code(struct soft_thread *t, uint64_t addr, const void *bytes,
	      size_t len, enum aux_code_kind kind)
{
	struct aux_code_entry e = {
		.time_ns = barrier(t),
		.addr = addr,
		.len = len,
		.pid = t->pid,
		.kind = (uint32_t)kind,
	};

	return keep_error(t->s, writer_code(t->s->w, &e, bytes));
}

void soft_not_traced(struct soft *s, uint32_t pid, const char *program,
		     const char *why)
{
	s->stats.n_not_traced++;
	if (s->config.not_traced)
		s->config.not_traced(s->config.priv, pid, program, why);
}

int soft_signal(struct soft_thread *t, const struct soft_signal *sig)
{
	struct aux_own_signal r = {
		.time_ns = stamp(t->s, thread_now(t)),
		.pid = t->pid,
		.tid = t->tid,
		.what = AUX_SIGNAL_DELIVERED,
		.signo = (uint32_t)sig->signo,
		.code = sig->code,
		.flags = AUX_SIGNAL_HAS_IP | (sig->has_addr ? AUX_SIGNAL_HAS_ADDR : 0),
		.ip = sig->ip,
		.addr = sig->addr,
		.sender = sig->sender,
	};

	return keep_error(t->s, writer_own(t->s->w, AUX_OWN_SIGNAL, &r, sizeof(r),
					   NULL, 0));
}

int soft_ended(struct soft *s, uint32_t pid, uint32_t tid, int status)
{
	struct aux_own_signal r = {
		.time_ns = s->max_time,
		.pid = pid,
		.tid = tid,
		.what = AUX_SIGNAL_ENDED,
		.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		.signo = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0,
		.flags = WIFSIGNALED(status) && WCOREDUMP(status) ? AUX_SIGNAL_CORE : 0,
	};
	struct soft_thread *t = s->threads;

	while (t && t->tid != tid)
		t = t->next;
	if (t)
		r.time_ns = stamp(s, thread_now(t));
	if (pid != tid && !r.signo)
		return s->error;
	return keep_error(s, writer_own(s->w, AUX_OWN_SIGNAL, &r, sizeof(r), NULL, 0));
}

void soft_killed(struct soft *s)
{
	s->stats.n_killed++;
}

/*
 * ---- what ran, as the back ends report it ----
 *
 * A thread is put on a stream when it has run something, not when it enters
 * user code, so that idle threads cause no SWITCH records. It is taken off when
 * a shared sink is emptied.
 */

/* Puts t on a stream, before its trace is extended. */
static int ensure_on(struct soft_thread *t, uint64_t ip)
{
	if (!t->user) {
		/* a back end's mistake: it never entered */
		t->s->stats.n_unexplained++;
		soft_enter(t, ip, 0);
	}
	return t->on ? t->s->error : resume(t);
}

/* What must be so before blocks are encoded; returns the thread's clock, NULL:
 * an error. */
static uint64_t *begin_run(struct soft_thread *t, uint64_t ip)
{
	if (ensure_on(t, ip))
		return NULL;
	t->st->used = ++t->s->order;
	t->pinned = false;
	return soft_clock(t->st);
}

/* The clock before blocks that may have to wait for the process's floor. */
static uint64_t time_before(const struct soft_thread *t, uint64_t now)
{
	return t->resync && now <= t->proc->floor ? t->proc->floor + 1 : now;
}

int soft_run_paths(struct soft_thread *t, const struct soft_block *table,
		   const struct soft_path *paths, const uint32_t *ids, size_t n)
{
	uint64_t *now, tsc;
	size_t i = 0;

	if (!n)
		return 0;
	now = begin_run(t, paths[ids[0]].start);
	while (now && i < n) {
		tsc = time_before(t, *now);
		i += t->s->ops->run_paths(t, table, paths, ids + i, n - i);
		t->s->stats.n_insns += *now - tsc;
	}
	return now ? keep_error(t->s, soft_stream_error(t->st)) : t->s->error;
}

/*
 * ops->run() returns early after an overflow, when it switched to one block at
 * a time, or when a shared sink may be full, hence the loop.
 */
int soft_run(struct soft_thread *t, const struct soft_block *table,
	     const uint32_t *ids, size_t n)
{
	uint64_t *now, tsc;
	size_t i = 0;

	if (!n)
		return 0;
	now = begin_run(t, table[ids[0]].start);
	if (!now)
		return t->s->error;
	while (i < n) {
		tsc = time_before(t, *now);
		i += t->s->ops->run(t, table, ids + i, n - i);
		t->s->stats.n_insns += *now - tsc;
		if (t->s->out.full)
			soft_flush_streams(t->s);
		if (!t->on && ensure_on(t, t->last.start))
			break;
	}
	return keep_error(t->s, soft_stream_error(t->st));
}

int soft_cut(struct soft_thread *t, const struct soft_block *b,
	     uint32_t n_insns, uint64_t ip)
{
	struct soft_block part = *b;

	if (ensure_on(t, b->start))
		return t->s->error;
	if (t->s->config.n_filters) {	/* a filter may end before ip */
		part.end = ip;
		part.cls = X86_OTHER;
	}
	t->s->ops->run_block(t, &part, n_insns);
	t->s->stats.n_insns += n_insns;
	t->last = soft_at_ip(ip);
	t->pinned = false;
	return keep_error(t->s, soft_stream_error(t->st));
}

/* The class is of either architecture. */
static bool enters_kernel(const struct soft_block *b)
{
	return b->cls == X86_SYSCALL || b->cls == X86_FAR;
}

int soft_leave(struct soft_thread *t, enum soft_leave_kind kind, uint64_t ip)
{
	const struct soft_trace_ops *ops = t->s->ops;

	if (ensure_on(t, ip))
		return t->s->error;
	if (kind == SOFT_LEAVE_ASYNC) {
		ops->interrupt(t, ip);
	} else if (enters_kernel(&t->last)) {
		ops->call(t);
	} else {
		t->s->stats.n_unexplained++;
		ops->unexplained(t, ip);
	}
	t->clock = *soft_clock(t->st);
	t->on = t->user = t->resync = t->pinned = false;
	return keep_error(t->s, soft_stream_error(t->st));
}

int soft_enter(struct soft_thread *t, uint64_t ip, uint64_t kernel_ns)
{
	if (t->user && t->on) {
		t->s->stats.n_unexplained++;
		t->s->ops->unexplained(t, ip);
		t->clock = *soft_clock(t->st);
		t->on = false;
	}
	t->clock += kernel_ns;
	t->last = soft_at_ip(ip);
	t->user = true;
	t->pinned = false;
	return t->s->error;
}

int soft_abandon(struct soft_thread *t, uint64_t ip)
{
	if (soft_enter(t, ip, 0) || ensure_on(t, ip))
		return t->s->error;
	t->s->stats.n_abandoned++;
	t->s->ops->unexplained(t, ip);
	t->clock = *soft_clock(t->st);
	t->on = t->user = t->resync = false;
	return keep_error(t->s, soft_stream_error(t->st));
}

/* PSB+ belongs before the PTW, at last.start; unless a PTWRITE of the same
 * block has been sent, or branches are not traced and nothing depends on the
 * place. */
int soft_ptwrite(struct soft_thread *t, uint64_t ip, uint64_t value, int size)
{
	const struct soft_config *c = &t->s->config;

	if (!c->ptw || c->trace != SOFT_TRACE_PT)
		return 0;
	if (ensure_on(t, ip))
		return t->s->error;
	if (t->st->e.pos >= t->st->e.limit && !t->st->e.lost &&
	    (!t->pinned || !t->st->e.config.branch))
		pt_encode_checkpoint(&t->st->e, t->last.start);
	pt_encode_ptwrite(&t->st->e, ip, value, size, c->fup_on_ptw);
	t->pinned = true;
	return t->s->error;
}

/*
 * ---- CoreSight's output: trace IDs, frames, AUX records, AUXTRACE_INFO ----
 *
 * Decoders start anew with each AUX record, so a record ends only where its
 * trace units have stopped. A sink that all CPUs share is emptied when all of
 * them were stopped.
 *
 * Specification: Linux 6.1, tools/perf/util/cs-etm.h, and coresight-event/pmu.h
 * for AUX_OUTPUT_HW_ID.
 */

#define AUX_FLAG_RAW 0x100	/* PERF_AUX_FLAG_CORESIGHT_FORMAT_RAW */
#define RECORD_HW_ID 21		/* PERF_RECORD_AUX_OUTPUT_HW_ID: not in old headers */
#define PIECE_SIZE (4 * ETM_GROUP_MAX)
#define ETE_IGNORE 0x70		/* what a TRBE fills up with */
#define SINK_ALIGN 64		/* of what a sink writes to memory */
#define MAX_WORDS 12		/* of a CPU's block */

static uint32_t cpu_of(const struct soft_stream *st)
{
	return st->idx % st->s->config.n_cpus;
}

/* The driver's IDs; 0x70 and up are reserved. */
static uint8_t trace_id(uint32_t cpu)
{
	return (uint8_t)(0x10 + 2 * cpu);
}

/* A TRBE's record: the trace unit's bytes, aligned; out.scratch holds it. */
static size_t put_raw(const struct soft *s, const uint8_t *bytes, size_t n)
{
	size_t pad = s->etm.ete ? -n % SINK_ALIGN : 0;

	memcpy(s->out.scratch, bytes, n);
	memset(s->out.scratch + n, ETE_IGNORE, pad);
	return n + pad;
}

/* A record of one CPU's own sink: complete frames, aligned as an ETR writes
 * them. */
static size_t put_framed(struct soft *s, uint8_t id, const uint8_t *bytes,
			 size_t n)
{
	uint8_t *p = s->out.scratch;
	size_t done = etm_frame_put(&s->out.frame, id, bytes, n, p);

	done += etm_frame_end(&s->out.frame, p + done);
	return done + etm_frame_pad(p + done, SINK_ALIGN - done % SINK_ALIGN);
}

/* Bytes of one CPU into the sink that all share; the caller of the encoder
 * empties it when full is set. */
static int add_shared(struct soft *s, uint8_t id, const uint8_t *bytes,
		      size_t n)
{
	struct soft_etm_out *o = &s->out;
	size_t need = o->n + etm_frame_room(n) + SINK_ALIGN, cap = o->cap;
	uint8_t *p;

	if (need > cap) {
		cap = need > cap * 2 ? need : cap * 2;
		p = realloc(o->bytes, cap);
		if (!p)
			return -AUX_E_NOMEM;
		o->bytes = p;
		o->cap = cap;
	}
	o->n += etm_frame_put(&o->frame, id, bytes, n, o->bytes + o->n);
	o->full = o->n >= SOFT_BUF_SIZE;
	return 0;
}

/* The encoders' sink. */
static int accept_packets(void *ctx, const uint8_t *bytes, size_t n, bool stopped)
{
	struct soft_stream *st = ctx;
	struct soft *s = st->s;
	bool raw = s->config.etm.raw;
	uint8_t id = trace_id(cpu_of(st));

	(void)stopped;
	if (s->config.etm.shared)
		return add_shared(s, id, bytes, n);
	n = raw ? put_raw(s, bytes, n) : put_framed(s, id, bytes, n);
	return soft_stream_aux(st, s->out.scratch, n, raw ? AUX_FLAG_RAW : 0);
}

/* The CPU's trace ID, as the kernel reports it when an event starts there. */
static int put_hw_id(struct soft_stream *st)
{
	struct soft *s = st->s;
	struct {
		struct perf_event_header h;
		uint64_t hw_id;
		uint32_t pid, tid;
		uint64_t time;
		uint32_t cpu, zero;
		uint64_t id;
	} r = {
		.h = { .type = RECORD_HW_ID, .size = sizeof(r) },
		.hw_id = trace_id(cpu_of(st)),
		.pid = UINT32_MAX,
		.tid = UINT32_MAX,
		.time = stamp(s, s->config.start_ns),
		.cpu = cpu_of(st),
		.id = s->config.event_id,
	};

	return writer_record(s->w, &r.h);
}

void soft_etm_open(struct soft_stream *st)
{
	struct soft *s = st->s;

	etm_encode_init(&st->etm, &s->etm, st->buf,
			s->etm.pieces ? PIECE_SIZE : SOFT_BUF_SIZE,
			accept_packets, st);
	st->etm.lost_seed = st->idx + 1;
	st->etm.tsc = st->etm.cc_tsc = s->config.start_ns;
	if (!s->out.scratch)
		s->out.scratch = malloc(etm_frame_room(SOFT_BUF_SIZE) +
					SINK_ALIGN);
	if (!s->out.scratch)
		st->etm.error = -AUX_E_NOMEM;
	keep_error(s, put_hw_id(st));
}

/* Preempts the thread first: an AUX record may end only where trace has
 * stopped. */
void soft_etm_flush(struct soft_stream *st)
{
	if (st->owner)
		preempt(st->owner);
	etm_encode_flush(&st->etm);
	st->s->stats.n_injected += st->etm.n_injected;
	st->etm.n_injected = 0;
}

/* All trace in a record of the shared sink is older than the record's end, and
 * what the next one holds is newer: without timestamps readers have no other
 * order. */
static void align_clocks(struct soft *s)
{
	uint64_t now = 0;
	uint32_t i;

	for (i = 0; i < s->n_streams; i++)
		if (s->streams[i] && s->streams[i]->etm.tsc > now)
			now = s->streams[i]->etm.tsc;
	for (i = 0; i < s->n_streams; i++)
		if (s->streams[i])
			s->streams[i]->etm.tsc = now;
}

/* After the CPUs' own flushes: all have stopped. */
void soft_etm_flush_shared(struct soft *s)
{
	struct soft_etm_out *o = &s->out;
	uint32_t i;

	if (!s->config.etm.shared || !o->n)
		return;
	align_clocks(s);
	o->n += etm_frame_end(&o->frame, o->bytes + o->n);
	o->n += etm_frame_pad(o->bytes + o->n,
			      SINK_ALIGN - o->n % SINK_ALIGN);
	if (!s->streams[0])
		s->streams[0] = new_stream(s, 0);
	if (!s->streams[0])
		keep_error(s, -AUX_E_NOMEM);
	else
		keep_error(s, soft_stream_aux(s->streams[0], o->bytes, o->n, 0));
	for (i = 0; i < s->n_streams; i++)
		if (s->streams[i])
			s->streams[i]->etm.fresh = true;
	o->n = 0;
	o->full = false;
}

static void free_etm_out(struct soft_etm_out *o)
{
	free(o->bytes);
	free(o->scratch);
}

/* What decoders need to know of a CPU's trace unit: the registers that perf
 * record saves. */
static size_t put_block(const struct etm_encode_config *c, uint32_t cpu,
			uint64_t *p)
{
	const struct etm_regs r = etm_encode_regs(c);
	size_t n = AUX_CS_NR_PARAMS + 1;

	p[AUX_CS_MAGIC] = c->ete ? AUX_CS_MAGIC_ETE : AUX_CS_MAGIC_ETMV4;
	p[AUX_CS_CPU] = cpu;
	p[n++] = r.configr;
	p[n++] = trace_id(cpu);
	p[n++] = r.idr0;
	p[n++] = r.idr1;
	p[n++] = r.idr2;
	p[n++] = r.idr8;
	p[n++] = r.authstatus;
	if (c->ete)
		p[n++] = r.devarch;
	p[n++] = AUX_CS_TS_VIRTUAL;
	p[AUX_CS_NR_PARAMS] = n - (AUX_CS_NR_PARAMS + 1);
	return n;
}

int soft_etm_info(struct soft *s)
{
	uint32_t cpu, n_cpus = s->config.n_cpus;
	uint64_t *priv = calloc(AUX_CS_N_HEADER + (size_t)n_cpus * MAX_WORDS,
				sizeof(*priv));
	size_t n = AUX_CS_N_HEADER;
	int ret;

	if (!priv)
		return -AUX_E_NOMEM;
	priv[AUX_CS_VERSION] = 1;
	priv[AUX_CS_PMU_CPUS] = (uint64_t)s->config.pmu_type << 32 | n_cpus;
	for (cpu = 0; cpu < n_cpus; cpu++)
		n += put_block(&s->etm, cpu, priv + n);
	ret = synth_auxtrace_info(s->w, AUX_TRACE_CS_ETM, priv, (uint32_t)n);
	free(priv);
	return ret;
}

/* ---- a recording: begins and ends ---- */

/* Synthesized records that precede the trace: TIME_CONV says that ns = TSC. */
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

	keep_error(s, synth_id_index(s->w, e, 2));
	/* Before AUXTRACE_INFO, at which perf 7.2 and later read the clock. */
	keep_error(s, writer_time_conv(s->w, &tc));
	keep_error(s, s->ops->info(s));
	keep_error(s, synth_cpu_map(s->w, s->config.n_cpus));
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
	if (jitfiles_new(&s->jit, NULL))
		goto nomem;
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
	if (s)
		jitfiles_free(s->jit);
	free(s);
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

static void free_streams(struct soft *s)
{
	uint32_t i;

	for (i = 0; s->streams && i < s->n_streams; i++)
		free_stream(s->streams[i]);
	free(s->streams);
	free(s->ended);
}

/* Threads first: their last trace goes into the streams, these into the
 * file. */
int soft_close(struct soft *s, struct soft_stats *stats, struct aux_diag *diag)
{
	struct soft_process *proc;
	struct soft_thread *t;
	int err, truth_err;

	if (!s)
		return 0;
	while ((t = s->threads)) {
		s->threads = t->next;
		switch_out(t);
		free(t);
	}
	if (s->ops->flush_shared)
		soft_flush_streams(s);
	if (s->config.ring_bytes && s->config.snapshot_at_exit && s->streams)
		take_snapshot(s, AUX_SNAPSHOT_EXIT, NULL, s->max_time);
	free_streams(s);
	free_etm_out(&s->out);
	while ((proc = s->procs)) {
		s->procs = proc->next;
		free(proc);
	}
	if (!s->error)
		keep_error(s, jitfiles_save(s->jit, s->w));
	jitfiles_free(s->jit);
	truth_err = soft_truth_close(s->truth, diag);
	if (stats)
		*stats = s->stats;
	err = s->error;
	free(s);
	if (err && !truth_err)	/* else that is why */
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
	return s->truth ? keep_error(s, soft_truth_add(s->truth, tid, ips, n)) :
			  0;
}
