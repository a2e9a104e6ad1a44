/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The recorder on a kernel simulated in memory (fakekernel.h): which bytes it saves and
 * releases, when it restarts an event, and how it accounts for lost trace.
 */
#include <time.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/fakekernel.h"

/* Odd lengths, so that padding is needed, over many wraps of both rings. */
static void test_full_trace(void)
{
	struct fake *f = fake_new(1);
	struct fake_ring *k = &f->rings[0];
	struct found found;
	struct file file;
	bool given_back = true;
	unsigned i;

	begin(f);
	for (i = 0; i < 300; i++) {
		trace_with_record(f, 0, 1 + i * 131 % 4096);
		turn(f);
		given_back &= k->page.aux_tail == k->made &&
			      k->page.data_tail == k->page.data_head;
	}
	trace_with_record(f, 0, 77);	/* read at the end */
	file = end(f);
	found = look(&file);
	ok(given_back, "full trace: room is given back at once");
	ok(found.true_bytes && !found.gaps, "full trace: the kernel's bytes");
	is_u64(found.bytes, k->made, "full trace: all of them");
	ok(k->made > 10 * AUX, "full trace: the area wrapped");
	ok(found.padded && found.n_chunks == 301, "full trace: padded to 8");
	is_u64(found.n_of[PERF_RECORD_AUX], k->n_records,
	       "full trace: every record");
	ok(found.in_order, "full trace: in order");
	is_u64(ledger_total(&f->ledger, AUX_LEDGER_SAVED), k->made,
	       "full trace: so the ledger says");
	ok(!ledger_lossy(&f->ledger) && !n_calls, "full trace: no loss");
	fake_free(f);
}

static const unsigned long again[] = { PERF_EVENT_IOC_DISABLE,
				       PERF_EVENT_IOC_ENABLE };

/* The kernel found no room: what it drops has no position in the stream. */
static void test_truncated(void)
{
	struct fake *f = fake_new(1);
	struct recorder_stats s;
	struct found found;
	struct file file;

	begin(f);
	trace(f, 0, AUX, false);
	put_aux_record(f, 0, 0, AUX, PERF_AUX_FLAG_TRUNCATED);
	put_aux_record(f, 0, AUX, 0, PERF_AUX_FLAG_TRUNCATED);
	turn(f);
	ok(asked(f->fds[0].fd, again, 2),
	   "truncated: the event is disabled, then enabled");
	ok(f->rings[0].page.aux_tail == AUX, "truncated: when there is room");
	is_u64(ledger_times(&f->ledger, AUX_LEDGER_TRUNCATED), 1,
	       "truncated: two records of one overrun are one loss");
	n_calls = 0;
	trace(f, 0, 100, false);
	put_aux_record(f, 0, AUX, 100, PERF_AUX_FLAG_TRUNCATED |
		       PERF_AUX_FLAG_PARTIAL);
	recorder_pause(f->r, true);
	turn(f);
	ok(!n_calls, "truncated: what the user disabled stays so");
	recorder_stats(f->r, &s);
	is_u64(s.n_restarts, 1, "truncated: started again once");
	file = end(f);
	found = look(&file);
	ok(found.bytes == AUX + 100 && found.true_bytes && !found.gaps,
	   "truncated: what was made is saved");
	ok(ledger_times(&f->ledger, AUX_LEDGER_TRUNCATED) == 2 &&
	   ledger_times(&f->ledger, AUX_LEDGER_PARTIAL) == 1,
	   "truncated: both causes of the second");
	ok(ledger_lossy(&f->ledger), "truncated: that is a loss");
	fake_free(f);
}

static bool off_then_on(int fd)
{
	bool on = false, bad = n_calls < 2;
	size_t i;

	for (i = 0; i < n_calls; i++) {
		bool now = calls[i].request == PERF_EVENT_IOC_ENABLE;

		bad |= calls[i].fd != fd || (on && !now) || (!i && now) ||
		       (!now && calls[i].request != PERF_EVENT_IOC_DISABLE);
		on = now;
	}
	return on && !bad;
}

/*
 * The clock, which stands still from stop_clock() on and passes by nap_ms() alone: how
 * long a ring stands still is not to depend on how busy this machine is.
 */
static struct timespec stopped;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (!stopped.tv_sec)
		return (int)syscall(SYS_clock_gettime, clock, t);
	*t = stopped;
	return 0;
}

