/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dap: the server: one request after the other. What runs on is answered at once and
 * followed by a "stopped" event.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/markup.h"
#include "decode/dap/impl.h"
#include "decode/lib/elf/insn.h"

#define ADDRESSES 64	/* of one breakpoint */

static const char *gap_words(const struct server *s, unsigned cause)
{
	return s->config->gap_text ? s->config->gap_text(cause) : gap_text(cause);
}

int dap_go(struct server *s, const struct replay_place *at)
{
	struct replay_state st;
	int err = replay_state(s->replay, at, &st, s->diag);

	if (err)
		return err;
	s->at = *at;
	s->tid = st.tid;
	return 0;
}

int dap_place(struct server *s, uint32_t tid, struct replay_place *at)
{
	return replay_thread(s->replay, &s->at, tid, at, s->diag);
}

int dap_stopped(struct server *s, const char *reason, const char *text)
{
	struct outbuf *o = outbuf_new(-1);
	int err;

	if (!o)
		return -AUX_E_NOMEM;
	outbuf_printf(o, "\"reason\":\"%s\",\"threadId\":%u,\"allThreadsStopped\":true",
		      reason, s->tid);
	if (text) {
		outbuf_json_text(o, "description", text);
		outbuf_json_text(o, "text", text);
	}
	err = wire_event(&s->wire, "stopped", o);
	outbuf_free(o);
	return err;
}

/* ---- beginning and end ---- */

static int on_initialize(struct server *s, const struct json_t *args)
{
	(void)args;
	outbuf_str(s->body,
		   "\"supportsConfigurationDoneRequest\":true,\"supportsStepBack\":true,"
		   "\"supportsSteppingGranularity\":true,"
		   "\"supportsFunctionBreakpoints\":true,"
		   "\"supportsInstructionBreakpoints\":true,"
		   "\"supportsConditionalBreakpoints\":true,"
		   "\"supportsHitConditionalBreakpoints\":true,"
		   "\"supportsDisassembleRequest\":true,"
		   "\"supportsReadMemoryRequest\":true,"
		   "\"supportsTerminateRequest\":true,"
		   "\"supportsExceptionInfoRequest\":false,"
		   "\"exceptionBreakpointFilters\":[{\"filter\":\"gap\",\"label\":"
		   "\"Gaps in the trace\",\"description\":\"Stop where a part of what ran "
		   "is not known\",\"default\":true}]");
	return 0;
}

static int open_recording(struct server *s, const struct json_t *args)
{
	const char *path = json_tree_text(json_tree_get(args, "recording"));
	const char *at = json_tree_text(json_tree_get(args, "at"));
	struct session_config sc = *s->config->session;
	struct replay_config rc = { .pid = -1 };
	uint64_t pid;
	int err;

	if (path)
		sc.path = path;
	if (json_tree_number(json_tree_get(args, "pid"), &pid))
		rc.pid = (int64_t)pid;
	s->at_begin = at && !strcmp(at, "begin");
	err = session_open(&s->session, &sc, s->diag);
	if (err)
		return err;
	rc.session = s->session;
	s->codeview = session_codeview(s->session);
	s->host = session_host(s->session);
	err = replay_open(&s->replay, &rc, s->diag);
	return err;
}

static void close_recording(struct server *s)
{
	replay_close(s->replay);
	session_close(s->session);
	s->replay = NULL;
	s->session = NULL;
}

/* What fails is the client's to show: the connection stays. */
static int on_launch(struct server *s, const struct json_t *args)
{
	struct replay_place at;
	int err;

	if (s->replay) {
		snprintf(s->error, sizeof(s->error), "a recording is open already");
		return 0;
	}
	err = open_recording(s, args);
	if (!err) {
		err = s->at_begin ? replay_first(s->replay, &at, s->diag) :
				    replay_last(s->replay, &at, s->diag);
		err = err < 0 ? err : dap_go(s, &at);
	}
	if (err) {
		close_recording(s);
		return err;
	}
	return wire_event(&s->wire, "initialized", NULL);
}

static int on_configured(struct server *s, const struct json_t *args)
{
	(void)s, (void)args;
	return 0;
}

static int on_disconnect(struct server *s, const struct json_t *args)
{
	(void)args;
	s->ended = true;
	return 0;
}

