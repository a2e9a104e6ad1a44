/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Files as a recorder on a real kernel makes them: several events with different fields,
 * every kind of record, and AUX data of an unknown PMU.
 */
#include <stdlib.h>

#include "decode/lib/trace/trace.h"
#include "tests/unit/mkperf.h"
#include "decode/lib/session/decoders.h"
#include "tests/unit/tap.h"
#include "decode/lib/sideband/sideband.h"

enum { CYCLES, SWITCH, AUX_PMU, DUMMY, N_EVENTS };

static const struct mk_id who = { 10, 11, 500, 1 };

static void start(struct mk *m)
{
	struct perf_event_attr a[N_EVENTS];

	a[CYCLES] = mk_attr(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	a[CYCLES].sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD;
	a[SWITCH] = mk_attr(PERF_TYPE_TRACEPOINT, 314);
	a[SWITCH].sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD |
				 PERF_SAMPLE_RAW;
	a[AUX_PMU] = mk_attr(MK_PMU, 0x400);
	a[AUX_PMU].sample_type &= ~(uint64_t)PERF_SAMPLE_CPU;
	a[DUMMY] = mk_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
	mk_init_attrs(m, a, N_EVENTS);
}

/* The trailer of an event that has no CPU in it. */
static void end_short(struct mk *m, size_t at)
{
	mk_u32(m, who.pid);
	mk_u32(m, who.tid);
	mk_u64(m, who.time);
	mk_u64(m, AUX_PMU + 1);
	mk_end(m, at, NULL);
}

/* The trailer of mk_end with another id. */
static void end_as(struct mk *m, size_t at, unsigned event)
{
	mk_end(m, at, &who);
	memcpy(m->p + m->n - 8, &(uint64_t){ event + 1 }, 8);
}

static void put_sample(struct mk *m, unsigned event, const void *raw,
		       uint32_t len)
{
	size_t at = mk_begin(m, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);

	mk_u64(m, event + 1);
	mk_u64(m, 0x401000);
	mk_u32(m, who.pid);
	mk_u32(m, who.tid);
	mk_u64(m, who.time);
	mk_u32(m, who.cpu);
	mk_u32(m, 0);
	mk_u64(m, 99);	/* period */
	if (event == SWITCH) {
		mk_u32(m, len);
		mk_put(m, raw, len);
	}
	mk_end(m, at, NULL);
}

/* A record of words, with a trailer as event has it. */
static void put_words(struct mk *m, uint32_t type, const uint64_t *w, size_t n,
		      unsigned event)
{
	size_t at = mk_begin(m, type, 0);

	for (size_t i = 0; i < n; i++)
		mk_u64(m, w[i]);
	if (event == AUX_PMU)
		end_short(m, at);
	else
		end_as(m, at, event);
}

static void put_all(struct mk *m)
{
	static const uint64_t w[16] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	uint8_t raw[68] = { 0 };
	size_t at;

	memcpy(raw + 56, &(uint32_t){ 77 }, 4);
	put_sample(m, CYCLES, NULL, 0);
	put_sample(m, SWITCH, raw, sizeof(raw));
	put_words(m, PERF_RECORD_THROTTLE, w, 3, CYCLES);
	put_words(m, PERF_RECORD_UNTHROTTLE, w, 3, CYCLES);
	put_words(m, PERF_RECORD_LOST, w, 2, DUMMY);
	put_words(m, PERF_RECORD_LOST_SAMPLES, w, 1, CYCLES);
	put_words(m, PERF_RECORD_AUX, w, 3, AUX_PMU);
	put_words(m, PERF_RECORD_AUX_OUTPUT_HW_ID, w, 1, AUX_PMU);
	put_words(m, PERF_RECORD_NAMESPACES, w, 8, DUMMY);
	put_words(m, PERF_RECORD_BPF_EVENT, w, 2, DUMMY);
	put_words(m, PERF_RECORD_CGROUP, w, 3, DUMMY);
	mk_switch_wide(m, who, true, 30, 31);
	at = mk_begin(m, PERF_RECORD_KSYMBOL, 0);
	mk_u64(m, 0xffffffffc0000000);
	mk_u32(m, 64);
	mk_u32(m, 1);
	mk_text(m, "bpf_prog_1");
	end_as(m, at, DUMMY);
	/* Another 23, which no header of ours knows yet. */
	put_words(m, 23, w, 2, DUMMY);
	at = mk_begin(m, AUX_RECORD_TRACING_DATA, 0);
	mk_u32(m, 13);
	mk_end(m, at, NULL);
	mk_put(m, "seventeen bytes", 16);
	at = mk_begin(m, AUX_RECORD_FINISHED_ROUND, 0);
	mk_end(m, at, NULL);
	at = mk_begin(m, AUX_RECORD_ID_INDEX, 0);
	mk_u64(m, 1);
	for (int i = 0; i < 4; i++)
		mk_u64(m, i == 0 ? AUX_PMU + 1 : 0);
	for (int i = 0; i < 2; i++) /* Linux 6.x: machine_pid, vcpu */
		mk_u64(m, 0);
	mk_end(m, at, NULL);
}

static bool has_time(const struct aux_event *ev)
{
	return ev->id.present & PERF_SAMPLE_TIME && ev->id.time == who.time &&
	       ev->id.pid == who.pid && ev->id.tid == who.tid;
}

static void check_kernel(struct aux_reader *r)
{
	struct aux_event ev;
	unsigned n = 0, timed = 0, attrs = 0;

	while (aux_reader_next(r, &ev, NULL) == 1) {
		if (ev.type > 22)
			continue;
		n++;
		timed += has_time(&ev);
		attrs += ev.attr != NULL;
		switch (ev.type) {
		case PERF_RECORD_SAMPLE:
			ok(ev.sample.ip == 0x401000 && ev.sample.period == 99 &&
			   ev.sample.raw_data.len ==
				   (ev.id.id == SWITCH + 1 ? 68 : 0),
			   "SAMPLE of event %u", (unsigned)ev.id.id);
			break;
		case PERF_RECORD_AUX:
			ok(ev.attr == aux_reader_attr(r, AUX_PMU) &&
			   ev.aux.size == 2 && ev.aux.flags == 3 &&
			   !(ev.id.present & PERF_SAMPLE_CPU),
			   "AUX with a shorter trailer");
			break;
		case PERF_RECORD_LOST_SAMPLES:
			is_u64(ev.lost.lost, 1, "LOST_SAMPLES");
			break;
		case PERF_RECORD_KSYMBOL:
			is_str(ev.ksymbol.name, "bpf_prog_1", "KSYMBOL");
			break;
		case PERF_RECORD_SWITCH_CPU_WIDE:
			is_u64(ev.sw.next_prev_tid, 31, "SWITCH_CPU_WIDE");
			break;
		}
	}
	is_u64(n, 13, "records of the kernel");
	is_u64(timed, n, "each with its time and thread");
	is_u64(attrs, n, "and its event");
}

static void all_kinds(void)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r = NULL;
	struct timeline *tl = NULL;
	struct aux_event ev;
	struct mk m;
	unsigned n = 0;
	int rc;

	start(&m);
	put_all(&m);
	mk_finish(&m);
	ok(aux_reader_open_mem(&r, m.p, m.n, "made", &diag) == 0, "opens");
	check_kernel(r);
	aux_reader_rewind(r);
	while ((rc = aux_reader_next(r, &ev, &diag)) == 1)
		n++;
	ok(rc == 0 && n == 17, "all are read, to the end: %u %s", n, diag.text);
	rc = timeline_new(&tl, r, 0, &diag);
	ok(rc == 0 && timeline_stats(tl)->n_lost == 3, "and counted");
	ok(timeline_who(tl, 1, 500).tid == 31, "who runs");
	timeline_free(tl);
	aux_reader_close(r);
	free(m.p);
}

