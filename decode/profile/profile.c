/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: the sink. It counts every execution, not samples; at the end the
 * list is written in the format of --to. A format is a file and a row of the
 * table here.
 *
 * Formats for compilers describe one binary, so all but the list take one
 * module: that of --module, or the program that ran most. What is left out is
 * said in a note.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/options.h"

#include "common/outbuf.h"
#include "decode/lib/elf/elf.h"
#include "decode/sink/sink.h"
#include "decode/profile/impl.h"

typedef int write_fn(const struct profile_module *m, struct outbuf *out,
		     uint64_t max, struct profile_result *result,
		     struct aux_diag *diag);

/* write is NULL for the list itself, which has all modules, and for samples. */
struct format {
	const char *name;
	write_fn *write;
	bool samples;		/* made of the flow, not of the list */
	bool binary;
};

/* table */
static const struct format formats[] = {
	{ "list", NULL, false, false },
	{ "autofdo", profile_write_autofdo, false, false },
	{ "gcov", profile_write_gcov, false, true },
	{ "bolt", profile_write_bolt, false, false },
	{ "perf", NULL, true, false },
};

#define FORMATS "list, autofdo, gcov, bolt, perf"
#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

struct profile {
	struct sink_env env;
	struct profile_config config;
	const struct format *format;
	struct branchlist list;
	struct profile_collect collect;
	struct profile_samples *samples;
};

static void close_profile(void *sink)
{
	struct profile *p = sink;

	if (!p)
		return;
	profile_samples_free(p->samples);
	profile_collect_fini(&p->collect);
	branchlist_fini(&p->list);
	free(p);
}

static const struct format *find_format(const char *name)
{
	for (size_t i = 0; i < N_FORMATS; i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}

/* table */
static const struct habit other_formats[] = {
	{ "propeller", "create_llvm_prof makes it of what `auxdecode profile --to perf -o OUT "
		       "FILE` writes" },
	{ "csspgo llvm sample", "llvm-profgen makes it of what `auxdecode profile --to perf -o "
				"OUT FILE` writes" },
	{ "prof profdata afdo", "the text of AutoFDO is `auxdecode profile --to autofdo -o OUT "
				"FILE`" },
	{ "pprof", "`auxdecode export --to pprof -o OUT FILE` makes one" },
	{ "fdata", "`auxdecode profile --to bolt -o OUT FILE` makes it" },
	{ NULL, NULL },
};

/* Rejects what a format cannot do, before any decoding. */
static int check_config(const struct sink_env *env,
			const struct profile_config *c, const struct format *f,
			struct aux_diag *diag)
{
	const char *other = f ? NULL : habit_find(other_formats, c->to);

	if (!f)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"profile --to takes " FORMATS ", not \"%s\"%s%s",
				c->to, other ? ": " : "", other ? other : "");
	if (f->binary && env->out->fd >= 0 && isatty(env->out->fd))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--to %s is not for a terminal: -o FILE",
				f->name);
	if (c->period && !f->samples)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--period is of --to perf: all others count "
				"every execution");
	return 0;
}

static int open_profile(void **sink, const struct sink_env *env,
			const void *options, struct aux_diag *diag)
{
	const struct profile_config *config = options;
	const struct format *f = find_format(config->to ? config->to : "list");
	int err = check_config(env, config, f, diag);
	struct profile *p;

	*sink = NULL;
	if (err)
		return err;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -AUX_E_NOMEM;
	p->env = *env;
	p->config = *config;
	p->format = f;
	branchlist_init(&p->list);
	err = profile_collect_init(&p->collect, &p->list, env->host);
	if (!err && f->samples)
		err = profile_samples_new(&p->samples, env,
					  config->period, config->limit, diag);
	if (err) {
		close_profile(p);
		return err;
	}
	*sink = p;
	return 0;
}

/* Samples are made at once; for all other formats the flow is only counted. */
static int flow_profile(void *sink, const struct flow_ctx *ctx,
			const struct aux_flow *ev, size_t n)
{
	struct profile *p = sink;
	int err;

	if (p->samples)
		return profile_samples_flow(p->samples, ctx, ev, n);
	err = profile_collect_flow(&p->collect, ctx, ev, n);
	p->env.report->n_insns = p->collect.n_insns;
	return err;
}

/* ---- The end ---- */

