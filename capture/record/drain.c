/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading one ring into the file.
 *
 * Order: the records, which are few, and tell where the trace may be cut; then
 * AUX, piece by piece, so that there is room again soon; then, when a record told
 * that the PMU has stopped for want of room, a restart.
 *
 * Invariant: aux_tail moves only behind bytes that the file has, or that the
 * writer counted as unwritten. Records go into the file as they are.
 */
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "capture/describe/codesave.h"
#include "capture/record/impl.h"
#include "capture/describe/synth.h"

/* Below this the PMU may have found no room, though no record says so: the
 * drivers need a whole page to go on. */
#define SUSPECT_ROOM ((size_t)sysconf(_SC_PAGESIZE))
#define ROUND_RECORDS 256	/* at least, between two FINISHED_ROUNDs */
#define SUSPECT_MS 4	/* how long a full ring's head must stand still */

static uint64_t rec_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int rec_put_aux(struct rec_reader *rd, struct rec_ring *rr,
		const struct iovec iov[2], uint64_t pos, uint64_t len)
{
	struct aux_rec_auxtrace a = {
		.size = len,
		.offset = pos,
		.reference = pos + len,
		.idx = rr->idx,
		.tid = (uint32_t)rr->set->tid,
		.cpu = (uint32_t)rr->set->cpu,
	};
	int ret;

	/* PT takes the top byte of its 7-byte TSC from here */
#ifdef __x86_64__
	a.reference = __builtin_ia32_rdtsc();
#endif
	if (rr->set->cpu >= 0)
		a.tid = UINT32_MAX;
	ret = writer_auxtrace(rd->r->w, &a, iov, iov[1].iov_len ? 2 : 1);
	if (!ret)
		rd->stats.aux_bytes += len;
	return ret;
}

/* Into the ledger, and into the file. */
static int rec_loss(struct rec_reader *rd, struct rec_ring *rr,
		    enum aux_ledger_cause cause, uint64_t offset,
		    uint64_t bytes, bool own_record)
{
	struct aux_own_loss loss = {
		.idx = rr->idx,
		.cause = cause,
		.offset = offset,
		.bytes = bytes,
		.first_ns = rr->full_ns,
		.last_ns = rr->last_ns,
		.cpu = (uint32_t)rr->set->cpu,
		.tid = (uint32_t)rr->set->tid,
	};

	ledger_add(rd->r->ledger, rr->aux ? rr->idx : LEDGER_NO_STREAM,
		   cause, bytes, loss.first_ns, loss.last_ns);
	if (!own_record)
		return 0;
	return writer_own(rd->r->w, AUX_OWN_LOSS, &loss, sizeof(loss), NULL, 0);
}

/* One piece, up to the next cut, end at most: its room is free again before the
 * rest is written. Where no record ends the trace may not be cut: packets would
 * be. What came behind end is left for the next look, which judges its room. */
static int drain_piece(struct rec_reader *rd, struct rec_ring *rr,
		       unsigned int *cut, uint64_t end)
{
	uint64_t pos = rr->ring->aux_tail;
	struct iovec iov[2];
	size_t len;
	int ret;

	while (*cut < rr->n_cuts && rr->cuts[*cut] <= pos)
		++*cut;
	if (*cut < rr->n_cuts && rr->cuts[*cut] < end)
		end = rr->cuts[*cut];
	len = (size_t)(end - pos);
	ring_aux_slice(rr->ring, end, len, iov);
	ret = rec_put_aux(rd, rr, iov, pos, len);
	if (rr->n_tails < sizeof(rr->tails) / sizeof(*rr->tails))
		rr->tails[rr->n_tails++] = pos;
	/* what the file could not take the writer counts as unwritten */
	ring_aux_done(rr->ring, len);
	return ret;
}

/* How little room the PMU may have found at head: of the tails that it may have
 * seen are also those that we set while it wrote up to there. */
