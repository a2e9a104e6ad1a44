/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drain: one ring into the file.
 *
 * Order: first the records, which are few and say where the trace may be cut;
 * then the AUX area, piece by piece, so that the PMU soon has room again; then,
 * if a record said that the PMU stopped for lack of room, a restart. A restart
 * before the copy would find no room and stop again.
 *
 * Invariant: aux_tail never passes a byte that is neither in the file nor
 * counted by the writer as unwritten. Records are written exactly as the kernel
 * made them.
 */
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "capture/describe/describe.h"
#include "capture/record/impl.h"
#include "common/clock.h"

/* With less room the PMU may have stopped although no record says so: drivers
 * program whole pages (intel_pt: a ToPA entry is at least one). */
#define SUSPECT_ROOM ((size_t)sysconf(_SC_PAGESIZE))
#define ROUND_RECORDS 256	/* minimum between two FINISHED_ROUNDs */
/* A suspect ring's head must stand still so long before the event is restarted:
 * a restart of a running event costs it a gap. */
#define SUSPECT_MS 4

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

	/* perf takes the top byte of the TSC from here (ref_timestamp in
	 * intel_pt_calc_tsc_timestamp): a TSC packet carries only seven
	 * bytes. */
#ifdef __x86_64__
	a.reference = __builtin_ia32_rdtsc();
#endif
	if (rr->set->cpu >= 0)	/* the buffer of a CPU belongs to no thread */
		a.tid = UINT32_MAX;
	ret = writer_auxtrace(rd->r->w, &a, iov, iov[1].iov_len ? 2 : 1);
	if (!ret)
		rd->stats.aux_bytes += len;
	return ret;
}

/*
 * Enters a loss of unknown size at stream position offset into the ledger. With
 * own_record also into the file, for a loss that no record of the kernel
 * reports.
 */
static int enter_loss(struct rec_reader *rd, struct rec_ring *rr,
		      enum aux_ledger_cause cause, uint64_t offset,
		      bool own_record)
{
	struct aux_own_loss loss = {
		.idx = rr->idx,
		.cause = cause,
		.offset = offset,
		.first_ns = rr->times.before_ns,
		.last_ns = rr->times.last_ns,
		.cpu = (uint32_t)rr->set->cpu,
		.tid = (uint32_t)rr->set->tid,
	};

	ledger_add(rd->r->ledger, rr->aux ? rr->idx : LEDGER_NO_STREAM,
		   cause, 0, loss.first_ns, loss.last_ns);
	if (!own_record)
		return 0;
	return writer_own(rd->r->w, AUX_OWN_LOSS, &loss, sizeof(loss), NULL, 0);
}

int rec_enter_end(struct recorder *r, struct rec_ring *rr,
		  enum aux_ledger_cause cause, uint64_t now)
{
	struct aux_own_loss loss = {
		.idx = rr->idx,
		.cause = cause,
		/* Snapshots: the place in the stream is not known. */
		.offset = r->config.snapshot || r->config.sampling ?
				  UINT64_MAX : rr->ring->aux_tail,
		.first_ns = rr->times.last_ns,
		.last_ns = now,
		.cpu = (uint32_t)rr->set->cpu,
		.tid = (uint32_t)rr->set->tid,
	};

	ledger_add(r->ledger, rr->aux ? rr->idx : LEDGER_NO_STREAM, cause, 0,
		   loss.first_ns, loss.last_ns);
	return writer_own(r->w, AUX_OWN_LOSS, &loss, sizeof(loss), NULL, 0);
}

/*
 * Writes one piece, up to the next cut and at most up to end, and releases its
 * room before the next piece is written. Data that arrive past end meanwhile
 * wait for the next drain, which judges the room they had.
 */
