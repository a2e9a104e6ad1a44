/* SPDX-License-Identifier: BSD-2-Clause */
/* replay: see replay.h. Places, and moving between them. */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "common/options.h"
#include "decode/lib/replay/impl.h"

#define FIRST_BYTES 65536	/* of trace, in the first window */

/* ---- walking ---- */

int walker_move(struct walker *k, bool back)
{
	struct window *w;
	int err = 0;

	if (back ? k->i > 0 : k->i + 1 < k->w->n) {
		k->i += back ? (size_t)-1 : 1;
		return 1;
	}
	if (back ? !k->w->from : k->w->to == UINT64_MAX)
		return 0;
	w = back ? window_before(k->r, k->w->from - 1, k->diag, &err)
		 : window_next(k->r, k->w->to + 1, k->diag, &err);
	if (!w)
		return err;
	k->w = w;
	k->i = back ? w->n - 1 : 0;
	return 1;
}

int walker_at(struct walker *k, struct replay *r, const struct replay_place *at,
	      struct aux_diag *diag)
{
	int err;

	*k = (struct walker){ .r = r, .i = at->record, .diag = diag };
	k->w = window_get(r, at->from, at->to, diag, &err);
	if (!k->w)
		return err;
	return k->i < k->w->n ? 0 : -AUX_E_INVAL;
}

static struct replay_place place_of(const struct walker *k, uint32_t insn)
{
	return (struct replay_place){ k->w->from, k->w->to, k->i, insn };
}

static struct aux_flow flow_of(const struct record *rec)
{
	return (struct aux_flow){ .kind = AUX_FLOW_RANGE, .what = rec->what,
				  .flags = rec->flags, .n = rec->n,
				  .range = { rec->first, rec->first + rec->span } };
}

/* Address of an instruction of the record. Where code and trace disagree only the two
 * ends are known. */
static uint64_t ip_of(const struct walker *k, uint32_t insn)
{
	const struct record *rec = walker_record(k);
	struct aux_flow ev = flow_of(rec);
	struct walk_range *range;

	if (!insn)
		return rec->first;
	if (insn + 1 >= rec->n)
		return rec->first + rec->span;
	if (walk_find(k->r->walk, k->w->ctx[rec->ctx].space, &ev, &range) ||
	    insn >= range->n)
		return rec->first;
	return rec->first + range->off[insn];
}

static bool is_code(const struct walker *k)
{
	return walker_record(k)->n != 0;
}

/* From where the walker is, to the first record with code that way. 1 or 0. */
static int find_code(struct walker *k, bool back)
{
	int rc = 1;

	while (rc > 0 && !is_code(k))
		rc = walker_move(k, back);
	return rc;
}

static uint32_t edge(const struct walker *k, bool back)
{
	return back ? walker_record(k)->n - 1 : 0;
}

/* ---- opening ---- */

static int choose_pid(struct replay *r, int64_t pid, struct aux_diag *diag)
{
	int err = 0;

	if (pid < 0)
		pid = window_first_pid(r, diag, &err);
	if (!err && pid < 0)
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"no instruction of a process of it could be followed");
	r->pid = (uint32_t)pid;
	return err;
}

/* A window of this many bytes of trace is decoded in some milliseconds. */
static void choose_step(struct replay *r)
{
	uint64_t bytes = 0;
	const struct stream *st;

	for (size_t i = 0; (st = session_stream(r->session, i)); i++)
		bytes += st->n_bytes;
	r->step = (r->end - r->begin) / (bytes / FIRST_BYTES + 1) + 1;
}

int replay_open(struct replay **out, const struct replay_config *config,
		struct aux_diag *diag)
{
	struct replay *r = calloc(1, sizeof(*r));
	struct walk_config wc;
	struct replay_place at;
	int err;

	*out = NULL;
	if (!r)
		return -AUX_E_NOMEM;
	r->session = config->session;
	r->host = session_host(r->session);
	r->max_records = config->max_records ? config->max_records : REPLAY_RECORDS;
	wc = (struct walk_config){ .host = &r->host };
	err = walk_new(&r->walk, &wc);
	if (!err && session_is_timed(r->session))
		err = session_times(r->session, &r->begin, &r->end);
	r->timed = r->end;
	if (!err)
		err = choose_pid(r, config->pid, diag);
	choose_step(r);
	if (!err) {
		err = replay_first(r, &at, diag);
		if (!err)
			err = diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				       "no instruction of process %u could be followed", r->pid);
	}
	if (err < 0) {
		replay_close(r);
		return err;
	}
	*out = r;
	return 0;
}

void replay_close(struct replay *r)
{
	if (!r)
		return;
	windows_free(r);
	walk_free(r->walk);
	free(r);
}

