/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codesave: what there is to look at, and when.
 *
 * Readers of the rings leave notes, which cost them a lock and a copy; the looks
 * are our own thread's. A look takes as long as there is code; the next comes
 * not before twenty times that, so that it never costs more than a twentieth of
 * one CPU.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/describe/codesave_impl.h"

#define FIRST_MS 2	/* after a mapping appeared */
#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 100
#define SHARE 20
#define RANGE_MAX ((uint64_t)16 << 30)

uint64_t codesave_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int codesave_new(struct codesave **sp, const struct codesave_config *config)
{
	struct codesave *s = calloc(1, sizeof(*s));
	pthread_condattr_t a;

	*sp = s;
	if (!s)
		return -AUX_E_NOMEM;
	s->config = *config;
	if (!s->config.proc)
		s->config.proc = "/proc";
	if (!s->config.limit)
		s->config.limit = CODESAVE_LIMIT;
	s->pause_ms = PAUSE_MIN_MS;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->looking, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &a);
	pthread_condattr_destroy(&a);
	return 0;
}

static void free_range(struct code_range *r)
{
	uint64_t i;

	for (i = 0; r->pages && i < r->len / CODE_PAGE; i++)
		code_copy_put(r->pages[i]);
	free(r->pages);
}

static void stop_thread(struct codesave *s)
{
	bool running;

	pthread_mutex_lock(&s->lock);
	running = s->running;
	s->running = false;
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	if (running)
		pthread_join(s->thread, NULL);
}

void codesave_free(struct codesave *s)
{
	size_t i;

	if (!s)
		return;
	stop_thread(s);
	perfclock_close(&s->clock);
	for (i = 0; i < s->n_ranges; i++)
		free_range(&s->ranges[i]);
	for (i = 0; i < s->n_notes; i++)
		free(s->notes[i].path);
	for (i = 0; i < s->n_dumps; i++)
		free(s->dumps[i].path);
	free(s->ranges);
	free(s->notes);
	free(s->dumps);
	free(s->buf);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->looking);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

bool codesave_grow(void *array, size_t *cap, size_t n, size_t size)
{
	void **p = array, *q;

	if (n < *cap)
		return true;
	q = realloc(*p, (*cap ? 2 * *cap : 16) * size);
	if (!q)
		return false;
	*p = q;
	*cap = *cap ? 2 * *cap : 16;
	return true;
}

/* What is mapped anew at a place takes it from what was there. */
static void cut_ranges(struct codesave *s, const struct code_note *n)
{
	size_t i, k = 0;

	for (i = 0; i < s->n_ranges; i++) {
		struct code_range *r = &s->ranges[i];

		if (r->pid == n->pid && r->addr >= n->addr &&
		    r->addr + r->len <= n->addr + n->len)
			free_range(r);
		else
			s->ranges[k++] = *r;
	}
	s->n_ranges = k;
}

static int add_range(struct codesave *s, const struct code_range *r)
{
	struct code_range *n;

	if (r->len > RANGE_MAX)
		s->stats.n_unsaved += r->len;
	if (!r->len || r->len > RANGE_MAX)
		return 0;
	if (!codesave_grow(&s->ranges, &s->cap_ranges, s->n_ranges, sizeof(*n)))
		return -AUX_E_NOMEM;
	n = &s->ranges[s->n_ranges];
	*n = *r;
	n->pages = calloc(r->len / CODE_PAGE, sizeof(*n->pages));
	if (!n->pages)
		return -AUX_E_NOMEM;
	s->n_ranges++;
	return 0;
}

/* The same memory again (mprotect) goes on as what it was. */
static bool is_known(const struct codesave *s, const struct code_note *n)
{
	size_t i;

	for (i = 0; i < s->n_ranges; i++) {
		const struct code_range *r = &s->ranges[i];

		if (r->pid == n->pid && r->addr <= n->addr &&
		    n->addr + n->len <= r->addr + r->len &&
		    r->kind == n->code)
			return true;
	}
	return false;
}

static int take_map(struct codesave *s, const struct code_note *n)
{
	struct code_range r = {
		.addr = n->addr, .len = n->len, .look_ns = n->time_ns,
		.pid = n->pid, .kind = n->code,
	};

	if (n->code && is_known(s, n))
		return 0;
	cut_ranges(s, n);
	return n->code ? add_range(s, &r) : 0;
}

/* A child has all that its parent had, and readers know that. */
static int take_fork(struct codesave *s, const struct code_note *n)
{
	size_t i, had = s->n_ranges;
	uint64_t k;
	int ret = 0;

	for (i = 0; i < had && !ret; i++) {
		struct code_range r = s->ranges[i];
		struct code_copy **from = r.pages;

		if (r.pid != n->ppid)
			continue;
		r.pid = n->pid;
		r.look_ns = n->time_ns;	/* what it has of its own came later */
		ret = add_range(s, &r);
		for (k = 0; !ret && k < r.len / CODE_PAGE; k++) {
			s->ranges[s->n_ranges - 1].pages[k] = from[k];
			if (from[k])
				from[k]->n_refs++;
		}
	}
	return ret;
}

static int take_dump(struct codesave *s, struct code_note *n)
{
	size_t i;

	for (i = 0; i < s->n_dumps; i++)
		if (s->dumps[i].pid == n->pid &&
		    !strcmp(s->dumps[i].path, n->path))
			return 0;
	if (!codesave_grow(&s->dumps, &s->cap_dumps, s->n_dumps, sizeof(*s->dumps)))
		return -AUX_E_NOMEM;
	s->dumps[s->n_dumps++] = (struct code_dump){ n->path, n->pid };
	n->path = NULL;
	return 0;
}