/* Each record cut short, with its size set to what is left. */
static void all_cuts(void)
{
	struct aux_reader *r = NULL;
	struct aux_event ev;
	struct mk m;
	size_t full;
	bool fine = true;

	start(&m);
	put_all(&m);
	full = m.n;
	for (size_t cut = 1; cut < 700 && cut < full - m.data_at; cut++) {
		struct mk c = m;

		c.n = full - cut;
		c.p = malloc(c.n);
		if (!c.p)
			return;
		memcpy(c.p, m.p, c.n);
		c.cap = c.n;
		mk_finish(&c);
		if (aux_reader_open_mem(&r, c.p, c.n, "cut", NULL) == 0)
			while (aux_reader_next(r, &ev, NULL) == 1)
				fine &= ev.raw.len >= 8;
		aux_reader_close(r);
		free(c.p);
	}
	ok(fine, "cut anywhere: no harm");
	free(m.p);
}

static void unknown_pmu(void)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r = NULL;
	struct chunks c;
	struct mk m;
	uint8_t bytes[32] = { 1, 2, 3 };

	start(&m);
	mk_auxtrace(&m, 0, 1, UINT32_MAX, 0, bytes, sizeof(bytes));
	put_words(&m, PERF_RECORD_AUX, (uint64_t[]){ 0, 29, 0 }, 3, AUX_PMU);
	mk_finish(&m);
	ok(aux_reader_open_mem(&r, m.p, m.n, "made", &diag) == 0 &&
	   chunks_read(&c, r, 0, 0, &diag) == 0, "AUX data of nobody");
	ok(c.n == 1 && c.trace_type == 0 && c.aux_bytes == 29,
	   "its bytes, by the AUX record's length");
	ok(!decoders_find(NULL, c.trace_type, &diag) &&
	   diag.code == AUX_E_UNSUPPORTED &&
	   diag.why == AUX_WHY_NO_DECODER,
	   "no decoder, and the cause: %s", diag.text);
	ok(!decoders_has(0) && !decoders_has(6), "none");
	chunks_fini(&c);
	aux_reader_close(r);
	free(m.p);
}

int main(void)
{
	all_kinds();
	all_cuts();
	unknown_pmu();
	return plan_done();
}
