/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_map: a part of a result, of one unit or of whole recordings. See
 * decode/fleet/fleet.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/callstack/names.h"
#include "decode/cmd/units.h"

struct map_options {
	unsigned what;		/* fleet_kind */
	const char *unit;	/* NULL: all of each FILE */
	const char *indexes;	/* a directory; NULL: indexes are beside the FILEs */
};

/* table */
static const struct option_row map_rows[] = {
	UNITS_DO(struct map_options, what),
	{ .name = "unit", .arg = "UNIT", .help = "this unit of FILE, as plan names it",
	  OPTION_TEXT(struct map_options, unit) },
	{ .name = "index", .arg = "DIR", .help = "where index -o DIR wrote that of FILE",
	  OPTION_TEXT(struct map_options, indexes) },
	{ .name = NULL },
};

const struct cmd_own cmd_map_own = {
	.options = map_rows, .config_size = sizeof(struct map_options),
};

/* A recording being mapped: what the session's observer needs, and what comes of it. */
struct map_run {
	const struct cmd_options *o;	/* path is the recording's */
	const char *unit, *indexes;	/* as of fleet_map */
	struct fleet_head *head;
	struct fleet_done done;
	struct session *session;
	struct sink_host host;
	struct session_stats stats;
	struct verdict verdict;
	struct cmd_progress progress;
	int failed;
};

static void on_gap(void *priv, const struct flow_ctx *ctx, const struct aux_flow *gap)
{
	struct map_run *r = priv;

	verdict_gap(&r->verdict, &r->host, ctx, gap);
	if (gap->what == GAP_SNAPSHOT)
		return;		/* no loss */
	r->done.n_gaps++;
	if (!r->failed)
		r->failed = fleet_head_add_gaps(r->head, gap_name(gap->what), 1);
}

static void on_progress(void *priv)
{
	struct map_run *r = priv;

	cmd_progress_show(&r->progress, r->stats.aux_decoded, r->stats.aux_wanted);
}

/* The first stream has what is said of the recording as a whole. */
static bool is_first(const struct session *s, const struct fleet_unit *u)
{
	const struct stream *st = session_stream(s, 0);

	return u->whole || !st || (u->stream == st->idx && !u->chunk_from);
}

/* The id is that of the file; the unit's stream is there. */
static int check_unit(const struct session *s, const struct fleet_unit *u, const char *id,
		      struct aux_diag *diag)
{
	const struct stream *st;

	if (strcmp(u->id, id))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"this recording is %s, and the unit is of %s: it was planned "
				"from another file, or this one has changed", id, u->id);
	for (size_t i = 0; !u->whole && (st = session_stream(s, i)); i++)
		if (st->idx == u->stream)
			return 0;
	return u->whole ? 0 : diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				       "there is no stream %" PRIu32, u->stream);
}

/* The unit that is meant; NULL: all of the recording. */
static int take_unit(struct fleet_unit *u, const struct fleet_kind *kind, const char *text,
		     struct aux_diag *diag)
{
	*u = (struct fleet_unit){ .whole = true };
	if (text && fleet_unit_parse(u, text))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "\"%s\" is no unit: `auxdecode "
				"plan FILE` names them", text);
	if (!u->whole && kind->whole)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "--do %s has units of whole "
				"recordings alone, for calls cross the borders of chunks: "
				"plan --do %s", kind->name, kind->name);
	return 0;
}

