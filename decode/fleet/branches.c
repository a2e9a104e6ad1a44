/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Branches as rows: how often each went where.
 *
 * profile: rows are the entries of a branch list (profile/branchlist.h), with files by build
 * id and path, and the result is such a list, of which `profile` makes what compilers read.
 * A run that the border of a unit cuts is a row on both sides, and the two are joined when
 * the result is made, so units may be of chunks.
 *
 *	branch ID PATH FROM KIND ID PATH TO			N
 *	range ID PATH FIRST in|out - INSNS LAST			N
 *	piece ID PATH FIRST in|out RECORDING.STREAM INSNS LAST HEAD TAIL	1
 *	module ID PATH RECORDING main|lib			1
 *	gaps							N
 *
 * with "-" for what is not known, and for the fields that a row does not have.
 *
 * branches: for people, and to be compared: by function and what is beyond its begin.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/callstack/names.h"
#include "decode/fleet/fleet.h"
#include "decode/lib/elf/elf.h"
#include "decode/profile/branchlist.h"
#include "decode/profile/profile.h"

#define FIELDS 10	/* of profile */

/* ---- a recording ---- */

struct branch_sink {
	struct sink_env env;
	struct fleet_sink_config config;
	struct fleet_rows *rows;
	struct outbuf *key;	/* in memory */
	struct profile_branches *branches;
};

static void close_branches(void *sink)
{
	struct branch_sink *k = sink;

	if (!k)
		return;
	profile_branches_free(k->branches);
	fleet_rows_free(k->rows);
	outbuf_free(k->key);
	free(k);
}

static int open_sink(void **sink, const struct sink_env *env,
		     const struct fleet_sink_config *config, bool ranges)
{
	struct branch_sink *k = calloc(1, sizeof(*k));

	*sink = k;
	if (!k)
		return -AUX_E_NOMEM;
	k->env = *env;
	k->config = *config;
	k->rows = fleet_rows_new(config->kind);
	k->key = outbuf_new(-1);
	k->branches = profile_branches_new(env->host, ranges);
	return k->rows && k->key && k->branches ? 0 : -AUX_E_NOMEM;
}

static int open_profile(void **sink, const struct sink_env *env, const void *config,
			struct aux_diag *diag)
{
	(void)diag;
	return open_sink(sink, env, config, true);
}

static int open_branches(void **sink, const struct sink_env *env, const void *config,
			 struct aux_diag *diag)
{
	(void)diag;
	return open_sink(sink, env, config, false);
}

static int flow_branches(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev,
			 size_t n)
{
	struct branch_sink *k = sink;

	for (size_t i = 0; i < n; i++)
		if (ev[i].kind == AUX_FLOW_PATH || ev[i].kind == AUX_FLOW_RANGE)
			k->env.report->n_insns += ev[i].n;
	return profile_branches_flow(k->branches, ctx, ev, n);
}

static int add(struct branch_sink *k, uint64_t n)
{
	if (outbuf_failed(k->key))
		return -AUX_E_NOMEM;
	return fleet_rows_add(k->rows, k->key->buf, (size_t)(k->key->p - k->key->buf), &n);
}

static void put_hex(struct branch_sink *k, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIx64, v);
	fleet_field(k->key, text);
}

/* What a row of profile begins with: its word, a file, an offset. */
static void begin_row(struct branch_sink *k, const char *what,
		      const struct branchlist_module *m)
{
	k->key->p = k->key->buf;
	fleet_field(k->key, what);
	fleet_field(k->key, m && *m->id ? m->id : "-");
	fleet_field(k->key, m ? m->path : "-");
}

static void put_none(struct branch_sink *k, unsigned n)
{
	while (n--)
		fleet_field(k->key, "-");
}

static int add_branch(struct branch_sink *k, const struct branchlist *l,
		      const struct branchlist_branch *b)
{
	const struct branchlist_module *to = b->to_module == BRANCHLIST_NOWHERE ? NULL :
					     &l->modules[b->to_module];

	begin_row(k, "branch", &l->modules[b->from_module]);
	put_hex(k, b->from);
	fleet_field(k->key, branchlist_kind_name(b->kind));
	fleet_field(k->key, to && *to->id ? to->id : "-");
	fleet_field(k->key, to ? to->path : "-");
	if (to)
		put_hex(k, b->to);
	put_none(k, to ? 2 : 3);
	return add(k, b->count);
}

