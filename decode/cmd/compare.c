/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_compare: what tells two groups of recordings apart; see decode/fleet/cohort.h. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "common/markup.h"
#include "decode/cmd/units.h"
#include "decode/fleet/cohort.h"

#define GROUPS 2

struct compare_options {
	const char *groups[GROUPS];	/* "NAME=PATTERN" */
	unsigned n_groups;
	uint64_t limit;			/* 0: 20 */
	unsigned by;			/* enum calltree_by */
	uint64_t permille;		/* of what is shown, chance: 0 is 50 */
};

static int add_group(const struct option_row *row, void *config, const char *arg,
		     struct aux_diag *diag)
{
	struct compare_options *c = config;
	const char *is = strchr(arg, '=');

	(void)row;
	if (c->n_groups == GROUPS)
		return option_refuse(diag, "there are two of --group");
	if (!is || is == arg || !is[1])
		return option_refuse(diag, "--group wants NAME=PATTERN, as slow='parts/slow*', "
				     "not \"%s\"", arg);
	c->groups[c->n_groups++] = arg;
	return 0;
}

/* table */
static const struct option_row rows[] = {
	{ .name = "group", .arg = "NAME=FILES", .parse = add_group,
	  .help = "parts of a group, as slow='parts/slow-*.part' or slow=@LIST; twice" },
	UNITS_BY(struct compare_options, by),
	{ .name = "limit", .letter = 'n', .arg = "N", .help = "the first N rows (default 20)",
	  .zero = "0 would show nothing", OPTION_NUMBER(struct compare_options, limit) },
	{ .name = "chance", .arg = "PERMILLE", .max = 1000,
	  .help = "how much of what is shown may be chance, of 1000 (default 50)",
	  OPTION_NUMBER(struct compare_options, permille) },
	{ .name = NULL },
};

const struct cmd_own cmd_compare_own = {
	.options = rows, .config_size = sizeof(struct compare_options),
};

/* Files of a group. */
static int take_group(struct cmd_files *files, const char *group)
{
	const char *pattern = strchr(group, '=') + 1;
	glob_t found = { 0 };
	int rc, status = CMD_OK;

	if (pattern[0] == '@')
		return cmd_files_take(files, &pattern, 1);
	rc = glob(pattern, GLOB_BRACE | GLOB_TILDE, NULL, &found);
	if (rc == GLOB_NOMATCH)
		status = cmd_usage("--group %s: there is no such file", group);
	else if (rc)
		status = cmd_usage("--group %s cannot be read", group);
	for (size_t i = 0; i < found.gl_pathc && !status; i++)
		if (cmd_files_add(files, found.gl_pathv[i]))
			status = CMD_FAILED;
	globfree(&found);
	return status;
}

#define HOT_CALLS 8	/* the place of calls among the values of hot */

/* The number of --by, and of hot how often a function was called: each number more is
 * another chance to be wrong. Of latency: how many calls took so long. */
static uint32_t values_of(const struct fleet_kind *kind, unsigned by)
{
	if (!strcmp(kind->name, "hot"))
		return 1u << by | 1u << HOT_CALLS;
	return !strcmp(kind->name, "flame") ? 1u << by : 1;
}

static void put_number(struct outbuf *out, double v)
{
	outbuf_printf(out, "\t%.1f", v);
}

static void put_text(struct outbuf *out, const struct cohort_result *r, size_t n,
		     const struct fleet_kind *kind, const struct compare_options *c,
		     const char *const *paths)
{
	outbuf_str(out, "#q\teffect\tnumber");
	for (unsigned i = 0; i < GROUPS; i++)
		outbuf_printf(out, "\tmedian %.*s", (int)strcspn(c->groups[i], "="), c->groups[i]);
	outbuf_str(out, "\tlook at");
	for (const char *s = kind->keys; *s; s += strcspn(s, " "), s += *s == ' ')
		outbuf_printf(out, "\t%.*s", (int)strcspn(s, " "), s);
	outbuf_str(out, "\n");
	for (size_t i = 0; i < n; i++) {
		const struct cohort_found *f = &r->v[i];

		outbuf_printf(out, "%.2g\t%+.2f\t%s", f->q, f->effect, kind->values[f->value].name);
		put_number(out, f->median[0]);
		put_number(out, f->median[1]);
		outbuf_str(out, "\t");
		fleet_put_escaped(out, paths[f->farthest]);
		outbuf_printf(out, "\t%s\n", f->key);
	}
}

static void put_json(struct outbuf *out, const struct cohort_result *r, size_t n,
		     const struct fleet_kind *kind, const char *const *paths)
{
	outbuf_printf(out, "{\"schema\":\"auxdecode/compare/1\",\"do\":\"%s\",\"tests\":%zu,"
		      "\"found\":[", kind->name, r->n_tests);
	for (size_t i = 0; i < n; i++) {
		const struct cohort_found *f = &r->v[i];

		outbuf_printf(out, "%s\n{\"q\":%.17g,\"p\":%.17g,\"effect\":%.17g,\"medians\":"
			      "[%.17g,%.17g],\"number\":\"%s\"", i ? "," : "", f->q, f->p,
			      f->effect, f->median[0], f->median[1], kind->values[f->value].name);
		outbuf_json_text(out, "key", f->key);
		outbuf_json_text(out, "file", paths[f->farthest]);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]}\n");
}

/* How many are shown: those that are not chance, up to the limit. */
static size_t count_shown(const struct cohort_result *r, const struct compare_options *c)
{
	double chance = (double)(c->permille ? c->permille : 50) / 1000;
	size_t n = 0, limit = c->limit ? c->limit : 20;

	while (n < r->n && n < limit && r->v[n].q <= chance)
		n++;
	return n;
}

static int show(const struct cmd_options *o, const struct cohort_result *r,
		const struct fleet_kind *kind, const char *const *paths)
{
	const struct compare_options *c = o->own;
	struct cmd_out out = { 0 };
	size_t n = count_shown(r, c);
	int status = cmd_out_open(&out, o);

	if (out.buf && o->output.json)
		put_json(out.buf, r, n, kind, paths);
	else if (out.buf)
		put_text(out.buf, r, n, kind, c, paths);
	if (out.buf)
		cmd_say("compare", n ? "%zu of %zu numbers that differ are shown" :
				       "%zu of %zu numbers that differ do so by more than chance",
			n, r->n_tests);
	return cmd_out_close(&out, o, status);
}

int cmd_compare(const struct cmd_options *o)
{
	const struct compare_options *c = o->own;
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	const struct fleet_kind *kind = NULL;
	struct cohort_result r = { .n = 0 };
	struct cmd_files files = { 0 };
	size_t n[GROUPS] = { 0 };
	const char *which = NULL;
	int status = CMD_OK, rc;

	if (c->n_groups != GROUPS)
		return cmd_usage("compare wants two groups: --group slow='parts/slow*' "
				 "--group fast='parts/fast*'");
	for (unsigned i = 0; i < GROUPS && !status; i++) {
		status = take_group(&files, c->groups[i]);
		n[i] = files.n - (i ? n[0] : 0);
	}
	if (status) {
		cmd_files_fini(&files);
		return status;
	}
	rc = cohort_kind(&kind, files.n ? files.v[0] : NULL, &which, &diag);
	if (!rc)
		rc = cohort_compare(&r, (const char *const *)files.v, n, values_of(kind, c->by),
				    &kind,
				    &which, &diag);
	status = rc ? cmd_failed(which, rc, &diag) :
		      show(o, &r, kind, (const char *const *)files.v);
	cohort_fini(&r);
	cmd_files_fini(&files);
	return status;
}
