/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Self-monitoring: a program reads its own perf events without a system call, from the
 * first page of their mapping: counts, times, and the current time on perf's clock,
 * the clock of samples and of trace.
 *
 *	aux_self_count_read(page, fd, &count)	count and times of an event
 *	aux_self_scaled(&count)			the count, had it never been descheduled
 *	aux_self_now(page, &ns)			the time on perf's clock
 *	aux_self_clock_read(page, &clock)	to convert cycles and ns (self_clock.h)
 *
 * Header only. The page, a struct perf_event_mmap_page, may be rewritten by the kernel
 * at any moment, under a sequence lock: all functions below read a consistent state.
 * The page describes the event for the thread that it counts, on the CPU where that
 * thread runs: read it from that thread.
 *
 * Functions return 0 or -AUX_E_*: -AUX_E_UNSUPPORTED if this machine or kernel does
 * not offer it (fall back to read(2) and clock_gettime(2)); -AUX_E_LIMIT if the page
 * never becomes consistent, which does not happen with a live kernel.
 *
 * Specification: the comments in struct perf_event_mmap_page of
 * <linux/perf_event.h>, Linux 6.1.
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

/* Bits of perf_event_mmap_page.capabilities, which the ABI defines as
 * bitfields. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define AUX_SELF_BIT(n) (1ull << (63 - (n)))
#else
#define AUX_SELF_BIT(n) (1ull << (n))
#endif
#define AUX_SELF_CAP_RDPMC AUX_SELF_BIT(2)	/* user space may read counters */
#define AUX_SELF_CAP_TIME AUX_SELF_BIT(3)	/* time_mult, _shift, _offset valid */
#define AUX_SELF_CAP_ZERO AUX_SELF_BIT(4)	/* time_zero valid */
#define AUX_SELF_CAP_SHORT AUX_SELF_BIT(5)	/* time_cycles, _mask valid */

/* Attempts before a page counts as broken, at least 0.1 s. The kernel holds the
 * lock for nanoseconds. */
#define AUX_SELF_TRIES 100000000u

/* A consistent state of the page, and the counters at that moment. */
struct aux_self_state {
	uint64_t caps;		/* AUX_SELF_CAP_* */
	uint64_t enabled_ns;	/* both up to the kernel's last update of the */
	uint64_t running_ns;	/* page; see aux_self_state_times */
	int64_t offset;		/* to be added to the counter */
	uint32_t index;		/* hardware counter + 1; 0: not scheduled */
	uint16_t pmc_width;	/* bits */
	uint16_t time_shift;
	uint32_t time_mult;
	uint64_t time_offset;
	uint64_t time_zero;
	uint64_t time_cycles;
	uint64_t time_mask;
	uint64_t cycles;	/* TSC (CNTVCT on Arm) now; 0 without CAP_TIME */
	uint64_t pmc;		/* the raw counter; 0 if it may not be read */
};

/* A count and its times. The layout is that of read(2) with read_format
 * TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING. */
struct aux_self_count {
	uint64_t value;		/* events, unscaled */
	uint64_t enabled_ns;	/* time that the event was enabled */
	uint64_t running_ns;	/* of that, time on a hardware counter */
};

/*
 * Reads a consistent state. Every load is an acquire, so that none is delayed
 * past the second load of the lock. The cycle and event counters are read
 * between the two loads, since they must match offset, index and the times.
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
 * The event's enabled and running times up to now: the page's values plus the
 * time since the kernel wrote them. Valid while the event is enabled and its
 * thread runs; for a disabled event use the fields of aux_self_state.
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

/* The same, reading the page. */
static inline int aux_self_times(const struct perf_event_mmap_page *pg,
				 uint64_t *enabled_ns, uint64_t *running_ns)
{
	struct aux_self_state s;
	int ret = aux_self_read(pg, &s);

	return ret ? ret : aux_self_state_times(&s, enabled_ns, running_ns);
}

/*
 * The event's count, unscaled: offset plus the counter's lower pmc_width bits
 * as a signed number. -AUX_E_UNSUPPORTED without AUX_SELF_CAP_RDPMC, when
 * offset alone would be out of date.
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
 * The count and its times, from the page alone if possible, else by read(2) of
 * fd. For that the event must have read_format TOTAL_TIME_ENABLED |
 * TOTAL_TIME_RUNNING. fd -1: no fallback, -AUX_E_UNSUPPORTED. -AUX_E_IO if read
 * fails or returns another size.
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
 * An estimate of what the event would have counted without multiplexing: value *
 * enabled / running. value itself if it always ran; 0 if it never ran; all ones if the
 * estimate does not fit 64 bits.
 */
static inline uint64_t aux_self_scaled(const struct aux_self_count *c)
{
	if (!c->running_ns)
		return 0;
	if (c->running_ns >= c->enabled_ns)
		return c->value;
	return aux_self_muldiv(c->value, c->enabled_ns, c->running_ns);
}

/*
 * The parameters that convert between cycles and perf time. The kernel changes
 * them when it adjusts its clock: read them again about once a minute, not for
 * each time stamp. -AUX_E_UNSUPPORTED without AUX_SELF_CAP_ZERO.
 */
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

/* The current time on perf's clock, in ns. -AUX_E_UNSUPPORTED without
 * AUX_SELF_CAP_ZERO. */
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