static int open_unit(struct map_run *r, char id[FLEET_ID + 1], struct aux_diag *diag)
{
	struct session_config config = cmd_session_config(r->o);
	struct fleet_unit *u = &r->done.unit;
	int rc = take_unit(u, r->head->kind, r->unit, diag);
	char *index = NULL;

	if (rc)
		return rc;
	config.n_workers = (unsigned)r->o->decoding.n_workers;
	if (!u->whole) {
		config.stream = &u->stream;
		config.chunks = true;
		config.chunk_from = u->chunk_from;
		config.chunk_to = u->chunk_to;
		config.chunk_min = FLEET_CHUNK;
	}
	if (r->unit && r->indexes) {
		index = index_path(NULL, r->indexes, u->id);
		config.index = index;
		if (!index)
			return -AUX_E_NOMEM;
	}
	rc = session_open(&r->session, &config, diag);
	free(index);
	if (rc)
		return rc;
	fleet_recording_id(id, r->session);
	if (!r->unit)
		memcpy(u->id, id, FLEET_ID + 1);
	rc = check_unit(r->session, u, id, diag);
	if (!rc && !u->whole && r->head->kind->carry && !session_knows_stints(r->session))
		rc = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "calls of this recording are not "
			      "carried over the borders of units: plan --do %s",
			      r->head->kind->name);
	return rc;
}

/* One pass into the sink of the kind. */
static int run_pass(struct map_run *r, const char *id, struct outbuf *rows,
		    struct aux_diag *diag)
{
	const struct fleet_unit *u = &r->done.unit;
	const struct fleet_sink_config config = { .kind = r->head->kind, .id = id, .unit = u };
	const struct sink_ops *ops = !u->whole && config.kind->carry ? config.kind->carry :
								       config.kind->sink;
	struct session_pass_config pass = {
		.ops = ops, .needs = ops->needs, .stats = &r->stats, .priv = r,
		.on_gap = on_gap, .on_progress = on_progress,
	};
	const struct sink_env env = {
		.out = rows, .host = &r->host, .report = &r->verdict.report,
		.path = r->o->path, .n_threads = session_threads(r->session),
		.symfs = r->o->code.symfs, .time_to = UINT64_MAX,
	};
	int rc = ops->open(&pass.sink, &env, &config, diag);

	if (!rc)
		rc = session_run_pass(r->session, &pass, diag);
	if (pass.sink)
		ops->close(pass.sink);
	cmd_progress_end(&r->progress);
	if (rc >= 0 && r->failed)
		rc = r->failed;
	if (rc >= 0 && outbuf_flush(rows))
		rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot write a temporary file: %s",
			      strerror(rows->error));
	return rc < 0 ? rc : 0;
}

/* What the unit had and lost, for the head of the part; and said as by other commands. */
static int conclude(struct map_run *r)
{
	r->done.unit.bytes = r->stats.aux_wanted;
	r->done.decoded = r->stats.aux_decoded;
	r->done.n_insns = r->stats.n_insns;
	r->done.lost = is_first(r->session, &r->done.unit) ? r->stats.ledger_lost : 0;
	cmd_notes(r->o->path, r->session);
	r->verdict.report.n_lines = 1;	/* a part comes of every unit, also without rows */
	r->done.lossy = verdict_print(&r->verdict, r->o, r->session, &r->stats) != CMD_OK;
	return fleet_head_add_unit(r->head, &r->done);
}

/* A recording, or a unit of it: its rows in rows, what it is in *head. */
static int map_file(struct map_run *run, FILE *rows, struct aux_diag *diag)
{
	struct map_run r = *run;
	const struct cmd_options *o = r.o;
	struct outbuf *out = outbuf_new(fileno(rows));
	struct names *names = NULL;
	char id[FLEET_ID + 1];
	int rc = out ? cmd_names(&names, o, diag) : -AUX_E_NOMEM;

	r.verdict.path = o->path;
	if (!rc)
		rc = open_unit(&r, id, diag);
	if (!rc) {
		r.verdict.names = names;
		r.host = cmd_host(r.session, names);
		cmd_progress_init(&r.progress, o, "decoding");
		rc = run_pass(&r, id, out, diag);
	}
	if (!rc)
		rc = conclude(&r);
	verdict_free(&r.verdict);
	session_close(r.session);
	names_free(names);
	outbuf_free(out);
	return rc;
}

