/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_reduce: parts as one part, or as the result. See decode/fleet/fleet.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/callstack/names.h"
#include "decode/cmd/units.h"

/* table */
static const struct option_row reduce_rows[] = {
	{ .name = "part", .help = "write a part, which reduce reads again",
	  OPTION_FLAG(struct reduce_options, part) },
	UNITS_BY(struct reduce_options, by),
	{ .name = "units", .arg = "FILE",
	  .help = "what plan printed: units that are missing are counted, others refused",
	  OPTION_TEXT(struct reduce_options, units) },
	{ .name = NULL },
};

const struct cmd_own cmd_reduce_own = {
	.options = reduce_rows, .config_size = sizeof(struct reduce_options),
};

int fleet_say(const struct fleet_head *head, const char *path)
{
	uint64_t n_gaps = 0, lost = 0, insns = 0, bytes = 0, lossy = 0;
	char causes[512] = "", incomplete[64] = "";
	size_t at = 0;

	for (size_t i = 0; i < head->n_units; i++) {
		n_gaps += head->units[i].n_gaps;
		lost += head->units[i].lost;
		insns += head->units[i].n_insns;
		bytes += head->units[i].decoded;
		lossy += head->units[i].lossy;
	}
	for (unsigned i = 0; i < head->n_causes && at < sizeof(causes); i++)
		at += (size_t)snprintf(causes + at, sizeof(causes) - at, "%s%s %" PRIu64,
				       i ? ", " : " (", head->causes[i].name, head->causes[i].n);
	if (head->n_causes && at < sizeof(causes))
		snprintf(causes + at, sizeof(causes) - at, ")");
	if (lossy)
		snprintf(incomplete, sizeof(incomplete), "; %" PRIu64 " unit%s not complete",
			 lossy, lossy == 1 ? " is" : "s are");
	cmd_say(path, "%zu unit%s, %" PRIu64 " instructions of %" PRIu64 " bytes of trace; %"
		PRIu64 " gap%s%s, %" PRIu64 " bytes lost by the recorder%s", head->n_units,
		head->n_units == 1 ? "" : "s", insns, bytes, n_gaps, n_gaps == 1 ? "" : "s",
		causes, lost, incomplete);
	return lossy ? CMD_GAPS : CMD_OK;
}

void fleet_copy_rows(struct outbuf *out, FILE *rows)
{
	char buf[65536];
	size_t n;

	while ((n = fread(buf, 1, sizeof(buf), rows)))
		outbuf_put(out, buf, n);
	if (ferror(rows))
		outbuf_fail(out, errno);
}

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

/* ---- what is carried over the borders of units ---- */

struct joining {
	const struct cmd_options *o;
	const struct fleet_head *head;
	struct fleet_carried *carried;
	struct fleet_plan_list plan;
	const char *at;		/* a file at fault; NULL: none */
	bool left_out;		/* some recording is */
};

/* Where a recording lies, as the plan says; NULL: it does not. */
static const char *path_of(const struct fleet_plan_list *plan, const char *id)
{
	for (size_t i = 0; i < plan->n; i++)
		if (!strcmp(plan->v[i].unit.id, id))
			return plan->v[i].path;
	return NULL;
}

/* The rows of one recording, into rows; its session is open for that long. */
static int join_open(struct joining *j, size_t i, struct session *s, struct outbuf *rows,
		     struct aux_diag *diag)
{
	const char *id = fleet_carried_id(j->carried, i);
	struct sink_report report = { 0 };
	struct names *names = NULL;
	struct aux_diag why = { .offset = AUX_NO_OFFSET };
	char now[FLEET_ID + 1];
	struct sink_host host;
	bool decoded = false;
	int rc;

	fleet_recording_id(now, s);
	if (!strcmp(now, id) && fleet_carried_check(j->carried, i, s, &why)) {
		cmd_warn(j->at, "is left out of the result: %s", why.text);
		j->left_out = true;
		return 0;
	}
	rc = cmd_names(&names, j->o, diag);
	if (!rc && strcmp(now, id))
		rc = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "this recording is %s, and the "
			      "units are of %s: it has changed since it was planned", now, id);
	if (!rc) {
		host = cmd_host(s, names);
		rc = fleet_carried_join(j->carried, i, s, &(struct sink_env){
			.out = rows, .host = &host, .report = &report, .path = j->at,
			.n_threads = session_threads(s), .symfs = j->o->code.symfs,
			.time_to = UINT64_MAX }, &decoded, diag);
	}
	if (!rc && decoded)
		cmd_say(j->at, "cannot be joined from its units: decoded as a whole");
	if (!rc && outbuf_flush(rows))
		rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot write a temporary file: %s",
			      strerror(rows->error));
	names_free(names);
	return rc;
}

