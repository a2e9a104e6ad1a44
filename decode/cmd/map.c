/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_plan, cmd_map, cmd_reduce: the work of decoding many recordings, or a large one, in
 * units that are done apart and joined exactly. See decode/fleet/fleet.h.
 */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/markup.h"
#include "decode/callstack/names.h"
#include "decode/cmd/fleet.h"
#include "decode/fleet/fleet.h"
#include "decode/lib/code/code.h"

/* ---- options ---- */

#define DO_ROW(TYPE)							\
	{ .name = "do", .arg = "WHAT", .values = FLEET_DO_VALUES,	\
	  .help = "what is summed up: count (the default), hot, flame, latency or gaps", \
	  OPTION_CHOICE(TYPE, what) }

struct map_options {
	unsigned what;		/* fleet_kind */
	const char *unit;	/* NULL: all of each FILE */
};

/* table */
static const struct option_row plan_rows[] = {
	DO_ROW(struct plan_options),
	{ .name = "unit-size", .arg = "SIZE",
	  .help = "trace in a unit, about (default 64M); calls cross its borders, so\n"
		  "hot, flame and latency have one unit for each recording",
	  .zero = "wants at least 1 byte", OPTION_SIZE(struct plan_options, unit_size) },
	{ .name = NULL },
}, map_rows[] = {
	DO_ROW(struct map_options),
	{ .name = "unit", .arg = "UNIT", .help = "this unit of FILE, as plan names it",
	  OPTION_TEXT(struct map_options, unit) },
	{ .name = NULL },
}, reduce_rows[] = {
	{ .name = "part", .help = "write a part, which reduce reads again",
	  OPTION_FLAG(struct reduce_options, part) },
	{ .name = "by", .arg = "WHAT", .values = FLEET_BY_VALUES,
	  .help = "hot, flame: insns (the default), time, cycles or branches",
	  OPTION_CHOICE(struct reduce_options, by) },
	{ .name = "units", .arg = "FILE",
	  .help = "what plan printed: units that are missing are counted, others refused",
	  OPTION_TEXT(struct reduce_options, units) },
	{ .name = NULL },
};

const struct cmd_own cmd_plan_own = {
	.options = plan_rows, .config_size = sizeof(struct plan_options),
}, cmd_map_own = {
	.options = map_rows, .config_size = sizeof(struct map_options),
}, cmd_reduce_own = {
	.options = reduce_rows, .config_size = sizeof(struct reduce_options),
};

/* ---- plan ---- */

/* Files of a directory that are recordings; nftw has no argument for it. */
static struct cmd_files *found;

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
	char magic[8] = { 0 };
	FILE *f;

	(void)at;
	if (type != FTW_F || !S_ISREG(st->st_mode))
		return 0;
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fread(magic, 1, 8, f) != 8 || memcmp(magic, "PERFILE2", 8))
		magic[0] = 0;
	fclose(f);
	return magic[0] && cmd_files_add(found, path) ? -AUX_E_NOMEM : 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A directory is searched, unless it is a recording itself. */
static int add_input(struct cmd_files *files, const char *path)
{
	struct cmd_files in = { 0 };
	struct stat st;
	char *data;
	int rc = 0;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return cmd_files_add(files, path);
	if (asprintf(&data, "%s/data", path) < 0)
		return -AUX_E_NOMEM;
	found = &in;
	if (!access(data, F_OK))
		rc = cmd_files_add(files, path);
	else
		rc = nftw(path, look, 32, FTW_PHYS);
	free(data);
	if (in.n)
		qsort(in.v, in.n, sizeof(*in.v), compare_names);
	for (size_t i = 0; i < in.n && !rc; i++)
		rc = cmd_files_add(files, in.v[i]);
	cmd_files_fini(&in);
	return rc;
}

/* The units of one recording; a status. */
static int plan_file(struct fleet_plan_list *list, const struct cmd_options *o, const char *path,
		     const struct plan_options *p)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	const struct fleet_kind *kind = fleet_kind(p->what);
	struct session_config config = cmd_session_config(o);
	struct fleet_unit *units = NULL;
	struct session *s = NULL;
	size_t n = 0;
	int rc;

	config.path = path;
	rc = session_open(&s, &config, &diag);
	if (rc)
		return cmd_failed(path, rc, &diag);
	rc = fleet_plan(&units, &n, s, kind->whole ? 0 : p->unit_size ? p->unit_size :
								FLEET_UNIT_SIZE);
	for (size_t i = 0; i < n && !rc; i++) {
		struct fleet_planned u = { .unit = units[i], .path = strdup(path) };

		rc = u.path ? array_append(&list->v, &list->n, &list->cap, &u, sizeof(u)) :
			      -AUX_E_NOMEM;
	}
	free(units);
	session_close(s);
	return rc ? cmd_failed(path, rc, &diag) : CMD_OK;
}

