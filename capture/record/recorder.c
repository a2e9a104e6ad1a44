/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recorder: the readers, their threads, and how they are brought to rest.
 *
 * Invariant: a ring is used by the reader that owns it, under that reader's
 * lock, or by the holder of all locks. A reader never waits (poll) with its
 * lock held, so a holder waits at most for one drain of each reader.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/record/impl.h"
#include "common/diag.h"

#define RINGS_PER_THREAD 8
#define MAX_THREADS 64
/* Rings are read at least this often, even below their watermark: when auxcap
 * is killed, what is still in a ring is lost. */
#define READ_PERIOD_MS 100
/* A ring that may have stopped is checked this often (see struct rec_stop). */
#define SUSPECT_PERIOD_MS 5

static void free_readers(struct recorder *r)
{
	size_t i;

	for (i = 0; r->readers && i < r->n_readers; i++) {
		struct rec_reader *rd = &r->readers[i];

		free(rd->rings);
		free(rd->fds);
		free(rd->copy);
		pthread_mutex_destroy(&rd->lock);
	}
	free(r->readers);
}

void recorder_free(struct recorder *r)
{
	size_t i;

	if (!r)
		return;
	for (i = 0; i < r->n_rings; i++) {
		struct rec_ring *rr = &r->rings[i];

		if (rr->aux)
			r->config.events->events[rr->set->aux_event]
				.aux->release(&rr->wrap);
		rec_free_copy(rr);
	}
	free_readers(r);
	rec_moments_fini(&r->moments);
	if (r->wake_fd >= 0)
		close(r->wake_fd);
	pthread_mutex_destroy(&r->held);
	free(r->rings);
	free(r);
}

/* Reader i gets rings i, i + n, i + 2n ...: neighbouring CPUs, which are often
 * busy together, go to different readers. */
static int init_reader(struct recorder *r, size_t i)
{
	struct rec_reader *rd = &r->readers[i];
	size_t k, n = r->n_rings / r->n_readers + 1;

	pthread_mutex_init(&rd->lock, NULL);
	rd->r = r;
	rd->rings = calloc(n, sizeof(*rd->rings));
	rd->fds = calloc(n + 1, sizeof(*rd->fds));
	rd->copy = malloc(REC_COPY_MAX);
	if (!rd->rings || !rd->fds || !rd->copy)
		return -AUX_E_NOMEM;
	for (k = i; k < r->n_rings; k += r->n_readers) {
		rd->fds[rd->n_rings].fd = r->rings[k].set->fd;
		rd->fds[rd->n_rings].events = POLLIN;
		rd->rings[rd->n_rings++] = &r->rings[k];
	}
	return 0;
}

static void init_rings(struct recorder *r)
{
	size_t i;

	for (i = 0; i < r->n_rings; i++) {
		struct rec_ring *rr = &r->rings[i];

		rr->ring = &r->config.rings[i];
		rr->set = &r->config.set->rings[i];
		rr->idx = (uint32_t)i;
		rr->aux = rr->ring->aux != NULL;
	}
}

static size_t count_readers(const struct recorder_config *c)
{
	size_t n = c->n_threads;

	if (!n)
		n = (c->set->n_rings + RINGS_PER_THREAD - 1) / RINGS_PER_THREAD;
	if (n > c->set->n_rings)
		n = c->set->n_rings;
	if (n > MAX_THREADS)
		n = MAX_THREADS;
	return n ? n : 1;
}

int recorder_new(struct recorder **out, const struct recorder_config *config,
		 struct aux_diag *diag)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int ret = r ? 0 : -AUX_E_NOMEM;
	size_t i;

	*out = NULL;
	if (r) {
		r->wake_fd = -1;
		pthread_mutex_init(&r->held, NULL);
		rec_moments_init(&r->moments);
		r->config = *config;
		r->n_rings = config->set->n_rings;
		r->n_readers = count_readers(config);
		r->threaded = r->n_readers > 1;
		r->rings = calloc(r->n_rings + 1, sizeof(*r->rings));
		r->readers = calloc(r->n_readers, sizeof(*r->readers));
		r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (!r->rings || !r->readers || r->wake_fd < 0)
			ret = -AUX_E_NOMEM;
		else
			init_rings(r);
	}
	for (i = 0; !ret && i < r->n_readers; i++)
		ret = init_reader(r, i);
	if (ret) {
		recorder_free(r);
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory for the readers of %zu rings",
				config->set->n_rings);
	}
	*out = r;
	return 0;
}

void recorder_output(struct recorder *r, struct writer *w)
{
	r->w = w;
}

void recorder_set_ledger(struct recorder *r, struct ledger *l)
{
	r->ledger = l;
}

