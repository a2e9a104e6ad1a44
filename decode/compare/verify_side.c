/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify: one side: a cursor of the session, and between it and its decoder a
 * wrapper, which is a decoder for the cursor. So what is compared went through
 * the same code as the flow that sinks get.
 *
 * The wrapper marks the decoder's events, to tell them from those that the
 * cursor adds (a GAP between two chunks). What the decoder cannot decode
 * (-AUX_E_UNSUPPORTED) ends the chunk here, and does not go to the reference:
 * that is the other side, whose events of the rest have no partner then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/compare/impl.h"

#define MARK 0x8000	/* in flags: a decoder emitted it; no AUX_FLOW_* is there */

/* What is kept of a chunk; of older ones than VERIFY_STARTS it was
 * overwritten. */
static struct verify_start *start_of(struct verify_side *s, uint64_t chunk)
{
	return &s->starts[chunk % VERIFY_STARTS];
}

/* ---- the wrapper ---- */

/* A decoder that refuses the whole stream refuses each of its chunks here, so
 * that the two sides stay in step. The reference must not. */
static int open_real(void **dec, const struct aux_decoder_config *config,
		     const struct aux_decoder_host *host, struct aux_diag *diag)
{
	struct verify_side *s = host->priv;	/* cur is the first member */
	int rc;

	*dec = s;
	rc = s->real->open(&s->dec, config, host, diag);
	if (rc != -AUX_E_UNSUPPORTED || s != &s->v->side[0])
		return rc;
	s->refuses = true;
	*diag = (struct aux_diag){ .offset = AUX_NO_OFFSET };
	return 0;
}

/* The decoder gives up the chunk. That is allowed (its reference takes over in
 * a session), so it is counted and not a difference. */
static void hand_over(struct verify_side *s)
{
	if (!s->n_handed++)
		s->first_handed = s->cur.it.chunk.stream_offset;
	s->handed = true;
	start_of(s, s->n_chunks)->handed = true;
}

/* The cursor may begin a chunk while events of those before it are in its
 * buffer: how many is kept, to know later which chunk an event belongs to
 * (chunk_of). */
static int start_real(void *dec, const struct aux_chunk *chunk)
{
	struct verify_side *s = dec;
	int rc;

	s->n_chunks++;
	*start_of(s, s->n_chunks) = (struct verify_start){
		.refill = s->n_refills, .n_buffered = s->cur.m.n };
	s->handed = false;
	s->n_batch = s->at_batch = 0;
	rc = verify_scan_tsc(s, chunk);
	if (rc < 0)
		return rc;
	rc = s->refuses ? -AUX_E_UNSUPPORTED :
			  s->real->start(s->dec, chunk);
	if (rc == -AUX_E_UNSUPPORTED) {
		hand_over(s);
		rc = 0;
	}
	return rc;
}

/* The next RANGE of the PATH at batch[at_batch]. False: there is none left. */
static bool fill_task(struct verify_side *s, struct aux_flow *out)
{
	const struct aux_flow *ev = &s->batch[s->at_batch];
	const struct aux_path *p = ev->path.path;

	while (s->at_step < p->n_steps &&
	       s->at_range == p->steps[s->at_step]->n_ranges) {
		s->at_step++;
		s->at_range = 0;
	}
	if (s->at_step == p->n_steps)
		return false;
	*out = p->steps[s->at_step]->ranges[s->at_range++];
	out->offset = ev->offset;
	return true;
}

/* A PATH must have what it says that it has. */
static void check_path(struct verify_side *s, const struct aux_flow *ev)
{
	const struct aux_path *p = ev->path.path;
	uint64_t n_ranges = 0, n_insns = 0, insns;

	s->n_paths++;
	for (uint32_t i = 0; i < p->n_steps; i++) {
		const struct aux_step *step = p->steps[i];

		insns = 0;
		for (uint32_t k = 0; k < step->n_ranges; k++)
			insns += step->ranges[k].n;
		if (insns != step->n_insns)
			snprintf(s->broken, sizeof(s->broken),
				 "a step of %u instructions that has %llu",
				 step->n_insns, (unsigned long long)insns);
		n_ranges += step->n_ranges;
		n_insns += insns;
	}
	if (n_ranges != p->n_ranges || n_insns != p->n_insns || ev->n != n_insns)
		snprintf(s->broken, sizeof(s->broken),
			 "a PATH of %u ranges, %u (%u) instructions that has "
			 "%llu, %llu", p->n_ranges, p->n_insns, ev->n,
			 (unsigned long long)n_ranges,
			 (unsigned long long)n_insns);
}

static int fill_batch(struct verify_side *s)
{
	int rc = s->real->decode(s->dec, s->batch, CURSOR_BATCH);

	if (rc <= 0)
		return rc;
	s->n_batch = (size_t)rc;
	s->at_batch = 0;
	s->at_step = s->at_range = 0;
	return rc;
}

/* As decode, with RANGEs for PATHs. A PATH that does not fit out is continued
 * by the next call: at_step and at_range say where. */