static int on_threads(struct server *s, const struct json_t *args)
{
	(void)args;
	return dap_view_threads(s);
}

/* ---- breakpoints ---- */

static int compare_addrs(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int sort_addrs(struct points *p)
{
	uint64_t *v = reallocarray(p->addrs, p->n + 1, sizeof(*v));
	size_t n = 0;

	if (!v)
		return -AUX_E_NOMEM;
	p->addrs = v;
	for (size_t i = 0; i < p->n; i++)
		v[i] = p->v[i].addr;
	qsort(v, p->n, sizeof(*v), compare_addrs);
	for (size_t i = 0; i < p->n; i++)
		if (!n || v[n - 1] != v[i])
			v[n++] = v[i];
	p->n_addrs = n;
	return 0;
}

/* Those of a kind (and file) are replaced as a whole. */
static void drop_points(struct points *p, enum point_kind kind, const char *source)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct point *q = &p->v[i];

		if (q->kind != kind ||
		    (source && q->source && strcmp(q->source, source)))
			p->v[n++] = *q;
		else
			free(q->source);
	}
	p->n = n;
}

/* "tid == N" is all that a condition can be, for there are no values. */
static bool read_condition(const struct json_t *bp, int64_t *tid)
{
	const char *text = json_tree_text(json_tree_get(bp, "condition"));
	char end;

	*tid = -1;
	if (!text || !*text)
		return true;
	return sscanf(text, " tid == %" SCNd64 " %c", tid, &end) == 1 && *tid >= 0;
}

static bool read_hits(const struct json_t *bp, uint64_t *ignore)
{
	const char *text = json_tree_text(json_tree_get(bp, "hitCondition"));
	char *end;

	*ignore = 0;
	if (!text || !*text)
		return true;
	*ignore = strtoull(text, &end, 10);
	if (end == text || *end || !*ignore)
		return false;
	--*ignore;
	return true;
}

static int add_points(struct server *s, enum point_kind kind, const char *source,
		      const struct json_t *bp, const uint64_t *addrs, size_t n,
		      const char **why)
{
	struct point p = { .kind = (uint8_t)kind, .id = ++s->n_ids };

	*why = n ? NULL : "no code of it is mapped where the replay is";
	if (!read_condition(bp, &p.tid))
		*why = "a condition can only be \"tid == N\": values are in no trace";
	if (!read_hits(bp, &p.ignore))
		*why = "a hit count is a number";
	for (size_t i = 0; i < n && !*why; i++) {
		p.addr = addrs[i];
		p.source = source ? strdup(source) : NULL;
		if ((source && !p.source) ||
		    array_append(&s->points.v, &s->points.n, &s->points.cap, &p,
				 sizeof(p))) {
			free(p.source);
			return -AUX_E_NOMEM;
		}
	}
	return 0;
}

static void put_point(struct server *s, bool first, const char *why, uint32_t line,
		      uint64_t addr)
{
	outbuf_printf(s->body, "%s{\"id\":%u,\"verified\":%s", first ? "" : ",", s->n_ids,
		      why ? "false" : "true");
	if (why)
		outbuf_json_text(s->body, "message", why);
	else
		outbuf_printf(s->body, ",\"instructionReference\":\"0x%" PRIx64 "\"", addr);
	if (line)
		outbuf_printf(s->body, ",\"line\":%u", line);
	outbuf_str(s->body, "}");
}

/* The addresses of one breakpoint as the client asks for it. */
static size_t find_addresses(struct server *s, enum point_kind kind, const char *source,
			     const struct json_t *bp, uint32_t *line,
			     uint64_t addrs[ADDRESSES])
{
	const char *text;
	uint64_t v;
	int64_t offset = 0;
	char *end;

	switch (kind) {
	case POINT_LINE:
		if (!json_tree_number(json_tree_get(bp, "line"), &v) || v > UINT32_MAX)
			return 0;
		*line = (uint32_t)v;
		return source_addresses(s, source, line, addrs, ADDRESSES);
	case POINT_FUNCTION:
		text = json_tree_text(json_tree_get(bp, "name"));
		return text ? source_functions(s, text, addrs, ADDRESSES) : 0;
	default:
		text = json_tree_text(json_tree_get(bp, "instructionReference"));
		if (!text)
			return 0;
		addrs[0] = strtoull(text, &end, 0);
		json_tree_integer(json_tree_get(bp, "offset"), &offset);
		addrs[0] += (uint64_t)offset;
		return end != text && !*end;
	}
}

