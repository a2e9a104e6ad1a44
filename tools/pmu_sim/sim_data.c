// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a source makes, and how it gets into the AUX area.
 *
 * The pattern: byte k that the source of CPU c makes is byte k % 8 of the
 * little-endian word `c << 56 | k / 8`, lost and skipped bytes counted, so
 * that each byte found tells its place and each hole its size.
 *
 * Without room the handle is closed with TRUNCATED and the event stays stopped
 * until it is started anew, as Intel PT's driver leaves it. What the source
 * would have made in the meantime is counted as lost when it starts again.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sched/clock.h>
#include <linux/string.h>

#include "sim.h"

u64 sim_data_now(void)
{
	return local_clock();
}

static u64 rate_of(struct sim_event *se)
{
	return se->rate ? se->rate : READ_ONCE(sim_rate);
}

static bool replays(struct sim_event *se)
{
	enum sim_payload p = se->payload ? se->payload : READ_ONCE(sim_payload);

	return p == SIM_REPLAY;
}

/* Makes n bytes that nobody gets. */
static void pass_over(struct sim_cpu *c, struct sim_event *se, u64 n)
{
	c->n.produced += n;
	se->replay_pos += n;
}

static void put_pattern(struct sim_cpu *c, u8 *to, size_t n)
{
	u64 pos = c->n.produced;

	while (n) {
		__le64 word = cpu_to_le64((u64)c->cpu << 56 |
					  (pos / 8 & GENMASK_ULL(55, 0)));
		size_t at = pos % 8, k = min_t(size_t, 8 - at, n);

		if (k == 8)
			memcpy(to, &word, 8);
		else
			memcpy(to, (u8 *)&word + at, k);
		to += k;
		pos += k;
		n -= k;
	}
}

/* Stores n bytes behind what the handle holds; the caller knows of the room. */
static void store(struct sim_cpu *c, struct sim_event *se, u64 n)
{
	struct sim_buf *b = c->buf;

	if (n > b->size) {	/* overwritten before anyone could see it */
		u64 gone = n - b->size;

		pass_over(c, se, gone);
		c->n.stored += gone;
		c->done += gone;
		n -= gone;
	}
	while (n) {
		unsigned long at = (c->handle.head + c->done) & (b->size - 1);
		size_t k = min_t(u64, n, PAGE_SIZE - offset_in_page(at));
		u8 *to = (u8 *)b->pages[at >> PAGE_SHIFT] + offset_in_page(at);

		if (replays(se))
			sim_replay_copy(to, se->replay_pos, k);
		else
			put_pattern(c, to, k);
		pass_over(c, se, k);
		c->n.stored += k;
		c->done += k;
		n -= k;
	}
}

static unsigned long room(struct sim_cpu *c)
{
	unsigned long n, unit = READ_ONCE(sim_unit);

	if (c->buf->overwrite)
		return ULONG_MAX;
	n = c->handle.size;
	/* The core keeps a byte free; Intel PT's driver fills whole pages. */
	if (c->sim->kind != SIM_ETM && !offset_in_page(n + 1))
		n++;
	n -= c->done;
	return n - n % unit;
}

/* Zeros up to the alignment asked for; the core counts them as taken. */
static void pad(struct sim_cpu *c)
{
	unsigned long align = READ_ONCE(sim_align), n, left;
	struct sim_buf *b = c->buf;

	n = left = (align - c->handle.head % align) % align;
	if (b->overwrite || !n || n > c->handle.size)
		return;
	while (left) {
		unsigned long at = (c->handle.head + n - left) & (b->size - 1);
		size_t k = min(left, PAGE_SIZE - offset_in_page(at));

		memset((u8 *)b->pages[at >> PAGE_SHIFT] + offset_in_page(at),
		       0, k);
		left -= k;
	}
	if (!perf_aux_output_skip(&c->handle, n))
		c->n.padded += n;
}

/* The event stands still until it is started anew: there is no room. */
void sim_data_stall(struct sim_cpu *c)
{
	struct sim_event *se = c->event->pmu_private;

	se->stalled = true;
	se->stalled_cpu = c->cpu;
	se->stalled_pos = c->n.produced;
	se->stalled_ns = sim_data_now();
	if (c->event->hw.target)
		se->stalled_runtime = c->event->hw.target->se.sum_exec_runtime;
	c->event->hw.state = PERF_HES_STOPPED;
}

static void truncate(struct sim_cpu *c)
{
	if (!READ_ONCE(sim_mute))
		perf_aux_output_flag(&c->handle, PERF_AUX_FLAG_TRUNCATED);
	c->n.truncated++;
	sim_data_close(c);
}

/* An event stops. Intel PT flags an area that is full, before any loss. */
void sim_data_stop(struct sim_cpu *c)
{
	if (!c->buf)
		return;
	if (room(c))
		sim_data_close(c);
	else
		truncate(c);
}

/* True when there is room to go on; else the event is stopped. */
bool sim_data_open(struct sim_cpu *c)
{
	c->buf = perf_aux_output_begin(&c->handle, c->event);
	c->done = 0;
	if (!c->buf) {
		c->n.begin_failed++;
		sim_data_stall(c);
		return false;
	}
	pad(c);
	if (READ_ONCE(sim_flags))
		perf_aux_output_flag(&c->handle, READ_ONCE(sim_flags));
	if (room(c) < READ_ONCE(sim_unit)) {
		truncate(c);
		sim_data_stall(c);
		return false;
	}
	return true;
}