static size_t least_room(const struct rec_ring *rr, uint64_t pos, uint64_t head)
{
	size_t size = rr->ring->aux_size, room = size - (size_t)(head - pos), i;

	for (i = 0; i < rr->n_tails; i++) {
		uint64_t since = head - rr->tails[i];

		if (since <= size && size - since < room)
			room = size - (size_t)since;
	}
	return room;
}

static int drain_aux(struct rec_reader *rd, struct rec_ring *rr)
{
	struct iovec iov[2];
	uint64_t pos, end;
	size_t len = ring_aux(rr->ring, iov, &pos), room;
	unsigned int cut = 0;
	int ret = 0;

	if (!len)
		return 0;
	if (rr->any_truncated && rr->truncated_at == rr->suspect_head)
		rr->brimful = false;	/* told */
	if (rr->nudged || rr->brimful) {
		/* it had stood still until we started it again, or others went
		 * on: of several events of a ring each may stop by itself */
		rr->nudged = rr->brimful = false;
		rd->stats.n_stalls++;
		ret = rec_loss(rd, rr, AUX_LEDGER_STALLED, pos, 0, true);
		if (ret)
			return ret;
	}
	room = least_room(rr, pos, pos + len);
	rr->n_tails = 0;
	rr->suspect = room < SUSPECT_ROOM;
	/* then the kernel lets no event begin, and makes no record of it */
	rr->brimful = room <= 1;
	if (rr->suspect) {
		rr->suspect_head = pos + len;
		rr->suspect_ms = rec_now_ms();
		rr->full_ns = rr->last_ns;
	}
	for (end = pos + len; !ret && rr->ring->aux_tail < end;)
		ret = drain_piece(rd, rr, &cut, end);
	return ret;
}

/* All our events have the trailer of SYNTH_SAMPLE_TYPE, and samples begin with
 * IDENTIFIER, [IP], TID, TIME. */
static uint64_t record_time(const struct recorder *r,
			    const struct perf_event_header *h)
{
	const uint8_t *p = (const uint8_t *)h;
	uint64_t id, t;
	size_t i, at;

	if (h->type != PERF_RECORD_SAMPLE) {
		if (h->size < sizeof(*h) + 32)
			return 0;
		memcpy(&t, p + h->size - 24, sizeof(t));
		return t;
	}
	if (h->size < sizeof(*h) + 32)
		return 0;
	memcpy(&id, p + sizeof(*h), sizeof(id));
	for (i = 0; i < r->config.set->n_fds; i++)
		if (r->config.set->fds[i].id == id)
			break;
	if (i == r->config.set->n_fds)
		return 0;
	at = sizeof(*h) + 16;
	if (r->config.events->events[r->config.set->fds[i].event]
		    .attr.sample_type & PERF_SAMPLE_IP)
		at += 8;
	memcpy(&t, p + at, sizeof(t));
	return t;
}

/* What waits may be cut where a record ends; small ones stay together. */
static void note_cut(struct rec_ring *rr, uint64_t end)
{
	uint64_t from = rr->n_cuts > 1 ? rr->cuts[rr->n_cuts - 2] :
					 rr->ring->aux_tail;

	if (rr->n_cuts == REC_CUTS ||
	    (rr->n_cuts && end - from < rr->ring->aux_size / REC_CUTS))
		rr->n_cuts--;
	rr->cuts[rr->n_cuts++] = end;
}

/* Offset, size and flags of an AUX record. One overrun can have several with
 * TRUNCATED, all ending at the same place: they are one loss. */
static void note_aux(struct rec_reader *rd, struct rec_ring *rr,
		     const struct perf_event_header *h)
{
	uint64_t f[3], end;

	if (h->size < sizeof(*h) + sizeof(f))
		return;
	memcpy(f, h + 1, sizeof(f));
	end = f[0] + f[1];
	if (rr->aux && end - rr->ring->aux_tail <= rr->ring->aux_size)
		note_cut(rr, end);
	if (f[2] & PERF_AUX_FLAG_TRUNCATED) {
		if (!rd->r->config.snapshot)
			rr->truncated = true;
		if (!rr->any_truncated || rr->truncated_at != end)
			rec_loss(rd, rr, AUX_LEDGER_TRUNCATED, end, 0, false);
		rr->any_truncated = true;
		rr->truncated_at = end;
	}
	if (f[2] & PERF_AUX_FLAG_PARTIAL)
		rec_loss(rd, rr, AUX_LEDGER_PARTIAL, end, 0, false);
	if (f[2] & PERF_AUX_FLAG_COLLISION)
		rec_loss(rd, rr, AUX_LEDGER_COLLISION, end, 0, false);
}

