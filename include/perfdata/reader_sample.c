/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PERF_RECORD_SAMPLE: the fields in the order of <linux/perf_event.h>. All of
 * them are stepped over, since the AUX area data comes last.
 */
#include "perfdata/impl.h"

#define BRANCH_COUNTERS (UINT64_C(1) << 19)	/* since Linux 6.8 */
#define BRANCH_ENTRY 24

static void skip_words(struct cursor *c, uint64_t n)
{
	if (n > cursor_left(c) / 8)
		c->bad = true;
	else
		cursor_bytes(c, n * 8);
}

static void skip_read(struct cursor *c, uint64_t format)
{
	unsigned times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
			 !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
	unsigned each = 1 + !!(format & PERF_FORMAT_ID) +
			!!(format & PERF_FORMAT_LOST);
	uint64_t n = 1;

	if (format & PERF_FORMAT_GROUP)
		n = cursor_u64(c);
	skip_words(c, times);
	if (n > cursor_left(c) / 8)
		c->bad = true;
	else
		skip_words(c, n * each);
}

static void skip_branches(struct cursor *c, uint64_t type)
{
	uint64_t n = cursor_u64(c);

	if (type & PERF_SAMPLE_BRANCH_HW_INDEX)
		cursor_u64(c);
	if (n > cursor_left(c) / BRANCH_ENTRY) {
		c->bad = true;
		return;
	}
	cursor_bytes(c, n * BRANCH_ENTRY);
	if (type & BRANCH_COUNTERS)
		skip_words(c, n);
}

static void skip_regs(struct cursor *c, uint64_t mask)
{
	if (cursor_u64(c))
		skip_words(c, (uint64_t)__builtin_popcountll(mask));
}

static struct aux_bytes take_bytes(struct cursor *c, uint64_t n)
{
	const uint8_t *p = n > cursor_left(c) ? NULL : cursor_bytes(c, n);

	if (!p)
		c->bad = true;
	return p ? (struct aux_bytes){ p, n } : (struct aux_bytes){ 0 };
}

static void skip_stack(struct cursor *c)
{
	uint64_t n = cursor_u64(c);

	if (!n)
		return;
	take_bytes(c, n);
	cursor_u64(c);
}

/* Everything up to PERIOD: what a trailer has too, and the ip. */
static void parse_head(struct cursor *c, uint64_t t, struct aux_event *ev)
{
	struct aux_sample_id *id = &ev->id;

	if (t & PERF_SAMPLE_IDENTIFIER)
		id->id = cursor_u64(c);
	if (t & PERF_SAMPLE_IP)
		ev->sample.ip = cursor_u64(c);
	if (t & PERF_SAMPLE_TID) {
		id->pid = cursor_u32(c);
		id->tid = cursor_u32(c);
	}
	if (t & PERF_SAMPLE_TIME)
		id->time = cursor_u64(c);
	if (t & PERF_SAMPLE_ADDR)
		cursor_u64(c);
	if (t & PERF_SAMPLE_ID)
		id->id = cursor_u64(c);
	if (t & PERF_SAMPLE_STREAM_ID)
		id->stream_id = cursor_u64(c);
	if (t & PERF_SAMPLE_CPU) {
		id->cpu = cursor_u32(c);
		cursor_u32(c);
	}
	if (t & PERF_SAMPLE_PERIOD)
		ev->sample.period = cursor_u64(c);
}

static void parse_tail(struct cursor *c, const struct perf_event_attr *a,
		       struct aux_event *ev)
{
	uint64_t t = a->sample_type;

	if (t & PERF_SAMPLE_READ)
		skip_read(c, a->read_format);
	if (t & PERF_SAMPLE_CALLCHAIN)
		skip_words(c, cursor_u64(c));
	if (t & PERF_SAMPLE_RAW)
		ev->sample.raw_data = take_bytes(c, cursor_u32(c));
	if (t & PERF_SAMPLE_BRANCH_STACK)
		skip_branches(c, a->branch_sample_type);
	if (t & PERF_SAMPLE_REGS_USER)
		skip_regs(c, a->sample_regs_user);
	if (t & PERF_SAMPLE_STACK_USER)
		skip_stack(c);
	if (t & PERF_SAMPLE_WEIGHT_TYPE)
		cursor_u64(c);
	if (t & PERF_SAMPLE_DATA_SRC)
		cursor_u64(c);
	if (t & PERF_SAMPLE_TRANSACTION)
		cursor_u64(c);
	if (t & PERF_SAMPLE_REGS_INTR)
		skip_regs(c, a->sample_regs_intr);
	if (t & PERF_SAMPLE_PHYS_ADDR)
		cursor_u64(c);
	if (t & PERF_SAMPLE_CGROUP)
		ev->sample.cgroup = cursor_u64(c);
	if (t & PERF_SAMPLE_DATA_PAGE_SIZE)
		cursor_u64(c);
	if (t & PERF_SAMPLE_CODE_PAGE_SIZE)
		cursor_u64(c);
	if (t & PERF_SAMPLE_AUX)
		ev->sample.aux = take_bytes(c, cursor_u64(c));
}

void sample_parse(struct cursor *c, const struct aux_attr *attr,
		  struct aux_event *ev)
{
	uint64_t t = attr->attr.sample_type;

	parse_head(c, t, ev);
	parse_tail(c, &attr->attr, ev);
	ev->id.present = t & (PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			      PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID |
			      PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER);
}