int fleet_plan_make(struct fleet_plan_list *list, const struct cmd_options *o,
		    const struct plan_options *p, const char *const *words, size_t n)
{
	struct cmd_files given = { 0 }, files = { 0 };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int status = cmd_files_take(&given, words, n), rc = 0, failed = CMD_OK;

	for (size_t i = 0; i < given.n && !status && !rc; i++)
		rc = add_input(&files, given.v[i]);
	if (rc)
		status = cmd_failed(NULL, rc, &diag);
	/* a bad recording costs itself, not the others; it is said, and counts at the end */
	for (size_t i = 0; i < files.n && !status; i++)
		failed = plan_file(list, o, files.v[i], p) ? CMD_FAILED : failed;
	if (!status && !files.n)
		status = cmd_usage("no recording in what was named");
	cmd_files_fini(&given);
	cmd_files_fini(&files);
	return status ? status : failed && !list->n ? CMD_FAILED : failed ? CMD_GAPS : CMD_OK;
}

void fleet_plan_fini(struct fleet_plan_list *list)
{
	while (list->n)
		free(list->v[--list->n].path);
	free(list->v);
	*list = (struct fleet_plan_list){ 0 };
}

/* In thousandths of a second. */
static uint64_t cost_of(const struct fleet_unit *u, const struct fleet_kind *kind)
{
	return (uint64_t)((double)u->bytes * kind->ns_per_byte / 1e6) + 10;
}

void fleet_plan_write(const struct fleet_plan_list *list, const struct fleet_kind *kind,
		      bool json, struct outbuf *out)
{
	char name[FLEET_NAME];

	if (!json)
		outbuf_printf(out, "#unit\tbytes\tms\tfile\tdo=%s\n", kind->name);
	for (size_t i = 0; i < list->n; i++) {
		const struct fleet_planned *u = &list->v[i];
		uint64_t ms = cost_of(&u->unit, kind);

		fleet_unit_text(name, &u->unit);
		if (!json) {
			outbuf_printf(out, "%s\t%" PRIu64 "\t%" PRIu64 "\t", name,
				      u->unit.bytes, ms);
			fleet_put_escaped(out, u->path);
			outbuf_str(out, "\n");
			continue;
		}
		outbuf_printf(out, "{\"version\":1,\"do\":\"%s\"", kind->name);
		outbuf_json_text(out, "unit", name);
		outbuf_json_number(out, "bytes", u->unit.bytes);
		outbuf_json_number(out, "ms", ms);
		outbuf_json_text(out, "file", u->path);
		outbuf_str(out, "}\n");
	}
}

int cmd_plan(const struct cmd_options *o)
{
	struct fleet_plan_list list = { 0 };
	const struct plan_options *p = o->own;
	struct cmd_out out = { 0 };
	int status = fleet_plan_make(&list, o, p, o->paths, o->n_paths);
	int opened = status == CMD_USAGE || status == CMD_FAILED ? status : cmd_out_open(&out, o);

	if (out.buf)
		fleet_plan_write(&list, fleet_kind(p->what), o->output.json, out.buf);
	fleet_plan_fini(&list);
	return cmd_out_close(&out, o, opened ? opened : status);
}

/* ---- map ---- */

/* What the session's observer keeps. */
struct watch {
	struct fleet_head *head;
	uint64_t n_gaps;
	struct cmd_progress progress;
	const struct session_stats *stats;
	int failed;
};

static void on_gap(void *priv, const struct flow_ctx *ctx, const struct aux_flow *gap)
{
	struct watch *w = priv;

	(void)ctx;
	if (gap->what == GAP_SNAPSHOT)
		return;		/* no loss */
	w->n_gaps++;
	if (!w->failed)
		w->failed = fleet_head_add_gaps(w->head, gap_name(gap->what), 1);
}