static int add_range(struct branch_sink *k, const struct branchlist *l,
		     const struct branchlist_range *r)
{
	begin_row(k, "range", &l->modules[r->module]);
	put_hex(k, r->first);
	fleet_field(k->key, r->outside ? "out" : "in");
	fleet_field(k->key, "-");
	fleet_field_number(k->key, r->n_insns);
	put_hex(k, r->last);
	put_none(k, 2);
	return add(k, r->count);
}

static void put_cut(struct branch_sink *k, uint64_t at)
{
	if (at == BRANCHLIST_NO_CUT)
		fleet_field(k->key, "-");
	else
		put_hex(k, at);
}

static int add_piece(struct branch_sink *k, const struct branchlist *l,
		     const struct branchlist_piece *p)
{
	char stream[FLEET_ID + 16];

	snprintf(stream, sizeof(stream), "%s.%" PRIu32, k->config.id, p->stream);
	begin_row(k, "piece", &l->modules[p->module]);
	put_hex(k, p->first);
	fleet_field(k->key, p->outside ? "out" : "in");
	fleet_field(k->key, stream);
	fleet_field_number(k->key, p->n_insns);
	put_hex(k, p->last);
	put_cut(k, p->head);
	put_cut(k, p->tail);
	return add(k, 1);
}

static int add_modules(struct branch_sink *k, const struct branchlist *l)
{
	int err = 0;

	for (size_t i = 0; i < l->n_modules && !err; i++) {
		begin_row(k, "module", &l->modules[i]);
		fleet_field(k->key, k->config.id);
		fleet_field(k->key, l->modules[i].main ? "main" : "lib");
		put_none(k, 5);
		err = add(k, 1);
	}
	if (!err && l->n_gaps) {
		begin_row(k, "gaps", NULL);
		put_none(k, 7);
		err = add(k, l->n_gaps);
	}
	return err;
}

static int finish_profile(void *sink, struct aux_diag *diag)
{
	struct branch_sink *k = sink;
	int err;
	const struct branchlist *l = profile_branches_finish(k->branches, &err);

	(void)diag;
	if (!l)
		return err;
	err = add_modules(k, l);
	for (size_t i = 0; i < l->branches.n && !err; i++)
		if (branchlist_branches(l)[i].count)
			err = add_branch(k, l, &branchlist_branches(l)[i]);
	for (size_t i = 0; i < l->ranges.n && !err; i++)
		if (branchlist_ranges(l)[i].count)
			err = add_range(k, l, &branchlist_ranges(l)[i]);
	for (size_t i = 0; i < l->n_pieces && !err; i++)
		err = add_piece(k, l, &l->pieces[i]);
	if (!err)
		fleet_rows_write(k->rows, k->env.out);
	return err;
}

#define NEEDS (SINK_TAKES_PATHS | SINK_OWN_FORMAT)

const struct sink_ops fleet_sink_profile = {
	.name = "map", .needs = NEEDS, .open = open_profile,
	.flow = flow_branches, .finish = finish_profile, .close = close_branches,
};

/* ---- branches: by function ---- */

/* A place as "function+0x1f", or as an offset in the file. */
static void put_place(struct branch_sink *k, struct elfimage *image, uint64_t offset)
{
	struct elfimage_symbol s;
	char text[512];

	if (image && !elfimage_symbol(image, offset, &s))
		snprintf(text, sizeof(text), "%s+0x%" PRIx64,
			 names_shown(k->env.host->names, s.name), offset - s.start);
	else
		snprintf(text, sizeof(text), "0x%" PRIx64, offset);
	fleet_field(k->key, text);
}

static int add_named(struct branch_sink *k, const struct branchlist *l,
		     const struct branchlist_branch *b, struct elfimage *const *images)
{
	k->key->p = k->key->buf;
	fleet_field(k->key, branchlist_kind_name(b->kind));
	put_place(k, images[b->from_module], b->from);
	fleet_field(k->key, l->modules[b->from_module].path);
	if (b->to_module == BRANCHLIST_NOWHERE) {
		put_none(k, 2);
	} else {
		put_place(k, images[b->to_module], b->to);
		fleet_field(k->key, l->modules[b->to_module].path);
	}
	return add(k, b->count);
}

