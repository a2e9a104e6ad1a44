/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel as a source: opens events, maps rings, and undoes both.
 *
 * Invariant: whatever can be refused (events, permission, memory) is refused
 * here, before a file is touched or the program runs.
 *
 * Sizes, watermarks and events depend on one another: a watermark is part of
 * the attr, hence fixed when the event is opened; the mapping that decides how
 * much memory we get needs the open event. So when the kernel refuses a
 * mapping, everything is closed and opened again with smaller sizes
 * (open_and_map).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/diag.h"

#include "capture/describe/describe.h"
#include "capture/record/impl.h"

/* The kernel wakes us when an eighth of the AUX area is full, so that seven
 * eighths absorb our scheduling delay, or when a megabyte waits: writing that
 * much costs far more than the wake-up. */
#define AUX_WAKEUP_DIVISOR 8
#define WAKEUP_MAX (1 << 20)
#define DATA_WAKEUP_DIVISOR 4
/* With --max-size also after this fraction of it, to stop close to the
 * limit. */
#define MAX_SIZE_WAKEUP_DIVISOR 16
#define AUX_BYTES_MIN (256 << 10)
#define NOTES_SIZE sizeof(((struct evset *)0)->notes)
#define OPENING_NS_MAX 500000000	/* then new threads are no longer chased */

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static bool samples_aux(const struct evlist *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->events[i].attr.sample_type & PERF_SAMPLE_AUX)
			return true;
	return false;
}

static bool is_window(const struct probe *p)
{
	return p->what == PROBE_OPEN || p->what == PROBE_SHUT;
}

/* The events of -e and --when, then the probes of --when. *words is the caller's. */
static int collect_words(struct kernel *k, struct evlist_word **words, size_t *n,
			 struct aux_diag *diag)
{
	const struct kernel_options *o = k->o;
	int ret = 0;

	*words = NULL;
	if (o->triggers)
		ret = probes_find(&k->probes, o->triggers, false, &o->target, &k->target,
				  diag);
	if (!ret && o->windows)
		ret = probes_find(&k->probes, o->windows, true, &o->target, &k->target,
				  diag);
	if (!ret)
		ret = probes_define(&k->probes, diag);
	if (ret)
		return ret;
	*n = o->n_words + k->probes.n;
	*words = calloc(*n, sizeof(**words));
	if (!*words)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	memcpy(*words, o->words, o->n_words * sizeof(**words));
	for (size_t i = 0; i < k->probes.n; i++) {
		const struct probe *p = &k->probes.v[i];

		(*words)[o->n_words + i] = (struct evlist_word){
			.text = *p->event ? p->event : p->name,
			.filter = *p->event ? p->filter : NULL,
			.trigger = is_window(p) ? 0 : p->trigger, .probe = p,
		};
	}
	return 0;
}

/* Whether the probes of --window can be in the groups of AUX events: those that belong to any
 * task cannot be with events of a task. */
static bool can_group(const struct kernel *k)
{
	for (size_t i = 0; i < k->probes.n; i++)
		if (is_window(&k->probes.v[i]) && !*k->probes.v[i].event &&
		    !k->target.system_wide)
			return false;
	return true;
}

/* --window where the kernel can pause: when.paused tells, and the events are open then. */
static int open_paused(struct kernel *k, struct evlist_options *eo,
		       struct evlist_word *words, struct aux_diag *diag)
{
	size_t i;
	int ret;

	for (i = 0; i < eo->n_words; i++)
		if (words[i].probe && is_window(words[i].probe))
			words[i].action = words[i].probe->what == PROBE_OPEN ?
						  EVLIST_RESUME : EVLIST_PAUSE;
	eo->start_paused = true;
	ret = evlist_open(&k->events, eo, diag);
	if (ret)
		return ret;
	if (!k->events.n_aux)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "--window needs an event "
				"with an AUX area, such as intel_pt//");
	k->when.paused = can_group(k) && evset_can_pause(&k->events);
	if (k->when.paused)
		return 0;
	evlist_close(&k->events);
	eo->start_paused = false;
	for (i = 0; i < eo->n_words; i++)
		words[i].action = 0;
	return 0;
}