static int set_points(struct server *s, enum point_kind kind, const char *source,
		      const struct json_t *list)
{
	const struct json_t *bp;
	int err = 0;

	drop_points(&s->points, kind, source);
	outbuf_str(s->body, "\"breakpoints\":[");
	for (size_t i = 0; !err && (bp = json_tree_at(list, i)); i++) {
		uint64_t addrs[ADDRESSES];
		uint32_t line = 0;
		const char *why;
		size_t n = find_addresses(s, kind, source, bp, &line, addrs);

		err = add_points(s, kind, source, bp, addrs, n, &why);
		if (!err)
			put_point(s, !i, why, line, n ? addrs[0] : 0);
	}
	outbuf_str(s->body, "]");
	return err ? err : sort_addrs(&s->points);
}

static int on_breakpoints(struct server *s, const struct json_t *args)
{
	const char *path = json_tree_text(json_tree_get(json_tree_get(args, "source"),
							"path"));

	if (!path) {
		snprintf(s->error, sizeof(s->error), "a source without a path");
		return 0;
	}
	return set_points(s, POINT_LINE, path, json_tree_get(args, "breakpoints"));
}

static int on_function_breakpoints(struct server *s, const struct json_t *args)
{
	return set_points(s, POINT_FUNCTION, NULL, json_tree_get(args, "breakpoints"));
}

static int on_instruction_breakpoints(struct server *s, const struct json_t *args)
{
	return set_points(s, POINT_INSTRUCTION, NULL, json_tree_get(args, "breakpoints"));
}

static int on_exception_breakpoints(struct server *s, const struct json_t *args)
{
	const struct json_t *filters = json_tree_get(args, "filters"), *f;
	const char *text;

	s->stops_at_gaps = false;
	for (size_t i = 0; (f = json_tree_at(filters, i)); i++) {
		text = json_tree_text(f);
		s->stops_at_gaps |= text && !strcmp(text, "gap");
	}
	return 0;
}

/* ---- going on ---- */

static int tell_stop(struct server *s, const struct replay_why *why, bool back,
		     const char *reason)
{
	switch (why->stop) {
	case REPLAY_POINT:
		return dap_stopped(s, "breakpoint", NULL);
	case REPLAY_GAP:
		return dap_stopped(s, "exception", gap_words(s, why->cause));
	case REPLAY_EDGE:
		return dap_stopped(s, back ? "entry" : "end", back ?
				      "The recording begins here" :
				      "The recording ends here");
	case REPLAY_INTERRUPTED:
		return dap_stopped(s, "pause", NULL);
	default:
		return dap_stopped(s, reason, NULL);
	}
}

static int go_on(struct server *s, bool back)
{
	struct replay_why why;
	int err = step_run(s, back, &why);

	if (!err)
		err = dap_go(s, &s->at);
	return err ? err : tell_stop(s, &why, back, "pause");
}

static int step(struct server *s, const struct json_t *args, enum step_by by, bool back)
{
	const char *by_what = json_tree_text(json_tree_get(args, "granularity"));
	uint64_t tid;
	struct replay_why why;
	int err;

	if (!json_tree_number(json_tree_get(args, "threadId"), &tid))
		tid = s->tid;
	err = step_thread(s, (uint32_t)tid, by, back,
			  by_what && !strcmp(by_what, "instruction"), &why);
	return err ? err : tell_stop(s, &why, back, "step");
}

/* ---- requests ---- */

struct request {
	const char *name;
	int (*run)(struct server *s, const struct json_t *args);
	bool early;	/* also while nothing is open */
};

static const struct request requests[] = {
	{ "initialize", on_initialize, true },
	{ "launch", on_launch, true },
	{ "attach", on_launch, true },
	{ "disconnect", on_disconnect, true },
	{ "terminate", on_disconnect, true },
	{ "configurationDone", on_configured, false },
	{ "setBreakpoints", on_breakpoints, false },
	{ "setFunctionBreakpoints", on_function_breakpoints, false },
	{ "setInstructionBreakpoints", on_instruction_breakpoints, false },
	{ "setExceptionBreakpoints", on_exception_breakpoints, false },
	{ "threads", on_threads, false },
	{ "stackTrace", dap_view_stack, false },
	{ "scopes", dap_view_scopes, false },
	{ "variables", dap_view_variables, false },
	{ "disassemble", dap_view_disassembly, false },
	{ "readMemory", dap_view_memory, false },
	{ "evaluate", dap_view_evaluate, false },
	{ "pause", on_configured, false },
};

