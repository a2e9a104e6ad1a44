/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Self-monitoring: what a program can read of its own perf events without a
 * system call, from the first page of their mapping.
 *
 * Header only. The page is a struct perf_event_mmap_page that the kernel writes
 * at any time, under a sequence lock: all reads below are consistent. What the
 * page tells holds for the thread that reads it, on the CPU it runs on.
 * Specification: the comments in struct perf_event_mmap_page of
 * <linux/perf_event.h>, Linux 6.1. Functions return 0 or -AUX_E_*:
 * -AUX_E_UNSUPPORTED when this machine or kernel does not offer it (fall back
 * to read(2) and clock_gettime(2)), -AUX_E_LIMIT when the page does not come to
 * rest, which a live kernel never does.
 */
#ifndef AUX_SELF_H
#define AUX_SELF_H

#include <stdint.h>
#include <unistd.h>
#include <linux/perf_event.h>

#include <aux/error.h>
#include <aux/self_clock.h>
#include <aux/self_machine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of perf_event_mmap_page.capabilities: bitfields in the ABI. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define AUX_SELF_BIT(n) (1ull << (63 - (n)))
#else
#define AUX_SELF_BIT(n) (1ull << (n))
#endif
#define AUX_SELF_CAP_RDPMC AUX_SELF_BIT(2)	/* counters may be read */
#define AUX_SELF_CAP_TIME AUX_SELF_BIT(3)	/* mult, shift, offset hold */
#define AUX_SELF_CAP_ZERO AUX_SELF_BIT(4)	/* time_zero holds */
#define AUX_SELF_CAP_SHORT AUX_SELF_BIT(5)	/* cycles and mask hold */

/* Tries before a page counts as broken: 0.1 s or more; the kernel needs ns. */
#define AUX_SELF_TRIES 100000000u

/* One consistent state of the page, with the counters read meanwhile. */
struct aux_self_state {
	uint64_t caps;		/* AUX_SELF_CAP_* */
	uint64_t enabled_ns;	/* when the kernel wrote the page, see times */
	uint64_t running_ns;
	int64_t offset;		/* to be added to the counter */
	uint32_t index;		/* hardware counter + 1; 0: on none now */
	uint16_t pmc_width;	/* bits */
	uint16_t time_shift;
	uint32_t time_mult;
	uint64_t time_offset;
	uint64_t time_zero;
	uint64_t time_cycles;
	uint64_t time_mask;
	uint64_t cycles;	/* TSC (CNTVCT on Arm) now; 0 without CAP_TIME */
	uint64_t pmc;		/* the raw counter; 0 unless it may be read */
};

/* A count, and for how long it could count. */
struct aux_self_count {
	uint64_t value;		/* events, as counted */
	uint64_t enabled_ns;	/* since it was enabled, stops left out */
	uint64_t running_ns;	/* of these, on a hardware counter */
};

/*
 * One consistent state of the page, in one go. Each load is an acquire, so that
 * none moves behind the second look at the lock; times and counters are read
 * between the two looks, as they belong to what the page says then.
 */
static inline int aux_self_read(const struct perf_event_mmap_page *pg,
				struct aux_self_state *s)
{
#define AUX_SELF_LOAD(field) __atomic_load_n(&pg->field, __ATOMIC_ACQUIRE)
	uint32_t seq, tries;

	for (tries = 0; tries < AUX_SELF_TRIES; tries++) {
		seq = AUX_SELF_LOAD(lock);
		if (seq & 1)
			continue;
		s->caps = AUX_SELF_LOAD(capabilities);
		s->enabled_ns = AUX_SELF_LOAD(time_enabled);
		s->running_ns = AUX_SELF_LOAD(time_running);
		s->offset = AUX_SELF_LOAD(offset);
		s->index = AUX_SELF_LOAD(index);
		s->pmc_width = AUX_SELF_LOAD(pmc_width);
		s->time_shift = AUX_SELF_LOAD(time_shift);
		s->time_mult = AUX_SELF_LOAD(time_mult);
		s->time_offset = AUX_SELF_LOAD(time_offset);
		s->time_zero = AUX_SELF_LOAD(time_zero);
		s->time_cycles = AUX_SELF_LOAD(time_cycles);
		s->time_mask = AUX_SELF_LOAD(time_mask);
		s->cycles = s->caps & AUX_SELF_CAP_TIME ? aux_self_cycles() : 0;
		s->pmc = s->caps & AUX_SELF_CAP_RDPMC && s->index ?
				 aux_self_pmc(s->index - 1) : 0;
		if (AUX_SELF_LOAD(lock) == seq)
			return 0;
	}
	return -AUX_E_LIMIT;
#undef AUX_SELF_LOAD
}

/*
 * ns since the event was enabled, and ns of these on a counter, now: the page's
 * values and the time since they were written. That holds while the event is
 * enabled and its thread runs; of a disabled event use aux_self_read's.
 * -AUX_E_UNSUPPORTED without AUX_SELF_CAP_TIME.
 */