static int open_events(struct kernel *k, struct aux_diag *diag)
{
	const struct kernel_options *o = k->o;
	struct evlist_word *words;
	struct evlist_options eo = {
		.per_thread = k->target.per_thread,
		.system_wide = k->target.system_wide,
		.snapshot = o->snapshot,
		.overwrite = o->overwrite,
		.aux_sample_size = o->aux_sample_size,
		.freq = o->freq,
		.period = o->period,
		.callgraph = o->callgraph,
		.all_user = o->all_user,
		.all_kernel = o->all_kernel,
	};
	int ret = collect_words(k, &words, &eo.n_words, diag);

	eo.words = words;
	if (!ret && o->windows)
		ret = open_paused(k, &eo, words, diag);
	if (!ret && !k->when.paused)
		ret = evlist_open(&k->events, &eo, diag);
	for (size_t i = 0; !ret && o->windows && !k->when.paused && i < k->events.n_aux; i++)
		k->events.events[i].held = true;
	free(words);
	if (ret)
		return ret;
	if (o->snapshot && !k->events.n_aux)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"snapshot mode (-S) needs an event with an AUX "
				"area, such as intel_pt//");
	if (o->snapshot && samples_aux(&k->events))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"snapshots (-S) and trace in samples "
				"(--aux-sample) exclude each other");
	return 0;
}

/* The number of rings that evset_open will make (see evset.h). */
static void count_rings(const struct kernel *k, size_t *n_rings, size_t *n_aux)
{
	const struct target *t = &k->target;
	size_t n = t->per_thread ? t->n_tids : t->n_cpus;

	*n_aux = n * k->events.n_aux;
	*n_rings = (*n_aux ? *n_aux : n) + (k->o->overwrite ? n : 0);
}

/*
 * Default size of an AUX area. With --max-size, what all areas hold at the end
 * still goes into the file, so together they take at most twice that size, down
 * to AUX_BYTES_MIN each.
 */
static size_t default_aux(const struct kernel *k)
{
	size_t n_rings, n_aux, bytes = EXPLAIN_AUX_BYTES;

	count_rings(k, &n_rings, &n_aux);
	while (k->o->max_size && n_aux && bytes > AUX_BYTES_MIN &&
	       bytes > 2 * k->o->max_size / n_aux)
		bytes /= 2;
	return bytes;
}

static struct explain_fit wanted_sizes(const struct kernel *k)
{
	size_t size = (size_t)k->sys.page_size;

	return (struct explain_fit){
		.data_pages = k->o->data_pages ? k->o->data_pages :
						 EXPLAIN_DATA_BYTES / size,
		.aux_pages = k->o->aux_pages ? k->o->aux_pages :
					       default_aux(k) / size,
		.data_fixed = k->o->data_pages != 0,
		.aux_fixed = k->o->aux_pages != 0,
	};
}

/* Fits the sizes into what the kernel lets us lock (explain_fit). */
static int choose_sizes(struct kernel *k, struct explain_fit *fit,
			struct aux_diag *diag)
{
	size_t n_rings, n_aux;

	count_rings(k, &n_rings, &n_aux);
	*fit = wanted_sizes(k);
	return explain_fit(fit, n_rings, n_aux, &k->sys, diag);
}

/* The begin of a call is no moment yet. */
static bool wakes_us(const struct evlist_event *ev)
{
	return (ev->trigger && !(ev->probe && ev->probe->what == PROBE_CALL)) ||
	       (ev->probe && is_window(ev->probe) && !evlist_aux_action(&ev->attr));
}

/*
 * wakeup_watermark (bytes in the data ring) and aux_watermark (bytes in the AUX
 * area) both wake poll. In overwrite mode, which has no consumer,
 * rb_alloc_aux() discards aux_watermark, so it stays 0.
 */