uint32_t replay_pid(const struct replay *r)
{
	return r->pid;
}

void replay_times(const struct replay *r, uint64_t *from, uint64_t *to)
{
	*from = r->begin;
	*to = r->end;
}

bool replay_next_thread(const struct replay *r, size_t *i, uint32_t *tid)
{
	const struct timeline *tl = session_timeline(r->session);

	while (timeline_next_thread(tl, i, tid))
		if (*tid && *tid != UINT32_MAX &&
		    timeline_pid(tl, *tid, UINT64_MAX - 1) == r->pid)
			return true;
	return false;
}

/* ---- places ---- */

static int go_to_edge(struct replay *r, struct window *w, bool back, int err,
		      struct replay_place *at, struct aux_diag *diag)
{
	struct walker k = { .r = r, .w = w, .diag = diag };
	int rc;

	if (!w)
		return err;
	k.i = back ? w->n - 1 : 0;
	rc = find_code(&k, back);
	if (rc > 0)
		*at = place_of(&k, edge(&k, back));
	return rc;
}

int replay_first(struct replay *r, struct replay_place *at, struct aux_diag *diag)
{
	int err;
	struct window *w = window_next(r, 0, diag, &err);

	return go_to_edge(r, w, false, err, at, diag);
}

int replay_last(struct replay *r, struct replay_place *at, struct aux_diag *diag)
{
	int err;
	struct window *w = window_before(r, UINT64_MAX, diag, &err);

	return go_to_edge(r, w, true, err, at, diag);
}

int replay_seek(struct replay *r, uint64_t time_ns, struct replay_place *at,
		struct aux_diag *diag)
{
	int err;
	struct window *w = window_next(r, r->timed ? time_ns : 0, diag, &err);

	return go_to_edge(r, w, false, err, at, diag);
}

/* N%, of which some decimals may be given, or a time. */
static bool read_time(const struct replay *r, const char *words, uint64_t *ns)
{
	const char *end = option_read_time(words, ns);
	double percent;
	char *rest;

	if (end && !*end)
		return true;
	percent = *words >= '0' && *words <= '9' ? strtod(words, &rest) : -1;
	if (percent < 0 || percent > 100 || strcmp(rest, "%"))
		return false;
	*ns = r->begin + (uint64_t)((double)(r->end - r->begin) * percent / 100);
	return true;
}

int replay_seek_words(struct replay *r, const char *words, struct replay_place *at,
		      struct aux_diag *diag)
{
	uint64_t ns;

	if (!strcmp(words, "begin"))
		return replay_first(r, at, diag);
	if (!strcmp(words, "end"))
		return replay_last(r, at, diag);
	if (!r->timed)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"the trace has no times: there are begin and end");
	if (!read_time(r, words, &ns))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"seek wants a time as 12.5 or 10ms, N%%, begin or end");
	return replay_seek(r, ns, at, diag);
}

int replay_state(struct replay *r, const struct replay_place *at,
		 struct replay_state *state, struct aux_diag *diag)
{
	const struct record_ctx *ctx;
	const struct record *rec;
	struct aux_code code;
	struct walker k;
	int err = walker_at(&k, r, at, diag);

	if (err)
		return err;
	rec = walker_record(&k);
	ctx = &k.w->ctx[rec->ctx];
	*state = (struct replay_state){
		.pc = ip_of(&k, at->insn), .time_ns = rec->time_ns,
		.tid = ctx->tid, .cpu = ctx->cpu, .space = ctx->space,
		.stream = ctx->stream, .offset = rec->offset, .insn = at->insn,
		.mode = rec->flags & AUX_FLOW_MODE_MASK,
		.end = at->insn + 1 < rec->n ? AUX_END_FALL : rec->what,
	};
	state->no_code = !ctx->space ||
			 r->host.code(r->host.priv, ctx->space, state->pc, &code);
	return 0;
}

int replay_thread(struct replay *r, const struct replay_place *at, uint32_t tid,
		  struct replay_place *there, struct aux_diag *diag)
{
	struct walker k, start;
	int rc = walker_at(&start, r, at, diag);

	if (rc)
		return rc;
	if (walker_tid(&start) == tid) {
		*there = *at;
		return 1;
	}
	k = start;
	for (k.i++; k.i < k.w->n; k.i++)
		if (walker_tid(&k) == tid && is_code(&k)) {
			*there = place_of(&k, 0);
			return 1;
		}
	for (k = start; k.i--;)
		if (walker_tid(&k) == tid && is_code(&k)) {
			*there = place_of(&k, edge(&k, true));
			return 1;
		}
	return 0;
}

/* ---- steps and runs ---- */

