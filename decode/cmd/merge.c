/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_merge: several recordings as one; or results of several recordings added
 * up: branch lists, coverage, pprof profiles, folded stacks. The first file
 * says which of these it is; the others must be of the same kind.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/profile/branchlist.h"
#include "decode/cmd/impl.h"
#include "decode/coverage/coverage.h"
#include "decode/edit/edit.h"
#include "decode/profile/profile.h"

struct merge_config {
	bool parts;
};

/* table */
static const struct option_row option_rows[] = {
	{ .name = "parts",
	  .help = "AFL maps are of parts of one recording: counts are added",
	  OPTION_FLAG(struct merge_config, parts) },
	{ .name = NULL },
};

const struct cmd_own cmd_merge_own = {
	.options = option_rows,
	.config_size = sizeof(struct merge_config),
};

static void show(void *priv, const struct merge_stats *stats)
{
	cmd_progress_show(priv, stats->done, stats->total);
}

/* As in bundle.c: the writer keeps its first error, and without memory there is
 * nothing worth keeping. */
static int write_file(struct merge *m, const struct cmd_options *o,
		      struct aux_diag *diag)
{
	struct cmd_progress progress;
	struct rewrite *w;
	int rc = rewrite_open(&w, o->output.path, NULL, merge_swapped(m), diag);

	if (rc < 0)
		return rc;
	cmd_progress_init(&progress, o, "merging");
	rc = merge_write(m, w, show, &progress, diag);
	cmd_progress_end(&progress);
	if (rc == -AUX_E_NOMEM || rc == -AUX_E_LIMIT) {
		rewrite_discard(w);
		return rc;
	}
	return rewrite_close(w, diag);
}

/* A damaged input is merged up to the damage; CMD_GAPS says that the result is
 * less than the inputs were. */
static int say_damage(const struct merge *m, const struct cmd_options *o)
{
	int status = CMD_OK;

	for (size_t i = 0; i < o->n_paths; i++) {
		const struct aux_diag *damage = merge_damage(m, i);

		if (!damage)
			continue;
		cmd_error(o->paths[i], damage);
		status = CMD_GAPS;
	}
	return status;
}

/* All inputs are compared with -o before any is opened: writing would empty
 * it. */
static int check_paths(const struct cmd_options *o)
{
	struct aux_diag diag;

	if (!o->output.path)
		return cmd_usage("merge wants -o FILE: what it is to write");
	if (o->n_paths < 2)
		return cmd_usage("merge wants two FILEs or more");
	for (size_t i = 0; i < o->n_paths; i++)
		if (rewrite_refuse_input(o->output.path, o->paths[i], &diag) < 0)
			return cmd_error(NULL, &diag);
	return CMD_OK;
}

/* Branch lists of `profile`: counts of the same branch are added. */
static int merge_lists(const struct cmd_options *o)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct cmd_out out = { 0 };
	struct branchlist list;
	int status = CMD_OK, rc = 0;

	branchlist_init(&list);
	for (size_t i = 0; i < o->n_paths && !rc; i++) {
		rc = branchlist_read_file(&list, o->paths[i], &diag);
		if (rc < 0)
			status = cmd_failed(o->paths[i], rc, &diag);
	}
	if (!rc)
		rc = branchlist_join(&list);
	if (rc == -AUX_E_INVAL) {
		diag_set(&diag, AUX_E_FORMAT, AUX_NO_OFFSET,
			 "two lists are of the same part: merge the parts of "
			 "each recording first, then those");
		status = cmd_failed(NULL, rc, &diag);
	}
	if (!rc)
		rc = branchlist_sort(&list);
	if (rc == -AUX_E_NOMEM)
		status = cmd_failed(NULL, rc, &diag);
	if (!rc)
		status = cmd_out_open(&out, o);
	if (out.buf)
		branchlist_write(&list, out.buf, 0);
	if (out.buf && list.n_pieces)
		cmd_warn(o->output.path, "%zu ends of parts of a recording "
			 "are open: the parts next to them are missing",
			 list.n_pieces);
	branchlist_fini(&list);
	return cmd_out_close(&out, o, status);
}

/* Files of `coverage`, `flame` or `export --to pprof`, which run adds up and
 * writes; *which is the file at fault when it fails, NULL: none of them. */
static int merge_results(const struct cmd_options *o,
			 int (*run)(const char *const *paths, size_t n,
				    struct outbuf *out, const char **which,
				    struct aux_diag *diag))
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	const char *which = NULL;
	struct cmd_out out;
	int status = cmd_out_open(&out, o), rc;

	if (status)
		return status;
	rc = run(o->paths, o->n_paths, out.buf, &which, &diag);
	if (rc < 0)
		status = cmd_failed(which, rc, &diag);
	if (rc == COVERAGE_MERGED_PARTS)
		cmd_warn(o->output.path, "made of parts of a recording: a line "
			 "that runs on from one part to the next may count once "
			 "more than in the whole");
	return cmd_out_close(&out, o, status);
}

static int merge_files(const struct cmd_options *o)
{
	const struct merge_config *config = o->own;
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	const struct merge_stats *st;
	const char *which = NULL;
	struct merge *m = NULL;
	int status = check_paths(o), rc;

	if (status)
		return status;
	if (branchlist_is_file(o->paths[0]))
		return merge_lists(o);
	if (merge_folded_is_all(o->paths[0]))
		return merge_results(o, merge_folded);
	if (coverage_merge_is_file(o->paths[0]))
		return merge_results(o, config->parts ? coverage_merge_parts :
						       coverage_merge);
	if (merge_pprof_is_file(o->paths[0]))
		return merge_results(o, merge_pprof);
	if (merge_folded_is_file(o->paths[0]))
		return merge_results(o, merge_folded);
	rc = merge_open(&m, o->paths, o->n_paths, &o->import.options,
			cmd_memory(o), &which, &diag);
	if (rc < 0)
		return cmd_error(which, &diag);
	rc = write_file(m, o, &diag);
	if (rc < 0) {
		merge_close(m);
		return cmd_failed(NULL, rc, &diag);
	}
	st = merge_stats(m);
	cmd_say(o->output.path, "%" PRIu64 " records (and %" PRIu64 " that an "
		"earlier file has), %" PRIu64 " bytes of trace",
		st->n_records, st->n_repeated, st->n_bytes);
	status = say_damage(m, o);
	merge_close(m);
	return status;
}

int cmd_merge(const struct cmd_options *o)
{
	struct cmd_options all = *o;
	struct cmd_files files = { 0 };
	int status = cmd_files_take(&files, o->paths, o->n_paths);

	all.paths = (const char *const *)files.v;
	all.n_paths = files.n;
	if (!status)
		status = merge_files(&all);
	cmd_files_fini(&files);
	return status;
}