void recorder_pause(struct recorder *r, bool paused)
{
	__atomic_store_n(&r->paused, paused, __ATOMIC_RELAXED);
}

void recorder_describing(struct recorder *r, bool on)
{
	r->describing = on;
}

/* Reads each ring of a reader once. final: nothing is restarted. The lock is
 * held. */
static int read_rings(struct rec_reader *rd, bool final)
{
	size_t i;
	int ret = 0;

	for (i = 0; i < rd->n_rings && !ret; i++) {
		ret = rec_drain(rd, rd->rings[i]);
		if (!ret && !final)
			ret = rec_restart(rd, rd->rings[i]);
	}
	if (!ret)
		ret = rec_end_round(rd);
	if (ret && !rd->error)
		rd->error = ret;
	return ret;
}

static int sleep_ms(struct rec_reader *rd, int timeout_ms)
{
	int ms = READ_PERIOD_MS;
	size_t i;

	pthread_mutex_lock(&rd->lock);	/* a holder reads and writes these too */
	for (i = 0; i < rd->n_rings; i++)
		if (rd->rings[i]->stop.suspect || rd->rings[i]->stop.nudged)
			ms = SUSPECT_PERIOD_MS;
	pthread_mutex_unlock(&rd->lock);
	return timeout_ms < ms ? timeout_ms : ms;
}

/* No event of the ring is alive any more. Those of tasks end with their tasks,
 * those of a CPU with the recording: before, it is a loss (end_early). */
static void note_end(const struct rec_reader *rd, struct rec_ring *rr, int live)
{
	const struct evset *set = rd->r->config.set;
	size_t i;

	for (i = 0; live < 0 && !rr->ended_ns && i < set->n_fds; i++)
		if (set->fds[i].ring == rr->idx && set->fds[i].tid < 0 &&
		    set->fds[i].cpu >= 0)
			rr->ended_ns = recorder_now(rd->r);
}

/*
 * The fd of an event whose tasks have all exited reports POLLHUP from then on
 * (perf_poll, PERF_EVENT_STATE_EXIT), and poll would spin. Replaces it by
 * another event of the same ring that is alive, or by -1.
 */
static void replace_hung_up(struct rec_reader *rd)
{
	size_t i;

	for (i = 0; i < rd->n_rings; i++)
		if (rd->fds[i].revents & (POLLHUP | POLLERR)) {
			rd->fds[i].fd = evset_ring_live(rd->r->config.set,
							rd->rings[i]->idx,
							&rd->rings[i]->live);
			note_end(rd, rd->rings[i], rd->fds[i].fd);
		}
}

/* Events that watch.c opened again wake us as those before. The lock is
 * held. */
static void take_reopened(struct rec_reader *rd)
{
	size_t i;

	for (i = 0; i < rd->n_rings; i++) {
		struct rec_ring *rr = rd->rings[i];

		if (!rr->reopened)
			continue;
		rr->reopened = false;
		rr->live = 0;
		rr->ended_ns = 0;
		rd->fds[i].fd = evset_ring_live(rd->r->config.set, rr->idx,
						&rr->live);
	}
}

static int wait_and_read(struct rec_reader *rd, size_t n_extra, int timeout_ms)
{
	int n = poll(rd->fds, rd->n_rings + n_extra,
		     sleep_ms(rd, timeout_ms)), ret;

	if (n < 0 && errno != EINTR)
		return -AUX_E_IO;
	pthread_mutex_lock(&rd->lock);
	rd->stats.n_wakeups++;
	take_reopened(rd);
	if (n > 0)
		replace_hung_up(rd);
	ret = read_rings(rd, false);
	pthread_mutex_unlock(&rd->lock);
	return ret;
}

/*
 * Raises the priority of this thread: a reader that waits for a CPU lets its
 * rings overflow. The program was forked before and is not affected. Without
 * CAP_SYS_NICE the call fails, and recording goes on as it is.
 */
static void raise_priority(void)
{
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -20);
}

static void *run_reader(void *arg)
{
	struct rec_reader *rd = arg;

	raise_priority();
	while (!__atomic_load_n(&rd->r->stopping, __ATOMIC_ACQUIRE)) {
		rd->fds[rd->n_rings].revents = 0;
		if (wait_and_read(rd, 1, READ_PERIOD_MS))
			break;	/* rd->error is set: recorder_poll returns it */
	}
	return NULL;
}

/* The thread blocks all signals: they are the main thread's, through a
 * signalfd. */
static int start_thread(struct rec_reader *rd)
{
	sigset_t all, was;
	int err;

	rd->fds[rd->n_rings].fd = rd->r->wake_fd;
	rd->fds[rd->n_rings].events = POLLIN;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	err = pthread_create(&rd->thread, NULL, run_reader, rd);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	rd->running = !err;
	return err;
}