static void on_progress(void *priv)
{
	struct watch *w = priv;

	cmd_progress_show(&w->progress, w->stats->aux_decoded, w->stats->aux_wanted);
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

/* One pass into the sink of the kind. */
static int run_pass(struct session *s, const struct cmd_options *o, const char *path,
		    const struct fleet_sink_config *config, struct watch *w,
		    struct outbuf *rows, struct session_stats *stats, struct aux_diag *diag)
{
	const struct sink_ops *ops = config->kind->sink;
	struct sink_host host = session_host(s);
	struct sink_report report = { 0 };
	struct session_pass_config pass = {
		.ops = ops, .needs = ops->needs, .stats = stats, .priv = w, .on_gap = on_gap,
		.on_progress = on_progress,
	};
	const struct sink_env env = {
		.out = rows, .host = &host, .report = &report, .path = path,
		.n_threads = session_threads(s), .symfs = o->code.symfs,
		.time_to = UINT64_MAX,
	};
	struct names *names = NULL;
	int rc = cmd_names(&names, o, diag);

	if (rc)
		return rc;
	host.names = names;
	w->stats = stats;
	rc = ops->open(&pass.sink, &env, config, diag);
	if (!rc)
		rc = session_run_pass(s, &pass, diag);
	if (pass.sink)
		ops->close(pass.sink);
	names_free(names);
	cmd_progress_end(&w->progress);
	if (!rc && w->failed)
		rc = w->failed;
	if (!rc && outbuf_flush(rows))
		rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot write a temporary file: %s",
			      strerror(rows->error));
	if (!rc && report.n_mismatches)
		cmd_warn(path, "%" PRIu64 " ranges do not fit the code: is it another file's?",
			 report.n_mismatches);
	return rc < 0 ? rc : 0;
}

/* What was not known of the code, as warnings. */
static void say_notes(const char *path, const struct session *s)
{
	const char *note;
	int why;

	for (size_t i = 0; (note = codeview_note(session_codeview(s), i, &why)); i++)
		cmd_warn(path, "%s%s", advice_before(why), note);
}

/* A recording, or a unit of it: its rows in *rows, what it is in *head. */
static int map_file(struct fleet_head *head, FILE *rows, const struct cmd_options *o,
		    const char *path, const char *unit, struct aux_diag *diag)
{
	struct session_config config = cmd_session_config(o);
	struct fleet_done done = { .unit = { .whole = true } };
	struct fleet_sink_config sink = { .kind = head->kind };
	struct watch w = { .head = head };
	struct session_stats stats = { 0 };
	struct outbuf *out = outbuf_new(fileno(rows));
	struct session *s = NULL;
	char id[FLEET_ID + 1];
	int rc;

	if (unit && fleet_unit_parse(&done.unit, unit))
		rc = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "\"%s\" is no unit: `auxdecode "
			      "plan FILE` names them", unit);
	else if (!done.unit.whole && head->kind->whole)
		rc = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "--do %s has units of whole "
			      "recordings alone, for calls cross the borders of chunks: "
			      "plan --do %s", head->kind->name, head->kind->name);
	else
		rc = out ? 0 : -AUX_E_NOMEM;
	config.path = path;
	config.n_workers = (unsigned)o->decoding.n_workers;
	if (!done.unit.whole) {
		config.stream = &done.unit.stream;
		config.chunks = true;
		config.chunk_from = done.unit.chunk_from;
		config.chunk_to = done.unit.chunk_to;
		config.chunk_min = FLEET_CHUNK;
	}
	rc = rc ? rc : session_open(&s, &config, diag);
	if (!rc) {
		fleet_recording_id(id, s);
		if (!unit)
			memcpy(done.unit.id, id, sizeof(id));
		rc = check_unit(s, &done.unit, id, diag);
	}
	sink.id = id;
	cmd_progress_init(&w.progress, o, "decoding");
	if (!rc)
		rc = run_pass(s, o, path, &sink, &w, out, &stats, diag);
	if (!rc) {
		done.unit.bytes = stats.aux_wanted;
		done.decoded = stats.aux_decoded;
		done.n_insns = stats.n_insns;
		done.n_gaps = w.n_gaps;
		done.lost = is_first(s, &done.unit) ? stats.ledger_lost : 0;
		rc = fleet_head_add_unit(head, &done);
		say_notes(path, s);
	}
	session_close(s);
	outbuf_free(out);
	return rc;
}