/* By path or by its last component, as --module takes both. */
static bool is_called(const struct branchlist_module *m, const char *name)
{
	const char *base = strrchr(m->path, '/');

	return !strcmp(m->path, name) || (base && !strcmp(base + 1, name));
}

/* The module of --module, or the program that ran most instructions (a library
 * if there is no program); -1: none. */
static int choose_module(const struct branchlist *l, const char *name)
{
	int best = -1;

	for (size_t i = 0; i < l->n_modules; i++) {
		const struct branchlist_module *m = &l->modules[i];
		const struct branchlist_module *b =
			best < 0 ? NULL : &l->modules[best];

		if (name && !is_called(m, name))
			continue;
		if (!b || m->main > b->main ||
		    (m->main == b->main && m->n_insns > b->n_insns))
			best = (int)i;
	}
	return best;
}

/* Appends " 12345 of /lib/libc.so.6" to the note, as long as there is room. */
static void add_left_out(char *buf, size_t size,
			 const struct branchlist_module *m)
{
	size_t len = strlen(buf);

	if (size - len > strlen(m->path) + 40)
		snprintf(buf + len, size - len, "%s %llu of %s",
			 len && buf[len - 1] != ':' ? "," : "",
			 (unsigned long long)m->n_insns, m->path);
}

/* Notes which other modules ran (those with more than 1% of the rest); returns
 * how many instructions they ran. */
static uint64_t say_left_out(struct sink_report *r, const struct branchlist *l,
			     int chosen)
{
	const struct branchlist_module *m = l->modules;
	uint64_t n = 0;

	for (size_t i = 0; i < l->n_modules; i++)
		n += (int)i == chosen ? 0 : m[i].n_insns;
	if (!n || chosen < 0)
		return n;
	snprintf(r->note, sizeof(r->note), "profile of %s; %llu instructions "
		 "of other files are left out (--module shows theirs):",
		 m[chosen].path, (unsigned long long)n);
	for (size_t i = 0; i < l->n_modules; i++)
		if ((int)i != chosen && m[i].n_insns > n / 100)
			add_left_out(r->note, sizeof(r->note), &m[i]);
	return n;
}

static void add_drop(struct sink_report *r, const char *what, uint64_t n)
{
	if (r->n_drops < SINK_DROPS)
		r->drops[r->n_drops++] = (struct sink_drop){ what, n };
}

/* Nothing was written: says at which stage counts were lost, and what would
 * help. */
static void explain_empty(const struct sink_env *env,
			  const struct profile_config *c,
			  const struct branchlist *l, int chosen,
			  uint64_t others, const struct profile_result *result)
{
	struct sink_report *r = env->report;
	const char *path = chosen < 0 ? NULL : l->modules[chosen].path;

	add_drop(r, "in other files", others);
	add_drop(r, "whose file is missing", result->n_no_code);
	add_drop(r, "without a source line", result->n_no_line);
	if (!path && c->module)
		snprintf(r->hint, sizeof(r->hint), "nothing of %s ran; "
			 "`profile --to list` shows what did", c->module);
	else if (result->n_no_code)
		snprintf(r->hint, sizeof(r->hint), "%s cannot be read as it "
			 "was: give its place with --symfs", path);
	else if (result->n_no_line)
		snprintf(r->hint, sizeof(r->hint), "%s has no debug "
			 "information: compile it with -g (clang: "
			 "-gmlt -fdebug-info-for-profiling), or install its "
			 "debug file", path);
}

/* Writes the chosen module (-1: none) in a format of one binary. */
static int write_module(const struct sink_env *env,
			const struct profile_config *c, const struct format *f,
			const struct branchlist *l, int chosen, uint64_t others,
			struct aux_diag *diag)
{
	struct profile_result result = { 0 };
	struct profile_module m;
	int err = 0;

	if (chosen >= 0) {
		err = profile_module_open(&m, l, (uint32_t)chosen,
					  env->symfs);
		if (err)
			return err;
		err = f->write(&m, env->out, c->limit, &result, diag);
		/* names and lines that were not found are left out */
		if (!err && elfimage_nomem(m.image))
			err = -AUX_E_NOMEM;
		profile_module_close(&m);
	}
	if (!err && !result.n_lines)
		explain_empty(env, c, l, chosen, others, &result);
	env->report->n_lines = result.n_lines;
	return err;
}

