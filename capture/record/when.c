/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * when: see impl.h.
 *
 * A call and its return come from the rings of two CPUs where the thread moved in between,
 * and so do a fork and what the child did first. The first of two was in its ring before the
 * second was stamped; so with all rings read after a time T, everything up to T is here, and
 * is taken in the order of times. Later ones wait for the next reading.
 *
 * The call that returns is the last one of its function with the same stack pointer: calls
 * left by longjmp or an exception never match, recursion has stack pointers of its own, and
 * so have coroutines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/record/impl.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/diag.h"

/* Of one thread; calls that were left by longjmp are forgotten beyond it. */
#define CALLS_MAX 4096

struct when_call {
	uint64_t sp, from_ns;
	uint32_t trigger;
};

struct when_task {
	bool ours;
	struct when_call *v;
	size_t n, cap;
};

bool when_has_oom(const struct triggers *t)
{
	for (size_t i = 0; t && i < t->n; i++)
		if (t->v[i].kind == TRIGGER_OOM)
			return true;
	return false;
}

/* NULL: out of memory. */
static struct when_task *task_of(struct when *w, uint32_t tid)
{
	const struct when_task none = { 0 };
	int64_t slot = idmap_add(&w->slots, tid, (uint32_t)w->n_tasks);

	if (slot < 0 || ((size_t)slot == w->n_tasks &&
			 array_append(&w->tasks, &w->n_tasks, &w->cap_tasks, &none,
				      sizeof(none))))
		return NULL;
	return &w->tasks[slot];
}

bool when_wanted(const struct kernel *k)
{
	return k->o->triggers || (k->o->windows && !k->when.paused);
}

int when_open(struct kernel *k, struct aux_diag *diag)
{
	struct when *w = &k->when;
	bool oom = when_has_oom(k->o->triggers);

	w->ordered = k->probes.n || oom;
	w->filter = oom && !k->target.system_wide;
	for (size_t i = 0; i < k->events.n; i++)
		w->filter |= k->events.events[i].probe && k->events.events[i].any_task;
	w->slots.salt = idmap_salt();
	for (size_t i = 0; w->filter && i < k->target.n_tids; i++) {
		struct when_task *t = task_of(w, (uint32_t)k->target.tids[i]);

		if (!t)
			return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
		t->ours = true;
	}
	return 0;
}

void when_close(struct when *w)
{
	for (size_t i = 0; i < w->n_tasks; i++)
		free(w->tasks[i].v);
	free(w->tasks);
	idmap_fini(&w->slots);
	free(w->v);
	free(w->waits);
}

static int take(struct kernel *k, const struct rec_moment *rm, struct aux_diag *diag)
{
	const struct trigger *tr = &k->o->triggers->v[rm->trigger - 1];
	struct aux_own_moment r = {
		.time_ns = rm->m.time_ns, .took_ns = rm->m.took_ns, .pid = rm->m.pid,
		.tid = rm->m.tid, .cpu = rm->m.cpu,
	};
	char text[TRIGGER_LABEL];
	int ret;

	trigger_label(tr, &rm->m, text);
	r.label_len = (uint32_t)strlen(text);
	ret = writer_own(output_writer(k->out), AUX_OWN_MOMENT, &r, sizeof(r), text,
			 r.label_len);
	if (!ret && (k->o->snapshot || k->o->overwrite))
		ret = recorder_snapshot(k->recorder, AUX_SNAPSHOT_TRIGGER, text, false,
					diag);
	return ret;
}

static int fire(struct kernel *k, const struct rec_moment *m, struct aux_diag *diag)
{
	const struct triggers *list = k->o->triggers;
	struct when *w = &k->when;

	w->n_hits++;
	if (list->count && w->n_taken == list->count)
		return 0;
	if (w->due_ms || (w->n_taken && list->cooldown_ns &&
			  m->m.time_ns < w->taken_ns + list->cooldown_ns)) {
		w->n_passed++;
		return 0;
	}
	w->n_taken++;
	w->taken_ns = m->m.time_ns;
	if (!list->delay_ns)
		return take(k, m, diag);
	if (!w->waits && !(w->waits = malloc(sizeof(*w->waits))))
		return -AUX_E_NOMEM;
	*w->waits = *m;
	w->due_ms = clock_ms() + list->delay_ns / 1000000 + 1;
	return 0;
}