/* What all units lost, as one line; the status. */
static int say_sums(const struct fleet_head *head, const char *path)
{
	uint64_t n_gaps = 0, lost = 0, insns = 0, bytes = 0;
	char causes[512] = "";
	size_t at = 0;

	for (size_t i = 0; i < head->n_units; i++) {
		n_gaps += head->units[i].n_gaps;
		lost += head->units[i].lost;
		insns += head->units[i].n_insns;
		bytes += head->units[i].decoded;
	}
	for (unsigned i = 0; i < head->n_causes && at < sizeof(causes); i++)
		at += (size_t)snprintf(causes + at, sizeof(causes) - at, "%s%s %" PRIu64,
				       i ? ", " : " (", head->causes[i].name, head->causes[i].n);
	if (head->n_causes && at < sizeof(causes))
		snprintf(causes + at, sizeof(causes) - at, ")");
	cmd_say(path, "%zu unit%s, %" PRIu64 " instructions of %" PRIu64 " bytes of trace; %"
		PRIu64 " gap%s%s, %" PRIu64 " bytes lost by the recorder", head->n_units,
		head->n_units == 1 ? "" : "s", insns, bytes, n_gaps, n_gaps == 1 ? "" : "s",
		causes, lost);
	return n_gaps || lost ? CMD_GAPS : CMD_OK;
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
		*status = head.units[0].n_gaps || head.units[0].lost ? CMD_GAPS : CMD_OK;
	fleet_head_fini(&head);
	fclose(f);
	return done;
}

/* The rows of a recording, at their begin. */
static int map_rows_of(struct fleet_join *join, struct fleet_head *head,
		       const struct cmd_options *o, const char *path, const char *unit,
		       struct aux_diag *diag)
{
	FILE *f = tmpfile();
	int rc;

	if (!f)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot make a temporary file: %s",
				strerror(errno));
	rc = map_file(head, f, o, path, unit, diag);
	if (rc || fseeko(f, 0, SEEK_SET)) {
		fclose(f);
		return rc ? rc : -AUX_E_IO;
	}
	return fleet_join_add(join, head->kind, f, path);
}

static void copy_rows(struct outbuf *out, FILE *rows)
{
	char buf[65536];
	size_t n;

	while ((n = fread(buf, 1, sizeof(buf), rows)))
		outbuf_put(out, buf, n);
	if (ferror(rows))
		outbuf_fail(out, errno);
}

int fleet_map(const struct cmd_options *o, const struct fleet_kind *kind, const char *unit,
	      const char *const *paths, size_t n)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct fleet_head head = { .kind = kind };
	const char *which = NULL, *at = NULL;
	struct fleet_join *join = fleet_join_new(&which, &diag);
	struct cmd_out out = { 0 };
	FILE *rows = NULL;
	int rc = join ? 0 : -AUX_E_NOMEM, status = CMD_OK;

	for (size_t i = 0; i < n && !rc; i++)
		rc = map_rows_of(join, &head, o, at = paths[i], unit, &diag);
	if (!rc) {
		at = NULL;
		rc = fleet_head_settle(&head, &diag);
	}
	if (!rc)
		rc = fleet_join_rows(join, &rows);
	if (rc)
		status = cmd_failed(which ? which : at, rc, &diag);
	else
		status = cmd_out_open(&out, o);
	if (out.buf) {
		fleet_head_write(&head, out.buf);
		copy_rows(out.buf, rows);
		status = say_sums(&head, o->output.path);
	}
	if (rows)
		fclose(rows);
	fleet_join_free(join);
	fleet_head_fini(&head);
	return cmd_out_close(&out, o, status);
}

int cmd_map(const struct cmd_options *o)
{
	const struct map_options *m = o->own;
	const struct fleet_kind *kind = fleet_kind(m->what);
	struct cmd_files files = { 0 };
	int status = cmd_files_take(&files, o->paths, o->n_paths);

	if (!status && !o->output.path)
		status = cmd_usage("map wants -o FILE: the part that it is to write");
	else if (!status && m->unit && files.n != 1)
		status = cmd_usage("--unit is of one FILE");
	else if (!status && is_done(kind, m->unit, o->output.path, &status))
		cmd_say(o->output.path, "there already");
	else if (!status)
		status = fleet_map(o, kind, m->unit, (const char *const *)files.v, files.n);
	cmd_files_fini(&files);
	return status;
}