/* Drops all entries that do not touch a module: a count of 0 is not written. */
static void keep_module(struct branchlist *l, int chosen)
{
	struct branchlist_branch *b = branchlist_branches(l);
	struct branchlist_range *r = branchlist_ranges(l);
	size_t n = 0;

	for (size_t i = 0; i < l->branches.n; i++)
		if ((int)b[i].from_module != chosen &&
		    (int)b[i].to_module != chosen)
			b[i].count = 0;
	for (size_t i = 0; i < l->ranges.n; i++)
		if ((int)r[i].module != chosen)
			r[i].count = 0;
	for (size_t i = 0; i < l->n_pieces; i++)
		if ((int)l->pieces[i].module == chosen)
			l->pieces[n++] = l->pieces[i];
	l->n_pieces = n;
}

/* Sorts the list and writes it in format f. 0 or -AUX_E_*. */
static int write_list(const struct sink_env *env, const struct profile_config *c,
		      const struct format *f,
		      struct branchlist *l, struct aux_diag *diag)
{
	struct sink_report *r = env->report;
	uint64_t others;
	int chosen, err = branchlist_join(l);

	if (!err && f->write)
		err = branchlist_close(l);
	if (!err)
		err = branchlist_sort(l);
	if (err)
		return err;
	branchlist_sum(l);
	chosen = choose_module(l, c->module);
	if (!f->write && !c->module) {
		r->n_lines = branchlist_write(l, env->out, c->limit);
		return 0;
	}
	others = say_left_out(r, l, chosen);
	if (f->write)
		return write_module(env, c, f, l, chosen, others, diag);
	keep_module(l, chosen);
	if (chosen >= 0)
		r->n_lines = branchlist_write(l, env->out, c->limit);
	if (!r->n_lines)
		explain_empty(env, c, l, chosen, others,
			      &(struct profile_result){ 0 });
	return 0;
}

int profile_convert(const struct sink_env *env, const struct profile_config *c,
		    struct branchlist *l, struct aux_diag *diag)
{
	const struct format *f = find_format(c->to ? c->to : "list");
	int err = check_config(env, c, f, diag);

	if (!err && f->samples)
		err = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			       "--to perf is of recordings: a branch list has "
			       "no samples");
	return err ? err : write_list(env, c, f, l, diag);
}

static int finish_profile(void *sink, struct aux_diag *diag)
{
	struct profile *p = sink;
	int err;

	if (p->samples)
		return profile_samples_finish(p->samples, diag);
	err = profile_collect_finish(&p->collect);
	return err ? err : write_list(&p->env, &p->config, p->format,
				      &p->list, diag);
}

static bool wants_samples(const struct profile_config *c)
{
	const struct format *f = c->to ? find_format(c->to) : NULL;

	return f && f->samples;
}

/* Counts do not need time, so decoding may skip it; samples do. */
static uint32_t needs_of(const void *options)
{
	const struct profile_config *c = options;

	return SINK_TAKES_PATHS | SINK_OWN_FORMAT |
	       (wants_samples(c) ? SINK_NEEDS_TIME : 0);
}

/* A recording is rewritten as a whole, not printed. */
static bool makes_file(const void *options)
{
	return wants_samples(options);
}

/* table */
static const struct option_row profile_options[] = {
	{ .name = "to", .arg = "FORMAT", .values = "list autofdo gcov bolt perf",
	  .help = "list (the default), autofdo, gcov, bolt or perf",
	  OPTION_TEXT(struct profile_config, to) },
	{ .name = "module", .arg = "NAME",
	  .help = "profile of this file, by path or name (default: the program)",
	  OPTION_TEXT(struct profile_config, module) },
	{ .name = "period", .arg = "N",
	  .help = "--to perf: a sample every N instructions, or every 100us (the\ndefault)",
	  OPTION_TEXT(struct profile_config, period) },
	SINK_LIMIT(struct profile_config, "stop after N entries"),
	{ .name = NULL },
};

const struct sink_ops sink_profile = {
	.name = "profile",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_OWN_FORMAT,
	.needs_of = needs_of,
	.makes_file = makes_file,
	.options = profile_options,
	.config_size = sizeof(struct profile_config),
	.open = open_profile,
	.flow = flow_profile,
	.finish = finish_profile,
	.close = close_profile,
};
