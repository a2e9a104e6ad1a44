/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --time in percent of the recording, as perf script has it: 10%-20%, 90%-, or 10%/3,
 * the third of ten parts. When that is, is known once the file is read, so it is opened
 * for that first.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "common/options.h"
#include "decode/cmd/impl.h"
#include "decode/lib/session/session.h"

/* "12.5%", up to 100; what follows it, NULL: it is none. */
static const char *read_share(const char *s, double *share)
{
	char *end;

	if (*s < '0' || *s > '9')
		return NULL;
	*share = strtod(s, &end) / 100;
	return *end == '%' && *share <= 1 ? end + 1 : NULL;
}

/* "10%/3" */
static bool read_slice(const char *s, double *from, double *to)
{
	const char *p = read_share(s, to);
	uint64_t n;

	if (!p || *p != '/' || !option_read_number(p + 1, 100000, &n) || !n)
		return false;
	*from = *to * (double)(n - 1);
	*to *= (double)n;
	return *from < 1;
}

static bool read_range(const char *s, double *from, double *to)
{
	const char *p = s;

	*from = 0;
	*to = 1;
	if (*p != '-' && *p != ',')
		p = read_share(p, from);
	if (!p || (*p != '-' && *p != ','))
		return false;
	if (p[1])
		p = read_share(p + 1, to);
	else
		p++;
	return p && !*p && *from < *to;
}

int cmd_parse_share(const char *s, struct cmd_filter *f, struct aux_diag *diag)
{
	f->in_shares = read_slice(s, &f->share_from, &f->share_to) ||
		       read_range(s, &f->share_from, &f->share_to);
	if (f->in_shares)
		return 0;
	return option_refuse(diag, "--time in percent is 10%%-20%%, 10%%- or 10%%/3 (the third "
			     "of ten parts), not \"%s\"", s);
}

static uint64_t at_share(uint64_t from, uint64_t to, double share)
{
	return from + (uint64_t)llround((double)(to - from) * share);
}

int cmd_time_of_share(struct cmd_options *o)
{
	struct session_config config = cmd_session_config(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct cmd_filter *f = &o->filter;
	struct session *s = NULL;
	uint64_t from = 0, to = 0;
	int err;

	if (o->command->many || !strcmp(o->path, "-"))
		return cmd_usage("--time in percent is of one file that can be read twice");
	err = session_open(&s, &config, &diag);
	if (!err)
		err = session_times(s, &from, &to);
	session_close(s);
	if (!err && !to)
		err = diag_set(&diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			       "nothing in it tells from when to when it is, so there "
			       "are no percent of that");
	if (err)
		return cmd_failed(o->path, err, &diag);
	f->time_from = f->share_from > 0 ? at_share(from, to, f->share_from) : 0;
	f->time_to = f->share_to < 1 ? at_share(from, to, f->share_to) : UINT64_MAX;
	return CMD_OK;
}