/* ---- reduce ---- */

/* A line of a plan: the unit, and its bytes. 1, 0 at the end, or an error. */
static int next_planned(FILE *f, struct fleet_unit *u, struct aux_diag *diag)
{
	char *line = NULL, *end;
	size_t cap = 0;
	ssize_t n;
	int rc = 1;

	do
		n = getline(&line, &cap, f);
	while (n > 0 && line[0] == '#');
	if (n <= 0) {
		free(line);
		return 0;
	}
	end = strchr(line, '\t');
	if (end)
		*end = '\0';
	if (!end || fleet_unit_parse(u, line))
		rc = diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
			      "not what `auxdecode plan` prints");
	else
		u->bytes = strtoull(end + 1, NULL, 10);
	free(line);
	return rc;
}

static int compare_done(const void *a, const void *b)
{
	return fleet_unit_compare(a, &((const struct fleet_done *)b)->unit);
}

/* Says which units of the plan are not in the parts; a status. */
static int compare_plan(const struct fleet_head *head, const char *path)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	uint64_t n = 0, n_missing = 0, bytes = 0, missing = 0;
	FILE *f = fopen(path, "re");
	char name[FLEET_NAME];
	struct fleet_unit u;
	int rc;

	if (!f) {
		diag_set(&diag, AUX_E_IO, AUX_NO_OFFSET, "%s", strerror(errno));
		return cmd_failed(path, -AUX_E_IO, &diag);
	}
	while ((rc = next_planned(f, &u, &diag)) > 0) {
		n++;
		bytes += u.bytes;
		if (head->n_units && bsearch(&u, head->units, head->n_units,
					     sizeof(*head->units), compare_done))
			continue;
		missing += u.bytes;
		if (n_missing++ < 10)
			cmd_warn(path, "unit %s is missing", fleet_unit_text(name, &u));
	}
	fclose(f);
	if (rc)
		return cmd_failed(path, rc, &diag);
	if (head->n_units + n_missing != n)
		return cmd_usage("%" PRIu64 " of the parts' units are not in %s: they are of "
				 "another plan", head->n_units + n_missing - n, path);
	if (n_missing)
		cmd_warn(path, "%" PRIu64 " of %" PRIu64 " units are missing, %.1f %% of the "
			 "trace: the result is of the others", n_missing, n,
			 bytes ? 100.0 * (double)missing / (double)bytes : 100.0);
	return n_missing ? CMD_GAPS : CMD_OK;
}

int fleet_reduce_to(const struct cmd_options *o, const struct reduce_options *r,
		    const char *const *paths, size_t n)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct fleet_head head = { 0 };
	const char *which = NULL;
	struct cmd_out out = { 0 };
	FILE *rows = NULL;
	int rc = fleet_reduce(paths, n, &head, &rows, &which, &diag), status;
	int missing = CMD_OK;

	status = rc ? cmd_failed(which, rc, &diag) : CMD_OK;
	if (!status && r->units)
		missing = compare_plan(&head, r->units);
	if (missing == CMD_FAILED || missing == CMD_USAGE)
		status = missing;
	if (!status)
		status = cmd_out_open(&out, o);
	if (out.buf && (r->part || !head.kind->print)) {
		if (r->part)
			fleet_head_write(&head, out.buf);
		copy_rows(out.buf, rows);
	} else if (out.buf) {
		rc = head.kind->print(out.buf, rows, head.kind, r->by, &diag);
		status = rc ? cmd_failed(NULL, rc, &diag) : CMD_OK;
	}
	if (out.buf && !status)
		status = say_sums(&head, o->output.path ? o->output.path : "reduce");
	if (rows)
		fclose(rows);
	fleet_head_fini(&head);
	return cmd_out_close(&out, o, status ? status : missing);
}

int cmd_reduce(const struct cmd_options *o)
{
	struct cmd_files files = { 0 };
	int status = cmd_files_take(&files, o->paths, o->n_paths);

	if (!status && !files.n)
		status = cmd_usage("reduce wants the parts that it is to join");
	if (!status)
		status = fleet_reduce_to(o, o->own, (const char *const *)files.v, files.n);
	cmd_files_fini(&files);
	return status;
}