static void note_lost(struct rec_reader *rd, struct rec_ring *rr,
		      const struct perf_event_header *h, size_t at)
{
	uint64_t n;

	if (h->size < sizeof(*h) + at + sizeof(n))
		return;
	memcpy(&n, (const uint8_t *)(h + 1) + at, sizeof(n));
	if (h->type == PERF_RECORD_LOST)
		rd->n_lost += n;
	ledger_add(rd->r->ledger, LEDGER_NO_STREAM,
		   AUX_LEDGER_LOST_RECORDS, n, rr->full_ns, rr->last_ns);
	/* a record that told of a stop may have been among them */
	if (rr->aux && !rd->r->config.snapshot)
		rr->truncated = true;
}

/*
 * The vdso is in no file. A new program's is the same as ours, at an address of
 * its own, if it has our word size: 32-bit programs have theirs below 4 GB.
 */
static void note_mmap2(struct rec_reader *rd, struct rec_ring *rr,
		       const struct perf_event_header *h)
{
	static const char name[] = "[vdso]";
	const void *own = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct {
		struct perf_event_header h;
		uint32_t pid, tid;
		uint64_t addr, len, pgoff;
		uint8_t file[24];
		uint32_t prot, flags;
	} m;
	struct aux_code_entry e = { .kind = AUX_CODE_VDSO };

	if (h->size < sizeof(m) + 8 || !own || sizeof(own) != 8 ||
	    memcmp((const uint8_t *)h + sizeof(m), name, sizeof(name)))
		return;
	memcpy(&m, h, sizeof(m));
	if (!(m.addr >> 32) || m.len > 4 * (uint64_t)sysconf(_SC_PAGESIZE))
		return;
	e.time_ns = rr->last_ns;
	e.addr = m.addr;
	e.len = m.len;
	e.pid = m.pid;
	writer_code(rd->r->w, &e, own);
}

void rec_note(struct rec_reader *rd, struct rec_ring *rr,
	      const struct perf_event_header *h)
{
	uint64_t t = record_time(rd->r, h);

	if (t) {
		rr->full_ns = rr->last_ns;
		rr->last_ns = t;
		if (!rr->first_ns)
			rr->first_ns = t;
	}
	if (rd->r->config.save)
		codesave_note(rd->r->config.save, h, t);
	switch (h->type) {
	case PERF_RECORD_AUX:
		note_aux(rd, rr, h);
		break;
	case PERF_RECORD_MMAP2:
		note_mmap2(rd, rr, h);
		break;
	case PERF_RECORD_LOST:		/* id, lost */
		note_lost(rd, rr, h, 8);
		break;
	case PERF_RECORD_LOST_SAMPLES:
		note_lost(rd, rr, h, 0);
		break;
	case PERF_RECORD_THROTTLE:
		ledger_add(rd->r->ledger, LEDGER_NO_STREAM,
			   AUX_LEDGER_THROTTLED, 0, t, t);
		break;
	case PERF_RECORD_SAMPLE:
		rd->stats.n_samples++;
		if (rd->r->config.sampling)
			rd->stats.sampled_bytes += rec_sample_aux(rd->r, h);
		break;
	default:
		break;
	}
	rd->stats.n_records++;
}

