/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Snapshots of AUX areas in overwrite mode and of backward data rings.
 *
 * An AUX area mapped read-only is overwritten in a circle: the kernel publishes
 * only aux_head, an offset in the area, and no tail stops it. So one area after
 * the other has its events disabled while what is new in it is copied to
 * memory, and enabled again before anything is written; side-band events run
 * on. Each snapshot saves what is new since the last one, whose end is known per
 * ring, and counts what was overwritten since then as AUX_LEDGER_OVERWRITTEN.
 *
 * Stream positions grow from snapshot to snapshot; modulo the area's size they
 * are offsets in it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <aux/self.h>
#include "common/diag.h"

#include "capture/record/impl.h"

/* The first position at or after pos that lies at offset end of the buffer. */
static uint64_t align_position(uint64_t pos, uint64_t end, uint64_t size)
{
	return pos + (end % size + size - pos % size) % size;
}

/* Memory for the copies of all areas; a ring beyond it is saved while it
 * stands. */
#define COPIES_MAX (256ull << 20)

/*
 * Makes the memory that AUX areas are copied to, before their events are
 * disabled: the first touch of it takes longer than the copy. It is kept, and
 * with it what it has of the area as of the last snapshot.
 */
static void make_copies(struct recorder *r)
{
	uint64_t left = COPIES_MAX;
	size_t i;

	for (i = 0; i < r->n_rings && r->config.snapshot; i++) {
		struct rec_ring *rr = &r->rings[i];
		size_t size = rr->aux ? rr->ring->aux_size : 0;
		void *p;

		if (!size || size > left)
			continue;
		left -= size;
		rr->wrap.size = size;
		r->config.events->events[rr->set->aux_event].aux
			->prepare(&rr->wrap);
		if (rr->snap_copy)
			continue;
		p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		rr->snap_copy = p == MAP_FAILED ? NULL : p;
		/* Both are zeros at first. */
		rr->snap_partial = rr->snap_end != 0;
	}
}

void rec_free_copy(struct rec_ring *rr)
{
	if (rr->snap_copy)
		munmap(rr->snap_copy, rr->ring->aux_size);
	rr->snap_copy = NULL;
}

/* Copies what is new: with what it has from before, the copy is the area as it
 * stands. */
static void copy_new(struct rec_ring *rr)
{
	uint64_t len = rr->snap_partial ? rr->ring->aux_size : rr->snap_len, at;
	struct iovec iov[2];
	size_t i;

	ring_aux_slice(rr->ring, rr->snap_at, len, iov);
	for (i = 0; i < 2; i++) {
		if (!iov[i].iov_len)
			continue;
		at = (uint64_t)((const uint8_t *)iov[i].iov_base -
				rr->ring->aux);
		memcpy(rr->snap_copy + at, iov[i].iov_base, iov[i].iov_len);
	}
	rr->snap_partial = false;
	rr->wrap.buf = rr->snap_copy;
}

/*
 * Finds what is new in the area and copies it; the events of the ring are
 * disabled. The PMU's snapshot() says which bytes are valid and how many were
 * skipped since the last snapshot.
 */
static int hold_still(const struct recorder *r, struct rec_ring *rr)
{
	const struct auxpmu_ops *ops =
		r->config.events->events[rr->set->aux_event].aux;
	int ret;

	rr->wrap.size = rr->ring->aux_size;
	rr->wrap.head = ring_aux_head(rr->ring);
	rr->wrap.buf = rr->ring->aux;
	ret = ops->snapshot(&rr->wrap, &rr->snap_at, &rr->snap_len,
			    &rr->snap_skipped);
	if (ret || rr->snap_len > rr->ring->aux_size)
		return ret ? ret : -AUX_E_LIMIT;
	if (rr->snap_copy)
		copy_new(rr);
	return 0;
}

/*
 * Saves the new part of one AUX area, as hold_still() left it. If it is unknown
 * how many bytes were skipped (UINT64_MAX), the gap is at least one byte,
 * rounded up to the next fitting position.
 */
static int save_ring(struct rec_reader *rd, struct rec_ring *rr)
{
	const struct recorder *r = rd->r;
	uint64_t len = rr->snap_len, skipped = rr->snap_skipped;
	uint64_t size = rr->ring->aux_size, pos = rr->snap_end + len;
	struct ring area = *rr->ring;
	struct ledger *l = r->ledger;
	struct iovec iov[2];

	r->config.events->events[rr->set->aux_event].aux->remember(&rr->wrap,
								   len);
	if (skipped && skipped != UINT64_MAX)
		pos += skipped;
	else if (skipped)
		pos++;
	pos = align_position(pos, rr->snap_at, size);
	if (skipped) {
		uint64_t lost = pos - len - rr->snap_end;

		ledger_produced(l, rr->idx, lost);
		ledger_add(l, rr->idx, AUX_LEDGER_OVERWRITTEN, lost, 0, 0);
		if (skipped == UINT64_MAX)
			ledger_add(l, rr->idx, AUX_LEDGER_AT_LEAST, 1, 0, 0);
	}
	rr->snap_end = pos;
	if (!len)
		return 0;
	area.aux = rr->snap_copy ? rr->snap_copy : area.aux;
	ring_aux_slice(&area, rr->snap_at, len, iov);
	return rec_put_aux(rd, rr, iov, pos - len, len);
}

/* Writes a backward ring's new records: the ring has them newest first, the
 * file oldest first. The event's output is paused. */