static int decode_paths(struct verify_side *s, struct aux_flow *out, size_t max)
{
	size_t n = 0;
	int rc;

	while (n < max) {
		const struct aux_flow *ev = &s->batch[s->at_batch];

		if (s->at_batch == s->n_batch) {
			rc = n ? 0 : fill_batch(s);
			if (rc <= 0)
				return rc < 0 ? rc : (int)n;
			continue;
		}
		if (ev->kind == AUX_FLOW_PATH) {
			if (!s->at_step && !s->at_range)
				check_path(s, ev);
			if (fill_task(s, &out[n])) {
				n++;
				continue;
			}
			s->at_step = s->at_range = 0;
		} else {
			out[n++] = *ev;
		}
		s->at_batch++;
	}
	return (int)n;
}

/* What must be so of a batch, whatever the trace says. */
static void check_batch(struct verify_side *s, const struct aux_flow *ev,
			size_t n)
{
	uint64_t horizon = s->cur.host.horizon_tsc;

	for (size_t i = 0; i < n && !s->broken[0]; i++) {
		if (ev[i].kind == AUX_FLOW_TIME && i + 1 < n && !s->paths &&
		    ev[i].flags & AUX_FLOW_HAS_TSC &&
		    ev[i].time.tsc >= horizon)
			snprintf(s->broken, sizeof(s->broken),
				 "it went on past the horizon, %#llx",
				 (unsigned long long)horizon);
		if (ev[i].kind == AUX_FLOW_RANGE &&
		    (!ev[i].n || ev[i].range.last < ev[i].range.first ||
		     ev[i].range.last - ev[i].range.first < ev[i].n - 1))
			snprintf(s->broken, sizeof(s->broken),
				 "a RANGE of %u instructions from %#llx to "
				 "%#llx", ev[i].n,
				 (unsigned long long)ev[i].range.first,
				 (unsigned long long)ev[i].range.last);
		if (!ev[i].kind || ev[i].kind >= AUX_FLOW_PATH)
			snprintf(s->broken, sizeof(s->broken),
				 "an event of kind %u", ev[i].kind);
	}
}

static int decode_real(void *dec, struct aux_flow *out, size_t max)
{
	struct verify_side *s = dec;
	int rc;

	if (s->handed)
		return 0;
	rc = s->paths ? decode_paths(s, out, max) :
			s->real->decode(s->dec, out, max);
	if (rc == -AUX_E_UNSUPPORTED) {
		hand_over(s);
		return 0;
	}
	if (rc <= 0)
		return rc;
	check_batch(s, out, (size_t)rc);
	for (int i = 0; i < rc; i++)
		out[i].flags |= MARK;
	return rc;
}

/* NULL: open_real() did not come to it. */
static void close_real(void *dec)
{
	struct verify_side *s = dec;

	if (s)
		s->real->close(s->dec);
}

static const struct aux_decoder_ops wrapper = {
	.abi = AUX_DECODER_ABI,
	.size = sizeof(wrapper),
	.name = "verify",
	.help = "another decoder, watched",
	.open = open_real,
	.start = start_real,
	.decode = decode_real,
	.close = close_real,
};

/* ---- the side ---- */

int verify_open_side(struct verify *v, unsigned which, size_t i, bool paths,
		     struct aux_diag *diag)
{
	struct verify_side *s = &v->side[which];

	s->v = v;
	s->real = v->ops[which];
	s->paths = paths;
	s->cur.wants.sync_only = true;
	s->cur.wants.paths = paths ? AUX_PATHS_JOINED : AUX_PATHS_NONE;
	snprintf(s->name, sizeof(s->name), "%.30s%s", s->real->name,
		 paths ? " (PATHs)" : "");
	if (paths) {
		s->batch = malloc(CURSOR_BATCH * sizeof(*s->batch));
		if (!s->batch)
			return -AUX_E_NOMEM;
	}
	return cursor_open(v->s, &s->cur, i, &wrapper, diag);
}

void verify_close_side(struct verify_side *s)
{
	cursor_close(&s->cur);
	free(s->batch);
	free(s->tsc);
}

/* The chunk that buf[i] belongs to, or after which it is a GAP. */
static uint64_t chunk_of(struct verify_side *s, size_t i)
{
	uint64_t chunk = s->n_chunks;

	for (unsigned k = 1; k < VERIFY_STARTS && chunk; k++, chunk--) {
		const struct verify_start *start = start_of(s, chunk);

		if (start->refill != s->n_refills || start->n_buffered <= i)
			break;
	}
	return chunk;
}

/* The head's MARK is removed: events are compared as decoders emit them. */
int verify_next(struct verify_side *s)
{
	struct stream_cursor *cur = &s->cur;
	int rc;

	s->unknown_first = false;
	if (cur->m.pos == cur->m.n) {
		s->n_refills++;
		rc = cursor_refill(cur, &s->v->stats);
		if (rc < 0)
			return rc;
		if (!rc) {
			s->head = (struct aux_flow){ .kind = VERIFY_END };
			s->place = UINT64_MAX;
			return 0;
		}
	}
	s->head = cur->m.buf[cur->m.pos];
	s->place = 2 * chunk_of(s, cur->m.pos) + !(s->head.flags & MARK);
	s->head.flags &= (uint16_t)~MARK;
	if (cursor_changes_view(cur, &s->head))
		cursor_consume(cur);
	cur->m.pos++;
	return 0;
}

/* A place that is too old to be known counts as decoded. */
bool verify_is_handed(const struct verify_side *s, uint64_t place)
{
	uint64_t chunk = place / 2;

	return chunk && chunk <= s->n_chunks &&
	       s->n_chunks - chunk < VERIFY_STARTS &&
	       s->starts[chunk % VERIFY_STARTS].handed;
}