static int finish_branches(void *sink, struct aux_diag *diag)
{
	struct branch_sink *k = sink;
	int err;
	const struct branchlist *l = profile_branches_finish(k->branches, &err);
	struct elfimage **images = l ? calloc(l->n_modules + 1, sizeof(*images)) : NULL;

	(void)diag;
	if (!images)
		return l ? -AUX_E_NOMEM : err;
	for (size_t i = 0; i < l->n_modules && !err; i++)
		err = profile_module_image(&images[i], &l->modules[i], k->env.symfs);
	for (size_t i = 0; i < l->branches.n && !err; i++)
		if (branchlist_branches(l)[i].count)
			err = add_named(k, l, &branchlist_branches(l)[i], images);
	for (size_t i = 0; i < l->n_modules; i++) {
		if (images[i] && elfimage_nomem(images[i]))
			err = -AUX_E_NOMEM;
		if (images[i])
			elfimage_close(images[i]);
	}
	free(images);
	if (!err)
		fleet_rows_write(k->rows, k->env.out);
	return err;
}

const struct sink_ops fleet_sink_branches = {
	.name = "map", .needs = NEEDS, .open = open_branches,
	.flow = flow_branches, .finish = finish_branches, .close = close_branches,
};

/* ---- the list that rows of profile are ---- */

struct reader {
	struct branchlist list;
	struct cut {
		char *stream;	/* "RECORDING.STREAM" */
		struct branchlist_piece piece;
	} *cuts;
	size_t n_cuts, cap_cuts;
	char recording[FLEET_ID + 1];	/* of the module that was a library */
	int lib;
};

static bool read_hex(const char *s, uint64_t *v)
{
	size_t n = strspn(s, "0123456789abcdef");

	*v = n && n <= 16 && !s[n] ? strtoull(s, NULL, 16) : 0;
	return n && n <= 16 && !s[n];
}

/* The module of a build id and a path; an error, or -AUX_E_FORMAT. */
static int read_module(struct reader *r, const char *id, const char *path)
{
	size_t n = strspn(id, "0123456789abcdef");

	if (strcmp(id, "-") && (!n || n > 40 || id[n]))
		return -AUX_E_FORMAT;
	return branchlist_module(&r->list, path, n ? id : "");
}

static int read_branch(struct reader *r, char *const f[FIELDS], uint64_t n)
{
	struct branchlist_branch b = { .to_module = BRANCHLIST_NOWHERE };
	int from = read_module(r, f[1], f[2]);
	int to = strcmp(f[7], "-") && from >= 0 ? read_module(r, f[5], f[6]) : 0, i;

	if (from < 0 || to < 0)
		return from < 0 ? from : to;
	for (b.kind = 1; b.kind < BRANCHLIST_N_KINDS; b.kind++)
		if (branchlist_kind_name(b.kind) && !strcmp(branchlist_kind_name(b.kind), f[4]))
			break;
	if (b.kind == BRANCHLIST_N_KINDS || !read_hex(f[3], &b.from))
		return -AUX_E_FORMAT;
	b.from_module = (uint32_t)from;
	if (strcmp(f[7], "-")) {
		b.to_module = (uint32_t)to;
		if (!read_hex(f[7], &b.to))
			return -AUX_E_FORMAT;
	}
	i = branchlist_branch(&r->list, &b);
	if (i >= 0)
		branchlist_add_count(&branchlist_branches(&r->list)[i].count, n);
	return i < 0 ? i : 0;
}

/* What ranges and pieces have: a run of instructions. */
static int read_run(struct reader *r, char *const f[FIELDS], struct branchlist_piece *p)
{
	int module = read_module(r, f[1], f[2]);
	uint64_t n;
	const char *end = fleet_number(f[6], UINT32_MAX, &n);

	if (module < 0)
		return module;
	if (!read_hex(f[3], &p->first) || !read_hex(f[7], &p->last) || !end || *end ||
	    p->last < p->first || (n && p->last - p->first < n - 1) ||
	    (strcmp(f[4], "in") && strcmp(f[4], "out")))
		return -AUX_E_FORMAT;
	p->module = (uint32_t)module;
	p->n_insns = (uint32_t)n;
	p->outside = !strcmp(f[4], "out");
	return 0;
}

static int read_range(struct reader *r, char *const f[FIELDS], uint64_t n)
{
	struct branchlist_piece p = { 0 };
	int rc = read_run(r, f, &p), i;

	if (rc || !p.n_insns)
		return rc ? rc : -AUX_E_FORMAT;
	i = branchlist_range(&r->list, &(struct branchlist_range){
		.module = p.module, .outside = p.outside, .first = p.first, .last = p.last,
		.n_insns = p.n_insns });
	if (i >= 0)
		branchlist_add_count(&branchlist_ranges(&r->list)[i].count, n);
	return i < 0 ? i : 0;
}