int recorder_start(struct recorder *r, struct aux_diag *diag)
{
	size_t i;
	int err;

	if (!r->threaded)
		raise_priority();
	for (i = 0; r->threaded && i < r->n_readers; i++) {
		err = start_thread(&r->readers[i]);
		if (err)
			return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
					"reader thread %zu of %zu: %s (a lower "
					"--threads helps)", i + 1, r->n_readers,
					strerror(err));
	}
	return 0;
}

static int first_error(const struct recorder *r)
{
	size_t i;

	for (i = 0; i < r->n_readers; i++) {
		int e = __atomic_load_n(&r->readers[i].error,
					__ATOMIC_RELAXED);

		if (e)
			return e;
	}
	return 0;
}

/* With one reader the caller's descriptors join its rings in one poll. */
static int poll_alone(struct recorder *r, struct pollfd *fds, size_t n_fds,
		      int timeout_ms)
{
	struct rec_reader *rd = &r->readers[0];
	int ret;

	if (n_fds > rd->n_extra) {
		struct pollfd *p = reallocarray(rd->fds, rd->n_rings + n_fds,
						sizeof(*p));

		if (!p)
			return -AUX_E_NOMEM;
		rd->fds = p;
		rd->n_extra = n_fds;
	}
	memcpy(rd->fds + rd->n_rings, fds, n_fds * sizeof(*fds));
	ret = wait_and_read(rd, n_fds, timeout_ms);
	memcpy(fds, rd->fds + rd->n_rings, n_fds * sizeof(*fds));
	return ret;
}

int recorder_poll(struct recorder *r, struct pollfd *fds, size_t n_fds,
		  int timeout_ms)
{
	int ret;

	if (!r->threaded) {
		ret = poll_alone(r, fds, n_fds, timeout_ms);
		return ret ? ret : first_error(r);
	}
	if (poll(fds, n_fds, timeout_ms < READ_PERIOD_MS ? timeout_ms :
			     READ_PERIOD_MS) < 0 && errno != EINTR)
		return -AUX_E_IO;
	return first_error(r);
}

int rec_read_held(struct recorder *r)
{
	int ret = 0, err;
	size_t i;

	for (i = 0; i < r->n_readers; i++) {
		err = read_rings(&r->readers[i], true);
		ret = ret ? ret : err;
	}
	return ret;
}

int recorder_hold(struct recorder *r)
{
	size_t i;

	pthread_mutex_lock(&r->held);
	for (i = 0; i < r->n_readers; i++)
		pthread_mutex_lock(&r->readers[i].lock);
	return rec_read_held(r);
}

void recorder_release(struct recorder *r)
{
	size_t i;

	for (i = r->n_readers; i-- > 0;)
		pthread_mutex_unlock(&r->readers[i].lock);
	pthread_mutex_unlock(&r->held);
}

static void end_threads(struct recorder *r)
{
	uint64_t one = 1;
	size_t i;

	__atomic_store_n(&r->stopping, true, __ATOMIC_RELEASE);
	if (write(r->wake_fd, &one, sizeof(one)) < 0)
		one = 0;	/* the counter is full, hence readable already */
	for (i = 0; i < r->n_readers; i++)
		if (r->readers[i].running)
			pthread_join(r->readers[i].thread, NULL);
	for (i = 0; i < r->n_readers; i++)
		r->readers[i].running = false;
}

static const struct writer_stream *find_stream(const struct recorder *r,
					       uint32_t idx)
{
	const struct writer_stream *s;
	size_t i, n;

	s = writer_streams(r->w, &n);
	for (i = 0; i < n; i++)
		if (s[i].idx == idx)
			return &s[i];
	return NULL;
}

/*
 * Full trace: produced is what the kernel made since the last account, that is
 * how far aux_tail has come. Snapshots know what was produced only ring by
 * ring: they entered overwritten bytes themselves, and produced here is what
 * the file got.
 */
void recorder_account(struct recorder *r, struct ledger *l)
{
	size_t i;

	for (i = 0; i < r->n_rings; i++) {
		struct rec_ring *rr = &r->rings[i];
		const struct writer_stream *s = find_stream(r, rr->idx);
		uint64_t saved = s ? s->saved : 0;
		uint64_t unwritten = s ? s->unwritten : 0;

		if (!rr->aux || r->config.sampling)
			continue;
		ledger_add(l, rr->idx, AUX_LEDGER_SAVED, saved, rr->times.first_ns,
			   rr->times.last_ns);
		if (unwritten)
			ledger_add(l, rr->idx, AUX_LEDGER_UNWRITTEN, unwritten,
				   rr->times.last_ns, rr->times.last_ns);
		rr->times.first_ns = 0;	/* set anew by the next file's first record */
		if (r->config.snapshot) {
			ledger_produced(l, rr->idx, saved + unwritten);
			continue;
		}
		ledger_produced(l, rr->idx, rr->ring->aux_tail - rr->produced);
		rr->produced = rr->ring->aux_tail;
	}
}

