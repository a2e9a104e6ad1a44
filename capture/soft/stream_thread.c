/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_stream_thread: threads come and go, get a (virtual) CPU, and what is
 * known of them becomes records.
 *
 * A thread keeps its CPU through the kernel; SWITCH records appear only where
 * another thread takes it over, as a real scheduler would write them. On one
 * stream a thread's trace lies strictly between its SWITCH in and SWITCH out, and
 * so does an exec's COMM: readers take it for a sign of who runs there.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/soft/stream.h"

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
	uint64_t now = max_u64(soft_thread_now(t), t->told) + 1;

	now = t->told = soft_stamp(t->s, now);
	if (t->on) {
		t->proc->floor = max_u64(t->proc->floor, now);
		t->resync = true;
	} else {
		t->clock = now;
	}
	return now;
}

void soft_preempt(struct soft_thread *t)
{
	uint64_t ip = t->last.start;

	if (!t->on)
		return;
	if (t->pinned) {
		/* not before the PTWRITE: at the last instruction, or behind */
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

void soft_switch_out(struct soft_thread *t)
{
	struct soft_stream *st = t->st;
	struct soft *s = t->s;
	struct synth_id id;
	uint64_t *now;

	if (!st)
		return;
	soft_preempt(t);
	now = soft_clock(st);
	*now = soft_stamp(s, max_u64(max_u64(*now, t->clock), t->told) + 1);
	t->clock = *now;
	if (s->config.per_thread) {
		soft_stream_free(st);
	} else {
		id = id_of(t, *now);
		soft_note(s, synth_switch(s->w, &id, true));
		st->owner = NULL;
	}
	t->st = NULL;
}

/* The least recently used CPU of the best kind: free, in the kernel, any. */
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

static struct soft_stream *take_cpu(struct soft_thread *t)
{
	struct soft *s = t->s;
	struct soft_stream **st;

	if (s->config.per_thread)
		return soft_stream_of(s, t->tid);
	st = &s->streams[choose_cpu(t)];
	if (!*st)
		*st = soft_stream_new(s, (uint32_t)(st - s->streams));
	else if ((*st)->owner)
		soft_switch_out((*st)->owner);
	return *st;
}

/* SWITCH in, and ITRACE_START the first time. */
static int switch_in(struct soft_thread *t)
{
	struct soft_stream *st = take_cpu(t);
	struct soft *s = t->s;
	struct synth_id id;
	uint64_t *now;

	if (!st)
		return soft_note(s, -AUX_E_NOMEM);
	t->st = st;
	t->last_idx = st->idx;
	st->owner = t;
	now = soft_clock(st);
	*now = soft_stamp(s, max_u64(*now, t->clock) + 1);
	t->clock = *now;
	id = id_of(t, *now);
	if (!s->config.per_thread)
		soft_note(s, synth_switch(s->w, &id, false));
	id.id = s->config.event_id;
	if (!t->started)
		soft_note(s, synth_itrace_start(s->w, &id, t->pid, t->tid));
	t->started = true;
	return s->error;
}

int soft_resume(struct soft_thread *t)
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
	free(proc);
}

/* The first thread: what perf record knows at its start. */
static void announce(struct soft_thread *t)
{
	static const char *const comm = "";

	t->clock = t->s->config.start_ns;
	soft_note(t->s, synth_thread_map(t->s->w, &t->tid, &comm, 1));
	soft_note(t->s, synth_finished_init(t->s->w));
}

struct soft_thread *soft_thread_add(struct soft *s, uint32_t pid, uint32_t tid,
				    struct soft_thread *parent)
{
	struct soft_thread *t = calloc(1, sizeof(*t));
	struct synth_id id;

	if (!t || !(t->proc = find_process(s, pid))) {
		free(t);
		soft_note(s, -AUX_E_NOMEM);
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
		announce(t);
		return t;
	}
	t->ppid = parent->pid;
	t->ptid = parent->tid;
	t->clock = tick(parent);
	id = id_of(parent, t->clock);
	soft_note(s, synth_fork(s->w, &id, pid, t->ppid, tid, t->ptid));
	return t;
}

void soft_thread_exit(struct soft_thread *t)
{
	struct soft *s = t->s;
	struct soft_thread **p = &s->threads;
	struct synth_id id;

	soft_preempt(t);
	id = id_of(t, tick(t));
	t->proc->floor = max_u64(t->proc->floor, id.time);
	soft_note(s, synth_exit(s->w, &id, t->pid, t->ppid, t->tid, t->ptid));
	soft_switch_out(t);
	t->proc->floor = max_u64(t->proc->floor, t->clock);
	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	drop_process(s, t->proc);
	free(t);
}

/* The moment after all that this process ran; it goes on later. */
static uint64_t barrier(struct soft_thread *t)
{
	struct soft_thread *o;
	uint64_t now = t->proc->floor;

	for (o = t->s->threads; o; o = o->next) {
		if (o->proc != t->proc)
			continue;
		now = max_u64(now, soft_thread_now(o));
		o->resync = o->on;
	}
	now = soft_stamp(t->s, now + 1);
	t->proc->floor = t->told = now;
	return now;
}

/* Without timestamps only AUX records tell what ran in the image before. */
static void end_records(struct soft_thread *t)
{
	const struct soft_config *c = &t->s->config;

	if (c->trace != SOFT_TRACE_ETM || c->etm.timestamp)
		return;
	for (struct soft_thread *o = t->s->threads; o; o = o->next)
		if (o->proc == t->proc && o->st)
			t->s->ops->flush(o->st);
	/* their times may be later than what is in them */
	t->proc->floor = max_u64(t->proc->floor, soft_stamp(t->s, 0));
}

int soft_comm(struct soft_thread *t, const char *comm, bool exec)
{
	struct soft *s = t->s;
	struct synth_id id;

	if (exec) {
		if (!t->st && !s->config.per_thread)
			switch_in(t);
		end_records(t);
	}
	/* a new image: whatever the old one's threads ran is before it */
	id = id_of(t, exec ? barrier(t) : tick(t));
	return soft_note(s, synth_comm(s->w, &id, t->pid, t->tid, comm, exec));
}

int soft_mmap(struct soft_thread *t, const struct synth_map *map)
{
	struct soft *s = t->s;
	uint64_t now = barrier(t);
	struct synth_id id = id_of(t, now);

	soft_note(s, synth_mmap2(s->w, &id, t->pid, t->tid, map));
	if (map->build_id_size && map->path[0] == '/')
		soft_note(s, writer_build_id(s->w, t->pid,
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

	return soft_note(t->s, writer_code(t->s->w, &e, bytes));
}

void soft_not_traced(struct soft *s, uint32_t pid, const char *program,
		     const char *why)
{
	s->stats.n_not_traced++;
	if (s->config.not_traced)
		s->config.not_traced(s->config.priv, pid, program, why);
}

void soft_killed(struct soft *s)
{
	s->stats.n_killed++;
}