/* Requests whose answer comes before what they do. */
static int move(struct server *s, const struct message *m, bool *is_move)
{
	static const struct {
		const char *name;
		bool steps, back;
		enum step_by by;
	} moves[] = {
		{ "continue", false, false, STEP_IN },
		{ "reverseContinue", false, true, STEP_IN },
		{ "next", true, false, STEP_OVER },
		{ "stepIn", true, false, STEP_IN },
		{ "stepOut", true, false, STEP_OUT },
		{ "stepBack", true, true, STEP_OVER },
	};

	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
		int err;

		if (strcmp(m->command, moves[i].name))
			continue;
		*is_move = true;
		if (!s->replay)
			return wire_respond(&s->wire, m, NULL, "no recording is open");
		if (!strcmp(m->command, "continue"))
			outbuf_str(s->body, "\"allThreadsContinued\":true");
		err = wire_respond(&s->wire, m, s->body, NULL);
		if (err)
			return err;
		err = moves[i].steps ? step(s, m->args, moves[i].by, moves[i].back) :
				       go_on(s, moves[i].back);
		if (err < 0 && !s->wire.ended)
			err = dap_stopped(s, "exception", s->diag->text);
		return err;
	}
	return 0;
}

static int answer(struct server *s, const struct message *m)
{
	bool is_move = false;
	int err;

	s->body->p = s->body->buf;
	s->error[0] = '\0';
	s->diag->text[0] = '\0';
	err = move(s, m, &is_move);
	if (is_move)
		return err;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		const struct request *r = &requests[i];

		if (strcmp(r->name, m->command))
			continue;
		if (!r->early && !s->replay)
			return wire_respond(&s->wire, m, NULL, "no recording is open");
		err = r->run(s, m->args);
		if (err < 0)
			snprintf(s->error, sizeof(s->error), "%s", s->diag->text[0] ?
				 s->diag->text : aux_strerror(err));
		err = wire_respond(&s->wire, m, s->body, s->error[0] ? s->error : NULL);
		if (!err && r->run == on_configured && s->replay &&
		    !strcmp(m->command, "configurationDone"))
			err = dap_stopped(s, "entry", s->at_begin ?
					     "The recording begins here" :
					     "The recording ends here");
		return err;
	}
	return wire_respond(&s->wire, m, NULL, "this request is not supported");
}

static int serve(struct server *s)
{
	struct message *m;
	int err = 0;

	while (!s->ended && (m = wire_next(&s->wire, s->diag, &err))) {
		err = answer(s, m);
		message_free(m);
		if (err == -AUX_E_IO || err == -AUX_E_NOMEM)
			break;
	}
	return err == -AUX_E_IO ? 0 : err == -AUX_E_NOMEM || err == -AUX_E_FORMAT ? err : 0;
}

int dap_serve(const struct dap_config *config, struct aux_diag *diag)
{
	struct server s = {
		.config = config, .diag = diag, .stops_at_gaps = true,
		.wire = { .in = config->in, .to = outbuf_new(config->out) },
		.body = outbuf_new(-1),
	};
	int err = s.body && s.wire.to ? 0 : -AUX_E_NOMEM;

	s.wire.last = &s.wire.first;
	if (!err && disasm_new(&s.disasm, DISASM_INTEL, NULL) < 0)
		s.disasm = NULL;	/* lengths are known without it */
	if (!err)
		err = serve(&s);
	close_recording(&s);
	drop_points(&s.points, POINT_LINE, NULL);
	drop_points(&s.points, POINT_FUNCTION, NULL);
	drop_points(&s.points, POINT_INSTRUCTION, NULL);
	free(s.points.v);
	free(s.points.addrs);
	disasm_free(s.disasm);
	wire_fini(&s.wire);
	outbuf_free(s.wire.to);
	outbuf_free(s.body);
	return err;
}