static void stop_clock(void)
{
	stopped.tv_sec = 1000;
	stopped.tv_nsec = 0;
}

static void nap_ms(long ms)
{
	stopped.tv_nsec += ms * 1000000;
}

/* A driver found too little room to go on: then no record tells. */
#define ROOM 64	/* less than a page */
static void test_stalled(void)
{
	struct fake *f = fake_new(1);
	struct recorder_stats s;
	struct found found;
	struct file file;

	stop_clock();
	begin(f);
	trace(f, 0, AUX - ROOM, false);
	turn(f);
	ok(!n_calls, "stalled: a full ring alone is none");
	trace(f, 0, 16, false);
	nap_ms(10);
	turn(f);
	ok(!n_calls, "stalled: nor is one that goes on");
	trace(f, 0, AUX - ROOM, false);
	turn(f);
	nap_ms(10);
	turn(f);
	ok(asked(f->fds[0].fd, again, 2),
	   "stalled: one that stands still is started again");
	recorder_stats(f->r, &s);
	ok(s.n_stalls == 0, "stalled: what stands still may have been idle");
	trace(f, 0, 8, false);
	turn(f);
	recorder_stats(f->r, &s);
	is_u64(s.n_stalls, 1, "stalled: it was not, as the head shows");
	file = end(f);
	found = look(&file);
	ok(found.n_own[AUX_OWN_LOSS] == 1 &&
	   found.loss.cause == AUX_LEDGER_STALLED && found.loss.bytes == 0 &&
	   found.loss.offset == 2 * (AUX - ROOM) + 16,
	   "stalled: the file tells, and from which byte on");
	is_u64(ledger_times(&f->ledger, AUX_LEDGER_STALLED), 1,
	       "stalled: the ledger tells");
	ok(found.bytes == f->rings[0].made && found.true_bytes,
	   "stalled: nothing else is missing");
	stopped.tv_sec = 0;
	fake_free(f);
}

/* perf_aux_output_begin found no room at all: what comes then comes from another
 * event of the ring, or from one that was started anew. */
static void test_brimful(void)
{
	struct fake *f = fake_new(1);
	struct found found;
	struct file file;

	begin(f);
	trace(f, 0, AUX - 1, false);
	turn(f);
	trace(f, 0, 33, false);
	turn(f);
	trace(f, 0, AUX - 1, false);
	put_aux_record(f, 0, f->rings[0].made - 16, 16, PERF_AUX_FLAG_TRUNCATED);
	turn(f);
	trace(f, 0, 8, false);
	turn(f);
	is_u64(ledger_times(&f->ledger, AUX_LEDGER_STALLED), 1,
	       "brimful: a full area that no record tells of is a loss");
	is_u64(ledger_times(&f->ledger, AUX_LEDGER_TRUNCATED), 1,
	       "brimful: one that a record tells of is one, too");
	file = end(f);
	found = look(&file);
	ok(found.n_own[AUX_OWN_LOSS] == 1 && found.loss.offset == AUX - 1,
	   "brimful: the file tells where");
	ok(found.bytes == f->rings[0].made && found.true_bytes,
	   "brimful: nothing else is missing");
	fake_free(f);
}

/* The area is full again each time, and each time a record tells: the next record
 * must not hide what the last one said. */
/* The file takes no more: the area fills up, or not, until the recording ends. */
static void test_full_disk(uint64_t left, unsigned n_full)
{
	struct fake *f = fake_new(1);
	struct aux_diag diag = { 0 };
	struct rlimit was, lim;
	struct pollfd none;
	int ret = 0;

	begin(f);
	getrlimit(RLIMIT_FSIZE, &was);
	lim = was;
	lim.rlim_cur = 65536;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &lim);
	for (unsigned i = 0; i < 5000 && !ret; i++) {
		trace_with_record(f, 0, 4096);
		ret = recorder_poll(f->r, &none, 0, 0);
	}
	ok(ret < 0, "the file is full");
	trace_with_record(f, 0, left - (f->rings[0].made - f->mapped[0].aux_tail));
	ok(recorder_finish(f->r, &diag) < 0, "%llu bytes are left: an error",
	   (unsigned long long)left);
	setrlimit(RLIMIT_FSIZE, &was);
	is_u64(ledger_times(&f->ledger, AUX_LEDGER_TRUNCATED), n_full,
	       "an area that was full is told");
	ok(ledger_lossy(&f->ledger), "trace is missing");
	writer_close(f->w, NULL);
	fake_free(f);
}