/* May what comes after the record have other callers? */
static bool is_crossing(const struct record *rec)
{
	return !rec->n || (rec->what != AUX_END_FALL && rec->what != AUX_END_JUMP &&
			   rec->what != AUX_END_IND_JUMP && rec->what != AUX_END_COND &&
			   rec->what != AUX_END_COND_TAKEN &&
			   rec->what != AUX_END_COND_NOT_TAKEN);
}

int replay_step(struct replay *r, struct replay_place *at, uint32_t tid, bool back,
		struct replay_why *why, struct aux_diag *diag)
{
	struct walker k;
	int rc = walker_at(&k, r, at, diag);

	*why = (struct replay_why){ .stop = REPLAY_DONE };
	if (rc)
		return rc;
	if (walker_tid(&k) == tid &&
	    (back ? at->insn > 0 : at->insn + 1 < walker_record(&k)->n)) {
		at->insn += back ? UINT32_MAX : 1;
		return 0;
	}
	why->crossed = walker_tid(&k) != tid || (!back && is_crossing(walker_record(&k)));
	while ((rc = walker_move(&k, back)) > 0) {
		if (walker_tid(&k) != tid)
			continue;
		if (back || !is_code(&k))
			why->crossed |= is_crossing(walker_record(&k));
		if (walker_record(&k)->kind == AUX_FLOW_ASYNC) {
			why->interrupted = true;
			why->stopped = walker_record(&k)->first;
		}
		if (walker_record(&k)->kind == AUX_FLOW_GAP) {
			why->stop = REPLAY_GAP;
			why->cause = walker_record(&k)->what;
		}
		if (!is_code(&k))
			continue;
		*at = place_of(&k, edge(&k, back));
		return 0;
	}
	if (rc == 0)
		why->stop = REPLAY_EDGE;
	return rc;
}

/* The walker's record, when it is of the thread: 1: it ends a find. */
static int find_record(const struct walker *k, bool back, uint32_t ends,
		       struct replay_place *at, struct replay_why *why)
{
	const struct record *rec = walker_record(k);

	why->interrupted |= rec->kind == AUX_FLOW_ASYNC;
	if (rec->kind == AUX_FLOW_GAP) {
		why->stop = REPLAY_GAP;
		why->cause = rec->what;
	}
	if (!is_code(k))
		return 0;
	if (why->stop == REPLAY_GAP) {
		*at = place_of(k, edge(k, back));
		return 1;
	}
	if (!(ends >> rec->what & 1))
		return 0;
	*at = place_of(k, rec->n - 1);
	return 1;
}

int replay_find(struct replay *r, struct replay_place *at, uint32_t tid, bool back,
		uint32_t ends, struct replay_why *why, struct aux_diag *diag)
{
	struct walker k;
	int rc = walker_at(&k, r, at, diag);

	*why = (struct replay_why){ .stop = REPLAY_DONE };
	if (rc)
		return rc;
	if (!back && walker_tid(&k) == tid && at->insn + 1 < walker_record(&k)->n &&
	    find_record(&k, back, ends, at, why))
		return 0;
	while ((rc = walker_move(&k, back)) > 0)
		if (walker_tid(&k) == tid && find_record(&k, back, ends, at, why))
			return 0;
	if (rc == 0)
		why->stop = REPLAY_EDGE;
	return rc;
}

int replay_block(struct replay *r, struct replay_place *at, uint32_t tid,
		 struct replay_block *block, struct replay_why *why, struct aux_diag *diag)
{
	struct walker k;
	int rc = walker_at(&k, r, at, diag);

	if (rc)
		return rc;
	block->last = ip_of(&k, at->insn);
	block->first = walker_record(&k)->first;
	at->insn = 0;
	rc = replay_step(r, at, tid, true, why, diag);
	return rc ? rc : 1;
}

static bool has_point(const struct replay_points *p, uint64_t ip)
{
	size_t i = replay_first_point(p, ip);

	return i < p->n && p->v[i] == ip;
}

/* The first instruction at a point in the walker's record, of those from `from` on,
 * or (back) up to it. False: none. */
static bool find_point(const struct walker *k, const struct replay_points *p,
		       uint32_t from, bool back, uint32_t *insn)
{
	const struct record *rec = walker_record(k);
	size_t i = replay_first_point(p, rec->first);

	if (i == p->n || p->v[i] > rec->first + rec->span)
		return false;
	for (uint32_t n = from; n < rec->n; n += back ? UINT32_MAX : 1) {
		if (!has_point(p, ip_of(k, n)))
			continue;
		*insn = n;
		return true;
	}
	return false;
}

struct runner {
	struct walker k;
	struct replay_place *at;
	const struct replay_points *points;
	bool (*interrupted)(void *priv);
	void *priv;
	bool back;
	uint64_t reach;		/* ns: what the next scan covers, back */
};