static int copy_backward(struct rec_reader *rd, struct rec_ring *rr)
{
	struct iovec iov[2];
	size_t len = ring_backward(rr->ring, iov), pos, n = 0;
	uint64_t head = rr->ring->page->data_head;
	uint64_t fresh = rr->snap_end - head;	/* the head counts down from 0 */
	size_t *at;
	int ret = 0;

	if (fresh < len)
		len = (size_t)fresh;	/* the last snapshot has the rest */
	at = calloc(len / 8 + 1, sizeof(*at));
	if (!at)
		return -AUX_E_NOMEM;
	for (pos = 0; pos < len;) {
		const struct perf_event_header *h =
			ring_record(iov, pos, rd->copy, REC_COPY_MAX);

		if (!h)
			break;
		at[n++] = pos;
		pos += h->size;
	}
	while (n-- && !ret) {
		const struct perf_event_header *h =
			ring_record(iov, at[n], rd->copy, REC_COPY_MAX);

		rec_inspect(rd, rr, h);
		ret = writer_record(rd->r->w, h);
	}
	free(at);
	if (rr->times.last_ns) {
		writer_time(rd->r->w, rr->times.last_ns);
		writer_time(rd->r->w, rr->times.first_ns);
	}
	rr->snap_end = head;
	return ret;
}

/* PAUSE_OUTPUT (Linux 4.7) makes the kernel drop records instead of writing
 * them while we read; the event itself counts on. */
static int save_backward(struct rec_reader *rd, struct rec_ring *rr)
{
	int ret;

	ioctl(rr->set->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1);
	ret = copy_backward(rd, rr);
	ioctl(rr->set->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0);
	return ret;
}

static int put_label(struct recorder *r, enum aux_snapshot_reason reason,
		     const char *label, uint64_t time_ns)
{
	struct aux_own_snapshot s = {
		.number = ++r->n_snapshots,
		.time_ns = time_ns,
		.reason = reason,
		.label_len = label ? (uint32_t)strnlen(label, 256) : 0,
	};

	return writer_own(r->w, AUX_OWN_SNAPSHOT, &s, sizeof(s), label,
			  s.label_len);
}

static int resume_ring(struct recorder *r, const struct rec_ring *rr)
{
	return evset_aux_resume(r->config.set, r->config.events, rr->idx);
}

/* Stops one AUX area and copies it. Without a copy it stands until save_all()
 * has saved it. */
static int copy_ring(struct recorder *r, struct rec_ring *rr, bool resume)
{
	int ret = 0, err;

	if (resume)
		ret = evset_aux_stop(r->config.set, r->config.events, rr->idx);
	if (!ret)
		ret = hold_still(r, rr);
	if (resume && (rr->snap_copy || ret)) {
		err = resume_ring(r, rr);
		ret = ret ? ret : err;
	}
	return ret;
}

/*
 * One AUX area after the other is copied, and its events run again while the
 * next is copied; then all is written. Those that stay off were disabled all at
 * once.
 */
static int copy_all(struct recorder *r, bool resume)
{
	size_t i;
	int ret = 0;

	for (i = 0; i < r->n_rings && !ret; i++)
		if (r->rings[i].aux && r->config.snapshot)
			ret = copy_ring(r, &r->rings[i], resume);
	return ret;
}

static int save_all(struct recorder *r, bool resume)
{
	size_t i, k;
	int ret = 0;

	for (i = 0; i < r->n_readers; i++) {
		struct rec_reader *rd = &r->readers[i];

		for (k = 0; k < rd->n_rings && !ret; k++) {
			struct rec_ring *rr = rd->rings[k];

			if (rr->set->backward)
				ret = save_backward(rd, rr);
			else if (rr->aux && r->config.snapshot)
				ret = save_ring(rd, rr);
			if (!ret && resume && rr->aux && !rr->snap_copy)
				ret = resume_ring(r, rr);
		}
	}
	return ret;
}

/* Where the page has no clock for user space, the newest record's is near
 * enough. */
uint64_t recorder_now(const struct recorder *r)
{
	uint64_t t = 0;
	size_t i;

	if (!aux_self_now(r->rings[0].ring->page, &t))
		return t;
	for (t = 0, i = 0; i < r->n_rings; i++)
		if (r->rings[i].times.last_ns > t)
			t = r->rings[i].times.last_ns;
	return t;
}

int recorder_snapshot(struct recorder *r, enum aux_snapshot_reason reason,
		      const char *label, bool stay_off, struct aux_diag *diag)
{
	const struct evlist *l = r->config.events;
	bool resume = !stay_off && !r->paused;
	uint64_t now;
	int ret, err;

	if (resume)
		make_copies(r);
	/* Read before, so that little waits while the events are disabled, and
	 * again: the side-band up to the stop goes before the snapshot. */
	ret = recorder_hold(r);
	now = recorder_now(r);
	if (!resume) {
		err = evset_aux_enable(r->config.set, l, false);
		ret = ret ? ret : err;
	}
	if (!ret)
		ret = copy_all(r, resume);
	if (!ret)
		ret = rec_read_held(r);
	if (!ret)
		ret = put_label(r, reason, label, now);
	if (!ret)
		ret = save_all(r, resume);
	if (ret && resume)	/* those that save_all did not reach */
		evset_aux_enable(r->config.set, l, true);
	recorder_release(r);
	if (ret)
		diag_set(diag, -ret, AUX_NO_OFFSET, "snapshot %llu: %s",
			 (unsigned long long)r->n_snapshots,
			 aux_strerror(ret));
	return ret;
}
