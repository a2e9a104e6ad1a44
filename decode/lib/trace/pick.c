/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunks: CoreSight: the bytes of one source, run by run.
 *
 * A chunk is what a run has of the source; at a barrier inside of a run it ends
 * and the next one begins, with a gap in between. Gaps of the queue are gaps of
 * each source. What is nobody's the queue's first source tells.
 */
#include "decode/lib/trace/chunk.h"
#include "decode/lib/trace/gap.h"

#define NOBODY 0xfe	/* is not in any frame */
#define PART_MAX ((uint64_t)1 << 30)

void chunk_iter_pick(struct chunk_iter *it, const struct chunk_source *source)
{
	it->source = source;
	it->part_max = PART_MAX;
	/* who has no id picks nothing, not the null id's */
	etmframe_pick_init(&it->pick, source->id ? source->id : NOBODY);
}

static int give_gap(struct chunk_iter *it, uint64_t offset, uint8_t cause,
		    uint64_t detail)
{
	it->gap = (struct aux_flow){ .kind = AUX_FLOW_GAP, .what = cause,
				     .offset = offset,
				     .gap = { .detail = detail } };
	return CHUNK_GAP;
}

static bool is_in(const struct chunk_iter *it, const struct run *run)
{
	const struct chunk_source *s = it->source;

	if (run->raw != s->raw)
		return false;
	if (s->raw)
		return chunks_raw_cpu(it->q, run) == s->cpu;
	/* nobody's bytes are in a run of any ids */
	return s->first || run->ids[s->id / 64] >> s->id % 64 & 1;
}

/* A run that begins inside of a packet, by its record or by how it looks. */
static bool starts_anywhere(const struct chunk_iter *it, const struct run *run)
{
	const struct aux_mark *m = run->mark ? &it->q->marks[run->mark - 1] :
					       NULL;

	return run->fresh || (m && m->flags & PERF_AUX_FLAG_OVERWRITE) ||
	       (!run->raw && it->n_left >= ETMFRAME_SIZE &&
		etmframe_is_barrier(it->left));
}

static bool all_zero(const uint8_t *p, uint64_t n)
{
	while (n && !*p) {
		p++;
		n--;
	}
	return !n;
}

/* Skips barriers; returns how many. */
static unsigned skip_barriers(struct chunk_iter *it)
{
	unsigned n = 0;

	while (it->n_left >= ETMFRAME_SIZE && etmframe_is_barrier(it->left)) {
		it->left += ETMFRAME_SIZE;
		it->n_left -= ETMFRAME_SIZE;
		n++;
	}
	return n;
}

/* Why there is a gap before the picked bytes; 0: there is none. */
static uint8_t cause_before(const struct chunk_iter *it, bool lost,
			    const uint8_t *frames, uint64_t n, uint64_t *detail)
{
	if (it->forced)
		return AUX_GAP_DECODER;
	if (lost)
		return AUX_GAP_AUX_LOST;
	if (!it->source->first || it->anywhere)
		return 0;
	*detail = etmframe_nobody(frames, n);
	return *detail && !all_zero(frames, n < *detail ? n : *detail) ?
		       AUX_GAP_NO_SYNC : 0;
}

/* Picks up to the next barrier, or as much as one chunk may have. */
static int64_t pick_part(struct chunk_iter *it)
{
	uint8_t now = it->pick.now;
	uint64_t max = it->n_left < it->part_max ? it->n_left : it->part_max;
	int64_t n;

	etmframe_pick_reset(&it->pick);
	if (it->forced)
		it->pick.now = now;
	it->base = it->now->end - it->n_left;
	n = etmframe_pick_add(&it->pick, it->left, max);
	if (n < 0)
		return n;
	it->left += n;
	it->n_left -= (uint64_t)n;
	it->chunk = (struct aux_chunk){ .size = sizeof(it->chunk),
					.data = it->pick.data,
					.len = it->pick.n };
	return n;
}

/* The next chunk of a run's frames. CHUNK_END: the source has none here. */
static int next_part(struct chunk_iter *it)
{
	bool inside = it->now->end - it->n_left > it->now->offset;
	bool barrier = skip_barriers(it);
	const uint8_t *frames = it->left;
	uint64_t detail = 0;
	uint8_t cause;
	int64_t n;

	it->forced &= !barrier;
	it->anywhere |= barrier;
	n = pick_part(it);
	if (n < 0)
		return (int)n;
	cause = cause_before(it, inside && barrier, frames, (uint64_t)n,
			     &detail);
	it->forced = it->n_left >= ETMFRAME_SIZE &&
		     !etmframe_is_barrier(it->left);
	if (!cause)
		return it->pick.n ? CHUNK_DATA : CHUNK_END;
	it->held = it->pick.n;
	return give_gap(it, it->base, cause, detail);
}

/* Bytes at the end of a run that are less than a frame. */
static int gap_of_tail(struct chunk_iter *it)
{
	uint64_t n = it->n_left;

	it->n_left = 0;
	if (!it->source->first || all_zero(it->left, n))
		return CHUNK_END;
	return give_gap(it, it->now->end - n, AUX_GAP_NO_SYNC, n);
}

/* What nobody's source has in the run, for the first time. */
static int gap_of_nobody(struct chunk_iter *it, const struct run *run)
{
	unsigned id = it->source->id;

	if (it->told || (id && !(run->ids[id / 64] >> id % 64 & 1)))
		return CHUNK_END;
	it->told = true;
	return give_gap(it, run->offset, GAP_UNKNOWN_ID, id);
}

/* Begins a run of bytes. CHUNK_END: look into its frames, if there are any. */
static int enter_run(struct chunk_iter *it, const struct run *run)
{
	it->now = run;
	it->piece = run->piece;
	if (!it->source->meta && (it->source->id || run->raw))
		return gap_of_nobody(it, run);
	if (chunk_iter_bytes(it, run->offset, run->end - run->offset) < 0)
		return -AUX_E_NOMEM;
	it->left = it->chunk.data;
	it->n_left = it->chunk.len;
	it->anywhere = starts_anywhere(it, run);
	it->forced = false;
	if (!run->raw)
		return CHUNK_END;
	it->n_left = 0;
	return CHUNK_DATA;
}

int chunk_iter_next_picked(struct chunk_iter *it)
{
	const struct run *run;
	int step = CHUNK_END;

	if (it->held) {
		it->held = false;
		return CHUNK_DATA;
	}
	for (;;) {
		while (step == CHUNK_END && it->n_left >= ETMFRAME_SIZE)
			step = next_part(it);
		if (step == CHUNK_END && it->n_left)
			step = gap_of_tail(it);
		if (step != CHUNK_END || it->run == it->q->n_runs ||
		    it->run >= it->end.run)
			return step;
		run = &it->q->runs[it->run++];
		if (run->gap)
			return give_gap(it, run->offset, run->gap, run->detail);
		if (is_in(it, run))
			step = enter_run(it, run);
	}
}

struct etmframe_run chunk_iter_run(struct chunk_iter *it, uint64_t offset)
{
	struct etmframe_run run = { .pos = (size_t)offset, .len = SIZE_MAX,
				    .offset = offset };

	if (!it->source || it->source->raw)
		return run;
	run = etmframe_run(&it->pick, (size_t)offset);
	run.offset += it->base;
	return run;
}

uint64_t chunk_iter_place(struct chunk_iter *it, uint64_t offset)
{
	struct etmframe_run run = chunk_iter_run(it, offset);

	return etmframe_at(&run, (size_t)offset);
}
