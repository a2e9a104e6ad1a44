/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_cut: a smaller recording of what --time, --cpu and --tid select. What of
 * the trace and which records that takes is decided in edit/edit.h; the trace
 * is written after all other records.
 */
#include <inttypes.h>

#include "decode/cmd/impl.h"
#include "decode/edit/edit.h"

struct job {
	struct cut *cut;
	struct cmd_progress progress;
};

static bool keep(void *priv, const struct aux_event *ev)
{
	struct job *job = priv;

	return cut_keep(job->cut, ev);
}

static void show(void *priv, uint64_t done, uint64_t total)
{
	struct job *job = priv;

	cmd_progress_show(&job->progress, done, total);
}

/* All records that are kept, then the trace that cut_new() has selected. The
 * writer keeps its first error, which rewrite_close() reports. */
static int write_file(struct job *job, const struct cmd_options *o,
		      struct session *s, struct aux_diag *diag)
{
	struct aux_reader *r = session_reader(s);
	const struct rewrite_filter f = { .keep = keep, .priv = job,
					  .no_trace = true, .progress = show };
	struct rewrite *w;
	int rc = rewrite_open(&w, o->output.path, o->path,
			      aux_reader_info(r)->swapped, diag);

	if (rc < 0)
		return rc;
	cmd_progress_init(&job->progress, o, "writing");
	rewrite_attrs_of(w, r);
	if (rewrite_copy(w, r, &f) == 0)
		cut_write_trace(job->cut, w);
	cmd_progress_end(&job->progress);
	return rewrite_close(w, diag);
}

/* CMD_GAPS where FILE is damaged: the cut has what comes before the damage. */
static int run(const struct cmd_options *o, struct session *s)
{
	const struct cut_wanted wanted = { o->filter.time_from,
					   o->filter.time_to, o->filter.tid,
					   o->filter.cpu };
	const struct timeline_stats *ts = timeline_stats(session_timeline(s));
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct job job = { 0 };
	struct cut_stats st;
	int rc = cut_new(&job.cut, s, &wanted, &diag);

	if (rc < 0)
		return cmd_failed(o->path, rc, &diag);
	rc = write_file(&job, o, s, &diag);
	if (rc < 0) {
		cut_free(job.cut);
		return cmd_failed(NULL, rc, &diag);
	}
	st = cut_stats(job.cut);
	cut_free(job.cut);
	cmd_say(o->output.path, "%" PRIu64 " of %" PRIu64 " bytes of trace",
		st.n_bytes, st.n_all);
	if (!ts->damaged)
		return CMD_OK;
	cmd_error(o->path, &ts->damage);
	return CMD_GAPS;
}

int cmd_cut(const struct cmd_options *o)
{
	struct session_config config = cmd_session_config(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct session *s;
	int status = cmd_needs_output(o), rc;

	if (status)
		return status;
	if (o->filter.tid < 0 && o->filter.cpu < 0 && !o->filter.time_from &&
	    o->filter.time_to == UINT64_MAX)
		return cmd_usage("cut wants --time, --cpu or --tid: what is to "
				 "be left");
	rc = session_open(&s, &config, &diag);
	if (rc < 0)
		return cmd_failed(o->path, rc, &diag);
	status = run(o, s);
	session_close(s);
	return status;
}
