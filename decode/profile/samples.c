/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: samples with branch stacks from the flow. They are written as the
 * flow comes, before the other records of the recording (file.c): readers sort
 * by time.
 *
 * Invariant: a stack is contiguous. Between the target of an entry and the
 * source of the next later one no branch was taken, which tools rely on to
 * derive what ran between them. Where flow breaks (a gap, a signal, another
 * thread) the stack starts anew.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/lib/trace/gap.h"
#include "decode/profile/impl.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/lib/session/expand.h"

#define DEFAULT_NS UINT64_C(100000)

struct stream {
	uint32_t stream, tid;
	struct profile_branch ring[PROFILE_DEPTH];
	uint64_t n_ring;	/* pushed since flow broke */
	uint64_t from, next;	/* of the open branch: its address, and the
				 * address after it; next 0: not known */
	bool open;		/* a branch waits for its target */
	bool maybe;		/* it is taken only if flow leaves next */
	bool broke;		/* flow broke since the last range */
	uint64_t insns;		/* since the last sample */
	uint64_t at_ns;		/* time of the next */
};

struct profile_samples {
	struct sink_env env;
	const char *period_text;	/* --period, NULL: none */
	uint64_t limit;		/* 0: none */
	uint64_t period;	/* instructions, or */
	uint64_t period_ns;
	struct profile_file *file;	/* NULL: no flow yet */
	struct walk *walk;
	struct stream **streams;
	size_t n_streams;
};

/* "1000" (instructions) or "100us". False: malformed, or 0. */
static bool parse_period(struct profile_samples *s, const char *text)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = { { "", 0 }, { "ns", 1 }, { "us", 1000 },
		      { "ms", 1000000 }, { "s", 1000000000 } };
	unsigned long long v;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	v = strtoull(text, &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit))
			continue;
		if (i)
			return !__builtin_mul_overflow(v, units[i].ns,
						       &s->period_ns) && v;
		s->period = v;
		return v;
	}
	return false;
}

void profile_samples_free(struct profile_samples *s)
{
	if (!s)
		return;
	profile_file_discard(s->file);
	walk_free(s->walk);
	for (size_t i = 0; i < s->n_streams; i++)
		free(s->streams[i]);
	free(s->streams);
	free(s);
}

int profile_samples_new(struct profile_samples **to,
			const struct sink_env *env,
			const char *period, uint64_t limit,
			struct aux_diag *diag)
{
	struct walk_config wc = { .host = env->host };
	struct profile_samples *s = calloc(1, sizeof(*s));
	int err;

	*to = NULL;
	if (!s)
		return -AUX_E_NOMEM;
	s->env = *env;
	s->period_text = period;
	s->limit = limit;
	s->period_ns = period ? 0 : DEFAULT_NS;
	if (!env->out_path)
		err = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			       "profile --to perf wants -o FILE: it writes a "
			       "perf.data");
	else if (period && !parse_period(s, period))
		err = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			       "--period is a number of instructions, or a time "
			       "as 100us, not \"%s\"", period);
	else
		err = walk_new(&s->walk, &wc);
	if (err)
		profile_samples_free(s);
	else
		*to = s;
	return err;
}

/* ---- The stack ---- */

static void push(struct stream *st, uint64_t from, uint64_t to)
{
	st->ring[st->n_ring++ % PROFILE_DEPTH] =
		(struct profile_branch){ from, to };
}

/* Flow goes on at ip: completes the open branch, or empties the stack if flow
 * broke. */
static void continue_at(struct stream *st, uint64_t ip)
{
	bool runs_on = st->next && st->next == ip;

	if (st->open && !st->broke) {
		if (!st->maybe || !runs_on)
			push(st, st->from, ip);
	} else if (!runs_on) {
		st->n_ring = 0;
	}
	st->open = false;
	st->broke = false;
}

/* 1 if --limit is reached, which ends the sink. */
static int put_sample(struct profile_samples *s, const struct flow_ctx *ctx,
		      struct stream *st, uint64_t ip)
{
	struct profile_branch stack[PROFILE_DEPTH];
	struct profile_sample sample = { .ip = ip, .period = st->insns,
					 .ctx = ctx, .stack = stack };
	uint64_t n = st->n_ring;

	for (; sample.n < PROFILE_DEPTH && n > 0; n--)
		stack[sample.n++] = st->ring[(n - 1) % PROFILE_DEPTH];
	st->insns = 0;
	profile_file_sample(s->file, &sample);
	s->env.report->n_lines++;
	return s->limit && s->env.report->n_lines >= s->limit;
}

/* Sets *ip to the address of the k-th instruction of a range, from 1; 0: the
 * code is not known. 0 or -AUX_E_NOMEM. */
static int find_insn(struct profile_samples *s, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, uint64_t k, uint64_t *ip)
{
	struct walk_range *r;
	int rc = 0;

	*ip = ev->range.last;
	if (k < ev->n) {
		rc = walk_find(s->walk, ctx->space, ev, &r);
		*ip = rc ? 0 : r->first + r->off[k - 1];
	}
	return rc == -AUX_E_NOMEM ? rc : 0;
}

