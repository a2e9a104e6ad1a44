/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libauxdecode: a recording as a place to be at. The contract is aux/cursor.h; places and
 * moves are decode/lib/replay's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/cursor.h>

#include "common/diag.h"
#include "decode/lib/api/impl.h"
#include "decode/lib/replay/replay.h"

struct aux_cursor {
	struct aux_decode *decode;
	struct replay *replay;
	struct replay_place at;
	uint32_t tid;		/* of at */
};

#define PARTIAL (AUX_DECODE_ONE_TID | AUX_DECODE_ONE_CPU | AUX_DECODE_CHUNKS |	\
		 AUX_DECODE_NO_TIMES)

/* What was not found may be in what the recording lacks. */
static void add_missing(const struct aux_cursor *c, struct aux_diag *diag)
{
	size_t n = strlen(diag->text);
	char missing[sizeof(diag->text)];

	aux_decode_missing(c->decode, missing, sizeof(missing));
	if (*missing)
		snprintf(diag->text + n, sizeof(diag->text) - n,
			 "; the recording is not whole: %s", missing);
}

static int open_replay(struct aux_cursor *c, int64_t pid, struct aux_diag *diag)
{
	const struct replay_config config = { .session = c->decode->session, .pid = pid };
	int rc = replay_open(&c->replay, &config, diag);

	if (!rc)
		rc = aux_cursor_end(c, diag);
	if (rc == -AUX_E_NOENT)
		add_missing(c, diag);
	return rc < 0 ? rc : 0;
}

int aux_cursor_open(struct aux_cursor **cp, const char *path,
		    const struct aux_decode_options *options, int64_t pid,
		    struct aux_diag *diag)
{
	struct aux_diag none = { .offset = AUX_NO_OFFSET };
	struct aux_cursor *c;
	int rc;

	*cp = NULL;
	diag = diag ? diag : &none;
	if (options && options->size >= 2 * sizeof(uint32_t) && options->flags & PARTIAL)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"options.flags 0x%x: a cursor takes all of a recording, with "
				"its times", options->flags);
	c = calloc(1, sizeof(*c));
	if (!c)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	rc = aux_decode_open(&c->decode, path, options, diag);
	if (!rc)
		rc = open_replay(c, pid, diag);
	if (rc < 0) {
		aux_cursor_close(c);
		return rc;
	}
	*cp = c;
	return 0;
}

void aux_cursor_close(struct aux_cursor *c)
{
	if (!c)
		return;
	replay_close(c->replay);
	aux_decode_close(c->decode);
	free(c);
}

struct aux_decode *aux_cursor_decode(const struct aux_cursor *c)
{
	return c->decode;
}

/* ---- where it stands ---- */

int aux_cursor_state(struct aux_cursor *c, struct aux_cursor_state *state,
		     struct aux_diag *diag)
{
	struct aux_cursor_state all = { .size = state->size, .pid = replay_pid(c->replay) };
	struct replay_state st;
	int rc;

	if (state->size < sizeof(uint32_t))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"aux_cursor_state.size is not set");
	rc = replay_state(c->replay, &c->at, &st, diag);
	if (rc)
		return rc;
	all.tid = st.tid;
	all.cpu = st.cpu;
	all.ip = st.pc;
	all.time_ns = st.time_ns;
	all.space = (const struct aux_decode_space *)st.space;
	all.stream = st.stream;
	all.insn = st.insn;
	all.offset = st.offset;
	all.mode = st.mode;
	all.end = st.end;
	all.no_code = st.no_code;
	memcpy(state, &all, all.size < sizeof(all) ? all.size : sizeof(all));
	return 0;
}

/* Moves to a place that there is. */
static int go(struct aux_cursor *c, const struct replay_place *at, struct aux_diag *diag)
{
	struct replay_state st;
	int rc = replay_state(c->replay, at, &st, diag);

	if (rc)
		return rc;
	c->at = *at;
	c->tid = st.tid;
	return 0;
}

/* The same after a search, whose answer it gives. */
static int go_if(struct aux_cursor *c, int found, const struct replay_place *at,
		 struct aux_diag *diag)
{
	int rc = found > 0 ? go(c, at, diag) : found;

	return rc < 0 ? rc : found > 0;
}

