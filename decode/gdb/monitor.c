/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gdb: commands after `monitor`: what a recording has and a running program has not:
 * its times, its gaps.
 */
#include <inttypes.h>
#include <string.h>

#include "common/embed.h"
#include "decode/gdb/impl.h"

EMBED(calls_py, "decode/gdb/auxkit.py");

static void put_time(struct outbuf *o, uint64_t ns)
{
	outbuf_printf(o, "%" PRIu64 ".%09" PRIu64 " s", ns / 1000000000,
		      ns % 1000000000);
}

static int put_where(struct server *s, const char *args)
{
	uint64_t from, to;
	struct replay_state st;
	int err = replay_state(s->replay, &s->at, &st, s->diag);

	(void)args;
	if (err)
		return err;
	replay_times(s->replay, &from, &to);
	outbuf_printf(s->out, "process %u, thread %u", replay_pid(s->replay), st.tid);
	if (st.cpu >= 0)
		outbuf_printf(s->out, ", cpu %d", st.cpu);
	if (to && st.time_ns) {
		outbuf_str(s->out, ", ");
		put_time(s->out, st.time_ns);
		outbuf_printf(s->out, " (%.1f %% of the trace)", to > from ?
			      100.0 * (double)(st.time_ns - from) /
				      (double)(to - from) : 0.0);
	}
	outbuf_str(s->out, "\n");
	return 0;
}

/* After a move the debugger does not know that the program is elsewhere until it asks:
 * its own commands to forget what it knows are said. */
static int go(struct server *s, int found, const struct replay_place *at)
{
	uint32_t shown = s->chosen ? s->chosen : s->tid;
	int err;

	if (found <= 0) {
		if (!found)
			outbuf_str(s->out, "nothing runs there\n");
		return found;
	}
	err = server_go(s, at);
	if (err)
		return err;
	s->chosen = shown;	/* the debugger does not know of another */
	err = put_where(s, "");
	outbuf_str(s->out, "(`maintenance flush register-cache`, and gdb is there, too");
	if (s->tid != shown)
		outbuf_printf(s->out, "; `thread find %u` has the number of the thread",
			      s->tid);
	outbuf_str(s->out, ")\n");
	return err;
}

static int seek(struct server *s, const char *args)
{
	struct replay_place at;
	int rc = replay_seek_words(s->replay, args, &at, s->diag);

	if (rc != -AUX_E_INVAL)
		return go(s, rc, &at);
	outbuf_printf(s->out, "%s\n", s->diag->text);
	return 0;
}

static bool is_broken(void *priv)
{
	return link_is_broken(priv);
}

/* The other side of the next gap, or of the last one before. */
static int seek_gap(struct server *s, const char *args)
{
	const struct replay_points none = { NULL, 0 };
	struct replay_place at = s->at;
	bool back = !strcmp(args, "back");
	struct replay_why why;
	int err = replay_run(s->replay, &at, &none, back, is_broken, &s->link, &why,
			     s->diag);

	if (err)
		return err;
	if (why.stop != REPLAY_GAP) {
		outbuf_printf(s->out, "no gap %s here\n", back ? "before" : "after");
		return 0;
	}
	outbuf_printf(s->out, "%s\n", server_gap_text(s, why.cause));
	return go(s, 1, &at);
}

static int seek_slowest(struct server *s, const char *args)
{
	struct replay_place at;
	int rc = slowest_find(s, args, &at);

	return rc > 0 ? go(s, rc, &at) : rc;
}

/* For gdb's Python. */
static int put_script(struct server *s, const char *args)
{
	(void)args;
	outbuf_put(s->out, calls_py, EMBED_SIZE(calls_py));
	return 0;
}

static int help(struct server *s, const char *args)
{
	(void)args;
	outbuf_str(s->out,
		   "where           process, thread, CPU and time of what runs\n"
		   "seek SECONDS    to what ran at a time; also N%, begin, end\n"
		   "gap [back]      to the other side of the next gap, or of the last\n"
		   "slowest FUNC    to where the call of it that took longest begins\n"
		   "script          what gdb needs for backtraces, as Python:\n"
		   "                python exec(gdb.execute(\"monitor script\", "
		   "to_string=True))\n");
	return 0;
}

int monitor_run(struct server *s, const char *words)
{
	static const struct {
		const char *name;
		int (*run)(struct server *s, const char *args);
	} commands[] = {
		{ "help", help }, { "where", put_where }, { "seek", seek },
		{ "gap", seek_gap }, { "slowest", seek_slowest },
		{ "script", put_script },
	};
	size_t n = strcspn(words, " ");
	const char *args = words + n + strspn(words + n, " ");

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strlen(commands[i].name) == n &&
		    !strncmp(commands[i].name, words, n))
			return commands[i].run(s, args);
	outbuf_str(s->out, "not known; ");
	return help(s, args);
}