/* Without room for a page a PMU stops, and its record of that was not read. */
static bool is_full(const struct rec_ring *rr, uint64_t left)
{
	return !rr->stop.truncated &&
	       left + (uint64_t)sysconf(_SC_PAGESIZE) >= rr->ring->aux_size;
}

/* At the end: trace left in the areas, because the file took no more. What a full
 * one had no room for is lost: how much nobody knows. */
static void account_unread(struct recorder *r)
{
	struct ledger *l = r->ledger;
	size_t i;

	for (i = 0; i < r->n_rings; i++) {
		struct rec_ring *rr = &r->rings[i];
		uint64_t left;

		if (!rr->aux || r->config.snapshot || r->config.sampling)
			continue;
		left = ring_aux_head(rr->ring) - rr->ring->aux_tail;
		if (!left)
			continue;
		ledger_produced(l, rr->idx, left);
		ledger_add(l, rr->idx, AUX_LEDGER_UNREAD, left, rr->times.last_ns,
			   rr->times.last_ns);
		if (is_full(rr, left))
			ledger_add(l, rr->idx, AUX_LEDGER_TRUNCATED, 0,
				   rr->times.last_ns, recorder_now(r));
	}
}

/*
 * The kernel writes a LOST record in front of the next record that finds room,
 * so losses after the last record are never reported in the ring. It has
 * counted them all the same (PERF_FORMAT_LOST, Linux 6.0).
 */
static void account_unreported(struct recorder *r)
{
	uint64_t lost = evset_lost(r->config.set, r->config.events);
	uint64_t reported = 0;
	size_t i;

	for (i = 0; i < r->n_readers; i++)
		reported += r->readers[i].n_lost;
	if (lost > reported)
		ledger_add(r->ledger, LEDGER_NO_STREAM, AUX_LEDGER_LOST_RECORDS,
			   lost - reported, 0, 0);
}

/* Streams that ended before the recording did, for no cause that is known. */
static int enter_ended(struct recorder *r)
{
	size_t i;
	int ret = 0;

	for (i = 0; i < r->n_rings && !ret; i++)
		if (r->rings[i].ended_ns && !r->rings[i].offline)
			ret = rec_enter_end(r, &r->rings[i], AUX_LEDGER_ENDED,
					    recorder_now(r));
	return ret;
}

/* Events that were still throttled: to the end, as far as is known. */
static void enter_throttled(struct recorder *r)
{
	size_t i;

	for (i = 0; i < r->n_rings; i++)
		if (r->rings[i].n_throttled &&
		    ledger_times(r->ledger, AUX_LEDGER_THROTTLED))
			ledger_until(r->ledger, LEDGER_NO_STREAM,
				     AUX_LEDGER_THROTTLED, recorder_now(r));
}

int recorder_finish(struct recorder *r, struct aux_diag *diag)
{
	size_t i, k;
	int ret;

	end_threads(r);
	ret = recorder_hold(r);
	if (!ret)
		ret = enter_ended(r);
	enter_throttled(r);
	for (i = 0; !ret && i < r->n_readers; i++)
		for (k = 0; !ret && k < r->readers[i].n_rings; k++)
			ret = rec_silent_end(&r->readers[i],
					     r->readers[i].rings[k]);
	writer_finish(r->w);
	recorder_account(r, r->ledger);
	account_unread(r);
	account_unreported(r);
	recorder_release(r);
	if (!ret)
		ret = first_error(r);
	if (ret)
		diag_set(diag, -ret, AUX_NO_OFFSET, "the recording stopped: %s",
			 aux_strerror(ret));
	return ret;
}

void recorder_stats(const struct recorder *r, struct recorder_stats *s)
{
	size_t i;

	memset(s, 0, sizeof(*s));
	for (i = 0; i < r->n_readers; i++) {
		const struct recorder_stats *o = &r->readers[i].stats;

		s->n_wakeups += o->n_wakeups;
		s->n_reads += o->n_reads;
		s->n_restarts += o->n_restarts;
		s->n_stalls += o->n_stalls;
		s->aux_bytes += o->aux_bytes;
		s->n_records += o->n_records;
		s->n_samples += o->n_samples;
		s->sampled_bytes += o->sampled_bytes;
	}
	s->n_snapshots = r->n_snapshots;
}

/* Bytes in the rings of a reader that will go into the file. */
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