static void test_reported(void)
{
	struct fake *f = fake_new(1);
	struct file file;
	int i;

	begin(f);
	for (i = 0; i < 5; i++) {
		trace(f, 0, AUX - 1, false);
		put_aux_record(f, 0, f->rings[0].made - 16, 16,
			       PERF_AUX_FLAG_TRUNCATED);
		turn(f);
	}
	/* the record comes late: the head was seen before it */
	trace(f, 0, AUX - 1, false);
	turn(f);
	put_aux_record(f, 0, f->rings[0].made - 16, 16, PERF_AUX_FLAG_TRUNCATED);
	trace(f, 0, AUX - 1, false);
	put_aux_record(f, 0, f->rings[0].made - 16, 16, PERF_AUX_FLAG_TRUNCATED);
	turn(f);
	trace(f, 0, 8, false);
	turn(f);
	is_u64(ledger_times(&f->ledger, AUX_LEDGER_TRUNCATED), 7,
	       "reported: each stop is a loss");
	is_u64(ledger_times(&f->ledger, AUX_LEDGER_STALLED), 0,
	       "reported: and is counted once");
	file = end(f);
	ok(file.len != 0, "reported: the file");
	free(file.data);
	fake_free(f);
}

/* What read(2) of an event gives: value, id, lost. */
static void count_lost(struct fake *f, size_t i, uint64_t lost)
{
	uint64_t v[3] = { 0, f->fds[i].id, lost };
	int p[2];

	if (pipe(p) || write(p[1], v, sizeof(v)) != (ssize_t)sizeof(v))
		ok(0, "a pipe");
	close(p[1]);
	close(f->fds[i].fd);
	f->fds[i].fd = p[0];
	f->events[f->fds[i].event].attr.read_format |= PERF_FORMAT_LOST;
}

static void test_lost(void)
{
	uint64_t body[2] = { 200, 1000 };
	struct fake *f = fake_new(1);
	struct found found;
	struct file file;

	begin(f);
	put_record(f, 0, PERF_RECORD_LOST, body, sizeof(body));
	turn(f);
	is_u64(ledger_total(&f->ledger, AUX_LEDGER_LOST_RECORDS), 1000,
	       "lost: as the record says");
	ok(asked(f->fds[0].fd, again, 2),
	   "lost: one that told of a stop may be among them");
	body[1] = 7;
	put_record(f, 0, PERF_RECORD_LOST, body, sizeof(body));
	put_record(f, 0, PERF_RECORD_LOST_SAMPLES, body + 1, 8);
	count_lost(f, 1, 1030);	/* 23 behind the last record that says so */
	file = end(f);
	found = look(&file);
	is_u64(ledger_total(&f->ledger, AUX_LEDGER_LOST_RECORDS), 1037,
	       "lost: at the end what the kernel counted and no record tells");
	ok(found.n_of[PERF_RECORD_LOST] == 2 && found.in_order,
	   "lost: the records are in the file");
	fake_free(f);
}

static const struct aux_ledger_entry *entry_of(const struct ledger *l,
					       uint32_t cause)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (l->entries[i].cause == cause)
			return &l->entries[i];
	return NULL;
}

/* Times of records: 1, 2, 3 ... of each ring. */
static void test_throttled(void)
{
	const struct aux_ledger_entry *e;
	struct fake *f = fake_new(2);
	uint64_t body[3] = { 0 };
	struct file file;

	begin(f);
	put_aux_record(f, 0, 0, 0, 0);
	put_record(f, 0, PERF_RECORD_THROTTLE, body, sizeof(body));
	put_aux_record(f, 0, 0, 0, 0);
	put_record(f, 0, PERF_RECORD_UNTHROTTLE, body, sizeof(body));
	put_aux_record(f, 0, 0, 0, 0);
	turn(f);
	e = entry_of(&f->ledger, AUX_LEDGER_THROTTLED);
	ok(e && e->n == 1 && e->first_ns == 2 && e->last_ns == 4,
	   "throttled: from one record to the other");
	f->rings[1].time = 10;
	put_record(f, 1, PERF_RECORD_THROTTLE, body, sizeof(body));
	put_aux_record(f, 1, 0, 0, 0);
	file = end(f);
	e = entry_of(&f->ledger, AUX_LEDGER_THROTTLED);
	ok(e && e->n == 2 && e->first_ns == 2 && e->last_ns == 12,
	   "throttled at the end: to the end");
	free(file.data);
	fake_free(f);
}

