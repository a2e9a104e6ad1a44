/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_profile: of a recording, as other commands of the flow; of a branch list
 * (several, added up by merge) without one.
 */
#include <inttypes.h>
#include <stdio.h>

#include "decode/cmd/impl.h"
#include "decode/profile/branchlist.h"
#include "decode/profile/profile.h"

/* The reason; what each stage had with -v, as of a recording. */
static int say_empty(const struct cmd_options *o, const struct sink_report *r)
{
	cmd_line("auxdecode: error: %s: nothing to show: %s", o->path,
		 r->hint[0] ? r->hint : r->n_insns ?
		 "nothing of the list was asked for" : "the list is empty");
	if (!o->output.verbose)
		return CMD_FAILED;
	cmd_line("auxdecode: what each stage had:");
	cmd_line("  %-24s %12" PRIu64, "instructions in the list", r->n_insns);
	for (unsigned i = 0; i < r->n_drops; i++)
		cmd_line("  %-24s %12" PRIu64, r->drops[i].what, r->drops[i].n);
	return CMD_FAILED;
}

/* As the profile sink at its end, from a list on disk. Gaps of the runs that
 * made the list are in it, so the status is the same as it was then. */
static int write_profile(const struct cmd_options *o, struct branchlist *list,
			 struct outbuf *out)
{
	struct sink_report report = { 0 };
	const struct sink_env env = { .out = out,
				      .report = &report,
				      .symfs = o->code.symfs };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int rc;

	branchlist_sum(list);
	for (size_t i = 0; i < list->n_modules; i++)
		report.n_insns += list->modules[i].n_insns;
	rc = profile_convert(&env, o->own, list, &diag);
	if (rc < 0)
		return cmd_failed(rc == -AUX_E_INVAL ? NULL : o->path, rc,
				  &diag);
	if (!report.n_lines)
		return say_empty(o, &report);
	if (report.note[0])
		cmd_line("auxdecode: %s", report.note);
	return list->n_gaps ? CMD_GAPS : CMD_OK;
}

/* No session: a branch list has all that a profile needs, but for the files of
 * --symfs. */
static int convert(const struct cmd_options *o)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct cmd_out out = { 0 };
	struct branchlist list;
	int status, rc;

	branchlist_init(&list);
	rc = branchlist_read_file(&list, o->path, &diag);
	if (rc < 0)
		status = cmd_failed(o->path, rc, &diag);
	else
		status = cmd_out_open(&out, o);
	if (out.buf)
		status = write_profile(o, &list, out.buf);
	branchlist_fini(&list);
	return cmd_out_close(&out, o, status);
}

int cmd_profile(const struct cmd_options *o)
{
	return branchlist_is_file(o->path) ? convert(o) : cmd_flow(o);
}
