/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much trace a sample brings. It is the sample's last field, behind others
 * whose length changes: those that our events can have are stepped over, in the
 * order of <linux/perf_event.h>.
 */
#include "capture/record/impl.h"

/* table: fields of one word */
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

/* The word at hand; behind the end there are zeros. */
static uint64_t word(const struct sample *s)
{
	return s->at < s->n ? s->w[s->at] : 0;
}

static void skip(struct sample *s, uint64_t n)
{
	s->at = n > s->n - s->at ? s->n : s->at + n;
}

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

static uint64_t aux_of(const struct perf_event_attr *a, struct sample *s)
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
	if (a->sample_type & PERF_SAMPLE_RAW)	/* u32 size, and so much */
		skip(s, ((uint32_t)word(s) + UINT64_C(4) + 7) / 8);
	return word(s);
}

uint64_t rec_sample_aux(const struct recorder *r,
			const struct perf_event_header *h)
{
	const struct evset *set = r->config.set;
	struct sample s = { .w = (const void *)(h + 1),
			    .n = (h->size - sizeof(*h)) / 8 };
	size_t i;

	for (i = 0; i < set->n_fds; i++)
		if (set->fds[i].id == word(&s))
			return aux_of(&r->config.events->events[set->fds[i].event]
					       .attr, &s);
	return 0;
}