static int drain_piece(struct rec_reader *rd, struct rec_ring *rr,
		       unsigned int *cut, uint64_t end)
{
	uint64_t pos = rr->ring->aux_tail;
	struct iovec iov[2];
	size_t len;
	int ret;

	while (*cut < rr->cuts.n && rr->cuts.at[*cut] <= pos)
		++*cut;
	if (*cut < rr->cuts.n && rr->cuts.at[*cut] < end)
		end = rr->cuts.at[*cut];
	len = (size_t)(end - pos);
	ring_aux_slice(rr->ring, end, len, iov);
	ret = rec_put_aux(rd, rr, iov, pos, len);
	if (rr->stop.n_tails < sizeof(rr->stop.tails) / sizeof(*rr->stop.tails))
		rr->stop.tails[rr->stop.n_tails++] = pos;
	/* Even on an error: the writer has counted the bytes as unwritten. */
	ring_aux_done(rr->ring, len);
	return ret;
}

/*
 * The least room that the PMU may have found when it had written up to head. It
 * may have read any of the tails that the last drain stored while it was
 * writing, so the oldest of these within one size of head counts.
 */
static size_t least_room(const struct rec_ring *rr, uint64_t pos, uint64_t head)
{
	size_t size = rr->ring->aux_size, room = size - (size_t)(head - pos), i;

	for (i = 0; i < rr->stop.n_tails; i++) {
		uint64_t since = head - rr->stop.tails[i];

		if (since <= size && size - since < room)
			room = size - (size_t)since;
	}
	return room;
}

/*
 * Copies what waits in the AUX area, and judges whether the event has stopped
 * (see struct rec_stop). New data after a nudge, or after the area was
 * completely full, prove that it had: with several events on one ring each may
 * stop by itself.
 */
static int drain_aux(struct rec_reader *rd, struct rec_ring *rr)
{
	struct iovec iov[2];
	uint64_t pos, end;
	size_t len = ring_aux(rr->ring, iov, &pos), room;
	unsigned int cut = 0;
	int ret = 0;

	if (!len)
		return 0;
	if (rr->stop.nudged || rr->stop.full) {
		rr->stop.nudged = rr->stop.full = false;
		rd->stats.n_stalls++;
		ret = enter_loss(rd, rr, AUX_LEDGER_STALLED, pos, true);
		if (ret)
			return ret;
	}
	room = least_room(rr, pos, pos + len);
	rr->stop.n_tails = 0;
	rr->stop.suspect = room < SUSPECT_ROOM;
	/* CIRC_SPACE() keeps one byte free: perf_aux_output_begin() then
	 * disables the event without making a record. */
	rr->stop.full = room <= 1 && !(rr->stop.reported &&
				       rr->stop.reported_at == pos + len);
	if (rr->stop.suspect) {
		rr->stop.suspect_head = pos + len;
		rr->stop.suspect_ms = clock_ms();
		rr->times.before_ns = rr->times.last_ns;
	}
	for (end = pos + len; !ret && rr->ring->aux_tail < end;)
		ret = drain_piece(rd, rr, &cut, end);
	return ret;
}

/* The attr of the event that a record's identifier names; NULL: not ours. */
static const struct evlist_event *event_of(const struct recorder *r, uint64_t id)
{
	const struct evset *set = r->config.set;
	size_t i;

	for (i = 0; i < set->n_fds; i++)
		if (set->fds[i].id == id)
			return &r->config.events->events[set->fds[i].event];
	return NULL;
}

static const struct perf_event_attr *attr_of(const struct recorder *r, uint64_t id)
{
	const struct evlist_event *ev = event_of(r, id);

	return ev ? &ev->attr : NULL;
}

/*
 * The time of a record, 0 if it has none. evlist gives all events one
 * sample_type head: samples begin with IDENTIFIER, [IP], TID, TIME, and with
 * sample_id_all every other record ends with TID, TIME, CPU, IDENTIFIER.
 */
static uint64_t record_time(const struct recorder *r,
			    const struct perf_event_header *h)
{
	const uint8_t *p = (const uint8_t *)h;
	const struct perf_event_attr *a;
	uint64_t id, t;
	size_t at;

	if (h->size < sizeof(*h) + 32)
		return 0;
	if (h->type != PERF_RECORD_SAMPLE) {
		memcpy(&t, p + h->size - 24, sizeof(t));
		return t;
	}
	memcpy(&id, p + sizeof(*h), sizeof(id));
	a = attr_of(r, id);
	if (!a)
		return 0;
	at = sizeof(*h) + 16;
	if (a->sample_type & PERF_SAMPLE_IP)
		at += 8;
	memcpy(&t, p + at, sizeof(t));
	return t;
}