/* One record. 1: it stopped there. */
static int run_record(struct runner *run, struct replay_why *why)
{
	struct walker *k = &run->k;
	uint32_t insn;

	if (walker_record(k)->kind == AUX_FLOW_GAP) {
		why->stop = REPLAY_GAP;
		why->cause = walker_record(k)->what;
	}
	if (!is_code(k))
		return 0;
	if (why->stop == REPLAY_GAP) {
		*run->at = place_of(k, edge(k, run->back));
		return 1;
	}
	if (!find_point(k, run->points, edge(k, run->back), run->back, &insn))
		return 0;
	why->stop = REPLAY_POINT;
	*run->at = place_of(k, insn);
	return 1;
}

/* The rest of the record in which it begins. */
static bool run_first(struct runner *run, struct replay_why *why)
{
	uint32_t insn = run->at->insn, n = walker_record(&run->k)->n;

	if (run->back ? !insn : insn + 1 >= n)
		return false;
	if (!find_point(&run->k, run->points, run->back ? insn - 1 : insn + 1,
			run->back, &insn))
		return false;
	why->stop = REPLAY_POINT;
	run->at->insn = insn;
	return true;
}

/* The rest of the window. 1: it stopped. */
static int run_window(struct runner *run, struct replay_why *why)
{
	struct walker *k = &run->k;

	while (run->back ? k->i > 0 : k->i + 1 < k->w->n) {
		k->i += run->back ? (size_t)-1 : 1;
		if (run_record(run, why))
			return 1;
	}
	return 0;
}

/* The first or last instruction there is. */
static int stop_at_edge(struct runner *run, struct replay_why *why)
{
	struct replay *r = run->k.r;
	int rc = run->back ? replay_first(r, run->at, run->k.diag) :
			     replay_last(r, run->at, run->k.diag);

	why->stop = REPLAY_EDGE;
	return rc < 0 ? rc : 0;
}

/* The times that are looked at next, on from the window. False: there are none. */
static bool next_part(struct runner *run, struct scan_part *part, uint64_t beyond)
{
	const struct replay *r = run->k.r;

	if (!r->timed || (run->back ? beyond < r->begin : beyond > r->end))
		return false;
	part->from = part->to = beyond;
	if (!run->back) {
		part->to = UINT64_MAX;
		return true;
	}
	part->from = beyond - r->begin > run->reach ? beyond - run->reach : 0;
	run->reach = run->reach < UINT64_MAX / 4 ? 2 * run->reach : run->reach;
	return true;
}

/* Interrupted: as far as it had come, which is a time. */
static int stop_there(struct runner *run, struct replay_why *why, uint64_t time_ns)
{
	int rc = replay_seek(run->k.r, time_ns, run->at, run->k.diag);

	why->stop = REPLAY_INTERRUPTED;
	return rc < 0 ? rc : 0;
}

/* To the window in which the next stop may be. 1; 0: there is none, and why says what
 * that means. */
static int run_far(struct runner *run, struct replay_why *why)
{
	struct walker *k = &run->k;
	struct scan_part part = { .points = run->points };
	uint64_t beyond = run->back ? k->w->from - 1 : k->w->to + 1;
	int rc = 0, err;

	if (run->back ? !k->w->from : k->w->to == UINT64_MAX)
		return stop_at_edge(run, why);
	while (!rc && !part.broken && next_part(run, &part, beyond)) {
		rc = scan_points(k->r, &part, run->back, run->interrupted, run->priv,
				 k->diag);
		if (!run->back || !part.from)
			break;
		beyond = part.from - 1;
	}
	if (rc < 0)
		return rc;
	if (part.broken)
		return stop_there(run, why, run->back ? beyond : part.time_ns);
	if (!rc)
		return stop_at_edge(run, why);
	k->w = run->back ? window_before(k->r, part.time_ns, k->diag, &err) :
			   window_next(k->r, part.time_ns, k->diag, &err);
	if (!k->w)
		return err ? err : stop_at_edge(run, why);
	k->i = run->back ? k->w->n - 1 : 0;
	return 1;
}

int replay_run(struct replay *r, struct replay_place *at,
	       const struct replay_points *points, bool back,
	       bool (*interrupted)(void *priv), void *priv,
	       struct replay_why *why, struct aux_diag *diag)
{
	struct runner run = { .at = at, .points = points, .back = back,
			      .interrupted = interrupted, .priv = priv,
			      .reach = 16 * r->step };
	int rc = walker_at(&run.k, r, at, diag);

	*why = (struct replay_why){ .stop = REPLAY_DONE };
	if (rc || run_first(&run, why))
		return rc;
	while (!run_window(&run, why)) {
		rc = run_far(&run, why);
		if (rc <= 0)
			return rc;
		if (run_record(&run, why))
			break;
	}
	return 0;
}
