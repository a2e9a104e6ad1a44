/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: the sink. It counts units while the flow comes (count.c); at the
 * end it expands them to blocks and edges and writes the format of --to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"

#include "common/options.h"
#include "decode/callstack/names.h"
#include "decode/coverage/impl.h"
#include "decode/lib/trace/gap.h"
#include "common/outbuf.h"

void coverage_fini(struct coverage *c)
{
	cover_partials_free(c);
	cover_counter_fini(&c->counter);
	cover_units_fini(&c->units);
	pthread_mutex_destroy(&c->lock);
	free(c->pending);
}

static void close_coverage(void *sink)
{
	if (!sink)
		return;
	coverage_fini(sink);
	free(sink);
}

int coverage_init(struct coverage *c, const struct sink_env *env)
{
	int err;

	pthread_mutex_init(&c->lock, NULL);
	c->env = *env;
	c->pid = UINT32_MAX;
	err = cover_units_init(&c->units);
	return err ? err : cover_counter_init(&c->counter, &c->units);
}

static int check_output(const struct sink_env *env, enum cover_format format,
			struct aux_diag *diag)
{
	if (env->json && format != COVER_SUMMARY)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--json is for the summary: --to has formats of "
				"its own");
	if (format == COVER_SANCOV && !env->out_path)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--to sancov wants -o DIR: it writes a file "
				"for each module");
	if (format == COVER_DRCOV && isatty(env->out->fd))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"drcov is binary: give -o FILE");
	return 0;
}

static int open_coverage(void **sink, const struct sink_env *env,
			 const void *options, struct aux_diag *diag)
{
	const struct coverage_config *config = options;
	struct coverage *c;
	int err = check_output(env, config->format, diag);

	*sink = NULL;
	if (err)
		return err;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -AUX_E_NOMEM;
	c->config = *config;
	err = coverage_init(c, env);
	if (err) {
		close_coverage(c);
		return err;
	}
	*sink = c;
	return 0;
}

/* Puts the open jump of the stream at hand aside. */
static int put_aside(struct coverage *c)
{
	struct cover_counter *k = &c->counter;
	struct cover_pending *p = cover_pending_of(c, k->stream);

	if (!p)
		return -AUX_E_NOMEM;
	p->id = k->prev;
	p->paused = k->paused;
	p->paused_space = k->paused_space;
	p->tid = k->tid;
	p->space = k->space;
	return 0;
}

/*
 * The session's own thread. Events of several streams are interleaved here, so
 * the jump that is open in a stream is put aside when another stream comes and
 * taken up when the first returns, provided that the same thread runs on.
 */
int coverage_flow(void *sink, const struct flow_ctx *ctx,
		  const struct aux_flow *ev, size_t n)
{
	struct coverage *c = sink;
	struct cover_counter *k = &c->counter;
	struct cover_pending *p;
	int err = 0;

	if (k->tid != ctx->tid || k->stream != ctx->stream) {
		if (k->stream != ctx->stream && put_aside(c) < 0)
			return -AUX_E_NOMEM;
		p = cover_pending_of(c, ctx->stream);
		if (!p)
			return -AUX_E_NOMEM;
		err = p->tid == ctx->tid ? 0 : cover_end_pause(c, p);
		k->prev = p->tid == ctx->tid ? p->id : 0;
		k->paused = k->prev ? p->paused : 0;
		k->paused_space = p->paused_space;
		k->tid = ctx->tid;
		k->stream = ctx->stream;
		p->id = 0;
	}
	if (!err)
		err = cover_counter_flow(k, ctx, ev, n);
	cover_take_pid(&c->pid, ctx->pid);
	c->env.report->n_insns += k->report.n_insns;
	k->report.n_insns = 0;
	return err;
}

/* ---- Expansion, at the end ---- */