static void set_watermarks(struct kernel *k, const struct explain_fit *fit)
{
	size_t size = (size_t)k->sys.page_size, i;
	struct evlist *l = &k->events;
	size_t max = WAKEUP_MAX;

	if (k->o->max_size)
		max = min_size(max, size + k->o->max_size / MAX_SIZE_WAKEUP_DIVISOR /
						  k->target.n_cpus);
	for (i = 0; i < l->n; i++) {
		struct perf_event_attr *a = &l->events[i].attr;

		/* a trigger wakes its reader each time it comes */
		a->watermark = !wakes_us(&l->events[i]);
		if (!a->watermark) {
			a->wakeup_events = 1;
			continue;
		}
		a->wakeup_watermark = (uint32_t)min_size(
			fit->data_pages * size / DATA_WAKEUP_DIVISOR, max);
		if (l->events[i].aux && !k->o->snapshot && !samples_aux(l))
			a->aux_watermark = (uint32_t)min_size(
				fit->aux_pages * size / AUX_WAKEUP_DIVISOR, max);
	}
}

static void unmap_rings(struct kernel *k)
{
	size_t i;

	for (i = 0; k->rings && i < k->set.n_rings; i++)
		ring_unmap(&k->rings[i]);
}

/* Maps all rings. Returns n_rings, or the index of the ring that failed; then
 * no ring is mapped, errno is the cause and *aux_failed tells which mapping it
 * was. */
static size_t map_rings(struct kernel *k, const struct explain_fit *fit,
			bool *aux_failed)
{
	bool overwrite = k->o->snapshot || samples_aux(&k->events);
	size_t i;

	for (i = 0; i < k->set.n_rings; i++) {
		const struct evset_ring *er = &k->set.rings[i];
		struct ring_sizes s = {
			.data_pages = fit->data_pages,
			.aux_pages = er->aux_event >= 0 ? fit->aux_pages : 0,
			.backward = er->backward,
			.aux_overwrite = overwrite,
			/* A single program may never run on some CPUs: their
			 * areas would be populated for nothing. */
			.aux_populate = !overwrite &&
					!k->target.traces_child,
		};

		if (ring_map(&k->rings[i], er->fd, &s, aux_failed)) {
			int err = errno;

			unmap_rings(k);
			errno = err;
			return i;
		}
	}
	return i;
}

/* Halves a size that the user did not fix. False: none can shrink. */
static bool shrink(const struct kernel *k, struct explain_fit *fit,
		   bool aux_failed)
{
	if (k->events.n_aux && !fit->aux_fixed && fit->aux_pages > 4)
		fit->aux_pages /= 2;
	else if (!aux_failed && !fit->data_fixed && fit->data_pages > 4)
		fit->data_pages /= 2;
	else
		return false;
	return true;
}

/* Maps all rings. On failure *shrunk tells that fit was made smaller, and that
 * the caller may try again after closing the events. */
static int map_all(struct kernel *k, struct explain_fit *fit, bool *shrunk,
		   struct aux_diag *diag)
{
	const struct explain_fit was = wanted_sizes(k);
	const struct evset_ring *er;
	size_t bad, pages, n_rings, n_aux;
	bool aux_failed;
	int err;

	*shrunk = false;
	k->rings = calloc(k->set.n_rings + 1, sizeof(*k->rings));
	if (!k->rings)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	bad = map_rings(k, fit, &aux_failed);
	if (bad == k->set.n_rings)
		return 0;
	err = errno;
	if ((err == EPERM || err == ENOMEM) && shrink(k, fit, aux_failed)) {
		*shrunk = true;
		count_rings(k, &n_rings, &n_aux);
		explain_fit_less(fit, &was, n_rings, n_aux, err, &k->sys);
		return -AUX_E_LIMIT;
	}
	er = &k->set.rings[bad];
	pages = aux_failed ? fit->aux_pages : fit->data_pages + 1;
	return explain_mmap(er->aux_event >= 0 ?
			    k->events.events[er->aux_event].name :
			    "the data ring", aux_failed,
			    pages * (size_t)k->sys.page_size, err, &k->sys,
			    diag);
}