static int join_recording(struct joining *j, size_t i, FILE *rows, struct aux_diag *diag)
{
	struct session_config config = cmd_session_config(j->o);
	const char *id = fleet_carried_id(j->carried, i);
	struct outbuf *out = outbuf_new(fileno(rows));
	struct session *s = NULL;
	int rc = out ? 0 : -AUX_E_NOMEM;

	j->at = path_of(&j->plan, id);
	if (!rc && !j->at)
		rc = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "the plan does not name recording "
			      "%s, which the parts have units of", id);
	if (!rc) {
		config.path = j->at;
		config.n_workers = (unsigned)j->o->decoding.n_workers;
		rc = session_open(&s, &config, diag);
	}
	if (!rc)
		rc = join_open(j, i, s, out, diag);
	if (!rc && fseeko(rows, 0, SEEK_SET))
		rc = -AUX_E_IO;
	session_close(s);
	outbuf_free(out);
	return rc;
}

/* Puts sums into *rows in place of what is carried. */
static int join_rows(struct joining *j, FILE **rows, FILE *plain, struct aux_diag *diag)
{
	const char *which = NULL;
	struct fleet_join *join = fleet_join_new(&which, diag);
	int rc = join ? fleet_join_add(join, j->head->kind, plain, "reduce") : -AUX_E_NOMEM;
	FILE *f, *all = NULL;

	if (!join)
		fclose(plain);
	for (size_t i = 0; !rc && fleet_carried_id(j->carried, i); i++) {
		f = tmpfile();
		if (!f)
			rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				      "cannot make a temporary file: %s", strerror(errno));
		else if ((rc = join_recording(j, i, f, diag)))
			fclose(f);
		else
			rc = fleet_join_add(join, j->head->kind, f, j->at);
	}
	if (!rc)
		rc = fleet_join_rows(join, &all);
	fleet_join_free(join);
	fclose(*rows);
	*rows = all;
	return rc;
}

/* A status. */
static int join_carried(const struct cmd_options *o, const struct reduce_options *r,
			const struct fleet_head *head, FILE **rows)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct joining j = { .o = o, .head = head };
	const struct fleet_kind *kind;
	FILE *plain = NULL;
	int rc, status = CMD_OK;

	if (!head->kind->carry || r->part)
		return CMD_OK;
	rc = fleet_carried_take(&j.carried, *rows, &plain, head, &diag);
	if (!rc && !fleet_carried_id(j.carried, 0)) {
		fclose(*rows);
		*rows = plain;
		fleet_carried_free(j.carried);
		return CMD_OK;
	}
	if (!rc && !r->units)
		status = cmd_usage("calls cross the borders of units: --units PLAN says where the "
				   "recordings are, which are asked for their code");
	if (!rc && !status)
		status = fleet_plan_read(&j.plan, &kind, r->units);
	if (!rc && !status) {
		rc = join_rows(&j, rows, plain, &diag);
		plain = NULL;
	}
	if (rc)
		status = cmd_failed(j.at, rc, &diag);
	if (plain)
		fclose(plain);
	fleet_plan_fini(&j.plan);
	fleet_carried_free(j.carried);
	return status ? status : j.left_out ? CMD_GAPS : CMD_OK;
}

int fleet_reduce_to(const struct cmd_options *o, const struct reduce_options *r)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct fleet_head head = { 0 };
	const char *which = NULL;
	struct cmd_out out = { 0 };
	FILE *rows = NULL;
	int rc = fleet_reduce(o->paths, o->n_paths, &head, &rows, &which, &diag), status;
	int missing = CMD_OK;

	status = rc ? cmd_failed(which, rc, &diag) : CMD_OK;
	if (!status && r->units)
		missing = compare_plan(&head, r->units);
	if (missing == CMD_FAILED || missing == CMD_USAGE)
		status = missing;
	if (!status)
		status = join_carried(o, r, &head, &rows);
	if (status == CMD_GAPS) {
		missing = CMD_GAPS;
		status = CMD_OK;
	}
	if (!status)
		status = cmd_out_open(&out, o);
	if (out.buf && (r->part || !head.kind->print)) {
		if (r->part)
			fleet_head_write(&head, out.buf);
		fleet_copy_rows(out.buf, rows);
	} else if (out.buf) {
		rc = head.kind->print(out.buf, rows, head.kind, r->by, &diag);
		status = rc ? cmd_failed(NULL, rc, &diag) : CMD_OK;
	}
	if (out.buf && !status)
		status = fleet_say(&head, o->output.path ? o->output.path : "reduce");
	if (rows)
		fclose(rows);
	fleet_head_fini(&head);
	return cmd_out_close(&out, o, status ? status : missing);
}

int cmd_reduce(const struct cmd_options *o)
{
	struct cmd_options all = *o;
	struct cmd_files files = { 0 };
	int status = cmd_files_take(&files, o->paths, o->n_paths);

	all.paths = (const char *const *)files.v;
	all.n_paths = files.n;
	if (!status && !files.n)
		status = cmd_usage("reduce wants the parts that it is to join");
	if (!status)
		status = fleet_reduce_to(&all, o->own);
	cmd_files_fini(&files);
	return status;
}