/* ---- calls ---- */

static int begin_call(struct when_task *t, const struct rec_moment *m)
{
	const struct when_call new = { .sp = m->sp, .from_ns = m->m.time_ns,
				       .trigger = m->trigger };

	for (size_t i = t->n; i-- > 0 && !m->kernel;)
		if (t->v[i].sp == m->sp && t->v[i].trigger == m->trigger) {
			t->v[i] = new;	/* the one before was left */
			return 0;
		}
	if (t->n >= CALLS_MAX) {
		t->n -= CALLS_MAX / 2;
		memmove(t->v, t->v + CALLS_MAX / 2, t->n * sizeof(*t->v));
	}
	return array_append(&t->v, &t->n, &t->cap, &new, sizeof(new));
}

/* How far a return moves the stack pointer from what it was at the call. */
static uint64_t popped(const struct rec_moment *m)
{
#if defined(__x86_64__) || defined(__i386__)
	return m->is_32 ? 4 : 8;
#else
	(void)m;
	return 0;
#endif
}

/* The call that returns, from 1; 0: it began before we looked. */
static size_t find_call(const struct when_task *t, const struct rec_moment *m)
{
	for (size_t i = t->n; i > 0; i--)
		if (t->v[i - 1].trigger == m->trigger &&
		    (m->kernel || !m->sp || t->v[i - 1].sp + popped(m) == m->sp))
			return i;
	return 0;
}

static void forget_call(struct when_task *t, size_t i)
{
	memmove(&t->v[i], &t->v[i + 1], (t->n - i - 1) * sizeof(*t->v));
	t->n--;
}

static int end_call(struct kernel *k, struct when_task *t, const struct rec_moment *m,
		    struct aux_diag *diag)
{
	const struct trigger *tr = &k->o->triggers->v[m->trigger - 1];
	struct rec_moment took = *m;
	size_t i = find_call(t, m);

	if (!i)
		return 0;
	took.m.took_ns = m->m.time_ns - t->v[i - 1].from_ns;
	forget_call(t, i - 1);
	return took.m.took_ns > tr->longer_ns ? fire(k, &took, diag) : 0;
}

/* ---- windows, where the kernel cannot pause ---- */

static int switch_trace(struct kernel *k, bool on)
{
	recorder_pause(k->recorder, !on);
	k->when.n_windows += on;
	return evset_aux_enable(&k->set, &k->events, on);
}

static int open_window(struct kernel *k, struct when_task *t, const struct rec_moment *m)
{
	size_t n = t->n;
	int ret = begin_call(t, m);

	if (ret || t->n == n)
		return ret;
	return k->when.n_open++ ? 0 : switch_trace(k, true);
}

static int shut_window(struct kernel *k, struct when_task *t, const struct rec_moment *m)
{
	size_t i = find_call(t, m);

	if (!i)
		return 0;
	forget_call(t, i - 1);
	return --k->when.n_open ? 0 : switch_trace(k, false);
}

/* A thread that ends leaves all that it called. */
static int end_task(struct kernel *k, struct when_task *t)
{
	uint32_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->v[i].trigger > TRIGGERS_MAX;
	t->n = 0;
	k->when.n_open -= n;
	return n && !k->when.n_open ? switch_trace(k, false) : 0;
}

static int handle(struct kernel *k, const struct rec_moment *m, struct aux_diag *diag)
{
	struct when *w = &k->when;
	struct when_task *t;

	if (!w->ordered)
		return fire(k, m, diag);
	t = task_of(w, m->m.tid);
	if (!t)
		return -AUX_E_NOMEM;
	switch (m->what) {
	case REC_TASK_BEGIN:
	case REC_TASK_END:
		t->ours = m->what == REC_TASK_BEGIN;
		return end_task(k, t);
	case REC_MOMENT:
		return t->ours || !w->filter ? fire(k, m, diag) : 0;
	case REC_CALL:
		return t->ours || !w->filter ? begin_call(t, m) : 0;
	case REC_OPEN:
		return t->ours || !w->filter ? open_window(k, t, m) : 0;
	case REC_SHUT:
		return t->ours || !w->filter ? shut_window(k, t, m) : 0;
	case REC_RETURN:
		return t->ours || !w->filter ? end_call(k, t, m, diag) : 0;
	}
	return 0;
}

/* ---- order ---- */