static void note_new_threads(struct kernel *k)
{
	char *notes = k->set.notes;
	size_t used = strlen(notes);

	snprintf(notes + used, sizeof(k->set.notes) - used,
		 "%sthreads began while events were opened, and some of these "
		 "may be missing: -a misses none", used ? "; " : "");
}

/*
 * Opens the events on all threads. A thread created meanwhile inherits only the
 * events that its creator had by then, so it may have none or some of them.
 * Hence the list of threads is read again, and everything reopened until it is
 * stable. notes: of an earlier attempt, "" at first; holds NOTES_SIZE bytes.
 */
static int open_set(struct kernel *k, char notes[static NOTES_SIZE],
		    struct aux_diag *diag)
{
	uint64_t begin = clock_ns();
	int ret, n_new;

	for (;;) {
		ret = evset_open(&k->set, &k->events, &k->target, diag);
		if (ret)
			return ret;
		if (*notes)	/* attr bits dropped then stay dropped */
			memcpy(k->set.notes, notes, NOTES_SIZE);
		n_new = target_rescan(&k->target, diag);
		if (n_new <= 0)
			return n_new;
		if (clock_ns() - begin > OPENING_NS_MAX) {
			note_new_threads(k);
			return 0;
		}
		memcpy(notes, k->set.notes, NOTES_SIZE);
		evset_close(&k->set);
	}
}

static int open_and_map(struct kernel *k, struct explain_fit *fit,
			struct aux_diag *diag)
{
	char notes[NOTES_SIZE] = "";
	bool shrunk;
	int ret;

	for (;;) {
		set_watermarks(k, fit);
		ret = open_set(k, notes, diag);
		if (ret)
			return ret;
		ret = map_all(k, fit, &shrunk, diag);
		if (!shrunk)
			return ret;
		memcpy(notes, k->set.notes, sizeof(notes));
		free(k->rings);
		k->rings = NULL;
		evset_close(&k->set);
	}
}

static int open_recorder(struct kernel *k, struct aux_diag *diag)
{
	struct recorder_config c = {
		.events = &k->events,
		.set = &k->set,
		.rings = k->rings,
		.snapshot = k->o->snapshot,
		.sampling = samples_aux(&k->events),
		.backward = k->o->overwrite,
		.n_threads = k->o->n_threads,
		.max_size = k->o->max_size,
		.tasks = k->probes.n != 0 || when_has_oom(k->o->triggers),
	};
	struct codesave_config save = {
		.kernel = k->o->kcore, .self = (uint32_t)getpid(),
	};

	if (k->events.n_aux && !k->o->no_code && codesave_new(&k->save, &save))
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	c.save = k->save;
	return recorder_new(&k->recorder, &c, diag);
}

static int open_all(struct kernel *k, struct aux_diag *diag)
{
	struct explain_fit fit;
	int ret;

	explain_system(&k->sys);
	if (k->o->control) {
		ret = control_open(&k->control, k->o->control, diag);
		if (ret)
			return ret;
	}
	ret = target_open(&k->target, &k->o->target, diag);
	if (!ret)
		ret = open_events(k, diag);
	if (!ret && k->probes.n && !k->target.system_wide && !k->target.per_thread &&
	    probes_hold(&k->probes, &k->events, k->target.cpus[0]))
		ret = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	if (!ret)
		ret = choose_sizes(k, &fit, diag);
	if (ret)
		return ret;
	if (k->o->delay_ms) {
		/* We enable, not the exec; but side-band is recorded from the
		 * start, or the program's maps would be missing. */
		k->target.starts_at_exec = false;
		k->events.events[k->events.sideband].immediate = true;
	}
	k->opened = synth_proc_now();
	ret = open_and_map(k, &fit, diag);
	if (!ret)
		ret = evset_attach(&k->set, &k->events, diag);
	if (!ret)
		ret = evset_filter(&k->set, &k->events, diag);
	if (!ret)
		ret = open_recorder(k, diag);
	if (!ret)
		ret = when_open(k, diag);
	if (!ret)
		snprintf(k->fit_text, sizeof(k->fit_text), "%s", fit.text);
	return ret;
}