static const struct cover_range *last_range(const struct cover_units *u,
					    uint32_t id)
{
	const struct cover_unit *unit = cover_unit_at(u, id);

	if (unit->is_path)
		unit = cover_unit_at(u, unit->steps[unit->n - 1]);
	return &unit->ranges[unit->n - 1];
}

/* Instructions of a step, or of a lone range. */
static uint64_t count_insns(const struct cover_unit *u)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < u->n; i++)
		n += u->ranges[i].n;
	return n;
}

/* A path's cycles are those of its steps, by their instructions. */
static int share_cycles(struct coverage *c, const struct cover_unit *u, uint64_t cycles)
{
	uint64_t insns = 0, n, part;
	int err = 0;

	for (uint32_t i = 0; i < u->n && cycles; i++)
		insns += count_insns(cover_unit_at(&c->units, u->steps[i]));
	for (uint32_t i = 0; i < u->n && cycles && !err; i++) {
		n = count_insns(cover_unit_at(&c->units, u->steps[i]));
		part = cover_cycles_share(cycles, n, insns);
		insns -= n;
		cycles -= part;
		err = cover_cycles_add(c->counter.cycles, u->steps[i], part);
	}
	return err;
}

/* Adds a path's count to its steps, and the edges between them. */
static int expand_path(struct coverage *c, struct cover_tally *t, uint32_t id)
{
	const struct cover_unit *u = cover_unit_at(&c->units, id), *step;
	uint64_t n = c->counter.counts[id];
	int err = share_cycles(c, u, cover_cycles_of(c->counter.cycles, id));

	for (uint32_t i = 0; i < u->n && !err; i++) {
		err = cover_counter_add(&c->counter, u->steps[i], n);
		step = cover_unit_at(&c->units, u->steps[i]);
		if (i + 1 < u->n && !err)
			err = cover_tally_edge(
				t, u->space, &step->ranges[step->n - 1], u->space,
				cover_unit_at(&c->units, u->steps[i + 1])->ranges[0].first, n);
	}
	return err;
}

/* Adds the ranges of a step or lone range, and the edges between them. */
static int expand_step(struct coverage *c, struct cover_tally *t, uint32_t id)
{
	const struct cover_unit *u = cover_unit_at(&c->units, id);
	uint64_t n = c->counter.counts[id];
	uint64_t cycles = cover_cycles_of(c->counter.cycles, id);
	uint64_t insns = count_insns(u), part;
	int err = 0;

	for (uint32_t i = 0; i < u->n && !err; i++) {
		part = cover_cycles_share(cycles, u->ranges[i].n, insns);
		cycles -= part;
		insns -= u->ranges[i].n;
		err = cover_tally_range(t, u->space, &u->ranges[i], n, part);
		if (i + 1 < u->n && !err)
			err = cover_tally_edge(t, u->space, &u->ranges[i],
					       u->space, u->ranges[i + 1].first,
					       n);
	}
	return err;
}

/*
 * Units to blocks and edges. The order matters: ends are counted for all units
 * first, while steps have only the counts of their own; then paths add theirs
 * to their steps (whose ends inside the path are its edges); then steps, which
 * are complete now. cover_counter_add may grow counts, so n is read again.
 */
static int expand(struct coverage *c, struct cover_tally *t)
{
	struct cover_counter *k = &c->counter;
	uint32_t n = k->cap < c->units.n ? k->cap : c->units.n;
	int err = 0;

	for (uint32_t i = 1; i < n && !err; i++)
		if (k->counts[i])
			err = cover_tally_end(t, cover_unit_at(&c->units, i)->space,
					      last_range(&c->units, i),
					      k->counts[i]);
	for (size_t i = 0; i < k->n_slots && !err; i++)
		if (k->jumps[i].id)
			err = cover_tally_edge(
				t, cover_unit_at(&c->units, k->jumps[i].id)->space,
				last_range(&c->units, k->jumps[i].id),
				k->jumps[i].space, k->jumps[i].to, k->jumps[i].n);
	for (uint32_t i = 1; i < n && !err; i++)
		if (cover_unit_at(&c->units, i)->is_path && k->counts[i])
			err = expand_path(c, t, i);
	n = k->cap < c->units.n ? k->cap : c->units.n;
	for (uint32_t i = 1; i < n && !err; i++)
		if (!cover_unit_at(&c->units, i)->is_path && k->counts[i])
			err = expand_step(c, t, i);
	return err;
}