static int drain_data(struct rec_reader *rd, struct rec_ring *rr)
{
	struct recorder *r = rd->r;
	struct iovec iov[2];
	size_t len = ring_data(rr->ring, iov), pos = 0;
	uint64_t before = rr->last_ns;
	int ret = 0;

	while (pos < len && !ret) {
		const struct perf_event_header *h =
			ring_record(iov, pos, rd->copy, REC_COPY_MAX);

		if (!h) {	/* a ring that cannot be: give up what is there */
			ledger_add(r->ledger, LEDGER_NO_STREAM,
				   AUX_LEDGER_LOST_RECORDS, 1, rr->last_ns,
				   rr->last_ns);
			pos = len;
			break;
		}
		rec_note(rd, rr, h);
		ret = writer_record(r->w, h);
		pos += h->size;
	}
	if (rr->last_ns != before) {
		writer_time(r->w, rr->last_ns);
		writer_time(r->w, rr->first_ns);
	}
	if (len)
		ring_data_done(rr->ring, ret ? 0 : pos);
	return ret;
}

int rec_drain(struct rec_reader *rd, struct rec_ring *rr)
{
	bool aux = rr->aux && !rd->r->config.snapshot &&
		   !rd->r->config.sampling;
	int ret = 0;

	if (!rr->set->backward)
		ret = drain_data(rd, rr);
	if (!ret && aux)
		ret = drain_aux(rd, rr);
	rr->n_cuts = 0;
	return ret;
}

static int restart(struct rec_reader *rd, struct rec_ring *rr)
{
	struct recorder *r = rd->r;

	rd->stats.n_restarts++;
	rr->truncated = rr->suspect = false;
	rr->n_tails = 0;	/* it begins with the present one */
	return evset_aux_restart(r->config.set, r->config.events, rr->idx);
}

int rec_restart(struct rec_reader *rd, struct rec_ring *rr)
{
	if (!rr->aux || rd->r->config.snapshot || rd->r->config.sampling ||
	    __atomic_load_n(&rd->r->paused, __ATOMIC_RELAXED))
		return 0;
	if (rr->truncated)
		return restart(rd, rr);
	if (!rr->suspect || rec_now_ms() - rr->suspect_ms < SUSPECT_MS)
		return 0;
	if (ring_aux_head(rr->ring) != rr->suspect_head) {
		rr->suspect = false;
		return 0;
	}
	rr->nudged = true;
	return restart(rd, rr);
}

int rec_end_round(struct rec_reader *rd)
{
	const struct recorder_config *c = &rd->r->config;

	if (rd->r->n_readers > 1 || c->events->n_aux || c->backward ||
	    rd->r->describing ||
	    rd->stats.n_records < rd->round_records + ROUND_RECORDS)
		return 0;
	rd->round_records = rd->stats.n_records;
	return synth_finished_round(rd->r->w);
}

/* Nothing comes any more that could tell whether a full area, or one that we
 * have just started again, had stood still. */
int rec_silent_end(struct rec_reader *rd, struct rec_ring *rr)
{
	if (rr->truncated || (!rr->suspect && !rr->nudged))
		return 0;
	rr->suspect = rr->nudged = false;
	rd->stats.n_stalls++;
	return rec_loss(rd, rr, AUX_LEDGER_STALLED, rr->ring->aux_tail, 0, true);
}

/* What the rings of a reader hold for the file. */
static uint64_t waiting(struct rec_reader *rd)
{
	const struct recorder_config *c = &rd->r->config;
	uint64_t n = 0;
	size_t i;

	pthread_mutex_lock(&rd->lock);
	for (i = 0; i < rd->n_rings; i++) {
		const struct rec_ring *rr = rd->rings[i];

		if (!rr->set->backward)
			n += ring_data_waits(rr->ring);
		if (rr->aux && !c->snapshot && !c->sampling)
			n += ring_aux_head(rr->ring) - rr->ring->aux_tail;
	}
	pthread_mutex_unlock(&rd->lock);
	return n;
}

uint64_t recorder_room(struct recorder *r)
{
	uint64_t max = r->config.max_size, size;
	size_t i;

	if (!max)
		return UINT64_MAX;
	size = writer_size(r->w);
	for (i = 0; i < r->n_readers && size < max; i++)
		size += waiting(&r->readers[i]);
	return size < max ? max - size : 0;
}