/*
 * The size of the trace in a sample (PERF_SAMPLE_AUX: u64 size, then the
 * bytes). It is the last of the fields that evlist requests, so all before it
 * are skipped, in the order of PERF_RECORD_SAMPLE in <linux/perf_event.h>. For
 * a sample_type with a field that evlist never requests the size is 0: the
 * layout is not known here.
 */

/* The fields of one word, in the record's order up to PERIOD. */
static const uint64_t words[] = {
	PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_TID,
	PERF_SAMPLE_TIME, PERF_SAMPLE_ADDR, PERF_SAMPLE_ID,
	PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU, PERF_SAMPLE_PERIOD,
};
#define N_WORDS (sizeof(words) / sizeof(*words))
#define LONGER (PERF_SAMPLE_READ | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | \
		PERF_SAMPLE_AUX)

struct sample {
	const uint64_t *w;
	uint64_t n, at;	/* words */
};

/* The word at the position; 0 past the end. */
static uint64_t word(const struct sample *s)
{
	return s->at < s->n ? s->w[s->at] : 0;
}

static void skip(struct sample *s, uint64_t n)
{
	s->at = n > s->n - s->at ? s->n : s->at + n;
}

/* struct read_format of perf_event_open(2). */
static void skip_read(struct sample *s, uint64_t format)
{
	uint64_t each = 1 + !!(format & PERF_FORMAT_ID) +
			!!(format & PERF_FORMAT_LOST);
	uint64_t n = 1;

	if (format & PERF_FORMAT_GROUP) {
		n = word(s);
		skip(s, 1);
	}
	skip(s, !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED));
	skip(s, !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING));
	skip(s, n > s->n ? s->n : n * each);
}

static uint64_t aux_size(const struct perf_event_attr *a, struct sample *s)
{
	uint64_t known = LONGER;
	size_t i;

	for (i = 0; i < N_WORDS; i++) {
		known |= words[i];
		skip(s, !!(a->sample_type & words[i]));
	}
	if (a->sample_type & ~known || !(a->sample_type & PERF_SAMPLE_AUX))
		return 0;
	if (a->sample_type & PERF_SAMPLE_READ)
		skip_read(s, a->read_format);
	if (a->sample_type & PERF_SAMPLE_CALLCHAIN)
		skip(s, word(s) < s->n ? 1 + word(s) : s->n);
	if (a->sample_type & PERF_SAMPLE_RAW)	/* u32 size, then the data */
		skip(s, ((uint32_t)word(s) + UINT64_C(4) + 7) / 8);
	return word(s);
}

static uint64_t sampled_trace(const struct recorder *r,
			      const struct perf_event_header *h)
{
	struct sample s = { .w = (const void *)(h + 1),
			    .n = (h->size - sizeof(*h)) / 8 };
	const struct perf_event_attr *a = attr_of(r, word(&s));

	return a ? aux_size(a, &s) : 0;
}

/* The trace may be cut at end. Cuts closer than 1/REC_CUTS of the area replace
 * one another, so that the array covers all of it. */
static void add_cut(struct rec_ring *rr, uint64_t end)
{
	uint64_t from = rr->cuts.n > 1 ? rr->cuts.at[rr->cuts.n - 2] :
					 rr->ring->aux_tail;

	if (rr->cuts.n == REC_CUTS ||
	    (rr->cuts.n && end - from < rr->ring->aux_size / REC_CUTS))
		rr->cuts.n--;
	rr->cuts.at[rr->cuts.n++] = end;
}

/*
 * PERF_RECORD_AUX: u64 offset, size, flags. One overrun can produce several
 * records with TRUNCATED that all end at the same position: they are one loss.
 */