static void add_drop(struct sink_report *r, const char *what, uint64_t n)
{
	if (r->n_drops < SINK_DROPS)
		r->drops[r->n_drops++] = (struct sink_drop){ what, n };
}

/* The hint (nothing was printed) and the note about files without debug
 * information. */
static void report_bare(struct coverage *c, const struct cover_lines *l)
{
	struct sink_report *r = c->env.report;

	if (!*l->bare)
		return;
	snprintf(r->hint, sizeof(r->hint),
		 "no debug information for what ran, such as %s: build with "
		 "-g, install its -dbgsym package, or use --symfs with the "
		 "debug files under DIR/usr/lib/debug; --to drcov needs none",
		 l->bare);
	if (l->n_files_bare)
		snprintf(r->note, sizeof(r->note),
			 "%u file%s that ran %s no debug information, such as "
			 "%s", l->n_files_bare, l->n_files_bare == 1 ? "" : "s",
			 l->n_files_bare == 1 ? "has" : "have", l->bare);
}

/* The function that was called most is the one to go on with. */
static void note_first(struct coverage *c, const struct cover_lines *l)
{
	struct sink_report *r = c->env.report;
	const struct cover_function *f = NULL;

	for (size_t i = 0; i < l->n_functions; i++)
		if (l->functions[i].name && l->functions[i].n_hit &&
		    (!f || l->functions[i].n > f->n))
			f = &l->functions[i];
	if (f)
		names_typed(c->env.host->names, f->name, r->function,
			    sizeof(r->function));
}

static int print_lines(struct coverage *c, const struct cover_tally *t)
{
	struct sink_report *r = c->env.report;
	struct cover_lines l = { .part = sink_has_parts(c->env.host) };
	int err = cover_lines_make(&l, t);

	if (err) {
		cover_lines_fini(&l);
		return err;
	}
	add_drop(r, "runs of code without lines", l.n_bare);
	note_first(c, &l);
	report_bare(c, &l);
	for (size_t i = 0; i < l.n_lines; i++)
		r->n_lines += l.lines[i].n != 0;
	if (r->n_lines && c->config.format == COVER_LCOV)
		cover_print_lcov(&l, c->env.out);
	else if (r->n_lines && c->env.json)
		cover_put_json(&l, c->env.host->names, c->env.out);
	else if (r->n_lines)
		cover_print_summary(&l, c->env.host->names, c->env.out);
	else if (c->config.format == COVER_SUMMARY && !c->env.json && *l.bare) {
		err = cover_print_bare(t, c->env.host->names, c->env.out,
				       &r->n_lines);
		snprintf(r->note, sizeof(r->note), "%s", r->hint);
	}
	cover_lines_fini(&l);
	return err;
}

/* What is said of a finished tally. */
static void report_tally(struct coverage *c, const struct cover_tally *t)
{
	struct sink_report *r = c->env.report;

	r->n_filtered = t->n_filtered;
	r->n_mismatches = t->n_mismatches;
	add_drop(r, t->only ? "of other files" : "of no file (made code)", t->n_homeless);
}

static int print_tally(struct coverage *c, const struct cover_tally *t,
		       struct aux_diag *diag)
{
	struct sink_report *r = c->env.report;

	if (c->config.format == COVER_SANCOV)
		return t->n_blocks ? cover_write_sancov(t, c->env.out_path,
							c->pid, &r->n_lines,
							diag) : 0;
	if (c->config.format == COVER_DRCOV && t->n_blocks)
		return cover_print_drcov(t, c->env.out, &r->n_lines);
	if (c->config.format == COVER_AFL)
		return cover_print_afl(t, c->env.out, &r->n_lines);
	return print_lines(c, t);
}