/* A part that is there already, of just this unit and kind: work that is done. */
static bool is_done(const struct fleet_kind *kind, const char *unit, const char *path,
		    int *status)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct fleet_head head = { 0 };
	FILE *f = unit ? fopen(path, "re") : NULL;
	char name[FLEET_NAME];
	bool done;

	if (!f)
		return false;
	done = !fleet_head_read(&head, f, &diag) && head.kind == kind && head.n_units == 1 &&
	       !strcmp(fleet_unit_text(name, &head.units[0].unit), unit);
	if (done)
		*status = head.units[0].lossy ? CMD_GAPS : CMD_OK;
	fleet_head_fini(&head);
	fclose(f);
	return done;
}

/* The rows of a recording, at their begin, in a file that the caller closes. */
static int map_rows_of(FILE **rows, const struct map_run *of, const char *path,
		       struct aux_diag *diag)
{
	struct cmd_options one = *of->o;
	struct map_run run = *of;
	FILE *f = tmpfile();
	int rc;

	*rows = NULL;
	if (!f)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot make a temporary file: %s",
				strerror(errno));
	one.path = path;
	run.o = &one;
	rc = map_file(&run, f, diag);
	if (rc || fseeko(f, 0, SEEK_SET)) {
		fclose(f);
		return rc ? rc : -AUX_E_IO;
	}
	*rows = f;
	return 0;
}

/* The rows of several, joined. *at: the recording at fault. */
static int join_rows_of(FILE **rows, const struct map_run *run, const char **at,
			struct aux_diag *diag)
{
	const struct cmd_options *o = run->o;
	const char *which = NULL;
	struct fleet_join *join = fleet_join_new(&which, diag);
	FILE *f;
	int rc = join ? 0 : -AUX_E_NOMEM;

	*rows = NULL;
	for (size_t i = 0; i < o->n_paths && !rc; i++) {
		rc = map_rows_of(&f, run, *at = o->paths[i], diag);
		if (!rc)
			rc = fleet_join_add(join, run->head->kind, f, *at);
	}
	if (!rc) {
		*at = NULL;
		rc = fleet_join_rows(join, rows);
	}
	if (which)
		*at = which;
	fleet_join_free(join);
	return rc;
}

int fleet_map(const struct cmd_options *o, const struct fleet_kind *kind, const char *unit,
	      const char *indexes)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct fleet_head head = { .kind = kind };
	const struct map_run run = { .o = o, .head = &head, .unit = unit, .indexes = indexes };
	const char *at = o->n_paths ? o->paths[0] : NULL;
	struct cmd_out out = { 0 };
	FILE *rows = NULL;
	/* rows of one are sorted already: reading them again was 4 % of a unit of branches */
	int rc = o->n_paths == 1 ? map_rows_of(&rows, &run, at, &diag) :
				   join_rows_of(&rows, &run, &at, &diag), status;

	if (!rc) {
		at = NULL;
		rc = fleet_head_settle(&head, &diag);
	}
	status = rc ? cmd_failed(at, rc, &diag) : cmd_out_open(&out, o);
	if (out.buf) {
		fleet_head_write(&head, out.buf);
		fleet_copy_rows(out.buf, rows);
		status = fleet_say(&head, o->output.path);
	}
	if (rows)
		fclose(rows);
	fleet_head_fini(&head);
	return cmd_out_close(&out, o, status);
}

int cmd_map(const struct cmd_options *o)
{
	const struct map_options *m = o->own;
	const struct fleet_kind *kind = fleet_kind(m->what);
	struct cmd_options all = *o;	/* with the FILEs of lists: -o is none of them */
	struct cmd_files files = { 0 };
	int status = cmd_files_take(&files, o->paths, o->n_paths);

	all.paths = (const char *const *)files.v;
	all.n_paths = files.n;
	if (!status && !o->output.path)
		status = cmd_usage("map wants -o FILE: the part that it is to write");
	else if (!status && m->unit && files.n != 1)
		status = cmd_usage("--unit is of one FILE");
	else if (!status && is_done(kind, m->unit, o->output.path, &status))
		cmd_say(o->output.path, "there already");
	else if (!status)
		status = fleet_map(&all, kind, m->unit, m->indexes);
	cmd_files_fini(&files);
	return status;
}