static void inspect_aux(struct rec_reader *rd, struct rec_ring *rr,
		     const struct perf_event_header *h)
{
	uint64_t f[3], end;

	if (h->size < sizeof(*h) + sizeof(f))
		return;
	memcpy(f, h + 1, sizeof(f));
	end = f[0] + f[1];
	if (rr->aux && end - rr->ring->aux_tail <= rr->ring->aux_size)
		add_cut(rr, end);
	if (f[2] & PERF_AUX_FLAG_TRUNCATED) {
		if (!rd->r->config.snapshot)
			rr->stop.truncated = true;
		/* It reports the stop that the last drain suspected; asked
		 * here, since the next record may report another. */
		if (end == rr->stop.suspect_head)
			rr->stop.full = false;
		if (!rr->stop.reported || rr->stop.reported_at != end)
			enter_loss(rd, rr, AUX_LEDGER_TRUNCATED, end, false);
		rr->stop.reported = true;
		rr->stop.reported_at = end;
	}
	if (f[2] & PERF_AUX_FLAG_PARTIAL)
		enter_loss(rd, rr, AUX_LEDGER_PARTIAL, end, false);
	if (f[2] & PERF_AUX_FLAG_COLLISION)
		enter_loss(rd, rr, AUX_LEDGER_COLLISION, end, false);
}

/* PERF_RECORD_LOST or LOST_SAMPLES; the count stands at byte at of the body. */
static void inspect_lost(struct rec_reader *rd, struct rec_ring *rr,
		      const struct perf_event_header *h, size_t at)
{
	uint64_t n;

	if (h->size < sizeof(*h) + at + sizeof(n))
		return;
	memcpy(&n, (const uint8_t *)(h + 1) + at, sizeof(n));
	if (h->type == PERF_RECORD_LOST)
		rd->n_lost += n;
	ledger_add(rd->r->ledger, LEDGER_NO_STREAM,
		   AUX_LEDGER_LOST_RECORDS, n, rr->times.before_ns, rr->times.last_ns);
	/* An AUX record with TRUNCATED may be among them: restart to be
	 * safe. */
	if (rr->aux && !rd->r->config.snapshot)
		rr->stop.truncated = true;
}

/* The build id that the kernel gives of a mapped file: HEADER_BUILD_ID names
 * it, for perf buildid-list and perf archive. */
static void inspect_build_id(struct rec_reader *rd,
			     const struct perf_event_header *h)
{
	struct {
		struct perf_event_header h;
		uint32_t pid, tid;
		uint64_t addr, len, pgoff;
		uint8_t id_size, reserved[3], id[20];
		uint32_t prot, flags;
	} m;
	const char *name = (const char *)h + sizeof(m);

	if (!(h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) ||
	    h->size <= sizeof(m) + 1)
		return;
	memcpy(&m, h, sizeof(m));
	if (!m.id_size || m.id_size > sizeof(m.id) || *name != '/' ||
	    !memchr(name, 0, h->size - sizeof(m)))
		return;
	writer_build_id(rd->r->w, UINT32_MAX,
			h->misc & PERF_RECORD_MISC_CPUMODE_MASK, name, m.id,
			m.id_size);
}

/*
 * Saves the vdso, which no file contains. Every 64-bit program has the same
 * image as this one, at an address of its own. A 32-bit program's image is
 * another one; it is mapped below 4 GB.
 */
static void inspect_mmap2(struct rec_reader *rd, struct rec_ring *rr,
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

	inspect_build_id(rd, h);
	if (h->size < sizeof(m) + 8 || !own || sizeof(own) != 8 ||
	    memcmp((const uint8_t *)h + sizeof(m), name, sizeof(name)))
		return;
	memcpy(&m, h, sizeof(m));
	if (!(m.addr >> 32) || m.len > 4 * (uint64_t)sysconf(_SC_PAGESIZE))
		return;
	e.time_ns = rr->times.last_ns;
	e.addr = m.addr;
	e.len = m.len;
	e.pid = m.pid;
	writer_code(rd->r->w, &e, own);
}

/* An event of the ring counts again. Of a stop that an earlier file has the
 * present ledger knows nothing. */
static void end_throttle(struct rec_reader *rd, struct rec_ring *rr, uint64_t t)
{
	struct ledger *l = rd->r->ledger;

	rr->n_throttled -= rr->n_throttled > 0;
	if (ledger_times(l, AUX_LEDGER_THROTTLED))
		ledger_until(l, LEDGER_NO_STREAM, AUX_LEDGER_THROTTLED, t);
}