int coverage_tally(struct coverage *c, struct cover_tally *t)
{
	int err = 0;

	if (c->counter.prev)
		err = put_aside(c);
	for (size_t i = 0; i < c->n_pending && !err; i++)
		err = cover_end_pause(c, &c->pending[i]);
	/* lcov counts how often a line is entered, which the next part does */
	if (!err && c->config.format == COVER_AFL)
		err = cover_join_parts(c);
	if (!err && c->counter.cycles)
		err = cover_cycles_end(c->counter.cycles);
	if (!err)
		err = expand(c, t);
	if (!err && t->nomem)
		err = -AUX_E_NOMEM;
	return err ? err : cover_tally_sort(t);
}

static int finish_coverage(void *sink, struct aux_diag *diag)
{
	struct coverage *c = sink;
	struct cover_tally t;
	int err = cover_tally_init(&t, c->env.host);

	t.only = c->config.module;
	if (!err && (c->config.format == COVER_LCOV || c->config.format == COVER_SUMMARY))
		t.ahead = cover_ahead_new(c->env.n_threads);
	t.by_base = c->config.format == COVER_DRCOV;
	if (!err)
		err = coverage_tally(c, &t);
	if (!err) {
		report_tally(c, &t);
		err = print_tally(c, &t, diag);
	}
	cover_tally_fini(&t);
	return err;
}

int coverage_rows(void *sink, int (*row)(void *priv, const struct coverage_row *r),
		  void *priv)
{
	struct coverage *c = sink;
	struct cover_lines l = { 0 };
	struct cover_tally t;
	int err = cover_tally_init(&t, c->env.host);

	if (!err)
		err = coverage_tally(c, &t);
	if (!err) {
		report_tally(c, &t);
		err = cover_lines_make(&l, &t);
	}
	if (!err) {
		report_bare(c, &l);
		err = cover_lines_each(&l, row, priv);
	}
	cover_lines_fini(&l);
	cover_tally_fini(&t);
	return err;
}

/* sancov: -o is a directory, and the sink names the files in it. */
static bool makes_file(const void *options)
{
	const struct coverage_config *config = options;

	return config->format == COVER_SANCOV;
}

/* table */
static const struct habit other_formats[] = {
	{ "cobertura xml", "lcov_cobertura makes it of what `auxdecode coverage --to lcov "
			   "-o OUT FILE` writes" },
	{ "gcov json html", "genhtml and others read `auxdecode coverage --to lcov -o OUT "
			    "FILE`; `auxdecode annotate FUNCTION FILE` counts lines" },
	{ NULL, NULL },
};

/* table */
static const struct option_row coverage_options[] = {
	{ .name = "to", .arg = "FORMAT", .values = "summary lcov drcov sancov afl",
	  .help = "summary (the default), lcov, drcov, sancov or afl",
	  .others = other_formats,
	  OPTION_CHOICE(struct coverage_config, format) },
	{ .name = "module", .arg = "NAME",
	  .help = "only this file, by path or name",
	  OPTION_TEXT(struct coverage_config, module) },
	{ .name = NULL },
};

const struct sink_ops sink_coverage = {
	.name = "coverage",
	.needs = SINK_TAKES_PATHS | SINK_OWN_FORMAT | SINK_ANY_STREAM_ORDER,
	.options = coverage_options,
	.config_size = sizeof(struct coverage_config),
	.makes_file = makes_file,
	.open = open_coverage,
	.flow = coverage_flow,
	.finish = finish_coverage,
	.close = close_coverage,
	.partial_new = cover_partial_new,
	.partial_flow = cover_partial_flow,
	.partial_join = cover_partial_join,
	.partial_free = cover_partial_free,
};