void aux_cursor_save(const struct aux_cursor *c, struct aux_cursor_position *p)
{
	*p = (struct aux_cursor_position){ { c->at.from, c->at.to, c->at.record,
					     c->at.insn } };
}

int aux_cursor_restore(struct aux_cursor *c, const struct aux_cursor_position *p,
		       struct aux_diag *diag)
{
	const struct replay_place at = { p->v[0], p->v[1], (size_t)p->v[2],
					 (uint32_t)p->v[3] };

	return go(c, &at, diag);
}

int aux_cursor_begin(struct aux_cursor *c, struct aux_diag *diag)
{
	struct replay_place at;

	return go_if(c, replay_first(c->replay, &at, diag), &at, diag);
}

int aux_cursor_end(struct aux_cursor *c, struct aux_diag *diag)
{
	struct replay_place at;

	return go_if(c, replay_last(c->replay, &at, diag), &at, diag);
}

int aux_cursor_time(struct aux_cursor *c, uint64_t time_ns, struct aux_diag *diag)
{
	struct replay_place at;

	return go_if(c, replay_seek(c->replay, time_ns, &at, diag), &at, diag);
}

int aux_cursor_thread(struct aux_cursor *c, uint32_t tid, struct aux_diag *diag)
{
	struct replay_place at;

	return go_if(c, replay_thread(c->replay, &c->at, tid, &at, diag), &at, diag);
}

int aux_cursor_next_thread(const struct aux_cursor *c, size_t *i, uint32_t *tid)
{
	return replay_next_thread(c->replay, i, tid);
}

void aux_cursor_times(const struct aux_cursor *c, uint64_t *from, uint64_t *to)
{
	replay_times(c->replay, from, to);
}

/* ---- moves ---- */

/* An edge of a cut recording is not where the program ended. */
static uint32_t cause_of(const struct aux_cursor *c, const struct replay_why *why,
			 int direction)
{
	if (why->stop == REPLAY_EDGE && direction != AUX_CURSOR_BACK &&
	    c->decode->stats.cut)
		return AUX_GAP_FILE;
	return why->stop == REPLAY_EDGE ? 0 : why->cause;
}

static int put_stop(const struct aux_cursor *c, struct aux_cursor_stop *stop,
		    const struct replay_why *why, int direction, struct aux_diag *diag)
{
	static const uint32_t whys[] = {
		[REPLAY_DONE] = AUX_CURSOR_DONE, [REPLAY_POINT] = AUX_CURSOR_POINT,
		[REPLAY_EDGE] = AUX_CURSOR_EDGE, [REPLAY_GAP] = AUX_CURSOR_GAP,
		[REPLAY_INTERRUPTED] = AUX_CURSOR_STOPPED,
	};
	struct aux_cursor_stop all = { .size = stop->size, .why = whys[why->stop],
				       .cause = cause_of(c, why, direction),
				       .interrupted = why->interrupted };

	if (stop->size < 2 * sizeof(uint32_t))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"aux_cursor_stop.size is not set");
	memcpy(stop, &all, all.size < sizeof(all) ? all.size : sizeof(all));
	return 0;
}

/* A line of a source; file NULL: it has none. */
static int line_at(struct aux_cursor *c, const struct replay_place *at,
		   struct source_line *line, struct aux_diag *diag)
{
	struct replay_state st;
	int rc = replay_state(c->replay, at, &st, diag);

	*line = (struct source_line){ 0 };
	if (!rc && st.space &&
	    codeview_line(session_codeview(c->decode->session), st.space, st.pc, line) < 0)
		*line = (struct source_line){ 0 };
	return rc;
}

static bool is_line(const struct source_line *a, const struct source_line *b)
{
	return a->line == b->line && a->file && b->file && !strcmp(a->file, b->file);
}

/* Back to the first instruction of the line on whose last one it is. */
static int line_begin(struct aux_cursor *c, struct replay_place *at,
		      const struct source_line *line, struct aux_diag *diag)
{
	struct replay_place before = *at;
	struct replay_why why;
	struct source_line l;
	int rc = 0;

	while (!rc) {
		rc = replay_step(c->replay, &before, c->tid, true, &why, diag);
		if (rc || why.stop != REPLAY_DONE)
			break;
		rc = line_at(c, &before, &l, diag);
		if (rc || !is_line(&l, line))
			break;
		*at = before;
	}
	return rc;
}