static int compare_times(const void *a, const void *b)
{
	const struct rec_moment *x = a, *y = b;

	if (x->m.time_ns != y->m.time_ns)
		return x->m.time_ns < y->m.time_ns ? -1 : 1;
	return (int)x->what - (int)y->what;
}

static int fetch(struct kernel *k)
{
	struct when *w = &k->when;
	struct rec_moment *v;
	int n = recorder_moments(k->recorder, &v), ret = 0;

	for (int i = 0; i < n && !ret; i++)
		ret = array_append(&w->v, &w->n, &w->cap, &v[i], sizeof(v[i]));
	free(v);
	return n < 0 ? n : ret;
}

/* Up to which time all is here. */
static int read_all(struct kernel *k, uint64_t *until)
{
	int ret;

	*until = recorder_now(k->recorder);
	ret = recorder_hold(k->recorder);
	recorder_release(k->recorder);
	return ret ? ret : fetch(k);
}

static int handle_new(struct kernel *k, bool end, struct aux_diag *diag)
{
	struct when *w = &k->when;
	uint64_t until = UINT64_MAX, all;
	size_t n = 0;
	int ret = fetch(k);

	if (!ret && w->n && w->ordered) {
		ret = read_all(k, &all);
		qsort(w->v, w->n, sizeof(*w->v), compare_times);
		until = end ? UINT64_MAX : all;
	}
	for (; n < w->n && !ret && w->v[n].m.time_ns <= until; n++)
		ret = handle(k, &w->v[n], diag);
	w->n -= n;
	memmove(w->v, w->v + n, w->n * sizeof(*w->v));
	w->more = w->n != 0;
	return ret;
}

int when_handle(struct kernel *k, bool end, struct aux_diag *diag)
{
	struct when *w = &k->when;
	int ret = 0;

	if (!when_wanted(k))
		return 0;
	if (w->due_ms && (end || clock_ms() >= w->due_ms)) {
		w->due_ms = 0;
		ret = take(k, w->waits, diag);
	}
	if (!ret)
		ret = handle_new(k, end, diag);
	return ret == -AUX_E_NOMEM ? diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
					      "out of memory") : ret;
}

/* Not the same: what it calls is left out. */
static const char *filter_hint(const struct kernel *k)
{
	for (size_t i = 0; i < k->events.n_aux; i++)
		if (k->events.events[i].pmu && k->events.events[i].pmu->n_addr_filters)
			return "; --filter 'filter FUNCTION @ FILE' has the function's own "
			       "code to the instruction, without what it calls";
	return "";
}

static void note_windows(const struct kernel *k, char *notes, size_t room)
{
	size_t used = strlen(notes);

	if (!k->o->windows)
		return;
	if (k->when.paused)
		snprintf(notes + used, room - used, "%s--window: paused and resumed by the "
			 "kernel, to the instruction", used ? "; " : "");
	else
		snprintf(notes + used, room - used, "%s--window: this kernel or PMU cannot "
			 "pause (Linux 6.13): the trace was switched on %llu times, each "
			 "some time after the call was seen, and off likewise%s",
			 used ? "; " : "", (unsigned long long)k->when.n_windows,
			 filter_hint(k));
}

void when_note(const struct kernel *k)
{
	const struct when *w = &k->when;
	char *notes = k->result->notes;
	size_t used, room = sizeof(k->result->notes);

	note_windows(k, notes, room);
	if (!k->o->triggers)
		return;
	used = strlen(notes);
	snprintf(notes + used, room - used, "%s--when: %llu time%s, taken %llu",
		 used ? "; " : "", (unsigned long long)w->n_hits,
		 w->n_hits == 1 ? "" : "s", (unsigned long long)w->n_taken);
	used = strlen(notes);
	if (w->n_passed)
		snprintf(notes + used, room - used, ", %llu within --cooldown or "
			 "--when-delay of another", (unsigned long long)w->n_passed);
	used = strlen(notes);
	if (k->probes.n && !*k->probes.v[0].event)
		snprintf(notes + used, room - used, "; %s may not be written to: where a "
			 "thread moves to another CPU just then, a moment may be missing or "
			 "counted twice", tracing_root() ? tracing_root() : "tracefs");
	used = strlen(notes);
	if (k->probes.loose)
		snprintf(notes + used, room - used, "; without CAP_PERFMON a moment of a "
			 "process may be missing after a child of it has ended");
}