/* In the place of the event: a pipe that nobody writes to any more. */
static void hang_up(struct fake *f, uint32_t ring)
{
	size_t i;
	int p[2];

	if (pipe(p))
		exit(1);
	close(p[1]);
	for (i = 0; i < f->set.n_fds; i++)
		if (f->fds[i].ring == ring && dup2(p[0], f->fds[i].fd) < 0)
			exit(1);
	close(p[0]);
}

/* All events of a CPU end, and it is not offline. Those of a task may. */
static void test_ended(void)
{
	const struct aux_ledger_entry *e;
	struct fake *f = fake_new(3);
	struct found found;
	struct file file;

	f->fds[4].tid = f->fds[5].tid = 77;
	begin(f);
	trace_with_record(f, 1, 100);
	turn(f);
	hang_up(f, 1);
	hang_up(f, 2);
	turn(f);
	trace_with_record(f, 0, 100);
	file = end(f);
	e = entry_of(&f->ledger, AUX_LEDGER_ENDED);
	ok(e && e->n == 1 && e->idx == 1 && !e->bytes && e->first_ns == 1,
	   "ended: the stream whose events have, from its last record on");
	is_u64(ledger_times(&f->ledger, AUX_LEDGER_ENDED), 1, "ended: it alone");
	ok(ledger_lossy(&f->ledger), "ended: a loss");
	found = look(&file);
	is_u64(found.n_own[AUX_OWN_LOSS], 1, "ended: the file has its place");
	fake_free(f);
}

/* A record that cannot be: what waits is given up, what comes is read. */
static void test_damaged(void)
{
	struct fake *f = fake_new(1);
	struct fake_ring *k = &f->rings[0];
	struct found found;
	struct file file;

	begin(f);
	put_aux_record(f, 0, 0, 0, 0);
	put_aux_record(f, 0, 0, 0, 0);
	memset(k->data + 64 + 6, 0, 2);	/* the second's size */
	turn(f);
	is_u64(ledger_total(&f->ledger, AUX_LEDGER_LOST_RECORDS), 1,
	       "damaged: counted");
	put_aux_record(f, 0, 0, 0, 0);
	file = end(f);
	found = look(&file);
	is_u64(found.n_of[PERF_RECORD_AUX], 2, "damaged: before and behind");
	fake_free(f);
}

static void snapshot(struct fake *f, const char *label, bool stay_off)
{
	struct aux_diag diag = { 0 };

	n_calls = 0;
	ok(!recorder_snapshot(f->r, AUX_SNAPSHOT_CONTROL, label, stay_off,
			      &diag), "a snapshot %s", diag.text);
}

/* Little, more, round and round, an exact multiple of the size, nothing. */
static void test_snapshot(bool offset_head)
{
	static const uint64_t steps[] = { 300, 201, 5 * AUX + 1000, 64, 0, AUX,
					  AUX - 1, 3 * AUX };
	const char *text = offset_head ? "offset" : "growing";
	struct fake *f = fake_new(1);
	struct fake_ring *k = &f->rings[0];
	uint64_t saved = 0, over = 0, chunk_at[8], n = 0;
	struct found found;
	struct file file;
	size_t i;

	f->config.snapshot = true;
	begin(f);
	for (i = 0; i < 8; i++) {
		trace(f, 0, steps[i], offset_head);
		put_aux_record(f, 0, 0, 0, PERF_AUX_FLAG_OVERWRITE);
		turn(f);
		saved += steps[i] < AUX ? steps[i] : AUX;
		over += steps[i] < AUX ? 0 : steps[i] - AUX;
		if (steps[i])
			chunk_at[n++] = k->made - (steps[i] < AUX ? steps[i] :
							    AUX);
		snapshot(f, i == 7 ? "the last" : NULL, i == 7);
		if (i == 7)
			ok(asked(f->fds[0].fd, again, 1),
			   "%s: it stays off", text);
		else if (!off_then_on(f->fds[0].fd))
			ok(0, "%s: off, then on", text);
	}
	ok(!k->page.aux_tail, "%s: the kernel's tail is not touched", text);
	ok(ledger_total(&f->ledger, AUX_LEDGER_OVERWRITTEN) >= over % AUX,
	   "%s: what was written over is counted", text);
	file = end(f);
	made_at = chunk_at;
	found = look(&file);
	made_at = NULL;
	is_u64(found.n_own[AUX_OWN_SNAPSHOT], 8, "eight snapshots");
	is_str(found.label, "the last", "the label");
	ok(found.snap[7].number == 8 &&
	   found.snap[7].reason == AUX_SNAPSHOT_CONTROL, "number and reason");
	is_u64(found.first_own_at, 8, "side-band up to then is before");
	ok(found.in_order && found.padded, "%s: none overlaps", text);
	is_u64(found.bytes, saved, "no byte that was there is left out");
	ok(found.true_bytes, "%s: the newest bytes, in order", text);
	if (!offset_head) {
		is_u64(found.gaps, over, "at their places in the stream");
		is_u64(ledger_total(&f->ledger, AUX_LEDGER_OVERWRITTEN), over,
		       "and the gaps in the ledger");
	}
	ok((ledger_total(&f->ledger, AUX_LEDGER_AT_LEAST) != 0) == offset_head,
	   "%s: whether that is all is said", text);
	ok(!ledger_lossy(&f->ledger), "%s: overwriting is no loss", text);
	fake_free(f);
}