static void close_kernel(void *src)
{
	struct kernel *k = src;

	if (!k)
		return;
	codesave_free(k->save);
	when_close(&k->when);
	recorder_free(k->recorder);
	unmap_rings(k);
	free(k->rings);
	evset_close(&k->set);
	evlist_close(&k->events);
	probes_free(&k->probes);
	target_close(&k->target);
	control_close(k->control);
	watch_close(k);
	free(k);
}

static int open_kernel(void **src, const struct source_job *job,
		       struct aux_diag *diag)
{
	struct kernel *k = calloc(1, sizeof(*k));
	int ret;

	*src = NULL;
	if (!k)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	k->job = job;
	k->o = job->kernel;
	k->target.cgroup_fd = k->target.child_fd = -1;
	k->target.exec_error_fd = k->watch.fd = -1;
	ret = open_all(k, diag);
	if (ret) {
		close_kernel(k);
		return ret;
	}
	*src = k;
	return 0;
}

static uint64_t cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) *
	       1000000000 + ((uint64_t)u.ru_utime.tv_usec +
			     (uint64_t)u.ru_stime.tv_usec) * 1000;
}

static void fill_result(struct kernel *k, uint64_t wall, uint64_t cpu)
{
	struct source_result *r = k->result;
	struct recorder_stats s;

	recorder_stats(k->recorder, &s);
	r->n_wakeups = s.n_wakeups;
	r->n_restarts = s.n_restarts;
	r->n_snapshots = s.n_snapshots;
	r->n_samples = s.n_samples;
	r->aux_bytes = s.aux_bytes;
	r->sampled_bytes = s.sampled_bytes;
	r->sampling = samples_aux(&k->events);
	r->wall_ns = clock_ns() - wall;
	r->cpu_ns = cpu_ns() - cpu;
	r->has_aux = k->events.n_aux != 0;
	r->stopped = k->stopped;
	r->full = k->full;
	r->n_switched = output_n_switched(k->out);
	if (k->save) {
		r->code_saved = codesave_stats(k->save)->n_saved;
		r->code_unsaved = codesave_stats(k->save)->n_unsaved;
	}
	snprintf(r->notes, sizeof(r->notes), "%s%s%s", k->fit_text,
		 *k->fit_text && *k->set.notes ? "; " : "", k->set.notes);
	when_note(k);
}

static int run_kernel(void *src, struct output *out, struct ledger *ledger,
		      struct source_result *result, struct aux_diag *diag)
{
	struct kernel *k = src;
	uint64_t wall = clock_ns(), cpu = cpu_ns();
	int ret;

	memset(result, 0, sizeof(*result));
	result->kernel = true;
	k->ledger = ledger;
	k->result = result;
	k->out = out;
	recorder_set_ledger(k->recorder, ledger);
	recorder_output(k->recorder, output_writer(out));
	if (k->save)
		codesave_output(k->save, output_writer(out));
	ret = kernel_header(k, output_writer(out), diag);
	if (!ret)
		ret = kernel_describe(k, output_writer(out), false, diag);
	if (!ret)
		ret = kernel_loop(k, diag);
	fill_result(k, wall, cpu);
	return ret;
}

static bool program_ended(void *src, int sig, int *status)
{
	struct kernel *k = src;

	if (sig)
		target_kill(&k->target, sig);
	return target_child_ended(&k->target, status);
}

const struct source_ops source_kernel = {
	.name = "kernel",
	.help = "any event of this kernel; PMUs with an AUX area",
	.open = open_kernel,
	.run = run_kernel,
	.ended = program_ended,
	.close = close_kernel,
};