/*
 * Writes the samples that are due in a range. By time there is at most one,
 * since time is known per event; it lies on a multiple of the period, whatever
 * the start. By count each sample names the exact instruction.
 */
static int sample_range(struct profile_samples *s, const struct flow_ctx *ctx,
			struct stream *st, const struct aux_flow *ev)
{
	uint64_t done = 0, left, ip;
	int rc = 0;

	if (s->period_ns) {
		st->insns += ev->n;
		if (ctx->time_ns < st->at_ns)
			return 0;
		st->at_ns = ctx->time_ns + s->period_ns -
			    ctx->time_ns % s->period_ns;
		return put_sample(s, ctx, st, ev->range.last);
	}
	while (!rc && st->insns + (ev->n - done) >= s->period) {
		left = s->period - st->insns;
		done += left;
		st->insns = s->period;
		rc = find_insn(s, ctx, ev, done, &ip);
		if (!rc && ip)
			rc = put_sample(s, ctx, st, ip);
		st->insns = 0;
	}
	st->insns += ev->n - done;
	return rc;
}

static int handle_range(struct profile_samples *s, const struct flow_ctx *ctx,
			struct stream *st, const struct aux_flow *ev)
{
	unsigned size = ev->flags & AUX_FLOW_SIZE_MASK;
	int rc;

	continue_at(st, ev->range.first);
	s->env.report->n_insns += ev->n;
	rc = sample_range(s, ctx, st, ev);
	st->next = size ? ev->range.last + size : 0;
	st->from = ev->range.last;
	st->open = ev->what != AUX_END_FALL &&
		   ev->what != AUX_END_COND_NOT_TAKEN;
	st->maybe = ev->what == AUX_END_COND;
	return rc;
}

static int handle_path(struct profile_samples *s, const struct flow_ctx *ctx,
		       struct stream *st, const struct aux_path *path)
{
	int rc = 0;

	for (uint32_t i = 0; i < path->n_steps; i++)
		for (uint32_t k = 0; k < path->steps[i]->n_ranges && !rc; k++)
			rc = handle_range(s, ctx, st,
					  &path->steps[i]->ranges[k]);
	return rc;
}

static int on_event(struct profile_samples *s, const struct flow_ctx *ctx,
		    struct stream *st, const struct aux_flow *ev)
{
	switch (ev->kind) {
	case AUX_FLOW_PATH:
		return handle_path(s, ctx, st, ev->path.path);
	case AUX_FLOW_RANGE:
		return handle_range(s, ctx, st, ev);
	case AUX_FLOW_GAP:
		if (ev->what != GAP_SNAPSHOT)
			profile_file_gap(s->file, ctx, ev);
		st->next = 0;
		st->broke = true;
		break;
	case AUX_FLOW_ASYNC:
		st->next = 0;
		st->broke = true;
		break;
	case AUX_FLOW_TRACE_ON:
	case AUX_FLOW_TRACE_OFF:
		st->broke = true;
	}
	return 0;
}

static struct stream *stream_of(struct profile_samples *s,
				const struct flow_ctx *ctx)
{
	struct stream **v;

	for (size_t i = 0; i < s->n_streams; i++)
		if (s->streams[i]->stream == ctx->stream)
			return s->streams[i];
	v = reallocarray(s->streams, s->n_streams + 1, sizeof(*v));
	if (!v)
		return NULL;
	s->streams = v;
	v[s->n_streams] = calloc(1, sizeof(**v));
	if (!v[s->n_streams])
		return NULL;
	v[s->n_streams]->stream = ctx->stream;
	v[s->n_streams]->tid = ctx->tid;
	return v[s->n_streams++];
}

int profile_samples_flow(struct profile_samples *s, const struct flow_ctx *ctx,
			 const struct aux_flow *ev, size_t n)
{
	struct stream *st = stream_of(s, ctx);
	int rc = 0;

	if (!st)
		return -AUX_E_NOMEM;
	if (!s->file) {
		rc = profile_file_open(&s->file, ctx->session, &s->env,
				       s->period_text);
		if (rc)
			return rc;
	}
	if (st->tid != ctx->tid) {
		st->tid = ctx->tid;
		st->next = 0;
		st->broke = true;
	}
	for (size_t i = 0; i < n && !rc; i++)
		rc = on_event(s, ctx, st, &ev[i]);
	return rc ? rc : profile_file_failed(s->file);
}

/* A file without samples is not written; the hint says why. */
int profile_samples_finish(struct profile_samples *s, struct aux_diag *diag)
{
	struct sink_report *r = s->env.report;
	struct profile_file *file = s->file;

	s->file = NULL;
	if (file && r->n_lines)
		return profile_file_close(file, diag);
	profile_file_discard(file);
	if (r->n_insns)
		snprintf(r->hint, sizeof(r->hint), "less ran than one period; "
			 "a shorter --period shows it");
	return 0;
}
