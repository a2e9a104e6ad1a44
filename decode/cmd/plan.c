/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_plan: the units of many recordings, or of a large one. See decode/fleet/fleet.h. */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"
#include "common/markup.h"
#include "decode/cmd/units.h"

/* table */
static const struct option_row rows[] = {
	UNITS_DO(struct plan_options, what),
	{ .name = "unit-size", .arg = "SIZE",
	  .help = "trace in a unit, about (default 64M); latency and coverage have one\n"
		  "unit for each recording",
	  .zero = "wants at least 1 byte", OPTION_SIZE(struct plan_options, unit_size) },
	{ .name = NULL },
};

const struct cmd_own cmd_plan_own = {
	.options = rows, .config_size = sizeof(struct plan_options),
};

/* Files that one expects to be recordings: what auxcap and perf name so, rotated ones too. */
static bool named_so(const char *name)
{
	const char *end = strrchr(name, '.');

	return !strncmp(name, "perf.data", 9) || (end && !strcmp(end, ".data"));
}

/*
 * Files of a directory that are recordings; nftw has no argument for it. What may have been
 * one is said: a recording that came empty, or that cannot be read, is not in the result.
 */
static struct cmd_files *found;

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
	char magic[8] = { 0 };
	FILE *f;

	if (type == FTW_DNR) {
		cmd_warn(path, "cannot be searched: recordings in it do not count");
		return 0;
	}
	if (type != FTW_F || !S_ISREG(st->st_mode))
		return 0;
	f = fopen(path, "re");
	if (!f) {
		cmd_warn(path, "does not count: %s", strerror(errno));
		return 0;
	}
	if (fread(magic, 1, 8, f) != 8 || memcmp(magic, "PERFILE2", 8))
		magic[0] = 0;
	fclose(f);
	if (!magic[0] && named_so(path + at->base))
		cmd_warn(path, "does not count: no PERFILE2 at its start");
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
	uint64_t unit_size = p->unit_size ? p->unit_size : FLEET_UNIT_SIZE;
	struct fleet_unit *units = NULL;
	struct session *s = NULL;
	size_t n = 0;
	int rc;

	config.path = path;
	rc = session_open(&s, &config, &diag);
	if (rc)
		return cmd_failed(path, rc, &diag);
	if (kind->whole || (kind->carry && !session_knows_stints(s)))
		unit_size = 0;
	rc = fleet_plan(&units, &n, s, unit_size);
	for (size_t i = 0; i < n && !rc; i++) {
		struct fleet_planned u = { .unit = units[i], .path = strdup(path) };

		rc = u.path ? array_append(&list->v, &list->n, &list->cap, &u, sizeof(u)) :
			      -AUX_E_NOMEM;
	}
	free(units);
	session_close(s);
	return rc ? cmd_failed(path, rc, &diag) : CMD_OK;
}

static int compare_planned(const void *a, const void *b)
{
	const struct fleet_planned *x = *(struct fleet_planned *const *)a;
	const struct fleet_planned *y = *(struct fleet_planned *const *)b;
	int rc = fleet_unit_compare(&x->unit, &y->unit);

	return rc ? rc : x < y ? -1 : x > y;
}

/* A copy of a recording has its units, which count once. */
static int drop_copies(struct fleet_plan_list *list)
{
	struct fleet_planned **v = calloc(list->n + 1, sizeof(*v));
	size_t n = 0;

	if (!v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < list->n; i++)
		v[i] = &list->v[i];
	qsort(v, list->n, sizeof(*v), compare_planned);
	for (size_t i = 1, first = 0; i < list->n; i++) {
		if (fleet_unit_compare(&v[first]->unit, &v[i]->unit)) {
			first = i;
			continue;
		}
		if (v[i]->unit.whole || !v[i]->unit.chunk_from)
			cmd_warn(v[i]->path, "is a copy of %s, which counts once", v[first]->path);
		free(v[i]->path);
		v[i]->path = NULL;
	}
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i].path)
			list->v[n++] = list->v[i];
	list->n = n;
	free(v);
	return 0;
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
	if (!status && list->n)
		status = drop_copies(list) ? cmd_failed(NULL, -AUX_E_NOMEM, &diag) : CMD_OK;
	if (!status && !files.n)
		status = cmd_usage("no recording in what was named: plan takes perf.data files, or "
				   "directories that have some in them");
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

/* A line: the unit, its bytes, its cost, the file. */
static int read_planned(struct fleet_plan_list *list, char *line, size_t len)
{
	struct fleet_row row = { .line = line, .key_len = len };
	struct fleet_planned u;
	const char *end;
	uint64_t bytes;
	char *f[4];

	if (fleet_fields(&row, f, 4) || fleet_unit_parse(&u.unit, f[0]))
		return -AUX_E_FORMAT;
	end = fleet_number(f[1], UINT64_MAX, &bytes);
	if (!end || *end || !*f[3])
		return -AUX_E_FORMAT;
	u.unit.bytes = bytes;
	u.path = strdup(f[3]);
	if (u.path && !array_append(&list->v, &list->n, &list->cap, &u, sizeof(u)))
		return 0;
	free(u.path);
	return -AUX_E_NOMEM;
}

/* "#unit ... do=KIND" */
static const struct fleet_kind *kind_of_head(const char *line)
{
	const char *at = *line == '#' ? strstr(line, "\tdo=") : NULL;

	return at ? fleet_kind_named(at + 4) : NULL;
}

int fleet_plan_read(struct fleet_plan_list *list, const struct fleet_kind **kind,
		    const char *path)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	int rc = 0;

	*kind = NULL;
	if (!f) {
		diag_set(&diag, AUX_E_IO, AUX_NO_OFFSET, "%s", strerror(errno));
		return cmd_failed(path, -AUX_E_IO, &diag);
	}
	while (!rc && (n = getline(&line, &cap, f)) > 0) {
		line[n - (line[n - 1] == '\n')] = '\0';
		if (!*kind) {
			*kind = kind_of_head(line);
			rc = *kind ? 0 : -AUX_E_FORMAT;
		} else {
			rc = read_planned(list, line, strlen(line));
		}
	}
	if (!rc && ferror(f))
		rc = diag_set(&diag, AUX_E_IO, AUX_NO_OFFSET, "%s", strerror(errno));
	if (!rc && !list->n)
		rc = -AUX_E_FORMAT;
	if (rc == -AUX_E_FORMAT)
		diag_set(&diag, AUX_E_FORMAT, AUX_NO_OFFSET,
			 "not what `auxdecode plan` prints");
	free(line);
	fclose(f);
	return rc ? cmd_failed(path, rc, &diag) : CMD_OK;
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
