/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/* Values of options, and output that cannot be written. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "decode/cmd/cmd.h" /* not capture/cmd/cmd.h */
#include "tests/unit/tap.h"

static void times(void)
{
	/* table */
	static const struct {
		const char *text;
		int status;
		uint64_t from, to;
	} rows[] = {
		{ "1,2", 0, 1000000000, 2000000000 },
		{ "12.345678901,", 0, 12345678901, 99 * 1000000000ull },
		{ ",0.5", 0, 7, 500000000 },
		{ "123ns,1us", 0, 123, 1000 },
		{ "1.5us,2.25ms", 0, 1500, 2250000 },
		{ "3s,3.000000000000s", 0, 3000000000, 3000000000 },
		{ "1.", -AUX_E_INVAL, 0, 0 },
		{ "5", -AUX_E_INVAL, 0, 0 },
		{ ",", -AUX_E_INVAL, 0, 0 },
		{ "", -AUX_E_INVAL, 0, 0 },
		{ "2,1", -AUX_E_INVAL, 0, 0 },
		{ ".,1", -AUX_E_INVAL, 0, 0 },
		{ "1,2,3", -AUX_E_INVAL, 0, 0 },
		{ "1h,2h", -AUX_E_INVAL, 0, 0 },
		{ "-1,2", -AUX_E_INVAL, 0, 0 },
		{ "1.2.3,4", -AUX_E_INVAL, 0, 0 },
		{ "1,2 ", -AUX_E_INVAL, 0, 0 },
		{ "0.5ns,2", -AUX_E_INVAL, 0, 0 },
		{ "99999999999,", -AUX_E_INVAL, 0, 0 },
		{ "1,99999999999999999999", -AUX_E_INVAL, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t from = 7, to = 99 * 1000000000ull;
		struct aux_diag diag;
		int status = cmd_parse_times(rows[i].text, &from, &to, &diag);

		ok(status == rows[i].status &&
			   (status ||
			    (from == rows[i].from && to == rows[i].to)),
		   "--time \"%s\"", rows[i].text);
	}
}

static void durations(void)
{
	/* table */
	static const struct {
		const char *text;
		int status;
		uint64_t ns;
	} rows[] = {
		{ "10", 0, 10000000000 }, { "10s", 0, 10000000000 },
		{ "1.5", 0, 1500000000 }, { ".25", 0, 250000000 },
		{ "10ms", 0, 10000000 },  { "1.5us", 0, 1500 },
		{ "7ns", 0, 7 },	       { "0.000000001", 0, 1 },
		{ "0", -AUX_E_INVAL, 0 },	       { "0us", -AUX_E_INVAL, 0 },
		{ "", -AUX_E_INVAL, 0 },	       { "ms", -AUX_E_INVAL, 0 },
		{ "-1", -AUX_E_INVAL, 0 },	       { "1,2", -AUX_E_INVAL, 0 },
		{ "1,", -AUX_E_INVAL, 0 },	       { "5x", -AUX_E_INVAL, 0 },
		{ "0.5ns", -AUX_E_INVAL, 0 },     { "99999999999", -AUX_E_INVAL, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t ns, from, to = UINT64_MAX;
		char text[32];
		struct cmd_options o = { .quick = false };
		struct aux_diag diag;
		const struct option_row *row =
			option_find(cmd_group_part.rows, "last");
		int status = row->parse(row, &o, rows[i].text, &diag);

		ns = o.filter.last_ns;
		ok(status == rows[i].status && (status || ns == rows[i].ns),
		   "--last \"%s\"", rows[i].text);
		if (status)
			continue;
		snprintf(text, sizeof(text), "%s,", rows[i].text);
		ok(!cmd_parse_times(text, &from, &to, &diag) && from == ns,
		   "--time \"%s\": the same", text);
	}
}

static void numbers(void)
{
	uint64_t v;

	ok(option_read_number("42", 42, &v) && v == 42, "42");
	ok(option_read_number("18446744073709551615", UINT64_MAX, &v) &&
		   v == UINT64_MAX,
	   "the largest");
	ok(!option_read_number("43", 42, &v), "too large");
	ok(!option_read_number("18446744073709551616", UINT64_MAX, &v),
	   "over 64 bits");
	ok(!option_read_number("-1", UINT64_MAX, &v), "negative");
	ok(!option_read_number(" 1", UINT64_MAX, &v), "a space");
	ok(!option_read_number("1k", UINT64_MAX, &v), "something behind");
	ok(!option_read_number("", UINT64_MAX, &v), "nothing");
}

static void outputs(void)
{
	struct cmd_options o = { .output = { .path = "/dev/full" } };
	struct cmd_out out;
	int fd[2], saved;

	ok(cmd_out_open(&out, &o) == 0, "/dev/full opens");
	outbuf_str(out.buf, "text");
	ok(cmd_out_close(&out, &o, CMD_OK) == CMD_FAILED, "a full disk is told");
	o.output.path = "/nonexistent/x";
	ok(cmd_out_open(&out, &o) == CMD_FAILED && !out.buf, "no such directory");
	o.output.path = NULL;
	signal(SIGPIPE, SIG_IGN);
	saved = dup(STDOUT_FILENO);
	if (saved < 0 || pipe(fd)) {
		ok(0, "no pipe");
		return;
	}
	close(fd[0]);
	dup2(fd[1], STDOUT_FILENO);
	close(fd[1]);
	if (cmd_out_open(&out, &o) == CMD_OK)
		outbuf_str(out.buf, "text");
	fd[0] = cmd_out_close(&out, &o, CMD_GAPS);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	is_u64(fd[0], CMD_OK, "a reader that went away is no failure");
}

/* The tables of every command fit into one command line: a table that grew past a
 * limit is refused for every line, so an empty line shows it. */
static void tables(void)
{
	char name[] = "auxdecode";
	char *argv[] = { name, NULL };
	const struct command *c;

	for (size_t i = 0; (c = cmd_get(i)); i++) {
		struct option_group groups[CMD_GROUPS_MAX] = {
			{ .rows = cmd_rows(c) },
		};
		struct option_line line = { .command = c->name, .groups = groups,
					    .n_groups = 1 };
		struct aux_diag diag = { 0 };
		int first;

		for (size_t k = 0; c->groups[k] && line.n_groups < CMD_GROUPS_MAX;
		     k++)
			groups[line.n_groups++].rows = c->groups[k]->rows;
		ok(!c->groups[line.n_groups - 1], "groups of %s fit", c->name);
		ok(options_parse(&line, 1, argv, &first, &diag) == 0,
		   "options of %s fit", c->name);
	}
}

/* More rows than a command line can have are refused, not dropped. */
static void too_many_rows(void)
{
	static char names[200][8];
	static struct option_row rows[201];
	const struct option_group group = { .rows = rows };
	struct option_line line = { .command = "x", .groups = &group,
				    .n_groups = 1 };
	struct aux_diag diag = { 0 };
	char name[] = "auxdecode";
	char *argv[] = { name, NULL };
	int first;

	for (unsigned i = 0; i < 200; i++) {
		snprintf(names[i], sizeof(names[i]), "o%u", i);
		rows[i].name = names[i];
	}
	ok(options_parse(&line, 1, argv, &first, &diag) == -AUX_E_INVAL,
	   "200 options are refused");
}

int main(void)
{
	/* the messages are not part of the test */
	int null = open("/dev/null", O_WRONLY);

	if (null >= 0)
		dup2(null, STDERR_FILENO);
	times();
	durations();
	numbers();
	outputs();
	tables();
	too_many_rows();
	return plan_done();
}