static void drop_process(struct codesave *s, uint32_t pid)
{
	struct code_note all = { .pid = pid, .len = UINT64_MAX };

	cut_ranges(s, &all);
}

static int take_note(struct codesave *s, struct code_note *n)
{
	switch (n->kind) {
	case NOTE_MAP:
		return take_map(s, n);
	case NOTE_FORK:
		return take_fork(s, n);
	case NOTE_DROP:
		drop_process(s, n->pid);
		return 0;
	case NOTE_KERNEL:
		return codesave_read_kernel(s->config.proc, s->w, n->addr,
					    n->len, n->time_ns,
					    &s->stats.n_unsaved);
	default:
		return take_dump(s, n);
	}
}

static int take_notes(struct codesave *s)
{
	struct code_note *notes;
	size_t i, n;
	int ret = 0;

	pthread_mutex_lock(&s->lock);
	notes = s->notes;
	n = s->n_notes;
	s->notes = NULL;
	s->n_notes = s->cap_notes = 0;
	s->stats.n_unsaved += s->lost_notes;
	s->lost_notes = false;
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < n; i++) {
		if (!ret)
			ret = take_note(s, &notes[i]);
		free(notes[i].path);
	}
	free(notes);
	return ret;
}

/* When the next look is due, CLOCK_MONOTONIC; UINT64_MAX: no need. lock held. */
static uint64_t due_ms(const struct codesave *s)
{
	uint64_t noted = UINT64_MAX;

	if (s->n_notes)
		noted = s->noted_ms + FIRST_MS;
	if (s->n_notes && noted < s->free_ms)
		noted = s->free_ms;
	return s->n_ranges && s->due_ms < noted ? s->due_ms : noted;
}

static int look_at_all(struct codesave *s, bool *changed)
{
	uint64_t began_ns = perfclock_now(&s->clock);
	size_t i, k = 0;
	int ret = 0;

	for (i = 0; i < s->n_ranges; i++) {
		struct code_range *r = &s->ranges[i];

		if (!ret)
			ret = codesave_read(s, r, s->w, began_ns,
					    changed);
		if (r->gone)
			free_range(r);
		else
			s->ranges[k++] = *r;
	}
	s->n_ranges = k;
	return ret;
}

/* looking is held. */
static int look(struct codesave *s)
{
	uint64_t began = codesave_mono_ns(), took;
	bool changed = false;
	int ret = take_notes(s);

	if (!ret && s->w && s->n_ranges)
		ret = look_at_all(s, &changed);
	took = (codesave_mono_ns() - began) / 1000000;
	s->pause_ms = changed ? PAUSE_MIN_MS : 2 * s->pause_ms;
	if (s->pause_ms > PAUSE_MAX_MS)
		s->pause_ms = PAUSE_MAX_MS;
	s->free_ms = began / 1000000 + took + SHARE * took;
	s->due_ms = began / 1000000 + took + s->pause_ms;
	if (s->due_ms < s->free_ms)
		s->due_ms = s->free_ms;
	s->stats.n_looks++;
	if (ret && !s->error)
		s->error = ret;
	return ret;
}

int codesave_look(struct codesave *s)
{
	int ret;

	pthread_mutex_lock(&s->looking);
	ret = look(s);
	pthread_mutex_unlock(&s->looking);
	return ret;
}

/* Until the next look is due; false: there is to be none. */
static bool wait_until_due(struct codesave *s)
{
	uint64_t due, now;
	bool stop;

	pthread_mutex_lock(&s->lock);
	while (!s->stop && (due = due_ms(s)) > (now = codesave_mono_ns() / 1000000)) {
		struct timespec ts = {
			.tv_sec = (time_t)(due / 1000),
			.tv_nsec = (long)(due % 1000 * 1000000),
		};

		if (due == UINT64_MAX)
			pthread_cond_wait(&s->wake, &s->lock);
		else
			pthread_cond_timedwait(&s->wake, &s->lock, &ts);
	}
	stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return !stop;
}

static void *run(void *arg)
{
	struct codesave *s = arg;

	/* the readers of the rings come first */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5);
	while (wait_until_due(s) && !codesave_look(s))
		;
	return NULL;
}

int codesave_start(struct codesave *s)
{
	s->running = !pthread_create(&s->thread, NULL, run, s);
	return s->running ? 0 : -AUX_E_NOMEM;
}

int codesave_finish(struct codesave *s)
{
	size_t i;

	stop_thread(s);
	codesave_look(s);
	for (i = 0; i < s->n_dumps && s->w && !s->error; i++)
		s->error = codesave_file(s->w, s->dumps[i].path,
					 s->dumps[i].path, s->dumps[i].pid);
	return s->error;
}

/* All is new to the file. */
static void forget(struct code_range *r)
{
	uint64_t k;

	for (k = 0; k < r->len / CODE_PAGE; k++) {
		code_copy_put(r->pages[k]);
		r->pages[k] = NULL;
	}
}

void codesave_output(struct codesave *s, struct writer *w)
{
	size_t i;

	pthread_mutex_lock(&s->looking);
	for (i = 0; i < s->n_ranges && s->w; i++)
		forget(&s->ranges[i]);
	s->w = w;
	s->stats.n_saved = 0;
	pthread_mutex_lock(&s->lock);
	s->due_ms = s->free_ms = 0;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->looking);
}

const struct codesave_stats *codesave_stats(const struct codesave *s)
{
	return &s->stats;
}