/* No CPU stands still while the area of another is copied. */
static void test_snapshot_stops(void)
{
	static const unsigned long turns[] = { PERF_EVENT_IOC_DISABLE,
					       PERF_EVENT_IOC_ENABLE };
	struct fake *f = fake_new(3);
	size_t i, wrong = 0;
	struct file file;

	f->config.snapshot = true;
	begin(f);
	for (i = 0; i < 3; i++)
		trace(f, (uint32_t)i, 500, true);
	snapshot(f, NULL, false);
	for (i = 0; i < n_calls; i++)
		wrong += calls[i].fd != f->fds[i / 2 * 2].fd ||
			 calls[i].request != turns[i % 2];
	ok(n_calls == 6 && !wrong, "three rings: one after the other stops");
	file = end(f);
	free(file.data);
	fake_free(f);
}

/* As the kernel with attr.write_backward. */
static void put_backward(struct fake *f, uint32_t ring)
{
	struct fake_ring *k = &f->rings[ring];
	struct {
		struct perf_event_header h;
		uint64_t body[5], t[4];
	} rec = {
		.h = { .type = PERF_RECORD_AUX, .size = sizeof(rec) },
		.t = { 0, ++k->time, ring, f->fds[2 * ring + 1].id },
	};

	k->page.data_head -= sizeof(rec);
	put_bytes(k->data, DATA, k->page.data_head, &rec, sizeof(rec));
	k->n_records++;
}

static void test_backward(void)
{
	static const unsigned long paused[] = { PERF_EVENT_IOC_PAUSE_OUTPUT,
						PERF_EVENT_IOC_PAUSE_OUTPUT };
	struct fake *f = fake_new(1);
	struct fake_ring *k = &f->rings[0];
	uint64_t room = DATA / 80;
	struct found found;
	struct file file;
	int i;

	f->set_rings[0].backward = f->mapped[0].backward = true;
	f->set_rings[0].aux_event = -1;
	f->mapped[0].aux = NULL;
	f->events[0].aux = NULL;
	f->list.n_aux = 0;
	f->config.backward = true;
	begin(f);
	for (i = 0; i < 10; i++)
		put_backward(f, 0);
	turn(f);
	snapshot(f, NULL, false);
	ok(asked(f->fds[0].fd, paused, 2) && calls[0].arg == 1 &&
	   calls[1].arg == 0, "backward: paused meanwhile");
	for (i = 0; i < 1000; i++)
		put_backward(f, 0);
	snapshot(f, NULL, false);
	put_backward(f, 0);
	snapshot(f, NULL, false);
	put_backward(f, 0);	/* nobody asks for that one */
	file = end(f);
	found = look(&file);
	is_u64(found.n_of[PERF_RECORD_AUX], 10 + room + 1,
	       "backward: all, then the newest, then what is new");
	ok(found.in_order, "backward: oldest first");
	is_u64(found.last_time[0], k->time - 1, "backward: up to the newest");
	ok(!k->page.data_tail, "backward: no tail is written");
	fake_free(f);
}

struct player {
	struct fake *f;
	uint32_t ring;
	pthread_t thread;
};