static int move_line(struct aux_cursor *c, struct replay_place *at, bool back,
		     struct replay_why *why, struct aux_diag *diag)
{
	struct source_line from, line;
	bool interrupted = false;
	int rc = line_at(c, at, &from, diag);

	while (!rc) {
		rc = replay_step(c->replay, at, c->tid, back, why, diag);
		interrupted |= why->interrupted;
		if (rc || why->stop != REPLAY_DONE)
			break;
		rc = line_at(c, at, &line, diag);
		if (rc || !line.line || is_line(&line, &from))
			continue;
		if (back)
			rc = line_begin(c, at, &line, diag);
		break;
	}
	why->interrupted = interrupted;
	return rc;
}

int aux_cursor_move(struct aux_cursor *c, enum aux_cursor_unit unit, int direction,
		    struct aux_cursor_stop *stop, struct aux_diag *diag)
{
	const uint32_t calls = 1u << AUX_END_CALL | 1u << AUX_END_IND_CALL;
	struct replay_why why = { .stop = REPLAY_DONE };
	struct replay_place at = c->at;
	bool back = direction == AUX_CURSOR_BACK;
	int rc = put_stop(c, stop, &why, direction, diag);

	if (rc)
		return rc;
	switch (unit) {
	case AUX_CURSOR_INSN:
		rc = replay_step(c->replay, &at, c->tid, back, &why, diag);
		break;
	case AUX_CURSOR_BRANCH:
		rc = replay_find(c->replay, &at, c->tid, back, ~(1u << AUX_END_FALL), &why,
				 diag);
		break;
	case AUX_CURSOR_CALL:
		rc = replay_find(c->replay, &at, c->tid, back, calls, &why, diag);
		break;
	case AUX_CURSOR_LINE:
		rc = move_line(c, &at, back, &why, diag);
		break;
	default:
		rc = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "no unit of moves: %d",
			      (int)unit);
	}
	if (!rc)
		rc = go(c, &at, diag);
	return rc ? rc : put_stop(c, stop, &why, direction, diag);
}

/* ---- runs ---- */

struct asking {
	int (*ask)(void *priv);
	void *priv;
};

static bool ask_them(void *priv)
{
	const struct asking *a = priv;

	return a->ask && a->ask(a->priv);
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int aux_cursor_run(struct aux_cursor *c, const uint64_t *addresses, size_t n, int direction,
		   int (*ask)(void *priv), void *priv, struct aux_cursor_stop *stop,
		   struct aux_diag *diag)
{
	uint64_t *sorted = reallocarray(NULL, n + 1, sizeof(*sorted));
	const struct replay_points points = { sorted, n };
	struct asking asking = { ask, priv };
	struct replay_why why = { .stop = REPLAY_DONE };
	struct replay_place at = c->at;
	int rc;

	if (!sorted)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	if (n)
		memcpy(sorted, addresses, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_addresses);
	rc = put_stop(c, stop, &why, direction, diag);
	if (!rc)
		rc = replay_run(c->replay, &at, &points, direction == AUX_CURSOR_BACK,
				ask_them, &asking, &why, diag);
	if (!rc)
		rc = go(c, &at, diag);
	if (!rc)
		rc = put_stop(c, stop, &why, direction, diag);
	free(sorted);
	return rc;
}

/* ---- callers ---- */

int aux_cursor_callers(struct aux_cursor *c, struct aux_cursor_frame *frames,
		       size_t frame_size, size_t max, struct aux_diag *diag)
{
	struct replay_frame *v = reallocarray(NULL, max + 1, sizeof(*v));
	int n;

	if (!v)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	n = replay_callers(c->replay, &c->at, v, max, diag);
	for (int i = 0; i < n; i++) {
		const struct aux_cursor_frame f = {
			.call = v[i].call, .back = v[i].back, .time_ns = v[i].time_ns,
			.order = v[i].order, .interrupted = v[i].interrupted,
		};

		memcpy((uint8_t *)frames + (size_t)i * frame_size, &f,
		       frame_size < sizeof(f) ? frame_size : sizeof(f));
	}
	free(v);
	return n;
}