/* The stack pointer, which a probe's sample ends with: its ABI (0: there is none), it. */
static void read_stack(const struct evlist_event *ev, const struct perf_event_header *h,
		       struct rec_moment *m)
{
	const uint8_t *end = (const uint8_t *)h + h->size;
	uint64_t abi = 0;

	if (!(ev->attr.sample_type & PERF_SAMPLE_REGS_INTR) || h->size < sizeof(*h) + 56)
		return;
	memcpy(&abi, end - 16, sizeof(abi));
	memcpy(&m->sp, end - 8, sizeof(m->sp));
	m->is_32 = abi == PERF_SAMPLE_REGS_ABI_32;
}

/* oom:mark_victim says whom the kernel kills: RAW ends the sample, with a size and the
 * common fields (8 bytes) before it. */
static void read_victim(const struct evlist_event *ev, const struct perf_event_header *h,
			struct rec_moment *m)
{
	const uint8_t *raw = (const uint8_t *)(h + 1) + 48;	/* IDENTIFIER to PERIOD */
	int32_t pid;

	if (strcmp(ev->spec.text, EVLIST_OOM) || !(ev->attr.sample_type & PERF_SAMPLE_RAW) ||
	    h->size < sizeof(*h) + 48 + 16)
		return;
	memcpy(&pid, raw + 4 + 8, sizeof(pid));
	m->m.pid = m->m.tid = (uint32_t)pid;
}

/* A sample of an event that --when waits for: IDENTIFIER, [IP], TID, TIME. */
static void inspect_moment(struct rec_reader *rd, const struct rec_ring *rr,
			   const struct perf_event_header *h, uint64_t time_ns)
{
	static const enum rec_moment_what whats[] = {
		[PROBE_MOMENT] = REC_MOMENT, [PROBE_CALL] = REC_CALL,
		[PROBE_RETURN] = REC_RETURN, [PROBE_OPEN] = REC_OPEN,
		[PROBE_SHUT] = REC_SHUT,
	};
	const uint8_t *p = (const uint8_t *)(h + 1);
	struct rec_moment m = { .m = { .time_ns = time_ns,
				       .cpu = (uint32_t)rr->set->cpu } };
	const struct evlist_event *ev;
	uint64_t id;

	if (!time_ns)	/* too short, or of no event */
		return;
	memcpy(&id, p, sizeof(id));
	ev = event_of(rd->r, id);
	if (!ev || (!ev->trigger && (!ev->probe || evlist_aux_action(&ev->attr))))
		return;
	p += ev->attr.sample_type & PERF_SAMPLE_IP ? 16 : 8;
	memcpy(&m.m.pid, p, sizeof(m.m.pid));
	memcpy(&m.m.tid, p + 4, sizeof(m.m.tid));
	m.trigger = ev->trigger;
	m.kernel = ev->probe && ev->probe->kernel;
	if (ev->probe)
		m.what = whats[ev->probe->what];
	if (ev->probe && !ev->trigger)	/* of --window: beyond those of --when */
		m.trigger = TRIGGERS_MAX + ev->probe->trigger;
	read_stack(ev, h, &m);
	read_victim(ev, h, &m);
	rec_moment_add(rd->r, &m);
}

/* FORK and EXIT: pid, ppid, tid, ptid, time. */
static void inspect_task(struct rec_reader *rd, const struct perf_event_header *h)
{
	struct rec_moment m = { .what = h->type == PERF_RECORD_FORK ? REC_TASK_BEGIN :
								      REC_TASK_END };
	struct {
		uint32_t pid, ppid, tid, ptid;
		uint64_t time;
	} t;

	if (!rd->r->config.tasks || h->size < sizeof(*h) + sizeof(t))
		return;
	memcpy(&t, h + 1, sizeof(t));
	m.m.pid = t.pid;
	m.m.tid = t.tid;
	m.m.time_ns = t.time;
	rec_moment_add(rd->r, &m);
}