void sim_data_close(struct sim_cpu *c)
{
	struct sim_buf *b = c->buf;
	unsigned long n = c->done;

	if (b->overwrite && b->growing) {
		c->handle.head += n;
	} else if (b->overwrite) {
		c->handle.head = (c->handle.head + n) & (b->size - 1);
		n = b->size;
	}
	if (n || c->handle.aux_flags & ~(u64)PERF_AUX_FLAG_OVERWRITE)
		c->n.records++;
	c->buf = NULL;
	c->done = 0;
	perf_aux_output_end(&c->handle, n);
}

/* Ends the record and begins the next. */
static bool reopen(struct sim_cpu *c)
{
	sim_data_close(c);
	return sim_data_open(c);
}

/* Bytes until the reader wants to be woken, in whole units. */
static u64 until_wakeup(struct sim_cpu *c)
{
	long left = c->handle.wakeup - (c->handle.head + c->done);
	unsigned long unit = READ_ONCE(sim_unit);

	if (c->buf->overwrite)
		return U64_MAX;
	return left <= 0 ? 0 : round_up((u64)left, unit);
}

static void deliver(struct sim_cpu *c, struct sim_event *se, u64 due)
{
	while (due && c->buf) {
		/* At least a byte each time round, whatever the core says. */
		u64 wake = max_t(u64, until_wakeup(c), 1);
		u64 n = min3(due, (u64)room(c), wake);

		if (!room(c)) {
			truncate(c);
			/* The rest of this tick is gone; silently only where
			 * the kernel is silent: when it cannot go on. */
			if (!sim_data_open(c) || !READ_ONCE(sim_mute))
				break;
			continue;
		}
		store(c, se, n);
		due -= n;
		if (room(c) && !until_wakeup(c))
			reopen(c);
	}
	c->n.lost += due;
	pass_over(c, se, due);
	if (!c->buf)	/* stalled: the hole goes on behind these */
		se->stalled_pos = c->n.produced;
}

/*
 * Carries out an order from debugfs: a flag for this record and a hole in the
 * middle of what is due. Returns how much of it is still due.
 */
static u64 inject(struct sim_cpu *c, struct sim_event *se, u64 due)
{
	u64 skip = READ_ONCE(sim_inject.skip), n;

	n = due / 2 - due / 2 % READ_ONCE(sim_unit);
	n = min_t(u64, n, room(c));
	c->inject_left--;
	c->n.injected++;
	perf_aux_output_flag(&c->handle, READ_ONCE(sim_inject.flags));
	store(c, se, n);
	c->n.skipped += skip;
	pass_over(c, se, skip);
	return due - n;
}

static bool inject_wanted(struct sim_cpu *c)
{
	if (c->inject_seen != READ_ONCE(sim_inject.gen)) {
		c->inject_seen = READ_ONCE(sim_inject.gen);
		c->inject_left = READ_ONCE(sim_inject.count);
	}
	return c->inject_left && c->buf;
}

static u64 due_now(struct sim_cpu *c, struct sim_event *se)
{
	u64 rate = rate_of(se), now = sim_data_now(), due, unit;

	if (!rate || now <= c->last_ns) {
		c->last_ns = now;
		return 0;
	}
	due = mul_u64_u64_div_u64(now - c->last_ns, rate, NSEC_PER_SEC);
	if (replays(se)) {
		int cpu = READ_ONCE(sim_replay_cpu);

		due = sim_replay_left(se->replay_pos, due);
		if (cpu >= 0 && cpu != c->cpu)
			due = 0;
		c->last_ns = now;
		return due;
	}
	unit = READ_ONCE(sim_unit);
	due -= due % unit;
	c->last_ns += mul_u64_u64_div_u64(due, NSEC_PER_SEC, rate);
	return due;
}

/* Makes and delivers what is due by now. The handle is open. */
void sim_data_advance(struct sim_cpu *c)
{
	struct sim_event *se = c->event->pmu_private;
	u64 due;

	if (c->paused)
		return;
	c->busy = true;
	barrier();
	due = due_now(c, se);
	if (due && inject_wanted(c)) {
		deliver(c, se, inject(c, se, due));
		if (c->buf)
			reopen(c);
	} else {
		deliver(c, se, due);
	}
	barrier();
	c->busy = false;
}

/*
 * The source would have run for ns more, had there been room. A hole belongs
 * where the trace stopped: once others went on from there, it is not made.
 */
void sim_data_lose(struct sim_cpu *c, u64 ns)
{
	struct sim_event *se = c->event->pmu_private;
	u64 n = mul_u64_u64_div_u64(ns, rate_of(se), NSEC_PER_SEC);

	n = replays(se) ? sim_replay_left(se->replay_pos, n) : n - n % sim_unit;
	if (se->stalled_cpu != c->cpu || se->stalled_pos != c->n.produced) {
		c->n.unmade += n;
		return;
	}
	c->n.lost += n;
	c->n.lost_stalled += n;
	pass_over(c, se, n);
}