static bool read_cut(const char *s, uint64_t *v)
{
	*v = BRANCHLIST_NO_CUT;
	return !strcmp(s, "-") || read_hex(s, v);
}

static int read_piece(struct reader *r, char *const f[FIELDS])
{
	struct branchlist_piece p = { 0 };
	int rc = read_run(r, f, &p);

	if (rc)
		return rc;
	if (!read_cut(f[8], &p.head) || !read_cut(f[9], &p.tail) ||
	    (p.head == BRANCHLIST_NO_CUT && p.tail == BRANCHLIST_NO_CUT) ||
	    (p.head != BRANCHLIST_NO_CUT && p.tail <= p.head))
		return -AUX_E_FORMAT;
	if (array_grow(&r->cuts, r->n_cuts, &r->cap_cuts, sizeof(*r->cuts)) < 0)
		return -AUX_E_NOMEM;
	r->cuts[r->n_cuts] = (struct cut){ strdup(f[5]), p };
	return r->cuts[r->n_cuts].stream ? (r->n_cuts++, 0) : -AUX_E_NOMEM;
}

/* A unit may begin before the program was mapped, and take its loader for it: what is a
 * library in one unit of a recording is none in it. Rows are sorted: "lib" precedes "main". */
static int read_role(struct reader *r, char *const f[FIELDS])
{
	int module = read_module(r, f[1], f[2]);
	bool is_main = !strcmp(f[4], "main");

	if (module < 0)
		return module;
	if ((!is_main && strcmp(f[4], "lib")) || strlen(f[3]) != FLEET_ID)
		return -AUX_E_FORMAT;
	if (!is_main) {
		r->lib = module;
		memcpy(r->recording, f[3], sizeof(r->recording));
	} else if (r->lib != module || strcmp(r->recording, f[3])) {
		r->list.modules[module].main = true;
	}
	return 0;
}

static int take_row(struct reader *r, struct fleet_row *row)
{
	char *f[FIELDS];

	if (fleet_fields(row, f, FIELDS))
		return -AUX_E_FORMAT;
	if (!strcmp(f[0], "branch"))
		return read_branch(r, f, row->values[0]);
	if (!strcmp(f[0], "range"))
		return read_range(r, f, row->values[0]);
	if (!strcmp(f[0], "piece"))
		return read_piece(r, f);
	if (!strcmp(f[0], "module"))
		return read_role(r, f);
	if (strcmp(f[0], "gaps"))
		return -AUX_E_FORMAT;
	branchlist_add_count(&r->list.n_gaps, row->values[0]);
	return 0;
}

static int compare_cuts(const void *a, const void *b)
{
	return strcmp(((const struct cut *)a)->stream, ((const struct cut *)b)->stream);
}

/* Pieces are joined by stream, of all recordings. */
static int join_cuts(struct reader *r)
{
	uint32_t stream = 0;
	int rc = 0;

	if (r->n_cuts)
		qsort(r->cuts, r->n_cuts, sizeof(*r->cuts), compare_cuts);
	for (size_t i = 0; i < r->n_cuts && !rc; i++) {
		stream += i && compare_cuts(&r->cuts[i - 1], &r->cuts[i]);
		r->cuts[i].piece.stream = stream;
		rc = branchlist_piece(&r->list, &r->cuts[i].piece);
	}
	rc = rc ? rc : branchlist_join(&r->list);
	return rc == -AUX_E_INVAL ? -AUX_E_FORMAT : rc;
}

int fleet_print_profile(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
			unsigned by, struct aux_diag *diag)
{
	struct reader r = { .lib = -1 };
	struct fleet_row row = { 0 };
	int rc;

	(void)by;
	branchlist_init(&r.list);
	while ((rc = fleet_row_read(&row, rows, kind, diag)) > 0 && !(rc = take_row(&r, &row)))
		;
	fleet_row_fini(&row);
	rc = rc ? rc : join_cuts(&r);
	if (rc == -AUX_E_FORMAT && !diag->code)
		diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET, "a row is none of a branch list");
	rc = rc ? rc : branchlist_sort(&r.list);
	if (!rc)
		branchlist_write(&r.list, out, 0);
	while (r.n_cuts)
		free(r.cuts[--r.n_cuts].stream);
	free(r.cuts);
	branchlist_fini(&r.list);
	return rc;
}