static inline int aux_self_state_times(const struct aux_self_state *s,
				       uint64_t *enabled_ns,
				       uint64_t *running_ns)
{
	uint64_t cycles = s->cycles, delta;

	if (!(s->caps & AUX_SELF_CAP_TIME) || s->time_shift > 63)
		return -AUX_E_UNSUPPORTED;
	if (s->caps & AUX_SELF_CAP_SHORT)
		cycles = aux_self_widen(cycles, s->time_cycles, s->time_mask);
	delta = s->time_offset +
		aux_self_scale(cycles, s->time_mult, s->time_shift);
	*enabled_ns = s->enabled_ns + delta;
	*running_ns = s->running_ns + (s->index ? delta : 0);
	return 0;
}

/* The same from the page. */
static inline int aux_self_times(const struct perf_event_mmap_page *pg,
				 uint64_t *enabled_ns, uint64_t *running_ns)
{
	struct aux_self_state s;
	int ret = aux_self_read(pg, &s);

	return ret ? ret : aux_self_state_times(&s, enabled_ns, running_ns);
}

/*
 * The event's count in this state: the counter's lower pmc_width bits are a
 * signed number that is added to offset. -AUX_E_UNSUPPORTED without
 * AUX_SELF_CAP_RDPMC: offset alone would be old. *count is as counted, not
 * scaled.
 */
static inline int aux_self_state_count(const struct aux_self_state *s,
				       uint64_t *count)
{
	uint64_t sign, pmc = s->pmc;

	if (!(s->caps & AUX_SELF_CAP_RDPMC) ||
	    (s->index && (s->pmc_width < 1 || s->pmc_width > 64)))
		return -AUX_E_UNSUPPORTED;
	*count = (uint64_t)s->offset;
	if (!s->index)
		return 0;
	sign = 1ull << (s->pmc_width - 1);
	pmc &= sign | (sign - 1);
	*count += (pmc ^ sign) - sign;
	return 0;
}

/*
 * The count and its times, by the page alone where that is possible, else by
 * read(2) of fd: the event must then have read_format TOTAL_TIME_ENABLED |
 * TOTAL_TIME_RUNNING. fd -1: -AUX_E_UNSUPPORTED instead. -AUX_E_IO when read
 * fails or gives something else.
 */
static inline int aux_self_count_read(const struct perf_event_mmap_page *pg,
				      int fd, struct aux_self_count *c)
{
	struct aux_self_state s;
	int ret = aux_self_read(pg, &s);

	if (!ret)
		ret = aux_self_state_count(&s, &c->value);
	if (!ret)
		ret = aux_self_state_times(&s, &c->enabled_ns, &c->running_ns);
	if (ret != -AUX_E_UNSUPPORTED || fd < 0)
		return ret;
	return read(fd, c, sizeof(*c)) == (ssize_t)sizeof(*c) ? 0 : -AUX_E_IO;
}

/*
 * An estimate of what the event would have counted on a counter of its own:
 * value * enabled / running. value itself when it never had to share; 0 when it
 * never ran; all ones when it does not fit.
 */
static inline uint64_t aux_self_scaled(const struct aux_self_count *c)
{
	if (!c->running_ns)
		return 0;
	if (c->running_ns >= c->enabled_ns)
		return c->value;
	return aux_self_muldiv(c->value, c->enabled_ns, c->running_ns);
}

/* The terms between cycles and perf time. -AUX_E_UNSUPPORTED without
 * AUX_SELF_CAP_ZERO. They change when the kernel adjusts its clock: read them
 * again now and then (a minute), not for each stamp. */
static inline int aux_self_clock_read(const struct perf_event_mmap_page *pg,
				      struct aux_self_clock *c)
{
	struct aux_self_state s;
	int ret = aux_self_read(pg, &s);

	if (ret)
		return ret;
	if (!(s.caps & AUX_SELF_CAP_ZERO) || !s.time_mult || s.time_shift > 63)
		return -AUX_E_UNSUPPORTED;
	c->zero = s.time_zero;
	c->mult = s.time_mult;
	c->shift = s.time_shift;
	c->cycles = s.caps & AUX_SELF_CAP_SHORT ? s.time_cycles : 0;
	c->mask = s.caps & AUX_SELF_CAP_SHORT ? s.time_mask : UINT64_MAX;
	return 0;
}

/* ns of the perf clock, now. -AUX_E_UNSUPPORTED without AUX_SELF_CAP_ZERO. */
static inline int aux_self_now(const struct perf_event_mmap_page *pg,
			       uint64_t *ns)
{
	struct aux_self_clock c;
	int ret = aux_self_clock_read(pg, &c);

	if (!ret)
		*ns = aux_self_to_ns(&c, aux_self_cycles());
	return ret;
}

#ifdef __cplusplus
}
#endif
#endif