/* Writes as the kernel does: where there is room. */
static void *play(void *arg)
{
	struct player *p = arg;
	struct fake_ring *k = &p->f->rings[p->ring];
	uint64_t n = 0, left = 10 * AUX, one = 1;

	while (left) {
		uint64_t room = AUX - (k->made - __atomic_load_n(
			&k->page.aux_tail, __ATOMIC_ACQUIRE));
		uint64_t data = DATA - (k->page.data_head - __atomic_load_n(
			&k->page.data_tail, __ATOMIC_ACQUIRE));

		n = 1 + (n * 31 + 17) % 3000;
		if (n > left)
			n = left;
		if (room >= n && data >= 64) {
			trace_with_record(p->f, p->ring, n);
			left -= n;
		}
		if (write(p->f->fds[2 * p->ring].fd, &one, 8) < 0)
			break;
	}
	return NULL;
}

/* Several readers, a holder that comes between, and the end. */
static void test_threads(void)
{
	struct player players[N_RINGS];
	struct fake *f = fake_new(N_RINGS);
	struct found found;
	struct file file;
	uint64_t made = 0, records = 0;
	uint32_t i;

	f->config.n_threads = 3;
	begin(f);
	for (i = 0; i < N_RINGS; i++) {
		players[i] = (struct player){ .f = f, .ring = i };
		pthread_create(&players[i].thread, NULL, play, &players[i]);
	}
	for (i = 0; i < 20; i++) {
		turn(f);
		if (recorder_hold(f->r))
			ok(0, "threads: hold");
		recorder_release(f->r);
	}
	for (i = 0; i < N_RINGS; i++)
		pthread_join(players[i].thread, NULL);
	file = end(f);
	found = look(&file);
	for (i = 0; i < N_RINGS; i++) {
		made += f->rings[i].made;
		records += f->rings[i].n_records;
	}
	ok(found.true_bytes && !found.gaps && found.in_order,
	   "threads: every stream in order");
	is_u64(found.bytes, made, "threads: every byte");
	is_u64(found.n_of[PERF_RECORD_AUX], records, "threads: every record");
	fake_free(f);
}

/* A new file in the middle: each has its own part, and its own ledger. */
static void test_switch(void)
{
	struct fake *f = fake_new(1);
	struct ledger first = { 0 };
	struct aux_diag diag;
	struct found found;
	struct file file;
	uint64_t before;

	begin(f);
	trace_with_record(f, 0, 5000);
	ok(!recorder_hold(f->r), "switch: hold reads what waits");
	writer_finish(f->w);
	recorder_account(f->r, &f->ledger);
	before = ledger_total(&f->ledger, AUX_LEDGER_SAVED);
	ok(before == 5000 && !ledger_check(&f->ledger, &diag),
	   "switch: the first file's ledger balances");
	ledger_merge(&first, &f->ledger);
	ledger_fini(&f->ledger);
	memset(&f->ledger, 0, sizeof(f->ledger));
	writer_close(f->w, NULL);
	if (writer_open(&f->w, path, NULL, NULL))
		ok(0, "switch: the second file");
	writer_attr_add(f->w, &f->events[0].attr, name_trace, &f->fds[0].id, 1);
	recorder_output(f->r, f->w);
	recorder_release(f->r);
	trace_with_record(f, 0, 7001);
	turn(f);
	file = end(f);
	found = look(&file);
	is_u64(found.bytes, 7001, "switch: the second has the rest");
	is_u64(ledger_total(&f->ledger, AUX_LEDGER_SAVED), 7001,
	       "switch: and so its ledger");
	is_u64(found.gaps, 5000, "switch: positions go on");
	ledger_fini(&first);
	fake_free(f);
}

int main(void)
{
	char dir[] = "/tmp/auxkit-recorder.XXXXXX", old[80];

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/r.data", dir);
	snprintf(old, sizeof(old), "%s.old", path);
	test_full_trace();
	test_truncated();
	test_stalled();
	test_brimful();
	test_full_disk(AUX - 8, 1);
	test_full_disk(AUX - 3 * 4096, 0);
	test_reported();
	test_lost();
	test_damaged();
	test_throttled();
	test_ended();
	test_snapshot(false);
	test_snapshot(true);
	test_snapshot_stops();
	test_backward();
	test_threads();
	test_switch();
	unlink(path);
	unlink(old);
	rmdir(dir);
	return plan_done();
}