void rec_inspect(struct rec_reader *rd, struct rec_ring *rr,
	      const struct perf_event_header *h)
{
	uint64_t t = record_time(rd->r, h);

	if (t) {
		rr->times.before_ns = rr->times.last_ns;
		rr->times.last_ns = t;
		if (!rr->times.first_ns)
			rr->times.first_ns = t;
	}
	if (rd->r->config.save)
		codesave_inspect(rd->r->config.save, h, t);
	switch (h->type) {
	case PERF_RECORD_AUX:
		inspect_aux(rd, rr, h);
		break;
	case PERF_RECORD_MMAP2:
		inspect_mmap2(rd, rr, h);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		inspect_task(rd, h);
		break;
	case PERF_RECORD_LOST:		/* id, lost */
		inspect_lost(rd, rr, h, 8);
		break;
	case PERF_RECORD_LOST_SAMPLES:
		inspect_lost(rd, rr, h, 0);
		break;
	case PERF_RECORD_THROTTLE:
		rr->n_throttled++;
		ledger_add(rd->r->ledger, LEDGER_NO_STREAM,
			   AUX_LEDGER_THROTTLED, 0, t, t);
		break;
	case PERF_RECORD_UNTHROTTLE:
		end_throttle(rd, rr, t);
		break;
	case PERF_RECORD_SAMPLE:
		rd->stats.n_samples++;
		inspect_moment(rd, rr, h, t);
		if (rd->r->config.sampling)
			rd->stats.sampled_bytes += sampled_trace(rd->r, h);
		break;
	default:
		break;
	}
	rd->stats.n_records++;
}

/* Writes the waiting records of a forward data ring. */
static int drain_data(struct rec_reader *rd, struct rec_ring *rr)
{
	struct recorder *r = rd->r;
	struct iovec iov[2];
	size_t len = ring_data(rr->ring, iov), pos = 0;
	uint64_t before = rr->times.last_ns;
	int ret = 0;

	while (pos < len && !ret) {
		const struct perf_event_header *h =
			ring_record(iov, pos, rd->copy, REC_COPY_MAX);

		if (!h) {	/* corrupt: drop what waits, or we loop here */
			ledger_add(r->ledger, LEDGER_NO_STREAM,
				   AUX_LEDGER_LOST_RECORDS, 1, rr->times.last_ns,
				   rr->times.last_ns);
			pos = len;
			break;
		}
		rec_inspect(rd, rr, h);
		ret = writer_record(r->w, h);
		pos += h->size;
	}
	if (rr->times.last_ns != before) {
		writer_time(r->w, rr->times.last_ns);
		writer_time(r->w, rr->times.first_ns);
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
	rr->cuts.n = 0;
	return ret;
}

static int restart(struct rec_reader *rd, struct rec_ring *rr)
{
	struct recorder *r = rd->r;

	rd->stats.n_restarts++;
	rr->stop.truncated = rr->stop.suspect = false;
	rr->stop.n_tails = 0;	/* the event starts from the present tail */
	return evset_aux_restart(r->config.set, r->config.events, rr->idx);
}

int rec_restart(struct rec_reader *rd, struct rec_ring *rr)
{
	if (!rr->aux || rd->r->config.snapshot || rd->r->config.sampling ||
	    __atomic_load_n(&rd->r->paused, __ATOMIC_RELAXED))
		return 0;
	if (rr->stop.truncated)
		return restart(rd, rr);
	if (!rr->stop.suspect || clock_ms() - rr->stop.suspect_ms < SUSPECT_MS)
		return 0;
	if (ring_aux_head(rr->ring) != rr->stop.suspect_head) {
		rr->stop.suspect = false;
		return 0;
	}
	rr->stop.nudged = true;
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

int rec_silent_end(struct rec_reader *rd, struct rec_ring *rr)
{
	if (rr->stop.truncated || (!rr->stop.suspect && !rr->stop.nudged))
		return 0;
	rr->stop.suspect = rr->stop.nudged = false;
	rd->stats.n_stalls++;
	return enter_loss(rd, rr, AUX_LEDGER_STALLED, rr->ring->aux_tail, true);
}
